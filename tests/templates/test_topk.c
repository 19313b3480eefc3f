/* The largest of each row: what fits, every class of configuration on the emulator, sizes, dtypes, ties and
 * special values, orders that fill buffers, views, and planted faults. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "template_cases.h"

static const kernel_template *topk(void) {
  return template_find("topk");
}

static const char plain[] = "t(X: T[M,N]) -> (V: T[M,K], I: i64[M,K]) { (V[i,k], I[i,k]) = topk(j) X[i,j] }";
static const char narrow[] =
    "t(X: T[M,N]) -> (V: f32[M,K], I: i32[M,K]) { (V[i,k], I[i,k]) = topk(j) X[i,j] }";
static const char mapped[] = "t(X: T[M,N], W: T[N], b: T[M]) -> (V: T[M,K], I: i64[M,K]) {"
                             " (V[i,k], I[i,k]) = topk(j) (abs(X[i,j]) * W[j] + b[i]) }";
static const char some[] = "t(X: T[M,N], from: i32[M], to: i32[M]) -> (V: T[M,K], I: i32[M,K]) {"
                           " (V[i,k], I[i,k]) = topk(j: j >= from[i] && j < to[i]) X[i,j] }";
static const char positive[] =
    "t(X: T[M,N]) -> (V: T[M,K], I: i64[M,K]) { (V[i,k], I[i,k]) = topk(j: X[i,j] > 0.5) X[i,j] }";
static const char flat[] = "t(X: T[N]) -> (V: T[K], I: i64[K]) { (V[k], I[k]) = topk(j) X[j] }";
static const char leading[] =
    "t(X: T[...,N]) -> (V: T[...,K], I: i64[...,K]) { (V[...,k], I[...,k]) = topk(j) X[...,j] }";
static const char deep[] =
    "t(X: T[A,B,N]) -> (V: T[B,A,K], I: i64[B,A,K]) { (V[b,a,k], I[b,a,k]) = topk(j) X[a,b,j] }";
static const char columns[] =
    "t(X: T[N,M]) -> (V: T[M,K], I: i64[M,K]) { (V[i,k], I[i,k]) = topk(j) X[j,i] }";

#define BY_WARP  "SELECT=0,SPLIT=1,BUFFER=2048"
#define BY_LISTS "SELECT=1,BUFFER=2048"
#define BUFFER   "SELECT=2"

static const template_class classes[] = {
    {plain, "T=f32 M=3 N=1024 K=8", ""},
    {plain, "T=f32 M=3 N=1000 K=8", BY_WARP ",THREADS=32,VECTOR=1,STRIPS=1"},
    {plain, "T=f32 M=5 N=1000 K=1", BY_WARP ",THREADS=64,VECTOR=4,STRIPS=2"},
    {plain, "T=bf16 M=5 N=2000 K=32", BY_WARP ",THREADS=128,VECTOR=8,STRIPS=4"},
    {plain, "T=f32 M=3 N=5000 K=8", BY_WARP ",THREADS=256,VECTOR=4,STRIPS=8,RESIDENT=1024"},
    {plain, "T=bf16 M=3 N=5000 K=8", BY_WARP ",THREADS=64,VECTOR=8,STRIPS=8,RESIDENT=1024"},
    {plain, "T=f16 M=3 N=3000 K=2", BY_LISTS ",THREADS=128,VECTOR=8,STRIPS=2,SPLIT=1"},
    {plain, "T=f32 M=2 N=3000 K=32", BY_LISTS ",THREADS=256,VECTOR=4,STRIPS=1,SPLIT=4"},
    {plain, "T=f32 M=1 N=5000 K=9", BY_LISTS ",THREADS=32,VECTOR=1,STRIPS=1,SPLIT=16"},
    {plain, "T=f32 M=1 N=17000 K=8", ""},
    {plain, "T=f64 M=2 N=700 K=8", BY_LISTS ",THREADS=64,VECTOR=2,STRIPS=1,SPLIT=1"},
    {plain, "T=i64 M=2 N=700 K=30", BY_LISTS ",THREADS=64,VECTOR=2,STRIPS=1,SPLIT=2"},
    {plain, "T=i32 M=2 N=700 K=8", BY_WARP ",THREADS=32,VECTOR=4,STRIPS=1"},
    {plain, "T=i8 M=2 N=704 K=8", BY_WARP ",THREADS=32,VECTOR=16,STRIPS=1"},
    {plain, "T=bool M=2 N=128 K=8", ""},
    {plain, "T=f32 M=3 N=2304 K=8", BUFFER ",THREADS=64,VECTOR=4,STRIPS=2,SPLIT=1,BUFFER=2048"},
    {plain, "T=f32 M=3 N=2560 K=64", BUFFER ",THREADS=128,VECTOR=4,STRIPS=2,SPLIT=1,BUFFER=2048"},
    {plain, "T=bf16 M=2 N=4100 K=257", BUFFER ",THREADS=256,VECTOR=4,STRIPS=1,SPLIT=1,BUFFER=2048"},
    {plain, "T=f32 M=1 N=5000 K=2048", BUFFER ",THREADS=512,VECTOR=4,STRIPS=1,SPLIT=1,BUFFER=4096"},
    {plain, "T=f32 M=1 N=8500 K=600", BUFFER ",THREADS=1024,VECTOR=1,STRIPS=2,SPLIT=2,BUFFER=4096"},
    {plain, "T=f16 M=2 N=4000 K=33", BUFFER ",THREADS=64,VECTOR=1,STRIPS=1,SPLIT=8,BUFFER=2048"},
    {plain, "T=f64 M=1 N=2500 K=100", BUFFER ",THREADS=128,VECTOR=2,STRIPS=1,SPLIT=1,BUFFER=2048"},
    {plain, "T=i64 M=1 N=4300 K=260", BUFFER ",THREADS=256,VECTOR=2,STRIPS=1,SPLIT=2,BUFFER=2048"},
    {plain, "T=f32 M=1 N=17000 K=257", ""},
    {narrow, "T=bf16 M=3 N=1000 K=40", ""},
    {mapped, "T=bf16 M=3 N=1000 K=8", ""},
    {mapped, "T=f32 M=3 N=1000 K=50", ""},
    {positive, "T=f32 M=3 N=1000 K=8", BY_WARP ",THREADS=64,VECTOR=2"},
    {positive, "T=f32 M=3 N=600 K=300", BUFFER ",THREADS=128,VECTOR=2,SPLIT=1"}, /* too few */
    {flat, "T=f32 N=3000 K=8", ""},
    {leading, "T=f32 ...=2x3 N=300 K=5", ""},
    {deep, "T=f32 A=3 B=2 N=300 K=5", ""},
    {columns, "T=f32 N=300 M=5 K=5", ""},
    {plain, "T=f32 M=3 N=5 K=9", BY_LISTS ",THREADS=64,VECTOR=1,STRIPS=1,SPLIT=2"},
    {plain, "T=f32 M=3 N=20 K=64", BUFFER ",THREADS=64,VECTOR=1,STRIPS=1,SPLIT=4,BUFFER=2048"},
    {plain, "T=i32 M=3 N=0 K=4", BY_WARP ",THREADS=32,VECTOR=1,STRIPS=1"},
    {plain, "T=f64 M=3 N=0 K=40", ""},
};

