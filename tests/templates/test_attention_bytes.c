/* Attention of 8-bit floats on the emulator against the fp64 reference: products of those, scales of either
 * sign, values that are converted beside the producer, in every schedule. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/random.h"
#include "template_cases.h"
#include "templates/attention.h"

static const kernel_template *attention(void) {
  return template_find("attention");
}

static const char dense[] = "grouped_query_fp8_attention", packed[] = "varlen_fp8_attention";

/* Queries, keys and values of types of their own, keys in pages, a scale for each query. */
static const char paged[] =
    "f(Q: U[B,S,H,D], K: X[P,Z,G,D], V: Y[P,Z,G,E], sq: f32[B,S,H], t: i32[B,W], n: i32[B]) -> (O: "
    "f32[B,S,H,E], lse: f32[B,S,H]) { A[b,q,h,k] = 0.1 * (sum(d) Q[b,q,h,d] * K[t[b,k / Z],k % Z,h / (H / "
    "G),d]) * sq[b,q,h]; x[b,q,h] = max(k: k < n[b] && k <= q + n[b] - S) A[b,q,h,k]; m[b,q,h] = x[b,q,h] == "
    "-inf ? 0 : x[b,q,h]; s[b,q,h] = sum(k: k < n[b] && k <= q + n[b] - S) exp(A[b,q,h,k] - m[b,q,h]); "
    "O[b,q,h,e] = s[b,q,h] == 0 ? 0 : (sum(k: k < n[b] && k <= q + n[b] - S) cast<f16>(exp(A[b,q,h,k] - "
    "m[b,q,h])) * V[t[b,k / Z],k % Z,h / (H / G),e]) / s[b,q,h]; lse[b,q,h] = m[b,q,h] + log(s[b,q,h]) }";

/* Both products of 8-bit floats, no factor but a number. */
static const char two_products[] =
    "f(Q: U[B,H,S,D], K: U[B,H,R,D], Qr: U[B,S,H,F], Kr: U[B,R,F], V: U[B,H,R,E]) -> (O: T[B,H,S,E]) { "
    "A[b,h,q,k] = 0.1 * ((sum(d) Q[b,h,q,d] * K[b,h,k,d]) + sum(d) Qr[b,q,h,d] * Kr[b,k,d]); m[b,h,q] = "
    "max(k) A[b,h,q,k]; s[b,h,q] = sum(k) exp2(A[b,h,q,k] - m[b,h,q]); O[b,h,q,e] = (sum(k) "
    "cast<f16>(exp2(A[b,h,q,k] - m[b,h,q])) * V[b,h,k,e]) / s[b,h,q] }";

/* Keys and values of 8 bits alone; and latent ones, which are both. */
static const char cached[] =
    "f(Q: T[B,S,H,D], K: U[B,R,G,D], V: U[B,R,G,E], sk: f32[], sv: f32[]) -> (O: T[B,S,H,E], lse: "
    "f32[B,S,H]) "
    "{ A[b,q,h,k] = 0.1 * sk * sum(d) Q[b,q,h,d] * K[b,k,h / (H / G),d]; m[b,q,h] = max(k: k <= q + R - S) "
    "A[b,q,h,k]; s[b,q,h] = sum(k: k <= q + R - S) exp(A[b,q,h,k] - m[b,q,h]); O[b,q,h,e] = sv * (sum(k: k "
    "<= "
    "q + R - S) cast<T>(exp(A[b,q,h,k] - m[b,q,h])) * V[b,k,h / (H / G),e]) / s[b,q,h]; lse[b,q,h] = "
    "m[b,q,h] "
    "+ log(s[b,q,h]) }";
static const char latent[] = "f(Q: T[B,H,C], Qr: T[B,H,F], KV: U[B,R,C], Kr: U[B,R,F], lens: i32[B]) -> (O: "
                             "T[B,H,C]) { A[b,h,k] = 0.1 "
                             "* ((sum(c) Q[b,h,c] * KV[b,k,c]) + sum(f) Qr[b,h,f] * Kr[b,k,f]); m[b,h] = "
                             "max(k: k < lens[b]) A[b,h,k]; "
                             "s[b,h] = sum(k: k < lens[b]) exp(A[b,h,k] - m[b,h]); O[b,h,c] = (sum(k: k < "
                             "lens[b]) cast<T>(exp(A[b,h,k] "
                             "- m[b,h])) * KV[b,k,c]) / s[b,h] }";

/* --- what it computes --- */

