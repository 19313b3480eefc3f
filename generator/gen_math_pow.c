/* x^y = 2^(y log2 |x|), the logarithm and the product to twice the precision; then what IEEE 754 (and C and
 * PyTorch) say of signs, zeros, infinities and NaN. */
#include "generator/gen_math_internal.h"

#include <math.h>

gen_value gen_pow(gen_builder *b, gen_value x, gen_value y, bool narrow) {
  bool wide = gen_math_wide(b, x);
  gen_value zero = gen_like(b, x, 0), one = gen_like(b, x, 1), infinity = gen_like(b, x, INFINITY);
  gen_value magnitude = gen_fabs(b, x), r;
  /* An exponent past these ends takes every base but 1 to 0 or infinity, as the end itself does. */
  gen_value exponent = wide ? gen_clamp(b, y, -0x1p70, 0x1p70) : gen_clamp(b, y, -0x1p35, 0x1p35);
  if (narrow) {
    r = gen_approx(b, "ex2.approx.f32", gen_fmul(b, exponent, gen_log2(b, magnitude)));
  } else {
    gen_value low, high = gen_log2_pair(b, magnitude, &low);
    gen_value p = gen_fmul(b, exponent, high);
    gen_value p_low = gen_fma(b, exponent, low, gen_fma(b, exponent, high, gen_fneg(b, p)));
    /* Past the ends the low part may be as large as it likes. */
    gen_value inside = gen_compare(b, GEN_SLT, gen_fabs(b, p), gen_like(b, x, wide ? 1100 : 160));
    r = gen_exp2_pair(b, p, gen_select(b, inside, p_low, zero));
  }
  gen_value below = gen_compare(b, GEN_SLT, y, zero);
  gen_value at_zero = gen_select(b, below, infinity, zero),
            at_infinity = gen_select(b, below, zero, infinity);
  r = gen_select(b, gen_compare(b, GEN_EQ, magnitude, zero), at_zero, r);
  r = gen_select(b, gen_compare(b, GEN_EQ, magnitude, infinity), at_infinity, r);
  /* A negative base: odd exponents keep the sign, others that are integers drop it, the rest give NaN. */
  gen_value half = gen_fmul(b, y, gen_like(b, x, 0.5));
  gen_value whole = gen_compare(b, GEN_EQ, gen_math_unary(b, "llvm.floor", y), y);
  gen_value odd = gen_and(b, whole, gen_compare(b, GEN_NE, gen_math_unary(b, "llvm.floor", half), half));
  gen_value negative = gen_compare(b, GEN_SLT, gen_as_bits(b, x), gen_bits_like(b, x, 0));
  r = gen_select(b, gen_and(b, negative, odd), gen_fneg(b, r), r);
  gen_value finite_negative =
      gen_and(b, gen_compare(b, GEN_SLT, x, zero), gen_compare(b, GEN_SGT, x, gen_fneg(b, infinity)));
  gen_value fractional = gen_xor(b, whole, gen_bool(b, true));
  r = gen_select(b, gen_and(b, finite_negative, fractional), gen_like(b, x, NAN), r);
  gen_value known = gen_and(b, gen_compare(b, GEN_EQ, x, x), gen_compare(b, GEN_EQ, y, y));
  r = gen_select(b, known, r, gen_like(b, x, NAN));
  gen_value is_one = gen_or(b, gen_compare(b, GEN_EQ, x, one), gen_compare(b, GEN_EQ, y, zero));
  return gen_select(b, is_one, one, r);
}
