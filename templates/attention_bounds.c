/* Which keys a query sees, from the conditions of the sums over them. */
#include "templates/attention_match.h"

static bool is_size(const ir_form *form, const ir_expr *e, ir_dim *d) {
  e = lanes_without_index_casts(form, e);
  if (e->node != IR_SIZE) return false;
  *d = ir_dim_axis(e->id);
  return true;
}

bool attention_is_share(const ir_form *form, const ir_expr *e, int *loop, ir_dim shares[2]) {
  if (e->node != IR_OPERATOR || e->id != IR_OP_DIV) return false;
  const ir_expr *index = lanes_without_index_casts(form, e->args[0]),
                *by = lanes_without_index_casts(form, e->args[1]);
  if (index->node != IR_INDEX || by->node != IR_OPERATOR || by->id != IR_OP_DIV) return false;
  const ir_loop *over = &form->loops[index->id];
  *loop = index->id;
  return is_size(form, by->args[0], &shares[0]) && is_size(form, by->args[1], &shares[1]) && !over->leading &&
         over->n_dims == 1 && ir_dim_equal(over->dims[0], shares[0]);
}

/* h / (H / G) >= 0 or < G: holds where G divides H. */
static bool add_share(const ir_form *form, const ir_expr *e, attention_bounds *b) {
  ir_dim shares[2], size;
  int loop;
  if (e->node != IR_OPERATOR || e->n_args != 2 || !attention_is_share(form, e->args[0], &loop, shares))
    return false;
  bool above = e->id == IR_OP_GE && e->args[1]->node == IR_INT && e->args[1]->integer == 0;
  bool below = e->id == IR_OP_LT && is_size(form, e->args[1], &size) && size.axis == shares[1].axis;
  if (!above && !below) return false;
  for (int i = 0; i < b->n_shares; i++)
    if (b->shares[i][0].axis == shares[0].axis && b->shares[i][1].axis == shares[1].axis) return true;
  if (b->n_shares == ATTENTION_SHARES) return false;
  b->shares[b->n_shares][0] = shares[0];
  b->shares[b->n_shares++][1] = shares[1];
  return true;
}

/* The coefficient of a loop's index in a sum, which is taken out of it; false where the loop is elsewhere in
 * it, too, other than in the group. */
static bool take_loop(const ir_form *form, const contraction_groups *groups, lanes_sum *sum, int loop,
                      int64_t *coefficient) {
  *coefficient = 0;
  for (int i = 0; i < sum->n; i++) {
    const lanes_term *t = &sum->terms[i];
    if (t->e->node != IR_INDEX || t->e->id != loop || t->quotient) continue;
    *coefficient = t->coefficient;
    sum->terms[i--] = sum->terms[--sum->n];
  }
  for (int i = 0; i < sum->n; i++)
    if (contraction_loops_without_group(form, groups, sum->terms[i].e) >> loop & 1 || sum->terms[i].quotient)
      return false;
  return true;
}

static void multiply(lanes_sum *sum, int64_t factor) {
  sum->constant *= factor;
  for (int i = 0; i < sum->n; i++) sum->terms[i].coefficient *= factor;
}

static bool is_integer(const ir_form *form, const ir_expr *e) {
  dtype t = ir_form_type(form, e);
  return t == DTYPE_I64 || t == DTYPE_I32;
}

/* key / page >= 0, which always holds, or key / page < W: below W * page. */
static bool add_pages(const ir_form *form, int key, const ir_expr *e, attention_bounds *b) {
  if (e->node != IR_OPERATOR || e->n_args != 2) return false;
  const ir_expr *quotient = lanes_without_index_casts(form, e->args[0]);
  if (quotient->node != IR_OPERATOR || quotient->id != IR_OP_DIV) return false;
  const ir_expr *index = lanes_without_index_casts(form, quotient->args[0]),
                *page = lanes_without_index_casts(form, quotient->args[1]);
  bool constant = page->node == IR_INT && page->integer > 0;
  if (index->node != IR_INDEX || index->id != key || (page->node != IR_SIZE && !constant)) return false;
  if (e->id == IR_OP_GE && e->args[1]->node == IR_INT && e->args[1]->integer <= 0) return true;
  if (e->id != IR_OP_LT || ir_form_free(form, e->args[1]) || lanes_reads(form, e->args[1])) return false;
  lanes_scope s = {.form = form, .loop = -1, .width = 1};
  if (b->n == ATTENTION_BOUNDS) return false;
  lanes_sum rest = lanes_sum_of(&s, e->args[1], 0);
  if (constant) multiply(&rest, page->integer);
  b->list[b->n++] = (attention_bound){.upper = true, .rest = rest, .times = constant ? NULL : page};
  return true;
}

