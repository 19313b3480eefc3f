/* A consumer warp group: the products of its 64 queries with the keys, step by step from the last, the
 * weights they make, and the products of those with the values.
 *
 * With OVERLAP the scores of a step are multiplied while the weights of the one before go into their product,
 * and the next softmax runs under that. With TURNS groups issue their products in turn, so that the matrix
 * units work for one while another is at its softmax. */
#include "templates/attention_consumer.h"
#include "generator/gen_barrier.h"
#include "generator/gen_bits.h"
#include "generator/gen_memory.h"
#include "generator/gen_mma.h"
#include "generator/gen_tma.h"

/* --- stages --- */

/* Values that are keys lie in K's stages, of which c->v is the one before c->k: who has had the scores of a
 * step need not wait for its values, and gives the stage back when it has had those. */

static void release_k(attention_consumer *c) {
  attention_emitter *e = c->e;
  if (!e->p->values_are_keys) gen_pipeline_release(e->b, &e->of_k, c->k.index, c->thread, NULL);
  c->k = gen_pipeline_advance(e->b, &e->of_k, c->k);
}

static void wait_for_values(attention_consumer *c) {
  if (!c->e->p->values_are_keys) attention_wait_for_tile(c, &c->e->of_v, c->v);
}

static void release_v(attention_consumer *c) {
  attention_emitter *e = c->e;
  gen_pipeline *of = e->p->values_are_keys ? &e->of_k : &e->of_v;
  gen_pipeline_release(e->b, of, c->v.index, c->thread, NULL);
  c->v = gen_pipeline_advance(e->b, of, c->v);
}

/* --- turns --- */

enum { TURN_THREADS = 256 }; /* of a group's barrier: it and the one before meet */

static void take_turn(attention_consumer *c) {
  gen_builder *b = c->e->b;
  if (c->e->p->turns) gen_named_sync(b, gen_add_imm(b, c->group, ATTENTION_FIRST_TURN), TURN_THREADS);
}

static void pass_turn(attention_consumer *c) {
  gen_builder *b = c->e->b;
  if (!c->e->p->turns) return;
  gen_value next = gen_add_imm(b, c->group, 1);
  next = gen_select(b, gen_compare_imm(b, GEN_EQ, next, c->e->p->consumers), gen_i32(b, 0), next);
  gen_named_arrive(b, gen_add_imm(b, next, ATTENTION_FIRST_TURN), TURN_THREADS);
}

/* The first group's first turn comes from the last one. */
static void start_turns(attention_consumer *c) {
  gen_builder *b = c->e->b;
  gen_branch last;
  if (!c->e->p->turns) return;
  gen_if(b, &last, gen_compare_imm(b, GEN_EQ, c->group, c->e->p->consumers - 1), NULL, 0);
  gen_named_arrive(b, gen_i32(b, ATTENTION_FIRST_TURN), TURN_THREADS);
  gen_if_end(b, &last);
}

/* --- a step --- */

/* Hides keys from queries where the step has any that not all of them see. */
void attention_mask_where_needed(attention_consumer *c, gen_value key, gen_value *s) {
  attention_emitter *e = c->e;
  gen_builder *b = e->b;
  if (!e->p->masked) return; /* only the last step has keys past the end, which is not this one */
  gen_value past = gen_compare(b, GEN_SGT, gen_add_imm(b, key, e->p->block_n), c->at.all_below);
  gen_branch some;
  gen_if(b, &some, gen_or(b, past, gen_compare(b, GEN_SLT, key, c->at.all_from)), s, c->n_scores);
  attention_mask(e, &c->rows, key, s, c->n_scores);
  gen_if_end(b, &some);
}

/* The list of who is seen lies beside K's stage, and goes back with it: one thread does that, when all four
 * warps have read it. */
static void hide_unseen(attention_consumer *c, gen_value *s) {
  attention_emitter *e = c->e;
  attention_hide(e, &c->rows, c->k.index, s, c->n_scores);
  gen_named_sync(e->b, gen_add_imm(e->b, c->group, ATTENTION_GROUP_BARRIER), 128);
  release_k(c);
}

