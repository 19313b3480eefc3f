/* Which forms are attention, and what plays which part in them. */
#include "templates/attention_match.h"

#include <math.h>

typedef struct matcher {
  attention_match *m;
  strbuf *detail;
} matcher;

/* --- expressions --- */

static bool is_weight(const ir_expr *e) {
  return e->node == IR_CALL && (e->id == IR_FN_EXP || e->id == IR_FN_EXP2) &&
         ir_is_operator(e->args[0], IR_OP_SUB);
}

/* Whether the REDUCE nodes of `e` are all in (nodes of) the list, or a row's group; what is inside them is
 * not looked at. */
static bool reduces_only(const attention_match *m, const ir_expr *e, const ir_expr *const *list, int n) {
  for (int i = 0; i < n; i++)
    if (list[i] == e) return true;
  if (e->node == IR_REDUCE) return e == m->groups.of;
  for (int i = 0; i < e->n_args; i++)
    if (!reduces_only(m, e->args[i], list, n)) return false;
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

/* Without positive constant factors, which multiply `factor`. */
static const ir_expr *without_constants(const ir_problem *p, const ir_expr *e, double *factor) {
  double v;
  for (;;) {
    bool product = ir_is_operator(e, IR_OP_MUL), quotient = ir_is_operator(e, IR_OP_DIV);
    if (!product && !quotient) return e;
    int constant = product && constant_value(p, e->args[0], &v) ? 0 : 1;
    if (!constant_value(p, e->args[constant], &v) || !(v > 0) || isinf(v)) return e;
    *factor *= product ? v : 1 / v;
    e = e->args[1 - constant];
  }
}

/* --- the parts --- */

/* Weights times V: the factors of a term. */
typedef struct term {
  const ir_expr *weight, *value, *divisor;
  int n_scales;
  const ir_expr *scales[ATTENTION_SCALES];
  dtype rounded; /* what weights are cast to; F32: to nothing */
} term;

/* A factor that depends on neither the key nor the column is a scale; `all`: loops that it may not have. */
static bool collect_term(const attention_match *m, const ir_expr *e, unsigned all, term *t) {
  const ir_form *form = &m->form;
  if (ir_is_operator(e, IR_OP_MUL))
    return collect_term(m, e->args[0], all, t) && collect_term(m, e->args[1], all, t);
  if (ir_is_operator(e, IR_OP_DIV) && !t->divisor) {
    t->divisor = e->args[1];
    return collect_term(m, e->args[0], all, t);
  }
  const ir_expr *inner = e->node == IR_CAST ? e->args[0] : e, *read = ir_form_as_read(form, e);
  if (is_weight(inner) && !t->weight) {
    t->weight = inner;
    t->rounded = inner == e ? DTYPE_F32 : ir_cast_dtype(form->problem, e);
    return true;
  }
  if (read && !t->value && (ir_form_free(form, e) & all)) {
    t->value = read;
    return true;
  }
  if ((ir_form_free(form, e) & all) || t->n_scales == ATTENTION_SCALES || !reduces_only(m, e, NULL, 0))
    return false;
  t->scales[t->n_scales++] = e;
  return true;
}

/* The least node over both parts, their sum: in scores they stand nowhere else. */
static const ir_expr *sum_of_parts(matcher *w, const ir_expr *e, double *factor) {
  attention_match *m = w->m;
  if (ir_is_operator(e, IR_OP_ADD)) {
    double of[2] = {1, 1};
    const ir_expr *x = without_constants(m->form.problem, e->args[0], &of[0]),
                  *y = without_constants(m->form.problem, e->args[1], &of[1]);
    bool both = (x == m->parts[0].e && y == m->parts[1].e) || (x == m->parts[1].e && y == m->parts[0].e);
    *factor = of[0];
    if (both) return of[0] == of[1] ? e : NULL;
  }
  for (int i = 0; i < e->n_args; i++) {
    const ir_expr *found = e->node == IR_REDUCE ? NULL : sum_of_parts(w, e->args[i], factor);
    if (found) return found;
  }
  return NULL;
}

/* Sorts the reductions by what they are made of. */
static bool sort_reductions(matcher *w) {
  attention_match *m = w->m;
  const ir_form *form = &m->form;
  const ir_expr *list[16];
  int n = ir_form_reductions(form, list, COUNT_OF(list));
  for (int i = 0; i < n; i++) {
    const ir_expr *e = list[i], **place = NULL;
    if (e == m->groups.of) continue;
    if (e->id == IR_RED_MAX) {
      place = &m->largest;
    } else if (e->id != IR_RED_SUM) {
      return template_say(w->detail, "a reduction is neither a sum nor a maximum");
    } else if (is_weight(e->args[0])) {
      place = &m->total;
    } else if (!reduces_only(m, e->args[0], NULL, 0)) {
      place = &m->weighted;
    } else if (m->n_parts < ATTENTION_PARTS) {
      place = &m->parts[m->n_parts++].e;
    }
    if (!place || *place) return template_say(w->detail, "there is more than one of a part of attention");
    *place = e;
  }
  return (m->n_parts > 0 && m->largest && m->weighted) ||
         template_say(w->detail,
                      "there is no product, softmax of it along one of its axes, and product of that");
}

/* The weight is exp(score - largest), with a largest of -inf as 0 or not. */
static bool match_weight(matcher *w, const term *t, double *of_parts) {
  attention_match *m = w->m;
  const ir_expr *score = t->weight->args[0]->args[0], *from = t->weight->args[0]->args[1];
  m->base2 = t->weight->id == IR_FN_EXP2;
  m->guarded = ir_is_operator(from, IR_OP_SELECT);
  if (m->guarded) {
    const ir_expr *c = from->args[0], *zero = from->args[1];
    bool is_zero =
        (zero->node == IR_INT && zero->integer == 0) || (zero->node == IR_FLOAT && zero->number == 0);
    const ir_expr *low = ir_is_operator(c, IR_OP_EQ) ? c->args[1] : NULL;
    if (low && ir_is_operator(low, IR_OP_NEG))
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
  m->product = m->n_parts == 1 ? m->parts[0].e : sum_of_parts(w, score, of_parts);
  if (!m->product) return template_say(w->detail, "a score is not one of a sum of two products");
  if (!reduces_only(m, score, &m->product, 1))
    return template_say(w->detail, "a score has reductions of its own");
  m->divisor = t->divisor;
  m->n_scales = t->n_scales;
  for (int i = 0; i < t->n_scales; i++) m->scales[i] = t->scales[i];
  m->body = score;
  return true;
}

/* Takes positive constant factors out of the score: they join the exponent's. */
static void split_scale(attention_match *m, double of_parts) {
  m->scale = 1;
  if (ir_form_type(&m->form, m->body) == DTYPE_F32)
    m->body = without_constants(m->form.problem, m->body, &m->scale);
  if (m->body != m->product) return;
  m->scale *= m->factor * of_parts;
  m->factor = 1;
}

/* --- operands --- */

/* Q: one subscript is the query, the last one the loop that is summed, and no other depends on them. */
static bool check_queries(matcher *w, int access, int depth) {
  const ir_form *form = &w->m->form;
  const ir_access *x = &form->accesses[access];
  const char *name = form->problem->op->tensors[x->tensor].name;
  unsigned rows = 1u << w->m->query | 1u << depth, seen = 0;
  if (x->other) return template_say(w->detail, "%s has values outside itself", name);
  for (int s = 0; s < x->n; s++) {
    const ir_expr *e = x->subscripts[s].e;
    if (x->subscripts[s].leading) return template_say(w->detail, "%s has leading axes", name);
    unsigned free = ir_form_free(form, e);
    if (!(free & rows)) continue;
    if (e->node != IR_INDEX || (seen & free))
      return template_say(w->detail, "%s is not read row by row", name);
    seen |= free;
  }
  if (seen != rows) return template_say(w->detail, "%s is not read row by row", name);
  const ir_expr *inner = x->subscripts[x->n - 1].e;
  return (inner->node == IR_INDEX && inner->id == depth) ||
         template_say(w->detail, "rows of %s do not run along the axis that is summed", name);
}

/* The read of a computed Q that is one row by row; -1: there is none. */
static int rows_in(matcher *w, const ir_expr *e, int depth) {
  matcher quiet = {.m = w->m};
  if (e->node == IR_READ) return check_queries(&quiet, e->id, depth) ? e->id : -1;
  int found = -1;
  for (int i = 0; i < e->n_args && found < 0; i++) found = rows_in(w, e->args[i], depth);
  return found;
}

static unsigned loops_of(const attention_match *m, const ir_expr *read) {
  return contraction_loops_without_group(&m->form, &m->groups, read);
}

/* What is rounded to 16 bits and has no sums of its own. */
static bool is_computed(const attention_match *m, const ir_expr *e) {
  return e->node == IR_CAST && dtype_bits(ir_cast_dtype(m->form.problem, e)) == 16 &&
         reduces_only(m, e, NULL, 0);
}

/* The factors of a term of QK: constants, and two reads, one of which may be computed. */
static bool collect_product(const attention_match *m, const ir_expr *e, const ir_expr *reads[2],
                            double *factor) {
  double v;
  if (ir_is_operator(e, IR_OP_MUL))
    return collect_product(m, e->args[0], reads, factor) && collect_product(m, e->args[1], reads, factor);
  if (constant_value(m->form.problem, e, &v)) {
    *factor *= v;
    return true;
  }
  const ir_expr *read = ir_form_as_read(&m->form, e);
  if (!read && is_computed(m, e)) read = e;
  if (!read || reads[1]) return false;
  reads[reads[0] ? 1 : 0] = read;
  return true;
}

/* The reads of Q and K of a part, and its constant factor. */
typedef struct operands {
  const ir_expr *q, *k;
  double factor;
} operands;

static bool find_operands(matcher *w, attention_part *part, operands *o) {
  attention_match *m = w->m;
  const ir_expr *reads[2] = {NULL};
  o->factor = 1;
  part->depth = part->e->index;
  if (!collect_product(m, part->e->args[0], reads, &o->factor) || !reads[1] || !(o->factor > 0))
    return template_say(w->detail, "the inner sum is not one of products of two reads");
  bool swap = loops_of(m, reads[0]) >> m->key & 1;
  o->q = reads[swap];
  o->k = reads[!swap];
  if (o->k->node == IR_READ && !(loops_of(m, o->q) >> m->key & 1)) return true;
  return template_say(w->detail, "keys are computed, or queries by key");
}

/* Which of the factors of QK are Q, and which of its loops are the rows of a tile: one of those that K has
 * not, and that bounds speak of, else the innermost. */
static bool match_products(matcher *w, unsigned outer, const contraction_loops *order) {
  attention_match *m = w->m;
  const ir_form *form = &m->form;
  operands o[ATTENTION_PARTS];
  unsigned own = outer & ~(1u << m->wide), inner = 0;
  for (int i = 0; i < m->n_parts; i++) {
    if (!find_operands(w, &m->parts[i], &o[i])) return false;
    own &= loops_of(m, o[i].q) & ~loops_of(m, o[i].k);
    inner |= 1u << m->parts[i].depth;
    if (o[i].factor != o[0].factor) return template_say(w->detail, "two products have unlike factors");
  }
  own &= ~inner;
  m->factor = o[0].factor;
  m->query = -1;
  const ir_expr *c = ir_condition_of(m->weighted);
  unsigned spoken = c ? ir_form_free(form, c) & own : 0;
  for (int i = 0; i < order->n; i++)
    if ((spoken ? spoken : own) >> order->loops[i] & 1) m->query = order->loops[i];
  if (m->query < 0) return template_say(w->detail, "queries and keys have the same loops");
  if (m->groups.of && m->groups.row != m->query)
    return template_say(w->detail, "requests are of other rows than the queries");
  for (int i = 0; i < m->n_parts; i++) {
    attention_part *part = &m->parts[i];
    part->made = o[i].q->node == IR_READ ? NULL : o[i].q;
    part->q = part->made ? rows_in(w, part->made, part->depth) : o[i].q->id;
    if (part->q < 0) return template_say(w->detail, "computed queries have no row that they are made of");
    if (!check_queries(w, part->q, part->depth) ||
        !attention_match_read(form, &m->groups, o[i].k, m->query, m->key, part->depth, &part->k, w->detail))
      return false;
  }
  return true;
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

static bool match_outputs(matcher *w, contraction_loops *order) {
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
    if (reduces_only(m, out->value, statistics, 2)) continue;
    if (m->output >= 0) return template_say(w->detail, "there are two outputs of weights times values");
    m->output = o;
    *order = loops;
  }
  if (m->output < 0) return template_say(w->detail, "no output has weights times values");
  m->o = form->outputs[m->output].access;
  m->wide = order->loops[order->n - 1];
  const ir_expr *known[] = {m->largest, m->total, m->weighted};
  return reduces_only(m, form->outputs[m->output].value, known, 3) ||
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
    if (!attention_add_bounds(&m->form, &m->groups, m->query, m->key, ir_condition_of(of[i]), &all[i]))
      return template_say(w->detail,
                          "which keys a query sees is told by too many conditions, or by reductions");
    if (!attention_same_bounds(&all[0], &all[i]))
      return template_say(w->detail, "sums are over different keys");
  }
  for (int i = 0; i < m->n_parts; i++) {
    const ir_expr *c = ir_condition_of(m->parts[i].e);
    if (!attention_add_bounds(&m->form, &m->groups, m->query, m->key, c, &inner))
      return template_say(w->detail, "the inner sum has a condition");
  }
  /* What follows from K's subscripts alone is a condition of the outer sums, too. */
  if (inner.n_conditions > 0) return template_say(w->detail, "the inner sum has a condition");
  for (int i = 0; i < inner.n; i++)
    if (!attention_has_bound(&all[0], &inner.list[i]))
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

/* Loops of what is read for all queries of a tile are the batch's, the key's and that along rows. */
static bool check_loops(matcher *w, int access, unsigned more) {
  const attention_match *m = w->m;
  const ir_access *x = &m->form.accesses[access];
  unsigned loops = 0;
  for (int s = 0; s < x->n; s++)
    loops |= contraction_loops_without_group(&m->form, &m->groups, x->subscripts[s].e);
  return !(loops & ~(m->batch.set | more)) || template_say(w->detail, "%s is read by loops of its own",
                                                           m->form.problem->op->tensors[x->tensor].name);
}

static bool check_reads(matcher *w) {
  const attention_match *m = w->m;
  for (int i = 0; i < m->n_parts; i++) {
    const attention_part *part = &m->parts[i];
    unsigned made = part->made ? loops_of(m, part->made) : 0;
    if (made & ~(m->batch.set | 1u << m->query | 1u << part->depth))
      return template_say(w->detail, "computed queries have loops of their own");
    if (!check_loops(w, part->q, 1u << m->query | 1u << part->depth) ||
        !check_loops(w, part->k.access, 1u << m->key | 1u << part->depth))
      return false;
  }
  return check_loops(w, m->v.access, 1u << m->key | 1u << m->wide);
}

static bool check_factors(matcher *w, unsigned row) {
  const attention_match *m = w->m;
  const ir_form *form = &m->form;
  if (ir_form_free(form, m->body) & ~(row | 1u << m->key))
    return template_say(w->detail, "a score has loops of its own");
  for (int i = 0; i < m->bounds.n_conditions; i++)
    if (ir_form_free(form, m->bounds.conditions[i]) & ~(row | 1u << m->key))
      return template_say(w->detail, "a condition has loops of its own");
  if (m->divisor && ir_form_free(form, m->divisor) & ~row)
    return template_say(w->detail, "a divisor depends on the key");
  for (int i = 0; i < m->n_scales; i++)
    if (ir_form_free(form, m->scales[i]) & ~row)
      return template_say(w->detail, "a factor of the values has loops of its own");
  return !m->divisor || reduces_only(m, m->divisor, (const ir_expr *[]){m->largest, m->total}, 2) ||
         template_say(w->detail, "a divisor needs more than the weights");
}

static bool match(matcher *w) {
  attention_match *m = w->m;
  const ir_form *form = &m->form;
  term t = {.rounded = DTYPE_F32};
  contraction_loops order = {0};
  double of_parts = 1;
  m->groups = contraction_find_groups(form);
  if (!sort_reductions(w) || !match_outputs(w, &order)) return false;
  m->key = m->weighted->index;
  if (order.set >> m->key & 1) return template_say(w->detail, "an output is over the keys");
  if (!collect_term(m, m->weighted->args[0], 1u << m->key | 1u << m->wide, &t) || !t.weight || !t.value)
    return template_say(w->detail, "the outer sum is not one of weights times values");
  if (!match_weight(w, &t, &of_parts) || !match_products(w, order.set, &order)) return false;
  if (!attention_match_read(form, &m->groups, t.value, m->query, m->key, m->wide, &m->v, w->detail))
    return false;
  for (int i = 0; i < order.n; i++) {
    if (order.loops[i] == m->query || order.loops[i] == m->wide) continue;
    m->batch.set |= 1u << order.loops[i];
    m->batch.loops[m->batch.n++] = order.loops[i];
  }
  if (!check_reads(w) || !match_bounds(w) || !check_factors(w, m->batch.set | 1u << m->query)) return false;
  if (!check_statistics(w, order.set)) return false;
  m->type = t.rounded;
  split_scale(m, of_parts);
  return true;
}

/* Computed queries as outputs that are written as they are read. */
static arke_status find_blocks(attention_match *m, attention_part *part, arena *a) {
  ir_form whole = m->form, *blocks = ARENA_NEW(a, ir_form);
  ir_form_output *out = ARENA_NEW(a, ir_form_output);
  if (!blocks || !out) return ARKE_ERR_MEMORY;
  *out = (ir_form_output){
      .access = part->q, .positions = -1, .rank_loop = -1, .update = IR_ASSIGN, .value = part->made};
  whole.outputs = out;
  whole.n_outputs = 1;
  whole.loops[part->depth].reduced = false;
  part->blocks = blocks;
  return ir_form_split(&whole, a, blocks, NULL);
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
  if (!match(&w)) return TEMPLATE_OPERATOR;
  for (int i = 0; i < m->n_parts && made == ARKE_OK; i++)
    if (m->parts[i].made) made = find_blocks(m, &m->parts[i], a);
  if (status) *status = made;
  return made == ARKE_OK ? TEMPLATE_OK : TEMPLATE_OPERATOR;
}

double attention_exponent_factor(const attention_match *m) {
  return m->scale * (m->base2 ? 1 : M_LOG2E);
}
