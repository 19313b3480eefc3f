/* The tiling space of scatters, its cost, and a small problem for each point. */
#include "templates/map.h"
#include "templates/scatter.h"
#include "templates/scatter_rows.h"

#define X(NAME, meaning, ...)                                                                                \
  [SCATTER_##NAME] = {#NAME, meaning, (int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int)), {__VA_ARGS__}},
static const space_param params[SCATTER_N_PARAMS] = {SCATTER_PARAMS(X)};
#undef X
static const space scatter_space = {"scatter", SCATTER_N_PARAMS, params};

const space *scatter_space_of(const target *t) {
  (void)t;
  return &scatter_space;
}

/* Feasible for every part; REDUNDANT where a simpler point does the same for all of them. */
static template_reason check_parts(const scatter_match *m, const target *t, const config *c) {
  bool wider = false, collides = false, unrolled = false;
  for (int i = 0; i < m->n_parts; i++) {
    scatter_plan plan;
    template_reason reason = scatter_make_plan(&m->parts[i], t, c, true, c->values[SCATTER_VECTOR], &plan);
    if (reason != TEMPLATE_OK) return reason;
    wider = wider || plan.width == c->values[SCATTER_VECTOR];
    collides = collides || m->parts[i].collides;
    unrolled =
        unrolled || (!plan.deterministic && scatter_positions(&plan) >= 32 * c->values[SCATTER_UNROLL]);
  }
  bool idle = (c->values[SCATTER_VECTOR] > 1 && !wider) || (c->values[SCATTER_UNROLL] > 1 && !unrolled) ||
              (c->values[SCATTER_DETERMINISTIC] && !collides);
  return idle ? TEMPLATE_REDUNDANT : TEMPLATE_OK;
}

/* The same for the kernel that takes rows; sums in an order of their own are no deterministic ones. */
static template_reason check_rows(const scatter_match *m, arena *a, const target *t, const config *c) {
  scatter_rows_match rows;
  scatter_rows_plan plan;
  if (!scatter_rows_match_make(m, a, &rows)) return TEMPLATE_SCHEDULE;
  if (c->values[SCATTER_DETERMINISTIC] && !rows.in_order) return TEMPLATE_SCHEDULE;
  template_reason reason = scatter_rows_plan_make(&rows, t, c, &plan);
  if (reason != TEMPLATE_OK) return reason;
  int64_t elements = ir_form_extent(&rows.first, rows.along);
  bool idle = plan.unroll > 1 && elements <= (int64_t)plan.threads * plan.width * (plan.unroll / 2);
  return plan.width < c->values[SCATTER_VECTOR] || idle ? TEMPLATE_REDUNDANT : TEMPLATE_OK;
}

template_reason scatter_feasible(const ir_problem *p, const target *t, const config *c) {
  arena a = ARENA_INIT;
  scatter_match m;
  template_reason reason = scatter_match_make(p, &a, &m, NULL, NULL);
  if (reason == TEMPLATE_OK && m.has_initial) reason = map_fits(&m.initial, t, NULL);
  if (reason == TEMPLATE_OK) reason = check_parts(&m, t, c);
  if (c->values[SCATTER_ROWS] && (reason == TEMPLATE_OK || reason == TEMPLATE_REDUNDANT))
    reason = check_rows(&m, &a, t, c);
  bool must = scatter_must_be_deterministic(p), does = c->values[SCATTER_DETERMINISTIC];
  if (reason == TEMPLATE_OK || reason == TEMPLATE_REDUNDANT) {
    bool collides = false;
    for (int i = 0; i < m.n_parts; i++) collides = collides || m.parts[i].collides;
    if (must && !does && collides) reason = TEMPLATE_SCHEDULE;
    if (!must && does) reason = TEMPLATE_REDUNDANT; /* the order costs time: only a person asks for it */
  }
  arena_release(&a);
  return reason;
}

static bool starts(const ir_problem *p, const target *t, const config *c) {
  return scatter_feasible(p, t, c) == TEMPLATE_OK;
}

/* Rows where they can be had and are enough for the device, as wide as they allow. */
static void rows_defaults(const ir_problem *p, const target *t, config *c) {
  config rows = *c;
  int *v = rows.values;
  v[SCATTER_ROWS] = 1;
  for (v[SCATTER_VECTOR] = 16; v[SCATTER_VECTOR] >= 1; v[SCATTER_VECTOR] /= 2) {
    for (v[SCATTER_UNROLL] = 4; v[SCATTER_UNROLL] >= 1; v[SCATTER_UNROLL] /= 2) {
      if (!starts(p, t, &rows)) continue;
      if (scatter_cost_ns(p, t, &t->rates, &rows) < scatter_cost_ns(p, t, &t->rates, c)) *c = rows;
      return;
    }
  }
}

void scatter_defaults(const ir_problem *p, const target *t, config *c) {
  int *v = c->values;
  *c = (config){.values = {[SCATTER_THREADS] = 256,
                           [SCATTER_VECTOR] = 8,
                           [SCATTER_UNROLL] = 1,
                           [SCATTER_DETERMINISTIC] = scatter_must_be_deterministic(p)}};
  if (v[SCATTER_DETERMINISTIC] && scatter_feasible(p, t, c) == TEMPLATE_REDUNDANT) {
    v[SCATTER_DETERMINISTIC] = 0; /* nothing collides */
    if (scatter_feasible(p, t, c) == TEMPLATE_SCHEDULE) v[SCATTER_DETERMINISTIC] = 1;
  }
  while (v[SCATTER_VECTOR] > 1 && !starts(p, t, c)) v[SCATTER_VECTOR] /= 2;
  rows_defaults(p, t, c);
}

/* What is written first, as the map template reckons it; then reads of the part, and a sector of memory read
 * and written for each element that does not lie beside the next. */
static const double sector_bytes = 32, kernel_ns = 1500, step_ns = 40;

static double part_ns(const scatter_part *part, const scatter_plan *plan, const target_rates *rates,
                      const config *c) {
  const ir_form *form = plan->form;
  double points = (double)scatter_positions(plan) * plan->width * (double)scatter_steps(plan), bytes = 0;
  for (int i = 0; i < form->n_accesses; i++) {
    dtype t = ir_tensor_dtype(form->problem, form->accesses[i].tensor);
    bool is_output = form->problem->op->tensors[form->accesses[i].tensor].role == IR_OUTPUT;
    bool beside = plan->lane >= 0 && ir_form_motion(form, i, plan->lane) == IR_MOTION_UNIT;
    double each = dtype_bits(t) / 8.0;
    if (!beside && is_output) each = 2 * sector_bytes;
    if (beside && is_output && part->collides) each *= 2;
    bytes += each * points;
  }
  double narrow = plan->width * plan->unroll >= 4 ? 1 : 1.15;
  double ns = bytes / rates->dram_bytes_per_s * 1e9 * narrow;
  if (plan->deterministic) {
    double threads = (double)scatter_positions(plan) * plan->owners;
    double rounds = threads / ((double)rates->sm_count * 2048);
    ns += (rounds < 1 ? 1 : rounds) * (double)scatter_steps(plan) * step_ns;
  }
  (void)c;
  return ns + kernel_ns;
}

double scatter_cost_ns(const ir_problem *p, const target *t, const target_rates *rates, const config *c) {
  arena a = ARENA_INIT;
  scatter_match m;
  double ns = rates->launch_ns;
  if (scatter_match_make(p, &a, &m, NULL, NULL) == TEMPLATE_OK) {
    scatter_rows_match rows;
    scatter_rows_plan one;
    bool by_rows = c->values[SCATTER_ROWS] && scatter_rows_match_make(&m, &a, &rows) &&
                   scatter_rows_plan_make(&rows, t, c, &one) == TEMPLATE_OK;
    if (by_rows) ns = scatter_rows_cost_ns(&one, rates);
    if (m.has_initial && !by_rows) {
      config map;
      map_defaults(&m.initial, t, &map);
      ns = map_cost_ns(&m.initial, t, rates, &map);
    }
    for (int i = 0; i < m.n_parts && !by_rows; i++) {
      scatter_plan plan;
      if (scatter_make_plan(&m.parts[i], t, c, true, c->values[SCATTER_VECTOR], &plan) == TEMPLATE_OK)
        ns += part_ns(&m.parts[i], &plan, rates, c);
    }
  }
  arena_release(&a);
  return ns;
}

/* The largest power of two, up to 16, that divides x: what alignment depends on. */
static int64_t evenness(int64_t x) {
  int64_t e = 1;
  while (e < 16 && x > 0 && x % (2 * e) == 0) e *= 2;
  return e;
}

/* Rows of more than a turn of the CTA's threads, and as many updates. */
static void reduce_rows(const ir_problem *p, const target *t, const config *c, ir_problem *reduced) {
  arena a = ARENA_INIT;
  scatter_match m;
  scatter_rows_match rows;
  scatter_rows_plan plan;
  if (scatter_match_make(p, &a, &m, NULL, NULL) == TEMPLATE_OK && scatter_rows_match_make(&m, &a, &rows) &&
      scatter_rows_plan_make(&rows, t, c, &plan) == TEMPLATE_OK) {
    int64_t turn = (int64_t)plan.threads * plan.unroll;
    for (int i = 0; i < rows.n_rows; i++) ir_form_set_extent(&rows.first, rows.row_first[i], 2, reduced);
    for (int i = 0; i < rows.n_points; i++)
      ir_form_set_extent(rows.then, rows.points[i], i == rows.n_points - 1 ? turn + 3 : 2, reduced);
    ir_form_set_extent(&rows.first, rows.along, turn * plan.width + 3 * plan.width, reduced);
  }
  arena_release(&a);
}

void scatter_reduced_problem(const ir_problem *p, const target *t, const config *c, int sm_count,
                             ir_problem *reduced) {
  (void)sm_count;
  *reduced = *p;
  for (int i = 0; i < p->op->n_axes; i++) {
    int64_t e = evenness(p->sizes[i]), most = 48 + e;
    if (reduced->sizes[i] > most) reduced->sizes[i] = most;
  }
  for (int i = 0; i < p->lead_rank; i++) reduced->lead[i] = p->lead[i] < 3 ? p->lead[i] : 3;
  if (c->values[SCATTER_ROWS]) reduce_rows(p, t, c, reduced);
}