/* Weights as the registers of the second product: two columns a word. */
void attention_pack_weights(attention_consumer *c, const gen_value *s, gen_value *words) {
  for (int i = 0; i < c->n_words; i++)
    words[i] = gen_pack_halves(c->e->b, c->e->m->type, s[2 * i], s[2 * i + 1]);
}

/* Waits for the sums, which the weights were computed under. The assembler moves a wait up as far as it can,
 * but not past a branch; so one that is never taken, as the weights' total is not negative, keeps it behind
 * them. */
static void wait_for_sums(attention_consumer *c) {
  gen_builder *b = c->e->b;
  gen_branch never;
  for (int r = 0; r < ATTENTION_ROWS && c->e->p->late_wait; r++) {
    gen_if(b, &never, gen_compare(b, GEN_SLT, c->state.total[r], gen_f32(b, 0)), NULL, 0);
    gen_fence_async_shared(b);
    gen_if_end(b, &never);
  }
  gen_wgmma_wait(b, 0, c->sums, c->n_sums);
}

/* Rarely after the first steps: a row's largest score hardly grows any more. */
void attention_rescale_sums(attention_consumer *c, const attention_rescale *rescale) {
  gen_branch needed;
  gen_if(c->e->b, &needed, rescale->needed, c->sums, c->n_sums);
  for (int i = 0; i < c->n_sums; i++) c->sums[i] = gen_fmul(c->e->b, c->sums[i], rescale->factor[i / 2 % 2]);
  gen_if_end(c->e->b, &needed);
}

/* The last step of the keys, which is the first one here. */
static arke_status first_step(attention_consumer *c, gen_value key, gen_value *words, arke_error *err) {
  attention_emitter *e = c->e;
  gen_builder *b = e->b;
  gen_value s[ATTENTION_SCORES];
  attention_wait_for_tile(c, &e->of_k, c->k);
  take_turn(c);
  attention_issue_scores(c, c->k.index, s);
  pass_turn(c);
  if (e->p->copied && e->p->q_stages == 2)
    attention_release_q(c, gen_xor(b, c->q.index, gen_i32(b, 1)), c->before);
  attention_wait_for_scores(c, 0, s);
  if (e->p->hold_q && !e->p->copied) attention_release_q(c, c->q.index, NULL);
  if (!e->p->gathered) release_k(c);
  TRY(attention_scores(e, &c->at, &c->rows, key, s, c->n_scores, err));
  attention_mask(e, &c->rows, key, s, c->n_scores);
  if (e->p->gathered) hide_unseen(c, s);
  attention_softmax(e, &c->rows, s, c->n_scores, &c->state, NULL);
  attention_pack_weights(c, s, words);
  return ARKE_OK;
}

static arke_status next_step(attention_consumer *c, gen_value key, gen_value *words, arke_error *err) {
  attention_emitter *e = c->e;
  gen_builder *b = e->b;
  gen_value s[ATTENTION_SCORES];
  attention_rescale rescale;
  bool overlap = e->p->overlap;
  if (!overlap) {
    wait_for_values(c);
    attention_issue_values(c, c->v.index, words);
  }
  attention_wait_for_tile(c, &e->of_k, c->k);
  take_turn(c);
  attention_issue_scores(c, c->k.index, s);
  if (overlap) {
    wait_for_values(c);
    attention_issue_values(c, c->v.index, words);
  }
  pass_turn(c);
  if (overlap) {
    attention_wait_for_scores(c, 1, s);
  } else {
    /* The stage goes back while the scores are still multiplied. */
    gen_wgmma_wait(b, e->p->score_runs, c->sums, c->n_sums);
    release_v(c);
    attention_wait_for_scores(c, 0, s);
  }
  if (!e->p->gathered) release_k(c);
  TRY(attention_scores(e, &c->at, &c->rows, key, s, c->n_scores, err));
  attention_mask_where_needed(c, key, s);
  if (e->p->gathered) hide_unseen(c, s);
  attention_softmax(e, &c->rows, s, c->n_scores, &c->state, &rescale);
  if (overlap) {
    wait_for_sums(c);
    release_v(c);
  }
  attention_rescale_sums(c, &rescale);
  attention_pack_weights(c, s, words);
  return ARKE_OK;
}

