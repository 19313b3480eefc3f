/* Inputs of trials: fresh, of every type, and such that indices, ends and offsets stay inside what they
 * index. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/tuner/bound_problem.h"
#include "tuner/trial_inputs.h"

static double now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static const char *matmul(void) {
  return ir_catalogue_find("matmul", NULL)->text;
}

START_TEST(inputs_are_normal_and_fresh) {
  arena a = ARENA_INIT;
  ir_problem p;
  bind_problem(&a, matmul(), "T=bf16 M=512 N=8 K=512", &p);
  int64_t n = 512 * 512;
  uint16_t *x = malloc((size_t)n * 2), *y = malloc((size_t)n * 2);
  ck_assert_int_eq(tune_inputs_fill(&p, 0, x, n, 1, NULL), ARKE_OK);
  ck_assert_int_eq(tune_inputs_fill(&p, 0, y, n, 2, NULL), ARKE_OK);
  double sum = 0, squares = 0, lag = 0;
  int64_t equal = 0;
  for (int64_t i = 0; i < n; i++) {
    double v = dtype_load(DTYPE_BF16, x, i);
    sum += v;
    squares += v * v;
    if (i) lag += v * dtype_load(DTYPE_BF16, x, i - 1);
    equal += x[i] == y[i];
  }
  ck_assert_double_eq_tol(sum / (double)n, 0, 0.01);
  ck_assert_double_eq_tol(squares / (double)n, 1, 0.02);
  ck_assert_double_eq_tol(lag / (double)n, 0, 0.01);
  ck_assert_int_lt(equal, n / 50);
  ck_assert_int_eq(tune_inputs_fill(&p, 0, y, n, 1, NULL), ARKE_OK);
  ck_assert_mem_eq(x, y, (size_t)n * 2);
  free(x);
  free(y);
  arena_release(&a);
}
END_TEST

START_TEST(inputs_of_every_type_stay_in_range) {
  arena a = ARENA_INIT;
  static const dtype types[] = {DTYPE_F64, DTYPE_F32, DTYPE_F16, DTYPE_E4M3, DTYPE_E5M2, DTYPE_E2M1,
                                DTYPE_I64, DTYPE_I32, DTYPE_I16, DTYPE_I8,   DTYPE_U8,   DTYPE_I4};
  for (size_t k = 0; k < COUNT_OF(types); k++) {
    ir_problem p;
    char bindings[64];
    snprintf(bindings, sizeof bindings, "T=%s M=1001", dtype_name(types[k]));
    bind_problem(&a, "same(X: T[M]) -> (Y: T[M]) { Y[i] = X[i] }", bindings, &p);
    char *x = calloc(1, (size_t)dtype_bytes(types[k], 1001) + 1);
    ck_assert_int_eq(tune_inputs_fill(&p, 0, x, 1001, 1, NULL), ARKE_OK);
    int distinct = 0;
    for (int i = 0; i < 1001; i++) {
      double v = dtype_load(types[k], x, i);
      ck_assert(isfinite(v) && fabs(v) <= dtype_max(types[k]) + 1);
      distinct += i > 0 && v != dtype_load(types[k], x, i - 1);
    }
    ck_assert_int_gt(distinct, 500);
    free(x);
  }
  arena_release(&a);
}
END_TEST

START_TEST(indices_stay_inside_the_axis_they_index) {
  arena a = ARENA_INIT;
  ir_problem p;
  bind_problem(&a, "pick(W: T[V,D], idx: i64[B]) -> (Y: T[B,D]) { Y[b,d] = W[idx[b], d] }",
               "T=f32 V=37 D=4 B=5000", &p);
  int64_t *x = malloc(5000 * sizeof *x);
  ck_assert_int_eq(tune_inputs_fill(&p, 1, x, 5000, 1, NULL), ARKE_OK);
  bool met[37] = {0};
  for (int i = 0; i < 5000; i++) {
    ck_assert(x[i] >= 0 && x[i] < 37);
    met[x[i]] = true;
  }
  for (int i = 0; i < 37; i++) ck_assert(met[i]);
  free(x);
  arena_release(&a);
}
END_TEST

static void check_ascending(const int32_t *x, int n, int most) {
  for (int i = 0; i < n; i++) ck_assert_int_ge(x[i], i > 0 ? x[i - 1] : 0);
  ck_assert_int_le(x[n - 1], most);
}

/* Ends of groups ascend up to the last row, or now and then not so far, and are not all alike. */
START_TEST(ends_of_groups_ascend) {
  arena a = ARENA_INIT;
  ir_problem p;
  int32_t ends[50];
  int least = 1000, most = 0, whole = 0;
  bind_problem(&a, ir_catalogue_find("grouped_linear", NULL)->text, "T=f32 R=1000 N=8 K=8 E=50", &p);
  for (uint64_t seed = 1; seed <= 40; seed++) {
    ck_assert_int_eq(tune_inputs_fill(&p, 2, ends, 50, seed, NULL), ARKE_OK);
    check_ascending(ends, 50, 1000);
    for (int i = 1; i < 50; i++) {
      int rows = ends[i] - ends[i - 1];
      if (rows < least) least = rows;
      if (rows > most) most = rows;
    }
    whole += ends[49] == 1000;
  }
  ck_assert(least < 10 && most > 40);
  ck_assert_msg(whole >= 20 && whole < 40, "%d of 40 end with the last row", whole);
  arena_release(&a);
}
END_TEST

