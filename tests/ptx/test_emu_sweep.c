/* A whole warp-specialised GEMM, made by LLVM, with its synchronisation, copies and matrix instructions
 * deleted one at a time: whatever is missing, the emulator must say so or the result must be wrong, for every
 * seed in turn. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/emulator/emu_fixture.h"
#include "tests/emulator/ptx_mutate.h"
#include "tests/support/thinned.h"

/* No setmaxnreg.inc: going without more registers changes no result. At most MOST of each, evenly spread. */
enum { MOST = WITH_SANITIZERS(3, 12), SEEDS = 3 };
static const char *const PATTERNS[] = {"bar.*",     "mbarrier.*",      "fence*", "wgmma.*", "cp.async.bulk*",
                                       "stmatrix*", "setmaxnreg.dec*", "bra*",   "ret"};

static gemm_result run(const char *ptx, uint64_t seed) {
  gemm_case c = {.ptx = ptx, .m = 256, .n = 256, .k = 512, .seed = seed, .sm_count = 2, .limit = 200000};
  return run_gemm(&c);
}

START_TEST(nothing_can_be_left_out) {
  arke_error err = ARKE_ERROR_INIT;
  char *ptx = read_case("tests/emulator/cases/gemm_128x128x64.ptx");
  int n = ptx_mutate_count(ptx, PATTERNS[_i], &err);
  ck_assert_int_gt(n, 0);
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    gemm_result r = run(ptx, seed);
    ck_assert_msg(r.status == ARKE_OK && r.wrong == 0, "the kernel itself, seed %d: %s", (int)seed,
                  r.err.text);
  }
  int step = (n + MOST - 1) / MOST;
  for (int k = 0; k < n; k += step) {
    char *less = ptx_mutate_delete(ptx, (ptx_place){PATTERNS[_i], k}, &err);
    ck_assert_msg(less != NULL, "%s", err.text);
    bool found = false;
    for (uint64_t seed = 0; seed < SEEDS && !found; seed++) {
      gemm_result r = run(less, seed);
      found = r.status != ARKE_OK || r.wrong != 0;
    }
    if (!found) ck_abort_msg("without '%s' number %d of %d the kernel passes", PATTERNS[_i], k, n);
    free(less);
  }
  free(ptx);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("emulator_sweep");
  TCase *t = tcase_create("deletions");
  tcase_set_timeout(t, 120);
  tcase_add_loop_test(t, nothing_can_be_left_out, 0, (int)COUNT_OF(PATTERNS));
  suite_add_tcase(suite, t);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_ENV);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
