/* The end of a tile. Accumulators are scattered over a warp's lanes; through shared memory they become runs
 * of columns, in which the epilogue is evaluated and stored as wide as the outputs allow. Each warp has a
 * place of its own there, so that warps need not wait for each other. */
#include "generator/gen_barrier.h"
#include "generator/gen_control.h"
#include "generator/gen_memory.h"
#include "generator/gen_warp.h"
#include "templates/contraction_value.h"
#include "templates/mma.h"

enum { UNROLL = 2 }; /* runs of a lane whose loads are under way together */

int mma_sum_bytes(const mma_plan *p) {
  return p->product.sum == GEN_F64 || p->product.sum == GEN_I64 ? 8 : 4;
}

/* --- sums --- */

void mma_read_staged(mma_emitter *e, int sum, gen_value *values) {
  gen_builder *b = e->b;
  const mma_plan *p = e->p;
  int width = p->epilogue.width, bytes = mma_sum_bytes(p), at_once = width * bytes <= 16 ? width : 16 / bytes;
  gen_value from = gen_add_imm(b, e->staged, (int64_t)sum * p->staged_bytes);
  for (int i = 0; i < width; i += at_once) {
    gen_value v = gen_load_shared(b, p->product.sum, at_once, gen_add_imm(b, from, (int64_t)i * bytes));
    for (int j = 0; j < at_once; j++) values[i + j] = at_once == 1 ? v : gen_lane(b, v, j);
  }
}

arke_status mma_group_value(void *user, const ir_expr *x, gen_value *values, arke_error *err) {
  mma_emitter *e = ((mma_kernel *)user)->current;
  if (x != e->c->groups.of)
    return error_set(err, ARKE_ERR_INTERNAL, "generate", "a reduction that the mma template did not match");
  gen_value group = contraction_value_as(e->b, e->group, ir_form_type(&e->c->form, x));
  for (int i = 0; i < LANES_MAX; i++) values[i] = group;
  return ARKE_OK;
}

arke_status mma_sum_value(void *user, const ir_expr *x, gen_value *values, arke_error *err) {
  mma_emitter *e = ((mma_kernel *)user)->current;
  if (x == e->c->groups.of) return mma_group_value(user, x, values, err);
  if (e->c->rows.whole && product_row_value(e->c, &e->row, e->b, x, &values[0])) return ARKE_OK;
  for (int i = 0; i < e->c->n_sums; i++) {
    const contraction_sum *s = &e->c->sums[i];
    if (s->e != x) continue;
    int width = e->p->epilogue.width;
    if (e->staged) {
      mma_read_staged(e, i, values);
    } else {
      for (int j = 0; j < width; j++) values[j] = e->values[i * width + j];
    }
    return contraction_sum_value(e->b, e->l, e->c, s, width, values, err);
  }
  return error_set(err, ARKE_ERR_INTERNAL, "generate", "a reduction that the mma template did not match");
}

/* --- runs of columns --- */

arke_status mma_set_run(mma_emitter *e, mma_run *r, arke_error *err) {
  const contraction *c = e->c;
  gen_builder *b = e->b;
  lanes_options o = e->p->epilogue;
  o.user = e->k;
  TRY(lanes_create(b, &c->form, &o, &e->k->epilogue_slots, e->k->a, &r->l, err));
  gen_value values[IR_FORM_LOOPS];
  /* Beyond the edge the last row or run is evaluated, and not stored. */
  gen_value last_m = gen_sub(b, gen_param(b, e->k->m), mma_index_imm(e, 1));
  gen_value last_n = gen_sub(b, gen_param(b, e->k->n), mma_index_imm(e, e->p->epilogue.width));
  for (int l = 0; l < c->form.n_loops; l++) values[l] = e->loops[l];
  mma_split_loops(e, &c->m, gen_umin(b, r->m, last_m), values);
  mma_split_loops(e, &c->n, gen_umin(b, r->n, last_n), values);
  unsigned outer = c->batch.set | c->m.set | c->n.set;
  for (int l = 0; l < c->form.n_loops; l++)
    if (outer >> l & 1) lanes_set(r->l, l, values[l]);
  return ARKE_OK;
}

