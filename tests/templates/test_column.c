/* Reductions along columns: what fits, every class of configuration on the emulator, special values, views,
 * and planted faults. */
#include <check.h>
#include <math.h>
#include <stdlib.h>

#include "template_cases.h"

static const kernel_template *column(void) {
  return template_find("column");
}

static const char sum[] = "s(X: T[M,N]) -> (Y: T[N]) { Y[j] = sum(i) X[i,j] }";
static const char middle[] = "s(X: T[A,M,N]) -> (Y: T[A,N]) { Y[a,j] = sum(i) X[a,i,j] }";
static const char mean_and_most[] =
    "s(X: T[M,N], w: f32[N]) -> (Y: T[N], Z: T[N]) {"
    " Y[j] = (sum(i) X[i,j] * X[i,j]) / M + w[j]; Z[j] = max(i) abs(X[i,j]) }";
static const char where_most[] = "s(X: T[M,N]) -> (Y: i64[N]) { Y[j] = argmax(i) X[i,j] }";
static const char where_least[] = "s(X: T[A,M,N]) -> (Y: i64[A,N]) { Y[a,j] = argmin(i) X[a,i,j] }";
static const char most[] = "s(X: T[M,N]) -> (Y: T[N]) { Y[j] = max(i) X[i,j] }";
static const char least[] = "s(X: T[M,N]) -> (Y: T[N]) { Y[j] = min(i) X[i,j] }";
static const char product[] = "s(X: T[M,N]) -> (Y: T[N]) { Y[j] = prod(i) X[i,j] }";
static const char truth[] =
    "s(X: T[M,N]) -> (Y: bool[N], Z: bool[N]) { Y[j] = any(i) X[i,j] > 2; Z[j] = all(i) X[i,j] < 2 }";
static const char some[] = "s(X: T[M,N]) -> (Y: T[N]) { Y[j] = sum(i: i % 3 == 1 && X[i,j] > 0) X[i,j] }";
static const char channels[] =
    "s(X: T[A,H,W,C]) -> (Y: f32[C]) { Y[c] = sum(a) sum(h) sum(w) X[a,h,w,c] / (A * H * W) }";
static const char around[] = "s(X: T[A,B,C,D]) -> (Y: f32[B,D]) { Y[b,d] = sum(a) sum(c) X[a,b,c,d] }";
static const char bag[] = "s(W: T[V,N], k: i64[A,M]) -> (Y: T[A,N]) { Y[a,j] = sum(i) W[k[a,i],j] }";
static const char vector[] = "s(x: T[M], X: T[M,N]) -> (Y: T[N]) { Y[j] = sum(i) x[i] * X[i,j] }";
static const char leading[] = "s(X: T[...,M,N]) -> (Y: T[...,N]) { Y[...,j] = sum(i) X[...,i,j] }";

