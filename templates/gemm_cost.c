/* The cost model: the time of a pipeline step from what it asks of the tensor cores, shared memory, the L2
 * cache and the latency of copies; tiles and waves from that; the time of main memory beside it.
 * Constants without another source were fitted on an H200 to two sets of interleaved measurements: 85
 * configurations of 12 shapes, NN and NT, in short bursts, and 40 of 11 problems, clusters among them, at the
 * power limit. There the model's first choice took on average 0.5 % more time than the best of them, the best
 * of its first four 0.2 %. */
#include <math.h>

#include "templates/gemm.h"

/* Share of the matrix units' rate that products reach when all operands have arrived. */
static const double math_efficiency = 0.875;
/* Share of 128 bytes a clock that wgmma gets from shared memory, and of the copy rate that streaming inputs
 * reach. */
static const double smem_efficiency = 0.77, dram_efficiency = 0.945;
/* From issuing a copy to its data. */
static const double copy_latency_ns = 959;
/* CTAs that work on the same rows or columns ask the same slices of the L2 cache for the same lines at the
 * same time, one after the other. */
static const double sharer_ns = 1.26;
/* What a tile costs beside its steps, by schedule, and what storing it costs for each element where nothing
 * hides it. */
static const double tile_ns[] = {114, 150, 190}, store_ns = 0.0156;
static const double fill_ns = 559, drain_ns = 872;
/* How much of a partly filled last wave counts as a whole one: SMs that run alone run faster. */
static const double wave_weight = 0.85;
/* What STREAM_K costs: a launch that clears flags, and, for each element of a tile, sums that go through the
 * cache. */
static const double stream_ns = 5000, stream_sum_ns = 0.18;
/* A stage that two CTAs must both have left takes a little longer. */
static const double cluster_factor = 1.004;

typedef struct cost_inputs {
  const gemm_plan *plan;
  const target_rates *rates;
  double m, n, k;
  double tiles_m, tiles_n;        /* of CTAs */
  double ctas;                    /* running at the same time */
  double band_along, band_across; /* tiles of the area they cover together */
} cost_inputs;

static double slots_of(const gemm_plan *plan, const target_rates *rates) {
  return rates->sm_count / plan->cluster * plan->cluster;
}

static cost_inputs inputs_of(const ir_problem *p, const gemm_plan *plan, const target_rates *rates) {
  const gemm_match *match = &plan->match;
  cost_inputs in = {.plan = plan,
                    .rates = rates,
                    .m = (double)p->sizes[match->m],
                    .n = (double)p->sizes[match->n],
                    .k = (double)p->sizes[match->k]};
  in.tiles_m = (double)gemm_units_m(plan, p->sizes[match->m]) * plan->cluster_m;
  in.tiles_n = (double)gemm_units_n(plan, p->sizes[match->n]) * plan->cluster_n;
  in.ctas = fmin(in.tiles_m * in.tiles_n, slots_of(plan, rates));
  double along = plan->raster_n ? in.tiles_n : in.tiles_m;
  double group = plan->group * (plan->raster_n ? plan->cluster_n : plan->cluster_m);
  in.band_along = fmin(group, along);
  in.band_across = fmax(1, in.ctas / in.band_along);
  return in;
}

/* wgmma reads 64 x 16 elements of A for each row tile, and all 16 rows of B again for it; from narrow panels
 * of B with N contiguous it reads slower. */
static double smem_bytes(const gemm_plan *plan) {
  double products = (double)plan->block_m / 64 * plan->block_k / 16;
  double narrow = !plan->b.k_major && plan->b.panel_width < 64 ? 1.6 : 1;
  return products * (64 * 16 * 2 + narrow * plan->block_n * 16 * 2);
}

