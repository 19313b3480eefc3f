/* exp and what is made of it. e^x = 2^k e^r, with r = x - k ln 2 in two steps, of which the first is exact
 * (k times the leading digits of ln 2); e^r by a polynomial. */
#include "generator/gen_math_internal.h"
#include "generator/gen_math_tables.h"

static const double log2e = 1.4426950408889634;

static int digits_of(gen_builder *b, gen_value x) {
  return gen_math_wide(b, x) ? 52 : 23;
}

/* 2^k, k an integer of the size of `like` within the normal exponents. */
static gen_value power_of_two(gen_builder *b, gen_value like, gen_value k) {
  int bias = gen_math_wide(b, like) ? 1023 : 127;
  gen_value exponent = gen_add(b, k, gen_bits_like(b, like, bias));
  return gen_as_float(b, gen_shl(b, exponent, gen_bits_like(b, like, digits_of(b, like))));
}

/* y 2^k for k from twice the least exponent to twice the greatest: in two steps, the first exact. */
static gen_value scale(gen_builder *b, gen_value y, gen_value k) {
  gen_value half = gen_ashr(b, k, gen_bits_like(b, y, 1));
  gen_value first = gen_fmul(b, y, power_of_two(b, y, half));
  return gen_fmul(b, first, power_of_two(b, y, gen_sub(b, k, half)));
}

/* r with x = k ln 2 + r. */
static gen_value reduce(gen_builder *b, gen_value x, gen_value *k) {
  gen_value n = gen_nearest(b, gen_fmul(b, x, gen_like(b, x, log2e)), k), minus_n = gen_fneg(b, n);
  gen_value r = gen_fma(b, minus_n, GEN_PART(b, x, ln2, 0), x);
  return gen_fma(b, minus_n, GEN_PART(b, x, ln2, 1), r);
}

/* Past these ends the result is infinity or 0, as the clamped one's is. */
static gen_value clamp_exponent(gen_builder *b, gen_value x) {
  return gen_math_wide(b, x) ? gen_clamp(b, x, -746, 710) : gen_clamp(b, x, -104, 89);
}

gen_value gen_exp(gen_builder *b, gen_value x, gen_value correction) {
  gen_value k, one = gen_like(b, x, 1);
  gen_value r = reduce(b, clamp_exponent(b, x), &k);
  if (correction) r = gen_fsub(b, r, correction);
  gen_value tail = gen_fma(b, gen_fmul(b, r, r), GEN_POLYNOMIAL(b, r, exp_tail), r);
  return scale(b, gen_fadd(b, one, tail), k);
}

gen_value gen_exp_raised(gen_builder *b, gen_value x, gen_value correction, int raise) {
  gen_value k, r = gen_fsub(b, reduce(b, x, &k), correction);
  gen_value tail = gen_fma(b, gen_fmul(b, r, r), GEN_POLYNOMIAL(b, r, exp_tail), r);
  gen_value exponent =
      gen_shl(b, gen_add(b, k, gen_bits_like(b, x, raise)), gen_bits_like(b, x, digits_of(b, x)));
  return gen_as_float(b, gen_add(b, gen_as_bits(b, gen_fadd(b, gen_like(b, x, 1), tail)), exponent));
}

gen_value gen_exp2_pair(gen_builder *b, gen_value hi, gen_value lo) {
  gen_value k, one = gen_like(b, hi, 1);
  bool wide = gen_math_wide(b, hi);
  hi = wide ? gen_clamp(b, hi, -1080, 1030) : gen_clamp(b, hi, -152, 130);
  gen_value r = gen_fsub(b, hi, gen_nearest(b, hi, &k));
  if (lo) r = gen_fadd(b, r, lo);
  return scale(b, gen_fma(b, r, GEN_POLYNOMIAL(b, r, exp2_tail), one), k);
}

gen_value gen_exp2(gen_builder *b, gen_value x) {
  return gen_exp2_pair(b, x, NULL);
}

gen_value gen_exp_narrow(gen_builder *b, gen_value x) {
  return gen_approx(b, "ex2.approx.ftz.f32", gen_fmul(b, x, gen_f32(b, log2e)));
}

/* 1 / (1 + e^-|x|) or, for negative x, e^x over the same: nothing overflows or cancels. */
gen_value gen_sigmoid(gen_builder *b, gen_value x) {
  gen_value one = gen_like(b, x, 1), zero = gen_like(b, x, 0);
  gen_value e = gen_exp(b, gen_fneg(b, gen_fabs(b, x)), NULL);
  gen_value over = gen_select(b, gen_compare(b, GEN_SLT, x, zero), e, one);
  gen_value r = gen_fmul(b, over, gen_quick_recip(b, gen_fadd(b, one, e)));
  return r;
}

