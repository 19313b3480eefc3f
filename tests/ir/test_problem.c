#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "ir/ir.h"
#include "tests/ir/ir_suites.h"

START_TEST(catalogue_parses) {
  ck_assert_int_ge(ir_catalogue_count(), 2);
  for (int i = 0; i < ir_catalogue_count(); i++) {
    const ir_catalogue_entry *entry = ir_catalogue_get(i);
    arena a = ARENA_INIT;
    arke_error err = ARKE_ERROR_INIT;
    const ir_op *op;
    ck_assert_msg(ir_op_parse(&a, entry->text, &op, &err) == ARKE_OK, "%s: %s", entry->name, err.text);
    ck_assert_str_eq(op->name, entry->name);
    strbuf out = STRBUF_INIT; /* the key is the canonical form: the table holds it as it prints */
    ir_op_print(op, &out);
    ck_assert_str_eq(strbuf_text(&out), entry->text);
    strbuf_free(&out);
    char axes[128];
    snprintf(axes, sizeof axes, "%s", entry->shape_axes);
    for (char *axis = strtok(axes, ","); axis != NULL; axis = strtok(NULL, ",")) {
      bool found = false;
      for (int x = 0; x < op->n_axes; x++) found = found || strcmp(op->axes[x], axis) == 0;
      ck_assert_msg(found, "%s has no axis %s", entry->name, axis);
    }
    ck_assert_uint_gt(strlen(entry->help), 0);
    arena_release(&a);
  }
}
END_TEST

START_TEST(catalogue_finds_and_suggests) {
  const char *nearest = "";
  ck_assert_str_eq(ir_catalogue_find("matmul", &nearest)->name, "matmul");
  ck_assert_ptr_null(nearest);
  ck_assert_ptr_null(ir_catalogue_find("matmull", &nearest));
  ck_assert_str_eq(nearest, "matmul");
  ck_assert_ptr_null(ir_catalogue_find("zzzzzzzzzz", &nearest));
  ck_assert_ptr_null(nearest);
  ck_assert_ptr_null(ir_catalogue_find("relu6", NULL));
}
END_TEST

/* What ir_problem_print_bindings prints binds the same problem. */
START_TEST(bindings_round_trip) {
  static const char TEXT[] = "f(X: T[...,M], Y: U[N]) -> (Z: T[...,M]) a: float = 1/sqrt(M), b: bool = true, "
                             "c: int = -3, d: dtype = bf16 { Z[...,i] = X[...,i] * a + c + b + cast<d>(1) }";
  static const char *const BINDINGS[] = {
      "T=bf16 U=i8 ...=4x128 M=7 N=0 a=0.1 b=false c=9007199254740992 d=e4m3",
      "T=bf16 U=i8 ...= M=1 N=0 a=1e-300 b=true c=-9007199254740992 d=e4m3",
      "T=f64 U=bool ...=0 M=1099511627776 N=3 a=-inf b=true c=0 d=f32",
      "T=f64 U=bool ...=1x2x3x4x5x6x7 M=1 N=3 a=nan b=true c=0 d=i4"};
  arena a = ARENA_INIT;
  arke_error err = ARKE_ERROR_INIT;
  const ir_op *op;
  ck_assert_msg(ir_op_parse(&a, TEXT, &op, &err) == ARKE_OK, "%s", err.text);
  for (size_t i = 0; i < COUNT_OF(BINDINGS); i++) {
    ir_problem p;
    strbuf out = STRBUF_INIT;
    ck_assert_msg(ir_problem_bind(op, BINDINGS[i], &p, &err) == ARKE_OK, "%s", err.text);
    ir_problem_print_bindings(&p, &out);
    ck_assert_str_eq(strbuf_text(&out), BINDINGS[i]);
    strbuf_free(&out);
  }
  ir_problem p;
  ck_assert_int_eq(ir_problem_bind(op, "T=f32 U=f32 ...=2 M=16 N=1", &p, &err), ARKE_OK);
  ck_assert_double_eq(p.attrs[0], 0.25);
  arena_release(&a);
}
END_TEST

