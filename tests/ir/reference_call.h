/* An operator bound to sizes, with tensors for the fp64 reference. */
#ifndef ARKE_TESTS_REFERENCE_CALL_H
#define ARKE_TESTS_REFERENCE_CALL_H

#include "ir/ir.h"

typedef struct reference_call {
  arena a;
  const ir_op *op;
  ir_problem p;
  ir_data data[LIMIT_TENSORS];
  void *memory[LIMIT_TENSORS];
  int64_t shape[LIMIT_TENSORS][LIMIT_RANK];
  int rank[LIMIT_TENSORS];
} reference_call;

/* Contiguous tensors; inputs are standard normal values times `scale` (integers thus lie around zero),
 * outputs zeros. */
void reference_call_open(reference_call *k, const char *text, const char *bindings, double scale);
void reference_call_close(reference_call *k);
/* The caller destroys it. */
ir_evaluator *reference_call_evaluator(const reference_call *k);

#endif
