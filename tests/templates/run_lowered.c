#include "run_lowered.h"

#include "byte_sums.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "runtime/launch_recipe.h"

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
  recipe_call call;
  device_ptr workspace; /* nothing is written to it */
} run_state;

static arke_status make_call(run_state *s, int sm_count, arena *a, arke_error *err) {
  const ir_op *op = s->p->op;
  recipe_tensor tensors[LIMIT_TENSORS];
  recipe_binding sizes[LIMIT_AXES];
  for (int i = 0; i < op->n_axes; i++) sizes[i] = (recipe_binding){op->axes[i], s->p->sizes[i]};
  for (int i = 0; i < op->n_args; i++) {
    const buffer *b = &s->buffers[i];
    tensors[i] = (recipe_tensor){
        .name = op->tensors[i].name, .output = i >= op->n_inputs, .rank = b->rank, .leading = -1};
    tensors[i].address = b->memory + GUARD_BYTES;
    memcpy(tensors[i].shape, b->shape, sizeof b->shape);
    memcpy(tensors[i].stride, b->stride, sizeof b->stride);
  }
  return recipe_call_make(tensors, op->n_args, sizes, op->n_axes, sm_count, a, &s->call, err);
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

static arke_status run_recipe(run_state *s, const lowered *l, arke_error *err) {
  device_module *m;
  if (l->recipe.workspace_bytes) {
    int64_t bytes;
    TRY(recipe_call_eval(&s->call, l->recipe.workspace_bytes, &bytes, err));
    TRY(s->d->ops->mem_alloc(s->d, (size_t)bytes, "workspace", &s->workspace, err));
  }
  TRY(s->d->ops->module_load(s->d, l->ptx, l->ptx_bytes, &m, err));
  launch_tensor tensors[LIMIT_TENSORS];
  for (int i = 0; i < s->p->op->n_args; i++)
    tensors[i] = (launch_tensor){s->buffers[i].type, s->buffers[i].memory + GUARD_BYTES};
  arke_status status = launch_recipe(s->d, m, &l->recipe, &s->call, tensors, s->workspace, err);
  if (status == ARKE_OK) status = s->d->ops->synchronize(s->d, err);
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
  arena a = ARENA_INIT;
  if (o.status == ARKE_OK) o.status = make_call(s, sm_count, &a, &o.err);
  if (o.status == ARKE_OK) o.status = run_recipe(s, l, &o.err);
  if (o.status == ARKE_OK) compare(s, sample, seed, &o);
  if (s->workspace) d->ops->mem_free(d, s->workspace);
  for (int t = 0; t < p->op->n_args; t++) {
    if (s->buffers[t].memory) d->ops->mem_free(d, s->buffers[t].memory);
    free(s->buffers[t].host);
  }
  free(s);
  arena_release(&a);
  return o;
}
