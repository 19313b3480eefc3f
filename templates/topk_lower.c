/* How top-k is launched: one kernel, or one for the parts of rows and one for their winners. */
#include "templates/topk.h"

typedef struct topk_lowering {
  topk_plan plans[2]; /* selecting, merging */
  topk_emitter emitters[2];
  kernel_launch launches[2];
  recipe rules;
  const recipe_expr *rows, *size, *winners;
  const lower_options *options; /* may be NULL */
} topk_lowering;

static const recipe_expr *mul(arena *a, const recipe_expr *x, const recipe_expr *y) {
  return recipe_binary(a, RECIPE_MUL, x, y);
}

static const recipe_expr *ceildiv(arena *a, const recipe_expr *x, int64_t y) {
  return recipe_binary(a, RECIPE_CEILDIV, x, recipe_const(a, y));
}

/* Winners of all parts of all rows, times `bytes`. */
static const recipe_expr *parts_bytes(topk_lowering *l, int64_t bytes, arena *a) {
  return mul(a, mul(a, l->rows, l->winners), recipe_const(a, l->plans[0].split * bytes));
}

static void declare_out(topk_lowering *l, bool dense, topk_emitter *e, kernel_args *args, arena *a) {
  const ir_form *form = &l->plans[0].match->form;
  e->out = (lanes_options){.loop = -1, .width = 1, .dense = dense, .wide_offsets = true};
  e->out.check_indices = l->options && l->options->check_indices;
  lanes_declare(form, &e->out, args, &e->out_slots);
  lanes_require(form, &e->out, &l->rules, a);
}

/* Accesses that every candidate has one of. */
static uint64_t touched_once(const topk_match *m) {
  uint64_t once = 0;
  for (int i = 0; i < m->form.n_accesses; i++) {
    const ir_access *x = &m->form.accesses[i];
    unsigned free = 0, all = 1u << m->along;
    for (int s = 0; s < x->n; s++) free |= ir_form_free(&m->form, x->subscripts[s].e);
    for (int k = 0; k < m->n_outer; k++) all |= 1u << m->outer[k];
    if ((free & all) == all) once |= UINT64_C(1) << i;
  }
  return once;
}

static void declare_in(topk_lowering *l, bool dense, topk_emitter *e, kernel_args *args, arena *a) {
  const topk_plan *p = e->plan;
  const ir_form *form = &p->match->form;
  e->in = (lanes_options){.loop = p->match->along,
                          .width = p->vector,
                          .dense = dense,
                          .wide_offsets = true, /* one index for all strips, constants apart */
                          .streamed = touched_once(p->match),
                          .loads = p->loads,
                          .fast_math = l->options && l->options->fast_math,
                          .check_indices = l->options && l->options->check_indices};
  if (p->vector > 1) e->in.wide = lanes_wide(form, &e->in);
  lanes_declare(form, &e->in, args, &e->in_slots);
  lanes_require(form, &e->in, &l->rules, a);
}

/* Kernel `which` of the row's two, or the only one. */
static void add_kernel(topk_lowering *l, int which, int way, bool dense, arena *a) {
  const topk_plan *p = &l->plans[which];
  bool split = l->plans[0].split > 1, merging = which == 1, ends = merging || !split;
  topk_emitter *e = &l->emitters[which];
  kernel_launch *k = &l->launches[which];
  const recipe_expr *size = l->size;
  if (merging) size = mul(a, l->winners, recipe_const(a, l->plans[0].split));
  *k = (kernel_launch){.name = arena_printf(a, "%s_%d", merging ? "topk_merge" : "topk_select", way),
                       .threads = p->threads,
                       .min_ctas_per_sm = p->resident ? p->resident / p->threads : 1,
                       .cluster = {1, 1, 1},
                       .smem_bytes = recipe_const(a, topk_layout_of(p).bytes),
                       .early_start = true,
                       .args = {.a = a},
                       .emit = p->select == TOPK_BY_BUFFER ? topk_emit_buffer : topk_emit_lists,
                       .user = e};
  k->grid[0] =
      p->select == TOPK_BY_WARP ? ceildiv(a, l->rows, p->warps) : mul(a, l->rows, recipe_const(a, p->split));
  *e = (topk_emitter){.plan = p, .merging = merging, .to_keys = -1, .a = a};
  if (!merging) declare_in(l, dense, e, &k->args, a);
  if (ends) declare_out(l, dense, e, &k->args, a);
  e->size = kernel_args_i32(&k->args, size);
  e->winners = kernel_args_i32(&k->args, l->winners);
  if (p->select == TOPK_BY_WARP) e->rows = kernel_args_i32(&k->args, l->rows);
  for (int i = 1; i < p->match->n_outer; i++)
    e->outer_size[i] = kernel_args_i32(&k->args, kernel_extent(&p->match->form, p->match->outer[i], a));
  if (split) {
    /* Parts are whole vectors. */
    const recipe_expr *part =
        mul(a, ceildiv(a, size, (int64_t)p->split * p->vector), recipe_const(a, p->vector));
    int keys = kernel_args_workspace(&k->args, recipe_const(a, 0));
    int places = kernel_args_workspace(&k->args, parts_bytes(l, 8, a));
    if (merging) {
      e->from_keys = keys;
      e->from_places = places;
    } else {
      e->part = kernel_args_i32(&k->args, part);
      e->to_keys = keys;
      e->to_places = places;
    }
  }
  kernel_require(&l->rules, a, k->grid[0], 0, INT32_MAX, "there are more rows than a grid can have blocks");
}

