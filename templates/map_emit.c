/* The kernel of one way: a CTA's tiles, whole ones by unrolled vectors, ragged ones vector by vector and the
 * last elements of rows one by one. Where a plan has whole tiles alone the rest is left out: a small problem
 * spends its time on fetching instructions, each new line of them from memory. */
#include "generator/gen_barrier.h"
#include "generator/gen_control.h"
#include "templates/map.h"

typedef struct map_emitter {
  gen_builder *b;
  const map_kernel *k;
  const map_match *m;
  const map_plan *plan;
  int group;
  gen_type type;                       /* of indices */
  gen_value columns, rows;             /* the group's extents */
  gen_value thread_column, thread_row; /* of this thread in its CTA, in vectors and rows */
} map_emitter;

static gen_value constant(const map_emitter *e, int64_t v) {
  return e->type == GEN_I64 ? gen_i64(e->b, v) : gen_i32(e->b, v);
}

static gen_value widened(const map_emitter *e, gen_value v) {
  return gen_type_of(e->b, v) == e->type ? v : gen_zext(e->b, v, e->type);
}

static gen_value slot_value(const map_emitter *e, lanes_slot slot) {
  return slot.param < 0 ? constant(e, slot.value) : gen_param(e->b, slot.param);
}

static gen_value extent_of(const map_emitter *e, map_loop l) {
  const lanes_args *slots = &e->k->slots;
  if (l.loop < 0) return constant(e, 1);
  return slot_value(e, l.axis < 0 ? slots->extent[l.loop] : slots->lead_extent[l.axis]);
}

/* --- one vector --- */

/* Where a vector lies: the row loops' values, and the column of its first element. */
typedef struct map_place {
  gen_value rows[MAP_ROWS], column;
} map_place;

static int reuse_of(const map_emitter *e) {
  return e->plan->tiles[e->group].reuse;
}

/* Elements of a row loop, of the reuse row how often a thread can take all its values. */
static gen_value row_extent(map_emitter *e, int i) {
  const map_group *g = &e->m->groups[e->group];
  gen_value extent = extent_of(e, g->rows[i]);
  if (i != g->reuse || reuse_of(e) == 1) return extent;
  return gen_udiv(e->b, gen_add_imm(e->b, extent, reuse_of(e) - 1), constant(e, reuse_of(e)));
}

/* The row loops' values in a row, of the reuse row number `repeat` of those that a thread takes. */
static void find_rows(map_emitter *e, gen_value row, gen_value repeat, map_place *place) {
  gen_builder *b = e->b;
  const map_group *g = &e->m->groups[e->group];
  for (int i = g->n_rows - 1; i >= 0; i--) {
    gen_value at = row;
    if (i > 0) { /* the outermost loop takes what is left */
      gen_value extent = row_extent(e, i), above = gen_udiv(b, row, extent);
      at = gen_sub(b, row, gen_mul(b, above, extent));
      row = above;
    }
    if (i == g->reuse) at = gen_add(b, gen_mul_imm(b, at, reuse_of(e)), repeat);
    place->rows[i] = at;
  }
}

/* Gives an evaluator the loops' values. */
static void set_place(map_emitter *e, lanes *l, const map_place *place) {
  const map_group *g = &e->m->groups[e->group];
  gen_value lead[LANES_LEAD];
  bool has_lead = false;
  for (int i = 0; i < LANES_LEAD; i++) lead[i] = constant(e, 0);
  for (int i = 0; i < e->m->form.n_loops; i++) {
    if (e->m->dense && ir_form_extent(&e->m->form, i) == 1) lanes_set(l, i, constant(e, 0));
  }
  for (int i = 0; i < g->n_rows; i++) {
    if (g->rows[i].axis < 0) {
      lanes_set(l, g->rows[i].loop, place->rows[i]);
    } else {
      lead[g->rows[i].axis] = place->rows[i];
      has_lead = true;
    }
  }
  if (g->column.axis >= 0) {
    lead[0] = place->column;
    has_lead = true;
  } else if (g->column.loop >= 0) {
    lanes_set(l, g->column.loop, place->column);
  }
  if (has_lead) lanes_set_lead(l, lead);
}

static arke_status load_all(map_emitter *e, lanes *l, arke_error *err) {
  const ir_form *form = &e->m->form;
  for (int i = 0; i < form->n_outputs; i++) {
    if (e->m->groups[e->group].outputs >> i & 1) TRY(lanes_load(l, form->outputs[i].value, err));
  }
  return ARKE_OK;
}

static arke_status store_all(map_emitter *e, lanes *l, arke_error *err) {
  const ir_form *form = &e->m->form;
  for (int i = 0; i < form->n_outputs; i++) {
    gen_value values[LANES_MAX];
    int n;
    if (!(e->m->groups[e->group].outputs >> i & 1)) continue;
    TRY(lanes_eval(l, form->outputs[i].value, values, &n, err));
    TRY(lanes_store(l, i, values, n, NULL, err));
  }
  return ARKE_OK;
}

