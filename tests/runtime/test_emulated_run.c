#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/runtime/runtime_fixture.h"

/* Y[i] = 2 X[i] + w, with w read from the workspace that the first kernel fills. */
static const char PTX[] =
    ".version 8.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry prepare(.param .u64 p0, .param .f32 p1) {\n"
    "  .reg .b64 %rd<3>; .reg .f32 %f<2>;\n"
    "  ld.param.u64 %rd1, [p0]; ld.param.f32 %f1, [p1]; cvta.to.global.u64 %rd2, %rd1;\n"
    "  st.global.f32 [%rd2], %f1; ret;\n}\n"
    ".visible .entry apply(.param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u32 p3) {\n"
    "  .reg .pred %p<2>; .reg .b32 %r<6>; .reg .b64 %rd<12>; .reg .f32 %f<6>;\n"
    "  ld.param.u64 %rd1, [p0]; ld.param.u64 %rd2, [p1]; ld.param.u64 %rd3, [p2]; ld.param.u32 %r1, [p3];\n"
    "  mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x; mad.lo.s32 %r5, %r2, %r3, %r4;\n"
    "  setp.ge.s32 %p1, %r5, %r1; @%p1 bra $L_end;\n"
    "  cvta.to.global.u64 %rd4, %rd1; cvta.to.global.u64 %rd5, %rd2; cvta.to.global.u64 %rd6, %rd3;\n"
    "  mul.wide.s32 %rd7, %r5, 4; add.s64 %rd8, %rd4, %rd7; add.s64 %rd9, %rd5, %rd7;\n"
    "  ld.global.f32 %f1, [%rd8]; ld.global.f32 %f2, [%rd6]; add.f32 %f3, %f1, %f1; add.f32 %f4, %f3, %f2;\n"
    "  st.global.f32 [%rd9], %f4;\n$L_end:\n  ret;\n}\n";

static const cache_tensor TENSORS[] = {
    {.name = "X", .type = "f32", .rank = 1, .dims = {"N"}},
    {.name = "Y", .output = true, .type = "f32", .rank = 1, .dims = {"N"}},
};

static const cache_problem PROBLEM = {
    .op_name = "affine",
    .op_text = "affine(X: f32[N]) -> (Y: f32[N]) w: float = 1.5 { Y[i] = 2.0 * X[i] + w }",
    .ptx = "8.0",
    .n_tensors = COUNT_OF(TENSORS),
    .tensors = TENSORS,
};

static const char RECIPE[] =
    "{\"tensors\":[{\"alignment\":4,\"contiguous_last\":true},{\"alignment\":4,\"contiguous_last\":true}],"
    "\"requirements\":[],\"launches\":["
    "{\"kernel\":\"prepare\",\"params\":[{\"kind\":\"workspace\",\"value\":\"256\"},{\"kind\":\"f32\","
    "\"attr\":\"w\"}],"
    "\"grid\":[\"1\",\"1\",\"1\"],\"block\":[1,1,1],\"cluster\":[1,1,1],\"smem_bytes\":\"0\"},"
    "{\"kernel\":\"apply\",\"params\":[{\"kind\":\"pointer\",\"tensor\":0},{\"kind\":\"pointer\",\"tensor\":"
    "1},"
    "{\"kind\":\"workspace\",\"value\":\"256\"},{\"kind\":\"i32\",\"value\":\"N + 0\"}],"
    "\"grid\":[\"ceildiv(N, 64)\",\"1\",\"1\"],\"block\":[64,1,1],\"cluster\":[1,1,1],\"smem_bytes\":\"0\"}],"
    "\"workspace_bytes\":\"512\"}";

enum { N = 100 };

typedef struct emulated {
  arke_context *ctx;
  arke_plan *plan;
  float *x, *y;
  void *workspace;
  fixture_tensor tensors[2];
  const DLTensor *list[2];
} emulated;

