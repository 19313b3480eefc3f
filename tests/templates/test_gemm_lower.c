#include <stdlib.h>
#include <string.h>

#include "gemm_classes.h"
#include "generator/assemble.h"
#include "templates_suites.h"
#include "tests/support/failing_alloc.h"
#include "tests/support/thinned.h"

/* Large tiles, whose speed depends on registers: the classes of gemm_classes.c are small. */
static const gemm_class large[] = {
    {GEMM_NN, "bf16", "BLOCK_M=128,BLOCK_N=256,CONSUMERS=2,STAGES=4,GROUP=8"},
    {GEMM_NT, "bf16", "BLOCK_M=128,BLOCK_N=256,CONSUMERS=2,STAGES=4,GROUP=8,SCHEDULE=2"},
    {GEMM_NN, "f16", "BLOCK_M=128,BLOCK_N=256,CONSUMERS=2,STAGES=4,GROUP=8,SCHEDULE=2,CLUSTER_M=2"},
    {GEMM_NT, "bf16", "BLOCK_M=256,BLOCK_N=128,CONSUMERS=2,STAGES=4,SCHEDULE=2,CLUSTER_N=2"},
    {GEMM_NN, "bf16", "BLOCK_M=256,BLOCK_N=192,CONSUMERS=2,STAGES=3"},
    {GEMM_NT, "bf16", "BLOCK_M=128,BLOCK_N=192,CONSUMERS=2,STAGES=4,SCHEDULE=1"},
    {GEMM_NN, "bf16", "BLOCK_M=192,BLOCK_N=128,CONSUMERS=2,STAGES=4,SCHEDULE=1,CLUSTER_M=2"},
    {GEMM_NT, "bf16", "BLOCK_M=128,BLOCK_N=128,CONSUMERS=2,STAGES=3,SCHEDULE=1,BLOCK_K=128"},
    {GEMM_NN, "bf16", "BLOCK_M=128,BLOCK_N=192"},
    {GEMM_NT, "bf16", "BLOCK_M=256,BLOCK_N=96"},
    {GEMM_NN, "bf16", "BLOCK_M=64,BLOCK_N=256,STAGES=5"},
    {GEMM_TN, "bf16", "BLOCK_M=128,BLOCK_N=256,CONSUMERS=2,STAGES=4,SCHEDULE=2"},
    {GEMM_NN, "bf16", "BLOCK_M=128,BLOCK_N=160,CONSUMERS=2,STAGES=5,SCHEDULE=1,SWAP=1"},
    {GEMM_NT, "bf16", "BLOCK_M=128,BLOCK_N=184,CONSUMERS=2,STAGES=5,SCHEDULE=1"},
    {GEMM_NT, "bf16", "BLOCK_M=128,BLOCK_N=192,CONSUMERS=2,STAGES=5,SCHEDULE=1,SWAP=1"},
    {GEMM_NN, "bf16", "BLOCK_M=128,BLOCK_N=256,CONSUMERS=2,STAGES=4,SCHEDULE=2,SWAP=1"},
    {GEMM_NT, "bf16", "BLOCK_M=128,BLOCK_N=176,CONSUMERS=2,STAGES=5,SCHEDULE=1,EVEN=1"},
    {GEMM_NN, "bf16", "BLOCK_M=128,BLOCK_N=192,CONSUMERS=2,STAGES=5,SCHEDULE=1,SWAP=1,EVEN=1"},
    {GEMM_NN, "f16", "BLOCK_M=128,BLOCK_N=256,CONSUMERS=2,STAGES=4,SCHEDULE=0,EVEN=1"},
};

static const gemm_class *any_class(int i) {
  return i < gemm_class_count() ? gemm_class_get(i) : &large[i - gemm_class_count()];
}

static lowered lower(arena *a, const gemm_setup *s, const lower_options *options) {
  arke_error err = ARKE_ERROR_INIT;
  lowered l;
  ck_assert_msg(s->gemm->lower(&s->p, s->t, &s->c, options, a, &l, &err) == ARKE_OK, "%s", err.text);
  return l;
}

/* Messages by which ptxas says that it serialises wgmma, or repairs it (C7504 is nvJitLink's, see
 * assemble.h). */
static const char *const slow_messages[] = {"C7510", "C7511", "C7514", "C7517", "C7518", "C7519"};

