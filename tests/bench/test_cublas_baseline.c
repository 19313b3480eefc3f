#include <check.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "bench/cublas_baseline.h"
#include "tests/support/failing_alloc.h"

static arke_error error;

static cublas_library *open_fake(void) {
  cublas_library *library;
  error_clear(&error);
  ck_assert_msg(cublas_open(FAKE_CUBLASLT, &library, &error) == ARKE_OK, "%s", error.text);
  return library;
}

static uint64_t address(const void *p) {
  return (uint64_t)(uintptr_t)p;
}

static const cublas_product PRODUCTS[] = {
    {5, 7, 11, DTYPE_BF16, DTYPE_BF16, DTYPE_BF16, false, CUBLAS_SCALES_NONE},
    {5, 7, 11, DTYPE_BF16, DTYPE_BF16, DTYPE_BF16, true, CUBLAS_SCALES_NONE},
    {1, 8, 3, DTYPE_F16, DTYPE_F16, DTYPE_F16, false, CUBLAS_SCALES_NONE},
    {9, 1, 4, DTYPE_F16, DTYPE_F16, DTYPE_F16, true, CUBLAS_SCALES_NONE},
    {4, 4, 4, DTYPE_F16, DTYPE_F16, DTYPE_F16, true, CUBLAS_SCALES_NONE},
    {5, 6, 7, DTYPE_F32, DTYPE_F32, DTYPE_F32, false, CUBLAS_SCALES_NONE},
    {5, 6, 7, DTYPE_I8, DTYPE_I8, DTYPE_I32, true, CUBLAS_SCALES_NONE},
    {5, 6, 7, DTYPE_E4M3, DTYPE_E4M3, DTYPE_BF16, true, CUBLAS_SCALES_NONE},
    {5, 6, 7, DTYPE_E4M3, DTYPE_E5M2, DTYPE_F16, true, CUBLAS_SCALES_TENSOR},
    {5, 6, 7, DTYPE_E5M2, DTYPE_E4M3, DTYPE_F32, true, CUBLAS_SCALES_TENSOR},
    {5, 6, 7, DTYPE_E4M3, DTYPE_E4M3, DTYPE_F32, true, CUBLAS_SCALES_ROW},
};

START_TEST(products_are_row_major) {
  const cublas_product *p = &PRODUCTS[_i];
  uint32_t a[128], b[128], y[128], workspace;
  _Alignas(16) float a_scales[16], b_scales[16]; /* the first is all that a tensor has */
  for (int i = 0; i < 128; i++) {                /* small integers: every sum is exact */
    dtype_store(p->a, a, i, i % 5 - 2);
    dtype_store(p->b, b, i, i % 7 - 3);
  }
  for (int i = 0; i < 16; i++) {
    a_scales[i] = (float)(1 << i % 3);
    b_scales[i] = -(float)(1 << i % 4);
  }
  cublas_library *library = open_fake();
  cublas_plan *plan;
  ck_assert_msg(cublas_plan_create(library, p, &plan, &error) == ARKE_OK, "%s", error.text);
  ck_assert_int_eq(cublas_plan_count(plan), 7); /* eight asked for, one invalid */
  static const uint64_t ran[] = {0, 1, 3, 4, 5, 6, 7};
  const cublas_tensors t = {.a = address(a),
                            .b = address(b),
                            .y = address(y),
                            .a_scale = address(a_scales),
                            .b_scale = address(b_scales)};
  for (int c = 0; c < cublas_plan_count(plan); c++) {
    uint64_t which = 99;
    memset(y, 0xFF, sizeof y);
    ck_assert_msg(cublas_plan_run(plan, c, &t, address(&workspace), &which, &error) == ARKE_OK, "%s",
                  error.text);
    ck_assert(which == ran[c]);
    for (int64_t m = 0; m < p->m; m++)
      for (int64_t n = 0; n < p->n; n++) {
        double sum = 0;
        for (int64_t k = 0; k < p->k; k++)
          sum += dtype_load(p->a, a, m * p->k + k) *
                 dtype_load(p->b, b, p->b_transposed ? n * p->k + k : k * p->n + n);
        bool rows = p->scales == CUBLAS_SCALES_ROW;
        if (p->scales != CUBLAS_SCALES_NONE)
          sum *= (double)a_scales[rows ? m : 0] * (double)b_scales[rows ? n : 0];
        ck_assert_double_eq(dtype_load(p->y, y, m * p->n + n), sum);
      }
    ck_assert_uint_eq(((const uint8_t *)y)[dtype_bytes(p->y, p->m * p->n)], 0xFF);
  }
  ck_assert(cublas_plan_run(plan, 7, &t, 0, NULL, &error) == ARKE_ERR_ARGUMENT);
  ck_assert_str_eq(error.text, "candidate 7 of 7");
  cublas_plan_destroy(plan);
  cublas_close(library);
}
END_TEST

