/* The time of a configuration: what streams keys and values, what an SM does for each step of them, how many
 * CTAs are at work at once, and what tiles and combining cost beside. */
#include <math.h>

#include "templates/attend.h"

/* Fitted to 1,343 configurations of 24 problems of decoding, timed on an H200 at its highest clock: nine in
 * ten are within a fifth. The lengths of the trials' requests (`lens`) were taken into account. */
static const double copy_latency_ns = 800, /* from a copy's issue to its bytes */
    sm_bytes_per_ns = 40,                  /* that an SM takes in: 32 CTAs alone had 37 each */
    dram_efficiency = 1.07,                /* of the measured rate of copies; reads alone are faster */
    start_ns = 1400,                       /* of a CTA: its place, queries, the first keys, the end */
    end_bytes_per_ns = 96,                 /* sums through shared memory, outputs */
    mma_clocks = 7,                        /* of a product of a warp, on its quarter of an SM */
    mma_latency_clocks = 30,               /* of one that waits for the one before */
    softmax_clocks = 450,                  /* of a step: exchange of maxima, exponents, waits */
    exp_per_clock = 16, smem_bytes_per_clock = 90,   /* of an SM */
    issue_per_clock = 1,                             /* of an SM, whose few warps wait for one another */
    cluster_wait = 1.06,                             /* CTAs of a cluster begin and end together */
    cluster_part_ns = 60, cluster_bytes_per_ns = 18, /* of a CTA from the others' shared memory */
    combine_ns = 1100, combine_lane_ns = 40, combine_bytes_per_ns = 3600; /* by a second kernel */

/* Clusters lie within a GPC. Of an H200's they are as if half had 18 SMs and half 15: 16 clusters of 8 do not
 * fit one to an SM, nor 32 of 8 two to an SM, nor 32 of 4 one to an SM; 64 of 2 do. */
static const double gpcs = 8, gpc_spread = 1.0 / 11;

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
  double busy,
      alone; /* ns: of an SM, for all sets of a CTA; of a warp that has a quarter of an SM for itself */
} step_time;

/* About: functions in as many digits as weights have, reads with their addresses. */
static double instructions_of(const attention_match *m, const ir_expr *e) {
  double n = e->node == IR_CALL ? 15 : e->node == IR_READ ? 12 : 1;
  if (e == m->product || e->node == IR_REDUCE) return 1;
  for (int i = 0; i < e->n_args; i++) n += instructions_of(m, e->args[i]);
  return n;
}

double attend_body_instructions(const attention_match *m) {
  if (m->body == m->product) return 0;
  /* Factors of a row are found once a step, and multiplied; so is what makes it an exponent of 2. */
  return m->by_row ? 2 : instructions_of(m, m->body);
}

static step_time time_of_step(const attend_plan *p, const target_rates *rates) {
  double keys = p->block_n, warps = p->set_threads / 32.0, rows = 8 * p->thread_rows;
  double depth = p->depth, chain = depth / 16 + keys / 16;
  /* Of a warp: products, loads of their operands, scores and copies. */
  double products = p->fragments * (depth / 16 * p->warp_keys / 8 + keys / 16 * p->warp_columns / 8);
  double loads = depth / 16 * p->warp_keys / 16 + p->warp_columns / 16 * keys / 16;
  if (!p->hold_q) loads += p->fragments * depth / 16;
  double scores = rows * keys / 32, vectors = (double)p->stage_bytes / 16 / p->set_threads;
  double instructions = products + loads + 8 * scores + 5 * vectors + 60;
  double evaluated = scores * p->warp_keys / keys;
  instructions += attend_body_instructions(p->match) * evaluated;
  if (!p->copied) instructions += 100 * vectors;
  instructions += 2.5 * (double)p->converted_bytes / 2 / p->set_threads;
  double smem = warps * loads * 512 + p->stage_bytes;
  double busy = fmax(smem / smem_bytes_per_clock, warps * instructions / issue_per_clock);
  busy = fmax(busy, fmax(warps * products * mma_clocks / 4, warps * scores * 32 / exp_per_clock));
  double alone =
      fmax(products * mma_clocks, chain * mma_latency_clocks) + softmax_clocks + instructions - products;
  double ns_per_clock = 1e9 / rates->boost_hz;
  step_time t = {.busy = p->sets * busy * ns_per_clock, .alone = alone * ns_per_clock};
  if (!p->copied) t.alone += copy_latency_ns * ceil(vectors);
  return t;
}

