/* What a point of the space is for an operator. */
#include "generator/gen_tma.h"
#include "templates/attention.h"

/* Static shared memory (barriers), rounded up to the alignment of the dynamic part. */
enum { STATIC_SMEM_BYTES = 1024 };
/* Registers a consumer thread needs beside sums, scores and weights. */
enum { OVERHEAD_REGISTERS = 32, REGISTERS_PER_SM = 65536 };
/* What a producer needs that looks for requests or pages and converts, by consumers: with 56 the walk spills.
 */
static const int converting_producer_registers[] = {0, 64, 72, 80};

/* Keys of a step whose weights fill a panel of 64 rows, and its bytes. */
enum { MOST_EXCHANGED = 64, WEIGHTS_BYTES = 64 * 128 };
enum { MOST_PAGE = 4096 };
enum { MOST_COPIED = 2 }; /* stages of what is converted: one is copied while another is converted */

static int ceil_to(int64_t x, int step) {
  return (int)((x + step - 1) / step * step);
}

/* Columns of the tiles of Q and K. */
static int set_parts(const attention_match *m, attention_plan *plan) {
  int columns = 0, bytes = plan->narrow ? 1 : 2;
  plan->n_parts = m->n_parts;
  plan->parts[0] = attention_first_part(m);
  if (m->n_parts > 1) plan->parts[1] = &m->parts[plan->parts[0] == &m->parts[0]];
  for (int i = 0; i < m->n_parts; i++) {
    int depth = ceil_to(ir_form_extent(&m->form, plan->parts[i]->depth), 32 / bytes);
    plan->part_panels[i] = attention_tile_make_of(1, depth, bytes).panels;
    columns += depth;
  }
  plan->values_are_keys = attention_values_are_keys(m, plan->parts[0]);
  return columns;
}

/* --- plans --- */

int64_t attention_tiles(const attention_plan *p) {
  const attention_match *m = p->match;
  int64_t queries = ir_form_extent(&m->form, m->query), each = (int64_t)p->block_q * attention_along(p);
  int64_t more = p->packed ? ir_form_extent(&m->form, m->groups.loop) : 0;
  return (queries + each - 1) / each + more;
}

bool attention_has_runs(const attention_plan *p) {
  return p->split || p->merge > 1;
}

int attention_ctas(const attention_plan *p) {
  return p->cluster * p->merge;
}

int64_t attention_runs(const attention_plan *p, int sm_count) {
  if (!p->split) return 1;
  int64_t tiles = attention_tiles(p) * attention_all_units(p),
          keys = ir_form_extent(&p->match->form, p->match->key);
  int64_t ctas = (int64_t)sm_count * p->split;
  if (p->merge > 2) ctas = ctas * ATTENTION_CLUSTERS_HELD / ATTENTION_CLUSTERS_OF;
  int64_t each = ctas / attention_ctas(p) / (tiles > 1 ? tiles : 1),
          block = (int64_t)p->block_n * attention_steps_at_once(p) * p->merge,
          steps = (keys + block - 1) / block;
  if (each > steps) each = steps;
  return each > 1 ? each : 1;
}

int attention_step_bytes(const attention_plan *p) {
  return p->k_stage_bytes + (p->values_are_keys ? 0 : p->v.bytes);
}

int attention_steps_at_once(const attention_plan *p) {
  return p->exchange ? 2 : 1;
}

bool attention_has_origin(const attention_plan *p) {
  return p->masked || attention_has_runs(p);
}

bool attention_converts(const attention_plan *p) {
  return p->copied_k.stages + p->copied_v.stages > 0;
}

int attention_producer_registers(const attention_plan *p) {
  if (p->gathered) return p->consumers == 2 ? 72 : 80;
  bool searches = p->packed || p->page;
  if (attention_converts(p)) return searches ? converting_producer_registers[p->consumers] : 56;
  if (searches) return p->resident > 2 ? 40 : 56;
  if (p->consumers == 1) return 24;
  if (p->consumers == 3) return 32;
  return p->live_registers > 232 ? 24 : 40;
}

/* Threads are started with an equal share of the SM's registers, in steps of 8; consumers have what their
 * producer's group leaves. One consumer is beside another CTA, or has more than it can use. */
int attention_registers(const attention_plan *p) {
  int ctas = p->resident > 2 ? p->resident : p->consumers == 1 ? 2 : 1;
  int each = REGISTERS_PER_SM / (ctas * p->threads) / 8 * 8;
  return (each * (p->consumers + 1) - attention_producer_registers(p)) / p->consumers / 8 * 8;
}

static int common_divisor(int x, int y) {
  return y == 0 ? x : common_divisor(y, x % y);
}

/* Keys of a page in this problem; 0: there are no pages. */
static int page_of(const attention_match *m) {
  const ir_expr *page = m->parts[0].k.page;
  if (!page) return 0;
  int64_t n = page->node == IR_INT ? page->integer : m->form.problem->sizes[page->id];
  return n > MOST_PAGE ? MOST_PAGE : (int)n;
}

