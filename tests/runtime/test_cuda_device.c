#include <stdlib.h>
#include <string.h>

#include "runtime/device.h"
#include "tests/runtime/runtime_fixture.h"

static device *open_fake(void) {
  device *d;
  arke_error err = ARKE_ERROR_INIT;
  ck_assert_msg(device_open_cuda(0, &d, &err) == ARKE_OK, "%s", err.text);
  return d;
}

START_TEST(a_gpu_describes_itself) {
  device *d = open_fake();
  device_info info;
  ck_assert_int_eq(d->ops->info(d, &info, NULL), ARKE_OK);
  ck_assert_int_eq(info.kind, ARKE_DEVICE_CUDA);
  ck_assert_str_eq(info.name, "Fake GPU 0");
  ck_assert_int_eq(info.cc_major * 10 + info.cc_minor, 90);
  ck_assert_int_eq(info.sm_count, FAKE_SMS);
  ck_assert_int_eq(info.smem_per_block_bytes, FAKE_SMEM_BYTES);
  ck_assert_int_eq(info.driver_version, 13000);
  ck_assert_int_eq(info.memory_bus_bits, 6144);
  ck_assert(info.can_measure);
  d->ops->close(d);
  ck_assert_int_eq(fixture_fake().fake_cuda_state()->contexts_retained, 0);
}
END_TEST

START_TEST(a_missing_gpu_is_an_error_with_a_sentence) {
  fake_state *state = fixture_fake().fake_cuda_state();
  arke_error err = ARKE_ERROR_INIT;
  device *d;
  ck_assert_int_eq(device_open_cuda(3, &d, &err), ARKE_ERR_DEVICE);
  ck_assert_str_eq(err.text, "there is no GPU 3; accepted are 0 to 0");
  ck_assert_ptr_null(d);
  error_clear(&err);
  ck_assert_int_eq(device_open_cuda(-1, &d, &err), ARKE_ERR_DEVICE);
  state->n_devices = 0;
  error_clear(&err);
  ck_assert_int_eq(device_open_cuda(0, &d, &err), ARKE_ERR_DEVICE);
  ck_assert_str_eq(err.text, "the NVIDIA driver sees no GPU");
  strcpy(state->fail_symbol, "cuInit");
  state->fail_code = 999;
  error_clear(&err);
  ck_assert_int_eq(device_open_cuda(0, &d, &err), ARKE_ERR_DEVICE);
  ck_assert_says(err, "cuInit: CUDA_ERROR_FAKE (a fake error)");
}
END_TEST

static const char *const FAIL_AT_OPEN[] = {"cuDeviceGetCount",     "cuDeviceGet",
                                           "cuDeviceGetName",      "cuDriverGetVersion",
                                           "cuDeviceGetAttribute", "cuDevicePrimaryCtxRetain"};

START_TEST(opening_reports_the_driver_function_that_failed) {
  fake_state *state = fixture_fake().fake_cuda_state();
  strcpy(state->fail_symbol, FAIL_AT_OPEN[_i]);
  state->fail_code = 12345; /* a code the driver has no words for */
  arke_error err = ARKE_ERROR_INIT;
  device *d;
  ck_assert_int_eq(device_open_cuda(0, &d, &err), ARKE_ERR_DRIVER);
  ck_assert_says(err, FAIL_AT_OPEN[_i]);
  ck_assert_says(err, "unknown error (no description)");
  ck_assert_int_eq(state->contexts_retained, 0);
}
END_TEST

START_TEST(memory_goes_in_and_out) {
  device *d = open_fake();
  fake_state *state = fixture_fake().fake_cuda_state();
  arke_error err = ARKE_ERROR_INIT;
  device_ptr p, empty;
  char text[16] = "";
  ck_assert_int_eq(d->ops->mem_alloc(d, 16, "A", &p, &err), ARKE_OK);
  ck_assert_int_eq(d->ops->mem_alloc(d, 0, "B", &empty, &err), ARKE_OK);
  ck_assert_uint_eq(p % 256, 0);
  ck_assert_int_eq(d->ops->fill(d, p, 'x', 16, &err), ARKE_OK);
  ck_assert_int_eq(d->ops->copy_in(d, p, "hello", 5, &err), ARKE_OK);
  ck_assert_int_eq(d->ops->copy_out(d, text, p, 8, &err), ARKE_OK);
  ck_assert_str_eq(text, "helloxxx");
  ck_assert_int_eq(d->ops->copy(d, p + 8, p + 1, 4, &err), ARKE_OK);
  ck_assert_int_eq(d->ops->copy_out(d, text, p, 14, &err), ARKE_OK);
  ck_assert_str_eq(text, "helloxxxelloxx");
  ck_assert_int_eq(d->ops->copy(d, p, 0, 0, &err), ARKE_OK);
  ck_assert_int_eq(d->ops->copy_in(d, p, NULL, 0, &err), ARKE_OK);
  ck_assert_int_eq(state->allocations, 2);
  strcpy(state->fail_symbol, "cuMemAlloc_v2");
  state->fail_code = 2;
  device_ptr q;
  ck_assert_int_eq(d->ops->mem_alloc(d, 16, "C", &q, &err), ARKE_ERR_MEMORY);
  ck_assert_str_eq(err.text, "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (out of memory)");
  d->ops->mem_free(d, p);
  d->ops->mem_free(d, empty);
  d->ops->mem_free(d, 0);
  ck_assert_int_eq(state->allocations, 0);
  d->ops->close(d);
}
END_TEST

