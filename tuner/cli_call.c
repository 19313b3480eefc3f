#include "tuner/cli_call.h"

void cli_call_bind(cli_call *c, const tune_tensors *t, int set, const device_info *info) {
  c->n = 0;
  for (int i = 0; i < t->n; i++) {
    const tune_tensor *x = &t->list[i];
    if (x->alias >= 0) continue; /* passed once, as the input */
    c->tensors[c->n] = (DLTensor){
        .data = (void *)(uintptr_t)tune_tensors_address(t, i, set),
        .device = {.device_type = info->kind == ARKE_DEVICE_CUDA ? kDLCUDA : kDLCPU,
                   .device_id = info->kind == ARKE_DEVICE_CUDA ? info->index : 0},
        .ndim = x->rank,
        .dtype = {.code = dtype_dlpack_code(x->type), .bits = (uint8_t)dtype_bits(x->type), .lanes = 1},
        .shape = (int64_t *)x->shape, /* DLPack has no const; nothing here writes */
        .strides = (int64_t *)x->strides,
    };
    c->pointers[c->n] = &c->tensors[c->n];
    c->n++;
  }
}
