/* Expressions over lanes: choices evaluate an operand in the lanes alone that need it, and what does not
 * depend on the innermost index is kept while that reduction runs. */
#include <math.h>
#include <string.h>

#include "ir/reference.h"

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
