/* A stand-in for cublasLt: the same symbols, products on the CPU, column-major as in the real one. Nine
 * candidates exist, of which the third is invalid. */
#include <stdlib.h>

#include "base/dtype.h"
#include "bench/cublaslt_api.h"

typedef struct desc {
  int compute;
  int32_t op[2];
  const float *scale[2];
  int32_t mode[2];
} desc;

typedef struct layout {
  int type;
  int64_t rows, cols, ld;
} layout;

#define X(member, symbol, result, parameters) result symbol parameters;
CUBLASLT_FUNCTIONS(X)
#undef X

/* The test has an older library by this. */
size_t fake_version = 130100;

size_t cublasLtGetVersion(void) {
  return fake_version;
}
cublaslt_status cublasLtCreate(cublaslt_handle *h) {
  *h = malloc(1);
  return *h == NULL ? 3 : 0;
}
cublaslt_status cublasLtDestroy(cublaslt_handle h) {
  free(h);
  return 0;
}
const char *cublasLtGetStatusName(cublaslt_status status) {
  return status == 7 ? "CUBLAS_STATUS_INVALID_VALUE" : "CUBLAS_STATUS_OTHER";
}
cublaslt_status cublasLtMatmulDescCreate(cublaslt_desc *d, int compute, int scale) {
  if (scale != (compute == CUBLASLT_COMPUTE_I32 ? CUBLASLT_REAL_32I : CUBLASLT_REAL_32F)) return 7;
  desc *made = calloc(1, sizeof *made);
  if (made == NULL) return 3;
  made->compute = compute;
  *d = made;
  return 0;
}
cublaslt_status cublasLtMatmulDescDestroy(cublaslt_desc d) {
  free(d);
  return 0;
}
cublaslt_status cublasLtMatmulDescSetAttribute(cublaslt_desc d, int attribute, const void *value,
                                               size_t bytes) {
  if (attribute == CUBLASLT_DESC_A_SCALE || attribute == CUBLASLT_DESC_B_SCALE) {
    if (bytes != sizeof(void *)) return 7;
    ((desc *)d)->scale[attribute - CUBLASLT_DESC_A_SCALE] = *(const float *const *)value;
    return 0;
  }
  if (attribute == CUBLASLT_DESC_A_SCALE_MODE || attribute == CUBLASLT_DESC_B_SCALE_MODE) {
    if (bytes != sizeof(int32_t) || fake_version < 120800) return 7;
    ((desc *)d)->mode[attribute - CUBLASLT_DESC_A_SCALE_MODE] = *(const int32_t *)value;
    return 0;
  }
  if (bytes != sizeof(int32_t) || attribute < CUBLASLT_DESC_TRANSA || attribute > CUBLASLT_DESC_TRANSB)
    return 7;
  ((desc *)d)->op[attribute - CUBLASLT_DESC_TRANSA] = *(const int32_t *)value;
  return 0;
}
cublaslt_status cublasLtMatrixLayoutCreate(cublaslt_layout *out, int type, uint64_t rows, uint64_t cols,
                                           int64_t ld) {
  layout *l = malloc(sizeof *l);
  if (l == NULL) return 3;
  *l = (layout){type, (int64_t)rows, (int64_t)cols, ld};
  *out = l;
  return ld < (int64_t)rows ? 7 : 0;
}
cublaslt_status cublasLtMatrixLayoutDestroy(cublaslt_layout l) {
  free(l);
  return 0;
}
cublaslt_status cublasLtMatmulPreferenceCreate(cublaslt_preference *p) {
  *p = calloc(1, sizeof(uint64_t));
  return *p == NULL ? 3 : 0;
}
cublaslt_status cublasLtMatmulPreferenceDestroy(cublaslt_preference p) {
  free(p);
  return 0;
}
cublaslt_status cublasLtMatmulPreferenceSetAttribute(cublaslt_preference p, int attribute, const void *value,
                                                     size_t bytes) {
  if (attribute != CUBLASLT_PREFERENCE_WORKSPACE || bytes != sizeof(uint64_t)) return 7;
  *(uint64_t *)p = *(const uint64_t *)value;
  return 0;
}

/* Two blocks of 128 x 128 are no pair, nor are rows and anything else; scales of runs want multiples of four
 * rows, and all of them an address in 16 bytes. */
static int fit_scales(const desc *d, int64_t m, int64_t n) {
  int32_t a = d->mode[0], b = d->mode[1];
  if (a == CUBLASLT_SCALE_TENSOR && b == CUBLASLT_SCALE_TENSOR) return 1;
  if (d->scale[0] == NULL || d->scale[1] == NULL || (uintptr_t)d->scale[0] % 16 != 0 ||
      (uintptr_t)d->scale[1] % 16 != 0)
    return 0;
  if (a == CUBLASLT_SCALE_ROW && b == CUBLASLT_SCALE_ROW) return 1;
  return m % 4 == 0 && n % 4 == 0 && a == CUBLASLT_SCALE_BLOCK && b == CUBLASLT_SCALE_RUN;
}

