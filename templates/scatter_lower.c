/* Kernels of an operator that scatters: what is written first, by the map template, then a kernel a part. */
#include "templates/kernel_join.h"
#include "templates/map.h"
#include "templates/plain_move.h"
#include "templates/scatter.h"
#include "templates/scatter_rows.h"

#define STAGE "generate"

static int index_arg(const scatter_plan *p, kernel_args *args, const recipe_expr *e) {
  return p->wide_offsets ? kernel_args_i64(args, e) : kernel_args_i32(args, e);
}

static const recipe_expr *product(const scatter_plan *p, const recipe_expr *e, const int *loops, int n,
                                  arena *a) {
  for (int i = 0; i < n; i++) e = recipe_binary(a, RECIPE_MUL, e, kernel_extent(p->form, loops[i], a));
  return e;
}

static arke_status make_way(const char *name, const scatter_plan *plan, const lower_options *o, arena *a,
                            kernel_way *way, arke_error *err) {
  scatter_kernel *k = ARENA_NEW(a, scatter_kernel);
  kernel_launch *l = ARENA_NEW(a, kernel_launch);
  recipe *rules = ARENA_NEW(a, recipe);
  if (!k || !l || !rules) return error_memory(err, STAGE);
  *k = (scatter_kernel){.plan = *plan, .a = a};
  const scatter_plan *p = &k->plan;
  k->options = (lanes_options){.loop = p->lane,
                               .width = p->width,
                               .dense = p->dense,
                               .wide_offsets = p->wide_offsets,
                               .stores_meet = p->part->collides && !p->deterministic,
                               .fast_math = o && o->fast_math,
                               .check_indices = o && o->check_indices};
  if (p->lane >= 0) k->options.wide = lanes_wide(p->form, &k->options);
  *l = (kernel_launch){.name = name,
                       .threads = p->threads,
                       .early_start = true,
                       .args = {.a = a},
                       .emit = scatter_emit,
                       .user = k};
  lanes_declare(p->form, &k->options, &l->args, &k->slots);
  const recipe_expr *positions = recipe_const(a, 1);
  if (p->lane >= 0) {
    const recipe_expr *extent = kernel_extent(p->form, p->lane, a);
    positions = p->width > 1 ? recipe_binary(a, RECIPE_DIV, extent, recipe_const(a, p->width)) : extent;
    k->chunks = index_arg(p, &l->args, positions);
    if (p->width > 1) kernel_require(rules, a, extent, p->width, 0, "elements are taken several at a time");
  }
  positions = product(p, positions, p->outer, p->n_outer, a);
  k->positions = index_arg(p, &l->args, positions);
  k->steps = index_arg(p, &l->args, product(p, recipe_const(a, 1), p->serial, p->n_serial, a));
  for (int i = 1; i < p->n_outer; i++)
    k->outer[i] = index_arg(p, &l->args, kernel_extent(p->form, p->outer[i], a));
  for (int i = 1; i < p->n_serial; i++)
    k->serial[i] = index_arg(p, &l->args, kernel_extent(p->form, p->serial[i], a));
  const recipe_expr *threads = recipe_binary(a, RECIPE_MUL, positions, recipe_const(a, p->owners));
  int each = p->deterministic ? p->threads : p->threads * p->unroll;
  l->grid[0] = recipe_binary(a, RECIPE_CEILDIV, threads, recipe_const(a, each));
  rules->n_tensors = p->form->problem->op->n_args;
  lanes_require(p->form, &k->options, rules, a);
  kernel_require(rules, a, l->grid[0], 0, INT32_MAX, "there are more elements than a grid can have threads");
  if (!l->grid[0]) return error_memory(err, STAGE);
  *way = (kernel_way){.launches = l, .n = 1, .rules = rules};
  return ARKE_OK;
}

static const struct {
  const char *name;
  bool dense, wide;
} variants[] = {{"scatter", true, true}, {"scatter_rows", false, true}, {"scatter_any", false, false}};

