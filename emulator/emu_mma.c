#include "emulator/emu_mma.h"

#include <math.h>
#include <string.h>

#include "base/dtype.h"

#define ZERO_EXPONENT (-8192) /* below any sum of two exponents of real values */

typedef struct format {
  int bits, exponent_bits, mantissa_bits, bias, term_bits, result_bits, k;
} format;

static const format formats[] = {
#define X(NAME, ...) {__VA_ARGS__},
    MMA_TYPES(X)
#undef X
};

int mma_type_bits(mma_type t) {
  return formats[t].bits;
}

int mma_type_k(mma_type t) {
  return formats[t].k;
}

static uint32_t raw_element(mma_type t, const void *raw, int i) {
  switch (formats[t].bits) {
  case 8: return ((const uint8_t *)raw)[i];
  case 16: return ((const uint16_t *)raw)[i];
  default: return ((const uint32_t *)raw)[i] >> 13;
  }
}

static bool is_special(mma_type t, uint32_t exponent, uint32_t mantissa) {
  const format *f = &formats[t];
  if (exponent != (1u << f->exponent_bits) - 1) return false;
  /* e4m3 spends its top exponent on numbers; only all ones is a NaN */
  return t != MMA_E4M3 || mantissa == 7;
}

void mma_decode(mma_operand *o, mma_type t, const void *raw, int rows, bool negate) {
  const format *f = &formats[t];
  o->type = t;
  o->rows = rows;
  o->k = f->k;
  o->any_special = false;
  memset(o->special, 0, sizeof o->special);
  uint32_t mantissa_mask = (1u << f->mantissa_bits) - 1, exponent_mask = (1u << f->exponent_bits) - 1;
  int sign_shift = f->mantissa_bits + f->exponent_bits;
  for (int r = 0; r < rows; r++) {
    for (int k = 0; k < f->k; k++) {
      uint32_t bits = raw_element(t, raw, r * f->k + k);
      uint32_t mantissa = bits & mantissa_mask, exponent = bits >> f->mantissa_bits & exponent_mask;
      bool negative = ((bits >> sign_shift & 1) != 0) != negate;
      if (__builtin_expect(is_special(t, exponent, mantissa), 0)) o->special[r] = o->any_special = true;
      int e = exponent == 0 ? 1 - f->bias : (int)exponent - f->bias;
      int m = exponent == 0 ? (int)mantissa : (int)(mantissa | 1u << f->mantissa_bits);
      if (m == 0) e = ZERO_EXPONENT;
      o->mantissa[k][r] = (int16_t)(negative ? -m : m);
      o->exponent[k][r] = (int16_t)e;
    }
  }
  for (int r = 0; o->any_special && r < rows; r++) {
    for (int k = 0; o->special[r] && k < f->k; k++) {
      uint32_t bits = raw_element(t, raw, r * f->k + k);
      uint32_t mantissa = bits & mantissa_mask, exponent = bits >> f->mantissa_bits & exponent_mask;
      bool negative = ((bits >> sign_shift & 1) != 0) != negate;
      float v = ldexpf((float)o->mantissa[k][r], o->exponent[k][r] - f->mantissa_bits);
      if (is_special(t, exponent, mantissa)) v = mantissa != 0 ? NAN : negative ? -INFINITY : INFINITY;
      o->value[r][k] = v;
    }
  }
}

static double element_value(const mma_operand *o, int r, int k) {
  if (o->special[r]) return (double)o->value[r][k];
  return ldexp(o->mantissa[k][r], o->exponent[k][r] - formats[o->type].mantissa_bits);
}

/* The canonical NaN that the matrix unit returns. */
static float canonical_nan(void) {
  uint32_t bits = 0x7FFFFFFF;
  float f;
  memcpy(&f, &bits, sizeof f);
  return f;
}

