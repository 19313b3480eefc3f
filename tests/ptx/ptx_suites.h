/* The suites of the PTX front end and the scalar unit; one file each. */
#ifndef ARKE_TESTS_PTX_SUITES_H
#define ARKE_TESTS_PTX_SUITES_H

#include <check.h>

Suite *ptx_parse_suite(void);
Suite *ptx_errors_suite(void);
Suite *ptx_flow_suite(void);
Suite *ptx_damage_suite(void);
Suite *ptx_mutate_suite(void);
Suite *alu_integer_suite(void);
Suite *alu_float_suite(void);
Suite *alu_half_suite(void);
Suite *alu_convert_suite(void);
Suite *alu_move_suite(void);
Suite *alu_lanes_suite(void);

#endif
