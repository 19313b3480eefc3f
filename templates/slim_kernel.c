/* The kernel up to the sums: its place, the consumers' warp groups. */
#include "generator/gen_barrier.h"
#include "generator/gen_cluster.h"
#include "generator/gen_control.h"
#include "generator/gen_memory.h"
#include "generator/gen_tma.h"
#include "generator/gen_warp.h"
#include "templates/slim.h"

enum { STEP_K = 16, MOST_STEPS = 16 };

/* CTAs of a cluster share K; tiles of tokens that share weights follow one another. */
static void find_place(slim_emitter *e) {
  gen_builder *b = e->b;
  const slim_plan *p = e->p;
  gen_value tiles = gen_param(b, e->k->token_tiles), steps = gen_param(b, e->k->k_steps);
  gen_value unit = gen_lshr(b, gen_ctaid_x(b), gen_i32(b, 31 - __builtin_clz((unsigned)p->cluster)));
  e->part = gen_and(b, gen_ctaid_x(b), gen_i32(b, p->cluster - 1));
  gen_value row_tile = gen_udiv(b, unit, tiles);
  e->first_row = gen_mul_imm(b, row_tile, p->rows);
  e->first_token = gen_mul_imm(b, gen_urem(b, unit, tiles), p->tokens);
  gen_value of_parts = gen_i32(b, p->cluster);
  e->begin = gen_udiv(b, gen_mul(b, steps, e->part), of_parts);
  e->end = gen_udiv(b, gen_mul(b, steps, gen_add_imm(b, e->part, 1)), of_parts);
  if (!p->staggered) return;
  gen_value any = gen_compare(b, GEN_ULT, e->begin, e->end);
  e->ahead = gen_urem(b, row_tile, gen_select(b, any, gen_sub(b, e->end, e->begin), gen_i32(b, 1)));
}

/* Rows of tensors at the tile's beginning. */
static arke_status find_rows(slim_emitter *e, arke_error *err) {
  lanes_options o = e->k->each;
  o.loop = -1;
  o.width = 1;
  lanes *l;
  TRY(lanes_create(e->b, &e->m->c.form, &o, &e->k->slots, e->k->a, &l, err));
  slim_set_loop(e, l, e->m->token_loop, e->first_token);
  slim_set_loop(e, l, e->m->row_loop, e->first_row);
  for (int i = 0; i < e->m->c.n_operands; i++) {
    const slim_operand *x = &e->m->operands[i];
    e->places[i] = x->token ? e->first_token : e->first_row;
    if (!x->place || x->place->node == IR_INDEX) continue;
    int n;
    TRY(lanes_eval(l, x->place, &e->places[i], &n, err));
    if (gen_type_of(e->b, e->places[i]) == GEN_I64) e->places[i] = gen_trunc(e->b, e->places[i], GEN_I32);
  }
  return ARKE_OK;
}

/* --- consumers --- */

static int chunks_of(const slim_plan *p) {
  return (p->block_k / STEP_K + MOST_STEPS - 1) / MOST_STEPS;
}

static int steps_of(const slim_plan *p) {
  return p->block_k / STEP_K / chunks_of(p);
}

/* Bytes from the tile's first element to step `step` along K. */
static int step_offset(const slim_operand *o, const slim_tile *tile, int step) {
  int of_panel = SLIM_PANEL / STEP_K;
  return o->along_rows ? step * STEP_K * SLIM_LINE_BYTES
                       : step / of_panel * tile->panel_bytes + step % of_panel * STEP_K * 2;
}

static int row_tile_offset(const slim_operand *o, const slim_tile *tile) {
  return o->along_rows ? tile->panel_bytes : SLIM_PANEL * SLIM_LINE_BYTES;
}

static gen_wgmma_operand view_of(const slim_emitter *e, int operand) {
  const slim_operand *o = &e->m->operands[operand];
  const slim_tile *tile = &e->p->tiles[operand];
  gen_wgmma_operand view = {.transposed = o->along_rows, .tile_offset = row_tile_offset(o, tile)};
  for (int i = 0; i < steps_of(e->p); i++) view.step_offset[i] = step_offset(o, tile, i);
  return view;
}

