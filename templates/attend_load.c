/* Tiles: from global to shared memory, copied or through registers. What no row of the tile sees counts as
 * zeros and is not read: neither its place in a table of pages nor, were it NaN, its value may matter. */
#include "generator/gen_bits.h"
#include "generator/gen_control.h"
#include "generator/gen_convert.h"
#include "generator/gen_cp_async.h"
#include "generator/gen_memory.h"
#include "templates/attend.h"
#include "templates/lanes_pointer.h"

#define STAGE "generate"

/* What a thread keeps of K or V. */
typedef struct attend_copy {
  lanes *l;         /* the unit's loops are set; outer of those that are used in a step */
  gen_value base;   /* plain: where the unit's first key lies, i64 */
  gen_value stride; /* runs: bytes from one key to the next, i64 */
} attend_copy;

static int vectors_of(const attend_tile *t) {
  return t->rows * t->vectors;
}

static arke_status evaluator(attend_emitter *e, int tile, const attend_copy *outer, lanes **l,
                             arke_error *err) {
  const attention_match *m = e->m;
  lanes_options o = e->p->tiles[tile].options;
  o.user = e;
  o.reduce = attend_group_value;
  if (outer) {
    o.outer = outer->l;
    o.own = 1u << m->key | 1u << e->p->tiles[tile].loop;
  }
  TRY(lanes_create(e->b, &m->form, &o, &e->k->tile_slots[tile], e->k->a, l, err));
  return ARKE_OK;
}

static void set_unit(attend_emitter *e, lanes *l) {
  attend_set_row(e, l, &e->row);
}

attend_place attend_place_of(gen_builder *b, const attend_tile *t, gen_value at, bool all_exist) {
  attend_place v = {.exists = all_exist ? NULL : gen_compare_imm(b, GEN_ULT, at, vectors_of(t))};
  v.row = gen_udiv(b, at, gen_i32(b, t->vectors));
  v.vector = gen_sub(b, at, gen_mul_imm(b, v.row, t->vectors));
  return v;
}

gen_value attend_copy_address(gen_builder *b, const attend_tile *t, gen_value tile, const attend_place *v) {
  int pitch = t->narrow ? t->narrow_pitch_bytes : t->pitch_bytes;
  gen_value at = gen_mul_imm(b, v->vector, t->width * t->element_bytes);
  return gen_add(b, tile, gen_add(b, gen_mul_imm(b, v->row, pitch), at));
}

static gen_value shared_address(gen_builder *b, const attend_tile *t, gen_value tile, const attend_place *v) {
  gen_value at = gen_add(b, gen_mul_imm(b, v->row, t->pitch_bytes), gen_mul_imm(b, v->vector, t->width * 2));
  return gen_add(b, tile, at);
}

/* --- padding --- */

void attend_clear_padding(gen_builder *b, const attend_tile *t, gen_value first, int tiles, int distance,
                          gen_value thread, int threads) {
  int each = t->padded - t->columns;
  gen_loop loop;
  if (each == 0) return;
  gen_value carried[] = {thread};
  gen_loop_begin(b, &loop, carried, 1);
  gen_loop_while(b, &loop, gen_compare_imm(b, GEN_ULT, carried[0], (int64_t)tiles * t->rows * each));
  gen_value line = gen_udiv(b, carried[0], gen_i32(b, each));
  gen_value column = gen_sub(b, carried[0], gen_mul_imm(b, line, each));
  gen_value tile = gen_udiv(b, line, gen_i32(b, t->rows));
  gen_value row = gen_sub(b, line, gen_mul_imm(b, tile, t->rows));
  gen_value at = gen_add(b, gen_add(b, first, gen_mul_imm(b, tile, distance)),
                         gen_add(b, gen_mul_imm(b, row, t->pitch_bytes), gen_mul_imm(b, column, 2)));
  gen_store_shared(b, gen_trunc(b, gen_i32(b, 0), GEN_I16), gen_add_imm(b, at, 2 * (int64_t)t->columns));
  carried[0] = gen_add_imm(b, carried[0], threads);
  gen_loop_end(b, &loop);
}

/* --- before the first step --- */

