/* Kernels of a transpose and how they are launched: for whole tiles, for tensors without gaps, for rows of
 * any pitch, for any strides. */
#include "templates/plain_move.h"
#include "templates/transpose.h"

static void require_even(const transpose_plan *p, recipe *r, arena *a) {
  static const char why[] = "the kernel is made for whole tiles";
  const recipe_expr *u = kernel_extent(p->form, p->match.u, a), *v = kernel_extent(p->form, p->match.v, a);
  kernel_require(r, a, u, p->tile_u, 0, why);
  kernel_require(r, a, v, p->tile_v, 0, why);
  if (p->tiles != TRANSPOSE_EACH_TILE || p->n_outer > 0) return;
  kernel_require(r, a, p->along_u ? v : u, 0,
                 (int64_t)TRANSPOSE_GRID_Y * (p->along_u ? p->tile_v : p->tile_u), why);
}

/* Words are aligned in memory as they are in the tensor. */
static void require_aligned(const transpose_plan *p, recipe *r) {
  int bytes = p->load * p->bytes[0];
  const ir_form *form = p->form;
  for (int i = 0; i < form->n_accesses; i++) {
    recipe_tensor_rule *rule = &r->tensors[form->accesses[i].tensor];
    if ((p->match.turned >> i & 1 || i == form->outputs[0].access) && rule->alignment < bytes)
      rule->alignment = bytes;
  }
}

/* Rows may lie apart so that each begins at a multiple, whatever they have. */
static void require_whole(const ir_form *form, int loop, int width, recipe *r, arena *a) {
  if (width > 1)
    kernel_require(r, a, kernel_extent(form, loop, a), width, 0,
                   arena_printf(a, "a thread has %d neighbours along %s", width, form->loops[loop].name));
}

static recipe *make_rules(const transpose_kernel *k, const recipe_expr *tiles, arena *a) {
  recipe *r = ARENA_NEW(a, recipe);
  if (!r) return NULL;
  r->n_tensors = k->plan.form->problem->op->n_args;
  lanes_require(k->plan.form, &k->load_options, r, a);
  lanes_require(k->plan.form, &k->store_options, r, a);
  kernel_require(r, a, tiles, 0, INT32_MAX, "there are more tiles than a grid can have blocks");
  require_whole(k->plan.form, k->plan.match.u, k->load_options.width, r, a);
  require_whole(k->plan.form, k->plan.match.v, k->store_options.width, r, a);
  if (k->plan.even) require_even(&k->plan, r, a);
  if (k->plan.shifted) require_aligned(&k->plan, r);
  return r;
}

static const recipe_expr *tiles_of(const transpose_plan *p, int loop, int tile, arena *a) {
  return recipe_binary(a, RECIPE_CEILDIV, kernel_extent(p->form, loop, a), recipe_const(a, tile));
}

static arke_status make_way(const char *name, const transpose_plan *plan, const target *t,
                            const lower_options *o, arena *a, kernel_way *way, arke_error *err) {
  transpose_kernel *k = ARENA_NEW(a, transpose_kernel);
  kernel_launch *l = ARENA_NEW(a, kernel_launch);
  if (!k || !l) return error_memory(err, "generate");
  k->plan = *plan;
  k->a = a;
  const transpose_plan *p = &k->plan;
  *l = (kernel_launch){.name = name,
                       .threads = p->threads,
                       .smem_bytes = recipe_const(a, p->smem_bytes),
                       .early_start = true,
                       .args = {.a = a},
                       .emit = transpose_emit,
                       .user = k};
  k->load_options = (lanes_options){.loop = p->match.u,
                                    .width = p->shifted ? 1 : p->load,
                                    .dense = p->dense,
                                    .wide_offsets = p->wide_offsets,
                                    .fast_math = o && o->fast_math,
                                    .check_indices = o && o->check_indices};
  k->load_options.wide = lanes_wide(p->form, &k->load_options) & p->match.turned;
  k->store_options = (lanes_options){.loop = p->match.v,
                                     .width = p->shifted ? 1 : p->store,
                                     .dense = p->dense,
                                     .wide_offsets = p->wide_offsets,
                                     .fast_math = k->load_options.fast_math,
                                     .check_indices = k->load_options.check_indices,
                                     .user = k,
                                     .given = p->match.turned,
                                     .read = transpose_read};
  k->store_options.wide = lanes_wide(p->form, &k->store_options) & ~p->match.turned;
  lanes_declare(p->form, &k->load_options, &l->args, &k->load_slots);
  lanes_declare(p->form, &k->store_options, &l->args, &k->store_slots);
  const recipe_expr *tiles_u = tiles_of(p, p->match.u, p->tile_u, a),
                    *tiles_v = tiles_of(p, p->match.v, p->tile_v, a);
  const recipe_expr *tiles = recipe_binary(a, RECIPE_MUL, tiles_u, tiles_v);
  k->tiles_u = kernel_args_i32(&l->args, tiles_u);
  k->tiles_v = kernel_args_i32(&l->args, tiles_v);
  for (int i = 0; i < p->n_outer; i++) {
    const recipe_expr *extent = kernel_extent(p->form, p->outer[i], a);
    tiles = recipe_binary(a, RECIPE_MUL, tiles, extent);
    k->outer[i] = kernel_args_i32(&l->args, extent);
  }
  for (int i = 0; i < p->n_turned && p->shifted; i++) {
    int tensor = p->form->accesses[p->access[i]].tensor;
    k->span[i] = kernel_args_i64(&l->args, kernel_variable(p->form->problem->op, tensor, "span", -1, a));
  }
  l->grid[0] = tiles;
  if (p->tiles == TRANSPOSE_EACH_TILE && p->n_outer == 0) {
    const recipe_expr *slow = p->along_u ? tiles_v : tiles_u;
    l->grid[0] = p->along_u ? tiles_u : tiles_v;
    l->grid[1] = recipe_binary(a, RECIPE_MIN, slow, recipe_const(a, TRANSPOSE_GRID_Y));
    l->grid[2] = recipe_binary(a, RECIPE_CEILDIV, slow, recipe_const(a, TRANSPOSE_GRID_Y));
    if (!l->grid[1] || !l->grid[2]) return error_memory(err, "generate");
  }
  if (p->apart || (p->even && p->tiles == TRANSPOSE_EACH_TILE)) l->min_ctas_per_sm = transpose_resident(p, t);
  if (p->tiles != TRANSPOSE_EACH_TILE) {
    int resident = transpose_resident(p, t);
    k->tiles = kernel_args_i32(&l->args, tiles);
    l->min_ctas_per_sm = resident;
    l->grid[0] = recipe_binary(a, RECIPE_MIN, tiles,
                               recipe_binary(a, RECIPE_MUL, recipe_var(a, "SMS"), recipe_const(a, resident)));
  }
  recipe *rules = make_rules(k, tiles, a);
  if (!rules || !l->grid[0] || !l->smem_bytes) return error_memory(err, "generate");
  *way = (kernel_way){.launches = l, .n = 1, .rules = rules};
  return ARKE_OK;
}