/* Nothing to do without an assembler; CI has none. */
START_TEST(kernels_assemble_without_spills) {
  RUN_EACH_WITH_SANITIZERS(16, _i);
  assembler_kind kind = assembler_find();
  if (kind != ASSEMBLER_PTXAS) return;
  arena a = ARENA_INIT;
  const gemm_class *g = any_class(_i);
  gemm_setup s = gemm_class_bind(&a, g, 4096, 4096, 4096);
  ck_assert_int_eq(template_feasible(s.gemm, &s.p, s.t, &s.c), TEMPLATE_OK);
  lowered l = lower(&a, &s, NULL);
  arke_error err = ARKE_ERROR_INIT;
  assembled out;
  ck_assert_msg(assemble_ptx(kind, l.ptx, s.t->name, &out, &err) == ARKE_OK, "%s: %s", g->config, err.text);
  ck_assert_msg(out.spill_bytes == 0, "%s spills %d bytes", g->config, out.spill_bytes);
  for (size_t i = 0; i < COUNT_OF(slow_messages); i++) {
    ck_assert_msg(!strstr(out.log, slow_messages[i]), "%s: %s", g->config, out.log);
  }
  assembled_free(&out);
  arena_release(&a);
}
END_TEST

static int count(const char *text, const char *word) {
  int n = 0;
  for (const char *at = strstr(text, word); at; at = strstr(at + 1, word)) n++;
  return n;
}

/* Accumulators stay where they are: LLVM makes no copy of a register that a product in flight writes. */
START_TEST(the_text_has_the_schedule) {
  arena a = ARENA_INIT;
  gemm_setup s = gemm_class_bind(&a, &large[0], 4096, 4096, 4096);
  lowered l = lower(&a, &s, NULL);
  ck_assert_uint_eq(l.ptx_bytes, strlen(l.ptx));
  ck_assert_ptr_null(l.llvm_ir);
  ck_assert_int_eq(count(l.ptx, "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16"), 4);
  ck_assert_int_eq(count(l.ptx, "wgmma.commit_group"), 1);
  ck_assert_int_eq(count(l.ptx, "wgmma.wait_group.sync.aligned 1"), 1);
  ck_assert_int_eq(count(l.ptx, "wgmma.wait_group.sync.aligned 0"), 1);
  ck_assert_int_eq(count(l.ptx, "stmatrix"), 16);
  ck_assert_int_eq(count(l.ptx, "brx.idx"), 0);
  ck_assert_int_eq(count(l.ptx, ".local"), 0);
  const char *products = strstr(l.ptx, "wgmma.fence"), *wait = strstr(l.ptx, "wgmma.wait_group");
  ck_assert(products < wait);
  for (const char *at = products; at < wait; at++) ck_assert(strncmp(at, "mov.", 4) != 0);
  arena_release(&a);
}
END_TEST

START_TEST(the_recipe_launches_what_was_planned) {
  arena a = ARENA_INIT;
  gemm_setup s = gemm_class_bind(&a, &large[2], 4096, 4096, 4096);
  lowered l = lower(&a, &s, NULL);
  const recipe *r = &l.recipe;
  ck_assert_int_eq(r->n_tensors, 3);
  ck_assert_int_eq(r->n_launches, 1);
  ck_assert_ptr_null(r->workspace_bytes);
  const recipe_launch *launch = &r->launches[0];
  ck_assert_ptr_nonnull(strstr(l.ptx, ".visible .entry gemm("));
  ck_assert_str_eq(launch->kernel, "gemm");
  ck_assert_uint_eq(launch->block[0], 384);
  ck_assert_uint_eq(launch->cluster[0], 2);
  ck_assert_int_eq(launch->n_params, 6);
  ck_assert_uint_eq(launch->params[1].map.box[1], 32); /* half of the rows of B, loaded for both CTAs */
  recipe_binding env[] = {{"M", 1000}, {"N", 600}, {"K", 64}, {"SMS", 5}};
  arke_error err = ARKE_ERROR_INIT;
  int64_t value;
  ck_assert_int_eq(recipe_expr_eval(launch->grid[0], env, 4, &value, &err), ARKE_OK);
  ck_assert_int_eq(value, 4); /* two clusters of two */
  env[3].value = 1000;
  ck_assert_int_eq(recipe_expr_eval(launch->grid[0], env, 4, &value, &err), ARKE_OK);
  ck_assert_int_eq(value, 24); /* 4 by 3 clusters of two */

  /* It survives the cache. */
  strbuf text = STRBUF_INIT, again = STRBUF_INIT;
  recipe parsed;
  ck_assert_msg(recipe_print(r, &text, &err) == ARKE_OK, "%s", err.text);
  ck_assert_msg(recipe_parse(&a, strbuf_text(&text), text.length, &parsed, &err) == ARKE_OK, "%s", err.text);
  ck_assert_int_eq(recipe_print(&parsed, &again, &err), ARKE_OK);
  ck_assert_str_eq(strbuf_text(&text), strbuf_text(&again));
  strbuf_free(&text);
  strbuf_free(&again);
  arena_release(&a);
}
END_TEST

