/* Elements of temporaries and outputs that definitions read: remembered one by one, computed many at a time
 * where they lie along the last axis. */
#include <math.h>
#include <string.h>

#include "ir/ir_types.h"
#include "ir/reference.h"

/* --- what is remembered --------------------------------------------------------------------------------- */

uint64_t ref_number(const ref_machine *s, int tensor, const int64_t *coords, int rank) {
  const int64_t *shape = s->shapes[tensor];
  uint64_t n = 0;
  for (int i = 0; i < rank; i++) n = n * (uint64_t)shape[i] + (uint64_t)coords[i];
  return n;
}

static ref_memo *memo_of(const ref_machine *s, int tensor, uint64_t number) {
  uint64_t size = (uint64_t)s->memo_size[tensor];
  return size == 0 ? NULL : &s->memos[tensor][number % size];
}

bool ref_recall(const ref_machine *s, int tensor, uint64_t number, ref_lane *v, double *m) {
  const ref_memo *memo = memo_of(s, tensor, number);
  if (memo == NULL || memo->number != number + 1) return false;
  bool uncast = s->want_m == REF_CASTS && !s->casts_in[tensor];
  if (s->want_m && !uncast && !memo->has_m[s->want_m]) return false;
  *v = memo->v;
  *m = uncast ? 0 : memo->m[s->want_m];
  return true;
}

void ref_remember(ref_machine *s, int tensor, uint64_t number, ref_lane v, double m) {
  ref_memo *memo = memo_of(s, tensor, number);
  if (memo == NULL) return;
  if (memo->number != number + 1) *memo = (ref_memo){.number = number + 1, .v = v};
  memo->m[s->want_m] = m;
  memo->has_m[s->want_m] = true;
}

bool ref_is_rounded(const ref_machine *s, int tensor, bool integer) {
  bool stored_as_integer = ir_level_of(ir_tensor_dtype(s->p, tensor)) < LEVEL_F32;
  return s->p->op->tensors[tensor].role == IR_OUTPUT || integer != stored_as_integer;
}

/* --- lines ---------------------------------------------------------------------------------------------- */

/* The definition whose last index can be lanes: the only one of the tensor, and it assigns. */
static ref_definition *definition_of(const ref_machine *s, int tensor) {
  ref_definition *found = NULL;
  for (int i = 0; i < s->p->op->n_definitions; i++) {
    ref_definition *d = &s->definitions[i];
    if (d->source->tensor != tensor && d->source->tensor2 != tensor) continue;
    if (found != NULL || d->source->update != IR_ASSIGN || d->source->tensor2 >= 0) return NULL;
    found = d;
  }
  return found;
}

static bool mentions(const ir_expr *e, int index) {
  if (e->node == IR_INDEX && e->id == index) return true;
  for (int i = 0; i < e->n_args; i++)
    if (mentions(e->args[i], index)) return true;
  return false;
}

static bool has_lines(const ref_machine *s, int tensor, const ref_definition *d) {
  const ir_definition *def = d->source;
  int last = def->n_subscripts - 1;
  if (last < 0 || def->subscripts[last]->node != IR_INDEX) return false;
  for (int i = 0; i < last; i++)
    if (mentions(def->subscripts[i], def->subscripts[last]->id)) return false;
  bool writes_in_place = s->p->op->tensors[tensor].alias >= 0 && d->n_free == 1;
  return d->plain || writes_in_place;
}

/* Operations for an element, those of brief lines that it reads included; `most` and more where a reduction
 * or what is remembered stands in it. */
static int operations(const ref_machine *s, const ref_node *n, int most) {
  if (n->op == REF_REDUCE) return most;
  int sum = 1;
  if (n->op == REF_READ && !n->read->argument) {
    const ref_definition *line = s->lines[n->read->tensor];
    if (line == NULL) return most;
    sum += operations(s, line->value, most);
  }
  for (int i = 0; n->op == REF_READ && i < n->read->rank && sum < most; i++)
    if (n->read->subs[i]->varying) sum += operations(s, n->read->subs[i], most);
  for (int i = 0; i < n->n_args && sum < most; i++)
    if (n->args[i]->varying) sum += operations(s, n->args[i], most);
  return sum;
}

bool ref_compile_lines(ref_machine *s) {
  for (int t = 0; t < s->p->op->n_tensors; t++) {
    if (!s->line_wanted[t] || s->lines[t] != NULL) continue;
    s->line_wanted[t] = false;
    ref_definition *d = definition_of(s, t);
    if (d == NULL || !has_lines(s, t, d)) continue;
    s->lines[t] = ref_compile_line(s, d->source);
    if (s->lines[t] == NULL) return false;
    s->lines[t]->single = d;
    t = -1; /* its definition may want other lines */
  }
  for (int t = 0; t < s->p->op->n_tensors; t++)
    if (s->lines[t] != NULL) s->lines[t]->brief = operations(s, s->lines[t]->value, REF_BRIEF) < REF_BRIEF;
  return true;
}

typedef struct line {
  int tensor, rank;
  int64_t *coords; /* the last is free */
  int64_t u, c;    /* of the last, by the readers' lanes */
  uint64_t number; /* of the element at 0 */
  bool to_float;   /* integers are read as floats */
  bool with_m;
} line;

