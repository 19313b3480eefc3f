/* Exchanges between lanes, votes and reductions, for every type they take. */
#include <string.h>

#include "generator/gen_barrier.h"
#include "generator/gen_bits.h"
#include "generator/gen_memory.h"
#include "generator/gen_warp.h"
#include "generator_suites.h"
#include "run_kernel.h"

enum { LANES = 32, WORDS = 8 };

/* Word `word` of this thread's row in buffer 0. */
static gen_value place(gen_builder *b, int word, int words) {
  gen_value index = gen_add_imm(b, gen_mul_imm(b, gen_tid_x(b), words), word);
  return gen_add(b, gen_param(b, 0), gen_mul_imm(b, gen_zext(b, index, GEN_I64), 4));
}

static void put(gen_builder *b, int word, gen_value v) {
  gen_store_global(b, v, place(b, word, WORDS));
}

static void run(kernel_body body, int threads, int32_t *out) {
  arena a = ARENA_INIT;
  gen_output k = make_kernel(body, NULL, 1, threads, &a);
  kernel_buffer buffer = {out, (size_t)threads * WORDS * 4, true, false};
  run_kernel(&k, &buffer, 1, 0, 1, threads);
  arena_release(&a);
}

static void build_shuffles(gen_builder *b, void *user) {
  (void)user;
  gen_value t = gen_tid_x(b);
  put(b, 0, gen_shuffle_xor(b, t, gen_i32(b, 5), 32));
  put(b, 1, gen_shuffle_up(b, t, gen_i32(b, 3), 32));
  put(b, 2, gen_shuffle_down(b, t, gen_i32(b, 3), 32));
  put(b, 3, gen_shuffle_idx(b, t, gen_xor(b, t, gen_i32(b, 17)), 32));
  put(b, 4, gen_shuffle_up(b, t, gen_i32(b, 2), 8));
  put(b, 5, gen_shuffle_down(b, t, gen_i32(b, 2), 8));
  put(b, 6, gen_shuffle_xor(b, t, gen_i32(b, 1), 4));
  put(b, 7, gen_shuffle_idx(b, t, gen_i32(b, 2), 16));
}

START_TEST(shuffles_move_lanes) {
  int32_t out[LANES * WORDS];
  run(build_shuffles, LANES, out);
  for (int t = 0; t < LANES; t++) {
    const int32_t *o = out + t * WORDS;
    ck_assert_int_eq(o[0], t ^ 5);
    ck_assert_int_eq(o[1], t < 3 ? t : t - 3);
    ck_assert_int_eq(o[2], t + 3 > 31 ? t : t + 3);
    ck_assert_int_eq(o[3], t ^ 17);
    ck_assert_int_eq(o[4], t % 8 < 2 ? t : t - 2);
    ck_assert_int_eq(o[5], t % 8 + 2 > 7 ? t : t + 2);
    ck_assert_int_eq(o[6], t ^ 1);
    ck_assert_int_eq(o[7], t / 16 * 16 + 2);
  }
}
END_TEST

/* Each type there and back: what a lane gets is what another had. */
static void build_typed(gen_builder *b, void *user) {
  (void)user;
  gen_value t = gen_tid_x(b), lane = gen_i32(b, 1);
  gen_value f = gen_int_to_float(b, t, GEN_F32, false), d = gen_int_to_float(b, t, GEN_F64, false);
  put(b, 0, gen_shuffle_xor(b, f, lane, 32));
  gen_value wide = gen_shuffle_xor(b, gen_mul(b, gen_zext(b, t, GEN_I64), gen_i64(b, 0x100000001)), lane, 32);
  put(b, 1, gen_trunc(b, gen_lshr(b, wide, gen_i64(b, 32)), GEN_I32));
  gen_value half = gen_shuffle_xor(b, gen_float_cast(b, f, GEN_F16), lane, 32);
  put(b, 2, gen_float_cast(b, half, GEN_F32));
  gen_value brain = gen_shuffle_xor(b, gen_float_cast(b, f, GEN_BF16), lane, 32);
  put(b, 3, gen_float_cast(b, brain, GEN_F32));
  put(b, 4, gen_float_cast(b, gen_shuffle_xor(b, gen_float_cast(b, d, GEN_F64), lane, 32), GEN_F32));
  put(b, 5, gen_zext(b, gen_shuffle_xor(b, gen_trunc(b, t, GEN_I8), lane, 32), GEN_I32));
  gen_value odd = gen_compare_imm(b, GEN_NE, gen_and(b, t, lane), 0);
  put(b, 6, gen_zext(b, gen_shuffle_xor(b, odd, lane, 32), GEN_I32));
  gen_value pair[] = {gen_float_cast(b, f, GEN_F16),
                      gen_float_cast(b, gen_fadd(b, f, gen_f32(b, 0.5)), GEN_F16)};
  gen_value moved = gen_shuffle_xor(b, gen_vector(b, pair, 2), lane, 32);
  put(b, 7, gen_float_cast(b, gen_lane(b, moved, 1), GEN_F32));
}

