#include <string.h>
#include <unistd.h>

#include "generator/gen_control.h"
#include "generator/gen_cp_async.h"
#include "generator/gen_internal.h"
#include "generator/gen_memory.h"
#include "generator/gen_mma.h"
#include "generator/gen_wgmma.h"
#include "generator_suites.h"

static gen_context *ctx;
static gen_builder *b;

static void start(void) {
  static const gen_param_kind params[] = {GEN_PARAM_I32, GEN_PARAM_F32};
  gen_kernel k = {.name = "k",
                  .threads = 32,
                  .min_ctas_per_sm = 1,
                  .cluster = {1, 1, 1},
                  .n_params = 2,
                  .params = params};
  arke_error err = ARKE_ERROR_INIT;
  ck_assert_int_eq(gen_context_create(&ctx, &err), ARKE_OK);
  ck_assert_int_eq(gen_builder_create(ctx, target_find("sm_90a", NULL), &k, &b, &err), ARKE_OK);
}

static void stop(void) {
  gen_builder_destroy(b);
  gen_context_destroy(ctx);
}

/* Finishing reports `code` with `words` in the text. */
static void expect(arke_status code, const char *words) {
  arena a = ARENA_INIT;
  arke_error err = ARKE_ERROR_INIT;
  gen_output out;
  ck_assert_int_eq(gen_builder_finish(b, false, &a, &out, &err), code);
  ck_assert_int_eq(err.code, code);
  ck_assert_str_eq(err.stage, "generate");
  ck_assert_msg(strstr(err.text, words), "'%s' lacks '%s'", err.text, words);
  ck_assert_ptr_null(out.ptx);
  arena_release(&a);
}

START_TEST(operands_of_two_types) {
  gen_add(b, gen_param(b, 0), gen_i64(b, 1));
  expect(ARKE_ERR_INTERNAL, "add of two types");
}
END_TEST

START_TEST(a_product_of_types_that_do_not_mix) {
  gen_value words[4], sums[4];
  for (int i = 0; i < 4; i++) {
    words[i] = gen_i32(b, 0);
    sums[i] = gen_f32(b, 0);
  }
  gen_mma(b, GEN_MMA_BF16, GEN_MMA_F16, words, words, sums);
  expect(ARKE_ERR_INTERNAL, "a product of bf16 and f16");
}
END_TEST

START_TEST(a_copy_of_an_odd_size) {
  gen_cp_async(b, gen_i32(b, 0), gen_i64(b, 0), 12, NULL);
  expect(ARKE_ERR_INTERNAL, "a copy of 12 bytes");
}
END_TEST

START_TEST(a_parameter_that_is_not_there) {
  gen_param(b, 2);
  expect(ARKE_ERR_INTERNAL, "parameter 2 of 2");
}
END_TEST

START_TEST(a_loop_not_ended) {
  gen_loop loop;
  gen_value i = gen_i32(b, 0);
  gen_loop_begin(b, &loop, &i, 1);
  expect(ARKE_ERR_INTERNAL, "not ended");
}
END_TEST

START_TEST(a_loop_without_an_exit) {
  gen_loop loop;
  gen_value i = gen_i32(b, 0);
  gen_loop_begin(b, &loop, &i, 1);
  gen_loop_end(b, &loop);
  expect(ARKE_ERR_INTERNAL, "without an exit");
}
END_TEST

START_TEST(a_carried_value_that_changes_type) {
  gen_loop loop;
  gen_value i = gen_i32(b, 0);
  gen_loop_begin(b, &loop, &i, 1);
  i = gen_i64(b, 0);
  gen_loop_end_while(b, &loop, gen_bool(b, false));
  expect(ARKE_ERR_INTERNAL, "changes type");
}
END_TEST

/* The kernel that ends is checked before another one begins. */
START_TEST(a_loop_left_open_at_the_next_kernel) {
  gen_loop loop;
  gen_value i = gen_i32(b, 0);
  gen_kernel next = {.name = "next", .threads = 32, .min_ctas_per_sm = 1, .cluster = {1, 1, 1}};
  arke_error err = ARKE_ERROR_INIT;
  gen_loop_begin(b, &loop, &i, 1);
  ck_assert_int_eq(gen_builder_next_kernel(b, &next, &err), ARKE_ERR_INTERNAL);
  ck_assert_ptr_nonnull(strstr(err.text, "not ended"));
}
END_TEST

START_TEST(a_kernel_twice) {
  gen_kernel again = {.name = "k", .threads = 32, .min_ctas_per_sm = 1, .cluster = {1, 1, 1}};
  arke_error err = ARKE_ERROR_INIT;
  ck_assert_int_eq(gen_builder_next_kernel(b, &again, &err), ARKE_ERR_INTERNAL);
  ck_assert_ptr_nonnull(strstr(err.text, "two kernels named k"));
}
END_TEST

/* Parameters are the current kernel's. */
START_TEST(a_parameter_of_the_kernel_before) {
  gen_kernel next = {.name = "next", .threads = 32, .min_ctas_per_sm = 1, .cluster = {1, 1, 1}};
  arke_error err = ARKE_ERROR_INIT;
  ck_assert_int_eq(gen_builder_next_kernel(b, &next, &err), ARKE_OK);
  gen_param(b, 1);
  expect(ARKE_ERR_INTERNAL, "parameter 1 of 0");
}
END_TEST

START_TEST(a_shared_object_twice) {
  gen_shared_static(b, "x", 8, 8);
  gen_shared_static(b, "x", 8, 8);
  expect(ARKE_ERR_INTERNAL, "two shared objects");
}
END_TEST

