/* Launches, parameters and requirements of a row configuration: the planned kernels first, then one for every
 * call that they exclude. */
#include "templates/row_emit.h"

#include <string.h>

#define STAGE "generate"

static const recipe_expr *extents(const row_match *m, arena *a) {
  const recipe_expr *rows = recipe_const(a, 1);
  for (int i = 0; i < m->n_rows; i++)
    rows = i == 0 ? kernel_extent(&m->form, m->rows[i], a)
                  : recipe_binary(a, RECIPE_MUL, rows, kernel_extent(&m->form, m->rows[i], a));
  return rows;
}

/* ceil(rows / rows of a CTA), times the CTAs of a row; or no more CTAs than run at the same time. */
static const recipe_expr *grid_of(const row_match *m, const row_plan *plan, int parts, arena *a) {
  const recipe_expr *ctas = extents(m, a);
  int each = plan->groups * plan->rows_at_once;
  if (each > 1) ctas = recipe_binary(a, RECIPE_CEILDIV, ctas, recipe_const(a, each));
  if (parts > 1) ctas = recipe_binary(a, RECIPE_MUL, ctas, recipe_const(a, parts));
  if (!plan->ctas_per_sm) return ctas;
  const recipe_expr *most =
      recipe_binary(a, RECIPE_MUL, recipe_var(a, "SMS"), recipe_const(a, plan->ctas_per_sm));
  return recipe_binary(a, RECIPE_MIN, ctas, most);
}

/* What moves along the columns and is not the same for all rows; where rows are read again, only what one
 * pass reads. */
static uint64_t touched_once(const row_match *m, const row_plan *plan) {
  uint64_t set = 0;
  for (int i = 0; i < m->form.n_accesses; i++) {
    for (int k = 0; k < m->n_rows; k++)
      if (ir_form_motion(&m->form, i, m->rows[k]) != IR_MOTION_NONE) set |= m->moving & UINT64_C(1) << i;
  }
  bool again = plan->held == ROW_AGAIN || plan->split > 1;
  return again ? set & ~m->kept : set;
}

/* --- what the kernels take for granted --- */

static void require_columns(const row_match *m, const row_plan *plan, recipe *rules, arena *a) {
  const recipe_expr *columns = kernel_extent(&m->form, m->column, a);
  const recipe_expr *missing = recipe_binary(a, RECIPE_SUB, recipe_const(a, 0), columns);
  int64_t least = plan->peel ? 2 * plan->vector : plan->vector, most = 0;
  if (!plan->peel && plan->vector > 1)
    kernel_require(rules, a, columns, plan->vector, 0, "rows are taken several elements at a time");
  int64_t each = (int64_t)row_team(plan) * plan->vector;
  if (plan->held == ROW_AHEAD) {
    most = least = row_columns(m); /* as many bytes are copied */
  } else if (plan->held == ROW_REGISTERS) {
    most = each * plan->vectors;
    if (plan->exact) {
      least = most;
    } else if (!plan->peel && plan->vectors > 1) {
      least = each * (plan->vectors - 1) + 1;
    }
  } else if (plan->held == ROW_SHARED) {
    most = each * plan->shared_vectors;
  }
  if (most && plan->peel) most += plan->vector - 1; /* fewer than a vector lie behind the last one */
  kernel_require(rules, a, missing, 0, -least, "the kernel is made for longer rows");
  if (most) kernel_require(rules, a, columns, 0, most, "the kernel is made for shorter rows");
}

static void require_rows(const row_match *m, const row_plan *plan, recipe *rules, arena *a) {
  if (!plan->ctas_per_sm)
    kernel_require(rules, a, grid_of(m, plan, plan->cluster * plan->split, a), 0, INT32_MAX,
                   "a grid has at most 2^31 - 1 CTAs");
  if (!plan->wide_offsets)
    kernel_require(rules, a, extents(m, a), 0, INT32_MAX - 65536, "rows are counted in 32 bits");
}

static void make_rules(const row_match *m, const row_plan *plan, const lanes_options *o, recipe *rules,
                       arena *a) {
  const ir_problem *p = m->form.problem;
  *rules = (recipe){.n_tensors = p->op->n_args};
  lanes_options checked = *o;
  if (plan->peel) checked.wide = 0;
  lanes_require(&m->form, &checked, rules, a);
  if (plan->peel) {
    for (int i = 0; i < m->form.n_accesses; i++) {
      int tensor = m->form.accesses[i].tensor,
          bytes = dtype_bits(ir_tensor_dtype(p, tensor)) / 8 * plan->vector;
      if (!(o->wide >> i & 1)) continue;
      if (bytes > 16) bytes = 16;
      if (rules->tensors[tensor].alignment < bytes) rules->tensors[tensor].alignment = bytes;
    }
  }
  require_rows(m, plan, rules, a);
  if (!plan->any_view) require_columns(m, plan, rules, a);
}

/* --- kernels --- */

