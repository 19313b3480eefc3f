/* The cost model: bytes that move, as whole tiles, at the rate that their runs and the loads in flight allow.
 */
#include "templates/transpose.h"

/* From a load to its data under load, and what a tile costs beside its bytes (two barriers, addresses). */
static const double latency_ns = 900, tile_ns = 250;

/* Share of the bandwidth that runs of `bytes` reach: DRAM moves 64 bytes at a time, and pages like more. */
static double run_efficiency(double bytes) {
  return bytes >= 256 ? 1 : bytes >= 128 ? 0.96 : bytes >= 64 ? 0.85 : bytes >= 32 ? 0.7 : bytes / 32 * 0.7;
}

static double length(const ir_form *form, int loop, int tile) {
  double extent = (double)ir_form_extent(form, loop);
  return extent < tile ? extent : tile;
}

static double tiles(const ir_form *form, int loop, int tile) {
  int64_t extent = ir_form_extent(form, loop);
  return (double)((extent + tile - 1) / tile);
}

double transpose_cost_ns(const ir_problem *p, const target *t, const target_rates *rates, const config *c) {
  arena a = ARENA_INIT;
  ir_form form;
  transpose_match match;
  transpose_plan plan;
  double ns = 1e18;
  if (transpose_fit(p, true, &a, &form, &match, NULL) == TEMPLATE_OK &&
      transpose_make_plan(&form, &match, t, c, true, c->values[TRANSPOSE_VECTOR], &plan) == TEMPLATE_OK) {
    int in = plan.bytes[0],
        out = dtype_bits(ir_tensor_dtype(p, form.accesses[form.outputs[0].access].tensor)) / 8;
    double n = tiles(&form, match.u, plan.tile_u) * tiles(&form, match.v, plan.tile_v);
    for (int i = 0; i < plan.n_outer; i++) n *= (double)ir_form_extent(&form, plan.outer[i]);
    double read = run_efficiency(length(&form, match.u, plan.tile_u) * in);
    double written = run_efficiency(length(&form, match.v, plan.tile_v) * out);
    double dram_ns = ir_min_bytes(p) / (rates->dram_bytes_per_s * (0.5 * read + 0.5 * written)) * 1e9;

    /* What an SM holds at a time, and how long it takes for that. */
    int resident = 2048 / plan.threads, by_memory = t->smem_per_block_bytes / (plan.smem_bytes + 1024);
    if (by_memory < resident) resident = by_memory;
    double instructions = (double)plan.loads * plan.n_turned * (2 + plan.load * in / (double)plan.unit) +
                          (double)plan.stores * plan.store * 2.5 + plan.stores * 6;
    double issue_ns = instructions * plan.threads / 32 / 2 / rates->clock_hz * 1e9; /* two a clock */
    double each = latency_ns + tile_ns + issue_ns;
    double per_sm = n / rates->sm_count;
    double waves = per_sm / resident < 1 ? 1 : per_sm / resident;
    double sm_ns = waves * each;
    double busy_ns = per_sm * issue_ns;
    if (busy_ns > sm_ns) sm_ns = busy_ns;
    ns = rates->launch_ns + (sm_ns > dram_ns ? sm_ns + 0.1 * dram_ns : dram_ns + 0.1 * sm_ns);
    if (plan.tiles != TRANSPOSE_EACH_TILE) ns += plan.stores * 2 + (waves < 2 ? 50 : 0);
  }
  arena_release(&a);
  return ns;
}
