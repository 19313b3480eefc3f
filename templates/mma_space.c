/* The tiling space, where to start in it, and a small problem for a point of it. */
#include <math.h>

#include "templates/mma.h"

#define X(NAME, meaning, ...)                                                                                \
  [MMA_##NAME] = {#NAME, meaning, (int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int)), {__VA_ARGS__}},
static const space_param params[MMA_PARAM_COUNT] = {MMA_PARAMS(X)};
#undef X
const space mma_space = {"mma", MMA_PARAM_COUNT, params};

const space *mma_space_of(const target *t) {
  (void)t;
  return &mma_space;
}

template_reason mma_fits(const ir_problem *p, const target *t, strbuf *detail) {
  arena a = ARENA_INIT;
  contraction c;
  template_reason reason = mma_match(p, t, true, &a, &c, detail);
  arena_release(&a);
  return reason;
}

static int64_t ceildiv(int64_t x, int64_t y) {
  return (x + y - 1) / y;
}

/* Whether a smaller tile, or fewer parts, would do the same work. */
static bool redundant(const mma_plan *p) {
  const contraction *c = p->c;
  int64_t m = contraction_extent(c, &c->m), n = contraction_extent(c, &c->n),
          k = contraction_extent(c, &c->k);
  int64_t steps = ceildiv(k, p->block_k), tiles_m = ceildiv(m, p->block_m);
  if (p->block_m > 16 && p->block_m / 2 >= m) return true;
  int least_n = c->rows.n > 0 && !c->rows.whole ? MMA_LEAST_ROW_COLUMNS : 16;
  if (p->block_n > least_n && p->block_n / 2 >= n) return true;
  if (p->group > 1 && p->group / 2 >= tiles_m) return true;
  if (p->group > 1 && ceildiv(n, p->block_n) == 1) return true;
  if (p->split > 1 && p->split > steps) return true;
  return p->stages > 2 && p->stages - 1 > ceildiv(steps, p->split);
}

typedef struct prepared {
  contraction c;
  template_reason reason;
} prepared;

const void *mma_prepare(const ir_problem *p, const target *t, arena *a) {
  prepared *made = ARENA_NEW(a, prepared);
  if (made) made->reason = mma_match(p, t, true, a, &made->c, NULL);
  return made;
}

template_reason mma_check_shape(const void *of, const target *t, const config *v) {
  (void)of;
  return mma_check_numbers(t, v);
}

template_reason mma_check_tiles(const void *of, const target *t, const config *v) {
  const prepared *made = of;
  mma_plan plan;
  config whole = *v;
  whole.values[MMA_SPLIT_K] = 1;
  return made->reason != TEMPLATE_OK ? made->reason : mma_plan_make(&made->c, t, &whole, true, true, &plan);
}

template_reason mma_judge(const void *of, const target *t, const target_rates *rates, const config *v,
                          double *ns) {
  const prepared *made = of;
  mma_plan plan;
  template_reason reason = mma_check_numbers(t, v);
  if (reason == TEMPLATE_OK) reason = made->reason;
  if (reason == TEMPLATE_OK) reason = mma_plan_make(&made->c, t, v, true, true, &plan);
  if (reason == TEMPLATE_OK && redundant(&plan)) reason = TEMPLATE_REDUNDANT;
  if (template_is_built(reason)) *ns = mma_plan_cost_ns(&plan, t, rates);
  return reason;
}

/* --- where to start --- */

/* Tiles: rows, columns, bytes of K in a stage, warps along rows and along columns. */
static const struct {
  int m, n, k_bytes, warps_m, warps_n;
} starts[] = {
    {128, 256, 64, 2, 4}, {128, 128, 64, 2, 2}, {128, 128, 64, 2, 4}, {128, 64, 64, 2, 2},
    {64, 128, 64, 2, 2},  {64, 64, 128, 2, 2},  {64, 64, 64, 2, 2},   {64, 32, 128, 2, 1},
    {32, 64, 128, 1, 2},  {32, 128, 128, 1, 4}, {32, 32, 128, 1, 1},  {16, 128, 128, 1, 4},
    {16, 64, 128, 1, 2},  {16, 32, 128, 1, 1},  {16, 16, 128, 1, 1},  {32, 16, 64, 1, 1},
    {64, 16, 64, 2, 1},   {32, 32, 64, 1, 1},   {16, 16, 64, 1, 1},   {64, 64, 32, 2, 2},
    {32, 32, 32, 2, 2},   {16, 16, 32, 1, 1},   {64, 256, 32, 4, 4},  {64, 128, 32, 4, 2},
};

static bool start_at(const contraction *c, const target *t, int i, int stages, int split, config *v,
                     mma_plan *plan) {
  mma_choice choice;
  mma_choose_product(c, t, &choice);
  int block_k = starts[i].k_bytes * 8 / dtype_bits(choice.elements[0]);
  *v = (config){.values = {[MMA_BLOCK_M] = starts[i].m,
                           [MMA_BLOCK_N] = starts[i].n,
                           [MMA_BLOCK_K] = block_k > 128 ? 128 : block_k,
                           [MMA_STAGES] = stages,
                           [MMA_WARPS_M] = starts[i].warps_m,
                           [MMA_WARPS_N] = starts[i].warps_n,
                           [MMA_GROUP] = 1,
                           [MMA_SPLIT_K] = split}};
  if (mma_plan_make(c, t, v, true, true, plan) != TEMPLATE_OK) return false;
  int64_t tiles_m = ceildiv(contraction_extent(c, &c->m), starts[i].m);
  int64_t tiles_n = ceildiv(contraction_extent(c, &c->n), starts[i].n);
  if (tiles_n > 1 && tiles_m > 4) v->values[MMA_GROUP] = 8;
  plan->group = v->values[MMA_GROUP];
  return true;
}

void mma_defaults(const ir_problem *p, const target *t, config *best) {
  static const int stages[] = {4, 3, 2}, splits[] = {1, 2, 4, 8, 16};
  arena a = ARENA_INIT;
  contraction c;
  mma_plan plan;
  double least = INFINITY;
  *best = (config){.values = {[MMA_BLOCK_M] = 32,
                              [MMA_BLOCK_N] = 32,
                              [MMA_BLOCK_K] = 32,
                              [MMA_STAGES] = 2,
                              [MMA_WARPS_M] = 2,
                              [MMA_WARPS_N] = 2,
                              [MMA_GROUP] = 1,
                              [MMA_SPLIT_K] = 1}};
  bool found = mma_match(p, t, true, &a, &c, NULL) == TEMPLATE_OK;
  for (int pass = 0; found && pass < 2 && least == (double)INFINITY; pass++) {
    for (size_t i = 0; i < COUNT_OF(starts); i++) {
      for (size_t s = 0; s < COUNT_OF(stages); s++) {
        for (size_t k = 0; k < COUNT_OF(splits); k++) {
          config v;
          if (!start_at(&c, t, (int)i, stages[s], splits[k], &v, &plan)) continue;
          if (pass == 0 && redundant(&plan)) continue;
          double ns = mma_plan_cost_ns(&plan, t, &t->rates);
          if (ns >= least) continue;
          least = ns;
          *best = v;
        }
      }
    }
  }
  arena_release(&a);
}

/* --- the small problem --- */

/* The largest power of two, up to 16, that divides x: what alignment depends on. */
static int64_t evenness(int64_t x) {
  int64_t e = 1;
  while (e < 16 && x > 0 && x % (2 * e) == 0) e *= 2;
  return e;
}

static void reduce_loops(const contraction *c, const contraction_loops *l, int64_t size, ir_problem *reduced,
                         unsigned *set) {
  for (int i = l->n - 1; i >= 0; i--) {
    int64_t now = ir_form_extent(&c->form, l->loops[i]), even = evenness(now);
    int64_t small = i == l->n - 1 ? (size + 15) / 16 * 16 + even : 2;
    if (now > small) ir_form_set_extent(&c->form, l->loops[i], small, reduced);
    const ir_loop *loop = &c->form.loops[l->loops[i]];
    for (int d = 0; d < loop->n_dims; d++)
      if (loop->dims[d].axis >= 0) *set |= 1u << loop->dims[d].axis;
  }
}

void mma_reduced_problem(const ir_problem *p, const target *t, const config *v, int sm_count,
                         ir_problem *reduced) {
  (void)sm_count; /* no CTA has more than one tile */
  arena a = ARENA_INIT;
  contraction c;
  const int *x = v->values;
  *reduced = *p;
  if (mma_match(p, t, false, &a, &c, NULL) == TEMPLATE_OK) {
    unsigned set = 0;
    reduce_loops(&c, &c.m, x[MMA_BLOCK_M], reduced, &set);
    int columns = x[MMA_BLOCK_N];
    if (c.rows.whole) columns = columns > 32 ? columns - 32 : 0; /* of the one tile */
    reduce_loops(&c, &c.n, columns, reduced, &set);
    reduce_loops(&c, &c.k, (int64_t)x[MMA_BLOCK_K] * (x[MMA_STAGES] + 1) * x[MMA_SPLIT_K], reduced, &set);
    for (int i = 0; i < c.batch.n; i++) {
      const ir_loop *loop = &c.form.loops[c.batch.loops[i]];
      if (ir_form_extent(&c.form, c.batch.loops[i]) > 4)
        ir_form_set_extent(&c.form, c.batch.loops[i], 4, reduced);
      for (int d = 0; d < loop->n_dims; d++)
        if (loop->dims[d].axis >= 0) set |= 1u << loop->dims[d].axis;
    }
    for (int i = 0; i < p->op->n_axes; i++)
      if (!(set >> i & 1) && reduced->sizes[i] > 2) reduced->sizes[i] = 2;
  }
  arena_release(&a);
}
