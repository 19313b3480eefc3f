/* Left sides that leave their tensor whatever the data is: "Y[n + N0] = …" where N0 and what n ranges over
 * are more than Y has. Refused when the sizes are bound, since a kernel would write there. */
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

arke_status ir_writes_check(const ir_problem *p, const ir_definition *def, arke_error *err) {
  reach r = {p, def};
  const ir_tensor *t = &p->op->tensors[def->tensor];
  for (int s = 0; s < def->n_subscripts && !def->skips && !is_empty(p, def); s++) {
    int64_t low, high, size = ir_dim_size(p, t->dims[s]);
    if (!span(&r, def->subscripts[s], &low, &high) || (low >= 0 && high < size)) continue;
    return error_set(
        err, ARKE_ERR_SHAPE, "bind",
        "subscript %d of %s goes from %lld to %lld here, and the dimension has %lld elements (%d:%d)", s,
        t->name, (long long)low, (long long)high, (long long)size, def->subscripts[s]->line,
        def->subscripts[s]->column);
  }
  return ARKE_OK;
}
