/* A step of a consumer warp group: the products of its rows with the columns, P and dS from them, and the
 * products of those with the step's operands, which sums in registers take in. Rows of P and dS are those of
 * accumulators, whose layout is that of an operand in registers.
 *
 * While weights are computed, the other product of the step runs; while their gradients are, the product of
 * the weights; and what is left is for the other groups' products. */
#include "generator/gen_barrier.h"
#include "generator/gen_bits.h"
#include "generator/gen_tma.h"
#include "templates/backward_consumer.h"

/* --- products --- */

void backward_step_set_up(backward_consumer *c) {
  backward_emitter *e = c->e;
  const backward_pass *p = e->p;
  dtype type = e->m->type;
  c->n_scores = p->block_columns / 2;
  c->n_words = p->block_columns / 4;
  for (int i = 0; i < 2; i++) {
    int width = (int)ir_form_extent(&e->m->form, backward_width_loop(e->m, i));
    const attention_tile *columns = &p->columns[i];
    c->column_descriptor[i] = attention_tile_descriptor(e->b, e->smem_columns[i], 16);
    c->sum_descriptor[i] = attention_tile_descriptor(e->b, e->smem_columns[i], columns->panel_bytes);
    c->products[i] = (gen_wgmma){.type = type,
                                 .b_type = type,
                                 .n = p->block_columns,
                                 .tiles = 1,
                                 .k_steps = columns->columns / 16,
                                 .a = attention_tile_rows(&p->rows[i]),
                                 .b = attention_tile_rows(columns)};
    c->outer[i] = (gen_wgmma){.type = type,
                              .b_type = type,
                              .n = width,
                              .tiles = 1,
                              .k_steps = p->block_columns / 16,
                              .b = {.transposed = true}};
    for (int k = 0; k < c->outer[i].k_steps; k++) c->outer[i].b.step_offset[k] = k * 16 * 128;
    c->n_sums[i] = p->sums[i] ? width / 2 : 0;
  }
  if (p->updates) backward_update_set_up(e, c->group, &c->update);
}

/* Index of the stage before. */
static gen_value previous_stage(const backward_consumer *c) {
  gen_builder *b = c->e->b;
  gen_value first = gen_compare_imm(b, GEN_EQ, c->stage.index, 0);
  return gen_select(b, first, gen_i32(b, c->e->p->stages - 1), gen_add_imm(b, c->stage.index, -1));
}

static gen_value stage_of(gen_builder *b, gen_value first, gen_value index, int bytes) {
  return gen_add(b, first, gen_zext(b, gen_mul_imm(b, index, bytes >> 4), GEN_I64));
}

/* Rows times columns of operand `which`: the scores, or the slopes. */
static void issue_product(backward_consumer *c, int which, gen_value *s) {
  gen_builder *b = c->e->b;
  for (int i = 0; i < c->n_scores; i++) s[i] = gen_undefined(b, GEN_F32);
  gen_value columns = stage_of(b, c->column_descriptor[which], c->stage.index, c->e->p->columns[which].bytes);
  gen_wgmma_issue(b, &c->products[which], c->row_descriptor[which], columns, gen_bool(b, false), s);
}

/* dS or P, as words of two columns, times the columns of operand `which`. */
static void issue_sums(backward_consumer *c, int which, const gen_value *words, gen_value index) {
  gen_builder *b = c->e->b;
  gen_value columns = stage_of(b, c->sum_descriptor[which], index, c->e->p->columns[which].bytes);
  gen_wgmma_issue_registers(b, &c->outer[which], words, columns, gen_bool(b, true), c->sums[which]);
}

static void pack(backward_consumer *c, const gen_value *s, gen_value *words) {
  for (int i = 0; i < c->n_words; i++)
    words[i] = gen_pack_halves(c->e->b, c->e->m->type, s[2 * i], s[2 * i + 1]);
}

/* --- a step --- */

