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

/* Y[M,N] = A[M,K] B, all row-major and dense, accumulated in f32 and rounded once; B is [K,N], or [N,K] when
 * `b_transposed` (the operators matmul and linear). */
typedef struct cublas_product {
  int64_t m, n, k;
  dtype type; /* DTYPE_BF16 or DTYPE_F16, of A, B and Y */
  bool b_transposed;
} cublas_product;

/* Loads the library at `path`, or, if NULL, the first one found: by its soname, in CUDA's folders, in the
 * folders of NVIDIA's Python packages. ARKE_ERR_NOT_FOUND if there is none, with the places looked at;
 * ARKE_ERR_UNSUPPORTED if it lacks a function; ARKE_ERR_DRIVER if it finds no usable GPU. */
arke_status cublas_open(const char *path, cublas_library **library, arke_error *err);
void cublas_close(cublas_library *library);
size_t cublas_version(const cublas_library *library); /* 130100 is 13.1.0 */

/* Asks for candidates. Pointers given to cublas_plan_run must be aligned to 256 bytes. ARKE_ERR_UNSUPPORTED
 * if cublasLt has none. The library must outlive the plan. */
arke_status cublas_plan_create(cublas_library *library, const cublas_product *p, cublas_plan **plan,
                               arke_error *err);
void cublas_plan_destroy(cublas_plan *plan);
int cublas_plan_count(const cublas_plan *plan); /* 1 to CUBLAS_HEURISTICS, the most promising first */

/* Launches candidate i on `stream` (a CUstream) with device addresses; `workspace` has
 * CUBLAS_WORKSPACE_BYTES. Does not synchronise. */
arke_status cublas_plan_run(const cublas_plan *plan, int i, uint64_t a, uint64_t b, uint64_t y,
                            uint64_t workspace, void *stream, arke_error *err);

#endif
