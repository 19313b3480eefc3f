/* Every pair of dtypes, one by one and packed, against dtype_load and dtype_store: all codes of what has at
 * most 16 bits, and edges and a sample of the others. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "generator/gen_convert.h"
#include "generator/gen_memory.h"
#include "generator_suites.h"
#include "run_kernel.h"
#include "tests/support/thinned.h"

enum { THREADS = 128, EACH = 8, MOST = 65536 };

typedef struct conversion {
  dtype from;
  bool packed;
  int row_bytes; /* of the results of one dtype */
} conversion;

/* Bytes [first, first + n) of a thread's elements, in accesses of at most 16. */
static void move_words(gen_builder *b, gen_value address, int bytes, gen_value *words, bool load) {
  for (int at = 0; at < bytes; at += 16) {
    int n = bytes - at < 16 ? bytes - at : 16;
    gen_value place = gen_add_imm(b, address, at);
    if (load)
      gen_load_words(b, n, place, true, GEN_CACHE_DEFAULT, words + at / 4);
    else
      gen_store_words(b, n, words + at / 4, place, GEN_CACHE_DEFAULT);
  }
}

static void build_conversions(gen_builder *b, void *user) {
  const conversion *c = user;
  gen_value index = gen_add(b, gen_mul_imm(b, gen_ctaid_x(b), THREADS), gen_tid_x(b));
  gen_value first = gen_zext(b, index, GEN_I64), words[2 * EACH], values[EACH], packed[2 * EACH];
  int bits = dtype_bits(c->from);
  arke_error err = ARKE_ERROR_INIT;
  move_words(b, gen_add(b, gen_param(b, 0), gen_mul_imm(b, first, bits)), bits, words, true);
  gen_unpack(b, c->from, words, EACH, values);
  for (int to = 0; to < DTYPE_COUNT; to++) {
    int to_bits = dtype_bits((dtype)to);
    if (c->packed) {
      gen_pack(b, (dtype)to, values, EACH, packed);
    } else { /* element by element: stored type and back, then packed without a further change */
      gen_value again[EACH];
      for (int i = 0; i < EACH; i++) {
        ck_assert_int_eq(gen_type_of(b, values[i]), gen_compute_type(c->from));
        ck_assert_int_eq(gen_convert(b, values[i], (dtype)to, &again[i], &err), ARKE_OK);
        ck_assert_int_eq(gen_type_of(b, again[i]), gen_storage_type((dtype)to));
        again[i] = gen_widen(b, (dtype)to, again[i]);
      }
      gen_pack(b, (dtype)to, again, EACH, packed);
    }
    ck_assert_int_eq(gen_packed_words((dtype)to, EACH), (EACH * to_bits + 31) / 32);
    gen_value row = gen_add_imm(b, gen_param(b, 1), (int64_t)to * c->row_bytes);
    move_words(b, gen_add(b, row, gen_mul_imm(b, first, to_bits)), to_bits, packed, false);
  }
}

/* All codes, or edges of every format and of the integers, their neighbours, and random ones. */
static int fill(dtype t, void *data) {
  int bits = dtype_bits(t);
  if (bits <= 16) {
    int n = bits == 16 ? MOST : THREADS * EACH;
    for (int i = 0; i < n; i++) {
      if (bits == 16)
        ((uint16_t *)data)[i] = (uint16_t)i;
      else if (bits == 8)
        ((uint8_t *)data)[i] = t == DTYPE_BOOL ? (uint8_t)(i & 1) : (uint8_t)i;
      else if (i % 2 == 0)
        ((uint8_t *)data)[i / 2] = (uint8_t)(i / 2);
    }
    return n;
  }
  int n = 16 * THREADS * EACH;
  uint64_t random = 12345;
  for (int i = 0; i < n; i++) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    double u = (double)(random >> 11) * 0x1p-53 - 0.5, v;
    if (i < 4 * 1024) { /* near powers of two and halves of small numbers, where roundings turn */
      v = ldexp(1 + (double)(i / 7 % 64) / 64, i % 60 - 30);
      if (i % 7 == 1) v = nextafter(v, INFINITY);
      if (i % 7 == 2) v = nextafter(v, 0);
      if (i % 7 == 3) v = (double)nextafterf((float)v, 0);
      if (i / 4 % 2) v = -v;
    } else if (i < 8 * 1024) {
      v = u * ldexp(1, i % 40 - 8);
    } else {
      v = u * ldexp(1, i % 290 - 150);
    }
    static const double edges[] = {
        0,       -0.0,  INFINITY, -INFINITY,  NAN,           65504,          65519.9,  65520,    448,
        464,     57344, 61440,    127.5,      128.5,         -128.5,         -129,     255.5,    -0.5,
        0.5,     1.5,   32767.5,  2147483647, -2147483648.0, 2147483648.0,   9.3e18,   -9.3e18,  0x1p-24,
        0x1p-25, 7.5,   -8.5,     0x1.FEp127, 0x1.FFp127,    0x1.FFFFFEp127, 0x1p-133, 0x1p-134, 0x1.8p-149,
        1e300};
    if (i < (int)COUNT_OF(edges)) v = edges[i];
    if (dtype_class_of(t) == DTYPE_CLASS_INT) { /* within what a double holds */
      v = isnan(v) ? 0 : trunc(fmin(fmax(v, -0x1p53), 0x1p53));
    }
    dtype_store(t, data, i, v);
  }
  return n;
}

