/* Attention by warps on the emulator against the fp64 reference: rows that share keys, ragged lengths, keys
 * split over CTAs and sets of warps, masks, scores that are expressions, heads of every size. */
#include <check.h>
#include <math.h>
#include <stdlib.h>

#include "template_cases.h"
#include "templates/attend.h"

static const kernel_template *attend(void) {
  return template_find("attend");
}

/* --- operators --- */

static const char flash[] = "flash_attention", grouped[] = "grouped_query_attention";

/* Everything behind the scores A of rows (b, h, q), with keys of which `seen` tells; `V` is V's read. */
#define SOFTMAX(seen, V)                                                                                     \
  "x[b,h,q] = max(k" seen ") A[b,h,q,k]; m[b,h,q] = x[b,h,q] == -inf ? 0 : x[b,h,q]; s[b,h,q] = sum(k" seen  \
  ") exp(A[b,h,q,k] - m[b,h,q]); O[b,h,q,e] = s[b,h,q] == 0 ? 0 : (sum(k" seen                               \
  ") cast<T>(exp(A[b,h,q,k] - m[b,h,q])) * " V ") / s[b,h,q]"
#define PRODUCT "P[b,h,q,k] = 0.125 * sum(d) Q[b,h,q,d] * K[b,h,k,d]; "

static const char biased[] =
    "f(Q: T[B,H,S,D], K: T[B,H,R,D], V: T[B,H,R,E], Z: T[H,S,R]) -> (O: T[B,H,S,E]) "
    "{ " PRODUCT "A[b,h,q,k] = P[b,h,q,k] + Z[h,q,k]; " SOFTMAX("", "V[b,h,k,e]") " }";
static const char hidden[] =
    "f(Q: T[B,H,S,D], K: T[B,H,R,D], V: T[B,H,R,E], Z: T[S,R]) -> (O: T[B,H,S,E]) "
    "{ " PRODUCT "A[b,h,q,k] = Z[q,k] > 0 ? P[b,h,q,k] : -inf; " SOFTMAX("", "V[b,h,k,e]") " }";
static const char sloped[] =
    "f(Q: T[B,H,S,D], K: T[B,H,R,D], V: T[B,H,R,E], z: f32[H]) -> (O: T[B,H,S,E]) "
    "{ " PRODUCT "A[b,h,q,k] = P[b,h,q,k] + z[h] * (k - q); " SOFTMAX(": k <= q", "V[b,h,k,e]") " }";
/* A cache with a length for each request, its heads within a position; a sink for each head. */
static const char cached[] =
    "f(Q: T[B,H,S,D], K: T[B,R,G,D], V: T[B,R,G,E], n: i32[B], z: f32[H]) -> (O: T[B,H,S,E], l: f32[B,H,S]) "
    "{ A[b,h,q,k] = 0.125 * sum(d) Q[b,h,q,d] * K[b,k,h / (H / G),d]; "
    "x[b,h,q] = max(k: k < n[b] && k <= q + n[b] - S) A[b,h,q,k]; m[b,h,q] = x[b,h,q] == -inf ? 0 : "
    "x[b,h,q]; "
    "s[b,h,q] = sum(k: k < n[b] && k <= q + n[b] - S) exp(A[b,h,q,k] - m[b,h,q]); "
    "y[b,h,q] = max(m[b,h,q], z[h]); "
    "O[b,h,q,e] = (sum(k: k < n[b] && k <= q + n[b] - S) cast<T>(exp(A[b,h,q,k] - m[b,h,q])) * "
    "V[b,k,h / (H / G),e]) * exp(m[b,h,q] - y[b,h,q]) / "
    "(s[b,h,q] * exp(m[b,h,q] - y[b,h,q]) + exp(z[h] - y[b,h,q])); l[b,h,q] = x[b,h,q] }";
