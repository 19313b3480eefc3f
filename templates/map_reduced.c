/* A small problem of the same kind: axes are halved, the longest first, as long as every element is still
 * written and what is read lies inside. */
#include <string.h>

#include "templates/lanes_index.h"
#include "templates/map.h"

enum { MOST_ELEMENTS = 1 << 17, MOST_ROUNDS = 256, MOST_AT_ONCE = 8 };

/* --- what must stay --- */

typedef struct range {
  bool known;
  int64_t low, high;
} range;

static range range_of(const ir_form *form, const ir_expr *e) {
  static const range UNKNOWN = {.known = false};
  int64_t v;
  if (lanes_static_value(form, e, &v)) return (range){true, v, v};
  if (e->node == IR_INDEX) return (range){true, 0, ir_form_extent(form, e->id) - 1};
  if (e->node != IR_OPERATOR || e->n_args != 2) return UNKNOWN;
  range x = range_of(form, e->args[0]), y = range_of(form, e->args[1]);
  if (!x.known || !y.known) return UNKNOWN;
  bool fixed = y.low == y.high && y.low > 0;
  switch ((ir_operator)e->id) {
  case IR_OP_ADD: return (range){true, x.low + y.low, x.high + y.high};
  case IR_OP_SUB: return (range){true, x.low - y.high, x.high - y.low};
  case IR_OP_MUL:
    if (x.low < 0 || y.low < 0) return UNKNOWN;
    return (range){true, x.low * y.low, x.high * y.high};
  case IR_OP_DIV: return fixed && x.low >= 0 ? (range){true, x.low / y.low, x.high / y.low} : UNKNOWN;
  case IR_OP_MOD: return fixed ? (range){true, 0, y.low - 1} : UNKNOWN;
  default: return UNKNOWN;
  }
}

/* Whether an access that happens in any case stays in its tensor, as far as can be told. */
static bool is_inside(const ir_form *form, const ir_access *x) {
  const ir_tensor *t = &form->problem->op->tensors[x->tensor];
  for (int i = 0; i < x->n && !x->conditional && !x->other; i++) {
    if (x->subscripts[i].leading) continue;
    range r = range_of(form, x->subscripts[i].e);
    if (!r.known || r.high < r.low) continue;
    if (r.low < 0 || r.high >= ir_dim_size(form->problem, t->dims[x->subscripts[i].first])) return false;
  }
  return true;
}

static int64_t written_elements(const map_match *m, int tensor) {
  int64_t total = 0;
  for (int i = 0; i < m->form.n_outputs; i++) {
    const ir_access *x = &m->form.accesses[m->form.outputs[i].access];
    int64_t elements = 1;
    if (x->tensor != tensor) continue;
    for (int s = 0; s < x->n; s++) {
      int loop = map_subscript_loop(&m->form, x, s);
      if (loop >= 0) elements *= ir_form_extent(&m->form, loop);
    }
    total += elements;
  }
  return total;
}

/* What a problem is made smaller from, matched once: it is compared with every smaller one. */
typedef struct original {
  const ir_problem *p;
  const target *t;
  const config *c;
  map_match any;  /* of tensors that lie anyhow */
  map_plan first; /* of the first kernel; where it is made for whole tiles, in so many groups */
  int groups;     /* else 0 */
} original;

/* The plan of the first kernel; false: there is none. */
static bool first_plan(const original *of, const ir_problem *p, arena *a, map_plan *plan, int *groups) {
  map_match m;
  template_reason reason;
  if (map_match_make(p, true, a, &m, &reason, NULL, NULL) != ARKE_OK || reason != TEMPLATE_OK) return false;
  *groups = m.n_groups;
  return template_is_built(map_plan_make(&m, of->t, of->c, plan));
}

/* False: the problem has no kernel by the configuration. */
static bool find_original(const ir_problem *p, const target *t, const config *c, arena *a, original *of) {
  template_reason reason;
  *of = (original){.p = p, .t = t, .c = c};
  if (!template_is_built(template_feasible(template_find("map"), p, t, c)) ||
      map_match_make(p, false, a, &of->any, &reason, NULL, NULL) != ARKE_OK || reason != TEMPLATE_OK ||
      !first_plan(of, p, a, &of->first, &of->groups))
    return false;
  if (!of->first.whole) of->groups = 0;
  return true;
}

/* Whether the first kernel can run, and where it is made for whole tiles finds whole ones. */
static bool runs_first(const original *of, const ir_problem *p, arena *a) {
  map_plan plan;
  int groups;
  if (!first_plan(of, p, a, &plan, &groups)) return false;
  return of->groups == 0 || (groups == of->groups && plan.whole &&
                             memcmp(plan.tiles, of->first.tiles, (size_t)groups * sizeof *plan.tiles) == 0);
}

