#include "ir/ir_types.h"

ir_level ir_level_of(dtype t) {
  switch (dtype_class_of(t)) {
  case DTYPE_CLASS_FLOAT: return dtype_bits(t) == 64 ? LEVEL_F64 : LEVEL_F32;
  case DTYPE_CLASS_INT:
  case DTYPE_CLASS_UINT: return dtype_bits(t) == 64 ? LEVEL_I64 : LEVEL_I32;
  case DTYPE_CLASS_BOOL: return LEVEL_BOOL;
  }
  return LEVEL_F64;
}

dtype ir_level_dtype(ir_level l) {
  switch (l) {
  case LEVEL_BOOL: return DTYPE_BOOL;
  case LEVEL_I32: return DTYPE_I32;
  case LEVEL_WEAK:
  case LEVEL_I64: return DTYPE_I64;
  case LEVEL_F32: return DTYPE_F32;
  case LEVEL_F64: return DTYPE_F64;
  }
  return DTYPE_F64;
}

bool ir_function_keeps_integers(ir_function f) {
  switch (f) {
  case IR_FN_ABS:
  case IR_FN_NEG:
  case IR_FN_FLOOR:
  case IR_FN_CEIL:
  case IR_FN_ROUND:
  case IR_FN_TRUNC:
  case IR_FN_SIGN:
  case IR_FN_FMA:
  case IR_FN_MIN:
  case IR_FN_MAX:
  case IR_FN_WHERE:
  case IR_FN_RELU: return true;
  default: return false;
  }
}

ir_kind ir_kind_join(ir_kind a, ir_kind b) {
  return (ir_kind){a.least > b.least ? a.least : b.least, a.joins | b.joins};
}

ir_kind ir_type_kind(ir_type t) {
  if (t.variable >= 0) return (ir_kind){LEVEL_WEAK, 1u << t.variable};
  return (ir_kind){t.joins != 0 && t.fixed == DTYPE_BOOL ? LEVEL_WEAK : ir_level_of(t.fixed), t.joins};
}

/* A lone weak value is i64; beside type variables "no opinion" is written as bool, which no join can
 * undercut. */
ir_type ir_kind_type(ir_kind k) {
  dtype fixed = k.least == LEVEL_WEAK && k.joins != 0 ? DTYPE_BOOL : ir_level_dtype(k.least);
  return (ir_type){-1, fixed, k.joins};
}

/* Of `args`, the kinds of e's operands, from the first-th on. */
static ir_kind join_args(const ir_expr *e, const ir_kind *args, int first) {
  ir_kind k = {LEVEL_WEAK, 0};
  for (int i = first; i < e->n_args; i++) k = ir_kind_join(k, args[i]);
  return k;
}

/* Arithmetic on bool computes in i32; weak operands alone stay weak. */
static ir_kind arithmetic(ir_kind k) {
  if ((k.joins != 0 || k.least == LEVEL_BOOL) && k.least < LEVEL_I32) k.least = LEVEL_I32;
  return k;
}

static ir_kind call_kind(const ir_expr *e, const ir_kind *args) {
  if (e->id == IR_FN_WHERE) return join_args(e, args, 1);
  ir_kind k = join_args(e, args, 0);
  if (ir_function_keeps_integers((ir_function)e->id)) return arithmetic(k);
  return ir_kind_join(k, (ir_kind){LEVEL_F32, 0});
}

static ir_kind operator_kind(const ir_expr *e, const ir_kind *args) {
  switch ((ir_operator)e->id) {
  case IR_OP_LT:
  case IR_OP_LE:
  case IR_OP_GT:
  case IR_OP_GE:
  case IR_OP_EQ:
  case IR_OP_NE:
  case IR_OP_AND:
  case IR_OP_OR:
  case IR_OP_NOT: return (ir_kind){LEVEL_BOOL, 0};
  case IR_OP_SELECT: return join_args(e, args, 1);
  default: return arithmetic(join_args(e, args, 0));
  }
}

static ir_kind reduce_kind(const ir_expr *e, const ir_kind *args) {
  switch ((ir_reduction)e->id) {
  case IR_RED_ANY:
  case IR_RED_ALL: return (ir_kind){LEVEL_BOOL, 0};
  case IR_RED_ARGMAX:
  case IR_RED_ARGMIN: return (ir_kind){LEVEL_I64, 0};
  case IR_RED_SUM:
  case IR_RED_PROD: return arithmetic(args[0]);
  default: return args[0];
  }
}

ir_kind ir_node_kind(const ir_op *op, const ir_expr *e, const ir_kind *args) {
  switch (e->node) {
  case IR_FLOAT: return (ir_kind){LEVEL_F32, 0};
  case IR_INT:
  case IR_INDEX:
  case IR_SIZE: return (ir_kind){LEVEL_WEAK, 0};
  case IR_ATTR:
    switch (op->attrs[e->id].kind) {
    case IR_ATTR_FLOAT: return (ir_kind){LEVEL_F32, 0};
    case IR_ATTR_BOOL: return (ir_kind){LEVEL_BOOL, 0};
    default: return (ir_kind){LEVEL_WEAK, 0};
    }
  case IR_READ: {
    ir_kind k = ir_type_kind(op->tensors[e->id].type);
    return e->has_else ? ir_kind_join(k, args[e->n_args - 1]) : k;
  }
  case IR_CALL: return call_kind(e, args);
  case IR_OPERATOR: return operator_kind(e, args);
  case IR_REDUCE: return reduce_kind(e, args);
  case IR_CAST:
    if (ir_cast_variable(e) >= 0) return (ir_kind){LEVEL_WEAK, 1u << ir_cast_variable(e)};
    if (ir_cast_attr(e) >= 0) return (ir_kind){LEVEL_WEAK, 1u << (IR_JOIN_ATTR + ir_cast_attr(e))};
    return (ir_kind){ir_level_of((dtype)e->id), 0};
  }
  return (ir_kind){LEVEL_F64, 0};
}

ir_kind ir_expr_kind(const ir_op *op, const ir_expr *e) {
  ir_kind args[LIMIT_RANK + 1];
  for (int i = 0; i < e->n_args; i++) args[i] = ir_expr_kind(op, e->args[i]);
  return ir_node_kind(op, e, args);
}

ir_level ir_kind_level(const ir_problem *p, ir_kind k) {
  ir_level l = k.least;
  for (int i = 0; i < p->op->n_types; i++) {
    ir_level other = ir_level_of(p->types[i]);
    if (k.joins >> i & 1 && other > l) l = other;
  }
  for (int i = 0; i < p->op->n_attrs; i++) {
    if (!(k.joins >> (IR_JOIN_ATTR + i) & 1)) continue;
    ir_level other = ir_level_of((dtype)p->attrs[i]);
    if (other > l) l = other;
  }
  return l;
}

ir_level ir_expr_level(const ir_problem *p, const ir_expr *e) {
  return ir_kind_level(p, ir_expr_kind(p->op, e));
}
