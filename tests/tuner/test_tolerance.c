/* How far a right kernel may be from the reference, and where outputs that differ do so first. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "tests/tuner/bound_problem.h"
#include "tuner/compare.h"
#include "tuner/tolerance.h"

/* A sum in f32 over n terms of products of normals, rounded to `out`, in three orders a kernel might use. */
static double sum_like_a_kernel(const double *x, int n, int order, bool truncate) {
  float sums[16] = {0};
  int lanes = order == 0 ? 1 : 16;
  for (int i = 0; i < n; i++) {
    double exact = (double)sums[i % lanes] + x[i];
    float rounded = (float)exact;
    if (truncate && fabs((double)rounded) > fabs(exact)) rounded = nextafterf(rounded, 0);
    sums[i % lanes] = rounded;
  }
  float total = 0;
  for (int i = 0; i < lanes; i++) total += sums[i];
  return total;
}

/* No matrix unit takes part in what multiplies nothing, and each addition rounds to nearest: a part of a row
 * that is left out is found however long the row is. */
START_TEST(long_sums_without_products_have_no_share_of_cuts) {
  enum { N = 10000000 };
  arena a = ARENA_INIT;
  ir_problem p;
  bind_problem(&a, "f(X: T[M,N]) -> (Y: T[M]) { Y[i] = sum(j) X[i,j] }", "T=f32 M=1 N=10000000", &p);
  tune_tolerance t = tune_tolerance_for(&p, 1, false);
  double value = 0, magnitude = 0, tail = 0, error, *x = malloc(N * sizeof *x);
  for (int i = 0; i < N; i++) {
    x[i] = (float)random_uniform(1, (uint64_t)i);
    value += x[i];
    if (i >= N - N / 100) tail += x[i];
  }
  magnitude = value;
  for (int order = 0; order < 2; order++)
    ck_assert(tune_tolerance_agrees(&t, sum_like_a_kernel(x, N, order, false), value, magnitude, &error));
  ck_assert(!tune_tolerance_agrees(&t, value - tail, value, magnitude, &error));
  free(x);
  arena_release(&a);
}
END_TEST

START_TEST(correct_sums_pass_and_missing_terms_fail) {
  static const int lengths[] = {1, 16, 64, 1024, 4096, 16384};
  static const dtype outs[] = {DTYPE_BF16, DTYPE_F16, DTYPE_F32};
  int n = lengths[_i % 6];
  dtype out = outs[_i / 6];
  tune_tolerance t = tune_tolerance_make(out, n);
  double *x = malloc((size_t)n * sizeof *x);
  int caught = 0, trials = n <= 1024 ? 400 : 60;
  for (int trial = 0; trial < trials; trial++) {
    double value = 0, magnitude = 0, error;
    for (int i = 0; i < n; i++) {
      uint64_t k = (uint64_t)(trial * n + i);
      x[i] = dtype_round(DTYPE_BF16, random_normal(1, 2 * k)) *
             dtype_round(DTYPE_BF16, random_normal(1, 2 * k + 1));
      value += x[i];
      magnitude += fabs(x[i]);
    }
    for (int order = 0; order < 2; order++)
      for (int truncate = 0; truncate < 2; truncate++) {
        double got = dtype_round(out, sum_like_a_kernel(x, n, order, truncate));
        ck_assert_msg(tune_tolerance_agrees(&t, got, value, magnitude, &error),
                      "n %d %s: got %g value %g allowed %g", n, dtype_name(out), got, value,
                      tune_tolerance_allowed(&t, value, magnitude));
      }
    /* A pipeline that drops its last 64 terms, or all of fewer. */
    double short_sum = value;
    for (int i = n > 64 ? n - 64 : 0; i < n; i++) short_sum -= x[i];
    caught += !tune_tolerance_agrees(&t, dtype_round(out, short_sum), value, magnitude, &error);
  }
  ck_assert_int_gt(caught, trials / 2);
  free(x);
}
END_TEST

/* --- 8-bit floats --- */

/* x with so many fraction bits of 2^exponent, cut toward zero. */
static double cut(double x, int exponent) {
  return ldexp(trunc(ldexp(x, 13 - exponent)), exponent - 13);
}