START_TEST(operations_leave_the_callers_context_alone) {
  fake_cuda fake = fixture_fake();
  device *d = open_fake();
  device_ptr p;
  ck_assert_int_eq(fake.fake_cuda_context_depth(), 0);
  ck_assert_int_eq(d->ops->mem_alloc(d, 16, "A", &p, NULL), ARKE_OK);
  ck_assert_int_eq(fake.fake_cuda_context_depth(), 0);
  strcpy(fake.fake_cuda_state()->fail_symbol, "cuMemsetD8_v2");
  fake.fake_cuda_state()->fail_code = 700;
  ck_assert_int_eq(d->ops->fill(d, p, 0, 16, NULL), ARKE_ERR_DRIVER);
  ck_assert_int_eq(fake.fake_cuda_context_depth(), 0);
  d->ops->mem_free(d, p);
  ck_assert_int_eq(fake.fake_cuda_context_depth(), 0);
  d->ops->close(d);
}
END_TEST

START_TEST(a_refused_image_carries_the_compilers_log) {
  device *d = open_fake();
  arke_error err = ARKE_ERROR_INIT;
  device_module *m;
  ck_assert_int_eq(d->ops->module_load(d, "syntax error", 12, &m, &err), ARKE_ERR_DRIVER);
  ck_assert_says(err,
                 "cuModuleLoadDataEx: CUDA_ERROR_FAKE (a fake error): ptxas application ptx input, line 7");
  ck_assert_ptr_null(m);
  d->ops->module_unload(d, NULL);
  d->ops->close(d);
}
END_TEST

START_TEST(a_kernel_keeps_the_largest_shared_memory_limit) {
  device *d = open_fake();
  arke_error err = ARKE_ERROR_INIT;
  device_module *m;
  device_kernel *k, *again;
  ck_assert_int_eq(d->ops->module_load(d, FIXTURE_PTX, strlen(FIXTURE_PTX), &m, &err), ARKE_OK);
  ck_assert_int_eq(d->ops->kernel_get(d, m, "gemm", 200000, &k, &err), ARKE_OK);
  ck_assert_int_eq(d->ops->kernel_get(d, m, "gemm", 1000, &again, &err), ARKE_OK);
  ck_assert_ptr_eq(k, again);
  char values[6][128] = {{0}};
  void *args[6];
  for (int i = 0; i < 6; i++) args[i] = values[i];
  device_launch l = {.grid = {4, 1, 1},
                     .block = {384, 1, 1},
                     .cluster = {2, 1, 1},
                     .smem_bytes = 200000,
                     .args = args,
                     .n_args = 6};
  ck_assert_int_eq(d->ops->launch(d, k, &l, &err), ARKE_OK);
  ck_assert_uint_eq(fixture_fake().fake_cuda_last_launch()->cluster[0], 2);
  ck_assert_uint_eq(fixture_fake().fake_cuda_last_launch()->smem_bytes, 200000);
  ck_assert(!fixture_fake().fake_cuda_last_launch()->early_start);
  l.cluster[0] = 16; /* needs the attribute that kernel_get sets */
  l.grid[0] = 16;
  ck_assert_int_eq(d->ops->launch(d, k, &l, &err), ARKE_OK);
  l.smem_bytes = 220000;
  ck_assert_int_eq(d->ops->launch(d, k, &l, &err), ARKE_ERR_DRIVER);
  ck_assert_says(err, "cuLaunchKernelEx");
  error_clear(&err);
  ck_assert_int_eq(d->ops->kernel_get(d, m, "gemm", 300000, &k, &err), ARKE_ERR_UNSUPPORTED);
  ck_assert_str_eq(err.text,
                   "kernel gemm wants 300000 bytes of shared memory; Fake GPU 0 has 232448 for one block");
  error_clear(&err);
  ck_assert_int_eq(d->ops->kernel_get(d, m, "gemv", 0, &k, &err), ARKE_ERR_DRIVER);
  ck_assert_says(err, "cuModuleGetFunction: CUDA_ERROR_NOT_FOUND");
  device_kernel_info info;
  ck_assert_int_eq(d->ops->kernel_info(d, again, &info, NULL), ARKE_OK);
  ck_assert_int_eq(info.registers, 168);
  ck_assert_int_eq(info.max_threads, 384);
  d->ops->module_unload(d, m);
  ck_assert_int_eq(fixture_fake().fake_cuda_state()->modules, 0);
  d->ops->close(d);
}
END_TEST

