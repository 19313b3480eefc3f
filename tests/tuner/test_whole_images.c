/* Templates with kernels for other views: a search compiles the first alone, what is published has them all.
 * This program is also its workers. */
#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "tests/tuner/fake_gpu.h"
#include "tests/tuner/tuning_fixture.h"

/* The stored winner is whole: both kernels, each where the recipe wants it. */
static void check_whole(fixture *f) {
  cache *c;
  cache_entry e;
  arke_error err = ARKE_ERROR_INIT;
  ck_assert_int_eq(cache_open(f->cache_path, CACHE_READ, &c, &err), ARKE_OK);
  ck_assert_int_eq(cache_find_entry(c, "twice", "T=f32 M=1000", "sm_90a", "", true, &f->a, &e, &err),
                   ARKE_OK);
  ck_assert_msg(cache_load_kernel(c, &f->a, &e, &err) == ARKE_OK, "%s", err.text);
  cache_close(c);
  recipe r;
  ck_assert_int_eq(recipe_parse(&f->a, e.kernel.recipe_json, strlen(e.kernel.recipe_json), &r, &err),
                   ARKE_OK);
  ck_assert(r.tensors[0].dense);
  ck_assert_str_eq(r.launches[0].kernel, "twice");
  ck_assert_ptr_nonnull(r.otherwise);
  ck_assert_str_eq(r.otherwise->launches[0].kernel, "twice_any");
  ck_assert_ptr_nonnull(strstr(e.kernel.ptx, ".entry twice("));
  ck_assert_ptr_nonnull(strstr(e.kernel.ptx, ".entry twice_any("));
}

START_TEST(a_search_compiles_one_way_and_publishes_all) {
  fixture f;
  open_fixture(&f, _i ? TUNE_DEVICE_CUDA : TUNE_DEVICE_EMULATOR, "T=f32 M=1000");
  f.options.templates = &viewing_templates;
  ck_assert_msg(tune(&f) == ARKE_OK, "%s", f.err.text);
  ck_assert_str_eq(f.result.config_text, _i ? "KIND=0,BLOCK=256,SPEED=5" : "KIND=0,BLOCK=256,SPEED=0");
  ck_assert_int_eq(f.result.trials.compiled, 8);
  int whole = _i ? 3 : 1; /* during the finals, those of the first three finalists */
  ck_assert_int_eq(read_log(&f).total, 8 + 2 * whole);
  ck_assert_ptr_nonnull(strstr(f.result.recipe_json, "otherwise"));
  ck_assert_ptr_nonnull(strstr(f.result.ptx, ".entry twice_any("));
  check_whole(&f);
  ck_assert_msg(tune(&f) == ARKE_OK, "%s", f.err.text); /* and again: nothing is left to do */
  ck_assert_int_eq(read_log(&f).total, 8 + 2 * whole);
  ck_assert_ptr_nonnull(strstr(f.result.recipe_json, "otherwise"));
  check_whole(&f);
  close_fixture(&f);
}
END_TEST

/* One configuration by name, or as many as there are workers: nothing is compiled twice. */
START_TEST(a_few_configurations_are_compiled_whole) {
  fixture f;
  open_fixture(&f, _i % 2 ? TUNE_DEVICE_CUDA : TUNE_DEVICE_EMULATOR, "T=f32 M=1000");
  f.options.templates = &viewing_templates;
  if (_i < 2)
    f.options.config = "KIND=0,BLOCK=256,SPEED=7";
  else
    f.options.trials = 3;
  ck_assert_msg(tune(&f) == ARKE_OK, "%s", f.err.text);
  ck_assert_int_eq(read_log(&f).total, _i < 2 ? 2 : 6);
  check_whole(&f);
  close_fixture(&f);
}
END_TEST

