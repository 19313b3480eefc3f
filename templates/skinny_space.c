/* The tiling space, where to start in it, and the small problem of a point. */
#include <math.h>

#include "templates/skinny.h"

#define COUNT(...)            (int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int))
#define X(NAME, meaning, ...) [SKINNY_##NAME] = {#NAME, meaning, COUNT(__VA_ARGS__), {__VA_ARGS__}},
static const space_param params[] = {SKINNY_PARAMS(X)};
#undef X
const space skinny_space = {"skinny", SKINNY_PARAM_COUNT, params};

const space *skinny_space_of(const target *t) {
  (void)t;
  return &skinny_space;
}

/* --- what is there already with less --- */

enum { MOST_ACCESS_BYTES = 16 };

/* Of the narrowest elements that weights are made of. */
static int weight_bits(const skinny_match *m) {
  int bits = 64;
  for (int i = 0; i < m->c.n_operands; i++) {
    for (int r = 0; !skinny_is_token(m, i) && r < m->operands[i].n_reads; r++) {
      int access = m->operands[i].reads[r].access;
      int own = dtype_bits(ir_tensor_dtype(m->c.form.problem, m->c.form.accesses[access].tensor));
      if (m->operands[i].reads[r].period == 1 && own < bits) bits = own;
    }
  }
  return bits;
}

static bool is_redundant(const skinny_plan *p) {
  const contraction *c = &p->m->c;
  int64_t tokens = contraction_extent(c, p->m->tokens), weights = contraction_extent(c, p->m->weights),
          k = contraction_extent(c, &c->k);
  int least = p->mma ? 8 : 1;
  if (p->vector > 1 && p->vector * weight_bits(p->m) > 8 * MOST_ACCESS_BYTES) return true;
  if (p->tokens > least && p->tokens / 2 >= tokens) return true;
  if (p->warps_n > 1 && p->rows / 2 >= weights) return true;
  int64_t step = (int64_t)skinny_warp_step(p) * p->warps_k * p->parts;
  if ((p->warps_k > 1 || p->parts > 1 || p->unroll > 1) && step / 2 >= k) return true;
  if (p->prefetch && step >= k) return true;
  return p->loads != GEN_CACHE_DEFAULT && tokens > p->tokens; /* weights are read again */
}

/* --- judging --- */

typedef struct prepared {
  skinny_match m;
  template_reason reason;
} prepared;

const void *skinny_prepare(const ir_problem *p, const target *t, arena *a) {
  (void)t;
  prepared *made = ARENA_NEW(a, prepared);
  if (made) made->reason = skinny_match_make(p, true, a, &made->m, NULL, NULL);
  return made;
}

template_reason skinny_check_shape(const void *of, const target *t, const config *c) {
  (void)of;
  (void)t;
  return skinny_config_check(c);
}

template_reason skinny_judge(const void *of, const target *t, const target_rates *rates, const config *c,
                             double *ns) {
  const prepared *made = of;
  skinny_plan plan;
  template_reason reason = skinny_config_check(c);
  if (reason == TEMPLATE_OK) reason = made->reason;
  if (reason == TEMPLATE_OK) reason = skinny_plan_make(&made->m, t, c, true, &plan);
  if (reason == TEMPLATE_OK && is_redundant(&plan)) reason = TEMPLATE_REDUNDANT;
  if (template_is_built(reason)) *ns = skinny_cost_of(&plan, t, rates);
  return reason;
}

/* --- where to start --- */

typedef struct start {
  const skinny_match *m;
  const target *t;
  config best;
  double best_ns;
} start;

static void consider(start *s, const config *c) {
  skinny_plan plan;
  if (skinny_plan_make(s->m, s->t, c, true, &plan) != TEMPLATE_OK || is_redundant(&plan)) return;
  double ns = skinny_cost_of(&plan, s->t, &s->t->rates);
  if (ns >= s->best_ns) return;
  s->best_ns = ns;
  s->best = *c;
}

/* All teams for one shape of a thread's part. */
static void consider_teams(start *s, config c) {
  static const int warps_k[] = {1, 2, 4, 8, 16}, splits[] = {1, 2, 4, 8, 32, 128};
  int *v = c.values;
  for (size_t w = 0; w < COUNT_OF(warps_k); w++) {
    for (size_t i = 0; i < COUNT_OF(splits); i++) {
      for (int more = 0; more < 4; more++) {
        v[SKINNY_WARPS_K] = warps_k[w];
        v[SKINNY_SPLIT] = splits[i];
        v[SKINNY_WARPS_N] = more % 2 + 1;
        v[SKINNY_STAGES] = more / 2 + 1;
        consider(s, &c);
      }
    }
  }
}

