#include "tests/base/base_suites.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "base/error.h"

static const dtype SMALL[] = {DTYPE_F16, DTYPE_BF16, DTYPE_E4M3, DTYPE_E5M2, DTYPE_E2M1};

static double load_bits(dtype t, uint64_t bits) {
  uint64_t cell = bits; /* little-endian, as everything here */
  return dtype_load(t, &cell, 0);
}

static uint64_t store_bits(dtype t, double value) {
  uint64_t cell = 0;
  dtype_store(t, &cell, 0, value);
  return cell;
}

static bool has_infinity(dtype t) {
  return t == DTYPE_F16 || t == DTYPE_BF16;
}

START_TEST(every_pattern_round_trips) {
  dtype t = SMALL[_i];
  int bits = dtype_bits(t), nans = 0;
  for (uint64_t p = 0; p < 1u << bits; p++) {
    double v = load_bits(t, p);
    uint64_t back = store_bits(t, v);
    if (isnan(v)) {
      nans++;
      ck_assert(isnan(load_bits(t, back)));
    } else if (isinf(v) && !has_infinity(t)) { /* e5m2 saturates */
      ck_assert_double_eq(load_bits(t, back), copysign(dtype_max(t), v));
    } else {
      ck_assert_uint_eq(back, p); /* zeros keep their sign */
    }
  }
  static const int expected[] = {2 * 1023, 2 * 127, 2, 6, 0};
  ck_assert_int_eq(nans, expected[_i]);
}
END_TEST

/* Values that the formats' definitions give (IEEE 754; bf16: the upper half of f32; OCP FP8 and MX). */
static const struct {
  dtype type;
  uint64_t bits;
  double value;
} KNOWN[] = {
    {DTYPE_F16, 0x3C00, 1},
    {DTYPE_F16, 0xC000, -2},
    {DTYPE_F16, 0x0001, 0x1p-24},
    {DTYPE_F16, 0x03FF, 0x3FFp-24},
    {DTYPE_F16, 0x0400, 0x1p-14},
    {DTYPE_F16, 0x7BFF, 65504},
    {DTYPE_F16, 0x7C00, INFINITY},
    {DTYPE_F16, 0x3555, 0x1.554p-2},
    {DTYPE_BF16, 0x3F80, 1},
    {DTYPE_BF16, 0x4049, 3.140625},
    {DTYPE_BF16, 0x0001, 0x1p-133},
    {DTYPE_BF16, 0x7F7F, 0x1.FEp127},
    {DTYPE_BF16, 0xFF80, -INFINITY},
    {DTYPE_E4M3, 0x38, 1},
    {DTYPE_E4M3, 0x01, 0x1p-9},
    {DTYPE_E4M3, 0x08, 0x1p-6},
    {DTYPE_E4M3, 0x7E, 448},
    {DTYPE_E4M3, 0xFE, -448},
    {DTYPE_E5M2, 0x3C, 1},
    {DTYPE_E5M2, 0x01, 0x1p-16},
    {DTYPE_E5M2, 0x04, 0x1p-14},
    {DTYPE_E5M2, 0x7B, 57344},
    {DTYPE_E5M2, 0x7C, INFINITY},
    {DTYPE_E2M1, 0, 0},
    {DTYPE_E2M1, 1, 0.5},
    {DTYPE_E2M1, 2, 1},
    {DTYPE_E2M1, 3, 1.5},
    {DTYPE_E2M1, 4, 2},
    {DTYPE_E2M1, 5, 3},
    {DTYPE_E2M1, 6, 4},
    {DTYPE_E2M1, 7, 6},
    {DTYPE_E2M1, 15, -6},
    {DTYPE_F32, 0x3F800000, 1},
    {DTYPE_F64, 0x4000000000000000, 2},
    {DTYPE_I8, 0x80, -128},
    {DTYPE_U8, 0xFF, 255},
    {DTYPE_I4, 0x8, -8},
    {DTYPE_I4, 0x7, 7},
    {DTYPE_I16, 0xFFFF, -1},
    {DTYPE_I32, 0x80000000, -2147483648.0},
    {DTYPE_I64, 0xFFFFFFFFFFFFFFFE, -2},
    {DTYPE_BOOL, 1, 1},
};

START_TEST(known_patterns) {
  for (size_t i = 0; i < COUNT_OF(KNOWN); i++) {
    ck_assert_msg(load_bits(KNOWN[i].type, KNOWN[i].bits) == KNOWN[i].value, "%s %llx",
                  dtype_name(KNOWN[i].type), (unsigned long long)KNOWN[i].bits);
    if (!isinf(KNOWN[i].value))
      ck_assert_msg(store_bits(KNOWN[i].type, KNOWN[i].value) == KNOWN[i].bits, "%s %llx",
                    dtype_name(KNOWN[i].type), (unsigned long long)KNOWN[i].bits);
  }
}
END_TEST

