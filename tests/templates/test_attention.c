/* Attention on the emulator against the fp64 reference: heads of every size, odd lengths, masks, shared
 * heads, scores that are expressions, and every schedule. */
#include <check.h>
#include <math.h>
#include <stdlib.h>

#include "template_cases.h"
#include "templates/attention.h"

static const kernel_template *attention(void) {
  return template_find("attention");
}

/* --- operators --- */

static const char flash[] = "flash_attention", grouped[] = "grouped_query_attention",
                  cross[] = "cross_attention";

/* Everything behind the scores A of rows (b, h, q), with keys of which `seen` tells; `V` is V's read. */
#define SOFTMAX(seen, V)                                                                                     \
  "x[b,h,q] = max(k" seen ") A[b,h,q,k]; m[b,h,q] = x[b,h,q] == -inf ? 0 : x[b,h,q]; s[b,h,q] = sum(k" seen  \
  ") exp(A[b,h,q,k] - m[b,h,q]); O[b,h,q,e] = s[b,h,q] == 0 ? 0 : (sum(k" seen                               \
  ") cast<T>(exp(A[b,h,q,k] - m[b,h,q])) * " V ") / s[b,h,q] }"
#define PRODUCT "P[b,h,q,k] = 0.125 * sum(d) Q[b,h,q,d] * K[b,h,k,d]; "

static const char biased[] = "f(Q: T[B,H,S,D], K: T[B,H,R,D], V: T[B,H,R,E], Z: T[H,S,R]) -> (O: T[B,H,S,E]) "
                             "{ " PRODUCT "A[b,h,q,k] = P[b,h,q,k] + Z[h,q,k]; " SOFTMAX("", "V[b,h,k,e]");
static const char hidden[] =
    "f(Q: T[B,H,S,D], K: T[B,H,R,D], V: T[B,H,R,E], Z: T[S,R]) -> (O: T[B,H,S,E]) "
    "{ " PRODUCT "A[b,h,q,k] = Z[q,k] > 0 ? P[b,h,q,k] : -inf; " SOFTMAX("", "V[b,h,k,e]");
static const char sloped[] =
    "f(Q: T[B,H,S,D], K: T[B,H,R,D], V: T[B,H,R,E], z: f32[H]) -> (O: T[B,H,S,E]) "
    "{ " PRODUCT "A[b,h,q,k] = P[b,h,q,k] + z[h] * (k - q); " SOFTMAX(": k <= q", "V[b,h,k,e]");
static const char lengths[] =
    "f(Q: T[B,H,S,D], K: T[B,H,R,D], V: T[B,H,R,E], n: i32[B]) -> (O: T[B,H,S,E]) "
    "{ " PRODUCT "A[b,h,q,k] = P[b,h,q,k]; " SOFTMAX(": k < n[b] % R", "V[b,h,k,e]");
/* A part of the keys is the same for all heads; the score is an expression. */
static const char two_products[] =
    "f(Q: T[B,H,S,D], K: T[B,H,R,D], Qr: T[B,S,H,F], Kr: T[B,R,F], V: T[B,H,R,E]) -> (O: T[B,H,S,E]) { "
    "A[b,h,q,k] = 5 * tanh(0.025 * ((sum(d) Q[b,h,q,d] * K[b,h,k,d]) + sum(d) Qr[b,q,h,d] * "
    "Kr[b,k,d])); " SOFTMAX(": k <= q + R - S", "V[b,h,k,e]");
/* Rows of all heads together, one head of keys; powers of two; weights divided before they are applied. */
static const char one_head[] =
    "f(Q: T[B,S,H,D], K: T[B,R,D], V: T[B,R,D]) -> (O: T[B,S,H,D], u: f32[B,S,H]) scale: float = 0.2 { "
    "P[b,q,h,k] = sum(d) scale * Q[b,q,h,d] * K[b,k,d]; A[b,q,h,k] = P[b,q,h,k]; m[b,q,h] = max(k: k <= q + "
    "R - S) "
    "A[b,q,h,k]; s[b,q,h] = sum(k: k <= q + R - S) exp2(A[b,q,h,k] - m[b,q,h]); O[b,q,h,d] = sum(k: k <= q + "
    "R "
    "- S) cast<T>(exp2(A[b,q,h,k] - m[b,q,h])) / s[b,q,h] * V[b,k,d]; u[b,q,h] = m[b,q,h] + log2(s[b,q,h]) }";

