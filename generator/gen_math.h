/* The notation's functions on values. All come from here: LLVM's libcalls have no code on a GPU.
 *
 * Special values are C's and PyTorch's: NaN stays NaN (but pow(NaN, 0) and pow(1, NaN) are 1), infinities and
 * zeros keep their signs, subnormal arguments and results count in full accuracy. */
#ifndef ARKE_GENERATOR_GEN_MATH_H
#define ARKE_GENERATOR_GEN_MATH_H

#include "generator/gen_kernel.h"
#include "ir/ir.h"

/* How exact functions of f32 must be. F64 and integers are always in full. */
typedef enum gen_accuracy {
  GEN_ACCURACY_FULL,   /* within the errors of gen_math_error, a few units in the last place of f32 */
  GEN_ACCURACY_TERM,   /* exp and exp2 within (2 + |x|) 2^-23 of the value, or 2^-118 absolutely: for terms of
                        * sums whose largest term is 1, where x is about as large as -log of the term's share;
                        * all else in full */
  GEN_ACCURACY_SCORE,  /* tanh, and quotients by constants, within 2^-20 of the value, or 2^-118 absolutely:
                        * for  scores, of which exponentials are rounded to 11 digits but whose sums may be
                        * stored as  f32; all else in full */
  GEN_ACCURACY_NARROW, /* enough for results stored with at most 11 digits (f16, bf16, e4m3, e5m2): within
                        * 2^-15 of the value, or 2^-118 absolutely, before it is rounded */
  GEN_ACCURACY_FAST,   /* the hardware's approximations wherever there are any; on request only */
} gen_accuracy;
/* What results of this dtype need. */
gen_accuracy gen_accuracy_for(dtype stored);

/* X(NAME, f32, f64, f32 absolute, f64 absolute): worst errors in full accuracy in units of the last place of
 * the result, plus an absolute one, measured over every 16-bit argument and a sample of all the exponents of
 * f32 and f64, and rounded up. Functions that are not here are correctly rounded or exact; recip, sqrt and
 * divisions too. */
#define GEN_MATH_ERRORS(X)                                                                                   \
  X(EXP, 1.0, 1.0, 0, 0)                                                                                     \
  X(EXP2, 1.0, 1.0, 0, 0)                                                                                    \
  X(LOG, 1.0, 1.0, 0, 0)                                                                                     \
  X(LOG2, 1.0, 1.0, 0, 0)                                                                                    \
  X(LOG1P, 1.5, 1.5, 0, 0)                                                                                   \
  X(RSQRT, 1.25, 1.5, 0, 0)                                                                                  \
  X(SIN, 2.5, 2.5, 0, 0)                                                                                     \
  X(COS, 2.5, 2.5, 0, 0)                                                                                     \
  X(TANH, 3.0, 3.0, 0, 0)                                                                                    \
  X(SIGMOID, 3.0, 3.0, 0, 0)                                                                                 \
  X(ERF, 2.0, 2.0, 0, 0)                                                                                     \
  X(POW, 2.0, 2.0, 0, 0)                                                                                     \
  X(SILU, 4.0, 4.0, 0x1p-142, 0x1p-1015)                                                                     \
  X(GELU, 5.0, 8.0, 0x1p-142, 0x1p-1015)                                                                     \
  X(GELU_TANH, 4.0, 8.0, 0x1p-142, 0x1p-1015)                                                                \
  X(SOFTPLUS, 2.0, 2.0, 0, 0)
/* Units in the last place, 0.5 for what is correctly rounded; *absolute is added. */
double gen_math_error(ir_function f, bool f64, double *absolute);

/* Arguments are of one type, F32 or F64, or I32 or I64 where gen_math_takes_integers. */
arke_status gen_math_to(gen_builder *b, ir_function f, gen_accuracy accuracy, const gen_value *args,
                        gen_value *value, arke_error *err);
/* In full accuracy. */
arke_status gen_math(gen_builder *b, ir_function f, const gen_value *args, gen_value *value, arke_error *err);
/* Functions that give integers for integers. */
bool gen_math_takes_integers(ir_function f);
/* x / y of floats of one type. */
gen_value gen_divide(gen_builder *b, gen_accuracy accuracy, gen_value x, gen_value y);
/* The same bits as `n` correctly rounded divisions x[i] / y of F32, in half the instructions or so. */
void gen_divide_all(gen_builder *b, const gen_value *x, int n, gen_value y, gen_value *quotients);
/* x - y floor(x / y) of floats of one type: exact for |x / y| < 2^52 (0 beyond), of y's sign, NaN for y = 0
 * and for infinite x. */
gen_value gen_float_modulo(gen_builder *b, gen_value x, gen_value y);

/* --- one instruction or a few, of F32 or F64 --- */
/* IEEE 754's minimum and maximum: NaN if either is; -0 < 0. Of vectors of two F16 or BF16, too. */
gen_value gen_minimum(gen_builder *b, gen_value x, gen_value y);
gen_value gen_maximum(gen_builder *b, gen_value x, gen_value y);
gen_value gen_fma(gen_builder *b, gen_value x, gen_value y, gen_value z);
gen_value gen_fneg(gen_builder *b, gen_value x);
gen_value gen_fabs(gen_builder *b, gen_value x);
gen_value gen_copysign(gen_builder *b, gen_value magnitude, gen_value sign);
/* A one-operand LLVM intrinsic overloaded on the operand's type: "llvm.fabs". */
gen_value gen_math_unary(gen_builder *b, const char *name, gen_value x);

#endif
