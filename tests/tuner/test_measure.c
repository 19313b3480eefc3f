#include <check.h>
#include <math.h>
#include <stdlib.h>

#include "base/random.h"
#include "tests/tuner/fake_device.h"
#include "tuner/measure.h"
#include "tuner/statistics.h"

static arke_status enqueue(void *user, int set, void *stream, arke_error *err) {
  (void)set;
  device_launch l = {.stream = stream};
  void **pair = user;
  device *d = pair[0];
  return d->ops->launch(d, pair[1], &l, err);
}

typedef struct setup {
  fake_device dev;
  tune_meter meter;
  int n;
  fake_kernel kernels[16], nothing;
  void *pairs[16][2];
  tune_finalist list[16];
} setup;

static void open_setup(setup *s, const double *true_ns, int n, uint64_t seed) {
  *s = (setup){.n = n};
  fake_device_init(&s->dev, seed);
  ck_assert_int_eq(tune_meter_open(&s->dev.base, seed, &s->meter, NULL), ARKE_OK);
  for (int i = 0; i < n; i++) {
    s->kernels[i].true_ns = true_ns[i];
    s->pairs[i][0] = &s->dev.base;
    s->pairs[i][1] = &s->kernels[i];
    s->list[i].complexity = 10 + i;
  }
}

static void capture_all(setup *s) {
  for (int i = 0; i < s->n; i++) {
    tune_runnable r = {.enqueue = enqueue, .user = s->pairs[i], .n_sets = 3};
    ck_assert_int_eq(tune_burst_capture(&s->meter, &r, &s->list[i].burst, NULL), ARKE_OK);
    ck_assert_int_eq(s->list[i].burst.launches % 3, 0);
  }
}

static void close_setup(setup *s) {
  for (int i = 0; i < s->n; i++) tune_burst_release(&s->meter, &s->list[i].burst);
  tune_meter_close(&s->meter);
  ck_assert_int_eq(s->dev.open_objects, 0);
}

static int hold_finals(setup *s, int *rounds) {
  int winner = -1;
  ck_assert_int_eq(
      tune_measure_finals(&s->meter, s->list, s->n, &tune_finals_default, NULL, NULL, &winner, rounds, NULL),
      ARKE_OK);
  return winner;
}

START_TEST(quantiles_interpolate) {
  double samples[] = {5, 1, 3, 2, 4};
  ck_assert_double_eq_tol(tune_quantile(samples, 5, 0.5), 3, 1e-12);
  cache_time t = tune_summary(samples, 5);
  ck_assert_double_eq_tol(t.p10_ns, 1.4, 1e-12);
  ck_assert_double_eq_tol(t.p90_ns, 4.6, 1e-12);
  ck_assert_int_eq(tune_summary(samples, 0).samples, 0);
}
END_TEST

/* The interval must miss the true median no more often than it says. */
START_TEST(median_interval_covers) {
  int missed = 0, trials = 4000;
  for (int t = 0; t < trials; t++) {
    double samples[15], low, high;
    for (int i = 0; i < 15; i++) samples[i] = exp(random_normal(7, (uint64_t)(t * 15 + i)));
    ck_assert(tune_median_interval(samples, 15, 0.05, &low, &high));
    missed += low > 1 || high < 1;
  }
  ck_assert_int_lt(missed, trials * 5 / 100);
  double few[] = {1, 2, 3}, low, high;
  ck_assert(!tune_median_interval(few, 3, 0.02, &low, &high));
}
END_TEST

START_TEST(finds_the_best_under_drift) {
  /* Two per cent apart, with times that swing by 15 % and now and then triple. */
  double true_ns[] = {204e3, 200e3, 212e3, 208e3, 240e3, 206e3, 230e3, 205e3};
  setup s;
  open_setup(&s, true_ns, 8, (uint64_t)_i + 1);
  s.dev.hiccup = 0.001;
  capture_all(&s);
  int rounds, winner = hold_finals(&s, &rounds);
  ck_assert_int_eq(winner, 1);
  for (int i = 0; i < 8; i++) {
    ck_assert_double_eq_tol(s.list[i].ratio, true_ns[i] / 200e3, 0.02);
    if (i != 1) ck_assert(s.list[i].separated);
  }
  ck_assert_int_ge(s.list[1].time.samples, 7);
  ck_assert_double_eq_tol(s.list[1].time.median_ns, 200e3, 0.16 * 200e3);
  close_setup(&s);
}
END_TEST