/* Weights are exchanged in a panel of keys that values have not, or behind the keys. */
static void set_exchange(attention_plan *p) {
  bool fits = p->k.panels > p->v.panels && p->k.panel_bytes >= WEIGHTS_BYTES;
  p->weights_offset = fits ? p->v.bytes : p->k.bytes;
  p->k_stage_bytes = p->k.bytes + (fits ? 0 : WEIGHTS_BYTES);
}

/* Whether neighbouring tiles of queries do not go through the same keys, or there are none. */
static bool has_unlike_keys(const attention_plan *p) {
  const attention_match *m = p->match;
  bool unlike = p->packed || (p->masked && ir_form_extent(&m->form, m->query) <= p->block_q);
  for (int i = 0; i < m->bounds.n; i++) unlike = unlike || m->bounds.list[i].query != 0;
  return unlike;
}

/* Whether O leaves through the place of its queries: of 8 bits they have one that is large enough. */
static bool is_copied(const attention_plan *p) {
  const ir_access *o = &p->match->form.accesses[p->match->o];
  dtype stored = ir_tensor_dtype(p->match->form.problem, o->tensor);
  return (stored == DTYPE_BF16 || stored == DTYPE_F16) && o->n <= GEN_TMA_MAX_RANK &&
         (p->narrow || p->v.panels <= p->q.panels) && !attention_has_runs(p);
}

static void set_copied(attention_plan *p, int stages) {
  attention_copied none = {0};
  bool keys = !p->narrow && attention_has_narrow_keys(p->match),
       values = !p->values_are_keys && attention_has_narrow_values(p->match);
  p->copied_k = p->copied_v = none;
  if (keys) p->copied_k = (attention_copied){stages, attention_tile_make_of(p->block_n, p->k.columns, 1)};
  if (values) p->copied_v = (attention_copied){stages, attention_tile_make_of(p->block_n, p->v.columns, 1)};
}

/* Where everything lies in shared memory. */
static template_reason place(attention_plan *p, const target *t) {
  int available = t->smem_per_block_bytes - STATIC_SMEM_BYTES;
  if (p->gathered) available -= attention_seen_bytes(p);
  if (p->exchange) available -= attention_exchanged_bytes();
  p->copied = is_copied(p);
  p->q_stage_bytes = p->q.bytes;
  if (p->copied && p->v.panels > p->q.panels) p->q_stage_bytes = p->v.panels * p->q.panel_bytes;
  int steps = p->stages * attention_step_bytes(p) + p->copied_k.stages * p->copied_k.tile.bytes +
              p->copied_v.stages * p->copied_v.tile.bytes;
  int shared = p->resident ? p->resident : 2;
  int share = available / shared - 2 * STATIC_SMEM_BYTES;
  if (!p->resident) p->resident = p->consumers == 1 && steps + p->q_stage_bytes <= share ? 2 : 1;
  int most = p->resident > 1 ? share : available;
  p->q_stages = p->persistent && steps + 2 * p->q_stage_bytes <= most ? 2 : 1;
  p->smem_bytes = p->q_stages * p->q_stage_bytes + steps;
  if (p->merge > 1 && p->smem_bytes < attention_merged_bytes(p)) p->smem_bytes = attention_merged_bytes(p);
  return p->smem_bytes > most ? TEMPLATE_SHARED_MEMORY : TEMPLATE_OK;
}

template_reason attention_check_numbers(const config *c) {
  const int *v = c->values;
  bool alone = v[ATTENTION_CONSUMERS] == 1, later = v[ATTENTION_OVERLAP] == 1 || v[ATTENTION_OVERLAP] == 2;
  if (v[ATTENTION_CTAS] && !alone) return TEMPLATE_SCHEDULE;
  if (v[ATTENTION_CTAS] && v[ATTENTION_MERGE] > 1) return TEMPLATE_SCHEDULE;
  if (v[ATTENTION_TURNS] && alone) return TEMPLATE_SCHEDULE;
  if ((v[ATTENTION_SPLIT] || v[ATTENTION_MERGE] > 1) && v[ATTENTION_PERSISTENT]) return TEMPLATE_SCHEDULE;
  /* The stage of values is held while the next step's keys come. */
  return later && v[ATTENTION_STAGES] < 2 ? TEMPLATE_STAGES : TEMPLATE_OK;
}

