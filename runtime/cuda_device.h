/* A CUDA GPU as a device. Every operation works on any thread: it pushes the primary context when the
 * thread's current one is another, and pops it before it returns, so a caller's own context stays current. */
#ifndef ARKE_RUNTIME_CUDA_DEVICE_H
#define ARKE_RUNTIME_CUDA_DEVICE_H

#include "runtime/cuda_api.h"
#include "runtime/device.h"

typedef struct cuda_gpu {
  device base;
  cuda_api api;
  cuda_device_id id;
  cuda_context context;
  device_info info;
} cuda_gpu;

/* The kernel handle of device.h is CUDA's CUfunction itself, the module handle its CUmodule. */

static inline cuda_gpu *cuda_of(device *d) {
  return (cuda_gpu *)d;
}

/* Makes the GPU's context current; *pushed tells cuda_leave what to undo. */
arke_status cuda_enter(cuda_gpu *g, bool *pushed, arke_error *err);
void cuda_leave(cuda_gpu *g, bool pushed);

/* Runs one driver call with the context current and returns its status. */
#define CUDA_CALL(g, err, field, symbol, ...)                                                                \
  do {                                                                                                       \
    bool call_pushed_;                                                                                       \
    TRY(cuda_enter((g), &call_pushed_, (err)));                                                              \
    cuda_result call_result_ = (g)->api.field(__VA_ARGS__);                                                  \
    cuda_leave((g), call_pushed_);                                                                           \
    TRY(cuda_check(&(g)->api, call_result_, symbol, (err)));                                                 \
  } while (0)

/* Operations, one file a concern; cuda_device.c puts them in one device_ops. */
arke_status cuda_mem_alloc(device *d, size_t bytes, const char *name, device_ptr *p, arke_error *err);
void cuda_mem_free(device *d, device_ptr p);
arke_status cuda_copy_in(device *d, device_ptr to, const void *from, size_t bytes, arke_error *err);
arke_status cuda_copy_out(device *d, void *to, device_ptr from, size_t bytes, arke_error *err);
arke_status cuda_copy(device *d, device_ptr to, device_ptr from, size_t bytes, arke_error *err);
arke_status cuda_fill(device *d, device_ptr p, int byte, size_t bytes, arke_error *err);
arke_status cuda_mem_import(device *d, device_ptr p, size_t bytes, const char *name,
                            device_memory_state state, arke_error *err);
void cuda_mem_release(device *d, device_ptr p);

arke_status cuda_module_load(device *d, const void *image, size_t bytes, device_module **m, arke_error *err);
void cuda_module_unload(device *d, device_module *m);
arke_status cuda_kernel_get(device *d, device_module *m, const char *name, uint32_t smem_bytes,
                            device_kernel **k, arke_error *err);
arke_status cuda_kernel_info(device *d, device_kernel *k, device_kernel_info *info, arke_error *err);
arke_status cuda_assemble(device *d, const char *ptx, const char *target, void **cubin, size_t *bytes,
                          arke_error *err);

arke_status cuda_tensormap_encode(device *d, const device_tensormap_desc *desc, device_tensormap *map,
                                  arke_error *err);
arke_status cuda_tensormap_set_address(device *d, device_tensormap *map, device_ptr address, arke_error *err);
/* A launch in the driver's terms; `config` points into `attributes`. */
typedef struct cuda_launch_description {
  cuda_launch_config config;
  cuda_launch_attribute attributes[2];
} cuda_launch_description;
void cuda_launch_describe(const device_launch *l, cuda_launch_description *c);
arke_status cuda_launch(device *d, device_kernel *k, const device_launch *l, arke_error *err);
arke_status cuda_synchronize(device *d, arke_error *err);

/* The same for a caller that has entered the context around all of its calls: nothing is checked twice. */
arke_status cuda_tensormap_set_address_entered(device *d, device_tensormap *map, device_ptr address,
                                               arke_error *err);
arke_status cuda_launch_entered(device *d, device_kernel *k, const device_launch *l, arke_error *err);

arke_status cuda_stream_create(device *d, void **stream, arke_error *err);
void cuda_stream_destroy(device *d, void *stream);
arke_status cuda_stream_fill(device *d, device_ptr p, int byte, size_t bytes, void *stream, arke_error *err);
arke_status cuda_event_create(device *d, void **event, arke_error *err);
void cuda_event_destroy(device *d, void *event);
arke_status cuda_event_record(device *d, void *event, void *stream, arke_error *err);
arke_status cuda_event_elapsed(device *d, void *begin, void *end, double *ns, arke_error *err);
arke_status cuda_graph_begin(device *d, void *stream, arke_error *err);
arke_status cuda_graph_end(device *d, void *stream, void **graph_exec, arke_error *err);
arke_status cuda_graph_launch(device *d, void *graph_exec, void *stream, arke_error *err);
void cuda_graph_destroy(device *d, void *graph_exec);

#endif
