/* Which forms are attention, and what plays which part in them. */
#include <math.h>

#include "templates/attention_parts.h"

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

static bool match_outputs(attention_matcher *w, contraction_loops *order) {
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
    if (attention_reduces_only(m, out->value, statistics, 2)) continue;
    if (m->output >= 0) return template_say(w->detail, "there are two outputs of weights times values");
    m->output = o;
    *order = loops;
  }
  if (m->output < 0) return template_say(w->detail, "no output has weights times values");
  m->o = form->outputs[m->output].access;
  m->wide = order->loops[order->n - 1];
  const ir_expr *known[] = {m->largest, m->total, m->weighted};
  return attention_reduces_only(m, form->outputs[m->output].value, known, 3) ||
         template_say(w->detail, "an output needs more than weights and their sum");
}

/* Statistics have a value for each query, and are written once. */
static bool check_statistics(attention_matcher *w, unsigned outer) {
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

static bool match_bounds(attention_matcher *w) {
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
static bool check_loops(attention_matcher *w, int access, unsigned more) {
  const attention_match *m = w->m;
  const ir_access *x = &m->form.accesses[access];
  unsigned loops = 0;
  for (int s = 0; s < x->n; s++)
    loops |= contraction_loops_without_group(&m->form, &m->groups, x->subscripts[s].e);
  return !(loops & ~(m->batch.set | more)) || template_say(w->detail, "%s is read by loops of its own",
                                                           m->form.problem->op->tensors[x->tensor].name);
}

static bool check_reads(attention_matcher *w) {
  const attention_match *m = w->m;
  for (int i = 0; i < m->n_parts; i++) {
    const attention_part *part = &m->parts[i];
    unsigned made = part->made ? attention_loops_of(m, part->made) : 0;
    if (made & ~(m->batch.set | 1u << m->query | 1u << part->depth))
      return template_say(w->detail, "computed queries have loops of their own");
    if (!check_loops(w, part->q, 1u << m->query | 1u << part->depth) ||
        !check_loops(w, part->k.access, 1u << m->key | 1u << part->depth))
      return false;
  }
  return check_loops(w, m->v.access, 1u << m->key | 1u << m->wide);
}

static bool check_factors(attention_matcher *w, unsigned row) {
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
  return !m->divisor || attention_reduces_only(m, m->divisor, (const ir_expr *[]){m->largest, m->total}, 2) ||
         template_say(w->detail, "a divisor needs more than the weights");
}

static bool match(attention_matcher *w) {
  attention_match *m = w->m;
  const ir_form *form = &m->form;
  attention_term t = {.rounded = DTYPE_F32};
  contraction_loops order = {0};
  double of_parts = 1;
  m->groups = contraction_find_groups(form);
  if (!attention_sort_reductions(w) || !match_outputs(w, &order)) return false;
  m->key = m->weighted->index;
  if (order.set >> m->key & 1) return template_say(w->detail, "an output is over the keys");
  if (!attention_collect_term(m, m->weighted->args[0], 1u << m->key | 1u << m->wide, &t) || !t.weight ||
      !t.value)
    return template_say(w->detail, "the outer sum is not one of weights times values");
  if (!attention_match_weight(w, &t, &of_parts) || !attention_match_products(w, order.set, &order))
    return false;
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
  attention_split_scale(m, of_parts);
  return true;
}

template_reason attention_match_op(const ir_problem *p, arena *a, attention_match *m, strbuf *detail,
                                   arke_status *status) {
  attention_matcher w = {.m = m, .detail = detail};
  *m = (attention_match){0};
  arke_status made = ir_form_make(p, a, &m->form, NULL);
  if (status) *status = made;
  if (made != ARKE_OK) {
    template_say(w.detail, "the operator has no form");
    return TEMPLATE_OPERATOR;
  }
  if (!match(&w)) return TEMPLATE_OPERATOR;
  for (int i = 0; i < m->n_parts && made == ARKE_OK; i++)
    if (m->parts[i].made) made = attention_find_blocks(m, &m->parts[i], a);
  if (status) *status = made;
  return made == ARKE_OK ? TEMPLATE_OK : TEMPLATE_OPERATOR;
}

double attention_exponent_factor(const attention_match *m) {
  return m->scale * (m->base2 ? 1 : M_LOG2E);
}
