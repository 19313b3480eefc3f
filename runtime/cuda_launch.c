
#include "runtime/cuda_device.h"

#define STAGE "cuda"

/* CUtensorMapDataType. Element types it lacks travel as unsigned integers of their width; only zero fill and
 * copying happen to them, which do not look at the type. */
static int tensormap_type(dtype t) {
  switch (t) {
  case DTYPE_E4M3:
  case DTYPE_E5M2:
  case DTYPE_I8:
  case DTYPE_U8:
  case DTYPE_BOOL: return 0;
  case DTYPE_I16: return 1;
  case DTYPE_I32: return 3;
  case DTYPE_I64: return 5;
  case DTYPE_F16: return 6;
  case DTYPE_F32: return 7;
  case DTYPE_F64: return 8;
  case DTYPE_BF16: return 9;
  case DTYPE_E2M1:
  case DTYPE_I4: return 13;
  default: return -1;
  }
}

arke_status cuda_tensormap_encode(device *d, const device_tensormap_desc *desc, device_tensormap *map,
                                  arke_error *err) {
  static const uint32_t ONES[5] = {1, 1, 1, 1, 1};
  cuda_gpu *g = cuda_of(d);
  int type = tensormap_type(desc->type);
  if (g->api.tensormap_encode == NULL || g->api.tensormap_address == NULL)
    return error_set(err, ARKE_ERR_UNSUPPORTED, STAGE,
                     "the driver has no tensor maps; CUDA 12.0 brought them");
  if (type < 0)
    return error_set(err, ARKE_ERR_INTERNAL, STAGE, "dtype %d has no tensor map type", (int)desc->type);
  /* Arithmetic on the host, yet the driver refuses it without a current context. */
  CUDA_CALL(g, err, tensormap_encode, "cuTensorMapEncodeTiled", map->opaque, type, (uint32_t)desc->rank,
            (void *)desc->address, desc->dim, desc->stride_bytes + 1, desc->box, ONES, 0, desc->swizzle,
            desc->l2_promotion, 0);
  return ARKE_OK;
}

arke_status cuda_tensormap_set_address_entered(device *d, device_tensormap *map, device_ptr address,
                                               arke_error *err) {
  cuda_gpu *g = cuda_of(d);
  return cuda_check(&g->api, g->api.tensormap_address(map->opaque, (void *)address),
                    "cuTensorMapReplaceAddress", err);
}

arke_status cuda_tensormap_set_address(device *d, device_tensormap *map, device_ptr address,
                                       arke_error *err) {
  bool pushed;
  TRY(cuda_enter(cuda_of(d), &pushed, err));
  arke_status status = cuda_tensormap_set_address_entered(d, map, address, err);
  cuda_leave(cuda_of(d), pushed);
  return status;
}

static bool is_cluster(const uint32_t cluster[3]) {
  return cluster[0] > 1 || cluster[1] > 1 || cluster[2] > 1;
}

void cuda_launch_describe(const device_launch *l, cuda_launch_description *c) {
  c->config = (cuda_launch_config){
      .grid = {l->grid[0], l->grid[1], l->grid[2]},
      .block = {l->block[0], l->block[1], l->block[2]},
      .smem_bytes = l->smem_bytes,
      .stream = l->stream,
      .attributes = c->attributes,
  };
  if (is_cluster(l->cluster)) {
    cuda_launch_attribute *cluster = &c->attributes[c->config.n_attributes++];
    *cluster = (cuda_launch_attribute){.id = CUDA_LAUNCH_CLUSTER_DIMENSION};
    for (int i = 0; i < 3; i++) cluster->value.cluster[i] = l->cluster[i] == 0 ? 1 : l->cluster[i];
  }
  if (l->early_start) {
    c->attributes[c->config.n_attributes++] = (cuda_launch_attribute){
        .id = CUDA_LAUNCH_PROGRAMMATIC_SERIALIZATION, .value.programmatic_serialization = 1};
  }
}

arke_status cuda_launch_entered(device *d, device_kernel *k, const device_launch *l, arke_error *err) {
  cuda_gpu *g = cuda_of(d);
  cuda_launch_description c;
  cuda_launch_describe(l, &c);
  return cuda_check(&g->api, g->api.launch(&c.config, (cuda_function)k, l->args, NULL), "cuLaunchKernelEx",
                    err);
}

arke_status cuda_launch(device *d, device_kernel *k, const device_launch *l, arke_error *err) {
  bool pushed;
  TRY(cuda_enter(cuda_of(d), &pushed, err));
  arke_status status = cuda_launch_entered(d, k, l, err);
  cuda_leave(cuda_of(d), pushed);
  return status;
}

arke_status cuda_synchronize(device *d, arke_error *err) {
  CUDA_CALL(cuda_of(d), err, context_synchronize, "cuCtxSynchronize");
  return ARKE_OK;
}
