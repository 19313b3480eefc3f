/* Kernels of a column reduction and how they are launched. */
#include "templates/column.h"

/* --- recipe expressions --- */

static const recipe_expr *positions_of(const column_plan *p, arena *a) {
  const ir_form *form = &p->m->form;
  const recipe_expr *e =
      recipe_binary(a, RECIPE_CEILDIV, kernel_extent(form, p->m->v, a), recipe_const(a, p->vector));
  for (int i = 0; i < p->m->n_kept; i++)
    e = recipe_binary(a, RECIPE_MUL, e, kernel_extent(form, p->m->kept[i], a));
  return e;
}

static const recipe_expr *rows_of(const column_plan *p, arena *a) {
  const recipe_expr *e = kernel_extent(&p->m->form, p->m->rows[0], a);
  for (int i = 1; i < p->m->n_rows; i++)
    e = recipe_binary(a, RECIPE_MUL, e, kernel_extent(&p->m->form, p->m->rows[i], a));
  return e;
}

/* Bytes before the partial values i of reduction k, and with k past the last of all of them. */
static const recipe_expr *partials_offset(const column_plan *p, int k, int i, arena *a) {
  const recipe_expr *e = recipe_const(a, 0);
  for (int q = 0; q <= k && q < p->m->n_reductions; q++) {
    const reduction *r = &p->m->reductions[q].r;
    for (int x = 0; x < (q == k ? i : reduction_values(r)); x++) {
      const recipe_expr *each = recipe_const(a, (int64_t)p->split * p->vector * column_bytes(r, x));
      const recipe_expr *bytes = recipe_binary(a, RECIPE_MUL, positions_of(p, a), each);
      /* Regions begin at multiples of 256. */
      bytes = recipe_binary(a, RECIPE_CEILDIV, bytes, recipe_const(a, 256));
      e = recipe_binary(a, RECIPE_ADD, e, recipe_binary(a, RECIPE_MUL, bytes, recipe_const(a, 256)));
    }
  }
  return e;
}

/* --- a kernel --- */

static int index_arg(const column_plan *p, kernel_args *args, const recipe_expr *e) {
  return p->wide_offsets ? kernel_args_i64(args, e) : kernel_args_i32(args, e);
}

static arke_status make_launch(const char *name, const column_plan *plan, bool from, bool to,
                               const lower_options *o, arena *a, kernel_launch *l, arke_error *err) {
  column_kernel *k = ARENA_NEW(a, column_kernel);
  if (!k) return error_memory(err, "generate");
  *k = (column_kernel){.plan = *plan, .from_partials = from, .to_partials = to, .a = a};
  const column_plan *p = &k->plan;
  const ir_form *form = &p->m->form;
  k->options = (lanes_options){.loop = p->m->v,
                               .width = p->vector,
                               .dense = p->dense,
                               .wide_offsets = p->wide_offsets,
                               .fast_math = o && o->fast_math,
                               .check_indices = o && o->check_indices,
                               .user = k,
                               .reduce = column_value};
  k->options.wide = lanes_wide(form, &k->options);
  *l = (kernel_launch){.name = name,
                       .threads = p->threads,
                       .early_start = true,
                       .args = {.a = a},
                       .emit = column_emit,
                       .user = k};
  lanes_declare(form, &k->options, &l->args, &k->slots);
  const recipe_expr *positions = positions_of(p, a), *rows = rows_of(p, a);
  const recipe_expr *tiles = recipe_binary(a, RECIPE_CEILDIV, positions, recipe_const(a, p->across));
  k->positions = index_arg(p, &l->args, positions);
  k->chunks = index_arg(
      p, &l->args,
      recipe_binary(a, RECIPE_CEILDIV, kernel_extent(form, p->m->v, a), recipe_const(a, p->vector)));
  for (int i = 1; i < p->m->n_kept; i++)
    k->kept[i] = index_arg(p, &l->args, kernel_extent(form, p->m->kept[i], a));
  l->grid[0] = tiles;
  if (!from) k->rows = index_arg(p, &l->args, rows);
  bool shares = to || p->cluster;
  if (p->cluster) l->cluster[0] = p->split;
  if (to) k->tiles = kernel_args_i32(&l->args, tiles);
  if (shares) {
    k->rows_per_split =
        index_arg(p, &l->args, recipe_binary(a, RECIPE_CEILDIV, rows, recipe_const(a, p->split)));
    l->grid[0] = recipe_binary(a, RECIPE_MUL, tiles, recipe_const(a, p->split));
  }
  for (int q = 0; (from || to) && q < p->m->n_reductions; q++) {
    for (int i = 0; i < reduction_values(&p->m->reductions[q].r); i++)
      k->partials[q][i] = kernel_args_workspace(&l->args, partials_offset(p, q, i, a));
  }
  return l->grid[0] ? ARKE_OK : error_memory(err, "generate");
}

