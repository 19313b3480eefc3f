/* Products with few rows: what fits, every class of configuration on the emulator, views, and planted faults.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "template_cases.h"

static const kernel_template *skinny(void) {
  return template_find("skinny");
}

static const char linear[] = "f(X: T[M,K], W: T[N,K]) -> (Y: T[M,N]) { Y[m,n] = sum(k) X[m,k] * W[n,k] }";
static const char matmul[] = "f(A: T[M,K], B: T[K,N]) -> (Y: T[M,N]) { Y[m,n] = sum(k) A[m,k] * B[k,n] }";
static const char vector[] = "f(A: T[N,K], x: T[K]) -> (Y: T[N]) { Y[n] = sum(k) A[n,k] * x[k] }";
static const char with_bias[] = "f(X: T[M,K], W: T[N,K], b: T[N], R: T[M,N]) -> (Y: T[M,N]) {"
                                " Y[m,n] = gelu_tanh((sum(k) X[m,k] * W[n,k]) + b[n]) + R[m,n] }";
static const char gated[] = "f(X: T[M,K], G: T[N,K], U: T[N,K]) -> (Y: T[M,N]) {"
                            " Y[m,n] = silu(sum(k) X[m,k] * G[n,k]) * (sum(k) X[m,k] * U[n,k]) }";
static const char packed[] = "f(X: T[M,K], W: T[2*N,K]) -> (Y: T[M,N]) {"
                             " Y[m,n] = silu(sum(k) X[m,k] * W[n,k]) * (sum(k) X[m,k] * W[n + N,k]) }";
static const char by_channel[] =
    "f(X: T[M,K], W: U[N,K], s: f32[N]) -> (Y: T[M,N]) { Y[m,n] = sum(k) X[m,k] * (W[n,k] * s[n]) }";
static const char by_group[] = "f(X: T[M,64*G], W: U[N,64*G], s: T[N,G]) -> (Y: T[M,N]) {"
                               " Y[m,n] = sum(k) X[m,k] * (W[n,k] * s[n,k / 64]) }";
static const char zero_points[] = "f(X: T[M,64*G], W: U[N,64*G], s: T[N,G], z: U[N,G]) -> (Y: T[M,N]) {"
                                  " Y[m,n] = sum(k) X[m,k] * ((W[n,k] - z[n,k / 64]) * s[n,k / 64]) }";
static const char by_group_along_rows[] = "f(X: T[M,64*G], W: U[64*G,N], s: T[G,N]) -> (Y: T[M,N]) {"
                                          " Y[m,n] = sum(k) X[m,k] * (W[k,n] * s[k / 64,n]) }";
static const char blocks[] =
    "f(X: e4m3[M,128*G], a: f32[M,G], W: e4m3[128*H,128*G], b: f32[H,G]) -> (Y: bf16[M,128*H]) {"
    " Y[m,n] = sum(k) (X[m,k] * a[m,k / 128]) * (W[n,k] * b[n / 128,k / 128]) }";
static const char batched[] =
    "f(A: T[B,M,K], W: T[B,N,K]) -> (Y: T[B,M,N]) { Y[b,m,n] = sum(k) A[b,m,k] * W[b,n,k] }";
static const char experts[] =
    "f(X: T[M,K], W: T[E,N,K], e: i32[M]) -> (Y: T[M,N]) { Y[m,n] = sum(k) X[m,k] * W[e[m],n,k] }";
static const char whole[] = "f(X: i8[M,K], W: i8[N,K]) -> (Y: i32[M,N]) { Y[m,n] = sum(k) X[m,k] * W[n,k] }";
static const char two_loops[] =
    "f(X: T[M,C,H], W: T[C,N,H]) -> (Y: T[M,N]) { Y[m,n] = sum(c) sum(h) X[m,c,h] * W[c,n,h] }";

static const template_class classes[] = {
    {linear, "T=bf16 M=1 N=40 K=512", ""},
    {linear, "T=bf16 M=1 N=40 K=520",
     "MATH=0,SLOTS=4,ACROSS=1,VECTOR=8,UNROLL=2,WARPS_K=2,WARPS_N=1,SPLIT=1,STAGES=1"},
    {linear, "T=bf16 M=2 N=24 K=1032",
     "MATH=0,TOKENS=2,SLOTS=2,ACROSS=8,VECTOR=8,UNROLL=1,WARPS_K=4,WARPS_N=2,SPLIT=2,STAGES=2"},
    {linear, "T=f16 M=3 N=33 K=777",
     "MATH=0,TOKENS=4,SLOTS=2,ACROSS=1,VECTOR=1,UNROLL=4,WARPS_K=4,WARPS_N=1,SPLIT=1,STAGES=1"},
    {linear, "T=f32 M=5 N=17 K=268", ""},
    {linear, "T=f32 M=8 N=19 K=260",
     "MATH=0,TOKENS=8,SLOTS=1,ACROSS=8,VECTOR=4,UNROLL=1,WARPS_K=2,SPLIT=4,STAGES=2"},
    {linear, "T=f64 M=2 N=9 K=100", ""},
    {linear, "T=bf16 M=300 N=3 K=64", ""},
    {linear, "T=bf16 M=4 N=24 K=0", ""},
    {linear, "T=bf16 M=1 N=1 K=8", ""},
    {linear, "T=bf16 M=4 N=5 K=1", ""},
    {linear, "T=bf16 M=3 N=40 K=3104",
     "MATH=0,TOKENS=4,SLOTS=2,ACROSS=8,VECTOR=8,UNROLL=1,WARPS_K=1,SPLIT=32"},
    {gated, "T=bf16 M=9 N=24 K=520", "MATH=1,TOKENS=8,SLOTS=2,ACROSS=8,VECTOR=8,UNROLL=1,WARPS_K=1,SPLIT=32"},
    {linear, "T=bf16 M=1 N=1 K=9000",
     "MATH=0,TOKENS=1,SLOTS=1,ACROSS=1,VECTOR=8,UNROLL=1,WARPS_K=2,SPLIT=128"},
    {linear, "T=bf16 M=1 N=1 K=900", "MATH=0,TOKENS=1,SLOTS=1,ACROSS=1,VECTOR=4,UNROLL=1,WARPS_K=2,SPLIT=8"},
    {matmul, "T=bf16 M=1 N=264 K=77", ""},
    {matmul, "T=bf16 M=3 N=136 K=96",
     "MATH=0,TOKENS=4,SLOTS=8,ACROSS=8,VECTOR=8,UNROLL=4,WARPS_K=2,WARPS_N=2,SPLIT=1,STAGES=1"},
    {matmul, "T=f32 M=2 N=68 K=50",
     "MATH=0,TOKENS=2,SLOTS=8,ACROSS=8,VECTOR=4,UNROLL=2,WARPS_K=4,WARPS_N=1,SPLIT=2,STAGES=2"},
    {matmul, "T=f16 M=2 N=37 K=41", ""},
    {linear, "T=bf16 M=5 N=40 K=264",
     "MATH=1,TOKENS=8,SLOTS=2,VECTOR=8,UNROLL=2,ACROSS=8,WARPS_N=2,WARPS_K=2,SPLIT=1,STAGES=2"},
    {linear, "T=f16 M=13 N=75 K=1160",
     "MATH=1,TOKENS=16,SLOTS=4,VECTOR=8,UNROLL=1,ACROSS=8,WARPS_N=1,WARPS_K=4,SPLIT=4,STAGES=1"},
    {linear, "T=bf16 M=30 N=35 K=268",
     "MATH=1,TOKENS=32,SLOTS=2,VECTOR=4,UNROLL=4,ACROSS=8,WARPS_K=2,SPLIT=1,STAGES=2"},
    {matmul, "T=bf16 M=6 N=136 K=136",
     "MATH=1,TOKENS=8,SLOTS=8,VECTOR=8,UNROLL=4,ACROSS=8,WARPS_K=4,WARPS_N=1,SPLIT=1,STAGES=2"},
    {matmul, "T=f16 M=16 N=70 K=72",
     "MATH=1,TOKENS=16,SLOTS=4,VECTOR=2,UNROLL=8,ACROSS=8,WARPS_K=2,SPLIT=2,STAGES=1"},
    {gated, "T=bf16 M=9 N=24 K=264",
     "MATH=1,TOKENS=16,SLOTS=2,VECTOR=8,ACROSS=8,UNROLL=1,WARPS_K=2,SPLIT=1,STAGES=2"},
    {by_channel, "T=bf16 U=i8 M=7 N=24 K=272",
     "MATH=1,TOKENS=8,SLOTS=2,VECTOR=16,ACROSS=8,UNROLL=1,WARPS_K=2,SPLIT=1"},
    {by_channel, "T=f16 U=e4m3 M=7 N=24 K=272",
     "MATH=1,TOKENS=8,SLOTS=2,VECTOR=16,ACROSS=8,UNROLL=1,WARPS_K=2,SPLIT=1"},
    {by_channel, "T=bf16 U=i4 M=7 N=24 K=272",
     "MATH=1,TOKENS=8,SLOTS=2,VECTOR=16,ACROSS=8,UNROLL=1,WARPS_K=2,SPLIT=1"},
    {vector, "T=bf16 N=70 K=256", ""},
    {with_bias, "T=bf16 M=3 N=40 K=264", ""},
    {gated, "T=bf16 M=2 N=24 K=264", "MATH=0,SLOTS=2,WARPS_K=2,SPLIT=2,VECTOR=8,ACROSS=1"},
    {packed, "T=bf16 M=2 N=24 K=264", ""},
    {by_channel, "T=bf16 U=i8 M=2 N=24 K=272", ""},
    {by_channel, "T=bf16 U=e4m3 M=4 N=20 K=272",
     "MATH=0,VECTOR=16,SLOTS=2,UNROLL=1,ACROSS=1,WARPS_N=1,WARPS_K=2,SPLIT=1,STAGES=1"},
    /* Two bytes of weights a vector. */
    {by_channel, "T=bf16 U=i4 M=8 N=8 K=16",
     "MATH=0,TOKENS=1,SLOTS=1,ACROSS=8,VECTOR=4,UNROLL=1,WARPS_N=1,WARPS_K=1,SPLIT=1,STAGES=1,STREAM=0"},
    {by_channel, "T=f32 U=e2m1 M=3 N=8 K=64",
     "MATH=0,TOKENS=1,SLOTS=1,ACROSS=1,VECTOR=4,UNROLL=1,WARPS_N=1,WARPS_K=1,SPLIT=1,STAGES=1,STREAM=0"},
    {by_channel, "T=f16 U=i4 M=1 N=20 K=272",
     "MATH=0,VECTOR=16,SLOTS=2,UNROLL=1,ACROSS=1,WARPS_N=1,WARPS_K=2,SPLIT=1,STAGES=1"},
    {by_group, "T=bf16 U=i4 M=2 N=20 G=5", ""},
    {by_group, "T=bf16 U=i8 M=3 N=20 G=4",
     "MATH=0,TOKENS=4,VECTOR=8,SLOTS=2,UNROLL=1,ACROSS=1,WARPS_N=1,WARPS_K=2,SPLIT=2,STAGES=1"},
    {by_group, "T=bf16 U=i8 M=7 N=20 G=4",
     "MATH=1,TOKENS=8,SLOTS=2,ACROSS=8,VECTOR=16,UNROLL=2,SPLIT=2,STAGES=2"},
    {by_group, "T=bf16 U=i4 M=9 N=35 G=3",
     "MATH=1,TOKENS=16,SLOTS=4,ACROSS=8,VECTOR=8,UNROLL=1,WARPS_K=2,SPLIT=1"},
    {zero_points, "T=bf16 U=i4 M=5 N=35 G=3",
     "MATH=1,TOKENS=8,SLOTS=2,ACROSS=8,VECTOR=16,UNROLL=1,WARPS_K=2,SPLIT=1"},
    {zero_points, "T=f16 U=u8 M=2 N=35 G=3", ""},
    {by_group_along_rows, "T=f16 U=i8 M=5 N=48 G=3",
     "MATH=1,TOKENS=8,SLOTS=8,ACROSS=8,VECTOR=8,UNROLL=4,WARPS_K=2,SPLIT=1"},
    {blocks, "M=5 H=1 G=3", "MATH=1,TOKENS=8,SLOTS=2,ACROSS=8,VECTOR=16,UNROLL=1,WARPS_K=2,SPLIT=2,STAGES=2"},
    {blocks, "M=11 H=2 G=2", "MATH=1,TOKENS=16,SLOTS=4,ACROSS=8,VECTOR=16,UNROLL=2,WARPS_K=1,SPLIT=1"},
    {blocks, "M=2 H=1 G=1", ""},
    {batched, "T=bf16 B=5 M=2 N=20 K=136", ""},
    {whole, "M=2 N=24 K=272", ""},
    {two_loops, "T=bf16 M=2 N=24 C=5 H=40", ""},
};

