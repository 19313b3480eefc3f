#include "tests/ir/form_interpreter.h"

#include <math.h>

#include "ir/ir_functions.h"

double form_float(form_value v) {
  return v.integer ? (double)v.i : v.f;
}

static form_value of_int(int64_t i) {
  return (form_value){.integer = true, .i = i};
}

static form_value of_float(double f) {
  return (form_value){.f = f};
}

static bool is_true(form_value v) {
  return v.integer ? v.i != 0 : v.f != 0;
}

/* Like the type the form states for a node. */
static form_value typed(const form_interpreter *s, const ir_expr *e, form_value v) {
  dtype t = ir_form_type(s->form, e);
  return t == DTYPE_F64 || t == DTYPE_F32 ? of_float(form_float(v)) : v;
}

int64_t form_offset(form_interpreter *s, const ir_access *access, bool *inside) {
  const ir_problem *p = s->form->problem;
  int64_t shape[LIMIT_RANK], offset = 0;
  int rank = ir_tensor_shape(p, access->tensor, shape);
  int lead = p->op->tensors[access->tensor].any_rank ? p->lead_rank : 0;
  *inside = true;
  for (int i = 0; i < access->n; i++) {
    const ir_subscript *sub = &access->subscripts[i];
    int first = sub->leading ? 0 : lead + sub->first, end = lead + sub->first + sub->count;
    int64_t size = 1, at = form_evaluate(s, sub->e).i;
    for (int d = first; d < end && d < rank; d++) size *= shape[d];
    *inside = *inside && at >= 0 && at < size;
    offset = offset * size + at;
  }
  return offset;
}

static form_value read(form_interpreter *s, int number) {
  const ir_access *access = &s->form->accesses[number];
  bool inside;
  int64_t at = form_offset(s, access, &inside);
  bool integer = ir_tensor_dtype(s->form->problem, access->tensor) == DTYPE_I64;
  form_value other = access->other != NULL ? form_evaluate(s, access->other) : of_int(777777);
  if (!inside && access->other == NULL && !access->conditional) s->outside = number;
  if (!inside) return other;
  const void *data = s->data[access->tensor];
  return integer ? of_int(((const int64_t *)data)[at]) : of_float(((const double *)data)[at]);
}

static form_value arithmetic(ir_operator o, form_value x, form_value y) {
  bool ints = x.integer && y.integer;
  double a = form_float(x), b = form_float(y);
  switch (o) {
  case IR_OP_ADD: return ints ? of_int(x.i + y.i) : of_float(a + b);
  case IR_OP_SUB: return ints ? of_int(x.i - y.i) : of_float(a - b);
  case IR_OP_MUL: return ints ? of_int(x.i * y.i) : of_float(a * b);
  case IR_OP_DIV: return ints ? of_int(y.i == 0 ? 0 : ir_floor_div(x.i, y.i)) : of_float(a / b);
  case IR_OP_MOD: return ints ? of_int(y.i == 0 ? 0 : ir_floor_mod(x.i, y.i)) : of_float(ir_float_mod(a, b));
  case IR_OP_LT: return of_int(a < b);
  case IR_OP_LE: return of_int(a <= b);
  case IR_OP_GT: return of_int(a > b);
  case IR_OP_GE: return of_int(a >= b);
  case IR_OP_EQ: return of_int(a == b);
  case IR_OP_NE: return of_int(a != b);
  case IR_OP_AND: return of_int(is_true(x) && is_true(y));
  case IR_OP_OR: return of_int(is_true(x) || is_true(y));
  case IR_OP_NOT: return of_int(!is_true(x));
  default: return ints ? of_int(-x.i) : of_float(-a);
  }
}

static form_value reduce(form_interpreter *s, const ir_expr *e) {
  int64_t kept = s->loops[e->index], n = ir_form_extent(s->form, e->index), best = -1;
  bool integer = ir_form_type(s->form, e->args[0]) == DTYPE_I64;
  double total = e->id == IR_RED_PROD || e->id == IR_RED_ALL ? 1 : 0;
  if (e->id == IR_RED_MAX) total = integer ? (double)INT64_MIN : -INFINITY;
  if (e->id == IR_RED_MIN) total = integer ? (double)INT64_MAX : INFINITY;
  double leader = 0;
  for (int64_t k = 0; k < n; k++) {
    s->loops[e->index] = k;
    bool takes = e->n_args < 2 || is_true(form_evaluate(s, e->args[1]));
    form_value v = form_evaluate(s, e->args[0]);
    double x = form_float(v);
    if (!takes) continue;
    switch ((ir_reduction)e->id) {
    case IR_RED_SUM: total += x; break;
    case IR_RED_PROD: total *= x; break;
    case IR_RED_MAX: total = ir_max(total, x); break;
    case IR_RED_MIN: total = ir_min(total, x); break;
    case IR_RED_ANY: total = total != 0 || is_true(v); break;
    case IR_RED_ALL: total = total != 0 && is_true(v); break;
    default:
      if (best < 0 || (!isnan(leader) && (isnan(x) || (e->id == IR_RED_ARGMAX ? x > leader : x < leader)))) {
        best = k;
        leader = x;
      }
    }
  }
  s->loops[e->index] = kept;
  if (e->id == IR_RED_ARGMAX || e->id == IR_RED_ARGMIN) return of_int(best);
  bool whole = integer || e->id == IR_RED_ANY || e->id == IR_RED_ALL;
  return whole ? of_int(total >= 0x1p63 ? INT64_MAX : (int64_t)total) : of_float(total);
}

form_value form_evaluate(form_interpreter *s, const ir_expr *e) {
  const ir_problem *p = s->form->problem;
  form_value x[3] = {{.f = 0}, {.f = 0}, {.f = 0}};
  for (int i = 0; e->node != IR_REDUCE && i < e->n_args && i < 3; i++) x[i] = form_evaluate(s, e->args[i]);
  switch (e->node) {
  case IR_FLOAT: return of_float(e->number);
  case IR_INT: return of_int(e->integer);
  case IR_INDEX: return of_int(s->loops[e->id]);
  case IR_SIZE: return of_int(p->sizes[e->id]);
  case IR_ATTR:
    return p->op->attrs[e->id].kind == IR_ATTR_FLOAT ? of_float(p->attrs[e->id])
                                                     : of_int((int64_t)p->attrs[e->id]);
  case IR_READ: return typed(s, e, read(s, e->id));
  case IR_OPERATOR:
    if (e->id == IR_OP_SELECT) return typed(s, e, is_true(x[0]) ? x[1] : x[2]);
    return arithmetic((ir_operator)e->id, x[0], x[1]);
  case IR_CALL: {
    double v = ir_function_apply((ir_function)e->id, form_float(x[0]), form_float(x[1]), form_float(x[2]));
    return ir_form_type(s->form, e) == DTYPE_I64 ? of_int((int64_t)v) : of_float(v);
  }
  case IR_REDUCE: return reduce(s, e);
  case IR_CAST: {
    dtype t = ir_cast_dtype(p, e);
    double v = dtype_round(t, form_float(x[0]));
    return dtype_class_of(t) == DTYPE_CLASS_FLOAT ? of_float(v) : of_int((int64_t)v);
  }
  }
  return of_float(NAN);
}
