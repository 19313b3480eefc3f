/* The producer thread: copies the rows of a tile, then the operands of its steps, and with those of queries l
 * and e, which the kernel before has left in the workspace. */
#include "generator/gen_tma.h"
#include "templates/backward_emit.h"

/* Where a tile is in a tensor; `loop` is the one over its rows, which begin at `row`. at[0] is left to
 * panels. */
static arke_status find_tile(backward_emitter *e, int access, int loop, gen_value row, gen_value *at,
                             arke_error *err) {
  gen_builder *b = e->b;
  const ir_access *x = &e->m->form.accesses[access];
  for (int s = 0; s + 1 < x->n; s++) {
    const ir_expr *sub = x->subscripts[s].e;
    gen_value v[LANES_MAX] = {row};
    int n;
    if (sub->node != IR_INDEX || sub->id != loop) TRY(lanes_eval(e->l, sub, v, &n, err));
    if (gen_type_of(b, v[0]) == GEN_I64) v[0] = gen_trunc(b, v[0], GEN_I32);
    at[x->n - 1 - s] = v[0];
  }
  return ARKE_OK;
}

/* Copies a tile's panels. */
static arke_status load_tile(backward_emitter *e, const attention_tile *tile, gen_value map, int access,
                             int loop, gen_value row, gen_value shared, gen_value full, arke_error *err) {
  gen_builder *b = e->b;
  gen_value at[GEN_TMA_MAX_RANK];
  TRY(find_tile(e, access, loop, row, at, err));
  for (int i = 0; i < tile->panels; i++) {
    at[0] = gen_i32(b, (int64_t)i * 64);
    gen_tma_load(b, gen_add_imm(b, shared, (int64_t)i * tile->panel_bytes), map, at,
                 e->m->form.accesses[access].n, full, 0);
  }
  return ARKE_OK;
}

/* O is read by consumers themselves, when they begin with the tile. */
static arke_status prefetch_rows(backward_emitter *e, const backward_place *place, arke_error *err) {
  gen_builder *b = e->b;
  const backward_match *m = e->m;
  gen_value at[GEN_TMA_MAX_RANK];
  if (!e->p->prefetched) return ARKE_OK;
  TRY(find_tile(e, m->o, m->query, place->first, at, err));
  for (int64_t i = 0; i < ir_form_extent(&m->form, m->dot->index); i += 64) {
    at[0] = gen_i32(b, i);
    gen_tma_prefetch(b, gen_param(b, e->k->map_o), at, m->form.accesses[m->o].n);
  }
  return ARKE_OK;
}

static int access_of(const backward_match *m, int side, int operand) {
  if (side == BACKWARD_QUERIES) return operand == BACKWARD_FIRST ? m->q : m->d_o;
  return operand == BACKWARD_FIRST ? m->k : m->v;
}

static arke_status load_rows(backward_emitter *e, const backward_place *at, gen_stage stage,
                             arke_error *err) {
  gen_builder *b = e->b;
  const backward_pass *p = e->p;
  int bytes = p->rows[0].bytes + p->rows[1].bytes;
  gen_value full = gen_pipeline_acquire(b, &e->of_rows, stage, bytes);
  gen_value shared = gen_add(b, e->smem_rows, gen_mul_imm(b, stage.index, bytes));
  for (int i = 0; i < 2; i++) {
    if (!p->rows[i].bytes) continue;
    TRY(load_tile(e, &p->rows[i], e->map_rows[i], access_of(e->m, p->side, i),
                  backward_row_loop(e->m, p->side), at->first, shared, full, err));
    shared = gen_add_imm(b, shared, p->rows[i].bytes);
  }
  return ARKE_OK;
}

static arke_status load_step(backward_emitter *e, const backward_place *at, const backward_walk *w,
                             gen_stage stage, arke_error *err) {
  gen_builder *b = e->b;
  const backward_pass *p = e->p;
  gen_value column = gen_mul_imm(b, w->step, p->block_columns);
  const int statistics[] = {e->k->lse, e->k->dot};
  gen_value head = backward_walk_head(e, at, w);
  for (int i = 0; i < 2; i++) {
    bool with = p->side == BACKWARD_KEYS && (i == 0 || p->sums[0]);
    int more = with ? p->block_columns * 4 : 0;
    gen_value full = gen_pipeline_acquire(b, &e->of_columns[i], stage, p->columns[i].bytes + more);
    gen_value shared = gen_add(b, e->smem_columns[i], gen_mul_imm(b, stage.index, p->columns[i].bytes));
    TRY(load_tile(e, &p->columns[i], e->map_columns[i], access_of(e->m, !p->side, i),
                  backward_column_loop(e->m, p->side), column, shared, full, err));
    if (with)
      gen_bulk_load(b, gen_add(b, e->smem_statistics[i], gen_mul_imm(b, stage.index, more)),
                    backward_statistic(e, at, head, column, statistics[i]), more, full);
  }
  return ARKE_OK;
}

arke_status backward_emit_producer(backward_emitter *e, arke_error *err) {
  enum { ROUND, INDEX, PARITY, CARRIED };
  gen_builder *b = e->b;
  gen_stage start = gen_pipeline_producer_start(b);
  gen_value c[CARRIED] = {[ROUND] = gen_i32(b, 0), [INDEX] = start.index, [PARITY] = start.parity};
  gen_loop items;
  gen_loop_begin(b, &items, c, CARRIED);
  gen_value item = backward_item(e, c[ROUND]);
  gen_loop_while(b, &items, gen_compare(b, GEN_ULT, item, gen_param(b, e->k->items)));
  backward_place at;
  TRY(backward_locate(e, item, &at, err));
  TRY(prefetch_rows(e, &at, err));
  TRY(load_rows(e, &at, backward_tile_stage(e, c[ROUND], true), err));

  backward_walk w = backward_walk_start(&at);
  gen_value in[4] = {c[INDEX], c[PARITY], w.step, w.heads};
  gen_loop steps;
  gen_loop_begin(b, &steps, in, w.heads ? 4 : 3);
  w = (backward_walk){w.heads ? in[3] : NULL, in[2]};
  gen_stage stage = {in[0], in[1]};
  TRY(load_step(e, &at, &w, stage, err));
  stage = gen_pipeline_advance(b, &e->of_columns[0], stage);
  w = backward_walk_next(e, &at, &w);
  in[0] = stage.index;
  in[1] = stage.parity;
  in[2] = w.step;
  if (w.heads) in[3] = w.heads;
  gen_loop_end_while(b, &steps, backward_walk_goes_on(e, &at, &w));
  c[ROUND] = gen_add_imm(b, c[ROUND], 1);
  c[INDEX] = in[0];
  c[PARITY] = in[1];
  gen_loop_end(b, &items);
  return ARKE_OK;
}
