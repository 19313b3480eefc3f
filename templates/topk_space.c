/* The tiling space of top-k: what a configuration is, when it can run, where to start. */
#include <math.h>

#include "templates/topk.h"

#define VALUES(...)                                                                                          \
  { __VA_ARGS__ }
#define VALUE_COUNT(...) ((int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int)))

static const space_param params[] = {
#define X(NAME, meaning, ...) {#NAME, meaning, VALUE_COUNT(__VA_ARGS__), VALUES(__VA_ARGS__)},
    TOPK_PARAMS(X)
#undef X
};

static const space topk_space = {"topk", TOPK_PARAM_COUNT, params};

const space *topk_space_of(const target *t) {
  (void)t;
  return &topk_space;
}

/* Registers of a thread beside its elements: the list, exchanges, addresses. */
enum { OVERHEAD_REGISTERS = 48, WIDEST_ACCESS_BITS = 128, SMALLEST_BUFFER = 2048, MERGING_THREADS = 256 };

int64_t topk_rows(const topk_match *m) {
  int64_t rows = 1;
  for (int i = 0; i < m->n_outer; i++) {
    int64_t n = ir_form_extent(&m->form, m->outer[i]);
    rows = rows > INT32_MAX ? rows : rows * n;
  }
  return rows;
}

int topk_step(const topk_plan *p) {
  return p->sharers * p->vector * p->strips;
}

topk_layout topk_layout_of(const topk_plan *p) {
  int each = topk_item_bytes(p->wide_item);
  topk_layout l = {0};
  if (p->select != TOPK_BY_BUFFER) {
    /* When 31 wait, 32 vectors may pass whole, or a whole step. */
    l.queue = (TOPK_LIST + 32 * p->vector) * each;
    l.waiting_bytes = l.queue + (TOPK_LIST + 32 * p->strips) * 4;
    l.bytes = p->warps * l.waiting_bytes;
    return l;
  }
  l.spare = p->buffer * each;
  l.bins = l.spare + p->keep * each;
  l.found = l.bins + 256 * 4;
  l.count = l.found + 12;
  l.bytes = l.count + 4;
  return l;
}

/* The widest element that a candidate is made of. */
static int widest_bits(const topk_match *m) {
  const ir_problem *p = m->form.problem;
  int most = 8;
  for (int i = 0; i < p->op->n_inputs; i++) {
    int bits = dtype_bits(ir_tensor_dtype(p, i));
    if (bits > most) most = bits;
  }
  return most;
}

template_reason topk_plan_make(const topk_match *match, const target *t, const config *c, topk_plan *plan) {
  static const gen_cache caches[] = {GEN_CACHE_DEFAULT, GEN_CACHE_STREAM, GEN_CACHE_EVICT_FIRST};
  const int *v = c->values;
  int64_t winners = ir_form_extent(&match->form, match->rank), rows = topk_rows(match);
  *plan = (topk_plan){.match = match,
                      .threads = v[TOPK_THREADS],
                      .warps = v[TOPK_THREADS] / 32,
                      .vector = v[TOPK_VECTOR],
                      .strips = v[TOPK_STRIPS],
                      .select = (topk_way)v[TOPK_SELECT],
                      .split = v[TOPK_SPLIT],
                      .buffer = v[TOPK_BUFFER],
                      .keep = TOPK_LIST,
                      .wide_item = topk_is_wide(match),
                      .resident = v[TOPK_RESIDENT],
                      .loads = caches[v[TOPK_STREAM]]};
  while (plan->keep < winners) plan->keep *= 2;
  plan->sharers = plan->select == TOPK_BY_WARP ? 32 : plan->threads;
  if (plan->threads > t->max_threads_per_block) return TEMPLATE_THREADS;
  if (plan->vector * widest_bits(match) > WIDEST_ACCESS_BITS) return TEMPLATE_TILE;
  if (ir_form_extent(&match->form, match->along) % plan->vector) return TEMPLATE_ALIGNMENT;
  int registers = t->registers_per_sm / plan->threads;
  if (registers > t->max_registers_per_thread) registers = t->max_registers_per_thread;
  int each = plan->wide_item ? 3 : 2;
  if (plan->vector * (plan->strips + each) + OVERHEAD_REGISTERS > registers) return TEMPLATE_REGISTERS;
  if (plan->select == TOPK_BY_BUFFER) {
    /* A step may pass whole beside the winners; and a thread sorts a few items at most. */
    if (plan->keep + topk_step(plan) > plan->buffer || plan->keep > 8 * plan->threads) return TEMPLATE_TILE;
  } else {
    if (winners > TOPK_LIST) return TEMPLATE_TILE;
    if (plan->select == TOPK_BY_WARP && plan->split > 1) return TEMPLATE_TILE;
  }
  if (topk_layout_of(plan).bytes > t->smem_per_block_bytes) return TEMPLATE_SHARED_MEMORY;
  return rows > INT32_MAX / plan->split ? TEMPLATE_SIZE : TEMPLATE_OK;
}

