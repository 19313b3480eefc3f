/* The cost model of top-k: memory limited by what is in flight, the instructions for each element, and the
 * merges, which wait for one exchange after the other. Of numbers in no order, a fraction winners / n passes
 * after n: the model counts on that. */
#include <math.h>

#include "templates/topk.h"

/* What few registers are said to gain may be lost to spills. */
static const double crowd_doubt = 1.01;
static const double load_ns = 800, merge_kernel_ns = 2500;
static const double bytes_in_flight = 40e3, most_share = 2.5;
/* Warp instructions: of a buffer's element that does not pass, and vector; of a list's vector beside its
 * elements, which are compared two at a time where they have 16 bits; of a step that raises the bound, and a
 * vector of it; of a position that waits; of each element, when those are read again; of merging 32 items. */
static const double element_instructions = 2.5, vector_instructions = 8;
static const double strip_instructions = 3, raise_instructions = 80, tested_instructions = 4,
                    queue_instructions = 10, again_instructions = 30, merge_instructions = 190,
                    row_instructions = 150;
/* Of which an SM's clock takes three, most of the time. */
static const double per_clock = 3;
/* The chains of exchanges: of raising the bound, of a merge of 32 items, of one list with another. */
static const double raise_ns = 350, merge_ns = 700, list_ns = 350;
/* A pass over the buffer for one digit beside its items, and an item's part of it for each thread; a step of
 * the sort. */
static const double digit_ns = 350, digit_item_ns = 6, sort_step_ns = 45;
static const double digits = 5;

/* Items of n that pass, where the bound is renewed whenever `batch` more have passed. */
static double passing(double n, double winners, double batch) {
  if (n <= winners + batch) return n;
  return winners + batch + winners * log(n / (winners + batch)) + batch / 2;
}

/* What a list costs: instructions of its warp, and the time of its chain of exchanges. */
typedef struct list_cost {
  double instructions, chain;
} list_cost;

/* The bound is renewed in every step in which something passes, by the best of the lanes: somewhat fewer than
 * the winners of all vectors so far. */
static list_cost list_of(const topk_plan *p, double n, double winners, double steps, double element_bytes) {
  double ahead = 32 * (log(32) - log(fmax(32 - winners, 0.6))); /* whose bests are above that bound */
  double vectors = n / p->vector, first = vectors / steps;
  double queued = fmin(vectors, ahead * (1 + log(fmax(1, vectors / fmax(first, ahead)))));
  double raising = fmin(steps, queued), passes = ceil(queued / 32), merges = ceil(1.3 * winners / 32) + 1;
  double each = element_bytes <= 2 ? 0.6 : element_bytes <= 4 ? 1.2 : 3;
  list_cost c = {0};
  c.instructions = vectors / 32 * (strip_instructions + p->vector * each) +
                   raising * (raise_instructions + tested_instructions * p->strips) +
                   queued * queue_instructions + passes * (p->vector * again_instructions + 40) +
                   merges * merge_instructions + row_instructions;
  c.chain = raising * raise_ns + passes * (load_ns + 40 * p->vector) + merges * merge_ns;
  return c;
}

/* Bytes of an input's element, taken from what the operator moves: nearly all of it are candidates. */
static double bytes_of_element(const topk_plan *p) {
  const topk_match *m = p->match;
  double rows = (double)topk_rows(m), size = fmax(1, (double)ir_form_extent(&m->form, m->along));
  return m->form.min_bytes / (rows * size);
}

double topk_registers(const topk_plan *p) {
  double registers = 44 + p->vector * p->strips * bytes_of_element(p) / 4;
  return p->select == TOPK_BY_BUFFER ? registers + 3 * p->vector : registers;
}

double topk_plan_cost_ns(const topk_plan *p, const target *t, const target_rates *rates) {
  const topk_match *m = p->match;
  double rows = (double)topk_rows(m), size = fmax(1, (double)ir_form_extent(&m->form, m->along));
  double winners = (double)ir_form_extent(&m->form, m->rank);
  double bytes = m->form.min_bytes;
  double element_bytes = bytes_of_element(p);
  double ctas = p->select == TOPK_BY_WARP ? ceil(rows / p->warps) : rows * p->split;
  double part = size / p->split, steps = ceil(part / topk_step(p));
  topk_layout layout = topk_layout_of(p);
  double registers = topk_registers(p);
  if (p->resident) registers = fmin(registers, (double)t->registers_per_sm / p->resident);
  double resident = fmin(floor(t->registers_per_sm / (registers * p->threads)),
                         floor((double)t->max_threads_per_sm / p->threads));
  resident = fmin(resident, floor((double)t->smem_per_block_bytes / (layout.bytes + 1024)));
  resident = fmax(1, fmin(resident, t->max_ctas_per_sm));
  double busy = fmin(ctas, rates->sm_count), each_sm = fmin(resident, ceil(ctas / rates->sm_count));
  double waves = ceil(ctas / (rates->sm_count * resident));

  double warps_on_row = p->sharers / 32.0, lists = p->select == TOPK_BY_BUFFER ? 1 : warps_on_row;
  double chain = 0, instructions = 0; /* of a CTA's part of a row */
  if (p->select == TOPK_BY_BUFFER) {
    double passed = passing(part, winners, p->buffer - topk_step(p));
    double full = 1 + fmax(0, (passed - winners) / (p->buffer - topk_step(p) - winners));
    chain = full * digits * (digit_ns + digit_item_ns * p->buffer / p->threads) +
            sort_step_ns * log2(p->keep) * (log2(p->keep) + 1) / 2;
    instructions = passed / 32 * 40 + full * digits * p->buffer / 32 * 25 +
                   part / p->vector / 32 * (p->vector * element_instructions + vector_instructions);
  } else {
    list_cost one = list_of(p, part / lists, winners, steps, element_bytes);
    instructions = lists * one.instructions + (lists - 1) * merge_instructions;
    chain = one.chain + log2(lists) * list_ns;
  }
  double alone = steps * load_ns + chain;

  /* Under way on average: nothing while a row's winners are found. */
  double flight = each_sm * p->threads * fmin(p->strips * p->vector, part / p->sharers) * element_bytes *
                  fmax(0.2, steps * load_ns / alone);
  double rate =
      busy * rates->dram_bytes_per_s / rates->sm_count * most_share * fmin(1, flight / bytes_in_flight);
  rate = fmin(rate, rates->dram_bytes_per_s);
  double access = p->vector * element_bytes;
  double advice = p->loads == GEN_CACHE_DEFAULT ? 1 : 1.01;
  double memory = advice * bytes / rate * (access >= 16 ? 1 : 1 + 0.25 * log2(16 / fmax(access, 1))) * 1e9;
  double issue = rows * p->split * instructions / (busy * per_clock * rates->clock_hz) * 1e9;
  double latency = waves * alone * (waves > 1 ? 0.6 : 1);
  /* Nearly the largest of them: what comes close to it still gets in its way. */
  double total = cbrt(pow(memory, 3) + pow(issue, 3) + pow(latency, 3));
  if (p->split > 1) {
    double items = p->split * winners, each = p->select == TOPK_BY_BUFFER ? p->threads : 256;
    total += merge_kernel_ns + ceil(items / each) * merge_ns + log2(each / 32) * list_ns +
             (p->select == TOPK_BY_BUFFER ? chain : 0);
  }
  return rates->launch_ns + (p->resident ? crowd_doubt * total : total);
}