/* --- what it computes --- */

static const template_class cases[] = {
    {flash, "T=bf16 B=1 H=2 S=70 R=200 D=64", "CONSUMERS=1,BLOCK_N=64,STAGES=2,TURNS=0,OVERLAP=1"},
    {flash, "T=f16 B=1 H=1 S=150 R=131 D=128", "CONSUMERS=2,BLOCK_N=64,STAGES=2,TURNS=1,OVERLAP=1"},
    {flash, "T=bf16 B=1 H=3 S=129 R=260 D=64 causal=true",
     "CONSUMERS=2,BLOCK_N=64,STAGES=2,TURNS=1,OVERLAP=2,GROUP=2,PERSISTENT=1"},
    {flash, "T=bf16 B=1 H=1 S=140 R=70 D=128 causal=true",
     "CONSUMERS=2,BLOCK_N=32,STAGES=3,TURNS=0,OVERLAP=2"}, /* queries that see nothing */
    {flash, "T=bf16 B=1 H=2 S=90 R=130 D=80 left=20 right=10",
     "CONSUMERS=1,BLOCK_N=32,STAGES=1,TURNS=0,OVERLAP=0"},
    {flash, "T=f16 B=1 H=1 S=100 R=1 D=96", "CONSUMERS=2,BLOCK_N=48,STAGES=2,TURNS=1,OVERLAP=1,CLUSTER=1"},
    {flash, "T=bf16 B=1 H=1 S=1 R=257 D=72 softcap=4.0",
     "CONSUMERS=1,BLOCK_N=112,STAGES=2,TURNS=0,OVERLAP=1"},
    {flash, "T=bf16 B=1 H=1 S=66 R=150 D=64 scale=10000",
     "CONSUMERS=2,BLOCK_N=64,STAGES=2,TURNS=1,OVERLAP=2"},
    {grouped, "T=bf16 B=2 H=4 G=2 S=65 R=99 D=64 causal=true left=40",
     "CONSUMERS=3,BLOCK_N=64,STAGES=2,TURNS=1,OVERLAP=1,GROUP=0,PERSISTENT=1"},
    {grouped, "T=f16 B=1 H=3 G=1 S=33 R=65 D=256", "CONSUMERS=1,BLOCK_N=80,STAGES=1,TURNS=0,OVERLAP=0"},
    {cross, "T=bf16 B=2 H=2 S=77 R=113 D=192",
     "CONSUMERS=2,BLOCK_N=64,STAGES=1,TURNS=1,OVERLAP=0,PERSISTENT=1"},
    {biased, "T=bf16 B=2 H=2 S=50 R=75 D=64 E=32", "CONSUMERS=1,BLOCK_N=32,STAGES=2,OVERLAP=1,TURNS=0"},
    {hidden, "T=bf16 B=1 H=2 S=70 R=40 D=24 E=136", "CONSUMERS=1,BLOCK_N=32,STAGES=2,OVERLAP=2,TURNS=0"},
    {sloped, "T=f16 B=1 H=2 S=70 R=90 D=64 E=64", "CONSUMERS=2,BLOCK_N=32,STAGES=2,OVERLAP=1,TURNS=1"},
    {lengths, "T=bf16 B=3 H=1 S=10 R=90 D=64 E=64", "CONSUMERS=1,BLOCK_N=32,STAGES=2,OVERLAP=1,TURNS=0"},
    {flash, "T=bf16 B=1 H=2 S=300 R=100 D=64",
     "CONSUMERS=2,BLOCK_N=64,STAGES=2,TURNS=1,OVERLAP=1,CLUSTER=2,PERSISTENT=1"},
    {cross, "T=f16 B=1 H=3 S=130 R=100 D=128",
     "CONSUMERS=1,BLOCK_N=48,STAGES=2,TURNS=0,OVERLAP=1,CLUSTER=2,PERSISTENT=0,GROUP=2"},
    {flash, "T=bf16 B=1 H=2 S=200 R=100 D=96 causal=true",
     "CONSUMERS=2,BLOCK_N=64,STAGES=2,TURNS=1,OVERLAP=1,HOLD_Q=1,CLUSTER=1,PERSISTENT=1"},
    {flash, "T=f16 B=1 H=1 S=70 R=70 D=208",
     "CONSUMERS=2,BLOCK_N=32,STAGES=1,TURNS=0,OVERLAP=0,HOLD_Q=1,CLUSTER=1"},
    {flash, "T=bf16 B=1 H=5 S=100 R=100 D=64 causal=true",
     "CONSUMERS=1,BLOCK_N=64,STAGES=2,TURNS=0,OVERLAP=2,HOLD_Q=0,CLUSTER=1,PERSISTENT=1,GROUP=2,CTAS=3"},
    /* Two warp groups with the same queries. */
    {flash, "T=bf16 B=1 H=1 S=70 R=70 D=512 causal=true",
     "CONSUMERS=2,BLOCK_N=32,STAGES=2,TURNS=1,OVERLAP=1,HOLD_Q=0,CLUSTER=1,PERSISTENT=1"},
    {biased, "T=f16 B=1 H=1 S=40 R=70 D=64 E=384", "CONSUMERS=2,BLOCK_N=32,STAGES=1,TURNS=0,OVERLAP=0"},
    {biased, "T=bf16 B=1 H=1 S=40 R=150 D=192 E=128", "CONSUMERS=2,BLOCK_N=64,STAGES=2,TURNS=1,OVERLAP=2"},
    {one_head, "T=bf16 B=1 H=3 S=70 R=90 D=64", "CONSUMERS=1,BLOCK_N=64,STAGES=2,OVERLAP=1,TURNS=0,GROUP=2"},
    /* Keys shared by CTAs: all alike, some of them none, some rows none. */
    {flash, "T=bf16 B=1 H=2 S=5 R=201 D=64", "CONSUMERS=1,BLOCK_N=32,STAGES=2,OVERLAP=1,TURNS=0,SPLIT=2"},
    {grouped, "T=f16 B=1 H=2 G=1 S=40 R=60 D=64 causal=true left=30",
     "CONSUMERS=1,BLOCK_N=32,STAGES=1,OVERLAP=0,TURNS=0,SPLIT=2"},
    {biased, "T=bf16 B=1 H=1 S=40 R=150 D=64 E=72",
     "CONSUMERS=1,BLOCK_N=32,STAGES=2,OVERLAP=2,TURNS=0,SPLIT=1"},
    {flash, "T=bf16 B=1 H=1 S=90 R=100 D=64",
     "CONSUMERS=1,BLOCK_N=32,STAGES=2,OVERLAP=1,TURNS=0,CLUSTER=2,SPLIT=2"},
    /* By a cluster, which has all of them, or each of several a part. */
    {flash, "T=bf16 B=1 H=2 S=70 R=201 D=64 causal=true",
     "CONSUMERS=2,BLOCK_N=32,STAGES=2,OVERLAP=1,TURNS=1,MERGE=2"},
    {biased, "T=f16 B=2 H=1 S=40 R=70 D=64 E=72",
     "CONSUMERS=1,BLOCK_N=32,STAGES=1,OVERLAP=0,TURNS=0,MERGE=4"},
    {one_head, "T=bf16 B=1 H=5 S=7 R=230 D=64",
     "CONSUMERS=1,BLOCK_N=32,STAGES=2,OVERLAP=2,TURNS=0,PACK=8,MERGE=2,SPLIT=2"},
    /* Scores of two products, and values of their own. */
    {two_products, "T=bf16 B=1 H=2 S=70 R=90 D=64 F=24 E=40",
     "CONSUMERS=1,BLOCK_N=32,STAGES=2,OVERLAP=1,TURNS=0,HOLD_Q=1"},
    {two_products, "T=f16 B=1 H=3 S=66 R=70 D=128 F=64 E=128",
     "CONSUMERS=2,BLOCK_N=64,STAGES=1,OVERLAP=0,TURNS=1,HOLD_Q=0"},
};