/* low - high < 0, or with `negated` >= 0. */
static bool add_comparison(const ir_form *form, const contraction_groups *groups, int query, int key,
                           const ir_expr *e, attention_bounds *b) {
  if (e->node != IR_OPERATOR || e->n_args != 2 || b->n == ATTENTION_BOUNDS) return false;
  bool mirrored = e->id == IR_OP_GT || e->id == IR_OP_LE, negated = e->id == IR_OP_GE || e->id == IR_OP_LE;
  if (!mirrored && e->id != IR_OP_LT && e->id != IR_OP_GE) return false;
  const ir_expr *low = e->args[mirrored], *high = e->args[!mirrored];
  if (!is_integer(form, low) || !is_integer(form, high)) return false;
  lanes_scope s = {.form = form, .loop = -1, .width = 1};
  lanes_sum x = lanes_sum_of(&s, low, 0), y = lanes_sum_of(&s, high, 0), sum;
  int64_t of_key, of_query;
  if (!lanes_subtract(&x, &y, &sum) || !take_loop(form, groups, &sum, key, &of_key) ||
      !take_loop(form, groups, &sum, query, &of_query))
    return false;
  if (of_key != 1 && of_key != -1) return false;
  /* key + rest < 0: below -rest; >= 0: from there on. rest - key < 0: from rest + 1 on; >= 0: below that. */
  if (of_key == 1) {
    multiply(&sum, -1);
    of_query = -of_query;
  } else {
    sum.constant++;
  }
  b->list[b->n++] = (attention_bound){.upper = (of_key == 1) != negated, .query = of_query, .rest = sum};
  return true;
}

/* g[n] < B: holds in all rows that are of a request, and the others see nothing anyway. */
static bool is_in_request(const ir_form *form, const contraction_groups *groups, const ir_expr *e) {
  ir_dim size;
  if (!groups->of || e->node != IR_OPERATOR || e->id != IR_OP_LT || !is_size(form, e->args[1], &size))
    return false;
  const ir_expr *number = e->args[0]->node == IR_CAST ? e->args[0]->args[0] : e->args[0];
  const ir_loop *loop = &form->loops[groups->loop];
  return number == groups->of && loop->n_dims == 1 && loop->dims[0].axis == size.axis &&
         loop->dims[0].factor == size.factor;
}

static bool reduces(const contraction_groups *groups, const ir_expr *e) {
  if (e->node == IR_REDUCE) return e != groups->of;
  for (int i = 0; i < e->n_args; i++)
    if (reduces(groups, e->args[i])) return true;
  return false;
}

static bool has_condition(const attention_bounds *b, const ir_expr *e) {
  for (int i = 0; i < b->n_conditions; i++)
    if (b->conditions[i] == e) return true;
  return false;
}

static bool add_condition(const contraction_groups *groups, const ir_expr *e, attention_bounds *b) {
  if (has_condition(b, e)) return true;
  if (reduces(groups, e) || b->n_conditions == ATTENTION_CONDITIONS) return false;
  b->conditions[b->n_conditions++] = e;
  return true;
}

bool attention_add_bounds(const ir_form *form, const contraction_groups *groups, int query, int key,
                          const ir_expr *condition, attention_bounds *b) {
  if (!condition) return true;
  if (condition->node == IR_OPERATOR && condition->id == IR_OP_AND)
    return attention_add_bounds(form, groups, query, key, condition->args[0], b) &&
           attention_add_bounds(form, groups, query, key, condition->args[1], b);
  return is_in_request(form, groups, condition) || add_share(form, condition, b) ||
         add_pages(form, key, condition, b) || add_comparison(form, groups, query, key, condition, b) ||
         add_condition(groups, condition, b);
}

bool attention_has_bound(const attention_bounds *b, const attention_bound *x) {
  for (int i = 0; i < b->n; i++) {
    const attention_bound *y = &b->list[i];
    if (x->upper == y->upper && x->query == y->query && x->times == y->times &&
        x->rest.constant == y->rest.constant && lanes_same_terms(&x->rest, &y->rest))
      return true;
  }
  return false;
}

bool attention_same_bounds(const attention_bounds *x, const attention_bounds *y) {
  for (int i = 0; i < x->n; i++)
    if (!attention_has_bound(y, &x->list[i])) return false;
  for (int i = 0; i < y->n; i++)
    if (!attention_has_bound(x, &y->list[i])) return false;
  for (int i = 0; i < x->n_conditions; i++)
    if (!has_condition(y, x->conditions[i])) return false;
  return x->n_conditions == y->n_conditions;
}

bool attention_shares_divide(const ir_problem *p, const attention_bounds *b) {
  for (int i = 0; i < b->n_shares; i++) {
    int64_t all = p->sizes[b->shares[i][0].axis], shared = p->sizes[b->shares[i][1].axis];
    if (shared < 1 || all % shared != 0) return false;
  }
  return true;
}
