/* STAGED=2: scales within the sum come as they lie, by tensor copies: of a row of the tile, or of a block of
 * its columns, those of GEMM_SLAB_STEPS k-steps, which lie side by side. So nothing but the copies takes the
 * way to shared memory that products read their operands by, and consumers wait once for so many steps. */
#include "generator/gen_barrier.h"
#include "generator/gen_memory.h"
#include "generator/gen_tma.h"
#include "generator/gen_warp.h"
#include "templates/gemm_emit.h"

enum { STEPS = GEMM_SLAB_STEPS, ROW_BYTES = STEPS * 4, MOST_ROWS = 4 /* of blocks of columns */ };
_Static_assert(ROW_BYTES == 32, "the swizzle of a slab's rows");

/* --- which scales --- */

/* Whether e is a loop's index over `block`. */
static bool is_quotient(const ir_expr *e, int loop, int64_t block) {
  return ir_is_operator(e, IR_OP_DIV) && e->args[0]->node == IR_INDEX && e->args[0]->id == loop &&
         e->args[1]->node == IR_INT && e->args[1]->integer == block;
}

/* s[m,k/128], or s[n/128,k/128], of f32; an operand without scales is well, too. */
static bool take_view(const gemm_match *match, int operand, bool of_rows, gemm_view *view) {
  const ir_form *form = &match->c->form;
  const contraction_operand *o = &match->c->operands[operand];
  int64_t shape[LIMIT_RANK];
  *view = (gemm_view){.rank = 0};
  if (o->n_factors == 1) return true;
  const ir_expr *e = o->factors[1 - gemm_element_factor(match->c, operand)];
  if (o->n_factors > 2 || e->node != IR_READ) return false;
  const ir_access *x = &form->accesses[e->id];
  if (x->n != 2 || x->other) return false; /* terms whose scale is outside are left out: copies bring zero */
  if (ir_tensor_dtype(form->problem, x->tensor) != DTYPE_F32) return false;
  int rank = ir_tensor_shape(form->problem, x->tensor, shape);
  if (shape[rank - 1] % 4 != 0 || !is_quotient(x->subscripts[1].e, match->k, match->block)) return false;
  const ir_expr *row = x->subscripts[0].e;
  if (of_rows ? row->node != IR_INDEX || row->id != match->m : !is_quotient(row, match->n, match->block_n))
    return false;
  *view = (gemm_view){.access = e->id, .rank = 2, .subscript = {1, 0}};
  return true;
}

void gemm_find_slabs(gemm_match *match) {
  match->slabs = match->block > 0 && match->k_outer.n == 0 && match->outer.n == 0 && !match->grouped &&
                 take_view(match, match->operand_a, true, &match->slab_a);
  for (int i = 0; i < match->n_sums && match->slabs; i++)
    match->slabs = take_view(match, match->operand_b[i], false, &match->slab_b[i]);
}

/* --- in shared memory: the rows', then those of each sum's blocks of columns --- */

static int64_t common(int64_t x, int64_t y) {
  while (y != 0) {
    int64_t rest = x % y;
    x = y;
    y = rest;
  }
  return x;
}

static int sums_with_scales(const gemm_plan *plan) {
  int n = 0;
  for (int i = 0; i < plan->match.n_sums; i++) n += plan->match.slab_b[i].rank > 0;
  return n;
}

/* Blocks of columns that a tile may have a part of, wherever it begins. */
static int blocks_of(const gemm_plan *plan) {
  if (sums_with_scales(plan) == 0) return 0;
  int64_t block = plan->match.block_n, offset = block - common(plan->block_n, block);
  return (int)((offset + plan->block_n - 1) / block + 1);
}

static int rows_bytes(const gemm_plan *plan) {
  return plan->match.slab_a.rank > 0 ? plan->block_m * ROW_BYTES : 0;
}

bool gemm_has_slabs(const gemm_plan *plan) {
  return plan->match.slabs && plan->match.block == plan->block_k && blocks_of(plan) <= MOST_ROWS;
}

int gemm_slab_bytes(const gemm_plan *plan) {
  return rows_bytes(plan) + (sums_with_scales(plan) * MOST_ROWS * ROW_BYTES + 255) / 256 * 256;
}

