#include "tests/cache/cache_suites.h"

#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/random.h"
#include "cache/store.h"
#include "tests/cache/cache_fixture.h"

/* Publishes k = first, first + 1, … and reports each number once it is stored, until it is killed. It reopens
 * the file now and then, so that deaths fall into opening and closing too. */
static _Noreturn void publish_forever(int first, int pipe_fd) {
  for (int k = first;;) {
    cache *c;
    if (cache_open("a.arke", CACHE_WRITE, &c, NULL) != ARKE_OK) _exit(1);
    for (int i = 0; i < 3; i++, k++) {
      bool published;
      if (fixture_publish(c, &FIXTURE_H200, k, 10, CACHE_ORIGIN_MEASURED, 3000, &published, NULL) != ARKE_OK)
        _exit(2);
      if (write(pipe_fd, &k, sizeof k) != sizeof k) _exit(3);
    }
    cache_close(c);
  }
}

START_TEST(kill_at_any_moment_loses_nothing_stored) {
  int stored = 0;
  for (uint64_t round = 0; round < 40; round++) {
    int fds[2];
    ck_assert_int_eq(pipe(fds), 0);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) publish_forever(stored + 1, fds[1]);
    close(fds[1]);
    usleep((useconds_t)(random_u64(20, round) % 20000));
    kill(child, SIGKILL);
    int status, k;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFSIGNALED(status), "the writer ended by itself: %d", WEXITSTATUS(status));
    while (read(fds[0], &k, sizeof k) == sizeof k) stored = k;
    close(fds[0]);

    cache *c;
    arke_status opened = cache_open("a.arke", round % 2 == 0 ? CACHE_READ : CACHE_WRITE, &c, &fixture_error);
    if (opened != ARKE_OK) { /* killed before it had made anything */
      ck_assert_msg(opened == ARKE_ERR_NOT_FOUND && stored == 0, "%s", fixture_error.text);
      error_clear(&fixture_error);
      continue;
    }
    cache_stats stats;
    ASSERT_OK(cache_verify(c, &stats, &fixture_error));
    ck_assert_int_eq(stats.damaged, 0);
    ck_assert_int_ge(stats.winners, stored);
    ck_assert_int_eq(fixture_count_good(c, stored), stored);
    cache_close(c);
  }
  ck_assert_int_gt(stored, 10);
}
END_TEST

enum { WRITERS = 4, EACH = 25 };

/* Runs `body` in WRITERS processes that start together, and wants all to end well. */
static void in_processes(void (*body)(int)) {
  int gate[2];
  pid_t children[WRITERS];
  ck_assert_int_eq(pipe(gate), 0);
  for (int i = 0; i < WRITERS; i++) {
    children[i] = fork();
    ck_assert_int_ge(children[i], 0);
    if (children[i] == 0) {
      char byte;
      close(gate[1]);
      if (read(gate[0], &byte, 1) != 0) _exit(9);
      body(i);
      _exit(0);
    }
  }
  close(gate[0]);
  close(gate[1]);
  for (int i = 0; i < WRITERS; i++) {
    int status;
    ck_assert_int_eq(waitpid(children[i], &status, 0), children[i]);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "writer %d: %d", i, status);
  }
}

static void child_check(arke_status status, const arke_error *err) {
  if (status == ARKE_OK) return;
  fprintf(stderr, "%s\n", err->text);
  _exit(1);
}

static void write_part(int which) {
  arke_error err = ARKE_ERROR_INIT;
  cache *c;
  for (int i = 0; i < EACH; i++) {
    if (i % 5 == 0) child_check(cache_open("a.arke", CACHE_WRITE, &c, &err), &err);
    bool published;
    int k = 1 + which + WRITERS * i;
    child_check(fixture_publish(c, &FIXTURE_H200, k, 10, CACHE_ORIGIN_MEASURED, 1000, &published, &err),
                &err);
    fixture_problem shared;
    fixture_fill_problem(&shared, 1000000); /* all write to this one's trials */
    cache_id problem, environment;
    char config[32];
    snprintf(config, sizeof config, "BLOCK_M=%d", k);
    cache_trial t = fixture_trial(config, k);
    child_check(cache_problem_id(c, &shared.problem, &problem, &err), &err);
    child_check(cache_environment_id(c, &FIXTURE_H200, &environment, &err), &err);
    child_check(cache_put_trial(c, problem, environment, &t, &err), &err);
    if (i % 5 == 4) cache_close(c);
  }
}

