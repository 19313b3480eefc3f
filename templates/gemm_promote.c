/* Sums that leave the matrix unit after every stage: it multiplies a part of the tile's columns at a time
 * into a partial sum, which is added to the tile's sums in f32, times the scales of its rows, columns and
 * terms. So scales of blocks of terms need not multiply elements, and sums of 8-bit floats, which the unit
 * adds with 13 fraction bits, do not lose more with every stage. While one consumer group adds, the unit is
 * busy with the other's products. */
#include "generator/gen_barrier.h"
#include "generator/gen_convert.h"
#include "generator/gen_math.h"
#include "generator/gen_mma.h"
#include "templates/gemm_emit.h"

enum { MOST_SCALES = 16, STEPS = 4 /* products along a swizzle */ };

/* Scales of a stage: of this thread's rows, 8 apart, in all row tiles, then of B's blocks of columns, sum by
 * sum. */
typedef struct promotion {
  gemm_consumer *c;
  gemm_item item;
  gemm_tile tile;
  gen_value row;             /* this thread's first */
  int n_rows, n_columns;     /* scales */
  int segment, columns_each; /* columns that share those of B; scales of a sum */
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
  /* Tiles begin at multiples of their width, which may be anywhere in a block of columns. */
  p.segment = plan->block_n;
  while (match->block_n > 0 && (match->block_n % p.segment || plan->block_n % p.segment)) p.segment -= 8;
  p.columns_each = plan->block_n / p.segment;
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
  const contraction_operand *of = &plan->match.c->operands[operand];
  int element = gemm_element_factor(plan->match.c, operand);
  gen_value k = gen_mul_imm(b, gen_add(b, p->item.first, step), plan->block_k);
  lanes *l;
  lanes_options o = plan->scales;
  o.user = (void *)e->kernel;
  /* Rows of no group multiply zeros, by whatever scale. */
  if (p->tile.group)
    e->group = gen_umin(b, p->tile.group, gen_add_imm(b, gen_param(b, e->kernel->group_count), -1));
  TRY(lanes_create(b, &plan->match.c->form, &o, &e->kernel->scale_slots, e->kernel->a, &l, e->err));
  gemm_set_loops(e, l, p->tile, row, column);
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
    gen_value column = gen_add_imm(b, p->tile.column, i % p->columns_each * p->segment);
    gemm_note(e, load_scale(p, match->operand_b[i / p->columns_each], zero, gen_umin(b, column, last_column),
                            step, &scales[p->n_rows + i]));
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
  if (rows * segments > MOST_FACTORS) gen_misuse(b, "a thread has %d factors", rows * segments);
  for (int i = 0; i < rows * segments && i < MOST_FACTORS; i++) {
    int row = i / (2 * segments) * 2 + i % 2, segment = i / 2 % segments;
    gen_value x = p->n_rows > 0 ? scales[row] : NULL;
    gen_value y = p->n_columns > 0 ? scales[p->n_rows + segment] : NULL;
    factors[i] = gen_pin(b, x && y ? gen_fmul(b, x, y) : x ? x : y);
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
    int segment = (column + i / 4 * 8) / p->segment; /* four accumulators a block of 8 columns */
    to[i] = gen_fma(b, x, factors[(row_tile * segments_of(p) + segment) * 2 + i / 2 % 2], to[i]);
  }
}

/* A row tile of A as fragments: of each step 16 rows of a warp and 32 bytes, which is what one ldmatrix
 * loads. */
static void load_a(gemm_consumer *c, gen_value stage, int row_tile, gen_value *words) {
  gen_builder *b = c->e->b;
  gen_value lane = gen_and(b, c->thread, gen_i32(b, 31)), warp = gen_lshr(b, c->thread, gen_i32(b, 5));
  gen_value row = gen_add(b, gen_mul_imm(b, warp, 16), gen_and(b, lane, gen_i32(b, 15)));
  row = gen_add(b, row, c->store.row);
  int row_bytes = (int)c->e->plan->a.swizzle;
  gen_value at = gen_add(b, gen_add(b, c->e->smem, stage), gen_mul_imm(b, row, row_bytes));
  at = gen_add_imm(b, at, row_tile * 64 * row_bytes);
  gen_value chunk = gen_xor(b, gen_lshr(b, lane, gen_i32(b, 4)), gen_and(b, row, gen_i32(b, 7)));
  for (int step = 0; step < STEPS; step++) {
    gen_value own = gen_mul_imm(b, gen_xor(b, chunk, gen_i32(b, 2 * step)), 16);
    gen_ldmatrix_x4(b, false, gen_add(b, at, own), words + 4 * step);
  }
}

/* What a stage's products read. */
typedef struct operands {
  gen_wgmma products;         /* of a part of a row tile */
  gen_value a, b;             /* descriptors */
  gen_value stage;            /* bytes from the first one */
  gen_value words[4 * STEPS]; /* of A, where it goes through registers */
} operands;

/* Partial sum number `i` of a stage: row tile by row tile, part by part in it. Fragments of the first are
 * loaded.
 */
