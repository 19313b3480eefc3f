/* The evaluator against loops written out by hand, on random data of several dtypes and layouts. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/random.h"
#include "ir/ir.h"
#include "tests/ir/ir_suites.h"
#include "tests/ir/reference_call.h"

/* With an evaluator. */
typedef struct call {
  reference_call c;
  ir_evaluator *ev;
} call;

static void setup(call *k, const char *text, const char *bindings, double scale) {
  reference_call_open(&k->c, text, bindings, scale);
  k->ev = reference_call_evaluator(&k->c);
}

static void teardown(call *k) {
  ir_evaluator_destroy(k->ev);
  reference_call_close(&k->c);
}

/* Element of a matrix argument (or of a vector, with i = 0). */
static double at(const call *k, int t, int64_t i, int64_t j) {
  return dtype_load(ir_tensor_dtype(&k->c.p, t), k->c.memory[t], i * k->c.data[t].strides[0] + j);
}

static double at_vector(const call *k, int t, int64_t i) {
  return dtype_load(ir_tensor_dtype(&k->c.p, t), k->c.memory[t], i);
}

static double evaluate(call *k, int output, int64_t i, int64_t j, double *magnitude) {
  double value;
  arke_error err = ARKE_ERROR_INIT;
  arke_status status = ir_evaluator_eval(k->ev, output, (int64_t[]){i, j}, &value, magnitude, &err);
  ck_assert_msg(status == ARKE_OK, "%s", err.text);
  return value;
}

static void check_close(double got, double expected, double scale, const char *what) {
  ck_assert_msg(fabs(got - expected) <= 1e-12 * scale, "%s: %.17g, expected %.17g", what, got, expected);
}

/* --- products ------------------------------------------------------------------------------------------- */

static const char MATMUL[] =
    "matmul(A: T[M,K], B: T[K,N]) -> (Y: T[M,N]) { Y[m,n] = sum(k) A[m,k] * B[k,n] }";
static const char LINEAR[] =
    "linear(X: T[M,K], W: T[N,K]) -> (Y: T[M,N]) { Y[m,n] = sum(k) X[m,k] * W[n,k] }";
static const struct {
  const char *type;
  double scale;
} TYPES[] = {{"f64", 1}, {"f32", 1},  {"f16", 1}, {"bf16", 1}, {"e4m3", 1},  {"e5m2", 1},   {"e2m1", 2},
             {"i8", 50}, {"u8", 100}, {"i4", 4},  {"i16", 90}, {"i32", 900}, {"i64", 1000}, {"bool", 0.3}};

START_TEST(products) {
  static const int64_t LENGTHS[] = {1, 7, 255, 256, 257, 700};
  const char *type = TYPES[_i].type;
  for (size_t l = 0; l < COUNT_OF(LENGTHS); l++) {
    for (int transposed = 0; transposed < 2; transposed++) {
      call k;
      char bindings[128];
      snprintf(bindings, sizeof bindings, "T=%s M=5 N=6 K=%lld", type, (long long)LENGTHS[l]);
      setup(&k, transposed ? LINEAR : MATMUL, bindings, TYPES[_i].scale);
      bool integers = dtype_class_of(k.c.p.types[0]) != DTYPE_CLASS_FLOAT;
      for (int64_t m = 0; m < 5; m++)
        for (int64_t n = 0; n < 6; n++) {
          double sum = 0, absolute = 0, magnitude;
          for (int64_t i = 0; i < LENGTHS[l]; i++) {
            double term = at(&k, 0, m, i) * (transposed ? at(&k, 1, n, i) : at(&k, 1, i, n));
            sum += term;
            absolute += fabs(term);
          }
          double value = evaluate(&k, 2, m, n, &magnitude);
          check_close(value, sum, absolute, type);
          if (!integers) check_close(magnitude, absolute, absolute, "magnitude");
          if (integers) ck_assert_double_eq(value, sum);
        }
      teardown(&k);
    }
  }
}
END_TEST

