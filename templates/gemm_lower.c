/* The kernel's parameters, how it is launched, and what that takes for granted. */
#include "templates/gemm.h"
#include "templates/group_tiles.h"

#define STAGE "generate"

static const recipe_expr *extent(const gemm_plan *plan, int loop, arena *a) {
  return kernel_extent(&plan->match.c->form, loop, a);
}

static const recipe_expr *product(arena *a, const recipe_expr *x, const recipe_expr *y) {
  return recipe_binary(a, RECIPE_MUL, x, y);
}

static const recipe_expr *batches(const gemm_plan *plan, arena *a) {
  return contraction_extent_recipe(plan->match.c, &plan->match.outer, a);
}

/* ceildiv(extent, elements) */
static const recipe_expr *tiles(const gemm_plan *plan, int loop, int64_t elements, arena *a) {
  return recipe_binary(a, RECIPE_CEILDIV, extent(plan, loop, a), recipe_const(a, elements));
}

static const recipe_expr *units(const gemm_plan *plan, arena *a) {
  const gemm_match *match = &plan->match;
  const recipe_expr *rows = match->grouped
                                ? gemm_group_tiles(plan, a)
                                : tiles(plan, match->m, (int64_t)plan->block_m * plan->cluster_m, a);
  const recipe_expr *of_one =
      product(a, rows, tiles(plan, match->n, (int64_t)plan->block_n * plan->cluster_n, a));
  return match->outer.n > 0 ? product(a, of_one, batches(plan, a)) : of_one;
}

/* Clusters that the device holds at a time. */
static const recipe_expr *resident(const gemm_plan *plan, arena *a) {
  const recipe_expr *clusters = recipe_var(a, "SMS");
  if (plan->cluster == 1) return clusters;
  clusters = recipe_binary(a, RECIPE_DIV, clusters, recipe_const(a, plan->cluster));
  return recipe_binary(a, RECIPE_MAX, clusters, recipe_const(a, 1));
}

/* CTAs: one cluster a unit, or as many as the device holds. */
static const recipe_expr *grid(const gemm_plan *plan, arena *a) {
  const recipe_expr *clusters = units(plan, a);
  if (plan->stream || plan->even) {
    clusters = resident(plan, a);
  } else if (plan->persistent) {
    clusters = recipe_binary(a, RECIPE_MIN, resident(plan, a), clusters);
  }
  return plan->cluster == 1 ? clusters : product(a, clusters, recipe_const(a, plan->cluster));
}

/* STREAM_K: slots of all CTAs, then flags of their consumer groups, in whole CTAs of the kernel that clears
 * them. */
static const recipe_expr *slots_bytes(const gemm_plan *plan, arena *a) {
  return product(a, grid(plan, a), recipe_const(a, plan->slot_bytes));
}

static const recipe_expr *clearing_ctas(const gemm_plan *plan, arena *a) {
  return recipe_binary(a, RECIPE_CEILDIV, product(a, grid(plan, a), recipe_const(a, plan->consumers)),
                       recipe_const(a, GEMM_CLEAR_THREADS));
}

static const recipe_expr *workspace_bytes(const gemm_plan *plan, arena *a) {
  return recipe_binary(a, RECIPE_ADD, slots_bytes(plan, a),
                       product(a, clearing_ctas(plan, a), recipe_const(a, GEMM_CLEAR_THREADS * 4)));
}

/* --- parameters --- */

static int add_operand(const gemm_plan *plan, const gemm_view *view, const gemm_operand *o, int copy_height,
                       kernel_args *args) {
  const gemm_match *match = &plan->match;
  recipe_tensormap map = gemm_map(match, view, o->panel_width, copy_height / o->shares, o->swizzle, args->a);
  return kernel_args_tensormap(args, match->c->form.accesses[view->access].tensor, &map);
}

static bool is_computed(const gemm_match *match) {
  bool computed = match->a.computed;
  for (int i = 0; i < match->n_sums; i++) computed = computed || match->b[i].computed;
  return computed;
}

