/* Which contractions there are, and which side is the short one. */
#include "templates/skinny.h"

static template_reason refuse(strbuf *detail, template_reason reason, const char *text) {
  if (detail) strbuf_add(detail, text);
  return reason;
}

/* Reads whose values an expression is computed from; what only leads to their places is not among them. */
static bool add_reads(const ir_form *form, const ir_expr *e, skinny_operand *o) {
  if (e->node == IR_READ) {
    const ir_access *x = &form->accesses[e->id];
    if (x->other && !add_reads(form, x->other, o)) return false;
    for (int i = 0; i < o->n_reads; i++)
      if (o->reads[i].access == e->id) return true;
    if (o->n_reads == SKINNY_READS) return false;
    o->reads[o->n_reads++] = (skinny_read){.access = e->id};
    return true;
  }
  for (int i = 0; i < e->n_args; i++)
    if (!add_reads(form, e->args[i], o)) return false;
  return true;
}

static bool moves_with(const ir_form *form, int access, int loop) {
  const ir_access *x = &form->accesses[access];
  for (int s = 0; loop >= 0 && s < x->n; s++)
    if (ir_form_free(form, x->subscripts[s].e) >> loop & 1) return true;
  return false;
}

static bool runs_along(const skinny_match *m, const skinny_operand *o, int loop) {
  for (int i = 0; loop >= 0 && i < o->n_reads; i++)
    if (ir_form_motion(&m->c.form, o->reads[i].access, loop) == IR_MOTION_UNIT) return true;
  return false;
}

static int innermost(const contraction_loops *loops) {
  return loops->n > 0 ? loops->loops[loops->n - 1] : -1;
}

/* The shorter side, and for equal ones that of A. */
static void choose_sides(skinny_match *m) {
  const contraction *c = &m->c;
  bool b_short = contraction_extent(c, &c->n) < contraction_extent(c, &c->m);
  m->tokens = b_short ? &c->n : &c->m;
  m->weights = b_short ? &c->m : &c->n;
  m->token_side = b_short ? CONTRACTION_B : CONTRACTION_A;
  m->k_loop = innermost(&c->k);
  m->row_loop = innermost(m->weights);
}

static bool holds(dtype wide, dtype narrow) {
  switch (narrow) {
  case DTYPE_I8:
  case DTYPE_U8:
  case DTYPE_I4:
  case DTYPE_E4M3:
  case DTYPE_E5M2:
  case DTYPE_E2M1: return true;
  default: return wide == narrow;
  }
}

static dtype matrix_type(const contraction *c) {
  static const dtype types[] = {DTYPE_BF16, DTYPE_F16};
  for (size_t t = 0; t < COUNT_OF(types); t++) {
    bool all = true;
    for (int i = 0; i < c->n_operands; i++) all = all && holds(types[t], c->operands[i].type);
    if (all) return types[t];
  }
  return DTYPE_F32;
}

template_reason skinny_match_make(const ir_problem *p, bool merged, arena *a, skinny_match *m, strbuf *detail,
                                  arke_status *status) {
  *m = (skinny_match){.k_loop = -1};
  template_reason reason = contraction_match(p, merged, a, &m->c, detail, status);
  if (reason != TEMPLATE_OK) return reason;
  const contraction *c = &m->c;
  choose_sides(m);
  for (int i = 0; i < c->n_operands; i++) {
    for (int f = 0; f < c->operands[i].n_factors; f++)
      if (!add_reads(&c->form, c->operands[i].factors[f], &m->operands[i]))
        return refuse(detail, TEMPLATE_OPERATOR, "an operand is computed from too many reads");
  }
  bool along_k = false, along_rows = false;
  for (int i = 0; i < c->n_operands; i++) {
    if (skinny_is_token(m, i)) continue;
    along_k = along_k || runs_along(m, &m->operands[i], m->k_loop);
    along_rows = along_rows || runs_along(m, &m->operands[i], m->row_loop);
  }
  m->along_rows = along_rows && !along_k;
  for (int i = 0; i < c->n_operands; i++) {
    int loop = m->along_rows && !skinny_is_token(m, i) ? m->row_loop : m->k_loop;
    for (int r = 0; r < m->operands[i].n_reads; r++)
      m->operands[i].reads[r].moves = moves_with(&c->form, m->operands[i].reads[r].access, loop);
  }
  m->type = c->sums[0].type;
  for (int i = 0; i < c->n_sums; i++) {
    if (c->sums[i].n_conditions > 0)
      return refuse(detail, TEMPLATE_OPERATOR, "a sum leaves out terms by a condition");
    if (c->sums[i].type != m->type) return refuse(detail, TEMPLATE_OPERATOR, "sums are of different types");
  }
  bool float_type = m->type == DTYPE_F32 || m->type == DTYPE_F64;
  if (!float_type && m->type != DTYPE_I32 && m->type != DTYPE_I64)
    return refuse(detail, TEMPLATE_DTYPE, "sums are of f32, f64, i32 or i64");
  m->matrix = m->type == DTYPE_F32 ? matrix_type(c) : DTYPE_F32;
  for (int o = 0; o < c->form.n_outputs; o++) {
    int tensor = c->form.accesses[c->form.outputs[o].access].tensor;
    if (dtype_bits(ir_tensor_dtype(p, tensor)) < 8)
      return refuse(detail, TEMPLATE_DTYPE, "outputs are stored one by one, and two of these share a byte");
  }
  return TEMPLATE_OK;
}

template_reason skinny_fits(const ir_problem *p, const target *t, strbuf *detail) {
  arena a = ARENA_INIT;
  skinny_match m;
  (void)t; /* what a target may lack are configurations */
  template_reason reason = skinny_match_make(p, true, &a, &m, detail, NULL);
  arena_release(&a);
  return reason;
}
