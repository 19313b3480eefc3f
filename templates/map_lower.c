/* Kernels, parameters and recipes of all ways. */
#include "templates/map.h"

#define STAGE "generate"

typedef struct way_maker {
  const ir_problem *p;
  arena *a;
  recipe *rules;
  kernel_launch *launch;
  map_kernel *kernel;
} way_maker;

static const recipe_expr *ceildiv(arena *a, const recipe_expr *x, int64_t y) {
  return y == 1 ? x : recipe_binary(a, RECIPE_CEILDIV, x, recipe_const(a, y));
}

static const recipe_expr *product(arena *a, const recipe_expr *x, const recipe_expr *y) {
  return recipe_binary(a, RECIPE_MUL, x, y);
}

static const recipe_expr *extent(const map_match *m, map_loop l, arena *a) {
  if (l.loop < 0) return recipe_const(a, 1);
  if (l.axis < 0) return kernel_extent(&m->form, l.loop, a);
  return recipe_var(a, arena_printf(a, RECIPE_LEADING "%d", l.axis));
}

/* Tiles of a group along its columns, and across. */
static const recipe_expr *tiles_wide(const map_kernel *k, int group, arena *a) {
  return ceildiv(a, extent(k->m, k->m->groups[group].column, a), map_tile_columns(k->plan, group));
}

static const recipe_expr *tiles_high(const map_kernel *k, int group, arena *a) {
  const map_group *g = &k->m->groups[group];
  const recipe_expr *rows = recipe_const(a, 1);
  for (int i = 0; i < g->n_rows; i++) {
    const recipe_expr *e = extent(k->m, g->rows[i], a);
    if (i == g->reuse) e = ceildiv(a, e, k->plan->tiles[group].reuse);
    rows = i == 0 ? e : product(a, rows, e);
  }
  return ceildiv(a, rows, map_tile_rows(k->plan, group));
}

static int number_param(const map_kernel *k, kernel_args *args, const recipe_expr *value) {
  return k->plan->lanes.wide_offsets ? kernel_args_i64(args, value) : kernel_args_i32(args, value);
}

static void fill_grid(map_kernel *k, kernel_launch *l, arena *a) {
  if (!map_is_linear(k->m, k->plan)) {
    const recipe_expr *high = tiles_high(k, 0, a);
    l->grid[0] = tiles_wide(k, 0, a);
    if (k->m->groups[0].n_rows == 0) return;
    l->grid[1] = recipe_binary(a, RECIPE_MIN, high, recipe_const(a, MAP_GRID_Y));
    l->grid[2] = ceildiv(a, high, MAP_GRID_Y);
    return;
  }
  const recipe_expr *total = NULL;
  for (int i = 0; i < k->m->n_groups; i++) {
    const recipe_expr *wide = tiles_wide(k, i, a), *n = product(a, wide, tiles_high(k, i, a));
    k->n_tiles_wide[i] = number_param(k, &l->args, wide);
    k->n_tiles[i] = number_param(k, &l->args, n);
    total = i == 0 ? n : recipe_binary(a, RECIPE_ADD, total, n);
  }
  if (k->plan->persistent > 0) {
    const recipe_expr *resident = product(a, recipe_var(a, "SMS"), recipe_const(a, k->plan->persistent));
    total = recipe_binary(a, RECIPE_MIN, total, resident);
  }
  l->grid[0] = total;
  if (!total) l->args.incomplete = true;
}

/* Loops of one element that the kernel does not have. */
static void require_left_out(const map_match *m, recipe *rules, arena *a) {
  for (int i = 0; m->dense && i < m->form.n_loops; i++) {
    const ir_loop *l = &m->form.loops[i];
    if (ir_form_extent(&m->form, i) != 1) continue;
    const recipe_expr *e = kernel_extent(&m->form, i, a);
    if (!e || e->op != RECIPE_CONST)
      kernel_require(rules, a, e, 0, 1, arena_printf(a, "the loop over %s is left out", l->name));
  }
}

/* That tiles fill the call's sizes as they fill the problem's. */
static void require_whole(const map_match *m, const map_plan *plan, recipe *rules, arena *a) {
  static const char why[] = "the kernel is made for whole tiles";
  for (int i = 0; plan->whole && i < m->n_groups; i++) {
    const map_group *g = &m->groups[i];
    int64_t high = map_tile_rows(plan, i);
    kernel_require(rules, a, extent(m, g->column, a), map_tile_columns(plan, i), 0, why);
    if (g->n_rows == 0) continue;
    const recipe_expr *rows = recipe_const(a, 1);
    for (int k = 0; k < g->n_rows; k++) {
      const recipe_expr *e = extent(m, g->rows[k], a);
      if (k == g->reuse) {
        kernel_require(rules, a, e, plan->tiles[i].reuse, 0, why);
        e = ceildiv(a, e, plan->tiles[i].reuse);
      }
      rows = k == 0 ? e : product(a, rows, e);
    }
    kernel_require(rules, a, rows, high, 0, why);
    if (!map_is_linear(m, plan)) kernel_require(rules, a, rows, 0, high * MAP_GRID_Y, why);
  }
}