static double resident(const attend_plan *p, const target *t) {
  double registers = fmin(p->live_registers + 16, t->max_registers_per_thread);
  double n = fmin(floor(t->registers_per_sm / (registers * p->threads)),
                  floor((double)t->smem_per_block_bytes / (p->smem_bytes + 1024)));
  return fmax(1, fmin(n, floor((double)t->max_threads_per_sm / p->threads)));
}

/* CTAs at work at once. */
static double slots_of(const attend_plan *p, const target *t, const target_rates *rates) {
  double each = resident(p, t), sms = rates->sm_count / gpcs;
  if (!p->clustered) return each * rates->sm_count;
  double more = each * floor(sms * (1 + gpc_spread) / p->split),
         fewer = each * floor(sms * (1 - gpc_spread) / p->split);
  return fmax(1, gpcs / 2 * (more + fewer)) * p->split;
}

static double either(double x, double y) {
  return pow(pow(x, 4) + pow(y, 4), 0.25);
}

/* Of the steps of as many CTAs as an SM has at once: the ring covers the latency of memory, one CTA's warps
 * wait for one another, and the SM does and takes in so much. */
static double time_of_steps(const attend_plan *p, step_time step, double step_bytes, double steps,
                            double at_once) {
  double alone = fmax(step.alone, copy_latency_ns / (p->stages - 1));
  return steps * either(alone, at_once * fmax(step.busy, step_bytes / sm_bytes_per_ns));
}

/* What CTAs that share a tile's keys cost beside. */
static double time_to_combine(const attend_plan *p, const work *w, double wide) {
  if (p->clustered)
    return cluster_part_ns * p->split + 4.0 * p->sets * p->block_m * wide / cluster_bytes_per_ns;
  double parts = 8.0 * w->units * w->queries * w->pack * p->split * wide; /* bytes, out and in */
  return p->split > 1
             ? combine_ns + combine_lane_ns * log2(attend_combine_lanes(p)) + parts / combine_bytes_per_ns
             : 0;
}

double attend_plan_cost_ns(const attend_plan *p, const target *t, const target_rates *rates) {
  const attention_match *m = p->match;
  const work w = work_of(p);
  double keys = keys_of_tiles(p, &w), ctas = w.units * w.tiles * p->split;
  double per_key = 0, wide = (double)ir_form_extent(&m->form, m->wide);
  if (ctas == 0) return rates->launch_ns;
  for (int i = ATTEND_K; i < ATTEND_TILES; i++) {
    const attend_tile *tile = &p->tiles[i];
    if (!tile->present) continue;
    int bits = dtype_bits(ir_tensor_dtype(m->form.problem, m->form.accesses[tile->access].tensor));
    per_key += tile->columns * bits / 8.0;
  }
  double steps = ceil(ceil(keys / (p->block_n * p->sets)) / p->split);
  double step_bytes = p->sets * p->block_n * per_key;
  step_time step = time_of_step(p, rates);
  /* Whole rounds of CTAs, and one of what is left. */
  double rounds = floor(ctas / slots_of(p, t, rates)), left = ctas - rounds * slots_of(p, t, rates);
  double beside = start_ns + 4.0 * p->sets * p->block_m * wide / end_bytes_per_ns;
  double stream = rounds * (time_of_steps(p, step, step_bytes, steps, resident(p, t)) + beside);
  if (left > 0) stream += time_of_steps(p, step, step_bytes, steps, ceil(left / rates->sm_count)) + beside;
  if (p->clustered) stream *= cluster_wait;
  double dram = w.units * keys * per_key / (rates->dram_bytes_per_s * dram_efficiency) * 1e9;
  double l2 = w.units * w.tiles * keys * per_key / rates->l2_bytes_per_s * 1e9;
  double time = either(stream, fmax(dram, l2) + beside / 2);
  return time + time_to_combine(p, &w, wide) + rates->launch_ns;
}
