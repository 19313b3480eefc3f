#include <stdlib.h>

#include "tests/ptx/ptx_suites.h"

int main(void) {
  SRunner *runner = srunner_create(ptx_parse_suite());
  srunner_add_suite(runner, ptx_errors_suite());
  srunner_add_suite(runner, ptx_flow_suite());
  srunner_add_suite(runner, ptx_damage_suite());
  srunner_add_suite(runner, ptx_mutate_suite());
  srunner_add_suite(runner, alu_integer_suite());
  srunner_add_suite(runner, alu_float_suite());
  srunner_add_suite(runner, alu_half_suite());
  srunner_add_suite(runner, alu_convert_suite());
  srunner_add_suite(runner, alu_move_suite());
  srunner_add_suite(runner, alu_lanes_suite());
  srunner_run_all(runner, CK_ENV);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
