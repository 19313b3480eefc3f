/* The cost model: the bytes at the rate that loads in flight and whole lines allow, and a second kernel where
 * rows are split. */
#include "templates/column.h"

static const double latency_ns = 800, tree_ns = 40, second_kernel_ns = 1800, cluster_ns = 900;

enum { OTHER_REGISTERS = 40 }; /* beside rows on their way, widened ones and sums */

double column_plan_cost_ns(const column_plan *plan, const target *t, const target_rates *rates) {
  const column_match *m = plan->m;
  double positions = (double)column_positions(m, plan->vector), rows = (double)column_rows(m);
  double bytes = m->form.min_bytes, elements = positions * plan->vector * rows;
  double each = elements > 0 ? bytes / elements : 1; /* bytes of an element, all reads together */
  double tiles = (positions + plan->across - 1) / plan->across;
  tiles = (double)(int64_t)tiles;
  double ctas = tiles * plan->split;

  /* Bytes side by side in memory: threads across, or whole rows where those are short. */
  double run = plan->across * plan->vector * each;
  double whole = (double)ir_form_extent(&m->form, m->v) * each;
  if (whole <= run) run = whole * plan->down;
  double lines = run >= 256 ? 1 : run >= 128 ? 0.97 : run >= 64 ? 0.85 : run >= 32 ? 0.7 : run / 32 * 0.7;

  double registers = OTHER_REGISTERS + plan->vector * (plan->unroll * each / 4 + 2 * m->n_reductions);
  int resident = t->max_threads_per_sm / plan->threads,
      by_registers = (int)(t->registers_per_sm / (registers * plan->threads)),
      by_memory = plan->smem_bytes ? t->smem_per_block_bytes / plan->smem_bytes : resident;
  if (by_registers < resident) resident = by_registers > 1 ? by_registers : 1;
  if (by_memory < resident) resident = by_memory;
  double busy = ctas < (double)rates->sm_count * resident ? ctas / rates->sm_count : resident;
  if (busy < 1) busy = 1; /* CTAs of the SMs that have any */
  double sms = ctas < rates->sm_count ? ctas : rates->sm_count;
  double in_flight = busy * plan->threads * plan->unroll * plan->vector * each;
  double per_sm = in_flight / latency_ns; /* bytes a nanosecond */
  double most = rates->dram_bytes_per_s / 1e9 / rates->sm_count * 1.3;
  if (per_sm > most) per_sm = most;
  double used = positions / (tiles * plan->across); /* of the threads across */
  double stream_ns = bytes / (sms * per_sm * used);
  double dram_ns = bytes / (rates->dram_bytes_per_s * lines) * 1e9;

  double rounds = rows / ((double)plan->split * plan->down * plan->unroll);
  if (rounds < 1) rounds = 1;
  double waves = ctas / ((double)rates->sm_count * resident);
  waves = waves < 1 ? 1 : waves;
  double latency = waves * (rounds < 4 ? rounds : 4) * latency_ns * 0.5;
  double tree = plan->groups > 1 ? tree_ns * (31 - __builtin_clz((unsigned)plan->groups)) : 0;
  double ns = rates->launch_ns + (stream_ns > dram_ns ? stream_ns : dram_ns) + latency + waves * tree;
  if (plan->cluster) {
    ns += cluster_ns;
  } else if (plan->split > 1) {
    double partials = positions * plan->vector * plan->split * 8.0 * m->n_reductions;
    ns += second_kernel_ns + partials / rates->l2_bytes_per_s * 1e9;
  }
  return ns;
}