START_TEST(near_ties_go_to_the_simpler) {
  double true_ns[] = {100.03e3, 100e3, 100.06e3, 150e3};
  setup s;
  open_setup(&s, true_ns, 4, (uint64_t)_i + 50);
  s.list[2].complexity = 0;
  s.list[3].complexity = -1; /* simplest of all, but far slower */
  capture_all(&s);
  int rounds;
  ck_assert_int_eq(hold_finals(&s, &rounds), 2);
  ck_assert(s.list[3].separated);
  close_setup(&s);
}
END_TEST

START_TEST(what_is_faster_by_more_wins_over_the_simpler) {
  double true_ns[] = {100e3, 100.4e3};
  setup s;
  open_setup(&s, true_ns, 2, (uint64_t)_i + 70);
  s.list[1].complexity = 0;
  capture_all(&s);
  int rounds;
  ck_assert_int_eq(hold_finals(&s, &rounds), 0);
  close_setup(&s);
}
END_TEST

/* --- cold runs ------------------------------------------------------------------------------------------ */

#define FLUSH_BYTES (100 << 20)

/* The setup's kernels take `filled_ns` after a flush; events and launches take time too. */
static void open_cold(setup *s, const double *true_ns, const double *filled_ns, int n, uint64_t seed) {
  open_setup(s, true_ns, n, seed);
  s->dev.event_ns = 1200;
  s->nothing = (fake_kernel){.true_ns = 1e3};
  void *pair[2] = {&s->dev.base, &s->nothing};
  tune_runnable nothing = {.enqueue = enqueue, .user = pair, .n_sets = 1};
  ck_assert_int_eq(tune_meter_flush_before(&s->meter, FLUSH_BYTES, &nothing, NULL), ARKE_OK);
  for (int i = 0; i < n; i++) {
    s->kernels[i].filled_ns = filled_ns[i];
    tune_runnable r = {.enqueue = enqueue, .user = s->pairs[i], .n_sets = 1, .cold = true};
    ck_assert_int_eq(tune_burst_capture(&s->meter, &r, &s->list[i].burst, NULL), ARKE_OK);
  }
}

START_TEST(what_events_and_a_launch_cost_does_not_count) {
  double true_ns[] = {3e3, 40e3}, filled_ns[] = {5e3, 60e3};
  setup s;
  open_cold(&s, true_ns, filled_ns, 2, (uint64_t)_i + 130);
  s.dev.drift = 0;
  ck_assert_double_eq_tol(s.meter.overhead_ns, 2 * s.dev.event_ns, 100);
  for (int i = 0; i < 2; i++) {
    double ns;
    ck_assert_int_eq(tune_burst_sample(&s.meter, &s.list[i].burst, TUNE_COLD_RUNS, &ns, NULL), ARKE_OK);
    ck_assert_double_eq_tol(ns, filled_ns[i], 0.03 * filled_ns[i]);
  }
  close_setup(&s);
}
END_TEST

START_TEST(without_an_empty_kernel_only_events_do_not_count) {
  double true_ns[] = {5e3};
  setup s;
  open_setup(&s, true_ns, 1, 12);
  s.dev.event_ns = 1200;
  s.dev.drift = s.dev.noise = 0;
  ck_assert_int_eq(tune_meter_flush_before(&s.meter, FLUSH_BYTES, NULL, NULL), ARKE_OK);
  ck_assert_double_eq_tol(s.meter.overhead_ns, s.dev.event_ns, 1e-6);
  tune_runnable r = {.enqueue = enqueue, .user = s.pairs[0], .n_sets = 1, .cold = true};
  ck_assert_int_eq(tune_burst_capture(&s.meter, &r, &s.list[0].burst, NULL), ARKE_OK);
  ck_assert_double_eq_tol(s.list[0].burst.estimate_ns, 5e3 + s.dev.event_ns, 1e-6);
  close_setup(&s);
}
END_TEST

