#include "tests/runtime/runtime_fixture.h"

#include <dlfcn.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char FIXTURE_PTX[] = "kernel gemm 128 128 128 4 4 4\n";

const char FIXTURE_RECIPE[] =
    "{\"tensors\":[{\"alignment\":16,\"contiguous_last\":true},{\"alignment\":16,\"contiguous_last\":true},"
    "{\"alignment\":16,\"contiguous_last\":true}],"
    "\"requirements\":[{\"expr\":\"A.stride0\",\"divisor\":8,\"why\":\"rows of A are 16-byte aligned\"},"
    "{\"expr\":\"B.stride0\",\"divisor\":8,\"why\":\"rows of B are 16-byte aligned\"},"
    "{\"expr\":\"M\",\"max\":1000000,\"why\":\"32-bit tile numbers\"}],"
    "\"launches\":[{\"kernel\":\"gemm\",\"params\":["
    "{\"kind\":\"tensormap\",\"tensor\":0,\"dim\":[\"K\",\"M\"],\"stride\":[\"A.stride0\"],\"box\":[64,128],"
    "\"swizzle\":3,\"l2_promotion\":2},"
    "{\"kind\":\"tensormap\",\"tensor\":1,\"dim\":[\"N\",\"K\"],\"stride\":[\"B.stride0\"],\"box\":[64,64],"
    "\"swizzle\":3,\"l2_promotion\":2},"
    "{\"kind\":\"tensormap\",\"tensor\":2,\"dim\":[\"N\",\"M\"],\"stride\":[\"Y.stride0\"],\"box\":[64,64],"
    "\"swizzle\":3,\"l2_promotion\":0},"
    "{\"kind\":\"i32\",\"value\":\"M\"},{\"kind\":\"i32\",\"value\":\"N\"},{\"kind\":\"i32\",\"value\":\"K\"}"
    "],"
    "\"grid\":[\"min(SMS, ceildiv(M, 128) * ceildiv(N, 256))\",\"1\",\"1\"],\"block\":[384,1,1],"
    "\"cluster\":[1,1,1],\"smem_bytes\":\"4 * 49152 + 1024\"}]}";

static const cache_tensor MATMUL_TENSORS[] = {
    {.name = "A", .type = "T", .rank = 2, .dims = {"M", "K"}},
    {.name = "B", .type = "T", .rank = 2, .dims = {"K", "N"}},
    {.name = "Y", .output = true, .type = "T", .rank = 2, .dims = {"M", "N"}},
};

const cache_problem FIXTURE_MATMUL = {
    .op_name = "matmul",
    .op_text = "matmul(A: T[M, K], B: T[K, N]) -> (Y: T[M, N]) { Y[m, n] = sum(k) A[m, k] * B[k, n] }",
    .ptx = "8.6",
    .n_tensors = COUNT_OF(MATMUL_TENSORS),
    .tensors = MATMUL_TENSORS,
};

static const cache_tensor RMSNORM_TENSORS[] = {
    {.name = "X", .type = "T", .rank = 2, .dims = {"B", "2*H"}},
    {.name = "W", .type = "f32", .rank = 1, .dims = {"H"}},
    {.name = "Y", .output = true, .type = "T", .rank = 2, .dims = {"B", "H"}},
};

const cache_problem FIXTURE_RMSNORM = {
    .op_name = "rmsnorm",
    .op_text =
        "rmsnorm(X: T[B, 2*H], W: f32[H]) -> (Y: T[B, H]) eps: float = 1e-06 { Y[i, j] = X[i, j] * W[j] }",
    .ptx = "8.6",
    .n_tensors = COUNT_OF(RMSNORM_TENSORS),
    .tensors = RMSNORM_TENSORS,
};

fake_cuda fixture_fake(void) {
  fake_cuda f;
  void *library = dlopen("libcuda.so.1", RTLD_NOW);
  ck_assert_msg(library != NULL, "%s", dlerror());
#define X(returned, name, parameters) *(void **)&f.name = dlsym(library, #name);
  FAKE_FUNCTIONS(X)
#undef X
  ck_assert_msg(f.fake_cuda_state != NULL, "libcuda.so.1 is not the fake one; run this test through ctest");
  return f;
}

static char folder[64];