static const template_class classes[] = {
    {sum, "T=f32 M=200 N=264", ""},
    {sum, "T=f32 M=200 N=263", ""},
    {sum, "T=bf16 M=300 N=520", "THREADS=128,ACROSS=8,UNROLL=4"},
    {sum, "T=bf16 M=300 N=520", "THREADS=512,ACROSS=64,UNROLL=2,VECTOR=4"},
    {sum, "T=f16 M=77 N=40", "THREADS=64,ACROSS=1,VECTOR=8,SPLIT=4"},
    {sum, "T=bf16 M=1000 N=6", "THREADS=256,ACROSS=4,VECTOR=2,SPLIT=16,UNROLL=2"},
    {sum, "T=f32 M=3000 N=1", ""},
    {sum, "T=f32 M=3000 N=3", ""},
    {sum, "T=f32 M=3000 N=16", "SPLIT=64"},
    {sum, "T=bf16 M=700 N=5", "THREADS=1024,SPLIT=512,ACROSS=8,UNROLL=8"},
    {sum, "T=bf16 M=700 N=520", "THREADS=256,ACROSS=32,VECTOR=8,UNROLL=2,SPLIT=8,CLUSTER=1"},
    {sum, "T=f32 M=200 N=263", "THREADS=128,ACROSS=8,VECTOR=1,UNROLL=1,SPLIT=4,CLUSTER=1"},
    {sum, "T=f64 M=100 N=38", "THREADS=64,ACROSS=64,SPLIT=2,UNROLL=1,CLUSTER=1"},
    {where_most, "T=bf16 M=150 N=72", "SPLIT=8,ACROSS=16,UNROLL=1,CLUSTER=1"},
    {mean_and_most, "T=bf16 M=150 N=72", "SPLIT=2,UNROLL=1,CLUSTER=1"},
    {sum, "T=f32 M=5 N=40", ""},
    {sum, "T=f32 M=1 N=40", ""},
    {sum, "T=f32 M=0 N=40", ""},
    {sum, "T=f64 M=100 N=38", "SPLIT=2"},
    {sum, "T=i8 M=100 N=48", "VECTOR=16,SPLIT=4"},
    {sum, "T=i32 M=100 N=38", ""},
    {sum, "T=i64 M=100 N=38", "SPLIT=8"},
    {middle, "T=bf16 A=5 M=30 N=72", ""},
    {middle, "T=f32 A=37 M=9 N=4", ""},
    {middle, "T=f32 A=7 M=90 N=3", "THREADS=64,ACROSS=8,SPLIT=4"},
    {mean_and_most, "T=bf16 M=150 N=72", ""},
    {mean_and_most, "T=f32 M=150 N=71", "SPLIT=16,UNROLL=1,THREADS=64,ACROSS=16"},
    {where_most, "T=f32 M=150 N=72", ""},
    {where_most, "T=bf16 M=150 N=72", "SPLIT=8,ACROSS=16"},
    {where_least, "T=i32 A=3 M=50 N=20", "SPLIT=4"},
    {most, "T=f16 M=150 N=72", "SPLIT=4"},
    {least, "T=f64 M=50 N=22", ""},
    {most, "T=i8 M=50 N=64", ""},
    {product, "T=f32 M=20 N=72", ""},
    {truth, "T=f32 M=40 N=72", "SPLIT=4"},
    {some, "T=f32 M=90 N=72", "SPLIT=2"},
    {channels, "T=bf16 A=3 H=7 W=9 C=24", "SPLIT=4"},
    {around, "T=f32 A=3 B=4 C=11 D=20", ""},
    {vector, "T=bf16 M=90 N=72", ""},
};

START_TEST(classes_are_right_and_assemble) {
  template_class_check(column(), &classes[_i], 0);
}
END_TEST

/* NaN wins, infinities stay, the first of equals is found, wherever rows are combined. */
START_TEST(special_values_are_right) {
  static const double values[] = {1, NAN, -INFINITY, 2, 2, -0.0, 0, INFINITY, -3, -INFINITY, 5};
  static const double lowest[] = {-INFINITY};
  static const char *const texts[] = {sum, most, least, where_most, product, truth};
  arena a = ARENA_INIT;
  for (size_t i = 0; i < COUNT_OF(texts); i++) {
    template_case c =
        template_case_bind(&a, column(), texts[i], "T=f32 M=44 N=64", "SPLIT=4,THREADS=64,UNROLL=2");
    template_case_run(&a, &c, (run_view[LIMIT_TENSORS]){{.values = values, .n_values = 11}}, 0);
    template_case_run(&a, &c, (run_view[LIMIT_TENSORS]){{.values = values + 2, .n_values = 4}}, 0);
    template_case_run(&a, &c, (run_view[LIMIT_TENSORS]){{.values = lowest, .n_values = 1}}, 0);
  }
  arena_release(&a);
}
END_TEST

START_TEST(gathered_rows_are_right) {
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, column(), bag, "T=bf16 V=30 A=5 M=12 N=72", "");
  template_case_run(&a, &c, (run_view[LIMIT_TENSORS]){{0}, {.below = 30}}, 0);
  arena_release(&a);
}
END_TEST

START_TEST(views_are_right) {
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, column(), middle, "T=bf16 A=5 M=30 N=72", "SPLIT=2");
  run_view views[LIMIT_TENSORS] = {{0}};
  run_view_permuted(&c.p, 0, (int[]){2, 0, 1}, 8, &views[0]);
  template_case_run(&a, &c, views, 1);
  run_view_permuted(&c.p, 0, (int[]){2, 1, 0}, 1, &views[0]);
  template_case_run(&a, &c, views, 2);
  run_view_permuted(&c.p, 0, (int[]){1, 2, 0}, 3, &views[0]);
  run_view_permuted(&c.p, 1, (int[]){0, 1}, 3, &views[1]);
  template_case_run(&a, &c, views, 2);
  views[0] = (run_view){.strided = true, .stride = {1, 0, 5}};
  template_case_run(&a, &c, views, 2);
  c = template_case_bind(&a, column(), leading, "T=f32 ...=2x3 M=30 N=20", "");
  template_case_run(&a, &c, NULL, 0);
  run_view_permuted(&c.p, 0, (int[]){3, 0, 2, 1}, 1, &views[0]);
  views[1] = (run_view){0};
  template_case_run(&a, &c, views, -1);
  arena_release(&a);
}
END_TEST

