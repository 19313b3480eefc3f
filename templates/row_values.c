/* Arithmetic of partial results: identities, trees over a block of elements, and how two parts of a row
 * become one. */
#include <math.h>

#include "generator/gen_math.h"
#include "templates/reduction.h"
#include "templates/row_emit.h"

/* --- single values --- */

/* Conditions are kept as I32, which shuffles and shared memory take. */
static reduction reduction_of(const row_emitter *e, const row_reduction *r) {
  return (reduction){.kind = r->kind, .type = r->type == GEN_I1 ? GEN_I32 : r->type, .position = e->index};
}

static gen_value truth(gen_builder *b, gen_value v) {
  gen_type type = gen_type_of(b, v);
  if (type == GEN_I1) return v;
  if (!gen_is_float(b, v)) return gen_compare_imm(b, GEN_NE, v, 0);
  return gen_compare(b, GEN_NE, v, gen_float_cast(b, gen_f32(b, 0), type));
}

static gen_value to_partial(gen_builder *b, const row_reduction *r, gen_value v) {
  gen_type from = gen_type_of(b, v), to = r->type;
  if (to == GEN_I1) return gen_zext(b, truth(b, v), GEN_I32);
  if (from == to) return v;
  if (gen_is_float(b, v)) return gen_float_cast(b, v, to);
  if (to == GEN_F32 || to == GEN_F64) return gen_int_to_float(b, v, to, from != GEN_I1);
  if (from == GEN_I1) return gen_zext(b, v, to);
  return to == GEN_I64 ? gen_sext(b, v, to) : gen_trunc(b, v, to);
}

row_value row_identity(row_emitter *e, const row_reduction *r) {
  reduction kind = reduction_of(e, r);
  gen_value state[REDUCTION_VALUES] = {NULL};
  reduction_start(e->b, &kind, state);
  return (row_value){state[0], state[1]};
}

void row_combine(row_emitter *e, const row_reduction *r, row_value *into, const row_value *from) {
  reduction kind = reduction_of(e, r);
  gen_value ours[REDUCTION_VALUES] = {into->v, into->at}, theirs[REDUCTION_VALUES] = {from->v, from->at};
  reduction_combine(e->b, &kind, ours, theirs);
  *into = (row_value){ours[0], ours[1]};
}

/* --- sums that follow their maximum --- */

arke_status row_exponential(row_emitter *e, const row_reduction *r, gen_value x, gen_value *value,
                            arke_error *err) {
  return gen_math_to(e->b, (ir_function)r->exponential->id, e->accuracy[r - e->m->reductions], &x, value,
                     err);
}

/* -inf, the maximum of nothing, less itself is NaN: as long as all elements are -inf so is their sum (which
 * is right if that stays so), and it starts again at 0 with the first larger one. */
arke_status row_rescale(row_emitter *e, const row_reduction *r, gen_value sum, gen_value before,
                        gen_value most, gen_value *scaled, arke_error *err) {
  gen_builder *b = e->b;
  gen_value difference = gen_fsub(b, before, most), factor;
  TRY(row_exponential(e, r, difference, &factor, err));
  gen_value same = gen_compare(b, GEN_EQ, before, most);
  gen_value nothing = gen_compare(b, GEN_EQ, before, gen_f32(b, -INFINITY));
  gen_value changed = gen_select(b, nothing, gen_f32(b, 0), gen_fmul(b, sum, factor));
  *scaled = gen_select(b, same, sum, changed);
  return ARKE_OK;
}

arke_status row_combine_phase(row_emitter *e, int phase, row_value *into, const row_value *from,
                              arke_error *err) {
  const row_match *m = e->m;
  row_value before[ROW_MAX_REDUCTIONS];
  for (int i = 0; i < m->n_reductions; i++) {
    const row_reduction *r = &m->reductions[i];
    before[i] = into[i];
    if (r->phase == phase && r->maximum < 0) row_combine(e, r, &into[i], &from[i]);
  }
  for (int i = 0; i < m->n_reductions; i++) {
    const row_reduction *r = &m->reductions[i];
    if (r->phase != phase || r->maximum < 0) continue;
    gen_value most = into[r->maximum].v, ours, theirs;
    TRY(row_rescale(e, r, into[i].v, before[r->maximum].v, most, &ours, err));
    TRY(row_rescale(e, r, from[i].v, from[r->maximum].v, most, &theirs, err));
    into[i].v = gen_fadd(e->b, ours, theirs);
  }
  return ARKE_OK;
}

/* --- a block of elements --- */

typedef struct block {
  gen_value v[ROW_MOST_ELEMENTS], at[ROW_MOST_ELEMENTS];
  int n;
} block;

/* Whether a lane counts; NULL: it does. */
static gen_value takes_part(gen_builder *b, const row_chunk *c, gen_value condition) {
  if (!c->active || !condition) return c->active ? c->active : condition;
  return gen_and(b, c->active, condition);
}

/* The lanes of an expression: one value stands for all. */
static arke_status eval(const row_chunk *c, const ir_expr *x, gen_value values[LANES_MAX], arke_error *err) {
  int n;
  TRY(lanes_eval(c->l, x, values, &n, err));
  for (int i = n; i < c->width; i++) values[i] = values[0];
  return ARKE_OK;
}

static arke_status conditions(gen_builder *b, const row_chunk *c, const ir_expr *reduce,
                              gen_value takes[LANES_MAX], arke_error *err) {
  for (int i = 0; i < c->width; i++) takes[i] = NULL;
  if (reduce->n_args > 1) {
    TRY(eval(c, reduce->args[1], takes, err));
    for (int i = 0; i < c->width; i++) takes[i] = truth(b, takes[i]);
  }
  for (int i = 0; i < c->width; i++) takes[i] = takes_part(b, c, takes[i]);
  return ARKE_OK;
}

