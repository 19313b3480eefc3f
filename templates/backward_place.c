/* Which tile an item is, and which steps its rows meet. */
#include "generator/gen_bits.h"
#include "templates/backward_emit.h"
#include "templates/bound_rest.h"

enum { FAR = 1 << 30 }; /* past every query and key: sizes are below it */

gen_value backward_extent(const backward_emitter *e, int loop) {
  return gen_param(e->b, e->k->extents[loop]);
}

gen_value backward_index(const backward_emitter *e, gen_value x) {
  return e->plan->wide_offsets ? gen_sext(e->b, x, GEN_I64) : x;
}

gen_value backward_item(backward_emitter *e, gen_value round) {
  gen_builder *b = e->b;
  gen_value n = gen_nctaid_x(b), first = gen_mul(b, round, n), cta = gen_ctaid_x(b),
            place = gen_add(b, first, cta);
  if (!e->plan->masked || !e->plan->persistent) return place;
  gen_value mirrored = gen_add(b, first, gen_sub(b, gen_add_imm(b, n, -1), cta));
  gen_value odd = gen_compare_imm(b, GEN_NE, gen_and(b, round, gen_i32(b, 1)), 0);
  return gen_select(b, odd, mirrored, place);
}

gen_stage backward_tile_stage(backward_emitter *e, gen_value round, bool producer) {
  gen_builder *b = e->b;
  gen_value one = gen_i32(b, 1), zero = gen_i32(b, 0);
  bool two = e->p->row_stages == 2;
  gen_value parity = gen_and(b, two ? gen_lshr(b, round, one) : round, one);
  return (gen_stage){two ? gen_and(b, round, one) : zero, gen_xor(b, parity, producer ? one : zero)};
}

/* --- bounds --- */

/* Bound `i` for one row, i32, between -FAR and FAR. Of most the part without the row is a parameter. */
static arke_status bound_at(backward_emitter *e, int i, gen_value row, gen_value *value, arke_error *err) {
  gen_builder *b = e->b;
  const attention_bound *bound = &e->m->seen[e->p->side].list[i];
  gen_value v;
  if (e->k->rest[i] >= 0) {
    v = gen_param(b, e->k->rest[i]);
    if (bound->query != 0) v = bound->query > 0 ? gen_add(b, v, row) : gen_sub(b, v, row);
    *value = gen_smin(b, gen_smax(b, v, gen_i32(b, -FAR)), gen_i32(b, FAR));
    return ARKE_OK;
  }
  TRY(bound_rest(e->b, e->l, bound, &v, err));
  *value = bound_at_row(b, bound, v, row);
  return ARKE_OK;
}

arke_status backward_row_columns(backward_emitter *e, gen_value row, gen_value *from, gen_value *below,
                                 arke_error *err) {
  gen_builder *b = e->b;
  const attention_bounds *bounds = &e->m->seen[e->p->side];
  gen_value v[ATTENTION_BOUNDS];
  for (int i = 0; i < bounds->n; i++) TRY(bound_at(e, i, row, &v[i], err));
  bound_range met =
      bound_columns(b, bounds, v, v, backward_extent(e, backward_column_loop(e->m, e->p->side)));
  *from = met.from;
  *below = met.below;
  return ARKE_OK;
}

static arke_status find_steps(backward_emitter *e, gen_value first, gen_value last, backward_steps *steps,
                              arke_error *err) {
  gen_builder *b = e->b;
  const attention_bounds *bounds = &e->m->seen[e->p->side];
  gen_value all = backward_extent(e, backward_column_loop(e->m, e->p->side)), at_first[ATTENTION_BOUNDS],
            at_last[ATTENTION_BOUNDS];
  for (int i = 0; i < bounds->n; i++) {
    TRY(bound_at(e, i, first, &at_first[i], err));
    TRY(bound_at(e, i, last, &at_last[i], err));
  }
  bound_range met = bound_columns(b, bounds, at_first, at_last, all);
  gen_value from = met.from, below = met.below;
  steps->all_from = met.all_from;
  steps->all_below = met.all_below;
  /* A step at least, in which nothing may be met. */
  from = gen_smin(b, from, gen_add_imm(b, all, -1));
  below = gen_smax(b, below, gen_add_imm(b, from, 1));
  steps->begin = gen_udiv(b, from, gen_i32(b, e->p->block_columns));
  steps->end = gen_ceildiv_imm(b, below, e->p->block_columns);
  return ARKE_OK;
}

