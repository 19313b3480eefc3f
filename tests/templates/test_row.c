/* Row reductions: what fits, every class of configuration on the emulator, special values, views, and planted
 * faults. */
#include <check.h>
#include <math.h>
#include <stdlib.h>

#include "template_cases.h"
#include "templates/row.h"

static const kernel_template *row(void) {
  return template_find("row");
}

static const char softmax[] = "softmax(X: T[M,N]) -> (Y: T[M,N]) { m[i] = max(j) X[i,j]; "
                              "s[i] = sum(j) exp(X[i,j] - m[i]); Y[i,j] = exp(X[i,j] - m[i]) / s[i] }";
static const char log_softmax[] = "log_softmax(X: T[M,N]) -> (Y: T[M,N]) { m[i] = max(j) X[i,j]; "
                                  "s[i] = log(sum(j) exp(X[i,j] - m[i])) + m[i]; Y[i,j] = X[i,j] - s[i] }";
static const char logsumexp[] = "logsumexp(X: T[M,N]) -> (Y: f32[M]) { m[i] = max(j) X[i,j]; "
                                "Y[i] = log(sum(j) exp(X[i,j] - m[i])) + m[i] }";
static const char layernorm[] =
    "layernorm(X: T[M,N], W: T[N], b: T[N]) -> (Y: T[M,N]) eps: float = 1e-5 { mu[i] = sum(j) X[i,j] / N; "
    "va[i] = sum(j) (X[i,j] - mu[i]) * (X[i,j] - mu[i]) / N; "
    "Y[i,j] = (X[i,j] - mu[i]) * rsqrt(va[i] + eps) * W[j] + b[j] }";
static const char rmsnorm[] =
    "rmsnorm(X: T[M,N], W: T[N]) -> (Y: T[M,N]) eps: float = 1e-6 { "
    "ms[i] = sum(j) X[i,j] * X[i,j] / N; Y[i,j] = X[i,j] * rsqrt(ms[i] + eps) * W[j] }";
static const char rmsnorm_residual[] =
    "rmsnorm_residual(X, R: T[M,N], W: T[N]) -> (Y: T[M,N], Z: T[M,N]) eps: float = 1e-6 { "
    "Z[i,j] = X[i,j] + R[i,j]; ms[i] = sum(j) Z[i,j] * Z[i,j] / N; "
    "Y[i,j] = Z[i,j] * rsqrt(ms[i] + eps) * W[j] }";
static const char residual_in_place[] =
    "residual_in_place(X, R: T[M,N], W: T[N]) -> (Y: T[M,N], R) eps: float = 1e-6 { "
    "R[i,j] = X[i,j] + R[i,j]; ms[i] = sum(j) (X[i,j] + R[i,j]) * (X[i,j] + R[i,j]) / N; "
    "Y[i,j] = (X[i,j] + R[i,j]) * rsqrt(ms[i] + eps) * W[j] }";
static const char adaln[] =
    "adaln(X, S, H: T[M,N]) -> (Y: T[M,N]) eps: float = 1e-5 { mu[i] = sum(j) X[i,j] / N; "
    "va[i] = sum(j) (X[i,j] - mu[i]) * (X[i,j] - mu[i]) / N; "
    "Y[i,j] = (X[i,j] - mu[i]) * rsqrt(va[i] + eps) * S[i,j] + H[i,j] }";
static const char turned_rows[] =
    "turned_rows(X: T[A,B,C,N]) -> (Y: T[B,A,C,N]) { m[a,b,c] = max(j) X[a,b,c,j]; "
    "Y[b,a,c,j] = X[a,b,c,j] - m[a,b,c] }";
static const char last_but_one[] = "last_but_one(X: T[M,N,K]) -> (Y: T[M,N,K]) { m[i,k] = max(j) X[i,j,k]; "
                                   "Y[i,j,k] = X[i,j,k] - m[i,k] }";
/* Each row of one tensor meets each of another, but is not multiplied with it. */
static const char distances[] = "distances(X: T[M,D], Z: T[N,D]) -> (Y: f32[M,N]) { "
                                "Y[i,j] = sqrt(sum(d) (X[i,d] - Z[j,d]) * (X[i,d] - Z[j,d])) }";
static const char largest_sums[] =
    "largest_sums(A: T[M,K], B: T[N,K]) -> (Y: T[M,N]) { Y[i,j] = max(k) (A[i,k] + B[j,k]) }";
static const char sums[] = "sums(X: T[M,N]) -> (Y: T[M]) { Y[i] = sum(j) X[i,j] }";
static const char mean[] = "mean(X: T[M,N]) -> (Y: f32[M]) { Y[i] = (sum(j) X[i,j]) / N }";
static const char extremes[] =
    "extremes(X: T[M,N]) -> (Y: T[M], Z: T[M]) { Y[i] = max(j) X[i,j]; Z[i] = min(j) X[i,j] }";
static const char product[] = "product(X: T[M,N]) -> (Y: T[M]) { Y[i] = prod(j) (1 + X[i,j] / 64) }";
static const char conditions[] = "conditions(X: T[M,N]) -> (Y: bool[M], Z: bool[M]) { "
                                 "Y[i] = any(j) X[i,j] > 3; Z[i] = all(j) X[i,j] > -3 }";
static const char places[] = "places(X: T[M,N]) -> (Y: i64[M], Z: i64[M], V: T[M]) { "
                             "Y[i] = argmax(j) X[i,j]; Z[i] = argmin(j) X[i,j]; V[i] = max(j) X[i,j] }";