/* Loops in which a thread's vectors differ. */
static unsigned copied_loops(const map_emitter *e) {
  const map_group *g = &e->m->groups[e->group];
  unsigned loops = 0;
  if (g->reuse >= 0) loops |= 1u << g->rows[g->reuse].loop;
  if (g->column.loop >= 0 && e->plan->tiles[e->group].vectors > 1) loops |= 1u << g->column.loop;
  return loops;
}

/* The number of the row's group is found ahead, where it is not one that copies share: an evaluator may ask
 * for it in a branch. */
static arke_status count_group(map_emitter *e, lanes_options *o, const map_place *place, arke_error *err) {
  const map_group *g = &e->m->groups[e->group];
  const contraction_groups *of = &e->m->groups_of;
  if (!of->of) return ARKE_OK;
  map_count *c = ARENA_NEW(e->k->a, map_count);
  if (!c) return error_memory(err, "generate");
  *c = (map_count){.b = e->b, .k = e->k, .row = constant(e, 0)};
  for (int i = 0; i < g->n_rows; i++)
    if (g->rows[i].loop == of->row) c->row = place->rows[i];
  o->reduce = map_count_value;
  o->user = c;
  return o->outer && !(o->own >> of->row & 1) ? ARKE_OK : map_count_find(c, err);
}

/* An evaluator at a place. */
static arke_status make_lanes(map_emitter *e, int width, lanes *outer, const map_place *place, lanes **l,
                              arke_error *err) {
  lanes_options o = map_lanes(e->m, e->plan, e->group, width);
  /* What is aligned for the plan's vectors is for shorter ones; nothing else was asked for. */
  if (width != e->plan->lanes.width) o.wide &= map_lanes(e->m, e->plan, e->group, e->plan->lanes.width).wide;
  o.outer = outer;
  o.own = copied_loops(e);
  TRY(count_group(e, &o, place, err));
  TRY(lanes_create(e->b, &e->m->form, &o, &e->k->slots, e->k->a, l, err));
  set_place(e, *l, place);
  return ARKE_OK;
}

/* --- tiles --- */

/* Where a thread's vector number `copy` of the tile starts, but for its place in the reuse row. */
static void copy_place(map_emitter *e, gen_value tile_column, gen_value tile_row, gen_value copy,
                       gen_value *row, gen_value *column) {
  gen_builder *b = e->b;
  const struct map_tile *t = &e->plan->tiles[e->group];
  int width = e->plan->lanes.width;
  gen_value across = gen_udiv(b, copy, constant(e, t->vectors)),
            along = gen_urem(b, copy, constant(e, t->vectors));
  *column = gen_add(b, tile_column, gen_mul_imm(b, along, (int64_t)e->plan->columns * width));
  *column = gen_add(b, *column, gen_mul_imm(b, e->thread_column, width));
  *row = gen_add(b, tile_row, gen_mul_imm(b, across, e->plan->rows));
  *row = gen_add(b, *row, e->thread_row);
}

static void whole_place(map_emitter *e, gen_value tile_column, gen_value tile_row, int copy, gen_value repeat,
                        map_place *place) {
  gen_value row;
  copy_place(e, tile_column, tile_row, constant(e, copy), &row, &place->column);
  find_rows(e, row, repeat, place);
}

/* What a thread has in flight, from `repeat` on of the reuse row: all loads, then all results. */
static arke_status whole_vectors(map_emitter *e, gen_value tile_column, gen_value tile_row, gen_value repeat,
                                 lanes *outer, arke_error *err) {
  lanes *all[MAP_MOST_COPIES];
  int n = map_copies(e->plan, e->group), at_once = e->plan->tiles[e->group].at_once;
  for (int i = 0; i < n; i++) {
    map_place place;
    whole_place(e, tile_column, tile_row, i / at_once, gen_add_imm(e->b, repeat, i % at_once), &place);
    TRY(make_lanes(e, e->plan->lanes.width, outer, &place, &all[i], err));
    TRY(load_all(e, all[i], err));
  }
  for (int i = 0; i < n; i++) TRY(store_all(e, all[i], err));
  return ARKE_OK;
}

/* The rest of the reuse row, for which `outer` has been computed. */
static arke_status repeat_vectors(map_emitter *e, gen_value tile_column, gen_value tile_row, lanes *outer,
                                  arke_error *err) {
  gen_builder *b = e->b;
  gen_loop loop;
  gen_value repeat = constant(e, 0);
  gen_loop_begin(b, &loop, &repeat, 1);
  arke_status status = whole_vectors(e, tile_column, tile_row, repeat, outer, err);
  repeat = gen_add_imm(b, repeat, e->plan->tiles[e->group].at_once);
  gen_loop_end_while(b, &loop, gen_compare(b, GEN_ULT, repeat, constant(e, reuse_of(e))));
  return status;
}

