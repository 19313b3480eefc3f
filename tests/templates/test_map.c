/* Maps on the emulator against the reference: dtypes, ragged sizes, views, gathers, neighbours. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "template_cases.h"

static const char TYPED[] = "copy(X: T[M,N]) -> (Y: U[M,N]) { Y[i,j] = cast<U>(X[i,j]) }";
static const char RELU[] = "relu(X: T[...]) -> (Y: T[...]) { Y[...] = max(X[...], 0) }";
static const char ADD[] = "add(X: T[M,N], Z: T[M,N]) -> (Y: T[M,N]) { Y[i,j] = X[i,j] + Z[i,j] }";
static const char BIAS[] = "bias(X: T[M,N], B: T[N]) -> (Y: T[M,N]) { Y[i,j] = X[i,j] * 2 + B[j] }";

static const char ROPE_PAIRS[] = "rope_pairs(X: T[B,S,H,2*R], C, Z: f32[S,R]) -> (Y: T[B,S,H,2*R]) { "
                                 "Y[b,s,h,d] = d % 2 == 0 ? X[b,s,h,d] * C[s,d/2] - X[b,s,h,d+1] * Z[s,d/2] "
                                 ": X[b,s,h,d] * C[s,d/2] + X[b,s,h,d-1] * Z[s,d/2] }";
static const char ROPE_HALVES[] =
    "rope(Q: T[B,S,H,2*R], K: T[B,S,G,2*R], C, Z: f32[S,R]) -> (Y: T[B,S,H,2*R], L: T[B,S,G,2*R]) { "
    "Y[b,s,h,d] = d < R ? Q[b,s,h,d] * C[s,d] - Q[b,s,h,d+R] * Z[s,d] "
    ": Q[b,s,h,d] * C[s,d-R] + Q[b,s,h,d-R] * Z[s,d-R] "
    "L[b,s,g,d] = d < R ? K[b,s,g,d] * C[s,d] - K[b,s,g,d+R] * Z[s,d] "
    ": K[b,s,g,d] * C[s,d-R] + K[b,s,g,d-R] * Z[s,d-R] }";

static const char ROPE_PARTS[] = "rope(X: T[B,S,H,2*E], C, Z: T[S,E]) -> (Y: T[B,S,H,2*E]) { "
                                 "Y[b,s,h,e + 0] = X[b,s,h,e + 0] * C[s,e] - X[b,s,h,e + E] * Z[s,e] "
                                 "Y[b,s,h,e + E] = X[b,s,h,e + E] * C[s,e] + X[b,s,h,e + 0] * Z[s,e] }";

static const char TURNED[] =
    "turned(X: T[B,H,S,2*E], P: i32[S]) -> (Y: T[B,H,S,2*E]) { a[s,d] = P[s] * pow(50.0, -1.0 * (d % E) / E) "
    "Y[b,h,s,d] = d < E ? X[b,h,s,d] * cos(a[s,d]) - X[b,h,s,d+E] * sin(a[s,d]) "
    ": X[b,h,s,d] * cos(a[s,d]) + X[b,h,s,d-E] * sin(a[s,d]) }";
static const char TURNED_PAIRS[] =
    "turned(X: T[B,H,S,2*E], P: i32[S]) -> (Y: T[B,H,S,2*E]) { a[s,d] = P[s] * pow(50.0, -1.0 * (d/2) / E) "
    "Y[b,h,s,d] = d % 2 == 0 ? X[b,h,s,d] * cos(a[s,d]) - X[b,h,s,d+1] * sin(a[s,d]) "
    ": X[b,h,s,d] * cos(a[s,d]) + X[b,h,s,d-1] * sin(a[s,d]) }";
static const char WEIGHED[] =
    "weighed(X: T[M,N], A: T[M]) -> (Y: T[M,N]) { Y[i,j] = X[i,j] * tanh(exp(A[i])) }";

static const char JOINED[] =
    "joined(X: T[M,A], Z: T[M,B], V: T[M,C]) -> (Y: T[M,N]) { Y[i,a + 0] = X[i,a] Y[i,b + A] = Z[i,b] "
    "Y[i,c + A + B] = V[i,c] }";

/* More pairs of parts than a recipe has requirements: neighbours alone need one. */
static const char SPREAD[] =
    "spread(X: T[M,F]) -> (Y: T[M,13*F]) { Y[i,f + 0] = X[i,f] Y[i,f + F] = X[i,f] + 1.0 "
    "Y[i,f + 2 * F] = X[i,f] + 2.0 Y[i,f + 3 * F] = X[i,f] + 3.0 Y[i,f + 4 * F] = X[i,f] + 4.0 "
    "Y[i,f + 5 * F] = X[i,f] + 5.0 Y[i,f + 6 * F] = X[i,f] + 6.0 Y[i,f + 7 * F] = X[i,f] + 7.0 "
    "Y[i,f + 8 * F] = X[i,f] + 8.0 Y[i,f + 9 * F] = X[i,f] + 9.0 Y[i,f + 10 * F] = X[i,f] + 10.0 "
    "Y[i,f + 11 * F] = X[i,f] + 11.0 Y[i,f + 12 * F] = X[i,f] + 12.0 }";

static const char TURN[] = "turn(X: T[M,N]) -> (Y: T[N,M]) { Y[j,i] = X[i,j] }";
static const char AROUND[] = "around(X: T[A,B,C,D], S: T[C], U: T[D,A]) -> (Y: T[B,A,D,C]) { "
                             "Y[b,a,d,c] = X[a,b,c,d] * S[c] + U[d,a] }";

typedef struct map_case {
  const char *text, *bindings, *settings;
} map_case;

