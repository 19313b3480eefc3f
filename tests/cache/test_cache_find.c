/* What is found, walked over and looked up by an index. */
#include "tests/cache/cache_suites.h"

#include <sqlite3.h>
#include <string.h>

#include "cache/store.h"
#include "tests/cache/cache_fixture.h"

START_TEST(found_entry_is_measured_then_fastest) {
  cache *c = fixture_open("t.arke", CACHE_WRITE);
  static const struct {
    const char *ptx;
    cache_origin origin;
    double ns;
  } rows[] = {{"8.0", CACHE_ORIGIN_MODELLED, 1},
              {"8.1", CACHE_ORIGIN_MEASURED, 30},
              {"8.2", CACHE_ORIGIN_MEASURED, 20},
              {"8.3", CACHE_ORIGIN_MEASURED, 25}};
  fixture_problem p;
  fixture_fill_problem(&p, 64);
  cache_id h200 = fixture_environment_id(c, &FIXTURE_H200);
  arena a = ARENA_INIT;
  cache_entry e;
  for (size_t i = 0; i < COUNT_OF(rows); i++) {
    p.problem.ptx = rows[i].ptx;
    cache_kernel k = fixture_kernel((int)i, 10);
    cache_winner w = fixture_winner(rows[i].ns, rows[i].origin);
    bool published;
    ASSERT_OK(
        cache_put_winner(c, fixture_problem_id(c, &p.problem), h200, &k, &w, &published, &fixture_error));
    fixture_free_kernel(&k);
    if (i == 0) {
      ASSERT_OK(cache_find_entry(c, "matmul", p.bindings, "sm_90a", "", true, &a, &e, &fixture_error));
      ASSERT_FAILS(cache_find_entry(c, "matmul", p.bindings, "sm_90a", "", false, &a, &e, &fixture_error),
                   ARKE_ERR_NOT_FOUND, "no measured entry for matmul");
    }
  }
  ASSERT_OK(cache_find_entry(c, "matmul", p.bindings, "sm_90a", "", true, &a, &e, &fixture_error));
  ck_assert_str_eq(e.problem.ptx, "8.2");
  ASSERT_FAILS(cache_find_entry(c, "matmul", p.bindings, "sm_90", "", true, &a, &e, &fixture_error),
               ARKE_ERR_NOT_FOUND, "on sm_90");
  ASSERT_FAILS(cache_find_entry(c, "linear", p.bindings, "sm_90a", "", true, &a, &e, &fixture_error),
               ARKE_ERR_NOT_FOUND, "for linear");
  ASSERT_FAILS(fixture_find(c, 65, &a, &e, &fixture_error), ARKE_ERR_NOT_FOUND, "K=65");
  arena_release(&a);
  cache_close(c);
}
END_TEST

static bool count_entry(const cache_entry *e, void *user) {
  ck_assert_int_eq(e->problem.n_tensors, 3);
  ck_assert_str_eq(e->problem.tensors[2].name, "Y");
  return ++*(int *)user < 5;
}

static bool count_signature(const cache_problem *p, void *user) {
  ck_assert_int_eq(p->n_tensors, 3);
  ck_assert_str_eq(p->tensors[0].dims[1], "K");
  ++*(int *)user;
  return true;
}

static int count_signatures(cache *c, const char *op, const char *target) {
  arena a = ARENA_INIT;
  int n = 0;
  ASSERT_OK(cache_each_signature(c, op, target, &a, count_signature, &n, &fixture_error));
  arena_release(&a);
  return n;
}

static int count_entries(cache *c, const char *op, const char *target) {
  arena a = ARENA_INIT;
  int n = 0, damaged = -1;
  ASSERT_OK(cache_each_entry(c, op, target, &a, count_entry, &n, &damaged, &fixture_error));
  ck_assert_int_eq(damaged, 0);
  arena_release(&a);
  return n;
}

