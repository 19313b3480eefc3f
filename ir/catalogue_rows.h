/* The catalogue's operators that reduce, scan or order rows: norms, softmax, reductions, top k, losses of
 * logits, quantising with a scale for each row. catalogue.c alone includes this, and says what the columns
 * are. */
#ifndef ARKE_IR_CATALOGUE_ROWS_H
#define ARKE_IR_CATALOGUE_ROWS_H

#define CATALOGUE_ROWS(X)                                                                                    \
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
  X(cross_entropy, "loss", "N,V", FLOATS, "mean cross entropy of rows of logits, those ignored left out",    \
    "cross_entropy(L: T[N,V], t: i64[N]) -> (loss: f32[]) label_smoothing: float = 0.0, "                    \
    "ignore_index: int = -100 { m[n] = max(v) L[n,v]; z[n] = log(sum(v) exp(L[n,v] - m[n])) + m[n]; "        \
    "x[n] = label_smoothing == 0 ? L[n,t[n]] : (1 - label_smoothing) * L[n,t[n]] + label_smoothing * "       \
    "((sum(v) L[n,v]) / V); loss = (sum(n: t[n] != ignore_index) (z[n] - x[n])) / sum(n: t[n] != "           \
    "ignore_index) 1 }")                                                                                     \
  X(quantize_per_token, "quantize", "M,N", FLOATS "|i8 e4m3 e5m2",                                           \
    "every row divided by a scale of its own, and the scales",                                               \
    "quantize_per_token(X: T[M,N]) -> (Q: U[M,N], s: f32[M]) { a[i] = max(j) abs(X[i,j]); s[i] = "           \
    "a[i] == 0 ? 1 : a[i] / cast<U>(inf); Q[i,j] = cast<U>(X[i,j] / s[i]) }")

#endif
