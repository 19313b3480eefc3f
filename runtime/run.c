/* The hot path. Per call: integer compares of the tensors, copies of the prebuilt tensor maps, the launches.
 * No allocation, no lock, no text; a mismatch goes to plan_explain, which may take its time. */
#include <string.h>

#include "runtime/cuda_device.h"
#include "runtime/plan.h"

#define STAGE "launch"

static bool strides_match(const plan_tensor *p, const int64_t *strides) {
  if (strides == NULL) return p->compact;
  for (int i = 0; i < p->rank; i++)
    if ((p->strided >> i & 1) != 0 && strides[i] != p->stride[i]) return false;
  return true;
}

static bool shape_matches(const plan_tensor *p, const DLTensor *t) {
  if (t->ndim != p->rank) return false;
  if (p->rank > 0 && t->shape == NULL) return false;
  for (int i = 0; i < p->rank; i++)
    if (t->shape[i] != p->shape[i]) return false;
  return strides_match(p, t->strides);
}

static bool tensor_matches(const plan_tensor *p, const DLTensor *t, uint64_t *address) {
  if (t == NULL || !shape_matches(p, t)) return false;
  *address = (uint64_t)(uintptr_t)t->data + t->byte_offset;
  return t->dtype.code == p->type.code && t->dtype.bits == p->type.bits && t->dtype.lanes == p->type.lanes &&
         t->device.device_type == p->device.device_type &&
         (t->device.device_id == p->device.device_id || p->device.device_type == kDLCPU) &&
         (*address & p->alignment_mask) == 0 && (t->data != NULL || p->empty);
}

bool plan_accepts(const arke_plan *plan, const DLTensor *const *tensors, int n_tensors, const void *workspace,
                  uint64_t *addresses) {
  if (n_tensors != plan->n_tensors || tensors == NULL) return false;
  for (int i = 0; i < n_tensors; i++)
    if (!tensor_matches(&plan->tensors[i], tensors[i], &addresses[i])) return false;
  return plan->workspace_bytes == 0 ||
         (workspace != NULL && ((uintptr_t)workspace & (PLAN_WORKSPACE_ALIGNMENT - 1)) == 0);
}

/* The map for a tensor at `address`: the planned one as it is, else a copy in `room`. */
static arke_status place_map(const arke_plan *plan, const plan_param *p, uint64_t address,
                             device_tensormap *room, void **arg, arke_error *err) {
  if (address == p->address) {
    *arg = (void *)p->map; /* the driver reads kernel arguments only */
    return ARKE_OK;
  }
  *arg = memcpy(room, p->map, sizeof *p->map);
  if (p->address_word < 0) return plan->set_address(plan->device, room, address, err);
  memcpy(room->opaque + 8 * p->address_word, &address, sizeof address);
  return ARKE_OK;
}

arke_status plan_fill_frame(const arke_plan *plan, const plan_launch *l, const uint64_t *addresses,
                            uint64_t workspace, launch_frame *frame, arke_error *err) {
  for (int i = 0; i < l->launch.n_args; i++) {
    const plan_param *p = &l->params[i];
    frame->args[i] = &frame->values[i];
    switch (p->kind) {
    case RECIPE_PARAM_POINTER: frame->values[i] = addresses[p->tensor] + p->value; break;
    case RECIPE_PARAM_WORKSPACE: frame->values[i] = workspace + p->value; break;
    case RECIPE_PARAM_TENSORMAP:
      TRY(place_map(plan, p, addresses[p->tensor] + p->value, &frame->maps[i], &frame->args[i], err));
      break;
    case RECIPE_PARAM_WORKSPACE_MAP:
      TRY(place_map(plan, p, workspace + p->value, &frame->maps[i], &frame->args[i], err));
      break;
    default: frame->values[i] = p->value; break; /* little-endian: an i32 or f32 is the low half */
    }
  }
  return ARKE_OK;
}

static arke_status launch_one(const arke_plan *plan, const plan_launch *l, const uint64_t *addresses,
                              void *stream, uint64_t workspace, arke_error *err) {
  launch_frame frame;
  TRY(plan_fill_frame(plan, l, addresses, workspace, &frame, err));
  device_launch launch = l->launch;
  launch.args = frame.args;
  launch.stream = stream;
  return plan->launch(plan->device, l->kernel, &launch, err);
}

arke_status plan_launch_all(const arke_plan *plan, const uint64_t *addresses, void *stream,
                            uint64_t workspace, arke_error *err) {
  for (int i = 0; i < plan->n_launches; i++)
    TRY(launch_one(plan, &plan->launches[i], addresses, stream, workspace, err));
  return ARKE_OK;
}

/* One look at the thread's current context for the whole run, whatever it launches. */
static arke_status run_on_gpu(const arke_plan *plan, const uint64_t *addresses, void *stream,
                              uint64_t workspace, arke_error *err) {
  cuda_gpu *g = cuda_of(plan->device);
  bool pushed;
  TRY(cuda_enter(g, &pushed, err));
  arke_status status = plan_launch_all(plan, addresses, stream, workspace, err);
  cuda_leave(g, pushed);
  return status;
}

static arke_status mismatch(const arke_plan *plan, const DLTensor *const *tensors, int n_tensors,
                            const void *workspace, arke_error *err) {
  arke_status status = plan_explain(plan, tensors, n_tensors, workspace, err);
  return status != ARKE_OK ? status
                           : error_set(err, ARKE_ERR_INTERNAL, STAGE, "a call was refused without a reason");
}

arke_status arke_run(const arke_plan *plan, const DLTensor *const *tensors, int n_tensors, void *stream,
                     void *workspace, arke_error *err) {
  uint64_t addresses[LIMIT_TENSORS];
  if (plan == NULL) return error_set(err, ARKE_ERR_ARGUMENT, STAGE, "plan is NULL");
  arke_status status;
  if (!plan_accepts(plan, tensors, n_tensors, workspace, addresses))
    status = mismatch(plan, tensors, n_tensors, workspace, err);
  else if (plan->ctx->gpu != NULL)
    status = run_on_gpu(plan, addresses, stream, (uint64_t)(uintptr_t)workspace, err);
  else
    status = plan_emulate(plan, addresses, (uint64_t)(uintptr_t)workspace, err);
  if (status != ARKE_OK) error_context(err, plan->op, plan->info.config);
  return status;
}
