/* The time of a configuration: what a step takes an SM, how many of them the longest CTA has, and what tiles
 * cost beside them. */
#include <math.h>

#include "templates/attention.h"

/* Guesses, to be fitted to measured times. */
static const double tile_ns = 1800, next_tile_ns = 900, exp_per_clock = 16, step_ns = 40,
                    alu_per_clock = 4 * 32 * 0.8, softmax_instructions = 5.5, hidden = 0.85;

/* A bound's value for a query, without what tensors say. */
static double bound_value(const ir_form *form, const attention_bound *b, double query) {
  double v = (double)b->query * query + (double)b->rest.constant;
  for (int i = 0; i < b->rest.n; i++) {
    int64_t x = 0;
    if (lanes_static_value(form, b->rest.terms[i].e, &x))
      v += (double)b->rest.terms[i].coefficient * (double)x;
  }
  return v;
}

/* Steps of the tile whose first query is `first`. */
static double steps_of(const attention_plan *p, double first, double queries, double keys) {
  const attention_match *m = p->match;
  double last = fmin(first + p->block_m, queries) - 1, from = 0, below = keys;
  for (int i = 0; i < m->bounds.n; i++) {
    const attention_bound *b = &m->bounds.list[i];
    double x = bound_value(&m->form, b, first), y = bound_value(&m->form, b, last);
    if (b->upper) {
      below = fmin(below, fmax(x, y));
    } else {
      from = fmax(from, fmin(x, y));
    }
  }
  return fmax(1, ceil(below / p->block_n) - floor(from / p->block_n));
}

/* Of one consumer group beside the others. */
static double step_time(const attention_plan *p, const target_rates *rates) {
  double ns_per_clock = 1e9 / rates->clock_hz, sms = rates->sm_count;
  double scores = (double)p->block_m * p->block_n;
  double flops = 2 * scores * (p->q.columns + p->v.columns);
  double math = flops / (rates->f16_flops_per_s / sms) * 1e9;
  double rescale = (double)p->block_m * p->v.columns;
  double softmax =
      (scores / exp_per_clock + (scores * softmax_instructions + rescale) / alu_per_clock) * ns_per_clock;
  /* Narrow products leave the matrix unit waiting for their operands. */
  math *= 1 + 12.0 / p->block_n;
  double overlapped = p->turns ? hidden : p->overlap ? 0.7 : p->consumers > 1 ? 0.5 : 0.1;
  double least = fmin(math, softmax), most = fmax(math, softmax);
  return most + (1 - overlapped) * least + step_ns;
}

double attention_plan_cost_ns(const attention_plan *p, const target *t, const target_rates *rates) {
  const attention_match *m = p->match;
  (void)t;
  double queries = (double)ir_form_extent(&m->form, m->query),
         keys = (double)ir_form_extent(&m->form, m->key);
  double heads = 1, all = 0, longest = 0, sms = rates->sm_count;
  for (int i = 0; i < m->batch.n; i++) heads *= (double)ir_form_extent(&m->form, m->batch.loops[i]);
  double tiles = ceil(queries / p->block_m);
  int64_t sampled = tiles > 64 ? 64 : (int64_t)tiles;
  for (int64_t i = 0; i < sampled; i++) {
    double tile = floor(((double)i + 0.5) * tiles / (double)sampled);
    double steps = steps_of(p, tile * p->block_m, queries, keys);
    all += steps * tiles / (double)sampled;
    longest = fmax(longest, steps);
  }
  double items = tiles * heads, rounds = ceil(items / sms), each = step_time(p, rates);
  /* Tiles of like lengths come in rounds; of unlike ones the longest come first, and the others fill up. */
  double steps = p->masked ? fmax(longest, all * heads / fmin(sms, items) * (p->group == 1 ? 1.06 : 1.02))
                           : rounds * longest;
  double between = p->persistent ? tile_ns + (rounds - 1) * next_tile_ns : rounds * tile_ns;
  double stages = p->stages > 1 ? 1 : 1.25;
  return rates->launch_ns + steps * each * stages + between;
}
