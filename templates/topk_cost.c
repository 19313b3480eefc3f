/* The cost model of top-k: memory limited by what is in flight, the instructions for each element, and the
 * merges, which wait for one exchange after the other. Of numbers in no order, a fraction winners / n passes
 * after n: the model counts on that. */
#include <math.h>

#include "templates/topk.h"

static const double load_ns = 800, merge_kernel_ns = 2500;
static const double bytes_in_flight = 40e3, most_share = 2.5;
/* Warp instructions: of an element that does not pass, of a vector; of merging 32 items; of one that passes.
 */
static const double element_instructions = 2.5, vector_instructions = 8, merge_instructions = 190,
                    passing_instructions = 45;
/* The chain of exchanges of a merge of 32 items, and of one list with another. */
static const double merge_ns = 700, list_ns = 220;
/* A pass over the buffer for one digit beside its items, and an item's part of it for each thread; a step of
 * the sort. */
static const double digit_ns = 350, digit_item_ns = 6, sort_step_ns = 45;
static const double digits = 5;

/* Items of n that pass, where the bound is renewed whenever `batch` more have passed. */
static double passing(double n, double winners, double batch) {
  if (n <= winners + batch) return n;
  return winners + batch + winners * log(n / (winners + batch)) + batch / 2;
}

/* The same for a list, whose first step is bounded by the best of its lanes. */
static double listed(double n, double winners, double step) {
  return fmin(n, 2 * winners + winners * fmax(0, log(n / step)) + 16);
}

double topk_plan_cost_ns(const topk_plan *p, const target_rates *rates) {
  const topk_match *m = p->match;
  double rows = (double)topk_rows(m), size = fmax(1, (double)ir_form_extent(&m->form, m->along));
  double winners = (double)ir_form_extent(&m->form, m->rank);
  double bytes = ir_min_bytes(m->form.problem);
  double element_bytes = bytes / (rows * size);
  double ctas = p->select == TOPK_BY_WARP ? ceil(rows / p->warps) : rows * p->split;
  double part = size / p->split, steps = ceil(part / topk_step(p));
  topk_layout layout = topk_layout_of(p);
  double registers = 48 + p->vector * (p->strips * element_bytes / 4 + 3);
  double resident = fmin(floor(65536 / (registers * p->threads)), floor(2048.0 / p->threads));
  resident = fmax(1, fmin(fmin(resident, 32), floor(227.0 * 1024 / (layout.bytes + 1024))));
  double busy = fmin(ctas, rates->sm_count), each_sm = fmin(resident, ceil(ctas / rates->sm_count));
  double waves = ceil(ctas / (rates->sm_count * resident));

  double flight = each_sm * p->threads * p->strips * p->vector * element_bytes;
  double rate =
      busy * rates->dram_bytes_per_s / rates->sm_count * most_share * fmin(1, flight / bytes_in_flight);
  rate = fmin(rate, rates->dram_bytes_per_s);
  double access = p->vector * element_bytes;
  bool keeps = p->loads == GEN_CACHE_DEFAULT;
  double advice = keeps == (bytes < (double)rates->l2_bytes / 2) ? 1 : 1.01;
  double memory = advice * bytes / rate * (access >= 16 ? 1 : 1 + 0.25 * log2(16 / fmax(access, 1))) * 1e9;

  double warps_on_row = p->sharers / 32.0, lists = p->select == TOPK_BY_BUFFER ? 1 : warps_on_row;
  double passed = p->select == TOPK_BY_BUFFER ? passing(part, winners, p->buffer - topk_step(p))
                                              : listed(part / lists, winners, topk_step(p) / lists);
  double merges = 0, chain = 0, instructions = 0;
  if (p->select == TOPK_BY_BUFFER) {
    double full = 1 + fmax(0, (passed - winners) / (p->buffer - topk_step(p) - winners));
    chain = full * digits * (digit_ns + digit_item_ns * p->buffer / p->threads) +
            sort_step_ns * log2(p->keep) * (log2(p->keep) + 1) / 2;
    instructions = passed * lists / 32 * 40 + full * digits * p->buffer / 32 * 25;
  } else {
    merges = ceil(passed / 32) + 1;
    chain = merges * merge_ns + (lists - 1) * list_ns;
    instructions = lists * (merges * merge_instructions + passed * passing_instructions);
  }
  double vectors = rows * size / p->vector / 32;
  double issue =
      (vectors * (p->vector * element_instructions + vector_instructions) + rows * p->split * instructions) /
      (busy * 4 * rates->clock_hz) * 1e9;
  double latency = waves * (steps * load_ns + chain) * (waves > 1 ? 0.6 : 1);
  /* Nearly the largest of them: what comes close to it still gets in its way. */
  double total = cbrt(pow(memory, 3) + pow(issue, 3) + pow(latency, 3));
  if (p->split > 1) {
    double items = p->split * winners, each = p->select == TOPK_BY_BUFFER ? p->threads : 256;
    total += merge_kernel_ns + ceil(items / each) * merge_ns + each / 32 * list_ns +
             (p->select == TOPK_BY_BUFFER ? chain : 0);
  }
  return rates->launch_ns + total;
}

double topk_cost_ns(const ir_problem *p, const target *t, const target_rates *rates, const config *c) {
  arena a = ARENA_INIT;
  arke_error err = ARKE_ERROR_INIT;
  topk_match match;
  topk_plan plan;
  double ns = INFINITY;
  if (topk_fit(p, t, &a, &match, NULL, &err) == TEMPLATE_OK &&
      topk_plan_make(&match, t, c, &plan) == TEMPLATE_OK)
    ns = topk_plan_cost_ns(&plan, rates);
  arena_release(&a);
  return ns;
}
