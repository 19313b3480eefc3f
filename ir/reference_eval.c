#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/ir_types.h"
#include "ir/reference.h"

/* --- expressions ---------------------------------------------------------------------------------------- */

bool ref_eval_split(ref_machine *s, ref_definition *d, ref_node *e, int scope, ref_split *split, int n) {
  ref_level *level = &d->levels[scope], whole = *level;
  for (int i = 0; i < n; i++) {
    split->k[i] = ref_k(&whole, split->lane[i]);
    split->dead[i] = whole.dead[split->lane[i]];
  }
  level->k = split->k;
  level->contiguous = false;
  level->dead = split->dead;
  level->n = n;
  bool ok = ref_eval(s, d, e);
  whole.lane = level->lane;
  *level = whole;
  for (int i = 0; i < n; i++) level->dead[split->lane[i]] = split->dead[i];
  return ok;
}

static void take(const ref_machine *s, ref_node *e, int lane, const ref_node *from, int from_lane) {
  e->v[lane] = from->v[from_lane * ref_step(from)];
  if (s->want_m && e->sums) e->m[lane] = ref_extra_of(s, from, from_lane);
}

static void take_all(const ref_machine *s, ref_node *e, int n, const ref_node *from) {
  if (ref_step(from) == 0) {
    for (int l = 0; l < n; l++) take(s, e, l, from, l);
    return;
  }
  memcpy(e->v, from->v, (size_t)n * sizeof *e->v);
  if (!s->want_m || !e->sums) return;
  if (from->sums)
    memcpy(e->m, from->m, (size_t)n * sizeof *e->m);
  else
    for (int l = 0; l < n; l++) e->m[l] = ref_extra_of(s, from, l);
}

/* One operand for the lanes where the condition is `side`; for && and || the other lanes know their value. */
static bool choose(ref_machine *s, ref_definition *d, ref_node *e, ref_node *operand, bool side) {
  const ref_node *condition = e->args[0];
  int total = ref_count(d, e), n = 0;
  if (!condition->varying) {
    if ((condition->v[0].i != 0) != side) return true;
    if (!ref_eval(s, d, operand)) return false;
    take_all(s, e, total, operand);
    return true;
  }
  for (int l = 0; l < total; l++)
    if ((condition->v[l].i != 0) == side && !d->levels[e->scope].dead[l]) e->split->lane[n++] = (int16_t)l;
  if (n == 0) return true;
  if (!ref_eval_split(s, d, operand, e->scope, e->split, n)) return false;
  for (int i = 0; i < n; i++) take(s, e, e->split->lane[i], operand, i);
  return true;
}

static bool eval_choice(ref_machine *s, ref_definition *d, ref_node *e) {
  if (!ref_eval(s, d, e->args[0])) return false;
  int n = ref_count(d, e);
  bool all = e->id == IR_OP_SELECT && !e->args[0]->varying; /* lanes are written anyway */
  for (int l = 0; l < n && !all; l++) {
    e->v[l].i = e->id == IR_OP_OR; /* where the first operand decides, or the lane is dead */
    if (e->sums && s->want_m) e->m[l] = 0;
  }
  if (e->id == IR_OP_AND) return choose(s, d, e, e->args[1], true);
  if (e->id == IR_OP_OR) return choose(s, d, e, e->args[1], false);
  return choose(s, d, e, e->args[1], true) && choose(s, d, e, e->args[2], false);
}

/* What rounding does to a node's `m`. */
static void extra_of_cast(const ref_machine *s, ref_node *e, int n) {
  double roundoff = dtype_roundoff((dtype)e->id);
  for (int l = 0; l < n; l++) {
    double rounded = fabs(ref_float(e, l));
    if (s->want_m == REF_CASTS)
      e->m[l] += rounded * roundoff;
    else if (rounded > e->m[l] && isfinite(rounded)) /* rounded up: no value is larger than its magnitude */
      e->m[l] = rounded;
  }
}

