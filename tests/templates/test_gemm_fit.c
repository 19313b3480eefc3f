#include <string.h>

#include "templates/gemm.h"
#include "templates_suites.h"

/* A bound operator and what the template makes of it. */
typedef struct fitted {
  ir_problem p;
  contraction c;
  gemm_match match;
  template_reason reason;
  const char *detail;
} fitted;

static const ir_op *parse(arena *a, const char *text) {
  arke_error err = ARKE_ERROR_INIT;
  const ir_op *op;
  ck_assert_msg(ir_op_parse(a, text, &op, &err) == ARKE_OK, "%s", err.text);
  return op;
}

static fitted *fit(arena *a, const char *text, const char *bindings) {
  arke_error err = ARKE_ERROR_INIT;
  fitted *f = ARENA_NEW(a, fitted);
  ck_assert_ptr_nonnull(f);
  strbuf detail = STRBUF_INIT;
  ck_assert_msg(ir_problem_bind(parse(a, text), bindings, &f->p, &err) == ARKE_OK, "%s: %s", text, err.text);
  f->reason = gemm_fit(&f->p, target_find("sm_90a", NULL), a, &f->c, &f->match, &detail);
  f->detail = arena_strdup(a, strbuf_text(&detail));
  strbuf_free(&detail);
  return f;
}

static int tensor_of(const fitted *f, const gemm_view *view) {
  return f->c.form.accesses[view->access].tensor;
}

/* Storage orders follow from the subscripts, whatever the names and the order of the factors. */
static const struct {
  const char *text;
  int a, b; /* tensors in the roles of A and B */
  bool a_k_major, b_k_major;
} products[] = {
    {"matmul(A: T[M,K], B: T[K,N]) -> (Y: T[M,N]) { Y[m,n] = sum(k) A[m,k] * B[k,n] }", 0, 1, true, false},
    {"linear(X: T[M,K], W: T[N,K]) -> (Y: T[M,N]) { Y[m,n] = sum(k) X[m,k] * W[n,k] }", 0, 1, true, true},
    {"tn(A: T[K,M], B: T[K,N]) -> (Y: T[M,N]) { Y[m,n] = sum(k) A[k,m] * B[k,n] }", 0, 1, false, false},
    {"tt(A: T[K,M], B: T[N,K]) -> (Y: T[M,N]) { Y[m,n] = sum(k) A[k,m] * B[n,k] }", 0, 1, false, true},
    {"swapped(A: T[M,K], B: T[K,N]) -> (Y: T[M,N]) { Y[m,n] = sum(k) B[k,n] * A[m,k] }", 0, 1, true, false},
    {"weights_first(W: T[N,K], X: T[M,K]) -> (Y: T[M,N]) { Y[m,n] = sum(k) W[n,k] * X[m,k] }", 1, 0, true,
     true},
    {"other(P: T[R,S], Q: T[S,U]) -> (Z: T[R,U]) { Z[x,y] = sum(z) P[x,z] * Q[z,y] }", 0, 1, true, false},
};

START_TEST(products_are_recognised) {
  arena a = ARENA_INIT;
  bool other = strstr(products[_i].text, "other") != NULL;
  fitted *f = fit(&a, products[_i].text, other ? "T=bf16 R=64 S=64 U=64" : "T=bf16 M=64 N=64 K=64");
  ck_assert_msg(f->reason == TEMPLATE_OK, "%s", f->detail);
  ck_assert(f->match.bare);
  ck_assert_int_eq(tensor_of(f, &f->match.a), products[_i].a);
  ck_assert_int_eq(tensor_of(f, &f->match.b[0]), products[_i].b);
  ck_assert_int_eq(tensor_of(f, &f->match.y), 2);
  ck_assert_int_eq(f->match.a_k_major, products[_i].a_k_major);
  ck_assert_int_eq(f->match.b_k_major, products[_i].b_k_major);
  ck_assert(!f->match.y_transposed);
  ck_assert_int_eq(f->match.n_sums, 1);
  ck_assert_int_eq(f->match.outer.n, 0);
  gemm_match swapped = gemm_match_swapped(&f->match);
  ck_assert_int_eq(swapped.m, f->match.n);
  ck_assert_int_eq(swapped.a_k_major, f->match.b_k_major);
  ck_assert(swapped.y_transposed);
  arena_release(&a);
}
END_TEST