/* Sizes in which the last run of terms, the last block of columns and the padding of its row are not full. */
START_TEST(scales_of_blocks_are_arranged) {
  enum { M = 8, N = 132, G = 5, K = 128 * G - 56, H = 2 };
  static const cublas_product p = {M, N, K, DTYPE_E4M3, DTYPE_E4M3, DTYPE_F32, true, CUBLAS_SCALES_BLOCK};
  static uint8_t a[M * K], b[N * K];
  static float y[M * N], a_rows[M * G], b_rows[H * G];
  static _Alignas(16) float a_scales[M * G + 1], b_scales[H * 8 + 1];
  uint32_t workspace;
  for (int64_t i = 0; i < M * K; i++) dtype_store(p.a, a, i, (double)(i % 5 - 2));
  for (int64_t i = 0; i < N * K; i++) dtype_store(p.b, b, i, (double)(i % 7 - 3));
  for (int i = 0; i < M * G; i++) a_rows[i] = (float)(i % 11 - 5);
  for (int i = 0; i < H * G; i++) b_rows[i] = (float)(1 << i % 4);
  ck_assert_int_eq(cublas_scales_count(&p, CUBLAS_A), M * G);
  ck_assert_int_eq(cublas_scales_count(&p, CUBLAS_B), H * 8);
  a_scales[M * G] = b_scales[H * 8] = 77;
  cublas_scales_arrange(&p, CUBLAS_A, a_rows, a_scales);
  cublas_scales_arrange(&p, CUBLAS_B, b_rows, b_scales);
  ck_assert(a_scales[M * G] == 77 && b_scales[H * 8] == 77);
  for (int i = 0; i < H * 8; i++) ck_assert(i % 8 < G || b_scales[i] == 0);
  cublas_library *library = open_fake();
  cublas_plan *plan;
  ck_assert_msg(cublas_plan_create(library, &p, &plan, &error) == ARKE_OK, "%s", error.text);
  const cublas_tensors t = {address(a), address(b), address(y), address(a_scales), address(b_scales)};
  ck_assert(cublas_plan_run(plan, 0, &t, address(&workspace), NULL, &error) == ARKE_OK);
  for (int64_t m = 0; m < M; m++)
    for (int64_t n = 0; n < N; n++) {
      double sum = 0;
      for (int64_t k = 0; k < K; k++)
        sum += dtype_load(p.a, a, m * K + k) * (double)a_rows[m * G + k / 128] *
               dtype_load(p.b, b, n * K + k) * (double)b_rows[n / 128 * G + k / 128];
      ck_assert_double_eq((double)y[m * N + n], sum);
    }
  cublas_plan_destroy(plan);
  cublas_close(library);
}
END_TEST

/* The library that the process has open already, so that this is the version it tells. */
START_TEST(old_libraries_have_no_scales_of_blocks) {
  static const cublas_product p = {8,          128,        128,  DTYPE_E4M3,
                                   DTYPE_E4M3, DTYPE_BF16, true, CUBLAS_SCALES_BLOCK};
  cublas_library *library = open_fake();
  void *object = dlopen(FAKE_CUBLASLT, RTLD_NOW | RTLD_LOCAL);
  size_t *version = dlsym(object, "fake_version");
  cublas_plan *plan;
  error_clear(&error);
  *version = 120805;
  ck_assert(cublas_plan_create(library, &p, &plan, &error) == ARKE_ERR_UNSUPPORTED);
  ck_assert_str_eq(error.text, "cublasLt has scales of rows and blocks since 12.9, this one is 12.8");
  *version = 120900;
  ck_assert(cublas_plan_create(library, &p, &plan, &error) == ARKE_OK);
  cublas_plan_destroy(plan);
  dlclose(object);
  cublas_close(library);
}
END_TEST