static const char last_places[] = "last_places(X: T[M,N], n: i64[M]) -> (Y: i64[M]) { "
                                  "Y[i] = argmax(j: j >= n[i]) X[i,j] }";
static const char quantize[] =
    "quantize(X: T[M,N]) -> (Q: U[M,N], s: f32[M]) { a[i] = max(j) abs(X[i,j]); "
    "s[i] = a[i] == 0 ? 1 : a[i] / cast<U>(inf); Q[i,j] = cast<U>(X[i,j] / s[i]) }";
static const char gated[] =
    "gated(X: T[M,2*N]) -> (Q: i8[M,N], s: f32[M]) { h[i,j] = silu(X[i,j+0]) * X[i,j+N]; "
    "a[i] = max(j) abs(h[i,j]); s[i] = a[i] == 0 ? 1 : a[i] / 127.0; Q[i,j] = cast<i8>(h[i,j] / s[i]) }";
static const char entropy[] =
    "entropy(L: T[M,N], t: i64[M]) -> (Y: f32[M]) eps: float = 0.1 { m[i] = max(j) L[i,j]; "
    "z[i] = log(sum(j) exp(L[i,j] - m[i])) + m[i]; "
    "Y[i] = z[i] - (1 - eps) * L[i,t[i]] - eps * (sum(j) L[i,j]) / N }";
static const char masked[] =
    "masked(X: T[M,N], n: i64[M]) -> (Y: T[M,N]) { m[i] = max(j: j < n[i]) X[i,j]; "
    "s[i] = sum(j: j < n[i]) exp(X[i,j] - m[i]); Y[i,j] = j < n[i] ? exp(X[i,j] - m[i]) / s[i] : 0 }";
static const char weighted[] = "weighted(X: T[M,N], W: T[N]) -> (Y: f32[M]) { m[i] = max(j) X[i,j]; "
                               "Y[i] = (sum(j) exp(X[i,j] - m[i]) * W[j]) / (sum(j) exp(X[i,j] - m[i])) }";
static const char taken[] = "taken(X: T[M,N], W: f32[N]) -> (Y: f32[M]) { Y[i] = W[argmax(j) X[i,j]] }";
static const char batched[] = "batched(X: T[B,M,N], b: f32[M]) -> (Y: T[B,M,N]) { s[k,i] = sum(j) X[k,i,j]; "
                              "Y[k,i,j] = X[k,i,j] / s[k,i] + b[i] }";
static const char leading[] = "leading(X: T[...,N]) -> (Y: T[...,N]) { m[...] = max(j) X[...,j]; "
                              "Y[...,j] = X[...,j] - m[...] }";
static const char window[] =
    "window(X: T[M,N]) -> (Y: T[M,N]) { Y[i,j] = sum(t: t <= j && t > j - 8) X[i,t] }";
static const char product_of_vector[] = "mv(A: T[M,N], x: T[N]) -> (Y: T[M]) { Y[i] = sum(j) A[i,j] * x[j] }";
static const char alone[] = "alone(X: T[N]) -> (Y: T[]) { Y = sum(j) X[j] }";

/* --- classes of configurations --- */

#define WARPS(threads, rows, vector, batch)                                                                  \
  "THREADS=" #threads ",ROWS=" #rows ",VECTOR=" #vector ",HELD=0,BATCH=" #batch ",PARTS=1,PERSISTENT=0"
#define CTAS(threads, vector, held, batch)                                                                   \
  "THREADS=" #threads ",ROWS=1,VECTOR=" #vector ",HELD=" #held ",BATCH=" #batch ",PARTS=1,PERSISTENT=0"
#define TEAMS(threads, vector, held, batch, parts)                                                           \
  "THREADS=" #threads ",ROWS=1,VECTOR=" #vector ",HELD=" #held ",BATCH=" #batch ",PARTS=" #parts             \
  ",PERSISTENT=0"
#define LOOPS(threads, rows, vector, held, batch, ctas)                                                      \
  "THREADS=" #threads ",ROWS=" #rows ",VECTOR=" #vector ",HELD=" #held ",BATCH=" #batch                      \
  ",PARTS=1,PERSISTENT=" #ctas
#define AHEAD_AGAIN(threads, vector, rows, ctas)                                                             \
  "THREADS=" #threads ",ROWS=1,VECTOR=" #vector ",HELD=5,BATCH=" #rows ",PARTS=1,PERSISTENT=" #ctas
#define AHEAD(threads, vector, rows, ctas)                                                                   \
  "THREADS=" #threads ",ROWS=1,VECTOR=" #vector ",HELD=3,BATCH=" #rows ",PARTS=1,PERSISTENT=" #ctas