/* A tile that lies inside. Vectors share what does not depend on where they differ. */
static arke_status whole_tile(map_emitter *e, gen_value tile_column, gen_value tile_row, arke_error *err) {
  const struct map_tile *t = &e->plan->tiles[e->group];
  lanes *outer = NULL;
  if (t->rows == 1 && t->reuse * t->vectors > 1) {
    map_place place;
    whole_place(e, tile_column, tile_row, 0, constant(e, 0), &place);
    TRY(make_lanes(e, e->plan->lanes.width, NULL, &place, &outer, err));
  }
  if (t->reuse == t->at_once) return whole_vectors(e, tile_column, tile_row, constant(e, 0), outer, err);
  for (int i = 0; i < e->m->form.n_outputs; i++) {
    if (e->m->groups[e->group].outputs >> i & 1)
      TRY(lanes_prepare(outer, e->m->form.outputs[i].value, copied_loops(e), err));
  }
  return repeat_vectors(e, tile_column, tile_row, outer, err);
}

static arke_status one_vector(map_emitter *e, int width, const map_place *place, arke_error *err) {
  lanes *l;
  TRY(make_lanes(e, width, NULL, place, &l, err));
  TRY(load_all(e, l, err));
  return store_all(e, l, err);
}

/* Elements that are stored together at the least. */
static int least_width(const map_emitter *e) {
  return e->m->groups[e->group].packed ? 2 : 1;
}

/* The elements from the place on that are inside, fewer than a vector. */
static arke_status last_elements(map_emitter *e, const map_place *place, arke_error *err) {
  gen_builder *b = e->b;
  gen_loop loop;
  map_place here = *place;
  gen_value at = place->column, end = gen_umin(b, gen_add_imm(b, at, e->plan->lanes.width), e->columns);
  gen_loop_begin(b, &loop, &at, 1);
  gen_loop_while(b, &loop, gen_compare(b, GEN_ULT, at, end));
  here.column = at;
  arke_status status = one_vector(e, least_width(e), &here, err);
  at = gen_add_imm(b, at, least_width(e));
  gen_loop_end(b, &loop);
  return status;
}

static arke_status columns_inside(map_emitter *e, const map_place *place, arke_error *err) {
  gen_builder *b = e->b;
  int width = e->plan->lanes.width;
  gen_branch whole;
  gen_value end = gen_add_imm(b, place->column, width); /* also past the row: no wrap in 32 bits */
  gen_if(b, &whole, gen_compare(b, GEN_ULE, end, e->columns), NULL, 0);
  arke_status status = one_vector(e, width, place, err);
  if (width > least_width(e)) {
    gen_else(b, &whole);
    if (status == ARKE_OK) status = last_elements(e, place, err);
  }
  gen_if_end(b, &whole);
  return status;
}

static arke_status ragged_vector(map_emitter *e, gen_value row, gen_value repeat, gen_value column,
                                 arke_error *err) {
  gen_builder *b = e->b;
  const map_group *g = &e->m->groups[e->group];
  gen_branch inside, repeats;
  map_place place = {.column = column};
  gen_if(b, &inside, gen_compare(b, GEN_ULT, row, e->rows), NULL, 0);
  find_rows(e, row, repeat, &place);
  if (reuse_of(e) > 1)
    gen_if(b, &repeats, gen_compare(b, GEN_ULT, place.rows[g->reuse], extent_of(e, g->rows[g->reuse])), NULL,
           0);
  arke_status status = columns_inside(e, &place, err);
  if (reuse_of(e) > 1) gen_if_end(b, &repeats);
  gen_if_end(b, &inside);
  return status;
}

static arke_status ragged_tile(map_emitter *e, gen_value tile_column, gen_value tile_row, arke_error *err) {
  gen_builder *b = e->b;
  const struct map_tile *t = &e->plan->tiles[e->group];
  int n = t->reuse * t->vectors * t->rows;
  gen_loop loop;
  gen_value copy = constant(e, 0), row, column;
  gen_loop_begin(b, &loop, &copy, 1);
  gen_value repeat = gen_urem(b, copy, constant(e, reuse_of(e)));
  copy_place(e, tile_column, tile_row, gen_udiv(b, copy, constant(e, reuse_of(e))), &row, &column);
  arke_status status = ragged_vector(e, row, repeat, column, err);
  copy = gen_add_imm(b, copy, 1);
  gen_loop_end_while(b, &loop, gen_compare(b, GEN_ULT, copy, constant(e, n)));
  return status;
}