START_TEST(a_context_serves_many_kernels) {
  arena a = ARENA_INIT;
  arke_error err = ARKE_ERROR_INIT;
  lower_options options = {.keep_llvm_ir = true};
  ck_assert_int_eq(gen_context_create(&options.context, &err), ARKE_OK);
  gemm_setup s = gemm_class_bind(&a, gemm_class_get(0), 256, 256, 256);
  lowered first = lower(&a, &s, &options), second = lower(&a, &s, &options), alone = lower(&a, &s, NULL);
  ck_assert_str_eq(first.ptx, second.ptx);
  ck_assert_str_eq(first.ptx, alone.ptx);
  ck_assert_ptr_nonnull(strstr(first.llvm_ir, "define ptx_kernel void @gemm"));
  gen_context_destroy(options.context);
  arena_release(&a);
}
END_TEST

/* Sizes are run-time values: one text for all problems of a dtype and a storage order. */
START_TEST(sizes_do_not_change_the_text) {
  arena a = ARENA_INIT;
  gemm_setup small = gemm_class_bind(&a, gemm_class_get(0), 64, 64, 64);
  gemm_setup big = gemm_class_bind(&a, gemm_class_get(0), 8192, 4096, 1000);
  ck_assert_str_eq(lower(&a, &small, NULL).ptx, lower(&a, &big, NULL).ptx);
  arena_release(&a);
}
END_TEST

START_TEST(infeasible_configurations_are_refused) {
  arena a = ARENA_INIT;
  gemm_setup s = gemm_class_bind(&a, &(gemm_class){GEMM_NN, "bf16", "SCHEDULE=1"}, 64, 64, 64);
  arke_error err = ARKE_ERROR_INIT;
  lowered l;
  ck_assert_int_eq(s.gemm->lower(&s.p, s.t, &s.c, NULL, &a, &l, &err), ARKE_ERR_UNSUPPORTED);
  ck_assert_ptr_nonnull(strstr(err.text, "the kinds of schedule"));
  arena_release(&a);
}
END_TEST

/* Every allocation of ours fails once; LLVM's own go past the wrapper. */
START_TEST(running_out_of_memory_is_reported) {
  arena setup = ARENA_INIT;
  gemm_setup s = gemm_class_bind(&setup, gemm_class_get(0), 256, 256, 256);
  long n = 0;
  for (;; n++) {
    arena a = ARENA_INIT;
    arke_error err = ARKE_ERROR_INIT;
    lowered l;
    failing_alloc_arm(n);
    arke_status status = s.gemm->lower(&s.p, s.t, &s.c, NULL, &a, &l, &err);
    bool failed = failing_alloc_disarm();
    arena_release(&a);
    if (!failed) {
      ck_assert_int_eq(status, ARKE_OK);
      break;
    }
    ck_assert_msg(status == ARKE_ERR_MEMORY, "allocation %ld: %s, %s", n, arke_status_name(status), err.text);
  }
  ck_assert_int_gt(n, 5);
  arena_release(&setup);
}
END_TEST

TCase *gemm_lower_tests(void) {
  TCase *tests = tcase_create("gemm: lowering");
  tcase_set_timeout(tests, 120);
  tcase_add_loop_test(tests, kernels_assemble_without_spills, 0, gemm_class_count() + (int)COUNT_OF(large));
  tcase_add_test(tests, the_text_has_the_schedule);
  tcase_add_test(tests, the_recipe_launches_what_was_planned);
  tcase_add_test(tests, a_context_serves_many_kernels);
  tcase_add_test(tests, sizes_do_not_change_the_text);
  tcase_add_test(tests, infeasible_configurations_are_refused);
  tcase_add_test(tests, running_out_of_memory_is_reported);
  return tests;
}
