#include <string.h>

#include "emulator/emulator.h"
#include "generator/assemble.h"
#include "generator/gen_barrier.h"
#include "generator/gen_control.h"
#include "generator/gen_memory.h"
#include "generator_suites.h"
#include "run_kernel.h"

enum { THREADS = 64 };

/* Address of this thread's i32 in buffer `i`. */
static gen_value own_word(gen_builder *b, int i) {
  gen_value offset = gen_zext(b, gen_mul_imm(b, gen_tid_x(b), 4), GEN_I64);
  return gen_add(b, gen_param(b, i), offset);
}

static void run_words(kernel_body body, int32_t n, int32_t out[THREADS]) {
  arena a = ARENA_INIT;
  gen_output k = make_kernel(body, NULL, 1, THREADS, &a);
  kernel_buffer buffer = {out, THREADS * sizeof *out, true, false};
  run_kernel(&k, &buffer, 1, n, 1, THREADS);
  arena_release(&a);
}

/* out[t] = sum of the numbers below n + t that t does not divide, by a loop tested before its body. */
static void build_while(gen_builder *b, void *user) {
  (void)user;
  gen_value t = gen_tid_x(b), end = gen_add(b, gen_param(b, 1), t);
  gen_value carried[] = {gen_i32(b, 0), gen_i32(b, 0)};
  gen_loop loop;
  gen_loop_begin(b, &loop, carried, 2);
  gen_loop_while(b, &loop, gen_compare(b, GEN_ULT, carried[0], end));
  gen_value divisor = gen_add_imm(b, t, 1);
  gen_branch divides;
  gen_if(b, &divides, gen_compare_imm(b, GEN_NE, gen_urem(b, carried[0], divisor), 0), &carried[1], 1);
  carried[1] = gen_add(b, carried[1], carried[0]);
  gen_if_end(b, &divides);
  carried[0] = gen_add_imm(b, carried[0], 1);
  gen_loop_end(b, &loop);
  gen_store_global(b, carried[1], own_word(b, 0));
}

START_TEST(loops_tested_first_may_run_never) {
  int32_t out[THREADS];
  for (int32_t n = 0; n < 40; n += 13) {
    run_words(build_while, n, out);
    for (int t = 0; t < THREADS; t++) {
      int32_t want = 0;
      for (int i = 0; i < n + t; i++) want += i % (t + 1) ? i : 0;
      ck_assert_int_eq(out[t], want);
    }
  }
}
END_TEST

/* Nested: for each of t + 1 rounds, a loop that runs at least once and halves; both sides of a branch assign.
 */
static void build_nested(gen_builder *b, void *user) {
  (void)user;
  gen_value t = gen_tid_x(b);
  gen_value outer[] = {gen_i32(b, 0), gen_i32(b, 0)};
  gen_loop rounds, halving;
  gen_loop_begin(b, &rounds, outer, 2);
  gen_value inner[] = {gen_add(b, gen_param(b, 1), outer[0]), outer[1]};
  gen_loop_begin(b, &halving, inner, 2);
  gen_branch parity;
  gen_if(b, &parity, gen_compare_imm(b, GEN_EQ, gen_and(b, inner[0], gen_i32(b, 1)), 0), &inner[1], 1);
  inner[1] = gen_add_imm(b, inner[1], 1);
  gen_else(b, &parity);
  inner[1] = gen_add_imm(b, inner[1], 100);
  gen_if_end(b, &parity);
  inner[0] = gen_lshr(b, inner[0], gen_i32(b, 1));
  gen_loop_end_while(b, &halving, gen_compare_imm(b, GEN_NE, inner[0], 0));
  outer[1] = inner[1];
  outer[0] = gen_add_imm(b, outer[0], 1);
  gen_loop_end_while(b, &rounds, gen_compare(b, GEN_ULE, outer[0], t));
  gen_store_global(b, outer[1], own_word(b, 0));
}

START_TEST(loops_and_branches_nest) {
  int32_t out[THREADS];
  run_words(build_nested, 5, out);
  for (int t = 0; t < THREADS; t++) {
    int32_t want = 0;
    for (int round = 0; round <= t; round++) {
      int x = 5 + round;
      do {
        want += x % 2 ? 100 : 1;
        x /= 2;
      } while (x);
    }
    ck_assert_int_eq(out[t], want);
  }
}
END_TEST

