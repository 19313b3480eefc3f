#include "tuner/cli_cublas.h"

#include <stdio.h>
#include <string.h>

/* Operators that cuBLAS computes, and where their tensors are. */
static const struct {
  const char *op;
  bool transposed, scaled, tf32;
  int y;
} products[] = {
    {"matmul", false, false, false, 2},    {"linear", true, false, false, 2},
    {"linear_tf32", true, false, true, 2}, {"linear_i8", true, false, false, 2},
    {"linear_fp8", true, true, false, 4},
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
                                .scaled = products[i].scaled};
    if (product->a == DTYPE_F32 && !products[i].tf32)
      return error_set(err, ARKE_ERR_UNSUPPORTED, "cublas", "the baseline multiplies f32 as tf32 only");
    return ARKE_OK;
  }
  return cli_usage(err, "--op %s: cuBLAS is compared on matmul, linear and linear_… only", op);
}

arke_status cli_cublas_open(cublas_library *library, const cublas_product *product,
                            const tune_tensors *tensors, cli_cublas *c, arke_error *err) {
  *c = (cli_cublas){.tensors = tensors, .y = tensors->n - 1};
  arke_status status = cublas_plan_create(library, product, &c->plan, err);
  if (status == ARKE_OK)
    status =
        tensors->dev->ops->mem_alloc(tensors->dev, CUBLAS_WORKSPACE_BYTES, "workspace", &c->workspace, err);
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
  if (c->workspace != 0) c->tensors->dev->ops->mem_free(c->tensors->dev, c->workspace);
  *c = (cli_cublas){0};
}

static arke_status enqueue(void *user, int set, void *stream, arke_error *err) {
  const cli_cublas_candidate *c = user;
  const tune_tensors *t = c->owner->tensors;
  const cublas_tensors tensors = {
      .a = tune_tensors_address(t, A, set),
      .b = tune_tensors_address(t, B, set),
      .y = tune_tensors_address(t, c->owner->y, set),
      .a_scale = c->owner->y > A_SCALE ? tune_tensors_address(t, A_SCALE, set) : 0,
      .b_scale = c->owner->y > B_SCALE ? tune_tensors_address(t, B_SCALE, set) : 0};
  return cublas_plan_run(c->owner->plan, c->index, &tensors, c->owner->workspace, stream, err);
}

cli_contestant cli_cublas_contestant(cli_cublas *c, int i) {
  return (cli_contestant){
      .name = c->candidates[i].name,
      .runnable = {.enqueue = enqueue, .user = &c->candidates[i], .n_sets = c->tensors->n_sets}};
}
