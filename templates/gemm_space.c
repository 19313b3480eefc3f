#include "templates/gemm.h"
#include "templates/product_bound.h"

#include <math.h>

/* The values of a row of GEMM_PARAMS, counted. */
#define VALUES(...)                                                                                          \
  { __VA_ARGS__ }
#define VALUE_COUNT(...) ((int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int)))

static const space_param params[] = {
#define X(NAME, meaning, ...) {#NAME, meaning, VALUE_COUNT(__VA_ARGS__), VALUES(__VA_ARGS__)},
    GEMM_PARAMS(X)
#undef X
};

const space gemm_space = {"gemm", GEMM_PARAM_COUNT, params};

const space *gemm_space_of(const target *t) {
  (void)t;
  return &gemm_space;
}

static int64_t ceildiv(int64_t x, int64_t y) {
  return (x + y - 1) / y;
}

int64_t gemm_units_m(const gemm_plan *plan, int64_t m) {
  return ceildiv(m, (int64_t)plan->block_m * plan->cluster_m);
}

int64_t gemm_units_n(const gemm_plan *plan, int64_t n) {
  return ceildiv(n, (int64_t)plan->block_n * plan->cluster_n);
}

/* Whether a simpler configuration walks the same tiles in the same order. */
static bool redundant(const gemm_plan *plan, int64_t units_m, int64_t units_n, int64_t batches,
                      int sm_count) {
  int64_t along = plan->raster_n ? units_n : units_m, across = plan->raster_n ? units_m : units_n;
  if (along == 1 || across == 1) {
    if (plan->raster_n || plan->group > 1) return true; /* one row or column of tiles has one order */
  } else if (plan->group >= along) {
    return true; /* GROUP=1 with the other RASTER */
  }
  if (plan->stream) { /* full rounds leave nothing to split */
    int64_t slots = sm_count / plan->cluster;
    return slots <= 1 || units_m * units_n * batches % slots == 0;
  }
  if (plan->even) return false; /* even_already */
  return plan->persistent && !plan->match.grouped &&
         units_m * units_n * batches * plan->cluster <= sm_count; /* one tile each */
}

/* Whether tiles of one width fill whole waves, or there would be no more tiles of several: where tiles are
 * fewer than SMs and cannot be narrow enough for another one in each row. */
static bool even_already(const gemm_plan *plan, int64_t rows, int64_t units_n, int64_t n, int sm_count) {
  if (rows * units_n <= sm_count) {
    if (plan->pingpong) return true; /* one tile each has no turns to take */
    int64_t most = ceildiv(n, gemm_narrowest(plan)), possible = sm_count / rows;
    return (possible < most ? possible : most) <= units_n;
  }
  return rows * units_n % sm_count == 0 && n % plan->block_n == 0;
}

int64_t gemm_batches(const gemm_plan *plan) {
  int64_t n = 1;
  for (int i = 0; i < plan->match.outer.n; i++) n *= gemm_extent(&plan->match, plan->match.outer.loops[i]);
  return n;
}

/* What all configurations of a problem have in common. */
typedef struct prepared {
  contraction c;
  gemm_match match;
  template_reason reason;
} prepared;

static int64_t units(const gemm_plan *plan, int64_t *units_m, int64_t *units_n) {
  *units_m = gemm_units_m(plan, gemm_extent(&plan->match, plan->match.m));
  *units_n = gemm_units_n(plan, gemm_extent(&plan->match, plan->match.n));
  return gemm_batches(plan);
}

