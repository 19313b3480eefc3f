#include "tuner/cli_tuned.h"

#include <stdlib.h>

arke_status cli_tuned_open(const char *cache_path, const char *op, const tune_tensors *tensors,
                           const device_info *info, cli_tuned *t, arke_error *err) {
  const arke_options options = {
      .cache_path = cache_path, .device = info->kind, .device_index = info->index, .strict = 1};
  *t = (cli_tuned){.tensors = tensors};
  t->calls = calloc((size_t)tensors->n_sets, sizeof *t->calls);
  arke_status status = t->calls == NULL ? error_memory(err, "bench") : arke_open(&options, &t->ctx, err);
  if (status != ARKE_OK) goto fail;
  for (int i = 0; i < tensors->n_sets; i++) cli_call_bind(&t->calls[i], tensors, i, info);
  status = arke_plan_create(t->ctx, op, t->calls[0].pointers, t->calls[0].n, NULL, 0, &t->plan, err);
  if (status != ARKE_OK) goto fail;
  t->info = arke_plan_describe(t->plan);
  size_t bytes = arke_workspace_bytes(t->plan);
  if (bytes > 0) status = tensors->dev->ops->mem_alloc(tensors->dev, bytes, "workspace", &t->workspace, err);
  if (status == ARKE_OK) return ARKE_OK;
fail:
  cli_tuned_close(t);
  return status;
}

void cli_tuned_close(cli_tuned *t) {
  if (t->workspace != 0) t->tensors->dev->ops->mem_free(t->tensors->dev, t->workspace);
  if (t->plan != NULL) arke_plan_destroy(t->plan);
  if (t->ctx != NULL) arke_close(t->ctx);
  free(t->calls);
  *t = (cli_tuned){0};
}

static arke_status enqueue(void *user, int set, void *stream, arke_error *err) {
  const cli_tuned *t = user;
  const cli_call *call = &t->calls[set];
  return arke_run(t->plan, call->pointers, call->n, stream, (void *)(uintptr_t)t->workspace, err);
}

tune_runnable cli_tuned_runnable(cli_tuned *t) {
  return (tune_runnable){.enqueue = enqueue, .user = t, .n_sets = t->tensors->n_sets};
}