static const map_case cases[] = {
    {RELU, "T=f32 ...=1000", ""},
    {SPREAD, "T=f32 M=5 F=12", ""},
    {RELU, "T=bf16 ...=3x1001", ""},
    {RELU, "T=f16 ...=16411", "VECTOR=8,UNROLL=2,THREADS=128,COLUMNS=128"},
    {RELU, "T=f64 ...=513", ""},
    {RELU, "T=i32 ...=77x3", ""},
    {RELU, "T=i8 ...=4099", ""},
    {RELU, "T=i64 ...=300", ""},
    {RELU, "T=e4m3 ...=999", ""},
    {RELU, "T=e5m2 ...=4001", "VECTOR=16"},
    {RELU, "T=bf16 ...=", ""},
    {RELU, "T=f32 ...=40000", "THREADS=64,COLUMNS=64,PERSISTENT=1,STREAM=1,VECTOR=4"},
    {RELU, "T=bf16 ...=40000", "THREADS=64,COLUMNS=64,PERSISTENT=2,STREAM=2,VECTOR=8"},
    {ADD, "T=bf16 M=37 N=41", ""},
    {BIAS, "T=bf16 M=33 N=64", ""},
    {BIAS, "T=bf16 M=70 N=72", "THREADS=64,COLUMNS=4,VECTOR=8,UNROLL=4"},
    {BIAS, "T=f32 M=70 N=67", "THREADS=64,COLUMNS=64,VECTOR=1,UNROLL=8"},
    {BIAS, "T=f16 M=9 N=4100", "THREADS=128,COLUMNS=128,VECTOR=4,UNROLL=2,PERSISTENT=1"},
    {"outer(A: T[M], B: T[N]) -> (Y: T[M,N]) { Y[i,j] = A[i] * B[j] }", "T=f32 M=50 N=24", ""},
    {"swiglu(X: T[B,2*H]) -> (Y: T[B,H]) { Y[b,h] = silu(X[b,h]) * X[b,h+H] }", "T=bf16 B=5 H=128", ""},
    {"swiglu(X: T[B,2*H]) -> (Y: T[B,H]) { Y[b,h] = silu(X[b,h]) * X[b,h+H] }", "T=bf16 B=5 H=67", ""},
    {ROPE_PAIRS, "T=bf16 B=2 S=3 H=4 R=16", ""},
    {ROPE_PAIRS, "T=f32 B=1 S=5 H=3 R=10", "VECTOR=2"},
    {ROPE_PAIRS, "T=f32 B=1 S=5 H=3 R=7", "VECTOR=1"},
    {ROPE_HALVES, "T=bf16 B=2 S=3 H=4 G=2 R=16", ""},
    {ROPE_HALVES, "T=f16 B=2 S=3 H=4 G=1 R=12", "VECTOR=4"},
    {ROPE_HALVES, "T=f16 B=2 S=3 H=4 G=1 R=12", "VECTOR=8"},
    {ROPE_HALVES, "T=f16 B=2 S=3 H=4 G=1 R=5", "VECTOR=1"},
    {"embedding(W: T[V,D], I: i64[B,S]) -> (Y: T[B,S,D]) { Y[b,s,d] = W[I[b,s] % V, d] }",
     "T=f16 V=17 D=40 B=3 S=5", ""},
    {"gather(X: T[M,N], I: i32[M,K]) -> (Y: T[M,K]) { Y[i,k] = X[i, I[i,k] % N] }", "T=bf16 M=9 N=33 K=24",
     ""},
    {"concat(X: T[M,N], Z: T[M,K]) -> (Y: T[M,L]) { Y[i,j] = j < N ? X[i,j+0] : Z[i,j-N] }",
     "T=bf16 M=7 N=24 K=16 L=40", ""},
    {"concat(X: T[M,N], Z: T[M,K]) -> (Y: T[M,L]) { Y[i,j] = j < N ? X[i,j+0] : Z[i,j-N] }",
     "T=bf16 M=7 N=21 K=19 L=40", ""},
    {"concat(X: T[M,N], Z: T[M,K]) -> (Y: T[M,L]) { Y[i,j] = j < N ? X[i,j+0] : Z[i,j-N] }",
     "T=f32 M=3 N=0 K=16 L=16", ""},
    {"shift(X: T[M,N]) -> (Y: T[M,N]) a: int = 3 { Y[i,j] = X[i-1,j+a] else 0.5 }", "T=f32 M=9 N=36", ""},
    {"stencil(X: T[N]) -> (Y: T[N]) { Y[i] = X[i-1] else 0 + X[i] + X[i+1] else 0 }", "T=bf16 N=600", ""},
    {"reverse(X: T[N]) -> (Y: T[N]) { Y[i] = X[N-1-i] }", "T=bf16 N=600", ""},
    {"transposed(X: T[N,M]) -> (Y: T[M,N]) { Y[i,j] = X[j,i] }", "T=f32 M=24 N=20", ""},
    {"codes(Q: i4[M,N], S: f32[N], Z: e2m1[M,N]) -> (Y: T[M,N]) { Y[i,j] = Q[i,j] * S[j] + Z[i,j] }",
     "T=bf16 M=6 N=48", ""},
    {"codes(Q: i4[M,N], S: f32[N], Z: e2m1[M,N]) -> (Y: T[M,N]) { Y[i,j] = Q[i,j] * S[j] + Z[i,j] }",
     "T=bf16 M=6 N=14", "VECTOR=1"},
    /* elements that share a byte are stored together; what is beside them is not */
    {TYPED, "T=f32 U=i4 M=6 N=47", "VECTOR=8"},
    {TYPED, "T=i4 U=e2m1 M=6 N=48", "VECTOR=16"},
    {TYPED, "T=i4 U=e2m1 M=300 N=10", "VECTOR=2"},
    {TYPED, "T=i64 U=i4 M=1 N=10", "VECTOR=4"},
    {"quantized(X: T[M,N], S: f32[M]) -> (Y: i4[M,N], Z: f32[M]) { Y[i,j] = X[i,j] / S[i]; Z[i] = 2 * S[i] }",
     "T=f32 M=7 N=66", "VECTOR=2"},
    {"in_place(D: i4[N], X: T[N]) -> (D) { D[i] = D[i] + X[i] }", "T=f32 N=334", ""},
    {"choose(C: bool[M,N], X: T[M,N], Z: T[N]) -> (Y: T[M,N]) { Y[i,j] = where(C[i,j], X[i,j], Z[j]) }",
     "T=f16 M=5 N=80", ""},
    {"mask(X: T[S,N], L: i64[S]) -> (Y: T[S,N], B: bool[S,N]) { Y[i,j] = j <= i + 2 && j < L[i] ? X[i,j] : "
     "-inf "
     "B[i,j] = X[i,j] > 0 }",
     "T=bf16 S=9 N=24", ""},
    {"indices(X: f32[N]) -> (Y: f32[N], J: i64[N], P: i8[N]) { Y[i] = X[i] + i J[i] = i * i - 5 P[i] = i % 3 "
     "== 0 ? 1 : i / 4 }",
     "N=304", ""},
    {"in_place(D: T[N], X: T[N]) -> (D) { D[i] = D[i] + X[i] }", "T=f32 N=333", ""},
    {ROPE_PARTS, "T=bf16 B=2 S=3 H=4 E=32", ""},
    {ROPE_PARTS, "T=bf16 B=2 S=3 H=4 E=13", ""},
    {ROPE_PARTS, "T=f32 B=2 S=3 H=4 E=12", "VECTOR=8"},
    {JOINED, "T=bf16 M=5 A=24 B=0 C=40 N=64", ""},
    /* rows of odd lengths are taken as if they were one */
    {BIAS, "T=bf16 M=33 N=67", "VECTOR=8,UNROLL=2"},
    {BIAS, "T=f32 M=5 N=4097", "VECTOR=4,UNROLL=1"},
    {BIAS, "T=bf16 M=70 N=3", "VECTOR=8"},
    {BIAS, "T=i8 M=70 N=33", "VECTOR=16"},
    {"outer(A: T[M], B: T[N]) -> (Y: T[M,N]) { Y[i,j] = A[i] * B[j] }", "T=bf16 M=51 N=25", "VECTOR=8"},
    {"planes(X: T[A,B,C], S: T[A], U: T[B,1], V: T[C]) -> (Y: T[A,B,C], Z: f32[A,B,C]) { Y[a,b,c] = X[a,b,c] "
     "* S[a] + U[b,0] Z[a,b,c] = X[a,b,c] * V[c] + b }",
     "T=f16 A=4 B=5 C=37", "VECTOR=8"},
    {"planes(X: T[A,B,C], S: T[A], U: T[B,1], V: T[C]) -> (Y: T[A,B,C], Z: f32[A,B,C]) { Y[a,b,c] = X[a,b,c] "
     "* S[a] + U[b,0] Z[a,b,c] = X[a,b,c] * V[c] + b }",
     "T=f16 A=4 B=25 C=5", "VECTOR=4"},
    {"embedding(W: T[V,D], I: i64[B,S]) -> (Y: T[B,S,D]) { Y[b,s,d] = W[I[b,s] % V, d] }",
     "T=bf16 V=17 D=41 B=3 S=5", "VECTOR=4"},
    {"scaled(X: T[...,N], S: T[N]) -> (Y: T[...,N]) { Y[...,j] = X[...,j] * S[j] }", "T=bf16 N=21 ...=3x5",
     "VECTOR=8"},
    /* what heads share is computed once for several of them: all at once, in a loop, for some of them */
    {TURNED, "T=bf16 B=2 H=4 S=5 E=16", ""},
    {TURNED, "T=f32 B=2 H=4 S=5 E=16", "VECTOR=4,UNROLL=4,REUSE=4"},
    {TURNED, "T=bf16 B=2 H=8 S=70 E=16", "VECTOR=8,UNROLL=2,REUSE=8,THREADS=64,COLUMNS=2"},
    {TURNED, "T=bf16 B=2 H=8 S=70 E=16", "VECTOR=8,UNROLL=1,REUSE=2,THREADS=64,COLUMNS=2,PERSISTENT=1"},
    {TURNED, "T=f16 B=1 H=6 S=9 E=40", "VECTOR=8,UNROLL=4,REUSE=2,THREADS=64,COLUMNS=8"},
    {TURNED, "T=f16 B=1 H=3 S=9 E=7", ""},
    {TURNED_PAIRS, "T=bf16 B=2 H=8 S=33 E=16", "VECTOR=8,UNROLL=2,REUSE=8,THREADS=64,COLUMNS=4"},
    {TURNED_PAIRS, "T=f32 B=2 H=2 S=33 E=5", "VECTOR=2"},
    {WEIGHED, "T=f32 M=7 N=4100", "VECTOR=4,UNROLL=4"},
    {"thirds(X: T[M,3*N], V: T[N]) -> (Y: T[M,3*N]) { Y[i,j] = j / N == 1 ? X[i,j - N] : j < 2 * N && j != i "
     "? V[j % N] * (j % N) : X[i,3 * N - 1 - j] }",
     "T=f32 M=9 N=24", ""},
    {"stacked(X: T[M,N], Z: T[M,N]) -> (Y: T[2,M,N]) { Y[0,i,j] = X[i,j] Y[1,i,j] = -Z[i,j] }",
     "T=f16 M=5 N=37", ""},
    {"turned(D: T[M,2*E], S: T[E]) -> (D) { D[i,e + E] = D[i,e + E] * S[e] }", "T=f32 M=5 E=16", ""},
    {"scaled(X: f32[N], S: f32[]) -> (Y: f32[N]) { Y[i] = X[i] * S[] }", "N=70", ""},
    /* whole tiles: in a grid of two dimensions, in turns, of two groups, with a reuse row */
    {BIAS, "T=bf16 M=64 N=256", "THREADS=64,COLUMNS=16,VECTOR=8,UNROLL=4"},
    {BIAS, "T=f32 M=96 N=128", "THREADS=64,COLUMNS=16,VECTOR=4,UNROLL=2,PERSISTENT=2"},
    {RELU, "T=bf16 ...=8x4096", "THREADS=128,COLUMNS=128,VECTOR=8,UNROLL=4,STREAM=2"},
    {ROPE_HALVES, "T=bf16 B=2 S=4 H=4 G=2 R=32", "THREADS=64,COLUMNS=4,VECTOR=8,UNROLL=2"},
    {TURNED, "T=f32 B=2 H=8 S=64 E=16", "VECTOR=4,UNROLL=2,REUSE=4,THREADS=64,COLUMNS=4"},
    {TURNED, "T=f32 B=2 H=8 S=64 E=16", "VECTOR=4,UNROLL=4,REUSE=4,THREADS=64,COLUMNS=4,RESIDENT=1024"},
    {TURNED, "T=f32 B=2 H=6 S=64 E=16", "VECTOR=4,UNROLL=2,REUSE=4,THREADS=64,COLUMNS=4"},
    /* axes of one element stand between nothing */
    {TURN, "T=bf16 M=1 N=1000", "VECTOR=8,UNROLL=2"},
    {TURN, "T=f32 M=1004 N=1", "VECTOR=4"},
    {TURN, "T=bf16 M=1 N=1", ""},
    {AROUND, "T=bf16 A=3 B=1 C=40 D=1", "VECTOR=8"},
    {AROUND, "T=f32 A=1 B=5 C=1 D=24", "VECTOR=4"},
    {AROUND, "T=f16 A=1 B=1 C=7 D=9", "VECTOR=8"},
    {BIAS, "T=bf16 M=33 N=1", ""},
    {BIAS, "T=bf16 M=1 N=72", "VECTOR=8"},
};

