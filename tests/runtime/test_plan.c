#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "tests/runtime/runtime_fixture.h"

static const char *const MATCHES[] = {"exact", "bucket", "default"};

/* Plans an M x N x K product and returns what serves; the plan itself is not kept. */
static arke_status plan(arke_context *ctx, fixture_call *c, char *text, size_t bytes, arke_error *err) {
  arke_plan *p;
  arke_status status = arke_plan_create(ctx, "matmul", c->list, 3, NULL, 0, &p, err);
  if (status != ARKE_OK) {
    ck_assert_ptr_null(p);
    return status;
  }
  arke_plan_info info = arke_plan_describe(p);
  snprintf(text, bytes, "%s %s%s", MATCHES[info.match], info.config, info.modelled ? " modelled" : "");
  arke_plan_destroy(p);
  return ARKE_OK;
}

static arke_status plan_sizes(arke_context *ctx, int64_t m, int64_t n, int64_t k, char *text, size_t bytes,
                              arke_error *err) {
  fixture_call c;
  fixture_call_init(&c, m, n, k);
  return plan(ctx, &c, text, bytes, err);
}

/* --- which entry serves ------------------------------------------------------------------------------ */

static const fixture_entry ENTRIES[] = {
    {.config = "cube"},
    {.bindings = "T=bf16 M=64 N=4096 K=4096", .bucket = "M=1..128", .config = "narrow"},
    {.bindings = "T=f16 M=4096 N=4096 K=4096", .config = "half"},
    {.bindings = "T=bf16 M=1024 N=1024 K=1024", .config = "small"},
    {.bindings = "T=bf16 M=512 N=512 K=512", .config = "guess", .modelled = true},
    {.bindings = "T=bf16 M=8192 N=4096 K=4096", .target = "sm_100a", .config = "blackwell"},
    {.bindings = "T=bf16 M=32 N=32 K=32", .target = "sm_80", .config = "portable"},
};

static const struct {
  int64_t m, n, k;
  bool allow_modelled;
  const char *served;
} SERVED[] = {
    {4096, 4096, 4096, false, "exact cube"},
    {64, 4096, 4096, false, "exact narrow"},
    {1, 4096, 4096, false, "bucket narrow"},
    {128, 4096, 4096, false, "bucket narrow"},
    {129, 4096, 4096, false, "default narrow"}, /* one step past the bucket is still nearest to it */
    {64, 4096, 2048, false, "default narrow"},
    {5000, 4096, 4096, false, "default cube"},
    {1000, 1024, 1024, false, "default small"},
    {512, 512, 512, false, "default small"},
    {512, 512, 512, true, "exact guess modelled"},
    {504, 512, 512, true, "default guess modelled"},
    {8192, 4096, 4096, false, "default cube"}, /* sm_100a does not run on compute capability 9.0 */
    {32, 32, 32, false, "exact portable"},
    {40, 32, 32, false, "default small"}, /* the better target comes before the nearer sizes */
};

START_TEST(the_right_entry_serves) {
  fixture_write("tuned.arke", &FIXTURE_MATMUL, ENTRIES, COUNT_OF(ENTRIES));
  arke_context *ctx = fixture_open(&(arke_options){.allow_modelled = SERVED[_i].allow_modelled});
  char text[128] = "";
  arke_error err = ARKE_ERROR_INIT;
  arke_status status = plan_sizes(ctx, SERVED[_i].m, SERVED[_i].n, SERVED[_i].k, text, sizeof text, &err);
  ck_assert_msg(status == ARKE_OK, "%s", err.text);
  ck_assert_str_eq(text, SERVED[_i].served);
  arke_close(ctx);
  ck_assert_int_eq(fixture_fake().fake_cuda_state()->modules, 0);
  ck_assert_int_eq(fixture_fake().fake_cuda_state()->contexts_retained, 0);
}
END_TEST

START_TEST(strict_serves_exact_entries_only) {
  fixture_write("tuned.arke", &FIXTURE_MATMUL, ENTRIES, COUNT_OF(ENTRIES));
  arke_context *ctx = fixture_open(&(arke_options){.strict = 1});
  char text[128];
  arke_error err = ARKE_ERROR_INIT;
  ck_assert_int_eq(plan_sizes(ctx, 4096, 4096, 4096, text, sizeof text, &err), ARKE_OK);
  ck_assert_str_eq(text, "exact cube");
  ck_assert_int_eq(plan_sizes(ctx, 100, 4096, 4096, text, sizeof text, &err), ARKE_ERR_NOT_TUNED);
  ck_assert_says(err, "no exact entry serves this call: the nearest is ");
  ck_assert_says(err, "T=bf16 M=64 N=4096 K=4096");
  ck_assert_says(err, "tuned.arke, which differs in M (stored 64, asked 100); tune it with: ");
  ck_assert_says(
      err, "tune it with: arke-tune --op matmul --shape M=100,K=4096,N=4096 --dtype T=bf16 --target sm_90a");
  ck_assert_str_eq(err.op, "matmul");
  arke_close(ctx);
}
END_TEST

START_TEST(a_miss_names_what_differs) {
  fixture_write("tuned.arke", &FIXTURE_MATMUL, &ENTRIES[2], 1);
  arke_context *ctx = fixture_open(&(arke_options){0});
  char text[128];
  arke_error err = ARKE_ERROR_INIT;
  ck_assert_int_eq(plan_sizes(ctx, 4096, 1024, 512, text, sizeof text, &err), ARKE_ERR_NOT_TUNED);
  ck_assert_says(
      err, "differs in T (stored f16, asked bf16), N (stored 4096, asked 1024), K (stored 4096, asked 512)");
  ck_assert_says(err, "arke-tune --op matmul --shape M=4096,K=512,N=1024 --dtype T=bf16");
  arke_close(ctx);
}
END_TEST

START_TEST(a_modelled_entry_is_named_but_not_served) {
  fixture_write("tuned.arke", &FIXTURE_MATMUL, &ENTRIES[4], 1);
  arke_context *ctx = fixture_open(&(arke_options){0});
  char text[128];
  arke_error err = ARKE_ERROR_INIT;
  ck_assert_int_eq(plan_sizes(ctx, 512, 512, 512, text, sizeof text, &err), ARKE_ERR_NOT_TUNED);
  ck_assert_says(
      err,
      "tuned.arke, which was ranked by the cost model and never measured (allow_modelled serves it); tune");
  arke_close(ctx);
}
END_TEST

START_TEST(an_unknown_operator_is_a_miss) {
  fixture_write("tuned.arke", &FIXTURE_MATMUL, ENTRIES, COUNT_OF(ENTRIES));
  arke_context *ctx = fixture_open(&(arke_options){0});
  fixture_call c;
  arke_plan *p;
  arke_error err = ARKE_ERROR_INIT;
  fixture_call_init(&c, 8, 8, 8);
  ck_assert_int_eq(arke_plan_create(ctx, "linear", c.list, 3, NULL, 0, &p, &err), ARKE_ERR_NOT_TUNED);
  ck_assert_says(err, "tuned.arke holds no entry for operator linear");
  ck_assert_says(err, "arke-tune --list-ops");
  arke_close(ctx);
}
END_TEST

