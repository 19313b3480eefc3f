/* Which forms are attention's gradients, and what plays which part in them. */
#include "templates/backward_match.h"

/* --- expressions --- */

static bool is_sum(const ir_expr *e) {
  return e->node == IR_REDUCE && e->id == IR_RED_SUM;
}

/* The one outermost reduction of e; false where there are several or none. */
static bool only_reduction(const ir_expr *e, const ir_expr **found) {
  if (e->node == IR_REDUCE) {
    bool other = *found && *found != e;
    *found = e;
    return !other;
  }
  for (int i = 0; i < e->n_args; i++)
    if (!only_reduction(e->args[i], found)) return false;
  return true;
}

enum { MOST_REDUCTIONS = 3 };

/* Adds the outermost reductions of e, but for a row's request; false where there are too many. */
static bool add_reductions(const backward_match *m, const ir_expr *e, const ir_expr **list, int *n) {
  if (e == m->groups[BACKWARD_QUERIES].of || e == m->groups[BACKWARD_KEYS].of) return true;
  if (e->node == IR_REDUCE) {
    for (int i = 0; i < *n; i++)
      if (list[i] == e) return true;
    if (*n == MOST_REDUCTIONS) return false;
    list[(*n)++] = e;
    return true;
  }
  for (int i = 0; i < e->n_args; i++)
    if (!add_reductions(m, e->args[i], list, n)) return false;
  return true;
}

/* --- sums --- */

static bool collect_factors(const ir_form *form, const ir_expr *e, backward_sum *s) {
  if (ir_is_operator(e, IR_OP_MUL))
    return collect_factors(form, e->args[0], s) && collect_factors(form, e->args[1], s);
  const ir_expr *read = ir_form_as_read(form, e);
  if (read && !s->read) {
    s->read = read;
    return true;
  }
  if (e->node != IR_CAST || s->factor) return false;
  s->factor = e->args[0];
  s->rounded = ir_cast_dtype(form->problem, e);
  return true;
}

static bool collect_sum(backward_matcher *w, int output, backward_sum *s) {
  const ir_form *form = &w->m->form;
  const ir_form_output *out = &form->outputs[output];
  *s = (backward_sum){.output = output};
  if (!only_reduction(out->value, &s->all) || !s->all || !is_sum(s->all))
    return template_say(w->detail, "an output is no expression over one sum");
  s->inner = s->all;
  if (is_sum(s->inner->args[0])) {
    s->heads = s->inner;
    s->inner = s->inner->args[0];
  }
  return (collect_factors(form, s->inner->args[0], s) && s->read && s->factor) ||
         template_say(w->detail, "a sum is not one of rounded weights times elements");
}

/* P is made of one product of a query with a key, dS of that and another one, and of a query's own sum. */
static bool match_products(backward_matcher *w) {
  backward_match *m = w->m;
  const ir_form *form = &m->form;
  const ir_expr *of_weight[MOST_REDUCTIONS], *of_gradient[MOST_REDUCTIONS];
  int n = 0, n_gradient = 0;
  if (!add_reductions(m, m->weight, of_weight, &n) || n != 1 || !is_sum(of_weight[0]))
    return template_say(w->detail, "weights are not made of one sum");
  m->product = of_weight[0];
  if (!add_reductions(m, m->gradient, of_gradient, &n_gradient))
    return template_say(w->detail, "a weight's gradient is made of more than its product and two sums");
  for (int i = 0; i < n_gradient; i++) {
    const ir_expr *e = of_gradient[i];
    if (e == m->product) continue;
    const ir_expr **place = ir_form_free(form, e) >> m->key & 1 ? &m->slope : &m->dot;
    if (*place || !is_sum(e) || ir_reduces(e->args[0]))
      return template_say(w->detail, "a weight's gradient is made of more than its product and two sums");
    *place = e;
  }
  if (!m->slope) return template_say(w->detail, "there is no gradient of a softmax");
  return !m->dot || !ir_condition_of(m->dot) || template_say(w->detail, "a query's sum has a condition");
}

/* --- operands --- */

/* The two elements whose products a sum adds up; `second` is NULL where there are not two. */
static void factors_of(const ir_form *form, const ir_expr *sum, const ir_expr *reads[2]) {
  const ir_expr *e = sum->args[0];
  reads[0] = reads[1] = NULL;
  if (!ir_is_operator(e, IR_OP_MUL)) return;
  for (int i = 0; i < 2; i++) reads[i] = ir_form_as_read(form, e->args[i]);
}

/* The factor beside `known`; NULL: it is none of the two. */
static const ir_expr *other_factor(const ir_form *form, const ir_expr *sum, const ir_expr *known) {
  const ir_expr *reads[2];
  factors_of(form, sum, reads);
  if (!reads[0] || !reads[1]) return NULL;
  return reads[0] == known ? reads[1] : reads[1] == known ? reads[0] : NULL;
}

/* An element of an input, each of whose subscripts is an index of `plain`, or depends on none of them. */
static bool check_operand(backward_matcher *w, int access, unsigned plain, int last) {
  const ir_form *form = &w->m->form;
  const ir_access *x = &form->accesses[access];
  const char *name = form->problem->op->tensors[x->tensor].name;
  unsigned seen = 0;
  if (x->other || x->n > 5) return template_say(w->detail, "%s is not a tensor of up to 5 axes", name);
  for (int s = 0; s < x->n; s++) {
    const ir_expr *e = x->subscripts[s].e;
    unsigned free = ir_form_free(form, e);
    if (x->subscripts[s].leading) return template_say(w->detail, "%s has leading axes", name);
    if (!(free & plain)) continue;
    if (e->node != IR_INDEX || (seen & free))
      return template_say(w->detail, "%s is not read row by row", name);
    seen |= free;
  }
  const ir_expr *inner = x->subscripts[x->n - 1].e;
  return (seen == plain && inner->node == IR_INDEX && inner->id == last) ||
         template_say(w->detail, "rows of %s do not run along the axis that is summed or stored", name);
}

