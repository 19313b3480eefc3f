/* How a call's tensors and attributes are bound to a signature: types, axes and defaults, and what is said of
 * a call that does not fit. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/runtime/runtime_fixture.h"

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
  fixture_write("tuned.arke", &FIXTURE_MATMUL, &(fixture_entry){0}, 1);
  arke_context *ctx = fixture_open(&(arke_options){0});
  fixture_call c;
  fixture_call_init(&c, 4096, 4096, 4096);
  arke_plan *p;
  arke_attr nameless = {NULL, 0}, twice[] = {{"a", 1}, {"b", 1}, {"a", 2}};
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
      {ARKE_ERR_ARGUMENT, "attribute \"a\" is given twice", ctx, "matmul", c.list, 3, twice, 3},
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

TCase *plan_binding_tests(void) {
  TCase *t = tcase_create("binding");
  tcase_set_timeout(t, 60);
  tcase_add_checked_fixture(t, fixture_enter, fixture_leave);
  tcase_add_test(t, attributes_are_part_of_the_key);
  tcase_add_test(t, a_dimension_may_be_more_than_a_size);
  tcase_add_test(t, attribute_defaults_are_read_from_the_notation);
  tcase_add_loop_test(t, a_changed_operator_replaces_the_earlier_one, 0, 2);
  tcase_add_loop_test(t, defaults_may_be_formulas, 0, COUNT_OF(FORMULAS));
  tcase_add_test(t, leading_axes_count_as_one);
  tcase_add_loop_test(t, a_call_that_does_not_fit_is_explained, 0, COUNT_OF(MISUSES));
  tcase_add_test(t, missing_arguments_are_named);
  return t;
}