START_TEST(errors_are_statuses) {
  arena a = ARENA_INIT;
  const ir_op *op;
  arke_error err = ARKE_ERROR_INIT;
  ck_assert_int_eq(ir_op_parse(&a, "f(", &op, &err), ARKE_ERR_SYNTAX);
  ck_assert_ptr_null(op);
  ck_assert_str_eq(err.stage, "parse");
  error_clear(&err);
  ck_assert_int_eq(ir_op_parse(&a, "f(X: T[M]) -> (Y: T[M]) { Y[i] = Z[i] }", &op, &err), ARKE_ERR_INVALID);
  ck_assert_str_eq(err.op, "f");
  ck_assert_int_eq(ir_op_parse(&a, "f(", &op, NULL), ARKE_ERR_SYNTAX);
  error_clear(&err);
  ir_problem p;
  ck_assert_int_eq(ir_op_parse(&a, ir_catalogue_get(0)->text, &op, &err), ARKE_OK);
  ck_assert_int_eq(ir_problem_bind(op, "T=f32", &p, NULL), ARKE_ERR_ARGUMENT);
  ck_assert_int_eq(ir_problem_bind(op, "T=f32", &p, &err), ARKE_ERR_ARGUMENT);
  ck_assert_str_eq(err.stage, "bind");
  ck_assert_str_eq(err.op, "matmul");
  arena_release(&a);
}
END_TEST

/* More faults than are listed are at least counted, and the list never overruns the error's text. */
START_TEST(faults_are_counted) {
  arena a = ARENA_INIT;
  arke_error err = ARKE_ERROR_INIT;
  const ir_op *op;
  strbuf text = STRBUF_INIT;
  strbuf_add(&text, "f(X: T[M]) -> (Y: T[M]) { Y[i] = 0");
  for (int i = 0; i < 25; i++) strbuf_addf(&text, " + a_name_that_nobody_has_ever_declared_anywhere_%d", i);
  strbuf_add(&text, " }");
  ck_assert_int_eq(ir_op_parse(&a, strbuf_text(&text), &op, &err), ARKE_ERR_INVALID);
  const char *more = strstr(err.text, "\nand ");
  ck_assert_ptr_nonnull(more);
  int listed = 0, left = atoi(more + 5);
  for (const char *at = err.text; (at = strstr(at, "unknown name")) != NULL; at++) listed++;
  ck_assert_int_eq(listed + left, 25);
  ck_assert_int_ge(listed, 15);
  strbuf_free(&text);
  arena_release(&a);
}
END_TEST

START_TEST(long_texts_are_refused) {
  arena a = ARENA_INIT;
  arke_error err = ARKE_ERROR_INIT;
  const ir_op *op;
  size_t bytes = LIMIT_OPERATOR_BYTES + 1;
  char *text = malloc(bytes + 1);
  ck_assert_ptr_nonnull(text);
  memset(text, ' ', bytes);
  text[bytes] = '\0';
  ck_assert_int_eq(ir_op_parse(&a, text, &op, &err), ARKE_ERR_SYNTAX);
  ck_assert_str_eq(err.text, "an operator of more than 65536 bytes is not accepted");
  free(text);
  arena_release(&a);
}
END_TEST

/* Numbers are read and printed the same where the decimal point is a comma. */
START_TEST(locale_does_not_matter) {
  if (setlocale(LC_ALL, "de_DE.UTF-8") == NULL) setlocale(LC_ALL, "");
  static const char TEXT[] = "f(X: T[M]) -> (Y: T[M]) e: float = 1e-06 { Y[i] = X[i] * 0.125 + 1234.5 + e }";
  arena a = ARENA_INIT;
  arke_error err = ARKE_ERROR_INIT;
  const ir_op *op;
  ck_assert_msg(ir_op_parse(&a, TEXT, &op, &err) == ARKE_OK, "%s", err.text);
  strbuf out = STRBUF_INIT;
  ir_op_print(op, &out);
  ck_assert_str_eq(strbuf_text(&out), TEXT);
  strbuf_free(&out);
  arena_release(&a);
}
END_TEST

Suite *problem_suite(void) {
  Suite *s = suite_create("problems");
  TCase *t = tcase_create("catalogue and bindings");
  tcase_add_test(t, catalogue_parses);
  tcase_add_test(t, catalogue_finds_and_suggests);
  tcase_add_test(t, bindings_round_trip);
  tcase_add_test(t, errors_are_statuses);
  tcase_add_test(t, faults_are_counted);
  tcase_add_test(t, long_texts_are_refused);
  tcase_add_test(t, locale_does_not_matter);
  suite_add_tcase(s, t);
  return s;
}
