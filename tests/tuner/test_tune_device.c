/* What a device worker is given of a candidate: what its GPU can load. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "tests/tuner/bound_problem.h"
#include "tuner/tune_run.h"
#include "tuner/tune_session.h"

static const struct {
  const char *target;
  int major; /* of the GPU */
  tune_device_kind kind;
  bool cubin, is_ptx;
} images[] = {
    {"sm_90a", 9, TUNE_DEVICE_CUDA, true, false}, {"sm_80", 9, TUNE_DEVICE_CUDA, true, true},
    {"sm_89", 12, TUNE_DEVICE_CUDA, true, true},  {"sm_80", 8, TUNE_DEVICE_CUDA, true, false},
    {"sm_90a", 9, TUNE_DEVICE_CUDA, false, true}, {"sm_90a", 9, TUNE_DEVICE_EMULATOR, true, true},
};

/* A cubin is of one major version; the driver makes what it needs of PTX. */
START_TEST(cubins_go_to_gpus_of_their_major_version) {
  static char cubin[] = "cubin", ptx[] = "ptx", rules[] = "{}";
  tune_session session = {.kind = images[_i].kind,
                          .target = target_find(images[_i].target, NULL),
                          .info = {.cc_major = images[_i].major}};
  arena a = ARENA_INIT;
  ir_problem p;
  bind_problem(&a, "f(X: T[N]) -> (Y: T[N]) { Y[n] = X[n] }", "T=f32 N=8", &p);
  tune_run run = {.session = &session, .problem = &p};
  tune_trial t = {.run = &run, .ptx = {ptx, sizeof ptx - 1}, .recipe = {rules, sizeof rules - 1}};
  if (images[_i].cubin) t.cubin = (tune_blob){cubin, sizeof cubin - 1};
  tune_message m = {.body = json_object()};
  json_t *item = json_object();
  ck_assert(tune_device_add_kernel(&t, &m, item));
  const tune_blob *sent = &m.blobs[json_integer_value(json_object_get(item, "image"))];
  const char *expected = images[_i].is_ptx ? ptx : cubin;
  ck_assert_int_eq(json_is_true(json_object_get(item, "is_ptx")), images[_i].is_ptx);
  ck_assert_uint_eq(sent->bytes, strlen(expected));
  ck_assert_mem_eq(sent->data, expected, sent->bytes);
  json_decref(item);
  tune_message_release(&m);
  arena_release(&a);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("tune device");
  TCase *tests = tcase_create("images");
  tcase_add_loop_test(tests, cubins_go_to_gpus_of_their_major_version, 0, (int)COUNT_OF(images));
  suite_add_tcase(suite, tests);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_ENV);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
