#include "emulator/alu_format.h"

#include <math.h>
#include <string.h>

static const alu_format formats[] = {
#define X(NAME, exponent, fraction, bias, infinity, largest, nan)                                            \
  {exponent, fraction, bias, infinity, largest, nan},
    ALU_FORMATS(X)
#undef X
};

enum {
#define X(NAME, ...) FORMAT_##NAME,
  ALU_FORMATS(X)
#undef X
};

const alu_format *alu_format_of(ptx_type type) {
  switch (type) {
  case PTX_TYPE_F16:
  case PTX_TYPE_F16X2: return &formats[FORMAT_F16];
  case PTX_TYPE_BF16:
  case PTX_TYPE_BF16X2: return &formats[FORMAT_BF16];
  case PTX_TYPE_F32:
  case PTX_TYPE_F32X2: return &formats[FORMAT_F32];
  case PTX_TYPE_F64: return &formats[FORMAT_F64];
  case PTX_TYPE_TF32: return &formats[FORMAT_TF32];
  case PTX_TYPE_E4M3:
  case PTX_TYPE_E4M3X2: return &formats[FORMAT_E4M3];
  case PTX_TYPE_E5M2:
  case PTX_TYPE_E5M2X2: return &formats[FORMAT_E5M2];
  case PTX_TYPE_E2M3:
  case PTX_TYPE_E2M3X2: return &formats[FORMAT_E2M3];
  case PTX_TYPE_E3M2:
  case PTX_TYPE_E3M2X2: return &formats[FORMAT_E3M2];
  case PTX_TYPE_E2M1:
  case PTX_TYPE_E2M1X2: return &formats[FORMAT_E2M1];
  default: return NULL;
  }
}

static uint64_t sign_of(const alu_format *f, bool negative) {
  return (uint64_t)negative << (f->exponent_bits + f->fraction_bits);
}

/* Whether a value with the given last kept bit, first dropped bit and rest is rounded away from zero. */
static bool rounds_up(ptx_rounding mode, bool negative, bool last, bool half, bool rest) {
  switch (mode) {
  case PTX_ROUND_RZ: return false;
  case PTX_ROUND_RM: return negative && (half || rest);
  case PTX_ROUND_RP: return !negative && (half || rest);
  case PTX_ROUND_RNA: return half;
  default: return half && (rest || last);
  }
}

static bool overflows_to_largest(ptx_rounding mode, bool negative) {
  return mode == PTX_ROUND_RZ || (mode == PTX_ROUND_RM && !negative) || (mode == PTX_ROUND_RP && negative);
}

uint64_t alu_round(const alu_format *f, bool negative, uint64_t m, int exponent, bool odd_bit,
                   ptx_rounding mode, bool saturate) {
  uint64_t sign = sign_of(f, negative);
  if (m == 0 && !odd_bit) return sign;
  if (m == 0) { /* far below the smallest subnormal: a bit there stands for it */
    m = 1;
    exponent = -2000;
    odd_bit = false;
  }
  int lead = 63 - __builtin_clzll(m);
  m <<= 63 - lead;
  int e = exponent + lead;        /* m is now 1.xxx · 2^63, value 1.xxx · 2^e */
  int least = 1 - f->bias;        /* exponent of the smallest normal */
  int at = e < least ? least : e; /* exponent that sets the spacing */
  int shift = 63 - f->fraction_bits + (at - e);
  uint64_t kept;
  bool half, rest;
  if (shift < 64) { /* shift >= 11, as no format keeps more than 53 bits */
    kept = m >> shift;
    half = (m >> (shift - 1) & 1) != 0;
    rest = (m & ((1ull << (shift - 1)) - 1)) != 0 || odd_bit;
  } else {
    kept = 0;
    half = shift == 64 && m >> 63 != 0;
    rest = shift > 64 || (m << 1) != 0 || odd_bit;
  }
  kept += rounds_up(mode, negative, (kept & 1) != 0, half, rest);
  /* A normal `kept` has its leading one at fraction_bits, which adds one to the exponent field; so does a
   * carry. */
  uint64_t code = ((uint64_t)(at - least) << f->fraction_bits) + kept;
  if (at - least < (1 << f->exponent_bits) && code <= f->largest) return sign | code;
  if (saturate || overflows_to_largest(mode, negative)) return sign | f->largest;
  if (f->has_infinity) return sign | (((1ull << f->exponent_bits) - 1) << f->fraction_bits);
  return sign | (f->nan != 0 ? f->nan : f->largest);
}

