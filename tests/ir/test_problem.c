#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "ir/ir.h"
#include "tests/ir/ir_suites.h"
#include "tests/ir/operator_cases.h"

/* A group of known names for every type variable. */
static void check_dtypes(const ir_catalogue_entry *entry, const ir_op *op) {
  char text[256];
  int groups = 1;
  for (const char *c = entry->dtypes; *c != '\0'; c++) groups += *c == '|';
  ck_assert_msg(groups == op->n_types, "%s: dtypes of %d type variables", entry->name, groups);
  snprintf(text, sizeof text, "%s", entry->dtypes);
  for (char *name = strtok(text, " |"); name != NULL; name = strtok(NULL, " |")) {
    dtype t;
    ck_assert_msg(dtype_from_name(name, &t), "%s: %s is no dtype", entry->name, name);
  }
}

/* Values worked out by hand stand in a case file of the operator's name. */
static void check_case(const ir_catalogue_entry *entry) {
  char file[128], line[LIMIT_NAME_BYTES];
  snprintf(file, sizeof file, "%s.op", entry->name);
  operator_case c;
  ck_assert_msg(operator_case_read(file, &c), "%s has no case file", entry->name);
  int values = 0;
  bool prints = false;
  for (int i = 0; i < c.n_sections; i++) {
    values += strcmp(c.sections[i].kind, "eval") == 0;
    prints = prints || (strcmp(c.sections[i].kind, "prints") == 0 && c.sections[i].n_lines == 1 &&
                        strcmp(c.sections[i].lines[0], entry->text) == 0);
  }
  snprintf(line, sizeof line, "%s", entry->name);
  ck_assert_msg(prints && values > 0, "tests/ir/cases/%s.op: not the catalogue's operator, or no values",
                line);
  operator_case_free(&c);
}

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
    int n_axes = 0;
    snprintf(axes, sizeof axes, "%s", entry->shape_axes);
    for (char *axis = strtok(axes, ","); axis != NULL; axis = strtok(NULL, ",")) {
      bool found = strcmp(axis, "...") == 0 && strstr(entry->text, "[...]") != NULL;
      for (int x = 0; x < op->n_axes; x++) found = found || strcmp(op->axes[x], axis) == 0;
      ck_assert_msg(found, "%s has no axis %s", entry->name, axis);
      n_axes += strcmp(axis, "...") != 0;
    }
    ck_assert_msg(n_axes == op->n_axes, "--shape of %s leaves sizes out", entry->name);
    check_dtypes(entry, op);
    ck_assert_uint_gt(strlen(entry->help), 0);
    ck_assert_uint_gt(strlen(entry->family), 0);
    check_case(entry);
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

START_TEST(families_make_operators) {
  static const struct {
    const char *name, *axes, *text;
  } MADE[] = {
      {"permute:0", "A", "permute_0(X: T[A]) -> (Y: T[A]) { Y[a] = X[a] }"},
      {"permute:2,0,1", "A,B,C", "permute_2_0_1(X: T[A,B,C]) -> (Y: T[C,A,B]) { Y[c,a,b] = X[a,b,c] }"},
      {"concat:3,1,2", "A,B,N0,N1,N",
       "concat_3_1_2(X0: T[A,N0,B], X1: T[A,N1,B]) -> (Y: T[A,N,B]) "
       "{ Y[a,n + 0,b] = X0[a,n,b]; Y[a,n + N0,b] = X1[a,n,b] }"},
      {"split:1,0,3", "N0,N1,N2,N",
       "split_1_0_3(X: T[N]) -> (Y0: T[N0], Y1: T[N1], Y2: T[N2]) "
       "{ Y0[n] = X[n + 0]; Y1[n] = X[n + N0]; Y2[n] = X[n + N0 + N1] }"},
      {"softmax", "M,N", NULL},
  };
  for (size_t i = 0; i < COUNT_OF(MADE); i++) {
    arena a = ARENA_INIT;
    arke_error err = ARKE_ERROR_INIT;
    const ir_catalogue_entry *entry;
    const ir_op *op;
    ck_assert_msg(ir_operator_find(&a, MADE[i].name, &entry, &err) == ARKE_OK, "%s", err.text);
    ck_assert_str_eq(entry->shape_axes, MADE[i].axes);
    if (MADE[i].text != NULL) ck_assert_str_eq(entry->text, MADE[i].text);
    ck_assert_msg(ir_op_parse(&a, entry->text, &op, &err) == ARKE_OK, "%s", err.text);
    strbuf out = STRBUF_INIT;
    ir_op_print(op, &out);
    ck_assert_str_eq(strbuf_text(&out), entry->text);
    strbuf_free(&out);
    arena_release(&a);
  }
}
END_TEST

