/* Which tile a CTA has, which columns its rows meet, and the walk over them. */
#include "generator/gen_bits.h"
#include "generator/gen_memory.h"
#include "templates/backward_warps.h"
#include "templates/bound_rest.h"
#include "templates/contraction_value.h"
#include "templates/group_tiles.h"

#define STAGE "generate"

gen_value warps_index(const warps_emitter *e, gen_value x) {
  return e->plan->vectors.wide_offsets ? gen_sext(e->b, x, GEN_I64) : x;
}

gen_value warps_extent(const warps_emitter *e, int loop) {
  return gen_param(e->b, e->k->extents[loop]);
}

int warps_row_loop(const warps_emitter *e) {
  return backward_row_loop(e->m, e->p->side);
}

int warps_column_loop(const warps_emitter *e) {
  return backward_column_loop(e->m, e->p->side);
}

void warps_set_batch(warps_emitter *e, lanes *l, int side, gen_value head) {
  const contraction_loops *batch = &e->m->batch[side];
  for (int i = 0; i < batch->n; i++) {
    int loop = batch->loops[i];
    lanes_set(l, loop, warps_index(e, loop == e->m->head && head ? head : e->loops[loop]));
  }
}

/* --- values of reductions --- */

arke_status warps_reduction(void *user, const ir_expr *x, gen_value *values, arke_error *err) {
  warps_emitter *e = user;
  const backward_match *m = e->m;
  bool is_group = x == m->groups[BACKWARD_QUERIES].of || x == m->groups[BACKWARD_KEYS].of;
  if (is_group && e->group) {
    values[0] = contraction_value_as(e->b, e->group, ir_form_type(&m->form, x));
    return ARKE_OK;
  }
  values[0] = x == m->product ? e->product : x == m->slope ? e->slope : x == m->dot ? e->dot : NULL;
  return values[0] ? ARKE_OK
                   : error_set(err, ARKE_ERR_INTERNAL, STAGE, "a reduction that a step of gradients has not");
}

arke_status warps_given(void *user, int access, gen_value *elements, arke_error *err) {
  warps_emitter *e = user;
  if (access != e->plan->vectors.given_lse || !e->lse)
    return error_set(err, ARKE_ERR_INTERNAL, STAGE, "an element that a step of gradients has not");
  elements[0] = e->lse;
  return ARKE_OK;
}

/* --- the tile --- */

/* Whether the last tiles of a head meet the most. */
static bool walks_down(const warps_emitter *e) {
  const attention_bounds *bounds = &e->m->seen[e->p->side];
  for (int i = 0; i < bounds->n; i++)
    if (bounds->list[i].upper && bounds->list[i].query > 0) return true;
  return false;
}

static void set_loops(warps_emitter *e, gen_value number) {
  gen_builder *b = e->b;
  const backward_match *m = e->m;
  const contraction_loops *batch = &m->batch[e->p->side];
  for (int i = batch->n - 1; i >= 0; i--) {
    int loop = batch->loops[i];
    e->loops[loop] = number;
    if (i == 0) break;
    gen_value extent = warps_extent(e, loop), rest = gen_udiv(b, number, extent);
    e->loops[loop] = gen_sub(b, number, gen_mul(b, rest, extent));
    number = rest;
  }
  if (e->p->side != BACKWARD_KEYS || m->head < 0) return;
  e->heads = gen_param(b, e->k->ratio);
  e->loops[m->head] = gen_mul(b, e->loops[m->share], e->heads);
  e->head_end = gen_add(b, e->loops[m->head], e->heads);
}

/* Tiles of packed requests begin where a request does. Nothing is read by the number of rows past the last
 * one: there is no such request. */
static arke_status find_group(warps_emitter *e, gen_value tile, gen_value *exists, arke_error *err) {
  gen_builder *b = e->b;
  const contraction_groups *groups = &e->m->groups[e->p->side];
  group_tiles tiles = {.form = &e->m->form,
                       .groups = groups,
                       .slots = &e->k->score_slots,
                       .options = e->plan->vectors.scores,
                       .block = e->p->block_rows,
                       .a = e->k->a};
  group_tile found;
  TRY(group_tiles_find(b, &tiles, warps_extent(e, warps_row_loop(e)), tile, &found, err));
  e->first = found.row;
  e->end = gen_smin(b, gen_add_imm(b, found.row, e->p->block_rows), found.end);
  e->is_of_none = found.is_of_none;
  e->group = gen_smin(b, found.group, gen_add_imm(b, warps_extent(e, groups->loop), -1));
  *exists = found.exists;
  return ARKE_OK;
}

arke_status warps_find_tile(warps_emitter *e, gen_value *exists, arke_error *err) {
  gen_builder *b = e->b;
  gen_value cta = gen_ctaid_x(b), heads = gen_param(b, e->k->heads), tile = gen_udiv(b, cta, heads);
  set_loops(e, gen_sub(b, cta, gen_mul(b, tile, heads)));
  if (e->m->groups[e->p->side].of) return find_group(e, tile, exists, err);
  if (walks_down(e)) tile = gen_sub(b, gen_add_imm(b, gen_param(b, e->k->tiles), -1), tile);
  *exists = NULL;
  e->first = gen_mul_imm(b, tile, e->p->block_rows);
  e->end = gen_umin(b, gen_add_imm(b, e->first, e->p->block_rows), warps_extent(e, warps_row_loop(e)));
  return ARKE_OK;
}