static int exponent_of(double x) {
  int e;
  frexp(x, &e);
  return x == 0 ? -999 : e - 1;
}

/* Sums 32 products at a time as Hopper's wgmma does, and goes on in f32 after `each` of these (0: never). */
static double sum_like_wgmma(const double *a, const double *b, int n, int each) {
  double total = 0, sum = 0;
  for (int k = 0; k < n; k += 32) {
    int top = exponent_of(sum);
    for (int i = k; i < k + 32; i++) {
      int e = exponent_of(a[i]) + exponent_of(b[i]);
      if (a[i] != 0 && b[i] != 0 && e > top) top = e;
    }
    double next = cut(sum, top);
    for (int i = k; i < k + 32; i++) next += cut(a[i] * b[i], top);
    sum = cut(next, exponent_of(next));
    if (each == 0 || (k / 32 + 1) % each != 0) continue;
    total = (double)(float)(total + sum);
    sum = 0;
  }
  return total + sum;
}

START_TEST(products_of_8_bit_floats_may_lose_digits_for_128_terms) {
  enum { MOST = 4096 };
  static double a[MOST], b[MOST];
  static const int lengths[] = {32, 128, 512, 2048, MOST};
  int n = lengths[_i % 5], kept = 0, trials = 200;
  bool positive = _i / 5 % 2;
  dtype type = _i / 10 ? DTYPE_E5M2 : DTYPE_E4M3;
  arena memory = ARENA_INIT;
  ir_problem p;
  char bindings[64];
  snprintf(bindings, sizeof bindings, "T=%s M=1 N=1 K=%d", dtype_name(type), n);
  bind_problem(&memory, "f(X: T[M,K], W: T[N,K]) -> (Y: f32[M,N]) { Y[m,n] = sum(k) X[m,k] * W[n,k] }",
               bindings, &p);
  tune_tolerance t = tune_tolerance_for(&p, 2, false);
  for (int trial = 0; trial < trials; trial++) {
    double value = 0, magnitude = 0, error;
    for (int i = 0; i < n; i++) {
      uint64_t k = (uint64_t)(trial * n + i);
      a[i] = dtype_round(type, random_normal(3, 2 * k));
      b[i] = dtype_round(type, random_normal(3, 2 * k + 1));
      if (positive) a[i] = fabs(a[i]), b[i] = fabs(b[i]);
      value += a[i] * b[i];
      magnitude += fabs(a[i] * b[i]);
    }
    double got = sum_like_wgmma(a, b, n, 4);
    ck_assert_msg(tune_tolerance_agrees(&t, got, value, magnitude, &error), "n %d: %g, not %g, allowed %g", n,
                  got, value, tune_tolerance_allowed(&t, value, magnitude));
    kept += tune_tolerance_agrees(&t, sum_like_wgmma(a, b, n, 0), value, magnitude, &error);
  }
  if (positive && n >= 512) ck_assert_int_eq(kept, 0); /* in the matrix unit all along: wrong */
  arena_release(&memory);
}
END_TEST

START_TEST(special_values_agree_in_kind) {
  tune_tolerance t = tune_tolerance_make(DTYPE_F16, 4);
  double e;
  ck_assert(tune_tolerance_agrees(&t, NAN, NAN, NAN, &e));
  ck_assert(!tune_tolerance_agrees(&t, NAN, 1, 1, &e));
  ck_assert(!tune_tolerance_agrees(&t, 1, NAN, NAN, &e));
  ck_assert(tune_tolerance_agrees(&t, INFINITY, 1e6, 1e6, &e));
  ck_assert(!tune_tolerance_agrees(&t, -INFINITY, 1e6, 1e6, &e));
  ck_assert(tune_tolerance_agrees(&t, INFINITY, 65519.99, 65519.99, &e)); /* rounds up or down */
  ck_assert(!tune_tolerance_agrees(&t, INFINITY, 60000, 60000, &e));
  ck_assert(tune_tolerance_agrees(&t, 0, 0x1p-26, 0x1p-26, &e)); /* below half the least subnormal */
  ck_assert(!tune_tolerance_agrees(&t, 0x1p-22, 0, 0, &e));
  tune_tolerance i8 = tune_tolerance_make(DTYPE_I8, 1);
  ck_assert(tune_tolerance_agrees(&i8, 127, 300, 300, &e)); /* saturates */
  ck_assert(!tune_tolerance_agrees(&i8, 4, 5, 5, &e));
  ck_assert(tune_tolerance_agrees(&i8, 4, 4.5, 4.5, &e));
}
END_TEST

