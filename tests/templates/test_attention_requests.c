/* Attention of requests on the emulator against the fp64 reference: packed queries and keys of unlike
 * lengths, lengths from tensors, keys in pages; what lies behind a request's end must not matter. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention_operators.h"
#include "base/random.h"
#include "template_cases.h"
#include "templates/attention.h"

static const kernel_template *attention(void) {
  return template_find("attention");
}

/* --- packed requests --- */

/* Ends of queries; begins and ends of keys: an empty request on either side, and rows past the last one. */
static const double ends_of_queries[] = {70, 71, 71, 90, 150}, begins_of_keys[] = {0, 90, 120, 120, 137},
                    ends_of_keys[] = {90, 120, 120, 137, 200};
static const double offsets_of_queries[] = {0, 70, 71, 71, 90, 150},
                    offsets_of_keys[] = {0, 90, 120, 120, 137, 200};
static const double offsets_of_two[] = {0, 1, 65}, keys_of_one[] = {0, 7, 7};
static const double one_query[] = {0, 1, 1, 2, 3}, few[] = {3, 3, 3, 3, 3};

static const struct {
  const char *op, *bindings, *settings;
  template_input inputs[3];
} packed[] = {
    {op_varlen,
     "T=bf16 N=155 M=200 H=2 G=1 D=64 E=64 B=5",
     "CONSUMERS=1,BLOCK_N=32,STAGES=2,TURNS=0,OVERLAP=1,PERSISTENT=1,CLUSTER=2",
     {{"qe", TEMPLATE_VALUES(ends_of_queries)},
      {"kb", TEMPLATE_VALUES(begins_of_keys)},
      {"ke", TEMPLATE_VALUES(ends_of_keys)}}},
    {"varlen_attention",
     "T=bf16 N=155 M=200 H=1 G=1 D=64 E=64 B=5 causal=true left=40 softcap=3.0",
     "CONSUMERS=1,BLOCK_N=32,STAGES=2,TURNS=0,OVERLAP=1",
     {{"cu_q", TEMPLATE_VALUES(offsets_of_queries)}, {"cu_k", TEMPLATE_VALUES(offsets_of_keys)}}},
    {op_varlen,
     "T=bf16 N=155 M=200 H=2 G=1 D=64 E=64 B=5",
     "CONSUMERS=1,BLOCK_N=32,STAGES=2,TURNS=0,OVERLAP=1,PERSISTENT=1,PACK=2,CTAS=3",
     {{"qe", TEMPLATE_VALUES(ends_of_queries)},
      {"kb", TEMPLATE_VALUES(begins_of_keys)},
      {"ke", TEMPLATE_VALUES(ends_of_keys)}}},
    {op_varlen,
     "T=bf16 N=155 M=200 H=8 G=1 D=64 E=64 B=5",
     "CONSUMERS=2,BLOCK_N=32,STAGES=2,TURNS=1,OVERLAP=1,PERSISTENT=1,PACK=8",
     {{"qe", TEMPLATE_VALUES(ends_of_queries)},
      {"kb", TEMPLATE_VALUES(begins_of_keys)},
      {"ke", TEMPLATE_VALUES(ends_of_keys)}}},
    {op_varlen,
     "T=bf16 N=150 M=200 H=2 G=1 D=64 E=64 B=5",
     "CONSUMERS=1,BLOCK_N=64,STAGES=2,TURNS=0,OVERLAP=1",
     {{"qe", TEMPLATE_VALUES(ends_of_queries)},
      {"kb", TEMPLATE_VALUES(begins_of_keys)},
      {"ke", TEMPLATE_VALUES(ends_of_keys)}}},
    {op_varlen,
     "T=f16 N=155 M=210 H=1 G=1 D=64 E=128 B=5",
     "CONSUMERS=2,BLOCK_N=64,STAGES=2,TURNS=1,OVERLAP=2,PERSISTENT=1,GROUP=2",
     {{"qe", TEMPLATE_VALUES(ends_of_queries)},
      {"kb", TEMPLATE_VALUES(begins_of_keys)},
      {"ke", TEMPLATE_VALUES(ends_of_keys)}}},
    {op_varlen,
     "T=bf16 N=3 M=200 H=1 G=1 D=64 E=64 B=5",
     "CONSUMERS=1,BLOCK_N=32,STAGES=1,TURNS=0,OVERLAP=0,HOLD_Q=1",
     {{"qe", TEMPLATE_VALUES(one_query)},
      {"kb", TEMPLATE_VALUES(begins_of_keys)},
      {"ke", TEMPLATE_VALUES(ends_of_keys)}}},
    {op_varlen,
     "T=bf16 N=90 M=140 H=1 G=1 D=512 E=512 B=4",
     "CONSUMERS=2,BLOCK_N=32,STAGES=1,TURNS=1,OVERLAP=0,PERSISTENT=1",
     {{"qe", TEMPLATE_VALUES(ends_of_queries)},
      {"kb", TEMPLATE_VALUES(begins_of_keys)},
      {"ke", TEMPLATE_VALUES(ends_of_keys)}}},
    {op_varlen,
     "T=bf16 N=40 M=200 H=1 G=1 D=64 E=32 B=5",
     "CONSUMERS=1,BLOCK_N=32,STAGES=2,TURNS=0,OVERLAP=0",
     {{"qe", TEMPLATE_VALUES(few)},
      {"kb", TEMPLATE_VALUES(begins_of_keys)},
      {"ke", TEMPLATE_VALUES(ends_of_keys)}}},
    {"varlen_attention", /* a CTA whose only tile sees no key */
     "T=bf16 N=65 M=7 H=3 G=1 D=80 E=192 B=2 left=16",
     "CONSUMERS=1,BLOCK_N=48,STAGES=2,TURNS=0,OVERLAP=1,HOLD_Q=1,PERSISTENT=0",
     {{"cu_q", TEMPLATE_VALUES(offsets_of_two)}, {"cu_k", TEMPLATE_VALUES(keys_of_one)}}},
};

