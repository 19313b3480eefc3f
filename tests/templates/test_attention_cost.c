/* What the models of both templates for attention say of few queries, against times measured on an H200: they
 * tell the tuner which template to try first. */
#include <check.h>
#include <math.h>

#include "template_cases.h"

#define WGMMA "CONSUMERS=1,STAGES=2,TURNS=0,OVERLAP=2,HOLD_Q=1,CLUSTER=1,GROUP=1,PERSISTENT=0,"
#define WARPS "BLOCK_M=16,WARPS_M=1,HOLD_Q=1,"
#define EIGHT "BLOCK_M=8,WARPS_M=1,HOLD_Q=1,"
#define TILES "CONSUMERS=1,STAGES=2,TURNS=0,OVERLAP=2,HOLD_Q=1,CLUSTER=1,GROUP=0,PERSISTENT=0,"
#define LATENT(keys)                                                                                         \
  "CONSUMERS=2,STAGES=2,TURNS=0,OVERLAP=3,HOLD_Q=0,CLUSTER=1,PACK=1,GROUP=0,PERSISTENT=0,BLOCK_N=" #keys ","
#define STREAM WARPS "BLOCK_N=16,STAGES=6,WARPS_E=1,"

static const char grouped[] = "grouped_query_attention", latent[] = "multi_latent_attention";

/* The fastest first. Those that are slower by a tenth must be so by the model. */
static const struct {
  const char *op, *bindings;
  struct {
    const char *name, *settings;
    double us;
  } of[3];
} measured[] = {
    {grouped,
     "T=bf16 B=32 H=32 G=8 S=1 R=4096 D=128 causal=true",
     {{"attention", WGMMA "BLOCK_N=80,PACK=4,SPLIT=0", 130.5}}},
    {grouped,
     "T=bf16 B=16 H=64 G=8 S=1 R=4096 D=128 causal=true",
     {{"attention", WGMMA "BLOCK_N=112,PACK=8,SPLIT=0", 67.5}}},
    {grouped,
     "T=bf16 B=8 H=32 G=8 S=1 R=2048 D=128 causal=true",
     {{"attention",
       "CONSUMERS=1,BLOCK_N=128,STAGES=2,TURNS=0,OVERLAP=2,HOLD_Q=0,CLUSTER=1,PACK=4,GROUP=0,PERSISTENT=0,"
       "SPLIT=0",
       22.2},
      {"attend", WARPS "BLOCK_N=64,STAGES=3,WARPS_E=4,SETS=1,SPLIT=4,CLUSTER=1", 30.3}}},
    {grouped,
     "T=bf16 B=4 H=64 G=8 S=1 R=32768 D=128 causal=true",
     {{"attend", EIGHT "BLOCK_N=32,STAGES=3,WARPS_E=2,SETS=4,SPLIT=4,CLUSTER=0", 131.4},
      {"attend", STREAM "SETS=2,SPLIT=8,CLUSTER=1", 171.4},
      {"attention", WGMMA "BLOCK_N=80,PACK=4,SPLIT=0", 307.7}}},
    {grouped,
     "T=f16 B=4 H=64 G=8 S=1 R=32768 D=128 causal=true",
     {{"attention", TILES "BLOCK_N=128,PACK=8,SPLIT=1", 135.9}}},
    {grouped,
     "T=f16 B=1 H=32 G=4 S=1 R=16384 D=128 causal=true",
     {{"attend", EIGHT "BLOCK_N=64,STAGES=3,WARPS_E=2,SETS=2,SPLIT=32,CLUSTER=0", 14.66},
      {"attention", TILES "BLOCK_N=128,PACK=8,SPLIT=1", 15.23}}},
    {grouped,
     "T=f16 B=1 H=32 G=4 S=1 R=8192 D=128 causal=true",
     {{"attend", EIGHT "BLOCK_N=32,STAGES=3,WARPS_E=2,SETS=2,SPLIT=64,CLUSTER=0", 10.43},
      {"attention", TILES "BLOCK_N=128,PACK=8,SPLIT=1", 11.90}}},
    {grouped,
     "T=f16 B=32 H=32 G=8 S=1 R=4096 D=128 causal=true softcap=50",
     {{"attend", EIGHT "BLOCK_N=32,STAGES=3,WARPS_E=2,SETS=2,SPLIT=1,CLUSTER=0", 131.0},
      {"attention", WGMMA "BLOCK_N=80,PACK=4,SPLIT=0", 138.8}}},
    {grouped,
     "T=bf16 B=1 H=8 G=1 S=1 R=8192 D=256 causal=true",
     {{"attend", WARPS "BLOCK_N=32,STAGES=3,WARPS_E=2,SETS=2,SPLIT=64,CLUSTER=0", 8.71}}},
    {grouped,
     "T=bf16 B=16 H=8 G=1 S=1 R=8192 D=256 causal=true",
     {{"attend", EIGHT "BLOCK_N=32,STAGES=3,WARPS_E=2,SETS=2,SPLIT=8,CLUSTER=0", 37.0},
      {"attend", WARPS "BLOCK_N=32,STAGES=3,WARPS_E=2,SETS=2,SPLIT=8,CLUSTER=1", 56.1},
      {"attention",
       "CONSUMERS=1,BLOCK_N=96,STAGES=2,TURNS=0,OVERLAP=2,HOLD_Q=0,CLUSTER=2,PACK=4,GROUP=0,PERSISTENT=0,"
       "SPLIT=0",
       105.1}}},
    {grouped,
     "T=f16 B=1 H=32 G=4 S=1 R=262144 D=128 causal=true",
     {{"attend", WARPS "BLOCK_N=64,STAGES=3,WARPS_E=2,SETS=2,SPLIT=32,CLUSTER=0", 135.7},
      {"attend", WARPS "BLOCK_N=64,STAGES=3,WARPS_E=2,SETS=1,SPLIT=8,CLUSTER=1", 483.4},
      {"attention", WGMMA "BLOCK_N=80,PACK=4,SPLIT=0", 2398.8}}},
    /* Runs of latent keys: what CTAs leave in the workspace, or add up in a cluster. */
    {latent,
     "T=bf16 B=6 H=64 S=1 R=4096 C=512 E=64",
     {{"attention", LATENT(64) "SPLIT=1,MERGE=4", 22.9},
      {"attention", LATENT(64) "SPLIT=1,MERGE=2", 25.1},
      {"attention", LATENT(64) "SPLIT=1,MERGE=1", 29.8}}},
    {latent,
     "T=bf16 B=32 H=128 S=1 R=4096 C=512 E=64",
     {{"attention", LATENT(64) "SPLIT=0,MERGE=2", 71.2}, {"attention", LATENT(64) "SPLIT=1,MERGE=1", 75.2}}},
    {latent,
     "T=bf16 B=16 H=128 S=1 R=4096 C=512 E=64",
     {{"attention", LATENT(64) "SPLIT=1,MERGE=1", 46.0},
      {"attention", LATENT(64) "SPLIT=1,MERGE=2", 48.0},
      {"attention", LATENT(64) "SPLIT=0,MERGE=2", 66.0}}},
    {latent,
     "T=bf16 B=32 H=128 S=1 R=4096 C=512 E=64",
     {{"attention", LATENT(64) "SPLIT=0,MERGE=2", 71.2}, {"attention", LATENT(32) "SPLIT=0,MERGE=2", 93.3}}},
};

