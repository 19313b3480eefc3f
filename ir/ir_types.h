/* Types of expressions (docs/notation.md, arithmetic). Inside ir/ only. */
#ifndef ARKE_IR_IR_TYPES_H
#define ARKE_IR_IR_TYPES_H

#include "base/strbuf.h"
#include "ir/ir.h"

/* What an expression computes in, narrowest first. Integer literals, indices, sizes and integer attributes
 * are WEAK: they take the type of what they meet, and are i64 among themselves. */
typedef enum ir_level { LEVEL_WEAK, LEVEL_BOOL, LEVEL_I32, LEVEL_I64, LEVEL_F32, LEVEL_F64 } ir_level;

/* The widest of `least` and of what the types in `joins` compute in: bit i is type variable i, bit
 * IR_JOIN_ATTR + a is dtype attribute a. */
typedef struct ir_kind {
  ir_level least;
  unsigned joins;
} ir_kind;

enum { IR_JOIN_ATTR = 4 };

/* CAST nodes' `id`: a dtype, or DTYPE_COUNT + attribute, or -1 - type variable. */
static inline int ir_cast_variable(const ir_expr *e) {
  return e->id < 0 ? -1 - e->id : -1;
}
static inline int ir_cast_attr(const ir_expr *e) {
  return e->id >= DTYPE_COUNT ? e->id - DTYPE_COUNT : -1;
}

ir_level ir_level_of(dtype t);
dtype ir_level_dtype(ir_level l);
ir_kind ir_expr_kind(const ir_op *op, const ir_expr *e);
/* The same where the kinds of e's operands are known. */
ir_kind ir_node_kind(const ir_op *op, const ir_expr *e, const ir_kind *args);
ir_kind ir_kind_join(ir_kind a, ir_kind b);
/* The type of a temporary computed in `k`, and back. */
ir_type ir_kind_type(ir_kind k);
ir_kind ir_type_kind(ir_type t);
ir_level ir_kind_level(const ir_problem *p, ir_kind k);
ir_level ir_expr_level(const ir_problem *p, const ir_expr *e);
/* Functions that give integers for integers (abs, min, floor, …); the others compute in floats. */
bool ir_function_keeps_integers(ir_function f);

/* An attribute's value as bindings and defaults show it: "128", "1e-05", "true", "bf16". */
void ir_attr_print_value(ir_attr_kind kind, double value, strbuf *out);

#endif