START_TEST(packed_requests_are_right) {
  arena a = ARENA_INIT;
  run_view views[LIMIT_TENSORS] = {{0}};
  template_case c = template_case_bind(&a, attention(), template_text_of(packed[_i].op), packed[_i].bindings,
                                       packed[_i].settings);
  template_fill_views(&c.p, packed[_i].inputs, 3, views);
  template_case_run(&a, &c, views, 0);
  arena_release(&a);
}
END_TEST

/* Tiles are taken the longest first, whosever they are: more requests than are looked at together, of no rows
 * and of several tiles, whose keys bounds cut on either side. */
START_TEST(tiles_by_length_are_right) {
  static const char *const bounds[] = {"causal=true", "causal=true left=20", "left=9 right=30"};
  enum { REQUESTS = 70 };
  double queries[REQUESTS + 1] = {0}, keys[REQUESTS + 1] = {0};
  char bindings[200];
  for (int i = 0; i < REQUESTS; i++) {
    bool is_long = i % 23 == 11;
    queries[i + 1] = queries[i] + (double)(random_u64(1, (uint64_t)i) % (is_long ? 90 : 4));
    keys[i + 1] = keys[i] + (double)(random_u64(2, (uint64_t)i) % (is_long ? 120 : 9));
  }
  arena a = ARENA_INIT;
  run_view views[LIMIT_TENSORS] = {{0}};
  snprintf(bindings, sizeof bindings, "T=bf16 N=%d M=%d H=2 G=1 D=64 E=64 B=%d %s",
           (int)queries[REQUESTS] + 5, (int)keys[REQUESTS] + 3, REQUESTS, bounds[_i]);
  template_case c =
      template_case_bind(&a, attention(), template_text_of("varlen_attention"), bindings,
                         "CONSUMERS=1,BLOCK_N=32,STAGES=2,TURNS=0,OVERLAP=1,PERSISTENT=1,PACK=2,CTAS=3");
  const template_input inputs[] = {{"cu_q", TEMPLATE_VALUES(queries)}, {"cu_k", TEMPLATE_VALUES(keys)}};
  template_fill_views(&c.p, inputs, 2, views);
  template_case_run(&a, &c, views, 0);
  arena_release(&a);
}
END_TEST

/* --- computed queries --- */

