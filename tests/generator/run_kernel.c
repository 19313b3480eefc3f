#include "run_kernel.h"

#include <check.h>

#include "emulator/emulator.h"

static run_options given(const run_options *o) {
  return o ? *o : (run_options){target_find("sm_90a", NULL), "sm_90a", 1};
}

gen_output make_kernel(kernel_body body, void *user, int n_buffers, int threads, arena *a) {
  return make_kernel_for(NULL, body, user, n_buffers, threads, a);
}

gen_output make_kernel_for(const run_options *options, kernel_body body, void *user, int n_buffers,
                           int threads, arena *a) {
  run_options o = given(options);
  gen_param_kind params[RUN_MAX_BUFFERS + 1];
  for (int i = 0; i < n_buffers; i++) params[i] = GEN_PARAM_POINTER;
  params[n_buffers] = GEN_PARAM_I32;
  gen_kernel kernel = {.name = "k",
                       .threads = threads,
                       .min_ctas_per_sm = 1,
                       .cluster = {o.cluster, 1, 1},
                       .n_params = n_buffers + 1,
                       .params = params};
  arke_error err = ARKE_ERROR_INIT;
  gen_context *ctx;
  gen_builder *b;
  gen_output out;
  ck_assert_msg(gen_context_create(&ctx, &err) == ARKE_OK, "%s", err.text);
  ck_assert_msg(gen_builder_create(ctx, o.t, &kernel, &b, &err) == ARKE_OK, "%s", err.text);
  body(b, user);
  ck_assert_msg(gen_builder_finish(b, false, a, &out, &err) == ARKE_OK, "%s", err.text);
  gen_builder_destroy(b);
  gen_context_destroy(ctx);
  return out;
}

static void must(arke_status status, const arke_error *err) {
  ck_assert_msg(status == ARKE_OK, "%s", err->text);
}

void run_kernel(const gen_output *k, kernel_buffer *buffers, int n_buffers, int32_t n, int ctas,
                int threads) {
  run_kernel_on(NULL, k, buffers, n_buffers, n, ctas, threads);
}

void run_kernel_on(const run_options *options, const gen_output *k, kernel_buffer *buffers, int n_buffers,
                   int32_t n, int ctas, int threads) {
  run_options o = given(options);
  arke_error err = ARKE_ERROR_INIT;
  device *d;
  device_module *m;
  device_kernel *kernel;
  device_ptr addresses[RUN_MAX_BUFFERS];
  void *args[RUN_MAX_BUFFERS + 1];
  must(device_open_emulator(o.device, 1, &d, &err), &err);
  must(d->ops->module_load(d, k->ptx, k->ptx_bytes, &m, &err), &err);
  must(d->ops->kernel_get(d, m, "k", 0, &kernel, &err), &err);
  for (int i = 0; i < n_buffers; i++) {
    must(d->ops->mem_alloc(d, buffers[i].bytes, "buffer", &addresses[i], &err), &err);
    if (!buffers[i].output || buffers[i].updated)
      must(d->ops->copy_in(d, addresses[i], buffers[i].data, buffers[i].bytes, &err), &err);
    args[i] = &addresses[i];
  }
  args[n_buffers] = &n;
  device_launch launch = {.grid = {(uint32_t)ctas, 1, 1},
                          .block = {(uint32_t)threads, 1, 1},
                          .cluster = {(uint32_t)o.cluster, 1, 1},
                          .args = args,
                          .n_args = n_buffers + 1};
  must(d->ops->launch(d, kernel, &launch, &err), &err);
  must(d->ops->synchronize(d, &err), &err);
  for (int i = 0; i < n_buffers; i++) {
    if (buffers[i].output)
      must(d->ops->copy_out(d, buffers[i].data, addresses[i], buffers[i].bytes, &err), &err);
    d->ops->mem_free(d, addresses[i]);
  }
  d->ops->module_unload(d, m);
  d->ops->close(d);
}
