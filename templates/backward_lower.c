/* The kernels' launches, and what they take for granted. */
#include "templates/backward_emit.h"
#include "templates/backward_warps.h"

#define STAGE "generate"

enum {
  L2_PROMOTION_256 = 3,
  SWIZZLE_128 = 3,
  MOST_INDEX = (1 << 30) - 4096,
  MOST_LAUNCHES = BACKWARD_PASSES + 3
};

/* The workspace: l and e of all queries, sums of dQ and turns of tiles where one kernel makes those, then the
 * parts of dK and of dV. */
typedef struct workspace {
  const recipe_expr *pitch, *lse, *dot, *dq, *turns, *partials[2], *bytes;
} workspace;

static const recipe_expr *times(arena *a, const recipe_expr *x, const recipe_expr *y) {
  return recipe_binary(a, RECIPE_MUL, x, y);
}

static const recipe_expr *plus(arena *a, const recipe_expr *x, const recipe_expr *y) {
  return recipe_binary(a, RECIPE_ADD, x, y);
}

static workspace make_workspace(const backward_plan *plan, arena *a) {
  const backward_pass *queries = &plan->passes[0];
  workspace w = {.pitch = backward_padded_rows(plan, queries, a), .lse = recipe_const(a, 0)};
  const recipe_expr *rows = times(a, backward_batches(plan, BACKWARD_QUERIES, a), w.pitch);
  w.dot = times(a, rows, recipe_const(a, 4));
  w.bytes = times(a, rows, recipe_const(a, 8));
  if (plan->one) {
    int64_t depth = ir_form_extent(&plan->match->form, plan->match->depth);
    w.dq = w.bytes;
    w.turns = plus(a, w.dq, times(a, rows, recipe_const(a, 4 * depth)));
    /* 4 bytes for each group and 64 rows: 16 of them at most */
    w.bytes = plus(a, w.turns, rows);
  }
  for (int i = 1; i < plan->n_passes && plan->split > 1; i++)
    for (int which = 0; which < 2; which++) {
      if (!plan->passes[i].sums[which]) continue;
      w.partials[which] = w.bytes;
      w.bytes = plus(a, w.bytes, backward_partial_bytes(plan, &plan->passes[i], which, a));
    }
  return w;
}

/* Over the whole tensor of an access, a box of `rows` along the loop and 64 elements of a row. */
static int add_map(const backward_plan *plan, int access, int loop, int rows, arena *a, kernel_args *args) {
  const ir_form *form = &plan->match->form;
  const ir_access *x = &form->accesses[access];
  recipe_tensormap map = {.rank = x->n, .swizzle = SWIZZLE_128, .l2_promotion = L2_PROMOTION_256};
  for (int s = 0; s < x->n; s++) {
    int to = x->n - 1 - s;
    const ir_expr *e = x->subscripts[s].e;
    bool along = e->node == IR_INDEX && e->id == loop;
    map.dim[to] = kernel_size(form, x, s, a);
    map.stride[to] = to == 0 ? NULL : kernel_stride(form, x, s, false, a);
    map.box[to] = to == 0 ? 64 : along ? (uint32_t)rows : 1;
  }
  return kernel_args_tensormap(args, x->tensor, &map);
}

/* --- rules --- */

static void require_size(const backward_plan *plan, int loop, recipe *rules, arena *a) {
  const ir_form *form = &plan->match->form;
  const recipe_expr *extent = kernel_extent(form, loop, a);
  int64_t size = ir_form_extent(form, loop);
  kernel_require_equal(rules, a, extent, size, "the kernel is made for heads of another size");
}

static void require_heads(const backward_plan *plan, recipe *rules, arena *a) {
  const backward_match *m = plan->match;
  const ir_op *op = m->form.problem->op;
  if (m->head < 0) return;
  const recipe_expr *each = times(a, kernel_dim(op, m->heads[1], a), recipe_const(a, plan->split));
  kernel_require(rules, a, recipe_binary(a, RECIPE_MOD, kernel_dim(op, m->heads[0], a), each), 0, 0,
                 "query heads must be a multiple of those of keys and values, and of their parts");
}

