/* Products by warps: what fits, every class of configuration on the emulator, views, the small problem, and
 * planted faults. */
#include <check.h>
#include <stdlib.h>

#include "template_cases.h"

static const kernel_template *mma(void) {
  return template_find("mma");
}

static const char matmul[] = "f(A: T[M,K], B: T[K,N]) -> (Y: T[M,N]) { Y[m,n] = sum(k) A[m,k] * B[k,n] }";
static const char linear[] = "f(X: T[M,K], W: T[N,K]) -> (Y: T[M,N]) { Y[m,n] = sum(k) X[m,k] * W[n,k] }";

static const char transposed[] = "f(A: T[K,M], B: T[N,K]) -> (Y: T[N,M]) { Y[n,m] = sum(k) A[k,m] * B[n,k] }";
static const char vector[] = "f(A: T[M,K], x: T[K]) -> (Y: T[M]) { Y[m] = sum(k) A[m,k] * x[k] }";
static const char batches[] =
    "f(A: T[B,M,K], C: T[B,K,N]) -> (Y: T[B,M,N]) { Y[b,m,n] = sum(k) A[b,m,k] * C[b,k,n] }";
static const char broadcast[] =
    "f(A: T[B,G,M,K], C: T[G,N,K]) -> (Y: T[B,G,M,N]) { Y[b,g,m,n] = sum(k) A[b,g,m,k] * C[g,n,k] }";
static const char leading[] =
    "f(A: T[...,M,K], C: T[...,K,N]) -> (Y: T[...,M,N]) { Y[...,m,n] = sum(k) A[...,m,k] * C[...,k,n] }";
static const char biased[] = "f(X: T[M,K], W: T[N,K], b: T[N], R: T[M,N]) -> (Y: T[M,N]) { Y[m,n] = "
                             "gelu((sum(k) X[m,k] * W[n,k]) + b[n]) + R[m,n] }";
static const char gated[] =
    "f(X: T[M,K], G: T[K,N], U: T[K,N]) -> (Y: T[M,N]) { Y[m,n] = silu(sum(k) X[m,k] * "
    "G[k,n]) * (sum(k) X[m,k] * U[k,n]) }";
static const char packed[] = "f(X: T[M,K], W: T[2*N,K]) -> (Y: T[M,N]) { Y[m,n] = silu(sum(k) X[m,k] * "
                             "W[n,k]) * (sum(k) X[m,k] * W[n + N,k]) }";
static const char swiglu[] =
    "f(X: T[B,2*H], W: T[H,N]) -> (Y: T[B,N]) { Y[b,o] = sum(h) silu(X[b,h]) * X[b,h + H] * W[h,o] }";
static const char dequantised[] = "f(X: T[M,K], Q: U[N,K], z: U[N], s: f32[N]) -> (Y: T[M,N]) { Y[m,n] = "
                                  "sum(k) X[m,k] * ((Q[n,k] - z[n]) * s[n]) }";
static const char group_scales[] =
    "f(X: T[M,32*K], Q: i4[N,32*K], s: T[N,K]) -> (Y: T[M,N]) { Y[m,n] = sum(k) "
    "X[m,k] * (Q[n,k] * s[n,k/32]) }";
static const char scaled[] =
    "f(X: T[M,K], W: T[K,N], a: f32[M], b: f32[N]) -> (Y: bf16[M,N]) { Y[m,n] = sum(k) "
    "X[m,k] * W[k,n] * a[m] * b[n] }";
static const char whole[] = "f(X: T[M,K], W: T[K,N]) -> (Y: i32[M,N]) { Y[m,n] = sum(k) X[m,k] * W[k,n] }";
static const char mixed[] = "f(X: T[M,K], W: U[N,K]) -> (Y: f32[M,N]) { Y[m,n] = sum(k) X[m,k] * W[n,k] }";
static const char gathered[] =
    "f(X: T[P,K], W: T[E,K,N], r: i32[M], e: i32[B]) -> (Y: T[B,M,N]) { Y[b,m,n] = "
    "sum(k) X[r[m],k] * W[e[b],k,n] }";
static const char two_loops[] =
    "f(X: T[M,C,S], W: T[N,S,C]) -> (Y: T[M,N]) { Y[m,n] = sum(c) sum(s) X[m,c,s] * W[n,s,c] }";
