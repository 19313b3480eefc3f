/* Attention's gradients by warps, on the emulator against the fp64 reference: heads of any size, odd lengths,
 * masks, shared heads, scores that are expressions, packed requests, tensors of any strides. */
#include <check.h>
#include <string.h>

#include "backward_forms.h"
#include "template_cases.h"
#include "templates/backward_warps.h"

static const kernel_template *warps(void) {
  return template_find("backward_warps");
}

/* --- operators --- */

static const char dense[] = "attention_backward", packed[] = "varlen_attention_backward";

/* Heads of keys for each of queries, rows of heads next to one another; e is given, and l, with log2. */
static const char alike[] =
    "f(Q: T[B,S,H,D], K: T[B,R,H,D], V: T[B,R,H,D], G: T[B,S,H,D], l: f32[B,H,S], e: f32[B,H,S]) -> (Y: "
    "T[B,S,H,D], X: T[B,R,H,D], Z: T[B,R,H,D]) { "
    "P[b,h,q,k] = exp2((sum(d) K[b,k,h,d] * Q[b,q,h,d]) * 0.2 - l[b,h,q]); "
    "W[b,h,q,k] = cast<T>(((sum(d) V[b,k,h,d] * G[b,q,h,d]) - e[b,h,q]) * P[b,h,q,k]); "
    "Y[b,q,h,d] = sum(k: q >= k) K[b,k,h,d] * W[b,h,q,k]; "
    "X[b,k,h,d] = (sum(q: k <= q) W[b,h,q,k] * Q[b,q,h,d]) / 2; "
    "Z[b,k,h,d] = sum(q: k <= q) cast<T>(P[b,h,q,k]) * G[b,q,h,d] }";

/* SUMS: what is the same of all below. */
#define SUMS(seen)                                                                                           \
  "X[b,h,q,d] = 0.125 * sum(k: " seen                                                                        \
  ") W[b,h,q,k] * K[b,h / (H / G),k,d]; Y[b,g,k,d] = 0.125 * sum(h: h / (H / G) == g) sum(q: " seen          \
  ") W[b,h,q,k] * Q[b,h,q,d]; Z[b,g,k,x] = sum(h: h / (H / G) == g) sum(q: " seen                            \
  ") cast<T>(P[b,h,q,k]) * dO[b,h,q,x] }"
#define HEAD(more)                                                                                           \
  "f(Q: T[B,H,S,D], K: T[B,G,R,D], V: T[B,G,R,E], O, dO: T[B,H,S,E], l: f32[B,H,S]" more ") -> (X: "         \
  "T[B,H,S,D], Y: T[B,G,R,D], Z: T[B,G,R,E]) { e[b,h,q] = sum(x) O[b,h,q,x] * dO[b,h,q,x]; s[b,h,q,k] = "    \
  "0.125 * sum(d) Q[b,h,q,d] * K[b,h / (H / G),k,d]; w[b,h,q,k] = sum(x) dO[b,h,q,x] * V[b,h / (H / "        \
  "G),k,x]; "
#define SLOPES "W[b,h,q,k] = cast<T>(P[b,h,q,k] * (w[b,h,q,k] - e[b,h,q])); "

/* A bias for each score, and one that grows with the distance. */
static const char biased[] =
    HEAD(", u: T[H,S,R]") "P[b,h,q,k] = exp(s[b,h,q,k] + u[h,q,k] - l[b,h,q]); " SLOPES SUMS("k <= q");
static const char alibi[] =
    HEAD(", m: f32[H]") "P[b,h,q,k] = exp(s[b,h,q,k] - m[h] * (q - k) - l[b,h,q]); " SLOPES SUMS("k <= q");
/* Pairs that a tensor names. */
static const char chosen[] =
    HEAD(", c: bool[B,S,R]") "P[b,h,q,k] = exp(s[b,h,q,k] - l[b,h,q]); " SLOPES SUMS("c[b,q,k] && k <= q");
/* Weights that are dropped, of scores without a softmax. */
static const char dropped[] =
    HEAD(", c: T[B,H,S,R]") "p[b,h,q,k] = sigmoid(s[b,h,q,k] - l[b,h,q] / 7); P[b,h,q,k] = p[b,h,q,k] * "
                            "c[b,h,q,k]; W[b,h,q,k] = "
                            "cast<T>(p[b,h,q,k] * (c[b,h,q,k] * w[b,h,q,k] - e[b,h,q])); " SUMS("k < R");

/* --- what it computes --- */

