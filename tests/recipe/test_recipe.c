#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "recipe/recipe.h"
#include "tests/recipe/recipe_suites.h"
#include "tests/support/failing_alloc.h"

/* --- expressions ---------------------------------------------------------------------------------------- */

static const recipe_binding ENV[] = {{"M", 1000}, {"N", 257},         {"SMS", 132},      {"A.stride0", 4096},
                                     {"ZERO", 0}, {"BIG", INT64_MAX}, {"LOW", INT64_MIN}};

/* text in, canonical text out, value */
static const struct {
  const char *text, *printed;
  int64_t value;
} GOOD[] = {
    {"7", "7", 7},
    {"-7", "-7", -7},
    {"9223372036854775807", "9223372036854775807", INT64_MAX},
    {"-9223372036854775808", "-9223372036854775808", INT64_MIN},
    {" M ", "M", 1000},
    {"A.stride0*2", "A.stride0 * 2", 8192},
    {"1+2*3", "1 + 2 * 3", 7},
    {"(1+2)*3", "(1 + 2) * 3", 9},
    {"10-4-3", "10 - 4 - 3", 3},
    {"10-(4-3)", "10 - (4 - 3)", 9},
    {"100/10/5", "100 / 10 / 5", 2},
    {"100/(10/5)", "100 / (10 / 5)", 50},
    {"7 - -2", "7 - -2", 9},
    {"M % 7 * 2", "M % 7 * 2", 12},
    {"M % (7 * 2)", "M % (7 * 2)", 6},
    {"ceildiv(M, 128)", "ceildiv(M, 128)", 8},
    {"min(SMS, ceildiv(M, 128) * ceildiv(N, 256))", "min(SMS, ceildiv(M, 128) * ceildiv(N, 256))", 16},
    {"max(M, N) + min(M, N)", "max(M, N) + min(M, N)", 1257},
    {"ceildiv(ZERO, 5)", "ceildiv(ZERO, 5)", 0},
    {"BIG + 0", "BIG + 0", INT64_MAX},
    {"LOW + 0", "LOW + 0", INT64_MIN},
};

static bool same_expr(const recipe_expr *x, const recipe_expr *y) {
  if (x == NULL || y == NULL) return x == y;
  if (x->op != y->op || x->value != y->value) return false;
  if (x->op == RECIPE_VAR && strcmp(x->name, y->name) != 0) return false;
  return same_expr(x->args[0], y->args[0]) && same_expr(x->args[1], y->args[1]);
}

START_TEST(expressions_round_trip) {
  arena a = ARENA_INIT;
  arke_error err = ARKE_ERROR_INIT;
  const recipe_expr *e, *again;
  ck_assert_int_eq(recipe_expr_parse(&a, GOOD[_i].text, &e, &err), ARKE_OK);
  strbuf printed = STRBUF_INIT;
  recipe_expr_print(&printed, e);
  ck_assert_str_eq(strbuf_text(&printed), GOOD[_i].printed);
  ck_assert_int_eq(recipe_expr_parse(&a, strbuf_text(&printed), &again, &err), ARKE_OK);
  ck_assert(same_expr(e, again));
  int64_t value;
  ck_assert_int_eq(recipe_expr_eval(e, ENV, COUNT_OF(ENV), &value, &err), ARKE_OK);
  ck_assert(value == GOOD[_i].value);
  strbuf_free(&printed);
  arena_release(&a);
}
END_TEST