/* --- a tile --- */

/* What a loop over steps carries. */
typedef struct carried {
  gen_value v[5 + 3 * ATTENTION_ROWS + ATTENTION_SUMS + ATTENTION_WORDS];
  int n;
} carried;

static void put(attention_consumer *c, gen_value step, const gen_value *words, carried *to) {
  to->n = 0;
  to->v[to->n++] = step;
  to->v[to->n++] = c->k.index;
  to->v[to->n++] = c->k.parity;
  to->v[to->n++] = c->v.index;
  to->v[to->n++] = c->v.parity;
  for (int r = 0; r < ATTENTION_ROWS; r++) {
    to->v[to->n++] = c->state.largest[r];
    to->v[to->n++] = c->state.base[r];
    to->v[to->n++] = c->state.total[r];
  }
  for (int i = 0; i < c->n_sums; i++) to->v[to->n++] = c->sums[i];
  for (int i = 0; i < c->n_words; i++) to->v[to->n++] = words[i];
}

static gen_value get(attention_consumer *c, const carried *from, gen_value *words) {
  int n = 0;
  gen_value step = from->v[n++];
  c->k = (gen_stage){from->v[1], from->v[2]};
  c->v = (gen_stage){from->v[3], from->v[4]};
  n += 4;
  for (int r = 0; r < ATTENTION_ROWS; r++) {
    c->state.largest[r] = from->v[n++];
    c->state.base[r] = from->v[n++];
    c->state.total[r] = from->v[n++];
  }
  for (int i = 0; i < c->n_sums; i++) c->sums[i] = from->v[n++];
  for (int i = 0; i < c->n_words; i++) words[i] = from->v[n++];
  return step;
}

gen_value attention_key_of(attention_consumer *c, gen_value step) {
  gen_value key = gen_mul_imm(c->e->b, step, c->e->p->block_n);
  return attention_has_origin(c->e->p) ? gen_add(c->e->b, c->at.origin, key) : key;
}

/* All steps, by which c->sums and c->state are those of the tile. */
static arke_status consume_steps(attention_consumer *c, arke_error *err) {
  attention_emitter *e = c->e;
  gen_builder *b = e->b;
  gen_value words[ATTENTION_WORDS];
  gen_value step = gen_add_imm(b, c->at.steps, -1), key = attention_key_of(c, step);
  TRY(first_step(c, key, words, err));
  if (e->p->ends) attention_clear_values(c, c->v, key);
  for (int i = 0; i < c->n_sums; i++) c->sums[i] = gen_f32(b, 0);

  carried in;
  gen_loop steps;
  put(c, step, words, &in);
  gen_loop_begin(b, &steps, in.v, in.n);
  gen_loop_while(b, &steps, gen_compare_imm(b, GEN_SGT, in.v[0], 0));
  step = gen_add_imm(b, get(c, &in, words), -1);
  TRY(next_step(c, attention_key_of(c, step), words, err));
  put(c, step, words, &in);
  gen_loop_end(b, &steps);
  get(c, &in, words);

  if (!e->p->hold_q && !e->p->copied) attention_release_q(c, c->q.index, NULL);
  wait_for_values(c);
  attention_issue_values(c, c->v.index, words);
  gen_wgmma_wait(b, 0, c->sums, c->n_sums);
  release_v(c);
  return ARKE_OK;
}

