#include "tuner/trial_tensors.h"

#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "tuner/trial_inputs.h"

#define STAGE       "verify"
#define WHOLE_BYTES (1u << 20)
#define PIECES      64
#define PIECE_BYTES 4096
#define L2_TIMES    16 /* a set that fills the L2 so often leaves nothing of its beginning there */

static size_t align_up(size_t bytes) {
  return (bytes + 255) / 256 * 256;
}

static int64_t set_bytes(const tune_tensors *t) {
  size_t set = 0;
  for (int i = 0; i < t->n; i++)
    if (t->list[i].alias < 0) set += align_up(t->list[i].bytes);
  return (int64_t)set;
}

static int choose_sets(const tune_tensors *t, int64_t l2_bytes) {
  int64_t set = set_bytes(t);
  if (l2_bytes <= 0 || set >= L2_TIMES * l2_bytes) return 1;
  int64_t sets = 1 + (2 * l2_bytes + set - 1) / (set ? set : 1);
  return (int)(sets < 2 ? 2 : sets > TUNE_SETS_MAX ? TUNE_SETS_MAX : sets);
}

bool tune_tensors_are_cold(const tune_tensors *t, int64_t l2_bytes) {
  int64_t set = set_bytes(t);
  return t->n_sets > 1 ? (t->n_sets - 1) * set >= 2 * l2_bytes : set >= L2_TIMES * l2_bytes;
}

static void describe(const ir_problem *p, int tensor, tune_tensor *t) {
  t->type = ir_tensor_dtype(p, tensor);
  t->output = p->op->tensors[tensor].role == IR_OUTPUT;
  t->alias = p->op->tensors[tensor].alias;
  t->rank = ir_tensor_shape(p, tensor, t->shape);
  t->elements = ir_tensor_elements(p, tensor);
  t->bytes = (size_t)dtype_bytes(t->type, t->elements);
  int64_t stride = 1;
  for (int i = t->rank - 1; i >= 0; i--) {
    t->strides[i] = stride;
    stride *= t->shape[i];
  }
}

/* The input's memory, in every set. */
static void share(tune_tensor *x, const tune_tensor *input) {
  x->first = input->first;
  x->others = input->others;
  x->stride_bytes = input->stride_bytes;
}

static arke_status allocate(tune_tensors *t, int i, uint64_t seed, arke_error *err) {
  tune_tensor *x = &t->list[i];
  const device_ops *ops = t->dev->ops;
  const char *name = t->problem->op->tensors[i].name;
  x->host = malloc(x->bytes ? x->bytes : 1);
  if (!x->host) return error_memory(err, STAGE);
  if (!x->output)
    TRY(tune_inputs_fill(t->problem, i, x->host, x->elements, random_u64(seed, (uint64_t)i), err));
  if (x->alias >= 0) {
    share(x, &t->list[x->alias]);
    return ARKE_OK;
  }
  TRY(ops->mem_alloc(t->dev, x->bytes + 2 * t->guard_bytes, name, &x->allocation, err));
  x->first = x->allocation + t->guard_bytes;
  if (t->guard_bytes) TRY(ops->fill(t->dev, x->allocation, TUNE_POISON, x->bytes + 2 * t->guard_bytes, err));
  if (!x->output) TRY(ops->copy_in(t->dev, x->first, x->host, x->bytes, err));
  if (t->n_sets == 1) return ARKE_OK;
  x->stride_bytes = align_up(x->bytes);
  TRY(ops->mem_alloc(t->dev, x->stride_bytes * (size_t)(t->n_sets - 1), name, &x->others, err));
  for (int s = 1; s < t->n_sets && !x->output; s++)
    TRY(ops->copy_in(t->dev, tune_tensors_address(t, i, s), x->host, x->bytes, err));
  return ARKE_OK;
}

arke_status tune_tensors_create(device *dev, const ir_problem *p, bool guards, int64_t l2_bytes,
                                uint64_t seed, tune_tensors *t, arke_error *err) {
  *t = (tune_tensors){
      .dev = dev, .problem = p, .guard_bytes = guards ? TUNE_GUARD_BYTES : 0, .n = p->op->n_args};
  for (int i = 0; i < t->n; i++) describe(p, i, &t->list[i]);
  t->n_sets = choose_sets(t, l2_bytes);
  arke_status status = ARKE_OK;
  for (int i = 0; i < t->n && status == ARKE_OK; i++) status = allocate(t, i, seed, err);
  if (status != ARKE_OK) tune_tensors_release(t);
  return status;
}

void tune_tensors_release(tune_tensors *t) {
  for (int i = 0; i < t->n; i++) {
    tune_tensor *x = &t->list[i];
    if (x->allocation) t->dev->ops->mem_free(t->dev, x->allocation);
    if (x->others && x->alias < 0) t->dev->ops->mem_free(t->dev, x->others);
    free(x->host);
  }
  *t = (tune_tensors){0};
}

