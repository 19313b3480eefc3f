#include "run_lowered.h"

#include "byte_sums.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"

enum { GUARD_BYTES = 1024, POISON = 0xA5, GUARD = 0x5A };

typedef struct buffer {
  dtype type;
  int rank;
  int64_t shape[LIMIT_RANK], stride[LIMIT_RANK];
  size_t bytes;
  uint8_t *host;     /* GUARD_BYTES, the tensor, GUARD_BYTES */
  device_ptr memory; /* of the same layout */
} buffer;

typedef struct run_state {
  device *d;
  const ir_problem *p;
  buffer buffers[LIMIT_TENSORS];
  recipe_binding env[LIMIT_AXES + LIMIT_TENSORS * LIMIT_RANK + 1];
  char names[LIMIT_TENSORS * LIMIT_RANK][LIMIT_NAME_BYTES];
  int n_env, n_names;
  device_ptr workspace; /* nothing is written to it */
} run_state;

static void bind_name(run_state *s, const char *name, int64_t value) {
  s->env[s->n_env++] = (recipe_binding){name, value};
}

/* The variables of recipes: axes, strides, SMs. */
static void make_env(run_state *s, int sm_count) {
  const ir_op *op = s->p->op;
  for (int i = 0; i < op->n_axes; i++) bind_name(s, op->axes[i], s->p->sizes[i]);
  for (int t = 0; t < op->n_args; t++) {
    for (int i = 0; i < s->buffers[t].rank; i++) {
      char *name = s->names[s->n_names++];
      snprintf(name, LIMIT_NAME_BYTES, "%.40s.stride%d", op->tensors[t].name, i);
      bind_name(s, name, s->buffers[t].stride[i]);
    }
  }
  bind_name(s, "SMS", sm_count);
}

static arke_status make_buffer(run_state *s, int tensor, int64_t row_padding, uint64_t seed,
                               arke_error *err) {
  buffer *b = &s->buffers[tensor];
  b->type = ir_tensor_dtype(s->p, tensor);
  b->rank = ir_tensor_shape(s->p, tensor, b->shape);
  int64_t stride = 1;
  for (int i = b->rank - 1; i >= 0; i--) {
    b->stride[i] = stride;
    stride *= b->shape[i] + (i == b->rank - 1 && i > 0 ? row_padding : 0);
  }
  b->bytes = (size_t)dtype_bytes(b->type, stride);
  b->host = malloc(b->bytes + 2 * GUARD_BYTES);
  if (!b->host) return error_memory(err, "test");
  memset(b->host, GUARD, b->bytes + 2 * GUARD_BYTES);
  memset(b->host + GUARD_BYTES, POISON, b->bytes);
  if (tensor < s->p->op->n_inputs) {
    for (int64_t i = 0; i < stride; i++) {
      dtype_store(b->type, b->host + GUARD_BYTES, i, random_normal(seed + (uint64_t)tensor, (uint64_t)i));
    }
  }
  TRY(s->d->ops->mem_alloc(s->d, b->bytes + 2 * GUARD_BYTES, s->p->op->tensors[tensor].name, &b->memory,
                           err));
  return s->d->ops->copy_in(s->d, b->memory, b->host, b->bytes + 2 * GUARD_BYTES, err);
}

static arke_status eval(const run_state *s, const recipe_expr *e, int64_t *value, arke_error *err) {
  return recipe_expr_eval(e, s->env, s->n_env, value, err);
}

static arke_status encode_map(run_state *s, const recipe_param *param, device_tensormap *map,
                              arke_error *err) {
  const buffer *b = &s->buffers[param->tensor];
  device_tensormap_desc desc = {.type = b->type,
                                .rank = param->map.rank,
                                .address = b->memory + GUARD_BYTES,
                                .swizzle = param->map.swizzle,
                                .l2_promotion = param->map.l2_promotion};
  for (int i = 0; i < desc.rank; i++) {
    int64_t value;
    TRY(eval(s, param->map.dim[i], &value, err));
    desc.dim[i] = (uint64_t)value;
    desc.box[i] = param->map.box[i];
    if (i == 0) continue;
    TRY(eval(s, param->map.stride[i], &value, err));
    desc.stride_bytes[i] = (uint64_t)dtype_bytes(b->type, value);
  }
  return s->d->ops->tensormap_encode(s->d, &desc, map, err);
}

