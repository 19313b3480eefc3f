#include "tuner/trial_launches.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#define STAGE "launch"

/* Axes by name, strides as "A.stride0", SMS. */
typedef struct environment {
  int n;
  recipe_binding list[LIMIT_AXES + LIMIT_TENSORS * LIMIT_RANK + 1];
  char names[LIMIT_TENSORS * LIMIT_RANK][LIMIT_NAME_BYTES + 16];
} environment;

static void fill_environment(const tune_tensors *t, int sm_count, environment *e) {
  const ir_op *op = t->problem->op;
  e->n = 0;
  for (int i = 0; i < op->n_axes; i++) e->list[e->n++] = (recipe_binding){op->axes[i], t->problem->sizes[i]};
  int named = 0;
  for (int i = 0; i < t->n; i++) {
    for (int d = 0; d < t->list[i].rank; d++) {
      char *name = e->names[named++];
      snprintf(name, sizeof e->names[0], "%s.stride%d", op->tensors[i].name, d);
      e->list[e->n++] = (recipe_binding){name, t->list[i].strides[d]};
    }
  }
  e->list[e->n++] = (recipe_binding){"SMS", sm_count};
}

static arke_status evaluate(const environment *e, const recipe_expr *x, int64_t min, int64_t max,
                            const char *what, int64_t *value, arke_error *err) {
  TRY(recipe_expr_eval(x, e->list, e->n, value, err));
  if (*value < min || *value > max)
    return error_set(err, ARKE_ERR_INVALID, STAGE, "the recipe's %s is %lld, outside %lld to %lld", what,
                     (long long)*value, (long long)min, (long long)max);
  return ARKE_OK;
}

static arke_status check_requirements(const environment *e, const recipe *r, arke_error *err) {
  for (int i = 0; i < r->n_requirements; i++) {
    const recipe_requirement *q = &r->requirements[i];
    int64_t value;
    TRY(recipe_expr_eval(q->expr, e->list, e->n, &value, err));
    bool holds = q->divisor ? value % q->divisor == 0 : value <= q->max;
    if (!holds)
      return error_set(err, ARKE_ERR_INVALID, STAGE, "a requirement of the recipe does not hold here: %s",
                       q->why);
  }
  return ARKE_OK;
}

