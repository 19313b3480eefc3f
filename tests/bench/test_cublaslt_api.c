/* Compares bench/cublaslt_api.h with NVIDIA's headers; there is nothing to run. */
#include <cublasLt.h>

#include "bench/cublaslt_api.h"

#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #ours)
SAME(CUBLASLT_SUCCESS, CUBLAS_STATUS_SUCCESS);
SAME(CUBLASLT_NOT_SUPPORTED, CUBLAS_STATUS_NOT_SUPPORTED);
SAME(CUBLASLT_REAL_32F, CUDA_R_32F);
SAME(CUBLASLT_REAL_16F, CUDA_R_16F);
SAME(CUBLASLT_REAL_16BF, CUDA_R_16BF);
SAME(CUBLASLT_REAL_8I, CUDA_R_8I);
SAME(CUBLASLT_REAL_32I, CUDA_R_32I);
SAME(CUBLASLT_REAL_E4M3, CUDA_R_8F_E4M3);
SAME(CUBLASLT_REAL_E5M2, CUDA_R_8F_E5M2);
SAME(CUBLASLT_COMPUTE_F32, CUBLAS_COMPUTE_32F);
SAME(CUBLASLT_COMPUTE_I32, CUBLAS_COMPUTE_32I);
SAME(CUBLASLT_COMPUTE_TF32, CUBLAS_COMPUTE_32F_FAST_TF32);
SAME(CUBLASLT_OP_AS_IS, CUBLAS_OP_N);
SAME(CUBLASLT_OP_TRANSPOSED, CUBLAS_OP_T);
SAME(CUBLASLT_DESC_TRANSA, CUBLASLT_MATMUL_DESC_TRANSA);
SAME(CUBLASLT_DESC_TRANSB, CUBLASLT_MATMUL_DESC_TRANSB);
SAME(CUBLASLT_DESC_A_SCALE, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER);
SAME(CUBLASLT_DESC_B_SCALE, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER);
#if CUBLAS_VERSION >= 120900
SAME(CUBLASLT_DESC_A_SCALE_MODE, CUBLASLT_MATMUL_DESC_A_SCALE_MODE);
SAME(CUBLASLT_DESC_B_SCALE_MODE, CUBLASLT_MATMUL_DESC_B_SCALE_MODE);
SAME(CUBLASLT_SCALE_TENSOR, CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F);
SAME(CUBLASLT_SCALE_ROW, CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F);
SAME(CUBLASLT_SCALE_RUN, CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F);
SAME(CUBLASLT_SCALE_BLOCK, CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F);
#endif
SAME(CUBLASLT_PREFERENCE_WORKSPACE, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);

_Static_assert(sizeof(cublaslt_algorithm) == sizeof(cublasLtMatmulAlgo_t), "algorithm");
_Static_assert(sizeof(cublaslt_heuristic) == sizeof(cublasLtMatmulHeuristicResult_t), "heuristic");
_Static_assert(offsetof(cublaslt_heuristic, workspace_bytes) ==
                   offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize),
               "workspace_bytes");
_Static_assert(offsetof(cublaslt_heuristic, state) == offsetof(cublasLtMatmulHeuristicResult_t, state),
               "state");
_Static_assert(sizeof(cublaslt_status) == sizeof(cublasStatus_t), "status");
_Static_assert(sizeof(cublaslt_handle) == sizeof(cublasLtHandle_t), "handle");

/* Each function takes as many parameters as ours, of types of the same kind: a call through their prototype
 * with values of our types compiles. */
void cublaslt_calls(cublasLtHandle_t h, cublasLtMatmulDesc_t d, cublasLtMatrixLayout_t l,
                    cublasLtMatmulPreference_t p, void *memory, size_t bytes);
void cublaslt_calls(cublasLtHandle_t h, cublasLtMatmulDesc_t d, cublasLtMatrixLayout_t l,
                    cublasLtMatmulPreference_t p, void *memory, size_t bytes) {
  int found = 0;
  cublasLtMatmulHeuristicResult_t result;
  (void)_Generic(&cublasLtGetVersion, size_t(*)(void) : 0);
  (void)_Generic(&cublasLtMatrixLayoutCreate,
                 cublasStatus_t(*)(cublasLtMatrixLayout_t *, cudaDataType, uint64_t, uint64_t, int64_t) : 0);
  (void)_Generic(&cublasLtMatmulDescCreate,
                 cublasStatus_t(*)(cublasLtMatmulDesc_t *, cublasComputeType_t, cudaDataType_t) : 0);
  (void)_Generic(
      &cublasLtMatmulDescSetAttribute,
      cublasStatus_t(*)(cublasLtMatmulDesc_t, cublasLtMatmulDescAttributes_t, const void *, size_t) : 0);
  (void)_Generic(&cublasLtMatmulPreferenceSetAttribute,
                 cublasStatus_t(*)(cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t,
                                   const void *, size_t) : 0);
  (void)sizeof(cublasLtMatmulAlgoGetHeuristic(h, d, l, l, l, l, p, 8, &result, &found));
  (void)sizeof(cublasLtMatmul(h, d, memory, memory, l, memory, l, memory, memory, l, memory, l, &result.algo,
                              memory, bytes, (cudaStream_t)memory));
}
