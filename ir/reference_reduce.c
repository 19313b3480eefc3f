#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/ir_functions.h"
#include "ir/reference.h"

/* --- what the index ranges over ------------------------------------------------------------------------- */

typedef struct interval {
  int64_t least, most; /* INT64_MIN and INT64_MAX: open */
} interval;

static int64_t clamp(__int128 v) {
  return v > INT64_MAX ? INT64_MAX : v < INT64_MIN ? INT64_MIN : (int64_t)v;
}

static __int128 floor_wide(__int128 x, __int128 y) {
  __int128 q = x / y;
  return x % y != 0 && (x < 0) != (y < 0) ? q - 1 : q;
}

/* Open ends stay open whatever is added or multiplied. */
static int64_t shift(int64_t end, int64_t by) {
  return end == INT64_MIN || end == INT64_MAX ? end : clamp((__int128)end - by);
}

static int64_t opposite(int64_t end) {
  return end == INT64_MIN ? INT64_MAX : end == INT64_MAX ? INT64_MIN : -end;
}

/* Values of x with x * by (or floor(x / by)) in the interval. */
static interval unscale(interval in, int64_t by) {
  if (by < 0) return unscale((interval){opposite(in.most), opposite(in.least)}, clamp(-(__int128)by));
  interval out = in;
  if (in.least != INT64_MIN) out.least = clamp(-floor_wide(-(__int128)in.least, by));
  if (in.most != INT64_MAX) out.most = clamp(floor_wide(in.most, by));
  return out;
}

static interval undivide(interval in, int64_t by) {
  interval out = in;
  if (in.least != INT64_MIN) out.least = clamp((__int128)in.least * by);
  if (in.most != INT64_MAX) out.most = clamp((__int128)in.most * by + by - 1);
  return out;
}

/* Solves "e in *in" for the index that e varies with. */
static bool solve(ref_machine *s, ref_definition *d, ref_node *e, interval *in) {
  if (e->op == REF_INDEX) return true;
  if (e->n_args == 1) { /* NEG */
    *in = (interval){opposite(in->most), opposite(in->least)};
    return solve(s, d, e->args[0], in);
  }
  bool right = !e->args[0]->varying;
  ref_node *inside = e->args[right ? 1 : 0], *outside = e->args[right ? 0 : 1];
  if (!ref_eval(s, d, outside)) return false;
  int64_t u = outside->v[0].i;
  switch ((ir_operator)e->id) {
  case IR_OP_ADD: *in = (interval){shift(in->least, u), shift(in->most, u)}; break;
  case IR_OP_SUB:
    if (right) /* u - x in [a, b]: x in [u - b, u - a] */
      *in = (interval){opposite(shift(in->most, u)), opposite(shift(in->least, u))};
    else
      *in = (interval){shift(in->least, clamp(-(__int128)u)), shift(in->most, clamp(-(__int128)u))};
    break;
  case IR_OP_MUL:
    if (u == 0) {
      bool all = in->least <= 0 && in->most >= 0;
      *in = all ? (interval){INT64_MIN, INT64_MAX} : (interval){1, 0};
      return true;
    }
    *in = unscale(*in, u);
    break;
  default: /* DIV by u; what a negative or zero divisor admits is left to the reads themselves */
    if (u <= 0) {
      *in = (interval){INT64_MIN, INT64_MAX};
      return true;
    }
    *in = undivide(*in, u);
    break;
  }
  return solve(s, d, inside, in);
}

