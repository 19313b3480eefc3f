#ifndef ARKE_TESTS_RECIPE_SUITES_H
#define ARKE_TESTS_RECIPE_SUITES_H

#include <check.h>

TCase *recipe_call_tests(void);
TCase *recipe_otherwise_tests(void);

#endif
