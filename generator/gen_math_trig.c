/* Sine and cosine. x = q pi / 2 + r with |r| <= pi / 4 and a little: by subtracting q times pi / 2 in three
 * parts for moderate x (each step an fma, whose one rounding is relative to what is left), and by Payne and
 * Hanek's method for the others: x times those digits of 2 / pi that matter, in integers. */
#include "generator/gen_math_internal.h"

#include <math.h>
#include <string.h>

#include "generator/gen_bits.h"
#include "generator/gen_control.h"
#include "generator/gen_math_tables.h"

static const double two_over_pi = 0.63661977236758134;

/* Word i (I32) of 2 / pi's digits, from constant memory. */
static gen_value pi_word(gen_builder *b, gen_value i) {
  static const char name[] = "two_over_pi";
  LLVMValueRef table = LLVMGetNamedGlobal(b->module, name);
  LLVMTypeRef i32 = b->types[GEN_I32];
  enum { N = (int)COUNT_OF(two_over_pi_words), CONSTANT_SPACE = 4 };
  if (!table) {
    gen_value words[N];
    for (int k = 0; k < N; k++) words[k] = gen_i32(b, two_over_pi_words[k]);
    table = LLVMAddGlobalInAddressSpace(b->module, LLVMArrayType2(i32, N), name, CONSTANT_SPACE);
    LLVMSetInitializer(table, LLVMConstArray2(i32, words, N));
    LLVMSetGlobalConstant(table, 1);
    LLVMSetLinkage(table, LLVMInternalLinkage);
  }
  gen_value at = LLVMBuildInBoundsGEP2(b->ir, i32, table, &i, 1, "");
  return LLVMBuildLoad2(b->ir, i32, at, "");
}

/* 32 digits of 2 / pi from digit 32 j + shift on. */
static gen_value digits(gen_builder *b, gen_value j, int k, gen_value shift) {
  gen_value high = pi_word(b, gen_add_imm(b, j, k)), low = pi_word(b, gen_add_imm(b, j, k + 1));
  return gen_intrinsic(b, "llvm.fshl.i32", b->types[GEN_I32], (gen_value[]){high, low, shift}, 3);
}

/* Rounds a quarter-turn count in fixed point (the top two bits of `top`, then a fraction) to the nearest, and
 * leaves the signed fraction, in units of 2^-64 quarter turns. */
static gen_value round_turns(gen_builder *b, gen_value top, gen_value next, gen_value *quarter) {
  gen_value fraction = gen_or(b, gen_shl(b, top, gen_i64(b, 2)), gen_lshr(b, next, gen_i64(b, 62)));
  gen_value up = gen_lshr(b, fraction, gen_i64(b, 63));
  *quarter = gen_trunc(b, gen_add(b, gen_lshr(b, top, gen_i64(b, 62)), up), GEN_I32);
  return fraction; /* as a signed number: less one where it was rounded up */
}

/* m 2^e in 96 digits: m has 24, and e is at least -4. */
static gen_value large_f32(gen_builder *b, gen_value x, gen_value *quarter) {
  gen_value bits = gen_and(b, gen_as_bits(b, x), gen_i32(b, 0x7FFFFFFF));
  gen_value m = gen_or(b, gen_and(b, bits, gen_i32(b, 0x7FFFFF)), gen_i32(b, 0x800000));
  /* The digits before this one make whole turns; the table starts 32 digits before the point. */
  gen_value first = gen_add_imm(b, gen_lshr(b, bits, gen_i32(b, 23)), -150 - 2 + 32);
  gen_value j = gen_lshr(b, first, gen_i32(b, 5)), shift = gen_and(b, first, gen_i32(b, 31));
  gen_value wide = gen_zext(b, m, GEN_I64), w[3];
  for (int k = 0; k < 3; k++) w[k] = gen_zext(b, digits(b, j, k, shift), GEN_I64);
  gen_value low = gen_mul(b, wide, w[2]);
  gen_value middle = gen_add(b, gen_mul(b, wide, w[1]), gen_lshr(b, low, gen_i64(b, 32)));
  gen_value high = gen_add(b, gen_mul(b, wide, w[0]), gen_lshr(b, middle, gen_i64(b, 32)));
  gen_value top = gen_or(b, gen_shl(b, high, gen_i64(b, 32)), gen_and(b, middle, gen_i64(b, 0xFFFFFFFF)));
  gen_value fraction = round_turns(b, top, gen_shl(b, low, gen_i64(b, 32)), quarter);
  return gen_fmul(b, gen_int_to_float(b, fraction, GEN_F32, true), gen_f32(b, 1.5707963267948966 * 0x1p-64));
}

