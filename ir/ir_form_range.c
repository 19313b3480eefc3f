/* What is known of subscripts whatever the sizes are, and the conditions that say the rest: a reduction takes
 * the values of its index for which its reads lie in their tensors, which the form states as a condition
 * where it does not follow from the loop's range. */
#include "ir/ir_bounds.h"
#include "ir/ir_form_build.h"
#include "ir/ir_functions.h"

/* constant + sum of coefficient * size, where sizes are >= 0. */
typedef struct linear {
  bool known;
  int64_t constant;
  int64_t sizes[LIMIT_AXES];
} linear;

typedef struct interval {
  linear low, high;
} interval;

static linear linear_constant(int64_t v) {
  return (linear){.known = true, .constant = v};
}

static linear linear_dim(ir_dim d) {
  linear l = linear_constant(d.axis < 0 ? d.factor : d.more);
  if (d.axis >= 0) l.sizes[d.axis] = d.factor;
  l.known = d.by < 0;
  return l;
}

/* x + factor * y */
static linear linear_add(linear x, linear y, int64_t factor) {
  int64_t scaled;
  linear l = {.known = x.known && y.known};
  l.known = l.known && !__builtin_mul_overflow(y.constant, factor, &scaled) &&
            !__builtin_add_overflow(x.constant, scaled, &l.constant);
  for (int i = 0; l.known && i < LIMIT_AXES; i++)
    l.known = !__builtin_mul_overflow(y.sizes[i], factor, &scaled) &&
              !__builtin_add_overflow(x.sizes[i], scaled, &l.sizes[i]);
  return l;
}

static bool is_constant(const linear *l) {
  for (int i = 0; i < LIMIT_AXES; i++)
    if (l->sizes[i] != 0) return false;
  return l->known;
}

static bool is_never_negative(const linear *l) {
  for (int i = 0; i < LIMIT_AXES; i++)
    if (l->sizes[i] < 0) return false;
  return l->known && l->constant >= 0;
}

static interval interval_of(const ir_form *form, const ir_expr *e);

static interval interval_sum(interval x, interval y, int64_t factor) {
  const linear *low = factor < 0 ? &y.high : &y.low, *high = factor < 0 ? &y.low : &y.high;
  return (interval){linear_add(x.low, *low, factor), linear_add(x.high, *high, factor)};
}

/* The loop over W*Z whose index is divided by Z: the quotient is a loop over W. */
static bool is_quotient(const ir_form *form, const ir_expr *e, ir_dim *of) {
  if (e->args[0]->node != IR_INDEX || e->args[1]->node != IR_SIZE) return false;
  const ir_loop *l = &form->loops[e->args[0]->id];
  *of = l->dims[0];
  return !l->leading && l->n_dims == 2 && ir_dim_equal(l->dims[1], ir_dim_axis(e->args[1]->id));
}

/* Quotients round down, so they are at most x / divisor, and never negative where x is not. */
static interval interval_divide(interval x, int64_t divisor) {
  interval r = {.low.known = false};
  if (is_constant(&x.low))
    r.low = linear_constant(ir_floor_div(x.low.constant, divisor));
  else if (is_never_negative(&x.low))
    r.low = linear_constant(0);
  bool divides = x.high.known;
  for (int i = 0; divides && i < LIMIT_AXES; i++) divides = x.high.sizes[i] % divisor == 0;
  if (divides) {
    r.high = linear_constant(ir_floor_div(x.high.constant, divisor));
    for (int i = 0; i < LIMIT_AXES; i++) r.high.sizes[i] = x.high.sizes[i] / divisor;
  } else if (is_never_negative(&r.low)) {
    r.high = x.high;
  }
  return r;
}

