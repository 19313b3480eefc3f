/* Attention to keys that each query names, on the emulator against the fp64 reference. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "template_cases.h"
#include "templates/attention.h"

static const kernel_template *attention(void) {
  return template_find("attention");
}

/* Numbers that queries give; those of 60 and more name no key. */
static const double named[] = {3, 17, 59, 60, 0, 41, 8, 1000000, 22, 35, 50, 59, 2, 61, 11, 29, 33},
                    none[] = {60, 2147483647};

static const struct {
  const char *op, *bindings, *settings;
  template_input input;
} gathered[] = {
    {"sparse_latent_attention",
     "T=bf16 B=2 S=3 H=20 R=60 C=64 E=16 N=75 causal=true first=40",
     "CONSUMERS=1,BLOCK_N=32,STAGES=2,TURNS=0,OVERLAP=1",
     {"idx", TEMPLATE_VALUES(named)}},
    {"sparse_latent_attention",
     "T=f16 B=1 S=2 H=66 R=60 C=384 E=64 N=50",
     "CONSUMERS=2,BLOCK_N=32,STAGES=2,TURNS=1,OVERLAP=0,PERSISTENT=1,GROUP=1",
     {"idx", TEMPLATE_VALUES(named)}},
    {"sparse_latent_attention",
     "T=bf16 B=1 S=1 H=3 R=60 C=64 E=64 N=90",
     "CONSUMERS=1,BLOCK_N=32,STAGES=2,TURNS=0,OVERLAP=2,SPLIT=2",
     {"idx", TEMPLATE_VALUES(named)}},
    {"sparse_latent_attention",
     "T=bf16 B=1 S=2 H=3 R=60 C=64 E=64 N=90",
     "CONSUMERS=1,BLOCK_N=32,STAGES=2,TURNS=0,OVERLAP=1,MERGE=2",
     {"idx", TEMPLATE_VALUES(named)}},
    /* Groups that exchange weights: an even and an odd number of steps. */
    {"sparse_latent_attention",
     "T=bf16 B=1 S=2 H=66 R=60 C=384 E=64 N=100",
     "CONSUMERS=2,BLOCK_N=32,STAGES=3,TURNS=0,OVERLAP=3,PERSISTENT=1,GROUP=1",
     {"idx", TEMPLATE_VALUES(named)}},
    {"sparse_shared_attention",
     "T=f16 B=1 S=2 H=9 R=60 D=384 N=90 causal=true first=40",
     "CONSUMERS=2,BLOCK_N=32,STAGES=2,TURNS=0,OVERLAP=3",
     {"idx", TEMPLATE_VALUES(named)}},
    {"sparse_attention",
     "T=bf16 B=1 S=3 H=70 R=60 D=72 E=128 N=40 causal=true",
     "CONSUMERS=2,BLOCK_N=48,STAGES=2,TURNS=1,OVERLAP=1,HOLD_Q=1",
     {"idx", TEMPLATE_VALUES(named)}},
    {"sparse_attention",
     "T=f16 B=2 S=2 H=5 R=60 D=64 E=40 N=33",
     "CONSUMERS=1,BLOCK_N=64,STAGES=1,TURNS=0,OVERLAP=0,PERSISTENT=1",
     {"idx", TEMPLATE_VALUES(none)}},
};

START_TEST(gathered_keys_are_right) {
  arena a = ARENA_INIT;
  run_view views[LIMIT_TENSORS] = {{0}};
  template_case c = template_case_bind(&a, attention(), template_text_of(gathered[_i].op),
                                       gathered[_i].bindings, gathered[_i].settings);
  template_fill_views(&c.p, &gathered[_i].input, 1, views);
  template_case_run(&a, &c, views, 0);
  arena_release(&a);
}
END_TEST