static const struct {
  const char *text;
  arke_status status;
  const char *says;
} BAD[] = {
    {"", ARKE_ERR_SYNTAX, "column 1: the text ends where a number, a name or '(' is expected"},
    {"M +", ARKE_ERR_SYNTAX, "column 4: the text ends"},
    {"M N", ARKE_ERR_SYNTAX, "column 3: found 'N', expected an operator or the end"},
    {"(M", ARKE_ERR_SYNTAX, "column 3: the text ends where ')' is expected"},
    {"min(M)", ARKE_ERR_SYNTAX, "column 6: found ')', expected ','"},
    {"min M", ARKE_ERR_SYNTAX, "column 5: found 'M', expected '('"},
    {"ceildiv(1,2,3)", ARKE_ERR_SYNTAX, "column 12: found ',', expected ')'"},
    {"-M", ARKE_ERR_SYNTAX, "column 2: found 'M', expected a digit"},
    {"M & 3", ARKE_ERR_SYNTAX, "column 3: found '&'"},
    {"9223372036854775808", ARKE_ERR_SYNTAX, "a number that fits in 64 bits"},
    {"-9223372036854775809", ARKE_ERR_SYNTAX, "a number that fits in 64 bits"},
    {"a234567890123456789012345678901234567890123456789012345678901234", ARKE_ERR_SYNTAX, "a shorter name"},
    {"Q + 1", ARKE_ERR_INVALID, "unknown variable \"Q\""},
    {"M / ZERO", ARKE_ERR_INVALID, "division by zero in \"M / ZERO\""},
    {"M % ZERO", ARKE_ERR_INVALID, "division by zero"},
    {"ceildiv(M, 0)", ARKE_ERR_INVALID, "division by zero"},
    {"(0 - M) / 3", ARKE_ERR_INVALID, "division of a negative number"},
    {"M / (0 - 3)", ARKE_ERR_INVALID, "division of a negative number"},
    {"LOW / -1", ARKE_ERR_INVALID, "division of a negative number"},
    {"BIG + 1", ARKE_ERR_INVALID, "64-bit overflow in \"BIG + 1\""},
    {"LOW - 1", ARKE_ERR_INVALID, "64-bit overflow"},
    {"BIG * 2", ARKE_ERR_INVALID, "64-bit overflow"},
};

START_TEST(bad_expressions_say_where) {
  arena a = ARENA_INIT;
  arke_error err = ARKE_ERROR_INIT;
  const recipe_expr *e;
  int64_t value;
  arke_status status = recipe_expr_parse(&a, BAD[_i].text, &e, &err);
  if (status == ARKE_OK) status = recipe_expr_eval(e, ENV, COUNT_OF(ENV), &value, &err);
  ck_assert_int_eq(status, BAD[_i].status);
  ck_assert_msg(strstr(err.text, BAD[_i].says) != NULL, "\"%s\" lacks \"%s\"", err.text, BAD[_i].says);
  arena_release(&a);
}
END_TEST

/* Text built to exhaust the stack of the parser or of the evaluator. */
START_TEST(expressions_have_bounds) {
  arena a = ARENA_INIT;
  const recipe_expr *e;
  strbuf deep = STRBUF_INIT, long_chain = STRBUF_INIT;
  for (int i = 0; i < 100000; i++) strbuf_add(&deep, "(");
  strbuf_add(&long_chain, "1");
  for (int i = 0; i < 100000; i++) strbuf_add(&long_chain, "+1");
  arke_error err = ARKE_ERROR_INIT;
  ck_assert_int_eq(recipe_expr_parse(&a, strbuf_text(&deep), &e, &err), ARKE_ERR_SYNTAX);
  ck_assert(strstr(err.text, "nested deeper than") != NULL);
  error_clear(&err);
  ck_assert_int_eq(recipe_expr_parse(&a, strbuf_text(&long_chain), &e, &err), ARKE_ERR_SYNTAX);
  ck_assert(strstr(err.text, "more than") != NULL);
  strbuf_free(&deep);
  strbuf_free(&long_chain);
  arena_release(&a);
}
END_TEST

START_TEST(builders_pass_null_on) {
  arena a = ARENA_INIT;
  ck_assert_ptr_null(recipe_binary(&a, RECIPE_ADD, NULL, recipe_const(&a, 1)));
  ck_assert_ptr_null(recipe_binary(&a, RECIPE_ADD, recipe_const(&a, 1), NULL));
  ck_assert_ptr_null(recipe_binary(&a, RECIPE_VAR, recipe_const(&a, 1), recipe_const(&a, 1)));
  ck_assert_ptr_null(recipe_var(&a, NULL));
  int64_t value;
  ck_assert_int_eq(recipe_expr_eval(NULL, NULL, 0, &value, NULL), ARKE_ERR_INVALID);
  arena_release(&a);
}
END_TEST