START_TEST(cases_are_right) {
  arena a = ARENA_INIT;
  template_case c =
      template_case_bind(&a, template_find("map"), cases[_i].text, cases[_i].bindings, cases[_i].settings);
  template_case_run(&a, &c, NULL, 0);
  arena_release(&a);
}
END_TEST

/* --- views --- */

typedef struct view_case {
  const char *text, *bindings, *settings;
  int way;
  run_view views[4];
} view_case;

static const view_case view_cases[] = {
    /* padded rows */
    {ADD,
     "T=bf16 M=9 N=32",
     "",
     1,
     {{.strided = true, .stride = {40, 1}},
      {.strided = true, .stride = {48, 1}},
      {.strided = true, .stride = {32, 1}}}},
    /* rows that do not line up with vectors */
    {ADD,
     "T=bf16 M=9 N=32",
     "",
     2,
     {{.strided = true, .stride = {33, 1}},
      {.strided = true, .stride = {48, 1}},
      {.strided = true, .stride = {32, 1}}}},
    /* unaligned bases */
    {ADD, "T=bf16 M=9 N=32", "", 2, {{.offset = 3}, {.offset = 0}, {.offset = 1}}},
    {RELU, "T=f32 ...=7x9", "", 2, {{.offset = 1}, {.offset = 2}}},
    /* transposed, broadcast */
    {ADD,
     "T=f32 M=12 N=20",
     "",
     2,
     {{.strided = true, .stride = {1, 12}},
      {.strided = true, .stride = {0, 1}},
      {.strided = true, .stride = {20, 1}}}},
    {ADD,
     "T=f64 M=12 N=20",
     "",
     2,
     {{.strided = true, .stride = {1, 0}},
      {.strided = true, .stride = {0, 0}},
      {.strided = true, .stride = {1, 12}}}},
    /* leading axes: as they are, padded, permuted, broadcast */
    {RELU,
     "T=bf16 ...=3x4x8",
     "",
     1,
     {{.strided = true, .stride = {64, 16, 1}}, {.strided = true, .stride = {32, 8, 1}}}},
    {RELU,
     "T=bf16 ...=3x4x5",
     "",
     2,
     {{.strided = true, .stride = {1, 3, 12}}, {.strided = true, .stride = {20, 5, 1}}}},
    {RELU,
     "T=bf16 ...=3x4x5",
     "",
     0,
     {{.strided = true, .stride = {1, 3, 12}}, {.strided = true, .stride = {1, 3, 12}}}},
    {RELU,
     "T=i8 ...=3x4x5x2",
     "",
     2,
     {{.strided = true, .stride = {0, 2, 0, 1}}, {.strided = true, .stride = {40, 10, 2, 1}}}},
    {ROPE_PAIRS, "T=bf16 B=2 S=3 H=4 R=16", "", 1, {{.strided = true, .stride = {1200, 400, 40, 1}}}},
    {ROPE_PAIRS, "T=bf16 B=2 S=3 H=4 R=16", "", 2, {{.strided = true, .stride = {1200, 400, 33, 1}}}},
    {TYPED,
     "T=e4m3 U=f32 M=5 N=48",
     "",
     1,
     {{.strided = true, .stride = {64, 1}}, {.strided = true, .stride = {56, 1}}}},
    {TYPED,
     "T=i4 U=f32 M=5 N=48",
     "",
     2,
     {{.strided = true, .stride = {1, 5}}, {.strided = true, .stride = {56, 1}}}},
    {TYPED, "T=i4 U=bf16 M=5 N=48", "", 2, {{.offset = 3}, {.offset = 0}}},
    /* whatever the stride of one element is */
    {TURN, "T=f32 M=1 N=40", "VECTOR=4", 0, {{.strided = true, .stride = {77, 1}}}},
    {TURN, "T=f32 M=1 N=40", "VECTOR=4", 2, {{.strided = true, .stride = {1, 2}}}},
    {AROUND, "T=bf16 A=3 B=1 C=40 D=1", "VECTOR=8", 1, {{.strided = true, .stride = {48, 40, 1, 1}}}},
};

