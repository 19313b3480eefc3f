/* Which tiles a CTA computes, in which order: one matrix after the other; in each a band of GROUP units along
 * one direction is walked across before the next band, so that CTAs running at the same time share rows of A
 * and columns of B in the L2 cache. */
#include "templates/gemm_emit.h"

void gemm_tiles_init(gemm_emitter *e) {
  gen_builder *b = e->b;
  const gemm_plan *plan = e->plan;
  e->units_m = gen_ceildiv_imm(b, e->m, plan->block_m * plan->cluster_m);
  e->units_n = gen_ceildiv_imm(b, e->n, plan->block_n * plan->cluster_n);
  e->units_each = gen_mul(b, e->units_m, e->units_n);
  e->units = e->batches ? gen_mul(b, e->units_each, e->batches) : e->units_each;
  e->k_steps = e->part_steps = gen_ceildiv_imm(b, e->k, plan->block_k);
  if (plan->match.k_outer.n > 0) e->k_steps = gen_mul(b, e->part_steps, gen_param(b, e->kernel->k_outer));
  bool clustered = plan->cluster > 1;
  e->rank = clustered ? gen_cluster_ctarank(b) : gen_i32(b, 0);
  e->unit = clustered ? gen_clusterid_x(b) : gen_ctaid_x(b);
  e->unit_step = clustered ? gen_nclusterid_x(b) : gen_nctaid_x(b);
  if (plan->stream) gemm_stream_init(e);
  if (plan->even) gemm_even_declare(e);
}

/* This CTA's block along an axis of which `share` CTAs of the cluster take one each. */
static gen_value first_element(gemm_emitter *e, gen_value unit, int share, int block) {
  gen_builder *b = e->b;
  gen_value index = gen_mul_imm(b, unit, share);
  if (share > 1) index = gen_add(b, index, e->rank);
  return gen_mul_imm(b, index, block);
}

void gemm_walk_grid(gemm_emitter *e, gen_value index, gen_value units_m, gen_value units_n, gen_value *unit_m,
                    gen_value *unit_n) {
  gen_builder *b = e->b;
  const gemm_plan *plan = e->plan;
  gen_value along = plan->raster_n ? units_n : units_m, across = plan->raster_n ? units_m : units_n;
  gen_value band_units = gen_mul_imm(b, across, plan->group);
  gen_value band = gen_udiv(b, index, band_units);
  gen_value first = gen_mul_imm(b, band, plan->group);
  gen_value height = gen_umin(b, gen_sub(b, along, first), gen_i32(b, plan->group));
  gen_value inside = gen_sub(b, index, gen_mul(b, band, band_units));
  gen_value column = gen_udiv(b, inside, height);
  gen_value row = gen_add(b, first, gen_sub(b, inside, gen_mul(b, column, height)));
  *unit_m = plan->raster_n ? column : row;
  *unit_n = plan->raster_n ? row : column;
}

gemm_tile gemm_tiles_at(gemm_emitter *e, gen_value unit) {
  gen_builder *b = e->b;
  const gemm_plan *plan = e->plan;
  if (plan->even) return gemm_even_tile(e, unit);
  gen_value unit_m, unit_n, batch = NULL;
  if (e->batches) {
    batch = gen_udiv(b, unit, e->units_each);
    unit = gen_sub(b, unit, gen_mul(b, batch, e->units_each));
  }
  gemm_walk_grid(e, unit, e->units_m, e->units_n, &unit_m, &unit_n);
  if (plan->match.grouped) {
    gemm_tile tile = gemm_groups_tile(e, unit_m);
    tile.column = first_element(e, unit_n, plan->cluster_n, plan->block_n);
    return tile;
  }
  return (gemm_tile){.row = first_element(e, unit_m, plan->cluster_m, plan->block_m),
                     .column = first_element(e, unit_n, plan->cluster_n, plan->block_n),
                     .batch = batch};
}

/* --- loops and coordinates --- */

/* Values of loops whose numbers together are `number`. */
static void split(gemm_emitter *e, const contraction_loops *loops, gen_value number,
                  gen_value values[IR_FORM_LOOPS]) {
  gen_builder *b = e->b;
  for (int i = loops->n - 1; i >= 0; i--) {
    gen_value extent = i > 0 ? gen_param(b, e->kernel->extents[loops->loops[i]]) : NULL;
    values[loops->loops[i]] = i > 0 ? gen_urem(b, number, extent) : number;
    if (i > 0) number = gen_udiv(b, number, extent);
  }
}

void gemm_outer_values(gemm_emitter *e, gemm_tile tile, gen_value values[IR_FORM_LOOPS]) {
  split(e, &e->plan->match.outer, tile.batch, values);
}