/* --- recipes as JSON ------------------------------------------------------------------------------------ */

static const char RECIPE[] =
    "{\"tensors\":[{\"alignment\":16,\"contiguous_last\":true},{\"alignment\":4,\"contiguous_last\":false}],"
    "\"requirements\":[{\"expr\":\"K\",\"divisor\":8,\"why\":\"rows are 16-byte aligned\"},"
    "{\"expr\":\"M * K\",\"max\":2147483647,\"why\":\"32-bit indices\"}],"
    "\"launches\":[{\"kernel\":\"gemm\",\"params\":["
    "{\"kind\":\"tensormap\",\"tensor\":0,\"offset\":\"ROUND * "
    "64\",\"dim\":[\"K\",\"M\"],\"stride\":[\"A.stride0\"],\"box\":[64,128],"
    "\"swizzle\":3,\"l2_promotion\":2},"
    "{\"kind\":\"pointer\",\"tensor\":1},{\"kind\":\"i32\",\"value\":\"M\"},{\"kind\":\"i64\",\"value\":\"M "
    "* K\"},"
    "{\"kind\":\"f32\",\"attr\":\"eps\"},{\"kind\":\"workspace\",\"value\":\"256\"},"
    "{\"kind\":\"workspace_map\",\"dtype\":\"bf16\",\"value\":\"M * "
    "4\",\"dim\":[\"K\"],\"stride\":[],\"box\":[8],"
    "\"swizzle\":0,\"l2_promotion\":0}],"
    "\"grid\":[\"min(SMS, ceildiv(M, 128))\",\"1\",\"1\"],\"block\":[384,1,1],\"cluster\":[2,1,1],"
    "\"smem_bytes\":\"4 * 49152 + "
    "1024\",\"early_start\":true}],\"repeats\":[{\"first\":0,\"launches\":1,\"rounds\":\"ceildiv(M, "
    "64)\"}],\"workspace_bytes\":\"M * 4 + 256\"}";

START_TEST(a_recipe_round_trips) {
  arena a = ARENA_INIT;
  arke_error err = ARKE_ERROR_INIT;
  recipe r;
  ck_assert_int_eq(recipe_parse(&a, RECIPE, strlen(RECIPE), &r, &err), ARKE_OK);
  ck_assert_int_eq(r.n_tensors, 2);
  ck_assert_int_eq(r.tensors[0].alignment, 16);
  ck_assert(r.tensors[0].contiguous_last && !r.tensors[1].contiguous_last);
  ck_assert_int_eq(r.requirements[0].divisor, 8);
  ck_assert_int_eq(r.requirements[1].max, INT32_MAX);
  ck_assert_str_eq(r.requirements[1].why, "32-bit indices");
  const recipe_launch *l = &r.launches[0];
  ck_assert_int_eq(l->n_params, 7);
  ck_assert_int_eq(l->params[6].kind, RECIPE_PARAM_WORKSPACE_MAP);
  ck_assert_int_eq(l->params[6].type, DTYPE_BF16);
  ck_assert_int_eq(l->params[0].kind, RECIPE_PARAM_TENSORMAP);
  ck_assert_int_eq(l->params[0].map.rank, 2);
  ck_assert_str_eq(l->params[0].map.stride[1]->name, "A.stride0");
  ck_assert_uint_eq(l->params[0].map.box[1], 128);
  ck_assert_str_eq(l->params[4].attr, "eps");
  ck_assert_int_eq(l->params[0].value->op, RECIPE_MUL);
  ck_assert_ptr_null(l->params[1].value);
  ck_assert_int_eq(r.n_repeats, 1);
  ck_assert_int_eq(r.repeats[0].first, 0);
  ck_assert_int_eq(r.repeats[0].n, 1);
  ck_assert_int_eq(r.repeats[0].rounds->op, RECIPE_CEILDIV);
  ck_assert_uint_eq(l->block[0], 384);
  ck_assert_uint_eq(l->cluster[0], 2);
  strbuf text = STRBUF_INIT;
  ck_assert_int_eq(recipe_print(&r, &text, &err), ARKE_OK);
  ck_assert_str_eq(strbuf_text(&text), RECIPE);
  strbuf_free(&text);
  arena_release(&a);
}
END_TEST