/* Rows of all heads together, one head of keys that are the values too; powers of two. */
static const char latent[] =
    "f(Q: T[B,S,H,D], K: T[B,R,D]) -> (O: T[B,S,H,D], u: f32[B,S,H]) scale: float = 0.2 { "
    "A[b,q,h,k] = sum(d) scale * Q[b,q,h,d] * K[b,k,d]; m[b,q,h] = max(k: k <= q + R - S) A[b,q,h,k]; "
    "s[b,q,h] = sum(k: k <= q + R - S) exp2(A[b,q,h,k] - m[b,q,h]); O[b,q,h,d] = sum(k: k <= q + R - S) "
    "cast<T>(exp2(A[b,q,h,k] - m[b,q,h])) / s[b,q,h] * K[b,k,d]; u[b,q,h] = m[b,q,h] + log2(s[b,q,h]) }";

/* --- what it computes --- */

#define CLUSTERED "CLUSTER=1,BLOCK_M=16,BLOCK_N=16,WARPS_M=1,WARPS_E=1,HOLD_Q=1,"
#define SMALL     "CLUSTER=0,BLOCK_M=16,BLOCK_N=16,WARPS_M=1,WARPS_E=1,HOLD_Q=1,"

#define EIGHT "CLUSTER=0,BLOCK_M=8,WARPS_M=1,STAGES=2,SETS=2,"

static const template_class cases[] = {
    {grouped, "T=bf16 B=1 H=4 G=1 S=1 R=255 D=128", SMALL "STAGES=3,SETS=2,SPLIT=2"},
    {grouped, "T=f16 B=1 H=8 G=1 S=1 R=257 D=64", SMALL "STAGES=2,SETS=4,SPLIT=10"},
    {grouped, "T=bf16 B=1 H=3 G=1 S=1 R=390 D=40", SMALL "STAGES=2,SETS=1,SPLIT=24"},
    {grouped, "T=f16 B=1 H=4 G=1 S=1 R=530 D=40", SMALL "STAGES=2,SETS=1,SPLIT=33"},
    {grouped, "T=bf16 B=1 H=2 G=1 S=1 R=390 D=32", SMALL "STAGES=2,SETS=1,SPLIT=22"},
    {grouped, "T=bf16 B=1 H=3 G=1 S=5 R=41 D=80 causal=true", SMALL "STAGES=2,SETS=1,SPLIT=3"},
    {grouped, "T=bf16 B=1 H=6 G=2 S=16 R=70 D=32 causal=true left=40",
     "CLUSTER=0,BLOCK_M=32,BLOCK_N=32,STAGES=2,WARPS_M=2,WARPS_E=1,SETS=2,HOLD_Q=0,SPLIT=1"},
    {flash, "T=f16 B=1 H=1 S=33 R=60 D=96 left=20 right=10",
     "CLUSTER=0,BLOCK_M=32,BLOCK_N=16,STAGES=4,WARPS_M=1,WARPS_E=2,SETS=2,HOLD_Q=1,SPLIT=1"},
    {flash, "T=bf16 B=1 H=1 S=3 R=40 D=512",
     "CLUSTER=0,BLOCK_M=16,BLOCK_N=16,STAGES=2,WARPS_M=1,WARPS_E=4,SETS=1,HOLD_Q=0,SPLIT=2"},
    {flash, "T=bf16 B=1 H=2 S=4 R=1 D=72 softcap=4.0", SMALL "STAGES=2,SETS=2,SPLIT=4"},
    /* Tiles of 8 rows, of more than there are and of fewer; scores exchanged; queries read again. */
    {grouped, "T=f16 B=1 H=8 G=2 S=1 R=77 D=64 softcap=20.0", EIGHT "HOLD_Q=1,WARPS_E=1,BLOCK_N=16,SPLIT=2"},
    {grouped, "T=bf16 B=1 H=6 G=2 S=7 R=45 D=72 causal=true softcap=2.0",
     EIGHT "HOLD_Q=0,WARPS_E=2,BLOCK_N=32,SPLIT=1"},
    {flash, "T=bf16 B=1 H=2 S=9 R=150 D=64 scale=10000", SMALL "STAGES=2,SETS=2,SPLIT=2"},
    {flash, "T=bf16 B=1 H=1 S=70 R=40 D=64 causal=true", /* queries that see nothing */
     "CLUSTER=0,BLOCK_M=64,BLOCK_N=32,STAGES=2,WARPS_M=4,WARPS_E=1,SETS=1,HOLD_Q=1,SPLIT=1"},
    {flash, "T=bf16 B=1 H=1 S=131 R=73 D=32",
     "CLUSTER=0,BLOCK_M=128,BLOCK_N=64,STAGES=2,WARPS_M=4,WARPS_E=1,SETS=1,HOLD_Q=0,SPLIT=1"},
    {flash, "T=bf16 B=1 H=2 S=3 R=0 D=64", SMALL "STAGES=2,SETS=1,SPLIT=2"},
    {grouped, "T=bf16 B=1 H=8 G=2 S=1 R=200 D=64", CLUSTERED "STAGES=2,SETS=2,SPLIT=8"},
    {flash, "T=f16 B=1 H=2 S=20 R=30 D=32 causal=true", CLUSTERED "STAGES=2,SETS=1,SPLIT=2"},
    {grouped, "T=f16 B=1 H=4 G=2 S=1 R=130 D=64", CLUSTERED "STAGES=2,SETS=2,SPLIT=3"},
    {flash, "T=bf16 B=1 H=2 S=3 R=40 D=60",
     SMALL "STAGES=2,SETS=2,SPLIT=1"}, /* copies of 8 bytes, and of 4 */
    {flash, "T=f16 B=1 H=2 S=3 R=30 D=26", SMALL "STAGES=2,SETS=1,SPLIT=1"},
    {biased, "T=bf16 B=1 H=2 S=20 R=75 D=64 E=32", SMALL "STAGES=2,SETS=2,SPLIT=1"},
    {hidden, "T=bf16 B=1 H=2 S=10 R=40 D=24 E=136", SMALL "STAGES=2,SETS=1,SPLIT=2"},
    {sloped, "T=f16 B=1 H=2 S=20 R=30 D=64 E=48", SMALL "STAGES=2,SETS=2,SPLIT=1"},
    {latent, "T=bf16 B=2 H=9 S=2 R=50 D=64",
     "CLUSTER=0,BLOCK_M=32,BLOCK_N=16,STAGES=3,WARPS_M=2,WARPS_E=1,SETS=1,HOLD_Q=1,SPLIT=2"},
    {latent, "T=bf16 B=1 H=17 S=1 R=37 D=208",
     "CLUSTER=0,BLOCK_M=16,BLOCK_N=32,STAGES=2,WARPS_M=1,WARPS_E=2,SETS=2,HOLD_Q=0,SPLIT=1"},
};

