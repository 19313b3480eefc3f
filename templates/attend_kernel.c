/* The kernel: its place, and the ring of every set of warps. */
#include <math.h>

#include "generator/gen_barrier.h"
#include "generator/gen_control.h"
#include "generator/gen_cp_async.h"
#include "generator/gen_memory.h"
#include "generator/gen_warp.h"
#include "templates/attend.h"

enum { MOST_QUERY_WORDS = ATTEND_MOST_FRAGMENTS * 64 * 4 };

/* A thread's part of a tile. */
typedef struct worker {
  attend_emitter *e;
  int n_sums, n_rows;
  bool held;
  gen_value queries[MOST_QUERY_WORDS]; /* held */
  gen_value sums[ATTEND_MOST_SUMS];
  attend_state state;
} worker;

static arke_status score(void *user, const ir_expr *x, gen_value *values, arke_error *err) {
  attend_emitter *e = user;
  const attention_match *m = e->m;
  /* The first part's node stands for the sum of all. */
  for (int i = 1; i < m->n_parts; i++) {
    if (x != m->parts[i].e) continue;
    values[0] = gen_f32(e->b, 0);
    return ARKE_OK;
  }
  if (x != m->parts[0].e) return attend_group_value(user, x, values, err);
  if (!e->score) return error_set(err, ARKE_ERR_INTERNAL, "generate", "a score before its product");
  values[0] = m->factor == 1 ? *e->score : gen_fmul(e->b, *e->score, gen_f32(e->b, m->factor));
  return ARKE_OK;
}

static void find_thread(attend_emitter *e) {
  gen_builder *b = e->b;
  const attend_plan *p = e->p;
  e->thread = gen_tid_x(b);
  e->lane = gen_and(b, e->thread, gen_i32(b, 31));
  gen_value warp = gen_warp_index(b);
  int in_set = p->warps_m * p->warps_e;
  gen_value in = gen_and(b, warp, gen_i32(b, in_set - 1));
  e->set = gen_lshr(b, warp, gen_i32(b, __builtin_ctz((unsigned)in_set)));
  e->set_thread = gen_and(b, e->thread, gen_i32(b, p->set_threads - 1));
  gen_value down = gen_lshr(b, in, gen_i32(b, __builtin_ctz((unsigned)p->warps_e)));
  gen_value across = gen_and(b, in, gen_i32(b, p->warps_e - 1));
  e->warp_row = gen_mul_imm(b, down, 16 * p->fragments);
  e->warp_column = gen_mul_imm(b, across, p->warp_columns);
  e->warp_key = gen_mul_imm(b, across, p->warp_keys);
  e->smem_q = gen_shared_dynamic(b);
  gen_value ring = gen_mul_imm(b, e->set, p->stages * p->stage_bytes);
  e->ring = gen_add_imm(b, gen_add(b, e->smem_q, ring), p->ring_offset_bytes);
  gen_value converted = gen_mul_imm(b, e->set, p->converted_bytes);
  e->converted = gen_add_imm(b, gen_add(b, e->smem_q, converted), p->converted_offset_bytes);
}

/* --- the ring --- */

/* All warps of a set have come here, with what they and their copies wrote. */
static void sync_set(attend_emitter *e) {
  gen_builder *b = e->b;
  if (e->p->set_threads == 32) {
    gen_warp_sync(b);
  } else if (e->p->sets == 1) {
    gen_cta_sync(b);
  } else {
    gen_named_sync(b, gen_add_imm(b, e->set, 1), e->p->set_threads);
  }
}

static gen_value next_stage(attend_emitter *e, gen_value stage) {
  gen_builder *b = e->b;
  gen_value next = gen_add_imm(b, stage, e->p->stage_bytes);
  gen_value end = gen_add_imm(b, e->ring, (int64_t)e->p->stages * e->p->stage_bytes);
  return gen_select(b, gen_compare(b, GEN_EQ, next, end), e->ring, next);
}