#define TURNED(VALUE)                                                                                        \
  "turned(Q: T[N,H,4*F], K: T[M,G,4*F], V: T[M,G,E], cu_q: i32[B+1], cu_k: i32[B+1], cosines: T[R,F], "      \
  "sines: T[R,F]) -> (O: T[N,H,E], lse: f32[N,H]) { g[n] = sum(b: cu_q[b + 1] <= n) 1; "                     \
  "a[n] = min(max(n + cu_k[g[n] + 1] - cu_k[g[n]] - cu_q[g[n] + 1], 0), R - 1); "                            \
  "Y[n,h,d] = cast<T>(" VALUE "); A[n,h,k] = 0.2 * sum(d) Y[n,h,d] * K[k,h / (H / G),d]; "                   \
  "v[n,k] = g[n] < B && k >= cu_k[g[n]] && k < cu_k[g[n] + 1] && k <= n + cu_k[g[n] + 1] - cu_q[g[n] + 1]; " \
  "x[n,h] = max(k: v[n,k]) A[n,h,k]; m[n,h] = x[n,h] == -inf ? 0 : x[n,h]; "                                 \
  "s[n,h] = sum(k: v[n,k]) exp(A[n,h,k] - m[n,h]); O[n,h,e] = s[n,h] == 0 ? 0 : (sum(k: v[n,k]) "            \
  "cast<T>(exp(A[n,h,k] - m[n,h])) * V[k,h / (H / G),e]) / s[n,h]; lse[n,h] = m[n,h] + log(s[n,h]) }"

static const char halves[] = TURNED(
    "g[n] == B || d >= 2 * F ? Q[n,h,d] : d < F ? Q[n,h,d] * cosines[a[n],d + 0] - Q[n,h,d + F] else 0 "
    "* sines[a[n],d + 0] : Q[n,h,d] * cosines[a[n],d - F] + Q[n,h,d - F] else 0 * sines[a[n],d - F]");
static const char neighbours[] = TURNED(
    "g[n] == B || d >= 2 * F ? Q[n,h,d] : d % 2 == 0 ? Q[n,h,d] * cosines[a[n],d / 2] - Q[n,h,d + 1] * "
    "sines[a[n],d / 2] : Q[n,h,d] * cosines[a[n],d / 2] + Q[n,h,d - 1] * sines[a[n],d / 2]");

static const struct {
  const char *op, *bindings, *settings;
} computed[] = {
    {halves, "T=bf16 N=155 M=200 H=4 G=1 F=16 E=64 B=5 R=50",
     "CONSUMERS=1,BLOCK_N=32,STAGES=2,TURNS=0,OVERLAP=1,PERSISTENT=1,PACK=4"},
    {halves, "T=f16 N=155 M=200 H=1 G=1 F=8 E=64 B=5 R=99",
     "CONSUMERS=2,BLOCK_N=64,STAGES=2,TURNS=1,OVERLAP=2,HOLD_Q=1,PERSISTENT=1"},
    {neighbours, "T=bf16 N=155 M=200 H=3 G=1 F=16 E=32 B=5 R=50",
     "CONSUMERS=1,BLOCK_N=32,STAGES=2,TURNS=0,OVERLAP=1,PERSISTENT=1,PACK=2,CTAS=3"},
    {neighbours, "T=f16 N=155 M=200 H=2 G=1 F=24 E=128 B=5 R=99",
     "CONSUMERS=1,BLOCK_N=32,STAGES=1,TURNS=0,OVERLAP=0,CLUSTER=2"},
};

START_TEST(computed_queries_are_right) {
  arena a = ARENA_INIT;
  run_view views[LIMIT_TENSORS] = {{0}};
  template_case c =
      template_case_bind(&a, attention(), computed[_i].op, computed[_i].bindings, computed[_i].settings);
  const template_input inputs[] = {{"cu_q", TEMPLATE_VALUES(offsets_of_queries)},
                                   {"cu_k", TEMPLATE_VALUES(offsets_of_keys)}};
  template_fill_views(&c.p, inputs, 2, views);
  template_case_run(&a, &c, views, 0);
  arena_release(&a);
}
END_TEST

/* --- lengths and pages --- */