START_TEST(what_leads_back_to_back_loses_cold) {
  double true_ns[] = {20e3, 22e3, 21e3}, filled_ns[] = {26e3, 25e3, 28e3};
  setup hot, cold;
  open_setup(&hot, true_ns, 3, (uint64_t)_i + 150);
  capture_all(&hot);
  int rounds;
  ck_assert_int_eq(hold_finals(&hot, &rounds), 0);
  close_setup(&hot);
  open_cold(&cold, true_ns, filled_ns, 3, (uint64_t)_i + 150);
  ck_assert_int_eq(hold_finals(&cold, &rounds), 1);
  for (int i = 0; i < 3; i++) ck_assert_double_eq_tol(cold.list[i].ratio, filled_ns[i] / 25e3, 0.02);
  ck_assert_int_ge(cold.list[1].time.samples, 7);
  ck_assert_double_eq_tol(cold.list[1].time.median_ns, 25e3, 0.18 * 25e3);
  close_setup(&cold);
}
END_TEST

/* Both mostly read 2016 ns. */
START_TEST(what_lies_between_two_ticks_is_told_apart) {
  double true_ns[] = {2020, 2004}, filled_ns[] = {2028, 2012};
  setup s;
  open_cold(&s, true_ns, filled_ns, 2, (uint64_t)_i + 210);
  s.dev.tick_ns = 32;
  s.list[0].complexity = 0;
  int rounds;
  ck_assert_int_eq(hold_finals(&s, &rounds), 1);
  close_setup(&s);
}
END_TEST

START_TEST(cold_runs_each_follow_a_flush) {
  double true_ns[] = {20e3}, filled_ns[] = {25e3};
  setup s;
  open_cold(&s, true_ns, filled_ns, 1, 17);
  long fills = s.dev.fills, launches = s.dev.launches;
  double ns, before = s.meter.spent_ns, begin = s.dev.now_ns;
  ck_assert_int_eq(tune_burst_sample(&s.meter, &s.list[0].burst, 5, &ns, NULL), ARKE_OK);
  ck_assert_int_eq(s.dev.launches - launches, 5);
  ck_assert_int_eq(s.dev.fills - fills, 6); /* one more to get ahead of the device */
  ck_assert_double_eq_tol(s.meter.spent_ns - before, s.dev.now_ns - begin, 2 * s.dev.event_ns);
  ck_assert_double_eq_tol(s.meter.flush_ns, FLUSH_BYTES / 3000.0, s.dev.event_ns);
  close_setup(&s);
}
END_TEST

START_TEST(quick_rejects_cold_runs_too) {
  double true_ns[] = {20e3, 10e3, 20e6}, filled_ns[] = {25e3, 40e3, 20e6};
  setup s;
  open_cold(&s, true_ns, filled_ns, 3, 19);
  cache_time t;
  bool rejected;
  ck_assert_int_eq(tune_measure_quick(&s.meter, &s.list[0].burst, 25e3, &t, &rejected, NULL), ARKE_OK);
  ck_assert(!rejected);
  ck_assert_int_eq(t.samples, TUNE_COLD_RUNS);
  ck_assert_int_eq(tune_measure_quick(&s.meter, &s.list[1].burst, 25e3, &t, &rejected, NULL), ARKE_OK);
  ck_assert(rejected);
  ck_assert_int_eq(t.samples, 2);
  ck_assert_int_eq(tune_measure_quick(&s.meter, &s.list[1].burst, 0, &t, &rejected, NULL), ARKE_OK);
  ck_assert(!rejected);
  ck_assert_int_eq(tune_measure_quick(&s.meter, &s.list[2].burst, 0, &t, &rejected, NULL), ARKE_OK);
  ck_assert_int_eq(t.samples, 3); /* long runs: no more than a median takes */
  close_setup(&s);
}
END_TEST

