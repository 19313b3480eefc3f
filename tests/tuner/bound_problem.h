/* A problem from an operator's text and bindings; memory is the arena's. */
#ifndef ARKE_TESTS_BOUND_PROBLEM_H
#define ARKE_TESTS_BOUND_PROBLEM_H

#include <check.h>

#include "base/error.h"
#include "ir/ir.h"

static inline void bind_problem(arena *a, const char *text, const char *bindings, ir_problem *p) {
  const ir_op *op;
  arke_error err = ARKE_ERROR_INIT;
  ck_assert_msg(ir_op_parse(a, text, &op, &err) == ARKE_OK, "%s", err.text);
  ck_assert_msg(ir_problem_bind(op, bindings, p, &err) == ARKE_OK, "%s", err.text);
}

#endif