/* Of stage 0; other stages and later steps are so many bytes further. */
static gen_value descriptor_of(slim_emitter *e, int operand, gen_value group) {
  gen_builder *b = e->b;
  const slim_operand *o = &e->m->operands[operand];
  const slim_tile *tile = &e->p->tiles[operand];
  gen_value at = gen_add_imm(b, e->smem, tile->offset);
  if (o->token == e->p->turned)
    at = gen_add(b, at, gen_mul_imm(b, group, e->p->row_tiles * row_tile_offset(o, tile)));
  int leading = o->along_rows ? tile->panel_bytes : 16;
  return gen_wgmma_descriptor(b, at,
                              gen_wgmma_descriptor_bits(GEN_SWIZZLE_128, leading, 8 * SLIM_LINE_BYTES));
}

typedef struct consumer {
  slim_emitter *e;
  const gen_pipeline *pipeline;
  gen_value thread; /* of the group */
  gen_value descriptors[CONTRACTION_OPERANDS];
} consumer;

static gen_value moved(gen_builder *b, gen_value descriptor, gen_value stage, int bytes) {
  return gen_add_imm(b, gen_add(b, descriptor, stage), bytes >> 4);
}

/* Issues all products of a stage; `offset`: from stage 0, in a descriptor's units. */
static void issue(const consumer *c, gen_value offset, gen_value started, gen_value *sums) {
  slim_emitter *e = c->e;
  gen_builder *b = e->b;
  const slim_plan *p = e->p;
  for (int s = 0; s < e->m->c.n_sums; s++) {
    int weights = slim_weight_operand(e->m, s), tokens = slim_token_operand(e->m, s);
    int tall = p->turned ? tokens : weights, wide = p->turned ? weights : tokens;
    gen_wgmma products = {.type = e->m->type,
                          .b_type = e->m->type,
                          .n = p->columns,
                          .tiles = p->row_tiles,
                          .k_steps = steps_of(p),
                          .a = view_of(e, tall),
                          .b = view_of(e, wide)};
    for (int i = 0; i < chunks_of(p); i++) {
      int step = i * steps_of(p);
      int a = step_offset(&e->m->operands[tall], &p->tiles[tall], step),
          of_b = step_offset(&e->m->operands[wide], &p->tiles[wide], step);
      gen_wgmma_issue(b, &products, moved(b, c->descriptors[tall], offset, a),
                      moved(b, c->descriptors[wide], offset, of_b), i ? gen_bool(b, true) : started,
                      sums + s * p->accumulators);
    }
  }
}

/* At least one step. One stage's products run on while the stage before goes back to the producer. */
static void multiply(const consumer *c, gen_value *sums) {
  enum { STEP, STAGE, PARITY, BEFORE, SUMS };
  slim_emitter *e = c->e;
  gen_builder *b = e->b;
  const slim_plan *p = e->p;
  int n = p->accumulators * e->m->c.n_sums, groups = chunks_of(p) * e->m->c.n_sums;
  gen_stage at = gen_pipeline_consumer_start(b);
  gen_value carried[SUMS + GEN_WGMMA_MAX_ACCUMULATORS] = {e->begin, at.index, at.parity, gen_i32(b, 0)};
  for (int i = 0; i < n; i++) carried[SUMS + i] = gen_undefined(b, GEN_F32);
  gen_loop loop;
  gen_loop_begin(b, &loop, carried, SUMS + n);
  at = (gen_stage){carried[STAGE], carried[PARITY]};
  gen_pipeline_wait(b, c->pipeline, at);
  gen_value started = gen_compare(b, GEN_NE, carried[STEP], e->begin);
  gen_value offset = gen_zext(b, gen_mul_imm(b, at.index, p->stage_bytes >> 4), GEN_I64);
  issue(c, offset, started, carried + SUMS);
  gen_wgmma_wait(b, groups, carried + SUMS, n);
  gen_pipeline_release(b, c->pipeline, carried[BEFORE], c->thread, started);
  gen_stage next = gen_pipeline_advance(b, c->pipeline, at);
  carried[STEP] = gen_add_imm(b, carried[STEP], 1);
  carried[STAGE] = next.index;
  carried[PARITY] = next.parity;
  carried[BEFORE] = at.index;
  gen_loop_end_while(b, &loop, gen_compare(b, GEN_ULT, carried[STEP], e->end));
  gen_wgmma_wait(b, 0, carried + SUMS, n);
  for (int i = 0; i < n; i++) sums[i] = carried[SUMS + i];
}

