/* Inside the compiling of definitions for the evaluator: what its parts share. Only reference_compile*.c
 * include this. NULL and false: out of memory. */
#ifndef ARKE_IR_REFERENCE_COMPILE_H
#define ARKE_IR_REFERENCE_COMPILE_H

#include "ir/reference.h"

typedef struct ref_compiler {
  ref_machine *s;
  const ir_definition *def;
  int *level_of;       /* by index: the reduction that introduces it, 0 for the left side's */
  const ir_expr *term; /* the innermost sum's body */
  int deepest;
  int line; /* the left index that is the lanes of the outermost scope; -1: none */
} ref_compiler;

/* An expression under `scope` reductions (reference_compile_expr.c). `wide`: inside a subscript, where
 * integers are 64 bits whatever the operands' dtype. */
ref_node *ref_compile_expr(ref_compiler *c, const ir_expr *e, int scope, bool wide);
/* The same as a float, unless integers will do. */
ref_node *ref_compile_as(ref_compiler *c, const ir_expr *e, int scope, bool wide, bool integer);
/* The operand, converted if the operation works on the other kind of number. */
ref_node *ref_coerce(ref_compiler *c, ref_node *operand, ref_op conversion);
/* Memory for the node's lanes, once it is known what it depends on. */
bool ref_finish(ref_compiler *c, ref_node *n);

/* A reduction: its body, condition, and the bounds that narrow its range (reference_compile_reduce.c). */
bool ref_compile_reduce(ref_compiler *c, ref_node *n, const ir_expr *e, int scope);

static inline bool ref_is_narrow_cast(const ref_node *n) {
  return n->op == REF_CAST && n->sums && dtype_roundoff((dtype)n->id) > 0x1p-24;
}
/* Whether anything is cast in what a node or, behind it, a temporary is computed from. */
bool ref_has_casts(const ref_compiler *c, const ref_node *n);

#endif
