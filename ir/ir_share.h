/* How much of a reduction its condition lets through, for counts of operations. Only ir/ir_cost.c includes
 * this. */
#ifndef ARKE_IR_IR_SHARE_H
#define ARKE_IR_IR_SHARE_H

#include "ir/ir.h"

/* The share of the values of a REDUCE node's index, over all values of the definition's other indices, for
 * which its condition holds: 1 without one, or where tensors take part in it; of packed parts, which offsets
 * tell apart, that of parts alike. `sizes` is by index. Sampled, to about one part in a thousand, and the
 * same in every call. */
double ir_condition_share(const ir_problem *p, const ir_definition *def, const ir_expr *reduce,
                          const double *sizes);

#endif
