/* Which tile an item is, and which steps its rows meet. */
#include "generator/gen_bits.h"
#include "templates/backward_emit.h"

enum { FAR = 1 << 30 }; /* past every query and key: sizes are below it */

gen_value backward_extent(const backward_emitter *e, int loop) {
  return gen_param(e->b, e->k->extents[loop]);
}

gen_value backward_index(const backward_emitter *e, gen_value x) {
  return e->plan->wide_offsets ? gen_sext(e->b, x, GEN_I64) : x;
}

gen_value backward_item_at(backward_emitter *e, gen_value place) {
  gen_builder *b = e->b;
  if (!e->plan->masked || !e->plan->persistent) return place;
  gen_value n = gen_nctaid_x(b), round = gen_udiv(b, place, n), twice = gen_mul_imm(b, round, 2);
  gen_value mirrored = gen_sub(b, gen_add_imm(b, gen_mul(b, gen_add_imm(b, twice, 1), n), -1), place);
  gen_value odd = gen_compare_imm(b, GEN_NE, gen_and(b, round, gen_i32(b, 1)), 0);
  return gen_select(b, odd, mirrored, place);
}

/* --- bounds --- */

/* The value of a bound without the row's part, i64. */
static arke_status rest_of(backward_emitter *e, const lanes_sum *sum, gen_value *value, arke_error *err) {
  gen_builder *b = e->b;
  *value = gen_i64(b, sum->constant);
  for (int i = 0; i < sum->n; i++) {
    gen_value v[LANES_MAX];
    int n;
    TRY(lanes_eval(e->l, sum->terms[i].e, v, &n, err));
    if (gen_type_of(b, v[0]) != GEN_I64) v[0] = gen_sext(b, v[0], GEN_I64);
    *value = gen_add(b, *value, gen_mul_imm(b, v[0], sum->terms[i].coefficient));
  }
  return ARKE_OK;
}

/* A bound for one row, i32, between -FAR and FAR. */
static gen_value bound_at(backward_emitter *e, const attention_bound *bound, gen_value rest, gen_value row) {
  gen_builder *b = e->b;
  gen_value v = gen_add(b, rest, gen_mul_imm(b, gen_sext(b, row, GEN_I64), bound->query));
  return gen_trunc(b, gen_smin(b, gen_smax(b, v, gen_i64(b, -FAR)), gen_i64(b, FAR)), GEN_I32);
}

arke_status backward_row_columns(backward_emitter *e, gen_value row, gen_value *from, gen_value *below,
                                 arke_error *err) {
  gen_builder *b = e->b;
  const attention_bounds *bounds = &e->m->seen[e->p->side];
  *from = gen_i32(b, 0);
  *below = backward_extent(e, backward_column_loop(e->m, e->p->side));
  for (int i = 0; i < bounds->n; i++) {
    const attention_bound *bound = &bounds->list[i];
    gen_value rest;
    TRY(rest_of(e, &bound->rest, &rest, err));
    gen_value v = bound_at(e, bound, rest, row);
    if (bound->upper) {
      *below = gen_smin(b, *below, v);
    } else {
      *from = gen_smax(b, *from, v);
    }
  }
  return ARKE_OK;
}

/* Bounds grow or fall with the row, so that their ends are at the tile's first or last one. */
static arke_status find_columns(backward_emitter *e, backward_place *at, arke_error *err) {
  gen_builder *b = e->b;
  const attention_bounds *bounds = &e->m->seen[e->p->side];
  int step = e->p->block_columns;
  gen_value all = backward_extent(e, backward_column_loop(e->m, e->p->side)), from = gen_i32(b, 0),
            below = all;
  at->all_from = from;
  at->all_below = all;
  for (int i = 0; i < bounds->n; i++) {
    const attention_bound *bound = &bounds->list[i];
    gen_value rest;
    TRY(rest_of(e, &bound->rest, &rest, err));
    gen_value at_first = bound_at(e, bound, rest, at->first), at_last = bound_at(e, bound, rest, at->last);
    gen_value low = bound->query >= 0 ? at_first : at_last, high = bound->query >= 0 ? at_last : at_first;
    if (bound->upper) {
      below = gen_smin(b, below, high);
      at->all_below = gen_smin(b, at->all_below, low);
    } else {
      from = gen_smax(b, from, low);
      at->all_from = gen_smax(b, at->all_from, high);
    }
  }
  /* A step at least, in which nothing may be met. */
  from = gen_smin(b, from, gen_add_imm(b, all, -1));
  below = gen_smax(b, below, gen_add_imm(b, from, 1));
  at->begin = gen_udiv(b, from, gen_i32(b, step));
  at->end = gen_ceildiv_imm(b, below, step);
  return ARKE_OK;
}