static const template_class cases[] = {
    {dense, "T=bf16 U=e4m3 B=1 H=2 G=1 S=70 R=200 D=64 E=64",
     "CONSUMERS=1,BLOCK_N=64,STAGES=2,TURNS=0,OVERLAP=1"},
    {dense, "T=f16 U=e4m3 B=1 H=2 G=2 S=150 R=260 D=128 E=128 causal=true",
     "CONSUMERS=2,BLOCK_N=64,STAGES=2,TURNS=1,OVERLAP=2,GROUP=1,PERSISTENT=1"},
    {dense, "T=bf16 U=e5m2 B=2 H=4 G=2 S=65 R=99 D=80 E=96 causal=true left=40",
     "CONSUMERS=3,BLOCK_N=48,STAGES=2,TURNS=1,OVERLAP=1,PERSISTENT=1"},
    {dense, "T=f16 U=e4m3 B=1 H=3 G=1 S=33 R=65 D=16 E=16 softcap=3.0",
     "CONSUMERS=1,BLOCK_N=80,STAGES=1,TURNS=0,OVERLAP=0"},
    {dense, "T=bf16 U=e4m3 B=1 H=2 G=1 S=150 R=100 D=128 E=128",
     "CONSUMERS=2,BLOCK_N=112,STAGES=2,TURNS=1,OVERLAP=1,CLUSTER=2,HOLD_Q=1,PERSISTENT=1"},
    {dense, "T=f16 U=e4m3 B=1 H=4 G=1 S=40 R=130 D=96 E=144 left=20 right=10",
     "CONSUMERS=1,BLOCK_N=32,STAGES=3,TURNS=0,OVERLAP=1,PACK=4,CLUSTER=1"},
    {dense, "T=bf16 U=e4m3 B=1 H=2 G=1 S=40 R=200 D=64 E=64 causal=true",
     "CONSUMERS=1,BLOCK_N=32,STAGES=2,TURNS=0,OVERLAP=1,SPLIT=2"},
    {dense, "T=bf16 U=e4m3 B=1 H=1 G=1 S=70 R=70 D=128 E=384",
     "CONSUMERS=2,BLOCK_N=32,STAGES=2,TURNS=1,OVERLAP=1,PERSISTENT=1"},
    {dense, "T=f16 U=e4m3 B=1 H=2 G=2 S=1 R=1 D=32 E=48",
     "CONSUMERS=1,BLOCK_N=160,STAGES=1,TURNS=0,OVERLAP=0"},
    /* Heads whose scores are added up from two runs. */
    {dense, "T=bf16 U=e4m3 B=1 H=2 G=1 S=70 R=130 D=256 E=256 causal=true",
     "CONSUMERS=2,BLOCK_N=48,STAGES=2,TURNS=1,OVERLAP=1,PERSISTENT=1"},
    {dense, "T=f16 U=e5m2 B=1 H=1 G=1 S=33 R=99 D=144 E=64",
     "CONSUMERS=1,BLOCK_N=32,STAGES=1,TURNS=0,OVERLAP=0,HOLD_Q=1"},
    {two_products, "T=f16 U=e4m3 B=1 H=2 S=70 R=90 D=128 F=48 E=48",
     "CONSUMERS=1,BLOCK_N=64,STAGES=2,TURNS=0,OVERLAP=2"},
    /* Keys are converted, too. */
    {cached, "T=bf16 U=e4m3 B=1 H=4 G=2 S=140 R=150 D=128 E=64",
     "CONSUMERS=2,BLOCK_N=64,STAGES=2,TURNS=1,OVERLAP=2,PERSISTENT=1,CLUSTER=2"},
    {cached, "T=f16 U=e5m2 B=1 H=2 G=1 S=40 R=230 D=80 E=384",
     "CONSUMERS=2,BLOCK_N=48,STAGES=1,TURNS=0,OVERLAP=0"},
    {cached, "T=f16 U=e4m3 B=1 H=4 G=1 S=20 R=230 D=256 E=256",
     "CONSUMERS=1,BLOCK_N=32,STAGES=2,TURNS=0,OVERLAP=1,SPLIT=1,PACK=4,HOLD_Q=0"},
};

START_TEST(cases_are_right) {
  template_class_run(attention(), &cases[_i]);
}
END_TEST

static const struct {
  const char *bindings, *settings;
} ragged[] = {
    {"T=bf16 U=e4m3 N=155 M=210 H=2 G=1 D=64 E=64 B=5 causal=true",
     "CONSUMERS=1,BLOCK_N=32,STAGES=2,TURNS=0,OVERLAP=1,PERSISTENT=1"},
    {"T=bf16 U=e4m3 N=155 M=210 H=4 G=2 D=128 E=128 B=5 causal=true left=40",
     "CONSUMERS=2,BLOCK_N=64,STAGES=2,TURNS=1,OVERLAP=2,PERSISTENT=1,PACK=2"},
    {"T=f16 U=e5m2 N=155 M=210 H=1 G=1 D=48 E=80 B=5 softcap=2.0",
     "CONSUMERS=2,BLOCK_N=32,STAGES=1,TURNS=0,OVERLAP=0,HOLD_Q=1,PERSISTENT=0"},
    {"T=bf16 U=e4m3 N=155 M=210 H=2 G=1 D=64 E=64 B=5",
     "CONSUMERS=1,BLOCK_N=32,STAGES=2,TURNS=0,OVERLAP=1,PERSISTENT=1,CLUSTER=2"},
};