#define Q(warps, block, stages) "Q_WARPS=" #warps ",Q_BLOCK=" #block ",Q_STAGES=" #stages
#define K(warps, block, stages) ",K_WARPS=" #warps ",K_BLOCK=" #block ",K_STAGES=" #stages

static const template_class classes[] = {
    {dense, "T=bf16 B=1 H=2 G=2 S=70 R=100 D=64 E=64", Q(4, 32, 2) K(4, 32, 2)},
    {dense, "T=f16 B=2 H=4 G=2 S=45 R=39 D=64 E=96 causal=true", Q(2, 16, 3) K(1, 16, 3)},
    {dense, "T=bf16 B=1 H=3 G=1 S=35 R=70 D=80 E=80 left=20 right=10 base2=true", Q(1, 64, 2) K(2, 64, 2)},
    /* rows of 8 and of 4 bytes; of a single element, which are not copied */
    {alike, "T=f16 B=1 H=2 S=70 R=71 D=36", Q(2, 32, 2) K(2, 16, 2)},
    {dense, "T=bf16 B=1 H=2 G=1 S=20 R=17 D=30 E=61 causal=true", Q(1, 16, 2) K(1, 16, 2)},
    /* queries that see no key; keys that no query sees */
    {dense, "T=bf16 B=1 H=1 G=1 S=80 R=20 D=64 E=32 causal=true", Q(2, 16, 2) K(1, 32, 2)},
    {dense, "T=f16 B=1 H=2 G=1 S=20 R=90 D=32 E=64 left=9", Q(1, 32, 2) K(2, 16, 2)},
    /* dK and dV by kernels of their own */
    {dense, "T=bf16 B=1 H=2 G=1 S=40 R=35 D=256 E=256 causal=true", Q(2, 16, 2) K(2, 16, 2)},
    /* scores that are expressions */
    {biased, "T=bf16 B=1 H=2 G=1 S=37 R=40 D=64 E=64", Q(2, 32, 2) K(1, 32, 2)},
    {alibi, "T=f16 B=1 H=2 G=2 S=37 R=40 D=32 E=64", Q(2, 16, 2) K(2, 32, 2)},
    {chosen, "T=bf16 B=1 H=2 G=1 S=37 R=40 D=64 E=48", Q(2, 32, 2) K(1, 16, 2)},
    {dropped, "T=bf16 B=1 H=2 G=1 S=17 R=30 D=64 E=48", Q(2, 32, 2) K(1, 16, 2)},
    {dense, "T=f16 B=1 H=2 G=1 S=45 R=39 D=64 E=64 softcap=1.5 causal=true", Q(2, 16, 2) K(1, 16, 2)},
};

/* An element of the reference is a sum over all heads and queries of sums: a sample is compared. */
enum { SAMPLE = 150 };

static template_case bind(arena *a, const char *op, const char *bindings, const char *settings) {
  template_case c = template_case_bind(a, warps(), template_text_of(op), bindings, settings);
  c.sample = SAMPLE;
  return c;
}

START_TEST(classes_are_right) {
  arena a = ARENA_INIT;
  template_case c = bind(&a, classes[_i].text, classes[_i].bindings, classes[_i].settings);
  template_case_run(&a, &c, NULL, 0);
  arena_release(&a);
}
END_TEST

/* Heads next to one another within a position, and rows with gaps; rows that do not begin at 16 bytes; rows
 * across memory, for which there are kernels that take any. */
START_TEST(views_are_right) {
  static const struct {
    int order[4], padding, offset, way;
  } VIEWS[] = {
      {{3, 1, 2, 0}, 8, 0, 0}, {{3, 2, 1, 0}, 1, 0, 1}, {{2, 3, 1, 0}, 0, 0, 1}, {{3, 2, 1, 0}, 0, 1, 1}};
  arena a = ARENA_INIT;
  template_case c = bind(&a, dense, "T=bf16 B=2 H=4 G=2 S=19 R=40 D=32 E=64 causal=true softcap=5",
                         Q(1, 16, 2) K(1, 16, 2));
  for (size_t v = 0; v < COUNT_OF(VIEWS); v++) {
    run_view views[LIMIT_TENSORS] = {{0}};
    for (int i = 0; i < c.p.op->n_args; i++) {
      if (i == 5) continue; /* lse */
      run_view_permuted(&c.p, i, VIEWS[v].order, VIEWS[v].padding * i, &views[i]);
      views[i].offset = VIEWS[v].offset;
    }
    template_case_run(&a, &c, views, VIEWS[v].way);
  }
  arena_release(&a);
}
END_TEST

