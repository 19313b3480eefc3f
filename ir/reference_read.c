#include <math.h>
#include <string.h>

#include "ir/ir_types.h"
#include "ir/reference.h"

/* sub = *u + *c * k, with k the index of the node's scope. */
static bool linear(ref_machine *s, ref_definition *d, ref_node *e, int64_t *u, int64_t *c) {
  if (!e->varying) {
    if (!ref_eval(s, d, e)) return false;
    *u = e->v[0].i;
    *c = 0;
    return true;
  }
  if (e->op == REF_INDEX) {
    *u = 0;
    *c = 1;
    return true;
  }
  int64_t u0, c0, u1 = 0, c1 = 0;
  if (!linear(s, d, e->args[0], &u0, &c0)) return false;
  if (e->n_args == 2 && !linear(s, d, e->args[1], &u1, &c1)) return false;
  /* Unsigned: absurd factors wrap, as the lane-by-lane arithmetic does. */
  uint64_t a = (uint64_t)u0, b = (uint64_t)u1, ca = (uint64_t)c0, cb = (uint64_t)c1;
  switch ((ir_operator)e->id) {
  case IR_OP_ADD: a += b, ca += cb; break;
  case IR_OP_SUB: a -= b, ca -= cb; break;
  case IR_OP_NEG: a = 0 - a, ca = 0 - ca; break;
  default: ca = ca * b + cb * a, a *= b; break; /* MUL with one constant side */
  }
  *u = (int64_t)a;
  *c = (int64_t)ca;
  return true;
}

typedef struct subscripts {
  int64_t u[LIMIT_RANK], c[LIMIT_RANK]; /* of linear ones */
} subscripts;

static int64_t subscript(const ref_definition *d, const ref_node *e, const subscripts *x, int dim, int lane) {
  const ref_node *sub = e->read->subs[dim];
  if (!sub->linear) return sub->v[lane * ref_step(sub)].i;
  if (x->c[dim] == 0) return x->u[dim];
  return (int64_t)((uint64_t)x->u[dim] + (uint64_t)x->c[dim] * (uint64_t)ref_k(&d->levels[e->scope], lane));
}

static bool lane_is_dead(const ref_definition *d, const ref_node *e, int lane) {
  return e->varying && d->levels[e->scope].dead[lane];
}

/* The first dimension out of range, direct subscripts before gathered ones; -1: inside. */
static int outside(const ref_definition *d, const ref_node *e, const subscripts *x, int lane) {
  const ref_read *r = e->read;
  int found = -1;
  for (int i = 0; i < r->rank; i++) {
    int64_t at = subscript(d, e, x, i, lane);
    if (at >= 0 && at < r->size[i]) continue;
    if (!r->gathered[i]) return i;
    if (found < 0) found = i;
  }
  return found;
}

/* A value whose read is outside does not belong to its reduction's range; elsewhere it is an error. */
static bool drop(ref_machine *s, ref_definition *d, ref_node *e, const subscripts *x, int lane, int dim) {
  const ref_read *r = e->read;
  if (lane_is_dead(d, e, lane)) return true;
  if (r->owner > 0 && !r->gathered[dim]) {
    ref_level *level = &d->levels[r->owner];
    level->dead[e->varying && r->owner == e->scope ? lane : level->lane] = 1;
    return true;
  }
  error_set(s->err, ARKE_ERR_ARGUMENT, "reference",
            "%s %lld is outside dimension %d of %s, which has %lld elements (%d:%d)",
            r->gathered[dim] ? "gathered index" : "index", (long long)subscript(d, e, x, dim, lane), dim,
            s->p->op->tensors[r->tensor].name, (long long)r->size[dim], e->source->line, e->source->column);
  return false;
}

static int64_t lead_offset(const ref_machine *s, const ref_definition *d, const ref_read *r) {
  int64_t at = 0;
  if (s->p->op->tensors[r->tensor].any_rank)
    for (int i = 0; i < s->p->lead_rank; i++) at += d->lead[i] * s->tensors[r->tensor].strides[i];
  return at;
}

