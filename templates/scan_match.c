/* Which forms are prefix reductions, and what a problem has against it. */

#include "templates/scan.h"

static bool is_index(const ir_expr *e, int loop) {
  return e->node == IR_INDEX && e->id == loop;
}

/* The relation seen from the other side: t <= j is j >= t. */
static ir_operator turned(ir_operator o) {
  switch (o) {
  case IR_OP_LE: return IR_OP_GE;
  case IR_OP_LT: return IR_OP_GT;
  case IR_OP_GE: return IR_OP_LE;
  case IR_OP_GT: return IR_OP_LT;
  default: return o;
  }
}

/* "t <= j" and the like: the relation of `loop` to another one. */
static bool match_condition(const ir_expr *c, int loop, ir_operator *relation, int *along) {
  if (c->node != IR_OPERATOR || c->n_args != 2) return false;
  *relation = (ir_operator)c->id;
  const ir_expr *other = c->args[1];
  if (is_index(c->args[1], loop)) {
    *relation = turned(*relation);
    other = c->args[0];
  } else if (!is_index(c->args[0], loop)) {
    return false;
  }
  if (other->node != IR_INDEX || other->id == loop) return false;
  *along = other->id;
  return *relation == IR_OP_LE || *relation == IR_OP_LT || *relation == IR_OP_GE || *relation == IR_OP_GT;
}

static bool same_range(const ir_loop *x, const ir_loop *y) {
  if (x->leading != y->leading || x->n_dims != y->n_dims) return false;
  for (int i = 0; i < x->n_dims; i++) {
    if (!ir_dim_equal(x->dims[i], y->dims[i])) return false;
  }
  return true;
}

static bool accumulator(dtype d, gen_type *type) {
  switch (d) {
  case DTYPE_F32: *type = GEN_F32; return true;
  case DTYPE_F64: *type = GEN_F64; return true;
  case DTYPE_I32: *type = GEN_I32; return true;
  case DTYPE_I64: *type = GEN_I64; return true;
  default: return false; /* a condition's prefixes are any and all */
  }
}

static bool match_term(scan_match *m, const ir_expr *e, strbuf *detail) {
  const ir_form *form = &m->form;
  scan_term *term = &m->terms[m->n_terms];
  ir_operator relation;
  int along;
  if (e->n_args < 2 || !match_condition(e->args[1], e->index, &relation, &along))
    return template_say(detail,
                        "the scan template takes reductions over t: t <= j (or <, >=, >) of an output's j");
  bool suffix = relation == IR_OP_GE || relation == IR_OP_GT;
  *term = (scan_term){.node = e,
                      .op = (ir_reduction)e->id,
                      .loop = e->index,
                      .exclusive = relation == IR_OP_LT || relation == IR_OP_GT};
  if (term->op != IR_RED_SUM && term->op != IR_RED_PROD && term->op != IR_RED_MAX && term->op != IR_RED_MIN)
    return template_say(detail, "the scan template takes sum, prod, max and min");
  if (!accumulator(ir_form_type(form, e), &term->type))
    return template_say(detail, "the scan template accumulates numbers");
  /* An inner scan's j would be the outer one's t, which no output has. */
  if (form->loops[along].reduced || !same_range(&form->loops[along], &form->loops[e->index]))
    return template_say(detail, "the prefixes of a scan are those of an output's whole axis");
  if (ir_form_free(form, e->args[0]) >> along & 1)
    return template_say(detail, "what a scan adds up must not depend on how far it goes");
  if (m->n_terms > 0 && (m->along != along || m->suffix != suffix))
    return template_say(detail, "the scans of one operator go along one axis in one direction");
  m->along = along;
  m->suffix = suffix;
  m->n_terms++;
  return true;
}

static bool match_terms(scan_match *m, strbuf *detail) {
  const ir_expr *list[SCAN_MAX_TERMS + 1];
  int n = ir_form_reductions(&m->form, list, SCAN_MAX_TERMS + 1);
  if (n == 0) return template_say(detail, "nothing is reduced");
  if (n > SCAN_MAX_TERMS) return template_say(detail, "a scan has at most %d reductions", SCAN_MAX_TERMS);
  for (int i = 0; i < n; i++) {
    if (!match_term(m, list[i], detail)) return false;
  }
  return true;
}

/* The loop whose steps are one element of the access; -1: none, or two. */
static int unit_loop(const ir_form *form, int access) {
  int found = -1;
  for (int l = 0; l < form->n_loops; l++) {
    if (ir_form_motion(form, access, l) != IR_MOTION_UNIT) continue;
    if (found >= 0) return -1;
    found = l;
  }
  return found;
}