static void emulated_open(emulated *e, const char *recipe) {
  const fixture_entry entry = {.bindings = "N=4096 w=1.5",
                               .target = "sm_80",
                               .ptx = PTX,
                               .recipe = recipe,
                               .cubin = "never loaded here"};
  fixture_write("tuned.arke", &PROBLEM, &entry, 1);
  arke_error err = ARKE_ERROR_INIT;
  const arke_options options = {.cache_path = "tuned.arke", .device = ARKE_DEVICE_EMULATOR};
  ck_assert_msg(arke_open(&options, &e->ctx, &err) == ARKE_OK, "%s", err.text);
  ck_assert_int_eq(arke_context_device(e->ctx), ARKE_DEVICE_EMULATOR);
  e->x = malloc(N * sizeof(float));
  e->y = malloc(N * sizeof(float));
  e->workspace = aligned_alloc(256, 512);
  for (int i = 0; i < N; i++) e->x[i] = (float)i;
  fixture_tensor_init(&e->tensors[0], (uintptr_t)e->x, 1, (int64_t[]){N});
  fixture_tensor_init(&e->tensors[1], (uintptr_t)e->y, 1, (int64_t[]){N});
  for (int i = 0; i < 2; i++) {
    e->tensors[i].t.device = (DLDevice){kDLCPU, i}; /* a CPU has no number that matters */
    e->tensors[i].t.dtype = (DLDataType){kDLFloat, 32, 1};
    e->list[i] = &e->tensors[i].t;
  }
  ck_assert_msg(arke_plan_create(e->ctx, "affine", e->list, 2, NULL, 0, &e->plan, &err) == ARKE_OK, "%s",
                err.text);
}

static void emulated_close(emulated *e) {
  arke_plan_destroy(e->plan);
  arke_close(e->ctx);
  free(e->x);
  free(e->y);
  free(e->workspace);
}

START_TEST(a_plan_runs_on_host_memory) {
  emulated e;
  arke_error err = ARKE_ERROR_INIT;
  emulated_open(&e, RECIPE);
  ck_assert_int_eq(arke_plan_describe(e.plan).match, ARKE_MATCH_DEFAULT);
  ck_assert_uint_eq(arke_workspace_bytes(e.plan), 512);
  for (int round = 0; round < 2; round++) {
    memset(e.y, 0, N * sizeof(float));
    ck_assert_msg(arke_run(e.plan, e.list, 2, NULL, e.workspace, &err) == ARKE_OK, "%s", err.text);
    for (int i = 0; i < N; i++) ck_assert_float_eq(e.y[i], 2.0f * (float)i + 1.5f);
  }
  e.tensors[1].t.device.device_type = kDLCUDA;
  ck_assert_int_eq(arke_run(e.plan, e.list, 2, NULL, e.workspace, &err), ARKE_ERR_DEVICE);
  ck_assert_says(err, "tensor Y is on CUDA (DLPack device 2); planned is CPU");
  emulated_close(&e);
}
END_TEST

/* Slices of 32 elements, the last one of 4; what `prepare` leaves is for all of them. */
START_TEST(a_slice_runs_at_a_time) {
  static const char *const EDITS[][2] = {
      {"\"tensor\":0}", "\"tensor\":0,\"offset\":\"ROUND * 128\"}"},
      {"\"tensor\":1}", "\"tensor\":1,\"offset\":\"ROUND * 128\"}"},
      {"N + 0", "min(32, N - ROUND * 32)"},
      {"ceildiv(N, 64)", "1"},
      {"\"workspace_bytes\"",
       "\"repeats\":[{\"first\":1,\"launches\":1,\"rounds\":\"ceildiv(N, 32)\"}],\"workspace_bytes\""},
  };
  char text[4096];
  snprintf(text, sizeof text, "%s", RECIPE);
  for (size_t i = 0; i < COUNT_OF(EDITS); i++) {
    char before[4096];
    memcpy(before, text, sizeof text);
    const char *place = strstr(before, EDITS[i][0]);
    ck_assert_ptr_nonnull(place);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(place - before), before, EDITS[i][1],
             place + strlen(EDITS[i][0]));
  }
  emulated e;
  arke_error err = ARKE_ERROR_INIT;
  emulated_open(&e, text);
  ck_assert_int_eq(arke_plan_describe(e.plan).launches, 1 + 4);
  memset(e.y, 0, N * sizeof(float));
  ck_assert_msg(arke_run(e.plan, e.list, 2, NULL, e.workspace, &err) == ARKE_OK, "%s", err.text);
  for (int i = 0; i < N; i++) ck_assert_float_eq(e.y[i], 2.0f * (float)i + 1.5f);
  emulated_close(&e);
}
END_TEST

