/* Which contractions there are, and which side is the short one. */
#include <stdlib.h>

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

static int64_t gcd(int64_t x, int64_t y) {
  while (y) {
    int64_t rest = x % y;
    x = y;
    y = rest;
  }
  return x;
}

static int64_t period_of(const ir_form *form, const ir_expr *e, int loop);

static int64_t period_of_access(const ir_form *form, int access, int loop) {
  const ir_access *x = &form->accesses[access];
  int64_t period = x->other ? period_of(form, x->other, loop) : 0;
  for (int s = 0; s < x->n; s++) period = gcd(period, period_of(form, x->subscripts[s].e, loop));
  return period;
}

/* Steps of a loop that an expression does not change in, counted from 0 on: g of what depends on k / g. */
static int64_t period_of(const ir_form *form, const ir_expr *e, int loop) {
  if (loop < 0 || !(ir_form_free(form, e) >> loop & 1)) return 0;
  bool divides = e->node == IR_OPERATOR && e->id == IR_OP_DIV && e->args[0]->node == IR_INDEX;
  if (divides && e->args[1]->node == IR_INT && e->args[1]->integer > 0) return e->args[1]->integer;
  if (e->node == IR_READ) return period_of_access(form, e->id, loop);
  if (e->node == IR_INDEX || e->node == IR_REDUCE) return 1;
  int64_t period = 0;
  for (int i = 0; i < e->n_args; i++) period = gcd(period, period_of(form, e->args[i], loop));
  return period;
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

/* The largest absolute value of an expression of small integers; -1: it is none. */
static int64_t most_of(const ir_form *form, const ir_expr *e) {
  enum { MOST = 1 << 20 };
  if (e->node == IR_INT) return e->integer >= -MOST && e->integer <= MOST ? llabs(e->integer) : -1;
  if (e->node == IR_READ) {
    switch (ir_tensor_dtype(form->problem, form->accesses[e->id].tensor)) {
    case DTYPE_I4: return 8;
    case DTYPE_I8: return 128;
    case DTYPE_U8: return 255;
    default: return -1;
    }
  }
  bool sum = e->node == IR_OPERATOR && (e->id == IR_OP_ADD || e->id == IR_OP_SUB);
  if (!sum || dtype_class_of(ir_form_type(form, e)) == DTYPE_CLASS_FLOAT) return -1;
  int64_t x = most_of(form, e->args[0]), y = most_of(form, e->args[1]);
  return x < 0 || y < 0 || x + y > MOST ? -1 : x + y;
}

static dtype exact_type(const ir_form *form, const ir_expr *e) {
  enum { MOST_BF16 = 256, MOST_F16 = 2048 };
  int64_t most = most_of(form, e);
  if (e->node == IR_READ) return ir_tensor_dtype(form->problem, form->accesses[e->id].tensor);
  if (e->node == IR_CAST) return ir_cast_dtype(form->problem, e);
  return most < 0 ? DTYPE_F32 : most <= MOST_BF16 ? DTYPE_U8 : most <= MOST_F16 ? DTYPE_F16 : DTYPE_F32;
}

/* Tells the scales of groups from the factors that change with each element. */
static void sort_factors(const skinny_match *m, const contraction_operand *c, skinny_operand *o) {
  const ir_form *form = &m->c.form;
  const ir_expr *fast = NULL;
  int n_fast = 0;
  o->plain = -1;
  o->exact = DTYPE_F32;
  for (int f = 0; f < c->n_factors; f++) {
    int64_t period = m->c.k.n == 1 ? period_of(form, c->factors[f], m->k_loop) : 1;
    if (period > 1) {
      o->slow |= 1u << f;
      o->period = gcd(o->period, period);
    } else {
      fast = c->factors[f];
      n_fast++;
    }
  }
  if (n_fast != 1) return;
  o->exact = exact_type(form, fast);
  bool direct =
      fast->node == IR_READ && !form->accesses[fast->id].conditional && !form->accesses[fast->id].other;
  for (int r = 0; direct && r < o->n_reads; r++)
    if (o->reads[r].access == fast->id) o->plain = r;
}

static dtype matrix_type(const skinny_match *m) {
  static const dtype types[] = {DTYPE_BF16, DTYPE_F16};
  for (size_t t = 0; t < COUNT_OF(types); t++) {
    bool all = true;
    for (int i = 0; i < m->c.n_operands; i++) all = all && holds(types[t], m->operands[i].exact);
    if (all) return types[t];
  }
  return DTYPE_F32;
}

/* Asked of every configuration, and the same for all, or for all of a width. */
static void know_wide(skinny_match *m, bool merged) {
  m->dense = merged;
  m->wide_offsets = lanes_need_wide_offsets(&m->c.form);
  for (int token = 0; token < 2; token++) {
    for (int w = 0; w < SKINNY_WIDTHS; w++) {
      lanes_options o = {
          .loop = m->along_rows && !token ? m->row_loop : m->k_loop, .width = 1 << w, .dense = merged};
      m->wide[token][w] = lanes_wide(&m->c.form, &o);
    }
  }
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
      m->operands[i].reads[r].period = period_of_access(&c->form, m->operands[i].reads[r].access, loop);
    sort_factors(m, &c->operands[i], &m->operands[i]);
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
  m->matrix = m->type == DTYPE_F32 ? matrix_type(m) : DTYPE_F32;
  know_wide(m, merged);
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
