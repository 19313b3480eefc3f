/* Which forms are attention, and what plays which part in them. */
#include "templates/attention.h"

#include <math.h>

#include "templates/in_place.h"

typedef struct matcher {
  attention_match *m;
  strbuf *detail;
} matcher;

/* --- expressions --- */

static bool is_operator(const ir_expr *e, ir_operator o) {
  return e->node == IR_OPERATOR && e->id == (int)o;
}

static bool is_weight(const ir_expr *e) {
  return e->node == IR_CALL && (e->id == IR_FN_EXP || e->id == IR_FN_EXP2) &&
         is_operator(e->args[0], IR_OP_SUB);
}

static bool reduces(const ir_expr *e) {
  if (e->node == IR_REDUCE) return true;
  for (int i = 0; i < e->n_args; i++)
    if (reduces(e->args[i])) return true;
  return false;
}

/* Without casts of an element to f32, which change nothing. */
static const ir_expr *as_read(const ir_form *form, const ir_expr *e) {
  while (e->node == IR_CAST && ir_cast_dtype(form->problem, e) == DTYPE_F32) e = e->args[0];
  return e->node == IR_READ ? e : NULL;
}

static const ir_expr *condition_of(const ir_expr *reduce) {
  return reduce->n_args > 1 ? reduce->args[1] : NULL;
}

/* Whether the REDUCE nodes of `e` are all in the list; what is inside them is not looked at. */
static bool reduces_only(const ir_expr *e, const ir_expr *const *list, int n) {
  if (e->node == IR_REDUCE) {
    for (int i = 0; i < n; i++)
      if (list[i] == e) return true;
    return false;
  }
  for (int i = 0; i < e->n_args; i++)
    if (!reduces_only(e->args[i], list, n)) return false;
  return true;
}

/* --- the parts --- */

/* Weights times V: the factors of a term. */
typedef struct term {
  const ir_expr *weight, *value, *divisor;
  dtype rounded; /* what weights are cast to; F32: to nothing */
} term;

static bool collect_term(const ir_form *form, const ir_expr *e, term *t) {
  if (is_operator(e, IR_OP_MUL))
    return collect_term(form, e->args[0], t) && collect_term(form, e->args[1], t);
  if (is_operator(e, IR_OP_DIV) && !t->divisor) {
    t->divisor = e->args[1];
    return collect_term(form, e->args[0], t);
  }
  const ir_expr *read = as_read(form, e), *inner = e->node == IR_CAST ? e->args[0] : e;
  if (read && !t->value) {
    t->value = read;
    return true;
  }
  if (!is_weight(inner) || t->weight) return false;
  t->weight = inner;
  t->rounded = inner == e ? DTYPE_F32 : ir_cast_dtype(form->problem, e);
  return true;
}

/* Sorts the reductions by what they are made of. */
static bool sort_reductions(matcher *w, term *t) {
  attention_match *m = w->m;
  const ir_form *form = &m->form;
  const ir_expr *list[8];
  int n = ir_form_reductions(form, list, COUNT_OF(list));
  *t = (term){.rounded = DTYPE_F32};
  for (int i = 0; i < n; i++) {
    const ir_expr *e = list[i], **place = NULL;
    if (e->id == IR_RED_MAX) {
      place = &m->largest;
    } else if (e->id != IR_RED_SUM) {
      return template_say(w->detail, "a reduction is neither a sum nor a maximum");
    } else if (is_weight(e->args[0])) {
      place = &m->total;
    } else if (!reduces(e->args[0])) {
      place = &m->product;
    } else {
      place = &m->weighted;
    }
    if (*place) return template_say(w->detail, "there is more than one of a part of attention");
    *place = e;
  }
  if (!m->product || !m->largest || !m->weighted)
    return template_say(w->detail,
                        "there is no product, softmax of it along one of its axes, and product of that");
  return collect_term(form, m->weighted->args[0], t) && t->weight && t->value
             ? true
             : template_say(w->detail, "the outer sum is not one of weights times values");
}

