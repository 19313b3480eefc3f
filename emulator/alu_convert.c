/* cvt (PTX ISA 9.7.9.21). Every conversion goes through an exact value: a double, or a 64-bit integer. */
#include <math.h>

#include "emulator/alu_format.h"
#include "emulator/alu_internal.h"

#define EACH_LANE for (int l = 0; l < PTX_LANES; l++)

static bool is_scalar_float(ptx_type t) {
  return t == PTX_TYPE_F16 || t == PTX_TYPE_BF16 || t == PTX_TYPE_F32 || t == PTX_TYPE_F64;
}

static bool is_integer(ptx_type t) {
  ptx_type_reading kind = ptx_type_kind(t);
  return kind == PTX_KIND_OF_UNSIGNED || kind == PTX_KIND_OF_SIGNED;
}

/* A result of the destination type as the whole register: signed integers are extended to its width. */
static uint64_t fill_register(const ptx_instruction *i, uint64_t v) {
  int bits = ptx_type_bits((ptx_type)i->type[0]), width = 8 * i->operands[0].bytes;
  if (width <= bits) return v & alu_mask(bits);
  if (ptx_type_kind((ptx_type)i->type[0]) == PTX_KIND_OF_SIGNED)
    return (uint64_t)alu_sign_extend(v, bits) & alu_mask(width);
  return v & alu_mask(bits);
}

/* v, of the source's sign, moved into the range of the destination. */
static uint64_t saturate(uint64_t v, bool from_signed, int to_bits, bool to_signed) {
  uint64_t highest = to_signed ? alu_mask(to_bits - 1) : alu_mask(to_bits);
  bool negative = from_signed && (int64_t)v < 0;
  int64_t lowest = to_signed ? -(int64_t)highest - 1 : 0;
  if (negative) return (int64_t)v < lowest ? (uint64_t)lowest : v;
  return v > highest ? highest : v;
}

static void integer_to_integer(alu_call *c) {
  const ptx_instruction *i = c->i;
  ptx_type to = (ptx_type)i->type[0], from = (ptx_type)i->type[1];
  int to_bits = ptx_type_bits(to), from_bits = ptx_type_bits(from), width = 8 * i->operands[0].bytes;
  bool to_signed = ptx_type_kind(to) == PTX_KIND_OF_SIGNED,
       from_signed = ptx_type_kind(from) == PTX_KIND_OF_SIGNED;
  const uint64_t *restrict in = c->in[0];
  uint64_t *restrict out = c->out;
  uint64_t from_mask = alu_mask(from_bits), to_mask = alu_mask(to_bits);
  if (from_signed)
    EACH_LANE out[l] = (uint64_t)alu_sign_extend(in[l], from_bits);
  else
    EACH_LANE out[l] = in[l] & from_mask;
  if ((i->flags & PTX_FLAG_SAT) != 0) EACH_LANE out[l] = saturate(out[l], from_signed, to_bits, to_signed);
  if (to_signed && width > to_bits)
    EACH_LANE out[l] = (uint64_t)alu_sign_extend(out[l], to_bits) & alu_mask(width);
  else
    EACH_LANE out[l] &= to_mask;
}

static double flush(double v, bool ftz) {
  return ftz && fabs(v) < 0x1p-126 ? copysign(0.0, v) : v;
}

static double round_to_integer(double v, ptx_rounding mode) {
  switch (mode) {
  case PTX_ROUND_RZI:
  case PTX_ROUND_RZ: return trunc(v);
  case PTX_ROUND_RMI:
  case PTX_ROUND_RM: return floor(v);
  case PTX_ROUND_RPI:
  case PTX_ROUND_RP: return ceil(v);
  default: return nearbyint(v); /* the host rounds to nearest even */
  }
}

/* Values past the range are clamped to it, whether .sat is written or not; NaN is zero for 32-bit and
 * narrower results of narrower sources, and only the top bit otherwise. */
static uint64_t float_to_integer(const ptx_instruction *i, double v) {
  ptx_type to = (ptx_type)i->type[0];
  int bits = ptx_type_bits(to);
  if (isnan(v)) return i->type[1] == PTX_TYPE_F64 || bits == 64 ? 1ull << (bits - 1) : 0;
  v = round_to_integer(v, (ptx_rounding)i->rounding);
  if (ptx_type_kind(to) == PTX_KIND_OF_SIGNED) {
    double limit = ldexp(1.0, bits - 1);
    if (v >= limit) return alu_mask(bits - 1);
    return v < -limit ? (1ull << (bits - 1)) : (uint64_t)(int64_t)v;
  }
  if (v >= ldexp(1.0, bits)) return alu_mask(bits);
  return v > 0 ? (uint64_t)v : 0;
}