START_TEST(tensor_maps_carry_their_description) {
  device *d = open_fake();
  arke_error err = ARKE_ERROR_INIT;
  device_tensormap map;
  fake_tensormap seen;
  device_tensormap_desc desc = {.type = DTYPE_E4M3,
                                .rank = 2,
                                .address = 0x1000,
                                .dim = {100, 200},
                                .stride_bytes = {0, 112},
                                .box = {64, 8},
                                .swizzle = 3,
                                .l2_promotion = 2};
  ck_assert_int_eq(d->ops->tensormap_encode(d, &desc, &map, &err), ARKE_OK);
  ck_assert_int_eq(d->ops->tensormap_set_address(d, &map, 0x2000, &err), ARKE_OK);
  memcpy(&seen, &map, sizeof seen);
  ck_assert_uint_eq(seen.address, 0x2000);
  ck_assert_int_eq(seen.type, 0);
  ck_assert_uint_eq(seen.dim[1], 200);
  ck_assert_uint_eq(seen.stride_bytes[0], 112);
  ck_assert_uint_eq(seen.box[0], 64);
  ck_assert_int_eq(seen.swizzle, 3);
  desc.stride_bytes[1] = 100;
  ck_assert_int_eq(d->ops->tensormap_encode(d, &desc, &map, &err), ARKE_ERR_DRIVER);
  ck_assert_says(err, "cuTensorMapEncodeTiled");
  d->ops->close(d);
}
END_TEST

START_TEST(a_stream_fills_memory) {
  device *d = open_fake();
  fake_state *state = fixture_fake().fake_cuda_state();
  arke_error err = ARKE_ERROR_INIT;
  void *stream;
  device_ptr p;
  char bytes[16];
  ck_assert_int_eq(d->ops->stream_create(d, &stream, &err), ARKE_OK);
  ck_assert_int_eq(d->ops->mem_alloc(d, sizeof bytes, "A", &p, &err), ARKE_OK);
  ck_assert_int_eq(d->ops->fill(d, p, 'x', sizeof bytes, &err), ARKE_OK);
  ck_assert_int_eq(d->ops->stream_fill(d, p + 4, 'y', 8, stream, &err), ARKE_OK);
  ck_assert_int_eq(d->ops->copy_out(d, bytes, p, sizeof bytes, &err), ARKE_OK);
  ck_assert_int_eq(memcmp(bytes, "xxxxyyyyyyyyxxxx", sizeof bytes), 0);
  ck_assert_int_eq(d->ops->stream_fill(d, p, 'z', 0, stream, &err), ARKE_OK);
  strcpy(state->fail_symbol, "cuMemsetD8Async");
  state->fail_code = 700;
  ck_assert_int_eq(d->ops->stream_fill(d, p, 'z', 16, stream, &err), ARKE_ERR_DRIVER);
  ck_assert_ptr_nonnull(strstr(err.text, "cuMemsetD8Async"));
  ck_assert_int_eq(fixture_fake().fake_cuda_context_depth(), 0);
  d->ops->mem_free(d, p);
  d->ops->stream_destroy(d, stream);
  d->ops->close(d);
}
END_TEST

