#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/overhead.h"
#include "tests/runtime/runtime_fixture.h"

static arke_plan *make_plan(arke_context *ctx, fixture_call *c) {
  arke_plan *p;
  arke_error err = ARKE_ERROR_INIT;
  ck_assert_msg(arke_plan_create(ctx, "matmul", c->list, 3, NULL, 0, &p, &err) == ARKE_OK, "%s", err.text);
  return p;
}

START_TEST(a_launch_is_what_the_recipe_says) {
  fixture_write("tuned.arke", &FIXTURE_MATMUL, &(fixture_entry){0}, 1);
  arke_context *ctx = fixture_open(&(arke_options){0});
  fixture_call c;
  arke_error err = ARKE_ERROR_INIT;
  fixture_call_init(&c, 300, 512, 1024);
  c.tensors[0].strides[0] = 1032; /* padded rows */
  arke_plan *p = make_plan(ctx, &c);
  ck_assert_int_eq(arke_plan_describe(p).launches, 1);
  c.tensors[0].t.data = (void *)0x44000000;
  c.tensors[0].t.byte_offset = 4096;
  ck_assert_msg(arke_run(p, c.list, 3, (void *)0, NULL, &err) == ARKE_OK, "%s", err.text);
  const fake_launch *l = fixture_fake().fake_cuda_last_launch();
  ck_assert_str_eq(l->kernel, "gemm");
  ck_assert_uint_eq(l->grid[0], 6); /* ceil(300 / 128) * ceil(512 / 256), less than the SMs */
  ck_assert_uint_eq(l->grid[1], 1);
  ck_assert_uint_eq(l->block[0], 384);
  ck_assert_uint_eq(l->smem_bytes, 4 * 49152 + 1024);
  ck_assert_int_eq(l->n_params, 6);
  fake_tensormap maps[3];
  int32_t sizes[3];
  for (int i = 0; i < 3; i++) {
    memcpy(&maps[i], l->params[i], sizeof maps[i]);
    memcpy(&sizes[i], l->params[3 + i], sizeof sizes[i]);
  }
  ck_assert_uint_eq(maps[0].address, 0x44001000);
  ck_assert_int_eq(maps[0].type, 9);
  ck_assert_uint_eq(maps[0].dim[0], 1024);
  ck_assert_uint_eq(maps[0].dim[1], 300);
  ck_assert_uint_eq(maps[0].stride_bytes[0], 2064);
  ck_assert_uint_eq(maps[0].box[0], 64);
  ck_assert_uint_eq(maps[0].box[1], 128);
  ck_assert_int_eq(maps[0].swizzle, 3);
  ck_assert_int_eq(maps[0].l2_promotion, 2);
  ck_assert_uint_eq(maps[1].address, 0x20000000);
  ck_assert_uint_eq(maps[2].address, 0x30000000);
  ck_assert_uint_eq(maps[2].stride_bytes[0], 1024);
  ck_assert_int_eq(sizes[0], 300);
  ck_assert_int_eq(sizes[1], 512);
  ck_assert_int_eq(sizes[2], 1024);
  ck_assert_int_eq(fixture_fake().fake_cuda_context_depth(), 0);
  arke_plan_destroy(p);
  arke_close(ctx);
}
END_TEST

/* A tensor elsewhere than planned: the address goes into a copy of the map, by the driver only where the map
 * does not show one place for it. */
START_TEST(a_map_follows_its_tensor) {
  fixture_write("tuned.arke", &FIXTURE_MATMUL, &(fixture_entry){0}, 1);
  fixture_fake().fake_cuda_state()->split_maps = _i != 0;
  arke_context *ctx = fixture_open(&(arke_options){0});
  fixture_call c;
  arke_error err = ARKE_ERROR_INIT;
  fixture_call_init(&c, 256, 512, 1024);
  arke_plan *p = make_plan(ctx, &c);
  for (uint64_t move = 0; move < 3; move++) {
    c.tensors[1].t.data = (void *)(uintptr_t)(0x20000000 + move * 0x7000);
    ck_assert_msg(arke_run(p, c.list, 3, NULL, NULL, &err) == ARKE_OK, "%s", err.text);
    fake_tensormap map;
    memcpy(&map, fixture_fake().fake_cuda_last_launch()->params[1], sizeof map);
    ck_assert_uint_eq(map.address, 0x20000000 + move * 0x7000);
    if (_i != 0) ck_assert_uint_eq(map.address_again, ~map.address);
  }
  ck_assert_int_eq(fixture_fake().fake_cuda_state()->replaced, _i == 0 ? 0 : 2);
  arke_plan_destroy(p);
  arke_close(ctx);
}
END_TEST

