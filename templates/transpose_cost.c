/* The cost model: bytes that move, as whole tiles, at the rate that their runs and the loads in flight allow.
 */
#include <math.h>

#include "templates/transpose.h"

/* Fitted to trials on H200, timed after flushes of L2. A tile's time beside its instructions: loads, a
 * barrier, stores. */
static const double tile_ns = 745;
/* Warp instructions of a load, of a store, and of an element that is stored. */
static const double load_instructions = 7.8, store_instructions = 12, element_instructions = 3.75;
/* The first two without bounds, counted in what is generated. */
static const double inner_load_instructions = 5.5, inner_store_instructions = 3;
/* The same of rows that begin anywhere: a load with where its word is, a store, an element, where the
 * elements of an output's row wait, and what a thread does once. Counted in what is generated; not fitted to
 * anything. */
static const double shifted_load_instructions = 14, shifted_store_instructions = 4,
                    shifted_element_instructions = 2, shifted_row_instructions = 6, shifted_instructions = 60;
/* Of a tile's instructions that nothing else of the SM covers. */
static const double issue_share = 0.43;
/* Registers of a thread: for addresses, for each word that is loaded, for each store. */
static const double registers = 24, word_registers = 2.3, store_registers = 2;
/* What tiles in turn take more: the SMs do not start them when there is room. */
static const double in_turn_share = 1.07;
/* Tensors count as large by their share of themselves and this: those that L2 does not hold take more where
 * CTAs go along the inputs' rows, and where a row of a tile is a single line. */
static const double large_bytes = 100e6, along_inputs_share = 0.03, one_line_share = 0.02;

/* Share of the bandwidth that runs of `bytes` reach: L2 and DRAM move 32 and 64 bytes at a time. */
static double run_efficiency(double bytes, double large) {
  return bytes >= 256   ? 1
         : bytes >= 128 ? 1 - one_line_share * large
         : bytes >= 64  ? 0.92
         : bytes >= 32  ? 0.7
                        : bytes / 32 * 0.7;
}

static double length(const ir_form *form, int loop, int tile) {
  double extent = (double)ir_form_extent(form, loop);
  return extent < tile ? extent : tile;
}

static double tiles(const ir_form *form, int loop, int tile) {
  int64_t extent = ir_form_extent(form, loop);
  return (double)((extent + tile - 1) / tile);
}

double transpose_plan_cost_ns(const transpose_plan *p, const target *t, const target_rates *rates) {
  const ir_form *form = p->form;
  int in = p->bytes[0],
      out = dtype_bits(ir_tensor_dtype(form->problem, form->accesses[form->outputs[0].access].tensor)) / 8;
  double n = tiles(form, p->match.u, p->tile_u) * tiles(form, p->match.v, p->tile_v);
  for (int i = 0; i < p->n_outer; i++) n *= (double)ir_form_extent(form, p->outer[i]);
  double bytes = form->min_bytes, large = bytes / (bytes + large_bytes);
  double read = run_efficiency(length(form, p->match.u, p->tile_u) * in, large);
  double written = run_efficiency(length(form, p->match.v, p->tile_v) * out, large);
  double dram_ns = bytes / rates->dram_bytes_per_s * (0.5 / read + 0.5 / written) * 1e9;
  if (p->along_u) dram_ns *= 1 + along_inputs_share * large;

  /* What an SM holds at a time, and how long it takes for that. */
  double held = registers + word_registers * transpose_words(p) + store_registers * p->stores;
  double resident =
      fmin(t->max_threads_per_sm / p->threads, floor(t->registers_per_sm / (held * p->threads)));
  resident = fmin(resident, t->smem_per_block_bytes / (p->smem_bytes + 1024));
  if (p->apart) resident = transpose_resident(p, t);
  resident = fmax(1, fmin(resident, t->max_ctas_per_sm));
  double to_load = p->apart ? inner_load_instructions : load_instructions;
  double to_store = p->apart ? inner_store_instructions : store_instructions;
  double puts = p->shifted ? 1 : p->load * in / (double)p->unit; /* into shared memory, a load */
  double instructions = (double)p->loads * p->n_turned * (to_load + puts) +
                        (double)p->stores * (p->store * element_instructions + to_store);
  if (p->shifted)
    instructions =
        p->n_turned * (p->loads * shifted_load_instructions + p->store * shifted_row_instructions) +
        p->stores * (p->store * shifted_element_instructions + shifted_store_instructions) +
        shifted_instructions;
  double issue_ns = instructions * p->threads / 32 / 2 / rates->clock_hz * 1e9; /* two a clock */
  double per_sm = n / rates->sm_count, waves = fmax(1, per_sm / resident);
  if (waves < 4) waves = (waves + ceil(waves)) / 2; /* the last of few is as long as a whole one */
  double alone_ns = tile_ns + instructions / rates->clock_hz * 1e9; /* a warp issues no faster */
  double sm_ns = fmax(waves * alone_ns + issue_share * per_sm * issue_ns, per_sm * issue_ns);
  double ns = rates->launch_ns + cbrt(pow(dram_ns, 3) + pow(sm_ns, 3));
  if (p->tiles != TRANSPOSE_EACH_TILE) ns *= in_turn_share;
  return ns;
}
