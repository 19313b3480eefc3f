/* Products with few rows on warp-group matrix units: what fits, classes of configurations on the emulator,
 * odd sizes, views, and planted faults. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "template_cases.h"

static const kernel_template *slim(void) {
  return template_find("slim");
}

static const char linear[] = "f(X: T[M,K], W: T[N,K]) -> (Y: T[M,N]) { Y[m,n] = sum(k) X[m,k] * W[n,k] }";
static const char matmul[] = "f(A: T[M,K], B: T[K,N]) -> (Y: T[M,N]) { Y[m,n] = sum(k) A[m,k] * B[k,n] }";
static const char turned[] = "f(W: T[N,K], X: T[M,K]) -> (Y: f32[N,M]) { Y[n,m] = sum(k) W[n,k] * X[m,k] }";
static const char vector[] = "f(A: T[N,K], x: T[K]) -> (Y: T[N]) { Y[n] = sum(k) A[n,k] * x[k] }";
static const char with_bias[] = "f(X: T[M,K], W: T[N,K], b: T[N], R: T[M,N]) -> (Y: T[M,N]) {"
                                " Y[m,n] = gelu_tanh((sum(k) X[m,k] * W[n,k]) + b[n]) + R[m,n] }";
static const char gated[] = "f(X: T[M,K], G: T[N,K], U: T[N,K]) -> (Y: T[M,N]) {"
                            " Y[m,n] = silu(sum(k) X[m,k] * G[n,k]) * (sum(k) X[m,k] * U[n,k]) }";
static const char packed[] = "f(X: T[M,K], W: T[2*N,K]) -> (Y: T[M,N]) {"
                             " Y[m,n] = silu(sum(k) X[m,k] * W[n,k]) * (sum(k) X[m,k] * W[n + N,k]) }";
static const char packed_rows[] = "f(X: T[M,K], W: T[K,2*N]) -> (Y: T[M,N]) {"
                                  " Y[m,n] = silu(sum(k) X[m,k] * W[k,n]) * (sum(k) X[m,k] * W[k,n + N]) }";
static const char scaled[] = "f(X: T[M,K], W: T[N,K], s: f32[M], r: f32[N]) -> (Y: T[M,N]) {"
                             " Y[m,n] = sum(k) (X[m,k] * s[m]) * (W[n,k] * r[n]) }";

static const template_class classes[] = {
    {linear, "T=bf16 M=1 N=72 K=520", ""},
    {linear, "T=bf16 M=7 N=136 K=520", "SIDE=0,ROWS=64,TOKENS=8,BLOCK_K=64,STAGES=4,CONSUMERS=1,CLUSTER_K=1"},
    {linear, "T=f16 M=13 N=200 K=1160",
     "SIDE=0,STREAM=1,ROWS=64,TOKENS=16,BLOCK_K=128,STAGES=3,CONSUMERS=1,CLUSTER_K=2"},
    {linear, "T=bf16 M=5 N=99 K=2056",
     "SIDE=0,ROWS=128,TOKENS=8,BLOCK_K=256,STAGES=2,CONSUMERS=1,CLUSTER_K=4"},
    {linear, "T=bf16 M=30 N=301 K=712",
     "SIDE=0,ROWS=256,TOKENS=32,BLOCK_K=64,STAGES=3,CONSUMERS=2,CLUSTER_K=1"},
    {linear, "T=bf16 M=70 N=270 K=648",
     "SIDE=0,ROWS=128,TOKENS=48,BLOCK_K=64,STAGES=4,CONSUMERS=2,CLUSTER_K=8"},
    {linear, "T=f16 M=150 N=190 K=264",
     "SIDE=0,ROWS=128,TOKENS=128,BLOCK_K=128,STAGES=2,CONSUMERS=2,CLUSTER_K=2"},
    {linear, "T=bf16 M=200 N=330 K=136",
     "SIDE=0,ROWS=64,TOKENS=256,BLOCK_K=64,STAGES=2,CONSUMERS=1,CLUSTER_K=2"},
    {linear, "T=bf16 M=90 N=130 K=1032",
     "SIDE=0,ROWS=128,TOKENS=96,BLOCK_K=256,STAGES=2,CONSUMERS=1,CLUSTER_K=1"},
    {linear, "T=bf16 M=3 N=40 K=8", "SIDE=0,ROWS=64,TOKENS=8,BLOCK_K=64,STAGES=2,CONSUMERS=1,CLUSTER_K=4"},
    {matmul, "T=bf16 M=9 N=136 K=328",
     "SIDE=0,ROWS=64,TOKENS=16,BLOCK_K=64,STAGES=4,CONSUMERS=1,CLUSTER_K=2"},
    {matmul, "T=f16 M=40 N=264 K=520",
     "SIDE=0,ROWS=256,TOKENS=48,BLOCK_K=128,STAGES=2,CONSUMERS=2,CLUSTER_K=1"},
    {matmul, "T=bf16 M=24 N=200 K=392",
     "SIDE=0,ROWS=128,TOKENS=24,BLOCK_K=128,STAGES=3,CONSUMERS=2,CLUSTER_K=4"},
    {turned, "T=bf16 M=12 N=75 K=264",
     "SIDE=0,ROWS=64,TOKENS=16,BLOCK_K=64,STAGES=4,CONSUMERS=1,CLUSTER_K=2"},
    {vector, "T=f16 N=99 K=1160", "SIDE=0,ROWS=64,TOKENS=8,BLOCK_K=128,STAGES=3,CONSUMERS=1,CLUSTER_K=2"},
    {with_bias, "T=bf16 M=3 N=140 K=264",
     "SIDE=0,ROWS=64,TOKENS=8,BLOCK_K=64,STAGES=3,CONSUMERS=1,CLUSTER_K=2"},
    {gated, "T=bf16 M=9 N=140 K=520",
     "SIDE=0,ROWS=64,TOKENS=16,BLOCK_K=128,STAGES=2,CONSUMERS=1,CLUSTER_K=2"},
    {gated, "T=f16 M=60 N=130 K=264",
     "SIDE=0,ROWS=128,TOKENS=64,BLOCK_K=64,STAGES=2,CONSUMERS=2,CLUSTER_K=1"},
    {packed, "T=bf16 M=5 N=100 K=264", "SIDE=0,ROWS=64,TOKENS=8,BLOCK_K=64,STAGES=3,CONSUMERS=1,CLUSTER_K=2"},
    {packed_rows, "T=bf16 M=5 N=104 K=136",
     "SIDE=0,ROWS=64,TOKENS=8,BLOCK_K=64,STAGES=2,CONSUMERS=1,CLUSTER_K=1"},
    {linear, "T=bf16 M=5 N=136 K=520",
     "SIDE=1,ROWS=40,TOKENS=8,BLOCK_K=128,STAGES=3,CONSUMERS=1,CLUSTER_K=1"},
    {linear, "T=f16 M=70 N=150 K=1032",
     "SIDE=1,ROWS=56,TOKENS=128,BLOCK_K=64,STAGES=4,CONSUMERS=2,CLUSTER_K=2"},
    {linear, "T=bf16 M=100 N=260 K=328",
     "SIDE=1,ROWS=24,TOKENS=64,BLOCK_K=256,STAGES=2,CONSUMERS=1,CLUSTER_K=1"},
    {matmul, "T=bf16 M=20 N=136 K=328",
     "SIDE=1,ROWS=64,TOKENS=24,BLOCK_K=64,STAGES=4,CONSUMERS=1,CLUSTER_K=4"},
    {gated, "T=bf16 M=9 N=140 K=520", "SIDE=1,ROWS=80,TOKENS=16,BLOCK_K=64,STAGES=4,CONSUMERS=1,CLUSTER_K=2"},
    {linear, "T=bf16 M=90 N=140 K=520",
     "SIDE=1,ROWS=48,TOKENS=96,BLOCK_K=64,STAGES=3,CONSUMERS=2,CLUSTER_K=1"},
    {linear, "T=bf16 M=7 N=200 K=1160",
     "SIDE=0,ROWS=64,TOKENS=8,BLOCK_K=128,STAGES=3,CONSUMERS=1,CLUSTER_K=2,STAGGER=1"},
    {linear, "T=f16 M=19 N=100 K=712",
     "SIDE=1,ROWS=40,TOKENS=24,BLOCK_K=64,STAGES=4,CONSUMERS=1,CLUSTER_K=1,STAGGER=1"},
    {matmul, "T=bf16 M=20 N=200 K=328",
     "SIDE=0,ROWS=128,TOKENS=16,BLOCK_K=64,STAGES=2,CONSUMERS=2,CLUSTER_K=8,STAGGER=1"},
    {packed, "T=bf16 M=5 N=100 K=264",
     "SIDE=0,ROWS=64,TOKENS=8,BLOCK_K=64,STAGES=3,CONSUMERS=1,CLUSTER_K=2,STAGGER=1"},
    {linear, "T=bf16 M=7 N=200 K=1160",
     "SIDE=1,ROWS=40,TOKENS=8,BLOCK_K=128,STAGES=3,CONSUMERS=1,CLUSTER_K=2,STAGGER=1"},
    {matmul, "T=f16 M=11 N=136 K=328", "SIDE=1,ROWS=64,TOKENS=8,BLOCK_K=64,STAGES=4,CONSUMERS=1,CLUSTER_K=1"},
    {gated, "T=bf16 M=5 N=140 K=520", "SIDE=1,ROWS=24,TOKENS=8,BLOCK_K=256,STAGES=2,CONSUMERS=1,CLUSTER_K=2"},
    {scaled, "T=bf16 M=6 N=66 K=264", "SIDE=0,ROWS=64,TOKENS=8,BLOCK_K=64,STAGES=4,CONSUMERS=1,CLUSTER_K=4"},
};

START_TEST(classes_are_right_and_assemble) {
  template_class_check(slim(), &classes[_i], 0);
}
END_TEST

START_TEST(odd_sizes_are_right) {
  static const int tokens[] = {1, 2, 3, 5, 8, 17};
  static const char *const texts[] = {linear, matmul, with_bias, gated};
  static const char *const sizes[] = {"T=bf16 N=136 K=72", "T=f16 N=40 K=200"};
  const char *text = texts[_i / (int)COUNT_OF(tokens)];
  arena a = ARENA_INIT;
  for (size_t i = 0; i < COUNT_OF(sizes); i++) {
    char bindings[64];
    snprintf(bindings, sizeof bindings, "%s M=%d", sizes[i], tokens[_i % (int)COUNT_OF(tokens)]);
    template_case c = template_case_bind(&a, slim(), text, bindings, "");
    template_case_run(&a, &c, NULL, 0);
  }
  arena_release(&a);
}
END_TEST

/* Rows that lie apart. */
START_TEST(views_are_right) {
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, slim(), linear, "T=bf16 M=3 N=40 K=264", "");
  run_view views[LIMIT_TENSORS] = {{0}};
  run_view_permuted(&c.p, 0, (int[]){1, 0}, 8, &views[0]);
  run_view_permuted(&c.p, 1, (int[]){1, 0}, 8, &views[1]);
  run_view_permuted(&c.p, 2, (int[]){1, 0}, 3, &views[2]);
  template_case_run(&a, &c, views, 1);
  run_view_permuted(&c.p, 0, (int[]){0, 1}, 0, &views[0]);
  run_view_permuted(&c.p, 1, (int[]){0, 1}, 0, &views[1]);
  template_case_run(&a, &c, views, 2);
  arena_release(&a);
}
END_TEST