/* Padded rows, transposed, reversed and broadcast operands: only the strides differ. */
START_TEST(strides) {
  call k;
  setup(&k, MATMUL, "T=bf16 M=4 N=8 K=300", 1);
  enum { M = 4, N = 8, K = 300, PAD = 5 };
  uint16_t *a = calloc((size_t)K * (M + PAD), sizeof *a), *b = calloc((size_t)K * (N + PAD), sizeof *b);
  ck_assert(a != NULL && b != NULL);
  for (int64_t m = 0; m < M; m++)
    for (int64_t i = 0; i < K; i++) dtype_store(DTYPE_BF16, a, i * (M + PAD) + m, at(&k, 0, m, i));
  for (int64_t i = 0; i < K; i++)
    for (int64_t n = 0; n < N; n++) dtype_store(DTYPE_BF16, b, (K - 1 - i) * (N + PAD) + n, at(&k, 1, i, n));
  ir_data data[3] = {{a, {1, M + PAD}}, {b + (K - 1) * (N + PAD), {-(N + PAD), 1}}, {NULL, {0}}};
  ir_data rows[3] = {{k.c.memory[0], {0, 1}}, k.c.data[1], {NULL, {0}}};
  for (int64_t m = 0; m < M; m++)
    for (int64_t n = 0; n < N; n++) {
      double value, first = evaluate(&k, 2, 0, n, NULL);
      ck_assert_int_eq(ir_eval(&k.c.p, data, 2, (int64_t[]){m, n}, &value, NULL, NULL), ARKE_OK);
      ck_assert_double_eq(value, evaluate(&k, 2, m, n, NULL));
      ck_assert_int_eq(ir_eval(&k.c.p, rows, 2, (int64_t[]){m, n}, &value, NULL, NULL), ARKE_OK);
      ck_assert_double_eq(value, first);
    }
  free(a);
  free(b);
  teardown(&k);
}
END_TEST

/* Values that repeat, of which one period is in memory: read as a line, across periods, backwards, gathered,
 * and as what an output written in place starts from. */
START_TEST(periods) {
  enum { N = 1000, PERIOD = 37 };
  static const char TEXT[] =
      "f(X: f32[N], D: i32[N], at: i64[N]) -> (Y: f32[N], D) { Y[i] = X[at[i]] + 2 * X[N - 1 - i] + "
      "(sum(k) X[k] * k) + (sum(k: k % 3 == 0) X[N - 1 - k]); D[at[i]] += 1 }";
  arena a = ARENA_INIT;
  const ir_op *op;
  ir_problem p;
  ck_assert_int_eq(ir_op_parse(&a, TEXT, &op, NULL), ARKE_OK);
  ck_assert_int_eq(ir_problem_bind(op, "N=1000", &p, NULL), ARKE_OK);
  static float x[N];
  static int32_t d[N];
  static int64_t at[N];
  for (int i = 0; i < N; i++) {
    x[i] = (float)(i % PERIOD * 7 % 11);
    d[i] = i % PERIOD;
    at[i] = i * 31 % N;
  }
  ir_data data[LIMIT_TENSORS] = {{x, {1}}, {d, {1}}, {at, {1}}};
  ir_evaluator *whole, *repeated;
  ck_assert_int_eq(ir_evaluator_create(&p, data, &whole, NULL), ARKE_OK);
  static double expected[2][N];
  for (int64_t i = 0; i < N; i++)
    for (int out = 0; out < 2; out++)
      ck_assert_int_eq(ir_evaluator_eval(whole, 3 + out, &i, &expected[out][i], NULL, NULL), ARKE_OK);
  for (int i = PERIOD; i < N; i++) x[i] = NAN, d[i] = -1; /* not to be read */
  ck_assert_int_eq(ir_evaluator_create(&p, data, &repeated, NULL), ARKE_OK);
  ir_evaluator_repeat(repeated, 0, PERIOD);
  ir_evaluator_repeat(repeated, 1, PERIOD);
  for (int64_t i = 0; i < N; i++)
    for (int out = 0; out < 2; out++) {
      double value;
      ck_assert_int_eq(ir_evaluator_eval(repeated, 3 + out, &i, &value, NULL, NULL), ARKE_OK);
      ck_assert_double_eq(value, expected[out][i]);
    }
  ir_evaluator_destroy(whole);
  ir_evaluator_destroy(repeated);
  arena_release(&a);
}
END_TEST

