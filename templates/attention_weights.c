/* Which reductions of a form play which part in attention, and what weights and scores are made of. */
#include <math.h>

#include "templates/attention_parts.h"

/* --- expressions --- */

static bool is_weight(const ir_expr *e) {
  return e->node == IR_CALL && (e->id == IR_FN_EXP || e->id == IR_FN_EXP2) &&
         ir_is_operator(e->args[0], IR_OP_SUB);
}

bool attention_reduces_only(const attention_match *m, const ir_expr *e, const ir_expr *const *list, int n) {
  for (int i = 0; i < n; i++)
    if (list[i] == e) return true;
  if (e->node == IR_REDUCE) return e == m->groups.of;
  for (int i = 0; i < e->n_args; i++)
    if (!attention_reduces_only(m, e->args[i], list, n)) return false;
  return true;
}

bool attention_constant(const ir_problem *p, const ir_expr *e, double *v) {
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
    int constant = product && attention_constant(p, e->args[0], &v) ? 0 : 1;
    if (!attention_constant(p, e->args[constant], &v) || !(v > 0) || isinf(v)) return e;
    *factor *= product ? v : 1 / v;
    e = e->args[1 - constant];
  }
}

/* --- the parts --- */

bool attention_collect_term(const attention_match *m, const ir_expr *e, unsigned all, attention_term *t) {
  const ir_form *form = &m->form;
  if (ir_is_operator(e, IR_OP_MUL))
    return attention_collect_term(m, e->args[0], all, t) && attention_collect_term(m, e->args[1], all, t);
  if (ir_is_operator(e, IR_OP_DIV) && !t->divisor) {
    t->divisor = e->args[1];
    return attention_collect_term(m, e->args[0], all, t);
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
  if ((ir_form_free(form, e) & all) || t->n_scales == ATTENTION_SCALES ||
      !attention_reduces_only(m, e, NULL, 0))
    return false;
  t->scales[t->n_scales++] = e;
  return true;
}

/* The least node over both parts, their sum: in scores they stand nowhere else. */
static const ir_expr *sum_of_parts(attention_matcher *w, const ir_expr *e, double *factor) {
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

bool attention_sort_reductions(attention_matcher *w) {
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
    } else if (!attention_reduces_only(m, e->args[0], NULL, 0)) {
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

bool attention_match_weight(attention_matcher *w, const attention_term *t, double *of_parts) {
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
  if (!attention_reduces_only(m, score, &m->product, 1))
    return template_say(w->detail, "a score has reductions of its own");
  m->divisor = t->divisor;
  m->n_scales = t->n_scales;
  for (int i = 0; i < t->n_scales; i++) m->scales[i] = t->scales[i];
  m->body = score;
  return true;
}

/* The factors of the product in `e`, where it is that product times what is the same for all keys of a query.
 */
static bool collect_row_factors(attention_match *m, const ir_expr *e) {
  const ir_form *form = &m->form;
  double v;
  if (e == m->product) return true;
  if (!ir_is_operator(e, IR_OP_MUL)) return false;
  bool second = !attention_reduces_only(m, e->args[1], NULL, 0);
  const ir_expr *factor = e->args[!second];
  if (attention_constant(form->problem, factor, &v) && v > 0 && !isinf(v)) {
    m->row_factor *= v;
  } else {
    bool fits = m->n_row_factors < ATTENTION_ROW_FACTORS && ir_form_type(form, factor) == DTYPE_F32 &&
                !(ir_form_free(form, factor) >> m->key & 1) && attention_reduces_only(m, factor, NULL, 0);
    if (!fits) return false;
    m->row_factors[m->n_row_factors++] = factor;
  }
  return collect_row_factors(m, e->args[second]);
}

void attention_split_scale(attention_match *m, double of_parts) {
  m->scale = m->row_factor = 1;
  bool is_float = ir_form_type(&m->form, m->body) == DTYPE_F32;
  if (is_float) m->body = without_constants(m->form.problem, m->body, &m->scale);
  m->by_row = m->body == m->product;
  if (m->by_row) {
    m->scale *= m->factor * of_parts;
    m->factor = 1;
    return;
  }
  m->by_row = is_float && collect_row_factors(m, m->body);
  m->row_factor *= m->factor * of_parts;
}