START_TEST(bf16_is_half_of_f32) {
  for (uint32_t p = 0; p < 0x10000; p++) {
    uint32_t wide = p << 16;
    float f;
    memcpy(&f, &wide, sizeof f);
    double v = load_bits(DTYPE_BF16, p);
    ck_assert(isnan(f) ? isnan(v) : v == (double)f);
  }
}
END_TEST

/* Rounding is checked against the definition alone: of two neighbours the nearer, of two equally near the one
 * whose pattern is even. Between each two neighbours: the middle, and the next doubles beside it. */
START_TEST(rounds_to_nearest_even) {
  dtype t = SMALL[_i];
  double max = dtype_max(t);
  for (uint64_t p = 0; load_bits(t, p) < max; p++) {
    double low = load_bits(t, p), high = load_bits(t, p + 1);
    ck_assert_double_lt(low, high);
    double middle = low + (high - low) / 2;
    uint64_t even = p % 2 == 0 ? p : p + 1;
    ck_assert_uint_eq(store_bits(t, middle), even);
    ck_assert_uint_eq(store_bits(t, nextafter(middle, 0)), p);
    ck_assert_uint_eq(store_bits(t, nextafter(middle, INFINITY)), p + 1);
    uint64_t sign = 1ull << (dtype_bits(t) - 1);
    ck_assert_uint_eq(store_bits(t, -middle), even | sign);
    ck_assert_double_eq(dtype_round(t, nextafter(middle, 0)), low);
  }
}
END_TEST

START_TEST(many_are_rounded_as_one) {
  enum { N = 4000 };
  static double x[N], y[N];
  for (int i = 0; i < N; i++) x[i] = ldexp(sin(i), i % 80 - 40);
  x[0] = NAN, x[1] = INFINITY, x[2] = -INFINITY, x[3] = -0.0, x[4] = 1e300, x[5] = -1e-300;
  for (int t = 0; t < DTYPE_COUNT; t++) {
    dtype_round_all((dtype)t, x, y, N);
    for (int i = 0; i < N; i++) {
      double want = dtype_round((dtype)t, x[i]);
      bool same = isnan(want) ? isnan(y[i]) : y[i] == want && signbit(y[i]) == signbit(want);
      ck_assert_msg(same, "%s: %g becomes %g, not %g", dtype_name((dtype)t), x[i], y[i], want);
    }
  }
}
END_TEST

START_TEST(overflow_saturates_or_is_infinite) {
  for (size_t i = 0; i < COUNT_OF(SMALL); i++) {
    dtype t = SMALL[i];
    double max = dtype_max(t), beyond = has_infinity(t) ? INFINITY : max;
    double half_ulp = 0;
    for (uint64_t p = 0; load_bits(t, p) < max; p++) half_ulp = (max - load_bits(t, p)) / 2;
    ck_assert_double_eq(dtype_round(t, nextafter(max + half_ulp, 0)),
                        max); /* the last one that rounds down */
    ck_assert_double_eq(dtype_round(t, max + half_ulp), beyond);
    ck_assert_double_eq(dtype_round(t, 1e300), beyond);
    ck_assert_double_eq(dtype_round(t, -1e300), -beyond);
    ck_assert_double_eq(dtype_round(t, -INFINITY), -beyond);
    ck_assert(t == DTYPE_E2M1 ? dtype_round(t, NAN) == 6 : isnan(dtype_round(t, NAN)));
    ck_assert_double_eq(dtype_round(t, 1e-300), 0);
    ck_assert(signbit(dtype_round(t, -1e-300)));
  }
}
END_TEST

START_TEST(integers_round_and_saturate) {
  static const struct {
    dtype type;
    double value, stored;
  } cases[] = {
      {DTYPE_I8, 2.5, 2},
      {DTYPE_I8, 3.5, 4},
      {DTYPE_I8, -2.5, -2},
      {DTYPE_I8, 127.4, 127},
      {DTYPE_I8, 1000, 127},
      {DTYPE_I8, -1000, -128},
      {DTYPE_U8, -1, 0},
      {DTYPE_U8, 254.5, 254},
      {DTYPE_U8, 256, 255},
      {DTYPE_I4, 7.6, 7},
      {DTYPE_I4, -9, -8},
      {DTYPE_I16, 40000, 32767},
      {DTYPE_I32, 3e9, 2147483647},
      {DTYPE_I32, -3e9, -2147483648.0},
      {DTYPE_I64, -1e30, -0x1p63},
      {DTYPE_I64, 1e30, 0x1p63}, /* 2^63 - 1, which as a double is 2^63 */
      {DTYPE_I64, INFINITY, 0x1p63},
      {DTYPE_I64, -0x1p53, -0x1p53},
      {DTYPE_I32, NAN, 0},
      {DTYPE_U8, NAN, 0},
      {DTYPE_BOOL, 0.25, 1},
      {DTYPE_BOOL, 0, 0},
      {DTYPE_BOOL, NAN, 1},
  };
  for (size_t i = 0; i < COUNT_OF(cases); i++)
    ck_assert_msg(dtype_round(cases[i].type, cases[i].value) == cases[i].stored, "%s %g: %g",
                  dtype_name(cases[i].type), cases[i].value, dtype_round(cases[i].type, cases[i].value));
  ck_assert_uint_eq(store_bits(DTYPE_I64, 1e30), INT64_MAX);
}
END_TEST

