#include <stdlib.h>

#include "tests/ir/ir_suites.h"

int main(void) {
  SRunner *runner = srunner_create(notation_cases_suite());
  srunner_add_suite(runner, notation_random_suite());
  srunner_add_suite(runner, notation_docs_suite());
  srunner_add_suite(runner, problem_suite());
  srunner_add_suite(runner, reference_suite());
  srunner_add_suite(runner, reference_lines_suite());
  srunner_add_suite(runner, ir_memory_suite());
  srunner_add_suite(runner, form_random_suite());
  srunner_add_suite(runner, space_suite());
  srunner_run_all(runner, CK_ENV);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
