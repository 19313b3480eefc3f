/* The part of cublasLt's C interface that the baseline uses, declared anew. Values and layouts are those of
 * CUDA 12 and 13 (cublasLt.h, cublas_api.h, library_types.h); tests/bench compares them with the headers
 * where these are installed. */
#ifndef ARKE_BENCH_CUBLASLT_API_H
#define ARKE_BENCH_CUBLASLT_API_H

#include <stddef.h>
#include <stdint.h>

typedef int cublaslt_status;

enum {
  CUBLASLT_SUCCESS = 0,
  CUBLASLT_NOT_SUPPORTED = 15,
  CUBLASLT_REAL_32F = 0,
  CUBLASLT_REAL_16F = 2,
  CUBLASLT_REAL_8I = 3,
  CUBLASLT_REAL_32I = 10,
  CUBLASLT_REAL_16BF = 14,
  CUBLASLT_REAL_E4M3 = 28,
  CUBLASLT_REAL_E5M2 = 29,
  CUBLASLT_COMPUTE_F32 = 68,
  CUBLASLT_COMPUTE_I32 = 72,
  CUBLASLT_COMPUTE_TF32 = 77, /* of f32 */
  CUBLASLT_OP_AS_IS = 0,
  CUBLASLT_OP_TRANSPOSED = 1,
  CUBLASLT_DESC_TRANSA = 3,
  CUBLASLT_DESC_TRANSB = 4,
  CUBLASLT_DESC_A_SCALE = 17, /* device address of an f32, or several, that multiply the first operand */
  CUBLASLT_DESC_B_SCALE = 18,
  CUBLASLT_DESC_A_SCALE_MODE = 31, /* int32_t, since 12.8: which of them multiplies what */
  CUBLASLT_DESC_B_SCALE_MODE = 32,
  CUBLASLT_SCALE_TENSOR = 0,
  CUBLASLT_SCALE_ROW = 3,            /* since 12.9: one for each row of either operand of the product */
  CUBLASLT_SCALE_RUN = 4,            /* since 12.9: one for 128 terms of a row */
  CUBLASLT_SCALE_BLOCK = 5,          /* since 12.9: one for 128 terms of 128 rows */
  CUBLASLT_PREFERENCE_WORKSPACE = 1, /* uint64_t, bytes */
};

typedef struct cublaslt_algorithm {
  uint64_t data[8];
} cublaslt_algorithm;

typedef struct cublaslt_heuristic {
  cublaslt_algorithm algorithm;
  size_t workspace_bytes;
  cublaslt_status state; /* the candidate is valid only on success */
  float waves;
  int reserved[4];
} cublaslt_heuristic;

/* Handles are opaque; matrices are column-major unless told otherwise. */
typedef void *cublaslt_handle;
typedef void *cublaslt_desc;
typedef void *cublaslt_layout;
typedef void *cublaslt_preference;

/* X(member, symbol, result, parameters) */
#define CUBLASLT_FUNCTIONS(X)                                                                                \
  X(version, cublasLtGetVersion, size_t, (void))                                                             \
  X(create, cublasLtCreate, cublaslt_status, (cublaslt_handle *))                                            \
  X(destroy, cublasLtDestroy, cublaslt_status, (cublaslt_handle))                                            \
  X(status_name, cublasLtGetStatusName, const char *, (cublaslt_status))                                     \
  X(desc_create, cublasLtMatmulDescCreate, cublaslt_status, (cublaslt_desc *, int compute, int scale))       \
  X(desc_destroy, cublasLtMatmulDescDestroy, cublaslt_status, (cublaslt_desc))                               \
  X(desc_set, cublasLtMatmulDescSetAttribute, cublaslt_status,                                               \
    (cublaslt_desc, int attribute, const void *value, size_t bytes))                                         \
  X(layout_create, cublasLtMatrixLayoutCreate, cublaslt_status,                                              \
    (cublaslt_layout *, int type, uint64_t rows, uint64_t cols, int64_t ld))                                 \
  X(layout_destroy, cublasLtMatrixLayoutDestroy, cublaslt_status, (cublaslt_layout))                         \
  X(preference_create, cublasLtMatmulPreferenceCreate, cublaslt_status, (cublaslt_preference *))             \
  X(preference_destroy, cublasLtMatmulPreferenceDestroy, cublaslt_status, (cublaslt_preference))             \
  X(preference_set, cublasLtMatmulPreferenceSetAttribute, cublaslt_status,                                   \
    (cublaslt_preference, int attribute, const void *value, size_t bytes))                                   \
  X(heuristics, cublasLtMatmulAlgoGetHeuristic, cublaslt_status,                                             \
    (cublaslt_handle, cublaslt_desc, cublaslt_layout a, cublaslt_layout b, cublaslt_layout c,                \
     cublaslt_layout d, cublaslt_preference, int wanted, cublaslt_heuristic *, int *found))                  \
  X(matmul, cublasLtMatmul, cublaslt_status,                                                                 \
    (cublaslt_handle, cublaslt_desc, const void *alpha, const void *a, cublaslt_layout, const void *b,       \
     cublaslt_layout, const void *beta, const void *c, cublaslt_layout, void *d, cublaslt_layout,            \
     const cublaslt_algorithm *, void *workspace, size_t workspace_bytes, void *stream))

typedef struct cublaslt_api {
#define X(member, symbol, result, parameters) result(*member) parameters;
  CUBLASLT_FUNCTIONS(X)
#undef X
} cublaslt_api;

#endif
