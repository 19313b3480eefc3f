/* What the gemm template computes beyond bare products: epilogues, batches, several sums, other layouts and
 * dtypes, views; on the emulator against the fp64 reference, by every schedule. */
#include <check.h>
#include <stdlib.h>

#include "base/random.h"
#include "template_cases.h"

enum { RANDOM_POINTS = 36 };

static const kernel_template *gemm(void) {
  return template_find("gemm");
}

static const char linear[] = "f(X: T[M,K], W: T[N,K]) -> (Y: T[M,N]) { Y[m,n] = sum(k) X[m,k] * W[n,k] }";
static const char biased[] = "f(X: T[M,K], W: T[N,K], b: T[N]) -> (Y: T[M,N]) { Y[m,n] = gelu(b[n] + sum(k) "
                             "X[m,k] * W[n,k]) }";
static const char residual[] = "f(X: T[M,K], W: T[K,N], R: T[M,N], b: f32[N]) -> (Y: T[M,N]) { Y[m,n] = "
                               "R[m,n] + b[n] + sum(k) X[m,k] * W[k,n] }";
static const char scaled[] = "f(X: T[M,K], W: T[N,K], r: f32[M], c: f32[N], s: f32[1]) -> (Y: U[M,N]) { "
                             "Y[m,n] = sum(k) X[m,k] * W[n,k] * r[m] * c[n] * s[0] }";
static const char wide[] = "f(X: T[M,K], W: T[K,N]) -> (Y: U[M,N]) { Y[m,n] = sum(k) X[m,k] * W[k,n] }";
static const char gated[] = "f(X: T[M,K], G: T[N,K], U: T[N,K]) -> (Y: T[M,N]) { Y[m,n] = silu(sum(k) X[m,k] "
                            "* G[n,k]) * sum(k) X[m,k] * U[n,k] }";
static const char gated_columns[] =
    "f(X: T[M,K], G: T[K,N], U: T[K,N]) -> (Y: T[M,N]) { Y[m,n] = silu(sum(k) "
    "X[m,k] * G[k,n]) * sum(k) X[m,k] * U[k,n] }";
static const char gated_rows[] = "f(X: T[K,N], G: T[M,K], U: T[M,K]) -> (Y: T[M,N]) { Y[m,n] = silu(sum(k) "
                                 "G[m,k] * X[k,n]) * sum(k) U[m,k] * X[k,n] }";
static const char packed[] = "f(X: T[M,K], W: T[2*N,K]) -> (Y: T[M,N]) { Y[m,n] = silu(sum(k) X[m,k] * "
                             "W[n,k]) * sum(k) X[m,k] * W[n+N,k] }";
static const char packed_columns[] = "f(X: T[M,K], W: T[K,2*N], b: T[2*N]) -> (Y: T[M,N]) { Y[m,n] = "
                                     "silu(b[n] + sum(k) X[m,k] * W[k,n]) * (b[n+N] + sum(k) X[m,k] * "
                                     "W[k,n+N]) }";
static const char batched[] = "f(A: T[B,M,K], C: T[B,K,N]) -> (Y: T[B,M,N]) { Y[b,m,n] = sum(k) A[b,m,k] * "
                              "C[b,k,n] }";
static const char batched_bias[] = "f(A: T[B,M,K], C: T[B,N,K], v: T[B,N]) -> (Y: T[B,M,N]) { Y[b,m,n] = "
                                   "relu(v[b,n] + sum(k) A[b,m,k] * C[b,n,k]) }";
static const char broadcast[] = "f(A: T[B,G,M,K], C: T[G,K,N]) -> (Y: T[B,G,M,N]) { Y[b,g,m,n] = sum(k) "
                                "A[b,g,m,k] * C[g,k,n] }";
static const char heads[] = "f(Q: T[B,H,S,D], K: T[B,G,L,D]) -> (P: f32[B,H,S,L]) { P[b,h,q,k] = 0.125 * "
                            "sum(d) Q[b,h,q,d] * K[b,h/(H/G),k,d] }";