/* Bytes from a key to the next one of its run. */
static gen_value stride_of(attend_emitter *e, int tile, const attention_read *r) {
  gen_builder *b = e->b;
  const ir_access *x = &e->m->form.accesses[r->access];
  const ir_subscript *sub = &x->subscripts[r->row];
  lanes_slot slot = e->k->tile_slots[tile].stride[x->tensor][sub->first + sub->count];
  int bytes = e->p->tiles[tile].element_bytes;
  if (slot.param < 0) return gen_i64(b, bytes * slot.value);
  gen_value stride = gen_param(b, slot.param);
  return gen_mul_imm(b, gen_type_of(b, stride) == GEN_I64 ? stride : gen_sext(b, stride, GEN_I64), bytes);
}

static const attention_read *read_of(const attention_match *m, int tile) {
  return tile == ATTEND_V ? &m->v : &m->parts[tile - ATTEND_K].k;
}

static arke_status init_tile(attend_emitter *e, int tile, arke_error *err) {
  gen_builder *b = e->b;
  const attend_tile *t = &e->p->tiles[tile];
  attend_copy *c = e->copies[tile] = ARENA_NEW(e->k->a, attend_copy);
  if (!c) return error_memory(err, STAGE);
  TRY(evaluator(e, tile, NULL, &c->l, err));
  set_unit(e, c->l);
  if (t->run > 0) c->stride = stride_of(e, tile, read_of(e->m, tile));
  /* What conditions have besides keys is shared: it must not come to be in the loops of copies. */
  for (int i = 0; i < e->m->bounds.n_conditions; i++)
    TRY(lanes_prepare(c->l, e->m->bounds.conditions[i], 1u << e->m->key | 1u << t->loop, err));
  if (e->p->copied && t->plain) {
    lanes_set(c->l, t->loop, attend_index(e, gen_i32(b, 0)));
    lanes_set(c->l, e->m->key, attend_index(e, gen_i32(b, 0)));
    return lanes_pointer(c->l, t->access, &c->base, err);
  }
  const ir_access *x = &e->m->form.accesses[t->access];
  for (int s = 0; s < x->n; s++)
    TRY(lanes_prepare(c->l, x->subscripts[s].e, 1u << e->m->key | 1u << t->loop, err));
  return ARKE_OK;
}

arke_status attend_load_init(attend_emitter *e, arke_error *err) {
  const attend_plan *p = e->p;
  for (int tile = ATTEND_K; tile < ATTEND_TILES; tile++) {
    const attend_tile *t = &p->tiles[tile];
    if (!t->present) continue;
    TRY(init_tile(e, tile, err));
    bool converted = p->copied && t->narrow;
    attend_clear_padding(e->b, t, attend_tile_address(e, tile, e->ring), converted ? 1 : p->stages,
                         p->stage_bytes, e->set_thread, p->set_threads);
  }
  return ARKE_OK;
}

/* --- copied --- */

/* The keys of a thread's vectors in a step, and where they lie. */
typedef struct copied_vector {
  attend_place at;
  gen_value address, visible;
} copied_vector;

static gen_value is_visible(attend_emitter *e, gen_value key) {
  gen_builder *b = e->b;
  return gen_compare(b, GEN_ULT, gen_sub(b, key, e->from), gen_sub(b, e->below, e->from));
}

/* The nearest key that some row sees, if any does. */
static gen_value visible_key(attend_emitter *e, gen_value key) {
  gen_builder *b = e->b;
  return gen_smin(b, gen_smax(b, key, e->from), gen_add_imm(b, e->below, -1));
}

static gen_value step_key(attend_emitter *e, gen_value step) {
  gen_builder *b = e->b;
  gen_value key = gen_mul_imm(b, step, (int64_t)e->p->sets * e->p->block_n);
  return e->p->sets > 1 ? gen_add(b, key, gen_mul_imm(b, e->set, e->p->block_n)) : key;
}

/* --- runs --- */

static bool is_looked_up(const attend_emitter *e, int tile) {
  const attend_tile *t = &e->p->tiles[tile];
  return e->p->copied && t->present && t->run > 0 && !t->plain;
}