/* More than a product: epilogues, batches, several sums, other layouts. */
static const struct {
  const char *text, *bindings;
  int outer, sums;
  bool copied; /* the first output is stored by copies */
} contractions[] = {
    {"bias(A: T[M,K], B: T[K,N], c: T[N]) -> (Y: T[M,N]) { Y[m,n] = sum(k) A[m,k] * B[k,n] + c[n] }",
     "T=bf16 M=64 N=64 K=64", 0, 1, true},
    {"scaled(A: T[M,K], B: T[K,N]) -> (Y: T[M,N]) { Y[m,n] = 2 * sum(k) A[m,k] * B[k,n] }",
     "T=bf16 M=64 N=64 K=64", 0, 1, true},
    {"wide(A: T[M,K], B: T[K,N]) -> (Y: f32[M,N]) { Y[m,n] = sum(k) A[m,k] * B[k,n] }",
     "T=bf16 M=64 N=64 K=64", 0, 1, false},
    {"odd(A: T[M,K], B: T[N,K]) -> (Y: T[M,N]) { Y[m,n] = sum(k) A[m,k] * B[n,k] }", "T=f16 M=8 N=12 K=8", 0,
     1, false},
    {"batched(A: T[B,M,K], C: T[B,K,N]) -> (Y: T[B,M,N]) { Y[b,m,n] = sum(k) A[b,m,k] * C[b,k,n] }",
     "T=bf16 B=3 M=64 N=64 K=64", 1, 1, true},
    {"heads(Q: T[B,H,S,D], K: T[B,G,L,D]) -> (P: T[B,H,S,L]) { P[b,h,q,k] = sum(d) Q[b,h,q,d] * "
     "K[b,h/(H/G),k,d] }",
     "T=bf16 B=2 H=4 G=2 S=64 L=64 D=64", 2, 1, true},
    {"rows(A: T[B,M,K], C: T[K,N]) -> (Y: T[B,M,N]) { Y[b,m,n] = sum(k) A[b,m,k] * C[k,n] }",
     "T=bf16 B=3 M=64 N=64 K=64", 0, 1, true},
    {"gate(A: T[M,K], B: T[N,K], C: T[N,K]) -> (Y: T[M,N]) { Y[m,n] = silu(sum(k) A[m,k] * B[n,k]) * "
     "sum(k) A[m,k] * C[n,k] }",
     "T=bf16 M=64 N=64 K=64", 0, 2, true},
    {"packed(A: T[M,K], B: T[2*N,K]) -> (Y: T[M,N]) { Y[m,n] = silu(sum(k) A[m,k] * B[n,k]) * sum(k) "
     "A[m,k] * B[n+N,k] }",
     "T=bf16 M=64 N=64 K=64", 0, 2, true},
    {"square(A: T[M,K]) -> (Y: T[M,M]) { Y[i,j] = sum(k) A[i,k] * A[j,k] }", "T=bf16 M=64 K=64", 0, 1, true},
    {"transposed(A: T[M,K], B: T[K,N]) -> (Y: T[N,M]) { Y[n,m] = sum(k) A[m,k] * B[k,n] }",
     "T=bf16 M=64 N=64 K=64", 0, 1, true},
};

START_TEST(contractions_are_recognised) {
  arena a = ARENA_INIT;
  fitted *f = fit(&a, contractions[_i].text, contractions[_i].bindings);
  ck_assert_msg(f->reason == TEMPLATE_OK, "%s", f->detail);
  ck_assert_int_eq(f->match.outer.n, contractions[_i].outer);
  ck_assert_int_eq(f->match.n_sums, contractions[_i].sums);
  ck_assert_int_eq(f->match.y.rank > 0, contractions[_i].copied);
  arena_release(&a);
}
END_TEST

static const struct {
  const char *text, *words;
} others[] = {
    {"sums(A: T[M,K], B: T[K,N]) -> (Y: T[M,N]) { Y[m,n] = sum(k) (A[m,k] + B[k,n]) }", "products"},
    {"largest(A: T[M,K], B: T[K,N]) -> (Y: T[M,N]) { Y[m,n] = max(k) A[m,k] * B[k,n] }", "not a sum"},
    {"prefix(A: T[M,K], B: T[K,N]) -> (Y: T[M,N]) { Y[m,n] = sum(k: k <= n) A[m,k] * B[k,n] }", "conditions"},
    {"vector(A: T[M,K], x: T[K]) -> (y: T[M]) { y[m] = sum(k) A[m,k] * x[k] }", "a loop of rows"},
    {"shifted(A: T[M,K], B: T[K,N]) -> (Y: T[M,N]) { Y[m,n] = sum(k) A[m,k] * B[(k+1)%K,n] }", "address B"},
    {"squares(A: T[M,K], B: T[K,N]) -> (Y: T[M,N]) { Y[m,n] = sum(k) A[m,k] * A[m,k] * B[k,n] }", "computed"},
    {"halves(A: T[M,2*K], B: T[K,N]) -> (Y: T[M,N]) { Y[m,n] = sum(k) A[m,2*k] * B[k,n] }", "address A"},
    {"copy(X: T[M,N], Z: T[M,K]) -> (Y: T[M,N]) { Y[m,n] = X[m,n] * Z[m,0] }", "reduced"},
};

