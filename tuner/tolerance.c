#include "tuner/tolerance.h"

#include <math.h>

/* The largest power of two that rounds to zero in this type. */
static double half_least_subnormal(dtype t) {
  if (dtype_roundoff(t) == 0) return 0;
  double x = 1;
  while (x > 0 && dtype_round(t, x) != 0) x *= 0.5;
  return x;
}

tune_tolerance tune_tolerance_make(dtype out, int64_t length) {
  double n = length > 1 ? (double)length : 1, u = out == DTYPE_F64 ? 0x1p-53 : 0x1p-24;
  return (tune_tolerance){.out = out,
                          .roundoff = dtype_roundoff(out),
                          .smallest = half_least_subnormal(out),
                          .accumulation = u * (4 * sqrt(n) + n / 4),
                          .spread = 8 / sqrt(n)};
}

double tune_tolerance_allowed(const tune_tolerance *t, double value, double magnitude) {
  double rounding = fmax(t->roundoff * fabs(value), t->smallest);
  /* Integers are rounded to the nearest one; where the reference is an integer, only it lies this near. */
  if (dtype_class_of(t->out) != DTYPE_CLASS_FLOAT) rounding = 0.5;
  return rounding + t->accumulation * (fabs(value) + t->spread * magnitude);
}

bool tune_tolerance_agrees(const tune_tolerance *t, double got, double value, double magnitude,
                           double *error) {
  if (isnan(value) || isnan(got)) {
    bool both = isnan(value) && (isnan(got) || dtype_class_of(t->out) != DTYPE_CLASS_FLOAT);
    *error = both ? 0 : INFINITY;
    return both;
  }
  double stored = dtype_round(t->out, value);
  if (got == stored) {
    *error = isfinite(value) && isfinite(got) ? fabs(got - value) : 0;
    return true;
  }
  double allowed = tune_tolerance_allowed(t, value, magnitude);
  if (isinf(got)) { /* right only where rounding may have gone either way at the end of the range */
    *error = INFINITY;
    return isfinite(value) && dtype_round(t->out, value + copysign(allowed, got)) == got;
  }
  *error = fabs(got - value);
  return *error <= allowed;
}
