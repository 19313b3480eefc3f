/* STAGED: scales within the sum come through shared memory. Two warps of the producer's group evaluate those
 * of the rows and columns of a tile and leave them in a ring of their own, some steps before they multiply
 * anything: a consumer that asked for them itself would wait for the L2 cache, which is busy with tiles, and
 * could not begin to multiply meanwhile. Neighbouring lanes ask for a batch of steps of one row: scales of
 * terms lie side by side, and a load takes the way to shared memory for every line it touches, on which
 * products read their operands: 128 lines a step, one for each row, were as many cycles. */
#include "generator/gen_barrier.h"
#include "generator/gen_memory.h"
#include "generator/gen_warp.h"
#include "templates/gemm_emit.h"

enum { WARPS = GEMM_SCALE_WARPS, THREADS = WARPS * 32, MOST_BATCH = 4, ROWS_OF_A_THREAD = 8 };
enum { MOST = 32, CARRIED = 3 + MOST }; /* values of a thread in a batch */
_Static_assert(GEMM_SCALE_RING >= 2 * MOST_BATCH, "a batch waits in the ring while one is multiplied");

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
  int batch, at_once; /* steps; rows that all threads ask for at once */
  gen_value thread;
  gen_value own, in_batch; /* the thread's row of those, and its step of a batch */
  int n;                   /* values of a thread in a batch */
} bringer;

/* As many steps as registers of the producer's group have room for. */
static int batch_of(const gemm_plan *plan) {
  int batch = MOST_BATCH;
  while (batch > 1 && plan->block_m * batch > ROWS_OF_A_THREAD * THREADS) batch /= 2;
  return batch;
}

/* Of the batch that begins at step `step` of the item; behind its last one as of that: rows, `at_once` apart,
 * then segments of each sum. Rows and columns past the edges have those of the last. */
static void load_batch(bringer *p, gen_value step, gen_value *values) {
  gemm_emitter *e = p->e;
  gen_builder *b = e->b;
  const gemm_plan *plan = e->plan;
  const gemm_match *match = &plan->match;
  gen_value zero = gen_i32(b, 0), last_row = gen_add_imm(b, e->m, -1), last_column = gen_add_imm(b, e->n, -1);
  step = gen_umin(b, gen_add(b, step, p->in_batch), gen_add_imm(b, p->item.steps, -1));
  gen_value k = gen_mul_imm(b, gen_add(b, p->item.first, step), plan->block_k);
  /* Found anew for every batch: places of all rows would take more registers than a producer has. */
  gen_value own = gen_pin(b, p->own);
  p->n = 0;
  for (int first = 0; first < rows_bytes(plan) / 4; first += p->at_once) {
    gen_value row = gen_add(b, p->tile.row, gen_add_imm(b, own, first));
    values[p->n++] = gemm_load_scale(e, p->tile, match->operand_a, gen_umin(b, row, last_row), zero, k);
  }
  int segments = plan->block_n / plan->segment;
  for (int i = 0; i < match->n_sums; i++) {
    for (int first = 0; first < segments && gemm_has_scales(plan, match->operand_b[i]); first += p->at_once) {
      gen_value segment = gen_umin(b, gen_add_imm(b, own, first), gen_i32(b, segments - 1));
      gen_value column = gen_add(b, p->tile.column, gen_mul_imm(b, segment, plan->segment));
      values[p->n++] =
          gemm_load_scale(e, p->tile, match->operand_b[i], zero, gen_umin(b, column, last_column), k);
    }
  }
}

/* Into the ring's step `index`, the thread's own of the batch. */
static void leave_batch(bringer *p, gen_value index, const gen_value *values) {
  gemm_emitter *e = p->e;
  gen_builder *b = e->b;
  const gemm_plan *plan = e->plan;
  gen_value at = gen_add(b, place_of(e, index), gen_mul_imm(b, p->own, 4));
  int n = 0, segments = plan->block_n / plan->segment, place = rows_bytes(plan);
  for (int row = 0; row < rows_bytes(plan) / 4; row += p->at_once)
    gen_store_shared(b, values[n++], gen_add_imm(b, at, row * 4));
  for (int i = 0; i < plan->match.n_sums; i++) {
    if (!gemm_has_scales(plan, plan->match.operand_b[i])) continue;
    for (int first = 0; first < segments; first += p->at_once) {
      gen_branch some;
      gen_if(b, &some, gen_compare_imm(b, GEN_ULT, p->own, segments - first), NULL, 0);
      gen_store_shared(b, values[n++], gen_add_imm(b, at, place + first * 4));
      gen_if_end(b, &some);
    }
    place += segments * 4;
  }
}

