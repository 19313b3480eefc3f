/* Products whose rows are reduced and which are not written themselves. */
#include <check.h>
#include <math.h>
#include <stdlib.h>

#include "template_cases.h"

static const kernel_template *mma(void) {
  return template_find("mma");
}

#define PRODUCT "P[m,n] = sum(k) X[m,k] * W[n,k]; "
static const char statistics[] = "f(X: T[M,K], W: T[N,K]) -> (z: f32[M], s: f32[M]) { " PRODUCT
                                 "q[m] = max(n) P[m,n]; z[m] = q[m]; s[m] = sum(n) exp(P[m,n] - q[m]) }";
static const char logsumexp[] = "f(X: T[M,K], W: T[N,K], b: T[N], r: f32[M]) -> (z: T[M]) { " PRODUCT
                                "v[m,n] = 2 * P[m,n] + b[n]; q[m] = max(n) v[m,n]; "
                                "z[m] = log(sum(n) exp(v[m,n] - q[m])) + q[m] - r[m] }";
static const char sums[] = "f(X: T[M,K], W: T[N,K]) -> (s: f32[M], a: f32[M], l: f32[M]) { " PRODUCT
                           "s[m] = sum(n) P[m,n]; a[m] = max(n) abs(P[m,n]); l[m] = min(n) P[m,n] }";
static const char greedy[] = "f(X: T[M,K], W: T[N,K]) -> (i: i64[M]) { " PRODUCT "i[m] = argmax(n) P[m,n] }";
static const char some[] =
    "f(X: T[M,K], W: T[N,K], l: i32[M]) -> (z: f32[M], s: f32[M], c: bool[M]) { " PRODUCT
    "q[m] = max(n: n < l[m]) P[m,n]; z[m] = q[m]; "
    "s[m] = sum(n: n < l[m]) exp(P[m,n] - q[m]); c[m] = any(n) P[m,n] > 9 }";
static const char batches[] = "f(X: T[B,M,K], W: T[B,K,N]) -> (z: f32[B,M]) { z[b,m] = max(n) relu(sum(k) "
                              "X[b,m,k] * W[b,k,n]) }";
static const char gated[] =
    "f(X: T[M,K], G: T[N,K], U: T[N,K]) -> (z: f32[M]) { z[m] = max(n) silu(sum(k) X[m,k] * "
    "G[n,k]) * (sum(k) X[m,k] * U[n,k]) }";
static const char whole[] =
    "f(X: i8[M,K], W: i8[N,K]) -> (z: i32[M]) { z[m] = max(n) sum(k) X[m,k] * W[n,k] }";

static const struct {
  const char *text, *bindings, *settings;
} cases[] = {
    {statistics, "T=bf16 M=40 N=200 K=72", "BLOCK_M=32,BLOCK_N=64,BLOCK_K=32,WARPS_M=2,WARPS_N=2"},
    {statistics, "T=bf16 M=70 N=260 K=72", "BLOCK_M=64,BLOCK_N=128,BLOCK_K=32,WARPS_M=2,WARPS_N=4,GROUP=8"},
    {statistics, "T=f16 M=150 N=300 K=40", "BLOCK_M=128,BLOCK_N=256,BLOCK_K=32,WARPS_M=2,WARPS_N=4"},
    {statistics, "T=f16 M=20 N=300 K=40", "BLOCK_M=16,BLOCK_N=256,BLOCK_K=32,WARPS_M=1,WARPS_N=1"},
    {statistics, "T=bf16 M=33 N=131 K=35", ""},
    {statistics, "T=bf16 M=1 N=2500 K=24", "BLOCK_N=64"},
    {statistics, "T=f32 M=20 N=132 K=24", ""},
    {statistics, "T=bf16 M=20 N=1 K=24", ""},
    {logsumexp, "T=bf16 M=40 N=200 K=72", ""},
    {logsumexp, "T=f16 M=41 N=133 K=31", ""},
    {logsumexp, "T=bf16 M=3 N=70 K=0", ""},
    {sums, "T=bf16 M=40 N=200 K=72", ""},
    {sums, "T=f64 M=20 N=70 K=12", ""},
    {greedy, "T=bf16 M=40 N=200 K=72", ""},
    {greedy, "T=f32 M=20 N=133 K=8", ""},
    {some, "T=bf16 M=40 N=200 K=72", ""},
    {batches, "T=bf16 B=3 M=20 N=136 K=40", ""},
    {gated, "T=bf16 M=20 N=136 K=40", ""},
    {whole, "M=20 N=136 K=96", ""},
};

