/* Launching what a recipe says without a plan, for who has tensors at hand and need not be fast (the tuner's
 * checks, tests), and what all who launch have in common. */
#ifndef ARKE_RUNTIME_LAUNCH_RECIPE_H
#define ARKE_RUNTIME_LAUNCH_RECIPE_H

#include "recipe/recipe_call.h"
#include "runtime/device.h"

/* Where a tensor of the signature lies. */
typedef struct launch_tensor {
  dtype type;
  device_ptr address; /* of its first element */
} launch_tensor;

/* What the parameter, a TENSORMAP or WORKSPACE_MAP, maps for the call's sizes, over elements of `type` from
 * `address` on. `name`: the tensor's, NULL: the workspace's, for errors: ARKE_ERR_UNSUPPORTED where a size is
 * none that a map can have, such as 0. */
arke_status launch_describe_map(const recipe_param *p, const recipe_call *c, dtype type, device_ptr address,
                                const char *name, device_tensormap_desc *desc, arke_error *err);

/* Launches all of `r`, one behind the other, and does not wait for them. `tensors`: those of the signature;
 * `workspace` has as many bytes as the recipe wants. F32 parameters (attributes) are refused. */
arke_status launch_recipe(device *d, device_module *m, const recipe *r, const recipe_call *c,
                          const launch_tensor *tensors, device_ptr workspace, arke_error *err);

#endif
