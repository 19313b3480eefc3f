#include "examples/gpu_memory.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

enum { MOST_ALLOCATIONS = 16 };

struct gpu_memory {
  int device;
  int (*release)(int device);
  int (*alloc)(uint64_t *p, size_t bytes);
  int (*free)(uint64_t p);
  int (*write)(uint64_t to, const void *from, size_t bytes);
  int (*read)(void *to, uint64_t from, size_t bytes);
  uint64_t list[MOST_ALLOCATIONS];
  int n;
};

gpu_memory *gpu_memory_open(int device_index) {
  void *driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == NULL) return NULL;
  int (*init)(unsigned), (*get)(int *, int), (*retain)(void **, int), (*make_current)(void *);
  gpu_memory *g = calloc(1, sizeof *g);
  if (g == NULL) return NULL;
  *(void **)&init = dlsym(driver, "cuInit");
  *(void **)&get = dlsym(driver, "cuDeviceGet");
  *(void **)&retain = dlsym(driver, "cuDevicePrimaryCtxRetain");
  *(void **)&make_current = dlsym(driver, "cuCtxSetCurrent");
  *(void **)&g->release = dlsym(driver, "cuDevicePrimaryCtxRelease_v2");
  *(void **)&g->alloc = dlsym(driver, "cuMemAlloc_v2");
  *(void **)&g->free = dlsym(driver, "cuMemFree_v2");
  *(void **)&g->write = dlsym(driver, "cuMemcpyHtoD_v2");
  *(void **)&g->read = dlsym(driver, "cuMemcpyDtoH_v2");
  void *context;
  /* The primary context: the one that libarke and PyTorch use. */
  if (init(0) != 0 || get(&g->device, device_index) != 0 || retain(&context, g->device) != 0) {
    free(g);
    return NULL;
  }
  if (make_current(context) != 0) {
    gpu_memory_close(g);
    return NULL;
  }
  return g;
}

void gpu_memory_close(gpu_memory *g) {
  if (g == NULL) return;
  for (int i = 0; i < g->n; i++) g->free(g->list[i]);
  g->release(g->device);
  free(g);
}

void *gpu_memory_alloc(gpu_memory *g, size_t bytes) {
  if (g->n == MOST_ALLOCATIONS || g->alloc(&g->list[g->n], bytes) != 0) return NULL;
  return (void *)(uintptr_t)g->list[g->n++];
}

int gpu_memory_write(gpu_memory *g, void *to, const void *from, size_t bytes) {
  return g->write((uint64_t)(uintptr_t)to, from, bytes);
}

int gpu_memory_read(gpu_memory *g, void *to, const void *from, size_t bytes) {
  return g->read(to, (uint64_t)(uintptr_t)from, bytes);
}