/* A run of which nothing is seen begins anywhere. */
arke_status attend_find_runs(attend_emitter *e, gen_value step, arke_error *err) {
  gen_builder *b = e->b;
  for (int tile = ATTEND_K; tile < ATTEND_TILES; tile++) {
    const attend_tile *t = &e->p->tiles[tile];
    lanes *l;
    if (!is_looked_up(e, tile)) continue;
    TRY(evaluator(e, tile, e->copies[tile], &l, err));
    set_unit(e, l);
    lanes_set(l, t->loop, attend_index(e, gen_i32(b, 0)));
    for (int i = 0; i < e->p->block_n / t->run; i++) {
      gen_value first = gen_add_imm(b, step_key(e, step), (int64_t)i * t->run), key = visible_key(e, first);
      lanes_set(l, e->m->key, attend_index(e, key));
      TRY(lanes_pointer(l, t->access, &e->runs[tile][i], err));
      gen_value past = gen_sext(b, gen_sub(b, key, first), GEN_I64);
      e->runs[tile][i] = gen_sub(b, e->runs[tile][i], gen_mul(b, past, e->copies[tile]->stride));
    }
  }
  return ARKE_OK;
}

int attend_put_runs(const attend_emitter *e, gen_value *carried) {
  int n = 0;
  for (int tile = ATTEND_K; tile < ATTEND_TILES; tile++)
    for (int i = 0; is_looked_up(e, tile) && i < e->p->block_n / e->p->tiles[tile].run; i++)
      carried[n++] = e->runs[tile][i] ? e->runs[tile][i] : gen_i64(e->b, 0);
  return n;
}

int attend_get_runs(attend_emitter *e, const gen_value *carried) {
  int n = 0;
  for (int tile = ATTEND_K; tile < ATTEND_TILES; tile++)
    for (int i = 0; is_looked_up(e, tile) && i < e->p->block_n / e->p->tiles[tile].run; i++)
      e->runs[tile][i] = carried[n++];
  return n;
}

/* --- vectors --- */

static gen_value in_row(gen_builder *b, const attend_tile *t, const attend_place *v) {
  return gen_zext(b, gen_mul_imm(b, v->vector, t->width * t->element_bytes), GEN_I64);
}

/* Vectors of runs: a thread's next vector is some rows further, and its address some strides, where the
 * threads are a multiple of a row's vectors. */
static void find_in_runs(attend_emitter *e, int tile, gen_value first_key, copied_vector *v, int n) {
  gen_builder *b = e->b;
  const attend_tile *t = &e->p->tiles[tile];
  const attend_copy *c = e->copies[tile];
  int threads = e->p->set_threads, before = -1;
  bool regular = threads % t->vectors == 0;
  gen_value start =
      t->plain ? gen_add(b, c->base, gen_mul(b, gen_zext(b, first_key, GEN_I64), c->stride)) : NULL;
  for (int i = 0; i < n; i++) {
    int rows = threads / t->vectors, run = regular ? i * rows / t->run : 0;
    bool whole = (i + 1) * threads <= vectors_of(t);
    v[i].at = attend_place_of(b, t, gen_add_imm(b, e->set_thread, (int64_t)i * threads), whole);
    if (regular && i > 0) v[i].at.row = gen_add_imm(b, v[0].at.row, (int64_t)i * rows);
    if (regular && run == before) {
      v[i].address = gen_add(b, v[i - 1].address, gen_mul_imm(b, c->stride, rows));
    } else {
      gen_value row = gen_zext(b, gen_add_imm(b, v[i].at.row, -(int64_t)run * t->run), GEN_I64);
      gen_value first = gen_add(b, start ? start : e->runs[tile][run], in_row(b, t, &v[i].at));
      v[i].address = gen_add(b, first, gen_mul(b, row, c->stride));
    }
    before = run;
  }
}

/* Rows that lie anywhere, each looked up: all addresses before the first copy, so that tables are asked for
 * several at once. */
