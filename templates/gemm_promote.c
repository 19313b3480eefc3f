/* Sums that leave the matrix unit after every stage: it multiplies a part of the tile's columns at a time
 * into a partial sum, which is added to the tile's sums in f32, times the scales of its rows, columns and
 * terms. So scales of blocks of terms need not multiply elements, and sums of 8-bit floats, which the unit
 * adds with 13 fraction bits, do not lose more with every stage. While one consumer group adds, the unit is
 * busy with the other's products. */
#include "generator/gen_convert.h"
#include "generator/gen_math.h"
#include "templates/gemm_emit.h"

/* Scales of a stage: of this thread's rows, 8 apart, in all row tiles, then of B's blocks of columns, sum by
 * sum. */
typedef struct promotion {
  gemm_consumer *c;
  gemm_item item;
  gemm_tile tile;
  gen_value row;         /* this thread's first */
  int n_rows, n_columns; /* scales */
  int columns_each;      /* of a sum */
} promotion;

bool gemm_has_scales(const gemm_plan *plan, int operand) {
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
  if (gemm_has_scales(plan, match->operand_a)) p.n_rows = plan->group_rows / 32;
  p.columns_each = plan->block_n / plan->segment;
  for (int i = 0; i < match->n_sums; i++)
    if (gemm_has_scales(plan, match->operand_b[i])) p.n_columns = match->n_sums * p.columns_each;
  return p;
}

static arke_status evaluate_scale(gemm_emitter *e, gemm_tile tile, int operand, gen_value row,
                                  gen_value column, gen_value k, gen_value *scale) {
  gen_builder *b = e->b;
  const gemm_plan *plan = e->plan;
  const contraction_operand *of = &plan->match.c->operands[operand];
  int element = gemm_element_factor(plan->match.c, operand);
  lanes *l;
  lanes_options o = plan->scales;
  o.user = (void *)e->kernel;
  /* Rows of no group multiply zeros, by whatever scale. */
  if (tile.group)
    e->group = gen_umin(b, tile.group, gen_add_imm(b, gen_param(b, e->kernel->group_count), -1));
  TRY(lanes_create(b, &plan->match.c->form, &o, &e->kernel->scale_slots, e->kernel->a, &l, e->err));
  gemm_set_loops(e, l, tile, row, column);
  gemm_set_terms(e, l, k);
  *scale = NULL;
  for (int i = 0; i < of->n_factors; i++)
    if (i != element) TRY(lanes_load(l, of->factors[i], e->err));
  for (int i = 0; i < of->n_factors; i++) {
    gen_value value;
    int n;
    if (i == element) continue;
    TRY(lanes_eval(l, of->factors[i], &value, &n, e->err));
    TRY(gen_convert(b, value, DTYPE_F32, &value, e->err));
    *scale = *scale ? gen_fmul(b, *scale, value) : value;
  }
  if (!*scale) *scale = gen_f32(b, 1);
  return ARKE_OK;
}

gen_value gemm_load_scale(gemm_emitter *e, gemm_tile tile, int operand, gen_value row, gen_value column,
                          gen_value k) {
  gen_value scale = gen_f32(e->b, 0);
  if (e->status == ARKE_OK) gemm_note(e, evaluate_scale(e, tile, operand, row, column, k, &scale));
  return e->status == ARKE_OK ? scale : gen_f32(e->b, 0);
}

/* Of stage `step`, or of the last one: past the edges those of the last row and column. */
static void load_scales(promotion *p, gen_value step, gen_value *scales) {
  gemm_emitter *e = p->c->e;
  gen_builder *b = e->b;
  const gemm_match *match = &e->plan->match;
  gen_value zero = gen_i32(b, 0), last_row = gen_add_imm(b, e->m, -1), last_column = gen_add_imm(b, e->n, -1);
  step = gen_umin(b, step, gen_add_imm(b, p->item.steps, -1));
  gen_value k = gen_mul_imm(b, gen_add(b, p->item.first, step), e->plan->block_k);
  for (int i = 0; i < p->n_rows; i++) {
    gen_value row = gen_umin(b, gen_add_imm(b, p->row, i / 2 * 64 + i % 2 * 8), last_row);
    scales[i] = gemm_load_scale(e, p->tile, match->operand_a, row, zero, k);
  }
  for (int i = 0; i < p->n_columns; i++) {
    gen_value column = gen_add_imm(b, p->tile.column, i % p->columns_each * e->plan->segment);
    scales[p->n_rows + i] = gemm_load_scale(e, p->tile, match->operand_b[i / p->columns_each], zero,
                                            gen_umin(b, column, last_column), k);
  }
}