/* A table whose pages come in any order, one of them twice; behind a request's length it names nothing. */
static const double table[] = {3, 0, 5, 1, 6, 2, 999, 999, 4, -7, 999, 999}, lengths[] = {58, 17, 0},
                    causal_lengths[] = {64, 20, 11}, long_lengths[] = {203};

static const char lens[] =
    "f(Q: T[B,H,S,D], K: T[B,G,R,D], V: T[B,G,R,E], lens: i32[B]) -> (O: T[B,H,S,E]) { A[b,h,q,k] = 0.125 * "
    "sum(d) Q[b,h,q,d] * K[b,h / (H / G),k,d]; " ATTENTION_STATISTICS(
        "b,h,q", ": k < lens[b] && k <= q + lens[b] - S",
        "A[b,h,q,k]") "O[b,h,q,e] = " ATTENTION_WEIGHTED("b,h,q", ": k < lens[b] && k <= q + lens[b] - S",
                                                         "A[b,h,q,k]", "V[b,h / (H / G),k,e]") " }";

/* Multi-latent, the rotated part first. */
static const char op_latent_swapped[] =
    "latent(Q: T[B,S,H,C], Qr: T[B,S,H,F], KV: T[B,R,C], Kr: T[B,R,F], lens: i32[B]) -> (O: T[B,S,H,C]) { "
    "A[b,q,h,k] = 0.125 * ((sum(r) Qr[b,q,h,r] * Kr[b,k,r]) + sum(c) Q[b,q,h,c] * "
    "KV[b,k,c]); " ATTENTION_STATISTICS(
        "b,q,h", ": k < lens[b] && k <= q + lens[b] - S",
        "A[b,q,h,k]") "O[b,q,h,c] = " ATTENTION_WEIGHTED("b,q,h", ": k < lens[b] && k <= q + lens[b] - S",
                                                         "A[b,q,h,k]", "KV[b,k,c]") " }";

/* Queries of three requests, the last keys of which are theirs. */
static const double pieces[] = {0, 20, 20, 31}, piece_lengths[] = {58, 0, 15};