recipe_tensormap gemm_slab_map(const gemm_plan *plan, const gemm_view *view, arena *a) {
  bool rows = view == &plan->match.slab_a;
  return gemm_map(&plan->match, view, STEPS, rows ? plan->block_m : blocks_of(plan),
                  rows ? GEN_SWIZZLE_32 : GEN_SWIZZLE_NONE, a);
}

static gen_value place_of(gemm_emitter *e, gen_value index) {
  gen_builder *b = e->b;
  return gen_add_imm(b, gen_add(b, e->smem, gen_mul_imm(b, index, gemm_slab_bytes(e->plan))),
                     e->plan->scales_offset);
}

void gemm_slabs_declare(gemm_emitter *e) {
  int groups = e->plan->pingpong ? 1 : e->plan->consumers;
  gen_pipeline_create(e->b, &e->scale_ring, "scales", GEMM_SLABS, groups * 4, 1);
}

gen_value gemm_slabs_of(gemm_emitter *e, gen_value steps) {
  return gen_ceildiv_imm(e->b, steps, STEPS);
}

/* --- the thread that brings them --- */

static gen_stage bring_item(gemm_emitter *e, gemm_item item, gen_stage at) {
  gen_builder *b = e->b;
  const gemm_plan *plan = e->plan;
  const gemm_match *match = &plan->match;
  gemm_tile tile = gemm_tiles_at(e, item.unit);
  int bytes = rows_bytes(plan) + sums_with_scales(plan) * blocks_of(plan) * ROW_BYTES;
  gen_value block = match->block_n > 0 ? gen_udiv(b, tile.column, gen_i32(b, match->block_n)) : NULL;
  gen_value carried[] = {gen_i32(b, 0), at.index, at.parity};
  gen_loop loop;
  gen_loop_begin(b, &loop, carried, 3);
  at = (gen_stage){carried[1], carried[2]};
  gen_value full = gen_pipeline_acquire(b, &e->scale_ring, at, bytes), place = place_of(e, at.index);
  gen_value step = gen_add(b, item.first, carried[0]);
  if (match->slab_a.rank > 0) {
    gen_value from[] = {step, tile.row};
    gen_tma_load(b, place, gen_param(b, e->kernel->map_slab_a), from, 2, full, 0);
  }
  place = gen_add_imm(b, place, rows_bytes(plan));
  for (int i = 0; i < match->n_sums; i++) {
    if (match->slab_b[i].rank == 0) continue;
    gen_value from[] = {step, block};
    gen_tma_load(b, place, gen_param(b, e->kernel->map_slab_b[i]), from, 2, full, 0);
    place = gen_add_imm(b, place, MOST_ROWS * ROW_BYTES);
  }
  at = gen_pipeline_advance(b, &e->scale_ring, at);
  carried[0] = gen_add_imm(b, carried[0], STEPS);
  carried[1] = at.index;
  carried[2] = at.parity;
  gen_loop_end_while(b, &loop, gen_compare(b, GEN_ULT, carried[0], item.steps));
  return (gen_stage){carried[1], carried[2]};
}

void gemm_emit_slabs(gemm_emitter *e) {
  gemm_walk walk = {
      .place = gemm_first_place(e), .step = e->unit_step, .stage = gen_pipeline_producer_start(e->b)};
  gemm_walk_begin(e, &walk);
  walk.stage = bring_item(e, gemm_item_at(e, walk.place), walk.stage);
  gemm_walk_end(e, &walk);
}

/* --- consumers --- */

