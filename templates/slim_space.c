/* The tiling space, where to start in it, and the small problem of a point. */
#include <math.h>

#include "templates/product_bound.h"
#include "templates/slim.h"

#define COUNT(...)            (int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int))
#define X(NAME, meaning, ...) [SLIM_##NAME] = {#NAME, meaning, COUNT(__VA_ARGS__), {__VA_ARGS__}},
static const space_param params[] = {SLIM_PARAMS(X)};
#undef X
const space slim_space = {"slim", SLIM_PARAM_COUNT, params};

const space *slim_space_of(const target *t) {
  (void)t;
  return &slim_space;
}

/* --- what is there already with less --- */

/* The value before a parameter's; 0: it has the least. */
static int value_below(slim_param param, int value) {
  int below = 0;
  for (int i = 0; i < params[param].n_values && params[param].values[i] < value; i++)
    below = params[param].values[i];
  return below;
}

/* What staggering does is known but for some tokens: of 8 and 16 it took up to 4 % off and added 0.6 % at
 * most, of 128 and 256, which CTAs ask for together at less cost than apart, it added 5 to 33 %. */
static bool is_known_slower(const slim_plan *p) {
  enum { FEW_TOKENS = 16, SOME_TOKENS = 64 };
  return p->staggered ? p->tokens > SOME_TOKENS : p->tokens <= FEW_TOKENS;
}

static bool is_redundant(const slim_plan *p) {
  const contraction *c = &p->m->c;
  int64_t tokens = contraction_extent(c, p->m->tokens), rows = contraction_extent(c, p->m->weights),
          k = contraction_extent(c, &c->k);
  int64_t steps = (k + p->block_k - 1) / p->block_k, each = (steps + p->cluster - 1) / p->cluster;
  int fewer_tokens = value_below(SLIM_TOKENS, p->tokens);
  int fewer_rows = p->turned ? value_below(SLIM_ROWS, p->rows) : p->rows / 2,
      fewer_stages = value_below(SLIM_STAGES, p->stages);
  return (fewer_tokens > 0 && fewer_tokens >= tokens) ||
         (fewer_rows >= (p->turned ? 1 : 64) && fewer_rows >= rows) ||
         (p->block_k > 64 && p->block_k / 2 >= k) || p->cluster > steps ||
         (fewer_stages > 0 && fewer_stages >= each) ||
         (p->loads != GEN_CACHE_DEFAULT && tokens > p->tokens); /* weights are read again */
}

typedef struct prepared {
  slim_match m;
  template_reason reason;
} prepared;

const void *slim_prepare(const ir_problem *p, const target *t, arena *a) {
  (void)t;
  prepared *made = ARENA_NEW(a, prepared);
  if (made) made->reason = slim_match_make(p, true, a, &made->m, NULL, NULL);
  return made;
}

static template_reason reason_of(const prepared *made, const target *t, const target_rates *rates,
                                 const config *c, slim_plan *plan) {
  template_reason reason = made->reason;
  if (reason == TEMPLATE_OK) reason = slim_plan_make(&made->m, t, c, true, plan);
  bool is_left_out =
      reason == TEMPLATE_OK &&
      (is_redundant(plan) || is_known_slower(plan) ||
       product_lies_unevenly(made->m.c.form.min_bytes, slim_ctas(plan), rates->sm_count, plan->alone));
  if (is_left_out) reason = TEMPLATE_REDUNDANT;
  return reason;
}

template_reason slim_check_tiles(const void *of, const target *t, const config *c) {
  const prepared *made = of;
  config plain = *c;
  slim_plan plan;
  plain.values[SLIM_STREAM] = plain.values[SLIM_STAGGER] = 0;
  template_reason reason = made->reason;
  if (reason == TEMPLATE_OK) reason = slim_plan_make(&made->m, t, &plain, true, &plan);
  return reason == TEMPLATE_OK && is_redundant(&plan) ? TEMPLATE_REDUNDANT : reason;
}

