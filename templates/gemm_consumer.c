/* A consumer warp group: multiplies the stages of its tiles, keeping one group of products in flight, and
 * stores. */
#include "generator/gen_barrier.h"
#include "generator/gen_tma.h"
#include "templates/gemm_emit.h"

/* How a product reads an operand. Row tiles of 64 (A) are consecutive in a K-major panel, and whole panels in
 * the other order. */
static gen_wgmma_operand operand_view(const gemm_operand *o, int k_steps) {
  gen_wgmma_operand view = {.transposed = !o->k_major};
  for (int i = 0; i < k_steps; i++) {
    view.step_offset[i] = o->k_major ? i / 4 * o->panel_bytes + i % 4 * 32 : i * 16 * o->panel_width * 2;
  }
  view.tile_offset = o->k_major ? 64 * o->panel_width * 2 : 64 / o->panel_width * o->panel_bytes;
  return view;
}

static int64_t descriptor_bits(const gemm_operand *o) {
  int eight_rows = 8 * o->panel_width * 2;
  return gen_wgmma_descriptor_bits(o->swizzle, o->k_major ? 16 : o->panel_bytes, eight_rows);
}

static gen_wgmma products_of(const gemm_plan *plan) {
  int k_steps = plan->block_k / 16;
  return (gen_wgmma){.type = plan->type,
                     .n = plan->block_n,
                     .tiles = plan->group_rows / 64,
                     .k_steps = k_steps,
                     .a = operand_view(&plan->a, k_steps),
                     .b = operand_view(&plan->b, k_steps)};
}

/* Accumulates a tile over K from stage *at on, and leaves its last products in flight. Returns the index of
 * their stage, which is still to be released. `part` of the tile's rows is this group's. */
static gen_value multiply(gemm_emitter *e, gen_value part, gen_value thread, gen_stage *at, gen_value *acc) {
  gen_builder *b = e->b;
  const gemm_plan *plan = e->plan;
  gen_wgmma products = products_of(plan);
  gen_value own_a = gen_add(b, e->smem, gen_mul_imm(b, part, products.tiles * products.a.tile_offset));
  gen_value first_a = gen_wgmma_descriptor(b, own_a, descriptor_bits(&plan->a));
  gen_value first_b =
      gen_wgmma_descriptor(b, gen_add_imm(b, e->smem, plan->a.bytes), descriptor_bits(&plan->b));

  enum { STEP, STAGE, PARITY, BEFORE, SUMS };
  gen_value carried[SUMS + GEN_WGMMA_MAX_ACCUMULATORS] = {
      [STEP] = gen_i32(b, 0), [STAGE] = at->index, [PARITY] = at->parity, [BEFORE] = gen_i32(b, 0)};
  for (int i = 0; i < plan->accumulators; i++) carried[SUMS + i] = gen_undefined(b, GEN_F32);
  gen_loop loop;
  gen_loop_begin(b, &loop, carried, SUMS + plan->accumulators);
  gen_stage now = {carried[STAGE], carried[PARITY]};
  gen_pipeline_wait(b, &e->pipeline, now);
  gen_value offset = gen_zext(b, gen_mul_imm(b, now.index, plan->stage_bytes >> 4), GEN_I64);
  gen_value started = gen_compare_imm(b, GEN_NE, carried[STEP], 0);
  gen_wgmma_issue(b, &products, gen_add(b, first_a, offset), gen_add(b, first_b, offset), started,
                  carried + SUMS);
  /* These products run on while the stage before, whose products are now done, goes back to the producer. */
  gen_wgmma_wait(b, 1, carried + SUMS, plan->accumulators);
  gen_pipeline_release(b, &e->pipeline, carried[BEFORE], thread, started);
  gen_stage next = gen_pipeline_advance(b, &e->pipeline, now);
  carried[STEP] = gen_add_imm(b, carried[STEP], 1);
  carried[STAGE] = next.index;
  carried[PARITY] = next.parity;
  carried[BEFORE] = now.index;
  gen_loop_end_while(b, &loop, gen_compare(b, GEN_ULT, carried[STEP], e->k_steps));
  *at = (gen_stage){carried[STAGE], carried[PARITY]};
  for (int i = 0; i < plan->accumulators; i++) acc[i] = carried[SUMS + i];
  return carried[BEFORE];
}

static gen_value turn_barrier(gemm_emitter *e, gen_value group) {
  return gen_add(e->b, e->turns, gen_mul_imm(e->b, group, 8));
}

/* The tile of the current unit. Under ping-pong a group multiplies only in its turn, so that its epilogue
 * runs under the other's products. */
static void compute_tile(gemm_emitter *e, gemm_walk *walk, gen_value group, gen_value thread) {
  gen_builder *b = e->b;
  const gemm_plan *plan = e->plan;
  gen_value acc[GEN_WGMMA_MAX_ACCUMULATORS];
  if (plan->pingpong) gen_mbarrier_wait(b, turn_barrier(e, group), walk->turn, false);
  gen_value part = plan->pingpong ? gen_i32(b, 0) : group;
  gen_value last = multiply(e, part, thread, &walk->stage, acc);
  if (plan->pingpong) {
    gen_value other = gen_xor(b, group, gen_i32(b, 1));
    gen_mbarrier_arrive(b, turn_barrier(e, other), gen_compare_imm(b, GEN_EQ, thread, 0));
    walk->turn = gen_xor(b, walk->turn, gen_i32(b, 1));
    walk->stage = gen_pipeline_skip(b, &e->pipeline, walk->stage, e->k_steps); /* the other group's tile */
  }
  gen_wgmma_wait(b, 0, acc, plan->accumulators);
  gen_pipeline_release(b, &e->pipeline, last, thread, NULL);
  gemm_emit_epilogue(e, gemm_tiles_at(e, walk->unit), group, thread, acc);
}

void gemm_emit_consumer(gemm_emitter *e, gen_value group, gen_value thread) {
  gen_builder *b = e->b;
  gemm_walk walk = {
      .unit = e->unit, .step = e->unit_step, .stage = gen_pipeline_consumer_start(b), .turn = gen_i32(b, 0)};
  if (e->plan->pingpong) {
    /* Groups take units in turn. A fresh barrier lets group 0 begin; group 1 waits for the first arrival. */
    walk.unit = gen_add(b, e->unit, gen_mul(b, group, e->unit_step));
    walk.step = gen_mul_imm(b, e->unit_step, 2);
    walk.stage = gen_pipeline_skip(b, &e->pipeline, walk.stage, gen_mul(b, group, e->k_steps));
    walk.turn = gen_xor(b, group, gen_i32(b, 1));
  }
  gemm_walk_begin(e, &walk);
  compute_tile(e, &walk, group, thread);
  gemm_walk_end(e, &walk);
  /* Shared memory must outlive the last stores that read it. */
  gen_branch leader;
  gen_if(b, &leader, gen_compare_imm(b, GEN_EQ, thread, 0), NULL, 0);
  gen_tma_store_wait_read(b, 0);
  gen_if_end(b, &leader);
}