/* Only whether the result is an infinity or a NaN depends on special inputs, so doubles serve. */
static float special_sum(const mma_operand *a, int row, const mma_operand *b, int n, float c) {
  double sum = c;
  for (int k = 0; k < a->k; k++) sum += element_value(a, row, k) * element_value(b, n, k);
  return isnan(sum) ? canonical_nan() : (float)sum;
}

/* sum * 2^scale, rounded toward zero to that many fraction bits. */
static float round_to_zero(int64_t sum, int scale, int fraction_bits) {
  uint32_t sign = sum < 0 ? 1u << 31 : 0, bits;
  uint64_t magnitude = sum < 0 ? (uint64_t)-sum : (uint64_t)sum;
  if (magnitude == 0) return 0;
  int top = 63 - __builtin_clzll(magnitude), exponent = top + scale;
  uint32_t mantissa = (uint32_t)(top >= 23 ? magnitude >> (top - 23) : magnitude << (23 - top));
  mantissa &= ~0u << (23 - fraction_bits);
  if (exponent > 127)
    bits = 0xFFu << 23;
  else if (exponent >= -126)
    bits = (uint32_t)(exponent + 127) << 23 | (mantissa & 0x7FFFFF);
  else
    bits = exponent < -150 ? 0 : mantissa >> (-126 - exponent);
  bits |= sign;
  float f;
  memcpy(&f, &bits, sizeof f);
  return f;
}

/* Bits of an f32 as a signed mantissa with 23 fraction bits and an exponent. */
static int32_t split_f32(float f, int *exponent) {
  uint32_t bits;
  memcpy(&bits, &f, sizeof bits);
  int e = (int)(bits >> 23 & 0xFF);
  int32_t m = (int32_t)(bits & 0x7FFFFF);
  if (e == 0)
    e = 1;
  else
    m |= 1 << 23;
  *exponent = m == 0 ? ZERO_EXPONENT : e - 127;
  return bits >> 31 != 0 ? -m : m;
}

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__SANITIZE_ADDRESS__) &&                            \
    !defined(__SANITIZE_THREAD__)
#define VECTOR_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define VECTOR_CLONES
#endif

/* The aligned, truncated sums of a row: products in two halves, so that 32 bits hold each. */
VECTOR_CLONES
static void aligned_sums(int n_columns, int k_count, const int16_t *a_mantissa, const int16_t *a_exponent,
                         const int16_t (*b_mantissa)[MMA_MAX_ROWS], const int16_t (*b_exponent)[MMA_MAX_ROWS],
                         int fraction_up, int32_t *restrict top, int32_t *restrict low,
                         int32_t *restrict high) {
  for (int k = 0; k < k_count; k++) {
    int ea = a_exponent[k];
    const int16_t *eb = b_exponent[k];
    for (int n = 0; n < n_columns; n++) {
      int32_t e = ea + eb[n];
      top[n] = e > top[n] ? e : top[n];
    }
  }
  for (int k = 0; k < k_count; k++) {
    int32_t ma = a_mantissa[k], ea = a_exponent[k];
    if (ma == 0) continue;
    const int16_t *mb = b_mantissa[k], *eb = b_exponent[k];
    int32_t *restrict sum = k < k_count / 2 ? low : high;
    for (int n = 0; n < n_columns; n++) {
      int32_t product = ma * mb[n], sign = product >> 31;
      uint32_t magnitude = (uint32_t)((product ^ sign) - sign) << fraction_up;
      int32_t shift = top[n] - (ea + eb[n]);
      magnitude >>= shift > 31 ? 31 : shift; /* a product has at most 27 bits here: 31 drops it whole */
      sum[n] += ((int32_t)magnitude ^ sign) - sign;
    }
  }
}

typedef struct row_sums {
  int64_t sum[MMA_MAX_ROWS]; /* in units of 2^scale */
  int32_t scale[MMA_MAX_ROWS];
} row_sums;