/* --- items --- */

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
  const attention_bounds *bounds = &e->m->seen[e->p->side];
  bool last_is_longest = false;
  for (int i = 0; i < bounds->n; i++) last_is_longest |= bounds->list[i].upper && bounds->list[i].query > 0;
  if (last_is_longest) *tile = gen_sub(b, gen_add_imm(b, tiles, -1), *tile);
}

static void set_loop(backward_emitter *e, backward_place *at, int loop, gen_value value) {
  at->loops[loop] = value;
  lanes_set(e->l, loop, backward_index(e, value));
}

void backward_set_head(backward_emitter *e, gen_value head) {
  if (head) lanes_set(e->l, e->m->head, backward_index(e, head));
}

/* Of tiles of keys: the heads whose sums are the part's. */
static void find_heads(backward_emitter *e, backward_place *at) {
  gen_builder *b = e->b;
  if (e->p->side != BACKWARD_KEYS || e->m->head < 0) return;
  gen_value ratio = gen_param(b, e->k->ratio), first = gen_mul(b, at->loops[e->m->share], ratio);
  gen_value each = gen_param(b, e->k->per_part);
  at->head_begin = at->part ? gen_add(b, first, gen_mul(b, at->part, each)) : first;
  at->head_end = gen_add(b, at->head_begin, each);
  set_loop(e, at, e->m->head, at->head_begin);
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
  return find_columns(e, at, err);
}

/* --- steps --- */

backward_walk backward_walk_start(const backward_place *at) {
  return (backward_walk){at->head_begin, at->begin};
}

gen_value backward_walk_goes_on(backward_emitter *e, const backward_place *at, const backward_walk *w) {
  return w->head ? gen_compare(e->b, GEN_ULT, w->head, at->head_end)
                 : gen_compare(e->b, GEN_ULT, w->step, at->end);
}

gen_value backward_walk_is_first(backward_emitter *e, const backward_place *at, const backward_walk *w) {
  gen_value first = gen_compare(e->b, GEN_EQ, w->step, at->begin);
  return w->head ? gen_and(e->b, first, gen_compare(e->b, GEN_EQ, w->head, at->head_begin)) : first;
}

backward_walk backward_walk_next(backward_emitter *e, const backward_place *at, const backward_walk *w) {
  gen_builder *b = e->b;
  gen_value next = gen_add_imm(b, w->step, 1);
  if (!w->head) return (backward_walk){NULL, next};
  gen_value done = gen_compare(b, GEN_UGE, next, at->end);
  return (backward_walk){gen_add(b, w->head, gen_zext(b, done, GEN_I32)),
                         gen_select(b, done, at->begin, next)};
}

/* --- the workspace --- */

gen_value backward_statistic(backward_emitter *e, const backward_place *at, gen_value head, gen_value query,
                             int base) {
  gen_builder *b = e->b;
  const contraction_loops *batch = &e->m->batch[BACKWARD_QUERIES];
  gen_value number = gen_i32(b, 0);
  for (int i = 0; i < batch->n; i++) {
    int loop = batch->loops[i];
    gen_value value = loop == e->m->head && head ? head : at->loops[loop];
    number = i == 0 ? value : gen_add(b, gen_mul(b, number, backward_extent(e, loop)), value);
  }
  gen_value pitch = gen_zext(b, gen_param(b, e->k->pitch), GEN_I64);
  gen_value at_row = gen_add(b, gen_mul(b, gen_zext(b, number, GEN_I64), pitch), gen_zext(b, query, GEN_I64));
  return gen_add(b, gen_param(b, base), gen_mul_imm(b, at_row, 4));
}

gen_value backward_partial(gen_builder *b, gen_value base, gen_value part, gen_value batches, gen_value batch,
                           gen_value rows, gen_value row, int columns, gen_value column) {
  gen_value at = gen_add(b, gen_mul(b, gen_zext(b, part, GEN_I64), gen_zext(b, batches, GEN_I64)),
                         gen_zext(b, batch, GEN_I64));
  at = gen_add(b, gen_mul(b, at, gen_zext(b, rows, GEN_I64)), gen_zext(b, row, GEN_I64));
  at = gen_add(b, gen_mul_imm(b, at, columns), gen_zext(b, column, GEN_I64));
  return gen_add(b, base, gen_mul_imm(b, at, 4));
}
