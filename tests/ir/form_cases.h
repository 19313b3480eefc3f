/* The form sections of text cases (operator_cases.h).
 *
 *   --- form BINDINGS   then "prints FORM", "merged FORM", "reductions sum over 1 as f32 for 0; …" (inner
 * ones first), "motions TENSOR unit none, …" (its accesses in order: how each moves with every loop, and
 * whether it is conditional) or "error TEXT" */
#ifndef ARKE_TESTS_IR_FORM_CASES_H
#define ARKE_TESTS_IR_FORM_CASES_H

#include "ir/ir.h"
#include "tests/ir/operator_cases.h"

void check_form_section(const operator_case *c, const case_section *s, const ir_op *op);

#endif
