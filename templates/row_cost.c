/* The cost model. A CTA lives as long as its chain takes: start, loads, exchanges, arithmetic, stores; as
 * many live at once as fit. That bounds how fast rows get done, as the memory's bandwidth and the
 * instructions do. Constants are fitted to 6,700 configurations of 40 problems, timed on an H200 with its
 * caches full of other data: their order within a problem counts, so that a time's absolute size may be off.
 */
#include <math.h>

#include "templates/row_emit.h"

/* From a load to its data, from memory and from the L2 cache. */
static const double dram_latency_ns = 500, l2_latency_ns = 210;
/* All threads of a warp, of a CTA and its warps, of a cluster and each store into one of its CTAs; and a
 * kernel of the same plan after the one before. */
static const double warp_exchange_ns = 76, cta_exchange_ns = 81, cta_warp_ns = 0.97,
                    cluster_exchange_ns = 780, cluster_store_ns = 0.14, kernel_ns = 1500;
/* Starting a CTA where another one has just ended. */
static const double cta_start_ns = 2, cta_start_warp_ns = 0.57;
/* And that many of them keep what starts them busy. */
static const double cta_issue_ns = 9.5;
/* The CTAs of a cluster start all at once, on neighbouring SMs: fewer live at once, as a share for each
 * doubling. */
static const double cluster_gaps = 0.61;
/* What else it costs to take a row to shared memory and back, to copy it there ahead, and to loop over rows
 * without that, as shares. */
static const double detour = 0.055, ahead_detour = 0.075, loop_detour = 0.04;
/* Share of the copy bandwidth that a kernel reaches at best. */
static const double dram_efficiency = 0.98;
/* What others left in L2 to be written back, and how much a kernel puts there before most of that is gone. */
static const double dirty_bytes = 9.8e6, displacing_bytes = 49e6;
/* How much slower than others loads and stores are that leave L2 first, as shares: such loads when much more
 * than so many bytes are on their way at once. */
static const double first_loads = 0.029, first_stores = 0.086, first_room_bytes = 10.7e6;
/* Instructions of an element: converting what is read; each reduction, and an exponential in it; the
 * arithmetic of an output and its conversion; and of an access (means over what ptxas made of the catalogue).
 */
static const double read_instructions = 1.2, reduction_instructions = 1.2, exponential_instructions = 2.6,
                    output_instructions = 6.6, access_instructions = 5.6, shared_instructions = 7.3;
/* Registers beside what row_registers() counts: of an element whose place is looked for, of one of a vector
 * of an access that all rows share, and of a thread whose rows start anywhere. */
static const double position_registers = 0.7, weight_registers = 0.8, peel_registers = 7;
/* Cycles between two instructions of one warp. */
static const double issue_cycles = 1.4;
/* How much bounds that come close to the largest one add to it. */
static const double power = 3.5;
/* What few registers are said to gain may be lost to spills. */
static const double crowd_doubt = 1.01;
enum { SCHEDULERS = 4, WARP = 32 };

typedef struct work {
  double rows, columns;
  double bytes_in, bytes_out; /* of an element */
  double again;               /* bytes of an element read again, after its first pass */
} work;

static double access_bytes(const row_match *m, int access) {
  return dtype_bits(ir_tensor_dtype(m->form.problem, m->form.accesses[access].tensor)) / 8.0;
}

static work work_of(const row_match *m, const row_plan *plan) {
  work w = {.rows = (double)row_rows(m), .columns = (double)row_columns(m)};
  if (w.columns < 1) w.columns = 1;
  uint64_t seen = 0;
  for (int pass = 0; pass <= m->n_phases; pass++) {
    uint64_t reads = m->pass_reads[pass] & m->moving;
    for (int i = 0; i < m->form.n_accesses; i++) {
      if (!(reads >> i & 1)) continue;
      if (!(seen >> i & 1) && row_varies(m, i)) w.bytes_in += access_bytes(m, i);
      bool held = plan->held != ROW_AGAIN && plan->split == 1;
      if (seen >> i & 1 && !held) w.again += access_bytes(m, i);
    }
    seen |= reads;
  }
  for (int i = 0; i < m->form.n_outputs; i++)
    if (m->outputs[i].by_element) w.bytes_out += access_bytes(m, m->form.outputs[i].access);
  return w;
}

