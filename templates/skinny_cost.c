/* The cost model. A CTA's life is a chain: it starts, its loads arrive, it streams its part of the weights,
 * its threads exchange their sums, and it stores. As many live at once as fit; how many bytes they have under
 * way bounds the stream, as memory's bandwidth and the instructions do.
 *
 * Constants were fitted to 6,129 configurations of 100 problems in bf16 (workloads/linear-llm-few-rows.json),
 * each timed on an H200 after flushes: of those of a problem, the fastest of the model's first ten took on
 * average 2 % more time than the fastest of all, of its first one 6 %; 10 and 26 % before. They hold for
 * configurations near those, and say little by themselves: where products of matrix instructions are the
 * bound, what they cost stands for the wait for tokens, too. */
#include <math.h>

#include "templates/skinny.h"

/* From a load to its data, while all others load too. */
static const double latency_ns = 550;
/* From one CTA to the next that is handed out. */
static const double cta_ns = 0.05;
static const double cta_start_ns = 50, exchange_ns = 150, cluster_ns = 2900, store_ns = 280;
static const double second_kernel_ns = 5600, launch_factor = 0.865;
/* Share of the copy bandwidth at best; bytes of a cycle that an SM gets from the L2 cache, and how much of
 * what tokens take of them counts: L1 serves most. */
static const double dram_efficiency = 0.992, sm_bytes_per_cycle = 61, token_share = 0.1;
/* How much more is under way than what one step loads, where no other step's loads are. */
static const double overlap = 2.4;
/* Issued for a word of weights, beside its products; for a load; for a step; and for a matrix product. */
static const double word_instructions = 2, load_instructions = 7.3, loop_instructions = 5,
                    matrix_instructions = 34;
/* Cycles between two instructions of one warp. */
static const double issue_cycles = 3.4;
/* How much bounds that come close to the largest one add to it. */
static const double power = 3.3;
enum { SCHEDULERS = 4, WARP = 32 };

static double resident(const skinny_plan *p, const target *t) {
  double registers = ceil((skinny_registers(p) + 4) / 8) * 8;
  double ctas =
      fmin(t->max_threads_per_sm / p->threads, floor(t->registers_per_sm / (registers * p->threads)));
  ctas = fmin(ctas, floor(t->smem_per_block_bytes / (p->smem_bytes + 1024.0)));
  return fmax(1, fmin(ctas, t->max_ctas_per_sm));
}

static double side_words(const skinny_plan *p, bool token) {
  double words = 0;
  for (int i = 0; i < p->m->c.n_operands; i++) {
    if (skinny_is_token(p->m, i) != token) continue;
    words += skinny_words_of(p->m, p, i) * (token ? p->token_positions : p->weight_positions);
  }
  return words * p->unroll;
}

/* Instructions of a thread for one step along K. */
static double step_instructions(const skinny_plan *p) {
  double weights = side_words(p, false), tokens = side_words(p, true);
  double elements = (double)p->slots * p->step * p->unroll;
  double loads = (double)(p->weight_positions + p->token_positions) * p->unroll;
  double n = loop_instructions + word_instructions * (weights + tokens) + load_instructions * loads;
  if (p->mma) return n + matrix_instructions * p->m->c.n_sums * elements / 8 * p->token_positions;
  double unpacked =
      (double)p->tokens * p->step * p->unroll * (p->m->c.n_operands / 2.0) + elements * p->m->c.n_sums;
  return n + unpacked + elements * p->tokens * p->m->c.n_sums;
}

double skinny_cost_of(const skinny_plan *p, const target *t, const target_rates *rates) {
  const contraction *c = &p->m->c;
  double k = fmax(1, (double)contraction_extent(c, &c->k)), sms = rates->sm_count;
  double tiles = ceil((double)contraction_extent(c, p->m->weights) / p->rows) *
                 ceil((double)contraction_extent(c, p->m->tokens) / p->tokens) *
                 (double)contraction_extent(c, &c->batch);
  double ctas = tiles * p->parts;
  double fit = resident(p, t), busiest = fmin(fit, ceil(ctas / sms)); /* CTAs of an SM at once */
  double waves = fmax(1, ctas / (fit * sms));
  double whole = (waves + ceil(waves)) / 2; /* the last one has more of the machine for itself */

  double steps = ceil(ceil(k / p->parts) / (skinny_warp_step(p) * (double)p->warps_k));
  double weight_bytes = 4 * side_words(p, false) * p->threads,
         token_bytes = 4 * side_words(p, true) * p->threads;
  double cta_bytes = steps * weight_bytes, all = ctas * cta_bytes, least = c->form.min_bytes;
  double streamed = all < least ? least : all;

  /* Bytes read again come from the L2 cache where they fit. */
  double again = fmax(0, streamed - least);
  double dram = least / (rates->dram_bytes_per_s * dram_efficiency) * 1e9;
  dram +=
      again / (least < (double)rates->l2_bytes * 0.8 ? rates->l2_bytes_per_s : rates->dram_bytes_per_s) * 1e9;

  if (p->loads != GEN_CACHE_DEFAULT) dram *= 0.99; /* they push nothing out of L2 that must be written back */

  double in_flight = busiest * weight_bytes * (p->prefetch ? 1.0 : overlap);
  double most = sm_bytes_per_cycle * rates->clock_hz / 1e9;
  double per_sm = fmin(in_flight / latency_ns, most);
  double tokens_too = (weight_bytes + token_share * token_bytes) / weight_bytes;
  double per_sm_all = fmin(per_sm, most / tokens_too);
  double stream = whole * busiest * cta_bytes / per_sm_all;

  double issue = step_instructions(p) * steps * p->threads / WARP * busiest;
  double arithmetic = whole * issue / (SCHEDULERS * rates->clock_hz) * 1e9;

  /* A warp by itself. */
  double chain = whole * step_instructions(p) * steps * issue_cycles / rates->clock_hz * 1e9;

  double sum = pow(chain, power) + pow(dram, power) + pow(stream, power) + pow(arithmetic, power);
  double parts = p->split * (double)contraction_extent(c, p->m->weights) *
                 (double)contraction_extent(c, p->m->tokens) * (double)contraction_extent(c, &c->batch);
  double second = p->split > 1 ? second_kernel_ns + 8 * parts * c->n_sums / rates->l2_bytes_per_s * 1e9 : 0;
  double ends = second + latency_ns + exchange_ns * (1 + p->warps_k / 8.0) +
                (p->cluster > 1 ? cluster_ns : 0) + store_ns;
  return launch_factor * rates->launch_ns + pow(sum, 1 / power) + ends + (ceil(waves) - 1) * cta_start_ns +
         ctas * cta_ns;
}
