/* The end of a tile whose rows are reduced (contraction_rows.h): where the accumulators are, pair of columns
 * by pair. Four neighbouring lanes share a row of a row tile; what its columns come to goes to the workspace,
 * and another kernel combines the tiles. Where a tile has whole rows it stays in registers, and outputs that
 * are of rows alone are stored here. */
#include "templates/gemm_emit.h"

/* The columns that a thread has of one of its rows. */
typedef struct row_part {
  gen_value row, column; /* of the row, and of its first column; i32 */
  const gen_value *acc;  /* of the row's first pair, of the first sum; 4 from one pair to the next */
} row_part;

enum { MOST_RUNS = 64 }; /* single columns of 256 */

/* An evaluator of `width` columns whose sums are known. */
static arke_status make_run(gemm_emitter *e, const gemm_epilogue *p, const row_part *part, int pair,
                            int first, product_run *run) {
  gen_builder *b = e->b;
  const contraction *c = e->plan->match.c;
  lanes_options o = e->plan->epilogue;
  o.user = (void *)e->kernel;
  o.reduce = gemm_sum_value;
  TRY(lanes_create(b, &c->form, &o, &e->kernel->epilogue_slots, e->kernel->a, &run->l, e->err));
  run->column = gen_add_imm(b, part->column, pair * 8 + first);
  run->active = gen_compare(b, GEN_ULT, run->column, e->n);
  gen_value last_row = gen_add_imm(b, e->m, -1), last_column = gen_add_imm(b, e->n, -o.width);
  gemm_set_loops(e, run->l, p->tile, gen_umin(b, part->row, last_row), gen_umin(b, run->column, last_column));
  e->fragment = run->l;
  e->sums = part->acc + 4 * pair + first;
  for (int i = 0; i < c->n_sums; i++) {
    gen_value values[LANES_MAX];
    int n;
    TRY(lanes_eval(run->l, c->sums[i].e, values, &n, e->err));
  }
  return ARKE_OK;
}

static arke_status reduce_row(gemm_emitter *e, const gemm_epilogue *p, const row_part *part,
                              product_row *row) {
  int width = e->plan->epilogue.width, n = 0;
  product_run runs[MOST_RUNS];
  *row = product_row_start(e->b, e->plan->match.c);
  for (int pair = 0; pair < p->columns / 8; pair++)
    for (int first = 0; first < 2; first += width) TRY(make_run(e, p, part, pair, first, &runs[n++]));
  return product_row_reduce(e->b, e->plan->match.c, runs, n, width, 4, row, e->err);
}

static void store_row(gemm_emitter *e, const gemm_epilogue *p, gen_value row, gen_value is_first,
                      const product_row *parts) {
  gen_builder *b = e->b;
  const gemm_kernel *k = e->kernel;
  gen_value inside =
      gen_and(b, gen_compare(b, GEN_ULT, row, e->m), gen_compare(b, GEN_ULT, p->tile.column, e->n));
  gen_branch branch;
  gen_if(b, &branch, gen_and(b, inside, is_first), NULL, 0);
  gen_value tile = gen_udiv(b, p->tile.column, gen_i32(b, e->plan->block_n));
  gen_value to = product_rows_address(b, e->plan->match.c, gen_param(b, k->row_parts), p->tile.batch, e->m,
                                      row, gen_param(b, k->row_tiles), tile);
  product_row_store(b, e->plan->match.c, parts, to, false);
  gen_if_end(b, &branch);
}

bool gemm_rows_have(const contraction *c, int output) {
  const ir_access *y = &c->form.accesses[c->form.outputs[output].access];
  for (int s = 0; s < y->n; s++)
    if (ir_form_free(&c->form, y->subscripts[s].e) >> c->rows.column & 1) return true;
  return false;
}

/* By one of the lanes that share the row. */
static arke_status store_outputs(gemm_emitter *e, const gemm_epilogue *p, gen_value row, gen_value is_first) {
  gen_builder *b = e->b;
  const contraction *c = e->plan->match.c;
  lanes_options o = e->plan->row_parts.options;
  lanes *l;
  o.user = (void *)e->kernel;
  o.reduce = gemm_sum_value;
  TRY(lanes_create(b, &c->form, &o, &e->kernel->epilogue_slots, e->kernel->a, &l, e->err));
  gen_value last_row = gen_add_imm(b, e->m, -1);
  gemm_set_loops(e, l, p->tile, gen_umin(b, row, last_row), gen_i32(b, 0));
  gen_value end = p->tile.end ? p->tile.end : e->m;
  gen_value inside = gen_and(b, gen_compare(b, GEN_ULT, row, end), is_first);
  for (int i = 0; i < c->form.n_outputs; i++) {
    gen_value values[LANES_MAX];
    int n;
    if (gemm_rows_have(c, i)) continue;
    TRY(lanes_eval(l, c->form.outputs[i].value, values, &n, e->err));
    TRY(lanes_store(l, i, values, n, inside, e->err));
  }
  return ARKE_OK;
}

void gemm_rows_finish(gemm_emitter *e, gemm_epilogue *p, gen_value thread, const gen_value *acc) {
  gen_builder *b = e->b;
  const gemm_plan *plan = e->plan;
  int sums = p->columns / 2;
  gen_value is_first = gen_compare_imm(b, GEN_EQ, gen_and(b, thread, gen_i32(b, 3)), 0);
  e->sum_stride = sums;
  for (int tile = 0; tile < plan->group_rows / 64; tile++) {
    for (int half = 0; half < 2; half++) {
      product_row row;
      row_part part = {.row = gen_add_imm(b, p->first_row, tile * 64 + half * 8),
                       .column = p->first_column,
                       .acc = acc + tile * plan->match.n_sums * sums + 2 * half};
      if (!gemm_note(e, reduce_row(e, p, &part, &row))) return;
      if (!plan->match.c->rows.whole) {
        store_row(e, p, part.row, is_first, &row);
        continue;
      }
      p->rows[2 * tile + half] = row;
      e->row = &p->rows[2 * tile + half];
      if (!gemm_note(e, store_outputs(e, p, part.row, is_first))) return;
    }
  }
}
