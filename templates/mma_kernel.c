/* The kernel: which tile a CTA has, and the ring of stages. */
#include "generator/gen_barrier.h"
#include "generator/gen_control.h"
#include "generator/gen_cp_async.h"
#include "generator/gen_memory.h"
#include "templates/mma.h"

gen_value mma_index(const mma_emitter *e, gen_value x) {
  return e->p->wide_offsets && gen_type_of(e->b, x) == GEN_I32 ? gen_zext(e->b, x, GEN_I64) : x;
}

gen_value mma_index_imm(const mma_emitter *e, int64_t x) {
  return e->p->wide_offsets ? gen_i64(e->b, x) : gen_i32(e->b, x);
}

void mma_split_loops(const mma_emitter *e, const contraction_loops *loops, gen_value at, gen_value *values) {
  gen_builder *b = e->b;
  for (int i = loops->n - 1; i >= 0; i--) {
    int loop = loops->loops[i];
    gen_value extent = i > 0 ? gen_param(b, e->k->extents[loop]) : NULL;
    values[loop] = i > 0 ? gen_urem(b, at, extent) : at;
    if (i > 0) at = gen_udiv(b, at, extent);
  }
}

/* --- where --- */

/* Tiles go along N in bands of GROUP rows of tiles, so that CTAs at work together share rows and columns. */
static void find_tile(mma_emitter *e) {
  gen_builder *b = e->b;
  const mma_plan *p = e->p;
  gen_value cta = gen_ctaid_x(b), tiles_m = gen_param(b, e->k->tiles_m),
            tiles_n = gen_param(b, e->k->tiles_n);
  if (p->split > 1) {
    e->split = gen_urem(b, cta, gen_i32(b, p->split));
    cta = gen_udiv(b, cta, gen_i32(b, p->split));
  }
  if (e->c->batch.n > 0) {
    gen_value tiles = gen_mul(b, tiles_m, tiles_n);
    e->batch = mma_index(e, gen_udiv(b, cta, tiles));
    mma_split_loops(e, &e->c->batch, e->batch, e->loops);
    cta = gen_urem(b, cta, tiles);
  }
  gen_value band = gen_mul_imm(b, tiles_n, p->group), in = gen_urem(b, cta, band);
  gen_value first = gen_mul_imm(b, gen_udiv(b, cta, band), p->group);
  gen_value rows = gen_umin(b, gen_sub(b, tiles_m, first), gen_i32(b, p->group));
  e->tile_m = gen_add(b, first, gen_urem(b, in, rows));
  e->tile_n = gen_udiv(b, in, rows);
  e->n0 = gen_mul_imm(b, mma_index(e, e->tile_n), p->block_n);
  e->m0 = gen_mul_imm(b, mma_index(e, e->tile_m), p->block_m);
  e->m_end = gen_param(b, e->k->m);
}

/* In groups, rows of tiles are as many as there may be at most: *exists tells whether this one is there. */
static arke_status find_group(mma_emitter *e, gen_value *exists, arke_error *err) {
  const mma_plan *p = e->p;
  group_tiles tiles = {.form = &e->c->form,
                       .groups = &e->c->groups,
                       .slots = &e->k->epilogue_slots,
                       .options = p->epilogue,
                       .block = p->block_m,
                       .a = e->k->a};
  group_tile t;
  TRY(group_tiles_find(e->b, &tiles, gen_param(e->b, e->k->m), e->tile_m, &t, err));
  e->m0 = mma_index(e, t.row);
  e->m_end = mma_index(e, t.end);
  e->group = t.group;
  e->is_of_none = t.is_of_none;
  *exists = t.exists;
  return ARKE_OK;
}

static void find_thread(mma_emitter *e) {
  gen_builder *b = e->b;
  const mma_plan *p = e->p;
  e->thread = gen_tid_x(b);
  e->lane = gen_and(b, e->thread, gen_i32(b, 31));
  e->warp = gen_warp_index(b);
  gen_value across = gen_and(b, e->warp, gen_i32(b, p->warps_n - 1));
  gen_value down = gen_lshr(b, e->warp, gen_i32(b, __builtin_ctz((unsigned)p->warps_n)));
  e->warp_m = gen_mul_imm(b, down, p->warp_m);
  e->warp_n = gen_mul_imm(b, across, p->warp_n);
}

static gen_value zero(gen_builder *b, gen_type type) {
  if (type == GEN_F32 || type == GEN_F64) return gen_float_cast(b, gen_f32(b, 0), type);
  return type == GEN_I64 ? gen_i64(b, 0) : gen_i32(b, 0);
}

/* --- the ring --- */

static bool any(const mma_plan *p, bool copied) {
  for (int i = 0; i < p->c->n_operands; i++)
    if (p->tiles[i].copied == copied) return true;
  return false;
}

static gen_value next_stage(mma_emitter *e, gen_value stage) {
  gen_builder *b = e->b;
  gen_value next = gen_add_imm(b, stage, e->p->stage_bytes);
  gen_value end = gen_add_imm(b, e->smem, (int64_t)e->p->stages * e->p->stage_bytes);
  return gen_select(b, gen_compare(b, GEN_EQ, next, end), e->smem, next);
}