START_TEST(wrong_products_are_refused) {
  static const struct {
    cublas_product product;
    arke_status status;
    const char *part;
  } cases[] = {{{0, 4, 4, DTYPE_BF16, DTYPE_BF16, DTYPE_BF16, false, CUBLAS_SCALES_NONE},
                ARKE_ERR_ARGUMENT,
                "0x4x4 is empty"},
               {{4, -4, 4, DTYPE_BF16, DTYPE_BF16, DTYPE_BF16, false, CUBLAS_SCALES_NONE},
                ARKE_ERR_ARGUMENT,
                "4x-4x4"},
               {{4, 4, 4, DTYPE_F64, DTYPE_F64, DTYPE_F64, false, CUBLAS_SCALES_NONE},
                ARKE_ERR_UNSUPPORTED,
                "f64 and f64 in f64"},
               {{4, 4, 4, DTYPE_BF16, DTYPE_F16, DTYPE_F16, false, CUBLAS_SCALES_NONE},
                ARKE_ERR_UNSUPPORTED,
                "bf16 and f16"},
               {{4, 4, 4, DTYPE_I8, DTYPE_I8, DTYPE_BF16, true, CUBLAS_SCALES_NONE},
                ARKE_ERR_UNSUPPORTED,
                "i8 in bf16"},
               {{4, 4, 4, DTYPE_BF16, DTYPE_BF16, DTYPE_BF16, true, CUBLAS_SCALES_TENSOR},
                ARKE_ERR_UNSUPPORTED,
                "bf16"},
               {{4, 13, 4, DTYPE_F16, DTYPE_F16, DTYPE_F16, false, CUBLAS_SCALES_NONE},
                ARKE_ERR_UNSUPPORTED,
                "4x13x4 in f16"},
               {{6, 8, 128, DTYPE_E4M3, DTYPE_E4M3, DTYPE_BF16, true, CUBLAS_SCALES_BLOCK},
                ARKE_ERR_UNSUPPORTED,
                "no kernel for 6x8x128 in e4m3"}};
  cublas_library *library = open_fake();
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    cublas_plan *plan;
    error_clear(&error);
    ck_assert(cublas_plan_create(library, &cases[i].product, &plan, &error) == cases[i].status);
    ck_assert_msg(strstr(error.text, cases[i].part) != NULL, "%s", error.text);
    ck_assert_ptr_null(plan);
  }
  ck_assert_uint_eq(cublas_version(library), 130100);
  cublas_close(library);
  cublas_close(NULL);
  cublas_plan_destroy(NULL);
}
END_TEST

START_TEST(missing_library_and_functions_are_named) {
  cublas_library *library;
  error_clear(&error);
  ck_assert(cublas_open("/nowhere/libcublasLt.so.13", &library, &error) == ARKE_ERR_NOT_FOUND);
  ck_assert_ptr_nonnull(strstr(error.text, "/nowhere/libcublasLt.so.13"));
  ck_assert_ptr_null(library);
  error_clear(&error);
  ck_assert(cublas_open("libm.so.6", &library, &error) == ARKE_ERR_UNSUPPORTED);
  ck_assert_ptr_nonnull(strstr(error.text, "cublasLtGetVersion"));
}
END_TEST

START_TEST(lack_of_memory_is_reported) {
  cublas_library *library;
  cublas_plan *plan;
  failing_alloc_arm(0);
  ck_assert(cublas_open(FAKE_CUBLASLT, &library, NULL) == ARKE_ERR_MEMORY);
  ck_assert(failing_alloc_disarm());
  library = open_fake();
  failing_alloc_arm(0);
  ck_assert(cublas_plan_create(library, &PRODUCTS[0], &plan, NULL) == ARKE_ERR_MEMORY);
  ck_assert(failing_alloc_disarm());
  cublas_close(library);
}
END_TEST

/* The leak sanitizer's switches, where it is built in: what NVIDIA's library leaks is not ours. */
void __lsan_disable(void) __attribute__((weak));
void __lsan_enable(void) __attribute__((weak));

/* Whatever this machine has, the answer is one of three: it works, there is no library, there is no GPU. */
START_TEST(real_library_has_every_function) {
  cublas_library *library;
  error_clear(&error);
  if (__lsan_disable != NULL) __lsan_disable();
  arke_status status = cublas_open(NULL, &library, &error);
  if (__lsan_enable != NULL) __lsan_enable();
  ck_assert_msg(status == ARKE_OK || status == ARKE_ERR_NOT_FOUND || status == ARKE_ERR_DRIVER, "%s",
                error.text);
  if (status == ARKE_ERR_DRIVER) ck_assert_ptr_nonnull(strstr(error.text, "cublasLtCreate"));
  if (status == ARKE_OK) ck_assert_uint_ge(cublas_version(library), 120000);
  if (status == ARKE_OK) cublas_close(library);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("bench");
  TCase *t = tcase_create("cublas");
  tcase_set_timeout(t, 60); /* the real library is half a gigabyte */
  tcase_add_loop_test(t, products_are_row_major, 0, COUNT_OF(PRODUCTS));
  tcase_add_test(t, scales_of_blocks_are_arranged);
  tcase_add_test(t, old_libraries_have_no_scales_of_blocks);
  tcase_add_test(t, wrong_products_are_refused);
  tcase_add_test(t, missing_library_and_functions_are_named);
  tcase_add_test(t, lack_of_memory_is_reported);
  tcase_add_test(t, real_library_has_every_function);
  suite_add_tcase(suite, t);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_ENV);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
