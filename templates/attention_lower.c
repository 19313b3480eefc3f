/* The kernel's launch, and what it takes for granted. */
#include "templates/attend.h"
#include "templates/attention_emit.h"
#include "templates/group_tiles.h"

#define STAGE "generate"

static const recipe_expr *product(arena *a, const recipe_expr *x, const recipe_expr *y) {
  return x ? recipe_binary(a, RECIPE_MUL, x, y) : y;
}

enum { L2_PROMOTION_256 = 3, SWIZZLE_128 = 3 };

/* Sizes that launches go by. A cluster has an item: a run of the keys of a tile of each of its CTAs. */
typedef struct counts {
  const recipe_expr *tiles, *heads, *runs, *items;
  const recipe_expr *lines; /* rows of O */
} counts;

/* As many CTAs of a tile, or clusters, as give an SM `split` CTAs, but no more than it has steps for. */
static const recipe_expr *runs_of(const attention_plan *p, const recipe_expr *tiles, arena *a) {
  if (!p->split) return recipe_const(a, 1);
  const recipe_expr *one = recipe_const(a, 1), *sms = recipe_var(a, "SMS");
  const recipe_expr *ctas = recipe_binary(a, RECIPE_MUL, sms, recipe_const(a, p->split));
  if (p->merge > 2) {
    ctas = recipe_binary(a, RECIPE_MUL, ctas, recipe_const(a, ATTENTION_CLUSTERS_HELD));
    ctas = recipe_binary(a, RECIPE_DIV, ctas, recipe_const(a, ATTENTION_CLUSTERS_OF));
  }
  const recipe_expr *clusters = recipe_binary(a, RECIPE_DIV, ctas, recipe_const(a, attention_ctas(p)));
  const recipe_expr *each = recipe_binary(a, RECIPE_DIV, clusters, recipe_binary(a, RECIPE_MAX, tiles, one));
  const recipe_expr *steps =
      recipe_binary(a, RECIPE_CEILDIV, kernel_extent(&p->match->form, p->match->key, a),
                    recipe_const(a, (int64_t)p->block_n * attention_steps_at_once(p) * p->merge));
  return recipe_binary(a, RECIPE_MAX, recipe_binary(a, RECIPE_MIN, each, steps), one);
}

static counts count(const attention_plan *p, arena *a) {
  const attention_match *m = p->match;
  const recipe_expr *queries = kernel_extent(&m->form, m->query, a);
  counts c = {.heads = recipe_const(a, 1), .lines = queries};
  c.tiles = p->packed ? group_tiles_most(&m->form, &m->groups, p->block_q, a)
                      : recipe_binary(a, RECIPE_CEILDIV, queries,
                                      recipe_const(a, (int64_t)p->block_q * attention_along(p)));
  for (int i = 0; i < m->batch.n; i++) {
    c.heads = product(a, c.heads, attention_units_recipe(p, m->batch.loops[i], a));
    c.lines = product(a, c.lines, kernel_extent(&m->form, m->batch.loops[i], a));
  }
  const recipe_expr *items = product(a, c.tiles, c.heads);
  c.runs = runs_of(p, items, a);
  c.items = product(a, items, c.runs);
  return c;
}

/* The subscript that is a loop. */
static int subscript_of(const ir_form *form, int access, int loop) {
  const ir_access *x = &form->accesses[access];
  for (int s = 0; s < x->n; s++)
    if (x->subscripts[s].e->node == IR_INDEX && x->subscripts[s].e->id == loop) return s;
  return -1;
}

/* Over the whole tensor of an access, a box of `rows` along subscript `row`, of so many heads where those are
 * packed, and of 128 bytes of a row. */
static int add_map(const attention_plan *p, int access, int row, int rows, int heads, arena *a,
                   kernel_args *args) {
  const ir_form *form = &p->match->form;
  const ir_op *op = form->problem->op;
  const ir_access *x = &form->accesses[access];
  uint32_t columns =
      ATTENTION_PANEL_BYTES * 8 / (uint32_t)dtype_bits(ir_tensor_dtype(form->problem, x->tensor));
  recipe_tensormap map = {.rank = x->n, .swizzle = SWIZZLE_128, .l2_promotion = L2_PROMOTION_256};
  for (int s = 0; s < x->n; s++) {
    int to = attention_map_dimension(p, access, s);
    bool packs =
        p->pack.heads > 1 && x->subscripts[s].e->node == IR_INDEX && x->subscripts[s].e->id == p->pack.loop;
    map.dim[to] = kernel_dim(op, op->tensors[x->tensor].dims[s], a);
    map.stride[to] = to == 0 ? NULL : kernel_stride(form, x, s, false, a);
    map.box[to] = to == 0 ? columns : s == row ? (uint32_t)rows : packs ? (uint32_t)heads : 1;
  }
  return kernel_args_tensormap(args, x->tensor, &map);
}

