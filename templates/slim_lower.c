/* The kernel of a product with few rows and how it is launched. */
#include "templates/copy_start.h"
#include "templates/skinny.h"
#include "templates/slim.h"

enum { SWIZZLE_128 = 3, L2_PROMOTION_256 = 3, MAP_RANK = 2 }; /* recipe_tensormap's numbers */

static const recipe_expr *ceil_div(arena *a, const recipe_expr *x, int64_t y) {
  return recipe_binary(a, RECIPE_CEILDIV, x, recipe_const(a, y));
}

static const recipe_expr *extent_of(const slim_match *m, int loop, arena *a) {
  return loop < 0 ? recipe_const(a, 1) : kernel_extent(&m->c.form, loop, a);
}

/* Elements from one line of an operand to the next; of a single one, any that copies take. */
static const recipe_expr *line_stride(const slim_plan *p, const slim_operand *o, arena *a) {
  const ir_form *form = &p->m->c.form;
  if (o->row < 0) return extent_of(p->m, p->m->k_loop, a);
  return kernel_stride(form, &form->accesses[o->access], 0, p->dense, a);
}

static void declare_maps(slim_kernel *k, kernel_args *args) {
  const slim_plan *p = &k->plan;
  const slim_match *m = p->m;
  for (int i = 0; i < m->c.n_operands; i++) {
    const slim_operand *o = &m->operands[i];
    const ir_access *x = &m->c.form.accesses[o->access];
    const recipe_expr *k_size = kernel_extent(&m->c.form, m->k_loop, k->a);
    const recipe_expr *rows = o->row < 0 ? recipe_const(k->a, 1) : kernel_size(&m->c.form, x, o->row, k->a);
    const recipe_expr *line = o->along_rows ? rows : k_size, *lines = o->along_rows ? k_size : rows;
    recipe_tensormap map = {.rank = MAP_RANK,
                            .dim = {line, lines},
                            .stride = {NULL, line_stride(p, o, k->a)},
                            .box = {SLIM_PANEL, (uint32_t)p->tiles[i].height},
                            .swizzle = SWIZZLE_128,
                            .l2_promotion = L2_PROMOTION_256};
    k->maps[i] = kernel_args_tensormap(args, o->tensor, &map);
  }
}

static arke_status make_launch(const char *name, const slim_plan *plan, const lower_options *o, arena *a,
                               kernel_launch *l, arke_error *err) {
  slim_kernel *k = ARENA_NEW(a, slim_kernel);
  if (!k) return error_memory(err, "generate");
  *k = (slim_kernel){.plan = *plan, .a = a};
  const slim_plan *p = &k->plan;
  const slim_match *m = p->m;
  k->each = slim_lanes(m, p);
  k->each.fast_math = o && o->fast_math;
  k->each.check_indices = o && o->check_indices;
  k->each.reduce = slim_value;
  k->each.user = k;
  *l = (kernel_launch){.name = name,
                       .threads = p->threads,
                       .cluster = {p->cluster, 1, 1},
                       .smem_bytes = recipe_const(a, p->smem_bytes),
                       .early_start = true,
                       .args = {.a = a},
                       .emit = slim_emit,
                       .user = k};
  const recipe_expr *tokens = contraction_extent_recipe(&m->c, m->tokens, a);
  const recipe_expr *weights = contraction_extent_recipe(&m->c, m->weights, a);
  const recipe_expr *token_tiles = ceil_div(a, tokens, p->tokens);
  declare_maps(k, &l->args);
  lanes_declare(&m->c.form, &k->each, &l->args, &k->slots);
  k->n_tokens = kernel_args_i32(&l->args, tokens);
  k->n_weights = kernel_args_i32(&l->args, weights);
  k->k_steps =
      kernel_args_i32(&l->args, ceil_div(a, contraction_extent_recipe(&m->c, &m->c.k, a), p->block_k));
  k->token_tiles = kernel_args_i32(&l->args, token_tiles);
  const recipe_expr *tiles = recipe_binary(a, RECIPE_MUL, ceil_div(a, weights, p->rows), token_tiles);
  l->grid[0] = recipe_binary(a, RECIPE_MUL, tiles, recipe_const(a, p->cluster));
  const recipe_expr *twice = recipe_binary(a, RECIPE_MUL, l->grid[0], recipe_const(a, 2));
  k->crowd = kernel_args_i32(&l->args, recipe_binary(a, RECIPE_CEILDIV, twice, recipe_var(a, "SMS")));
  return l->grid[0] && l->smem_bytes ? ARKE_OK : error_memory(err, "generate");
}