START_TEST(a_failed_cold_run_leaks_nothing) {
  double true_ns[] = {1e3}, filled_ns[] = {1e3};
  setup s;
  open_cold(&s, true_ns, filled_ns, 1, 5);
  s.dev.fail_launch = (int)s.dev.launches + 3;
  double ns;
  arke_error err = ARKE_ERROR_INIT;
  ck_assert_int_eq(tune_burst_sample(&s.meter, &s.list[0].burst, 5, &ns, &err), ARKE_ERR_FAULT);
  ck_assert_str_eq(err.text, "planted fault");
  close_setup(&s);
}
END_TEST

START_TEST(cold_runs_need_something_to_flush_with) {
  double true_ns[] = {1e3};
  setup s;
  open_setup(&s, true_ns, 1, 5);
  tune_runnable r = {.enqueue = enqueue, .user = s.pairs[0], .n_sets = 1, .cold = true};
  ck_assert_int_eq(tune_burst_capture(&s.meter, &r, &s.list[0].burst, NULL), ARKE_ERR_INTERNAL);
  close_setup(&s);
}
END_TEST

/* --- clocks --------------------------------------------------------------------------------------------- */

START_TEST(the_power_limit_decides) {
  double true_ns[] = {100e3, 103e3}, power[] = {0.10, 1.10 / 1.03 / 1.02 - 1};
  setup s;
  open_setup(&s, true_ns, 2, (uint64_t)_i + 90);
  for (int i = 0; i < 2; i++) s.kernels[i].power = power[i];
  s.dev.drift = 0;
  cache_time quick[2];
  for (int i = 0; i < 2; i++) {
    bool rejected;
    tune_runnable r = {.enqueue = enqueue, .user = s.pairs[i], .n_sets = 3};
    ck_assert_int_eq(tune_burst_capture(&s.meter, &r, &s.list[i].burst, NULL), ARKE_OK);
    ck_assert_int_eq(tune_measure_quick(&s.meter, &s.list[i].burst, 0, &quick[i], &rejected, NULL), ARKE_OK);
  }
  ck_assert_double_gt(quick[1].median_ns, quick[0].median_ns);
  double limit_ns = 0.2 * tune_finals_default.limit_ns;
  ck_assert_int_eq(tune_burst_warm(&s.meter, &s.list[0].burst, limit_ns, NULL), ARKE_OK);
  int rounds;
  ck_assert_int_eq(hold_finals(&s, &rounds), 1);
  close_setup(&s);
}
END_TEST

START_TEST(long_runs_are_left_out_for_the_limit) {
  double true_ns[] = {100e6, 101e6, 99e6, 98e6};
  setup s;
  open_setup(&s, true_ns, 4, 11);
  s.dev.drift = 0;
  capture_all(&s);
  double before = s.meter.spent_ns;
  int rounds;
  ck_assert_int_lt(hold_finals(&s, &rounds), 2);
  ck_assert_int_gt(rounds, 0);
  ck_assert_int_eq(s.list[2].time.samples + s.list[3].time.samples, 0);
  ck_assert(!s.list[3].separated);
  ck_assert_double_lt(s.meter.spent_ns - before, tune_finals_default.limit_ns + 1.5e9);
  close_setup(&s);
}
END_TEST

START_TEST(a_clear_case_ends_early) {
  double true_ns[] = {100e3, 150e3};
  setup s;
  open_setup(&s, true_ns, 2, 3);
  capture_all(&s);
  int rounds;
  ck_assert_int_eq(hold_finals(&s, &rounds), 0);
  ck_assert_int_le(rounds, 10);
  close_setup(&s);
}
END_TEST

START_TEST(quick_rejects_only_what_cannot_win) {
  double true_ns[] = {100e3, 110e3, 160e3};
  setup s;
  open_setup(&s, true_ns, 3, 9);
  capture_all(&s);
  cache_time t;
  bool rejected;
  ck_assert_int_eq(tune_measure_quick(&s.meter, &s.list[1].burst, 100e3, &t, &rejected, NULL), ARKE_OK);
  ck_assert(!rejected); /* within what clocks may have drifted */
  ck_assert_int_ge(t.samples, 3);
  double before = s.meter.spent_ns;
  ck_assert_int_eq(tune_measure_quick(&s.meter, &s.list[2].burst, 100e3, &t, &rejected, NULL), ARKE_OK);
  ck_assert(rejected);
  ck_assert_double_lt(s.meter.spent_ns - before, 4e6);
  ck_assert_int_eq(tune_measure_quick(&s.meter, &s.list[2].burst, 0, &t, &rejected, NULL), ARKE_OK);
  ck_assert(!rejected);
  close_setup(&s);
}
END_TEST

