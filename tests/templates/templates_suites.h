/* The test cases of the templates' test program, one file each. */
#ifndef ARKE_TESTS_TEMPLATES_SUITES_H
#define ARKE_TESTS_TEMPLATES_SUITES_H

#include <check.h>

TCase *template_list_tests(void);
TCase *gemm_fit_tests(void);
TCase *gemm_space_tests(void);
TCase *gemm_cost_tests(void);
TCase *bound_tests(void);
TCase *gemm_lower_tests(void);

#endif
