/* The test cases of the generator's test program, one file each. */
#ifndef ARKE_TESTS_GENERATOR_SUITES_H
#define ARKE_TESTS_GENERATOR_SUITES_H

#include <check.h>

TCase *target_tests(void);
TCase *builder_tests(void);
TCase *builder_misuse_tests(void);
TCase *expression_tests(void);
TCase *assemble_tests(void);
TCase *convert_tests(void);
TCase *math_tests(void);
TCase *warp_tests(void);
TCase *wgmma_tests(void);
TCase *published_memory_tests(void);

#endif