static void check_flaw(const trial_list *l, int kind, int speed, cache_outcome outcome, const char *part) {
  int i = find_trial(l, kind, 64, speed);
  ck_assert_msg(l->list[i].outcome == outcome, "%s: %s", cache_outcome_name(l->list[i].outcome),
                l->list[i].reason);
  ck_assert_msg(strstr(l->list[i].reason, "other views") && strstr(l->list[i].reason, part), "%s",
                l->list[i].reason);
}

START_TEST(a_leader_that_fails_at_other_views_gives_way) {
  fixture f;
  open_fixture(&f, _i ? TUNE_DEVICE_CUDA : TUNE_DEVICE_EMULATOR, "T=f32 M=1000");
  f.options.templates = &flawed_templates;
  ck_assert_msg(tune(&f) == ARKE_OK, "%s", f.err.text);
  ck_assert_msg(strncmp(f.result.config_text, "KIND=0,BLOCK=256,", 17) == 0, "%s", f.result.config_text);
  if (!_i) ck_assert_str_eq(f.result.config_text, "KIND=0,BLOCK=256,SPEED=0");
  trial_list l = read_trials(&f, _i ? FAKE_GPU_NAME : "emulator");
  ck_assert_int_eq(l.n, 3 + 8);
  check_flaw(&l, PLANTED_WRONG, 5, CACHE_WRONG, "Y[");
  check_flaw(&l, PLANTED_REFUSES, 4, CACHE_LOWER_FAILED, "planted: refused");
  check_flaw(&l, PLANTED_GARBAGE, 6, CACHE_ASSEMBLE_FAILED, "");
  check_whole(&f);
  int compiled = read_log(&f).total;
  ck_assert_int_eq(compiled, l.n + 2 * 4);
  ck_assert_msg(tune(&f) == ARKE_OK, "%s", f.err.text); /* what failed is not tried again */
  ck_assert_int_eq(read_log(&f).total, compiled);
  check_whole(&f);
  close_fixture(&f);
}
END_TEST

START_TEST(a_short_budget_publishes_all_ways) {
  fixture f;
  open_fixture(&f, _i ? TUNE_DEVICE_CUDA : TUNE_DEVICE_MODEL, "T=f32 M=1000");
  f.options.templates = &viewing_templates;
  f.options.budget_s = 0.1;
  setenv(PLANTED_SLOW_MS, "300", 1);
  double begin = now_s();
  ck_assert_msg(tune(&f) == ARKE_OK, "%s", f.err.text);
  ck_assert_double_lt(now_s() - begin, 8);
  check_whole(&f);
  close_fixture(&f);
}
END_TEST

START_TEST(an_interrupt_publishes_all_ways) {
  fixture f;
  open_fixture(&f, _i ? TUNE_DEVICE_CUDA : TUNE_DEVICE_MODEL, "T=f32 M=1000");
  f.options.templates = &viewing_templates;
  f.options.jobs = 2;
  setenv(PLANTED_SLOW_MS, "500", 1);
  pid_t child = tune_in_child(&f);
  wait_for_log(&f, 7);
  kill(child, SIGINT);
  int status;
  waitpid(child, &status, 0);
  ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 130);
  check_whole(&f);
  check_no_workers();
  close_fixture(&f);
}
END_TEST

int main(int argc, char **argv) {
  tune_worker_main_hooked(argc, argv, &planted_hooks);
  Suite *suite = suite_create("whole_images");
  TCase *c = tcase_create("whole_images");
  tcase_set_timeout(c, 120);
  tcase_add_loop_test(c, a_search_compiles_one_way_and_publishes_all, 0, 2);
  tcase_add_loop_test(c, a_few_configurations_are_compiled_whole, 0, 4);
  tcase_add_loop_test(c, a_leader_that_fails_at_other_views_gives_way, 0, 2);
  tcase_add_loop_test(c, a_short_budget_publishes_all_ways, 0, 2);
  tcase_add_loop_test(c, an_interrupt_publishes_all_ways, 0, 2);
  suite_add_tcase(suite, c);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_NORMAL);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed != 0;
}