START_TEST(arrays_are_packed) {
  for (int t = 0; t < DTYPE_COUNT; t++) {
    uint8_t cells[64], guard = 0xA5;
    memset(cells, guard, sizeof cells);
    int n = 5;
    size_t bytes = (size_t)dtype_bytes((dtype)t, n);
    ck_assert_uint_eq(bytes, dtype_bits((dtype)t) == 4 ? 3 : (size_t)(n * dtype_bits((dtype)t) / 8));
    for (int i = n - 1; i >= 0; i--) dtype_store((dtype)t, cells, i, i % 2);
    for (int i = 0; i < n; i++) ck_assert_double_eq(dtype_load((dtype)t, cells, i), i % 2);
    for (size_t i = bytes; i < sizeof cells; i++) ck_assert_uint_eq(cells[i], guard);
  }
  uint8_t pair = 0;
  dtype_store(DTYPE_I4, &pair, 0, 3); /* low half first */
  dtype_store(DTYPE_I4, &pair, 1, -1);
  ck_assert_uint_eq(pair, 0xF3);
  dtype_store(DTYPE_E2M1, &pair, 0, 6); /* the neighbour stays */
  ck_assert_uint_eq(pair, 0xF7);
  ck_assert_int_eq(dtype_bytes(DTYPE_I4, 0), 0);
  ck_assert_int_eq(dtype_bytes(DTYPE_F64, 1ll << 40), 1ll << 43);
}
END_TEST

START_TEST(names_and_codes_round_trip) {
  for (int i = 0; i < DTYPE_COUNT; i++) {
    dtype t;
    ck_assert(dtype_from_name(dtype_name((dtype)i), &t) && (int)t == i);
    ck_assert(dtype_from_dlpack(dtype_dlpack_code((dtype)i), (uint8_t)dtype_bits((dtype)i), 1, &t) &&
              (int)t == i);
    ck_assert(!dtype_from_dlpack(dtype_dlpack_code((dtype)i), (uint8_t)dtype_bits((dtype)i), 2, &t));
  }
  dtype t;
  ck_assert(!dtype_from_name("float32", &t) && !dtype_from_name("", &t) && !dtype_from_name("F32", &t));
  ck_assert(!dtype_from_dlpack(2, 128, 1, &t));
}
END_TEST

START_TEST(roundoff_is_half_an_ulp_of_one) {
  for (int i = 0; i < DTYPE_COUNT; i++) {
    dtype t = (dtype)i;
    if (dtype_class_of(t) != DTYPE_CLASS_FLOAT) {
      ck_assert_double_eq(dtype_roundoff(t), 0);
      continue;
    }
    double u = dtype_roundoff(t);
    ck_assert_double_gt(dtype_round(t, 1 + 2 * u), 1);
    ck_assert_double_eq(dtype_round(t, 1 + u), 1); /* the tie goes to 1, which is even */
    ck_assert_double_eq(dtype_round(t, dtype_max(t)), dtype_max(t));
  }
}
END_TEST

TCase *base_dtype_case(void) {
  TCase *t = tcase_create("dtype");
  tcase_add_loop_test(t, every_pattern_round_trips, 0, COUNT_OF(SMALL));
  tcase_add_test(t, known_patterns);
  tcase_add_test(t, bf16_is_half_of_f32);
  tcase_add_loop_test(t, rounds_to_nearest_even, 0, COUNT_OF(SMALL));
  tcase_add_test(t, many_are_rounded_as_one);
  tcase_add_test(t, overflow_saturates_or_is_infinite);
  tcase_add_test(t, integers_round_and_saturate);
  tcase_add_test(t, arrays_are_packed);
  tcase_add_test(t, names_and_codes_round_trip);
  tcase_add_test(t, roundoff_is_half_an_ulp_of_one);
  return t;
}
