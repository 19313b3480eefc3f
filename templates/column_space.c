/* The tiling space of column reductions, what follows from a point, and a small problem for it. */
#include <math.h>

#include "templates/column.h"
#include "templates/space_descent.h"

#define X(NAME, meaning, ...)                                                                                \
  [COLUMN_##NAME] = {#NAME, meaning, (int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int)), {__VA_ARGS__}},
static const space_param params[COLUMN_N_PARAMS] = {COLUMN_PARAMS(X)};
#undef X
static const space column_space = {"column", COLUMN_N_PARAMS, params};

const space *column_space_of(const target *t) {
  (void)t;
  return &column_space;
}

int64_t column_positions(const column_match *m, int vector) {
  int64_t n = (ir_form_extent(&m->form, m->v) + vector - 1) / vector;
  for (int i = 0; i < m->n_kept; i++) n *= ir_form_extent(&m->form, m->kept[i]);
  return n;
}

int64_t column_rows(const column_match *m) {
  int64_t n = 1;
  for (int i = 0; i < m->n_rows; i++) n *= ir_form_extent(&m->form, m->rows[i]);
  return n;
}

static uint64_t outputs_of(const ir_form *form) {
  uint64_t set = 0;
  for (int o = 0; o < form->n_outputs; o++) set |= UINT64_C(1) << form->outputs[o].access;
  return set;
}

/* Bytes of a column's state, and of the widest element. */
static int state_bytes(const column_match *m) {
  int bytes = 0;
  for (int k = 0; k < m->n_reductions; k++) {
    const reduction *r = &m->reductions[k].r;
    for (int i = 0; i < reduction_values(r); i++) bytes += column_bytes(r, i);
  }
  return bytes;
}

static int element_bytes(const column_match *m) {
  int bytes = 1;
  for (int i = 0; i < m->form.n_accesses; i++) {
    int bits = dtype_bits(ir_tensor_dtype(m->form.problem, m->form.accesses[i].tensor));
    if (bits / 8 > bytes) bytes = bits / 8;
  }
  return bytes;
}

enum {
  MOST_STATE_BYTES = 320,
  MOST_LOADED_BYTES = 256,
  MOST_SHARED_BYTES = 48 * 1024,
  FINISH_THREADS = 256,
  WIDEST_BYTES = 16
};

/* A warp combines its own rows first. */
static void share(column_plan *p) {
  p->down = p->threads / p->across;
  p->groups = p->across < 32 ? p->threads / 32 : p->down;
  p->smem_bytes = p->groups > 1 || p->cluster ? p->groups * p->across * p->vector * state_bytes(p->m) : 0;
}

/* As many partial results at once as there are, up to a warp's worth. */
column_plan column_finish_plan(const column_plan *p) {
  column_plan f = *p;
  f.threads = FINISH_THREADS;
  f.across = f.threads / (p->split < 32 ? p->split : 32);
  share(&f);
  return f;
}

template_reason column_make_plan(const column_match *m, const target *t, const config *c, bool dense,
                                 column_plan *plan) {
  const int *v = c->values;
  *plan = (column_plan){.m = m,
                        .dense = dense,
                        .wide_offsets = lanes_need_wide_offsets(&m->form),
                        .threads = v[COLUMN_THREADS],
                        .vector = v[COLUMN_VECTOR],
                        .across = v[COLUMN_ACROSS],
                        .unroll = v[COLUMN_UNROLL],
                        .split = v[COLUMN_SPLIT],
                        .cluster = v[COLUMN_CLUSTER]};
  column_plan *p = plan;
  if (p->threads > t->max_threads_per_block) return TEMPLATE_THREADS;
  if (p->across > p->threads) return TEMPLATE_TILE;
  if (p->cluster && !t->has.clusters) return TEMPLATE_TARGET;
  if (p->cluster && (p->split < 2 || p->split > COLUMN_MOST_CLUSTER)) return TEMPLATE_CLUSTER;
  if (p->vector > 1) {
    lanes_options o = {.loop = m->v, .width = p->vector, .dense = dense, .wide_offsets = p->wide_offsets};
    uint64_t written = outputs_of(&m->form);
    if (ir_form_extent(&m->form, m->v) % p->vector || (lanes_wide(&m->form, &o) & written) != written)
      return TEMPLATE_ALIGNMENT;
  }
  int bytes = element_bytes(m);
  if (p->vector > 1 && p->vector * bytes > WIDEST_BYTES) return TEMPLATE_TILE;
  if (p->vector * state_bytes(m) > MOST_STATE_BYTES || p->unroll * p->vector * bytes > MOST_LOADED_BYTES)
    return TEMPLATE_REGISTERS;
  share(p);
  if (p->smem_bytes > MOST_SHARED_BYTES ||
      (p->split > 1 && !p->cluster && column_finish_plan(p).smem_bytes > MOST_SHARED_BYTES))
    return TEMPLATE_SHARED_MEMORY;
  return TEMPLATE_OK;
}

/* Whether a simpler configuration does the same: threads, rows or CTAs that have nothing to do. */
static bool redundant(const column_plan *p) {
  int64_t positions = column_positions(p->m, p->vector), rows = column_rows(p->m);
  bool idle = p->across > 1 && p->across / 2 >= positions;
  bool short_rows = p->split > 1 && rows < p->split;
  bool unused = p->unroll > 1 && rows <= (int64_t)p->split * p->down * (p->unroll / 2);
  return idle || short_rows || unused;
}

typedef struct prepared {
  column_match m;
  template_reason reason;
} prepared;

const void *column_prepare(const ir_problem *p, const target *t, arena *a) {
  (void)t;
  prepared *made = ARENA_NEW(a, prepared);
  if (made) made->reason = column_match_make(p, true, a, &made->m, NULL, NULL);
  return made;
}

template_reason column_judge(const void *of, const target *t, const target_rates *rates, const config *c,
                             double *ns) {
  const prepared *made = of;
  column_plan plan;
  template_reason reason = made->reason;
  if (reason == TEMPLATE_OK) reason = column_make_plan(&made->m, t, c, true, &plan);
  if (reason == TEMPLATE_OK && redundant(&plan)) reason = TEMPLATE_REDUNDANT;
  if (template_is_built(reason)) *ns = column_plan_cost_ns(&plan, t, rates);
  return reason;
}

typedef struct start {
  const prepared *made;
  const target *t;
} start;

static bool price(const void *user, const config *c, double *ns) {
  const start *s = user;
  return column_judge(s->made, s->t, &s->t->rates, c, ns) == TEMPLATE_OK;
}

/* The cheapest by the model, from a thread for each of 64 columns on. */
void column_defaults(const ir_problem *p, const target *t, config *c) {
  arena a = ARENA_INIT;
  start s = {column_prepare(p, t, &a), t};
  double ns = INFINITY;
  *c = (config){.values = {[COLUMN_THREADS] = 64,
                           [COLUMN_VECTOR] = 1,
                           [COLUMN_ACROSS] = 32,
                           [COLUMN_UNROLL] = 1,
                           [COLUMN_SPLIT] = 1}};
  config one = *c;
  one.values[COLUMN_ACROSS] = 1; /* fits whatever the sizes are */
  if (s.made && !price(&s, c, &ns)) *c = one;
  if (s.made) space_descend(&column_space, price, &s, c, &ns);
  arena_release(&a);
}

/* --- the small problem --- */

/* The largest power of two, up to 16, that divides x: what alignment depends on. */
static int64_t evenness(int64_t x) {
  int64_t e = 1;
  while (e < 16 && x > 0 && x % (2 * e) == 0) e *= 2;
  return e;
}

/* Gives the loop's innermost axis at least `size` elements, as even as it was, and its other axes few. */
static void reduce_loop(const ir_form *form, int loop, int64_t size, ir_problem *reduced, bool *set) {
  const ir_loop *l = &form->loops[loop];
  for (int i = l->n_dims - 1; i >= 0; i--) {
    int axis = l->dims[i].axis;
    if (axis < 0) continue;
    int64_t e = evenness(form->problem->sizes[axis]);
    int64_t small = (size + 15) / 16 * 16 + e;
    if (set[axis] && reduced->sizes[axis] >= small) continue;
    reduced->sizes[axis] = small;
    set[axis] = true;
    size = 1;
  }
}

void column_reduced_problem(const ir_problem *p, const target *t, const config *c, int sm_count,
                            ir_problem *reduced) {
  arena a = ARENA_INIT;
  column_match m;
  column_plan plan;
  bool set[LIMIT_AXES] = {false};
  *reduced = *p;
  if (column_match_make(p, true, &a, &m, NULL, NULL) == TEMPLATE_OK &&
      column_make_plan(&m, t, c, true, &plan) == TEMPLATE_OK) {
    int64_t rows = (int64_t)plan.split * 2 + (int64_t)plan.down * plan.unroll * 2;
    for (int i = 0; i < m.n_rows; i++)
      reduce_loop(&m.form, m.rows[i], i == m.n_rows - 1 && rows > 33 ? rows / (m.n_rows > 1 ? 17 : 1) : 1,
                  reduced, set);
    reduce_loop(&m.form, m.v, (int64_t)plan.across * plan.vector, reduced, set);
    for (int i = 0; i < p->op->n_axes; i++) {
      int64_t e = evenness(p->sizes[i]);
      if (!set[i]) reduced->sizes[i] = p->sizes[i] < 3 * e ? p->sizes[i] : 3 * e;
    }
    for (int i = 0; i < p->lead_rank; i++) reduced->lead[i] = p->lead[i] < 3 ? p->lead[i] : 3;
    (void)sm_count; /* no grid depends on it */
  }
  arena_release(&a);
}