/* All but what depends on the order of tiles. */
static template_reason make_tiles(const prepared *made, const target *t, const config *c, gemm_plan *plan) {
  if (made->reason != TEMPLATE_OK) return made->reason;
  template_reason reason = gemm_plan_make(&made->match, t, c, plan);
  if (reason != TEMPLATE_OK) return reason;
  int64_t m = gemm_extent(&plan->match, plan->match.m), n = gemm_extent(&plan->match, plan->match.n);
  /* A cluster along an axis of one tile would compute nothing in its second CTA. */
  if ((plan->cluster_m > 1 && m <= plan->block_m) || (plan->cluster_n > 1 && n <= plan->block_n))
    return TEMPLATE_CLUSTER;
  int64_t units_m, units_n, batches = units(plan, &units_m, &units_n);
  if (units_m > INT32_MAX / plan->cluster / units_n / batches) return TEMPLATE_SIZE;
  int64_t terms = gemm_extent(&plan->match, plan->match.k) * gemm_k_parts(&plan->match);
  if (plan->stream && terms > GEMM_STREAM_MAX_K) return TEMPLATE_SIZE;
  int sm_count = t->rates.sm_count;
  enum { FEW_ROWS = 64 }; /* which memory bounds */
  bool alone = 2 * plan->smem_bytes > t->smem_per_block_bytes;
  if ((m <= FEW_ROWS || n <= FEW_ROWS) && !plan->persistent &&
      product_lies_unevenly(made->c.form.min_bytes, units_m * units_n * batches * plan->cluster, sm_count,
                            alone))
    return TEMPLATE_REDUNDANT;
  if (plan->even && even_already(plan, units_m * batches, units_n, n, sm_count)) return TEMPLATE_REDUNDANT;
  return TEMPLATE_OK;
}

static template_reason make_plan(const prepared *made, const target *t, const config *c, gemm_plan *plan) {
  template_reason reason = make_tiles(made, t, c, plan);
  if (reason != TEMPLATE_OK) return reason;
  int64_t units_m, units_n, batches = units(plan, &units_m, &units_n);
  bool same = redundant(plan, units_m, units_n, batches, t->rates.sm_count);
  return same ? TEMPLATE_REDUNDANT : TEMPLATE_OK;
}

const void *gemm_prepare(const ir_problem *p, const target *t, arena *a) {
  prepared *made = ARENA_NEW(a, prepared);
  if (made) made->reason = gemm_fit(p, t, a, &made->c, &made->match, NULL);
  return made;
}

template_reason gemm_check_shape(const void *of, const target *t, const config *c) {
  (void)of;
  (void)t;
  return gemm_check_numbers(c);
}

template_reason gemm_check_tiles(const void *of, const target *t, const config *c) {
  gemm_plan plan;
  return make_tiles(of, t, c, &plan);
}

template_reason gemm_judge(const void *of, const target *t, const target_rates *rates, const config *c,
                           double *ns) {
  gemm_plan plan;
  template_reason reason = gemm_check_numbers(c); /* first: it costs least, and most points end here */
  if (reason == TEMPLATE_OK) reason = make_plan(of, t, c, &plan);
  if (template_is_built(reason)) *ns = gemm_plan_cost_ns(&plan, rates);
  return reason;
}

double gemm_bound_ns(const ir_problem *p, const void *of, const target *t, const target_rates *rates,
                     const config *c) {
  (void)p;
  const prepared *made = of;
  gemm_plan plan;
  if (!c || made->reason != TEMPLATE_OK || gemm_plan_make(&made->match, t, c, &plan) != TEMPLATE_OK) return 0;
  return gemm_plan_bound_ns(&plan, t, rates);
}

/* Tiles that are worth starting from, large to small: rows, columns, consumers, schedule. */
static const struct {
  int block_m, block_n, consumers, schedule;
} start_tiles[] = {{128, 256, 2, 2}, {128, 256, 2, 0}, {128, 128, 2, 1}, {128, 128, 2, 0},
                   {64, 256, 1, 0},  {64, 128, 1, 0},  {64, 64, 1, 0},   {64, 32, 1, 0}};

/* The most stages that fit, and the first order of tiles that is not another one in disguise. */
static bool complete_start(const prepared *made, const target *t, config *c) {
  int *v = c->values;
  v[GEMM_STAGES] = 8;
  gemm_plan plan;
  while (v[GEMM_STAGES] > 2 && make_plan(made, t, c, &plan) == TEMPLATE_SHARED_MEMORY) v[GEMM_STAGES]--;
  for (int persistent = 1; persistent >= 0; persistent--) {
    v[GEMM_PERSISTENT] = persistent;
    for (int group = 8; group >= 1; group /= 2) {
      v[GEMM_GROUP] = group;
      if (make_plan(made, t, c, &plan) == TEMPLATE_OK) return true;
    }
  }
  return false;
}