/* Whether a problem is one as the original is: whole outputs stay whole, and the configuration's first kernel
 * can run. */
static bool is_alike(const ir_problem *p, const original *of) {
  arena a = ARENA_INIT;
  map_match m;
  template_reason reason;
  bool alike = map_match_make(p, false, &a, &m, &reason, NULL, NULL) == ARKE_OK && reason == TEMPLATE_OK;
  for (int i = 0; alike && i < m.form.n_accesses; i++) alike = is_inside(&m.form, &m.form.accesses[i]);
  for (int tensor = p->op->n_inputs; alike && tensor < p->op->n_args; tensor++) {
    bool whole = written_elements(&of->any, tensor) == ir_tensor_elements(of->p, tensor);
    alike = !whole || written_elements(&m, tensor) == ir_tensor_elements(p, tensor);
  }
  alike = alike && runs_first(of, p, &a);
  arena_release(&a);
  return alike;
}

/* --- halving --- */

/* Half, but as often even as before as far as vectors and divided indices care. */
static int64_t half_of(int64_t size) {
  int64_t unit = 1;
  while (unit < 2 * LANES_MAX && size % (2 * unit) == 0) unit *= 2;
  int64_t half = size / 2 / unit * unit;
  return half >= unit ? half : size / 2;
}

/* Axes, then leading ones, by number. */
static int64_t *size_at(ir_problem *p, int i) {
  return i < p->op->n_axes ? &p->sizes[i] : &p->lead[i - p->op->n_axes];
}

static int64_t largest_tensor(const ir_problem *p) {
  int64_t most = 0;
  for (int i = 0; i < p->op->n_args; i++) {
    int64_t elements = ir_tensor_elements(p, i);
    if (most < elements) most = elements;
  }
  return most;
}

/* Halves the longest axis of those that may be, up to so many times, as long as a tensor has more than `most`
 * elements; *last is the last axis. How often it did. */
static int halve_some(ir_problem *p, int times, int64_t most, const bool *fixed, int *last) {
  int n = p->op->n_axes + p->lead_rank, done = 0;
  for (; done < times && largest_tensor(p) > most; done++) {
    int longest = -1;
    for (int i = 0; i < n; i++) {
      if (!fixed[i] && *size_at(p, i) > 1 && (longest < 0 || *size_at(p, i) > *size_at(p, longest)))
        longest = i;
    }
    if (longest < 0) break;
    *size_at(p, longest) = half_of(*size_at(p, longest));
    *last = longest;
  }
  return done;
}

/* Axes that depend on each other (a sum of parts) can only shrink together. */
static bool halve_fixed(ir_problem *p, const original *of, const bool *fixed) {
  ir_problem half = *p;
  bool any = false;
  for (int i = 0; i < p->op->n_axes + p->lead_rank; i++) {
    if (!fixed[i] || *size_at(p, i) < 2) continue;
    *size_at(&half, i) = *size_at(p, i) / 2;
    any = true;
  }
  if (!any || !is_alike(&half, of)) return false;
  *p = half;
  return true;
}

/* To match a problem takes as long as all else: so several axes are halved at once, and fewer where that
 * makes another problem of it. An axis that alone does so stays. */
static void halve(const original *of, int64_t most, ir_problem *p) {
  bool fixed[LIMIT_AXES + LIMIT_RANK] = {false};
  int times = MOST_AT_ONCE;
  for (int round = 0; round < MOST_ROUNDS && largest_tensor(p) > most; round++) {
    ir_problem half = *p;
    int last, done = halve_some(&half, times, most, fixed, &last);
    if (done == 0) {
      if (!halve_fixed(p, of, fixed)) return;
    } else if (is_alike(&half, of)) {
      *p = half;
      times = MOST_AT_ONCE;
    } else if (done > 1) {
      times = done / 2;
    } else {
      fixed[last] = true;
    }
  }
}

void map_reduced_problem(const ir_problem *p, const target *t, const config *c, int sm_count,
                         ir_problem *reduced) {
  const int *v = c->values;
  *reduced = *p;
  /* Tiles for all CTAs, and a ragged one, unless the kernel is made for whole ones. */
  int64_t tiles = v[MAP_PERSISTENT] > 0 ? (int64_t)v[MAP_PERSISTENT] * sm_count + 1 : 3;
  int64_t most = tiles * v[MAP_VECTOR] * v[MAP_UNROLL] * v[MAP_THREADS];
  if (most > MOST_ELEMENTS) most = MOST_ELEMENTS;
  arena a = ARENA_INIT;
  original *of = ARENA_NEW(&a, original);
  if (of && find_original(p, t, c, &a, of)) halve(of, most + most / 2, reduced);
  arena_release(&a);
}
