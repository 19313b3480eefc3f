#include "tuner/cli_cublas.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Operators that cuBLAS computes, and where their tensors are. */
static const struct {
  const char *op;
  bool transposed, tf32;
  cublas_scales scales;
  int y;
} products[] = {
    {"matmul", false, false, CUBLAS_SCALES_NONE, 2},
    {"linear", true, false, CUBLAS_SCALES_NONE, 2},
    {"linear_tf32", true, true, CUBLAS_SCALES_NONE, 2},
    {"linear_i8", true, false, CUBLAS_SCALES_NONE, 2},
    {"linear_fp8", true, false, CUBLAS_SCALES_TENSOR, 4},
    {"linear_fp8_rows", true, false, CUBLAS_SCALES_ROW, 4},
    {"linear_fp8_block", true, false, CUBLAS_SCALES_BLOCK, 4},
};

enum { A, B, A_SCALE, B_SCALE };

arke_status cli_cublas_product(const cli_problem *p, cublas_product *product, arke_error *err) {
  const char *op = p->spec->name;
  for (size_t i = 0; i < COUNT_OF(products); i++) {
    if (strcmp(op, products[i].op) != 0) continue;
    int64_t a[LIMIT_RANK], y[LIMIT_RANK];
    ir_tensor_shape(&p->problem, A, a);
    ir_tensor_shape(&p->problem, products[i].y, y);
    *product = (cublas_product){.m = y[0],
                                .n = y[1],
                                .k = a[1],
                                .a = ir_tensor_dtype(&p->problem, A),
                                .b = ir_tensor_dtype(&p->problem, B),
                                .y = ir_tensor_dtype(&p->problem, products[i].y),
                                .b_transposed = products[i].transposed,
                                .scales = products[i].scales};
    if (product->a == DTYPE_F32 && !products[i].tf32)
      return error_set(err, ARKE_ERR_UNSUPPORTED, "cublas", "the baseline multiplies f32 as tf32 only");
    return ARKE_OK;
  }
  return cli_usage(err, "--op %s: cuBLAS is compared on matmul, linear and linear_… only", op);
}

/* Scales as the operator has them, read back from the device and laid out anew, once for each set. */
static arke_status arrange_scales(cli_cublas *c, const cublas_product *product, cublas_operand of,
                                  arke_error *err) {
  const tune_tensors *t = c->tensors;
  const tune_tensor *x = &t->list[of == CUBLAS_A ? A_SCALE : B_SCALE];
  size_t bytes = (size_t)cublas_scales_count(product, of) * sizeof(float);
  float *rows = malloc(x->bytes), *arranged = malloc(bytes);
  arke_status status = rows && arranged ? ARKE_OK : error_memory(err, "cublas");
  c->scale_bytes[of] = (bytes + 255) / 256 * 256;
  if (status == ARKE_OK) status = t->dev->ops->copy_out(t->dev, rows, x->first, x->bytes, err);
  if (status == ARKE_OK)
    status =
        t->dev->ops->mem_alloc(t->dev, c->scale_bytes[of] * (size_t)t->n_sets, "scales", &c->scales[of], err);
  if (status == ARKE_OK) cublas_scales_arrange(product, of, rows, arranged);
  for (int s = 0; s < t->n_sets && status == ARKE_OK; s++)
    status =
        t->dev->ops->copy_in(t->dev, c->scales[of] + (size_t)s * c->scale_bytes[of], arranged, bytes, err);
  free(rows);
  free(arranged);
  return status;
}

arke_status cli_cublas_open(cublas_library *library, const cublas_product *product,
                            const tune_tensors *tensors, cli_cublas *c, arke_error *err) {
  *c = (cli_cublas){.tensors = tensors, .y = tensors->n - 1};
  arke_status status = cublas_plan_create(library, product, &c->plan, err);
  if (status == ARKE_OK)
    status =
        tensors->dev->ops->mem_alloc(tensors->dev, CUBLAS_WORKSPACE_BYTES, "workspace", &c->workspace, err);
  if (product->scales == CUBLAS_SCALES_BLOCK) {
    if (status == ARKE_OK) status = arrange_scales(c, product, CUBLAS_A, err);
    if (status == ARKE_OK) status = arrange_scales(c, product, CUBLAS_B, err);
  }
  if (status != ARKE_OK) {
    cli_cublas_close(c);
    return status;
  }
  c->n = cublas_plan_count(c->plan);
  for (int i = 0; i < c->n; i++) {
    c->candidates[i] = (cli_cublas_candidate){.owner = c, .index = i};
    snprintf(c->candidates[i].name, sizeof c->candidates[i].name, "cublas %d", i);
  }
  return ARKE_OK;
}

void cli_cublas_close(cli_cublas *c) {
  if (c->plan != NULL) cublas_plan_destroy(c->plan);
  const device_ptr owned[] = {c->workspace, c->scales[CUBLAS_A], c->scales[CUBLAS_B]};
  for (size_t i = 0; i < COUNT_OF(owned); i++)
    if (owned[i] != 0) c->tensors->dev->ops->mem_free(c->tensors->dev, owned[i]);
  *c = (cli_cublas){0};
}

static uint64_t scale_address(const cli_cublas *c, cublas_operand of, int set) {
  int tensor = of == CUBLAS_A ? A_SCALE : B_SCALE;
  if (c->y <= tensor) return 0;
  return c->scales[of] != 0 ? c->scales[of] + (size_t)set * c->scale_bytes[of]
                            : tune_tensors_address(c->tensors, tensor, set);
}

static arke_status enqueue(void *user, int set, void *stream, arke_error *err) {
  const cli_cublas_candidate *c = user;
  const tune_tensors *t = c->owner->tensors;
  const cublas_tensors tensors = {.a = tune_tensors_address(t, A, set),
                                  .b = tune_tensors_address(t, B, set),
                                  .y = tune_tensors_address(t, c->owner->y, set),
                                  .a_scale = scale_address(c->owner, CUBLAS_A, set),
                                  .b_scale = scale_address(c->owner, CUBLAS_B, set)};
  return cublas_plan_run(c->owner->plan, c->index, &tensors, c->owner->workspace, stream, err);
}

cli_contestant cli_cublas_contestant(cli_cublas *c, int i) {
  return (cli_contestant){
      .name = c->candidates[i].name,
      .runnable = {.enqueue = enqueue, .user = &c->candidates[i], .n_sets = c->tensors->n_sets}};
}
