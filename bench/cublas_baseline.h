/* cuBLAS as a baseline for matrix products: cublasLt loaded at run time, its heuristics' best candidates,
 * each launched on a caller's stream. Needs no CUDA headers or libraries to build. The calling thread must
 * have the device's primary context current. One thread at a time. */
#ifndef ARKE_BENCH_CUBLAS_BASELINE_H
#define ARKE_BENCH_CUBLAS_BASELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/dtype.h"
#include "base/error.h"

#define CUBLAS_WORKSPACE_BYTES (32u << 20) /* what NVIDIA advises for Hopper and newer */
#define CUBLAS_HEURISTICS      8           /* candidates asked for */

typedef struct cublas_library cublas_library;
typedef struct cublas_plan cublas_plan;

/* f32 in device memory that multiply 8-bit floats: one for A and one for B; one for each row of A and each
 * column of B; or one for 128 terms of a row of A and one for 128 terms of 128 columns of B. */
typedef enum cublas_scales {
  CUBLAS_SCALES_NONE,
  CUBLAS_SCALES_TENSOR,
  CUBLAS_SCALES_ROW,
  CUBLAS_SCALES_BLOCK
} cublas_scales;

/* Y[M,N] = A[M,K] B, all row-major and dense, accumulated in f32 (of i8 in i32) and rounded once; B is [K,N],
 * or [N,K] when `b_transposed` (the operators matmul and linear). 8-bit operands want `b_transposed`. */
typedef struct cublas_product {
  int64_t m, n, k;
  dtype a, b; /* bf16, f16 or i8, the same; f32, multiplied as tf32; e4m3 and e5m2, not both e5m2 */
  dtype y;    /* of 8-bit floats bf16, f16 or f32; of i8 i32; else that of A */
  bool b_transposed;
  cublas_scales scales; /* other than none: of 8-bit floats */
} cublas_product;

typedef enum cublas_operand { CUBLAS_A, CUBLAS_B } cublas_operand;

/* Scales of blocks lie as cublasLt reads them. How many f32 those of an operand then are; and their order,
 * from one row of ceil(K / 128) for each row of A, or for each 128 columns of B. What only fills them up is
 * zero. */
int64_t cublas_scales_count(const cublas_product *p, cublas_operand of);
void cublas_scales_arrange(const cublas_product *p, cublas_operand of, const float *rows, float *arranged);

/* Device addresses of the tensors; the scales' where the product has them. */
typedef struct cublas_tensors {
  uint64_t a, b, y, a_scale, b_scale;
} cublas_tensors;

/* Loads the library at `path`, or, if NULL, the first one found: by its soname, in CUDA's folders, in the
 * folders of NVIDIA's Python packages. ARKE_ERR_NOT_FOUND if there is none, with the places looked at;
 * ARKE_ERR_UNSUPPORTED if it lacks a function; ARKE_ERR_DRIVER if it finds no usable GPU. */
arke_status cublas_open(const char *path, cublas_library **library, arke_error *err);
void cublas_close(cublas_library *library);
size_t cublas_version(const cublas_library *library); /* 130100 is 13.1.0 */

/* Asks for candidates. Pointers given to cublas_plan_run must be aligned to 256 bytes. ARKE_ERR_UNSUPPORTED
 * with a sentence if cublasLt has none. The library must outlive the plan. */
arke_status cublas_plan_create(cublas_library *library, const cublas_product *p, cublas_plan **plan,
                               arke_error *err);
void cublas_plan_destroy(cublas_plan *plan);
int cublas_plan_count(const cublas_plan *plan); /* 1 to CUBLAS_HEURISTICS, the most promising first */

/* Launches candidate i on `stream` (a CUstream); `workspace` has CUBLAS_WORKSPACE_BYTES. Does not
 * synchronise.
 */
arke_status cublas_plan_run(const cublas_plan *plan, int i, const cublas_tensors *t, uint64_t workspace,
                            void *stream, arke_error *err);

#endif
