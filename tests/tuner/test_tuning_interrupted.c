/* The whole tuner again, killed, interrupted, resumed, and twice at once on one file, with planted
 * candidates. This program is also its workers. */
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
#include "tuner/tune_session.h"

/* --- interruptions
 * ---------------------------------------------------------------------------------------------- */

START_TEST(the_same_command_again_repeats_nothing) {
  fixture f;
  open_fixture(&f, _i ? TUNE_DEVICE_CUDA : TUNE_DEVICE_EMULATOR, "T=f32 M=1000");
  ck_assert_msg(tune(&f) == ARKE_OK, "%s", f.err.text);
  log_counts first = read_log(&f);
  const char *winner = arena_strdup(&f.a, f.result.config_text);
  double median = f.result.time.median_ns;
  double begin = now_s();
  ck_assert_msg(tune(&f) == ARKE_OK, "%s", f.err.text);
  ck_assert_double_lt(now_s() - begin, 20);
  /* What crashed or hung may have been the machine's doing: once more, and then never again. */
  log_counts second = read_log(&f);
  static const planted_kind doubtful[] = {PLANTED_ABORT, PLANTED_QUITS, PLANTED_STUCK, PLANTED_HANG};
  for (size_t i = 0; i < COUNT_OF(doubtful); i++)
    ck_assert_int_eq(second.kinds[doubtful[i]], first.kinds[doubtful[i]] + 1);
  /* On the emulator the one that hangs is verified, and the winner after it gets its kernel back. */
  ck_assert_int_eq(second.total, first.total + 4 + (_i ? 0 : 1));
  ck_assert_str_eq(f.result.config_text, winner);
  ck_assert_double_eq(f.result.time.median_ns, median);
  ck_assert_int_eq(f.result.trials.resumed, 37);
  ck_assert_msg(tune(&f) == ARKE_OK, "%s", f.err.text);
  ck_assert_int_eq(read_log(&f).total, second.total);
  ck_assert_int_eq(f.result.trials.resumed, 41);
  ck_assert_int_eq(f.result.trials.failed[CACHE_CRASHED], 2);
  ck_assert_str_eq(f.result.config_text, winner);
  close_fixture(&f);
}
END_TEST

START_TEST(a_killed_run_is_resumed) {
  fixture f;
  open_fixture(&f, TUNE_DEVICE_CUDA, "T=f32 M=1000");
  setenv(PLANTED_SLOW_MS, "100", 1);
  pid_t child = tune_in_child(&f);
  wait_for_log(&f, 28);
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
  check_no_workers(); /* they die with their parent */
  f.result.environment.generator = template_generation();
  trial_list before = read_trials(&f, FAKE_GPU_NAME);
  ck_assert_int_gt(before.n, 5);
  log_counts begun_before = read_log(&f);
  ck_assert_msg(tune(&f) == ARKE_OK, "%s", f.err.text);
  ck_assert_str_eq(f.result.config_text, PLANTED_BEST);
  int doubtful = 0;
  for (int i = 0; i < before.n; i++)
    doubtful += before.list[i].outcome == CACHE_CRASHED || before.list[i].outcome == CACHE_TIMEOUT;
  ck_assert_int_ge(f.result.trials.resumed, before.n - doubtful);
  trial_list after = read_trials(&f, FAKE_GPU_NAME);
  ck_assert_int_eq(after.n, 41);
  for (int i = 0; i < before.n; i++) { /* stored trials are as they were */
    int at = find_trial(&after, before.list[i].kind, before.list[i].block, before.list[i].speed);
    ck_assert_int_eq(before.list[i].outcome, after.list[at].outcome);
    ck_assert_double_eq(before.list[i].median_ns, after.list[at].median_ns);
  }
  log_counts all = read_log(&f);
  int begun = begun_before.total - before.n; /* lost with the kill */
  ck_assert_int_le(all.total - begun_before.total, 41 - before.n + 24 /* finalists get their kernels back */);
  ck_assert_int_ge(begun, 0);
  for (int i = 0; i < before.n; i++)
    if (before.list[i].outcome == CACHE_CRASHED || before.list[i].outcome == CACHE_TIMEOUT)
      ck_assert_int_eq(all.kinds[before.list[i].kind], begun_before.kinds[before.list[i].kind] + 1);
    else if (before.list[i].kind != PLANTED_GOOD)
      ck_assert_int_eq(all.kinds[before.list[i].kind], begun_before.kinds[before.list[i].kind]);
  close_fixture(&f);
}
END_TEST