START_TEST(cases_are_right) {
  template_class_run(attention(), &cases[_i]);
}
END_TEST

/* Heads next to one another within a position, and rows with gaps. */
START_TEST(views_are_right) {
  arena a = ARENA_INIT;
  template_case c = template_case_bind(
      &a, attention(), template_text_of(grouped), "T=bf16 B=2 H=4 G=2 S=40 R=70 D=64 causal=true",
      "CONSUMERS=1,BLOCK_N=32,STAGES=2,TURNS=0,OVERLAP=1,HOLD_Q=0,CLUSTER=1,PERSISTENT=1");
  run_view views[LIMIT_TENSORS] = {{0}};
  for (int i = 0; i < 4; i++) run_view_permuted(&c.p, i, (int[]){3, 1, 2, 0}, 8 * i, &views[i]);
  template_case_run(&a, &c, views, 0);
  arena_release(&a);
}
END_TEST

/* Who combines runs of keys stores more columns at once than who attends: outputs whose rows begin between
 * are another way's. */
START_TEST(unaligned_outputs_are_right) {
  arena a = ARENA_INIT;
  template_case c =
      template_case_bind(&a, attention(), template_text_of(grouped), "T=bf16 B=1 H=2 G=1 S=3 R=70 D=64",
                         "CONSUMERS=1,BLOCK_N=32,STAGES=2,TURNS=0,OVERLAP=1,HOLD_Q=0,PERSISTENT=0,SPLIT=2");
  run_view views[LIMIT_TENSORS] = {{0}};
  run_view_permuted(&c.p, 3, (int[]){3, 2, 1, 0}, 2, &views[3]);
  template_case_run(&a, &c, views, -1);
  arena_release(&a);
}
END_TEST

