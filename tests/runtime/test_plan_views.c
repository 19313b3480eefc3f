/* Plans for tensors as callers have them: views, in place, without elements, of every dtype. */
#include <stdio.h>
#include <string.h>

#include "tests/runtime/runtime_fixture.h"

/* add(A: T[...], B: T[...]) -> (Y: T[...]): a kernel for tensors without gaps, then one for any views. */
static const char ADD_RECIPE[] =
    "{\"tensors\":[{\"alignment\":16,\"contiguous_last\":true,\"dense\":true},"
    "{\"alignment\":16,\"contiguous_last\":true,\"dense\":true},"
    "{\"alignment\":16,\"contiguous_last\":true,\"dense\":true}],"
    "\"requirements\":[{\"expr\":\"LEAD\",\"max\":4294967295,\"why\":\"32-bit offsets\"}],"
    "\"launches\":[{\"kernel\":\"dense\",\"params\":[{\"kind\":\"i64\",\"value\":\"LEAD\"}],"
    "\"grid\":[\"ceildiv(LEAD, 1024)\",\"1\",\"1\"],\"block\":[128,1,1],\"cluster\":[1,1,1],"
    "\"smem_bytes\":\"0\"}],"
    "\"otherwise\":{\"tensors\":[{\"alignment\":2,\"contiguous_last\":false},"
    "{\"alignment\":2,\"contiguous_last\":false},{\"alignment\":2,\"contiguous_last\":false}],"
    "\"requirements\":[],"
    "\"launches\":[{\"kernel\":\"any\",\"params\":[{\"kind\":\"i64\",\"value\":\"LEAD\"},"
    "{\"kind\":\"i64\",\"value\":\"LEAD0\"},{\"kind\":\"i64\",\"value\":\"LEAD1\"},"
    "{\"kind\":\"i64\",\"value\":\"A.lead0\"},{\"kind\":\"i64\",\"value\":\"A.lead1\"},"
    "{\"kind\":\"i64\",\"value\":\"B.lead0\"},{\"kind\":\"i64\",\"value\":\"B.lead1\"},"
    "{\"kind\":\"pointer\",\"tensor\":1}],"
    "\"grid\":[\"ceildiv(LEAD, 1024)\",\"1\",\"1\"],\"block\":[128,1,1],\"cluster\":[1,1,1],"
    "\"smem_bytes\":\"0\"}]}}";

static const cache_tensor ADD_TENSORS[] = {
    {.name = "A", .type = "T", .any_rank = true},
    {.name = "B", .type = "T", .any_rank = true},
    {.name = "Y", .output = true, .type = "T", .any_rank = true},
};

static const cache_problem ADD = {.op_name = "add",
                                  .op_text = "add(A, B: T[...]) -> (Y: T[...]) { Y[...] = A[...] + B[...] }",
                                  .ptx = "8.6",
                                  .n_tensors = 3,
                                  .tensors = ADD_TENSORS};

typedef struct add_call {
  fixture_tensor tensors[3];
  const DLTensor *list[3];
} add_call;

static void add_call_init(add_call *c, int rank, const int64_t *shape) {
  for (int i = 0; i < 3; i++) {
    fixture_tensor_init(&c->tensors[i], (uintptr_t)(i + 1) << 28, rank, shape);
    c->list[i] = &c->tensors[i].t;
  }
}

static arke_context *open_add(void) {
  const fixture_entry entry = {.bindings = "T=bf16 ...=4x128",
                               .recipe = ADD_RECIPE,
                               .ptx = "kernel dense 8\nkernel any 8 8 8 8 8 8 8 8\n"};
  fixture_write("tuned.arke", &ADD, &entry, 1);
  return fixture_open(&(arke_options){0});
}

static int64_t passed(int param) {
  int64_t value;
  memcpy(&value, fixture_fake().fake_cuda_last_launch()->params[param], sizeof value);
  return value;
}

