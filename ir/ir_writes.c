/* Subscripts that leave their tensor whatever the data is: "Y[n + N0] = …" where N0 and what n ranges over
 * are more than Y has. Such left sides are refused when the sizes are bound, since a kernel would write
 * there. Reads, and elements of outputs that no left side reaches, are for who wants to tune the problem. */
#include "base/error.h"
#include "ir/ir_bounds.h"
#include "ir/ir_functions.h"

typedef struct reach {
  const ir_problem *p;
  const ir_definition *def;
} reach;

static bool span(const reach *r, const ir_expr *e, int64_t *low, int64_t *high);

/* Of sums and multiples by what is fixed. */
static bool operator_span(const reach *r, const ir_expr *e, int64_t *low, int64_t *high) {
  int64_t x[2], y[2] = {0, 0};
  if (!span(r, e->args[0], &x[0], &x[1])) return false;
  if (e->n_args == 2 && !span(r, e->args[1], &y[0], &y[1])) return false;
  switch ((ir_operator)e->id) {
  case IR_OP_ADD:
    return !__builtin_add_overflow(x[0], y[0], low) && !__builtin_add_overflow(x[1], y[1], high);
  case IR_OP_SUB:
    return !__builtin_sub_overflow(x[0], y[1], low) && !__builtin_sub_overflow(x[1], y[0], high);
  case IR_OP_NEG: return !__builtin_sub_overflow(0, x[1], low) && !__builtin_sub_overflow(0, x[0], high);
  case IR_OP_DIV:
    if (y[0] != y[1] || y[0] <= 0) return false;
    *low = ir_floor_div(x[0], y[0]);
    *high = ir_floor_div(x[1], y[0]);
    return true;
  case IR_OP_MUL: {
    if (x[0] == x[1] && y[0] != y[1]) {
      int64_t kept[2] = {x[0], x[1]};
      x[0] = y[0], x[1] = y[1];
      y[0] = kept[0], y[1] = kept[1];
    }
    if (y[0] != y[1]) return false;
    bool falls = y[0] < 0;
    return !__builtin_mul_overflow(x[falls], y[0], low) && !__builtin_mul_overflow(x[!falls], y[0], high);
  }
  default: return false;
  }
}

/* The least and the largest value, both taken; false where that is not known. */
static bool span(const reach *r, const ir_expr *e, int64_t *low, int64_t *high) {
  switch (e->node) {
  case IR_INT: *low = *high = e->integer; return true;
  case IR_SIZE: *low = *high = r->p->sizes[e->id]; return true;
  case IR_ATTR: *low = *high = (int64_t)r->p->attrs[e->id]; return true;
  case IR_INDEX:
    *low = 0;
    *high = ir_dim_size(r->p, r->def->indices[e->id].range) - 1;
    return r->def->indices[e->id].ranged;
  case IR_OPERATOR: return operator_span(r, e, low, high);
  default: return false;
  }
}

static bool is_empty(const ir_problem *p, const ir_definition *def) {
  for (int i = 0; i < p->lead_rank && p->op->tensors[def->tensor].any_rank; i++)
    if (p->lead[i] == 0) return true;
  for (int i = 0; i < def->n_indices; i++)
    if (!def->indices[i].reduced && ir_dim_size(p, def->indices[i].range) == 0) return true;
  return false;
}

static arke_status check_span(const reach *r, int tensor, int subscript, const ir_expr *e, arke_error *err) {
  const ir_tensor *t = &r->p->op->tensors[tensor];
  int64_t low, high, size = ir_dim_size(r->p, t->dims[subscript]);
  if (!span(r, e, &low, &high) || (low >= 0 && high < size)) return ARKE_OK;
  return error_set(
      err, ARKE_ERR_SHAPE, "bind",
      "subscript %d of %s goes from %lld to %lld here, and the dimension has %lld elements (%d:%d)",
      subscript, t->name, (long long)low, (long long)high, (long long)size, e->line, e->column);
}

