/* Queries that are computed by element (rotated, scaled, normed by what tensors say), by each consumer warp
 * group for its own 64 rows, where tensor copies would put them. A thread has the same columns of all blocks,
 * and of several heads of a query: what those have in common is loaded and computed once. */
#include "generator/gen_barrier.h"
#include "generator/gen_bits.h"
#include "generator/gen_memory.h"
#include "templates/attention_consumer.h"

enum { WIDTH = 8, GROUP_ROWS = 64, THREADS = 128, MOST_LOADED = 24 };

bool attention_makes_queries(const attention_match *m) {
  return m->n_parts > 0 && m->parts[0].made;
}

int64_t attention_block_columns(const attention_match *m) {
  return ir_form_extent(m->parts[0].blocks, m->parts[0].depth);
}

lanes_options attention_query_lanes(const attention_match *m, bool wide_offsets) {
  lanes_options o = {.loop = m->parts[0].depth, .width = WIDTH, .wide_offsets = wide_offsets};
  o.wide = lanes_wide(m->parts[0].blocks, &o);
  return o;
}

/* Vectors of a thread: `heads` of a query, in each block, `units` times. */
typedef struct share {
  int vectors; /* of a row, in a block */
  int heads;   /* a power of two, at most the pack's */
  int units, at_once;
} share;

static share shares_of(const attention_plan *p) {
  share s = {.vectors = (int)attention_block_columns(p->match) / WIDTH, .heads = 1};
  while (s.heads < p->pack.heads && GROUP_ROWS / (2 * s.heads) * s.vectors >= THREADS) s.heads *= 2;
  s.units = (GROUP_ROWS / s.heads * s.vectors + THREADS - 1) / THREADS;
  s.at_once = MOST_LOADED / (s.heads * p->match->parts[0].blocks->n_outputs + 2);
  if (s.at_once < 1) s.at_once = 1;
  if (s.at_once > s.units) s.at_once = s.units;
  return s;
}

/* A unit: rows from `row` on of the group, at the vector that begins at `column` of each block. */
typedef struct unit {
  gen_value row, exists; /* exists: i1; NULL: always */
  lanes *l[ATTENTION_MOST_PACK];
} unit;

static arke_status request_of(void *user, const ir_expr *x, gen_value *values, arke_error *err) {
  attention_emitter *e = user;
  if (!e->group) return error_set(err, ARKE_ERR_INTERNAL, "generate", "a reduction that queries have not");
  bool wide = ir_form_type(e->m->parts[0].blocks, x) == DTYPE_I64;
  gen_value group = wide ? gen_sext(e->b, e->group, GEN_I64) : e->group;
  for (int i = 0; i < WIDTH; i++) values[i] = group;
  return ARKE_OK;
}

/* Rows past the last one are computed as that is. */
static arke_status make_lanes(attention_consumer *c, lanes *outer, gen_value row, gen_value column, lanes **l,
                              arke_error *err) {
  attention_emitter *e = c->e;
  gen_builder *b = e->b;
  const attention_match *m = e->m;
  const attention_pack *pack = &e->p->pack;
  lanes_options o = e->p->queries;
  o.user = e;
  o.reduce = request_of;
  o.outer = outer;
  o.own = pack->loop >= 0 ? 1u << pack->loop : 0;
  TRY(lanes_create(b, m->parts[0].blocks, &o, &e->k->query_slots, e->k->a, l, err));
  gen_value number = gen_add(b, gen_mul_imm(b, c->group, GROUP_ROWS), row), query = number;
  for (int i = 0; i < m->batch.n; i++) {
    int loop = m->batch.loops[i];
    gen_value at = c->at.loops[loop];
    if (loop == pack->loop) {
      at = gen_add(b, at, gen_and(b, number, gen_i32(b, pack->heads - 1)));
      at = gen_smin(b, at, c->at.last_head);
      query = gen_udiv(b, number, gen_i32(b, pack->heads));
    }
    lanes_set(*l, loop, attention_index(e, at));
  }
  query = gen_smin(b, gen_add(b, query, c->at.first), c->at.last);
  lanes_set(*l, m->query, attention_index(e, query));
  lanes_set(*l, m->parts[0].depth, attention_index(e, column));
  return ARKE_OK;
}

static const ir_expr *value_of(const attention_match *m, int output) {
  const ir_form *form = m->parts[0].blocks;
  const ir_expr *e = form->outputs[output].value;
  return e->node == IR_CAST && ir_cast_dtype(form->problem, e) == m->type ? e->args[0] : e;
}

