/* Evaluates a form the way a kernel does: every operand, also of choices not taken and of values a reduction
 * leaves out. A read outside its tensor is then allowed only where the form says so. f64 and i64 tensors. */
#ifndef ARKE_TESTS_IR_FORM_INTERPRETER_H
#define ARKE_TESTS_IR_FORM_INTERPRETER_H

#include "ir/ir_form.h"

typedef struct form_value {
  bool integer;
  double f;
  int64_t i;
} form_value;

typedef struct form_interpreter {
  const ir_form *form;
  const void *data[LIMIT_TENSORS]; /* contiguous */
  int64_t loops[IR_FORM_LOOPS];
  int outside; /* accesses that were outside and neither conditional nor with an else: -1 none, else the last
                */
} form_interpreter;

form_value form_evaluate(form_interpreter *s, const ir_expr *e);
/* Place of an access in its contiguous tensor; *inside: whether it lies in it. */
int64_t form_offset(form_interpreter *s, const ir_access *access, bool *inside);
double form_float(form_value v);

#endif
