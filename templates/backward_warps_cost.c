/* The time of a configuration: what an SM does in a step, how many CTAs it has at once, and what tiles cost
 * beside. No figure is fitted: products and loads of operands are counted as attend_cost.c found them. */
#include <math.h>

#include "templates/backward_warps.h"

static const double mma_clocks = 7,         /* of a product of a warp, on its quarter of an SM */
    smem_bytes_per_clock = 90,              /* of an SM */
    issue_per_clock = 2.5,                  /* of an SM with several warps on each scheduler */
    exp_per_clock = 16, alone_clocks = 600, /* of a step of one CTA: chains of products, waits */
    start_ns = 2000, requests_uneven = 1.1;

/* What there is to do; of packed requests, as many alike as there are. */
typedef struct work {
  double rows, columns, tiles; /* of a head, or a request of it */
  double heads;                /* and requests */
  double summed;               /* query heads of a tile */
} work;

static work work_of(const warps_plan *plan, const warps_pass *p) {
  const backward_match *m = plan->match;
  work w = {.rows = (double)ir_form_extent(&m->form, backward_row_loop(m, p->side)),
            .columns = (double)ir_form_extent(&m->form, backward_column_loop(m, p->side)),
            .heads = 1,
            .summed = p->side == BACKWARD_KEYS ? (double)backward_ratio(m) : 1};
  for (int i = 0; i < m->batch[p->side].n; i++)
    w.heads *= (double)ir_form_extent(&m->form, m->batch[p->side].loops[i]);
  if (m->groups[p->side].of) {
    double requests = fmax(1, (double)ir_form_extent(&m->form, m->groups[p->side].loop));
    w.rows = ceil(w.rows / requests);
    w.columns = ceil(w.columns / requests);
    w.heads *= requests * requests_uneven;
  }
  w.tiles = ceil(w.rows / p->block_rows);
  return w;
}

/* Columns that a tile meets: bounds that tensors tell count where they move with the row, whatever else they
 * have being all columns or all rows. */
static double columns_of(const warps_plan *plan, const warps_pass *p, const work *w, double tile) {
  const backward_match *m = plan->match;
  double first = tile * p->block_rows, last = fmin(first + p->block_rows, w->rows) - 1, from = 0,
         below = w->columns;
  for (int i = 0; i < m->seen[p->side].n; i++) {
    const attention_bound *b = &m->seen[p->side].list[i];
    double v = (double)b->rest.constant;
    bool reads = false;
    for (int k = 0; k < b->rest.n; k++) {
      int64_t x;
      double coefficient = (double)b->rest.terms[k].coefficient;
      bool known = lanes_static_value(&m->form, b->rest.terms[k].e, &x);
      reads |= !known;
      v += coefficient * (known ? (double)x : coefficient > 0 ? w->columns : w->rows);
    }
    if (reads && b->query == 0) continue;
    double at_first = v + (double)b->query * first, at_last = v + (double)b->query * last;
    if (b->upper)
      below = fmin(below, fmax(at_first, at_last));
    else
      from = fmax(from, fmin(at_first, at_last));
  }
  return fmax(0, below - from);
}

/* About: functions in as many digits as weights have, reads with their addresses. */
static double instructions_of(const ir_expr *e) {
  double n = e->node == IR_CALL ? 15 : e->node == IR_READ ? 12 : 1;
  if (e->node == IR_REDUCE) return 1;
  for (int i = 0; i < e->n_args; i++) n += instructions_of(e->args[i]);
  return n;
}

/* Clocks of an SM for a step of one CTA, other CTAs beside it. */
static double busy_clocks(const warps_plan *plan, const warps_pass *p) {
  const backward_match *m = plan->match;
  double n = p->block_columns, warps = p->warps, scores = 16 * n / 32; /* of a thread */
  double first = p->columns[0].padded, second = p->columns[1].padded;
  double in = first + (p->sums[0] ? second : 0), out = (p->sums[0] ? first : 0) + (p->sums[1] ? second : 0);
  double products = in / 16 * n / 8 + n / 16 * out / 8;
  double loads = in / 16 * (n / 16 + 1) + n / 16 * out / 16;
  double each = m->plain ? 6 : m->capped ? 30 : instructions_of(m->weight) + instructions_of(m->gradient);
  double vectors = (double)(p->columns[0].vectors + p->columns[1].vectors) * n / p->threads;
  double instructions = products + loads + scores * each + vectors * (plan->vectors.copied ? 12 : 100) + 80;
  double smem = warps * loads * 512 + p->stage_bytes;
  double busy = fmax(smem / smem_bytes_per_clock, warps * instructions / issue_per_clock);
  return fmax(busy, fmax(warps * products * mma_clocks / 4, warps * scores * 32 / exp_per_clock));
}

static double resident(const warps_pass *p, const target *t) {
  double registers = fmin(p->live_registers + 16, t->max_registers_per_thread);
  double n = fmin(floor(t->registers_per_sm / (registers * p->threads)),
                  floor((double)t->smem_per_block_bytes / (p->smem_bytes + 1024)));
  return fmax(1, fmin(n, floor(1536.0 / p->threads)));
}

static double pass_time(const warps_plan *plan, const warps_pass *p, const target *t,
                        const target_rates *rates) {
  const work w = work_of(plan, p);
  double steps = 0, longest = 0, sampled = fmin(w.tiles, 32), ns_per_clock = 1e9 / rates->clock_hz;
  if (w.tiles * w.heads == 0) return rates->launch_ns;
  for (int i = 0; i < (int)sampled; i++) {
    double tile = floor((i + 0.5) * w.tiles / sampled);
    double here = ceil(columns_of(plan, p, &w, tile) / p->block_columns) * w.summed;
    steps += here * w.tiles / sampled;
    longest = fmax(longest, here);
  }
  double at_once = resident(p, t), ctas = w.tiles * w.heads, sms = rates->sm_count;
  double busy = busy_clocks(plan, p) * ns_per_clock, alone = busy + alone_clocks * ns_per_clock;
  /* CTAs of an SM hide one another's waits; the longest tile ends alone. */
  double of_sm = fmax(steps * w.heads / sms, longest) * fmax(busy, alone / at_once);
  return fmax(of_sm, longest * alone) + start_ns * ceil(ctas / (sms * at_once)) + rates->launch_ns;
}

static double statistics_time(const warps_plan *plan, const target_rates *rates) {
  const backward_match *m = plan->match;
  double queries = (double)ir_form_extent(&m->form, m->query);
  for (int i = 0; i < m->batch[BACKWARD_QUERIES].n; i++)
    queries *= (double)ir_form_extent(&m->form, m->batch[BACKWARD_QUERIES].loops[i]);
  double bytes = queries * 4 * (m->dot ? (double)ir_form_extent(&m->form, m->dot->index) : 1);
  return rates->launch_ns + bytes / rates->dram_bytes_per_s * 1e9;
}

double warps_plan_cost_ns(const warps_plan *plan, const target *t, const target_rates *rates) {
  double ns = statistics_time(plan, rates);
  for (int i = 0; i < plan->n_passes; i++) ns += pass_time(plan, &plan->passes[i], t, rates);
  return ns;
}
