/* The catalogue's operators that place elements elsewhere: transposes, gathers, scatters, caches in pages.
 * catalogue.c alone includes this, and says what the columns are. */
#ifndef ARKE_IR_CATALOGUE_MOVEMENT_H
#define ARKE_IR_CATALOGUE_MOVEMENT_H

#define CATALOGUE_MOVEMENT(X)                                                                                \
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
    "* scale : 0 }")

#endif