/* Whether the step has any columns that not all of the rows meet. */
static gen_value needs_mask(backward_consumer *c, gen_value column) {
  gen_builder *b = c->e->b;
  gen_value past = gen_compare(b, GEN_SGT, gen_add_imm(b, column, c->e->p->block_columns), c->own.all_below);
  past = gen_or(b, past, gen_compare(b, GEN_SLT, column, c->own.all_from));
  if (!c->e->p->updates) return past;
  gen_value last = gen_add(b, c->at.first, gen_add_imm(b, gen_mul_imm(b, c->group, 64), 63));
  gen_value rows = backward_extent(c->e, backward_row_loop(c->e->m, c->e->p->side));
  return gen_or(b, past, gen_compare(b, GEN_UGE, last, rows));
}

static arke_status mask_where_needed(backward_consumer *c, gen_value needed, gen_value column, gen_value *x,
                                     arke_error *err) {
  gen_branch some;
  gen_if(c->e->b, &some, needed, x, c->n_scores);
  TRY(backward_mask(c->e, &c->rows, column, x, c->n_scores, err));
  gen_if_end(c->e->b, &some);
  return ARKE_OK;
}

void backward_release_columns(backward_consumer *c, int which, gen_value index) {
  backward_emitter *e = c->e;
  gen_value lane = gen_and(e->b, c->thread, gen_i32(e->b, 31));
  gen_pipeline_release(e->b, &e->of_columns[which], index, lane, NULL);
}

void backward_release_rows(backward_consumer *c, gen_value index, gen_value predicate) {
  backward_emitter *e = c->e;
  gen_builder *b = e->b;
  gen_branch leader;
  if (e->p->copied[0] || e->p->copied[1]) {
    gen_value first = gen_compare_imm(b, GEN_EQ, c->thread, 0);
    gen_if(b, &leader, predicate ? gen_and(b, first, predicate) : first, NULL, 0);
    gen_tma_store_wait_read(b, 0);
    gen_if_end(b, &leader);
  }
  gen_pipeline_release(b, &e->of_rows, index, c->thread, predicate);
}

bool backward_releases_late(const backward_consumer *c) {
  return c->e->p->row_stages == 2 && (c->e->p->copied[0] || c->e->p->copied[1]);
}

static gen_value is_first(const backward_consumer *c, const backward_walk *w) {
  gen_builder *b = c->e->b;
  gen_value first = gen_compare(b, GEN_EQ, w->step, c->start);
  return w->heads ? gen_and(b, first, gen_compare(b, GEN_EQ, w->heads, c->at.heads)) : first;
}

/* The rows of the tile before, under the first products of this one. */
static void release_rows_late(backward_consumer *c, const backward_walk *w, bool first) {
  gen_builder *b = c->e->b;
  if (!backward_releases_late(c) || (c->e->p->overlap && !first)) return;
  gen_value when = gen_compare_imm(b, GEN_NE, c->round, 0);
  if (!first) when = gen_and(b, when, is_first(c, w));
  backward_release_rows(c, gen_xor(b, backward_tile_stage(c->e, c->round, false).index, gen_i32(b, 1)), when);
}

/* The sums that the last words of a step go into: with OVERLAP they wait for the next step's scores. */
static int last_sums(const backward_consumer *c) {
  return c->e->p->sums[0] ? 0 : 1;
}

/* What the last step of stage `index` has left. */
static void issue_left(backward_consumer *c, gen_value index) {
  if (!c->e->p->updates) {
    issue_sums(c, last_sums(c), c->words, index);
    return;
  }
  gen_value columns = stage_of(c->e->b, c->sum_descriptor[0], index, c->e->p->columns[0].bytes);
  backward_update_issue_keys(c->e, &c->update, columns, c->sums[0]);
}

/* The sums of dQ of the step before; `after`: groups of products issued since. */
static void send_update(backward_consumer *c, int after) {
  gen_wgmma_wait(c->e->b, after, c->update.sums, c->update.n);
  backward_update_send(c->e, &c->rows, &c->update);
}

static void finish_words(backward_consumer *c, gen_value index) {
  int last = last_sums(c);
  issue_left(c, index);
  gen_wgmma_wait(c->e->b, 0, c->sums[last], c->n_sums[last]);
  backward_release_columns(c, last, index);
}

