/* Kernels, how they are launched, and what they take for granted. */
#include "templates/backward_warps.h"
#include "templates/group_tiles.h"

#define STAGE "generate"

enum { MOST_INDEX = (1 << 30) - 4096, MOST_LAUNCHES = BACKWARD_PASSES + 1 };

static const recipe_expr *times(arena *a, const recipe_expr *x, const recipe_expr *y) {
  return recipe_binary(a, RECIPE_MUL, x, y);
}

/* Elements of a side's batch. */
static const recipe_expr *batches(const backward_match *m, int side, arena *a) {
  const recipe_expr *n = recipe_const(a, 1);
  for (int i = 0; i < m->batch[side].n; i++)
    n = times(a, n, kernel_extent(&m->form, m->batch[side].loops[i], a));
  return n;
}

/* Queries of all heads. */
static const recipe_expr *all_queries(const backward_match *m, arena *a) {
  return times(a, batches(m, BACKWARD_QUERIES, a), kernel_extent(&m->form, m->query, a));
}

/* --- launches --- */

static void declare(warps_kernel *k, kernel_args *args) {
  const ir_form *form = &k->plan->match->form;
  for (int i = 0; i < form->n_loops; i++) k->extents[i] = kernel_args_i32(args, kernel_extent(form, i, k->a));
  k->statistics = kernel_args_workspace(args, recipe_const(k->a, 0));
}

static arke_status make_statistics(const warps_plan *plan, const char *name, arena *a, kernel_launch *l,
                                   arke_error *err) {
  warps_kernel *k = ARENA_NEW(a, warps_kernel);
  if (!k) return error_memory(err, STAGE);
  *k = (warps_kernel){.plan = plan, .a = a};
  *l = (kernel_launch){.name = name,
                       .threads = WARPS_STATISTICS_THREADS,
                       .early_start = true,
                       .args = {.a = a},
                       .emit = warps_emit_statistics,
                       .user = k};
  const recipe_expr *queries = all_queries(plan->match, a);
  declare(k, &l->args);
  k->queries = kernel_args_i32(&l->args, queries);
  lanes_declare(&plan->match->form, &plan->vectors.statistics, &l->args, &k->statistics_slots);
  l->grid[0] =
      recipe_binary(a, RECIPE_CEILDIV, queries, recipe_const(a, WARPS_STATISTICS_THREADS / WARPS_TEAM));
  return l->grid[0] ? ARKE_OK : error_memory(err, STAGE);
}

static const recipe_expr *tiles_of(const backward_match *m, const warps_pass *p, arena *a) {
  const contraction_groups *groups = &m->groups[p->side];
  if (groups->of) return group_tiles_most(&m->form, groups, p->block_rows, a);
  return recipe_binary(a, RECIPE_CEILDIV, kernel_extent(&m->form, backward_row_loop(m, p->side), a),
                       recipe_const(a, p->block_rows));
}

static arke_status make_pass(const warps_plan *plan, const warps_pass *p, const char *name, arena *a,
                             kernel_launch *l, arke_error *err) {
  const backward_match *m = plan->match;
  warps_kernel *k = ARENA_NEW(a, warps_kernel);
  if (!k) return error_memory(err, STAGE);
  *k = (warps_kernel){.plan = plan, .p = p, .a = a};
  *l = (kernel_launch){.name = name,
                       .threads = p->threads,
                       .smem_bytes = recipe_const(a, p->smem_bytes),
                       .early_start = true,
                       .args = {.a = a},
                       .emit = warps_emit,
                       .user = k};
  const recipe_expr *tiles = tiles_of(m, p, a), *heads = batches(m, p->side, a);
  declare(k, &l->args);
  k->tiles = kernel_args_i32(&l->args, tiles);
  k->heads = kernel_args_i32(&l->args, heads);
  if (p->side == BACKWARD_KEYS && m->head >= 0)
    k->ratio = kernel_args_i32(&l->args, recipe_binary(a, RECIPE_DIV, kernel_extent(&m->form, m->head, a),
                                                       kernel_extent(&m->form, m->share, a)));
  lanes_declare(&m->form, &plan->vectors.scores, &l->args, &k->score_slots);
  for (int i = 0; i < 2; i++) {
    int number = p->side == BACKWARD_QUERIES ? 0 : 1 + i;
    if (p->rows[i].present) lanes_declare(&m->form, &p->rows[i].options, &l->args, &k->row_slots[i]);
    lanes_declare(&m->form, &p->columns[i].options, &l->args, &k->column_slots[i]);
    if (p->sums[i]) lanes_declare(&m->form, &plan->vectors.epilogue[number], &l->args, &k->epilogue_slots[i]);
  }
  l->grid[0] = times(a, tiles, heads);
  return l->grid[0] && l->smem_bytes ? ARKE_OK : error_memory(err, STAGE);
}

/* --- rules --- */

static void require_sizes(const warps_plan *plan, recipe *r, arena *a) {
  const backward_match *m = plan->match;
  const int loops[] = {m->depth, m->wide, m->dot ? m->dot->index : m->wide};
  for (int i = 0; i < 3; i++)
    kernel_require_equal(r, a, kernel_extent(&m->form, loops[i], a), ir_form_extent(&m->form, loops[i]),
                         "the kernel is made for heads of another size");
  if (m->head >= 0) {
    const ir_op *op = m->form.problem->op;
    const recipe_expr *rest =
        recipe_binary(a, RECIPE_MOD, kernel_dim(op, m->heads[0], a), kernel_dim(op, m->heads[1], a));
    kernel_require(r, a, rest, 0, 0, "query heads must be a multiple of those of keys and values");
  }
  for (int side = 0; side < 2; side++)
    if (m->groups[side].of) group_tiles_require(&m->form, &m->groups[side], r, a);
  for (int i = 0; i < m->form.n_loops; i++)
    kernel_require(r, a, kernel_extent(&m->form, i, a), 0, MOST_INDEX, "indices of the kernel have 32 bits");
  kernel_require(r, a, all_queries(m, a), 0, MOST_INDEX, "there are more queries than the kernel can count");
}