static bool eval_unary(ref_machine *s, ref_definition *d, ref_node *e) {
  ref_node *x = e->args[0];
  if (!ref_eval(s, d, x)) return false;
  int n = ref_count(d, e);
  switch (e->op) {
  case REF_TO_FLOAT:
    for (int l = 0; l < n; l++) e->v[l].f = (double)x->v[l].i;
    break;
  case REF_TRUTH:
    for (int l = 0; l < n; l++) e->v[l].i = x->integer ? x->v[l].i != 0 : x->v[l].f != 0;
    break;
  case REF_NOT:
    for (int l = 0; l < n; l++) e->v[l].i = x->v[l].i == 0;
    break;
  default:
    if (!e->integer && !x->integer)
      dtype_round_all((dtype)e->id, &x->v->f, &e->v->f, n);
    else
      for (int l = 0; l < n; l++) e->v[l] = ref_round((dtype)e->id, x->v[l], x->integer);
    break;
  }
  if (!s->want_m || !e->sums) return true;
  for (int l = 0; l < n; l++) e->m[l] = ref_extra_of(s, x, l);
  if (e->op == REF_CAST) extra_of_cast(s, e, n);
  return true;
}

static void eval_index(const ref_definition *d, ref_node *e) {
  if (!e->varying) {
    e->v[0].i = d->index[e->id];
    return;
  }
  const ref_level *level = &d->levels[e->scope];
  for (int l = 0; l < level->n; l++) e->v[l].i = ref_k(level, l);
}

static bool eval_now(ref_machine *s, ref_definition *d, ref_node *e) {
  s->work += ref_count(d, e);
  switch (e->op) {
  case REF_CONSTANT: return true;
  case REF_INDEX: eval_index(d, e); return true;
  case REF_READ: return ref_eval_read(s, d, e);
  case REF_CALL: return ref_eval_call(s, d, e);
  case REF_ARITHMETIC: return ref_eval_arithmetic(s, d, e);
  case REF_CHOICE: return eval_choice(s, d, e);
  case REF_REDUCE: return ref_eval_reduce(s, d, e);
  case REF_NOT:
  case REF_CAST:
  case REF_TO_FLOAT:
  case REF_TRUTH: return eval_unary(s, d, e);
  }
  return false;
}

/* What varies with the innermost index and with one further out, but with none between, is the same each time
 * the innermost reduction comes to the same lanes: of a query's row times each key's, the query's. */
static bool eval_again(ref_machine *s, ref_definition *d, ref_node *e) {
  const ref_level *level = &d->levels[e->scope];
  uint64_t serial = d->levels[e->outer + 1].serial;
  bool same = level->contiguous && e->kept_first == level->first && e->kept_n == level->n;
  if (same && e->kept_serial == serial) return true;
  e->kept_serial = 0;
  if (!eval_now(s, d, e)) return false;
  if (!level->contiguous || memchr(level->dead, 1, (size_t)level->n) != NULL) return true;
  e->kept_serial = serial;
  e->kept_first = level->first;
  e->kept_n = level->n;
  return true;
}

bool ref_eval(ref_machine *s, ref_definition *d, ref_node *e) {
  if (e->varying && e->outer + 1 < e->scope) return eval_again(s, d, e);
  if (e->varying || e->scope == 0) return eval_now(s, d, e);
  /* The same for all lanes: computed once since the reduction just inside what it depends on began. */
  uint64_t serial = d->levels[e->depends + 1].serial;
  if (e->kept_serial == serial) return true;
  if (!eval_now(s, d, e)) return false;
  e->kept_serial = serial;
  return true;
}

/* --- elements ------------------------------------------------------------------------------------------- */

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

/* --- the interface -------------------------------------------------------------------------------------- */

static arke_status check_data(const ir_problem *p, const ir_data *tensors, arke_error *err) {
  for (int i = 0; i < p->op->n_inputs; i++)
    if (tensors[i].data == NULL && ir_tensor_elements(p, i) > 0)
      return error_set(err, ARKE_ERR_ARGUMENT, "reference", "input %s has no data", p->op->tensors[i].name);
  return ARKE_OK;
}

