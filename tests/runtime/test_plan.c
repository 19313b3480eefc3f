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
  tcase_add_test(t, opening_needs_a_cache_and_a_known_device);
  tcase_add_test(t, a_thousand_entries_open_and_plan_quickly);
  return t;
}
