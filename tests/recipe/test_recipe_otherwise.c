/* Which of a recipe's alternatives takes a call. */
#include <stdlib.h>
#include <string.h>

#include "recipe/recipe_call.h"
#include "tests/recipe/recipe_suites.h"
#include "tests/support/failing_alloc.h"

/* Dense rows of 16-byte multiples; then rows with a stride; then any strides, up to three leading axes. */
static const char RECIPE[] =
    "{\"tensors\":[{\"alignment\":16,\"contiguous_last\":true,\"dense\":true},"
    "{\"alignment\":16,\"contiguous_last\":true,\"dense\":true}],"
    "\"requirements\":[{\"expr\":\"N\",\"divisor\":8,\"why\":\"16 bytes at once\"}],"
    "\"launches\":[{\"kernel\":\"dense\",\"params\":[{\"kind\":\"i64\",\"value\":\"LEAD\"}],"
    "\"grid\":[\"1\",\"1\",\"1\"],\"block\":[32,1,1],\"cluster\":[1,1,1],\"smem_bytes\":\"0\"}],"
    "\"otherwise\":{\"tensors\":[{\"alignment\":2,\"contiguous_last\":true},"
    "{\"alignment\":2,\"contiguous_last\":true}],\"requirements\":[],"
    "\"launches\":[{\"kernel\":\"rows\",\"params\":[{\"kind\":\"i64\",\"value\":\"X.lead0\"}],"
    "\"grid\":[\"1\",\"1\",\"1\"],\"block\":[32,1,1],\"cluster\":[1,1,1],\"smem_bytes\":\"0\"}],"
    "\"otherwise\":{\"tensors\":[{\"alignment\":2,\"contiguous_last\":false},"
    "{\"alignment\":2,\"contiguous_last\":false}],"
    "\"requirements\":[{\"expr\":\"X.span\",\"max\":1000000,\"why\":\"32-bit offsets\"}],"
    "\"launches\":[{\"kernel\":\"any\",\"params\":[{\"kind\":\"i64\",\"value\":\"LEAD * X.lead2\"}],"
    "\"grid\":[\"1\",\"1\",\"1\"],\"block\":[32,1,1],\"cluster\":[1,1,1],\"smem_bytes\":\"0\"}]}}}";

START_TEST(alternatives_round_trip) {
  arena a = ARENA_INIT;
  arke_error err = ARKE_ERROR_INIT;
  recipe r;
  strbuf text = STRBUF_INIT;
  ck_assert_msg(recipe_parse(&a, RECIPE, strlen(RECIPE), &r, &err) == ARKE_OK, "%s", err.text);
  ck_assert(r.tensors[0].dense && !r.otherwise->tensors[0].dense);
  ck_assert_str_eq(r.otherwise->otherwise->launches[0].kernel, "any");
  ck_assert_int_eq(recipe_print(&r, &text, &err), ARKE_OK);
  ck_assert_str_eq(strbuf_text(&text), RECIPE);
  strbuf_free(&text);
  arena_release(&a);
}
END_TEST

START_TEST(alternatives_are_checked) {
  arena a = ARENA_INIT;
  arke_error err = ARKE_ERROR_INIT;
  recipe r[RECIPE_MAX_OTHERWISE + 2];
  strbuf text = STRBUF_INIT;
  ck_assert_int_eq(recipe_parse(&a, RECIPE, strlen(RECIPE), &r[0], &err), ARKE_OK);
  r[0].otherwise = NULL;
  for (size_t i = 1; i < COUNT_OF(r); i++) r[i] = r[i - 1], r[i].otherwise = &r[i - 1];
  ck_assert_int_eq(recipe_check(&r[RECIPE_MAX_OTHERWISE], &err), ARKE_OK);
  ck_assert_int_eq(recipe_print(&r[RECIPE_MAX_OTHERWISE], &text, &err), ARKE_OK);
  ck_assert_int_eq(recipe_check(&r[RECIPE_MAX_OTHERWISE + 1], &err), ARKE_ERR_INVALID);
  ck_assert_str_eq(err.text, "more than 8 recipes follow one another as otherwise");
  error_clear(&err);
  r[3].n_tensors = 1;
  ck_assert_int_eq(recipe_check(&r[4], &err), ARKE_ERR_INVALID);
  ck_assert_str_eq(err.text, "otherwise 1: the number of tensors is 1; the first recipe has 2");
  error_clear(&err);
  r[3].n_tensors = 2;
  r[2].tensors[1].alignment = 3;
  ck_assert_int_eq(recipe_check(&r[4], &err), ARKE_ERR_INVALID);
  ck_assert_str_eq(err.text, "otherwise 2: tensors[1].alignment is 3, which is no power of two");
  strbuf_free(&text);
  arena_release(&a);
}
END_TEST

