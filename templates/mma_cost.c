/* The time of a product by warps: what keeps an SM busy, how long a k-step takes by itself, and memory. */
#include <math.h>

#include "templates/mma.h"

/* Guesses, to be fitted to measured times: a copy's way from L2 to shared memory; instructions that load a
 * vector; what starting and ending a tile takes. */
static const double copy_latency_ns = 700, copy_instructions = 8, vector_instructions = 24,
                    element_instructions = 3, tile_ns = 1500, step_ns = 30, dram_efficiency = 0.9,
                    smem_efficiency = 0.8, issue_per_clock = 3;

/* Each quarter of an SM has a matrix unit, which its own warps alone use. */
enum { SCHEDULERS = 4 };

typedef struct load {
  double math, smem, l2, issue; /* ns of an SM for a k-step of one tile */
} load;

static load step_of(const mma_plan *p, const target_rates *rates) {
  const contraction *c = p->c;
  double sms = rates->sm_count, ns_per_clock = 1e9 / rates->clock_hz;
  double flops = 2.0 * p->block_m * p->block_n * p->block_k * c->n_sums;
  load l = {.math = flops / (rates->f16_flops_per_s * p->product.rate / sms) * 1e9};
  double fragments = 0, bytes = 0, instructions = 0;
  for (int i = 0; i < c->n_operands; i++) {
    const mma_tile *t = &p->tiles[i];
    int again = t->operand->side == CONTRACTION_A ? p->warps_n : p->warps_m;
    fragments += (double)t->parts * t->tile_bytes * (again + 1);
    bytes += t->tile_bytes;
    double each =
        t->copied ? copy_instructions : vector_instructions + element_instructions * t->options.width;
    instructions += (double)t->vectors * each / 32;
  }
  double products = p->product.fma ? flops / 64 : flops / (2.0 * 16 * 8 * p->product.k);
  l.smem = fragments / (128 * smem_efficiency) * ns_per_clock;
  l.l2 = bytes / (rates->l2_bytes_per_s / sms) * 1e9;
  l.issue = (instructions + products) / issue_per_clock * ns_per_clock;
  return l;
}

static int resident(const mma_plan *p, const target *t) {
  int words = mma_sum_bytes(p) / 4;
  int registers = p->accumulators * p->c->n_sums * words + 72;
  if (registers > t->max_registers_per_thread) registers = t->max_registers_per_thread;
  int by_registers = t->registers_per_sm / (registers * p->threads);
  int by_smem = t->smem_per_block_bytes / (p->smem_bytes + 1024);
  int n = by_registers < by_smem ? by_registers : by_smem;
  return n < 1 ? 1 : n > 16 ? 16 : n;
}

double mma_plan_cost_ns(const mma_plan *p, const target *t, const target_rates *rates) {
  const contraction *c = p->c;
  double m = (double)contraction_extent(c, &c->m), n = (double)contraction_extent(c, &c->n),
         k = (double)contraction_extent(c, &c->k), batch = (double)contraction_extent(c, &c->batch);
  double rows = ceil(m / p->block_m);
  if (c->groups.of) rows += 0.5 * fmin(m, (double)ir_form_extent(&c->form, c->groups.loop)); /* ragged ends */
  double tiles = rows * ceil(n / p->block_n) * batch * p->split;
  double steps = ceil(ceil(k / p->block_k) / p->split);
  load l = step_of(p, rates);
  double at_once = fmin(ceil(tiles / rates->sm_count), resident(p, t));
  l.math *= fmax(1, SCHEDULERS * 32 / (at_once * p->threads));
  double busy = fmax(fmax(l.math, l.smem), fmax(l.l2, l.issue));
  double alone = fmax(busy + step_ns, copy_latency_ns / (p->stages - 1));
  double rounds = ceil(tiles / (rates->sm_count * at_once));
  double epilogue = tile_ns + (double)p->block_m * p->block_n * c->n_sums * 0.03;
  double time = rounds * fmax(steps * alone + epilogue, at_once * (steps * busy + 0.3 * epilogue));
  double bytes = 0;
  for (int i = 0; i < c->form.problem->op->n_args; i++) {
    double elements = (double)ir_tensor_elements(c->form.problem, i);
    bytes += elements * dtype_bits(ir_tensor_dtype(c->form.problem, i)) / 8;
  }
  double again = p->split > 1 ? 2.0 * m * n * batch * p->split * c->n_sums * mma_sum_bytes(p) : 0;
  double memory = bytes / (rates->dram_bytes_per_s * dram_efficiency) * 1e9;
  double parts = again / (rates->l2_bytes_per_s * 0.5) * 1e9 + (p->split > 1 ? rates->launch_ns : 0);
  /* They get into each other's way where they are alike, as in gemm_cost.c. */
  return pow(pow(time, 4) + pow(memory, 4), 0.25) + parts + rates->launch_ns;
}
