/* The kernel's launch, and what it takes for granted. */
#include "templates/attend.h"
#include "templates/attention_emit.h"
#include "templates/group_tiles.h"

#define STAGE "generate"

static const recipe_expr *product(arena *a, const recipe_expr *x, const recipe_expr *y) {
  return x ? recipe_binary(a, RECIPE_MUL, x, y) : y;
}

enum { L2_PROMOTION_256 = 3, SWIZZLE_128 = 3 };

/* The subscript that is a loop. */
static int subscript_of(const ir_form *form, int access, int loop) {
  const ir_access *x = &form->accesses[access];
  for (int s = 0; s < x->n; s++)
    if (x->subscripts[s].e->node == IR_INDEX && x->subscripts[s].e->id == loop) return s;
  return -1;
}

/* Over the whole tensor of an access, a box of `rows` along subscript `row`, of so many heads where those are
 * packed, and of 64 elements of a row. */
static int add_map(const attention_plan *p, int access, int row, int rows, int heads, arena *a,
                   kernel_args *args) {
  const ir_form *form = &p->match->form;
  const ir_op *op = form->problem->op;
  const ir_access *x = &form->accesses[access];
  recipe_tensormap map = {.rank = x->n, .swizzle = SWIZZLE_128, .l2_promotion = L2_PROMOTION_256};
  for (int s = 0; s < x->n; s++) {
    int to = attention_map_dimension(p, access, s);
    bool packs =
        p->pack.heads > 1 && x->subscripts[s].e->node == IR_INDEX && x->subscripts[s].e->id == p->pack.loop;
    map.dim[to] = kernel_dim(op, op->tensors[x->tensor].dims[s], a);
    map.stride[to] = to == 0 ? NULL : kernel_stride(form, x, s, false, a);
    map.box[to] = to == 0 ? 64 : s == row ? (uint32_t)rows : packs ? (uint32_t)heads : 1;
  }
  return kernel_args_tensormap(args, x->tensor, &map);
}

static void make_rules(const attention_plan *p, const recipe_expr *items, arena *a, recipe *rules) {
  const attention_match *m = p->match;
  const ir_op *op = m->form.problem->op;
  *rules = (recipe){.n_tensors = op->n_args};
  attention_tile_require(rules, &m->form, m->parts[0].q, a);
  attention_tile_require(rules, &m->form, m->parts[0].k.access, a);
  attention_tile_require(rules, &m->form, m->v.access, a);
  if (p->copied) attention_tile_require(rules, &m->form, m->o, a);
  lanes_require(&m->form, &p->scores, rules, a);
  lanes_require(&m->form, &p->epilogue, rules, a);
  kernel_require(rules, a, kernel_extent(&m->form, m->parts[0].depth, a), 0, p->q.columns,
                 "the kernel is made for heads of another size");
  kernel_require_equal(rules, a, kernel_extent(&m->form, m->wide, a), p->v.columns,
                       "the kernel is made for values of another size");
  for (int l = 0; l < m->form.n_loops; l++)
    kernel_require(rules, a, kernel_extent(&m->form, l, a), 0, (1 << 30) - 4096,
                   "indices of the kernel have 32 bits");
  for (int i = 0; i < m->bounds.n_shares; i++) {
    const recipe_expr *rest = recipe_binary(a, RECIPE_MOD, kernel_dim(op, m->bounds.shares[i][0], a),
                                            kernel_dim(op, m->bounds.shares[i][1], a));
    kernel_require(rules, a, rest, 0, 0, "query heads must be a multiple of those of keys and values");
  }
  attention_pack_require(p, rules, a);
  if (p->packed) group_tiles_require(&m->form, &m->groups, rules, a);
  if (p->page && m->parts[0].k.page->node == IR_SIZE) {
    const recipe_expr *page = recipe_var(a, op->axes[m->parts[0].k.page->id]);
    kernel_require_equal(rules, a, page, p->page, "the kernel is made for pages of another size");
  }
  /* There is no copy of nothing. */
  for (int l = 0; l < m->form.n_loops; l++)
    if (l == m->key || l == m->groups.loop)
      kernel_require(rules, a,
                     recipe_binary(a, RECIPE_SUB, recipe_const(a, 1), kernel_extent(&m->form, l, a)), 0, 0,
                     "there are no keys, or no requests");
  kernel_require(rules, a, items, 0, (1 << 30) - 4096, "there are more tiles than the kernel can count");
}

/* A cluster an item, or as many as the device holds. */
static const recipe_expr *grid(const attention_plan *p, const recipe_expr *items, arena *a) {
  const recipe_expr *clusters = items, *one = recipe_const(a, 1);
  if (p->persistent) {
    const recipe_expr *ctas =
        recipe_binary(a, RECIPE_MUL, recipe_var(a, "SMS"), recipe_const(a, p->resident));
    const recipe_expr *held = recipe_binary(a, RECIPE_DIV, ctas, recipe_const(a, p->cluster));
    clusters = recipe_binary(a, RECIPE_MIN, recipe_binary(a, RECIPE_MAX, held, one), items);
  }
  return p->cluster == 1 ? clusters : recipe_binary(a, RECIPE_MUL, clusters, recipe_const(a, p->cluster));
}

enum { OTHER_WAYS = 2 };

