/* Expressions of the notation, lowered into the body of a map, run on the emulator and compared with the fp64
 * reference. */
#include <math.h>
#include <string.h>

#include "generator/gen_control.h"
#include "generator/gen_expression.h"
#include "generator/gen_memory.h"
#include "generator_suites.h"
#include "run_kernel.h"
#include "tests/support/thinned.h"

enum { N = 192, THREADS = 64 };

/* X, Y: f32, special values among them; I, J: i32; Z: what the case computes. */
static const char signature[] =
    "m(X: f32[N], Y: f32[N], I: i32[N], J: i32[N]) -> (Z: %s[N]) a: float = 1.5, q: bool = true { "
    "Z[i] = %s }";

/* Expression, dtype of the result, tolerance in units of 2^-24 of the value (0: exact), or absolute beside
 * it. */
static const struct {
  const char *text, *type;
  double units, absolute;
} cases[] = {
    {"X[i] + Y[i] * 2.5 - 1", "f32", 2, 1e-6},
    {"X[i] / Y[i]", "f32", 1, 0},
    {"-X[i]", "f32", 0, 0},
    {"a * X[i]", "f32", 1, 0},
    {"I[i] + 2 * J[i] - 7", "i32", 0, 0},
    {"I[i] / 7", "i32", 0, 0},
    {"I[i] % 7", "i32", 0, 0},
    {"I[i] / -5 + I[i] % -5", "i32", 0, 0},
    {"I[i] * X[i]", "f32", 1, 0},
    {"i * N + i / 3 - i % 3", "i32", 0, 0},
    {"X[i] < Y[i]", "i32", 0, 0},
    {"X[i] <= 0.5 || Y[i] > 1 && !(I[i] == J[i])", "i32", 0, 0},
    {"X[i] >= Y[i] ? X[i] : 2 * Y[i]", "f32", 0, 0},
    {"I[i] != J[i] ? I[i] : X[i]", "f32", 0, 0},
    {"q ? X[i] : Y[i]", "f32", 0, 0},
    {"abs(X[i]) + abs(I[i])", "f32", 1, 0},
    {"abs(I[i])", "i32", 0, 0},
    {"sqrt(abs(X[i]))", "f32", 1, 0},
    {"rsqrt(abs(X[i]) + 0.001)", "f32", 4, 0},
    {"recip(X[i] + 20.5)", "f32", 2, 0},
    {"min(X[i], Y[i])", "f32", 0, 0},
    {"max(X[i], 0.25)", "f32", 0, 0},
    {"max(I[i], J[i]) - min(I[i], 3)", "i32", 0, 0},
    {"relu(X[i])", "f32", 0, 0},
    {"relu(I[i])", "i32", 0, 0},
    {"where(X[i] > 0, Y[i], 3)", "f32", 0, 0},
    {"floor(X[i]) + ceil(Y[i])", "f32", 0, 0},
    {"round(X[i] * 2) + trunc(Y[i])", "f32", 0, 0},
    {"floor(I[i])", "i32", 0, 0},
    {"sign(X[i]) + sign(I[i])", "f32", 0, 0},
    {"tf32(X[i])", "f32", 0, 0},
    {"tf32(cast<f64>(X[i]) * 1.37)", "f64", 0, 0},
    {"tf32(cast<f64>(Y[i]) * pow(2, -133.0))", "f64", 0, 0},
    {"fma(X[i], Y[i], 0.125)", "f32", 1, 0},
    {"exp2(X[i])", "f32", 6, 0},
    {"exp(X[i])", "f32", 8, 1e-44},
    {"exp(16 * X[i])", "f32", 8, 1e-44},
    {"log2(abs(X[i]) + 0.01)", "f32", 4, 0x1p-21},
    {"log(abs(Y[i]) + 3)", "f32", 6, 0x1p-21},
    {"sigmoid(X[i])", "f32", 16, 1e-44},
    {"silu(Y[i])", "f32", 16, 1e-37},
    {"cast<bf16>(X[i]) + 1", "f32", 0, 1e-2},
    {"cast<f16>(X[i]) * 0.5", "f32", 0, 0},
    {"cast<i32>(X[i] * 1000)", "i32", 0, 0},
    {"cast<i8>(X[i] * 64)", "i8", 0, 0},
    {"cast<u8>(X[i] * 64) + 1", "i32", 0, 0},
    {"cast<bool>(I[i])", "i32", 0, 0},
    {"cast<e4m3>(X[i] * 64) + cast<e5m2>(Y[i])", "f32", 0, 0},
    {"cast<e2m1>(X[i]) * cast<i4>(I[i])", "f32", 0, 0},
    {"X[i] % Y[i]", "f32", 0, 0},
    {"X[i] * 64 % -0.75", "f32", 0, 0},
    {"cast<f64>(X[i]) % 0.1", "f64", 0, 1e-15},
    {"cast<f64>(X[i]) * 0.1", "f64", 0, 0},
    {"exp(cast<f64>(X[i]) + 0.1)", "f64", 1e-8, 0},
    {"2.5", "f32", 0, 0},
    {"max(0.1, 0.2) * I[i]", "f32", 1, 0},
    {"tanh(X[i]) + erf(Y[i])", "f32", 4, 5e-7},
    {"pow(abs(X[i]), Y[i])", "f32", 2, 0},
    {"gelu(X[i]) * gelu_tanh(Y[i])", "f32", 16, 1e-12},
    {"softplus(X[i]) - log1p(abs(Y[i]))", "f32", 8, 1e-6},
    {"sin(X[i] * 1000) * cos(Y[i])", "f32", 8, 1e-3},
    {"X[i] * 3", "e4m3", 0, 0},
    {"X[i] * 3", "e5m2", 0, 0},
    {"X[i] * 0.125", "bf16", 0, 0},
    {"X[i] * 4096", "f16", 0, 0},
    {"I[i] * 100", "i8", 0, 0},
    {"cast<i64>(I[i]) * 1000000", "i64", 0, 0},
};

