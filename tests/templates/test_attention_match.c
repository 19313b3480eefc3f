/* Which operators are attention, what plays which part in them, and near misses. */
#include <check.h>
#include <stdlib.h>

#include "attention_operators.h"
#include "templates/attention_match.h"

/* Rows of all heads together, one head of keys; powers of two; weights divided before they are applied. */
static const char one_head[] =
    "f(Q: T[B,S,H,D], K: T[B,R,D], V: T[B,R,D]) -> (O: T[B,S,H,D], u: f32[B,S,H]) scale: float = 0.2 { "
    "P[b,q,h,k] = sum(d) scale * Q[b,q,h,d] * K[b,k,d]; A[b,q,h,k] = P[b,q,h,k]; m[b,q,h] = max(k: k <= q + "
    "R - S) A[b,q,h,k]; s[b,q,h] = sum(k: k <= q + R - S) exp2(A[b,q,h,k] - m[b,q,h]); O[b,q,h,d] = sum(k: k "
    "<= q + R - S) cast<T>(exp2(A[b,q,h,k] - m[b,q,h])) / s[b,q,h] * V[b,k,d]; u[b,q,h] = m[b,q,h] + "
    "log2(s[b,q,h]) }";

/* Packed queries of paged keys. */
#define BOTH_A    "0.125 * (sum(d) Q[n,h,d] * K[t[g[n],k / 16],k % 16,h / (H / G),d])"
#define BOTH_SEEN ": k < limit && k < lens[g[n]] && k <= n - qe[g[n]] + lens[g[n]]"
static const char varlen_paged[] =
    "f(Q: T[N,H,D], K: T[P,16,G,D], V: T[P,16,G,E], qe: i32[B], t: i32[B,W], lens: i32[B]) -> (O: T[N,H,E]) "
    "limit: int = 64 { g[n] = sum(b: qe[b] <= n) 1; " ATTENTION_STATISTICS(
        "n,h", BOTH_SEEN, BOTH_A) "O[n,h,e] = g[n] < B ? " ATTENTION_WEIGHTED("n,h", BOTH_SEEN, BOTH_A,
                                                                              "V[t[g[n],k / 16],k % 16,h / "
                                                                              "(H / G),e]") " : 0 }";

/* Keys that lie by requests, in pages of their own; values where a table says. */
#define OWN_A "0.125 * (sum(d) Q[b,q,h,d] * K[b,k / Z,k % Z,h / (H / G),d])"
static const char own_pages[] =
    "f(Q: T[B,S,H,D], K: T[B,W,Z,G,D], V: T[P,Z,G,E], t: i32[B,W], lens: i32[B]) -> (O: T[B,S,H,E]) "
    "{ " ATTENTION_STATISTICS("b,q,h", ": k < lens[b]", OWN_A) "O[b,q,h,e] = " ATTENTION_WEIGHTED(
        "b,q,h", ": k < lens[b]", OWN_A, "V[t[b,k / Z],k % Z,h / (H / G),e]") " }";

/* Keys at places that depend on the query: heads are the rows of a tile. */
static const char gathered[] =
    "f(Q: T[B,S,H,D], K: T[B,R,D], V: T[B,R,E], i: i32[B,S,N]) -> (O: T[B,S,H,E]) { A[b,q,h,k] = 0.125 * "
    "sum(d) "
    "Q[b,q,h,d] * K[b,i[b,q,k],d]; " ATTENTION_STATISTICS(
        "b,q,h", ": k < N && i[b,q,k] < R",
        "A[b,q,h,k]") "O[b,q,h,e] = " ATTENTION_WEIGHTED("b,q,h", ": k < N && i[b,q,k] < R", "A[b,q,h,k]",
                                                         "V[b,i[b,q,k],e]") " }";

/* 8-bit keys and values with scales by head. */
static const char scaled[] =
    "f(Q: U[B,H,S,D], K: U[B,H,R,D], V: U[B,H,R,E], sq: f32[B,H], sk: f32[B,H], sv: f32[B,H]) -> (O: "
    "T[B,H,S,E]) "
    "{ A[b,h,q,k] = sq[b,h] * sk[b,h] * sum(d) Q[b,h,q,d] * K[b,h,k,d]; " ATTENTION_STATISTICS(
        "b,h,q", "", "A[b,h,q,k]") "O[b,h,q,e] = " ATTENTION_WEIGHTED("b,h,q", "", "A[b,h,q,k]",
                                                                      "V[b,h,k,e] * sv[b,h]") " }";

