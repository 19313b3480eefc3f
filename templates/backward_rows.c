/* What is known of a tile's queries beside their products: l, in base 2, and e, the sum of O * dO along a
 * row. Four lanes have a row, and add up every fourth run of 8 terms. Both are left in the workspace for the
 * tiles of keys, whose columns they belong to. */
#include <math.h>

#include "generator/gen_barrier.h"
#include "generator/gen_memory.h"
#include "generator/gen_warp.h"
#include "templates/backward_emit.h"

enum { RUN = 8, LANES_OF_ROW = 4, MOST_RUNS = 8 };

struct backward_reads {
  int n;                                      /* runs of a lane */
  lanes *l[BACKWARD_ROWS][MOST_RUNS];         /* with the loops of each set */
  gen_value inside[BACKWARD_ROWS][MOST_RUNS]; /* i1: the run is one of the row's */
  gen_value query[BACKWARD_ROWS];             /* the row's, or the last one */
};

static void set_row(backward_emitter *e, const backward_place *at, lanes *l, gen_value query) {
  const contraction_loops *batch = &e->m->batch[BACKWARD_QUERIES];
  for (int i = 0; i < batch->n; i++)
    lanes_set(l, batch->loops[i], backward_index(e, at->loops[batch->loops[i]]));
  lanes_set(l, e->m->query, backward_index(e, query));
}

arke_status backward_rows_read(backward_emitter *e, const backward_place *at, const backward_rows *rows,
                               backward_reads **reads, arke_error *err) {
  gen_builder *b = e->b;
  const backward_match *m = e->m;
  int length = (int)ir_form_extent(&m->form, m->dot->index);
  backward_reads *x = *reads = ARENA_NEW(e->k->a, backward_reads);
  if (!x) return error_memory(err, "generate");
  x->n = (length + RUN * LANES_OF_ROW - 1) / (RUN * LANES_OF_ROW);
  gen_value lane = gen_and(b, rows->thread, gen_i32(b, LANES_OF_ROW - 1));
  for (int r = 0; r < BACKWARD_ROWS; r++) {
    x->query[r] = gen_umin(b, rows->row[r], at->last);
    for (int i = 0; i < x->n; i++) {
      gen_value first = gen_mul_imm(b, gen_add_imm(b, lane, (int64_t)i * LANES_OF_ROW), RUN);
      x->inside[r][i] = gen_compare_imm(b, GEN_ULT, first, length);
      TRY(lanes_create(b, &m->form, &e->plan->dot, &e->k->dot_slots, e->k->a, &x->l[r][i], err));
      set_row(e, at, x->l[r][i], x->query[r]);
      lanes_set(x->l[r][i], m->dot->index, backward_index(e, gen_umin(b, first, gen_i32(b, length - RUN))));
      TRY(lanes_load(x->l[r][i], m->dot->args[0], err));
    }
  }
  return ARKE_OK;
}

static arke_status sum_row(backward_emitter *e, backward_reads *x, int r, gen_value *sum, arke_error *err) {
  gen_builder *b = e->b;
  *sum = gen_f32(b, 0);
  for (int i = 0; i < x->n; i++) {
    gen_value v[LANES_MAX], run = NULL;
    int n;
    TRY(lanes_eval(x->l[r][i], e->m->dot->args[0], v, &n, err));
    for (int k = 0; k < RUN; k++) run = run ? gen_fadd(b, run, v[n == 1 ? 0 : k]) : v[0];
    *sum = gen_fadd(b, *sum, gen_select(b, x->inside[r][i], run, gen_f32(b, 0)));
  }
  for (int lane = 1; lane < LANES_OF_ROW; lane *= 2)
    *sum = gen_fadd(b, *sum, gen_shuffle_xor(b, *sum, gen_i32(b, lane), 32));
  return ARKE_OK;
}

