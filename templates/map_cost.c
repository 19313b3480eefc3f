/* How long a map takes: bytes over the bandwidth that its loads in flight sustain, or its instructions, in
 * waves of CTAs, after the launch. */
#include "templates/map.h"

/* Of an H200 (docs: measured elsewhere): how long a load takes under load, and the least for one wave to read
 * and to write. */
#define LATENCY_S       700e-9
#define WAVE_NS         1100.0
#define TILE_NS         180.0 /* of a CTA's SM: start, indices, and an end */
#define LOOP_NS         40.0  /* of a loop over tiles */
#define SLOTS_PER_CLOCK 4.0   /* warp instructions of an SM */
#define CHAIN_CLOCKS    2.5   /* of a thread's instruction, where few others fill the gaps */
#define NO_OVERLAP      0.1   /* of arithmetic, in an SM's only CTA, that loads and stores do not cover */
#define ALONE           1.015 /* an SM's only CTA leaves it idle at its ends */

static double smaller(double x, double y) {
  return x < y ? x : y;
}

/* Instructions of a thread for one place in the loops, roughly: accesses of its vectors, and arithmetic, of
 * which copies share what does not move with them. */
static double instructions(const map_match *m, const map_plan *plan) {
  const ir_problem *p = m->form.problem;
  const map_group *g = &m->groups[0];
  const struct map_tile *tile = &plan->tiles[0];
  double per_vector = 12, width = plan->lanes.width;
  lanes_options o = map_lanes(m, plan, 0, plan->lanes.width);
  for (int i = 0; i < m->form.n_accesses; i++) {
    int bits = dtype_bits(ir_tensor_dtype(p, m->form.accesses[i].tensor));
    if (map_access_loops(&m->form, i) & ~g->loops) continue;
    double accesses = width * bits / 128.0;
    if (accesses < 1) accesses = 1;
    if (!(o.wide >> i & 1)) accesses = width;
    per_vector += 3 * accesses + width * (bits < 32 ? 0.6 : 0.1);
  }
  double vectors = tile->reuse * tile->vectors, /* those of further rows share nothing */
      work = g->work[1][1] * width * vectors + g->work[1][0] * width * tile->vectors +
             g->work[0][1] * tile->reuse + g->work[0][0];
  return per_vector / width + 1.5 * work / (width * vectors);
}

/* What share of the bytes that accesses move is asked for: a warp's part of a row fills sectors of 32 bytes
 * and is best as long as a cache line; a thread's bytes beyond one access leave gaps between those of a warp.
 */
static double coalescing(const map_match *m, const map_plan *plan) {
  const map_group *g = &m->groups[0];
  double worst = 1;
  int neighbours = plan->columns < 32 ? plan->columns : 32; /* of a warp in one row */
  bool whole_rows = (int64_t)plan->columns * plan->lanes.width >= map_columns(m, g);
  for (int i = 0; i < m->form.n_outputs; i++) {
    int tensor = m->form.accesses[m->form.outputs[i].access].tensor;
    double bytes = plan->lanes.width * dtype_bits(ir_tensor_dtype(m->form.problem, tensor)) / 8.0;
    double share = 1;
    if (!whole_rows) share = smaller(1, 0.5 + neighbours * bytes / 256);
    if (bytes > plan->lanes.access_bytes) share *= 0.9;
    if (bytes < 8) share *= bytes < 4 ? 0.92 : 0.97;
    if (share < worst) worst = share;
  }
  return worst;
}

/* Vectors of ragged tiles come one after the other. */
static double raggedness(const map_match *m, const map_plan *plan) {
  const map_group *g = &m->groups[0];
  int64_t columns = map_columns(m, g), wide = map_tile_columns(plan, 0);
  double tiles = (double)((columns + wide - 1) / wide);
  int copies = map_copies(plan, 0);
  if (tiles < 1 || columns % wide == 0 || copies == 1) return 1;
  return 1 + smaller(0.5, 0.25 * (copies - 1) * (double)(columns % wide) / (double)wide) / tiles;
}

