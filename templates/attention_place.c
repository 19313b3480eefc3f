/* Which tile an item is, and which keys its queries see. */
#include "generator/gen_bits.h"
#include "templates/attention_emit.h"
#include "templates/bound_rest.h"

gen_value attention_extent(const attention_emitter *e, int loop) {
  return gen_param(e->b, e->k->extents[loop]);
}

gen_value attention_index(const attention_emitter *e, gen_value x) {
  return e->p->wide_offsets ? gen_sext(e->b, x, GEN_I64) : x;
}

static gen_value walkers(attention_emitter *e) {
  return attention_ctas(e->p) == 1 ? gen_nctaid_x(e->b) : gen_nclusterid_x(e->b);
}

gen_value attention_first_item(attention_emitter *e) {
  return attention_ctas(e->p) == 1 ? gen_ctaid_x(e->b) : gen_clusterid_x(e->b);
}

gen_value attention_next_item(attention_emitter *e, gen_value place) {
  return gen_add(e->b, place, walkers(e));
}

gen_value attention_item_at(attention_emitter *e, gen_value place) {
  gen_builder *b = e->b;
  if (!e->p->masked || !e->p->persistent) return place;
  gen_value n = walkers(e), round = gen_udiv(b, place, n), twice = gen_mul_imm(b, round, 2);
  gen_value mirrored = gen_sub(b, gen_add_imm(b, gen_mul(b, gen_add_imm(b, twice, 1), n), -1), place);
  gen_value odd = gen_compare_imm(b, GEN_NE, gen_and(b, round, gen_i32(b, 1)), 0);
  return gen_select(b, odd, mirrored, place);
}

/* --- bounds --- */

arke_status attention_find_rests(attention_emitter *e, arke_error *err) {
  for (int i = 0; i < e->m->bounds.n; i++)
    TRY(bound_rest(e->b, e->l, &e->m->bounds.list[i], &e->rests[i], err));
  return ARKE_OK;
}

/* Rows past the last request see nothing. */
static gen_value unless_none(attention_emitter *e, const attention_place *at, gen_value below) {
  return at->none ? gen_select(e->b, at->none, gen_i32(e->b, 0), below) : below;
}

void attention_row_keys(attention_emitter *e, const attention_place *at, gen_value query, gen_value *from,
                        gen_value *below) {
  gen_builder *b = e->b;
  bound_columns_of_row(b, &e->m->bounds, e->rests, query, attention_extent(e, e->m->key), from, below);
  *below = unless_none(e, at, *below);
}

gen_value attention_end_of_keys(attention_emitter *e, const attention_place *at) {
  gen_builder *b = e->b;
  gen_value end = attention_extent(e, e->m->key);
  for (int i = 0; i < e->m->bounds.n; i++) {
    const attention_bound *bound = &e->m->bounds.list[i];
    if (bound->upper && bound->query == 0)
      end = gen_smin(b, end, bound_at_row(b, bound, e->rests[i], at->first));
  }
  return gen_smax(b, unless_none(e, at, end), gen_i32(b, 0));
}

/* Which of the runs of a tile the CTA has, and how many there are: those of a cluster are neighbours. */
static gen_value run_of(attention_emitter *e, const attention_place *at, gen_value *runs) {
  gen_builder *b = e->b;
  int merge = e->p->merge;
  gen_value rank = merge > 1 ? gen_cluster_ctarank(b) : NULL;
  *runs = e->p->split ? gen_mul_imm(b, gen_param(b, e->k->split), merge) : gen_i32(b, merge);
  if (!rank || !e->p->split) return rank ? rank : at->run;
  return gen_add(b, gen_mul_imm(b, at->run, merge), rank);
}

/* The CTA's run of the tile's steps, `at_once` of which stay together. Of fewer steps than runs the last runs
 * have one behind all of them, in which no key is seen. */
static void take_run(attention_emitter *e, attention_place *at) {
  gen_builder *b = e->b;
  int at_once = attention_steps_at_once(e->p);
  gen_value steps = gen_udiv(b, at->steps, gen_i32(b, at_once));
  gen_value runs, run = run_of(e, at, &runs), each = gen_udiv(b, steps, runs);
  gen_value rest = gen_sub(b, steps, gen_mul(b, each, runs));
  gen_value begin = gen_add(b, gen_mul(b, run, each), gen_umin(b, run, rest));
  gen_value more = gen_zext(b, gen_compare(b, GEN_ULT, run, rest), GEN_I32);
  at->origin = gen_add(b, at->origin, gen_mul_imm(b, begin, (int64_t)at_once * e->p->block_n));
  at->steps = gen_mul_imm(b, gen_umax(b, gen_add(b, each, more), gen_i32(b, 1)), at_once);
}

