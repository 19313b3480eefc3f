/* Kernels of a product and how they are launched. */
#include "templates/mma.h"

#define STAGE "generate"

static int index_arg(const mma_plan *p, kernel_args *args, const recipe_expr *e) {
  return p->wide_offsets ? kernel_args_i64(args, e) : kernel_args_i32(args, e);
}

static const recipe_expr *ceildiv(arena *a, const recipe_expr *x, int64_t y) {
  return recipe_binary(a, RECIPE_CEILDIV, x, recipe_const(a, y));
}

static const recipe_expr *product(arena *a, const recipe_expr *x, const recipe_expr *y) {
  return recipe_binary(a, RECIPE_MUL, x, y);
}

/* What a kernel's expressions read, beside the tensors. */
static void declare(mma_kernel *k, kernel_args *args, bool loads) {
  const mma_plan *p = k->p;
  const contraction *c = p->c;
  arena *a = k->a;
  for (int i = 0; loads && i < c->n_operands; i++)
    lanes_declare(&c->form, &p->tiles[i].options, args, &k->tile_slots[i]);
  lanes_declare(&c->form, &p->epilogue, args, &k->epilogue_slots);
  k->m = index_arg(p, args, contraction_extent_recipe(c, &c->m, a));
  k->n = index_arg(p, args, contraction_extent_recipe(c, &c->n, a));
  k->k = index_arg(p, args, contraction_extent_recipe(c, &c->k, a));
  k->batches = index_arg(p, args, contraction_extent_recipe(c, &c->batch, a));
  for (int l = 0; l < c->form.n_loops; l++) k->extents[l] = index_arg(p, args, kernel_extent(&c->form, l, a));
}

static const recipe_expr *partials_bytes(const mma_plan *p, arena *a) {
  const contraction *c = p->c;
  const recipe_expr *e = contraction_extent_recipe(c, &c->batch, a);
  e = product(a, product(a, e, contraction_extent_recipe(c, &c->m, a)),
              contraction_extent_recipe(c, &c->n, a));
  return product(a, e, recipe_const(a, (int64_t)p->split * c->n_sums * mma_sum_bytes(p)));
}

static arke_status make_product(const mma_plan *p, const char *name, arena *a, kernel_launch *l,
                                arke_error *err) {
  const contraction *c = p->c;
  mma_kernel *k = ARENA_NEW(a, mma_kernel);
  if (!k) return error_memory(err, STAGE);
  *k = (mma_kernel){.p = p, .a = a, .to_partials = p->split > 1};
  *l = (kernel_launch){.name = name,
                       .threads = p->threads,
                       .smem_bytes = recipe_const(a, p->smem_bytes),
                       .early_start = true,
                       .args = {.a = a},
                       .emit = mma_emit,
                       .user = k};
  declare(k, &l->args, true);
  const recipe_expr *steps = ceildiv(a, contraction_extent_recipe(c, &c->k, a), p->block_k);
  const recipe_expr *tiles_m = c->groups.of ? group_tiles_most(&c->form, &c->groups, p->block_m, a)
                                            : ceildiv(a, contraction_extent_recipe(c, &c->m, a), p->block_m);
  const recipe_expr *tiles_n = ceildiv(a, contraction_extent_recipe(c, &c->n, a), p->block_n);
  k->steps = kernel_args_i32(&l->args, steps);
  k->tiles_m = kernel_args_i32(&l->args, tiles_m);
  k->tiles_n = kernel_args_i32(&l->args, tiles_n);
  l->grid[0] = product(a, product(a, tiles_m, tiles_n), contraction_extent_recipe(c, &c->batch, a));
  if (c->rows.n > 0 && !c->rows.whole) k->partials = kernel_args_workspace(&l->args, recipe_const(a, 0));
  if (p->split > 1) {
    k->steps_each = kernel_args_i32(&l->args, ceildiv(a, steps, p->split));
    k->partials = kernel_args_workspace(&l->args, recipe_const(a, 0));
    l->grid[0] = product(a, l->grid[0], recipe_const(a, p->split));
  }
  const recipe_expr *twice = product(a, l->grid[0], recipe_const(a, 2));
  k->crowd = kernel_args_i32(&l->args, recipe_binary(a, RECIPE_CEILDIV, twice, recipe_var(a, "SMS")));
  return l->grid[0] ? ARKE_OK : error_memory(err, STAGE);
}