START_TEST(the_users_cache_comes_first) {
  fixture_write("tuned.arke", &FIXTURE_MATMUL, &(fixture_entry){.config = "mine", .time_ns = 200}, 1);
  static const fixture_entry SHIPPED[] = {{.config = "shipped", .time_ns = 100},
                                          {.bindings = "T=bf16 M=256 N=256 K=256", .config = "only shipped"}};
  fixture_write("shipped.arke", &FIXTURE_MATMUL, SHIPPED, COUNT_OF(SHIPPED));
  arke_context *ctx =
      fixture_open(&(arke_options){.cache_path = "tuned.arke", .shipped_path = "shipped.arke"});
  char text[128];
  ck_assert_int_eq(plan_sizes(ctx, 4096, 4096, 4096, text, sizeof text, NULL), ARKE_OK);
  ck_assert_str_eq(text, "exact mine");
  ck_assert_int_eq(plan_sizes(ctx, 256, 256, 256, text, sizeof text, NULL), ARKE_OK);
  ck_assert_str_eq(text, "exact only shipped");
  ck_assert_int_eq(plan_sizes(ctx, 2048, 4096, 4096, text, sizeof text, NULL), ARKE_OK);
  ck_assert_str_eq(text, "default mine");
  arke_close(ctx);
  ctx = fixture_open(&(arke_options){.shipped_path = "shipped.arke"});
  ck_assert_int_eq(plan_sizes(ctx, 4096, 4096, 4096, text, sizeof text, NULL), ARKE_OK);
  ck_assert_str_eq(text, "exact shipped");
  arke_close(ctx);
}
END_TEST

START_TEST(an_entry_tuned_meanwhile_is_found) {
  fixture_write("tuned.arke", &FIXTURE_MATMUL, ENTRIES, 1);
  arke_context *ctx = fixture_open(&(arke_options){0});
  char text[128];
  ck_assert_int_eq(plan_sizes(ctx, 2048, 4096, 4096, text, sizeof text, NULL), ARKE_OK);
  ck_assert_str_eq(text, "default cube");
  const fixture_entry later = {.bindings = "T=bf16 M=2048 N=4096 K=4096", .config = "later"};
  fixture_write("tuned.arke", &FIXTURE_MATMUL, &later, 1);
  ck_assert_int_eq(plan_sizes(ctx, 2048, 4096, 4096, text, sizeof text, NULL), ARKE_OK);
  ck_assert_str_eq(text, "exact later");
  arke_close(ctx);
}
END_TEST

/* --- what kernels take for granted ------------------------------------------------------------------- */

START_TEST(an_entry_whose_assumptions_fail_is_passed_over) {
  char loose[4096];
  const char *place = strstr(FIXTURE_RECIPE, "\"requirements\":[");
  snprintf(loose, sizeof loose, "%.*s\"requirements\":[],%s", (int)(place - FIXTURE_RECIPE), FIXTURE_RECIPE,
           strstr(FIXTURE_RECIPE, "\"launches\""));
  const fixture_entry entries[] = {{.config = "strict"},
                                   {.bindings = "T=bf16 M=16 N=16 K=16", .config = "loose", .recipe = loose}};
  fixture_write("tuned.arke", &FIXTURE_MATMUL, entries, COUNT_OF(entries));
  arke_context *ctx = fixture_open(&(arke_options){0});
  char text[128];
  arke_error err = ARKE_ERROR_INIT;
  /* More rows than the tuned kernel's 32-bit tile numbers allow. */
  ck_assert_msg(plan_sizes(ctx, 2000000, 4096, 4096, text, sizeof text, &err) == ARKE_OK, "%s", err.text);
  ck_assert_str_eq(text, "default loose");
  ck_assert_int_eq(plan_sizes(ctx, 1000000, 4096, 4096, text, sizeof text, &err), ARKE_OK);
  ck_assert_str_eq(text, "default strict");
  arke_close(ctx);
}
END_TEST

START_TEST(a_refused_exact_entry_says_what_it_needs) {
  fixture_write("tuned.arke", &FIXTURE_MATMUL, ENTRIES, 1);
  arke_context *ctx = fixture_open(&(arke_options){0});
  char text[128];
  arke_error err = ARKE_ERROR_INIT;
  fixture_call c;
  fixture_call_init(&c, 4096, 4096, 4096);
  c.tensors[0].strides[0] = 4100;
  ck_assert_int_eq(plan(ctx, &c, text, sizeof text, &err), ARKE_ERR_SHAPE);
  ck_assert_str_eq(err.text,
                   "A.stride0 is 4100; expected is a multiple of 8 (rows of A are 16-byte aligned)");
  ck_assert_str_eq(err.config, "cube");
  c.tensors[0].strides[0] = 4104; /* padded rows are fine */
  ck_assert_int_eq(plan(ctx, &c, text, sizeof text, NULL), ARKE_OK);
  error_clear(&err);
  c.tensors[1].strides[0] = 1;
  c.tensors[1].strides[1] = 4096;
  ck_assert_int_eq(plan(ctx, &c, text, sizeof text, &err), ARKE_ERR_SHAPE);
  ck_assert_str_eq(err.text, "the last axis of tensor B has stride 4096; expected is 1 (contiguous)");
  error_clear(&err);
  fixture_call_init(&c, 4096, 4096, 4096);
  c.tensors[2].t.byte_offset = 8;
  ck_assert_int_eq(plan(ctx, &c, text, sizeof text, &err), ARKE_ERR_ARGUMENT);
  ck_assert_str_eq(err.text, "tensor Y is at address 0x30000008; expected is a multiple of 16 bytes");
  c.tensors[2].t.data = NULL; /* not allocated yet: nothing to check */
  ck_assert_int_eq(plan(ctx, &c, text, sizeof text, NULL), ARKE_OK);
  arke_close(ctx);
}
END_TEST