static bool find_range(ref_machine *s, ref_definition *d, ref_node *e, interval *range) {
  const ref_reduce *r = e->reduce;
  *range = (interval){0, INT64_MAX};
  for (int i = 0; i < r->n_bounds; i++) {
    const ref_bound *b = &r->bounds[i];
    interval in = {0, b->size - 1};
    if (b->other != NULL) {
      if (!ref_eval(s, d, b->other)) return false;
      int64_t u = b->other->v[0].i;
      in = (interval){INT64_MIN, INT64_MAX};
      if (b->relation == IR_OP_LT) in.most = shift(u, 1);
      if (b->relation == IR_OP_LE || b->relation == IR_OP_EQ) in.most = u;
      if (b->relation == IR_OP_GT) in.least = shift(u, -1);
      if (b->relation == IR_OP_GE || b->relation == IR_OP_EQ) in.least = u;
    }
    if (!solve(s, d, b->sub, &in)) return false;
    if (in.least > range->least) range->least = in.least;
    if (in.most < range->most) range->most = in.most;
  }
  if (range->most != INT64_MAX || range->least > range->most) return true;
  error_set(s->err, ARKE_ERR_ARGUMENT, "reference", "index %s has no upper limit here (%d:%d)",
            d->source->indices[r->slot].name, e->source->line, e->source->column);
  return false;
}

/* --- accumulating --------------------------------------------------------------------------------------- */

typedef struct accumulator {
  ref_lane v;
  double m;
  double squares;          /* of what casts may move the terms by */
  int64_t k;               /* of the best, -1: none yet */
  ref_definition *sorting; /* topk: collects instead */
} accumulator;

/* Four partial sums: additions of doubles wait for one another otherwise. */
static double sum_floats(const ref_lane *v, const uint8_t *dead, int n, bool absolute) {
  double part[4] = {0, 0, 0, 0};
  int l = 0;
  if (dead == NULL && !absolute)
    for (; l + 4 <= n; l += 4)
      for (int i = 0; i < 4; i++) part[i] += v[l + i].f;
  else if (dead == NULL)
    for (; l + 4 <= n; l += 4)
      for (int i = 0; i < 4; i++) part[i] += fabs(v[l + i].f);
  for (; l < n; l++)
    if (dead == NULL || !dead[l]) part[0] += absolute ? fabs(v[l].f) : v[l].f;
  return (part[0] + part[1]) + (part[2] + part[3]);
}

/* Magnitudes of terms, or what casts may move them by, and their squares; in four parts, too. */
static void add_extras(const double *m, const uint8_t *dead, int n, accumulator *acc) {
  double part[4] = {0, 0, 0, 0}, squares[4] = {0, 0, 0, 0};
  int l = 0;
  for (; dead == NULL && l + 4 <= n; l += 4)
    for (int i = 0; i < 4; i++) part[i] += m[l + i], squares[i] += m[l + i] * m[l + i];
  for (; l < n; l++)
    if (dead == NULL || !dead[l]) part[0] += m[l], squares[0] += m[l] * m[l];
  acc->m += (part[0] + part[1]) + (part[2] + part[3]);
  acc->squares += (squares[0] + squares[1]) + (squares[2] + squares[3]);
}

static void add_sum(const ref_machine *s, const ref_node *e, accumulator *acc, const uint8_t *dead, int n,
                    bool want_m) {
  const ref_node *body = e->reduce->body;
  if (!body->varying) {
    int live = n;
    for (int l = 0; dead != NULL && l < n; l++) live -= dead[l];
    if (e->integer)
      acc->v.i = (int64_t)((uint64_t)acc->v.i + (uint64_t)body->v[0].i * (uint64_t)live);
    else if (live > 0)
      acc->v.f += body->v[0].f * live;
    if (live > 0) acc->m += ref_extra_of(s, body, 0) * live;
    return;
  }
  if (e->integer) {
    for (int l = 0; l < n; l++)
      if (dead == NULL || !dead[l]) acc->v.i = (int64_t)((uint64_t)acc->v.i + (uint64_t)body->v[l].i);
    return;
  }
  acc->v.f += sum_floats(body->v, dead, n, false);
  if (!want_m) return;
  if (body->sums)
    add_extras(body->m, dead, n, acc);
  else if (s->want_m == REF_MAGNITUDES)
    acc->m += sum_floats(body->v, dead, n, true);
}

static void add_product(const ref_machine *s, const ref_node *e, accumulator *acc, int lane) {
  const ref_node *body = e->reduce->body;
  double before = acc->v.f;
  ref_lane v = body->v[lane * ref_step(body)];
  if (e->integer)
    acc->v.i = (int64_t)((uint64_t)acc->v.i * (uint64_t)v.i);
  else
    acc->v.f *= v.f;
  if (s->want_m == REF_CASTS)
    acc->m = acc->m * fabs(v.f) + ref_extra_of(s, body, lane) * fabs(before);
  else
    acc->m *= ref_magnitude(body, lane);
}

