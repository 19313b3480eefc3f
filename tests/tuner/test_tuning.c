/* The whole tuner with planted candidates, on the emulator and on a GPU made of it: what it finds and how it
 * goes about it. This program is also its workers. */
#include <check.h>
#include <dirent.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/tuner/fake_gpu.h"
#include "tests/tuner/tuning_fixture.h"
#include "tuner/tune_run.h"
#include "tuner/tune_session.h"

/* Tunes M=1000, having said that M=2000 follows, and then `then`; *first: lowerings until the first ended. */
static void tune_in_turn(fixture *f, bool say, const char *then, int *first) {
  ir_problem expected, second;
  tune_session *s;
  ck_assert_int_eq(ir_problem_bind(f->problem.op, "T=f32 M=2000", &expected, &f->err), ARKE_OK);
  ck_assert_int_eq(ir_problem_bind(f->problem.op, then, &second, &f->err), ARKE_OK);
  ck_assert_msg(tune_session_open(&f->options, &s, &f->err) == ARKE_OK, "%s", f->err.text);
  const ir_problem *next = second.sizes[0] == expected.sizes[0] ? &expected : &second;
  if (say) tune_session_expect(s, &expected);
  ck_assert_msg(tune_problem(s, &f->problem, NULL, NULL, &f->a, &f->result, &f->err) == ARKE_OK, "%s",
                f->err.text);
  ck_assert_str_eq(f->result.config_text, "KIND=0,BLOCK=256,SPEED=5");
  for (int i = 0; i < 20; i++)
    uv_run(&s->loop, UV_RUN_ONCE); /* a second, in which workers end what they do */
  *first = read_log(f).total;
  ck_assert_msg(tune_problem(s, next, NULL, NULL, &f->a, &f->result, &f->err) == ARKE_OK, "%s", f->err.text);
  ck_assert_str_eq(f->result.config_text, "KIND=0,BLOCK=256,SPEED=5");
  ck_assert_int_eq(f->result.trials.measured, 8);
  tune_session_close(s);
  check_no_workers();
}

START_TEST(the_next_problem_compiles_during_the_finals) {
  int alone, ahead, total;
  for (int say = 0; say < 2; say++) {
    fixture f;
    open_fixture(&f, TUNE_DEVICE_CUDA, "T=f32 M=1000");
    f.options.templates = &viewing_templates;
    tune_in_turn(&f, say, "T=f32 M=2000", say ? &ahead : &alone);
    if (!say) total = read_log(&f).total;
    if (say) ck_assert_int_eq(read_log(&f).total, total); /* nothing is compiled twice */
    close_fixture(&f);
  }
  ck_assert_int_gt(ahead, alone);
}
END_TEST

START_TEST(another_problem_than_expected_is_tuned_as_ever) {
  fixture f;
  int first;
  open_fixture(&f, TUNE_DEVICE_CUDA, "T=f32 M=1000");
  f.options.templates = &viewing_templates;
  tune_in_turn(&f, true, "T=f32 M=3000", &first);
  close_fixture(&f);
}
END_TEST

START_TEST(what_was_expected_need_not_follow) {
  fixture f;
  open_fixture(&f, TUNE_DEVICE_CUDA, "T=f32 M=1000");
  ir_problem expected;
  tune_session *s;
  f.options.templates = &viewing_templates;
  setenv(PLANTED_SLOW_MS, "100", 1); /* so that it still compiles when the session is closed */
  ck_assert_int_eq(ir_problem_bind(f.problem.op, "T=f32 M=2000", &expected, &f.err), ARKE_OK);
  ck_assert_msg(tune_session_open(&f.options, &s, &f.err) == ARKE_OK, "%s", f.err.text);
  tune_session_expect(s, &expected);
  ck_assert_msg(tune_problem(s, &f.problem, NULL, NULL, &f.a, &f.result, &f.err) == ARKE_OK, "%s",
                f.err.text);
  tune_session_close(s);
  check_no_workers();
  close_fixture(&f);
}
END_TEST