START_TEST(cases_are_right) {
  template_class_run(attend(), &cases[_i]);
}
END_TEST

/* Lengths by request, one of them 0; what lies behind them is NaN. */
START_TEST(what_lies_behind_a_length_is_not_read) {
  static const int of[] = {0, 37, 70};
  static const double lengths[] = {0, 37, 70};
  double values[3 * 70 * 2 * 64];
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, attend(), cached, "T=bf16 B=3 H=4 G=2 S=2 R=70 D=64 E=64",
                                       SMALL "STAGES=2,SETS=2,SPLIT=2");
  run_view views[LIMIT_TENSORS] = {{0}};
  for (int b = 0; b < 3; b++)
    for (int i = 0; i < 70 * 128; i++)
      values[b * 70 * 128 + i] = i / 128 < of[b] ? sin(i * 0.7 + b) : (double)NAN;
  for (int i = 1; i <= 2; i++) {
    views[i].values = values;
    views[i].n_values = 3 * 70 * 128;
  }
  views[3].values = lengths;
  views[3].n_values = 3;
  template_case_run(&a, &c, views, 0);
  arena_release(&a);
}
END_TEST

/* Biases as large as they come, -inf for some keys of every row and for all of some rows. */
START_TEST(extreme_biases_are_right) {
  enum { ROWS = 10, KEYS = 45 };
  double values[ROWS * KEYS];
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, attend(), biased, "T=bf16 B=1 H=2 S=5 R=45 D=64 E=32",
                                       SMALL "STAGES=2,SETS=2,SPLIT=2");
  run_view views[LIMIT_TENSORS] = {{0}};
  for (int i = 0; i < ROWS * KEYS; i++) {
    double large = i % 3 == 0 ? 5e4 : i % 3 == 1 ? -5e4 : 0;
    values[i] = i / KEYS % 4 == 1 || i % 7 == 2 ? -(double)INFINITY : large;
  }
  views[3].values = values;
  views[3].n_values = ROWS * KEYS;
  template_case_run(&a, &c, views, 0);
  /* Finite masks, of all keys of some rows: those have weights alike. */
  for (int i = 0; i < ROWS * KEYS; i++)
    values[i] = i / KEYS % 3 == 0 ? -1e30 : i / KEYS % 3 == 1 ? 1e30 : i % 3 == 0 ? -1e37 : 0;
  template_case_run(&a, &c, views, 0);
  arena_release(&a);
}
END_TEST

