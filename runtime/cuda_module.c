#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "runtime/cuda_device.h"

#define STAGE "cuda"

enum { JIT_LOG_BYTES = 1500 }; /* leaves room for the driver's words in arke_error.text */

/* The driver takes option values as pointers, numbers too. */
static void *number(uintptr_t n) {
  return (void *)n;
}

static const char *trimmed(char *log) {
  size_t n = strlen(log);
  while (n > 0 && (log[n - 1] == '\n' || log[n - 1] == ' ')) log[--n] = '\0';
  return log;
}

/* `what` failed with `r`: the driver's words, and the compiler's where it left any. */
static arke_status jit_error(const cuda_gpu *g, cuda_result r, const char *symbol, char *log,
                             arke_status code, arke_error *err) {
  arke_error driver = ARKE_ERROR_INIT;
  arke_status status = cuda_check(&g->api, r, symbol, &driver);
  if (status == ARKE_ERR_DRIVER) status = code;
  return error_set(err, status, STAGE, "%.400s%s%s", driver.text, log[0] == '\0' ? "" : ": ", trimmed(log));
}

arke_status cuda_module_load(device *d, const void *image, size_t bytes, device_module **m, arke_error *err) {
  (void)bytes; /* PTX ends with a NUL, a cubin carries its size in its ELF header */
  cuda_gpu *g = cuda_of(d);
  char log[JIT_LOG_BYTES] = "";
  int options[] = {CUDA_JIT_ERROR_LOG, CUDA_JIT_ERROR_LOG_BYTES};
  void *values[] = {log, number(sizeof log)};
  cuda_module module = NULL;
  bool pushed;
  *m = NULL;
  TRY(cuda_enter(g, &pushed, err));
  cuda_result r = g->api.module_load(&module, image, COUNT_OF(options), options, values);
  cuda_leave(g, pushed);
  if (r != CUDA_OK) return jit_error(g, r, "cuModuleLoadDataEx", log, ARKE_ERR_DRIVER, err);
  *m = (device_module *)module;
  return ARKE_OK;
}

void cuda_module_unload(device *d, device_module *m) {
  cuda_gpu *g = cuda_of(d);
  bool pushed;
  if (m == NULL || cuda_enter(g, &pushed, NULL) != ARKE_OK) return;
  g->api.module_unload((cuda_module)m);
  cuda_leave(g, pushed);
}

/* A kernel shared by two plans keeps the larger limit: lowering it would break the other's launches. */
static cuda_result raise_smem_limit(const cuda_api *api, cuda_function f, uint32_t smem_bytes) {
  int limit = 0;
  cuda_result r = api->function_get(&limit, CUDA_FUNCTION_MAX_DYNAMIC_SMEM_BYTES, f);
  if (r != CUDA_OK || (int64_t)smem_bytes <= limit) return r;
  return api->function_set(f, CUDA_FUNCTION_MAX_DYNAMIC_SMEM_BYTES, (int)smem_bytes);
}

static arke_status prepare(const cuda_gpu *g, cuda_function f, uint32_t smem_bytes, arke_error *err) {
  /* Modules load lazily: without this the first launch would load, and that fails inside a stream capture. */
  if (g->api.function_load != NULL) TRY(cuda_check(&g->api, g->api.function_load(f), "cuFuncLoad", err));
  TRY(cuda_check(&g->api, raise_smem_limit(&g->api, f, smem_bytes),
                 "cuFuncSetAttribute (dynamic shared memory)", err));
  /* Clusters of more than 8 need a word of consent. Without it the launch fails and says so. */
  if (g->info.cc_major >= 9) g->api.function_set(f, CUDA_FUNCTION_NON_PORTABLE_CLUSTER, 1);
  return ARKE_OK;
}

arke_status cuda_kernel_get(device *d, device_module *m, const char *name, uint32_t smem_bytes,
                            device_kernel **k, arke_error *err) {
  cuda_gpu *g = cuda_of(d);
  cuda_function f = NULL;
  *k = NULL;
  if (smem_bytes > (uint32_t)g->info.smem_per_block_bytes)
    return error_set(err, ARKE_ERR_UNSUPPORTED, STAGE,
                     "kernel %s wants %u bytes of shared memory; %s has %d for one block", name, smem_bytes,
                     g->info.name, g->info.smem_per_block_bytes);
  bool pushed;
  TRY(cuda_enter(g, &pushed, err));
  cuda_result r = g->api.module_function(&f, (cuda_module)m, name);
  arke_status status =
      r == CUDA_OK ? prepare(g, f, smem_bytes, err) : cuda_check(&g->api, r, "cuModuleGetFunction", err);
  cuda_leave(g, pushed);
  if (status == ARKE_OK) *k = (device_kernel *)f;
  return status;
}

