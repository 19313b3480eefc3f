#include "runtime/cuda_api.h"

#include <dlfcn.h>
#include <string.h>

#define STAGE "cuda"

enum { REQUIRED = 1, OPTIONAL = 0 };

static arke_status find_functions(cuda_api *api, arke_error *err) {
#define X(field, symbol, need, parameters)                                                                   \
  {                                                                                                          \
    void *address = dlsym(api->library, #symbol);                                                            \
    if (address == NULL && (need) == REQUIRED)                                                               \
      return error_set(err, ARKE_ERR_DEVICE, STAGE,                                                          \
                       "libcuda.so.1 has no %s: the NVIDIA driver is older than CUDA 11.8, the least "       \
                       "accepted",                                                                           \
                       #symbol);                                                                             \
    memcpy(&api->field, &address, sizeof address);                                                           \
  }
  CUDA_FUNCTIONS(X)
#undef X
  return ARKE_OK;
}

static void describe(const cuda_api *api, cuda_result r, const char **name, const char **text) {
  if (api->error_name(r, name) != CUDA_OK || *name == NULL) *name = "unknown error";
  if (api->error_string(r, text) != CUDA_OK || *text == NULL) *text = "no description";
}

/* The driver keeps threads and exit handlers of its own: its code must never be unmapped, hence
 * RTLD_NODELETE. */
arke_status cuda_api_load(cuda_api *api, arke_error *err) {
  *api = (cuda_api){.library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)};
  if (api->library == NULL) return error_set(err, ARKE_ERR_DEVICE, STAGE, "no NVIDIA driver: %s", dlerror());
  arke_status status = find_functions(api, err);
  if (status != ARKE_OK) goto fail;
  cuda_result r = api->init(0);
  if (r != CUDA_OK) {
    const char *name, *text;
    describe(api, r, &name, &text);
    status = error_set(err, ARKE_ERR_DEVICE, STAGE, "the NVIDIA driver does not start: cuInit: %s (%s)", name,
                       text);
    goto fail;
  }
  return ARKE_OK;
fail:
  cuda_api_unload(api);
  return status;
}

void cuda_api_unload(cuda_api *api) {
  if (api->library != NULL) dlclose(api->library);
  api->library = NULL;
}

arke_status cuda_check(const cuda_api *api, cuda_result r, const char *symbol, arke_error *err) {
  if (r == CUDA_OK) return ARKE_OK;
  const char *name, *text;
  describe(api, r, &name, &text);
  arke_status status = r == CUDA_OUT_OF_MEMORY ? ARKE_ERR_MEMORY : ARKE_ERR_DRIVER;
  return error_set(err, status, STAGE, "%s: %s (%s)", symbol, name, text);
}