/* Fills all stages but one. Groups are committed for steps that are not there, too, so that they count. */
static arke_status fill(mma_emitter *e, gen_value begin, gen_value end, arke_error *err) {
  gen_builder *b = e->b;
  gen_loop loop;
  gen_branch branch;
  gen_value last = gen_add_imm(b, begin, e->p->stages - 1);
  gen_value carried[] = {begin, e->smem};
  gen_loop_begin(b, &loop, carried, 2);
  gen_loop_while(b, &loop, gen_compare(b, GEN_ULT, carried[0], last));
  gen_if(b, &branch, gen_compare(b, GEN_ULT, carried[0], end), NULL, 0);
  mma_copy_tiles(e, carried[0], carried[1]);
  if (any(e->p, false)) {
    TRY(mma_fetch_tiles(e, carried[0], err));
    TRY(mma_put_tiles(e, carried[0], carried[1], err));
  }
  gen_if_end(b, &branch);
  if (any(e->p, true)) gen_cp_async_commit(b);
  carried[0] = gen_add_imm(b, carried[0], 1);
  carried[1] = gen_add_imm(b, carried[1], e->p->stage_bytes);
  gen_loop_end(b, &loop);
  return ARKE_OK;
}

/* One stage is multiplied while the others are filled. The barrier tells that all threads' parts of a stage
 * have come, and that all warps are done with the one before, whose place the next step takes. */
static arke_status multiply_all(mma_emitter *e, gen_value begin, gen_value end, arke_error *err) {
  gen_builder *b = e->b;
  const mma_plan *p = e->p;
  int n = p->accumulators * e->c->n_sums;
  gen_value carried[3 + COUNT_OF(e->sums)];
  gen_loop loop;
  gen_branch branch;
  carried[0] = begin;
  carried[1] = e->smem;
  carried[2] = gen_add_imm(b, e->smem, (int64_t)(p->stages - 1) * p->stage_bytes);
  for (int i = 0; i < n; i++) carried[3 + i] = zero(b, p->product.sum);
  gen_loop_begin(b, &loop, carried, 3 + n);
  gen_loop_while(b, &loop, gen_compare(b, GEN_ULT, carried[0], end));
  if (any(p, true)) gen_cp_async_wait(b, p->stages - 2);
  gen_cta_sync(b);
  gen_value next = gen_add_imm(b, carried[0], p->stages - 1);
  if (any(p, true)) {
    gen_if(b, &branch, gen_compare(b, GEN_ULT, next, end), NULL, 0);
    mma_copy_tiles(e, next, carried[2]);
    gen_if_end(b, &branch);
    gen_cp_async_commit(b);
  }
  if (any(p, false)) TRY(mma_fetch_tiles(e, next, err));
  for (int i = 0; i < n; i++) e->sums[i] = carried[3 + i];
  mma_multiply(e, carried[1]);
  if (any(p, false)) TRY(mma_put_tiles(e, next, carried[2], err));
  carried[0] = gen_add_imm(b, carried[0], 1);
  carried[1] = next_stage(e, carried[1]);
  carried[2] = next_stage(e, carried[2]);
  for (int i = 0; i < n; i++) carried[3 + i] = e->sums[i];
  gen_loop_end(b, &loop);
  for (int i = 0; i < n; i++) e->sums[i] = carried[3 + i];
  if (any(p, true)) gen_cp_async_wait(b, 0);
  gen_cta_sync(b);
  return ARKE_OK;
}

/* The next launch starts early unless it would come to lie unevenly beside this one, as in slim_kernel.c:
 * tiles of 64 x 16384 took 157 us back to back, and 129 one by one. */
static void release(mma_emitter *e, gen_value begin, gen_value end) {
  enum { LONG_BYTES = 400000 };
  gen_builder *b = e->b;
  gen_branch early;
  gen_value steps = gen_sub(b, end, begin), crowd = gen_param(b, e->k->crowd);
  gen_value is_short = gen_compare_imm(b, GEN_ULE, steps, LONG_BYTES / (e->p->smem_bytes / e->p->stages));
  gen_if(b, &early, gen_or(b, is_short, gen_compare_imm(b, GEN_ULE, crowd, 1)), NULL, 0);
  gen_launches_release(b);
  gen_if_end(b, &early);
}

arke_status mma_emit(gen_builder *b, const target *t, void *user, arke_error *err) {
  (void)t;
  mma_kernel *k = user;
  mma_emitter *e = ARENA_NEW(k->a, mma_emitter);
  if (!e) return error_memory(err, "generate");
  *e = (mma_emitter){.b = b, .k = k, .p = k->p, .c = k->p->c};
  k->current = e;
  e->smem = gen_shared_dynamic(b);
  e->k_extent = gen_param(b, k->k);
  find_thread(e);
  find_tile(e);
  gen_launches_wait(b);
  gen_branch branch;
  gen_value exists;
  if (e->c->groups.of) {
    TRY(find_group(e, &exists, err));
    gen_if(b, &branch, exists, NULL, 0);
  }
  gen_value begin = gen_i32(b, 0), end = gen_param(b, k->steps);
  if (e->is_of_none) end = gen_select(b, e->is_of_none, begin, end);
  if (e->split) {
    gen_value each = gen_param(b, k->steps_each);
    begin = gen_umin(b, gen_mul(b, e->split, each), end);
    end = gen_umin(b, gen_add(b, begin, each), end);
  }
  release(e, begin, end);
  TRY(mma_load_init(e, err));
  TRY(fill(e, begin, end, err));
  TRY(multiply_all(e, begin, end, err));
  TRY(mma_finish(e, err));
  if (e->c->groups.of) gen_if_end(b, &branch);
  return ARKE_OK;
}