static template_case bind(arena *a, int i) {
  return template_case_bind(a, mma(), cases[i].text, cases[i].bindings, cases[i].settings);
}

START_TEST(reductions_are_right) {
  arena a = ARENA_INIT;
  template_case c = bind(&a, _i);
  run_view views[LIMIT_TENSORS] = {{0}};
  for (int i = 0; i < c.p.op->n_inputs; i++)
    if (ir_tensor_dtype(&c.p, i) == DTYPE_I32) views[i].below = 250;
  template_case_run(&a, &c, views, 0);
  arena_release(&a);
}
END_TEST

/* The same by warp groups: both schedules that they have, clusters, tiles past the edges. */
static const struct {
  const char *text, *bindings, *settings;
} warp_groups[] = {
    {statistics, "T=bf16 M=40 N=200 K=72", ""},
    {statistics, "T=bf16 M=200 N=520 K=136",
     "BLOCK_M=128,BLOCK_N=256,CONSUMERS=2,SCHEDULE=0,STAGES=3,PERSISTENT=1"},
    {statistics, "T=f16 M=200 N=520 K=200",
     "BLOCK_M=64,BLOCK_N=128,CONSUMERS=2,SCHEDULE=1,STAGES=4,PERSISTENT=1"},
    {statistics, "T=bf16 M=200 N=264 K=72",
     "BLOCK_M=128,BLOCK_N=64,CONSUMERS=1,SCHEDULE=0,STAGES=3,CLUSTER_N=2,PERSISTENT=0"},
    {statistics, "T=bf16 M=200 N=264 K=72",
     "BLOCK_M=64,BLOCK_N=64,CONSUMERS=1,SCHEDULE=0,STAGES=3,CLUSTER_M=2,RASTER=1"},
    {statistics, "T=bf16 M=33 N=131 K=40", ""},
    {logsumexp, "T=bf16 M=40 N=200 K=72", ""},
    {sums, "T=bf16 M=130 N=200 K=72", ""},
    {greedy, "T=bf16 M=40 N=201 K=72", ""},
    {some, "T=bf16 M=40 N=200 K=72", ""},
    {batches, "T=bf16 B=3 M=20 N=136 K=40", ""},
    {gated, "T=bf16 M=20 N=136 K=40", "BLOCK_N=64"},
    {whole, "M=20 N=136 K=96", ""},
};

START_TEST(reductions_by_warp_groups_are_right) {
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, template_find("gemm"), warp_groups[_i].text,
                                       warp_groups[_i].bindings, warp_groups[_i].settings);
  run_view views[LIMIT_TENSORS] = {{0}};
  for (int i = 0; i < c.p.op->n_inputs; i++)
    if (ir_tensor_dtype(&c.p, i) == DTYPE_I32) views[i].below = 250;
  template_case_run(&a, &c, views, 0);
  arena_release(&a);
}
END_TEST

START_TEST(warp_groups_assemble) {
  static const char *const settings[] = {"BLOCK_M=128,BLOCK_N=256,CONSUMERS=2,SCHEDULE=0,STAGES=4",
                                         "BLOCK_M=64,BLOCK_N=256,CONSUMERS=2,SCHEDULE=1,STAGES=4",
                                         "BLOCK_M=256,BLOCK_N=128,CONSUMERS=2,SCHEDULE=0,STAGES=4"};
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, template_find("gemm"), statistics, "T=bf16 M=8192 N=128256 K=4096",
                                       settings[_i]);
  template_case_assemble(&a, &c);
  template_case_run_reduced(&a, &c);
  arena_release(&a);
}
END_TEST

START_TEST(kernels_assemble) {
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, mma(), statistics, "T=bf16 M=8192 N=128256 K=4096",
                                       "BLOCK_M=128,BLOCK_N=256,BLOCK_K=32,STAGES=4,WARPS_M=2,WARPS_N=4");
  template_case_assemble(&a, &c);
  template_case_run_reduced(&a, &c);
  c = template_case_bind(&a, mma(), greedy, "T=bf16 M=8192 N=128256 K=4096", "");
  template_case_assemble(&a, &c);
  arena_release(&a);
}
END_TEST