START_TEST(shuffles_take_every_type) {
  int32_t out[LANES * WORDS];
  run(build_typed, LANES, out);
  for (int t = 0; t < LANES; t++) {
    const int32_t *o = out + t * WORDS;
    float f[WORDS];
    memcpy(f, o, sizeof f);
    ck_assert_float_eq(f[0], (float)(t ^ 1));
    ck_assert_int_eq(o[1], t ^ 1);
    ck_assert_float_eq(f[2], (float)(t ^ 1));
    ck_assert_float_eq(f[3], (float)(t ^ 1));
    ck_assert_float_eq(f[4], (float)(t ^ 1));
    ck_assert_int_eq(o[5], t ^ 1);
    ck_assert_int_eq(o[6], (t ^ 1) & 1);
    ck_assert_float_eq(f[7], (float)(t ^ 1) + 0.5f);
  }
}
END_TEST

static void build_votes(gen_builder *b, void *user) {
  (void)user;
  gen_value t = gen_tid_x(b), third = gen_urem(b, t, gen_i32(b, 3));
  gen_value is_zero = gen_compare_imm(b, GEN_EQ, third, 0);
  put(b, 0, gen_ballot(b, is_zero));
  put(b, 1, gen_zext(b, gen_warp_any(b, gen_compare_imm(b, GEN_EQ, t, 31)), GEN_I32));
  put(b, 2, gen_zext(b, gen_warp_all(b, is_zero), GEN_I32));
  put(b, 3, gen_match_any(b, third));
  put(b, 4, gen_match_any(b, gen_shl(b, gen_zext(b, third, GEN_I64), gen_i64(b, 40))));
  put(b, 5, gen_zext(b, gen_match_all(b, gen_lshr(b, t, gen_i32(b, 5))), GEN_I32));
  put(b, 6, gen_lanes_below(b));
  put(b, 7, gen_zext(b, gen_match_all(b, t), GEN_I32));
}

START_TEST(votes_and_matches) {
  int32_t out[LANES * WORDS];
  run(build_votes, LANES, out);
  uint32_t same[3] = {0};
  for (int t = 0; t < LANES; t++) same[t % 3] |= 1u << t;
  for (int t = 0; t < LANES; t++) {
    const int32_t *o = out + t * WORDS;
    ck_assert_uint_eq((uint32_t)o[0], same[0]);
    ck_assert_int_eq(o[1], 1);
    ck_assert_int_eq(o[2], 0);
    ck_assert_uint_eq((uint32_t)o[3], same[t % 3]);
    ck_assert_uint_eq((uint32_t)o[4], same[t % 3]);
    ck_assert_int_eq(o[5], 1);
    ck_assert_uint_eq((uint32_t)o[6], (1u << t) - 1);
    ck_assert_int_eq(o[7], 0);
  }
}
END_TEST

/* Values of both signs. */
static gen_value signed_value(gen_builder *b) {
  return gen_add_imm(b, gen_mul_imm(b, gen_xor(b, gen_tid_x(b), gen_i32(b, 13)), 1000), -15000);
}