/* The match of an operator as text, or the sentence that refuses it. */
static void match(const char *text, const char *bindings, strbuf *out) {
  arena a = ARENA_INIT;
  arke_error err = ARKE_ERROR_INIT;
  const ir_op *op;
  ir_problem p;
  attention_match m;
  const char *nearest;
  const ir_catalogue_entry *known = ir_catalogue_find(text, &nearest);
  ck_assert_msg(ir_op_parse(&a, known ? known->text : text, &op, &err) == ARKE_OK, "%s", err.text);
  ck_assert_msg(ir_problem_bind(op, bindings, &p, &err) == ARKE_OK, "%s", err.text);
  if (attention_match_op(&p, &a, &m, out, NULL) == TEMPLATE_OK) attention_print(&m, out);
  arena_release(&a);
}

static const struct {
  const char *op, *bindings, *expected;
} forms[] = {
    {"flash_attention", "T=bf16 B=1 H=2 S=64 R=64 D=64",
     "batch b h; query q; key k; wide d; depth d; Q Q; K K; V V; O O; bf16; scale 0.125; guarded; packs q"},
    {"flash_attention", "T=bf16 B=1 H=2 S=64 R=64 D=64 causal=true left=5 right=3 softcap=20",
     "batch b h; query q; key k; wide d; depth d; Q Q; K K; V V; O O; bf16; scale 20 of an expression; "
     "guarded; below +1 q -1 S +1 R +1; from +1 q -1 S +1 R -5; below +1 q -1 S +1 R +4; packs q"},
    {"grouped_query_attention", "T=f16 B=1 H=2 G=1 S=64 R=64 D=64",
     "batch b h; query q; key k; wide d; depth d; Q Q; K K; V V; O O; f16; scale 0.125; guarded; G divides "
     "H; packs q some h"},
    {one_head, "T=f16 B=1 H=2 S=64 R=64 D=64",
     "batch b h; query q; key k; wide d; depth d; Q Q; K K; V V; O O; f16; scale 0.2; base 2; below +1 q -1 "
     "S +1 R +1; packs q h"},
    {"varlen_attention", "T=bf16 N=10 M=20 H=4 G=2 D=64 E=64 B=3 causal=true left=9",
     "batch h; query n; key k; wide e; depth d; Q Q; K K; V V; O O; bf16; scale 0.125; guarded; requests by "
     "cu_q; from +1 cu_k +0; below +1 cu_k +0; below +1 n -1 cu_q +1 cu_k +1; from +1 n -1 cu_q +1 cu_k -9; "
     "G divides H; packs n some h"},
    {"paged_attention", "T=bf16 B=2 S=1 H=4 G=2 D=64 E=32 P=7 Z=16 W=3",
     "batch b h; query q; key k; wide e; depth d; Q Q; K K by pages of Z of table; V V by pages of Z of "
     "table; O O; bf16; scale 0.125; guarded; below +1 lens +0; G divides H; packs q some h"},
    {"paged_varlen_attention", "T=bf16 N=10 H=4 G=2 D=64 E=32 P=7 Z=16 W=3 B=2 causal=true",
     "batch h; query n; key k; wide e; depth d; Q Q; K K by pages of Z of table; V V by pages of Z of table; "
     "O O; bf16; scale 0.125; guarded; requests by cu_q; below +1 lens +0; below +1 n -1 cu_q +1 lens +1; G "
     "divides H; packs n some h"},
    {"multi_latent_attention", "T=bf16 B=2 S=1 H=4 R=20 C=64 E=16",
     "batch b q; query h; key k; wide c; depth c; Q Q; K KV; depth e; Q Qr; K Kr; V KV; O O; bf16; scale "
     "0.111803; guarded; below +1 lens +0; packs q h"},
    {"paged_latent_attention", "T=bf16 B=2 S=1 H=4 C=64 E=16 P=5 Z=8 W=2",
     "batch b q; query h; key k; wide c; depth c; Q Q; K KV by pages of Z of table; depth e; Q Qr; K Kr by "
     "pages of Z of table; V KV by pages of Z of table; O O; bf16; scale 0.111803; guarded; below +1 lens "
     "+0; packs q h"},
    {"sink_attention", "T=bf16 B=1 H=2 G=2 S=64 R=64 D=64 E=64",
     "batch b h; query q; key k; wide e; depth d; Q Q; K K; V V; O O; bf16; scale 0.125; guarded; G divides "
     "H; packs q some h"},
    {op_varlen, "T=bf16 N=10 M=20 H=4 G=2 D=64 E=64 B=3",
     "batch h; query n; key k; wide e; depth d; Q Q; K K; V V; O O; bf16; scale 0.125; guarded; requests by "
     "qe; from +1 kb +0; below +1 ke +0; below +1 n -1 qe +1 ke +1; G divides H; packs n some h"},
    {varlen_paged, "T=bf16 N=10 P=20 H=4 G=2 D=64 E=64 B=3 W=2",
     "batch h; query n; key k; wide e; depth d; Q Q; K K by pages of 16 of t; V V by pages of 16 of t; O O; "
     "bf16; scale 0.125; guarded; requests by qe; below +64; below +1 lens +0; below +1 n +1 lens -1 qe +1; "
     "G divides H; packs n some h"},
    {op_paged, "T=bf16 B=2 S=1 H=4 G=2 D=64 E=32 P=7 W=3",
     "batch b h; query q; key k; wide e; depth d; Q Q; K K by pages of 16 of t; V V by pages of 16 of t; O "
     "O; bf16; scale 0.125; guarded; below +64; below +1 lens +0; below +1 q -1 S +1 lens +1; G divides H; "
     "packs q some h"},
    {own_pages, "T=bf16 B=2 S=1 H=4 G=2 D=64 E=32 P=7 Z=16 W=3",
     "batch b h; query q; key k; wide e; depth d; Q Q; K K by pages of Z; V V by pages of Z of t; O O; bf16; "
     "scale 0.125; guarded; below +1 lens +0; G divides H; packs q some h"},
    {op_latent, "T=bf16 B=2 S=1 H=4 R=20 C=64 F=16",
     "batch b h; query q; key k; wide c; depth c; Q Q; K KV; depth r; Q Qr; K Kr; V KV; O O; bf16; scale "
     "0.125; guarded; below +1 lens +0; below +1 q -1 S +1 lens +1; packs q h"},
    {op_sinks, "T=bf16 B=1 H=2 S=64 R=64 D=64",
     "batch b h; query q; key k; wide d; depth d; Q Q; K K; V V; O O; bf16; scale 0.125; guarded; below +1 q "
     "-1 S +1 R +1; packs q"},
    {gathered, "T=bf16 B=1 S=4 H=8 R=30 N=10 D=64 E=64",
     "batch b q; query h; key k; wide e; depth d; Q Q; K K anywhere; V V anywhere; O O; bf16; scale 0.125; "
     "guarded; 1 conditions; packs h"},
    {scaled, "T=bf16 U=e4m3 B=1 H=2 S=8 R=8 D=64 E=64",
     "batch b h; query q; key k; wide e; depth d; Q Q; K K; V V; O O; bf16; scale 1 times 1 factors "
     "of rows; 1 factors of values; guarded; packs q"},
    {"varlen_fp8_attention", "T=bf16 U=e4m3 N=10 M=20 H=4 G=2 D=64 E=64 B=3",
     "batch h; query n; key k; wide e; depth d; Q Q; K K; V V; O O; f16; scale 1 times 1 factors of "
     "rows; guarded; requests by cu_q; from +1 cu_k +0; below +1 cu_k +0; G divides H; packs n some h"},
    {"grouped_query_fp8_attention", "T=bf16 U=e4m3 B=1 S=10 R=20 H=4 G=2 D=64 E=64 softcap=2",
     "batch b h; query q; key k; wide e; depth d; Q Q; K K; V V; O O; f16; scale 2 of an expression; "
     "guarded; G divides H; packs q some h"},
};