/* --- bounds --- */

static void find_steps(warps_emitter *e) {
  gen_builder *b = e->b;
  int step = e->p->block_columns;
  gen_value some = gen_compare(b, GEN_SLT, e->from, e->below);
  e->begin = gen_udiv(b, e->from, gen_i32(b, step));
  e->steps_end = gen_select(b, some, gen_ceildiv_imm(b, e->below, step), e->begin);
}

arke_status warps_find_columns(warps_emitter *e, arke_error *err) {
  gen_builder *b = e->b;
  const attention_bounds *bounds = &e->m->seen[e->p->side];
  gen_value last = gen_add_imm(b, e->end, -1), none = gen_i32(b, 0);
  warps_set_batch(e, e->l, BACKWARD_QUERIES, NULL);
  lanes_set(e->l, warps_row_loop(e), warps_index(e, e->first));
  for (int i = 0; i < bounds->n; i++) TRY(bound_rest(b, e->l, &bounds->list[i], &e->rests[i], err));
  bound_range columns =
      bound_columns_of_tile(b, bounds, e->rests, e->first, last, warps_extent(e, warps_column_loop(e)));
  e->from = columns.from;
  e->below = columns.below;
  e->all_from = columns.all_from;
  e->all_below = columns.all_below;
  if (e->is_of_none) {
    e->below = gen_select(b, e->is_of_none, none, e->below);
    e->all_below = gen_select(b, e->is_of_none, none, e->all_below);
  }
  find_steps(e);
  lanes_forget(e->l);
  return ARKE_OK;
}

void warps_find_rows(warps_emitter *e) {
  gen_builder *b = e->b;
  const attention_bounds *bounds = &e->m->seen[e->p->side];
  gen_value in = gen_add(b, e->warp_row, gen_lshr(b, e->lane, gen_i32(b, 2)));
  for (int r = 0; r < WARPS_ROWS; r++) {
    gen_value row = gen_add(b, e->first, gen_add_imm(b, in, 8 * (int64_t)r));
    e->row[r] = gen_smin(b, row, gen_add_imm(b, e->end, -1));
    bound_columns_of_row(b, bounds, e->rests, e->row[r], warps_extent(e, warps_column_loop(e)),
                         &e->row_from[r], &e->row_below[r]);
    if (e->p->side != BACKWARD_QUERIES) continue;
    gen_value both = gen_load_global(b, GEN_F32, 2, warps_statistics_address(e, NULL, e->row[r]), false);
    e->row_lse[r] = gen_lane(b, both, 0);
    e->row_dot[r] = gen_lane(b, both, 1);
  }
}

gen_value warps_statistics_address(warps_emitter *e, gen_value head, gen_value query) {
  gen_builder *b = e->b;
  const contraction_loops *batch = &e->m->batch[BACKWARD_QUERIES];
  gen_value number = gen_i32(b, 0);
  for (int i = 0; i < batch->n; i++) {
    int loop = batch->loops[i];
    gen_value value = loop == e->m->head && head ? head : e->loops[loop];
    number = i == 0 ? value : gen_add(b, gen_mul(b, number, warps_extent(e, loop)), value);
  }
  number = gen_add(b, gen_mul(b, number, warps_extent(e, e->m->query)), query);
  return gen_add(b, gen_param(b, e->k->statistics),
                 gen_mul_imm(b, gen_zext(b, number, GEN_I64), WARPS_STATISTICS_BYTES));
}

/* --- the walk --- */

/* None of a head's steps is none of all. */
warps_walk warps_walk_start(const warps_emitter *e) {
  gen_builder *b = e->b;
  if (!e->heads) return (warps_walk){NULL, e->begin};
  gen_value some = gen_compare(b, GEN_ULT, e->begin, e->steps_end);
  return (warps_walk){gen_select(b, some, e->heads, gen_i32(b, 0)), e->begin};
}

gen_value warps_walk_goes_on(warps_emitter *e, const warps_walk *w) {
  return w->heads ? gen_compare_imm(e->b, GEN_SGT, w->heads, 0)
                  : gen_compare(e->b, GEN_ULT, w->step, e->steps_end);
}

warps_walk warps_walk_next(warps_emitter *e, const warps_walk *w) {
  gen_builder *b = e->b;
  gen_value next = gen_add_imm(b, w->step, 1);
  if (!w->heads) return (warps_walk){NULL, next};
  gen_value done = gen_compare(b, GEN_UGE, next, e->steps_end);
  return (warps_walk){gen_sub(b, w->heads, gen_zext(b, done, GEN_I32)), gen_select(b, done, e->begin, next)};
}

gen_value warps_walk_head(warps_emitter *e, const warps_walk *w) {
  return w->heads ? gen_sub(e->b, e->head_end, w->heads) : NULL;
}