static const struct {
  const char *text, *bindings, *settings;
} classes[] = {
    {distances, "T=f32 M=9 D=36 N=7", WARPS(32, 4, 4, 1)},
    {distances, "T=bf16 M=3 D=1000 N=5", CTAS(64, 8, 2, 2)},
    {largest_sums, "T=f16 M=5 K=129 N=3", WARPS(32, 1, 2, 2)},
    {softmax, "T=f32 M=17 N=8", WARPS(1, 1, 4, 1)},
    {softmax, "T=bf16 M=17 N=16", WARPS(2, 2, 8, 1)},
    {softmax, "T=f32 M=17 N=31", WARPS(4, 4, 1, 1)},
    {softmax, "T=bf16 M=70 N=64", WARPS(8, 2, 8, 1)},
    {softmax, "T=f16 M=37 N=200", WARPS(16, 2, 8, 2)},
    {softmax, "T=bf16 M=37 N=1000", WARPS(32, 4, 8, 1)},
    {softmax, "T=f32 M=37 N=252", WARPS(32, 2, 4, 4)},
    {softmax, "T=bf16 M=5 N=1000", WARPS(64, 1, 8, 1)},
    {softmax, "T=bf16 M=13 N=2048", WARPS(128, 4, 8, 2)},
    {softmax, "T=bf16 M=3 N=4096", CTAS(256, 8, 0, 1)},
    {softmax, "T=bf16 M=3 N=4104", CTAS(128, 8, 0, 1)},
    {softmax, "T=f32 M=3 N=2048", CTAS(128, 4, 0, 2)},
    {softmax, "T=bf16 M=5 N=4097", CTAS(128, 8, 0, 1)},
    {softmax, "T=f32 M=5 N=1023", CTAS(64, 4, 0, 2)},
    {softmax, "T=bf16 M=3 N=4104", CTAS(64, 8, 1, 2)},
    {softmax, "T=bf16 M=3 N=4097", CTAS(64, 8, 1, 4)},
    {softmax, "T=bf16 M=3 N=4104", CTAS(64, 8, 2, 2)},
    {softmax, "T=bf16 M=3 N=4097", CTAS(64, 8, 2, 4)},
    {softmax, "T=f32 M=3 N=4096", CTAS(32, 4, 2, 4)},
    {softmax, "T=f32 M=3 N=1000", CTAS(1024, 1, 2, 1)},
    {softmax, "T=bf16 M=3 N=8192", TEAMS(128, 8, 0, 1, 2)},
    {softmax, "T=bf16 M=3 N=8200", TEAMS(64, 8, 0, 1, 8)},
    {softmax, "T=bf16 M=3 N=8201", TEAMS(256, 8, 1, 1, 4)},
    {softmax, "T=bf16 M=3 N=16392", TEAMS(64, 8, 2, 2, 4)},
    {softmax, "T=bf16 M=2 N=8200", TEAMS(64, 8, 0, 1, 32)},
    {softmax, "T=bf16 M=2 N=30001", TEAMS(128, 8, 2, 2, 32)},
    {softmax, "T=bf16 M=57 N=256", LOOPS(32, 2, 8, 0, 2, 2)},
    {softmax, "T=f32 M=17 N=1024", LOOPS(128, 1, 4, 0, 2, 1)},
    {softmax, "T=f32 M=23 N=1024", LOOPS(128, 2, 4, 1, 1, 1)},
    {softmax, "T=f32 M=9 N=1025", LOOPS(128, 1, 4, 2, 2, 2)},
    {softmax, "T=bf16 M=19 N=512", AHEAD(64, 8, 1, 1)},
    {softmax, "T=bf16 M=19 N=1000", AHEAD(64, 8, 2, 1)},
    {softmax, "T=f32 M=29 N=1024", AHEAD(128, 4, 4, 2)},
    {layernorm, "T=bf16 M=19 N=1152", AHEAD(64, 8, 2, 1) ",STREAM=2"},
    {rmsnorm, "T=f16 M=19 N=1024", AHEAD(128, 8, 2, 2) ",STREAM=1"},
    {rmsnorm_residual, "T=bf16 M=19 N=1024", AHEAD(64, 8, 4, 1)},
    {residual_in_place, "T=bf16 M=19 N=1024", AHEAD(64, 8, 2, 1)},
    {adaln, "T=bf16 M=19 N=1152", AHEAD(64, 8, 2, 1)},
    {sums, "T=bf16 M=19 N=1024", AHEAD(64, 8, 2, 1)},
    {places, "T=bf16 M=19 N=1024", AHEAD(64, 8, 2, 1)},
    {quantize, "T=bf16 U=e4m3 M=19 N=1024", AHEAD(64, 16, 2, 1)},
    {leading, "T=bf16 ...=3x5 N=1024", AHEAD(64, 8, 2, 1)},
    {softmax, "T=bf16 M=3 N=32768", TEAMS(128, 8, 0, 1, 16)},
    {logsumexp, "T=bf16 M=9 N=2048", LOOPS(64, 1, 8, 2, 2, 2)},
    {sums, "T=f32 M=11 N=1024", LOOPS(128, 2, 4, 0, 1, 1)},
    {sums, "T=f32 M=11 N=1024", LOOPS(64, 1, 4, 0, 1, 1)},
    {log_softmax, "T=f32 M=5 N=255", WARPS(32, 1, 4, 1)},
    {logsumexp, "T=bf16 M=5 N=4096", CTAS(64, 8, 2, 2)},
    {logsumexp, "T=bf16 M=5 N=4096", TEAMS(64, 8, 2, 2, 32)},
    {layernorm, "T=bf16 M=5 N=1152", WARPS(32, 2, 8, 1)},
    {layernorm, "T=f16 M=5 N=4096", CTAS(256, 8, 0, 1)},
    {layernorm, "T=f16 M=5 N=4096", CTAS(64, 8, 1, 2)},
    {layernorm, "T=f32 M=5 N=4096", CTAS(64, 4, 2, 2)},
    {layernorm, "T=bf16 M=2 N=16384", TEAMS(256, 8, 0, 1, 4)},
    {layernorm, "T=bf16 M=2 N=16384", TEAMS(64, 8, 2, 4, 32)},
    {layernorm, "T=bf16 M=5 N=1001", CTAS(128, 8, 0, 1)},
    {rmsnorm, "T=bf16 M=3 N=4096", CTAS(512, 8, 0, 1)},
    {rmsnorm, "T=f32 M=20 N=7", WARPS(8, 1, 1, 1)},
    {rmsnorm_residual, "T=bf16 M=3 N=4096", CTAS(256, 8, 0, 1)},
    {rmsnorm_residual, "T=bf16 M=3 N=4096", CTAS(64, 8, 1, 2)},
    {rmsnorm_residual, "T=bf16 M=3 N=4096", CTAS(64, 8, 2, 2)},
    {rmsnorm_residual, "T=bf16 M=3 N=4095", CTAS(64, 8, 2, 2)},
    {rmsnorm_residual, "T=bf16 M=2 N=8192", TEAMS(64, 8, 0, 1, 32)},
    {residual_in_place, "T=f32 M=3 N=1024", CTAS(64, 4, 0, 1)},
    {residual_in_place, "T=f32 M=3 N=1024", CTAS(64, 4, 2, 2)},
    {residual_in_place, "T=f32 M=3 N=1024", TEAMS(64, 4, 2, 2, 32)},
    {adaln, "T=bf16 M=3 N=1152", CTAS(64, 8, 0, 1)},
    {adaln, "T=f16 M=3 N=1152", CTAS(128, 4, 0, 1)},
    {adaln, "T=f16 M=3 N=1153", CTAS(64, 8, 2, 1)},
    {sums, "T=f32 M=3 N=1000", CTAS(64, 4, 2, 2)},
    {sums, "T=f64 M=3 N=1000", CTAS(64, 2, 2, 2)},
    {sums, "T=i32 M=3 N=1000", CTAS(64, 4, 2, 4)},
    {sums, "T=i64 M=3 N=1000", CTAS(64, 2, 0, 1)},
    {sums, "T=i8 M=3 N=1040", CTAS(64, 16, 0, 1)},
    {sums, "T=bf16 M=3 N=20000", TEAMS(64, 8, 2, 2, 32)},
    {sums, "T=bf16 M=3 N=20000", TEAMS(128, 8, 0, 1, 4)},
    {alone, "T=f32 N=40000", TEAMS(128, 4, 2, 4, 32)},
    {alone, "T=f32 N=40001", TEAMS(128, 4, 2, 4, 64)},
    {alone, "T=f32 N=1", ""},
    {alone, "T=bf16 N=10000000", ""},
    {sums, "T=bf16 M=70000 N=3", ""},
    {softmax, "T=bf16 M=9 N=2048", CTAS(128, 8, 0, 1) ",STREAM=1"},
    {softmax, "T=bf16 M=9 N=2048", CTAS(64, 8, 2, 2) ",STREAM=1"},
    {mean, "T=bf16 M=30 N=33", WARPS(32, 1, 1, 1)},
    {extremes, "T=bf16 M=30 N=512", CTAS(64, 8, 0, 1)},
    {extremes, "T=i32 M=30 N=512", CTAS(64, 4, 2, 1)},
    {extremes, "T=f64 M=3 N=514", CTAS(64, 2, 2, 1)},
    {product, "T=f32 M=30 N=65", WARPS(16, 1, 1, 1)},
    {conditions, "T=f32 M=30 N=64", WARPS(16, 1, 4, 1)},
    {conditions, "T=f32 M=3 N=1024", TEAMS(64, 4, 0, 1, 32)},
    {places, "T=bf16 M=30 N=512", CTAS(64, 8, 0, 1)},
    {places, "T=bf16 M=30 N=513", CTAS(64, 8, 0, 1)},
    {places, "T=f32 M=30 N=32", WARPS(8, 1, 4, 1)},
    {places, "T=i32 M=3 N=5000", TEAMS(64, 4, 2, 2, 32)},
    {places, "T=f16 M=3 N=5000", TEAMS(64, 8, 2, 2, 4)},
    {last_places, "T=bf16 M=9 N=1024", CTAS(64, 8, 0, 1)},
    {last_places, "T=f32 M=9 N=513", CTAS(64, 4, 2, 2)},
    {quantize, "T=bf16 U=i8 M=5 N=512", CTAS(64, 8, 0, 1)},
    {quantize, "T=bf16 U=e4m3 M=5 N=512", CTAS(64, 8, 0, 1)},
    {quantize, "T=f32 U=i8 M=5 N=513", CTAS(64, 8, 2, 1)},
    {quantize, "T=bf16 U=e4m3 M=5 N=8192", CTAS(64, 16, 1, 2)},
    {gated, "T=bf16 M=5 N=512", CTAS(64, 8, 0, 1)},
    {gated, "T=bf16 M=5 N=513", CTAS(64, 8, 0, 1)},
    {gated, "T=bf16 M=5 N=4096", CTAS(64, 8, 1, 2)},
    {entropy, "T=bf16 M=5 N=4096", CTAS(64, 8, 2, 4)},
    {entropy, "T=bf16 M=5 N=4096", TEAMS(64, 8, 0, 1, 32)},
    {entropy, "T=f32 M=5 N=4097", CTAS(128, 4, 2, 4)},
    {masked, "T=f32 M=9 N=256", WARPS(32, 1, 4, 1)},
    {masked, "T=f32 M=9 N=1024", CTAS(64, 4, 2, 2)},
    {weighted, "T=f32 M=9 N=1024", CTAS(64, 4, 2, 2)},
    {weighted, "T=bf16 M=9 N=1024", TEAMS(64, 8, 2, 1, 32)},
    {taken, "T=f32 M=9 N=256", CTAS(64, 4, 0, 1)},
    {batched, "T=f32 B=3 M=5 N=256", WARPS(32, 2, 4, 2)},
    {layernorm, "T=bf16 M=3 N=2048", CTAS(64, 8, 4, 1)},
    {layernorm, "T=f16 M=5 N=1000", CTAS(64, 8, 4, 2) ",CTAS=4"},
    {softmax, "T=bf16 M=5 N=1033", CTAS(64, 8, 4, 1) ",CTAS=8"},
    {places, "T=bf16 M=5 N=1000", CTAS(64, 8, 4, 1)},
    {rmsnorm_residual, "T=bf16 M=5 N=4096", TEAMS(64, 8, 4, 1, 4)},
    {quantize, "T=bf16 U=i8 M=3 N=1024", CTAS(64, 16, 4, 1)},
    {quantize, "T=e4m3 U=f32 M=3 N=1024", CTAS(64, 16, 4, 1)},
    {residual_in_place, "T=bf16 M=5 N=1024", CTAS(64, 8, 4, 1)},
    {layernorm, "T=f32 M=3 N=1024", CTAS(64, 4, 1, 2) ",CTAS=6"},
    {layernorm, "T=bf16 M=19 N=1152", AHEAD(64, 8, 2, 1)},
    {layernorm, "T=bf16 M=19 N=1152", AHEAD_AGAIN(64, 8, 2, 1)},
    {softmax, "T=f32 M=29 N=1024", AHEAD_AGAIN(128, 4, 1, 2)},
    {residual_in_place, "T=bf16 M=19 N=1024", AHEAD_AGAIN(64, 8, 2, 1)},
    {window, "T=f32 M=3 N=64", WARPS(16, 1, 4, 1)},
    {product_of_vector, "T=bf16 M=30 N=1024", WARPS(32, 2, 8, 2)},
    {leading, "T=bf16 ...=3x5 N=256", WARPS(32, 2, 8, 1)},
    {leading, "T=bf16 ...= N=256", WARPS(32, 1, 8, 1)},
    {turned_rows, "T=bf16 A=5 B=1 C=6 N=256", WARPS(32, 2, 8, 1)},
    {last_but_one, "T=bf16 M=7 N=512 K=1", CTAS(64, 8, 0, 1)},
    {last_but_one, "T=f32 M=1 N=257 K=1", CTAS(64, 4, 0, 1)},
};