/* Sizes 2x3x4 and the strides of A, B and Y; what the general kernel gets, or that the dense one serves. */
static const struct {
  int64_t a[3], b[3], y[3];
  uint64_t offset; /* of A, bytes */
  const char *kernel;
  int64_t sizes[2], a_lead[2], b_lead[2];
} VIEWS[] = {
    {{12, 4, 1}, {12, 4, 1}, {12, 4, 1}, 0, "dense", {0}, {0}, {0}},
    {{1, 2, 6}, {1, 2, 6}, {1, 2, 6}, 0, "dense", {0}, {0}, {0}},
    {{12, 4, 1}, {12, 4, 1}, {12, 4, 1}, 2, "any", {24, 1}, {1, 0}, {1, 0}},
    {{12, 4, 1}, {0, 4, 1}, {12, 4, 1}, 0, "any", {12, 2}, {1, 12}, {1, 0}},
    {{12, 4, 1}, {0, 0, 1}, {12, 4, 1}, 0, "any", {4, 6}, {1, 4}, {1, 0}},
    {{12, 4, 1}, {0, 0, 0}, {12, 4, 1}, 0, "any", {24, 1}, {1, 0}, {0, 0}},
    {{16, 4, 1}, {16, 4, 1}, {12, 4, 1}, 0, "any", {12, 2}, {1, 16}, {1, 16}},
};

START_TEST(views_are_served_by_the_kernel_that_takes_them) {
  arke_context *ctx = open_add();
  arke_error err = ARKE_ERROR_INIT;
  add_call c;
  arke_plan *p;
  add_call_init(&c, 3, (int64_t[]){2, 3, 4});
  memcpy(c.tensors[0].strides, VIEWS[_i].a, sizeof VIEWS[_i].a);
  memcpy(c.tensors[1].strides, VIEWS[_i].b, sizeof VIEWS[_i].b);
  memcpy(c.tensors[2].strides, VIEWS[_i].y, sizeof VIEWS[_i].y);
  c.tensors[0].t.byte_offset = VIEWS[_i].offset;
  ck_assert_msg(arke_plan_create(ctx, "add", c.list, 3, NULL, 0, &p, &err) == ARKE_OK, "%s", err.text);
  ck_assert_msg(arke_run(p, c.list, 3, NULL, NULL, &err) == ARKE_OK, "%s", err.text);
  ck_assert_str_eq(fixture_fake().fake_cuda_last_launch()->kernel, VIEWS[_i].kernel);
  ck_assert_int_eq(passed(0), 24);
  if (strcmp(VIEWS[_i].kernel, "any") == 0)
    for (int i = 0; i < 2; i++) {
      ck_assert_int_eq(passed(1 + i), VIEWS[_i].sizes[i]);
      ck_assert_int_eq(passed(3 + i), VIEWS[_i].a_lead[i]);
      ck_assert_int_eq(passed(5 + i), VIEWS[_i].b_lead[i]);
    }
  arke_plan_destroy(p);
  arke_close(ctx);
}
END_TEST

START_TEST(more_leading_axes_than_a_kernel_knows_are_refused) {
  arke_context *ctx = open_add();
  arke_error err = ARKE_ERROR_INIT;
  add_call c;
  arke_plan *p;
  add_call_init(&c, 3, (int64_t[]){2, 3, 4});
  c.tensors[1].strides[1] = 0;
  ck_assert_int_eq(arke_plan_create(ctx, "add", c.list, 3, NULL, 0, &p, &err), ARKE_ERR_SHAPE);
  ck_assert_str_eq(err.text,
                   "a leading axis of tensor B has stride 0; expected is 4 (no gaps); and for the last of 2 "
                   "kernels: the leading axes collapse to 3 (tensor B among them); accepted are up to 2");
  arke_close(ctx);
}
END_TEST

