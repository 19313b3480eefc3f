/* Kernels of a skinny product and how they are launched. */
#include "templates/skinny.h"

enum { MOST_IN_GRID = 65535 }; /* blocks in its second and third direction */

static int index_arg(const skinny_plan *p, kernel_args *args, const recipe_expr *e) {
  return p->wide_offsets ? kernel_args_i64(args, e) : kernel_args_i32(args, e);
}

static const recipe_expr *ceil_div(arena *a, const recipe_expr *x, int64_t y) {
  return recipe_binary(a, RECIPE_CEILDIV, x, recipe_const(a, y));
}

static void common_options(skinny_kernel *k, const lower_options *o, lanes_options *l) {
  l->fast_math = o && o->fast_math;
  l->check_indices = o && o->check_indices;
  l->user = k;
}

static arke_status make_kernel(const skinny_plan *plan, const lower_options *o, arena *a, skinny_kernel **out,
                               arke_error *err) {
  skinny_kernel *k = *out = ARENA_NEW(a, skinny_kernel);
  if (!k) return error_memory(err, "generate");
  *k = (skinny_kernel){.plan = *plan, .a = a};
  const skinny_plan *p = &k->plan;
  k->tokens = skinny_lanes(p->m, p, true);
  k->weights = skinny_lanes(p->m, p, false);
  k->each = (lanes_options){
      .loop = -1, .width = 1, .dense = p->dense, .wide_offsets = p->wide_offsets, .reduce = skinny_value};
  common_options(k, o, &k->tokens);
  common_options(k, o, &k->weights);
  common_options(k, o, &k->each);
  return ARKE_OK;
}

static const recipe_expr *outputs_of(const skinny_match *m, arena *a) {
  const recipe_expr *tokens = contraction_extent_recipe(&m->c, m->tokens, a);
  const recipe_expr *weights = contraction_extent_recipe(&m->c, m->weights, a);
  const recipe_expr *batch = contraction_extent_recipe(&m->c, &m->c.batch, a);
  return recipe_binary(a, RECIPE_MUL, recipe_binary(a, RECIPE_MUL, tokens, weights), batch);
}

/* What both kernels know of partial results in memory. */
static void declare_partials(skinny_kernel *k, kernel_args *args) {
  if (k->plan.split == 1) return;
  k->n_outputs = kernel_args_i64(args, outputs_of(k->plan.m, k->a));
  k->partials = kernel_args_workspace(args, recipe_const(k->a, 0));
}

static arke_status make_finish(const char *name, const skinny_plan *plan, const lower_options *o, arena *a,
                               kernel_launch *l, arke_error *err) {
  skinny_kernel *k;
  TRY(make_kernel(plan, o, a, &k, err));
  const skinny_match *m = plan->m;
  k->from_parts = true;
  *l = (kernel_launch){.name = name,
                       .threads = SKINNY_FINISH_THREADS,
                       .early_start = true,
                       .args = {.a = a},
                       .emit = skinny_emit,
                       .user = k};
  lanes_declare(&m->c.form, &k->each, &l->args, &k->each_slots);
  k->n_tokens = index_arg(plan, &l->args, contraction_extent_recipe(&m->c, m->tokens, a));
  k->n_weights = index_arg(plan, &l->args, contraction_extent_recipe(&m->c, m->weights, a));
  declare_partials(k, &l->args);
  l->grid[0] = ceil_div(a, contraction_extent_recipe(&m->c, m->weights, a), SKINNY_FINISH_THREADS);
  l->grid[1] = contraction_extent_recipe(&m->c, m->tokens, a);
  l->grid[2] = contraction_extent_recipe(&m->c, &m->c.batch, a);
  return l->grid[0] && l->grid[1] && l->grid[2] ? ARKE_OK : error_memory(err, "generate");
}

static arke_status make_launch(const char *name, const skinny_plan *plan, const lower_options *o, arena *a,
                               kernel_launch *l, arke_error *err) {
  skinny_kernel *k;
  TRY(make_kernel(plan, o, a, &k, err));
  const skinny_plan *p = &k->plan;
  const skinny_match *m = p->m;
  *l = (kernel_launch){.name = name,
                       .threads = p->threads,
                       .cluster = {p->cluster, 1, 1},
                       .early_start = true,
                       .args = {.a = a},
                       .emit = skinny_emit,
                       .user = k};
  lanes_declare(&m->c.form, &k->tokens, &l->args, &k->token_slots);
  lanes_declare(&m->c.form, &k->weights, &l->args, &k->weight_slots);
  lanes_declare(&m->c.form, &k->each, &l->args, &k->each_slots);
  const recipe_expr *tokens = contraction_extent_recipe(&m->c, m->tokens, a);
  const recipe_expr *weights = contraction_extent_recipe(&m->c, m->weights, a);
  const recipe_expr *elements = contraction_extent_recipe(&m->c, &m->c.k, a);
  k->n_tokens = index_arg(p, &l->args, tokens);
  k->n_weights = index_arg(p, &l->args, weights);
  k->k = index_arg(p, &l->args, elements);
  if (p->parts > 1) {
    const recipe_expr *units = ceil_div(a, ceil_div(a, elements, skinny_unit(p)), p->parts);
    k->k_part = index_arg(p, &l->args, recipe_binary(a, RECIPE_MUL, units, recipe_const(a, skinny_unit(p))));
  }
  declare_partials(k, &l->args);
  l->grid[0] = recipe_binary(a, RECIPE_MUL, ceil_div(a, weights, p->rows), recipe_const(a, p->parts));
  l->grid[1] = ceil_div(a, tokens, p->tokens);
  l->grid[2] = contraction_extent_recipe(&m->c, &m->c.batch, a);
  return l->grid[0] && l->grid[1] && l->grid[2] ? ARKE_OK : error_memory(err, "generate");
}

