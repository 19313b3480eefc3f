/* Neighbouring columns of a row: their evaluators, where their elements wait in shared memory, and which
 * columns a thread has. */
#include "generator/gen_memory.h"
#include "templates/row_emit.h"

/* --- what evaluators ask for --- */

static arke_status result_of(row_state *row, const ir_expr *e, gen_value *value, arke_error *err) {
  const row_match *m = row->e->m;
  for (int i = 0; i < m->n_reductions; i++) {
    if (m->reductions[i].e != e || !row->results[i]) continue;
    *value = row->results[i];
    return ARKE_OK;
  }
  return error_set(err, ARKE_ERR_INTERNAL, "generate", "a reduction's result is used before it is known");
}

static arke_status reduced(void *user, const ir_expr *e, gen_value *values, arke_error *err) {
  return result_of(((row_chunk *)user)->row, e, values, err);
}

static arke_status reduced_of_row(void *user, const ir_expr *e, gen_value *values, arke_error *err) {
  return result_of(user, e, values, err);
}

/* --- elements that wait in shared memory --- */

static gen_type stored_type(const row_match *m, int access) {
  switch (ir_tensor_dtype(m->form.problem, m->form.accesses[access].tensor)) {
  case DTYPE_F64: return GEN_F64;
  case DTYPE_F32: return GEN_F32;
  case DTYPE_F16: return GEN_F16;
  case DTYPE_BF16: return GEN_BF16;
  case DTYPE_I64: return GEN_I64;
  case DTYPE_I32: return GEN_I32;
  case DTYPE_I16: return GEN_I16;
  default: return GEN_I8;
  }
}

static int vector_bytes(const row_match *m, int access, int width) {
  return dtype_bits(ir_tensor_dtype(m->form.problem, m->form.accesses[access].tensor)) / 8 * width;
}

/* A thread's vectors of an access lie one CTA's width apart, so that a warp's are neighbours. */
static gen_value waiting_place(row_chunk *c, int access) {
  row_emitter *e = c->row->e;
  if (e->plan->held == ROW_AHEAD) return row_ahead_element(c, access);
  int step = e->plan->threads * e->plan->groups * vector_bytes(e->m, access, e->plan->vector);
  return gen_add(e->b, e->shared[access], gen_mul_imm(e->b, c->held, step));
}

static arke_status waiting(void *user, int access, gen_value *elements, arke_error *err) {
  row_chunk *c = user;
  gen_builder *b = c->row->e->b;
  (void)err;
  gen_value v = gen_load_shared(b, stored_type(c->row->e->m, access), c->width, waiting_place(c, access));
  for (int i = 0; i < c->width; i++) elements[i] = c->width == 1 ? v : gen_lane(b, v, i);
  return ARKE_OK;
}

arke_status row_keep(row_chunk *c, uint64_t accesses, arke_error *err) {
  gen_builder *b = c->row->e->b;
  for (int i = 0; i < c->row->e->m->form.n_accesses; i++) {
    if (!(accesses >> i & 1)) continue;
    gen_value elements[LANES_MAX];
    int n;
    TRY(lanes_elements(c->l, i, elements, &n, err));
    for (int k = n; k < c->width; k++) elements[k] = elements[0];
    gen_store_shared(b, c->width == 1 ? elements[0] : gen_vector(b, elements, c->width), waiting_place(c, i));
  }
  return ARKE_OK;
}

/* Accesses that an earlier pass put into shared memory. */
uint64_t row_kept_before(const row_emitter *e, int pass) {
  uint64_t seen = 0;
  if (e->plan->held != ROW_SHARED) return 0;
  for (int p = 0; p < pass; p++) seen |= e->m->pass_reads[p];
  return seen & e->m->kept;
}

/* --- chunks --- */

static arke_status new_chunk(row_state *row, int width, uint64_t given, row_chunk **chunk, arke_error *err) {
  row_emitter *e = row->e;
  const row_kernel *k = e->k;
  row_chunk *c = ARENA_NEW(k->a, row_chunk);
  if (!c) return error_memory(err, "generate");
  *c = (row_chunk){.row = row, .width = width};
  lanes_options o = k->options;
  o.width = width;
  o.user = c;
  o.reduce = reduced;
  o.given = given;
  o.read = waiting;
  if (width < k->options.width) o.wide = 0;
  TRY(lanes_create(e->b, &e->m->form, &o, &k->slots, k->a, &c->l, err));
  *chunk = c;
  return ARKE_OK;
}