static arke_status consume_tile(attention_consumer *c, arke_error *err) {
  attention_emitter *e = c->e;
  attention_find_rows(c);
  TRY(attention_find_factors(e, &c->at, &c->rows, err));
  if (!e->p->packed) gen_pipeline_wait(e->b, &e->of_q, c->q);
  if (e->p->makes_queries) TRY(attention_make_queries(c, err));
  if (e->p->hold_q) attention_hold_queries(c);
  if (e->p->exchange) {
    TRY(attention_exchange_steps(c, err));
    if (!e->p->copied) attention_release_q(c, c->q.index, NULL);
  } else {
    TRY(consume_steps(c, err));
  }
  if (e->p->merge > 1)
    TRY(attention_merge_parts(e, &c->at, &c->rows, &c->state, c->sums, err));
  else if (e->p->split)
    attention_store_parts(e, &c->at, &c->rows, &c->state, c->sums);
  else
    TRY(attention_store(e, &c->at, &c->rows, &c->state, c->sums, err));
  if (e->p->copied && e->p->q_stages == 1) attention_release_q(c, c->q.index, NULL);
  return ARKE_OK;
}

/* Shared memory must stay until the last copy has read it. */
static void drain(attention_consumer *c) {
  gen_builder *b = c->e->b;
  gen_branch leader;
  gen_if(b, &leader, gen_compare_imm(b, GEN_EQ, c->thread, 0), NULL, 0);
  gen_tma_store_wait_read(b, 0);
  gen_if_end(b, &leader);
}

arke_status attention_emit_consumer(attention_emitter *e, gen_value group, int role, gen_value thread,
                                    arke_error *err) {
  enum { ITEM, Q_INDEX, Q_PARITY, K_INDEX, K_PARITY, V_INDEX, V_PARITY, CARRIED };
  gen_builder *b = e->b;
  attention_consumer *c = ARENA_NEW(e->k->a, attention_consumer);
  if (!c) return error_memory(err, "generate");
  *c = (attention_consumer){
      .e = e, .group = group, .role = role, .thread = thread, .rows = {.group = group, .thread = thread}};
  attention_set_up(c);
  start_turns(c);
  gen_stage start = gen_pipeline_consumer_start(b);
  gen_value first = attention_first_item(e);
  gen_value v[CARRIED] = {[ITEM] = first,           [Q_INDEX] = start.index,   [Q_PARITY] = start.parity,
                          [K_INDEX] = start.index,  [K_PARITY] = start.parity, [V_INDEX] = start.index,
                          [V_PARITY] = start.parity};
  gen_loop items;
  gen_loop_begin(b, &items, v, CARRIED);
  c->q = (gen_stage){v[Q_INDEX], v[Q_PARITY]};
  c->k = (gen_stage){v[K_INDEX], v[K_PARITY]};
  c->v = (gen_stage){v[V_INDEX], v[V_PARITY]};
  if (e->p->packed) {
    gen_pipeline_wait(b, &e->of_q, c->q);
    gen_loop_while(b, &items, attention_hear_request(e, c->q.index, &c->at));
    /* All warps have heard before one thread gives the place back: a tile that sees no key has no product
     * that they would have to meet in. */
    gen_named_sync(b, gen_add_imm(b, c->rows.group, ATTENTION_GROUP_BARRIER), 128);
    attention_set_head(e, &c->at);
    attention_find_keys(e, &c->at);
  } else {
    gen_value item = attention_item_at(e, v[ITEM]);
    gen_loop_while(b, &items, gen_compare(b, GEN_ULT, item, gen_param(b, e->k->items)));
    TRY(attention_locate(e, item, &c->at, err));
  }
  c->before = gen_compare(b, GEN_NE, v[ITEM], first);
  TRY(consume_tile(c, err));
  v[ITEM] = attention_next_item(e, v[ITEM]);
  c->q = gen_pipeline_advance(b, &e->of_q, c->q);
  v[Q_INDEX] = c->q.index;
  v[Q_PARITY] = c->q.parity;
  v[K_INDEX] = c->k.index;
  v[K_PARITY] = c->k.parity;
  v[V_INDEX] = c->v.index;
  v[V_PARITY] = c->v.parity;
  gen_loop_end(b, &items);
  if (e->p->copied) drain(c);
  return ARKE_OK;
}
