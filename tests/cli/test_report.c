/* Tables, JSON and progress lines, from results made by hand. */
#include <stdlib.h>
#include <string.h>

#include "tests/cli/cli_suites.h"
#include "tuner/cli_output.h"
#include "tuner/cli_report.h"

static arena memory;

static void release(void) {
  arena_release(&memory);
}

static const kernel_template made_up = {.name = "gemm", .meaning = "made up"};

typedef struct sample {
  cli_line line;
  cli_settings settings;
  cli_problem problem;
  tune_result result;
} sample;

static void make(sample *s, cache_origin origin, const char *device) {
  char *argv[] = {"build/arke-tune", "--op", "matmul", "--shape", "512x256x128", "--cache", "my cache.arke"};
  arke_error err = ARKE_ERROR_INIT;
  ck_assert_int_eq(cli_parse((int)COUNT_OF(argv), argv, &memory, &s->line, &err), ARKE_OK);
  ck_assert_int_eq(cli_settings_read(&s->line, &memory, &s->settings, &err), ARKE_OK);
  ck_assert_int_eq(cli_problem_read(&s->settings, &memory, &s->problem, &err), ARKE_OK);
  s->result = (tune_result){
      .key = "the key",
      .target = target_find("sm_90a", NULL),
      .environment = {.device = device, .driver = "", .llvm = "22.1.8", .generator = "1"},
      .origin = origin,
      .chosen = &made_up,
      .config_text = "BLOCK_M=128,STAGES=4",
      .time = {.median_ns = 2000, .p10_ns = 1990, .p90_ns = 2100, .samples = 30},
      .flops = 2.0 * 512 * 256 * 128,
      .min_bytes = 1,
      .speed_of_light_ns = 1000,
      .trials = {.total = 100, .compiled = 20, .verified = 18, .measured = 17, .resumed = 3},
      .sha256 = "abc",
      .policy = "l2=cold",
      .cache_path = "my cache.arke",
      .tolerance = 1e-2,
      .worst_error = 1e-3,
      .stored = true,
  };
  s->result.trials.pruned[TEMPLATE_SHARED_MEMORY] = 40;
  s->result.trials.pruned[TEMPLATE_REGISTERS] = 10;
  s->result.trials.failed[CACHE_TIMEOUT] = 2;
  s->result.trials.failed[CACHE_DUPLICATE] = 5;
}

START_TEST(times_have_four_figures) {
  static const struct {
    double ns;
    const char *text;
  } cases[] = {{1, "1.000 ns"},      {999.4, "999.4 ns"},  {999.96, "1.000 us"}, {1000, "1.000 us"},
               {178234, "178.2 us"}, {9999.6, "10.00 us"}, {1.5e6, "1.500 ms"},  {2.25e10, "22.50 s"}};
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    strbuf out = STRBUF_INIT;
    cli_time_print(cases[i].ns, &out);
    ck_assert_str_eq(strbuf_text(&out), cases[i].text);
    strbuf_free(&out);
  }
}
END_TEST

START_TEST(a_measured_result) {
  sample s;
  strbuf out = STRBUF_INIT;
  make(&s, CACHE_ORIGIN_MEASURED, "NVIDIA H200");
  cli_result_print(&s.settings, &s.problem, &s.result, &out);
  const char *text = strbuf_text(&out);
  ck_assert_ptr_nonnull(strstr(text, "on NVIDIA H200 (sm_90a, PTX "));
  ck_assert_ptr_nonnull(strstr(text, "2.000 us  (median; p10 1.990 us, p90 2.100 us, 30 samples)"));
  ck_assert_ptr_nonnull(strstr(text, "16.8 TFLOP/s"));
  ck_assert_ptr_nonnull(strstr(text, "1.000 us, of which 50.0 % is reached"));
  ck_assert_ptr_nonnull(strstr(text, "100 in the space, 50 pruned, 50 feasible"));
  ck_assert_ptr_nonnull(strstr(text, "pruned          40: shared memory exceeded\n"));
  ck_assert_ptr_nonnull(
      strstr(text, "20 compiled, 18 verified, 17 measured, 2 failed, 5 duplicates; 3 results taken"));
  ck_assert_ptr_nonnull(strstr(text, "timeout 2"));
  ck_assert_ptr_nonnull(
      strstr(text, "reproduce: build/arke-tune --op matmul --shape 512x256x128 --dtype bf16 --target "
                   "sm_90a --device cuda --cache 'my cache.arke' --config 'gemm:BLOCK_M=128,STAGES=4'\n"));
  ck_assert_ptr_null(strstr(text, "modelled"));
  strbuf_free(&out);
}
END_TEST