/* --- misuse ------------------------------------------------------------------------------------------ */

typedef void (*change_fn)(fixture_call *c);
static void null_tensor(fixture_call *c) {
  c->list[2] = NULL;
}
static void null_data(fixture_call *c) {
  c->tensors[1].t.data = NULL;
}
static void null_shape(fixture_call *c) {
  c->tensors[1].t.shape = NULL;
}
static void other_rank(fixture_call *c) {
  c->tensors[1].t.ndim = 3;
}
static void other_size(fixture_call *c) {
  c->tensors[0].shape[0]++;
}
static void other_stride(fixture_call *c) {
  c->tensors[2].strides[0] += 8;
}
static void other_dtype(fixture_call *c) {
  c->tensors[1].t.dtype = (DLDataType){kDLFloat, 16, 1};
}
static void foreign_dtype(fixture_call *c) {
  c->tensors[1].t.dtype = (DLDataType){99, 16, 1};
}
static void on_cpu(fixture_call *c) {
  c->tensors[0].t.device.device_type = kDLCPU;
}
static void on_other_gpu(fixture_call *c) {
  c->tensors[0].t.device.device_id = 2;
}
static void misaligned(fixture_call *c) {
  c->tensors[0].t.data = (void *)0x10000002;
}
static void misaligned_by_offset(fixture_call *c) {
  c->tensors[0].t.byte_offset = 2;
}

static const struct {
  change_fn change;
  arke_status status;
  const char *says;
} MISUSES[] = {
    {null_tensor, ARKE_ERR_ARGUMENT, "tensor Y is NULL"},
    {null_data, ARKE_ERR_ARGUMENT, "tensor B has no data"},
    {null_shape, ARKE_ERR_ARGUMENT, "tensor B has rank 2 and no shape"},
    {other_rank, ARKE_ERR_SHAPE, "tensor B has rank 3; planned is 2"},
    {other_size, ARKE_ERR_SHAPE, "axis 0 of tensor A has 257 elements; planned are 256"},
    {other_stride, ARKE_ERR_SHAPE, "axis 0 of tensor Y has stride 264; planned is 256"},
    {other_dtype, ARKE_ERR_DTYPE, "tensor B is f16; planned is bf16"},
    {foreign_dtype, ARKE_ERR_DTYPE, "tensor B has DLPack code 99, 16 bits, 1 lanes; planned is bf16"},
    {on_cpu, ARKE_ERR_DEVICE, "tensor A is on CPU (DLPack device 1); planned is CUDA"},
    {on_other_gpu, ARKE_ERR_DEVICE, "tensor A is on GPU 2; planned is GPU 0"},
    {misaligned, ARKE_ERR_ARGUMENT, "tensor A is at address 0x10000002; expected is a multiple of 16 bytes"},
    {misaligned_by_offset, ARKE_ERR_ARGUMENT, "tensor A is at address 0x10000002"},
};

START_TEST(a_run_that_differs_from_the_plan_is_explained) {
  fixture_write("tuned.arke", &FIXTURE_MATMUL, &(fixture_entry){0}, 1);
  arke_context *ctx = fixture_open(&(arke_options){0});
  fixture_call c;
  fixture_call_init(&c, 256, 256, 256);
  arke_plan *p = make_plan(ctx, &c);
  MISUSES[_i].change(&c);
  arke_error err = ARKE_ERROR_INIT;
  ck_assert_int_eq(arke_run(p, c.list, 3, NULL, NULL, &err), MISUSES[_i].status);
  ck_assert_says(err, MISUSES[_i].says);
  ck_assert_str_eq(err.stage, "launch");
  ck_assert_str_eq(err.op, "matmul");
  ck_assert_str_eq(err.config, "BLOCK_M=128");
  ck_assert_int_eq(fixture_fake().fake_cuda_state()->launches, 0);
  arke_plan_destroy(p);
  arke_close(ctx);
}
END_TEST