static const char heads_out[] = "f(O: T[B,H,S,D], W: T[H,D,N]) -> (Y: T[B,S,N]) { Y[b,s,n] = sum(h, d) "
                                "O[b,h,s,d] * W[h,d,n] }";
static const char between[] = "f(A: T[M,H,K], C: T[N,H,K]) -> (Y: T[M,H,N]) { Y[m,h,n] = sum(k) A[m,h,k] * "
                              "C[n,h,k] }";
static const char grouped[] = "f(X: T[B,M,K], W: T[E,K,N], idx: i32[B]) -> (Y: T[B,M,N]) { Y[b,m,n] = sum(k) "
                              "X[b,m,k] * W[idx[b],k,n] }";
static const char rows[] = "f(A: T[B,M,K], C: T[K,N], v: T[N]) -> (Y: T[B,M,N]) { Y[b,m,n] = v[n] + sum(k) "
                           "A[b,m,k] * C[k,n] }";
static const char leading[] =
    "f(X: T[...,K], W: T[N,K], b: T[N]) -> (Y: T[...,N]) { Y[...,n] = b[n] + sum(k) "
    "X[...,k] * W[n,k] }";
static const char bare_leading[] =
    "f(X: T[...,K], W: T[N,K]) -> (Y: T[...,N]) { Y[...,n] = sum(k) X[...,k] * "
    "W[n,k] }";
static const char in_place[] =
    "f(D: T[M,N], X: T[M,K], W: T[N,K]) -> (D) { D[m,n] = D[m,n] + sum(k) X[m,k] * "
    "W[n,k] }";
static const char two_outputs[] = "f(X: T[M,K], W: T[N,K]) -> (Z: T[M,N], Y: f32[M,N]) { Z[m,n] = sum(k) "
                                  "X[m,k] * W[n,k]; Y[m,n] = 2 * Z[m,n] }";
static const char unrounded[] = "f(X: T[M,K], W: T[N,K]) -> (Z: T[M,N], Y: f32[M,N]) { Z[m,n] = sum(k) "
                                "X[m,k] * W[n,k]; Y[m,n] = 2 * sum(k) X[m,k] * W[n,k] }";
static const char turned[] = "f(X: T[M,K], W: T[N,K], R: T[M,N]) -> (Y: T[N,M]) { Y[n,m] = R[m,n] + sum(k) "
                             "X[m,k] * W[n,k] }";

#define SMALL "BLOCK_M=64,BLOCK_N=64,BLOCK_K=64,STAGES=2,CONSUMERS=1,"
#define SHORT SMALL "STAGED=0,GROUP=1,RASTER=0,CLUSTER_M=1,CLUSTER_N=1,SWAP=0,EVEN=0,STREAM_K=0,"
#define SPLIT "STAGED=0,BLOCK_K=64,STAGES=2,GROUP=1,RASTER=0,PERSISTENT=0,STREAM_K=2,"
#define TWO   "STAGED=0,BLOCK_K=64,STAGES=2,CONSUMERS=2,GROUP=1,RASTER=0,CLUSTER_M=1,CLUSTER_N=1,"

