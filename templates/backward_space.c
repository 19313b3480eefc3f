/* The tiling space, what fits, and where to start. */
#include <math.h>

#include "templates/backward.h"

#define VALUES(...)                                                                                          \
  { __VA_ARGS__ }
#define VALUE_COUNT(...) ((int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int)))

static const space_param params[] = {
#define X(NAME, meaning, ...) {#NAME, meaning, VALUE_COUNT(__VA_ARGS__), VALUES(__VA_ARGS__)},
    BACKWARD_PARAMS(X)
#undef X
};

const space backward_space = {"backward", BACKWARD_PARAM_COUNT, params};

const space *backward_space_of(const target *t) {
  (void)t;
  return &backward_space;
}

enum { MOST_COLUMNS = 256, MOST_EXTENT = (1 << 30) - 4096 };
static const double LEAST_CAP = 0.25;

/* --- fitting --- */

static template_reason fit_sizes(const backward_match *m, strbuf *detail) {
  for (int l = 0; l < m->form.n_loops; l++) {
    int64_t n = ir_form_extent(&m->form, l);
    if (n >= 1 && n <= MOST_EXTENT) continue;
    template_say(detail, "an axis (%s) has %lld elements; the backward template takes 1 to %d",
                 m->form.loops[l].name, (long long)n, MOST_EXTENT);
    return TEMPLATE_SIZE;
  }
  if (m->head >= 0 && ir_form_extent(&m->form, m->head) % ir_form_extent(&m->form, m->share) != 0) {
    template_say(detail, "the query heads are not a multiple of those of keys and values");
    return TEMPLATE_SIZE;
  }
  const int loops[] = {m->depth, m->wide, m->dot->index};
  for (int i = 0; i < 3; i++) {
    long long n = (long long)ir_form_extent(&m->form, loops[i]);
    if (n <= MOST_COLUMNS && n % 8 == 0) continue;
    template_say(detail, "heads of %lld elements; the backward template takes multiples of 8 up to %d", n,
                 MOST_COLUMNS);
    return n <= MOST_COLUMNS ? TEMPLATE_ALIGNMENT : TEMPLATE_SIZE;
  }
  return TEMPLATE_OK;
}

template_reason backward_fit(const ir_problem *p, const target *t, arena *a, backward_match *m,
                             strbuf *detail, arke_status *status) {
  template_reason reason = backward_match_op(p, a, m, detail, status);
  if (reason != TEMPLATE_OK) return reason;
  /* Less of a cap is not told by its weights any more (backward_scores.c). */
  bool scores = m->plain || (m->capped && m->cap >= LEAST_CAP);
  bool packed = m->groups[BACKWARD_QUERIES].of || m->groups[BACKWARD_KEYS].of;
  if (!scores || !m->dot || packed || m->seen[BACKWARD_QUERIES].n_conditions > 0) {
    template_say(detail, "the backward template takes scores that are products, or a softcap of them, of "
                         "queries that lie together");
    return TEMPLATE_OPERATOR;
  }
  if (!t->has.tma || !t->has.wgmma || !t->has.setmaxnreg) {
    template_say(detail, "%s has no warp-group matrix unit with tensor copies", t->name);
    return TEMPLATE_TARGET;
  }
  const int reads[] = {m->q, m->k, m->v, m->d_o};
  bool half = m->type == DTYPE_BF16 || m->type == DTYPE_F16;
  for (int i = 0; i < 4; i++) half &= ir_tensor_dtype(p, m->form.accesses[reads[i]].tensor) == m->type;
  if (!half) {
    template_say(detail,
                 "the backward template takes bf16 or f16, the same for Q, K, V, dO and what weights are "
                 "cast to");
    return TEMPLATE_DTYPE;
  }
  return fit_sizes(m, detail);
}

template_reason backward_fits(const ir_problem *p, const target *t, strbuf *detail) {
  arena a = ARENA_INIT;
  backward_match m;
  template_reason reason = backward_fit(p, t, &a, &m, detail, NULL);
  arena_release(&a);
  return reason;
}

/* --- configurations --- */

static int64_t extent_of(const backward_match *m, const contraction_loops *loops) {
  int64_t n = 1;
  for (int i = 0; i < loops->n; i++) n *= ir_form_extent(&m->form, loops->loops[i]);
  return n;
}

static int64_t items_of(const backward_plan *plan, const backward_pass *p) {
  const backward_match *m = plan->match;
  int64_t rows = ir_form_extent(&m->form, backward_row_loop(m, p->side));
  int64_t heads = extent_of(m, &m->batch[p->side]) * (p->side == BACKWARD_KEYS ? plan->split : 1);
  return (rows + p->block_rows - 1) / p->block_rows * heads;
}

/* What sizes have against a configuration, or that a simpler one does the same. */
static template_reason check_sizes(const backward_plan *plan, int sm_count) {
  const backward_match *m = plan->match;
  int64_t heads = extent_of(m, &m->batch[BACKWARD_QUERIES]);
  bool loops = false, several = false;
  for (int i = 0; i < plan->n_passes; i++) {
    const backward_pass *p = &plan->passes[i];
    int64_t items = items_of(plan, p);
    if (items > MOST_EXTENT) return TEMPLATE_SIZE;
    loops |= items > (int64_t)sm_count * p->resident;
    several |= ir_form_extent(&m->form, backward_row_loop(m, p->side)) > p->block_rows;
  }
  if (plan->persistent && !plan->one && !loops) return TEMPLATE_REDUNDANT;
  if (plan->group > 1 && (plan->group >= heads || !several)) return TEMPLATE_REDUNDANT;
  return plan->group == 1 && heads == 1 ? TEMPLATE_REDUNDANT : TEMPLATE_OK;
}