/* Which rows lie in range: indices of `entropy` and lengths of `masked`. */
static const run_view *views_of(const char *text, const ir_problem *p, run_view views[LIMIT_TENSORS]) {
  for (int i = 0; i < LIMIT_TENSORS; i++) views[i] = (run_view){.strided = false};
  if (text == entropy) views[1].below = p->sizes[1];
  if (text == masked || text == last_places) views[1].below = p->sizes[1] + 1;
  return views;
}

START_TEST(classes_are_right_and_assemble) {
  arena a = ARENA_INIT;
  run_view views[LIMIT_TENSORS];
  template_case c =
      template_case_bind(&a, row(), classes[_i].text, classes[_i].bindings, classes[_i].settings);
  template_case_run_and_assemble(&a, &c, views_of(classes[_i].text, &c.p, views), 0);
  arena_release(&a);
}
END_TEST

/* --- sizes, with what the template starts from --- */

static const int columns[] = {1, 2, 7, 31, 32, 33, 64, 255, 257, 1000, 1023, 4097};
static const int rows[] = {1, 2, 3, 5, 17};
static const struct {
  const char *text, *types;
} sized[] = {{softmax, "T=f32"}, {softmax, "T=bf16"},         {layernorm, "T=f16"}, {sums, "T=i32"},
             {places, "T=f32"},  {quantize, "T=bf16 U=e4m3"}, {sums, "T=f64"}};