/* Rows that no query names are NaN. */
START_TEST(keys_that_nobody_names_do_not_matter) {
  static double rows[60 * 64];
  arena a = ARENA_INIT;
  run_view views[LIMIT_TENSORS] = {{0}};
  template_case c = template_case_bind(&a, attention(), template_text_of("sparse_latent_attention"),
                                       "T=bf16 B=1 S=2 H=4 R=60 C=64 E=64 N=70",
                                       "CONSUMERS=1,BLOCK_N=32,STAGES=2,TURNS=0,OVERLAP=1");
  for (int i = 0; i < 60 * 64; i++) rows[i] = NAN;
  for (size_t n = 0; n < COUNT_OF(named); n++)
    for (int i = 0; i < 64 && named[n] < 60; i++)
      rows[(int)named[n] * 64 + i] = random_normal(11, (uint64_t)(n * 64 + (size_t)i));
  template_fill_views(&c.p,
                      (const template_input[]){{"idx", TEMPLATE_VALUES(named)},
                                               {"KV", TEMPLATE_VALUES(rows)},
                                               {"Kr", TEMPLATE_VALUES(rows)}},
                      3, views);
  template_case_run(&a, &c, views, 0);
  arena_release(&a);
}
END_TEST

/* The producer's fence is the consumers', and the lists go back when all warps have read them. */
START_TEST(missing_waits_for_gathered_keys_are_found) {
  static const char *const lines[] = {"fence.proxy.async", "bar.sync", "cp.async.mbarrier.arrive"};
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, attention(), template_text_of("sparse_latent_attention"),
                                       "T=bf16 B=1 S=2 H=4 R=60 C=64 E=64 N=170",
                                       "CONSUMERS=1,BLOCK_N=32,STAGES=2,TURNS=0,OVERLAP=1");
  template_case_miss(&a, &c, lines[_i]);
  arena_release(&a);
}
END_TEST

START_TEST(missing_waits_of_exchanges_are_found) {
  static const char *const lines[] = {"fence.proxy.async", "bar.arrive", "wgmma.wait_group"};
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, attention(), template_text_of("sparse_shared_attention"),
                                       "T=bf16 B=1 S=1 H=4 R=60 D=384 N=140",
                                       "CONSUMERS=2,BLOCK_N=32,STAGES=2,TURNS=0,OVERLAP=3");
  template_case_miss(&a, &c, lines[_i]);
  arena_release(&a);
}
END_TEST

/* Rows are copied as long as they were: shorter ones would bring what follows them. */
START_TEST(shorter_rows_are_refused) {
  static const char settings[] = "CONSUMERS=1,BLOCK_N=32,STAGES=2,TURNS=0,OVERLAP=1";
  arena a = ARENA_INIT;
  arke_error err = ARKE_ERROR_INIT;
  device *d;
  const char *text = template_text_of("sparse_attention");
  template_case made =
      template_case_bind(&a, attention(), text, "T=bf16 B=1 S=1 H=3 R=60 D=128 E=64 N=40", settings);
  template_case shorter =
      template_case_bind(&a, attention(), text, "T=bf16 B=1 S=1 H=3 R=60 D=72 E=64 N=40", settings);
  lowered l = template_case_lower(&a, &made);
  ck_assert_int_eq(device_open_emulator("sm_90a", 1, &d, &err), ARKE_OK);
  run_views_result r = run_views(d, &shorter.p, &l, 2, NULL, 7, 100);
  ck_assert_int_ne(r.status, ARKE_OK);
  ck_assert_msg(strstr(r.err.text, "heads of another size"), "%s", r.err.text);
  d->ops->close(d);
  arena_release(&a);
}
END_TEST

int main(void) {
  TCase *tests = template_tests("attention_gather");
  tcase_add_loop_test(tests, gathered_keys_are_right, 0, (int)COUNT_OF(gathered));
  tcase_add_test(tests, keys_that_nobody_names_do_not_matter);
  tcase_add_test(tests, shorter_rows_are_refused);
  tcase_add_loop_test(tests, missing_waits_for_gathered_keys_are_found, 0, 3);
  tcase_add_loop_test(tests, missing_waits_of_exchanges_are_found, 0, 3);
  return template_tests_run("attention_gather", tests);
}
