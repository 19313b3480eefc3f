#include <string.h>

#include "gemm_classes.h"
#include "templates/gemm.h"
#include "templates_suites.h"
#include "tests/support/thinned.h"

static const gemm_class base = {GEMM_NN, "bf16", ""};

static template_reason reason_of(const char *text, int64_t m, int64_t n, int64_t k) {
  arena a = ARENA_INIT;
  gemm_class g = base;
  g.config = text;
  gemm_setup s = gemm_class_bind(&a, &g, m, n, k);
  template_reason r = template_feasible(s.gemm, &s.p, s.t, &s.c);
  arena_release(&a);
  return r;
}

/* Defaults of a class: 64x64x64, 3 stages, one consumer, persistent. */
static const struct {
  const char *config;
  int64_t m, n;
  template_reason reason;
} points[] = {
    {"", 4096, 4096, TEMPLATE_OK},
    {"BLOCK_M=128,BLOCK_N=256,CONSUMERS=2,STAGES=4", 4096, 4096, TEMPLATE_OK},
    {"BLOCK_M=128,BLOCK_N=256,CONSUMERS=2,STAGES=5", 4096, 4096, TEMPLATE_SHARED_MEMORY},
    {"BLOCK_M=256,BLOCK_N=256,CONSUMERS=2,STAGES=2", 4096, 4096, TEMPLATE_REGISTERS},
    {"BLOCK_M=256,BLOCK_N=192,CONSUMERS=2,STAGES=3", 4096, 4096, TEMPLATE_OK},
    {"BLOCK_M=128,BLOCK_N=256", 4096, 4096, TEMPLATE_REGISTERS},
    {"BLOCK_M=128,BLOCK_N=192", 4096, 4096, TEMPLATE_OK},
    {"BLOCK_M=64,CONSUMERS=2", 4096, 4096, TEMPLATE_TILE},
    {"BLOCK_M=192,CONSUMERS=2", 4096, 4096, TEMPLATE_TILE},
    {"SCHEDULE=1", 4096, 4096, TEMPLATE_SCHEDULE},
    {"SCHEDULE=1,CONSUMERS=2", 4096, 4096, TEMPLATE_OK},
    {"SCHEDULE=1,CONSUMERS=2,PERSISTENT=0", 4096, 4096, TEMPLATE_SCHEDULE},
    {"SCHEDULE=2,PERSISTENT=0", 4096, 4096, TEMPLATE_SCHEDULE},
    {"SCHEDULE=2,BLOCK_M=128,BLOCK_N=192", 4096, 4096, TEMPLATE_REGISTERS},
    {"CLUSTER_M=2,CLUSTER_N=2", 4096, 4096, TEMPLATE_CLUSTER},
    {"CLUSTER_M=2", 64, 4096, TEMPLATE_CLUSTER},
    {"CLUSTER_M=2", 65, 40960, TEMPLATE_OK},
    {"CLUSTER_N=2", 4096, 64, TEMPLATE_CLUSTER},
    {"PERSISTENT=1", 64, 16384, TEMPLATE_OK},
    {"PERSISTENT=1", 64, 4096, TEMPLATE_REDUNDANT},
    {"PERSISTENT=0", 64, 4096, TEMPLATE_OK},
    {"GROUP=4,PERSISTENT=0", 64, 4096, TEMPLATE_REDUNDANT},
    {"RASTER=1,PERSISTENT=0", 64, 4096, TEMPLATE_REDUNDANT},
    {"GROUP=2,PERSISTENT=0", 128, 4096, TEMPLATE_REDUNDANT},
    {"GROUP=2,PERSISTENT=0", 129, 4096, TEMPLATE_OK},
    {"", 1000000000, 1000000000, TEMPLATE_SIZE},
    {"STREAM_K=1", 4096, 4096, TEMPLATE_OK},
    {"STREAM_K=1", 64, 4096, TEMPLATE_OK},
    {"STREAM_K=1", 64 * 11, 64 * 12, TEMPLATE_REDUNDANT},
    {"STREAM_K=1,CLUSTER_M=2", 128 * 11, 64 * 12, TEMPLATE_REDUNDANT},
    {"STREAM_K=1,PERSISTENT=0", 4096, 4096, TEMPLATE_SCHEDULE},
    {"STREAM_K=1,SCHEDULE=1,CONSUMERS=2", 4096, 4096, TEMPLATE_SCHEDULE},
    {"STREAM_K=2", 4096, 4096, TEMPLATE_SCHEDULE},
    {"STREAM_K=2,PERSISTENT=0", 4096, 4096, TEMPLATE_OK},
    {"STREAM_K=2,PERSISTENT=0,BLOCK_N=152", 4096, 4096, TEMPLATE_TILE},
    {"STREAM_K=2,PERSISTENT=0,CLUSTER_M=2", 4096, 4096, TEMPLATE_CLUSTER},
    {"EVEN=1,BLOCK_N=96", 4096, 4096, TEMPLATE_OK},
    {"EVEN=1,BLOCK_N=96,SCHEDULE=1,CONSUMERS=2", 4096, 4096, TEMPLATE_OK},
    {"EVEN=1", 4096, 4096, TEMPLATE_OK},
    {"EVEN=1,BLOCK_N=32", 4096, 4096, TEMPLATE_TILE},
    {"EVEN=1,BLOCK_N=96,PERSISTENT=0", 4096, 4096, TEMPLATE_SCHEDULE},
    {"EVEN=1,BLOCK_N=96,STREAM_K=1", 4096, 4096, TEMPLATE_SCHEDULE},
    {"EVEN=1,BLOCK_N=96,SCHEDULE=2", 4096, 4096, TEMPLATE_SCHEDULE},
    {"EVEN=1,BLOCK_N=96,CLUSTER_M=2", 4096, 4096, TEMPLATE_CLUSTER},
    {"EVEN=1,BLOCK_N=96", 64 * 22, 96 * 12, TEMPLATE_REDUNDANT},
    {"EVEN=1,BLOCK_N=96", 64 * 22, 96 * 12 - 8, TEMPLATE_OK},
    /* Fewer tiles than SMs: 2 rows of 11 become 2 of 14, 11 rows of 12 have no SM left. */
    {"EVEN=1,BLOCK_N=96", 128, 96 * 11, TEMPLATE_OK},
    {"EVEN=1,BLOCK_N=96", 128, 80, TEMPLATE_REDUNDANT},
    {"EVEN=1,BLOCK_N=96", 64 * 11, 96 * 12 - 8, TEMPLATE_REDUNDANT},
    {"EVEN=1,BLOCK_N=96,SCHEDULE=1,CONSUMERS=2", 128, 96 * 11, TEMPLATE_REDUNDANT},
    {"SWAP=1,CLUSTER_M=2", 4096, 64, TEMPLATE_CLUSTER},
    {"SWAP=1,CLUSTER_N=2", 16384, 64, TEMPLATE_OK},
    {"BLOCK_N=168,CLUSTER_N=2", 4096, 4096, TEMPLATE_OK},
    {"BLOCK_M=128,BLOCK_N=192,CONSUMERS=2,SCHEDULE=1,STAGES=5", 4096, 4096, TEMPLATE_OK},
    {"BLOCK_M=128,BLOCK_N=192,CONSUMERS=2,SCHEDULE=1,STAGES=6", 4096, 4096, TEMPLATE_SHARED_MEMORY},
};