/* What follows for each step of the batch at `step` that the item has, in order. */
typedef void (*step_fn)(bringer *p, gen_stage at, void *user);

static gen_stage each_step(bringer *p, gen_value step, gen_stage at, step_fn body, void *user) {
  gen_builder *b = p->e->b;
  for (int i = 0; i < p->batch; i++) {
    gen_branch exists;
    gen_value after[] = {at.index, at.parity};
    gen_if(b, &exists, gen_compare(b, GEN_ULT, gen_add_imm(b, step, i), p->item.steps), after, 2);
    body(p, at, user);
    gen_stage next = gen_pipeline_advance(b, &p->e->scale_ring, at);
    after[0] = next.index;
    after[1] = next.parity;
    gen_if_end(b, &exists);
    at = (gen_stage){after[0], after[1]};
  }
  return at;
}

static void wait_free(bringer *p, gen_stage at, void *user) {
  (void)user;
  gen_pipeline_wait_free(p->e->b, &p->e->scale_ring, at);
}

static void fill(bringer *p, gen_stage at, void *first_lane) {
  gen_pipeline_fill(p->e->b, &p->e->scale_ring, at.index, *(gen_value *)first_lane);
}

/* What the next batch takes is asked for as soon as this one's registers have been left. */
static gen_stage bring_item(bringer *p, gen_stage at) {
  gemm_emitter *e = p->e;
  gen_builder *b = e->b;
  gen_value carried[CARRIED] = {gen_i32(b, 0), at.index, at.parity};
  load_batch(p, carried[0], carried + 3);
  gen_value first_lane = gen_compare_imm(b, GEN_EQ, gen_and(b, p->thread, gen_i32(b, 31)), 0);
  gen_loop loop;
  gen_loop_begin(b, &loop, carried, 3 + p->n);
  gen_value step = carried[0];
  at = (gen_stage){carried[1], carried[2]};
  gen_stage behind = each_step(p, step, at, wait_free, NULL);
  gen_branch exists;
  gen_value own = gen_add(b, at.index, p->in_batch);
  gen_value around = gen_compare_imm(b, GEN_UGE, own, GEMM_SCALE_RING);
  own = gen_select(b, around, gen_add_imm(b, own, -GEMM_SCALE_RING), own);
  gen_if(b, &exists, gen_compare(b, GEN_ULT, gen_add(b, step, p->in_batch), p->item.steps), NULL, 0);
  leave_batch(p, own, carried + 3);
  gen_if_end(b, &exists);
  gen_warp_sync(b);
  each_step(p, step, at, fill, &first_lane);
  carried[0] = gen_add_imm(b, step, p->batch);
  carried[1] = behind.index;
  carried[2] = behind.parity;
  load_batch(p, carried[0], carried + 3);
  gen_loop_end_while(b, &loop, gen_compare(b, GEN_ULT, carried[0], p->item.steps));
  return (gen_stage){carried[1], carried[2]};
}

void gemm_emit_scales(gemm_emitter *e, gen_value thread) {
  gen_builder *b = e->b;
  gemm_walk walk = {
      .place = gemm_first_place(e), .step = e->unit_step, .stage = gen_pipeline_producer_start(b)};
  gemm_walk_begin(e, &walk);
  bringer p = {.e = e, .item = gemm_item_at(e, walk.place), .thread = thread, .batch = batch_of(e->plan)};
  p.at_once = THREADS / p.batch;
  p.own = gen_lshr(b, thread, gen_i32(b, __builtin_ctz((unsigned)p.batch)));
  p.in_batch = gen_and(b, thread, gen_i32(b, p.batch - 1));
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
  gen_value scales[GEMM_MOST_SCALES];
  take(b, gen_add_imm(b, place, rows_bytes(plan)), segments_of(plan), scales);
  for (int i = 0, n = 0; i < plan->match.n_sums && segments_of(plan) > 0; i++) {
    bool scaled = gemm_has_scales(plan, plan->match.operand_b[i]);
    for (int k = 0; k < plan->block_n / plan->segment; k++) *columns++ = scaled ? scales[n++] : gen_f32(b, 1);
  }
  gen_warp_sync(b);
  gen_pipeline_leave(b, &e->scale_ring, at.index, gen_compare_imm(b, GEN_EQ, lane, 0));
}