/* One edit of RECIPE each: `from` becomes `to`. */
static const struct {
  const char *from, *to, *says;
} MALFORMED[] = {
    {"{\"tensors\"", "[\"tensors\"", "not JSON"},
    {"\"tensors\":[{", "\"tensor\":[{", "tensor is not a known field"},
    {",\"workspace_bytes\":\"M * 4 + 256\"}", ",\"workspace_bytes\":1}", "workspace_bytes is an integer"},
    {",\"workspace_bytes\":\"M * 4 + 256\"}", ",\"workspace_bytes\":\"M *\"}",
     "workspace_bytes: \"M *\", column 4"},
    {",\"workspace_bytes\":\"M * 4 + 256\"}", ",\"extra\":1}", "extra is not a known field"},
    {"\"dtype\":\"bf16\"", "\"dtype\":\"bf15\"", "params[6].dtype is \"bf15\", which is no dtype"},
    {"\"dtype\":\"bf16\"", "\"dtype\":\"i4\"",
     "the bits of launches[0].params[6].dtype is 4; accepted are 8 to 64"},
    {"\"dtype\":\"bf16\"", "\"tensor\":0", "tensor is not a known field"},
    {"\"alignment\":16", "\"alignment\":24", "tensors[0].alignment is 24, which is no power of two"},
    {"\"alignment\":16", "\"alignment\":0", "tensors[0].alignment is 0; accepted are 1 to 1024"},
    {"\"alignment\":16", "\"alignment\":-16", "tensors[0].alignment is -16"},
    {"\"alignment\":16", "\"alignment\":4294967312", "tensors[0].alignment is 4294967312"},
    {"\"alignment\":16", "\"alignment\":16.0", "tensors[0].alignment is a real number"},
    {"\"alignment\":16", "\"alignment\":\"16\"", "tensors[0].alignment is a string"},
    {"\"alignment\":16,", "", "tensors[0].alignment is missing"},
    {"\"alignment\":16", "\"align\":16", "tensors[0].align is not a known field"},
    {"\"alignment\":16", "\"alignment\":16,\"alignment\":16", "not JSON"},
    {"\"contiguous_last\":true", "\"contiguous_last\":1", "tensors[0].contiguous_last is an integer"},
    {"{\"alignment\":4,\"contiguous_last\":false}", "null", "tensors[1] is null; expected is an object"},
    {",{\"alignment\":4,\"contiguous_last\":false}", "",
     "launches[0].params[1].tensor is 1; accepted are 0 to 0"},
    {"\"requirements\":[", "\"requirements\":[7,", "requirements[0] is an integer"},
    {"\"divisor\":8", "\"divisor\":0", "requirements[0].divisor is 0"},
    {"\"divisor\":8", "\"divisor\":8,\"max\":1",
     "requirements[0] needs exactly one of divisor, equal and max"},
    {"\"divisor\":8,", "", "requirements[0] needs exactly one of divisor, equal and max"},
    {"\"max\":2147483647", "\"max\":99999999999999999999", "not JSON"},
    {"\"why\":\"32-bit indices\"", "\"why\":null", "requirements[1].why is null"},
    {"\"expr\":\"K\"", "\"expr\":\"K(\"", "requirements[0].expr: \"K(\", column 2"},
    {"\"expr\":\"K\"", "\"expr\":8", "requirements[0].expr is an integer"},
    {"\"kernel\":\"gemm\"", "\"kernel\":\"\"", "the length of launches[0].kernel is 0"},
    {"\"kernel\":\"gemm\"", "\"kernel\":\"\\u0000gemm\"", "not JSON"},
    {"\"kernel\":\"gemm\",", "", "launches[0].kernel is missing"},
    {"\"kind\":\"tensormap\"", "\"kind\":\"texture\"",
     "launches[0].params[0].kind is \"texture\"; known are pointer tensormap workspace_map i32 i64 f32 "
     "workspace"},
    {"{\"kind\":\"pointer\",\"tensor\":1}", "\"pointer\"", "launches[0].params[1] is a string"},
    {"{\"kind\":\"pointer\",\"tensor\":1}", "{\"kind\":\"pointer\"}",
     "launches[0].params[1].tensor is missing"},
    {"{\"kind\":\"pointer\",\"tensor\":1}", "{\"kind\":\"pointer\",\"tensor\":-1}",
     "launches[0].params[1].tensor is -1"},
    {"{\"kind\":\"pointer\",\"tensor\":1}", "{\"kind\":\"pointer\",\"tensor\":1,\"value\":\"M\"}",
     "launches[0].params[1].value is not a known field"},
    {"\"value\":\"M\"", "\"value\":\"\"", "launches[0].params[2].value: \"\", column 1"},
    {"\"attr\":\"eps\"", "\"attr\":1", "launches[0].params[4].attr is an integer"},
    {"\"dim\":[\"K\",\"M\"]", "\"dim\":[]", "launches[0].params[0].dim has 0 elements; accepted are 1 to 5"},
    {"\"dim\":[\"K\",\"M\"]", "\"dim\":[\"K\",\"M\",\"1\",\"1\",\"1\",\"1\"]", "dim has 6 elements"},
    {"\"dim\":[\"K\",\"M\"]", "\"dim\":[\"K\",\"M\",\"1\"]", "stride has 1 elements; accepted are 2 to 2"},
    {"\"box\":[64,128]", "\"box\":[64]", "launches[0].params[0].box has 1 elements"},
    {"\"box\":[64,128]", "\"box\":[64,512]", "launches[0].params[0].box[1] is 512; accepted are 1 to 256"},
    {"\"box\":[64,128]", "\"box\":[0,128]", "launches[0].params[0].box[0] is 0"},
    {"\"box\":[64,128]", "\"box\":[-64,128]", "launches[0].params[0].box[0] is -64"},
    {"\"box\":[64,128]", "\"box\":[4294967360,128]", "launches[0].params[0].box[0] is 4294967360"},
    {"\"box\":[64,128]", "\"box\":[\"64\",128]", "launches[0].params[0].box[0] is a string"},
    {"\"swizzle\":3", "\"swizzle\":4", "launches[0].params[0].swizzle is 4"},
    {"\"l2_promotion\":2", "\"l2_promotion\":-1", "launches[0].params[0].l2_promotion is -1"},
    {"\"grid\":[\"min(SMS, ceildiv(M, 128))\",\"1\",\"1\"]", "\"grid\":[\"1\",\"1\"]",
     "launches[0].grid has 2 elements; accepted are 3 to 3"},
    {"\"grid\":[\"min(SMS, ceildiv(M, 128))\",\"1\",\"1\"]", "\"grid\":[1,1,1]",
     "launches[0].grid[0] is an integer"},
    {"\"block\":[384,1,1]", "\"block\":[2048,1,1]", "launches[0].block[0] is 2048"},
    {"\"block\":[384,1,1]", "\"block\":[384,4,1]", "the threads of launches[0].block is 1536"},
    {"\"block\":[384,1,1]", "\"block\":[1,1,65]", "launches[0].block[2] is 65; accepted are 1 to 64"},
    {"\"block\":[384,1,1]", "\"block\":384", "launches[0].block is an integer"},
    {"\"cluster\":[2,1,1]", "\"cluster\":[0,1,1]", "launches[0].cluster[0] is 0"},
    {"\"cluster\":[2,1,1]", "\"cluster\":[8,4,1]", "the blocks of launches[0].cluster is 32"},
    {",\"smem_bytes\":\"4 * 49152 + 1024\"", "", "launches[0].smem_bytes is missing"},
    {"\"offset\":\"ROUND * 64\"", "\"offset\":64", "launches[0].params[0].offset is an integer"},
    {"\"first\":0", "\"first\":1", "repeats[0].first is 1; accepted are 0 to 0"},
    {"\"first\":0", "\"first\":-1", "repeats[0].first is -1"},
    {"\"first\":0,", "", "repeats[0].first is missing"},
    {"\"launches\":1", "\"launches\":2", "repeats[0].launches is 2; accepted are 1 to 1"},
    {"\"launches\":1", "\"launches\":0", "repeats[0].launches is 0; accepted are 1 to 1"},
    {"\"rounds\":\"ceildiv(M, 64)\"", "\"rounds\":4", "repeats[0].rounds is an integer"},
    {"\"rounds\":\"ceildiv(M, 64)\"", "\"times\":\"4\"", "repeats[0].times is not a known field"},
    {"\"repeats\":[{", "\"repeats\":[{\"first\":0,\"launches\":1,\"rounds\":\"2\"},{",
     "repeats[1].first is 0; accepted are 1 to 0"},
    {"\"early_start\":true", "\"early_start\":1", "launches[0].early_start is an integer"},
};