/* Scores far apart, keys that a bias hides, and queries that see nothing by it. */
START_TEST(extreme_biases_are_right) {
  static const double mixed[] = {0, 5e4, -5e4, -INFINITY, 1, -INFINITY, -5e4}, hidden_all[] = {-INFINITY},
                      finite[] = {-1e30}; /* weights alike */
  arena a = ARENA_INIT;
  run_view views[LIMIT_TENSORS] = {{0}};
  template_case c = template_case_bind(&a, attention(), biased, "T=bf16 B=1 H=1 S=20 R=75 D=64 E=32",
                                       "CONSUMERS=1,BLOCK_N=32,STAGES=2,OVERLAP=1,TURNS=0");
  const run_view of[] = {{.values = mixed, .n_values = 7},
                         {.values = hidden_all, .n_values = 1},
                         {.values = finite, .n_values = 1}};
  views[3] = of[_i];
  template_case_run(&a, &c, views, 0);
  arena_release(&a);
}
END_TEST

START_TEST(small_problem_is_right) {
  arena a = ARENA_INIT;
  template_case c = template_case_bind(
      &a, attention(), template_text_of(grouped), "T=bf16 B=4 H=32 G=8 S=4096 R=4096 D=64 causal=true",
      "CONSUMERS=2,BLOCK_N=64,STAGES=2,TURNS=1,OVERLAP=1,GROUP=4,PERSISTENT=1");
  template_case_run_reduced(&a, &c);
  arena_release(&a);
}
END_TEST

/* --- how it assembles --- */

