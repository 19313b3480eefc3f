/* The end of a tile: outputs are expressions over sums. Their 16-bit elements go through the place of the
 * tile's rows (stmatrix, then a tensor copy), while the group goes on to its next tile: a warp writes the
 * rows that only its own products have read. Sums of a part go to the workspace as they are. */
#include "generator/gen_barrier.h"
#include "generator/gen_memory.h"
#include "generator/gen_tma.h"
#include "templates/backward_emit.h"

enum { MOST_WORDS = 64 + 2 };

/* The row whose outputs are evaluated: what the REDUCE node is there. */
typedef struct stored_row {
  const backward_match *m;
  lanes *l;
  const gen_value *sums; /* of the columns at hand */
} stored_row;

/* Which of dQ, dK and dV. */
static int number_of(const backward_pass *p, int which) {
  return p->side == BACKWARD_QUERIES ? 0 : 1 + which;
}

static arke_status sum_of(void *user, const ir_expr *x, gen_value *values, arke_error *err) {
  stored_row *row = user;
  for (int i = 0; i < 3; i++)
    if (x == row->m->sums[i]) {
      values[0] = row->sums[0];
      values[1] = row->sums[1];
      return ARKE_OK;
    }
  return error_set(err, ARKE_ERR_INTERNAL, "generate", "a reduction that the gradients' template has not");
}

static arke_status set_row(backward_emitter *e, const backward_place *at, int which, gen_value index,
                           stored_row *row, arke_error *err) {
  const contraction_loops *batch = &e->m->batch[e->p->side];
  int number = number_of(e->p, which);
  lanes_options o = e->plan->epilogue[number];
  o.user = row;
  o.reduce = sum_of;
  TRY(lanes_create(e->b, &e->m->form, &o, &e->k->epilogue_slots[number], e->k->a, &row->l, err));
  for (int i = 0; i < batch->n; i++)
    lanes_set(row->l, batch->loops[i], backward_index(e, at->loops[batch->loops[i]]));
  lanes_set(row->l, backward_row_loop(e->m, e->p->side), backward_index(e, index));
  return ARKE_OK;
}

/* The values of two neighbouring columns, from sums i and i + 1. */
static arke_status evaluate(backward_emitter *e, const backward_rows *rows, int which, stored_row *row,
                            const gen_value *sums, int i, gen_value *values, arke_error *err) {
  const ir_expr *value = e->m->form.outputs[e->p->output[which]].value;
  int n;
  lanes_set(row->l, backward_width_loop(e->m, which),
            backward_index(e, gen_add_imm(e->b, rows->column, 8 * (int64_t)(i / 4))));
  row->sums = &sums[i];
  TRY(lanes_load(row->l, value, err));
  return lanes_eval(row->l, value, values, &n, err);
}

static int n_sums(const backward_emitter *e, int which) {
  return (int)ir_form_extent(&e->m->form, backward_width_loop(e->m, which)) / 2;
}

/* --- by a copy --- */

/* Words of 16 columns at a time. */
void backward_put_words(backward_emitter *e, const backward_rows *rows, const attention_tile *tile,
                        gen_value shared, const gen_value *words, int n_words) {
  gen_builder *b = e->b;
  gen_value lane = gen_and(b, rows->thread, gen_i32(b, 31)), warp = gen_lshr(b, rows->thread, gen_i32(b, 5));
  gen_value row = gen_add(b, gen_mul_imm(b, warp, 16), gen_and(b, lane, gen_i32(b, 15)));
  gen_value phase = gen_xor(b, gen_lshr(b, lane, gen_i32(b, 4)), gen_and(b, row, gen_i32(b, 7)));
  gen_value first = gen_add(b, shared, gen_mul_imm(b, row, 128)), zero = gen_i32(b, 0);
  for (int block = 0; block * 4 < n_words; block++) {
    bool whole = block * 4 + 4 <= n_words;
    const gen_value *w = &words[4 * block];
    const gen_value fragments[] = {w[0], w[1], whole ? w[2] : zero, whole ? w[3] : zero};
    gen_value chunk = gen_mul_imm(b, gen_xor(b, phase, gen_i32(b, block % 4 * 2)), 16);
    gen_stmatrix_x4(b, gen_add_imm(b, gen_add(b, first, chunk), (int64_t)(block / 4) * tile->panel_bytes),
                    fragments);
  }
}