gen_value gen_sigmoid_narrow(gen_builder *b, gen_value x) {
  gen_value e = gen_approx(b, "ex2.approx.ftz.f32", gen_fmul(b, x, gen_f32(b, -log2e)));
  return gen_approx(b, "rcp.approx.ftz.f32", gen_fadd(b, e, gen_f32(b, 1)));
}

/* -t / (2 + t) with t = e^(-2 |x|) - 1, which the reduction gives without cancellation. */
gen_value gen_tanh(gen_builder *b, gen_value x) {
  gen_value k, one = gen_like(b, x, 1);
  gen_value magnitude = gen_clamp(b, gen_fabs(b, x), 0, gen_math_wide(b, x) ? 20 : 10);
  gen_value r = reduce(b, gen_fmul(b, magnitude, gen_like(b, x, -2)), &k);
  gen_value tail = gen_fma(b, gen_fmul(b, r, r), GEN_POLYNOMIAL(b, r, exp_tail), r);
  gen_value power = power_of_two(b, x, k);
  gen_value t = gen_fma(b, power, tail, gen_fsub(b, power, one));
  gen_value over = gen_quick_recip(b, gen_fadd(b, t, gen_like(b, x, 2)));
  return gen_copysign(b, gen_fmul(b, gen_fneg(b, t), over), x);
}

/* 1 - 2 / (1 + e^2x) would cancel near 0. Within 2^-20 of the value, a term more than 11 digits need, which
 * scores do: a soft cap is as many times as large as their error may be. */
gen_value gen_tanh_narrow(gen_builder *b, gen_value x) {
  gen_value z = gen_fmul(b, x, x), one = gen_f32(b, 1);
  gen_value small = gen_fmul(b, x, gen_polynomial(b, z, narrow_tanh_f32, (int)COUNT_OF(narrow_tanh_f32)));
  gen_value e = gen_approx(b, "ex2.approx.ftz.f32", gen_fmul(b, x, gen_f32(b, 2 * log2e)));
  gen_value over = gen_approx(b, "rcp.approx.ftz.f32", gen_fadd(b, e, one));
  gen_value large = gen_fma(b, over, gen_f32(b, -2), one);
  return gen_select(b, gen_compare(b, GEN_SLT, gen_fabs(b, x), gen_f32(b, 0.625)), small, large);
}

/* x (1 + tanh u) / 2 = x sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3). The error of 2 u is that of the
 * result where e^2u is small, so 2 u is computed to twice the precision there. */
gen_value gen_gelu_tanh(gen_builder *b, gen_value x) {
  gen_value one = gen_like(b, x, 1), zero = gen_like(b, x, 0);
  bool wide = gen_math_wide(b, x);
  gen_value c = GEN_PART(b, x, gelu_c, 0), c_low = GEN_PART(b, x, gelu_c, 1);
  gen_value c3 = GEN_PART(b, x, gelu_c3, 0), c3_low = GEN_PART(b, x, gelu_c3, 1);
  gen_value a = gen_clamp(b, gen_fabs(b, x), 0, wide ? 60 : 30); /* sigmoid is 0 or 1 well before */
  gen_value square = gen_fmul(b, a, a), square_low = gen_fma(b, a, a, gen_fneg(b, square));
  gen_value product = gen_fmul(b, square, c3);
  gen_value product_low = gen_fma(b, square, c3, gen_fneg(b, product));
  product_low = gen_fma(b, square_low, c3, product_low);
  product_low = gen_fma(b, square, c3_low, product_low);
  gen_value p = gen_fadd(b, product, c), rest = gen_fsub(b, p, product);
  gen_value p_low = gen_fadd(b, gen_fsub(b, c, rest), gen_fsub(b, product, gen_fsub(b, p, rest)));
  p_low = gen_fadd(b, gen_fadd(b, p_low, product_low), c_low);
  gen_value u = gen_fmul(b, a, p);
  gen_value u_low = gen_fma(b, a, p_low, gen_fma(b, a, p, gen_fneg(b, u)));
  gen_value e = gen_exp(b, gen_fneg(b, u), u_low);
  gen_value over = gen_select(b, gen_compare(b, GEN_SLT, x, zero), e, one);
  gen_value r = gen_fmul(b, x, over);
  return gen_fmul(b, r, gen_quick_recip(b, gen_fadd(b, one, e)));
}

gen_value gen_gelu_tanh_narrow(gen_builder *b, gen_value x) {
  gen_value z = gen_fmul(b, x, x);
  gen_value p = gen_fma(b, z, gen_f32(b, -log2e * gelu_c3_f64[0]), gen_f32(b, -log2e * gelu_c_f64[0]));
  gen_value e = gen_approx(b, "ex2.approx.ftz.f32", gen_fmul(b, x, p));
  return gen_fmul(b, x, gen_approx(b, "rcp.approx.ftz.f32", gen_fadd(b, e, gen_f32(b, 1))));
}