START_TEST(defaults_are_right_at_every_size) {
  arena a = ARENA_INIT;
  for (size_t i = 0; i < COUNT_OF(columns); i++) {
    const char *bindings = arena_printf(&a, "%s M=%d N=%d", sized[_i].types,
                                        rows[(i + (size_t)_i) % COUNT_OF(rows)], columns[i]);
    template_case c = template_case_bind(&a, row(), sized[_i].text, bindings, "");
    template_case_run(&a, &c, NULL, 0);
  }
  arena_release(&a);
}
END_TEST

START_TEST(small_problems_take_every_path) {
  static const char *const settings[] = {"", CTAS(256, 8, 2, 4), TEAMS(256, 8, 0, 1, 8),
                                         TEAMS(128, 8, 2, 2, 64), LOOPS(128, 4, 8, 0, 2, 2)};
  static const char *const bindings[] = {"T=bf16 M=8192 N=8192", "T=bf16 M=4096 N=128256",
                                         "T=bf16 M=4 N=131072", "T=bf16 M=2 N=1048576",
                                         "T=bf16 M=32768 N=2048"};
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, row(), softmax, bindings[_i], settings[_i]);
  template_case_run_reduced(&a, &c);
  arena_release(&a);
}
END_TEST

/* --- special values --- */

static const double nan_inside[] = {1, 2, 3, NAN, 5, 2, 1, 0, -1, 8, 9, 2, 3};
static const double all_lowest[] = {-INFINITY};
static const double some_lowest[] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY,
                                     -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, 1};
static const double highest[] = {1, 2, INFINITY, 3, 4, 5, 6};
static const double zeros[] = {0};
static const double equals[] = {1, 3, 3, -2, 3, 0, -2};
static const double signed_zeros[] = {-0.0, 0.0, -0.0};

