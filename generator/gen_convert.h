/* Elements of tensors and the values that arithmetic works on: conversions between all dtypes, one by one and
 * packed.
 *
 * An element in a register has its dtype's storage type: F16, BF16, F32, F64, I16, I32, I64, or I8 for e4m3,
 * e5m2, i8, u8, bool (0 or 1), and i4 and e2m1 (in the low four bits, the others 0). A value has the type it
 * computes in (docs/notation.md, "Types"): F32, F64, I32, I64 or I1. */
#ifndef ARKE_GENERATOR_GEN_CONVERT_H
#define ARKE_GENERATOR_GEN_CONVERT_H

#include "generator/gen_kernel.h"

gen_type gen_storage_type(dtype type);
gen_type gen_compute_type(dtype type);

/* The value of an element, exactly. */
gen_value gen_widen(gen_builder *b, dtype type, gen_value element);

/* A value (of any type but I8 and I16) as an element to store, as dtype_store does it: one rounding to
 * nearest even; integers, e4m3, e5m2 and e2m1 saturate; NaN gives 0 in integers, true in bool and 6 in e2m1.
 */
arke_status gen_convert(gen_builder *b, gen_value v, dtype type, gen_value *value, arke_error *err);

/* Packed elements as they lie in memory, in i32 words, the first in the low bits of the first word; fewer
 * than 32 bits are the low part of one word. The values of a pack have one type. Floats cost half an
 * instruction for a 16- or 8-bit element, where the target converts pairs. */
void gen_unpack(gen_builder *b, dtype type, const gen_value *words, int n, gen_value *values);
void gen_pack(gen_builder *b, dtype type, const gen_value *values, int n, gen_value *words);
/* The four e4m3 or e5m2 elements of a word as f16 or bf16 (`to`), exactly, two to a word. */
void gen_fp8_to_halves(gen_builder *b, dtype type, gen_value word, dtype to, gen_value halves[2]);
/* Words that n elements take. */
int gen_packed_words(dtype type, int n);

/* Element `index` (i32, 0 … 7) of a word of 4-bit elements, as storage; and the word with it replaced. */
gen_value gen_nibble(gen_builder *b, gen_value word, gen_value index);
gen_value gen_with_nibble(gen_builder *b, gen_value word, gen_value index, gen_value element);

#endif