void attention_find_keys(attention_emitter *e, attention_place *at) {
  gen_builder *b = e->b;
  const attention_bounds *bounds = &e->m->bounds;
  gen_value keys = attention_extent(e, e->m->key), zero = gen_i32(b, 0);
  bound_range seen = bound_columns_of_tile(b, bounds, e->rests, at->first, at->last, keys);
  gen_value from = seen.from, below = seen.below;
  bool lower = false;
  for (int i = 0; i < bounds->n; i++) lower = lower || !bounds->list[i].upper;
  at->all_from = seen.all_from;
  at->below = below = gen_smax(b, unless_none(e, at, below), zero);
  at->all_below = unless_none(e, at, seen.all_below);
  /* A step at least, in which nothing may be seen. Steps begin with the first key that is seen, in pages with
   * the copy that it is in. */
  from = gen_smin(b, from, gen_add_imm(b, keys, -1));
  if (e->p->page && lower) from = gen_sub(b, from, gen_urem(b, from, gen_i32(b, e->p->box_n)));
  below = gen_smax(b, below, gen_add_imm(b, from, 1));
  at->origin = lower ? from : zero;
  int at_once = attention_steps_at_once(e->p);
  gen_value keys_seen = lower ? gen_sub(b, below, from) : below;
  at->steps = gen_mul_imm(b, gen_ceildiv_imm(b, keys_seen, at_once * e->p->block_n), at_once);
  if (attention_has_runs(e->p)) take_run(e, at);
}

/* --- items --- */

void attention_find_tile(attention_emitter *e, gen_value item, gen_value *head, gen_value *tile) {
  gen_builder *b = e->b;
  gen_value tiles = e->tiles, heads = gen_param(b, e->k->heads);
  int group = e->p->group;
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
  bool last_is_longest = false;
  for (int i = 0; i < e->m->bounds.n; i++)
    last_is_longest |= e->m->bounds.list[i].upper && e->m->bounds.list[i].query > 0;
  if (last_is_longest && !attention_is_ordered(e->p)) *tile = gen_sub(b, gen_add_imm(b, tiles, -1), *tile);
}

/* The number of a pack becomes that of its first head. */
static void set_pack(attention_emitter *e, attention_place *at) {
  gen_builder *b = e->b;
  const attention_pack *pack = &e->p->pack;
  gen_value each = gen_param(b, e->k->pack_heads), number = at->loops[pack->loop], before = gen_i32(b, 0);
  if (pack->shared) {
    gen_value packs = gen_ceildiv_imm(b, each, pack->heads * pack->spread),
              group = gen_udiv(b, number, packs);
    before = gen_mul(b, group, each);
    number = gen_sub(b, number, gen_mul(b, group, packs));
  }
  if (pack->spread > 1) number = gen_add(b, gen_mul_imm(b, number, pack->spread), gen_cluster_ctarank(b));
  at->loops[pack->loop] = gen_add(b, before, gen_mul_imm(b, number, pack->heads));
  at->last_head = gen_add_imm(b, gen_add(b, before, each), -1);
}

void attention_set_head(attention_emitter *e, attention_place *at) {
  gen_builder *b = e->b;
  const attention_match *m = e->m;
  const attention_pack *pack = &e->p->pack;
  gen_value head = at->head;
  for (int i = m->batch.n - 1; i >= 0; i--) {
    int loop = m->batch.loops[i];
    if (i == 0) {
      at->loops[loop] = head;
    } else {
      bool packs = loop == pack->loop;
      gen_value extent = packs ? gen_param(b, e->k->packs) : attention_extent(e, loop);
      gen_value rest = gen_udiv(b, head, extent);
      at->loops[loop] = gen_sub(b, head, gen_mul(b, rest, extent));
      head = rest;
    }
  }
  if (pack->loop >= 0) set_pack(e, at);
  lanes_forget(e->l);
  for (int i = 0; i < m->batch.n; i++) {
    int loop = m->batch.loops[i];
    gen_value value = at->loops[loop];
    /* A CTA without a head of its own still copies its half of the keys of the others. */
    if (loop == pack->loop && pack->spread > 1) value = gen_smin(b, value, at->last_head);
    lanes_set(e->l, loop, attention_index(e, value));
  }
}

arke_status attention_locate(attention_emitter *e, gen_value item, attention_place *at, arke_error *err) {
  gen_builder *b = e->b;
  gen_value tile;
  *at = (attention_place){.none = NULL};
  if (e->p->split) { /* runs of a tile are neighbours */
    gen_value runs = gen_param(b, e->k->split), number = gen_udiv(b, item, runs);
    at->run = gen_sub(b, item, gen_mul(b, number, runs));
    item = number;
  }
  attention_find_tile(e, item, &at->head, &tile);
  attention_set_head(e, at);
  int along = attention_along(e->p);
  if (along > 1) tile = gen_add(b, gen_mul_imm(b, tile, along), gen_cluster_ctarank(b));
  at->first = gen_mul_imm(b, tile, e->p->block_q);
  gen_value end = gen_umin(b, gen_add_imm(b, at->first, e->p->block_q), attention_extent(e, e->m->query));
  at->last = gen_add_imm(b, end, -1);
  TRY(attention_find_rests(e, err));
  attention_find_keys(e, at);
  return ARKE_OK;
}