/* A step that is there. Its group of copies is committed either way, so that groups count steps. */
static arke_status load_if(attend_emitter *e, gen_value step, gen_value stage, arke_error *err) {
  gen_builder *b = e->b;
  gen_branch branch;
  gen_if(b, &branch, gen_compare(b, GEN_ULT, step, e->end), NULL, 0);
  TRY(attend_load_step(e, step, stage, err));
  gen_if_end(b, &branch);
  return ARKE_OK;
}

/* Of a step that is there, or of the one behind the last: there may be none that is. */
static arke_status find_runs_if(attend_emitter *e, gen_value step, arke_error *err) {
  gen_builder *b = e->b;
  gen_branch some;
  gen_value carried[ATTEND_TILES * ATTEND_MOST_RUNS];
  for (int tile = 0; tile < ATTEND_TILES; tile++)
    for (int i = 0; i < ATTEND_MOST_RUNS; i++) e->runs[tile][i] = NULL;
  int n = attend_put_runs(e, carried);
  if (n == 0) return ARKE_OK;
  gen_if(b, &some, gen_compare(b, GEN_ULT, e->begin, e->end), carried, n);
  TRY(attend_find_runs(e, step, err));
  attend_put_runs(e, carried);
  gen_if_end(b, &some);
  attend_get_runs(e, carried);
  return ARKE_OK;
}

/* Fills all stages but one. Queries come with the first one, whose copies are under way by then. */
static arke_status fill(attend_emitter *e, arke_error *err) {
  gen_builder *b = e->b;
  gen_loop loop;
  gen_branch first;
  gen_value last = gen_add_imm(b, e->begin, e->p->stages - 1), carried[] = {e->begin, e->ring};
  gen_loop_begin(b, &loop, carried, 2);
  gen_loop_while(b, &loop, gen_compare(b, GEN_ULT, carried[0], last));
  TRY(find_runs_if(e, carried[0], err));
  TRY(load_if(e, carried[0], carried[1], err));
  gen_if(b, &first, gen_compare(b, GEN_EQ, carried[0], e->begin), NULL, 0);
  TRY(attend_load_queries(e, err));
  gen_if_end(b, &first);
  gen_cp_async_commit(b);
  carried[0] = gen_add_imm(b, carried[0], 1);
  carried[1] = gen_add_imm(b, carried[1], e->p->stage_bytes);
  gen_loop_end(b, &loop);
  return ARKE_OK;
}

/* --- steps --- */

static arke_status take_step(worker *w, gen_value step, gen_value stage, arke_error *err) {
  attend_emitter *e = w->e;
  gen_builder *b = e->b;
  const attend_plan *p = e->p;
  gen_value s[ATTEND_MOST_SCORES], key = gen_mul_imm(b, step, (int64_t)p->sets * p->block_n);
  if (p->sets > 1) key = gen_add(b, key, gen_mul_imm(b, e->set, p->block_n));
  attend_multiply_keys(e, w->held ? w->queries : NULL, stage, s);
  TRY(attend_scores(e, key, s, err));
  if (p->warp_keys < p->block_n) {
    attend_put_scores(e, s);
    sync_set(e);
    attend_get_scores(e, s);
  }
  attend_softmax(e, s, &w->state, w->sums);
  attend_multiply_values(e, s, stage, w->sums);
  return ARKE_OK;
}

enum { STEP, FROM, TO, STATE };

static int put(worker *w, gen_value *carried) {
  int n = STATE;
  for (int r = 0; r < w->n_rows; r++) {
    carried[n++] = w->state.largest[r];
    carried[n++] = w->state.base[r];
    carried[n++] = w->state.total[r];
  }
  for (int i = 0; i < w->n_sums; i++) carried[n++] = w->sums[i];
  return n;
}

static void get(worker *w, const gen_value *carried) {
  int n = STATE;
  for (int r = 0; r < w->n_rows; r++) {
    w->state.largest[r] = carried[n++];
    w->state.base[r] = carried[n++];
    w->state.total[r] = carried[n++];
  }
  for (int i = 0; i < w->n_sums; i++) w->sums[i] = carried[n++];
}

/* One stage is multiplied while the others are filled. The barrier tells that all copies of a stage have
 * come, and that all warps of the set are done with the one before, whose place the next step takes. */