static const struct {
  const char *bindings, *settings;
} large[] = {
    {"T=bf16 B=4 H=32 S=4096 R=4096 D=128", "CONSUMERS=2,BLOCK_N=176,STAGES=2,TURNS=1,OVERLAP=2"},
    {"T=bf16 B=4 H=32 S=4096 R=4096 D=128 causal=true", "CONSUMERS=2,BLOCK_N=128,STAGES=2,TURNS=1,OVERLAP=1"},
    {"T=bf16 B=4 H=32 S=4096 R=4096 D=64 causal=true", "CONSUMERS=3,BLOCK_N=128,STAGES=2,TURNS=1,OVERLAP=2"},
    {"T=bf16 B=4 H=32 S=4096 R=4096 D=256", "CONSUMERS=2,BLOCK_N=80,STAGES=2,TURNS=1,OVERLAP=1"},
    {"T=bf16 B=4 H=32 S=4096 R=4096 D=512 causal=true", "CONSUMERS=2,BLOCK_N=64,STAGES=1,TURNS=1,OVERLAP=0"},
};

START_TEST(large_tiles_do_not_spill) {
  arena a = ARENA_INIT;
  template_case c =
      template_case_bind(&a, attention(), template_text_of(flash), large[_i].bindings, large[_i].settings);
  template_case_assemble(&a, &c);
  arena_release(&a);
}
END_TEST

/* --- what it is for --- */

#define HEAD "f(Q: T[B,H,S,D], K: T[B,H,R,D], V: T[B,H,R,E]) -> (O: T[B,H,S,E]) { "
#define A    "A[b,h,q,k] = sum(d) Q[b,h,q,d] * K[b,h,k,d]; "

static const char not_rounded[] = HEAD A "m[b,h,q] = max(k) A[b,h,q,k]; O[b,h,q,e] = sum(k) exp(A[b,h,q,k] - "
                                         "m[b,h,q]) * V[b,h,k,e] }";
static const char other_keys[] = HEAD A "m[b,h,q] = max(k) A[b,h,q,k]; O[b,h,q,e] = sum(k: k <= q) "
                                        "cast<T>(exp(A[b,h,q,k] - m[b,h,q])) * V[b,h,k,e] }";
static const char every_other[] =
    HEAD A "m[b,h,q] = max(k: k % 2 == 0) A[b,h,q,k]; O[b,h,q,e] = sum(k: k % 2 == "
           "0) cast<T>(exp(A[b,h,q,k] - m[b,h,q])) * V[b,h,k,e] }";
static const char no_maximum[] = HEAD A "O[b,h,q,e] = sum(k) cast<T>(exp(A[b,h,q,k] - 1)) * V[b,h,k,e] }";
static const char matmul[] = "f(A: T[M,K], B: T[K,N]) -> (Y: T[M,N]) { Y[m,n] = sum(k) A[m,k] * B[k,n] }";

START_TEST(near_misses_are_refused) {
  static const char small[] = "T=bf16 B=1 H=1 S=8 R=8 D=64 E=64";
  template_refuses(attention(), not_rounded, small, TEMPLATE_DTYPE);
  template_refuses(attention(), other_keys, small, TEMPLATE_OPERATOR);
  template_refuses(attention(), every_other, small, TEMPLATE_OPERATOR);
  template_refuses(attention(), no_maximum, small, TEMPLATE_OPERATOR);
  template_refuses(attention(), matmul, "T=bf16 M=8 N=8 K=8", TEMPLATE_OPERATOR);
  template_refuses(attention(), template_text_of(flash), "T=bf16 B=1 H=1 S=8 R=0 D=64", TEMPLATE_SIZE);
  template_refuses(attention(), template_text_of(flash), "T=bf16 B=1 H=1 S=8 R=8 D=264", TEMPLATE_ALIGNMENT);
  template_refuses(attention(), template_text_of(flash), "T=bf16 B=1 H=1 S=8 R=8 D=640", TEMPLATE_SIZE);
  template_refuses(attention(), template_text_of(flash), "T=bf16 B=1 H=1 S=8 R=8 D=60", TEMPLATE_ALIGNMENT);
}
END_TEST