static const struct {
  const char *op, *bindings, *settings;
  template_input inputs[3];
} paged[] = {
    {"paged_attention",
     "T=bf16 B=3 S=2 H=4 G=2 D=64 E=64 P=7 Z=16 W=4 causal=true left=19",
     "CONSUMERS=1,BLOCK_N=32,STAGES=2,TURNS=0,OVERLAP=1,PACK=2",
     {{"lens", TEMPLATE_VALUES(causal_lengths)}, {"table", TEMPLATE_VALUES(table)}}},
    {"paged_varlen_attention",
     "T=bf16 N=40 B=3 H=4 G=2 D=64 E=64 P=7 Z=16 W=4 causal=true left=30",
     "CONSUMERS=2,BLOCK_N=48,STAGES=2,TURNS=1,OVERLAP=1,PERSISTENT=1,PACK=2",
     {{"cu_q", TEMPLATE_VALUES(pieces)},
      {"lens", TEMPLATE_VALUES(piece_lengths)},
      {"table", TEMPLATE_VALUES(table)}}},
    {"paged_varlen_attention",
     "T=f16 N=31 B=3 H=2 G=2 D=128 E=64 P=7 Z=24 W=4 causal=true",
     "CONSUMERS=1,BLOCK_N=32,STAGES=1,TURNS=0,OVERLAP=0", /* four copies a step */
     {{"cu_q", TEMPLATE_VALUES(pieces)},
      {"lens", TEMPLATE_VALUES(piece_lengths)},
      {"table", TEMPLATE_VALUES(table)}}},
    {"paged_varlen_attention",
     "T=f16 N=31 B=3 H=2 G=2 D=64 E=64 P=7 Z=64 W=4 causal=true left=30",
     "CONSUMERS=1,BLOCK_N=32,STAGES=1,TURNS=0,OVERLAP=0", /* a page is of two steps */
     {{"cu_q", TEMPLATE_VALUES(pieces)},
      {"lens", TEMPLATE_VALUES(piece_lengths)},
      {"table", TEMPLATE_VALUES(table)}}},
    {lens,
     "T=bf16 B=3 H=2 G=1 S=70 R=70 D=64 E=64",
     "CONSUMERS=1,BLOCK_N=32,STAGES=2,TURNS=0,OVERLAP=1",
     {{"lens", TEMPLATE_VALUES(lengths)}}},
    /* Values that are keys, which CTAs share: in CLUSTER=2 of heads, in pages. */
    {"multi_latent_attention",
     "T=bf16 B=3 S=2 H=20 R=70 C=512 E=64 causal=true",
     "CONSUMERS=2,BLOCK_N=32,STAGES=2,TURNS=1,OVERLAP=1,PACK=8,CLUSTER=2",
     {{"lens", TEMPLATE_VALUES(causal_lengths)}}},
    {"multi_latent_attention",
     "T=f16 B=2 S=1 H=40 R=90 C=128 E=24",
     "CONSUMERS=1,BLOCK_N=32,STAGES=3,TURNS=0,OVERLAP=0,SPLIT=2",
     {{"lens", TEMPLATE_VALUES(lengths)}}},
    {"paged_latent_attention",
     "T=bf16 B=2 S=1 H=9 C=384 E=64 P=7 Z=16 W=4",
     "CONSUMERS=2,BLOCK_N=32,STAGES=2,TURNS=0,OVERLAP=0,SPLIT=2",
     {{"lens", TEMPLATE_VALUES(lengths)}, {"table", TEMPLATE_VALUES(table)}}},
    {"multi_latent_attention", /* groups that exchange weights */
     "T=bf16 B=3 S=2 H=20 R=70 C=512 E=64 causal=true",
     "CONSUMERS=2,BLOCK_N=32,STAGES=2,TURNS=0,OVERLAP=3,PACK=8,CLUSTER=2",
     {{"lens", TEMPLATE_VALUES(causal_lengths)}}},
    {"paged_latent_attention",
     "T=f16 B=2 S=1 H=9 C=512 E=64 P=7 Z=16 W=4",
     "CONSUMERS=2,BLOCK_N=64,STAGES=2,TURNS=0,OVERLAP=3,SPLIT=2",
     {{"lens", TEMPLATE_VALUES(lengths)}, {"table", TEMPLATE_VALUES(table)}}},
    {"multi_latent_attention", /* by a cluster */
     "T=bf16 B=1 S=2 H=20 R=230 C=512 E=64 causal=true",
     "CONSUMERS=2,BLOCK_N=32,STAGES=2,TURNS=0,OVERLAP=3,PACK=32,MERGE=2,SPLIT=2",
     {{"lens", TEMPLATE_VALUES(long_lengths)}}},
    {"paged_latent_attention", /* whose last CTAs have nothing to do */
     "T=f16 B=3 S=1 H=9 C=512 E=64 P=7 Z=16 W=4",
     "CONSUMERS=2,BLOCK_N=32,STAGES=2,TURNS=0,OVERLAP=3,MERGE=4",
     {{"lens", TEMPLATE_VALUES(lengths)}, {"table", TEMPLATE_VALUES(table)}}},
    {op_latent_swapped,
     "T=bf16 B=3 S=3 H=5 R=70 C=64 F=48",
     "CONSUMERS=2,BLOCK_N=48,STAGES=2,TURNS=1,OVERLAP=2,PACK=4,PERSISTENT=1",
     {{"lens", TEMPLATE_VALUES(causal_lengths)}}},
    {op_paged,
     "T=bf16 B=3 H=2 G=1 S=5 D=64 E=64 P=7 W=4 causal=false",
     "CONSUMERS=1,BLOCK_N=32,STAGES=2,TURNS=0,OVERLAP=1",
     {{"lens", TEMPLATE_VALUES(lengths)}, {"t", TEMPLATE_VALUES(table)}}},
    {op_paged,
     "T=f16 B=3 H=4 G=2 S=11 D=128 E=64 P=7 W=4",
     "CONSUMERS=2,BLOCK_N=64,STAGES=2,TURNS=1,OVERLAP=1,PERSISTENT=1",
     {{"lens", TEMPLATE_VALUES(causal_lengths)}, {"t", TEMPLATE_VALUES(table)}}},
};

