#include "runtime/call.h"

#include <inttypes.h>
#include <string.h>

#define STAGE "plan"

const char *call_device_name(DLDeviceType type) {
  switch (type) {
  case kDLCPU: return "CPU";
  case kDLCUDA: return "CUDA";
  case kDLCUDAHost: return "pinned CPU";
  case kDLCUDAManaged: return "CUDA managed";
  case kDLROCM: return "ROCm";
  default: return "another kind of device";
  }
}

static arke_status read_shape(int index, const DLTensor *from, call_tensor *t, arke_error *err) {
  if (from->ndim < 0 || from->ndim > LIMIT_RANK)
    return error_set(err, ARKE_ERR_SHAPE, STAGE, "tensor %d has rank %d; accepted are 0 to %d", index,
                     from->ndim, LIMIT_RANK);
  if (from->ndim > 0 && from->shape == NULL)
    return error_set(err, ARKE_ERR_ARGUMENT, STAGE, "tensor %d has rank %d and no shape", index, from->ndim);
  t->rank = from->ndim;
  for (int i = 0; i < t->rank; i++) {
    t->shape[i] = from->shape[i];
    if (t->shape[i] < 0 || t->shape[i] > LIMIT_AXIS_SIZE)
      return error_set(err, ARKE_ERR_SHAPE, STAGE,
                       "axis %d of tensor %d has %" PRId64 " elements; accepted are 0 to 2^40", i, index,
                       t->shape[i]);
    if (t->shape[i] == 0) t->empty = true;
  }
  return ARKE_OK;
}

static arke_status read_strides(int index, const DLTensor *from, call_tensor *t, arke_error *err) {
  int64_t expected = 1, last = 0; /* last: offset of the last element */
  bool overflow = false;
  t->compact = true;
  for (int i = t->rank - 1; i >= 0; i--) {
    int64_t stride = from->strides == NULL || t->shape[i] <= 1 || t->empty ? expected : from->strides[i],
            extent;
    if (stride < 0)
      return error_set(err, ARKE_ERR_SHAPE, STAGE,
                       "axis %d of tensor %d has stride %" PRId64 "; accepted are strides of 0 and more", i,
                       index, stride);
    if (stride != expected) t->compact = false;
    t->stride[i] = stride;
    overflow |= __builtin_mul_overflow(stride, t->shape[i] > 0 ? t->shape[i] - 1 : 0, &extent);
    overflow |= __builtin_add_overflow(last, extent, &last);
    overflow |= __builtin_mul_overflow(expected, t->shape[i] > 0 ? t->shape[i] : 1, &expected);
  }
  if (overflow || last >= INT64_MAX / 16)
    return error_set(err, ARKE_ERR_SHAPE, STAGE, "tensor %d spans more than 2^59 elements", index);
  t->span_bytes = t->empty ? 0 : dtype_bytes(t->type, last + 1);
  return ARKE_OK;
}

static arke_status check_place(int index, const DLTensor *t, call_place place, arke_error *err) {
  if (t->device.device_type != place.type)
    return error_set(
        err, ARKE_ERR_DEVICE, STAGE, "tensor %d is on %s (DLPack device %d); this context runs on %s", index,
        call_device_name(t->device.device_type), (int)t->device.device_type, call_device_name(place.type));
  if (place.type == kDLCUDA && t->device.device_id != place.device_index)
    return error_set(err, ARKE_ERR_DEVICE, STAGE, "tensor %d is on GPU %d; this context runs on GPU %d",
                     index, t->device.device_id, place.device_index);
  return ARKE_OK;
}

static arke_status read_tensor(int index, const DLTensor *from, call_place place, call_tensor *t,
                               arke_error *err) {
  if (from == NULL) return error_set(err, ARKE_ERR_ARGUMENT, STAGE, "tensor %d is NULL", index);
  if (!dtype_from_dlpack(from->dtype.code, from->dtype.bits, from->dtype.lanes, &t->type))
    return error_set(err, ARKE_ERR_DTYPE, STAGE,
                     "tensor %d has a dtype that no operator takes (DLPack code %d, %d bits, %d lanes)",
                     index, from->dtype.code, from->dtype.bits, from->dtype.lanes);
  TRY(check_place(index, from, place, err));
  TRY(read_shape(index, from, t, err));
  TRY(read_strides(index, from, t, err));
  t->address = from->data == NULL ? 0 : (uint64_t)(uintptr_t)from->data + from->byte_offset;
  return ARKE_OK;
}

arke_status call_read(const char *op, const DLTensor *const *tensors, int n_tensors, const arke_attr *attrs,
                      int n_attrs, call_place place, call *c, arke_error *err) {
  *c = (call){.op = op, .n_tensors = n_tensors, .attrs = attrs, .n_attrs = n_attrs};
  if (op == NULL || op[0] == '\0') return error_set(err, ARKE_ERR_ARGUMENT, STAGE, "op is missing");
  if (n_tensors < 1 || n_tensors > LIMIT_TENSORS)
    return error_set(err, ARKE_ERR_ARGUMENT, STAGE, "n_tensors is %d; accepted are 1 to %d", n_tensors,
                     LIMIT_TENSORS);
  if (tensors == NULL) return error_set(err, ARKE_ERR_ARGUMENT, STAGE, "tensors is NULL");
  if (n_attrs < 0 || n_attrs > LIMIT_ATTRS)
    return error_set(err, ARKE_ERR_ARGUMENT, STAGE, "n_attrs is %d; accepted are 0 to %d", n_attrs,
                     LIMIT_ATTRS);
  if (n_attrs > 0 && attrs == NULL) return error_set(err, ARKE_ERR_ARGUMENT, STAGE, "attrs is NULL");
  for (int i = 0; i < n_attrs; i++)
    if (attrs[i].name == NULL) return error_set(err, ARKE_ERR_ARGUMENT, STAGE, "attribute %d has no name", i);
  for (int i = 1; i < n_attrs; i++)
    for (int k = 0; k < i; k++)
      if (strcmp(attrs[i].name, attrs[k].name) == 0)
        return error_set(err, ARKE_ERR_ARGUMENT, STAGE, "attribute \"%s\" is given twice", attrs[i].name);
  for (int i = 0; i < n_tensors; i++) TRY(read_tensor(i, tensors[i], place, &c->tensors[i], err));
  return ARKE_OK;
}