#define HEAD "f(Q: T[B,H,S,D], K: T[B,H,R,D], V: T[B,H,R,E]) -> (O: T[B,H,S,E]) { "
#define A    "A[b,h,q,k] = sum(d) Q[b,h,q,d] * K[b,h,k,d]; "

static const char other_keys[] = HEAD A "m[b,h,q] = max(k) A[b,h,q,k]; O[b,h,q,e] = sum(k: k <= q) "
                                        "cast<T>(exp(A[b,h,q,k] - m[b,h,q])) * V[b,h,k,e] }";
static const char no_maximum[] = HEAD A "O[b,h,q,e] = sum(k) cast<T>(exp(A[b,h,q,k] - 1)) * V[b,h,k,e] }";
static const char values_of_queries[] =
    "f(Q: T[B,H,S,D], K: T[B,H,R,D], V: T[B,H,S,R,E]) -> (O: T[B,H,S,E]) { " A ATTENTION_STATISTICS(
        "b,h,q", "", "A[b,h,q,k]") "O[b,h,q,e] = " ATTENTION_WEIGHTED("b,h,q", "", "A[b,h,q,k]",
                                                                      "V[b,h,q,k,e]") " }";
static const char unlike_parts[] =
    "f(Q: T[B,S,H,C], KV: T[B,R,C], Kr: T[B,R,C]) -> (O: T[B,S,H,C]) { A[b,q,h,k] = 0.5 * (sum(c) Q[b,q,h,c] "
    "* KV[b,k,c]) + sum(c) Q[b,q,h,c] * Kr[b,k,c]; " ATTENTION_STATISTICS(
        "b,q,h", "", "A[b,q,h,k]") "O[b,q,h,c] = " ATTENTION_WEIGHTED("b,q,h", "", "A[b,q,h,k]",
                                                                      "KV[b,k,c]") " }";