template_reason slim_judge(const void *of, const target *t, const target_rates *rates, const config *c,
                           double *ns) {
  slim_plan plan;
  template_reason reason = reason_of(of, t, rates, c, &plan);
  if (template_is_built(reason)) *ns = slim_cost_of(&plan, t, rates);
  return reason;
}

/* The products of the SM that has the most CTAs, at the full rate. */
double slim_bound_ns(const ir_problem *p, const void *of, const target *t, const target_rates *rates,
                     const config *c) {
  (void)p;
  const prepared *made = of;
  slim_plan plan;
  if (!c || made->reason != TEMPLATE_OK || slim_plan_make(&made->m, t, c, true, &plan) != TEMPLATE_OK)
    return 0;
  const contraction *product = &made->m.c;
  double ctas = ceil((double)contraction_extent(product, made->m.weights) / plan.rows) *
                ceil((double)contraction_extent(product, made->m.tokens) / plan.tokens) * plan.cluster;
  double terms =
      (double)contraction_extent(product, &product->k) / plan.cluster - plan.block_k; /* at least */
  double flops = 2.0 * plan.row_tiles * plan.consumers * 64 * plan.columns * product->n_sums * fmax(0, terms);
  return ceil(ctas / rates->sm_count) * flops / (target_boost_flops_per_s(rates) / rates->sm_count) * 1e9;
}

/* --- where to start --- */

void slim_defaults(const ir_problem *p, const target *t, config *c) {
  arena a = ARENA_INIT;
  const prepared *made = slim_prepare(p, t, &a);
  double best = INFINITY;
  *c = (config){.values = {[SLIM_ROWS] = 64,
                           [SLIM_TOKENS] = 8,
                           [SLIM_BLOCK_K] = 64,
                           [SLIM_STAGES] = 2,
                           [SLIM_CONSUMERS] = 1,
                           [SLIM_CLUSTER_K] = 1}};
  config point;
  space_point(&slim_space, 0, &point);
  bool more = made != NULL;
  for (; more; more = space_next(&slim_space, &point)) {
    slim_plan plan;
    if (reason_of(made, t, &t->rates, &point, &plan) != TEMPLATE_OK) continue;
    double ns = slim_cost_of(&plan, t, &t->rates);
    if (ns >= best) continue;
    best = ns;
    *c = point;
  }
  arena_release(&a);
}

/* --- the small problem --- */

static void reduce(const slim_match *m, int loop, int64_t size, ir_problem *reduced) {
  if (loop >= 0 && size < ir_form_extent(&m->c.form, loop))
    ir_form_set_extent(&m->c.form, loop, size, reduced);
}

/* Part tiles in every direction, and in each part of K more steps than stages; the tokens stay the short
 * side. */
void slim_reduced_problem(const ir_problem *p, const target *t, const config *c, int sm_count,
                          ir_problem *reduced) {
  enum { LINE = 8 };
  arena a = ARENA_INIT;
  slim_match m, small;
  slim_plan plan;
  *reduced = *p;
  (void)sm_count; /* no grid depends on it */
  if (slim_match_make(p, true, &a, &m, NULL, NULL) == TEMPLATE_OK &&
      slim_plan_make(&m, t, c, true, &plan) == TEMPLATE_OK) {
    int64_t tokens = plan.tokens + plan.tokens / 2 + 1, rows = plan.rows + LINE;
    if (rows <= tokens) rows = (tokens / LINE + 1) * LINE;
    reduce(&m, m.row_loop, rows, reduced);
    reduce(&m, m.token_loop, tokens, reduced);
    reduce(&m, m.k_loop, (int64_t)plan.block_k * plan.cluster * (plan.stages + 1) + LINE, reduced);
    template_reason reason = slim_match_make(reduced, true, &a, &small, NULL, NULL);
    if (reason == TEMPLATE_OK) reason = slim_plan_make(&small, t, c, true, &plan);
    if (reason != TEMPLATE_OK || (small.tokens == &small.c.m) != (m.tokens == &m.c.m)) *reduced = *p;
  }
  arena_release(&a);
}
