/* A consumer warp group: the products of its 64 queries with the keys, step by step from the last, the
 * weights they make, and the products of those with the values.
 *
 * With OVERLAP the scores of a step are multiplied while the weights of the one before go into their product,
 * and the next softmax runs under that. With TURNS groups issue their products in turn, so that the matrix
 * units work for one while another is at its softmax. */
#include "generator/gen_barrier.h"
#include "generator/gen_bits.h"
#include "generator/gen_memory.h"
#include "generator/gen_mma.h"
#include "generator/gen_tma.h"
#include "templates/attention_emit.h"

enum { MOST_SCORES = 96, MOST_WORDS = MOST_SCORES / 2, MOST_QUERY_WORDS = ATTENTION_HELD_DEPTH / 4 };

typedef struct consumer {
  attention_emitter *e;
  gen_value group, thread;
  attention_place at;
  attention_rows rows;
  gen_value q_descriptor, k_descriptor, v_descriptor; /* of the first stage; i64 */
  gen_value first_column;                             /* of O, that the group has */
  gen_wgmma scores, values;                           /* the two products */
  int n_scores, n_words, n_sums;
  gen_stage q, k, v;
  gen_value before; /* i1: there was a tile before */
  attention_state state;
  gen_value sums[ATTENTION_SUMS];
  gen_value queries[MOST_QUERY_WORDS]; /* HOLD_Q: as words of the first product's A */
} consumer;

/* --- products --- */

static void set_up(consumer *c) {
  attention_emitter *e = c->e;
  const attention_plan *p = e->p;
  c->k_descriptor = attention_tile_descriptor(e->b, e->smem_k, 16);
  c->first_column = p->halves == 1 ? gen_i32(e->b, 0) : gen_mul_imm(e->b, c->group, p->sum_columns);
  gen_value smem_v = e->smem_v;
  if (p->halves == 2)
    smem_v = gen_add(e->b, smem_v, gen_mul_imm(e->b, c->group, p->sum_columns / 64 * p->v.panel_bytes));
  c->v_descriptor = attention_tile_descriptor(e->b, smem_v, p->v.panel_bytes);
  c->scores = (gen_wgmma){.type = e->m->type,
                          .b_type = e->m->type,
                          .n = p->block_n,
                          .tiles = 1,
                          .k_steps = p->q.columns / 16,
                          .a = attention_tile_rows(&p->q),
                          .b = attention_tile_rows(&p->k)};
  c->values = (gen_wgmma){.type = e->m->type,
                          .b_type = e->m->type,
                          .n = p->sum_columns,
                          .tiles = 1,
                          .k_steps = p->block_n / 16,
                          .b = {.transposed = true}};
  for (int i = 0; i < c->values.k_steps; i++) c->values.b.step_offset[i] = i * 16 * 128;
  c->n_scores = p->block_n / 2;
  c->n_words = p->block_n / 4;
  c->n_sums = p->sum_columns / 2;
}

static gen_value stage_of(gen_builder *b, gen_value first, gen_value index, int bytes) {
  return gen_add(b, first, gen_zext(b, gen_mul_imm(b, index, bytes >> 4), GEN_I64));
}

/* Bytes from a stage of values to the next. */
static int values_bytes(const attention_plan *p) {
  return p->values_are_keys ? p->k.bytes : p->v.bytes;
}

/* The group's queries from shared memory, whose chunks of 16 bytes the copy has permuted by rows. */
static void hold_queries(consumer *c) {
  attention_emitter *e = c->e;
  gen_builder *b = e->b;
  gen_value lane = gen_and(b, c->thread, gen_i32(b, 31)), warp = gen_lshr(b, c->thread, gen_i32(b, 5));
  gen_value row = gen_add(b, gen_mul_imm(b, warp, 16), gen_and(b, lane, gen_i32(b, 15)));
  gen_value phase = gen_xor(b, gen_lshr(b, lane, gen_i32(b, 4)), gen_and(b, row, gen_i32(b, 7)));
  gen_value first = gen_add(b, c->rows.shared, gen_mul_imm(b, row, 128));
  for (int step = 0; step < e->p->q.columns / 16; step++) {
    gen_value chunk = gen_mul_imm(b, gen_xor(b, phase, gen_i32(b, step % 4 * 2)), 16);
    gen_value at = gen_add_imm(b, gen_add(b, first, chunk), (int64_t)(step / 4) * e->p->q.panel_bytes);
    gen_ldmatrix_x4(b, false, at, &c->queries[4 * step]);
  }
}

