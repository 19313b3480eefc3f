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

/* Weights of keys are exp(scale * product - l). */
static bool is_weight(const ir_expr *e) {
  return e->node == IR_CALL && (e->id == IR_FN_EXP || e->id == IR_FN_EXP2) &&
         ir_is_operator(e->args[0], IR_OP_SUB);
}

static bool match_weight(matcher *w, const ir_expr *weight) {
  backward_match *m = w->m;
  const ir_expr *score = weight->args[0]->args[0];
  double v;
  m->base2 = weight->id == IR_FN_EXP2;
  m->lse = weight->args[0]->args[1];
  m->scale = 1;
  while (ir_is_operator(score, IR_OP_MUL) || ir_is_operator(score, IR_OP_DIV)) {
    bool product = score->id == IR_OP_MUL;
    int constant = product && is_constant(m->form.problem, score->args[0], &v) ? 0 : 1;
    if (!is_constant(m->form.problem, score->args[constant], &v)) break;
    m->scale *= product ? v : 1 / v;
    score = score->args[1 - constant];
  }
  m->product = score;
  if (!is_sum(score) || !isfinite(m->scale))
    return template_say(w->detail, "a weight is not that of a constant times a sum");
  return !ir_reduces(m->lse) || template_say(w->detail, "what weights are relative to is not given");
}

/* dS = P * (slope - e). */
static bool match_slope(matcher *w, const ir_expr *ds, const ir_expr **weight) {
  backward_match *m = w->m;
  if (!ir_is_operator(ds, IR_OP_MUL)) return template_say(w->detail, "there is no gradient of a softmax");
  int p = is_weight(ds->args[0]) ? 0 : 1;
  const ir_expr *difference = ds->args[1 - p];
  *weight = ds->args[p];
  if (!is_weight(*weight) || !ir_is_operator(difference, IR_OP_SUB))
    return template_say(w->detail, "there is no gradient of a softmax");
  m->slope = difference->args[0];
  m->dot = difference->args[1];
  if (!is_sum(m->slope) || !is_sum(m->dot) || ir_reduces(m->dot->args[0]) || ir_condition_of(m->dot))
    return template_say(w->detail, "a weight's gradient is not the difference of two sums");
  return true;
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

/* Each conjunct as a bound on keys and as one on queries; those that say that heads divide are neither. */
static bool add_conditions(const backward_match *m, const ir_expr *c, attention_bounds seen[2]) {
  const contraction_groups none = {0};
  const int loops[] = {m->query, m->key};
  for (int side = 0; side < 2; side++) {
    attention_bounds *b = &seen[side];
    if (!attention_add_bounds(&m->form, &none, loops[side], loops[!side], c, b) || b->n_conditions > 0)
      return false;
    for (int i = 0; i < b->n; i++)
      if (b->list[i].times) return false;
  }
  return true;
}

static bool match_bounds(matcher *w, const outer_sum *dq, const outer_sum *dk) {
  backward_match *m = w->m;
  attention_bounds other[2] = {{0}}, inner = {0};
  const contraction_groups none = {0};
  if (!add_conditions(m, ir_condition_of(dq->inner), m->seen) ||
      !add_conditions(m, ir_condition_of(dk->inner), other))
    return template_say(w->detail, "which keys a query sees is not told by comparisons of their indices");
  if (!attention_same_bounds(&m->seen[0], &other[0]) || !attention_same_bounds(&m->seen[1], &other[1]))
    return template_say(w->detail, "sums are over different keys");
  const ir_expr *products[] = {m->product, m->slope};
  for (int i = 0; i < 2; i++)
    if (!attention_add_bounds(&m->form, &none, m->query, m->key, ir_condition_of(products[i]), &inner) ||
        inner.n > 0 || inner.n_conditions > 0)
      return template_say(w->detail, "an inner sum has a condition");
  /* A tile has one set of bounds for all the heads that it sums over. */
  for (int side = 0; side < 2; side++)
    for (int i = 0; i < m->seen[side].n; i++)
      for (int t = 0; t < m->seen[side].list[i].rest.n; t++) {
        unsigned free = ir_form_free(&m->form, m->seen[side].list[i].rest.terms[t].e);
        if (free & ~(m->batch[BACKWARD_QUERIES].set & m->batch[BACKWARD_KEYS].set))
          return template_say(w->detail, "which keys a query sees depends on its head");
      }
  return true;
}

/* --- all --- */

static bool match(matcher *w) {
  backward_match *m = w->m;
  const ir_form *form = &m->form;
  outer_sum sums[3], *of_weights = NULL, *of_slopes[2] = {NULL};
  const ir_expr *weight = NULL;
  if (form->n_outputs != 3) return template_say(w->detail, "there are not three outputs");
  for (int i = 0, n = 0; i < 3; i++) {
    if (!collect_sum(w, i, &sums[i])) return false;
    if (is_weight(sums[i].factor)) {
      of_weights = &sums[i];
    } else if (n < 2) {
      of_slopes[n++] = &sums[i];
    }
  }
  if (!of_weights || !of_slopes[1] || of_slopes[0]->factor != of_slopes[1]->factor)
    return template_say(w->detail, "there are not two sums of one gradient and one of its weights");
  if (!match_slope(w, of_slopes[0]->factor, &weight) || !match_weight(w, weight)) return false;
  if (weight != of_weights->factor) return template_say(w->detail, "gradients are of other weights");
  /* What weights are relative to belongs to queries, over which the gradient of the keys is a sum. */
  unsigned owned = ir_form_free(form, m->lse);
  bool swap = owned >> of_slopes[0]->inner->index & 1;
  const outer_sum *dq = of_slopes[swap], *dk = of_slopes[!swap];
  m->query = dk->inner->index;
  m->key = dq->inner->index;
  if (dq->heads || !(owned >> m->query & 1) || (owned >> m->key & 1))
    return template_say(w->detail, "queries and keys have the same loops");
  m->dq = dq->output;
  m->dk = dk->output;
  m->dv = of_weights->output;
  m->sums[0] = dq->all;
  m->sums[1] = dk->all;
  m->sums[2] = of_weights->all;
  if (!match_operands(w, dq, dk, of_weights) || !match_batch(w, dq, dk, of_weights)) return false;
  unsigned row = m->batch[BACKWARD_QUERIES].set | 1u << m->query;
  if ((ir_form_free(form, m->lse) | ir_form_free(form, m->dot)) & ~row)
    return template_say(w->detail, "a query's sums depend on more than the query");
  if (dq->rounded != dk->rounded || dq->rounded != of_weights->rounded)
    return template_say(w->detail, "weights and their gradients are rounded to different dtypes");
  m->type = dq->rounded;
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
  strbuf_addf(out, "; %s; scale %g%s; %d bounds", dtype_name(m->type), m->scale, m->base2 ? "; base 2" : "",
              m->seen[BACKWARD_QUERIES].n);
}
