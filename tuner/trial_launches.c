#include "tuner/trial_launches.h"

#include <limits.h>
#include <string.h>

#include "runtime/launch_recipe.h"

#define STAGE "launch"

arke_status tune_launches_view(const tune_tensors *t, int sm_count, arena *a, recipe_call *c,
                               arke_error *err) {
  const ir_op *op = t->problem->op;
  recipe_tensor tensors[LIMIT_TENSORS];
  recipe_binding sizes[LIMIT_AXES];
  for (int i = 0; i < op->n_axes; i++) sizes[i] = (recipe_binding){op->axes[i], t->problem->sizes[i]};
  for (int i = 0; i < t->n; i++) {
    const tune_tensor *x = &t->list[i];
    tensors[i] = (recipe_tensor){.name = op->tensors[i].name,
                                 .output = x->output,
                                 .rank = x->rank,
                                 .leading = op->tensors[i].any_rank ? t->problem->lead_rank : -1,
                                 .address = tune_tensors_address(t, i, 0)};
    memcpy(tensors[i].shape, x->shape, sizeof tensors[i].shape);
    memcpy(tensors[i].stride, x->strides, sizeof tensors[i].stride);
  }
  return recipe_call_make(tensors, t->n, sizes, op->n_axes, sm_count, a, c, err);
}

static arke_status evaluate(const tune_binding *b, const recipe_expr *x, int64_t min, int64_t max,
                            const char *what, int64_t *value, arke_error *err) {
  TRY(recipe_call_eval(b->view, x, value, err));
  if (*value < min || *value > max)
    return error_set(err, ARKE_ERR_INVALID, STAGE, "the recipe's %s is %lld, outside %lld to %lld", what,
                     (long long)*value, (long long)min, (long long)max);
  return ARKE_OK;
}

/* Where a parameter over a tensor begins, in set `set`. */
static arke_status place(const tune_binding *b, const recipe_param *p, int set, device_ptr *address,
                         arke_error *err) {
  int64_t offset = 0;
  if (p->value) TRY(evaluate(b, p->value, 0, INT64_MAX, "offset into a tensor", &offset, err));
  *address = tune_tensors_address(b->tensors, p->tensor, set) + (device_ptr)offset;
  return ARKE_OK;
}

/* Of the tensor in set `set`, or of the workspace. */
static arke_status encode_map(const tune_binding *b, const recipe_param *p, int set, device_tensormap *map,
                              arke_error *err) {
  const tune_tensors *t = b->tensors;
  device_tensormap_desc desc;
  if (p->kind == RECIPE_PARAM_TENSORMAP) {
    device_ptr address;
    TRY(place(b, p, set, &address, err));
    TRY(launch_describe_map(p, b->view, t->list[p->tensor].type, address, b->view->tensors[p->tensor].name,
                            &desc, err));
  } else {
    int64_t offset;
    TRY(evaluate(b, p->value, 0, INT64_MAX, "workspace offset", &offset, err));
    TRY(launch_describe_map(p, b->view, p->type, b->workspace + (device_ptr)offset, NULL, &desc, err));
  }
  return t->dev->ops->tensormap_encode(t->dev, &desc, map, err);
}

static arke_status attribute(const ir_problem *p, const char *name, float *value, arke_error *err) {
  for (int i = 0; i < p->op->n_attrs; i++) {
    if (strcmp(p->op->attrs[i].name, name) != 0) continue;
    *value = (float)p->attrs[i];
    return ARKE_OK;
  }
  return error_set(err, ARKE_ERR_INVALID, STAGE, "the recipe names no attribute of the operator: %s", name);
}

static arke_status fill_param(const tune_binding *b, const recipe_param *p, tune_value *v, arke_error *err) {
  int64_t number;
  switch (p->kind) {
  case RECIPE_PARAM_POINTER: return place(b, p, 0, &v->pointer, err);
  case RECIPE_PARAM_TENSORMAP:
  case RECIPE_PARAM_WORKSPACE_MAP: return encode_map(b, p, 0, &v->map, err);
  case RECIPE_PARAM_I32:
    TRY(evaluate(b, p->value, INT32_MIN, INT32_MAX, "i32 parameter", &number, err));
    v->i32 = (int32_t)number;
    return ARKE_OK;
  case RECIPE_PARAM_I64: return evaluate(b, p->value, INT64_MIN, INT64_MAX, "i64 parameter", &v->i64, err);
  case RECIPE_PARAM_F32: return attribute(b->tensors->problem, p->attr, &v->f32, err);
  case RECIPE_PARAM_WORKSPACE:
    TRY(evaluate(b, p->value, 0, INT64_MAX, "workspace offset", &number, err));
    v->pointer = b->workspace + (device_ptr)number;
    return ARKE_OK;
  }
  return error_set(err, ARKE_ERR_INTERNAL, STAGE, "unknown kind of kernel parameter");
}