void gemm_slab_offsets(gemm_consumer *c, gemm_tile tile, gemm_slab_reader *r) {
  gen_builder *b = c->e->b;
  const gemm_plan *plan = c->e->plan;
  gen_value lane = gen_and(b, c->thread, gen_i32(b, 31)), warp = gen_lshr(b, c->thread, gen_i32(b, 5));
  gen_value row = gen_add(b, gen_mul_imm(b, warp, 16), gen_lshr(b, lane, gen_i32(b, 2)));
  r->row = gen_mul_imm(b, gen_add(b, c->store.row, row), ROW_BYTES);
  /* The swizzle puts the second four of eight rows' halves in each other's place. */
  r->turn = gen_and(b, gen_shl(b, row, gen_i32(b, 2)), gen_i32(b, 16));
  int64_t block = plan->match.block_n;
  if (sums_with_scales(plan) == 0) return;
  gen_value offset = gen_urem(b, tile.column, gen_i32(b, block));
  for (int i = 0; i < plan->block_n / plan->segment; i++) {
    int64_t first = i * plan->segment;
    r->second[i] = gen_compare_imm(b, GEN_UGE, offset, block - first % block);
  }
}

void gemm_slab_wait(gemm_consumer *c, gen_stage at, gen_value step) {
  gen_builder *b = c->e->b;
  gen_branch first;
  gen_if(b, &first, gen_compare_imm(b, GEN_EQ, gen_and(b, step, gen_i32(b, STEPS - 1)), 0), NULL, 0);
  gen_pipeline_wait(b, &c->e->scale_ring, at);
  gen_if_end(b, &first);
}

void gemm_slab_take(gemm_consumer *c, const gemm_slab_reader *r, gen_stage at, gen_value step,
                    gen_value *rows, gen_value *columns) {
  gemm_emitter *e = c->e;
  gen_builder *b = e->b;
  const gemm_plan *plan = e->plan;
  gen_value in_slab = gen_and(b, step, gen_i32(b, STEPS - 1));
  gen_value place = place_of(e, at.index), column = gen_mul_imm(b, in_slab, 4);
  gen_value own = gen_add(b, gen_add(b, place, r->row), gen_xor(b, column, r->turn));
  for (int i = 0; rows_bytes(plan) > 0 && i < plan->group_rows / 32; i++)
    rows[i] = gen_load_shared(b, GEN_F32, 1, gen_add_imm(b, own, (i / 2 * 64 + i % 2 * 8) * ROW_BYTES));
  gen_value of_columns = gen_add_imm(b, gen_add(b, place, column), rows_bytes(plan));
  int segments = plan->block_n / plan->segment, n = 0;
  for (int s = 0; s < plan->match.n_sums; s++) {
    gen_value scales[MOST_ROWS];
    if (plan->match.slab_b[s].rank == 0) {
      for (int i = 0; i < segments && sums_with_scales(plan) > 0; i++) columns[n++] = gen_f32(b, 1);
      continue;
    }
    for (int i = 0; i < blocks_of(plan); i++)
      scales[i] = gen_load_shared(b, GEN_F32, 1, gen_add_imm(b, of_columns, i * ROW_BYTES));
    for (int i = 0; i < segments; i++) {
      int block = (int)(i * plan->segment / plan->match.block_n);
      bool either = plan->block_n % plan->match.block_n != 0 && i * plan->segment % plan->match.block_n != 0;
      columns[n++] = either && block + 1 < blocks_of(plan)
                         ? gen_select(b, r->second[i], scales[block + 1], scales[block])
                         : scales[block];
    }
    of_columns = gen_add_imm(b, of_columns, MOST_ROWS * ROW_BYTES);
  }
}

gen_stage gemm_slab_behind(gemm_consumer *c, gen_stage at, gen_value step, gen_value steps) {
  gemm_emitter *e = c->e;
  gen_builder *b = e->b;
  gen_value next = gen_add_imm(b, step, 1);
  gen_value whole = gen_compare_imm(b, GEN_EQ, gen_and(b, next, gen_i32(b, STEPS - 1)), 0);
  gen_value ends = gen_or(b, whole, gen_compare(b, GEN_UGE, next, steps));
  gen_value lane = gen_and(b, c->thread, gen_i32(b, 31));
  gen_warp_sync(b);
  gen_pipeline_leave(b, &e->scale_ring, at.index, gen_and(b, ends, gen_compare_imm(b, GEN_EQ, lane, 0)));
  gen_stage after = gen_pipeline_advance(b, &e->scale_ring, at);
  return (gen_stage){gen_select(b, ends, after.index, at.index),
                     gen_select(b, ends, after.parity, at.parity)};
}