START_TEST(views_are_right) {
  const view_case *v = &view_cases[_i];
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, template_find("map"), v->text, v->bindings, v->settings);
  run_view views[LIMIT_TENSORS] = {0};
  for (int i = 0; i < 4; i++) views[i] = v->views[i];
  template_case_run(&a, &c, views, v->way);
  arena_release(&a);
}
END_TEST

/* The last way, which takes what is too large for 32 bits, takes everything. */
START_TEST(the_last_way_serves_every_view) {
  const view_case *v = &view_cases[_i];
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, template_find("map"), v->text, v->bindings, v->settings);
  run_view views[LIMIT_TENSORS] = {0};
  for (int i = 0; i < 4; i++) views[i] = v->views[i];
  lowered l = template_case_lower(&a, &c);
  while (l.recipe.otherwise) l.recipe = *l.recipe.otherwise;
  ck_assert_int_eq(l.recipe.n_requirements, 0);
  template_case_run_kernel(&c, l, views, 0);
  template_case_run_kernel(&c, l, NULL, 0);
  arena_release(&a);
}
END_TEST

/* --- dtypes --- */

static const char *const types[] = {"f32", "f16", "bf16", "f64", "e4m3", "e5m2",
                                    "i8",  "u8",  "i32",  "i64", "bool"};