static void issue_part(gemm_consumer *c, operands *o, int i, gen_value *partial) {
  gen_builder *b = c->e->b;
  const gemm_plan *plan = c->e->plan;
  int parts = all_columns(plan) / plan->part_n;
  gen_value of_b = gen_add_imm(b, o->b, i % parts * plan->part_n * (int)plan->b.swizzle >> 4);
  if (!plan->a_registers) {
    gen_value a = gen_add_imm(b, o->a, i / parts * o->products.a.tile_offset >> 4);
    gen_wgmma_issue(b, &o->products, a, of_b, gen_bool(b, false), partial);
    return;
  }
  if (i > 0 && i % parts == 0) load_a(c, o->stage, i / parts, o->words);
  gen_wgmma_issue_registers(b, &o->products, o->words, of_b, gen_bool(b, false), partial);
}

/* Turns: a group begins to multiply a stage when the other one has its first partial sum of a stage, the same
 * or the one before, and is about to add it. Without them both may multiply, then both add, and the matrix
 * unit has nothing to do meanwhile. Group 0 has the first turn. */
enum { TURN_BARRIER = 4, BOTH_GROUPS = 256 };

static gen_value turn_of(gemm_consumer *c, gen_value group) {
  return gen_add_imm(c->e->b, group, TURN_BARRIER);
}

static void give_turn(gemm_consumer *c) {
  gen_named_arrive(c->e->b, turn_of(c, gen_xor(c->e->b, c->group, gen_i32(c->e->b, 1))), BOTH_GROUPS);
}

void gemm_promote_begin(gemm_consumer *c) {
  gen_branch second;
  if (!c->e->plan->take_turns) return;
  gen_if(c->e->b, &second, gen_compare_imm(c->e->b, GEN_EQ, c->group, 1), NULL, 0);
  give_turn(c);
  gen_if_end(c->e->b, &second);
}

void gemm_promote_end(gemm_consumer *c) {
  gen_branch first;
  if (!c->e->plan->take_turns) return;
  gen_if(c->e->b, &first, gen_compare_imm(c->e->b, GEN_EQ, c->group, 0), NULL, 0);
  gen_named_sync(c->e->b, turn_of(c, c->group), BOTH_GROUPS); /* the turn after the last */
  gen_if_end(c->e->b, &first);
}

/* The stage goes back when all its products are done; fragments are each warp's own reads. */
static void release(gemm_consumer *c, gen_stage at) {
  if (c->e->plan->a_registers) gen_named_sync(c->e->b, c->store.barrier, 128);
  gen_pipeline_release(c->e->b, &c->e->pipeline, at.index, c->thread, NULL);
}

/* The partial sums of a stage, `in_flight` at a time: registers of one that has been added take the next. */
static void add_stage(promotion *p, gen_stage at, const gen_value *factors, operands *o, gen_value *sums) {
  gemm_consumer *c = p->c;
  gen_builder *b = c->e->b;
  const gemm_plan *plan = c->e->plan;
  enum { MOST_IN_FLIGHT = 2, MOST_PARTIAL = 96 };
  int parts = all_columns(plan) / plan->part_n, all = plan->group_rows / 64 * parts;
  int flying = plan->in_flight < all ? plan->in_flight : all;
  gen_value partial[MOST_IN_FLIGHT][MOST_PARTIAL];
  for (int i = 0; i < MOST_IN_FLIGHT * MOST_PARTIAL; i++)
    partial[i / MOST_PARTIAL][i % MOST_PARTIAL] = gen_undefined(b, gen_wgmma_sum(plan->match.type.a));
  if (plan->a_registers) load_a(c, o->stage, 0, o->words);
  if (plan->take_turns) gen_named_sync(b, turn_of(c, c->group), BOTH_GROUPS);
  for (int i = 0; i < flying; i++) issue_part(c, o, i, partial[i]);
  for (int i = 0; i < all; i++) {
    gen_value *mine = partial[i % flying];
    int behind = all - 1 - i;
    gen_wgmma_wait(b, behind < flying - 1 ? behind : flying - 1, mine, plan->part_n / 2);
    if (i == 0 && plan->take_turns) give_turn(c);
    if (behind == 0) release(c, at);
    add_part(p, i / parts, i % parts, factors, mine, sums);
    if (behind >= flying) issue_part(c, o, i + flying, mine);
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
  /* The next stage's are on their way while this one is multiplied. They take the registers of this one's,
   * which are multiplied before: a copy would wait for them. */
  gen_value factors[MOST_FACTORS];
  if (n_scales > 0) make_factors(&p, carried + SCALES, factors);
  load_scales(&p, gen_add_imm(b, step, 1), next_scales);
  operands o = {.products = gemm_products(plan, plan->part_n),
                .stage = gen_mul_imm(b, now.index, plan->stage_bytes)};
  gen_value offset = gen_zext(b, gen_lshr(b, o.stage, gen_i32(b, 4)), GEN_I64);
  o.products.tiles = 1;
  o.a = gen_add(b, first_a, offset);
  o.b = gen_add(b, first_b, offset);
  add_stage(&p, now, factors, &o, carried + sums);
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