/* A file may nest as deep as it likes; reading it must not. */
START_TEST(a_deep_recipe_is_refused) {
  arena a = ARENA_INIT;
  arke_error err = ARKE_ERROR_INIT;
  recipe r;
  strbuf text = STRBUF_INIT;
  const char *end = strstr(RECIPE, ",\"otherwise\"");
  enum { DEPTH = 500 };
  for (int i = 0; i < DEPTH; i++) {
    strbuf_add_bytes(&text, RECIPE, (size_t)(end - RECIPE));
    if (i + 1 < DEPTH) strbuf_add(&text, ",\"otherwise\":");
  }
  for (int i = 0; i < DEPTH; i++) strbuf_add(&text, "}");
  ck_assert_int_eq(recipe_parse(&a, text.data, text.length, &r, &err), ARKE_ERR_INVALID);
  ck_assert_msg(strstr(err.text, "otherwise.otherwise is the recipe too many") != NULL, "%s", err.text);
  strbuf_free(&text);
  arena_release(&a);
}
END_TEST

/* X: T[...,N] -> Y: T[...,N] with 3 leading axes 2x3x4 and N = 8. */
typedef struct change {
  int64_t n, x[4], y[4];
  uint64_t address;
  const char *kernel, *says; /* says: NULL, or the refusal */
} change;

static const change CALLS[] = {
    {8, {96, 32, 8, 1}, {96, 32, 8, 1}, 4096, "dense", NULL},
    {8, {96, 32, 8, 1}, {96, 32, 8, 1}, 0, "dense", NULL},    /* not allocated yet */
    {8, {8, 16, 48, 1}, {8, 16, 48, 1}, 4096, "dense", NULL}, /* all permuted alike */
    {8, {96, 32, 8, 1}, {96, 32, 8, 1}, 4098, "rows", NULL},
    {7, {84, 28, 7, 1}, {84, 28, 7, 1}, 4096, "rows", NULL},
    {8, {120, 40, 10, 1}, {96, 32, 8, 1}, 4096, "rows", NULL},
    {8, {0, 32, 8, 1}, {96, 32, 8, 1}, 4096, "any", NULL},
    {8, {96, 0, 8, 1}, {96, 32, 8, 1}, 4096, "any", NULL}, /* three leading axes, which it names */
    {8, {12, 4, 1, 24}, {96, 32, 8, 1}, 4096, "any", NULL},
    {8,
     {96, 32, 8, 1},
     {96, 32, 8, 1},
     4097,
     NULL,
     "tensor X is at address 0x1001; expected is a multiple of 16 bytes; and for the last of 3 kernels: "
     "tensor X "
     "is at address 0x1001; expected is a multiple of 2 bytes"},
    {8,
     {1000000, 32, 8, 1},
     {96, 32, 8, 1},
     4096,
     NULL,
     "a leading axis of tensor X has stride 1000000; expected is 96 (no gaps); and for the last of 3 "
     "kernels: "
     "X.span is 1000096; expected is at most 1000000 (32-bit offsets)"},
};