START_TEST(every_pair_is_cast) {
  arena a = ARENA_INIT;
  for (size_t k = 0; k < COUNT_OF(types); k++) {
    char bindings[64];
    snprintf(bindings, sizeof bindings, "T=%s U=%s M=3 N=35", types[_i], types[k]);
    template_case c = template_case_bind(&a, template_find("map"), TYPED, bindings, "");
    template_case_run(&a, &c, NULL, 0);
  }
  arena_release(&a);
}
END_TEST

/* --- sizes --- */

START_TEST(rows_go_beyond_a_grid_dimension) {
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, template_find("map"), BIAS, "T=bf16 M=66000 N=32",
                                       "THREADS=64,COLUMNS=32,VECTOR=1,UNROLL=1");
  template_case_run(&a, &c, NULL, 0);
  arena_release(&a);
}
END_TEST

/* Kernels for more than 2^31 elements, run on few; and 32-bit ones refuse what is too large. */
START_TEST(offsets_have_64_bits_where_needed) {
  static const char *const texts[] = {ADD, BIAS, ROPE_PAIRS};
  static const char *const large[] = {"T=bf16 M=65536 N=65536", "T=bf16 M=65536 N=65536",
                                      "T=f16 B=64 S=32768 H=32 R=64"};
  static const char *const small[] = {"T=bf16 M=9 N=63", "T=bf16 M=9 N=64", "T=f16 B=2 S=3 H=2 R=16"};
  arena a = ARENA_INIT;
  const kernel_template *k = template_find("map");
  template_case c = template_case_bind(&a, k, texts[_i], large[_i], "");
  lowered l = template_case_lower(&a, &c);
  template_case s = template_case_bind(&a, k, texts[_i], small[_i], "");
  if (strstr(l.ptx, ".entry map_whole(")) l.recipe = *l.recipe.otherwise;
  template_case_run_kernel(&s, l, NULL, 0);
  lowered narrow = template_case_lower(&a, &s);
  ck_assert_int_gt(narrow.recipe.n_requirements, 0);
  bool guarded = false;
  for (int i = 0; i < narrow.recipe.n_requirements; i++)
    guarded = guarded || narrow.recipe.requirements[i].max == INT64_C(1) << 30;
  ck_assert(guarded);
  arena_release(&a);
}
END_TEST