static arke_status load_unit(attention_consumer *c, const share *s, int number, unit *u, arke_error *err) {
  gen_builder *b = c->e->b;
  const ir_form *form = c->e->m->parts[0].blocks;
  lanes *outer = NULL;
  gen_value at = gen_add_imm(b, c->thread, (int64_t)number * THREADS), vectors = gen_i32(b, s->vectors);
  gen_value rows = gen_udiv(b, at, vectors), column = gen_sub(b, at, gen_mul_imm(b, rows, s->vectors));
  column = gen_mul_imm(b, column, WIDTH);
  /* Threads behind the last row look at it again, and store nothing. */
  int last = GROUP_ROWS / s->heads - 1;
  u->exists = NULL;
  if (s->units * THREADS * s->heads > GROUP_ROWS * s->vectors) {
    u->exists = gen_compare_imm(b, GEN_SLE, rows, last);
    rows = gen_smin(b, rows, gen_i32(b, last));
  }
  u->row = gen_mul_imm(b, rows, s->heads);
  if (s->heads > 1) TRY(make_lanes(c, NULL, u->row, column, &outer, err));
  for (int h = 0; h < s->heads; h++) {
    TRY(make_lanes(c, outer, gen_add_imm(b, u->row, h), column, &u->l[h], err));
    for (int i = 0; i < form->n_outputs; i++) TRY(lanes_load(u->l[h], value_of(c->e->m, i), err));
  }
  return ARKE_OK;
}

/* The vector of a block, into the swizzle of the tile. */
static arke_status store_vector(attention_consumer *c, lanes *l, int output, gen_value row, arke_error *err) {
  attention_emitter *e = c->e;
  gen_builder *b = e->b;
  const ir_form *form = e->m->parts[0].blocks;
  const ir_access *x = &form->accesses[form->outputs[output].access];
  gen_value v[LANES_MAX], column[LANES_MAX], words[WIDTH / 2];
  int n;
  TRY(lanes_eval(l, value_of(e->m, output), v, &n, err));
  for (int i = n; i < WIDTH; i++) v[i] = v[0];
  if (gen_type_of(b, v[0]) != GEN_F32)
    return error_set(err, ARKE_ERR_UNSUPPORTED, "generate", "queries that are not computed as f32");
  for (int i = 0; i < WIDTH / 2; i++) words[i] = gen_pack_halves(b, e->m->type, v[2 * i], v[2 * i + 1]);
  TRY(lanes_eval(l, x->subscripts[x->n - 1].e, column, &n, err));
  gen_value first = gen_type_of(b, column[0]) == GEN_I64 ? gen_trunc(b, column[0], GEN_I32) : column[0];
  gen_value at = attention_chunk_at(b, row, gen_lshr(b, first, gen_i32(b, 3)), e->p->q.panel_bytes);
  gen_store_shared(b, gen_vector(b, words, WIDTH / 2), gen_add(b, c->rows.shared, at));
  return ARKE_OK;
}

static arke_status store_unit(attention_consumer *c, const share *s, unit *u, arke_error *err) {
  gen_builder *b = c->e->b;
  gen_branch branch;
  arke_status status = ARKE_OK;
  if (u->exists) gen_if(b, &branch, u->exists, NULL, 0);
  for (int h = 0; h < s->heads; h++)
    for (int i = 0; i < c->e->m->parts[0].blocks->n_outputs && status == ARKE_OK; i++)
      status = store_vector(c, u->l[h], i, gen_add_imm(b, u->row, h), err);
  if (u->exists) gen_if_end(b, &branch);
  return status;
}

arke_status attention_make_queries(attention_consumer *c, arke_error *err) {
  gen_builder *b = c->e->b;
  share s = shares_of(c->e->p);
  unit *units = ARENA_NEW_N(c->e->k->a, unit, (size_t)s.units);
  if (!units) return error_memory(err, "generate");
  for (int first = 0; first < s.units; first += s.at_once) {
    int end = first + s.at_once < s.units ? first + s.at_once : s.units;
    for (int i = first; i < end; i++) TRY(load_unit(c, &s, i, &units[i], err));
    for (int i = first; i < end; i++) TRY(store_unit(c, &s, &units[i], err));
  }
  gen_fence_async_shared(b); /* products read them as copies do */
  gen_named_sync(b, gen_add_imm(b, c->group, ATTENTION_GROUP_BARRIER), THREADS);
  return ARKE_OK;
}