/* Accesses of elements that move with the column, but not with the rows. */
static int shared_by_rows(const row_match *m) {
  int n = 0;
  for (int i = 0; i < m->form.n_accesses; i++) n += m->moving >> i & 1 && !row_varies(m, i);
  return n;
}

static double likely_registers(const row_match *m, const row_plan *plan) {
  row_plan wide = *plan;
  /* The assembler widens narrow elements early and keeps them, unless it is told to leave registers. */
  if (!plan->crowd && !plan->ctas_per_sm) wide.narrow = false;
  double registers = row_registers(m, &wide) + plan->peel * peel_registers;
  registers += weight_registers * plan->vector * shared_by_rows(m);
  double elements = plan->vector * plan->vectors * plan->rows_at_once;
  for (int i = 0; i < m->n_reductions && row_in_registers(plan); i++)
    if (row_is_position(&m->reductions[i])) registers += position_registers * elements;
  return ceil(registers / 8) * 8;
}

/* CTAs that an SM holds at once. */
static double resident(const row_match *m, const row_plan *plan, const target *t) {
  int block = plan->threads * plan->groups;
  double registers = likely_registers(m, plan);
  if (plan->crowd) registers = fmin(registers, t->registers_per_sm / (plan->crowd * block) / 8 * 8);
  double ctas =
      fmin(floor((double)t->max_threads_per_sm / block), floor(t->registers_per_sm / (registers * block)));
  double bytes = plan->held == ROW_SHARED  ? (double)plan->shared_vectors * plan->shared_bytes * block
                 : plan->held == ROW_AHEAD ? (double)plan->stages * plan->stage_bytes
                                           : 0;
  ctas = fmin(ctas, floor(t->smem_per_block_bytes / (bytes + 2048)));
  if (plan->ctas_per_sm) ctas = fmin(ctas, plan->ctas_per_sm);
  return fmax(1, fmin(ctas, t->max_ctas_per_sm));
}

static double exchange_ns(const row_plan *plan) {
  double warps = plan->threads / (double)WARP;
  if (plan->cluster > 1)
    return cluster_exchange_ns + cluster_store_ns * warps * plan->cluster * plan->cluster;
  if (plan->threads > WARP) return warp_exchange_ns + cta_exchange_ns + cta_warp_ns * warps;
  return plan->threads > 1 ? warp_exchange_ns : 0;
}

static int accesses_of(const row_match *m) {
  int n = 0;
  for (int i = 0; i < m->form.n_accesses; i++) n += (int)(m->moving >> i & 1);
  return n;
}

/* Lines of 128 bytes that the first cache hands out, one a cycle: a warp's access takes at least one for each
 * of its rows. */
static double lines_of(const row_match *m, const row_plan *plan, const work *w) {
  double width = fmin(WARP, plan->threads), lines = 0;
  double accesses = w->rows * ceil(w->columns / plan->vector) / width; /* of one warp for one row */
  for (int i = 0; i < m->form.n_accesses; i++) {
    /* What has no rows of its own is not aligned with theirs: it comes element by element. */
    double each = plan->peel && !(row_major(m) >> i & 1) ? plan->vector : 1;
    if (m->moving >> i & 1) lines += each * accesses * ceil(width * plan->vector * access_bytes(m, i) / 128);
  }
  return lines;
}