/* A kernel serves other sizes than those it was made for: by the first way, or by one without assumptions. */
START_TEST(other_sizes_are_right) {
  static const struct {
    const char *text, *made, *run;
    int way;
  } sizes[] = {
      {RELU, "T=bf16 ...=4096", "T=bf16 ...=3x2048", 0}, /* whole tiles */
      {RELU, "T=bf16 ...=4096", "T=bf16 ...=77", 1},
      {BIAS, "T=bf16 M=64 N=512", "T=bf16 M=12 N=1024", 0},
      {BIAS, "T=bf16 M=64 N=512", "T=bf16 M=3 N=512", 1},
      {BIAS, "T=bf16 M=64 N=512", "T=bf16 M=3 N=24", 1},
      {BIAS, "T=bf16 M=64 N=512", "T=bf16 M=3 N=25", 3},
      {ROPE_HALVES, "T=bf16 B=2 S=3 H=4 G=2 R=16", "T=bf16 B=3 S=2 H=3 G=1 R=24", 0},
      {ROPE_HALVES, "T=bf16 B=2 S=3 H=4 G=2 R=16", "T=bf16 B=3 S=2 H=3 G=1 R=10", 2},
      {ROPE_HALVES, "T=bf16 B=1 S=3 H=4 G=2 R=16", "T=bf16 B=3 S=2 H=3 G=1 R=16", 1},
      {BIAS, "T=bf16 M=64 N=511", "T=bf16 M=3 N=48", 0},
      {BIAS, "T=bf16 M=64 N=511", "T=bf16 M=31 N=7", 2},
      {TURNED, "T=bf16 B=2 H=8 S=70 E=16", "T=bf16 B=2 H=7 S=71 E=24", 0},
      {TURN, "T=bf16 M=1 N=256", "T=bf16 M=1 N=72", 0},
      {TURN, "T=bf16 M=1 N=256", "T=bf16 M=2 N=72", 1},
      {AROUND, "T=bf16 A=3 B=1 C=40 D=1", "T=bf16 A=5 B=1 C=16 D=1", 0},
      {AROUND, "T=bf16 A=3 B=1 C=40 D=1", "T=bf16 A=3 B=2 C=40 D=1", 1},
      {AROUND, "T=bf16 A=3 B=1 C=40 D=1", "T=bf16 A=3 B=1 C=40 D=2", 1},
  };
  arena a = ARENA_INIT;
  const kernel_template *k = template_find("map");
  template_case made = template_case_bind(&a, k, sizes[_i].text, sizes[_i].made, "");
  template_case run = template_case_bind(&a, k, sizes[_i].text, sizes[_i].run, "");
  template_case_run_kernel(&run, template_case_lower(&a, &made), NULL, sizes[_i].way);
  arena_release(&a);
}
END_TEST

/* What binding refuses for a problem's sizes, a recipe refuses for a call's. */
static bool refuses(const recipe *r, const recipe_binding *sizes, int n) {
  for (int i = 0; i < r->n_requirements; i++) {
    const recipe_requirement *q = &r->requirements[i];
    int64_t value;
    if (q->divisor != 0 || recipe_expr_eval(q->expr, sizes, n, &value, NULL) != ARKE_OK) continue;
    if (value > q->max) return true;
  }
  return false;
}

START_TEST(sizes_that_leave_a_tensor_are_refused) {
  static const struct {
    const char *text, *made;
    recipe_binding right[4], wrong[2][4];
  } sizes[] = {
      {"w(X: T[A,N]) -> (Y: T[A,M]) { Y[i,j] = X[i,j + 2] }",
       "T=f32 A=4 N=10 M=8",
       {{"A", 3}, {"N", 9}, {"M", 7}},
       {{{"A", 3}, {"N", 9}, {"M", 8}}, {{"A", 3}, {"N", 1}, {"M", 1}}}},
      {"r(X: T[N]) -> (Y: T[M]) { Y[i] = X[N - 1 - i] }",
       "T=f32 N=10 M=10",
       {{"N", 9}, {"M", 7}},
       {{{"N", 9}, {"M", 10}}, {{"N", 0}, {"M", 1}}}},
      {"c(X: T[A], Z: T[B]) -> (Y: T[N]) { Y[i + 0] = X[i] Y[i + A] = Z[i] }",
       "T=f32 A=3 B=4 N=7",
       {{"A", 4}, {"B", 4}, {"N", 8}},
       {{{"A", 4}, {"B", 4}, {"N", 7}}, {{"A", 1}, {"B", 9}, {"N", 9}}}},
  };
  arena a = ARENA_INIT;
  template_case made = template_case_bind(&a, template_find("map"), sizes[_i].text, sizes[_i].made, "");
  lowered l = template_case_lower(&a, &made);
  int n = made.p.op->n_axes, ways = 0;
  for (const recipe *r = &l.recipe; r != NULL; r = r->otherwise, ways++) {
    ck_assert(!refuses(r, sizes[_i].right, n));
    for (int k = 0; k < 2; k++) ck_assert(refuses(r, sizes[_i].wrong[k], n));
  }
  ck_assert_int_gt(ways, 1);
  arena_release(&a);
}
END_TEST

/* --- the template as such --- */

/* Rows of an odd number of elements that share bytes, together an odd number. */
START_TEST(odd_packed_outputs_are_refused) {
  const kernel_template *map = template_find("map");
  template_refuses(map, TYPED, "T=f32 U=i4 M=3 N=7", TEMPLATE_DTYPE);
  template_refuses(map, "s(X: f32[N]) -> (Y: i4[]) { Y = X[0] }", "N=2", TEMPLATE_DTYPE);
  template_refuses(map, "j(X: i4[A], Z: i4[B]) -> (Y: i4[N]) { Y[i + 0] = X[i]; Y[i + A] = Z[i] }",
                   "A=4 B=4 N=8", TEMPLATE_DTYPE);
  arena a = ARENA_INIT;
  template_case even = template_case_bind(&a, map, TYPED, "T=f32 U=i4 M=3 N=8", "VECTOR=2");
  lowered l = template_case_lower(&a, &even);
  const recipe_binding sizes[] = {{"M", 3}, {"N", 7}};
  for (const recipe *r = &l.recipe; r != NULL; r = r->otherwise) {
    bool refused = false;
    for (int i = 0; i < r->n_requirements; i++) {
      int64_t value, divisor = r->requirements[i].divisor;
      if (divisor != 0 && recipe_expr_eval(r->requirements[i].expr, sizes, 2, &value, NULL) == ARKE_OK)
        refused = refused || value % divisor != 0;
    }
    ck_assert(refused);
  }
  run_view views[LIMIT_TENSORS] = {{.strided = true, .stride = {12, 1}},
                                   {.strided = true, .stride = {16, 1}}};
  template_case_run(&a, &even, views, 1);
  arena_release(&a);
}
END_TEST