/* The weight is exp(score - largest), with a largest of -inf as 0 or not. */
static bool match_weight(matcher *w, const term *t) {
  attention_match *m = w->m;
  const ir_expr *score = t->weight->args[0]->args[0], *from = t->weight->args[0]->args[1];
  m->base2 = t->weight->id == IR_FN_EXP2;
  m->guarded = is_operator(from, IR_OP_SELECT);
  if (m->guarded) {
    const ir_expr *c = from->args[0], *zero = from->args[1];
    bool is_zero =
        (zero->node == IR_INT && zero->integer == 0) || (zero->node == IR_FLOAT && zero->number == 0);
    const ir_expr *low = is_operator(c, IR_OP_EQ) ? c->args[1] : NULL;
    if (low && is_operator(low, IR_OP_NEG))
      low = low->args[0]->node == IR_FLOAT && low->args[0]->number == (double)INFINITY ? low : NULL;
    else if (low && !(low->node == IR_FLOAT && low->number == -(double)INFINITY))
      low = NULL;
    if (!low || c->args[0] != m->largest || !is_zero)
      return template_say(w->detail, "a score is not compared with -inf");
    from = from->args[2];
  }
  if (from != m->largest || m->largest->args[0] != score)
    return template_say(w->detail, "a weight is not that of a score less the largest one");
  if (m->total && m->total->args[0] != t->weight)
    return template_say(w->detail, "weights are added up that are not applied");
  if (m->total && m->total->index != m->weighted->index)
    return template_say(w->detail, "sums are over different loops");
  if (m->largest->index != m->weighted->index)
    return template_say(w->detail, "sums are over different loops");
  if (!reduces_only(score, &m->product, 1))
    return template_say(w->detail, "a score has reductions of its own");
  m->key = m->weighted->index;
  m->depth = m->product->index;
  m->divisor = t->divisor;
  m->body = score;
  return true;
}

static bool constant_value(const ir_problem *p, const ir_expr *e, double *v) {
  switch (e->node) {
  case IR_FLOAT: *v = e->number; return true;
  case IR_INT: *v = (double)e->integer; return true;
  case IR_ATTR: *v = p->attrs[e->id]; return true;
  default: return false;
  }
}

static double *constant_factor(attention_match *m) {
  return m->body == m->product ? &m->scale : &m->factor;
}

/* Takes positive constant factors out of the score: they join the exponent's. */
static void split_scale(attention_match *m) {
  const ir_problem *p = m->form.problem;
  double v;
  double factor = m->factor;
  m->scale = m->factor = 1;
  for (;;) {
    const ir_expr *e = m->body;
    bool product = is_operator(e, IR_OP_MUL), quotient = is_operator(e, IR_OP_DIV);
    if (ir_form_type(&m->form, e) != DTYPE_F32 || (!product && !quotient)) break;
    int constant = product && constant_value(p, e->args[0], &v) ? 0 : 1;
    if (!constant_value(p, e->args[constant], &v) || !(v > 0) || isinf(v)) break;
    m->scale *= product ? v : 1 / v;
    m->body = e->args[1 - constant];
  }
  *constant_factor(m) *= factor;
}

/* --- operands --- */

/* An element of an input, each of whose subscripts is an index of `plain`, or depends on none of them. */
static bool check_operand(matcher *w, const ir_expr *read, unsigned plain, int last) {
  const ir_form *form = &w->m->form;
  const ir_access *x = &form->accesses[read->id];
  const ir_tensor *t = &form->problem->op->tensors[x->tensor];
  unsigned seen = 0;
  if (x->other) return template_say(w->detail, "%s has values outside itself", t->name);
  for (int s = 0; s < x->n; s++) {
    const ir_expr *e = x->subscripts[s].e;
    if (x->subscripts[s].leading) return template_say(w->detail, "%s has leading axes", t->name);
    unsigned free = ir_form_free(form, e);
    if (!(free & plain)) continue;
    if (e->node != IR_INDEX || (seen & free))
      return template_say(w->detail, "%s is not read row by row", t->name);
    seen |= free;
  }
  if (seen != plain) return template_say(w->detail, "%s is not read row by row", t->name);
  if (x->n > 5) return template_say(w->detail, "%s has more than 5 axes", t->name);
  const ir_expr *inner = x->subscripts[x->n - 1].e;
  return (inner->node == IR_INDEX && inner->id == last) ||
         template_say(w->detail, "rows of %s do not run along the axis that is summed or stored", t->name);
}

static unsigned loops_of(const ir_form *form, const ir_expr *read) {
  const ir_access *x = &form->accesses[read->id];
  unsigned free = 0;
  for (int s = 0; s < x->n; s++) free |= ir_form_free(form, x->subscripts[s].e);
  return free;
}

/* The factors of a term of QK: two reads and constants. */
static bool collect_product(attention_match *m, const ir_expr *e, const ir_expr *reads[2]) {
  double v;
  if (is_operator(e, IR_OP_MUL))
    return collect_product(m, e->args[0], reads) && collect_product(m, e->args[1], reads);
  if (constant_value(m->form.problem, e, &v)) {
    m->factor *= v;
    return true;
  }
  const ir_expr *read = as_read(&m->form, e);
  if (!read || reads[1]) return false;
  reads[reads[0] ? 1 : 0] = read;
  return true;
}

/* Which of the two factors is Q, and which of its loops are the rows of a tile: one of those that K has not,
 * and that bounds speak of, else the innermost. */
