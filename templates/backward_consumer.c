/* A consumer warp group: the products of its 64 rows with the columns, step by step, P and dS from them, and
 * the products of those with the steps' operands, which sums in registers take in. Rows of P and dS are those
 * of accumulators, whose layout is that of an operand in registers.
 *
 * While weights are computed, the other product of the step runs; while their gradients are, the product of
 * the weights; and what is left is for the other groups' products. */
#include "generator/gen_barrier.h"
#include "generator/gen_bits.h"
#include "generator/gen_tma.h"
#include "templates/backward_emit.h"

enum { MOST_SCORES = 64, MOST_WORDS = MOST_SCORES / 2, MOST_SUMS = 128 };

typedef struct consumer {
  backward_emitter *e;
  gen_value group, thread;
  backward_place at;
  backward_steps own; /* of the group's rows */
  backward_rows rows;
  gen_value row_descriptor[2], column_descriptor[2]; /* of the first stage of columns; i64 */
  gen_value sum_descriptor[2];                       /* the columns as what rows are multiplied into */
  gen_wgmma products[2], outer[2];
  int n_scores, n_words, n_sums[2];
  gen_stage stage;
  gen_value round; /* tiles before this one */
  gen_value start; /* the group's first step in the tile */
  backward_reads *reads;
  gen_value sums[2][MOST_SUMS];
  gen_value words[MOST_WORDS]; /* what the step before has left to multiply */
  backward_update update;      /* where it is in shared memory, and goes into dQ, too */
} consumer;

/* --- products --- */

