#include <string.h>

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
  kernel_buffer buffer = {out, THREADS * sizeof *out, true};
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
  kernel_buffer buffers[] = {{in, sizeof in, false}, {out, sizeof out, true}};
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

TCase *builder_tests(void) {
  TCase *tests = tcase_create("builder");
  tcase_set_timeout(tests, 60);
  tcase_add_test(tests, loops_tested_first_may_run_never);
  tcase_add_test(tests, loops_and_branches_nest);
  tcase_add_test(tests, shared_memory_is_seen_after_a_barrier);
  tcase_add_test(tests, vectors_load_and_store_wide);
  tcase_add_test(tests, halves_pack_low_first);
  tcase_add_test(tests, the_same_kernel_gives_the_same_text);
  return tests;
}