START_TEST(leading_axes_are_the_same_in_all_tensors) {
  arke_context *ctx = open_add();
  arke_error err = ARKE_ERROR_INIT;
  add_call c;
  arke_plan *p;
  add_call_init(&c, 2, (int64_t[]){4, 6});
  c.tensors[1].shape[0] = 6, c.tensors[1].shape[1] = 4;
  ck_assert_int_eq(arke_plan_create(ctx, "add", c.list, 3, NULL, 0, &p, &err), ARKE_ERR_SHAPE);
  ck_assert_str_eq(err.text, "axis 0 of tensor B has 6 elements; expected are 4 as in A");
  error_clear(&err);
  fixture_tensor_init(&c.tensors[1], 0x2000, 1, (int64_t[]){24});
  ck_assert_int_eq(arke_plan_create(ctx, "add", c.list, 3, NULL, 0, &p, &err), ARKE_ERR_SHAPE);
  ck_assert_str_eq(err.text, "tensor B has rank 1; expected is 2, with the 2 leading axes of A");
  arke_close(ctx);
}
END_TEST

/* 2^33 elements, a scalar, and no element at all. */
START_TEST(any_number_of_elements_is_planned) {
  static const struct {
    int rank;
    int64_t shape[2];
    const char *kernel; /* NULL: none */
  } CASES[] = {{2, {1 << 16, 1 << 17}, "any"}, {0, {0}, "dense"}, {2, {0, 5}, NULL}, {2, {5, 0}, NULL}};
  arke_context *ctx = open_add();
  for (size_t i = 0; i < COUNT_OF(CASES); i++) {
    arke_error err = ARKE_ERROR_INIT;
    add_call c;
    arke_plan *p;
    add_call_init(&c, CASES[i].rank, CASES[i].shape);
    ck_assert_msg(arke_plan_create(ctx, "add", c.list, 3, NULL, 0, &p, &err) == ARKE_OK, "%s", err.text);
    ck_assert_int_eq(arke_plan_describe(p).launches, CASES[i].kernel != NULL);
    ck_assert_msg(arke_run(p, c.list, 3, NULL, NULL, &err) == ARKE_OK, "%s", err.text);
    if (CASES[i].kernel != NULL) {
      ck_assert_str_eq(fixture_fake().fake_cuda_last_launch()->kernel, CASES[i].kernel);
      ck_assert_int_eq(passed(0), CASES[i].rank == 0 ? 1 : (int64_t)1 << 33);
    }
    arke_plan_destroy(p);
  }
  arke_close(ctx);
}
END_TEST

/* --- reductions over nothing --------------------------------------------------------------------------- */

START_TEST(a_reduction_over_nothing_runs) {
  static const cache_tensor TENSORS[] = {
      {.name = "X", .type = "T", .rank = 2, .dims = {"M", "N"}},
      {.name = "loss", .output = true, .type = "f32", .rank = 0},
  };
  const cache_problem p = {.op_name = "total",
                           .op_text = "total(X: T[M,N]) -> (loss: f32[]) { loss = sum(i) sum(j) X[i,j] }",
                           .ptx = "8.6",
                           .n_tensors = 2,
                           .tensors = TENSORS};
  const fixture_entry entry = {
      .bindings = "T=bf16 M=64 N=64",
      .recipe = "{\"tensors\":[{\"alignment\":16,\"contiguous_last\":true},"
                "{\"alignment\":4,\"contiguous_last\":true}],"
                "\"requirements\":[{\"expr\":\"X.stride0\",\"divisor\":8,\"why\":\"rows of 16 bytes\"}],"
                "\"launches\":[{\"kernel\":\"total\",\"params\":[{\"kind\":\"i64\",\"value\":\"M * N\"}],"
                "\"grid\":[\"max(1, ceildiv(M * N, 1024))\",\"1\",\"1\"],\"block\":[128,1,1],"
                "\"cluster\":[1,1,1],\"smem_bytes\":\"0\"}]}",
      .ptx = "kernel total 8\n"};
  fixture_write("tuned.arke", &p, &entry, 1);
  arke_context *ctx = fixture_open(&(arke_options){0});
  static const int64_t SHAPES[][2] = {{64, 64}, {64, 0}, {0, 64}, {0, 0}};
  for (size_t i = 0; i < COUNT_OF(SHAPES); i++) {
    arke_error err = ARKE_ERROR_INIT;
    fixture_tensor x, loss;
    const DLTensor *list[] = {&x.t, &loss.t};
    arke_plan *planned;
    fixture_tensor_init(&x, i == 0 ? 0x1000 : 0, 2, SHAPES[i]);
    fixture_tensor_init(&loss, 0x9000, 0, NULL);
    loss.t.dtype = (DLDataType){kDLFloat, 32, 1};
    loss.t.shape = NULL;
    ck_assert_msg(arke_plan_create(ctx, "total", list, 2, NULL, 0, &planned, &err) == ARKE_OK, "%s",
                  err.text);
    ck_assert_int_eq(arke_plan_describe(planned).launches, 1);
    ck_assert_msg(arke_run(planned, list, 2, NULL, NULL, &err) == ARKE_OK, "%s", err.text);
    ck_assert_int_eq(passed(0), SHAPES[i][0] * SHAPES[i][1]);
    arke_plan_destroy(planned);
  }
  arke_close(ctx);
}
END_TEST

