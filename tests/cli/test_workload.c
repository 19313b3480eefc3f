/* Workload files: expansion, places of faults, and the line finder under them. */
#include <string.h>

#include "tests/cli/cli_suites.h"
#include "tests/support/failing_alloc.h"
#include "tuner/cli_json_place.h"
#include "tuner/cli_workload.h"

static arena memory;

static void release(void) {
  arena_release(&memory);
}

static arke_status parse(const char *text, cli_workload *w, arke_error *err) {
  return cli_workload_parse(&memory, "w.json", text, strlen(text), w, err);
}

START_TEST(lists_are_crossed_in_order) {
  cli_workload w;
  arke_error err = ARKE_ERROR_INIT;
  ck_assert_int_eq(
      parse("{\"problems\": [{\"op\": \"matmul\", \"dtypes\": [\"bf16\", \"f16\"], \"weight\": 2.5,"
            "\"note\": {\"any\": [\"thing\"]},"
            "\"sizes\": {\"M\": [64, 128], \"N\": 256, \"K\": [8, 16]}}]}",
            &w, &err),
      ARKE_OK);
  ck_assert_int_eq(w.n_problems, 8);
  for (int i = 0; i < 8; i++) {
    const ir_problem *p = &w.problems[i].problem;
    strbuf shape = STRBUF_INIT;
    cli_shape_print(&w.problems[i], &shape);
    const char *expected = arena_printf(&memory, "%dx256x%d", (i >> 1 & 1) ? 128 : 64, (i & 1) ? 16 : 8);
    ck_assert_str_eq(strbuf_text(&shape), expected);
    strbuf_free(&shape);
    ck_assert_int_eq(p->types[0], i < 4 ? DTYPE_BF16 : DTYPE_F16);
    ck_assert_double_eq(w.problems[i].weight, 2.5);
  }
}
END_TEST

START_TEST(types_by_variable_and_repeats) {
  cli_workload w;
  ck_assert_int_eq(parse("{\"description\": \"x\", \"problems\": ["
                         "{\"op\": \"matmul\", \"dtypes\": {\"T\": \"f16\"}, \"sizes\": {\"M\": 64, \"N\": "
                         "64, \"K\": [64, 64]}},"
                         "{\"op\": \"linear\", \"dtypes\": \"f16\", \"sizes\": {\"M\": 64, \"N\": 64, \"K\": "
                         "64}, \"bucket\": \"M=1..64\"}]}",
                         &w, NULL),
                   ARKE_OK);
  ck_assert_int_eq(w.n_problems, 2);
  ck_assert_int_eq(w.repeated, 1);
  ck_assert_str_eq(w.problems[0].bucket, "");
  ck_assert_str_eq(w.problems[1].bucket, "M=1..64");
}
END_TEST

START_TEST(shipped_workloads_are_valid) {
  static const struct {
    const char *path;
    int problems;
  } files[] = {{"workloads/gemm-smoke.json", 5},
               {"workloads/gemm-h200.json", 16},
               {"workloads/linear-llm-few-rows.json", 430},
               {"workloads/linear-llm-some-rows.json", 430},
               {"workloads/linear-llm-many-rows.json", 344}};
  for (size_t i = 0; i < COUNT_OF(files); i++) {
    cli_workload w;
    arke_error err = ARKE_ERROR_INIT;
    ck_assert_msg(cli_workload_read(&memory, files[i].path, &w, &err) == ARKE_OK, "%s", err.text);
    ck_assert_int_eq(w.n_problems, files[i].problems);
    ck_assert_int_eq(w.repeated, 0);
  }
}
END_TEST

START_TEST(faults_tell_line_and_path) {
  cli_workload w;
  arke_error err = ARKE_ERROR_INIT;
  ck_assert_int_eq(parse("{\"problems\": [\n {\"op\": \"matmul\", \"dtypes\": \"bf16\",\n  \"sizes\": "
                         "{\"M\": 64, \"N\": 64,\n"
                         "   \"K\": [64,\n 1.5]}}]}",
                         &w, &err),
                   ARKE_ERR_ARGUMENT);
  ck_assert_str_eq(err.text,
                   "w.json:5: problems[0].sizes.K[1]: found a number; a size is a whole number from 0 to "
                   "1099511627776");
}
END_TEST

START_TEST(an_empty_file_and_deep_nesting) {
  cli_workload w;
  arke_error err = ARKE_ERROR_INIT;
  ck_assert_int_eq(parse("", &w, &err), ARKE_ERR_ARGUMENT);
  char deep[6000] = "{\"problems\": ";
  memset(deep + strlen(deep), '[', 5000);
  error_clear(&err);
  ck_assert_int_eq(parse(deep, &w, &err), ARKE_ERR_ARGUMENT);
  error_clear(&err);
  ck_assert_int_eq(parse("{\"problems\": [[[[[[[[[[1]]]]]]]]]]}", &w, &err), ARKE_ERR_ARGUMENT);
  ck_assert_str_eq(err.text, "w.json:1: problems[0]: found a list; accepted: an object");
}
END_TEST

START_TEST(lines_of_places) {
  static const char text[] = "{\n \"a\": [1,\n  {\"b\\\"]\": \"}]\", \"c\":\n   7}],\n \"d\": null}";
  const json_step c[] = {{"a", 0}, {NULL, 1}, {"c", 0}};
  const json_step d[] = {{"d", 0}};
  const json_step absent[] = {{"a", 0}, {NULL, 1}, {"x", 0}};
  const json_step beyond[] = {{"a", 0}, {NULL, 9}};
  ck_assert_int_eq(json_place_line(text, c, 3), 3);
  ck_assert_int_eq(json_place_line(text, d, 1), 5);
  ck_assert_int_eq(json_place_line(text, absent, 3), 3);
  ck_assert_int_eq(json_place_line(text, beyond, 2), 2);
  ck_assert_int_eq(json_place_line(text, NULL, 0), 1);
}
END_TEST

START_TEST(reading_survives_every_failed_allocation) {
  static const char text[] =
      "{\"problems\": [{\"op\": \"matmul\", \"dtypes\": [\"bf16\"], \"sizes\": {\"M\": [64, 72], "
      "\"N\": 64, \"K\": 64}, \"bucket\": \"N=1..64\"}]}";
  for (int n = 0;; n++) {
    arena a = ARENA_INIT;
    cli_workload w;
    arke_error err = ARKE_ERROR_INIT;
    failing_alloc_arm(n);
    arke_status status = cli_workload_parse(&a, "w", text, strlen(text), &w, &err);
    bool failed = failing_alloc_disarm();
    arena_release(&a);
    ck_assert_int_eq(status, failed ? ARKE_ERR_MEMORY : ARKE_OK);
    if (!failed) break;
  }
}
END_TEST

TCase *cli_workload_case(void) {
  TCase *t = tcase_create("workload");
  tcase_add_checked_fixture(t, NULL, release);
  tcase_add_test(t, lists_are_crossed_in_order);
  tcase_add_test(t, types_by_variable_and_repeats);
  tcase_add_test(t, shipped_workloads_are_valid);
  tcase_add_test(t, faults_tell_line_and_path);
  tcase_add_test(t, an_empty_file_and_deep_nesting);
  tcase_add_test(t, lines_of_places);
  tcase_add_test(t, reading_survives_every_failed_allocation);
  return t;
}
