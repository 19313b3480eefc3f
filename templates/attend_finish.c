/* The end of a tile: every warp puts its sums and statistics where the ring was, and threads take runs of
 * columns of a row, in which they combine what the sets have. */
#include <math.h>

#include "generator/gen_barrier.h"
#include "generator/gen_cluster.h"
#include "generator/gen_control.h"
#include "generator/gen_memory.h"
#include "generator/gen_warp.h"
#include "templates/attend.h"

enum { PAIR_BYTES = 8 };

/* Row `row` (i32) of set `set` (i32): where its sums and its statistics are. */
static gen_value staged_row(attend_emitter *e, gen_value set, gen_value row) {
  gen_builder *b = e->b;
  gen_value line = gen_add(b, gen_mul_imm(b, set, e->p->block_m), row);
  return gen_add(b, e->smem_q, gen_mul_imm(b, line, e->p->staged_pitch_bytes));
}

static gen_value staged_statistics(attend_emitter *e, gen_value set, gen_value row) {
  gen_builder *b = e->b;
  gen_value line = gen_add(b, gen_mul_imm(b, set, e->p->block_m), row);
  return gen_add_imm(b, gen_add(b, e->smem_q, gen_mul_imm(b, line, PAIR_BYTES)),
                     e->p->statistics_offset_bytes);
}

/* Sums relative to the largest score, and the whole of a row's weights, over its four lanes. */
static void put_row(attend_emitter *e, attend_state *state, const gen_value *sums, int r) {
  gen_builder *b = e->b;
  int own = e->p->warp_columns / 2;
  gen_value column = gen_and(b, e->lane, gen_i32(b, 3)), total = state->total[r];
  for (int lane = 1; lane <= 2; lane *= 2)
    total = gen_fadd(b, total, gen_shuffle_xor(b, total, gen_i32(b, lane), 32));
  gen_value nothing = gen_compare(b, GEN_EQ, state->base[r], gen_f32(b, -(double)INFINITY));
  gen_value lag = attend_exp2(b, gen_fsub(b, state->base[r], state->largest[r]));
  lag = gen_select(b, nothing, gen_f32(b, 1), lag);
  gen_value row = gen_add_imm(b, gen_add(b, e->warp_row, gen_lshr(b, e->lane, gen_i32(b, 2))), 8 * r);
  gen_value first = gen_add(b, e->warp_column, gen_mul_imm(b, column, 2));
  gen_value to = gen_add(b, staged_row(e, e->set, row), gen_mul_imm(b, first, 4));
  for (int i = 0; i < own; i += 2) {
    if (i / 2 % 2 != r % 2) continue;
    const gen_value *pair = &sums[r / 2 * own + i];
    gen_value both[] = {gen_fmul(b, pair[0], lag), gen_fmul(b, pair[1], lag)};
    gen_store_shared(b, gen_vector(b, both, 2), gen_add_imm(b, to, 4 * 8 * (int64_t)(i / 4)));
  }
  gen_branch one;
  gen_value is_one = gen_compare_imm(b, GEN_EQ, gen_or(b, column, e->warp_column), 0);
  gen_value statistics[] = {state->largest[r], gen_fmul(b, total, lag)};
  gen_if(b, &one, is_one, NULL, 0);
  gen_store_shared(b, gen_vector(b, statistics, 2), staged_statistics(e, e->set, row));
  gen_if_end(b, &one);
}

/* --- runs --- */

/* A vector of this CTA's shared memory, or at the same place of another one of the cluster. */
static gen_value load_staged(attend_emitter *e, int n, gen_value address, gen_value rank) {
  if (!rank) return gen_load_shared(e->b, GEN_F32, n, address);
  return gen_load_cluster(e->b, GEN_F32, n, gen_cluster_map(e->b, address, rank));
}

static attend_merged staged_part(attend_emitter *e, gen_value rank, int set, gen_value row,
                                 gen_value column) {
  gen_builder *b = e->b;
  int width = e->p->epilogue.width, each = width < 4 ? width : 4;
  attend_merged part;
  gen_value number = gen_i32(b, set);
  gen_value statistics = load_staged(e, 2, staged_statistics(e, number, row), rank);
  gen_value from = gen_add(b, staged_row(e, number, row), gen_mul_imm(b, column, 4));
  part.largest = gen_lane(b, statistics, 0);
  part.total = gen_lane(b, statistics, 1);
  for (int i = 0; i < width; i += each) {
    gen_value v = load_staged(e, each, gen_add_imm(b, from, 4 * (int64_t)i), rank);
    for (int j = 0; j < each; j++) part.sums[i + j] = each == 1 ? v : gen_lane(b, v, j);
  }
  return part;
}