/* --- in place ------------------------------------------------------------------------------------------ */

static const cache_tensor COPY_TENSORS[] = {
    {.name = "D", .type = "U", .any_rank = true},
    {.name = "X", .type = "T", .any_rank = true},
    {.name = "D", .output = true, .type = "U", .any_rank = true},
};

static const cache_problem COPY = {.op_name = "copy_",
                                   .op_text =
                                       "copy_(D: U[...], X: T[...]) -> (D) { D[...] = cast<U>(X[...]) }",
                                   .ptx = "8.6",
                                   .n_tensors = 3,
                                   .tensors = COPY_TENSORS};

static const char COPY_RECIPE[] =
    "{\"tensors\":[{\"alignment\":4,\"contiguous_last\":true},{\"alignment\":2,\"contiguous_last\":true},"
    "{\"alignment\":8,\"contiguous_last\":true}],"
    "\"requirements\":[{\"expr\":\"D.span\",\"max\":1000,\"why\":\"small\"}],\"launches\":[{\"kernel\":"
    "\"copy\","
    "\"params\":[{\"kind\":\"pointer\",\"tensor\":1},{\"kind\":\"pointer\",\"tensor\":2},"
    "{\"kind\":\"i64\",\"value\":\"LEAD\"}],\"grid\":[\"1\",\"1\",\"1\"],\"block\":[128,1,1],"
    "\"cluster\":[1,1,1],\"smem_bytes\":\"0\"}]}";

START_TEST(a_tensor_written_in_place_is_passed_once) {
  const fixture_entry entry = {
      .bindings = "U=f32 T=bf16 ...=64", .recipe = COPY_RECIPE, .ptx = "kernel copy 8 8 8\n"};
  fixture_write("tuned.arke", &COPY, &entry, 1);
  arke_context *ctx = fixture_open(&(arke_options){0});
  arke_error err = ARKE_ERROR_INIT;
  fixture_tensor d, x;
  const DLTensor *list[] = {&d.t, &x.t, &d.t};
  arke_plan *p;
  fixture_tensor_init(&d, 0x1000, 1, (int64_t[]){64});
  fixture_tensor_init(&x, 0x9000, 1, (int64_t[]){64});
  d.t.dtype = (DLDataType){kDLFloat, 32, 1};
  ck_assert_int_eq(arke_plan_create(ctx, "copy_", list, 3, NULL, 0, &p, &err), ARKE_ERR_ARGUMENT);
  ck_assert_str_eq(
      err.text, "copy_ takes 2 tensors (inputs, then outputs that are not written in place); 3 were given");
  error_clear(&err);
  ck_assert_msg(arke_plan_create(ctx, "copy_", list, 2, NULL, 0, &p, &err) == ARKE_OK, "%s", err.text);
  ck_assert_msg(arke_run(p, list, 2, NULL, NULL, &err) == ARKE_OK, "%s", err.text);
  ck_assert_int_eq(passed(0), 0x9000);
  ck_assert_int_eq(passed(1), 0x1000);
  d.t.data = (void *)0x1004; /* the stricter of the two rules for D */
  ck_assert_int_eq(arke_run(p, list, 2, NULL, NULL, &err), ARKE_ERR_ARGUMENT);
  ck_assert_says(err, "tensor D is at address 0x1004; expected is a multiple of 8 bytes");
  arke_plan_destroy(p);
  error_clear(&err);
  d.t.data = (void *)0x1000;
  d.strides[0] = 0;
  ck_assert_int_eq(arke_plan_create(ctx, "copy_", list, 2, NULL, 0, &p, &err), ARKE_ERR_SHAPE);
  ck_assert_says(err, "elements of the output D overlap");
  arke_close(ctx);
}
END_TEST