static void declare(gemm_kernel *k, kernel_args *args) {
  const gemm_plan *plan = k->plan;
  const gemm_match *match = &plan->match;
  const ir_form *form = &match->c->form;
  arena *a = k->a;
  if (!match->gathered) k->map_a = add_operand(plan, &match->a, &plan->a, plan->a.copy_height, args);
  for (int i = 0; i < match->n_sums; i++) {
    k->map_b[i] = add_operand(plan, &match->b[i], &plan->b, plan->b.copy_height, args);
    if (plan->packs_columns)
      k->map_b_steps[i] = add_operand(plan, &match->b[i], &plan->b, GEMM_EVEN_STEP, args);
  }
  if (match->y.rank > 0) {
    recipe_tensormap map =
        gemm_map(match, &match->y, plan->store_width, plan->store_height, plan->store_swizzle, a);
    k->map_y = kernel_args_tensormap(args, form->accesses[match->y.access].tensor, &map);
  }
  for (int i = 0; i < match->n_reads; i++) {
    const gemm_view *view = &match->reads[i];
    int m = plan->block_m, n = plan->block_n;
    bool turned = match->reads_transposed[i];
    recipe_tensormap map = gemm_map(match, view, turned ? m : n, turned ? n : m, GEN_SWIZZLE_NONE, a);
    if (plan->read_panel_bytes > 0 && match->reads_staged[i]) {
      gemm_box box = gemm_read_box(plan, i);
      map = gemm_map(match, view, box.width, box.height, box.swizzle, a);
    }
    k->map_reads[i] = kernel_args_tensormap(args, form->accesses[view->access].tensor, &map);
  }
  k->m = kernel_args_i32(args, extent(plan, match->m, a));
  k->n = kernel_args_i32(args, extent(plan, match->n, a));
  k->k = kernel_args_i32(args, extent(plan, match->k, a));
  if (match->k_outer.n > 0)
    k->k_outer = kernel_args_i32(args, contraction_extent_recipe(match->c, &match->k_outer, a));
  for (int i = 1; i < match->k_outer.n; i++)
    k->extents[match->k_outer.loops[i]] = kernel_args_i32(args, extent(plan, match->k_outer.loops[i], a));
  if (match->outer.n > 0) k->batches = kernel_args_i32(args, batches(plan, a));
  for (int i = 1; i < match->outer.n; i++)
    k->extents[match->outer.loops[i]] = kernel_args_i32(args, extent(plan, match->outer.loops[i], a));
  if (plan->stream) {
    k->slots = kernel_args_workspace(args, recipe_const(a, 0));
    k->flags = kernel_args_workspace(args, slots_bytes(plan, a));
  }
  if (match->c->rows.n > 0 && !match->c->rows.whole) {
    k->row_parts = kernel_args_workspace(args, recipe_const(a, 0));
    k->row_tiles = kernel_args_i32(args, product_rows_tiles(&plan->row_parts, a));
  }
  if (match->grouped) {
    k->group_count = kernel_args_i32(args, extent(plan, match->c->groups.loop, a));
    k->group_tiles = kernel_args_workspace(args, recipe_const(a, 0));
  }
  if (!match->bare) lanes_declare(form, &plan->epilogue, args, &k->epilogue_slots);
  if (is_computed(match)) lanes_declare(form, &plan->indices, args, &k->index_slots);
  if (match->block > 0) lanes_declare(form, &plan->scales, args, &k->scale_slots);
}

/* --- rules --- */

static void require_sizes(const gemm_plan *plan, recipe *rules, arena *a) {
  const gemm_match *match = &plan->match;
  const ir_form *form = &match->c->form;
  int loops[] = {match->m, match->n, match->k};
  for (size_t i = 0; i < COUNT_OF(loops); i++)
    kernel_require(
        rules, a, extent(plan, loops[i], a), 0,
        plan->stream && loops[i] == match->k ? GEMM_STREAM_MAX_K : INT32_MAX - 4096,
        arena_printf(a, "%s must fit the kernel's 32-bit coordinates", form->loops[loops[i]].name));
  if (match->k_outer.n > 0)
    kernel_require(rules, a, contraction_extent_recipe(match->c, &match->c->k, a), 0,
                   plan->stream ? GEMM_STREAM_MAX_K : INT32_MAX - 4096,
                   "terms must fit the kernel's 32-bit numbers");
  if (match->outer.n > 0)
    kernel_require(rules, a, batches(plan, a), 0, INT32_MAX - 4096,
                   "matrices must fit the kernel's 32-bit numbers");
  kernel_require(rules, a, units(plan, a), 0, INT32_MAX / plan->cluster,
                 "the output has more tiles than a grid can have blocks");
}