static void check_conversions(const run_options *o, dtype from, bool packed, dtype first, dtype last) {
  static uint8_t in[MOST * 8], out[DTYPE_COUNT * (size_t)MOST * 8];
  int n = fill(from, in);
  conversion c = {from, packed, n * 8};
  arena a = ARENA_INIT;
  gen_output k = make_kernel_for(o, build_conversions, &c, 2, THREADS, &a);
  kernel_buffer buffers[] = {{in, (size_t)dtype_bytes(from, n), false, false},
                             {out, DTYPE_COUNT * (size_t)c.row_bytes, true, true}};
  run_kernel_on(o, &k, buffers, 2, n, n / (THREADS * EACH), THREADS);
  for (int to = (int)first; to <= (int)last; to++)
    for (int i = 0; i < n; i++) {
      double v = dtype_load(from, in, i), want = dtype_round((dtype)to, v);
      double got = dtype_load((dtype)to, out + to * c.row_bytes, i);
      bool same = isnan(want) ? isnan(got) : got == want && signbit(got) == signbit(want);
      if (!same) /* an assertion each would write a file each */
        ck_abort_msg("%s of %s %.17g: %.17g instead of %.17g", dtype_name((dtype)to), dtype_name(from), v,
                     got, want);
    }
  arena_release(&a);
}

START_TEST(every_pair_packed) {
  RUN_EACH_WITH_SANITIZERS(8, _i);
  check_conversions(NULL, (dtype)_i, true, 0, DTYPE_COUNT - 1);
}
END_TEST

START_TEST(every_pair_one_by_one) {
  RUN_EACH_WITH_SANITIZERS(8, _i);
  check_conversions(NULL, (dtype)_i, false, 0, DTYPE_COUNT - 1);
}
END_TEST

/* Without the instructions for 8-bit floats: as on sm_80. */
START_TEST(small_floats_by_arithmetic) {
  RUN_EACH_WITH_SANITIZERS(8, _i);
  static const dtype from[] = {DTYPE_F32, DTYPE_F64, DTYPE_BF16, DTYPE_E4M3, DTYPE_E5M2};
  target plain = *target_find("sm_90a", NULL);
  plain.has.convert_fp8 = false;
  run_options o = {&plain, "sm_90a", 1};
  check_conversions(&o, from[_i], true, DTYPE_E4M3, DTYPE_E2M1);
}
END_TEST

/* With those for 4-bit ones. */
START_TEST(small_floats_by_instructions) {
  target newer = *target_find("sm_90a", NULL);
  newer.name = "sm_100a";
  newer.llvm_features = "+ptx88";
  newer.has.convert_fp4 = true;
  run_options o = {&newer, "sm_100a", 1};
  check_conversions(&o, DTYPE_F32, true, DTYPE_E4M3, DTYPE_E2M1);
  check_conversions(&o, DTYPE_E2M1, false, DTYPE_E4M3, DTYPE_E2M1);
}
END_TEST

/* A map of 8 elements costs what the instructions allow. */
static void build_map(gen_builder *b, void *user) {
  dtype t = *(dtype *)user;
  gen_value words[4], values[EACH], at = gen_mul_imm(b, gen_zext(b, gen_tid_x(b), GEN_I64), dtype_bits(t));
  gen_load_words(b, dtype_bits(t), gen_add(b, gen_param(b, 0), at), true, GEN_CACHE_DEFAULT, words);
  gen_unpack(b, t, words, EACH, values);
  for (int i = 0; i < EACH; i++) values[i] = gen_fadd(b, values[i], values[i]);
  gen_pack(b, t, values, EACH, words);
  gen_store_words(b, dtype_bits(t), words, gen_add(b, gen_param(b, 1), at), GEN_CACHE_DEFAULT);
}

static int count(const char *text, const char *word) {
  int n = 0;
  for (const char *p = strstr(text, word); p; p = strstr(p + 1, word)) n++;
  return n;
}