static interval interval_operator(const ir_form *form, const ir_expr *e) {
  static const interval UNKNOWN = {.low.known = false};
  static const interval ZERO = {{.known = true}, {.known = true}};
  interval x = interval_of(form, e->args[0]);
  if (e->id == IR_OP_NEG) return interval_sum(ZERO, x, -1);
  if (e->n_args != 2) return UNKNOWN;
  interval y = interval_of(form, e->args[1]);
  ir_dim of;
  bool by_constant = is_constant(&y.low) && is_constant(&y.high) && y.low.constant == y.high.constant;
  switch ((ir_operator)e->id) {
  case IR_OP_ADD: return interval_sum(x, y, 1);
  case IR_OP_SUB: return interval_sum(x, y, -1);
  case IR_OP_MUL:
    if (by_constant) return interval_sum(ZERO, x, y.low.constant);
    if (is_constant(&x.low) && is_constant(&x.high) && x.low.constant == x.high.constant)
      return interval_sum(ZERO, y, x.low.constant);
    if (is_never_negative(&x.low) && is_never_negative(&y.low)) return (interval){.low = linear_constant(0)};
    return UNKNOWN;
  case IR_OP_DIV:
    if (by_constant && y.low.constant > 0) return interval_divide(x, y.low.constant);
    if (!is_quotient(form, e, &of)) return UNKNOWN;
    return (interval){linear_constant(0), linear_add(linear_dim(of), linear_constant(1), -1)};
  case IR_OP_MOD: /* the divisor's sign; a divisor of 0 is an error of the caller */
    if (is_never_negative(&y.low))
      return (interval){linear_constant(0), linear_add(y.high, linear_constant(1), -1)};
    return UNKNOWN;
  default: return UNKNOWN;
  }
}

static interval interval_of(const ir_form *form, const ir_expr *e) {
  interval r = {.low.known = false};
  switch (e->node) {
  case IR_INT: r.low = r.high = linear_constant(e->integer); break;
  case IR_ATTR:
    if (form->problem->op->attrs[e->id].kind == IR_ATTR_INT)
      r.low = r.high = linear_constant((int64_t)form->problem->attrs[e->id]);
    break;
  case IR_SIZE: r.low = r.high = linear_dim(ir_dim_axis(e->id)); break;
  case IR_INDEX: {
    const ir_loop *loop = &form->loops[e->id];
    r.low = linear_constant(0);
    if (!loop->leading && loop->n_dims == 1)
      r.high = linear_add(linear_dim(loop->dims[0]), linear_constant(1), -1);
    break;
  }
  case IR_OPERATOR: return interval_operator(form, e);
  default: break;
  }
  return r;
}

/* Two axes are no linear sum: the index of their loop is inside because it is that loop's. */
static bool is_loop_over(const ir_form *form, const ir_expr *e, ir_dim d) {
  if (e->node != IR_INDEX || d.by < 0) return false;
  const ir_loop *l = &form->loops[e->id];
  ir_dim outer = d;
  outer.by = -1;
  return !l->leading && l->n_dims == 2 && ir_dim_equal(l->dims[0], outer) &&
         ir_dim_equal(l->dims[1], ir_dim_axis(d.by));
}

form_inside form_is_inside(const form_builder *b, const ir_expr *subscript, ir_dim d) {
  if (is_loop_over(b->form, subscript, d)) return (form_inside){true, true};
  interval x = interval_of(b->form, subscript);
  linear room = linear_add(linear_add(linear_dim(d), x.high, -1), linear_constant(1), -1);
  return (form_inside){is_never_negative(&x.low), is_never_negative(&room)};
}

bool form_known_less(const form_builder *b, const ir_expr *x, const ir_expr *y, bool or_equal) {
  linear room = linear_add(interval_of(b->form, y).low, interval_of(b->form, x).high, -1);
  room = linear_add(room, linear_constant(or_equal ? 0 : 1), -1);
  return is_never_negative(&room);
}

bool ir_form_reach(const ir_form *form, const ir_expr *subscript, int64_t *constant,
                   int64_t sizes[LIMIT_AXES]) {
  linear high = interval_of(form, subscript).high;
  *constant = high.constant;
  for (int i = 0; i < LIMIT_AXES; i++) sizes[i] = high.sizes[i];
  return high.known;
}

const ir_expr *form_inside_condition(form_builder *b, const ir_expr *subscript, ir_dim d) {
  if (subscript == NULL) return NULL;
  form_inside inside = form_is_inside(b, subscript, d);
  const ir_expr *above = NULL, *below = NULL;
  if (!inside.above) above = form_operator(b, IR_OP_GE, subscript, form_int(b, 0));
  if (!inside.below) below = form_operator(b, IR_OP_LT, subscript, form_dim(b, d));
  return form_and(b, above, below);
}

/* --- the range of a reduction --- */

typedef struct range_finder {
  form_builder *b;
  const form_env *env;
  int slot;
  const ir_index *index;
  int rank; /* how good `range` is: 0: there is none, 1: a comparison, 2: a read, 3: the index's own axis */
  ir_dim range;
} range_finder;

static void offer(range_finder *f, int rank, ir_dim d) {
  if (rank <= f->rank) return;
  f->rank = rank;
  f->range = d;
}