/* Tuning these sizes would bring another kernel of the same needs. */
START_TEST(tensors_that_no_kernel_takes_are_not_to_be_tuned) {
  fixture_write("tuned.arke", &FIXTURE_MATMUL, ENTRIES, COUNT_OF(ENTRIES));
  arke_context *ctx = fixture_open(&(arke_options){0});
  char text[128];
  arke_error err = ARKE_ERROR_INIT;
  fixture_call c;
  fixture_call_init(&c, 4096, 4096, 512);
  c.tensors[0].strides[0] = 516;
  ck_assert_int_eq(plan(ctx, &c, text, sizeof text, &err), ARKE_ERR_SHAPE);
  ck_assert_str_eq(err.text, "A.stride0 is 516; expected is a multiple of 8 (rows of A are 16-byte aligned)");
  error_clear(&err);
  fixture_call_init(&c, 4096, 4096, 512);
  c.tensors[1].strides[0] = 1;
  c.tensors[1].strides[1] = 512;
  ck_assert_int_eq(plan(ctx, &c, text, sizeof text, &err), ARKE_ERR_SHAPE);
  ck_assert_str_eq(err.text, "the last axis of tensor B has stride 512; expected is 1 (contiguous)");
  error_clear(&err);
  fixture_call_init(&c, 4096, 4096, 512);
  c.tensors[2].t.byte_offset = 8;
  ck_assert_int_eq(plan(ctx, &c, text, sizeof text, &err), ARKE_ERR_ARGUMENT);
  ck_assert_str_eq(err.text, "tensor Y is at address 0x30000008; expected is a multiple of 16 bytes");
  arke_close(ctx);
}
END_TEST

static const struct {
  int64_t strides[2];
  const char *refused; /* NULL: accepted */
} OUTPUTS[] = {
    {{64, 1}, NULL},
    {{72, 1}, NULL},
    {{8, 1}, "elements of the output Y overlap: axis 0 has stride 8; accepted are 64 and more"},
    {{0, 1}, "elements of the output Y overlap: axis 0 has stride 0; accepted are 1 and more"},
    {{63, 1}, "elements of the output Y overlap: axis 0 has stride 63; accepted are 64 and more"},
    {{1, 32}, "elements of the output Y overlap: axis 1 has stride 32; accepted are 64 and more"},
    {{64, 0}, "elements of the output Y overlap: axis 1 has stride 0; accepted are 1 and more"},
};

START_TEST(an_output_that_overlaps_itself_is_refused) {
  fixture_write("tuned.arke", &FIXTURE_MATMUL, ENTRIES, COUNT_OF(ENTRIES));
  arke_context *ctx = fixture_open(&(arke_options){0});
  char text[128];
  arke_error err = ARKE_ERROR_INIT;
  fixture_call c;
  fixture_call_init(&c, 64, 64, 64);
  memcpy(c.tensors[2].strides, OUTPUTS[_i].strides, sizeof OUTPUTS[_i].strides);
  arke_status status = plan(ctx, &c, text, sizeof text, &err);
  ck_assert_int_eq(status, OUTPUTS[_i].refused == NULL ? ARKE_OK : ARKE_ERR_SHAPE);
  if (OUTPUTS[_i].refused != NULL) ck_assert_str_eq(err.text, OUTPUTS[_i].refused);
  fixture_call_init(&c, 64, 64, 64);
  c.tensors[0].strides[0] = 0; /* an input may repeat its rows */
  error_clear(&err);
  ck_assert_msg(plan(ctx, &c, text, sizeof text, &err) == ARKE_OK, "%s", err.text);
  arke_close(ctx);
}
END_TEST

static const struct {
  int64_t m, n, k;
} EMPTY[] = {{0, 64, 64}, {64, 0, 64}, {0, 0, 64}, {0, 64, 0}, {64, 0, 0}, {0, 0, 0}};

START_TEST(an_empty_output_needs_no_kernel) {
  fixture_write("tuned.arke", &FIXTURE_MATMUL, &ENTRIES[4], 1); /* modelled only */
  for (int strict = 0; strict < 2; strict++) {
    arke_context *ctx = fixture_open(&(arke_options){.strict = strict});
    arke_error err = ARKE_ERROR_INIT;
    fixture_call c;
    arke_plan *p;
    fixture_call_init(&c, EMPTY[_i].m, EMPTY[_i].n, EMPTY[_i].k);
    c.tensors[2].t.data = NULL;
    c.tensors[0].t.byte_offset = 2; /* no kernel asks for an alignment */
    ck_assert_msg(arke_plan_create(ctx, "matmul", c.list, 3, NULL, 0, &p, &err) == ARKE_OK, "%s", err.text);
    ck_assert_int_eq(arke_plan_describe(p).launches, 0);
    ck_assert_uint_eq(arke_workspace_bytes(p), 0);
    ck_assert_msg(arke_run(p, c.list, 3, NULL, NULL, &err) == ARKE_OK, "%s", err.text);
    arke_plan_destroy(p);
    for (int i = 0; i < 3; i++) c.tensors[i].t.dtype = (DLDataType){kDLFloat, 16, 1};
    ck_assert_int_eq(arke_plan_create(ctx, "matmul", c.list, 3, NULL, 0, &p, &err), ARKE_ERR_NOT_TUNED);
    ck_assert_says(err, "T (stored bf16, asked f16)");
    ck_assert_says(err, "an output without elements needs no kernel: tune any other sizes with these dtypes");
    ck_assert_msg(strstr(err.text, "arke-tune") == NULL, "%s", err.text);
    arke_close(ctx);
  }
}
END_TEST

/* A kernel that cannot sum over nothing says so; others do (test_plan_views.c). */
START_TEST(a_kernel_may_refuse_to_sum_over_nothing) {
  fixture_write("tuned.arke", &FIXTURE_MATMUL, ENTRIES, COUNT_OF(ENTRIES));
  arke_context *ctx = fixture_open(&(arke_options){0});
  char text[128];
  arke_error err = ARKE_ERROR_INIT;
  ck_assert_int_eq(plan_sizes(ctx, 64, 64, 0, text, sizeof text, &err), ARKE_ERR_NOT_TUNED);
  ck_assert_says(err,
                 "a stored kernel was refused (tensor A has no elements, and the kernel that was tuned reads "
                 "it by tensor maps, which cannot be empty)");
  ck_assert_says(err, "tune it with: arke-tune --op matmul --shape M=64,K=0,N=64");
  arke_close(ctx);
}
END_TEST

START_TEST(a_broken_entry_does_not_serve) {
  static const fixture_entry BROKEN[] = {
      {.config = "no recipe", .recipe = "{}"},
      {.bindings = "T=bf16 M=2048 N=2048 K=2048", .config = "no kernel", .ptx = "kernel other 4\n"},
      {.bindings = "T=bf16 M=1024 N=1024 K=1024", .config = "no ptx", .ptx = "syntax error"},
      {.bindings = "T=bf16 M=512 N=512 K=512", .config = "good"},
  };
  fixture_write("tuned.arke", &FIXTURE_MATMUL, BROKEN, 3);
  arke_context *ctx = fixture_open(&(arke_options){0});
  char text[128];
  arke_error err = ARKE_ERROR_INIT;
  ck_assert_int_eq(plan_sizes(ctx, 4096, 4096, 4096, text, sizeof text, &err), ARKE_ERR_INVALID);
  ck_assert_says(err, "tensors is missing");
  error_clear(&err);
  ck_assert_int_eq(plan_sizes(ctx, 1024, 1024, 1024, text, sizeof text, &err), ARKE_ERR_DRIVER);
  ck_assert_says(err, "Parsing error near 'syntax'");
  arke_close(ctx);
  fixture_write("tuned.arke", &FIXTURE_MATMUL, &BROKEN[3], 1);
  ctx = fixture_open(&(arke_options){0});
  ck_assert_int_eq(plan_sizes(ctx, 1024, 1024, 1024, text, sizeof text, NULL), ARKE_OK);
  ck_assert_str_eq(text, "default good");
  arke_close(ctx);
  ck_assert_int_eq(fixture_fake().fake_cuda_state()->modules, 0);
}
END_TEST

