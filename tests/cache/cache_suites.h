/* The parts of the program test_cache; each file adds one test case. */
#ifndef ARKE_TESTS_CACHE_SUITES_H
#define ARKE_TESTS_CACHE_SUITES_H

#include <check.h>

TCase *cache_rows_case(void);
TCase *cache_publish_case(void);
TCase *cache_find_case(void);
TCase *cache_files_case(void);
TCase *cache_crash_case(void);
TCase *cache_damage_case(void);
TCase *cache_merge_case(void);
TCase *cache_memory_case(void);
TCase *cache_place_case(void);
TCase *cache_speed_case(void);

#endif