static void issue_scores(consumer *c, gen_value *s) {
  gen_builder *b = c->e->b;
  for (int i = 0; i < c->n_scores; i++) s[i] = gen_undefined(b, GEN_F32);
  gen_value k = stage_of(b, c->k_descriptor, c->k.index, c->e->p->k.bytes);
  if (c->e->p->hold_q) {
    gen_wgmma_issue_registers(b, &c->scores, c->queries, k, gen_bool(b, false), s);
  } else {
    gen_wgmma_issue(b, &c->scores, c->q_descriptor, k, gen_bool(b, false), s);
  }
}

static void issue_values(consumer *c, const gen_value *words) {
  gen_builder *b = c->e->b;
  gen_value v = stage_of(b, c->v_descriptor, c->v.index, values_bytes(c->e->p));
  gen_wgmma_issue_registers(b, &c->values, words, v, gen_bool(b, true), c->sums);
}

/* The place of the queries goes back to the producer:
 *   - O is not copied out of it: after a product of the queries, or one that they were loaded for, has been
 *     waited for, since all four warps have issued that;
 *   - it is, and there are two: under the next tile's first product, when the copy has read it;
 *   - there is one: as soon as the copy has read it. */
static void release_q(consumer *c, gen_value index, gen_value predicate) {
  attention_emitter *e = c->e;
  gen_builder *b = e->b;
  gen_branch leader;
  if (e->p->copied) {
    gen_value first = gen_compare_imm(b, GEN_EQ, c->thread, 0);
    gen_if(b, &leader, predicate ? gen_and(b, first, predicate) : first, NULL, 0);
    gen_tma_store_wait_read(b, 0);
    gen_if_end(b, &leader);
  }
  gen_pipeline_release(b, &e->of_q, index, c->thread, predicate);
}

/* Values that are keys lie in K's stages, of which c->v is the one before c->k: who has had the scores of a
 * step need not wait for its values, and gives the stage back when it has had those. */

static void release_k(consumer *c) {
  attention_emitter *e = c->e;
  if (!e->p->values_are_keys) gen_pipeline_release(e->b, &e->of_k, c->k.index, c->thread, NULL);
  c->k = gen_pipeline_advance(e->b, &e->of_k, c->k);
}

static void wait_for_tile(consumer *c, const gen_pipeline *of, gen_stage stage) {
  gen_pipeline_wait(c->e->b, of, stage);
  if (c->e->p->gathered) gen_fence_async_shared(c->e->b); /* by threads, not by tensor copies */
}

static void wait_for_values(consumer *c) {
  if (!c->e->p->values_are_keys) wait_for_tile(c, &c->e->of_v, c->v);
}

static void release_v(consumer *c) {
  attention_emitter *e = c->e;
  gen_pipeline *of = e->p->values_are_keys ? &e->of_k : &e->of_v;
  gen_pipeline_release(e->b, of, c->v.index, c->thread, NULL);
  c->v = gen_pipeline_advance(e->b, of, c->v);
}

/* --- turns --- */

enum { TURN_THREADS = 256 }; /* of a group's barrier: it and the one before meet */

static void take_turn(consumer *c) {
  gen_builder *b = c->e->b;
  if (c->e->p->turns) gen_named_sync(b, gen_add_imm(b, c->group, ATTENTION_FIRST_TURN), TURN_THREADS);
}

static void pass_turn(consumer *c) {
  gen_builder *b = c->e->b;
  if (!c->e->p->turns) return;
  gen_value next = gen_add_imm(b, c->group, 1);
  next = gen_select(b, gen_compare_imm(b, GEN_EQ, next, c->e->p->consumers), gen_i32(b, 0), next);
  gen_named_arrive(b, gen_add_imm(b, next, ATTENTION_FIRST_TURN), TURN_THREADS);
}

