/* The producer thread: fills pipeline stages with the tiles of A and B along K. */
#include "generator/gen_tma.h"
#include "templates/gemm_emit.h"

gemm_source gemm_source_of(gemm_emitter *e, const gemm_view *view, gen_value map, gemm_tile tile) {
  gemm_source s = {.view = view, .map = map};
  gemm_coordinates(e, view, tile, s.at);
  const ir_access *x = &e->plan->match.c->form.accesses[view->access];
  for (int i = 0; i < view->rank; i++)
    if (!s.at[i]) s.terms[i] = x->subscripts[view->subscript[i]].e->id;
  return s;
}

/* Copies a part of an operand into a stage: its panels, or this CTA's share of each, for all sharers.
 * `terms`: the first ones', by loop. */
static void load_part(gemm_emitter *e, const gemm_operand *o, const gemm_source *s, gen_value shared,
                      const gen_value *terms, gen_value full) {
  gen_builder *b = e->b;
  int share_rows = o->copy_height / o->shares;
  unsigned mask = o->shares > 1 ? (1u << o->shares) - 1 : 0;
  gen_value at[GEMM_MAP_RANK];
  for (int i = 0; i < s->view->rank; i++) at[i] = s->at[i] ? s->at[i] : terms[s->terms[i]];
  if (o->shares > 1) {
    at[1] = gen_add(b, at[1], gen_mul_imm(b, e->rank, share_rows));
    shared = gen_add(b, shared, gen_mul_imm(b, e->rank, share_rows * (int)o->swizzle));
  }
  gen_value inner = at[0];
  for (int i = 0; i < o->panels; i++) {
    at[0] = gen_add_imm(b, inner, i * o->panel_width);
    gen_tma_load(b, gen_add_imm(b, shared, i * o->panel_bytes), s->map, at, s->view->rank, full, mask);
  }
}

/* packs_columns: part number `part` of B of a tile of so many columns, behind those before it. */
static void load_columns(gemm_emitter *e, const gemm_source *s, int part, gen_value width, gen_value shared,
                         const gen_value *terms, gen_value full) {
  gen_builder *b = e->b;
  const gemm_plan *plan = e->plan;
  gemm_source steps = *s;
  steps.map = gen_param(b, e->kernel->map_b_steps[part]);
  shared = gen_add(b, shared, gen_mul_imm(b, width, part * (int)plan->b.swizzle));
  load_part(e, &plan->b, s, shared, terms, full);
  for (int columns = gemm_narrowest(plan); columns < plan->block_n; columns += GEMM_EVEN_STEP) {
    gen_branch branch;
    gen_if(b, &branch, gen_compare_imm(b, GEN_SGT, width, columns), NULL, 0);
    steps.at[1] = gen_add_imm(b, s->at[1], columns);
    load_part(e, &plan->b, &steps, gen_add_imm(b, shared, columns * (int)plan->b.swizzle), terms, full);
    gen_if_end(b, &branch);
  }
}

void gemm_load_b(gemm_emitter *e, const gemm_source *of_b, gen_value width, gen_value stage,
                 const gen_value *terms, gen_value full) {
  gen_builder *b = e->b;
  const gemm_plan *plan = e->plan;
  for (int i = 0; i < plan->match.n_sums; i++) {
    gen_value first = gen_add_imm(b, stage, plan->a.bytes);
    if (plan->packs_columns) {
      load_columns(e, &of_b[i], i, width, first, terms, full);
    } else {
      load_part(e, &plan->b, &of_b[i], gen_add_imm(b, first, i * plan->b.part_bytes), terms, full);
    }
  }
}

/* At one of an item's steps: when the ring has first been filled, so that its copies go ahead. */
static void fetch_reads(gemm_emitter *e, gemm_item item, gemm_tile tile, gen_value width, gen_value step) {
  gen_builder *b = e->b;
  gen_branch now;
  if (e->plan->match.n_reads == 0) return;
  gen_value after = gen_umin(b, gen_add_imm(b, item.steps, -1), gen_i32(b, e->plan->stages));
  gen_if(b, &now, gen_compare(b, GEN_EQ, step, gen_add(b, item.first, after)), NULL, 0);
  gemm_reads_fetch(e, tile, width);
  gen_if_end(b, &now);
}

static gen_stage load_item(gemm_emitter *e, gemm_item item, gen_stage at) {
  gen_builder *b = e->b;
  const gemm_plan *plan = e->plan;
  const gemm_match *match = &plan->match;
  gemm_tile tile = gemm_tiles_at(e, item.unit);
  gemm_source of_a = gemm_source_of(e, &match->a, e->map_a, tile), of_b[CONTRACTION_SUMS];
  for (int i = 0; i < match->n_sums; i++) of_b[i] = gemm_source_of(e, &match->b[i], e->map_b[i], tile);
  gen_value width = NULL, bytes = NULL;
  if (plan->packs_columns || (plan->even && plan->read_panel_bytes > 0))
    width = gemm_even_width_alone(e, item.unit);
  if (plan->packs_columns) {
    int of_column = plan->b.panels * (int)plan->b.swizzle * match->n_sums;
    bytes = gen_add_imm(b, gen_mul_imm(b, width, of_column), plan->a.bytes);
  }
  gen_value end = gen_add(b, item.first, item.steps);
  gen_loop loop;
  gen_value carried[] = {item.first, at.index, at.parity};
  gen_loop_begin(b, &loop, carried, 3);
  gen_value step = carried[0];
  at = (gen_stage){carried[1], carried[2]};
  gen_value full = bytes ? gen_pipeline_acquire_some(b, &e->pipeline, at, bytes)
                         : gen_pipeline_acquire(b, &e->pipeline, at, plan->stage_bytes);
  gen_value stage = gen_add(b, e->smem, gen_mul_imm(b, at.index, plan->stage_bytes));
  gen_value terms[IR_FORM_LOOPS] = {NULL};
  gemm_terms_at(e, step, terms);
  load_part(e, &plan->a, &of_a, stage, terms, full);
  gemm_load_b(e, of_b, width, stage, terms, full);
  fetch_reads(e, item, tile, width, step);
  at = gen_pipeline_advance(b, &e->pipeline, at);
  carried[0] = gen_add_imm(b, step, 1);
  carried[1] = at.index;
  carried[2] = at.parity;
  gen_loop_end_while(b, &loop, gen_compare(b, GEN_ULT, carried[0], end));
  at = (gen_stage){carried[1], carried[2]};
  if (plan->stream) at = gemm_stream_load(e, item, at);
  return gemm_reads_load(e, tile, width, at);
}

void gemm_emit_producer(gemm_emitter *e) {
  gemm_walk walk = {
      .place = gemm_first_place(e), .step = e->unit_step, .stage = gen_pipeline_producer_start(e->b)};
  gemm_walk_begin(e, &walk);
  walk.stage = load_item(e, gemm_item_at(e, walk.place), walk.stage);
  gemm_walk_end(e, &walk);
}