/* What the cache gave is not said to be done now. */
START_TEST(a_result_counts_what_this_run_did) {
  sample s;
  strbuf out = STRBUF_INIT;
  make(&s, CACHE_ORIGIN_MEASURED, "NVIDIA H200");
  tune_trials *t = &s.result.trials;
  t->earlier_compiled = 15;
  t->earlier_verified = t->earlier_measured = 14;
  t->earlier_failed[CACHE_TIMEOUT] = 2;
  t->earlier_failed[CACHE_DUPLICATE] = 4;
  t->resumed = 1;
  cli_result_print(&s.settings, &s.problem, &s.result, &out);
  ck_assert_ptr_nonnull(strstr(strbuf_text(&out),
                               "5 compiled, 4 verified, 3 measured, 0 failed, 1 duplicate; "
                               "1 result taken from the cache\n"));
  ck_assert_ptr_null(strstr(strbuf_text(&out), "timeout"));
  strbuf_free(&out);
}
END_TEST

START_TEST(a_modelled_result_says_so_last) {
  sample s;
  strbuf out = STRBUF_INIT;
  make(&s, CACHE_ORIGIN_MODELLED, "model:NVIDIA H200");
  cli_result_print(&s.settings, &s.problem, &s.result, &out);
  const char *text = strbuf_text(&out), *last = text;
  for (const char *c = text; c[0] != '\0' && c[1] != '\0'; c++)
    if (*c == '\n') last = c + 1;
  ck_assert_int_eq(strncmp(last, "modelled: ", 10), 0);
  ck_assert_ptr_nonnull(strstr(last, "stored as modelled"));
  ck_assert_ptr_nonnull(strstr(text, "the cost model's estimate, not measured"));
  ck_assert_ptr_null(strstr(text, "samples"));
  ck_assert_ptr_nonnull(strstr(text, "--device model "));
  strbuf_free(&out);
}
END_TEST

START_TEST(a_result_that_was_not_stored) {
  sample s;
  strbuf out = STRBUF_INIT;
  make(&s, CACHE_ORIGIN_MODELLED, "model:NVIDIA H200");
  s.result.stored = false;
  cli_result_print(&s.settings, &s.problem, &s.result, &out);
  ck_assert_ptr_nonnull(strstr(strbuf_text(&out), "not stored      the cache holds a better result"));
  ck_assert_ptr_null(strstr(strbuf_text(&out), "stored as modelled"));
  strbuf_free(&out);
}
END_TEST

START_TEST(json_has_the_documented_fields) {
  static const char *const fields[] = {
      "key",    "target", "device", "origin", "template", "config", "time_ns", "tflops", "speed_of_light_ns",
      "trials", "sha256", "cache"};
  sample s;
  make(&s, CACHE_ORIGIN_MODELLED, "model:NVIDIA H200");
  json_t *o = cli_result_json(&s.result);
  ck_assert_uint_eq(json_object_size(o), COUNT_OF(fields));
  for (size_t i = 0; i < COUNT_OF(fields); i++) ck_assert_ptr_nonnull(json_object_get(o, fields[i]));
  json_t *time = json_object_get(o, "time_ns"), *trials = json_object_get(o, "trials");
  ck_assert(json_is_null(json_object_get(time, "p10")));
  ck_assert_int_eq(json_integer_value(json_object_get(time, "samples")), 0);
  ck_assert_int_eq(json_integer_value(json_object_get(json_object_get(trials, "pruned"), "shared_memory")),
                   40);
  ck_assert_int_eq(json_integer_value(json_object_get(json_object_get(trials, "failed"), "timeout")), 2);
  ck_assert_ptr_null(json_object_get(json_object_get(trials, "failed"), "duplicate"));
  json_decref(o);
}
END_TEST

START_TEST(a_sweep_adds_up) {
  sample s;
  strbuf out = STRBUF_INIT;
  make(&s, CACHE_ORIGIN_MEASURED, "NVIDIA H200");
  cli_problem heavy = s.problem;
  heavy.weight = 3;
  const cli_sweep_line lines[] = {
      {&s.problem, CLI_SWEPT, CACHE_ORIGIN_MEASURED, 2000, 1000, 4e9, "A=1"},
      {&heavy, CLI_SKIPPED, CACHE_ORIGIN_MODELLED, 1000, 900, 4e9, "A=2"},
      {&s.problem, CLI_FAILED, CACHE_ORIGIN_MODELLED, 0, 0, 0, "no candidate worked"},
  };
  cli_sweep_print(lines, 3, &out);
  const char *text = strbuf_text(&out);
  ck_assert_ptr_nonnull(strstr(text, "no candidate worked"));
  ck_assert_ptr_nonnull(
      strstr(text, "3 problems: 1 tuned, 1 already in the cache, 1 failed; times by weight add up to "
                   "5.000 us\n"));
  strbuf_free(&out);
}
END_TEST