typedef struct expression_case {
  ir_problem p;
  dtype result;
  gen_value thread; /* element this thread computes */
} expression_case;

static gen_value index_value(void *user, gen_builder *b, int slot) {
  (void)b;
  ck_assert_int_eq(slot, 0);
  return ((expression_case *)user)->thread;
}

static gen_value size_value(void *user, gen_builder *b, int axis) {
  (void)user;
  ck_assert_int_eq(axis, 0);
  return gen_param(b, 5);
}

static gen_value attr_value(void *user, gen_builder *b, int id) {
  const expression_case *c = user;
  double value = c->p.attrs[id];
  return c->p.op->attrs[id].kind == IR_ATTR_BOOL ? gen_bool(b, value != 0) : gen_f32(b, value);
}

static gen_value element_address(gen_builder *b, const expression_case *c, int tensor, int bits) {
  gen_value offset = gen_mul_imm(b, gen_zext(b, c->thread, GEN_I64), bits / 8);
  return gen_add(b, gen_param(b, tensor), offset);
}

static arke_status node_value(void *user, gen_builder *b, const ir_expr *e, gen_value *value,
                              arke_error *err) {
  if (e->node != IR_READ) return error_set(err, ARKE_ERR_UNSUPPORTED, "test", "no reductions in a map");
  bool floats = e->id < 2;
  *value = gen_load_global(b, floats ? GEN_F32 : GEN_I32, 1, element_address(b, user, e->id, 32), true);
  return ARKE_OK;
}

static void build_map(gen_builder *b, void *user) {
  expression_case *c = user;
  arke_error err = ARKE_ERROR_INIT;
  gen_value block = gen_mul_imm(b, gen_ctaid_x(b), THREADS), value;
  c->thread = gen_add(b, block, gen_tid_x(b));
  gen_expression_env env = {&c->p,      c,          index_value,       size_value,
                            attr_value, node_value, GEN_ACCURACY_FULL, NULL};
  ck_assert_msg(gen_expression(b, &env, c->p.op->definitions[0].value, &value, &err) == ARKE_OK, "%s",
                err.text);
  ck_assert_msg(gen_convert(b, value, c->result, &value, &err) == ARKE_OK, "%s", err.text);
  gen_store_global(b, value, element_address(b, c, 4, dtype_bits(c->result)));
}

static const float special[] = {0.0f, -0.0f, 1.0f,  -1.0f,  0.5f, -0.5f, 1.5f,    -1.5f,
                                2.5f, -2.5f, 1e-3f, -1e-3f, 8.0f, -8.0f, 3.14159f};

/* Every pair of special values, integers of both signs (J never 0), and NaN and infinities at the end. */
static void fill(float *x, float *y, int32_t *i, int32_t *j) {
  int n = (int)COUNT_OF(special);
  for (int k = 0; k < N; k++) {
    x[k] = special[k % n] + (k >= 2 * n ? 0.001f * (float)k : 0);
    y[k] = special[k / n % n] + 0.125f;
    i[k] = (k - N / 2) * 3;
    j[k] = k % 5 ? i[k] : 2 - k;
  }
  x[N - 1] = NAN;
  x[N - 2] = INFINITY;
  x[N - 3] = -INFINITY;
  y[N - 4] = NAN;
}