static char *edited(const char *from, const char *to) {
  const char *place = strstr(RECIPE, from);
  ck_assert_ptr_nonnull(place);
  char *text = malloc(strlen(RECIPE) + strlen(to) + 1);
  ck_assert_ptr_nonnull(text);
  sprintf(text, "%.*s%s%s", (int)(place - RECIPE), RECIPE, to, place + strlen(from));
  return text;
}

START_TEST(a_malformed_recipe_is_refused) {
  arena a = ARENA_INIT;
  arke_error err = ARKE_ERROR_INIT;
  recipe r;
  char *text = edited(MALFORMED[_i].from, MALFORMED[_i].to);
  ck_assert_int_ne(recipe_parse(&a, text, strlen(text), &r, &err), ARKE_OK);
  ck_assert_msg(strstr(err.text, MALFORMED[_i].says) != NULL, "\"%s\" lacks \"%s\"", err.text,
                MALFORMED[_i].says);
  free(text);
  arena_release(&a);
}
END_TEST

START_TEST(a_cut_recipe_is_refused) {
  for (size_t n = 0; n < strlen(RECIPE); n++) {
    arena a = ARENA_INIT;
    recipe r;
    ck_assert_int_ne(recipe_parse(&a, RECIPE, n, &r, NULL), ARKE_OK);
    arena_release(&a);
  }
}
END_TEST