/* --- variants ------------------------------------------------------------------------------------------ */

static void write_variant(const cache_problem *p, const char *ptx, const char *config, double time_ns) {
  cache_problem variant = *p;
  const fixture_entry entry = {.bindings = "U=f32 T=bf16 ...=64",
                               .recipe = COPY_RECIPE,
                               .ptx = "kernel copy 8 8 8\n",
                               .config = config,
                               .time_ns = time_ns};
  variant.ptx = ptx;
  fixture_write("tuned.arke", &variant, &entry, 1);
}

/* What serves with and without the options; sizes other than the tuned ones go another way. */
static const struct {
  bool gathers, fast_math, check_indices;
  int64_t size;
  const char *served; /* NULL: nothing */
} SERVED[] = {
    {false, false, false, 64, "plain"}, {false, true, false, 64, "fast"},   {false, false, true, 64, "plain"},
    {false, false, false, 60, "plain"}, {false, true, false, 60, "fast"},   {true, false, false, 64, "plain"},
    {true, false, true, 64, "checked"}, {true, false, true, 60, "checked"}, {true, true, true, 64, "checked"},
};

START_TEST(variants_serve_who_asks_for_them) {
  cache_problem p = COPY;
  if (SERVED[_i].gathers) p.op_text = "copy_(D: U[...], X: T[...]) -> (D) { D[...] = cast<U>(X[X[...]]) }";
  write_variant(&p, "8.6", "plain", 300);
  write_variant(&p, "8.6+fast", "fast", 100);
  if (SERVED[_i].gathers) write_variant(&p, "8.6+checked", "checked", 400);
  arke_context *ctx = fixture_open(
      &(arke_options){.fast_math = SERVED[_i].fast_math, .check_indices = SERVED[_i].check_indices});
  arke_error err = ARKE_ERROR_INIT;
  fixture_tensor d, x;
  const DLTensor *list[] = {&d.t, &x.t};
  arke_plan *planned;
  fixture_tensor_init(&d, 0x1000, 1, (int64_t[]){SERVED[_i].size});
  fixture_tensor_init(&x, 0x9000, 1, (int64_t[]){SERVED[_i].size});
  d.t.dtype = (DLDataType){kDLFloat, 32, 1};
  ck_assert_msg(arke_plan_create(ctx, "copy_", list, 2, NULL, 0, &planned, &err) == ARKE_OK, "%s", err.text);
  ck_assert_str_eq(arke_plan_describe(planned).config, SERVED[_i].served);
  arke_plan_destroy(planned);
  arke_close(ctx);
}
END_TEST

