#include "bench/cublas_baseline.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "bench/cublaslt_api.h"

#define FIRST_WITH_MODES 120900
#define ALIGNMENT        256

struct cublas_library {
  void *object;
  cublaslt_api api;
  cublaslt_handle handle;
};

struct cublas_plan {
  const cublas_library *library;
  cublas_product product;
  cublaslt_desc desc;
  cublaslt_layout first, second, result;
  cublaslt_heuristic candidates[CUBLAS_HEURISTICS];
  int count;
};

/* The dynamic linker's own search, then fixed places: CUDA's folders, and where pip puts nvidia-cublas (CUDA
 * 13) and nvidia-cublas-cu12. Of several matches of one pattern the last, which is the newest, is taken. */
static const char *const PLACES[] = {
    "libcublasLt.so.13",
    "libcublasLt.so.12",
    "/usr/local/cuda/lib64/libcublasLt.so.1[23]",
    "/usr/local/cuda-1[23]*/lib64/libcublasLt.so.1[23]",
    "/opt/*/lib/python3*/site-packages/nvidia/cu13/lib/libcublasLt.so.13",
    "/opt/*/lib/python3*/site-packages/nvidia/cublas/lib/libcublasLt.so.1[23]",
    "/usr/local/lib/python3*/*-packages/nvidia/cu13/lib/libcublasLt.so.13",
    "/usr/local/lib/python3*/*-packages/nvidia/cublas/lib/libcublasLt.so.1[23]",
    "/usr/lib/python3*/*-packages/nvidia/cu13/lib/libcublasLt.so.13",
    "/usr/lib/python3*/*-packages/nvidia/cublas/lib/libcublasLt.so.1[23]",
};

