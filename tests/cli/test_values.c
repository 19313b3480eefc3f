/* Sizes, element types and attributes as the command line gives them. */
#include <string.h>

#include "tests/cli/cli_suites.h"
#include "tests/support/failing_alloc.h"
#include "tuner/cli_problem.h"

static arena memory;

static void release(void) {
  arena_release(&memory);
}

static const char ROWS[] = "rows(X: T[...,M,2*N]) -> (Y: U[...,M]) { Y[...,i] = cast<U>(sum(j) X[...,i,j]) }";
static const char MAP[] = "map(X: T[...]) -> (Y: T[...]) { Y[...] = -X[...] }";
static const char FIXED[] = "fixed(X: f32[8]) -> (Y: f32[]) { Y = sum(i) X[i] }";

static const struct {
  const char *define, *shape, *types;
  const char *printed; /* shape and types as they are printed; or NULL, and what is wrong */
  const char *fault;
} CASES[] = {
    {ROWS, "4x8x16", "f16,f32", "4x8x16 T=f16,U=f32", NULL},
    {ROWS, "8x16", "U=f32,T=f16", "8x16 T=f16,U=f32", NULL},
    {ROWS, "2x3x4x8x16", "f16,f32", "2x3x4x8x16 T=f16,U=f32", NULL},
    {ROWS, "N=16,M=8", "f16,f32", "8x16 T=f16,U=f32", NULL},
    {ROWS, "N=16, ...=2x3 M=8", "f16,f32", "2x3x8x16 T=f16,U=f32", NULL},
    {ROWS, "...=,N=0,M=8", "f16,f32", "8x0 T=f16,U=f32", NULL}, /* a sum over nothing */
    {MAP, "4x8", "bf16", "4x8 bf16", NULL},
    {MAP, "...=", "bf16", "...= bf16", NULL},
    {MAP, "", "T=bf16", "...= bf16", NULL},
    {FIXED, "", "", " ", NULL},
    {ROWS, "16", "f16,f32", NULL, "found 1 size; rows takes at least 2, ...xMxN, like 4096x4096x4096"},
    {ROWS, "4xx16", "f16,f32", NULL, "M is empty; a size is a whole number from 0 to 1099511627776"},
    {ROWS, "1x2x3x4x5x6x7x8x8x16", "f16,f32", NULL, "X has 10 dimensions; at most 8 are accepted"},
    {ROWS, "4x-8x16", "f16,f32", NULL, "M is -8; a size is"},
    {ROWS, "M=8,N", "f16,f32", NULL, "'N' is no AXIS=SIZE; accepted: M=64,N=8 or 64x8"},
    {ROWS, "M=8,M=9,N=2", "f16,f32", NULL, "M is given twice"},
    {ROWS, "M=8,H=2", "f16,f32", NULL,
     "'H=2' names no axis of rows; accepted: ...=4x128 (any number of sizes), M, N"},
    {MAP, "4xx8", "bf16", NULL, "size 2 is empty; a size is"},
    {MAP, "M=4", "bf16", NULL,
     "'M=4' names an axis, and those of map have no names; accepted: any number of sizes"},
    {ROWS, "M=8", "f16,f32", NULL, "N is missing; rows takes ...=4x128 (any number of sizes), M, N"},
    {ROWS, "4x8x16", "f16", NULL, "U is missing; the type variables of rows are T, U"},
    {ROWS, "4x8x16", "f16,f32,f32", NULL, "f32 is one too many"},
    {ROWS, "4x8x16", "f16,T=f32", NULL, "T is given twice"},
    {ROWS, "4x8x16", "V=f16,U=f32", NULL, "V=f16 names no type variable"},
    {ROWS, "4x8x16", "f16,f33", NULL, "unknown type f33; did you mean f32? accepted: f64, f32"},
    {ROWS, "4x8x16", "T=f16,U=", NULL, "unknown type ''; accepted: f64"},
    {MAP, "0x4", "bf16", NULL, "Y has no elements, so there is nothing to tune"},
    {FIXED, "", "f32", NULL, "fixed has no type variables, so it takes none"},
    {FIXED, "8", "", NULL, "found 1 size; fixed takes 0"},
};

START_TEST(values_bind_an_operator) {
  cli_operator o;
  cli_values v = {.attrs = ""};
  cli_problem p;
  arke_error err = ARKE_ERROR_INIT;
  ck_assert_msg(cli_operator_defined(&memory, CASES[_i].define, &o, &err) == ARKE_OK, "%s", err.text);
  arke_status status = cli_values_shape(&memory, &o, CASES[_i].shape, &v, &err);
  if (status == ARKE_OK)
    status = cli_values_types(&memory, &o, CASES[_i].types, CASES[_i].types[0] != '\0', &v, &err);
  if (status == ARKE_OK) status = cli_problem_bind(&memory, &o, &v, &p, &err);
  if (CASES[_i].printed == NULL) {
    ck_assert_int_eq(status, ARKE_ERR_ARGUMENT);
    ck_assert_msg(strstr(err.text, CASES[_i].fault) != NULL, "\"%s\" lacks \"%s\"", err.text,
                  CASES[_i].fault);
    return;
  }
  ck_assert_msg(status == ARKE_OK, "%s", err.text);
  strbuf text = STRBUF_INIT;
  cli_values_print_shape(&o, &p.problem, &text);
  strbuf_add(&text, " ");
  cli_values_print_types(&o, &p.problem, &text);
  ck_assert_str_eq(strbuf_text(&text), CASES[_i].printed);
  strbuf_free(&text);
}
END_TEST