static arke_status make_rules(const warps_plan *plan, const kernel_launch *l, int n, arena *a, recipe **rules,
                              arke_error *err) {
  const ir_form *form = &plan->match->form;
  recipe *r = *rules = ARENA_NEW(a, recipe);
  if (!r) return error_memory(err, STAGE);
  r->n_tensors = form->problem->op->n_args;
  for (int side = 0; side < 2; side++)
    for (int i = 0; i < 2; i++) lanes_require(form, &plan->vectors.tiles[side][i], r, a);
  lanes_require(form, &plan->vectors.scores, r, a);
  lanes_require(form, &plan->vectors.statistics, r, a);
  for (int i = 0; i < 3; i++) lanes_require(form, &plan->vectors.epilogue[i], r, a);
  require_sizes(plan, r, a);
  for (int i = 0; i < n; i++)
    kernel_require(r, a, l[i].grid[0], 0, INT32_MAX, "there are more tiles than a grid can have blocks");
  r->workspace_bytes = times(a, all_queries(plan->match, a), recipe_const(a, WARPS_STATISTICS_BYTES));
  return r->workspace_bytes ? ARKE_OK : error_memory(err, STAGE);
}

/* --- ways --- */

static const struct {
  bool copied;
  const char *statistics, *passes[BACKWARD_PASSES];
} variants[] = {
    {true,
     "backward_warps_statistics",
     {"backward_warps_queries", "backward_warps_keys", "backward_warps_values"}},
    {false,
     "backward_warps_any_statistics",
     {"backward_warps_any_queries", "backward_warps_any_keys", "backward_warps_any_values"}},
};

static arke_status make_way(const warps_plan *plan, int variant, arena *a, kernel_way *way, arke_error *err) {
  kernel_launch *l = ARENA_NEW_N(a, kernel_launch, MOST_LAUNCHES);
  recipe *rules;
  if (!l) return error_memory(err, STAGE);
  int n = 1 + plan->n_passes;
  TRY(make_statistics(plan, variants[variant].statistics, a, &l[0], err));
  for (int i = 0; i < plan->n_passes; i++)
    TRY(make_pass(plan, &plan->passes[i], variants[variant].passes[i], a, &l[1 + i], err));
  TRY(make_rules(plan, l, n, a, &rules, err));
  *way = (kernel_way){.launches = l, .n = n, .rules = rules};
  return ARKE_OK;
}

static void set_options(warps_plan *plan, const lower_options *options) {
  lanes_options *each[] = {&plan->vectors.scores, &plan->vectors.statistics, &plan->vectors.epilogue[0],
                           &plan->vectors.epilogue[1], &plan->vectors.epilogue[2]};
  for (size_t i = 0; options && i < COUNT_OF(each); i++) {
    each[i]->fast_math = options->fast_math;
    each[i]->check_indices = options->check_indices;
  }
}

/* What the way through registers takes behind one that copies: it has longer addresses. */
static config narrow_config(const config *c) {
  config narrow = *c;
  narrow.values[BACKWARD_WARPS_Q_BLOCK] = narrow.values[BACKWARD_WARPS_K_BLOCK] = 16;
  return narrow;
}

arke_status backward_warps_ways(const ir_problem *p, const target *t, const config *c,
                                const lower_options *options, arena *a, kernel_way *ways, int *n,
                                arke_error *err) {
  backward_match *m = ARENA_NEW(a, backward_match);
  warps_plan *plans = ARENA_NEW_N(a, warps_plan, COUNT_OF(variants));
  arke_status status;
  if (!m || !plans) return error_memory(err, STAGE);
  *n = 0;
  template_reason reason = backward_warps_fit(p, t, a, m, NULL, &status);
  if (status == ARKE_ERR_MEMORY) return error_memory(err, STAGE);
  for (int i = 0; i < (int)COUNT_OF(variants) && reason == TEMPLATE_OK; i++) {
    warps_vectors vectors;
    warps_vectors_find(m, variants[i].copied, &vectors);
    if (vectors.copied != variants[i].copied) continue;
    config narrow = narrow_config(c);
    reason = warps_plan_make(m, &vectors, t, *n > 0 ? &narrow : c, &plans[i]);
    set_options(&plans[i], options);
    if (reason == TEMPLATE_OK) TRY(make_way(&plans[i], i, a, &ways[(*n)++], err));
  }
  if (reason == TEMPLATE_OK) return ARKE_OK;
  return error_set(err, ARKE_ERR_UNSUPPORTED, STAGE, "configuration not feasible: %s",
                   template_reason_text(reason));
}

arke_status backward_warps_lower(const ir_problem *p, const target *t, const config *c,
                                 const lower_options *options, arena *a, lowered *out, arke_error *err) {
  kernel_way ways[KERNEL_MAX_WAYS];
  int n;
  TRY(backward_warps_ways(p, t, c, options, a, ways, &n, err));
  return kernel_lower_ways(ways, n, t, options, a, out, err);
}
