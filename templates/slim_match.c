/* Which contractions there are for the ring, and which side is the short one. */
#include "templates/copy_start.h"
#include "templates/slim.h"

static template_reason refuse(strbuf *detail, template_reason reason, const char *text) {
  if (detail) strbuf_add(detail, text);
  return reason;
}

static bool is_index(const ir_subscript *s, int loop) {
  return s->e->node == IR_INDEX && s->e->id == loop;
}

/* The loop, or the loop and something that depends on none. */
static bool is_shifted(const ir_form *form, const ir_expr *e, int loop) {
  if (e->node == IR_INDEX) return e->id == loop;
  if (e->node != IR_OPERATOR || e->id != IR_OP_ADD) return false;
  const ir_expr *x = e->args[0], *y = e->args[1];
  return (is_shifted(form, x, loop) && !ir_form_free(form, y)) ||
         (is_shifted(form, y, loop) && !ir_form_free(form, x));
}

/* A matrix over the side's loop and K's, either the last one; a side without a loop: a vector. */
static bool match_operand(const slim_match *m, int operand, slim_operand *o) {
  const contraction_operand *c = &m->c.operands[operand];
  if (c->access < 0) return false;
  const ir_access *x = &m->c.form.accesses[c->access];
  bool token = (c->side == CONTRACTION_A) == (m->tokens == &m->c.m);
  int loop = token ? m->token_loop : m->row_loop;
  *o = (slim_operand){.access = c->access, .tensor = x->tensor, .token = token, .row = -1};
  if (loop < 0) return x->n == 1 && is_index(&x->subscripts[0], m->k_loop);
  if (x->n != 2) return false;
  o->along_rows = is_index(&x->subscripts[0], m->k_loop);
  o->row = o->along_rows ? 1 : 0;
  o->k = 1 - o->row;
  o->place = x->subscripts[o->row].e;
  return is_shifted(&m->c.form, o->place, loop) && is_index(&x->subscripts[o->k], m->k_loop);
}

static template_reason match_operands(slim_match *m, strbuf *detail) {
  m->type = m->c.operands[0].type;
  for (int i = 0; i < m->c.n_operands; i++) {
    slim_operand *o = &m->operands[i];
    if (!match_operand(m, i, o))
      return refuse(detail, TEMPLATE_OPERATOR, "an operand is not a matrix over its rows and K, as it is");
    dtype type = ir_tensor_dtype(m->c.form.problem, o->tensor);
    if ((type != DTYPE_BF16 && type != DTYPE_F16) || type != m->type)
      return refuse(detail, TEMPLATE_DTYPE, "operands are all of bf16, or all of f16");
    if (o->token && o->along_rows)
      return refuse(detail, TEMPLATE_OPERATOR, "the short side lies with its rows as the contiguous axis");
  }
  return TEMPLATE_OK;
}

/* Elements of a line of an operand: of its last dimensions. */
static int64_t line_of(const slim_match *m, const slim_operand *o) {
  const ir_access *x = &m->c.form.accesses[o->access];
  const ir_subscript *last = &x->subscripts[x->n - 1];
  int64_t shape[LIMIT_RANK], line = 1;
  ir_tensor_shape(m->c.form.problem, o->tensor, shape);
  for (int i = 0; i < last->count; i++) line *= last->first + i < 0 ? 1 : shape[last->first + i];
  return line;
}

/* What tensor copies can address, and 32 bits count. */
static template_reason check_sizes(const slim_match *m, strbuf *detail) {
  enum { MOST = INT32_MAX - 4096, MOST_TOKENS = 1024, LINE = 8 };
  const int loops[] = {m->token_loop, m->row_loop, m->k_loop};
  for (size_t i = 0; i < COUNT_OF(loops); i++) {
    int64_t extent = loops[i] < 0 ? 1 : ir_form_extent(&m->c.form, loops[i]);
    if (extent < 1 || extent > MOST)
      return refuse(detail, TEMPLATE_SIZE, "an axis is empty, or its coordinates do not fit 32 bits");
  }
  if (contraction_extent(&m->c, m->tokens) > MOST_TOKENS)
    return refuse(detail, TEMPLATE_SIZE, "the short side has more than 1,024 rows");
  for (int i = 0; i < m->c.n_operands; i++) {
    if (line_of(m, &m->operands[i]) % LINE != 0)
      return refuse(detail, TEMPLATE_ALIGNMENT, "rows of an operand are not a multiple of 16 bytes");
    if (!copy_start_fits(&m->c.form, m->operands[i].access, slim_tile_loops(m)))
      return refuse(detail, TEMPLATE_ALIGNMENT, "an operand is read from no multiple of 16 bytes on");
  }
  return TEMPLATE_OK;
}

template_reason slim_match_make(const ir_problem *p, bool merged, arena *a, slim_match *m, strbuf *detail,
                                arke_status *status) {
  *m = (slim_match){.k_loop = -1};
  template_reason reason = contraction_match(p, merged, a, &m->c, detail, status);
  if (reason != TEMPLATE_OK) return reason;
  const contraction *c = &m->c;
  bool b_short = contraction_extent(c, &c->n) < contraction_extent(c, &c->m);
  m->tokens = b_short ? &c->n : &c->m;
  m->weights = b_short ? &c->m : &c->n;
  if (c->batch.n != 0 || m->tokens->n > 1 || m->weights->n != 1 || c->k.n != 1)
    return refuse(detail, TEMPLATE_OPERATOR, "rows, columns and terms are of one axis each");
  m->token_loop = m->tokens->n == 1 ? m->tokens->loops[0] : -1;
  m->row_loop = m->weights->loops[0];
  m->k_loop = c->k.loops[0];
  m->wide_offsets = lanes_need_wide_offsets(&c->form);
  reason = match_operands(m, detail);
  if (reason == TEMPLATE_OK) reason = check_sizes(m, detail);
  if (reason != TEMPLATE_OK) return reason;
  for (int i = 0; i < c->n_sums; i++) {
    if (c->sums[i].n_conditions > 0)
      return refuse(detail, TEMPLATE_OPERATOR, "a sum leaves out terms by a condition");
    if (c->sums[i].type != DTYPE_F32) return refuse(detail, TEMPLATE_DTYPE, "sums are of f32");
  }
  return TEMPLATE_OK;
}

template_reason slim_fits(const ir_problem *p, const target *t, strbuf *detail) {
  arena a = ARENA_INIT;
  slim_match m;
  template_reason reason = TEMPLATE_TARGET;
  if (t->has.tma && t->has.wgmma && t->has.clusters) {
    reason = slim_match_make(p, true, &a, &m, detail, NULL);
  } else {
    refuse(detail, reason, "the target has no warp-group matrix unit with tensor copies");
  }
  arena_release(&a);
  return reason;
}
