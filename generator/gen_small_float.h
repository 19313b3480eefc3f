/* 8- and 4-bit floats: by instructions where the target has them, by integer arithmetic elsewhere. Private to
 * the conversions. f32 sources must have been rounded to odd where they stand for wider values. */
#ifndef ARKE_GENERATOR_GEN_SMALL_FLOAT_H
#define ARKE_GENERATOR_GEN_SMALL_FLOAT_H

#include "generator/gen_kernel.h"

/* e4m3 or e5m2 codes of f32 values, saturated, in an I16: `low` in bits 0 to 7, `high` (NULL: 0) above. */
gen_value gen_to_fp8(gen_builder *b, dtype type, gen_value low, gen_value high);
/* F32 of an I8 code; of the two codes in the low half of an I32. */
gen_value gen_from_fp8(gen_builder *b, dtype type, gen_value code);
void gen_from_fp8_pair(gen_builder *b, dtype type, gen_value codes, gen_value values[2]);
/* e2m1 codes, in an I32: `low` in bits 0 to 3, `high` (NULL: 0) above. F32 of a code in an I32. */
gen_value gen_to_fp4(gen_builder *b, gen_value low, gen_value high);
gen_value gen_from_fp4(gen_builder *b, gen_value code);

#endif