static arke_status add_elements(row_emitter *e, const row_reduction *r, const row_chunk *c, block *all,
                                arke_error *err) {
  gen_builder *b = e->b;
  gen_value values[LANES_MAX], takes[LANES_MAX];
  TRY(conditions(b, c, r->e, takes, err));
  TRY(eval(c, r->e->args[0], values, err));
  row_value identity = row_identity(e, r);
  for (int i = 0; i < c->width; i++) {
    gen_value v = to_partial(b, r, values[i]), at = NULL;
    if (row_is_position(r)) at = gen_add_imm(b, c->first, i);
    if (takes[i]) {
      v = gen_select(b, takes[i], v, identity.v);
      if (at) at = gen_select(b, takes[i], at, identity.at);
    }
    all->v[all->n] = v;
    all->at[all->n++] = at;
  }
  return ARKE_OK;
}

/* exp(x - most) * factor of the lanes that take part. */
static arke_status add_exponentials(row_emitter *e, const row_reduction *r, const row_chunk *c,
                                    gen_value most, block *all, arke_error *err) {
  gen_builder *b = e->b;
  gen_value x[LANES_MAX], factors[LANES_MAX], takes[LANES_MAX];
  TRY(conditions(b, c, r->e, takes, err));
  TRY(eval(c, r->exponent, x, err));
  if (r->factor) TRY(eval(c, r->factor, factors, err));
  for (int i = 0; i < c->width; i++) {
    gen_value difference = gen_fsub(b, to_partial(b, r, x[i]), most), v;
    TRY(row_exponential(e, r, difference, &v, err));
    if (r->factor) v = gen_fmul(b, v, to_partial(b, r, factors[i]));
    if (takes[i]) v = gen_select(b, takes[i], v, gen_f32(b, 0));
    all->v[all->n++] = v;
  }
  return ARKE_OK;
}

/* Neighbours first: the error of a sum grows with the depth of the tree. */
static gen_value tree(gen_builder *b, const reduction *kind, gen_value *v, int n) {
  while (n > 1) {
    int half = n / 2;
    for (int i = 0; i < half; i++) {
      gen_value pair = v[2 * i];
      reduction_combine(b, kind, &pair, &v[2 * i + 1]);
      v[i] = pair;
    }
    if (n % 2) v[half] = v[n - 1];
    n = half + n % 2;
  }
  return v[0];
}

/* The best value first, by one instruction an element, then the first place that has it. */
static row_value best_of(row_emitter *e, const row_reduction *r, const block *all) {
  gen_builder *b = e->b;
  reduction kind = reduction_of(e, r);
  kind.kind = r->kind == IR_RED_ARGMAX ? IR_RED_MAX : IR_RED_MIN;
  block copy = *all;
  row_value best = {tree(b, &kind, copy.v, all->n), all->at[all->n - 1]};
  for (int i = all->n - 2; i >= 0; i--) {
    gen_value here = gen_compare(b, GEN_EQ, all->v[i], best.v);
    if (gen_is_float(b, best.v)) here = gen_or(b, here, gen_compare(b, GEN_NE, all->v[i], all->v[i]));
    best.at = gen_select(b, here, all->at[i], best.at);
  }
  return best;
}

static arke_status block_of(row_emitter *e, const row_reduction *r, row_chunk *const *chunks, int n,
                            gen_value most, row_value *result, arke_error *err) {
  block all = {.n = 0};
  for (int i = 0; i < n; i++) {
    if (most) {
      TRY(add_exponentials(e, r, chunks[i], most, &all, err));
    } else {
      TRY(add_elements(e, r, chunks[i], &all, err));
    }
  }
  reduction kind = reduction_of(e, r);
  *result = row_is_position(r) ? best_of(e, r, &all) : (row_value){tree(e->b, &kind, all.v, all.n), NULL};
  return ARKE_OK;
}

arke_status row_accumulate(row_emitter *e, int phase, row_chunk *const *chunks, int n, bool fresh,
                           row_value *partial, arke_error *err) {
  const row_match *m = e->m;
  row_value before[ROW_MAX_REDUCTIONS], added;
  for (int i = 0; i < m->n_reductions; i++) {
    const row_reduction *r = &m->reductions[i];
    before[i] = partial[i];
    if (r->phase != phase || r->maximum >= 0) continue;
    TRY(block_of(e, r, chunks, n, NULL, &added, err));
    if (fresh) {
      partial[i] = added;
    } else {
      row_combine(e, r, &partial[i], &added);
    }
  }
  for (int i = 0; i < m->n_reductions; i++) {
    const row_reduction *r = &m->reductions[i];
    if (r->phase != phase || r->maximum < 0) continue;
    gen_value most = partial[r->maximum].v;
    TRY(block_of(e, r, chunks, n, most, &added, err));
    if (!fresh) {
      gen_value ours;
      TRY(row_rescale(e, r, before[i].v, before[r->maximum].v, most, &ours, err));
      added.v = gen_fadd(e->b, ours, added.v);
    }
    partial[i] = added;
  }
  return ARKE_OK;
}

gen_value row_result(row_emitter *e, const row_reduction *r, const row_value *partial) {
  gen_builder *b = e->b;
  if (r->type == GEN_I1) return gen_compare_imm(b, GEN_NE, partial->v, 0);
  if (!row_is_position(r)) return partial->v;
  return e->index == GEN_I64 ? partial->at : gen_sext(b, partial->at, GEN_I64);
}