arke_status ir_writes_check(const ir_problem *p, const ir_definition *def, arke_error *err) {
  reach r = {p, def};
  for (int s = 0; s < def->n_subscripts && !def->skips && !is_empty(p, def); s++)
    TRY(check_span(&r, def->tensor, s, def->subscripts[s], err));
  return ARKE_OK;
}

/* Ranges of reductions end where what they read ends. */
static bool uses_reduced(const reach *r, const ir_expr *e) {
  if (e->node == IR_INDEX && r->def->indices[e->id].reduced) return true;
  for (int i = 0; i < e->n_args; i++)
    if (uses_reduced(r, e->args[i])) return true;
  return false;
}

/* Of reads that happen for all indices. */
static arke_status check_reads(const reach *r, const ir_expr *e, arke_error *err) {
  int n = e->n_args;
  if (e->node == IR_REDUCE) return ARKE_OK; /* it may be empty */
  if (e->node == IR_OPERATOR && (e->id == IR_OP_SELECT || e->id == IR_OP_AND || e->id == IR_OP_OR)) n = 1;
  if (e->node == IR_CALL && e->id == IR_FN_WHERE) n = 1;
  if (e->node == IR_READ && e->has_else) return ARKE_OK;
  for (int i = 0; i < n; i++) {
    if (e->node == IR_READ && !r->p->op->tensors[e->id].any_rank && !uses_reduced(r, e->args[i]))
      TRY(check_span(r, e->id, i, e->args[i], err));
    TRY(check_reads(r, e->args[i], err));
  }
  return ARKE_OK;
}

/* The first element along a dimension, from `at` on, that is in no definition's span; `size`: there is none.
 * A span that is not known is all of them. */
static int64_t first_unwritten(const ir_problem *p, int tensor, int dim, int64_t size) {
  int64_t at = 0;
  for (bool more = true; more && at < size;) {
    more = false;
    for (int i = 0; i < p->op->n_definitions; i++) {
      const ir_definition *def = &p->op->definitions[i];
      reach r = {p, def};
      int64_t low, high;
      if (def->tensor != tensor || is_empty(p, def)) continue;
      if (!span(&r, def->subscripts[dim], &low, &high)) return size;
      if (low > at || high < at) continue;
      at = high + 1;
      more = true;
    }
  }
  return at;
}

/* Whether plain definitions alone make the tensor: what is added to begins somewhere, and what is skipped
 * depends on data. */
static bool is_assigned(const ir_op *op, int tensor) {
  for (int i = 0; i < op->n_definitions; i++) {
    const ir_definition *d = &op->definitions[i];
    if (d->tensor2 == tensor) return false;
    if (d->tensor == tensor && (d->update != IR_ASSIGN || d->skips)) return false;
  }
  return true;
}

arke_status ir_problem_check_access(const ir_problem *p, arke_error *err) {
  const ir_op *op = p->op;
  for (int i = 0; i < op->n_definitions; i++) {
    reach r = {p, &op->definitions[i]};
    if (!is_empty(p, r.def)) TRY(check_reads(&r, r.def->value, err));
  }
  for (int i = op->n_inputs; i < op->n_args; i++) {
    const ir_tensor *t = &op->tensors[i];
    if (t->alias >= 0 || t->any_rank || !is_assigned(op, i) || ir_tensor_elements(p, i) == 0) continue;
    for (int dim = 0; dim < t->rank; dim++) {
      int64_t size = ir_dim_size(p, t->dims[dim]), at = first_unwritten(p, i, dim, size);
      if (at < size)
        return error_set(err, ARKE_ERR_SHAPE, "bind",
                         "no definition writes element %lld of dimension %d of %s, which has %lld elements",
                         (long long)at, dim, t->name, (long long)size);
    }
  }
  return ARKE_OK;
}