START_TEST(counts_and_plans_are_checked) {
  fixture_write("tuned.arke", &FIXTURE_MATMUL, &(fixture_entry){0}, 1);
  arke_context *ctx = fixture_open(&(arke_options){0});
  fixture_call c;
  fixture_call_init(&c, 256, 256, 256);
  arke_plan *p = make_plan(ctx, &c);
  arke_error err = ARKE_ERROR_INIT;
  ck_assert_int_eq(arke_run(NULL, c.list, 3, NULL, NULL, &err), ARKE_ERR_ARGUMENT);
  ck_assert_str_eq(err.text, "plan is NULL");
  error_clear(&err);
  ck_assert_int_eq(arke_run(p, c.list, 2, NULL, NULL, &err), ARKE_ERR_ARGUMENT);
  ck_assert_str_eq(err.text, "2 tensors were given; planned are 3");
  error_clear(&err);
  ck_assert_int_eq(arke_run(p, NULL, 3, NULL, NULL, &err), ARKE_ERR_ARGUMENT);
  ck_assert_str_eq(err.text, "tensors is NULL");
  ck_assert_int_eq(arke_run(p, c.list, -1, NULL, NULL, NULL), ARKE_ERR_ARGUMENT);
  arke_plan_destroy(p);
  arke_close(ctx);
}
END_TEST

START_TEST(strides_of_single_elements_do_not_matter) {
  fixture_write("tuned.arke", &FIXTURE_MATMUL, &(fixture_entry){0}, 1);
  arke_context *ctx = fixture_open(&(arke_options){0});
  fixture_call c;
  fixture_call_init(&c, 1, 256, 256);
  c.tensors[0].strides[0] = 3; /* PyTorch gives any number here */
  arke_plan *p = make_plan(ctx, &c);
  c.tensors[0].strides[0] = 77;
  ck_assert_int_eq(arke_run(p, c.list, 3, NULL, NULL, NULL), ARKE_OK);
  c.tensors[0].t.strides = NULL;
  ck_assert_int_eq(arke_run(p, c.list, 3, NULL, NULL, NULL), ARKE_OK);
  arke_plan_destroy(p);
  fixture_call_init(&c, 256, 256, 256);
  c.tensors[0].strides[0] = 512;
  p = make_plan(ctx, &c);
  c.tensors[0].t.strides = NULL;
  arke_error err = ARKE_ERROR_INIT;
  ck_assert_int_eq(arke_run(p, c.list, 3, NULL, NULL, &err), ARKE_ERR_SHAPE);
  ck_assert_says(err, "tensor A is compact");
  arke_plan_destroy(p);
  arke_close(ctx);
}
END_TEST

START_TEST(nothing_runs_for_an_empty_output) {
  fixture_write("tuned.arke", &FIXTURE_MATMUL, &(fixture_entry){0}, 1);
  arke_context *ctx = fixture_open(&(arke_options){0});
  fixture_call c;
  fixture_call_init(&c, 0, 256, 256);
  c.tensors[0].t.data = c.tensors[2].t.data = NULL;
  arke_plan *p = make_plan(ctx, &c);
  ck_assert_int_eq(arke_plan_describe(p).launches, 0);
  ck_assert_int_eq(arke_run(p, c.list, 3, NULL, NULL, NULL), ARKE_OK);
  ck_assert_int_eq(fixture_fake().fake_cuda_state()->launches, 0);
  arke_plan_destroy(p);
  arke_close(ctx);
}
END_TEST

/* --- several launches, workspace --------------------------------------------------------------------- */

static const char SPLIT_RECIPE[] =
    "{\"tensors\":[{\"alignment\":16,\"contiguous_last\":true},{\"alignment\":16,\"contiguous_last\":true},"
    "{\"alignment\":16,\"contiguous_last\":true}],\"requirements\":[],\"launches\":["
    "{\"kernel\":\"part\",\"params\":[{\"kind\":\"pointer\",\"tensor\":0},{\"kind\":\"workspace\",\"value\":"
    "\"256\"},"
    "{\"kind\":\"i64\",\"value\":\"M * N\"}],"
    "\"grid\":[\"4\",\"2\",\"1\"],\"block\":[32,2,1],\"cluster\":[2,1,1],\"smem_bytes\":\"0\"},"
    "{\"kernel\":\"sum\",\"params\":[{\"kind\":\"workspace\",\"value\":\"0\"},{\"kind\":\"pointer\","
    "\"tensor\":2}],"
    "\"grid\":[\"1\",\"1\",\"1\"],\"block\":[32,1,1],\"cluster\":[1,1,1],\"smem_bytes\":\"0\","
    "\"early_start\":true}],\"workspace_bytes\":\"M * N * 4 + 256\"}";

