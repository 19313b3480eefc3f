/* Sums that leave the matrix unit after every stage: it multiplies a part of the tile's columns at a time
 * into a partial sum, which is added to the tile's sums in f32, times the scales of its rows, columns and
 * terms. So scales of blocks of terms need not multiply elements, and sums of 8-bit floats, which the unit
 * adds with 13 fraction bits, do not lose more with every stage. While one consumer group adds, the unit is
 * busy with the other's products. */
#include "generator/gen_convert.h"
#include "generator/gen_math.h"
#include "templates/gemm_emit.h"

enum { MOST_SCALES = 16 };

/* Scales of a stage: of this thread's rows, 8 apart, in all row tiles, then of B's blocks of columns, sum by
 * sum. */
typedef struct promotion {
  gemm_consumer *c;
  gemm_item item;
  gemm_tile tile;
  gen_value row;                       /* this thread's first */
  int n_rows, n_columns, columns_each; /* scales; of a sum */
} promotion;

static bool has_scales(const gemm_plan *plan, int operand) {
  return plan->match.c->operands[operand].n_factors > 1;
}

static promotion start(gemm_consumer *c, gemm_item item) {
  gen_builder *b = c->e->b;
  const gemm_plan *plan = c->e->plan;
  const gemm_match *match = &plan->match;
  promotion p = {.c = c, .item = item};
  if (match->block == 0) return p;
  p.tile = gemm_tiles_at(c->e, item.unit);
  gen_value lane = gen_and(b, c->thread, gen_i32(b, 31)), warp = gen_lshr(b, c->thread, gen_i32(b, 5));
  gen_value in_group = gen_add(b, gen_mul_imm(b, warp, 16), gen_lshr(b, lane, gen_i32(b, 2)));
  p.row = gen_add(b, gen_add(b, p.tile.row, c->store.row), in_group);
  if (has_scales(plan, match->operand_a)) p.n_rows = plan->group_rows / 32;
  p.columns_each =
      match->block_n > 0 && plan->block_n > match->block_n ? plan->block_n / (int)match->block_n : 1;
  for (int i = 0; i < match->n_sums; i++)
    if (has_scales(plan, match->operand_b[i])) p.n_columns = match->n_sums * p.columns_each;
  if (p.n_rows + p.n_columns > MOST_SCALES)
    gen_misuse(b, "a thread has %d scales, more than %d", p.n_rows + p.n_columns, MOST_SCALES);
  return p;
}

/* The product of an operand's scales at a row, a column and the terms of stage `step` of the item. */
static arke_status load_scale(promotion *p, int operand, gen_value row, gen_value column, gen_value step,
                              gen_value *scale) {
  gemm_emitter *e = p->c->e;
  gen_builder *b = e->b;
  const gemm_plan *plan = e->plan;
  const contraction_operand *o = &plan->match.c->operands[operand];
  int element = gemm_element_factor(plan->match.c, operand);
  gen_value k = gen_mul_imm(b, gen_add(b, p->item.first, step), plan->block_k);
  lanes *l;
  TRY(lanes_create(b, &plan->match.c->form, &plan->scales, &e->kernel->scale_slots, e->kernel->a, &l,
                   e->err));
  gemm_set_loops(e, l, p->tile, row, column);
  gemm_set_terms(e, l, k);
  *scale = NULL;
  for (int i = 0; i < o->n_factors; i++)
    if (i != element) TRY(lanes_load(l, o->factors[i], e->err));
  for (int i = 0; i < o->n_factors; i++) {
    gen_value value;
    int n;
    if (i == element) continue;
    TRY(lanes_eval(l, o->factors[i], &value, &n, e->err));
    TRY(gen_convert(b, value, DTYPE_F32, &value, e->err));
    *scale = *scale ? gen_fmul(b, *scale, value) : value;
  }
  if (!*scale) *scale = gen_f32(b, 1);
  return ARKE_OK;
}

/* Of stage `step`, or of the last one: past the edges those of the last row and column. */
static void load_scales(promotion *p, gen_value step, gen_value *scales) {
  gemm_emitter *e = p->c->e;
  gen_builder *b = e->b;
  const gemm_match *match = &e->plan->match;
  if (p->n_rows + p->n_columns > MOST_SCALES) return;
  gen_value zero = gen_i32(b, 0), last_row = gen_add_imm(b, e->m, -1), last_column = gen_add_imm(b, e->n, -1);
  step = gen_umin(b, step, gen_add_imm(b, p->item.steps, -1));
  for (int i = 0; i < p->n_rows + p->n_columns; i++) scales[i] = gen_f32(b, 0);
  for (int i = 0; i < p->n_rows && e->status == ARKE_OK; i++) {
    gen_value row = gen_umin(b, gen_add_imm(b, p->row, i / 2 * 64 + i % 2 * 8), last_row);
    gemm_note(e, load_scale(p, match->operand_a, row, zero, step, &scales[i]));
  }
  for (int i = 0; i < p->n_columns && e->status == ARKE_OK; i++) {
    gen_value column = gen_add_imm(b, p->tile.column, i % p->columns_each * match->block_n);
    gemm_note(e, load_scale(p, match->operand_b[i / p->columns_each], zero, gen_umin(b, column, last_column),
                            step, &scales[p->n_rows + i]));
  }
}

/* Columns of all sums, which lie side by side. */
static int all_columns(const gemm_plan *plan) {
  return plan->match.n_sums * plan->block_n;
}