START_TEST(classes_are_right_and_assemble) {
  template_class_check(topk(), &classes[_i], -1);
}
END_TEST

static const int sizes[] = {1, 2, 7, 31, 32, 33, 255, 257, 1023, 4097};

/* The template's own choice for every number of winners, each at about half of the sizes: as many as there
 * are elements, one more, and many of many are among them. */
START_TEST(sizes_are_right) {
  static const char *const types[] = {"f32", "f16", "bf16", "f64", "i32"};
  static const int rows[] = {1, 2, 5, 17}, winners[] = {1, 2, 8, 32, 33, 64, 257};
  for (size_t i = (size_t)_i / 2 % 2; i < COUNT_OF(winners); i += 2) {
    arena a = ARENA_INIT;
    char bindings[64];
    snprintf(bindings, sizeof bindings, "T=%s M=%d N=%d K=%d", types[((size_t)_i + i) % 5],
             rows[((size_t)_i + i) % 4], sizes[_i], winners[i]);
    template_case c = template_case_bind(&a, topk(), plain, bindings, "");
    template_case_run(&a, &c, NULL, -1);
    arena_release(&a);
  }
}
END_TEST

static const char *const ways[] = {
    BY_WARP ",THREADS=64,VECTOR=2,STRIPS=2",
    BY_LISTS ",THREADS=128,VECTOR=1,STRIPS=1,SPLIT=1",
    BY_LISTS ",THREADS=64,VECTOR=2,STRIPS=1,SPLIT=4",
    BUFFER ",THREADS=64,VECTOR=2,STRIPS=1,SPLIT=1,BUFFER=2048",
    BUFFER ",THREADS=64,VECTOR=1,STRIPS=1,SPLIT=2,BUFFER=2048",
};