/* The widest vectors there are: narrower ones are for what does not line up. */
static int widest(const start *s, config c) {
  int *v = c.values;
  skinny_plan plan;
  v[SKINNY_WARPS_N] = v[SKINNY_WARPS_K] = v[SKINNY_SPLIT] = v[SKINNY_STAGES] = 1;
  if (!s->m->along_rows) v[SKINNY_UNROLL] = 1;
  for (v[SKINNY_VECTOR] = 16; v[SKINNY_VECTOR] > 1; v[SKINNY_VECTOR] /= 2) {
    if (s->m->along_rows && v[SKINNY_SLOTS] < v[SKINNY_VECTOR]) continue;
    if (skinny_plan_make(s->m, s->t, &c, true, &plan) == TEMPLATE_OK && !is_redundant(&plan)) break;
  }
  return v[SKINNY_VECTOR];
}

static void consider_all(start *s) {
  static const int slots[] = {1, 2, 4, 8, 16}, unrolls[] = {1, 2, 4, 8};
  int64_t tokens = contraction_extent(&s->m->c, s->m->tokens);
  for (int mma = 0; mma < 2; mma++) {
    config c = {.values = {[SKINNY_MATH] = mma,
                           [SKINNY_TOKENS] = mma ? 8 : 1,
                           [SKINNY_ACROSS] = mma                ? 8
                                             : s->m->along_rows ? 32
                                                                : 1,
                           [SKINNY_STREAM] = 1}};
    int *v = c.values;
    while (v[SKINNY_TOKENS] < (mma ? 32 : 8) && v[SKINNY_TOKENS] < tokens) v[SKINNY_TOKENS] *= 2;
    if (v[SKINNY_TOKENS] < tokens) v[SKINNY_STREAM] = 0; /* weights are read again */
    for (size_t n = 0; n < COUNT_OF(slots); n++) {
      for (size_t u = 0; u < COUNT_OF(unrolls); u++) {
        v[SKINNY_SLOTS] = slots[n];
        v[SKINNY_UNROLL] = unrolls[u];
        v[SKINNY_VECTOR] = widest(s, c);
        consider_teams(s, c);
      }
    }
  }
}

void skinny_defaults(const ir_problem *p, const target *t, config *c) {
  arena a = ARENA_INIT;
  skinny_match m;
  start s = {.m = &m,
             .t = t,
             .best = {.values = {[SKINNY_TOKENS] = 1,
                                 [SKINNY_SLOTS] = 1,
                                 [SKINNY_ACROSS] = 1,
                                 [SKINNY_VECTOR] = 1,
                                 [SKINNY_UNROLL] = 1,
                                 [SKINNY_WARPS_N] = 1,
                                 [SKINNY_WARPS_K] = 1,
                                 [SKINNY_SPLIT] = 1,
                                 [SKINNY_STAGES] = 1}},
             .best_ns = INFINITY};
  if (skinny_match_make(p, true, &a, &m, NULL, NULL) == TEMPLATE_OK) consider_all(&s);
  *c = s.best;
  arena_release(&a);
}

/* --- the small problem --- */

/* Gives the loops about `size` elements in all, the innermost one a multiple of `multiple`. */
static void reduce(const skinny_match *m, const contraction_loops *loops, int64_t size, int64_t multiple,
                   ir_problem *reduced) {
  for (int i = 0; i < loops->n; i++) {
    int64_t extent = ir_form_extent(&m->c.form, loops->loops[i]);
    int64_t wanted = i + 1 == loops->n ? (size + multiple - 1) / multiple * multiple : 2;
    if (wanted < extent) ir_form_set_extent(&m->c.form, loops->loops[i], wanted, reduced);
  }
}

void skinny_reduced_problem(const ir_problem *p, const target *t, const config *c, int sm_count,
                            ir_problem *reduced) {
  arena a = ARENA_INIT;
  skinny_match m;
  skinny_plan plan;
  *reduced = *p;
  (void)sm_count; /* no grid depends on it */
  if (skinny_match_make(p, true, &a, &m, NULL, NULL) == TEMPLATE_OK &&
      skinny_plan_make(&m, t, c, true, &plan) == TEMPLATE_OK) {
    int64_t whole = (int64_t)skinny_warp_step(&plan) * plan.warps_k * plan.parts;
    int64_t k = whole * (plan.prefetch ? 2 : 1) + skinny_warp_step(&plan) + skinny_unit(&plan) / 2;
    reduce(&m, &m.c.batch, 2, 1, reduced);
    reduce(&m, m.weights, plan.rows + plan.rows / 2 + 1, plan.group > 16 ? plan.group : 16, reduced);
    reduce(&m, m.tokens, plan.tokens + (plan.tokens + 1) / 2, 1, reduced);
    reduce(&m, &m.c.k, k, 16, reduced);
    skinny_match small;
    skinny_plan again;
    template_reason reason = skinny_match_make(reduced, true, &a, &small, NULL, NULL);
    if (reason == TEMPLATE_OK) reason = skinny_plan_make(&small, t, c, true, &again);
    if (reason != TEMPLATE_OK || small.token_side != m.token_side) *reduced = *p;
  }
  arena_release(&a);
}
