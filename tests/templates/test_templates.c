#include <stdlib.h>

#include "templates_suites.h"

int main(void) {
  Suite *suite = suite_create("templates");
  suite_add_tcase(suite, template_list_tests());
  suite_add_tcase(suite, gemm_fit_tests());
  suite_add_tcase(suite, gemm_space_tests());
  suite_add_tcase(suite, gemm_cost_tests());
  suite_add_tcase(suite, bound_tests());
  suite_add_tcase(suite, gemm_lower_tests());
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_ENV);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
