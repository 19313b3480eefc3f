#include "runtime/cuda_device.h"

#include <stdlib.h>

#define STAGE "cuda"

arke_status cuda_enter(cuda_gpu *g, bool *pushed, arke_error *err) {
  cuda_context current = NULL;
  *pushed = false;
  TRY(cuda_check(&g->api, g->api.context_current(&current), "cuCtxGetCurrent", err));
  if (current == g->context) return ARKE_OK;
  TRY(cuda_check(&g->api, g->api.context_push(g->context), "cuCtxPushCurrent", err));
  *pushed = true;
  return ARKE_OK;
}

void cuda_leave(cuda_gpu *g, bool pushed) {
  cuda_context popped;
  if (pushed) g->api.context_pop(&popped);
}

static void close_gpu(device *d) {
  cuda_gpu *g = cuda_of(d);
  if (g->context != NULL) g->api.context_release(g->id);
  cuda_api_unload(&g->api);
  free(g);
}

static arke_status get_info(device *d, device_info *info, arke_error *err) {
  (void)err;
  *info = cuda_of(d)->info;
  return ARKE_OK;
}

static const device_ops OPS = {
    .close = close_gpu,
    .info = get_info,
    .mem_alloc = cuda_mem_alloc,
    .mem_free = cuda_mem_free,
    .copy_in = cuda_copy_in,
    .copy_out = cuda_copy_out,
    .copy = cuda_copy,
    .fill = cuda_fill,
    .mem_import = cuda_mem_import,
    .mem_release = cuda_mem_release,
    .module_load = cuda_module_load,
    .module_unload = cuda_module_unload,
    .kernel_get = cuda_kernel_get,
    .kernel_info = cuda_kernel_info,
    .tensormap_encode = cuda_tensormap_encode,
    .tensormap_set_address = cuda_tensormap_set_address,
    .launch = cuda_launch,
    .synchronize = cuda_synchronize,
    .stream_create = cuda_stream_create,
    .stream_destroy = cuda_stream_destroy,
    .stream_fill = cuda_stream_fill,
    .event_create = cuda_event_create,
    .event_destroy = cuda_event_destroy,
    .event_record = cuda_event_record,
    .event_elapsed = cuda_event_elapsed,
    .graph_begin = cuda_graph_begin,
    .graph_end = cuda_graph_end,
    .graph_launch = cuda_graph_launch,
    .graph_destroy = cuda_graph_destroy,
    .assemble = cuda_assemble,
};

static arke_status attribute(cuda_gpu *g, int which, int *value, arke_error *err) {
  return cuda_check(&g->api, g->api.device_attribute(value, which, g->id), "cuDeviceGetAttribute", err);
}

static arke_status read_info(cuda_gpu *g, int index, arke_error *err) {
  device_info *info = &g->info;
  size_t memory = 0;
  int l2 = 0;
  info->kind = ARKE_DEVICE_CUDA;
  info->index = index;
  info->can_measure = true;
  TRY(cuda_check(&g->api, g->api.device_name(info->name, (int)sizeof info->name, g->id), "cuDeviceGetName",
                 err));
  TRY(cuda_check(&g->api, g->api.device_bus(info->pci_bus, (int)sizeof info->pci_bus, g->id),
                 "cuDeviceGetPCIBusId", err));
  TRY(cuda_check(&g->api, g->api.device_memory(&memory, g->id), "cuDeviceTotalMem", err));
  TRY(cuda_check(&g->api, g->api.driver_version(&info->driver_version), "cuDriverGetVersion", err));
  TRY(attribute(g, CUDA_ATTRIBUTE_CC_MAJOR, &info->cc_major, err));
  TRY(attribute(g, CUDA_ATTRIBUTE_CC_MINOR, &info->cc_minor, err));
  TRY(attribute(g, CUDA_ATTRIBUTE_SM_COUNT, &info->sm_count, err));
  TRY(attribute(g, CUDA_ATTRIBUTE_SMEM_PER_BLOCK_OPTIN, &info->smem_per_block_bytes, err));
  TRY(attribute(g, CUDA_ATTRIBUTE_L2_BYTES, &l2, err));
  TRY(attribute(g, CUDA_ATTRIBUTE_CLOCK_KHZ, &info->clock_khz, err));
  TRY(attribute(g, CUDA_ATTRIBUTE_MEMORY_CLOCK_KHZ, &info->memory_clock_khz, err));
  TRY(attribute(g, CUDA_ATTRIBUTE_MEMORY_BUS_BITS, &info->memory_bus_bits, err));
  info->memory_bytes = (int64_t)memory;
  info->l2_bytes = l2;
  cuda_driver_text(info->driver_text, sizeof info->driver_text);
  return ARKE_OK;
}

static arke_status open_gpu(cuda_gpu *g, int index, arke_error *err) {
  int count = 0;
  TRY(cuda_api_load(&g->api, err));
  TRY(cuda_check(&g->api, g->api.device_count(&count), "cuDeviceGetCount", err));
  if (count == 0) return error_set(err, ARKE_ERR_DEVICE, STAGE, "the NVIDIA driver sees no GPU");
  if (index < 0 || index >= count)
    return error_set(err, ARKE_ERR_DEVICE, STAGE, "there is no GPU %d; accepted are 0 to %d", index,
                     count - 1);
  TRY(cuda_check(&g->api, g->api.device_get(&g->id, index), "cuDeviceGet", err));
  TRY(read_info(g, index, err));
  return cuda_check(&g->api, g->api.context_retain(&g->context, g->id), "cuDevicePrimaryCtxRetain", err);
}

arke_status device_open_cuda(int index, device **d, arke_error *err) {
  *d = NULL;
  cuda_gpu *g = calloc(1, sizeof *g);
  if (g == NULL) return error_memory(err, STAGE);
  g->base.ops = &OPS;
  arke_status status = open_gpu(g, index, err);
  if (status != ARKE_OK) {
    close_gpu(&g->base);
    return status;
  }
  *d = &g->base;
  return ARKE_OK;
}