void gemm_defaults(const ir_problem *p, const target *t, config *c) {
  arena a = ARENA_INIT;
  const prepared *made = gemm_prepare(p, t, &a);
  config best = {{[GEMM_BLOCK_M] = 128,
                  [GEMM_BLOCK_N] = 256,
                  [GEMM_BLOCK_K] = 64,
                  [GEMM_STAGES] = 4,
                  [GEMM_CONSUMERS] = 2,
                  [GEMM_CLUSTER_M] = 1,
                  [GEMM_CLUSTER_N] = 1,
                  [GEMM_GROUP] = 8,
                  [GEMM_PERSISTENT] = 1}};
  double best_ns = INFINITY;
  config start = best;
  for (size_t i = 0; made && i < 2 * COUNT_OF(start_tiles); i++) {
    start.values[GEMM_STAGED] = i >= COUNT_OF(start_tiles);
    start.values[GEMM_BLOCK_M] = start_tiles[i % COUNT_OF(start_tiles)].block_m;
    start.values[GEMM_BLOCK_N] = start_tiles[i % COUNT_OF(start_tiles)].block_n;
    start.values[GEMM_CONSUMERS] = start_tiles[i % COUNT_OF(start_tiles)].consumers;
    start.values[GEMM_SCHEDULE] = start_tiles[i % COUNT_OF(start_tiles)].schedule;
    if (!complete_start(made, t, &start)) continue;
    double ns = INFINITY;
    gemm_judge(made, t, &t->rates, &start, &ns);
    if (ns < best_ns) {
      best_ns = ns;
      best = start;
    }
  }
  arena_release(&a);
  *c = best;
}

/* --- the small problem --- */

static void mark_axes(const ir_form *form, int loop, unsigned *set) {
  const ir_loop *l = &form->loops[loop];
  for (int d = 0; d < l->n_dims; d++)
    if (l->dims[d].axis >= 0) *set |= 1u << l->dims[d].axis;
}

/* Gives a loop so many elements; of several dimensions all but the last get one. */
static void set_extent(const ir_form *form, int loop, int64_t n, ir_problem *reduced) {
  const ir_loop *l = &form->loops[loop];
  int last = l->n_dims - 1;
  ir_form_set_extent(form, loop, last > 0 || (l->leading && last >= 0) ? 1 : n, reduced);
  if (last >= 0 && l->dims[last].axis >= 0) {
    int64_t size = n / l->dims[last].factor;
    reduced->sizes[l->dims[last].axis] = size > 0 ? size : 1;
  }
}

/* Few matrices, and what no loop of a tile has, of little extent. */
static void reduce_outer(const gemm_match *match, ir_problem *reduced, unsigned set) {
  enum { MOST = 3 };
  const ir_form *form = &match->c->form;
  const ir_problem *p = form->problem;
  for (int i = 0; i < match->outer.n; i++) {
    int loop = match->outer.loops[i];
    if (ir_form_extent(form, loop) > MOST)
      set_extent(form, loop, i + 1 == match->outer.n ? MOST : 2, reduced);
    mark_axes(form, loop, &set);
  }
  for (int i = 0; i < p->op->n_axes; i++)
    if (!(set >> i & 1) && reduced->sizes[i] > 2) reduced->sizes[i] = 2;
}

/* Extents beyond whole tiles: rows that line up keep multiples of 8; others are odd or even as they were. */
static int64_t beyond(const gemm_match *match, int loop, bool aligned) {
  if (aligned) return 8;
  return match->bare || gemm_extent(match, loop) % 2 ? 5 : 6;
}