void gemm_terms_at(gemm_emitter *e, gen_value step, gen_value values[IR_FORM_LOOPS]) {
  gen_builder *b = e->b;
  const gemm_match *match = &e->plan->match;
  if (match->k_outer.n > 0) {
    gen_value part = gen_udiv(b, step, e->part_steps);
    step = gen_sub(b, step, gen_mul(b, part, e->part_steps));
    split(e, &match->k_outer, part, values);
  }
  values[match->k] = gen_mul_imm(b, step, e->plan->block_k);
}

static gen_value as_index(gemm_emitter *e, gen_value x) {
  bool wide = e->plan->indices.wide_offsets && gen_type_of(e->b, x) == GEN_I32;
  return wide ? gen_zext(e->b, x, GEN_I64) : x;
}

void gemm_set_loops(gemm_emitter *e, lanes *l, gemm_tile tile, gen_value row, gen_value column) {
  const gemm_match *match = &e->plan->match;
  gen_value values[IR_FORM_LOOPS];
  gemm_outer_values(e, tile, values);
  for (int i = 0; i < match->outer.n; i++)
    lanes_set(l, match->outer.loops[i], as_index(e, values[match->outer.loops[i]]));
  lanes_set(l, match->m, as_index(e, row));
  lanes_set(l, match->n, as_index(e, column));
}

void gemm_set_terms(gemm_emitter *e, lanes *l, gen_value k) {
  lanes_set(l, e->plan->match.k, as_index(e, k));
}

static arke_status evaluate_indices(gemm_emitter *e, const gemm_view *view, gemm_tile tile,
                                    gen_value *coordinates) {
  gen_builder *b = e->b;
  const gemm_match *match = &e->plan->match;
  const ir_form *form = &match->c->form;
  const ir_access *x = &form->accesses[view->access];
  lanes *l;
  lanes_options o = e->plan->indices;
  o.user = (void *)e->kernel;
  e->group = tile.group;
  TRY(lanes_create(b, form, &o, &e->kernel->index_slots, e->kernel->a, &l, e->err));
  gemm_set_loops(e, l, tile, tile.row, tile.column);
  for (int i = 0; i < view->rank; i++) {
    const ir_expr *s = x->subscripts[view->subscript[i]].e;
    gen_value value;
    int n;
    if (s->node == IR_INDEX) continue;
    TRY(lanes_load(l, s, e->err));
    TRY(lanes_eval(l, s, &value, &n, e->err));
    coordinates[i] = gen_type_of(b, value) == GEN_I64 ? gen_trunc(b, value, GEN_I32) : value;
  }
  return ARKE_OK;
}

void gemm_coordinates(gemm_emitter *e, const gemm_view *view, gemm_tile tile,
                      gen_value coordinates[GEMM_MAP_RANK]) {
  const gemm_match *match = &e->plan->match;
  const ir_access *x = &match->c->form.accesses[view->access];
  gen_value values[IR_FORM_LOOPS] = {NULL};
  gemm_outer_values(e, tile, values);
  values[match->m] = tile.row;
  values[match->n] = tile.column;
  for (int i = 0; i < view->rank; i++) {
    const ir_expr *s = x->subscripts[view->subscript[i]].e;
    coordinates[i] = s->node == IR_INDEX ? values[s->id] : gen_i32(e->b, 0);
  }
  if (view->computed) gemm_note(e, evaluate_indices(e, view, tile, coordinates));
}

/* --- a role's walk --- */

static int carried_by_all(const gemm_walk *walk) {
  return walk->scales.index ? 5 : 3;
}

static void take_carried(gemm_walk *walk) {
  int first = carried_by_all(walk);
  walk->place = walk->carried[0];
  walk->stage = (gen_stage){walk->carried[1], walk->carried[2]};
  if (walk->scales.index) walk->scales = (gen_stage){walk->carried[3], walk->carried[4]};
  for (int i = 0; i < walk->n_extra; i++) walk->extra[i] = walk->carried[first + i];
}

static void put_carried(gemm_walk *walk) {
  walk->carried[0] = walk->place;
  walk->carried[1] = walk->stage.index;
  walk->carried[2] = walk->stage.parity;
  walk->carried[3] = walk->scales.index;
  walk->carried[4] = walk->scales.parity;
  int first = carried_by_all(walk);
  for (int i = 0; i < walk->n_extra; i++) walk->carried[first + i] = walk->extra[i];
}

void gemm_walk_begin(gemm_emitter *e, gemm_walk *walk) {
  if (!e->plan->persistent) return;
  put_carried(walk);
  gen_loop_begin(e->b, &walk->loop, walk->carried, carried_by_all(walk) + walk->n_extra);
  take_carried(walk);
  gen_loop_while(e->b, &walk->loop, gen_compare(e->b, GEN_ULT, walk->place, gemm_place_limit(e)));
}

void gemm_walk_end(gemm_emitter *e, gemm_walk *walk) {
  if (!e->plan->persistent) return;
  walk->place = gemm_next_place(e, walk->place, walk->step);
  put_carried(walk);
  gen_loop_end(e->b, &walk->loop);
  take_carried(walk);
}
