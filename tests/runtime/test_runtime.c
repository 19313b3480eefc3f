#include "tests/runtime/runtime_fixture.h"

int main(void) {
  Suite *suite = suite_create("runtime");
  suite_add_tcase(suite, cuda_device_tests());
  suite_add_tcase(suite, plan_tests());
  suite_add_tcase(suite, plan_binding_tests());
  suite_add_tcase(suite, plan_view_tests());
  suite_add_tcase(suite, run_tests());
  suite_add_tcase(suite, emulated_run_tests());
  suite_add_tcase(suite, runtime_alloc_tests());
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_NORMAL);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed == 0 ? 0 : 1;
}