arke_status ir_evaluator_create(const ir_problem *p, const ir_data *tensors, ir_evaluator **ev,
                                arke_error *err) {
  *ev = NULL;
  TRY(check_data(p, tensors, err));
  arena a = ARENA_INIT;
  ir_evaluator *s = ARENA_NEW(&a, ir_evaluator);
  if (s == NULL) return error_memory(err, "reference");
  s->arena = a; /* which holds the evaluator too */
  s->p = p;
  s->tensors = tensors;
  for (int t = 0; t < p->op->n_tensors; t++) ir_tensor_shape(p, t, s->shapes[t]);
  if (!ref_compile(s)) {
    ir_evaluator_destroy(s);
    return error_memory(err, "reference");
  }
  *ev = s;
  return ARKE_OK;
}

void ir_evaluator_repeat(ir_evaluator *ev, int tensor, int64_t period) {
  ev->periods[tensor] = period;
}

int64_t ir_evaluator_work(const ir_evaluator *ev) {
  return ev->work;
}

void ir_evaluator_destroy(ir_evaluator *ev) {
  if (ev == NULL) return;
  for (int i = 0; ev->definitions != NULL && i < ev->p->op->n_definitions; i++)
    free(ev->definitions[i].sorted);
  arena a = ev->arena;
  arena_release(&a);
}

static arke_status evaluate(ir_evaluator *ev, int output, const int64_t *coords, ref_extra extra,
                            double *value, double *m, arke_error *err) {
  const ir_op *op = ev->p->op;
  if (output < op->n_inputs || output >= op->n_args)
    return error_set(err, ARKE_ERR_ARGUMENT, "reference",
                     "tensor %d is no output of %s; outputs are %d to %d", output, op->name, op->n_inputs,
                     op->n_args - 1);
  int64_t shape[LIMIT_RANK];
  int rank = ir_tensor_shape(ev->p, output, shape);
  for (int i = 0; i < rank; i++)
    if (coords[i] < 0 || coords[i] >= shape[i])
      return error_set(err, ARKE_ERR_ARGUMENT, "reference",
                       "%s has no element %lld in dimension %d of size %lld", op->tensors[output].name,
                       (long long)coords[i], i, (long long)shape[i]);
  arke_error own = ARKE_ERROR_INIT;
  ev->err = &own;
  ev->want_m = extra;
  ref_lane v;
  bool integer;
  bool ok = ref_element(ev, output, coords, &v, &integer, m);
  ev->err = NULL;
  if (!ok) {
    error_context(&own, op->name, NULL);
    if (err != NULL && err->code == ARKE_OK) *err = own;
    return own.code;
  }
  *value = integer ? (double)v.i : v.f;
  return ARKE_OK;
}

arke_status ir_evaluator_eval(ir_evaluator *ev, int output, const int64_t *coords, double *value,
                              double *magnitude, arke_error *err) {
  double none;
  return evaluate(ev, output, coords, magnitude != NULL ? REF_MAGNITUDES : REF_VALUES, value,
                  magnitude != NULL ? magnitude : &none, err);
}

arke_status ir_evaluator_casts(ir_evaluator *ev, int output, const int64_t *coords, double *moved,
                               arke_error *err) {
  double value;
  *moved = 0;
  if (!ev->casts_inside) return ARKE_OK;
  return evaluate(ev, output, coords, REF_CASTS, &value, moved, err);
}

arke_status ir_eval(const ir_problem *p, const ir_data *tensors, int output, const int64_t *coords,
                    double *value, double *magnitude, arke_error *err) {
  ir_evaluator *ev;
  TRY(ir_evaluator_create(p, tensors, &ev, err));
  arke_status status = ir_evaluator_eval(ev, output, coords, value, magnitude, err);
  ir_evaluator_destroy(ev);
  return status;
}