/* There is no tensor map of nothing. */
static void require_some(const backward_plan *plan, int loop, recipe *rules, arena *a) {
  const recipe_expr *n = kernel_extent(&plan->match->form, loop, a), *one = recipe_const(a, 1);
  const recipe_expr *some = recipe_binary(a, RECIPE_MIN, n, one);
  kernel_require_equal(rules, a, some, 1,
                       "the kernel reads queries and keys by tensor maps, which cannot be empty");
}

/* Rows of the workspace are counted in 32 bits. */
static void require_rows(const backward_plan *plan, const workspace *w, recipe *rules, arena *a) {
  kernel_require(rules, a, times(a, backward_batches(plan, BACKWARD_QUERIES, a), w->pitch), 0, MOST_INDEX,
                 "there are more queries than the kernel can count");
}

static void make_rules(const backward_plan *plan, const workspace *w, arena *a, recipe *rules) {
  const backward_match *m = plan->match;
  *rules = (recipe){.n_tensors = m->form.problem->op->n_args, .workspace_bytes = w->bytes};
  const int reads[] = {m->q, m->k, m->v, m->d_o};
  for (int i = 0; i < 4; i++) attention_tile_require(rules, &m->form, reads[i], a);
  if (plan->passes[0].prefetched) attention_tile_require(rules, &m->form, m->o, a);
  for (int i = 0; i < plan->n_passes; i++)
    for (int which = 0; which < 2; which++)
      if (plan->passes[i].copied[which])
        attention_tile_require(rules, &m->form, m->form.outputs[plan->passes[i].output[which]].access, a);
  lanes_require(&m->form, &plan->rows, rules, a);
  lanes_require(&m->form, &plan->dot, rules, a);
  for (int i = 0; i < 3; i++) lanes_require(&m->form, &plan->epilogue[i], rules, a);
  require_size(plan, m->depth, rules, a);
  require_size(plan, m->wide, rules, a);
  require_size(plan, m->dot->index, rules, a);
  require_some(plan, m->query, rules, a);
  require_some(plan, m->key, rules, a);
  require_heads(plan, rules, a);
  require_rows(plan, w, rules, a);
  for (int l = 0; l < m->form.n_loops; l++)
    kernel_require(rules, a, kernel_extent(&m->form, l, a), 0, MOST_INDEX,
                   "indices of the kernel have 32 bits");
}

/* --- launches --- */

static int access_of_output(const backward_plan *plan, const backward_pass *p, int which) {
  return plan->match->form.outputs[p->output[which]].access;
}

static void declare_maps(const backward_plan *plan, const backward_pass *p, backward_kernel *k, arena *a,
                         kernel_args *args) {
  const backward_match *m = plan->match;
  const int of[2][2] = {{m->q, m->d_o}, {m->k, m->v}};
  int rows = backward_row_loop(m, p->side), columns = backward_column_loop(m, p->side);
  for (int i = 0; i < 2; i++) {
    if (p->rows[i].bytes) k->map_rows[i] = add_map(plan, of[p->side][i], rows, p->block_rows, a, args);
    k->map_columns[i] = add_map(plan, of[!p->side][i], columns, p->block_columns, a, args);
    if (p->copied[i]) k->map_out[i] = add_map(plan, access_of_output(plan, p, i), rows, 64, a, args);
  }
  if (p->prefetched) k->map_o = add_map(plan, m->o, rows, p->block_rows, a, args);
}

/* The part of a bound that is the same for all rows, between -2^30 and 2^30; NULL: sizes do not tell it. */
static const recipe_expr *rest_of(const backward_plan *plan, const attention_bound *bound, arena *a) {
  enum { FAR = 1 << 30 };
  const recipe_expr *e = recipe_const(a, bound->rest.constant);
  if (bound->query < -1 || bound->query > 1) return NULL;
  for (int i = 0; i < bound->rest.n; i++) {
    const lanes_term *t = &bound->rest.terms[i];
    const recipe_expr *value = lanes_static_recipe(&plan->match->form, t->e, a);
    if (!value) return NULL;
    e = plus(a, e, times(a, value, recipe_const(a, t->coefficient)));
  }
  return recipe_binary(a, RECIPE_MIN, recipe_binary(a, RECIPE_MAX, e, recipe_const(a, -FAR)),
                       recipe_const(a, FAR));
}

