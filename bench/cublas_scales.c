/* Scales of blocks in the order that cublasLt reads them in: those of runs of 128 terms with the rows of A
 * next to one another, those of blocks with the terms next to one another, each block row padded to a
 * multiple of four. */
#include "bench/cublas_baseline.h"

enum { RUN = 128, PADDING = 4 };

static int64_t runs(int64_t n) {
  return (n + RUN - 1) / RUN;
}

static int64_t padded(int64_t n) {
  return (n + PADDING - 1) / PADDING * PADDING;
}

int64_t cublas_scales_count(const cublas_product *p, cublas_operand of) {
  return of == CUBLAS_A ? p->m * runs(p->k) : padded(runs(p->k)) * runs(p->n);
}

void cublas_scales_arrange(const cublas_product *p, cublas_operand of, const float *rows, float *arranged) {
  int64_t n = runs(p->k), pitch = padded(n);
  if (of == CUBLAS_A) {
    for (int64_t m = 0; m < p->m; m++)
      for (int64_t i = 0; i < n; i++) arranged[i * p->m + m] = rows[m * n + i];
    return;
  }
  for (int64_t b = 0; b < runs(p->n); b++)
    for (int64_t i = 0; i < pitch; i++) arranged[b * pitch + i] = i < n ? rows[b * n + i] : 0;
}
