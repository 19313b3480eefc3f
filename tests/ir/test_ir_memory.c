/* Every allocation of parse, bind, print, form and evaluate fails once: a status, no crash, no leak (under
 * asan).
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "ir/ir_form.h"
#include "tests/ir/ir_suites.h"
#include "tests/support/failing_alloc.h"

static const char *const TEXTS[] = {
    ("softmax(X: T[M,N]) -> (Y: T[M,N]) { m[i] = max(j) X[i,j]; s[i] = sum(j) exp(X[i,j] - m[i]); "
     "Y[i,j] = exp(X[i,j] - m[i]) / s[i] }"),
    "lines(X: T[M,N]) -> (Y: T[M,N]) { L[i,j] = 2 * X[i,j]; Y[i,j] = sum(t: t <= j) L[i,t] }",
    "topk(X: T[M,N]) -> (V: T[M,N], I: i64[M,N]) { (V[i,k], I[i,k]) = topk(j) X[i,j] }",
    "scan(X: T[M,N]) -> (Y: T[M,N]) { Y[i,j] = sum(t: t <= j) (t % 2 == 0 ? X[i,t] : X[i,t-1] else 0) }",
};

static arke_status work(const char *text, arke_error *err) {
  static const float DATA[12] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8};
  arena a = ARENA_INIT;
  strbuf out = STRBUF_INIT;
  ir_evaluator *ev = NULL;
  const ir_op *op;
  ir_problem p;
  arke_status status = ir_op_parse(&a, text, &op, err);
  if (status != ARKE_OK) goto done;
  status = ir_problem_bind(op, "T=f32 M=3 N=4", &p, err);
  if (status != ARKE_OK) goto done;
  ir_op_print(op, &out);
  ir_problem_print_bindings(&p, &out);
  if (strbuf_failed(&out)) {
    status = error_memory(err, "print");
    goto done;
  }
  ir_form form, split, merged, flat, short_form;
  ir_problem row = p;
  bool flattened;
  status = ir_form_make(&p, &a, &form, err);
  if (status == ARKE_OK) status = ir_form_split(&form, &a, &split, err);
  if (status == ARKE_OK) status = ir_form_merge(&split, &a, &merged, err);
  if (status != ARKE_OK) goto done;
  status = ir_form_flatten(&merged, &a, &flat, &flattened, err);
  if (status != ARKE_OK) goto done;
  row.sizes[0] = 1;
  status = ir_form_make(&row, &a, &form, err);
  if (status == ARKE_OK) status = ir_form_merge_across_ones(&form, &a, &short_form, err);
  if (status == ARKE_OK) status = ir_form_drop_ones(&form, &a, &short_form, err);
  if (status != ARKE_OK) goto done;
  ir_form_print(&flat, &out);
  if (strbuf_failed(&out)) {
    status = error_memory(err, "print");
    goto done;
  }
  ir_data data[LIMIT_TENSORS] = {{DATA, {4, 1}}};
  status = ir_evaluator_create(&p, data, &ev, err);
  if (status != ARKE_OK) goto done;
  double value, magnitude;
  status = ir_evaluator_eval(ev, op->n_inputs, (int64_t[]){2, 3}, &value, &magnitude, err);

done:
  ir_evaluator_destroy(ev);
  strbuf_free(&out);
  arena_release(&a);
  return status;
}

START_TEST(good_operators) {
  long n = 0;
  for (;; n++) {
    arke_error err = ARKE_ERROR_INIT;
    failing_alloc_arm(n);
    arke_status status = work(TEXTS[_i], &err);
    if (!failing_alloc_disarm()) {
      ck_assert_msg(status == ARKE_OK, "%s", err.text);
      break;
    }
    ck_assert_msg(status == ARKE_ERR_MEMORY, "allocation %ld: %s: %s", n, arke_status_name(status), err.text);
    ck_assert_int_eq(err.code, ARKE_ERR_MEMORY);
  }
  ck_assert_int_ge(n, 6);
}
END_TEST

/* With faults to report, running out of memory may hide them but is then the status. */
START_TEST(bad_operators) {
  static const char *const BAD[] = {"f(X: T[M]) -> (Y: T[M]) { Y[i] = AA[i] + fop(X[i]) + bb }",
                                    "f(X: T[M]) -> (Y: T[M]) { Y[i] = X[i"};
  for (long n = 0;; n++) {
    arke_error err = ARKE_ERROR_INIT;
    failing_alloc_arm(n);
    arke_status status = work(BAD[_i], &err);
    bool fired = failing_alloc_disarm();
    ck_assert(status != ARKE_OK);
    ck_assert_int_eq(err.code, status);
    if (!fired) {
      ck_assert_int_ne(status, ARKE_ERR_MEMORY);
      break;
    }
    ck_assert_int_eq(status, ARKE_ERR_MEMORY);
  }
}
END_TEST

START_TEST(bad_bindings) {
  arena a = ARENA_INIT;
  const ir_op *op;
  ir_problem p;
  ck_assert_int_eq(ir_op_parse(&a, TEXTS[0], &op, NULL), ARKE_OK);
  for (long n = 0;; n++) {
    arke_error err = ARKE_ERROR_INIT;
    failing_alloc_arm(n);
    arke_status status = ir_problem_bind(op, "T=f32 Q=3", &p, &err);
    bool fired = failing_alloc_disarm();
    ck_assert_int_eq(status, fired ? ARKE_ERR_MEMORY : ARKE_ERR_ARGUMENT);
    if (!fired) break;
  }
  arena_release(&a);
}
END_TEST

Suite *ir_memory_suite(void) {
  Suite *s = suite_create("ir memory");
  TCase *t = tcase_create("n-th allocation fails");
  tcase_add_loop_test(t, good_operators, 0, (int)COUNT_OF(TEXTS));
  tcase_add_loop_test(t, bad_operators, 0, 2);
  tcase_add_test(t, bad_bindings);
  suite_add_tcase(s, t);
  return s;
}
