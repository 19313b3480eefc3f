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

static arke_status exponential(row_emitter *e, const row_reduction *r, gen_accuracy accuracy, gen_value x,
                               gen_value *value, arke_error *err) {
  return gen_math_to(e->b, (ir_function)r->exponential->id, accuracy, &x, value, err);
}

/* The largest term is 1 and so the sum is at least 1. Its relative error is that of a term, averaged over the
 * terms' shares p: (2 + mean of |x|) 2^-23, where the mean of -log p is an entropy, at most the log of the
 * row's length, and |x| is less than -log p. A row of 10^6 has at most 16 * 2^-23 from that, which is less
 * than rounding its sum may cost. */
static gen_accuracy accuracy_of_terms(const row_emitter *e, const row_reduction *r) {
  gen_accuracy own = e->accuracy[r - e->m->reductions];
  return own == GEN_ACCURACY_FULL && !r->factor ? GEN_ACCURACY_TERM : own;
}

/* -inf, the maximum of nothing, less itself is NaN: as long as all elements are -inf so is their sum (which
 * is right if that stays so), and it starts again at 0 with the first larger one. */
arke_status row_rescale(row_emitter *e, const row_reduction *r, gen_value sum, gen_value before,
                        gen_value most, gen_value *scaled, arke_error *err) {
  gen_builder *b = e->b;
  gen_value difference = gen_fsub(b, before, most), factor;
  TRY(exponential(e, r, e->accuracy[r - e->m->reductions], difference, &factor, err));
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
  gen_value v[ROW_MOST_ELEMENTS];
  gen_value takes[ROW_MOST_ELEMENTS]; /* whether it counts; NULL: it does */
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
    gen_value v = to_partial(b, r, values[i]);
    all->takes[all->n] = takes[i];
    all->v[all->n++] = takes[i] ? gen_select(b, takes[i], v, identity.v) : v;
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
    TRY(exponential(e, r, accuracy_of_terms(e, r), difference, &v, err));
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

/* The number in the block of the first element that equals `best`, or is a NaN; -1: none does. Chunk by
 * chunk, which do not wait for each other. */
static gen_value number_of_best(gen_builder *b, const block *all, int width, gen_value best, bool is_nan) {
  gen_value none = gen_i32(b, -1), first = NULL;
  for (int c = 0; c < all->n; c += width) {
    gen_value number = none;
    for (int i = c + width - 1; i >= c; i--) {
      gen_value here =
          is_nan ? gen_compare(b, GEN_NE, all->v[i], all->v[i]) : gen_compare(b, GEN_EQ, all->v[i], best);
      if (all->takes[i]) here = gen_and(b, here, all->takes[i]);
      number = gen_select(b, here, gen_i32(b, i), number);
    }
    first = first ? gen_umin(b, first, number) : number;
  }
  return first;
}

/* The column of element `number` of the block; -1 stays that. */
static gen_value column_of(row_emitter *e, row_chunk *const *chunks, int n, gen_value number) {
  gen_builder *b = e->b;
  int width = chunks[0]->width;
  gen_value column = gen_sub(b, chunks[n - 1]->first, row_index(e, (int64_t)(n - 1) * width));
  for (int i = n - 2; i >= 0; i--) {
    gen_value here = gen_compare_imm(b, GEN_ULT, number, (int64_t)(i + 1) * width);
    column = gen_select(b, here, gen_sub(b, chunks[i]->first, row_index(e, (int64_t)i * width)), column);
  }
  column = gen_add(b, column, e->index == GEN_I64 ? gen_zext(b, number, GEN_I64) : number);
  return gen_select(b, gen_compare_imm(b, GEN_EQ, number, -1), row_index(e, -1), column);
}

/* The best value first, by one instruction an element, then the first place that has it: two more. A NaN is
 * the best, but equals nothing. Narrow elements are widened anew for the second. */
static arke_status best_of(row_emitter *e, const row_reduction *r, row_chunk *const *chunks, int n,
                           block *all, row_value *result, arke_error *err) {
  gen_builder *b = e->b;
  reduction kind = reduction_of(e, r);
  kind.kind = r->kind == IR_RED_ARGMAX ? IR_RED_MAX : IR_RED_MIN;
  block copy = *all;
  int width = chunks[0]->width;
  gen_value best = tree(b, &kind, copy.v, all->n), number = gen_i32(b, -1);
  if (e->plan->narrow) {
    all->n = 0;
    for (int i = 0; i < n; i++) {
      lanes_narrow(chunks[i]->l);
      TRY(add_elements(e, r, chunks[i], all, err));
    }
  }
  if (gen_is_float(b, best)) {
    gen_branch nan;
    gen_if(b, &nan, gen_compare(b, GEN_NE, best, best), &number, 1);
    number = number_of_best(b, all, width, best, true);
    gen_else(b, &nan);
    number = number_of_best(b, all, width, best, false);
    gen_if_end(b, &nan);
  } else {
    number = number_of_best(b, all, width, best, false);
  }
  *result = (row_value){best, column_of(e, chunks, n, number)};
  return ARKE_OK;
}

static arke_status block_of(row_emitter *e, const row_reduction *r, row_chunk *const *chunks, int n,
                            gen_value most, row_value *result, arke_error *err) {
  block all = {.n = 0};
  /* Columns before and behind the vectors are in no order with those: places are compared. */
  if (row_is_position(r) && n > 1 && chunks[n - 1]->width != chunks[0]->width) {
    row_value edge;
    TRY(block_of(e, r, chunks, n - 1, most, result, err));
    TRY(block_of(e, r, &chunks[n - 1], 1, most, &edge, err));
    row_combine(e, r, result, &edge);
    return ARKE_OK;
  }
  for (int i = 0; i < n; i++) {
    if (most) {
      TRY(add_exponentials(e, r, chunks[i], most, &all, err));
    } else {
      TRY(add_elements(e, r, chunks[i], &all, err));
    }
  }
  reduction kind = reduction_of(e, r);
  if (row_is_position(r)) return best_of(e, r, chunks, n, &all, result, err);
  *result = (row_value){tree(e->b, &kind, all.v, all.n), NULL};
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