#define VALUES(name) name, (int)COUNT_OF(name)
static const struct {
  const char *text, *types;
  const double *values;
  int n;
} special[] = {
    {softmax, "T=f32", VALUES(nan_inside)},
    {softmax, "T=f32", VALUES(all_lowest)},
    {softmax, "T=bf16", VALUES(some_lowest)},
    {softmax, "T=f32", VALUES(highest)},
    {logsumexp, "T=f32", VALUES(all_lowest)},
    {logsumexp, "T=bf16", VALUES(some_lowest)},
    {weighted, "T=f32", VALUES(some_lowest)},
    {extremes, "T=bf16", VALUES(nan_inside)},
    {extremes, "T=f32", VALUES(highest)},
    {places, "T=f32", VALUES(nan_inside)},
    {places, "T=bf16", VALUES(equals)},
    {last_places, "T=f32", VALUES(all_lowest)},
    {places, "T=f32", VALUES(all_lowest)},
    {places, "T=f32", VALUES(highest)},
    {places, "T=f32", VALUES(signed_zeros)},
    {places, "T=i32", VALUES(equals)},
    {quantize, "T=bf16 U=i8", VALUES(zeros)},
    {quantize, "T=f32 U=e4m3", VALUES(zeros)},
    {quantize, "T=f32 U=e4m3", VALUES(highest)},
    {conditions, "T=f32", VALUES(nan_inside)},
    {sums, "T=f32", VALUES(highest)},
};

START_TEST(special_values_are_as_written) {
  static const char *const settings[] = {WARPS(8, 1, 1, 1),      CTAS(64, 2, 0, 1),     CTAS(64, 2, 2, 2),
                                         TEAMS(64, 2, 2, 1, 32), TEAMS(64, 2, 0, 1, 2), CTAS(32, 4, 0, 1)};
  static const char *const sizes[] = {"M=3 N=60",   "M=3 N=256", "M=3 N=1024",
                                      "M=3 N=1024", "M=3 N=512", "M=5 N=253"};
  arena a = ARENA_INIT;
  run_view views[LIMIT_TENSORS] = {{.values = special[_i].values, .n_values = special[_i].n}};
  for (size_t i = 0; i < COUNT_OF(settings); i++) {
    template_case c = template_case_bind(&a, row(), special[_i].text,
                                         arena_printf(&a, "%s %s", special[_i].types, sizes[i]), settings[i]);
    template_case_run(&a, &c, views, 0);
  }
  arena_release(&a);
}
END_TEST

/* --- views --- */

START_TEST(rows_may_have_gaps) {
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, row(), rmsnorm, "T=bf16 M=5 N=1024", CTAS(128, 8, 0, 1));
  run_view views[3] = {{.strided = false}};
  run_view_permuted(&c.p, 0, (const int[]){1, 0}, 24, &views[0]);
  template_case_run(&a, &c, views, 0);
  run_view_permuted(&c.p, 2, (const int[]){1, 0}, 8, &views[2]);
  template_case_run(&a, &c, views, 0);
  arena_release(&a);
}
END_TEST

START_TEST(any_view_is_right) {
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, row(), rmsnorm, "T=bf16 M=5 N=1024", CTAS(128, 8, 0, 1));
  run_view views[3] = {{.strided = false}};
  run_view_permuted(&c.p, 0, (const int[]){1, 0}, 3, &views[0]); /* rows start anywhere */
  template_case_run(&a, &c, views, 1);
  run_view_permuted(&c.p, 0, (const int[]){0, 1}, 0, &views[0]); /* transposed */
  template_case_run(&a, &c, views, 1);
  views[0] = (run_view){.offset = 1}; /* an address that no vector starts at */
  template_case_run(&a, &c, views, 1);
  views[0] = (run_view){.strided = true, .stride = {0, 1}}; /* one row for all */
  template_case_run(&a, &c, views, 0);
  views[0] = (run_view){.strided = true, .stride = {1, 0}}; /* one column for all */
  template_case_run(&a, &c, views, 1);
  c = template_case_bind(&a, row(), batched, "T=f32 B=3 M=5 N=128", CTAS(32, 4, 0, 1));
  views[0] = (run_view){.strided = true, .stride = {700, 130, 1}};
  template_case_run(&a, &c, views, 1);
  c = template_case_bind(&a, row(), leading, "T=f32 ...=3x5 N=128", CTAS(32, 4, 0, 1));
  template_case_run(&a, &c, views, 1);
  arena_release(&a);
}
END_TEST

/* Loops over rows that are one loop without gaps have strides of their own in a view. */
START_TEST(views_of_several_row_axes_are_right) {
  static const char softmax_of_planes[] =
      "s(X: T[A,B,C]) -> (Y: T[A,B,C]) { m[a,b] = max(c) X[a,b,c] "
      "s[a,b] = sum(c) exp(X[a,b,c] - m[a,b]) Y[a,b,c] = exp(X[a,b,c] - m[a,b]) / s[a,b] }";
  static const int64_t strides[][3] = {{6 * 8, 8, 1}, {8, 3 * 8, 1}, {1, 3, 15}, {0, 8, 1}};
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, row(), softmax_of_planes, "T=f32 A=3 B=5 C=8", CTAS(32, 4, 0, 1));
  template_case_run(&a, &c, NULL, 0);
  for (size_t i = 0; i < COUNT_OF(strides); i++) {
    for (int tensor = 0; tensor < 2 && (tensor == 0 || strides[i][0] > 0); tensor++) {
      run_view views[2] = {{.strided = false}};
      views[tensor].strided = true;
      for (int k = 0; k < 3; k++) views[tensor].stride[k] = strides[i][k];
      template_case_run(&a, &c, views, 1);
    }
  }
  arena_release(&a);
}
END_TEST