START_TEST(families_refuse) {
  static const struct {
    const char *name, *error;
    arke_status status;
  } REFUSED[] = {
      {"permute", "permute takes numbers: permute:AXIS,…", ARKE_ERR_ARGUMENT},
      {"permute:", "permute:: accepted is permute:AXIS,…, with 1 to 8 numbers", ARKE_ERR_ARGUMENT},
      {"permute:1,1", "permute:1,1: accepted is each axis from 0 to 1 once", ARKE_ERR_ARGUMENT},
      {"permute:0,x", "permute:0,x: accepted is permute:AXIS,…, with 1 to 8 numbers", ARKE_ERR_ARGUMENT},
      {"permute:0,1,2,3,4,5,6,7,8",
       "permute:0,1,2,3,4,5,6,7,8: accepted is permute:AXIS,…, with 1 to 8 numbers", ARKE_ERR_ARGUMENT},
      {"concat:2,2,2",
       "concat:2,2,2: accepted are RANK,AXIS,COUNT: a number of axes from 1 to 8, an axis from 0 to RANK - 1 "
       "and a number of parts from 1 to 14, like concat:2,1,3",
       ARKE_ERR_ARGUMENT},
      {"split:2,1",
       "split:2,1: accepted are RANK,AXIS,COUNT: a number of axes from 1 to 8, an axis from 0 to RANK - 1 "
       "and "
       "a number of parts from 1 to 15, like split:2,1,3",
       ARKE_ERR_ARGUMENT},
      {"softmaxx", "unknown operator softmaxx; did you mean softmax?", ARKE_ERR_NOT_FOUND},
      {"relu:2", "unknown operator relu:2; did you mean relu?", ARKE_ERR_NOT_FOUND},
  };
  for (size_t i = 0; i < COUNT_OF(REFUSED); i++) {
    arena a = ARENA_INIT;
    arke_error err = ARKE_ERROR_INIT;
    const ir_catalogue_entry *entry;
    ck_assert_int_eq(ir_operator_find(&a, REFUSED[i].name, &entry, &err), REFUSED[i].status);
    ck_assert_str_eq(err.text, REFUSED[i].error);
    arena_release(&a);
  }
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
      "T=f64 U=bool ...=1x2x3x4x5x6x7 M=1 N=3 a=inf b=true c=0 d=i4"};
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

/* Said before anything is made of the problem, and the same of every operator that divides sizes. */
START_TEST(uneven_sizes_and_no_numbers_are_refused) {
  static const struct {
    const char *op, *bindings, *error;
  } REFUSED[] = {
      {"grouped_query_attention", "T=f16 B=1 H=2 G=4 S=3 R=5 D=64",
       "H=2 is no multiple of G=4; accepted are multiples"},
      {"grouped_query_attention", "T=f16 B=1 H=5 G=2 S=3 R=5 D=64",
       "H=5 is no multiple of G=2; accepted are multiples"},
      {"attention_backward", "T=f16 B=1 H=5 G=0 S=3 R=5 D=64 E=64",
       "H=5 is no multiple of G=0; accepted are multiples"},
      {"varlen_attention", "T=f16 N=9 H=6 M=9 G=4 D=64 E=64 B=2",
       "H=6 is no multiple of G=4; accepted are multiples"},
      {"rmsnorm", "T=f16 B=4 H=64 eps=nan", "eps=nan: a number, inf or -inf is accepted"},
  };
  for (size_t i = 0; i < COUNT_OF(REFUSED); i++) {
    arena a = ARENA_INIT;
    arke_error err = ARKE_ERROR_INIT;
    const ir_op *op;
    ir_problem p;
    ck_assert_int_eq(ir_op_parse(&a, ir_catalogue_find(REFUSED[i].op, NULL)->text, &op, &err), ARKE_OK);
    ck_assert_int_ne(ir_problem_bind(op, REFUSED[i].bindings, &p, &err), ARKE_OK);
    ck_assert_str_eq(err.text, REFUSED[i].error);
    arena_release(&a);
  }
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
  ck_assert_int_eq(ir_op_parse(&a, ir_catalogue_find("matmul", NULL)->text, &op, &err), ARKE_OK);
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
  tcase_add_test(t, families_make_operators);
  tcase_add_test(t, families_refuse);
  tcase_add_test(t, bindings_round_trip);
  tcase_add_test(t, uneven_sizes_and_no_numbers_are_refused);
  tcase_add_test(t, errors_are_statuses);
  tcase_add_test(t, faults_are_counted);
  tcase_add_test(t, long_texts_are_refused);
  tcase_add_test(t, locale_does_not_matter);
  suite_add_tcase(s, t);
  return s;
}
