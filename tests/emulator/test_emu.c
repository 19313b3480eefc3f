#include <stdlib.h>

#include "tests/emulator/emu_suites.h"

int main(void) {
  Suite *suite = suite_create("emulator");
  suite_add_tcase(suite, emu_device_case());
  suite_add_tcase(suite, emu_memory_case());
  suite_add_tcase(suite, emu_race_case());
  suite_add_tcase(suite, emu_sync_case());
  suite_add_tcase(suite, emu_copy_case());
  suite_add_tcase(suite, emu_mma_case());
  suite_add_tcase(suite, emu_wgmma_case());
  suite_add_tcase(suite, emu_fidelity_case());
  suite_add_tcase(suite, emu_gemm_case());
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_ENV);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