/* From a row's data to its end where nothing else is in its way but the warps of its own CTA. */
static double busy_ns(const row_match *m, const row_plan *plan, const work *w, double instructions,
                      const target_rates *rates) {
  double each = ceil(w->columns / plan->vector / row_team(plan)); /* vectors of a thread */
  double elements = each * plan->vector * plan->rows_at_once;
  double warps = fmax(1, ceil(plan->threads * plan->groups / (double)(WARP * SCHEDULERS)));
  double cycles = elements * instructions * fmax(issue_cycles, warps);
  return m->n_phases * exchange_ns(plan) + cycles / rates->clock_hz * 1e9;
}

/* Waiting for the data of a row, from the start of a CTA or from the end of its row before. */
static double wait_ns(const row_match *m, const row_plan *plan, const work *w) {
  double each = ceil(w->columns / plan->vector / row_team(plan));
  double rounds = row_in_registers(plan) ? 1 : ceil(each / plan->vectors);
  return dram_latency_ns * rounds + l2_latency_ns * rounds * m->n_phases * (w->again > 0);
}

/* One turn of a CTA. Of rows copied ahead, all but one of the stages are on their way in a turn. */
static double turn_ns(const row_match *m, const row_plan *plan, const work *w, double instructions,
                      const target_rates *rates) {
  double busy = busy_ns(m, plan, w, instructions, rates), wait = wait_ns(m, plan, w);
  if (plan->held == ROW_AHEAD) return fmax(busy, (wait + busy) / (plan->stages - 1));
  double start = cta_start_ns + cta_start_warp_ns * plan->threads * plan->groups / WARP;
  return wait + busy + (plan->ctas_per_sm ? 0 : start);
}

/* Bytes that memory is busy with. What passes through L2 as usual displaces what others have left there to be
 * written back, which leaves L2 first does not. */
static double memory_bytes(const row_plan *plan, const work *w, double bytes_at_once) {
  bool loads_first = plan->loads == GEN_CACHE_EVICT_FIRST,
       stores_first = plan->stores == GEN_CACHE_EVICT_FIRST;
  double in = w->rows * w->columns * w->bytes_in, out = w->rows * w->columns * w->bytes_out;
  double usual = (loads_first ? 0 : in) + (stores_first ? 0 : out);
  double displaced = dirty_bytes * (1 - exp(-usual / displacing_bytes));
  double crowd = 1 - exp(-pow(bytes_at_once / first_room_bytes, 4));
  return in * (1 + loads_first * first_loads * crowd) + out * (1 + stores_first * first_stores) + displaced;
}

static double instructions_of(const row_match *m) {
  double n = reduction_instructions * m->n_reductions;
  for (int i = 0; i < m->form.n_accesses; i++)
    if (m->moving >> i & 1 && m->reads[i]) n += read_instructions;
  for (int i = 0; i < m->n_reductions; i++)
    if (m->reductions[i].maximum >= 0) n += exponential_instructions;
  for (int i = 0; i < m->form.n_outputs; i++)
    if (m->outputs[i].by_element) n += output_instructions;
  return n;
}

