/* Inputs that are places: spread where they are read, once where they are assigned to, apart where rows are
 * appended. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "tests/tuner/bound_problem.h"
#include "tuner/trial_inputs.h"

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
  bind_problem(&a, READS[_i].text, READS[_i].bindings, &p);
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
  bind_problem(&a, "count(X: T[M], idx: i32[M]) -> (Y: T[N]) { Y[idx[i]] += X[i] }", "T=f32 M=300 N=1000",
               &p);
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
  bind_problem(&a, "turn(X: T[M], pos: i32[M]) -> (Y: T[M]) { Y[i] = X[i] * cos(pos[i] * 0.5) }",
               "T=f32 M=1000", &p);
  ck_assert_int_eq(tune_inputs_fill(&p, 1, x, 1000, 1, NULL), ARKE_OK);
  for (int i = 0; i < 1000; i++) ck_assert(x[i] >= 0 && x[i] < 4096);
  bind_problem(&a, "total(X: i32[M]) -> (Y: i32[]) { Y = sum(i) X[i] }", "M=1000", &p);
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
  bind_problem(&a, PLACES[_i].text, PLACES[_i].bindings, &p);
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
    bind_problem(&a, ir_catalogue_find(APPENDS[o], NULL)->text, bindings, &p);
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
  bind_problem(&a,
               "f(X: T[N,H], W: T[V,H], t: i64[N]) -> (y: f32[N]) { L[n,v] = sum(h) X[n,h] * W[v,h]; "
               "y[n] = t[n] == -100 ? 0 : L[n,t[n]] }",
               "T=f32 N=500 H=4 V=12", &p);
  ck_assert_int_eq(tune_inputs_fill(&p, 2, x, 500, 7, NULL), ARKE_OK);
  for (int i = 0; i < 500; i++) ck_assert(x[i] >= 0 && x[i] < 12);
  arena_release(&a);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("places");
  TCase *c = tcase_create("places");
  tcase_set_timeout(c, 60);
  tcase_add_loop_test(c, places_that_are_read_spread_over_all, 0, COUNT_OF(READS));
  tcase_add_test(c, places_that_collect_repeat);
  tcase_add_test(c, integers_that_meet_floats_are_small);
  tcase_add_loop_test(c, places_that_are_assigned_to_come_once, 0, COUNT_OF(PLACES));
  tcase_add_loop_test(c, rows_that_are_appended_meet_in_no_page, 0, COUNT_OF(POOLS));
  tcase_add_test(c, places_in_temporaries_are_inside);
  suite_add_tcase(suite, c);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_NORMAL);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed != 0;
}
