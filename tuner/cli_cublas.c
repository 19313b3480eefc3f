#include "tuner/cli_cublas.h"

#include <stdio.h>
#include <string.h>

arke_status cli_cublas_product(const cli_problem *p, cublas_product *product, arke_error *err) {
  const char *op = p->spec->name;
  bool transposed = strcmp(op, "linear") == 0;
  if (!transposed && strcmp(op, "matmul") != 0)
    return cli_usage(err, "--op %s: cuBLAS is compared on matmul and linear only", op);
  int64_t a[LIMIT_RANK], y[LIMIT_RANK];
  ir_tensor_shape(&p->problem, 0, a);
  ir_tensor_shape(&p->problem, 2, y);
  *product = (cublas_product){
      .m = y[0], .n = y[1], .k = a[1], .type = ir_tensor_dtype(&p->problem, 0), .b_transposed = transposed};
  return ARKE_OK;
}

arke_status cli_cublas_open(cublas_library *library, const cublas_product *product,
                            const tune_tensors *tensors, cli_cublas *c, arke_error *err) {
  *c = (cli_cublas){.tensors = tensors};
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
  return cublas_plan_run(c->owner->plan, c->index, tune_tensors_address(t, 0, set),
                         tune_tensors_address(t, 1, set), tune_tensors_address(t, 2, set),
                         c->owner->workspace, stream, err);
}

cli_contestant cli_cublas_contestant(cli_cublas *c, int i) {
  return (cli_contestant){
      .name = c->candidates[i].name,
      .runnable = {.enqueue = enqueue, .user = &c->candidates[i], .n_sets = c->tensors->n_sets}};
}