/* What index `slot` of a definition ranges over, if that is one dimension. */
static bool index_range(const range_finder *f, int slot, ir_dim *d) {
  const ir_index *index = &f->env->def->indices[slot];
  const ir_expr *value = f->env->values[slot];
  *d = index->range;
  if (!index->reduced) return index->ranged;
  if (value == NULL || value->node != IR_INDEX || f->b->form->loops[value->id].n_dims != 1) return false;
  *d = f->b->form->loops[value->id].dims[0];
  return true;
}

/* "index < limit": an integer, an attribute, a size, or another index. */
static bool known_limit(const range_finder *f, const ir_bound *bound, ir_dim *d) {
  const ir_problem *p = f->b->p;
  const ir_expr *e = bound->other;
  int64_t limit, more = bound->relation == IR_OP_LE ? 1 : 0;
  if (bound->relation != IR_OP_LT && bound->relation != IR_OP_LE) return false;
  if (e->node == IR_INDEX) return index_range(f, e->id, d);
  if (e->node == IR_SIZE && more == 0) {
    *d = ir_dim_axis(e->id);
    return true;
  }
  if (e->node == IR_INT)
    limit = e->integer;
  else if (e->node == IR_ATTR && p->op->attrs[e->id].kind == IR_ATTR_INT)
    limit = (int64_t)p->attrs[e->id];
  else
    return false;
  if (limit > LIMIT_AXIS_SIZE) return false;
  *d = ir_dim_constant(limit < 0 ? 0 : limit + more);
  return true;
}

static bool note_range(const ir_bound *bound, void *user) {
  range_finder *f = user;
  const ir_op *op = f->b->p->op;
  if (!bound->upper) return true;
  ir_dim d;
  if (bound->tensor >= 0) {
    d = op->tensors[bound->tensor].dims[bound->dim];
    if (ir_index_range(bound->sub, f->slot, d, &d))
      offer(f, f->index->ranged && ir_dim_equal(d, f->index->range) ? 3 : 2, d);
  } else if (bound->sub->node == IR_INDEX && bound->sub->id == f->slot && known_limit(f, bound, &d)) {
    offer(f, 1, d);
  }
  return true;
}

bool form_reduction_range(form_builder *b, const form_env *env, const ir_expr *reduce, ir_dim *range) {
  range_finder f = {.b = b, .env = env, .slot = reduce->index, .index = &env->def->indices[reduce->index]};
  ir_bounds_visit(reduce, note_range, &f);
  *range = f.range;
  if (f.rank > 0) return true;
  form_fail(
      b, ARKE_ERR_UNSUPPORTED,
      "index '%s' of a reduction stands alone or divided by a size in no subscript that is always read, "
      "so what it ranges over is no axis (%d:%d)",
      f.index->name, reduce->line, reduce->column);
  return false;
}

/* --- reads that must lie inside --- */

typedef struct reads {
  form_builder *b;
  form_env *env;
  const ir_expr *all; /* the condition so far; NULL: true */
  int slot;
  int inner[LIMIT_EXPR_DEPTH];
  int n_inner;
} reads;

static bool has_read(const ir_expr *e) {
  if (e->node == IR_READ) return true;
  for (int i = 0; i < e->n_args; i++)
    if (has_read(e->args[i])) return true;
  return false;
}

static bool is_bounded(const form_env *env, const ir_expr *subscript) {
  for (const form_bounded *x = env->bounded; x != NULL; x = x->next)
    if (x->subscript == subscript) return true;
  return false;
}

static const ir_expr *subscript_inside(reads *r, const ir_expr *subscript, int tensor, int dim) {
  ir_dim d = r->b->p->op->tensors[tensor].dims[dim];
  if (subscript->node == IR_INDEX) { /* elements of a temporary exist where its reads may be */
    const ir_index *index = &r->env->def->indices[subscript->id];
    ir_dim all = index->range;
    if (!index->reduced && all.axis == d.axis && all.by == d.by && all.factor <= d.factor &&
        all.more <= d.more)
      return NULL;
  }
  form_place place = {.guarded = true, .subscript = true};
  const ir_expr *built = form_build(r->b, r->env, subscript, place);
  return form_inside_condition(r->b, built, d);
}

