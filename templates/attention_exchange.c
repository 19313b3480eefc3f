/* Two consumer groups with the same queries and half of the columns of O each: instead of both multiplying
 * all scores, each multiplies those of every other step, and gives its weights to the other through shared
 * memory. A step of keys is read once by a product with queries, and twice, half of its columns each, by
 * products with weights.
 *
 *   group 0: scores a | softmax a, gives | values a           | gets b, values b
 *   group 1: scores b | gets a, values a under the softmax b, gives | values b
 *
 * Rows' largest scores pass along with the weights, so that both groups' sums are relative to the same; each
 * has the sum of its own weights, which are added in the end. Weights lie in a panel of their stage that
 * values have not (the rotated part of latent keys, which scores are done with), or behind it. */
#include <math.h>

#include "generator/gen_barrier.h"
#include "generator/gen_bits.h"
#include "generator/gen_memory.h"
#include "generator/gen_warp.h"
#include "templates/attention_consumer.h"

enum { ROWS = 64, THREADS = 256, STATISTICS_BYTES = 8, TOTAL_BYTES = 4 };
enum { TOTALS = 2 * ROWS * STATISTICS_BYTES };

int attention_exchanged_bytes(void) {
  return TOTALS + 2 * ROWS * TOTAL_BYTES;
}

/* Of the group's thread: its row in a tile, for r = 0. */
static gen_value row_of(attention_consumer *c) {
  gen_builder *b = c->e->b;
  gen_value lane = gen_and(b, c->thread, gen_i32(b, 31)), warp = gen_lshr(b, c->thread, gen_i32(b, 5));
  return gen_add(b, gen_mul_imm(b, warp, 16), gen_lshr(b, lane, gen_i32(b, 2)));
}

/* Of the four lanes that share a row. */
static gen_value is_first_of_row(attention_consumer *c) {
  gen_builder *b = c->e->b;
  return gen_compare_imm(b, GEN_EQ, gen_and(b, c->thread, gen_i32(b, 3)), 0);
}

static gen_value statistics_of(attention_consumer *c, int role, int r) {
  gen_builder *b = c->e->b;
  gen_value at = gen_add(b, c->e->exchanged, gen_mul_imm(b, row_of(c), STATISTICS_BYTES));
  return gen_add_imm(b, at, ((int64_t)role * ROWS + 8 * (int64_t)r) * STATISTICS_BYTES);
}

static gen_value total_of(attention_consumer *c, int role, int r) {
  gen_builder *b = c->e->b;
  gen_value at = gen_add(b, c->e->exchanged, gen_mul_imm(b, row_of(c), TOTAL_BYTES));
  return gen_add_imm(b, at, TOTALS + ((int64_t)role * ROWS + 8 * (int64_t)r) * TOTAL_BYTES);
}

static gen_value weights_place(attention_consumer *c, gen_value stage) {
  gen_builder *b = c->e->b;
  gen_value at = gen_add(b, c->e->smem_k, gen_mul_imm(b, stage, c->e->p->k_stage_bytes));
  return gen_add_imm(b, at, c->e->p->weights_offset);
}

static gen_value barrier_of(attention_consumer *c, int role) {
  return gen_i32(c->e->b, ATTENTION_FIRST_TURN + role);
}

/* --- weights --- */

static void give(attention_consumer *c, gen_value stage, const gen_value *words) {
  attention_emitter *e = c->e;
  gen_builder *b = e->b;
  gen_branch one;
  attention_put_words(b, c->thread, weights_place(c, stage), 0, e->p->block_n, words);
  gen_if(b, &one, is_first_of_row(c), NULL, 0);
  for (int r = 0; r < ATTENTION_ROWS; r++) {
    gen_value pair[] = {c->state.largest[r], c->state.base[r]};
    gen_store_shared(b, gen_vector(b, pair, 2), statistics_of(c, c->role, r));
  }
  gen_if_end(b, &one);
  gen_fence_async_shared(b);
  gen_named_arrive(b, barrier_of(c, c->role), THREADS);
}

/* Waits for the other group's weights; the state and, where rescale->needed, the sums become relative to what
 * they are. */
static void get(attention_consumer *c, attention_rescale *rescale) {
  gen_builder *b = c->e->b;
  gen_value largest[ATTENTION_ROWS], base[ATTENTION_ROWS];
  gen_named_sync(b, barrier_of(c, 1 - c->role), THREADS);
  for (int r = 0; r < ATTENTION_ROWS; r++) {
    gen_value pair = gen_load_shared(b, GEN_F32, 2, statistics_of(c, 1 - c->role, r));
    largest[r] = gen_lane(b, pair, 0);
    base[r] = gen_lane(b, pair, 1);
  }
  attention_adopt(c->e, &c->state, largest, base, rescale);
}

