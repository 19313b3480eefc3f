/* Maps on the emulator against the reference: dtypes, ragged sizes, views, gathers, neighbours. */
#include <check.h>
#include <stdlib.h>

#include "template_cases.h"

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

typedef struct map_case {
  const char *text, *bindings, *settings;
} map_case;

static const map_case cases[] = {
    {RELU, "T=f32 ...=1000", ""},
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
    {BIAS, "T=f32 M=70 N=67", "THREADS=64,COLUMNS=16,VECTOR=1,UNROLL=8"},
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
    {ROPE_HALVES, "T=f16 B=2 S=3 H=4 G=1 R=5", "VECTOR=2"},
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
    {"scaled(X: f32[N], S: f32[]) -> (Y: f32[N]) { Y[i] = X[i] * S[] }", "N=70", ""},
};

START_TEST(cases_are_right) {
  arena a = ARENA_INIT;
  template_case c =
      template_case_bind(&a, template_find("map"), cases[_i].text, cases[_i].bindings, cases[_i].settings);
  template_case_run(&a, &c, NULL, 0);
  arena_release(&a);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("the map template");
  TCase *tests = tcase_create("map");
  tcase_set_timeout(tests, 60);
  tcase_add_loop_test(tests, cases_are_right, 0, (int)COUNT_OF(cases));
  suite_add_tcase(suite, tests);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_ENV);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