START_TEST(writers_at_once_lose_nothing) {
  in_processes(write_part);
  /* Two that close at the same moment both leave the log to whoever comes next. */
  cache_close(fixture_open("a.arke", CACHE_WRITE));
  ck_assert(!fixture_exists("a.arke-wal"));
  cache *c = fixture_open("a.arke", CACHE_IMMUTABLE);
  ck_assert_int_eq(fixture_count_good(c, WRITERS * EACH), WRITERS * EACH);
  cache_stats stats;
  ASSERT_OK(cache_verify(c, &stats, &fixture_error));
  ck_assert_int_eq(stats.trials, WRITERS * EACH);
  ck_assert_int_eq(stats.problems, WRITERS * EACH + 1);
  ck_assert_int_eq(stats.environments, 1);
  ck_assert_int_eq(stats.damaged, 0);
  cache_close(c);
}
END_TEST

static void set_aside_and_write(int which) {
  arke_error err = ARKE_ERROR_INIT;
  arena a = ARENA_INIT;
  cache *c;
  const char *aside;
  bool published;
  child_check(cache_open_set_aside("a.arke", CACHE_CHECK_PAGES, &a, &c, &aside, &err), &err);
  child_check(fixture_publish(c, &FIXTURE_H200, 1 + which, 10, CACHE_ORIGIN_MEASURED, 100, &published, &err),
              &err);
  cache_close(c);
  arena_release(&a);
}

START_TEST(damaged_file_is_set_aside_once) {
  for (int round = 0; round < 5; round++) {
    fixture_write_file("a.arke", "nothing that SQLite knows, repeated until it is long enough", 59);
    in_processes(set_aside_and_write);
    char name[32];
    snprintf(name, sizeof name, "a.arke.damaged-%d", round + 1);
    ck_assert(fixture_exists(name));
    snprintf(name, sizeof name, "a.arke.damaged-%d", round + 2);
    ck_assert(!fixture_exists(name));
    cache *c = fixture_open("a.arke", CACHE_READ);
    ck_assert_int_eq(fixture_count_good(c, WRITERS), WRITERS);
    cache_close(c);
  }
}
END_TEST

/* Publishes until there is no room; the number of winners stored. */
static int fill(cache *c, const char *part) {
  for (int k = 1; k < 1000; k++) {
    bool published = false;
    error_clear(&fixture_error);
    arke_status status =
        fixture_publish(c, &FIXTURE_H200, k, 10, CACHE_ORIGIN_MEASURED, 5000, &published, &fixture_error);
    if (status == ARKE_OK) continue;
    ck_assert_msg(status == ARKE_ERR_IO && strstr(fixture_error.text, part) != NULL, "%s",
                  fixture_error.text);
    ck_assert_ptr_nonnull(strstr(fixture_error.text, "a.arke"));
    ck_assert(!published);
    return k - 1;
  }
  ck_abort_msg("never full");
}

static void assert_good_after_full(cache *c, int stored) {
  ck_assert_int_eq(fixture_count_good(c, stored), stored);
  cache_stats stats;
  ASSERT_OK(cache_verify(c, &stats, &fixture_error));
  ck_assert_int_eq(stats.winners, stored);
  ck_assert_int_eq(stats.damaged, 0);
}

START_TEST(file_size_limit_is_no_damage) {
  signal(SIGXFSZ, SIG_IGN);
  cache *c = fixture_open("a.arke", CACHE_WRITE);
  struct rlimit limit;
  ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
  rlim_t before = limit.rlim_cur;
  limit.rlim_cur = 300000;
  ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
  int stored = fill(c, "no room to write cache file");
  ck_assert_int_gt(stored, 3);
  assert_good_after_full(c, stored);
  limit.rlim_cur = before;
  ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
  fixture_must_publish(c, &FIXTURE_H200, stored + 1, 10, CACHE_ORIGIN_MEASURED);
  cache_close(c);
  c = fixture_open("a.arke", CACHE_READ);
  assert_good_after_full(c, stored + 1);
  cache_close(c);
}
END_TEST