/* The same with 53 and 192 digits. */
static gen_value large_f64(gen_builder *b, gen_value x, gen_value *quarter) {
  gen_value bits = gen_and(b, gen_as_bits(b, x), gen_i64(b, INT64_MAX));
  gen_value m = gen_or(b, gen_and(b, bits, gen_i64(b, ((int64_t)1 << 52) - 1)), gen_i64(b, (int64_t)1 << 52));
  gen_value e = gen_trunc(b, gen_lshr(b, bits, gen_i64(b, 52)), GEN_I32);
  gen_value first = gen_add_imm(b, e, -1075 - 2 + 32);
  /* NaN and infinity, whose result is not used, must not read past the table. */
  first = gen_umin(b, first, gen_i32(b, 1001));
  gen_value j = gen_lshr(b, first, gen_i32(b, 5)), shift = gen_and(b, first, gen_i32(b, 31)), w[3];
  for (int k = 0; k < 3; k++) {
    gen_value high = gen_zext(b, digits(b, j, 2 * k, shift), GEN_I64);
    w[k] = gen_or(b, gen_shl(b, high, gen_i64(b, 32)), gen_zext(b, digits(b, j, 2 * k + 1, shift), GEN_I64));
  }
  gen_value p1 = gen_mul(b, m, w[1]), carry = gen_umulhi(b, m, w[2]);
  gen_value next = gen_add(b, p1, carry);
  gen_value over = gen_zext(b, gen_compare(b, GEN_ULT, next, carry), GEN_I64);
  gen_value top = gen_add(b, gen_add(b, gen_mul(b, m, w[0]), gen_umulhi(b, m, w[1])), over);
  gen_value fraction = round_turns(b, top, next, quarter);
  gen_value low = gen_int_to_float(b, gen_shl(b, next, gen_i64(b, 2)), GEN_F64, false);
  gen_value turns = gen_fma(b, low, gen_like(b, x, 0x1p-64), gen_int_to_float(b, fraction, GEN_F64, true));
  return gen_fmul(b, turns, gen_like(b, x, 1.5707963267948966 * 0x1p-64));
}

/* r, and q modulo 4 in an I32. */
static gen_value reduce(gen_builder *b, gen_value x, gen_value *quarter) {
  bool wide = gen_math_wide(b, x);
  gen_value magnitude = gen_fabs(b, x);
  gen_value limit = gen_like(b, x, wide ? 0x1p30 : 0x1p20), q;
  gen_value n = gen_nearest(b, gen_fmul(b, x, gen_like(b, x, two_over_pi)), &q), minus = gen_fneg(b, n);
  gen_value r = gen_fma(b, minus, GEN_PART(b, x, half_pi, 0), x);
  r = gen_fma(b, minus, GEN_PART(b, x, half_pi, 1), r);
  r = gen_fma(b, minus, GEN_PART(b, x, half_pi, 2), r);
  gen_value carried[] = {r, wide ? gen_trunc(b, q, GEN_I32) : q};
  gen_branch large;
  gen_if(b, &large, gen_compare(b, GEN_SGE, magnitude, limit), carried, 2);
  gen_value turns, rest = wide ? large_f64(b, magnitude, &turns) : large_f32(b, magnitude, &turns);
  gen_value negative = gen_compare(b, GEN_SLT, x, gen_like(b, x, 0));
  carried[0] = gen_select(b, negative, gen_fneg(b, rest), rest);
  carried[1] = gen_select(b, negative, gen_sub(b, gen_i32(b, 0), turns), turns);
  gen_value infinite = gen_compare(b, GEN_EQ, magnitude, gen_like(b, x, INFINITY));
  carried[0] = gen_select(b, infinite, gen_like(b, x, NAN), carried[0]);
  gen_if_end(b, &large);
  *quarter = carried[1];
  return carried[0];
}

/* The function of r that quadrant `quarter` takes, with its sign. */
static gen_value assemble(gen_builder *b, gen_value sine, gen_value cosine, gen_value quarter,
                          bool is_cosine) {
  if (is_cosine) quarter = gen_add_imm(b, quarter, 1);
  gen_value odd = gen_compare_imm(b, GEN_NE, gen_and(b, quarter, gen_i32(b, 1)), 0);
  gen_value negative = gen_compare_imm(b, GEN_NE, gen_and(b, quarter, gen_i32(b, 2)), 0);
  gen_value v = gen_select(b, odd, cosine, sine);
  return gen_select(b, negative, gen_fneg(b, v), v);
}

/* The polynomials make a 0 of no sign. */
static gen_value signed_zero(gen_builder *b, gen_value v, gen_value x, bool is_cosine) {
  return is_cosine ? v : gen_select(b, gen_compare(b, GEN_EQ, x, gen_like(b, x, 0)), x, v);
}

gen_value gen_sin(gen_builder *b, gen_value x, bool cosine) {
  gen_value quarter, r = reduce(b, x, &quarter), z = gen_fmul(b, r, r);
  gen_value s = gen_fma(b, gen_fmul(b, r, z), GEN_POLYNOMIAL(b, z, sin_tail), r);
  gen_value c = gen_fma(b, gen_fmul(b, z, z), GEN_POLYNOMIAL(b, z, cos_tail),
                        gen_fma(b, z, gen_like(b, x, -0.5), gen_like(b, x, 1)));
  return signed_zero(b, assemble(b, s, c, quarter, cosine), x, cosine);
}

gen_value gen_sin_narrow(gen_builder *b, gen_value x, bool cosine) {
  gen_value quarter, r = reduce(b, x, &quarter), z = gen_fmul(b, r, r);
  gen_value s = gen_polynomial(b, z, narrow_sin_f32, (int)COUNT_OF(narrow_sin_f32));
  gen_value c = gen_polynomial(b, z, narrow_cos_f32, (int)COUNT_OF(narrow_cos_f32));
  gen_value sine = gen_fma(b, gen_fmul(b, r, z), s, r), cosine_value = gen_fma(b, z, c, gen_f32(b, 1));
  return signed_zero(b, assemble(b, sine, cosine_value, quarter, cosine), x, cosine);
}

gen_value gen_sin_fast(gen_builder *b, gen_value x, bool cosine) {
  const double turn = 6.283185307179586;
  gen_value n = gen_nearest(b, gen_fmul(b, x, gen_f32(b, 1 / turn)), NULL);
  gen_value r = gen_fma(b, n, gen_f32(b, -turn), x);
  return gen_approx(b, cosine ? "cos.approx.ftz.f32" : "sin.approx.ftz.f32", r);
}
