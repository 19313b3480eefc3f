/* The suites of test_cli. */
#ifndef ARKE_TESTS_CLI_SUITES_H
#define ARKE_TESTS_CLI_SUITES_H

#include <check.h>

TCase *cli_options_case(void);
TCase *cli_values_case(void);
TCase *cli_workload_case(void);
TCase *cli_known_case(void);
TCase *cli_report_case(void);
TCase *cli_contest_case(void);
TCase *cli_fidelity_case(void);
TCase *cli_images_case(void);

#endif