static const char some[] = "f(X: T[B,M,K], W: T[B,N,K], l: i32[B]) -> (Y: T[B,M,N]) { Y[b,m,n] = sum(k: k < "
                           "l[b]) X[b,m,k] * W[b,n,k] }";
static const char shared_heads[] = "f(Q: T[B,H,S,D], K: T[B,G,L,D]) -> (P: T[B,H,S,L]) { P[b,h,q,k] = sum(d) "
                                   "Q[b,h,q,d] * K[b,h/(H/G),k,d] }";
static const char in_place[] =
    "f(D: T[M,N], X: T[M,K], W: T[N,K]) -> (D) { D[m,n] = D[m,n] + sum(k) X[m,k] * "
    "W[n,k] }";
static const char two_outputs[] =
    "f(X: T[M,K], W: T[N,K]) -> (Y: f32[M,N], Z: T[M,N]) { Z[m,n] = sum(k) X[m,k] "
    "* W[n,k]; Y[m,n] = 2 * Z[m,n] }";

static const struct {
  const char *text, *bindings, *settings;
} classes[] = {
    /* Tiles, warps, stages; both orders of both operands. */
    {matmul, "T=bf16 M=72 N=80 K=64", "BLOCK_M=64,BLOCK_N=64,BLOCK_K=32,WARPS_M=2,WARPS_N=2,STAGES=3"},
    {linear, "T=f16 M=72 N=80 K=200", "BLOCK_M=64,BLOCK_N=32,BLOCK_K=64,WARPS_M=2,WARPS_N=1,STAGES=4"},
    {transposed, "T=bf16 M=72 N=40 K=136", "BLOCK_M=32,BLOCK_N=64,BLOCK_K=32,WARPS_M=1,WARPS_N=4,STAGES=2"},
    {transposed, "T=f16 M=136 N=24 K=48", "BLOCK_M=16,BLOCK_N=128,BLOCK_K=16,WARPS_M=1,WARPS_N=2,STAGES=6"},
    {matmul, "T=bf16 M=130 N=136 K=72", "BLOCK_M=128,BLOCK_N=128,BLOCK_K=64,WARPS_M=2,WARPS_N=4,STAGES=3"},
    {linear, "T=bf16 M=260 N=40 K=40", "BLOCK_M=256,BLOCK_N=32,BLOCK_K=128,WARPS_M=8,WARPS_N=1,STAGES=2"},
    {linear, "T=bf16 M=150 N=150 K=40", "BLOCK_M=16,BLOCK_N=16,BLOCK_K=32,WARPS_M=1,WARPS_N=1,GROUP=4"},
    /* Elements that do not line up; one row, one column, one term, none. */
    {matmul, "T=bf16 M=33 N=35 K=37", ""},
    {linear, "T=bf16 M=33 N=35 K=37", ""},
    {matmul, "T=f16 M=33 N=38 K=70", ""},
    {linear, "T=bf16 M=18 N=20 K=76", ""},
    {linear, "T=bf16 M=1 N=64 K=64", ""},
    {matmul, "T=bf16 M=64 N=1 K=64", ""},
    {matmul, "T=bf16 M=1 N=1 K=1", ""},
    {matmul, "T=bf16 M=5 N=7 K=0", ""},
    {biased, "T=f32 M=5 N=7 K=0", ""},
    {vector, "T=bf16 M=70 K=72", ""},
    {vector, "T=f32 M=7 K=9", ""},
    /* Parts of the terms. */
    {linear, "T=bf16 M=20 N=40 K=500", "BLOCK_M=16,BLOCK_N=32,BLOCK_K=32,WARPS_M=1,WARPS_N=1,SPLIT_K=4"},
    {biased, "T=f16 M=20 N=44 K=72", "BLOCK_M=32,BLOCK_N=64,BLOCK_K=16,WARPS_M=1,WARPS_N=2,SPLIT_K=16"},
    {gated, "T=bf16 M=20 N=33 K=100", "BLOCK_M=32,BLOCK_N=32,BLOCK_K=32,WARPS_M=1,WARPS_N=1,SPLIT_K=2"},
    {batches, "T=f32 B=3 M=20 N=33 K=100", "BLOCK_M=32,BLOCK_N=32,BLOCK_K=16,WARPS_M=1,WARPS_N=1,SPLIT_K=8"},
    /* Other types. */
    {matmul, "T=f32 M=72 N=68 K=40", ""},
    {matmul, "T=f32 M=72 N=68 K=40", "BLOCK_M=64,BLOCK_N=64,BLOCK_K=8,WARPS_M=2,WARPS_N=2,STAGES=4"},
    {linear, "T=f32 M=72 N=68 K=40", "BLOCK_M=64,BLOCK_N=64,BLOCK_K=16,WARPS_M=1,WARPS_N=4,STAGES=2"},
    {transposed, "T=f32 M=36 N=68 K=44", "BLOCK_M=32,BLOCK_N=32,BLOCK_K=32,WARPS_M=2,WARPS_N=2,STAGES=3"},
    {transposed, "T=f32 M=36 N=35 K=33", "BLOCK_M=64,BLOCK_N=32,BLOCK_K=16,WARPS_M=2,WARPS_N=2,STAGES=3"},
    {matmul, "T=f64 M=36 N=34 K=22", ""},
    {linear, "T=f64 M=36 N=33 K=35", ""},
    {whole, "T=i8 M=40 N=48 K=80", ""},
    {whole, "T=u8 M=33 N=35 K=37", ""},
    {whole, "T=i16 M=33 N=36 K=40", ""},
    {matmul, "T=i32 M=20 N=36 K=40", ""},
    {matmul, "T=i64 M=20 N=18 K=20", ""},
    {mixed, "T=i8 U=u8 M=20 N=36 K=96", ""},
    {mixed, "T=e4m3 U=e5m2 M=20 N=36 K=96", ""},
    {mixed, "T=e4m3 U=e4m3 M=17 N=36 K=95", ""},
    {mixed, "T=bf16 U=i8 M=20 N=36 K=96", ""},
    {mixed, "T=f16 U=i4 M=20 N=36 K=96", ""},
    {mixed, "T=f16 U=bf16 M=20 N=36 K=40", ""},
    {mixed, "T=f32 U=bf16 M=20 N=36 K=40", ""},
    {mixed, "T=f16 U=e2m1 M=20 N=36 K=64", ""},
    {scaled, "T=i8 M=40 N=48 K=80", ""},
    {scaled, "T=e4m3 M=40 N=48 K=80", ""},
    /* Batches, and operands that do not have them. */
    {batches, "T=bf16 B=3 M=20 N=40 K=72", ""},
    {batches, "T=f32 B=2 M=17 N=9 K=33", ""},
    {broadcast, "T=bf16 B=3 G=2 M=5 N=40 K=72", ""},
    {leading, "T=f16 ...=2x3 M=17 N=40 K=24", ""},
    {shared_heads, "T=bf16 B=2 H=4 G=2 S=17 L=24 D=64", ""},
    /* Before and after the product. */
    {biased, "T=bf16 M=20 N=40 K=72", ""},
    {biased, "T=bf16 M=21 N=39 K=71", ""},
    {gated, "T=bf16 M=20 N=40 K=72", ""},
    {packed, "T=f16 M=20 N=40 K=72", ""},
    {packed, "T=f32 M=20 N=40 K=24", ""},
    {swiglu, "T=bf16 B=20 N=40 H=24", ""},
    {dequantised, "T=bf16 U=i8 M=20 N=40 K=64", ""},
    {dequantised, "T=f16 U=i4 M=20 N=40 K=64", ""},
    {dequantised, "T=f16 U=u8 M=20 N=37 K=63", ""},
    {group_scales, "T=f16 M=20 N=40 K=2", ""},
    {gathered, "T=bf16 P=20 E=20 B=2 M=20 N=40 K=72", ""},
    {two_loops, "T=bf16 M=20 N=24 C=5 S=8", ""},
    {some, "T=bf16 B=3 M=20 N=24 K=40", ""},
    {in_place, "T=f32 M=20 N=24 K=40", ""},
    {two_outputs, "T=bf16 M=20 N=24 K=40", ""},
};

START_TEST(every_class) {
  arena a = ARENA_INIT;
  template_case c =
      template_case_bind(&a, mma(), classes[_i].text, classes[_i].bindings, classes[_i].settings);
  template_case_run(&a, &c, NULL, -1);
  arena_release(&a);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("mma");
  TCase *tests = tcase_create("emulator");
  tcase_set_timeout(tests, 120);
  tcase_add_loop_test(tests, every_class, 0, (int)(sizeof classes / sizeof classes[0]));
  suite_add_tcase(suite, tests);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_ENV);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