/* --- SPLIT: the workspace, and who combines what is there --- */

static const recipe_expr *parts_bytes(const attention_plan *p, const counts *c, arena *a) {
  return product(a, product(a, c->lines, c->runs), recipe_const(a, 4 * (int64_t)p->v.columns));
}

static const recipe_expr *combine_items(const attention_plan *p, const counts *c, arena *a) {
  return product(a, c->lines, recipe_const(a, p->v.columns / ATTENTION_COMBINE_WIDTH));
}

static const recipe_expr *combine_grid(const attention_plan *p, const counts *c, arena *a) {
  return recipe_binary(a, RECIPE_CEILDIV, combine_items(p, c, a),
                       recipe_const(a, ATTENTION_COMBINE_THREADS / p->team));
}

/* --- rules --- */

static void make_rules(const attention_plan *p, const counts *c, arena *a, recipe *rules) {
  const attention_match *m = p->match;
  const ir_op *op = m->form.problem->op;
  *rules = (recipe){.n_tensors = op->n_args};
  for (int i = 0; i < p->n_parts; i++) {
    attention_tile_require(rules, &m->form, p->parts[i]->q, a);
    attention_tile_require(rules, &m->form, p->parts[i]->k.access, a);
  }
  attention_tile_require(rules, &m->form, m->v.access, a);
  if (p->copied) attention_tile_require(rules, &m->form, m->o, a);
  lanes_require(&m->form, &p->scores, rules, a);
  lanes_require(&m->form, attention_has_runs(p) ? &p->combine : &p->epilogue, rules, a);
  if (p->makes_queries) {
    lanes_require(m->parts[0].blocks, &p->queries, rules, a);
    kernel_require_equal(rules, a, kernel_extent(m->parts[0].blocks, m->parts[0].depth, a),
                         attention_block_columns(m), "the kernel computes heads of another size");
    kernel_require_equal(rules, a, kernel_extent(&m->form, m->parts[0].depth, a), p->q.columns,
                         "the kernel computes heads of another size");
  }
  int columns = p->q.columns;
  for (int i = 0; i < p->n_parts; i++) {
    int most = i + 1 < p->n_parts ? attention_panel_columns(&p->q) * p->part_panels[i] : columns,
        depth = p->parts[i]->depth;
    const recipe_expr *own = kernel_extent(&m->form, depth, a);
    static const char why[] = "the kernel is made for heads of another size";
    /* Tensor copies put zeros behind shorter rows; the producer's own would read what follows. */
    if (p->gathered)
      kernel_require_equal(rules, a, own, ir_form_extent(&m->form, depth), why);
    else
      kernel_require(rules, a, own, 0, most, why);
    columns -= most;
  }
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
  kernel_require(rules, a, c->items, 0, (1 << 30) - 4096, "there are more tiles than the kernel can count");
  if (!p->split) return;
  kernel_require(rules, a, combine_grid(p, c, a), 0, INT32_MAX,
                 "there are more rows than a grid can have blocks");
  rules->workspace_bytes = recipe_binary(a, RECIPE_ADD, parts_bytes(p, c, a),
                                         product(a, product(a, c->lines, c->runs), recipe_const(a, 8)));
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
  int ctas = attention_ctas(p);
  return ctas == 1 ? clusters : recipe_binary(a, RECIPE_MUL, clusters, recipe_const(a, ctas));
}

/* --- launches --- */

/* What both kernels know. */
static void declare(attention_kernel *k, const counts *c, const lanes_options *epilogue, kernel_args *args) {
  const attention_plan *p = k->p;
  const ir_form *form = &p->match->form;
  for (int i = 0; i < form->n_loops; i++) k->extents[i] = kernel_args_i32(args, kernel_extent(form, i, k->a));
  lanes_declare(form, epilogue, args, &k->epilogue_slots);
  if (!p->split) return;
  k->split = kernel_args_i32(args, c->runs);
  k->parts = kernel_args_workspace(args, recipe_const(k->a, 0));
  k->statistics = kernel_args_workspace(args, parts_bytes(p, c, k->a));
}

