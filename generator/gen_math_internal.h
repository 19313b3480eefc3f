/* What the files of the functions share. All work on F32 and F64 alike unless they say otherwise; x's type is
 * the result's. Private to gen_math*.c. */
#ifndef ARKE_GENERATOR_GEN_MATH_INTERNAL_H
#define ARKE_GENERATOR_GEN_MATH_INTERNAL_H

#include "generator/gen_internal.h"
#include "generator/gen_math.h"

/* The polynomial `name`_f32 or `name`_f64 of gen_math_tables.h at x. */
#define GEN_POLYNOMIAL(b, x, name)                                                                           \
  (gen_math_wide(b, x) ? gen_polynomial(b, x, name##_f64, (int)COUNT_OF(name##_f64))                         \
                       : gen_polynomial(b, x, name##_f32, (int)COUNT_OF(name##_f32)))
/* Part i of a constant in parts. */
#define GEN_PART(b, x, name, i) gen_like(b, x, gen_math_wide(b, x) ? name##_f64[i] : name##_f32[i])

bool gen_math_wide(gen_builder *b, gen_value x); /* F64 */
gen_value gen_like(gen_builder *b, gen_value x, double value);
/* An integer constant of the size of x; its bits as that integer, and back. */
gen_value gen_bits_like(gen_builder *b, gen_value x, int64_t value);
gen_value gen_as_bits(gen_builder *b, gen_value x);
gen_value gen_as_float(gen_builder *b, gen_value bits);
gen_value gen_polynomial(gen_builder *b, gen_value x, const double *coefficients, int n);
/* max(least, min(x, most)), NaN kept. */
gen_value gen_clamp(gen_builder *b, gen_value x, double least, double most);
/* The nearest integer of |x| < 2^22 (2^51), as a float and (NULL: not wanted) an integer of x's size. */
gen_value gen_nearest(gen_builder *b, gen_value x, gen_value *integer);
/* 1 / x: correctly rounded in F64; in F32 within 1 ulp for normal x and 1 / x. */
gen_value gen_quick_recip(gen_builder *b, gen_value x);
/* One instruction of F32 ("ex2.approx.ftz.f32"). */
gen_value gen_approx(gen_builder *b, const char *instruction, gen_value x);

/* gen_math_exp.c. exp(x - correction) for a small correction (NULL: none). */
gen_value gen_exp(gen_builder *b, gen_value x, gen_value correction);
/* The same times 2^raise, for x where that is a normal number: no ends to look after, and one step. */
gen_value gen_exp_raised(gen_builder *b, gen_value x, gen_value correction, int raise);
gen_value gen_exp2(gen_builder *b, gen_value x);
/* 2^(hi + lo), |lo| < 1/2. */
gen_value gen_exp2_pair(gen_builder *b, gen_value hi, gen_value lo);
gen_value gen_exp_narrow(gen_builder *b, gen_value x); /* F32: ex2.approx.ftz of x log2 e */
gen_value gen_sigmoid(gen_builder *b, gen_value x);
gen_value gen_sigmoid_narrow(gen_builder *b, gen_value x);
gen_value gen_tanh(gen_builder *b, gen_value x);
gen_value gen_tanh_narrow(gen_builder *b, gen_value x);
gen_value gen_gelu_tanh(gen_builder *b, gen_value x);
gen_value gen_gelu_tanh_narrow(gen_builder *b, gen_value x);
/* gen_math_log.c */
gen_value gen_log(gen_builder *b, gen_value x);
gen_value gen_log2(gen_builder *b, gen_value x);
gen_value gen_log1p(gen_builder *b, gen_value x);
gen_value gen_log_narrow(gen_builder *b, gen_value x, double scale); /* log(x) scale, scale a constant */
gen_value gen_log1p_narrow(gen_builder *b, gen_value x);
gen_value gen_softplus(gen_builder *b, gen_value x);
gen_value gen_softplus_narrow(gen_builder *b, gen_value x);
/* log2(x) of a positive finite x as hi + lo, to a few bits less than twice the type's. */
gen_value gen_log2_pair(gen_builder *b, gen_value x, gen_value *lo);
/* gen_math_pow.c */
gen_value gen_pow(gen_builder *b, gen_value x, gen_value y, bool narrow);
/* gen_math_trig.c */
gen_value gen_sin(gen_builder *b, gen_value x, bool cosine);
gen_value gen_sin_narrow(gen_builder *b, gen_value x, bool cosine);
gen_value gen_sin_fast(gen_builder *b, gen_value x, bool cosine);
/* gen_math_erf.c */
gen_value gen_erf(gen_builder *b, gen_value x);
gen_value gen_erf_narrow(gen_builder *b, gen_value x);
gen_value gen_gelu(gen_builder *b, gen_value x);
gen_value gen_gelu_narrow(gen_builder *b, gen_value x);

#endif