static arke_status make_combine(const mma_plan *p, const char *name, arena *a, kernel_launch *l,
                                arke_error *err) {
  const contraction *c = p->c;
  mma_kernel *k = ARENA_NEW(a, mma_kernel);
  if (!k) return error_memory(err, STAGE);
  *k = (mma_kernel){.p = p, .a = a};
  *l = (kernel_launch){.name = name,
                       .threads = MMA_COMBINE_THREADS,
                       .early_start = true,
                       .args = {.a = a},
                       .emit = mma_combine_emit,
                       .user = k};
  declare(k, &l->args, false);
  const recipe_expr *runs = contraction_extent_recipe(c, &c->n, a);
  if (p->epilogue.width > 1) runs = recipe_binary(a, RECIPE_DIV, runs, recipe_const(a, p->epilogue.width));
  const recipe_expr *items = product(a, product(a, runs, contraction_extent_recipe(c, &c->m, a)),
                                     contraction_extent_recipe(c, &c->batch, a));
  k->runs = index_arg(p, &l->args, runs);
  k->items = index_arg(p, &l->args, items);
  k->partials = kernel_args_workspace(&l->args, recipe_const(a, 0));
  l->grid[0] = ceildiv(a, items, MMA_COMBINE_THREADS);
  return l->grid[0] ? ARKE_OK : error_memory(err, STAGE);
}

/* --- rules --- */

static void require_multiple(const mma_plan *p, const lanes_options *o, recipe *rules, arena *a) {
  if (o->width > 1)
    kernel_require(rules, a, kernel_extent(&p->c->form, o->loop, a), o->width, 0,
                   "elements are taken several at a time");
}

static arke_status make_rules(const mma_plan *p, const kernel_launch *l, int n, arena *a, recipe **rules,
                              arke_error *err) {
  const contraction *c = p->c;
  recipe *r = *rules = ARENA_NEW(a, recipe);
  if (!r) return error_memory(err, STAGE);
  r->n_tensors = c->form.problem->op->n_args;
  for (int i = 0; i < c->n_operands; i++) {
    lanes_require(&c->form, &p->tiles[i].options, r, a);
    require_multiple(p, &p->tiles[i].options, r, a);
  }
  lanes_require(&c->form, &p->epilogue, r, a);
  require_multiple(p, &p->epilogue, r, a);
  for (int i = 0; i < n; i++)
    kernel_require(r, a, l[i].grid[0], 0, INT32_MAX, "there are more tiles than a grid can have blocks");
  if (c->groups.of) group_tiles_require(&c->form, &c->groups, r, a);
  if (p->product.most_k > 0)
    kernel_require(r, a, contraction_extent_recipe(c, &c->k, a), 0, p->product.most_k,
                   "sums of more terms than these overflow 32 bits");
  if (c->rows.n > 0) lanes_require(&c->form, &p->row_parts.options, r, a);
  if (c->rows.whole) product_row_require_whole(c, p->block_n, r, a);
  bool parts = c->rows.n > 0 && !c->rows.whole;
  if (p->split == 1 && !parts) return ARKE_OK;
  r->workspace_bytes = parts ? product_rows_bytes(&p->row_parts, a) : partials_bytes(p, a);
  return r->workspace_bytes ? ARKE_OK : error_memory(err, STAGE);
}

/* --- ways --- */

static const struct {
  const char *name, *combine;
  bool dense, wide;
} variants[] = {{"mma", "mma_combine", true, true},
                {"mma_rows", "mma_rows_combine", false, true},
                {"mma_any", "mma_any_combine", false, false}};

