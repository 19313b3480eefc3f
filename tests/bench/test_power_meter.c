#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "bench/power_meter.h"
#include "tests/support/failing_alloc.h"

START_TEST(energy_is_counted) {
  power_meter *m;
  arke_error err = ARKE_ERROR_INIT;
  double first, second, megahertz;
  for (int again = 0; again < 2; again++) { /* closing lets the next one open */
    ck_assert_msg(power_meter_open(FAKE_NVML, "0000:1b:00.0", &m, &err) == ARKE_OK, "%s", err.text);
    ck_assert_int_eq(power_meter_read(m, &first, &megahertz, &err), ARKE_OK);
    ck_assert_int_eq(power_meter_read(m, &second, &megahertz, &err), ARKE_OK);
    ck_assert_double_eq_tol(second - first, 7.5, 1e-9);
    ck_assert_double_eq(megahertz, 1755);
    power_meter_close(m);
  }
}
END_TEST

START_TEST(what_is_missing_is_told) {
  static const struct {
    const char *library, *bus, *says;
    arke_status status;
  } cases[] = {
      {"/nowhere/libnvidia-ml.so.1", "0000:1b:00.0", "there is no management library", ARKE_ERR_NOT_FOUND},
      {"libm.so.6", "0000:1b:00.0", "no function nvmlInit_v2", ARKE_ERR_UNSUPPORTED},
      {FAKE_NVML, "0000:99:00.0", "nvmlDeviceGetHandleByPciBusId_v2: Not Found", ARKE_ERR_UNSUPPORTED},
  };
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    power_meter *m = (power_meter *)&i;
    arke_error err = ARKE_ERROR_INIT;
    ck_assert_int_eq(power_meter_open(cases[i].library, cases[i].bus, &m, &err), cases[i].status);
    ck_assert_msg(strstr(err.text, cases[i].says) != NULL, "%s", err.text);
    ck_assert_ptr_null(m);
  }
  power_meter_close(NULL);
}
END_TEST

START_TEST(out_of_memory_is_reported) {
  power_meter *m;
  arke_error err = ARKE_ERROR_INIT;
  failing_alloc_arm(0);
  arke_status status = power_meter_open(FAKE_NVML, "0000:1b:00.0", &m, &err);
  ck_assert(failing_alloc_disarm());
  ck_assert_int_eq(status, ARKE_ERR_MEMORY);
  ck_assert_ptr_null(m);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("power meter");
  TCase *tests = tcase_create("power meter");
  tcase_add_test(tests, energy_is_counted);
  tcase_add_test(tests, what_is_missing_is_told);
  tcase_add_test(tests, out_of_memory_is_reported);
  suite_add_tcase(suite, tests);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_ENV);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