static const template_class classes[] = {
    /* Epilogues by every schedule. */
    {biased, "T=bf16 M=72 N=136 K=72", SHORT "SCHEDULE=0,PERSISTENT=1"},
    {biased, "T=f16 M=72 N=136 K=72", SHORT "SCHEDULE=0,PERSISTENT=0"},
    {biased, "T=bf16 M=200 N=136 K=136", TWO "BLOCK_M=64,BLOCK_N=96,SCHEDULE=1,PERSISTENT=1"},
    {residual, "T=bf16 M=200 N=136 K=136", TWO "BLOCK_M=128,BLOCK_N=144,SCHEDULE=1,PERSISTENT=1"},
    {residual, "T=bf16 M=200 N=264 K=264", TWO "BLOCK_M=128,BLOCK_N=128,SCHEDULE=2,PERSISTENT=1"},
    {residual, "T=f16 M=201 N=264 K=264", TWO "BLOCK_M=128,BLOCK_N=64,SCHEDULE=2,PERSISTENT=1,STREAM_K=1"},
    {residual, "T=bf16 M=201 N=104 K=264", TWO "BLOCK_M=128,BLOCK_N=64,SCHEDULE=0,PERSISTENT=1,STREAM_K=1"},
    {residual, "T=bf16 M=200 N=304 K=72", TWO "BLOCK_M=64,BLOCK_N=96,SCHEDULE=1,PERSISTENT=1,EVEN=1"},
    {residual, "T=bf16 M=200 N=88 K=72", TWO "BLOCK_M=256,BLOCK_N=96,SCHEDULE=0,PERSISTENT=1,EVEN=1"},
    {residual, "T=bf16 M=200 N=72 K=72", TWO "BLOCK_M=128,BLOCK_N=64,SCHEDULE=0,PERSISTENT=1,SWAP=1"},
    {residual, "T=bf16 M=201 N=72 K=72", TWO "BLOCK_M=128,BLOCK_N=64,SCHEDULE=2,PERSISTENT=1,SWAP=1"},
    {biased, "T=bf16 M=200 N=152 K=72",
     "BLOCK_M=64,BLOCK_N=64,BLOCK_K=64,STAGES=2,CONSUMERS=1,GROUP=1,RASTER=1,CLUSTER_M=2,CLUSTER_N=1"},
    /* A cluster that shares K: less of it than CTAs, several sums and matrices, outputs that are not copied.
     */
    {biased, "T=bf16 M=72 N=136 K=264", SPLIT "BLOCK_M=128,BLOCK_N=128,CONSUMERS=2"},
    {residual, "T=bf16 M=201 N=104 K=40", SPLIT "BLOCK_M=64,BLOCK_N=96,CONSUMERS=1"},
    {gated, "T=bf16 M=200 N=136 K=264", SPLIT "BLOCK_M=128,BLOCK_N=96,CONSUMERS=2"},
    {batched, "T=bf16 B=3 M=72 N=80 K=200", SPLIT "BLOCK_M=64,BLOCK_N=64,CONSUMERS=1"},
    {scaled, "T=bf16 U=f32 M=73 N=75 K=200", SPLIT "BLOCK_M=64,BLOCK_N=64,CONSUMERS=1"},
    /* Elements that are not 16 bits wide, or rows that do not line up. */
    {scaled, "T=bf16 U=f32 M=72 N=80 K=72", SHORT "SCHEDULE=0"},
    {scaled, "T=f16 U=bf16 M=72 N=80 K=72", SHORT "SCHEDULE=0"},
    {scaled, "T=bf16 U=f32 M=73 N=75 K=72", SHORT "SCHEDULE=0,PERSISTENT=0"},
    {scaled, "T=bf16 U=e4m3 M=72 N=80 K=72", TWO "BLOCK_M=64,BLOCK_N=64,SCHEDULE=1,PERSISTENT=1"},
    {wide, "T=bf16 U=f32 M=70 N=80 K=72", SHORT "SCHEDULE=0"},
    {wide, "T=bf16 U=f32 M=70 N=80 K=200", TWO "BLOCK_M=128,BLOCK_N=64,SCHEDULE=0,PERSISTENT=1,SWAP=1"},
    {wide, "T=bf16 U=f16 M=70 N=80 K=72", SHORT "SCHEDULE=0"},
    {linear, "T=bf16 M=33 N=35 K=40", ""},
    {linear, "T=f16 M=100 N=102 K=40", SHORT "SCHEDULE=0"},
    /* Several sums. */
    {gated, "T=bf16 M=72 N=136 K=136", SHORT "SCHEDULE=0"},
    {gated, "T=f16 M=200 N=136 K=136", TWO "BLOCK_M=128,BLOCK_N=96,SCHEDULE=1,PERSISTENT=1"},
    {gated, "T=bf16 M=200 N=264 K=136", TWO "BLOCK_M=128,BLOCK_N=128,SCHEDULE=2,PERSISTENT=1"},
    {gated, "T=bf16 M=200 N=136 K=264",
     "BLOCK_M=128,BLOCK_N=64,BLOCK_K=128,STAGES=2,CONSUMERS=2,GROUP=1,RASTER=0,CLUSTER_M=2,CLUSTER_N=1,"
     "SCHEDULE=0,PERSISTENT=1"},
    {gated, "T=bf16 M=200 N=136 K=264", TWO "BLOCK_M=128,BLOCK_N=64,SCHEDULE=0,PERSISTENT=1,STREAM_K=1"},
    {gated, "T=bf16 M=200 N=312 K=136", TWO "BLOCK_M=64,BLOCK_N=96,SCHEDULE=1,PERSISTENT=1,EVEN=1"},
    {packed, "T=f16 M=200 N=304 K=264",
     "BLOCK_M=128,BLOCK_N=96,BLOCK_K=128,STAGES=2,CONSUMERS=2,GROUP=1,RASTER=0,CLUSTER_M=1,CLUSTER_N=1,"
     "SCHEDULE=0,PERSISTENT=1,EVEN=1"},
    {gated_columns, "T=bf16 M=72 N=136 K=136", SHORT "SCHEDULE=0"},
    {gated_columns, "T=bf16 M=72 N=72 K=72",
     "BLOCK_M=64,BLOCK_N=32,BLOCK_K=64,STAGES=2,CONSUMERS=1,GROUP=1,RASTER=0,CLUSTER_M=1,CLUSTER_N=2"},
    {gated_rows, "T=bf16 M=72 N=136 K=136", SHORT "SCHEDULE=0"},
    {packed, "T=bf16 M=72 N=104 K=136", SHORT "SCHEDULE=0"},
    {packed_columns, "T=bf16 M=72 N=104 K=136", SHORT "SCHEDULE=0"},
    /* Several matrices. */
    {batched, "T=bf16 B=5 M=72 N=80 K=72", SHORT "SCHEDULE=0,PERSISTENT=1"},
    {batched, "T=f16 B=3 M=72 N=136 K=136", TWO "BLOCK_M=64,BLOCK_N=64,SCHEDULE=1,PERSISTENT=1"},
    {batched, "T=bf16 B=3 M=130 N=136 K=136", TWO "BLOCK_M=128,BLOCK_N=64,SCHEDULE=2,PERSISTENT=1"},
    {batched, "T=bf16 B=3 M=130 N=136 K=200",
     TWO "BLOCK_M=128,BLOCK_N=64,SCHEDULE=0,PERSISTENT=1,STREAM_K=1"},
    {batched, "T=bf16 B=3 M=72 N=304 K=72", TWO "BLOCK_M=64,BLOCK_N=96,SCHEDULE=1,PERSISTENT=1,EVEN=1"},
    {batched_bias, "T=bf16 B=3 M=72 N=80 K=72", SHORT "SCHEDULE=0,PERSISTENT=1"},
    {batched_bias, "T=bf16 B=3 M=72 N=80 K=72", "SWAP=1"},
    {broadcast, "T=bf16 B=2 G=3 M=40 N=72 K=72", SHORT "SCHEDULE=0"},
    {heads, "T=bf16 B=2 H=4 G=2 S=40 L=72 D=64", SHORT "SCHEDULE=0"},
    {rows, "T=bf16 B=3 M=40 N=72 K=72", SHORT "SCHEDULE=0"},
    {heads_out, "T=bf16 B=2 H=3 S=40 D=64 N=72", SHORT "SCHEDULE=0"},
    {heads_out, "T=f16 B=2 H=3 S=70 D=72 N=136", TWO "BLOCK_M=64,BLOCK_N=64,SCHEDULE=1,PERSISTENT=1"},
    {heads_out, "T=bf16 B=1 H=5 S=130 D=72 N=136",
     TWO "BLOCK_M=128,BLOCK_N=64,SCHEDULE=0,PERSISTENT=1,STREAM_K=1"},
    {between, "T=bf16 M=72 N=80 H=3 K=72", SHORT "SCHEDULE=0"},
    {leading, "T=bf16 ...=2x37 N=80 K=72", SHORT "SCHEDULE=0"},
    {bare_leading, "T=bf16 ...=2x37 N=80 K=72", SHORT "SCHEDULE=0"},
    /* Outputs. */
    {in_place, "T=bf16 M=72 N=136 K=72", SHORT "SCHEDULE=0"},
    {in_place, "T=bf16 M=200 N=136 K=72", TWO "BLOCK_M=64,BLOCK_N=96,SCHEDULE=1,PERSISTENT=1"},
    {two_outputs, "T=bf16 M=72 N=80 K=72", SHORT "SCHEDULE=0"},
    {turned, "T=bf16 M=72 N=80 K=72", SHORT "SCHEDULE=0"},
};

