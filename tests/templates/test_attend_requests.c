/* Attention by warps of requests, on the emulator against the fp64 reference: keys in pages, packed queries,
 * products of two parts; what lies behind a request's end must not matter. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attention_operators.h"
#include "base/random.h"
#include "template_cases.h"
#include "templates/attend.h"

static const kernel_template *attend(void) {
  return template_find("attend");
}

/* Packed queries over pages of any size: chunked prefill. */
#define CHUNKED_A    "0.125 * (sum(d) Q[n,h,d] * K[t[g[n],k / Z],k % Z,h / (H / G),d])"
#define CHUNKED_SEEN ": k / Z < W && k < limit && k < lens[g[n]] && k <= n - qe[g[n]] + lens[g[n]]"
static const char chunked[] =
    "chunked(Q: T[N,H,D], K: T[P,Z,G,D], V: T[P,Z,G,E], t: i32[B,W], qe: i32[B], lens: i32[B]) -> (O: "
    "T[N,H,E], l: f32[N,H]) limit: int = 96 { g[n] = sum(b: qe[b] <= n) 1; " ATTENTION_STATISTICS(
        "n,h", CHUNKED_SEEN,
        CHUNKED_A) "O[n,h,e] = g[n] < B ? " ATTENTION_WEIGHTED("n,h", CHUNKED_SEEN, CHUNKED_A,
                                                               "V[t[g[n],k / Z],k % Z,h / (H / "
                                                               "G),e]") " : 0; l[n,h] = g[n] < B ? x[n,h] "
                                                                        ": -inf }";

/* 8-bit keys and values with scales by head. */
static const char scaled[] =
    "f(Q: T[B,H,S,D], K: U[B,H,R,D], V: U[B,H,R,E], sk: f32[B,H], sv: f32[B,H]) -> (O: T[B,H,S,E]) { "
    "A[b,h,q,k] = 0.1 * sk[b,h] * sum(d) Q[b,h,q,d] * K[b,h,k,d]; " ATTENTION_STATISTICS(
        "b,h,q", "", "A[b,h,q,k]") "O[b,h,q,e] = " ATTENTION_WEIGHTED("b,h,q", "", "A[b,h,q,k]",
                                                                      "V[b,h,k,e] * sv[b,h]") " }";

/* Keys at places that depend on the query: heads are the rows of a tile. */
#define SPARSE_SEEN ": k < N && i[b,q,k] < R"
static const char sparse[] =
    "f(Q: T[B,S,H,D], K: T[B,R,D], V: T[B,R,E], i: i32[B,S,N]) -> (O: T[B,S,H,E]) { A[b,q,h,k] = 0.125 * "
    "sum(d) Q[b,q,h,d] * K[b,i[b,q,k],d]; " ATTENTION_STATISTICS(
        "b,q,h", SPARSE_SEEN, "A[b,q,h,k]") "O[b,q,h,e] = " ATTENTION_WEIGHTED("b,q,h", SPARSE_SEEN,
                                                                               "A[b,q,h,k]",
                                                                               "V[b,i[b,q,k],e]") " }";
/* Keys that requests have or not, by a tensor. */
#define CHOSEN_SEEN ": z[b,k] > 0"
static const char chosen[] =
    "f(Q: T[B,S,H,D], K: T[B,R,D], V: T[B,R,E], z: f32[B,R]) -> (O: T[B,S,H,E]) { A[b,q,h,k] = 0.125 * "
    "sum(d) Q[b,q,h,d] * K[b,k,d]; " ATTENTION_STATISTICS(
        "b,q,h", CHOSEN_SEEN, "A[b,q,h,k]") "O[b,q,h,e] = " ATTENTION_WEIGHTED("b,q,h", CHOSEN_SEEN,
                                                                               "A[b,q,h,k]", "V[b,k,e]") " }";

static const char op_paged_narrow[] =
    "paged(Q: T[B,S,H,D], K: U[P,16,G,D], V: U[P,16,G,E], t: i32[B,W], lens: i32[B]) -> (O: T[B,S,H,E]) "
    "scale: float = 0.125, causal: bool = true, limit: int = 64 { " ATTENTION_STATISTICS(
        "b,q,h", PAGED_SEEN,
        PAGED_A) "O[b,q,h,e] = " ATTENTION_WEIGHTED("b,q,h", PAGED_SEEN, PAGED_A,
                                                    "V[t[b,k / 16],k % 16,h / (H / G),e]") " }";

#define SMALL "CLUSTER=0,BLOCK_M=16,BLOCK_N=16,WARPS_M=1,WARPS_E=1,HOLD_Q=1,"

/* --- what it computes --- */

/* Ends of queries; begins and ends of keys: an empty request on either side, and rows past the last one. */
static const double ends_of_queries[] = {20, 21, 21, 25, 40}, begins_of_keys[] = {0, 30, 40, 40, 57},
                    ends_of_keys[] = {30, 40, 40, 57, 100}, few[] = {3, 3, 3, 3, 3};