START_TEST(other_operators_are_not_taken_for_products) {
  arena a = ARENA_INIT;
  fitted *f =
      fit(&a, others[_i].text, strstr(others[_i].text, "N]") ? "T=bf16 M=64 N=64 K=64" : "T=bf16 M=64 K=64");
  ck_assert_int_eq(f->reason, TEMPLATE_OPERATOR);
  ck_assert_msg(strstr(f->detail, others[_i].words), "%s", f->detail);
  arena_release(&a);
}
END_TEST

/* The output's row index may be called anything: this one has B's role taken by the first tensor. */
START_TEST(a_product_written_to_its_transpose_swaps_roles) {
  arena a = ARENA_INIT;
  fitted *f = fit(&a, "t(A: T[M,K], B: T[K,N]) -> (Y: T[N,M]) { Y[n,m] = sum(k) A[m,k] * B[k,n] }",
                  "T=bf16 M=64 N=64 K=64");
  ck_assert_int_eq(f->reason, TEMPLATE_OK);
  ck_assert_int_eq(tensor_of(f, &f->match.a), 1);
  ck_assert_int_eq(tensor_of(f, &f->match.b[0]), 0);
  ck_assert(!f->match.a_k_major && f->match.b_k_major);
  arena_release(&a);
}
END_TEST

static const struct {
  const char *operator, * bindings;
  template_reason reason;
  const char *words;
} bounds[] = {
    {"matmul", "T=bf16 M=1 N=8 K=8", TEMPLATE_OK, ""},
    {"matmul", "T=f16 M=4097 N=4096 K=4104", TEMPLATE_OK, ""},
    {"linear", "T=bf16 M=3 N=8 K=8", TEMPLATE_OK, ""},
    {"matmul", "T=bf16 M=8 N=8 K=7", TEMPLATE_ALIGNMENT, "rows of A are 14 bytes"},
    {"matmul", "T=bf16 M=8 N=9 K=8", TEMPLATE_ALIGNMENT, "rows of B are 18 bytes"},
    {"linear", "T=f16 M=8 N=12 K=8", TEMPLATE_OK, ""},
    {"matmul", "T=f32 M=8 N=8 K=8", TEMPLATE_DTYPE, "all operands of one kind"},
    {"matmul", "T=i8 M=16 N=16 K=16", TEMPLATE_DTYPE, "i8 is multiplied along contiguous terms alone"},
    {"matmul", "T=bf16 M=0 N=8 K=8", TEMPLATE_SIZE, "axis M is 0"},
    {"matmul", "T=bf16 M=8 N=8 K=0", TEMPLATE_SIZE, "axis K is 0"},
    {"matmul", "T=bf16 M=2147483647 N=8 K=8", TEMPLATE_SIZE, "axis M is 2147483647"},
};

/* Columns that are read first, where rows of W line up: of a second half, of a constant, of a matrix of
 * several in one row, of a group. */
#define GROUP "g[r] = sum(e: ends[e] <= r) 1; "
static const struct {
  const char *text, *bindings;
  template_reason reason;
} starts[] = {
    {"f(X: T[M,K], W: T[K,2*N]) -> (Y: T[M,N]) { Y[m,n] = silu(sum(k) X[m,k] * W[k,n]) * (sum(k) X[m,k] * "
     "W[k,n + N]) }",
     "T=bf16 M=64 N=72 K=64", TEMPLATE_OK},
    {"f(X: T[M,K], W: T[K,2*N]) -> (Y: T[M,N]) { Y[m,n] = silu(sum(k) X[m,k] * W[k,n]) * (sum(k) X[m,k] * "
     "W[k,n + N]) }",
     "T=bf16 M=64 N=76 K=64", TEMPLATE_ALIGNMENT},
    {"f(X: T[M,K], W: T[K,N+16]) -> (Y: T[M,N]) { Y[m,n] = sum(k) X[m,k] * W[k,n + 8] }",
     "T=bf16 M=64 N=64 K=64", TEMPLATE_OK},
    {"f(X: T[M,K], W: T[K,N+16]) -> (Y: T[M,N]) { Y[m,n] = sum(k) X[m,k] * W[k,n + 5] }",
     "T=bf16 M=64 N=64 K=64", TEMPLATE_ALIGNMENT},
    {"f(X: T[B,M,K], W: T[K,4*N]) -> (Y: T[B,M,N]) { Y[b,m,n] = sum(k) X[b,m,k] * W[k,b*N + n] }",
     "T=bf16 B=4 M=64 N=72 K=64", TEMPLATE_OK},
    {"f(X: T[B,M,K], W: T[K,4*N]) -> (Y: T[B,M,N]) { Y[b,m,n] = sum(k) X[b,m,k] * W[k,b*N + n] }",
     "T=bf16 B=4 M=64 N=76 K=64", TEMPLATE_ALIGNMENT},
    {"f(X: T[B,M,K], W: T[K,N+8]) -> (Y: T[B,M,N]) { Y[b,m,n] = sum(k) X[b,m,k] * W[k,b + n] }",
     "T=bf16 B=8 M=64 N=64 K=64", TEMPLATE_ALIGNMENT},
    {"f(X: T[K,R], W: T[E,N,K], ends: i32[E]) -> (Y: T[R,N]) { " GROUP
     "Y[r,n] = g[r] < E ? sum(k) X[k,r] * W[g[r],n,k] : 0 }",
     "T=bf16 R=64 N=40 K=72 E=3", TEMPLATE_OPERATOR},
};