static arke_status make_way(const mma_plan *p, int variant, arena *a, kernel_way *way, arke_error *err) {
  kernel_launch *l = ARENA_NEW_N(a, kernel_launch, 2);
  recipe *rules;
  if (!l) return error_memory(err, STAGE);
  bool rows = p->c->rows.n > 0 && !p->c->rows.whole;
  int n = p->split > 1 || rows ? 2 : 1;
  TRY(make_product(p, variants[variant].name, a, &l[0], err));
  if (rows) TRY(product_rows_make_combine(&p->row_parts, variants[variant].combine, a, &l[1], err));
  if (p->split > 1) TRY(make_combine(p, variants[variant].combine, a, &l[1], err));
  TRY(make_rules(p, l, n, a, &rules, err));
  *way = (kernel_way){.launches = l, .n = n, .rules = rules};
  return ARKE_OK;
}

/* Whether any access of the plan is a vector: else the way for rows is that for any strides. */
static bool has_vectors(const mma_plan *p) {
  bool any = p->epilogue.width > 1;
  for (int i = 0; i < p->c->n_operands; i++) any = any || p->tiles[i].options.width > 1;
  return any;
}

static void set_options(mma_plan *p, const lower_options *o) {
  for (int i = 0; i < p->c->n_operands + 2; i++) {
    lanes_options *others[] = {&p->epilogue, &p->row_parts.options};
    lanes_options *x = i < p->c->n_operands ? &p->tiles[i].options : others[i - p->c->n_operands];
    x->fast_math = o && o->fast_math;
    x->check_indices = o && o->check_indices;
  }
  /* A copy does not look at what it copies: rows at gathered places are tested on their way through
   * registers.
   */
  for (int i = 0; o && o->check_indices && i < p->c->n_operands; i++) {
    const contraction_operand *operand = &p->c->operands[i];
    if (operand->access >= 0 && operand->accesses != UINT64_C(1) << operand->access)
      p->tiles[i].copied = false;
  }
}

arke_status mma_ways(const ir_problem *p, const target *t, const config *c, const lower_options *o, arena *a,
                     kernel_way *ways, int *n, arke_error *err) {
  contraction *matches = ARENA_NEW_N(a, contraction, 2);
  mma_plan *plans = ARENA_NEW_N(a, mma_plan, COUNT_OF(variants));
  if (!matches || !plans) return error_memory(err, STAGE);
  *n = 0;
  for (int i = 0; i < (int)COUNT_OF(variants); i++) {
    bool dense = variants[i].dense;
    contraction *m = &matches[dense];
    template_reason reason = TEMPLATE_OK;
    if (i < 2) {
      arke_status status;
      reason = contraction_match_more(p, dense, MMA_CONTRACTIONS, a, m, NULL, &status);
      if (status == ARKE_ERR_MEMORY) return error_memory(err, STAGE);
    }
    config narrow = mma_narrow_config(m, c, &plans[0].product);
    if (reason == TEMPLATE_OK)
      reason = mma_plan_make(m, t, variants[i].wide ? c : &narrow, dense, variants[i].wide, &plans[i]);
    if (reason != TEMPLATE_OK && i == 1) continue;
    if (reason != TEMPLATE_OK)
      return error_set(err, ARKE_ERR_UNSUPPORTED, STAGE, "%s", template_reason_text(reason));
    if (i == 1 && !has_vectors(&plans[i])) continue;
    set_options(&plans[i], o);
    TRY(make_way(&plans[i], i, a, &ways[(*n)++], err));
  }
  return ARKE_OK;
}

arke_status mma_lower(const ir_problem *p, const target *t, const config *c, const lower_options *options,
                      arena *a, lowered *out, arke_error *err) {
  kernel_way ways[KERNEL_MAX_WAYS];
  int n;
  TRY(mma_ways(p, t, c, options, a, ways, &n, err));
  return kernel_lower_ways(ways, n, t, options, a, out, err);
}
