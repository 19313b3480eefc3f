/* Products by warps: what fits, every class of configuration on the emulator, views, the small problem, and
 * planted faults. */
#include <check.h>
#include <math.h>
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
static const char rounded[] = "f(X: T[M,K], W: U[N,K]) -> (Y: bf16[M,N]) { Y[m,n] = sum(k) X[m,k] * W[n,k] }";
static const char tf32[] =
    "f(X: T[M,K], W: U[N,K]) -> (Y: f32[M,N]) { Y[m,n] = sum(k) tf32(X[m,k]) * tf32(W[n,k]) }";
static const char tf32_transposed[] =
    "f(X: f32[K,M], W: f32[K,N]) -> (Y: f32[M,N]) { Y[m,n] = sum(k) tf32(X[k,m]) * tf32(W[k,n]) }";
static const char tf32_computed[] = "f(X: f32[M,K], W: f32[N,K]) -> (Y: f32[M,N]) { Y[m,n] = sum(k) "
                                    "tf32(-X[m,k]) * tf32(max(W[n,k], 0)) }";
static const char tf32_half[] =
    "f(X: f32[M,K], W: f32[N,K]) -> (Y: f32[M,N]) { Y[m,n] = sum(k) tf32(X[m,k]) * W[n,k] }";
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

static const char every_second[] =
    "f(X: T[M,2*K], W: T[N,2*K]) -> (Y: T[M,N]) { Y[m,n] = sum(k: k < K) X[m,2*k + 1] * W[n,2*k] }";
static const char halves[] = "f(X: T[M,2*K], W: T[N,K]) -> (Y: T[M,N]) { Y[m,n] = sum(k) X[m,2*k] * W[n,k] }";
static const char backward[] =
    "f(X: T[M,K], W: T[K,N]) -> (Y: T[M,N]) { Y[m,n] = sum(k) X[m,K-1-k] * W[k,n] }";

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
    {linear, "T=bf16 M=150 N=150 K=40", "BLOCK_M=16,BLOCK_N=16,BLOCK_K=32,WARPS_M=1,WARPS_N=1,GROUP=8"},
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
    /* Terms that lie apart, or the other way round. */
    {every_second, "T=bf16 M=17 N=18 K=16", ""},
    {halves, "T=bf16 M=33 N=34 K=66", ""},
    {halves, "T=f32 M=17 N=20 K=64", ""},
    {backward, "T=bf16 M=33 N=34 K=64", ""},
    /* Parts of the terms. */
    {linear, "T=bf16 M=20 N=40 K=500", "BLOCK_M=16,BLOCK_N=32,BLOCK_K=32,WARPS_M=1,WARPS_N=1,SPLIT_K=4"},
    {biased, "T=f16 M=20 N=44 K=72", "BLOCK_M=32,BLOCK_N=64,BLOCK_K=16,WARPS_M=1,WARPS_N=2,SPLIT_K=16"},
    {gated, "T=bf16 M=20 N=33 K=100", "BLOCK_M=32,BLOCK_N=32,BLOCK_K=32,WARPS_M=2,WARPS_N=2,SPLIT_K=2"},
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
    {tf32, "T=f32 U=f32 M=72 N=68 K=40", ""},
    {tf32, "T=f32 U=f32 M=33 N=35 K=37", ""},
    {tf32, "T=f32 U=f32 M=72 N=68 K=100", "BLOCK_M=64,BLOCK_N=64,BLOCK_K=16,WARPS_M=2,WARPS_N=2,STAGES=4"},
    {tf32, "T=f32 U=bf16 M=20 N=36 K=40", ""},
    {tf32, "T=f16 U=f32 M=20 N=36 K=40", ""},
    {tf32_transposed, "M=36 N=44 K=48", ""},
    {tf32_computed, "M=36 N=44 K=48", ""},
    {tf32_half, "M=36 N=44 K=48", ""},
    {rounded, "T=f32 U=bf16 M=20 N=36 K=40", ""},
    {rounded, "T=f32 U=f32 M=20 N=36 K=40", ""},
    {rounded, "T=f16 U=bf16 M=20 N=37 K=43", ""},
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
    {swiglu, "T=f16 B=20 N=24 H=40", ""},
    {dequantised, "T=bf16 U=i8 M=20 N=40 K=64", ""},
    {dequantised, "T=f16 U=i4 M=20 N=40 K=64", ""},
    {dequantised, "T=f16 U=u8 M=20 N=37 K=63", ""},
    {group_scales, "T=f16 M=20 N=40 K=2", ""},
    {two_loops, "T=bf16 M=20 N=24 C=5 S=8", ""},
    {some, "T=bf16 B=3 M=20 N=24 K=40", ""},
    {in_place, "T=f32 M=20 N=24 K=40", ""},
    {two_outputs, "T=bf16 M=20 N=24 K=40", ""},
};

