/* The end of a tile whose rows are reduced. A warp's sums lie in shared memory as runs of columns;
 * neighbouring lanes share a row, and warps side by side leave what each has of it in shared memory. */
#include "generator/gen_barrier.h"
#include "generator/gen_control.h"
#include "generator/gen_memory.h"
#include "generator/gen_warp.h"
#include "templates/mma.h"

enum { MOST_RUNS = 16 }; /* of a lane, of one row */

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

bool mma_has_columns(const contraction *c, int output) {
  const ir_access *y = &c->form.accesses[c->form.outputs[output].access];
  for (int s = 0; s < y->n; s++)
    if (ir_form_free(&c->form, y->subscripts[s].e) >> c->rows.column & 1) return true;
  return false;
}

void mma_load_row(mma_emitter *e, const mma_run *r) {
  e->row = product_row_load(e->b, e->c, shared_part(e, r->row, gen_i32(e->b, 0)), true);
}

/* Outputs of row `m`, of which `all` is what it is reduced to. */
static arke_status store_outputs(mma_emitter *e, gen_value m, const product_row *all, arke_error *err) {
  const ir_form *form = &e->c->form;
  lanes_options o = e->p->row_parts.options;
  gen_value values[IR_FORM_LOOPS];
  lanes *l;
  o.user = e->k;
  TRY(lanes_create(e->b, form, &o, &e->k->epilogue_slots, e->k->a, &l, err));
  for (int i = 0; i < form->n_loops; i++) values[i] = e->loops[i];
  mma_split_loops(e, &e->c->m, m, values);
  unsigned outer = e->c->batch.set | e->c->m.set;
  for (int i = 0; i < form->n_loops; i++)
    if (outer >> i & 1) lanes_set(l, i, values[i]);
  e->row = *all;
  for (int i = 0; i < form->n_outputs; i++) {
    gen_value results[LANES_MAX];
    int n;
    if (mma_has_columns(e->c, i)) continue;
    TRY(lanes_eval(l, form->outputs[i].value, results, &n, err));
    TRY(lanes_store(l, i, results, n, NULL, err));
  }
  return ARKE_OK;
}

static arke_status store_rows(mma_emitter *e, arke_error *err) {
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
  if (e->c->rows.whole) {
    product_row_store(b, e->c, &all, shared_part(e, row[0], gen_i32(b, 0)), true);
    TRY(store_outputs(e, m, &all, err));
  } else {
    gen_value to = product_rows_address(b, e->c, gen_param(b, e->k->partials), e->batch,
                                        gen_param(b, e->k->m), m, gen_param(b, e->k->tiles_n), e->tile_n);
    product_row_store(b, e->c, &all, to, false);
  }
  gen_if_end(b, &branch);
  row[0] = gen_add_imm(b, row[0], p->threads);
  gen_loop_end(b, &loop);
  return ARKE_OK;
}

arke_status mma_finish_rows(mma_emitter *e, arke_error *err) {
  gen_value own = gen_mul_imm(e->b, e->warp, (int64_t)e->p->staged_bytes * e->c->n_sums);
  gen_value base = gen_add(e->b, e->smem, own);
  for (int part = 0; part < e->p->warp_m / e->p->staged_rows; part++) TRY(reduce_part(e, base, part, err));
  gen_cta_sync(e->b);
  TRY(store_rows(e, err));
  if (e->c->rows.whole) gen_cta_sync(e->b); /* before rows are taken by those who have their elements */
  return ARKE_OK;
}
