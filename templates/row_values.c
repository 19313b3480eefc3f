/* Arithmetic of partial results: identities, trees over a block of elements, and how two parts of a row
 * become one. */
#include <math.h>

#include "generator/gen_expression.h"
#include "generator/gen_math.h"
#include "templates/row_emit.h"

/* --- constants and conversions --- */

static gen_value constant(gen_builder *b, gen_type type, double value) {
  switch (type) {
  case GEN_F64: return gen_float_cast(b, gen_f32(b, value), GEN_F64);
  case GEN_F32: return gen_f32(b, value);
  case GEN_I64: return gen_i64(b, (int64_t)value);
  default: return gen_i32(b, (int64_t)value);
  }
}

/* The least (or largest) value of a type. */
static gen_value extreme(gen_builder *b, gen_type type, bool least) {
  switch (type) {
  case GEN_I64: return gen_i64(b, least ? INT64_MIN : INT64_MAX);
  case GEN_I32: return gen_i32(b, least ? INT32_MIN : INT32_MAX);
  default: return constant(b, type, least ? -INFINITY : INFINITY);
  }
}

/* Conditions are kept as I32, which shuffles and shared memory take. */
static gen_type partial_type(const row_reduction *r) {
  return r->type == GEN_I1 ? GEN_I32 : r->type;
}

static gen_value truth(gen_builder *b, gen_value v) {
  gen_type type = gen_type_of(b, v);
  return type == GEN_I1 ? v : gen_compare(b, GEN_NE, v, constant(b, type, 0));
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

/* No column: larger than all of them, as an unsigned number, so that it loses against equals. */
static gen_value nowhere(row_emitter *e) {
  return row_index(e, -1);
}

row_value row_identity(row_emitter *e, const row_reduction *r) {
  gen_builder *b = e->b;
  gen_type type = partial_type(r);
  switch (r->kind) {
  case IR_RED_SUM:
  case IR_RED_ANY: return (row_value){constant(b, type, 0), NULL};
  case IR_RED_PROD:
  case IR_RED_ALL: return (row_value){constant(b, type, 1), NULL};
  case IR_RED_MAX: return (row_value){extreme(b, type, true), NULL};
  case IR_RED_MIN: return (row_value){extreme(b, type, false), NULL};
  case IR_RED_ARGMAX: return (row_value){extreme(b, type, true), nowhere(e)};
  case IR_RED_ARGMIN: return (row_value){extreme(b, type, false), nowhere(e)};
  case IR_RED_COUNT: break;
  }
  return (row_value){constant(b, type, 0), NULL};
}

/* --- two become one --- */

static gen_value is_nan(gen_builder *b, gen_value v) {
  return gen_compare(b, GEN_NE, v, v);
}

/* NaN wins, then the better value, then the first place. */
static void combine_positions(row_emitter *e, const row_reduction *r, row_value *into,
                              const row_value *from) {
  gen_builder *b = e->b;
  bool largest = r->kind == IR_RED_ARGMAX;
  gen_value better = gen_compare(b, largest ? GEN_SGT : GEN_SLT, from->v, into->v);
  gen_value same = gen_compare(b, GEN_EQ, from->v, into->v);
  if (gen_is_float(b, into->v)) {
    gen_value theirs = is_nan(b, from->v), ours = is_nan(b, into->v);
    gen_value not_ours = gen_compare(b, GEN_EQ, into->v, into->v);
    better = gen_or(b, better, gen_and(b, theirs, not_ours));
    same = gen_or(b, same, gen_and(b, theirs, ours));
  }
  gen_value earlier = gen_compare(b, GEN_ULT, from->at, into->at);
  gen_value take = gen_or(b, better, gen_and(b, same, earlier));
  into->v = gen_select(b, take, from->v, into->v);
  into->at = gen_select(b, take, from->at, into->at);
}

static arke_status combine_values(row_emitter *e, const row_reduction *r, gen_value x, gen_value y,
                                  gen_value *z, arke_error *err) {
  gen_builder *b = e->b;
  bool floats = gen_is_float(b, x);
  gen_value both[] = {x, y};
  switch (r->kind) {
  case IR_RED_SUM: *z = floats ? gen_fadd(b, x, y) : gen_add(b, x, y); return ARKE_OK;
  case IR_RED_PROD: *z = floats ? gen_fmul(b, x, y) : gen_mul(b, x, y); return ARKE_OK;
  case IR_RED_ANY: *z = gen_or(b, x, y); return ARKE_OK;
  case IR_RED_ALL: *z = gen_and(b, x, y); return ARKE_OK;
  case IR_RED_MIN:
  case IR_RED_ARGMIN: return gen_math(b, IR_FN_MIN, both, z, err);
  case IR_RED_MAX:
  case IR_RED_ARGMAX: return gen_math(b, IR_FN_MAX, both, z, err);
  case IR_RED_COUNT: break;
  }
  return error_set(err, ARKE_ERR_INTERNAL, "generate", "a reduction of unknown kind %d", (int)r->kind);
}

arke_status row_combine(row_emitter *e, const row_reduction *r, row_value *into, const row_value *from,
                        arke_error *err) {
  if (row_is_position(r)) {
    combine_positions(e, r, into, from);
    return ARKE_OK;
  }
  return combine_values(e, r, into->v, from->v, &into->v, err);
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
    if (r->phase == phase && r->maximum < 0) TRY(row_combine(e, r, &into[i], &from[i], err));
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

/* Neighbours first: the order of a sum does not depend on the number of threads alone, and its error grows
 * with the depth of the tree. */
static arke_status tree(row_emitter *e, const row_reduction *r, gen_value *v, int n, arke_error *err) {
  while (n > 1) {
    int half = n / 2;
    for (int i = 0; i < half; i++) TRY(combine_values(e, r, v[2 * i], v[2 * i + 1], &v[i], err));
    if (n % 2) v[half] = v[n - 1];
    n = half + n % 2;
  }
  return ARKE_OK;
}

/* The best value first, by one instruction an element, then the first place that has it. */
static arke_status best_of(row_emitter *e, const row_reduction *r, block *all, row_value *best,
                           arke_error *err) {
  gen_builder *b = e->b;
  block copy = *all;
  TRY(tree(e, r, copy.v, all->n, err));
  best->v = copy.v[0];
  best->at = all->at[all->n - 1];
  for (int i = all->n - 2; i >= 0; i--) {
    gen_value here = gen_compare(b, GEN_EQ, all->v[i], best->v);
    if (gen_is_float(b, best->v)) here = gen_or(b, here, is_nan(b, all->v[i]));
    best->at = gen_select(b, here, all->at[i], best->at);
  }
  return ARKE_OK;
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
  if (row_is_position(r)) return best_of(e, r, &all, result, err);
  TRY(tree(e, r, all.v, all.n, err));
  *result = (row_value){all.v[0], NULL};
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
      TRY(row_combine(e, r, &partial[i], &added, err));
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

arke_status row_result(row_emitter *e, const row_reduction *r, const row_value *partial, gen_value *result,
                       arke_error *err) {
  gen_builder *b = e->b;
  (void)err;
  *result = partial->v;
  if (r->type == GEN_I1) *result = gen_compare_imm(b, GEN_NE, partial->v, 0);
  if (row_is_position(r)) {
    gen_value found = gen_compare(b, GEN_ULT, partial->at, e->columns);
    gen_value at = gen_select(b, found, partial->at, row_index(e, -1));
    *result = e->index == GEN_I64 ? at : gen_sext(b, at, GEN_I64);
  }
  return ARKE_OK;
}