/* A fifth of them assembles, as each takes seconds; all with ARKE_MMA_FULL=1. */
START_TEST(classes_are_right_and_assemble) {
  arena a = ARENA_INIT;
  template_case c =
      template_case_bind(&a, mma(), classes[_i].text, classes[_i].bindings, classes[_i].settings);
  if (_i % 5 == 0 || getenv("ARKE_MMA_FULL"))
    template_case_run_and_assemble(&a, &c, NULL, 0);
  else
    template_case_run(&a, &c, NULL, 0);
  arena_release(&a);
}
END_TEST

/* The tiles that matter at large sizes: they must not spill, and their small problems come out right. */
static const struct {
  const char *text, *bindings, *settings;
} large[] = {
    {linear, "T=bf16 M=4096 N=4096 K=4096",
     "BLOCK_M=128,BLOCK_N=256,BLOCK_K=32,STAGES=4,WARPS_M=2,WARPS_N=4"},
    {matmul, "T=bf16 M=4096 N=4096 K=4096",
     "BLOCK_M=128,BLOCK_N=128,BLOCK_K=64,STAGES=3,WARPS_M=2,WARPS_N=2"},
    {gated, "T=bf16 M=4096 N=4096 K=4096", "BLOCK_M=128,BLOCK_N=128,BLOCK_K=32,STAGES=3,WARPS_M=2,WARPS_N=4"},
    {linear, "T=bf16 M=16 N=4096 K=4096", ""},
    {matmul, "T=f32 M=4096 N=4096 K=4096", "BLOCK_M=128,BLOCK_N=128,BLOCK_K=16,STAGES=3,WARPS_M=2,WARPS_N=4"},
    {dequantised, "T=bf16 U=i4 M=512 N=4096 K=4096", ""},
    {whole, "T=i8 M=512 N=4096 K=4096", ""},
};

START_TEST(large_tiles_do_not_spill) {
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, mma(), large[_i].text, large[_i].bindings, large[_i].settings);
  template_case_assemble(&a, &c);
  template_case_run_reduced(&a, &c);
  arena_release(&a);
}
END_TEST

