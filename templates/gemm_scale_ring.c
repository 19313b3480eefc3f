/* STAGED: scales within the sum come through shared memory. Two warps of the producer's group evaluate those
 * of the rows and columns of a tile, k-step by k-step, and leave them in a ring of their own, some steps
 * before they multiply anything: a consumer that asked for them itself would wait for the L2 cache, which is
 * busy with tiles, and could not begin to multiply meanwhile. What is asked for is UNDER_WAY steps ahead. */
#include "generator/gen_barrier.h"
#include "generator/gen_memory.h"
#include "generator/gen_warp.h"
#include "templates/gemm_emit.h"

enum { WARPS = GEMM_SCALE_WARPS, THREADS = WARPS * 32, UNDER_WAY = 2 };
enum { MOST = 12, CARRIED = 3 + UNDER_WAY * MOST }; /* values of a thread in a step */

/* --- in shared memory: of a step the scales of rows, then those of each sum's segments --- */

static int rows_bytes(const gemm_plan *plan) {
  return gemm_has_scales(plan, plan->match.operand_a) ? plan->block_m * 4 : 0;
}

static int segments_of(const gemm_plan *plan) {
  int segments = 0;
  for (int i = 0; i < plan->match.n_sums; i++)
    if (gemm_has_scales(plan, plan->match.operand_b[i])) segments += plan->block_n / plan->segment;
  return segments;
}

int gemm_scale_bytes(const gemm_plan *plan) {
  return rows_bytes(plan) + (segments_of(plan) * 4 + 15) / 16 * 16;
}

static gen_value place_of(gemm_emitter *e, gen_value index) {
  gen_builder *b = e->b;
  const gemm_plan *plan = e->plan;
  gen_value step = gen_mul_imm(b, index, gemm_scale_bytes(plan));
  return gen_add_imm(b, gen_add(b, e->smem, step), plan->scales_offset);
}

void gemm_scale_ring_declare(gemm_emitter *e) {
  int groups = e->plan->pingpong ? 1 : e->plan->consumers;
  gen_pipeline_create(e->b, &e->scale_ring, "scales", GEMM_SCALE_RING, groups * 4, 1);
  e->scale_ring.fills = WARPS;
}

/* --- the warps that bring them --- */

typedef struct bringer {
  gemm_emitter *e;
  gemm_item item;
  gemm_tile tile;
  gen_value thread;
  int n; /* values of a thread in a step */
} bringer;

/* Of step `step` of the item, or of its last one: rows, THREADS apart, then a segment of each sum. Rows and
 * columns past the edges have those of the last. */
static void load_step(bringer *p, gen_value step, gen_value *values) {
  gemm_emitter *e = p->e;
  gen_builder *b = e->b;
  const gemm_plan *plan = e->plan;
  const gemm_match *match = &plan->match;
  gen_value zero = gen_i32(b, 0), last_row = gen_add_imm(b, e->m, -1), last_column = gen_add_imm(b, e->n, -1);
  step = gen_umin(b, step, gen_add_imm(b, p->item.steps, -1));
  gen_value k = gen_mul_imm(b, gen_add(b, p->item.first, step), plan->block_k);
  p->n = 0;
  for (int first = 0; first < rows_bytes(plan) / 4; first += THREADS) {
    gen_value row = gen_add(b, p->tile.row, gen_add_imm(b, p->thread, first));
    values[p->n++] = gemm_load_scale(e, p->tile, match->operand_a, gen_umin(b, row, last_row), zero, k);
  }
  int segments = plan->block_n / plan->segment;
  gen_value segment = gen_umin(b, p->thread, gen_i32(b, segments - 1));
  gen_value column = gen_add(b, p->tile.column, gen_mul_imm(b, segment, plan->segment));
  for (int i = 0; i < match->n_sums; i++) {
    if (!gemm_has_scales(plan, match->operand_b[i])) continue;
    values[p->n++] =
        gemm_load_scale(e, p->tile, match->operand_b[i], zero, gen_umin(b, column, last_column), k);
  }
}

static void leave_step(bringer *p, gen_value index, const gen_value *values) {
  gemm_emitter *e = p->e;
  gen_builder *b = e->b;
  const gemm_plan *plan = e->plan;
  gen_value at = place_of(e, index), own = gen_add(b, at, gen_mul_imm(b, p->thread, 4));
  int n = 0, segments = plan->block_n / plan->segment, first = rows_bytes(plan);
  for (int row = 0; row < rows_bytes(plan) / 4; row += THREADS)
    gen_store_shared(b, values[n++], gen_add_imm(b, own, row * 4));
  gen_branch some;
  if (n == p->n) return;
  gen_if(b, &some, gen_compare_imm(b, GEN_ULT, p->thread, segments), NULL, 0);
  for (; n < p->n; n++, first += segments * 4) gen_store_shared(b, values[n], gen_add_imm(b, own, first));
  gen_if_end(b, &some);
}