arke_status backward_group_steps(backward_emitter *e, const backward_place *at, gen_value group,
                                 backward_steps *steps, arke_error *err) {
  gen_builder *b = e->b;
  gen_value first = gen_smin(b, gen_add(b, at->first, gen_mul_imm(b, group, 64)), at->last);
  TRY(find_steps(e, first, gen_smin(b, gen_add_imm(b, first, 63), at->last), steps, err));
  /* Rows that meet nothing may have a step where the tile has none. */
  steps->begin = gen_smin(b, steps->begin, gen_add_imm(b, at->steps.end, -1));
  steps->end = gen_smax(b, gen_smin(b, steps->end, at->steps.end), gen_add_imm(b, steps->begin, 1));
  return ARKE_OK;
}

/* --- items --- */

/* Whether the last tiles of a head come first: the longest, or, where tiles add to the same sums in turn,
 * those that meet the first columns of others last. */
static bool walks_down(const backward_emitter *e) {
  const attention_bounds *bounds = &e->m->seen[e->p->side];
  for (int i = 0; i < bounds->n; i++)
    if (bounds->list[i].query > 0 && (bounds->list[i].upper || e->p->updates)) return true;
  return false;
}

/* Head and tile of an item: heads of a group together, their longest tiles first. */
static void find_tile(backward_emitter *e, gen_value item, gen_value *head, gen_value *tile) {
  gen_builder *b = e->b;
  gen_value tiles = gen_param(b, e->k->tiles), heads = gen_param(b, e->k->heads);
  int group = e->plan->group;
  if (group == 0) {
    *tile = gen_udiv(b, item, heads);
    *head = gen_sub(b, item, gen_mul(b, *tile, heads));
  } else {
    gen_value each = gen_mul_imm(b, tiles, group), number = gen_udiv(b, item, each);
    gen_value within = gen_sub(b, item, gen_mul(b, number, each)), first = gen_mul_imm(b, number, group);
    gen_value size = gen_umin(b, gen_i32(b, group), gen_sub(b, heads, first));
    *tile = gen_udiv(b, within, size);
    *head = gen_add(b, first, gen_sub(b, within, gen_mul(b, *tile, size)));
  }
  if (walks_down(e)) *tile = gen_sub(b, gen_add_imm(b, tiles, -1), *tile);
}

static void set_loop(backward_emitter *e, backward_place *at, int loop, gen_value value) {
  at->loops[loop] = value;
  lanes_set(e->l, loop, backward_index(e, value));
}

/* Of tiles of keys: the heads whose sums are the part's. */
static void find_heads(backward_emitter *e, backward_place *at) {
  gen_builder *b = e->b;
  if (e->p->side != BACKWARD_KEYS || e->m->head < 0) return;
  gen_value ratio = gen_param(b, e->k->ratio), first = gen_mul(b, at->loops[e->m->share], ratio);
  at->heads = gen_param(b, e->k->per_part);
  if (at->part) first = gen_add(b, first, gen_mul(b, at->part, at->heads));
  at->head_end = gen_add(b, first, at->heads);
  set_loop(e, at, e->m->head, first);
}

arke_status backward_locate(backward_emitter *e, gen_value item, backward_place *at, arke_error *err) {
  gen_builder *b = e->b;
  const contraction_loops *batch = &e->m->batch[e->p->side];
  gen_value head, tile;
  *at = (backward_place){0};
  find_tile(e, item, &head, &tile);
  if (e->p->side == BACKWARD_KEYS && e->plan->split > 1) {
    gen_value parts = gen_i32(b, e->plan->split);
    at->part = gen_urem(b, head, parts);
    head = gen_udiv(b, head, parts);
  }
  at->batch = head;
  lanes_forget(e->l);
  for (int i = batch->n - 1; i >= 0; i--) {
    gen_value value = head;
    if (i > 0) {
      gen_value extent = backward_extent(e, batch->loops[i]), rest = gen_udiv(b, head, extent);
      value = gen_sub(b, head, gen_mul(b, rest, extent));
      head = rest;
    }
    set_loop(e, at, batch->loops[i], value);
  }
  find_heads(e, at);
  at->first = gen_mul_imm(b, tile, e->p->block_rows);
  gen_value rows = backward_extent(e, backward_row_loop(e->m, e->p->side));
  at->last = gen_add_imm(b, gen_umin(b, gen_add_imm(b, at->first, e->p->block_rows), rows), -1);
  return find_steps(e, at->first, at->last, &at->steps, err);
}