/* Ways from the fastest to the most general. */
static const struct {
  const char *name;
  bool dense, wide;
} variants[] = {{"transpose", true, true}, {"transpose_rows", false, true}, {"transpose_any", false, false}};

/* Any strides: element by element, through a tile that every dtype has room for. */
static const config any_config = {.values = {[TRANSPOSE_TILE_X] = 32,
                                             [TRANSPOSE_TILE_Y] = 32,
                                             [TRANSPOSE_THREADS] = 256,
                                             [TRANSPOSE_VECTOR] = 4,
                                             [TRANSPOSE_RASTER] = 1}};

arke_status transpose_ways(const ir_problem *p, const target *t, const config *c, const lower_options *o,
                           arena *a, kernel_way *ways, int *n, arke_error *err) {
  ir_form *forms = ARENA_NEW_N(a, ir_form, 2);
  transpose_match match[2];
  ir_problem *bits = ARENA_NEW(a, ir_problem);
  if (!forms || !bits) return error_memory(err, "generate");
  TRY(ir_form_make(p, a, &forms[0], err));
  if (plain_move(&forms[0], a, bits)) TRY(ir_form_make(bits, a, &forms[0], err));
  ir_form longer;
  TRY(ir_form_drop_ones(&forms[0], a, &longer, err));
  TRY(ir_form_merge(&longer, a, &forms[1], err));
  *n = 0;
  transpose_plan plan;
  config straight = *c;
  if (c->values[TRANSPOSE_SHIFT] && transpose_match_form(&forms[1], &match[1], NULL)) {
    template_reason reason =
        transpose_make_plan(&forms[1], &match[1], t, c, true, c->values[TRANSPOSE_VECTOR], &plan);
    if (reason != TEMPLATE_OK)
      return error_set(err, ARKE_ERR_UNSUPPORTED, "generate", "%s", template_reason_text(reason));
    TRY(make_way("transpose_shifted", &plan, t, o, a, &ways[(*n)++], err));
    /* The others are for what is not aligned: their tiles have room in any case. */
    straight = any_config;
    straight.values[TRANSPOSE_VECTOR] = c->values[TRANSPOSE_VECTOR];
  }
  for (size_t i = 0; i < COUNT_OF(variants); i++) {
    int merged = variants[i].dense;
    /* Merging may turn what is no transpose into one (size-1 neighbours), never the other way round; and what
     * has nothing wide is the same as its element-wise way. */
    if (!transpose_match_form(&forms[merged], &match[merged], NULL)) continue;
    bool wide = variants[i].wide;
    template_reason reason =
        transpose_make_plan(&forms[merged], &match[merged], t, wide ? &straight : &any_config,
                            variants[i].dense, wide ? straight.values[TRANSPOSE_VECTOR] : 0, &plan);
    if (i > 0 && variants[i].wide && plan.load == 1 && plan.store == 1) continue;
    if (i > 0 && reason != TEMPLATE_OK) continue;
    if (reason != TEMPLATE_OK)
      return error_set(err, ARKE_ERR_UNSUPPORTED, "generate", "%s", template_reason_text(reason));
    transpose_plan even;
    if (i == 0 && transpose_make_even(&plan, &even))
      TRY(make_way("transpose_even", &even, t, o, a, &ways[(*n)++], err));
    TRY(make_way(variants[i].name, &plan, t, o, a, &ways[(*n)++], err));
  }
  if (*n == 0)
    return error_set(err, ARKE_ERR_UNSUPPORTED, "generate", "%s", template_reason_text(TEMPLATE_OPERATOR));
  return ARKE_OK;
}

arke_status transpose_lower(const ir_problem *p, const target *t, const config *c,
                            const lower_options *options, arena *a, lowered *out, arke_error *err) {
  kernel_way ways[KERNEL_MAX_WAYS];
  int n = 0;
  TRY(transpose_ways(p, t, c, options, a, ways, &n, err));
  return kernel_lower_ways(ways, n, t, options, a, out, err);
}