/* NaN first, the first of equals, infinities, both zeros the same. */
START_TEST(special_values_are_right) {
  static const double mixed[] = {1, NAN, -INFINITY, 2, 2, -0.0, 0, INFINITY, -3, -INFINITY, 5, 0};
  static const double few[] = {3, 1, 2, 3};
  static const double zeros[] = {0, -0.0, -0.0};
  static const double lowest[] = {-INFINITY}, all_nan[] = {NAN};
  static const char *const types[] = {"f32", "bf16", "f64"};
  arena a = ARENA_INIT;
  for (size_t i = 0; i < COUNT_OF(types); i++) {
    char bindings[64];
    snprintf(bindings, sizeof bindings, "T=%s M=3 N=400 K=20", types[i]);
    template_case c = template_case_bind(&a, topk(), plain, bindings, ways[_i]);
    lowered l = template_case_lower(&a, &c);
    template_case_run_kernel(&c, l, (run_view[LIMIT_TENSORS]){{.values = mixed, .n_values = 12}}, -1);
    template_case_run_kernel(&c, l, (run_view[LIMIT_TENSORS]){{.values = mixed + 1, .n_values = 7}}, -1);
    template_case_run_kernel(&c, l, (run_view[LIMIT_TENSORS]){{.values = few, .n_values = 4}}, -1);
    template_case_run_kernel(&c, l, (run_view[LIMIT_TENSORS]){{.values = zeros, .n_values = 3}}, -1);
    template_case_run_kernel(&c, l, (run_view[LIMIT_TENSORS]){{.values = lowest, .n_values = 1}}, -1);
    template_case_run_kernel(&c, l, (run_view[LIMIT_TENSORS]){{.values = all_nan, .n_values = 1}}, -1);
  }
  arena_release(&a);
}
END_TEST

START_TEST(integers_of_any_sign_are_right) {
  static const double values[] = {INT32_MIN, INT32_MAX, -1, 0, 1, INT32_MIN, 7, INT32_MAX};
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, topk(), plain, "T=i32 M=3 N=400 K=20", ways[_i]);
  template_case_run(&a, &c, (run_view[LIMIT_TENSORS]){{.values = values, .n_values = 8}}, -1);
  c = template_case_bind(&a, topk(), plain, "T=i64 M=2 N=10 K=20", ways[_i]); /* beyond the candidates */
  template_case_run(&a, &c, (run_view[LIMIT_TENSORS]){{.values = values, .n_values = 8}}, -1);
  arena_release(&a);
}
END_TEST

