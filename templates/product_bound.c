#include "templates/product_bound.h"

#include "templates/contraction.h"

/* Share of the warp-group units' rate. An H100 was seen to do 0.63 (Luo et al., "Benchmarking and Dissecting
 * the Nvidia Hopper GPU Architecture via Microbenchmarking", 2024); the fastest of Arke's products does 0.46.
 * On targets without warp-group units mma.sync has the whole rate. */
static const double mma_sync_share = 0.75;

/* Operands of 8 bits are multiplied twice as fast. */
static double widest_factor(const contraction *c) {
  double factor = 1;
  for (int i = 0; i < c->n_operands; i++)
    if (dtype_bytes(c->operands[i].type, 8) <= 8) factor = 2;
  return factor;
}

double product_bound_ns(const ir_problem *p, const void *prepared, const target *t, const target_rates *rates,
                        const config *c) {
  (void)prepared;
  if (c) return 0;
  arena a = ARENA_INIT;
  contraction *found = ARENA_NEW(&a, contraction);
  double ns = 0;
  if (found && contraction_match(p, true, &a, found, NULL, NULL) == TEMPLATE_OK) {
    double terms =
        (double)contraction_extent(found, &found->batch) * (double)contraction_extent(found, &found->m) *
        (double)contraction_extent(found, &found->n) * (double)contraction_extent(found, &found->k);
    double share = t->has.wgmma ? mma_sync_share : 1;
    ns = 2 * terms * found->n_sums / (target_boost_flops_per_s(rates) * share * widest_factor(found)) * 1e9;
    for (int i = 0; i < found->n_sums; i++)
      if (found->sums[i].n_conditions > 0) ns = 0;
  }
  arena_release(&a);
  return ns;
}

bool product_lies_unevenly(double min_bytes, int64_t ctas, int sms, bool alone) {
  enum { FEW_WAVES = 4 };
  if (min_bytes < PRODUCT_LONG_BYTES || 2 * ctas <= sms || ctas > FEW_WAVES * sms) return false;
  if (ctas <= sms && !alone) return false;
  return 5 * ctas < 4 * ((ctas + sms - 1) / sms * sms);
}
