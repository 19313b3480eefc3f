/* The cost model. CTAs that are there at the same time share memory's bandwidth alike, as far as what each
 * has under way allows; so a wave takes as long as its bytes, and the last wave as long as few CTAs take by
 * themselves. What one SM can draw bounds it too: where several CTAs fit an SM, launches that overlap may
 * leave one SM more of them than another.
 *
 * Constants without another source were fitted to 1,200 configurations of 18 problems in bf16, with weights
 * as the 64-row operand, each timed on an H200 after flushes (which take their part of the bandwidth): of
 * those of a problem, the fastest of the model's first four took on average 2.5 % more time than the fastest
 * of all. */
#include <math.h>

#include "templates/slim.h"

/* From a copy to its data, while all others copy too; from the start of a CTA to its first copy; and from the
 * last sums to the end. */
static const double latency_ns = 1000, start_ns = 200, store_ns = 200, cluster_ns = 750;
static const double launch_factor = 0.72;
/* Share of the copy bandwidth that a first read gets, and how much less a read costs that pushes nothing out
 * of L2; of 128 bytes a clock that wgmma gets from shared memory; and of the matrix units' rate. */
static const double dram_efficiency = 0.852, stream_gain = 0.086;
static const double smem_efficiency = 0.78, math_efficiency = 0.76;
/* Bytes that an SM gets in a cycle from the L2 cache, and of what comes out of memory; of that, two SMs that
 * share a way (a TPC): 160 CTAs of 64 x 8192 took 56 us back to back, where memory alone would take 40. CTAs
 * that an SM may have beyond its share, since launches overlap. */
static const double sm_bytes_per_cycle = 68, sm_dram_bytes_per_cycle = 32.5, pair_dram_bytes_per_cycle = 46,
                    skew = 0.5;
/* A line that lies outside its tensor is 0, and takes a copy so long. */
static const double outside_line_ns = 5.3;
/* Cycles of a stage that no product of the same consumer hides; instructions for a vector of outputs, and for
 * each part of K. */
static const double stage_cycles = 88, vector_instructions = 47, part_instructions = 60;
/* How much bounds that come close to the largest one add to it. */
enum { POWER = 9 }; /* as in ninth_power() */
enum { SCHEDULERS = 4, WARP = 32 };

static double resident(const slim_plan *p, const target *t) {
  double registers = ceil((p->accumulators * p->m->c.n_sums + 28) / 8.0) * 8;
  double ctas =
      fmin(t->max_threads_per_sm / p->threads, floor(t->registers_per_sm / (registers * p->threads)));
  ctas = fmin(ctas, floor(t->smem_per_block_bytes / (p->smem_bytes + 2048.0)));
  return fmax(1, fmin(ctas, t->max_ctas_per_sm));
}

/* A CTA's work, and what bounds it. */
typedef struct work {
  double fit;               /* of these an SM holds */
  double bytes, dram_bytes; /* through its ring; of them out of memory */
  double in_flight;         /* bytes */
  double busy_ns;           /* of its SM's matrix units and shared memory */
  double outside_ns;        /* of its SM's copies, for lines outside the tensor */
  double chain_ns;          /* of its consumers, one stage after the other */
} work;

/* pow() took most of the time of finding defaults among some hundred thousand configurations. */
static double ninth_power(double x) {
  double cube = x * x * x;
  return cube * cube * cube;
}

/* A wave of so many CTAs. */
static double wave_ns(const work *w, double ctas, const target_rates *rates) {
  double more = w->fit > 1 ? skew : 0;
  double on_an_sm = fmin(w->fit, ceil(ctas / rates->sm_count) + more);
  double on_a_pair = fmin(2 * w->fit, ceil(2 * ctas / rates->sm_count) + more);
  double cycles_per_ns = rates->clock_hz / 1e9;
  const double bounds[] = {
      ctas * w->dram_bytes / (rates->dram_bytes_per_s * dram_efficiency) * 1e9,
      ctas * w->bytes / rates->l2_bytes_per_s * 1e9,
      on_an_sm * w->bytes / (sm_bytes_per_cycle * cycles_per_ns),
      on_an_sm * w->dram_bytes / (sm_dram_bytes_per_cycle * cycles_per_ns),
      on_a_pair * w->dram_bytes / (pair_dram_bytes_per_cycle * cycles_per_ns),
      w->bytes / w->in_flight * latency_ns,
      on_an_sm * w->busy_ns,
      on_an_sm * w->outside_ns,
      w->chain_ns,
  };
  double sum = 0;
  for (size_t i = 0; i < COUNT_OF(bounds); i++) sum += ninth_power(bounds[i]);
  return pow(sum, 1.0 / POWER);
}

double slim_cost_of(const slim_plan *p, const target *t, const target_rates *rates) {
  const contraction *c = &p->m->c;
  double k = (double)contraction_extent(c, &c->k), tokens = (double)contraction_extent(c, p->m->tokens);
  double tiles = ceil((double)contraction_extent(c, p->m->weights) / p->rows) * ceil(tokens / p->tokens);
  double fit = resident(p, t), ctas = tiles * p->cluster, slots = fit * rates->sm_count;
  double steps = ceil(ceil(k / p->block_k) / p->cluster);
  double products = (double)p->row_tiles * p->consumers * p->block_k / 16 * c->n_sums; /* of a stage */
  double smem = products * (64 * 16 + p->columns * 16) * 2 / (128 * smem_efficiency);
  double math = products * 2 * 64 * p->columns * 16 /
                (rates->f16_flops_per_s * math_efficiency / rates->sm_count) * rates->clock_hz;
  double stage = fmax(smem, math);
  /* Rows beyond the last are no bytes. */
  double stage_bytes = 0;
  for (int i = 0; i < c->n_operands; i++)
    stage_bytes += (double)p->tiles[i].panels * p->tiles[i].height * SLIM_LINE_BYTES *
                   (p->m->operands[i].token ? fmin(1, tokens / p->tokens) : 1);
  work w = {.fit = fit,
            .bytes = steps * stage_bytes,
            .dram_bytes = c->form.min_bytes / ctas,
            .in_flight = (p->stages - 1) * stage_bytes, /* one is multiplied */
            .outside_ns = steps * p->block_k / SLIM_PANEL * fmax(0, p->tokens - tokens) * outside_line_ns,
            .busy_ns = steps * stage / rates->clock_hz * 1e9,
            .chain_ns = steps * fmax(stage, stage / p->consumers + stage_cycles) / rates->clock_hz * 1e9};
  w.in_flight = fmin(w.in_flight, w.bytes);
  if (p->loads != GEN_CACHE_DEFAULT) w.dram_bytes *= 1 - stream_gain;
  double full = floor(ctas / slots), rest = ctas - full * slots;
  double stream = full * wave_ns(&w, slots, rates) + (rest > 0 ? wave_ns(&w, rest, rates) : 0);
  double starts = start_ns + latency_ns;
  double rounds = full + (rest > 0) - 1;

  double outputs = fmin(tokens, p->tokens) * p->rows / p->cluster / p->width; /* vectors */
  double issue = ceil(outputs / p->threads) * p->threads / WARP *
                 (vector_instructions + part_instructions * p->cluster * c->n_sums) *
                 ceil(fmin(ctas, slots) / rates->sm_count);
  double finish = issue / (SCHEDULERS * rates->clock_hz) * 1e9;
  double ends = store_ns + (p->cluster > 1 ? cluster_ns : 0) + finish;
  return launch_factor * rates->launch_ns + stream + starts + ends + rounds * (starts + ends) / fit;
}
