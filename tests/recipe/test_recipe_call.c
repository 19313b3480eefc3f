/* How a call's tensors become the variables of recipes. */
#include <stdio.h>
#include <string.h>

#include "recipe/recipe_call.h"
#include "tests/recipe/recipe_suites.h"

/* "4x8:8,1": sizes and strides; the axes before '|' stand behind "...". Y is the output. */
static recipe_tensor tensor(const char *name, const char *text) {
  recipe_tensor t = {.name = name, .output = name[0] == 'Y', .leading = -1};
  const char *at = text;
  while (*at != ':') {
    int read;
    if (*at == '|') {
      t.leading = t.rank;
      at++;
      continue;
    }
    ck_assert_int_eq(sscanf(at, "%ld%n", &t.shape[t.rank], &read), 1);
    t.rank++;
    at += read + (at[read] == 'x');
  }
  at++;
  for (int i = 0, read; i < t.rank; i++) {
    ck_assert_int_eq(sscanf(at, "%ld%n", &t.stride[i], &read), 1);
    at += read + (at[read] == ',');
  }
  return t;
}

static int64_t value_of(const recipe_call *c, arena *a, const char *text) {
  const recipe_expr *e;
  int64_t value;
  arke_error err = ARKE_ERROR_INIT;
  ck_assert_int_eq(recipe_expr_parse(a, text, &e, &err), ARKE_OK);
  ck_assert_msg(recipe_call_eval(c, e, &value, &err) == ARKE_OK, "%s", err.text);
  return value;
}

/* Two inputs and an output: the collapsed axes as "size:A,B,Y" each, fastest first. */
static const struct {
  const char *a, *b, *y, *collapsed;
} LEADING[] = {
    {"4x8|:8,1", "4x8|:8,1", "4x8|:8,1", "32:1,1,1"},
    {"4x8|:8,1", "4x8|:0,1", "4x8|:8,1", "8:1,1,1 4:8,0,8"},       /* a broadcast row */
    {"4x8|:8,1", "4x8|:1,0", "4x8|:8,1", "8:1,0,1 4:8,1,8"},       /* a broadcast column */
    {"4x8|:8,1", "4x8|:0,0", "4x8|:8,1", "32:1,0,1"},              /* a broadcast scalar */
    {"4x8|:1,4", "4x8|:1,4", "4x8|:1,4", "32:1,1,1"},              /* all transposed */
    {"4x8|:8,1", "4x8|:8,1", "4x8|:1,4", "4:8,8,1 8:1,1,4"},       /* the output alone: by its order */
    {"4x8|:10,1", "4x8|:8,1", "4x8|:8,1", "8:1,1,1 4:10,8,8"},     /* rows with gaps */
    {"4x1x8|:8,99,1", "4x1x8|:8,0,1", "4x1x8|:8,8,1", "32:1,1,1"}, /* size 1: strides mean nothing */
    {"2x3x4|:12,4,1", "2x3x4|:0,4,1", "2x3x4|:12,4,1", "12:1,1,1 2:12,0,12"},
    {"2x3x4|:12,4,1", "2x3x4|:12,0,1", "2x3x4|:12,4,1", "4:1,1,1 3:4,0,4 2:12,12,12"},
    {"2x3x4|:1,2,6", "2x3x4|:1,2,6", "2x3x4|:1,2,6", "24:1,1,1"},
    {"2x3x4|:1,2,6", "2x3x4|:1,2,6", "2x3x4|:12,4,1", "4:6,6,1 3:2,2,4 2:1,1,12"},
    {"|:", "|:", "|:", ""},
    {"1x1|:5,7", "1x1|:0,0", "1x1|:1,1", ""},
    {"0x8|:8,1", "0x8|:8,1", "0x8|:8,1", "0:0,0,0"},
    {"4x8|5:40,5,1", "4x8|:8,1", "4x8|:8,1", "32:5,1,1"}, /* rows behind the leading axes */
    {"4x8|5:48,6,1", "4x8|:8,1", "4x8|:8,1", "32:6,1,1"},
    {"4x8|5:41,5,1", "4x8|:8,1", "4x8|:8,1", "8:5,1,1 4:41,8,8"},
};

START_TEST(leading_axes_collapse_together) {
  arena a = ARENA_INIT;
  arke_error err = ARKE_ERROR_INIT;
  recipe_call c;
  const recipe_tensor tensors[] = {tensor("A", LEADING[_i].a), tensor("B", LEADING[_i].b),
                                   tensor("Y", LEADING[_i].y)};
  ck_assert_msg(recipe_call_make(tensors, 3, NULL, 0, 132, &a, &c, &err) == ARKE_OK, "%s", err.text);
  strbuf text = STRBUF_INIT;
  int64_t elements = 1;
  for (int i = 0; i < c.n_lead; i++) {
    strbuf_addf(&text, "%s%ld:%ld,%ld,%ld", i > 0 ? " " : "", c.lead[i], c.lead_stride[0][i],
                c.lead_stride[1][i], c.lead_stride[2][i]);
    elements *= c.lead[i];
  }
  ck_assert_str_eq(strbuf_text(&text), LEADING[_i].collapsed);
  ck_assert_int_eq(value_of(&c, &a, "LEAD"), elements);
  ck_assert_int_eq(value_of(&c, &a, "LEAD0 * LEAD1 * LEAD2 * LEAD3"), elements);
  ck_assert_int_eq(value_of(&c, &a, "A.lead1"), c.n_lead > 1 ? c.lead_stride[0][1] : 0);
  strbuf_free(&text);
  arena_release(&a);
}
END_TEST