template_reason attention_plan_make(const attention_match *m, const target *t, const config *c,
                                    attention_plan *plan) {
  const int *v = c->values;
  int wide = (int)ir_form_extent(&m->form, m->wide), halves = wide > ATTENTION_HALVES_FROM ? 2 : 1;
  *plan = (attention_plan){.match = m,
                           .consumers = v[ATTENTION_CONSUMERS],
                           .block_m = 64 * v[ATTENTION_CONSUMERS] / halves,
                           .halves = halves,
                           .sum_columns = wide / halves,
                           .block_n = v[ATTENTION_BLOCK_N],
                           .stages = v[ATTENTION_STAGES],
                           .hold_q = v[ATTENTION_HOLD_Q],
                           .cluster = v[ATTENTION_CLUSTER],
                           .group = v[ATTENTION_GROUP],
                           .turns = v[ATTENTION_TURNS],
                           .overlap = v[ATTENTION_OVERLAP] == 1 || v[ATTENTION_OVERLAP] == 2,
                           .exchange = v[ATTENTION_OVERLAP] == 3,
                           .late_wait = v[ATTENTION_OVERLAP] == 2,
                           .persistent = v[ATTENTION_PERSISTENT],
                           .split = v[ATTENTION_SPLIT],
                           .merge = v[ATTENTION_MERGE],
                           .masked = m->bounds.n > 0,
                           .narrow = attention_has_narrow_queries(m),
                           .packed = m->groups.of != NULL,
                           .page = page_of(m),
                           .threads = 128 * (v[ATTENTION_CONSUMERS] + 1)};
  template_reason reason = attention_check_numbers(c);
  if (reason != TEMPLATE_OK) return reason;
  if (attention_has_runs(plan) && plan->packed) return TEMPLATE_SCHEDULE;
  plan->resident = v[ATTENTION_CTAS];
  int depth = set_parts(m, plan);
  /* CTAs that share loads go through the same keys: of neighbouring queries all of them, else of heads. */
  plan->gathered = m->v.keys == ATTENTION_KEYS_ANY;
  bool alone = plan->page || plan->gathered;
  if (plan->cluster > 1 && (alone || plan->merge > 1)) return TEMPLATE_CLUSTER;
  if (attention_ctas(plan) > 1 && !t->has.clusters) return TEMPLATE_CLUSTER;
  if (plan->gathered && attention_gathered_rows(plan) > ATTENTION_GATHERED_ROWS) return TEMPLATE_TILE;
  plan->block_q = plan->block_m / v[ATTENTION_PACK];
  int spread = has_unlike_keys(plan) ? plan->cluster : 1;
  if (!attention_pack_make(m, v[ATTENTION_PACK], spread, &plan->pack)) return TEMPLATE_TILE;
  for (int i = 0; i < m->bounds.n; i++)
    plan->ends = plan->ends || (m->bounds.list[i].upper && m->bounds.list[i].query == 0 && !plan->gathered);
  plan->box_n = plan->page ? common_divisor(plan->page, plan->block_n) : plan->block_n / plan->cluster;
  if (plan->page && (plan->box_n % 8 || plan->block_n / plan->box_n > ATTENTION_MOST_BOXES))
    return TEMPLATE_TILE;
  if (halves == 2 && (plan->consumers != 2 || plan->hold_q)) return TEMPLATE_REGISTERS;
  if (plan->exchange && (halves < 2 || plan->turns || !plan->values_are_keys)) return TEMPLATE_SCHEDULE;
  if (plan->exchange && plan->block_n > MOST_EXCHANGED) return TEMPLATE_TILE;
  /* The stage of values is held while the next step's keys come. */
  if (plan->values_are_keys && plan->stages < 2) return TEMPLATE_STAGES;
  if (plan->threads > t->max_threads_per_block) return TEMPLATE_THREADS;
  plan->score_runs = plan->narrow && depth > ATTENTION_RUN_COLUMNS ? ATTENTION_SCORE_RUNS : 1;
  plan->live_registers =
      plan->sum_columns / 2 + plan->score_runs * plan->block_n / 2 + plan->block_n / 4 + OVERHEAD_REGISTERS;
  int bytes = plan->narrow ? 1 : 2;
  if (plan->hold_q) plan->live_registers += depth * bytes / 8;
  plan->q = attention_tile_make_of(plan->block_m, depth, bytes);
  plan->k = attention_tile_make_of(plan->block_n, depth, bytes);
  plan->v = attention_tile_make(plan->block_n, wide);
  set_copied(plan, MOST_COPIED);
  if (plan->live_registers > attention_registers(plan)) return TEMPLATE_REGISTERS;
  if (plan->hold_q && depth > ATTENTION_HELD_DEPTH) return TEMPLATE_REGISTERS;
  plan->k_stage_bytes = plan->k.bytes;
  if (plan->exchange) set_exchange(plan);
  reason = place(plan, t);
  if (reason == TEMPLATE_SHARED_MEMORY && attention_converts(plan)) {
    plan->resident = v[ATTENTION_CTAS];
    set_copied(plan, 1);
    reason = place(plan, t);
  }
  if (reason != TEMPLATE_OK) return reason;
  plan->wide_offsets = m->wide_offsets;
  plan->scores = (lanes_options){.loop = -1, .width = 1, .wide_offsets = plan->wide_offsets};
  plan->epilogue = (lanes_options){.loop = m->wide, .width = 2, .wide_offsets = plan->wide_offsets};
  plan->epilogue.wide = m->wide_pairs;
  plan->makes_queries = attention_makes_queries(m);
  if (plan->makes_queries) plan->queries = attention_query_lanes(m, plan->wide_offsets);
  plan->combine = plan->epilogue;
  plan->combine.width = ATTENTION_COMBINE_WIDTH;
  plan->combine.wide = m->wide_runs;
  int64_t runs = attention_runs(plan, (int)t->rates.sm_count);
  plan->team = 1;
  while (plan->team < 32 && plan->team * ATTENTION_COMBINE_RUNS < runs) plan->team *= 2;
  return TEMPLATE_OK;
}
