/* Kernels, how they are launched, and what they take for granted. */
#include "templates/attend.h"
#include "templates/group_tiles.h"

#define STAGE "generate"

static const recipe_expr *product(arena *a, const recipe_expr *x, const recipe_expr *y) {
  return x ? recipe_binary(a, RECIPE_MUL, x, y) : y;
}

static const recipe_expr *dimension(const ir_op *op, ir_dim d, arena *a) {
  return kernel_dim(op, d, a);
}

/* Sizes that both kernels go by. */
typedef struct counts {
  const recipe_expr *units, *pack, *rows, *tiles, *lines; /* lines: rows of all units */
} counts;

static counts count(const attend_plan *p, arena *a) {
  const attention_match *m = p->match;
  counts c = {.units = recipe_const(a, 1), .pack = recipe_const(a, 1)};
  for (int i = 0; i < m->batch.n; i++) {
    c.units = product(a, c.units, attend_unit_recipe(m, &p->rows, i, a));
    c.pack = product(a, c.pack, attend_own_recipe(m, &p->rows, i, a));
  }
  c.rows = product(a, kernel_extent(&m->form, m->query, a), c.pack);
  c.tiles = m->groups.of ? group_tiles_most(&m->form, &m->groups, p->block_queries, a)
                         : recipe_binary(a, RECIPE_CEILDIV, c.rows, recipe_const(a, p->block_m));
  c.lines = product(a, c.units, c.rows);
  return c;
}

/* Keys of a page are a constant of the kernel: each thread divides by them for each row. */
static bool is_page(const attention_match *m, int axis) {
  const attention_read *reads[] = {&m->parts[0].k, &m->parts[m->n_parts - 1].k, &m->v};
  for (int i = 0; i < 3; i++)
    if (reads[i]->page && reads[i]->page->node == IR_SIZE && reads[i]->page->id == axis) return true;
  return false;
}

static void fix_pages(const attention_match *m, lanes_args *slots) {
  const ir_problem *p = m->form.problem;
  for (int axis = 0; axis < p->op->n_axes; axis++)
    if (is_page(m, axis)) slots->size[axis] = (lanes_slot){.param = -1, .value = p->sizes[axis]};
}

static void declare(attend_kernel *k, const counts *c, kernel_args *args) {
  const attention_match *m = k->p->match;
  arena *a = k->a;
  for (int l = 0; l < m->form.n_loops; l++)
    k->extents[l] = kernel_args_i32(args, kernel_extent(&m->form, l, a));
  for (int i = 0; i < m->batch.n; i++) {
    k->own[i] = kernel_args_i32(args, attend_own_recipe(m, &k->p->rows, i, a));
    k->units[i] = kernel_args_i32(args, attend_unit_recipe(m, &k->p->rows, i, a));
  }
  k->pack = kernel_args_i32(args, c->pack);
  k->rows = kernel_args_i32(args, c->rows);
  k->tiles = kernel_args_i32(args, c->tiles);
  lanes_declare(&m->form, &k->p->epilogue, args, &k->epilogue_slots);
}

/* --- workspace --- */

static bool has_combine(const attend_plan *p) {
  return p->split > 1 && !p->clustered;
}

static const recipe_expr *parts_bytes(const attend_plan *p, const counts *c, arena *a) {
  return product(a, c->lines, recipe_const(a, 4 * (int64_t)p->split * attend_part_columns(p)));
}

static const recipe_expr *workspace_bytes(const attend_plan *p, const counts *c, arena *a) {
  return product(
      a, c->lines,
      recipe_const(a, (int64_t)p->split * (4 * attend_part_columns(p) + attend_statistics_bytes(p))));
}

static void declare_parts(attend_kernel *k, const counts *c, kernel_args *args) {
  k->parts = kernel_args_workspace(args, recipe_const(k->a, 0));
  k->statistics = kernel_args_workspace(args, parts_bytes(k->p, c, k->a));
}

/* --- launches --- */

