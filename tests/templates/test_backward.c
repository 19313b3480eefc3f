/* Attention's gradients on the emulator against the fp64 reference: heads of several sizes, odd lengths,
 * masks, shared heads, parts of them, and every schedule. */
#include <check.h>
#include <math.h>
#include <stdlib.h>

#include "base/random.h"
#include "template_cases.h"
#include "templates/backward.h"

static const kernel_template *backward(void) {
  return template_find("backward");
}

/* --- operators --- */

static const char catalogued[] = "attention_backward";

/* A head of keys for each of queries, rows of heads next to one another, l of queries with log2. */
static const char alike[] =
    "f(Q: T[B,S,H,D], K: T[B,R,H,D], V: T[B,R,H,D], O: T[B,S,H,D], G: T[B,S,H,D], l: f32[B,H,S]) -> (Y: "
    "T[B,S,H,D], X: T[B,R,H,D], Z: T[B,R,H,D]) { "
    "e[b,q,h] = sum(d) G[b,q,h,d] * O[b,q,h,d]; "
    "P[b,h,q,k] = exp2((sum(d) K[b,k,h,d] * Q[b,q,h,d]) * 0.2 - l[b,h,q]); "
    "W[b,h,q,k] = cast<T>(((sum(d) V[b,k,h,d] * G[b,q,h,d]) - e[b,q,h]) * P[b,h,q,k]); "
    "Y[b,q,h,d] = sum(k: q >= k) K[b,k,h,d] * W[b,h,q,k]; "
    "X[b,k,h,d] = (sum(q: k <= q) W[b,h,q,k] * Q[b,q,h,d]) / 2; "
    "Z[b,k,h,d] = sum(q: k <= q) cast<T>(P[b,h,q,k]) * G[b,q,h,d] }";

/* A name of the catalogue, or a text. */
static const char *text_of(const char *op) {
  const char *nearest;
  const ir_catalogue_entry *e = ir_catalogue_find(op, &nearest);
  return e ? e->text : op;
}

/* --- what it is for --- */

static const struct {
  const char *op, *bindings, *expected;
} forms[] = {
    {catalogued, "T=bf16 B=1 H=4 G=2 S=64 R=64 D=64 E=32 causal=true left=7",
     "batch b h; h of g; query q; key k; depth d; wide x; Q; K; V; dO; dQ; dK; dV; bf16; scale 0.125; 2 "
     "bounds"},
    {catalogued, "T=f16 B=1 H=4 G=4 S=64 R=64 D=64 E=64 base2=true scale=2",
     "batch b h; h of g; query q; key k; depth d; wide x; Q; K; V; dO; dQ; dK; dV; f16; scale 2.88539; base "
     "2; 0 "
     "bounds"},
    {alike, "T=bf16 B=1 H=4 S=64 R=64 D=64",
     "batch b h; query q; key k; depth d; wide d; Q; K; V; G; Y; X; Z; bf16; scale 0.2; base 2; 1 bounds"},
};

START_TEST(forms_are_recognised) {
  arena a = ARENA_INIT;
  strbuf s = STRBUF_INIT;
  const ir_op *op;
  ir_problem p;
  backward_match m;
  ck_assert_int_eq(ir_op_parse(&a, text_of(forms[_i].op), &op, NULL), ARKE_OK);
  ck_assert_int_eq(ir_problem_bind(op, forms[_i].bindings, &p, NULL), ARKE_OK);
  template_reason reason = backward_match_op(&p, &a, &m, &s, NULL);
  if (reason != TEMPLATE_OK) ir_form_print(&m.form, &s);
  ck_assert_msg(reason == TEMPLATE_OK, "%s", strbuf_text(&s));
  backward_print(&m, &s);
  ck_assert_str_eq(strbuf_text(&s), forms[_i].expected);
  strbuf_free(&s);
  arena_release(&a);
}
END_TEST

/* --- what it computes --- */