static bool match_product(matcher *w, unsigned outer, const contraction_loops *order) {
  attention_match *m = w->m;
  const ir_form *form = &m->form;
  const ir_expr *reads[2] = {NULL};
  m->factor = 1;
  if (!collect_product(m, m->product->args[0], reads) || !reads[1] || !(m->factor > 0))
    return template_say(w->detail, "the inner sum is not one of products of two reads");
  const ir_expr *x = reads[0], *y = reads[1];
  bool swap = loops_of(form, x) >> m->key & 1;
  const ir_expr *q = swap ? y : x, *k = swap ? x : y;
  m->q = q->id;
  m->k = k->id;
  unsigned own = loops_of(form, q) & ~loops_of(form, k) & outer & ~(1u << m->wide);
  if (m->depth != m->wide) own &= ~(1u << m->depth);
  m->query = -1;
  unsigned spoken = condition_of(m->weighted) ? ir_form_free(form, condition_of(m->weighted)) & own : 0;
  for (int i = 0; i < order->n; i++)
    if ((spoken ? spoken : own) >> order->loops[i] & 1) m->query = order->loops[i];
  if (m->query < 0) return template_say(w->detail, "queries and keys have the same loops");
  unsigned inner = 1u << m->depth;
  return check_operand(w, q, 1u << m->query | inner, m->depth) &&
         check_operand(w, k, 1u << m->key | inner, m->depth);
}

/* --- outputs --- */

static bool plain_loops(const ir_form *form, const ir_access *x, contraction_loops *order) {
  *order = (contraction_loops){0};
  for (int s = 0; s < x->n; s++) {
    const ir_expr *e = x->subscripts[s].e;
    if (e->node != IR_INDEX || order->set >> e->id & 1 || form->loops[e->id].leading) return false;
    order->set |= 1u << e->id;
    order->loops[order->n++] = e->id;
  }
  return true;
}

static bool match_outputs(matcher *w, const term *t, contraction_loops *order) {
  attention_match *m = w->m;
  const ir_form *form = &m->form;
  m->output = -1;
  for (int o = 0; o < form->n_outputs; o++) {
    const ir_form_output *out = &form->outputs[o];
    contraction_loops loops;
    if (out->update != IR_ASSIGN || out->positions >= 0 ||
        !plain_loops(form, &form->accesses[out->access], &loops))
      return template_say(w->detail, "an output is not written once at each of its indices");
    if (form->problem->op->tensors[form->accesses[out->access].tensor].alias >= 0)
      return template_say(w->detail, "an output is written in place");
    const ir_expr *statistics[] = {m->largest, m->total};
    if (reduces_only(out->value, statistics, 2)) continue;
    if (m->output >= 0) return template_say(w->detail, "there are two outputs of weights times values");
    m->output = o;
    *order = loops;
  }
  if (m->output < 0) return template_say(w->detail, "no output has weights times values");
  m->o = form->outputs[m->output].access;
  m->v = t->value->id;
  m->wide = order->loops[order->n - 1];
  const ir_expr *known[] = {m->largest, m->total, m->weighted};
  return reduces_only(form->outputs[m->output].value, known, 3) ||
         template_say(w->detail, "an output needs more than weights and their sum");
}

/* Statistics have a value for each query, and are written once. */
static bool check_statistics(matcher *w, unsigned outer) {
  const attention_match *m = w->m;
  const ir_form *form = &m->form;
  for (int o = 0; o < form->n_outputs; o++) {
    const ir_access *x = &form->accesses[form->outputs[o].access];
    unsigned loops = 0;
    for (int s = 0; s < x->n; s++) loops |= ir_form_free(form, x->subscripts[s].e);
    if (o == m->output) continue;
    if (loops != (outer & ~(1u << m->wide)) || ir_form_free(form, form->outputs[o].value) & ~loops)
      return template_say(w->detail, "an output has not one value for each query");
    for (int before = 0; before < form->n_outputs; before++)
      if (before != o && form->accesses[form->outputs[before].access].tensor == x->tensor)
        return template_say(w->detail, "an output is written twice");
  }
  return true;
}

/* --- conditions --- */

static bool match_bounds(matcher *w) {
  attention_match *m = w->m;
  const ir_expr *of[] = {m->weighted, m->largest, m->total};
  attention_bounds all[3] = {{0}}, inner = {0};
  for (int i = 0; i < 3; i++) {
    if (!of[i]) continue;
    if (!attention_add_bounds(&m->form, m->query, m->key, condition_of(of[i]), &all[i]))
      return template_say(w->detail, "which keys a query sees is not told by comparisons of their indices");
    if (!attention_same_bounds(&all[0], &all[i]))
      return template_say(w->detail, "sums are over different keys");
  }
  if (!attention_add_bounds(&m->form, m->query, m->key, condition_of(m->product), &inner) || inner.n > 0)
    return template_say(w->detail, "the inner sum has a condition");
  m->bounds = all[0];
  for (int i = 0; i < inner.n_shares; i++) {
    bool known = false;
    for (int k = 0; k < m->bounds.n_shares; k++)
      known |= m->bounds.shares[k][0].axis == inner.shares[i][0].axis &&
               m->bounds.shares[k][1].axis == inner.shares[i][1].axis;
    if (!known) return template_say(w->detail, "keys and values are shared differently");
  }
  return true;
}