static bool close_enough(double got, double want, double units, double absolute) {
  if (isnan(want)) return isnan(got);
  if (got == want) return true;
  return fabs(got - want) <= fabs(want) * units * 0x1p-24 + absolute;
}

START_TEST(expressions_equal_the_reference) {
  RUN_EACH_WITH_SANITIZERS(3, _i);
  arena a = ARENA_INIT;
  arke_error err = ARKE_ERROR_INIT;
  const ir_op *op;
  expression_case c = {0};
  char *text = arena_printf(&a, signature, cases[_i].type, cases[_i].text);
  ck_assert_msg(ir_op_parse(&a, text, &op, &err) == ARKE_OK, "%s", err.text);
  ck_assert_msg(ir_problem_bind(op, "N=192", &c.p, &err) == ARKE_OK, "%s", err.text);
  c.result = ir_tensor_dtype(&c.p, 4);
  gen_output k = make_kernel(build_map, &c, 5, THREADS, &a);

  float x[N], y[N];
  int32_t i[N], j[N];
  uint8_t z[N * 8];
  fill(x, y, i, j);
  kernel_buffer buffers[] = {{x, sizeof x, false, false},
                             {y, sizeof y, false, false},
                             {i, sizeof i, false, false},
                             {j, sizeof j, false, false},
                             {z, (size_t)dtype_bytes(c.result, N), true, false}};
  run_kernel(&k, buffers, 5, N, N / THREADS, THREADS);

  ir_data data[] = {{x, {1}}, {y, {1}}, {i, {1}}, {j, {1}}, {z, {1}}};
  for (int64_t e = 0; e < N; e++) {
    double want;
    ck_assert_msg(ir_eval(&c.p, data, 4, &e, &want, NULL, &err) == ARKE_OK, "%s", err.text);
    want = dtype_round(c.result, want);
    double got = dtype_load(c.result, z, e);
    ck_assert_msg(close_enough(got, want, cases[_i].units, cases[_i].absolute),
                  "%s at %lld (X %g, Y %g, I %d, J %d): %.9g instead of %.9g", cases[_i].text, (long long)e,
                  x[e], y[e], i[e], j[e], got, want);
  }
  arena_release(&a);
}
END_TEST

/* What is not lowered says so by name. */
static const struct {
  const char *text, *words;
} unsupported[] = {
    {"sum(k) X[k]", "no reductions"},
};

static void build_unsupported(gen_builder *b, void *user) {
  expression_case *c = user;
  c->thread = gen_tid_x(b);
  gen_expression_env env = {&c->p,      c,          index_value,       size_value,
                            attr_value, node_value, GEN_ACCURACY_FULL, NULL};
  arke_error err = ARKE_ERROR_INIT;
  gen_value value;
  const char *words = unsupported[c->result].words;
  ck_assert_int_eq(gen_expression(b, &env, c->p.op->definitions[0].value, &value, &err),
                   ARKE_ERR_UNSUPPORTED);
  ck_assert_msg(strstr(err.text, words), "%s", err.text);
}

START_TEST(what_has_no_lowering_says_so) {
  arena a = ARENA_INIT;
  arke_error err = ARKE_ERROR_INIT;
  const ir_op *op;
  expression_case c = {.result = (dtype)_i};
  char *text = arena_printf(&a, signature, "f32", unsupported[_i].text);
  ck_assert_msg(ir_op_parse(&a, text, &op, &err) == ARKE_OK, "%s", err.text);
  ck_assert_msg(ir_problem_bind(op, "N=192", &c.p, &err) == ARKE_OK, "%s", err.text);
  make_kernel(build_unsupported, &c, 5, THREADS, &a);
  arena_release(&a);
}
END_TEST

/* --- shared nodes, and how exact functions are --- */

typedef struct shared_case {
  expression_case base;
  gen_accuracy accuracy;
  arena *a; /* of the memo; NULL: none */
  int reads;
} shared_case;

static arke_status counted_node(void *user, gen_builder *b, const ir_expr *e, gen_value *value,
                                arke_error *err) {
  shared_case *c = user;
  c->reads++;
  return node_value(&c->base, b, e, value, err);
}

static void build_shared(gen_builder *b, void *user) {
  shared_case *c = user;
  c->base.thread = gen_tid_x(b);
  gen_expression_env env = {.problem = &c->base.p,
                            .user = c,
                            .index = index_value,
                            .size = size_value,
                            .attr = attr_value,
                            .node = counted_node,
                            .accuracy = c->accuracy,
                            .memo = c->a ? gen_memo_create(c->a) : NULL};
  gen_value v;
  arke_error err = ARKE_ERROR_INIT;
  ir_expr sum = {.node = IR_OPERATOR, .id = IR_OP_MUL, .n_args = 2, .args = (ir_expr *[2]){NULL}};
  ir_expr *twice = c->base.p.op->definitions[0].value; /* the tree becomes a graph: e * e */
  sum.args[0] = sum.args[1] = twice;
  ck_assert_msg(gen_expression(b, &env, &sum, &v, &err) == ARKE_OK, "%s", err.text);
  gen_store_global(b, v, element_address(b, &c->base, 4, 32));
}