START_TEST(full_database_is_no_damage) {
  cache *c = fixture_open("a.arke", CACHE_WRITE);
  ck_assert_int_eq(sqlite3_exec(c->db, "PRAGMA max_page_count = 80", NULL, NULL, NULL), SQLITE_OK);
  int stored = fill(c, "disk is full");
  assert_good_after_full(c, stored);
  cache_close(c);
  c = fixture_open("a.arke", CACHE_WRITE);
  assert_good_after_full(c, stored);
  cache_close(c);
}
END_TEST

/* --- every single write fails once --- */

/* The default VFS with a write that can fail. Test processes have one thread. */
static sqlite3_io_methods failing_methods[4];
static const sqlite3_io_methods *real_methods[4];
static int (*real_open)(sqlite3_vfs *, sqlite3_filename, sqlite3_file *, int, int *);
static long writes_left = -1;
static bool write_failed;

static int failing_write(sqlite3_file *f, const void *bytes, int n, sqlite3_int64 offset) {
  if (writes_left >= 0 && writes_left-- == 0) {
    write_failed = true;
    return SQLITE_FULL;
  }
  for (size_t i = 0; i < COUNT_OF(failing_methods); i++)
    if (f->pMethods == &failing_methods[i]) return real_methods[i]->xWrite(f, bytes, n, offset);
  return SQLITE_INTERNAL;
}

static int failing_open(sqlite3_vfs *vfs, sqlite3_filename name, sqlite3_file *f, int flags, int *out) {
  int rc = real_open(vfs, name, f, flags, out);
  for (size_t i = 0; i < COUNT_OF(failing_methods) && rc == SQLITE_OK && f->pMethods != NULL; i++) {
    if (real_methods[i] != NULL && real_methods[i] != f->pMethods) continue;
    real_methods[i] = f->pMethods;
    failing_methods[i] = *f->pMethods;
    failing_methods[i].xWrite = failing_write;
    f->pMethods = &failing_methods[i];
    break;
  }
  return rc;
}

static void install_failing_vfs(void) {
  static sqlite3_vfs vfs;
  vfs = *sqlite3_vfs_find(NULL);
  real_open = vfs.xOpen;
  vfs.xOpen = failing_open;
  vfs.zName = "failing";
  ck_assert_int_eq(sqlite3_vfs_register(&vfs, 1), SQLITE_OK);
}

START_TEST(any_failing_write_is_no_damage) {
  install_failing_vfs();
  long n = 0;
  for (;; n++) {
    unlink("a.arke");
    unlink("a.arke-wal");
    unlink("a.arke-shm");
    unlink("a.arke-journal");
    if (n % 2 == 1) fixture_make("a.arke", 2); /* odd rounds start from a file that is there */
    writes_left = n / 2;
    write_failed = false;
    arke_error err = ARKE_ERROR_INIT;
    cache *c = NULL;
    bool published = false;
    arke_status status = cache_open("a.arke", CACHE_WRITE, &c, &err);
    if (status == ARKE_OK)
      status = fixture_publish(c, &FIXTURE_H200, 3, 10, CACHE_ORIGIN_MEASURED, 9000, &published, &err);
    cache_close(c);
    writes_left = -1;
    bool failed = write_failed;
    ck_assert_msg(status == ARKE_OK || (status == ARKE_ERR_IO && strstr(err.text, "no room") != NULL),
                  "write %ld: %s: %s", n, arke_status_name(status), err.text);
    c = fixture_open("a.arke", CACHE_WRITE);
    cache_stats stats;
    ASSERT_OK(cache_verify(c, &stats, &fixture_error));
    ck_assert_int_eq(stats.damaged, 0);
    ck_assert_int_eq(fixture_count_good(c, 3), (n % 2 == 1 ? 2 : 0) + (published ? 1 : 0));
    cache_close(c);
    if (!failed && n % 2 == 1) break;
  }
  ck_assert_int_gt(n, 20);
}
END_TEST

TCase *cache_crash_case(void) {
  TCase *t = tcase_create("crash");
  tcase_add_checked_fixture(t, fixture_enter, fixture_leave);
  tcase_set_timeout(t, 60);
  tcase_add_test(t, kill_at_any_moment_loses_nothing_stored);
  tcase_add_test(t, writers_at_once_lose_nothing);
  tcase_add_test(t, damaged_file_is_set_aside_once);
  tcase_add_test(t, file_size_limit_is_no_damage);
  tcase_add_test(t, full_database_is_no_damage);
  tcase_add_test(t, any_failing_write_is_no_damage);
  return t;
}
