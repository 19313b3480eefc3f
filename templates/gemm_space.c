#include "templates/gemm.h"

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

/* Static shared memory (barriers), rounded up to the alignment of the dynamic part. */
enum { STATIC_SMEM_BYTES = 1024 };
/* Registers a consumer thread needs beside its accumulators: descriptors, pipeline state, epilogue addresses.
 */
enum { CONSUMER_OVERHEAD_REGISTERS = 48 };
/* Registers of a thread of two consumer groups after setmaxnreg; one group beside the producer gets the
 * maximum. */
enum { CONSUMER_REGISTERS = 240 };

static gemm_operand make_operand(bool k_major, int rows, int block_k, int shares) {
  gemm_operand o = {.k_major = k_major, .rows = rows, .shares = shares};
  if (k_major) {
    o.panel_width = 64;
    o.panels = block_k / 64;
    o.panel_height = rows;
  } else {
    o.panel_width = rows < 64 ? 32 : 64; /* wgmma reads narrow panels slower */
    o.panels = (rows + o.panel_width - 1) / o.panel_width;
    o.panel_height = block_k;
  }
  o.swizzle = o.panel_width == 64 ? GEN_SWIZZLE_128 : GEN_SWIZZLE_64;
  o.panel_bytes = o.panel_width * o.panel_height * 2;
  o.bytes = o.panels * o.panel_bytes;
  return o;
}

/* A panel of the epilogue is one swizzle wide along Y's contiguous axis, or, where that runs along the rows
 * of the tile, has that many rows of Y for each 64 of them. */
static void shape_panels(gemm_plan *plan, int columns) {
  plan->panel_n = columns;
  plan->panels = (plan->block_n + columns - 1) / columns;
  bool transposed = plan->match.y_transposed;
  plan->store_width = transposed ? 64 : columns;
  plan->store_height = transposed ? columns : plan->group_rows;
  plan->store_swizzle = plan->store_width == 64 ? GEN_SWIZZLE_128 : GEN_SWIZZLE_64;
  plan->store_buffer_bytes = plan->group_rows * columns * 2;
}

int gemm_panel_column(const gemm_plan *plan, int columns, int panel) {
  int last = columns - plan->panel_n, column = panel * plan->panel_n;
  return column < last ? column : last;
}

int gemm_narrowest(const gemm_plan *plan) {
  return plan->block_n - (GEMM_EVEN_WIDTHS - 1) * GEMM_EVEN_STEP;
}

/* A CTA with one tile has no use for its stages by the time it stores: the whole tile takes their place.
 * Another has as many store buffers beside them as fit, up to one for each panel. */
static bool place_store_buffers(gemm_plan *plan, const target *t) {
  int available = t->smem_per_block_bytes - STATIC_SMEM_BYTES;
  int stages = plan->stages * plan->stage_bytes, each = plan->consumers * plan->store_buffer_bytes;
  plan->store_over_stages = !plan->persistent;
  if (plan->store_over_stages) {
    plan->store_buffers = plan->panels;
    plan->smem_bytes = stages > plan->panels * each ? stages : plan->panels * each;
    return plan->smem_bytes <= available;
  }
  if (available - stages < each) return false;
  plan->store_buffers = (available - stages) / each;
  if (plan->store_buffers > plan->panels) plan->store_buffers = plan->panels;
  plan->smem_bytes = stages + plan->store_buffers * each;
  return true;
}

/* Another CTA's sums come in as many equal parts as make one fit a stage: a part has some accumulators of all
 * threads, four at a time. */
static void place_sums(gemm_plan *plan) {
  int rows = plan->accumulators / 4, row_bytes = plan->consumers * 128 * 4 * 4, parts = 1;
  while (rows % parts || rows / parts * row_bytes > plan->stage_bytes) parts++;
  plan->slot_bytes = rows * row_bytes;
  plan->sums_bytes = plan->slot_bytes / parts;
}

/* What parameters have against one another, whatever the target. */
static template_reason combination(const int *v) {
  bool pingpong = v[GEMM_SCHEDULE] == 1, deferred = v[GEMM_SCHEDULE] == 2;
  bool stream = v[GEMM_STREAM_K], even = v[GEMM_EVEN], persistent = v[GEMM_PERSISTENT];
  if (pingpong && v[GEMM_CONSUMERS] != 2) return TEMPLATE_SCHEDULE;
  /* A CTA that has one tile has none for a second group, nor a next one to store it under. */
  if ((pingpong || deferred || stream || even) && !persistent) return TEMPLATE_SCHEDULE;
  /* Parts of tiles have unlike lengths; groups that take turns would wait for one another. */
  if (stream && pingpong) return TEMPLATE_SCHEDULE;
  /* Either fills the last wave; and a tile of one width cannot wait in the registers of another. */
  if (even && (stream || deferred)) return TEMPLATE_SCHEDULE;
  int cluster = v[GEMM_CLUSTER_M] * v[GEMM_CLUSTER_N];
  if (cluster > 2) return TEMPLATE_CLUSTER;
  if (even && cluster > 1) return TEMPLATE_CLUSTER; /* CTAs that share rows have one width */
  if (v[GEMM_BLOCK_M] % (64 * (pingpong ? 1 : v[GEMM_CONSUMERS]))) return TEMPLATE_TILE;
  return TEMPLATE_OK;
}