/* What limits the index holds for all of its values, so that no inner reduction need say it again. */
static bool note_bound(const ir_bound *bound, void *user) {
  reads *r = user;
  if (bound->tensor < 0 || is_bounded(r->env, bound->sub)) return true;
  form_bounded *x = ARENA_NEW(r->b->a, form_bounded);
  if (x == NULL) {
    form_fail_memory(r->b);
    return false;
  }
  *x = (form_bounded){bound->sub, r->env->bounded};
  r->env->bounded = x;
  r->all = form_and(r->b, r->all, subscript_inside(r, bound->sub, bound->tensor, bound->dim));
  return r->b->status == ARKE_OK;
}

static bool uses_inner(const reads *r, const ir_expr *e) {
  for (int i = 0; i < r->n_inner; i++)
    if (ir_expr_uses(e, r->inner[i])) return true;
  return false;
}

static const ir_expr *reads_inside(reads *r, const ir_expr *e);

/* The innermost index that a read's subscripts use is the one whose value leaves if any of them is outside.
 */
static const ir_expr *read_inside(reads *r, const ir_expr *e) {
  form_builder *b = r->b;
  const ir_expr *all = NULL;
  int n = e->n_args - e->has_else;
  bool owned = false, inner = false;
  for (int i = 0; i < n; i++) {
    owned = owned || ir_expr_uses(e->args[i], r->slot);
    inner = inner || uses_inner(r, e->args[i]);
    all = form_and(b, all, reads_inside(r, e->args[i]));
  }
  if (e->has_else) {
    if (reads_inside(r, e->args[n]) == NULL) return all;
    return form_fail(b, ARKE_ERR_UNSUPPORTED,
                     "a read in the else of a reduction's read may lie outside (%d:%d)", e->line, e->column);
  }
  const ir_expr *here = NULL;
  for (int i = 0; owned && !inner && i < n; i++) /* gathered and outside is an error of the caller */
    if (!has_read(e->args[i]) && !is_bounded(r->env, e->args[i]))
      here = form_and(b, here, subscript_inside(r, e->args[i], e->id, i));
  if (here != NULL && r->n_inner > 0)
    return form_fail(
        b, ARKE_ERR_UNSUPPORTED,
        "a read inside a reduction may lie outside by the index of another one around it (%d:%d)", e->line,
        e->column);
  return form_and(b, all, here);
}

/* `part` matters where `c` holds, or with `otherwise` where it does not. */
static const ir_expr *where_taken(reads *r, const ir_expr *c, bool otherwise, const ir_expr *part) {
  form_builder *b = r->b;
  if (part == NULL) return NULL;
  form_place place = {.guarded = true};
  const ir_expr *condition = form_build(b, r->env, c, place);
  if (condition == NULL) return NULL;
  int truth = form_truth(b, condition);
  if (truth >= 0) return (truth != 0) != otherwise ? part : NULL;
  if (!otherwise) condition = form_operator(b, IR_OP_NOT, condition, NULL);
  return form_operator(b, IR_OP_OR, condition, part);
}

static const ir_expr *reads_inside(reads *r, const ir_expr *e) {
  form_builder *b = r->b;
  const ir_expr *all = NULL;
  if (b->status != ARKE_OK) return NULL;
  if (e->node == IR_READ) return read_inside(r, e);
  bool select =
      (e->node == IR_OPERATOR && e->id == IR_OP_SELECT) || (e->node == IR_CALL && e->id == IR_FN_WHERE);
  bool choice = e->node == IR_OPERATOR && (e->id == IR_OP_AND || e->id == IR_OP_OR);
  if (select || choice) {
    all = reads_inside(r, e->args[0]);
    if (select) {
      all = form_and(b, all, where_taken(r, e->args[0], false, reads_inside(r, e->args[1])));
      return form_and(b, all, where_taken(r, e->args[0], true, reads_inside(r, e->args[2])));
    }
    return form_and(b, all, where_taken(r, e->args[0], e->id == IR_OP_OR, reads_inside(r, e->args[1])));
  }
  if (e->node == IR_REDUCE) r->inner[r->n_inner++] = e->index;
  for (int i = 0; i < e->n_args; i++) all = form_and(b, all, reads_inside(r, e->args[i]));
  if (e->node == IR_REDUCE) r->n_inner--;
  return all;
}

const ir_expr *form_reads_inside(form_builder *b, form_env *env, const ir_expr *reduce) {
  reads r = {.b = b, .env = env, .slot = reduce->index};
  if (!ir_bounds_visit(reduce, note_bound, &r)) return NULL;
  for (int i = reduce->n_args - 1; i >= 0; i--) r.all = form_and(b, r.all, reads_inside(&r, reduce->args[i]));
  return r.all;
}
