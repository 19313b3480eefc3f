/* Fresh random inputs, quickly: large tensors must not cost seconds of host time. */
#ifndef ARKE_TUNER_TRIAL_INPUTS_H
#define ARKE_TUNER_TRIAL_INPUTS_H

#include "ir/ir.h"

/* Fills `data` with `elements` values of tensor `tensor` of the problem. Floats are normal (mean 0, deviation
 * 1) from a table of 65,536 quantised draws picked at random; integers are uniform over their type, except
 * that a tensor that indexes others holds what its operator means by it (trial_index.h). Each seed gives
 * other values. */
arke_status tune_inputs_fill(const ir_problem *p, int tensor, void *data, int64_t elements, uint64_t seed,
                             arke_error *err);
/* How many elements are drawn before the values repeat, of a tensor of so many; `elements` where they do not.
 * Repeating the first of them, over and over, makes the rest. */
int64_t tune_inputs_period(const ir_problem *p, int tensor, int64_t elements);

#endif