topk_plan topk_merging_plan(const topk_plan *plan) {
  topk_plan merge = *plan;
  merge.split = 1;
  merge.vector = merge.strips = 1;
  merge.resident = 0;
  if (plan->select != TOPK_BY_BUFFER) {
    merge.threads = plan->threads < MERGING_THREADS ? plan->threads : MERGING_THREADS;
    merge.warps = merge.threads / 32;
    merge.sharers = merge.threads;
  }
  return merge;
}

/* Whether so many threads on an SM leave each fewer registers than it would take, and not so few that the
 * assembler spills. */
static bool is_a_crowd(const topk_plan *p, const target *t) {
  double own = (double)t->registers_per_sm / p->resident, needed = topk_registers(p);
  return p->resident % p->threads == 0 && p->resident <= t->max_threads_per_sm && own < needed &&
         own > 0.6 * needed;
}

/* Whether a simpler configuration does the same. */
static bool redundant(const topk_plan *p, const target *t) {
  if (p->resident && !is_a_crowd(p, t)) return true;
  int64_t size = ir_form_extent(&p->match->form, p->match->along);
  if (p->select != TOPK_BY_BUFFER && p->buffer != SMALLEST_BUFFER) return true;
  if (p->select == TOPK_BY_LISTS && p->warps == 1 && p->split == 1) return true; /* a warp */
  int64_t part = (size + p->split - 1) / p->split;
  if (p->split > 1 && part < p->sharers * p->vector) return true; /* threads without an element */
  return p->strips > 1 && part <= topk_step(p) / 2;
}

typedef struct topk_prepared {
  template_reason reason;
  topk_match match;
} topk_prepared;

const void *topk_prepare(const ir_problem *p, const target *t, arena *a) {
  arke_error err = ARKE_ERROR_INIT;
  topk_prepared *of = ARENA_NEW(a, topk_prepared);
  if (of) of->reason = topk_fit(p, t, a, &of->match, NULL, &err);
  return of;
}

template_reason topk_judge(const void *prepared, const target *t, const target_rates *rates, const config *c,
                           double *ns) {
  const topk_prepared *of = prepared;
  topk_plan plan;
  template_reason reason = of->reason;
  if (reason == TEMPLATE_OK) reason = topk_plan_make(&of->match, t, c, &plan);
  if (reason == TEMPLATE_OK && redundant(&plan, t)) reason = TEMPLATE_REDUNDANT;
  if (template_is_built(reason)) *ns = topk_plan_cost_ns(&plan, t, rates);
  return reason;
}

/* The cheapest by the model. */
void topk_defaults(const ir_problem *p, const target *t, config *c) {
  arena a = ARENA_INIT;
  const void *made = topk_prepare(p, t, &a);
  double best = INFINITY;
  *c = (config){{[TOPK_THREADS] = 256,
                 [TOPK_VECTOR] = 1,
                 [TOPK_STRIPS] = 1,
                 [TOPK_SELECT] = TOPK_BY_BUFFER,
                 [TOPK_SPLIT] = 1,
                 [TOPK_BUFFER] = 4096}};
  config point;
  space_point(&topk_space, 0, &point);
  bool more = made != NULL;
  for (; more; more = space_next(&topk_space, &point)) {
    double ns;
    if (topk_judge(made, t, &t->rates, &point, &ns) != TEMPLATE_OK || ns >= best) continue;
    best = ns;
    *c = point;
  }
  arena_release(&a);
}

void topk_reduced_problem(const ir_problem *p, const target *t, const config *c, int sm_count,
                          ir_problem *reduced) {
  (void)sm_count; /* no configuration loops over rows */
  arena a = ARENA_INIT;
  arke_error err = ARKE_ERROR_INIT;
  topk_match match;
  topk_plan plan;
  *reduced = *p;
  if (topk_fit(p, t, &a, &match, NULL, &err) == TEMPLATE_OK) {
    topk_plan_make(&match, t, c, &plan);
    /* Every CTA of a row two steps and a part of one, and enough to fill its buffer. */
    int64_t part = 2 * topk_step(&plan) + plan.sharers * plan.vector / 2;
    if (plan.select == TOPK_BY_BUFFER && part < plan.buffer + topk_step(&plan))
      part = plan.buffer + topk_step(&plan);
    if (plan.split > 2 && part > 1024) part = plan.sharers * plan.vector;
    int64_t size = part * plan.split - part / 2;
    size = size / plan.vector * plan.vector + plan.vector;
    for (int i = 0; i < match.n_outer; i++) {
      bool last = i == match.n_outer - 1;
      ir_form_set_extent(&match.form, match.outer[i],
                         last && plan.select == TOPK_BY_WARP ? plan.warps + 1 : 2, reduced);
    }
    ir_form_set_extent(&match.form, match.along, size, reduced);
  }
  arena_release(&a);
}