START_TEST(infeasible_points_have_their_reason) {
  ck_assert_int_eq(reason_of(points[_i].config, points[_i].m, points[_i].n, 512), points[_i].reason);
}
END_TEST

/* Every feasible point keeps the hardware's limits, and every reason is met somewhere. */
START_TEST(plans_keep_the_limits) {
  RUN_EACH_WITH_SANITIZERS(4, _i);
  arena a = ARENA_INIT;
  gemm_setup s = gemm_class_bind(&a, &(gemm_class){_i, "bf16", ""}, 4096, 4096, 4096);
  const space *all = s.gemm->space(s.t);
  int met[TEMPLATE_REASON_COUNT] = {0};
  contraction matched;
  gemm_match match;
  const void *prepared = s.gemm->prepare(&s.p, s.t, &a);
  ck_assert_ptr_nonnull(prepared);
  ck_assert_int_eq(gemm_fit(&s.p, s.t, &a, &matched, &match, NULL), TEMPLATE_OK);
  for (int64_t i = 0; i < space_size(all); i += 29) {
    config c;
    gemm_plan plan;
    double ns;
    space_point(all, i, &c);
    met[s.gemm->judge(prepared, s.t, &s.t->rates, &c, &ns)]++;
    if (gemm_plan_make(&match, s.t, &c, &plan) != TEMPLATE_OK) continue;
    ck_assert_int_le(plan.smem_bytes + 1024, s.t->smem_per_block_bytes);
    ck_assert_int_le(plan.threads, s.t->max_threads_per_block);
    ck_assert_int_ge(plan.store_buffers, 1);
    ck_assert_int_le(plan.store_buffers, plan.panels);
    ck_assert_int_eq(gemm_panel_column(&plan, plan.block_n, 0), 0);
    ck_assert_int_eq(gemm_panel_column(&plan, plan.finish_n, plan.panels - 1) + plan.panel_n, plan.finish_n);
    ck_assert_int_lt(plan.panels * plan.panel_n - plan.finish_n, plan.panel_n);
    ck_assert_int_eq(plan.store_width * plan.store_height *
                         (plan.match.y_transposed ? plan.group_rows / 64 : 1) * 2,
                     plan.store_buffer_bytes);
    ck_assert_int_eq(plan.store_width * 2, (int)plan.store_swizzle);
    ck_assert_int_le(plan.accumulators, GEN_WGMMA_MAX_ACCUMULATORS);
    ck_assert_int_eq(plan.a.bytes, plan.block_m * plan.block_k * 2);
    ck_assert_int_ge(plan.b.bytes, plan.block_n * plan.block_k * 2);
    ck_assert_int_lt(plan.b.bytes, (plan.block_n + plan.b.panel_width) * plan.block_k * 2);
    const gemm_operand *operands[] = {&plan.a, &plan.b};
    for (int o = 0; o < 2; o++) {
      /* A copy's box has at most 256 rows; swizzled panels and their shares start at whole patterns. */
      ck_assert_int_le(operands[o]->panel_height / operands[o]->shares, 256);
      ck_assert_int_eq(operands[o]->panel_width * 2, (int)operands[o]->swizzle);
      ck_assert_int_eq(operands[o]->panel_bytes / operands[o]->shares % (8 * (int)operands[o]->swizzle), 0);
    }
    ck_assert_int_eq(plan.stage_bytes % 1024, 0);
    ck_assert_int_eq(plan.store_buffer_bytes % 1024, 0);
  }
  int expected[] = {TEMPLATE_OK,   TEMPLATE_SHARED_MEMORY, TEMPLATE_REGISTERS,
                    TEMPLATE_TILE, TEMPLATE_CLUSTER,       TEMPLATE_SCHEDULE};
  for (size_t i = 0; i < COUNT_OF(expected); i++) ck_assert_int_gt(met[expected[i]], 0);
  arena_release(&a);
}
END_TEST