START_TEST(lengths_and_pages_are_right) {
  arena a = ARENA_INIT;
  run_view views[LIMIT_TENSORS] = {{0}};
  template_case c = template_case_bind(&a, attention(), template_text_of(paged[_i].op), paged[_i].bindings,
                                       paged[_i].settings);
  template_fill_views(&c.p, paged[_i].inputs, 3, views);
  template_case_run(&a, &c, views, 0);
  arena_release(&a);
}
END_TEST

/* Rows of K and V that no request has are NaN: 0 times NaN is NaN, so weights of 0 do not hide them. */
START_TEST(keys_of_nobody_do_not_matter) {
  static const double begins[] = {0, 100, 120, 120, 137}, ends[] = {83, 111, 120, 130, 171};
  static double rows[200 * 64];
  arena a = ARENA_INIT;
  run_view views[LIMIT_TENSORS] = {{0}};
  template_case c =
      template_case_bind(&a, attention(), op_varlen, "T=bf16 N=150 M=200 H=2 G=1 D=64 E=64 B=5 causal=false",
                         _i ? "CONSUMERS=2,BLOCK_N=64,STAGES=2,TURNS=1,OVERLAP=1"
                            : "CONSUMERS=1,BLOCK_N=48,STAGES=1,TURNS=0,OVERLAP=0");
  for (int row = 0; row < 200; row++) {
    bool known = false;
    for (size_t r = 0; r < COUNT_OF(ends); r++) known = known || (row >= begins[r] && row < ends[r]);
    for (int i = 0; i < 64; i++)
      rows[row * 64 + i] = known ? random_normal(5, (uint64_t)(row * 64 + i)) : NAN;
  }
  template_fill_views(&c.p,
                      (const template_input[]){{"qe", TEMPLATE_VALUES(ends_of_queries)},
                                               {"kb", TEMPLATE_VALUES(begins)},
                                               {"ke", TEMPLATE_VALUES(ends)},
                                               {"K", TEMPLATE_VALUES(rows)},
                                               {"V", TEMPLATE_VALUES(rows)}},
                      5, views);
  template_case_run(&a, &c, views, 0);
  arena_release(&a);
}
END_TEST

/* The same of pages that no request has, and of the rest of a request's last page. */
START_TEST(pages_of_nobody_do_not_matter) {
  static double rows[7 * 16 * 64];
  arena a = ARENA_INIT;
  run_view views[LIMIT_TENSORS] = {{0}};
  template_case c =
      template_case_bind(&a, attention(), op_paged, "T=bf16 B=3 H=2 G=1 S=5 D=64 E=64 P=7 W=4 causal=false",
                         "CONSUMERS=2,BLOCK_N=64,STAGES=2,TURNS=1,OVERLAP=1");
  for (int i = 0; i < 7 * 16 * 64; i++) rows[i] = NAN;
  for (int b = 0; b < 3; b++)
    for (int k = 0; k < lengths[b]; k++)
      for (int d = 0; d < 64; d++)
        rows[((int)table[b * 4 + k / 16] * 16 + k % 16) * 64 + d] = random_normal(7, (uint64_t)(k * 64 + d));
  template_fill_views(&c.p,
                      (const template_input[]){{"lens", TEMPLATE_VALUES(lengths)},
                                               {"t", TEMPLATE_VALUES(table)},
                                               {"K", TEMPLATE_VALUES(rows)},
                                               {"V", TEMPLATE_VALUES(rows)}},
                      4, views);
  template_case_run(&a, &c, views, 0);
  arena_release(&a);
}
END_TEST

