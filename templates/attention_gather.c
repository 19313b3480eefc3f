/* Keys and values at gathered places (KV[i[q,k]]: keys that each query names), which no tensor map describes:
 * the producer's whole warp group copies their rows, 16 bytes a thread (cp.async), into the swizzled panels
 * that tensor copies would write. Eight neighbouring threads copy 128 bytes of a row; a thread has every 16th
 * row of a step, at the same place in the swizzle's pattern, and looks up where they are a step ahead. Rows
 * that are not seen are zeros, and the step's list of who is seen tells consumers. */
#include "generator/gen_barrier.h"
#include "generator/gen_bits.h"
#include "generator/gen_cp_async.h"
#include "generator/gen_memory.h"
#include "generator/gen_warp.h"
#include "templates/attention_emit.h"
#include "templates/lanes_pointer.h"

enum { THREADS = 128, WARPS = THREADS / 32, CHUNK = 16, CHUNKS = 8, ROWS = THREADS / CHUNKS };
enum { SOURCES = ATTENTION_PARTS + 1, STATE = 5 };

int attention_gathered_rows(const attention_plan *p) {
  return p->block_n / ROWS * (p->n_parts + (p->values_are_keys ? 0 : 1));
}

int attention_seen_bytes(const attention_plan *p) {
  return p->stages * p->block_n * 4;
}

void attention_gather_set_fills(attention_emitter *e) {
  e->of_k.fills = THREADS + WARPS; /* its copies, and the list */
  e->of_v.fills = THREADS;
}

/* Panels of a tile that come from one tensor. */
typedef struct source {
  int access, loop, columns; /* the loop along its rows */
  const attention_tile *tile;
  int first; /* panel */
} source;

typedef struct gatherer {
  attention_emitter *e;
  gen_value thread, chunk, row; /* of the thread's first row: its number in a step */
  int rows, n_keys, n_sources;  /* rows of a thread; sources of K come first */
  source sources[SOURCES];
} gatherer;

/* Of a step: where the thread's chunks of its rows begin, i64, and whether they are seen. */
typedef struct places {
  gen_value from[SOURCES][ATTENTION_GATHERED_ROWS], seen[ATTENTION_GATHERED_ROWS];
} places;

static void set_up(gatherer *g, attention_emitter *e, gen_value thread) {
  gen_builder *b = e->b;
  const attention_plan *p = e->p;
  const ir_form *form = &e->m->form;
  int panel = 0;
  *g = (gatherer){.e = e, .thread = thread, .rows = p->block_n / ROWS};
  g->chunk = gen_and(b, thread, gen_i32(b, CHUNKS - 1));
  g->row = gen_lshr(b, thread, gen_i32(b, 3));
  for (int i = 0; i < p->n_parts; i++) {
    int loop = p->parts[i]->depth, columns = (int)ir_form_extent(form, loop);
    g->sources[g->n_sources++] = (source){p->parts[i]->k.access, loop, columns, &p->k, panel};
    panel += p->part_panels[i];
  }
  g->n_keys = g->n_sources;
  if (!p->values_are_keys)
    g->sources[g->n_sources++] = (source){e->m->v.access, e->m->wide, p->v.columns, &p->v, 0};
}

/* --- places --- */

static arke_status find_row(gatherer *g, gen_value key, const attention_place *at, int i, places *p,
                            arke_error *err) {
  attention_emitter *e = g->e;
  gen_builder *b = e->b;
  const attention_bounds *bounds = &e->m->bounds;
  gen_value zero = gen_i32(b, 0), last = gen_smax(b, gen_add_imm(b, at->below, -1), zero);
  gen_value k = gen_add(b, key, gen_add_imm(b, g->row, (int64_t)i * ROWS));
  gen_value inside = gen_smin(b, gen_smax(b, k, zero), last);
  p->seen[i] = gen_compare(b, GEN_SLT, k, at->below);
  lanes_set(e->l, e->m->key, attention_index(e, inside));
  for (int c = 0; c < bounds->n_conditions; c++) {
    gen_value v[LANES_MAX];
    int n;
    TRY(lanes_load(e->l, bounds->conditions[c], err));
    TRY(lanes_eval(e->l, bounds->conditions[c], v, &n, err));
    p->seen[i] = gen_and(b, p->seen[i], v[0]);
  }
  for (int s = 0; s < g->n_sources; s++) {
    gen_value exists;
    lanes_set(e->l, g->sources[s].loop, attention_index(e, zero));
    TRY(lanes_pointer_tested(e->l, g->sources[s].access, &p->from[s][i], &exists, err));
    if (exists) p->seen[i] = gen_and(b, p->seen[i], exists);
    gen_value chunk = gen_zext(b, gen_mul_imm(b, g->chunk, CHUNK), GEN_I64);
    p->from[s][i] = gen_add(b, p->from[s][i], chunk);
  }
  return ARKE_OK;
}

/* Of the step that begins at `key`, which may be below 0: then nothing is asked of it. */
static arke_status find_places(gatherer *g, const attention_place *at, gen_value step, places *p,
                               arke_error *err) {
  gen_builder *b = g->e->b;
  gen_value key = gen_add(b, at->origin, gen_mul_imm(b, step, g->e->p->block_n));
  lanes_forget(g->e->l);
  for (int i = 0; i < g->rows; i++) TRY(find_row(g, key, at, i, p, err));
  lanes_forget(g->e->l);
  return ARKE_OK;
}