START_TEST(streams_events_and_graphs) {
  device *d = open_fake();
  fake_state *state = fixture_fake().fake_cuda_state();
  arke_error err = ARKE_ERROR_INIT;
  void *stream, *begin, *end, *graph;
  device_module *m;
  device_kernel *k;
  ck_assert_int_eq(d->ops->module_load(d, "kernel f", 8, &m, &err), ARKE_OK);
  ck_assert_int_eq(d->ops->kernel_get(d, m, "f", 0, &k, &err), ARKE_OK);
  ck_assert_int_eq(d->ops->stream_create(d, &stream, &err), ARKE_OK);
  ck_assert_int_eq(d->ops->event_create(d, &begin, &err), ARKE_OK);
  ck_assert_int_eq(d->ops->event_create(d, &end, &err), ARKE_OK);
  device_launch l = {.grid = {1, 1, 1}, .block = {32, 1, 1}, .stream = stream};
  ck_assert_int_eq(d->ops->graph_begin(d, stream, &err), ARKE_OK);
  for (int i = 0; i < 5; i++) ck_assert_int_eq(d->ops->launch(d, k, &l, &err), ARKE_OK);
  ck_assert_int_eq(d->ops->graph_end(d, stream, &graph, &err), ARKE_OK);
  ck_assert_int_eq(d->ops->event_record(d, begin, stream, &err), ARKE_OK);
  for (int i = 0; i < 3; i++) ck_assert_int_eq(d->ops->graph_launch(d, graph, stream, &err), ARKE_OK);
  ck_assert_int_eq(d->ops->event_record(d, end, stream, &err), ARKE_OK);
  ck_assert_int_eq(d->ops->synchronize(d, &err), ARKE_OK);
  double ns;
  ck_assert_int_eq(d->ops->event_elapsed(d, begin, end, &ns, &err), ARKE_OK);
  ck_assert_double_eq_tol(ns, 15000, 1);
  d->ops->graph_destroy(d, graph);
  strcpy(state->fail_symbol, "cuGraphInstantiateWithFlags");
  state->fail_code = 999;
  ck_assert_int_eq(d->ops->graph_begin(d, stream, &err), ARKE_OK);
  ck_assert_int_eq(d->ops->graph_end(d, stream, &graph, &err), ARKE_ERR_DRIVER);
  ck_assert_ptr_null(graph);
  d->ops->event_destroy(d, begin);
  d->ops->event_destroy(d, end);
  d->ops->stream_destroy(d, stream);
  d->ops->stream_destroy(d, NULL);
  d->ops->event_destroy(d, NULL);
  d->ops->graph_destroy(d, NULL);
  d->ops->module_unload(d, m);
  d->ops->close(d);
  ck_assert_int_eq(state->streams + state->events + state->graphs + state->modules, 0);
}
END_TEST

START_TEST(the_drivers_linker_assembles) {
  device *d = open_fake();
  fake_state *state = fixture_fake().fake_cuda_state();
  arke_error err = ARKE_ERROR_INIT;
  void *cubin;
  size_t bytes;
  ck_assert_int_eq(d->ops->assemble(d, "kernel f", "sm_90a", &cubin, &bytes, &err), ARKE_OK);
  ck_assert_str_eq((char *)cubin, "kernel f");
  ck_assert_uint_eq(bytes, 9);
  free(cubin);
  ck_assert_int_eq(d->ops->assemble(d, "syntax error", "sm_90a", &cubin, &bytes, &err), ARKE_ERR_ASSEMBLE);
  ck_assert_says(err, "cuLinkAddData");
  ck_assert_ptr_null(cubin);
  static const char *const UNKNOWN[] = {"90a", "sm_", "sm_90b", "sm_9000", "sm_90aa"};
  for (size_t i = 0; i < COUNT_OF(UNKNOWN); i++)
    ck_assert_int_eq(d->ops->assemble(d, "kernel f", UNKNOWN[i], &cubin, &bytes, NULL), ARKE_ERR_ARGUMENT);
  ck_assert_int_eq(state->links, 0);
  d->ops->close(d);
}
END_TEST

TCase *cuda_device_tests(void) {
  TCase *t = tcase_create("cuda device");
  tcase_add_test(t, a_gpu_describes_itself);
  tcase_add_test(t, a_missing_gpu_is_an_error_with_a_sentence);
  tcase_add_loop_test(t, opening_reports_the_driver_function_that_failed, 0, COUNT_OF(FAIL_AT_OPEN));
  tcase_add_test(t, memory_goes_in_and_out);
  tcase_add_test(t, operations_leave_the_callers_context_alone);
  tcase_add_test(t, a_refused_image_carries_the_compilers_log);
  tcase_add_test(t, a_kernel_keeps_the_largest_shared_memory_limit);
  tcase_add_test(t, tensor_maps_carry_their_description);
  tcase_add_test(t, a_stream_fills_memory);
  tcase_add_test(t, streams_events_and_graphs);
  tcase_add_test(t, the_drivers_linker_assembles);
  return t;
}
