#include "tests/cache/cache_suites.h"

#include <sqlite3.h>
#include <string.h>
#include <unistd.h>

#include "tests/cache/cache_fixture.h"
#include "tests/support/failing_alloc.h"

/* Everything a tuner and then a runtime do with a cache. */
static bool accept(const cache_entry *e, void *user) {
  (void)e, (void)user;
  return true;
}
static bool accept_signature(const cache_problem *p, void *user) {
  (void)p, (void)user;
  return true;
}
static void accept_trial(const cache_trial *t, void *user) {
  (void)t, (void)user;
}

static arke_status write_session(cache *c, const cache_kernel *kernel, arke_error *err) {
  fixture_problem p;
  fixture_fill_problem(&p, 7);
  cache_id problem, environment;
  TRY(cache_environment_id(c, &FIXTURE_H200, &environment, err));
  TRY(cache_problem_id(c, &p.problem, &problem, err));
  cache_trial t = fixture_trial("BLOCK_M=64", 5);
  TRY(cache_put_trial(c, problem, environment, &t, err));
  TRY(cache_each_trial(c, problem, &FIXTURE_H200, accept_trial, NULL, err));
  cache_kernel k = *kernel;
  cache_winner w = fixture_winner(5, CACHE_ORIGIN_MEASURED);
  bool published;
  return cache_put_winner(c, problem, environment, &k, &w, &published, err);
}

static arke_status read_session(cache *c, arena *a, arke_error *err) {
  cache_entry e;
  TRY(cache_each_signature(c, "matmul", "sm_90a", a, accept_signature, NULL, err));
  TRY(fixture_find(c, 7, a, &e, err));
  TRY(cache_load_kernel(c, a, &e, err));
  TRY(cache_each_entry(c, "matmul", "sm_90a", a, accept, NULL, NULL, err));
  cache_stats stats;
  return cache_verify(c, &stats, err);
}

static arke_status session(const cache_kernel *kernel, arke_error *err) {
  arena a = ARENA_INIT;
  cache *c = NULL, *other = NULL;
  const char *aside;
  arke_status status = cache_open_set_aside("a.arke", CACHE_CHECK_PAGES, &a, &c, &aside, err);
  if (status == ARKE_OK) status = write_session(c, kernel, err);
  if (status == ARKE_OK) status = cache_open("b.arke", CACHE_READ, &other, err);
  if (status == ARKE_OK) status = cache_merge(c, other, err);
  cache_close(c);
  cache_close(other);
  if (status == ARKE_OK) status = cache_open("a.arke", CACHE_READ, &c, err);
  if (status == ARKE_OK) {
    status = read_session(c, &a, err);
    cache_close(c);
  }
  arena_release(&a);
  return status;
}

static void assert_session_failed_well(long n, arke_status status, const arke_error *err) {
  ck_assert_msg(status == ARKE_OK || status == ARKE_ERR_MEMORY, "allocation %ld: %s: %s", n,
                arke_status_name(status), err->text);
  if (status == ARKE_OK) return;
  ck_assert(err->code == ARKE_ERR_MEMORY);
  ck_assert(!fixture_exists("a.arke.damaged-1")); /* no memory is no damage */
}

static void assert_good(const char *path, int n) {
  cache *c = fixture_open(path, CACHE_WRITE);
  cache_stats stats;
  ASSERT_OK(cache_verify(c, &stats, &fixture_error));
  ck_assert_int_eq(stats.damaged, 0);
  ck_assert_int_ge(fixture_count_good(c, 7), n);
  cache_close(c);
}

START_TEST(own_allocations_may_fail) {
  cache_kernel k = fixture_kernel(7, 20000);
  fixture_make("b.arke", 2);
  long n = 0;
  for (;; n++) {
    unlink("a.arke");
    arke_error err = ARKE_ERROR_INIT;
    failing_alloc_arm(n);
    arke_status status = session(&k, &err);
    if (!failing_alloc_disarm()) break;
    assert_session_failed_well(n, status, &err);
    assert_good("a.arke", 0);
  }
  ck_assert_int_gt(n, 10);
  assert_good("a.arke", 3);
  fixture_free_kernel(&k);
}
END_TEST

/* --- SQLite's own allocations --- */

static sqlite3_mem_methods real_memory;
static long memory_left = -1;
static bool memory_failed;

static bool fails_now(void) {
  if (memory_left < 0 || memory_left-- > 0) return false;
  memory_failed = true;
  return true;
}
static void *failing_malloc(int n) {
  return fails_now() ? NULL : real_memory.xMalloc(n);
}
static void *failing_realloc(void *p, int n) {
  return fails_now() ? NULL : real_memory.xRealloc(p, n);
}

START_TEST(sqlite_allocations_may_fail) {
  ck_assert_int_eq(sqlite3_config(SQLITE_CONFIG_GETMALLOC, &real_memory), SQLITE_OK);
  sqlite3_mem_methods failing = real_memory;
  failing.xMalloc = failing_malloc;
  failing.xRealloc = failing_realloc;
  ck_assert_int_eq(sqlite3_config(SQLITE_CONFIG_MALLOC, &failing), SQLITE_OK);
  cache_kernel k = fixture_kernel(7, 20000);
  fixture_make("b.arke", 2);
  sqlite3_int64 in_use = sqlite3_memory_used();
  long n = 0, failures = 0;
  for (bool failed = true; failed;
       n += 1 + n / 64) { /* every one at first, then ever fewer: there are thousands */
    unlink("a.arke");
    unlink("a.arke-wal");
    unlink("a.arke-shm");
    unlink("a.arke-journal");
    arke_error err = ARKE_ERROR_INIT;
    memory_left = n;
    memory_failed = false;
    arke_status status = session(&k, &err);
    memory_left = -1;
    failed = memory_failed;
    assert_session_failed_well(n, status, &err);
    if (status != ARKE_OK) failures++;
    ck_assert_int_eq(sqlite3_memory_used(), in_use); /* no leak */
    assert_good("a.arke", status == ARKE_OK ? 3 : 0);
  }
  ck_assert_int_gt(failures, 100);
  fixture_free_kernel(&k);
}
END_TEST

TCase *cache_memory_case(void) {
  TCase *t = tcase_create("memory");
  tcase_add_checked_fixture(t, fixture_enter, fixture_leave);
  tcase_set_timeout(t, 60);
  tcase_add_test(t, own_allocations_may_fail);
  tcase_add_test(t, sqlite_allocations_may_fail);
  return t;
}