/* Reverses the CTA's words through shared memory, with a barrier between. */
static void build_reverse(gen_builder *b, void *user) {
  (void)user;
  gen_value shared = gen_shared_static(b, "words", THREADS * 4, 16), t = gen_tid_x(b);
  gen_value value = gen_add(b, gen_mul(b, t, t), gen_param(b, 1));
  gen_store_shared(b, value, gen_add(b, shared, gen_mul_imm(b, t, 4)));
  gen_cta_sync(b);
  gen_value other = gen_sub(b, gen_i32(b, THREADS - 1), t);
  gen_store_global(b, gen_load_shared(b, GEN_I32, 1, gen_add(b, shared, gen_mul_imm(b, other, 4))),
                   own_word(b, 0));
}

START_TEST(shared_memory_is_seen_after_a_barrier) {
  int32_t out[THREADS];
  run_words(build_reverse, 7, out);
  for (int t = 0; t < THREADS; t++) ck_assert_int_eq(out[t], (THREADS - 1 - t) * (THREADS - 1 - t) + 7);
}
END_TEST

/* Four floats by one wide load and one wide store, scaled by lane. */
static void build_vectors(gen_builder *b, void *user) {
  (void)user;
  gen_value offset = gen_zext(b, gen_mul_imm(b, gen_tid_x(b), 16), GEN_I64);
  gen_value v = gen_load_global(b, GEN_F32, 4, gen_add(b, gen_param(b, 0), offset), true);
  gen_value lanes[4];
  for (int i = 0; i < 4; i++) lanes[i] = gen_fmul(b, gen_lane(b, v, i), gen_f32(b, i + 1));
  gen_store_global(b, gen_vector(b, lanes, 4), gen_add(b, gen_param(b, 1), offset));
}

START_TEST(vectors_load_and_store_wide) {
  float in[THREADS * 4], out[THREADS * 4];
  for (int i = 0; i < THREADS * 4; i++) in[i] = (float)i;
  arena a = ARENA_INIT;
  gen_output k = make_kernel(build_vectors, NULL, 2, THREADS, &a);
  ck_assert_ptr_nonnull(strstr(k.ptx, "ld.global.nc.v4"));
  ck_assert_ptr_nonnull(strstr(k.ptx, "st.global.v4"));
  kernel_buffer buffers[] = {{in, sizeof in, false, false}, {out, sizeof out, true, false}};
  run_kernel(&k, buffers, 2, 0, 1, THREADS);
  for (int i = 0; i < THREADS * 4; i++) ck_assert_float_eq(out[i], (float)(i * (i % 4 + 1)));
  arena_release(&a);
}
END_TEST

/* The low half is the first operand, whatever the instruction's order. */
static void build_pack(gen_builder *b, void *user) {
  (void)user;
  gen_value t = gen_int_to_float(b, gen_tid_x(b), GEN_F32, false);
  gen_store_global(b, gen_pack_halves(b, DTYPE_BF16, t, gen_fadd(b, t, gen_f32(b, 0.5))), own_word(b, 0));
}

START_TEST(halves_pack_low_first) {
  int32_t out[THREADS];
  run_words(build_pack, 0, out);
  for (int t = 0; t < THREADS; t++) {
    ck_assert(dtype_load(DTYPE_BF16, &out[t], 0) == dtype_round(DTYPE_BF16, t));
    ck_assert(dtype_load(DTYPE_BF16, &out[t], 1) == dtype_round(DTYPE_BF16, t + 0.5));
  }
}
END_TEST

START_TEST(the_same_kernel_gives_the_same_text) {
  arena a = ARENA_INIT;
  gen_output first = make_kernel(build_nested, NULL, 1, THREADS, &a);
  gen_output second = make_kernel(build_nested, NULL, 1, THREADS, &a);
  ck_assert_str_eq(first.ptx, second.ptx);
  ck_assert_uint_eq(first.ptx_bytes, strlen(first.ptx));
  ck_assert_ptr_nonnull(strstr(first.ptx, ".reqntid 64"));
  ck_assert_ptr_nonnull(strstr(first.ptx, ".target sm_90a"));
  ck_assert_ptr_nonnull(strstr(first.ptx, ".version 8.6"));
  arena_release(&a);
}
END_TEST

