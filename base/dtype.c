#include "base/dtype.h"

#include <math.h>
#include <string.h>

#define ROW(NAME, name, bits, class, code, roundoff) {#name, bits, DTYPE_CLASS_##class, code, roundoff},
static const struct {
  const char *name;
  int bits;
  dtype_class class;
  uint8_t code;
  double roundoff;
} TABLE[DTYPE_COUNT] = {DTYPES(ROW)};
#undef ROW

/* Formats of the small floats. e4m3 (OCP FP8) has no infinity and one NaN pattern; e2m1 has neither. */
typedef struct float_format {
  int exponent_bits, mantissa_bits, bias;
  bool has_infinity, saturates;
  double max;
} float_format;

static const float_format *small_format(dtype t) {
  static const float_format f16 = {5, 10, 15, true, false, 65504.0},
                            bf16 = {8, 7, 127, true, false, 0x1.FEp127}, e4m3 = {4, 3, 7, false, true, 448.0},
                            e5m2 = {5, 2, 15, true, true, 57344.0}, e2m1 = {2, 1, 1, false, true, 6.0};
  switch (t) {
  case DTYPE_F16: return &f16;
  case DTYPE_BF16: return &bf16;
  case DTYPE_E4M3: return &e4m3;
  case DTYPE_E5M2: return &e5m2;
  case DTYPE_E2M1: return &e2m1;
  default: return NULL;
  }
}

/* 2^e, of a normal number. */
static inline double power_of_two(int e) {
  uint64_t bits = (uint64_t)(e + 1023) << 52;
  double v;
  memcpy(&v, &bits, sizeof v);
  return v;
}

/* The exponent e of what has its leading digit at 2^e; that of the format's smallest normal number for less.
 */
static inline int leading(const float_format *f, double magnitude) {
  uint64_t bits;
  memcpy(&bits, &magnitude, sizeof bits);
  int e = (int)(bits >> 52) - 1023, least = 1 - f->bias;
  return e < least ? least : e;
}

/* To nearest, ties to even; what no finite value of the format is near to, infinity or the largest one. */
static inline double round_magnitude(const float_format *f, double magnitude) {
  double beyond = f->saturates ? f->max : (double)INFINITY;
  if (magnitude >= 2 * f->max) return beyond;
  /* Its unit is that of the format at this magnitude: the sum keeps no digit below. */
  double large = 1.5 * power_of_two(leading(f, magnitude) - f->mantissa_bits + 52);
  double rounded = magnitude + large - large;
  return rounded > f->max ? beyond : rounded;
}

/* As the GPU's conversions give it (PTX ISA, cvt). */
static uint32_t small_nan(dtype t) {
  switch (t) {
  case DTYPE_F16:
  case DTYPE_BF16: return 0x7FFF;
  case DTYPE_E4M3:
  case DTYPE_E5M2: return 0x7F;
  default: return 0x7; /* e2m1 has none: the largest value */
  }
}

static uint32_t encode(dtype t, const float_format *f, double value) {
  int width = 1 + f->exponent_bits + f->mantissa_bits;
  uint32_t sign = signbit(value) ? 1u << (width - 1) : 0;
  if (isnan(value)) return small_nan(t);
  double rounded = round_magnitude(f, fabs(value));
  if (isinf(rounded)) return sign | ((1u << f->exponent_bits) - 1) << f->mantissa_bits;
  int e = leading(f, rounded);
  uint32_t mantissa = (uint32_t)(rounded * power_of_two(f->mantissa_bits - e)); /* hidden bit included */
  uint32_t hidden = 1u << f->mantissa_bits;
  if (mantissa < hidden) return sign | mantissa; /* subnormal or zero */
  return sign | (uint32_t)(e + f->bias) << f->mantissa_bits | (mantissa - hidden);
}

static double decode(dtype t, const float_format *f, uint32_t bits) {
  int width = 1 + f->exponent_bits + f->mantissa_bits;
  double sign = bits >> (width - 1) & 1 ? -1.0 : 1.0;
  uint32_t mantissa = bits & ((1u << f->mantissa_bits) - 1), hidden = 1u << f->mantissa_bits;
  int exponent = (int)(bits >> f->mantissa_bits & ((1u << f->exponent_bits) - 1));
  int top = (1 << f->exponent_bits) - 1;
  if (f->has_infinity && exponent == top) return mantissa != 0 ? NAN : sign * INFINITY;
  if (t == DTYPE_E4M3 && exponent == top && mantissa == 7) return NAN;
  if (exponent == 0) return sign * (double)mantissa * power_of_two(1 - f->bias - f->mantissa_bits);
  return sign * (double)(mantissa | hidden) * power_of_two(exponent - f->bias - f->mantissa_bits);
}

const char *dtype_name(dtype t) {
  return TABLE[t].name;
}