START_TEST(ptx_steps_in_for_a_foreign_cubin) {
  fixture_write("tuned.arke", &FIXTURE_MATMUL, &(fixture_entry){.cubin = "foreign cubin"}, 1);
  arke_context *ctx = fixture_open(&(arke_options){0});
  char text[128];
  ck_assert_int_eq(plan_sizes(ctx, 4096, 4096, 4096, text, sizeof text, NULL), ARKE_OK);
  arke_close(ctx);
}
END_TEST

START_TEST(plans_of_one_kernel_share_its_module) {
  fixture_write("tuned.arke", &FIXTURE_MATMUL, ENTRIES, 1);
  arke_context *ctx = fixture_open(&(arke_options){0});
  fake_state *state = fixture_fake().fake_cuda_state();
  fixture_call c;
  arke_plan *plans[3];
  for (int i = 0; i < 3; i++) {
    fixture_call_init(&c, 4096 >> i, 4096, 4096);
    ck_assert_int_eq(arke_plan_create(ctx, "matmul", c.list, 3, NULL, 0, &plans[i], NULL), ARKE_OK);
  }
  ck_assert_int_eq(state->modules, 1);
  arke_plan_destroy(plans[0]);
  arke_plan_destroy(plans[2]);
  ck_assert_int_eq(state->modules, 1);
  arke_plan_destroy(plans[1]);
  ck_assert_int_eq(state->modules, 0);
  arke_close(ctx);
}
END_TEST

/* --- binding ----------------------------------------------------------------------------------------- */

static const char NORM_RECIPE[] =
    "{\"tensors\":[{\"alignment\":2,\"contiguous_last\":true},{\"alignment\":4,\"contiguous_last\":true},"
    "{\"alignment\":2,\"contiguous_last\":true}],\"requirements\":[],\"launches\":[{\"kernel\":\"norm\","
    "\"params\":["
    "{\"kind\":\"pointer\",\"tensor\":0},{\"kind\":\"f32\",\"attr\":\"eps\"},{\"kind\":\"i64\",\"value\":\"B "
    "* H\"}],"
    "\"grid\":[\"B\",\"1\",\"1\"],\"block\":[128,1,1],\"cluster\":[1,1,1],\"smem_bytes\":\"0\"}]}";

static const char ATTR_RECIPE[] =
    "{\"tensors\":[{\"alignment\":2,\"contiguous_last\":true},{\"alignment\":4,\"contiguous_last\":true},"
    "{\"alignment\":2,\"contiguous_last\":true}],\"requirements\":[],\"launches\":[{\"kernel\":\"norm\","
    "\"params\":["
    "{\"kind\":\"pointer\",\"tensor\":0},{\"kind\":\"f32\",\"attr\":\"cap\"},{\"kind\":\"i64\",\"value\":"
    "\"H\"}],"
    "\"grid\":[\"B\",\"1\",\"1\"],\"block\":[128,1,1],\"cluster\":[1,1,1],\"smem_bytes\":\"0\"}]}";

static const fixture_entry NORMS[] = {
    {.bindings = "T=bf16 B=64 H=128 eps=1e-06",
     .config = "tiny",
     .recipe = NORM_RECIPE,
     .ptx = "kernel norm 8 4 8"},
    {.bindings = "T=bf16 B=64 H=128 eps=1e-05",
     .config = "large",
     .recipe = NORM_RECIPE,
     .ptx = "kernel norm 8 4 8"},
};

static void norm_call(fixture_call *c, int64_t b, int64_t h) {
  fixture_tensor_init(&c->tensors[0], 0x10000000, 2, (int64_t[]){b, 2 * h});
  fixture_tensor_init(&c->tensors[1], 0x20000000, 1, (int64_t[]){h});
  fixture_tensor_init(&c->tensors[2], 0x30000000, 2, (int64_t[]){b, h});
  c->tensors[1].t.dtype = (DLDataType){kDLFloat, 32, 1};
  for (int i = 0; i < 3; i++) c->list[i] = &c->tensors[i].t;
}

START_TEST(attributes_are_part_of_the_key) {
  fixture_write("tuned.arke", &FIXTURE_RMSNORM, NORMS, COUNT_OF(NORMS));
  arke_context *ctx = fixture_open(&(arke_options){0});
  fixture_call c;
  norm_call(&c, 64, 128);
  arke_plan *p;
  arke_error err = ARKE_ERROR_INIT;
  static const struct {
    double eps;
    int n;
    const char *config;
  } CASES[] = {{0, 0, "tiny"}, {1e-6, 1, "tiny"}, {1e-5, 1, "large"}};
  for (size_t i = 0; i < COUNT_OF(CASES); i++) {
    arke_attr eps = {"eps", CASES[i].eps};
    ck_assert_msg(arke_plan_create(ctx, "rmsnorm", c.list, 3, &eps, CASES[i].n, &p, &err) == ARKE_OK, "%s",
                  err.text);
    ck_assert_str_eq(arke_plan_describe(p).config, CASES[i].config);
    ck_assert_int_eq(arke_plan_describe(p).match, ARKE_MATCH_EXACT);
    ck_assert_int_eq(arke_run(p, c.list, 3, NULL, NULL, &err), ARKE_OK);
    float passed;
    memcpy(&passed, fixture_fake().fake_cuda_last_launch()->params[1], sizeof passed);
    ck_assert_float_eq(passed, CASES[i].n == 0 ? 1e-6f : (float)CASES[i].eps);
    arke_plan_destroy(p);
  }
  arke_attr eps = {"eps", 0.5}, unknown = {"gamma", 1};
  ck_assert_int_eq(arke_plan_create(ctx, "rmsnorm", c.list, 3, &eps, 1, &p, &err), ARKE_ERR_NOT_TUNED);
  ck_assert_says(err, "asked 0.5)");
  error_clear(&err);
  ck_assert_int_eq(arke_plan_create(ctx, "rmsnorm", c.list, 3, &unknown, 1, &p, &err), ARKE_ERR_ARGUMENT);
  ck_assert_str_eq(err.text, "operator rmsnorm has no attribute \"gamma\"");
  arke_close(ctx);
}
END_TEST