/* At its sizes and at those of a search without a GPU, with one lowering. */
START_TEST(classes_are_right) {
  arena a = ARENA_INIT;
  template_case c =
      template_case_bind(&a, gemm(), classes[_i].text, classes[_i].bindings, classes[_i].settings);
  template_case_run(&a, &c, NULL, 0);
  template_case_run_reduced(&a, &c);
  arena_release(&a);
}
END_TEST

/* Rows with gaps, matrices in another order; what copies cannot address is refused. */
START_TEST(views_are_right) {
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, gemm(), residual, "T=bf16 M=72 N=80 K=72", "");
  run_view views[LIMIT_TENSORS] = {{0}};
  for (int i = 0; i < 3; i++) run_view_permuted(&c.p, i, (int[]){1, 0}, 8, &views[i]);
  run_view_permuted(&c.p, 4, (int[]){1, 0}, 8, &views[4]);
  template_case_run(&a, &c, views, 0);
  c = template_case_bind(&a, gemm(), batched, "T=bf16 B=3 M=72 N=80 K=72", "");
  for (int i = 0; i < 3; i++) run_view_permuted(&c.p, i, (int[]){2, 0, 1}, 8, &views[i]);
  template_case_run(&a, &c, views, 0);
  c = template_case_bind(&a, gemm(), bare_leading, "T=bf16 ...=2x37 N=80 K=72", "");
  views[0] = (run_view){.strided = true, .stride = {37 * 80, 80, 1}};
  views[1] = views[2] = (run_view){0};
  template_case_run(&a, &c, views, 0);
  c = template_case_bind(&a, gemm(), rows, "T=bf16 B=3 M=40 N=72 K=72", SHORT "SCHEDULE=0");
  views[0] = (run_view){.strided = true, .stride = {50 * 80, 80, 1}};
  run_view_permuted(&c.p, 3, (int[]){2, 0, 1}, 8, &views[3]);
  template_case_run(&a, &c, views, 1);
  views[3] = (run_view){0};
  c = template_case_bind(&a, gemm(), grouped, "T=bf16 B=5 M=40 N=72 K=72 E=3", "");
  views[0] = (run_view){0};
  views[2] = (run_view){.below = 3};
  template_case_run(&a, &c, views, 0);
  arena_release(&a);
}
END_TEST

