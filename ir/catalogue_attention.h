/* The catalogue's attention: of whole, packed and paged sequences, and its gradients.
 * catalogue.c alone includes this, and says what the columns are. */
#ifndef ARKE_IR_CATALOGUE_ATTENTION_H
#define ARKE_IR_CATALOGUE_ATTENTION_H

#define CATALOGUE_ATTENTION(X)                                                                               \
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
    "l[n,h] * 1.4426950408889634 : l[n,h] }")

#endif
