#include "generator/gen_convert.h"

#include <stdio.h>

#include "generator/gen_bits.h"
#include "generator/gen_internal.h"
#include "generator/gen_memory.h"
#include "generator/gen_small_float.h"

gen_type gen_storage_type(dtype type) {
  switch (type) {
  case DTYPE_F64: return GEN_F64;
  case DTYPE_F32: return GEN_F32;
  case DTYPE_F16: return GEN_F16;
  case DTYPE_BF16: return GEN_BF16;
  case DTYPE_I64: return GEN_I64;
  case DTYPE_I32: return GEN_I32;
  case DTYPE_I16: return GEN_I16;
  default: return GEN_I8;
  }
}

gen_type gen_compute_type(dtype type) {
  if (type == DTYPE_F64) return GEN_F64;
  if (type == DTYPE_I64) return GEN_I64;
  switch (dtype_class_of(type)) {
  case DTYPE_CLASS_FLOAT: return GEN_F32;
  case DTYPE_CLASS_BOOL: return GEN_I1;
  default: return GEN_I32;
  }
}

gen_value gen_widen(gen_builder *b, dtype type, gen_value element) {
  switch (type) {
  case DTYPE_F16:
  case DTYPE_BF16: return gen_float_cast(b, element, GEN_F32);
  case DTYPE_E4M3:
  case DTYPE_E5M2: return gen_from_fp8(b, type, element);
  case DTYPE_E2M1: return gen_from_fp4(b, gen_zext(b, element, GEN_I32));
  case DTYPE_I16:
  case DTYPE_I8: return gen_sext(b, element, GEN_I32);
  case DTYPE_U8: return gen_zext(b, element, GEN_I32);
  case DTYPE_I4: return gen_bit_field(b, gen_zext(b, element, GEN_I32), 0, 4, true);
  case DTYPE_BOOL: return gen_compare_imm(b, GEN_NE, element, 0);
  default: return element;
  }
}

/* --- to integers --- */

static gen_value clamp(gen_builder *b, gen_value v, int64_t least, int64_t most) {
  LLVMTypeRef type = LLVMTypeOf(v);
  v = gen_smax(b, v, LLVMConstInt(type, (uint64_t)least, 1));
  return gen_smin(b, v, LLVMConstInt(type, (uint64_t)most, 1));
}

/* The instruction rounds and saturates; what it makes of NaN depends on the types (PTX ISA, cvt): 0, but not
 * where one of them has 64 bits. */
static gen_value round_to_integer(gen_builder *b, gen_value v, int bits, bool is_signed) {
  bool wide = gen_type_of(b, v) == GEN_F64, to_i64 = bits == 64;
  char text[64], constraints[16];
  snprintf(text, sizeof text, "cvt.rni.%s%c%d.%s $0, $1;", bits < 32 ? "sat." : "", is_signed ? 's' : 'u',
           bits, wide ? "f64" : "f32");
  snprintf(constraints, sizeof constraints, "=%s,%s", to_i64 ? "l" : "r", wide ? "d" : "f");
  gen_type type = to_i64 ? GEN_I64 : GEN_I32;
  gen_value r = gen_asm(b, b->types[type], text, constraints, &v, 1, GEN_ASM_PURE);
  if (!wide && !to_i64) return r;
  return gen_select(b, gen_compare(b, GEN_EQ, v, v), r, LLVMConstNull(b->types[type]));
}

typedef struct integer_range {
  int bits;
  bool is_signed;
  int64_t least, most;
} integer_range;

static integer_range range_of(dtype type) {
  switch (type) {
  case DTYPE_I64: return (integer_range){64, true, INT64_MIN, INT64_MAX};
  case DTYPE_I32: return (integer_range){32, true, INT32_MIN, INT32_MAX};
  case DTYPE_I16: return (integer_range){16, true, INT16_MIN, INT16_MAX};
  case DTYPE_U8: return (integer_range){8, false, 0, UINT8_MAX};
  case DTYPE_I4: return (integer_range){4, true, -8, 7};
  default: return (integer_range){8, true, INT8_MIN, INT8_MAX};
  }
}