void ref_load_input(const ref_machine *s, ref_node *e, int input, int64_t base, int64_t step,
                    const int64_t *offsets, int n) {
  const ref_read *r = e->read;
  const void *data = s->tensors[input].data;
  int64_t period = s->periods[input];
  if (period > 0 && offsets == NULL) { /* a line stays one where it does not pass the end of the period */
    int64_t folded = base % period, last = folded + step * (n - 1);
    if (last < 0 || last >= period) {
      for (int l = 0; l < n; l++) r->offsets[l] = base + step * l;
      offsets = r->offsets;
    }
    base = folded;
  }
  if (period > 0 && offsets != NULL) {
    for (int l = 0; l < n; l++) r->offsets[l] = offsets[l] % period;
    offsets = r->offsets;
  }
  if (e->integer)
    ref_load_integers(r->type, data, base, step, offsets, n, e->v);
  else
    ref_load_floats(s, r->type, data, base, step, offsets, n, e->v);
}

static void load(const ref_machine *s, ref_node *e, int64_t base, int64_t step, const int64_t *offsets,
                 int n) {
  ref_load_input(s, e, e->read->tensor, base, step, offsets, n);
}

static bool load_element(ref_machine *s, ref_definition *d, ref_node *e, const subscripts *x, int lane) {
  const ref_read *r = e->read;
  int64_t coords[LIMIT_RANK];
  int lead = s->p->op->tensors[r->tensor].any_rank ? s->p->lead_rank : 0;
  memcpy(coords, d->lead, (size_t)lead * sizeof *coords);
  for (int i = 0; i < r->rank; i++) coords[lead + i] = subscript(d, e, x, i, lane);
  ref_lane v;
  double m;
  if (!ref_element_read(s, r->tensor, coords, &v, &m)) return false;
  bool integer = ir_level_of(r->type) < LEVEL_F32;
  e->v[lane] = integer && !e->integer ? (ref_lane){.f = (double)v.i} : v;
  if (s->want_m && e->sums) e->m[lane] = m;
  return true;
}

/* Of a read whose else value is a sum: memory itself has no more than its value. */
static void keep_magnitudes(const ref_machine *s, ref_node *e, int n) {
  if (!s->want_m || !e->sums) return;
  for (int l = 0; l < n; l++) e->m[l] = s->want_m == REF_CASTS ? 0 : fabs(e->v[l].f);
}

/* All lanes at once: a line through memory, inside at both ends and so everywhere. */
static bool load_line(const ref_machine *s, const ref_definition *d, ref_node *e, const subscripts *x,
                      int n) {
  const ref_read *r = e->read;
  const ref_level *level = &d->levels[e->scope];
  int64_t k0 = ref_k(level, 0), k1 = ref_k(level, n - 1), first, last;
  int64_t base = lead_offset(s, d, r), step = 0;
  for (int i = 0; i < r->rank; i++) {
    if (__builtin_mul_overflow(x->c[i], k0, &first) || __builtin_add_overflow(first, x->u[i], &first) ||
        __builtin_mul_overflow(x->c[i], k1, &last) || __builtin_add_overflow(last, x->u[i], &last))
      return false;
    if (first < 0 || first >= r->size[i] || last < 0 || last >= r->size[i]) return false;
    base += first * r->stride[i];
    if (n > 1) step += x->c[i] * r->stride[i];
  }
  if (k1 - k0 == n - 1) {
    load(s, e, base, step, NULL, n);
  } else {
    for (int l = 0; l < n; l++) r->offsets[l] = base + step * (ref_k(level, l) - k0);
    load(s, e, 0, 0, r->offsets, n);
  }
  return true;
}