static const char product_of_parts[] =
    "f(Q: T[B,S,H,C], KV: T[B,R,C], Kr: T[B,R,C]) -> (O: T[B,S,H,C]) { A[b,q,h,k] = (sum(c) Q[b,q,h,c] * "
    "KV[b,k,c]) * sum(c) Q[b,q,h,c] * Kr[b,k,c]; " ATTENTION_STATISTICS(
        "b,q,h", "", "A[b,q,h,k]") "O[b,q,h,c] = " ATTENTION_WEIGHTED("b,q,h", "", "A[b,q,h,k]",
                                                                      "KV[b,k,c]") " }";
static const char across_rows[] =
    "f(Q: T[B,H,S,D], K: T[B,H,R,D], V: T[B,H,E,R]) -> (O: T[B,H,S,E]) { " A ATTENTION_STATISTICS(
        "b,h,q", "", "A[b,h,q,k]") "O[b,h,q,e] = " ATTENTION_WEIGHTED("b,h,q", "", "A[b,h,q,k]",
                                                                      "V[b,h,e,k]") " }";
/* The place in a page of 8, the page's number by 16. */
static const char unlike_pages[] =
    "f(Q: T[B,S,H,D], K: T[P,8,D], V: T[P,8,E], t: i32[B,W]) -> (O: T[B,S,H,E]) limit: int = 64 "
    "{ " ATTENTION_STATISTICS(
        "b,q,h", ": k < limit",
        "(sum(d) Q[b,q,h,d] * K[t[b,k / 16],k % 8,d])") "O[b,q,h,e] = " ATTENTION_WEIGHTED("b,q,h",
                                                                                           ": k < limit",
                                                                                           "(sum(d) "
                                                                                           "Q[b,q,h,d] * "
                                                                                           "K[t[b,k / 16],k "
                                                                                           "% 8,d])",
                                                                                           "V[t[b,k / 16],k "
                                                                                           "% 8,e]") " }";

static const struct {
  const char *op, *bindings, *expected;
} others[] = {
    {other_keys, "T=bf16 B=1 H=1 S=8 R=8 D=64 E=64", "sums are over different keys"},
    {no_maximum, "T=bf16 B=1 H=1 S=8 R=8 D=64 E=64",
     "there is no product, softmax of it along one of its axes, and product of that"},
    {values_of_queries, "T=bf16 B=1 H=1 S=8 R=8 D=64 E=64", "V differs from query to query"},
    {across_rows, "T=bf16 B=1 H=1 S=8 R=8 D=64 E=64",
     "rows of V do not run along the axis that is summed or stored"},
    {unlike_parts, "T=bf16 B=1 H=1 S=8 R=8 C=64", "a score is not one of a sum of two products"},
    {product_of_parts, "T=bf16 B=1 H=1 S=8 R=8 C=64", "a score is not one of a sum of two products"},
    {unlike_pages, "T=bf16 B=1 H=1 S=8 P=8 W=4 D=64 E=64",
     "batch b q; query h; key k; wide e; depth d; Q Q; K K anywhere; V V anywhere; O O; bf16; scale 1; "
     "guarded; below +64; packs q h"},
    {"matmul", "T=bf16 M=8 N=8 K=8",
     "there is no product, softmax of it along one of its axes, and product of that"},
};

START_TEST(near_misses_are_not) {
  strbuf s = STRBUF_INIT;
  match(others[_i].op, others[_i].bindings, &s);
  ck_assert_str_eq(strbuf_text(&s), others[_i].expected);
  strbuf_free(&s);
}
END_TEST

START_TEST(forms_are_recognised) {
  strbuf s = STRBUF_INIT;
  match(forms[_i].op, forms[_i].bindings, &s);
  ck_assert_str_eq(strbuf_text(&s), forms[_i].expected);
  strbuf_free(&s);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("attention_match");
  TCase *tests = tcase_create("attention_match");
  tcase_add_loop_test(tests, forms_are_recognised, 0, (int)COUNT_OF(forms));
  tcase_add_loop_test(tests, near_misses_are_not, 0, (int)COUNT_OF(others));
  suite_add_tcase(suite, tests);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_ENV);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
