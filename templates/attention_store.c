/* The end of a tile: outputs are expressions over the sums of weights times values, the weights' own sum and
 * the largest score. */
#include <math.h>

#include "generator/gen_bits.h"
#include "generator/gen_warp.h"
#include "templates/attention_emit.h"

/* The row whose outputs are evaluated: what REDUCE nodes are there. */
typedef struct stored_row {
  attention_emitter *e;
  lanes *l;
  gen_value group; /* the request, or their number */
  attention_statistics of;
  gen_value lag;         /* what sums are multiplied by; NULL: nothing */
  const gen_value *sums; /* of the columns at hand; NULL: none */
  int width;             /* how many */
} stored_row;

static arke_status statistic(void *user, const ir_expr *x, gen_value *values, arke_error *err) {
  stored_row *row = user;
  gen_builder *b = row->e->b;
  const attention_match *m = row->e->m;
  if (x == m->groups.of && row->group) {
    bool wide = ir_form_type(&m->form, x) == DTYPE_I64;
    for (int i = 0; i < LANES_MAX; i++) values[i] = wide ? gen_sext(b, row->group, GEN_I64) : row->group;
    return ARKE_OK;
  }
  if (x == m->largest) {
    values[0] = m->base2 ? row->of.largest : gen_fmul(b, row->of.largest, gen_f32(b, M_LN2));
    return ARKE_OK;
  }
  if (x == m->total) {
    values[0] = row->of.total;
    return ARKE_OK;
  }
  if (x != m->weighted || !row->sums)
    return error_set(err, ARKE_ERR_INTERNAL, "generate", "a reduction that the attention template has not");
  int n;
  gen_value divisor[LANES_MAX];
  if (m->divisor) TRY(lanes_eval(row->l, m->divisor, divisor, &n, err));
  for (int i = 0; i < row->width; i++) {
    values[i] = row->lag ? gen_fmul(b, row->sums[i], row->lag) : row->sums[i];
    if (m->divisor) values[i] = gen_divide(b, lanes_accuracy(row->l, x), values[i], divisor[0]);
  }
  return ARKE_OK;
}

/* Over the four lanes of a row. */
attention_statistics attention_finish_row(attention_emitter *e, const attention_state *state, int r,
                                          gen_value *lag) {
  gen_builder *b = e->b;
  gen_value total = state->total[r];
  for (int lane = 1; lane <= 2; lane *= 2)
    total = gen_fadd(b, total, gen_shuffle_xor(b, total, gen_i32(b, lane), 32));
  *lag = attention_lag(e, state, r);
  return (attention_statistics){.largest = state->largest[r], .total = gen_fmul(b, total, *lag)};
}

static arke_status set_row(attention_emitter *e, const attention_place *at, gen_value query, gen_value head,
                           lanes_options o, stored_row *row, arke_error *err) {
  const attention_match *m = e->m;
  row->width = o.width;
  o.user = row;
  o.reduce = statistic;
  TRY(lanes_create(e->b, &m->form, &o, &e->k->epilogue_slots, e->k->a, &row->l, err));
  for (int i = 0; i < m->batch.n; i++) {
    int loop = m->batch.loops[i];
    lanes_set(row->l, loop, attention_index(e, at->loops[loop]));
  }
  lanes_set(row->l, m->query, attention_index(e, query));
  if (head) lanes_set(row->l, e->p->pack.loop, attention_index(e, head));
  return ARKE_OK;
}

/* By the thread whose column (i32) is 0. */
static arke_status store_statistics(attention_emitter *e, gen_value column, stored_row *row,
                                    arke_error *err) {
  gen_builder *b = e->b;
  const ir_form *form = &e->m->form;
  gen_branch first;
  if (form->n_outputs == 1) return ARKE_OK;
  gen_if(b, &first, gen_compare_imm(b, GEN_EQ, column, 0), NULL, 0);
  for (int o = 0; o < form->n_outputs; o++) {
    gen_value values[LANES_MAX];
    int n;
    if (o == e->m->output) continue;
    TRY(lanes_load(row->l, form->outputs[o].value, err));
    TRY(lanes_eval(row->l, form->outputs[o].value, values, &n, err));
    TRY(lanes_store(row->l, o, values, n, NULL, err));
  }
  gen_if_end(b, &first);
  lanes_forget(row->l);
  return ARKE_OK;
}