/* Two kernels of one image: each has its own parameters and its own shared object of the same name. */
static gen_output make_two(arena *a) {
  static const gen_param_kind one[] = {GEN_PARAM_POINTER, GEN_PARAM_I32},
                              two[] = {GEN_PARAM_I32, GEN_PARAM_POINTER};
  gen_kernel first = {.name = "first",
                      .threads = THREADS,
                      .min_ctas_per_sm = 1,
                      .cluster = {1, 1, 1},
                      .n_params = 2,
                      .params = one};
  gen_kernel second = first;
  second.name = "second";
  second.params = two;
  arke_error err = ARKE_ERROR_INIT;
  gen_context *ctx;
  gen_builder *b;
  gen_output out;
  ck_assert_int_eq(gen_context_create(&ctx, &err), ARKE_OK);
  ck_assert_int_eq(gen_builder_create(ctx, target_find("sm_90a", NULL), &first, &b, &err), ARKE_OK);
  for (int k = 0; k < 2; k++) {
    if (k == 1) ck_assert_msg(gen_builder_next_kernel(b, &second, &err) == ARKE_OK, "%s", err.text);
    gen_value t = gen_tid_x(b), n = gen_param(b, 1 - k),
              shared = gen_shared_static(b, "words", THREADS * 4, 16);
    gen_value own = gen_mul_imm(b, t, 4), other = gen_mul_imm(b, gen_xor(b, t, gen_i32(b, 33)), 4);
    gen_store_shared(b, k == 0 ? gen_add(b, t, n) : gen_mul(b, t, n), gen_add(b, shared, own));
    gen_cta_sync(b);
    gen_store_global(b, gen_load_shared(b, GEN_I32, 1, gen_add(b, shared, other)), own_word(b, k));
  }
  ck_assert_msg(gen_builder_finish(b, false, a, &out, &err) == ARKE_OK, "%s", err.text);
  gen_builder_destroy(b);
  gen_context_destroy(ctx);
  return out;
}

START_TEST(two_kernels_make_one_image) {
  arena a = ARENA_INIT;
  arke_error err = ARKE_ERROR_INIT;
  gen_output k = make_two(&a);
  device *d;
  device_module *m;
  device_ptr words;
  int32_t out[THREADS], n = 7;
  ck_assert_int_eq(device_open_emulator("sm_90a", 1, &d, &err), ARKE_OK);
  ck_assert_msg(d->ops->module_load(d, k.ptx, k.ptx_bytes, &m, &err) == ARKE_OK, "%s", err.text);
  ck_assert_int_eq(d->ops->mem_alloc(d, sizeof out, "words", &words, &err), ARKE_OK);
  for (int i = 0; i < 2; i++) {
    device_kernel *kernel;
    void *args[] = {i == 0 ? (void *)&words : &n, i == 0 ? (void *)&n : &words};
    device_launch launch = {
        .grid = {1, 1, 1}, .block = {THREADS, 1, 1}, .cluster = {1, 1, 1}, .args = args, .n_args = 2};
    ck_assert_msg(d->ops->kernel_get(d, m, i == 0 ? "first" : "second", 0, &kernel, &err) == ARKE_OK, "%s",
                  err.text);
    ck_assert_msg(d->ops->launch(d, kernel, &launch, &err) == ARKE_OK, "%s", err.text);
    ck_assert_int_eq(d->ops->copy_out(d, out, words, sizeof out, &err), ARKE_OK);
    for (int t = 0; t < THREADS; t++) ck_assert_int_eq(out[t], i == 0 ? (t ^ 33) + n : (t ^ 33) * n);
  }
  d->ops->mem_free(d, words);
  d->ops->module_unload(d, m);
  d->ops->close(d);
  arena_release(&a);
}
END_TEST

/* An assembler takes the names of its objects. */
START_TEST(two_kernels_assemble) {
  assembler_kind kind = assembler_find();
  if (kind == ASSEMBLER_NONE) return;
  arena a = ARENA_INIT;
  arke_error err = ARKE_ERROR_INIT;
  gen_output k = make_two(&a);
  assembled out;
  ck_assert_msg(assemble_ptx(kind, k.ptx, "sm_90a", &out, &err) == ARKE_OK, "%s", err.text);
  assembled_free(&out);
  arena_release(&a);
}
END_TEST

TCase *builder_tests(void) {
  TCase *tests = tcase_create("builder");
  tcase_set_timeout(tests, 60);
  tcase_add_test(tests, loops_tested_first_may_run_never);
  tcase_add_test(tests, loops_and_branches_nest);
  tcase_add_test(tests, shared_memory_is_seen_after_a_barrier);
  tcase_add_test(tests, vectors_load_and_store_wide);
  tcase_add_test(tests, halves_pack_low_first);
  tcase_add_test(tests, two_kernels_make_one_image);
  tcase_add_test(tests, two_kernels_assemble);
  tcase_add_test(tests, the_same_kernel_gives_the_same_text);
  return tests;
}
