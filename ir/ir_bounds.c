#include "ir/ir_bounds.h"

typedef struct walk {
  int slot;
  int inner[LIMIT_EXPR_DEPTH]; /* indices of reductions inside this one */
  int n_inner;
  ir_bound_fn visit;
  void *user;
} walk;

bool ir_expr_uses(const ir_expr *e, int slot) {
  if (e->node == IR_INDEX && e->id == slot) return true;
  for (int i = 0; i < e->n_args; i++)
    if (ir_expr_uses(e->args[i], slot)) return true;
  return false;
}

/* Known before the reduction starts. */
static bool is_outer(const walk *w, const ir_expr *e) {
  if (ir_expr_uses(e, w->slot)) return false;
  for (int i = 0; i < w->n_inner; i++)
    if (ir_expr_uses(e, w->inner[i])) return false;
  return true;
}

/* *falls flips where e falls as the index grows. */
static bool is_solvable(const walk *w, const ir_expr *e, bool *falls) {
  if (e->node == IR_INDEX) return e->id == w->slot;
  if (e->node != IR_OPERATOR) return false;
  bool right = e->n_args == 2 && !ir_expr_uses(e->args[0], w->slot);
  const ir_expr *inside = e->args[right ? 1 : 0];
  switch ((ir_operator)e->id) {
  case IR_OP_NEG: *falls = !*falls; break;
  case IR_OP_SUB:
    if (right) *falls = !*falls;
    break;
  case IR_OP_DIV:
    if (right) return false;
    break;
  case IR_OP_ADD:
  case IR_OP_MUL: break;
  default: return false;
  }
  return is_solvable(w, inside, falls) && (e->n_args == 1 || is_outer(w, e->args[right ? 0 : 1]));
}

static bool is_index(const ir_expr *e, int slot) {
  return e->node == IR_INDEX && e->id == slot;
}

/* The dimension `dim` without its first n elements. */
static bool shifted(ir_dim dim, int64_t n, ir_dim *range) {
  int64_t *left = dim.axis < 0 ? &dim.factor : &dim.more;
  if (n < 0 || *left < n) return false;
  *left -= n;
  *range = dim;
  return true;
}

static bool multiplied(ir_dim dim, const ir_expr *by, ir_dim *range) {
  if (by->node == IR_INT) {
    *range = dim;
    return by->integer > 0 && !__builtin_mul_overflow(dim.factor, by->integer, &range->factor) &&
           !__builtin_mul_overflow(dim.more, by->integer, &range->more);
  }
  if (by->node != IR_SIZE || dim.by >= 0 || dim.more != 0) return false;
  *(dim.axis < 0 ? &dim.axis : &dim.by) = by->id;
  *range = dim;
  return true;
}

bool ir_index_range(const ir_expr *sub, int slot, ir_dim dim, ir_dim *range) {
  *range = dim;
  if (is_index(sub, slot)) return true;
  if (sub->node != IR_OPERATOR || sub->n_args != 2) return false;
  const ir_expr *x = sub->args[0], *y = sub->args[1];
  if (sub->id == IR_OP_DIV) return is_index(x, slot) && multiplied(dim, y, range);
  if (sub->id != IR_OP_ADD) return false;
  const ir_expr *more = is_index(x, slot) ? y : x;
  return (is_index(x, slot) || is_index(y, slot)) && more->node == IR_INT &&
         shifted(dim, more->integer, range);
}

static bool visit_reads(walk *w, const ir_expr *e);

static bool visit_read(walk *w, const ir_expr *e) {
  int n = e->n_args - e->has_else;
  for (int i = 0; i < n; i++) {
    bool falls = false;
    ir_bound b = {.sub = e->args[i], .tensor = e->id, .dim = i, .upper = true};
    if (!e->has_else && is_solvable(w, e->args[i], &falls) && !w->visit(&b, w->user)) return false;
    if (!visit_reads(w, e->args[i])) return false;
  }
  return true;
}

static bool visit_comparison(walk *w, const ir_expr *e) {
  static const ir_operator MIRRORED[] = {[IR_OP_LT] = IR_OP_GT,
                                         [IR_OP_LE] = IR_OP_GE,
                                         [IR_OP_GT] = IR_OP_LT,
                                         [IR_OP_GE] = IR_OP_LE,
                                         [IR_OP_EQ] = IR_OP_EQ};
  if (e->node != IR_OPERATOR || e->id < IR_OP_LT || e->id > IR_OP_EQ) return true;
  for (int side = 0; side < 2; side++) {
    bool falls = false;
    if (!is_solvable(w, e->args[side], &falls) || !is_outer(w, e->args[1 - side])) continue;
    ir_operator relation = side == 0 ? (ir_operator)e->id : MIRRORED[e->id];
    bool below = relation == IR_OP_LT || relation == IR_OP_LE;
    ir_bound b = {e->args[side], -1, 0, relation, e->args[1 - side], relation == IR_OP_EQ || below != falls};
    return w->visit(&b, w->user);
  }
  return true;
}

/* A conjunction at the top of a condition: every part holds for the values that remain. */
static bool visit_condition(walk *w, const ir_expr *e) {
  if (e->node == IR_OPERATOR && e->id == IR_OP_AND)
    return visit_condition(w, e->args[0]) && visit_condition(w, e->args[1]);
  return visit_comparison(w, e) && visit_reads(w, e);
}

static bool visit_reads(walk *w, const ir_expr *e) {
  int n = e->n_args;
  switch (e->node) {
  case IR_READ: return visit_read(w, e);
  case IR_REDUCE:
    w->inner[w->n_inner++] = e->index;
    for (int i = 0; i < n; i++)
      if (!visit_reads(w, e->args[i])) return false;
    w->n_inner--;
    return true;
  case IR_OPERATOR:
    if (e->id == IR_OP_SELECT || e->id == IR_OP_AND || e->id == IR_OP_OR) n = 1;
    break;
  case IR_CALL:
    if (e->id == IR_FN_WHERE) n = 1;
    break;
  default: break;
  }
  for (int i = 0; i < n; i++)
    if (!visit_reads(w, e->args[i])) return false;
  return true;
}

bool ir_bounds_visit(const ir_expr *reduce, ir_bound_fn visit, void *user) {
  walk w = {.slot = reduce->index, .visit = visit, .user = user};
  if (reduce->n_args == 2 && !visit_condition(&w, reduce->args[1])) return false;
  return visit_reads(&w, reduce->args[0]);
}
