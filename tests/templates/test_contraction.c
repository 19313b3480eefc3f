/* Which operators are contractions, and what plays which part in them. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "templates/contraction.h"

static const struct {
  const char *text, *bindings;
  bool merged;
  const char *expected; /* contraction_print, or what refuses it */
} cases[] = {
    {"f(A: T[M,K], B: T[K,N]) -> (Y: T[M,N]) { Y[m,n] = sum(k) A[m,k] * B[k,n] }", "T=bf16 M=2 N=3 K=4", true,
     "batch; m m; n n; k k; A: A bf16; B: B bf16; sum 0*1 f32; epilogue:"},
    {"f(X: T[M,K], W: T[N,K]) -> (Y: T[M,N]) { Y[m,n] = sum(k) W[n,k] * X[m,k] }", "T=f16 M=2 N=3 K=4", true,
     "batch; m m; n n; k k; A: X f16; B: W f16; sum 0*1 f32; epilogue:"},
    {"f(X: f32[M,K], W: f32[N,K]) -> (Y: f32[M,N]) { Y[m,n] = sum(k) tf32(X[m,k]) * tf32(W[n,k] + 1) }",
     "M=2 N=3 K=4", true, "batch; m m; n n; k k; A: X as tf32; B: W computed tf32; sum 0*1 f32; epilogue:"},
    {"f(X: f32[M,K], W: bf16[N,K]) -> (Y: f32[M,N]) { Y[m,n] = sum(k) tf32(X[m,k]) * tf32(W[n,k]) }",
     "M=2 N=3 K=4", true, "batch; m m; n n; k k; A: X as tf32; B: W bf16; sum 0*1 f32; epilogue:"},
    /* A transposed output: the rows of one operand are its columns. */
    {"f(A: T[M,K], B: T[K,N]) -> (Y: T[N,M]) { Y[n,m] = sum(k) A[m,k] * B[k,n] }", "T=bf16 M=2 N=3 K=4", true,
     "batch; m n; n m; k k; A: B bf16; B: A bf16; sum 0*1 f32; epilogue:"},
    {"f(X: T[M,K], W: T[N,K], b: T[N]) -> (Y: T[M,N]) { Y[m,n] = relu((sum(k) X[m,k] * W[n,k]) + b[n]) }",
     "T=bf16 M=2 N=3 K=4", true, "batch; m m; n n; k k; A: X bf16; B: W bf16; sum 0*1 f32; epilogue: b"},
    {"f(X: T[M,K], W: T[N,K], R: T[M,N]) -> (Y: T[M,N]) { z[m,n] = sum(k) X[m,k] * W[n,k]; "
     "Y[m,n] = z[m,n] * sigmoid(z[m,n]) + R[m,n] }",
     "T=bf16 M=2 N=3 K=4", true, "batch; m m; n n; k k; A: X bf16; B: W bf16; sum 0*1 f32; epilogue: R"},
    {"f(A: T[B,M,K], C: T[B,K,N]) -> (Y: T[B,M,N]) { Y[b,m,n] = sum(k) A[b,m,k] * C[b,k,n] }",
     "T=f32 B=5 M=2 N=3 K=4", true, "batch b; m m; n n; k k; A: A f32; B: C f32; sum 0*1 f32; epilogue:"},
    {"f(A: T[...,M,K], C: T[...,K,N]) -> (Y: T[...,M,N]) { Y[...,m,n] = sum(k) A[...,m,k] * C[...,k,n] }",
     "T=f32 ...=2x5 M=2 N=3 K=4", true,
     "batch ...; m m; n n; k k; A: A f32; B: C f32; sum 0*1 f32; epilogue:"},
    /* A batch that one operand has alone is rows: one loop where there are no gaps. */
    {"f(A: T[B,M,K], C: T[K,N]) -> (Y: T[B,M,N]) { Y[b,m,n] = sum(k) A[b,m,k] * C[k,n] }",
     "T=f32 B=5 M=2 N=3 K=4", false, "batch; m b m; n n; k k; A: A f32; B: C f32; sum 0*1 f32; epilogue:"},
    {"f(A: T[B,M,K], C: T[K,N]) -> (Y: T[B,M,N]) { Y[b,m,n] = sum(k) A[b,m,k] * C[k,n] }",
     "T=f32 B=5 M=2 N=3 K=4", true, "batch; m b; n n; k k; A: A f32; B: C f32; sum 0*1 f32; epilogue:"},
    {"f(Q: T[B,G,H,S,D], K: T[B,G,S,D]) -> (P: T[B,G,H,S,S]) { P[b,g,h,q,k] = sum(d) Q[b,g,h,q,d] * "
     "K[b,g,k,d] }",
     "T=f32 B=5 G=2 H=2 S=3 D=4", false,
     "batch b g; m h q; n k; k d; A: Q f32; B: K f32; sum 0*1 f32; epilogue:"},
    {"f(Q: T[B,H,S,D], K: T[B,G,S,D]) -> (P: T[B,H,S,S]) { P[b,h,q,k] = sum(d) Q[b,h,q,d] * K[b,h/(H/G),k,d] "
     "}",
     "T=f32 B=5 G=1 H=2 S=3 D=4", false,
     "batch b h; m q; n k; k d; A: Q f32; B: K computed f32; sum 0*1 under 1 conditions f32; epilogue:"},
    /* A gated pair shares its rows. */
    {"f(X: T[M,K], G: T[K,N], U: T[K,N]) -> (Y: T[M,N]) { Y[m,n] = silu(sum(k) X[m,k] * G[k,n]) * "
     "(sum(k) X[m,k] * U[k,n]) }",
     "T=bf16 M=2 N=3 K=4", true,
     "batch; m m; n n; k k; A: X bf16; B: U bf16; B: G bf16; sum 0*1 f32; sum 0*2 f32; epilogue:"},
    {"f(X: T[M,K], W: T[2*N,K]) -> (Y: T[M,N]) { Y[m,n] = silu(sum(k) X[m,k] * W[n,k]) * "
     "(sum(k) X[m,k] * W[n + N,k]) }",
     "T=bf16 M=2 N=3 K=4", true,
     "batch; m m; n n; k k; A: X bf16; B: W bf16; B: W bf16; sum 0*1 f32; sum 0*2 f32; epilogue:"},
    /* Dequantised weights: scales of whole columns leave the sum. */
    {"f(X: T[M,K], Q: i8[N,K], s: f32[N]) -> (Y: T[M,N]) { Y[m,n] = sum(k) X[m,k] * (Q[n,k] * s[n]) }",
     "T=bf16 M=2 N=3 K=4", true,
     "batch; m m; n n; k k; A: X bf16; B: Q i8; sum 0*1 of 1 scales f32; epilogue: s"},
    {"f(X: T[M,K], Q: i8[N,K], z: i8[N], s: f32[N]) -> (Y: T[M,N]) { Y[m,n] = sum(k) X[m,k] * ((Q[n,k] - "
     "z[n]) * s[n]) }",
     "T=bf16 M=2 N=3 K=4", true,
     "batch; m m; n n; k k; A: X bf16; B: Q z computed i32; sum 0*1 of 1 scales f32; epilogue: s"},
    {"f(X: T[M,128*K], Q: i4[N,128*K], s: T[N,K]) -> (Y: T[M,N]) { Y[m,n] = sum(k) X[m,k] * (Q[n,k] * "
     "s[n,k/128]) }",
     "T=f16 M=2 N=3 K=4", true,
     "batch; m m; n n; k k; A: X f16; B: Q s computed f32; sum 0*1 f32; epilogue:"},
    {"f(X: T[M,K], W: f32[N,K]) -> (Y: T[M,N]) { Y[m,n] = sum(k) cast<f32>(X[m,k]) * cast<bf16>(W[n,k]) }",
     "T=bf16 M=2 N=3 K=4", true,
     "batch; m m; n n; k k; A: X bf16; B: W computed bf16; sum 0*1 f32; epilogue:"},
    {"f(X: T[M,K], W: T[K,N], a: f32[M], b: f32[N]) -> (Y: bf16[M,N]) { Y[m,n] = sum(k) X[m,k] * W[k,n] * "
     "a[m] * b[n] }",
     "T=i8 M=2 N=3 K=4", true,
     "batch; m m; n n; k k; A: X i8; B: W i8; sum 0*1 of 2 scales f32; epilogue: a b"},
    {"f(X: T[M,K], W: T[K,N]) -> (Y: i32[M,N]) { Y[m,n] = sum(k) X[m,k] * W[k,n] }", "T=i8 M=2 N=3 K=4", true,
     "batch; m m; n n; k k; A: X i8; B: W i8; sum 0*1 i32; epilogue:"},
    /* Rows that an index chooses; an activation before the product. */
    {"f(X: T[P,K], W: T[E,K,N], r: i32[M], e: i32[B]) -> (Y: T[B,M,N]) { Y[b,m,n] = sum(k) X[r[m],k] * "
     "W[e[b],k,n] }",
     "T=bf16 P=7 E=2 B=2 M=2 N=3 K=4", true,
     "batch; m m; n b n; k k; A: r X bf16; B: e W bf16; sum 0*1 f32; epilogue:"},
    {"f(X: T[B,M,K], W: T[E,K,N], e: i32[B]) -> (Y: T[B,M,N]) { Y[b,m,n] = sum(k) X[b,m,k] * W[e[b],k,n] }",
     "T=bf16 E=2 B=2 M=2 N=3 K=4", true,
     "batch b; m m; n n; k k; A: X bf16; B: e W bf16; sum 0*1 f32; epilogue:"},
    {"f(X: T[B,2*H], W: T[H,N]) -> (Y: T[B,N]) { Y[b,o] = sum(h) silu(X[b,h]) * X[b,h + H] * W[h,o] }",
     "T=bf16 B=2 N=3 H=4", true,
     "batch; m b; n o; k h; A: X X computed f32; B: W bf16; sum 0*1 f32; epilogue:"},
    /* Vectors: the matrix is B where the output runs along it. */
    {"f(A: T[M,K], x: T[K]) -> (Y: T[M]) { Y[m] = sum(k) A[m,k] * x[k] }", "T=bf16 M=2 K=4", true,
     "batch; m; n m; k k; A: x bf16; B: A bf16; sum 0*1 f32; epilogue:"},
    /* Several reduced loops, a condition, several outputs. */
    {"f(X: T[M,C,S], W: T[N,C,S]) -> (Y: T[M,N]) { Y[m,n] = sum(c) sum(s) X[m,c,s] * W[n,c,s] }",
     "T=bf16 M=2 N=3 C=4 S=5", false, "batch; m m; n n; k c s; A: X bf16; B: W bf16; sum 0*1 f32; epilogue:"},
    {"f(X: T[M,K], W: T[N,K]) -> (Y: T[M,N]) { Y[m,n] = sum(k: k <= m) X[m,k] * W[n,k] }",
     "T=bf16 M=2 N=3 K=4", true,
     "batch; m m; n n; k k; A: X bf16; B: W bf16; sum 0*1 under 1 conditions f32; epilogue:"},
    {"f(X: T[M,K], W: T[N,K]) -> (Y: T[M,N], Z: T[M,N]) { Z[m,n] = sum(k) X[m,k] * W[n,k]; Y[m,n] = "
     "relu(Z[m,n]) }",
     "T=bf16 M=2 N=3 K=4", true, "batch; m m; n n; k k; A: X bf16; B: W bf16; sum 0*1 f32; epilogue:"},
    {"f(D: T[M,N], X: T[M,K], W: T[N,K]) -> (D) { D[m,n] = D[m,n] + sum(k) X[m,k] * W[n,k] }",
     "T=bf16 M=2 N=3 K=4", true, "batch; m m; n n; k k; A: X bf16; B: W bf16; sum 0*1 f32; epilogue: D"},

    /* Near misses. */
    {"f(X: T[M,K]) -> (Y: T[M]) { Y[m] = sum(k) X[m,k] }", "T=bf16 M=2 K=4", true, "a sum is not one of"},
    {"f(X: T[M,K]) -> (Y: T[M]) { Y[m] = sum(k) X[m,k] * X[m,k] }", "T=bf16 M=2 K=4", true,
     "both operands of a product"},
    {"f(X: T[M,K], s: T[N]) -> (Y: T[M,N]) { Y[m,n] = sum(k) X[m,k] * s[n] }", "T=bf16 M=2 N=3 K=4", true,
     "a sum is not one of"},
    {"f(A: T[M,K], B: T[K,N]) -> (Y: T[M,N]) { Y[m,n] = sum(k) (A[m,k] + B[k,n]) }", "T=bf16 M=2 N=3 K=4",
     true, "a sum is not one of"},
    {"f(A: T[M,K], B: T[K,N]) -> (Y: T[M,N]) { Y[m,n] = max(k) A[m,k] * B[k,n] }", "T=bf16 M=2 N=3 K=4", true,
     "a reduction is not a sum"},
    {"f(A: T[M,K], B: T[K,N], s: T[P]) -> (Y: T[M,N,P]) { Y[m,n,p] = s[p] * sum(k) A[m,k] * B[k,n] }",
     "T=bf16 M=2 N=3 K=4 P=5", true, "the output has loops that no operand has"},
    {"f(A: T[M,K], B: T[K,N]) -> (Y: T[M,N]) { a[m] = max(k) abs(A[m,k]); Y[m,n] = sum(k) A[m,k] / a[m] * "
     "B[k,n] }",
     "T=bf16 M=2 N=3 K=4", true, ""},
    {"f(A: T[M,K], B: T[K,N], i: i32[M]) -> (Y: T[M,N]) { Y[i[m],n] += sum(k) A[m,k] * B[k,n] }",
     "T=bf16 M=2 N=3 K=4", true, "an output is not written once"},
    {"f(D: T[M,K], B: T[K,K]) -> (D) { D[m,n] = sum(k) D[m,k] * B[k,n] }", "T=bf16 M=2 K=4", true,
     "a tensor is read elsewhere"},
    {"f(X: T[M,N]) -> (Y: T[M,N]) { Y[m,n] = relu(X[m,n]) }", "T=bf16 M=2 N=4", true, "nothing is reduced"},
};