START_TEST(variables_are_numbered_by_the_signature) {
  arena a = ARENA_INIT;
  recipe_call c;
  const recipe_tensor tensors[] = {tensor("X", "2x3|5x7:105,35,7,1"), tensor("W", "5x7:8,1"),
                                   tensor("Y", "2x3|7:21,7,1")};
  const recipe_binding sizes[] = {{"M", 5}, {"N", 7}};
  ck_assert_int_eq(recipe_call_make(tensors, 3, sizes, 2, 132, &a, &c, NULL), ARKE_OK);
  ck_assert_int_eq(value_of(&c, &a, "X.stride0"), 7);
  ck_assert_int_eq(value_of(&c, &a, "X.stride1"), 1);
  ck_assert_int_eq(value_of(&c, &a, "X.lead0"), 35);
  ck_assert_int_eq(value_of(&c, &a, "W.stride0"), 8);
  ck_assert_int_eq(value_of(&c, &a, "Y.stride0"), 1);
  ck_assert_int_eq(value_of(&c, &a, "LEAD"), 6);
  ck_assert_int_eq(value_of(&c, &a, "M * N + SMS"), 35 + 132);
  ck_assert_int_eq(value_of(&c, &a, "X.span"), 210);
  ck_assert_int_eq(value_of(&c, &a, "W.span"), 4 * 8 + 7);
  int64_t value;
  const recipe_expr *e = recipe_var(&a, "W.lead0");
  ck_assert_int_eq(recipe_call_eval(&c, e, &value, NULL), ARKE_ERR_INVALID); /* W has no leading axes */
  arena_release(&a);
}
END_TEST

START_TEST(an_empty_tensor_has_no_strides) {
  arena a = ARENA_INIT;
  recipe_call c;
  const recipe_tensor tensors[] = {tensor("X", "5x0:4,1"), tensor("Y", "5:1")};
  ck_assert_int_eq(recipe_call_make(tensors, 2, NULL, 0, 1, &a, &c, NULL), ARKE_OK);
  ck_assert_int_eq(value_of(&c, &a, "X.stride0"), 0);
  ck_assert_int_eq(value_of(&c, &a, "X.span"), 0);
  ck_assert_int_eq(value_of(&c, &a, "Y.span"), 5);
  arena_release(&a);
}
END_TEST

/* Launches 1 and 2 of four, once for each three of N. */
START_TEST(repeated_launches_take_turns) {
  arena a = ARENA_INIT;
  recipe_call c;
  const recipe_tensor tensors[] = {tensor("X", "7:1")};
  const recipe_binding sizes[] = {{"N", 7}, {"BIG", 1 << 20}};
  ck_assert_int_eq(recipe_call_make(tensors, 1, sizes, 2, 1, &a, &c, NULL), ARKE_OK);
  recipe r = {.n_launches = 4, .n_repeats = 1, .repeats = {{.first = 1, .n = 2}}};
  ck_assert_int_eq(recipe_expr_parse(&a, "ceildiv(N, 3)", &r.repeats[0].rounds, NULL), ARKE_OK);
  static const recipe_turn EXPECTED[] = {{0, 0}, {1, 0}, {2, 0}, {1, 1}, {2, 1}, {1, 2}, {2, 2}, {3, 0}};
  const recipe_turn *turns;
  int n;
  ck_assert_int_eq(recipe_turns(&r, &c, &a, &turns, &n, NULL), ARKE_OK);
  ck_assert_int_eq(n, COUNT_OF(EXPECTED));
  for (int i = 0; i < n; i++) {
    ck_assert_int_eq(turns[i].launch, EXPECTED[i].launch);
    ck_assert_int_eq(turns[i].round, EXPECTED[i].round);
  }
  ck_assert_int_eq(value_of(&c, &a, "ROUND"), 0);
  recipe_call_set_round(&c, 2);
  ck_assert_int_eq(value_of(&c, &a, "min(3, N - ROUND * 3)"), 1);
  r.repeats[0].rounds = recipe_const(&a, 0);
  ck_assert_int_eq(recipe_turns(&r, &c, &a, &turns, &n, NULL), ARKE_OK);
  ck_assert_int_eq(n, 2);
  r.repeats[0].rounds = recipe_var(&a, "BIG");
  arke_error err = ARKE_ERROR_INIT;
  ck_assert_int_eq(recipe_turns(&r, &c, &a, &turns, &n, &err), ARKE_ERR_UNSUPPORTED);
  ck_assert_msg(strstr(err.text, "launches 1 to 2 would run 1048576 times") != NULL, "%s", err.text);
  arena_release(&a);
}
END_TEST

START_TEST(names_of_variables_are_taken) {
  static const char *const TAKEN[] = {"SMS", "ROUND", "LEAD", "LEAD0", "LEAD3"};
  static const char *const FREE[] = {"M", "LEAD4", "LEAD00", "SMS1", "LEADS", "L"};
  for (size_t i = 0; i < COUNT_OF(TAKEN); i++) ck_assert_msg(recipe_name_is_taken(TAKEN[i]), "%s", TAKEN[i]);
  for (size_t i = 0; i < COUNT_OF(FREE); i++) ck_assert_msg(!recipe_name_is_taken(FREE[i]), "%s", FREE[i]);
}
END_TEST

TCase *recipe_call_tests(void) {
  TCase *t = tcase_create("call");
  tcase_add_loop_test(t, leading_axes_collapse_together, 0, COUNT_OF(LEADING));
  tcase_add_test(t, variables_are_numbered_by_the_signature);
  tcase_add_test(t, an_empty_tensor_has_no_strides);
  tcase_add_test(t, repeated_launches_take_turns);
  tcase_add_test(t, names_of_variables_are_taken);
  return t;
}