/* The same of latent keys, which another group still multiplies when their rows are cleared. */
START_TEST(latent_keys_of_nobody_do_not_matter) {
  static const char *const ways[] = {"CONSUMERS=2,BLOCK_N=32,STAGES=2,TURNS=0,OVERLAP=0,SPLIT=2",
                                     "CONSUMERS=2,BLOCK_N=64,STAGES=2,TURNS=1,OVERLAP=1",
                                     "CONSUMERS=2,BLOCK_N=32,STAGES=2,TURNS=0,OVERLAP=3"};
  static double rows[3 * 70 * 512];
  arena a = ARENA_INIT;
  run_view views[LIMIT_TENSORS] = {{0}};
  template_case c = template_case_bind(
      &a, attention(), template_text_of("multi_latent_attention"),
      _i ? "T=bf16 B=3 S=1 H=3 R=70 C=512 E=64" : "T=bf16 B=2 S=1 H=3 R=70 C=512 E=64", ways[_i]);
  for (int b = 0; b < 3; b++)
    for (int i = 0; i < 70 * 512; i++)
      rows[b * 70 * 512 + i] = i / 512 < lengths[b] ? random_normal(9, (uint64_t)i) : NAN;
  template_fill_views(
      &c.p, (const template_input[]){{"lens", TEMPLATE_VALUES(lengths)}, {"KV", TEMPLATE_VALUES(rows)}}, 2,
      views);
  template_case_run(&a, &c, views, 0);
  arena_release(&a);
}
END_TEST

/* --- heads side by side --- */

/* A slope by head, whose score differs from row to row of a tile; all heads have one head of keys. */
static const char sloped[] =
    "f(Q: T[B,S,H,D], K: T[B,R,D], V: T[B,R,D], z: f32[H]) -> (O: T[B,S,H,D], lse: f32[B,S,H]) { A[b,q,h,k] "
    "= "
    "(0.125 * sum(d) Q[b,q,h,d] * K[b,k,d]) + z[h] * (k - q); " ATTENTION_STATISTICS(
        "b,q,h", ": k <= q + R - S && k >= q + R - S - 20",
        "A[b,q,h,k]") "O[b,q,h,d] = " ATTENTION_WEIGHTED("b,q,h", ": k <= q + R - S && k >= q + R - S - 20",
                                                         "A[b,q,h,k]", "V[b,k,d]") "; lse[b,q,h] = m[b,q,h] "
                                                                                   "+ log(s[b,q,h]) }";

static const struct {
  const char *op, *bindings, *settings;
} packs[] = {
    {"grouped_query_attention", "T=bf16 B=1 H=8 G=2 S=70 R=90 D=64 causal=true",
     "CONSUMERS=1,BLOCK_N=32,STAGES=2,TURNS=0,OVERLAP=1,CLUSTER=2,PERSISTENT=1"},
    {"grouped_query_attention", "T=f16 B=1 H=6 G=2 S=40 R=70 D=64 causal=true left=20",
     "CONSUMERS=1,BLOCK_N=48,STAGES=2,TURNS=0,OVERLAP=1,CLUSTER=2,PACK=1"}, /* a CTA has nothing to do */
    {"grouped_query_attention", "T=bf16 B=1 H=8 G=2 S=21 R=50 D=64 causal=true",
     "CONSUMERS=1,BLOCK_N=32,STAGES=2,TURNS=0,OVERLAP=1,PACK=4"},
    {"grouped_query_attention", "T=f16 B=1 H=6 G=2 S=20 R=70 D=64 causal=true left=30",
     "CONSUMERS=2,BLOCK_N=32,STAGES=2,TURNS=1,OVERLAP=1,PACK=4,PERSISTENT=1"}, /* one head is left over */
    {"grouped_query_attention", "T=bf16 B=1 H=15 G=1 S=9 R=33 D=128",
     "CONSUMERS=2,BLOCK_N=32,STAGES=2,TURNS=1,OVERLAP=1,PACK=16,HOLD_Q=1"},
    {sloped, "T=bf16 B=2 H=5 S=30 R=60 D=64", "CONSUMERS=1,BLOCK_N=32,STAGES=1,TURNS=0,OVERLAP=0,PACK=4"},
};

START_TEST(packs_of_heads_are_right) {
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, attention(), template_text_of(packs[_i].op), packs[_i].bindings,
                                       packs[_i].settings);
  template_case_run(&a, &c, NULL, 0);
  arena_release(&a);
}
END_TEST