static uint64_t integer_to_float(const ptx_instruction *i, uint64_t v) {
  int bits = ptx_type_bits((ptx_type)i->type[1]);
  bool negative = false;
  v &= alu_mask(bits);
  if (ptx_type_kind((ptx_type)i->type[1]) == PTX_KIND_OF_SIGNED && (v >> (bits - 1) & 1) != 0) {
    negative = true;
    v = 0 - (uint64_t)alu_sign_extend(v, bits);
  }
  const alu_format *format = alu_format_of((ptx_type)i->type[0]);
  uint64_t code = alu_round(format, negative, v, 0, false, (ptx_rounding)i->rounding, false);
  if ((i->flags & PTX_FLAG_SAT) == 0) return code;
  return negative ? 0 : v == 0 ? 0 : alu_encode(format, 1.0, PTX_ROUND_RN, false);
}

static double read_float(ptx_type type, uint64_t v) {
  switch (type) {
  case PTX_TYPE_F64: return alu_as_f64(v);
  case PTX_TYPE_F32: return (double)alu_as_f32(v);
  case PTX_TYPE_BF16: return (double)alu_as_f32((v & 0xffff) << 16);
  case PTX_TYPE_F16: return (double)alu_as_f32(alu_f32_of_f16((uint32_t)v & 0xffff));
  default: return alu_decode(alu_format_of(type), v);
  }
}

/* Code of an element for a value, with .relu, .sat and .satfinite. */
static uint64_t write_float(const ptx_instruction *i, ptx_type type, double v) {
  bool relu = (i->flags & PTX_FLAG_RELU) != 0, sat = (i->flags & PTX_FLAG_SAT) != 0;
  if (type == PTX_TYPE_UE8M0X2)
    return alu_encode_ue8m0(v, (ptx_rounding)i->rounding, (i->flags & PTX_FLAG_SATFINITE) != 0);
  if (relu && (v < 0 || v == 0)) v = 0;
  if (sat) v = v > 0 ? (v < 1 ? v : 1) : 0; /* NaN gives 0 */
  ptx_rounding mode = i->rounding == PTX_ROUND_NONE ? PTX_ROUND_RN : (ptx_rounding)i->rounding;
  bool finite = (i->flags & PTX_FLAG_SATFINITE) != 0;
  uint64_t code = alu_encode(alu_format_of(type), v, mode, finite);
  return type == PTX_TYPE_TF32 ? code << 13 : code;
}

/* Most conversions make every NaN the same one. These keep its sign and what fits of its fraction (seen on an
 * H200; PTX leaves it open), all but the last two as a quiet NaN. */
static bool convert_nan(ptx_type to, ptx_type from, uint64_t in, uint64_t *out) {
  if (to == PTX_TYPE_F64 && from == PTX_TYPE_F32)
    *out = (in & 0x80000000) << 32 | 0x7ff8000000000000 | (in & 0x7fffff) << 29;
  else if (to == PTX_TYPE_F32 && from == PTX_TYPE_F64)
    *out = (in >> 32 & 0x80000000) | 0x7fc00000 | (in >> 29 & 0x7fffff);
  else if (to == PTX_TYPE_F16 && from == PTX_TYPE_F64)
    *out = (in >> 48 & 0x8000) | 0x7e00 | (in >> 42 & 0x3ff);
  else if (to == PTX_TYPE_F32 && from == PTX_TYPE_BF16)
    *out = (in & 0xffff) << 16;
  else if (to == PTX_TYPE_TF32 && from == PTX_TYPE_F32)
    *out = in & 0xffffe000;
  else
    return false;
  return true;
}

static uint64_t float_to_float(const ptx_instruction *i, uint64_t in) {
  ptx_type to = (ptx_type)i->type[0], from = (ptx_type)i->type[1];
  bool ftz = (i->flags & PTX_FLAG_FTZ) != 0;
  double v = read_float(from, in);
  uint64_t nan_code;
  bool plain = (i->flags & (PTX_FLAG_RELU | PTX_FLAG_SAT | PTX_FLAG_SATFINITE)) == 0;
  if (isnan(v) && plain && convert_nan(to, from, in, &nan_code)) return nan_code;
  if (ftz && from == PTX_TYPE_F32) v = flush(v, true);
  if (i->rounding >= PTX_ROUND_RNI && i->rounding <= PTX_ROUND_RPI) {
    v = round_to_integer(v, (ptx_rounding)i->rounding);
    return write_float(&(ptx_instruction){.flags = i->flags, .rounding = PTX_ROUND_RN}, to, v);
  }
  uint64_t code = write_float(i, to, v);
  bool tiny = ftz && to == PTX_TYPE_F32 && (code & 0x7f800000) == 0;
  return tiny ? code & 0x80000000 : code;
}