arke_status backward_rows_finish(backward_emitter *e, const backward_place *at, backward_rows *rows,
                                 backward_reads *reads, arke_error *err) {
  gen_builder *b = e->b;
  const backward_match *m = e->m;
  for (int r = 0; r < BACKWARD_ROWS; r++) {
    gen_value v[LANES_MAX], zero = gen_f32(b, 0);
    gen_value exists = gen_compare(b, GEN_SLE, rows->row[r], at->last);
    int n;
    gen_branch first;
    lanes_forget(e->l);
    set_row(e, at, e->l, reads->query[r]);
    TRY(lanes_eval(e->l, m->lse, v, &n, err));
    rows->lse[r] = m->base2 ? v[0] : gen_fmul(b, v[0], gen_f32(b, M_LOG2E));
    TRY(sum_row(e, reads, r, &rows->dot[r], err));
    gen_if(b, &first, gen_compare_imm(b, GEN_EQ, rows->column, 0), NULL, 0);
    gen_store_global(b, gen_select(b, exists, rows->lse[r], zero),
                     backward_statistic(e, at, NULL, rows->row[r], e->k->lse));
    gen_store_global(b, gen_select(b, exists, rows->dot[r], zero),
                     backward_statistic(e, at, NULL, rows->row[r], e->k->dot));
    gen_if_end(b, &first);
  }
  lanes_forget(e->l);
  return ARKE_OK;
}

/* --- by a kernel of their own --- */

/* Sums of dQ, and whose turn it is to add to them. */
static void clear(backward_emitter *e, const backward_place *at, gen_value thread) {
  gen_builder *b = e->b;
  const backward_pass *keys = &e->plan->passes[1];
  int64_t row_bytes = ir_form_extent(&e->m->form, e->m->depth) * 4;
  gen_value row = backward_query_row(e, at, NULL, at->first), zero = gen_f32(b, 0);
  const gen_value zeroes[] = {zero, zero, zero, zero};
  gen_value to = gen_add(b, gen_param(b, e->k->dq), gen_mul_imm(b, gen_zext(b, row, GEN_I64), row_bytes));
  to = gen_add(b, to, gen_mul_imm(b, gen_zext(b, thread, GEN_I64), 16));
  for (int64_t i = 0; i < e->p->block_rows * row_bytes; i += (int64_t)e->p->threads * 16)
    gen_store_global(b, gen_vector(b, zeroes, 4), gen_add_imm(b, to, i));
  gen_branch some;
  gen_if(b, &some, gen_compare_imm(b, GEN_ULT, thread, keys->consumers), NULL, 0);
  gen_value turn = gen_mul_imm(b, gen_lshr(b, row, gen_i32(b, 6)), keys->consumers);
  turn = gen_zext(b, gen_add(b, turn, thread), GEN_I64);
  gen_store_global(b, gen_i32(b, 0), gen_add(b, gen_param(b, e->k->turns), gen_mul_imm(b, turn, 4)));
  gen_if_end(b, &some);
}

arke_status backward_emit_statistics(gen_builder *b, const target *t, void *user, arke_error *err) {
  (void)t;
  const backward_kernel *k = user;
  backward_emitter e = {.b = b, .k = k, .plan = k->plan, .p = k->p, .m = k->plan->match};
  backward_place at;
  backward_reads *reads;
  gen_value thread = gen_tid_x(b), lane = gen_and(b, thread, gen_i32(b, 31));
  TRY(lanes_create(b, &e.m->form, &k->plan->rows, &k->row_slots, k->a, &e.l, err));
  gen_launches_wait(b);
  gen_launches_release(b);
  TRY(backward_locate(&e, gen_ctaid_x(b), &at, err));
  gen_value row = gen_add(b, gen_mul_imm(b, gen_lshr(b, thread, gen_i32(b, 5)), 16), at.first);
  row = gen_add(b, row, gen_lshr(b, lane, gen_i32(b, 2)));
  backward_rows rows = {.thread = thread,
                        .row = {row, gen_add_imm(b, row, 8)},
                        .column = gen_mul_imm(b, gen_and(b, lane, gen_i32(b, LANES_OF_ROW - 1)), 2)};
  TRY(backward_rows_read(&e, &at, &rows, &reads, err));
  clear(&e, &at, thread);
  return backward_rows_finish(&e, &at, &rows, reads, err);
}