bool dtype_from_name(const char *name, dtype *t) {
  for (int i = 0; i < DTYPE_COUNT; i++)
    if (strcmp(name, TABLE[i].name) == 0) {
      *t = (dtype)i;
      return true;
    }
  return false;
}

int dtype_bits(dtype t) {
  return TABLE[t].bits;
}

dtype_class dtype_class_of(dtype t) {
  return TABLE[t].class;
}

double dtype_roundoff(dtype t) {
  return TABLE[t].roundoff;
}

static double integer_max(dtype t) {
  if (TABLE[t].class == DTYPE_CLASS_BOOL) return 1;
  return ldexp(1.0, TABLE[t].bits - (TABLE[t].class == DTYPE_CLASS_INT)) - 1;
}

double dtype_max(dtype t) {
  const float_format *f = small_format(t);
  if (f != NULL) return f->max;
  if (t == DTYPE_F32) return 0x1.FFFFFEp127;
  if (t == DTYPE_F64) return 0x1.FFFFFFFFFFFFFp1023;
  return integer_max(t);
}

bool dtype_from_dlpack(uint8_t code, uint8_t bits, uint16_t lanes, dtype *t) {
  if (lanes != 1) return false;
  for (int i = 0; i < DTYPE_COUNT; i++)
    if (TABLE[i].code == code && TABLE[i].bits == bits) {
      *t = (dtype)i;
      return true;
    }
  return false;
}

uint8_t dtype_dlpack_code(dtype t) {
  return TABLE[t].code;
}

int64_t dtype_bytes(dtype t, int64_t n) {
  return TABLE[t].bits == 4 ? n / 2 + n % 2 : n * (TABLE[t].bits / 8);
}

double dtype_load(dtype t, const void *data, int64_t i) {
  const uint8_t *p = (const uint8_t *)data + (TABLE[t].bits == 4 ? i / 2 : i * (TABLE[t].bits / 8));
  uint64_t bits = 0;
  memcpy(&bits, p, TABLE[t].bits == 4 ? 1 : (size_t)TABLE[t].bits / 8);
  if (TABLE[t].bits == 4) bits = bits >> (i % 2 * 4) & 15;
  const float_format *f = small_format(t);
  if (f != NULL) return decode(t, f, (uint32_t)bits);
  if (t == DTYPE_F32) {
    float v;
    memcpy(&v, p, sizeof v);
    return (double)v;
  }
  if (t == DTYPE_F64) {
    double v;
    memcpy(&v, p, sizeof v);
    return v;
  }
  if (TABLE[t].class == DTYPE_CLASS_BOOL) return bits != 0;
  if (TABLE[t].class == DTYPE_CLASS_UINT) return (double)bits;
  int unused = 64 - TABLE[t].bits;
  return (double)((int64_t)(bits << unused) >> unused);
}

void dtype_store(dtype t, void *data, int64_t i, double value) {
  uint8_t *p = (uint8_t *)data + (TABLE[t].bits == 4 ? i / 2 : i * (TABLE[t].bits / 8));
  const float_format *f = small_format(t);
  uint64_t bits;
  if (f != NULL) {
    bits = encode(t, f, value);
  } else if (t == DTYPE_F32) {
    float v = (float)value;
    memcpy(p, &v, sizeof v);
    return;
  } else if (t == DTYPE_F64) {
    memcpy(p, &value, sizeof value);
    return;
  } else if (TABLE[t].class == DTYPE_CLASS_BOOL) {
    bits = value != 0;
  } else {
    double max = integer_max(t), min = TABLE[t].class == DTYPE_CLASS_INT ? -max - 1 : 0;
    double v = isnan(value) ? 0 : rint(value);
    if (v >= max) { /* 2^63 - 1 is not a double: compare before converting */
      bits = TABLE[t].bits == 64 ? (uint64_t)INT64_MAX : (uint64_t)(int64_t)max;
    } else {
      bits = (uint64_t)(int64_t)(v < min ? min : v);
    }
  }
  if (TABLE[t].bits == 4) {
    int shift = (int)(i % 2) * 4;
    *p = (uint8_t)((*p & ~(15 << shift)) | (int)(bits & 15) << shift);
  } else {
    memcpy(p, &bits, (size_t)TABLE[t].bits / 8);
  }
}

double dtype_round(dtype t, double value) {
  const float_format *f = small_format(t);
  if (f != NULL && !isnan(value)) return copysign(round_magnitude(f, fabs(value)), value);
  uint64_t cell = 0;
  dtype_store(t, &cell, 0, value);
  return dtype_load(t, &cell, 0);
}

void dtype_round_all(dtype t, const double *from, double *to, int64_t n) {
  const float_format *f = small_format(t);
  for (int64_t i = 0; i < n; i++) {
    if (f != NULL && !isnan(from[i]))
      to[i] = copysign(round_magnitude(f, fabs(from[i])), from[i]);
    else if (t == DTYPE_F32)
      to[i] = (double)(float)from[i];
    else
      to[i] = dtype_round(t, from[i]);
  }
}
