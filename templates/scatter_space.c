/* The tiling space of scatters, its cost, and a small problem for each point. */
#include "ir/ir_bounds.h"
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

/* What is written first, as the map template reckons it; then reads of the part, and a sector of memory read
 * and written for each element that does not lie beside the next. */
static const double sector_bytes = 32, kernel_ns = 1500, step_ns = 40;

static double part_ns(const scatter_part *part, const scatter_plan *plan, const target *t,
                      const target_rates *rates) {
  const ir_form *form = plan->form;
  double points = (double)scatter_positions(plan) * plan->width * (double)scatter_steps(plan), bytes = 0;
  for (int i = 0; i < form->n_accesses; i++) {
    dtype type = ir_tensor_dtype(form->problem, form->accesses[i].tensor);
    bool is_output = form->problem->op->tensors[form->accesses[i].tensor].role == IR_OUTPUT;
    bool beside = plan->lane >= 0 && ir_form_motion(form, i, plan->lane) == IR_MOTION_UNIT;
    double each = dtype_bits(type) / 8.0;
    if (!beside && is_output) each = 2 * sector_bytes;
    if (beside && is_output && part->collides) each *= 2;
    bytes += each * points;
  }
  double narrow = plan->width * plan->unroll >= 4 ? 1 : 1.15;
  double ns = bytes / rates->dram_bytes_per_s * 1e9 * narrow;
  if (plan->deterministic) {
    double threads = (double)scatter_positions(plan) * plan->owners;
    double rounds = threads / ((double)rates->sm_count * t->max_threads_per_sm);
    ns += (rounds < 1 ? 1 : rounds) * (double)scatter_steps(plan) * step_ns;
  }
  return ns + kernel_ns;
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
static template_reason check_rows(const scatter_rows_match *rows, const target *t, const config *c,
                                  scatter_rows_plan *plan) {
  if (!rows) return TEMPLATE_SCHEDULE;
  if (c->values[SCATTER_DETERMINISTIC] && !rows->in_order) return TEMPLATE_SCHEDULE;
  template_reason reason = scatter_rows_plan_make(rows, t, c, plan);
  if (reason != TEMPLATE_OK) return reason;
  int64_t elements = ir_form_extent(&rows->first, rows->along);
  bool idle = plan->unroll > 1 && elements <= (int64_t)plan->threads * plan->width * (plan->unroll / 2);
  return plan->width < c->values[SCATTER_VECTOR] || idle ? TEMPLATE_REDUNDANT : TEMPLATE_OK;
}

typedef struct prepared {
  scatter_match m;
  template_reason reason;
  scatter_rows_match rows;
  bool has_rows, must, collides; /* must: be deterministic */
  config initial;                /* of the map that comes first */
  const void *initial_prepared;
} prepared;

const void *scatter_prepare(const ir_problem *p, const target *t, arena *a) {
  arke_status status = ARKE_OK;
  prepared *made = ARENA_NEW(a, prepared);
  if (!made) return NULL;
  made->reason = scatter_match_make(p, a, &made->m, NULL, &status);
  if (status != ARKE_OK) return NULL;
  const scatter_match *m = &made->m;
  if (made->reason == TEMPLATE_OK && m->has_initial) made->reason = map_fits(&m->initial, t, NULL);
  if (made->reason != TEMPLATE_OK) return made;
  made->has_rows = scatter_rows_match_make(m, a, &made->rows);
  made->must = scatter_must_be_deterministic(p);
  for (int i = 0; i < m->n_parts; i++) made->collides = made->collides || m->parts[i].collides;
  if (!m->has_initial) return made;
  map_defaults(&m->initial, t, &made->initial);
  made->initial_prepared = map_prepare(&m->initial, t, a);
  return made->initial_prepared ? made : NULL;
}

static double parts_ns(const prepared *made, const target *t, const target_rates *rates, const config *c) {
  double ns = rates->launch_ns;
  if (made->m.has_initial) map_judge(made->initial_prepared, t, rates, &made->initial, &ns);
  for (int i = 0; i < made->m.n_parts; i++) {
    const scatter_part *part = &made->m.parts[i];
    scatter_plan plan;
    if (scatter_make_plan(part, t, c, true, c->values[SCATTER_VECTOR], &plan) == TEMPLATE_OK)
      ns += part_ns(part, &plan, t, rates);
  }
  return ns;
}

template_reason scatter_judge(const void *of, const target *t, const target_rates *rates, const config *c,
                              double *ns) {
  const prepared *made = of;
  scatter_rows_plan rows;
  bool by_rows = c->values[SCATTER_ROWS], does = c->values[SCATTER_DETERMINISTIC];
  template_reason reason = made->reason;
  if (reason == TEMPLATE_OK) reason = check_parts(&made->m, t, c);
  if (by_rows && template_is_built(reason))
    reason = check_rows(made->has_rows ? &made->rows : NULL, t, c, &rows);
  if (!template_is_built(reason)) return reason;
  if (made->must && !does && made->collides) return TEMPLATE_SCHEDULE;
  if (!made->must && does) reason = TEMPLATE_REDUNDANT; /* the order costs time: only a person asks for it */
  *ns = by_rows ? scatter_rows_cost_ns(&rows, t, rates) : parts_ns(made, t, rates, c);
  return reason;
}

/* Rows where they can be had and are enough for the device, as wide as they allow. */
static void rows_defaults(const void *made, const target *t, config *c) {
  config rows = *c;
  int *v = rows.values;
  v[SCATTER_ROWS] = 1;
  for (v[SCATTER_VECTOR] = 16; v[SCATTER_VECTOR] >= 1; v[SCATTER_VECTOR] /= 2) {
    for (v[SCATTER_UNROLL] = 4; v[SCATTER_UNROLL] >= 1; v[SCATTER_UNROLL] /= 2) {
      double ns, before;
      if (scatter_judge(made, t, &t->rates, &rows, &ns) != TEMPLATE_OK) continue;
      if (!template_is_built(scatter_judge(made, t, &t->rates, c, &before)) || ns < before) *c = rows;
      return;
    }
  }
}

void scatter_defaults(const ir_problem *p, const target *t, config *c) {
  arena a = ARENA_INIT;
  const void *made = scatter_prepare(p, t, &a);
  int *v = c->values;
  double ns;
  *c = (config){.values = {[SCATTER_THREADS] = 256,
                           [SCATTER_VECTOR] = 8,
                           [SCATTER_UNROLL] = 1,
                           [SCATTER_DETERMINISTIC] = scatter_must_be_deterministic(p)}};
  if (made) {
    if (v[SCATTER_DETERMINISTIC] && scatter_judge(made, t, &t->rates, c, &ns) == TEMPLATE_REDUNDANT) {
      v[SCATTER_DETERMINISTIC] = 0; /* nothing collides */
      if (scatter_judge(made, t, &t->rates, c, &ns) == TEMPLATE_SCHEDULE) v[SCATTER_DETERMINISTIC] = 1;
    }
    while (v[SCATTER_VECTOR] > 1 && scatter_judge(made, t, &t->rates, c, &ns) != TEMPLATE_OK)
      v[SCATTER_VECTOR] /= 2;
    rows_defaults(made, t, c);
  }
  arena_release(&a);
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

/* Whether what is written lies inside. */
static bool writes_inside(const ir_problem *p) {
  for (int i = 0; i < p->op->n_definitions; i++)
    if (ir_writes_check(p, &p->op->definitions[i], NULL) != ARKE_OK) return false;
  return true;
}

/* Sizes may depend on one another: parts that lie one behind the other fill an axis of the output. Makes
 * those axes as long as the others, which are short, want them. */
static void fit_outputs(const ir_problem *p, ir_problem *reduced) {
  ir_problem least = *reduced;
  if (writes_inside(reduced)) return;
  for (int pass = 0; pass < 2; pass++) {
    for (int t = p->op->n_inputs; t < p->op->n_args; t++) {
      for (int d = 0; d < p->op->tensors[t].rank; d++) {
        int axis = p->op->tensors[t].dims[d].axis;
        if (axis < 0) continue;
        int64_t *size = &reduced->sizes[axis], low = least.sizes[axis], high = p->sizes[axis];
        *size = high;
        while (pass == 1 && low < high) {
          *size = low + (high - low) / 2;
          if (writes_inside(reduced)) {
            high = *size;
          } else {
            low = *size + 1;
          }
        }
        *size = high;
      }
    }
  }
  if (!writes_inside(reduced)) *reduced = *p;
}

void scatter_reduced_problem(const ir_problem *p, const target *t, const config *c, int sm_count,
                             ir_problem *reduced) {
  (void)sm_count;
  *reduced = *p;
  for (int i = 0; i < p->op->n_axes; i++) {
    int64_t most = 48 + evenness(p->sizes[i]);
    if (reduced->sizes[i] > most) reduced->sizes[i] = most;
  }
  fit_outputs(p, reduced);
  for (int i = 0; i < p->lead_rank; i++) reduced->lead[i] = p->lead[i] < 3 ? p->lead[i] : 3;
  if (c->values[SCATTER_ROWS]) reduce_rows(p, t, c, reduced);
}