/* The product of the other group's weights. */
static void issue_given(attention_consumer *c, gen_value stage) {
  gen_builder *b = c->e->b;
  gen_value weights = attention_tile_descriptor(b, weights_place(c, stage), 16);
  gen_wgmma_issue(b, &c->given, weights, attention_values_descriptor(c, stage), gen_bool(b, true), c->sums);
}

static arke_status weigh(attention_consumer *c, gen_value key, gen_value stage, bool first, gen_value *s,
                         attention_rescale *rescale, gen_value *words, arke_error *err) {
  attention_emitter *e = c->e;
  TRY(attention_scores(e, &c->at, &c->rows, key, s, c->n_scores, err));
  if (first)
    attention_mask(e, &c->rows, key, s, c->n_scores);
  else
    attention_mask_where_needed(c, key, s);
  if (e->p->gathered) { /* one thread gives the list back, with its stage */
    attention_hide(e, &c->rows, stage, s, c->n_scores);
    gen_named_sync(e->b, gen_add_imm(e->b, c->group, ATTENTION_GROUP_BARRIER), 128);
  }
  attention_softmax(e, &c->rows, s, c->n_scores, &c->state, rescale);
  attention_pack_weights(c, s, words);
  return ARKE_OK;
}

/* --- pairs of steps --- */

static void release(attention_consumer *c, gen_stage stage) {
  gen_pipeline_release(c->e->b, &c->e->of_k, stage.index, c->thread, NULL);
}

/* A pair: the step that comes first, and the next, which is the other group's. */
typedef struct pair {
  gen_value keys[2]; /* the first of each */
  gen_stage stages[2];
  bool first; /* of the tile */
} pair;

static void clear(attention_consumer *c, const pair *p) {
  for (int i = 0; i < 2 && p->first && c->e->p->ends; i++)
    attention_clear_values(c, p->stages[i], p->keys[i]);
}

static arke_status lead(attention_consumer *c, const pair *p, arke_error *err) {
  gen_builder *b = c->e->b;
  gen_value s[ATTENTION_SCORES], words[ATTENTION_WORDS];
  attention_rescale own, given;
  attention_wait_for_tile(c, &c->e->of_k, p->stages[0]);
  attention_issue_scores(c, p->stages[0].index, s);
  attention_wait_for_scores(c, 0, s);
  clear(c, p);
  TRY(weigh(c, p->keys[0], p->stages[0].index, p->first, s, p->first ? NULL : &own, words, err));
  give(c, p->stages[0].index, words);
  if (!p->first) attention_rescale_sums(c, &own);
  attention_issue_values(c, p->stages[0].index, words);
  attention_wait_for_tile(c, &c->e->of_k, p->stages[1]);
  get(c, &given);
  gen_wgmma_wait(b, 0, c->sums, c->n_sums);
  release(c, p->stages[0]);
  attention_rescale_sums(c, &given);
  issue_given(c, p->stages[1].index);
  gen_wgmma_wait(b, 0, c->sums, c->n_sums);
  release(c, p->stages[1]);
  return ARKE_OK;
}

static arke_status follow(attention_consumer *c, const pair *p, arke_error *err) {
  gen_builder *b = c->e->b;
  gen_value s[ATTENTION_SCORES], words[ATTENTION_WORDS];
  attention_rescale own, given;
  attention_wait_for_tile(c, &c->e->of_k, p->stages[1]);
  attention_issue_scores(c, p->stages[1].index, s);
  if (p->first) {
    attention_wait_for_scores(c, 0, s);
    clear(c, p);
  }
  attention_wait_for_tile(c, &c->e->of_k, p->stages[0]);
  get(c, &given);
  attention_rescale_sums(c, &given);
  issue_given(c, p->stages[0].index);
  if (!p->first) attention_wait_for_scores(c, 1, s);
  TRY(weigh(c, p->keys[1], p->stages[1].index, p->first, s, &own, words, err));
  give(c, p->stages[1].index, words);
  gen_wgmma_wait(b, 0, c->sums, c->n_sums);
  release(c, p->stages[0]);
  attention_rescale_sums(c, &own);
  attention_issue_values(c, p->stages[1].index, words);
  gen_wgmma_wait(b, 0, c->sums, c->n_sums);
  release(c, p->stages[1]);
  return ARKE_OK;
}