/* A round of the loop takes UNDER_WAY steps, each by registers of its own, which are asked for anew as soon
 * as they have been left: values that moved on from register to register would be waited for on the way. */
static gen_stage bring_item(bringer *p, gen_stage at) {
  gemm_emitter *e = p->e;
  gen_builder *b = e->b;
  gen_value carried[CARRIED] = {gen_i32(b, 0), at.index, at.parity}, *waiting = carried + 3, values[MOST];
  for (int i = 0; i < UNDER_WAY; i++) {
    load_step(p, gen_i32(b, i), values);
    for (int k = 0; k < p->n; k++) waiting[i * p->n + k] = values[k];
  }
  gen_value first_lane = gen_compare_imm(b, GEN_EQ, gen_and(b, p->thread, gen_i32(b, 31)), 0);
  gen_loop loop;
  gen_loop_begin(b, &loop, carried, 3 + UNDER_WAY * p->n);
  gen_value step = carried[0];
  at = (gen_stage){carried[1], carried[2]};
  for (int i = 0; i < UNDER_WAY; i++) {
    gen_branch exists;
    gen_value after[] = {at.index, at.parity};
    gen_if(b, &exists, gen_compare(b, GEN_ULT, gen_add_imm(b, step, i), p->item.steps), after, 2);
    gen_pipeline_wait_free(b, &e->scale_ring, at);
    leave_step(p, at.index, waiting + i * p->n);
    gen_warp_sync(b);
    gen_pipeline_fill(b, &e->scale_ring, at.index, first_lane);
    gen_stage next = gen_pipeline_advance(b, &e->scale_ring, at);
    after[0] = next.index;
    after[1] = next.parity;
    gen_if_end(b, &exists);
    at = (gen_stage){after[0], after[1]};
    load_step(p, gen_add_imm(b, step, i + UNDER_WAY), values);
    for (int k = 0; k < p->n; k++) waiting[i * p->n + k] = values[k];
  }
  carried[0] = gen_add_imm(b, step, UNDER_WAY);
  carried[1] = at.index;
  carried[2] = at.parity;
  gen_loop_end_while(b, &loop, gen_compare(b, GEN_ULT, carried[0], p->item.steps));
  return (gen_stage){carried[1], carried[2]};
}

void gemm_emit_scales(gemm_emitter *e, gen_value thread) {
  gen_builder *b = e->b;
  gemm_walk walk = {
      .place = gemm_first_place(e), .step = e->unit_step, .stage = gen_pipeline_producer_start(b)};
  gemm_walk_begin(e, &walk);
  bringer p = {.e = e, .item = gemm_item_at(e, walk.place), .thread = thread};
  p.tile = gemm_tiles_at(e, p.item.unit);
  walk.stage = bring_item(&p, walk.stage);
  gemm_walk_end(e, &walk);
}

/* --- consumers --- */

/* Scales that lie one after the other, four at a time where they may. */
static void take(gen_builder *b, gen_value at, int n, gen_value *values) {
  for (int i = 0; i < n;) {
    int wide = n - i >= 4 ? 4 : 1;
    gen_value all = gen_load_shared(b, GEN_F32, wide, gen_add_imm(b, at, i * 4));
    for (int k = 0; k < wide; k++) values[i++] = wide == 1 ? all : gen_lane(b, all, k);
  }
}

void gemm_take_scales(gemm_consumer *c, gen_stage at, gen_value *rows, gen_value *columns) {
  gemm_emitter *e = c->e;
  gen_builder *b = e->b;
  const gemm_plan *plan = e->plan;
  gen_value lane = gen_and(b, c->thread, gen_i32(b, 31)), warp = gen_lshr(b, c->thread, gen_i32(b, 5));
  gen_value row = gen_add(b, gen_mul_imm(b, warp, 16), gen_lshr(b, lane, gen_i32(b, 2)));
  gen_pipeline_wait(b, &e->scale_ring, at);
  gen_value place = place_of(e, at.index);
  gen_value own = gen_add(b, place, gen_mul_imm(b, gen_add(b, c->store.row, row), 4));
  for (int i = 0; rows_bytes(plan) > 0 && i < plan->group_rows / 32; i++)
    rows[i] = gen_load_shared(b, GEN_F32, 1, gen_add_imm(b, own, (i / 2 * 64 + i % 2 * 8) * 4));
  take(b, gen_add_imm(b, place, rows_bytes(plan)), segments_of(plan), columns);
  gen_warp_sync(b);
  gen_pipeline_leave(b, &e->scale_ring, at.index, gen_compare_imm(b, GEN_EQ, lane, 0));
}
