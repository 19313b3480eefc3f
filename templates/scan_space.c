/* The tiling space of scans: what a configuration is, when it can run, where to start. */
#include <math.h>

#include "templates/scan.h"

#define VALUES(...)                                                                                          \
  { __VA_ARGS__ }
#define VALUE_COUNT(...) ((int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int)))

static const space_param params[] = {
#define X(NAME, meaning, ...) {#NAME, meaning, VALUE_COUNT(__VA_ARGS__), VALUES(__VA_ARGS__)},
    SCAN_PARAMS(X)
#undef X
};

static const space scan_space = {"scan", SCAN_PARAM_COUNT, params};

const space *scan_space_of(const target *t) {
  (void)t;
  return &scan_space;
}

/* Registers of a thread beside those of its elements: addresses, indices, shuffles. */
enum { OVERHEAD_REGISTERS = 40 };
enum { WIDEST_ACCESS_BITS = 128, STATIC_SHARED_BYTES = 48 << 10, MEETING_BYTES = 2048 };
/* Grids along x, which the rows are laid out on. */
static const int64_t most_ctas = INT32_MAX;

static int64_t ceildiv(int64_t x, int64_t y) {
  return (x + y - 1) / y;
}

static int widest_bits(const scan_match *m) {
  int most = 8;
  for (int i = 0; i < m->form.n_accesses; i++) {
    int bits = dtype_bits(ir_tensor_dtype(m->form.problem, m->form.accesses[i].tensor));
    if (bits > most) most = bits;
  }
  return most;
}

/* 32-bit registers of an element's prefixes. */
static int prefix_registers(const scan_match *m) {
  int each = 0;
  for (int i = 0; i < m->n_terms; i++) {
    gen_type type = m->terms[i].type;
    each += type == GEN_F64 || type == GEN_I64 ? 2 : 1;
  }
  return each;
}

/* 32-bit registers that hold the elements of a thread: each term's prefixes, and what was loaded. */
int scan_element_registers(const scan_plan *p) {
  int each = prefix_registers(p->match);
  double loaded = 0;
  for (int i = 0; i < p->match->form.n_accesses; i++) {
    const ir_access *a = &p->match->form.accesses[i];
    if (p->match->form.problem->op->tensors[a->tensor].role == IR_INPUT)
      loaded += dtype_bits(ir_tensor_dtype(p->match->form.problem, a->tensor)) / 32.0;
  }
  return (int)((each + loaded) * p->vector * p->strips);
}

/* Rows of one chunk, by several warps, whose meeting tells that a stage is free. */
static template_reason plan_ahead(const scan_match *m, const target *t, scan_plan *p) {
  int64_t stage = scan_stage_bytes(m), shared = p->stages * stage + MEETING_BYTES;
  if (!t->has.tma) return TEMPLATE_TARGET;
  if (p->warps < 2 || ir_form_extent(&m->form, m->along) > p->chunk) return TEMPLATE_TILE;
  if (!scan_can_copy(m)) return TEMPLATE_ALIGNMENT;
  if (shared > t->smem_per_block_bytes) return TEMPLATE_SHARED_MEMORY;
  int registers = OVERHEAD_REGISTERS + prefix_registers(m) * p->vector * p->strips;
  int64_t n = t->registers_per_sm / (registers * p->threads);
  if (n > t->smem_per_block_bytes / shared) n = t->smem_per_block_bytes / shared;
  if (n > t->max_threads_per_sm / p->threads) n = t->max_threads_per_sm / p->threads;
  p->resident = n < 1 ? 1 : (int)n;
  return TEMPLATE_OK;
}