int backward_number_before(const backward_emitter *e) {
  return walks_down(e) ? 1 : -1;
}

arke_status backward_tile_before(backward_emitter *e, const backward_place *at, backward_steps *steps,
                                 arke_error *err) {
  gen_builder *b = e->b;
  bool down = walks_down(e);
  int rows = e->p->block_rows;
  gen_value last = gen_add_imm(b, backward_extent(e, backward_row_loop(e->m, e->p->side)), -1);
  gen_value exists =
      down ? gen_compare(b, GEN_ULT, at->last, last) : gen_compare_imm(b, GEN_NE, at->first, 0);
  gen_value first = gen_select(b, exists, gen_add_imm(b, at->first, down ? rows : -rows), at->first);
  TRY(find_steps(e, first, gen_umin(b, gen_add_imm(b, first, rows - 1), last), steps, err));
  steps->end = gen_select(b, exists, steps->end, gen_i32(b, 0));
  return ARKE_OK;
}

/* --- steps --- */

backward_walk backward_walk_start(const backward_place *at) {
  return (backward_walk){at->heads, at->steps.begin};
}

gen_value backward_walk_goes_on(backward_emitter *e, const backward_place *at, const backward_walk *w) {
  return w->heads ? gen_compare_imm(e->b, GEN_NE, w->heads, 0)
                  : gen_compare(e->b, GEN_ULT, w->step, at->steps.end);
}

backward_walk backward_walk_next(backward_emitter *e, const backward_place *at, const backward_walk *w) {
  gen_builder *b = e->b;
  gen_value next = gen_add_imm(b, w->step, 1);
  if (!w->heads) return (backward_walk){NULL, next};
  gen_value done = gen_compare(b, GEN_UGE, next, at->steps.end);
  return (backward_walk){gen_sub(b, w->heads, gen_zext(b, done, GEN_I32)),
                         gen_select(b, done, at->steps.begin, next)};
}

gen_value backward_walk_head(backward_emitter *e, const backward_place *at, const backward_walk *w) {
  if (!w->heads) return NULL;
  gen_value head = gen_sub(e->b, at->head_end, w->heads);
  lanes_set(e->l, e->m->head, backward_index(e, head));
  return head;
}

/* --- the workspace --- */

gen_value backward_query_row(backward_emitter *e, const backward_place *at, gen_value head, gen_value query) {
  gen_builder *b = e->b;
  const contraction_loops *batch = &e->m->batch[BACKWARD_QUERIES];
  gen_value number = gen_i32(b, 0);
  for (int i = 0; i < batch->n; i++) {
    int loop = batch->loops[i];
    gen_value value = loop == e->m->head && head ? head : at->loops[loop];
    number = i == 0 ? value : gen_add(b, gen_mul(b, number, backward_extent(e, loop)), value);
  }
  return gen_add(b, gen_mul(b, number, gen_param(b, e->k->pitch)), query);
}

gen_value backward_statistic(backward_emitter *e, const backward_place *at, gen_value head, gen_value query,
                             int base) {
  gen_builder *b = e->b;
  gen_value row = backward_query_row(e, at, head, query);
  return gen_add(b, gen_param(b, base), gen_mul_imm(b, gen_zext(b, row, GEN_I64), 4));
}

gen_value backward_partial(gen_builder *b, gen_value base, gen_value part, gen_value batches, gen_value batch,
                           gen_value rows, gen_value row, int columns, gen_value column) {
  gen_value at = gen_add(b, gen_mul(b, gen_zext(b, part, GEN_I64), gen_zext(b, batches, GEN_I64)),
                         gen_zext(b, batch, GEN_I64));
  at = gen_add(b, gen_mul(b, at, gen_zext(b, rows, GEN_I64)), gen_zext(b, row, GEN_I64));
  at = gen_add(b, gen_mul_imm(b, at, columns), gen_zext(b, column, GEN_I64));
  return gen_add(b, base, gen_mul_imm(b, at, 4));
}