/* Heads next to one another within a position, and rows with gaps; then rows that no copy can take. */
START_TEST(views_are_right) {
  arena a = ARENA_INIT;
  template_case c =
      template_case_bind(&a, attend(), template_text_of(grouped),
                         "T=bf16 B=2 H=4 G=2 S=3 R=37 D=64 causal=true", SMALL "STAGES=2,SETS=2,SPLIT=2");
  run_view views[LIMIT_TENSORS] = {{0}};
  for (int i = 0; i < 4; i++)
    run_view_permuted(&c.p, i, _i ? (int[]){2, 3, 1, 0} : (int[]){3, 1, 2, 0}, _i ? 3 : 8 * i, &views[i]);
  template_case_run(&a, &c, views, _i);
  arena_release(&a);
}
END_TEST

/* Rows of an odd number of elements are taken one by one. */
START_TEST(odd_heads_are_right) {
  arena a = ARENA_INIT;
  template_case c =
      template_case_bind(&a, attend(), template_text_of(grouped), "T=f16 B=1 H=4 G=2 S=3 R=21 D=37",
                         EIGHT "HOLD_Q=1,WARPS_E=1,BLOCK_N=16,SPLIT=2");
  template_case_run(&a, &c, NULL, 0);
  arena_release(&a);
}
END_TEST

START_TEST(small_problems_are_right) {
  static const char *const settings[] = {
      SMALL "STAGES=3,SETS=1,SPLIT=8",
      "CLUSTER=0,BLOCK_M=32,BLOCK_N=16,STAGES=2,WARPS_M=2,SETS=1,HOLD_Q=1,SPLIT=1"};
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, attend(), template_text_of(grouped),
                                       "T=bf16 B=4 H=32 G=8 S=128 R=4096 D=16 causal=true", settings[_i]);
  template_case_run_reduced(&a, &c);
  arena_release(&a);
}
END_TEST

/* --- how it assembles, and which it would take --- */

static const struct {
  const char *bindings, *settings;
} large[] = {
    {"T=bf16 B=4 H=64 G=8 S=1 R=32768 D=128", ""},
    {"T=bf16 B=4 H=32 G=8 S=512 R=4096 D=128 causal=true",
     "CLUSTER=0,BLOCK_M=64,BLOCK_N=64,STAGES=2,WARPS_M=4,WARPS_E=1,SETS=1,HOLD_Q=1,SPLIT=1"},
    {"T=bf16 B=4 H=8 G=8 S=1 R=4096 D=512", ""},
};

START_TEST(large_tiles_do_not_spill) {
  arena a = ARENA_INIT;
  template_case c =
      template_case_bind(&a, attend(), template_text_of(grouped), large[_i].bindings, large[_i].settings);
  template_case_assemble(&a, &c);
  arena_release(&a);
}
END_TEST

