/* Which elements of outputs are compared with the reference, and how many. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/device.h"
#include "tuner/sample_places.h"
#include "tuner/verify.h"

#define OK(call) ck_assert_msg((call) == ARKE_OK, "%s", err.text)

static tune_tensor tensor_of(int rank, const int64_t *shape) {
  tune_tensor x = {.rank = rank, .elements = 1};
  for (int i = rank - 1; i >= 0; i--) {
    x.shape[i] = shape[i];
    x.strides[i] = x.elements;
    x.elements *= shape[i];
  }
  return x;
}

START_TEST(corners_come_first) {
  static const int64_t SHAPE[] = {7, 1, 5};
  tune_tensor x = tensor_of(3, SHAPE);
  int64_t coords[LIMIT_RANK], seen[4], n = 0;
  for (int64_t k = 0; k < 8; k++) {
    if (!tune_sample_place(&x, false, 1, k, coords)) continue;
    ck_assert_int_lt(n, 4);
    seen[n++] = coords[0] * 10 + coords[2];
    ck_assert_int_eq(coords[1], 0);
  }
  ck_assert_int_eq(n, 4);
  ck_assert_int_eq(seen[0], 0);
  int64_t sum = 0; /* of 0, 4, 60 and 64 */
  for (int i = 0; i < 4; i++)
    sum += seen[i] == 0 || seen[i] == 4 || seen[i] == 60 || seen[i] == 64 ? seen[i] : 1000;
  ck_assert_int_eq(sum, 128);
  static const int64_t PLAIN[] = {7, 5};
  x = tensor_of(2, PLAIN);
  ck_assert(tune_sample_place(&x, false, 1, 1, coords));
  ck_assert(coords[0] == 6 && coords[1] == 4);
}
END_TEST

START_TEST(places_lie_in_runs_of_a_row) {
  static const int64_t SHAPE[] = {100, 90, 64};
  tune_tensor x = tensor_of(3, SHAPE);
  int64_t coords[LIMIT_RANK], other[LIMIT_RANK];
  int rows[100] = {0}, columns[64] = {0}, last = 0;
  enum { N = 8 * 400 };
  for (int64_t k = 8; k < 8 + N; k++) {
    ck_assert(tune_sample_place(&x, false, 5, k, coords));
    ck_assert(tune_sample_place(&x, false, 5, 8 + (k - 8) / 8 * 8, other));
    ck_assert(coords[0] == other[0] && coords[1] == other[1]);
    for (int i = 0; i < 3; i++) ck_assert(coords[i] >= 0 && coords[i] < SHAPE[i]);
    rows[coords[0]]++;
    columns[coords[2]]++;
    last += coords[0] == 99 || coords[1] == 89 || coords[2] == 63;
  }
  ck_assert_int_gt(rows[99], 20 * 8); /* one row of 13 is the last one of each axis */
  ck_assert_int_gt(columns[63], 20 * 8);
  ck_assert_int_gt(last, N / 5);
  int met = 0;
  for (int i = 0; i < 64; i++) met += columns[i] > 0;
  ck_assert_int_eq(met, 64);
  static const int64_t NARROW[] = {1000, 2};
  x = tensor_of(2, NARROW);
  int same = 0;
  for (int64_t k = 4; k < 204; k++) {
    tune_sample_place(&x, false, 5, k, coords);
    tune_sample_place(&x, false, 5, k + 1, other);
    same += coords[0] == other[0];
  }
  ck_assert_int_lt(same, 60);
}
END_TEST

typedef struct bench {
  arena a;
  device *d;
  ir_problem p;
  tune_tensors t;
} bench;

static void open_bench(bench *b, const char *text, const char *bindings) {
  arke_error err = ARKE_ERROR_INIT;
  const ir_op *op;
  *b = (bench){.a = ARENA_INIT};
  OK(device_open_emulator("sm_90a", 1, &b->d, &err));
  OK(ir_op_parse(&b->a, text, &op, &err));
  OK(ir_problem_bind(op, bindings, &b->p, &err));
  OK(tune_tensors_create(b->d, &b->p, false, 0, 3, &b->t, &err));
}

static void close_bench(bench *b) {
  tune_tensors_release(&b->t);
  b->d->ops->close(b->d);
  arena_release(&b->a);
}