static gen_output make_shared(shared_case *c, const char *expression, arena *a) {
  arke_error err = ARKE_ERROR_INIT;
  const ir_op *op;
  char *text = arena_printf(a, signature, "f32", expression);
  ck_assert_msg(ir_op_parse(a, text, &op, &err) == ARKE_OK, "%s", err.text);
  ck_assert_msg(ir_problem_bind(op, "N=192", &c->base.p, &err) == ARKE_OK, "%s", err.text);
  return make_kernel(build_shared, c, 5, THREADS, a);
}

START_TEST(a_memo_lowers_a_shared_node_once) {
  arena a = ARENA_INIT;
  shared_case plain = {.a = NULL}, with_memo = {.a = &a};
  const char *text = "exp(X[i]) + X[i] * Y[i]";
  make_shared(&plain, text, &a);
  make_shared(&with_memo, text, &a);
  ck_assert_int_eq(plain.reads, 6);
  ck_assert_int_eq(with_memo.reads, 3);
  arena_release(&a);
}
END_TEST

/* A narrow result may take the hardware's exponential where its error stays what it is, not under a sum or in
 * an angle. */
static const struct {
  const char *text;
  gen_accuracy accuracy;
  bool approximate;
} accuracies[] = {
    {"exp(X[i])", GEN_ACCURACY_FULL, false},
    {"exp(X[i]) * Y[i]", GEN_ACCURACY_NARROW, true},
    {"max(exp(X[i]), 0.5) / Y[i]", GEN_ACCURACY_NARROW, true},
    {"exp(X[i]) - Y[i]", GEN_ACCURACY_NARROW, false},
    {"sin(exp(X[i]))", GEN_ACCURACY_NARROW, false},
    {"exp(X[i]) - Y[i]", GEN_ACCURACY_FAST, true},
    {"sin(exp(X[i]))", GEN_ACCURACY_FAST, false},
};

START_TEST(functions_are_as_exact_as_their_use) {
  arena a = ARENA_INIT;
  shared_case c = {.accuracy = accuracies[_i].accuracy, .a = &a};
  gen_output k = make_shared(&c, accuracies[_i].text, &a);
  ck_assert_msg((strstr(k.ptx, "ex2.approx") != NULL) == accuracies[_i].approximate, "%s", k.ptx);
  arena_release(&a);
}
END_TEST

/* What is divided by a constant may be multiplied by its reciprocal, also in a function that keeps relative
 * errors. */
START_TEST(narrow_quotients_by_constants_are_products) {
  static const struct {
    const char *text;
    gen_accuracy accuracy;
    bool divides;
  } quotients[] = {{"tanh(X[i] / 3.0) * Y[i]", GEN_ACCURACY_NARROW, false},
                   {"tanh(X[i] / 3.0) * Y[i]", GEN_ACCURACY_SCORE, false},
                   {"tanh(X[i] / Y[i])", GEN_ACCURACY_SCORE, true},
                   {"tanh(X[i] / 3.0) * Y[i]", GEN_ACCURACY_FULL, true},
                   {"sin(X[i] / 3.0) * Y[i]", GEN_ACCURACY_NARROW, true}};
  arena a = ARENA_INIT;
  shared_case c = {.accuracy = quotients[_i].accuracy, .a = &a};
  gen_output k = make_shared(&c, quotients[_i].text, &a);
  ck_assert_msg((strstr(k.ptx, "div.rn.f32") != NULL) == quotients[_i].divides, "%s", k.ptx);
  arena_release(&a);
}
END_TEST

TCase *expression_tests(void) {
  TCase *tests = tcase_create("expressions");
  tcase_set_timeout(tests, 60);
  tcase_add_loop_test(tests, expressions_equal_the_reference, 0, (int)COUNT_OF(cases));
  tcase_add_loop_test(tests, what_has_no_lowering_says_so, 0, (int)COUNT_OF(unsupported));
  tcase_add_test(tests, a_memo_lowers_a_shared_node_once);
  tcase_add_loop_test(tests, functions_are_as_exact_as_their_use, 0, (int)COUNT_OF(accuracies));
  tcase_add_loop_test(tests, narrow_quotients_by_constants_are_products, 0, 5);
  return tests;
}