START_TEST(input_and_output_may_share_memory) {
  emulated e;
  arke_error err = ARKE_ERROR_INIT;
  emulated_open(&e, RECIPE);
  e.tensors[1].t.data = e.x;
  ck_assert_msg(arke_run(e.plan, e.list, 2, NULL, e.workspace, &err) == ARKE_OK, "%s", err.text);
  for (int i = 0; i < N; i++) ck_assert_float_eq(e.x[i], 2.0f * (float)i + 1.5f);
  emulated_close(&e);
}
END_TEST

START_TEST(a_fault_names_the_tensor_and_does_not_stick) {
  char past_the_end[2048];
  const char *place = strstr(RECIPE, "N + 0");
  snprintf(past_the_end, sizeof past_the_end, "%.*sN + 1%s", (int)(place - RECIPE), RECIPE, place + 5);
  emulated e;
  arke_error err = ARKE_ERROR_INIT;
  emulated_open(&e, past_the_end);
  for (int round = 0; round < 2; round++) {
    error_clear(&err);
    ck_assert_int_eq(arke_run(e.plan, e.list, 2, NULL, e.workspace, &err), ARKE_ERR_FAULT);
    ck_assert_says(err, "X");
    ck_assert_str_eq(err.op, "affine");
  }
  emulated_close(&e);
}
END_TEST

static void *run_often(void *argument) {
  emulated *e = argument;
  float *y = malloc(N * sizeof(float));
  void *workspace = aligned_alloc(256, 512);
  fixture_tensor output = e->tensors[1];
  output.t.shape = output.shape;
  output.t.strides = NULL;
  output.t.data = y;
  const DLTensor *list[] = {&e->tensors[0].t, &output.t};
  intptr_t wrong = 0;
  for (int i = 0; i < 20; i++) {
    if (arke_run(e->plan, list, 2, NULL, workspace, NULL) != ARKE_OK) wrong++;
    wrong += y[i] != 2.0f * (float)i + 1.5f;
  }
  free(y);
  free(workspace);
  return (void *)wrong;
}

START_TEST(threads_take_turns) {
  emulated e;
  emulated_open(&e, RECIPE);
  pthread_t threads[3];
  for (int i = 0; i < 3; i++) ck_assert_int_eq(pthread_create(&threads[i], NULL, run_often, &e), 0);
  for (int i = 0; i < 3; i++) {
    void *wrong;
    pthread_join(threads[i], &wrong);
    ck_assert_ptr_null(wrong);
  }
  emulated_close(&e);
}
END_TEST

TCase *emulated_run_tests(void) {
  TCase *t = tcase_create("emulated");
  tcase_set_timeout(t, 60);
  tcase_add_checked_fixture(t, fixture_enter, fixture_leave);
  tcase_add_test(t, a_plan_runs_on_host_memory);
  tcase_add_test(t, a_slice_runs_at_a_time);
  tcase_add_test(t, input_and_output_may_share_memory);
  tcase_add_test(t, a_fault_names_the_tensor_and_does_not_stick);
  tcase_add_test(t, threads_take_turns);
  return t;
}