static arke_status find_anywhere(attend_emitter *e, int tile, gen_value first_key, copied_vector *v, int n,
                                 arke_error *err) {
  gen_builder *b = e->b;
  const attend_tile *t = &e->p->tiles[tile];
  int threads = e->p->set_threads;
  lanes *l;
  TRY(evaluator(e, tile, e->copies[tile], &l, err));
  set_unit(e, l);
  for (int i = 0; i < n; i++) {
    bool whole = (i + 1) * threads <= vectors_of(t);
    v[i].at = attend_place_of(b, t, gen_add_imm(b, e->set_thread, (int64_t)i * threads), whole);
    lanes_set(l, e->m->key, attend_index(e, visible_key(e, gen_add(b, first_key, v[i].at.row))));
    lanes_set(l, t->loop, attend_index(e, gen_mul_imm(b, v[i].at.vector, t->width)));
    TRY(lanes_pointer(l, t->access, &v[i].address, err));
    TRY(attend_find_condition(e, l, &v[i].visible, err));
  }
  return ARKE_OK;
}

/* Of vectors of runs, where there are conditions. */
static arke_status find_conditions(attend_emitter *e, int tile, gen_value first_key, copied_vector *v, int n,
                                   arke_error *err) {
  lanes *l;
  if (e->m->bounds.n_conditions == 0) return ARKE_OK;
  TRY(evaluator(e, tile, e->copies[tile], &l, err));
  set_unit(e, l);
  for (int i = 0; i < n; i++) {
    lanes_set(l, e->m->key, attend_index(e, visible_key(e, gen_add(e->b, first_key, v[i].at.row))));
    TRY(attend_find_condition(e, l, &v[i].visible, err));
  }
  return ARKE_OK;
}

static void issue_copy(gen_builder *b, const attend_tile *t, gen_value tile, const copied_vector *v) {
  gen_branch branch;
  int bytes = t->width * t->element_bytes;
  gen_value available = gen_select(b, v->visible, gen_i32(b, bytes), gen_i32(b, 0));
  if (v->at.exists) gen_if(b, &branch, v->at.exists, NULL, 0);
  gen_cp_async(b, attend_copy_address(b, t, tile, &v->at), v->address, bytes, available);
  if (v->at.exists) gen_if_end(b, &branch);
}

static arke_status copy_step(attend_emitter *e, int tile, gen_value first_key, gen_value to,
                             arke_error *err) {
  copied_vector v[64] = {{.visible = NULL}};
  const attend_tile *t = &e->p->tiles[tile];
  int n = (vectors_of(t) + e->p->set_threads - 1) / e->p->set_threads;
  if (t->run > 0) {
    find_in_runs(e, tile, first_key, v, n);
    TRY(find_conditions(e, tile, first_key, v, n, err));
  } else {
    TRY(find_anywhere(e, tile, first_key, v, n, err));
  }
  for (int i = 0; i < n; i++) {
    gen_value visible = is_visible(e, gen_add(e->b, first_key, v[i].at.row));
    v[i].visible = v[i].visible ? gen_and(e->b, v[i].visible, visible) : visible;
    issue_copy(e->b, t, to, &v[i]);
  }
  return ARKE_OK;
}

/* --- through registers --- */

/* Elements of a vector as they are multiplied, or zeros. */
static arke_status put_vector(attend_emitter *e, const attend_tile *t, lanes *l, gen_value visible,
                              gen_value to, arke_error *err) {
  gen_builder *b = e->b;
  dtype stored = ir_tensor_dtype(e->m->form.problem, e->m->form.accesses[t->access].tensor);
  gen_value values[LANES_MAX], words[LANES_MAX];
  int n;
  TRY(lanes_elements(l, t->access, values, &n, err));
  for (int i = 0; i < t->width; i++) {
    values[i] = gen_widen(b, stored, values[i < n ? i : 0]);
    if (!gen_is_float(b, values[i])) values[i] = gen_int_to_float(b, values[i], GEN_F32, true);
  }
  gen_pack(b, e->m->type, values, t->width, words);
  int count = gen_packed_words(e->m->type, t->width);
  for (int i = 0; i < count; i++) words[i] = gen_select(b, visible, words[i], gen_i32(b, 0));
  gen_value all = count > 1 ? gen_vector(b, words, count) : words[0];
  gen_store_shared(b, t->width == 1 ? gen_trunc(b, words[0], GEN_I16) : all, to);
  return ARKE_OK;
}

