/* The time of a configuration: what streams keys and values, what an SM does for each step of them, and what
 * tiles and the second kernel cost beside. */
#include <math.h>

#include "templates/attend.h"

/* Guesses from the instructions of the main loop, to be fitted to measured times. */
static const double copy_latency_ns = 900, /* from a copy's issue to its bytes, while memory is busy */
    sm_bytes_per_ns = 60,                  /* that an SM takes in */
    flight_bytes = 6000,     /* of an SM under way, with which memory gives half of what it can */
    dram_efficiency = 0.97,  /* of the measured rate, with ever more under way */
    start_ns = 1800,         /* of a CTA: its place, queries, the first keys */
    end_ns = 1000,           /* sums through shared memory, outputs */
    mma_clocks = 7,          /* of a product of a warp, on its quarter of an SM */
    mma_latency_clocks = 34, /* of one that waits for the one before */
    softmax_clocks = 300,    /* of a step: exchange of maxima, exponents, waits */
    exchange_clocks = 120,   /* of scores between warps */
    exp_per_clock = 16, smem_bytes_per_clock = 110, issue_per_clock = 2.5, /* of an SM */
    cluster_ns = 900,  /* barriers of a cluster, and its start */
    combine_ns = 2000; /* the second kernel, started early */

/* What there is to do: of packed requests, as many alike as there are. */
typedef struct work {
  double units, queries, keys, pack, tiles; /* queries of a unit, tiles of its rows */
} work;

static work work_of(const attend_plan *p) {
  const attention_match *m = p->match;
  work w = {.units = (double)attend_units(m, &p->rows),
            .queries = (double)ir_form_extent(&m->form, m->query),
            .keys = (double)ir_form_extent(&m->form, m->key),
            .pack = (double)attend_pack(m, &p->rows)};
  if (m->groups.of) {
    double requests = fmax(1, (double)ir_form_extent(&m->form, m->groups.loop));
    w.units *= requests;
    w.queries = ceil(w.queries / requests);
    if (m->parts[0].k.keys == ATTENTION_KEYS_PLAIN) w.keys = ceil(w.keys / requests);
  }
  w.tiles = p->block_queries ? ceil(w.queries / p->block_queries) : ceil(w.queries * w.pack / p->block_m);
  return w;
}

/* A bound's value for a query, where what tensors say stands for all keys, or all queries; false: nothing is
 * known. */
static bool bound_value(const ir_form *form, const attention_bound *b, const work *w, double query,
                        double *v) {
  bool reads = false;
  int64_t x = 1;
  *v = (double)b->query * query + (double)b->rest.constant;
  for (int i = 0; i < b->rest.n; i++) {
    const lanes_term *t = &b->rest.terms[i];
    bool known = lanes_static_value(form, t->e, &x);
    reads = reads || !known;
    *v += (double)t->coefficient * (known ? (double)x : t->coefficient > 0 ? w->keys : w->queries);
  }
  if (b->times && lanes_static_value(form, b->times, &x)) *v *= (double)x;
  return !reads || b->query != 0;
}

/* Keys that any row of a tile sees. */
static double visible_keys(const attend_plan *p, const work *w, double tile) {
  const attention_match *m = p->match;
  double each = p->block_queries ? p->block_queries : p->block_m / w->pack;
  double first = floor(tile * each), last = fmin(ceil((tile + 1) * each), w->queries) - 1;
  double from = 0, below = w->keys;
  for (int i = 0; i < m->bounds.n; i++) {
    const attention_bound *b = &m->bounds.list[i];
    double x, y;
    if (!bound_value(&m->form, b, w, first, &x) || !bound_value(&m->form, b, w, last, &y)) continue;
    if (b->upper) {
      below = fmin(below, fmax(x, y));
    } else {
      from = fmax(from, fmin(x, y));
    }
  }
  return fmax(0, below - from);
}

enum { MOST_SAMPLES = 16 };

/* Of a tile on average. */
static double keys_of_tiles(const attend_plan *p, const work *w) {
  double sum = 0, n = fmin(w->tiles, MOST_SAMPLES);
  for (int i = 0; i < (int)n; i++) sum += visible_keys(p, w, n < 2 ? 0 : floor(i * (w->tiles - 1) / (n - 1)));
  return n > 0 ? sum / n : 0;
}

typedef struct step_time {
  double busy, alone; /* ns: of an SM, for all sets; of a warp that has a quarter of an SM for itself */
} step_time;