static arke_status make_launch(const backward_plan *plan, const backward_pass *p, const workspace *w,
                               const char *name, arena *a, recipe *rules, kernel_launch *l, arke_error *err) {
  const backward_match *m = plan->match;
  backward_kernel *k = ARENA_NEW(a, backward_kernel);
  if (!k) return error_memory(err, STAGE);
  *k = (backward_kernel){.plan = plan, .p = p, .a = a};
  *l = (kernel_launch){.name = name,
                       .threads = p->threads,
                       .min_ctas_per_sm = p->resident,
                       .smem_bytes = recipe_const(a, p->smem_bytes),
                       .early_start = true,
                       .args = {.a = a},
                       .emit = p->sums[0] || p->sums[1] ? backward_emit : backward_emit_statistics,
                       .user = k};
  bool steps = p->sums[0] || p->sums[1];
  if (steps) declare_maps(plan, p, k, a, &l->args);
  for (int i = 0; i < m->form.n_loops; i++)
    k->extents[i] = kernel_args_i32(&l->args, kernel_extent(&m->form, i, a));
  const recipe_expr *heads = backward_batches(plan, p->side, a),
                    *tiles = recipe_binary(a, RECIPE_CEILDIV,
                                           kernel_extent(&m->form, backward_row_loop(m, p->side), a),
                                           recipe_const(a, p->block_rows));
  if (p->side == BACKWARD_KEYS) heads = times(a, heads, recipe_const(a, plan->split));
  const recipe_expr *items = times(a, tiles, heads);
  k->tiles = kernel_args_i32(&l->args, tiles);
  k->heads = kernel_args_i32(&l->args, heads);
  k->items = kernel_args_i32(&l->args, items);
  if (p->side == BACKWARD_KEYS && m->head >= 0) {
    const recipe_expr *ratio = recipe_binary(a, RECIPE_DIV, kernel_extent(&m->form, m->head, a),
                                             kernel_extent(&m->form, m->share, a));
    k->ratio = kernel_args_i32(&l->args, ratio);
    k->per_part =
        kernel_args_i32(&l->args, recipe_binary(a, RECIPE_DIV, ratio, recipe_const(a, plan->split)));
  }
  for (int i = 0; i < m->seen[p->side].n; i++) {
    const recipe_expr *rest = rest_of(plan, &m->seen[p->side].list[i], a);
    k->rest[i] = rest ? kernel_args_i32(&l->args, rest) : -1;
  }
  k->lse = kernel_args_workspace(&l->args, w->lse);
  k->dot = kernel_args_workspace(&l->args, w->dot);
  k->pitch = kernel_args_i32(&l->args, w->pitch);
  if (plan->one) {
    k->dq = kernel_args_workspace(&l->args, w->dq);
    k->turns = kernel_args_workspace(&l->args, w->turns);
  }
  for (int i = 0; i < 2; i++)
    if (p->side == BACKWARD_KEYS && p->sums[i] && w->partials[i])
      k->partials[i] = kernel_args_workspace(&l->args, w->partials[i]);
  lanes_declare(&m->form, &plan->rows, &l->args, &k->row_slots);
  if (p->side == BACKWARD_QUERIES) lanes_declare(&m->form, &plan->dot, &l->args, &k->dot_slots);
  for (int i = 0; i < 2; i++) {
    int number = p->side == BACKWARD_QUERIES ? 0 : 1 + i;
    if (p->sums[i]) lanes_declare(&m->form, &plan->epilogue[number], &l->args, &k->epilogue_slots[number]);
  }
  l->grid[0] = items;
  if (plan->persistent && steps) {
    const recipe_expr *ctas = times(a, recipe_var(a, "SMS"), recipe_const(a, p->resident));
    l->grid[0] = recipe_binary(a, RECIPE_MIN, ctas, items);
  }
  kernel_require(rules, a, items, 0, MOST_INDEX, "there are more tiles than the kernel can count");
  return l->grid[0] && l->smem_bytes ? ARKE_OK : error_memory(err, STAGE);
}