static arke_status put_step(attend_emitter *e, int tile, gen_value first_key, gen_value to, arke_error *err) {
  gen_builder *b = e->b;
  const attend_tile *t = &e->p->tiles[tile];
  gen_value carried[] = {e->set_thread};
  gen_loop loop;
  lanes *l;
  gen_loop_begin(b, &loop, carried, 1);
  gen_loop_while(b, &loop, gen_compare_imm(b, GEN_ULT, carried[0], vectors_of(t)));
  attend_place v = attend_place_of(b, t, carried[0], true);
  gen_value key = gen_add(b, first_key, v.row);
  TRY(evaluator(e, tile, e->copies[tile], &l, err));
  set_unit(e, l);
  lanes_set(l, e->m->key, attend_index(e, visible_key(e, key)));
  lanes_set(l, t->loop, attend_index(e, gen_mul_imm(b, v.vector, t->width)));
  gen_value visible = is_visible(e, key), holds;
  TRY(attend_find_condition(e, l, &holds, err));
  if (holds) visible = gen_and(b, visible, holds);
  TRY(put_vector(e, t, l, visible, shared_address(b, t, to, &v), err));
  carried[0] = gen_add_imm(b, carried[0], e->p->set_threads);
  gen_loop_end(b, &loop);
  return ARKE_OK;
}

/* --- steps --- */

arke_status attend_load_step(attend_emitter *e, gen_value step, gen_value stage, arke_error *err) {
  gen_builder *b = e->b;
  const attend_plan *p = e->p;
  gen_value key = step_key(e, step);
  for (int tile = ATTEND_K; tile < ATTEND_TILES; tile++) {
    if (!p->tiles[tile].present) continue;
    gen_value to = gen_add_imm(b, stage, p->tiles[tile].offset_bytes);
    TRY(p->copied ? copy_step(e, tile, key, to, err) : put_step(e, tile, key, to, err));
  }
  return ARKE_OK;
}

/* --- queries --- */

static arke_status load_query(attend_emitter *e, int tile, const attend_place *v, arke_error *err) {
  gen_builder *b = e->b;
  const attend_tile *t = &e->p->tiles[tile];
  attend_row row;
  lanes *l;
  gen_branch branch;
  if (v->exists) gen_if(b, &branch, v->exists, NULL, 0);
  attend_find_row(e, gen_add(b, e->first_row, v->row), &row);
  TRY(evaluator(e, tile, NULL, &l, err));
  attend_set_row(e, l, &row);
  lanes_set(l, t->loop, attend_index(e, gen_mul_imm(b, v->vector, t->width)));
  gen_value to = shared_address(b, t, gen_add_imm(b, e->smem_q, t->offset_bytes), v);
  if (e->p->copied && !t->narrow) {
    int bytes = t->width * 2;
    gen_value address, available = gen_select(b, row.exists, gen_i32(b, bytes), gen_i32(b, 0));
    TRY(lanes_pointer(l, t->access, &address, err));
    gen_cp_async(b, to, address, bytes, available);
  } else {
    TRY(put_vector(e, t, l, row.exists, to, err));
  }
  if (v->exists) gen_if_end(b, &branch);
  return ARKE_OK;
}

static arke_status load_part(attend_emitter *e, int tile, arke_error *err) {
  gen_builder *b = e->b;
  const attend_tile *t = &e->p->tiles[tile];
  int threads = e->p->threads, total = vectors_of(t);
  attend_clear_padding(b, t, gen_add_imm(b, e->smem_q, t->offset_bytes), 1, 0, e->thread, threads);
  for (int at = 0; e->p->copied && at < total; at += threads) {
    attend_place v = attend_place_of(b, t, gen_add_imm(b, e->thread, at), at + threads <= total);
    TRY(load_query(e, tile, &v, err));
  }
  if (e->p->copied) return ARKE_OK;
  gen_value carried[] = {e->thread};
  gen_loop loop;
  gen_loop_begin(b, &loop, carried, 1);
  gen_loop_while(b, &loop, gen_compare_imm(b, GEN_ULT, carried[0], total));
  attend_place v = attend_place_of(b, t, carried[0], true);
  TRY(load_query(e, tile, &v, err));
  carried[0] = gen_add_imm(b, carried[0], threads);
  gen_loop_end(b, &loop);
  return ARKE_OK;
}

arke_status attend_load_queries(attend_emitter *e, arke_error *err) {
  for (int i = 0; i < e->m->n_parts; i++) TRY(load_part(e, ATTEND_Q + i, err));
  return ARKE_OK;
}