static arke_status make_rules(const gemm_plan *plan, arena *a, recipe **rules, arke_error *err) {
  const gemm_match *match = &plan->match;
  const ir_form *form = &match->c->form;
  recipe *r = *rules = ARENA_NEW(a, recipe);
  if (!r) return error_memory(err, STAGE);
  r->n_tensors = form->problem->op->n_args;
  gemm_require_view(match, &match->a, r, a);
  for (int i = 0; i < match->n_sums; i++) gemm_require_view(match, &match->b[i], r, a);
  if (match->y.rank > 0) gemm_require_view(match, &match->y, r, a);
  for (int i = 0; i < match->n_reads; i++) gemm_require_view(match, &match->reads[i], r, a);
  require_sizes(plan, r, a);
  if (!match->bare) {
    lanes_require(form, &plan->epilogue, r, a);
    if (plan->epilogue.width > 1)
      kernel_require(r, a, extent(plan, match->n, a), plan->epilogue.width, 0,
                     "elements are taken several at a time");
  }
  if (is_computed(match)) lanes_require(form, &plan->indices, r, a);
  if (match->block > 0) lanes_require(form, &plan->scales, r, a);
  if (match->grouped) {
    group_tiles_require(&match->c->form, &match->c->groups, r, a);
    if (match->y.rank > 0)
      kernel_require(r, a, extent(plan, match->n, a), 8, 0, "ends of groups are stored 16 bytes at a time");
  }
  if (match->c->rows.whole) {
    lanes_require(form, &plan->row_parts.options, r, a);
    product_row_require_whole(match->c, plan->block_n, r, a);
  } else if (match->c->rows.n > 0) {
    lanes_require(form, &plan->row_parts.options, r, a);
    r->workspace_bytes = product_rows_bytes(&plan->row_parts, a);
    return r->workspace_bytes ? ARKE_OK : error_memory(err, STAGE);
  }
  if (!plan->stream && !match->grouped) return ARKE_OK;
  r->workspace_bytes = match->grouped ? gemm_group_bytes(plan, a) : workspace_bytes(plan, a);
  return r->workspace_bytes ? ARKE_OK : error_memory(err, STAGE);
}

/* --- launches --- */

/* Names of kernels, which are unique in an image, by way: of tensors whose axes are walked as one where they
 * lie so, then of all others. */
static const struct {
  const char *product, *clearing, *groups, *combine;
} names[] = {{"gemm", "gemm_clear_flags", "gemm_list_groups", "gemm_combine_rows"},
             {"gemm_rows", "gemm_rows_clear_flags", "gemm_rows_list_groups", "gemm_rows_combine_rows"}};

static arke_status make_clearing(const gemm_plan *plan, const char *name, arena *a, kernel_launch *l,
                                 arke_error *err) {
  *l = (kernel_launch){.name = name,
                       .threads = GEMM_CLEAR_THREADS,
                       .early_start = true,
                       .args = {.a = a},
                       .emit = gemm_emit_clear};
  l->grid[0] = clearing_ctas(plan, a);
  kernel_args_workspace(&l->args, slots_bytes(plan, a));
  return l->grid[0] ? ARKE_OK : error_memory(err, STAGE);
}