START_TEST(the_first_that_holds_is_chosen) {
  const change *k = &CALLS[_i];
  arena a = ARENA_INIT;
  arke_error err = ARKE_ERROR_INIT;
  recipe r;
  recipe_call c;
  const recipe *chosen;
  ck_assert_int_eq(recipe_parse(&a, RECIPE, strlen(RECIPE), &r, &err), ARKE_OK);
  recipe_tensor tensors[] = {
      {.name = "X", .rank = 4, .leading = 3, .shape = {2, 3, 4, k->n}, .address = k->address},
      {.name = "Y", .output = true, .rank = 4, .leading = 3, .shape = {2, 3, 4, k->n}}};
  memcpy(tensors[0].stride, k->x, sizeof k->x);
  memcpy(tensors[1].stride, k->y, sizeof k->y);
  const recipe_binding sizes[] = {{"N", k->n}};
  ck_assert_int_eq(recipe_call_make(tensors, 2, sizes, 1, 132, &a, &c, &err), ARKE_OK);
  arke_status status = recipe_choose(&r, &c, &chosen, &err);
  if (k->says == NULL) {
    ck_assert_msg(status == ARKE_OK, "%s", err.text);
    ck_assert_str_eq(chosen->launches[0].kernel, k->kernel);
  } else {
    ck_assert_int_eq(status, k->address == 4097 ? ARKE_ERR_ARGUMENT : ARKE_ERR_SHAPE);
    ck_assert_str_eq(err.text, k->says);
  }
  arena_release(&a);
}
END_TEST

/* A recipe that knows of one leading axis must not be given two, whatever else it asks for. */
START_TEST(leading_axes_that_no_parameter_tells_of_are_refused) {
  arena a = ARENA_INIT;
  arke_error err = ARKE_ERROR_INIT;
  recipe r;
  recipe_call c;
  const recipe *chosen;
  const char *begin = strstr(RECIPE, "\"otherwise\":") + strlen("\"otherwise\":");
  strbuf text = STRBUF_INIT;
  strbuf_add_bytes(&text, begin, strlen(begin) - 1);
  ck_assert_int_eq(recipe_parse(&a, text.data, text.length, &r, &err), ARKE_OK);
  r.otherwise = NULL;
  const recipe_tensor tensors[] = {
      {.name = "X", .rank = 3, .leading = 2, .shape = {2, 4, 8}, .stride = {0, 8, 1}},
      {.name = "Y", .output = true, .rank = 3, .leading = 2, .shape = {2, 4, 8}, .stride = {32, 8, 1}}};
  ck_assert_int_eq(recipe_call_make(tensors, 2, NULL, 0, 1, &a, &c, &err), ARKE_OK);
  ck_assert_int_eq(recipe_choose(&r, &c, &chosen, &err), ARKE_ERR_SHAPE);
  ck_assert_str_eq(err.text, "the leading axes of tensor X do not form one axis with those of the other "
                             "tensors; expected are leading axes without gaps");
  r.launches[0].params[0].value = recipe_var(&a, "LEAD1");
  ck_assert_int_eq(recipe_choose(&r, &c, &chosen, &err), ARKE_OK);
  strbuf_free(&text);
  arena_release(&a);
}
END_TEST

START_TEST(every_allocation_of_a_choice_may_fail) {
  for (long n = 0;; n++) {
    arena a = ARENA_INIT;
    recipe r;
    recipe_call c;
    const recipe *chosen;
    const recipe_tensor tensors[] = {{.name = "X", .rank = 1, .leading = 0, .shape = {8}, .stride = {1}},
                                     {.name = "Y", .rank = 1, .leading = 0, .shape = {8}, .stride = {1}}};
    const recipe_binding sizes[] = {{"N", 8}};
    failing_alloc_arm(n);
    arke_status status = recipe_parse(&a, RECIPE, strlen(RECIPE), &r, NULL);
    if (status == ARKE_OK) status = recipe_call_make(tensors, 2, sizes, 1, 1, &a, &c, NULL);
    if (status == ARKE_OK) status = recipe_choose(&r, &c, &chosen, NULL);
    bool failed = failing_alloc_disarm();
    arena_release(&a);
    ck_assert_int_eq(status, failed ? ARKE_ERR_MEMORY : ARKE_OK);
    if (!failed) break;
  }
}
END_TEST

TCase *recipe_otherwise_tests(void) {
  TCase *t = tcase_create("otherwise");
  tcase_add_test(t, alternatives_round_trip);
  tcase_add_test(t, alternatives_are_checked);
  tcase_add_test(t, a_deep_recipe_is_refused);
  tcase_add_loop_test(t, the_first_that_holds_is_chosen, 0, COUNT_OF(CALLS));
  tcase_add_test(t, leading_axes_that_no_parameter_tells_of_are_refused);
  tcase_add_test(t, every_allocation_of_a_choice_may_fail);
  return t;
}
