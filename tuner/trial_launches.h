/* A recipe bound to one problem and to one set of buffers, ready to be enqueued again and again. */
#ifndef ARKE_TUNER_TRIAL_LAUNCHES_H
#define ARKE_TUNER_TRIAL_LAUNCHES_H

#include "base/arena.h"
#include "recipe/recipe.h"
#include "tuner/trial_tensors.h"

/* A kernel parameter's value; the kernel's argument pointers point here. */
typedef union tune_value {
  device_tensormap map;
  device_ptr pointer;
  int32_t i32;
  int64_t i64;
  float f32;
} tune_value;

typedef struct tune_launches {
  int n;
  device_launch launches[LIMIT_LAUNCHES]; /* arguments live in the arena */
  device_kernel *kernels[LIMIT_LAUNCHES];
} tune_launches;

/* Checks the recipe's requirements, evaluates its expressions for the tensors' problem, `sm_count` and set
 * `set`, and finds its kernels in `m`. A requirement that does not hold is ARKE_ERR_INVALID: the template
 * promised that the configuration is feasible. */
arke_status tune_launches_bind(const tune_tensors *t, device_module *m, const recipe *r, int sm_count,
                               int set, device_ptr workspace, arena *a, tune_launches *l, arke_error *err);
arke_status tune_launches_workspace(const tune_tensors *t, const recipe *r, int sm_count, size_t *bytes,
                                    arke_error *err);
arke_status tune_launches_enqueue(device *dev, const tune_launches *l, void *stream, arke_error *err);

#endif