static int put(const gatherer *g, const places *p, gen_value *to) {
  int n = 0;
  for (int i = 0; i < g->rows; i++) {
    to[n++] = p->seen[i];
    for (int s = 0; s < g->n_sources; s++) to[n++] = p->from[s][i];
  }
  return n;
}

static void get(const gatherer *g, const gen_value *from, places *p) {
  int n = 0;
  for (int i = 0; i < g->rows; i++) {
    p->seen[i] = from[n++];
    for (int s = 0; s < g->n_sources; s++) p->from[s][i] = from[n++];
  }
}

/* --- steps --- */

/* The bytes of a chunk that its row has in a panel. */
static gen_value available(gatherer *g, const source *of, int panel, gen_value seen) {
  gen_builder *b = g->e->b;
  int chunks = (of->columns - panel * 64) / 8;
  if (chunks < CHUNKS) seen = gen_and(b, seen, gen_compare_imm(b, GEN_ULT, g->chunk, chunks));
  return gen_select(b, seen, gen_i32(b, CHUNK), gen_i32(b, 0));
}

static void copy_rows(gatherer *g, int number, const places *p, gen_value stage) {
  gen_builder *b = g->e->b;
  const source *of = &g->sources[number];
  gen_value phase = gen_xor(b, g->chunk, gen_and(b, g->row, gen_i32(b, 7)));
  gen_value to = gen_add(b, gen_mul_imm(b, g->row, 128), gen_mul_imm(b, phase, CHUNK));
  to = gen_add(b, to, stage);
  for (int panel = 0; panel * 64 < of->columns; panel++) {
    for (int i = 0; i < g->rows; i++) {
      int64_t offset = (int64_t)(of->first + panel) * of->tile->panel_bytes + (int64_t)i * ROWS * 128;
      gen_value from = gen_add_imm(b, p->from[number][i], (int64_t)panel * 128);
      gen_cp_async(b, gen_add_imm(b, to, offset), from, CHUNK, available(g, of, panel, p->seen[i]));
    }
  }
}

/* Who of the step's keys is seen, as words, beside its stage. */
static void tell_seen(gatherer *g, const places *p, gen_stage stage) {
  attention_emitter *e = g->e;
  gen_builder *b = e->b;
  gen_branch one;
  gen_value to = gen_add(b, e->seen, gen_mul_imm(b, stage.index, e->p->block_n * 4));
  to = gen_add(b, to, gen_mul_imm(b, g->row, 4));
  gen_if(b, &one, gen_compare_imm(b, GEN_EQ, g->chunk, 0), NULL, 0);
  for (int i = 0; i < g->rows; i++)
    gen_store_shared(b, gen_zext(b, p->seen[i], GEN_I32), gen_add_imm(b, to, (int64_t)i * ROWS * 4));
  gen_if_end(b, &one);
  gen_warp_sync(b);
  gen_value lane = gen_and(b, g->thread, gen_i32(b, 31));
  gen_pipeline_fill(b, &e->of_k, stage.index, gen_compare_imm(b, GEN_EQ, lane, 0));
}

static gen_stage copy_tile(gatherer *g, gen_pipeline *of, gen_value smem, int first, int end, const places *p,
                           gen_stage stage) {
  gen_builder *b = g->e->b;
  gen_pipeline_wait_free(b, of, stage);
  int bytes = first == 0 ? g->e->p->k_stage_bytes : g->e->p->v.bytes;
  gen_value to = gen_add(b, smem, gen_mul_imm(b, stage.index, bytes));
  for (int s = first; s < end; s++) copy_rows(g, s, p, to);
  if (of == &g->e->of_k) tell_seen(g, p, stage);
  gen_pipeline_fill_copied(b, of, stage.index);
  return gen_pipeline_advance(b, of, stage);
}

arke_status attention_gather_steps(attention_emitter *e, gen_value thread, const attention_place *at,
                                   gen_stage *k, gen_stage *v, arke_error *err) {
  gen_builder *b = e->b;
  gatherer g;
  places now, next;
  gen_loop loop;
  gen_value in[STATE + ATTENTION_GATHERED_ROWS * (SOURCES + 1)] = {at->steps, k->index, k->parity, v->index,
                                                                   v->parity};
  set_up(&g, e, thread);
  /* What conditions have besides keys is shared: it must not come to be in the loop. */
  for (int i = 0; i < e->m->bounds.n_conditions; i++)
    TRY(lanes_prepare(e->l, e->m->bounds.conditions[i], 1u << e->m->key, err));
  TRY(find_places(&g, at, gen_add_imm(b, at->steps, -1), &next, err));
  int n = put(&g, &next, in + STATE);
  gen_loop_begin(b, &loop, in, STATE + n);
  gen_value step = gen_add_imm(b, in[0], -1);
  gen_stage of_k = {in[1], in[2]}, of_v = {in[3], in[4]};
  get(&g, in + STATE, &now);
  TRY(find_places(&g, at, gen_add_imm(b, step, -1), &next, err));
  of_k = copy_tile(&g, &e->of_k, e->smem_k, 0, g.n_keys, &now, of_k);
  if (g.n_sources > g.n_keys) of_v = copy_tile(&g, &e->of_v, e->smem_v, g.n_keys, g.n_sources, &now, of_v);
  gen_value state[] = {step, of_k.index, of_k.parity, of_v.index, of_v.parity};
  for (int i = 0; i < STATE; i++) in[i] = state[i];
  put(&g, &next, in + STATE);
  gen_loop_end_while(b, &loop, gen_compare_imm(b, GEN_SGT, in[0], 0));
  *k = (gen_stage){in[1], in[2]};
  *v = (gen_stage){in[3], in[4]};
  return ARKE_OK;
}