START_TEST(copies_begin_at_multiples_of_16_bytes) {
  arena a = ARENA_INIT;
  fitted *f = fit(&a, starts[_i].text, starts[_i].bindings);
  ck_assert_msg(f->reason == starts[_i].reason, "%d: %s", (int)f->reason, f->detail);
  if (f->reason == TEMPLATE_ALIGNMENT) ck_assert_ptr_nonnull(strstr(f->detail, "columns of W"));
  arena_release(&a);
}
END_TEST

START_TEST(sizes_and_dtypes_are_bounded) {
  arena a = ARENA_INIT;
  arke_error err = ARKE_ERROR_INIT;
  ir_problem p;
  const ir_op *op = parse(&a, ir_catalogue_find(bounds[_i].operator, NULL)->text);
  ck_assert_msg(ir_problem_bind(op, bounds[_i].bindings, &p, &err) == ARKE_OK, "%s", err.text);
  const kernel_template *gemm = template_find("gemm");
  const target *t = target_find("sm_90a", NULL);
  strbuf detail = STRBUF_INIT;
  ck_assert_int_eq(gemm->fits(&p, t, &detail), bounds[_i].reason);
  ck_assert_msg(strstr(strbuf_text(&detail), bounds[_i].words), "'%s' lacks '%s'", strbuf_text(&detail),
                bounds[_i].words);
  ck_assert_int_eq(gemm->fits(&p, t, NULL), bounds[_i].reason);
  config c;
  gemm->defaults(&p, t, &c);
  ck_assert_int_eq(template_feasible(gemm, &p, t, &c), bounds[_i].reason);
  strbuf_free(&detail);
  arena_release(&a);
}
END_TEST

START_TEST(a_target_without_the_instructions_is_refused) {
  arena a = ARENA_INIT;
  arke_error err = ARKE_ERROR_INIT;
  ir_problem p;
  const ir_op *op = parse(&a, products[0].text);
  ck_assert_int_eq(ir_problem_bind(op, "T=bf16 M=64 N=64 K=64", &p, &err), ARKE_OK);
  target bare = *target_find("sm_90a", NULL);
  bare.has.wgmma = false;
  strbuf detail = STRBUF_INIT;
  ck_assert_int_eq(template_find("gemm")->fits(&p, &bare, &detail), TEMPLATE_TARGET);
  ck_assert_ptr_nonnull(strstr(strbuf_text(&detail), "sm_90a"));
  strbuf_free(&detail);
  arena_release(&a);
}
END_TEST

TCase *gemm_fit_tests(void) {
  TCase *tests = tcase_create("gemm: what it fits");
  tcase_add_loop_test(tests, products_are_recognised, 0, (int)COUNT_OF(products));
  tcase_add_loop_test(tests, contractions_are_recognised, 0, (int)COUNT_OF(contractions));
  tcase_add_loop_test(tests, other_operators_are_not_taken_for_products, 0, (int)COUNT_OF(others));
  tcase_add_test(tests, a_product_written_to_its_transpose_swaps_roles);
  tcase_add_loop_test(tests, copies_begin_at_multiples_of_16_bytes, 0, (int)COUNT_OF(starts));
  tcase_add_loop_test(tests, sizes_and_dtypes_are_bounded, 0, (int)COUNT_OF(bounds));
  tcase_add_test(tests, a_target_without_the_instructions_is_refused);
  return tests;
}
