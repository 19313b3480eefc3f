#include "tuner/operator_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "runtime/launch_recipe.h"
#include "tuner/operator_values.h"
#include "tuner/tolerance.h"
#include "tuner/trial_index.h"

#define STAGE "operator"

enum { GUARD_BYTES = 1024, PADDING = 3, POISON = 0xA5 };

const char *operator_view_name(operator_view v) {
  static const char *const NAMES[] = {
#define X(NAME, name, meaning) #name,
      OPERATOR_VIEWS(X)
#undef X
  };
  return NAMES[v];
}

typedef struct call_memory {
  dtype type;
  int rank, owner; /* owner: the tensor whose memory it is, an output in place's input */
  int64_t shape[LIMIT_RANK], stride[LIMIT_RANK], elements;
  size_t bytes, first;     /* of the block; byte of the first element */
  uint8_t *before, *after; /* the block as it was, and as the kernels left it */
  device_ptr memory;
} call_memory;

typedef struct call_state {
  const operator_call *call;
  const ir_problem *p;
  device *d;
  arena arena;
  call_memory tensors[LIMIT_TENSORS];
  recipe_call view;
  device_ptr workspace;
  int64_t compared;
  arke_error *err;
} call_state;

/* --- tensors --- */

static bool is_written(const ir_op *op, int tensor) {
  for (int i = op->n_inputs; i < op->n_args; i++)
    if (i == tensor || op->tensors[i].alias == tensor) return true;
  return false;
}

/* Elements of what is written must not overlap. */
static void set_strides(const call_state *s, int tensor, call_memory *t, int64_t *last, int64_t *offset) {
  operator_view view = dtype_bits(t->type) < 8 ? OPERATOR_DENSE : s->call->view;
  int64_t stride = 1;
  *last = 0;
  *offset = view == OPERATOR_OFFSET ? 1 : 0;
  for (int k = 0; k < t->rank; k++) {
    int i = view == OPERATOR_TRANSPOSED ? k : t->rank - 1 - k;
    t->stride[i] = stride;
    stride *= t->shape[i] > 0 ? t->shape[i] : 1;
    if (k == 0 && view == OPERATOR_PADDED) stride += PADDING;
  }
  if (view == OPERATOR_BROADCAST && t->rank > 1 && !is_written(s->p->op, tensor)) t->stride[0] = 0;
  for (int i = 0; i < t->rank; i++)
    if (t->shape[i] > 0) *last += (t->shape[i] - 1) * t->stride[i];
}

static int64_t place_of(const call_memory *t, int64_t number, int64_t *coords) {
  int64_t at = 0;
  for (int k = t->rank - 1; k >= 0; k--) {
    int64_t c = number % t->shape[k];
    number /= t->shape[k];
    at += c * t->stride[k];
    if (coords != NULL) coords[k] = c;
  }
  return at;
}

static arke_status fill_index(call_state *s, int tensor, call_memory *t, const trial_index *index,
                              uint64_t seed) {
  void *values = malloc((size_t)dtype_bytes(t->type, t->elements) + 1);
  if (values == NULL) return error_memory(s->err, STAGE);
  trial_index_fill(s->p, tensor, index, values, t->elements, seed);
  for (int64_t i = 0; i < t->elements; i++)
    dtype_store(t->type, t->before + t->first, place_of(t, i, NULL), dtype_load(t->type, values, i));
  free(values);
  return ARKE_OK;
}

