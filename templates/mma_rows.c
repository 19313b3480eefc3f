/* The end of a tile whose rows are reduced, and the kernel that combines what tiles have of a row. A warp's
 * sums lie in shared memory as runs of columns; neighbouring lanes share a row. */
#include "generator/gen_barrier.h"
#include "generator/gen_control.h"
#include "generator/gen_memory.h"
#include "generator/gen_warp.h"
#include "templates/mma.h"

enum { MOST_RUNS = 16 }; /* of a lane, of one row */

/* Byte address of the part of row `m` (an index) that column `tile` of tiles has. */
static gen_value part_address(mma_emitter *e, gen_value m, gen_value tile) {
  gen_builder *b = e->b;
  gen_value extent = gen_param(b, e->k->m), at = m;
  if (e->batch) at = gen_add(b, gen_mul(b, e->batch, extent), m);
  if (gen_type_of(b, at) == GEN_I32) at = gen_zext(b, at, GEN_I64);
  gen_value tiles = gen_zext(b, gen_param(b, e->k->tiles_n), GEN_I64);
  at = gen_add(b, gen_mul(b, at, tiles), gen_zext(b, tile, GEN_I64));
  return gen_add(b, gen_param(b, e->k->partials), gen_mul_imm(b, at, product_row_bytes(e->c)));
}

/* Shared address of the part of row `row` (i32, of the tile) that column `warp` of warps has. */
static gen_value shared_part(mma_emitter *e, gen_value row, gen_value warp) {
  gen_builder *b = e->b;
  gen_value at = gen_add(b, gen_mul_imm(b, warp, e->p->block_m), row);
  return gen_add_imm(b, gen_add(b, e->smem, gen_mul_imm(b, at, product_row_bytes(e->c))),
                     e->p->rows_offset_bytes);
}

/* --- a warp's columns --- */

/* The sums of a run are remembered by its evaluator from here on. */
static arke_status load_sums(mma_emitter *e, mma_run *r, arke_error *err) {
  gen_value values[LANES_MAX];
  int n;
  TRY(mma_set_run(e, r, err));
  e->l = r->l;
  e->staged = r->staged;
  for (int i = 0; i < e->c->n_sums; i++) TRY(lanes_eval(r->l, e->c->sums[i].e, values, &n, err));
  return ARKE_OK;
}

static arke_status reduce_row(mma_emitter *e, gen_value base, gen_value row, gen_value lane, int sharers,
                              int part, arke_error *err) {
  gen_builder *b = e->b;
  const mma_plan *p = e->p;
  int width = p->epilogue.width, n = p->warp_n / width / sharers;
  product_run runs[MOST_RUNS];
  product_row parts = product_row_start(b, e->c);
  gen_value of_tile = gen_add(b, gen_add_imm(b, e->warp_m, (int64_t)part * p->staged_rows), row);
  for (int i = 0; i < n; i++) {
    gen_value column = gen_mul_imm(b, gen_add_imm(b, lane, (int64_t)i * sharers), width);
    gen_value at = gen_add(b, gen_mul_imm(b, row, p->pitch_bytes), gen_mul_imm(b, column, mma_sum_bytes(p)));
    mma_run r = {.staged = gen_add(b, base, at),
                 .m = gen_add(b, e->m0, mma_index(e, of_tile)),
                 .n = gen_add(b, e->n0, mma_index(e, gen_add(b, e->warp_n, column)))};
    TRY(load_sums(e, &r, err));
    gen_value number = gen_type_of(b, r.n) == GEN_I32 ? r.n : gen_trunc(b, r.n, GEN_I32);
    runs[i] = (product_run){
        .l = r.l, .column = number, .active = gen_compare(b, GEN_ULT, r.n, gen_param(b, e->k->n))};
  }
  TRY(product_row_reduce(b, e->c, runs, n, width, sharers, &parts, err));
  gen_branch branch;
  gen_if(b, &branch, gen_compare_imm(b, GEN_EQ, lane, 0), NULL, 0);
  gen_value warp = gen_and(b, e->warp, gen_i32(b, p->warps_n - 1));
  product_row_store(b, e->c, &parts, shared_part(e, of_tile, warp), true);
  gen_if_end(b, &branch);
  return ARKE_OK;
}

static arke_status reduce_part(mma_emitter *e, gen_value base, int part, arke_error *err) {
  gen_builder *b = e->b;
  const mma_plan *p = e->p;
  int across = p->warp_n / p->epilogue.width, sharers = across < 32 ? across : 32, at_once = 32 / sharers;
  gen_value lane = gen_and(b, e->lane, gen_i32(b, sharers - 1));
  gen_value row[] = {gen_lshr(b, e->lane, gen_i32(b, __builtin_ctz((unsigned)sharers)))};
  gen_loop loop;
  mma_stage_sums(e, base, part);
  gen_warp_sync(b);
  gen_loop_begin(b, &loop, row, 1);
  gen_loop_while(b, &loop, gen_compare_imm(b, GEN_ULT, row[0], p->staged_rows));
  TRY(reduce_row(e, base, row[0], lane, sharers, part, err));
  row[0] = gen_add_imm(b, row[0], at_once);
  gen_loop_end(b, &loop);
  gen_warp_sync(b); /* before the place is taken again */
  return ARKE_OK;
}