arke_status backward_finish_rows(backward_consumer *c, arke_error *err) {
  if (c->e->p->side != BACKWARD_QUERIES) return ARKE_OK;
  return backward_rows_finish(c->e, &c->at, &c->rows, c->reads, err);
}

/* Scores and slopes are issued, and before the slopes what the step before has left. Groups of products end
 * in the order they were issued in. */
static arke_status issue_products(backward_consumer *c, const backward_walk *w, bool first, gen_value *s,
                                  gen_value *slopes, arke_error *err) {
  backward_emitter *e = c->e;
  gen_builder *b = e->b;
  bool before = e->p->overlap && !first, with = e->p->sums[0];
  gen_pipeline_wait(b, &e->of_columns[0], c->stage);
  if (before && e->p->updates) backward_update_issue(e, &c->update);
  issue_product(c, 0, s);
  if (before) issue_left(c, previous_stage(c));
  if (before && e->p->updates) send_update(c, 2);
  gen_pipeline_wait(b, &e->of_columns[1], c->stage);
  if (with) issue_product(c, 1, slopes);
  release_rows_late(c, w, first);
  if (first) TRY(backward_finish_rows(c, err));
  gen_wgmma_wait(b, before + with, s, c->n_scores);
  return ARKE_OK;
}

arke_status backward_multiply_step(backward_consumer *c, const backward_walk *w, bool first,
                                   arke_error *err) {
  backward_emitter *e = c->e;
  gen_builder *b = e->b;
  const backward_pass *p = e->p;
  gen_value s[BACKWARD_MOST_SCORES], slopes[BACKWARD_MOST_SCORES], weights[BACKWARD_MOST_WORDS],
      index = c->stage.index;
  gen_value column = gen_mul_imm(b, w->step, p->block_columns), masked = needs_mask(c, column);
  bool overlap = e->p->overlap, both = p->sums[0] && p->sums[1];
  int last = last_sums(c);
  TRY(issue_products(c, w, first, s, slopes, err));
  backward_weights(e, &c->rows, index, s, c->n_scores);
  TRY(mask_where_needed(c, masked, column, s, err));
  if (overlap && !first) {
    gen_wgmma_wait(b, p->sums[0], c->sums[last], c->n_sums[last]);
    backward_release_columns(c, last, previous_stage(c));
  }
  if (p->sums[1]) pack(c, s, p->sums[0] ? weights : c->words);
  if (both) issue_sums(c, 1, weights, index);
  if (p->sums[0]) {
    gen_wgmma_wait(b, both, slopes, c->n_scores);
    backward_slopes(e, &c->rows, index, s, slopes, c->n_scores);
    TRY(mask_where_needed(c, masked, column, slopes, err));
    pack(c, slopes, c->words);
  }
  if (p->updates) backward_update_put(e, &c->rows, &c->update, c->words, c->n_words);
  if (!overlap) finish_words(c, index);
  if (both) gen_wgmma_wait(b, 0, c->sums[1], c->n_sums[1]);
  backward_release_columns(c, !last, index);
  c->stage = gen_pipeline_advance(b, &e->of_columns[0], c->stage);
  return ARKE_OK;
}

/* The last step's products, and its sums of dQ; then all groups are through with the tile's keys, in whose
 * place dK goes. */
static void finish_update(backward_consumer *c) {
  backward_emitter *e = c->e;
  gen_builder *b = e->b;
  backward_update_issue(e, &c->update);
  issue_left(c, previous_stage(c));
  send_update(c, 1);
  gen_wgmma_wait(b, 0, c->sums[0], c->n_sums[0]);
  backward_release_columns(c, 0, previous_stage(c));
  gen_named_sync(b, gen_i32(b, BACKWARD_ALL_BARRIER), 128 * e->p->consumers);
}

void backward_finish_steps(backward_consumer *c) {
  const backward_pass *p = c->e->p;
  if (p->updates) {
    finish_update(c);
  } else if (p->overlap) {
    finish_words(c, previous_stage(c));
  }
}