START_TEST(classes_are_right_and_assemble) {
  template_class_check(skinny(), &classes[_i], 0);
}
END_TEST

/* Every number of tokens, sizes that nothing divides, and every kind of operand and epilogue. */
START_TEST(odd_sizes_are_right) {
  static const int tokens[] = {1, 2, 3, 5, 8, 16};
  static const char *const texts[] = {linear, matmul, with_bias, gated, packed};
  static const char *const sizes[] = {"T=bf16 N=35 K=77", "T=f16 N=33 K=104", "T=f32 N=35 K=77"};
  const char *text = texts[_i / (int)COUNT_OF(tokens)];
  arena a = ARENA_INIT;
  for (size_t i = 0; i < COUNT_OF(sizes); i++) {
    char bindings[64];
    snprintf(bindings, sizeof bindings, "%s M=%d", sizes[i], tokens[_i % (int)COUNT_OF(tokens)]);
    template_case c = template_case_bind(&a, skinny(), text, bindings, "");
    template_case_run(&a, &c, NULL, 0);
  }
  arena_release(&a);
}
END_TEST

/* Rows of weights that an index chooses for each token: a batch of products with one token each. */
START_TEST(gathered_weights_are_right) {
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, skinny(), experts, "T=bf16 M=3 E=4 N=20 K=136", "");
  template_case_run(&a, &c, (run_view[LIMIT_TENSORS]){{0}, {0}, {.below = 4}}, 0);
  arena_release(&a);
}
END_TEST

