#include "runtime/cuda_device.h"

arke_status cuda_mem_alloc(device *d, size_t bytes, const char *name, device_ptr *p, arke_error *err) {
  (void)name;
  cuda_gpu *g = cuda_of(d);
  *p = 0;
  /* cuMemAlloc refuses 0 bytes; its addresses are aligned to 256. */
  CUDA_CALL(g, err, mem_alloc, "cuMemAlloc", p, bytes == 0 ? 1 : bytes);
  return ARKE_OK;
}

void cuda_mem_free(device *d, device_ptr p) {
  cuda_gpu *g = cuda_of(d);
  bool pushed;
  if (p == 0 || cuda_enter(g, &pushed, NULL) != ARKE_OK) return;
  g->api.mem_free(p);
  cuda_leave(g, pushed);
}

arke_status cuda_copy_in(device *d, device_ptr to, const void *from, size_t bytes, arke_error *err) {
  if (bytes == 0) return ARKE_OK;
  CUDA_CALL(cuda_of(d), err, copy_in, "cuMemcpyHtoD", to, from, bytes);
  return ARKE_OK;
}

arke_status cuda_copy_out(device *d, void *to, device_ptr from, size_t bytes, arke_error *err) {
  if (bytes == 0) return ARKE_OK;
  CUDA_CALL(cuda_of(d), err, copy_out, "cuMemcpyDtoH", to, from, bytes);
  return ARKE_OK;
}

arke_status cuda_copy(device *d, device_ptr to, device_ptr from, size_t bytes, arke_error *err) {
  if (bytes == 0) return ARKE_OK;
  CUDA_CALL(cuda_of(d), err, copy, "cuMemcpyDtoD", to, from, bytes);
  return ARKE_OK;
}

arke_status cuda_fill(device *d, device_ptr p, int byte, size_t bytes, arke_error *err) {
  if (bytes == 0) return ARKE_OK;
  CUDA_CALL(cuda_of(d), err, fill, "cuMemsetD8", p, (unsigned char)byte, bytes);
  return ARKE_OK;
}

/* The GPU checks nothing that it would have to be told. */
arke_status cuda_mem_import(device *d, device_ptr p, size_t bytes, const char *name,
                            device_memory_state state, arke_error *err) {
  (void)d, (void)p, (void)bytes, (void)name, (void)state, (void)err;
  return ARKE_OK;
}

void cuda_mem_release(device *d, device_ptr p) {
  (void)d, (void)p;
}
