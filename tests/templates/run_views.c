#include "run_views.h"

#include "byte_sums.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "runtime/launch_recipe.h"

enum { GUARD_BYTES = 1024, POISON = 0xA5 };

typedef struct tensor_memory {
  dtype type;
  int rank, owner; /* owner: the tensor whose memory it is (outputs in place) */
  int64_t shape[LIMIT_RANK], stride[LIMIT_RANK];
  size_t bytes, first; /* of the whole block; byte of the first element */
  uint8_t *before, *after;
  device_ptr memory;
} tensor_memory;

typedef struct run_state {
  device *d;
  const ir_problem *p, *reference;
  tensor_memory tensors[LIMIT_TENSORS];
  recipe_call call;
  device_ptr workspace;
} run_state;

void run_view_permuted(const ir_problem *p, int tensor, const int *dims, int64_t padding, run_view *view) {
  int64_t shape[LIMIT_RANK], stride = 1;
  int rank = ir_tensor_shape(p, tensor, shape);
  view->strided = true;
  for (int i = 0; i < rank; i++) {
    view->stride[dims[i]] = stride;
    stride *= shape[dims[i]];
    if (i == 0) stride += padding;
  }
}

static int64_t element_at(const tensor_memory *t, int64_t number, int64_t *coords) {
  int64_t at = 0;
  for (int k = t->rank - 1; k >= 0; k--) {
    int64_t c = number % t->shape[k];
    number /= t->shape[k];
    at += c * t->stride[k];
    if (coords) coords[k] = c;
  }
  return at;
}

static double input_value(dtype type, const run_view *v, uint64_t seed, int64_t i) {
  if (v && v->values) return v->values[i % v->n_values];
  if (v && v->from < v->below)
    return (double)(v->from + (int64_t)(random_u64(seed, (uint64_t)i) % (uint64_t)(v->below - v->from)));
  if (type == DTYPE_BOOL) return random_u64(seed, (uint64_t)i) & 1 ? 1.0 : 0.0;
  return random_normal(seed, (uint64_t)i) * (dtype_class_of(type) == DTYPE_CLASS_FLOAT ? 1 : 8);
}

static arke_status make_tensor(run_state *s, int tensor, const run_view *view, uint64_t seed,
                               arke_error *err) {
  tensor_memory *t = &s->tensors[tensor];
  const ir_op *op = s->p->op;
  t->type = ir_tensor_dtype(s->p, tensor);
  t->rank = ir_tensor_shape(s->p, tensor, t->shape);
  t->owner = tensor;
  if (op->tensors[tensor].role == IR_OUTPUT && op->tensors[tensor].alias >= 0) {
    *t = s->tensors[op->tensors[tensor].alias];
    return ARKE_OK;
  }
  int64_t stride = 1, last = 0, elements = 1;
  for (int i = t->rank - 1; i >= 0; i--) {
    t->stride[i] = view && view->strided ? view->stride[i] : stride;
    stride *= t->shape[i];
    last += (t->shape[i] - 1) * t->stride[i];
    elements *= t->shape[i];
  }
  int64_t offset = view ? view->offset : 0;
  t->first = GUARD_BYTES + (size_t)dtype_bytes(t->type, offset);
  t->bytes = t->first + (elements ? (size_t)dtype_bytes(t->type, last + 1) : 0) + GUARD_BYTES;
  t->before = malloc(t->bytes);
  t->after = malloc(t->bytes);
  if (!t->before || !t->after) return error_memory(err, "test");
  memset(t->before, POISON, t->bytes);
  if (tensor < op->n_inputs) {
    for (int64_t i = 0; i < elements; i++) {
      int64_t at = element_at(t, i, NULL);
      dtype_store(t->type, t->before + t->first, at, input_value(t->type, view, seed + (uint64_t)tensor, at));
    }
  }
  TRY(s->d->ops->mem_alloc(s->d, t->bytes, op->tensors[tensor].name, &t->memory, err));
  return s->d->ops->copy_in(s->d, t->memory, t->before, t->bytes, err);
}