/* Two floats into one register: the first operand is the upper half. */
static bool pack_floats(alu_call *c) {
  const ptx_instruction *i = c->i;
  ptx_type to = (ptx_type)i->type[0];
  int bits = ptx_type_bits(to) / 2;
  bool from_pair = c->in[1] == NULL; /* cvt.….f16x2: both values in one register */
  ptx_type element = i->type[1] == PTX_TYPE_F16X2    ? PTX_TYPE_F16
                     : i->type[1] == PTX_TYPE_BF16X2 ? PTX_TYPE_BF16
                                                     : PTX_TYPE_F32;
  bool usual = to == PTX_TYPE_BF16X2 && element == PTX_TYPE_F32 && i->rounding == PTX_ROUND_RN &&
               (i->flags & (PTX_FLAG_RELU | PTX_FLAG_SATFINITE)) == 0;
  if (usual) {
    EACH_LANE c->out[l] =
        (uint64_t)alu_bf16_of_f32((uint32_t)c->in[0][l]) << 16 | alu_bf16_of_f32((uint32_t)c->in[1][l]);
    return true;
  }
  memset(c->out, 0, sizeof c->out);
  for (uint32_t left = c->active; left != 0; left &= left - 1) {
    int l = __builtin_ctz(left);
    uint64_t high = from_pair ? c->in[0][l] >> 16 : c->in[0][l], low = from_pair ? c->in[0][l] : c->in[1][l];
    c->out[l] =
        write_float(i, to, read_float(element, high)) << bits | write_float(i, to, read_float(element, low));
  }
  return true;
}

/* One register of two narrow floats into two 16-bit ones. */
static bool unpack_floats(alu_call *c) {
  const ptx_instruction *i = c->i;
  ptx_type from = (ptx_type)i->type[1];
  int bits = ptx_type_bits(from) / 2;
  memset(c->out, 0, sizeof c->out);
  for (uint32_t left = c->active; left != 0; left &= left - 1) {
    int l = __builtin_ctz(left);
    for (int e = 0; e < 2; e++) {
      uint64_t code = c->in[0][l] >> (e * bits) & alu_mask(bits);
      double v = from == PTX_TYPE_UE8M0X2 ? alu_decode_ue8m0((uint32_t)code) : read_float(from, code);
      c->out[l] |= write_float(i, (ptx_type)i->type[0], v) << (16 * e);
    }
  }
  return true;
}

/* cvt.f32.bf16 and cvt.f32.f16 without modifiers: the common widening. */
static bool widen(alu_call *c) {
  const ptx_instruction *i = c->i;
  bool bf16 = i->type[1] == PTX_TYPE_BF16;
  if (i->type[0] != PTX_TYPE_F32 || i->rounding != PTX_ROUND_NONE || i->flags != 0) return false;
  if (!bf16 && i->type[1] != PTX_TYPE_F16) return false;
  EACH_LANE {
    uint32_t code = (uint32_t)c->in[0][l] & 0xffff, bits = bf16 ? code << 16 : alu_f32_of_f16(code);
    c->out[l] = !bf16 && (bits & 0x7fffffff) > 0x7f800000 ? 0x7fffffff : bits; /* as convert_nan */
  }
  return true;
}

bool alu_cvt(alu_call *c) {
  const ptx_instruction *i = c->i;
  ptx_type to = (ptx_type)i->type[0], from = (ptx_type)i->type[1];
  bool ftz = (i->flags & PTX_FLAG_FTZ) != 0;
  if (widen(c)) return true;
  if (is_integer(to) && is_integer(from)) {
    integer_to_integer(c);
    return true;
  }
  if (to == PTX_TYPE_F16X2 && from != PTX_TYPE_F32) return unpack_floats(c);
  if (to == PTX_TYPE_BF16X2 && from != PTX_TYPE_F32) return unpack_floats(c);
  if (!is_integer(to) && !is_scalar_float(to) && to != PTX_TYPE_TF32) return pack_floats(c);
  memset(c->out, 0, sizeof c->out);
  for (uint32_t left = c->active; left != 0; left &= left - 1) {
    int l = __builtin_ctz(left);
    uint64_t v;
    if (is_integer(to))
      v = float_to_integer(i, flush(read_float(from, c->in[0][l]), ftz && from == PTX_TYPE_F32));
    else if (is_integer(from))
      v = integer_to_float(i, c->in[0][l]);
    else
      v = float_to_float(i, c->in[0][l]);
    c->out[l] = fill_register(i, v);
  }
  return true;
}

/* cvt.pack.sat: the first operand above the second; eight-bit results go below the third's low half. */
bool alu_cvt_pack(alu_call *c) {
  const ptx_instruction *i = c->i;
  int bits = ptx_type_bits((ptx_type)i->type[0]);
  bool is_signed = ptx_type_kind((ptx_type)i->type[0]) == PTX_KIND_OF_SIGNED;
  int64_t high = (int64_t)alu_mask(is_signed ? bits - 1 : bits), low = is_signed ? -high - 1 : 0;
  EACH_LANE {
    uint64_t packed = 0;
    for (int k = 0; k < 2; k++) {
      int64_t v = alu_sign_extend(c->in[k][l], 32);
      v = v < low ? low : v > high ? high : v;
      packed = packed << bits | ((uint64_t)v & alu_mask(bits));
    }
    c->out[l] = (packed | (bits == 8 ? c->in[2][l] << 16 : 0)) & 0xffffffff;
  }
  return true;
}