/* What lies beyond a type's range is lost in storing, by every kernel: no error that a report could blame on
 * one. */
START_TEST(saturated_values_have_no_error) {
  static const dtype types[] = {DTYPE_I8,   DTYPE_U8,   DTYPE_I32, DTYPE_E4M3,
                                DTYPE_E5M2, DTYPE_E2M1, DTYPE_BOOL};
  for (size_t i = 0; i < COUNT_OF(types); i++) {
    tune_tolerance t = tune_tolerance_make(types[i], 64);
    for (double value = -0x1p40; value < 0x1p41; value += 0x1p41) {
      double e = -1;
      ck_assert(tune_tolerance_agrees(&t, dtype_round(types[i], value), value, 0x1p40, &e));
      ck_assert_msg(e == 0, "%s: %g", dtype_name(types[i]), e);
    }
  }
  tune_tolerance t = tune_tolerance_make(DTYPE_E4M3, 1);
  double e;
  ck_assert(tune_tolerance_agrees(&t, 448, 430, 430, &e)); /* inside the range it is what rounding did */
  ck_assert_double_eq(e, 18);
}
END_TEST

static const struct {
  const char *text, *bindings;
  bool exact;
  double unit; /* of what is rounded on the way; 0: nothing */
} ROUNDING[] = {
    {"f(X: T[M]) -> (Y: T[M]) { Y[i] = max(X[i], 0) }", "T=bf16 M=4", true, 0},
    {"f(X: T[M]) -> (Y: U[M]) { Y[i] = cast<U>(X[i]) }", "T=f32 U=e4m3 M=4", true, 0},
    {"f(X: T[M]) -> (Y: T[M]) { Y[i] = -X[M-1-i] }", "T=f32 M=4", true, 0},
    {"f(X: T[M,N]) -> (Y: i64[M]) { Y[i] = argmax(j) X[i,j] }", "T=bf16 M=4 N=4", true, 0},
    {"f(X: T[M,N], W: T[N]) -> (Y: i64[M]) { Y[i] = argmax(j) X[i,j] * W[j] }", "T=bf16 M=4 N=4", false,
     0x1p-24},
    {"f(X: T[M,N]) -> (Y: T[M]) { Y[i] = max(j) abs(X[i,j]) }", "T=f16 M=4 N=4", true, 0},
    {"f(X: T[M,N]) -> (Y: T[M]) { Y[i] = sum(j) X[i,j] }", "T=i32 M=4 N=4", true, 0},
    {"f(X: T[M,N]) -> (Y: T[M]) { Y[i] = sum(j) X[i,j] }", "T=f32 M=4 N=1", false, 0x1p-24},
    {"f(X: T[M,N]) -> (Y: T[M]) { Y[i] = sum(j) X[i,j] }", "T=f64 M=4 N=1", false, 0x1p-53},
    {"f(X: T[M]) -> (Y: f64[M]) { Y[i] = X[i] * X[i] }", "T=f32 M=4", false, 0x1p-24}, /* computed in f32 */
    {"f(X: T[M]) -> (Y: T[M]) { t[i] = exp(X[i]); Y[i] = t[i] }", "T=f32 M=4", false, 0x1p-24},
    {"f(X: T[M]) -> (Y: T[M]) { t[i] = X[i] / 2; Y[i] = t[i] }", "T=i32 M=4", true, 0},
    {"f(X: T[M], idx: i64[M]) -> (Y: T[M]) { Y[i] = X[(idx[i] + 1) % M] }", "T=f32 M=4", true, 0},
    {"f(X: T[M], idx: i64[M]) -> (Y: T[M]) { Y[i] = 0; Y[idx[i]] += X[i] }", "T=f32 M=4", false, 0x1p-24},
};