/* Room for a launch's parameters; its arguments point there. */
static arke_status make_args(int n, arena *a, device_launch *l, tune_value **values, arke_error *err) {
  /* Tensor maps must lie on 64 bytes; the arena aligns to 16. */
  char *raw = arena_alloc(a, ((size_t)n + 1) * sizeof(tune_value));
  l->args = ARENA_NEW_N(a, void *, (size_t)n + 1);
  if (!raw || !l->args) return error_memory(err, STAGE);
  size_t align = _Alignof(tune_value);
  *values = (tune_value *)(void *)(raw + (align - (uintptr_t)raw % align) % align);
  for (int i = 0; i < n; i++) l->args[i] = &(*values)[i];
  return ARKE_OK;
}

static arke_status bind_launch(const tune_binding *b, const recipe_launch *r, arena *a, device_launch *l,
                               device_kernel **kernel, arke_error *err) {
  *l = (device_launch){.n_args = r->n_params, .early_start = r->early_start};
  int64_t v;
  tune_value *values = NULL;
  for (int i = 0; i < 3; i++) {
    TRY(evaluate(b, r->grid[i], 0, INT_MAX, "grid", &v, err));
    l->grid[i] = (uint32_t)v;
    l->block[i] = r->block[i];
    l->cluster[i] = r->cluster[i];
  }
  TRY(evaluate(b, r->smem_bytes, 0, INT_MAX, "shared memory", &v, err));
  l->smem_bytes = (uint32_t)v;
  device *dev = b->tensors->dev;
  TRY(dev->ops->kernel_get(dev, b->module, r->kernel, l->smem_bytes, kernel, err));
  TRY(make_args(r->n_params, a, l, &values, err));
  for (int i = 0; i < r->n_params; i++) TRY(fill_param(b, &r->params[i], &values[i], err));
  return ARKE_OK;
}

arke_status tune_launches_bind(const tune_binding *b, arena *a, tune_launches *l, arke_error *err) {
  recipe_call view = *b->view;
  tune_binding of_round = *b;
  of_round.view = &view;
  TRY(recipe_turns(b->recipe, b->view, a, &l->turns, &l->n, err));
  l->launches = ARENA_NEW_N(a, device_launch, (size_t)l->n + 1);
  l->kernels = ARENA_NEW_N(a, device_kernel *, (size_t)l->n + 1);
  if (!l->launches || !l->kernels) return error_memory(err, STAGE);
  for (int i = 0; i < l->n; i++) {
    recipe_call_set_round(&view, l->turns[i].round);
    TRY(bind_launch(&of_round, &b->recipe->launches[l->turns[i].launch], a, &l->launches[i], &l->kernels[i],
                    err));
  }
  return ARKE_OK;
}

arke_status tune_launches_move(const tune_binding *b, const tune_launches *from, int set, arena *a,
                               tune_launches *l, arke_error *err) {
  recipe_call view = *b->view;
  tune_binding of_round = *b;
  of_round.view = &view;
  *l = *from;
  l->launches = ARENA_NEW_N(a, device_launch, (size_t)l->n + 1);
  if (!l->launches) return error_memory(err, STAGE);
  for (int i = 0; i < l->n; i++) {
    const recipe_launch *r = &b->recipe->launches[l->turns[i].launch];
    l->launches[i] = from->launches[i];
    recipe_call_set_round(&view, l->turns[i].round);
    tune_value *values = NULL;
    TRY(make_args(r->n_params, a, &l->launches[i], &values, err));
    for (int k = 0; k < r->n_params; k++) {
      const recipe_param *p = &r->params[k];
      values[k] = *(const tune_value *)from->launches[i].args[k];
      if (p->kind == RECIPE_PARAM_POINTER) TRY(place(&of_round, p, set, &values[k].pointer, err));
      if (p->kind == RECIPE_PARAM_TENSORMAP) TRY(encode_map(&of_round, p, set, &values[k].map, err));
    }
  }
  return ARKE_OK;
}

arke_status tune_launches_workspace(const tune_binding *b, size_t *bytes, arke_error *err) {
  *bytes = 0;
  if (!b->recipe->workspace_bytes) return ARKE_OK;
  int64_t v;
  TRY(evaluate(b, b->recipe->workspace_bytes, 0, INT64_MAX, "workspace", &v, err));
  *bytes = (size_t)v;
  return ARKE_OK;
}

arke_status tune_launches_enqueue(device *dev, const tune_launches *l, void *stream, arke_error *err) {
  for (int i = 0; i < l->n; i++) {
    device_launch launch = l->launches[i];
    if (launch.grid[0] == 0 || launch.grid[1] == 0 || launch.grid[2] == 0) continue; /* recipe.h */
    launch.stream = stream;
    TRY(dev->ops->launch(dev, l->kernels[i], &launch, err));
  }
  return ARKE_OK;
}
