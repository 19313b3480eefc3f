/* How long a map takes: bytes over the bandwidth that its loads in flight sustain, or its instructions, in
 * waves of CTAs, after the launch. */
#include "templates/map.h"

/* Of an H200 (docs: measured elsewhere): how long a load takes under load, and the least for one wave to read
 * and to write. */
#define LATENCY_S       700e-9
#define WAVE_NS         1100.0
#define TILE_NS         180.0 /* of a CTA's SM: start, indices, and an end */
#define MOST_RESIDENT   32
#define THREADS_PER_SM  2048
#define SLOTS_PER_CLOCK 4.0 /* warp instructions of an SM */

static double smaller(double x, double y) {
  return x < y ? x : y;
}

/* Instructions of a thread for one element, roughly: arithmetic, and accesses of its vector. */
static double instructions(const map_match *m, const map_plan *plan) {
  const ir_problem *p = m->form.problem;
  double per_vector = 12, elements = 0;
  for (int i = 0; i < m->form.n_accesses; i++) {
    lanes_options o = map_lanes(m, plan, 0, plan->lanes.width);
    int bits = dtype_bits(ir_tensor_dtype(p, m->form.accesses[i].tensor));
    double accesses = plan->lanes.width * bits / 128.0;
    if (accesses < 1) accesses = 1;
    if (!(o.wide >> i & 1)) accesses = plan->lanes.width;
    per_vector += 3 * accesses + plan->lanes.width * (bits < 32 ? 0.6 : 0.1);
  }
  for (int i = 0; i < m->form.n_outputs; i++) {
    elements += (double)ir_tensor_elements(p, m->form.accesses[m->form.outputs[i].access].tensor);
  }
  if (elements < 1) return per_vector / plan->lanes.width;
  return per_vector / plan->lanes.width + 1.5 * ir_flops(p) / elements;
}

double map_cost_ns(const ir_problem *p, const target *t, const target_rates *rates, const config *c) {
  arena a = ARENA_INIT;
  map_match m;
  map_plan plan;
  template_reason reason;
  arke_error err = ARKE_ERROR_INIT;
  double ns = 1e15; /* last of all */
  if (map_match_make(p, true, &a, &m, &reason, NULL, &err) != ARKE_OK || reason != TEMPLATE_OK) goto done;
  reason = map_plan_make(&m, t, c, &plan);
  if (reason != TEMPLATE_OK && reason != TEMPLATE_REDUNDANT) goto done;

  double bytes = ir_min_bytes(p), elements = 1;
  for (int i = 0; i < m.form.n_outputs; i++)
    elements += (double)ir_tensor_elements(p, m.form.accesses[m.form.outputs[i].access].tensor);
  double per_element = bytes / elements; /* read and written */
  double thread_bytes = per_element * c->values[MAP_VECTOR] * c->values[MAP_UNROLL];
  double registers = 24 + thread_bytes / 2;
  double resident = smaller(smaller(THREADS_PER_SM / plan.threads, MOST_RESIDENT),
                            t->registers_per_sm / registers / plan.threads);
  if (resident < 1) resident = 1;
  double tiles = (double)map_tile_count(&m, &plan), sms = rates->sm_count;
  if (plan.persistent > 0) resident = smaller(resident, plan.persistent);
  double per_sm = smaller(resident, tiles / sms < 1 ? 1 : tiles / sms);
  /* Reads in flight, half of what travels, against what covers the latency. */
  double in_flight = per_sm * plan.threads * thread_bytes / 2;
  double needed = rates->dram_bytes_per_s / sms * LATENCY_S / 2;
  double efficiency = in_flight / needed;
  efficiency = efficiency < 1 ? efficiency : 1 + smaller(0.04, 0.01 * (efficiency - 1));
  double bandwidth = bytes <= (double)rates->l2_bytes / 2
                         ? smaller(rates->l2_bytes_per_s, 1.5 * rates->dram_bytes_per_s)
                         : rates->dram_bytes_per_s;
  double memory_ns = bytes / (bandwidth * 0.96 * efficiency) * 1e9;
  double issue_ns = elements / 32 * instructions(&m, &plan) / (sms * SLOTS_PER_CLOCK * rates->clock_hz) * 1e9;
  /* SMs that wait for the last tiles: of several waves the last one costs little. */
  double slots = sms * resident, waves = tiles / slots, whole = (double)(int64_t)(waves + 0.999999);
  double idle = waves > 0 && whole > 1 ? (whole - waves) / whole * 0.3 : 0;
  if (tiles < sms) idle = sms / tiles - 1;
  double body = memory_ns > issue_ns ? memory_ns : issue_ns;
  double starts = plan.persistent > 0 ? 1 : whole;
  ns = rates->launch_ns + WAVE_NS + body * (1 + idle) + TILE_NS * (tiles / sms / resident) +
       0.02 * TILE_NS * starts;
  if (plan.persistent > 0) ns += 40;
  if (c->values[MAP_STREAM] == 0 && bytes > (double)rates->l2_bytes) ns *= 1.002;
done:
  arena_release(&a);
  return ns;
}
