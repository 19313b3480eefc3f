#include <inttypes.h>

#include "base/text.h"
#include "runtime/plan.h"

#define STAGE "launch"

static arke_status explain_shape(const plan_tensor *p, const DLTensor *t, arke_error *err) {
  if (t->ndim != p->rank)
    return error_set(err, ARKE_ERR_SHAPE, STAGE, "tensor %s has rank %d; planned is %d", p->name, t->ndim,
                     p->rank);
  if (p->rank > 0 && t->shape == NULL)
    return error_set(err, ARKE_ERR_ARGUMENT, STAGE, "tensor %s has rank %d and no shape", p->name, t->ndim);
  for (int i = 0; i < p->rank; i++)
    if (t->shape[i] != p->shape[i])
      return error_set(err, ARKE_ERR_SHAPE, STAGE,
                       "axis %d of tensor %s has %" PRId64 " elements; planned are %" PRId64, i, p->name,
                       t->shape[i], p->shape[i]);
  if (t->strides == NULL) {
    if (p->compact) return ARKE_OK;
    return error_set(err, ARKE_ERR_SHAPE, STAGE,
                     "tensor %s is compact; planned was one with gaps between its rows", p->name);
  }
  for (int i = 0; i < p->rank; i++)
    if ((p->strided >> i & 1) != 0 && t->strides[i] != p->stride[i])
      return error_set(err, ARKE_ERR_SHAPE, STAGE,
                       "axis %d of tensor %s has stride %" PRId64 "; planned is %" PRId64, i, p->name,
                       t->strides[i], p->stride[i]);
  return ARKE_OK;
}

static arke_status explain_type(const plan_tensor *p, const DLTensor *t, arke_error *err) {
  dtype planned, found;
  if (t->dtype.code == p->type.code && t->dtype.bits == p->type.bits && t->dtype.lanes == p->type.lanes)
    return ARKE_OK;
  if (!dtype_from_dlpack(p->type.code, p->type.bits, p->type.lanes, &planned)) planned = DTYPE_COUNT;
  const char *expected = planned == DTYPE_COUNT ? "another dtype" : dtype_name(planned);
  if (dtype_from_dlpack(t->dtype.code, t->dtype.bits, t->dtype.lanes, &found))
    return error_set(err, ARKE_ERR_DTYPE, STAGE, "tensor %s is %s; planned is %s", p->name, dtype_name(found),
                     expected);
  return error_set(err, ARKE_ERR_DTYPE, STAGE,
                   "tensor %s has DLPack code %d, %d bits, %d lanes; planned is %s", p->name, t->dtype.code,
                   t->dtype.bits, t->dtype.lanes, expected);
}

static arke_status explain_tensor(const plan_tensor *p, const DLTensor *t, arke_error *err) {
  if (t == NULL) return error_set(err, ARKE_ERR_ARGUMENT, STAGE, "tensor %s is NULL", p->name);
  TRY(explain_type(p, t, err));
  TRY(explain_shape(p, t, err));
  if (t->device.device_type != p->device.device_type)
    return error_set(err, ARKE_ERR_DEVICE, STAGE, "tensor %s is on %s (DLPack device %d); planned is %s",
                     p->name, call_device_name(t->device.device_type), (int)t->device.device_type,
                     call_device_name(p->device.device_type));
  if (t->device.device_id != p->device.device_id && p->device.device_type != kDLCPU)
    return error_set(err, ARKE_ERR_DEVICE, STAGE, "tensor %s is on GPU %d; planned is GPU %d", p->name,
                     t->device.device_id, p->device.device_id);
  if (t->data == NULL && !p->empty)
    return error_set(err, ARKE_ERR_ARGUMENT, STAGE, "tensor %s has no data", p->name);
  uint64_t address = (uint64_t)(uintptr_t)t->data + t->byte_offset;
  if ((address & p->alignment_mask) != 0)
    return error_set(err, ARKE_ERR_ARGUMENT, STAGE,
                     "tensor %s is at address 0x%" PRIx64 "; expected is a multiple of %" PRIu64 " bytes",
                     p->name, address, p->alignment_mask + 1);
  return ARKE_OK;
}

arke_status plan_explain(const arke_plan *plan, const DLTensor *const *tensors, int n_tensors,
                         const void *workspace, arke_error *err) {
  if (n_tensors != plan->n_tensors)
    return error_set(err, ARKE_ERR_ARGUMENT, STAGE, "%d %s given; planned are %d", n_tensors,
                     text_plural(n_tensors, "tensor was", "tensors were"), plan->n_tensors);
  if (tensors == NULL) return error_set(err, ARKE_ERR_ARGUMENT, STAGE, "tensors is NULL");
  for (int i = 0; i < n_tensors; i++) TRY(explain_tensor(&plan->tensors[i], tensors[i], err));
  if (plan->workspace_bytes > 0 && workspace == NULL)
    return error_set(err, ARKE_ERR_ARGUMENT, STAGE, "workspace is NULL; this plan needs %zu bytes",
                     plan->workspace_bytes);
  if (plan->workspace_bytes > 0 && ((uintptr_t)workspace & (PLAN_WORKSPACE_ALIGNMENT - 1)) != 0)
    return error_set(err, ARKE_ERR_ARGUMENT, STAGE, "workspace is at %p; expected is a multiple of %d bytes",
                     workspace, PLAN_WORKSPACE_ALIGNMENT);
  return ARKE_OK;
}
