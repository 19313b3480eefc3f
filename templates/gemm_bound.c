/* What no run of a configuration can beat: of an SM that has the most tiles, the time of its matrix units, of
 * the copies into it, and of the ring of stages, whichever is longest. An exhaustive search leaves out what
 * cannot win by this, so each rate here is one that the hardware cannot exceed, or that nothing was seen to.
 * tests/templates/test_gemm_bound.c holds it against measured times. */
#include <math.h>

#include "templates/gemm.h"

/* Bytes that the way from the L2 cache into an SM takes a clock: the width of its port. The fastest of 6,620
 * timed products took 59.9. */
static const double port_bytes = 64;
/* From the release of a stage to the next data in it, in clocks. In 3,500 timed products with a persistent
 * grid it was never less than 1,650; a tenth is taken off. */
static const double refill_clocks = 1485;
/* From launch to launch, and not yet any work: empty kernels in a row are 2,500 apart. */
static const double launch_ns = 1000;

/* Share of the matrix units' rate by width of the tile: wgmma alone, both operands in shared memory, two warp
 * groups (measured on an H200: 967, 931, 889 and 582 TFLOP/s for 256, 192, 96 and 32 columns). */
static double width_share(int columns) {
  return columns > 192 ? 1 : columns > 96 ? 0.963 : columns > 32 ? 0.92 : 0.602;
}

static double ceildiv(double x, double y) {
  return ceil(x / y);
}

/* Bytes of A and B that all CTAs ask for together. Rows and columns past the edge are not copied. */
static double copied_bytes(const gemm_plan *plan, double m, double n, double k) {
  double across_n = plan->even ? n / plan->block_n : ceildiv(n, plan->block_n);
  double rows = across_n * m + ceildiv(m, plan->block_m) * n * plan->match.n_sums;
  return rows * k * plan->match.type.bytes * (double)gemm_batches(plan);
}

/* Rows or columns of the last tile, which is the smallest. */
static double last_extent(double size, int block) {
  return size - (ceildiv(size, block) - 1) * block;
}

double gemm_plan_bound_ns(const gemm_plan *plan, const target *t, const target_rates *rates) {
  const gemm_match *match = &plan->match;
  for (int i = 0; i < match->n_sums; i++)
    if (match->c->sums[i].n_conditions > 0) return 0; /* terms are left out */
  double sms = rates->sm_count, batches = (double)gemm_batches(plan);
  double m = (double)gemm_extent(match, match->m), n = (double)gemm_extent(match, match->n),
         k = (double)gemm_extent(match, match->k) / plan->split;
  double tiles = (double)gemm_units_m(plan, (int64_t)m) * (double)gemm_units_n(plan, (int64_t)n) *
                 plan->cluster * batches;
  /* Tiles of the SM that has the most; those that are split or of several widths, as if all had the same. */
  bool whole = !plan->even && !plan->stream;
  double most = whole          ? ceildiv(tiles, sms)
                : plan->stream ? tiles / sms
                               : m * n * batches / plan->block_m / plan->block_n / sms;

  int columns = plan->block_n * match->n_sums, least = plan->even ? gemm_narrowest(plan) : columns;
  double flops_per_s = target_boost_flops_per_s(rates) / sms * match->type.rate * width_share(columns);
  double tile_ns = 2.0 * plan->block_m * columns * k / flops_per_s * 1e9;

  double bytes = copied_bytes(plan, m, n, k) / sms;
  double smallest = last_extent(m, plan->block_m) + last_extent(n, plan->block_n) * match->n_sums;
  if (whole) bytes = fmax(bytes, most * smallest * k * match->type.bytes);
  double copy_ns = bytes / (port_bytes * rates->boost_hz) * 1e9;

  /* A stage is filled anew when what it held was multiplied. CTAs that share an SM have a ring each. */
  int ctas = plan->persistent ? 1 : t->smem_per_block_bytes / plan->smem_bytes;
  double step_ns = 2.0 * plan->block_m * least * plan->block_k / flops_per_s * 1e9;
  double refill_ns = refill_clocks / rates->boost_hz * 1e9;
  double ring_ns = most * k / plan->block_k * (refill_ns + step_ns) / plan->stages / (ctas < 1 ? 1 : ctas);
  return fmax(fmax(most * tile_ns, copy_ns), ring_ns) + refill_ns + launch_ns;
}
