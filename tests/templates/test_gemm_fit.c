#include <string.h>

#include "templates/gemm.h"
#include "templates_suites.h"

static const ir_op *parse(arena *a, const char *text) {
  arke_error err = ARKE_ERROR_INIT;
  const ir_op *op;
  ck_assert_msg(ir_op_parse(a, text, &op, &err) == ARKE_OK, "%s", err.text);
  return op;
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
  const ir_op *op = parse(&a, products[_i].text);
  gemm_match match;
  ck_assert(gemm_match_op(op, &match));
  ck_assert_int_eq(match.a, products[_i].a);
  ck_assert_int_eq(match.b, products[_i].b);
  ck_assert_int_eq(match.y, 2);
  ck_assert_int_eq(match.a_k_major, products[_i].a_k_major);
  ck_assert_int_eq(match.b_k_major, products[_i].b_k_major);
  const ir_dim *y = op->tensors[2].dims;
  ck_assert_int_eq(match.m, y[0].axis);
  ck_assert_int_eq(match.n, y[1].axis);
  ck_assert(match.k != match.m && match.k != match.n);
  arena_release(&a);
}
END_TEST

static const char *const others[] = {
    "bias(A: T[M,K], B: T[K,N], c: T[N]) -> (Y: T[M,N]) { Y[m,n] = sum(k) A[m,k] * B[k,n] + c[n] }",
    "scaled(A: T[M,K], B: T[K,N]) -> (Y: T[M,N]) { Y[m,n] = 2 * sum(k) A[m,k] * B[k,n] }",
    "sums(A: T[M,K], B: T[K,N]) -> (Y: T[M,N]) { Y[m,n] = sum(k) (A[m,k] + B[k,n]) }",
    "largest(A: T[M,K], B: T[K,N]) -> (Y: T[M,N]) { Y[m,n] = max(k) A[m,k] * B[k,n] }",
    "prefix(A: T[M,K], B: T[K,N]) -> (Y: T[M,N]) { Y[m,n] = sum(k: k <= n) A[m,k] * B[k,n] }",
    "batched(A: T[B,M,K], C: T[B,K,N]) -> (Y: T[B,M,N]) { Y[b,m,n] = sum(k) A[b,m,k] * C[b,k,n] }",
    "transposed(A: T[M,K], B: T[K,N]) -> (Y: T[N,M]) { Y[n,m] = sum(k) A[m,k] * B[k,n] + 0 }",
    "square(A: T[M,K]) -> (Y: T[M,M]) { Y[i,j] = sum(k) A[i,k] * A[j,k] }",
    "vector(A: T[M,K], x: T[K]) -> (y: T[M]) { y[m] = sum(k) A[m,k] * x[k] }",
    "shifted(A: T[M,K], B: T[K,N]) -> (Y: T[M,N]) { Y[m,n] = sum(k) A[m,k] * B[(k+1)%K,n] }",
    "copy(X: T[M,N], Z: T[M,N]) -> (Y: T[M,N]) { Y[m,n] = X[m,n] * Z[m,n] }",
};

START_TEST(other_operators_are_not_taken_for_products) {
  arena a = ARENA_INIT;
  gemm_match match;
  ck_assert(!gemm_match_op(parse(&a, others[_i]), &match));
  arena_release(&a);
}
END_TEST

/* The output's row index may be called anything: this one has B's role taken by the first tensor. */
START_TEST(a_product_written_to_its_transpose_swaps_roles) {
  arena a = ARENA_INIT;
  const ir_op *op = parse(&a, "t(A: T[M,K], B: T[K,N]) -> (Y: T[N,M]) { Y[n,m] = sum(k) A[m,k] * B[k,n] }");
  gemm_match match;
  ck_assert(gemm_match_op(op, &match));
  ck_assert_int_eq(match.a, 1);
  ck_assert_int_eq(match.b, 0);
  ck_assert(!match.a_k_major && match.b_k_major);
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
    {"linear", "T=f16 M=8 N=12 K=8", TEMPLATE_ALIGNMENT, "rows of Y are 24 bytes"},
    {"matmul", "T=f32 M=8 N=8 K=8", TEMPLATE_DTYPE, "bf16 or f16"},
    {"matmul", "T=i8 M=16 N=16 K=16", TEMPLATE_DTYPE, "bf16 or f16"},
    {"matmul", "T=bf16 M=0 N=8 K=8", TEMPLATE_SIZE, "axis M is 0"},
    {"matmul", "T=bf16 M=8 N=8 K=0", TEMPLATE_SIZE, "axis K is 0"},
    {"matmul", "T=bf16 M=2147483647 N=8 K=8", TEMPLATE_SIZE, "axis M is 2147483647"},
};

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
  ck_assert_int_eq(gemm->feasible(&p, t, &c), bounds[_i].reason);
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
  tcase_add_loop_test(tests, other_operators_are_not_taken_for_products, 0, (int)COUNT_OF(others));
  tcase_add_test(tests, a_product_written_to_its_transpose_swaps_roles);
  tcase_add_loop_test(tests, sizes_and_dtypes_are_bounded, 0, (int)COUNT_OF(bounds));
  tcase_add_test(tests, a_target_without_the_instructions_is_refused);
  return tests;
}