/* The tiles that matter: they must not spill. */
static const struct {
  const char *text, *bindings, *settings;
} large[] = {
    {biased, "T=bf16 M=4096 N=4096 K=4096",
     "STAGED=0,BLOCK_M=128,BLOCK_N=256,BLOCK_K=64,STAGES=4,CONSUMERS=2,SCHEDULE=2,GROUP=8"},
    {biased, "T=bf16 M=4096 N=4096 K=4096",
     "STAGED=0,BLOCK_M=128,BLOCK_N=176,BLOCK_K=64,STAGES=5,CONSUMERS=2,SCHEDULE=1,GROUP=8,EVEN=1"},
    {residual, "T=bf16 M=4096 N=4096 K=4096",
     "STAGED=0,BLOCK_M=128,BLOCK_N=256,BLOCK_K=64,STAGES=4,CONSUMERS=2,SCHEDULE=0,GROUP=8"},
    {residual, "T=bf16 M=4096 N=4096 K=4096",
     "STAGED=0,BLOCK_M=128,BLOCK_N=176,BLOCK_K=64,STAGES=5,CONSUMERS=2,SCHEDULE=1,GROUP=8"},
    {scaled, "T=bf16 U=f32 M=4096 N=4096 K=4096",
     "STAGED=0,BLOCK_M=128,BLOCK_N=176,BLOCK_K=64,STAGES=5,CONSUMERS=2,SCHEDULE=1,GROUP=8"},
    {wide, "T=bf16 U=f32 M=4096 N=4096 K=4096",
     "STAGED=0,BLOCK_M=128,BLOCK_N=176,BLOCK_K=64,STAGES=5,CONSUMERS=2,SCHEDULE=1,GROUP=8,EVEN=1"},
    {gated, "T=bf16 M=4096 N=4096 K=4096",
     "STAGED=0,BLOCK_M=128,BLOCK_N=128,BLOCK_K=64,STAGES=4,CONSUMERS=2,SCHEDULE=2,GROUP=8"},
    {gated, "T=bf16 M=4096 N=4096 K=4096",
     "STAGED=0,BLOCK_M=128,BLOCK_N=96,BLOCK_K=64,STAGES=5,CONSUMERS=2,SCHEDULE=1,GROUP=8"},
    {gated, "T=bf16 M=4096 N=4096 K=4096",
     "STAGED=0,BLOCK_M=128,BLOCK_N=96,BLOCK_K=64,STAGES=5,CONSUMERS=2,SCHEDULE=1,GROUP=8,EVEN=1"},
    {gated_columns, "T=bf16 M=4096 N=4096 K=4096",
     "STAGED=0,BLOCK_M=128,BLOCK_N=128,BLOCK_K=64,STAGES=4,CONSUMERS=2,SCHEDULE=0,GROUP=8"},
};