/* A kernel serves other sizes of its operator, and what it cannot is left to another way. */
START_TEST(other_sizes_are_right) {
  static const struct {
    const char *made, *run;
    int way;
  } sizes[] = {{"T=bf16 M=9 N=136 K=520", "T=bf16 M=30 N=76 K=264", 0},
               {"T=bf16 M=9 N=136 K=520", "T=bf16 M=3 N=300 K=2056", 0},
               {"T=bf16 M=9 N=136 K=520", "T=bf16 M=3 N=70 K=264", 1},
               {"T=bf16 M=9 N=136 K=520", "T=bf16 M=3 N=70 K=77", 2}};
  arena a = ARENA_INIT;
  const char *settings = "SIDE=0,ROWS=64,TOKENS=16,BLOCK_K=64,STAGES=3,CONSUMERS=1,CLUSTER_K=2";
  const char *text = _i % 2 ? linear : turned;
  template_case c = template_case_bind(&a, slim(), text, sizes[_i / 2].made, settings);
  template_case other = template_case_bind(&a, template_find("skinny"), text, sizes[_i / 2].run, "");
  template_case_run_kernel(&other, template_case_lower(&a, &c), NULL, sizes[_i / 2].way);
  arena_release(&a);
}
END_TEST

/* 128 CTAs have an SM each, so that two would not fit one; 64 leave room for those of the next launch. */
START_TEST(waves_of_all_sms_keep_ctas_alone) {
  arena a = ARENA_INIT;
  const char *settings = _i ? "SIDE=1,ROWS=80,TOKENS=8,BLOCK_K=128,STAGES=4,CONSUMERS=1,CLUSTER_K=1"
                            : "SIDE=1,ROWS=40,TOKENS=8,BLOCK_K=128,STAGES=8,CONSUMERS=1,CLUSTER_K=1";
  template_case c = template_case_bind(&a, slim(), linear, "T=bf16 M=8 N=5120 K=2880", settings);
  lowered l = template_case_lower(&a, &c);
  int64_t bytes = 0;
  arke_error err = ARKE_ERROR_INIT;
  ck_assert_int_eq(recipe_expr_eval(l.recipe.launches[0].smem_bytes, NULL, 0, &bytes, &err), ARKE_OK);
  ck_assert_int_eq(2 * bytes > c.t->smem_per_block_bytes - 2048, _i == 0);
  arena_release(&a);
}
END_TEST

