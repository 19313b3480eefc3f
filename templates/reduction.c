#include "templates/reduction.h"

#include <math.h>

#include "generator/gen_bits.h"
#include "generator/gen_math.h"

static bool is_float(gen_type t) {
  return t == GEN_F32 || t == GEN_F64;
}

static gen_value real(gen_builder *b, gen_type t, double x) {
  gen_value v = gen_f32(b, x);
  return t == GEN_F64 ? gen_float_cast(b, v, GEN_F64) : v;
}

static gen_value whole(gen_builder *b, gen_type t, int64_t x) {
  return t == GEN_I1 ? gen_bool(b, x) : t == GEN_I64 ? gen_i64(b, x) : gen_i32(b, x);
}

static gen_value number(gen_builder *b, gen_type t, int x) {
  return is_float(t) ? real(b, t, x) : whole(b, t, x);
}

static gen_value least(gen_builder *b, gen_type t) {
  return is_float(t) ? real(b, t, -INFINITY) : whole(b, t, t == GEN_I64 ? INT64_MIN : INT32_MIN);
}

static gen_value greatest(gen_builder *b, gen_type t) {
  return is_float(t) ? real(b, t, INFINITY) : whole(b, t, t == GEN_I64 ? INT64_MAX : INT32_MAX);
}

void reduction_start(gen_builder *b, const reduction *r, gen_value *state) {
  switch (r->kind) {
  case IR_RED_SUM:
  case IR_RED_ANY: state[0] = number(b, r->type, 0); return;
  case IR_RED_PROD:
  case IR_RED_ALL: state[0] = number(b, r->type, 1); return;
  case IR_RED_MAX: state[0] = least(b, r->type); return;
  case IR_RED_MIN: state[0] = greatest(b, r->type); return;
  case IR_RED_ARGMAX: state[0] = least(b, r->type); break;
  case IR_RED_ARGMIN: state[0] = greatest(b, r->type); break;
  case IR_RED_COUNT: break;
  }
  state[1] = whole(b, r->position, -1); /* later than every other */
}

/* Whether candidate `from` goes before `into`: a NaN, then the larger, then the earlier. */
static gen_value goes_before(gen_builder *b, const reduction *r, const gen_value *from,
                             const gen_value *into) {
  gen_comparison larger = r->kind == IR_RED_ARGMAX ? GEN_SGT : GEN_SLT;
  gen_value earlier = gen_compare(b, GEN_ULT, from[1], into[1]);
  gen_value same = gen_compare(b, GEN_EQ, from[0], into[0]);
  gen_value before = gen_or(b, gen_compare(b, larger, from[0], into[0]), gen_and(b, same, earlier));
  if (!is_float(r->type)) return before;
  gen_value nan_from = gen_compare(b, GEN_NE, from[0], from[0]),
            nan_into = gen_compare(b, GEN_NE, into[0], into[0]);
  gen_value only_from = gen_xor(b, nan_into, gen_bool(b, true));
  return gen_or(b, before, gen_and(b, nan_from, gen_or(b, only_from, earlier)));
}

void reduction_combine(gen_builder *b, const reduction *r, gen_value *into, const gen_value *from) {
  bool real_type = is_float(r->type);
  switch (r->kind) {
  case IR_RED_SUM: into[0] = real_type ? gen_fadd(b, into[0], from[0]) : gen_add(b, into[0], from[0]); return;
  case IR_RED_PROD:
    into[0] = real_type ? gen_fmul(b, into[0], from[0]) : gen_mul(b, into[0], from[0]);
    return;
  case IR_RED_MAX:
    into[0] = real_type ? gen_maximum(b, into[0], from[0]) : gen_smax(b, into[0], from[0]);
    return;
  case IR_RED_MIN:
    into[0] = real_type ? gen_minimum(b, into[0], from[0]) : gen_smin(b, into[0], from[0]);
    return;
  case IR_RED_ANY: into[0] = gen_or(b, into[0], from[0]); return;
  case IR_RED_ALL: into[0] = gen_and(b, into[0], from[0]); return;
  case IR_RED_ARGMAX:
  case IR_RED_ARGMIN: break;
  case IR_RED_COUNT: return;
  }
  gen_value before = goes_before(b, r, from, into);
  into[0] = gen_select(b, before, from[0], into[0]);
  into[1] = gen_select(b, before, from[1], into[1]);
}

void reduction_take(gen_builder *b, const reduction *r, gen_value *state, gen_value x, gen_value position,
                    gen_value active) {
  gen_value from[REDUCTION_VALUES] = {x, position}, taken[REDUCTION_VALUES] = {state[0], state[1]};
  reduction_combine(b, r, taken, from);
  for (int i = 0; i < reduction_values(r); i++)
    state[i] = active ? gen_select(b, active, taken[i], state[i]) : taken[i];
}

gen_value reduction_result(const reduction *r, const gen_value *state) {
  return state[reduction_values(r) - 1];
}
