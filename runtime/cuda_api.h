/* The part of the CUDA driver API that Arke uses (libcuda.so.1, CUDA Driver API reference), declared here so
 * that building needs no toolkit. Numbers and layouts are the driver's ABI and never change under a symbol's
 * name. */
#ifndef ARKE_RUNTIME_CUDA_API_H
#define ARKE_RUNTIME_CUDA_API_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef int cuda_result; /* 0: success */
typedef int cuda_device_id;
typedef uint64_t cuda_address;
typedef struct cuda_context_ *cuda_context;
typedef struct cuda_module_ *cuda_module;
typedef struct cuda_function_ *cuda_function;
typedef struct cuda_stream_ *cuda_stream;
typedef struct cuda_event_ *cuda_event;
typedef struct cuda_graph_ *cuda_graph;
typedef struct cuda_graph_exec_ *cuda_graph_exec;
typedef struct cuda_link_ *cuda_link;

enum {
  CUDA_ATTRIBUTE_CLOCK_KHZ = 13,
  CUDA_ATTRIBUTE_SM_COUNT = 16,
  CUDA_ATTRIBUTE_MEMORY_CLOCK_KHZ = 36,
  CUDA_ATTRIBUTE_MEMORY_BUS_BITS = 37,
  CUDA_ATTRIBUTE_L2_BYTES = 38,
  CUDA_ATTRIBUTE_CC_MAJOR = 75,
  CUDA_ATTRIBUTE_CC_MINOR = 76,
  CUDA_ATTRIBUTE_SMEM_PER_BLOCK_OPTIN = 97,

  CUDA_FUNCTION_MAX_THREADS = 0,
  CUDA_FUNCTION_STATIC_SMEM_BYTES = 1,
  CUDA_FUNCTION_LOCAL_BYTES = 3,
  CUDA_FUNCTION_REGISTERS = 4,
  CUDA_FUNCTION_MAX_DYNAMIC_SMEM_BYTES = 8,
  CUDA_FUNCTION_NON_PORTABLE_CLUSTER = 14,

  CUDA_JIT_INFO_LOG = 3,
  CUDA_JIT_INFO_LOG_BYTES = 4,
  CUDA_JIT_ERROR_LOG = 5,
  CUDA_JIT_ERROR_LOG_BYTES = 6,
  CUDA_JIT_TARGET = 9,
  CUDA_JIT_INPUT_PTX = 1,
  CUDA_JIT_TARGET_A = 0x10000, /* added to 90 for sm_90a */

  CUDA_STREAM_NON_BLOCKING = 1,
  CUDA_CAPTURE_RELAXED = 2,
  CUDA_LAUNCH_CLUSTER_DIMENSION = 4,
  CUDA_LAUNCH_PROGRAMMATIC_SERIALIZATION = 6,

  CUDA_OK = 0,
  CUDA_OUT_OF_MEMORY = 2,
};

/* CUlaunchAttribute: the value is a union padded to 64 bytes. */
typedef struct cuda_launch_attribute {
  uint32_t id;
  uint32_t padding;
  union {
    char pad[64];
    uint32_t cluster[3];
    int programmatic_serialization;
    uint64_t alignment;
  } value;
} cuda_launch_attribute;

/* CUlaunchConfig */
typedef struct cuda_launch_config {
  uint32_t grid[3], block[3];
  uint32_t smem_bytes;
  cuda_stream stream;
  cuda_launch_attribute *attributes;
  uint32_t n_attributes;
} cuda_launch_config;

/* X(field, symbol, need, parameters): every driver function used. need: REQUIRED, or OPTIONAL where a driver
 * older than the function can still serve; a missing optional one is NULL. */
