#include "tuner/compare.h"

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
 */
static bool suspect_bf16(const uint16_t *a, const uint16_t *b, int64_t n, float relative, float absolute) {
  int bad = 0;
  for (int64_t i = 0; i < n; i++) {
    uint32_t xa = (uint32_t)a[i] << 16, xb = (uint32_t)b[i] << 16;
    float fa, fb;
    memcpy(&fa, &xa, 4);
    memcpy(&fb, &xb, 4);
    bad |= !(fabsf(fa - fb) <= relative * fabsf(fb) + absolute);
  }
  return bad != 0;
}

static bool suspect_f32(const float *a, const float *b, int64_t n, float relative, float absolute) {
  int bad = 0;
  for (int64_t i = 0; i < n; i++) bad |= !(fabsf(a[i] - b[i]) <= relative * fabsf(b[i]) + absolute);
  return bad != 0;
}

static bool suspect(dtype t, const char *a, const char *b, int64_t n, double relative, double absolute) {
  float r = (float)(relative * 0.999), c = (float)(absolute * 0.999);
  if (t == DTYPE_BF16)
    return suspect_bf16((const uint16_t *)(const void *)a, (const uint16_t *)(const void *)b, n, r, c);
  if (t == DTYPE_F32)
    return suspect_f32((const float *)(const void *)a, (const float *)(const void *)b, n, r, c);
  return true;
}

int64_t tune_compare(dtype t, const void *a, const void *b, int64_t n, double relative, double absolute) {
  const char *x = a, *y = b;
  for (int64_t i = 0; i < n; i += CHUNK) {
    int64_t end = n - i < CHUNK ? n : i + CHUNK;
    size_t offset = (size_t)dtype_bytes(t, i), bytes = (size_t)dtype_bytes(t, end - i);
    if (memcmp(x + offset, y + offset, bytes) == 0) continue;
    if (!suspect(t, x + offset, y + offset, end - i, relative, absolute)) continue;
    int64_t at = slowly(t, a, b, i, end, relative, absolute);
    if (at >= 0) return at;
  }
  return -1;
}