static arke_status encode_map(const tune_tensors *t, const environment *e, const recipe_param *p,
                              device_ptr address, device_tensormap *map, arke_error *err) {
  const recipe_tensormap *m = &p->map;
  device_tensormap_desc desc = {.type = t->list[p->tensor].type,
                                .rank = m->rank,
                                .address = address,
                                .swizzle = m->swizzle,
                                .l2_promotion = m->l2_promotion};
  for (int i = 0; i < m->rank; i++) {
    int64_t v;
    TRY(evaluate(e, m->dim[i], 1, INT64_MAX, "tensor map size", &v, err));
    desc.dim[i] = (uint64_t)v;
    desc.box[i] = m->box[i];
    if (i == 0) continue;
    TRY(evaluate(e, m->stride[i], 0, INT64_MAX / 16, "tensor map stride", &v, err));
    desc.stride_bytes[i] = (uint64_t)dtype_bytes(desc.type, v);
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

static arke_status fill_param(const tune_tensors *t, const environment *e, const recipe_param *p, int set,
                              device_ptr workspace, tune_value *v, arke_error *err) {
  int64_t number;
  switch (p->kind) {
  case RECIPE_PARAM_POINTER: v->pointer = tune_tensors_address(t, p->tensor, set); return ARKE_OK;
  case RECIPE_PARAM_TENSORMAP:
    return encode_map(t, e, p, tune_tensors_address(t, p->tensor, set), &v->map, err);
  case RECIPE_PARAM_I32:
    TRY(evaluate(e, p->value, INT32_MIN, INT32_MAX, "i32 parameter", &number, err));
    v->i32 = (int32_t)number;
    return ARKE_OK;
  case RECIPE_PARAM_I64: return evaluate(e, p->value, INT64_MIN, INT64_MAX, "i64 parameter", &v->i64, err);
  case RECIPE_PARAM_F32: return attribute(t->problem, p->attr, &v->f32, err);
  case RECIPE_PARAM_WORKSPACE:
    TRY(evaluate(e, p->value, 0, INT64_MAX, "workspace offset", &number, err));
    v->pointer = workspace + (device_ptr)number;
    return ARKE_OK;
  }
  return error_set(err, ARKE_ERR_INTERNAL, STAGE, "unknown kind of kernel parameter");
}

static arke_status bind_launch(const tune_tensors *t, device_module *m, const environment *e,
                               const recipe_launch *r, int set, device_ptr workspace, arena *a,
                               device_launch *l, device_kernel **kernel, arke_error *err) {
  *l = (device_launch){.n_args = r->n_params, .early_start = r->early_start};
  int64_t v;
  for (int i = 0; i < 3; i++) {
    TRY(evaluate(e, r->grid[i], 1, INT_MAX, "grid", &v, err));
    l->grid[i] = (uint32_t)v;
    l->block[i] = r->block[i];
    l->cluster[i] = r->cluster[i];
  }
  TRY(evaluate(e, r->smem_bytes, 0, INT_MAX, "shared memory", &v, err));
  l->smem_bytes = (uint32_t)v;
  TRY(t->dev->ops->kernel_get(t->dev, m, r->kernel, l->smem_bytes, kernel, err));
  /* Tensor maps must lie on 64 bytes; the arena aligns to 16. */
  char *raw = arena_alloc(a, ((size_t)r->n_params + 1) * sizeof(tune_value));
  l->args = ARENA_NEW_N(a, void *, (size_t)r->n_params + 1);
  if (!raw || !l->args) return error_memory(err, STAGE);
  size_t align = _Alignof(tune_value);
  tune_value *values = (tune_value *)(void *)(raw + (align - (uintptr_t)raw % align) % align);
  for (int i = 0; i < r->n_params; i++) {
    TRY(fill_param(t, e, &r->params[i], set, workspace, &values[i], err));
    l->args[i] = &values[i];
  }
  return ARKE_OK;
}

arke_status tune_launches_bind(const tune_tensors *t, device_module *m, const recipe *r, int sm_count,
                               int set, device_ptr workspace, arena *a, tune_launches *l, arke_error *err) {
  environment e;
  fill_environment(t, sm_count, &e);
  TRY(check_requirements(&e, r, err));
  if (r->n_tensors != t->n)
    return error_set(err, ARKE_ERR_INVALID, STAGE, "the recipe is for %d tensors, the operator has %d",
                     r->n_tensors, t->n);
  l->n = r->n_launches;
  for (int i = 0; i < r->n_launches; i++)
    TRY(bind_launch(t, m, &e, &r->launches[i], set, workspace, a, &l->launches[i], &l->kernels[i], err));
  return ARKE_OK;
}

arke_status tune_launches_workspace(const tune_tensors *t, const recipe *r, int sm_count, size_t *bytes,
                                    arke_error *err) {
  *bytes = 0;
  if (!r->workspace_bytes) return ARKE_OK;
  environment e;
  fill_environment(t, sm_count, &e);
  int64_t v;
  TRY(evaluate(&e, r->workspace_bytes, 0, INT64_MAX, "workspace", &v, err));
  *bytes = (size_t)v;
  return ARKE_OK;
}

arke_status tune_launches_enqueue(device *dev, const tune_launches *l, void *stream, arke_error *err) {
  for (int i = 0; i < l->n; i++) {
    device_launch launch = l->launches[i];
    launch.stream = stream;
    TRY(dev->ops->launch(dev, l->kernels[i], &launch, err));
  }
  return ARKE_OK;
}
