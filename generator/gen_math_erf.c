/* erf and the exact GELU, from the tail of the normal distribution: P(X > y) = e^(-y^2 / 2) Q(t),
 * t = (y - 4) / (y + 4), which keeps its relative error where the tail is small. */
#include <math.h>

#include "generator/gen_math_internal.h"
#include "generator/gen_math_tables.h"

/* Powers of two that keep the tail a normal number as far as it is asked for. */
static int raise_of(gen_builder *b, gen_value x) {
  return gen_math_wide(b, x) ? 128 : 40;
}

static double lowered(gen_builder *b, gen_value x, double factor) {
  return ldexp(factor, -raise_of(b, x));
}

/* 2^raise P(X > y) for y >= 0 and at most where P underflows. `y` is c a, so that y^2 / 2 is
 * a^2 times `half_square`, c^2 / 2, 1/2 or 1; the square's rounding error, which the exponential multiplies
 * by itself, is taken along. */
static gen_value normal_tail(gen_builder *b, gen_value a, double c, double half_square) {
  gen_value y = gen_fmul(b, a, gen_like(b, a, c));
  gen_value over = gen_quick_recip(b, gen_fadd(b, y, gen_like(b, a, 4)));
  gen_value t = gen_fmul(b, gen_fadd(b, y, gen_like(b, a, -4)), over);
  gen_value square = gen_fmul(b, a, a), low = gen_fma(b, a, a, gen_fneg(b, square));
  gen_value factor = gen_like(b, a, half_square);
  gen_value e =
      gen_exp_raised(b, gen_fneg(b, gen_fmul(b, square, factor)), gen_fmul(b, low, factor), raise_of(b, a));
  return gen_fmul(b, e, GEN_POLYNOMIAL(b, t, normal_tail));
}

/* Near 0 a polynomial; else 1 - 2 P(X > |x| sqrt 2). */
gen_value gen_erf(gen_builder *b, gen_value x) {
  gen_value one = gen_like(b, x, 1), a = gen_clamp(b, gen_fabs(b, x), 0, gen_math_wide(b, x) ? 6 : 4.25);
  gen_value z = gen_fmul(b, x, x);
  gen_value small = gen_fma(b, x, GEN_POLYNOMIAL(b, z, erf_small), x);
  gen_value large =
      gen_fma(b, normal_tail(b, a, 1.4142135623730951, 1), gen_like(b, x, lowered(b, x, -2)), one);
  /* NaN takes the polynomial, which keeps it. */
  return gen_select(b, gen_compare(b, GEN_SGE, gen_fabs(b, x), one), gen_copysign(b, large, x), small);
}

/* x P(X < x): x p for negative x, else x - x p, with p = P(X > |x|). */
gen_value gen_gelu(gen_builder *b, gen_value x) {
  gen_value a = gen_clamp(b, gen_fabs(b, x), 0, gen_math_wide(b, x) ? 39 : 14.5);
  gen_value p = gen_fmul(b, normal_tail(b, a, 1, 0.5), gen_like(b, x, lowered(b, x, 1)));
  gen_value zero = gen_like(b, x, 0);
  gen_value share = gen_select(b, gen_compare(b, GEN_SLT, x, zero), p, gen_fsub(b, gen_like(b, x, 1), p));
  return gen_fmul(b, x, share);
}

/* The same with fewer digits; past the end the exponential is 0. */
static gen_value narrow_tail(gen_builder *b, gen_value a, double c) {
  gen_value y_plus = gen_fma(b, a, gen_f32(b, c), gen_f32(b, 4));
  gen_value over = gen_approx(b, "rcp.approx.ftz.f32", y_plus);
  gen_value t = gen_fma(b, over, gen_f32(b, -8), gen_f32(b, 1));
  gen_value square = gen_fmul(b, a, a);
  gen_value e =
      gen_approx(b, "ex2.approx.ftz.f32", gen_fmul(b, square, gen_f32(b, -c * c * 0.72134752044448170)));
  return gen_fmul(b, e, gen_polynomial(b, t, narrow_normal_tail_f32, (int)COUNT_OF(narrow_normal_tail_f32)));
}

gen_value gen_erf_narrow(gen_builder *b, gen_value x) {
  gen_value a = gen_fabs(b, x), z = gen_fmul(b, x, x), one = gen_f32(b, 1);
  gen_value small = gen_fmul(b, x, gen_polynomial(b, z, narrow_erf_f32, (int)COUNT_OF(narrow_erf_f32)));
  gen_value large = gen_fma(b, narrow_tail(b, a, 1.4142135623730951), gen_f32(b, -2), one);
  return gen_select(b, gen_compare(b, GEN_SLT, a, gen_f32(b, 0.625)), small, gen_copysign(b, large, x));
}

gen_value gen_gelu_narrow(gen_builder *b, gen_value x) {
  gen_value p = narrow_tail(b, gen_fabs(b, x), 1);
  gen_value share =
      gen_select(b, gen_compare(b, GEN_SLT, x, gen_f32(b, 0)), p, gen_fsub(b, gen_f32(b, 1), p));
  return gen_fmul(b, x, share);
}
