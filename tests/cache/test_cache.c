#include "tests/cache/cache_suites.h"

#include <stdlib.h>

int main(void) {
  Suite *suite = suite_create("cache");
  suite_add_tcase(suite, cache_rows_case());
  suite_add_tcase(suite, cache_publish_case());
  suite_add_tcase(suite, cache_find_case());
  suite_add_tcase(suite, cache_files_case());
  suite_add_tcase(suite, cache_crash_case());
  suite_add_tcase(suite, cache_damage_case());
  suite_add_tcase(suite, cache_merge_case());
  suite_add_tcase(suite, cache_memory_case());
  suite_add_tcase(suite, cache_place_case());
  suite_add_tcase(suite, cache_speed_case());
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_ENV);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