static arke_status launch(run_state *s, device_module *m, const recipe_launch *l, arke_error *err) {
  device_tensormap maps[LIMIT_KERNEL_ARGS];
  device_ptr pointers[LIMIT_KERNEL_ARGS];
  int64_t wide[LIMIT_KERNEL_ARGS];
  int32_t words[LIMIT_KERNEL_ARGS];
  void *args[LIMIT_KERNEL_ARGS];
  int64_t value;
  for (int i = 0; i < l->n_params; i++) {
    switch (l->params[i].kind) {
    case RECIPE_PARAM_TENSORMAP:
      TRY(encode_map(s, &l->params[i], &maps[i], err));
      args[i] = &maps[i];
      break;
    case RECIPE_PARAM_POINTER:
      pointers[i] = s->buffers[l->params[i].tensor].memory + GUARD_BYTES;
      args[i] = &pointers[i];
      break;
    case RECIPE_PARAM_I64:
      TRY(eval(s, l->params[i].value, &wide[i], err));
      args[i] = &wide[i];
      break;
    case RECIPE_PARAM_I32:
      TRY(eval(s, l->params[i].value, &value, err));
      words[i] = (int32_t)value;
      args[i] = &words[i];
      break;
    case RECIPE_PARAM_WORKSPACE:
      TRY(eval(s, l->params[i].value, &value, err));
      pointers[i] = s->workspace + (device_ptr)value;
      args[i] = &pointers[i];
      break;
    default:
      return error_set(err, ARKE_ERR_UNSUPPORTED, "test", "parameter %d of a kind no test needed yet", i);
    }
  }
  device_launch launch = {.args = args, .n_args = l->n_params, .early_start = l->early_start};
  for (int i = 0; i < 3; i++) {
    TRY(eval(s, l->grid[i], &value, err));
    launch.grid[i] = (uint32_t)value;
    launch.block[i] = l->block[i];
    launch.cluster[i] = l->cluster[i];
  }
  TRY(eval(s, l->smem_bytes, &value, err));
  launch.smem_bytes = (uint32_t)value;
  device_kernel *k;
  TRY(s->d->ops->kernel_get(s->d, m, l->kernel, launch.smem_bytes, &k, err));
  TRY(s->d->ops->launch(s->d, k, &launch, err));
  return s->d->ops->synchronize(s->d, err);
}

static arke_status run_recipe(run_state *s, const lowered *l, arke_error *err) {
  device_module *m;
  if (l->recipe.workspace_bytes) {
    int64_t bytes;
    TRY(eval(s, l->recipe.workspace_bytes, &bytes, err));
    TRY(s->d->ops->mem_alloc(s->d, (size_t)bytes, "workspace", &s->workspace, err));
  }
  TRY(s->d->ops->module_load(s->d, l->ptx, l->ptx_bytes, &m, err));
  arke_status status = ARKE_OK;
  for (int i = 0; i < l->recipe.n_launches && status == ARKE_OK; i++) {
    status = launch(s, m, &l->recipe.launches[i], err);
  }
  s->d->ops->module_unload(s->d, m);
  return status;
}

/* One rounding to the output's dtype, near zero by its smallest step, and the additions: f32 sums in any
 * order, each step truncated. */
static double tolerance(const ir_problem *p, dtype type, double value, double magnitude, int64_t length) {
  double steps = (double)(length < 64 ? length : 64);
  return fabs(value) * 2 * dtype_roundoff(type) + magnitude * (steps * 0x1p-23 + byte_sums_error(p)) +
         (type == DTYPE_F16 ? 0x1p-24 : 0x1p-126);
}