START_TEST(what_arithmetic_bounds_is_timed_back_to_back) {
  fixture f;
  open_fixture(&f, TUNE_DEVICE_CUDA, "T=f32 M=1000");
  setenv(PLANTED_GPU, "arithmetic", 1);
  f.options.templates = &viewing_templates; /* only BLOCK=256 */
  ck_assert_msg(tune(&f) == ARKE_OK, "%s", f.err.text);
  ck_assert_str_eq(f.result.config_text, "KIND=0,BLOCK=256,SPEED=3");
  ck_assert_ptr_nonnull(strstr(f.result.policy, "l2=cold"));
  ck_assert_ptr_nonnull(strstr(f.result.policy, "timer=events+graph"));
  unsetenv(PLANTED_GPU);
  f.options.fresh = true;
  ck_assert_msg(tune(&f) == ARKE_OK, "%s", f.err.text);
  ck_assert_str_eq(f.result.config_text, "KIND=0,BLOCK=256,SPEED=5");
  ck_assert_ptr_nonnull(strstr(f.result.policy, "l2=flushed"));
  close_fixture(&f);
}
END_TEST

START_TEST(the_family_that_wins_at_the_power_limit_is_found) {
  fixture f;
  open_fixture(&f, TUNE_DEVICE_CUDA, "T=f32 M=1000");
  setenv(PLANTED_GPU, "arithmetic", 1);
  f.options.templates = &hungry_templates;
  f.options.budget_s = _i ? 15 : 0;
  ck_assert_msg(tune(&f) == ARKE_OK, "%s", f.err.text);
  ck_assert_msg(strncmp(f.result.config_text, "KIND=0,BLOCK=128", 16) == 0, "%s", f.result.config_text);
  ck_assert_ptr_nonnull(strstr(f.result.policy, "l2=cold"));
  ck_assert_ptr_nonnull(strstr(f.result.policy, "timer=events+graph"));
  double faster = INFINITY, slower = INFINITY; /* in the bursts of the search it was behind */
  trial_list l = read_trials(&f, FAKE_GPU_NAME);
  for (int i = 0; i < l.n; i++) {
    double *least = l.list[i].block == 64 ? &faster : l.list[i].block == 128 ? &slower : NULL;
    if (least) *least = fmin(*least, l.list[i].median_ns);
  }
  ck_assert_double_gt(slower, faster);
  close_fixture(&f);
}
END_TEST

/* What no run of it can beat the best by is neither compiled nor tried, and counted. */
START_TEST(what_cannot_win_is_left_out) {
  fixture f;
  open_fixture(&f, _i ? TUNE_DEVICE_EMULATOR : TUNE_DEVICE_CUDA, "T=f32 M=1000");
  f.options.templates = &bounded_templates;
  ck_assert_msg(tune(&f) == ARKE_OK, "%s", f.err.text);
  const tune_trials *t = &f.result.trials;
  int64_t beaten = t->pruned[TEMPLATE_BOUND], feasible = t->total - t->pruned[TEMPLATE_THREADS];
  trial_list l = read_trials(&f, _i ? "emulator" : FAKE_GPU_NAME);
  ck_assert_int_eq(l.n, feasible - beaten);
  if (_i) {
    ck_assert_int_eq(beaten, 0); /* nothing is measured */
  } else {
    ck_assert_str_eq(f.result.config_text, PLANTED_BEST);
    ck_assert_int_gt(beaten, 0);
    ck_assert_int_le(beaten, 4 * (8 - PLANTED_BEATEN));
    ck_assert_int_eq(t->measured, feasible - beaten);
    ck_assert_msg(tune(&f) == ARKE_OK, "%s", f.err.text); /* they are still left out */
    ck_assert_int_eq(f.result.trials.pruned[TEMPLATE_BOUND], beaten);
    ck_assert_int_eq(f.result.trials.measured, f.result.trials.resumed);
  }
  close_fixture(&f);
}
END_TEST

/* --- the ways to tune
 * ------------------------------------------------------------------------------------------- */

START_TEST(the_model_verifies_a_reduced_problem) {
  fixture f;
  open_fixture(&f, TUNE_DEVICE_MODEL, "T=f32 M=1073741824"); /* never emulated at this size */
  f.options.effort = TUNE_FULL;
  ck_assert_msg(tune(&f) == ARKE_OK, "%s", f.err.text);
  ck_assert_str_eq(f.result.config_text, "KIND=0,BLOCK=128,SPEED=0");
  ck_assert_int_eq(strncmp(f.result.environment.device, "model:", 6), 0);
  ck_assert_int_eq(f.result.origin, CACHE_ORIGIN_MODELLED);
  ck_assert_double_eq_tol(f.result.time.median_ns, 15e3, 1e-6);
  close_fixture(&f);
}
END_TEST