static arke_status make_rules(const slim_plan *p, const kernel_launch *l, arena *a, recipe **rules,
                              arke_error *err) {
  enum { LINE = 8, ALIGNMENT = 16, MOST = INT32_MAX - 4096 };
  const slim_kernel *k = l->user;
  const ir_form *form = &p->m->c.form;
  recipe *r = *rules = ARENA_NEW(a, recipe);
  if (!r) return error_memory(err, "generate");
  r->n_tensors = form->problem->op->n_args;
  lanes_require(form, &k->each, r, a);
  for (int i = 0; i < p->m->c.n_operands; i++) {
    const slim_operand *o = &p->m->operands[i];
    recipe_tensor_rule *rule = &r->tensors[o->tensor];
    if (rule->alignment < ALIGNMENT) rule->alignment = ALIGNMENT;
    rule->contiguous_last = true;
    rule->dense = p->dense;
    kernel_require(r, a, line_stride(p, o, a), LINE, 0, "rows must start at multiples of 16 bytes");
    copy_start_require(form, o->access, slim_tile_loops(p->m), r, a);
  }
  const int loops[] = {p->m->token_loop, p->m->row_loop, p->m->k_loop};
  for (size_t i = 0; i < COUNT_OF(loops); i++)
    kernel_require(r, a, extent_of(p->m, loops[i], a), 0, MOST, "coordinates of the kernel have 32 bits");
  if (p->width > 1)
    kernel_require(r, a, extent_of(p->m, p->m->row_loop, a), p->width, 0,
                   "rows are finished several at a time");
  kernel_require(r, a, l->grid[0], 0, INT32_MAX, "there are more rows than a grid can have blocks");
  return ARKE_OK;
}

static const struct {
  const char *name;
  bool dense;
} variants[] = {{"slim", true}, {"slim_rows", false}};

/* For what copies cannot address: another axis contiguous, rows at odd places, no K. */
static arke_status add_any_way(const ir_problem *p, const target *t, const lower_options *o, arena *a,
                               kernel_way *ways, int *n, arke_error *err) {
  kernel_way list[KERNEL_MAX_WAYS];
  config c = {.values = {[SKINNY_TOKENS] = 4,
                         [SKINNY_SLOTS] = 1,
                         [SKINNY_ACROSS] = 1,
                         [SKINNY_VECTOR] = 1,
                         [SKINNY_UNROLL] = 1,
                         [SKINNY_WARPS_N] = 1,
                         [SKINNY_WARPS_K] = 4,
                         [SKINNY_SPLIT] = 1,
                         [SKINNY_STAGES] = 1}};
  int n_list;
  TRY(skinny_ways(p, t, &c, o, a, list, &n_list, err));
  ways[(*n)++] = list[n_list - 1];
  return ARKE_OK;
}

arke_status slim_ways(const ir_problem *p, const target *t, const config *c, const lower_options *o, arena *a,
                      kernel_way *ways, int *n, arke_error *err) {
  slim_match *m = ARENA_NEW_N(a, slim_match, COUNT_OF(variants));
  kernel_launch *l = ARENA_NEW_N(a, kernel_launch, COUNT_OF(variants));
  if (!m || !l) return error_memory(err, "generate");
  *n = 0;
  for (size_t i = 0; i < COUNT_OF(variants); i++) {
    arke_status status;
    slim_plan plan;
    recipe *rules;
    template_reason reason = slim_match_make(p, variants[i].dense, a, &m[i], NULL, &status);
    if (status == ARKE_ERR_MEMORY) return error_memory(err, "generate");
    if (reason == TEMPLATE_OK) reason = slim_plan_make(&m[i], t, c, variants[i].dense, &plan);
    if (reason != TEMPLATE_OK && i > 0) break;
    if (reason != TEMPLATE_OK)
      return error_set(err, ARKE_ERR_UNSUPPORTED, "generate", "%s", template_reason_text(reason));
    TRY(make_launch(variants[i].name, &plan, o, a, &l[i], err));
    TRY(make_rules(&plan, &l[i], a, &rules, err));
    ways[(*n)++] = (kernel_way){.launches = &l[i], .n = 1, .rules = rules};
  }
  return add_any_way(p, t, o, a, ways, n, err);
}

arke_status slim_lower(const ir_problem *p, const target *t, const config *c, const lower_options *options,
                       arena *a, lowered *out, arke_error *err) {
  kernel_way ways[KERNEL_MAX_WAYS];
  int n;
  TRY(slim_ways(p, t, c, options, a, ways, &n, err));
  return kernel_lower_ways(ways, n, t, options, a, out, err);
}