/* Offsets start at 0 and end with what they divide, and no sequence is longer than its pages have room for.
 */
START_TEST(offsets_of_sequences_cover_them) {
  arena a = ARENA_INIT;
  ir_problem p;
  int32_t cu[9];
  bind_problem(&a, ir_catalogue_find("varlen_attention", NULL)->text, "T=f16 N=100 H=2 D=4 M=300 G=1 E=4 B=8",
               &p);
  for (int tensor = 3; tensor <= 4; tensor++) {
    for (uint64_t seed = 1; seed <= 20; seed++) {
      ck_assert_int_eq(tune_inputs_fill(&p, tensor, cu, 9, seed, NULL), ARKE_OK);
      ck_assert_int_eq(cu[0], 0);
      ck_assert_int_eq(cu[8], tensor == 3 ? 100 : 300);
      check_ascending(cu, 9, cu[8]);
    }
  }
  bind_problem(&a, ir_catalogue_find("cache_gather", NULL)->text, "T=f16 U=f16 N=100 P=40 Z=4 D=8 B=8 W=4",
               &p);
  for (uint64_t seed = 1; seed <= 20; seed++) {
    ck_assert_int_eq(tune_inputs_fill(&p, 2, cu, 9, seed, NULL), ARKE_OK);
    check_ascending(cu, 9, 100);
    ck_assert_int_eq(cu[8], 100);
    for (int i = 0; i < 8; i++) ck_assert_int_le(cu[i + 1] - cu[i], 16);
  }
  arena_release(&a);
}
END_TEST

/* Those of many rows are of like lengths: none has less than two thirds of the mean. */
START_TEST(long_sequences_are_alike) {
  enum { SEQUENCES = 8, ROWS = 8 * 512 };
  arena a = ARENA_INIT;
  ir_problem p;
  int32_t cu[SEQUENCES + 1];
  bool unlike = false;
  bind_problem(&a, ir_catalogue_find("varlen_attention", NULL)->text,
               "T=f16 N=4096 H=2 D=4 M=8192 G=1 E=4 B=8", &p);
  for (uint64_t seed = 1; seed <= 20; seed++) {
    ck_assert_int_eq(tune_inputs_fill(&p, 3, cu, SEQUENCES + 1, seed, NULL), ARKE_OK);
    ck_assert_int_eq(cu[SEQUENCES], ROWS);
    for (int i = 0; i < SEQUENCES; i++) {
      int rows = cu[i + 1] - cu[i];
      ck_assert_int_ge(rows, ROWS / SEQUENCES * 2 / 3);
      unlike = unlike || rows > ROWS / SEQUENCES * 5 / 4;
    }
  }
  ck_assert(unlike);
  arena_release(&a);
}
END_TEST

/* Lengths reach as far as the table does, the first one all the way; pages come once; slots are of the whole
 * pool, come once, and some are left out. */