double row_cost_of(const row_match *m, const row_plan *plan, const target *t, const target_rates *rates) {
  work w = work_of(m, plan);
  double sms = rates->sm_count, elements = w.rows * w.columns;
  double ctas = ceil(w.rows / (plan->groups * plan->rows_at_once)) * plan->cluster * plan->split;
  double at_once = fmin(ctas, resident(m, plan, t) * sms / (1 + cluster_gaps * log2(plan->cluster)));
  double instructions = instructions_of(m) + access_instructions * accesses_of(m) / plan->vector;
  /* Unaligned accesses come element by element. */
  if (plan->peel) instructions += access_instructions * shared_by_rows(m);
  /* Into shared memory and out of it again. */
  if (plan->held == ROW_SHARED) instructions += shared_instructions * (1 + m->n_phases) / plan->vector;

  /* What is read again is still in the cache if the rows that are worked on fit. */
  double bytes_at_once = at_once / (plan->cluster * plan->split) * plan->groups * w.columns * w.bytes_in;
  /* Clusters may leave no gaps; of a kernel a phase all rows come in between. */
  double most = fmin(ctas, resident(m, plan, t) * sms) / at_once;
  double between = plan->split > 1 ? elements * w.bytes_in : bytes_at_once * most;
  double again_rate = between < (double)rates->l2_bytes / 2 ? rates->l2_bytes_per_s : rates->dram_bytes_per_s;
  double in_flight = bytes_at_once * plan->rows_at_once;
  if (!row_in_registers(plan))
    in_flight =
        fmin(in_flight, at_once * plan->groups * plan->threads * plan->vector * plan->vectors * w.bytes_in);
  double memory = memory_bytes(plan, &w, in_flight) / (rates->dram_bytes_per_s * dram_efficiency) * 1e9;
  memory += elements * w.again / again_rate * 1e9;
  if (plan->held == ROW_SHARED) memory *= 1 + detour;
  if (plan->ctas_per_sm) memory *= 1 + (plan->held == ROW_AHEAD ? ahead_detour : loop_detour);

  double busy = fmin(at_once, sms) / sms;
  double arithmetic = elements * instructions / (sms * busy * SCHEDULERS * WARP * rates->clock_hz) * 1e9;

  double lines = lines_of(m, plan, &w) / (sms * busy * rates->clock_hz) * 1e9;

  double turns = fmax(1, ctas / at_once), whole = ceil(turns);
  turns = (turns + whole) / 2; /* CTAs of the last turn have more of the machine for themselves */
  double turn = turn_ns(m, plan, &w, instructions, rates);
  memory += turn / 2; /* at the end fewer and fewer CTAs share it, each as fast as it is alone */
  double ctas_started = plan->ctas_per_sm ? at_once : ctas;
  double latency = turns * turn;
  latency += ctas_started / sms * cta_issue_ns;
  if (plan->ctas_per_sm) latency += cta_start_ns;
  if (plan->held == ROW_AHEAD) latency += dram_latency_ns;
  double kernels = plan->split > 1 ? m->n_phases * kernel_ns : 0;
  double sum = pow(memory, power) + pow(arithmetic, power) + pow(lines, power) + pow(latency, power);
  double ns = rates->launch_ns + kernels + pow(sum, 1 / power);
  return plan->crowd ? ns * crowd_doubt : ns;
}

/* --- where to start --- */

typedef struct start {
  const row_match *held, *online; /* the form, by row_is_online */
  const target *t;
  config at, best;
  double best_ns;
} start;

static void consider(start *s) {
  const row_match *m = row_is_online(&s->at) ? s->online : s->held;
  row_plan plan;
  if (row_plan_make(m, s->t, &s->at, &plan) != TEMPLATE_OK || row_is_redundant(m, s->t, &s->at, &plan))
    return;
  double ns = row_cost_of(m, &plan, s->t, &s->t->rates);
  if (ns >= s->best_ns) return;
  s->best_ns = ns;
  s->best = s->at;
}

static void consider_teams(start *s) {
  int *v = s->at.values;
  const space_param *threads = &row_space.params[ROW_THREADS], *parts = &row_space.params[ROW_PARTS];
  for (int i = 0; i < threads->n_values; i++) {
    v[ROW_THREADS] = threads->values[i];
    v[ROW_PARTS] = 1;
    v[ROW_ROWS] = v[ROW_THREADS] < 32 ? 4 : v[ROW_THREADS] < 128 ? 128 / v[ROW_THREADS] : 1;
    consider(s);
    v[ROW_ROWS] = 1;
    for (int k = 0; k < parts->n_values; k++) {
      v[ROW_PARTS] = parts->values[k];
      consider(s);
    }
  }
}