static double step_ns(const cost_inputs *in) {
  const gemm_plan *plan = in->plan;
  double sms = in->rates->sm_count;
  double math = 2.0 * plan->block_m * plan->block_n * plan->block_k /
                (in->rates->f16_flops_per_s * math_efficiency / sms) * 1e9;
  double smem = smem_bytes(plan) / (128 * smem_efficiency * in->rates->clock_hz) * 1e9;
  /* The way into an SM: what CTAs share is read once from the cache, but arrives in each. */
  double l2 = plan->stage_bytes / (in->rates->l2_bytes_per_s / sms) * 1e9;
  double copies = copy_latency_ns / (plan->stages - 1); /* one stage is being multiplied */
  double sharers = fmax(in->band_along, in->band_across) / plan->cluster * sharer_ns;
  /* Nearly the largest of them: what comes close to it still gets in its way. */
  const double power = 10;
  double sum =
      pow(math, power) + pow(smem, power) + pow(l2, power) + pow(copies, power) + pow(sharers, power);
  return pow(sum, 1 / power) * (plan->cluster > 1 ? cluster_factor : 1);
}

/* Inputs read from main memory: each wave reads the rows and columns of the area it covers, unless all of it
 * is read once and stays in the cache. */
static double dram_ns(const cost_inputs *in, double waves) {
  const gemm_plan *plan = in->plan;
  double along = plan->raster_n ? in->tiles_n : in->tiles_m,
         across = plan->raster_n ? in->tiles_m : in->tiles_n;
  double block_along = plan->raster_n ? plan->block_n : plan->block_m;
  double block_across = plan->raster_n ? plan->block_m : plan->block_n;
  double covered_across = fmin(in->band_across, across);
  double covered_along = in->band_across > across ? fmin(along, in->ctas / across) : in->band_along;
  double each_wave = (covered_along * block_along + covered_across * block_across) * in->k * 2;
  double once = (in->m + in->n) * in->k * 2;
  double bytes = fmax(once, waves > 1 ? waves * each_wave : once) + in->m * in->n * 2;
  return bytes / (in->rates->dram_bytes_per_s * dram_efficiency) * 1e9;
}

/* EVEN: rounds of tiles as wide as the widest ones that a CTA computes. It has about as many columns as any
 * other, and up to a step more; tiles below the narrowest are not there. */
static double even_rounds(const cost_inputs *in) {
  const gemm_plan *plan = in->plan;
  double rounds = ceil(in->tiles_m * in->tiles_n / in->ctas);
  double columns = fmax(in->n * in->tiles_m / in->ctas, rounds * gemm_narrowest(plan));
  return fmin(rounds, (columns + GEMM_EVEN_STEP) / plan->block_n);
}

double gemm_cost_ns(const ir_problem *p, const target *t, const target_rates *rates, const config *c) {
  gemm_match match;
  gemm_plan plan;
  if (gemm_fit(p, t, &match, NULL) != TEMPLATE_OK) return INFINITY;
  gemm_plan_make(&match, ir_tensor_dtype(p, match.a), t, c, &plan);
  cost_inputs in = inputs_of(p, &plan, rates);
  double store = store_ns * plan.block_m * plan.block_n;
  double steps = ceil(in.k / plan.block_k);
  double waves = in.tiles_m * in.tiles_n / (plan.stream ? slots_of(&plan, rates) : in.ctas);
  double weighted = wave_weight * ceil(waves) + (1 - wave_weight) * waves;
  bool hidden = (plan.pingpong || plan.deferred) && waves > 1;
  double each = steps * step_ns(&in) + tile_ns[c->values[GEMM_SCHEDULE]] + (hidden ? 0 : store);
  double busy = weighted * each + drain_ns + (hidden ? store : 0);
  if (plan.even) busy = even_rounds(&in) * each + drain_ns + store;
  if (plan.stream)
    busy = waves * each + drain_ns + store + stream_ns + stream_sum_ns * plan.block_m * plan.block_n;
  return fmax(busy, dram_ns(&in, waves)) + fill_ns + rates->launch_ns;
}