static void set_up(consumer *c) {
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
static gen_value previous_stage(const consumer *c) {
  gen_builder *b = c->e->b;
  gen_value first = gen_compare_imm(b, GEN_EQ, c->stage.index, 0);
  return gen_select(b, first, gen_i32(b, c->e->p->stages - 1), gen_add_imm(b, c->stage.index, -1));
}

static gen_value stage_of(gen_builder *b, gen_value first, gen_value index, int bytes) {
  return gen_add(b, first, gen_zext(b, gen_mul_imm(b, index, bytes >> 4), GEN_I64));
}

/* Rows times columns of operand `which`: the scores, or the slopes. */
static void issue_product(consumer *c, int which, gen_value *s) {
  gen_builder *b = c->e->b;
  for (int i = 0; i < c->n_scores; i++) s[i] = gen_undefined(b, GEN_F32);
  gen_value columns = stage_of(b, c->column_descriptor[which], c->stage.index, c->e->p->columns[which].bytes);
  gen_wgmma_issue(b, &c->products[which], c->row_descriptor[which], columns, gen_bool(b, false), s);
}

/* dS or P, as words of two columns, times the columns of operand `which`. */
static void issue_sums(consumer *c, int which, const gen_value *words, gen_value index) {
  gen_builder *b = c->e->b;
  gen_value columns = stage_of(b, c->sum_descriptor[which], index, c->e->p->columns[which].bytes);
  gen_wgmma_issue_registers(b, &c->outer[which], words, columns, gen_bool(b, true), c->sums[which]);
}

static void pack(consumer *c, const gen_value *s, gen_value *words) {
  for (int i = 0; i < c->n_words; i++)
    words[i] = gen_pack_halves(c->e->b, c->e->m->type, s[2 * i], s[2 * i + 1]);
}

/* --- a step --- */

/* Whether the step has any columns that not all of the rows meet. */
static gen_value needs_mask(consumer *c, gen_value column) {
  gen_builder *b = c->e->b;
  gen_value past = gen_compare(b, GEN_SGT, gen_add_imm(b, column, c->e->p->block_columns), c->own.all_below);
  past = gen_or(b, past, gen_compare(b, GEN_SLT, column, c->own.all_from));
  if (!c->e->p->updates) return past;
  gen_value last = gen_add(b, c->at.first, gen_add_imm(b, gen_mul_imm(b, c->group, 64), 63));
  gen_value rows = backward_extent(c->e, backward_row_loop(c->e->m, c->e->p->side));
  return gen_or(b, past, gen_compare(b, GEN_UGE, last, rows));
}

static arke_status mask_where_needed(consumer *c, gen_value needed, gen_value column, gen_value *x,
                                     arke_error *err) {
  gen_branch some;
  gen_if(c->e->b, &some, needed, x, c->n_scores);
  TRY(backward_mask(c->e, &c->rows, column, x, c->n_scores, err));
  gen_if_end(c->e->b, &some);
  return ARKE_OK;
}

/* One of the operands of a stage goes back. */
static void release_columns(consumer *c, int which, gen_value index) {
  backward_emitter *e = c->e;
  gen_value lane = gen_and(e->b, c->thread, gen_i32(e->b, 31));
  gen_pipeline_release(e->b, &e->of_columns[which], index, lane, NULL);
}

/* The place of the rows goes back to the producer when outputs' copies have read it; where they are two,
 * under the next tile. Where nothing is copied, after the tile's last product, which all four warps have
 * issued. */
static void release_rows(consumer *c, gen_value index, gen_value predicate) {
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

static bool releases_late(const consumer *c) {
  return c->e->p->row_stages == 2 && (c->e->p->copied[0] || c->e->p->copied[1]);
}

static gen_value is_first(const consumer *c, const backward_walk *w) {
  gen_builder *b = c->e->b;
  gen_value first = gen_compare(b, GEN_EQ, w->step, c->start);
  return w->heads ? gen_and(b, first, gen_compare(b, GEN_EQ, w->heads, c->at.heads)) : first;
}

/* The rows of the tile before, under the first products of this one. */
static void release_rows_late(consumer *c, const backward_walk *w, bool first) {
  gen_builder *b = c->e->b;
  if (!releases_late(c) || (c->e->p->overlap && !first)) return;
  gen_value when = gen_compare_imm(b, GEN_NE, c->round, 0);
  if (!first) when = gen_and(b, when, is_first(c, w));
  release_rows(c, gen_xor(b, backward_tile_stage(c->e, c->round, false).index, gen_i32(b, 1)), when);
}

/* The sums that the last words of a step go into: with OVERLAP they wait for the next step's scores. */
static int last_sums(const consumer *c) {
  return c->e->p->sums[0] ? 0 : 1;
}

/* What the last step of stage `index` has left. */
static void issue_left(consumer *c, gen_value index) {
  if (!c->e->p->updates) {
    issue_sums(c, last_sums(c), c->words, index);
    return;
  }
  gen_value columns = stage_of(c->e->b, c->sum_descriptor[0], index, c->e->p->columns[0].bytes);
  backward_update_issue_keys(c->e, &c->update, columns, c->sums[0]);
}

/* The sums of dQ of the step before; `after`: groups of products issued since. */
static void send_update(consumer *c, int after) {
  gen_wgmma_wait(c->e->b, after, c->update.sums, c->update.n);
  backward_update_send(c->e, &c->rows, &c->update);
}

static void finish_words(consumer *c, gen_value index) {
  int last = last_sums(c);
  issue_left(c, index);
  gen_wgmma_wait(c->e->b, 0, c->sums[last], c->n_sums[last]);
  release_columns(c, last, index);
}

/* l and e of the tile's queries, which are under way since its beginning. */
static arke_status finish_rows(consumer *c, arke_error *err) {
  if (c->e->p->side != BACKWARD_QUERIES) return ARKE_OK;
  return backward_rows_finish(c->e, &c->at, &c->rows, c->reads, err);
}

/* Scores and slopes are issued, and before the slopes what the step before has left. Groups of products end
 * in the order they were issued in. */
static arke_status issue_products(consumer *c, const backward_walk *w, bool first, gen_value *s,
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
  if (first) TRY(finish_rows(c, err));
  gen_wgmma_wait(b, before + with, s, c->n_scores);
  return ARKE_OK;
}

/* `first`: there is no step before in this tile, or none whose words wait. */
static arke_status multiply_step(consumer *c, const backward_walk *w, bool first, arke_error *err) {
  backward_emitter *e = c->e;
  gen_builder *b = e->b;
  const backward_pass *p = e->p;
  gen_value s[MOST_SCORES], slopes[MOST_SCORES], weights[MOST_WORDS], index = c->stage.index;
  gen_value column = gen_mul_imm(b, w->step, p->block_columns), masked = needs_mask(c, column);
  bool overlap = e->p->overlap, both = p->sums[0] && p->sums[1];
  int last = last_sums(c);
  TRY(issue_products(c, w, first, s, slopes, err));
  backward_weights(e, &c->rows, index, s, c->n_scores);
  TRY(mask_where_needed(c, masked, column, s, err));
  if (overlap && !first) {
    gen_wgmma_wait(b, p->sums[0], c->sums[last], c->n_sums[last]);
    release_columns(c, last, previous_stage(c));
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
  release_columns(c, !last, index);
  c->stage = gen_pipeline_advance(b, &e->of_columns[0], c->stage);
  return ARKE_OK;
}

/* --- a tile --- */

/* What follows from the thread's number is computed here, for this tile, and not kept from tile to tile. */
static void find_rows(consumer *c) {
  backward_emitter *e = c->e;
  gen_builder *b = e->b;
  c->rows.thread = gen_pin(b, c->thread);
  const backward_pass *p = e->p;
  gen_value lane = gen_and(b, c->rows.thread, gen_i32(b, 31)),
            warp = gen_lshr(b, c->rows.thread, gen_i32(b, 5));
  gen_value row = gen_add(b, gen_mul_imm(b, c->group, 64), gen_mul_imm(b, warp, 16));
  row = gen_add(b, gen_add(b, row, gen_lshr(b, lane, gen_i32(b, 2))), c->at.first);
  gen_value shared = gen_add(b, e->smem_rows, gen_mul_imm(b, c->group, 64 * 128));
  shared = gen_add(
      b, shared,
      gen_mul_imm(b, backward_tile_stage(e, c->round, false).index, p->rows[0].bytes + p->rows[1].bytes));
  for (int i = 0; i < 2; i++) {
    c->rows.shared[i] = i == 0 ? shared : gen_add_imm(b, shared, p->rows[0].bytes);
    c->row_descriptor[i] = attention_tile_descriptor(e->b, c->rows.shared[i], 16);
  }
  c->rows.column = gen_mul_imm(b, gen_and(b, lane, gen_i32(b, 3)), 2);
  for (int r = 0; r < BACKWARD_ROWS; r++) c->rows.row[r] = gen_add_imm(b, row, 8 * (int64_t)r);
}

/* What a loop over steps carries. */
typedef struct carried {
  gen_value v[5 + 2 * MOST_SUMS + MOST_WORDS];
  int n;
} carried;

static void put(const consumer *c, const backward_walk *w, carried *to) {
  to->n = 0;
  to->v[to->n++] = c->stage.index;
  to->v[to->n++] = c->stage.parity;
  to->v[to->n++] = w->step;
  if (w->heads) to->v[to->n++] = w->heads;
  for (int i = 0; i < 2; i++)
    for (int k = 0; k < c->n_sums[i]; k++) to->v[to->n++] = c->sums[i][k];
  if (c->e->p->updates) {
    to->v[to->n++] = c->update.place;
  } else if (c->e->p->overlap) {
    for (int i = 0; i < c->n_words; i++) to->v[to->n++] = c->words[i];
  }
}

static void get(consumer *c, const carried *from, backward_walk *w) {
  int n = 3;
  c->stage = (gen_stage){from->v[0], from->v[1]};
  w->step = from->v[2];
  if (w->heads) w->heads = from->v[n++];
  for (int i = 0; i < 2; i++)
    for (int k = 0; k < c->n_sums[i]; k++) c->sums[i][k] = from->v[n++];
  if (c->e->p->updates) {
    c->update.place = from->v[n++];
  } else if (c->e->p->overlap) {
    for (int i = 0; i < c->n_words; i++) c->words[i] = from->v[n++];
  }
}

/* Steps before the group's own, or behind them, in which its rows meet nothing: their stages go back as they
 * come.
 */
static void pass_steps(consumer *c, backward_walk *w, bool before) {
  backward_emitter *e = c->e;
  gen_builder *b = e->b;
  gen_value v[4] = {c->stage.index, c->stage.parity, w->step, w->heads};
  gen_loop steps;
  gen_loop_begin(b, &steps, v, w->heads ? 4 : 3);
  *w = (backward_walk){w->heads ? v[3] : NULL, v[2]};
  c->stage = (gen_stage){v[0], v[1]};
  gen_loop_while(b, &steps,
                 before ? gen_compare(b, GEN_ULT, w->step, c->own.begin)
                        : backward_walk_goes_on(e, &c->at, w));
  for (int i = 0; i < 2; i++) {
    gen_pipeline_wait(b, &e->of_columns[i], c->stage);
    release_columns(c, i, c->stage.index);
  }
  c->stage = gen_pipeline_advance(b, &e->of_columns[0], c->stage);
  *w = backward_walk_next(e, &c->at, w);
  v[0] = c->stage.index;
  v[1] = c->stage.parity;
  v[2] = w->step;
  if (w->heads) v[3] = w->heads;
  gen_loop_end(b, &steps);
  *w = (backward_walk){w->heads ? v[3] : NULL, v[2]};
  c->stage = (gen_stage){v[0], v[1]};
}

/* Whether the columns that rows meet have such an end: an upper one, or a lower one. With updates all groups
 * walk all of the tile's steps, since each has columns of dQ. */
static bool has_bound(const consumer *c, bool upper) {
  const attention_bounds *bounds = &c->e->m->seen[c->e->p->side];
  if (c->e->p->updates) return false;
  for (int i = 0; i < bounds->n; i++)
    if (bounds->list[i].upper == upper) return true;
  return false;
}

/* Of the last head the group's own steps, of those before it all of the tile's. */
static gen_value goes_on(consumer *c, const backward_walk *w) {
  gen_builder *b = c->e->b;
  if (!has_bound(c, true)) return backward_walk_goes_on(c->e, &c->at, w);
  gen_value own = gen_compare(b, GEN_ULT, w->step, c->own.end);
  if (!w->heads) return own;
  gen_value last = gen_compare_imm(b, GEN_EQ, w->heads, 1), more = gen_compare_imm(b, GEN_NE, w->heads, 0);
  return gen_select(b, last, own, more);
}

/* The last step's products, and its sums of dQ; then all groups are through with the tile's keys, in whose
 * place dK goes. */
static void finish_update(consumer *c) {
  backward_emitter *e = c->e;
  gen_builder *b = e->b;
  backward_update_issue(e, &c->update);
  issue_left(c, previous_stage(c));
  send_update(c, 1);
  gen_wgmma_wait(b, 0, c->sums[0], c->n_sums[0]);
  release_columns(c, 0, previous_stage(c));
  gen_named_sync(b, gen_i32(b, BACKWARD_ALL_BARRIER), 128 * e->p->consumers);
}

static arke_status multiply_steps(consumer *c, arke_error *err) {
  backward_emitter *e = c->e;
  gen_builder *b = e->b;
  bool overlap = e->p->overlap;
  carried in;
  gen_loop steps;
  backward_walk w = backward_walk_start(&c->at);
  if (has_bound(c, false)) pass_steps(c, &w, true);
  c->start = w.step;
  if (overlap) {
    TRY(multiply_step(c, &w, true, err));
    w = backward_walk_next(e, &c->at, &w);
  }
  put(c, &w, &in);
  gen_loop_begin(b, &steps, in.v, in.n);
  get(c, &in, &w);
  if (overlap) gen_loop_while(b, &steps, goes_on(c, &w));
  TRY(multiply_step(c, &w, false, err));
  w = backward_walk_next(e, &c->at, &w);
  gen_value more = overlap ? NULL : goes_on(c, &w);
  put(c, &w, &in);
  if (overlap) {
    gen_loop_end(b, &steps);
  } else {
    gen_loop_end_while(b, &steps, more);
  }
  get(c, &in, &w);
  if (e->p->updates) {
    finish_update(c);
  } else if (overlap) {
    finish_words(c, previous_stage(c));
  }
  if (has_bound(c, true)) pass_steps(c, &w, false);
  return ARKE_OK;
}

static arke_status consume_tile(consumer *c, arke_error *err) {
  backward_emitter *e = c->e;
  gen_builder *b = e->b;
  TRY(backward_locate(e, backward_item(e, c->round), &c->at, err));
  TRY(backward_group_steps(e, &c->at, c->group, &c->own, err));
  find_rows(c);
  if (e->p->updates) {
    gen_value shared = gen_sub(b, c->rows.shared[0], gen_mul_imm(b, c->group, 64 * 128));
    backward_update_start(e, &c->rows, shared, &c->update);
  }
  if (e->p->side == BACKWARD_QUERIES) TRY(backward_rows_read(e, &c->at, &c->rows, &c->reads, err));
  gen_pipeline_wait(b, &e->of_rows, backward_tile_stage(e, c->round, false));
  if (!e->p->overlap) TRY(finish_rows(c, err)); /* else under the first products */
  for (int i = 0; i < 2; i++)
    for (int k = 0; k < c->n_sums[i]; k++) c->sums[i][k] = gen_f32(b, 0);

  TRY(multiply_steps(c, err));
  /* Computed again, so that it needs no registers during the steps. */
  TRY(backward_locate(e, backward_item(e, gen_unknown(b, c->round)), &c->at, err));
  find_rows(c);
  for (int i = 0; i < 2; i++)
    if (e->p->sums[i]) TRY(backward_store(e, &c->at, &c->rows, i, c->sums[i], err));
  if (!releases_late(c)) release_rows(c, backward_tile_stage(e, c->round, false).index, NULL);
  return ARKE_OK;
}

/* Shared memory must stay until the last copy has read it. */
static void drain(consumer *c) {
  gen_builder *b = c->e->b;
  gen_branch leader;
  gen_if(b, &leader, gen_compare_imm(b, GEN_EQ, c->thread, 0), NULL, 0);
  gen_tma_store_wait_read(b, 0);
  gen_if_end(b, &leader);
}

arke_status backward_emit_consumer(backward_emitter *e, gen_value group, gen_value thread, arke_error *err) {
  enum { ROUND, INDEX, PARITY, PLACE, CARRIED };
  gen_builder *b = e->b;
  consumer *c = ARENA_NEW(e->k->a, consumer);
  if (!c) return error_memory(err, "generate");
  *c = (consumer){.e = e, .group = group, .thread = thread, .rows = {.group = group, .thread = thread}};
  set_up(c);
  gen_stage start = gen_pipeline_consumer_start(b);
  gen_value v[CARRIED] = {
      [ROUND] = gen_i32(b, 0), [INDEX] = start.index, [PARITY] = start.parity, [PLACE] = gen_i32(b, 0)};
  gen_loop items;
  gen_loop_begin(b, &items, v, e->p->updates ? CARRIED : PLACE);
  gen_value item = backward_item(e, v[ROUND]);
  gen_loop_while(b, &items, gen_compare(b, GEN_ULT, item, gen_param(b, e->k->items)));
  c->round = v[ROUND];
  c->stage = (gen_stage){v[INDEX], v[PARITY]};
  c->update.place = v[PLACE];
  TRY(consume_tile(c, err));
  v[ROUND] = gen_add_imm(b, v[ROUND], 1);
  v[INDEX] = c->stage.index;
  v[PARITY] = c->stage.parity;
  v[PLACE] = c->update.place;
  gen_loop_end(b, &items);
  if (e->p->copied[0] || e->p->copied[1]) drain(c);
  if (e->p->updates) backward_update_free(e, group);
  return ARKE_OK;
}