/* An empty request on either side, and rows past the last one. */
static const double offsets_of_queries[] = {0, 70, 71, 71, 90, 150},
                    offsets_of_keys[] = {0, 90, 120, 120, 137, 200};

static void run_packed(int i, const template_input *scale) {
  arena a = ARENA_INIT;
  run_view views[LIMIT_TENSORS] = {{0}};
  const template_input inputs[] = {
      {"cu_q", TEMPLATE_VALUES(offsets_of_queries)}, {"cu_k", TEMPLATE_VALUES(offsets_of_keys)}, *scale};
  template_case c =
      template_case_bind(&a, attention(), template_text_of(packed), ragged[i].bindings, ragged[i].settings);
  template_fill_views(&c.p, inputs, 3, views);
  template_case_run(&a, &c, views, 0);
  arena_release(&a);
}

START_TEST(packed_requests_are_right) {
  run_packed(_i, &(template_input){NULL, NULL, 0});
}
END_TEST

/* Scales that the exponent's multiplication does not take: below 0, 0, subnormal, in some rows of a tile and
 * not in others; keys that are not seen stay so. */
START_TEST(unusual_scales_are_right) {
  static const double mixed[] = {-0.5, 0.25, 0, 1e-39, 2}, none[] = {0};
  static const template_input scales[] = {{"sq", TEMPLATE_VALUES(mixed)}, {"sk", TEMPLATE_VALUES(none)}};
  run_packed(1, &scales[_i]);
}
END_TEST

/* NaN behind a request's last key: another's, or nobody's. */
START_TEST(keys_of_others_do_not_matter) {
  static double rows[210 * 64];
  arena a = ARENA_INIT;
  run_view views[LIMIT_TENSORS] = {{0}};
  for (int i = 0; i < 210 * 64; i++) {
    int row = i / 64;
    rows[i] = (row >= 120 && row < 137) || row >= 200 ? NAN : random_normal(3, (uint64_t)i);
  }
  const template_input inputs[] = {{"cu_q", TEMPLATE_VALUES(offsets_of_queries)},
                                   {"cu_k", TEMPLATE_VALUES(offsets_of_keys)},
                                   {"K", TEMPLATE_VALUES(rows)},
                                   {"V", TEMPLATE_VALUES(rows)}};
  template_case c = template_case_bind(&a, attention(), template_text_of(packed),
                                       "T=f16 U=e4m3 N=155 M=210 H=1 G=1 D=64 E=64 B=5",
                                       "CONSUMERS=1,BLOCK_N=64,STAGES=2,TURNS=0,OVERLAP=1");
  template_fill_views(&c.p, inputs, 4, views);
  template_case_run(&a, &c, views, 0);
  arena_release(&a);
}
END_TEST

static const char *const types_of_pages[] = {"U=e4m3 X=e5m2 Y=e4m3", "U=bf16 X=e4m3 Y=e5m2",
                                             "U=f16 X=f16 Y=e4m3"};

START_TEST(pages_are_right) {
  char bindings[100];
  static const double lengths[] = {0, 64, 63, 130, 1}, pages[] = {3, 1, 0, 5, 4, 2};
  arena a = ARENA_INIT;
  run_view views[LIMIT_TENSORS] = {{0}};
  const template_input inputs[] = {{"n", TEMPLATE_VALUES(lengths)}, {"t", TEMPLATE_VALUES(pages)}};
  snprintf(bindings, sizeof bindings, "%s B=5 S=9 H=4 G=2 D=64 E=64 P=6 Z=48 W=3", types_of_pages[_i]);
  template_case c = template_case_bind(&a, attention(), paged, bindings,
                                       "CONSUMERS=1,BLOCK_N=64,STAGES=2,TURNS=0,OVERLAP=1,PACK=2");
  template_fill_views(&c.p, inputs, 2, views);
  template_case_run(&a, &c, views, 0);
  arena_release(&a);
}
END_TEST