/* Bytes replaced at random: whatever is accepted prints and parses again to the same text. */
START_TEST(a_damaged_recipe_never_crashes) {
  static const char BYTES[] = "0123456789-+*/%(),.:[]{}\"eKMaz \\\x80";
  int accepted = 0;
  for (uint64_t round = 0; round < 20000; round++) {
    char text[sizeof RECIPE];
    memcpy(text, RECIPE, sizeof text);
    for (uint64_t i = 0; i <= round % 3; i++)
      text[random_u64(round, 2 * i) % (sizeof RECIPE - 1)] =
          BYTES[random_u64(round, 2 * i + 1) % (sizeof BYTES - 1)];
    arena a = ARENA_INIT;
    recipe r;
    strbuf first = STRBUF_INIT, second = STRBUF_INIT;
    if (recipe_parse(&a, text, sizeof text - 1, &r, NULL) == ARKE_OK) {
      accepted++;
      ck_assert_int_eq(recipe_print(&r, &first, NULL), ARKE_OK);
      ck_assert_int_eq(recipe_parse(&a, strbuf_text(&first), first.length, &r, NULL), ARKE_OK);
      ck_assert_int_eq(recipe_print(&r, &second, NULL), ARKE_OK);
      ck_assert_str_eq(strbuf_text(&first), strbuf_text(&second));
    }
    strbuf_free(&first);
    strbuf_free(&second);
    arena_release(&a);
  }
  ck_assert_int_gt(accepted, 500);
}
END_TEST

