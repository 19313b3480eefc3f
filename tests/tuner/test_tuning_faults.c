/* The whole tuner with planted candidates that misbehave and workers that are lost, on the emulator and on a
 * GPU made of it. This program is also its workers. */
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

static const char *reason_of(const trial_list *l, planted_kind kind) {
  for (int i = 0; i < l->n; i++)
    if (l->list[i].kind == (int)kind) return l->list[i].reason;
  return "";
}

static void check_reasons(const trial_list *l) {
  static const struct {
    planted_kind kind;
    const char *part;
  } parts[] = {{PLANTED_ABORT, "about to abort"},
               {PLANTED_ABORT, "lower"},
               {PLANTED_QUITS, "the very last words"},
               {PLANTED_QUITS, "status 7"},
               {PLANTED_REFUSES, "planted: refused"},
               {PLANTED_STUCK, "lower"},
               {PLANTED_HANG, "verify"},
               {PLANTED_WRONG, "Y["},
               {PLANTED_UNWRITTEN, "not written"},
               {PLANTED_TWIN, "KIND=0,BLOCK=128,SPEED=0"},
               {PLANTED_NO_GRID, "grid"}};
  for (size_t i = 0; i < COUNT_OF(parts); i++)
    ck_assert_msg(strstr(reason_of(l, parts[i].kind), parts[i].part) != NULL,
                  "%s: the reason lacks \"%s\": %s", planted_meanings[parts[i].kind], parts[i].part,
                  reason_of(l, parts[i].kind));
}

/* --- faults
 * --------------------------------------------------------------------------------------------------- */

START_TEST(every_fault_is_recorded_on_the_emulator) {
  fixture f;
  open_fixture(&f, TUNE_DEVICE_EMULATOR, "T=f32 M=1000");
  double begin = now_s();
  ck_assert_msg(tune(&f) == ARKE_OK, "%s", f.err.text);
  ck_assert_double_lt(now_s() - begin, 60);
  trial_list l = read_trials(&f, "emulator");
  check_outcomes(&l, false, 28);
  check_reasons(&l);
  ck_assert_str_eq(f.result.config_text, "KIND=0,BLOCK=128,SPEED=0"); /* the model's best that is right */
  ck_assert_int_eq(f.result.origin, CACHE_ORIGIN_MODELLED);
  ck_assert_int_eq(f.result.time.samples, 0);
  ck_assert_int_eq(f.result.trials.failed[CACHE_TIMEOUT], 2);
  ck_assert_int_eq(f.result.trials.failed[CACHE_CRASHED], 2);
  ck_assert_int_eq(f.result.trials.total, 14 * 4 * 8);
  check_no_workers();
  close_fixture(&f);
}
END_TEST

START_TEST(every_fault_is_recorded_on_a_gpu) {
  fixture f;
  open_fixture(&f, TUNE_DEVICE_CUDA, "T=f32 M=1000");
  double begin = now_s();
  ck_assert_msg(tune(&f) == ARKE_OK, "%s", f.err.text);
  ck_assert_double_lt(now_s() - begin, 60);
  trial_list l = read_trials(&f, FAKE_GPU_NAME);
  check_outcomes(&l, true, 28);
  check_reasons(&l);
  ck_assert_str_eq(f.result.config_text, PLANTED_BEST);
  ck_assert_int_eq(f.result.origin, CACHE_ORIGIN_MEASURED);
  ck_assert_int_ge(f.result.time.samples, 7);
  ck_assert_double_eq_tol(f.result.time.median_ns, 20e3, 0.16 * 20e3);
  ck_assert_int_eq(f.result.trials.measured, 28);
  ck_assert_ptr_nonnull(strstr(f.result.policy, "l2=flushed sets=1 timer=events clocks=as-found"));
  ck_assert_double_le(f.result.worst_error, f.result.tolerance);
  ck_assert_str_eq(f.result.environment.driver, "1.2.3 (CUDA 13.0)");
  ck_assert_msg(f.result.warning == NULL, "%s", f.result.warning);
  check_no_workers();
  close_fixture(&f);
}
END_TEST

