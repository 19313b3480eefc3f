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
static const double smem_efficiency = 0.77, dram_efficiency = 0.87;
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
/* What STREAM_K=2 costs: two barriers of a cluster, and sums that go from one SM to another; guesses. */
static const double split_ns = 600, split_sum_ns = 0.03;
/* From a partial sum's last product to the next one's first, besides an addition a clock, where nobody else
 * adds: fitted to 10 configurations of 8-bit floats. */
static const double part_clocks = 140;
/* The same of two consumers of a tile, which add at once: fitted to 3 tiles with a scale a tensor on an H200.
 * What scales of blocks in shared memory add to a stage, by 5 tiles there. */
static const double part_ns = 40, addition_ns = 1.2, staged_scales_ns = 80;
/* From asking for a stage's scales to multiplying them, where consumers ask for them themselves: what three
 * tiles on an H200 took beyond their products (80, 167 and 217 ns of 837, 603 and 502). */
static const double scale_latency_ns = 400;
/* The clock of a GPU whose matrix units are busy all the time is as given; where they are for less than the
 * first share of it, it is this much higher, and as given from the second share on. */
static const double idle_clock = 1.128, idle_share = 0.5, busy_share = 0.9;
/* In a single wave, what CTAs that follow one another lose by reading the same columns, for each row of tiles
 * beyond the first: tiles along M first took 1.0 to 1.17 times as long as along N where there are 2
 * rows, 1.13 to 1.57 times where there are 4. */
static const double neighbour_factor = 0.13, most_neighbours = 0.45;
/* Orders of a single wave differ by little: the simpler one first, so that what is tried first is not one
 * tile in all orders. */
static const double group_factor = 0.003;
/* A stage that two CTAs must both have left takes a little longer. */
static const double cluster_factor = 1.004;

typedef struct cost_inputs {
  const gemm_plan *plan;
  const target_rates *rates;
  double m, n, k;
  double batches;                 /* matrices, one after the other */
  double tiles_m, tiles_n;        /* of CTAs, in one of them */
  double ctas;                    /* running at the same time */
  double band_along, band_across; /* tiles of the area they cover together */
} cost_inputs;

static double slots_of(const gemm_plan *plan, const target_rates *rates) {
  return rates->sm_count / plan->cluster * plan->cluster;
}

static cost_inputs inputs_of(const gemm_plan *plan, const target_rates *rates) {
  const gemm_match *match = &plan->match;
  int64_t m = gemm_extent(match, match->m), n = gemm_extent(match, match->n);
  cost_inputs in = {.plan = plan,
                    .rates = rates,
                    .m = (double)m,
                    .n = (double)n,
                    .k = (double)(gemm_extent(match, match->k) * gemm_k_parts(match)),
                    .batches = (double)gemm_batches(plan)};
  in.tiles_m = (double)gemm_units_m(plan, m) * plan->cluster_m;
  if (plan->match.grouped) { /* ragged ends */
    const contraction *c = plan->match.c;
    in.tiles_m += 0.5 * fmin((double)m, (double)ir_form_extent(&c->form, c->groups.loop));
  }
  in.tiles_n = (double)gemm_units_n(plan, n) * plan->cluster_n * plan->split;
  in.ctas = fmin(in.tiles_m * in.tiles_n * in.batches, slots_of(plan, rates));
  double along = plan->raster_n ? in.tiles_n / plan->split : in.tiles_m;
  double group = plan->group * (plan->raster_n ? plan->cluster_n : plan->cluster_m);
  in.band_along = fmin(group, along);
  in.band_across = fmax(1, in.ctas / plan->split / in.band_along);
  return in;
}

/* Partial sums of a row tile in a stage; 1 where sums stay in the matrix unit. */
static double parts_of(const gemm_plan *plan) {
  return plan->part_n > 0 ? (double)plan->block_n * plan->match.n_sums / plan->part_n : 1;
}

/* wgmma reads 64 rows of 32 bytes of A for each row tile, for each part of it, and those of B again for it;
 * from narrow panels of B with N contiguous it reads slower. */