static void set_row(const row_emitter *e, lanes *l, gen_value row) {
  const row_match *m = e->m;
  gen_builder *b = e->b;
  for (int i = m->n_rows - 1; i >= 0; i--) {
    gen_value extent = lanes_extent(l, m->rows[i]);
    lanes_set(l, m->rows[i], i == 0 ? row : gen_urem(b, row, extent));
    if (i > 0) row = gen_udiv(b, row, extent);
  }
}

/* The vector of the row with number `vector`; where `guarded` it may lie behind the last one. */
arke_status row_vector_chunk(row_state *row, gen_value vector, bool guarded, uint64_t given,
                             row_chunk **chunk, arke_error *err) {
  row_emitter *e = row->e;
  gen_builder *b = e->b;
  int width = e->plan->vector;
  TRY(new_chunk(row, width, given, chunk, err));
  row_chunk *c = *chunk;
  if (guarded) {
    c->active = gen_compare(b, GEN_ULT, vector, row->vectors);
    /* Something that is there: its own, where the thread has any for certain. */
    bool has_own = row_in_registers(e->plan) && e->plan->vectors > 1 && !e->plan->peel;
    vector = gen_select(b, c->active, vector, has_own ? e->start : row_index(e, 0));
  }
  c->first = gen_mul_imm(b, vector, width);
  if (row->head) c->first = gen_add(b, c->first, row->head);
  set_row(e, c->l, row->row);
  lanes_set(c->l, e->m->column, c->first);
  return ARKE_OK;
}

/* The columns before and behind aligned vectors, one a thread: thread t takes column t of the head or, from
 * `vector` on, column t - vector of the tail. */
arke_status row_edge_chunk(row_state *row, row_chunk **chunk, arke_error *err) {
  row_emitter *e = row->e;
  gen_builder *b = e->b;
  int width = e->plan->vector;
  TRY(new_chunk(row, 1, 0, chunk, err));
  row_chunk *c = *chunk;
  gen_value thread = e->part ? gen_add(b, gen_mul_imm(b, e->part, e->plan->threads), e->thread) : e->thread;
  if (e->index == GEN_I64) thread = gen_zext(b, thread, GEN_I64);
  gen_value behind = gen_add(b, row->head, gen_mul_imm(b, row->vectors, width));
  gen_value tail = gen_sub(b, gen_add(b, thread, behind), row_index(e, width));
  gen_value in_head = gen_compare_imm(b, GEN_ULT, thread, width);
  gen_value column = gen_select(b, in_head, thread, tail);
  gen_value end = gen_select(b, in_head, row->head, e->columns);
  c->active = gen_compare(b, GEN_ULT, column, end);
  c->first = gen_select(b, c->active, column, row_index(e, 0));
  set_row(e, c->l, row->row);
  lanes_set(c->l, e->m->column, c->first);
  return ARKE_OK;
}

/* Issues the loads of accesses whose places are known when `phases` have results. */
arke_status row_load(row_emitter *e, lanes *l, uint64_t accesses, int phases, arke_error *err) {
  const row_match *m = e->m;
  for (int i = 0; i < m->form.n_accesses; i++) {
    if (accesses >> i & 1 && m->reads[i] && m->needs[i] <= phases) TRY(lanes_load(l, m->reads[i], err));
  }
  return ARKE_OK;
}

/* Values of the row as a whole, and their loads. */
arke_status row_whole(row_emitter *e, row_state *row, arke_error *err) {
  const row_kernel *k = e->k;
  lanes_options o = k->options;
  o.loop = -1;
  o.width = 1;
  o.wide = 0;
  o.user = row;
  o.reduce = reduced_of_row;
  TRY(lanes_create(e->b, &e->m->form, &o, &k->slots, k->a, &row->whole, err));
  set_row(e, row->whole, row->row);
  return row_load(e, row->whole, ~e->m->moving, 0, err);
}