/* What the emulator would work at for minutes comes last: here it is never run. */
START_TEST(the_model_prefers_what_has_a_small_problem) {
  fixture f;
  open_fixture(&f, TUNE_DEVICE_MODEL, "T=f32 M=67108864");
  f.options.templates = &vast_templates;
  f.options.effort = TUNE_FULL;
  ck_assert_msg(tune(&f) == ARKE_OK, "%s", f.err.text);
  ck_assert_ptr_nonnull(strstr(f.result.config_text, "SPEED=1"));
  ck_assert_int_gt(f.result.trials.verified, 0);
  ck_assert_int_eq(f.result.trials.failed[CACHE_TIMEOUT], 0);
  close_fixture(&f);
}
END_TEST

START_TEST(no_gpu_falls_back_to_the_model) {
  fixture f;
  open_fixture(&f, TUNE_DEVICE_AUTO, "T=f32 M=1000");
  f.options.config = "KIND=0,BLOCK=256,SPEED=3";
  setenv(PLANTED_GPU, _i ? "none" : "dies", 1);
  ck_assert_msg(tune(&f) == ARKE_OK, "%s", f.err.text);
  ck_assert_int_eq(strncmp(f.result.environment.device, "model:", 6), 0);
  f.options.device = TUNE_DEVICE_CUDA;
  ck_assert_int_ne(tune(&f), ARKE_OK);
  ck_assert_msg(strstr(f.err.text, _i ? "no GPU 0" : "status 9") != NULL, "%s", f.err.text);
  close_fixture(&f);
}
END_TEST

START_TEST(one_configuration_by_name) {
  fixture f;
  open_fixture(&f, TUNE_DEVICE_CUDA, "T=f32 M=1000");
  f.options.config = "KIND=0,BLOCK=256,SPEED=3";
  f.options.keep_llvm_ir = true;
  ck_assert_msg(tune(&f) == ARKE_OK, "%s", f.err.text);
  ck_assert_str_eq(f.result.config_text, f.options.config);
  ck_assert_int_eq(read_log(&f).total, 1);
  ck_assert_ptr_nonnull(f.result.llvm_ir);
  ck_assert_ptr_nonnull(strstr(f.result.ptx, ".entry twice"));
  ck_assert_ptr_nonnull(strstr(f.result.recipe_json, "twice"));
  ck_assert_uint_eq(strlen(f.result.sha256), 64);
  f.options.config = "KIND=0,BLOCK=32,SPEED=7";
  ck_assert_int_eq(tune(&f), ARKE_ERR_INVALID);
  ck_assert_ptr_nonnull(strstr(f.err.text, template_reason_text(TEMPLATE_THREADS)));
  f.options.config = "KIND=3,BLOCK=128,SPEED=0";
  ck_assert_int_eq(tune(&f), ARKE_ERR_NOT_FOUND);
  close_fixture(&f);
}
END_TEST

static double stored_ns(fixture *f, const char **policy) {
  cache *c;
  cache_entry e;
  ck_assert_int_eq(cache_open(f->cache_path, CACHE_READ, &c, NULL), ARKE_OK);
  ck_assert_int_eq(cache_find_entry(c, "twice", "T=f32 M=1000", "sm_90a", "", true, &f->a, &e, NULL),
                   ARKE_OK);
  cache_close(c);
  *policy = e.winner.policy;
  return e.winner.time.median_ns;
}

/* The winner of a search stands against a slower configuration that somebody tries by name. */
START_TEST(a_named_configuration_does_not_displace_the_winner) {
  fixture f;
  const char *policy;
  open_fixture(&f, _i ? TUNE_DEVICE_CUDA : TUNE_DEVICE_MODEL, "T=f32 M=1000");
  f.options.templates = &hungry_templates;
  f.options.effort = TUNE_QUICK;
  ck_assert_msg(tune(&f) == ARKE_OK, "%s", f.err.text);
  const char *winner = arena_strdup(&f.a, f.result.config_text);
  double ns = stored_ns(&f, &policy);
  ck_assert(f.result.stored && tune_search_is_whole(&f.options, policy));
  f.options.config = "KIND=0,BLOCK=256,GROUP=31";
  ck_assert_msg(tune(&f) == ARKE_OK, "%s", f.err.text);
  ck_assert_str_eq(f.result.config_text, f.options.config);
  ck_assert(!f.result.stored);
  ck_assert_double_gt(f.result.time.median_ns, ns);
  ck_assert_double_eq(stored_ns(&f, &policy), ns);
  f.options.config = NULL;
  ck_assert_msg(tune(&f) == ARKE_OK, "%s", f.err.text);
  ck_assert_str_eq(f.result.config_text, winner);
  close_fixture(&f);
}
END_TEST

