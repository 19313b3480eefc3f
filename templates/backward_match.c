/* Which forms are attention's gradients, and what plays which part in them. */
#include <math.h>

#include "templates/backward.h"

typedef struct matcher {
  backward_match *m;
  strbuf *detail;
} matcher;

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

static bool is_constant(const ir_problem *p, const ir_expr *e, double *v) {
  switch (e->node) {
  case IR_FLOAT: *v = e->number; return true;
  case IR_INT: *v = (double)e->integer; return true;
  case IR_ATTR: *v = p->attrs[e->id]; return true;
  default: return false;
  }
}

/* --- sums --- */

/* The sum of an output: over heads, where `heads` is there, and rows or keys, of something rounded times an
 * element. */
typedef struct outer_sum {
  int output;
  const ir_expr *all, *heads, *inner, *read;
  const ir_expr *factor; /* what is rounded */
  dtype rounded;
} outer_sum;

static bool collect_factors(const ir_form *form, const ir_expr *e, outer_sum *s) {
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

static bool collect_sum(matcher *w, int output, outer_sum *s) {
  const ir_form *form = &w->m->form;
  const ir_form_output *out = &form->outputs[output];
  *s = (outer_sum){.output = output};
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
static bool match_products(matcher *w) {
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

static bool is_of_query(const backward_match *m, const ir_expr *e) {
  unsigned row = m->batch[BACKWARD_QUERIES].set | 1u << m->query;
  return !(ir_form_free(&m->form, e) & ~row);
}

/* P = exp(score - l). */
static void find_lse(backward_match *m) {
  const ir_expr *e = m->weight;
  if (e->node != IR_CALL || (e->id != IR_FN_EXP && e->id != IR_FN_EXP2) ||
      !ir_is_operator(e->args[0], IR_OP_SUB))
    return;
  const ir_expr *l = e->args[0]->args[1];
  if (ir_reduces(l) || !is_of_query(m, l)) return;
  m->lse = l;
  m->base2 = e->id == IR_FN_EXP2;
}

/* e without the constants that it is multiplied with or divided by, which are in `factor` then. */
static const ir_expr *without_constants(const ir_problem *p, const ir_expr *e, double *factor) {
  double v;
  *factor = 1;
  while (ir_is_operator(e, IR_OP_MUL) || ir_is_operator(e, IR_OP_DIV)) {
    bool product = e->id == IR_OP_MUL;
    int constant = product && is_constant(p, e->args[0], &v) ? 0 : 1;
    if (!is_constant(p, e->args[constant], &v)) break;
    *factor *= product ? v : 1 / v;
    e = e->args[1 - constant];
  }
  return e;
}

/* The score is a constant times the product, or times the tanh of that, which is `tanh` then. */
static bool find_scale(backward_match *m, const ir_expr **tanh) {
  const ir_expr *score = without_constants(m->form.problem, m->weight->args[0]->args[0], &m->scale);
  *tanh = NULL;
  if (score->node == IR_CALL && score->id == IR_FN_TANH) {
    *tanh = score;
    m->cap = m->scale;
    score = without_constants(m->form.problem, score->args[0], &m->scale);
  }
  return score == m->product && isfinite(m->scale) && isfinite(m->cap);
}

/* 1 - t * t */
static bool is_derivative(const ir_expr *e, const ir_expr *t) {
  if (!ir_is_operator(e, IR_OP_SUB) || !ir_is_operator(e->args[1], IR_OP_MUL)) return false;
  const ir_expr *one = e->args[0], *square = e->args[1];
  bool is_one = (one->node == IR_INT && one->integer == 1) || (one->node == IR_FLOAT && one->number == 1);
  return is_one && square->args[0] == t && square->args[1] == t;
}

/* P * (slope - e) */
static bool find_offset(backward_match *m, const ir_expr *e) {
  if (!ir_is_operator(e, IR_OP_MUL)) return false;
  int p = e->args[0] == m->weight ? 0 : 1;
  const ir_expr *difference = e->args[1 - p];
  if (e->args[p] != m->weight || !ir_is_operator(difference, IR_OP_SUB)) return false;
  m->offset = difference->args[1];
  return difference->args[0] == m->slope && is_of_query(m, m->offset) &&
         (m->offset == m->dot || !ir_reduces(m->offset));
}

static void find_kind(backward_match *m) {
  const ir_expr *tanh, *e = m->gradient;
  if (!m->lse || !find_scale(m, &tanh)) return;
  if (!tanh) {
    m->plain = find_offset(m, e);
  } else if (ir_is_operator(e, IR_OP_MUL)) {
    int factor = is_derivative(e->args[0], tanh) ? 0 : 1;
    m->capped = is_derivative(e->args[factor], tanh) && find_offset(m, e->args[1 - factor]);
  }
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
static bool check_operand(matcher *w, int access, unsigned plain, int last) {
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
  matcher quiet = {.m = (backward_match *)m};
  return check_operand(&quiet, o, 1u << m->query | 1u << m->dot->index, m->dot->index) ? o : -1;
}

static bool match_operands(matcher *w, const outer_sum *dq, const outer_sum *dk, const outer_sum *dv) {
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

/* --- outputs --- */

/* The loops of an output beside its rows and columns, which are the innermost. */
static bool match_output(matcher *w, const outer_sum *s, int row, int column, contraction_loops *batch) {
  const ir_form *form = &w->m->form;
  const ir_form_output *out = &form->outputs[s->output];
  const ir_access *x = &form->accesses[out->access];
  unsigned seen = 0;
  if (out->update != IR_ASSIGN || out->positions >= 0 || form->problem->op->tensors[x->tensor].alias >= 0)
    return template_say(w->detail, "an output is not written once at each of its indices");
  *batch = (contraction_loops){0};
  for (int i = 0; i < x->n; i++) {
    const ir_expr *e = x->subscripts[i].e;
    if (e->node != IR_INDEX || (seen >> e->id & 1) || form->loops[e->id].leading)
      return template_say(w->detail, "an output is not written once at each of its indices");
    seen |= 1u << e->id;
    if (e->id == row || e->id == column) continue;
    batch->set |= 1u << e->id;
    batch->loops[batch->n++] = e->id;
  }
  return ((seen >> row & 1) && x->subscripts[x->n - 1].e->id == column) ||
         template_say(w->detail, "rows of an output do not run along the operand's");
}

/* Heads that share keys: those with h / (H / G) == g are summed. */
static bool match_heads(matcher *w, const ir_expr *heads) {
  backward_match *m = w->m;
  const ir_form *form = &m->form;
  const ir_expr *c = ir_condition_of(heads);
  for (int side = 0; c && ir_is_operator(c, IR_OP_EQ) && side < 2; side++) {
    const ir_expr *quotient = c->args[side], *share = c->args[1 - side];
    while (lanes_is_index_cast(form, quotient)) quotient = quotient->args[0];
    while (lanes_is_index_cast(form, share)) share = share->args[0];
    if (share->node != IR_INDEX || !attention_is_share(form, quotient, &m->head, m->heads)) continue;
    const ir_loop *loop = &form->loops[share->id];
    m->share = share->id;
    if (m->head == heads->index && !loop->leading && loop->n_dims == 1 &&
        loop->dims[0].axis == m->heads[1].axis && loop->dims[0].factor == 1)
      return true;
  }
  return template_say(w->detail, "heads are not shared by h / (H / G)");
}

static bool match_batch(matcher *w, const outer_sum *dq, const outer_sum *dk, const outer_sum *dv) {
  backward_match *m = w->m;
  contraction_loops values;
  m->head = m->share = -1;
  if (dk->heads && !match_heads(w, dk->heads)) return false;
  if (!match_output(w, dq, m->query, m->depth, &m->batch[BACKWARD_QUERIES]) ||
      !match_output(w, dk, m->key, m->depth, &m->batch[BACKWARD_KEYS]) ||
      !match_output(w, dv, m->key, m->wide, &values))
    return false;
  unsigned queries = m->batch[BACKWARD_QUERIES].set, keys = m->batch[BACKWARD_KEYS].set;
  if (m->head >= 0) queries = (queries & ~(1u << m->head)) | 1u << m->share;
  if (queries != keys || keys != values.set)
    return template_say(w->detail, "outputs are over different loops");
  return true;
}

/* --- conditions --- */

/* The conjuncts of a condition as bounds on one side's columns. */
static bool add_conditions(const backward_match *m, const ir_expr *c, int side, attention_bounds *b) {
  int row = side == BACKWARD_QUERIES ? m->query : m->key,
      column = side == BACKWARD_QUERIES ? m->key : m->query;
  if (!attention_add_bounds(&m->form, &m->groups[side], row, column, c, b)) return false;
  for (int i = 0; i < b->n; i++)
    if (b->list[i].times) return false;
  return true;
}

/* A tile has one set of bounds for all the heads that it sums over. */
static bool check_heads(matcher *w) {
  const backward_match *m = w->m;
  unsigned both = m->batch[BACKWARD_QUERIES].set & m->batch[BACKWARD_KEYS].set;
  for (int side = 0; side < 2; side++)
    for (int i = 0; i < m->seen[side].n; i++)
      for (int t = 0; t < m->seen[side].list[i].rest.n; t++)
        if (contraction_loops_without_group(&m->form, &m->groups[side],
                                            m->seen[side].list[i].rest.terms[t].e) &
            ~both)
          return template_say(w->detail, "which keys a query sees depends on its head");
  return true;
}

/* Where requests are packed, those of queries are found by other offsets than those of keys: that both sums
 * are over the same pairs is not seen, and each is over its own. */
static bool match_bounds(matcher *w, const outer_sum *dq, const outer_sum *dk) {
  backward_match *m = w->m;
  const outer_sum *of[] = {dq, dk};
  attention_bounds inner = {0};
  bool packed = m->groups[BACKWARD_QUERIES].of || m->groups[BACKWARD_KEYS].of;
  for (int side = 0; side < 2; side++) {
    attention_bounds other = {0};
    if (!add_conditions(m, ir_condition_of(of[side]->inner), side, &m->seen[side]))
      return template_say(w->detail, "which keys a query sees is not told by comparisons of their indices");
    if (packed) continue;
    if (!add_conditions(m, ir_condition_of(of[!side]->inner), side, &other) ||
        !attention_same_bounds(&m->seen[side], &other))
      return template_say(w->detail, "sums are over different keys");
  }
  const ir_expr *products[] = {m->product, m->slope};
  for (int i = 0; i < 2; i++)
    if (!add_conditions(m, ir_condition_of(products[i]), BACKWARD_QUERIES, &inner) || inner.n > 0 ||
        inner.n_conditions > 0)
      return template_say(w->detail, "an inner sum has a condition");
  return check_heads(w);
}

/* --- all --- */

/* Two sums are of one gradient, the third is of its weights. */
static const outer_sum *sum_of_weights(const outer_sum sums[3]) {
  for (int i = 0; i < 3; i++) {
    const ir_expr *x = sums[(i + 1) % 3].factor, *y = sums[(i + 2) % 3].factor;
    if (x == y && sums[i].factor != x) return &sums[i];
  }
  return NULL;
}

/* Values of P and dS are of a query and a key alone. */
static bool check_loops(matcher *w) {
  const backward_match *m = w->m;
  unsigned pair = m->batch[BACKWARD_QUERIES].set | 1u << m->query | 1u << m->key;
  if (m->dot && !is_of_query(m, m->dot))
    return template_say(w->detail, "a query's sums depend on more than the query");
  return !((ir_form_free(&m->form, m->weight) | ir_form_free(&m->form, m->gradient)) & ~pair) ||
         template_say(w->detail, "weights have loops of their own");
}

static bool match(matcher *w) {
  backward_match *m = w->m;
  const ir_form *form = &m->form;
  outer_sum sums[3];
  if (form->n_outputs != 3) return template_say(w->detail, "there are not three outputs");
  for (int i = 0; i < 3; i++)
    if (!collect_sum(w, i, &sums[i])) return false;
  const outer_sum *dv = sum_of_weights(sums);
  if (!dv) return template_say(w->detail, "there are not two sums of one gradient and one of its weights");
  const outer_sum *dk = &sums[(dv->output + 1) % 3], *dq = &sums[(dv->output + 2) % 3];
  m->query = dv->inner->index;
  if (dk->inner->index != m->query) {
    const outer_sum *other = dk;
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
  if (!match_products(w) || !match_operands(w, dq, dk, dv) || !match_batch(w, dq, dk, dv) || !check_loops(w))
    return false;
  if (dq->rounded != dk->rounded || dq->rounded != dv->rounded)
    return template_say(w->detail, "weights and their gradients are rounded to different dtypes");
  m->type = dq->rounded;
  find_lse(m);
  find_kind(m);
  return match_bounds(w, dq, dk);
}

template_reason backward_match_op(const ir_problem *p, arena *a, backward_match *m, strbuf *detail,
                                  arke_status *status) {
  matcher w = {.m = m, .detail = detail};
  *m = (backward_match){0};
  arke_status made = ir_form_make(p, a, &m->form, NULL);
  if (status) *status = made;
  if (made != ARKE_OK) {
    template_say(w.detail, "the operator has no form");
    return TEMPLATE_OPERATOR;
  }
  return match(&w) ? TEMPLATE_OK : TEMPLATE_OPERATOR;
}

/* --- printing --- */

void backward_print(const backward_match *m, strbuf *out) {
  const ir_form *form = &m->form;
  const ir_op *op = form->problem->op;
  strbuf_add(out, "batch");
  for (int i = 0; i < m->batch[BACKWARD_QUERIES].n; i++)
    strbuf_addf(out, " %s", form->loops[m->batch[BACKWARD_QUERIES].loops[i]].name);
  if (m->head >= 0) strbuf_addf(out, "; %s of %s", form->loops[m->head].name, form->loops[m->share].name);
  strbuf_addf(out, "; query %s; key %s; depth %s; wide %s", form->loops[m->query].name,
              form->loops[m->key].name, form->loops[m->depth].name, form->loops[m->wide].name);
  const int reads[] = {m->q, m->k, m->v, m->d_o}, outputs[] = {m->dq, m->dk, m->dv};
  for (int i = 0; i < 4; i++) strbuf_addf(out, "; %s", op->tensors[form->accesses[reads[i]].tensor].name);
  for (int i = 0; i < 3; i++)
    strbuf_addf(out, "; %s", op->tensors[form->accesses[form->outputs[outputs[i]].access].tensor].name);
  strbuf_addf(out, "; %s", dtype_name(m->type));
  if (m->plain || m->capped) strbuf_addf(out, "; scale %g", m->scale);
  if (m->capped) strbuf_addf(out, "; cap %g", m->cap);
  strbuf_addf(out, "%s; %d bounds", m->base2 ? "; base 2" : "", m->seen[BACKWARD_QUERIES].n);
  if (m->seen[0].n_conditions > 0) strbuf_addf(out, "; %d conditions", m->seen[0].n_conditions);
  if (m->groups[BACKWARD_QUERIES].of) strbuf_add(out, "; requests of queries");
  if (m->groups[BACKWARD_KEYS].of) strbuf_add(out, "; requests of keys");
}