/* Tables whose pages come in any order; behind a request's length they name nothing. */
static const double table[] = {3, 0, 5, 1, 6, 2, 999, 999, 4, -7, 999, 999}, lengths[] = {58, 17, 0},
                    longer[] = {64, 20, 11}, chunks[] = {4, 5, 9}, latent_lengths[] = {50, 9},
                    places[] = {7, 19, 0, 20, 3, 3, 12, 1000, 1, 18, 20};

static const struct {
  const char *op, *bindings, *settings;
  template_input inputs[3];
} cases[] = {
    {op_varlen,
     "T=bf16 N=43 M=100 H=2 G=1 D=64 E=64 B=5",
     SMALL "STAGES=2,SETS=2,SPLIT=1",
     {{"qe", TEMPLATE_VALUES(ends_of_queries)},
      {"kb", TEMPLATE_VALUES(begins_of_keys)},
      {"ke", TEMPLATE_VALUES(ends_of_keys)}}},
    {op_varlen,
     "T=f16 N=43 M=110 H=6 G=2 D=64 E=32 B=5 causal=false",
     "CLUSTER=0,BLOCK_M=64,BLOCK_N=32,STAGES=3,WARPS_M=2,WARPS_E=1,SETS=1,HOLD_Q=0,SPLIT=2",
     {{"qe", TEMPLATE_VALUES(ends_of_queries)},
      {"kb", TEMPLATE_VALUES(begins_of_keys)},
      {"ke", TEMPLATE_VALUES(ends_of_keys)}}},
    {op_varlen,
     "T=bf16 N=20 M=100 H=1 G=1 D=20 E=32 B=5",
     SMALL "STAGES=2,SETS=1,SPLIT=2",
     {{"qe", TEMPLATE_VALUES(few)},
      {"kb", TEMPLATE_VALUES(begins_of_keys)},
      {"ke", TEMPLATE_VALUES(ends_of_keys)}}},
    {op_paged,
     "T=bf16 B=3 H=8 G=2 S=1 D=128 E=64 P=7 W=4",
     SMALL "STAGES=3,SETS=1,SPLIT=2",
     {{"lens", TEMPLATE_VALUES(lengths)}, {"t", TEMPLATE_VALUES(table)}}},
    {op_paged,
     "T=f16 B=3 H=4 G=2 S=11 D=64 E=80 P=7 W=4",
     "CLUSTER=0,BLOCK_M=32,BLOCK_N=32,STAGES=2,WARPS_M=2,WARPS_E=1,SETS=2,HOLD_Q=1,SPLIT=1",
     {{"lens", TEMPLATE_VALUES(longer)}, {"t", TEMPLATE_VALUES(table)}}},
    {chunked,
     "T=bf16 N=11 H=4 G=2 D=64 E=64 P=7 Z=24 W=4 B=3",
     SMALL "STAGES=2,SETS=2,SPLIT=2",
     {{"lens", TEMPLATE_VALUES(longer)}, {"t", TEMPLATE_VALUES(table)}, {"qe", TEMPLATE_VALUES(chunks)}}},
    {op_paged_narrow,
     "T=bf16 U=e4m3 B=3 H=8 G=2 S=1 D=64 E=32 P=7 W=4",
     SMALL "STAGES=3,SETS=1,SPLIT=2",
     {{"lens", TEMPLATE_VALUES(lengths)}, {"t", TEMPLATE_VALUES(table)}}},
    {chunked,
     "T=bf16 N=9 H=2 G=2 D=33 E=30 P=7 Z=24 W=4 B=3",
     SMALL "STAGES=2,SETS=1,SPLIT=1",
     {{"lens", TEMPLATE_VALUES(longer)}, {"t", TEMPLATE_VALUES(table)}, {"qe", TEMPLATE_VALUES(chunks)}}},
    {sparse,
     "T=bf16 B=2 S=3 H=5 R=20 N=35 D=64 E=32",
     SMALL "STAGES=2,SETS=2,SPLIT=2",
     {{"i", TEMPLATE_VALUES(places)}}},
    {sparse,
     "T=bf16 B=1 S=2 H=5 R=20 N=35 D=33 E=32",
     SMALL "STAGES=2,SETS=1,SPLIT=1",
     {{"i", TEMPLATE_VALUES(places)}}},
    {chosen, "T=f16 B=2 S=3 H=5 R=60 D=32 E=32", SMALL "STAGES=2,SETS=2,SPLIT=1", {{0}}},
    {scaled, "T=bf16 U=e4m3 B=1 H=2 S=3 R=40 D=64 E=48", SMALL "STAGES=2,SETS=2,SPLIT=1", {{0}}},
    {scaled,
     "T=f16 U=i8 B=1 H=1 S=3 R=70 D=72 E=40",
     "CLUSTER=0,BLOCK_M=16,BLOCK_N=32,STAGES=3,WARPS_M=1,WARPS_E=2,SETS=1,HOLD_Q=0,SPLIT=2",
     {{0}}},
    {scaled, "T=f16 U=e5m2 B=1 H=1 S=3 R=30 D=33 E=48", SMALL "STAGES=2,SETS=1,SPLIT=1", {{0}}},
    {op_latent,
     "T=bf16 B=2 S=2 H=9 R=50 C=128 F=48",
     "CLUSTER=0,BLOCK_M=32,BLOCK_N=32,STAGES=2,WARPS_M=1,WARPS_E=2,SETS=1,HOLD_Q=0,SPLIT=2",
     {{"lens", TEMPLATE_VALUES(latent_lengths)}}},
    {op_latent,
     "T=f16 B=2 S=1 H=16 R=50 C=64 F=24",
     SMALL "STAGES=2,SETS=2,SPLIT=1",
     {{"lens", TEMPLATE_VALUES(latent_lengths)}}},
};