static void *open_object(const char *path) {
  return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

static void *search(const char *pattern) {
  if (strchr(pattern, '/') == NULL) return open_object(pattern);
  glob_t found;
  void *object = NULL;
  if (glob(pattern, 0, NULL, &found) != 0) return NULL;
  for (size_t i = found.gl_pathc; i > 0 && object == NULL; i--) object = open_object(found.gl_pathv[i - 1]);
  globfree(&found);
  return object;
}

static void *search_all(arke_error *err) {
  for (size_t i = 0; i < COUNT_OF(PLACES); i++) {
    void *object = search(PLACES[i]);
    if (object != NULL) return object;
  }
  strbuf places = STRBUF_INIT;
  for (size_t i = 0; i < COUNT_OF(PLACES); i++) strbuf_addf(&places, "%s%s", i > 0 ? ", " : "", PLACES[i]);
  error_set(err, ARKE_ERR_NOT_FOUND, "cublas", "no cublasLt library was found; looked for %s",
            strbuf_text(&places));
  strbuf_free(&places);
  return NULL;
}

static arke_status resolve(cublas_library *library, arke_error *err) {
#define X(member, symbol, result, parameters)                                                                \
  *(void **)(void *)&library->api.member = dlsym(library->object, #symbol);                                  \
  if (library->api.member == NULL)                                                                           \
    return error_set(err, ARKE_ERR_UNSUPPORTED, "cublas", "the cublasLt library has no function %s", #symbol);
  CUBLASLT_FUNCTIONS(X)
#undef X
  return ARKE_OK;
}

static arke_status check(const cublas_library *library, cublaslt_status status, const char *what,
                         arke_error *err) {
  if (status == CUBLASLT_SUCCESS) return ARKE_OK;
  return error_set(err, ARKE_ERR_DRIVER, "cublas", "%s: %s", what, library->api.status_name(status));
}

arke_status cublas_open(const char *path, cublas_library **out, arke_error *err) {
  *out = NULL;
  cublas_library *library = calloc(1, sizeof *library);
  if (library == NULL) return error_memory(err, "cublas");
  arke_status status = ARKE_OK;
  library->object = path == NULL ? search_all(err) : open_object(path);
  if (library->object == NULL)
    status = path == NULL
                 ? ARKE_ERR_NOT_FOUND
                 : error_set(err, ARKE_ERR_NOT_FOUND, "cublas", "cannot load cublasLt: %s", dlerror());
  if (status == ARKE_OK) status = resolve(library, err);
  if (status == ARKE_OK)
    status =
        check(library, library->api.create(&library->handle), "cublasLtCreate (is there a usable GPU?)", err);
  if (status != ARKE_OK) {
    cublas_close(library);
    return status;
  }
  *out = library;
  return ARKE_OK;
}

void cublas_close(cublas_library *library) {
  if (library == NULL) return;
  if (library->handle != NULL) library->api.destroy(library->handle);
  if (library->object != NULL) dlclose(library->object);
  free(library);
}

size_t cublas_version(const cublas_library *library) {
  return library->api.version();
}

static int type_code(dtype t) {
  switch (t) {
  case DTYPE_BF16: return CUBLASLT_REAL_16BF;
  case DTYPE_F16: return CUBLASLT_REAL_16F;
  case DTYPE_F32: return CUBLASLT_REAL_32F;
  case DTYPE_E4M3: return CUBLASLT_REAL_E4M3;
  case DTYPE_E5M2: return CUBLASLT_REAL_E5M2;
  case DTYPE_I8: return CUBLASLT_REAL_8I;
  case DTYPE_I32: return CUBLASLT_REAL_32I;
  default: return -1;
  }
}

static int compute_code(dtype a) {
  return a == DTYPE_I8 ? CUBLASLT_COMPUTE_I32 : a == DTYPE_F32 ? CUBLASLT_COMPUTE_TF32 : CUBLASLT_COMPUTE_F32;
}

static bool is_fp8(dtype t) {
  return t == DTYPE_E4M3 || t == DTYPE_E5M2;
}

static bool known_types(const cublas_product *p) {
  if (is_fp8(p->a) || is_fp8(p->b)) {
    bool narrow = p->y == DTYPE_BF16 || p->y == DTYPE_F16 || p->y == DTYPE_F32;
    return is_fp8(p->a) && is_fp8(p->b) && narrow;
  }
  if (p->a == DTYPE_I8) return p->b == DTYPE_I8 && p->y == DTYPE_I32 && p->scales == CUBLAS_SCALES_NONE;
  return type_code(p->a) >= 0 && p->a != DTYPE_I32 && p->b == p->a && p->y == p->a &&
         p->scales == CUBLAS_SCALES_NONE;
}

static void *address(uint64_t device_address) {
  return (void *)(uintptr_t)device_address;
}

static bool has_scales(const cublas_product *p) {
  return p->scales != CUBLAS_SCALES_NONE;
}

/* The descriptor's operands are B, then A. */
static arke_status set_scale(const cublas_plan *plan, int attribute, uint64_t scale, arke_error *err) {
  const cublas_library *l = plan->library;
  const void *at = address(scale);
  return check(l, l->api.desc_set(plan->desc, attribute, &at, sizeof at), "cublasLtMatmulDescSetAttribute",
               err);
}

/* Libraries before 12.8 know no modes, and one scale a tensor is what they mean without. Addresses differ
 * from call to call; candidates for a mode are asked for with some that are aligned as those will be. */
static arke_status set_modes(const cublas_plan *plan, const cublas_product *p, arke_error *err) {
  const cublas_library *l = plan->library;
  if (p->scales <= CUBLAS_SCALES_TENSOR) return ARKE_OK;
  if (cublas_version(l) < FIRST_WITH_MODES)
    return error_set(err, ARKE_ERR_UNSUPPORTED, "cublas",
                     "cublasLt has scales of rows and blocks since 12.9, this one is %zu.%zu",
                     cublas_version(l) / 10000, cublas_version(l) / 100 % 100);
  bool block = p->scales == CUBLAS_SCALES_BLOCK;
  int32_t of_b = block ? CUBLASLT_SCALE_BLOCK : CUBLASLT_SCALE_ROW,
          of_a = block ? CUBLASLT_SCALE_RUN : CUBLASLT_SCALE_ROW;
  TRY(check(l, l->api.desc_set(plan->desc, CUBLASLT_DESC_A_SCALE_MODE, &of_b, sizeof of_b),
            "cublasLtMatmulDescSetAttribute", err));
  TRY(check(l, l->api.desc_set(plan->desc, CUBLASLT_DESC_B_SCALE_MODE, &of_a, sizeof of_a),
            "cublasLtMatmulDescSetAttribute", err));
  TRY(set_scale(plan, CUBLASLT_DESC_A_SCALE, ALIGNMENT, err));
  return set_scale(plan, CUBLASLT_DESC_B_SCALE, ALIGNMENT, err);
}

/* A row-major matrix is its transpose in column-major order, so the product is asked for as Yᵀ = Bᵀ Aᵀ with
 * the operands in that order: no layout is changed, and cublasLt runs the kernels it is tuned for. */
static arke_status describe(cublas_plan *plan, const cublas_product *p, arke_error *err) {
  const cublas_library *l = plan->library;
  int32_t op_b = p->b_transposed ? CUBLASLT_OP_TRANSPOSED : CUBLASLT_OP_AS_IS, op_a = CUBLASLT_OP_AS_IS;
  uint64_t m = (uint64_t)p->m, n = (uint64_t)p->n, k = (uint64_t)p->k;
  uint64_t rows = p->b_transposed ? k : n, cols = p->b_transposed ? n : k;
  int scale = p->a == DTYPE_I8 ? CUBLASLT_REAL_32I : CUBLASLT_REAL_32F;
  TRY(check(l, l->api.desc_create(&plan->desc, compute_code(p->a), scale), "cublasLtMatmulDescCreate", err));
  TRY(check(l, l->api.desc_set(plan->desc, CUBLASLT_DESC_TRANSA, &op_b, sizeof op_b),
            "cublasLtMatmulDescSetAttribute", err));
  TRY(check(l, l->api.desc_set(plan->desc, CUBLASLT_DESC_TRANSB, &op_a, sizeof op_a),
            "cublasLtMatmulDescSetAttribute", err));
  TRY(set_modes(plan, p, err));
  TRY(check(l, l->api.layout_create(&plan->first, type_code(p->b), rows, cols, (int64_t)rows),
            "cublasLtMatrixLayoutCreate", err));
  TRY(check(l, l->api.layout_create(&plan->second, type_code(p->a), k, m, p->k), "cublasLtMatrixLayoutCreate",
            err));
  return check(l, l->api.layout_create(&plan->result, type_code(p->y), n, m, p->n),
               "cublasLtMatrixLayoutCreate", err);
}

static arke_status ask(cublas_plan *plan, arke_error *err) {
  const cublas_library *l = plan->library;
  cublaslt_preference preference = NULL;
  uint64_t workspace_bytes = CUBLAS_WORKSPACE_BYTES;
  cublaslt_heuristic results[CUBLAS_HEURISTICS] = {0};
  int found = 0;
  arke_status status = check(l, l->api.preference_create(&preference), "cublasLtMatmulPreferenceCreate", err);
  if (status == ARKE_OK)
    status = check(l,
                   l->api.preference_set(preference, CUBLASLT_PREFERENCE_WORKSPACE, &workspace_bytes,
                                         sizeof workspace_bytes),
                   "cublasLtMatmulPreferenceSetAttribute", err);
  if (status == ARKE_OK) {
    cublaslt_status answer = l->api.heuristics(l->handle, plan->desc, plan->first, plan->second, plan->result,
                                               plan->result, preference, CUBLAS_HEURISTICS, results, &found);
    /* "Not supported" is how a product that it has no kernel for is answered, beside none found. */
    if (answer != CUBLASLT_NOT_SUPPORTED)
      status = check(l, answer, "cublasLtMatmulAlgoGetHeuristic", err);
    else
      found = 0;
  }
  if (preference != NULL) l->api.preference_destroy(preference);
  for (int i = 0; i < found && status == ARKE_OK; i++)
    if (results[i].state == CUBLASLT_SUCCESS && results[i].workspace_bytes <= CUBLAS_WORKSPACE_BYTES)
      plan->candidates[plan->count++] = results[i];
  return status;
}

arke_status cublas_plan_create(cublas_library *library, const cublas_product *p, cublas_plan **out,
                               arke_error *err) {
  *out = NULL;
  if (p->m < 1 || p->n < 1 || p->k < 1)
    return error_set(err, ARKE_ERR_ARGUMENT, "cublas", "a product of %lldx%lldx%lld is empty",
                     (long long)p->m, (long long)p->n, (long long)p->k);
  if (!known_types(p))
    return error_set(err, ARKE_ERR_UNSUPPORTED, "cublas", "the baseline has no product of %s and %s in %s",
                     dtype_name(p->a), dtype_name(p->b), dtype_name(p->y));
  cublas_plan *plan = calloc(1, sizeof *plan);
  if (plan == NULL) return error_memory(err, "cublas");
  plan->library = library;
  plan->product = *p;
  arke_status status = describe(plan, p, err);
  if (status == ARKE_OK) status = ask(plan, err);
  if (status == ARKE_OK && plan->count == 0)
    status = error_set(err, ARKE_ERR_UNSUPPORTED, "cublas", "cublasLt has no kernel for %lldx%lldx%lld in %s",
                       (long long)p->m, (long long)p->n, (long long)p->k, dtype_name(p->a));
  if (status != ARKE_OK) {
    cublas_plan_destroy(plan);
    return status;
  }
  *out = plan;
  return ARKE_OK;
}

void cublas_plan_destroy(cublas_plan *plan) {
  if (plan == NULL) return;
  const cublaslt_api *api = &plan->library->api;
  if (plan->result != NULL) api->layout_destroy(plan->result);
  if (plan->second != NULL) api->layout_destroy(plan->second);
  if (plan->first != NULL) api->layout_destroy(plan->first);
  if (plan->desc != NULL) api->desc_destroy(plan->desc);
  free(plan);
}

int cublas_plan_count(const cublas_plan *plan) {
  return plan->count;
}

arke_status cublas_plan_run(const cublas_plan *plan, int i, const cublas_tensors *t, uint64_t workspace,
                            void *stream, arke_error *err) {
  if (i < 0 || i >= plan->count)
    return error_set(err, ARKE_ERR_ARGUMENT, "cublas", "candidate %d of %d", i, plan->count);
  const cublas_library *l = plan->library;
  const float one = 1, none = 0;
  const int32_t whole_one = 1, whole_none = 0;
  bool whole = plan->product.a == DTYPE_I8;
  const void *alpha = whole ? (const void *)&whole_one : &one;
  const void *beta = whole ? (const void *)&whole_none : &none;
  if (has_scales(&plan->product)) {
    TRY(set_scale(plan, CUBLASLT_DESC_A_SCALE, t->b_scale, err));
    TRY(set_scale(plan, CUBLASLT_DESC_B_SCALE, t->a_scale, err));
  }
  cublaslt_status status =
      l->api.matmul(l->handle, plan->desc, alpha, address(t->b), plan->first, address(t->a), plan->second,
                    beta, address(t->y), plan->result, address(t->y), plan->result,
                    &plan->candidates[i].algorithm, address(workspace), CUBLAS_WORKSPACE_BYTES, stream);
  return check(l, status, "cublasLtMatmul", err);
}