#define CUDA_FUNCTIONS(X)                                                                                    \
  X(init, cuInit, REQUIRED, (unsigned flags))                                                                \
  X(driver_version, cuDriverGetVersion, REQUIRED, (int *version))                                            \
  X(error_name, cuGetErrorName, REQUIRED, (cuda_result r, const char **name))                                \
  X(error_string, cuGetErrorString, REQUIRED, (cuda_result r, const char **text))                            \
  X(device_count, cuDeviceGetCount, REQUIRED, (int *count))                                                  \
  X(device_get, cuDeviceGet, REQUIRED, (cuda_device_id * d, int ordinal))                                    \
  X(device_name, cuDeviceGetName, REQUIRED, (char *name, int bytes, cuda_device_id d))                       \
  X(device_bus, cuDeviceGetPCIBusId, REQUIRED, (char *bus, int bytes, cuda_device_id d))                     \
  X(device_memory, cuDeviceTotalMem_v2, REQUIRED, (size_t * bytes, cuda_device_id d))                        \
  X(device_attribute, cuDeviceGetAttribute, REQUIRED, (int *value, int attribute, cuda_device_id d))         \
  X(context_retain, cuDevicePrimaryCtxRetain, REQUIRED, (cuda_context * c, cuda_device_id d))                \
  X(context_release, cuDevicePrimaryCtxRelease_v2, REQUIRED, (cuda_device_id d))                             \
  X(context_current, cuCtxGetCurrent, REQUIRED, (cuda_context * c))                                          \
  X(context_push, cuCtxPushCurrent_v2, REQUIRED, (cuda_context c))                                           \
  X(context_pop, cuCtxPopCurrent_v2, REQUIRED, (cuda_context * c))                                           \
  X(context_synchronize, cuCtxSynchronize, REQUIRED, (void))                                                 \
  X(mem_alloc, cuMemAlloc_v2, REQUIRED, (cuda_address * p, size_t bytes))                                    \
  X(mem_free, cuMemFree_v2, REQUIRED, (cuda_address p))                                                      \
  X(copy_in, cuMemcpyHtoD_v2, REQUIRED, (cuda_address to, const void *from, size_t bytes))                   \
  X(copy_out, cuMemcpyDtoH_v2, REQUIRED, (void *to, cuda_address from, size_t bytes))                        \
  X(copy, cuMemcpyDtoD_v2, REQUIRED, (cuda_address to, cuda_address from, size_t bytes))                     \
  X(fill, cuMemsetD8_v2, REQUIRED, (cuda_address p, unsigned char byte, size_t bytes))                       \
  X(stream_fill, cuMemsetD8Async, REQUIRED,                                                                  \
    (cuda_address p, unsigned char byte, size_t bytes, cuda_stream s))                                       \
  X(module_load, cuModuleLoadDataEx, REQUIRED,                                                               \
    (cuda_module * m, const void *image, unsigned n, int *options, void **values))                           \
  X(module_unload, cuModuleUnload, REQUIRED, (cuda_module m))                                                \
  X(module_function, cuModuleGetFunction, REQUIRED, (cuda_function * f, cuda_module m, const char *name))    \
  X(function_load, cuFuncLoad, OPTIONAL, (cuda_function f))                                                  \
  X(function_get, cuFuncGetAttribute, REQUIRED, (int *value, int attribute, cuda_function f))                \
  X(function_set, cuFuncSetAttribute, REQUIRED, (cuda_function f, int attribute, int value))                 \
  X(launch, cuLaunchKernelEx, REQUIRED,                                                                      \
    (const cuda_launch_config *config, cuda_function f, void **args, void **extra))                          \
  X(tensormap_encode, cuTensorMapEncodeTiled, OPTIONAL,                                                      \
    (void *map, int type, uint32_t rank, void *address, const uint64_t *dim, const uint64_t *stride_bytes,   \
     const uint32_t *box, const uint32_t *element_stride, int interleave, int swizzle, int l2_promotion,     \
     int fill))                                                                                              \
  X(tensormap_address, cuTensorMapReplaceAddress, OPTIONAL, (void *map, void *address))                      \
  X(stream_create, cuStreamCreate, REQUIRED, (cuda_stream * s, unsigned flags))                              \
  X(stream_destroy, cuStreamDestroy_v2, REQUIRED, (cuda_stream s))                                           \
  X(capture_begin, cuStreamBeginCapture_v2, REQUIRED, (cuda_stream s, int mode))                             \
  X(capture_end, cuStreamEndCapture, REQUIRED, (cuda_stream s, cuda_graph * g))                              \
  X(event_create, cuEventCreate, REQUIRED, (cuda_event * e, unsigned flags))                                 \
  X(event_destroy, cuEventDestroy_v2, REQUIRED, (cuda_event e))                                              \
  X(event_record, cuEventRecord, REQUIRED, (cuda_event e, cuda_stream s))                                    \
  X(event_synchronize, cuEventSynchronize, REQUIRED, (cuda_event e))                                         \
  X(event_elapsed, cuEventElapsedTime, REQUIRED, (float *ms, cuda_event begin, cuda_event end))              \
  X(graph_instantiate, cuGraphInstantiateWithFlags, REQUIRED,                                                \
    (cuda_graph_exec * e, cuda_graph g, unsigned long long flags))                                           \
  X(graph_launch, cuGraphLaunch, REQUIRED, (cuda_graph_exec e, cuda_stream s))                               \
  X(graph_exec_destroy, cuGraphExecDestroy, REQUIRED, (cuda_graph_exec e))                                   \
  X(graph_destroy, cuGraphDestroy, REQUIRED, (cuda_graph g))                                                 \
  X(link_create, cuLinkCreate_v2, OPTIONAL, (unsigned n, int *options, void **values, cuda_link *l))         \
  X(link_add, cuLinkAddData_v2, OPTIONAL,                                                                    \
    (cuda_link l, int type, void *data, size_t bytes, const char *name, unsigned n, int *options,            \
     void **values))                                                                                         \
  X(link_complete, cuLinkComplete, OPTIONAL, (cuda_link l, void **cubin, size_t *bytes))                     \
  X(link_destroy, cuLinkDestroy, OPTIONAL, (cuda_link l))

typedef struct cuda_api {
#define X(field, symbol, need, parameters) cuda_result(*field) parameters;
  CUDA_FUNCTIONS(X)
#undef X
  void *library;
} cuda_api;

/* Loads libcuda.so.1 and initialises the driver. ARKE_ERR_DEVICE says what is missing. */
arke_status cuda_api_load(cuda_api *api, arke_error *err);
void cuda_api_unload(cuda_api *api);

/* ARKE_OK, or ARKE_ERR_DRIVER (ARKE_ERR_MEMORY where the GPU's memory is out) with the driver's own words:
 * "cuMemAlloc_v2: CUDA_OUT_OF_MEMORY (out of memory)". */
arke_status cuda_check(const cuda_api *api, cuda_result r, const char *symbol, arke_error *err);

/* The kernel driver's version ("580.159.04") from /proc/driver/nvidia/version, else from NVML; "" if unknown.
 */
void cuda_driver_text(char *text, size_t bytes);

#endif
