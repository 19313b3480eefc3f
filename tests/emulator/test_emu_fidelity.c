/* What an H200 computed, bit for bit: digests of the results of every case (emu_fidelity cuda, driver
 * 580.159). */
#include <stdio.h>
#include <string.h>

#include "base/sha256.h"
#include "tests/emulator/emu_suites.h"
#include "tests/emulator/fidelity_cases.h"

START_TEST(matrix_results_equal_an_h200s) {
  FILE *file = fopen("tests/emulator/cases/h200_matrix_digests.txt", "r");
  ck_assert(file != NULL);
  device *d;
  arke_error err = ARKE_ERROR_INIT;
  ck_assert_msg(device_open_emulator("sm_90a", (uint64_t)_i, &d, &err) == ARKE_OK, "%s", err.text);
  static uint32_t out[FIDELITY_OUT_BYTES / 4];
  for (int i = 0; i < fidelity_case_count(); i++) {
    for (int mode = 0; mode < FIDELITY_MODE_COUNT; mode++) {
      char line[256], wanted[256], digest[SHA256_HEX_SIZE];
      memset(out, 0, sizeof out);
      ck_assert_msg(fidelity_run(d, i, (fidelity_mode)mode, out, &err) == ARKE_OK, "%s", err.text);
      sha256_hex(out, sizeof out, digest);
      snprintf(line, sizeof line, "%s %s %s\n", digest, fidelity_mode_name((fidelity_mode)mode),
               fidelity_case_name(i));
      ck_assert(fgets(wanted, sizeof wanted, file) != NULL);
      ck_assert_str_eq(line, wanted);
    }
  }
  fclose(file);
  d->ops->close(d);
}
END_TEST

TCase *emu_fidelity_case(void) {
  TCase *c = tcase_create("fidelity");
  tcase_set_timeout(c, 120);
  tcase_add_loop_test(c, matrix_results_equal_an_h200s, 0, 2);
  return c;
}