/* Offsets past 2^31 elements: the kernel for the large problem is right on a small one of its kind. */
START_TEST(large_tensors_have_wide_offsets) {
  static const char *const settings[] = {CTAS(256, 8, 2, 4), TEAMS(256, 8, 2, 4, 32),
                                         LOOPS(256, 1, 8, 0, 1, 4)};
  static const char *const sizes[] = {"T=bf16 M=65536 N=65536", "T=bf16 M=2 N=4294967296",
                                      "T=bf16 M=4000000 N=2048"};
  arena a = ARENA_INIT;
  for (size_t i = 0; i < COUNT_OF(settings); i++) {
    template_case c = template_case_bind(&a, row(), softmax, sizes[i], settings[i]);
    template_case small = c;
    row()->reduced_problem(&c.p, c.t, &c.c, 2, &small.p);
    template_case_run_kernel(&small, template_case_lower(&a, &c), NULL, 0);
  }
  arena_release(&a);
}
END_TEST

/* The kernel was made for other sizes than the call's. */
START_TEST(other_sizes_take_the_other_way) {
  static const char *const bindings[] = {"T=bf16 M=5 N=0", "T=bf16 M=5 N=3000", "T=bf16 M=5 N=1001",
                                         "T=bf16 M=9 N=8"};
  arena a = ARENA_INIT;
  arke_error err = ARKE_ERROR_INIT;
  template_case c = template_case_bind(&a, row(), quantize, "T=bf16 U=i8 M=5 N=1024", CTAS(128, 8, 0, 1));
  lowered l = template_case_lower(&a, &c);
  for (size_t i = 0; i < COUNT_OF(bindings); i++) {
    ck_assert(ir_problem_bind(c.p.op, arena_printf(&a, "%s U=i8", bindings[i]), &c.p, &err) == ARKE_OK);
    template_case_run_kernel(&c, l, NULL, 1);
  }
  arena_release(&a);
}
END_TEST

/* A kernel for axes of one element takes others by the other way, and the strides of one element as they
 * are. */
START_TEST(axes_of_one_element_are_required) {
  static const struct {
    const char *text, *made, *same, *other;
    run_view view;
  } sizes[] = {
      {turned_rows,
       "T=bf16 A=5 B=1 C=6 N=256",
       "T=bf16 A=3 B=1 C=7 N=256",
       "T=bf16 A=5 B=2 C=6 N=256",
       {.strided = true, .stride = {6 * 256, 9, 256, 1}}},
      {last_but_one,
       "T=bf16 M=5 N=256 K=1",
       "T=bf16 M=3 N=256 K=1",
       "T=bf16 M=5 N=256 K=2",
       {.strided = true, .stride = {256, 1, 333}}},
  };
  arena a = ARENA_INIT;
  template_case made = template_case_bind(&a, row(), sizes[_i].text, sizes[_i].made, WARPS(32, 2, 8, 1));
  template_case same = made, other = made;
  arke_error err = ARKE_ERROR_INIT;
  ck_assert(ir_problem_bind(made.p.op, sizes[_i].same, &same.p, &err) == ARKE_OK);
  ck_assert(ir_problem_bind(made.p.op, sizes[_i].other, &other.p, &err) == ARKE_OK);
  lowered l = template_case_lower(&a, &made);
  template_case_run_kernel(&same, l, NULL, 0);
  template_case_run_kernel(&other, l, NULL, 1);
  run_view views[2] = {sizes[_i].view, {.strided = false}};
  template_case_run_kernel(&made, l, views, 0);
  views[0].stride[_i == 0 ? 2 : 1] = 512; /* gaps */
  views[0].stride[0] = _i == 0 ? 6 * 512 : 256 * 512;
  template_case_run_kernel(&made, l, views, 1);
  arena_release(&a);
}
END_TEST

/* --- what does not fit, and what goes wrong --- */

/* One pass over the row for both, whether the maximum is stored or not; and terms of at most 1 by few
 * instructions where it takes two passes. */
START_TEST(sums_follow_maxima_that_are_outputs) {
  static const char *const texts[] = {
      "f(L: T[N,V]) -> (s: f32[N], m: f32[N]) { m[n] = max(v) L[n,v]; s[n] = sum(v) exp(L[n,v] - m[n]) }",
      "f(L: T[N,V]) -> (s: f32[N]) { m[n] = max(v) L[n,v]; s[n] = sum(v) exp(L[n,v] - m[n]) }"};
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, row(), texts[_i], "T=bf16 N=8 V=4096", "");
  for (int online = 0; online < 2; online++) {
    row_match m;
    template_reason reason;
    ck_assert_int_eq(row_match_make(&c.p, true, online, &a, &m, &reason, NULL, NULL), ARKE_OK);
    ck_assert_int_eq(reason, TEMPLATE_OK);
    ck_assert(m.has_online);
    ck_assert_int_eq(m.n_phases, online ? 1 : 2);
    int followers = 0;
    for (int i = 0; i < m.n_reductions; i++) {
      followers += ir_maximum_above(m.reductions[i].e->args[0], m.reductions[i].e) != NULL;
      ck_assert_int_eq(m.reductions[i].maximum >= 0, online && m.reductions[i].kind == IR_RED_SUM);
    }
    ck_assert_int_eq(followers, 1);
  }
  arena_release(&a);
}
END_TEST