/* What one configuration left in an empty cache is no search's outcome. */
START_TEST(a_named_configuration_is_no_search) {
  fixture f;
  const char *policy;
  open_fixture(&f, _i ? TUNE_DEVICE_CUDA : TUNE_DEVICE_MODEL, "T=f32 M=1000");
  f.options.templates = &hungry_templates;
  f.options.effort = TUNE_QUICK;
  f.options.config = "KIND=0,BLOCK=256,GROUP=31";
  ck_assert_msg(tune(&f) == ARKE_OK, "%s", f.err.text);
  double slow = stored_ns(&f, &policy);
  f.options.config = NULL;
  ck_assert_ptr_nonnull(strstr(policy, "search=config"));
  ck_assert(!tune_search_is_whole(&f.options, policy));
  ck_assert_msg(tune(&f) == ARKE_OK, "%s", f.err.text);
  ck_assert_double_lt(stored_ns(&f, &policy), slow);
  ck_assert(tune_search_is_whole(&f.options, policy));
  close_fixture(&f);
}
END_TEST

START_TEST(a_limited_search_is_whole_for_that_limit_only) {
  fixture f;
  const char *policy;
  open_fixture(&f, TUNE_DEVICE_MODEL, "T=f32 M=1000");
  f.options.templates = &hungry_templates;
  f.options.effort = TUNE_QUICK;
  f.options.trials = 3;
  ck_assert_msg(tune(&f) == ARKE_OK, "%s", f.err.text);
  stored_ns(&f, &policy);
  ck_assert_msg(strstr(policy, "search=trials:3"), "%s", policy);
  ck_assert(tune_search_is_whole(&f.options, policy));
  f.options.trials = 4;
  ck_assert(!tune_search_is_whole(&f.options, policy));
  f.options.trials = 0;
  ck_assert(!tune_search_is_whole(&f.options, policy));
  ck_assert(!tune_search_is_whole(&f.options, "l2=cold " TUNE_POLICY_INTERRUPTED));
  ck_assert(tune_search_is_whole(&f.options, NULL));
  close_fixture(&f);
}
END_TEST

START_TEST(a_fresh_run_takes_nothing_from_the_cache) {
  fixture f;
  open_fixture(&f, _i ? TUNE_DEVICE_CUDA : TUNE_DEVICE_MODEL, "T=f32 M=1000");
  f.options.templates = &hungry_templates;
  f.options.effort = TUNE_QUICK;
  f.options.trials = 4;
  ck_assert_msg(tune(&f) == ARKE_OK, "%s", f.err.text);
  int first = read_log(&f).total;
  f.options.fresh = true;
  ck_assert_msg(tune(&f) == ARKE_OK, "%s", f.err.text);
  ck_assert_int_eq(f.result.trials.resumed, 0);
  ck_assert_int_eq(read_log(&f).total, 2 * first);
  close_fixture(&f);
}
END_TEST

/* Redundant says that a search need not try it, not that it is wrong. */
START_TEST(a_redundant_configuration_by_name) {
  fixture f;
  open_fixture(&f, _i ? TUNE_DEVICE_CUDA : TUNE_DEVICE_MODEL, "T=f32 M=1000");
  f.options.config = "KIND=12,BLOCK=64,SPEED=3"; /* a twin of KIND=0 */
  ck_assert_msg(tune(&f) == ARKE_OK, "%s", f.err.text);
  ck_assert_str_eq(f.result.config_text, f.options.config);
  ck_assert_int_eq(f.result.trials.pruned[TEMPLATE_REDUNDANT], 13 * 31 - 1);
  ck_assert_int_eq(read_log(&f).total, 1);
  ck_assert_msg(tune(&f) == ARKE_OK, "%s", f.err.text); /* its stored trial is no obstacle */
  f.options.config = NULL;
  f.options.trials = 1;
  ck_assert_int_ne(tune(&f), ARKE_ERR_INTERNAL);
  close_fixture(&f);
}
END_TEST

