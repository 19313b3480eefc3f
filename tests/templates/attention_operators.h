/* Attention operators as texts, for the tests of its match and templates: everything behind the products.
 *
 * SOFTMAX(row, seen, A, V, e, head): `row` are the indices of a query's row, `seen` the condition of sums
 * over k with its colon (or nothing), A the score, V the read of values of column e. */
#ifndef ARKE_TESTS_ATTENTION_OPERATORS_H
#define ARKE_TESTS_ATTENTION_OPERATORS_H

#define ATTENTION_STATISTICS(row, seen, A)                                                                   \
  "x[" row "] = max(k" seen ") " A "; m[" row "] = x[" row "] == -inf ? 0 : x[" row "]; s[" row              \
  "] = sum(k" seen ") exp(" A " - m[" row "]); "
#define ATTENTION_WEIGHTED(row, seen, A, V)                                                                  \
  "(s[" row "] == 0 ? 0 : (sum(k" seen ") cast<T>(exp(" A " - m[" row "])) * " V ") / s[" row "])"

/* Packed requests, from begins and ends: form 1 and the like. */
#define VARLEN_SEEN ": k >= kb[g[n]] && k < ke[g[n]] && (!causal || k <= n + ke[g[n]] - qe[g[n]])"
static const char op_varlen[] =
    "varlen(Q: T[N,H,D], K: T[M,G,D], V: T[M,G,E], qe: i32[B], kb: i32[B], ke: i32[B]) -> (O: T[N,H,E], lse: "
    "f32[N,H]) scale: float = 0.125, causal: bool = true { g[n] = sum(b: qe[b] <= n) 1; A[n,h,k] = scale * "
    "sum(d) Q[n,h,d] * K[k,h / (H / G),d]; " ATTENTION_STATISTICS(
        "n,h", VARLEN_SEEN,
        "A[n,h,k]") "O[n,h,e] = g[n] < B ? " ATTENTION_WEIGHTED("n,h", VARLEN_SEEN, "A[n,h,k]",
                                                                "V[k,h / (H / G),e]") " : 0; lse[n,h] = g[n] "
                                                                                      "< B ? m[n,h] + "
                                                                                      "log(s[n,h]) : -inf }";

/* Pages of 16 keys, as many as a table and a length say. */
#define PAGED_A    "scale * (sum(d) Q[b,q,h,d] * K[t[b,k / 16],k % 16,h / (H / G),d])"
#define PAGED_SEEN ": k < limit && k < lens[b] && (!causal || k <= q + lens[b] - S)"
static const char op_paged[] =
    "paged(Q: T[B,S,H,D], K: T[P,16,G,D], V: T[P,16,G,E], t: i32[B,W], lens: i32[B]) -> (O: T[B,S,H,E]) "
    "scale: "
    "float = 0.125, causal: bool = true, limit: int = 64 { " ATTENTION_STATISTICS(
        "b,q,h", PAGED_SEEN,
        PAGED_A) "O[b,q,h,e] = " ATTENTION_WEIGHTED("b,q,h", PAGED_SEEN, PAGED_A,
                                                    "V[t[b,k / 16],k % 16,h / (H / G),e]") " }";

/* Multi-latent: two products, the values are the keys of the first. */
static const char op_latent[] =
    "latent(Q: T[B,S,H,C], Qr: T[B,S,H,F], KV: T[B,R,C], Kr: T[B,R,F], lens: i32[B]) -> (O: T[B,S,H,C]) "
    "scale: "
    "float = 0.125 { A[b,q,h,k] = scale * ((sum(c) Q[b,q,h,c] * KV[b,k,c]) + sum(r) Qr[b,q,h,r] * "
    "Kr[b,k,r]); " ATTENTION_STATISTICS(
        "b,q,h", ": k < lens[b] && k <= q + lens[b] - S",
        "A[b,q,h,k]") "O[b,q,h,c] = " ATTENTION_WEIGHTED("b,q,h", ": k < lens[b] && k <= q + lens[b] - S",
                                                         "A[b,q,h,k]", "KV[b,k,c]") " }";

/* Sinks: a score without a value, which every query sees. */
static const char op_sinks[] =
    "sinks(Q: T[B,H,S,D], K: T[B,H,R,D], V: T[B,H,R,D], z: f32[H]) -> (O: T[B,H,S,D], lse: f32[B,H,S]) { "
    "A[b,h,q,k] = 0.125 * sum(d) Q[b,h,q,d] * K[b,h,k,d]; " ATTENTION_STATISTICS(
        "b,h,q", ": k <= q + R - S",
        "A[b,h,q,k]") "y[b,h,q] = max(m[b,h,q], z[h]); u[b,h,q] = s[b,h,q] * exp(m[b,h,q] - y[b,h,q]) + "
                      "exp(z[h] - y[b,h,q]); "
                      "O[b,h,q,d] = (sum(k: k <= q + R - S) cast<T>(exp(A[b,h,q,k] - m[b,h,q])) * "
                      "V[b,h,k,d]) * exp(m[b,h,q] "
                      "- y[b,h,q]) / u[b,h,q]; lse[b,h,q] = y[b,h,q] + log(u[b,h,q]) }";

#endif