static arke_status make_call(run_state *s, int sm_count, arena *a, arke_error *err) {
  const ir_op *op = s->p->op;
  recipe_tensor tensors[LIMIT_TENSORS];
  recipe_binding sizes[LIMIT_AXES];
  for (int i = 0; i < op->n_axes; i++) sizes[i] = (recipe_binding){op->axes[i], s->p->sizes[i]};
  for (int i = 0; i < op->n_args; i++) {
    const tensor_memory *t = &s->tensors[i];
    tensors[i] = (recipe_tensor){.name = op->tensors[i].name,
                                 .output = i >= op->n_inputs,
                                 .rank = t->rank,
                                 .leading = op->tensors[i].any_rank ? s->p->lead_rank : -1,
                                 .address = t->memory + t->first};
    memcpy(tensors[i].shape, t->shape, sizeof t->shape);
    memcpy(tensors[i].stride, t->stride, sizeof t->stride);
  }
  return recipe_call_make(tensors, op->n_args, sizes, op->n_axes, sm_count, a, &s->call, err);
}

static arke_status run_way(run_state *s, const lowered *l, const recipe *way, arke_error *err) {
  int64_t bytes = 0;
  if (way->workspace_bytes) TRY(recipe_call_eval(&s->call, way->workspace_bytes, &bytes, err));
  if (bytes) TRY(s->d->ops->mem_alloc(s->d, (size_t)bytes, "workspace", &s->workspace, err));
  device_module *m;
  TRY(s->d->ops->module_load(s->d, l->ptx, l->ptx_bytes, &m, err));
  launch_tensor tensors[LIMIT_TENSORS];
  for (int i = 0; i < s->p->op->n_args; i++)
    tensors[i] = (launch_tensor){s->tensors[i].type, s->tensors[i].memory + s->tensors[i].first};
  arke_status status = launch_recipe(s->d, m, way, &s->call, tensors, s->workspace, err);
  if (status == ARKE_OK) status = s->d->ops->synchronize(s->d, err);
  s->d->ops->module_unload(s->d, m);
  return status;
}

/* A rounding to the output's dtype, of each addition in f32 or f64, and of casts inside, here and in the
 * reference. */
static bool agrees(const run_state *s, dtype type, int64_t length, double got, double want, double magnitude,
                   double moved) {
  bool is_float = dtype_class_of(type) == DTYPE_CLASS_FLOAT;
  double steps = (double)(length < 64 ? length : 64), unit = type == DTYPE_F64 ? 0x1p-50 : 0x1p-22;
  double sums = steps * unit + byte_sums_error(s->reference);
  if (!is_float) {
    double exact = dtype_round(type, want);
    return fabs(got - exact) <= (want == exact ? 0 : 1) || fabs(got - want) <= fabs(want) * 0x1p-50;
  }
  if (isnan(want)) return isnan(got);
  if (got == want) return true; /* where the magnitude of a sum is infinite or none */
  if (isinf(dtype_round(type, want))) return got == dtype_round(type, want);
  return fabs(got - want) <= fabs(want) * 2 * dtype_roundoff(type) + magnitude * sums + 2 * moved +
                                 (type == DTYPE_F16    ? 0x1p-24
                                  : type == DTYPE_E4M3 ? 0x1p-9
                                                       : 0x1p-126);
}

static void compare_output(run_state *s, ir_evaluator *ev, int tensor, int64_t sample, uint64_t seed,
                           run_views_result *r) {
  const tensor_memory *t = &s->tensors[tensor];
  int64_t total = ir_tensor_elements(s->p, tensor), length = ir_reduction_length(s->reference, tensor);
  bool all = sample <= 0 || sample >= total;
  for (int64_t i = 0; i < (all ? total : sample) && r->status == ARKE_OK; i++) {
    int64_t number = all || i == 0 ? i
                     : i == 1      ? total - 1
                                   : (int64_t)(random_u64(seed, (uint64_t)i) % (uint64_t)total);
    int64_t coords[LIMIT_RANK], at = element_at(t, number, coords);
    double want, magnitude, moved = 0, got = dtype_load(t->type, t->after + t->first, at);
    r->status = ir_evaluator_eval(ev, tensor, coords, &want, &magnitude, &r->err);
    if (r->status == ARKE_OK) r->status = ir_evaluator_casts(ev, tensor, coords, &moved, &r->err);
    if (r->status != ARKE_OK) return;
    r->elements++;
    if (agrees(s, t->type, length, got, want, magnitude, moved)) continue;
    if (r->wrong++ == 0) {
      snprintf(r->first, sizeof r->first, "%s element %" PRId64 ": %.9g, expected %.9g",
               s->p->op->tensors[tensor].name, number, got, want);
    }
  }
}