/* A kernel that was made for more serves nothing, too: sums over nothing are 0. */
START_TEST(empty_sums_are_zero) {
  static const char *const EMPTY[] = {"T=bf16 B=1 H=2 G=1 S=9 R=0 D=32 E=32",
                                      "T=bf16 B=1 H=2 G=1 S=0 R=9 D=32 E=32"};
  arena a = ARENA_INIT;
  template_case c = bind(&a, dense, "T=bf16 B=1 H=2 G=1 S=30 R=30 D=32 E=32", Q(1, 16, 2) K(1, 16, 2));
  lowered l = template_case_lower(&a, &c);
  for (size_t i = 0; i < COUNT_OF(EMPTY); i++) {
    template_case empty = bind(&a, dense, EMPTY[i], Q(1, 16, 2) K(1, 16, 2));
    template_case_run_kernel(&empty, l, NULL, 0);
  }
  arena_release(&a);
}
END_TEST

/* The large one needs 64-bit offsets, and its kernel is run on the small one, too. */
START_TEST(small_problem_is_right) {
  arena a = ARENA_INIT;
  template_case c =
      bind(&a, dense, "T=bf16 B=64 H=64 G=8 S=8192 R=8192 D=64 E=64 causal=true", Q(2, 32, 3) K(1, 32, 2));
  template_case_run_reduced(&a, &c);
  arena_release(&a);
}
END_TEST

/* --- how it assembles --- */

#define LONG "B=2 H=32 G=8 S=2048 R=2048 "

static const struct {
  const char *bindings, *settings;
} large[] = {
    {"T=bf16 " LONG "D=128 E=128 causal=true softcap=20", Q(8, 64, 2) K(8, 32, 2)},
    {"T=f16 " LONG "D=256 E=256 left=300 right=10", Q(4, 16, 2) K(4, 16, 2)},
};

START_TEST(large_tiles_do_not_spill) {
  arena a = ARENA_INIT;
  template_case c = bind(&a, dense, large[_i].bindings, large[_i].settings);
  c.first_way = true;
  template_case_assemble(&a, &c);
  arena_release(&a);
}
END_TEST

/* Sums stay in registers, in the order of the text. */
START_TEST(order_of_sums_is_fixed) {
  static const char *const updates[] = {"\tatom.", "\tred.", "cp.reduce"};
  arena a = ARENA_INIT;
  template_case c =
      bind(&a, dense, "T=bf16 B=1 H=4 G=1 S=30 R=30 D=64 E=64 causal=true", Q(1, 16, 2) K(1, 16, 2));
  lowered l = template_case_lower(&a, &c);
  ck_assert_int_eq(l.recipe.n_launches, 3);
  for (size_t i = 0; i < COUNT_OF(updates); i++) ck_assert_ptr_null(strstr(l.ptx, updates[i]));
  arena_release(&a);
}
END_TEST

/* --- packed requests --- */

/* Requests without queries, without keys, and longer than a tile; queries and keys past the last one. */
static const double cu_q[] = {0, 20, 20, 21, 25, 60}, cu_k[] = {0, 30, 40, 40, 57, 75}, all_q[] = {0, 19, 19},
                    all_k[] = {0, 0, 33};

static const struct {
  const char *op, *bindings, *settings;
  template_input inputs[2];
} requests[] = {
    {packed,
     "T=bf16 N=63 M=80 H=4 G=2 D=64 E=64 B=5 causal=true",
     Q(2, 32, 2) K(2, 16, 2),
     {{"cu_q", TEMPLATE_VALUES(cu_q)}, {"cu_k", TEMPLATE_VALUES(cu_k)}}},
    {packed,
     "T=f16 N=63 M=80 H=2 G=2 D=40 E=64 B=5 left=9 right=3 softcap=2",
     Q(1, 16, 2) K(1, 32, 3),
     {{"cu_q", TEMPLATE_VALUES(cu_q)}, {"cu_k", TEMPLATE_VALUES(cu_k)}}},
    {packed,
     "T=bf16 N=19 M=33 H=2 G=1 D=64 E=33 B=2 base2=true",
     Q(1, 16, 2) K(1, 16, 2),
     {{"cu_q", TEMPLATE_VALUES(all_q)}, {"cu_k", TEMPLATE_VALUES(all_k)}}},
};

