/* Which forms are selections of the largest, and what a problem has against it. */

#include "templates/topk.h"

static bool compared_as(dtype d, gen_type *type) {
  switch (d) {
  case DTYPE_F32: *type = GEN_F32; return true;
  case DTYPE_F64: *type = GEN_F64; return true;
  case DTYPE_I64: *type = GEN_I64; return true;
  case DTYPE_I32:
  case DTYPE_BOOL: *type = GEN_I32; return true;
  default: return false;
  }
}

/* Every subscript an index of its own. */
static bool is_plain(const ir_access *x, unsigned *loops) {
  *loops = 0;
  for (int s = 0; s < x->n; s++) {
    const ir_expr *e = x->subscripts[s].e;
    if (e->node != IR_INDEX || *loops >> e->id & 1) return false;
    *loops |= 1u << e->id;
  }
  return true;
}

static bool match_form(topk_match *m, strbuf *detail) {
  const ir_form *form = &m->form;
  const ir_form_output *out = &form->outputs[0];
  const ir_expr *reductions[2];
  unsigned values, positions;
  if (form->n_outputs != 1 || out->positions < 0 || out->rank_loop < 0)
    return template_say(detail, "the topk template takes (V[…,r], I[…,r]) = topk(t) of an expression");
  if (out->value->node != IR_REDUCE || ir_form_reductions(form, reductions, 2) != 1)
    return template_say(detail, "the candidates of a topk have no reductions of their own");
  if (out->update != IR_ASSIGN || !is_plain(&form->accesses[out->access], &values) ||
      !is_plain(&form->accesses[out->positions], &positions) || values != positions)
    return template_say(detail, "the topk template writes each winner once, to plain places");
  m->value = out->value->args[0];
  m->condition = out->value->n_args > 1 ? out->value->args[1] : NULL;
  m->along = out->value->index;
  m->rank = out->rank_loop;
  if (values >> m->along & 1)
    return template_say(detail, "the candidates of a topk are along an axis of their own");
  for (int l = 0; l < form->n_loops; l++) {
    if (l == m->along || l == m->rank) continue;
    if (!(values >> l & 1)) return template_say(detail, "the outputs of a topk have all of its other axes");
    m->outer[m->n_outer++] = l;
  }
  return true;
}

static bool in_place(const topk_match *m) {
  const ir_op *op = m->form.problem->op;
  for (int i = 0; i < op->n_args; i++) {
    if (op->tensors[i].alias >= 0) return true;
  }
  return false;
}

static template_reason check_sizes(const topk_match *m, strbuf *detail) {
  for (int l = 0; l < m->form.n_loops; l++) {
    /* Without candidates there are winners of nothing; without rows nothing is to be done. */
    int64_t n = ir_form_extent(&m->form, l), least = l == m->along ? 0 : 1;
    int64_t most = l == m->rank ? TOPK_MOST : INT32_MAX - (1 << 20);
    if (n >= least && n <= most) continue;
    template_say(detail, "axis %s has %lld elements; the topk template takes %lld to %lld",
                 m->form.loops[l].name, (long long)n, (long long)least, (long long)most);
    return TEMPLATE_SIZE;
  }
  return TEMPLATE_OK;
}

template_reason topk_fit(const ir_problem *p, const target *t, arena *a, topk_match *match, strbuf *detail,
                         arke_error *err) {
  (void)t; /* shuffles and atomics are on every target */
  *match = (topk_match){.along = -1};
  if (ir_form_make(p, a, &match->form, err) != ARKE_OK) {
    template_say(detail, "%s", err->text);
    return TEMPLATE_OPERATOR;
  }
  if (!match_form(match, detail)) return TEMPLATE_OPERATOR;
  if (in_place(match)) {
    template_say(detail, "the topk template does not write in place");
    return TEMPLATE_OPERATOR;
  }
  if (!compared_as(ir_form_type(&match->form, match->value), &match->type)) {
    template_say(detail, "the topk template compares numbers");
    return TEMPLATE_DTYPE;
  }
  for (int i = 0; i < p->op->n_args; i++) {
    if (dtype_bits(ir_tensor_dtype(p, i)) >= 8) continue;
    template_say(detail, "the topk template takes elements of whole bytes");
    return TEMPLATE_DTYPE;
  }
  return check_sizes(match, detail);
}

template_reason topk_fits(const ir_problem *p, const target *t, strbuf *detail) {
  arena a = ARENA_INIT;
  topk_match match;
  arke_error err = ARKE_ERROR_INIT;
  template_reason reason = topk_fit(p, t, &a, &match, detail, &err);
  arena_release(&a);
  return reason;
}
