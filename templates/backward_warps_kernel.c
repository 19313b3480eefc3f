/* A kernel with products: its tile, and the ring of its steps. */
#include "generator/gen_barrier.h"
#include "generator/gen_control.h"
#include "generator/gen_cp_async.h"
#include "generator/gen_memory.h"
#include "templates/backward_warps.h"

/* A thread's part of a tile. */
typedef struct worker {
  warps_emitter *e;
  int n_sums[2];
  gen_value sums[2][WARPS_MOST_SUMS];
} worker;

/* --- the ring --- */

static gen_value next_stage(warps_emitter *e, gen_value stage) {
  gen_builder *b = e->b;
  gen_value next = gen_add_imm(b, stage, e->p->stage_bytes);
  gen_value end = gen_add_imm(b, e->ring, (int64_t)e->p->stages * e->p->stage_bytes);
  return gen_select(b, gen_compare(b, GEN_EQ, next, end), e->ring, next);
}

/* A step that is there. Its group of copies is committed either way, so that groups count steps. */
static arke_status load_if(warps_emitter *e, const warps_walk *w, gen_value stage, arke_error *err) {
  gen_branch branch;
  gen_if(e->b, &branch, warps_walk_goes_on(e, w), NULL, 0);
  TRY(warps_load_step(e, w, stage, err));
  gen_if_end(e->b, &branch);
  gen_cp_async_commit(e->b);
  return ARKE_OK;
}

/* Fills all stages but one; rows come with the first. */
static arke_status fill(warps_emitter *e, warps_walk *ahead, arke_error *err) {
  warps_clear_padding(e);
  TRY(warps_load_rows(e, err));
  for (int i = 0; i + 1 < e->p->stages; i++) {
    TRY(load_if(e, ahead, gen_add_imm(e->b, e->ring, (int64_t)i * e->p->stage_bytes), err));
    *ahead = warps_walk_next(e, ahead);
  }
  return ARKE_OK;
}

/* --- steps --- */

static void pack(warps_emitter *e, const gen_value *s, gen_value *words) {
  for (int i = 0; i < e->p->block_columns / 4; i++)
    words[i] = gen_pack_halves(e->b, e->m->type, s[2 * i], s[2 * i + 1]);
}

static arke_status take_step(worker *w, const warps_walk *at, gen_value stage, arke_error *err) {
  warps_emitter *e = w->e;
  const warps_pass *p = e->p;
  gen_value s[WARPS_MOST_SCORES], slopes[WARPS_MOST_SCORES], words[WARPS_MOST_SCORES / 2];
  warps_multiply_scores(e, BACKWARD_FIRST, stage, s);
  if (p->sums[0]) warps_multiply_scores(e, BACKWARD_SECOND, stage, slopes);
  TRY(warps_scores(e, at, stage, s, p->sums[0] ? slopes : NULL, err));
  for (int which = 1; which >= 0; which--) {
    if (!p->sums[which]) continue;
    pack(e, which == 0 ? slopes : s, words);
    warps_multiply_sums(e, which, words, stage, w->sums[which]);
  }
  return ARKE_OK;
}

enum { FROM, TO, STEP, AHEAD, HEADS, HEADS_AHEAD, STATE };

static int put(worker *w, const warps_walk *at, const warps_walk *ahead, gen_value *carried) {
  int n = STATE;
  carried[STEP] = at->step;
  carried[AHEAD] = ahead->step;
  carried[HEADS] = at->heads ? at->heads : gen_i32(w->e->b, 0);
  carried[HEADS_AHEAD] = ahead->heads ? ahead->heads : gen_i32(w->e->b, 0);
  for (int which = 0; which < 2; which++)
    for (int i = 0; i < w->n_sums[which]; i++) carried[n++] = w->sums[which][i];
  return n;
}

static void get(worker *w, const gen_value *carried, warps_walk *at, warps_walk *ahead) {
  int n = STATE;
  bool heads = w->e->heads != NULL;
  *at = (warps_walk){heads ? carried[HEADS] : NULL, carried[STEP]};
  *ahead = (warps_walk){heads ? carried[HEADS_AHEAD] : NULL, carried[AHEAD]};
  for (int which = 0; which < 2; which++)
    for (int i = 0; i < w->n_sums[which]; i++) w->sums[which][i] = carried[n++];
}

