#include <string.h>

#include "generator/target.h"
#include "generator_suites.h"
#include "runtime/usable_targets.h"

START_TEST(every_target_is_found_by_its_name) {
  ck_assert_int_gt(target_count(), 0);
  for (int i = 0; i < target_count(); i++) {
    const target *t = target_get(i);
    const char *nearest = "";
    ck_assert_ptr_eq(target_find(t->name, &nearest), t);
    ck_assert_ptr_null(nearest);
    ck_assert_int_gt(t->smem_per_block_bytes, 0);
    ck_assert_int_gt(t->rates.sm_count, 0);
    ck_assert_int_ge(t->max_threads_per_sm, t->max_threads_per_block);
    ck_assert_int_ge(t->max_ctas_per_sm, 1);
    ck_assert(t->rates.boost_hz >= t->rates.clock_hz && t->rates.f16_flops_per_s > 0);
    ck_assert(t->rates.dram_bytes_per_s > 0 && t->rates.l2_bytes_per_s > t->rates.dram_bytes_per_s);
    /* "+ptx86" and "8.6" are one fact in two spellings. */
    char digits[8] = {t->ptx_version[0], t->ptx_version[2], 0};
    ck_assert_ptr_nonnull(strstr(t->llvm_features, digits));
  }
}
END_TEST

START_TEST(a_misspelt_target_gets_a_suggestion) {
  const char *nearest;
  ck_assert_ptr_null(target_find("sm_90", &nearest));
  ck_assert_str_eq(nearest, "sm_90a");
  ck_assert_ptr_null(target_find("volta", &nearest));
  ck_assert_ptr_null(nearest);
  ck_assert_ptr_null(target_find("sm_90", NULL));
}
END_TEST

START_TEST(exact_targets_run_on_their_own_device_alone) {
  ck_assert_str_eq(target_for_cc(9, 0)->name, "sm_90a");
  const target *newer = target_for_cc(9, 1);
  ck_assert(!newer || !newer->exact_cc);
  const target *older = target_for_cc(7, 0);
  ck_assert_ptr_null(older);
}
END_TEST

/* Newer instructions first; the list's ranks are those that the runtime picks by. */
START_TEST(better_targets_come_first) {
  for (int i = 1; i < target_count(); i++) {
    const target *t = target_get(i), *before = target_get(i - 1);
    ck_assert_int_gt(before->cc_major * 10 + before->cc_minor, t->cc_major * 10 + t->cc_minor);
  }
}
END_TEST

/* What a GPU gets by default has no more shared memory than that GPU. */
START_TEST(every_gpu_has_a_target_that_fits_it) {
  static const struct {
    const char *device, *target;
    int major, minor;
  } gpus[] = {
      {"sm_80", "sm_80", 8, 0},    {"sm_86", "sm_86", 8, 6},    {"sm_87", "sm_86", 8, 7},
      {"sm_89", "sm_89", 8, 9},    {"sm_90a", "sm_90a", 9, 0},  {"sm_100a", "sm_100a", 10, 0},
      {"sm_103a", "sm_89", 10, 3}, {"sm_110a", "sm_89", 11, 0}, {"sm_120a", "sm_89", 12, 0},
      {"sm_121a", "sm_89", 12, 1},
  };
  for (size_t i = 0; i < COUNT_OF(gpus); i++) {
    const target *t = target_for_cc(gpus[i].major, gpus[i].minor);
    arke_error err = ARKE_ERROR_INIT;
    device *d;
    device_info info;
    ck_assert_ptr_nonnull(t);
    ck_assert_str_eq(t->name, gpus[i].target);
    ck_assert_msg(device_open_emulator(gpus[i].device, 1, &d, &err) == ARKE_OK, "%s", err.text);
    ck_assert_int_eq(d->ops->info(d, &info, &err), ARKE_OK);
    ck_assert_int_eq(info.cc_major, gpus[i].major);
    ck_assert_int_le(t->smem_per_block_bytes, info.smem_per_block_bytes);
    if (strcmp(t->name, gpus[i].device) == 0)
      ck_assert_int_eq(t->smem_per_block_bytes, info.smem_per_block_bytes);
    d->ops->close(d);
  }
}
END_TEST

/* What is generated for a GPU must be what the runtime looks for on it. */
START_TEST(the_runtime_serves_every_target) {
  for (int i = 0; i < target_count(); i++) {
    const target *t = target_get(i);
    for (int newer = 0; newer < 2; newer++) {
      device_info info = {.kind = ARKE_DEVICE_CUDA, .cc_major = t->cc_major + newer, .cc_minor = t->cc_minor};
      usable_target usable[USABLE_TARGET_COUNT];
      int n = usable_targets(&info, usable);
      bool served = false;
      for (int k = 0; k < n; k++) served = served || strcmp(usable[k].name, t->name) == 0;
      ck_assert_msg(served == (newer == 0 || !t->exact_cc), "%s on compute capability %d.%d", t->name,
                    info.cc_major, info.cc_minor);
    }
  }
}
END_TEST

TCase *target_tests(void) {
  TCase *tests = tcase_create("targets");
  tcase_add_test(tests, every_target_is_found_by_its_name);
  tcase_add_test(tests, a_misspelt_target_gets_a_suggestion);
  tcase_add_test(tests, exact_targets_run_on_their_own_device_alone);
  tcase_add_test(tests, better_targets_come_first);
  tcase_add_test(tests, every_gpu_has_a_target_that_fits_it);
  tcase_add_test(tests, the_runtime_serves_every_target);
  return tests;
}
