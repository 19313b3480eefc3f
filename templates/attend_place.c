/* Where a CTA is, which keys its rows see, and which of them are its own. */
#include "generator/gen_bits.h"
#include "generator/gen_control.h"
#include "templates/attend.h"
#include "templates/bound_rest.h"
#include "templates/contraction_value.h"
#include "templates/group_tiles.h"

gen_value attend_index(const attend_emitter *e, gen_value x) {
  return e->p->wide_offsets && gen_type_of(e->b, x) == GEN_I32 ? gen_sext(e->b, x, GEN_I64) : x;
}

gen_value attend_extent(const attend_emitter *e, int loop) {
  return gen_param(e->b, e->k->extents[loop]);
}

/* --- rows --- */

/* The first loop of the batch that is not of this kind: what is left of a number when all others are taken
 * out of it. */
static int outermost(const attend_emitter *e, attend_share but) {
  int i = 0;
  while (i < e->m->batch.n && e->p->rows.of[i].share == but) i++;
  return i;
}

void attend_find_unit(attend_emitter *e) {
  gen_builder *b = e->b;
  gen_value rest = e->unit;
  for (int i = e->m->batch.n - 1; i >= 0; i--) {
    if (e->p->rows.of[i].share == ATTEND_PACKED) {
      e->units[i] = gen_i32(b, 0);
      continue;
    }
    e->units[i] = rest;
    if (i == outermost(e, ATTEND_PACKED)) continue;
    gen_value n = gen_param(b, e->k->units[i]);
    rest = gen_udiv(b, rest, n);
    e->units[i] = gen_sub(b, e->units[i], gen_mul(b, rest, n));
  }
}

void attend_find_row(attend_emitter *e, gen_value number, attend_row *row) {
  gen_builder *b = e->b;
  gen_value pack = gen_param(b, e->k->pack);
  row->exists = gen_compare(b, GEN_ULT, number, e->end_row);
  row->number = gen_umin(b, number, gen_add_imm(b, e->end_row, -1));
  row->query = gen_udiv(b, row->number, pack);
  gen_value rest = gen_sub(b, row->number, gen_mul(b, row->query, pack));
  for (int i = e->m->batch.n - 1; i >= 0; i--) {
    if (e->p->rows.of[i].share == ATTEND_UNIT) {
      row->batch[i] = e->units[i];
      continue;
    }
    gen_value own = gen_param(b, e->k->own[i]), in = rest;
    if (i != outermost(e, ATTEND_UNIT)) {
      rest = gen_udiv(b, rest, own);
      in = gen_sub(b, in, gen_mul(b, rest, own));
    }
    row->batch[i] = gen_add(b, gen_mul(b, e->units[i], own), in);
  }
}

void attend_set_row(attend_emitter *e, lanes *l, const attend_row *row) {
  for (int i = 0; i < e->m->batch.n; i++) lanes_set(l, e->m->batch.loops[i], attend_index(e, row->batch[i]));
  lanes_set(l, e->m->query, attend_index(e, row->query));
}

/* --- bounds --- */

static arke_status find_keys(attend_emitter *e, arke_error *err) {
  gen_builder *b = e->b;
  const attention_bounds *bounds = &e->m->bounds;
  for (int i = 0; i < bounds->n; i++) TRY(bound_rest(b, e->l, &bounds->list[i], &e->rests[i], err));
  bound_range keys =
      bound_columns_of_tile(b, bounds, e->rests, e->first, e->last, attend_extent(e, e->m->key));
  e->from = keys.from;
  e->below = keys.below;
  e->all_from = keys.all_from;
  e->all_below = keys.all_below;
  if (!e->is_of_none) return ARKE_OK;
  e->below = gen_select(b, e->is_of_none, gen_i32(b, 0), e->below);
  e->all_below = gen_select(b, e->is_of_none, gen_i32(b, 0), e->all_below);
  return ARKE_OK;
}

/* A row of every 8 of the warp's. */
void attend_find_rows(attend_emitter *e) {
  gen_builder *b = e->b;
  const attention_bounds *bounds = &e->m->bounds;
  gen_value in = gen_add(b, e->warp_row, gen_lshr(b, e->lane, gen_i32(b, 2)));
  for (int r = 0; r < e->p->thread_rows; r++) {
    attend_find_row(e, gen_add(b, e->first_row, gen_add_imm(b, in, 8 * r)), &e->rows[r]);
    bound_columns_of_row(b, bounds, e->rests, e->rows[r].query, attend_extent(e, e->m->key), &e->row_from[r],
                         &e->row_below[r]);
  }
}