/* The first of equals stays; a NaN, once there, stays too. */
static bool is_better(const ref_node *body, ref_lane v, ref_lane best, bool largest) {
  if (body->integer) return largest ? v.i > best.i : v.i < best.i;
  if (isnan(best.f)) return false;
  return isnan(v.f) || (largest ? v.f > best.f : v.f < best.f);
}

static void add_best(const ref_machine *s, const ref_node *e, accumulator *acc, int lane, int64_t k) {
  const ref_node *body = e->reduce->body;
  ir_reduction r = e->reduce->reduction;
  bool largest = r == IR_RED_MAX || r == IR_RED_ARGMAX;
  ref_lane v = body->v[lane * ref_step(body)];
  if (acc->k >= 0 && !is_better(body, v, acc->v, largest)) return;
  acc->v = v;
  acc->k = k;
  acc->m = ref_extra_of(s, body, lane);
}

static bool collect(const ref_machine *s, accumulator *acc, const ref_node *body, int lane, int64_t k) {
  ref_definition *d = acc->sorting;
  if (d->n_sorted == d->sorted_capacity) {
    int64_t capacity = d->sorted_capacity == 0 ? REF_LANES : 2 * d->sorted_capacity;
    ref_candidate *more = realloc(d->sorted, (size_t)capacity * sizeof *more);
    if (more == NULL) return false;
    d->sorted = more;
    d->sorted_capacity = capacity;
  }
  d->sorted[d->n_sorted++] = (ref_candidate){body->v[lane * ref_step(body)], ref_extra_of(s, body, lane), k};
  return true;
}

static bool add_lanes(const ref_machine *s, const ref_node *e, accumulator *acc, const ref_level *level,
                      bool want_m) {
  const ref_node *body = e->reduce->body;
  const uint8_t *dead = memchr(level->dead, 1, (size_t)level->n) == NULL ? NULL : level->dead;
  if (acc->sorting == NULL && e->reduce->reduction == IR_RED_SUM) {
    add_sum(s, e, acc, dead, level->n, want_m);
    return true;
  }
  for (int l = 0; l < level->n; l++) {
    if (dead != NULL && dead[l]) continue;
    if (acc->sorting != NULL) {
      if (!collect(s, acc, body, l, ref_k(level, l))) return false;
      continue;
    }
    switch (e->reduce->reduction) {
    case IR_RED_PROD: add_product(s, e, acc, l); break;
    case IR_RED_ANY: acc->v.i |= body->v[l * ref_step(body)].i; break;
    case IR_RED_ALL: acc->v.i &= body->v[l * ref_step(body)].i; break;
    default: add_best(s, e, acc, l, ref_k(level, l)); break;
    }
  }
  return true;
}

/* Roundings of terms are independent where each term is cast for itself: their sum has the scale of the root
 * of the sum of squares. A rounding has 1 / sqrt(3) of its most on the average; so this is almost seven
 * standard deviations. */
enum { CASTS_SPREAD = 4 };

static void finish(const ref_machine *s, const ref_node *e, accumulator *acc) {
  if (s->want_m == REF_CASTS && e->reduce->casts_apart)
    acc->m = fmin(acc->m, CASTS_SPREAD * sqrt(acc->squares));
  ir_reduction r = e->reduce->reduction;
  if (r == IR_RED_ARGMAX || r == IR_RED_ARGMIN) acc->v.i = acc->k;
  if ((r == IR_RED_MAX || r == IR_RED_MIN) && acc->k < 0) acc->m = s->want_m == REF_CASTS ? 0 : INFINITY;
  if (e->integer && e->wraps) acc->v.i = (int32_t)(uint32_t)(uint64_t)acc->v.i;
}

/* --- running -------------------------------------------------------------------------------------------- */