static void build_redux(gen_builder *b, void *user) {
  (void)user;
  gen_value x = signed_value(b);
  put(b, 0, gen_redux_add(b, x));
  put(b, 1, gen_redux_min(b, x));
  put(b, 2, gen_redux_max(b, x));
  put(b, 3, gen_redux_umin(b, x));
  put(b, 4, gen_redux_umax(b, x));
  put(b, 5, gen_redux_and(b, x));
  put(b, 6, gen_redux_or(b, x));
  put(b, 7, gen_redux_xor(b, x));
}

START_TEST(one_instruction_reduces_integers) {
  int32_t out[LANES * WORDS], want[WORDS] = {0, INT32_MAX, INT32_MIN, -1, 0, -1, 0, 0};
  run(build_redux, LANES, out);
  for (int t = 0; t < LANES; t++) {
    int32_t x = (t ^ 13) * 1000 - 15000;
    uint32_t u = (uint32_t)x;
    want[0] += x;
    want[1] = x < want[1] ? x : want[1];
    want[2] = x > want[2] ? x : want[2];
    want[3] = u < (uint32_t)want[3] ? x : want[3];
    want[4] = u > (uint32_t)want[4] ? x : want[4];
    want[5] &= x;
    want[6] |= x;
    want[7] ^= x;
  }
  for (int t = 0; t < LANES; t++) ck_assert_mem_eq(out + t * WORDS, want, sizeof want);
}
END_TEST

/* The largest value, the first of equals, and a sum, all at once: of (f32, i32, f64). */
static void combine(gen_builder *b, void *user, gen_value *into, const gen_value *from, int n) {
  (void)user;
  ck_assert_int_eq(n, 3);
  gen_value larger = gen_compare(b, GEN_SGT, from[0], into[0]);
  gen_value first =
      gen_and(b, gen_compare(b, GEN_EQ, from[0], into[0]), gen_compare(b, GEN_SLT, from[1], into[1]));
  gen_value take = gen_or(b, larger, first);
  into[0] = gen_select(b, take, from[0], into[0]);
  into[1] = gen_select(b, take, from[1], into[1]);
  into[2] = gen_fadd(b, into[2], from[2]);
}

static void build_reduce(gen_builder *b, void *user) {
  int threads = *(int *)user;
  gen_value scratch = gen_shared_static(b, "scratch", gen_cta_reduce_bytes(3, threads) + 8, 8);
  gen_value t = gen_tid_x(b);
  for (int round = 0; round < 2; round++) {
    gen_value key = gen_and(b, gen_mul_imm(b, t, 7 + 4 * round), gen_i32(b, 63));
    gen_value values[] = {gen_int_to_float(b, key, GEN_F32, false), t,
                          gen_int_to_float(b, t, GEN_F64, false)};
    if (round == 1) gen_cta_sync(b);
    gen_cta_reduce(b, values, 3, threads, scratch, combine, NULL);
    put(b, round * 3, values[0]);
    put(b, round * 3 + 1, values[1]);
    put(b, round * 3 + 2, gen_float_cast(b, values[2], GEN_F32));
  }
  gen_value narrow[] = {t, t, gen_int_to_float(b, t, GEN_F64, false)};
  gen_warp_reduce(b, narrow, 3, 4, combine, NULL);
  put(b, 6, narrow[0]);
  put(b, 7, gen_float_cast(b, narrow[2], GEN_F32));
}

START_TEST(a_cta_reduces_what_a_callback_combines) {
  static const int sizes[] = {32, 64, 256, 1024};
  int threads = sizes[_i];
  static int32_t out[1024 * WORDS];
  arena a = ARENA_INIT;
  gen_output k = make_kernel(build_reduce, &threads, 1, threads, &a);
  kernel_buffer buffer = {out, (size_t)threads * WORDS * 4, true, false};
  run_kernel(&k, &buffer, 1, 0, 1, threads);
  for (int t = 0; t < threads; t++) {
    float f[WORDS];
    memcpy(f, out + t * WORDS, sizeof f);
    for (int round = 0; round < 2; round++) {
      int best = 0, at = 0;
      for (int i = 0; i < threads; i++) {
        int key = i * (7 + 4 * round) & 63;
        if (key > best || i == 0) best = key, at = i;
      }
      ck_assert_float_eq(f[round * 3], (float)best);
      ck_assert_int_eq(out[t * WORDS + round * 3 + 1], at);
      ck_assert_float_eq(f[round * 3 + 2], (float)threads * (float)(threads - 1) / 2);
    }
    ck_assert_int_eq(out[t * WORDS + 6], t / 4 * 4 + 3);
    ck_assert_float_eq(f[7], (float)(t / 4 * 16 + 6));
  }
  arena_release(&a);
}
END_TEST

