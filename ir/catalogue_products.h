/* The catalogue's products of matrices, and losses of them. catalogue.c alone includes this, and says what
 * the columns are. */
#ifndef ARKE_IR_CATALOGUE_PRODUCTS_H
#define ARKE_IR_CATALOGUE_PRODUCTS_H

#define CATALOGUE_PRODUCTS(X)                                                                                \
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
    "(sum(v) D[n,v] * W[v,h]) / max(c, 1); dW[v,h] = (sum(n) D[n,v] * X[n,h]) / max(c, 1) }")

#endif