static bool is_contiguous(const gemm_match *match, const gemm_view *view, int loop) {
  const ir_access *x = &match->c->form.accesses[view->access];
  return view->rank > 0 && ir_form_free(&match->c->form, x->subscripts[view->subscript[0]].e) >> loop & 1;
}

/* Whether an axis of the tile is contiguous in a tensor that copies take or whose lines are fetched ahead. */
static bool lines_up(const gemm_match *match, int loop) {
  bool any = is_contiguous(match, &match->a, loop) || is_contiguous(match, &match->y, loop);
  for (int i = 0; i < match->n_sums; i++) any = any || is_contiguous(match, &match->b[i], loop);
  for (int i = 0; i < match->n_reads; i++) any = any || is_contiguous(match, &match->reads[i], loop);
  return any;
}

static void reduce(const gemm_plan *plan, int sm_count, ir_problem *reduced) {
  const gemm_match *match = &plan->match;
  const ir_form *form = &match->c->form;
  unsigned set = 0;
  mark_axes(form, match->m, &set);
  mark_axes(form, match->n, &set);
  mark_axes(form, match->k, &set);
  for (int i = 0; i < match->k_outer.n; i++) {
    int loop = match->k_outer.loops[i];
    if (ir_form_extent(form, loop) > 2) set_extent(form, loop, 2, reduced);
    mark_axes(form, loop, &set);
  }
  reduce_outer(match, reduced, set);
  ir_form small = *form;
  small.problem = reduced;
  int64_t batches = 1;
  for (int i = 0; i < match->outer.n; i++) batches *= ir_form_extent(&small, match->outer.loops[i]);
  /* A unit or two and a ragged part of another along M, as many along N as give some CTA a second tile (each
   * of its consumers, under ping-pong). The ragged parts leave the last cluster incomplete and keep rows
   * aligned. */
  int64_t step_m = (int64_t)plan->block_m * plan->cluster_m,
          step_n = (int64_t)plan->block_n * plan->cluster_n;
  int tiles_wanted = sm_count * (plan->pingpong ? 2 : 1) + 1;
  int64_t rows = 2, columns = plan->even ? 3 : 2, slots = sm_count / plan->cluster;
  bool whole = match->c->rows.whole; /* one tile has all columns */
  if (whole) columns = 1;
  while (rows * columns * batches * plan->cluster < tiles_wanted) *(whole ? &rows : &columns) += 1;
  /* The last round is not full; an even number of SMs wants odd rows. */
  if ((plan->stream || plan->even) && slots > 1 && batches % slots) {
    while (rows * columns * batches % slots == 0) {
      if (rows == 2 && slots % 2 == 0)
        rows = 3;
      else
        columns++;
    }
  }
  bool m_aligned = lines_up(match, match->m), n_aligned = lines_up(match, match->n);
  int64_t m = (rows - 1) * step_m + plan->block_m / 2 + beyond(match, match->m, m_aligned);
  int64_t ragged = plan->block_n / 16 * 8 + beyond(match, match->n, n_aligned);
  if (plan->even) ragged = plan->block_n - (n_aligned ? 8 : 11); /* tiles of two widths */
  if (plan->even && !n_aligned && beyond(match, match->n, false) % 2 == 0) ragged--;
  set_extent(form, match->m, m, reduced);
  set_extent(form, match->n, (columns - 1) * step_n + ragged, reduced);
  int64_t k = (int64_t)plan->stages * plan->block_k * plan->split;
  set_extent(form, match->k, k + 48 / match->type.bytes, reduced);
}

void gemm_reduced_problem(const ir_problem *p, const target *t, const config *c, int sm_count,
                          ir_problem *reduced) {
  arena a = ARENA_INIT;
  const prepared *made = gemm_prepare(p, t, &a);
  gemm_plan plan;
  *reduced = *p;
  if (made && made->reason == TEMPLATE_OK && gemm_plan_make(&made->match, t, c, &plan) == TEMPLATE_OK)
    reduce(&plan, sm_count, reduced);
  arena_release(&a);
}
