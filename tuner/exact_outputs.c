#include "tuner/exact_outputs.h"

#define MOST_TENSORS 256 /* temporaries past these count as rounding */

typedef struct walk {
  const ir_problem *p;
  bool seen[MOST_TENSORS]; /* by tensor: its definitions were looked at */
  tune_rounding found;
} walk;

static void visit_tensor(walk *w, int tensor);

static bool is_float(const ir_problem *p, int tensor) {
  return dtype_class_of(ir_tensor_dtype(p, tensor)) == DTYPE_CLASS_FLOAT;
}

/* Whether the expression is computed in floats, by what stands at its leaves. Subscripts are integers. */
static bool has_float(const ir_problem *p, const ir_expr *e) {
  switch (e->node) {
  case IR_FLOAT: return true;
  case IR_ATTR: return p->op->attrs[e->id].kind == IR_ATTR_FLOAT;
  case IR_READ: return is_float(p, e->id) || (e->has_else && has_float(p, e->args[e->n_args - 1]));
  case IR_CAST: return dtype_class_of(ir_cast_dtype(p, e)) == DTYPE_CLASS_FLOAT;
  default: break;
  }
  for (int i = 0; i < e->n_args; i++)
    if (has_float(p, e->args[i])) return true;
  return false;
}

/* Picks one of its arguments, or changes no more than a sign. */
static bool is_exact_function(int f) {
  switch (f) {
  case IR_FN_ABS:
  case IR_FN_NEG:
  case IR_FN_FLOOR:
  case IR_FN_CEIL:
  case IR_FN_ROUND:
  case IR_FN_TRUNC:
  case IR_FN_SIGN:
  case IR_FN_MIN:
  case IR_FN_MAX:
  case IR_FN_WHERE:
  case IR_FN_TF32:
  case IR_FN_RELU: return true;
  default: return false;
  }
}

static bool is_arithmetic(int op) {
  return op == IR_OP_ADD || op == IR_OP_SUB || op == IR_OP_MUL || op == IR_OP_DIV || op == IR_OP_MOD;
}

static bool node_rounds(const ir_problem *p, const ir_expr *e) {
  switch (e->node) {
  case IR_OPERATOR: return is_arithmetic(e->id) && has_float(p, e);
  case IR_REDUCE: return (e->id == IR_RED_SUM || e->id == IR_RED_PROD) && has_float(p, e->args[0]);
  case IR_CALL:
    if (is_exact_function(e->id)) return false;
    return e->id != IR_FN_FMA || has_float(p, e); /* all others compute in floats */
  default: return false;
  }
}

/* Factors of a product that are elements of 8-bit floats. */
static int byte_factors(const ir_problem *p, const ir_expr *e) {
  if (e->node == IR_OPERATOR && e->id == IR_OP_MUL)
    return byte_factors(p, e->args[0]) + byte_factors(p, e->args[1]);
  if (e->node == IR_CAST) return byte_factors(p, e->args[0]);
  if (e->node != IR_READ) return 0;
  dtype t = ir_tensor_dtype(p, e->id);
  return t == DTYPE_E4M3 || t == DTYPE_E5M2;
}

/* A cast that definitions end with only rounds what is stored, which `roundoff` of its type covers. */
static void note_cast(walk *w, const ir_expr *e) {
  dtype t = ir_cast_dtype(w->p, e);
  if (dtype_class_of(t) != DTYPE_CLASS_FLOAT || t == DTYPE_F64) return;
  const ir_expr *from = e->args[0];
  if (from->node == IR_READ && w->p->op->tensors[from->id].role != IR_TEMPORARY) return; /* as it is stored */
  if (dtype_roundoff(t) > w->found.cast) w->found.cast = dtype_roundoff(t);
}

static bool node_multiplies(const ir_problem *p, const ir_expr *e) {
  bool product = (e->node == IR_OPERATOR && e->id == IR_OP_MUL) || (e->node == IR_CALL && e->id == IR_FN_FMA);
  return product && has_float(p, e);
}

static void visit(walk *w, const ir_expr *e) {
  w->found.multiplies |= node_multiplies(w->p, e);
  w->found.rounds |= node_rounds(w->p, e);
  w->found.functions |= e->node == IR_CALL && !is_exact_function(e->id) && e->id != IR_FN_FMA;
  w->found.bytes |= e->node == IR_REDUCE && e->id == IR_RED_SUM && byte_factors(w->p, e->args[0]) > 1;
  if (e->node == IR_CAST) note_cast(w, e);
  if (e->node == IR_READ) {
    visit_tensor(w, e->id);
    if (e->has_else) visit(w, e->args[e->n_args - 1]);
    return; /* subscripts are exact */
  }
  for (int i = 0; i < e->n_args; i++) visit(w, e->args[i]);
}

static void visit_tensor(walk *w, int tensor) {
  dtype t = ir_tensor_dtype(w->p, tensor);
  const ir_op *op = w->p->op;
  if (tensor >= MOST_TENSORS) {
    w->found = (tune_rounding){.rounds = true, .functions = true, .narrow = true, .multiplies = true};
    return;
  }
  if (w->seen[tensor]) return;
  w->seen[tensor] = true;
  w->found.narrow |= dtype_class_of(t) == DTYPE_CLASS_FLOAT && t != DTYPE_F64;
  for (int i = 0; i < op->n_definitions; i++) {
    const ir_definition *d = &op->definitions[i];
    if (d->tensor != tensor && d->tensor2 != tensor) continue;
    /* Updates accumulate in any order. */
    w->found.rounds |= d->update == IR_ADD && has_float(w->p, d->value);
    bool last = d->value->node == IR_CAST && op->tensors[tensor].role != IR_TEMPORARY;
    visit(w, last ? d->value->args[0] : d->value);
  }
}

tune_rounding tune_rounding_of(const ir_problem *p, int output) {
  walk w = {.p = p};
  visit_tensor(&w, output);
  return w.found;
}
