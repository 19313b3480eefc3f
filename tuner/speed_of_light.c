#include "tuner/speed_of_light.h"

#include <math.h>

static double memory_ns(const ir_problem *p, const target_rates *rates) {
  return 1e9 * ir_min_bytes(p) / rates->dram_bytes_per_s;
}

static double arithmetic_ns(const ir_problem *p, const target_rates *rates) {
  return 1e9 * ir_flops(p) / rates->f16_flops_per_s;
}

double tune_speed_of_light_ns(const ir_problem *p, const target_rates *rates) {
  return fmax(memory_ns(p, rates), arithmetic_ns(p, rates));
}

bool tune_is_memory_bound(const ir_problem *p, const target_rates *rates) {
  return memory_ns(p, rates) >= arithmetic_ns(p, rates);
}