/* Rising rows: everything passes, so that lists are merged and buffers emptied again and again. */
START_TEST(rising_rows_are_right) {
  enum { N = 6000 };
  static double values[N];
  arena a = ARENA_INIT;
  for (int i = 0; i < N; i++) values[i] = i / 3;
  template_case c = template_case_bind(&a, topk(), plain, "T=f32 M=2 N=6000 K=30", ways[_i]);
  template_case_run(&a, &c, (run_view[LIMIT_TENSORS]){{.values = values, .n_values = N}}, -1);
  for (int i = 0; i < N; i++) values[i] = -i / 3;
  template_case_run(&a, &c, (run_view[LIMIT_TENSORS]){{.values = values, .n_values = N}}, -1);
  arena_release(&a);
}
END_TEST

START_TEST(ranges_are_right) {
  static const double from[] = {0, 100, 7, 1000, 40}, to[] = {1000, 103, 8, 5, 700};
  static const char *const settings[] = {"", BY_WARP ",THREADS=32,VECTOR=4,STRIPS=1",
                                         BUFFER ",THREADS=64,VECTOR=1,STRIPS=1,SPLIT=2,BUFFER=2048"};
  arena a = ARENA_INIT;
  for (size_t i = 0; i < COUNT_OF(settings); i++) {
    template_case c = template_case_bind(&a, topk(), some, "T=f32 M=5 N=1000 K=8", settings[i]);
    template_case_run(
        &a, &c,
        (run_view[LIMIT_TENSORS]){{0}, {.values = from, .n_values = 5}, {.values = to, .n_values = 5}}, -1);
  }
  arena_release(&a);
}
END_TEST

START_TEST(views_are_right) {
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, topk(), plain, "T=bf16 M=5 N=264 K=6", ways[_i]);
  run_view views[LIMIT_TENSORS] = {{0}};
  int any = space_value(topk()->space(c.t), &c.c, "VECTOR") > 1 ? 2 : 1;
  run_view_permuted(&c.p, 0, (int[]){1, 0}, 8, &views[0]);
  template_case_run(&a, &c, views, 1);
  run_view_permuted(&c.p, 0, (int[]){0, 1}, 3, &views[0]);
  run_view_permuted(&c.p, 1, (int[]){0, 1}, 3, &views[1]);
  run_view_permuted(&c.p, 2, (int[]){1, 0}, 1, &views[2]);
  template_case_run(&a, &c, views, any);
  views[0] = (run_view){.strided = true, .stride = {0, 1}, .offset = 3};
  template_case_run(&a, &c, views, any);
  arena_release(&a);
}
END_TEST

START_TEST(a_kernel_serves_other_sizes) {
  static const char *const others[] = {"T=f32 M=1 N=4 K=3", "T=f32 M=7 N=128 K=32", "T=f32 M=2 N=3000 K=1"};
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, topk(), plain, "T=f32 M=3 N=1024 K=20", ways[_i]);
  lowered l = template_case_lower(&a, &c);
  for (size_t i = 0; i < COUNT_OF(others); i++) {
    template_case other = c;
    arke_error err = ARKE_ERROR_INIT;
    ck_assert_int_eq(ir_problem_bind(c.p.op, others[i], &other.p, &err), ARKE_OK);
    template_case_run_kernel(&other, l, NULL, -1);
  }
  arena_release(&a);
}
END_TEST

START_TEST(large_tensors_have_wide_offsets) {
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, topk(), plain, "T=f32 M=32768 N=65536 K=20", ways[_i]);
  template_case small = c;
  topk()->reduced_problem(&c.p, c.t, &c.c, 2, &small.p);
  template_case_run_kernel(&small, template_case_lower(&a, &c), NULL, -1);
  arena_release(&a);
}
END_TEST