START_TEST(warming_waits_for_steady_clocks) {
  double true_ns[] = {100e3};
  setup s;
  open_setup(&s, true_ns, 1, 5);
  capture_all(&s);
  s.dev.period_ns = 100e6; /* never steady: ends at the limit */
  double before = s.meter.spent_ns;
  ck_assert_int_eq(tune_burst_warm(&s.meter, &s.list[0].burst, 200e6, NULL), ARKE_OK);
  ck_assert_double_gt(s.meter.spent_ns - before, 20e6);
  ck_assert_double_lt(s.meter.spent_ns - before, 260e6);
  s.dev.drift = 0; /* steady: ends soon */
  before = s.meter.spent_ns;
  ck_assert_int_eq(tune_burst_warm(&s.meter, &s.list[0].burst, 200e6, NULL), ARKE_OK);
  ck_assert_double_lt(s.meter.spent_ns - before, 60e6);
  close_setup(&s);
}
END_TEST

START_TEST(a_failed_launch_leaks_nothing) {
  double true_ns[] = {1e3};
  setup s;
  open_setup(&s, true_ns, 1, 5);
  s.dev.fail_launch = 10;
  tune_runnable r = {.enqueue = enqueue, .user = s.pairs[0], .n_sets = 3};
  arke_error err = ARKE_ERROR_INIT;
  ck_assert_int_eq(tune_burst_capture(&s.meter, &r, &s.list[0].burst, &err), ARKE_ERR_FAULT);
  ck_assert_str_eq(err.text, "planted fault");
  close_setup(&s);
}
END_TEST

START_TEST(only_a_device_with_events_measures) {
  static const device_ops none = {0};
  device d = {&none};
  tune_meter m;
  arke_error err = ARKE_ERROR_INIT;
  ck_assert_int_eq(tune_meter_open(&d, 0, &m, &err), ARKE_ERR_UNSUPPORTED);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("measure");
  TCase *c = tcase_create("measure");
  tcase_set_timeout(c, 60);
  tcase_add_test(c, quantiles_interpolate);
  tcase_add_test(c, median_interval_covers);
  tcase_add_loop_test(c, finds_the_best_under_drift, 0, 20);
  tcase_add_loop_test(c, near_ties_go_to_the_simpler, 0, 10);
  tcase_add_loop_test(c, what_is_faster_by_more_wins_over_the_simpler, 0, 10);
  tcase_add_loop_test(c, what_events_and_a_launch_cost_does_not_count, 0, 5);
  tcase_add_test(c, without_an_empty_kernel_only_events_do_not_count);
  tcase_add_loop_test(c, what_lies_between_two_ticks_is_told_apart, 0, 10);
  tcase_add_loop_test(c, what_leads_back_to_back_loses_cold, 0, 10);
  tcase_add_test(c, cold_runs_each_follow_a_flush);
  tcase_add_test(c, quick_rejects_cold_runs_too);
  tcase_add_test(c, a_failed_cold_run_leaks_nothing);
  tcase_add_test(c, cold_runs_need_something_to_flush_with);
  tcase_add_loop_test(c, the_power_limit_decides, 0, 10);
  tcase_add_test(c, long_runs_are_left_out_for_the_limit);
  tcase_add_test(c, a_clear_case_ends_early);
  tcase_add_test(c, quick_rejects_only_what_cannot_win);
  tcase_add_test(c, warming_waits_for_steady_clocks);
  tcase_add_test(c, a_failed_launch_leaks_nothing);
  tcase_add_test(c, only_a_device_with_events_measures);
  suite_add_tcase(suite, c);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_NORMAL);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed != 0;
}