uint64_t alu_encode(const alu_format *f, double v, ptx_rounding mode, bool saturate) {
  if (isnan(v)) return f->nan != 0 ? f->nan : f->largest;
  bool negative = signbit(v) != 0;
  if (isinf(v)) {
    uint64_t sign = sign_of(f, negative);
    if (saturate || !f->has_infinity) return sign | (saturate || f->nan == 0 ? f->largest : f->nan);
    return sign | (((1ull << f->exponent_bits) - 1) << f->fraction_bits);
  }
  uint64_t bits;
  memcpy(&bits, &v, sizeof bits);
  int field = (int)(bits >> 52 & 0x7ff);
  uint64_t m = bits & ((1ull << 52) - 1);
  if (field != 0) m |= 1ull << 52;
  return alu_round(f, negative, m, (field == 0 ? 1 : field) - 1075, false, mode, saturate);
}

double alu_decode(const alu_format *f, uint64_t code) {
  uint64_t fraction = code & ((1ull << f->fraction_bits) - 1);
  uint64_t field = code >> f->fraction_bits & ((1ull << f->exponent_bits) - 1);
  bool negative = (code >> (f->exponent_bits + f->fraction_bits) & 1) != 0;
  uint64_t magnitude = field << f->fraction_bits | fraction;
  double v;
  if (magnitude > f->largest)
    v = f->has_infinity && fraction == 0 ? (double)INFINITY : (double)NAN;
  else if (field == 0)
    v = ldexp((double)fraction, 1 - f->bias - f->fraction_bits);
  else
    v = ldexp((double)(fraction | 1ull << f->fraction_bits), (int)field - f->bias - f->fraction_bits);
  return negative ? -v : v;
}

double alu_fma_odd(double x, double y, double z) {
  double p = x * y; /* exact: 24 + 24 bits, and exponents far from double's limits */
  double s = p + z;
  if (!isfinite(s)) return s;
  double back = s - p, error = (p - (s - back)) + (z - back);
  if (error == 0) return s;
  uint64_t bits;
  memcpy(&bits, &s, sizeof bits);
  if ((bits & 1) != 0) return s;
  /* s is even and not the sum: its odd neighbour on the sum's side is the other end of the interval it lies
   * in. */
  bool away = (error > 0) == (s > 0);
  bits = away ? bits + 1 : bits - 1;
  memcpy(&s, &bits, sizeof s);
  return s;
}

uint32_t alu_encode_ue8m0(double v, ptx_rounding mode, bool saturate) {
  if (isnan(v)) return 0xff;
  v = fabs(v);
  if (isinf(v)) return saturate ? 0xfe : 0xff;
  if (v == 0) return 0;
  int e;
  double fraction = frexp(v, &e); /* fraction in [1/2, 1) */
  int code = e - 1 + 127 + (mode == PTX_ROUND_RP && fraction != 0.5);
  if (code > 0xfe) return saturate ? 0xfe : 0xff;
  return code < 0 ? 0 : (uint32_t)code;
}

double alu_decode_ue8m0(uint32_t code) {
  return (code & 0xff) == 0xff ? (double)NAN : ldexp(1.0, (int)(code & 0xff) - 127);
}

uint32_t alu_f16_of_f32(uint32_t bits) {
  uint32_t sign = bits >> 16 & 0x8000, a = bits & 0x7fffffff;
  if (a > 0x7f800000) return 0x7fff;
  if (a >= 0x477ff000) return sign | 0x7c00; /* 65520 and more */
  if (a >= 0x38800000) return sign | ((a - 0x38000000 + 0xfff + (a >> 13 & 1)) >> 13);
  if (a < 0x33000000) return sign; /* below half the smallest subnormal; exactly half ties to zero too */
  uint32_t m = (a & 0x7fffff) | 0x800000, shift = 126 - (a >> 23);
  uint32_t kept = m >> shift, dropped = m & ((1u << shift) - 1), half = 1u << (shift - 1);
  return sign | (kept + (dropped > half || (dropped == half && (kept & 1) != 0)));
}

uint32_t alu_f32_of_f16(uint32_t bits) {
  uint32_t sign = (bits & 0x8000) << 16, field = bits >> 10 & 31, fraction = bits & 0x3ff;
  if (field == 31) return sign | 0x7f800000 | fraction << 13;
  if (field != 0) return sign | (field + 112) << 23 | fraction << 13;
  if (fraction == 0) return sign;
  int lead = 31 - __builtin_clz(fraction); /* 0 … 9 */
  return sign | (uint32_t)(lead + 103) << 23 | ((fraction << (23 - lead)) & 0x7fffff);
}