START_TEST(classes_and_their_reduced_problems_are_feasible) {
  arena a = ARENA_INIT;
  enum { SMS = 4 };
  const gemm_class *g = gemm_class_get(_i);
  gemm_setup s = gemm_class_bind(&a, g, 4096, 4096, 4096);
  ck_assert_int_eq(template_feasible(s.gemm, &s.p, s.t, &s.c), TEMPLATE_OK);
  ir_problem reduced;
  s.gemm->reduced_problem(&s.p, s.t, &s.c, SMS, &reduced);
  template_reason r = template_feasible(s.gemm, &reduced, s.t, &s.c);
  ck_assert_msg(r == TEMPLATE_OK || r == TEMPLATE_REDUNDANT, "%s", template_reason_text(r));

  contraction matched;
  gemm_match match;
  gemm_plan plan;
  ck_assert_int_eq(gemm_fit(&reduced, s.t, &a, &matched, &match, NULL), TEMPLATE_OK);
  ck_assert_int_eq(gemm_plan_make(&match, s.t, &s.c, &plan), TEMPLATE_OK);
  match = plan.match;
  int64_t m = gemm_extent(&match, match.m), n = gemm_extent(&match, match.n),
          k = gemm_extent(&match, match.k);
  ck_assert_int_gt(m, plan.block_m);
  ck_assert_int_gt(n, plan.block_n);
  ck_assert(m % plan.block_m && n % plan.block_n && k % plan.block_k);
  ck_assert_int_gt(k, (int64_t)plan.stages * plan.block_k);
  ck_assert_int_gt(gemm_units_m(&plan, m) * gemm_units_n(&plan, n) * plan.cluster, SMS);
  ck_assert(m < 4096 && n < 4096 && k < 4096);
  arena_release(&a);
}
END_TEST

START_TEST(defaults_are_feasible_for_any_size) {
  static const int64_t sizes[] = {1, 8, 64, 72, 128, 512, 1000, 4096, 16384, 100000};
  const target *t = target_find("sm_90a", NULL);
  for (size_t i = 0; i < COUNT_OF(sizes); i++) {
    for (size_t k = 1; k < COUNT_OF(sizes); k++) {
      arena a = ARENA_INIT;
      gemm_setup s = gemm_class_bind(&a, &base, sizes[i], sizes[k], 4096);
      config c;
      s.gemm->defaults(&s.p, t, &c);
      ck_assert_int_ge(space_index(s.gemm->space(t), &c), 0);
      template_reason r = template_feasible(s.gemm, &s.p, t, &c);
      ck_assert_msg(r == TEMPLATE_OK, "%lld x %lld: %s", (long long)sizes[i], (long long)sizes[k],
                    template_reason_text(r));
      arena_release(&a);
    }
  }
}
END_TEST

TCase *gemm_space_tests(void) {
  TCase *tests = tcase_create("gemm: its space");
  tcase_set_timeout(tests, 60);
  tcase_add_loop_test(tests, infeasible_points_have_their_reason, 0, (int)COUNT_OF(points));
  tcase_add_loop_test(tests, plans_keep_the_limits, GEMM_NN, GEMM_TT + 1);
  tcase_add_loop_test(tests, classes_and_their_reduced_problems_are_feasible, 0, gemm_class_count());
  tcase_add_test(tests, defaults_are_feasible_for_any_size);
  return tests;
}