static const struct {
  const char *op, *bindings, *settings;
} cases[] = {
    {catalogued, "T=bf16 B=1 H=2 G=2 S=70 R=100 D=64 E=64",
     "Q_CONSUMERS=1,Q_BLOCK=32,Q_STAGES=2,K_CONSUMERS=1,K_BLOCK=32,K_STAGES=2,APART=0,PERSISTENT=0"},
    {catalogued, "T=f16 B=2 H=3 G=1 S=65 R=63 D=64 E=64 causal=true",
     "Q_CONSUMERS=1,Q_BLOCK=48,Q_STAGES=2,K_CONSUMERS=1,K_BLOCK=64,K_STAGES=2,APART=0,PERSISTENT=1"},
    {catalogued, "T=bf16 B=1 H=4 G=1 S=129 R=130 D=64 E=64 causal=true base2=true",
     "Q_CONSUMERS=2,Q_BLOCK=64,Q_STAGES=2,K_CONSUMERS=2,K_BLOCK=64,K_STAGES=2,APART=0,SPLIT=2,PERSISTENT=1"},
    {catalogued, "T=bf16 B=1 H=1 G=1 S=140 R=70 D=128 E=128 causal=true",
     "Q_CONSUMERS=2,Q_BLOCK=64,Q_STAGES=2,K_CONSUMERS=2,K_BLOCK=64,K_STAGES=1,APART=0"}, /* queries without
                                                                                            keys */
    {catalogued, "T=f16 B=1 H=1 G=1 S=17 R=129 D=128 E=128 causal=true",
     "Q_CONSUMERS=1,Q_BLOCK=32,Q_STAGES=1,K_CONSUMERS=2,K_BLOCK=32,K_STAGES=2,APART=0"},
    {catalogued, "T=bf16 B=1 H=2 G=1 S=90 R=130 D=80 E=96 left=20 right=10",
     "Q_CONSUMERS=1,Q_BLOCK=32,Q_STAGES=1,K_CONSUMERS=1,K_BLOCK=32,K_STAGES=1,APART=0,GROUP=1,PERSISTENT=1"},
    {catalogued, "T=bf16 B=1 H=2 G=2 S=65 R=200 D=64 E=40 left=9", /* keys without queries */
     "Q_CONSUMERS=1,Q_BLOCK=80,Q_STAGES=1,K_CONSUMERS=1,K_BLOCK=64,K_STAGES=2,APART=0"},
    {catalogued, "T=f16 B=1 H=3 G=1 S=63 R=1 D=64 E=128",
     "Q_CONSUMERS=3,Q_BLOCK=32,Q_STAGES=2,K_CONSUMERS=1,K_BLOCK=96,K_STAGES=1,APART=1"},
    {catalogued, "T=bf16 B=1 H=4 G=1 S=1 R=65 D=192 E=128",
     "Q_CONSUMERS=1,Q_BLOCK=32,Q_STAGES=2,K_CONSUMERS=1,K_BLOCK=64,K_STAGES=1,APART=1,SPLIT=4"},
    {catalogued, "T=bf16 B=1 H=1 G=1 S=66 R=70 D=256 E=256 causal=true",
     "Q_CONSUMERS=1,Q_BLOCK=32,Q_STAGES=1,K_CONSUMERS=1,K_BLOCK=32,K_STAGES=1,APART=1"},
    {catalogued, "T=f16 B=1 H=2 G=2 S=200 R=100 D=64 E=64 causal=true",
     "Q_CONSUMERS=3,Q_BLOCK=48,Q_STAGES=2,K_CONSUMERS=3,K_BLOCK=32,K_STAGES=3,APART=0,PERSISTENT=1"},
    {alike, "T=bf16 B=2 H=2 S=70 R=80 D=64",
     "Q_CONSUMERS=1,Q_BLOCK=32,Q_STAGES=2,K_CONSUMERS=1,K_BLOCK=32,K_STAGES=2,APART=0,GROUP=0"},
};

/* An element of the reference is a sum over all heads and queries of sums: a sample is compared. */
enum { SAMPLE = 400 };

static template_case bind(arena *a, const char *op, const char *bindings, const char *settings) {
  template_case c = template_case_bind(a, backward(), text_of(op), bindings, settings);
  c.sample = SAMPLE;
  return c;
}

START_TEST(cases_are_right) {
  arena a = ARENA_INIT;
  template_case c = bind(&a, cases[_i].op, cases[_i].bindings, cases[_i].settings);
  template_case_run(&a, &c, NULL, -1);
  arena_release(&a);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("backward");
  TCase *tests = tcase_create("backward");
  tcase_set_timeout(tests, 120);
  tcase_add_loop_test(tests, forms_are_recognised, 0, (int)COUNT_OF(forms));
  tcase_add_loop_test(tests, cases_are_right, 0, (int)COUNT_OF(cases));
  suite_add_tcase(suite, tests);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_ENV);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