/* What a template has to ask for; without that they are no contractions to it. */
#define RAGGED                                                                                               \
  "f(X: T[R,K], W: T[E,N,K], ends: i32[E], b: T[E,N]) -> (Y: T[R,N]) { g[r] = sum(e: ends[e] <= r) 1; "
static const struct {
  const char *text, *bindings;
  unsigned allowed;
  const char *expected, *refused;
} more[] = {
    {RAGGED "Y[r,n] = g[r] < E ? (sum(k) X[r,k] * W[g[r],n,k]) + b[g[r],n] : 0 }", "T=bf16 R=9 N=3 K=4 E=2",
     CONTRACTION_GROUPED,
     "batch; m r; n n; k k; A: X bf16; B: W bf16; sum 0*1 f32; epilogue: b; groups by ends",
     "rows have groups"},
    {"f(X: T[M,K], W: T[N,K]) -> (z: f32[M], s: f32[M]) { P[m,n] = sum(k) X[m,k] * W[n,k]; q[m] = max(n) "
     "P[m,n]; "
     "z[m] = q[m]; s[m] = sum(n) exp(P[m,n] - q[m]) }",
     "T=bf16 M=2 N=3 K=4", CONTRACTION_REDUCED,
     "batch; m m; n n; k k; A: X bf16; B: W bf16; sum 0*1 f32; epilogue:", "a factor of a product"},
    {"f(D: f32[P,N], A: T[M,K], B: T[K,N], i: i32[M]) -> (D) { D[i[m],n] += sum(k) A[m,k] * B[k,n] }",
     "T=bf16 M=2 N=3 K=4 P=7", CONTRACTION_SCATTERED,
     "batch; m m; n n; k k; A: A bf16; B: B bf16; sum 0*1 f32; epilogue: i", "an output is not written once"},
};

