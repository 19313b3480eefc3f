/* A consumer warp group: the tiles that it takes, its own steps of each, and what is stored of them. */
#include "templates/backward_consumer.h"

#include "generator/gen_bits.h"
#include "generator/gen_tma.h"

/* What follows from the thread's number is computed here, for this tile, and not kept from tile to tile. */
static void find_rows(backward_consumer *c) {
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
  gen_value v[5 + 2 * BACKWARD_MOST_SUMS + BACKWARD_MOST_WORDS];
  int n;
} carried;

static void put(const backward_consumer *c, const backward_walk *w, carried *to) {
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

static void get(backward_consumer *c, const carried *from, backward_walk *w) {
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
static void pass_steps(backward_consumer *c, backward_walk *w, bool before) {
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
    backward_release_columns(c, i, c->stage.index);
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
static bool has_bound(const backward_consumer *c, bool upper) {
  const attention_bounds *bounds = &c->e->m->seen[c->e->p->side];
  if (c->e->p->updates) return false;
  for (int i = 0; i < bounds->n; i++)
    if (bounds->list[i].upper == upper) return true;
  return false;
}

/* Of the last head the group's own steps, of those before it all of the tile's. */
static gen_value goes_on(backward_consumer *c, const backward_walk *w) {
  gen_builder *b = c->e->b;
  if (!has_bound(c, true)) return backward_walk_goes_on(c->e, &c->at, w);
  gen_value own = gen_compare(b, GEN_ULT, w->step, c->own.end);
  if (!w->heads) return own;
  gen_value last = gen_compare_imm(b, GEN_EQ, w->heads, 1), more = gen_compare_imm(b, GEN_NE, w->heads, 0);
  return gen_select(b, last, own, more);
}

static arke_status multiply_steps(backward_consumer *c, arke_error *err) {
  backward_emitter *e = c->e;
  gen_builder *b = e->b;
  bool overlap = e->p->overlap;
  carried in;
  gen_loop steps;
  backward_walk w = backward_walk_start(&c->at);
  if (has_bound(c, false)) pass_steps(c, &w, true);
  c->start = w.step;
  if (overlap) {
    TRY(backward_multiply_step(c, &w, true, err));
    w = backward_walk_next(e, &c->at, &w);
  }
  put(c, &w, &in);
  gen_loop_begin(b, &steps, in.v, in.n);
  get(c, &in, &w);
  if (overlap) gen_loop_while(b, &steps, goes_on(c, &w));
  TRY(backward_multiply_step(c, &w, false, err));
  w = backward_walk_next(e, &c->at, &w);
  gen_value more = overlap ? NULL : goes_on(c, &w);
  put(c, &w, &in);
  if (overlap) {
    gen_loop_end(b, &steps);
  } else {
    gen_loop_end_while(b, &steps, more);
  }
  get(c, &in, &w);
  backward_finish_steps(c);
  if (has_bound(c, true)) pass_steps(c, &w, false);
  return ARKE_OK;
}

static arke_status consume_tile(backward_consumer *c, arke_error *err) {
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
  if (!e->p->overlap) TRY(backward_finish_rows(c, err)); /* else under the first products */
  for (int i = 0; i < 2; i++)
    for (int k = 0; k < c->n_sums[i]; k++) c->sums[i][k] = gen_f32(b, 0);

  TRY(multiply_steps(c, err));
  /* Computed again, so that it needs no registers during the steps. */
  TRY(backward_locate(e, backward_item(e, gen_unknown(b, c->round)), &c->at, err));
  find_rows(c);
  for (int i = 0; i < 2; i++)
    if (e->p->sums[i]) TRY(backward_store(e, &c->at, &c->rows, i, c->sums[i], err));
  if (!backward_releases_late(c))
    backward_release_rows(c, backward_tile_stage(e, c->round, false).index, NULL);
  return ARKE_OK;
}

/* Shared memory must stay until the last copy has read it. */
static void drain(backward_consumer *c) {
  gen_builder *b = c->e->b;
  gen_branch leader;
  gen_if(b, &leader, gen_compare_imm(b, GEN_EQ, c->thread, 0), NULL, 0);
  gen_tma_store_wait_read(b, 0);
  gen_if_end(b, &leader);
}

arke_status backward_emit_consumer(backward_emitter *e, gen_value group, gen_value thread, arke_error *err) {
  enum { ROUND, INDEX, PARITY, PLACE, CARRIED };
  gen_builder *b = e->b;
  backward_consumer *c = ARENA_NEW(e->k->a, backward_consumer);
  if (!c) return error_memory(err, "generate");
  *c = (backward_consumer){
      .e = e, .group = group, .thread = thread, .rows = {.group = group, .thread = thread}};
  backward_step_set_up(c);
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