/* Offsets beyond 2^31 elements and coordinates beyond 2^32, over memory that zero strides keep small. */
START_TEST(huge_shapes) {
  arena a = ARENA_INIT;
  const ir_op *op;
  ir_problem p;
  double value;
  static const float DATA[2] = {3, 4};
  ck_assert_int_eq(ir_op_parse(&a,
                               "f(X: f32[M,N], I: i64[M]) -> (Y: f32[M,N]) { Y[i,j] = X[I[i] + i, j] * 2 }",
                               &op, NULL),
                   ARKE_OK);
  ck_assert_int_eq(ir_problem_bind(op, "M=1099511627776 N=2", &p, NULL), ARKE_OK);
  static const int64_t INDEX = -7;
  ir_data data[3] = {{DATA, {0, 1}}, {&INDEX, {0}}, {NULL, {0}}};
  ck_assert_int_eq(ir_eval(&p, data, 2, (int64_t[]){1099511627775, 1}, &value, NULL, NULL), ARKE_OK);
  ck_assert_double_eq(value, 8);
  ck_assert_int_eq(ir_eval(&p, data, 2, (int64_t[]){6, 1}, &value, NULL, NULL), ARKE_ERR_ARGUMENT);
  arena_release(&a);
}
END_TEST

/* --- rows ----------------------------------------------------------------------------------------------- */

static const char *const ROW_TYPES[] = {"f32", "bf16", "f16", "f64"};

START_TEST(softmax) {
  static const char TEXT[] =
      "softmax(X: T[M,N]) -> (Y: T[M,N]) { m[i] = max(j) X[i,j]  s[i] = sum(j) exp(X[i,j] - m[i])"
      "  Y[i,j] = exp(X[i,j] - m[i]) / s[i] }";
  call k;
  char bindings[64];
  snprintf(bindings, sizeof bindings, "T=%s M=3 N=777", ROW_TYPES[_i]);
  setup(&k, TEXT, bindings, 3);
  for (int64_t i = 0; i < 3; i++) {
    double most = -INFINITY, sum = 0;
    for (int64_t j = 0; j < 777; j++) most = fmax(most, at(&k, 0, i, j));
    for (int64_t j = 0; j < 777; j++) sum += exp(at(&k, 0, i, j) - most);
    for (int64_t j = 0; j < 777; j += 13)
      check_close(evaluate(&k, 1, i, j, NULL), exp(at(&k, 0, i, j) - most) / sum, 1, "softmax");
  }
  teardown(&k);
}
END_TEST

START_TEST(layernorm) {
  static const char TEXT[] = "layernorm(X: T[B,H], W: T[H], b: T[H]) -> (Y: T[B,H]) eps: float = 1e-5 {"
                             "  mu[i] = sum(j) X[i,j] / H"
                             "  va[i] = sum(j) (X[i,j] - mu[i]) * (X[i,j] - mu[i]) / H"
                             "  Y[i,j] = (X[i,j] - mu[i]) * rsqrt(va[i] + eps) * W[j] + b[j] }";
  call k;
  char bindings[64];
  snprintf(bindings, sizeof bindings, "T=%s B=3 H=513", ROW_TYPES[_i]);
  setup(&k, TEXT, bindings, 1);
  for (int64_t i = 0; i < 3; i++) {
    double mean = 0, variance = 0;
    for (int64_t j = 0; j < 513; j++) mean += at(&k, 0, i, j) / 513;
    for (int64_t j = 0; j < 513; j++) variance += pow(at(&k, 0, i, j) - mean, 2) / 513;
    for (int64_t j = 0; j < 513; j += 7) {
      double magnitude, expected = (at(&k, 0, i, j) - mean) / sqrt(variance + 1e-5) * at_vector(&k, 1, j) +
                                   at_vector(&k, 2, j);
      double value = evaluate(&k, 3, i, j, &magnitude);
      check_close(value, expected, 10, "layernorm");
      ck_assert_double_ge(magnitude, fabs(value));
    }
  }
  teardown(&k);
}
END_TEST

START_TEST(argmax_cumsum_gather) {
  static const char TEXT[] =
      "rows(X: T[M,N]) -> (A: i64[M], C: f32[M,N], G: T[M,N]) {"
      "  A[i] = argmax(j) X[i,j]  C[i,j] = sum(t: t <= j) X[i,t]  G[i,j] = X[i, (A[i] + j) % N] }";
  call k;
  char bindings[64];
  snprintf(bindings, sizeof bindings, "T=%s M=4 N=600", ROW_TYPES[_i]);
  setup(&k, TEXT, bindings, 0.2); /* small values repeat in 16 bits: the first of equals must win */
  for (int64_t i = 0; i < 4; i++) {
    int64_t best = 0;
    double sum = 0;
    for (int64_t j = 1; j < 600; j++)
      if (at(&k, 0, i, j) > at(&k, 0, i, best)) best = j;
    ck_assert_double_eq(evaluate(&k, 1, i, 0, NULL), (double)best);
    for (int64_t j = 0; j < 600; j++) {
      sum += at(&k, 0, i, j);
      if (j % 37 != 0) continue;
      check_close(evaluate(&k, 2, i, j, NULL), sum, 100, "cumsum");
      ck_assert_double_eq(evaluate(&k, 3, i, j, NULL), at(&k, 0, i, (best + j) % 600));
    }
  }
  teardown(&k);
}
END_TEST

