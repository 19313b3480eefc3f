/* The time of a configuration: for each kernel what a step takes an SM, how many of them the longest CTA has,
 * and what tiles cost beside them. Constants are fitted to 479 trials of twelve problems on an H200, whose
 * times the model tells within 4 % (long sequences) to 9 % (microseconds), a factor for each problem aside.
 */
#include <math.h>

#include "templates/backward.h"

/* Nanoseconds, and parts of the whole: */
static const double tile_ns = 4000; /* of a tile beside its steps: barriers, the first copies, its outputs */
static const double next_tile_ns =
    1500;                               /* of one that a CTA has after others, whose rows are there already */
static const double sustained = 0.9;    /* of the matrix units' rate */
static const double narrow = 6;         /* columns of a step for which products take twice their time */
static const double exp_per_clock = 16; /* of an SM */
static const double instructions = 6,
                    lanes_per_clock = 128; /* of an element beside its exponential; of an SM */
static const double cap_instructions = 24, cap_exponentials = 3; /* of a softcap; not fitted */
static const double step_ns = 60;                                /* its barriers */
static const double overlapped = 0.7; /* of what one group shows where its next products run under it */
/* What a step takes whose operands are copied while nothing else is there to multiply: where an SM has one
 * CTA, or two. */
static const double not_ahead = 1.3, not_ahead_of_two = 1.1;
/* CTAs that take every so-many-th tile of groups of heads get lengths that are alike, time and again. */
static const double uneven_groups = 1.6;
/* Of a step in which one kernel multiplies for all three, what its groups' meetings show; how fast the L2
 * cache adds, of its rate; what tiles of keys wait for one another before they add, as a part of all: six
 * trials of three problems on an H200 took 1.25 to 1.5 times what it is without. */
static const double meetings_ns = 100, adding = 0.5, in_turn = 1.35;

/* A bound's value for a row, without what tensors say. */
static double bound_value(const ir_form *form, const attention_bound *b, double row) {
  double v = (double)b->query * row + (double)b->rest.constant;
  for (int i = 0; i < b->rest.n; i++) {
    int64_t x = 0;
    if (lanes_static_value(form, b->rest.terms[i].e, &x))
      v += (double)b->rest.terms[i].coefficient * (double)x;
  }
  return v;
}

/* Steps of one head for the tile whose first row is `first`. */
static double steps_of(const backward_plan *plan, const backward_pass *p, double first) {
  const backward_match *m = plan->match;
  double rows = (double)ir_form_extent(&m->form, backward_row_loop(m, p->side));
  double last = fmin(first + p->block_rows, rows) - 1, from = 0;
  double below = (double)ir_form_extent(&m->form, backward_column_loop(m, p->side));
  for (int i = 0; i < m->seen[p->side].n; i++) {
    const attention_bound *b = &m->seen[p->side].list[i];
    double x = bound_value(&m->form, b, first), y = bound_value(&m->form, b, last);
    if (b->upper) {
      below = fmin(below, fmax(x, y));
    } else {
      from = fmax(from, fmin(x, y));
    }
  }
  return fmax(1, ceil(below / p->block_columns) - floor(from / p->block_columns));
}

/* A step of all consumer groups: products, and what one group computes while another's run, or its own. */
static double step_time(const backward_plan *plan, const backward_pass *p, const target_rates *rates) {
  static const double shown[] = {1, 0.6, 0.3, 0.2}; /* more groups hide more of it */
  int groups = p->consumers * p->resident > 3 ? 3 : p->consumers * p->resident;
  double ns_per_clock = 1e9 / rates->clock_hz, sms = rates->sm_count;
  double scores = (double)p->block_rows * p->block_columns;
  double first = p->columns[0].columns, second = p->columns[1].columns;
  double flops = 2 * scores * (first + (p->sums[0] ? first + second : 0) + (p->sums[1] ? second : 0));
  if (p->updates) flops += 2 * scores * first;
  /* Narrow products read more of shared memory than it gives. */
  double math = flops / (rates->f16_flops_per_s * sustained / sms) * 1e9 * (1 + narrow / p->block_columns);
  bool capped = plan->match->capped;
  double exponentials = 1 + (capped ? cap_exponentials : 0);
  double each = instructions + (capped ? cap_instructions : 0);
  double other = scores * (exponentials / exp_per_clock + each / lanes_per_clock) * ns_per_clock;
  double exposed = shown[groups] * (p->overlap ? overlapped : 1) * fmin(math, other);
  return fmax(math, other) + exposed + step_ns + (p->updates ? meetings_ns : 0);
}

