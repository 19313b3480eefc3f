/* What bounds a reduction's index: the reads and comparisons that every value it takes must satisfy, in a
 * form that can be solved for the index. Inside ir/ only. */
#ifndef ARKE_IR_IR_BOUNDS_H
#define ARKE_IR_IR_BOUNDS_H

#include "base/error.h"
#include "ir/ir.h"

/* Either 0 <= sub < size of dimension `dim` of `tensor`, or (tensor < 0) "sub relation other" of a condition.
 * `sub` holds the index once, under + - * / by values known outside the reduction. */
typedef struct ir_bound {
  const ir_expr *sub;
  int tensor, dim;
  ir_operator relation; /* LT, LE, GT, GE or EQ */
  const ir_expr *other;
  bool upper; /* limits the index from above, if factors are positive */
} ir_bound;

typedef bool (*ir_bound_fn)(const ir_bound *b, void *user); /* false ends the walk */

/* What index `slot` ranges over, at most, where `sub` is a subscript of a dimension: the dimension where the
 * index stands alone, what is left of it where an integer is added to the index, and a multiple where the
 * index is divided by an integer or a size. False: another form, or no dimension of the notation. */
bool ir_index_range(const ir_expr *sub, int slot, ir_dim dim, ir_dim *range);
/* Reads under a ternary, where, && and || do not bound (they may not happen), nor do reads with an else;
 * reads of inner reductions do. Returns false if `visit` did. */
bool ir_bounds_visit(const ir_expr *reduce, ir_bound_fn visit, void *user);
/* ARKE_ERR_SHAPE where a left side's subscript is outside of its tensor for some of its indices' values (as
 * far as that follows from the sizes alone). */
arke_status ir_writes_check(const ir_problem *p, const ir_definition *def, arke_error *err);
/* Whether index `slot` occurs in e. */
bool ir_expr_uses(const ir_expr *e, int slot);

#endif