/* --- all --- */

static bool match(matcher *w) {
  attention_match *m = w->m;
  const ir_form *form = &m->form;
  term t;
  contraction_loops order = {0};
  if (!sort_reductions(w, &t) || !match_weight(w, &t) || !match_outputs(w, &t, &order)) return false;
  unsigned outer = order.set;
  if (outer >> m->key & 1) return template_say(w->detail, "an output is over the keys");
  if (!match_product(w, outer, &order)) return false;
  if (!check_operand(w, t.value, 1u << m->key | 1u << m->wide, m->wide)) return false;
  for (int i = 0; i < order.n; i++) {
    if (order.loops[i] == m->query || order.loops[i] == m->wide) continue;
    m->batch.set |= 1u << order.loops[i];
    m->batch.loops[m->batch.n++] = order.loops[i];
  }
  unsigned row = m->batch.set | 1u << m->query;
  if (ir_form_free(form, m->body) & ~(row | 1u << m->key))
    return template_say(w->detail, "a score has loops of its own");
  if (m->divisor && ir_form_free(form, m->divisor) & ~row)
    return template_say(w->detail, "a divisor depends on the key");
  if (m->divisor && !reduces_only(m->divisor, (const ir_expr *[]){m->largest, m->total}, 2))
    return template_say(w->detail, "a divisor needs more than the weights");
  if (!check_statistics(w, outer) || !match_bounds(w)) return false;
  m->type = t.rounded;
  split_scale(m);
  return true;
}

template_reason attention_match_op(const ir_problem *p, arena *a, attention_match *m, strbuf *detail,
                                   arke_status *status) {
  matcher w = {.m = m, .detail = detail};
  *m = (attention_match){0};
  arke_status made = ir_form_make(p, a, &m->form, NULL);
  if (status) *status = made;
  if (made != ARKE_OK) {
    template_say(w.detail, "the operator has no form");
    return TEMPLATE_OPERATOR;
  }
  return match(&w) ? TEMPLATE_OK : TEMPLATE_OPERATOR;
}

/* --- printing --- */

static void print_sum(const attention_match *m, const lanes_sum *sum, strbuf *out) {
  const ir_problem *p = m->form.problem;
  for (int i = 0; i < sum->n; i++) {
    const lanes_term *t = &sum->terms[i];
    strbuf_addf(out, " %+lld", (long long)t->coefficient);
    if (t->e->node == IR_SIZE)
      strbuf_addf(out, " %s", p->op->axes[t->e->id]);
    else if (t->e->node == IR_INDEX)
      strbuf_addf(out, " %s", m->form.loops[t->e->id].name);
    else
      strbuf_add(out, " read");
  }
  strbuf_addf(out, " %+lld", (long long)sum->constant);
}

void attention_print(const attention_match *m, strbuf *out) {
  const ir_form *form = &m->form;
  const ir_op *op = form->problem->op;
  strbuf_add(out, "batch");
  for (int i = 0; i < m->batch.n; i++) strbuf_addf(out, " %s", form->loops[m->batch.loops[i]].name);
  strbuf_addf(out, "; query %s; key %s; depth %s; wide %s", form->loops[m->query].name,
              form->loops[m->key].name, form->loops[m->depth].name, form->loops[m->wide].name);
  strbuf_addf(out, "; Q %s; K %s; V %s; O %s; %s; scale %g", op->tensors[form->accesses[m->q].tensor].name,
              op->tensors[form->accesses[m->k].tensor].name, op->tensors[form->accesses[m->v].tensor].name,
              op->tensors[form->accesses[m->o].tensor].name, dtype_name(m->type), m->scale);
  if (m->body != m->product) strbuf_add(out, " of an expression");
  if (m->base2) strbuf_add(out, "; base 2");
  if (m->guarded) strbuf_add(out, "; guarded");
  for (int i = 0; i < m->bounds.n; i++) {
    const attention_bound *b = &m->bounds.list[i];
    strbuf_addf(out, "; %s %+lld %s", b->upper ? "below" : "from", (long long)b->query,
                form->loops[m->query].name);
    print_sum(m, &b->rest, out);
  }
  for (int i = 0; i < m->bounds.n_shares; i++)
    strbuf_addf(out, "; %s divides %s", op->axes[m->bounds.shares[i][1].axis],
                op->axes[m->bounds.shares[i][0].axis]);
}