/* Attention needs the scores of a row three times over; they are found again, not recomputed for each use. */
START_TEST(attention) {
  static const char TEXT[] =
      "attention(Q: T[S,D], K: T[R,D], V: T[R,D]) -> (O: T[S,D]) scale: float = 1/sqrt(D) {"
      "  P[q,k] = scale * sum(d) Q[q,d] * K[k,d]"
      "  A[q,k] = k <= q ? P[q,k] : -inf"
      "  m[q] = max(k) A[q,k]  l[q] = sum(k) exp(A[q,k] - m[q])"
      "  O[q,d] = sum(k) exp(A[q,k] - m[q]) / l[q] * V[k,d] }";
  call k;
  setup(&k, TEXT, "T=f16 S=40 R=40 D=64", 1);
  for (int64_t q = 0; q < 40; q += 13) {
    double p[40], most = -INFINITY, sum = 0;
    for (int64_t r = 0; r <= q; r++) {
      p[r] = 0;
      for (int64_t d = 0; d < 64; d++) p[r] += at(&k, 0, q, d) * at(&k, 1, r, d) / 8;
      most = fmax(most, p[r]);
    }
    for (int64_t r = 0; r <= q; r++) sum += exp(p[r] - most);
    for (int64_t d = 0; d < 64; d += 9) {
      double expected = 0;
      for (int64_t r = 0; r <= q; r++) expected += exp(p[r] - most) / sum * at(&k, 2, r, d);
      check_close(evaluate(&k, 3, q, d, NULL), expected, 1, "attention");
    }
  }
  teardown(&k);
}
END_TEST

/* --- functions ------------------------------------------------------------------------------------------ */

static const struct {
  const char *expression;
  double x, y, z, value;
} FUNCTIONS[] = {
    {"abs(x)", -2.5, 0, 0, 2.5},
    {"neg(x)", 2.5, 0, 0, -2.5},
    {"exp(x)", 1, 0, 0, 2.718281828459045},
    {"exp2(x)", 0.5, 0, 0, 1.4142135623730951},
    {"log(x)", 10, 0, 0, 2.302585092994046},
    {"log2(x)", 10, 0, 0, 3.321928094887362},
    {"log1p(x)", 1e-10, 0, 0, 9.9999999995e-11},
    {"sqrt(x)", 2, 0, 0, 1.4142135623730951},
    {"sqrt(x)", -1, 0, 0, NAN},
    {"rsqrt(x)", 4, 0, 0, 0.5},
    {"recip(x)", 4, 0, 0, 0.25},
    {"recip(x)", 0, 0, 0, INFINITY},
    {"sin(x)", 1, 0, 0, 0.8414709848078965},
    {"cos(x)", 1, 0, 0, 0.5403023058681398},
    {"tanh(x)", 1, 0, 0, 0.7615941559557649},
    {"sigmoid(x)", 1, 0, 0, 0.7310585786300049},
    {"sigmoid(x)", -1000, 0, 0, 0},
    {"erf(x)", 0.5, 0, 0, 0.5204998778130465},
    {"floor(x)", -1.5, 0, 0, -2},
    {"ceil(x)", -1.5, 0, 0, -1},
    {"round(x)", 2.5, 0, 0, 2},
    {"round(x)", 3.5, 0, 0, 4},
    {"trunc(x)", -1.5, 0, 0, -1},
    {"sign(x)", -3, 0, 0, -1},
    {"sign(x)", 0, 0, 0, 0},
    {"tf32(x)", 1.0009765625, 0, 0, 1.0009765625},
    {"tf32(x)", -1.99999, 0, 0, -1.9990234375},
    {"tf32(x)", 0x1.7FFp-130, 0, 0, 0x1.7Cp-130}, /* fewer digits below f32's normal numbers */
    {"tf32(x)", -INFINITY, 0, 0, -INFINITY},
    {"tf32(x)", NAN, 0, 0, NAN},
    {"pow(x, y)", 2, -0.5, 0, 0.7071067811865476},
    {"fma(x, y, z)", 2, 3, 4, 10},
    {"min(x, y)", 2, 3, 0, 2},
    {"min(x, y)", NAN, 3, 0, NAN},
    {"min(x, y)", 3, NAN, 0, NAN},
    {"max(x, y)", 2, 3, 0, 3},
    {"max(x, y)", NAN, 3, 0, NAN},
    {"max(x, y)", 3, NAN, 0, NAN},
    {"where(x, y, z)", 0, 3, 4, 4},
    {"where(x, y, z)", -1, 3, 4, 3},
    {"relu(x)", -1, 0, 0, 0},
    {"relu(x)", NAN, 0, 0, NAN},
    {"silu(x)", 1, 0, 0, 0.7310585786300049},
    {"gelu(x)", 1, 0, 0, 0.8413447460685429},
    {"gelu_tanh(x)", 1, 0, 0, 0.8411919906082768},
    /* 1 + erf(x) has no digit left there. By erfc and tanh to 60 digits. */
    {"abs(gelu(x) / -4.9767684594174273e-15 - 1) < 1e-14", -8, 0, 0, 1},
    {"abs(gelu_tanh(x) / -3.1077829375011112e-21 - 1) < 2e-14", -8, 0, 0, 1},
    {"softplus(x)", 1, 0, 0, 1.3132616875182228},
    {"softplus(x)", 1000, 0, 0, 1000},
    {"softplus(x)", -1000, 0, 0, 0},
    {"x % y", 7.5, 2, 0, 1.5},
    {"x % y", -7.5, 2, 0, 0.5},
    {"x / y", 1, 0, 0, INFINITY},
    {"x < y && y < z", 1, 2, 3, 1},
    {"x < y || y < z", 3, 2, 1, 0},
    {"!(x == y)", NAN, NAN, 0, 1},
    {"x != y ? z : -z", 1, 1, 5, -5},
};