static arke_status make_rules(const skinny_plan *p, const kernel_launch *l, arena *a, recipe **rules,
                              arke_error *err) {
  const skinny_kernel *k = l->user;
  const ir_form *form = &p->m->c.form;
  recipe *r = *rules = ARENA_NEW(a, recipe);
  if (!r) return error_memory(err, "generate");
  r->n_tensors = form->problem->op->n_args;
  lanes_require(form, &k->tokens, r, a);
  lanes_require(form, &k->weights, r, a);
  lanes_require(form, &k->each, r, a);
  const char *several = "elements are taken several at a time";
  if (p->step > 1) kernel_require(r, a, kernel_extent(form, p->m->k_loop, a), p->step, 0, several);
  if (p->group > 1) kernel_require(r, a, kernel_extent(form, p->m->row_loop, a), p->group, 0, several);
  kernel_require(r, a, l->grid[0], 0, INT32_MAX, "there are more rows than a grid can have blocks");
  kernel_require(r, a, l->grid[1], 0, MOST_IN_GRID, "there are more rows than a grid can have blocks");
  kernel_require(r, a, l->grid[2], 0, MOST_IN_GRID, "there are more products than a grid can have blocks");
  if (p->split == 1) return ARKE_OK;
  kernel_require(r, a, contraction_extent_recipe(&p->m->c, p->m->tokens, a), 0, MOST_IN_GRID,
                 "there are more rows than a grid can have blocks");
  const recipe_expr *each = recipe_const(a, (int64_t)p->split * p->m->c.n_sums * skinny_sum_bytes(p->m));
  r->workspace_bytes = recipe_binary(a, RECIPE_MUL, outputs_of(p->m, a), each);
  return r->workspace_bytes ? ARKE_OK : error_memory(err, "generate");
}

static arke_status make_way(const char *name, const char *finish, const skinny_plan *p,
                            const lower_options *o, arena *a, kernel_way *way, arke_error *err) {
  kernel_launch *l = ARENA_NEW_N(a, kernel_launch, 2);
  recipe *rules;
  if (!l) return error_memory(err, "generate");
  TRY(make_launch(name, p, o, a, l, err));
  if (p->split > 1) TRY(make_finish(finish, p, o, a, l + 1, err));
  TRY(make_rules(p, l, a, &rules, err));
  *way = (kernel_way){.launches = l, .n = p->split > 1 ? 2 : 1, .rules = rules};
  return ARKE_OK;
}

/* For any strides: element by element, by multiply-add. */
static config narrow(const skinny_match *m, const config *c) {
  config n = *c;
  int *v = n.values;
  v[SKINNY_MATH] = 0;
  v[SKINNY_VECTOR] = 1;
  v[SKINNY_UNROLL] = 4;
  v[SKINNY_SLOTS] = 2;
  v[SKINNY_ACROSS] = m->along_rows ? 32 : 1;
  v[SKINNY_WARPS_N] = 1;
  v[SKINNY_STAGES] = 1;
  if (v[SKINNY_TOKENS] > 4) v[SKINNY_TOKENS] = 4;
  if (m->along_rows) v[SKINNY_UNROLL] = 1;
  return n;
}

static const struct {
  const char *name, *finish;
  bool dense, wide;
} variants[] = {{"skinny", "skinny_finish", true, true},
                {"skinny_rows", "skinny_rows_finish", false, true},
                {"skinny_any", "skinny_any_finish", false, false}};

arke_status skinny_ways(const ir_problem *p, const target *t, const config *c, const lower_options *o,
                        arena *a, kernel_way *ways, int *n, arke_error *err) {
  skinny_match *m = ARENA_NEW_N(a, skinny_match, 2);
  if (!m) return error_memory(err, "generate");
  *n = 0;
  for (size_t i = 0; i < COUNT_OF(variants); i++) {
    skinny_match *match = &m[variants[i].dense];
    skinny_plan plan;
    if (i != 2) {
      arke_status status;
      template_reason reason = skinny_match_make(p, variants[i].dense, a, match, NULL, &status);
      if (status == ARKE_ERR_MEMORY) return error_memory(err, "generate");
      if (reason != TEMPLATE_OK && i == 0)
        return error_set(err, ARKE_ERR_UNSUPPORTED, "generate", "%s", template_reason_text(reason));
      if (reason != TEMPLATE_OK) break;
    }
    config point = variants[i].wide ? *c : narrow(match, c);
    template_reason reason = skinny_plan_make(match, t, &point, variants[i].dense, &plan);
    if (reason != TEMPLATE_OK && i == 1) continue;
    if (reason != TEMPLATE_OK)
      return error_set(err, ARKE_ERR_UNSUPPORTED, "generate", "%s", template_reason_text(reason));
    TRY(make_way(variants[i].name, variants[i].finish, &plan, o, a, &ways[(*n)++], err));
  }
  return ARKE_OK;
}

arke_status skinny_lower(const ir_problem *p, const target *t, const config *c, const lower_options *options,
                         arena *a, lowered *out, arke_error *err) {
  kernel_way ways[KERNEL_MAX_WAYS];
  int n;
  TRY(skinny_ways(p, t, c, options, a, ways, &n, err));
  return kernel_lower_ways(ways, n, t, options, a, out, err);
}