START_TEST(a_plan_of_two_kernels_uses_a_workspace) {
  const fixture_entry entry = {.recipe = SPLIT_RECIPE, .ptx = "kernel part 8 8 8\nkernel sum 8 8\n"};
  fixture_write("tuned.arke", &FIXTURE_MATMUL, &entry, 1);
  arke_context *ctx = fixture_open(&(arke_options){0});
  fixture_call c;
  fixture_call_init(&c, 256, 256, 256);
  arke_plan *p = make_plan(ctx, &c);
  arke_error err = ARKE_ERROR_INIT;
  ck_assert_int_eq(arke_plan_describe(p).launches, 2);
  ck_assert_uint_eq(arke_workspace_bytes(p), 256 * 256 * 4 + 256);
  ck_assert_int_eq(arke_run(p, c.list, 3, NULL, NULL, &err), ARKE_ERR_ARGUMENT);
  ck_assert_str_eq(err.text, "workspace is NULL; this plan needs 262400 bytes");
  error_clear(&err);
  ck_assert_int_eq(arke_run(p, c.list, 3, NULL, (void *)0x5010, &err), ARKE_ERR_ARGUMENT);
  ck_assert_says(err, "expected is a multiple of 256 bytes");
  error_clear(&err);
  ck_assert_msg(arke_run(p, c.list, 3, NULL, (void *)0x5000, &err) == ARKE_OK, "%s", err.text);
  ck_assert_int_eq(fixture_fake().fake_cuda_state()->launches, 2);
  const fake_launch *l = fixture_fake().fake_cuda_last_launch();
  uint64_t workspace, output;
  memcpy(&workspace, l->params[0], 8);
  memcpy(&output, l->params[1], 8);
  ck_assert_str_eq(l->kernel, "sum");
  ck_assert(l->early_start);
  ck_assert_uint_eq(workspace, 0x5000);
  ck_assert_uint_eq(output, 0x30000000);
  strcpy(fixture_fake().fake_cuda_state()->fail_symbol, "cuLaunchKernelEx");
  fixture_fake().fake_cuda_state()->fail_code = 719;
  ck_assert_int_eq(arke_run(p, c.list, 3, NULL, (void *)0x5000, &err), ARKE_ERR_DRIVER);
  ck_assert_says(err, "cuLaunchKernelEx: CUDA_ERROR_FAKE");
  ck_assert_int_eq(fixture_fake().fake_cuda_state()->launches, 2); /* the second kernel did not follow */
  arke_plan_destroy(p);
  arke_close(ctx);
}
END_TEST

START_TEST(a_workspace_that_no_memory_holds_is_refused) {
  char recipe[sizeof SPLIT_RECIPE + 32];
  const char *bytes = strstr(SPLIT_RECIPE, "M * N * 4 + 256");
  snprintf(recipe, sizeof recipe, "%.*sM * N * 4000000%s", (int)(bytes - SPLIT_RECIPE), SPLIT_RECIPE,
           bytes + strlen("M * N * 4 + 256"));
  const fixture_entry entry = {.recipe = recipe, .ptx = "kernel part 8 8 8\nkernel sum 8 8\n"};
  fixture_write("tuned.arke", &FIXTURE_MATMUL, &entry, 1);
  arke_context *ctx = fixture_open(&(arke_options){0});
  fixture_call c;
  fixture_call_init(&c, 256, 256, 256);
  arke_plan *p = NULL;
  arke_error err = ARKE_ERROR_INIT;
  ck_assert_int_eq(arke_plan_create(ctx, "matmul", c.list, 3, NULL, 0, &p, &err), ARKE_ERR_NOT_TUNED);
  ck_assert_ptr_null(p);
  ck_assert_says(err, "the kernels need a workspace of 262.1 GB; Fake GPU 0 has 1.1 GB of memory in all");
  arke_close(ctx);
}
END_TEST

