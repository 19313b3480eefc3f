/* A recipe bound to one problem and to one set of buffers, ready to be enqueued again and again. */
#ifndef ARKE_TUNER_TRIAL_LAUNCHES_H
#define ARKE_TUNER_TRIAL_LAUNCHES_H

#include "base/arena.h"
#include "recipe/recipe_call.h"
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
  device_launch *launches; /* in the arena, as their arguments */
  device_kernel **kernels;
  const recipe_turn *turns; /* which launch of the recipe each one is */
} tune_launches;

/* What launches are made from. `recipe` is one whose rules hold for `view` (recipe_choose). */
typedef struct tune_binding {
  const tune_tensors *tensors;
  const recipe_call *view; /* tune_launches_view */
  const recipe *recipe;
  device_module *module;
  device_ptr workspace;
} tune_binding;

/* The problem's tensors as recipes see them; names are the arena's. */
arke_status tune_launches_view(const tune_tensors *t, int sm_count, arena *a, recipe_call *c,
                               arke_error *err);
/* Evaluates the recipe's expressions for set 0 and finds its kernels. What is out of range is
 * ARKE_ERR_INVALID: the template promised that the configuration is feasible. */
arke_status tune_launches_bind(const tune_binding *b, arena *a, tune_launches *l, arke_error *err);
/* The same launches on another set. */
arke_status tune_launches_move(const tune_binding *b, const tune_launches *from, int set, arena *a,
                               tune_launches *l, arke_error *err);
arke_status tune_launches_workspace(const tune_binding *b, size_t *bytes, arke_error *err);
arke_status tune_launches_enqueue(device *dev, const tune_launches *l, void *stream, arke_error *err);

#endif