/* O, where e is made of rows of it and of dO. */
static int find_o(const backward_match *m) {
  const ir_form *form = &m->form;
  const ir_expr *reads[2];
  if (!m->dot) return -1;
  factors_of(form, m->dot, reads);
  if (!reads[0] || !reads[1]) return -1;
  int o = reads[0]->id == m->d_o ? reads[1]->id : reads[1]->id == m->d_o ? reads[0]->id : -1;
  if (o < 0 || dtype_bits(ir_tensor_dtype(form->problem, form->accesses[o].tensor)) != 16) return -1;
  backward_matcher quiet = {.m = (backward_match *)m};
  return check_operand(&quiet, o, 1u << m->query | 1u << m->dot->index, m->dot->index) ? o : -1;
}

static bool match_operands(backward_matcher *w, const backward_sum *dq, const backward_sum *dk,
                           const backward_sum *dv) {
  backward_match *m = w->m;
  const ir_form *form = &m->form;
  const ir_expr *v = other_factor(form, m->slope, dv->read);
  if (other_factor(form, m->product, dq->read) != dk->read || !v)
    return template_say(w->detail, "sums are not over the elements that weights are made of");
  if (ir_condition_of(dk->all) != ir_condition_of(dv->all) ||
      ir_condition_of(dk->inner) != ir_condition_of(dv->inner) || dk->all->index != dv->all->index ||
      dk->inner->index != dv->inner->index)
    return template_say(w->detail, "gradients of keys and of values are sums over different queries");
  m->q = dk->read->id;
  m->k = dq->read->id;
  m->d_o = dv->read->id;
  m->v = v->id;
  m->depth = m->product->index;
  m->wide = m->slope->index;
  m->o = find_o(m);
  unsigned query = 1u << m->query, key = 1u << m->key, depth = 1u << m->depth, wide = 1u << m->wide;
  return check_operand(w, m->q, query | depth, m->depth) && check_operand(w, m->k, key | depth, m->depth) &&
         check_operand(w, m->d_o, query | wide, m->wide) && check_operand(w, m->v, key | wide, m->wide);
}

/* --- all --- */

/* Two sums are of one gradient, the third is of its weights. */
static const backward_sum *sum_of_weights(const backward_sum sums[3]) {
  for (int i = 0; i < 3; i++) {
    const ir_expr *x = sums[(i + 1) % 3].factor, *y = sums[(i + 2) % 3].factor;
    if (x == y && sums[i].factor != x) return &sums[i];
  }
  return NULL;
}

/* Values of P and dS are of a query and a key alone. */
static bool check_loops(backward_matcher *w) {
  const backward_match *m = w->m;
  unsigned pair = m->batch[BACKWARD_QUERIES].set | 1u << m->query | 1u << m->key;
  if (m->dot && !backward_is_of_query(m, m->dot))
    return template_say(w->detail, "a query's sums depend on more than the query");
  return !((ir_form_free(&m->form, m->weight) | ir_form_free(&m->form, m->gradient)) & ~pair) ||
         template_say(w->detail, "weights have loops of their own");
}

static bool match(backward_matcher *w) {
  backward_match *m = w->m;
  const ir_form *form = &m->form;
  backward_sum sums[3];
  if (form->n_outputs != 3) return template_say(w->detail, "there are not three outputs");
  for (int i = 0; i < 3; i++)
    if (!collect_sum(w, i, &sums[i])) return false;
  const backward_sum *dv = sum_of_weights(sums);
  if (!dv) return template_say(w->detail, "there are not two sums of one gradient and one of its weights");
  const backward_sum *dk = &sums[(dv->output + 1) % 3], *dq = &sums[(dv->output + 2) % 3];
  m->query = dv->inner->index;
  if (dk->inner->index != m->query) {
    const backward_sum *other = dk;
    dk = dq;
    dq = other;
  }
  m->key = dq->inner->index;
  if (dq->heads || dk->inner->index != m->query || m->key == m->query)
    return template_say(w->detail, "queries and keys have the same loops");
  m->groups[BACKWARD_QUERIES] = contraction_find_groups_of(form, m->query);
  m->groups[BACKWARD_KEYS] = contraction_find_groups_of(form, m->key);
  m->weight = dv->factor;
  m->gradient = dq->factor;
  m->dq = dq->output;
  m->dk = dk->output;
  m->dv = dv->output;
  m->sums[0] = dq->all;
  m->sums[1] = dk->all;
  m->sums[2] = dv->all;
  if (!match_products(w) || !match_operands(w, dq, dk, dv) || !backward_match_batch(w, dq, dk, dv) ||
      !check_loops(w))
    return false;
  if (dq->rounded != dk->rounded || dq->rounded != dv->rounded)
    return template_say(w->detail, "weights and their gradients are rounded to different dtypes");
  m->type = dq->rounded;
  backward_find_kind(m);
  return backward_match_bounds(w, dq, dk);
}

template_reason backward_match_op(const ir_problem *p, arena *a, backward_match *m, strbuf *detail,
                                  arke_status *status) {
  backward_matcher w = {.m = m, .detail = detail};
  *m = (backward_match){0};
  arke_status made = ir_form_make(p, a, &m->form, NULL);
  if (status) *status = made;
  if (made != ARKE_OK) {
    template_say(w.detail, "the operator has no form");
    return TEMPLATE_OPERATOR;
  }
  return match(&w) ? TEMPLATE_OK : TEMPLATE_OPERATOR;
}