START_TEST(large_tiles_do_not_spill) {
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, gemm(), large[_i].text, large[_i].bindings, large[_i].settings);
  template_case_assemble(&a, &c);
  arena_release(&a);
}
END_TEST

/* The small problem of a point, over tensors whose rows have gaps. */
static void run_padded(arena *a, const template_case *c) {
  template_case small = *c;
  run_view views[LIMIT_TENSORS] = {{0}};
  gemm()->reduced_problem(&c->p, c->t, &c->c, 2, &small.p);
  for (int i = 0; i < small.p.op->n_args; i++) {
    int64_t shape[LIMIT_RANK];
    int dims[LIMIT_RANK], rank = ir_tensor_shape(&small.p, i, shape);
    for (int d = 0; d < rank; d++) dims[d] = rank - 1 - d;
    if (rank > 1) run_view_permuted(&small.p, i, dims, 8, &views[i]);
  }
  template_case_run(a, &small, views, -1);
}

/* Random points of the space for epilogues, gated pairs and batches, the same ones every time; every other
 * one over views. */
START_TEST(random_points_are_right) {
  static const struct {
    const char *text, *bindings;
  } operators[] = {{residual, "T=bf16 M=4096 N=4096 K=4096"},
                   {gated, "T=f16 M=4096 N=4096 K=4096"},
                   {batched_bias, "T=bf16 B=9 M=512 N=1024 K=1024"},
                   {scaled, "T=bf16 U=f32 M=4096 N=4095 K=4096"},
                   {biased, "T=f16 M=4096 N=4096 K=4096"},
                   {packed_columns, "T=bf16 M=4096 N=4096 K=4096"},
                   {heads_out, "T=bf16 B=2 H=4 S=2048 D=128 N=4096"},
                   {unrounded, "T=bf16 M=4096 N=4096 K=4096"},
                   {turned, "T=bf16 M=4096 N=4096 K=4096"}};
  arena a = ARENA_INIT;
  int which = _i % (int)COUNT_OF(operators);
  template_case c = template_case_bind(&a, gemm(), operators[which].text, operators[which].bindings, "");
  const space *all = gemm()->space(c.t);
  uint64_t tries = 0;
  do {
    space_point(all, (int64_t)(random_u64((uint64_t)_i, tries++) % (uint64_t)space_size(all)), &c.c);
  } while (template_feasible(gemm(), &c.p, c.t, &c.c) != TEMPLATE_OK);
  if (_i / (int)COUNT_OF(operators) % 2 == 0) {
    template_case_run_reduced(&a, &c);
  } else {
    run_padded(&a, &c);
  }
  arena_release(&a);
}
END_TEST