static arke_status copy_output(backward_emitter *e, const backward_place *at, const backward_rows *rows,
                               int which, const gen_value *sums, arke_error *err) {
  gen_builder *b = e->b;
  const backward_pass *p = e->p;
  const ir_form *form = &e->m->form;
  const ir_access *x = &form->accesses[form->outputs[p->output[which]].access];
  dtype type = ir_tensor_dtype(form->problem, x->tensor);
  int place = p->rows[which].bytes ? which : 0, n = n_sums(e, which),
      row_loop = backward_row_loop(e->m, p->side);
  gen_value words[MOST_WORDS], to[GEN_TMA_MAX_RANK];
  for (int r = 0; r < BACKWARD_ROWS; r++) {
    stored_row row = {.m = e->m};
    /* A row past the last one is evaluated as that is, and not copied. */
    TRY(set_row(e, at, which, gen_umin(b, rows->row[r], at->last), &row, err));
    for (int i = 2 * r; i < n; i += 4) {
      gen_value values[LANES_MAX];
      TRY(evaluate(e, rows, which, &row, sums, i, values, err));
      words[i / 2] = gen_pack_halves(b, type, values[0], values[1]);
    }
  }
  backward_put_words(e, rows, &p->rows[place], rows->shared[place], words, n / 2);
  gen_fence_async_shared(b);
  gen_named_sync(b, gen_add_imm(b, rows->group, BACKWARD_GROUP_BARRIER), 128);
  gen_branch leader;
  gen_value first = gen_add(b, at->first, gen_mul_imm(b, rows->group, 64));
  gen_value exists = gen_compare(b, GEN_SLE, first, at->last);
  gen_if(b, &leader, gen_and(b, gen_compare_imm(b, GEN_EQ, rows->thread, 0), exists), NULL, 0);
  for (int s = 0; s < x->n; s++) {
    int loop = x->subscripts[s].e->id;
    to[x->n - 1 - s] = s == x->n - 1 ? gen_i32(b, 0) : loop == row_loop ? first : at->loops[loop];
  }
  for (int panel = 0; panel * 64 < 2 * n; panel++) {
    to[0] = gen_i32(b, (int64_t)panel * 64);
    gen_tma_store(b, e->map_out[which], to, x->n,
                  gen_add_imm(b, rows->shared[place], (int64_t)panel * p->rows[place].panel_bytes));
  }
  gen_tma_store_commit(b);
  gen_if_end(b, &leader);
  return ARKE_OK;
}

/* --- from registers --- */

static arke_status store_output(backward_emitter *e, const backward_place *at, const backward_rows *rows,
                                int which, const gen_value *sums, arke_error *err) {
  gen_builder *b = e->b;
  for (int r = 0; r < BACKWARD_ROWS; r++) {
    stored_row row = {.m = e->m};
    gen_branch exists;
    TRY(set_row(e, at, which, rows->row[r], &row, err));
    gen_if(b, &exists, gen_compare(b, GEN_SLE, rows->row[r], at->last), NULL, 0);
    for (int i = 2 * r; i < n_sums(e, which); i += 4) {
      gen_value values[LANES_MAX];
      TRY(evaluate(e, rows, which, &row, sums, i, values, err));
      TRY(lanes_store(row.l, e->p->output[which], values, 2, NULL, err));
    }
    gen_if_end(b, &exists);
  }
  return ARKE_OK;
}

/* All rows of the tile have a place there. */
static void store_partials(backward_emitter *e, const backward_place *at, const backward_rows *rows,
                           int which, const gen_value *sums) {
  gen_builder *b = e->b;
  gen_value padded = gen_mul_imm(b, gen_param(b, e->k->tiles), e->p->block_rows);
  gen_value batches = gen_udiv(b, gen_param(b, e->k->heads), gen_i32(b, e->plan->split));
  for (int r = 0; r < BACKWARD_ROWS; r++) {
    gen_value to = backward_partial(b, gen_param(b, e->k->partials[which]), at->part, batches, at->batch,
                                    padded, rows->row[r], 2 * n_sums(e, which), rows->column);
    for (int i = 2 * r; i < n_sums(e, which); i += 4)
      gen_store_global(b, gen_vector(b, &sums[i], 2), gen_add_imm(b, to, 32 * (int64_t)(i / 4)));
  }
}

arke_status backward_store(backward_emitter *e, const backward_place *at, const backward_rows *rows,
                           int which, const gen_value *sums, arke_error *err) {
  if (at->part) {
    store_partials(e, at, rows, which, sums);
    return ARKE_OK;
  }
  return e->p->copied[which] ? copy_output(e, at, rows, which, sums, err)
                             : store_output(e, at, rows, which, sums, err);
}