static arke_status make_way(const ir_problem *p, const map_match *m, const map_plan *plan, const char *name,
                            arena *a, kernel_way *way, arke_error *err) {
  recipe *rules = ARENA_NEW(a, recipe);
  kernel_launch *l = ARENA_NEW(a, kernel_launch);
  map_kernel *k = ARENA_NEW(a, map_kernel);
  if (!rules || !l || !k) return error_memory(err, STAGE);
  rules->n_tensors = p->op->n_args;
  *k = (map_kernel){.m = m, .plan = plan, .a = a};
  *l = (kernel_launch){.name = name,
                       .threads = plan->threads,
                       .min_ctas_per_sm = plan->resident / plan->threads,
                       .early_start = true,
                       .emit = map_emit,
                       .user = k,
                       .args = {.a = a}};
  for (int i = 0; i < m->n_groups; i++) {
    lanes_options o = map_lanes(m, plan, i, plan->lanes.width);
    lanes_require(&m->form, &o, rules, a);
    if (i == 0) lanes_declare(&m->form, &o, &l->args, &k->slots);
  }
  for (int i = 0; i < m->n_groups; i++)
    if (m->groups[i].packed)
      kernel_require(rules, a, extent(m, m->groups[i].column, a), 2, 0, "two elements of a row share a byte");
  require_left_out(m, rules, a);
  require_whole(m, plan, rules, a);
  map_require_disjoint(m, rules, a);
  fill_grid(k, l, a);
  *way = (kernel_way){l, 1, rules};
  return ARKE_OK;
}

/* The matches and plans of the ways. */
typedef struct map_both {
  map_match dense, views;
  map_plan plans[5];
} map_both;

static arke_status matched(const ir_problem *p, bool dense, arena *a, map_match *m, arke_error *err) {
  template_reason reason;
  TRY(map_match_make(p, dense, a, m, &reason, NULL, err));
  if (reason == TEMPLATE_OK) return ARKE_OK;
  return error_set(err, ARKE_ERR_INTERNAL, STAGE, "no map: %s", template_reason_text(reason));
}

/* Whether elements that share a byte are stored together. */
static bool can_pack(const map_match *m, const map_plan *plan) {
  for (int i = 0; i < m->n_groups; i++)
    if (m->groups[i].packed && (plan->lanes.width == 1 || map_columns(m, &m->groups[i]) % 2 != 0))
      return false;
  return true;
}

arke_status map_ways(const ir_problem *p, const target *t, const config *c, const lower_options *o, arena *a,
                     kernel_way *ways, int *n, arke_error *err) {
  static const char *const names[] = {"map_whole", "map", "map_views", "map_strides", "map_any"};
  map_both *both = ARENA_NEW(a, map_both);
  *n = 0;
  if (!both) return error_memory(err, STAGE);
  TRY(matched(p, true, a, &both->dense, err));
  TRY(matched(p, false, a, &both->views, err));
  template_reason reason = map_plan_make(&both->dense, t, c, &both->plans[0]);
  if (reason != TEMPLATE_OK && reason != TEMPLATE_REDUNDANT)
    return error_set(err, ARKE_ERR_INTERNAL, STAGE, "not feasible: %s", template_reason_text(reason));
  both->plans[0].lanes.fast_math = o && o->fast_math;
  both->plans[0].lanes.check_indices = o && o->check_indices;
  both->plans[1] = both->plans[0];
  both->plans[1].whole = false;
  for (int i = 1; i < 4; i++)
    both->plans[i + 1] = map_plan_views(&both->views, &both->plans[1], (map_reach)i);
  for (int i = 0; i < 5; i++) {
    const map_plan *plan = &both->plans[i];
    bool same = (i == 0 && !plan->whole) || (i == 2 && plan->lanes.width == 1) ||
                (i == 3 && plan->lanes.wide_offsets);
    if (same || (both->dense.packed && !can_pack(i < 2 ? &both->dense : &both->views, plan)))
      continue; /* as the next way, or none */
    TRY(make_way(p, i < 2 ? &both->dense : &both->views, plan, names[i], a, &ways[*n], err));
    ++*n;
  }
  return ARKE_OK;
}

arke_status map_lower(const ir_problem *p, const target *t, const config *c, const lower_options *options,
                      arena *a, lowered *out, arke_error *err) {
  kernel_way ways[KERNEL_MAX_WAYS];
  int n;
  *out = (lowered){0};
  TRY(map_ways(p, t, c, options, a, ways, &n, err));
  return kernel_lower_ways(ways, n, t, options, a, out, err);
}