/* Two groups exchange weights, or each has all of them; NaN behind the last key. */
START_TEST(latent_keys_are_right) {
  static const char *const ways[] = {"CONSUMERS=2,BLOCK_N=32,STAGES=2,TURNS=0,OVERLAP=3",
                                     "CONSUMERS=2,BLOCK_N=32,STAGES=2,TURNS=1,OVERLAP=1"};
  static const double lengths[] = {70, 3};
  static double rows[2 * 70 * 512];
  arena a = ARENA_INIT;
  run_view views[LIMIT_TENSORS] = {{0}};
  for (int i = 0; i < 2 * 70 * 512; i++) rows[i] = i / 512 < 73 ? random_normal(9, (uint64_t)i) : NAN;
  const template_input inputs[] = {{"lens", TEMPLATE_VALUES(lengths)}, {"KV", TEMPLATE_VALUES(rows)}};
  template_case c =
      template_case_bind(&a, attention(), latent, "T=bf16 U=e4m3 B=2 H=3 R=70 C=512 F=64", ways[_i]);
  template_fill_views(&c.p, inputs, 2, views);
  template_case_run(&a, &c, views, 0);
  arena_release(&a);
}
END_TEST

START_TEST(small_problem_is_right) {
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, attention(), template_text_of(packed),
                                       "T=bf16 U=e4m3 N=2048 M=2048 H=32 G=8 D=128 E=128 B=4 causal=true",
                                       "CONSUMERS=2,BLOCK_N=128,STAGES=2,TURNS=1,OVERLAP=1,PERSISTENT=1");
  template_case_run_reduced(&a, &c);
  arena_release(&a);
}
END_TEST

/* --- how it assembles --- */

static const template_class large[] = {
    {packed, "T=bf16 U=e4m3 N=2048 M=2048 H=32 G=8 D=128 E=128 B=4 causal=true",
     "CONSUMERS=2,BLOCK_N=128,STAGES=2,TURNS=1,OVERLAP=2"},
    {dense, "T=bf16 U=e4m3 B=1 H=8 G=2 S=4096 R=4096 D=256 E=256 causal=true",
     "CONSUMERS=2,BLOCK_N=48,STAGES=2,TURNS=1,OVERLAP=1"},
};

START_TEST(large_tiles_do_not_spill) {
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, attention(), template_text_of(large[_i].text), large[_i].bindings,
                                       large[_i].settings);
  template_case_assemble(&a, &c);
  arena_release(&a);
}
END_TEST

/* --- what it is for --- */

START_TEST(near_misses_are_refused) {
  template_refuses(attention(), template_text_of(dense), "T=f16 U=e4m3 B=1 H=1 G=1 S=8 R=8 D=272 E=64",
                   TEMPLATE_SIZE);
  template_refuses(attention(), template_text_of(dense), "T=f16 U=e4m3 B=1 H=1 G=1 S=8 R=8 D=64 E=56",
                   TEMPLATE_ALIGNMENT);
  template_refuses(attention(), two_products, "T=f16 U=e4m3 B=1 H=1 S=8 R=8 D=64 F=64 E=64",
                   TEMPLATE_ALIGNMENT);
  template_refuses(attention(), paged, "U=e4m3 X=e4m3 Y=bf16 B=1 S=8 H=1 G=1 D=64 E=64 P=1 Z=8 W=1",
                   TEMPLATE_DTYPE);
  template_refuses(attention(), paged, "U=e4m3 X=f16 Y=e4m3 B=1 S=8 H=1 G=1 D=64 E=64 P=1 Z=8 W=1",
                   TEMPLATE_DTYPE);
}
END_TEST

/* --- faults --- */

START_TEST(missing_waits_are_found) {
  static const char *const lines[] = {"fence.proxy.async", "mbarrier.try_wait"};
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, attention(), template_text_of(dense),
                                       "T=f16 U=e4m3 B=1 H=1 G=1 S=40 R=150 D=64 E=64",
                                       "CONSUMERS=1,BLOCK_N=32,STAGES=2,TURNS=0,OVERLAP=1");
  template_case_miss(&a, &c, lines[_i]);
  arena_release(&a);
}
END_TEST

int main(void) {
  TCase *tests = template_tests("attention_bytes");
  tcase_add_loop_test(tests, cases_are_right, 0, (int)COUNT_OF(cases));
  tcase_add_loop_test(tests, packed_requests_are_right, 0, (int)COUNT_OF(ragged));
  tcase_add_loop_test(tests, unusual_scales_are_right, 0, 2);
  tcase_add_test(tests, keys_of_others_do_not_matter);
  tcase_add_loop_test(tests, pages_are_right, 0, (int)COUNT_OF(types_of_pages));
  tcase_add_loop_test(tests, latent_keys_are_right, 0, 2);
  tcase_add_test(tests, small_problem_is_right);
  tcase_add_loop_test(tests, large_tiles_do_not_spill, 0, (int)COUNT_OF(large));
  tcase_add_test(tests, near_misses_are_refused);
  tcase_add_loop_test(tests, missing_waits_are_found, 0, 2);
  return template_tests_run("attention_bytes", tests);
}
