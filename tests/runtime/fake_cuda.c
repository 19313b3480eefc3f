#include "tests/runtime/fake_cuda.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cuda_api.h"

enum { INVALID_VALUE = 1, INVALID_DEVICE = 101, INVALID_CONTEXT = 201, NO_BINARY = 209 };
enum { INVALID_PTX = 218, NOT_FOUND = 500 };

typedef struct fake_function {
  char name[64];
  int n_params, sizes[FAKE_MAX_PARAMS];
  int smem_limit, non_portable;
} fake_function;

struct cuda_module_ {
  int n;
  fake_function functions[16];
};

struct cuda_stream_ {
  bool capturing;
  int captured;
};

struct cuda_event_ {
  int at;
};

struct cuda_graph_ {
  int launches;
};

struct cuda_link_ {
  char *image;
};

static fake_state state = {.n_devices = 1, .cc_major = 9};
static char primary; /* its address is the primary context */
static _Thread_local cuda_context stack[16];
static _Thread_local int depth;
static _Thread_local fake_launch last;

#define FAKE(returned, name, parameters)                                                                     \
  __attribute__((visibility("default"))) returned name parameters;                                           \
  returned name parameters
#define DRIVER(name, parameters) FAKE(cuda_result, name, parameters)

/* The entry of every driver function: the failure a test asked for. */
#define ENTER(name)                                                                                          \
  do {                                                                                                       \
    if (state.fail_symbol[0] != '\0' && strcmp(state.fail_symbol, #name) == 0) {                             \
      state.fail_symbol[0] = '\0';                                                                           \
      return state.fail_code;                                                                                \
    }                                                                                                        \
  } while (0)
#define ENTER_CONTEXT(name)                                                                                  \
  do {                                                                                                       \
    ENTER(name);                                                                                             \
    if (depth == 0 || stack[depth - 1] != (cuda_context)&primary) return INVALID_CONTEXT;                    \
  } while (0)

FAKE(fake_state *, fake_cuda_state, (void)) {
  return &state;
}

FAKE(const fake_launch *, fake_cuda_last_launch, (void)) {
  return &last;
}

FAKE(int, fake_cuda_context_depth, (void)) {
  return depth;
}

DRIVER(cuInit, (unsigned flags)) {
  ENTER(cuInit);
  return flags == 0 ? 0 : INVALID_VALUE;
}

DRIVER(cuDriverGetVersion, (int *version)) {
  ENTER(cuDriverGetVersion);
  *version = 13000;
  return 0;
}

DRIVER(cuGetErrorName, (cuda_result r, const char **name)) {
  *name = r == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : r == NOT_FOUND ? "CUDA_ERROR_NOT_FOUND" : "CUDA_ERROR_FAKE";
  return r == 12345 ? INVALID_VALUE : 0;
}

DRIVER(cuGetErrorString, (cuda_result r, const char **text)) {
  *text = r == 2 ? "out of memory" : "a fake error";
  return r == 12345 ? INVALID_VALUE : 0;
}

DRIVER(cuDeviceGetCount, (int *count)) {
  ENTER(cuDeviceGetCount);
  *count = state.n_devices;
  return 0;
}

DRIVER(cuDeviceGet, (cuda_device_id * d, int ordinal)) {
  ENTER(cuDeviceGet);
  *d = ordinal;
  return ordinal < state.n_devices ? 0 : INVALID_DEVICE;
}

DRIVER(cuDeviceGetName, (char *name, int bytes, cuda_device_id d)) {
  ENTER(cuDeviceGetName);
  snprintf(name, (size_t)bytes, "Fake GPU %d", d);
  return 0;
}

DRIVER(cuDeviceGetPCIBusId, (char *bus, int bytes, cuda_device_id d)) {
  ENTER(cuDeviceGetPCIBusId);
  snprintf(bus, (size_t)bytes, "0000:%02x:00.0", 0x1b + d);
  return 0;
}

DRIVER(cuDeviceTotalMem_v2, (size_t * bytes, cuda_device_id d)) {
  (void)d;
  *bytes = 1 << 30;
  return 0;
}

DRIVER(cuDeviceGetAttribute, (int *value, int attribute, cuda_device_id d)) {
  (void)d;
  ENTER(cuDeviceGetAttribute);
  switch (attribute) {
  case CUDA_ATTRIBUTE_SM_COUNT: *value = FAKE_SMS; return 0;
  case CUDA_ATTRIBUTE_CC_MAJOR: *value = state.cc_major; return 0;
  case CUDA_ATTRIBUTE_CC_MINOR: *value = state.cc_minor; return 0;
  case CUDA_ATTRIBUTE_SMEM_PER_BLOCK_OPTIN: *value = FAKE_SMEM_BYTES; return 0;
  case CUDA_ATTRIBUTE_L2_BYTES: *value = 50 << 20; return 0;
  case CUDA_ATTRIBUTE_CLOCK_KHZ: *value = 1980000; return 0;
  case CUDA_ATTRIBUTE_MEMORY_CLOCK_KHZ: *value = 3201000; return 0;
  case CUDA_ATTRIBUTE_MEMORY_BUS_BITS: *value = 6144; return 0;
  default: return INVALID_VALUE;
  }
}

DRIVER(cuDevicePrimaryCtxRetain, (cuda_context * c, cuda_device_id d)) {
  (void)d;
  ENTER(cuDevicePrimaryCtxRetain);
  state.contexts_retained++;
  *c = (cuda_context)&primary;
  return 0;
}

DRIVER(cuDevicePrimaryCtxRelease_v2, (cuda_device_id d)) {
  (void)d;
  state.contexts_retained--;
  return 0;
}

DRIVER(cuCtxGetCurrent, (cuda_context * c)) {
  *c = depth == 0 ? NULL : stack[depth - 1];
  return 0;
}

DRIVER(cuCtxPushCurrent_v2, (cuda_context c)) {
  ENTER(cuCtxPushCurrent_v2);
  if (depth == 16) return INVALID_CONTEXT;
  stack[depth++] = c;
  return 0;
}

DRIVER(cuCtxPopCurrent_v2, (cuda_context * c)) {
  if (depth == 0) return INVALID_CONTEXT;
  *c = stack[--depth];
  return 0;
}

DRIVER(cuCtxSynchronize, (void)) {
  ENTER_CONTEXT(cuCtxSynchronize);
  return 0;
}

DRIVER(cuMemAlloc_v2, (cuda_address * p, size_t bytes)) {
  ENTER_CONTEXT(cuMemAlloc_v2);
  if (bytes == 0) return INVALID_VALUE;
  void *memory = aligned_alloc(256, (bytes + 255) & ~(size_t)255);
  if (memory == NULL) return 2;
  state.allocations++;
  *p = (cuda_address)(uintptr_t)memory;
  return 0;
}

DRIVER(cuMemFree_v2, (cuda_address p)) {
  ENTER_CONTEXT(cuMemFree_v2);
  free((void *)(uintptr_t)p);
  state.allocations--;
  return 0;
}

DRIVER(cuMemcpyHtoD_v2, (cuda_address to, const void *from, size_t bytes)) {
  ENTER_CONTEXT(cuMemcpyHtoD_v2);
  memcpy((void *)(uintptr_t)to, from, bytes);
  return 0;
}

DRIVER(cuMemcpyDtoH_v2, (void *to, cuda_address from, size_t bytes)) {
  ENTER_CONTEXT(cuMemcpyDtoH_v2);
  memcpy(to, (const void *)(uintptr_t)from, bytes);
  return 0;
}

DRIVER(cuMemcpyDtoD_v2, (cuda_address to, cuda_address from, size_t bytes)) {
  ENTER_CONTEXT(cuMemcpyDtoD_v2);
  memcpy((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes);
  return 0;
}

DRIVER(cuMemsetD8_v2, (cuda_address p, unsigned char byte, size_t bytes)) {
  ENTER_CONTEXT(cuMemsetD8_v2);
  memset((void *)(uintptr_t)p, byte, bytes);
  return 0;
}

DRIVER(cuMemsetD8Async, (cuda_address p, unsigned char byte, size_t bytes, cuda_stream s)) {
  ENTER_CONTEXT(cuMemsetD8Async);
  if (s == NULL) return INVALID_VALUE; /* nothing here fills in the order of the default stream */
  memset((void *)(uintptr_t)p, byte, bytes);
  return 0;
}

static void parse_functions(const char *image, struct cuda_module_ *m) {
  for (const char *line = image; line != NULL && m->n < 16; line = strchr(line, '\n')) {
    line += *line == '\n';
    fake_function *f = &m->functions[m->n];
    int used = 0, size, more;
    if (sscanf(line, "kernel %63s%n", f->name, &used) != 1) continue;
    f->smem_limit = 49152;
    for (line += used; f->n_params < FAKE_MAX_PARAMS && sscanf(line, "%d%n", &size, &more) == 1; line += more)
      f->sizes[f->n_params++] = size;
    m->n++;
  }
}

static void write_log(unsigned n, const int *options, void **values, const char *text) {
  char *log = NULL;
  size_t bytes = 0;
  for (unsigned i = 0; i < n; i++) {
    if (options[i] == CUDA_JIT_ERROR_LOG) log = values[i];
    if (options[i] == CUDA_JIT_ERROR_LOG_BYTES) bytes = (size_t)(uintptr_t)values[i];
  }
  if (log != NULL) snprintf(log, bytes, "%s", text);
}

DRIVER(cuModuleLoadDataEx, (cuda_module * m, const void *image, unsigned n, int *options, void **values)) {
  ENTER_CONTEXT(cuModuleLoadDataEx);
  const char *text = image;
  if (strncmp(text, "foreign cubin", 13) == 0) return NO_BINARY;
  if (strncmp(text, "syntax error", 12) == 0) {
    write_log(n, options, values,
              "ptxas application ptx input, line 7; fatal   : Parsing error near 'syntax'\n");
    return INVALID_PTX;
  }
  *m = calloc(1, sizeof **m);
  if (*m == NULL) return 2;
  parse_functions(text, *m);
  state.modules++;
  return 0;
}

DRIVER(cuModuleUnload, (cuda_module m)) {
  ENTER_CONTEXT(cuModuleUnload);
  free(m);
  state.modules--;
  return 0;
}

DRIVER(cuModuleGetFunction, (cuda_function * f, cuda_module m, const char *name)) {
  ENTER_CONTEXT(cuModuleGetFunction);
  for (int i = 0; i < m->n; i++)
    if (strcmp(m->functions[i].name, name) == 0) {
      *f = (cuda_function)&m->functions[i];
      return 0;
    }
  return NOT_FOUND;
}

DRIVER(cuFuncLoad, (cuda_function f)) {
  (void)f;
  ENTER_CONTEXT(cuFuncLoad);
  return 0;
}

DRIVER(cuFuncGetAttribute, (int *value, int attribute, cuda_function f)) {
  ENTER_CONTEXT(cuFuncGetAttribute);
  const fake_function *fake = (const fake_function *)f;
  *value = attribute == CUDA_FUNCTION_MAX_DYNAMIC_SMEM_BYTES ? fake->smem_limit
           : attribute == CUDA_FUNCTION_NON_PORTABLE_CLUSTER ? fake->non_portable
           : attribute == CUDA_FUNCTION_REGISTERS            ? 168
           : attribute == CUDA_FUNCTION_MAX_THREADS          ? 384
                                                             : 0;
  return 0;
}

DRIVER(cuFuncSetAttribute, (cuda_function f, int attribute, int value)) {
  ENTER_CONTEXT(cuFuncSetAttribute);
  fake_function *fake = (fake_function *)f;
  if (attribute == CUDA_FUNCTION_MAX_DYNAMIC_SMEM_BYTES)
    fake->smem_limit = value;
  else if (attribute == CUDA_FUNCTION_NON_PORTABLE_CLUSTER)
    fake->non_portable = value;
  else
    return INVALID_VALUE;
  return 0;
}

static uint32_t cluster_size(const cuda_launch_config *c, uint32_t cluster[3]) {
  for (int i = 0; i < 3; i++) cluster[i] = 1;
  for (uint32_t i = 0; i < c->n_attributes; i++)
    if (c->attributes[i].id == CUDA_LAUNCH_CLUSTER_DIMENSION)
      memcpy(cluster, c->attributes[i].value.cluster, 12);
  return cluster[0] * cluster[1] * cluster[2];
}

DRIVER(cuLaunchKernelEx, (const cuda_launch_config *c, cuda_function function, void **args, void **extra)) {
  ENTER_CONTEXT(cuLaunchKernelEx);
  const fake_function *f = (const fake_function *)function;
  fake_launch l = {.smem_bytes = c->smem_bytes, .stream = c->stream, .n_params = f->n_params};
  uint32_t ctas = cluster_size(c, l.cluster);
  for (uint32_t i = 0; i < c->n_attributes; i++)
    if (c->attributes[i].id == CUDA_LAUNCH_PROGRAMMATIC_SERIALIZATION)
      l.early_start = c->attributes[i].value.programmatic_serialization == 1;
  if (extra != NULL || (int64_t)c->smem_bytes > f->smem_limit || (ctas > 8 && !f->non_portable))
    return INVALID_VALUE;
  for (int i = 0; i < 3; i++)
    if (c->grid[i] == 0 || c->block[i] == 0 || c->grid[i] % l.cluster[i] != 0) return INVALID_VALUE;
  strcpy(l.kernel, f->name);
  memcpy(l.grid, c->grid, sizeof l.grid);
  memcpy(l.block, c->block, sizeof l.block);
  for (int i = 0; i < f->n_params; i++) memcpy(l.params[i], args[i], (size_t)f->sizes[i]);
  last = l;
  __atomic_fetch_add(&state.launches, 1, __ATOMIC_RELAXED);
  if (c->stream != NULL && c->stream->capturing) c->stream->captured++;
  return 0;
}

DRIVER(cuTensorMapEncodeTiled,
       (void *map, int type, uint32_t rank, void *address, const uint64_t *dim, const uint64_t *stride_bytes,
        const uint32_t *box, const uint32_t *element_stride, int interleave, int swizzle, int l2_promotion,
        int fill)) {
  ENTER_CONTEXT(cuTensorMapEncodeTiled);
  fake_tensormap f = {.address = (uint64_t)(uintptr_t)address,
                      .type = type,
                      .rank = (int32_t)rank,
                      .swizzle = swizzle,
                      .l2_promotion = l2_promotion};
  if (((uintptr_t)map & 63) != 0 || f.address % 16 != 0 || rank < 1 || rank > 5 || interleave != 0 ||
      fill != 0)
    return INVALID_VALUE;
  for (uint32_t i = 0; i < rank; i++) {
    if (dim[i] == 0 || box[i] == 0 || box[i] > 256 || element_stride[i] != 1) return INVALID_VALUE;
    f.dim[i] = dim[i];
    f.box[i] = box[i];
    if (i + 1 < rank && stride_bytes[i] % 16 != 0) return INVALID_VALUE;
    if (i + 1 < rank) f.stride_bytes[i] = stride_bytes[i];
  }
  if (state.split_maps) f.address_again = ~f.address;
  memset(map, 0, 128);
  memcpy(map, &f, sizeof f);
  return 0;
}

DRIVER(cuTensorMapReplaceAddress, (void *map, void *address)) {
  ENTER_CONTEXT(cuTensorMapReplaceAddress);
  fake_tensormap *f = map;
  if (((uintptr_t)map & 63) != 0 || (uintptr_t)address % 16 != 0) return INVALID_VALUE;
  f->address = (uint64_t)(uintptr_t)address;
  if (state.split_maps) f->address_again = ~f->address;
  __atomic_fetch_add(&state.replaced, 1, __ATOMIC_RELAXED);
  return 0;
}

DRIVER(cuStreamCreate, (cuda_stream * s, unsigned flags)) {
  (void)flags;
  ENTER_CONTEXT(cuStreamCreate);
  *s = calloc(1, sizeof **s);
  state.streams++;
  return *s == NULL ? 2 : 0;
}

DRIVER(cuStreamDestroy_v2, (cuda_stream s)) {
  free(s);
  state.streams--;
  return 0;
}

DRIVER(cuStreamBeginCapture_v2, (cuda_stream s, int mode)) {
  (void)mode;
  ENTER_CONTEXT(cuStreamBeginCapture_v2);
  s->capturing = true;
  s->captured = 0;
  return 0;
}

DRIVER(cuStreamEndCapture, (cuda_stream s, cuda_graph *g)) {
  ENTER_CONTEXT(cuStreamEndCapture);
  *g = calloc(1, sizeof **g);
  if (*g == NULL) return 2;
  (*g)->launches = s->captured;
  s->capturing = false;
  state.graphs++;
  return 0;
}

DRIVER(cuEventCreate, (cuda_event * e, unsigned flags)) {
  (void)flags;
  ENTER_CONTEXT(cuEventCreate);
  *e = calloc(1, sizeof **e);
  state.events++;
  return *e == NULL ? 2 : 0;
}

DRIVER(cuEventDestroy_v2, (cuda_event e)) {
  free(e);
  state.events--;
  return 0;
}

/* The clock is the number of launches: one a microsecond. */
DRIVER(cuEventRecord, (cuda_event e, cuda_stream s)) {
  (void)s;
  ENTER_CONTEXT(cuEventRecord);
  e->at = __atomic_load_n(&state.launches, __ATOMIC_RELAXED);
  return 0;
}

DRIVER(cuEventSynchronize, (cuda_event e)) {
  (void)e;
  ENTER_CONTEXT(cuEventSynchronize);
  return 0;
}

DRIVER(cuEventElapsedTime, (float *ms, cuda_event begin, cuda_event end)) {
  ENTER_CONTEXT(cuEventElapsedTime);
  *ms = (float)(end->at - begin->at) / 1000.0f;
  return 0;
}

DRIVER(cuGraphInstantiateWithFlags, (cuda_graph_exec * e, cuda_graph g, unsigned long long flags)) {
  (void)flags;
  ENTER_CONTEXT(cuGraphInstantiateWithFlags);
  cuda_graph copy = malloc(sizeof *copy);
  if (copy == NULL) return 2;
  *copy = *g;
  *e = (cuda_graph_exec)copy;
  state.graphs++;
  return 0;
}

DRIVER(cuGraphLaunch, (cuda_graph_exec e, cuda_stream s)) {
  (void)s;
  ENTER_CONTEXT(cuGraphLaunch);
  __atomic_fetch_add(&state.launches, ((cuda_graph)e)->launches, __ATOMIC_RELAXED);
  return 0;
}

DRIVER(cuGraphExecDestroy, (cuda_graph_exec e)) {
  free(e);
  state.graphs--;
  return 0;
}

DRIVER(cuGraphDestroy, (cuda_graph g)) {
  free(g);
  state.graphs--;
  return 0;
}

DRIVER(cuLinkCreate_v2, (unsigned n, int *options, void **values, cuda_link *l)) {
  ENTER_CONTEXT(cuLinkCreate_v2);
  bool target = false;
  for (unsigned i = 0; i < n; i++)
    if (options[i] == CUDA_JIT_TARGET) target = (uintptr_t)values[i] == CUDA_JIT_TARGET_A + 90;
  if (!target) return INVALID_VALUE;
  write_log(n, options, values, "");
  *l = calloc(1, sizeof **l);
  state.links++;
  return *l == NULL ? 2 : 0;
}

DRIVER(cuLinkAddData_v2, (cuda_link l, int type, void *data, size_t bytes, const char *name, unsigned n,
                          int *options, void **values)) {
  (void)name, (void)n, (void)options, (void)values;
  ENTER_CONTEXT(cuLinkAddData_v2);
  if (type != CUDA_JIT_INPUT_PTX || ((char *)data)[bytes - 1] != '\0') return INVALID_VALUE;
  if (strncmp(data, "syntax error", 12) == 0) return INVALID_PTX;
  l->image = strdup(data);
  return l->image == NULL ? 2 : 0;
}

DRIVER(cuLinkComplete, (cuda_link l, void **cubin, size_t *bytes)) {
  ENTER_CONTEXT(cuLinkComplete);
  *cubin = l->image;
  *bytes = strlen(l->image) + 1;
  return 0;
}

DRIVER(cuLinkDestroy, (cuda_link l)) {
  free(l->image);
  free(l);
  state.links--;
  return 0;
}