static arke_status take_steps(worker *w, arke_error *err) {
  attend_emitter *e = w->e;
  gen_builder *b = e->b;
  const attend_plan *p = e->p;
  gen_value carried[STATE + 3 * ATTEND_MOST_ROWS + ATTEND_MOST_SUMS + ATTEND_TILES * ATTEND_MOST_RUNS];
  gen_loop loop;
  carried[STEP] = e->begin;
  carried[FROM] = e->ring;
  carried[TO] = gen_add_imm(b, e->ring, (int64_t)(p->stages - 1) * p->stage_bytes);
  TRY(find_runs_if(e, gen_add_imm(b, e->begin, p->stages - 1), err));
  int own = put(w, carried), n = own + attend_put_runs(e, carried + own);
  gen_loop_begin(b, &loop, carried, n);
  gen_loop_while(b, &loop, gen_compare(b, GEN_ULT, carried[STEP], e->end));
  gen_cp_async_wait(b, p->stages - 2);
  if (p->converted_bytes > 0) { /* all are done with what the step before was converted to */
    sync_set(e);
    attend_convert_step(e, carried[FROM]);
  }
  sync_set(e);
  attend_get_runs(e, carried + own);
  TRY(load_if(e, gen_add_imm(b, carried[STEP], p->stages - 1), carried[TO], err));
  gen_cp_async_commit(b);
  TRY(attend_find_runs(e, gen_add_imm(b, carried[STEP], p->stages), err));
  attend_put_runs(e, carried + own);
  get(w, carried);
  TRY(take_step(w, carried[STEP], carried[FROM], err));
  carried[STEP] = gen_add_imm(b, carried[STEP], 1);
  carried[FROM] = next_stage(e, carried[FROM]);
  carried[TO] = next_stage(e, carried[TO]);
  put(w, carried);
  gen_loop_end(b, &loop);
  get(w, carried);
  gen_cp_async_wait(b, 0);
  return ARKE_OK;
}

static void start(worker *w) {
  gen_builder *b = w->e->b;
  for (int i = 0; i < w->n_sums; i++) w->sums[i] = gen_f32(b, 0);
  for (int r = 0; r < w->n_rows; r++) {
    w->state.largest[r] = w->state.base[r] = gen_f32(b, -(double)INFINITY);
    w->state.total[r] = gen_f32(b, 0);
  }
}

arke_status attend_emit(gen_builder *b, const target *t, void *user, arke_error *err) {
  (void)t;
  const attend_kernel *k = user;
  const attend_plan *p = k->p;
  attend_emitter *e = ARENA_NEW(k->a, attend_emitter);
  worker *w = ARENA_NEW(k->a, worker);
  if (!e || !w) return error_memory(err, "generate");
  *e = (attend_emitter){.b = b, .k = k, .p = p, .m = p->match};
  *w = (worker){
      .e = e, .n_sums = p->fragments * p->warp_columns / 2, .n_rows = p->thread_rows, .held = p->hold_q};
  gen_value exists;
  gen_branch branch;
  lanes_options o = p->scores;
  o.user = e;
  o.reduce = score;
  TRY(lanes_create(b, &p->match->form, &o, &k->score_slots, k->a, &e->l, err));
  lanes_want(e->l, p->match->body, GEN_ACCURACY_SCORE);
  find_thread(e);
  gen_launches_release(b);
  gen_launches_wait(b);
  TRY(attend_find_tile(e, &exists, err));
  if (exists) gen_if(b, &branch, exists, NULL, 0);
  TRY(attend_find_place(e, err));
  TRY(attend_load_init(e, err));
  TRY(fill(e, err));
  attend_find_rows(e);
  gen_cp_async_wait(b, p->stages - 2);
  gen_cta_sync(b);
  if (w->held) attend_hold_queries(e, w->queries);
  start(w);
  TRY(take_steps(w, err));
  TRY(attend_finish(e, &w->state, w->sums, err));
  if (exists) gen_if_end(b, &branch);
  return ARKE_OK;
}