START_TEST(an_interrupt_publishes_the_best_so_far) {
  fixture f;
  open_fixture(&f, TUNE_DEVICE_CUDA, "T=f32 M=1000");
  setenv(PLANTED_SLOW_MS, "100", 1);
  pid_t child = tune_in_child(&f);
  wait_for_log(&f, 30);
  double begin = now_s();
  kill(child, _i ? SIGTERM : SIGINT);
  int status;
  waitpid(child, &status, 0);
  ck_assert_double_lt(now_s() - begin, 10);
  ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 130);
  cache *c;
  cache_entry e;
  ck_assert_int_eq(cache_open(f.cache_path, CACHE_READ, &c, NULL), ARKE_OK);
  ck_assert_int_eq(cache_find_entry(c, "twice", "T=f32 M=1000", "sm_90a", "", false, &f.a, &e, NULL),
                   ARKE_OK);
  ck_assert_int_eq(strncmp(e.winner.config, "KIND=0", 6), 0);
  cache_close(c);
  check_no_workers();
  close_fixture(&f);
}
END_TEST

/* Without a GPU nothing is verified before all is compiled. */
START_TEST(an_interrupt_while_compiling_verifies_the_leader) {
  fixture f;
  open_fixture(&f, TUNE_DEVICE_MODEL, "T=f32 M=1000");
  f.options.templates = &hungry_templates;
  f.options.jobs = 2;
  setenv(PLANTED_SLOW_MS, "200", 1);
  pid_t child = tune_in_child(&f);
  wait_for_log(&f, 6);
  double begin = now_s();
  kill(child, _i ? SIGTERM : SIGINT);
  int status;
  waitpid(child, &status, 0);
  ck_assert_double_lt(now_s() - begin, 10);
  ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 130);
  ck_assert_int_lt(read_log(&f).total, 20);
  cache *c;
  cache_entry e;
  ck_assert_int_eq(cache_open(f.cache_path, CACHE_READ, &c, NULL), ARKE_OK);
  ck_assert_int_eq(cache_find_entry(c, "twice", "T=f32 M=1000", "sm_90a", "", true, &f.a, &e, NULL), ARKE_OK);
  ck_assert_str_eq(e.winner.config, "KIND=0,BLOCK=128,GROUP=16");
  ck_assert_int_eq(e.winner.origin, CACHE_ORIGIN_MODELLED);
  ck_assert_ptr_nonnull(strstr(e.winner.policy, TUNE_POLICY_INTERRUPTED));
  cache_close(c);
  check_no_workers();
  close_fixture(&f);
}
END_TEST

START_TEST(an_interrupt_before_anything_is_compiled_says_so) {
  fixture f;
  open_fixture(&f, TUNE_DEVICE_MODEL, "T=f32 M=1000");
  f.options.templates = &hungry_templates;
  setenv(PLANTED_SLOW_MS, "2000", 1);
  pid_t child = fork();
  ck_assert_int_ge(child, 0);
  if (child == 0) {
    arke_status status = tune(&f);
    _exit(status == ARKE_ERR_INTERRUPTED && !f.result.config_text && strstr(f.err.text, "compiled") ? 0 : 1);
  }
  wait_for_log(&f, 1);
  kill(child, SIGINT);
  int status;
  waitpid(child, &status, 0);
  ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  check_no_workers();
  close_fixture(&f);
}
END_TEST

/* The leader, which loops for ever, is given up when the user insists. */
START_TEST(a_second_interrupt_ends_verifying) {
  fixture f;
  open_fixture(&f, TUNE_DEVICE_MODEL, "T=f32 M=1000");
  f.options.config = "KIND=2,BLOCK=128,SPEED=0";
  f.options.run_timeout_s = 60;
  pid_t child = tune_in_child(&f);
  wait_for_log(&f, 1);
  usleep(500000);
  double begin = now_s();
  for (int i = 0; i < 2; i++) {
    kill(child, SIGINT);
    usleep(300000);
  }
  int status;
  waitpid(child, &status, 0);
  ck_assert_double_lt(now_s() - begin, 5);
  ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 1); /* nothing was verified */
  check_no_workers();
  close_fixture(&f);
}
END_TEST

