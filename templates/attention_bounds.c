/* Which keys a query sees, from the conditions of the sums over them. */
#include "templates/attention.h"

static const ir_expr *without_index_cast(const ir_form *form, const ir_expr *e) {
  while (lanes_is_index_cast(form, e)) e = e->args[0];
  return e;
}

static bool is_size(const ir_form *form, const ir_expr *e, ir_dim *d) {
  e = without_index_cast(form, e);
  if (e->node != IR_SIZE) return false;
  *d = (ir_dim){.axis = e->id, .factor = 1};
  return true;
}

/* Whether `e` is h / (H / G), where h is a loop over H: the dimensions H and G. */
static bool is_share(const ir_form *form, const ir_expr *e, ir_dim shares[2]) {
  if (e->node != IR_OPERATOR || e->id != IR_OP_DIV) return false;
  const ir_expr *index = without_index_cast(form, e->args[0]), *by = without_index_cast(form, e->args[1]);
  if (index->node != IR_INDEX || by->node != IR_OPERATOR || by->id != IR_OP_DIV) return false;
  const ir_loop *loop = &form->loops[index->id];
  return is_size(form, by->args[0], &shares[0]) && is_size(form, by->args[1], &shares[1]) && !loop->leading &&
         loop->n_dims == 1 && loop->dims[0].axis == shares[0].axis && loop->dims[0].factor == 1;
}

/* h / (H / G) >= 0 or < G: holds where G divides H. */
static bool add_share(const ir_form *form, const ir_expr *e, attention_bounds *b) {
  ir_dim shares[2], size;
  if (e->node != IR_OPERATOR || e->n_args != 2 || !is_share(form, e->args[0], shares)) return false;
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
 * it, too. */
static bool take_loop(const ir_form *form, lanes_sum *sum, int loop, int64_t *coefficient) {
  *coefficient = 0;
  for (int i = 0; i < sum->n; i++) {
    const lanes_term *t = &sum->terms[i];
    if (t->e->node != IR_INDEX || t->e->id != loop || t->quotient) continue;
    *coefficient = t->coefficient;
    sum->terms[i--] = sum->terms[--sum->n];
  }
  for (int i = 0; i < sum->n; i++)
    if (ir_form_free(form, sum->terms[i].e) >> loop & 1 || sum->terms[i].quotient) return false;
  return true;
}

static void negate(lanes_sum *sum) {
  sum->constant = -sum->constant;
  for (int i = 0; i < sum->n; i++) sum->terms[i].coefficient = -sum->terms[i].coefficient;
}

static bool is_integer(const ir_form *form, const ir_expr *e) {
  dtype t = ir_form_type(form, e);
  return t == DTYPE_I64 || t == DTYPE_I32;
}

/* low - high < 0, or with `negated` >= 0. */
static bool add_comparison(const ir_form *form, int query, int key, const ir_expr *e, attention_bounds *b) {
  if (e->node != IR_OPERATOR || e->n_args != 2 || b->n == ATTENTION_BOUNDS) return false;
  bool mirrored = e->id == IR_OP_GT || e->id == IR_OP_LE, negated = e->id == IR_OP_GE || e->id == IR_OP_LE;
  if (!mirrored && e->id != IR_OP_LT && e->id != IR_OP_GE) return false;
  const ir_expr *low = e->args[mirrored], *high = e->args[!mirrored];
  if (!is_integer(form, low) || !is_integer(form, high)) return false;
  lanes_scope s = {.form = form, .loop = -1, .width = 1};
  lanes_sum x = lanes_sum_of(&s, low, 0), y = lanes_sum_of(&s, high, 0), sum;
  int64_t of_key, of_query;
  if (!lanes_subtract(&x, &y, &sum) || !take_loop(form, &sum, key, &of_key) ||
      !take_loop(form, &sum, query, &of_query))
    return false;
  if (of_key != 1 && of_key != -1) return false;
  /* key + rest < 0: below -rest; >= 0: from there on. rest - key < 0: from rest + 1 on; >= 0: below that. */
  if (of_key == 1) {
    negate(&sum);
    of_query = -of_query;
  } else {
    sum.constant++;
  }
  b->list[b->n++] = (attention_bound){.upper = (of_key == 1) != negated, .query = of_query, .rest = sum};
  return true;
}

bool attention_add_bounds(const ir_form *form, int query, int key, const ir_expr *condition,
                          attention_bounds *b) {
  if (!condition) return true;
  if (condition->node == IR_OPERATOR && condition->id == IR_OP_AND)
    return attention_add_bounds(form, query, key, condition->args[0], b) &&
           attention_add_bounds(form, query, key, condition->args[1], b);
  return add_share(form, condition, b) || add_comparison(form, query, key, condition, b);
}

static bool has_bound(const attention_bounds *b, const attention_bound *x) {
  for (int i = 0; i < b->n; i++) {
    const attention_bound *y = &b->list[i];
    if (x->upper == y->upper && x->query == y->query && x->rest.constant == y->rest.constant &&
        lanes_same_terms(&x->rest, &y->rest))
      return true;
  }
  return false;
}

bool attention_same_bounds(const attention_bounds *x, const attention_bounds *y) {
  for (int i = 0; i < x->n; i++)
    if (!has_bound(y, &x->list[i])) return false;
  for (int i = 0; i < y->n; i++)
    if (!has_bound(x, &y->list[i])) return false;
  return true;
}

bool attention_shares_divide(const ir_problem *p, const attention_bounds *b) {
  for (int i = 0; i < b->n_shares; i++) {
    int64_t all = p->sizes[b->shares[i][0].axis], shared = p->sizes[b->shares[i][1].axis];
    if (shared < 1 || all % shared != 0) return false;
  }
  return true;
}