static arke_status do_pair(attention_consumer *c, gen_value step, bool first, arke_error *err) {
  attention_emitter *e = c->e;
  gen_stage next = gen_pipeline_advance(e->b, &e->of_k, c->k);
  pair p = {.keys = {attention_key_of(c, step), attention_key_of(c, gen_add_imm(e->b, step, -1))},
            .stages = {c->k, next},
            .first = first};
  TRY(c->role == 0 ? lead(c, &p, err) : follow(c, &p, err));
  c->k = gen_pipeline_advance(e->b, &e->of_k, next);
  return ARKE_OK;
}

/* --- a tile --- */

enum { STEP, K_INDEX, K_PARITY, STATE };

static int put(attention_consumer *c, gen_value step, gen_value *to) {
  int n = STATE;
  to[STEP] = step;
  to[K_INDEX] = c->k.index;
  to[K_PARITY] = c->k.parity;
  for (int r = 0; r < ATTENTION_ROWS; r++) {
    to[n++] = c->state.largest[r];
    to[n++] = c->state.base[r];
    to[n++] = c->state.total[r];
  }
  for (int i = 0; i < c->n_sums; i++) to[n++] = c->sums[i];
  return n;
}

static gen_value take(attention_consumer *c, const gen_value *from) {
  int n = STATE;
  c->k = (gen_stage){from[K_INDEX], from[K_PARITY]};
  for (int r = 0; r < ATTENTION_ROWS; r++) {
    c->state.largest[r] = from[n++];
    c->state.base[r] = from[n++];
    c->state.total[r] = from[n++];
  }
  for (int i = 0; i < c->n_sums; i++) c->sums[i] = from[n++];
  return from[STEP];
}

/* Both groups add in the same order. The first lane of a row has the sum then, the others nothing. */
static void add_totals(attention_consumer *c) {
  gen_builder *b = c->e->b;
  gen_branch one;
  gen_value is_first = is_first_of_row(c);
  for (int r = 0; r < ATTENTION_ROWS; r++)
    for (int lane = 1; lane <= 2; lane *= 2)
      c->state.total[r] =
          gen_fadd(b, c->state.total[r], gen_shuffle_xor(b, c->state.total[r], gen_i32(b, lane), 32));
  gen_if(b, &one, is_first, NULL, 0);
  for (int r = 0; r < ATTENTION_ROWS; r++) gen_store_shared(b, c->state.total[r], total_of(c, c->role, r));
  gen_if_end(b, &one);
  gen_named_sync(b, gen_i32(b, ATTENTION_ALL_BARRIER), THREADS);
  for (int r = 0; r < ATTENTION_ROWS; r++) {
    gen_value total = gen_fadd(b, gen_load_shared(b, GEN_F32, 1, total_of(c, 0, r)),
                               gen_load_shared(b, GEN_F32, 1, total_of(c, 1, r)));
    c->state.total[r] = gen_select(b, is_first, total, gen_f32(b, 0));
  }
}

arke_status attention_exchange_steps(attention_consumer *c, arke_error *err) {
  gen_builder *b = c->e->b;
  gen_value in[STATE + 3 * ATTENTION_ROWS + ATTENTION_SUMS];
  gen_loop loop;
  for (int i = 0; i < c->n_sums; i++) c->sums[i] = gen_f32(b, 0);
  for (int r = 0; r < ATTENTION_ROWS; r++) {
    c->state.largest[r] = c->state.base[r] = gen_f32(b, -(double)INFINITY);
    c->state.total[r] = gen_f32(b, 0);
  }
  TRY(do_pair(c, gen_add_imm(b, c->at.steps, -1), true, err));
  if (c->e->p->copied && c->e->p->q_stages == 2)
    attention_release_q(c, gen_xor(b, c->q.index, gen_i32(b, 1)), c->before);
  int n = put(c, gen_add_imm(b, c->at.steps, -3), in);
  gen_loop_begin(b, &loop, in, n);
  gen_loop_while(b, &loop, gen_compare_imm(b, GEN_SGT, in[STEP], 0));
  gen_value step = take(c, in);
  TRY(do_pair(c, step, false, err));
  put(c, gen_add_imm(b, step, -2), in);
  gen_loop_end(b, &loop);
  take(c, in);
  c->v = c->k;
  add_totals(c);
  return ARKE_OK;
}
