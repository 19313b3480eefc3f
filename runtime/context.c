#include "runtime/context.h"

#include <stdlib.h>

#define STAGE "open"

static arke_status open_cache(arke_context *ctx, const char *path, cache_mode mode, arke_error *err) {
  TRY(cache_open(path, mode, &ctx->caches[ctx->n_caches], err));
  ctx->n_caches++;
  return ARKE_OK;
}

/* A tuner may be writing the user's cache meanwhile; nobody writes a shipped one. */
static arke_status open_caches(arke_context *ctx, const arke_options *options, arke_error *err) {
  if (options->cache_path == NULL && options->shipped_path == NULL)
    return error_set(err, ARKE_ERR_ARGUMENT, STAGE, "neither cache_path nor shipped_path is given");
  if (options->cache_path != NULL) TRY(open_cache(ctx, options->cache_path, CACHE_READ, err));
  if (options->shipped_path != NULL) TRY(open_cache(ctx, options->shipped_path, CACHE_IMMUTABLE, err));
  return ARKE_OK;
}

static arke_status open_device(arke_context *ctx, const arke_options *options, arke_error *err) {
  switch (options->device) {
  case ARKE_DEVICE_CUDA: TRY(device_open_cuda(options->device_index, &ctx->gpu, err)); break;
  case ARKE_DEVICE_AUTO: {
    arke_status status = device_open_cuda(options->device_index, &ctx->gpu, NULL);
    if (status == ARKE_ERR_MEMORY) return error_memory(err, STAGE);
    break;
  }
  case ARKE_DEVICE_EMULATOR: break;
  default:
    return error_set(err, ARKE_ERR_ARGUMENT, STAGE,
                     "device is %d; accepted are ARKE_DEVICE_AUTO, _CUDA and _EMULATOR",
                     (int)options->device);
  }
  ctx->info.kind = ARKE_DEVICE_EMULATOR;
  if (ctx->gpu != NULL) TRY(ctx->gpu->ops->info(ctx->gpu, &ctx->info, err));
  ctx->n_targets = usable_targets(&ctx->info, ctx->targets);
  return ARKE_OK;
}

arke_status arke_open(const arke_options *options, arke_context **ctx, arke_error *err) {
  if (ctx == NULL) return error_set(err, ARKE_ERR_ARGUMENT, STAGE, "ctx is NULL");
  *ctx = NULL;
  if (options == NULL) return error_set(err, ARKE_ERR_ARGUMENT, STAGE, "options is NULL");
  arke_context *c = calloc(1, sizeof *c);
  if (c == NULL) return error_memory(err, STAGE);
  if (pthread_mutex_init(&c->lock, NULL) != 0) {
    free(c);
    return error_memory(err, STAGE);
  }
  c->strict = options->strict != 0;
  c->allow_modelled = options->allow_modelled != 0;
  c->fast_math = options->fast_math != 0;
  c->check_indices = options->check_indices != 0;
  arke_status status = open_caches(c, options, err);
  if (status == ARKE_OK) status = open_device(c, options, err);
  if (status != ARKE_OK) {
    arke_close(c);
    return status;
  }
  *ctx = c;
  return ARKE_OK;
}

arke_device_kind arke_context_device(const arke_context *ctx) {
  return ctx == NULL ? ARKE_DEVICE_AUTO : ctx->info.kind;
}

static void close_device(device *d) {
  if (d != NULL) d->ops->close(d);
}

void arke_close(arke_context *ctx) {
  if (ctx == NULL) return;
  while (ctx->modules != NULL) context_module_release(ctx, ctx->modules);
  for (int i = 0; i < USABLE_TARGET_COUNT; i++) close_device(ctx->emulators[i]);
  close_device(ctx->gpu);
  entry_index_release(&ctx->index);
  for (int i = 0; i < ctx->n_caches; i++) cache_close(ctx->caches[i]);
  pthread_mutex_destroy(&ctx->lock);
  free(ctx);
}

arke_status context_device(arke_context *ctx, const usable_target *t, device **d, arke_error *err) {
  if (ctx->gpu != NULL) {
    *d = ctx->gpu;
    return ARKE_OK;
  }
  if (ctx->emulators[t->index] == NULL) TRY(device_open_emulator(t->name, 0, &ctx->emulators[t->index], err));
  *d = ctx->emulators[t->index];
  return ARKE_OK;
}

call_place context_place(const arke_context *ctx) {
  return (call_place){.type = ctx->gpu != NULL ? kDLCUDA : kDLCPU, .device_index = ctx->info.index};
}