arke_status cuda_kernel_info(device *d, device_kernel *k, device_kernel_info *info, arke_error *err) {
  cuda_gpu *g = cuda_of(d);
  cuda_function f = (cuda_function)k;
  CUDA_CALL(g, err, function_get, "cuFuncGetAttribute", &info->registers, CUDA_FUNCTION_REGISTERS, f);
  CUDA_CALL(g, err, function_get, "cuFuncGetAttribute", &info->local_bytes, CUDA_FUNCTION_LOCAL_BYTES, f);
  CUDA_CALL(g, err, function_get, "cuFuncGetAttribute", &info->static_smem_bytes,
            CUDA_FUNCTION_STATIC_SMEM_BYTES, f);
  CUDA_CALL(g, err, function_get, "cuFuncGetAttribute", &info->max_threads, CUDA_FUNCTION_MAX_THREADS, f);
  return ARKE_OK;
}

/* "sm_90a" as the driver's CU_JIT_TARGET number. */
static bool jit_target(const char *target, uintptr_t *value) {
  if (strncmp(target, "sm_", 3) != 0) return false;
  size_t digits = strspn(target + 3, "0123456789");
  const char *suffix = target + 3 + digits;
  int64_t cc;
  if (!text_to_i64(target + 3, digits, 30, 999, &cc)) return false;
  if (*suffix != '\0' && strcmp(suffix, "a") != 0) return false;
  *value = (uintptr_t)cc + (*suffix == 'a' ? CUDA_JIT_TARGET_A : 0);
  return true;
}

static arke_status link_ptx(const cuda_gpu *g, const char *ptx, uintptr_t target, void **cubin, size_t *bytes,
                            arke_error *err) {
  char log[JIT_LOG_BYTES] = "";
  int options[] = {CUDA_JIT_TARGET, CUDA_JIT_ERROR_LOG, CUDA_JIT_ERROR_LOG_BYTES};
  void *values[] = {number(target), log, number(sizeof log)};
  cuda_link link = NULL;
  void *linked = NULL;
  const char *symbol = "cuLinkCreate";
  cuda_result r = g->api.link_create(COUNT_OF(options), options, values, &link);
  if (r == CUDA_OK) {
    symbol = "cuLinkAddData";
    r = g->api.link_add(link, CUDA_JIT_INPUT_PTX, (void *)ptx, strlen(ptx) + 1, "kernel.ptx", 0, NULL, NULL);
  }
  if (r == CUDA_OK) {
    symbol = "cuLinkComplete";
    r = g->api.link_complete(link, &linked, bytes);
  }
  arke_status status = ARKE_OK;
  if (r != CUDA_OK) {
    status = jit_error(g, r, symbol, log, ARKE_ERR_ASSEMBLE, err);
  } else {
    *cubin = malloc(*bytes); /* the linker's own memory goes with it */
    if (*cubin == NULL)
      status = error_memory(err, STAGE);
    else
      memcpy(*cubin, linked, *bytes);
  }
  if (link != NULL) g->api.link_destroy(link);
  return status;
}

arke_status cuda_assemble(device *d, const char *ptx, const char *target, void **cubin, size_t *bytes,
                          arke_error *err) {
  cuda_gpu *g = cuda_of(d);
  uintptr_t number_of_target;
  *cubin = NULL;
  *bytes = 0;
  if (g->api.link_create == NULL || g->api.link_add == NULL || g->api.link_complete == NULL ||
      g->api.link_destroy == NULL)
    return error_set(err, ARKE_ERR_UNSUPPORTED, STAGE, "the driver has no linker (cuLinkCreate)");
  if (!jit_target(target, &number_of_target))
    return error_set(err, ARKE_ERR_ARGUMENT, STAGE, "the driver's linker knows no target \"%s\"", target);
  bool pushed;
  TRY(cuda_enter(g, &pushed, err));
  arke_status status = link_ptx(g, ptx, number_of_target, cubin, bytes, err);
  cuda_leave(g, pushed);
  return status;
}