START_TEST(others_are_refused) {
  static const struct {
    const char *text, *bindings;
  } others[] = {
      {"map(X: f32[M,N]) -> (Y: f32[M,N]) { Y[i,j] = 2 * X[i,j] }", "M=4 N=4"},
      {"columns(X: f32[M,N]) -> (Y: f32[N]) { Y[j] = sum(i) X[i,j] }", "M=4 N=4"},
      {"both(X: f32[M,N]) -> (Y: f32[M,N]) { Y[i,j] = X[i,j] / (sum(k) X[i,k]) / (sum(k) X[k,j]) }",
       "M=4 N=5"},
      {"matmul(A: f32[M,K], B: f32[N,K]) -> (Y: f32[M,N]) { Y[m,n] = sum(k) A[m,k] * B[n,k] }",
       "M=4 N=4 K=4"},
      {"scaled(A: f32[M,K], w: f32[K], B: f32[N,K]) -> (Y: f32[M,N]) { Y[m,n] = sum(k) A[m,k] * w[k] * "
       "B[n,k] }",
       "M=4 N=4 K=4"},
      {"topk(X: f32[M,N]) -> (V: f32[M,K], I: i64[M,K]) { (V[i,k], I[i,k]) = topk(j) X[i,j] }",
       "M=4 N=4 K=2"},
      {"scatters(X: f32[M,N], t: i64[M]) -> (Y: f32[M]) { Y[t[i]] += sum(j) X[i,j] }", "M=4 N=4"},
      {"other_rows(X: f32[M,N], Z: f32[N]) -> (Y: f32[M], V: f32[N]) { Y[i] = sum(j) X[i,j]; V[j] = 2 * Z[j] "
       "}",
       "M=4 N=4"},
  };
  template_refuses(row(), others[_i].text, others[_i].bindings, TEMPLATE_OPERATOR);
}
END_TEST

/* A search makes only the first way of a configuration: it serves the problem, also one whose rows have no
 * element. */
START_TEST(the_first_way_takes_rows_of_no_element) {
  static const char *const texts[] = {
      "s(X: T[M,N]) -> (Y: T[M]) { Y[i] = sum(j) X[i,j] }",
      "s(X: T[M,N]) -> (Y: T[M]) { Y[i] = max(j) X[i,j] }",
      "s(X: T[M,N]) -> (Y: T[M]) { t[i] = sum(j) X[i,j] * X[i,j]; Y[i] = 1 - (sum(j) X[i,j] / t[i]) }",
  };
  arena a = ARENA_INIT;
  for (size_t i = 0; i < COUNT_OF(texts); i++) {
    template_case c = template_case_bind(&a, row(), texts[i], "T=bf16 M=9 N=0", "");
    arke_error err = ARKE_ERROR_INIT;
    lower_options options = {.first_way_only = true};
    lowered l;
    ck_assert_msg(c.k->lower(&c.p, c.t, &c.c, &options, &a, &l, &err) == ARKE_OK, "%s", err.text);
    template_case_run_kernel(&c, l, NULL, 0);
  }
  arena_release(&a);
}
END_TEST

START_TEST(planted_faults_are_found) {
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, row(), softmax, "T=f32 M=3 N=1024", CTAS(128, 4, 0, 1));
  template_case_miss(&a, &c, "bar.sync");
  template_case_miss(&a, &c, "griddepcontrol.wait");
  template_case_miss(&a, &c, "st.shared");
  template_case_miss(&a, &c, "shfl.sync");
  c = template_case_bind(&a, row(), softmax, "T=f32 M=3 N=1024", TEAMS(64, 4, 0, 1, 2));
  template_case_miss(&a, &c, "barrier.cluster.wait");
  c = template_case_bind(&a, row(), softmax, "T=f32 M=13 N=1024", LOOPS(128, 2, 4, 0, 1, 1));
  template_case_miss(&a, &c, "bar.sync");
  c = template_case_bind(&a, row(), softmax, "T=f32 M=13 N=1024", AHEAD(128, 4, 2, 1));
  template_case_miss(&a, &c, "bar.sync");
  template_case_miss(&a, &c, "cp.async.bulk");
  template_case_miss(&a, &c, "mbarrier.init");
  arena_release(&a);
}
END_TEST

START_TEST(allocation_failures_are_reported) {
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, row(), softmax, "T=f32 M=3 N=512", CTAS(64, 4, 2, 1));
  template_case_fail_allocations(&c);
  c = template_case_bind(&a, row(), softmax, "T=f32 M=3 N=512", TEAMS(64, 4, 2, 1, 32));
  template_case_fail_allocations(&c);
  arena_release(&a);
}
END_TEST

int main(void) {
  TCase *tests = template_tests("the row template");
  tcase_add_loop_test(tests, classes_are_right_and_assemble, 0, (int)COUNT_OF(classes));
  tcase_add_loop_test(tests, defaults_are_right_at_every_size, 0, (int)COUNT_OF(sized));
  tcase_add_loop_test(tests, small_problems_take_every_path, 0, 5);
  tcase_add_loop_test(tests, special_values_are_as_written, 0, (int)COUNT_OF(special));
  tcase_add_test(tests, rows_may_have_gaps);
  tcase_add_test(tests, any_view_is_right);
  tcase_add_test(tests, views_of_several_row_axes_are_right);
  tcase_add_test(tests, large_tensors_have_wide_offsets);
  tcase_add_test(tests, other_sizes_take_the_other_way);
  tcase_add_loop_test(tests, axes_of_one_element_are_required, 0, 2);
  tcase_add_loop_test(tests, sums_follow_maxima_that_are_outputs, 0, 2);
  tcase_add_loop_test(tests, others_are_refused, 0, 8);
  tcase_add_test(tests, the_first_way_takes_rows_of_no_element);
  tcase_add_test(tests, planted_faults_are_found);
  tcase_add_test(tests, allocation_failures_are_reported);
  return template_tests_run("the row template", tests);
}