/* Few long rows have their keys split, so that every SM has some; many do not. */
START_TEST(defaults_fill_the_device) {
  static const struct {
    const char *bindings;
    int least, most;
  } expected[] = {{"T=bf16 B=1 H=32 G=8 S=1 R=32768 D=128", 16, 64},
                  {"T=bf16 B=4 H=64 G=8 S=1 R=32768 D=128", 4, 64},
                  {"T=bf16 B=256 H=32 G=8 S=1 R=512 D=128", 1, 1}};
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, attend(), template_text_of(grouped), expected[_i].bindings, "");
  int split = c.c.values[ATTEND_SPLIT];
  ck_assert_msg(split >= expected[_i].least && split <= expected[_i].most, "%s: SPLIT=%d",
                expected[_i].bindings, split);
  arena_release(&a);
}
END_TEST

/* --- what its model says --- */

#define PLAIN    "BLOCK_M=16,WARPS_M=1,HOLD_Q=1,"
#define COMBINED PLAIN "BLOCK_N=64,STAGES=3,WARPS_E=2,SETS=2,CLUSTER=0,SPLIT=32"
#define TOGETHER PLAIN "BLOCK_N=64,STAGES=3,WARPS_E=2,SETS=1,CLUSTER=1,SPLIT=8"

/* On an H200. Too few CTAs do not fill the memory; clusters of 8, one CTA to an SM, are not all there at
 * once. */
static const struct {
  const char *bindings, *settings;
  double us;
} timed[] = {
    {"T=f16 B=1 H=32 G=4 S=1 R=1024 D=128", TOGETHER, 5.9},
    {"T=f16 B=1 H=32 G=4 S=1 R=1024 D=128", PLAIN "BLOCK_N=32,STAGES=3,WARPS_E=4,SETS=2,CLUSTER=1,SPLIT=8",
     8.9},
    {"T=f16 B=1 H=32 G=4 S=1 R=8192 D=128", COMBINED, 11.4},
    {"T=f16 B=1 H=32 G=4 S=1 R=16384 D=128", TOGETHER, 34.2},
    {"T=f16 B=1 H=32 G=4 S=1 R=262144 D=128", COMBINED, 134.4},
    {"T=f16 B=1 H=32 G=4 S=1 R=262144 D=128", TOGETHER, 483.4},
    {"T=bf16 B=1 H=8 G=1 S=1 R=8192 D=256", TOGETHER, 30.5},
    {"T=bf16 B=16 H=8 G=1 S=1 R=8192 D=256", PLAIN "BLOCK_N=32,STAGES=3,WARPS_E=2,SETS=2,CLUSTER=1,SPLIT=8",
     56.1},
    {"T=bf16 B=32 H=32 G=8 S=1 R=4096 D=128", PLAIN "BLOCK_N=16,STAGES=6,WARPS_E=1,SETS=2,CLUSTER=0,SPLIT=1",
     133.4},
};

START_TEST(times_are_near_the_measured) {
  arena a = ARENA_INIT;
  template_case c =
      template_case_bind(&a, attend(), template_text_of(grouped), timed[_i].bindings, timed[_i].settings);
  double us = template_cost_ns(attend(), &c.p, c.t, &c.t->rates, &c.c) / 1e3;
  ck_assert_msg(fabs(us / timed[_i].us - 1) < 0.2, "%s: %.1f us modelled, %.1f measured", timed[_i].bindings,
                us, timed[_i].us);
  arena_release(&a);
}
END_TEST

/* --- what it is for --- */

static const char not_rounded[] =
    "f(Q: T[B,H,S,D], K: T[B,H,R,D], V: T[B,H,R,E]) -> (O: T[B,H,S,E]) { A[b,h,q,k] = sum(d) Q[b,h,q,d] * "
    "K[b,h,k,d]; m[b,h,q] = max(k) A[b,h,q,k]; O[b,h,q,e] = sum(k) exp(A[b,h,q,k] - m[b,h,q]) * V[b,h,k,e] }";
static const char matmul[] = "f(A: T[M,K], B: T[K,N]) -> (Y: T[M,N]) { Y[m,n] = sum(k) A[m,k] * B[k,n] }";