static inline void put(const line *x, ref_node *e, int lane, ref_lane v, double m) {
  e->v[lane] = x->to_float ? (ref_lane){.f = (double)v.i} : v;
  if (x->with_m) e->m[lane] = m;
}

/* As it was before the definition wrote elsewhere. */
static void load_as_it_was(const ref_machine *s, const ref_level *level, ref_node *e, const line *x) {
  const int input = s->p->op->tensors[x->tensor].alias, n = level->n;
  const int64_t *strides = s->tensors[input].strides;
  int64_t base = x->u * strides[x->rank - 1], step = x->c * strides[x->rank - 1];
  for (int i = 0; i < x->rank - 1; i++) base += x->coords[i] * strides[i];
  if (level->contiguous) {
    ref_load_input(s, e, input, base + step * level->first, step, NULL, n);
  } else {
    for (int l = 0; l < n; l++) e->read->offsets[l] = base + step * level->k[l];
    ref_load_input(s, e, input, 0, 0, e->read->offsets, n);
  }
  for (int l = 0; x->with_m && l < n; l++) e->m[l] = s->want_m == REF_CASTS ? 0 : fabs(ref_float(e, l));
}

/* The lanes that are not remembered; their places go to the line's own lanes. */
static int find_missing(const ref_machine *s, const ref_level *level, ref_node *e, const line *x,
                        ref_definition *by) {
  int64_t *places = by->levels[1].k;
  int n = 0;
  for (int l = 0; l < level->n; l++) {
    if (level->dead[l]) continue;
    int64_t at = x->u + x->c * ref_k(level, l);
    ref_lane v;
    double m = 0;
    if (!by->brief && ref_recall(s, x->tensor, x->number + (uint64_t)at, &v, &m)) {
      put(x, e, l, v, m);
    } else {
      places[n] = at;
      by->lanes[n++] = (int16_t)l;
    }
  }
  return n;
}

/* Computes the missing lanes' elements, with the definition's indices bound but the last; `whole`: of all. */
static bool compute(ref_machine *s, ref_definition *by, ref_node *e, const line *x, bool whole) {
  ref_level *level = &by->levels[1];
  const ref_node *value = by->value;
  level->serial = ++s->serial;
  level->slot = by->source->subscripts[by->source->n_subscripts - 1]->id;
  level->contiguous = level->k[level->n - 1] - level->k[0] == level->n - 1;
  level->first = level->k[0];
  memset(level->dead, 0, (size_t)level->n);
  if (!ref_eval(s, by, by->value)) return false;
  bool rounded = ref_is_rounded(s, x->tensor, value->integer);
  if (by->brief && !rounded && whole && !x->to_float && value->varying) {
    memcpy(e->v, value->v, (size_t)level->n * sizeof *e->v);
    for (int i = 0; x->with_m && i < level->n; i++) e->m[i] = ref_extra_of(s, value, i);
    return true;
  }
  dtype type = ir_tensor_dtype(s->p, x->tensor);
  for (int i = 0; i < level->n; i++) {
    ref_lane v = value->v[i * ref_step(value)];
    double m = s->want_m ? ref_extra_of(s, value, i) : 0;
    if (rounded) v = ref_round(type, v, value->integer);
    if (!by->brief) ref_remember(s, x->tensor, x->number + (uint64_t)level->k[i], v, m);
    put(x, e, by->lanes[i], v, m);
  }
  return true;
}

/* Which value of its free index wrote the line, bound in `by`; -1: none did. `known` false: that takes a
 * search. */
static bool find_writer(ref_machine *s, ref_definition *by, const line *x, int64_t *from, bool *known) {
  ref_definition *single = by->single;
  if (!ref_find_places(s, single)) return false;
  *known = s->scattered[x->tensor] != NULL;
  if (!*known) return true;
  if (!ref_last_place(s, single, x->coords, from)) return false;
  by->index[by->free_slots[0]] = *from;
  return true;
}

bool ref_read_line(ref_machine *s, ref_definition *d, ref_node *e, int64_t *coords, int64_t u, int64_t c,
                   bool *done) {
  const ref_read *r = e->read;
  const ir_tensor *t = &s->p->op->tensors[r->tensor];
  const ref_level *level = &d->levels[e->scope];
  ref_definition *by = s->lines[r->tensor];
  int lead = t->any_rank ? s->p->lead_rank : 0;
  line x = {.tensor = r->tensor, .rank = lead + t->rank, .coords = coords, .u = u, .c = c};
  x.to_float = !e->integer && ir_level_of(r->type) < LEVEL_F32;
  x.with_m = s->want_m && e->sums;
  coords[x.rank - 1] = 0;
  x.number = ref_number(s, x.tensor, coords, x.rank);
  *done = true;
  if (!by->plain) {
    int64_t from;
    if (!find_writer(s, by, &x, &from, done)) return false;
    if (!*done) return true;
    if (from < 0) load_as_it_was(s, level, e, &x);
    if (from < 0) return true;
  }
  by->levels[1].n = find_missing(s, level, e, &x, by);
  if (by->levels[1].n == 0) return true;
  for (int i = 0; i < lead; i++) by->lead[i] = coords[i];
  for (int i = 0; i < t->rank - 1; i++)
    if (by->source->subscripts[i]->node == IR_INDEX)
      by->index[by->source->subscripts[i]->id] = coords[lead + i];
  return compute(s, by, e, &x, by->levels[1].n == level->n);
}