static arke_status make_tensor(call_state *s, int tensor) {
  call_memory *t = &s->tensors[tensor];
  const ir_op *op = s->p->op;
  if (op->tensors[tensor].role == IR_OUTPUT && op->tensors[tensor].alias >= 0) {
    *t = s->tensors[op->tensors[tensor].alias];
    return ARKE_OK;
  }
  int64_t last, offset;
  t->type = ir_tensor_dtype(s->p, tensor);
  t->rank = ir_tensor_shape(s->p, tensor, t->shape);
  t->elements = ir_tensor_elements(s->p, tensor);
  t->owner = tensor;
  set_strides(s, tensor, t, &last, &offset);
  t->first = GUARD_BYTES + (size_t)dtype_bytes(t->type, offset);
  t->bytes = t->first + (t->elements > 0 ? (size_t)dtype_bytes(t->type, last + 1) : 0) + GUARD_BYTES;
  t->before = malloc(t->bytes);
  t->after = malloc(t->bytes);
  if (t->before == NULL || t->after == NULL) return error_memory(s->err, STAGE);
  memset(t->before, POISON, t->bytes);
  operator_filling fill = {.type = t->type,
                           .values = s->call->values,
                           .range = s->call->ranges[tensor < op->n_inputs ? tensor : 0],
                           .row = t->rank > 0 ? t->shape[t->rank - 1] : 1,
                           .seed = s->call->seed + (uint64_t)tensor};
  trial_index index = trial_index_of(s->p, tensor);
  bool meant = tensor < op->n_inputs && fill.range.from >= fill.range.below && index.kind != TRIAL_NONE;
  if (meant) TRY(fill_index(s, tensor, t, &index, fill.seed));
  for (int64_t i = 0; tensor < op->n_inputs && !meant && i < t->elements; i++)
    dtype_store(t->type, t->before + t->first, place_of(t, i, NULL), operator_value(&fill, i));
  TRY(s->d->ops->mem_alloc(s->d, t->bytes, op->tensors[tensor].name, &t->memory, s->err));
  return s->d->ops->copy_in(s->d, t->memory, t->before, t->bytes, s->err);
}

static arke_status make_view(call_state *s) {
  const ir_op *op = s->p->op;
  recipe_tensor tensors[LIMIT_TENSORS];
  recipe_binding sizes[LIMIT_AXES];
  for (int i = 0; i < op->n_axes; i++) sizes[i] = (recipe_binding){op->axes[i], s->p->sizes[i]};
  for (int i = 0; i < op->n_args; i++) {
    const call_memory *t = &s->tensors[i];
    tensors[i] = (recipe_tensor){.name = op->tensors[i].name,
                                 .output = i >= op->n_inputs,
                                 .rank = t->rank,
                                 .leading = op->tensors[i].any_rank ? s->p->lead_rank : -1,
                                 .address = t->memory + t->first};
    memcpy(tensors[i].shape, t->shape, sizeof t->shape);
    memcpy(tensors[i].stride, t->stride, sizeof t->stride);
  }
  return recipe_call_make(tensors, op->n_args, sizes, op->n_axes, s->call->sm_count, &s->arena, &s->view,
                          s->err);
}

/* --- launches --- */

static arke_status run_recipe(call_state *s, const lowered *l) {
  const recipe *r;
  TRY(recipe_choose(&l->recipe, &s->view, &r, s->err));
  int64_t bytes = 0;
  if (r->workspace_bytes != NULL) TRY(recipe_call_eval(&s->view, r->workspace_bytes, &bytes, s->err));
  if (bytes > 0) TRY(s->d->ops->mem_alloc(s->d, (size_t)bytes, "workspace", &s->workspace, s->err));
  device_module *m;
  TRY(s->d->ops->module_load(s->d, l->ptx, l->ptx_bytes, &m, s->err));
  launch_tensor tensors[LIMIT_TENSORS];
  for (int i = 0; i < s->p->op->n_args; i++)
    tensors[i] = (launch_tensor){s->tensors[i].type, s->tensors[i].memory + s->tensors[i].first};
  arke_status status = launch_recipe(s->d, m, r, &s->view, tensors, s->workspace, s->err);
  if (status == ARKE_OK) status = s->d->ops->synchronize(s->d, s->err);
  s->d->ops->module_unload(s->d, m);
  return status;
}

/* --- results --- */