static arke_status make_product(const gemm_plan *plan, const char *name, arena *a, kernel_launch *l,
                                arke_error *err) {
  gemm_kernel *k = ARENA_NEW(a, gemm_kernel);
  if (!k) return error_memory(err, STAGE);
  *k = (gemm_kernel){.plan = plan, .a = a};
  *l = (kernel_launch){.name = name,
                       .threads = plan->threads,
                       .cluster = {plan->cluster, 1, 1},
                       .smem_bytes = recipe_const(a, plan->smem_bytes),
                       .early_start = true,
                       .args = {.a = a},
                       .emit = gemm_emit,
                       .user = k};
  l->grid[0] = grid(plan, a);
  declare(k, &l->args);
  return l->grid[0] ? ARKE_OK : error_memory(err, STAGE);
}

static void set_options(lanes_options *o, const lower_options *options) {
  o->fast_math = options && options->fast_math;
  o->check_indices = options && options->check_indices;
}

/* The plan by the merged form, or by that in which every axis is a loop of its own. */
static arke_status make_plan(const ir_problem *p, const target *t, const config *c, bool merged, arena *a,
                             gemm_plan **plan, template_reason *reason, arke_error *err) {
  contraction *matched = ARENA_NEW(a, contraction);
  gemm_match match;
  arke_status status;
  *plan = ARENA_NEW(a, gemm_plan);
  if (!matched || !*plan) return error_memory(err, STAGE);
  *reason = contraction_match_more(p, merged, GEMM_CONTRACTIONS, a, matched, NULL, &status);
  if (status == ARKE_ERR_MEMORY) return error_memory(err, STAGE);
  if (*reason == TEMPLATE_OK) *reason = gemm_fit_contraction(t, matched, &match, NULL);
  if (*reason == TEMPLATE_OK) *reason = gemm_plan_make(&match, t, c, *plan);
  return ARKE_OK;
}

static arke_status make_way(gemm_plan *plan, int way, const lower_options *options, arena *a, kernel_way *out,
                            arke_error *err) {
  kernel_launch *l = ARENA_NEW_N(a, kernel_launch, 3);
  recipe *rules;
  if (!l) return error_memory(err, STAGE);
  gemm_choose_evaluation(plan);
  set_options(&plan->epilogue, options);
  set_options(&plan->indices, options);
  set_options(&plan->scales, options);
  int n = 0;
  if (plan->stream) TRY(make_clearing(plan, names[way].clearing, a, &l[n++], err));
  if (plan->match.grouped) TRY(gemm_list_groups(plan, names[way].groups, a, &l[n++], err));
  TRY(make_product(plan, names[way].product, a, &l[n++], err));
  if (plan->match.c->rows.n > 0 && !plan->match.c->rows.whole)
    TRY(product_rows_make_combine(&plan->row_parts, names[way].combine, a, &l[n++], err));
  TRY(make_rules(plan, a, &rules, err));
  *out = (kernel_way){.launches = l, .n = n, .rules = rules};
  return ARKE_OK;
}

arke_status gemm_ways(const ir_problem *p, const target *t, const config *c, const lower_options *options,
                      arena *a, kernel_way *ways, int *n, arke_error *err) {
  gemm_plan *plan, *other;
  template_reason reason;
  TRY(make_plan(p, t, c, true, a, &plan, &reason, err));
  if (reason != TEMPLATE_OK)
    return error_set(err, ARKE_ERR_UNSUPPORTED, STAGE, "configuration not feasible: %s",
                     template_reason_text(reason));
  TRY(make_way(plan, 0, options, a, &ways[0], err));
  *n = 1;
  if (!plan->match.merged) return ARKE_OK;
  TRY(make_plan(p, t, c, false, a, &other, &reason, err));
  if (reason != TEMPLATE_OK || other->match.merged) return ARKE_OK;
  return make_way(other, 1, options, a, &ways[(*n)++], err);
}

arke_status gemm_lower(const ir_problem *p, const target *t, const config *c, const lower_options *options,
                       arena *a, lowered *out, arke_error *err) {
  kernel_way ways[KERNEL_MAX_WAYS];
  int n;
  TRY(gemm_ways(p, t, c, options, a, ways, &n, err));
  return kernel_lower_ways(ways, n, t, options, a, out, err);
}
