/* Logarithms. x = 2^e m with m in [sqrt(1/2), sqrt 2), f = m - 1, s = f / (2 + f):
 * log m = log((1 + s) / (1 - s)) = 2 s + s^3 P(s^2) = f - (f^2 / 2 - s (f^2 / 2 + s^2 P)), whose first term
 * is exact and large beside the others. */
#include "generator/gen_math_internal.h"

#include <math.h>

#include "generator/gen_math_tables.h"

typedef struct parts {
  gen_value e; /* exponent, as a float */
  gen_value m_minus_1;
  gen_value e_bits;
} parts;

static parts split(gen_builder *b, gen_value x, bool subnormals) {
  bool wide = gen_math_wide(b, x);
  int digits = wide ? 52 : 23, up = wide ? 54 : 25;
  int64_t root_half = wide ? 0x3FE6A09E667F3BCD : 0x3F3504F3;
  gen_value tiny = NULL, n = x;
  if (subnormals) {
    tiny = gen_compare(b, GEN_SLT, x, gen_like(b, x, wide ? 0x1p-1022 : 0x1p-126));
    n = gen_select(b, tiny, gen_fmul(b, x, gen_like(b, x, ldexp(1, up))), x);
  }
  gen_value bits = gen_as_bits(b, n), shift = gen_bits_like(b, x, digits);
  gen_value e = gen_ashr(b, gen_sub(b, bits, gen_bits_like(b, x, root_half)), shift);
  gen_value m = gen_as_float(b, gen_sub(b, bits, gen_shl(b, e, shift)));
  if (tiny) e = gen_sub(b, e, gen_select(b, tiny, gen_bits_like(b, x, up), gen_bits_like(b, x, 0)));
  gen_value narrow = wide ? gen_trunc(b, e, GEN_I32) : e;
  return (parts){gen_int_to_float(b, narrow, wide ? GEN_F64 : GEN_F32, true),
                 gen_fsub(b, m, gen_like(b, x, 1)), e};
}

/* log(1 + f) = f - `half_square` + `rest`. */
static gen_value log_tail_of(gen_builder *b, gen_value f, gen_value *half_square) {
  gen_value below = gen_fadd(b, f, gen_like(b, f, 2));
  /* The quotient is in small terms alone: an error of 2^-23 of it is none. */
  gen_value s = gen_math_wide(b, f) ? gen_fdiv(b, f, below)
                                    : gen_fmul(b, f, gen_approx(b, "rcp.approx.ftz.f32", below));
  gen_value z = gen_fmul(b, s, s);
  *half_square = gen_fmul(b, gen_fmul(b, f, gen_like(b, f, 0.5)), f);
  return gen_fmul(b, s, gen_fma(b, z, GEN_POLYNOMIAL(b, z, log_tail), *half_square));
}

/* What is not positive and finite. */
static gen_value ends(gen_builder *b, gen_value x, gen_value r) {
  gen_value zero = gen_like(b, x, 0);
  r = gen_select(b, gen_compare(b, GEN_SLT, x, gen_like(b, x, INFINITY)), r, x); /* infinity and NaN */
  r = gen_select(b, gen_compare(b, GEN_EQ, x, zero), gen_like(b, x, -INFINITY), r);
  return gen_select(b, gen_compare(b, GEN_SLT, x, zero), gen_like(b, x, NAN), r);
}

static gen_value natural(gen_builder *b, gen_value e, gen_value f) {
  gen_value half_square, t = log_tail_of(b, f, &half_square);
  t = gen_fma(b, e, GEN_PART(b, f, ln2, 1), t);
  gen_value c = gen_fsub(b, f, gen_fsub(b, half_square, t));
  return gen_fma(b, e, GEN_PART(b, f, ln2, 0), c);
}

gen_value gen_log(gen_builder *b, gen_value x) {
  parts p = split(b, x, true);
  return ends(b, x, natural(b, p.e, p.m_minus_1));
}

gen_value gen_log2(gen_builder *b, gen_value x) {
  parts p = split(b, x, true);
  gen_value f = p.m_minus_1, half_square, t = log_tail_of(b, f, &half_square);
  t = gen_fmul(b, gen_fsub(b, t, half_square), GEN_PART(b, x, log2e, 0));
  t = gen_fma(b, f, GEN_PART(b, x, log2e, 1), t);
  /* In two pieces, so that the exponent meets what is left of the product. */
  gen_value product = gen_fmul(b, f, GEN_PART(b, x, log2e, 0));
  gen_value rest = gen_fadd(b, t, gen_fma(b, f, GEN_PART(b, x, log2e, 0), gen_fneg(b, product)));
  gen_value sum = gen_fadd(b, p.e, product);
  gen_value lost = gen_fadd(b, gen_fsub(b, p.e, sum), product); /* |e| is 0 or larger */
  return ends(b, x, gen_fadd(b, sum, gen_fadd(b, lost, rest)));
}

/* u = 1 + x and c with u + c = 1 + x exactly: c joins the fraction. */
gen_value gen_log1p(gen_builder *b, gen_value x) {
  bool wide = gen_math_wide(b, x);
  gen_value one = gen_like(b, x, 1), u = gen_fadd(b, x, one), back = gen_fsub(b, u, x);
  gen_value c = gen_fadd(b, gen_fsub(b, one, back), gen_fsub(b, x, gen_fsub(b, u, back)));
  parts p = split(b, u, false);
  /* 2^-e; where e is largest, c counts for nothing. */
  gen_value most = gen_bits_like(b, x, wide ? 1000 : 120);
  gen_value e = gen_select(b, gen_compare(b, GEN_SGT, p.e_bits, most), most, p.e_bits);
  gen_value power =
      gen_shl(b, gen_sub(b, gen_bits_like(b, x, wide ? 1023 : 127), e), gen_bits_like(b, x, wide ? 52 : 23));
  gen_value r = natural(b, p.e, gen_fma(b, c, gen_as_float(b, power), p.m_minus_1));
  r = ends(b, u, r);
  return gen_select(b, gen_compare(b, GEN_EQ, x, gen_like(b, x, 0)), x, r); /* -0 */
}