START_TEST(large_tensors_have_wide_offsets) {
  arena a = ARENA_INIT;
  template_case c =
      template_case_bind(&a, gemm(), residual, "T=bf16 M=65536 N=65536 K=65536", SHORT "SCHEDULE=0");
  template_case small = c;
  gemm()->reduced_problem(&c.p, c.t, &c.c, 2, &small.p);
  template_case_run_kernel(&small, template_case_lower(&a, &c), NULL, 0);
  arena_release(&a);
}
END_TEST

START_TEST(configurations_that_cannot_be_are_refused) {
  arena a = ARENA_INIT;
  static const struct {
    const char *text, *bindings, *settings;
    template_reason reason;
  } points[] = {
      {gated, "T=bf16 M=4096 N=4096 K=4096", "BLOCK_M=128,BLOCK_N=256,CONSUMERS=2", TEMPLATE_TILE},
      {gated, "T=bf16 M=4096 N=4096 K=4096", "BLOCK_N=64,SWAP=1", TEMPLATE_OPERATOR},
      {gated_columns, "T=bf16 M=4096 N=4096 K=4096", "BLOCK_M=64,BLOCK_N=96,CONSUMERS=1", TEMPLATE_TILE},
      {scaled, "T=bf16 U=f32 M=4096 N=4096 K=4096", "SCHEDULE=2", TEMPLATE_SCHEDULE},
      {two_outputs, "T=bf16 M=4096 N=4096 K=4096", "SCHEDULE=2", TEMPLATE_SCHEDULE},
  };
  for (size_t i = 0; i < COUNT_OF(points); i++) {
    arke_error err = ARKE_ERROR_INIT;
    template_case c = template_case_bind(&a, gemm(), points[i].text, points[i].bindings, "");
    config v;
    ck_assert_int_eq(config_parse(gemm()->space(c.t), points[i].settings, &c.c, &v, &err), ARKE_OK);
    ck_assert_int_eq(template_feasible(gemm(), &c.p, c.t, &v), points[i].reason);
  }
  arena_release(&a);
}
END_TEST

START_TEST(missing_waits_are_found) {
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, gemm(), residual, "T=bf16 M=200 N=136 K=136",
                                       TWO "BLOCK_M=64,BLOCK_N=64,SCHEDULE=1,PERSISTENT=1");
  template_case_miss(&a, &c, "fence.proxy.async");
  template_case_miss(&a, &c, "wgmma.wait_group.sync.aligned 0");
  template_case_miss(&a, &c, "griddepcontrol.wait");
  arena_release(&a);
}
END_TEST

START_TEST(out_of_memory_is_reported) {
  arena a = ARENA_INIT;
  template_case c =
      template_case_bind(&a, gemm(), grouped, "T=bf16 B=5 M=40 N=72 K=72 E=3", SHORT "SCHEDULE=0");
  template_case_fail_allocations(&c);
  c = template_case_bind(&a, gemm(), biased, "T=bf16 M=72 N=40 K=72",
                         "BLOCK_M=64,BLOCK_N=32,BLOCK_K=64,STAGES=2,CONSUMERS=1,SCHEDULE=0");
  template_case_fail_allocations(&c);
  arena_release(&a);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("gemm beyond bare products");
  TCase *tests = tcase_create("classes"), *others = tcase_create("others");
  TCase *random_points = tcase_create("random points");
  tcase_set_timeout(random_points, 120);
  tcase_set_timeout(tests, 120);
  tcase_set_timeout(others, 120);
  tcase_add_loop_test(tests, classes_are_right, 0, (int)COUNT_OF(classes));
  tcase_add_test(others, views_are_right);
  tcase_add_loop_test(others, large_tiles_do_not_spill, 0, (int)COUNT_OF(large));
  tcase_add_test(others, configurations_that_cannot_be_are_refused);
  tcase_add_test(others, large_tensors_have_wide_offsets);
  tcase_add_loop_test(random_points, random_points_are_right, 0, RANDOM_POINTS);
  tcase_add_test(others, missing_waits_are_found);
  tcase_add_test(others, out_of_memory_is_reported);
  suite_add_tcase(suite, tests);
  suite_add_tcase(suite, others);
  suite_add_tcase(suite, random_points);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_ENV);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
