/* The matrix unit's arithmetic, against what was measured on an H200 and against exact sums. */
#include <math.h>
#include <string.h>

#include "base/dtype.h"
#include "base/random.h"
#include "emulator/emu_mma.h"
#include "tests/emulator/emu_suites.h"

static uint16_t bf16(double v) {
  uint16_t bits;
  dtype_store(DTYPE_BF16, &bits, 0, v);
  return bits;
}

/* One sum of products of bf16 values, plus c. */
static float sum_bf16(const double *a, const double *b, int n, bool accumulate, float c) {
  static mma_operand ma, mb;
  uint16_t ra[16] = {0}, rb[16] = {0};
  for (int i = 0; i < n; i++) {
    ra[i] = bf16(a[i]);
    rb[i] = bf16(b[i]);
  }
  mma_decode(&ma, MMA_BF16, ra, 1, false);
  mma_decode(&mb, MMA_BF16, rb, 1, false);
  mma_row_f32(&ma, 0, &mb, accumulate, &c);
  return c;
}

START_TEST(keeps_25_fraction_bits_and_rounds_toward_zero) {
  /* two times 2^-25 beside 1 make 2^-24, which f32 drops; four make 2^-23, which it keeps */
  double one_small[5] = {1, 0x1p-25, 0x1p-25, 0x1p-25, 0x1p-25}, ones[16] = {1, 1, 1, 1, 1};
  ck_assert(sum_bf16(one_small, ones, 5, false, 0) == 1 + 0x1p-23f);
  ck_assert(sum_bf16(one_small, ones, 4, false, 0) == 1);
  double smaller[9] = {1, 0x1p-26, 0x1p-26, 0x1p-26, 0x1p-26, 0x1p-26, 0x1p-26, 0x1p-26, 0x1p-26};
  double nine[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
  ck_assert(sum_bf16(smaller, nine, 9, false, 0) == 1);
  /* toward zero on both sides */
  double up[2] = {1, 0x1.8p-24}, down[2] = {-1, -0x1.8p-24};
  ck_assert(sum_bf16(up, ones, 2, false, 0) == 1);
  ck_assert(sum_bf16(down, ones, 2, false, 0) == -1);
  ck_assert(sum_bf16((double[]){1}, (double[]){0}, 1, true, 0.75f + 0x1p-20f) == 0.75f + 0x1p-20f);
}
END_TEST

START_TEST(small_terms_survive_beside_small_ones) {
  double a[2] = {0x1p-100, 0x1p-110}, b[2] = {1, 1};
  ck_assert(sum_bf16(a, b, 2, false, 0) == 0x1p-100f + 0x1p-110f);
  ck_assert(sum_bf16(a, b, 2, true, 1) == 1);
  /* subnormal inputs count, subnormal results are kept */
  ck_assert(sum_bf16((double[]){0x1p-133}, (double[]){1}, 1, false, 0) == 0x1p-133f);
  ck_assert(sum_bf16((double[]){0x1p-126}, (double[]){0x1p-23}, 1, false, 0) == 0x1p-149f);
  ck_assert(sum_bf16((double[]){0x1p-126}, (double[]){0x1p-24}, 1, false, 0) == 0);
}
END_TEST

START_TEST(infinities_and_nans) {
  ck_assert(isinf(sum_bf16((double[]){INFINITY, 1}, (double[]){1, 1}, 2, true, 5)));
  ck_assert(isnan(sum_bf16((double[]){INFINITY, 1}, (double[]){0, 1}, 2, true, 5)));
  ck_assert(isnan(sum_bf16((double[]){INFINITY, -INFINITY}, (double[]){1, 1}, 2, false, 0)));
  ck_assert(isnan(sum_bf16((double[]){NAN, 1}, (double[]){1, 1}, 2, false, 0)));
  ck_assert(isnan(sum_bf16((double[]){1}, (double[]){1}, 1, true, NAN)));
  ck_assert(sum_bf16((double[]){1}, (double[]){1}, 1, false, NAN) == 1);
  ck_assert(isinf(sum_bf16((double[]){0x1p127, 0x1p127}, (double[]){1, 1}, 2, false, 0)));
}
END_TEST

static const struct {
  mma_type type;
  dtype dtype;
  double epsilon; /* of one instruction, relative to the sum of magnitudes */
} kinds[] = {{MMA_BF16, DTYPE_BF16, 0x1p-22},
             {MMA_F16, DTYPE_F16, 0x1p-22},
             {MMA_E4M3, DTYPE_E4M3, 0x1p-8},
             {MMA_E5M2, DTYPE_E5M2, 0x1p-8},
             {MMA_TF32, DTYPE_F32, 0x1p-22}};

/* Every type: many rows and columns against sums in double. */
START_TEST(sums_are_right) {
  static mma_operand a, b;
  static uint32_t ra[64 * 32], rb[256 * 32];
  mma_type t = kinds[_i].type;
  int k = mma_type_k(t), rows = 16, columns = 256;
  for (int i = 0; i < rows * k; i++) dtype_store(kinds[_i].dtype, ra, i, random_normal(1, (uint64_t)i));
  for (int i = 0; i < columns * k; i++) dtype_store(kinds[_i].dtype, rb, i, random_normal(2, (uint64_t)i));
  if (t == MMA_TF32) {
    for (int i = 0; i < rows * k; i++) ra[i] &= 0xFFFFE000;
    for (int i = 0; i < columns * k; i++) rb[i] &= 0xFFFFE000;
  }
  mma_decode(&a, t, ra, rows, false);
  mma_decode(&b, t, rb, columns, true);
  for (int r = 0; r < rows; r++) {
    float d[256];
    for (int n = 0; n < columns; n++) d[n] = (float)(r - 8);
    mma_row_f32(&a, r, &b, true, d);
    for (int n = 0; n < columns; n++) {
      double sum = r - 8, weight = fabs(sum);
      for (int i = 0; i < k; i++) {
        double p = dtype_load(kinds[_i].dtype, ra, r * k + i) * dtype_load(kinds[_i].dtype, rb, n * k + i);
        sum -= p;
        weight += fabs(p);
      }
      ck_assert_msg(fabs((double)d[n] - sum) <= weight * kinds[_i].epsilon,
                    "row %d column %d: %.9g, not %.9g", r, n, (double)d[n], sum);
    }
  }
}
END_TEST

START_TEST(fp8_drops_bits_of_the_accumulator) {
  static mma_operand a, b;
  uint8_t zero[32] = {0};
  mma_decode(&a, MMA_E4M3, zero, 1, false);
  mma_decode(&b, MMA_E4M3, zero, 1, false);
  float d = 0.75f + 0x1p-16f;
  mma_row_f32(&a, 0, &b, true, &d);
  ck_assert(d == 0.75f); /* measured: even with nothing added */
}
END_TEST

START_TEST(integers_wrap_or_saturate) {
  uint8_t a[32], b[64];
  memset(a, 0x80, sizeof a);
  memset(b, 0xFF, sizeof b);
  int32_t d[2] = {INT32_MAX, 1};
  mma_row_s32(a, true, b, true, 2, 32, true, true, d);
  ck_assert_int_eq(d[0], INT32_MAX);
  ck_assert_int_eq(d[1], 1 + 32 * 128);
  d[0] = INT32_MAX;
  mma_row_s32(a, true, b, true, 1, 32, true, false, d);
  ck_assert_int_lt(d[0], 0);
  mma_row_s32(a, false, b, false, 1, 32, false, false, d);
  ck_assert_int_eq(d[0], 32 * 128 * 255);
}
END_TEST

TCase *emu_mma_case(void) {
  TCase *c = tcase_create("matrix arithmetic");
  tcase_add_test(c, keeps_25_fraction_bits_and_rounds_toward_zero);
  tcase_add_test(c, small_terms_survive_beside_small_ones);
  tcase_add_test(c, infinities_and_nans);
  tcase_add_loop_test(c, sums_are_right, 0, (int)(sizeof kinds / sizeof kinds[0]));
  tcase_add_test(c, fp8_drops_bits_of_the_accumulator);
  tcase_add_test(c, integers_wrap_or_saturate);
  return c;
}
