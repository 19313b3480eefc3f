/* The tiling space, where to start in it, and a small problem for a point of it. */
#include <math.h>

#include "templates/attend.h"

#define X(NAME, meaning, ...)                                                                                \
  [ATTEND_##NAME] = {#NAME, meaning, (int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int)), {__VA_ARGS__}},
static const space_param params[ATTEND_PARAM_COUNT] = {ATTEND_PARAMS(X)};
#undef X
const space attend_space = {"attend", ATTEND_PARAM_COUNT, params};

const space *attend_space_of(const target *t) {
  (void)t;
  return &attend_space;
}

template_reason attend_fits(const ir_problem *p, const target *t, strbuf *detail) {
  arena a = ARENA_INIT;
  attention_match m;
  template_reason reason = attend_fit(p, t, &a, &m, detail, NULL);
  arena_release(&a);
  return reason;
}

/* --- what can run, and is worth a trial --- */

static int64_t ceildiv(int64_t x, int64_t y) {
  return (x + y - 1) / y;
}

/* Of a unit. */
static int64_t rows_of(const attention_match *m) {
  attend_rows rows;
  attend_rows_find(m, &rows);
  return ir_form_extent(&m->form, m->query) * attend_pack(m, &rows);
}

/* Whether a smaller tile, fewer parts or fewer stages do the same. */
static bool redundant(const attend_plan *p, const config *c) {
  const attention_match *m = p->match;
  int64_t rows = rows_of(m);
  int64_t keys = ir_form_extent(&m->form, m->key), steps = ceildiv(keys, (int64_t)p->block_n * p->sets);
  if (p->block_m > 8 && p->block_m / 2 >= rows) return true;
  if (p->sets > 1 && (int64_t)p->sets * p->block_n / 2 >= keys) return true;
  if (p->block_n > 16 && p->block_n / 2 >= keys) return true;
  if (p->split > 1 && p->split > steps) return true;
  int stages = c->values[ATTEND_STAGES];
  if (!p->copied) return stages > 2;
  return stages > 2 && stages - 1 > ceildiv(steps, p->split);
}

typedef struct prepared {
  template_reason reason;
  attention_match m;
  attend_vectors vectors;
} prepared;

static void prepare(const ir_problem *p, const target *t, arena *a, prepared *x, arke_status *status) {
  x->reason = attend_fit(p, t, a, &x->m, NULL, status);
  if (x->reason == TEMPLATE_OK) attend_vectors_find(&x->m, true, &x->vectors);
}

static template_reason plan_of(const prepared *x, const target *t, const config *c, attend_plan *plan) {
  if (x->reason != TEMPLATE_OK) return x->reason;
  template_reason reason = attend_plan_make(&x->m, &x->vectors, t, c, plan);
  return reason == TEMPLATE_OK && redundant(plan, c) ? TEMPLATE_REDUNDANT : reason;
}

const void *attend_prepare(const ir_problem *p, const target *t, arena *a) {
  arke_status status;
  prepared *x = ARENA_NEW(a, prepared);
  if (!x) return NULL;
  prepare(p, t, a, x, &status);
  return status == ARKE_ERR_MEMORY ? NULL : x;
}

template_reason attend_judge(const void *of, const target *t, const target_rates *rates, const config *c,
                             double *ns) {
  attend_plan plan;
  template_reason reason = plan_of(of, t, c, &plan);
  if (template_is_built(reason)) *ns = attend_plan_cost_ns(&plan, t, rates);
  return reason;
}

/* --- where to start --- */

/* Rows, keys of a step, warps along rows and columns, sets. 16 rows are 8 where there are no more. */
static const struct {
  int m, n, warps_m, warps_e, sets, hold;
} starts[] = {
    {16, 16, 1, 1, 4, 1},  {16, 32, 1, 1, 4, 1},  {16, 16, 1, 1, 8, 1}, {16, 32, 1, 1, 2, 1},
    {16, 16, 1, 2, 4, 0},  {16, 16, 1, 2, 2, 0},  {16, 16, 1, 4, 2, 0}, {16, 16, 1, 4, 1, 0},
    {16, 16, 1, 8, 1, 0},  {16, 16, 1, 1, 1, 0},  {32, 32, 2, 1, 2, 1}, {32, 16, 1, 1, 4, 0},
    {32, 32, 2, 2, 1, 0},  {32, 16, 2, 4, 1, 0},  {64, 32, 4, 1, 1, 1}, {64, 64, 4, 1, 1, 1},
    {64, 64, 4, 1, 2, 0},  {64, 32, 4, 2, 1, 0},  {64, 16, 4, 4, 1, 0}, {128, 64, 8, 1, 1, 1},
    {128, 64, 4, 1, 1, 0}, {128, 32, 8, 2, 1, 0}, {32, 64, 2, 2, 1, 0}, {16, 64, 1, 4, 1, 1},
    {16, 64, 1, 2, 2, 1},
};
static const int start_stages[] = {2, 3, 4, 6};

static config start_at(int i, int64_t rows, int stages, int split, int cluster) {
  return (config){.values = {[ATTEND_BLOCK_M] = rows <= 8 && starts[i].m == 16 ? 8 : starts[i].m,
                             [ATTEND_BLOCK_N] = starts[i].n,
                             [ATTEND_STAGES] = stages,
                             [ATTEND_WARPS_M] = starts[i].warps_m,
                             [ATTEND_WARPS_E] = starts[i].warps_e,
                             [ATTEND_SETS] = starts[i].sets,
                             [ATTEND_HOLD_Q] = starts[i].hold,
                             [ATTEND_SPLIT] = split,
                             [ATTEND_CLUSTER] = cluster}};
}

static void try_start(const prepared *x, const target *t, const config *here, bool any, double *least,
                      config *best) {
  attend_plan plan;
  template_reason reason = plan_of(x, t, here, &plan);
  if (reason != TEMPLATE_OK && !(any && reason == TEMPLATE_REDUNDANT)) return;
  double ns = attend_plan_cost_ns(&plan, t, &t->rates);
  if (ns >= *least) return;
  *least = ns;
  *best = *here;
}

void attend_defaults(const ir_problem *p, const target *t, config *best) {
  arena a = ARENA_INIT;
  prepared x;
  double least = INFINITY;
  int64_t rows = 16;
  *best = start_at(9, 16, 2, 1, 0);
  prepare(p, t, &a, &x, NULL);
  if (x.reason == TEMPLATE_OK) rows = rows_of(&x.m);
  const space_param *splits = &params[ATTEND_SPLIT];
  for (int pass = 0; x.reason == TEMPLATE_OK && pass < 2 && least == (double)INFINITY; pass++)
    for (int i = 0; i < (int)COUNT_OF(starts); i++)
      for (size_t s = 0; s < COUNT_OF(start_stages); s++)
        for (int k = 0; k < 2 * splits->n_values; k++) {
          config here = start_at(i, rows, start_stages[s], splits->values[k / 2], k % 2);
          try_start(&x, t, &here, pass > 0, &least, best);
        }
  arena_release(&a);
}

/* --- the small problem --- */

/* Two tiles of rows, the second ragged; more steps than stages, the last ragged; splits of unlike lengths. */
void attend_reduced_problem(const ir_problem *p, const target *t, const config *c, int sm_count,
                            ir_problem *reduced) {
  (void)sm_count; /* no CTA has more than one tile */
  enum { MOST_KEYS = 600 };
  arena a = ARENA_INIT;
  prepared x;
  attend_plan plan;
  *reduced = *p;
  prepare(p, t, &a, &x, NULL);
  template_reason reason = plan_of(&x, t, c, &plan);
  if (reason == TEMPLATE_OK || reason == TEMPLATE_REDUNDANT) {
    const attention_match *m = &x.m;
    const ir_form *form = &m->form;
    int64_t keys = (int64_t)(plan.stages + 1) * plan.block_n * plan.sets + 9, now;
    if (plan.split > 1 && 2 * keys < MOST_KEYS) keys *= 2;
    now = ir_form_extent(form, m->key);
    attention_set_keys(m, now < keys ? now : keys, reduced);
    for (int i = 0; i < m->batch.n; i++) {
      now = ir_form_extent(form, m->batch.loops[i]);
      int64_t few = i == m->batch.n - 1 ? 2 : 1;
      ir_form_set_extent(form, m->batch.loops[i], now < few ? now : few, reduced);
    }
    for (int i = 0; i < m->bounds.n_shares; i++) {
      int64_t heads = p->sizes[m->bounds.shares[i][0].axis], of = p->sizes[m->bounds.shares[i][1].axis];
      int64_t ratio = of > 0 ? heads / of : 1; /* of heads that share keys, which kernels are made for */
      reduced->sizes[m->bounds.shares[i][1].axis] = of > 1 ? 2 : 1;
      reduced->sizes[m->bounds.shares[i][0].axis] = (of > 1 ? 2 : 1) * ratio;
    }
    attention_match small;
    if (attention_match_op(reduced, &a, &small, NULL, NULL) == TEMPLATE_OK) {
      int64_t pack = attend_pack(&small, &plan.rows),
              queries = ceildiv(plan.block_m + 5, pack > 0 ? pack : 1);
      now = ir_form_extent(form, m->query);
      ir_form_set_extent(form, m->query, now < queries ? now : queries, reduced);
    }
  }
  arena_release(&a);
}