/* Rows with gaps that still line up, then any strides. */
START_TEST(views_are_right) {
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, mma(), linear, "T=bf16 M=20 N=40 K=72", "");
  run_view views[LIMIT_TENSORS] = {{0}};
  run_view_permuted(&c.p, 0, (int[]){1, 0}, 8, &views[0]);
  template_case_run(&a, &c, views, 1);
  run_view_permuted(&c.p, 0, (int[]){1, 0}, 1, &views[0]);
  template_case_run(&a, &c, views, 2);
  run_view_permuted(&c.p, 0, (int[]){0, 1}, 0, &views[0]);
  run_view_permuted(&c.p, 1, (int[]){0, 1}, 3, &views[1]);
  run_view_permuted(&c.p, 2, (int[]){0, 1}, 1, &views[2]);
  template_case_run(&a, &c, views, 2);
  views[0] = (run_view){.strided = true, .stride = {0, 1}, .offset = 1};
  template_case_run(&a, &c, views, 2);
  c = template_case_bind(&a, mma(), linear, "T=f32 M=20 N=40 K=24", "");
  template_case_run(&a, &c, views, 2);
  c = template_case_bind(&a, mma(), leading, "T=f16 ...=2x3 M=17 N=40 K=24", "");
  views[1] = views[2] = (run_view){0};
  run_view_permuted(&c.p, 0, (int[]){3, 0, 2, 1}, 1, &views[0]);
  template_case_run(&a, &c, views, -1);
  views[0] = (run_view){.strided = true, .stride = {0, 17 * 24, 24, 1}};
  template_case_run(&a, &c, views, 1);
  c = template_case_bind(&a, mma(), gathered, "T=bf16 P=9 E=3 B=2 M=20 N=40 K=72", "");
  views[0] = (run_view){0};
  views[2] = (run_view){.below = 9};
  views[3] = (run_view){.below = 3};
  template_case_run(&a, &c, views, 0);
  arena_release(&a);
}
END_TEST

/* Rows at gathered places are not copied where places are to be checked: those outside count as zeros. */
START_TEST(gathered_places_are_checked) {
  static const double places[] = {3, -1, 0, 1000000, 2, -1};
  static const char rows[] =
      "f(X: T[P,K], W: T[N,K], r: i32[M]) -> (Y: T[M,N]) { Y[m,n] = sum(k) X[r[m],k] * W[n,k] }";
  static const char meant[] = "f(X: T[P,K], W: T[N,K], r: i32[M]) -> (Y: T[M,N]) {"
                              " Y[m,n] = sum(k) (sum(p: r[m] == p) X[p,k]) * W[n,k] }";
  const char *bindings = "T=bf16 P=5 M=6 N=40 K=72";
  arena a = ARENA_INIT;
  arke_error err = ARKE_ERROR_INIT;
  const ir_op *op;
  ir_problem reference;
  ck_assert_msg(ir_op_parse(&a, meant, &op, &err) == ARKE_OK, "%s", err.text);
  ck_assert_msg(ir_problem_bind(op, bindings, &reference, &err) == ARKE_OK, "%s", err.text);
  template_case c = template_case_bind(&a, mma(), rows, bindings, "");
  lower_options options = {.check_indices = true};
  run_view views[LIMIT_TENSORS] = {{0}, {0}, {.values = places, .n_values = 6}};
  lowered l;
  device *d;
  ck_assert_msg(mma()->lower(&c.p, c.t, &c.c, &options, &a, &l, &err) == ARKE_OK, "%s", err.text);
  ck_assert_msg(device_open_emulator(c.t->name, 1, &d, &err) == ARKE_OK, "%s", err.text);
  run_views_result r = run_views_against(d, &c.p, &reference, &l, 2, views, 7, 0);
  ck_assert_msg(r.status == ARKE_OK && r.wrong == 0 && r.intact, "%s%s", r.err.text, r.first);
  ck_assert_int_eq(r.elements, 240);
  d->ops->close(d);
  arena_release(&a);
}
END_TEST

START_TEST(special_values_are_right) {
  static const double values[] = {1, NAN, -INFINITY, 2, 2, -0.0, 0, INFINITY, -3, -INFINITY, 5};
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, mma(), linear, "T=bf16 M=20 N=24 K=44", "");
  template_case_run(&a, &c, (run_view[LIMIT_TENSORS]){{.values = values, .n_values = 11}}, 0);
  template_case_run(&a, &c, (run_view[LIMIT_TENSORS]){{0}, {.values = values + 3, .n_values = 5}}, 0);
  /* Values in two parts, beside infinite and other ones. */
  c = template_case_bind(&a, mma(), rounded, "T=f32 U=bf16 M=20 N=24 K=44", "");
  template_case_run(&a, &c, (run_view[LIMIT_TENSORS]){{.values = values, .n_values = 11}}, 0);
  template_case_run(&a, &c, (run_view[LIMIT_TENSORS]){{.values = values + 3, .n_values = 5}}, 0);
  template_case_run(&a, &c, (run_view[LIMIT_TENSORS]){{0}, {.values = values + 3, .n_values = 5}}, 0);
  arena_release(&a);
}
END_TEST

