#include "tests/base/base_suites.h"

#include <stdlib.h>

int main(void) {
  Suite *suite = suite_create("base");
  suite_add_tcase(suite, base_dtype_case());
  suite_add_tcase(suite, base_memory_case());
  suite_add_tcase(suite, base_text_case());
  suite_add_tcase(suite, base_hash_case());
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_ENV);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