static arke_status add_way(const topk_plan *plan, bool dense, const lower_options *options, arena *a,
                           kernel_way *ways, int *n, arke_error *err) {
  const topk_match *m = plan->match;
  topk_lowering *l = ARENA_NEW(a, topk_lowering);
  if (!l) return error_memory(err, "generate");
  l->plans[0] = *plan;
  l->plans[1] = topk_merging_plan(plan);
  l->options = options;
  l->rules.n_tensors = m->form.problem->op->n_args;
  l->rows = recipe_const(a, 1);
  for (int i = 0; i < m->n_outer; i++) l->rows = mul(a, l->rows, kernel_extent(&m->form, m->outer[i], a));
  l->size = kernel_extent(&m->form, m->along, a);
  l->winners = kernel_extent(&m->form, m->rank, a);
  add_kernel(l, 0, *n, dense, a);
  if (plan->split > 1) {
    add_kernel(l, 1, *n, dense, a);
    l->rules.workspace_bytes = parts_bytes(l, plan->wide_item ? 12 : 8, a);
  }
  kernel_require(&l->rules, a, l->winners, 0, plan->keep, "the kernel keeps no more winners");
  kernel_require(&l->rules, a, l->size, 0, INT32_MAX - (1 << 20), "positions have 32 bits");
  if (plan->vector > 1)
    kernel_require(&l->rules, a, l->size, plan->vector, 0, "elements are taken several at a time");
  if (!l->launches[0].name || (plan->split > 1 && !l->launches[1].name)) return error_memory(err, "generate");
  ways[(*n)++] = (kernel_way){.launches = l->launches, .n = plan->split > 1 ? 2 : 1, .rules = &l->rules};
  return ARKE_OK;
}

arke_status topk_ways(const ir_problem *p, const target *t, const config *c, const lower_options *o, arena *a,
                      kernel_way *ways, int *n, arke_error *err) {
  topk_plan plan;
  topk_match *match = ARENA_NEW(a, topk_match);
  if (!match) return error_memory(err, "generate");
  *n = 0;
  arke_error why = ARKE_ERROR_INIT;
  template_reason reason = topk_fit(p, t, a, match, NULL, &why);
  if (why.code != ARKE_OK) return error_set(err, why.code, "generate", "%s", why.text);
  if (reason == TEMPLATE_OK) reason = topk_plan_make(match, t, c, &plan);
  if (reason != TEMPLATE_OK)
    return error_set(err, ARKE_ERR_UNSUPPORTED, "generate", "%s", template_reason_text(reason));
  TRY(add_way(&plan, true, o, a, ways, n, err));
  /* Rows apart, but each as wide as before. */
  if (plan.vector > 1 && match->n_outer > 0) TRY(add_way(&plan, false, o, a, ways, n, err));
  /* Any strides, element by element. */
  topk_plan any = plan;
  any.vector = 1;
  return add_way(&any, false, o, a, ways, n, err);
}

arke_status topk_lower(const ir_problem *p, const target *t, const config *c, const lower_options *options,
                       arena *a, lowered *out, arke_error *err) {
  kernel_way ways[KERNEL_MAX_WAYS];
  int n;
  *out = (lowered){0};
  TRY(topk_ways(p, t, c, options, a, ways, &n, err));
  return kernel_lower_ways(ways, n, t, options, a, out, err);
}
