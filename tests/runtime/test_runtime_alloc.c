#include "tests/runtime/runtime_fixture.h"
#include "tests/support/failing_alloc.h"

/* Open, plan, run and close once; whatever fails on the way is released. */
static arke_status whole_path(fixture_call *c, int64_t m) {
  arke_context *ctx;
  arke_plan *p = NULL;
  arke_status status =
      arke_open(&(arke_options){.cache_path = "tuned.arke", .device = ARKE_DEVICE_CUDA}, &ctx, NULL);
  fixture_call_init(c, m, 4096, 4096);
  if (status == ARKE_OK) status = arke_plan_create(ctx, "matmul", c->list, 3, NULL, 0, &p, NULL);
  if (status == ARKE_OK) status = arke_run(p, c->list, 3, NULL, NULL, NULL);
  arke_plan_destroy(p);
  arke_close(ctx);
  return status;
}

/* Loop test: an exact hit, then a neighbour. */
START_TEST(every_allocation_may_fail) {
  fixture_write("tuned.arke", &FIXTURE_MATMUL, &(fixture_entry){0}, 1);
  fixture_call c;
  for (long n = 0;; n++) {
    failing_alloc_arm(n);
    arke_status status = whole_path(&c, _i == 0 ? 4096 : 1024);
    bool failed = failing_alloc_disarm();
    ck_assert_msg(status == (failed ? ARKE_ERR_MEMORY : ARKE_OK), "allocation %ld: %s", n,
                  arke_status_name(status));
    ck_assert_int_eq(fixture_fake().fake_cuda_state()->contexts_retained, 0);
    ck_assert_int_eq(fixture_fake().fake_cuda_state()->modules, 0);
    if (!failed) break;
  }
}
END_TEST

TCase *runtime_alloc_tests(void) {
  TCase *t = tcase_create("memory");
  tcase_set_timeout(t, 60);
  tcase_add_checked_fixture(t, fixture_enter, fixture_leave);
  tcase_add_loop_test(t, every_allocation_may_fail, 0, 2);
  return t;
}