START_TEST(what_is_no_map_is_refused) {
  static const char *const texts[][2] = {
      {"s(X: f32[M,N]) -> (Y: f32[M]) { Y[i] = sum(k) X[i,k] }", "M=8 N=8"},
      {"c(X: f32[N]) -> (Y: f32[N]) { Y[i] = sum(t: t <= i) X[t] }", "N=8"},
      {"s(X: f32[N], I: i64[N]) -> (Y: f32[N]) { Y[i] = 0.0 Y[I[i]] += X[i] }", "N=8"},
      {"d(X: f32[N]) -> (Y: f32[N,N]) { Y[i,i] = X[i] }", "N=8"},
      {"m(D: f32[2*N], X: f32[N]) -> (D) { D[i + 0] = D[i + N] * X[i] }", "N=8"},
      {"r(D: f32[N]) -> (D) { D[i] = D[N-1-i] }", "N=8"},
      {"o(X: f32[N]) -> (Y: f32[2*N]) { Y[i + 0] = X[i] Y[i + 1] = X[i] }", "N=8"},
      {"t(X: f32[M,N]) -> (V: f32[M,K], I: i64[M,K]) { (V[i,k], I[i,k]) = topk(j) X[i,j] }", "M=8 N=8 K=2"},
  };
  template_refuses(template_find("map"), texts[_i][0], texts[_i][1], TEMPLATE_OPERATOR);
}
END_TEST

static const map_case class_cases[] = {
    {BIAS, "T=bf16 M=64 N=4096", ""},
    {BIAS, "T=f32 M=64 N=4095", "VECTOR=4,UNROLL=2"},
    {RELU, "T=bf16 ...=1000000", "PERSISTENT=2,UNROLL=4,VECTOR=8,STREAM=1"},
    {RELU, "T=f32 ...=1000000", "PERSISTENT=0,UNROLL=8,VECTOR=8,STREAM=2"},
    {ROPE_HALVES, "T=bf16 B=2 S=64 H=8 G=2 R=64", ""},
    {ROPE_PAIRS, "T=bf16 B=2 S=64 H=8 R=64", "UNROLL=2"},
    {TURNED, "T=bf16 B=1 H=32 S=64 E=64", "UNROLL=2,REUSE=16"},
    {TYPED, "T=e4m3 U=bf16 M=64 N=1024", "UNROLL=2"},
    {TYPED, "T=f32 U=i8 M=64 N=1024", ""},
    {JOINED, "T=bf16 M=4096 A=1024 B=512 C=512 N=2048", ""},
    {JOINED, "T=bf16 M=1 A=1048576 B=524288 C=524288 N=2097152", ""},
    {"shifted(X: T[K]) -> (Y: T[N]) { Y[i] = X[i + 3] }", "T=f32 N=1000000 K=1000003", ""},
};

START_TEST(classes_assemble_without_spills) {
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, template_find("map"), class_cases[_i].text,
                                       class_cases[_i].bindings, class_cases[_i].settings);
  template_case_assemble(&a, &c);
  template_case_run_reduced(&a, &c);
  arena_release(&a);
}
END_TEST

/* Vectors of 16 bytes, all of a thread's loads before its first store. */
START_TEST(accesses_are_wide_and_loads_come_first) {
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, template_find("map"), class_cases[0].text, class_cases[0].bindings,
                                       "VECTOR=8,UNROLL=4,THREADS=128,COLUMNS=128");
  lowered l = template_case_lower(&a, &c);
  const char *entry = strstr(l.ptx, ".entry map("), *end = strstr(entry, ".entry map_views(");
  ck_assert_ptr_nonnull(end);
  int run = 0, longest = 0;
  for (const char *at = entry; at < end; at++) {
    if (strncmp(at, "ld.global.nc.v4.b32", 19) == 0) run++;
    if (strncmp(at, "st.global", 9) == 0) run = 0;
    if (run > longest) longest = run;
  }
  ck_assert_int_ge(longest, 8); /* four of X, and of B as many as there are columns */
  ck_assert_ptr_nonnull(strstr(entry, "st.global.v4.b32"));
  ck_assert_ptr_nonnull(strstr(entry, "griddepcontrol.wait"));
  arena_release(&a);
}
END_TEST

/* Where tiles fill the sizes there is no code for a rest; a row more, and there is. */
START_TEST(whole_tiles_have_no_branches) {
  static const char *const bindings[] = {"T=bf16 M=64 N=256", "T=bf16 M=65 N=256"};
  for (int i = 0; i < 2; i++) {
    arena a = ARENA_INIT;
    template_case c = template_case_bind(&a, template_find("map"), BIAS, bindings[i],
                                         "THREADS=64,COLUMNS=16,VECTOR=8,UNROLL=4");
    lowered l = template_case_lower(&a, &c);
    const char *entry = strstr(l.ptx, i == 0 ? ".entry map_whole(" : ".entry map("),
               *end = strstr(entry, "\n}");
    ck_assert_ptr_nonnull(end);
    const char *branch = strstr(entry, "bra");
    ck_assert((branch == NULL || branch > end) == (i == 0));
    ck_assert_int_eq(strstr(l.ptx, ".entry map_whole(") != NULL, i == 0);
    arena_release(&a);
  }
}
END_TEST

