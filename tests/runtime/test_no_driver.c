#include <check.h>
#include <dlfcn.h>
#include <string.h>

#include "runtime/device.h"

/* This program does not see the fake driver: what it finds is the machine's own, if there is one. */
START_TEST(a_missing_driver_is_an_error_with_a_reason) {
  arke_error err = ARKE_ERROR_INIT;
  device *d;
  void *driver = dlopen("libcuda.so.1", RTLD_NOW);
  arke_status status = device_open_cuda(0, &d, &err);
  if (driver == NULL) {
    ck_assert_int_eq(status, ARKE_ERR_DEVICE);
    ck_assert_msg(strstr(err.text, "no NVIDIA driver: libcuda.so.1") != NULL, "%s", err.text);
    ck_assert_ptr_null(d);
  } else if (status == ARKE_OK) {
    device_info info;
    ck_assert_int_eq(d->ops->info(d, &info, &err), ARKE_OK);
    ck_assert_int_gt(info.sm_count, 0);
    d->ops->close(d);
  } else {
    ck_assert_int_ne(err.text[0], '\0'); /* a driver without a usable GPU */
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("no driver");
  TCase *t = tcase_create("no driver");
  tcase_set_timeout(t, 60);
  tcase_add_test(t, a_missing_driver_is_an_error_with_a_reason);
  suite_add_tcase(suite, t);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_NORMAL);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed == 0 ? 0 : 1;
}