START_TEST(few_queries_are_priced_as_measured) {
  arena a = ARENA_INIT;
  double before = 0, before_us = 0;
  for (int i = 0; i < 3 && measured[_i].of[i].name; i++) {
    const char *settings = measured[_i].of[i].settings;
    double us = measured[_i].of[i].us;
    template_case c = template_case_bind(&a, template_find(measured[_i].of[i].name),
                                         template_text_of(measured[_i].op), measured[_i].bindings, settings);
    double modelled = template_cost_ns(c.k, &c.p, c.t, &c.t->rates, &c.c) / 1e3;
    ck_assert_msg(fabs(modelled / us - 1) < 0.2, "%s: %.1f us modelled, %.1f measured", settings, modelled,
                  us);
    ck_assert_msg(us < 1.1 * before_us || modelled > before, "%s: %.1f us modelled, but %.1f of a faster one",
                  settings, modelled, before);
    before = modelled;
    before_us = us;
  }
  arena_release(&a);
}
END_TEST

/* A soft cap costs what its instructions do, in either template. */
START_TEST(scores_that_are_expressions_cost_more) {
  static const char *const names[] = {"attention", "attend"};
  arena a = ARENA_INIT;
  double us[2];
  for (int i = 0; i < 2; i++) {
    const char *const bindings[] = {"T=bf16 B=2 H=8 G=8 S=2048 R=2048 D=64",
                                    "T=bf16 B=2 H=8 G=8 S=2048 R=2048 D=64 softcap=30"};
    template_case c =
        template_case_bind(&a, template_find(names[_i]), template_text_of(grouped), bindings[i], "");
    us[i] = template_cost_ns(c.k, &c.p, c.t, &c.t->rates, &c.c) / 1e3;
  }
  ck_assert_msg(us[1] > 1.05 * us[0], "%.1f and %.1f us", us[0], us[1]);
  arena_release(&a);
}
END_TEST

/* Steps that are no page are copied in many small boxes: of pages of 64 keys an H200 took 10.2 ms by steps of
 * 64, and 15.8 by steps of 80, which are the faster ones of keys that lie together. */
START_TEST(small_boxes_of_pages_cost_more) {
  static const char *const settings[] = {
      "CONSUMERS=2,BLOCK_N=64,STAGES=2,TURNS=0,OVERLAP=2,HOLD_Q=0,CLUSTER=1,PACK=4,GROUP=4,PERSISTENT=1",
      "CONSUMERS=2,BLOCK_N=80,STAGES=2,TURNS=0,OVERLAP=2,HOLD_Q=0,CLUSTER=1,PACK=4,GROUP=4,PERSISTENT=1"};
  arena a = ARENA_INIT;
  double ms[2];
  for (int i = 0; i < 2; i++) {
    template_case c = template_case_bind(
        &a, template_find("attention"), template_text_of("paged_varlen_attention"),
        "T=f16 N=8192 H=32 G=8 D=256 E=256 P=4224 Z=64 B=8 W=528 causal=true", settings[i]);
    ms[i] = template_cost_ns(c.k, &c.p, c.t, &c.t->rates, &c.c) / 1e6;
  }
  ck_assert_msg(ms[1] > 1.1 * ms[0], "%.1f and %.1f ms", ms[0], ms[1]);
  arena_release(&a);
}
END_TEST

int main(void) {
  TCase *tests = template_tests("attention_cost");
  tcase_add_loop_test(tests, few_queries_are_priced_as_measured, 0, (int)COUNT_OF(measured));
  tcase_add_test(tests, small_boxes_of_pages_cost_more);
  tcase_add_loop_test(tests, scores_that_are_expressions_cost_more, 0, 2);
  return template_tests_run("attention_cost", tests);
}
