/* The suites of test_ir, one a file. */
#ifndef ARKE_TESTS_IR_SUITES_H
#define ARKE_TESTS_IR_SUITES_H

#include <check.h>

Suite *notation_cases_suite(void);
Suite *notation_random_suite(void);
Suite *notation_docs_suite(void);
Suite *problem_suite(void);
Suite *reference_suite(void);
Suite *reference_lines_suite(void);
Suite *ir_memory_suite(void);
Suite *form_random_suite(void);
Suite *space_suite(void);

#endif