/* Keeps the lanes where the condition holds. */
static bool filter(ref_machine *s, ref_definition *d, ref_node *condition, ref_level *level) {
  if (!ref_eval(s, d, condition)) return false;
  int kept = 0;
  for (int l = 0; l < level->n; l++)
    if (condition->v[l * ref_step(condition)].i && !level->dead[l]) level->k[kept++] = ref_k(level, l);
  level->contiguous = false;
  level->n = kept;
  memset(level->dead, 0, (size_t)kept);
  return true;
}

static bool run(ref_machine *s, ref_definition *d, ref_node *e, accumulator *acc) {
  const ref_reduce *r = e->reduce;
  ref_level *level = &d->levels[e->scope + 1];
  interval range;
  level->serial = ++s->serial;
  level->slot = r->slot;
  level->n = 0;
  if (!find_range(s, d, e, &range)) return false;
  for (int64_t first = range.least; first <= range.most; first += REF_LANES) {
    int64_t left = range.most - first;
    level->n = left < REF_LANES ? (int)left + 1 : REF_LANES;
    level->contiguous = true;
    level->first = first;
    memset(level->dead, 0, (size_t)level->n);
    if (r->condition != NULL && !filter(s, d, r->condition, level)) return false;
    if (level->n == 0) continue;
    if (!ref_eval(s, d, r->body)) return false;
    if (!add_lanes(s, e, acc, level, s->want_m && e->sums)) {
      error_memory(s->err, "reference");
      return false;
    }
  }
  return true;
}

static bool run_once(ref_machine *s, ref_definition *d, ref_node *e, int lane) {
  bool product = e->reduce->reduction == IR_RED_PROD && s->want_m != REF_CASTS;
  accumulator acc = {.v = e->reduce->nothing, .k = -1, .m = product};
  if (!run(s, d, e, &acc)) return false;
  finish(s, e, &acc);
  e->v[lane] = acc.v;
  if (s->want_m && e->sums) e->m[lane] = acc.m;
  return true;
}

bool ref_eval_reduce(ref_machine *s, ref_definition *d, ref_node *e) {
  if (!e->varying) return run_once(s, d, e, 0);
  ref_level *level = &d->levels[e->scope];
  for (int l = 0; l < level->n; l++) {
    e->v[l].i = 0;
    if (level->dead[l]) continue;
    d->index[level->slot] = ref_k(level, l);
    level->lane = l;
    if (!run_once(s, d, e, l)) return false;
  }
  return true;
}

/* --- topk ----------------------------------------------------------------------------------------------- */

static int compare_floats(const void *a, const void *b) {
  const ref_candidate *x = a, *y = b;
  bool nx = isnan(x->v.f), ny = isnan(y->v.f);
  if (nx != ny) return nx ? -1 : 1; /* NaN counts as largest */
  if (!nx && x->v.f != y->v.f) return x->v.f > y->v.f ? -1 : 1;
  return x->k < y->k ? -1 : 1;
}

static int compare_integers(const void *a, const void *b) {
  const ref_candidate *x = a, *y = b;
  if (x->v.i != y->v.i) return x->v.i > y->v.i ? -1 : 1;
  return x->k < y->k ? -1 : 1;
}

bool ref_topk(ref_machine *s, ref_definition *d, const int64_t *coords, int rank) {
  size_t bytes = (size_t)(rank - 1) * sizeof *coords; /* the last coordinate is the place in the order */
  if (d->sorted_valid && (d->sorted_m == s->want_m || !s->want_m) &&
      memcmp(d->sorted_for, coords, bytes) == 0)
    return true;
  accumulator acc = {.sorting = d};
  d->n_sorted = 0;
  d->sorted_valid = false;
  if (!run(s, d, d->value, &acc)) return false;
  if (d->n_sorted > 0)
    qsort(d->sorted, (size_t)d->n_sorted, sizeof *d->sorted,
          d->value->reduce->body->integer ? compare_integers : compare_floats);
  memcpy(d->sorted_for, coords, bytes);
  d->sorted_m = s->want_m;
  d->sorted_valid = true;
  return true;
}