static void build_bits(gen_builder *b, void *user) {
  gen_value x = gen_mul_imm(b, signed_value(b), 654321),
            wide = gen_mul(b, gen_sext(b, x, GEN_I64), gen_i64(b, 987654321));
  if (*(int *)user == 0) {
    put(b, 0, gen_popcount(b, gen_unknown(b, x)));
    put(b, 1, gen_leading_zeros(b, gen_lshr(b, x, gen_tid_x(b))));
    put(b, 2, gen_trailing_zeros(b, wide));
    put(b, 3, gen_reverse_bits(b, x));
    put(b, 4, gen_bit_field(b, x, 5, 11, true));
    put(b, 5, gen_bit_field(b, x, 5, 11, false));
    put(b, 6, gen_bit_field_at(b, x, gen_and(b, gen_tid_x(b), gen_i32(b, 15)), 8));
    put(b, 7, gen_permute_bytes(b, x, gen_tid_x(b), gen_i32(b, 0x0482 | 8 << 12)));
  } else {
    gen_value t = gen_tid_x(b);
    put(b, 0, gen_umulhi(b, x, gen_i32(b, 0x9E3779B9)));
    put(b, 1, gen_smulhi(b, x, gen_i32(b, 0x9E3779B9)));
    put(b, 2, gen_trunc(b, gen_smulhi(b, gen_unknown(b, wide), gen_i64(b, 0x123456789ABCDEF)), GEN_I32));
    put(b, 3, gen_funnel_shift(b, x, t, t));
    put(b, 4, gen_smin(b, x, t));
    put(b, 5, gen_smax(b, x, t));
    put(b, 6, gen_umax(b, x, t));
    put(b, 7, gen_umin(b, x, t));
  }
}

START_TEST(bits_and_integers) {
  int32_t out[LANES * WORDS];
  for (int part = 0; part < 2; part++) {
    arena a = ARENA_INIT;
    gen_output k = make_kernel(build_bits, &part, 1, LANES, &a);
    kernel_buffer buffer = {out, sizeof out, true, false};
    run_kernel(&k, &buffer, 1, 0, 1, LANES);
    arena_release(&a);
    for (int t = 0; t < LANES; t++) {
      const int32_t *o = out + t * WORDS;
      uint32_t x = (uint32_t)((t ^ 13) * 1000 - 15000) * 654321u;
      int64_t wide = (int64_t)(int32_t)x * 987654321;
      if (part == 0) {
        uint32_t down = x >> t, reversed = 0;
        for (int i = 0; i < 32; i++) reversed |= (x >> i & 1) << (31 - i);
        ck_assert_int_eq(o[0], __builtin_popcount(x));
        ck_assert_int_eq(o[1], down ? __builtin_clz(down) : 32);
        ck_assert_int_eq(o[2], wide ? __builtin_ctzll((uint64_t)wide) : 64);
        ck_assert_uint_eq((uint32_t)o[3], reversed);
        ck_assert_int_eq(o[4], (int32_t)(x << 16) >> 21);
        ck_assert_int_eq(o[5], (int32_t)(x >> 5 & 2047));
        ck_assert_int_eq(o[6], (int32_t)(x >> (t & 15) & 255));
        uint32_t want = (x >> 16 & 255) | (x & 0x80 ? 0xFF00 : 0) | ((uint32_t)t & 255) << 16 |
                        (x & 0x80 ? 0xFF000000 : 0);
        /* selector 0x8482: byte 2 of low; sign of byte 0; byte 0 of high; sign of byte 0 */
        ck_assert_uint_eq((uint32_t)o[7], want);
      } else {
        ck_assert_uint_eq((uint32_t)o[0], (uint32_t)((uint64_t)x * 0x9E3779B9u >> 32));
        ck_assert_int_eq(o[1], (int32_t)((int64_t)(int32_t)x * (int32_t)0x9E3779B9u >> 32));
        ck_assert_int_eq(o[2], (int32_t)((__int128)wide * 0x123456789ABCDEF >> 64));
        ck_assert_uint_eq((uint32_t)o[3], (uint32_t)(((uint64_t)(uint32_t)t << 32 | x) >> t));
        ck_assert_int_eq(o[4], (int32_t)x < t ? (int32_t)x : t);
        ck_assert_int_eq(o[5], (int32_t)x > t ? (int32_t)x : t);
        ck_assert_uint_eq((uint32_t)o[6], x > (uint32_t)t ? x : (uint32_t)t);
        ck_assert_uint_eq((uint32_t)o[7], x < (uint32_t)t ? x : (uint32_t)t);
      }
    }
  }
}
END_TEST