START_TEST(missing_waits_are_found) {
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, slim(), linear, "T=bf16 M=5 N=70 K=1160",
                                       "SIDE=0,ROWS=64,TOKENS=8,BLOCK_K=64,STAGES=3,CONSUMERS=1,CLUSTER_K=2");
  template_case_miss(&a, &c, "barrier.cluster");
  template_case_miss(&a, &c, "griddepcontrol.wait");
  template_case_miss(&a, &c, "mbarrier.try_wait");
  template_case_miss(&a, &c, "wgmma.wait_group");
  arena_release(&a);
}
END_TEST

START_TEST(others_are_refused) {
  static const template_refusal others[] = {
      {"m(X: T[M,K], W: T[N,K]) -> (Y: T[M,N]) { Y[m,n] = sum(k) X[m,k] * W[n,k] }", "T=f32 M=8 N=80 K=80",
       TEMPLATE_DTYPE},
      {"m(X: T[M,K], W: T[N,K]) -> (Y: T[M,N]) { Y[m,n] = sum(k) X[m,k] * W[n,k] }", "T=bf16 M=8 N=80 K=81",
       TEMPLATE_ALIGNMENT},
      {"m(X: T[M,K], W: T[N,K]) -> (Y: T[M,N]) { Y[m,n] = sum(k) silu(X[m,k]) * W[n,k] }",
       "T=bf16 M=8 N=80 K=80", TEMPLATE_OPERATOR},
      {"m(X: T[K,M], W: T[N,K]) -> (Y: T[M,N]) { Y[m,n] = sum(k) X[k,m] * W[n,k] }", "T=bf16 M=8 N=80 K=80",
       TEMPLATE_OPERATOR},
      {"m(X: T[M,K], W: T[N,K]) -> (Y: T[M,N]) { Y[m,n] = sum(k) X[m,k] * W[n,k] }",
       "T=bf16 M=1032 N=1040 K=80", TEMPLATE_SIZE},
      {"m(X: T[B,M,K], W: T[B,N,K]) -> (Y: T[B,M,N]) { Y[b,m,n] = sum(k) X[b,m,k] * W[b,n,k] }",
       "T=bf16 B=2 M=8 N=80 K=80", TEMPLATE_OPERATOR},
      /* Rows of W are 16 bytes times so many, and its second half begins between two. */
      {packed_rows, "T=bf16 M=8 N=84 K=80", TEMPLATE_ALIGNMENT},
  };
  template_refuses_each(slim(), others, COUNT_OF(others));
}
END_TEST

START_TEST(out_of_memory_is_reported) {
  template_class_fail_allocations(slim(), &(template_class){with_bias, "T=bf16 M=2 N=72 K=136", ""});
}
END_TEST

int main(void) {
  TCase *tests = template_tests("slim");
  tcase_add_loop_test(tests, classes_are_right_and_assemble, 0, (int)COUNT_OF(classes));
  tcase_add_loop_test(tests, odd_sizes_are_right, 0, 24);
  tcase_add_test(tests, views_are_right);
  tcase_add_loop_test(tests, other_sizes_are_right, 0, 8);
  tcase_add_loop_test(tests, waves_of_all_sms_keep_ctas_alone, 0, 2);
  tcase_add_test(tests, missing_waits_are_found);
  tcase_add_test(tests, others_are_refused);
  tcase_add_test(tests, out_of_memory_is_reported);
  return template_tests_run("slim", tests);
}