template_reason scan_plan_make(const scan_match *match, const target *t, const config *c, scan_plan *plan) {
  static const gen_cache caches[] = {GEN_CACHE_DEFAULT, GEN_CACHE_STREAM, GEN_CACHE_EVICT_FIRST};
  const int *v = c->values;
  *plan = (scan_plan){.match = match,
                      .threads = v[SCAN_THREADS],
                      .warps = v[SCAN_THREADS] / 32,
                      .vector = v[SCAN_VECTOR],
                      .strips = v[SCAN_STRIPS],
                      .place = (scan_place)v[SCAN_PLACE],
                      .width = 1,
                      .state_words = match->n_terms * scan_words_of(match),
                      .stages = v[SCAN_STAGES],
                      .loads = caches[v[SCAN_STREAM]],
                      .stores = caches[v[SCAN_STREAM]],
                      .wide_offsets = lanes_need_wide_offsets(&match->form)};
  if (plan->threads > t->max_threads_per_block) return TEMPLATE_THREADS;
  if (plan->vector * widest_bits(match) > WIDEST_ACCESS_BITS) return TEMPLATE_TILE;
  int registers = t->registers_per_sm / plan->threads;
  if (registers > t->max_registers_per_thread) registers = t->max_registers_per_thread;
  if (scan_element_registers(plan) + OVERHEAD_REGISTERS > registers) return TEMPLATE_REGISTERS;
  if (match->columns) {
    if (plan->place != SCAN_BY_CTA) return TEMPLATE_TILE; /* warps lie below each other */
    plan->scanners = plan->warps;
    plan->chunk = (int64_t)plan->warps * plan->strips;
    plan->width = 32 * plan->vector;
    if (scan_columns_shared_bytes(plan) > t->smem_per_block_bytes) return TEMPLATE_SHARED_MEMORY;
  } else {
    plan->scanners = plan->place == SCAN_BY_WARP ? 1 : plan->warps;
    plan->chunk = (int64_t)plan->scanners * 32 * plan->vector * plan->strips;
  }
  if (plan->place == SCAN_AHEAD) {
    template_reason reason = plan_ahead(match, t, plan);
    if (reason != TEMPLATE_OK) return reason;
  }
  /* No vector lies partly outside. */
  if (ir_form_extent(&match->form, match->lane) % plan->vector) return TEMPLATE_ALIGNMENT;
  int64_t ctas = scan_owners(plan);
  if (ctas > most_ctas) return TEMPLATE_SIZE;
  if (plan->place == SCAN_LOOK_BACK && scan_chunks(plan) > most_ctas / ctas) return TEMPLATE_SIZE;
  return TEMPLATE_OK;
}

int64_t scan_chunks(const scan_plan *plan) {
  return ceildiv(ir_form_extent(&plan->match->form, plan->match->along), plan->chunk);
}

bool scan_runs_at_once(const scan_plan *plan, const target *t) {
  return plan->place == SCAN_LOOK_BACK && scan_owners(plan) <= t->rates.sm_count / scan_chunks(plan);
}

int64_t scan_owners(const scan_plan *plan) {
  const scan_match *m = plan->match;
  int64_t rows = 1;
  for (int i = 0; i < m->n_outer; i++) {
    int64_t n = ir_form_extent(&m->form, m->outer[i]);
    rows = rows > INT64_MAX / n ? INT64_MAX : rows * n;
  }
  int64_t across = m->columns ? ceildiv(ir_form_extent(&m->form, m->lane), plan->width) : 1;
  return rows > INT64_MAX / across ? INT64_MAX : rows * across;
}

enum { FEWEST_STAGES = 2 };

/* Whether a simpler configuration does the same: threads or strips that have no element. */
static bool redundant(const scan_plan *p) {
  int64_t size = ir_form_extent(&p->match->form, p->match->along);
  if (p->place != SCAN_AHEAD && p->stages != FEWEST_STAGES) return true;
  if (p->place == SCAN_AHEAD && scan_owners(p) <= p->resident) return true; /* a row a CTA, on any device */
  if (p->place == SCAN_BY_WARP && p->warps == 1) return false;
  if (!p->match->columns && p->place == SCAN_BY_CTA && p->warps == 1) return true; /* a warp */
  if (p->strips > 1 && size <= p->chunk / 2) return true;
  if (p->scanners > 1 && size <= p->chunk / 2) return true;
  return p->place == SCAN_LOOK_BACK && scan_chunks(p) == 1;
}

typedef struct prepared {
  template_reason reason;
  scan_match match;
} prepared;