START_TEST(too_many_of_anything_is_refused) {
  static const struct {
    const char *from, *element;
    int n;
    const char *says;
  } CASES[] = {
      {"\"tensors\":[", "{\"alignment\":4,\"contiguous_last\":false},", LIMIT_TENSORS,
       "tensors has 18 elements"},
      {"\"requirements\":[", "{\"expr\":\"K\",\"divisor\":8,\"why\":\"\"},", RECIPE_MAX_REQUIREMENTS,
       "requirements has 130 elements"},
      {"\"params\":[", "{\"kind\":\"i32\",\"value\":\"M\"},", LIMIT_KERNEL_ARGS, "params has 135 elements"},
  };
  for (size_t i = 0; i < COUNT_OF(CASES); i++) {
    arena a = ARENA_INIT;
    arke_error err = ARKE_ERROR_INIT;
    recipe r;
    strbuf many = STRBUF_INIT;
    strbuf_add(&many, CASES[i].from);
    for (int k = 0; k < CASES[i].n; k++) strbuf_add(&many, CASES[i].element);
    char *text = edited(CASES[i].from, strbuf_text(&many));
    ck_assert_int_eq(recipe_parse(&a, text, strlen(text), &r, &err), ARKE_ERR_INVALID);
    ck_assert_msg(strstr(err.text, CASES[i].says) != NULL, "%s", err.text);
    free(text);
    strbuf_free(&many);
    arena_release(&a);
  }
}
END_TEST

START_TEST(a_template_cannot_print_an_incomplete_recipe) {
  arena a = ARENA_INIT;
  recipe r;
  strbuf text = STRBUF_INIT;
  ck_assert_int_eq(recipe_parse(&a, RECIPE, strlen(RECIPE), &r, NULL), ARKE_OK);
  arke_error err = ARKE_ERROR_INIT;
  r.launches[0].grid[2] = NULL;
  ck_assert_int_eq(recipe_print(&r, &text, &err), ARKE_ERR_INVALID);
  ck_assert_str_eq(err.text, "launches[0].grid[2] is missing");
  r.launches[0].grid[2] = recipe_const(&a, 1);
  error_clear(&err);
  r.launches[0].params[0].map.stride[1] = NULL;
  ck_assert_int_eq(recipe_print(&r, &text, &err), ARKE_ERR_INVALID);
  ck_assert_str_eq(err.text, "launches[0].params[0].stride[0] is missing");
  ck_assert_uint_eq(text.length, 0);
  strbuf_free(&text);
  arena_release(&a);
}
END_TEST

START_TEST(every_allocation_may_fail) {
  for (long n = 0;; n++) {
    arena a = ARENA_INIT;
    recipe r;
    strbuf text = STRBUF_INIT;
    failing_alloc_arm(n);
    arke_status status = recipe_parse(&a, RECIPE, strlen(RECIPE), &r, NULL);
    if (status == ARKE_OK) status = recipe_print(&r, &text, NULL);
    bool failed = failing_alloc_disarm();
    strbuf_free(&text);
    arena_release(&a);
    ck_assert_int_eq(status, failed ? ARKE_ERR_MEMORY : ARKE_OK);
    if (!failed) break;
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("recipe");
  suite_add_tcase(suite, recipe_call_tests());
  suite_add_tcase(suite, recipe_otherwise_tests());
  TCase *exprs = tcase_create("expressions"), *json = tcase_create("json");
  tcase_add_loop_test(exprs, expressions_round_trip, 0, COUNT_OF(GOOD));
  tcase_add_loop_test(exprs, bad_expressions_say_where, 0, COUNT_OF(BAD));
  tcase_add_test(exprs, expressions_have_bounds);
  tcase_add_test(exprs, builders_pass_null_on);
  suite_add_tcase(suite, exprs);
  tcase_add_test(json, a_recipe_round_trips);
  tcase_add_loop_test(json, a_malformed_recipe_is_refused, 0, COUNT_OF(MALFORMED));
  tcase_add_test(json, a_cut_recipe_is_refused);
  tcase_add_test(json, a_damaged_recipe_never_crashes);
  tcase_add_test(json, too_many_of_anything_is_refused);
  tcase_add_test(json, a_template_cannot_print_an_incomplete_recipe);
  tcase_add_test(json, every_allocation_may_fail);
  tcase_set_timeout(json, 60);
  suite_add_tcase(suite, json);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_NORMAL);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed == 0 ? 0 : 1;
}