static arke_status part_ways(const scatter_part *part, const target *t, const config *c,
                             const lower_options *o, arena *a, kernel_way *ways, int *n, arke_error *err) {
  *n = 0;
  for (size_t i = 0; i < COUNT_OF(variants); i++) {
    scatter_plan plan;
    template_reason reason = scatter_make_plan(part, t, c, variants[i].dense,
                                               variants[i].wide ? c->values[SCATTER_VECTOR] : 1, &plan);
    if (reason != TEMPLATE_OK)
      return error_set(err, ARKE_ERR_UNSUPPORTED, STAGE, "%s", template_reason_text(reason));
    if (i == 1 && plan.width == 1) continue;
    TRY(make_way(variants[i].name, &plan, o, a, &ways[(*n)++], err));
  }
  return ARKE_OK;
}

typedef struct way_list {
  kernel_way ways[KERNEL_MAX_WAYS];
} way_list;

/* The same problem with bits for elements that only move. */
static arke_status as_moved(const ir_problem **p, arena *a, arke_error *err) {
  ir_form form;
  ir_problem *bits = ARENA_NEW(a, ir_problem);
  if (!bits) return error_memory(err, STAGE);
  TRY(ir_form_make(*p, a, &form, err));
  if (plain_move(&form, a, bits)) *p = bits;
  return ARKE_OK;
}

/* The way that takes rows, before those in which everything fits. */
static arke_status add_rows_way(const scatter_match *m, const target *t, const config *c,
                                const lower_options *o, arena *a, kernel_way *ways, int *n, arke_error *err) {
  scatter_rows_match *rows = ARENA_NEW(a, scatter_rows_match);
  scatter_rows_plan plan;
  if (!rows) return error_memory(err, STAGE);
  if (!scatter_rows_match_make(m, a, rows))
    return error_set(err, ARKE_ERR_UNSUPPORTED, STAGE, "%s", template_reason_text(TEMPLATE_SCHEDULE));
  template_reason reason = scatter_rows_plan_make(rows, t, c, &plan);
  if (reason != TEMPLATE_OK)
    return error_set(err, ARKE_ERR_UNSUPPORTED, STAGE, "%s", template_reason_text(reason));
  if (*n == KERNEL_MAX_WAYS) (*n)--;
  for (int i = *n; i > 0; i--) ways[i] = ways[i - 1];
  (*n)++;
  return scatter_rows_way(&plan, t, o, a, &ways[0], err);
}

arke_status scatter_ways(const ir_problem *p, const target *t, const config *c, const lower_options *o,
                         arena *a, kernel_way *ways, int *n, arke_error *err) {
  scatter_match *m = ARENA_NEW(a, scatter_match);
  way_list *own = ARENA_NEW_N(a, way_list, SCATTER_PARTS + 1);
  kernel_stage stages[SCATTER_PARTS + 1];
  int n_stages = 0;
  if (!m || !own) return error_memory(err, STAGE);
  arke_status status;
  TRY(as_moved(&p, a, err));
  template_reason reason = scatter_match_make(p, a, m, NULL, &status);
  if (status != ARKE_OK) return error_memory(err, STAGE);
  if (reason != TEMPLATE_OK)
    return error_set(err, ARKE_ERR_UNSUPPORTED, STAGE, "%s", template_reason_text(reason));
  if (m->has_initial) {
    config map;
    map_defaults(&m->initial, t, &map);
    stages[n_stages] = (kernel_stage){.prefix = "first_", .problem = p, .ways = own[n_stages].ways};
    TRY(map_ways(&m->initial, t, &map, o, a, own[n_stages].ways, &stages[n_stages].n, err));
    n_stages++;
  }
  for (int i = 0; i < m->n_parts; i++) {
    const char *prefix = i == 0 ? "" : arena_printf(a, "then%d_", i);
    if (!prefix) return error_memory(err, STAGE);
    stages[n_stages] = (kernel_stage){.prefix = prefix, .problem = p, .ways = own[n_stages].ways};
    TRY(part_ways(&m->parts[i], t, c, o, a, own[n_stages].ways, &stages[n_stages].n, err));
    n_stages++;
  }
  TRY(kernel_join(p, stages, n_stages, NULL, 0, NULL, a, ways, n, err));
  return c->values[SCATTER_ROWS] ? add_rows_way(m, t, c, o, a, ways, n, err) : ARKE_OK;
}

arke_status scatter_lower(const ir_problem *p, const target *t, const config *c, const lower_options *options,
                          arena *a, lowered *out, arke_error *err) {
  kernel_way ways[KERNEL_MAX_WAYS];
  int n;
  TRY(scatter_ways(p, t, c, options, a, ways, &n, err));
  return kernel_lower_ways(ways, n, t, options, a, out, err);
}