START_TEST(what_never_rounds_is_exact) {
  arena a = ARENA_INIT;
  ir_problem p;
  bind_problem(&a, ROUNDING[_i].text, ROUNDING[_i].bindings, &p);
  tune_tolerance t = tune_tolerance_for(&p, p.op->n_inputs, false);
  ck_assert_int_eq(t.exact, ROUNDING[_i].exact);
  double error;
  if (t.exact) {
    double stored = dtype_round(t.out, 1.3);
    ck_assert(tune_tolerance_agrees(&t, stored, 1.3, 1.3, &error));
    ck_assert(!tune_tolerance_agrees(&t, stored + 1, 1.3, 1.3, &error));
    ck_assert(!tune_tolerance_agrees(
        &t, stored * (1 + 2 * dtype_roundoff(t.out)) + (dtype_roundoff(t.out) == 0), 1.3, 1.3, &error));
  } else {
    double n = fmax(1, (double)ir_reduction_length(&p, p.op->n_inputs));
    double cut = strstr(ROUNDING[_i].text, " * ") != NULL ? n / 4 : 0;
    ck_assert_double_eq_tol(t.accumulation / ROUNDING[_i].unit, 4 * sqrt(n) + cut, 1e-9);
    ck_assert_double_gt(tune_tolerance_for(&p, p.op->n_inputs, true).accumulation, 0x1p-11);
  }
  arena_release(&a);
}
END_TEST

/* Where results have 16 bits, a function's may be off by 2^-15 before they are rounded. */
START_TEST(functions_of_16_bit_results_may_be_off_before_they_are_rounded) {
  arena memory = ARENA_INIT;
  ir_problem p;
  bind_problem(&memory,
               _i ? "f(X: T[N]) -> (Y: T[N]) { Y[n] = 3 * X[n] }"
                  : "f(X: T[N]) -> (Y: T[N]) { Y[n] = gelu(X[n]) }",
               "T=f16 N=1", &p);
  tune_tolerance t = tune_tolerance_for(&p, 1, false);
  int taken = 0, trials = 2000;
  double error;
  for (int i = 0; i < trials; i++) {
    double value =
        0.125 * (1 + (i + 0.37) / trials / 64); /* just above a power of two, where rounding is finest */
    double got = dtype_round(DTYPE_F16, value * (1 + 0x1p-15));
    taken += tune_tolerance_agrees(&t, got, value, 0, &error);
    ck_assert(!tune_tolerance_agrees(&t, dtype_round(DTYPE_F16, value * (1 + 0x1p-9)), value, 0, &error));
  }
  ck_assert(_i ? taken < trials : taken == trials);
  arena_release(&memory);
}
END_TEST

/* A silu far to the left is stored as 0 by functions that flush; a copy of the same value may not be. */
START_TEST(functions_may_underflow) {
  static const char silu[] = "f(X: T[M]) -> (Y: T[M]) { Y[i] = silu(X[i]) }";
  arena a = ARENA_INIT;
  ir_problem p;
  double error;
  bind_problem(&a, silu, "T=bf16 M=4", &p);
  tune_tolerance t = tune_tolerance_for(&p, 1, false);
  ck_assert(tune_tolerance_agrees(&t, -0.0, -4.7e-38, 4.7e-38, &error));
  ck_assert(!tune_tolerance_agrees(&t, -0.0, -1e-35, 1e-35, &error));
  bind_problem(&a, silu, "T=f32 M=4", &p);
  t = tune_tolerance_for(&p, 1, false);
  ck_assert(tune_tolerance_agrees(&t, -2.81e-42, -2.743e-42, 2.743e-42, &error));
  ck_assert(!tune_tolerance_agrees(&t, -0.0, -4.7e-38, 4.7e-38, &error));
  bind_problem(&a, "f(X: T[M]) -> (Y: T[M]) { Y[i] = X[i] }", "T=bf16 M=4", &p);
  t = tune_tolerance_for(&p, 1, false);
  ck_assert(!tune_tolerance_agrees(&t, -0.0, -4.7e-38, 4.7e-38, &error));
  arena_release(&a);
}
END_TEST