/* `x` and `y` count tiles, of the index type. */
static arke_status tile(map_emitter *e, gen_value x, gen_value y, arke_error *err) {
  gen_builder *b = e->b;
  int64_t wide = map_tile_columns(e->plan, e->group), high = map_tile_rows(e->plan, e->group);
  gen_value column = gen_mul_imm(b, x, wide), row = gen_mul_imm(b, y, high);
  if (e->plan->whole) return whole_tile(e, column, row, err);
  gen_value inside = gen_and(b, gen_compare(b, GEN_ULE, gen_add_imm(b, column, wide), e->columns),
                             gen_compare(b, GEN_ULE, gen_add_imm(b, row, high), e->rows));
  const map_group *g = &e->m->groups[e->group];
  if (reuse_of(e) > 1) {
    gen_value extent = extent_of(e, g->rows[g->reuse]), rest = gen_urem(b, extent, constant(e, reuse_of(e)));
    inside = gen_and(b, inside, gen_compare_imm(b, GEN_EQ, rest, 0));
  }
  gen_branch whole;
  gen_if(b, &whole, inside, NULL, 0);
  arke_status status = whole_tile(e, column, row, err);
  gen_else(b, &whole);
  if (status == ARKE_OK) status = ragged_tile(e, column, row, err);
  gen_if_end(b, &whole);
  return status;
}

/* --- the grid --- */

static void enter_group(map_emitter *e, int group) {
  gen_builder *b = e->b;
  const map_group *g = &e->m->groups[group];
  e->group = group;
  e->columns = extent_of(e, g->column);
  e->rows = constant(e, 1);
  for (int i = 0; i < g->n_rows; i++) e->rows = gen_mul(b, e->rows, row_extent(e, i));
}

/* Tile `number` of those of all groups from `group` on. */
static arke_status numbered_tile(map_emitter *e, int group, gen_value number, arke_error *err) {
  gen_builder *b = e->b;
  gen_value wide = gen_param(b, e->k->n_tiles_wide[group]);
  bool last = group + 1 == e->m->n_groups;
  gen_branch own;
  gen_value n = gen_param(b, e->k->n_tiles[group]);
  if (!last) gen_if(b, &own, gen_compare(b, GEN_ULT, number, n), NULL, 0);
  enter_group(e, group);
  gen_value y = e->m->groups[group].n_rows > 0 ? gen_udiv(b, number, wide) : constant(e, 0);
  arke_status status = tile(e, gen_sub(b, number, gen_mul(b, y, wide)), y, err);
  if (last) return status;
  gen_else(b, &own);
  if (status == ARKE_OK) status = numbered_tile(e, group + 1, gen_sub(b, number, n), err);
  gen_if_end(b, &own);
  return status;
}

static arke_status all_tiles(map_emitter *e, arke_error *err) {
  gen_builder *b = e->b;
  gen_value number = widened(e, gen_ctaid_x(b));
  if (e->plan->persistent == 0) return numbered_tile(e, 0, number, err);
  gen_value total = gen_param(b, e->k->n_tiles[0]), step = widened(e, gen_nctaid_x(b));
  for (int i = 1; i < e->m->n_groups; i++) total = gen_add(b, total, gen_param(b, e->k->n_tiles[i]));
  gen_loop loop;
  gen_loop_begin(b, &loop, &number, 1);
  gen_loop_while(b, &loop, gen_compare(b, GEN_ULT, number, total));
  gen_value at = number;
  arke_status status = numbered_tile(e, 0, at, err);
  number = gen_add(b, at, step);
  gen_loop_end(b, &loop);
  return status;
}

arke_status map_emit(gen_builder *b, const target *t, void *user, arke_error *err) {
  (void)t;
  const map_kernel *k = user;
  map_emitter e = {.b = b, .k = k, .m = k->m, .plan = k->plan};
  e.type = k->plan->lanes.wide_offsets ? GEN_I64 : GEN_I32;
  gen_value thread = widened(&e, gen_tid_x(b));
  e.thread_column = gen_urem(b, thread, constant(&e, k->plan->columns));
  e.thread_row = gen_udiv(b, thread, constant(&e, k->plan->columns));
  gen_launches_wait(b);
  gen_launches_release(b);
  if (map_is_linear(k->m, k->plan)) return all_tiles(&e, err);
  enter_group(&e, 0);
  gen_value y = widened(&e, gen_ctaid_y(b)), z = widened(&e, gen_ctaid_z(b));
  if (k->m->groups[0].n_rows == 0) return tile(&e, widened(&e, gen_ctaid_x(b)), constant(&e, 0), err);
  return tile(&e, widened(&e, gen_ctaid_x(b)), gen_add(b, y, gen_mul_imm(b, z, MAP_GRID_Y)), err);
}
