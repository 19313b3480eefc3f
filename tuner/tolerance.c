#include "tuner/tolerance.h"

#include <float.h>
#include <math.h>

#include "tuner/exact_outputs.h"

#define APPROXIMATE 0x1p-11 /* of the hardware's functions, the worst: tanh.approx (PTX ISA) */

/* What functions may lose where their results are hardly more than 0 (generator/gen_math.h): those for
 * outputs narrower than f32 are within 2^-118 absolutely; the others may have a factor that is subnormal in
 * f32, whose least digit the other factor (at most 64: beyond, the result is 0) makes larger. */
#define UNDERFLOW_NARROW 0x1p-118
#define UNDERFLOW        0x1p-143

/* What functions may be off by where results have 16 bits (generator/gen_math.h, GEN_ACCURACY_NARROW), before
 * they are rounded. */
#define FUNCTION_NARROW 0x1p-15

/* Matrix units add products of 8-bit floats with 13 fraction bits, 128 of them before the sum goes on in f32.
 * In a model of the unit, with normal numbers of either sign and of one, 20,000 sums of 32 to 16384 terms
 * came no nearer to what this allows than 0.8. */
#define BYTES 0x1p-10

/* The largest power of two that rounds to zero in this type. */
static double half_least_subnormal(dtype t) {
  if (dtype_roundoff(t) == 0) return 0;
  double x = 1;
  while (x > 0 && dtype_round(t, x) != 0) x *= 0.5;
  return x;
}

static tune_tolerance make(dtype out, int64_t length, double u, bool multiplies) {
  double n = length > 1 ? (double)length : 1;
  return (tune_tolerance){.out = out,
                          .roundoff = dtype_roundoff(out),
                          .smallest = half_least_subnormal(out),
                          .accumulation = u * (4 * sqrt(n) + (multiplies ? n / 4 : 0)),
                          .spread = 8 / sqrt(n)};
}

tune_tolerance tune_tolerance_make(dtype out, int64_t length) {
  return make(out, length, out == DTYPE_F64 ? 0x1p-53 : 0x1p-24, true);
}

tune_tolerance tune_tolerance_for(const ir_problem *p, int output, bool fast_math) {
  dtype out = ir_tensor_dtype(p, output);
  tune_rounding r = tune_rounding_of(p, output);
  /* What is stored as f64 may have been computed in f32. */
  double u = out == DTYPE_F64 && !r.narrow ? 0x1p-53 : 0x1p-24;
  tune_tolerance t = make(out, ir_reduction_length(p, output), u, r.multiplies);
  t.exact = !r.rounds;
  t.cast = r.cast;
  if (r.rounds && r.narrow)
    t.smallest = fmax(t.smallest, t.roundoff > 0x1p-24 ? UNDERFLOW_NARROW : UNDERFLOW);
  if (r.functions && t.roundoff > 0x1p-24) t.roundoff += FUNCTION_NARROW;
  if (fast_math && r.rounds) t.accumulation += APPROXIMATE;
  if (r.bytes) t.accumulation += BYTES;
  for (int i = 0; i < p->op->n_definitions; i++) {
    const ir_definition *d = &p->op->definitions[i];
    if (d->tensor == output && d->update == IR_ADD && dtype_roundoff(out) > 0x1p-24)
      t.updates = 4 * dtype_roundoff(out);
  }
  return t;
}

double tune_tolerance_allowed(const tune_tolerance *t, double value, double magnitude) {
  double rounding = fmax(t->roundoff * fabs(value), t->smallest);
  if (t->exact) return fabs(dtype_round(t->out, value) - value);
  /* Integers are rounded to the nearest one; where the reference is an integer, only it lies this near. */
  if (dtype_class_of(t->out) != DTYPE_CLASS_FLOAT) rounding = 0.5;
  return rounding + t->accumulation * (fabs(value) + t->spread * magnitude) + t->updates * magnitude;
}

double tune_tolerance_with_casts(const tune_tolerance *t, double magnitude, double moved) {
  return moved > 0 ? magnitude + 2 * moved / (t->accumulation * t->spread) : magnitude;
}

double tune_tolerance_guess_magnitude(const tune_tolerance *t, double most) {
  double magnitude = 2 * most;
  /* tune_tolerance_between doubles what is added here: the two kernels' casts. */
  return t->exact || t->cast == 0 ? magnitude : magnitude + t->cast * most / (t->accumulation * t->spread);
}

/* What a type that saturates can hold of the value: storing the rest is not the kernel's to do. */
static double within_range(dtype out, double value) {
  double end = dtype_round(out, copysign(DBL_MAX, value));
  return isfinite(end) && fabs(value) > fabs(end) ? end : value;
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
    *error = isfinite(value) && isfinite(got) ? fabs(got - within_range(t->out, value)) : 0;
    return true;
  }
  if (t->exact) {
    *error = isfinite(value) && isfinite(got) ? fabs(got - value) : INFINITY;
    return false;
  }
  double allowed = tune_tolerance_allowed(t, value, magnitude);
  if (isinf(got)) { /* right only where rounding may have gone either way at the end of the range */
    *error = INFINITY;
    return isfinite(value) && dtype_round(t->out, value + copysign(allowed, got)) == got;
  }
  *error = fabs(got - value);
  return *error <= allowed;
}

void tune_tolerance_between(const tune_tolerance *t, double magnitude, double *relative, double *absolute) {
  *relative = *absolute = 0;
  if (t->exact) return;
  *relative = 2 * (t->roundoff + t->accumulation);
  *absolute = 2 * (t->smallest + (t->accumulation * t->spread + t->updates) * magnitude);
  if (dtype_class_of(t->out) != DTYPE_CLASS_FLOAT) *absolute += 1;
}