START_TEST(an_interrupted_problem_has_not_failed) {
  sample s;
  strbuf out = STRBUF_INIT;
  make(&s, CACHE_ORIGIN_MEASURED, "NVIDIA H200");
  const cli_sweep_line lines[] = {
      {&s.problem, CLI_SWEPT, CACHE_ORIGIN_MEASURED, 2000, 1000, 4e9, "A=1"},
      {&s.problem, CLI_INTERRUPTED, CACHE_ORIGIN_MODELLED, 0, 0, 0, "interrupted before anything"},
  };
  cli_sweep_print(lines, 2, &out);
  const char *text = strbuf_text(&out);
  ck_assert_ptr_nonnull(strstr(text, "  interrupted  interrupted before anything\n"));
  ck_assert_ptr_nonnull(
      strstr(text, "2 problems: 1 tuned, 0 already in the cache, 0 failed, 1 interrupted; "));
  strbuf_free(&out);
}
END_TEST

#define BAD "\xef\xbf\xbd"

START_TEST(bytes_that_are_no_utf8_are_replaced) {
  static const struct {
    const char *text, *expected;
  } cases[] = {{"plain", "plain"},
               {"", ""},
               {"\x01\x7f", "\x01\x7f"},
               {"caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"},
               {"caf\xe9", "caf" BAD},
               {"\xe9.arke", BAD ".arke"},
               {"\xc0\xaf", BAD BAD},                 /* overlong */
               {"\xe0\x80\x80", BAD BAD BAD},         /* overlong */
               {"\xed\xa0\x80", BAD BAD BAD},         /* a surrogate */
               {"\xf4\x90\x80\x80", BAD BAD BAD BAD}, /* above U+10FFFF */
               {"\xe2\x82", BAD BAD},                 /* cut short */
               {"\xf0\x9f\x98", BAD BAD BAD},
               {"\xff\xfe", BAD BAD}};
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    json_t *o = cli_json_text(cases[i].text);
    ck_assert_ptr_nonnull(o);
    ck_assert_str_eq(json_string_value(o), cases[i].expected);
    json_decref(o);
  }
}
END_TEST

START_TEST(progress_lines) {
  strbuf out = STRBUF_INIT;
  tune_progress now = {
      .phase = TUNE_MEASURING, .done = 3, .total = 20, .best_ns = 2000, .elapsed_s = 4.2, .left_s = 9.6};
  now.failed[CACHE_WRONG] = 1;
  now.failed[CACHE_DUPLICATE] = 7;
  cli_progress_text(&now, false, &out);
  ck_assert_str_eq(strbuf_text(&out), "measuring 3/20  best 2.000 us  failed wrong 1  4 s, 10 s left");
  strbuf_clear(&out);
  cli_progress_text(&now, true, &out);
  ck_assert_ptr_nonnull(strstr(strbuf_text(&out), "\033["));
  strbuf_free(&out);
}
END_TEST

START_TEST(colour_is_asked_for) {
  setenv("TERM", "xterm", 1);
  unsetenv("NO_COLOR");
  ck_assert(cli_wants_color(true));
  ck_assert(!cli_wants_color(false));
  setenv("NO_COLOR", "", 1); /* empty counts as unset: no-color.org */
  ck_assert(cli_wants_color(true));
  setenv("NO_COLOR", "1", 1);
  ck_assert(!cli_wants_color(true));
  unsetenv("NO_COLOR");
  setenv("TERM", "dumb", 1);
  ck_assert(!cli_wants_color(true));
}
END_TEST

TCase *cli_report_case(void) {
  TCase *t = tcase_create("report");
  tcase_add_checked_fixture(t, NULL, release);
  tcase_add_test(t, times_have_four_figures);
  tcase_add_test(t, a_measured_result);
  tcase_add_test(t, a_result_counts_what_this_run_did);
  tcase_add_test(t, a_modelled_result_says_so_last);
  tcase_add_test(t, a_result_that_was_not_stored);
  tcase_add_test(t, json_has_the_documented_fields);
  tcase_add_test(t, a_sweep_adds_up);
  tcase_add_test(t, an_interrupted_problem_has_not_failed);
  tcase_add_test(t, bytes_that_are_no_utf8_are_replaced);
  tcase_add_test(t, progress_lines);
  tcase_add_test(t, colour_is_asked_for);
  return t;
}