/* A map over the workspace is made before the workspace is known. */
START_TEST(a_map_follows_the_workspace) {
  static const char WITH_MAP[] =
      "{\"tensors\":[{\"alignment\":16,\"contiguous_last\":true},{\"alignment\":16,\"contiguous_last\":true},"
      "{\"alignment\":16,\"contiguous_last\":true}],\"requirements\":[],\"launches\":["
      "{\"kernel\":\"sum\",\"params\":[{\"kind\":\"workspace_map\",\"dtype\":\"bf16\",\"value\":\"256\","
      "\"dim\":[\"N\",\"M\"],\"stride\":[\"N\"],\"box\":[64,64],\"swizzle\":3,\"l2_promotion\":2},"
      "{\"kind\":\"pointer\",\"tensor\":2}],"
      "\"grid\":[\"1\",\"1\",\"1\"],\"block\":[32,1,1],\"cluster\":[1,1,1],\"smem_bytes\":\"0\"}],"
      "\"workspace_bytes\":\"M * N * 2 + 256\"}";
  const fixture_entry entry = {.recipe = WITH_MAP, .ptx = "kernel sum 128 8\n"};
  fixture_write("tuned.arke", &FIXTURE_MATMUL, &entry, 1);
  fixture_fake().fake_cuda_state()->split_maps = _i != 0;
  arke_context *ctx = fixture_open(&(arke_options){0});
  fixture_call c;
  fixture_call_init(&c, 256, 512, 256);
  arke_plan *p = make_plan(ctx, &c);
  arke_error err = ARKE_ERROR_INIT;
  for (uint64_t workspace = 0x5000; workspace < 0x8000; workspace += 0x1000) {
    ck_assert_msg(arke_run(p, c.list, 3, NULL, (void *)(uintptr_t)workspace, &err) == ARKE_OK, "%s",
                  err.text);
    fake_tensormap map;
    memcpy(&map, fixture_fake().fake_cuda_last_launch()->params[0], sizeof map);
    ck_assert_uint_eq(map.address, workspace + 256);
    ck_assert_uint_eq(map.dim[0], 512);
    ck_assert_uint_eq(map.stride_bytes[0], 1024);
  }
  arke_plan_destroy(p);
  arke_close(ctx);
}
END_TEST

/* A stage that has nothing to do at these sizes. */
START_TEST(launches_without_blocks_are_left_out) {
  char recipe[2048];
  const char *place = strstr(SPLIT_RECIPE, "\"grid\":[\"4\"");
  snprintf(recipe, sizeof recipe, "%.*s\"grid\":[\"M - M\"%s", (int)(place - SPLIT_RECIPE), SPLIT_RECIPE,
           place + strlen("\"grid\":[\"4\""));
  const fixture_entry entry = {
      .bindings = "T=bf16 M=256 N=256 K=256", .recipe = recipe, .ptx = "kernel part 8 8 8\nkernel sum 8 8\n"};
  fixture_write("empty.arke", &FIXTURE_MATMUL, &entry, 1);
  arke_context *ctx = fixture_open(&(arke_options){.cache_path = "empty.arke"});
  fixture_call c;
  arke_plan *p;
  arke_error err = ARKE_ERROR_INIT;
  fixture_call_init(&c, 256, 256, 256);
  ck_assert_msg(arke_plan_create(ctx, "matmul", c.list, 3, NULL, 0, &p, &err) == ARKE_OK, "%s", err.text);
  ck_assert_int_eq(arke_plan_describe(p).launches, 1);
  ck_assert_msg(arke_run(p, c.list, 3, NULL, (void *)0x5000, &err) == ARKE_OK, "%s", err.text);
  ck_assert_int_eq(fixture_fake().fake_cuda_state()->launches, 1);
  ck_assert_str_eq(fixture_fake().fake_cuda_last_launch()->kernel, "sum");
  arke_plan_destroy(p);
  arke_close(ctx);
}
END_TEST