static int fits(const desc *d, const layout *a, const layout *b, const layout *c) {
  int64_t m = d->op[0] ? a->cols : a->rows, k = d->op[0] ? a->rows : a->cols;
  int64_t k2 = d->op[1] ? b->cols : b->rows, n = d->op[1] ? b->rows : b->cols;
  if (k != k2 || m != c->rows || n != c->cols) return 0;
  int fp8 = a->type == CUBLASLT_REAL_E4M3 || a->type == CUBLASLT_REAL_E5M2,
      whole = a->type == CUBLASLT_REAL_8I;
  if ((fp8 || whole) && (!d->op[0] || d->op[1])) return 0; /* "TN" alone */
  if (fp8) return d->compute == CUBLASLT_COMPUTE_F32 && c->type != CUBLASLT_REAL_32I && fit_scales(d, m, n);
  if (whole) return d->compute == CUBLASLT_COMPUTE_I32 && c->type == CUBLASLT_REAL_32I;
  int tf32 = a->type == CUBLASLT_REAL_32F;
  return d->compute == (tf32 ? CUBLASLT_COMPUTE_TF32 : CUBLASLT_COMPUTE_F32) && a->type == b->type &&
         b->type == c->type;
}

cublaslt_status cublasLtMatmulAlgoGetHeuristic(cublaslt_handle h, cublaslt_desc d, cublaslt_layout a,
                                               cublaslt_layout b, cublaslt_layout c, cublaslt_layout y,
                                               cublaslt_preference p, int wanted, cublaslt_heuristic *results,
                                               int *found) {
  if (h == NULL || c != y) return 7;
  if (!fits(d, a, b, c)) return CUBLASLT_NOT_SUPPORTED;
  if (((const layout *)c)->rows == 13) { /* this one it does not know */
    *found = 0;
    return 0;
  }
  *found = wanted < 9 ? wanted : 9;
  for (int i = 0; i < *found; i++) {
    results[i] = (cublaslt_heuristic){.workspace_bytes = *(const size_t *)p, .state = i == 2 ? 15 : 0};
    results[i].algorithm.data[0] = (uint64_t)i;
  }
  return 0;
}

static dtype dtype_of(const layout *l) {
  switch (l->type) {
  case CUBLASLT_REAL_32F: return DTYPE_F32;
  case CUBLASLT_REAL_8I: return DTYPE_I8;
  case CUBLASLT_REAL_32I: return DTYPE_I32;
  case CUBLASLT_REAL_E4M3: return DTYPE_E4M3;
  case CUBLASLT_REAL_E5M2: return DTYPE_E5M2;
  case CUBLASLT_REAL_16BF: return DTYPE_BF16;
  default: return DTYPE_F16;
  }
}

static double element(const layout *l, const void *data, int32_t op, int64_t row, int64_t col) {
  return dtype_load(dtype_of(l), data, op ? col + row * l->ld : row + col * l->ld);
}

/* The factor of term i of row `row` of operand x, which has `rows` of them. */
static double factor(const desc *d, int x, int64_t row, int64_t rows, int64_t i, int64_t terms) {
  const float *s = d->scale[x];
  if (s == NULL) return 1;
  switch (d->mode[x]) {
  case CUBLASLT_SCALE_ROW: return (double)s[row];
  case CUBLASLT_SCALE_RUN: return (double)s[row + i / 128 * rows];
  case CUBLASLT_SCALE_BLOCK: return (double)s[i / 128 + row / 128 * (((terms + 127) / 128 + 3) / 4 * 4)];
  default: return (double)s[0];
  }
}

static int is_one(const desc *d, const void *alpha, int value) {
  return d->compute == CUBLASLT_COMPUTE_I32 ? *(const int32_t *)alpha == value
                                            : *(const float *)alpha == (float)value;
}

cublaslt_status cublasLtMatmul(cublaslt_handle h, cublaslt_desc dp, const void *alpha, const void *a,
                               cublaslt_layout la, const void *b, cublaslt_layout lb, const void *beta,
                               const void *c, cublaslt_layout lc, void *y, cublaslt_layout ly,
                               const cublaslt_algorithm *algorithm, void *workspace, size_t workspace_bytes,
                               void *stream) {
  const desc *d = dp;
  const layout *l = lc;
  if (h == NULL || !fits(d, la, lb, lc) || lc != ly || c != y || workspace == NULL || workspace_bytes == 0)
    return 7;
  if (!is_one(d, alpha, 1) || !is_one(d, beta, 0)) return 7;
  int64_t k = d->op[0] ? ((const layout *)la)->rows : ((const layout *)la)->cols;
  for (int64_t col = 0; col < l->cols; col++)
    for (int64_t row = 0; row < l->rows; row++) {
      double sum = 0;
      for (int64_t i = 0; i < k; i++)
        sum += element(la, a, d->op[0], row, i) * factor(d, 0, row, l->rows, i, k) *
               element(lb, b, d->op[1], i, col) * factor(d, 1, col, l->cols, i, k);
      dtype_store(dtype_of(l), y, row + col * l->ld, sum);
    }
  if (stream != NULL) *(uint64_t *)stream = algorithm->data[0]; /* tells the test which candidate ran */
  return 0;
}