static double smem_bytes(const gemm_plan *plan) {
  double products = (double)plan->block_m / 64 * plan->block_k / plan->match.type.k;
  double narrow = !plan->b.k_major && plan->b.panel_width < 64 ? 1.6 : 1;
  double rows = 64 * parts_of(plan);
  return products * (rows + narrow * plan->block_n * plan->match.n_sums) * 32;
}

/* Scales within the sum that a thread asks for under a stage's products, and waits for before the next ones:
 * of two groups the other one's hide half of that. */
static double scales_ns(const gemm_plan *plan, double products_ns) {
  if (plan->match.block == 0) return 0;
  if (plan->scales_staged) return staged_scales_ns;
  bool alone = plan->pingpong || plan->consumers == 1;
  return fmax(0, scale_latency_ns - products_ns / (alone ? 1 : 2));
}

/* A group that multiplies alone multiplies nothing while it adds. Two of a tile add at once: where each
 * waited for its turn, all of it took 1 to 5 % longer. */
static double adding_ns(const gemm_plan *plan, double clock_hz) {
  bool alone = plan->pingpong || plan->consumers == 1;
  if (plan->part_n == 0) return 0;
  double parts = parts_of(plan) * plan->group_rows / 64;
  double own = (plan->accumulators + part_clocks * parts) / clock_hz * 1e9;
  if (alone) return own;
  return part_ns * parts + addition_ns * plan->accumulators;
}

static double step_ns(const cost_inputs *in) {
  const gemm_plan *plan = in->plan;
  double sms = in->rates->sm_count;
  double flops = 2.0 * plan->block_m * plan->block_n * plan->match.n_sums * plan->block_k;
  double rate = in->rates->f16_flops_per_s * plan->match.type.rate;
  double math = flops / (rate * math_efficiency / sms) * 1e9;
  double smem = smem_bytes(plan) / (128 * smem_efficiency * in->rates->clock_hz) * 1e9;
  /* The way into an SM: what CTAs share is read once from the cache, but arrives in each. */
  double l2 = plan->stage_bytes / (in->rates->l2_bytes_per_s / sms) * 1e9;
  double copies = copy_latency_ns / (plan->stages - 1); /* one stage is being multiplied */
  double sharers = fmax(in->band_along, in->band_across) / plan->sharers * sharer_ns;
  /* Nearly the largest of them: what comes close to it still gets in its way. */
  const double power = 10;
  double sum =
      pow(math, power) + pow(smem, power) + pow(l2, power) + pow(copies, power) + pow(sharers, power);
  double products = pow(sum, 1 / power) * (plan->sharers > 1 ? cluster_factor : 1);
  double share = math / products * in->ctas / sms;
  products /= 1 + (idle_clock - 1) * fmax(0, fmin(1, (busy_share - share) / (busy_share - idle_share)));
  bool single_wave = in->tiles_m * in->tiles_n * in->batches <= in->ctas;
  if (single_wave && !plan->raster_n && plan->group == 1)
    products *= 1 + fmin(most_neighbours, neighbour_factor * (in->tiles_m - 1));
  if (single_wave) products *= 1 + group_factor * log2(plan->group);
  return products + adding_ns(plan, in->rates->clock_hz) + scales_ns(plan, products);
}

static double tensor_bytes(const gemm_match *match, uint64_t accesses) {
  const ir_form *form = &match->c->form;
  uint64_t tensors = 0;
  double bytes = 0;
  for (int i = 0; i < form->n_accesses; i++)
    if (accesses >> i & 1) tensors |= UINT64_C(1) << form->accesses[i].tensor;
  for (int t = 0; t < form->problem->op->n_args; t++) {
    double bits = dtype_bits(ir_tensor_dtype(form->problem, t));
    if (tensors >> t & 1) bytes += (double)ir_tensor_elements(form->problem, t) * bits / 8;
  }
  return bytes;
}

/* Inputs read from main memory: each wave reads the rows and columns of the area it covers, unless all of it
 * is read once and stays in the cache. */