START_TEST(what_a_launch_cannot_be_is_found_at_plan_time) {
  static const struct {
    const char *from, *to, *says;
  } CASES[] = {
      {"\"grid\":[\"4\"", "\"grid\":[\"M - 260\"", "a dimension of the grid would be -4"},
      {"\"grid\":[\"4\"", "\"grid\":[\"5\"", "the grid has 5 blocks in dimension 0, which is no multiple"},
      {"\"grid\":[\"4\"", "\"grid\":[\"M * 100000000\"", "a dimension of the grid would be 25600000000"},
      {"\"smem_bytes\":\"0\"", "\"smem_bytes\":\"300000\"",
       "kernel part wants 300000 bytes of shared memory"},
      {"\"value\":\"256\"", "\"value\":\"M * N * 8\"", "an offset into the workspace would be 524288"},
      {"\"value\":\"M * N\"", "\"value\":\"M * Q\"", "unknown variable \"Q\""},
      {"M * N * 4 + 256", "M * N * 100000000", "the workspace would be 6553600000000"},
      {"{\"kind\":\"pointer\",\"tensor\":0}", "{\"kind\":\"i32\",\"value\":\"M * 100000000\"}",
       "a 32-bit parameter of the kernel would be 25600000000"},
      {"{\"kind\":\"pointer\",\"tensor\":0}", "{\"kind\":\"f32\",\"attr\":\"eps\"}",
       "reads attribute \"eps\""},
      {"{\"alignment\":16,\"contiguous_last\":true},{\"alignment\":16,\"contiguous_last\":true},",
       "{\"alignment\":16,\"contiguous_last\":true},{\"alignment\":16,\"contiguous_last\":true},"
       "{\"alignment\":1,\"contiguous_last\":true},",
       "the stored recipe is for 4 tensors, the signature has 3"},
  };
  for (size_t i = 0; i < COUNT_OF(CASES); i++) {
    char recipe[2048];
    const char *place = strstr(SPLIT_RECIPE, CASES[i].from);
    snprintf(recipe, sizeof recipe, "%.*s%s%s", (int)(place - SPLIT_RECIPE), SPLIT_RECIPE, CASES[i].to,
             place + strlen(CASES[i].from));
    const fixture_entry entry = {.bindings = "T=bf16 M=256 N=256 K=256",
                                 .recipe = recipe,
                                 .ptx = "kernel part 8 8 8\nkernel sum 8 8\n"};
    char path[32];
    snprintf(path, sizeof path, "case-%zu.arke", i);
    fixture_write(path, &FIXTURE_MATMUL, &entry, 1);
    arke_context *ctx = fixture_open(&(arke_options){.cache_path = path});
    fixture_call c;
    arke_plan *p;
    arke_error err = ARKE_ERROR_INIT;
    fixture_call_init(&c, 256, 256, 256);
    ck_assert_int_ne(arke_plan_create(ctx, "matmul", c.list, 3, NULL, 0, &p, &err), ARKE_OK);
    ck_assert_says(err, CASES[i].says);
    arke_close(ctx);
  }
}
END_TEST

/* --- threads ----------------------------------------------------------------------------------------- */

enum { THREADS = 4, RUNS = 2000 };

typedef struct runner {
  pthread_t thread;
  const arke_plan *plan;
  uintptr_t address; /* of A */
  int wrong;
} runner;

static void *run_many(void *argument) {
  runner *r = argument;
  fake_cuda fake = fixture_fake();
  fixture_call c;
  fixture_call_init(&c, 256, 256, 256);
  for (int i = 0; i < RUNS; i++) {
    fake_tensormap map;
    c.tensors[0].t.data = (void *)(r->address + 16 * (uintptr_t)i);
    if (arke_run(r->plan, c.list, 3, NULL, NULL, NULL) != ARKE_OK) r->wrong++;
    memcpy(&map, fake.fake_cuda_last_launch()->params[0], sizeof map);
    if (map.address != (uintptr_t)c.tensors[0].t.data) r->wrong++;
  }
  return NULL;
}

