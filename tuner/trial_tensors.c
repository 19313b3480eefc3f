#include "tuner/trial_tensors.h"

#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "tuner/trial_inputs.h"

#define STAGE       "verify"
#define ALIGNMENT   256
#define WHOLE_BYTES (1u << 20)
#define PIECES      64
#define PIECE_BYTES 4096
#define L2_TIMES    16 /* a set that fills the L2 so often leaves nothing of its beginning there */

static size_t align_up(size_t bytes, size_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

static int64_t set_bytes(const tune_tensors *t) {
  size_t set = 0;
  for (int i = 0; i < t->n; i++)
    if (t->list[i].alias < 0) set += align_up(t->list[i].bytes, ALIGNMENT);
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

void tune_tensor_describe(const ir_problem *p, int tensor, tune_tensor *t) {
  *t = (tune_tensor){.type = ir_tensor_dtype(p, tensor),
                     .output = p->op->tensors[tensor].role == IR_OUTPUT,
                     .alias = p->op->tensors[tensor].alias,
                     .elements = ir_tensor_elements(p, tensor)};
  t->rank = ir_tensor_shape(p, tensor, t->shape);
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

static size_t host_bytes(const tune_tensor *x) {
  return (size_t)dtype_bytes(x->type, x->host_elements);
}

/* An input's values: those that are on the host, and copies of them on the device, whose number doubles. */
static arke_status upload(device *dev, const tune_tensor *x, arke_error *err) {
  TRY(dev->ops->copy_in(dev, x->first, x->host, host_bytes(x), err));
  for (size_t done = host_bytes(x); done < x->bytes;) {
    size_t piece = x->bytes - done < done ? x->bytes - done : done;
    TRY(dev->ops->copy(dev, x->first + done, x->first, piece, err));
    done += piece;
  }
  return ARKE_OK;
}

static arke_status make_values(tune_tensors *t, int i, uint64_t seed, arke_error *err) {
  tune_tensor *x = &t->list[i];
  x->host_elements = tune_inputs_period(t->problem, i, x->elements);
  x->host = malloc(host_bytes(x) ? host_bytes(x) : 1);
  if (!x->host) return error_memory(err, STAGE);
  return tune_inputs_fill(t->problem, i, x->host, x->host_elements, random_u64(seed, (uint64_t)i), err);
}

static arke_status allocate(tune_tensors *t, int i, uint64_t seed, arke_error *err) {
  tune_tensor *x = &t->list[i];
  const device_ops *ops = t->dev->ops;
  const char *name = t->problem->op->tensors[i].name;
  if (!x->output) TRY(make_values(t, i, seed, err));
  if (x->alias >= 0) {
    share(x, &t->list[x->alias]);
    return ARKE_OK;
  }
  x->allocation_bytes = x->bytes;
  if (t->guard_bytes) x->allocation_bytes = align_up(x->bytes, t->guard_bytes) + 2 * t->guard_bytes;
  TRY(ops->mem_alloc(t->dev, x->allocation_bytes, name, &x->allocation, err));
  x->first = x->allocation + t->guard_bytes;
  if (t->guard_bytes) TRY(ops->fill(t->dev, x->allocation, TUNE_POISON, x->allocation_bytes, err));
  if (!x->output) TRY(upload(t->dev, x, err));
  if (t->n_sets == 1) return ARKE_OK;
  x->stride_bytes = align_up(x->bytes, ALIGNMENT);
  TRY(ops->mem_alloc(t->dev, x->stride_bytes * (size_t)(t->n_sets - 1), name, &x->others, err));
  for (int s = 1; s < t->n_sets && !x->output; s++)
    TRY(ops->copy(t->dev, tune_tensors_address(t, i, s), x->first, x->bytes, err));
  return ARKE_OK;
}

arke_status tune_tensors_create(device *dev, const ir_problem *p, bool guards, int64_t l2_bytes,
                                uint64_t seed, tune_tensors *t, arke_error *err) {
  *t = (tune_tensors){
      .dev = dev, .problem = p, .guard_bytes = guards ? TUNE_GUARD_BYTES : 0, .n = p->op->n_args};
  for (int i = 0; i < t->n; i++) tune_tensor_describe(p, i, &t->list[i]);
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
    if (x->kept) t->dev->ops->mem_free(t->dev, x->kept);
    free(x->host);
  }
  *t = (tune_tensors){0};
}

device_ptr tune_tensors_address(const tune_tensors *t, int tensor, int set) {
  const tune_tensor *x = &t->list[tensor];
  return set == 0 ? x->first : x->others + (device_ptr)(set - 1) * x->stride_bytes;
}

/* --- kept copies ---------------------------------------------------------------------------------------- */

static size_t kept_bytes(const tune_tensors *t, int i) {
  const tune_tensor *x = &t->list[i];
  return x->alias >= 0 ? t->list[x->alias].allocation_bytes : x->allocation_bytes;
}

static arke_status fill_kept(const tune_tensors *t, int i, arke_error *err) {
  const tune_tensor *x = &t->list[i];
  const device_ops *ops = t->dev->ops;
  return x->output ? ops->fill(t->dev, x->kept, TUNE_POISON, kept_bytes(t, i), err)
                   : ops->copy(t->dev, x->kept, x->allocation, kept_bytes(t, i), err);
}

static arke_status keep(tune_tensors *t, int i, arke_error *err) {
  const char *name = t->problem->op->tensors[i].name;
  TRY(t->dev->ops->mem_alloc(t->dev, kept_bytes(t, i), name, &t->list[i].kept, err));
  return fill_kept(t, i, err);
}

arke_status tune_tensors_keep(tune_tensors *t, arke_error *err) {
  arke_status status = ARKE_OK;
  for (int i = 0; i < t->n && status == ARKE_OK; i++) status = keep(t, i, err);
  for (int i = 0; i < t->n && status != ARKE_OK; i++) {
    if (t->list[i].kept) t->dev->ops->mem_free(t->dev, t->list[i].kept);
    t->list[i].kept = 0;
  }
  return status;
}

/* Makes set 0 of an input as it was. */
static arke_status refill(const tune_tensors *t, int input, arke_error *err) {
  const tune_tensor *x = &t->list[input];
  if (!x->kept) return upload(t->dev, x, err);
  return t->dev->ops->copy(t->dev, x->first, x->kept + t->guard_bytes, x->bytes, err);
}

arke_status tune_tensors_poison(const tune_tensors *t, arke_error *err) {
  for (int i = 0; i < t->n; i++) {
    const tune_tensor *x = &t->list[i];
    if (!x->output || x->bytes == 0) continue;
    if (x->alias >= 0)
      TRY(refill(t, x->alias, err));
    else
      TRY(t->dev->ops->fill(t->dev, x->first, TUNE_POISON, x->bytes, err));
  }
  return ARKE_OK;
}

arke_status tune_tensors_fetch(tune_tensors *t, arke_error *err) {
  for (int i = 0; i < t->n; i++) {
    tune_tensor *x = &t->list[i];
    if (!x->output || x->bytes == 0) continue;
    if (!x->host) x->host = malloc(x->bytes);
    if (!x->host) return error_memory(err, STAGE);
    TRY(t->dev->ops->copy_out(t->dev, x->host, x->first, x->bytes, err));
  }
  return ARKE_OK;
}

/* --- what must not have been written -------------------------------------------------------------------- */

arke_status tune_tensors_changed(const tune_tensors *t, int tensor, int64_t at, arke_error *err) {
  const tune_tensor *x = &t->list[tensor];
  const char *name = t->problem->op->tensors[tensor].name;
  int64_t past = at - (int64_t)x->bytes;
  if (at >= 0 && past < 0)
    return error_set(err, ARKE_ERR_FAULT, STAGE, "the kernel changed its input %s near byte %lld", name,
                     (long long)at);
  return error_set(err, ARKE_ERR_FAULT, STAGE, "the kernel wrote outside %s: byte %lld %s it changed", name,
                   (long long)(at < 0 ? -at : past), at < 0 ? "before" : "past");
}

static arke_status check_guard(const tune_tensors *t, int tensor, bool after, unsigned char *buffer,
                               arke_error *err) {
  const tune_tensor *x = &t->list[tensor];
  int64_t begin = after ? (int64_t)x->bytes : -(int64_t)t->guard_bytes;
  TRY(t->dev->ops->copy_out(t->dev, buffer, x->first + (device_ptr)begin, t->guard_bytes, err));
  for (size_t i = 0; i < t->guard_bytes; i++)
    if (buffer[i] != TUNE_POISON) return tune_tensors_changed(t, tensor, begin + (int64_t)i, err);
  return ARKE_OK;
}

/* Whether so many bytes at `begin` of an input are what they were. */
static bool is_input(const tune_tensor *x, const char *bytes, size_t begin, size_t length) {
  size_t period = host_bytes(x);
  for (size_t at = begin % period; length > 0; at = 0) {
    size_t piece = period - at < length ? period - at : length;
    if (memcmp(bytes, (const char *)x->host + at, piece) != 0) return false;
    bytes += piece;
    length -= piece;
  }
  return true;
}

static arke_status check_input(const tune_tensors *t, int tensor, unsigned char *buffer, arke_error *err) {
  const tune_tensor *x = &t->list[tensor];
  size_t pieces = x->bytes <= WHOLE_BYTES ? (x->bytes + PIECE_BYTES - 1) / PIECE_BYTES : PIECES;
  for (size_t k = 0; k < pieces; k++) {
    size_t begin = pieces <= 1 ? 0 : (x->bytes - PIECE_BYTES) / (pieces - 1) * k;
    size_t length = x->bytes - begin < PIECE_BYTES ? x->bytes - begin : PIECE_BYTES;
    TRY(t->dev->ops->copy_out(t->dev, buffer, x->first + begin, length, err));
    if (!is_input(x, (const char *)buffer, begin, length))
      return tune_tensors_changed(t, tensor, (int64_t)begin, err);
  }
  return ARKE_OK;
}

bool tune_tensors_is_written(const tune_tensors *t, int tensor) {
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
    if (status == ARKE_OK && !tune_tensors_is_written(t, i)) status = check_input(t, i, buffer, err);
  }
  free(buffer);
  return status;
}

static arke_status poison_all(const tune_tensors *t, const tune_tensor *x, arke_error *err) {
  if (t->guard_bytes == 0) return ARKE_OK;
  return t->dev->ops->fill(t->dev, x->allocation, TUNE_POISON, x->allocation_bytes, err);
}

arke_status tune_tensors_restore(const tune_tensors *t, arke_error *err) {
  for (int i = 0; i < t->n; i++) {
    if (t->list[i].alias >= 0) continue;
    TRY(poison_all(t, &t->list[i], err));
    if (!t->list[i].output) TRY(refill(t, i, err));
  }
  return ARKE_OK;
}

arke_status tune_tensors_remake(const tune_tensors *t, arke_error *err) {
  for (int i = 0; i < t->n; i++) {
    const tune_tensor *x = &t->list[i];
    if (x->alias < 0) TRY(poison_all(t, x, err));
    if (!x->output) TRY(upload(t->dev, x, err));
    if (x->kept) TRY(fill_kept(t, i, err));
  }
  return ARKE_OK;
}
