/* Integers and bits beyond gen_kernel.h's arithmetic, and values as other types of their size. */
#ifndef ARKE_GENERATOR_GEN_BITS_H
#define ARKE_GENERATOR_GEN_BITS_H

#include "generator/gen_kernel.h"

/* The same bits as another type: between types of one size, vectors of `lanes` elements included (1: a plain
 * value). */
gen_value gen_bitcast(gen_builder *b, gen_value x, gen_type type, int lanes);
/* Bits of a value, vectors included. */
int gen_bits_of(gen_builder *b, gen_value x);

/* The same I32 or I64, of which the optimizer knows nothing: sums with it stay sums, where known bits would
 * make them disjunctions, which it does not take apart again in products and addresses. */
gen_value gen_unknown(gen_builder *b, gen_value x);

/* Minimum and maximum of integers, signed and unsigned. */
gen_value gen_smin(gen_builder *b, gen_value x, gen_value y);
gen_value gen_smax(gen_builder *b, gen_value x, gen_value y);
gen_value gen_umax(gen_builder *b, gen_value x, gen_value y);
/* The upper half of the product, of I32 or I64. */
gen_value gen_umulhi(gen_builder *b, gen_value x, gen_value y);
gen_value gen_smulhi(gen_builder *b, gen_value x, gen_value y);

/* Of I32 or I64; the result is I32. Leading and trailing zeros of 0 are all the bits. */
gen_value gen_popcount(gen_builder *b, gen_value x);
gen_value gen_leading_zeros(gen_builder *b, gen_value x);
gen_value gen_trailing_zeros(gen_builder *b, gen_value x);
gen_value gen_reverse_bits(gen_builder *b, gen_value x); /* of x's type */
/* `count` bits (1 … all) from bit `position` (a constant), zero- or sign-extended to x's type. */
gen_value gen_bit_field(gen_builder *b, gen_value x, int position, int count, bool is_signed);
/* The same with the position in a register (of x's type, below its size). */
gen_value gen_bit_field_at(gen_builder *b, gen_value x, gen_value position, int count);
/* Byte i of the result is byte (selector >> 4 i & 7) of low (0 … 3) and high (4 … 7); bit 3 of the nibble
 * copies that byte's sign bit over it. I32. */
gen_value gen_permute_bytes(gen_builder *b, gen_value low, gen_value high, gen_value selector);
/* (high:low >> count) modulo 2^32, count modulo 32. I32. */
gen_value gen_funnel_shift(gen_builder *b, gen_value low, gen_value high, gen_value count);

/* Floats as unsigned integers of their size that are ordered as they are: -NaN < -inf < … < -0 < 0 < … < inf
 * < NaN. And back. For selection by digits. F16, BF16 (as I16), F32 (I32), F64 (I64). */
gen_value gen_float_to_ordered(gen_builder *b, gen_value x);
gen_value gen_ordered_to_float(gen_builder *b, gen_value x, gen_type type);

#endif
