/* Interleaved comparisons on a device whose true times are known: ratios must be right although
 * clocks drift. */
#include <math.h>

#include "tests/cli/cli_suites.h"
#include "tests/tuner/fake_device.h"
#include "tuner/cli_contest.h"
#include "tuner/cli_power.h"

typedef struct entrant {
  device *dev;
  fake_kernel kernel;
} entrant;

static arke_status enqueue(void *user, int set, void *stream, arke_error *err) {
  (void)set;
  entrant *e = user;
  const device_launch l = {.stream = stream};
  return e->dev->ops->launch(e->dev, (device_kernel *)&e->kernel, &l, err);
}

static void enter(cli_contest *c, fake_device *d, entrant *entrants, const double *true_ns, int n) {
  c->n = n;
  for (int i = 0; i < n; i++) {
    entrants[i] = (entrant){.dev = &d->base, .kernel = {.true_ns = true_ns[i]}};
    c->list[i] = (cli_contestant){.runnable = {.enqueue = enqueue, .user = &entrants[i], .n_sets = 3}};
  }
}

START_TEST(ratios_survive_drifting_clocks) {
  static const double true_ns[] = {100000, 103000, 101000, 250000};
  fake_device d;
  tune_meter m;
  entrant entrants[4];
  cli_contest c = {0};
  cli_ratio r;
  fake_device_init(&d, 5);
  enter(&c, &d, entrants, true_ns, 4);
  ck_assert_int_eq(tune_meter_open(&d.base, 5, &m, NULL), ARKE_OK);
  ck_assert_int_eq(cli_contest_run(&c, &m, 60, NULL), ARKE_OK);
  for (int i = 1; i < 4; i++) {
    ck_assert_int_eq(cli_contest_ratio(&c, i, 0, &r, NULL), ARKE_OK);
    ck_assert_double_eq_tol(r.median, true_ns[i] / true_ns[0], 0.01);
    ck_assert(r.p10 <= r.median && r.median <= r.p90);
    ck_assert_int_eq(c.list[i].time.samples, 60);
  }
  ck_assert_int_eq(cli_contest_fastest(&c, 0), 0);
  ck_assert_int_eq(cli_contest_fastest(&c, 1), 2);
  cli_contest_release(&c);
  tune_meter_close(&m);
  ck_assert_int_eq(d.open_objects, 0);
}
END_TEST

START_TEST(cold_runs_are_compared_after_flushes) {
  static const double true_ns[] = {20000, 21000}, filled_ns[] = {25000, 24000};
  fake_device d;
  tune_meter m;
  entrant entrants[2];
  cli_contest c = {0};
  cli_ratio r;
  fake_device_init(&d, 7);
  enter(&c, &d, entrants, true_ns, 2);
  for (int i = 0; i < 2; i++) {
    entrants[i].kernel.filled_ns = filled_ns[i];
    c.list[i].runnable.cold = true;
  }
  ck_assert_int_eq(tune_meter_open(&d.base, 7, &m, NULL), ARKE_OK);
  ck_assert_int_eq(tune_meter_flush_before(&m, 100 << 20, NULL, NULL), ARKE_OK);
  ck_assert_int_eq(cli_contest_run(&c, &m, 60, NULL), ARKE_OK);
  ck_assert_int_eq(cli_contest_ratio(&c, 0, 1, &r, NULL), ARKE_OK);
  ck_assert_double_eq_tol(r.median, filled_ns[0] / filled_ns[1], 0.01);
  ck_assert_int_eq(cli_contest_fastest(&c, 0), 1);
  cli_contest_release(&c);
  tune_meter_close(&m);
  ck_assert_int_eq(d.open_objects, 0);
}
END_TEST

/* The stand-in's counter moves by 7.5 J from one reading to the next, however long a turn takes. */
START_TEST(power_is_told_of_each) {
  static const double true_ns[] = {100000, 200000};
  fake_device d;
  tune_meter m;
  entrant entrants[2];
  cli_contest c = {0};
  cli_power power[2];
  power_meter *p;
  arke_error err = ARKE_ERROR_INIT;
  fake_device_init(&d, 9);
  enter(&c, &d, entrants, true_ns, 2);
  ck_assert_msg(power_meter_open(FAKE_NVML, "0000:1b:00.0", &p, &err) == ARKE_OK, "%s", err.text);
  ck_assert_int_eq(tune_meter_open(&d.base, 9, &m, NULL), ARKE_OK);
  ck_assert_int_eq(cli_power_measure(p, &m, &c, power, &err), ARKE_OK);
  for (int i = 0; i < 2; i++) {
    ck_assert_double_eq_tol(power[i].ns, true_ns[i], 0.2 * true_ns[i]);
    ck_assert_double_eq_tol(power[i].watts, 7.5 / 0.5, 0.2 * 7.5 / 0.5);
    ck_assert_double_eq_tol(power[i].joules, power[i].watts * power[i].ns * 1e-9, 0.1 * power[i].joules);
    ck_assert_double_eq(power[i].megahertz, 1755);
  }
  d.fail_launch = 1;
  ck_assert_int_ne(cli_power_measure(p, &m, &c, power, &err), ARKE_OK);
  power_meter_close(p);
  tune_meter_close(&m);
  ck_assert_int_eq(d.open_objects, 0);
}
END_TEST

START_TEST(a_failing_launch_ends_it_cleanly) {
  static const double true_ns[] = {1000, 2000};
  for (int failing = 1; failing < 200; failing += 7) {
    fake_device d;
    tune_meter m;
    entrant entrants[2];
    cli_contest c = {0};
    fake_device_init(&d, 1);
    enter(&c, &d, entrants, true_ns, 2);
    ck_assert_int_eq(tune_meter_open(&d.base, 1, &m, NULL), ARKE_OK);
    d.fail_launch = failing;
    ck_assert_int_ne(cli_contest_run(&c, &m, 5, NULL), ARKE_OK);
    cli_contest_release(&c);
    tune_meter_close(&m);
    ck_assert_int_eq(d.open_objects, 0);
  }
}
END_TEST

TCase *cli_contest_case(void) {
  TCase *t = tcase_create("contest");
  tcase_set_timeout(t, 60);
  tcase_add_test(t, ratios_survive_drifting_clocks);
  tcase_add_test(t, cold_runs_are_compared_after_flushes);
  tcase_add_test(t, power_is_told_of_each);
  tcase_add_test(t, a_failing_launch_ends_it_cleanly);
  return t;
}