START_TEST(views_are_right) {
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, skinny(), linear, "T=bf16 M=3 N=40 K=264", "");
  run_view views[LIMIT_TENSORS] = {{0}};
  run_view_permuted(&c.p, 1, (int[]){1, 0}, 8, &views[1]);
  template_case_run(&a, &c, views, 1);
  run_view_permuted(&c.p, 1, (int[]){1, 0}, 1, &views[1]);
  template_case_run(&a, &c, views, 2);
  run_view_permuted(&c.p, 1, (int[]){0, 1}, 3, &views[1]);
  run_view_permuted(&c.p, 2, (int[]){0, 1}, 3, &views[2]);
  template_case_run(&a, &c, views, 2);
  c = template_case_bind(&a, skinny(), matmul, "T=bf16 M=3 N=40 K=64", "");
  views[2] = (run_view){0};
  run_view_permuted(&c.p, 1, (int[]){0, 1}, 1, &views[1]);
  template_case_run(&a, &c, views, 2);
  arena_release(&a);
}
END_TEST

START_TEST(missing_waits_are_found) {
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, skinny(), linear, "T=bf16 M=2 N=40 K=1032",
                                       "MATH=0,SLOTS=2,ACROSS=1,WARPS_K=2,SPLIT=2,VECTOR=8");
  template_case_miss(&a, &c, "bar.sync");
  template_case_miss(&a, &c, "barrier.cluster");
  template_case_miss(&a, &c, "griddepcontrol.wait");
  template_case_miss(&a, &c, "shfl");
  c = template_case_bind(
      &a, skinny(), linear, "T=bf16 M=5 N=40 K=1032",
      "MATH=1,TOKENS=8,SLOTS=2,ACROSS=8,VECTOR=8,UNROLL=1,WARPS_N=1,WARPS_K=2,SPLIT=32,STAGES=2");
  template_case_miss(&a, &c, "bar.sync");
  template_case_miss(&a, &c, "griddepcontrol.wait");
  arena_release(&a);
}
END_TEST