/* --- a tile's rows --- */

static void store_rows(mma_emitter *e) {
  gen_builder *b = e->b;
  const mma_plan *p = e->p;
  gen_loop loop;
  gen_branch branch;
  gen_value row[] = {e->thread};
  gen_loop_begin(b, &loop, row, 1);
  gen_loop_while(b, &loop, gen_compare_imm(b, GEN_ULT, row[0], p->block_m));
  gen_value m = gen_add(b, e->m0, mma_index(e, row[0]));
  gen_if(b, &branch, gen_compare(b, GEN_ULT, m, e->m_end), NULL, 0);
  product_row all = product_row_load(b, e->c, shared_part(e, row[0], gen_i32(b, 0)), true);
  for (int w = 1; w < p->warps_n; w++) {
    product_row more = product_row_load(b, e->c, shared_part(e, row[0], gen_i32(b, w)), true);
    product_row_combine(b, e->c, &all, &more);
  }
  product_row_store(b, e->c, &all, part_address(e, m, e->tile_n), false);
  gen_if_end(b, &branch);
  row[0] = gen_add_imm(b, row[0], p->threads);
  gen_loop_end(b, &loop);
}

arke_status mma_finish_rows(mma_emitter *e, arke_error *err) {
  gen_value own = gen_mul_imm(e->b, e->warp, (int64_t)e->p->staged_bytes * e->c->n_sums);
  gen_value base = gen_add(e->b, e->smem, own);
  for (int part = 0; part < e->p->warp_m / e->p->staged_rows; part++) TRY(reduce_part(e, base, part, err));
  gen_cta_sync(e->b);
  store_rows(e);
  return ARKE_OK;
}

/* --- all tiles of a row --- */

static product_row combine_tiles(mma_emitter *e, gen_value m) {
  gen_builder *b = e->b;
  gen_loop loop;
  gen_value carried[1 + PRODUCT_ROW_VALUES] = {e->lane};
  product_row row = product_row_start(b, e->c);
  int n = product_row_pack(b, e->c, &row, carried + 1);
  gen_loop_begin(b, &loop, carried, 1 + n);
  gen_loop_while(b, &loop, gen_compare(b, GEN_ULT, carried[0], gen_param(b, e->k->tiles_n)));
  product_row part = product_row_load(b, e->c, part_address(e, m, carried[0]), false);
  row = product_row_unpack(b, e->c, carried + 1);
  product_row_combine(b, e->c, &row, &part);
  product_row_pack(b, e->c, &row, carried + 1);
  carried[0] = gen_add_imm(b, carried[0], 32);
  gen_loop_end(b, &loop);
  row = product_row_unpack(b, e->c, carried + 1);
  product_row_combine_lanes(b, e->c, &row, 32);
  return row;
}

static arke_status store_outputs(mma_emitter *e, gen_value m, arke_error *err) {
  gen_builder *b = e->b;
  const contraction *c = e->c;
  lanes_options o = e->p->row_epilogue;
  lanes *l;
  gen_value loops[IR_FORM_LOOPS];
  unsigned outer = c->batch.set | c->m.set;
  o.user = e->k;
  TRY(lanes_create(b, &c->form, &o, &e->k->epilogue_slots, e->k->a, &l, err));
  for (int i = 0; i < c->form.n_loops; i++) loops[i] = e->loops[i];
  mma_split_loops(e, &c->m, m, loops);
  for (int i = 0; i < c->form.n_loops; i++)
    if (outer >> i & 1) lanes_set(l, i, loops[i]);
  gen_value first = gen_compare_imm(b, GEN_EQ, e->lane, 0);
  for (int i = 0; i < c->form.n_outputs; i++) {
    gen_value values[LANES_MAX];
    int n;
    TRY(lanes_eval(l, c->form.outputs[i].value, values, &n, err));
    TRY(lanes_store(l, i, values, n, first, err));
  }
  return ARKE_OK;
}

arke_status mma_combine_rows_emit(gen_builder *b, const target *t, void *user, arke_error *err) {
  (void)t;
  mma_kernel *k = user;
  mma_emitter *e = ARENA_NEW(k->a, mma_emitter);
  if (!e) return error_memory(err, "generate");
  *e = (mma_emitter){.b = b, .k = k, .p = k->p, .c = k->p->c};
  k->current = e;
  gen_launches_release(b);
  e->lane = gen_and(b, gen_tid_x(b), gen_i32(b, 31));
  gen_value row = gen_mul_imm(b, mma_index(e, gen_ctaid_x(b)), MMA_COMBINE_THREADS / 32);
  row = gen_add(b, row, mma_index(e, gen_warp_index(b)));
  gen_branch branch;
  gen_if(b, &branch, gen_compare(b, GEN_ULT, row, gen_param(b, k->items)), NULL, 0);
  gen_launches_wait(b);
  gen_value m = row;
  if (e->c->batch.n > 0) {
    m = gen_urem(b, row, gen_param(b, k->m));
    e->batch = gen_udiv(b, row, gen_param(b, k->m));
    mma_split_loops(e, &e->c->batch, e->batch, e->loops);
  }
  product_row all = combine_tiles(e, m);
  e->row = &all;
  TRY(store_outputs(e, m, err));
  gen_if_end(b, &branch);
  return ARKE_OK;
}