/* A saturated integer in I32, or I64 for i64. */
static gen_value to_integer(gen_builder *b, gen_value v, dtype type) {
  integer_range r = range_of(type);
  gen_type through = r.bits == 64 ? GEN_I64 : GEN_I32, from = gen_type_of(b, v);
  if (gen_is_float(b, v)) {
    if (from == GEN_F16 || from == GEN_BF16) v = gen_float_cast(b, v, GEN_F32);
    if (r.bits >= 8) return round_to_integer(b, v, r.bits, r.is_signed);
    return clamp(b, round_to_integer(b, v, 32, true), r.least, r.most);
  }
  if (from == GEN_I1) return gen_zext(b, v, through);
  if (from == GEN_I64 && r.bits < 64) return gen_trunc(b, clamp(b, v, r.least, r.most), GEN_I32);
  if (from != GEN_I64 && r.bits == 64) return gen_sext(b, v, GEN_I64);
  return r.bits < 32 ? clamp(b, v, r.least, r.most) : v;
}

/* --- to floats --- */

/* f64 to f32, rounded to odd: a later rounding to fewer digits gives what one rounding would have given. */
static gen_value narrow_to_odd(gen_builder *b, gen_value v) {
  gen_value down = gen_asm(b, b->types[GEN_F32], "cvt.rz.f32.f64 $0, $1;", "=f,d", &v, 1, GEN_ASM_PURE);
  gen_value back = gen_float_cast(b, down, GEN_F64);
  /* Unordered: NaN compares unequal and stays NaN with its lowest bit set. */
  gen_value inexact = gen_zext(b, gen_compare(b, GEN_NE, back, v), GEN_I32);
  return gen_bitcast(b, gen_or(b, gen_bitcast(b, down, GEN_I32, 1), inexact), GEN_F32, 1);
}

/* A value in F32 from which a rounding to at most 11 digits is right. Integers that f32 rounds are past what
 * those formats hold, or have ties that f32 keeps apart, but for bf16. */
static gen_value to_f32_for_rounding(gen_builder *b, gen_value v) {
  gen_type from = gen_type_of(b, v);
  if (from == GEN_F64) return narrow_to_odd(b, v);
  if (from == GEN_F32) return v;
  if (gen_is_float(b, v)) return gen_float_cast(b, v, GEN_F32);
  return gen_int_to_float(b, v, GEN_F32, from != GEN_I1);
}

static gen_value to_float(gen_builder *b, gen_value v, gen_type type) {
  gen_type from = gen_type_of(b, v);
  if (from == type) return v;
  if (type == GEN_BF16) {
    if (from == GEN_I32 || from == GEN_I64) /* exact, or odd */
      v = gen_int_to_float(b, v, GEN_F64, true);
    if (gen_type_of(b, v) == GEN_F64 || from == GEN_I1) v = to_f32_for_rounding(b, v);
  }
  if (gen_is_float(b, v)) return gen_float_cast(b, v, type);
  return gen_int_to_float(b, v, type, from != GEN_I1);
}

static gen_value to_bool(gen_builder *b, gen_value v) {
  if (gen_type_of(b, v) == GEN_I1) return v;
  return gen_compare(b, GEN_NE, v, LLVMConstNull(LLVMTypeOf(v)));
}

arke_status gen_convert(gen_builder *b, gen_value v, dtype type, gen_value *value, arke_error *err) {
  (void)err;
  switch (type) {
  case DTYPE_F64:
  case DTYPE_F32:
  case DTYPE_F16:
  case DTYPE_BF16: *value = to_float(b, v, gen_storage_type(type)); break;
  case DTYPE_E4M3:
  case DTYPE_E5M2: *value = gen_trunc(b, gen_to_fp8(b, type, to_f32_for_rounding(b, v), NULL), GEN_I8); break;
  case DTYPE_E2M1: *value = gen_trunc(b, gen_to_fp4(b, to_f32_for_rounding(b, v), NULL), GEN_I8); break;
  case DTYPE_I4: *value = gen_trunc(b, gen_and(b, to_integer(b, v, type), gen_i32(b, 15)), GEN_I8); break;
  case DTYPE_I64:
  case DTYPE_I32: *value = to_integer(b, v, type); break;
  case DTYPE_BOOL: *value = gen_zext(b, to_bool(b, v), GEN_I8); break;
  default: *value = gen_trunc(b, to_integer(b, v, type), gen_storage_type(type)); break;
  }
  return ARKE_OK;
}