START_TEST(what_is_no_topk_is_refused) {
  static const template_refusal others[] = {
      {"t(X: T[M,N]) -> (Y: T[M]) { Y[i] = max(j) X[i,j] }", "T=f32 M=8 N=8", TEMPLATE_OPERATOR},
      {"t(X: T[M,N]) -> (Y: i64[M]) { Y[i] = argmax(j) X[i,j] }", "T=f32 M=8 N=8", TEMPLATE_OPERATOR},
      {"t(X: T[M,N]) -> (V: T[M,K], I: i64[M,K], Z: T[M,N]) {"
       " (V[i,k], I[i,k]) = topk(j) X[i,j]; Z[i,j] = X[i,j] }",
       "T=f32 M=8 N=8 K=2", TEMPLATE_OPERATOR},
      {"t(X: T[M,N]) -> (V: T[M,K], I: i64[M,K]) {"
       " m[i] = max(l) X[i,l]; (V[i,k], I[i,k]) = topk(j) (X[i,j] - m[i]) }",
       "T=f32 M=8 N=8 K=2", TEMPLATE_OPERATOR},
      {plain, "T=f32 M=8 N=5000 K=2049", TEMPLATE_SIZE},
      {plain, "T=f32 M=0 N=8 K=2", TEMPLATE_SIZE},
      {plain, "T=e2m1 M=8 N=8 K=2", TEMPLATE_DTYPE},
  };
  template_refuses_each(topk(), others, COUNT_OF(others));
}
END_TEST

START_TEST(missing_steps_are_found) {
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, topk(), plain, "T=f32 M=2 N=2500 K=20", ways[_i]);
  if (_i > 0) template_case_miss(&a, &c, "bar.sync"); /* a warp alone needs none */
  template_case_miss(&a, &c, "griddepcontrol.wait");
  if (_i < 3) template_case_miss(&a, &c, "shfl.sync.bfly");
  if (_i >= 3) template_case_miss(&a, &c, "atom.relaxed.cta");
  arena_release(&a);
}
END_TEST

START_TEST(out_of_memory_is_reported) {
  template_class_fail_allocations(topk(),
                                  &(template_class){plain, "T=f32 M=2 N=2500 K=20", ways[2 + 2 * _i]});
}
END_TEST

/* Many short rows by warps, few long ones split, many winners by buffers. */
START_TEST(choices_follow_the_shape) {
  static const struct {
    const char *bindings;
    int select;
    bool split;
  } shapes[] = {{"T=f32 M=100000 N=128 K=8", 0, false},
                {"T=f32 M=1 N=131072 K=8", 1, true},
                {"T=f32 M=32768 N=65536 K=1024", 2, false}};
  arena a = ARENA_INIT;
  for (size_t i = 0; i < COUNT_OF(shapes); i++) {
    template_case c = template_case_bind(&a, topk(), plain, shapes[i].bindings, "");
    const space *s = topk()->space(c.t);
    ck_assert_int_eq(space_value(s, &c.c, "SELECT"), shapes[i].select);
    ck_assert_int_eq(space_value(s, &c.c, "SPLIT") > 1, shapes[i].split);
    ck_assert_int_eq(template_feasible(topk(), &c.p, c.t, &c.c), TEMPLATE_OK);
  }
  arena_release(&a);
}
END_TEST

int main(void) {
  TCase *tests = template_tests("topk");
  int n_ways = (int)COUNT_OF(ways);
  tcase_add_loop_test(tests, classes_are_right_and_assemble, 0, (int)COUNT_OF(classes));
  tcase_add_loop_test(tests, sizes_are_right, 0, (int)COUNT_OF(sizes));
  tcase_add_loop_test(tests, special_values_are_right, 0, n_ways);
  tcase_add_loop_test(tests, integers_of_any_sign_are_right, 0, n_ways);
  tcase_add_loop_test(tests, rising_rows_are_right, 0, n_ways);
  tcase_add_test(tests, ranges_are_right);
  tcase_add_loop_test(tests, views_are_right, 0, n_ways);
  tcase_add_loop_test(tests, a_kernel_serves_other_sizes, 0, n_ways);
  tcase_add_loop_test(tests, large_tensors_have_wide_offsets, 0, n_ways);
  tcase_add_test(tests, what_is_no_topk_is_refused);
  tcase_add_loop_test(tests, missing_steps_are_found, 0, n_ways);
  tcase_add_loop_test(tests, out_of_memory_is_reported, 0, 2);
  tcase_add_test(tests, choices_follow_the_shape);
  return template_tests_run("topk", tests);
}