START_TEST(a_dry_run_touches_nothing) {
  fixture f;
  open_fixture(&f, TUNE_DEVICE_MODEL, "T=f32 M=1000");
  f.options.dry_run = true;
  ck_assert_msg(tune(&f) == ARKE_OK, "%s", f.err.text);
  ck_assert_str_eq(f.result.config_text, "KIND=1,BLOCK=128,SPEED=0");
  ck_assert_int_eq(f.result.trials.pruned[TEMPLATE_REDUNDANT], 13 * 31);
  ck_assert_int_eq(read_log(&f).total, 0);
  ck_assert_int_ne(access(f.cache_path, F_OK), 0);
  close_fixture(&f);
}
END_TEST

START_TEST(the_budget_is_kept) {
  fixture f;
  open_fixture(&f, TUNE_DEVICE_CUDA, "T=f32 M=1000");
  setenv(PLANTED_SLOW_MS, "400", 1);
  f.options.budget_s = 5;
  f.options.jobs = 2;
  double begin = now_s();
  ck_assert_msg(tune(&f) == ARKE_OK, "%s", f.err.text);
  ck_assert_double_lt(now_s() - begin, 12); /* a hanging candidate may pass the end by its time limit */
  ck_assert_int_eq(f.result.origin, CACHE_ORIGIN_MEASURED);
  ck_assert_int_lt(read_log(&f).total, 42);
  close_fixture(&f);
}
END_TEST

/* What comes before the first trial, of a sweep's first problem the start of all workers, uses none of it;
 * and one candidate timed is no choice. */
START_TEST(the_budget_is_for_measuring) {
  static tune_trial measured[4];
  tune_trial *trials[4];
  tune_session s = {.kind = TUNE_DEVICE_CUDA, .options = {.budget_s = 10}};
  tune_run run = {.session = &s, .begin_s = tune_now_s() - 100, .trials = trials};
  ck_assert_double_eq(tune_run_left_s(&run, 1), 9);
  ck_assert(!tune_run_is_out_of_time(&run));
  tune_run_start_clock(&run);
  double clock_s = run.clock_s;
  ck_assert_double_lt(tune_run_left_s(&run, 0), 10.001);
  ck_assert_double_gt(tune_run_left_s(&run, 0), 5);
  tune_run_start_clock(&run);
  ck_assert_double_eq(run.clock_s, clock_s);
  for (int i = 0; i < 4; i++) {
    measured[i] =
        (tune_trial){.run = &run, .state = TRIAL_OVER, .outcome = CACHE_MEASURED, .rank_ns = 100 + i};
    trials[i] = &measured[i];
    run.n_trials = i + 1;
    run.clock_s = tune_now_s() - 3;
    ck_assert(!tune_run_is_out_of_time(&run));
    run.clock_s = tune_now_s() - 9;
    ck_assert_int_eq(tune_run_is_out_of_time(&run), i == 3);
    run.clock_s = tune_now_s() - 16;
    ck_assert(tune_run_is_out_of_time(&run));
  }
  run.n_trials = 0;
  ck_assert(!tune_run_is_out_of_time(&run)); /* nothing right yet */
}
END_TEST

/* A budget bounds the search; one right kernel it must be, even if the first ones are not. */
START_TEST(a_budget_too_short_still_delivers) {
  fixture f;
  open_fixture(&f, _i % 2 ? TUNE_DEVICE_CUDA : TUNE_DEVICE_MODEL, "T=f32 M=1000");
  setenv(PLANTED_SLOW_MS, "300", 1);
  f.options.budget_s = 0.1;
  f.options.jobs = 2;
  if (_i < 2) f.options.templates = &hungry_templates;
  double begin = now_s();
  ck_assert_msg(tune(&f) == ARKE_OK, "%s", f.err.text);
  ck_assert_msg(strncmp(f.result.config_text, "KIND=0", 6) == 0, "%s", f.result.config_text);
  if (_i < 2) {
    ck_assert_double_lt(now_s() - begin, 5);
    ck_assert_int_lt(read_log(&f).total, 6);
  }
  close_fixture(&f);
}
END_TEST

typedef struct progress_seen {
  int calls, last_done, last_total;
} progress_seen;