static double pass_time(const backward_plan *plan, const backward_pass *p, const target_rates *rates) {
  const backward_match *m = plan->match;
  double rows = (double)ir_form_extent(&m->form, backward_row_loop(m, p->side)), heads = 1, all = 0,
         longest = 0;
  for (int i = 0; i < m->batch[p->side].n; i++)
    heads *= (double)ir_form_extent(&m->form, m->batch[p->side].loops[i]);
  double of_part = 1; /* query heads of a tile */
  if (p->side == BACKWARD_KEYS) {
    heads *= plan->split;
    of_part = (double)backward_ratio(m) / plan->split;
  }
  double tiles = ceil(rows / p->block_rows);
  int64_t sampled = tiles > 64 ? 64 : (int64_t)tiles;
  for (int64_t i = 0; i < sampled; i++) {
    double steps =
        steps_of(plan, p, floor(((double)i + 0.5) * tiles / (double)sampled) * p->block_rows) * of_part;
    all += steps * tiles / (double)sampled;
    longest = fmax(longest, steps);
  }
  double sms = (double)rates->sm_count * p->resident, items = tiles * heads, rounds = ceil(items / sms);
  double steps = plan->masked ? fmax(longest, all * heads / fmin(sms, items) * 1.05) : rounds * longest;
  double between = plan->persistent ? tile_ns + (rounds - 1) * next_tile_ns : rounds * tile_ns;
  /* A step that waits for the next one's products holds its stage meanwhile. */
  double waits = p->stages - p->overlap > 1 ? 1 : p->resident > 1 ? not_ahead_of_two : not_ahead;
  double uneven = plan->masked && plan->persistent && plan->group > 1 ? uneven_groups : 1;
  double math = steps * step_time(plan, p, rates) * p->resident * waits * uneven + between;
  double traffic = 2.0 * (p->columns[0].columns + p->columns[1].columns) *
                   (all * p->block_columns + tiles * p->block_rows * 2) * heads;
  if (p->updates) traffic += all * heads * p->block_columns * p->columns[0].columns * 4 / adding;
  double time = fmax(math, traffic / rates->l2_bytes_per_s * 1e9);
  return time * (p->updates ? in_turn : 1) + rates->launch_ns;
}

/* Parts of dK and dV are written once and read once. */
static double combine_time(const backward_plan *plan, const target_rates *rates) {
  const backward_match *m = plan->match;
  double keys = (double)ir_form_extent(&m->form, m->key);
  if (plan->split == 1) return 0;
  for (int i = 0; i < m->batch[BACKWARD_KEYS].n; i++)
    keys *= (double)ir_form_extent(&m->form, m->batch[BACKWARD_KEYS].loops[i]);
  double columns = (double)(ir_form_extent(&m->form, m->depth) + ir_form_extent(&m->form, m->wide));
  return 2 * rates->launch_ns + keys * columns * plan->split * 8 / rates->dram_bytes_per_s * 1e9;
}

/* Around the kernel that multiplies for all three: O and dO are read and zeroes written; then sums of dQ are
 * read and dQ written. */
static double around_one(const backward_plan *plan, const target_rates *rates) {
  const backward_match *m = plan->match;
  double queries = (double)ir_form_extent(&m->form, m->query);
  for (int i = 0; i < m->batch[BACKWARD_QUERIES].n; i++)
    queries *= (double)ir_form_extent(&m->form, m->batch[BACKWARD_QUERIES].loops[i]);
  double bytes =
      10 * (double)ir_form_extent(&m->form, m->depth) + 4 * (double)ir_form_extent(&m->form, m->wide);
  return 2 * rates->launch_ns + queries * bytes / rates->dram_bytes_per_s * 1e9;
}

double backward_plan_cost_ns(const backward_plan *plan, const target_rates *rates) {
  double ns = combine_time(plan, rates);
  if (plan->one) ns += around_one(plan, rates);
  for (int i = plan->one ? 1 : 0; i < plan->n_passes; i++) ns += pass_time(plan, &plan->passes[i], rates);
  return ns;
}
