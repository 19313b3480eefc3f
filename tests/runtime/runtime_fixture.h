/* Caches and tensors for the runtime's tests. */
#ifndef ARKE_TESTS_RUNTIME_FIXTURE_H
#define ARKE_TESTS_RUNTIME_FIXTURE_H

#include <check.h>

#include "cache/cache.h"
#include "tests/runtime/fake_cuda.h"

/* The fake driver, as the runtime loaded it. */
typedef struct fake_cuda {
#define X(returned, name, parameters) returned(*name) parameters;
  FAKE_FUNCTIONS(X)
#undef X
} fake_cuda;
fake_cuda fixture_fake(void);

/* A folder of its own, current while a test runs. */
void fixture_enter(void);
void fixture_leave(void);

/* One entry of the cache to write; zeros mean the defaults in parentheses. */
typedef struct fixture_entry {
  const char *bindings; /* ("T=bf16 M=4096 N=4096 K=4096") */
  const char *target;   /* ("sm_90a") */
  const char *bucket;   /* ("") */
  const char *recipe;   /* (FIXTURE_RECIPE) */
  const char *ptx;      /* (FIXTURE_PTX) */
  const char *cubin;    /* (none) */
  const char *config;   /* ("BLOCK_M=128") */
  bool modelled;
  double time_ns; /* (100000) */
} fixture_entry;

extern const char
    FIXTURE_RECIPE[]; /* tensor maps over A, B, Y; then M, N, K; alignment 16, K a multiple of 8 */
extern const char FIXTURE_PTX[];
extern const cache_problem FIXTURE_MATMUL;  /* matmul(A: T[M,K], B: T[K,N]) -> (Y: T[M,N]) */
extern const cache_problem FIXTURE_RMSNORM; /* X: T[B,H], W: T[H] -> Y: T[B,H], eps */

void fixture_write(const char *path, const cache_problem *p, const fixture_entry *entries, size_t n);

/* A tensor with its own shape; on the CUDA device unless changed. */
typedef struct fixture_tensor {
  DLTensor t;
  int64_t shape[8], strides[8];
} fixture_tensor;
/* bf16, compact, at `address`. */
void fixture_tensor_init(fixture_tensor *f, uintptr_t address, int rank, const int64_t *shape);

/* A, B and Y of a matmul, 64 bytes and more apart at stand-in addresses that nothing reads. */
typedef struct fixture_call {
  fixture_tensor tensors[3];
  const DLTensor *list[3];
} fixture_call;
void fixture_call_init(fixture_call *c, int64_t m, int64_t n, int64_t k);

/* Opens "tuned.arke" on the fake GPU. */
arke_context *fixture_open(const arke_options *options);

#define ck_assert_says(error, part)                                                                          \
  ck_assert_msg(strstr((error).text, part) != NULL, "\"%s\" lacks \"%s\"", (error).text, part)

TCase *cuda_device_tests(void);
TCase *plan_tests(void);
TCase *plan_binding_tests(void);
TCase *plan_view_tests(void);
TCase *run_tests(void);
TCase *emulated_run_tests(void);
TCase *runtime_alloc_tests(void);

#endif