static step_time time_of_step(const attend_plan *p, const target_rates *rates) {
  double keys = p->block_n, warps = p->set_threads / 32.0, rows = 16 * p->fragments;
  double depth = p->depth, chain = depth / 16 + keys / 16;
  /* Of a warp: products, loads of their operands, scores and copies. */
  double products = p->fragments * (depth / 16 * p->warp_keys / 8 + keys / 16 * p->warp_columns / 8);
  double loads = depth / 16 * p->warp_keys / 16 + p->warp_columns / 16 * keys / 16;
  if (!p->hold_q) loads += p->fragments * depth / 16;
  double scores = rows * keys / 32, vectors = (double)p->stage_bytes / 16 / p->set_threads;
  double instructions = products + loads + 8 * scores + 5 * vectors + 60;
  double evaluated = scores * p->warp_keys / keys;
  if (p->match->body != p->match->product) instructions += 12 * evaluated;
  if (!p->copied) instructions += 100 * vectors;
  instructions += 2.5 * (double)p->converted_bytes / 2 / p->set_threads;
  double smem = warps * loads * 512 + p->stage_bytes;
  double busy = fmax(smem / smem_bytes_per_clock, warps * instructions / issue_per_clock);
  busy = fmax(busy, fmax(warps * products * mma_clocks / 4, warps * scores * 32 / exp_per_clock));
  double exchange = p->warp_keys < p->block_n ? exchange_clocks : 0;
  double alone = exchange + fmax(products * mma_clocks, chain * mma_latency_clocks) + softmax_clocks +
                 instructions - products;
  double ns_per_clock = 1e9 / rates->clock_hz;
  step_time t = {.busy = p->sets * busy * ns_per_clock, .alone = alone * ns_per_clock};
  if (!p->copied) t.alone += copy_latency_ns * ceil(vectors);
  t.alone = fmax(t.alone, t.busy);
  return t;
}

static double resident(const attend_plan *p, const target *t) {
  double registers = fmin(p->live_registers + 16, t->max_registers_per_thread);
  double n = fmin(floor(t->registers_per_sm / (registers * p->threads)),
                  floor((double)t->smem_per_block_bytes / (p->smem_bytes + 1024)));
  return fmax(1, fmin(n, floor(2048.0 / p->threads)));
}

double attend_plan_cost_ns(const attend_plan *p, const target *t, const target_rates *rates) {
  const attention_match *m = p->match;
  const work w = work_of(p);
  double keys = keys_of_tiles(p, &w), ctas = w.units * w.tiles * p->split;
  double per_key = 0, wide = (double)ir_form_extent(&m->form, m->wide);
  for (int i = ATTEND_K; i < ATTEND_TILES; i++) {
    const attend_tile *tile = &p->tiles[i];
    if (!tile->present) continue;
    int bits = dtype_bits(ir_tensor_dtype(m->form.problem, m->form.accesses[tile->access].tensor));
    per_key += tile->columns * bits / 8.0;
  }
  double steps = ceil(ceil(keys / (p->block_n * p->sets)) / p->split);
  step_time step = time_of_step(p, rates);
  double per_sm = ceil(ctas / rates->sm_count), at_once = fmin(per_sm, resident(p, t));
  if (ctas == 0) return rates->launch_ns;
  double rounds = ceil(per_sm / at_once);
  /* What is under way covers the latency of memory, of an SM and of all together. */
  double flight = at_once * p->sets * (p->stages - 1) * (double)p->block_n * per_key;
  double bytes = steps * p->sets * p->block_n * per_key, part = fmin(1, ctas / rates->sm_count);
  double stream = per_sm * bytes / fmin(flight / copy_latency_ns, sm_bytes_per_ns);
  stream = fmax(stream, fmax(per_sm * steps * step.busy, rounds * steps * step.alone));
  double all = w.units * keys * per_key + 4 * w.units * w.queries * w.pack * wide;
  double share = flight * part / (flight * part + flight_bytes);
  double dram = all / (rates->dram_bytes_per_s * dram_efficiency * share) * 1e9;
  double l2 = w.units * w.tiles * keys * per_key / rates->l2_bytes_per_s * 1e9;
  double time = pow(pow(stream, 4) + pow(fmax(dram, l2), 4), 0.25);
  time +=
      0.02 * per_sm * steps * step.busy + rounds * (start_ns + end_ns * (0.5 + p->sets * p->block_m / 128.0));
  if (p->clustered) {
    time += cluster_ns + 60.0 * p->split * p->sets;
  } else if (p->split > 1) {
    double parts = 8.0 * w.units * w.queries * w.pack * p->split * wide;
    time += combine_ns + parts / (rates->l2_bytes_per_s * 0.5) * 1e9 + 20.0 * p->split;
  }
  return time + rates->launch_ns;
}
