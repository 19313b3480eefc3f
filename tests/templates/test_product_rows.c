/* Products whose rows are reduced: which are not written themselves, or of which a tile has whole rows. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

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

/* Outputs of elements of whole rows. */
#define QUANTISED(product, largest)                                                                          \
  product "a[m] = max(n) abs(P[m,n]); s[m] = a[m] == 0 ? 1 : a[m] / " largest "; Q[m,n] = P[m,n] / s[m] }"
static const char quantised[] =
    "f(X: T[M,K], W: T[N,K]) -> (Q: e4m3[M,N], s: f32[M]) { " QUANTISED(PRODUCT, "448");
static const char quantised_sums[] = "f(X: i8[M,K], W: i8[N,K], b: f32[N]) -> (Q: i8[M,N], s: f32[M]) { "
                                     "P[m,n] = b[n] + sum(k) X[m,k] * W[n,k]; " QUANTISED("", "127");
static const char quantised_groups[] =
    "f(X: T[M,K], G: T[H,64,K], U: T[H,64,K]) -> (Q: e4m3[M,H,64], s: f32[M,H]) { p[m,h,n] = silu(sum(k) "
    "X[m,k] * G[h,n,k]) * sum(k) X[m,k] * U[h,n,k]; s[m,h] = max(max(n) abs(p[m,h,n]), 1e-10) / 448; "
    "Q[m,h,n] = p[m,h,n] / s[m,h] }";
static const char normed[] =
    "f(X: T[M,K], W: T[N,K], R: T[M,N], g: T[N]) -> (Y: T[M,N]) { Z[m,n] = cast<T>(R[m,n] + sum(k) X[m,k] * "
    "W[n,k]); q[m] = sum(n) Z[m,n] * Z[m,n]; Y[m,n] = Z[m,n] * rsqrt(q[m] / N + 1e-6) * g[n] }";
static const char softmax[] =
    "f(X: T[M,K], W: T[N,K]) -> (Y: T[M,N], l: f32[M]) { " PRODUCT "q[m] = max(n) P[m,n]; s[m] = sum(n) "
    "exp(P[m,n] - q[m]); Y[m,n] = exp(P[m,n] - q[m]) / s[m]; l[m] = q[m] + log(s[m]) }";
static const char ragged[] =
    "f(X: T[R,K], W: T[E,N,K], ends: i32[E]) -> (Q: e4m3[R,N], s: f32[R]) { g[r] = sum(e: ends[e] <= r) 1; "
    "p[r,n] = g[r] < E ? sum(k) X[r,k] * W[g[r],n,k] : 0; s[r] = max(max(n) abs(p[r,n]), 1e-10) / 448; "
    "Q[r,n] = p[r,n] / s[r] }";

static const struct {
  const char *template, *text, *bindings, *settings;
} whole_rows[] = {
    {"mma", quantised, "T=bf16 M=40 N=48 K=72", "BLOCK_M=32,BLOCK_N=64,BLOCK_K=32,WARPS_M=2,WARPS_N=2"},
    {"mma", quantised, "T=f16 M=70 N=256 K=40", "BLOCK_M=64,BLOCK_N=256,BLOCK_K=32,WARPS_M=4,WARPS_N=4"},
    {"mma", quantised, "T=bf16 M=33 N=131 K=35", ""},
    {"mma", quantised, "T=bf16 M=20 N=1 K=0", ""},
    {"mma", quantised, "T=f32 M=20 N=60 K=24", ""},
    {"mma", quantised_sums, "M=40 N=100 K=96", ""},
    {"mma", quantised_groups, "T=bf16 M=40 H=3 K=72", ""},
    {"mma", normed, "T=bf16 M=40 N=100 K=40", ""},
    {"mma", softmax, "T=bf16 M=40 N=100 K=40", ""},
    {"mma", ragged, "T=bf16 R=70 N=48 K=40 E=5", ""},
    {"gemm", quantised, "T=bf16 M=200 N=256 K=136",
     "BLOCK_M=128,BLOCK_N=256,CONSUMERS=2,SCHEDULE=0,STAGES=3,PERSISTENT=1"},
    {"gemm", quantised, "T=f16 M=200 N=120 K=200",
     "BLOCK_M=64,BLOCK_N=128,CONSUMERS=2,SCHEDULE=1,STAGES=4,PERSISTENT=1"},
    {"gemm", quantised, "T=bf16 M=33 N=35 K=40", ""},
    {"gemm", quantised_sums, "M=130 N=100 K=96", ""},
    {"gemm", quantised_groups, "T=bf16 M=130 H=3 K=72", "BLOCK_M=128,BLOCK_N=64,CONSUMERS=1,STAGES=4"},
    {"gemm", normed, "T=bf16 M=300 N=256 K=264",
     "BLOCK_M=128,BLOCK_N=256,CONSUMERS=2,SCHEDULE=2,STAGES=2,PERSISTENT=1,STAGED=0"},
    {"gemm", normed, "T=bf16 M=130 N=104 K=40", ""},
    {"gemm", softmax, "T=bf16 M=70 N=100 K=40", ""},
    {"gemm", ragged, "T=bf16 R=70 N=48 K=40 E=5", ""},
};