static void declare_maps(attention_kernel *k, kernel_args *args) {
  const attention_plan *p = k->p;
  const attention_match *m = p->match;
  int pack = p->pack.heads;
  for (int i = 0; i < p->n_parts; i++) {
    const attention_read *keys = &p->parts[i]->k;
    int q = p->parts[i]->q, row = subscript_of(&m->form, q, m->query);
    k->map_q[i] = add_map(p, q, row, p->block_q, pack, k->a, args);
    if (!p->gathered) k->map_k[i] = add_map(p, keys->access, keys->row, p->box_n, 1, k->a, args);
  }
  if (!p->values_are_keys && !p->gathered)
    k->map_v = add_map(p, m->v.access, m->v.row, p->box_n, 1, k->a, args);
  if (p->copied)
    k->map_o = add_map(p, m->o, subscript_of(&m->form, m->o, m->query), 64 / pack, pack, k->a, args);
}

static arke_status make_attention(const attention_plan *p, const counts *c, arena *a, kernel_launch *l,
                                  arke_error *err) {
  attention_kernel *k = ARENA_NEW(a, attention_kernel);
  if (!k) return error_memory(err, STAGE);
  *k = (attention_kernel){.p = p, .a = a};
  *l = (kernel_launch){.name = "attention",
                       .threads = p->threads,
                       .min_ctas_per_sm = p->resident,
                       .cluster = {attention_ctas(p), 1, 1},
                       .smem_bytes = recipe_const(a, p->smem_bytes),
                       .early_start = true,
                       .args = {.a = a},
                       .emit = attention_emit,
                       .user = k};
  declare_maps(k, &l->args);
  declare(k, c, p->merge > 1 ? &p->combine : &p->epilogue, &l->args);
  if (p->pack.loop >= 0) {
    k->packs = kernel_args_i32(&l->args, attention_units_recipe(p, p->pack.loop, a));
    k->pack_heads = kernel_args_i32(&l->args, attention_pack_heads(p, a));
  }
  k->tiles = kernel_args_i32(&l->args, c->tiles);
  k->heads = kernel_args_i32(&l->args, c->heads);
  k->items = kernel_args_i32(&l->args, c->items);
  lanes_declare(&p->match->form, &p->scores, &l->args, &k->score_slots);
  if (p->makes_queries) lanes_declare(p->match->parts[0].blocks, &p->queries, &l->args, &k->query_slots);
  l->grid[0] = grid(p, c->items, a);
  return l->grid[0] && l->smem_bytes ? ARKE_OK : error_memory(err, STAGE);
}

static arke_status make_combine(const attention_plan *p, const counts *c, arena *a, kernel_launch *l,
                                arke_error *err) {
  attention_kernel *k = ARENA_NEW(a, attention_kernel);
  if (!k) return error_memory(err, STAGE);
  *k = (attention_kernel){.p = p, .a = a};
  *l = (kernel_launch){.name = "attention_combine",
                       .threads = ATTENTION_COMBINE_THREADS,
                       .early_start = true,
                       .args = {.a = a},
                       .emit = attention_combine_emit,
                       .user = k};
  declare(k, c, &p->combine, &l->args);
  k->items = kernel_args_i64(&l->args, combine_items(p, c, a));
  l->grid[0] = combine_grid(p, c, a);
  return l->grid[0] ? ARKE_OK : error_memory(err, STAGE);
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
  kernel_launch *launches = ARENA_NEW_N(a, kernel_launch, 2);
  recipe *rules = ARENA_NEW(a, recipe);
  attention_match *m = ARENA_NEW(a, attention_match);
  attention_plan *plan = ARENA_NEW(a, attention_plan);
  arke_status status;
  if (!launches || !rules || !m || !plan) return error_memory(err, STAGE);
  template_reason reason = attention_fit(p, t, a, m, NULL, &status);
  if (status == ARKE_ERR_MEMORY) return error_memory(err, STAGE);
  if (reason == TEMPLATE_OK) reason = attention_plan_make(m, t, c, plan);
  if (reason != TEMPLATE_OK)
    return error_set(err, ARKE_ERR_UNSUPPORTED, STAGE, "configuration not feasible: %s",
                     template_reason_text(reason));
  lanes_options *each[] = {&plan->queries, &plan->scores, &plan->epilogue, &plan->combine};
  for (int i = 0; options && i < (int)COUNT_OF(each); i++) {
    each[i]->fast_math = options->fast_math;
    each[i]->check_indices = options->check_indices;
  }
  counts n = count(plan, a);
  TRY(make_attention(plan, &n, a, &launches[0], err));
  if (plan->split) TRY(make_combine(plan, &n, a, &launches[1], err));
  make_rules(plan, &n, a, rules);
  *way = (kernel_way){.launches = launches, .n = plan->split ? 2 : 1, .rules = rules};
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