device_ptr tune_tensors_address(const tune_tensors *t, int tensor, int set) {
  const tune_tensor *x = &t->list[tensor];
  return set == 0 ? x->first : x->others + (device_ptr)(set - 1) * x->stride_bytes;
}

arke_status tune_tensors_poison(const tune_tensors *t, arke_error *err) {
  for (int i = 0; i < t->n; i++) {
    const tune_tensor *x = &t->list[i];
    if (!x->output || x->bytes == 0) continue;
    if (x->alias >= 0)
      TRY(t->dev->ops->copy_in(t->dev, x->first, t->list[x->alias].host, x->bytes, err));
    else
      TRY(t->dev->ops->fill(t->dev, x->first, TUNE_POISON, x->bytes, err));
  }
  return ARKE_OK;
}

arke_status tune_tensors_fetch(const tune_tensors *t, arke_error *err) {
  for (int i = 0; i < t->n; i++)
    if (t->list[i].output && t->list[i].bytes > 0)
      TRY(t->dev->ops->copy_out(t->dev, t->list[i].host, t->list[i].first, t->list[i].bytes, err));
  return ARKE_OK;
}

/* --- what must not have been written -------------------------------------------------------------------- */

static arke_status check_guard(const tune_tensors *t, int tensor, bool after, unsigned char *buffer,
                               arke_error *err) {
  const tune_tensor *x = &t->list[tensor];
  device_ptr at = after ? x->first + x->bytes : x->allocation;
  TRY(t->dev->ops->copy_out(t->dev, buffer, at, t->guard_bytes, err));
  for (size_t i = 0; i < t->guard_bytes; i++) {
    if (buffer[i] == TUNE_POISON) continue;
    return error_set(err, ARKE_ERR_FAULT, STAGE, "the kernel wrote outside %s: byte %zu %s it changed",
                     t->problem->op->tensors[tensor].name, after ? i : t->guard_bytes - i,
                     after ? "past" : "before");
  }
  return ARKE_OK;
}

static arke_status check_input(const tune_tensors *t, int tensor, unsigned char *buffer, arke_error *err) {
  const tune_tensor *x = &t->list[tensor];
  size_t pieces = x->bytes <= WHOLE_BYTES ? (x->bytes + PIECE_BYTES - 1) / PIECE_BYTES : PIECES;
  for (size_t k = 0; k < pieces; k++) {
    size_t begin = pieces <= 1 ? 0 : (x->bytes - PIECE_BYTES) / (pieces - 1) * k;
    size_t length = x->bytes - begin < PIECE_BYTES ? x->bytes - begin : PIECE_BYTES;
    TRY(t->dev->ops->copy_out(t->dev, buffer, x->first + begin, length, err));
    if (memcmp(buffer, (const char *)x->host + begin, length) == 0) continue;
    return error_set(err, ARKE_ERR_FAULT, STAGE, "the kernel changed its input %s near byte %zu",
                     t->problem->op->tensors[tensor].name, begin);
  }
  return ARKE_OK;
}

static bool is_written(const tune_tensors *t, int tensor) {
  for (int i = 0; i < t->n; i++)
    if (t->list[i].alias == tensor) return true;
  return t->list[tensor].output;
}

arke_status tune_tensors_check(const tune_tensors *t, arke_error *err) {
  unsigned char *buffer = malloc(TUNE_GUARD_BYTES > PIECE_BYTES ? TUNE_GUARD_BYTES : PIECE_BYTES);
  if (!buffer) return error_memory(err, STAGE);
  arke_status status = ARKE_OK;
  for (int i = 0; i < t->n && status == ARKE_OK; i++) {
    bool guarded = t->guard_bytes > 0 && t->list[i].alias < 0;
    if (guarded) status = check_guard(t, i, false, buffer, err);
    if (status == ARKE_OK && guarded) status = check_guard(t, i, true, buffer, err);
    if (status == ARKE_OK && !is_written(t, i)) status = check_input(t, i, buffer, err);
  }
  free(buffer);
  return status;
}

arke_status tune_tensors_restore(const tune_tensors *t, arke_error *err) {
  const device_ops *ops = t->dev->ops;
  for (int i = 0; i < t->n; i++) {
    const tune_tensor *x = &t->list[i];
    if (x->alias >= 0) continue;
    if (t->guard_bytes > 0)
      TRY(ops->fill(t->dev, x->allocation, TUNE_POISON, x->bytes + 2 * t->guard_bytes, err));
    if (!x->output) TRY(ops->copy_in(t->dev, x->first, x->host, x->bytes, err));
  }
  return ARKE_OK;
}