/* All that sets and CTAs of a cluster have of a run, in the order of CTAs. */
static attend_merged merge_staged(attend_emitter *e, gen_value row, gen_value column) {
  enum { AT_ONCE = 8 };
  gen_builder *b = e->b;
  int width = e->p->epilogue.width, ctas = e->p->clustered ? e->p->split : 1, all_parts = ctas * e->p->sets,
      n = 0;
  attend_merged parts[AT_ONCE], all;
  if (all_parts == 1) return staged_part(e, NULL, 0, row, column);
  attend_merge_start(b, width, &all);
  for (int i = 0; i < all_parts; i++) {
    gen_value rank = ctas > 1 ? gen_i32(b, i / e->p->sets) : NULL;
    parts[n++] = staged_part(e, rank, i % e->p->sets, row, column);
    if (n < AT_ONCE && i + 1 < all_parts) continue;
    attend_merge(b, width, &all, parts, n);
    n = 0;
  }
  return all;
}

static void store_part(attend_emitter *e, const attend_row *row, gen_value column, const attend_merged *all) {
  gen_builder *b = e->b;
  int width = e->p->epilogue.width, each = width < 4 ? width : 4;
  gen_value rows = gen_zext(b, gen_param(b, e->k->rows), GEN_I64);
  gen_value number =
      gen_add(b, gen_mul(b, gen_zext(b, e->unit, GEN_I64), rows), gen_zext(b, row->number, GEN_I64));
  gen_value to = attend_part_address(e, number, e->split, column);
  gen_branch first;
  for (int i = 0; i < width; i += each)
    gen_store_global(b, each == 1 ? all->sums[i] : gen_vector(b, &all->sums[i], each),
                     gen_add_imm(b, to, 4 * (int64_t)i));
  gen_if(b, &first, gen_compare_imm(b, GEN_EQ, column, 0), NULL, 0);
  gen_value statistics[] = {all->largest, all->total};
  gen_value at = attend_statistics_address(e, number, e->split);
  gen_store_global(b, gen_vector(b, statistics, 2), at);
  if (e->group_number) gen_store_global(b, e->group_number, gen_add_imm(b, at, PAIR_BYTES));
  gen_if_end(b, &first);
}

static arke_status finish_run(attend_emitter *e, gen_value at, int runs, arke_error *err) {
  gen_builder *b = e->b;
  int width = e->p->epilogue.width;
  gen_value line = gen_udiv(b, at, gen_i32(b, runs));
  gen_value column = gen_mul_imm(b, gen_sub(b, at, gen_mul_imm(b, line, runs)), width);
  attend_row row;
  gen_branch exists;
  attend_find_row(e, gen_add(b, e->first_row, line), &row);
  gen_if(b, &exists, row.exists, NULL, 0);
  attend_merged all = merge_staged(e, line, column);
  if (e->p->split > 1 && !e->p->clustered) {
    store_part(e, &row, column, &all);
  } else {
    TRY(attend_store(e, &row, column, &all, err));
  }
  gen_if_end(b, &exists);
  return ARKE_OK;
}

arke_status attend_finish(attend_emitter *e, attend_state *state, const gen_value *sums, arke_error *err) {
  gen_builder *b = e->b;
  int runs = (int)ir_form_extent(&e->m->form, e->m->wide) / e->p->epilogue.width, threads = e->p->threads;
  gen_cta_sync(b);
  for (int r = 0; r < e->p->thread_rows; r++) put_row(e, state, sums, r);
  gen_value first = e->thread;
  if (e->p->clustered) {
    gen_cluster_sync(b);
    first = gen_add(b, first, gen_mul_imm(b, e->split, threads));
    threads *= e->p->split;
  } else {
    gen_cta_sync(b);
  }
  gen_value carried[] = {first};
  gen_loop loop;
  gen_loop_begin(b, &loop, carried, 1);
  gen_loop_while(b, &loop, gen_compare_imm(b, GEN_ULT, carried[0], (int64_t)runs * e->p->block_m));
  TRY(finish_run(e, carried[0], runs, err));
  carried[0] = gen_add_imm(b, carried[0], threads);
  gen_loop_end(b, &loop);
  /* Others may still read what this CTA has. */
  if (e->p->clustered) gen_cluster_sync(b);
  return ARKE_OK;
}
