#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/random.h"
#include "tuner/compare.h"
#include "tuner/tolerance.h"
#include "tuner/trial_inputs.h"

static double now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void bind(arena *a, const char *text, const char *bindings, ir_problem *p) {
  const ir_op *op;
  arke_error err = ARKE_ERROR_INIT;
  ck_assert_msg(ir_op_parse(a, text, &op, &err) == ARKE_OK, "%s", err.text);
  ck_assert_msg(ir_problem_bind(op, bindings, p, &err) == ARKE_OK, "%s", err.text);
}

static const char *matmul(void) {
  return ir_catalogue_find("matmul", NULL)->text;
}

/* --- inputs --------------------------------------------------------------------------------------------- */

START_TEST(inputs_are_normal_and_fresh) {
  arena a = ARENA_INIT;
  ir_problem p;
  bind(&a, matmul(), "T=bf16 M=512 N=8 K=512", &p);
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
    bind(&a, "same(X: T[M]) -> (Y: T[M]) { Y[i] = X[i] }", bindings, &p);
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
  bind(&a, "pick(W: T[V,D], idx: i64[B]) -> (Y: T[B,D]) { Y[b,d] = W[idx[b], d] }", "T=f32 V=37 D=4 B=5000",
       &p);
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
  bind(&a, ir_catalogue_find("grouped_linear", NULL)->text, "T=f32 R=1000 N=8 K=8 E=50", &p);
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
  bind(&a, ir_catalogue_find("varlen_attention", NULL)->text, "T=f16 N=100 H=2 D=4 M=300 G=1 E=4 B=8", &p);
  for (int tensor = 3; tensor <= 4; tensor++) {
    for (uint64_t seed = 1; seed <= 20; seed++) {
      ck_assert_int_eq(tune_inputs_fill(&p, tensor, cu, 9, seed, NULL), ARKE_OK);
      ck_assert_int_eq(cu[0], 0);
      ck_assert_int_eq(cu[8], tensor == 3 ? 100 : 300);
      check_ascending(cu, 9, cu[8]);
    }
  }
  bind(&a, ir_catalogue_find("cache_gather", NULL)->text, "T=f16 U=f16 N=100 P=40 Z=4 D=8 B=8 W=4", &p);
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
  bind(&a, ir_catalogue_find("varlen_attention", NULL)->text, "T=f16 N=4096 H=2 D=4 M=8192 G=1 E=4 B=8", &p);
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
  bind(&a, ir_catalogue_find("paged_attention", NULL)->text, "T=f16 B=200 S=1 H=2 D=4 P=1000 Z=7 G=1 E=4 W=5",
       &p);
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
  bind(&a, ir_catalogue_find("cache_write", NULL)->text, "T=f16 U=f16 N=300 G=2 D=8 P=100 Z=7", &p);
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
  bind(&a, ir_catalogue_find("cache_write", NULL)->text, "T=f16 U=f16 N=300 G=2 D=8 P=10 Z=7", &p);
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

/* Pages and rows that are read come from memory, each time: of a row none repeats, nor in all rows together
 * while there are others. */
static const struct {
  const char *text, *bindings;
  int tensor;
  int64_t elements, row, places;
} READS[] = {
    {"take(X: T[V,D], idx: i32[N]) -> (Y: T[N,D]) { Y[n,d] = X[idx[n],d] }", "T=f32 V=1000 D=8 N=900", 1, 900,
     900, 1000},
    {"take(X: T[V,D], idx: i32[B,N]) -> (Y: T[B,N,D]) { Y[b,n,d] = X[idx[b,n],d] }",
     "T=f32 V=1000 D=8 B=30 N=30", 1, 900, 30, 1000},
    {"take(X: T[V,D], idx: i32[B,N]) -> (Y: T[B,N,D]) { Y[b,n,d] = X[idx[b,n],d] }",
     "T=f32 V=500 D=8 B=30 N=48", 1, 1440, 48, 500},
    {"pages(X: T[P,Z], table: i32[B,W]) -> (Y: T[B,L]) { Y[b,k] = X[table[b,k / Z],k % Z] }",
     "T=f32 P=100 Z=4 B=8 W=20 L=80", 1, 160, 20, 100},
};

START_TEST(places_that_are_read_spread_over_all) {
  arena a = ARENA_INIT;
  ir_problem p;
  int64_t n = READS[_i].elements, row = READS[_i].row, places = READS[_i].places;
  bind(&a, READS[_i].text, READS[_i].bindings, &p);
  for (uint64_t seed = 1; seed <= 20; seed++) {
    int32_t x[1440];
    int met[1000] = {0}, in_row[1000] = {0}, most = 0;
    ck_assert_int_eq(tune_inputs_fill(&p, READS[_i].tensor, x, n, seed, NULL), ARKE_OK);
    for (int64_t i = 0; i < n; i++) {
      ck_assert(x[i] >= 0 && x[i] < places);
      ck_assert_msg(in_row[x[i]] != i / row + 1, "%d comes twice in row %d", x[i], (int)(i / row));
      in_row[x[i]] = (int)(i / row) + 1;
      if (++met[x[i]] > most) most = met[x[i]];
    }
    int64_t pass = places / row * row;
    ck_assert_int_le(most, (n + pass - 1) / pass);
  }
  arena_release(&a);
}
END_TEST

/* Classes of labels, and places that numbers are added up at, come as they come. */
START_TEST(places_that_collect_repeat) {
  arena a = ARENA_INIT;
  ir_problem p;
  int32_t x[300];
  bool met[1000] = {0};
  int again = 0;
  bind(&a, "count(X: T[M], idx: i32[M]) -> (Y: T[N]) { Y[idx[i]] += X[i] }", "T=f32 M=300 N=1000", &p);
  ck_assert_int_eq(tune_inputs_fill(&p, 1, x, 300, 1, NULL), ARKE_OK);
  for (int i = 0; i < 300; i++) {
    again += met[x[i]];
    met[x[i]] = true;
  }
  ck_assert_int_gt(again, 10);
  arena_release(&a);
}
END_TEST

START_TEST(integers_that_meet_floats_are_small) {
  arena a = ARENA_INIT;
  ir_problem p;
  int32_t x[1000];
  bind(&a, "turn(X: T[M], pos: i32[M]) -> (Y: T[M]) { Y[i] = X[i] * cos(pos[i] * 0.5) }", "T=f32 M=1000", &p);
  ck_assert_int_eq(tune_inputs_fill(&p, 1, x, 1000, 1, NULL), ARKE_OK);
  for (int i = 0; i < 1000; i++) ck_assert(x[i] >= 0 && x[i] < 4096);
  bind(&a, "total(X: i32[M]) -> (Y: i32[]) { Y = sum(i) X[i] }", "M=1000", &p);
  ck_assert_int_eq(tune_inputs_fill(&p, 0, x, 1000, 1, NULL), ARKE_OK);
  int large = 0;
  for (int i = 0; i < 1000; i++) large += x[i] > 1 << 30 || x[i] < -(1 << 30);
  ck_assert_int_gt(large, 300);
  arena_release(&a);
}
END_TEST

/* What is written to places that a tensor gives must not depend on the order of the writes. */
static const struct {
  const char *text, *bindings;
  int64_t elements, row, places;
} PLACES[] = {
    {"scatter(X: T[M,N], idx: i64[M,K], S: T[M,K]) -> (Y: T[M,N]) { Y[i,j] = X[i,j]; Y[i,idx[i,j]] = S[i,j] "
     "}",
     "T=f32 M=50 N=37 K=20", 1000, 20, 37},
    {"scatter(X: T[M,N], idx: i64[M,K], S: T[M,K]) -> (Y: T[M,N]) { Y[i,j] = X[i,j]; Y[i,idx[i,j]] = S[i,j] "
     "}",
     "T=f32 M=3 N=64 K=64", 192, 64, 64},
    {"put(X: T[N], idx: i64[A,B], S: T[A,B]) -> (Y: T[N]) { Y[i] = X[i]; Y[idx[a,b]] = S[a,b] }",
     "T=f32 N=1000 A=20 B=30", 600, 600, 1000},
    {"put(X: T[N], idx: i64[A], S: T[A]) -> (Y: T[N]) { Y[i] = X[i]; Y[idx[a]] = S[a] }", "T=f32 N=1 A=1", 1,
     1, 1},
};

START_TEST(places_that_are_assigned_to_come_once) {
  arena a = ARENA_INIT;
  ir_problem p;
  int64_t n = PLACES[_i].elements;
  bind(&a, PLACES[_i].text, PLACES[_i].bindings, &p);
  int64_t *x = malloc((size_t)n * sizeof *x);
  ck_assert_int_eq(tune_inputs_fill(&p, 1, x, n, 7, NULL), ARKE_OK);
  int64_t in_order = 0;
  for (int64_t row = 0; row < n; row += PLACES[_i].row) {
    bool met[1000] = {0};
    for (int64_t i = row; i < row + PLACES[_i].row; i++) {
      ck_assert(x[i] >= 0 && x[i] < PLACES[_i].places && !met[x[i]]);
      met[x[i]] = true;
      in_order += i > row && x[i] == x[i - 1] + 1;
    }
  }
  ck_assert_int_lt(in_order, n / 4 + 1);
  free(x);
  arena_release(&a);
}
END_TEST

/* New rows of no two requests lie in one page, and no request reads a page that another one writes, however
 * few pages there are: else the order of writes would decide. */
static const char *APPENDS[] = {"paged_varlen_append_attention", "paged_varlen_append_rope_attention",
                                "paged_varlen_append_fp8_attention"};
static const struct {
  int n, pages, lines, requests, width;
} POOLS[] = {{9, 2, 4, 4, 2},     {9, 7, 4, 4, 2},  {9, 8, 4, 4, 2},   {9, 12, 4, 4, 2},
             {100, 16, 16, 8, 4}, {40, 4, 8, 5, 1}, {129, 3, 3, 3, 3}, {60, 64, 5, 9, 16}};

static void fill_named(const ir_problem *p, const char *name, uint64_t seed, int32_t *x, int n) {
  int tensor = 0;
  while (strcmp(p->op->tensors[tensor].name, name) != 0) tensor++;
  ck_assert_int_eq(ir_tensor_elements(p, tensor), n);
  ck_assert_int_eq(tune_inputs_fill(p, tensor, x, n, random_u64(seed, (uint64_t)tensor), NULL), ARKE_OK);
}

START_TEST(rows_that_are_appended_meet_in_no_page) {
  arena a = ARENA_INIT;
  ir_problem p;
  char sizes[128];
  int n = POOLS[_i].n, pages = POOLS[_i].pages, z = POOLS[_i].lines, b = POOLS[_i].requests;
  int w = POOLS[_i].width;
  snprintf(sizes, sizeof sizes, "T=f16 N=%d H=1 G=1 D=4 E=4 P=%d Z=%d B=%d W=%d", n, pages, z, b, w);
  for (size_t o = 0; o < COUNT_OF(APPENDS); o++) {
    char bindings[160];
    snprintf(bindings, sizeof bindings, "%s%s", sizes, o == 1 ? " R=8 F=2" : o == 2 ? " U=e4m3" : "");
    bind(&a, ir_catalogue_find(APPENDS[o], NULL)->text, bindings, &p);
    for (uint64_t seed = 0; seed < 20; seed++) {
      int32_t table[9 * 16], lens[9], cu[10];
      int written[64 * 16] = {0}, writer[64] = {0}, n_written = 0;
      fill_named(&p, "table", seed, table, b * w);
      fill_named(&p, "lens", seed, lens, b);
      fill_named(&p, "cu_q", seed, cu, b + 1);
      for (int i = 0; i < b * w; i++) ck_assert(table[i] >= 0 && table[i] < pages);
      for (int g = 0; g < b; g++) {
        ck_assert(lens[g] >= 0 && lens[g] <= w * z);
        for (int row = cu[g]; row < cu[g + 1]; row++) {
          int at = row - cu[g + 1] + lens[g], page = at < 0 ? 0 : table[g * w + at / z];
          if (at < 0) continue;
          ck_assert_msg(!written[page * z + at % z]++, "%s: page %d, line %d", APPENDS[o], page, at % z);
          writer[page] = g + 1;
          n_written++;
        }
      }
      for (int g = 0; g < b; g++)
        for (int at = 0; cu[g] < cu[g + 1] && at < lens[g]; at++) {
          int other = writer[table[g * w + at / z]];
          ck_assert_msg(other == 0 || other == g + 1, "%s: %d reads what %d writes", APPENDS[o], g,
                        other - 1);
        }
      ck_assert_int_gt(lens[0], 0);
      ck_assert(n_written > 0 || cu[1] == cu[0]);
    }
  }
  arena_release(&a);
}
END_TEST

/* Subscripts of temporaries are places, too: of classes, of which a small problem has few. */
START_TEST(places_in_temporaries_are_inside) {
  arena a = ARENA_INIT;
  ir_problem p;
  int64_t x[500];
  bind(&a,
       "f(X: T[N,H], W: T[V,H], t: i64[N]) -> (y: f32[N]) { L[n,v] = sum(h) X[n,h] * W[v,h]; "
       "y[n] = t[n] == -100 ? 0 : L[n,t[n]] }",
       "T=f32 N=500 H=4 V=12", &p);
  ck_assert_int_eq(tune_inputs_fill(&p, 2, x, 500, 7, NULL), ARKE_OK);
  for (int i = 0; i < 500; i++) ck_assert(x[i] >= 0 && x[i] < 12);
  arena_release(&a);
}
END_TEST

/* Longer tensors repeat a block, but no two rows of a usual length. */
START_TEST(long_inputs_repeat_out_of_step) {
  arena a = ARENA_INIT;
  ir_problem p;
  int64_t n = 40000003;
  bind(&a, "same(X: T[M]) -> (Y: T[M]) { Y[i] = X[i] }", "T=bf16 M=40000003", &p);
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
  bind(&a, matmul(), "T=bf16 M=4096 N=4096 K=4096", &p);
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

/* --- tolerance ------------------------------------------------------------------------------------------ */

/* A sum in f32 over n terms of products of normals, rounded to `out`, in three orders a kernel might use. */
static double sum_like_a_kernel(const double *x, int n, int order, bool truncate) {
  float sums[16] = {0};
  int lanes = order == 0 ? 1 : 16;
  for (int i = 0; i < n; i++) {
    double exact = (double)sums[i % lanes] + x[i];
    float rounded = (float)exact;
    if (truncate && fabs((double)rounded) > fabs(exact)) rounded = nextafterf(rounded, 0);
    sums[i % lanes] = rounded;
  }
  float total = 0;
  for (int i = 0; i < lanes; i++) total += sums[i];
  return total;
}

/* No matrix unit takes part in what multiplies nothing, and each addition rounds to nearest: a part of a row
 * that is left out is found however long the row is. */
START_TEST(long_sums_without_products_have_no_share_of_cuts) {
  enum { N = 10000000 };
  arena a = ARENA_INIT;
  ir_problem p;
  bind(&a, "f(X: T[M,N]) -> (Y: T[M]) { Y[i] = sum(j) X[i,j] }", "T=f32 M=1 N=10000000", &p);
  tune_tolerance t = tune_tolerance_for(&p, 1, false);
  double value = 0, magnitude = 0, tail = 0, error, *x = malloc(N * sizeof *x);
  for (int i = 0; i < N; i++) {
    x[i] = (float)random_uniform(1, (uint64_t)i);
    value += x[i];
    if (i >= N - N / 100) tail += x[i];
  }
  magnitude = value;
  for (int order = 0; order < 2; order++)
    ck_assert(tune_tolerance_agrees(&t, sum_like_a_kernel(x, N, order, false), value, magnitude, &error));
  ck_assert(!tune_tolerance_agrees(&t, value - tail, value, magnitude, &error));
  free(x);
  arena_release(&a);
}
END_TEST

START_TEST(correct_sums_pass_and_missing_terms_fail) {
  static const int lengths[] = {1, 16, 64, 1024, 4096, 16384};
  static const dtype outs[] = {DTYPE_BF16, DTYPE_F16, DTYPE_F32};
  int n = lengths[_i % 6];
  dtype out = outs[_i / 6];
  tune_tolerance t = tune_tolerance_make(out, n);
  double *x = malloc((size_t)n * sizeof *x);
  int caught = 0, trials = n <= 1024 ? 400 : 60;
  for (int trial = 0; trial < trials; trial++) {
    double value = 0, magnitude = 0, error;
    for (int i = 0; i < n; i++) {
      uint64_t k = (uint64_t)(trial * n + i);
      x[i] = dtype_round(DTYPE_BF16, random_normal(1, 2 * k)) *
             dtype_round(DTYPE_BF16, random_normal(1, 2 * k + 1));
      value += x[i];
      magnitude += fabs(x[i]);
    }
    for (int order = 0; order < 2; order++)
      for (int truncate = 0; truncate < 2; truncate++) {
        double got = dtype_round(out, sum_like_a_kernel(x, n, order, truncate));
        ck_assert_msg(tune_tolerance_agrees(&t, got, value, magnitude, &error),
                      "n %d %s: got %g value %g allowed %g", n, dtype_name(out), got, value,
                      tune_tolerance_allowed(&t, value, magnitude));
      }
    /* A pipeline that drops its last 64 terms, or all of fewer. */
    double short_sum = value;
    for (int i = n > 64 ? n - 64 : 0; i < n; i++) short_sum -= x[i];
    caught += !tune_tolerance_agrees(&t, dtype_round(out, short_sum), value, magnitude, &error);
  }
  ck_assert_int_gt(caught, trials / 2);
  free(x);
}
END_TEST

/* --- 8-bit floats --- */

/* x with so many fraction bits of 2^exponent, cut toward zero. */
static double cut(double x, int exponent) {
  return ldexp(trunc(ldexp(x, 13 - exponent)), exponent - 13);
}

static int exponent_of(double x) {
  int e;
  frexp(x, &e);
  return x == 0 ? -999 : e - 1;
}

/* Sums 32 products at a time as Hopper's wgmma does, and goes on in f32 after `each` of these (0: never). */
static double sum_like_wgmma(const double *a, const double *b, int n, int each) {
  double total = 0, sum = 0;
  for (int k = 0; k < n; k += 32) {
    int top = exponent_of(sum);
    for (int i = k; i < k + 32; i++) {
      int e = exponent_of(a[i]) + exponent_of(b[i]);
      if (a[i] != 0 && b[i] != 0 && e > top) top = e;
    }
    double next = cut(sum, top);
    for (int i = k; i < k + 32; i++) next += cut(a[i] * b[i], top);
    sum = cut(next, exponent_of(next));
    if (each == 0 || (k / 32 + 1) % each != 0) continue;
    total = (double)(float)(total + sum);
    sum = 0;
  }
  return total + sum;
}

START_TEST(products_of_8_bit_floats_may_lose_digits_for_128_terms) {
  enum { MOST = 4096 };
  static double a[MOST], b[MOST];
  static const int lengths[] = {32, 128, 512, 2048, MOST};
  int n = lengths[_i % 5], kept = 0, trials = 200;
  bool positive = _i / 5 % 2;
  dtype type = _i / 10 ? DTYPE_E5M2 : DTYPE_E4M3;
  arena memory = ARENA_INIT;
  ir_problem p;
  char bindings[64];
  snprintf(bindings, sizeof bindings, "T=%s M=1 N=1 K=%d", dtype_name(type), n);
  bind(&memory, "f(X: T[M,K], W: T[N,K]) -> (Y: f32[M,N]) { Y[m,n] = sum(k) X[m,k] * W[n,k] }", bindings, &p);
  tune_tolerance t = tune_tolerance_for(&p, 2, false);
  for (int trial = 0; trial < trials; trial++) {
    double value = 0, magnitude = 0, error;
    for (int i = 0; i < n; i++) {
      uint64_t k = (uint64_t)(trial * n + i);
      a[i] = dtype_round(type, random_normal(3, 2 * k));
      b[i] = dtype_round(type, random_normal(3, 2 * k + 1));
      if (positive) a[i] = fabs(a[i]), b[i] = fabs(b[i]);
      value += a[i] * b[i];
      magnitude += fabs(a[i] * b[i]);
    }
    double got = sum_like_wgmma(a, b, n, 4);
    ck_assert_msg(tune_tolerance_agrees(&t, got, value, magnitude, &error), "n %d: %g, not %g, allowed %g", n,
                  got, value, tune_tolerance_allowed(&t, value, magnitude));
    kept += tune_tolerance_agrees(&t, sum_like_wgmma(a, b, n, 0), value, magnitude, &error);
  }
  if (positive && n >= 512) ck_assert_int_eq(kept, 0); /* in the matrix unit all along: wrong */
  arena_release(&memory);
}
END_TEST

START_TEST(special_values_agree_in_kind) {
  tune_tolerance t = tune_tolerance_make(DTYPE_F16, 4);
  double e;
  ck_assert(tune_tolerance_agrees(&t, NAN, NAN, NAN, &e));
  ck_assert(!tune_tolerance_agrees(&t, NAN, 1, 1, &e));
  ck_assert(!tune_tolerance_agrees(&t, 1, NAN, NAN, &e));
  ck_assert(tune_tolerance_agrees(&t, INFINITY, 1e6, 1e6, &e));
  ck_assert(!tune_tolerance_agrees(&t, -INFINITY, 1e6, 1e6, &e));
  ck_assert(tune_tolerance_agrees(&t, INFINITY, 65519.99, 65519.99, &e)); /* rounds up or down */
  ck_assert(!tune_tolerance_agrees(&t, INFINITY, 60000, 60000, &e));
  ck_assert(tune_tolerance_agrees(&t, 0, 0x1p-26, 0x1p-26, &e)); /* below half the least subnormal */
  ck_assert(!tune_tolerance_agrees(&t, 0x1p-22, 0, 0, &e));
  tune_tolerance i8 = tune_tolerance_make(DTYPE_I8, 1);
  ck_assert(tune_tolerance_agrees(&i8, 127, 300, 300, &e)); /* saturates */
  ck_assert(!tune_tolerance_agrees(&i8, 4, 5, 5, &e));
  ck_assert(tune_tolerance_agrees(&i8, 4, 4.5, 4.5, &e));
}
END_TEST

/* What lies beyond a type's range is lost in storing, by every kernel: no error that a report could blame on
 * one. */
START_TEST(saturated_values_have_no_error) {
  static const dtype types[] = {DTYPE_I8,   DTYPE_U8,   DTYPE_I32, DTYPE_E4M3,
                                DTYPE_E5M2, DTYPE_E2M1, DTYPE_BOOL};
  for (size_t i = 0; i < COUNT_OF(types); i++) {
    tune_tolerance t = tune_tolerance_make(types[i], 64);
    for (double value = -0x1p40; value < 0x1p41; value += 0x1p41) {
      double e = -1;
      ck_assert(tune_tolerance_agrees(&t, dtype_round(types[i], value), value, 0x1p40, &e));
      ck_assert_msg(e == 0, "%s: %g", dtype_name(types[i]), e);
    }
  }
  tune_tolerance t = tune_tolerance_make(DTYPE_E4M3, 1);
  double e;
  ck_assert(tune_tolerance_agrees(&t, 448, 430, 430, &e)); /* inside the range it is what rounding did */
  ck_assert_double_eq(e, 18);
}
END_TEST

static const struct {
  const char *text, *bindings;
  bool exact;
  double unit; /* of what is rounded on the way; 0: nothing */
} ROUNDING[] = {
    {"f(X: T[M]) -> (Y: T[M]) { Y[i] = max(X[i], 0) }", "T=bf16 M=4", true, 0},
    {"f(X: T[M]) -> (Y: U[M]) { Y[i] = cast<U>(X[i]) }", "T=f32 U=e4m3 M=4", true, 0},
    {"f(X: T[M]) -> (Y: T[M]) { Y[i] = -X[M-1-i] }", "T=f32 M=4", true, 0},
    {"f(X: T[M,N]) -> (Y: i64[M]) { Y[i] = argmax(j) X[i,j] }", "T=bf16 M=4 N=4", true, 0},
    {"f(X: T[M,N], W: T[N]) -> (Y: i64[M]) { Y[i] = argmax(j) X[i,j] * W[j] }", "T=bf16 M=4 N=4", false,
     0x1p-24},
    {"f(X: T[M,N]) -> (Y: T[M]) { Y[i] = max(j) abs(X[i,j]) }", "T=f16 M=4 N=4", true, 0},
    {"f(X: T[M,N]) -> (Y: T[M]) { Y[i] = sum(j) X[i,j] }", "T=i32 M=4 N=4", true, 0},
    {"f(X: T[M,N]) -> (Y: T[M]) { Y[i] = sum(j) X[i,j] }", "T=f32 M=4 N=1", false, 0x1p-24},
    {"f(X: T[M,N]) -> (Y: T[M]) { Y[i] = sum(j) X[i,j] }", "T=f64 M=4 N=1", false, 0x1p-53},
    {"f(X: T[M]) -> (Y: f64[M]) { Y[i] = X[i] * X[i] }", "T=f32 M=4", false, 0x1p-24}, /* computed in f32 */
    {"f(X: T[M]) -> (Y: T[M]) { t[i] = exp(X[i]); Y[i] = t[i] }", "T=f32 M=4", false, 0x1p-24},
    {"f(X: T[M]) -> (Y: T[M]) { t[i] = X[i] / 2; Y[i] = t[i] }", "T=i32 M=4", true, 0},
    {"f(X: T[M], idx: i64[M]) -> (Y: T[M]) { Y[i] = X[(idx[i] + 1) % M] }", "T=f32 M=4", true, 0},
    {"f(X: T[M], idx: i64[M]) -> (Y: T[M]) { Y[i] = 0; Y[idx[i]] += X[i] }", "T=f32 M=4", false, 0x1p-24},
};

START_TEST(what_never_rounds_is_exact) {
  arena a = ARENA_INIT;
  ir_problem p;
  bind(&a, ROUNDING[_i].text, ROUNDING[_i].bindings, &p);
  tune_tolerance t = tune_tolerance_for(&p, p.op->n_inputs, false);
  ck_assert_int_eq(t.exact, ROUNDING[_i].exact);
  double error;
  if (t.exact) {
    double stored = dtype_round(t.out, 1.3);
    ck_assert(tune_tolerance_agrees(&t, stored, 1.3, 1.3, &error));
    ck_assert(!tune_tolerance_agrees(&t, stored + 1, 1.3, 1.3, &error));
    ck_assert(!tune_tolerance_agrees(
        &t, stored * (1 + 2 * dtype_roundoff(t.out)) + (dtype_roundoff(t.out) == 0), 1.3, 1.3, &error));
  } else {
    double n = fmax(1, (double)ir_reduction_length(&p, p.op->n_inputs));
    double cut = strstr(ROUNDING[_i].text, " * ") != NULL ? n / 4 : 0;
    ck_assert_double_eq_tol(t.accumulation / ROUNDING[_i].unit, 4 * sqrt(n) + cut, 1e-9);
    ck_assert_double_gt(tune_tolerance_for(&p, p.op->n_inputs, true).accumulation, 0x1p-11);
  }
  arena_release(&a);
}
END_TEST

/* A silu far to the left is stored as 0 by functions that flush; a copy of the same value may not be. */
START_TEST(functions_may_underflow) {
  static const char silu[] = "f(X: T[M]) -> (Y: T[M]) { Y[i] = silu(X[i]) }";
  arena a = ARENA_INIT;
  ir_problem p;
  double error;
  bind(&a, silu, "T=bf16 M=4", &p);
  tune_tolerance t = tune_tolerance_for(&p, 1, false);
  ck_assert(tune_tolerance_agrees(&t, -0.0, -4.7e-38, 4.7e-38, &error));
  ck_assert(!tune_tolerance_agrees(&t, -0.0, -1e-35, 1e-35, &error));
  bind(&a, silu, "T=f32 M=4", &p);
  t = tune_tolerance_for(&p, 1, false);
  ck_assert(tune_tolerance_agrees(&t, -2.81e-42, -2.743e-42, 2.743e-42, &error));
  ck_assert(!tune_tolerance_agrees(&t, -0.0, -4.7e-38, 4.7e-38, &error));
  bind(&a, "f(X: T[M]) -> (Y: T[M]) { Y[i] = X[i] }", "T=bf16 M=4", &p);
  t = tune_tolerance_for(&p, 1, false);
  ck_assert(!tune_tolerance_agrees(&t, -0.0, -4.7e-38, 4.7e-38, &error));
  arena_release(&a);
}
END_TEST

/* What multiplies a function's result multiplies what it lost: a gate of -87.5 before a value of 320. */
START_TEST(underflow_is_carried_through_products) {
  static const char gate[] = "f(X: T[K], G: T[K], U: T[K]) -> (Y: T[1]) { Y[i] = silu(sum(k) X[k] * G[k]) * "
                             "sum(k) X[k] * U[k] }";
  arena a = ARENA_INIT;
  arke_error err = ARKE_ERROR_INIT;
  ir_problem p;
  uint16_t x[] = {0x3F80, 0x3F80, 0x3F80}, g[] = {0xC2AF, 0, 0}, u[] = {0x4348, 0x42C8, 0x41A0};
  ir_data data[4] = {{x, {1}}, {g, {1}}, {u, {1}}, {NULL, {1}}};
  double value, magnitude, error;
  bind(&a, gate, "T=bf16 K=3", &p);
  ck_assert_msg(ir_eval(&p, data, 3, (int64_t[]){0}, &value, &magnitude, &err) == ARKE_OK, "%s", err.text);
  ck_assert_double_eq_tol(value, -2.797e-34, 1e-36);
  tune_tolerance t = tune_tolerance_for(&p, 3, false);
  ck_assert(tune_tolerance_agrees(&t, -0.0, value, magnitude, &error));
  ck_assert(!tune_tolerance_agrees(&t, -1e-31, value, magnitude, &error));
  arena_release(&a);
}
END_TEST

/* Each addition into a narrow type rounds, and the order of updates is open. */
START_TEST(orders_of_narrow_updates_agree) {
  enum { UPDATES = 6, TRIALS = 1000 };
  arena a = ARENA_INIT;
  ir_problem p;
  bind(&a, "count(X: T[M], idx: i64[M]) -> (Y: T[N]) { Y[idx[i]] += X[i] }", "T=bf16 M=64 N=8", &p);
  tune_tolerance t = tune_tolerance_for(&p, p.op->n_inputs, false);
  double furthest = 0, relative, absolute;
  for (uint64_t trial = 0; trial < TRIALS; trial++) {
    double sums[2] = {0, 0}, magnitude = 0;
    for (uint64_t i = 0; i < UPDATES; i++) {
      for (uint64_t order = 0; order < 2; order++) {
        double x = random_normal(trial, order ? UPDATES - 1 - i : i);
        sums[order] = dtype_round(DTYPE_BF16, sums[order] + dtype_round(DTYPE_BF16, x));
      }
      magnitude += fabs(random_normal(trial, i));
    }
    tune_tolerance_between(&t, magnitude, &relative, &absolute);
    double apart = fabs(sums[0] - sums[1]);
    ck_assert_double_le(apart, relative * fabs(sums[1]) + absolute);
    furthest = fmax(furthest, apart / (relative * fabs(sums[1]) + absolute - 2 * t.updates * magnitude));
  }
  ck_assert_double_gt(furthest, 1); /* the updates' own part is needed */
  arena_release(&a);
}
END_TEST

/* Weighted means whose weights are cast, as attention's, by kernels that cast them with other scales: where
 * no element of so long a problem is evaluated, the outputs themselves must tell how far they may lie apart.
 * A kernel that leaves a tile of 64 keys out is found all the same. */
START_TEST(casts_of_weights_with_other_scales_agree) {
  enum { TERMS = 8192, OUTPUTS = 400 };
  arena a = ARENA_INIT;
  ir_problem p;
  bind(&a, ir_catalogue_find("multi_latent_attention", NULL)->text, "T=bf16 B=8 S=1 H=128 R=8192 C=512 E=64",
       &p);
  tune_tolerance t = tune_tolerance_for(&p, p.op->n_inputs, false);
  static double got[3][OUTPUTS];
  double most = 0, furthest = 0, relative, absolute;
  int caught = 0;
  for (uint64_t o = 0; o < OUTPUTS; o++) {
    double sums[3] = {0}, weights = 0;
    for (uint64_t k = 0; k < TERMS; k++) {
      double weight = exp(random_normal(2 * o, k) - 4), value = random_normal(2 * o + 1, k);
      weights += weight;
      for (int kernel = 0; kernel < 3; kernel++) {
        double scale = kernel == 1 ? 1.37 : 1;
        if (kernel < 2 || k >= 64) sums[kernel] += dtype_round(DTYPE_BF16, weight * scale) / scale * value;
      }
    }
    for (int kernel = 0; kernel < 3; kernel++)
      got[kernel][o] = dtype_round(DTYPE_BF16, sums[kernel] / weights);
    most = fmax(most, fabs(got[0][o]));
  }
  tune_tolerance_between(&t, tune_tolerance_guess_magnitude(&t, most), &relative, &absolute);
  for (int o = 0; o < OUTPUTS; o++) {
    double apart = fabs(got[1][o] - got[0][o]), allowed = relative * fabs(got[0][o]) + absolute;
    ck_assert_msg(apart <= allowed, "%g and %g, allowed %g", got[0][o], got[1][o], allowed);
    furthest = fmax(furthest, apart / allowed);
    caught += fabs(got[2][o] - got[0][o]) > allowed;
  }
  ck_assert_double_gt(furthest, 0.1);
  ck_assert_int_gt(caught, OUTPUTS / 2);
  arena_release(&a);
}
END_TEST

/* --- comparing tensors ---------------------------------------------------------------------------------- */

START_TEST(compare_finds_the_first_difference) {
  static const dtype types[] = {DTYPE_BF16, DTYPE_F32, DTYPE_F16, DTYPE_F64, DTYPE_E4M3, DTYPE_E5M2};
  int64_t n = 10000;
  for (size_t k = 0; k < COUNT_OF(types); k++) {
    dtype t = types[k];
    char *x = malloc((size_t)dtype_bytes(t, n)), *y = malloc((size_t)dtype_bytes(t, n));
    for (int64_t i = 0; i < n; i++) {
      double v = random_normal(3, (uint64_t)i);
      dtype_store(t, x, i, v);
      dtype_store(t, y, i, v);
    }
    double relative = 2 * dtype_roundoff(t), absolute = 1e-3 * dtype_roundoff(t);
    ck_assert_int_eq(tune_compare(t, x, y, n, relative, absolute), -1);
    double v = dtype_load(t, y, 7777);
    dtype_store(t, x, 7777, v * (1 + 2 * dtype_roundoff(t))); /* one step: allowed */
    ck_assert_int_eq(tune_compare(t, x, y, n, relative * 1.01, absolute), -1);
    dtype_store(t, x, 7777, v * (1 + 16 * dtype_roundoff(t)));
    dtype_store(t, x, 9999, 5);
    ck_assert_int_eq(tune_compare(t, x, y, n, relative, absolute), 7777);
    dtype_store(t, x, 7777, v);
    ck_assert_int_eq(tune_compare(t, x, y, n, relative, absolute), 9999);
    dtype_store(t, x, 4096, NAN);
    ck_assert_int_eq(tune_compare(t, x, y, n, relative, absolute), 4096);
    dtype_store(t, y, 4096, NAN);
    ck_assert_int_eq(tune_compare(t, x, y, n, relative, absolute), 9999);
    for (int i = 0; i < 3 && t != DTYPE_E4M3; i++) { /* which has no infinity */
      static const double infinities[] = {1, -INFINITY, INFINITY};
      dtype_store(t, y, 5, INFINITY);
      dtype_store(t, x, 5, infinities[i]);
      ck_assert_int_eq(tune_compare(t, x, y, n, relative, absolute), i < 2 ? 5 : 9999);
    }
    free(x);
    free(y);
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("verify");
  TCase *c = tcase_create("verify");
  tcase_set_timeout(c, 60);
  tcase_add_test(c, inputs_are_normal_and_fresh);
  tcase_add_test(c, inputs_of_every_type_stay_in_range);
  tcase_add_test(c, indices_stay_inside_the_axis_they_index);
  tcase_add_test(c, ends_of_groups_ascend);
  tcase_add_test(c, offsets_of_sequences_cover_them);
  tcase_add_test(c, long_sequences_are_alike);
  tcase_add_test(c, pages_and_lengths_are_those_of_their_operator);
  tcase_add_loop_test(c, places_that_are_read_spread_over_all, 0, COUNT_OF(READS));
  tcase_add_test(c, places_that_collect_repeat);
  tcase_add_test(c, integers_that_meet_floats_are_small);
  tcase_add_test(c, places_in_temporaries_are_inside);
  tcase_add_loop_test(c, places_that_are_assigned_to_come_once, 0, COUNT_OF(PLACES));
  tcase_add_loop_test(c, rows_that_are_appended_meet_in_no_page, 0, COUNT_OF(POOLS));
  tcase_add_test(c, long_inputs_repeat_out_of_step);
  tcase_add_test(c, large_inputs_are_fast);
  tcase_add_test(c, long_sums_without_products_have_no_share_of_cuts);
  tcase_add_loop_test(c, correct_sums_pass_and_missing_terms_fail, 0, 18);
  tcase_add_test(c, special_values_agree_in_kind);
  tcase_add_test(c, saturated_values_have_no_error);
  tcase_add_loop_test(c, products_of_8_bit_floats_may_lose_digits_for_128_terms, 0, 20);
  tcase_add_loop_test(c, what_never_rounds_is_exact, 0, COUNT_OF(ROUNDING));
  tcase_add_test(c, functions_may_underflow);
  tcase_add_test(c, underflow_is_carried_through_products);
  tcase_add_test(c, orders_of_narrow_updates_agree);
  tcase_add_test(c, casts_of_weights_with_other_scales_agree);
  tcase_add_test(c, compare_finds_the_first_difference);
  suite_add_tcase(suite, c);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_NORMAL);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed != 0;
}