START_TEST(requests_are_right) {
  arena a = ARENA_INIT;
  run_view views[LIMIT_TENSORS] = {{0}};
  template_case c = bind(&a, requests[_i].op, requests[_i].bindings, requests[_i].settings);
  template_fill_views(&c.p, requests[_i].inputs, 2, views);
  template_case_run(&a, &c, views, 0);
  arena_release(&a);
}
END_TEST

/* --- what it is for --- */

static const backward_form forms[] = {
    {packed, "T=bf16 N=9 M=9 H=4 G=2 D=64 E=32 B=2 causal=true",
     "batch h; h of i; query n; key k; depth d; wide x; Q; K; V; dO; dQ; dK; dV; bf16; scale 0.125; 3 "
     "bounds; "
     "requests of queries; requests of keys"},
    {dense, "T=f16 B=1 H=4 G=4 S=64 R=64 D=64 E=64 softcap=3",
     "batch b h; h of g; query q; key k; depth d; wide x; Q; K; V; dO; dQ; dK; dV; f16; scale 0.0416667; cap "
     "3; 0 bounds"},
    {chosen, "T=bf16 B=1 H=4 G=4 S=64 R=64 D=64 E=64",
     "batch b h; h of g; query q; key k; depth d; wide x; Q; K; V; dO; X; Y; Z; bf16; scale 0.125; 1 bounds; "
     "1 "
     "conditions"},
};

START_TEST(forms_are_recognised) {
  backward_form_check(&forms[_i]);
}
END_TEST

START_TEST(near_misses_are_refused) {
  static const char small[] = "T=bf16 B=1 H=2 G=2 S=8 R=8 D=64 E=64";
  /* weights of two products; a gradient of three sums */
  template_refuses(warps(),
                   HEAD("") "P[b,h,q,k] = exp(s[b,h,q,k] + w[b,h,q,k] - l[b,h,q]); " SLOPES SUMS("k <= q"),
                   small, TEMPLATE_OPERATOR);
  template_refuses(
      warps(),
      HEAD("") "P[b,h,q,k] = exp(s[b,h,q,k] - l[b,h,q]); W[b,h,q,k] = cast<T>(P[b,h,q,k] * (w[b,h,q,k] - "
               "e[b,h,q] - sum(y) O[b,h,q,y])); " SUMS("k <= q"),
      small, TEMPLATE_OPERATOR);
  template_refuses(warps(), template_text_of("flash_attention"), "T=bf16 B=1 H=1 S=8 R=8 D=64",
                   TEMPLATE_OPERATOR);
  template_refuses(warps(), template_text_of(dense), "T=bf16 B=1 H=2 G=2 S=8 R=8 D=64 E=264", TEMPLATE_SIZE);
}
END_TEST

/* --- faults --- */

START_TEST(missing_waits_are_found) {
  static const char *const lines[] = {"cp.async.wait_group", "bar.sync", "griddepcontrol.wait"};
  arena a = ARENA_INIT;
  template_case c = bind(&a, dense, "T=bf16 B=1 H=2 G=1 S=40 R=90 D=32 E=32", Q(2, 16, 2) K(2, 16, 2));
  c.first_way = true;
  template_case_miss(&a, &c, lines[_i]);
  arena_release(&a);
}
END_TEST

START_TEST(out_of_memory_is_reported) {
  arena a = ARENA_INIT;
  template_case c =
      bind(&a, packed, "T=bf16 N=20 M=20 H=2 G=1 D=16 E=16 B=3 causal=true", Q(1, 16, 2) K(1, 16, 2));
  c.first_way = true;
  template_case_fail_allocations(&c);
  arena_release(&a);
}
END_TEST

int main(void) {
  TCase *tests = template_tests("backward_warps");
  tcase_add_loop_test(tests, forms_are_recognised, 0, (int)COUNT_OF(forms));
  tcase_add_test(tests, near_misses_are_refused);
  tcase_add_loop_test(tests, classes_are_right, 0, (int)COUNT_OF(classes));
  tcase_add_test(tests, views_are_right);
  tcase_add_test(tests, empty_sums_are_zero);
  tcase_add_test(tests, small_problem_is_right);
  tcase_add_loop_test(tests, large_tiles_do_not_spill, 0, (int)COUNT_OF(large));
  tcase_add_test(tests, order_of_sums_is_fixed);
  tcase_add_loop_test(tests, requests_are_right, 0, (int)COUNT_OF(requests));
  tcase_add_loop_test(tests, missing_waits_are_found, 0, 3);
  tcase_add_test(tests, out_of_memory_is_reported);
  return template_tests_run("backward_warps", tests);
}