/* sums += partial * scales, of part `part` of a row tile. */
static void add_part(promotion *p, int row_tile, int part, const gen_value *scales, const gen_value *partial,
                     gen_value *sums) {
  gen_builder *b = p->c->e->b;
  const gemm_plan *plan = p->c->e->plan;
  const gemm_match *match = &plan->match;
  int column = part * plan->part_n, n = plan->part_n / 2;
  gen_value factors[2] = {NULL, NULL}, *to = sums + row_tile * all_columns(plan) / 2 + column / 2;
  int block = column / plan->block_n * p->columns_each;
  if (match->block_n > 0) block += column % plan->block_n / (int)match->block_n;
  for (int i = 0; i < 2; i++) {
    if (p->n_rows > 0) factors[i] = scales[row_tile * 2 + i];
    if (p->n_columns == 0) continue;
    gen_value of_block = scales[p->n_rows + block];
    factors[i] = factors[i] ? gen_fmul(b, factors[i], of_block) : of_block;
  }
  for (int i = 0; i < n; i++) {
    gen_value x = partial[i], factor = factors[i / 2 % 2];
    if (gen_type_of(b, x) == GEN_I32) x = gen_int_to_float(b, x, GEN_F32, true);
    to[i] = factor ? gen_fma(b, x, factor, to[i]) : gen_fadd(b, x, to[i]);
  }
}

/* Partial sum number `i` of a stage: row tile by row tile, part by part in it. */
static void issue_part(const gemm_plan *plan, gen_builder *b, const gen_wgmma *products, int i, gen_value a,
                       gen_value of_b, gen_value *partial) {
  int parts = all_columns(plan) / plan->part_n;
  a = gen_add_imm(b, a, i / parts * products->a.tile_offset >> 4);
  of_b = gen_add_imm(b, of_b, i % parts * plan->part_n * (int)plan->b.swizzle >> 4);
  gen_wgmma_issue(b, products, a, of_b, gen_bool(b, false), partial);
}

/* The partial sums of a stage, `in_flight` at a time: registers of one that has been added take the next. */
static void add_stage(promotion *p, gen_stage at, const gen_value *scales, gen_value a, gen_value of_b,
                      gen_value *sums) {
  gemm_emitter *e = p->c->e;
  gen_builder *b = e->b;
  const gemm_plan *plan = e->plan;
  enum { MOST_IN_FLIGHT = 2, MOST_PARTIAL = 64 };
  gen_wgmma products = gemm_products(plan, plan->part_n);
  int parts = all_columns(plan) / plan->part_n, all = products.tiles * parts;
  int flying = plan->in_flight < all ? plan->in_flight : all;
  gen_value partial[MOST_IN_FLIGHT][MOST_PARTIAL];
  for (int i = 0; i < MOST_IN_FLIGHT * MOST_PARTIAL; i++)
    partial[i / MOST_PARTIAL][i % MOST_PARTIAL] = gen_undefined(b, gen_wgmma_sum(plan->match.type.a));
  products.tiles = 1;
  for (int i = 0; i < flying; i++) issue_part(plan, b, &products, i, a, of_b, partial[i]);
  for (int i = 0; i < all; i++) {
    gen_value *mine = partial[i % flying];
    int behind = all - 1 - i;
    gen_wgmma_wait(b, behind < flying - 1 ? behind : flying - 1, mine, plan->part_n / 2);
    if (behind == 0) gen_pipeline_release(b, &e->pipeline, at.index, p->c->thread, NULL);
    add_part(p, i / parts, i % parts, scales, mine, sums);
    if (behind >= flying) issue_part(plan, b, &products, i + flying, a, of_b, mine);
  }
}

void gemm_promote(gemm_consumer *c, const gemm_pending *pending, gemm_item item, gen_value *acc) {
  gemm_emitter *e = c->e;
  gen_builder *b = e->b;
  const gemm_plan *plan = e->plan;
  promotion p = start(c, item);
  gen_value first_a, first_b;
  gemm_descriptors(c, &first_a, &first_b);

  enum { STEP, STAGE, PARITY, SCALES };
  gen_value carried[SCALES + MOST_SCALES + GEN_WGMMA_MAX_ACCUMULATORS] = {
      [STEP] = gen_i32(b, 0), [STAGE] = c->walk.stage.index, [PARITY] = c->walk.stage.parity};
  int n_scales = p.n_rows + p.n_columns, sums = SCALES + n_scales;
  load_scales(&p, gen_i32(b, 0), carried + SCALES);
  for (int i = 0; i < plan->accumulators; i++) carried[sums + i] = gen_f32(b, 0);
  gen_loop loop;
  gen_loop_begin(b, &loop, carried, sums + plan->accumulators);
  gen_value step = carried[STEP], next_scales[MOST_SCALES];
  gen_stage now = {carried[STAGE], carried[PARITY]};
  gen_pipeline_wait(b, &e->pipeline, now);
  /* The next stage's are on their way while this one is multiplied. */
  load_scales(&p, gen_add_imm(b, step, 1), next_scales);
  gen_value offset = gen_zext(b, gen_mul_imm(b, now.index, plan->stage_bytes >> 4), GEN_I64);
  add_stage(&p, now, carried + SCALES, gen_add(b, first_a, offset), gen_add(b, first_b, offset),
            carried + sums);
  if (pending) gemm_store_pending(c, pending, step);
  gen_stage next = gen_pipeline_advance(b, &e->pipeline, now);
  carried[STEP] = gen_add_imm(b, step, 1);
  carried[STAGE] = next.index;
  carried[PARITY] = next.parity;
  for (int i = 0; i < n_scales; i++) carried[SCALES + i] = next_scales[i];
  gen_loop_end_while(b, &loop, gen_compare(b, GEN_ULT, carried[STEP], item.steps));
  c->walk.stage = (gen_stage){carried[STAGE], carried[PARITY]};
  for (int i = 0; i < plan->accumulators; i++) acc[i] = carried[sums + i];
}