/* --- packed --- */

int gen_packed_words(dtype type, int n) {
  return (n * dtype_bits(type) + 31) / 32;
}

/* Bits [bits * i, …) of the words, in I32, of at most 16 bits. */
static gen_value field(gen_builder *b, const gen_value *words, int i, int bits, bool is_signed) {
  return gen_bit_field(b, words[i * bits / 32], i * bits % 32, bits, is_signed);
}

static void unpack_f16(gen_builder *b, const gen_value *words, int n, gen_value *values) {
  for (int i = 0; i < n; i++) {
    gen_value pair = gen_bitcast(b, words[i / 2], GEN_F16, 2);
    values[i] = gen_float_cast(b, gen_lane(b, pair, i % 2), GEN_F32);
  }
}

/* bf16 is the upper half of an f32. */
static void unpack_bf16(gen_builder *b, const gen_value *words, int n, gen_value *values) {
  for (int i = 0; i < n; i++) {
    gen_value w = words[i / 2];
    gen_value bits = i % 2 ? gen_and(b, w, gen_i32(b, 0xFFFF0000)) : gen_shl(b, w, gen_i32(b, 16));
    values[i] = gen_bitcast(b, bits, GEN_F32, 1);
  }
}

static void unpack_fp8(gen_builder *b, dtype type, const gen_value *words, int n, gen_value *values) {
  for (int i = 0; i < n; i += 2) {
    gen_value pair = i % 4 ? gen_lshr(b, words[i / 4], gen_i32(b, 16)) : words[i / 4], two[2];
    gen_from_fp8_pair(b, type, pair, two);
    for (int k = 0; k < 2 && i + k < n; k++) values[i + k] = two[k];
  }
}

void gen_unpack(gen_builder *b, dtype type, const gen_value *words, int n, gen_value *values) {
  switch (type) {
  case DTYPE_F16: unpack_f16(b, words, n, values); return;
  case DTYPE_BF16: unpack_bf16(b, words, n, values); return;
  case DTYPE_E4M3:
  case DTYPE_E5M2: unpack_fp8(b, type, words, n, values); return;
  default: break;
  }
  int bits = dtype_bits(type);
  for (int i = 0; i < n; i++) {
    if (bits == 64) {
      gen_value pair = gen_vector(b, words + 2 * i, 2);
      values[i] = gen_bitcast(b, pair, type == DTYPE_F64 ? GEN_F64 : GEN_I64, 1);
    } else if (bits == 32) {
      values[i] = gen_bitcast(b, words[i], gen_storage_type(type), 1);
    } else {
      gen_value v = field(b, words, i, bits, dtype_class_of(type) == DTYPE_CLASS_INT);
      values[i] = type == DTYPE_E2M1   ? gen_from_fp4(b, v)
                  : type == DTYPE_BOOL ? gen_compare_imm(b, GEN_NE, v, 0)
                                       : v;
    }
  }
}

/* An element in the low bits of an I32, the others 0. */
static gen_value low_bits(gen_builder *b, gen_value v, dtype type) {
  if (type == DTYPE_BOOL) return gen_zext(b, to_bool(b, v), GEN_I32);
  if (type == DTYPE_E2M1) return gen_to_fp4(b, to_f32_for_rounding(b, v), NULL);
  integer_range r = range_of(type);
  gen_value bits = to_integer(b, v, type);
  return r.is_signed ? gen_and(b, bits, gen_i32(b, ((int64_t)1 << r.bits) - 1)) : bits;
}

static void pack_small(gen_builder *b, dtype type, const gen_value *values, int n, gen_value *words) {
  int bits = dtype_bits(type), per_word = 32 / bits;
  for (int i = 0; i < n; i++) {
    gen_value element = low_bits(b, values[i], type);
    int at = i % per_word * bits;
    words[i / per_word] = at ? gen_or(b, words[i / per_word], gen_shl(b, element, gen_i32(b, at))) : element;
  }
}