typedef struct prepared {
  template_reason reason;
  backward_match m;
} prepared;

const void *backward_prepare(const ir_problem *p, const target *t, arena *a) {
  arke_status status;
  prepared *x = ARENA_NEW(a, prepared);
  if (!x) return NULL;
  x->reason = backward_fit(p, t, a, &x->m, NULL, &status);
  return status == ARKE_ERR_MEMORY ? NULL : x;
}

template_reason backward_judge(const void *of, const target *t, const target_rates *rates, const config *c,
                               double *ns) {
  const prepared *x = of;
  backward_plan plan;
  template_reason reason = x->reason;
  if (reason == TEMPLATE_OK) reason = backward_plan_make(&x->m, t, c, &plan);
  if (reason == TEMPLATE_OK) reason = check_sizes(&plan, t->rates.sm_count);
  if (template_is_built(reason)) *ns = backward_plan_cost_ns(&plan, rates);
  return reason;
}

/* --- where to start --- */

static void try_start(const prepared *x, const target *t, config here, double *least, config *best) {
  double ns;
  template_reason reason = backward_judge(x, t, &t->rates, &here, &ns);
  /* Of a tile for each SM or fewer a persistent grid is another name for the plain one. */
  if (reason == TEMPLATE_REDUNDANT && here.values[BACKWARD_PERSISTENT]) {
    here.values[BACKWARD_PERSISTENT] = 0;
    reason = backward_judge(x, t, &t->rates, &here, &ns);
  }
  if (reason != TEMPLATE_OK || ns >= *least) return;
  *least = ns;
  *best = here;
}

/* The best of one of the parameters, the others as they are. */
static void choose(const prepared *x, const target *t, backward_param which, double *least, config *best) {
  config from = *best;
  for (int i = 0; i < params[which].n_values; i++) {
    from.values[which] = params[which].values[i];
    try_start(x, t, from, least, best);
  }
}

void backward_defaults(const ir_problem *p, const target *t, config *c) {
  static const backward_param order[] = {BACKWARD_Q_BLOCK, BACKWARD_SPLIT, BACKWARD_K_BLOCK};
  arena a = ARENA_INIT;
  const prepared *x = backward_prepare(p, t, &a);
  double least = INFINITY;
  *c = (config){{[BACKWARD_Q_CONSUMERS] = 1,
                 [BACKWARD_Q_BLOCK] = 32,
                 [BACKWARD_Q_STAGES] = 1,
                 [BACKWARD_K_CONSUMERS] = 1,
                 [BACKWARD_K_BLOCK] = 32,
                 [BACKWARD_K_STAGES] = 1,
                 [BACKWARD_SPLIT] = 1}};
  for (int i = 0; x && i < 1 << 6; i++) {
    bool q_deep = i & 2, k_deep = i & 8;
    config here = {{[BACKWARD_Q_CONSUMERS] = i & 1 ? 2 : 1,
                    [BACKWARD_Q_BLOCK] = 32,
                    [BACKWARD_Q_STAGES] = q_deep ? 2 : 1,
                    [BACKWARD_Q_OVERLAP] = q_deep,
                    [BACKWARD_K_CONSUMERS] = i & 4 ? 2 : 1,
                    [BACKWARD_K_BLOCK] = i & 16 ? 64 : 32,
                    [BACKWARD_K_STAGES] = k_deep ? 2 : 1,
                    [BACKWARD_K_OVERLAP] = k_deep && i & 32,
                    [BACKWARD_SPLIT] = 1,
                    [BACKWARD_PERSISTENT] = 1}};
    try_start(x, t, here, &least, c);
  }
  for (size_t i = 0; x && isfinite(least) && i < COUNT_OF(order); i++) choose(x, t, order[i], &least, c);
  arena_release(&a);
}

/* Two tiles of queries and of keys, the second ragged; more steps than stages, the last ragged; heads so that
 * groups of them are incomplete and CTAs have more than one tile. */
void backward_reduced_problem(const ir_problem *p, const target *t, const config *c, int sm_count,
                              ir_problem *reduced) {
  arena a = ARENA_INIT;
  backward_match m;
  backward_plan plan;
  *reduced = *p;
  if (backward_fit(p, t, &a, &m, NULL, NULL) == TEMPLATE_OK &&
      backward_plan_make(&m, t, c, &plan) == TEMPLATE_OK) {
    const backward_pass *q = &plan.passes[0], *k = &plan.passes[1];
    const contraction_loops *batch = &m.batch[BACKWARD_KEYS];
    int queries = q->block_rows + 37, keys = k->block_rows + 21;
    int query_steps = (k->stages + 1) * k->block_columns + 9,
        key_steps = (q->stages + 1) * q->block_columns + 9;
    int64_t heads = 3;
    ir_form_set_extent(&m.form, m.query, queries > query_steps ? queries : query_steps, reduced);
    ir_form_set_extent(&m.form, m.key, keys > key_steps ? keys : key_steps, reduced);
    if (2 * heads <= sm_count) heads = sm_count / 2 + 1;
    for (int i = 0; i < batch->n; i++) ir_form_set_extent(&m.form, batch->loops[i], 1, reduced);
    if (m.head >= 0) {
      int64_t ratio = backward_ratio(&m) > 1 ? plan.split > 1 ? plan.split : 2 : 1;
      ir_form_set_extent(&m.form, m.share, heads, reduced);
      ir_form_set_extent(&m.form, m.head, heads * ratio, reduced);
    } else if (batch->n > 0) {
      ir_form_set_extent(&m.form, batch->loops[batch->n - 1], heads, reduced);
    }
  }
  arena_release(&a);
}