/* Tensors that copies refuse are attended by kernels that take any, where the operator is one for them. */
static arke_status add_other_ways(const ir_problem *p, const target *t, const lower_options *options,
                                  arena *a, kernel_way *ways, int *n, arke_error *err) {
  arke_error other = ARKE_ERROR_INIT;
  config c;
  int more = 0;
  attend_defaults(p, t, &c);
  arke_status status = attend_ways(p, t, &c, options, a, ways + *n, &more, &other);
  if (status == ARKE_ERR_MEMORY) return error_memory(err, STAGE);
  if (status == ARKE_OK) *n += more;
  return ARKE_OK;
}

/* The way of tensor copies. */
static arke_status make_way(const ir_problem *p, const target *t, const config *c,
                            const lower_options *options, arena *a, kernel_way *way, arke_error *err) {
  kernel_launch *launch = ARENA_NEW(a, kernel_launch);
  recipe *rules = ARENA_NEW(a, recipe);
  attention_match *m = ARENA_NEW(a, attention_match);
  attention_plan *plan = ARENA_NEW(a, attention_plan);
  attention_kernel *k = ARENA_NEW(a, attention_kernel);
  arke_status status;
  if (!launch || !rules || !m || !plan || !k) return error_memory(err, STAGE);
  template_reason reason = attention_fit(p, t, a, m, NULL, &status);
  if (status == ARKE_ERR_MEMORY) return error_memory(err, STAGE);
  if (reason == TEMPLATE_OK) reason = attention_plan_make(m, t, c, plan);
  if (reason != TEMPLATE_OK)
    return error_set(err, ARKE_ERR_UNSUPPORTED, STAGE, "configuration not feasible: %s",
                     template_reason_text(reason));
  lanes_options *each[] = {&plan->scores, &plan->epilogue};
  for (int i = 0; options && i < 2; i++) {
    each[i]->fast_math = options->fast_math;
    each[i]->check_indices = options->check_indices;
  }
  *k = (attention_kernel){.p = plan, .a = a};
  kernel_launch l = {.name = "attention",
                     .threads = plan->threads,
                     .min_ctas_per_sm = plan->resident,
                     .cluster = {plan->cluster, 1, 1},
                     .smem_bytes = recipe_const(a, plan->smem_bytes),
                     .early_start = true,
                     .args = {.a = a},
                     .emit = attention_emit,
                     .user = k};
  int q = m->parts[0].q, pack = plan->pack.heads;
  const attention_read *keys = &m->parts[0].k, *values = &m->v;
  k->map_q = add_map(plan, q, subscript_of(&m->form, q, m->query), plan->block_q, pack, a, &l.args);
  k->map_k = add_map(plan, keys->access, keys->row, plan->box_n, 1, a, &l.args);
  k->map_v = add_map(plan, values->access, values->row, plan->box_n, 1, a, &l.args);
  if (plan->copied)
    k->map_o = add_map(plan, m->o, subscript_of(&m->form, m->o, m->query), 64 / pack, pack, a, &l.args);
  for (int i = 0; i < m->form.n_loops; i++)
    k->extents[i] = kernel_args_i32(&l.args, kernel_extent(&m->form, i, a));
  const recipe_expr *heads = NULL, *tiles;
  if (plan->packed)
    tiles = group_tiles_most(&m->form, &m->groups, plan->block_q, a);
  else
    tiles = recipe_binary(a, RECIPE_CEILDIV, kernel_extent(&m->form, m->query, a),
                          recipe_const(a, (int64_t)plan->block_q * attention_along(plan)));
  for (int i = 0; i < m->batch.n; i++)
    heads = product(a, heads, attention_units_recipe(plan, m->batch.loops[i], a));
  if (plan->pack.loop >= 0) {
    k->packs = kernel_args_i32(&l.args, attention_units_recipe(plan, plan->pack.loop, a));
    k->pack_heads = kernel_args_i32(&l.args, attention_pack_heads(plan, a));
  }
  if (!heads) heads = recipe_const(a, 1);
  const recipe_expr *items = product(a, tiles, heads);
  k->tiles = kernel_args_i32(&l.args, tiles);
  k->heads = kernel_args_i32(&l.args, heads);
  k->items = kernel_args_i32(&l.args, items);
  lanes_declare(&m->form, &plan->scores, &l.args, &k->score_slots);
  lanes_declare(&m->form, &plan->epilogue, &l.args, &k->epilogue_slots);
  l.grid[0] = grid(plan, items, a);
  make_rules(plan, items, a, rules);
  if (!l.grid[0] || !l.smem_bytes) return error_memory(err, STAGE);
  *launch = l;
  *way = (kernel_way){.launches = launch, .n = 1, .rules = rules};
  return ARKE_OK;
}

arke_status attention_ways(const ir_problem *p, const target *t, const config *c,
                           const lower_options *options, arena *a, kernel_way *ways, int *n,
                           arke_error *err) {
  TRY(make_way(p, t, c, options, a, &ways[0], err));
  *n = 1;
  return add_other_ways(p, t, options, a, ways, n, err);
}

arke_status attention_lower(const ir_problem *p, const target *t, const config *c,
                            const lower_options *options, arena *a, lowered *out, arke_error *err) {
  kernel_way ways[KERNEL_MAX_WAYS];
  int n = 1;
  bool alone = options && options->first_way_only; /* then it takes no search for the others */
  if (alone)
    TRY(make_way(p, t, c, options, a, &ways[0], err));
  else
    TRY(attention_ways(p, t, c, options, a, ways, &n, err));
  TRY(kernel_lower_ways(ways, n, t, options, a, out, err));
  if (alone && attend_fits(p, t, NULL) == TEMPLATE_OK) out->ways_left_out = OTHER_WAYS;
  return ARKE_OK;
}