/* The values of two neighbouring columns, from sums i and i + 1. */
static arke_status evaluate(attention_emitter *e, const attention_rows *rows, stored_row *row,
                            const gen_value *sums, int i, gen_value *values, arke_error *err) {
  const attention_match *m = e->m;
  const ir_expr *value = m->form.outputs[m->output].value;
  int n;
  gen_value column = gen_add(e->b, rows->first_column, rows->column);
  lanes_set(row->l, m->wide, attention_index(e, gen_add_imm(e->b, column, 8 * (int64_t)(i / 4))));
  row->sums = &sums[i];
  TRY(lanes_load(row->l, value, err));
  return lanes_eval(row->l, value, values, &n, err);
}

static arke_status store_columns(attention_emitter *e, const attention_rows *rows, int r, stored_row *row,
                                 const gen_value *sums, arke_error *err) {
  for (int i = 2 * r; i < e->p->sum_columns / 2; i += 4) {
    gen_value values[LANES_MAX];
    TRY(evaluate(e, rows, row, sums, i, values, err));
    TRY(lanes_store(row->l, e->m->output, values, 2, NULL, err));
  }
  return ARKE_OK;
}

/* A row past the last one is evaluated as that is, and not copied. */
static arke_status pack_columns(attention_emitter *e, const attention_rows *rows, int r, stored_row *row,
                                const gen_value *sums, gen_value *words, arke_error *err) {
  const ir_form *form = &e->m->form;
  dtype type = ir_tensor_dtype(form->problem, form->accesses[e->m->o].tensor);
  lanes_forget(row->l);
  for (int i = 2 * r; i < e->p->sum_columns / 2; i += 4) {
    gen_value values[LANES_MAX];
    TRY(evaluate(e, rows, row, sums, i, values, err));
    words[i / 2] = gen_pack_halves(e->b, type, values[0], values[1]);
  }
  return ARKE_OK;
}

arke_status attention_store(attention_emitter *e, const attention_place *at, const attention_rows *rows,
                            const attention_state *state, const gen_value *sums, arke_error *err) {
  gen_builder *b = e->b;
  gen_value words[ATTENTION_SUMS / 2 + 2];
  for (int r = 0; r < ATTENTION_ROWS; r++) {
    stored_row row = {.e = e, .group = e->group};
    if (at->none) row.group = gen_select(b, at->none, attention_extent(e, e->m->groups.loop), e->group);
    gen_branch branch;
    gen_value exists = gen_compare(b, GEN_SLE, rows->query[r], at->last), query = rows->query[r];
    gen_value head = e->p->pack.loop >= 0 ? rows->head[r] : NULL;
    if (e->p->copied) query = gen_select(b, exists, query, at->last);
    if (head) exists = gen_and(b, exists, gen_compare(b, GEN_SLE, head, at->last_head));
    if (head && e->p->copied) head = gen_smin(b, head, at->last_head);
    row.of = attention_finish_row(e, state, r, &row.lag);
    TRY(set_row(e, at, query, head, e->p->epilogue, &row, err));
    gen_if(b, &branch, exists, NULL, 0);
    TRY(store_statistics(e, gen_or(b, rows->first_column, rows->column), &row, err));
    if (!e->p->copied) TRY(store_columns(e, rows, r, &row, sums, err));
    gen_if_end(b, &branch);
    if (e->p->copied) TRY(pack_columns(e, rows, r, &row, sums, words, err));
  }
  return e->p->copied ? attention_copy(e, at, rows, words, err) : ARKE_OK;
}

arke_status attention_store_run(attention_emitter *e, const attention_place *at, gen_value query,
                                gen_value column, const attention_statistics *of, const gen_value *sums,
                                arke_error *err) {
  const attention_match *m = e->m;
  const ir_expr *value = m->form.outputs[m->output].value;
  gen_value values[LANES_MAX];
  stored_row row = {.e = e, .of = *of, .sums = sums};
  int n;
  TRY(set_row(e, at, query, NULL, e->p->combine, &row, err));
  lanes_set(row.l, m->wide, attention_index(e, column));
  TRY(lanes_load(row.l, value, err));
  TRY(lanes_eval(row.l, value, values, &n, err));
  TRY(lanes_store(row.l, m->output, values, n, NULL, err));
  lanes_forget(row.l);
  return store_statistics(e, column, &row, err);
}