template_reason gemm_plan_make(const gemm_match *match, dtype type, const target *t, const config *c,
                               gemm_plan *plan) {
  const int *v = c->values;
  *plan = (gemm_plan){
      .match = *match,
      .type = type,
      .block_m = v[GEMM_BLOCK_M],
      .block_n = v[GEMM_BLOCK_N],
      .block_k = v[GEMM_BLOCK_K],
      .stages = v[GEMM_STAGES],
      .consumers = v[GEMM_CONSUMERS],
      .cluster_m = v[GEMM_CLUSTER_M],
      .cluster_n = v[GEMM_CLUSTER_N],
      .group = v[GEMM_GROUP],
      .pingpong = v[GEMM_SCHEDULE] == 1,
      .deferred = v[GEMM_SCHEDULE] == 2,
      .persistent = v[GEMM_PERSISTENT],
      .raster_n = v[GEMM_RASTER],
      .stream = v[GEMM_STREAM_K],
      .even = v[GEMM_EVEN],
      .cluster = v[GEMM_CLUSTER_M] * v[GEMM_CLUSTER_N],
      .threads = 128 * (v[GEMM_CONSUMERS] + 1),
  };
  if (v[GEMM_SWAP]) plan->match = gemm_match_swapped(match);
  match = &plan->match;
  template_reason reason = combination(v);
  if (reason != TEMPLATE_OK) return reason;
  plan->group_rows = plan->block_m / (plan->pingpong ? 1 : plan->consumers);
  plan->accumulators = plan->group_rows / 64 * plan->block_n / 2;
  if (plan->threads > t->max_threads_per_block) return TEMPLATE_THREADS;
  int registers = plan->consumers == 2 ? CONSUMER_REGISTERS : t->max_registers_per_thread;
  /* A deferred tile waits as packed halves beside the next one's accumulators. */
  int live = plan->deferred ? plan->accumulators + plan->accumulators / 2 : plan->accumulators;
  if (live + CONSUMER_OVERHEAD_REGISTERS > registers) return TEMPLATE_REGISTERS;
  if (plan->cluster > 1 && !t->has.clusters) return TEMPLATE_CLUSTER;

  plan->a = make_operand(match->a_k_major, plan->block_m, plan->block_k, plan->cluster_n);
  plan->b = make_operand(match->b_k_major, plan->block_n, plan->block_k, plan->cluster_m);
  /* Each share of a panel begins at a whole swizzle pattern. */
  if (plan->a.panel_height / plan->a.shares % 8 || plan->b.panel_height / plan->b.shares % 8)
    return TEMPLATE_CLUSTER;
  plan->stage_bytes = plan->a.bytes + plan->b.bytes;
  shape_panels(plan, plan->block_n < 64 ? 32 : 64);
  if (!place_store_buffers(plan, t)) {
    shape_panels(plan, 32);
    if (!place_store_buffers(plan, t)) return TEMPLATE_SHARED_MEMORY;
  }
  if (plan->even && gemm_narrowest(plan) < plan->panel_n) return TEMPLATE_TILE;
  if (plan->stream) place_sums(plan);
  return TEMPLATE_OK;
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
static bool redundant(const gemm_plan *plan, int64_t units_m, int64_t units_n, int sm_count) {
  int64_t along = plan->raster_n ? units_n : units_m, across = plan->raster_n ? units_m : units_n;
  if (along == 1 || across == 1) {
    if (plan->raster_n || plan->group > 1) return true; /* one row or column of tiles has one order */
  } else if (plan->group >= along) {
    return true; /* GROUP=1 with the other RASTER */
  }
  if (plan->stream) { /* full rounds leave nothing to split */
    int64_t slots = sm_count / plan->cluster;
    return slots <= 1 || units_m * units_n % slots == 0;
  }
  return plan->persistent && units_m * units_n * plan->cluster <= sm_count; /* one tile each */
}

/* Whether tiles of one width fill whole waves. */
static bool even_already(const gemm_plan *plan, int64_t units_m, int64_t units_n, int64_t n, int sm_count) {
  return units_m * units_n % sm_count == 0 && n % plan->block_n == 0;
}

template_reason gemm_feasible(const ir_problem *p, const target *t, const config *c) {
  gemm_match match;
  gemm_plan plan;
  template_reason reason = combination(c->values); /* first: it costs least, and most points end here */
  if (reason == TEMPLATE_OK) reason = gemm_fit(p, t, &match, NULL);
  if (reason != TEMPLATE_OK) return reason;
  reason = gemm_plan_make(&match, ir_tensor_dtype(p, match.a), t, c, &plan);
  if (reason != TEMPLATE_OK) return reason;
  int64_t m = p->sizes[plan.match.m], n = p->sizes[plan.match.n];
  /* A cluster along an axis of one tile would compute nothing in its second CTA. */
  if ((plan.cluster_m > 1 && m <= plan.block_m) || (plan.cluster_n > 1 && n <= plan.block_n))
    return TEMPLATE_CLUSTER;
  int64_t units_m = gemm_units_m(&plan, m), units_n = gemm_units_n(&plan, n);
  if (units_m > INT32_MAX / plan.cluster / units_n) return TEMPLATE_SIZE;
  if (plan.stream && p->sizes[match.k] > GEMM_STREAM_MAX_K) return TEMPLATE_SIZE;
  int sm_count = t->rates.sm_count;
  if (plan.even && even_already(&plan, units_m, units_n, n, sm_count)) return TEMPLATE_REDUNDANT;
  return redundant(&plan, units_m, units_n, sm_count) ? TEMPLATE_REDUNDANT : TEMPLATE_OK;
}

/* Tiles that are worth starting from, large to small: rows, columns, consumers, schedule. */
static const struct {
  int block_m, block_n, consumers, schedule;
} start_tiles[] = {{128, 256, 2, 2}, {128, 256, 2, 0}, {128, 128, 2, 1}, {128, 128, 2, 0},
                   {64, 256, 1, 0},  {64, 128, 1, 0},  {64, 64, 1, 0},   {64, 32, 1, 0}};

/* The most stages that fit, and the first order of tiles that is not another one in disguise. */
static bool complete_start(const ir_problem *p, const target *t, config *c) {
  int *v = c->values;
  v[GEMM_STAGES] = 8;
  while (v[GEMM_STAGES] > 2 && gemm_feasible(p, t, c) == TEMPLATE_SHARED_MEMORY) v[GEMM_STAGES]--;
  for (int persistent = 1; persistent >= 0; persistent--) {
    v[GEMM_PERSISTENT] = persistent;
    for (int group = 8; group >= 1; group /= 2) {
      v[GEMM_GROUP] = group;
      if (gemm_feasible(p, t, c) == TEMPLATE_OK) return true;
    }
  }
  return false;
}

void gemm_defaults(const ir_problem *p, const target *t, config *c) {
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
  for (size_t i = 0; i < COUNT_OF(start_tiles); i++) {
    start.values[GEMM_BLOCK_M] = start_tiles[i].block_m;
    start.values[GEMM_BLOCK_N] = start_tiles[i].block_n;
    start.values[GEMM_CONSUMERS] = start_tiles[i].consumers;
    start.values[GEMM_SCHEDULE] = start_tiles[i].schedule;
    if (!complete_start(p, t, &start)) continue;
    double ns = gemm_cost_ns(p, t, &t->rates, &start);
    if (ns < best_ns) {
      best_ns = ns;
      best = start;
    }
  }
  *c = best;
}

void gemm_reduced_problem(const ir_problem *p, const target *t, const config *c, int sm_count,
                          ir_problem *reduced) {
  *reduced = *p;
  gemm_match match;
  gemm_plan plan;
  if (gemm_fit(p, t, &match, NULL) != TEMPLATE_OK) return;
  gemm_plan_make(&match, ir_tensor_dtype(p, match.a), t, c, &plan);
  /* A unit or two and a ragged part of another along M, as many along N as give some CTA a second tile (each
   * of its consumers, under ping-pong). The ragged parts leave the last cluster incomplete and keep rows
   * aligned. */
  int64_t step_m = (int64_t)plan.block_m * plan.cluster_m, step_n = (int64_t)plan.block_n * plan.cluster_n;
  int tiles_wanted = sm_count * (plan.pingpong ? 2 : 1) + 1;
  int64_t rows = 2, columns = plan.even ? 3 : 2, slots = sm_count / plan.cluster;
  while (rows * columns * plan.cluster < tiles_wanted) columns++;
  /* The last round is not full; an even number of SMs wants odd rows. */
  if ((plan.stream || plan.even) && slots > 1) {
    while (rows * columns % slots == 0) {
      if (rows == 2 && slots % 2 == 0)
        rows = 3;
      else
        columns++;
    }
  }
  const gemm_match *kernel = &plan.match;
  bool rows_aligned = kernel->y_transposed || !kernel->a_k_major,
       columns_aligned = !kernel->y_transposed || !kernel->b_k_major;
  reduced->sizes[kernel->m] = (rows - 1) * step_m + plan.block_m / 2 + (rows_aligned ? 8 : 5);
  int64_t ragged = plan.block_n / 16 * 8 + (columns_aligned ? 8 : 5);
  if (plan.even) ragged = plan.block_n - (columns_aligned ? 8 : 11); /* tiles of two widths */
  reduced->sizes[kernel->n] = (columns - 1) * step_n + ragged;
  reduced->sizes[kernel->k] = (int64_t)plan.stages * plan.block_k + 24;
}