void fixture_enter(void) {
  strcpy(folder, "/tmp/arke-runtime-XXXXXX");
  ck_assert_ptr_nonnull(mkdtemp(folder));
  ck_assert_int_eq(chdir(folder), 0);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *walk) {
  (void)st, (void)type, (void)walk;
  return remove(path);
}

void fixture_leave(void) {
  ck_assert_int_eq(chdir("/"), 0);
  nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static const char *or_else(const char *text, const char *otherwise) {
  return text != NULL ? text : otherwise;
}

void fixture_write(const char *path, const cache_problem *p, const fixture_entry *entries, size_t n) {
  static const cache_environment ENVIRONMENT = {
      .device = "Fake GPU 0", .driver = "", .llvm = "22.1.8", .generator = "1", .sm_count = FAKE_SMS};
  arke_error err = ARKE_ERROR_INIT;
  cache *c;
  cache_id environment, problem;
  ck_assert_msg(cache_open(path, CACHE_WRITE, &c, &err) == ARKE_OK, "%s", err.text);
  ck_assert_int_eq(cache_environment_id(c, &ENVIRONMENT, &environment, &err), ARKE_OK);
  for (size_t i = 0; i < n; i++) {
    const fixture_entry *e = &entries[i];
    cache_problem stored = *p;
    stored.bindings = or_else(e->bindings, "T=bf16 M=4096 N=4096 K=4096");
    stored.target = or_else(e->target, "sm_90a");
    stored.bucket = or_else(e->bucket, "");
    cache_kernel k = {.ptx = or_else(e->ptx, FIXTURE_PTX), .recipe_json = or_else(e->recipe, FIXTURE_RECIPE)};
    k.ptx_bytes = strlen(k.ptx);
    if (e->cubin != NULL) {
      k.cubin = e->cubin;
      k.cubin_bytes = strlen(e->cubin) + 1;
    }
    double time_ns = e->time_ns > 0 ? e->time_ns : 100000;
    cache_winner w = {.template_name = "gemm",
                      .config = or_else(e->config, "BLOCK_M=128"),
                      .origin = e->modelled ? CACHE_ORIGIN_MODELLED : CACHE_ORIGIN_MEASURED,
                      .time = {time_ns, time_ns, time_ns, e->modelled ? 0 : 30},
                      .policy = "l2=cold"};
    bool published;
    ck_assert_int_eq(cache_problem_id(c, &stored, &problem, &err), ARKE_OK);
    ck_assert_msg(cache_put_winner(c, problem, environment, &k, &w, &published, &err) == ARKE_OK, "%s",
                  err.text);
  }
  cache_close(c);
}

void fixture_tensor_init(fixture_tensor *f, uintptr_t address, int rank, const int64_t *shape) {
  int64_t stride = 1;
  *f = (fixture_tensor){.t = {.data = (void *)address,
                              .device = {kDLCUDA, 0},
                              .ndim = rank,
                              .dtype = {kDLBfloat, 16, 1},
                              .shape = f->shape,
                              .strides = f->strides}};
  for (int i = rank - 1; i >= 0; i--) {
    f->shape[i] = shape[i];
    f->strides[i] = stride;
    stride *= shape[i];
  }
}

void fixture_call_init(fixture_call *c, int64_t m, int64_t n, int64_t k) {
  fixture_tensor_init(&c->tensors[0], 0x10000000, 2, (int64_t[]){m, k});
  fixture_tensor_init(&c->tensors[1], 0x20000000, 2, (int64_t[]){k, n});
  fixture_tensor_init(&c->tensors[2], 0x30000000, 2, (int64_t[]){m, n});
  for (int i = 0; i < 3; i++) c->list[i] = &c->tensors[i].t;
}

arke_context *fixture_open(const arke_options *options) {
  arke_options with_defaults = *options;
  arke_error err = ARKE_ERROR_INIT;
  arke_context *ctx;
  if (with_defaults.cache_path == NULL && with_defaults.shipped_path == NULL)
    with_defaults.cache_path = "tuned.arke";
  with_defaults.device = ARKE_DEVICE_CUDA;
  ck_assert_msg(arke_open(&with_defaults, &ctx, &err) == ARKE_OK, "%s", err.text);
  return ctx;
}