static arke_status make_attend(const attend_plan *p, const char *name, const counts *c, arena *a,
                               kernel_launch *l, arke_error *err) {
  attend_kernel *k = ARENA_NEW(a, attend_kernel);
  if (!k) return error_memory(err, STAGE);
  *k = (attend_kernel){.p = p, .a = a};
  *l = (kernel_launch){.name = name,
                       .threads = p->threads,
                       .smem_bytes = recipe_const(a, p->smem_bytes),
                       .early_start = true,
                       .args = {.a = a},
                       .emit = attend_emit,
                       .user = k};
  declare(k, c, &l->args);
  for (int i = 0; i < ATTEND_TILES; i++) {
    if (!p->tiles[i].present) continue;
    lanes_declare(&p->match->form, &p->tiles[i].options, &l->args, &k->tile_slots[i]);
    fix_pages(p->match, &k->tile_slots[i]);
  }
  lanes_declare(&p->match->form, &p->scores, &l->args, &k->score_slots);
  l->grid[0] = product(a, product(a, c->units, c->tiles), recipe_const(a, p->split));
  if (p->clustered) l->cluster[0] = p->split;
  if (has_combine(p)) declare_parts(k, c, &l->args);
  return l->grid[0] ? ARKE_OK : error_memory(err, STAGE);
}

static arke_status make_combine(const attend_plan *p, const char *name, const counts *c, arena *a,
                                kernel_launch *l, arke_error *err) {
  attend_kernel *k = ARENA_NEW(a, attend_kernel);
  if (!k) return error_memory(err, STAGE);
  *k = (attend_kernel){.p = p, .a = a};
  *l = (kernel_launch){.name = name,
                       .threads = ATTEND_COMBINE_THREADS,
                       .early_start = true,
                       .args = {.a = a},
                       .emit = attend_combine_emit,
                       .user = k};
  declare(k, c, &l->args);
  declare_parts(k, c, &l->args);
  int64_t runs = ir_form_extent(&p->match->form, p->match->wide) / p->epilogue.width;
  const recipe_expr *items = product(a, c->lines, recipe_const(a, runs));
  k->items = kernel_args_i64(&l->args, items);
  l->grid[0] = recipe_binary(a, RECIPE_CEILDIV, items,
                             recipe_const(a, ATTEND_COMBINE_THREADS / attend_combine_lanes(p)));
  return l->grid[0] ? ARKE_OK : error_memory(err, STAGE);
}

/* --- rules --- */

static void require_pages(const attention_match *m, recipe *rules, arena *a) {
  const ir_problem *p = m->form.problem;
  for (int axis = 0; axis < p->op->n_axes; axis++)
    if (is_page(m, axis))
      kernel_require_equal(rules, a, recipe_var(a, p->op->axes[axis]), p->sizes[axis],
                           "the kernel is made for pages of another size");
}

static arke_status make_rules(const attend_plan *p, const kernel_launch *l, int n, const counts *c, arena *a,
                              recipe **rules, arke_error *err) {
  const attention_match *m = p->match;
  const ir_op *op = m->form.problem->op;
  recipe *r = *rules = ARENA_NEW(a, recipe);
  if (!r) return error_memory(err, STAGE);
  r->n_tensors = op->n_args;
  for (int i = 0; i < ATTEND_TILES; i++)
    if (p->tiles[i].present) lanes_require(&m->form, &p->tiles[i].options, r, a);
  lanes_require(&m->form, &p->scores, r, a);
  lanes_require(&m->form, &p->epilogue, r, a);
  for (int i = 0; i < m->n_parts; i++)
    kernel_require_equal(r, a, kernel_extent(&m->form, m->parts[i].depth, a),
                         ir_form_extent(&m->form, m->parts[i].depth),
                         "the kernel is made for heads of another size");
  kernel_require_equal(r, a, kernel_extent(&m->form, m->wide, a), ir_form_extent(&m->form, m->wide),
                       "the kernel is made for values of another size");
  require_pages(m, r, a);
  if (m->groups.of) {
    group_tiles_require(&m->form, &m->groups, r, a);
    kernel_require_equal(r, a, c->pack, attend_pack(m, &p->rows),
                         "the kernel is made for another number of heads that share keys");
  }
  for (int i = 0; i < m->form.n_loops; i++)
    kernel_require(r, a, kernel_extent(&m->form, i, a), 0, (1 << 30) - 4096,
                   "indices of the kernel have 32 bits");
  for (int i = 0; i < m->bounds.n_shares; i++) {
    const recipe_expr *rest = recipe_binary(a, RECIPE_MOD, dimension(op, m->bounds.shares[i][0], a),
                                            dimension(op, m->bounds.shares[i][1], a));
    kernel_require(r, a, rest, 0, 0, "query heads must be a multiple of those of keys and values");
  }
  kernel_require(r, a, c->rows, 0, (1 << 30) - 4096, "there are more rows than the kernel can count");
  for (int i = 0; i < n; i++)
    kernel_require(r, a, l[i].grid[0], 0, INT32_MAX, "there are more tiles than a grid can have blocks");
  if (!has_combine(p)) return ARKE_OK;
  r->workspace_bytes = workspace_bytes(p, c, a);
  return r->workspace_bytes ? ARKE_OK : error_memory(err, STAGE);
}

