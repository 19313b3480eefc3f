/* The producer thread: fills pipeline stages with the tiles of A and B along K. */
#include "generator/gen_tma.h"
#include "templates/gemm_emit.h"

/* Copies one operand's part of a stage: its panels, or this CTA's share of each, for all sharers. `free` is
 * the first row or column of the tile, `k` the first element along K. */
static void load_operand(gemm_emitter *e, const gemm_operand *o, gen_value map, gen_value shared,
                         gen_value free, gen_value k, gen_value full) {
  gen_builder *b = e->b;
  int share_rows = o->panel_height / o->shares;
  unsigned mask = o->shares > 1 ? (1u << o->shares) - 1 : 0;
  gen_value inner = o->k_major ? k : free, outer = o->k_major ? free : k;
  if (o->shares > 1) {
    outer = gen_add(b, outer, gen_mul_imm(b, e->rank, share_rows));
    shared = gen_add(b, shared, gen_mul_imm(b, e->rank, share_rows * o->panel_width * 2));
  }
  for (int i = 0; i < o->panels; i++) {
    gen_tma_load_2d(b, gen_add_imm(b, shared, i * o->panel_bytes), map,
                    gen_add_imm(b, inner, i * o->panel_width), outer, full, mask);
  }
}

static gen_stage load_item(gemm_emitter *e, gemm_item item, gen_stage at) {
  gen_builder *b = e->b;
  const gemm_plan *plan = e->plan;
  gemm_tile tile = gemm_tiles_at(e, item.unit);
  gen_value end = gen_add(b, item.first, item.steps);
  gen_loop loop;
  gen_value carried[] = {item.first, at.index, at.parity};
  gen_loop_begin(b, &loop, carried, 3);
  gen_value step = carried[0];
  at = (gen_stage){carried[1], carried[2]};
  gen_value full = gen_pipeline_acquire(b, &e->pipeline, at, plan->stage_bytes);
  gen_value stage = gen_add(b, e->smem, gen_mul_imm(b, at.index, plan->stage_bytes));
  gen_value k = gen_mul_imm(b, step, plan->block_k);
  load_operand(e, &plan->a, e->map_a, stage, tile.row, k, full);
  load_operand(e, &plan->b, e->map_b, gen_add_imm(b, stage, plan->a.bytes), tile.column, k, full);
  at = gen_pipeline_advance(b, &e->pipeline, at);
  carried[0] = gen_add_imm(b, step, 1);
  carried[1] = at.index;
  carried[2] = at.parity;
  gen_loop_end_while(b, &loop, gen_compare(b, GEN_ULT, carried[0], end));
  at = (gen_stage){carried[1], carried[2]};
  return plan->stream ? gemm_stream_load(e, item, at) : at;
}

void gemm_emit_producer(gemm_emitter *e) {
  gemm_walk walk = {
      .place = gemm_first_place(e), .step = e->unit_step, .stage = gen_pipeline_producer_start(e->b)};
  gemm_walk_begin(e, &walk);
  walk.stage = load_item(e, gemm_item_at(e, walk.place), walk.stage);
  gemm_walk_end(e, &walk);
}
