/* docs/notation.md against the code: its examples parse, its tables hold what the lists hold. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "ir/ir.h"
#include "tests/ir/ir_suites.h"
#include "tests/ir/operator_cases.h"

static char *docs(void) {
  char *text = file_read("docs/notation.md", NULL);
  ck_assert_msg(text != NULL, "docs/notation.md is missing");
  return text;
}

/* Each ```arke block is one operator; a line "# prints: …" inside, if any, is its canonical form. */
START_TEST(examples_parse) {
  static const char OPEN[] = "```arke\n", CLOSE[] = "\n```", PRINTS[] = "# prints: ";
  char *text = docs();
  int n = 0;
  for (char *block = strstr(text, OPEN); block != NULL; n++) {
    block += strlen(OPEN);
    char *end = strstr(block, CLOSE);
    ck_assert_ptr_nonnull(end);
    *end = '\0';
    arena a = ARENA_INIT;
    arke_error err = ARKE_ERROR_INIT;
    const ir_op *op;
    ck_assert_msg(ir_op_parse(&a, block, &op, &err) == ARKE_OK, "%s\n%s", block, err.text);
    char *prints = strstr(block, PRINTS);
    if (prints != NULL) {
      prints += strlen(PRINTS);
      prints[strcspn(prints, "\n")] = '\0';
      strbuf out = STRBUF_INIT;
      ir_op_print(op, &out);
      ck_assert_str_eq(strbuf_text(&out), prints);
      strbuf_free(&out);
    }
    arena_release(&a);
    block = strstr(end + 1, OPEN);
  }
  ck_assert_int_gt(n, 15);
  free(text);
}
END_TEST

static void check_row(const char *text, const char *row) {
  ck_assert_msg(strstr(text, row) != NULL, "docs/notation.md lacks the row: %s", row);
}

START_TEST(functions_are_documented) {
  char *text = docs(), row[256];
#define X(NAME, name, arity, reference, meaning)                                                             \
  snprintf(row, sizeof row, "\n| `%s` | %d | %s |\n", #name, arity, meaning);                                \
  check_row(text, row);
  IR_FUNCTIONS(X)
#undef X
  free(text);
}
END_TEST

START_TEST(reductions_are_documented) {
  char *text = docs(), row[256];
#define X(NAME, name, meaning)                                                                               \
  snprintf(row, sizeof row, "\n| `%s` | %s |\n", #name, meaning);                                            \
  check_row(text, row);
  IR_REDUCTIONS(X)
#undef X
  free(text);
}
END_TEST

START_TEST(dtypes_are_documented) {
  char *text = docs(), word[300];
  for (int i = 0; i < DTYPE_COUNT; i++) {
    snprintf(word, sizeof word, "`%s`", dtype_name((dtype)i));
    check_row(text, word);
  }
  free(text);
}
END_TEST

/* docs/operators.md has a row and the text of every operator, and nothing that is none. */
START_TEST(catalogue_is_documented) {
  char *text = file_read("docs/operators.md", NULL);
  ck_assert_ptr_nonnull(text);
  strbuf row = STRBUF_INIT;
  for (int i = 0; i < ir_catalogue_count(); i++) {
    const ir_catalogue_entry *e = ir_catalogue_get(i);
    strbuf_clear(&row);
    strbuf_addf(&row, "\n| `%s` | `%s` | ", e->name, e->shape_axes);
    for (const char *c = e->dtypes; *c != '\0'; c++) {
      if (*c == '|')
        strbuf_add(&row, " / ");
      else
        strbuf_add_bytes(&row, c, 1);
    }
    strbuf_addf(&row, " | %s |\n", e->help);
    check_row(text, strbuf_text(&row));
    strbuf_clear(&row);
    strbuf_addf(&row, "\n```arke\n%s\n```\n", e->text);
    check_row(text, strbuf_text(&row));
  }
  for (int i = 0; i < ir_family_count(); i++) {
    strbuf_clear(&row);
    strbuf_addf(&row, "\n| `%s` | %s |\n", ir_family_form(i), ir_family_help(i));
    check_row(text, strbuf_text(&row));
  }
  int blocks = 0;
  for (const char *at = text; (at = strstr(at, "\n```arke\n")) != NULL; at++) blocks++;
  ck_assert_int_eq(blocks, ir_catalogue_count());
  strbuf_free(&row);
  free(text);
}
END_TEST

Suite *notation_docs_suite(void) {
  Suite *s = suite_create("notation docs");
  TCase *t = tcase_create("docs/notation.md");
  tcase_add_test(t, examples_parse);
  tcase_add_test(t, functions_are_documented);
  tcase_add_test(t, reductions_are_documented);
  tcase_add_test(t, dtypes_are_documented);
  tcase_add_test(t, catalogue_is_documented);
  suite_add_tcase(s, t);
  return s;
}