START_TEST(small_pages_are_right) {
  static const double offsets[] = {0, 30, 30, 75}, few_lengths[] = {100, 0, 41};
  arena a = ARENA_INIT;
  run_view views[LIMIT_TENSORS] = {{0}};
  template_case c =
      template_case_bind(&a, attention(), template_text_of("paged_varlen_attention"),
                         "T=bf16 N=4096 B=16 H=8 G=2 D=64 E=64 P=8192 Z=32 W=128 causal=true",
                         "CONSUMERS=1,BLOCK_N=32,STAGES=2,TURNS=0,OVERLAP=1,GROUP=0,PERSISTENT=0");
  attention()->reduced_problem(&c.p, c.t, &c.c, 2, &c.p);
  ck_assert_int_lt(ir_tensor_elements(&c.p, 1), 1 << 20);
  ck_assert_int_eq(template_feasible(attention(), &c.p, c.t, &c.c), TEMPLATE_OK);
  template_fill_views(
      &c.p,
      (const template_input[]){{"cu_q", TEMPLATE_VALUES(offsets)}, {"lens", TEMPLATE_VALUES(few_lengths)}}, 2,
      views);
  views[3].below = 5;
  template_case_run(&a, &c, views, 0);
  arena_release(&a);
}
END_TEST

START_TEST(small_problem_is_right) {
  arena a = ARENA_INIT;
  template_case c =
      template_case_bind(&a, attention(), template_text_of("grouped_query_attention"),
                         "T=bf16 B=4 H=8 G=4 S=64 R=4096 D=64 causal=true",
                         "CONSUMERS=2,BLOCK_N=64,STAGES=2,TURNS=1,OVERLAP=1,GROUP=4,PERSISTENT=0,PACK=2");
  template_case_run_reduced(&a, &c);
  arena_release(&a);
}
END_TEST

static const struct {
  const char *op, *bindings, *settings;
} large[] = {
    {op_varlen, "T=bf16 N=8192 M=8192 H=64 G=8 D=128 E=128 B=4",
     "CONSUMERS=2,BLOCK_N=128,STAGES=2,TURNS=1,OVERLAP=1,PERSISTENT=1"},
    {op_paged, "T=bf16 B=4 S=512 H=32 G=8 D=128 E=128 P=256 W=64",
     "CONSUMERS=2,BLOCK_N=128,STAGES=2,TURNS=1,OVERLAP=1,PERSISTENT=1"},
    {"multi_latent_attention", "T=bf16 B=6 S=1 H=64 R=4096 C=512 E=64",
     "CONSUMERS=2,BLOCK_N=64,STAGES=2,TURNS=0,OVERLAP=3,MERGE=4,SPLIT=1"},
};

START_TEST(large_tiles_do_not_spill) {
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, attention(), template_text_of(large[_i].op), large[_i].bindings,
                                       large[_i].settings);
  template_case_assemble(&a, &c);
  arena_release(&a);
}
END_TEST

static TCase *new_case(Suite *suite, const char *name) {
  TCase *tests = tcase_create(name);
  tcase_set_timeout(tests, 120);
  suite_add_tcase(suite, tests);
  return tests;
}

int main(void) {
  Suite *suite = suite_create("attention_requests");
  TCase *tests = new_case(suite, "packed");
  tcase_add_loop_test(tests, packed_requests_are_right, 0, (int)COUNT_OF(packed));
  tcase_add_loop_test(tests, tiles_by_length_are_right, 0, 3);
  tcase_add_loop_test(tests, computed_queries_are_right, 0, (int)COUNT_OF(computed));
  tests = new_case(suite, "paged");
  tcase_add_loop_test(tests, lengths_and_pages_are_right, 0, (int)COUNT_OF(paged));
  tests = new_case(suite, "nobody");
  tcase_add_loop_test(tests, keys_of_nobody_do_not_matter, 0, 2);
  tcase_add_loop_test(tests, latent_keys_of_nobody_do_not_matter, 0, 3);
  tcase_add_test(tests, pages_of_nobody_do_not_matter);
  tests = new_case(suite, "packs");
  tcase_add_loop_test(tests, packs_of_heads_are_right, 0, (int)COUNT_OF(packs));
  tests = new_case(suite, "sizes");
  tcase_add_test(tests, small_problem_is_right);
  tcase_add_test(tests, small_pages_are_right);
  tcase_add_loop_test(tests, large_tiles_do_not_spill, 0, (int)COUNT_OF(large));
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_ENV);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
