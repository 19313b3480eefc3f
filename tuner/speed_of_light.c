#include "tuner/speed_of_light.h"

#include <math.h>

#include "tuner/exact_outputs.h"

static double memory_ns(const ir_problem *p, const target_rates *rates) {
  return 1e9 * ir_min_bytes(p) / rates->dram_bytes_per_s;
}

/* Matrix units multiply 8-bit floats twice as fast. */
static double arithmetic_ns(const ir_problem *p, const target_rates *rates) {
  bool bytes = false;
  for (int i = 0; i < p->op->n_definitions; i++)
    bytes = bytes || tune_rounding_of(p, p->op->definitions[i].tensor).bytes;
  return 1e9 * ir_flops(p) / (rates->f16_flops_per_s * (bytes ? 2 : 1));
}

double tune_speed_of_light_ns(const ir_problem *p, const target_rates *rates) {
  return fmax(memory_ns(p, rates), arithmetic_ns(p, rates));
}

bool tune_is_memory_bound(const ir_problem *p, const target_rates *rates) {
  return memory_ns(p, rates) >= arithmetic_ns(p, rates);
}