START_TEST(a_variant_that_is_not_served_is_named) {
  write_variant(&COPY, "8.6+fast", "fast", 100);
  arke_context *ctx = fixture_open(&(arke_options){0});
  arke_error err = ARKE_ERROR_INIT;
  fixture_tensor d, x;
  const DLTensor *list[] = {&d.t, &x.t};
  arke_plan *planned;
  fixture_tensor_init(&d, 0x1000, 1, (int64_t[]){64});
  fixture_tensor_init(&x, 0x9000, 1, (int64_t[]){64});
  d.t.dtype = (DLDataType){kDLFloat, 32, 1};
  ck_assert_int_eq(arke_plan_create(ctx, "copy_", list, 2, NULL, 0, &planned, &err), ARKE_ERR_NOT_TUNED);
  ck_assert_says(
      err, "ptx 8.6+fast in tuned.arke, which was tuned with --math fast (fast_math serves it); tune it "
           "with: arke-tune --op copy_ --shape ...=64 --dtype U=f32,T=bf16 --target sm_90a");
  arke_close(ctx);
}
END_TEST

/* --- dtypes -------------------------------------------------------------------------------------------- */

static const struct {
  const char *name;
  uint8_t code, bits;
} TYPES[] = {{"f64", kDLFloat, 64}, {"f32", kDLFloat, 32}, {"f16", kDLFloat, 16}, {"bf16", kDLBfloat, 16},
             {"e4m3", 10, 8},       {"e5m2", 12, 8},       {"e2m1", 17, 4},       {"i64", kDLInt, 64},
             {"i32", kDLInt, 32},   {"i16", kDLInt, 16},   {"i8", kDLInt, 8},     {"u8", kDLUInt, 8},
             {"i4", kDLInt, 4},     {"bool", 6, 8}};

START_TEST(every_dtype_is_read_from_dlpack) {
  char bindings[64];
  snprintf(bindings, sizeof bindings, "U=f32 T=%s ...=64", TYPES[_i].name);
  const fixture_entry entry = {.bindings = bindings, .recipe = COPY_RECIPE, .ptx = "kernel copy 8 8 8\n"};
  fixture_write("tuned.arke", &COPY, &entry, 1);
  arke_context *ctx = fixture_open(&(arke_options){0});
  arke_error err = ARKE_ERROR_INIT;
  fixture_tensor d, x;
  const DLTensor *list[] = {&d.t, &x.t};
  arke_plan *p;
  fixture_tensor_init(&d, 0x1000, 1, (int64_t[]){64});
  fixture_tensor_init(&x, 0x9000, 1, (int64_t[]){64});
  d.t.dtype = (DLDataType){kDLFloat, 32, 1};
  x.t.dtype = (DLDataType){TYPES[_i].code, TYPES[_i].bits, 1};
  ck_assert_msg(arke_plan_create(ctx, "copy_", list, 2, NULL, 0, &p, &err) == ARKE_OK, "%s", err.text);
  ck_assert_int_eq(arke_plan_describe(p).match, ARKE_MATCH_EXACT);
  ck_assert_msg(arke_run(p, list, 2, NULL, NULL, &err) == ARKE_OK, "%s", err.text);
  arke_plan_destroy(p);
  arke_close(ctx);
}
END_TEST

TCase *plan_view_tests(void) {
  TCase *t = tcase_create("views");
  tcase_set_timeout(t, 60);
  tcase_add_checked_fixture(t, fixture_enter, fixture_leave);
  tcase_add_loop_test(t, views_are_served_by_the_kernel_that_takes_them, 0, COUNT_OF(VIEWS));
  tcase_add_test(t, more_leading_axes_than_a_kernel_knows_are_refused);
  tcase_add_test(t, leading_axes_are_the_same_in_all_tensors);
  tcase_add_test(t, any_number_of_elements_is_planned);
  tcase_add_test(t, a_reduction_over_nothing_runs);
  tcase_add_test(t, a_tensor_written_in_place_is_passed_once);
  tcase_add_loop_test(t, variants_serve_who_asks_for_them, 0, COUNT_OF(SERVED));
  tcase_add_test(t, a_variant_that_is_not_served_is_named);
  tcase_add_loop_test(t, every_dtype_is_read_from_dlpack, 0, COUNT_OF(TYPES));
  return t;
}