static void pack_fp8(gen_builder *b, dtype type, const gen_value *values, int n, gen_value *words) {
  for (int i = 0; i < n; i += 2) {
    gen_value high = i + 1 < n ? to_f32_for_rounding(b, values[i + 1]) : NULL;
    gen_value pair = gen_zext(b, gen_to_fp8(b, type, to_f32_for_rounding(b, values[i]), high), GEN_I32);
    words[i / 4] = i % 4 ? gen_or(b, words[i / 4], gen_shl(b, pair, gen_i32(b, 16))) : pair;
  }
}

static void pack_halves(gen_builder *b, dtype type, const gen_value *values, int n, gen_value *words) {
  gen_type from = gen_type_of(b, values[0]), to = gen_storage_type(type);
  for (int i = 0; i < n; i += 2) {
    if (i + 1 == n) {
      words[i / 2] = gen_zext(b, gen_bitcast(b, to_float(b, values[i], to), GEN_I16, 1), GEN_I32);
    } else if (from == GEN_F32) {
      words[i / 2] = gen_pack_halves(b, type, values[i], values[i + 1]);
    } else {
      gen_value pair[] = {to_float(b, values[i], to), to_float(b, values[i + 1], to)};
      words[i / 2] = gen_bitcast(b, gen_vector(b, pair, 2), GEN_I32, 1);
    }
  }
}

void gen_pack(gen_builder *b, dtype type, const gen_value *values, int n, gen_value *words) {
  switch (type) {
  case DTYPE_F64:
  case DTYPE_I64:
    for (int i = 0; i < n; i++) {
      gen_value v = type == DTYPE_I64 ? to_integer(b, values[i], type) : to_float(b, values[i], GEN_F64);
      gen_value pair = gen_bitcast(b, v, GEN_I32, 2);
      for (int k = 0; k < 2; k++) words[2 * i + k] = gen_lane(b, pair, k);
    }
    return;
  case DTYPE_F32:
    for (int i = 0; i < n; i++) words[i] = gen_bitcast(b, to_float(b, values[i], GEN_F32), GEN_I32, 1);
    return;
  case DTYPE_I32:
    for (int i = 0; i < n; i++) words[i] = to_integer(b, values[i], type);
    return;
  case DTYPE_F16:
  case DTYPE_BF16: pack_halves(b, type, values, n, words); return;
  case DTYPE_E4M3:
  case DTYPE_E5M2: pack_fp8(b, type, values, n, words); return;
  default: pack_small(b, type, values, n, words); return;
  }
}

void gen_fp8_to_halves(gen_builder *b, dtype type, gen_value word, dtype to, gen_value halves[2]) {
  if (to == DTYPE_F16 && type == DTYPE_E5M2) { /* the upper bytes of f16 */
    for (int i = 0; i < 2; i++)
      halves[i] = gen_permute_bytes(b, word, gen_i32(b, 0), gen_i32(b, i ? 0x3424 : 0x1404));
  } else if (to == DTYPE_F16 && b->target->has.convert_fp8) {
    for (int i = 0; i < 2; i++) {
      gen_value pair = gen_trunc(b, i ? gen_lshr(b, word, gen_i32(b, 16)) : word, GEN_I16);
      halves[i] =
          gen_asm(b, b->types[GEN_I32], "cvt.rn.f16x2.e4m3x2 $0, $1;", "=r,h", &pair, 1, GEN_ASM_PURE);
    }
  } else {
    gen_value values[4];
    gen_unpack(b, type, &word, 4, values);
    gen_pack(b, to, values, 4, halves);
  }
}

gen_value gen_nibble(gen_builder *b, gen_value word, gen_value index) {
  gen_value at = gen_shl(b, index, gen_i32(b, 2));
  return gen_trunc(b, gen_bit_field_at(b, word, at, 4), GEN_I8);
}

gen_value gen_with_nibble(gen_builder *b, gen_value word, gen_value index, gen_value element) {
  gen_value at = gen_shl(b, index, gen_i32(b, 2));
  gen_value hole = gen_xor(b, gen_shl(b, gen_i32(b, 15), at), gen_i32(b, -1));
  return gen_or(b, gen_and(b, word, hole), gen_shl(b, gen_zext(b, element, GEN_I32), at));
}
