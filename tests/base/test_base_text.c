#include "tests/base/base_suites.h"

#include <string.h>

#include "base/error.h"
#include "base/text.h"

START_TEST(integers_are_whole_and_in_range) {
  int64_t v = -1;
  ck_assert(text_to_i64("4096", 4, 1, 10000, &v) && v == 4096);
  ck_assert(text_to_i64("4096x", 4, 1, 10000, &v) && v == 4096); /* the length counts */
  ck_assert(text_to_i64("0", 1, 0, 0, &v) && v == 0);
  ck_assert(text_to_i64("007", 3, 0, 9, &v) && v == 7);
  ck_assert(text_to_i64("9223372036854775807", 19, 0, INT64_MAX, &v) && v == INT64_MAX);
  v = -1;
  static const char *const bad[] = {
      "", "-1", "+1", " 1", "1 ", "0x10", "1.0", "1e3", "9223372036854775808", "99999999999999999999999999"};
  for (size_t i = 0; i < COUNT_OF(bad); i++)
    ck_assert_msg(!text_to_i64(bad[i], strlen(bad[i]), 0, INT64_MAX, &v), "%s", bad[i]);
  ck_assert(!text_to_i64("4", 1, 5, 9, &v) && !text_to_i64("10", 2, 5, 9, &v));
  ck_assert_int_eq(v, -1); /* untouched */
}
END_TEST

START_TEST(decimals_are_whole_and_finite) {
  double v = -1;
  ck_assert(text_to_f64("1e-6", &v) && v == 1e-6);
  ck_assert(text_to_f64("-0.5", &v) && v == -0.5);
  ck_assert(text_to_f64(".25", &v) && v == 0.25);
  ck_assert(text_to_f64("+3", &v) && v == 3);
  ck_assert(text_to_f64("1E2", &v) && v == 100);
  ck_assert(text_to_f64("0.1", &v) && v == 0.1);
  v = -1;
  static const char *const bad[] = {"",     "x",     " 1",   "1 ",    "1,5",      "nan", "inf",
                                    "-inf", "1e999", "0x10", "0x1p3", "1.5.2",    "1e",  "-",
                                    ".",    "+-1",   "1f",   "--1",   "infinity", "-nan"};
  for (size_t i = 0; i < COUNT_OF(bad); i++) ck_assert_msg(!text_to_f64(bad[i], &v), "%s", bad[i]);
  ck_assert_double_eq(v, -1);
}
END_TEST

START_TEST(nearest_is_a_likely_misspelling) {
  static const char *const ops[] = {"matmul", "linear", "softmax", "relu", "add"};
  ck_assert_str_eq(text_nearest("matmull", ops, 5), "matmul");
  ck_assert_str_eq(text_nearest("mamtul", ops, 5), "matmul");
  ck_assert_str_eq(text_nearest("lineer", ops, 5), "linear");
  ck_assert_str_eq(text_nearest("relu", ops, 5), "relu");
  ck_assert_str_eq(text_nearest("ad", ops, 5), "add");
  ck_assert_ptr_null(text_nearest("conv", ops, 5));
  ck_assert_ptr_null(text_nearest("q", ops, 5));
  ck_assert_ptr_null(text_nearest("", ops, 5));
  ck_assert_ptr_null(text_nearest("matmul", ops, 0));
  char lengthy[200];
  memset(lengthy, 'm', sizeof lengthy);
  lengthy[199] = '\0';
  ck_assert_ptr_null(text_nearest(lengthy, ops, 5));
}
END_TEST

TCase *base_text_case(void) {
  TCase *t = tcase_create("text");
  tcase_add_test(t, integers_are_whole_and_in_range);
  tcase_add_test(t, decimals_are_whole_and_finite);
  tcase_add_test(t, nearest_is_a_likely_misspelling);
  return t;
}
