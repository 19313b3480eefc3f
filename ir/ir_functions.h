/* The reference meaning of IR_FUNCTIONS over doubles. Inside ir/ only. */
#ifndef ARKE_IR_IR_FUNCTIONS_H
#define ARKE_IR_IR_FUNCTIONS_H

#include <math.h>

#include "ir/ir.h"

/* NaN if either is, as PyTorch's maximum and minimum. */
static inline double ir_max(double x, double y) {
  return isnan(x) || x > y ? x : y;
}
static inline double ir_min(double x, double y) {
  return isnan(x) || x < y ? x : y;
}

/* An f32 without the lowest 13 of its 23 fraction bits, which is what matrix units make of it. */
static inline double ir_tf32(double x) {
  const int least_exponent = -125; /* of normal f32, as frexp counts */
  int e;
  if (!isfinite(x) || x == 0) return x;
  frexp(x, &e);
  double unit = ldexp(1, (e > least_exponent ? e : least_exponent) - 11);
  return trunc(x / unit) * unit;
}

static inline double ir_function_apply(ir_function f, double x, double y, double z) {
  (void)y, (void)z;
  switch (f) {
#define X(NAME, name, arity, reference, meaning)                                                             \
  case IR_FN_##NAME: return reference;
    IR_FUNCTIONS(X)
#undef X
  case IR_FN_COUNT: break;
  }
  return NAN;
}

/* Integer division and remainder round toward minus infinity, as index arithmetic wants it; y != 0. */
static inline int64_t ir_floor_div(int64_t x, int64_t y) {
  if (y == -1) return (int64_t)(0 - (uint64_t)x); /* INT64_MIN / -1 wraps */
  int64_t q = x / y;
  return x % y != 0 && (x < 0) != (y < 0) ? q - 1 : q;
}
static inline int64_t ir_floor_mod(int64_t x, int64_t y) {
  if (y == -1) return 0;
  int64_t r = x % y;
  return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}
static inline double ir_float_mod(double x, double y) {
  double r = fmod(x, y);
  return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

#endif