/* What multiplies a function's result multiplies what it lost: a gate of -87.5 before a value of 320. */
START_TEST(underflow_is_carried_through_products) {
  static const char gate[] = "f(X: T[K], G: T[K], U: T[K]) -> (Y: T[1]) { Y[i] = silu(sum(k) X[k] * G[k]) * "
                             "sum(k) X[k] * U[k] }";
  arena a = ARENA_INIT;
  arke_error err = ARKE_ERROR_INIT;
  ir_problem p;
  uint16_t x[] = {0x3F80, 0x3F80, 0x3F80}, g[] = {0xC2AF, 0, 0}, u[] = {0x4348, 0x42C8, 0x41A0};
  ir_data data[4] = {{x, {1}}, {g, {1}}, {u, {1}}, {NULL, {1}}};
  double value, magnitude, error;
  bind_problem(&a, gate, "T=bf16 K=3", &p);
  ck_assert_msg(ir_eval(&p, data, 3, (int64_t[]){0}, &value, &magnitude, &err) == ARKE_OK, "%s", err.text);
  ck_assert_double_eq_tol(value, -2.797e-34, 1e-36);
  tune_tolerance t = tune_tolerance_for(&p, 3, false);
  ck_assert(tune_tolerance_agrees(&t, -0.0, value, magnitude, &error));
  ck_assert(!tune_tolerance_agrees(&t, -1e-31, value, magnitude, &error));
  arena_release(&a);
}
END_TEST

/* Each addition into a narrow type rounds, and the order of updates is open. */
START_TEST(orders_of_narrow_updates_agree) {
  enum { UPDATES = 6, TRIALS = 1000 };
  arena a = ARENA_INIT;
  ir_problem p;
  bind_problem(&a, "count(X: T[M], idx: i64[M]) -> (Y: T[N]) { Y[idx[i]] += X[i] }", "T=bf16 M=64 N=8", &p);
  tune_tolerance t = tune_tolerance_for(&p, p.op->n_inputs, false);
  double furthest = 0, relative, absolute;
  for (uint64_t trial = 0; trial < TRIALS; trial++) {
    double sums[2] = {0, 0}, magnitude = 0;
    for (uint64_t i = 0; i < UPDATES; i++) {
      for (uint64_t order = 0; order < 2; order++) {
        double x = random_normal(trial, order ? UPDATES - 1 - i : i);
        sums[order] = dtype_round(DTYPE_BF16, sums[order] + dtype_round(DTYPE_BF16, x));
      }
      magnitude += fabs(random_normal(trial, i));
    }
    tune_tolerance_between(&t, magnitude, &relative, &absolute);
    double apart = fabs(sums[0] - sums[1]);
    ck_assert_double_le(apart, relative * fabs(sums[1]) + absolute);
    furthest = fmax(furthest, apart / (relative * fabs(sums[1]) + absolute - 2 * t.updates * magnitude));
  }
  ck_assert_double_gt(furthest, 1); /* the updates' own part is needed */
  arena_release(&a);
}
END_TEST

/* Weighted means whose weights are cast, as attention's, by kernels that cast them with other scales: where
 * no element of so long a problem is evaluated, the outputs themselves must tell how far they may lie apart.
 * A kernel that leaves a tile of 64 keys out is found all the same. */
START_TEST(casts_of_weights_with_other_scales_agree) {
  enum { TERMS = 8192, OUTPUTS = 400 };
  arena a = ARENA_INIT;
  ir_problem p;
  bind_problem(&a, ir_catalogue_find("multi_latent_attention", NULL)->text,
               "T=bf16 B=8 S=1 H=128 R=8192 C=512 E=64", &p);
  tune_tolerance t = tune_tolerance_for(&p, p.op->n_inputs, false);
  static double got[3][OUTPUTS];
  double most = 0, furthest = 0, relative, absolute;
  int caught = 0;
  for (uint64_t o = 0; o < OUTPUTS; o++) {
    double sums[3] = {0}, weights = 0;
    for (uint64_t k = 0; k < TERMS; k++) {
      double weight = exp(random_normal(2 * o, k) - 4), value = random_normal(2 * o + 1, k);
      weights += weight;
      for (int kernel = 0; kernel < 3; kernel++) {
        double scale = kernel == 1 ? 1.37 : 1;
        if (kernel < 2 || k >= 64) sums[kernel] += dtype_round(DTYPE_BF16, weight * scale) / scale * value;
      }
    }
    for (int kernel = 0; kernel < 3; kernel++)
      got[kernel][o] = dtype_round(DTYPE_BF16, sums[kernel] / weights);
    most = fmax(most, fabs(got[0][o]));
  }
  tune_tolerance_between(&t, tune_tolerance_guess_magnitude(&t, most), &relative, &absolute);
  for (int o = 0; o < OUTPUTS; o++) {
    double apart = fabs(got[1][o] - got[0][o]), allowed = relative * fabs(got[0][o]) + absolute;
    ck_assert_msg(apart <= allowed, "%g and %g, allowed %g", got[0][o], got[1][o], allowed);
    furthest = fmax(furthest, apart / allowed);
    caught += fabs(got[2][o] - got[0][o]) > allowed;
  }
  ck_assert_double_gt(furthest, 0.1);
  ck_assert_int_gt(caught, OUTPUTS / 2);
  arena_release(&a);
}
END_TEST

