/* Clusters of CTAs that share the keys of a tile (MERGE). What each has of them in the end lies where its
 * queries and keys were; when all have come so far, each CTA adds up what all have of its share of the tile's
 * rows, in the order of the keys, so that results do not depend on who is first. The sum goes to the
 * workspace, one for each cluster, or is the whole, from which outputs are evaluated. */
#include <math.h>

#include "generator/gen_barrier.h"
#include "generator/gen_bits.h"
#include "generator/gen_cluster.h"
#include "generator/gen_memory.h"
#include "templates/attend.h"
#include "templates/attention_emit.h"

/* Behind the sums of a row, so that those of the eight rows of a store begin in different banks; and what a
 * row's statistics take. */
enum { SPARE_BYTES = 32, PAIR_BYTES = 8, MOST_MERGED = 8 };

static int pitch_bytes(const attention_plan *p) {
  return 4 * p->v.columns + SPARE_BYTES;
}

int attention_merged_bytes(const attention_plan *p) {
  return p->block_m * (pitch_bytes(p) + PAIR_BYTES);
}

/* From where the CTA's, or another's, parts begin. */
static gen_value sums_of(attention_emitter *e, gen_value parts, gen_value row, gen_value column) {
  gen_builder *b = e->b;
  gen_value line = gen_add(b, parts, gen_mul_imm(b, row, pitch_bytes(e->p)));
  return gen_add(b, line, gen_mul_imm(b, column, 4));
}

static gen_value statistics_of(attention_emitter *e, gen_value parts, gen_value row) {
  gen_builder *b = e->b;
  gen_value first = gen_add_imm(b, parts, (int64_t)e->p->block_m * pitch_bytes(e->p));
  return gen_add(b, first, gen_mul_imm(b, row, PAIR_BYTES));
}

/* Sums relative to the largest score. No group of the CTA multiplies any more when the first one gets here.
 */
static void put_rows(attention_emitter *e, const attention_rows *rows, const attention_state *state,
                     const gen_value *sums) {
  gen_builder *b = e->b;
  gen_value column = gen_add(b, rows->first_column, rows->column);
  gen_named_sync(b, gen_i32(b, ATTENTION_ALL_BARRIER), 128 * e->p->consumers);
  for (int r = 0; r < ATTENTION_ROWS; r++) {
    gen_branch first;
    gen_value row = gen_add_imm(b, rows->row, 8 * (int64_t)r), lag, to = sums_of(e, e->smem_q, row, column);
    attention_statistics of = attention_finish_row(e, state, r, &lag);
    for (int i = 2 * r; i < e->p->sum_columns / 2; i += 4) {
      gen_value pair[] = {gen_fmul(b, sums[i], lag), gen_fmul(b, sums[i + 1], lag)};
      gen_store_shared(b, gen_vector(b, pair, 2), gen_add_imm(b, to, 4 * 8 * (int64_t)(i / 4)));
    }
    gen_if(b, &first, gen_compare_imm(b, GEN_EQ, column, 0), NULL, 0);
    gen_value pair[] = {of.largest, of.total};
    gen_store_shared(b, gen_vector(b, pair, 2), statistics_of(e, e->smem_q, row));
    gen_if_end(b, &first);
  }
}

/* What all CTAs have of a run of columns: loaded at once, since each load takes as long as all of them. */
static attend_merged add_up(attention_emitter *e, const gen_value *parts, gen_value row, gen_value column) {
  gen_builder *b = e->b;
  attend_merged each[MOST_MERGED], all;
  for (int i = 0; i < e->p->merge; i++) {
    gen_value pair = gen_load_cluster(b, GEN_F32, 2, statistics_of(e, parts[i], row));
    gen_value sums = gen_load_cluster(b, GEN_F32, ATTENTION_COMBINE_WIDTH, sums_of(e, parts[i], row, column));
    each[i].largest = gen_lane(b, pair, 0);
    each[i].total = gen_lane(b, pair, 1);
    for (int j = 0; j < ATTENTION_COMBINE_WIDTH; j++) each[i].sums[j] = gen_lane(b, sums, j);
  }
  attend_merge_start(b, ATTENTION_COMBINE_WIDTH, &all);
  attend_merge(b, ATTENTION_COMBINE_WIDTH, &all, each, e->p->merge);
  return all;
}

static arke_status merge_run(attention_emitter *e, const attention_place *tile, const gen_value *parts,
                             gen_value row, gen_value column, arke_error *err) {
  gen_builder *b = e->b;
  const attention_pack *pack = &e->p->pack;
  attention_place at = *tile;
  gen_value query = gen_add(b, gen_udiv(b, row, gen_i32(b, pack->heads)), tile->first);
  gen_value exists = gen_compare(b, GEN_SLE, query, tile->last);
  gen_branch branch;
  if (pack->loop >= 0) {
    gen_value within = gen_and(b, row, gen_i32(b, pack->heads - 1));
    at.loops[pack->loop] = gen_add(b, tile->loops[pack->loop], within);
    exists = gen_and(b, exists, gen_compare(b, GEN_SLE, at.loops[pack->loop], tile->last_head));
  }
  gen_if(b, &branch, exists, NULL, 0);
  attend_merged all = add_up(e, parts, row, column);
  attention_statistics of = {all.largest, all.total};
  if (e->p->split)
    attention_store_part(e, &at, query, column, &of, all.sums);
  else
    TRY(attention_store_run(e, &at, query, column, &of, all.sums, err));
  gen_if_end(b, &branch);
  return ARKE_OK;
}

arke_status attention_merge_parts(attention_emitter *e, const attention_place *at, const attention_rows *rows,
                                  const attention_state *state, const gen_value *sums, arke_error *err) {
  gen_builder *b = e->b;
  int threads = 128 * e->p->consumers, runs = e->p->v.columns / ATTENTION_COMBINE_WIDTH;
  gen_value parts[MOST_MERGED];
  gen_loop loop;
  put_rows(e, rows, state, sums);
  gen_cluster_sync(b);
  for (int i = 0; i < e->p->merge; i++) parts[i] = gen_cluster_map(b, e->smem_q, gen_i32(b, i));
  gen_value thread = gen_add(b, gen_mul_imm(b, rows->group, 128), rows->thread);
  gen_value item[] = {gen_add(b, gen_mul_imm(b, gen_cluster_ctarank(b), threads), thread)};
  gen_loop_begin(b, &loop, item, 1);
  gen_loop_while(b, &loop, gen_compare_imm(b, GEN_ULT, item[0], (int64_t)runs * e->p->block_m));
  gen_value row = gen_udiv(b, item[0], gen_i32(b, runs));
  gen_value column = gen_mul_imm(b, gen_sub(b, item[0], gen_mul_imm(b, row, runs)), ATTENTION_COMBINE_WIDTH);
  TRY(merge_run(e, at, parts, row, column, err));
  item[0] = gen_add_imm(b, item[0], (int64_t)threads * e->p->merge);
  gen_loop_end(b, &loop);
  return ARKE_OK;
}