/* lg2.approx has an absolute error near 1; there a polynomial serves. */
gen_value gen_log_narrow(gen_builder *b, gen_value x, double factor) {
  gen_value f = gen_fsub(b, x, gen_f32(b, 1));
  gen_value p = gen_polynomial(b, f, narrow_log1p_f32, (int)COUNT_OF(narrow_log1p_f32));
  gen_value near_one = gen_fmul(b, f, p);
  if (factor != 1) near_one = gen_fmul(b, near_one, gen_f32(b, factor));
  gen_value far = gen_fmul(b, gen_approx(b, "lg2.approx.f32", x), gen_f32(b, 0.69314718055994531 * factor));
  return gen_select(b, gen_compare(b, GEN_SLT, gen_fabs(b, f), gen_f32(b, 0.25)), near_one, far);
}

gen_value gen_log1p_narrow(gen_builder *b, gen_value x) {
  gen_value p = gen_polynomial(b, x, narrow_log1p_f32, (int)COUNT_OF(narrow_log1p_f32));
  gen_value u = gen_approx(b, "lg2.approx.ftz.f32", gen_fadd(b, x, gen_f32(b, 1)));
  return gen_select(b, gen_compare(b, GEN_SLT, gen_fabs(b, x), gen_f32(b, 0.25)), gen_fmul(b, x, p),
                    gen_fmul(b, u, gen_f32(b, 0.69314718055994531)));
}

/* max(x, 0) + log(1 + e^-|x|). */
gen_value gen_softplus(gen_builder *b, gen_value x) {
  gen_value e = gen_exp(b, gen_fneg(b, gen_fabs(b, x)), NULL), l;
  if (gen_math_wide(b, x)) {
    l = gen_log1p(b, e);
  } else {
    gen_value p = gen_polynomial(b, e, log1p_unit_f32, (int)COUNT_OF(log1p_unit_f32));
    l = gen_fma(b, gen_fmul(b, e, e), p, e);
  }
  return gen_fadd(b, gen_maximum(b, x, gen_like(b, x, 0)), l);
}

gen_value gen_softplus_narrow(gen_builder *b, gen_value x) {
  gen_value e = gen_exp_narrow(b, gen_fneg(b, gen_fabs(b, x)));
  gen_value p = gen_polynomial(b, e, narrow_log1p_unit_f32, (int)COUNT_OF(narrow_log1p_unit_f32));
  return gen_fma(b, e, p, gen_maximum(b, x, gen_f32(b, 0)));
}

/* s with its rounding error, then 2 s + s^3 P, times log2 e, plus e: all large sums and products in pairs. */
gen_value gen_log2_pair(gen_builder *b, gen_value x, gen_value *lo) {
  parts p = split(b, x, true);
  gen_value f = p.m_minus_1, two = gen_like(b, x, 2);
  gen_value d = gen_fadd(b, f, two), d_low = gen_fsub(b, f, gen_fsub(b, d, two));
  gen_value over = gen_quick_recip(b, d), s = gen_fmul(b, f, over), minus_s = gen_fneg(b, s);
  gen_value rest = gen_fma(b, minus_s, d_low, gen_fma(b, minus_s, d, f));
  gen_value s_low = gen_fmul(b, rest, over);
  gen_value z = gen_fmul(b, s, s);
  gen_value z_low = gen_fma(b, gen_fmul(b, s, two), s_low, gen_fma(b, s, s, gen_fneg(b, z)));
  /* P = 2 / 3 + z (…), whose second part is small enough for one precision. */
  gen_value third = GEN_PART(b, x, third, 0), w = gen_fmul(b, z, GEN_POLYNOMIAL(b, z, log_rest));
  gen_value p_high = gen_fadd(b, third, w), p_low = gen_fadd(b, gen_fsub(b, third, p_high), w);
  p_low = gen_fadd(b, p_low, GEN_PART(b, x, third, 1));
  gen_value cube = gen_fmul(b, s, z), cube_low = gen_fma(b, s, z, gen_fneg(b, cube));
  cube_low = gen_fma(b, s_low, z, gen_fma(b, s, z_low, cube_low));
  gen_value cubic = gen_fmul(b, cube, p_high), cubic_low = gen_fma(b, cube, p_high, gen_fneg(b, cubic));
  cubic_low = gen_fma(b, cube_low, p_high, gen_fma(b, cube, p_low, cubic_low));
  /* l = 2 s + cubic, the low parts with it; then times log2 e. */
  gen_value l = gen_fadd(b, s, s), sum = gen_fadd(b, l, cubic);
  gen_value l_low = gen_fadd(b, gen_fsub(b, l, sum), cubic);
  l_low = gen_fadd(b, l_low, gen_fma(b, s_low, two, cubic_low));
  gen_value c = GEN_PART(b, x, log2e, 0), c_low = GEN_PART(b, x, log2e, 1);
  gen_value t = gen_fmul(b, sum, c), t_low = gen_fma(b, sum, c, gen_fneg(b, t));
  t_low = gen_fma(b, l_low, c, gen_fma(b, sum, c_low, t_low));
  gen_value hi = gen_fadd(b, p.e, t);
  *lo = gen_fadd(b, gen_fadd(b, gen_fsub(b, p.e, hi), t), t_low);
  return hi;
}