/* A dimension with an integer more than a size binds the size, and is checked against it. */
START_TEST(a_dimension_may_be_more_than_a_size) {
  static const cache_tensor TENSORS[] = {
      {.name = "W", .type = "f32", .rank = 1, .dims = {"2*B+1"}},
      {.name = "X", .type = "T", .rank = 2, .dims = {"B", "H"}},
      {.name = "Y", .output = true, .type = "T", .rank = 2, .dims = {"B+3", "H"}},
  };
  cache_problem p = FIXTURE_RMSNORM;
  p.op_text = "rmsnorm(W: f32[2*B+1], X: T[B,H]) -> (Y: T[B+3,H]) eps: float = 1e-06 { Y[i,j] = 1 }";
  p.tensors = TENSORS;
  const fixture_entry entry = {
      .bindings = "T=bf16 B=64 H=64 eps=1e-06", .recipe = NORM_RECIPE, .ptx = "kernel norm 8 4 8"};
  fixture_write("tuned.arke", &p, &entry, 1);
  arke_context *ctx = fixture_open(&(arke_options){0});
  static const struct {
    int64_t w, y;
    arke_status status;
    const char *says;
  } CALLS[] = {
      {129, 67, ARKE_OK, NULL},
      {128, 67, ARKE_ERR_SHAPE,
       "axis 0 of tensor W has 128 elements; expected is a multiple of 2, and 1 (2*B+1)"},
      {0, 67, ARKE_ERR_SHAPE, "axis 0 of tensor W has 0 elements; expected are at least 1 (2*B+1)"},
      {131, 67, ARKE_ERR_SHAPE,
       "axis 0 of tensor X has 64 elements; expected are B with B = 65 from the tensors before it"},
      {129, 64, ARKE_ERR_SHAPE,
       "axis 0 of tensor Y has 64 elements; expected are B+3 with B = 64 from the tensors before it"},
  };
  for (size_t i = 0; i < COUNT_OF(CALLS); i++) {
    fixture_call c;
    arke_plan *planned;
    arke_error err = ARKE_ERROR_INIT;
    fixture_tensor_init(&c.tensors[0], 0x10000000, 1, (int64_t[]){CALLS[i].w});
    c.tensors[0].t.dtype = (DLDataType){kDLFloat, 32, 1};
    fixture_tensor_init(&c.tensors[1], 0x20000000, 2, (int64_t[]){64, 64});
    fixture_tensor_init(&c.tensors[2], 0x30000000, 2, (int64_t[]){CALLS[i].y, 64});
    for (int k = 0; k < 3; k++) c.list[k] = &c.tensors[k].t;
    ck_assert_msg(arke_plan_create(ctx, "rmsnorm", c.list, 3, NULL, 0, &planned, &err) == CALLS[i].status,
                  "%zu: %s", i, err.text);
    if (CALLS[i].says == NULL)
      arke_plan_destroy(planned);
    else
      ck_assert_str_eq(err.text, CALLS[i].says);
  }
  arke_close(ctx);
}
END_TEST

/* Defaults as the canonical notation prints them; a formula is the tuner's to evaluate. */
/* Defaults as the canonical notation prints them, formulas with the call's sizes. */
START_TEST(attribute_defaults_are_read_from_the_notation) {
  cache_problem p = FIXTURE_RMSNORM;
  p.op_text = "rmsnorm(X: T[B, 2*H], W: f32[H]) -> (Y: T[B, H]) scale: float = 1.0 / sqrt(max(H, 1)) * 2, "
              "causal: bool "
              "= true, window: int = -1, cap: float = inf, to: dtype = f16 { Y[i, j] = X[i, j] }";
  const fixture_entry entry = {.bindings = "T=bf16 B=64 H=64 scale=0.25 causal=true window=-1 cap=inf to=f16",
                               .recipe = ATTR_RECIPE,
                               .ptx = "kernel norm 8 4 8"};
  fixture_write("tuned.arke", &p, &entry, 1);
  arke_context *ctx = fixture_open(&(arke_options){0});
  fixture_call c;
  norm_call(&c, 64, 64);
  arke_plan *planned;
  arke_error err = ARKE_ERROR_INIT;
  const arke_attr given[] = {{"scale", 0.25}, {"to", ARKE_DTYPE(kDLFloat, 16)}, {"causal", 1}};
  for (int n = 0; n <= 3; n++) {
    ck_assert_msg(arke_plan_create(ctx, "rmsnorm", c.list, 3, given, n, &planned, &err) == ARKE_OK, "%s",
                  err.text);
    ck_assert_int_eq(arke_plan_describe(planned).match, ARKE_MATCH_EXACT);
    arke_plan_destroy(planned);
  }
  static const struct {
    arke_attr attr;
    arke_status status;
    const char *says;
  } REFUSED[] = {
      {{"window", 7}, ARKE_ERR_NOT_TUNED, "differs in window (stored -1, asked 7)"},
      {{"window", 0.5}, ARKE_ERR_ARGUMENT, "attribute window is 0.5; accepted are whole numbers"},
      {{"to", ARKE_DTYPE(kDLBfloat, 16)}, ARKE_ERR_NOT_TUNED, "differs in to (stored f16"},
      {{"to", 3}, ARKE_ERR_ARGUMENT, "attribute to is 3, which is no ARKE_DTYPE(code, bits)"},
      {{"to", -1}, ARKE_ERR_ARGUMENT, "attribute to is -1, which is no ARKE_DTYPE(code, bits)"},
  };
  for (size_t i = 0; i < COUNT_OF(REFUSED); i++) {
    error_clear(&err);
    ck_assert_int_eq(arke_plan_create(ctx, "rmsnorm", c.list, 3, &REFUSED[i].attr, 1, &planned, &err),
                     REFUSED[i].status);
    ck_assert_says(err, REFUSED[i].says);
  }
  arke_close(ctx);
}
END_TEST

/* Formulas and their values at B = 6, H = 16; NAN: not one that the runtime reads. */
static const struct {
  const char *text;
  double value;
} FORMULAS[] = {
    {"1 / sqrt(H)", 0.25},
    {"1.0 / 2", 0.5},
    {"1 / 2", 0},
    {"-(B + 1) / 2", -4},
    {"H % 5", 1},
    {"-B % 4", 2},
    {"B * (H - 4)", 72},
    {"min(B, H) + max(B, 2.5)", 12},
    {"rsqrt(H) * log2(H)", 1},
    {"pow(2, 3)", 8},
    {"exp2(-1)", 0.5},
    {"2.5e-1 * H", 4},
    {"floor(7 / 2.0)", 3},
    {"B / 0", NAN},
    {"sqrt(Q)", NAN},
    {"tanh(B)", NAN},
    {"sqrt(B, H)", NAN},
    {"min(B)", NAN},
    {"(B", NAN},
    {"B +", NAN},
    {"B > 2 ? 1 : 0", NAN},
    {"-- -B", -6},
    {"", NAN},
};