/* The first group's first turn comes from the last one. */
static void start_turns(consumer *c) {
  gen_builder *b = c->e->b;
  gen_branch last;
  if (!c->e->p->turns) return;
  gen_if(b, &last, gen_compare_imm(b, GEN_EQ, c->group, c->e->p->consumers - 1), NULL, 0);
  gen_named_arrive(b, gen_i32(b, ATTENTION_FIRST_TURN), TURN_THREADS);
  gen_if_end(b, &last);
}

/* --- a step --- */

/* Hides keys from queries where the step has any that not all of them see. */
static void mask_where_needed(consumer *c, gen_value key, gen_value *s) {
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
static void hide_unseen(consumer *c, gen_value *s) {
  attention_emitter *e = c->e;
  attention_hide(e, &c->rows, c->k.index, s, c->n_scores);
  gen_named_sync(e->b, gen_add_imm(e->b, c->group, ATTENTION_GROUP_BARRIER), 128);
  release_k(c);
}

/* Weights as the registers of the second product: two columns a word. */
static void pack(consumer *c, const gen_value *s, gen_value *words) {
  for (int i = 0; i < c->n_words; i++)
    words[i] = gen_pack_halves(c->e->b, c->e->m->type, s[2 * i], s[2 * i + 1]);
}

/* Waits for the sums, which the weights were computed under. The assembler moves a wait up as far as it can,
 * but not past a branch; so one that is never taken, as the weights' total is not negative, keeps it behind
 * them. */
static void wait_for_sums(consumer *c) {
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
static void rescale_sums(consumer *c, const attention_rescale *rescale) {
  gen_branch needed;
  gen_if(c->e->b, &needed, rescale->needed, c->sums, c->n_sums);
  for (int i = 0; i < c->n_sums; i++) c->sums[i] = gen_fmul(c->e->b, c->sums[i], rescale->factor[i / 2 % 2]);
  gen_if_end(c->e->b, &needed);
}

/* The last step of the keys, which is the first one here. */
static arke_status first_step(consumer *c, gen_value key, gen_value *words, arke_error *err) {
  attention_emitter *e = c->e;
  gen_builder *b = e->b;
  gen_value s[MOST_SCORES];
  wait_for_tile(c, &e->of_k, c->k);
  take_turn(c);
  issue_scores(c, s);
  pass_turn(c);
  if (e->p->copied && e->p->q_stages == 2) release_q(c, gen_xor(b, c->q.index, gen_i32(b, 1)), c->before);
  gen_wgmma_wait(b, 0, s, c->n_scores);
  if (e->p->hold_q && !e->p->copied) release_q(c, c->q.index, NULL);
  if (!e->p->gathered) release_k(c);
  TRY(attention_scores(e, &c->at, &c->rows, key, s, c->n_scores, err));
  attention_mask(e, &c->rows, key, s, c->n_scores);
  if (e->p->gathered) hide_unseen(c, s);
  attention_softmax(e, s, c->n_scores, &c->state, NULL);
  pack(c, s, words);
  return ARKE_OK;
}

static arke_status next_step(consumer *c, gen_value key, gen_value *words, arke_error *err) {
  attention_emitter *e = c->e;
  gen_builder *b = e->b;
  gen_value s[MOST_SCORES];
  attention_rescale rescale;
  bool overlap = e->p->overlap;
  if (!overlap) {
    wait_for_values(c);
    issue_values(c, words);
  }
  wait_for_tile(c, &e->of_k, c->k);
  take_turn(c);
  issue_scores(c, s);
  if (overlap) {
    wait_for_values(c);
    issue_values(c, words);
  }
  pass_turn(c);
  if (overlap) {
    gen_wgmma_wait(b, 1, s, c->n_scores);
  } else {
    /* The stage goes back while the scores are still multiplied. */
    gen_wgmma_wait(b, 1, c->sums, c->n_sums);
    release_v(c);
    gen_wgmma_wait(b, 0, s, c->n_scores);
  }
  if (!e->p->gathered) release_k(c);
  TRY(attention_scores(e, &c->at, &c->rows, key, s, c->n_scores, err));
  mask_where_needed(c, key, s);
  if (e->p->gathered) hide_unseen(c, s);
  attention_softmax(e, s, c->n_scores, &c->state, &rescale);
  if (overlap) {
    wait_for_sums(c);
    release_v(c);
  }
  rescale_sums(c, &rescale);
  pack(c, s, words);
  return ARKE_OK;
}

/* --- a tile --- */

static void find_rows(consumer *c) {
  attention_emitter *e = c->e;
  const attention_pack *pack = &e->p->pack;
  gen_builder *b = e->b;
  gen_value lane = gen_and(b, c->thread, gen_i32(b, 31)), warp = gen_lshr(b, c->thread, gen_i32(b, 5));
  gen_value first = e->p->halves == 1 ? gen_mul_imm(b, c->group, 64) : gen_i32(b, 0);
  gen_value row = gen_add(b, first, gen_mul_imm(b, warp, 16));
  row = gen_add(b, row, gen_lshr(b, lane, gen_i32(b, 2)));
  c->rows.shared = gen_add(b, e->smem_q, gen_mul_imm(b, first, 128));
  c->rows.shared = gen_add(b, c->rows.shared, gen_mul_imm(b, c->q.index, e->p->q.bytes));
  c->rows.first_column = c->first_column;
  c->rows.place = c->rows.shared;
  if (e->p->halves == 2) {
    int64_t half = (int64_t)e->p->sum_columns / 64 * e->p->q.panel_bytes;
    c->rows.place = gen_add(b, c->rows.shared, gen_mul_imm(b, c->group, half));
  }
  c->q_descriptor = attention_tile_descriptor(e->b, c->rows.shared, 16);
  c->rows.column = gen_mul_imm(b, gen_and(b, lane, gen_i32(b, 3)), 2);
  for (int r = 0; r < ATTENTION_ROWS; r++) {
    gen_value number = gen_add_imm(b, row, 8 * (int64_t)r);
    if (pack->loop >= 0) {
      gen_value within = gen_and(b, number, gen_i32(b, pack->heads - 1));
      c->rows.head[r] = gen_add(b, c->at.loops[pack->loop], within);
      number = gen_udiv(b, number, gen_i32(b, pack->heads));
    }
    c->rows.query[r] = gen_add(b, number, c->at.first);
    attention_row_keys(e, &c->at, c->rows.query[r], &c->rows.from[r], &c->rows.below[r]);
  }
}

/* --- what is nobody's --- */

/* Keys behind the end of a request have weights of 0; but what lies there for values may be anything, and 0
 * times NaN is NaN. So all groups together clear those rows of the last step, which is the first one here. A
 * tensor copy does so by itself behind the end of the tensor, and pages that nobody sees are not copied. */
static void clear_values(consumer *c, gen_value key) {
  attention_emitter *e = c->e;
  gen_builder *b = e->b;
  const attention_tile *v = &e->p->v;
  int threads = 128 * e->p->consumers;
  gen_value end = attention_end_of_keys(e, &c->at), keys = attention_extent(e, e->m->key);
  gen_value first = gen_smax(b, gen_sub(b, end, key), gen_i32(b, 0));
  gen_value ragged =
      gen_and(b, gen_compare_imm(b, GEN_SLT, first, e->p->block_n), gen_compare(b, GEN_SLT, end, keys));
  gen_branch branch;
  gen_if(b, &branch, ragged, NULL, 0);
  wait_for_values(c);
  /* Where values are keys, another group may still multiply them. */
  if (e->p->values_are_keys && e->p->consumers > 1)
    gen_named_sync(b, gen_i32(b, ATTENTION_ALL_BARRIER), threads);
  gen_value stage = gen_add(b, e->smem_v, gen_mul_imm(b, c->v.index, values_bytes(e->p))),
            zero = gen_i32(b, 0);
  gen_value zeros[] = {zero, zero, zero, zero};
  gen_value number = gen_add(b, gen_mul_imm(b, c->group, 128), c->thread);
  gen_value at[] = {gen_add(b, gen_mul_imm(b, first, 128), gen_mul_imm(b, number, 16))};
  gen_loop loop;
  gen_loop_begin(b, &loop, at, 1);
  gen_loop_while(b, &loop, gen_compare_imm(b, GEN_SLT, at[0], v->panel_bytes));
  for (int panel = 0; panel < v->panels; panel++)
    gen_store_shared(b, gen_vector(b, zeros, 4),
                     gen_add_imm(b, gen_add(b, stage, at[0]), (int64_t)panel * v->panel_bytes));
  at[0] = gen_add_imm(b, at[0], (int64_t)threads * 16);
  gen_loop_end(b, &loop);
  gen_fence_async_shared(b);
  gen_named_sync(b, gen_i32(b, ATTENTION_ALL_BARRIER), threads);
  gen_if_end(b, &branch);
}

/* What a loop over steps carries. */
typedef struct carried {
  gen_value v[5 + 3 * ATTENTION_ROWS + ATTENTION_SUMS + MOST_WORDS];
  int n;
} carried;

static void put(consumer *c, gen_value step, const gen_value *words, carried *to) {
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

static gen_value get(consumer *c, const carried *from, gen_value *words) {
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

static gen_value key_of(consumer *c, gen_value step) {
  gen_value key = gen_mul_imm(c->e->b, step, c->e->p->block_n);
  return attention_has_origin(c->e->p) ? gen_add(c->e->b, c->at.origin, key) : key;
}

static arke_status consume_tile(consumer *c, arke_error *err) {
  attention_emitter *e = c->e;
  gen_builder *b = e->b;
  gen_value words[MOST_WORDS];
  find_rows(c);
  if (!e->p->packed) gen_pipeline_wait(b, &e->of_q, c->q);
  if (e->p->hold_q) hold_queries(c);
  gen_value step = gen_add_imm(b, c->at.steps, -1), key = key_of(c, step);
  TRY(first_step(c, key, words, err));
  if (e->p->ends) clear_values(c, key);
  for (int i = 0; i < c->n_sums; i++) c->sums[i] = gen_f32(b, 0);

  carried in;
  gen_loop steps;
  put(c, step, words, &in);
  gen_loop_begin(b, &steps, in.v, in.n);
  gen_loop_while(b, &steps, gen_compare_imm(b, GEN_SGT, in.v[0], 0));
  step = gen_add_imm(b, get(c, &in, words), -1);
  TRY(next_step(c, key_of(c, step), words, err));
  put(c, step, words, &in);
  gen_loop_end(b, &steps);
  get(c, &in, words);

  if (!e->p->hold_q && !e->p->copied) release_q(c, c->q.index, NULL);
  wait_for_values(c);
  issue_values(c, words);
  gen_wgmma_wait(b, 0, c->sums, c->n_sums);
  release_v(c);
  if (e->p->split)
    attention_store_parts(e, &c->at, &c->rows, &c->state, c->sums);
  else
    TRY(attention_store(e, &c->at, &c->rows, &c->state, c->sums, err));
  if (e->p->copied && e->p->q_stages == 1) release_q(c, c->q.index, NULL);
  return ARKE_OK;
}

/* Shared memory must stay until the last copy has read it. */
static void drain(consumer *c) {
  gen_builder *b = c->e->b;
  gen_branch leader;
  gen_if(b, &leader, gen_compare_imm(b, GEN_EQ, c->thread, 0), NULL, 0);
  gen_tma_store_wait_read(b, 0);
  gen_if_end(b, &leader);
}

arke_status attention_emit_consumer(attention_emitter *e, gen_value group, gen_value thread,
                                    arke_error *err) {
  enum { ITEM, Q_INDEX, Q_PARITY, K_INDEX, K_PARITY, V_INDEX, V_PARITY, CARRIED };
  gen_builder *b = e->b;
  consumer *c = ARENA_NEW(e->k->a, consumer);
  if (!c) return error_memory(err, "generate");
  *c = (consumer){.e = e, .group = group, .thread = thread, .rows = {.group = group, .thread = thread}};
  set_up(c);
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