static void consume(slim_emitter *e, const gen_pipeline *pipeline, gen_value group) {
  gen_builder *b = e->b;
  int n = e->p->accumulators * e->m->c.n_sums;
  consumer c = {.e = e, .pipeline = pipeline};
  c.thread = gen_and(b, gen_tid_x(b), gen_i32(b, SLIM_WARP_GROUP - 1));
  for (int i = 0; i < e->m->c.n_operands; i++) c.descriptors[i] = descriptor_of(e, i, group);
  gen_value sums[GEN_WGMMA_MAX_ACCUMULATORS];
  for (int i = 0; i < n; i++) sums[i] = gen_f32(b, 0);
  gen_branch some;
  gen_if(b, &some, gen_compare(b, GEN_ULT, e->begin, e->end), sums, n);
  multiply(&c, sums);
  gen_if_end(b, &some);
  /* All products have read their stages before sums are written over them. */
  gen_named_sync(b, gen_i32(b, 1), e->p->consumers * SLIM_WARP_GROUP);
  slim_put_sums(e, group, c.thread, sums);
}

/* --- the whole --- */

static void set_up(slim_emitter *e, gen_pipeline *pipeline) {
  gen_builder *b = e->b;
  gen_pipeline_create(b, pipeline, "stage", e->p->stages, e->p->consumers, 1);
  gen_branch first;
  gen_if(b, &first, gen_compare_imm(b, GEN_EQ, gen_tid_x(b), e->p->consumers * SLIM_WARP_GROUP), NULL, 0);
  for (int i = 0; i < e->m->c.n_operands; i++) gen_tma_prefetch_map(b, gen_param(b, e->k->maps[i]));
  gen_pipeline_init(b, pipeline);
  gen_mbarrier_init_fence(b);
  gen_if_end(b, &first);
  gen_warp_sync(b);
  gen_cta_sync(b);
}

/* The next launch may start early, unless its CTAs would come to lie unevenly: they take what room there is
 * beside this launch's, and the rest of them the SMs that this launch leaves first. With several CTAs of an
 * SM some then hold three where others have one, which costs long streams more than the start of a launch. */
static void release(slim_emitter *e) {
  enum { LONG_BYTES = 150000 };
  gen_builder *b = e->b;
  gen_branch early;
  if (e->p->alone) {
    gen_launches_release(b);
    return;
  }
  gen_value steps = gen_sub(b, e->end, e->begin), crowd = gen_param(b, e->k->crowd);
  gen_value is_short = gen_compare_imm(b, GEN_ULE, steps, LONG_BYTES / e->p->stage_bytes);
  gen_if(b, &early, gen_or(b, is_short, gen_compare_imm(b, GEN_ULE, crowd, 1)), NULL, 0);
  gen_launches_release(b);
  gen_if_end(b, &early);
}

arke_status slim_emit(gen_builder *b, const target *t, void *user, arke_error *err) {
  (void)t;
  slim_kernel *k = user;
  slim_emitter *e = ARENA_NEW(k->a, slim_emitter);
  gen_pipeline pipeline;
  gen_branch role, one;
  if (!e) return error_memory(err, "generate");
  *e = (slim_emitter){.b = b, .k = k, .p = &k->plan, .m = k->plan.m};
  k->current = e;
  e->smem = gen_shared_dynamic(b);
  find_place(e);
  release(e);
  TRY(find_rows(e, err));
  set_up(e, &pipeline);
  gen_launches_wait(b);
  gen_value group = gen_warp_uniform(b, gen_lshr(b, gen_tid_x(b), gen_i32(b, 7)));
  gen_value first = gen_compare_imm(b, GEN_EQ, gen_tid_x(b), e->p->consumers * SLIM_WARP_GROUP);
  gen_if(b, &role, gen_compare_imm(b, GEN_EQ, group, e->p->consumers), NULL, 0);
  gen_if(b, &one, first, NULL, 0);
  slim_produce(e, &pipeline);
  gen_if_end(b, &one);
  gen_warp_sync(b);
  gen_else(b, &role);
  consume(e, &pipeline, group);
  gen_if_end(b, &role);
  if (e->p->cluster > 1) {
    gen_cluster_sync(b);
  } else {
    gen_cta_sync(b);
  }
  TRY(slim_finish(e, err));
  if (e->p->cluster > 1) gen_cluster_sync(b); /* others may still read what this CTA has */
  return ARKE_OK;
}