START_TEST(defaults_may_be_formulas) {
  cache_problem p = FIXTURE_RMSNORM;
  char text[256], bindings[128];
  snprintf(text, sizeof text,
           "rmsnorm(X: T[B, 2*H], W: f32[H]) -> (Y: T[B, H]) cap: float = %s { Y[i, j] = X[i, j] }",
           FORMULAS[_i].text);
  snprintf(bindings, sizeof bindings, "T=bf16 B=6 H=16 cap=%.17g",
           isnan(FORMULAS[_i].value) ? 1 : FORMULAS[_i].value);
  p.op_text = text;
  const fixture_entry entry = {.bindings = bindings, .recipe = ATTR_RECIPE, .ptx = "kernel norm 8 4 8"};
  fixture_write("tuned.arke", &p, &entry, 1);
  arke_context *ctx = fixture_open(&(arke_options){.strict = 1});
  fixture_call c;
  norm_call(&c, 6, 16);
  arke_plan *planned;
  arke_error err = ARKE_ERROR_INIT;
  arke_status status = arke_plan_create(ctx, "rmsnorm", c.list, 3, NULL, 0, &planned, &err);
  if (isnan(FORMULAS[_i].value)) {
    ck_assert_int_eq(status, ARKE_ERR_ARGUMENT);
    ck_assert_says(err, "attribute cap must be given: it has no default");
  } else {
    ck_assert_msg(status == ARKE_OK, "%s", err.text);
    arke_plan_destroy(planned);
  }
  arke_close(ctx);
}
END_TEST

/* The operator of a name that was tuned last serves, whichever sizes the earlier one was tuned for. */
START_TEST(a_changed_operator_replaces_the_earlier_one) {
  static const char *const texts[] = {
      "rmsnorm(X: T[B, 2*H], W: f32[H]) -> (Y: T[B, H]) cap: float = 1.0 { Y[i, j] = X[i, j] }",
      "rmsnorm(X: T[B, 2*H], W: f32[H]) -> (Y: T[B, H]) cap: float = 1.0 { Y[i, j] = 2 * X[i, j] }"};
  static const char *const bindings[] = {"T=bf16 B=6 H=16 cap=1", "T=bf16 B=6 H=32 cap=1"};
  const char *first = texts[_i], *second = texts[1 - _i];
  for (int same = 0; same < 2; same++) {
    cache_problem p = FIXTURE_RMSNORM;
    fixture_entry entry = {.bindings = bindings[0], .recipe = ATTR_RECIPE, .ptx = "kernel norm 8 4 8"};
    char path[32];
    snprintf(path, sizeof path, "changed%d.arke", same);
    p.op_text = first;
    fixture_write(path, &p, &entry, 1);
    p.op_text = second;
    entry.bindings = bindings[same ? 0 : 1];
    fixture_write(path, &p, &entry, 1);
    arke_context *ctx = fixture_open(&(arke_options){.cache_path = path});
    fixture_call c;
    norm_call(&c, 6, 16);
    arke_plan *planned;
    arke_error err = ARKE_ERROR_INIT;
    ck_assert_msg(arke_plan_create(ctx, "rmsnorm", c.list, 3, NULL, 0, &planned, &err) == ARKE_OK, "%s",
                  err.text);
    ck_assert_msg(strncmp(arke_plan_describe(planned).key, second, strlen(second)) == 0, "%s",
                  arke_plan_describe(planned).key);
    arke_plan_destroy(planned);
    arke_close(ctx);
  }
}
END_TEST

typedef void (*change_fn)(fixture_call *c);
static void other_dtype(fixture_call *c) {
  c->tensors[2].t.dtype = (DLDataType){kDLFloat, 16, 1};
}
static void wrong_fixed_dtype(fixture_call *c) {
  c->tensors[1].t.dtype = (DLDataType){kDLBfloat, 16, 1};
}
static void odd_factor(fixture_call *c) {
  c->tensors[0].shape[1] = 257;
}
static void other_factor(fixture_call *c) {
  c->tensors[0].shape[1] = 512;
}
static void other_axis(fixture_call *c) {
  c->tensors[2].shape[1] = 100;
}
static void other_rank(fixture_call *c) {
  c->tensors[1].t.ndim = 2;
}
static void foreign_dtype(fixture_call *c) {
  c->tensors[0].t.dtype = (DLDataType){kDLComplex, 64, 1};
}
static void two_lanes(fixture_call *c) {
  c->tensors[0].t.dtype.lanes = 2;
}
static void null_tensor(fixture_call *c) {
  c->list[1] = NULL;
}
static void null_shape(fixture_call *c) {
  c->tensors[0].t.shape = NULL;
}
static void negative_size(fixture_call *c) {
  c->tensors[0].shape[0] = -1;
}
static void huge_size(fixture_call *c) {
  c->tensors[0].shape[0] = INT64_MAX;
}
static void huge_product(fixture_call *c) {
  c->tensors[0].t.strides = NULL;
  c->tensors[0].shape[0] = c->tensors[0].shape[1] = (int64_t)1 << 40;
}
static void negative_stride(fixture_call *c) {
  c->tensors[0].strides[0] = -256;
}
static void nine_axes(fixture_call *c) {
  c->tensors[0].t.ndim = 9;
}
static void negative_rank(fixture_call *c) {
  c->tensors[0].t.ndim = -1;
}
static void on_cpu(fixture_call *c) {
  c->tensors[0].t.device.device_type = kDLCPU;
}
static void on_rocm(fixture_call *c) {
  c->tensors[0].t.device.device_type = kDLROCM;
}
static void on_other_gpu(fixture_call *c) {
  c->tensors[2].t.device.device_id = 1;
}

static const struct {
  change_fn change;
  arke_status status;
  const char *says;
} MISUSES[] = {
    {other_dtype, ARKE_ERR_DTYPE, "tensor Y is f16; expected is bf16 as in the tensors before it (T)"},
    {wrong_fixed_dtype, ARKE_ERR_DTYPE, "tensor W is bf16; expected is f32"},
    {odd_factor, ARKE_ERR_SHAPE, "axis 1 of tensor X has 257 elements; expected is a multiple of 2 (2*H)"},
    {other_factor, ARKE_ERR_SHAPE,
     "axis 0 of tensor W has 128 elements; expected are H with H = 256 from the tensors before it"},
    {other_axis, ARKE_ERR_SHAPE, "axis 1 of tensor Y has 100 elements; expected are H with H = 128"},
    {other_rank, ARKE_ERR_SHAPE, "tensor W has rank 2; expected is 1"},
    {foreign_dtype, ARKE_ERR_DTYPE,
     "tensor 0 has a dtype that no operator takes (DLPack code 5, 64 bits, 1 lanes)"},
    {two_lanes, ARKE_ERR_DTYPE,
     "tensor 0 has a dtype that no operator takes (DLPack code 4, 16 bits, 2 lanes)"},
    {null_tensor, ARKE_ERR_ARGUMENT, "tensor 1 is NULL"},
    {null_shape, ARKE_ERR_ARGUMENT, "tensor 0 has rank 2 and no shape"},
    {negative_size, ARKE_ERR_SHAPE, "axis 0 of tensor 0 has -1 elements; accepted are 0 to 2^40"},
    {huge_size, ARKE_ERR_SHAPE, "axis 0 of tensor 0 has 9223372036854775807 elements"},
    {huge_product, ARKE_ERR_SHAPE, "tensor 0 spans more than 2^59 elements"},
    {negative_stride, ARKE_ERR_SHAPE, "axis 0 of tensor 0 has stride -256"},
    {nine_axes, ARKE_ERR_SHAPE, "tensor 0 has rank 9; accepted are 0 to 8"},
    {negative_rank, ARKE_ERR_SHAPE, "tensor 0 has rank -1"},
    {on_cpu, ARKE_ERR_DEVICE, "tensor 0 is on CPU (DLPack device 1); this context runs on CUDA"},
    {on_rocm, ARKE_ERR_DEVICE, "tensor 0 is on ROCm (DLPack device 10)"},
    {on_other_gpu, ARKE_ERR_DEVICE, "tensor 2 is on GPU 1; this context runs on GPU 0"},
};