static arke_status compare_output(call_state *s, ir_evaluator *ev, int tensor) {
  const call_memory *t = &s->tensors[tensor];
  tune_tolerance tolerance = tune_tolerance_for(s->p, tensor, false);
  bool all = s->call->sample <= 0 || s->call->sample >= t->elements;
  for (int64_t i = 0, n = all ? t->elements : s->call->sample; i < n; i++) {
    int64_t number = all || i == 0 ? i
                     : i == 1      ? t->elements - 1
                              : (int64_t)(random_u64(s->call->seed, (uint64_t)i) % (uint64_t)t->elements);
    int64_t coords[LIMIT_RANK], at = place_of(t, number, coords);
    double want, magnitude, moved, error, got = dtype_load(t->type, t->after + t->first, at);
    TRY(ir_evaluator_eval(ev, tensor, coords, &want, &magnitude, s->err));
    TRY(ir_evaluator_casts(ev, tensor, coords, &moved, s->err));
    magnitude = tune_tolerance_with_casts(&tolerance, magnitude, moved);
    s->compared++;
    if (tune_tolerance_agrees(&tolerance, got, want, magnitude, &error)) continue;
    return error_set(s->err, ARKE_ERR_MISMATCH, STAGE,
                     "element %lld of %s is %.9g, expected %.9g within %.3g", (long long)number,
                     s->p->op->tensors[tensor].name, got, want,
                     tune_tolerance_allowed(&tolerance, want, magnitude));
  }
  return ARKE_OK;
}

/* Outputs' elements are made as they were; then nothing may differ. */
static arke_status check_untouched(call_state *s, int tensor) {
  call_memory *t = &s->tensors[tensor];
  bool written = is_written(s->p->op, tensor);
  for (int64_t i = 0; written && i < t->elements; i++) {
    int64_t at = place_of(t, i, NULL);
    dtype_store(t->type, t->after + t->first, at, 0);
    dtype_store(t->type, t->before + t->first, at, 0);
  }
  if (memcmp(t->before, t->after, t->bytes) == 0) return ARKE_OK;
  return error_set(s->err, ARKE_ERR_MISMATCH, STAGE, "memory around %s was written to",
                   s->p->op->tensors[tensor].name);
}

static arke_status check_results(call_state *s) {
  const ir_op *op = s->p->op;
  ir_data data[LIMIT_TENSORS];
  for (int i = 0; i < op->n_args; i++) {
    call_memory *t = &s->tensors[i];
    data[i].data = t->before + t->first;
    memcpy(data[i].strides, t->stride, sizeof t->stride);
    if (t->owner == i) TRY(s->d->ops->copy_out(s->d, t->after, t->memory, t->bytes, s->err));
  }
  ir_evaluator *ev;
  TRY(ir_evaluator_create(s->p, data, &ev, s->err));
  arke_status status = ARKE_OK;
  for (int i = op->n_inputs; i < op->n_args && status == ARKE_OK; i++) status = compare_output(s, ev, i);
  ir_evaluator_destroy(ev);
  for (int i = 0; i < op->n_args && status == ARKE_OK; i++)
    if (s->tensors[i].owner == i) status = check_untouched(s, i);
  return status;
}

static bool has_output_elements(const ir_problem *p) {
  for (int i = p->op->n_inputs; i < p->op->n_args; i++)
    if (ir_tensor_elements(p, i) > 0) return true;
  return false;
}

arke_status operator_run(const operator_call *call, const lowered *l, int64_t *compared, arke_error *err) {
  *compared = 0;
  if (!has_output_elements(call->problem)) return ARKE_OK; /* as the runtime does: it launches nothing */
  call_state *s = calloc(1, sizeof *s);
  if (s == NULL) return error_memory(err, STAGE);
  *s = (call_state){.call = call, .p = call->problem, .d = call->dev, .err = err};
  arke_status status = ARKE_OK;
  for (int i = 0; i < s->p->op->n_args && status == ARKE_OK; i++) status = make_tensor(s, i);
  if (status == ARKE_OK) status = make_view(s);
  if (status == ARKE_OK) status = run_recipe(s, l);
  if (status == ARKE_OK) status = check_results(s);
  *compared = s->compared;
  for (int i = 0; i < s->p->op->n_args; i++) {
    call_memory *t = &s->tensors[i];
    if (t->owner != i) continue;
    if (t->memory != 0) s->d->ops->mem_free(s->d, t->memory);
    free(t->before);
    free(t->after);
  }
  if (s->workspace != 0) s->d->ops->mem_free(s->d, s->workspace);
  arena_release(&s->arena);
  free(s);
  return status;
}
