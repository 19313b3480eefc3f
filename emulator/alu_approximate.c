/* The approximate functions of f32. Hardware is within the errors that the PTX ISA states (9.7.3), nobody
 * says where; here every result is as far off as it may be, up or down by the bits of the argument. So what
 * is right here is right on hardware that does better. What hardware gives exactly stays exact: results at
 * powers of two, zeros, infinities and NaN. */
#include <math.h>

#include "emulator/alu_internal.h"

static uint32_t hash(float x) {
  uint32_t h = (uint32_t)alu_of_f32(x) * 0x9E3779B1u;
  return h ^ h >> 15;
}

static bool is_power_of_two(float x) {
  int e;
  return frexpf(fabsf(x), &e) == 0.5f;
}

/* `v` moved by `most` in a direction that the argument chooses. */
static float off_by(double v, double most, float argument) {
  return (float)((hash(argument) & 0x400) != 0 ? v + most : v - most);
}

static float off_relative(double v, double most, float argument) {
  if (v == 0 || isinf(v) || isnan(v)) return (float)v;
  return off_by(v, fabs(v) * most, argument);
}

static float reciprocal(float x) {
  float exact = 1.0f / x;
  return is_power_of_two(x) ? exact
                            : off_relative(1.0 / (double)x, 0x1p-24, x); /* within 1 ulp once rounded */
}

static float reciprocal_root(float x) {
  int e;
  bool exact = frexpf(x, &e) == 0.5f && e % 2 != 0; /* an even power of two */
  double v = 1.0 / sqrt((double)x);
  return exact ? (float)v : off_relative(v, 0x1.12p-23, x); /* 2^-22.9 */
}

static float root(float x) {
  float exact = sqrtf(x);
  return exact * exact == x ? exact : off_relative(sqrt((double)x), 0x1p-24, x);
}

/* Past 2^126 the reciprocal of div.approx has become zero (9.7.3.8). */
static float divide(float x, float y, bool full) {
  if (!full && fabsf(y) > 0x1p126f && !isnan(x) && isfinite(y))
    return isinf(x) ? NAN : copysignf(0.0f, x * copysignf(1, y));
  float exact = x / y;
  if (is_power_of_two(y) || y == 0 || isinf(y)) return exact;
  return off_relative((double)x / (double)y, 0x1.8p-23, y); /* 2 ulp once rounded */
}

static float sine(float x, bool cosine) {
  double v = cosine ? cos((double)x) : sin((double)x);
  if (x == 0 || isnan(v)) return (float)v;
  /* The absolute error grows past the turn (9.7.3.18, .19); a small sine keeps some of its digits. */
  double most = fabsf(x) <= 6.2831855f ? 0x1.6ap-21 : 0x1p-14;
  if (!cosine && most > fabs((double)x) * 0x1p-10) most = fabs((double)x) * 0x1p-10;
  float r = off_by(v, most, x);
  return r > 1 ? 1 : r < -1 ? -1 : r;
}

static float logarithm(float x) {
  double v = log2((double)x);
  if (isnan(v) || isinf(v) || is_power_of_two(x)) return (float)v;
  return x > 0.5f && x < 2.0f ? off_by(v, 0x1.8p-23, x) : off_relative(v, 0x1.8p-23, x);
}

static float exponential(float x) {
  float exact = exp2f(x);
  return x == floorf(x) ? exact : off_relative(exp2((double)x), 0x1.8p-23, x); /* 2 ulp once rounded */
}

static float hyperbolic(float x) {
  float r = off_relative(tanh((double)x), 0x1.ffcp-12, x);
  return r > 1 || x > 9 ? 1 : r < -1 || x < -9 ? -1 : r;
}

bool alu_approximate(ptx_opcode op, bool full, uint32_t active, float v[PTX_LANES],
                     const float y[PTX_LANES]) {
  for (uint32_t left = active; left != 0; left &= left - 1) {
    int l = __builtin_ctz(left);
    switch (op) {
    case PTX_DIV: v[l] = divide(v[l], y[l], full); break;
    case PTX_RCP: v[l] = reciprocal(v[l]); break;
    case PTX_SQRT: v[l] = root(v[l]); break;
    case PTX_RSQRT: v[l] = reciprocal_root(v[l]); break;
    case PTX_SIN: v[l] = sine(v[l], false); break;
    case PTX_COS: v[l] = sine(v[l], true); break;
    case PTX_LG2: v[l] = logarithm(v[l]); break;
    case PTX_EX2: v[l] = exponential(v[l]); break;
    case PTX_TANH: v[l] = hyperbolic(v[l]); break;
    default: return false;
    }
  }
  return true;
}
