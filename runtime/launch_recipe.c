#include "runtime/launch_recipe.h"

#include <inttypes.h>

#define STAGE "recipe"

typedef struct launcher {
  device *d;
  device_module *m;
  const recipe_call *c;
  const launch_tensor *tensors;
  device_ptr workspace;
  arke_error *err;
} launcher;

static arke_status evaluate(const recipe_call *c, const recipe_expr *e, int64_t most, const char *what,
                            int64_t *value, arke_error *err) {
  TRY(recipe_call_eval(c, e, value, err));
  if (*value >= 0 && *value <= most) return ARKE_OK;
  return error_set(err, ARKE_ERR_UNSUPPORTED, STAGE, "%s would be %" PRId64 "; accepted are 0 to %" PRId64,
                   what, *value, most);
}

arke_status launch_describe_map(const recipe_param *p, const recipe_call *c, dtype type, device_ptr address,
                                const char *name, device_tensormap_desc *desc, arke_error *err) {
  const recipe_tensormap *map = &p->map;
  *desc = (device_tensormap_desc){.type = type,
                                  .rank = map->rank,
                                  .swizzle = map->swizzle,
                                  .l2_promotion = map->l2_promotion,
                                  .address = address};
  for (int i = 0; i < map->rank; i++) {
    int64_t value;
    TRY(evaluate(c, map->dim[i], (int64_t)1 << 32, "a tensor map's dimension", &value, err));
    if (value == 0)
      return error_set(err, ARKE_ERR_UNSUPPORTED, STAGE,
                       "%s%s has no elements, and the kernel that was tuned reads it by tensor maps, which "
                       "cannot be empty",
                       name ? "tensor " : "a part of the workspace", name ? name : "");
    desc->dim[i] = (uint64_t)value;
    desc->box[i] = map->box[i];
    if (i == 0) continue;
    TRY(evaluate(c, map->stride[i], (int64_t)1 << 40, "a tensor map's stride", &value, err));
    desc->stride_bytes[i] = (uint64_t)dtype_bytes(type, value);
  }
  return ARKE_OK;
}

static arke_status encode(const launcher *l, const recipe_param *p, dtype type, device_ptr address,
                          const char *name, device_tensormap *map) {
  device_tensormap_desc desc;
  TRY(launch_describe_map(p, l->c, type, address, name, &desc, l->err));
  return l->d->ops->tensormap_encode(l->d, &desc, map, l->err);
}

/* Where a parameter over a tensor begins. */
static arke_status address_of(const launcher *l, const recipe_param *p, device_ptr *address) {
  int64_t offset = 0;
  if (p->value != NULL) TRY(evaluate(l->c, p->value, INT64_MAX, "an offset into a tensor", &offset, l->err));
  *address = l->tensors[p->tensor].address + (device_ptr)offset;
  return ARKE_OK;
}

/* `word` is what is passed, or `map`; little-endian: the first half of a word is an i32. */
static arke_status fill(const launcher *l, const recipe_param *p, int64_t *word, device_tensormap *map) {
  device_ptr address;
  switch (p->kind) {
  case RECIPE_PARAM_POINTER:
    TRY(address_of(l, p, &address));
    *word = (int64_t)address;
    return ARKE_OK;
  case RECIPE_PARAM_TENSORMAP:
    TRY(address_of(l, p, &address));
    return encode(l, p, l->tensors[p->tensor].type, address, l->c->tensors[p->tensor].name, map);
  case RECIPE_PARAM_WORKSPACE_MAP:
    TRY(recipe_call_eval(l->c, p->value, word, l->err));
    return encode(l, p, p->type, l->workspace + (device_ptr)*word, NULL, map);
  case RECIPE_PARAM_I32:
  case RECIPE_PARAM_I64: return recipe_call_eval(l->c, p->value, word, l->err);
  case RECIPE_PARAM_WORKSPACE:
    TRY(recipe_call_eval(l->c, p->value, word, l->err));
    *word += (int64_t)l->workspace;
    return ARKE_OK;
  case RECIPE_PARAM_F32: break;
  }
  return error_set(l->err, ARKE_ERR_INTERNAL, STAGE, "a parameter of a kind that needs a plan");
}

static arke_status launch_one(const launcher *l, const recipe_launch *r) {
  device_tensormap maps[LIMIT_KERNEL_ARGS];
  int64_t words[LIMIT_KERNEL_ARGS], value;
  void *args[LIMIT_KERNEL_ARGS];
  device_launch launch = {.args = args, .n_args = r->n_params, .early_start = r->early_start};
  for (int i = 0; i < 3; i++) {
    TRY(evaluate(l->c, r->grid[i], INT32_MAX, "a dimension of the grid", &value, l->err));
    if (value == 0) return ARKE_OK; /* recipe.h */
    launch.grid[i] = (uint32_t)value;
    launch.block[i] = r->block[i];
    launch.cluster[i] = r->cluster[i];
  }
  for (int i = 0; i < r->n_params; i++) {
    const recipe_param *p = &r->params[i];
    bool map = p->kind == RECIPE_PARAM_TENSORMAP || p->kind == RECIPE_PARAM_WORKSPACE_MAP;
    args[i] = map ? (void *)&maps[i] : (void *)&words[i];
    TRY(fill(l, p, &words[i], &maps[i]));
  }
  TRY(evaluate(l->c, r->smem_bytes, INT32_MAX, "shared memory", &value, l->err));
  launch.smem_bytes = (uint32_t)value;
  device_kernel *k;
  TRY(l->d->ops->kernel_get(l->d, l->m, r->kernel, launch.smem_bytes, &k, l->err));
  return l->d->ops->launch(l->d, k, &launch, l->err);
}

arke_status launch_recipe(device *d, device_module *m, const recipe *r, const recipe_call *c,
                          const launch_tensor *tensors, device_ptr workspace, arke_error *err) {
  recipe_call call = *c;
  launcher l = {.d = d, .m = m, .c = &call, .tensors = tensors, .workspace = workspace, .err = err};
  arena a = ARENA_INIT;
  const recipe_turn *turns;
  int n = 0;
  arke_status status = recipe_turns(r, c, &a, &turns, &n, err);
  for (int i = 0; i < n && status == ARKE_OK; i++) {
    recipe_call_set_round(&call, turns[i].round);
    status = launch_one(&l, &r->launches[turns[i].launch]);
  }
  arena_release(&a);
  return status;
}