static arke_status make_launches(const backward_plan *plan, const workspace *w, arena *a, recipe *rules,
                                 kernel_launch *l, int *n, arke_error *err) {
  static const char *const names[] = {"backward_queries", "backward_keys", "backward_values"};
  *n = 0;
  for (int i = 0; i < plan->n_passes; i++)
    TRY(make_launch(plan, &plan->passes[i], w, i == 0 && plan->one ? "backward_statistics" : names[i], a,
                    rules, &l[(*n)++], err));
  if (plan->one) TRY(backward_make_combine(plan, &plan->passes[0], 0, w->dq, a, &l[(*n)++], err));
  for (int i = 1; i < plan->n_passes && plan->split > 1; i++)
    for (int which = 0; which < 2; which++)
      if (plan->passes[i].sums[which])
        TRY(backward_make_combine(plan, &plan->passes[i], which, w->partials[which], a, &l[(*n)++], err));
  return ARKE_OK;
}

/* The way of tensor copies. */
static arke_status make_way(const ir_problem *p, const target *t, const config *c,
                            const lower_options *options, arena *a, kernel_way *way, arke_error *err) {
  backward_match *m = ARENA_NEW(a, backward_match);
  backward_plan *plan = ARENA_NEW(a, backward_plan);
  kernel_launch *launches = ARENA_NEW_N(a, kernel_launch, MOST_LAUNCHES);
  recipe *rules = ARENA_NEW(a, recipe);
  arke_status status;
  if (!m || !plan || !launches || !rules) return error_memory(err, STAGE);
  template_reason reason = backward_fit(p, t, a, m, NULL, &status);
  if (status == ARKE_ERR_MEMORY) return error_memory(err, STAGE);
  if (reason == TEMPLATE_OK) reason = backward_plan_make(m, t, c, plan);
  if (reason != TEMPLATE_OK)
    return error_set(err, ARKE_ERR_UNSUPPORTED, STAGE, "configuration not feasible: %s",
                     template_reason_text(reason));
  lanes_options *each[] = {&plan->rows, &plan->dot, &plan->epilogue[0], &plan->epilogue[1],
                           &plan->epilogue[2]};
  for (size_t i = 0; options && i < COUNT_OF(each); i++) {
    each[i]->fast_math = options->fast_math;
    each[i]->check_indices = options->check_indices;
  }
  workspace w = make_workspace(plan, a);
  if (!w.bytes) return error_memory(err, STAGE);
  make_rules(plan, &w, a, rules);
  *way = (kernel_way){.launches = launches, .rules = rules};
  return make_launches(plan, &w, a, rules, launches, &way->n, err);
}

enum { OTHER_WAYS = 2 };

/* Tensors that copies refuse have kernels that take any. */
arke_status backward_ways(const ir_problem *p, const target *t, const config *c, const lower_options *options,
                          arena *a, kernel_way *ways, int *n, arke_error *err) {
  config other;
  int more = 0;
  TRY(make_way(p, t, c, options, a, &ways[0], err));
  backward_warps_defaults(p, t, &other);
  TRY(backward_warps_ways(p, t, &other, options, a, ways + 1, &more, err));
  *n = 1 + more;
  return ARKE_OK;
}

arke_status backward_lower(const ir_problem *p, const target *t, const config *c,
                           const lower_options *options, arena *a, lowered *out, arke_error *err) {
  kernel_way ways[KERNEL_MAX_WAYS];
  int n = 1;
  bool alone = options && options->first_way_only; /* then it takes no search for the others */
  if (alone)
    TRY(make_way(p, t, c, options, a, &ways[0], err));
  else
    TRY(backward_ways(p, t, c, options, a, ways, &n, err));
  TRY(kernel_lower_ways(ways, n, t, options, a, out, err));
  if (alone) out->ways_left_out = OTHER_WAYS;
  return ARKE_OK;
}