START_TEST(views_are_right) {
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, mma(), logsumexp, "T=bf16 M=40 N=200 K=72", "");
  run_view views[LIMIT_TENSORS] = {{0}};
  run_view_permuted(&c.p, 0, (int[]){1, 0}, 8, &views[0]);
  template_case_run(&a, &c, views, 1);
  run_view_permuted(&c.p, 0, (int[]){1, 0}, 1, &views[0]);
  views[2] = (run_view){.strided = true, .stride = {3}};
  views[4] = (run_view){.strided = true, .stride = {2}};
  template_case_run(&a, &c, views, 2);
  arena_release(&a);
}
END_TEST

/* Rows that are -inf throughout, in one tile, or infinite somewhere; NaN. */
START_TEST(special_values_are_right) {
  static const double values[] = {1, NAN, -INFINITY, 2, 2, -0.0, 0, INFINITY, -3, -INFINITY, 5};
  static const double low[] = {-INFINITY};
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, mma(), logsumexp, "T=f32 M=22 N=200 K=8",
                                       "BLOCK_M=16,BLOCK_N=64,BLOCK_K=16,WARPS_M=1,WARPS_N=1");
  template_case_run(&a, &c, (run_view[LIMIT_TENSORS]){{.values = values, .n_values = 11}}, 0);
  template_case_run(&a, &c, (run_view[LIMIT_TENSORS]){{0}, {0}, {.values = values + 2, .n_values = 5}}, 0);
  template_case_run(&a, &c, (run_view[LIMIT_TENSORS]){{0}, {0}, {.values = values + 7, .n_values = 4}}, 0);
  template_case_run(&a, &c, (run_view[LIMIT_TENSORS]){{0}, {0}, {.values = low, .n_values = 1}}, 0);
  double tile[200] = {0};
  for (int i = 64; i < 128; i++) tile[i] = -INFINITY;
  template_case_run(&a, &c, (run_view[LIMIT_TENSORS]){{0}, {0}, {.values = tile, .n_values = 200}}, 0);
  arena_release(&a);
}
END_TEST

START_TEST(what_needs_the_product_is_refused) {
  template_refuses(mma(),
                   "f(X: T[M,K], W: T[N,K]) -> (z: f32[M], Y: f32[M,N]) { " PRODUCT "Y[m,n] = P[m,n]; "
                   "z[m] = max(n) Y[m,n] }",
                   "T=bf16 M=40 N=64 K=32", TEMPLATE_OPERATOR);
  template_refuses(mma(),
                   "f(X: T[M,K], W: T[N,K]) -> (z: f32[M]) { " PRODUCT "q[m] = (sum(n) P[m,n]) / N; "
                   "z[m] = sum(n) (P[m,n] - q[m]) * (P[m,n] - q[m]) }",
                   "T=bf16 M=40 N=64 K=32", TEMPLATE_OPERATOR);
  /* The differences are integers. */
  template_refuses(mma(),
                   "f(X: T[M,K], W: T[N,K]) -> (z: f32[M]) { " PRODUCT "q[m] = max(n) P[m,n]; "
                   "z[m] = sum(n) exp(P[m,n] - q[m]) }",
                   "T=i8 M=40 N=64 K=32", TEMPLATE_OPERATOR);
}
END_TEST

START_TEST(missing_waits_are_found) {
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, mma(), statistics, "T=bf16 M=40 N=200 K=72",
                                       "BLOCK_M=32,BLOCK_N=64,BLOCK_K=32,WARPS_M=2,WARPS_N=2");
  template_case_miss(&a, &c, "griddepcontrol.wait");
  template_case_miss(&a, &c, "bar.sync");
  arena_release(&a);
}
END_TEST

START_TEST(out_of_memory_is_reported) {
  template_class_fail_allocations(mma(), &(template_class){whole, "M=20 N=136 K=96", ""});
}
END_TEST

int main(void) {
  TCase *tests = template_tests("product rows");
  tcase_add_loop_test(tests, reductions_are_right, 0, (int)COUNT_OF(cases));
  tcase_add_loop_test(tests, reductions_by_warp_groups_are_right, 0, (int)COUNT_OF(warp_groups));
  tcase_add_loop_test(tests, warp_groups_assemble, 0, 3);
  tcase_add_test(tests, kernels_assemble);
  tcase_add_test(tests, views_are_right);
  tcase_add_test(tests, special_values_are_right);
  tcase_add_test(tests, what_needs_the_product_is_refused);
  tcase_add_test(tests, missing_waits_are_found);
  tcase_add_test(tests, out_of_memory_is_reported);
  return template_tests_run("product rows", tests);
}