static tune_expected compute(const bench *b, double limit_s) {
  arke_error err = ARKE_ERROR_INIT;
  tune_reference r = {.samples = 4096, .limit_s = limit_s};
  tune_expected e;
  OK(tune_expected_compute(&b->t, &r, 9, &e, &err));
  return e;
}

/* More time only adds to what is sampled, and the same time samples the same. */
START_TEST(costlier_references_sample_less) {
  static const double LIMITS[] = {0, 0.001, 0.004, 0.004, 0.016};
  bench b;
  open_bench(&b, "f(X: f32[M,K], W: f32[N,K]) -> (Y: f32[M,N]) { Y[m,n] = sum(k) X[m,k] * W[n,k] }",
             "M=100 N=90 K=3000");
  tune_expected before = compute(&b, LIMITS[0]);
  ck_assert_int_eq(before.n, TUNE_PLACES_LEAST);
  for (size_t i = 1; i < sizeof LIMITS / sizeof *LIMITS; i++) {
    tune_expected e = compute(&b, LIMITS[i]);
    bool same = LIMITS[i] == LIMITS[i - 1];
    ck_assert_msg(same ? e.n == before.n : e.n > before.n, "%d after %d", e.n, before.n);
    for (int k = 0; k < before.n; k++) ck_assert(e.samples[k].offset == before.samples[k].offset);
    tune_expected_release(&before);
    before = e;
  }
  ck_assert_int_lt(before.n, 4096);
  tune_expected_release(&before);
  close_bench(&b);
}
END_TEST

/* Whatever an element costs, no output is without one. */
START_TEST(every_output_is_sampled) {
  bench b;
  open_bench(&b,
             "f(X: f32[M,K]) -> (Y: f32[M], Z: f32[M,K]) { Y[m] = sum(k) X[m,k]; Z[m,k] = X[m,k] + Y[m] }",
             "M=200 K=3000");
  tune_expected e = compute(&b, 0);
  int n[LIMIT_TENSORS] = {0};
  for (int k = 0; k < e.n; k++) n[e.samples[k].output]++;
  ck_assert_int_eq(n[1], TUNE_PLACES_LEAST);
  ck_assert_int_eq(n[2], TUNE_PLACES_LEAST);
  tune_expected_release(&e);
  close_bench(&b);
}
END_TEST

/* The two elements that are evaluated are zero, and no measure of how far the others of two kernels may lie
 * apart. */
START_TEST(few_samples_do_not_tell_how_large_errors_are) {
  enum { M = 60, N = 50, K = 3000 };
  bench b;
  arke_error err = ARKE_ERROR_INIT;
  tune_check check;
  open_bench(&b, "f(X: f32[M,K], W: f32[N,K]) -> (Y: f32[M,N]) { Y[m,n] = sum(k) X[m,k] * W[n,k] }",
             "M=60 N=50 K=3000");
  float *x = b.t.list[0].host, *y = b.t.list[2].host = calloc(M * N, sizeof *y);
  memset(x, 0, K * sizeof *x);
  memset(x + (M - 1) * K, 0, K * sizeof *x);
  tune_expected e = compute(&b, 0);
  for (int i = 0; i < M * N; i++) y[i] = i == 0 || i == M * N - 1 ? 0 : (float)(i % 101 - 50);
  OK(tune_expected_check(&e, &b.t, &check, &err));
  for (int i = 1; i < M * N - 1; i++) y[i] += 1e-4f;
  OK(tune_expected_check(&e, &b.t, &check, &err));
  y[700] += 1;
  ck_assert_int_eq(tune_expected_check(&e, &b.t, &check, &err), ARKE_ERR_MISMATCH);
  tune_expected_release(&e);
  close_bench(&b);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("sampling");
  TCase *c = tcase_create("sampling");
  tcase_add_test(c, corners_come_first);
  tcase_add_test(c, places_lie_in_runs_of_a_row);
  tcase_add_test(c, costlier_references_sample_less);
  tcase_add_test(c, every_output_is_sampled);
  tcase_add_test(c, few_samples_do_not_tell_how_large_errors_are);
  suite_add_tcase(suite, c);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_ENV);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
