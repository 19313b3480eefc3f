/* Running reductions in a kernel: where each kind starts, how it takes in a value, and how two partial
 * results become one. NaN wins in max, min, argmax and argmin; argmax and argmin take the first of equals.
 * Combining is associative (but for rounding), and commutative. */
#ifndef ARKE_TEMPLATES_REDUCTION_H
#define ARKE_TEMPLATES_REDUCTION_H

#include "generator/gen_kernel.h"
#include "ir/ir.h"

typedef struct reduction {
  ir_reduction kind;
  gen_type type;     /* of the values: F32, F64, I32 or I64; I1 for any and all */
  gen_type position; /* argmax and argmin: I32 or I64 */
} reduction;

enum { REDUCTION_VALUES = 2 };
/* Values of a state: one, or the value and its position. */
static inline int reduction_values(const reduction *r) {
  return r->kind == IR_RED_ARGMAX || r->kind == IR_RED_ARGMIN ? 2 : 1;
}
/* The type of a state's value i. */
static inline gen_type reduction_type(const reduction *r, int i) {
  return i ? r->position : r->type;
}

/* The result over nothing. */
void reduction_start(gen_builder *b, const reduction *r, gen_value *state);
/* Takes in `x` (of r->type) at `position` (argmax and argmin; else not read) where `active` (NULL: always).
 */
void reduction_take(gen_builder *b, const reduction *r, gen_value *state, gen_value x, gen_value position,
                    gen_value active);
void reduction_combine(gen_builder *b, const reduction *r, gen_value *into, const gen_value *from);
/* The value of the REDUCE node: of r->type, or a position, -1 over nothing. */
gen_value reduction_result(const reduction *r, const gen_value *state);

#endif
