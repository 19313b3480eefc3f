/* The producer's thread: keeps the ring full by tensor copies. */
#include "generator/gen_control.h"
#include "generator/gen_tma.h"
#include "templates/slim.h"

/* The step that a CTA takes as number `step` (begin to end): staggered ones begin somewhere between and come
 * round. CTAs run in step, so that all would ask for the same terms of the tokens at once, of a few slices of
 * the L2 cache, and for addresses of weights that differ in their upper bits alone. */
static gen_value taken(slim_emitter *e, gen_value step) {
  gen_builder *b = e->b;
  if (!e->p->staggered) return step;
  gen_value at = gen_add(b, step, e->ahead), around = gen_sub(b, at, gen_sub(b, e->end, e->begin));
  return gen_select(b, gen_compare(b, GEN_ULT, at, e->end), at, around);
}

static void load_operand(slim_emitter *e, int operand, gen_value stage, gen_value k, gen_value full) {
  gen_builder *b = e->b;
  const slim_operand *o = &e->m->operands[operand];
  const slim_tile *tile = &e->p->tiles[operand];
  gen_value row = e->places[operand], map = gen_param(b, e->k->maps[operand]);
  gen_value inner = o->along_rows ? row : k, outer = o->along_rows ? k : row;
  for (int i = 0; i < tile->panels; i++) {
    gen_tma_load_2d_cached(b, gen_add_imm(b, stage, tile->offset + i * tile->panel_bytes), map,
                           gen_add_imm(b, inner, i * SLIM_PANEL), outer, full,
                           o->token ? GEN_CACHE_DEFAULT : e->p->loads);
  }
}

void slim_produce(slim_emitter *e, const gen_pipeline *pipeline) {
  gen_builder *b = e->b;
  const slim_plan *p = e->p;
  gen_stage at = gen_pipeline_producer_start(b);
  gen_value carried[] = {e->begin, at.index, at.parity};
  gen_loop loop;
  gen_loop_begin(b, &loop, carried, 3);
  gen_loop_while(b, &loop, gen_compare(b, GEN_ULT, carried[0], e->end));
  at = (gen_stage){carried[1], carried[2]};
  gen_value full = gen_pipeline_acquire(b, pipeline, at, p->stage_bytes);
  gen_value stage = gen_add(b, e->smem, gen_mul_imm(b, at.index, p->stage_bytes));
  gen_value k = gen_mul_imm(b, taken(e, carried[0]), p->block_k);
  for (int i = 0; i < e->m->c.n_operands; i++) load_operand(e, i, stage, k, full);
  at = gen_pipeline_advance(b, pipeline, at);
  carried[0] = gen_add_imm(b, carried[0], 1);
  carried[1] = at.index;
  carried[2] = at.parity;
  gen_loop_end(b, &loop);
}
