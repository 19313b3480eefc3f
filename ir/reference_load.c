#include <string.h>

#include "ir/ir_types.h"
#include "ir/reference.h"

static inline double bf16_value(uint16_t bits) {
  uint32_t wide = (uint32_t)bits << 16;
  float v;
  memcpy(&v, &wide, sizeof v);
  return (double)v;
}

/* Without a branch on the sign, which nothing predicts. */
static inline double f16_value(uint16_t bits) {
  uint64_t sign = (uint64_t)(bits & 0x8000u) << 48, magnitude = bits & 0x7FFFu, wide;
  double v;
  if (magnitude - 0x400 < 0x7800) {
    wide = ((magnitude << 42) + (UINT64_C(1008) << 52)) | sign;
  } else if (magnitude < 0x400) { /* subnormal */
    v = (double)magnitude * 0x1p-24;
    memcpy(&wide, &v, sizeof wide);
    wide |= sign;
  } else {
    wide = (magnitude << 42) | UINT64_C(2047) << 52 | sign;
  }
  memcpy(&v, &wide, sizeof v);
  return v;
}

#define EACH(expression)                                                                                     \
  do {                                                                                                       \
    if (offsets == NULL) {                                                                                   \
      int64_t at = base;                                                                                     \
      for (int l = 0; l < n; l++, at += step) expression;                                                    \
    } else {                                                                                                 \
      for (int l = 0; l < n; l++) {                                                                          \
        int64_t at = offsets[l];                                                                             \
        expression;                                                                                          \
      }                                                                                                      \
    }                                                                                                        \
  } while (0)

/* memcpy: the caller's memory need not be aligned to the element. */
#define ELEMENT(type, field, value)                                                                          \
  do {                                                                                                       \
    type x;                                                                                                  \
    memcpy(&x, bytes + at * (int64_t)sizeof x, sizeof x);                                                    \
    out[l].field = (value);                                                                                  \
  } while (0)

static inline unsigned nibble(const uint8_t *bytes, int64_t at) {
  return (unsigned)(bytes[at >> 1] >> ((at & 1) * 4)) & 15u;
}

void ref_load_integers(dtype t, const void *data, int64_t base, int64_t step, const int64_t *offsets, int n,
                       ref_lane *out) {
  const uint8_t *bytes = data;
  switch (t) {
  case DTYPE_I64: EACH(ELEMENT(int64_t, i, x)); break;
  case DTYPE_I32: EACH(ELEMENT(int32_t, i, x)); break;
  case DTYPE_I16: EACH(ELEMENT(int16_t, i, x)); break;
  case DTYPE_I8: EACH(ELEMENT(int8_t, i, x)); break;
  case DTYPE_U8: EACH(ELEMENT(uint8_t, i, x)); break;
  case DTYPE_BOOL: EACH(ELEMENT(uint8_t, i, x != 0)); break;
  case DTYPE_I4: EACH(out[l].i = (int64_t)(nibble(bytes, at) ^ 8u) - 8); break;
  default: break; /* the compiler of definitions loads floats as floats */
  }
}

void ref_load_floats(const ref_machine *s, dtype t, const void *data, int64_t base, int64_t step,
                     const int64_t *offsets, int n, ref_lane *out) {
  const uint8_t *bytes = data;
  const double *table = s->tables[t];
  switch (t) {
  case DTYPE_F64: EACH(ELEMENT(double, f, x)); return;
  case DTYPE_F32: EACH(ELEMENT(float, f, (double)x)); return;
  case DTYPE_F16: EACH(ELEMENT(uint16_t, f, f16_value(x))); return;
  case DTYPE_BF16: EACH(ELEMENT(uint16_t, f, bf16_value(x))); return;
  case DTYPE_E4M3:
  case DTYPE_E5M2: EACH(out[l].f = table[bytes[at]]); return;
  case DTYPE_E2M1: EACH(out[l].f = table[nibble(bytes, at)]); return;
  default: break;
  }
  ref_load_integers(t, data, base, step, offsets, n, out);
  for (int l = 0; l < n; l++) out[l].f = (double)out[l].i;
}

ref_lane ref_round(dtype t, ref_lane v, bool integer) {
  bool to_integer = ir_level_of(t) < LEVEL_F32;
  if (t == DTYPE_I64 && integer) return v; /* exact past 2^53 */
  double x = integer ? (double)v.i : v.f;
  double rounded = t == DTYPE_F32 ? (double)(float)x : t == DTYPE_F64 ? x : dtype_round(t, x);
  if (!to_integer) return (ref_lane){.f = rounded};
  return (ref_lane){.i = rounded >= 0x1p63 ? INT64_MAX : rounded < -0x1p63 ? INT64_MIN : (int64_t)rounded};
}