/* Columns of all sums, which lie side by side. */
static int all_columns(const gemm_plan *plan) {
  return plan->match.n_sums * plan->block_n;
}

/* Products of the scales of rows and columns: two rows for each segment, row tile by row tile; NULL: none. */
enum { MOST_FACTORS = 64 };

static int segments_of(const promotion *p) {
  return p->c->e->plan->match.n_sums * p->columns_each;
}

static void make_factors(promotion *p, const gen_value *scales, gen_value *factors) {
  gen_builder *b = p->c->e->b;
  int rows = p->c->e->plan->group_rows / 32, segments = segments_of(p);
  for (int i = 0; i < rows * segments; i++) {
    int row = i / (2 * segments) * 2 + i % 2, segment = i / 2 % segments;
    gen_value x = p->n_rows > 0 ? scales[row] : NULL;
    gen_value y = p->n_columns > 0 ? scales[p->n_rows + segment] : NULL;
    factors[i] = x && y ? gen_fmul(b, x, y) : x ? x : y;
    if (!p->c->e->plan->scales_staged) factors[i] = gen_pin(b, factors[i]);
  }
}

/* sums += partial * scales, of part `part` of a row tile. */
static void add_part(promotion *p, int row_tile, int part, const gen_value *factors, const gen_value *partial,
                     gen_value *sums) {
  gen_builder *b = p->c->e->b;
  const gemm_plan *plan = p->c->e->plan;
  bool scaled = p->n_rows + p->n_columns > 0;
  int column = part * plan->part_n;
  gen_value *to = sums + row_tile * all_columns(plan) / 2 + column / 2;
  for (int i = 0; i < plan->part_n / 2; i++) {
    gen_value x = partial[i];
    if (gen_type_of(b, x) == GEN_I32) x = gen_int_to_float(b, x, GEN_F32, true);
    if (!scaled) {
      to[i] = gen_fadd(b, x, to[i]);
      continue;
    }
    int segment = (column + i / 4 * 8) / plan->segment; /* four accumulators a block of 8 columns */
    to[i] = gen_fma(b, x, factors[(row_tile * segments_of(p) + segment) * 2 + i / 2 % 2], to[i]);
  }
}

/* STAGED: the step's factors, found while its first products run. */
static void take_factors(promotion *p, gen_stage at, gen_value *factors) {
  gen_value scales[GEMM_MOST_SCALES];
  gemm_take_scales(p->c, at, scales, scales + p->n_rows);
  make_factors(p, scales, factors);
}

/* The partial sums of a stage, row tile by row tile, part by part in it: registers of one that has been added
 * take the next. `a`, `of_b`: descriptors; `ring`: where the scales are with STAGED. */