START_TEST(a_call_that_does_not_fit_is_explained) {
  fixture_write("tuned.arke", &FIXTURE_RMSNORM, NORMS, 1);
  arke_context *ctx = fixture_open(&(arke_options){0});
  fixture_call c;
  norm_call(&c, 64, 128);
  MISUSES[_i].change(&c);
  arke_plan *p;
  arke_error err = ARKE_ERROR_INIT;
  ck_assert_int_eq(arke_plan_create(ctx, "rmsnorm", c.list, 3, NULL, 0, &p, &err), MISUSES[_i].status);
  ck_assert_says(err, MISUSES[_i].says);
  ck_assert_str_eq(err.stage, "plan");
  ck_assert_str_eq(err.op, "rmsnorm");
  ck_assert_ptr_null(p);
  arke_close(ctx);
}
END_TEST

START_TEST(missing_arguments_are_named) {
  fixture_write("tuned.arke", &FIXTURE_MATMUL, ENTRIES, 1);
  arke_context *ctx = fixture_open(&(arke_options){0});
  fixture_call c;
  fixture_call_init(&c, 4096, 4096, 4096);
  arke_plan *p;
  arke_attr nameless = {NULL, 0};
  const struct {
    arke_status status;
    const char *says;
    arke_context *ctx;
    const char *op;
    const DLTensor *const *tensors;
    int n;
    const arke_attr *attrs;
    int n_attrs;
  } cases[] = {
      {ARKE_ERR_ARGUMENT, "ctx is NULL", NULL, "matmul", c.list, 3, NULL, 0},
      {ARKE_ERR_ARGUMENT, "op is missing", ctx, NULL, c.list, 3, NULL, 0},
      {ARKE_ERR_ARGUMENT, "op is missing", ctx, "", c.list, 3, NULL, 0},
      {ARKE_ERR_ARGUMENT, "tensors is NULL", ctx, "matmul", NULL, 3, NULL, 0},
      {ARKE_ERR_ARGUMENT, "n_tensors is 0", ctx, "matmul", c.list, 0, NULL, 0},
      {ARKE_ERR_ARGUMENT, "n_tensors is -3", ctx, "matmul", c.list, -3, NULL, 0},
      {ARKE_ERR_ARGUMENT, "n_tensors is 17; accepted are 1 to 16", ctx, "matmul", c.list, 17, NULL, 0},
      {ARKE_ERR_ARGUMENT, "matmul takes 3 tensors (inputs, then outputs); 2 were given", ctx, "matmul",
       c.list, 2, NULL, 0},
      {ARKE_ERR_ARGUMENT, "attrs is NULL", ctx, "matmul", c.list, 3, NULL, 1},
      {ARKE_ERR_ARGUMENT, "n_attrs is -1", ctx, "matmul", c.list, 3, NULL, -1},
      {ARKE_ERR_ARGUMENT, "attribute 0 has no name", ctx, "matmul", c.list, 3, &nameless, 1},
  };
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    arke_error err = ARKE_ERROR_INIT;
    ck_assert_int_eq(arke_plan_create(cases[i].ctx, cases[i].op, cases[i].tensors, cases[i].n, cases[i].attrs,
                                      cases[i].n_attrs, &p, &err),
                     cases[i].status);
    ck_assert_says(err, cases[i].says);
  }
  ck_assert_int_eq(arke_plan_create(ctx, "matmul", c.list, 3, NULL, 0, NULL, NULL), ARKE_ERR_ARGUMENT);
  ck_assert_str_eq(arke_plan_describe(NULL).key, "");
  ck_assert_uint_eq(arke_workspace_bytes(NULL), 0);
  arke_plan_destroy(NULL);
  arke_close(ctx);
}
END_TEST

START_TEST(opening_needs_a_cache_and_a_known_device) {
  arke_context *ctx;
  arke_error err = ARKE_ERROR_INIT;
  ck_assert_int_eq(arke_open(NULL, &ctx, &err), ARKE_ERR_ARGUMENT);
  ck_assert_ptr_null(ctx);
  error_clear(&err);
  ck_assert_int_eq(arke_open(&(arke_options){0}, &ctx, &err), ARKE_ERR_ARGUMENT);
  ck_assert_str_eq(err.text, "neither cache_path nor shipped_path is given");
  error_clear(&err);
  ck_assert_int_ne(arke_open(&(arke_options){.cache_path = "nowhere.arke"}, &ctx, &err), ARKE_OK);
  ck_assert_says(err, "nowhere.arke");
  ck_assert_ptr_null(ctx);
  error_clear(&err);
  ck_assert_int_eq(arke_open(&(arke_options){.cache_path = "x"}, NULL, &err), ARKE_ERR_ARGUMENT);
  fixture_write("tuned.arke", &FIXTURE_MATMUL, ENTRIES, 1);
  error_clear(&err);
  ck_assert_int_eq(arke_open(&(arke_options){.cache_path = "tuned.arke", .device = 7}, &ctx, &err),
                   ARKE_ERR_ARGUMENT);
  ck_assert_says(err, "device is 7");
  error_clear(&err);
  ck_assert_int_eq(
      arke_open(&(arke_options){.cache_path = "tuned.arke", .device = ARKE_DEVICE_CUDA, .device_index = 4},
                &ctx, &err),
      ARKE_ERR_DEVICE);
  ck_assert_says(err, "there is no GPU 4");
  /* AUTO takes the emulator where there is no GPU. */
  fixture_fake().fake_cuda_state()->n_devices = 0;
  ck_assert_int_eq(arke_open(&(arke_options){.cache_path = "tuned.arke"}, &ctx, &err), ARKE_OK);
  arke_close(ctx);
  arke_close(NULL);
}
END_TEST

static const cache_tensor MAP_TENSORS[] = {
    {.name = "X", .type = "T", .any_rank = true},
    {.name = "Y", .output = true, .type = "T", .any_rank = true},
};

