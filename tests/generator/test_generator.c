#include <stdlib.h>

#include "generator_suites.h"

int main(void) {
  Suite *suite = suite_create("generator");
  suite_add_tcase(suite, target_tests());
  suite_add_tcase(suite, builder_tests());
  suite_add_tcase(suite, builder_misuse_tests());
  suite_add_tcase(suite, warp_tests());
  suite_add_tcase(suite, wgmma_tests());
  suite_add_tcase(suite, convert_tests());
  suite_add_tcase(suite, math_tests());
  suite_add_tcase(suite, published_memory_tests());
  suite_add_tcase(suite, expression_tests());
  suite_add_tcase(suite, assemble_tests());
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_ENV);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