START_TEST(cases_are_right) {
  arena a = ARENA_INIT;
  run_view views[LIMIT_TENSORS] = {{0}};
  template_case c = template_case_bind(&a, attend(), cases[_i].op, cases[_i].bindings, cases[_i].settings);
  template_fill_views(&c.p, cases[_i].inputs, 3, views);
  template_case_run(&a, &c, views, 0);
  arena_release(&a);
}
END_TEST

/* Tensors that no copy can take, in pages too. */
START_TEST(views_are_right) {
  arena a = ARENA_INIT;
  run_view views[LIMIT_TENSORS] = {{0}};
  template_case c = template_case_bind(&a, attend(), op_paged, "T=bf16 B=3 H=4 G=2 S=2 D=32 E=32 P=7 W=4",
                                       SMALL "STAGES=2,SETS=1,SPLIT=2");
  for (int i = 0; i < 3; i++) run_view_permuted(&c.p, i, (int[]){2, 3, 1, 0}, 3, &views[i]);
  template_fill_views(
      &c.p, (const template_input[]){{"lens", TEMPLATE_VALUES(lengths)}, {"t", TEMPLATE_VALUES(table)}}, 2,
      views);
  template_case_run(&a, &c, views, 1);
  arena_release(&a);
}
END_TEST

/* Rows of K and V that no request has are NaN: 0 times NaN is NaN, so weights of 0 do not hide them. */
START_TEST(keys_of_nobody_do_not_matter) {
  static const double begins[] = {0, 50, 60, 60, 67}, ends[] = {43, 51, 60, 65, 90};
  static double rows[100 * 64];
  arena a = ARENA_INIT;
  run_view views[LIMIT_TENSORS] = {{0}};
  template_case c =
      template_case_bind(&a, attend(), op_varlen, "T=bf16 N=43 M=100 H=2 G=1 D=64 E=64 B=5 causal=false",
                         SMALL "STAGES=2,SETS=2,SPLIT=1");
  for (int row = 0; row < 100; row++) {
    bool known = false;
    for (size_t r = 0; r < COUNT_OF(ends); r++) known = known || (row >= begins[r] && row < ends[r]);
    for (int i = 0; i < 64; i++)
      rows[row * 64 + i] = known ? random_normal(5, (uint64_t)(row * 64 + i)) : (double)NAN;
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
      template_case_bind(&a, attend(), op_paged, "T=bf16 B=3 H=2 G=1 S=5 D=64 E=64 P=7 W=4 causal=false",
                         SMALL "STAGES=2,SETS=2,SPLIT=2");
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

START_TEST(small_problems_are_right) {
  static const struct {
    const char *op, *bindings, *settings;
  } of[] = {{op_latent, "T=bf16 B=8 S=1 H=128 R=4096 C=64 F=16",
             "CLUSTER=0,BLOCK_M=64,BLOCK_N=16,STAGES=2,WARPS_M=4,WARPS_E=1,SETS=1,HOLD_Q=0,SPLIT=2"}};
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, attend(), of[_i].op, of[_i].bindings, of[_i].settings);
  template_case_run_reduced(&a, &c);
  arena_release(&a);
}
END_TEST

/* --- how it assembles --- */

static const struct {
  const char *op, *bindings;
} large[] = {
    {op_paged, "T=bf16 B=32 S=1 H=32 G=8 D=128 E=128 P=8192 W=256 limit=4096"},
    {op_latent, "T=bf16 B=32 S=1 H=128 R=8192 C=512 F=64"},
    {op_varlen, "T=bf16 N=8192 M=8192 H=64 G=8 D=128 E=128 B=4"},
};

START_TEST(large_tiles_do_not_spill) {
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, attend(), large[_i].op, large[_i].bindings, "");
  template_case_assemble(&a, &c);
  arena_release(&a);
}
END_TEST

int main(void) {
  TCase *tests = template_tests("attend_requests");
  tcase_add_loop_test(tests, cases_are_right, 0, (int)COUNT_OF(cases));
  tcase_add_test(tests, views_are_right);
  tcase_add_test(tests, keys_of_nobody_do_not_matter);
  tcase_add_test(tests, pages_of_nobody_do_not_matter);
  tcase_add_loop_test(tests, small_problems_are_right, 0, 1);
  tcase_add_loop_test(tests, large_tiles_do_not_spill, 0, (int)COUNT_OF(large));
  return template_tests_run("attend_requests", tests);
}
