#include "gemm_classes.h"

#include <check.h>
#include <inttypes.h>
#include <stdio.h>

const char *const gemm_operators[4] = {
    "nn(A: T[M,K], B: T[K,N]) -> (Y: T[M,N]) { Y[m,n] = sum(k) A[m,k] * B[k,n] }",
    "nt(A: T[M,K], B: T[N,K]) -> (Y: T[M,N]) { Y[m,n] = sum(k) A[m,k] * B[n,k] }",
    "tn(A: T[K,M], B: T[K,N]) -> (Y: T[M,N]) { Y[m,n] = sum(k) A[k,m] * B[k,n] }",
    "tt(A: T[K,M], B: T[N,K]) -> (Y: T[M,N]) { Y[m,n] = sum(k) B[n,k] * A[k,m] }",
};

static const config class_defaults = {{64, 64, 64, 3, 1, 0, 1, 1, 0, 1, 1, 0, 0, 0}};

/* Tiles: one row tile, several (BLOCK_M 128 and more by one consumer); narrow and overlapping panels (BLOCK_N
 * not a multiple of 64), one and several panels, fewer buffers than panels; the schedules; clusters; orders;
 * K panels; the product and the transposed product, whose panels are narrow where wider ones do not fit. */
static const gemm_class classes[] = {
    {GEMM_NN, "bf16", "PERSISTENT=0"},
    {GEMM_NT, "bf16", "PERSISTENT=0"},
    {GEMM_NN, "f16", "STAGES=2"},
    {GEMM_NT, "f16", "BLOCK_N=32,STAGES=8"},
    {GEMM_NN, "bf16", "BLOCK_N=96,GROUP=2"},
    {GEMM_NT, "bf16", "BLOCK_N=128,BLOCK_K=128,RASTER=1"},
    {GEMM_NN, "bf16", "BLOCK_N=128,BLOCK_K=128,STAGES=2,GROUP=4"},
    {GEMM_NN, "bf16", "BLOCK_M=128"},
    {GEMM_NT, "bf16", "BLOCK_M=192,BLOCK_N=32"},
    {GEMM_NN, "bf16", "BLOCK_M=128,CONSUMERS=2,RASTER=1,GROUP=2"},
    {GEMM_NT, "bf16", "BLOCK_M=256,CONSUMERS=2,STAGES=4"},
    {GEMM_NN, "bf16", "BLOCK_M=128,BLOCK_N=256,CONSUMERS=2,STAGES=4"},
    {GEMM_NN, "bf16", "SCHEDULE=1,CONSUMERS=2"},
    {GEMM_NT, "f16", "SCHEDULE=1,CONSUMERS=2,BLOCK_N=96,STAGES=2"},
    {GEMM_NT, "bf16", "SCHEDULE=1,CONSUMERS=2,BLOCK_M=128,RASTER=1"},
    {GEMM_NN, "bf16", "SCHEDULE=2,BLOCK_N=128"},
    {GEMM_NT, "bf16", "SCHEDULE=2,CONSUMERS=2,BLOCK_M=128,STAGES=2"},
    {GEMM_NN, "bf16", "CLUSTER_M=2"},
    {GEMM_NT, "bf16", "CLUSTER_N=2"},
    {GEMM_NT, "bf16", "CLUSTER_M=2,PERSISTENT=0,BLOCK_N=96,BLOCK_K=128,STAGES=2"},
    {GEMM_NN, "f16", "CLUSTER_N=2,BLOCK_M=128,CONSUMERS=2,BLOCK_N=32"},
    {GEMM_NN, "bf16", "SCHEDULE=1,CONSUMERS=2,CLUSTER_M=2,GROUP=2"},
    {GEMM_NT, "bf16", "SCHEDULE=2,CLUSTER_N=2,RASTER=1"},
    {GEMM_NN, "bf16", "STREAM_K=1"},
    {GEMM_NT, "f16", "STREAM_K=1,BLOCK_M=128,CONSUMERS=2,BLOCK_N=96,STAGES=2,RASTER=1,GROUP=2"},
    {GEMM_NN, "bf16", "STREAM_K=1,SCHEDULE=2,BLOCK_M=128,BLOCK_N=128,CONSUMERS=2"},
    {GEMM_NT, "bf16", "STREAM_K=1,SCHEDULE=2,CLUSTER_M=2,BLOCK_N=32"},
    {GEMM_NN, "bf16", "STREAM_K=1,CLUSTER_N=2,BLOCK_M=128,CONSUMERS=2"},
    {GEMM_NN, "bf16", "STREAM_K=2,PERSISTENT=0"},
    {GEMM_NT, "f16", "STREAM_K=2,PERSISTENT=0,BLOCK_M=128,CONSUMERS=2,BLOCK_N=160,STAGES=2"},
    {GEMM_NN, "bf16", "STREAM_K=2,PERSISTENT=0,SWAP=1,BLOCK_N=144,RASTER=1"},
    {GEMM_NN, "bf16", "BLOCK_N=168,SCHEDULE=1,CONSUMERS=2"},
    {GEMM_NT, "bf16", "SWAP=1"},
    {GEMM_NN, "f16", "SWAP=1,BLOCK_N=32,PERSISTENT=0"},
    {GEMM_NN, "bf16", "SWAP=1,BLOCK_N=168,SCHEDULE=1,CONSUMERS=2,RASTER=1"},
    {GEMM_NT, "bf16", "SWAP=1,BLOCK_N=152,SCHEDULE=1,CONSUMERS=2,BLOCK_M=128,STAGES=6"},
    {GEMM_NT, "f16", "SWAP=1,SCHEDULE=2,BLOCK_M=128,CONSUMERS=2,BLOCK_N=96,CLUSTER_M=2"},
    {GEMM_NN, "bf16", "SWAP=1,STREAM_K=1,BLOCK_M=128,CLUSTER_N=2"},
    {GEMM_TN, "bf16", "SWAP=1,BLOCK_N=144"},
    {GEMM_TT, "bf16", "SWAP=1,BLOCK_N=96,BLOCK_M=128,PERSISTENT=0"},
    {GEMM_NN, "bf16", "EVEN=1,BLOCK_N=96,SCHEDULE=1,CONSUMERS=2"},
    {GEMM_NT, "bf16", "EVEN=1,BLOCK_N=144,GROUP=2"},
    {GEMM_NT, "bf16", "EVEN=1,BLOCK_N=64,BLOCK_M=128,CONSUMERS=2"},
    {GEMM_NT, "f16", "EVEN=1,SWAP=1,BLOCK_N=176,SCHEDULE=1,CONSUMERS=2,BLOCK_M=64,RASTER=1,GROUP=4"},
    {GEMM_TT, "bf16", "EVEN=1,SWAP=1,BLOCK_N=96,BLOCK_M=128,CONSUMERS=2"},
    {GEMM_TN, "bf16", "BLOCK_M=128,CONSUMERS=2"},
    {GEMM_TT, "bf16", "SCHEDULE=1,CONSUMERS=2,CLUSTER_N=2"},
};

int gemm_class_count(void) {
  return (int)COUNT_OF(classes);
}

const gemm_class *gemm_class_get(int i) {
  return &classes[i];
}

gemm_setup gemm_class_bind(arena *a, const gemm_class *g, int64_t m, int64_t n, int64_t k) {
  gemm_setup s = {.t = target_find("sm_90a", NULL), .gemm = template_find("gemm")};
  arke_error err = ARKE_ERROR_INIT;
  const ir_op *op;
  char bindings[128];
  snprintf(bindings, sizeof bindings, "T=%s M=%" PRId64 " N=%" PRId64 " K=%" PRId64, g->type, m, n, k);
  ck_assert_msg(ir_op_parse(a, gemm_operators[g->operator], &op, &err) == ARKE_OK, "%s", err.text);
  ck_assert_msg(ir_problem_bind(op, bindings, &s.p, &err) == ARKE_OK, "%s", err.text);
  ck_assert_msg(config_parse(s.gemm->space(s.t), g->config, &class_defaults, &s.c, &err) == ARKE_OK, "%s",
                err.text);
  return s;
}