/* `places` are those in the loops of all groups: of each a thread takes the elements of all outputs. */
typedef struct map_load {
  double bytes, places, tiles, resident, efficiency;
} map_load;

static map_load load_of(const map_match *m, const map_plan *plan, const target *t,
                        const target_rates *rates) {
  map_load l = {.bytes = m->form.min_bytes, .places = 1, .tiles = (double)map_tile_count(m, plan)};
  for (int i = 0; i < m->n_groups; i++)
    l.places += (double)(map_columns(m, &m->groups[i]) * map_row_count(m, &m->groups[i], 1));
  double thread_bytes = l.bytes / l.places * plan->lanes.width * map_copies(plan, 0);
  double registers = 24 + thread_bytes / 2, sms = rates->sm_count;
  l.resident = smaller(smaller((double)t->max_threads_per_sm / plan->threads, t->max_ctas_per_sm),
                       t->registers_per_sm / registers / plan->threads);
  if (l.resident < 1) l.resident = 1;
  if (plan->persistent > 0) l.resident = smaller(l.resident, plan->persistent);
  double per_sm = smaller(l.resident, l.tiles / sms < 1 ? 1 : l.tiles / sms);
  /* Reads in flight, half of what travels, against what covers the latency. */
  double in_flight = per_sm * plan->threads * thread_bytes / 2;
  double needed = rates->dram_bytes_per_s / sms * LATENCY_S / 2;
  l.efficiency = in_flight / needed;
  if (l.efficiency > 1) l.efficiency = 1 + smaller(0.02, 0.005 * (l.efficiency - 1));
  l.efficiency *= coalescing(m, plan) / raggedness(m, plan);
  return l;
}

double map_time_ns(const map_match *m, const map_plan *plan, const target *t, const target_rates *rates) {
  map_load l = load_of(m, plan, t, rates);
  double sms = rates->sm_count, bandwidth = rates->dram_bytes_per_s;
  if (l.bytes <= (double)rates->l2_bytes / 2) bandwidth = smaller(rates->l2_bytes_per_s, 1.5 * bandwidth);
  double memory_ns = l.bytes / (bandwidth * 0.96 * l.efficiency) * 1e9;
  double issue_ns = l.places / 32 * instructions(m, plan) / (sms * SLOTS_PER_CLOCK * rates->clock_hz) * 1e9;
  /* SMs that wait for the last tiles: of several waves the last one costs little. */
  double waves = l.tiles / (sms * l.resident), whole = (double)(int64_t)(waves + 0.999999);
  double idle = whole > 1 ? (whole - waves) / whole * 0.3 : 0;
  if (l.tiles > 0 && l.tiles < sms) idle = sms / l.tiles - 1;
  double body = memory_ns > issue_ns ? memory_ns + NO_OVERLAP * issue_ns / l.resident
                                     : issue_ns + NO_OVERLAP * memory_ns / l.resident;
  if (l.resident < 2 && l.tiles > sms) body *= ALONE;
  /* A thread's own time: of the one wave there is, or of the last one, which others overlap in part. */
  double per_thread = (double)plan->lanes.width * plan->tiles[0].vectors * plan->tiles[0].rows *
                      plan->tiles[0].reuse * instructions(m, plan);
  double chain_ns = per_thread * CHAIN_CLOCKS / rates->clock_hz * 1e9 * (waves > 1 ? 0.5 : 1);
  double ns =
      rates->launch_ns + WAVE_NS + chain_ns + body * (1 + idle) + TILE_NS * (l.tiles / sms / l.resident);
  if (plan->persistent > 0) ns += LOOP_NS;
  /* Advice to the caches gains little at best, and few registers may spill: tried after the same without. */
  if (plan->resident > 0) ns *= 1.002;
  return plan->loads == GEN_CACHE_DEFAULT ? ns : ns * 1.001;
}