/* --- comparing tensors ---------------------------------------------------------------------------------- */

START_TEST(compare_finds_the_first_difference) {
  static const dtype types[] = {DTYPE_BF16, DTYPE_F32, DTYPE_F16, DTYPE_F64, DTYPE_E4M3, DTYPE_E5M2};
  int64_t n = 10000;
  for (size_t k = 0; k < COUNT_OF(types); k++) {
    dtype t = types[k];
    char *x = malloc((size_t)dtype_bytes(t, n)), *y = malloc((size_t)dtype_bytes(t, n));
    for (int64_t i = 0; i < n; i++) {
      double v = random_normal(3, (uint64_t)i);
      dtype_store(t, x, i, v);
      dtype_store(t, y, i, v);
    }
    double relative = 2 * dtype_roundoff(t), absolute = 1e-3 * dtype_roundoff(t);
    ck_assert_int_eq(tune_compare(t, x, y, n, relative, absolute), -1);
    double v = dtype_load(t, y, 7777);
    dtype_store(t, x, 7777, v * (1 + 2 * dtype_roundoff(t))); /* one step: allowed */
    ck_assert_int_eq(tune_compare(t, x, y, n, relative * 1.01, absolute), -1);
    dtype_store(t, x, 7777, v * (1 + 16 * dtype_roundoff(t)));
    dtype_store(t, x, 9999, 5);
    ck_assert_int_eq(tune_compare(t, x, y, n, relative, absolute), 7777);
    dtype_store(t, x, 7777, v);
    ck_assert_int_eq(tune_compare(t, x, y, n, relative, absolute), 9999);
    dtype_store(t, x, 4096, NAN);
    ck_assert_int_eq(tune_compare(t, x, y, n, relative, absolute), 4096);
    dtype_store(t, y, 4096, NAN);
    ck_assert_int_eq(tune_compare(t, x, y, n, relative, absolute), 9999);
    for (int i = 0; i < 3 && t != DTYPE_E4M3; i++) { /* which has no infinity */
      static const double infinities[] = {1, -INFINITY, INFINITY};
      dtype_store(t, y, 5, INFINITY);
      dtype_store(t, x, 5, infinities[i]);
      ck_assert_int_eq(tune_compare(t, x, y, n, relative, absolute), i < 2 ? 5 : 9999);
    }
    free(x);
    free(y);
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("tolerance");
  TCase *c = tcase_create("tolerance");
  tcase_set_timeout(c, 60);
  tcase_add_test(c, long_sums_without_products_have_no_share_of_cuts);
  tcase_add_loop_test(c, correct_sums_pass_and_missing_terms_fail, 0, 18);
  tcase_add_loop_test(c, products_of_8_bit_floats_may_lose_digits_for_128_terms, 0, 20);
  tcase_add_test(c, special_values_agree_in_kind);
  tcase_add_test(c, saturated_values_have_no_error);
  tcase_add_loop_test(c, what_never_rounds_is_exact, 0, COUNT_OF(ROUNDING));
  tcase_add_loop_test(c, functions_of_16_bit_results_may_be_off_before_they_are_rounded, 0, 2);
  tcase_add_test(c, functions_may_underflow);
  tcase_add_test(c, underflow_is_carried_through_products);
  tcase_add_test(c, orders_of_narrow_updates_agree);
  tcase_add_test(c, casts_of_weights_with_other_scales_agree);
  tcase_add_test(c, compare_finds_the_first_difference);
  suite_add_tcase(suite, c);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_NORMAL);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed != 0;
}