/* The exact sum of the aligned terms, for every column; c is read when accumulating. */
static void sum_row(const mma_operand *a, int row, const mma_operand *b, bool accumulate, const float *c,
                    row_sums *s) {
  const format *fa = &formats[a->type], *fb = &formats[b->type];
  int product_bits = fa->mantissa_bits + fb->mantissa_bits, fraction = fa->term_bits;
  int n_columns = b->rows;
  int16_t a_mantissa[MMA_MAX_K], a_exponent[MMA_MAX_K];
  for (int k = 0; k < a->k; k++) {
    a_mantissa[k] = a->mantissa[k][row];
    a_exponent[k] = a->exponent[k][row];
  }
  int32_t top[MMA_MAX_ROWS], low[MMA_MAX_ROWS], high[MMA_MAX_ROWS], c_mantissa[MMA_MAX_ROWS];
  int32_t c_exponent[MMA_MAX_ROWS];
  for (int n = 0; n < n_columns; n++) {
    int e = ZERO_EXPONENT;
    c_mantissa[n] = accumulate ? split_f32(c[n], &e) : 0;
    c_exponent[n] = e;
    top[n] = e;
    low[n] = high[n] = 0;
  }
  aligned_sums(n_columns, a->k, a_mantissa, a_exponent, b->mantissa, b->exponent, fraction - product_bits,
               top, low, high);
  for (int n = 0; n < n_columns; n++) {
    int64_t sum = (int64_t)low[n] + high[n];
    if (c_mantissa[n] != 0) {
      int up = fraction - 23 - (top[n] - c_exponent[n]);
      int64_t magnitude = c_mantissa[n] < 0 ? -(int64_t)c_mantissa[n] : c_mantissa[n];
      magnitude = up >= 0 ? magnitude << up : up < -40 ? 0 : magnitude >> -up;
      sum += c_mantissa[n] < 0 ? -magnitude : magnitude;
    }
    s->sum[n] = sum;
    s->scale[n] = top[n] - fraction;
  }
}

static bool involves_special(const mma_operand *a, int row, const mma_operand *b, int n, float c) {
  return a->special[row] || b->special[n] || !isfinite(c);
}

void mma_row_f32(const mma_operand *a, int row, const mma_operand *b, bool accumulate, float *d) {
  row_sums s;
  sum_row(a, row, b, accumulate, d, &s);
  for (int n = 0; n < b->rows; n++) {
    float c = accumulate ? d[n] : 0;
    if (__builtin_expect(involves_special(a, row, b, n, c), 0))
      d[n] = special_sum(a, row, b, n, c);
    else
      d[n] = round_to_zero(s.sum[n], s.scale[n], formats[a->type].result_bits);
  }
}

void mma_row_f16(const mma_operand *a, int row, const mma_operand *b, bool accumulate, uint16_t *d) {
  row_sums s;
  float c[MMA_MAX_ROWS] = {0};
  for (int n = 0; accumulate && n < b->rows; n++) c[n] = (float)dtype_load(DTYPE_F16, d, n);
  sum_row(a, row, b, accumulate, c, &s);
  for (int n = 0; n < b->rows; n++) {
    double sum = involves_special(a, row, b, n, c[n]) ? (double)special_sum(a, row, b, n, c[n])
                                                      : ldexp((double)s.sum[n], s.scale[n]);
    dtype_store(DTYPE_F16, d, n, sum);
    if (isnan(sum)) d[n] = 0x7FFF;
  }
}

void mma_row_s32(const uint8_t *a, bool a_signed, const uint8_t *b, bool b_signed, int n, int k,
                 bool accumulate, bool saturate, int32_t *d) {
  for (int j = 0; j < n; j++) {
    int64_t sum = accumulate ? d[j] : 0;
    for (int i = 0; i < k; i++) {
      int x = a_signed ? (int8_t)a[i] : a[i];
      int y = b_signed ? (int8_t)b[j * k + i] : b[j * k + i];
      sum += (int64_t)x * y;
    }
    if (saturate) sum = sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum;
    d[j] = (int32_t)(uint32_t)sum;
  }
}
