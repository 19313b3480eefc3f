/* The tiling space, what fits, where to start, and a small problem for a point of it. */
#include <math.h>

#include "templates/backward_warps.h"

#define X(NAME, meaning, ...)                                                                                \
  [BACKWARD_WARPS_##                                                                                         \
      NAME] = {#NAME, meaning, (int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int)), {__VA_ARGS__}},
static const space_param params[BACKWARD_WARPS_PARAM_COUNT] = {BACKWARD_WARPS_PARAMS(X)};
#undef X
const space backward_warps_space = {"backward_warps", BACKWARD_WARPS_PARAM_COUNT, params};

const space *backward_warps_space_of(const target *t) {
  (void)t;
  return &backward_warps_space;
}

enum { MOST_EXTENT = (1 << 30) - 4096 };

/* --- fitting --- */

static bool is_width(const backward_match *m, int loop) {
  bool request = false;
  for (int side = 0; side < 2; side++) request |= m->groups[side].of && m->groups[side].loop == loop;
  return request || loop == m->depth || loop == m->wide || loop == m->share ||
         (m->dot && loop == m->dot->index);
}

static template_reason fit_sizes(const backward_match *m, strbuf *detail) {
  const ir_form *form = &m->form;
  for (int l = 0; l < form->n_loops; l++) {
    int64_t n = ir_form_extent(form, l), least = is_width(m, l) ? 1 : 0;
    if (n >= least && n <= MOST_EXTENT) continue;
    template_say(detail, "an axis (%s) has %lld elements; the backward_warps template takes %d to %d",
                 form->loops[l].name, (long long)n, (int)least, MOST_EXTENT);
    return TEMPLATE_SIZE;
  }
  if (m->head >= 0 && ir_form_extent(form, m->head) % ir_form_extent(form, m->share) != 0) {
    template_say(detail, "the query heads are not a multiple of those of keys and values");
    return TEMPLATE_SIZE;
  }
  int64_t depth = ir_form_extent(form, m->depth), wide = ir_form_extent(form, m->wide);
  int64_t most = depth > wide ? depth : wide;
  if (most <= WARPS_MOST_COLUMNS) return TEMPLATE_OK;
  template_say(detail, "heads of %lld elements; the backward_warps template takes up to %d", (long long)most,
               WARPS_MOST_COLUMNS);
  return TEMPLATE_SIZE;
}

/* Conditions have no loops but those of a query and a key. */
static bool has_own_loops(const backward_match *m) {
  unsigned pair = m->batch[BACKWARD_QUERIES].set | 1u << m->query | 1u << m->key;
  for (int side = 0; side < 2; side++)
    for (int i = 0; i < m->seen[side].n_conditions; i++)
      if (ir_form_free(&m->form, m->seen[side].conditions[i]) & ~pair) return true;
  return false;
}

template_reason backward_warps_fit(const ir_problem *p, const target *t, arena *a, backward_match *m,
                                   strbuf *detail, arke_status *status) {
  template_reason reason = backward_match_op(p, a, m, detail, status);
  if (reason != TEMPLATE_OK) return reason;
  if (!m->groups[BACKWARD_QUERIES].of != !m->groups[BACKWARD_KEYS].of || has_own_loops(m)) {
    template_say(detail, has_own_loops(m) ? "a condition has loops of its own"
                                          : "queries are in requests and keys are not, or the other way");
    return TEMPLATE_OPERATOR;
  }
  if (!t->has.mma_sync || !t->has.cp_async) {
    template_say(detail, "%s has no products of warps with asynchronous copies", t->name);
    return TEMPLATE_TARGET;
  }
  bool half = m->type == DTYPE_BF16 || m->type == DTYPE_F16;
  for (int side = 0; side < 2; side++)
    for (int i = 0; i < 2; i++)
      half &= ir_tensor_dtype(p, m->form.accesses[warps_operand(m, side, i)].tensor) == m->type;
  if (half) return fit_sizes(m, detail);
  template_say(detail, "the backward_warps template takes bf16 or f16, the same for Q, K, V, dO and what "
                       "weights are cast to");
  return TEMPLATE_DTYPE;
}

template_reason backward_warps_fits(const ir_problem *p, const target *t, strbuf *detail) {
  arena a = ARENA_INIT;
  backward_match m;
  template_reason reason = backward_warps_fit(p, t, &a, &m, detail, NULL);
  arena_release(&a);
  return reason;
}

/* --- configurations --- */

typedef struct prepared {
  template_reason reason;
  backward_match m;
  warps_vectors vectors;
} prepared;

const void *backward_warps_prepare(const ir_problem *p, const target *t, arena *a) {
  arke_status status;
  prepared *x = ARENA_NEW(a, prepared);
  if (!x) return NULL;
  x->reason = backward_warps_fit(p, t, a, &x->m, NULL, &status);
  if (x->reason == TEMPLATE_OK) warps_vectors_find(&x->m, true, &x->vectors);
  return status == ARKE_ERR_MEMORY ? NULL : x;
}

/* Whether a smaller tile, a shorter step or fewer stages do the same. */
static bool redundant(const warps_plan *plan, const config *c) {
  const backward_match *m = plan->match;
  const int stages[] = {c->values[BACKWARD_WARPS_Q_STAGES], c->values[BACKWARD_WARPS_K_STAGES]};
  for (int i = 0; i < 2; i++) {
    const warps_pass *p = &plan->passes[i];
    int64_t rows = ir_form_extent(&m->form, backward_row_loop(m, p->side)),
            columns = ir_form_extent(&m->form, backward_column_loop(m, p->side));
    if (p->warps > 1 && p->block_rows / 2 >= rows) return true;
    if (p->block_columns > 16 && p->block_columns / 2 >= columns) return true;
    if (stages[i] > 2 && !plan->vectors.copied) return true;
  }
  return false;
}

template_reason backward_warps_judge(const void *of, const target *t, const target_rates *rates,
                                     const config *c, double *ns) {
  const prepared *x = of;
  warps_plan plan;
  template_reason reason = x->reason;
  if (reason == TEMPLATE_OK) reason = warps_plan_make(&x->m, &x->vectors, t, c, &plan);
  if (reason == TEMPLATE_OK && redundant(&plan, c)) reason = TEMPLATE_REDUNDANT;
  if (template_is_built(reason)) *ns = warps_plan_cost_ns(&plan, t, rates);
  return reason;
}

/* --- where to start --- */

/* Points that differ in parameters from `first` to `end`, from the best one so far. */
static void try_all(const prepared *x, const target *t, int first, int end, double least[2], config best[2]) {
  config here = isfinite(least[0]) ? best[0] : best[1];
  int n = 1;
  for (int i = first; i < end; i++) n *= params[i].n_values;
  for (int number = 0; number < n; number++) {
    double ns;
    for (int i = first, rest = number; i < end; rest /= params[i++].n_values)
      here.values[i] = params[i].values[rest % params[i].n_values];
    template_reason reason = backward_warps_judge(x, t, &t->rates, &here, &ns);
    int kind = reason == TEMPLATE_OK ? 0 : 1;
    if (!template_is_built(reason) || ns >= least[kind]) continue;
    least[kind] = ns;
    best[kind] = here;
  }
}

/* The best point: kernels of queries and of keys have nothing to do with one another. Where all points are
 * redundant, the best of those. */
void backward_warps_defaults(const ir_problem *p, const target *t, config *c) {
  arena a = ARENA_INIT;
  const prepared *x = backward_warps_prepare(p, t, &a);
  double least[2] = {INFINITY, INFINITY}; /* of what is feasible; of what is redundant */
  for (int i = 0; i < BACKWARD_WARPS_PARAM_COUNT; i++) c->values[i] = params[i].values[0];
  config best[2] = {*c, *c};
  if (x) try_all(x, t, BACKWARD_WARPS_Q_WARPS, BACKWARD_WARPS_K_WARPS, least, best);
  if (x) try_all(x, t, BACKWARD_WARPS_K_WARPS, BACKWARD_WARPS_PARAM_COUNT, least, best);
  *c = isfinite(least[0]) ? best[0] : best[1];
  arena_release(&a);
}

/* --- the small problem --- */

static int64_t smaller(int64_t x, int64_t y) {
  return x < y ? x : y;
}

/* Two tiles of queries and of keys, the second ragged; more steps than stages, the last ragged; two heads of
 * keys. */
void backward_warps_reduced_problem(const ir_problem *p, const target *t, const config *c, int sm_count,
                                    ir_problem *reduced) {
  (void)sm_count; /* no CTA has more than one tile */
  arena a = ARENA_INIT;
  backward_match m;
  warps_vectors vectors;
  warps_plan plan;
  *reduced = *p;
  template_reason reason = backward_warps_fit(p, t, &a, &m, NULL, NULL);
  if (reason == TEMPLATE_OK) warps_vectors_find(&m, true, &vectors);
  if (reason == TEMPLATE_OK && warps_plan_make(&m, &vectors, t, c, &plan) == TEMPLATE_OK) {
    const warps_pass *q = &plan.passes[0], *k = &plan.passes[1];
    const contraction_loops *batch = &m.batch[BACKWARD_KEYS];
    int64_t queries = q->block_rows + 5, keys = k->block_rows + 5,
            query_steps = (int64_t)(k->stages + 1) * k->block_columns + 9,
            key_steps = (int64_t)(q->stages + 1) * q->block_columns + 9;
    if (queries < query_steps) queries = query_steps;
    if (keys < key_steps) keys = key_steps;
    ir_form_set_extent(&m.form, m.query, smaller(queries, ir_form_extent(&m.form, m.query)), reduced);
    ir_form_set_extent(&m.form, m.key, smaller(keys, ir_form_extent(&m.form, m.key)), reduced);
    for (int i = 0; i < batch->n; i++) {
      int64_t few = batch->loops[i] == m.share || (m.head < 0 && i == batch->n - 1) ? 2 : 1;
      ir_form_set_extent(&m.form, batch->loops[i], smaller(few, ir_form_extent(&m.form, batch->loops[i])),
                         reduced);
    }
    if (m.head >= 0) {
      int64_t shared = smaller(2, ir_form_extent(&m.form, m.share)), ratio = smaller(2, backward_ratio(&m));
      ir_form_set_extent(&m.form, m.head, shared * ratio, reduced);
    }
  }
  arena_release(&a);
}
