#include "tuner/compare.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK 4096

static bool differs(double a, double b, double relative, double absolute) {
  if (isnan(a) || isnan(b)) return isnan(a) != isnan(b);
  if (isinf(a) || isinf(b)) return a != b;
  return fabs(a - b) > relative * fabs(b) + absolute;
}

static int64_t slowly(dtype t, const void *a, const void *b, int64_t begin, int64_t end, double relative,
                      double absolute) {
  for (int64_t i = begin; i < end; i++)
    if (differs(dtype_load(t, a, i), dtype_load(t, b, i), relative, absolute)) return i;
  return -1;
}

/* True when some element of the chunk may differ: a NaN, an infinity or a large difference. Single precision
 * is enough, since the caller looks again in double; the factor keeps its rounding from hiding a difference.
 * What lies infinitely far apart is not within the limit of an infinity. */
static int is_suspect(float a, float b, float relative, float absolute) {
  float apart = fabsf(a - b);
  return !(apart <= relative * fabsf(b) + absolute) | !(apart <= FLT_MAX);
}

static bool suspect_bf16(const uint16_t *a, const uint16_t *b, int64_t n, float relative, float absolute) {
  int bad = 0;
  for (int64_t i = 0; i < n; i++) {
    uint32_t xa = (uint32_t)a[i] << 16, xb = (uint32_t)b[i] << 16;
    float fa, fb;
    memcpy(&fa, &xa, 4);
    memcpy(&fb, &xb, 4);
    bad |= is_suspect(fa, fb, relative, absolute);
  }
  return bad != 0;
}

static bool suspect_f32(const float *a, const float *b, int64_t n, float relative, float absolute) {
  int bad = 0;
  for (int64_t i = 0; i < n; i++) bad |= is_suspect(a[i], b[i], relative, absolute);
  return bad != 0;
}

/* Halves by their bits: exponent and fraction as a float of a smaller exponent, then scaled. What is beyond
 * the finite halves comes out above them, and is suspect. */
static float half_value(uint16_t h) {
  uint32_t bits = (uint32_t)(h & 0x7fff) << 13 | (uint32_t)(h & 0x8000) << 16;
  float f;
  memcpy(&f, &bits, 4);
  return f * 0x1p112f;
}

static bool suspect_f16(const uint16_t *a, const uint16_t *b, int64_t n, float relative, float absolute) {
  int bad = 0;
  for (int64_t i = 0; i < n; i++) {
    float fa = half_value(a[i]), fb = half_value(b[i]);
    bad |= is_suspect(fa, fb, relative, absolute) | (fabsf(fa) > 65504.0f) | (fabsf(fb) > 65504.0f);
  }
  return bad != 0;
}

/* Types of one byte, by a table of all their values. */
static bool suspect_bytes(const float *values, const uint8_t *a, const uint8_t *b, int64_t n, float relative,
                          float absolute) {
  int bad = 0;
  for (int64_t i = 0; i < n; i++) {
    float fa = values[a[i]], fb = values[b[i]];
    bad |= is_suspect(fa, fb, relative, absolute);
  }
  return bad != 0;
}

static void fill_values(dtype t, float values[256]) {
  for (int i = 0; i < 256; i++) {
    uint8_t byte = (uint8_t)i;
    values[i] = (float)dtype_load(t, &byte, 0);
  }
}

static bool suspect(dtype t, const float *values, const char *a, const char *b, int64_t n, double relative,
                    double absolute) {
  float r = (float)(relative * 0.999), c = (float)(absolute * 0.999);
  if (t == DTYPE_BF16)
    return suspect_bf16((const uint16_t *)(const void *)a, (const uint16_t *)(const void *)b, n, r, c);
  if (t == DTYPE_F16)
    return suspect_f16((const uint16_t *)(const void *)a, (const uint16_t *)(const void *)b, n, r, c);
  if (t == DTYPE_F32)
    return suspect_f32((const float *)(const void *)a, (const float *)(const void *)b, n, r, c);
  if (dtype_bits(t) == 8)
    return suspect_bytes(values, (const uint8_t *)(const void *)a, (const uint8_t *)(const void *)b, n, r, c);
  return true;
}

int64_t tune_compare(dtype t, const void *a, const void *b, int64_t n, double relative, double absolute) {
  const char *x = a, *y = b;
  float values[256];
  if (dtype_bits(t) == 8) fill_values(t, values);
  for (int64_t i = 0; i < n; i += CHUNK) {
    int64_t end = n - i < CHUNK ? n : i + CHUNK;
    size_t offset = (size_t)dtype_bytes(t, i), bytes = (size_t)dtype_bytes(t, end - i);
    if (memcmp(x + offset, y + offset, bytes) == 0) continue;
    if (!suspect(t, values, x + offset, y + offset, end - i, relative, absolute)) continue;
    int64_t at = slowly(t, a, b, i, end, relative, absolute);
    if (at >= 0) return at;
  }
  return -1;
}