START_TEST(walks_filter_and_stop) {
  cache *c = fixture_open("t.arke", CACHE_WRITE);
  for (int k = 1; k <= 3; k++) fixture_must_publish(c, &FIXTURE_H200, k, 10, CACHE_ORIGIN_MEASURED);
  ck_assert_int_eq(count_entries(c, "matmul", "sm_90a"), 3);
  ck_assert_int_eq(count_entries(c, NULL, "sm_90a"), 3);
  ck_assert_int_eq(count_entries(c, "matmul", NULL), 3);
  ck_assert_int_eq(count_entries(c, NULL, NULL), 3);
  ck_assert_int_eq(count_entries(c, "matmu", "sm_90a"), 0);
  ck_assert_int_eq(count_entries(c, "matmul", "sm_90"), 0);
  ck_assert_int_eq(count_signatures(c, "matmul", "sm_90a"), 1);
  ck_assert_int_eq(count_signatures(c, NULL, NULL), 1);
  ck_assert_int_eq(count_signatures(c, "matmul", "sm_80"), 0);
  fixture_problem p;
  fixture_fill_problem(&p, 1);
  p.problem.op_text = "matmul(A, B) -> Y";
  fixture_problem_id(c, &p.problem); /* without a winner: not served */
  ck_assert_int_eq(count_signatures(c, "matmul", "sm_90a"), 1);
  for (int k = 4; k <= 9; k++) fixture_must_publish(c, &FIXTURE_H200, k, 10, CACHE_ORIGIN_MEASURED);
  ck_assert_int_eq(count_entries(c, "matmul", "sm_90a"), 5); /* the callback stopped */
  cache_close(c);
}
END_TEST

static bool find_inside(const cache_entry *e, void *user) {
  cache *c = user;
  arena a = ARENA_INIT;
  cache_entry found;
  int n = 0;
  ASSERT_OK(
      cache_find_entry(c, "matmul", e->problem.bindings, "sm_90a", "", true, &a, &found, &fixture_error));
  ASSERT_OK(cache_load_kernel(c, &a, &found, &fixture_error));
  ASSERT_OK(cache_each_entry(c, "matmul", "sm_90a", &a, count_entry, &n, NULL, &fixture_error));
  ck_assert_int_eq(n, 3);
  arena_release(&a);
  return true;
}

START_TEST(callbacks_may_use_the_handle) {
  cache *c = fixture_open("t.arke", CACHE_WRITE);
  for (int k = 1; k <= 3; k++) fixture_must_publish(c, &FIXTURE_H200, k, 10, CACHE_ORIGIN_MEASURED);
  arena a = ARENA_INIT;
  ASSERT_OK(cache_each_entry(c, "matmul", "sm_90a", &a, find_inside, c, NULL, &fixture_error));
  arena_release(&a);
  cache_close(c);
}
END_TEST

/* A plan with SCAN in it would read whole tables. */
static void assert_indexed(cache *c, cache_sql which) {
  sqlite3_stmt *s;
  ASSERT_OK(store_prepare(c, which, &s, &fixture_error));
  strbuf sql = STRBUF_INIT;
  strbuf_addf(&sql, "EXPLAIN QUERY PLAN %s", sqlite3_sql(s));
  sqlite3_finalize(s);
  ck_assert_int_eq(sqlite3_prepare_v2(c->db, strbuf_text(&sql), -1, &s, NULL), SQLITE_OK);
  while (sqlite3_step(s) == SQLITE_ROW) {
    const char *detail = (const char *)sqlite3_column_text(s, 3);
    bool constant = strcmp(detail, "SCAN CONSTANT ROW") == 0 || strncmp(detail, "SCAN (", 6) == 0;
    ck_assert_msg(strncmp(detail, "SCAN ", 5) != 0 || constant, "%s: %s", strbuf_text(&sql), detail);
  }
  sqlite3_finalize(s);
  strbuf_free(&sql);
}

START_TEST(lookups_are_indexed) {
  cache *c = fixture_open("t.arke", CACHE_WRITE);
  static const cache_sql indexed[] = {
      CACHE_SQL_ENTRY_FIND,       CACHE_SQL_ENTRIES,      CACHE_SQL_SIGNATURES,   CACHE_SQL_ENVIRONMENT_FIND,
      CACHE_SQL_SIGNATURE_FIND,   CACHE_SQL_PROBLEM_FIND, CACHE_SQL_TRIAL_STORED, CACHE_SQL_TRIAL_DROP,
      CACHE_SQL_TRIALS_ON_DEVICE, CACHE_SQL_KERNEL_GET,   CACHE_SQL_KERNEL_DROP,  CACHE_SQL_WINNER_GET,
      CACHE_SQL_TRIAL_PUT};
  for (size_t i = 0; i < COUNT_OF(indexed); i++) assert_indexed(c, indexed[i]);
  cache_close(c);
}
END_TEST

TCase *cache_find_case(void) {
  TCase *t = tcase_create("find");
  tcase_add_checked_fixture(t, fixture_enter, fixture_leave);
  tcase_add_test(t, found_entry_is_measured_then_fastest);
  tcase_add_test(t, walks_filter_and_stop);
  tcase_add_test(t, callbacks_may_use_the_handle);
  tcase_add_test(t, lookups_are_indexed);
  return t;
}