static double dram_ns(const cost_inputs *in, double waves) {
  const gemm_plan *plan = in->plan;
  const gemm_match *match = &plan->match;
  const ir_form *form = &match->c->form;
  double tiles_n = in->tiles_n / plan->split;
  double along = plan->raster_n ? tiles_n : in->tiles_m, across = plan->raster_n ? in->tiles_m : tiles_n;
  double columns = (double)plan->block_n * match->n_sums;
  double block_along = plan->raster_n ? columns : plan->block_m;
  double block_across = plan->raster_n ? plan->block_m : columns;
  double covered_across = fmin(in->band_across, across);
  double covered_along =
      in->band_across > across ? fmin(along, in->ctas / plan->split / across) : in->band_along;
  double each_wave =
      (covered_along * block_along + covered_across * block_across) * in->k * match->type.bytes;
  uint64_t operands = UINT64_C(1) << match->a.access, others = match->c->epilogue;
  for (int i = 0; i < match->n_sums; i++) operands |= UINT64_C(1) << match->b[i].access;
  for (int i = 0; i < form->n_outputs; i++) others |= UINT64_C(1) << form->outputs[i].access;
  double once = tensor_bytes(match, operands);
  double bytes = fmax(once, waves > in->batches ? waves * each_wave : once) + tensor_bytes(match, others);
  return bytes / (in->rates->dram_bytes_per_s * dram_efficiency) * 1e9;
}

/* What reading a tile's own elements of other tensors takes where nothing hides it. A guess: as long as
 * storing so many. */
static double reads_ns(const gemm_plan *plan) {
  const gemm_match *match = &plan->match;
  const ir_form *form = &match->c->form;
  double elements = 0;
  for (int i = 0; i < form->n_accesses; i++) {
    unsigned loops = 0;
    for (int s = 0; s < form->accesses[i].n; s++)
      loops |= ir_form_free(form, form->accesses[i].subscripts[s].e);
    bool read = match->c->epilogue >> i & 1 && !(gemm_staged_accesses(plan) >> i & 1);
    if (read && loops >> match->m & 1 && loops >> match->n & 1)
      elements += (double)plan->block_m * plan->block_n;
    else if (read)
      elements += plan->block_m + plan->block_n;
  }
  return store_ns * elements;
}

/* EVEN: rounds of tiles as wide as the widest ones that a CTA computes. It has about as many columns as any
 * other, and up to a step more; tiles below the narrowest are not there. */
static double even_rounds(const cost_inputs *in) {
  const gemm_plan *plan = in->plan;
  double slots = slots_of(plan, in->rates), rounds = ceil(in->tiles_m * in->tiles_n * in->batches / slots);
  double columns = fmax(in->n * in->tiles_m * in->batches / slots, rounds * gemm_narrowest(plan));
  return fmin(rounds, (columns + GEMM_EVEN_STEP) / plan->block_n);
}

double gemm_plan_cost_ns(const gemm_plan *plan, const target_rates *rates) {
  cost_inputs in = inputs_of(plan, rates);
  double outputs = plan->match.c->form.n_outputs;
  double store = store_ns * plan->block_m * plan->block_n * outputs + reads_ns(plan);
  double parts = (double)gemm_k_parts(&plan->match), steps = parts * ceil(in.k / parts / plan->block_k);
  steps = ceil(steps / plan->split);
  double waves = in.tiles_m * in.tiles_n * in.batches / (plan->stream ? slots_of(plan, rates) : in.ctas);
  double weighted = wave_weight * ceil(waves) + (1 - wave_weight) * waves;
  bool hidden = plan->pingpong && waves > 1;
  bool stored_later = plan->deferred && waves > 1; /* reads are waited for all the same */
  double shown = hidden ? 0 : stored_later ? reads_ns(plan) : store;
  double each = steps * step_ns(&in) + tile_ns[plan->pingpong ? 1 : plan->deferred ? 2 : 0] + shown;
  double busy = weighted * each + drain_ns + store - shown;
  if (plan->split > 1) busy += split_ns + split_sum_ns * plan->block_m * plan->block_n * plan->match.n_sums;
  if (plan->even) busy = even_rounds(&in) * each + drain_ns + store;
  if (plan->stream)
    busy = waves * each + drain_ns + store + stream_ns +
           stream_sum_ns * plan->block_m * plan->block_n * plan->match.n_sums;
  return fmax(busy, dram_ns(&in, waves)) + fill_ns + rates->launch_ns;
}