START_TEST(a_product_no_instruction_does) {
  gen_wgmma w = {.type = DTYPE_BF16, .b_type = DTYPE_BF16, .n = 12, .tiles = 1, .k_steps = 1};
  gen_value acc[6], d = gen_i64(b, 0);
  for (int i = 0; i < 6; i++) acc[i] = gen_f32(b, 0);
  gen_wgmma_issue(b, &w, d, d, gen_bool(b, false), acc);
  expect(ARKE_ERR_INTERNAL, "wgmma with n 12");
}
END_TEST

START_TEST(a_product_of_floats_and_integers) {
  gen_wgmma w = {.type = DTYPE_I8, .b_type = DTYPE_E4M3, .n = 8, .tiles = 1, .k_steps = 1};
  gen_value acc[4], d = gen_i64(b, 0);
  for (int i = 0; i < 4; i++) acc[i] = gen_i32(b, 0);
  gen_wgmma_issue(b, &w, d, d, gen_bool(b, false), acc);
  expect(ARKE_ERR_INTERNAL, "wgmma of i8 and e4m3");
}
END_TEST

START_TEST(a_product_of_transposed_bytes) {
  gen_wgmma w = {
      .type = DTYPE_E4M3, .b_type = DTYPE_E4M3, .n = 8, .tiles = 1, .k_steps = 1, .b = {.transposed = true}};
  gen_value acc[4], d = gen_i64(b, 0);
  for (int i = 0; i < 4; i++) acc[i] = gen_f32(b, 0);
  gen_wgmma_issue(b, &w, d, d, gen_bool(b, false), acc);
  expect(ARKE_ERR_INTERNAL, "wgmma of transposed e4m3");
}
END_TEST

START_TEST(a_product_of_bytes_as_wide_as_none) {
  gen_wgmma w = {.type = DTYPE_I8, .b_type = DTYPE_U8, .n = 40, .tiles = 1, .k_steps = 1};
  gen_value acc[20], d = gen_i64(b, 0);
  for (int i = 0; i < 20; i++) acc[i] = gen_i32(b, 0);
  gen_wgmma_issue(b, &w, d, d, gen_bool(b, false), acc);
  expect(ARKE_ERR_INTERNAL, "wgmma with n 40");
}
END_TEST

START_TEST(registers_out_of_range) {
  gen_registers_grow(b, 260);
  expect(ARKE_ERR_INTERNAL, "setmaxnreg 260");
}
END_TEST

START_TEST(the_first_misuse_is_reported) {
  gen_param(b, 9);
  gen_registers_grow(b, 260);
  expect(ARKE_ERR_INTERNAL, "parameter 9");
}
END_TEST

/* What LLVM finds: an operand that fits no register of its constraint. */
START_TEST(a_diagnostic_of_llvm) {
  gen_value wrong = gen_param(b, 1);
  gen_asm(b, b->none, "mov.b32 $0, 0;", "l,Q", (gen_value[]){wrong, wrong}, 2, GEN_ASM_EFFECT);
  expect(ARKE_ERR_CODEGEN, "constraint");
}
END_TEST

START_TEST(a_module_that_does_not_verify) {
  LLVMBuildRetVoid(b->ir); /* a second return follows in the same block */
  expect(ARKE_ERR_CODEGEN, "verifier");
}
END_TEST

/* An instruction of another target stops LLVM with a fatal error; it becomes a status, and the context is
 * done with. LLVM's memory is lost then, so the test leaves without a look at leaks. */
START_TEST(a_fatal_error_of_llvm) {
  gen_intrinsic(b, "llvm.nvvm.tcgen05.wait.ld", b->none, NULL, 0);
  expect(ARKE_ERR_CODEGEN, "LLVM stopped: Cannot select");
  arke_error err = ARKE_ERROR_INIT;
  gen_builder *next;
  gen_kernel k = {.name = "k", .threads = 32, .min_ctas_per_sm = 1, .cluster = {1, 1, 1}};
  ck_assert_int_eq(gen_builder_create(ctx, target_find("sm_90a", NULL), &k, &next, &err), ARKE_ERR_CODEGEN);
  ck_assert_ptr_null(next);
  ck_assert_ptr_nonnull(strstr(err.text, "earlier in this process"));
  _exit(0);
}
END_TEST

TCase *builder_misuse_tests(void) {
  TCase *tests = tcase_create("misuse of the builder");
  tcase_set_timeout(tests, 60);
  tcase_add_checked_fixture(tests, start, stop);
  tcase_add_test(tests, operands_of_two_types);
  tcase_add_test(tests, a_product_of_types_that_do_not_mix);
  tcase_add_test(tests, a_copy_of_an_odd_size);
  tcase_add_test(tests, a_parameter_that_is_not_there);
  tcase_add_test(tests, a_loop_not_ended);
  tcase_add_test(tests, a_loop_without_an_exit);
  tcase_add_test(tests, a_carried_value_that_changes_type);
  tcase_add_test(tests, a_loop_left_open_at_the_next_kernel);
  tcase_add_test(tests, a_kernel_twice);
  tcase_add_test(tests, a_parameter_of_the_kernel_before);
  tcase_add_test(tests, a_shared_object_twice);
  tcase_add_test(tests, a_product_no_instruction_does);
  tcase_add_test(tests, a_product_of_floats_and_integers);
  tcase_add_test(tests, a_product_of_transposed_bytes);
  tcase_add_test(tests, a_product_of_bytes_as_wide_as_none);
  tcase_add_test(tests, registers_out_of_range);
  tcase_add_test(tests, the_first_misuse_is_reported);
  tcase_add_test(tests, a_diagnostic_of_llvm);
  tcase_add_test(tests, a_module_that_does_not_verify);
  tcase_add_exit_test(tests, a_fatal_error_of_llvm, 0);
  return tests;
}