/* A cluster merges runs of keys once, of tiles that no CTA has another one of. */
START_TEST(misfits_of_clusters_are_refused) {
  static const struct {
    const char *settings;
    template_reason reason;
  } misfits[] = {{"MERGE=2", TEMPLATE_OK},
                 {"MERGE=2,SPLIT=1", TEMPLATE_OK},
                 {"MERGE=2,CLUSTER=2", TEMPLATE_CLUSTER},
                 {"MERGE=2,PERSISTENT=1", TEMPLATE_SCHEDULE},
                 {"MERGE=8", TEMPLATE_REDUNDANT},
                 /* of four steps */};
  static const char start[] =
      "CONSUMERS=1,BLOCK_N=64,STAGES=2,TURNS=0,OVERLAP=1,GROUP=0,PERSISTENT=0,SPLIT=0";
  arena a = ARENA_INIT;
  template_case c =
      template_case_bind(&a, attention(), template_text_of(flash), "T=bf16 B=1 H=1 S=64 R=256 D=256", start);
  for (size_t i = 0; i < COUNT_OF(misfits); i++) {
    config misfit;
    ck_assert_int_eq(config_parse(c.k->space(c.t), misfits[i].settings, &c.c, &misfit, NULL), ARKE_OK);
    ck_assert_int_eq(template_feasible(c.k, &c.p, c.t, &misfit), misfits[i].reason);
  }
  arena_release(&a);
}
END_TEST

/* --- faults --- */

START_TEST(missing_waits_are_found) {
  static const char *const lines[] = {"wgmma.wait_group", "mbarrier.try_wait", "wgmma.fence"};
  arena a = ARENA_INIT;
  template_case c =
      template_case_bind(&a, attention(), template_text_of(flash), "T=bf16 B=1 H=1 S=40 R=150 D=64",
                         "CONSUMERS=1,BLOCK_N=32,STAGES=2,TURNS=0,OVERLAP=1");
  template_case_miss(&a, &c, lines[_i]);
  arena_release(&a);
}
END_TEST

/* CTAs read what others of their cluster have, of which groups have different rows. */
START_TEST(missing_meetings_of_clusters_are_found) {
  static const char *const lines[] = {"barrier.cluster", "bar.sync"};
  arena a = ARENA_INIT;
  template_case c =
      template_case_bind(&a, attention(), template_text_of(flash), "T=bf16 B=1 H=1 S=100 R=150 D=64",
                         "CONSUMERS=2,BLOCK_N=32,STAGES=2,TURNS=0,OVERLAP=1,MERGE=2");
  template_case_miss(&a, &c, lines[_i]);
  arena_release(&a);
}
END_TEST

START_TEST(out_of_memory_is_reported) {
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, attention(), template_text_of(grouped),
                                       "T=bf16 B=1 H=2 G=1 S=40 R=50 D=64 causal=true",
                                       "CONSUMERS=1,BLOCK_N=32,STAGES=2,TURNS=0,OVERLAP=1");
  template_case_fail_allocations(&c);
  arena_release(&a);
}
END_TEST

int main(void) {
  TCase *tests = template_tests("attention");
  tcase_add_loop_test(tests, cases_are_right, 0, (int)COUNT_OF(cases));
  tcase_add_test(tests, views_are_right);
  tcase_add_test(tests, unaligned_outputs_are_right);
  tcase_add_loop_test(tests, extreme_biases_are_right, 0, 3);
  tcase_add_test(tests, small_problem_is_right);
  tcase_add_loop_test(tests, large_tiles_do_not_spill, 0, (int)COUNT_OF(large));
  tcase_add_test(tests, near_misses_are_refused);
  tcase_add_loop_test(tests, missing_waits_are_found, 0, 3);
  tcase_add_test(tests, misfits_of_clusters_are_refused);
  tcase_add_loop_test(tests, missing_meetings_of_clusters_are_found, 0, 2);
  tcase_add_test(tests, out_of_memory_is_reported);
  return template_tests_run("attention", tests);
}