/* --- ways --- */

static const struct {
  const char *name, *combine;
  bool copied;
} variants[] = {{"attend", "attend_combine", true}, {"attend_any", "attend_any_combine", false}};

static arke_status make_way(const attend_plan *p, int variant, arena *a, kernel_way *way, arke_error *err) {
  kernel_launch *l = ARENA_NEW_N(a, kernel_launch, 2);
  recipe *rules;
  if (!l) return error_memory(err, STAGE);
  int n = has_combine(p) ? 2 : 1;
  counts c = count(p, a);
  if (!c.tiles || !c.lines) return error_memory(err, STAGE);
  TRY(make_attend(p, variants[variant].name, &c, a, &l[0], err));
  if (n > 1) TRY(make_combine(p, variants[variant].combine, &c, a, &l[1], err));
  TRY(make_rules(p, l, n, &c, a, &rules, err));
  *way = (kernel_way){.launches = l, .n = n, .rules = rules};
  return ARKE_OK;
}

/* A copy does not look at what it copies: rows at gathered places are tested on their way through registers.
 */
static bool is_unchecked(const attention_match *m, const lower_options *o) {
  bool gathered = m->v.keys != ATTENTION_KEYS_PLAIN;
  for (int i = 0; i < m->n_parts; i++) gathered = gathered || m->parts[i].k.keys != ATTENTION_KEYS_PLAIN;
  return gathered && o && o->check_indices;
}

static void set_options(attend_plan *p, const lower_options *o) {
  lanes_options *each[ATTEND_TILES + 2] = {&p->scores, &p->epilogue};
  for (int i = 0; i < ATTEND_TILES; i++) each[2 + i] = &p->tiles[i].options;
  for (int i = 0; o && i < ATTEND_TILES + 2; i++) {
    each[i]->fast_math = o->fast_math;
    each[i]->check_indices = o->check_indices;
  }
}

/* What the way through registers takes behind one that copies: it has longer addresses. */
static config narrow_config(const config *c) {
  config narrow = *c;
  narrow.values[ATTEND_BLOCK_N] = 16;
  narrow.values[ATTEND_HOLD_Q] = 0;
  return narrow;
}

arke_status attend_ways(const ir_problem *p, const target *t, const config *c, const lower_options *options,
                        arena *a, kernel_way *ways, int *n, arke_error *err) {
  attention_match *m = ARENA_NEW(a, attention_match);
  attend_plan *plans = ARENA_NEW_N(a, attend_plan, COUNT_OF(variants));
  arke_status status;
  if (!m || !plans) return error_memory(err, STAGE);
  *n = 0;
  template_reason reason = attend_fit(p, t, a, m, NULL, &status);
  if (status == ARKE_ERR_MEMORY) return error_memory(err, STAGE);
  for (int i = 0; i < (int)COUNT_OF(variants) && reason == TEMPLATE_OK; i++) {
    attend_vectors vectors;
    attend_vectors_find(m, variants[i].copied && !is_unchecked(m, options), &vectors);
    if (vectors.copied != variants[i].copied) continue;
    config narrow = narrow_config(c);
    reason = attend_plan_make(m, &vectors, t, *n > 0 ? &narrow : c, &plans[i]);
    set_options(&plans[i], options);
    if (reason == TEMPLATE_OK) TRY(make_way(&plans[i], i, a, &ways[(*n)++], err));
  }
  if (reason == TEMPLATE_OK) return ARKE_OK;
  return error_set(err, ARKE_ERR_UNSUPPORTED, STAGE, "configuration not feasible: %s",
                   template_reason_text(reason));
}

arke_status attend_lower(const ir_problem *p, const target *t, const config *c, const lower_options *options,
                         arena *a, lowered *out, arke_error *err) {
  kernel_way ways[KERNEL_MAX_WAYS];
  int n;
  TRY(attend_ways(p, t, c, options, a, ways, &n, err));
  return kernel_lower_ways(ways, n, t, options, a, out, err);
}