START_TEST(pairs_are_converted_together) {
  static const struct {
    dtype type;
    const char *instruction;
    int times, all;
  } cases[] = {{DTYPE_BF16, "cvt.rn.bf16x2.f32", 4, 4},
               {DTYPE_F16, "cvt.rn.f16x2.f32", 4, 12},
               {DTYPE_E4M3, "cvt.rn.satfinite.e4m3x2.f32", 4, 16},
               {DTYPE_E5M2, "cvt.rn.satfinite.e5m2x2.f32", 4, 12}};
  arena a = ARENA_INIT;
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    dtype t = cases[i].type;
    gen_output k = make_kernel(build_map, &t, 2, THREADS, &a);
    ck_assert_int_eq(count(k.ptx, cases[i].instruction), cases[i].times);
    ck_assert_msg(count(k.ptx, "cvt.r") + count(k.ptx, "cvt.f32") <= cases[i].all, "%s", k.ptx);
  }
  arena_release(&a);
}
END_TEST

static void build_nibbles(gen_builder *b, void *user) {
  (void)user;
  gen_value t = gen_tid_x(b), index = gen_and(b, t, gen_i32(b, 7));
  gen_value at = gen_mul_imm(b, gen_zext(b, t, GEN_I64), 8), word = gen_i32(b, 0x76543210);
  gen_value one = gen_nibble(b, word, index);
  gen_store_global(b, gen_zext(b, one, GEN_I32), gen_add(b, gen_param(b, 0), at));
  gen_store_global(b, gen_with_nibble(b, gen_i32(b, 0x11111111), index, one),
                   gen_add(b, gen_param(b, 0), gen_add_imm(b, at, 4)));
}

START_TEST(nibbles_by_number) {
  uint32_t out[THREADS * 2];
  arena a = ARENA_INIT;
  gen_output k = make_kernel(build_nibbles, NULL, 1, THREADS, &a);
  kernel_buffer buffer = {out, sizeof out, true, false};
  run_kernel(&k, &buffer, 1, 0, 1, THREADS);
  for (uint32_t t = 0; t < THREADS; t++) {
    uint32_t i = t % 8;
    ck_assert_uint_eq(out[2 * t], i);
    ck_assert_uint_eq(out[2 * t + 1], (0x11111111u & ~(15u << 4 * i)) | i << 4 * i);
  }
  arena_release(&a);
}
END_TEST

static void build_halves(gen_builder *b, void *user) {
  gen_value t = gen_zext(b, gen_tid_x(b), GEN_I64), halves[2];
  gen_value word = gen_load_global(b, GEN_I32, 1, gen_add(b, gen_param(b, 0), gen_mul_imm(b, t, 4)), true);
  const dtype *types = user;
  gen_fp8_to_halves(b, types[0], word, types[1], halves);
  gen_store_global(b, gen_vector(b, halves, 2), gen_add(b, gen_param(b, 1), gen_mul_imm(b, t, 8)));
}

/* All codes, with and without the instructions. */
START_TEST(codes_of_8_bits_become_halves) {
  enum { CODES = 256 };
  dtype types[] = {_i % 2 ? DTYPE_E5M2 : DTYPE_E4M3, _i / 2 % 2 ? DTYPE_BF16 : DTYPE_F16};
  uint8_t in[CODES];
  uint16_t out[CODES];
  target t = *target_find("sm_90a", NULL);
  t.has.convert_fp8 = _i < 4;
  run_options o = {&t, "sm_90a", 1};
  arena a = ARENA_INIT;
  for (int i = 0; i < CODES; i++) in[i] = (uint8_t)i;
  gen_output k = make_kernel_for(&o, build_halves, types, 2, CODES / 4, &a);
  kernel_buffer buffers[] = {{in, sizeof in, false, false}, {out, sizeof out, true, false}};
  run_kernel_on(&o, &k, buffers, 2, 0, 1, CODES / 4);
  for (int i = 0; i < CODES; i++) {
    double want = dtype_load(types[0], in, i), got = dtype_load(types[1], out, i);
    bool same = isnan(want) ? isnan(got) : got == want && signbit(got) == signbit(want);
    ck_assert_msg(same, "code %d: %g instead of %g", i, got, want);
  }
  arena_release(&a);
}
END_TEST

TCase *convert_tests(void) {
  TCase *tests = tcase_create("conversions");
  tcase_set_timeout(tests, 120);
  tcase_add_loop_test(tests, every_pair_packed, 0, DTYPE_COUNT);
  tcase_add_loop_test(tests, every_pair_one_by_one, 0, DTYPE_COUNT);
  tcase_add_loop_test(tests, small_floats_by_arithmetic, 0, 5);
  tcase_add_test(tests, small_floats_by_instructions);
  tcase_add_test(tests, pairs_are_converted_together);
  tcase_add_test(tests, nibbles_by_number);
  tcase_add_loop_test(tests, codes_of_8_bits_become_halves, 0, 8);
  return tests;
}
