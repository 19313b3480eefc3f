#include "generator/gen_small_float.h"

#include <math.h>
#include <string.h>

#include "generator/gen_bits.h"
#include "generator/gen_internal.h"
#include "generator/gen_math.h"

/* --- by integer arithmetic --- */

static int64_t float_bits(double v) {
  float f = (float)v;
  uint32_t bits;
  memcpy(&bits, &f, sizeof bits);
  return bits;
}

/* Code of the magnitude of x, at most `largest`, in a format of `digits` fraction bits and this bias: what
 * f32's own rounding leaves when a number is added whose last place is the format's smallest step, or the
 * f32's fraction rounded in its bits. NaN gives the code of `largest`. */
static gen_value encode_magnitude(gen_builder *b, gen_value x, int digits, int bias, double largest) {
  gen_value magnitude = gen_math_unary(b, "llvm.fabs", x);
  /* This minimum picks the number beside a NaN. */
  magnitude =
      gen_select(b, gen_compare(b, GEN_SLT, magnitude, gen_f32(b, largest)), magnitude, gen_f32(b, largest));
  double step = ldexp(1, 1 - bias - digits + 23);
  gen_value tiny = gen_bitcast(b, gen_fadd(b, magnitude, gen_f32(b, step)), GEN_I32, 1);
  tiny = gen_add_imm(b, tiny, -float_bits(step));
  gen_value bits = gen_bitcast(b, magnitude, GEN_I32, 1);
  gen_value odd = gen_bit_field(b, bits, 23 - digits, 1, false);
  gen_value rounded = gen_add(b, gen_add_imm(b, bits, ((int64_t)1 << (22 - digits)) - 1), odd);
  rounded = gen_lshr(b, rounded, gen_i32(b, 23 - digits));
  rounded = gen_add_imm(b, rounded, -((int64_t)(127 - bias) << digits));
  return gen_select(b, gen_compare(b, GEN_SLT, magnitude, gen_f32(b, ldexp(1, 1 - bias))), tiny, rounded);
}

/* With the sign above the code's `width` - 1 bits; NaN has the code `nan` and no sign. */
static gen_value with_sign(gen_builder *b, gen_value x, gen_value code, int width, int nan) {
  gen_value sign = gen_lshr(b, gen_bitcast(b, x, GEN_I32, 1), gen_i32(b, 31));
  gen_value number = gen_or(b, code, gen_shl(b, sign, gen_i32(b, width - 1)));
  return gen_select(b, gen_compare(b, GEN_EQ, x, x), number, gen_i32(b, nan));
}

static gen_value encode_fp8(gen_builder *b, dtype type, gen_value x) {
  gen_value code =
      type == DTYPE_E4M3 ? encode_magnitude(b, x, 3, 7, 448) : encode_magnitude(b, x, 2, 15, 57344);
  return with_sign(b, x, code, 8, 0x7F);
}

static gen_value encode_fp4(gen_builder *b, gen_value x) {
  return with_sign(b, x, encode_magnitude(b, x, 1, 1, 6), 4, 7);
}

/* The code's exponent and fraction as those of an f32, a power of two too small; the sign in its place. */
static gen_value decode(gen_builder *b, gen_value code, int width, int digits, int bias) {
  gen_value magnitude = gen_bit_field(b, code, 0, width - 1, false);
  gen_value f = gen_bitcast(b, gen_shl(b, magnitude, gen_i32(b, 23 - digits)), GEN_F32, 1);
  gen_value scaled = gen_bitcast(b, gen_fmul(b, f, gen_f32(b, ldexp(1, 127 - bias))), GEN_I32, 1);
  gen_value sign = gen_shl(b, gen_bit_field(b, code, width - 1, 1, false), gen_i32(b, 31));
  return gen_bitcast(b, gen_or(b, scaled, sign), GEN_F32, 1);
}

static gen_value decode_e4m3(gen_builder *b, gen_value code) {
  gen_value is_nan = gen_compare_imm(b, GEN_EQ, gen_bit_field(b, code, 0, 7, false), 0x7F);
  return gen_select(b, is_nan, gen_f32(b, NAN), decode(b, code, 8, 3, 7));
}

/* --- by instructions --- */

gen_value gen_to_fp8(gen_builder *b, dtype type, gen_value low, gen_value high) {
  if (!b->target->has.convert_fp8) {
    gen_value code = encode_fp8(b, type, low);
    if (high) code = gen_or(b, code, gen_shl(b, encode_fp8(b, type, high), gen_i32(b, 8)));
    return gen_trunc(b, code, GEN_I16);
  }
  /* The instruction puts its first source into the upper half. */
  const char *text = type == DTYPE_E4M3 ? "cvt.rn.satfinite.e4m3x2.f32 $0, $1, $2;"
                                        : "cvt.rn.satfinite.e5m2x2.f32 $0, $1, $2;";
  return gen_asm(b, b->types[GEN_I16], text, "=h,f,f", (gen_value[]){high ? high : gen_f32(b, 0), low}, 2,
                 GEN_ASM_PURE);
}

void gen_from_fp8_pair(gen_builder *b, dtype type, gen_value codes, gen_value values[2]) {
  if (type == DTYPE_E5M2) { /* the upper byte of an f16 */
    gen_value spread = gen_permute_bytes(b, codes, gen_i32(b, 0), gen_i32(b, 0x1404));
    gen_value halves = gen_bitcast(b, spread, GEN_F16, 2);
    for (int i = 0; i < 2; i++) values[i] = gen_float_cast(b, gen_lane(b, halves, i), GEN_F32);
    return;
  }
  if (!b->target->has.convert_fp8) {
    for (int i = 0; i < 2; i++) values[i] = decode_e4m3(b, gen_bit_field(b, codes, 8 * i, 8, false));
    return;
  }
  gen_value pair = gen_trunc(b, codes, GEN_I16);
  gen_value word =
      gen_asm(b, b->types[GEN_I32], "cvt.rn.f16x2.e4m3x2 $0, $1;", "=r,h", &pair, 1, GEN_ASM_PURE);
  gen_value halves = gen_bitcast(b, word, GEN_F16, 2);
  for (int i = 0; i < 2; i++) values[i] = gen_float_cast(b, gen_lane(b, halves, i), GEN_F32);
}

gen_value gen_from_fp8(gen_builder *b, dtype type, gen_value code) {
  gen_value two[2];
  gen_from_fp8_pair(b, type, gen_zext(b, code, GEN_I32), two);
  return two[0];
}

gen_value gen_to_fp4(gen_builder *b, gen_value low, gen_value high) {
  if (!b->target->has.convert_fp4) {
    gen_value code = encode_fp4(b, low);
    return high ? gen_or(b, code, gen_shl(b, encode_fp4(b, high), gen_i32(b, 4))) : code;
  }
  /* There is no register of 8 bits outside the block. */
  return gen_asm(b, b->types[GEN_I32],
                 "{\n.reg .b8 pair;\n.reg .b16 half;\ncvt.rn.satfinite.e2m1x2.f32 pair, $1, $2;\n"
                 "cvt.u16.u8 half, pair;\ncvt.u32.u16 $0, half;\n}",
                 "=r,f,f", (gen_value[]){high ? high : gen_f32(b, 0), low}, 2, GEN_ASM_PURE);
}

gen_value gen_from_fp4(gen_builder *b, gen_value code) {
  return decode(b, code, 4, 1, 1);
}