START_TEST(functions) {
  char text[256];
  snprintf(text, sizeof text, "f(x, y, z: f64[]) -> (r: f64[]) { r = %s }", FUNCTIONS[_i].expression);
  arena a = ARENA_INIT;
  arke_error err = ARKE_ERROR_INIT;
  const ir_op *op;
  ir_problem p;
  ck_assert_msg(ir_op_parse(&a, text, &op, &err) == ARKE_OK, "%s", err.text);
  ck_assert_int_eq(ir_problem_bind(op, "", &p, &err), ARKE_OK);
  ir_data data[4] = {{&FUNCTIONS[_i].x, {0}}, {&FUNCTIONS[_i].y, {0}}, {&FUNCTIONS[_i].z, {0}}, {NULL, {0}}};
  double value, magnitude, expected = FUNCTIONS[_i].value;
  ck_assert_int_eq(ir_eval(&p, data, 3, NULL, &value, &magnitude, &err), ARKE_OK);
  if (isnan(expected))
    ck_assert_msg(isnan(value), "%s: %.17g", text, value);
  else
    ck_assert_msg(value == expected || fabs(value - expected) <= 4e-16 * fabs(expected), "%s: %.17g", text,
                  value);
  arena_release(&a);
}
END_TEST

START_TEST(every_function_is_tested){
#define X(NAME, name, arity, reference, meaning)                                                             \
  {                                                                                                          \
    bool found = false;                                                                                      \
    for (size_t i = 0; i < COUNT_OF(FUNCTIONS); i++)                                                         \
      found = found || strncmp(FUNCTIONS[i].expression, #name "(", sizeof #name) == 0;                       \
    ck_assert_msg(found, "no value is checked for " #name);                                                  \
  }
    IR_FUNCTIONS(X)
#undef X
} END_TEST

    /* --- magnitude, errors, speed
       ---------------------------------------------------------------------------- */

    /* What an activation makes of a sum that cancels still has the scale of the sum's rounding error. */
    START_TEST(magnitude_is_carried) {
  static const char TEXT[] =
      "f(A: f32[K], B: f32[K]) -> (R: f32[], S: f32[], E: f32[], P: f32[]) {"
      "  d = sum(k) A[k] * B[k]  R = relu(d) S = d * 3 + 1  E = exp(d)  P = max(k) A[k] }";
  arena a = ARENA_INIT;
  arke_error err = ARKE_ERROR_INIT;
  const ir_op *op;
  ir_problem p;
  ck_assert_msg(ir_op_parse(&a, TEXT, &op, &err) == ARKE_OK, "%s", err.text);
  ck_assert_int_eq(ir_problem_bind(op, "K=3", &p, &err), ARKE_OK);
  static const float A[] = {100, -100, 0}, B[] = {1, 1, 1};
  ir_data data[LIMIT_TENSORS] = {{A, {1}}, {B, {1}}};
  static const double EXPECTED[] = {200, 601, 200, 100};
  for (int i = 0; i < 4; i++) {
    double value, magnitude;
    ck_assert_int_eq(ir_eval(&p, data, 2 + i, NULL, &value, &magnitude, &err), ARKE_OK);
    ck_assert_msg(fabs(magnitude - EXPECTED[i]) < 0.03 * EXPECTED[i], "output %d: %g", i, magnitude);
  }
  arena_release(&a);
}
END_TEST

/* Casts inside sums move an element by a rounding of each term; what is not cast, or at the very end, does
 * not. */
START_TEST(casts_inside) {
  static const char TEXT[] =
      "f(A: f32[K], B: f32[K]) -> (R: f32[], S: f32[], Q: f32[], N: f32[], E: bf16[]) {"
      "  w[k] = cast<bf16>(exp(A[k] + B[k]))  n = sum(k) exp(A[k] + B[k])  R = sum(k) w[k] * B[k]"
      "  S = 2.0 * (sum(k) w[k] * B[k]) + 1.0  Q = (sum(k) w[k] * B[k]) / n  N = n  E = cast<bf16>(n) }";
  arena a = ARENA_INIT;
  arke_error err = ARKE_ERROR_INIT;
  const ir_op *op;
  ir_problem p;
  ir_evaluator *ev;
  ck_assert_msg(ir_op_parse(&a, TEXT, &op, &err) == ARKE_OK, "%s", err.text);
  ck_assert_int_eq(ir_problem_bind(op, "K=3", &p, &err), ARKE_OK);
  static const float A[] = {0, 1, -2}, B[] = {1, -1, 3};
  ir_data data[LIMIT_TENSORS] = {{A, {1}}, {B, {1}}};
  double terms = 0, total = 0; /* of so few terms the sum of their roundings is the lesser bound */
  for (int k = 0; k < 3; k++) {
    total += exp(A[k] + B[k]);
    terms += dtype_round(DTYPE_BF16, exp(A[k] + B[k])) * fabs(B[k]) * dtype_roundoff(DTYPE_BF16);
  }
  const double expected[] = {terms, 2 * terms, terms / total, 0, 0};
  ck_assert_int_eq(ir_evaluator_create(&p, data, &ev, &err), ARKE_OK);
  for (int i = 0; i < 5; i++) {
    double moved, value, magnitude;
    ck_assert_int_eq(ir_evaluator_casts(ev, 2 + i, NULL, &moved, &err), ARKE_OK);
    ck_assert_msg(fabs(moved - expected[i]) <= 1e-12, "output %d: %g, expected %g", i, moved, expected[i]);
    ck_assert_int_eq(ir_evaluator_eval(ev, 2 + i, NULL, &value, &magnitude, &err), ARKE_OK);
    ck_assert_double_ge(magnitude, fabs(value) * 0.99); /* not what was remembered of casts */
  }
  ir_evaluator_destroy(ev);
  arena_release(&a);
}
END_TEST

static double flops_of(const char *text, const char *bindings) {
  arena a = ARENA_INIT;
  const ir_op *op;
  ir_problem p;
  ck_assert_int_eq(ir_op_parse(&a, text, &op, NULL), ARKE_OK);
  ck_assert_int_eq(ir_problem_bind(op, bindings, &p, NULL), ARKE_OK);
  double flops = ir_flops(&p);
  arena_release(&a);
  return flops;
}

static void check_near(double got, double expected) {
  ck_assert_msg(fabs(got - expected) <= 3e-3 * expected, "%g, expected %g", got, expected);
}

/* Also what temporaries are computed for nobody; conditions on elements count as if they held. */
START_TEST(conditions_shorten_counts) {
  static const char SUMS[] = "f(X: f32[M,N], n: i32[M]) -> (Y: f32[M,N], Z: f32[M]) {"
                             "  p[i,j] = X[i,j] * X[i,j]  v[a,b] = a <= b"
                             "  Y[i,j] = sum(t: v[t,j]) p[i,t]  Z[i] = sum(t: t < n[i]) X[i,t] }";
  const char *masked = ir_catalogue_find("flash_attention", NULL)->text;
  const double m = 30, n = 2000;
  check_near(flops_of("f(X: f32[M,N]) -> (Y: f32[M,N]) { Y[i,j] = sum(t: t <= j) X[i,t] }", "M=30 N=2000"),
             m * n); /* a running sum goes on from the one before */
  check_near(
      flops_of("f(X: f32[M,N]) -> (Y: f32[M,N]) { Y[i,j] = sum(t: t <= j) X[i,t] * X[i,j] }", "M=30 N=2000"),
      2 * m * n * (n + 1) / 2);
  /* Parts that offsets tell apart are alike, as far as sizes know. */
  check_near(flops_of("f(X: f32[M], c: i32[B+1]) -> (Y: f32[B]) { Y[b] = sum(k: k >= c[b] && k < c[b + 1]) "
                      "X[k] * X[k] }",
                      "M=2000 B=10"),
             3 * 10.0 * 2000 + 2 * 2000); /* the conditions, of all; products and sums, of a tenth */
  check_near(flops_of(SUMS, "M=30 N=2000"), m * n * (n + 1) / 2 + m * n / 2 + m * n);
  double full = flops_of(masked, "T=bf16 B=2 H=3 S=4096 R=4096 D=128");
  check_near(full, 2 * 3 * 4096.0 * 4096 * (4 * 128 + 11));
  check_near(flops_of(masked, "T=bf16 B=2 H=3 S=4096 R=4096 D=128 causal=true"), full / 2);
  check_near(flops_of(masked, "T=bf16 B=2 H=3 S=4096 R=4096 D=128 left=1023 right=0"), full * 0.21875);
}
END_TEST

/* Of many terms, each cast for itself, the roundings partly cancel; those of one that all terms share do not.
 */
START_TEST(casts_of_many_terms) {
  enum { TERMS = 10000 };
  static const char TEXT[] = "f(A: f32[K], B: f32[]) -> (R: f32[], S: f32[]) {"
                             "  w[k] = cast<bf16>(A[k] + 1.0)  R = sum(k) w[k]"
                             "  v = cast<bf16>(B + 1.0)  S = sum(k) A[k] * v }";
  static float A[TERMS], B;
  arena a = ARENA_INIT;
  arke_error err = ARKE_ERROR_INIT;
  const ir_op *op;
  ir_problem p;
  ir_evaluator *ev;
  for (int i = 0; i < TERMS; i++) A[i] = 1;
  B = 1;
  ck_assert_msg(ir_op_parse(&a, TEXT, &op, &err) == ARKE_OK, "%s", err.text);
  ck_assert_int_eq(ir_problem_bind(op, "K=10000", &p, &err), ARKE_OK);
  ir_data data[LIMIT_TENSORS] = {{A, {1}}, {&B, {0}}};
  ck_assert_int_eq(ir_evaluator_create(&p, data, &ev, &err), ARKE_OK);
  const double each = 2 * dtype_roundoff(DTYPE_BF16), expected[] = {4 * 100 * each, TERMS * each};
  for (int i = 0; i < 2; i++) {
    double moved;
    ck_assert_int_eq(ir_evaluator_casts(ev, 2 + i, NULL, &moved, &err), ARKE_OK);
    ck_assert_msg(fabs(moved - expected[i]) <= 1e-9, "output %d: %g, expected %g", i, moved, expected[i]);
  }
  ir_evaluator_destroy(ev);
  arena_release(&a);
}
END_TEST

/* A product is rounded before a sine magnifies that; an element that is read, or cast, is not. */
START_TEST(magnitude_of_arguments) {
  static const char TEXT[] =
      "f(A: f32[N]) -> (S: f32[], T: f32[], E: f32[]) "
      "{ a = A[0] * 1000.0  S = sin(a)  T = sin(cast<f32>(A[1]))  E = sum(i) A[i] * sin(A[i]) }";
  arena a = ARENA_INIT;
  arke_error err = ARKE_ERROR_INIT;
  const ir_op *op;
  ir_problem p;
  ck_assert_msg(ir_op_parse(&a, TEXT, &op, &err) == ARKE_OK, "%s", err.text);
  ck_assert_int_eq(ir_problem_bind(op, "N=2", &p, &err), ARKE_OK);
  static const float A[] = {3, 3000};
  ir_data data[LIMIT_TENSORS] = {{A, {1}}};
  const double expected[] = {fabs(3000 * cos(3000.0)), fabs(sin(3000.0)),
                             fabs(3 * sin(3.0)) + fabs(3000 * sin(3000.0))};
  for (int i = 0; i < 3; i++) {
    double value, magnitude;
    ck_assert_int_eq(ir_eval(&p, data, 1 + i, NULL, &value, &magnitude, &err), ARKE_OK);
    ck_assert_msg(fabs(magnitude - expected[i]) < 0.5 * expected[i], "output %d: %g", i, magnitude);
  }
  arena_release(&a);
}
END_TEST

START_TEST(bad_calls) {
  call k;
  setup(&k, MATMUL, "T=f32 M=2 N=2 K=2", 1);
  double value;
  arke_error err = ARKE_ERROR_INIT;
  ck_assert_int_eq(ir_eval(&k.c.p, k.c.data, 0, (int64_t[]){0, 0}, &value, NULL, &err), ARKE_ERR_ARGUMENT);
  ck_assert_str_eq(err.text, "tensor 0 is no output of matmul; outputs are 2 to 2");
  error_clear(&err);
  ck_assert_int_eq(ir_eval(&k.c.p, k.c.data, 2, (int64_t[]){0, 2}, &value, NULL, &err), ARKE_ERR_ARGUMENT);
  ck_assert_str_eq(err.text, "Y has no element 2 in dimension 1 of size 2");
  error_clear(&err);
  ir_data none[3] = {{NULL, {0}}, k.c.data[1], k.c.data[2]};
  ck_assert_int_eq(ir_eval(&k.c.p, none, 2, (int64_t[]){0, 0}, &value, NULL, &err), ARKE_ERR_ARGUMENT);
  ck_assert_str_eq(err.text, "input A has no data");
  ck_assert_int_eq(ir_eval(&k.c.p, none, 2, (int64_t[]){0, 0}, &value, NULL, NULL), ARKE_ERR_ARGUMENT);
  ir_evaluator_destroy(NULL);
  teardown(&k);
}
END_TEST

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Verifying samples thousands of elements: about 50 us each on an idle core; the limit leaves room for
 * sanitizers and old machines, and is far from what a walk of the tree for every k would take. */
START_TEST(speed) {
  call k;
  setup(&k, MATMUL, "T=bf16 M=64 N=64 K=4096", 1);
  double best = INFINITY;
  for (int round = 0; round < 5; round++) {
    double start = seconds();
    for (int i = 0; i < 50; i++) evaluate(&k, 2, i, 63 - i, NULL);
    best = fmin(best, (seconds() - start) / 50);
  }
  teardown(&k);
  ck_assert_msg(best < 1e-3, "one element of K=4096 takes %g us", best * 1e6);
  /* Softmax is linear in its row: an element costs a few rows, its neighbours hardly anything. */
  setup(&k,
        "softmax(X: T[M,N]) -> (Y: T[M,N]) { m[i] = max(j) X[i,j]  s[i] = sum(j) exp(X[i,j] - m[i])"
        "  Y[i,j] = exp(X[i,j] - m[i]) / s[i] }",
        "T=bf16 M=4 N=100000", 1);
  double start = seconds();
  for (int64_t i = 0; i < 4; i++)
    for (int64_t j = 0; j < 100; j++) evaluate(&k, 1, i, j, NULL);
  double spent = seconds() - start;
  teardown(&k);
  ck_assert_msg(spent < 1, "400 elements of 4 rows of softmax take %g s", spent);
}
END_TEST

Suite *reference_suite(void) {
  Suite *s = suite_create("reference");
  TCase *t = tcase_create("against loops");
  tcase_set_timeout(t, 60);
  tcase_add_loop_test(t, products, 0, (int)COUNT_OF(TYPES));
  tcase_add_test(t, strides);
  tcase_add_test(t, periods);
  tcase_add_test(t, huge_shapes);
  tcase_add_loop_test(t, softmax, 0, (int)COUNT_OF(ROW_TYPES));
  tcase_add_loop_test(t, layernorm, 0, (int)COUNT_OF(ROW_TYPES));
  tcase_add_loop_test(t, argmax_cumsum_gather, 0, (int)COUNT_OF(ROW_TYPES));
  tcase_add_test(t, attention);
  tcase_add_loop_test(t, functions, 0, (int)COUNT_OF(FUNCTIONS));
  tcase_add_test(t, every_function_is_tested);
  tcase_add_test(t, magnitude_is_carried);
  tcase_add_test(t, magnitude_of_arguments);
  tcase_add_test(t, casts_inside);
  tcase_add_test(t, casts_of_many_terms);
  tcase_add_test(t, conditions_shorten_counts);
  tcase_add_test(t, bad_calls);
  tcase_add_test(t, speed);
  suite_add_tcase(s, t);
  return s;
}