/* Everything but the outputs' elements is as it was: those are copied back, and all is compared. */
static bool intact(run_state *s, int tensor) {
  const tensor_memory *t = &s->tensors[tensor];
  int64_t elements = ir_tensor_elements(s->p, tensor);
  bool written = tensor >= s->p->op->n_inputs;
  for (int i = s->p->op->n_inputs; i < s->p->op->n_args; i++)
    written = written || s->tensors[i].owner == tensor;
  size_t bytes = (size_t)dtype_bits(t->type) / 8;
  for (int64_t i = 0; written && bytes > 0 && i < elements; i++) {
    size_t at = t->first + (size_t)element_at(t, i, NULL) * bytes;
    memcpy(t->after + at, t->before + at, bytes);
  }
  return (written && bytes == 0) || memcmp(t->before, t->after, t->bytes) == 0;
}

static void compare(run_state *s, int64_t sample, uint64_t seed, run_views_result *r) {
  const ir_op *op = s->p->op;
  ir_data data[LIMIT_TENSORS];
  sha256 outputs;
  sha256_init(&outputs);
  for (int i = 0; i < op->n_args && r->status == ARKE_OK; i++) {
    tensor_memory *t = &s->tensors[i];
    data[i].data = t->before + t->first;
    memcpy(data[i].strides, t->stride, sizeof t->stride);
    if (t->owner == i) r->status = s->d->ops->copy_out(s->d, t->after, t->memory, t->bytes, &r->err);
    if (t->owner == i && i >= op->n_inputs) sha256_update(&outputs, t->after, (size_t)t->bytes);
  }
  sha256_final_hex(&outputs, r->outputs);
  ir_evaluator *ev = NULL;
  if (r->status == ARKE_OK) r->status = ir_evaluator_create(s->reference, data, &ev, &r->err);
  for (int i = op->n_inputs; i < op->n_args && r->status == ARKE_OK; i++)
    compare_output(s, ev, i, sample, seed, r);
  ir_evaluator_destroy(ev);
  for (int i = 0; i < op->n_args && r->status == ARKE_OK; i++)
    if (s->tensors[i].owner == i) r->intact = r->intact && intact(s, i);
}

run_views_result run_views(device *d, const ir_problem *p, const lowered *l, int sm_count,
                           const run_view *views, uint64_t seed, int64_t sample) {
  return run_views_against(d, p, p, l, sm_count, views, seed, sample);
}

run_views_result run_views_against(device *d, const ir_problem *p, const ir_problem *reference,
                                   const lowered *l, int sm_count, const run_view *views, uint64_t seed,
                                   int64_t sample) {
  run_views_result r = {.intact = true};
  arena a = ARENA_INIT;
  run_state *s = calloc(1, sizeof *s);
  const recipe *way = NULL;
  if (!s) {
    r.status = error_memory(&r.err, "test");
    return r;
  }
  s->d = d;
  s->p = p;
  s->reference = reference;
  for (int i = 0; i < p->op->n_args && r.status == ARKE_OK; i++)
    r.status = make_tensor(s, i, views ? &views[i] : NULL, seed, &r.err);
  if (r.status == ARKE_OK) r.status = make_call(s, sm_count, &a, &r.err);
  if (r.status == ARKE_OK) r.status = recipe_choose(&l->recipe, &s->call, &way, &r.err);
  for (const recipe *w = &l->recipe; r.status == ARKE_OK && w != way; w = w->otherwise) r.way++;
  if (r.status == ARKE_OK) r.status = run_way(s, l, way, &r.err);
  if (r.status == ARKE_OK) compare(s, sample, seed, &r);
  for (int i = 0; i < p->op->n_args; i++) {
    if (s->tensors[i].owner != i) continue;
    if (s->tensors[i].memory) d->ops->mem_free(d, s->tensors[i].memory);
    free(s->tensors[i].before);
    free(s->tensors[i].after);
  }
  if (s->workspace) d->ops->mem_free(d, s->workspace);
  free(s);
  arena_release(&a);
  return r;
}