static const uint32_t rising[] = {0xFFFFFFFF, 0xFFC00000, 0xFF800000, 0xC0000000, 0xBF800000,
                                  0x80000001, 0x80000000, 0x00000000, 0x00000001, 0x3F800000,
                                  0x40000000, 0x7F800000, 0x7FC00000};

static void build_order(gen_builder *b, void *user) {
  (void)user;
  gen_value x = gen_load_global(
      b, GEN_F32, 1, gen_add(b, gen_param(b, 1), gen_zext(b, gen_mul_imm(b, gen_tid_x(b), 4), GEN_I64)),
      true);
  gen_value key = gen_float_to_ordered(b, x);
  put(b, 0, key);
  put(b, 1, gen_ordered_to_float(b, key, GEN_F32));
  gen_value half = gen_float_to_ordered(b, gen_float_cast(b, x, GEN_F16));
  put(b, 2, gen_zext(b, half, GEN_I32));
  put(b, 3, gen_float_cast(b, gen_ordered_to_float(b, half, GEN_F16), GEN_F32));
  for (int i = 4; i < WORDS; i++) put(b, i, gen_i32(b, 0));
}

START_TEST(floats_as_ordered_integers) {
  enum { N = (int)COUNT_OF(rising) };
  int32_t out[LANES * WORDS];
  uint32_t in[LANES] = {0};
  memcpy(in, rising, sizeof rising);
  arena a = ARENA_INIT;
  gen_output k = make_kernel(build_order, NULL, 2, LANES, &a);
  kernel_buffer buffers[] = {{out, sizeof out, true, false}, {in, sizeof in, false, false}};
  run_kernel(&k, buffers, 2, 0, 1, LANES);
  arena_release(&a);
  for (int t = 0; t < N; t++) {
    const int32_t *o = out + t * WORDS;
    if (t) ck_assert_uint_gt((uint32_t)o[0], (uint32_t)o[-WORDS]);
    if (t > 2) /* a conversion makes all NaNs one, of no sign */
      ck_assert_uint_ge((uint32_t)o[2], (uint32_t)o[2 - WORDS]);
    ck_assert_uint_eq((uint32_t)o[1], rising[t]);
    if (rising[t] >> 23 != 0x1FF && rising[t] >> 23 != 0xFF && rising[t] << 1 != 2)
      ck_assert_uint_eq((uint32_t)o[3], rising[t]);
  }
}
END_TEST

TCase *warp_tests(void) {
  TCase *tests = tcase_create("warps and bits");
  tcase_set_timeout(tests, 60);
  tcase_add_test(tests, shuffles_move_lanes);
  tcase_add_test(tests, shuffles_take_every_type);
  tcase_add_test(tests, votes_and_matches);
  tcase_add_test(tests, one_instruction_reduces_integers);
  tcase_add_loop_test(tests, a_cta_reduces_what_a_callback_combines, 0, 4);
  tcase_add_test(tests, bits_and_integers);
  tcase_add_test(tests, floats_as_ordered_integers);
  return tests;
}