/* Lane by lane: inside lanes are loaded together, the others take the else value or are dropped. */
static bool load_checked(ref_machine *s, ref_definition *d, ref_node *e, const subscripts *x, int n) {
  const ref_read *r = e->read;
  int64_t lead = r->argument ? lead_offset(s, d, r) : 0, inside = 0;
  int n_outside = 0;
  for (int l = 0; l < n; l++) {
    int dim = outside(d, e, x, l);
    if (dim >= 0) {
      if (r->other == NULL && !drop(s, d, e, x, l, dim)) return false;
      if (e->split != NULL) e->split->lane[n_outside] = (int16_t)l;
      n_outside++;
    } else if (r->argument) {
      int64_t at = lead;
      for (int i = 0; i < r->rank; i++) at += subscript(d, e, x, i, l) * r->stride[i];
      r->offsets[l] = inside = at;
    } else if (!lane_is_dead(d, e, l) && !load_element(s, d, e, x, l)) {
      return false;
    }
  }
  if (r->argument && n_outside < n) {
    /* Outside lanes load an element that exists; its value is replaced below. */
    for (int i = 0; i < n_outside; i++) r->offsets[e->split->lane[i]] = inside;
    load(s, e, 0, 0, r->offsets, n);
    keep_magnitudes(s, e, n);
  }
  if (n_outside == 0) return true;
  if (r->other != NULL && !(e->split == NULL ? ref_eval(s, d, r->other)
                                             : ref_eval_split(s, d, r->other, e->scope, e->split, n_outside)))
    return false;
  for (int i = 0; i < n_outside; i++) {
    int l = e->split == NULL ? 0 : e->split->lane[i];
    e->v[l] = r->other == NULL ? (ref_lane){.i = 0} : r->other->v[i * ref_step(r->other)];
    if (s->want_m && e->sums) e->m[l] = r->other == NULL ? 0 : ref_extra_of(s, r->other, i);
  }
  return true;
}

/* The same of a temporary or an output, where the last subscript alone differs. */
static bool read_line(ref_machine *s, ref_definition *d, ref_node *e, const subscripts *x, int n,
                      bool *done) {
  const ref_read *r = e->read;
  const ref_level *level = &d->levels[e->scope];
  int last = r->rank - 1, lead = s->p->op->tensors[r->tensor].any_rank ? s->p->lead_rank : 0;
  int64_t coords[LIMIT_RANK], ends[2];
  *done = false;
  if (last < 0 || s->lines[r->tensor] == NULL || !r->linear || x->c[last] <= 0) return true;
  for (int i = 0; i < last; i++)
    if (x->c[i] != 0 || x->u[i] < 0 || x->u[i] >= r->size[i]) return true;
  for (int i = 0; i < 2; i++)
    if (__builtin_mul_overflow(x->c[last], ref_k(level, i * (n - 1)), &ends[i]) ||
        __builtin_add_overflow(ends[i], x->u[last], &ends[i]) || ends[i] < 0 || ends[i] >= r->size[last])
      return true;
  for (int i = 0; i < lead; i++) coords[i] = d->lead[i];
  for (int i = 0; i < last; i++) coords[lead + i] = x->u[i];
  return ref_read_line(s, d, e, coords, x->u[last], x->c[last], done);
}

bool ref_eval_read(ref_machine *s, ref_definition *d, ref_node *e) {
  const ref_read *r = e->read;
  subscripts x;
  int n = ref_count(d, e);
  for (int i = 0; i < r->rank; i++) {
    ref_node *sub = r->subs[i];
    x.u[i] = x.c[i] = 0;
    if (sub->linear ? !linear(s, d, sub, &x.u[i], &x.c[i]) : !ref_eval(s, d, sub)) return false;
  }
  if (n == 0) return true;
  if (e->varying && r->argument && r->linear && load_line(s, d, e, &x, n)) {
    keep_magnitudes(s, e, n);
    return true;
  }
  bool done = false;
  if (e->varying && !r->argument && !read_line(s, d, e, &x, n, &done)) return false;
  return done || load_checked(s, d, e, &x, n);
}
