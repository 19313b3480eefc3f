/* Values of tensors that end ragged groups (templates/contraction_groups.h, docs/notation.md). */
#ifndef ARKE_TUNER_TRIAL_ENDS_H
#define ARKE_TUNER_TRIAL_ENDS_H

#include "ir/ir.h"

/* How many rows the groups have together that the tensor ends: some definition counts how many of its
 * elements are at most an index over them, "sum(e: ends[e] <= r) 1". -1: it is no such tensor. */
int64_t trial_ends_rows(const ir_problem *p, int tensor);
/* Ends that do not decrease, of groups whose sizes are as if every row chose its group by dice whose sides
 * differ: some have no rows, some have many times the mean. The last end is the number of rows. */
void trial_ends_fill(dtype t, void *data, int64_t elements, int64_t rows, uint64_t seed);

#endif