static mma_run find_run(mma_emitter *e, gen_value base, gen_value item, int part) {
  gen_builder *b = e->b;
  const mma_plan *p = e->p;
  int width = p->epilogue.width, across = p->warp_n / width;
  gen_value column = gen_mul_imm(b, gen_and(b, item, gen_i32(b, across - 1)), width);
  gen_value row = gen_lshr(b, item, gen_i32(b, __builtin_ctz((unsigned)across)));
  gen_value at = gen_add(b, gen_mul_imm(b, row, p->pitch_bytes), gen_mul_imm(b, column, mma_sum_bytes(p)));
  gen_value m = gen_add(b, gen_add_imm(b, e->warp_m, (int64_t)part * p->staged_rows), row);
  mma_run r = {.staged = gen_add(b, base, at),
               .row = m,
               .m = gen_add(b, e->m0, mma_index(e, m)),
               .n = gen_add(b, e->n0, mma_index(e, gen_add(b, e->warp_n, column)))};
  r.active =
      gen_and(b, gen_compare(b, GEN_ULT, r.m, e->m_end), gen_compare(b, GEN_ULT, r.n, gen_param(b, e->k->n)));
  return r;
}

static arke_status store_outputs(mma_emitter *e, mma_run *runs, int n, arke_error *err) {
  const ir_form *form = &e->c->form;
  for (int i = 0; i < n; i++) {
    TRY(mma_set_run(e, &runs[i], err));
    for (int o = 0; o < form->n_outputs; o++) TRY(lanes_load(runs[i].l, form->outputs[o].value, err));
  }
  for (int i = 0; i < n; i++) {
    e->l = runs[i].l;
    e->staged = runs[i].staged;
    if (e->c->rows.whole) mma_load_row(e, &runs[i]);
    for (int o = 0; o < form->n_outputs; o++) {
      if (e->c->rows.whole && !mma_has_columns(e->c, o)) continue;
      gen_value values[LANES_MAX];
      int width;
      TRY(lanes_eval(e->l, form->outputs[o].value, values, &width, err));
      TRY(lanes_store(e->l, o, values, width, runs[i].active, err));
    }
  }
  return ARKE_OK;
}

/* --- a warp's tile --- */

void mma_stage_sums(mma_emitter *e, gen_value base, int part) {
  gen_builder *b = e->b;
  const mma_plan *p = e->p;
  int bytes = mma_sum_bytes(p), together = mma_neighbours(p);
  gen_value own =
      gen_add(b, gen_mul_imm(b, mma_lane_row(e), p->pitch_bytes), gen_mul_imm(b, mma_lane_column(e), bytes));
  own = gen_add(b, base, own);
  for (int i = 0; i < p->accumulators; i += together) {
    int row, column;
    mma_place(p, i, &row, &column);
    row -= part * p->staged_rows;
    if (row < 0 || row >= p->staged_rows) continue;
    for (int s = 0; s < e->c->n_sums; s++) {
      gen_value *sums = &e->sums[s * p->accumulators + i];
      int64_t at = (int64_t)s * p->staged_bytes + (int64_t)row * p->pitch_bytes + (int64_t)column * bytes;
      gen_store_shared(b, together == 1 ? sums[0] : gen_vector(b, sums, together), gen_add_imm(b, own, at));
    }
  }
}

static arke_status finish_part(mma_emitter *e, gen_value base, int part, arke_error *err) {
  gen_builder *b = e->b;
  const mma_plan *p = e->p;
  int each = p->staged_rows * p->warp_n / p->epilogue.width / 32, unroll = each < UNROLL ? each : UNROLL;
  gen_loop loop;
  mma_stage_sums(e, base, part);
  gen_warp_sync(b);
  gen_value item[] = {e->lane};
  gen_loop_begin(b, &loop, item, 1);
  gen_loop_while(b, &loop, gen_compare_imm(b, GEN_ULT, item[0], 32 * (int64_t)each));
  mma_run runs[UNROLL];
  for (int i = 0; i < unroll; i++)
    runs[i] = find_run(e, base, gen_add_imm(b, item[0], 32 * (int64_t)i), part);
  if (e->k->to_partials) {
    mma_store_partials(e, runs, unroll);
  } else {
    TRY(store_outputs(e, runs, unroll, err));
  }
  item[0] = gen_add_imm(b, item[0], 32 * (int64_t)unroll);
  gen_loop_end(b, &loop);
  if ((part + 1) * p->staged_rows < p->warp_m) gen_warp_sync(b); /* before the place is taken again */
  return ARKE_OK;
}

arke_status mma_finish(mma_emitter *e, arke_error *err) {
  if (e->c->rows.n > 0) TRY(mma_finish_rows(e, err));
  if (e->c->rows.n > 0 && !e->c->rows.whole) return ARKE_OK;
  gen_value own = gen_mul_imm(e->b, e->warp, (int64_t)e->p->staged_bytes * e->c->n_sums);
  gen_value base = gen_add(e->b, e->smem, own);
  for (int part = 0; part < e->p->warp_m / e->p->staged_rows; part++) TRY(finish_part(e, base, part, err));
  return ARKE_OK;
}