START_TEST(pages_and_lengths_are_those_of_their_operator) {
  arena a = ARENA_INIT;
  ir_problem p;
  int32_t lens[200], table[200 * 5];
  int64_t slots[300];
  bool met[4000] = {false};
  int full = 0, empty = 0, skipped = 0, far = 0;
  bind_problem(&a, ir_catalogue_find("paged_attention", NULL)->text,
               "T=f16 B=200 S=1 H=2 D=4 P=1000 Z=7 G=1 E=4 W=5", &p);
  ck_assert_int_eq(tune_inputs_fill(&p, 3, table, 1000, 1, NULL), ARKE_OK);
  for (int i = 0; i < 1000; i++) {
    ck_assert(table[i] >= 0 && table[i] < 1000 && !met[table[i]]);
    met[table[i]] = true;
  }
  ck_assert_int_eq(tune_inputs_fill(&p, 4, lens, 200, 1, NULL), ARKE_OK);
  ck_assert_int_eq(lens[0], 35);
  for (int i = 0; i < 200; i++) {
    ck_assert(lens[i] >= 0 && lens[i] <= 35);
    full += lens[i] > 30;
    empty += lens[i] == 0;
  }
  ck_assert(full > 100 && empty > 0);
  memset(met, 0, sizeof met);
  bind_problem(&a, ir_catalogue_find("cache_write", NULL)->text, "T=f16 U=f16 N=300 G=2 D=8 P=100 Z=7", &p);
  ck_assert_int_eq(tune_inputs_fill(&p, 2, slots, 300, 1, NULL), ARKE_OK);
  for (int i = 0; i < 300; i++) {
    ck_assert(slots[i] >= -1 && slots[i] < 700);
    skipped += slots[i] < 0;
    far += slots[i] > 350;
    if (slots[i] < 0) continue;
    ck_assert(!met[slots[i]]);
    met[slots[i]] = true;
  }
  ck_assert(skipped > 0 && skipped < 60 && far > 90);
  /* More tokens than there are places: the rest are skipped, since of equal slots either may stay. */
  memset(met, 0, sizeof met);
  bind_problem(&a, ir_catalogue_find("cache_write", NULL)->text, "T=f16 U=f16 N=300 G=2 D=8 P=10 Z=7", &p);
  ck_assert_int_eq(tune_inputs_fill(&p, 2, slots, 300, 1, NULL), ARKE_OK);
  for (int i = 0; i < 300; i++) {
    ck_assert(slots[i] >= -1 && slots[i] < 70);
    if (slots[i] < 0) continue;
    ck_assert(!met[slots[i]]);
    met[slots[i]] = true;
  }
  arena_release(&a);
}
END_TEST

/* Longer tensors repeat a block, but no two rows of a usual length. */
START_TEST(long_inputs_repeat_out_of_step) {
  arena a = ARENA_INIT;
  ir_problem p;
  int64_t n = 40000003;
  bind_problem(&a, "same(X: T[M]) -> (Y: T[M]) { Y[i] = X[i] }", "T=bf16 M=40000003", &p);
  uint16_t *x = malloc((size_t)n * 2);
  ck_assert_int_eq(tune_inputs_fill(&p, 0, x, n, 1, NULL), ARKE_OK);
  double squares = 0;
  for (int64_t i = n - 100000; i < n; i++) squares += pow(dtype_load(DTYPE_BF16, x, i), 2);
  ck_assert_double_eq_tol(squares / 100000, 1, 0.05);
  for (int64_t row = 64; row <= 1 << 20; row *= 2)
    for (int64_t at = 0; at + row + 64 <= n; at += n / 50)
      ck_assert(memcmp(x + at, x + at + row, 64 * 2) != 0);
  free(x);
  arena_release(&a);
}
END_TEST

START_TEST(large_inputs_are_fast) {
  arena a = ARENA_INIT;
  ir_problem p;
  bind_problem(&a, matmul(), "T=bf16 M=4096 N=4096 K=4096", &p);
  int64_t n = 4096 * 4096;
  void *x = malloc((size_t)n * 2);
  memset(x, 1, (size_t)n * 2); /* page faults are not what is timed */
  double best = INFINITY;
  for (int i = 0; i < 3; i++) {
    double begin = now_s();
    ck_assert_int_eq(tune_inputs_fill(&p, 0, x, n, (uint64_t)i, NULL), ARKE_OK);
    best = fmin(best, now_s() - begin);
  }
  ck_assert_double_lt(best, 1.0); /* 0.05 s, with room for a busy machine and sanitizers */
  free(x);
  arena_release(&a);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("inputs");
  TCase *c = tcase_create("inputs");
  tcase_set_timeout(c, 60);
  tcase_add_test(c, inputs_are_normal_and_fresh);
  tcase_add_test(c, inputs_of_every_type_stay_in_range);
  tcase_add_test(c, indices_stay_inside_the_axis_they_index);
  tcase_add_test(c, ends_of_groups_ascend);
  tcase_add_test(c, offsets_of_sequences_cover_them);
  tcase_add_test(c, long_sequences_are_alike);
  tcase_add_test(c, pages_and_lengths_are_those_of_their_operator);
  tcase_add_test(c, long_inputs_repeat_out_of_step);
  tcase_add_test(c, large_inputs_are_fast);
  suite_add_tcase(suite, c);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_NORMAL);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed != 0;
}