START_TEST(matches_more_where_asked) {
  arena a = ARENA_INIT;
  arke_error err = ARKE_ERROR_INIT;
  const ir_op *op;
  ir_problem p;
  contraction c;
  strbuf text = STRBUF_INIT;
  ck_assert_msg(ir_op_parse(&a, more[_i].text, &op, &err) == ARKE_OK, "%s", err.text);
  ck_assert_msg(ir_problem_bind(op, more[_i].bindings, &p, &err) == ARKE_OK, "%s", err.text);
  ck_assert_msg(contraction_match_more(&p, true, more[_i].allowed, &a, &c, &text, NULL) == TEMPLATE_OK,
                "%s: %s", more[_i].text, strbuf_text(&text));
  contraction_print(&c, &text);
  ck_assert_str_eq(strbuf_text(&text), more[_i].expected);
  strbuf_clear(&text);
  ck_assert_int_eq(contraction_match(&p, true, &a, &c, &text, NULL), TEMPLATE_OPERATOR);
  ck_assert_msg(strstr(strbuf_text(&text), more[_i].refused), "%s", strbuf_text(&text));
  strbuf_free(&text);
  arena_release(&a);
}
END_TEST

START_TEST(matches) {
  arena a = ARENA_INIT;
  arke_error err = ARKE_ERROR_INIT;
  const ir_op *op;
  ir_problem p;
  contraction c;
  strbuf text = STRBUF_INIT;
  ck_assert_msg(ir_op_parse(&a, cases[_i].text, &op, &err) == ARKE_OK, "%s", err.text);
  ck_assert_msg(ir_problem_bind(op, cases[_i].bindings, &p, &err) == ARKE_OK, "%s", err.text);
  arke_status status;
  template_reason reason = contraction_match(&p, cases[_i].merged, &a, &c, &text, &status);
  ck_assert_int_eq(status, ARKE_OK);
  if (strncmp(cases[_i].expected, "batch", 5) == 0) {
    ck_assert_msg(reason == TEMPLATE_OK, "%s: %s", cases[_i].text, strbuf_text(&text));
    contraction_print(&c, &text);
    ck_assert_str_eq(strbuf_text(&text), cases[_i].expected);
  } else {
    ck_assert_msg(reason == TEMPLATE_OPERATOR, "%s is taken", cases[_i].text);
    ck_assert_msg(text.length > 0 && strstr(strbuf_text(&text), cases[_i].expected), "%s: %s", cases[_i].text,
                  strbuf_text(&text));
  }
  strbuf_free(&text);
  arena_release(&a);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("contraction");
  TCase *tests = tcase_create("matching");
  tcase_add_loop_test(tests, matches_more_where_asked, 0, (int)COUNT_OF(more));
  tcase_add_loop_test(tests, matches, 0, (int)(sizeof cases / sizeof cases[0]));
  suite_add_tcase(suite, tests);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_ENV);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
