/* Elements of temporaries and outputs: which definitions write one, at which values of their indices, and
 * what it was before. */
#include <math.h>

#include "ir/ir_types.h"
#include "ir/reference.h"

typedef struct element {
  bool written, integer;
  ref_lane v;
  double m;
} element;

static double as_float(const element *x) {
  return x->integer ? (double)x->v.i : x->v.f;
}

/* Takes the definition's value into the element, by = or by an update. */
static void apply(const ref_machine *s, ir_update update, const ref_node *value, element *x) {
  element y = {true, value->integer, value->v[0], s->want_m ? ref_extra_of(s, value, 0) : 0};
  if (update == IR_ASSIGN || !x->written) {
    *x = y;
    return;
  }
  bool integer = x->integer && y.integer;
  double a = as_float(x), b = as_float(&y);
  bool replaces = update == IR_MAX ? b > a || isnan(b) : b < a || isnan(b);
  if (update == IR_ADD) {
    if (integer)
      x->v.i = (int64_t)((uint64_t)x->v.i + (uint64_t)y.v.i);
    else
      x->v.f = a + b;
    x->integer = integer;
    x->m += y.m;
  } else if (replaces && !isnan(a)) {
    *x = y;
  }
}

/* Does the definition, with its indices bound, write the element at coords? */
static bool writes(ref_machine *s, ref_definition *d, const int64_t *coords, bool *yes) {
  *yes = true;
  for (int i = 0; i < d->source->n_subscripts && *yes; i++) {
    if (!ref_eval(s, d, d->subs[i])) return false;
    *yes = d->subs[i]->v[0].i == coords[i];
  }
  return true;
}

static bool apply_one(ref_machine *s, ref_definition *d, const int64_t *coords, element *x) {
  bool yes;
  if (!writes(s, d, coords, &yes)) return false;
  if (!yes) return true;
  if (!ref_eval(s, d, d->value)) return false;
  apply(s, d->source->update, d->value, x);
  return true;
}

/* Tries every value of the left indices that the coordinates do not determine, in order: of several that
 * write the element the last counts (for =). */
static bool apply_scatter(ref_machine *s, ref_definition *d, const int64_t *coords, element *x) {
  if (!ref_find_places(s, d)) return false;
  if (d->places.known) {
    for (int64_t at = ref_first_place(d, coords); at >= 0; at = d->places.next[at]) {
      d->index[d->free_slots[0]] = at;
      if (!apply_one(s, d, coords, x)) return false;
    }
    return true;
  }
  for (int i = 0; i < d->n_free; i++) {
    d->index[d->free_slots[i]] = 0;
    if (d->range[d->free_slots[i]] == 0) return true;
  }
  for (;;) {
    if (!apply_one(s, d, coords, x)) return false;
    int i = d->n_free - 1;
    while (i >= 0 && ++d->index[d->free_slots[i]] == d->range[d->free_slots[i]])
      d->index[d->free_slots[i--]] = 0;
    if (i < 0) return true;
  }
}

static bool apply_topk(ref_machine *s, ref_definition *d, int tensor, const int64_t *coords, int rank,
                       element *x) {
  if (!ref_topk(s, d, coords, rank)) return false;
  int64_t place = coords[rank - 1];
  const ref_candidate *c = place < d->n_sorted ? &d->sorted[place] : NULL;
  x->written = true;
  x->integer = tensor == d->source->tensor2 || d->value->integer;
  if (tensor == d->source->tensor2)
    x->v.i = c == NULL ? -1 : c->k;
  else if (c != NULL)
    x->v = c->v;
  else if (x->integer)
    x->v.i = INT64_MIN;
  else
    x->v.f = -INFINITY;
  x->m = tensor == d->source->tensor2 || c == NULL ? fabs(as_float(x)) : c->m;
  return true;
}

static bool apply_definition(ref_machine *s, ref_definition *d, int tensor, const int64_t *coords,
                             element *x) {
  const ir_definition *def = d->source;
  int rank, lead = s->p->op->tensors[tensor].any_rank ? s->p->lead_rank : 0;
  for (int i = 0; i < lead; i++) d->lead[i] = coords[i]; /* coords may be NULL for a scalar */
  rank = def->n_subscripts;
  for (int i = 0; i < rank; i++)
    if (def->subscripts[i]->node == IR_INDEX) d->index[def->subscripts[i]->id] = coords[lead + i];
  if (def->tensor2 >= 0) return apply_topk(s, d, tensor, coords, lead + rank, x);
  if (!d->plain) return apply_scatter(s, d, lead > 0 ? coords + lead : coords, x);
  if (!ref_eval(s, d, d->value)) return false;
  apply(s, def->update, d->value, x);
  return true;
}