START_TEST(large_tensors_have_wide_offsets) {
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, column(), where_least, "T=bf16 A=3 M=65536 N=65536", "SPLIT=4");
  template_case small = c;
  column()->reduced_problem(&c.p, c.t, &c.c, 2, &small.p);
  template_case_run_kernel(&small, template_case_lower(&a, &c), NULL, 0);
  arena_release(&a);
}
END_TEST

START_TEST(what_is_no_column_reduction_is_refused) {
  static const template_refusal others[] = {
      {"m(X: T[M,N]) -> (Y: T[M]) { Y[i] = sum(j) X[i,j] }", "T=f32 M=8 N=8", TEMPLATE_OPERATOR},
      {"m(X: T[M,N]) -> (Y: T[M,N]) { Y[i,j] = X[i,j] }", "T=f32 M=8 N=8", TEMPLATE_OPERATOR},
      {"m(X: T[M,N]) -> (Y: T[M,N]) { s[j] = sum(i) X[i,j]; Y[i,j] = X[i,j] / s[j] }", "T=f32 M=8 N=8",
       TEMPLATE_OPERATOR},
      {"m(X: T[M,N]) -> (Y: T[N]) { s[j] = sum(i) X[i,j]; Y[j] = max(i) X[i,j] / s[j] }", "T=f32 M=8 N=8",
       TEMPLATE_OPERATOR},
      {"m(X: T[M,N]) -> (Y: T[N]) { Y[j] = sum(i) X[i + 1,j] }", "T=f32 M=8 N=8", TEMPLATE_OPERATOR},
      {"m(X: T[N,N], W: T[M,N]) -> (Y: T[N], Z: T[N]) { Y[j] = sum(i) X[i,j]; Z[j] = sum(k) W[k,j] }",
       "T=f32 M=8 N=9", TEMPLATE_OPERATOR},
      {"m(X: T[M]) -> (y: T[]) { y[] = sum(i) X[i] }", "T=f32 M=8", TEMPLATE_OPERATOR},
      {sum, "T=f32 M=8 N=0", TEMPLATE_SIZE},
      {sum, "T=i4 M=8 N=8", TEMPLATE_DTYPE},
  };
  template_refuses_each(column(), others, COUNT_OF(others));
}
END_TEST

START_TEST(missing_waits_are_found) {
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, column(), sum, "T=bf16 M=72 N=104", "SPLIT=2");
  template_case_miss(&a, &c, "bar");
  template_case_miss(&a, &c, "griddepcontrol.wait");
  template_case_miss(&a, &c, "shfl");
  arena_release(&a);
}
END_TEST

START_TEST(out_of_memory_is_reported) {
  template_class_fail_allocations(column(), &(template_class){mean_and_most, "T=bf16 M=72 N=104", "SPLIT=4"});
}
END_TEST

/* Few columns: the model shares their rows among CTAs. */
START_TEST(tall_matrices_are_split) {
  arena a = ARENA_INIT;
  const char *problem = "T=f32 M=1000000 N=16";
  template_case split = template_case_bind(&a, column(), sum, problem, "");
  template_case whole = template_case_bind(&a, column(), sum, problem, "SPLIT=1");
  ck_assert_int_gt(split.c.values[4], 16);
  ck_assert(template_cost_ns(column(), &split.p, split.t, &split.t->rates, &split.c) <
            template_cost_ns(column(), &whole.p, whole.t, &whole.t->rates, &whole.c) / 4);
  arena_release(&a);
}
END_TEST

int main(void) {
  TCase *tests = template_tests("column");
  tcase_add_loop_test(tests, classes_are_right_and_assemble, 0, (int)COUNT_OF(classes));
  tcase_add_test(tests, special_values_are_right);
  tcase_add_test(tests, gathered_rows_are_right);
  tcase_add_test(tests, views_are_right);
  tcase_add_test(tests, large_tensors_have_wide_offsets);
  tcase_add_test(tests, what_is_no_column_reduction_is_refused);
  tcase_add_test(tests, missing_waits_are_found);
  tcase_add_test(tests, out_of_memory_is_reported);
  tcase_add_test(tests, tall_matrices_are_split);
  return template_tests_run("column", tests);
}