START_TEST(what_is_no_product_is_refused) {
  static const template_refusal others[] = {
      {"m(X: T[M,N]) -> (Y: T[M]) { Y[i] = sum(j) X[i,j] }", "T=f32 M=8 N=8", TEMPLATE_OPERATOR},
      {"m(X: T[M,K], W: T[N,K]) -> (Y: T[M,N]) { Y[m,n] = max(k) X[m,k] * W[n,k] }", "T=f32 M=8 N=8 K=8",
       TEMPLATE_OPERATOR},
      {"m(X: T[M,K], W: T[N,K]) -> (Y: T[M,N]) { Y[m,n] = sum(k: k <= m) X[m,k] * W[n,k] }",
       "T=f32 M=8 N=8 K=8", TEMPLATE_OPERATOR},
      {"m(X: f32[M,K], W: f32[N,K]) -> (Y: i4[M,N]) { Y[m,n] = sum(k) X[m,k] * W[n,k] }", "M=8 N=8 K=8",
       TEMPLATE_DTYPE},
  };
  template_refuses_each(skinny(), others, COUNT_OF(others));
}
END_TEST

START_TEST(out_of_memory_is_reported) {
  template_class_fail_allocations(skinny(), &(template_class){by_group, "T=bf16 U=i8 M=2 N=20 G=3", ""});
}
END_TEST

int main(void) {
  TCase *tests = template_tests("skinny");
  tcase_add_loop_test(tests, classes_are_right_and_assemble, 0, (int)COUNT_OF(classes));
  tcase_add_loop_test(tests, odd_sizes_are_right, 0, 30);
  tcase_add_test(tests, gathered_weights_are_right);
  tcase_add_test(tests, views_are_right);
  tcase_add_test(tests, missing_waits_are_found);
  tcase_add_test(tests, what_is_no_product_is_refused);
  tcase_add_test(tests, out_of_memory_is_reported);
  return template_tests_run("skinny", tests);
}
