#include "templates/gemm.h"

double gemm_cost_ns(const ir_problem *p, const target *t, const target_rates *rates, const config *c) {
  gemm_match match;
  gemm_plan plan;
  if (gemm_fit(p, t, &match, NULL) != TEMPLATE_OK) return 0;
  gemm_plan_make(&match, ir_tensor_dtype(p, match.a), t, c, &plan);
  double units =
      (double)gemm_units_m(&plan, p->sizes[match.m]) * (double)gemm_units_n(&plan, p->sizes[match.n]);
  double waves = (double)(int64_t)((units * plan.cluster + rates->sm_count - 1) / rates->sm_count);
  double flops = 2.0 * plan.block_m * plan.block_n * (double)p->sizes[match.k];
  return waves * flops / (rates->f16_flops_per_s / rates->sm_count) * 1e9 + rates->launch_ns;
}