/* The GPU has no memory for what compares outputs there, nor to flush its L2 with. */
START_TEST(a_host_that_has_to_compare_finds_what_a_gpu_finds) {
  fixture f;
  open_fixture(&f, TUNE_DEVICE_CUDA, "T=f32 M=1000");
  setenv(PLANTED_GPU, "full", 1);
  ck_assert_msg(tune(&f) == ARKE_OK, "%s", f.err.text);
  trial_list l = read_trials(&f, FAKE_GPU_NAME);
  check_outcomes(&l, true, 28);
  check_reasons(&l);
  ck_assert_ptr_nonnull(f.result.warning);
  ck_assert_ptr_nonnull(strstr(f.result.warning, "compared on the host"));
  ck_assert_ptr_nonnull(strstr(f.result.warning, "the memory is full"));
  ck_assert_ptr_nonnull(strstr(f.result.policy, "sets=1 timer=events+graph"));
  close_fixture(&f);
}
END_TEST

static bool is_sleeping(int pid) {
  char path[64], state = 'Z'; /* dead, but not reaped yet */
  snprintf(path, sizeof path, "/proc/%d/stat", pid);
  FILE *file = fopen(path, "r");
  bool is = file && fscanf(file, "%*d (sleep) %c", &state) == 1 && state != 'Z';
  if (file) fclose(file);
  return is;
}

START_TEST(what_a_killed_worker_started_ends_with_it) {
  fixture f;
  char path[128];
  open_fixture(&f, TUNE_DEVICE_MODEL, "T=f32 M=1000");
  snprintf(path, sizeof path, "%s/children", f.folder);
  setenv(PLANTED_CHILD, path, 1);
  f.options.config = "KIND=0,BLOCK=128,SPEED=0";
  f.options.compile_timeout_s = 1;
  ck_assert_int_eq(tune(&f), ARKE_ERR_NOT_FOUND);
  ck_assert_ptr_nonnull(strstr(f.err.text, "timeout"));
  FILE *file = fopen(path, "r");
  ck_assert_ptr_nonnull(file);
  int pid, n = 0, left = 0;
  for (; fscanf(file, "%d", &pid) == 1; n++)
    if (is_sleeping(pid)) left += kill(pid, SIGKILL) == 0;
  fclose(file);
  ck_assert_int_gt(n, 0);
  ck_assert_int_eq(left, 0);
  close_fixture(&f);
}
END_TEST

/* As when memory runs out: no failure of the candidate's, and none that is stored. */
START_TEST(a_worker_killed_once_costs_nothing) {
  fixture f;
  char path[128];
  open_fixture(&f, _i ? TUNE_DEVICE_CUDA : TUNE_DEVICE_MODEL, "T=f32 M=1000");
  snprintf(path, sizeof path, "%s/die", f.folder);
  setenv(PLANTED_DIE, path, 1);
  fclose(fopen(path, "w"));
  f.options.config = "KIND=0,BLOCK=128,SPEED=0";
  ck_assert_msg(tune(&f) == ARKE_OK, "%s", f.err.text);
  ck_assert_int_eq(read_log(&f).total, 2);
  ck_assert_int_eq(f.result.trials.failed[CACHE_CRASHED], 0);
  close_fixture(&f);
}
END_TEST

START_TEST(nothing_that_works_is_said_so) {
  fixture f;
  open_fixture(&f, TUNE_DEVICE_MODEL, "T=f32 M=1000");
  f.options.templates = &doomed_templates;
  ck_assert_int_eq(tune(&f), ARKE_ERR_NOT_FOUND);
  ck_assert_ptr_nonnull(strstr(f.err.text, "crashed"));
  ck_assert_ptr_nonnull(strstr(f.err.text, "for example"));
  close_fixture(&f);
}
END_TEST

int main(int argc, char **argv) {
  tune_worker_main_hooked(argc, argv, &planted_hooks);
  Suite *suite = suite_create("tuning: faults");
  TCase *c = tcase_create("tuning: faults");
  tcase_set_timeout(c, 120);
  tcase_add_test(c, every_fault_is_recorded_on_the_emulator);
  tcase_add_test(c, every_fault_is_recorded_on_a_gpu);
  tcase_add_test(c, a_host_that_has_to_compare_finds_what_a_gpu_finds);
  tcase_add_test(c, nothing_that_works_is_said_so);
  suite_add_tcase(suite, c);
  TCase *machine = tcase_create("machine");
  tcase_set_timeout(machine, 120);
  tcase_add_loop_test(machine, a_worker_killed_once_costs_nothing, 0, 2);
  tcase_add_test(machine, what_a_killed_worker_started_ends_with_it);
  suite_add_tcase(suite, machine);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_NORMAL);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed != 0;
}