/* Without --dtype every operator of one type variable has a type that it is for. */
START_TEST(the_default_type_is_one_of_the_operators) {
  for (int i = 0; i < ir_catalogue_count(); i++) {
    cli_operator o;
    cli_values v = {.attrs = ""};
    arke_error err = ARKE_ERROR_INIT;
    ck_assert_int_eq(cli_operator_listed(&memory, i, &o, &err), ARKE_OK);
    if (o.op->n_types != 1) continue;
    ck_assert_int_eq(cli_values_types(&memory, &o, "bf16", false, &v, &err), ARKE_OK);
    ck_assert_msg(cli_operator_wants(&o, 0, v.types[0]), "%s: %s", o.name, dtype_name(v.types[0]));
    if (cli_operator_wants(&o, 0, DTYPE_BF16)) ck_assert_int_eq(v.types[0], DTYPE_BF16);
    if (strcmp(o.name, "linear_tf32") == 0) ck_assert_int_eq(v.types[0], DTYPE_F32);
  }
}
END_TEST

START_TEST(printed_values_bind_the_same) {
  cli_operator o;
  cli_values v = {.attrs = ""};
  cli_problem p, again;
  strbuf shape = STRBUF_INIT, types = STRBUF_INIT;
  ck_assert_int_eq(cli_operator_defined(&memory, ROWS, &o, NULL), ARKE_OK);
  ck_assert_int_eq(cli_values_shape(&memory, &o, "...=3x1,M=5,N=7", &v, NULL), ARKE_OK);
  ck_assert_int_eq(cli_values_types(&memory, &o, "e4m3,i32", true, &v, NULL), ARKE_OK);
  ck_assert_int_eq(cli_problem_bind(&memory, &o, &v, &p, NULL), ARKE_OK);
  cli_values_print_shape(&o, &p.problem, &shape);
  cli_values_print_types(&o, &p.problem, &types);
  v = (cli_values){.attrs = ""};
  ck_assert_int_eq(cli_values_shape(&memory, &o, strbuf_text(&shape), &v, NULL), ARKE_OK);
  ck_assert_int_eq(cli_values_types(&memory, &o, strbuf_text(&types), true, &v, NULL), ARKE_OK);
  ck_assert_int_eq(cli_problem_bind(&memory, &o, &v, &again, NULL), ARKE_OK);
  ck_assert_int_eq(again.problem.lead_rank, 2);
  ck_assert_mem_eq(again.problem.lead, p.problem.lead, 2 * sizeof p.problem.lead[0]);
  ck_assert_mem_eq(again.problem.sizes, p.problem.sizes, sizeof p.problem.sizes);
  ck_assert_mem_eq(again.problem.types, p.problem.types, 2 * sizeof p.problem.types[0]);
  strbuf_free(&shape);
  strbuf_free(&types);
}
END_TEST

START_TEST(binding_survives_every_failed_allocation) {
  for (int n = 0;; n++) {
    arena a = ARENA_INIT;
    cli_operator o;
    cli_values v = {.attrs = ""};
    cli_problem p;
    arke_error err = ARKE_ERROR_INIT;
    failing_alloc_arm(n);
    arke_status status = cli_operator_defined(&a, ROWS, &o, &err);
    if (status == ARKE_OK) status = cli_values_shape(&a, &o, "...=3x1,M=5,N=7", &v, &err);
    if (status == ARKE_OK) status = cli_values_types(&a, &o, "T=e4m3,U=i32", true, &v, &err);
    if (status == ARKE_OK) status = cli_problem_bind(&a, &o, &v, &p, &err);
    bool failed = failing_alloc_disarm();
    arena_release(&a);
    ck_assert_int_eq(status, failed ? ARKE_ERR_MEMORY : ARKE_OK);
    if (!failed) break;
  }
}
END_TEST

TCase *cli_values_case(void) {
  TCase *t = tcase_create("values");
  tcase_add_checked_fixture(t, NULL, release);
  tcase_add_loop_test(t, values_bind_an_operator, 0, COUNT_OF(CASES));
  tcase_add_test(t, the_default_type_is_one_of_the_operators);
  tcase_add_test(t, printed_values_bind_the_same);
  tcase_add_test(t, binding_survives_every_failed_allocation);
  return t;
}