/* An input's element, which is not outside. */
static void load_input(const ref_machine *s, int tensor, const int64_t *coords, int rank, bool integer,
                       ref_lane *v) {
  const ir_data *from = &s->tensors[tensor];
  dtype t = ir_tensor_dtype(s->p, tensor);
  int64_t at = 0;
  for (int i = 0; i < rank; i++) at += coords[i] * from->strides[i];
  if (s->periods[tensor] > 0) at %= s->periods[tensor];
  if (integer)
    ref_load_integers(t, from->data, at, 0, NULL, 1, v);
  else
    ref_load_floats(s, t, from->data, at, 0, NULL, 1, v);
}

/* What updates start from: the input of an output written in place, else the update's neutral value. */
static void start(const ref_machine *s, int tensor, const int64_t *coords, element *x) {
  const ir_op *op = s->p->op;
  int alias = op->tensors[tensor].alias;
  *x = (element){.integer = ir_level_of(ir_tensor_dtype(s->p, tensor)) < LEVEL_F32};
  if (alias >= 0) {
    int rank = op->tensors[alias].rank + (op->tensors[alias].any_rank ? s->p->lead_rank : 0);
    load_input(s, alias, coords, rank, x->integer, &x->v);
    x->m = s->want_m == REF_CASTS ? 0 : fabs(as_float(x));
    x->written = true;
    return;
  }
  for (int i = 0; i < op->n_definitions; i++) {
    const ir_definition *d = &op->definitions[i];
    if (d->tensor != tensor) continue;
    x->written = d->update != IR_ASSIGN;
    if (d->update == IR_MAX || d->update == IR_MIN) {
      double limit = d->update == IR_MAX ? -INFINITY : INFINITY;
      x->v = x->integer ? ref_round(ir_tensor_dtype(s->p, tensor), (ref_lane){.f = limit}, false)
                        : (ref_lane){.f = limit};
      x->m = INFINITY;
    }
    return;
  }
}

bool ref_element(ref_machine *s, int tensor, const int64_t *coords, ref_lane *v, bool *integer, double *m) {
  element x;
  bool adds = false;
  start(s, tensor, coords, &x);
  for (int i = 0; i < s->p->op->n_definitions; i++) {
    ref_definition *d = &s->definitions[i];
    if (d->source->tensor != tensor && d->source->tensor2 != tensor) continue;
    adds = adds || d->source->update == IR_ADD;
    if (!apply_definition(s, d, tensor, coords, &x)) return false;
  }
  if (adds && x.integer && dtype_bits(ir_tensor_dtype(s->p, tensor)) <= 32)
    x.v.i = (int32_t)(uint32_t)(uint64_t)x.v.i; /* updates add in what the output computes in */
  if (!x.written) {
    error_set(
        s->err, ARKE_ERR_INVALID, "reference",
        "no definition writes this element of %s, so it has no value to compare with; write all elements "
        "first, or take the tensor as an argument and write it in place",
        s->p->op->tensors[tensor].name);
    return false;
  }
  *v = x.v;
  *integer = x.integer;
  *m = x.m;
  return true;
}

bool ref_element_read(ref_machine *s, int tensor, const int64_t *coords, ref_lane *v, double *m) {
  const ir_tensor *t = &s->p->op->tensors[tensor];
  int rank = t->rank + (t->any_rank ? s->p->lead_rank : 0);
  const ref_definition *by = s->scattered[tensor];
  if (by != NULL && ref_first_place(by, coords) < 0) { /* as it was */
    bool integer = ir_level_of(ir_tensor_dtype(s->p, tensor)) < LEVEL_F32;
    load_input(s, t->alias, coords, rank, integer, v);
    *m = s->want_m == REF_CASTS ? 0 : fabs(integer ? (double)v->i : v->f);
    return true;
  }
  uint64_t number = ref_number(s, tensor, coords, rank);
  if (ref_recall(s, tensor, number, v, m)) return true;
  bool integer;
  if (!ref_element(s, tensor, coords, v, &integer, m)) return false;
  if (ref_is_rounded(s, tensor, integer)) *v = ref_round(ir_tensor_dtype(s->p, tensor), *v, integer);
  ref_remember(s, tensor, number, *v, *m);
  return true;
}