static arke_status make_kernel(const row_match *m, const row_plan *plan, const lanes_options *o, int first,
                               int last, const char *name, arena *a, kernel_launch *l, arke_error *err) {
  row_kernel *k = ARENA_NEW(a, row_kernel);
  if (!k) return error_memory(err, STAGE);
  *k = (row_kernel){.m = m, .plan = plan, .a = a, .first_pass = first, .last_pass = last, .options = *o};
  /* When all that is left is one value a row, one CTA of each does it. */
  bool elements = first < m->n_phases;
  for (int i = 0; i < m->form.n_outputs; i++)
    elements = elements || (m->outputs[i].by_element && m->outputs[i].phase >= first);
  k->lone_part = plan->split > 1 && !elements;
  int parts = plan->cluster * (k->lone_part ? 1 : plan->split);
  *l = (kernel_launch){.name = name,
                       .threads = plan->threads * plan->groups,
                       .min_ctas_per_sm = plan->ctas_per_sm ? plan->ctas_per_sm : plan->crowd,
                       .cluster = {plan->cluster, 1, 1},
                       .grid = {grid_of(m, plan, parts, a)},
                       .early_start = true,
                       .args = {.a = a},
                       .emit = row_emit,
                       .user = k};
  if (!l->grid[0]) return error_memory(err, STAGE);
  if (plan->held == ROW_SHARED)
    l->smem_bytes = recipe_const(a, plan->shared_vectors * plan->shared_bytes * plan->threads * plan->groups);
  if (plan->held == ROW_AHEAD) l->smem_bytes = recipe_const(a, (int64_t)plan->stages * plan->stage_bytes);
  lanes_declare(&m->form, o, &l->args, &k->slots);
  k->rows = plan->wide_offsets ? kernel_args_i64(&l->args, extents(m, a))
                               : kernel_args_i32(&l->args, extents(m, a));
  if (plan->split > 1) k->workspace = kernel_args_workspace(&l->args, recipe_const(a, 0));
  return ARKE_OK;
}

/* A kernel for all passes or, where a row's CTAs meet through memory, one a pass. */
static arke_status make_way(const row_match *m, const row_plan *plan, const lanes_options *o,
                            const char *name, arena *a, kernel_way *way, arke_error *err) {
  int n = plan->split > 1 ? m->n_phases + 1 : 1;
  kernel_launch *launches = ARENA_NEW_N(a, kernel_launch, (size_t)n);
  recipe *rules = ARENA_NEW(a, recipe);
  if (!launches || !rules) return error_memory(err, STAGE);
  for (int i = 0; i < n; i++) {
    const char *each = n == 1 ? name : arena_printf(a, "%s_%d", name, i);
    if (!each) return error_memory(err, STAGE);
    TRY(make_kernel(m, plan, o, n == 1 ? 0 : i, n == 1 ? m->n_phases : i, each, a, &launches[i], err));
  }
  make_rules(m, plan, o, rules, a);
  if (plan->split > 1) {
    int64_t bytes = (int64_t)row_workspace_entries(m) * plan->split * 8;
    rules->workspace_bytes = recipe_binary(a, RECIPE_MUL, extents(m, a), recipe_const(a, bytes));
    if (!rules->workspace_bytes) return error_memory(err, STAGE);
  }
  *way = (kernel_way){.launches = launches, .n = n, .rules = rules};
  return ARKE_OK;
}

static arke_status infeasible(template_reason reason, arke_error *err) {
  return error_set(err, ARKE_ERR_UNSUPPORTED, STAGE, "configuration not feasible: %s",
                   template_reason_text(reason));
}

arke_status row_ways(const ir_problem *p, const target *t, const config *c, const lower_options *options,
                     arena *a, kernel_way *ways, int *n, arke_error *err) {
  row_match *fast = ARENA_NEW(a, row_match), *any = ARENA_NEW(a, row_match);
  row_plan *plan = ARENA_NEW(a, row_plan), *any_plan = ARENA_NEW(a, row_plan);
  template_reason reason;
  if (!fast || !any || !plan || !any_plan) return error_memory(err, STAGE);
  TRY(row_match_make(p, true, row_is_online(c), a, fast, &reason, NULL, err));
  if (reason == TEMPLATE_OK) reason = row_plan_make(fast, t, c, plan);
  if (reason != TEMPLATE_OK) return infeasible(reason, err);
  TRY(row_match_make(p, false, true, a, any, &reason, NULL, err));
  if (reason != TEMPLATE_OK) return infeasible(reason, err);
  *any_plan = row_plan_any_view(any, plan);

  lanes_options o = {.loop = fast->column,
                     .width = plan->vector,
                     .dense = row_is_dense(fast, plan),
                     .wide_offsets = plan->wide_offsets,
                     .streamed = touched_once(fast, plan),
                     .loads = plan->loads,
                     .stores = plan->stores,
                     .fast_math = options && options->fast_math,
                     .check_indices = options && options->check_indices};
  o.wide = plan->peel ? row_major(fast) : lanes_wide(&fast->form, &o) | row_ahead(fast, plan);
  /* Rows of no element are the other way's alone: a search makes the first way of a configuration only. */
  *n = 0;
  if (row_columns(fast) > 0) TRY(make_way(fast, plan, &o, "row", a, &ways[(*n)++], err));
  lanes_options any_options = {.loop = any->column,
                               .width = 1,
                               .wide_offsets = true,
                               .fast_math = o.fast_math,
                               .check_indices = o.check_indices};
  TRY(make_way(any, any_plan, &any_options, "row_of_any_view", a, &ways[(*n)++], err));
  return ARKE_OK;
}

arke_status row_lower(const ir_problem *p, const target *t, const config *c, const lower_options *options,
                      arena *a, lowered *out, arke_error *err) {
  kernel_way ways[KERNEL_MAX_WAYS];
  int n;
  *out = (lowered){0};
  TRY(row_ways(p, t, c, options, a, ways, &n, err));
  return kernel_lower_ways(ways, n, t, options, a, out, err);
}