START_TEST(leading_axes_count_as_one) {
  static const char MAP_RECIPE[] =
      "{\"tensors\":[{\"alignment\":2,\"contiguous_last\":true},{\"alignment\":2,\"contiguous_last\":true}],"
      "\"requirements\":[],\"launches\":[{\"kernel\":\"map\",\"params\":[{\"kind\":\"i64\",\"value\":"
      "\"LEAD\"}],"
      "\"grid\":[\"ceildiv(LEAD, "
      "128)\",\"1\",\"1\"],\"block\":[128,1,1],\"cluster\":[1,1,1],\"smem_bytes\":\"0\"}]}";
  const cache_problem p = {.op_name = "relu",
                           .op_text = "relu(X: T[...]) -> (Y: T[...]) { Y[...] = max(X[...], 0.0) }",
                           .ptx = "8.6",
                           .n_tensors = 2,
                           .tensors = MAP_TENSORS};
  const fixture_entry entry = {.bindings = "T=bf16 ...=4x128", .recipe = MAP_RECIPE, .ptx = "kernel map 8"};
  fixture_write("tuned.arke", &p, &entry, 1);
  arke_context *ctx = fixture_open(&(arke_options){0});
  fixture_tensor x, y;
  const DLTensor *list[] = {&x.t, &y.t};
  static const struct {
    int rank;
    int64_t shape[3];
    arke_match match;
  } CASES[] = {
      {2, {4, 128}, ARKE_MATCH_EXACT}, {1, {512}, ARKE_MATCH_EXACT}, {3, {2, 3, 128}, ARKE_MATCH_DEFAULT}};
  arke_error err = ARKE_ERROR_INIT;
  arke_plan *planned;
  for (size_t i = 0; i < COUNT_OF(CASES); i++) {
    fixture_tensor_init(&x, 0x1000, CASES[i].rank, CASES[i].shape);
    fixture_tensor_init(&y, 0x9000, CASES[i].rank, CASES[i].shape);
    ck_assert_msg(arke_plan_create(ctx, "relu", list, 2, NULL, 0, &planned, &err) == ARKE_OK, "%s", err.text);
    ck_assert_int_eq(arke_plan_describe(planned).match, CASES[i].match);
    arke_plan_destroy(planned);
  }
  x.strides[0] = 999; /* a gap that a flat index cannot step over */
  ck_assert_int_eq(arke_plan_create(ctx, "relu", list, 2, NULL, 0, &planned, &err), ARKE_ERR_SHAPE);
  ck_assert_says(err, "the leading axes of tensor X do not form one axis");
  arke_close(ctx);
}
END_TEST

/* --- size -------------------------------------------------------------------------------------------- */

/* Of this process, so that other work on the machine does not count. */
static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* Opening and the first plan, of the best of a few tries: other work on the machine must not fail the test.
 */
START_TEST(a_thousand_entries_open_and_plan_quickly) {
  enum { ENTRY_COUNT = 1000, TRIES = 7 };
  static fixture_entry entries[ENTRY_COUNT];
  static char bindings[ENTRY_COUNT][64];
  for (int i = 0; i < ENTRY_COUNT; i++) {
    snprintf(bindings[i], sizeof bindings[i], "T=bf16 M=%d N=%d K=4096", 64 * (1 + i % 40),
             128 * (1 + i / 40));
    entries[i].bindings = bindings[i];
  }
  fixture_write("tuned.arke", &FIXTURE_MATMUL, entries, ENTRY_COUNT);
  double exact_ms = 1e9, default_ms = 1e9;
  char text[128];
  for (int i = 0; i < TRIES; i++) {
    double begin = now_ms();
    arke_context *ctx = fixture_open(&(arke_options){0});
    ck_assert_int_eq(plan_sizes(ctx, 64 * 17, 128 * 5, 4096, text, sizeof text, NULL), ARKE_OK);
    double middle = now_ms();
    ck_assert_str_eq(text, "exact BLOCK_M=128");
    ck_assert_int_eq(plan_sizes(ctx, 1000, 1000, 4096, text, sizeof text, NULL), ARKE_OK);
    double end = now_ms();
    ck_assert_str_eq(text, "default BLOCK_M=128");
    arke_close(ctx);
    if (middle - begin < exact_ms) exact_ms = middle - begin;
    if (end - middle < default_ms) default_ms = end - middle;
  }
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  ck_assert_double_lt(exact_ms, 5);
  ck_assert_double_lt(default_ms, 50); /* walks all entries, once */
#endif
}
END_TEST

TCase *plan_tests(void) {
  TCase *t = tcase_create("plan");
  tcase_set_timeout(t, 60);
  tcase_add_checked_fixture(t, fixture_enter, fixture_leave);
  tcase_add_loop_test(t, the_right_entry_serves, 0, COUNT_OF(SERVED));
  tcase_add_test(t, strict_serves_exact_entries_only);
  tcase_add_test(t, a_miss_names_what_differs);
  tcase_add_test(t, a_modelled_entry_is_named_but_not_served);
  tcase_add_test(t, an_unknown_operator_is_a_miss);
  tcase_add_test(t, the_users_cache_comes_first);
  tcase_add_test(t, an_entry_tuned_meanwhile_is_found);
  tcase_add_test(t, an_entry_whose_assumptions_fail_is_passed_over);
  tcase_add_test(t, a_refused_exact_entry_says_what_it_needs);
  tcase_add_test(t, tensors_that_no_kernel_takes_are_not_to_be_tuned);
  tcase_add_loop_test(t, an_output_that_overlaps_itself_is_refused, 0, COUNT_OF(OUTPUTS));
  tcase_add_loop_test(t, an_empty_output_needs_no_kernel, 0, COUNT_OF(EMPTY));
  tcase_add_test(t, a_kernel_may_refuse_to_sum_over_nothing);
  tcase_add_test(t, a_broken_entry_does_not_serve);
  tcase_add_test(t, ptx_steps_in_for_a_foreign_cubin);
  tcase_add_test(t, plans_of_one_kernel_share_its_module);
  tcase_add_test(t, attributes_are_part_of_the_key);
  tcase_add_test(t, a_dimension_may_be_more_than_a_size);
  tcase_add_test(t, attribute_defaults_are_read_from_the_notation);
  tcase_add_loop_test(t, a_changed_operator_replaces_the_earlier_one, 0, 2);
  tcase_add_loop_test(t, defaults_may_be_formulas, 0, COUNT_OF(FORMULAS));
  tcase_add_test(t, leading_axes_count_as_one);
  tcase_add_loop_test(t, a_call_that_does_not_fit_is_explained, 0, COUNT_OF(MISUSES));
  tcase_add_test(t, missing_arguments_are_named);
  tcase_add_test(t, opening_needs_a_cache_and_a_known_device);
  tcase_add_test(t, a_thousand_entries_open_and_plan_quickly);
  return t;
}