static int count(const char *text, const char *end, const char *word) {
  int n = 0;
  for (const char *at = strstr(text, word); at && at < end; at = strstr(at + 1, word)) n++;
  return n;
}

/* Angles are one for a pair and for all heads: twice as many vectors take no more of them. */
START_TEST(costly_values_are_shared) {
  static const char *const texts[] = {TURNED, TURNED_PAIRS};
  static const char *const settings[] = {"VECTOR=4,UNROLL=1,REUSE=1", "VECTOR=4,UNROLL=2,REUSE=2",
                                         "VECTOR=4,UNROLL=2,REUSE=8"};
  arena a = ARENA_INIT;
  int turns[3];
  for (int i = 0; i < 3; i++) {
    template_case c =
        template_case_bind(&a, template_find("map"), texts[_i], "T=bf16 B=1 H=8 S=64 E=16", settings[i]);
    lowered l = template_case_lower(&a, &c);
    const char *entry = strstr(l.ptx, ".entry map("), *end = strstr(entry, ".entry map_views(");
    ck_assert_ptr_nonnull(end);
    turns[i] = count(entry, end, "ld.const"); /* digits of pi */
  }
  ck_assert_int_gt(turns[0], 0);
  ck_assert_int_eq(turns[1], turns[0]);
  ck_assert_int_eq(turns[2], turns[0]);
  arena_release(&a);
}
END_TEST

START_TEST(every_feasible_point_is_cheap_to_judge_and_costs_something) {
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, template_find("map"), BIAS, "T=bf16 M=512 N=4096", "");
  const space *s = c.k->space(c.t);
  const void *prepared = c.k->prepare(&c.p, c.t, &a);
  ck_assert_ptr_nonnull(prepared);
  int64_t feasible = 0;
  double best = 1e30, defaults = template_cost_ns(c.k, &c.p, c.t, &c.t->rates, &c.c);
  for (int64_t i = 0; i < space_size(s); i++) {
    double ns;
    space_point(s, i, &c.c);
    template_reason reason = c.k->judge(prepared, c.t, &c.t->rates, &c.c, &ns);
    if (reason != TEMPLATE_OK) continue;
    feasible++;
    ck_assert(ns > c.t->rates.launch_ns && ns < 1e9);
    if (ns < best) best = ns;
  }
  ck_assert_int_ge(feasible, 100);
  ck_assert(defaults < 1.3 * best);
  arena_release(&a);
}
END_TEST

/* On request an index out of range reads 0: the results of the same operator with an else. */
START_TEST(indices_are_tested_on_request) {
  static const double indices[] = {3, -1, 7, 1e12, 0, 6};
  static const char TEXT[] = "e(W: T[V,D], I: i64[S]) -> (Y: T[S,D]) { Y[s,d] = W[I[s], d] }";
  static const char SAME[] = "e(W: T[V,D], I: i64[S]) -> (Y: T[S,D]) { Y[s,d] = W[I[s], d] else 0 }";
  run_view views[LIMIT_TENSORS] = {{0}, {.values = indices, .n_values = 6}};
  arena a = ARENA_INIT;
  arke_error err = ARKE_ERROR_INIT;
  template_case c = template_case_bind(&a, template_find("map"), TEXT, "T=f16 V=7 D=48 S=11", "");
  template_case same = template_case_bind(&a, template_find("map"), SAME, "T=f16 V=7 D=48 S=11", "");
  lower_options o = {.check_indices = true, .fast_math = true};
  lowered l;
  ck_assert_msg(c.k->lower(&c.p, c.t, &c.c, &o, &a, &l, &err) == ARKE_OK, "%s", err.text);
  template_case_run_kernel(&same, l, views, 0);
  arena_release(&a);
}
END_TEST

START_TEST(allocations_may_fail) {
  template_class_fail_allocations(template_find("map"),
                                  &(template_class){ROPE_PAIRS, "T=bf16 B=2 S=3 H=4 R=16", ""});
}
END_TEST

int main(void) {
  TCase *tests = template_tests("the map template");
  tcase_add_loop_test(tests, cases_are_right, 0, (int)COUNT_OF(cases));
  tcase_add_loop_test(tests, views_are_right, 0, (int)COUNT_OF(view_cases));
  tcase_add_loop_test(tests, the_last_way_serves_every_view, 0, (int)COUNT_OF(view_cases));
  tcase_add_loop_test(tests, every_pair_is_cast, 0, (int)COUNT_OF(types));
  tcase_add_test(tests, rows_go_beyond_a_grid_dimension);
  tcase_add_loop_test(tests, offsets_have_64_bits_where_needed, 0, 3);
  tcase_add_loop_test(tests, other_sizes_are_right, 0, 9);
  tcase_add_loop_test(tests, sizes_that_leave_a_tensor_are_refused, 0, 3);
  tcase_add_test(tests, odd_packed_outputs_are_refused);
  tcase_add_loop_test(tests, what_is_no_map_is_refused, 0, 8);
  tcase_add_loop_test(tests, classes_assemble_without_spills, 0, (int)COUNT_OF(class_cases));
  tcase_add_test(tests, accesses_are_wide_and_loads_come_first);
  tcase_add_test(tests, whole_tiles_have_no_branches);
  tcase_add_loop_test(tests, costly_values_are_shared, 0, 2);
  tcase_add_test(tests, every_feasible_point_is_cheap_to_judge_and_costs_something);
  tcase_add_test(tests, indices_are_tested_on_request);
  tcase_add_test(tests, allocations_may_fail);
  return template_tests_run("the map template", tests);
}