static void see_progress(const tune_progress *p, void *user) {
  progress_seen *seen = user;
  seen->calls++;
  ck_assert_int_le(p->done, p->total);
  seen->last_done = p->done;
  seen->last_total = p->total;
}

/* The second run may try fewer than it takes from the first, the third one two more. */
START_TEST(progress_counts_what_this_run_does) {
  fixture f;
  open_fixture(&f, _i ? TUNE_DEVICE_CUDA : TUNE_DEVICE_EMULATOR, "T=f32 M=100");
  f.options.templates = &hungry_templates;
  f.options.effort = TUNE_QUICK;
  int trials[] = {4, 3, 6};
  for (size_t run = 0; run < COUNT_OF(trials); run++) {
    progress_seen seen = {0};
    tune_session *s;
    f.options.trials = trials[run];
    ck_assert_int_eq(tune_session_open(&f.options, &s, &f.err), ARKE_OK);
    ck_assert_msg(tune_problem(s, &f.problem, see_progress, &seen, &f.a, &f.result, &f.err) == ARKE_OK, "%s",
                  f.err.text);
    tune_session_close(s);
    ck_assert_int_gt(seen.calls, 0);
    ck_assert_int_eq(seen.last_done, run == 0 ? 4 : run == 1 ? 0 : 2);
    ck_assert_int_eq(seen.last_total, seen.last_done);
    ck_assert_int_eq(f.result.trials.resumed, run == 0 ? 0 : 4);
  }
  close_fixture(&f);
}
END_TEST

START_TEST(progress_is_told) {
  fixture f;
  open_fixture(&f, TUNE_DEVICE_EMULATOR, "T=f32 M=100");
  f.options.trials = 16;
  ck_assert_msg(tune(&f) == ARKE_OK, "%s", f.err.text);
  ck_assert_int_eq(f.result.trials.compiled + f.result.trials.failed[CACHE_CRASHED] +
                       f.result.trials.failed[CACHE_LOWER_FAILED] + 1 /* stuck */,
                   16);
  ck_assert_double_gt(f.result.speed_of_light_ns, 0);
  ck_assert_double_eq(f.result.min_bytes, 800);
  ck_assert_double_gt(f.result.compile_rate_per_s, 0);
  close_fixture(&f);
}
END_TEST

int main(int argc, char **argv) {
  tune_worker_main_hooked(argc, argv, &planted_hooks);
  Suite *suite = suite_create("tuning");
  TCase *c = tcase_create("tuning");
  tcase_set_timeout(c, 120);
  tcase_add_test(c, what_arithmetic_bounds_is_timed_back_to_back);
  tcase_add_test(c, the_next_problem_compiles_during_the_finals);
  tcase_add_test(c, another_problem_than_expected_is_tuned_as_ever);
  tcase_add_test(c, what_was_expected_need_not_follow);
  tcase_add_loop_test(c, the_family_that_wins_at_the_power_limit_is_found, 0, 2);
  tcase_add_loop_test(c, what_cannot_win_is_left_out, 0, 2);
  tcase_add_test(c, the_model_verifies_a_reduced_problem);
  tcase_add_test(c, the_model_prefers_what_has_a_small_problem);
  tcase_add_loop_test(c, no_gpu_falls_back_to_the_model, 0, 2);
  tcase_add_test(c, one_configuration_by_name);
  tcase_add_loop_test(c, a_redundant_configuration_by_name, 0, 2);
  tcase_add_loop_test(c, a_named_configuration_does_not_displace_the_winner, 0, 2);
  tcase_add_loop_test(c, a_named_configuration_is_no_search, 0, 2);
  tcase_add_test(c, a_limited_search_is_whole_for_that_limit_only);
  tcase_add_loop_test(c, a_fresh_run_takes_nothing_from_the_cache, 0, 2);
  tcase_add_test(c, a_dry_run_touches_nothing);
  tcase_add_test(c, the_budget_is_kept);
  tcase_add_test(c, the_budget_is_for_measuring);
  tcase_add_test(c, progress_is_told);
  tcase_add_loop_test(c, progress_counts_what_this_run_does, 0, 2);
  suite_add_tcase(suite, c);
  TCase *machine = tcase_create("machine");
  tcase_set_timeout(machine, 120);
  tcase_add_loop_test(machine, a_budget_too_short_still_delivers, 0, 4);
  suite_add_tcase(suite, machine);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_NORMAL);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed != 0;
}