START_TEST(large_tensors_have_wide_offsets) {
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, mma(), matmul, "T=bf16 M=65536 N=65536 K=65536",
                                       "BLOCK_M=32,BLOCK_N=32,BLOCK_K=32,WARPS_M=1,WARPS_N=1");
  template_case small = c;
  mma()->reduced_problem(&c.p, c.t, &c.c, 2, &small.p);
  template_case_run_kernel(&small, template_case_lower(&a, &c), NULL, 0);
  arena_release(&a);
}
END_TEST

START_TEST(what_is_no_contraction_is_refused) {
  template_refuses(mma(), "m(X: T[M,K], W: T[N,K]) -> (Y: i4[M,N]) { Y[m,n] = sum(k) X[m,k] * W[n,k] }",
                   "T=i8 M=8 N=8 K=16", TEMPLATE_DTYPE);
  template_refuses(mma(), "m(X: T[M,N]) -> (Y: T[M]) { Y[i] = sum(j) X[i,j] }", "T=f32 M=8 N=8",
                   TEMPLATE_OPERATOR);
  template_refuses(mma(),
                   "m(X: T[M,K], W: T[N,K]) -> (Y: T[M,N]) { Y[m,n] = sum(k: k <= m) X[m,k] * W[n,k] }",
                   "T=f32 M=8 N=8 K=8", TEMPLATE_OPERATOR);
  template_refuses(mma(), scaled, "T=i8 M=8 N=8 K=200000", TEMPLATE_SIZE);
}
END_TEST

START_TEST(missing_waits_are_found) {
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, mma(), linear, "T=bf16 M=40 N=40 K=200",
                                       "BLOCK_M=64,BLOCK_N=64,BLOCK_K=32,WARPS_M=2,WARPS_N=2,STAGES=3");
  template_case_miss(&a, &c, "cp.async.wait_group");
  template_case_miss(&a, &c, "cp.async.commit_group");
  template_case_miss(&a, &c, "bar.sync");
  template_case_miss(&a, &c, "griddepcontrol.wait");
  template_case_miss(&a, &c, "ldmatrix");
  template_case_miss(&a, &c, "mma.sync");
  c = template_case_bind(&a, mma(), matmul, "T=f32 M=33 N=35 K=70",
                         "BLOCK_M=32,BLOCK_N=32,BLOCK_K=16,WARPS_M=2,WARPS_N=2,STAGES=2,SPLIT_K=2");
  template_case_miss(&a, &c, "bar.sync");
  template_case_miss(&a, &c, "griddepcontrol.wait");
  arena_release(&a);
}
END_TEST

START_TEST(out_of_memory_is_reported) {
  template_class_fail_allocations(mma(), &(template_class){gated, "T=bf16 M=20 N=33 K=100", "SPLIT_K=2"});
}
END_TEST

int main(void) {
  TCase *tests = template_tests("mma");
  tcase_add_loop_test(tests, classes_are_right_and_assemble, 0, (int)COUNT_OF(classes));
  tcase_add_loop_test(tests, large_tiles_do_not_spill, 0, (int)COUNT_OF(large));
  tcase_add_test(tests, views_are_right);
  tcase_add_test(tests, gathered_places_are_checked);
  tcase_add_test(tests, special_values_are_right);
  tcase_add_test(tests, large_tensors_have_wide_offsets);
  tcase_add_test(tests, what_is_no_contraction_is_refused);
  tcase_add_test(tests, missing_waits_are_found);
  tcase_add_test(tests, out_of_memory_is_reported);
  return template_tests_run("mma", tests);
}