void row_defaults(const ir_problem *p, const target *t, config *c) {
  arena a = ARENA_INIT;
  row_match held, online;
  template_reason reason;
  start s = {.held = &held,
             .online = &online,
             .t = t,
             .best = {{[ROW_THREADS] = 256,
                       [ROW_ROWS] = 1,
                       [ROW_VECTOR] = 1,
                       [ROW_HELD] = ROW_AGAIN,
                       [ROW_BATCH] = 1,
                       [ROW_PARTS] = 1}},
             .best_ns = INFINITY};
  if (row_match_make(p, true, false, &a, &held, &reason, NULL, NULL) == ARKE_OK && reason == TEMPLATE_OK &&
      row_match_make(p, true, true, &a, &online, &reason, NULL, NULL) == ARKE_OK) {
    for (int vector = 1; vector <= 16; vector *= 2) {
      for (int kind = ROW_REGISTERS; kind <= ROW_AGAIN; kind++) { /* rows ahead need loops */
        for (int batch = 1; batch <= 8; batch *= 2) {
          s.at.values[ROW_VECTOR] = vector;
          s.at.values[ROW_HELD] = kind;
          s.at.values[ROW_BATCH] = batch;
          consider_teams(&s);
        }
      }
    }
    s.at = s.best;
    for (int advice = 1; advice <= 2; advice++) {
      s.at.values[ROW_STREAM] = advice;
      consider(&s);
    }
  }
  *c = s.best;
  arena_release(&a);
}

/* --- a small problem --- */

/* Sets the sizes behind a loop so that it has about `elements`; false where it cannot be told. */
static bool set_extent(const row_match *m, int loop, int64_t elements, ir_problem *p) {
  const ir_loop *l = &m->form.loops[loop];
  bool first = true;
  if (l->leading) {
    for (int i = 0; i < p->lead_rank; i++) {
      p->lead[i] = first ? elements : 1;
      first = false;
    }
  }
  for (int i = 0; i < l->n_dims; i++) {
    if (l->dims[i].axis < 0) continue;
    int64_t factor = l->dims[i].factor > 0 ? l->dims[i].factor : 1;
    p->sizes[l->dims[i].axis] = first ? (elements + factor - 1) / factor : 1;
    first = false;
  }
  return !first;
}

static int64_t reduced_columns(const row_match *m, const row_plan *plan) {
  int64_t columns = row_columns(m), most = plan->held == ROW_AGAIN ? 0 : 1 << 15;
  if (row_in_registers(plan) || columns <= most) return columns;
  /* A whole block of vectors, part of another one, and the same remainder. */
  int64_t block = (int64_t)row_team(plan) * plan->vector * plan->vectors;
  int64_t less = block + block / 2 + columns % plan->vector;
  less -= less % plan->vector - columns % plan->vector;
  return less < columns ? less : columns;
}

static bool plan_of(const ir_problem *p, const target *t, const config *c, arena *a, row_match *m,
                    row_plan *plan) {
  template_reason reason;
  return row_match_make(p, true, row_is_online(c), a, m, &reason, NULL, NULL) == ARKE_OK &&
         reason == TEMPLATE_OK && row_plan_make(m, t, c, plan) == TEMPLATE_OK;
}

void row_reduced_problem(const ir_problem *p, const target *t, const config *c, int sm_count,
                         ir_problem *reduced) {
  arena a = ARENA_INIT;
  row_match m;
  row_plan plan;
  *reduced = *p;
  if (plan_of(p, t, c, &a, &m, &plan)) {
    int64_t turn = (int64_t)plan.groups * plan.rows_at_once;
    int64_t turns = plan.ctas_per_sm ? (int64_t)plan.ctas_per_sm * sm_count + 1 : 1;
    int64_t rows = turn * turns + (turn + 1) / 2, columns = reduced_columns(&m, &plan);
    if (rows < row_rows(&m))
      for (int i = m.n_rows - 1; i >= 0; i--) set_extent(&m, m.rows[i], i == 0 ? rows : 1, reduced);
    /* Last, since an axis that is both is more important as columns. */
    if (columns != row_columns(&m)) set_extent(&m, m.column, columns, reduced);
    if (!plan_of(reduced, t, c, &a, &m, &plan)) *reduced = *p;
  }
  arena_release(&a);
}