const void *scan_prepare(const ir_problem *p, const target *t, arena *a) {
  arke_error err = ARKE_ERROR_INIT;
  prepared *made = ARENA_NEW(a, prepared);
  if (made) made->reason = scan_fit(p, t, a, &made->match, NULL, &err);
  return made;
}

template_reason scan_judge(const void *of, const target *t, const target_rates *rates, const config *c,
                           double *ns) {
  const prepared *made = of;
  scan_plan plan;
  template_reason reason = made->reason;
  if (reason == TEMPLATE_OK) reason = scan_plan_make(&made->match, t, c, &plan);
  if (reason == TEMPLATE_OK && redundant(&plan)) reason = TEMPLATE_REDUNDANT;
  if (template_is_built(reason)) *ns = scan_plan_cost_ns(&plan, t, rates);
  return reason;
}

/* The cheapest of the space by the model: it is small. */
void scan_defaults(const ir_problem *p, const target *t, config *c) {
  arena a = ARENA_INIT;
  const void *made = scan_prepare(p, t, &a);
  double best = INFINITY;
  *c = (config){{[SCAN_THREADS] = 32,
                 [SCAN_VECTOR] = 1,
                 [SCAN_STRIPS] = 1,
                 [SCAN_PLACE] = SCAN_BY_CTA,
                 [SCAN_STAGES] = FEWEST_STAGES}};
  config point;
  space_point(&scan_space, 0, &point);
  bool more = made != NULL;
  for (; more; more = space_next(&scan_space, &point)) {
    double ns;
    if (scan_judge(made, t, &t->rates, &point, &ns) != TEMPLATE_OK || ns >= best) continue;
    best = ns;
    *c = point;
  }
  arena_release(&a);
}

enum { REDUCED_ELEMENTS = 20000 };

void scan_reduced_problem(const ir_problem *p, const target *t, const config *c, int sm_count,
                          ir_problem *reduced) {
  arena a = ARENA_INIT;
  arke_error err = ARKE_ERROR_INIT;
  scan_match match;
  scan_plan plan;
  *reduced = *p;
  if (scan_fit(p, t, &a, &match, NULL, &err) == TEMPLATE_OK) {
    scan_plan_make(&match, t, c, &plan);
    /* Whole rows are what is compiled in: a few more of them than CTAs have stages. */
    if (plan.place == SCAN_AHEAD) {
      for (int i = 0; i < match.n_outer; i++) {
        int64_t rows = (int64_t)sm_count * plan.resident * plan.stages + 1;
        ir_form_set_extent(&match.form, match.outer[i], i == match.n_outer - 1 ? rows : 1, reduced);
      }
      arena_release(&a);
      return;
    }
    if (scan_runs_at_once(&plan, t)) { /* so must these: a ragged chunk an SM, all of one row */
      for (int i = 0; i < match.n_outer; i++) ir_form_set_extent(&match.form, match.outer[i], 1, reduced);
      int64_t along = sm_count * plan.chunk - plan.chunk / 2;
      if (!match.columns && along > plan.vector) along = along / plan.vector * plan.vector;
      if (match.columns) ir_form_set_extent(&match.form, match.lane, plan.width, reduced);
      ir_form_set_extent(&match.form, match.along, along, reduced);
      arena_release(&a);
      return;
    }
    /* Three chunks, the last one ragged; more than a segment of them where they are small. */
    int64_t chunks = 2;
    if (plan.place == SCAN_LOOK_BACK && plan.chunk * (SCAN_SEGMENT + 3) <= REDUCED_ELEMENTS)
      chunks = SCAN_SEGMENT + 2;
    int64_t size = chunks * plan.chunk + plan.chunk / 2;
    if (!match.columns) size = size / plan.vector * plan.vector + plan.vector;
    for (int i = 0; i < match.n_outer; i++)
      ir_form_set_extent(&match.form, match.outer[i],
                         i == match.n_outer - 1 ? plan.warps / plan.scanners + 2 : 2, reduced);
    if (match.columns) ir_form_set_extent(&match.form, match.lane, plan.width + plan.width / 2, reduced);
    ir_form_set_extent(&match.form, match.along, size, reduced);
  }
  arena_release(&a);
}