START_TEST(two_tuners_share_a_file) {
  fixture f;
  open_fixture(&f, TUNE_DEVICE_CUDA, "T=f32 M=1000");
  setenv(PLANTED_SLOW_MS, "20", 1);
  pid_t children[2] = {tune_in_child(&f), tune_in_child(&f)};
  for (int i = 0; i < 2; i++) {
    int status;
    waitpid(children[i], &status, 0);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  f.result.environment.generator = template_generation();
  trial_list l = read_trials(&f, FAKE_GPU_NAME);
  check_outcomes(&l, true, 28);
  cache *c;
  cache_stats stats;
  ck_assert_int_eq(cache_open(f.cache_path, CACHE_READ, &c, NULL), ARKE_OK);
  ck_assert_int_eq(cache_verify(c, &stats, NULL), ARKE_OK);
  ck_assert_int_eq(stats.damaged, 0);
  ck_assert_int_eq(stats.winners, 1);
  cache_close(c);
  close_fixture(&f);
}
END_TEST

START_TEST(nearby_winners_come_first) {
  fixture f;
  open_fixture(&f, TUNE_DEVICE_CUDA, "T=f32 M=1000");
  ck_assert_msg(tune(&f) == ARKE_OK, "%s", f.err.text);
  ck_assert_int_eq(truncate(f.log_path, 0), 0);
  ck_assert_int_eq(ir_problem_bind(f.problem.op, "T=f32 M=1200", &f.problem, NULL), ARKE_OK);
  f.options.trials = 1;
  f.options.jobs = 1;
  ck_assert_msg(tune(&f) == ARKE_OK, "%s", f.err.text);
  ck_assert_str_eq(f.result.config_text, PLANTED_BEST);
  ck_assert_int_eq(read_log(&f).total, 1);
  close_fixture(&f);
}
END_TEST

START_TEST(a_bad_file_is_set_aside_and_an_unusable_one_refused) {
  fixture f;
  open_fixture(&f, TUNE_DEVICE_MODEL, "T=f32 M=1000");
  FILE *file = fopen(f.cache_path, "w");
  fputs("this is somebody's letter, not a cache\n", file);
  fclose(file);
  f.options.config = "KIND=0,BLOCK=128,SPEED=0";
  ck_assert_msg(tune(&f) == ARKE_OK, "%s", f.err.text);
  ck_assert_ptr_nonnull(f.result.set_aside);
  ck_assert_int_eq(access(f.result.set_aside, F_OK), 0);
  file = fopen(f.cache_path, "w");
  fputs("another letter\n", file);
  fclose(file);
  setenv(PLANTED_GPU, "none", 1);
  f.options.device = TUNE_DEVICE_CUDA; /* no result will tell of the file that was moved away */
  ck_assert_int_ne(tune(&f), ARKE_OK);
  ck_assert_msg(strstr(f.err.text, "no GPU 0") && strstr(f.err.text, "is kept as"), "%s", f.err.text);
  f.options.device = TUNE_DEVICE_MODEL;
  f.options.cache_path = "/nonexistent/folder/tuned.arke";
  ck_assert_int_ne(tune(&f), ARKE_OK);
  ck_assert_ptr_nonnull(strstr(f.err.text, "/nonexistent/folder"));
  f.options.cache_path = NULL;
  ck_assert_int_eq(tune(&f), ARKE_ERR_ARGUMENT);
  close_fixture(&f);
}
END_TEST

int main(int argc, char **argv) {
  tune_worker_main_hooked(argc, argv, &planted_hooks);
  Suite *suite = suite_create("tuning: interrupted");
  TCase *c = tcase_create("tuning: interrupted");
  tcase_set_timeout(c, 120);
  tcase_add_loop_test(c, the_same_command_again_repeats_nothing, 0, 2);
  tcase_add_test(c, a_killed_run_is_resumed);
  tcase_add_loop_test(c, an_interrupt_publishes_the_best_so_far, 0, 2);
  tcase_add_loop_test(c, an_interrupt_while_compiling_verifies_the_leader, 0, 2);
  tcase_add_test(c, an_interrupt_before_anything_is_compiled_says_so);
  tcase_add_test(c, a_second_interrupt_ends_verifying);
  tcase_add_test(c, two_tuners_share_a_file);
  tcase_add_test(c, nearby_winners_come_first);
  tcase_add_test(c, a_bad_file_is_set_aside_and_an_unusable_one_refused);
  suite_add_tcase(suite, c);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_NORMAL);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed != 0;
}