/* One stage is multiplied while the others are filled. The barrier tells that all copies of a stage have
 * come, and that all warps are done with the one before, whose place the next step takes. */
static arke_status take_steps(worker *w, warps_walk ahead, arke_error *err) {
  warps_emitter *e = w->e;
  gen_builder *b = e->b;
  const warps_pass *p = e->p;
  gen_value carried[STATE + WARPS_MOST_SUMS];
  gen_loop loop;
  warps_walk at = warps_walk_start(e);
  carried[FROM] = e->ring;
  carried[TO] = gen_add_imm(b, e->ring, (int64_t)(p->stages - 1) * p->stage_bytes);
  int n = put(w, &at, &ahead, carried);
  gen_loop_begin(b, &loop, carried, n);
  get(w, carried, &at, &ahead);
  gen_loop_while(b, &loop, warps_walk_goes_on(e, &at));
  gen_cp_async_wait(b, p->stages - 2);
  gen_cta_sync(b);
  TRY(load_if(e, &ahead, carried[TO], err));
  TRY(take_step(w, &at, carried[FROM], err));
  at = warps_walk_next(e, &at);
  ahead = warps_walk_next(e, &ahead);
  carried[FROM] = next_stage(e, carried[FROM]);
  carried[TO] = next_stage(e, carried[TO]);
  put(w, &at, &ahead, carried);
  gen_loop_end(b, &loop);
  get(w, carried, &at, &ahead);
  gen_cp_async_wait(b, 0);
  return ARKE_OK;
}

static arke_status make_evaluator(warps_emitter *e, arke_error *err) {
  lanes_options o = e->plan->vectors.scores;
  o.user = e;
  o.reduce = warps_reduction;
  o.read = warps_given;
  TRY(lanes_create(e->b, &e->m->form, &o, &e->k->score_slots, e->k->a, &e->l, err));
  lanes_want(e->l, e->m->weight, GEN_ACCURACY_SCORE);
  lanes_want(e->l, e->m->gradient, GEN_ACCURACY_SCORE);
  return ARKE_OK;
}

static void find_thread(warps_emitter *e) {
  gen_builder *b = e->b;
  e->thread = gen_tid_x(b);
  e->lane = gen_and(b, e->thread, gen_i32(b, 31));
  e->warp_row = gen_mul_imm(b, gen_warp_index(b), 16);
  e->smem_rows = gen_shared_dynamic(b);
  e->ring = gen_add_imm(b, e->smem_rows, e->p->ring_offset_bytes);
}

arke_status warps_emit(gen_builder *b, const target *t, void *user, arke_error *err) {
  (void)t;
  const warps_kernel *k = user;
  warps_emitter *e = ARENA_NEW(k->a, warps_emitter);
  worker *w = ARENA_NEW(k->a, worker);
  gen_value exists;
  gen_branch branch;
  if (!e || !w) return error_memory(err, "generate");
  *e = (warps_emitter){.b = b, .k = k, .plan = k->plan, .p = k->p, .m = k->plan->match};
  *w = (worker){.e = e};
  TRY(make_evaluator(e, err));
  find_thread(e);
  gen_launches_release(b);
  gen_launches_wait(b);
  TRY(warps_find_tile(e, &exists, err));
  if (exists) gen_if(b, &branch, exists, NULL, 0);
  TRY(warps_find_columns(e, err));
  warps_walk ahead = warps_walk_start(e);
  TRY(fill(e, &ahead, err));
  warps_find_rows(e);
  for (int which = 0; which < 2; which++) {
    w->n_sums[which] = e->p->sums[which] ? e->p->columns[which].padded / 2 : 0;
    for (int i = 0; i < w->n_sums[which]; i++) w->sums[which][i] = gen_f32(b, 0);
  }
  TRY(take_steps(w, ahead, err));
  for (int which = 0; which < 2; which++)
    if (e->p->sums[which]) TRY(warps_store(e, which, w->sums[which], err));
  if (exists) gen_if_end(b, &branch);
  return ARKE_OK;
}
