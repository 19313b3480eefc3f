/* nvJitLink through dlopen, with own declarations of the few functions used (CUDA Toolkit, "nvJitLink"). */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "generator/assemble_log.h"

typedef struct nvjitlink_state *nvjitlink_handle;
enum { NVJITLINK_SUCCESS = 0, NVJITLINK_INPUT_PTX = 2 };

/* X(field, name, arguments) */
#define NVJITLINK_FUNCTIONS(X)                                                                               \
  X(create, "Create", (nvjitlink_handle *, uint32_t, const char **))                                         \
  X(destroy, "Destroy", (nvjitlink_handle *))                                                                \
  X(add_data, "AddData", (nvjitlink_handle, int, const void *, size_t, const char *))                        \
  X(complete, "Complete", (nvjitlink_handle))                                                                \
  X(cubin_size, "GetLinkedCubinSize", (nvjitlink_handle, size_t *))                                          \
  X(cubin, "GetLinkedCubin", (nvjitlink_handle, void *))                                                     \
  X(error_size, "GetErrorLogSize", (nvjitlink_handle, size_t *))                                             \
  X(error_log, "GetErrorLog", (nvjitlink_handle, char *))                                                    \
  X(info_size, "GetInfoLogSize", (nvjitlink_handle, size_t *))                                               \
  X(info_log, "GetInfoLog", (nvjitlink_handle, char *))

typedef struct nvjitlink {
  void *library;
#define X(field, name, arguments) int(*field) arguments;
  NVJITLINK_FUNCTIONS(X)
#undef X
} nvjitlink;

static const char *const libraries[] = {"libnvJitLink.so.13", "/usr/local/cuda/lib64/libnvJitLink.so.13",
                                        "libnvJitLink.so.12", "/usr/local/cuda/lib64/libnvJitLink.so.12"};

static bool bind_functions(nvjitlink *n) {
  bool complete = true;
#define X(field, name, arguments)                                                                            \
  *(void **)&n->field = dlsym(n->library, "nvJitLink" name);                                                 \
  complete = complete && n->field;
  NVJITLINK_FUNCTIONS(X)
#undef X
  return complete;
}

/* The library stays mapped after the last close: it is 100 MB, and the next candidate needs it again. */
static bool open_library(nvjitlink *n) {
  for (size_t i = 0; i < COUNT_OF(libraries); i++) {
    n->library = dlopen(libraries[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!n->library) continue;
    if (bind_functions(n)) return true;
    dlclose(n->library);
  }
  return false;
}

bool assemble_nvjitlink_found(void) {
  nvjitlink n;
  if (!open_library(&n)) return false;
  dlclose(n.library);
  return true;
}

/* A log as malloc'ed text; NULL when memory ran out or there is none. */
static char *take_log(nvjitlink_handle h, int (*size)(nvjitlink_handle, size_t *),
                      int (*read)(nvjitlink_handle, char *)) {
  size_t bytes = 0;
  if (size(h, &bytes) != NVJITLINK_SUCCESS || bytes == 0) return NULL;
  char *log = calloc(1, bytes + 1);
  if (log && read(h, log) != NVJITLINK_SUCCESS) log[0] = 0;
  return log;
}

static arke_status link_failed(const nvjitlink *n, nvjitlink_handle h, const char *ptx, int code,
                               arke_error *err) {
  char *log = take_log(h, n->error_size, n->error_log);
  arke_status status =
      log && log[0] ? assemble_log_error(log, ptx, err)
                    : error_set(err, ARKE_ERR_ASSEMBLE, "assemble", "nvJitLink failed with code %d", code);
  free(log);
  return status;
}

static arke_status take_cubin(const nvjitlink *n, nvjitlink_handle h, assembled *out, arke_error *err) {
  size_t bytes = 0;
  int code = n->cubin_size(h, &bytes);
  if (code == NVJITLINK_SUCCESS) {
    out->cubin = malloc(bytes ? bytes : 1);
    if (!out->cubin) return error_memory(err, "assemble");
    code = n->cubin(h, out->cubin);
  }
  if (code != NVJITLINK_SUCCESS) {
    assembled_free(out);
    return error_set(err, ARKE_ERR_ASSEMBLE, "assemble", "nvJitLink gives no cubin (code %d)", code);
  }
  out->cubin_bytes = bytes;
  char *log = take_log(h, n->info_size, n->info_log);
  if (log) assemble_log_read(log, out);
  free(log);
  return ARKE_OK;
}

arke_status assemble_with_nvjitlink(const char *ptx, const char *target, assembled *out, arke_error *err) {
  nvjitlink n;
  if (!open_library(&n)) return error_set(err, ARKE_ERR_UNSUPPORTED, "assemble", "nvJitLink was not found");
  arke_status status;
  nvjitlink_handle h = NULL;
  char arch[64];
  snprintf(arch, sizeof arch, "-arch=%s", target);
  const char *options[] = {arch, "-O3", "-verbose"};
  int code = n.create(&h, COUNT_OF(options), options);
  if (code != NVJITLINK_SUCCESS) {
    status = error_set(err, ARKE_ERR_ASSEMBLE, "assemble", "nvJitLink does not start for %s (code %d)",
                       target, code);
    goto done;
  }
  /* PTX input counts its NUL. */
  code = n.add_data(h, NVJITLINK_INPUT_PTX, ptx, strlen(ptx) + 1, "kernel.ptx");
  if (code == NVJITLINK_SUCCESS) code = n.complete(h);
  status = code == NVJITLINK_SUCCESS ? take_cubin(&n, h, out, err) : link_failed(&n, h, ptx, code, err);
  n.destroy(&h);
done:
  dlclose(n.library);
  return status;
}