/* Conditions are the same for all rows of a tile. */
arke_status attend_find_condition(attend_emitter *e, lanes *l, gen_value *holds, arke_error *err) {
  const attention_bounds *bounds = &e->m->bounds;
  *holds = NULL;
  for (int i = 0; i < bounds->n_conditions; i++) {
    gen_value v[LANES_MAX];
    int n;
    TRY(lanes_load(l, bounds->conditions[i], err));
    TRY(lanes_eval(l, bounds->conditions[i], v, &n, err));
    *holds = *holds ? gen_and(e->b, *holds, v[0]) : v[0];
  }
  return ARKE_OK;
}

/* --- the CTA's --- */

/* Steps in which the tile sees anything are shared evenly; there may be none. */
static void find_steps(attend_emitter *e) {
  gen_builder *b = e->b;
  int step = e->p->block_n * e->p->sets;
  gen_value below = gen_smax(b, e->below, e->from), some = gen_compare(b, GEN_SLT, e->from, below);
  gen_value begin = gen_udiv(b, e->from, gen_i32(b, step)), end = gen_ceildiv_imm(b, below, step);
  end = gen_select(b, some, end, begin);
  e->begin = begin;
  e->end = end;
  if (e->p->split == 1) return;
  gen_value of = gen_i32(b, e->p->split), n = gen_sub(b, end, begin), each = gen_udiv(b, n, of);
  gen_value rest = gen_sub(b, n, gen_mul(b, each, of));
  e->begin = gen_add(b, begin, gen_add(b, gen_mul(b, e->split, each), gen_umin(b, e->split, rest)));
  gen_value more = gen_zext(b, gen_compare(b, GEN_ULT, e->split, rest), GEN_I32);
  e->end = gen_add(b, e->begin, gen_add(b, each, more));
}

arke_status attend_group_value(void *user, const ir_expr *x, gen_value *values, arke_error *err) {
  attend_emitter *e = user;
  if (x != e->m->groups.of || !e->group)
    return error_set(err, ARKE_ERR_INTERNAL, "generate", "a reduction that a tile has not");
  values[0] = contraction_value_as(e->b, e->group, ir_form_type(&e->m->form, x));
  return ARKE_OK;
}

/* Tiles of packed requests begin where a request does. Nothing is read by the number of rows past the last
 * one: there is no such request. */
static arke_status find_group(attend_emitter *e, gen_value *exists, arke_error *err) {
  gen_builder *b = e->b;
  const attention_match *m = e->m;
  group_tiles tiles = {.form = &m->form,
                       .groups = &m->groups,
                       .slots = &e->k->score_slots,
                       .options = e->p->scores,
                       .block = e->p->block_queries,
                       .a = e->k->a};
  group_tile found;
  TRY(group_tiles_find(b, &tiles, attend_extent(e, m->query), e->tile, &found, err));
  gen_value pack = gen_param(b, e->k->pack), last = gen_add_imm(b, attend_extent(e, m->groups.loop), -1);
  gen_value end = gen_smin(b, gen_add_imm(b, found.row, e->p->block_queries), found.end);
  e->first_row = gen_mul(b, found.row, pack);
  e->end_row = gen_mul(b, end, pack);
  e->is_of_none = found.is_of_none;
  e->group_number = found.group;
  e->group = gen_smin(b, found.group, last);
  *exists = found.exists;
  return ARKE_OK;
}

arke_status attend_find_tile(attend_emitter *e, gen_value *exists, arke_error *err) {
  gen_builder *b = e->b;
  gen_value cta = gen_ctaid_x(b), tiles = gen_param(b, e->k->tiles);
  if (e->p->split > 1) {
    e->split = gen_urem(b, cta, gen_i32(b, e->p->split));
    cta = gen_udiv(b, cta, gen_i32(b, e->p->split));
  }
  e->unit = gen_udiv(b, cta, tiles);
  e->tile = gen_sub(b, cta, gen_mul(b, e->unit, tiles));
  attend_find_unit(e);
  if (e->m->groups.of) return find_group(e, exists, err);
  *exists = NULL;
  e->first_row = gen_mul_imm(b, e->tile, e->p->block_m);
  e->end_row = gen_param(b, e->k->rows);
  return ARKE_OK;
}

arke_status attend_find_place(attend_emitter *e, arke_error *err) {
  gen_builder *b = e->b;
  gen_value end = gen_umin(b, gen_add_imm(b, e->first_row, e->p->block_m), e->end_row);
  e->first = gen_udiv(b, e->first_row, gen_param(b, e->k->pack));
  e->last = gen_udiv(b, gen_add_imm(b, end, -1), gen_param(b, e->k->pack));
  attend_find_row(e, e->first_row, &e->row);
  TRY(attend_ask_for_pages(e, err));
  /* Bounds depend on the unit's indices alone, and on the request. */
  attend_set_row(e, e->l, &e->row);
  TRY(find_keys(e, err));
  find_steps(e);
  lanes_forget(e->l);
  return ARKE_OK;
}