static arke_status make_rules(const column_plan *p, const kernel_launch *launches, arena *a, recipe **rules,
                              arke_error *err) {
  const column_kernel *k = launches[0].user;
  recipe *r = *rules = ARENA_NEW(a, recipe);
  if (!r) return error_memory(err, "generate");
  r->n_tensors = p->m->form.problem->op->n_args;
  lanes_require(&p->m->form, &k->options, r, a);
  if (p->vector > 1) /* rows may lie apart so that each begins at a multiple, whatever they have */
    kernel_require(r, a, kernel_extent(&p->m->form, p->m->v, a), p->vector, 0,
                   arena_printf(a, "a thread has %d neighbouring columns", p->vector));
  kernel_require(r, a, launches[0].grid[0], 0, INT32_MAX,
                 "there are more columns than a grid can have blocks");
  if (p->split == 1 || p->cluster) return ARKE_OK;
  r->workspace_bytes = partials_offset(p, p->m->n_reductions, 0, a);
  return r->workspace_bytes ? ARKE_OK : error_memory(err, "generate");
}

static arke_status make_way(const char *name, const char *finish, const column_plan *p,
                            const lower_options *o, arena *a, kernel_way *way, arke_error *err) {
  kernel_launch *l = ARENA_NEW_N(a, kernel_launch, 2);
  recipe *rules;
  if (!l) return error_memory(err, "generate");
  int n = p->split > 1 && !p->cluster ? 2 : 1;
  TRY(make_launch(name, p, false, n > 1, o, a, &l[0], err));
  if (n > 1) {
    column_plan f = column_finish_plan(p);
    TRY(make_launch(finish, &f, true, false, o, a, &l[1], err));
  }
  TRY(make_rules(p, l, a, &rules, err));
  *way = (kernel_way){.launches = l, .n = n, .rules = rules};
  return ARKE_OK;
}

static const struct {
  const char *name, *finish;
  bool dense, wide;
} variants[] = {{"column", "column_finish", true, true},
                {"column_rows", "column_rows_finish", false, true},
                {"column_any", "column_any_finish", false, false}};

arke_status column_ways(const ir_problem *p, const target *t, const config *c, const lower_options *o,
                        arena *a, kernel_way *ways, int *n, arke_error *err) {
  column_match *m = ARENA_NEW_N(a, column_match, 2);
  if (!m) return error_memory(err, "generate");
  *n = 0;
  for (size_t i = 0; i < COUNT_OF(variants); i++) {
    column_match *match = &m[variants[i].dense];
    column_plan plan;
    config narrow = *c;
    if (!variants[i].wide) narrow.values[COLUMN_VECTOR] = 1;
    if (i != 2) {
      arke_status status;
      template_reason reason = column_match_make(p, variants[i].dense, a, match, NULL, &status);
      if (status == ARKE_ERR_MEMORY) return error_memory(err, "generate");
      if (reason != TEMPLATE_OK && i == 0)
        return error_set(err, ARKE_ERR_UNSUPPORTED, "generate", "%s", template_reason_text(reason));
      if (reason != TEMPLATE_OK) break;
    }
    /* The element-wise way is also the one for rows of any pitch where elements were not taken together. */
    if (i == 1 && c->values[COLUMN_VECTOR] == 1) continue;
    template_reason reason = column_make_plan(match, t, &narrow, variants[i].dense, &plan);
    if (reason != TEMPLATE_OK && i == 1) continue;
    if (reason != TEMPLATE_OK)
      return error_set(err, ARKE_ERR_UNSUPPORTED, "generate", "%s", template_reason_text(reason));
    TRY(make_way(variants[i].name, variants[i].finish, &plan, o, a, &ways[(*n)++], err));
  }
  return ARKE_OK;
}

arke_status column_lower(const ir_problem *p, const target *t, const config *c, const lower_options *options,
                         arena *a, lowered *out, arke_error *err) {
  kernel_way ways[KERNEL_MAX_WAYS];
  int n;
  TRY(column_ways(p, t, c, options, a, ways, &n, err));
  return kernel_lower_ways(ways, n, t, options, a, out, err);
}
