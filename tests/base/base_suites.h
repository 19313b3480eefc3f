/* The parts of the program test_base; each file adds one test case. */
#ifndef ARKE_TESTS_BASE_SUITES_H
#define ARKE_TESTS_BASE_SUITES_H

#include <check.h>

TCase *base_dtype_case(void);
TCase *base_memory_case(void);
TCase *base_text_case(void);
TCase *base_hash_case(void);

#endif
