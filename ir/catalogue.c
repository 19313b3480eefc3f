#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "ir/ir.h"

#define FLOATS   "f32 f16 bf16"
#define FLOATS64 "f64 f32 f16 bf16"
#define FP8      "e4m3 e5m2"
#define NUMBERS  "f64 f32 f16 bf16 i64 i32 i16 i8 u8"
#define ANY      "f64 f32 f16 bf16 e4m3 e5m2 i64 i32 i16 i8 u8 bool"

/* X(name, family, axes of --shape, dtypes, help, text) */
#define CATALOGUE(X)                                                                                         \
  X(relu, "map", "...", NUMBERS, "max(x, 0)", "relu(X: T[...]) -> (Y: T[...]) { Y[...] = max(X[...], 0) }")  \
  X(gelu, "map", "...", FLOATS64, "exact GELU", "gelu(X: T[...]) -> (Y: T[...]) { Y[...] = gelu(X[...]) }")  \
  X(silu, "map", "...", FLOATS64, "x * sigmoid(x)",                                                          \
    "silu(X: T[...]) -> (Y: T[...]) { Y[...] = silu(X[...]) }")                                              \
  X(tanh, "map", "...", FLOATS64, "hyperbolic tangent",                                                      \
    "tanh(X: T[...]) -> (Y: T[...]) { Y[...] = tanh(X[...]) }")                                              \
  X(sigmoid, "map", "...", FLOATS64, "1 / (1 + e^-x)",                                                       \
    "sigmoid(X: T[...]) -> (Y: T[...]) { Y[...] = sigmoid(X[...]) }")                                        \
  X(neg, "map", "...", NUMBERS, "negation", "neg(X: T[...]) -> (Y: T[...]) { Y[...] = -X[...] }")            \
  X(exp, "map", "...", FLOATS64, "e^x", "exp(X: T[...]) -> (Y: T[...]) { Y[...] = exp(X[...]) }")            \
  X(rsqrt, "map", "...", FLOATS64, "1 / sqrt(x)",                                                            \
    "rsqrt(X: T[...]) -> (Y: T[...]) { Y[...] = rsqrt(X[...]) }")                                            \
  X(add, "map", "...", NUMBERS, "sum of two tensors",                                                        \
    "add(A: T[...], B: T[...]) -> (Y: T[...]) { Y[...] = A[...] + B[...] }")                                 \
  X(mul, "map", "...", NUMBERS, "product of two tensors, element by element",                                \
    "mul(A: T[...], B: T[...]) -> (Y: T[...]) { Y[...] = A[...] * B[...] }")                                 \
  X(where_, "map", "...", ANY, "x where c is true, else y",                                                  \
    "where_(C: bool[...], X: T[...], Y: T[...]) -> (Z: T[...]) { Z[...] = where(C[...], X[...], "            \
    "Y[...]) }")                                                                                             \
  X(cast, "map", "...", ANY "|" ANY,                                                                         \
    "another dtype: rounded to nearest, saturating to integers and 8-bit floats",                            \
    "cast(X: T[...]) -> (Y: U[...]) { Y[...] = cast<U>(X[...]) }")                                           \
  X(copy_, "map", "...", ANY "|" ANY, "one tensor into another, of any dtype",                               \
    "copy_(D: U[...], X: T[...]) -> (D) { D[...] = cast<U>(X[...]) }")                                       \
  X(softmax, "reduce", "M,N", FLOATS64, "softmax of every row",                                              \
    "softmax(X: T[M,N]) -> (Y: T[M,N]) { m[i] = max(j) X[i,j]; s[i] = sum(j) exp(X[i,j] - m[i]); "           \
    "Y[i,j] = exp(X[i,j] - m[i]) / s[i] }")                                                                  \
  X(layernorm, "norm", "B,H", FLOATS64, "layer norm of every row, scaled and shifted",                       \
    "layernorm(X: T[B,H], W: T[H], b: T[H]) -> (Y: T[B,H]) eps: float = 1e-05 { mu[i] = (sum(j) "            \
    "X[i,j]) / H; va[i] = (sum(j) (X[i,j] - mu[i]) * (X[i,j] - mu[i])) / H; Y[i,j] = (X[i,j] - "             \
    "mu[i]) * rsqrt(va[i] + eps) * W[j] + b[j] }")                                                           \
  X(layernorm_residual, "norm", "B,H", FLOATS64, "sum of input and residual, and its layer norm",            \
    "layernorm_residual(X: T[B,H], R: T[B,H], W: T[H], b: T[H]) -> (Y: T[B,H], Z: T[B,H]) eps: float "       \
    "= 1e-05 { Z[i,j] = X[i,j] + R[i,j]; mu[i] = (sum(j) Z[i,j]) / H; va[i] = (sum(j) (Z[i,j] - "            \
    "mu[i]) * (Z[i,j] - mu[i])) / H; Y[i,j] = (Z[i,j] - mu[i]) * rsqrt(va[i] + eps) * W[j] + b[j] }")        \
  X(ada_layernorm, "norm", "B,H", FLOATS64, "layer norm scaled and shifted element by element",              \
    "ada_layernorm(X: T[B,H], S: T[B,H], b: T[B,H]) -> (Y: T[B,H]) eps: float = 1e-05 { mu[i] = "            \
    "(sum(j) X[i,j]) / H; va[i] = (sum(j) (X[i,j] - mu[i]) * (X[i,j] - mu[i])) / H; Y[i,j] = S[i,j] "        \
    "* ((X[i,j] - mu[i]) * rsqrt(va[i] + eps)) + b[i,j] }")                                                  \
  X(ada_layernorm_zero, "norm", "B,H", FLOATS64, "layer norm scaled, shifted and gated element by element",  \
    "ada_layernorm_zero(X: T[B,H], S: T[B,H], b: T[B,H], G: T[B,H]) -> (Y: T[B,H]) eps: float = "            \
    "1e-05 { mu[i] = (sum(j) X[i,j]) / H; va[i] = (sum(j) (X[i,j] - mu[i]) * (X[i,j] - mu[i])) / H; "        \
    "Y[i,j] = G[i,j] * (S[i,j] * ((X[i,j] - mu[i]) * rsqrt(va[i] + eps)) + b[i,j]) }")                       \
  X(rmsnorm, "norm", "B,H", FLOATS64, "root-mean-square norm of every row, scaled",                          \
    "rmsnorm(X: T[B,H], W: T[H]) -> (Y: T[B,H]) eps: float = 1e-06 { ms[i] = (sum(j) X[i,j] * "              \
    "X[i,j]) / H; Y[i,j] = X[i,j] * rsqrt(ms[i] + eps) * W[j] }")                                            \
  X(rmsnorm_residual, "norm", "B,H", FLOATS64, "sum of input and residual, and its root-mean-square norm",   \
    "rmsnorm_residual(X: T[B,H], R: T[B,H], W: T[H]) -> (Y: T[B,H], Z: T[B,H]) eps: float = 1e-06 { "        \
    "Z[i,j] = X[i,j] + R[i,j]; ms[i] = (sum(j) Z[i,j] * Z[i,j]) / H; Y[i,j] = Z[i,j] * rsqrt(ms[i] + "       \
    "eps) * W[j] }")                                                                                         \
  X(reduce_sum, "reduce", "M,N", NUMBERS, "sum of every row",                                                \
    "reduce_sum(X: T[M,N]) -> (Y: T[M]) { Y[i] = sum(j) X[i,j] }")                                           \
  X(reduce_sum_columns, "reduce", "M,N", NUMBERS, "sum of every column",                                     \
    "reduce_sum_columns(X: T[M,N]) -> (Y: T[N]) { Y[j] = sum(i) X[i,j] }")                                   \
  X(reduce_max, "reduce", "M,N", NUMBERS, "largest of every row",                                            \
    "reduce_max(X: T[M,N]) -> (Y: T[M]) { Y[i] = max(j) X[i,j] }")                                           \
  X(reduce_max_columns, "reduce", "M,N", NUMBERS, "largest of every column",                                 \
    "reduce_max_columns(X: T[M,N]) -> (Y: T[N]) { Y[j] = max(i) X[i,j] }")                                   \
  X(reduce_mean, "reduce", "M,N", FLOATS64, "mean of every row",                                             \
    "reduce_mean(X: T[M,N]) -> (Y: T[M]) { Y[i] = (sum(j) X[i,j]) / N }")                                    \
  X(reduce_mean_columns, "reduce", "M,N", FLOATS64, "mean of every column",                                  \
    "reduce_mean_columns(X: T[M,N]) -> (Y: T[N]) { Y[j] = (sum(i) X[i,j]) / M }")                            \
  X(argmax, "reduce", "M,N", NUMBERS, "place of the first largest of every row",                             \
    "argmax(X: T[M,N]) -> (Y: i64[M]) { Y[i] = argmax(j) X[i,j] }")                                          \
  X(topk, "topk", "M,N,K", NUMBERS, "the K largest of every row and their places, largest first",            \
    "topk(X: T[M,N]) -> (V: T[M,K], I: i64[M,K]) { (V[i,k], I[i,k]) = topk(j) X[i,j] }")                     \
  X(topk_selector, "topk", "M,N,K", FLOATS,                                                                  \
    "the K largest of a part of every row and their places, largest first",                                  \
    "topk_selector(X: T[M,N], first: i32[M], end: i32[M]) -> (V: T[M,K], I: i32[M,K]) { (V[i,k], "           \
    "I[i,k]) = topk(j: j >= first[i] && j < end[i]) X[i,j] }")                                               \
  X(cumsum, "scan", "M,N", NUMBERS, "running sum along every row",                                           \
    "cumsum(X: T[M,N]) -> (Y: T[M,N]) { Y[i,j] = sum(t: t <= j) X[i,t] }")                                   \
  X(matmul, "matmul", "M,N,K", FLOATS64, "matrix product",                                                   \
    "matmul(A: T[M,K], B: T[K,N]) -> (Y: T[M,N]) { Y[m,n] = sum(k) A[m,k] * B[k,n] }")                       \
  X(linear, "matmul", "M,N,K", FLOATS64, "matrix product with weights stored one output feature a row",      \
    "linear(X: T[M,K], W: T[N,K]) -> (Y: T[M,N]) { Y[m,n] = sum(k) X[m,k] * W[n,k] }")                       \
  X(linear_bias, "matmul", "M,N,K", FLOATS64, "linear with a number added to each output feature",           \
    "linear_bias(X: T[M,K], W: T[N,K], b: T[N]) -> (Y: T[M,N]) { Y[m,n] = b[n] + sum(k) X[m,k] * W[n,k] }")  \
  X(linear_swiglu, "matmul", "M,N,K", FLOATS, "silu of one linear times another, of the same rows",          \
    "linear_swiglu(X: T[M,K], G: T[N,K], U: T[N,K]) -> (Y: T[M,N]) { Y[m,n] = silu(sum(k) X[m,k] * "         \
    "G[n,k]) * sum(k) X[m,k] * U[n,k] }")                                                                    \
  X(linear_tf32, "matmul", "M,N,K", "f32", "linear of f32 by matrix units that read 11 digits of it",        \
    "linear_tf32(X: T[M,K], W: T[N,K]) -> (Y: T[M,N]) { Y[m,n] = sum(k) tf32(X[m,k]) * tf32(W[n,k]) }")      \
  X(linear_i8, "matmul", "M,N,K", "i8 u8|i8 u8", "linear of 8-bit integers, sums in i32",                    \
    "linear_i8(X: T[M,K], W: U[N,K]) -> (Y: i32[M,N]) { Y[m,n] = sum(k) X[m,k] * W[n,k] }")                  \
  X(linear_fp8, "matmul", "M,N,K", FP8 "|" FP8 "|" FLOATS, "linear of 8-bit floats with a scale a tensor",   \
    "linear_fp8(X: T[M,K], W: U[N,K], sx: f32[], sw: f32[]) -> (Y: V[M,N]) { Y[m,n] = (sum(k) X[m,k] * "     \
    "W[n,k]) * (sx * sw) }")                                                                                 \
  X(linear_fp8_rows, "matmul", "M,N,K", FP8 " i8|" FP8 " i8|" FLOATS,                                        \
    "linear of 8-bit floats or integers with a scale for each row of both",                                  \
    "linear_fp8_rows(X: T[M,K], W: U[N,K], sx: f32[M], sw: f32[N]) -> (Y: V[M,N]) { Y[m,n] = (sum(k) "       \
    "X[m,k] * W[n,k]) * (sx[m] * sw[n]) }")                                                                  \
  X(linear_fp8_block, "matmul", "M,N,G,H", FP8 "|" FP8 "|" FLOATS,                                           \
    "linear of 8-bit floats with scales of 128 elements of X and of 128 x 128 of W",                         \
    "linear_fp8_block(X: T[M,128*G], W: U[N,128*G], sx: f32[M,G], sw: f32[H,G]) -> (Y: V[M,N]) { "           \
    "Y[m,n] = sum(k) X[m,k] * sx[m,k / 128] * (W[n,k] * sw[n / 128,k / 128]) }")                             \
  X(batch_matmul, "matmul", "B,M,N,K", FLOATS64, "matrix product of every batch",                            \
    "batch_matmul(A: T[B,M,K], X: T[B,K,N]) -> (Y: T[B,M,N]) { Y[b,m,n] = sum(k) A[b,m,k] * X[b,k,n] }")     \
  X(grouped_matmul, "matmul", "B,M,N,K,E", FLOATS, "matrix product of every batch with one of E matrices",   \
    "grouped_matmul(X: T[B,M,K], W: T[E,K,N], idx: i32[B]) -> (Y: T[B,M,N]) { Y[b,m,n] = sum(k) "            \
    "X[b,m,k] * W[idx[b],k,n] }")                                                                            \
  X(grouped_linear, "matmul", "R,N,K,E", FLOATS,                                                             \
    "rows of ragged groups, by their ends, times the matrix of their group",                                 \
    "grouped_linear(X: T[R,K], W: T[E,N,K], ends: i32[E]) -> (Y: T[R,N]) { g[r] = sum(e: ends[e] <= "        \
    "r) 1; Y[r,n] = g[r] < E ? sum(k) X[r,k] * W[g[r],n,k] : 0 }")                                           \
  X(swiglu_packed, "matmul", "B,O,H", FLOATS, "silu of the left half times the right half, times a matrix",  \
    "swiglu_packed(X: T[B,2*H], W: T[H,O]) -> (Y: T[B,O]) { Y[b,o] = sum(h) cast<T>(silu(X[b,h]) * X[b,h + " \
    "H]) * W[h,o] }")                                                                                        \
  X(transpose, "movement", "M,N", ANY, "rows become columns",                                                \
    "transpose(X: T[M,N]) -> (Y: T[N,M]) { Y[j,i] = X[i,j] }")                                               \
  X(gather, "movement", "M,N,K", ANY, "elements of every row by their places",                               \
    "gather(X: T[M,N], idx: i64[M,K]) -> (Y: T[M,K]) { Y[i,j] = X[i,idx[i,j]] }")                            \
  X(scatter, "movement", "M,N,K", ANY, "a copy with elements of every row replaced",                         \
    "scatter(X: T[M,N], idx: i64[M,K], S: T[M,K]) -> (Y: T[M,N]) deterministic: bool = false { "             \
    "Y[i,j] = X[i,j]; Y[i,idx[i,j]] = S[i,j] }")                                                             \
  X(scatter_add, "movement", "M,N,K", "f64 f32 f16 bf16 i64 i32",                                            \
    "a copy with elements added to places of every row",                                                     \
    "scatter_add(X: T[M,N], idx: i64[M,K], S: T[M,K]) -> (Y: T[M,N]) deterministic: bool = false { "         \
    "Y[i,j] = X[i,j]; Y[i,idx[i,j]] += S[i,j] }")                                                            \
  X(embedding, "movement", "V,D,B,S", ANY, "rows of a table by their numbers",                               \
    "embedding(W: T[V,D], idx: i64[B,S]) -> (Y: T[B,S,D]) { Y[b,s,d] = W[idx[b,s],d] }")                     \
  X(cache_write, "movement", "N,G,D,P,Z", "f16 bf16|f16 bf16 e4m3",                                          \
    "rows of keys and values, divided by a scale each, to their slots in pages",                             \
    "cache_write(K: T[N,G,D], V: T[N,G,D], slots: i64[N], Kp: U[P,Z,G,D], Vp: U[P,Z,G,D], "                  \
    "sk: f32[], sv: f32[]) -> (Kp, Vp) { Kp[slots[n] / Z,slots[n] % Z,g,d] else skip = "                     \
    "K[n,g,d] / sk; Vp[slots[n] / Z,slots[n] % Z,g,d] else skip = V[n,g,d] / sv }")                          \
  X(cache_gather, "movement", "N,D,P,Z,B,W", "f16 bf16|f16 bf16 e4m3",                                       \
    "rows of packed sequences out of pages that a table names, times a scale",                               \
    "cache_gather(pool: U[P,Z,D], table: i32[B,W], cu: i32[B+1], starts: i32[B], scale: "                    \
    "f32[]) -> (Y: T[N,D]) { g[n] = sum(b: cu[b + 1] <= n) 1; o[n] = n - cu[g[n]] + "                        \
    "starts[g[n]]; Y[n,d] = g[n] < B && o[n] < W * Z ? pool[table[g[n],o[n] / Z],o[n] % Z,d] "               \
    "* scale : 0 }")                                                                                         \
  X(silu_and_mul, "map", "B,H", FLOATS64, "silu of the left half times the right half",                      \
    "silu_and_mul(X: T[B,2*H]) -> (Y: T[B,H]) { Y[b,h] = silu(X[b,h]) * X[b,h + H] }")                       \
  X(gelu_and_mul, "map", "B,H", FLOATS64, "gelu of the left half times the right half",                      \
    "gelu_and_mul(X: T[B,2*H]) -> (Y: T[B,H]) { Y[b,h] = gelu(X[b,h]) * X[b,h + H] }")                       \
  X(rope_halves, "rope", "B,H,G,S,E", FLOATS,                                                                \
    "rotary embedding of queries and keys: element d turns with d + E",                                      \
    "rope_halves(Q: T[B,H,S,2*E], K: T[B,G,S,2*E], pos: i32[S]) -> (Qr: T[B,H,S,2*E], Kr: "                  \
    "T[B,G,S,2*E]) base: float = 10000.0 { a[s,d] = pos[s] * pow(base, -1.0 * (d % E) / E); "                \
    "Qr[b,h,s,d] = d < E ? Q[b,h,s,d] * cos(a[s,d]) - Q[b,h,s,d + E] * sin(a[s,d]) : Q[b,h,s,d] * "          \
    "cos(a[s,d]) + Q[b,h,s,d - E] * sin(a[s,d]); Kr[b,h,s,d] = d < E ? K[b,h,s,d] * cos(a[s,d]) - "          \
    "K[b,h,s,d + E] * sin(a[s,d]) : K[b,h,s,d] * cos(a[s,d]) + K[b,h,s,d - E] * sin(a[s,d]) }")              \
  X(rope_interleaved, "rope", "B,H,G,S,E", FLOATS, "rotary embedding of queries and keys: neighbours turn",  \
    "rope_interleaved(Q: T[B,H,S,2*E], K: T[B,G,S,2*E], pos: i32[S]) -> (Qr: T[B,H,S,2*E], Kr: "             \
    "T[B,G,S,2*E]) base: float = 10000.0 { a[s,d] = pos[s] * pow(base, -1.0 * (d / 2) / E); "                \
    "Qr[b,h,s,d] = d % 2 == 0 ? Q[b,h,s,d] * cos(a[s,d]) - Q[b,h,s,d + 1] * sin(a[s,d]) : Q[b,h,s,d] "       \
    "* cos(a[s,d]) + Q[b,h,s,d - 1] * sin(a[s,d]); Kr[b,h,s,d] = d % 2 == 0 ? K[b,h,s,d] * "                 \
    "cos(a[s,d]) - K[b,h,s,d + 1] * sin(a[s,d]) : K[b,h,s,d] * cos(a[s,d]) + K[b,h,s,d - 1] * "              \
    "sin(a[s,d]) }")                                                                                         \
  X(rope_table_halves, "rope", "B,S,H,E", FLOATS,                                                            \
    "rotation by tables of cosines and sines: element e turns with e + E",                                   \
    "rope_table_halves(X: T[B,S,H,2*E], C: T[S,E], N: T[S,E]) -> (Y: T[B,S,H,2*E]) { Y[b,s,h,e + 0] "        \
    "= X[b,s,h,e + 0] * C[s,e] - X[b,s,h,e + E] * N[s,e]; Y[b,s,h,e + E] = X[b,s,h,e + E] * C[s,e] + "       \
    "X[b,s,h,e + 0] * N[s,e] }")                                                                             \
  X(rope_table_interleaved, "rope", "B,S,H,E", FLOATS,                                                       \
    "rotation by tables of cosines and sines: neighbours turn",                                              \
    "rope_table_interleaved(X: T[B,S,H,2*E], C: T[S,E], N: T[S,E]) -> (Y: T[B,S,H,2*E]) { Y[b,s,h,d] "       \
    "= d % 2 == 0 ? X[b,s,h,d] * C[s,d / 2] - X[b,s,h,d + 1] * N[s,d / 2] : X[b,s,h,d] * C[s,d / 2] "        \
    "+ X[b,s,h,d - 1] * N[s,d / 2] }")                                                                       \
  X(rope_positions_halves, "rope", "S,H,E,P", FLOATS,                                                        \
    "rotation by rows of tables that positions choose: element e turns with e + E",                          \
    "rope_positions_halves(X: T[S,H,2*E], C: T[P,E], N: T[P,E], pos: i32[S]) -> (Y: T[S,H,2*E]) { "          \
    "Y[s,h,e + 0] = X[s,h,e + 0] * C[pos[s],e] - X[s,h,e + E] * N[pos[s],e]; Y[s,h,e + E] = X[s,h,e "        \
    "+ E] * C[pos[s],e] + X[s,h,e + 0] * N[pos[s],e] }")                                                     \
  X(rope_positions_interleaved, "rope", "S,H,E,P", FLOATS,                                                   \
    "rotation by rows of tables that positions choose: neighbours turn",                                     \
    "rope_positions_interleaved(X: T[S,H,2*E], C: T[P,E], N: T[P,E], pos: i32[S]) -> (Y: T[S,H,2*E]) "       \
    "{ Y[s,h,d] = d % 2 == 0 ? X[s,h,d] * C[pos[s],d / 2] - X[s,h,d + 1] * N[pos[s],d / 2] : "               \
    "X[s,h,d] * C[pos[s],d / 2] + X[s,h,d - 1] * N[pos[s],d / 2] }")                                         \
  X(cross_entropy, "loss", "N,V", FLOATS, "mean cross entropy of rows of logits, those ignored left out",    \
    "cross_entropy(L: T[N,V], t: i64[N]) -> (loss: f32[]) label_smoothing: float = 0.0, "                    \
    "ignore_index: int = -100 { m[n] = max(v) L[n,v]; z[n] = log(sum(v) exp(L[n,v] - m[n])) + m[n]; "        \
    "x[n] = label_smoothing == 0 ? L[n,t[n]] : (1 - label_smoothing) * L[n,t[n]] + label_smoothing * "       \
    "((sum(v) L[n,v]) / V); loss = (sum(n: t[n] != ignore_index) (z[n] - x[n])) / sum(n: t[n] != "           \
    "ignore_index) 1 }")                                                                                     \
  X(flash_attention, "attention", "B,H,S,R,D", "f16 bf16",                                                   \
    "attention, by query heads with keys and values of their own",                                           \
    "flash_attention(Q: T[B,H,S,D], K: T[B,H,R,D], V: T[B,H,R,D]) -> (O: T[B,H,S,D], lse: "                  \
    "f32[B,H,S]) scale: float = 1 / sqrt(D), causal: bool = false, left: int = -1, right: int = -1, "        \
    "softcap: float = 0.0 { P[b,h,q,k] = scale * sum(d) Q[b,h,q,d] * K[b,h,k,d]; A[b,h,q,k] = "              \
    "softcap == 0 ? P[b,h,q,k] : softcap * tanh(P[b,h,q,k] / softcap); v[q,k] = (!causal || k <= q + "       \
    "R - S) && (left < 0 || k >= q + R - S - left) && (right < 0 || k <= q + R - S + right); "               \
    "x[b,h,q] = max(k: v[q,k]) A[b,h,q,k]; m[b,h,q] = x[b,h,q] == -inf ? 0 : x[b,h,q]; s[b,h,q] = "          \
    "sum(k: v[q,k]) exp(A[b,h,q,k] - m[b,h,q]); O[b,h,q,d] = s[b,h,q] == 0 ? 0 : (sum(k: v[q,k]) "           \
    "cast<T>(exp(A[b,h,q,k] - m[b,h,q])) * V[b,h,k,d]) / s[b,h,q]; lse[b,h,q] = m[b,h,q] + "                 \
    "log(s[b,h,q]) }")                                                                                       \
  X(grouped_query_attention, "attention", "B,H,G,S,R,D", "f16 bf16",                                         \
    "attention, H / G query heads to each head of keys and values",                                          \
    "grouped_query_attention(Q: T[B,H,S,D], K: T[B,G,R,D], V: T[B,G,R,D]) -> (O: T[B,H,S,D], lse: "          \
    "f32[B,H,S]) scale: float = 1 / sqrt(D), causal: bool = false, left: int = -1, right: int = -1, "        \
    "softcap: float = 0.0 { P[b,h,q,k] = scale * sum(d) Q[b,h,q,d] * K[b,h / (H / G),k,d]; "                 \
    "A[b,h,q,k] = softcap == 0 ? P[b,h,q,k] : softcap * tanh(P[b,h,q,k] / softcap); v[q,k] = "               \
    "(!causal || k <= q + R - S) && (left < 0 || k >= q + R - S - left) && (right < 0 || k <= q + R "        \
    "- S + right); x[b,h,q] = max(k: v[q,k]) A[b,h,q,k]; m[b,h,q] = x[b,h,q] == -inf ? 0 : x[b,h,q]; "       \
    "s[b,h,q] = sum(k: v[q,k]) exp(A[b,h,q,k] - m[b,h,q]); O[b,h,q,d] = s[b,h,q] == 0 ? 0 : (sum(k: "        \
    "v[q,k]) cast<T>(exp(A[b,h,q,k] - m[b,h,q])) * V[b,h / (H / G),k,d]) / s[b,h,q]; lse[b,h,q] = "          \
    "m[b,h,q] + log(s[b,h,q]) }")                                                                            \
  X(cross_attention, "attention", "B,H,S,R,D", "f16 bf16",                                                   \
    "attention to another sequence, all of whose keys are seen",                                             \
    "cross_attention(Q: T[B,H,S,D], K: T[B,H,R,D], V: T[B,H,R,D]) -> (O: T[B,H,S,D], lse: "                  \
    "f32[B,H,S]) scale: float = 1 / sqrt(D) { P[b,h,q,k] = scale * sum(d) Q[b,h,q,d] * K[b,h,k,d]; "         \
    "x[b,h,q] = max(k) P[b,h,q,k]; m[b,h,q] = x[b,h,q] == -inf ? 0 : x[b,h,q]; s[b,h,q] = sum(k) "           \
    "exp(P[b,h,q,k] - m[b,h,q]); O[b,h,q,d] = s[b,h,q] == 0 ? 0 : (sum(k) cast<T>(exp(P[b,h,q,k] - "         \
    "m[b,h,q])) * V[b,h,k,d]) / s[b,h,q]; lse[b,h,q] = m[b,h,q] + log(s[b,h,q]) }")                          \
  X(attention_backward, "attention", "B,H,G,S,R,D,E", "f16 bf16",                                            \
    "gradients of attention, from its outputs, their gradient and log-sum-exp",                              \
    "attention_backward(Q: T[B,H,S,D], K: T[B,G,R,D], V: T[B,G,R,E], O: T[B,H,S,E], dO: "                    \
    "T[B,H,S,E], lse: f32[B,H,S]) -> (dQ: T[B,H,S,D], dK: T[B,G,R,D], dV: T[B,G,R,E]) scale: "               \
    "float = 1 / sqrt(D), causal: bool = false, left: int = -1, right: int = -1, softcap: float "            \
    "= 0.0, base2: bool = false { v[q,k] = (!causal || k <= q + R - S) && (left < 0 || k >= q + "            \
    "R - S - left) && (right < 0 || k <= q + R - S + right); e[b,h,q] = sum(x) O[b,h,q,x] * "                \
    "dO[b,h,q,x]; p[b,h,q,k] = scale * sum(d) Q[b,h,q,d] * K[b,h / (H / G),k,d]; t[b,h,q,k] = "              \
    "tanh(p[b,h,q,k] / softcap); A[b,h,q,k] = softcap == 0 ? p[b,h,q,k] : softcap * t[b,h,q,k]; "            \
    "P[b,h,q,k] = base2 ? exp2(1.4426950408889634 * A[b,h,q,k] - lse[b,h,q]) : exp(A[b,h,q,k] - "            \
    "lse[b,h,q]); W[b,h,q,k] = sum(x) dO[b,h,q,x] * V[b,h / (H / G),k,x]; a[b,h,q,k] = "                     \
    "P[b,h,q,k] * (W[b,h,q,k] - e[b,h,q]); Z[b,h,q,k] = cast<T>(softcap == 0 ? a[b,h,q,k] : "                \
    "a[b,h,q,k] * (1 - t[b,h,q,k] * t[b,h,q,k])); dQ[b,h,q,d] = scale * sum(k: v[q,k]) "                     \
    "Z[b,h,q,k] * K[b,h / (H / G),k,d]; dK[b,g,k,d] = scale * sum(h: h / (H / G) == g) sum(q: "              \
    "v[q,k]) Z[b,h,q,k] * Q[b,h,q,d]; dV[b,g,k,x] = sum(h: h / (H / G) == g) sum(q: v[q,k]) "                \
    "cast<T>(P[b,h,q,k]) * dO[b,h,q,x] }")                                                                   \
  X(varlen_attention, "attention", "N,H,M,G,D,E,B", "f16 bf16",                                              \
    "attention of packed sequences, each to its own keys, by offsets of both",                               \
    "varlen_attention(Q: T[N,H,D], K: T[M,G,D], V: T[M,G,E], cu_q: i32[B+1], cu_k: i32[B+1]) "               \
    "-> (O: T[N,H,E], lse: f32[N,H]) scale: float = 1 / sqrt(D), causal: bool = false, left: "               \
    "int = -1, right: int = -1, softcap: float = 0.0, base2: bool = false { g[n] = sum(b: "                  \
    "cu_q[b + 1] <= n) 1; P[n,h,k] = scale * sum(d) Q[n,h,d] * K[k,h / (H / G),d]; A[n,h,k] "                \
    "= softcap == 0 ? P[n,h,k] : softcap * tanh(P[n,h,k] / softcap); v[n,k] = g[n] < B && k "                \
    ">= cu_k[g[n]] && k < cu_k[g[n] + 1] && (!causal || k <= n + cu_k[g[n] + 1] - cu_q[g[n] "                \
    "+ 1]) && (left < 0 || k >= n + cu_k[g[n] + 1] - cu_q[g[n] + 1] - left) && (right < 0 || "               \
    "k <= n + cu_k[g[n] + 1] - cu_q[g[n] + 1] + right); x[n,h] = max(k: v[n,k]) A[n,h,k]; "                  \
    "m[n,h] = x[n,h] == -inf ? 0 : x[n,h]; s[n,h] = sum(k: v[n,k]) exp(A[n,h,k] - m[n,h]); "                 \
    "O[n,h,e] = s[n,h] == 0 ? 0 : (sum(k: v[n,k]) cast<T>(exp(A[n,h,k] - m[n,h])) * V[k,h / "                \
    "(H / G),e]) / s[n,h]; l[n,h] = m[n,h] + log(s[n,h]); lse[n,h] = base2 ? l[n,h] * "                      \
    "1.4426950408889634 : l[n,h] }")                                                                         \
  X(varlen_attention_backward, "attention", "N,H,M,G,D,E,B", "f16 bf16",                                     \
    "gradients of varlen_attention, from its outputs, their gradient and log-sum-exp",                       \
    "varlen_attention_backward(Q: T[N,H,D], K: T[M,G,D], V: T[M,G,E], O: T[N,H,E], dO: T[N,H,E], "           \
    "lse: f32[N,H], cu_q: i32[B+1], cu_k: i32[B+1]) -> (dQ: T[N,H,D], dK: T[M,G,D], dV: "                    \
    "T[M,G,E]) scale: float = 1 / sqrt(D), causal: bool = false, left: int = -1, right: int = "              \
    "-1, softcap: float = 0.0, base2: bool = false { g[n] = sum(b: cu_q[b + 1] <= n) 1; r[k] = "             \
    "sum(b: cu_k[b + 1] <= k) 1; v[n,k] = g[n] < B && k >= cu_k[g[n]] && k < cu_k[g[n] + 1] && "             \
    "(!causal || k <= n + cu_k[g[n] + 1] - cu_q[g[n] + 1]) && (left < 0 || k >= n + cu_k[g[n] + "            \
    "1] - cu_q[g[n] + 1] - left) && (right < 0 || k <= n + cu_k[g[n] + 1] - cu_q[g[n] + 1] + "               \
    "right); u[n,k] = r[k] < B && n >= cu_q[r[k]] && n < cu_q[r[k] + 1] && (!causal || k <= n + "            \
    "cu_k[r[k] + 1] - cu_q[r[k] + 1]) && (left < 0 || k >= n + cu_k[r[k] + 1] - cu_q[r[k] + 1] - "           \
    "left) && (right < 0 || k <= n + cu_k[r[k] + 1] - cu_q[r[k] + 1] + right); e[n,h] = sum(x) "             \
    "O[n,h,x] * dO[n,h,x]; p[n,h,k] = scale * sum(d) Q[n,h,d] * K[k,h / (H / G),d]; t[n,h,k] = "             \
    "tanh(p[n,h,k] / softcap); A[n,h,k] = softcap == 0 ? p[n,h,k] : softcap * t[n,h,k]; P[n,h,k] "           \
    "= base2 ? exp2(1.4426950408889634 * A[n,h,k] - lse[n,h]) : exp(A[n,h,k] - lse[n,h]); "                  \
    "W[n,h,k] = sum(x) dO[n,h,x] * V[k,h / (H / G),x]; a[n,h,k] = P[n,h,k] * (W[n,h,k] - "                   \
    "e[n,h]); Z[n,h,k] = cast<T>(softcap == 0 ? a[n,h,k] : a[n,h,k] * (1 - t[n,h,k] * "                      \
    "t[n,h,k])); dQ[n,h,d] = scale * sum(k: v[n,k]) Z[n,h,k] * K[k,h / (H / G),d]; dK[k,i,d] = "             \
    "scale * sum(h: h / (H / G) == i) sum(n: u[n,k]) Z[n,h,k] * Q[n,h,d]; dV[k,i,x] = sum(h: h / "           \
    "(H / G) == i) sum(n: u[n,k]) cast<T>(P[n,h,k]) * dO[n,h,x] }")                                          \
  X(paged_attention, "attention", "B,S,H,G,D,E,P,Z,W", "f16 bf16",                                           \
    "attention to keys and values in pages that a table names",                                              \
    "paged_attention(Q: T[B,S,H,D], K: T[P,Z,G,D], V: T[P,Z,G,E], table: i32[B,W], lens: "                   \
    "i32[B]) -> (O: T[B,S,H,E], lse: f32[B,S,H]) scale: float = 1 / sqrt(D), causal: bool = "                \
    "false, left: int = -1, right: int = -1, softcap: float = 0.0, base2: bool = false { "                   \
    "p[b,q,h,k] = scale * sum(d) Q[b,q,h,d] * K[table[b,k / Z],k % Z,h / (H / G),d]; "                       \
    "A[b,q,h,k] = softcap == 0 ? p[b,q,h,k] : softcap * tanh(p[b,q,h,k] / softcap); v[b,q,k] "               \
    "= k < lens[b] && (!causal || k <= q + lens[b] - S) && (left < 0 || k >= q + lens[b] - S "               \
    "- left) && (right < 0 || k <= q + lens[b] - S + right); x[b,q,h] = max(k: v[b,q,k]) "                   \
    "A[b,q,h,k]; m[b,q,h] = x[b,q,h] == -inf ? 0 : x[b,q,h]; s[b,q,h] = sum(k: v[b,q,k]) "                   \
    "exp(A[b,q,h,k] - m[b,q,h]); O[b,q,h,e] = s[b,q,h] == 0 ? 0 : (sum(k: v[b,q,k]) "                        \
    "cast<T>(exp(A[b,q,h,k] - m[b,q,h])) * V[table[b,k / Z],k % Z,h / (H / G),e]) / "                        \
    "s[b,q,h]; l[b,q,h] = m[b,q,h] + log(s[b,q,h]); lse[b,q,h] = base2 ? l[b,q,h] * "                        \
    "1.4426950408889634 : l[b,q,h] }")                                                                       \
  X(paged_varlen_attention, "attention", "N,H,G,D,E,P,Z,B,W", "f16 bf16",                                    \
    "attention of packed queries to keys and values in pages, of prefills in pieces and of mixed batches",   \
    "paged_varlen_attention(Q: T[N,H,D], K: T[P,Z,G,D], V: T[P,Z,G,E], table: i32[B,W], "                    \
    "lens: i32[B], cu_q: i32[B+1]) -> (O: T[N,H,E], lse: f32[N,H]) scale: float = 1 / "                      \
    "sqrt(D), causal: bool = false, left: int = -1, right: int = -1, softcap: float = 0.0, "                 \
    "base2: bool = false { g[n] = sum(b: cu_q[b + 1] <= n) 1; p[n,h,k] = scale * sum(d) "                    \
    "Q[n,h,d] * K[table[g[n],k / Z],k % Z,h / (H / G),d]; A[n,h,k] = softcap == 0 ? p[n,h,k] "               \
    ": softcap * tanh(p[n,h,k] / softcap); v[n,k] = g[n] < B && k < lens[g[n]] && (!causal "                 \
    "|| k <= n + lens[g[n]] - cu_q[g[n] + 1]) && (left < 0 || k >= n + lens[g[n]] - "                        \
    "cu_q[g[n] + 1] - left) && (right < 0 || k <= n + lens[g[n]] - cu_q[g[n] + 1] + right); "                \
    "x[n,h] = max(k: v[n,k]) A[n,h,k]; m[n,h] = x[n,h] == -inf ? 0 : x[n,h]; s[n,h] = sum(k: "               \
    "v[n,k]) exp(A[n,h,k] - m[n,h]); O[n,h,e] = s[n,h] == 0 ? 0 : (sum(k: v[n,k]) "                          \
    "cast<T>(exp(A[n,h,k] - m[n,h])) * V[table[g[n],k / Z],k % Z,h / (H / G),e]) / s[n,h]; "                 \
    "l[n,h] = m[n,h] + log(s[n,h]); lse[n,h] = base2 ? l[n,h] * 1.4426950408889634 : l[n,h] }")              \
  X(multi_latent_attention, "attention", "B,S,H,R,C,E", "f16 bf16",                                          \
    "attention to latent keys that are the values too, and to rotated ones",                                 \
    "multi_latent_attention(Q: T[B,S,H,C], Qr: T[B,S,H,E], KV: T[B,R,C], Kr: T[B,R,E], lens: "               \
    "i32[B]) -> (O: T[B,S,H,C], lse: f32[B,S,H]) scale: float = 1 / sqrt(C + E), causal: "                   \
    "bool = false, base2: bool = false { A[b,q,h,k] = scale * (sum(c) Q[b,q,h,c] * KV[b,k,c] "               \
    "+ sum(e) Qr[b,q,h,e] * Kr[b,k,e]); v[b,q,k] = k < lens[b] && (!causal || k <= q + "                     \
    "lens[b] - S); x[b,q,h] = max(k: v[b,q,k]) A[b,q,h,k]; m[b,q,h] = x[b,q,h] == -inf ? 0 : "               \
    "x[b,q,h]; s[b,q,h] = sum(k: v[b,q,k]) exp(A[b,q,h,k] - m[b,q,h]); O[b,q,h,c] = s[b,q,h] "               \
    "== 0 ? 0 : (sum(k: v[b,q,k]) cast<T>(exp(A[b,q,h,k] - m[b,q,h])) * KV[b,k,c]) / "                       \
    "s[b,q,h]; l[b,q,h] = m[b,q,h] + log(s[b,q,h]); lse[b,q,h] = base2 ? l[b,q,h] * "                        \
    "1.4426950408889634 : l[b,q,h] }")                                                                       \
  X(paged_latent_attention, "attention", "B,S,H,C,E,P,Z,W", "f16 bf16",                                      \
    "multi_latent_attention with keys in pages that a table names",                                          \
    "paged_latent_attention(Q: T[B,S,H,C], Qr: T[B,S,H,E], KV: T[P,Z,C], Kr: T[P,Z,E], "                     \
    "table: i32[B,W], lens: i32[B]) -> (O: T[B,S,H,C], lse: f32[B,S,H]) scale: float = 1 / "                 \
    "sqrt(C + E), causal: bool = false, base2: bool = false { A[b,q,h,k] = scale * (sum(c) "                 \
    "Q[b,q,h,c] * KV[table[b,k / Z],k % Z,c] + sum(e) Qr[b,q,h,e] * Kr[table[b,k / Z],k % "                  \
    "Z,e]); v[b,q,k] = k < lens[b] && (!causal || k <= q + lens[b] - S); x[b,q,h] = max(k: "                 \
    "v[b,q,k]) A[b,q,h,k]; m[b,q,h] = x[b,q,h] == -inf ? 0 : x[b,q,h]; s[b,q,h] = sum(k: "                   \
    "v[b,q,k]) exp(A[b,q,h,k] - m[b,q,h]); O[b,q,h,c] = s[b,q,h] == 0 ? 0 : (sum(k: "                        \
    "v[b,q,k]) cast<T>(exp(A[b,q,h,k] - m[b,q,h])) * KV[table[b,k / Z],k % Z,c]) / s[b,q,h]; "               \
    "l[b,q,h] = m[b,q,h] + log(s[b,q,h]); lse[b,q,h] = base2 ? l[b,q,h] * 1.4426950408889634 "               \
    ": l[b,q,h] }")                                                                                          \
  X(sparse_attention, "attention", "B,S,H,R,D,E,N", "f16 bf16",                                              \
    "attention of all heads to N keys that each query names",                                                \
    "sparse_attention(Q: T[B,S,H,D], K: T[B,R,D], V: T[B,R,E], idx: i32[B,S,N]) -> (O: "                     \
    "T[B,S,H,E], lse: f32[B,S,H]) scale: float = 1 / sqrt(D), causal: bool = false, first: "                 \
    "int = 0, base2: bool = false { A[b,q,h,k] = scale * sum(d) Q[b,q,h,d] * "                               \
    "K[b,idx[b,q,k],d]; v[b,q,k] = idx[b,q,k] < R && (!causal || idx[b,q,k] <= q + first); "                 \
    "x[b,q,h] = max(k: v[b,q,k]) A[b,q,h,k]; m[b,q,h] = x[b,q,h] == -inf ? 0 : x[b,q,h]; "                   \
    "s[b,q,h] = sum(k: v[b,q,k]) exp(A[b,q,h,k] - m[b,q,h]); O[b,q,h,e] = s[b,q,h] == 0 ? 0 "                \
    ": (sum(k: v[b,q,k]) cast<T>(exp(A[b,q,h,k] - m[b,q,h])) * V[b,idx[b,q,k],e]) / "                        \
    "s[b,q,h]; l[b,q,h] = m[b,q,h] + log(s[b,q,h]); lse[b,q,h] = base2 ? l[b,q,h] * "                        \
    "1.4426950408889634 : l[b,q,h] }")                                                                       \
  X(sparse_shared_attention, "attention", "B,S,H,R,D,N", "f16 bf16",                                         \
    "sparse_attention whose keys are the values, too",                                                       \
    "sparse_shared_attention(Q: T[B,S,H,D], KV: T[B,R,D], idx: i32[B,S,N]) -> (O: "                          \
    "T[B,S,H,D], lse: f32[B,S,H]) scale: float = 1 / sqrt(D), causal: bool = false, first: "                 \
    "int = 0, base2: bool = false { A[b,q,h,k] = scale * sum(d) Q[b,q,h,d] * "                               \
    "KV[b,idx[b,q,k],d]; v[b,q,k] = idx[b,q,k] < R && (!causal || idx[b,q,k] <= q + first); "                \
    "x[b,q,h] = max(k: v[b,q,k]) A[b,q,h,k]; m[b,q,h] = x[b,q,h] == -inf ? 0 : x[b,q,h]; "                   \
    "s[b,q,h] = sum(k: v[b,q,k]) exp(A[b,q,h,k] - m[b,q,h]); O[b,q,h,d] = s[b,q,h] == 0 ? 0 "                \
    ": (sum(k: v[b,q,k]) cast<T>(exp(A[b,q,h,k] - m[b,q,h])) * KV[b,idx[b,q,k],d]) / "                       \
    "s[b,q,h]; l[b,q,h] = m[b,q,h] + log(s[b,q,h]); lse[b,q,h] = base2 ? l[b,q,h] * "                        \
    "1.4426950408889634 : l[b,q,h] }")                                                                       \
  X(sparse_latent_attention, "attention", "B,S,H,R,C,E,N", "f16 bf16",                                       \
    "multi_latent_attention to N keys that each query names",                                                \
    "sparse_latent_attention(Q: T[B,S,H,C], Qr: T[B,S,H,E], KV: T[B,R,C], Kr: T[B,R,E], idx: "               \
    "i32[B,S,N]) -> (O: T[B,S,H,C], lse: f32[B,S,H]) scale: float = 1 / sqrt(C + E), causal: "               \
    "bool = false, first: int = 0, base2: bool = false { A[b,q,h,k] = scale * (sum(c) "                      \
    "Q[b,q,h,c] * KV[b,idx[b,q,k],c] + sum(e) Qr[b,q,h,e] * Kr[b,idx[b,q,k],e]); v[b,q,k] = "                \
    "idx[b,q,k] < R && (!causal || idx[b,q,k] <= q + first); x[b,q,h] = max(k: v[b,q,k]) "                   \
    "A[b,q,h,k]; m[b,q,h] = x[b,q,h] == -inf ? 0 : x[b,q,h]; s[b,q,h] = sum(k: v[b,q,k]) "                   \
    "exp(A[b,q,h,k] - m[b,q,h]); O[b,q,h,c] = s[b,q,h] == 0 ? 0 : (sum(k: v[b,q,k]) "                        \
    "cast<T>(exp(A[b,q,h,k] - m[b,q,h])) * KV[b,idx[b,q,k],c]) / s[b,q,h]; l[b,q,h] = "                      \
    "m[b,q,h] + log(s[b,q,h]); lse[b,q,h] = base2 ? l[b,q,h] * 1.4426950408889634 : l[b,q,h] "               \
    "}")                                                                                                     \
  X(sink_attention, "attention", "B,H,G,S,R,D,E", "f16 bf16",                                                \
    "grouped_query_attention with a score for each head that no value belongs to",                           \
    "sink_attention(Q: T[B,H,S,D], K: T[B,G,R,D], V: T[B,G,R,E], z: f32[H]) -> (O: "                         \
    "T[B,H,S,E], lse: f32[B,H,S]) scale: float = 1 / sqrt(D), causal: bool = false, left: "                  \
    "int = -1, right: int = -1, softcap: float = 0.0, base2: bool = false { P[b,h,q,k] = "                   \
    "scale * sum(d) Q[b,h,q,d] * K[b,h / (H / G),k,d]; A[b,h,q,k] = softcap == 0 ? "                         \
    "P[b,h,q,k] : softcap * tanh(P[b,h,q,k] / softcap); v[q,k] = (!causal || k <= q + R - S) "               \
    "&& (left < 0 || k >= q + R - S - left) && (right < 0 || k <= q + R - S + right); "                      \
    "x[b,h,q] = max(k: v[q,k]) A[b,h,q,k]; m[b,h,q] = x[b,h,q] == -inf ? 0 : x[b,h,q]; "                     \
    "s[b,h,q] = sum(k: v[q,k]) exp(A[b,h,q,k] - m[b,h,q]); y[b,h,q] = max(m[b,h,q], z[h]); "                 \
    "t[b,h,q] = s[b,h,q] * exp(m[b,h,q] - y[b,h,q]) + exp(z[h] - y[b,h,q]); O[b,h,q,e] = "                   \
    "s[b,h,q] == 0 ? 0 : (sum(k: v[q,k]) cast<T>(exp(A[b,h,q,k] - m[b,h,q])) * V[b,h / (H / "                \
    "G),k,e]) * exp(m[b,h,q] - y[b,h,q]) / t[b,h,q]; l[b,h,q] = y[b,h,q] + log(t[b,h,q]); "                  \
    "lse[b,h,q] = base2 ? l[b,h,q] * 1.4426950408889634 : l[b,h,q] }")                                       \
  X(varlen_sink_attention, "attention", "N,H,M,G,D,E,B", "f16 bf16",                                         \
    "varlen_attention with a score for each head that no value belongs to",                                  \
    "varlen_sink_attention(Q: T[N,H,D], K: T[M,G,D], V: T[M,G,E], cu_q: i32[B+1], cu_k: "                    \
    "i32[B+1], z: f32[H]) -> (O: T[N,H,E], lse: f32[N,H]) scale: float = 1 / sqrt(D), "                      \
    "causal: bool = false, left: int = -1, right: int = -1, softcap: float = 0.0, base2: "                   \
    "bool = false { g[n] = sum(b: cu_q[b + 1] <= n) 1; P[n,h,k] = scale * sum(d) Q[n,h,d] * "                \
    "K[k,h / (H / G),d]; A[n,h,k] = softcap == 0 ? P[n,h,k] : softcap * tanh(P[n,h,k] / "                    \
    "softcap); v[n,k] = g[n] < B && k >= cu_k[g[n]] && k < cu_k[g[n] + 1] && (!causal || k "                 \
    "<= n + cu_k[g[n] + 1] - cu_q[g[n] + 1]) && (left < 0 || k >= n + cu_k[g[n] + 1] - "                     \
    "cu_q[g[n] + 1] - left) && (right < 0 || k <= n + cu_k[g[n] + 1] - cu_q[g[n] + 1] + "                    \
    "right); x[n,h] = max(k: v[n,k]) A[n,h,k]; m[n,h] = x[n,h] == -inf ? 0 : x[n,h]; s[n,h] "                \
    "= sum(k: v[n,k]) exp(A[n,h,k] - m[n,h]); y[n,h] = max(m[n,h], z[h]); t[n,h] = s[n,h] * "                \
    "exp(m[n,h] - y[n,h]) + exp(z[h] - y[n,h]); O[n,h,e] = s[n,h] == 0 ? 0 : (sum(k: v[n,k]) "               \
    "cast<T>(exp(A[n,h,k] - m[n,h])) * V[k,h / (H / G),e]) * exp(m[n,h] - y[n,h]) / t[n,h]; "                \
    "l[n,h] = y[n,h] + log(t[n,h]); lse[n,h] = base2 ? l[n,h] * 1.4426950408889634 : l[n,h] }")              \
  X(paged_sink_attention, "attention", "B,S,H,G,D,E,P,Z,W", "f16 bf16",                                      \
    "paged_attention with a score for each head that no value belongs to",                                   \
    "paged_sink_attention(Q: T[B,S,H,D], K: T[P,Z,G,D], V: T[P,Z,G,E], table: i32[B,W], "                    \
    "lens: i32[B], z: f32[H]) -> (O: T[B,S,H,E], lse: f32[B,S,H]) scale: float = 1 / "                       \
    "sqrt(D), causal: bool = false, left: int = -1, right: int = -1, softcap: float = 0.0, "                 \
    "base2: bool = false { p[b,q,h,k] = scale * sum(d) Q[b,q,h,d] * K[table[b,k / Z],k % Z,h "               \
    "/ (H / G),d]; A[b,q,h,k] = softcap == 0 ? p[b,q,h,k] : softcap * tanh(p[b,q,h,k] / "                    \
    "softcap); v[b,q,k] = k < lens[b] && (!causal || k <= q + lens[b] - S) && (left < 0 || k "               \
    ">= q + lens[b] - S - left) && (right < 0 || k <= q + lens[b] - S + right); x[b,q,h] = "                 \
    "max(k: v[b,q,k]) A[b,q,h,k]; m[b,q,h] = x[b,q,h] == -inf ? 0 : x[b,q,h]; s[b,q,h] = "                   \
    "sum(k: v[b,q,k]) exp(A[b,q,h,k] - m[b,q,h]); y[b,q,h] = max(m[b,q,h], z[h]); t[b,q,h] = "               \
    "s[b,q,h] * exp(m[b,q,h] - y[b,q,h]) + exp(z[h] - y[b,q,h]); O[b,q,h,e] = s[b,q,h] == 0 "                \
    "? 0 : (sum(k: v[b,q,k]) cast<T>(exp(A[b,q,h,k] - m[b,q,h])) * V[table[b,k / Z],k % Z,h "                \
    "/ (H / G),e]) * exp(m[b,q,h] - y[b,q,h]) / t[b,q,h]; l[b,q,h] = y[b,q,h] + "                            \
    "log(t[b,q,h]); lse[b,q,h] = base2 ? l[b,q,h] * 1.4426950408889634 : l[b,q,h] }")                        \
  X(varlen_rope_attention, "attention", "N,H,M,G,D,E,B,R,F", "f16 bf16",                                     \
    "varlen_attention of queries and keys that are rotated by their places",                                 \
    "varlen_rope_attention(Q: T[N,H,D], K: T[M,G,D], V: T[M,G,E], cu_q: i32[B+1], cu_k: "                    \
    "i32[B+1], cosines: T[R,F], sines: T[R,F]) -> (O: T[N,H,E], lse: f32[N,H]) scale: float = "              \
    "1 / sqrt(D), causal: bool = false, left: int = -1, right: int = -1, softcap: float = "                  \
    "0.0, base2: bool = false, interleaved: bool = false { g[n] = sum(b: cu_q[b + 1] <= n) 1; "              \
    "f[i] = sum(b: cu_k[b + 1] <= i) 1; a[n] = min(max(n + cu_k[g[n] + 1] - cu_k[g[n]] - "                   \
    "cu_q[g[n] + 1], 0), R - 1); c[i] = min(i - cu_k[f[i]], R - 1); Qr[n,h,d] = cast<T>(g[n] "               \
    "== B || d >= 2 * F ? Q[n,h,d] : interleaved ? d % 2 == 0 ? Q[n,h,d] * cosines[a[n],d / "                \
    "2] - Q[n,h,d + 1] * sines[a[n],d / 2] : Q[n,h,d] * cosines[a[n],d / 2] + Q[n,h,d - 1] * "               \
    "sines[a[n],d / 2] : d < F ? Q[n,h,d] * cosines[a[n],d + 0] - Q[n,h,d + F] else 0 * "                    \
    "sines[a[n],d + 0] : Q[n,h,d] * cosines[a[n],d - F] + Q[n,h,d - F] else 0 * sines[a[n],d "               \
    "- F]); Kr[i,j,d] = cast<T>(f[i] == B || d >= 2 * F ? K[i,j,d] : interleaved ? d % 2 == 0 "              \
    "? K[i,j,d] * cosines[c[i],d / 2] - K[i,j,d + 1] * sines[c[i],d / 2] : K[i,j,d] * "                      \
    "cosines[c[i],d / 2] + K[i,j,d - 1] * sines[c[i],d / 2] : d < F ? K[i,j,d] * "                           \
    "cosines[c[i],d + 0] - K[i,j,d + F] else 0 * sines[c[i],d + 0] : K[i,j,d] * "                            \
    "cosines[c[i],d - F] + K[i,j,d - F] else 0 * sines[c[i],d - F]); P[n,h,k] = scale * "                    \
    "sum(d) Qr[n,h,d] * Kr[k,h / (H / G),d]; A[n,h,k] = softcap == 0 ? P[n,h,k] : softcap * "                \
    "tanh(P[n,h,k] / softcap); v[n,k] = g[n] < B && k >= cu_k[g[n]] && k < cu_k[g[n] + 1] && "               \
    "(!causal || k <= n + cu_k[g[n] + 1] - cu_q[g[n] + 1]) && (left < 0 || k >= n + cu_k[g[n] "              \
    "+ 1] - cu_q[g[n] + 1] - left) && (right < 0 || k <= n + cu_k[g[n] + 1] - cu_q[g[n] + 1] "               \
    "+ right); x[n,h] = max(k: v[n,k]) A[n,h,k]; m[n,h] = x[n,h] == -inf ? 0 : x[n,h]; s[n,h] "              \
    "= sum(k: v[n,k]) exp(A[n,h,k] - m[n,h]); O[n,h,e] = s[n,h] == 0 ? 0 : (sum(k: v[n,k]) "                 \
    "cast<T>(exp(A[n,h,k] - m[n,h])) * V[k,h / (H / G),e]) / s[n,h]; l[n,h] = m[n,h] + "                     \
    "log(s[n,h]); lse[n,h] = base2 ? l[n,h] * 1.4426950408889634 : l[n,h] }")                                \
  X(paged_rope_attention, "attention", "B,S,H,G,D,E,P,Z,W,R,F", "f16 bf16",                                  \
    "paged_attention of queries and keys that are rotated by their places",                                  \
    "paged_rope_attention(Q: T[B,S,H,D], K: T[P,Z,G,D], V: T[P,Z,G,E], table: i32[B,W], lens: "              \
    "i32[B], cosines: T[R,F], sines: T[R,F]) -> (O: T[B,S,H,E], lse: f32[B,S,H]) scale: float "              \
    "= 1 / sqrt(D), causal: bool = false, left: int = -1, right: int = -1, softcap: float = "                \
    "0.0, base2: bool = false, interleaved: bool = false { a[b,q] = min(max(q + lens[b] - S, "               \
    "0), R - 1); c[w,y] = min(w * Z + y, R - 1); Qr[b,q,h,d] = cast<T>(d >= 2 * F ? "                        \
    "Q[b,q,h,d] : interleaved ? d % 2 == 0 ? Q[b,q,h,d] * cosines[a[b,q],d / 2] - Q[b,q,h,d + "              \
    "1] * sines[a[b,q],d / 2] : Q[b,q,h,d] * cosines[a[b,q],d / 2] + Q[b,q,h,d - 1] * "                      \
    "sines[a[b,q],d / 2] : d < F ? Q[b,q,h,d] * cosines[a[b,q],d + 0] - Q[b,q,h,d + F] else 0 "              \
    "* sines[a[b,q],d + 0] : Q[b,q,h,d] * cosines[a[b,q],d - F] + Q[b,q,h,d - F] else 0 * "                  \
    "sines[a[b,q],d - F]); Kr[b,w,y,j,d] = cast<T>(w * Z + y >= lens[b] ? 0 : d >= 2 * F ? "                 \
    "K[table[b,w],y,j,d] : interleaved ? d % 2 == 0 ? K[table[b,w],y,j,d] * cosines[c[w,y],d "               \
    "/ 2] - K[table[b,w],y,j,d + 1] * sines[c[w,y],d / 2] : K[table[b,w],y,j,d] * "                          \
    "cosines[c[w,y],d / 2] + K[table[b,w],y,j,d - 1] * sines[c[w,y],d / 2] : d < F ? "                       \
    "K[table[b,w],y,j,d] * cosines[c[w,y],d + 0] - K[table[b,w],y,j,d + F] else 0 * "                        \
    "sines[c[w,y],d + 0] : K[table[b,w],y,j,d] * cosines[c[w,y],d - F] + K[table[b,w],y,j,d - "              \
    "F] else 0 * sines[c[w,y],d - F]); p[b,q,h,k] = scale * sum(d) Qr[b,q,h,d] * Kr[b,k / Z,k "              \
    "% Z,h / (H / G),d]; A[b,q,h,k] = softcap == 0 ? p[b,q,h,k] : softcap * tanh(p[b,q,h,k] / "              \
    "softcap); v[b,q,k] = k < lens[b] && (!causal || k <= q + lens[b] - S) && (left < 0 || k "               \
    ">= q + lens[b] - S - left) && (right < 0 || k <= q + lens[b] - S + right); x[b,q,h] = "                 \
    "max(k: v[b,q,k]) A[b,q,h,k]; m[b,q,h] = x[b,q,h] == -inf ? 0 : x[b,q,h]; s[b,q,h] = "                   \
    "sum(k: v[b,q,k]) exp(A[b,q,h,k] - m[b,q,h]); O[b,q,h,e] = s[b,q,h] == 0 ? 0 : (sum(k: "                 \
    "v[b,q,k]) cast<T>(exp(A[b,q,h,k] - m[b,q,h])) * V[table[b,k / Z],k % Z,h / (H / G),e]) / "              \
    "s[b,q,h]; l[b,q,h] = m[b,q,h] + log(s[b,q,h]); lse[b,q,h] = base2 ? l[b,q,h] * "                        \
    "1.4426950408889634 : l[b,q,h] }")                                                                       \
  X(paged_varlen_rope_attention, "attention", "N,H,G,D,E,P,Z,B,W,R,F", "f16 bf16",                           \
    "paged_varlen_attention of queries and keys that are rotated by their places",                           \
    "paged_varlen_rope_attention(Q: T[N,H,D], K: T[P,Z,G,D], V: T[P,Z,G,E], table: i32[B,W], "               \
    "lens: i32[B], cu_q: i32[B+1], cosines: T[R,F], sines: T[R,F]) -> (O: T[N,H,E], lse: "                   \
    "f32[N,H]) scale: float = 1 / sqrt(D), causal: bool = false, left: int = -1, right: int = "              \
    "-1, softcap: float = 0.0, base2: bool = false, interleaved: bool = false { g[n] = sum(b: "              \
    "cu_q[b + 1] <= n) 1; a[n] = min(max(n - cu_q[g[n] + 1] + lens[g[n]], 0), R - 1); c[w,y] "               \
    "= min(w * Z + y, R - 1); Qr[n,h,d] = cast<T>(g[n] == B || d >= 2 * F ? Q[n,h,d] : "                     \
    "interleaved ? d % 2 == 0 ? Q[n,h,d] * cosines[a[n],d / 2] - Q[n,h,d + 1] * sines[a[n],d "               \
    "/ 2] : Q[n,h,d] * cosines[a[n],d / 2] + Q[n,h,d - 1] * sines[a[n],d / 2] : d < F ? "                    \
    "Q[n,h,d] * cosines[a[n],d + 0] - Q[n,h,d + F] else 0 * sines[a[n],d + 0] : Q[n,h,d] * "                 \
    "cosines[a[n],d - F] + Q[n,h,d - F] else 0 * sines[a[n],d - F]); Kr[b,w,y,j,d] = "                       \
    "cast<T>(w * Z + y >= lens[b] ? 0 : d >= 2 * F ? K[table[b,w],y,j,d] : interleaved ? d % "               \
    "2 == 0 ? K[table[b,w],y,j,d] * cosines[c[w,y],d / 2] - K[table[b,w],y,j,d + 1] * "                      \
    "sines[c[w,y],d / 2] : K[table[b,w],y,j,d] * cosines[c[w,y],d / 2] + K[table[b,w],y,j,d - "              \
    "1] * sines[c[w,y],d / 2] : d < F ? K[table[b,w],y,j,d] * cosines[c[w,y],d + 0] - "                      \
    "K[table[b,w],y,j,d + F] else 0 * sines[c[w,y],d + 0] : K[table[b,w],y,j,d] * "                          \
    "cosines[c[w,y],d - F] + K[table[b,w],y,j,d - F] else 0 * sines[c[w,y],d - F]); p[n,h,k] "               \
    "= scale * sum(d) Qr[n,h,d] * Kr[g[n],k / Z,k % Z,h / (H / G),d]; A[n,h,k] = softcap == 0 "              \
    "? p[n,h,k] : softcap * tanh(p[n,h,k] / softcap); v[n,k] = g[n] < B && k < lens[g[n]] && "               \
    "(!causal || k <= n + lens[g[n]] - cu_q[g[n] + 1]) && (left < 0 || k >= n + lens[g[n]] - "               \
    "cu_q[g[n] + 1] - left) && (right < 0 || k <= n + lens[g[n]] - cu_q[g[n] + 1] + right); "                \
    "x[n,h] = max(k: v[n,k]) A[n,h,k]; m[n,h] = x[n,h] == -inf ? 0 : x[n,h]; s[n,h] = sum(k: "               \
    "v[n,k]) exp(A[n,h,k] - m[n,h]); O[n,h,e] = s[n,h] == 0 ? 0 : (sum(k: v[n,k]) "                          \
    "cast<T>(exp(A[n,h,k] - m[n,h])) * V[table[g[n],k / Z],k % Z,h / (H / G),e]) / s[n,h]; "                 \
    "l[n,h] = m[n,h] + log(s[n,h]); lse[n,h] = base2 ? l[n,h] * 1.4426950408889634 : l[n,h] }")              \
  X(grouped_query_fp8_attention, "attention", "B,S,H,G,R,D,E", "e4m3 e5m2|f16 bf16",                         \
    "attention to 8-bit floats with a scale for each head of keys",                                          \
    "grouped_query_fp8_attention(Q: U[B,S,H,D], K: U[B,R,G,D], V: U[B,R,G,E], sq: "                          \
    "f32[B,G], sk: f32[B,G], sv: f32[B,G]) -> (O: T[B,S,H,E], lse: f32[B,S,H]) scale: "                      \
    "float = 1 / sqrt(D), causal: bool = false, left: int = -1, right: int = -1, "                           \
    "softcap: float = 0.0, base2: bool = false { P[b,q,h,k] = scale * (sq[b,h / (H / G)] "                   \
    "* sk[b,h / (H / G)]) * sum(d) Q[b,q,h,d] * K[b,k,h / (H / G),d]; A[b,q,h,k] = "                         \
    "softcap == 0 ? P[b,q,h,k] : softcap * tanh(P[b,q,h,k] / softcap); v[q,k] = (!causal "                   \
    "|| k <= q + R - S) && (left < 0 || k >= q + R - S - left) && (right < 0 || k <= q + "                   \
    "R - S + right); x[b,q,h] = max(k: v[q,k]) A[b,q,h,k]; m[b,q,h] = x[b,q,h] == -inf ? "                   \
    "0 : x[b,q,h]; s[b,q,h] = sum(k: v[q,k]) exp(A[b,q,h,k] - m[b,q,h]); O[b,q,h,e] = "                      \
    "s[b,q,h] == 0 ? 0 : (sum(k: v[q,k]) cast<f16>(exp(A[b,q,h,k] - m[b,q,h])) * V[b,k,h "                   \
    "/ (H / G),e]) / s[b,q,h] * sv[b,h / (H / G)]; l[b,q,h] = m[b,q,h] + log(s[b,q,h]); "                    \
    "lse[b,q,h] = base2 ? l[b,q,h] * 1.4426950408889634 : l[b,q,h] }")                                       \
  X(varlen_fp8_attention, "attention", "N,H,M,G,D,E,B", "e4m3 e5m2|f16 bf16",                                \
    "varlen_attention to 8-bit floats with a scale for each sequence and head of keys",                      \
    "varlen_fp8_attention(Q: U[N,H,D], K: U[M,G,D], V: U[M,G,E], sq: f32[B,G], sk: "                         \
    "f32[B,G], sv: f32[B,G], cu_q: i32[B+1], cu_k: i32[B+1]) -> (O: T[N,H,E], lse: "                         \
    "f32[N,H]) scale: float = 1 / sqrt(D), causal: bool = false, left: int = -1, right: "                    \
    "int = -1, softcap: float = 0.0, base2: bool = false { g[n] = sum(b: cu_q[b + 1] <= "                    \
    "n) 1; P[n,h,k] = scale * (sq[g[n],h / (H / G)] * sk[g[n],h / (H / G)]) * sum(d) "                       \
    "Q[n,h,d] * K[k,h / (H / G),d]; A[n,h,k] = softcap == 0 ? P[n,h,k] : softcap * "                         \
    "tanh(P[n,h,k] / softcap); v[n,k] = g[n] < B && k >= cu_k[g[n]] && k < cu_k[g[n] + "                     \
    "1] && (!causal || k <= n + cu_k[g[n] + 1] - cu_q[g[n] + 1]) && (left < 0 || k >= n "                    \
    "+ cu_k[g[n] + 1] - cu_q[g[n] + 1] - left) && (right < 0 || k <= n + cu_k[g[n] + 1] "                    \
    "- cu_q[g[n] + 1] + right); x[n,h] = max(k: v[n,k]) A[n,h,k]; m[n,h] = x[n,h] == "                       \
    "-inf ? 0 : x[n,h]; s[n,h] = sum(k: v[n,k]) exp(A[n,h,k] - m[n,h]); O[n,h,e] = "                         \
    "s[n,h] == 0 ? 0 : (sum(k: v[n,k]) cast<f16>(exp(A[n,h,k] - m[n,h])) * V[k,h / (H / "                    \
    "G),e]) / s[n,h] * sv[g[n],h / (H / G)]; l[n,h] = m[n,h] + log(s[n,h]); lse[n,h] = "                     \
    "base2 ? l[n,h] * 1.4426950408889634 : l[n,h] }")                                                        \
  X(paged_varlen_append_attention, "attention", "N,H,G,D,E,P,Z,B,W", "f16 bf16",                             \
    "paged_varlen_attention that writes the new keys and values to their places in the pages first",         \
    "paged_varlen_append_attention(Q: T[N,H,D], K: T[N,G,D], V: T[N,G,E], Kp: T[P,Z,G,D], Vp: "              \
    "T[P,Z,G,E], table: i32[B,W], lens: i32[B], cu_q: i32[B+1]) -> (O: T[N,H,E], lse: "                      \
    "f32[N,H], Kp, Vp) scale: float = 1 / sqrt(D), causal: bool = false, left: int = -1, "                   \
    "right: int = -1, softcap: float = 0.0, base2: bool = false { g[n] = sum(b: cu_q[b + 1] "                \
    "<= n) 1; o[n] = n - cu_q[g[n] + 1] + lens[g[n]]; u[n] = g[n] < B && o[n] >= 0 && o[n] < "               \
    "W * Z ? table[g[n],o[n] / Z] : -1; c[n] = g[n] < B ? o[n] % Z : 0; Kp[u[n],c[n],j,d] "                  \
    "else skip = K[n,j,d]; Vp[u[n],c[n],j,e] else skip = V[n,j,e]; p[n,h,k] = scale * sum(d) "               \
    "Q[n,h,d] * Kp'[table[g[n],k / Z],k % Z,h / (H / G),d]; A[n,h,k] = softcap == 0 ? "                      \
    "p[n,h,k] : softcap * tanh(p[n,h,k] / softcap); v[n,k] = g[n] < B && k < lens[g[n]] && "                 \
    "(!causal || k <= n + lens[g[n]] - cu_q[g[n] + 1]) && (left < 0 || k >= n + lens[g[n]] - "               \
    "cu_q[g[n] + 1] - left) && (right < 0 || k <= n + lens[g[n]] - cu_q[g[n] + 1] + right); "                \
    "x[n,h] = max(k: v[n,k]) A[n,h,k]; m[n,h] = x[n,h] == -inf ? 0 : x[n,h]; s[n,h] = sum(k: "               \
    "v[n,k]) exp(A[n,h,k] - m[n,h]); O[n,h,e] = s[n,h] == 0 ? 0 : (sum(k: v[n,k]) "                          \
    "cast<T>(exp(A[n,h,k] - m[n,h])) * Vp'[table[g[n],k / Z],k % Z,h / (H / G),e]) / s[n,h]; "               \
    "l[n,h] = m[n,h] + log(s[n,h]); lse[n,h] = base2 ? l[n,h] * 1.4426950408889634 : l[n,h] }")              \
  X(paged_varlen_append_rope_attention, "attention", "N,H,G,D,E,P,Z,B,W,R,F", "f16 bf16",                    \
    "paged_varlen_append_attention of queries and new keys that are rotated by their places",                \
    "paged_varlen_append_rope_attention(Q: T[N,H,D], K: T[N,G,D], V: T[N,G,E], Kp: "                         \
    "T[P,Z,G,D], Vp: T[P,Z,G,E], table: i32[B,W], lens: i32[B], cu_q: i32[B+1], cosines: "                   \
    "T[R,F], sines: T[R,F]) -> (O: T[N,H,E], lse: f32[N,H], Kp, Vp) scale: float = 1 / "                     \
    "sqrt(D), causal: bool = false, left: int = -1, right: int = -1, softcap: float = 0.0, "                 \
    "base2: bool = false, interleaved: bool = false { g[n] = sum(b: cu_q[b + 1] <= n) 1; o[n] "              \
    "= n - cu_q[g[n] + 1] + lens[g[n]]; u[n] = g[n] < B && o[n] >= 0 && o[n] < W * Z ? "                     \
    "table[g[n],o[n] / Z] : -1; c[n] = g[n] < B ? o[n] % Z : 0; a[n] = min(max(o[n], 0), R - "               \
    "1); Qr[n,h,d] = cast<T>(g[n] == B || d >= 2 * F ? Q[n,h,d] : interleaved ? d % 2 == 0 ? "               \
    "Q[n,h,d] * cosines[a[n],d / 2] - Q[n,h,d + 1] * sines[a[n],d / 2] : Q[n,h,d] * "                        \
    "cosines[a[n],d / 2] + Q[n,h,d - 1] * sines[a[n],d / 2] : d < F ? Q[n,h,d] * "                           \
    "cosines[a[n],d + 0] - Q[n,h,d + F] else 0 * sines[a[n],d + 0] : Q[n,h,d] * "                            \
    "cosines[a[n],d - F] + Q[n,h,d - F] else 0 * sines[a[n],d - F]); Kr[n,j,d] = cast<T>(g[n] "              \
    "== B || d >= 2 * F ? K[n,j,d] : interleaved ? d % 2 == 0 ? K[n,j,d] * cosines[a[n],d / "                \
    "2] - K[n,j,d + 1] * sines[a[n],d / 2] : K[n,j,d] * cosines[a[n],d / 2] + K[n,j,d - 1] * "               \
    "sines[a[n],d / 2] : d < F ? K[n,j,d] * cosines[a[n],d + 0] - K[n,j,d + F] else 0 * "                    \
    "sines[a[n],d + 0] : K[n,j,d] * cosines[a[n],d - F] + K[n,j,d - F] else 0 * sines[a[n],d "               \
    "- F]); Kp[u[n],c[n],j,d] else skip = Kr[n,j,d]; Vp[u[n],c[n],j,e] else skip = V[n,j,e]; "               \
    "p[n,h,k] = scale * sum(d) Qr[n,h,d] * Kp'[table[g[n],k / Z],k % Z,h / (H / G),d]; "                     \
    "A[n,h,k] = softcap == 0 ? p[n,h,k] : softcap * tanh(p[n,h,k] / softcap); v[n,k] = g[n] < "              \
    "B && k < lens[g[n]] && (!causal || k <= n + lens[g[n]] - cu_q[g[n] + 1]) && (left < 0 || "              \
    "k >= n + lens[g[n]] - cu_q[g[n] + 1] - left) && (right < 0 || k <= n + lens[g[n]] - "                   \
    "cu_q[g[n] + 1] + right); x[n,h] = max(k: v[n,k]) A[n,h,k]; m[n,h] = x[n,h] == -inf ? 0 : "              \
    "x[n,h]; s[n,h] = sum(k: v[n,k]) exp(A[n,h,k] - m[n,h]); O[n,h,e] = s[n,h] == 0 ? 0 : "                  \
    "(sum(k: v[n,k]) cast<T>(exp(A[n,h,k] - m[n,h])) * Vp'[table[g[n],k / Z],k % Z,h / (H / "                \
    "G),e]) / s[n,h]; l[n,h] = m[n,h] + log(s[n,h]); lse[n,h] = base2 ? l[n,h] * "                           \
    "1.4426950408889634 : l[n,h] }")                                                                         \
  X(paged_varlen_append_fp8_attention, "attention", "N,H,G,D,E,P,Z,B,W", "f16 bf16|e4m3 e5m2",               \
    "paged_varlen_append_attention with 8-bit pages, which have a scale for keys and one for values",        \
    "paged_varlen_append_fp8_attention(Q: T[N,H,D], K: T[N,G,D], V: T[N,G,E], Kp: "                          \
    "U[P,Z,G,D], Vp: U[P,Z,G,E], sk: f32[], sv: f32[], table: i32[B,W], lens: i32[B], "                      \
    "cu_q: i32[B+1]) -> (O: T[N,H,E], lse: f32[N,H], Kp, Vp) scale: float = 1 / sqrt(D), "                   \
    "causal: bool = false, left: int = -1, right: int = -1, softcap: float = 0.0, base2: "                   \
    "bool = false { g[n] = sum(b: cu_q[b + 1] <= n) 1; o[n] = n - cu_q[g[n] + 1] + "                         \
    "lens[g[n]]; u[n] = g[n] < B && o[n] >= 0 && o[n] < W * Z ? table[g[n],o[n] / Z] : "                     \
    "-1; c[n] = g[n] < B ? o[n] % Z : 0; Kp[u[n],c[n],j,d] else skip = K[n,j,d] / sk; "                      \
    "Vp[u[n],c[n],j,e] else skip = V[n,j,e] / sv; p[n,h,k] = scale * sk * sum(d) "                           \
    "Q[n,h,d] * Kp'[table[g[n],k / Z],k % Z,h / (H / G),d]; A[n,h,k] = softcap == 0 ? "                      \
    "p[n,h,k] : softcap * tanh(p[n,h,k] / softcap); v[n,k] = g[n] < B && k < lens[g[n]] "                    \
    "&& (!causal || k <= n + lens[g[n]] - cu_q[g[n] + 1]) && (left < 0 || k >= n + "                         \
    "lens[g[n]] - cu_q[g[n] + 1] - left) && (right < 0 || k <= n + lens[g[n]] - "                            \
    "cu_q[g[n] + 1] + right); x[n,h] = max(k: v[n,k]) A[n,h,k]; m[n,h] = x[n,h] == -inf "                    \
    "? 0 : x[n,h]; s[n,h] = sum(k: v[n,k]) exp(A[n,h,k] - m[n,h]); O[n,h,e] = s[n,h] == "                    \
    "0 ? 0 : (sum(k: v[n,k]) cast<T>(exp(A[n,h,k] - m[n,h])) * Vp'[table[g[n],k / Z],k % "                   \
    "Z,h / (H / G),e]) / s[n,h] * sv; l[n,h] = m[n,h] + log(s[n,h]); lse[n,h] = base2 ? "                    \
    "l[n,h] * 1.4426950408889634 : l[n,h] }")                                                                \
  X(fused_linear_cross_entropy, "loss", "N,H,V", FLOATS,                                                     \
    "cross entropy of rows times weights, whose logits are nowhere in memory",                               \
    "fused_linear_cross_entropy(X: T[N,H], W: T[V,H], t: i64[N]) -> (loss: f32[]) "                          \
    "label_smoothing: float = 0.0, ignore_index: int = -100 { L[n,v] = sum(h) X[n,h] * W[v,h]; "             \
    "m[n] = max(v) L[n,v]; z[n] = log(sum(v) exp(L[n,v] - m[n])) + m[n]; x[n] = label_smoothing "            \
    "== 0 ? L[n,t[n]] : (1 - label_smoothing) * L[n,t[n]] + label_smoothing * ((sum(v) L[n,v]) / "           \
    "V); loss = (sum(n: t[n] != ignore_index) (z[n] - x[n])) / sum(n: t[n] != ignore_index) 1 }")            \
  X(fused_linear_cross_entropy_gradients, "loss", "N,H,V", FLOATS,                                           \
    "fused_linear_cross_entropy of logits that are rounded, and its gradients by rows and weights",          \
    "fused_linear_cross_entropy_gradients(X: T[N,H], W: T[V,H], t: i64[N]) -> (loss: f32[], dX: "            \
    "T[N,H], dW: T[V,H]) label_smoothing: float = 0.0, ignore_index: int = -100 { L[n,v] = "                 \
    "cast<T>(sum(h) X[n,h] * W[v,h]); m[n] = max(v) L[n,v]; z[n] = log(sum(v) exp(L[n,v] - m[n])) + "        \
    "m[n]; x[n] = label_smoothing == 0 ? L[n,t[n]] : (1 - label_smoothing) * L[n,t[n]] + "                   \
    "label_smoothing * ((sum(v) L[n,v]) / V); c = sum(n: t[n] != ignore_index) 1; loss = (sum(n: "           \
    "t[n] != ignore_index) (z[n] - x[n])) / c; D[n,v] = cast<T>(t[n] == ignore_index ? 0 : "                 \
    "exp(L[n,v] - z[n]) - (v == t[n] ? 1 - label_smoothing : 0) - label_smoothing / V); dX[n,h] = "          \
    "(sum(v) D[n,v] * W[v,h]) / max(c, 1); dW[v,h] = (sum(n) D[n,v] * X[n,h]) / max(c, 1) }")                \
  X(quantize_per_token, "quantize", "M,N", FLOATS "|i8 e4m3 e5m2",                                           \
    "every row divided by a scale of its own, and the scales",                                               \
    "quantize_per_token(X: T[M,N]) -> (Q: U[M,N], s: f32[M]) { a[i] = max(j) abs(X[i,j]); s[i] = "           \
    "a[i] == 0 ? 1 : a[i] / cast<U>(inf); Q[i,j] = cast<U>(X[i,j] / s[i]) }")                                \
  X(dequantize_per_channel, "quantize", "M,N", "i8 u8 i4|" FLOATS,                                           \
    "distance from the zero point, times the column's scale",                                                \
    "dequantize_per_channel(Q: U[M,N], s: f32[N], z: U[N]) -> (Y: T[M,N]) { Y[i,j] = (Q[i,j] - z[j]) "       \
    "* s[j] }")

#define X(name, family, axes, dtypes, help, text) {#name, text, axes, help, family, dtypes},
static const ir_catalogue_entry ENTRIES[] = {CATALOGUE(X)};
#undef X
#define X(name, family, axes, dtypes, help, text) #name,
static const char *const NAMES[] = {CATALOGUE(X)};
#undef X

int ir_catalogue_count(void) {
  return (int)COUNT_OF(ENTRIES);
}

const ir_catalogue_entry *ir_catalogue_get(int i) {
  return &ENTRIES[i];
}

const ir_catalogue_entry *ir_catalogue_find(const char *name, const char **nearest) {
  if (nearest != NULL) *nearest = NULL;
  for (size_t i = 0; i < COUNT_OF(ENTRIES); i++)
    if (strcmp(ENTRIES[i].name, name) == 0) return &ENTRIES[i];
  if (nearest != NULL) *nearest = text_nearest(name, NAMES, COUNT_OF(NAMES));
  return NULL;
}