static void add_stage(promotion *p, gen_stage at, gen_stage ring, gen_value *factors, gen_value a,
                      gen_value of_b, gen_value *sums) {
  gemm_emitter *e = p->c->e;
  gen_builder *b = e->b;
  const gemm_plan *plan = e->plan;
  gen_wgmma products = gemm_products(plan, plan->part_n);
  int parts = all_columns(plan) / plan->part_n, all = products.tiles * parts;
  gen_value partial[GEN_WGMMA_MAX_ACCUMULATORS];
  for (int i = 0; i < plan->part_n / 2; i++) partial[i] = gen_undefined(b, gen_wgmma_sum(plan->match.type.a));
  products.tiles = 1;
  for (int i = 0; i < all; i++) {
    gen_value rows = gen_add_imm(b, a, i / parts * products.a.tile_offset >> 4);
    gen_value columns = gen_add_imm(b, of_b, i % parts * plan->part_n * (int)plan->b.swizzle >> 4);
    gen_wgmma_issue(b, &products, rows, columns, gen_bool(b, false), partial);
    if (i == 0 && plan->scales_staged) take_factors(p, ring, factors);
    gen_wgmma_wait(b, 0, partial, plan->part_n / 2);
    if (i == all - 1) gen_pipeline_release(b, &e->pipeline, at.index, p->c->thread, NULL);
    add_part(p, i / parts, i % parts, factors, partial, sums);
  }
}

void gemm_promote(gemm_consumer *c, const gemm_pending *pending, gemm_item item, gen_value *acc) {
  gemm_emitter *e = c->e;
  gen_builder *b = e->b;
  const gemm_plan *plan = e->plan;
  promotion p = start(c, item);
  gen_value first_a, first_b;
  gemm_descriptors(c, &first_a, &first_b);

  bool staged = plan->scales_staged;
  /* Scales: those of the stage, or, with STAGED, where in the ring they are. */
  enum { STEP, STAGE, PARITY, SCALES };
  gen_value carried[SCALES + GEMM_MOST_SCALES + GEN_WGMMA_MAX_ACCUMULATORS] = {
      [STEP] = gen_i32(b, 0), [STAGE] = c->walk.stage.index, [PARITY] = c->walk.stage.parity};
  int n_scales = staged ? 2 : p.n_rows + p.n_columns, sums = SCALES + n_scales;
  carried[SCALES] = c->walk.scales.index;
  carried[SCALES + 1] = c->walk.scales.parity;
  if (!staged) load_scales(&p, gen_i32(b, 0), carried + SCALES);
  for (int i = 0; i < plan->accumulators; i++) carried[sums + i] = gen_f32(b, 0);
  gen_loop loop;
  gen_loop_begin(b, &loop, carried, sums + plan->accumulators);
  gen_value step = carried[STEP], next_scales[GEMM_MOST_SCALES];
  gen_stage now = {carried[STAGE], carried[PARITY]};
  gen_pipeline_wait(b, &e->pipeline, now);
  gemm_stage_arrived(e);
  /* The next stage's are on their way while this one is multiplied. They take the registers of this one's,
   * which are multiplied before: a copy would wait for them. */
  gen_value factors[MOST_FACTORS];
  gen_stage ring = {carried[SCALES], carried[SCALES + 1]};
  if (!staged) {
    if (n_scales > 0) make_factors(&p, carried + SCALES, factors);
    load_scales(&p, gen_add_imm(b, step, 1), next_scales);
  }
  gen_value offset = gen_zext(b, gen_mul_imm(b, now.index, plan->stage_bytes >> 4), GEN_I64);
  add_stage(&p, now, ring, factors, gen_add(b, first_a, offset), gen_add(b, first_b, offset), carried + sums);
  if (pending) gemm_store_pending(c, pending, step);
  gen_stage next = gen_pipeline_advance(b, &e->pipeline, now);
  carried[STEP] = gen_add_imm(b, step, 1);
  carried[STAGE] = next.index;
  carried[PARITY] = next.parity;
  if (staged) {
    ring = gen_pipeline_advance(b, &e->scale_ring, ring);
    next_scales[0] = ring.index;
    next_scales[1] = ring.parity;
  }
  for (int i = 0; i < n_scales; i++) carried[SCALES + i] = next_scales[i];
  gen_loop_end_while(b, &loop, gen_compare(b, GEN_ULT, carried[STEP], item.steps));
  c->walk.stage = (gen_stage){carried[STAGE], carried[PARITY]};
  if (staged) c->walk.scales = (gen_stage){carried[SCALES], carried[SCALES + 1]};
  for (int i = 0; i < plan->accumulators; i++) acc[i] = carried[sums + i];
}
