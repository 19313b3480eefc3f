/* The notation's functions on values. Private to the expression lowering.
 *
 * Accuracy in f32 (the hardware's approximations, PTX ISA, "Floating Point Instructions"): abs, neg, sqrt,
 * recip, fma, min, max and the roundings are exact or correctly rounded; rsqrt within 2^-22.9, exp2 within 2
 * units in the last place, exp within 4, log2 and log within 2^-22 absolute near 1 and 2 units elsewhere;
 * sigmoid and silu within 8. */
#ifndef ARKE_GENERATOR_GEN_MATH_H
#define ARKE_GENERATOR_GEN_MATH_H

#include "generator/gen_kernel.h"
#include "ir/ir.h"

/* Arguments are of one type, F32 or F64, or I32 or I64 where gen_math_takes_integers. */
arke_status gen_math(gen_builder *b, ir_function f, const gen_value *args, gen_value *value, arke_error *err);
/* Functions that give integers for integers. */
bool gen_math_takes_integers(ir_function f);
/* IEEE 754's minimum and maximum, of F32 or F64: NaN if either is; -0 < 0. */
gen_value gen_minimum(gen_builder *b, gen_value x, gen_value y);
gen_value gen_maximum(gen_builder *b, gen_value x, gen_value y);
/* A one-operand LLVM intrinsic overloaded on the operand's type: "llvm.fabs". */
gen_value gen_math_unary(gen_builder *b, const char *name, gen_value x);

#endif