static unsigned left_loops(const ir_form *form) {
  unsigned set = 0;
  for (int l = 0; l < form->n_loops; l++) set |= form->loops[l].reduced ? 0 : 1u << l;
  return set;
}

static bool match_outputs(scan_match *m, strbuf *detail) {
  const ir_form *form = &m->form;
  m->lane = -1;
  for (int o = 0; o < form->n_outputs; o++) {
    const ir_form_output *out = &form->outputs[o];
    const ir_access *written = &form->accesses[out->access];
    unsigned seen = 0;
    if (out->update != IR_ASSIGN || out->positions >= 0)
      return template_say(detail, "the scan template writes each element once");
    for (int s = 0; s < written->n; s++) {
      const ir_expr *e = written->subscripts[s].e;
      if (e->node != IR_INDEX || seen >> e->id & 1)
        return template_say(detail, "the scan template writes each element once");
      seen |= 1u << e->id;
    }
    if (seen != left_loops(form)) return template_say(detail, "all outputs of a scan have all of its axes");
    int lane = unit_loop(form, out->access);
    if (lane < 0 || (m->lane >= 0 && m->lane != lane))
      return template_say(detail, "the outputs of a scan are contiguous along one axis");
    m->lane = lane;
  }
  m->columns = m->lane != m->along;
  for (int l = 0; l < form->n_loops; l++) {
    if (!form->loops[l].reduced && l != m->along && l != m->lane) m->outer[m->n_outer++] = l;
  }
  return true;
}

/* Whether an access reads at the place where another one writes, term by term: t stands for j. */
static bool same_place(const scan_match *m, const ir_access *read, const ir_access *written) {
  if (read->n != written->n) return false;
  for (int s = 0; s < read->n; s++) {
    const ir_expr *e = read->subscripts[s].e, *w = written->subscripts[s].e;
    if (e->node != IR_INDEX) return false;
    int loop = e->id;
    for (int i = 0; i < m->n_terms; i++) {
      if (loop == m->terms[i].loop) loop = m->along;
    }
    if (loop != w->id) return false;
  }
  return true;
}

/* A tensor written in place may be read only where the same thread writes afterwards. */
static bool safe_in_place(const scan_match *m) {
  const ir_form *form = &m->form;
  for (int o = 0; o < form->n_outputs; o++) {
    const ir_access *written = &form->accesses[form->outputs[o].access];
    int alias = form->problem->op->tensors[written->tensor].alias;
    for (int i = 0; alias >= 0 && i < form->n_accesses; i++) {
      if (form->accesses[i].tensor == alias && !same_place(m, &form->accesses[i], written)) return false;
    }
  }
  return true;
}

static bool whole_bytes(const ir_problem *p) {
  for (int i = 0; i < p->op->n_args; i++) {
    if (dtype_bits(ir_tensor_dtype(p, i)) < 8) return false;
  }
  return true;
}

template_reason scan_fit(const ir_problem *p, const target *t, arena *a, scan_match *match, strbuf *detail,
                         arke_error *err) {
  (void)t; /* shuffles and atomics are on every target */
  *match = (scan_match){.along = -1};
  if (ir_form_make(p, a, &match->form, err) != ARKE_OK) {
    template_say(detail, "%s", err->text);
    return TEMPLATE_OPERATOR;
  }
  if (!match_terms(match, detail) || !match_outputs(match, detail)) return TEMPLATE_OPERATOR;
  if (!safe_in_place(match)) {
    template_say(detail, "a scan in place may read what it writes only at the same place");
    return TEMPLATE_OPERATOR;
  }
  if (!whole_bytes(p)) {
    template_say(detail, "the scan template takes elements of whole bytes");
    return TEMPLATE_DTYPE;
  }
  for (int l = 0; l < match->form.n_loops; l++) {
    int64_t n = ir_form_extent(&match->form, l);
    if (n >= 1 && n < INT64_C(1) << 40) continue;
    template_say(detail, "axis %s has %lld elements; the scan template takes 1 to 2^40",
                 match->form.loops[l].name, (long long)n);
    return TEMPLATE_SIZE;
  }
  return TEMPLATE_OK;
}

template_reason scan_fits(const ir_problem *p, const target *t, strbuf *detail) {
  arena a = ARENA_INIT;
  scan_match match;
  arke_error err = ARKE_ERROR_INIT;
  template_reason reason = scan_fit(p, t, &a, &match, detail, &err);
  arena_release(&a);
  return reason;
}
