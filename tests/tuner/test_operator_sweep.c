/* The loop over operators on a device that does not survive a fault. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "tuner/operator_sweep.h"

/* An emulated GPU of which a launch fails, and everything that is asked of it from then on. */
static struct {
  device_ops ops;
  const device_ops *sound;
  int launches_left;
} gpu;

static arke_status faulting_launch(device *d, device_kernel *k, const device_launch *l, arke_error *err) {
  if (gpu.launches_left-- > 0) return gpu.sound->launch(d, k, l, err);
  return error_set(err, ARKE_ERR_FAULT, "cuda", "an illegal instruction");
}

static arke_status lost_alloc(device *d, size_t bytes, const char *name, device_ptr *p, arke_error *err) {
  if (gpu.launches_left >= 0) return gpu.sound->mem_alloc(d, bytes, name, p, err);
  return error_set(err, ARKE_ERR_DEVICE, "cuda", "an illegal instruction was encountered");
}

static bool count(void *user, const operator_result *r) {
  int *counts = user;
  counts[r->verdict]++;
  return true;
}

START_TEST(ends_with_the_run_that_costs_the_device) {
  arke_error err = ARKE_ERROR_INIT;
  const target *t = target_find("sm_90a", NULL);
  int counts[OPERATOR_UNTAKEN + 1] = {0};
  operator_sweep s = {
      .target = t, .sm_count = 4, .only = "relu", .brief = true, .tell = count, .user = counts};
  ck_assert_msg(device_open_emulator(t->name, 0, &s.dev, &err) == ARKE_OK, "%s", err.text);
  gpu.sound = s.dev->ops;
  gpu.ops = *gpu.sound;
  gpu.ops.launch = faulting_launch;
  gpu.ops.mem_alloc = lost_alloc;
  gpu.launches_left = 3;
  s.dev->ops = &gpu.ops;
  ck_assert_int_eq(operator_sweep_run(&s, &err), ARKE_ERR_DEVICE);
  ck_assert_ptr_nonnull(strstr(err.text, "takes nothing after the last run"));
  ck_assert_int_eq(counts[OPERATOR_RIGHT], 3);
  ck_assert_int_eq(counts[OPERATOR_WRONG], 1);
  s.dev->ops = gpu.sound;
  s.dev->ops->close(s.dev);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("operator sweep");
  TCase *tests = tcase_create("devices");
  tcase_add_test(tests, ends_with_the_run_that_costs_the_device);
  suite_add_tcase(suite, tests);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_ENV);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