static void compare_element(run_state *s, ir_evaluator *ev, int tensor, const int64_t *coords,
                            run_outcome *o) {
  const buffer *b = &s->buffers[tensor];
  double want, magnitude;
  if (o->status == ARKE_OK) o->status = ir_evaluator_eval(ev, tensor, coords, &want, &magnitude, &o->err);
  if (o->status != ARKE_OK) return;
  int64_t at = 0;
  for (int i = 0; i < b->rank; i++) at += coords[i] * b->stride[i];
  double got = dtype_load(b->type, b->host + GUARD_BYTES, at);
  double share =
      fabs(got - want) / tolerance(s->p, b->type, want, magnitude, ir_reduction_length(s->p, tensor));
  o->elements++;
  if (!(share <= 1)) o->wrong++;
  if (!(share <= o->worst)) o->worst = isnan(share) ? INFINITY : share;
}

static void compare_output(run_state *s, ir_evaluator *ev, int tensor, int64_t sample, uint64_t seed,
                           run_outcome *o) {
  const buffer *b = &s->buffers[tensor];
  int64_t total = ir_tensor_elements(s->p, tensor);
  bool all = sample <= 0 || sample >= total;
  for (int64_t i = 0; i < (all ? total : sample); i++) {
    int64_t at = all || i < 1 ? i
                 : i == 1     ? total - 1
                              : (int64_t)(random_u64(seed, (uint64_t)i) % (uint64_t)total);
    int64_t coords[LIMIT_RANK];
    for (int k = b->rank - 1; k >= 0; k--) {
      coords[k] = at % b->shape[k];
      at /= b->shape[k];
    }
    compare_element(s, ev, tensor, coords, o);
  }
}

/* Guard zones, and the padding between rows. */
static bool intact(const buffer *b) {
  for (size_t i = 0; i < GUARD_BYTES; i++) {
    if (b->host[i] != GUARD || b->host[GUARD_BYTES + b->bytes + i] != GUARD) return false;
  }
  if (b->rank < 2) return true;
  size_t pitch = (size_t)dtype_bytes(b->type, b->stride[b->rank - 2]);
  size_t row = (size_t)dtype_bytes(b->type, b->shape[b->rank - 1]);
  for (size_t at = 0; at < b->bytes; at += pitch) {
    for (size_t i = row; i < pitch; i++) {
      if (b->host[GUARD_BYTES + at + i] != POISON) return false;
    }
  }
  return true;
}

static void compare(run_state *s, int64_t sample, uint64_t seed, run_outcome *o) {
  const ir_op *op = s->p->op;
  ir_data data[LIMIT_TENSORS];
  for (int t = 0; t < op->n_args; t++) {
    data[t].data = s->buffers[t].host + GUARD_BYTES;
    memcpy(data[t].strides, s->buffers[t].stride, sizeof data[t].strides);
  }
  ir_evaluator *ev = NULL;
  o->status = ir_evaluator_create(s->p, data, &ev, &o->err);
  for (int t = op->n_inputs; t < op->n_args && o->status == ARKE_OK; t++) {
    buffer *b = &s->buffers[t];
    o->status = s->d->ops->copy_out(s->d, b->host, b->memory, b->bytes + 2 * GUARD_BYTES, &o->err);
    if (o->status != ARKE_OK) break;
    o->guards_intact = o->guards_intact && intact(b);
    compare_output(s, ev, t, sample, seed, o);
  }
  ir_evaluator_destroy(ev);
}

run_outcome run_lowered(device *d, const ir_problem *p, const lowered *l, int sm_count, int64_t row_padding,
                        uint64_t seed, int64_t sample) {
  run_outcome o = {.guards_intact = true};
  run_state *s = calloc(1, sizeof *s);
  if (!s) {
    o.status = error_memory(&o.err, "test");
    return o;
  }
  s->d = d;
  s->p = p;
  for (int t = 0; t < p->op->n_args && o.status == ARKE_OK; t++)
    o.status = make_buffer(s, t, row_padding, seed, &o.err);
  make_env(s, sm_count);
  if (o.status == ARKE_OK) o.status = run_recipe(s, l, &o.err);
  if (o.status == ARKE_OK) compare(s, sample, seed, &o);
  if (s->workspace) d->ops->mem_free(d, s->workspace);
  for (int t = 0; t < p->op->n_args; t++) {
    if (s->buffers[t].memory) d->ops->mem_free(d, s->buffers[t].memory);
    free(s->buffers[t].host);
  }
  free(s);
  return o;
}