START_TEST(near_misses_are_refused) {
  template_refuses(attend(), not_rounded, "T=bf16 B=1 H=1 S=8 R=8 D=64 E=64", TEMPLATE_DTYPE);
  template_refuses(attend(), matmul, "T=bf16 M=8 N=8 K=8", TEMPLATE_OPERATOR);
  template_refuses(attend(), template_text_of(flash), "T=bf16 B=1 H=1 S=8 R=8 D=1032", TEMPLATE_SIZE);
}
END_TEST

/* Which indices of the batch are rows of one tile. */
static const struct {
  const char *op, *bindings;
  int64_t units, pack;
} packs[] = {
    {grouped, "T=bf16 B=2 H=12 G=4 S=1 R=8 D=64", 8, 3},
    {flash, "T=bf16 B=2 H=12 S=1 R=8 D=64", 24, 1},
    {latent, "T=bf16 B=2 H=12 S=1 R=8 D=64", 2, 12},
    {cached, "T=bf16 B=2 H=12 G=1 S=1 R=8 D=64 E=64", 2, 12},
};

START_TEST(rows_that_share_keys_are_packed) {
  arena a = ARENA_INIT;
  const ir_op *op;
  ir_problem p;
  attention_match m;
  attend_rows rows;
  ck_assert_int_eq(ir_op_parse(&a, template_text_of(packs[_i].op), &op, NULL), ARKE_OK);
  ck_assert_int_eq(ir_problem_bind(op, packs[_i].bindings, &p, NULL), ARKE_OK);
  ck_assert_int_eq(attention_match_op(&p, &a, &m, NULL, NULL), TEMPLATE_OK);
  attend_rows_find(&m, &rows);
  ck_assert_int_eq(attend_units(&m, &rows), packs[_i].units);
  ck_assert_int_eq(attend_pack(&m, &rows), packs[_i].pack);
  arena_release(&a);
}
END_TEST

/* --- faults --- */

START_TEST(missing_waits_are_found) {
  static const char *const lines[] = {"cp.async.wait_group", "bar.sync"};
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, attend(), template_text_of(flash), "T=bf16 B=1 H=1 S=4 R=150 D=64",
                                       SMALL "STAGES=2,SETS=2,SPLIT=1");
  template_case_miss(&a, &c, lines[_i]);
  arena_release(&a);
}
END_TEST

START_TEST(out_of_memory_is_reported) {
  arena a = ARENA_INIT;
  template_case c =
      template_case_bind(&a, attend(), template_text_of(grouped),
                         "T=bf16 B=1 H=2 G=1 S=4 R=50 D=16 causal=true", SMALL "STAGES=2,SETS=1,SPLIT=2");
  template_case_fail_allocations(&c);
  arena_release(&a);
}
END_TEST

int main(void) {
  TCase *tests = template_tests("attend");
  tcase_add_loop_test(tests, cases_are_right, 0, (int)COUNT_OF(cases));
  tcase_add_test(tests, what_lies_behind_a_length_is_not_read);
  tcase_add_test(tests, extreme_biases_are_right);
  tcase_add_loop_test(tests, views_are_right, 0, 2);
  tcase_add_test(tests, odd_heads_are_right);
  tcase_add_loop_test(tests, small_problems_are_right, 0, 2);
  tcase_add_loop_test(tests, large_tiles_do_not_spill, 0, (int)COUNT_OF(large));
  tcase_add_loop_test(tests, defaults_fill_the_device, 0, 3);
  tcase_add_loop_test(tests, times_are_near_the_measured, 0, (int)COUNT_OF(timed));
  tcase_add_test(tests, near_misses_are_refused);
  tcase_add_loop_test(tests, rows_that_share_keys_are_packed, 0, (int)COUNT_OF(packs));
  tcase_add_loop_test(tests, missing_waits_are_found, 0, 2);
  tcase_add_test(tests, out_of_memory_is_reported);
  return template_tests_run("attend", tests);
}
