/* Configurations of a contest, compiled by workers: more of them than workers, and each its own answer. */
#include <stdio.h>
#include <string.h>

#include "tests/cli/cli_suites.h"
#include "tuner/cli_bench_parts.h"

START_TEST(every_configuration_has_its_answer) {
  static const char *const texts[] = {"transpose:THREADS=64", "map:VECTOR=2,COLUMNS=64,THREADS=64",
                                      "map:THREADS=7",        "map:VECTOR=2,COLUMNS=128,THREADS=128",
                                      "NO_SUCH_PARAMETER=1",  "map:THREADS=1024"};
  static const bool right[] = {false, true, false, true, false, true};
  enum { N = COUNT_OF(texts) };
  arena a = ARENA_INIT;
  arke_error err = ARKE_ERROR_INIT;
  cli_operator o;
  cli_problem p = {.spec = &o, .attrs = "", .bucket = ""};
  cli_settings s = {.tune = {.jobs = 2}};
  bench b = {.settings = &s, .memory = &a, .target = target_find("sm_90a", NULL)};
  tune_candidates candidates;
  cli_image images[N] = {{0}};
  ck_assert_int_eq(
      cli_operator_defined(&a, "twice(X: T[M,N]) -> (Y: T[M,N]) { Y[m,n] = X[m,n] * 2.0 }", &o, &err),
      ARKE_OK);
  ck_assert_msg(ir_problem_bind(o.op, "T=f32 M=64 N=32", &p.problem, &err) == ARKE_OK, "%s", err.text);
  ck_assert_int_eq(cli_candidates(&p.problem, b.target, NULL, &candidates, &err), ARKE_OK);
  for (int i = 0; i < N; i++) images[i].text = texts[i];
  ck_assert_msg(cli_bench_images(&b, &p, &candidates, images, N, &err) == ARKE_OK, "%s", err.text);
  for (int i = 0; i < N; i++) {
    const json_t *body = images[i].answer.body;
    ck_assert_msg((images[i].failure.code == ARKE_OK) == right[i], "%s: %s", texts[i],
                  images[i].failure.text);
    ck_assert_int_eq(body != NULL, right[i]);
    if (!right[i]) continue;
    int64_t ptx = tune_message_integer(body, "ptx", -1), text = tune_message_integer(body, "recipe", -1);
    ck_assert(ptx >= 0 && text >= 0);
    ck_assert(strstr(images[i].answer.blobs[ptx].data, ".entry") != NULL);
    char threads[16]; /* of this configuration, not a neighbour's */
    snprintf(threads, sizeof threads, "%s", strrchr(texts[i], '=') + 1);
    ck_assert_msg(strstr(images[i].answer.blobs[ptx].data, threads) != NULL, "%s", texts[i]);
    tune_message_release(&images[i].answer);
  }
  tune_candidates_release(&candidates);
  arena_release(&a);
}
END_TEST

TCase *cli_images_case(void) {
  TCase *t = tcase_create("images");
  tcase_set_timeout(t, 120);
  tcase_add_test(t, every_configuration_has_its_answer);
  return t;
}