START_TEST(threads_share_a_plan) {
  fixture_write("tuned.arke", &FIXTURE_MATMUL, &(fixture_entry){0}, 1);
  arke_context *ctx = fixture_open(&(arke_options){0});
  fixture_call c;
  fixture_call_init(&c, 256, 256, 256);
  arke_plan *p = make_plan(ctx, &c);
  runner runners[THREADS];
  for (int i = 0; i < THREADS; i++) {
    runners[i] = (runner){.plan = p, .address = 0x40000000 + ((uintptr_t)i << 24)};
    ck_assert_int_eq(pthread_create(&runners[i].thread, NULL, run_many, &runners[i]), 0);
  }
  /* Other plans come and go meanwhile. */
  for (int i = 0; i < 20; i++) arke_plan_destroy(make_plan(ctx, &c));
  for (int i = 0; i < THREADS; i++) {
    pthread_join(runners[i].thread, NULL);
    ck_assert_int_eq(runners[i].wrong, 0);
  }
  ck_assert_int_eq(fixture_fake().fake_cuda_state()->launches, THREADS * RUNS);
  arke_plan_destroy(p);
  arke_close(ctx);
}
END_TEST

/* The fake driver's own launch takes no time, so what arke_run adds shows bare. */
START_TEST(overhead_is_measured_in_rounds) {
  fixture_write("tuned.arke", &FIXTURE_MATMUL, &(fixture_entry){0}, 1);
  arke_context *ctx = fixture_open(&(arke_options){0});
  fixture_call c;
  runtime_overhead o;
  arke_error err = ARKE_ERROR_INIT;
  fixture_call_init(&c, 256, 256, 256);
  arke_plan *p = make_plan(ctx, &c);
  ck_assert_msg(runtime_launch_overhead_ns(p, c.list, 3, NULL, NULL, 200, 21, &o, &err) == ARKE_OK, "%s",
                err.text);
  ck_assert_int_eq(fixture_fake().fake_cuda_state()->launches, 2 * 200 * 22);
  ck_assert_double_gt(o.bare_ns, 0);
  ck_assert_double_gt(o.run_ns, 0);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  ck_assert_double_lt(o.overhead_ns, 300);
#endif
  ck_assert_int_eq(runtime_launch_overhead_ns(p, c.list, 3, NULL, NULL, 0, 21, &o, &err), ARKE_ERR_ARGUMENT);
  error_clear(&err);
  ck_assert_int_eq(runtime_launch_overhead_ns(p, c.list, 2, NULL, NULL, 10, 21, &o, &err), ARKE_ERR_ARGUMENT);
  ck_assert_says(err, "2 tensors were given");
  error_clear(&err);
  strcpy(fixture_fake().fake_cuda_state()->fail_symbol, "cuLaunchKernelEx");
  fixture_fake().fake_cuda_state()->fail_code = 719;
  ck_assert_int_eq(runtime_launch_overhead_ns(p, c.list, 3, NULL, NULL, 10, 21, &o, &err), ARKE_ERR_DRIVER);
  ck_assert_int_eq(runtime_launch_overhead_ns(NULL, c.list, 3, NULL, NULL, 10, 21, &o, NULL),
                   ARKE_ERR_ARGUMENT);
  ck_assert_int_eq(fixture_fake().fake_cuda_context_depth(), 0);
  arke_plan_destroy(p);
  arke_close(ctx);
}
END_TEST

TCase *run_tests(void) {
  TCase *t = tcase_create("run");
  tcase_set_timeout(t, 60);
  tcase_add_checked_fixture(t, fixture_enter, fixture_leave);
  tcase_add_test(t, a_launch_is_what_the_recipe_says);
  tcase_add_loop_test(t, a_map_follows_its_tensor, 0, 2);
  tcase_add_loop_test(t, a_map_follows_the_workspace, 0, 2);
  tcase_add_loop_test(t, a_run_that_differs_from_the_plan_is_explained, 0, COUNT_OF(MISUSES));
  tcase_add_test(t, counts_and_plans_are_checked);
  tcase_add_test(t, strides_of_single_elements_do_not_matter);
  tcase_add_test(t, nothing_runs_for_an_empty_output);
  tcase_add_test(t, a_plan_of_two_kernels_uses_a_workspace);
  tcase_add_test(t, a_workspace_that_no_memory_holds_is_refused);
  tcase_add_test(t, launches_without_blocks_are_left_out);
  tcase_add_test(t, what_a_launch_cannot_be_is_found_at_plan_time);
  tcase_add_test(t, threads_share_a_plan);
  tcase_add_test(t, overhead_is_measured_in_rounds);
  return t;
}