/* One kernel, but for the list of tiles that ragged groups take. */
START_TEST(whole_rows_are_right) {
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, template_find(whole_rows[_i].template), whole_rows[_i].text,
                                       whole_rows[_i].bindings, whole_rows[_i].settings);
  const double ends[] = {9, 9, 10, 43, 66};
  run_view views[LIMIT_TENSORS] = {{0}};
  template_fill_views(&c.p, &(template_input){"ends", TEMPLATE_VALUES(ends)}, 1, views);
  lowered l = template_case_lower(&a, &c);
  bool listed = whole_rows[_i].text == ragged && strcmp(whole_rows[_i].template, "gemm") == 0;
  ck_assert_int_eq(l.recipe.n_launches, listed ? 2 : 1);
  template_case_run(&a, &c, views, 0);
  template_case_run_reduced(&a, &c);
  arena_release(&a);
}
END_TEST

/* Tensors that are neither contiguous nor aligned; a row of zeros and one with NaN. */
START_TEST(whole_rows_of_views_are_right) {
  static const double values[] = {1, 0, -2, 3, 0.5, -7, 2};
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, mma(), quantised, "T=bf16 M=40 N=131 K=72", "");
  run_view views[LIMIT_TENSORS] = {{0}};
  run_view_permuted(&c.p, 0, (int[]){1, 0}, 1, &views[0]);
  run_view_permuted(&c.p, 2, (int[]){1, 0}, 1, &views[2]);
  views[3] = (run_view){.strided = true, .stride = {3}};
  template_case_run(&a, &c, views, 2);
  double x[40 * 72] = {0};
  for (int i = 72; i < 40 * 72; i++) x[i] = values[i % 7];
  x[5 * 72] = NAN;
  static const char *const templates[] = {"mma", "gemm"};
  for (size_t i = 0; i < COUNT_OF(templates); i++) {
    c = template_case_bind(&a, template_find(templates[i]), quantised, "T=bf16 M=40 N=128 K=72", "");
    template_case_run(&a, &c, (run_view[LIMIT_TENSORS]){{.values = x, .n_values = 40 * 72}}, 0);
  }
  arena_release(&a);
}
END_TEST

/* A row in several tiles is two steps, and so is one whose product alone has more tiles; one without columns
 * is in no tile. */
START_TEST(other_rows_take_two_steps) {
  static const char *const bindings[] = {"T=bf16 M=20 N=300 K=40", "T=bf16 M=20 N=200 K=40",
                                         "T=bf16 M=20 N=0 K=40"};
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, template_find("compose"), quantised, bindings[_i], "");
  lowered l = template_case_lower(&a, &c);
  ck_assert_int_ge(l.recipe.n_launches, 2);
  template_case_run(&a, &c, NULL, 0);
  arena_release(&a);
}
END_TEST

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
  c = template_case_bind(&a, template_find("gemm"), quantised_groups, "T=bf16 M=8192 H=32 K=4096",
                         "BLOCK_M=128,BLOCK_N=128,CONSUMERS=2,SCHEDULE=0,STAGES=4");
  template_case_assemble(&a, &c);
  c = template_case_bind(&a, template_find("gemm"), quantised, "T=bf16 M=8192 N=256 K=4096",
                         "BLOCK_M=128,BLOCK_N=256,CONSUMERS=2,SCHEDULE=0,STAGES=4");
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
                   "T=bf16 M=40 N=264 K=32", TEMPLATE_SIZE);
  template_refuses(template_find("gemm"), quantised, "T=bf16 M=40 N=264 K=32", TEMPLATE_SIZE);
  template_refuses(mma(), quantised, "T=bf16 M=40 N=0 K=32", TEMPLATE_SIZE);
  template_refuses(template_find("gemm"), quantised_groups, "T=bf16 M=40 H=0 K=32", TEMPLATE_SIZE);
  /* The columns are not the output's last axis. */
  template_refuses(mma(),
                   "f(X: T[M,K], W: T[N,K]) -> (Y: f32[N,M]) { " PRODUCT "q[m] = max(n) P[m,n]; Y[n,m] = "
                   "P[m,n] - q[m] }",
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
  c = template_case_bind(&a, mma(), quantised, "T=bf16 M=40 N=48 K=72",
                         "BLOCK_M=32,BLOCK_N=64,BLOCK_K=32,WARPS_M=2,WARPS_N=2");
  template_case_miss(&a, &c, "bar.sync");
  arena_release(&a);
}
END_TEST

START_TEST(out_of_memory_is_reported) {
  template_class_fail_allocations(mma(), &(template_class){whole, "M=20 N=136 K=96", ""});
  template_class_fail_allocations(mma(), &(template_class){quantised, "T=bf16 M=20 N=64 K=32", ""});
  template_class_fail_allocations(template_find("gemm"),
                                  &(template_class){quantised, "T=bf16 M=20 N=64 K=32", ""});
}
END_TEST

int main(void) {
  TCase *tests = template_tests("product rows");
  tcase_add_loop_test(tests, reductions_are_right, 0, (int)COUNT_OF(cases));
  tcase_add_loop_test(tests, reductions_by_warp_groups_are_right, 0, (int)COUNT_OF(warp_groups));
  tcase_add_loop_test(tests, whole_rows_are_right, 0, (int)COUNT_OF(whole_rows));
  tcase_add_test(tests, whole_rows_of_views_are_right);
  tcase_add_loop_test(tests, other_rows_take_two_steps, 0, 3);
  tcase_add_loop_test(tests, warp_groups_assemble, 0, 3);
  tcase_add_test(tests, kernels_assemble);
  tcase_add_test(tests, views_are_right);
  tcase_add_test(tests, special_values_are_right);
  tcase_add_test(tests, what_needs_the_product_is_refused);
  tcase_add_test(tests, missing_waits_are_found);
  tcase_add_test(tests, out_of_memory_is_reported);
  return template_tests_run("product rows", tests);
}
