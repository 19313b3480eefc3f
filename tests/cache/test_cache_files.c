#include "tests/cache/cache_suites.h"

#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cache/schema.h"
#include "cache/store.h"
#include "tests/cache/cache_fixture.h"

static const cache_mode MODES[] = {CACHE_WRITE, CACHE_READ, CACHE_IMMUTABLE};

START_TEST(closed_file_stands_alone) {
  fixture_make("a.arke", 5);
  ck_assert(!fixture_exists("a.arke-wal") && !fixture_exists("a.arke-shm") &&
            !fixture_exists("a.arke-journal"));
  size_t n;
  unsigned char *bytes = fixture_read_file("a.arke", &n);
  ck_assert_int_eq(bytes[18], 1); /* SQLite's file format 1: not WAL */
  ck_assert_int_eq(memcmp(bytes + 68, "ARKE", 4), 0);
  free(bytes);
  for (size_t m = 0; m < COUNT_OF(MODES); m++) {
    cache *c = fixture_open("a.arke", MODES[m]);
    ck_assert_str_eq(cache_path(c), "a.arke");
    ck_assert_int_eq(fixture_count_good(c, 5), 5);
    cache_close(c);
  }
  ck_assert(!fixture_exists("a.arke-wal") && !fixture_exists("a.arke-shm"));
  cache_close(NULL);
}
END_TEST

START_TEST(reader_sees_what_a_writer_commits) {
  cache *w = fixture_open("a.arke", CACHE_WRITE);
  cache *r = fixture_open("a.arke", CACHE_READ);
  ck_assert_int_eq(fixture_count_good(r, 2), 0);
  fixture_must_publish(w, &FIXTURE_H200, 1, 10, CACHE_ORIGIN_MEASURED);
  ck_assert_int_eq(fixture_count_good(r, 2), 1);
  cache_close(w); /* the reader keeps the file in WAL mode */
  ck_assert_int_eq(fixture_count_good(r, 2), 1);
  w = fixture_open("a.arke", CACHE_WRITE);
  fixture_must_publish(w, &FIXTURE_H200, 2, 10, CACHE_ORIGIN_MEASURED);
  ck_assert_int_eq(fixture_count_good(r, 2), 2);
  cache_close(r);
  cache_close(w);
  ck_assert(!fixture_exists("a.arke-wal"));
  cache *c = fixture_open("a.arke", CACHE_IMMUTABLE);
  ck_assert_int_eq(fixture_count_good(c, 2), 2);
  cache_close(c);
}
END_TEST

/* Names that SQLite would take for a URI, a database in memory or a parameter. */
START_TEST(names_mean_nothing_to_sqlite) {
  static const char *const names[] = {":memory:",   "file:b.arke", "a?mode=memory", "a#b%41.arke",
                                      "with space", "ümläut.arke", "a&b=c",         "-x"};
  for (size_t i = 0; i < COUNT_OF(names); i++) {
    fixture_make(names[i], 1);
    ck_assert_msg(fixture_exists(names[i]), "%s", names[i]);
    for (size_t m = 0; m < COUNT_OF(MODES); m++) {
      cache *c = fixture_open(names[i], MODES[m]);
      ck_assert_int_eq(fixture_count_good(c, 1), 1);
      cache_close(c);
    }
  }
  char directory[64], absolute[80];
  ck_assert_ptr_nonnull(getcwd(directory, sizeof directory));
  snprintf(absolute, sizeof absolute, "/%s//x.arke", directory); /* a double slash at the front, too */
  fixture_make(absolute, 1);
  ck_assert(fixture_exists("x.arke"));
}
END_TEST

START_TEST(missing_things_are_named) {
  cache *c;
  ck_assert_int_eq(mkdir("folder", 0777), 0);
  ck_assert_int_eq(mkfifo("pipe", 0777), 0);
  ASSERT_FAILS(cache_open("no.arke", CACHE_READ, &c, &fixture_error), ARKE_ERR_NOT_FOUND,
               "no.arke does not exist");
  ck_assert_ptr_null(c);
  ASSERT_FAILS(cache_open("no.arke", CACHE_IMMUTABLE, &c, &fixture_error), ARKE_ERR_NOT_FOUND, "no.arke");
  ck_assert(!fixture_exists("no.arke"));
  ASSERT_FAILS(cache_open("nowhere/no.arke", CACHE_WRITE, &c, &fixture_error), ARKE_ERR_IO,
               "directory nowhere of cache file nowhere/no.arke does not exist");
  for (size_t m = 0; m < COUNT_OF(MODES); m++) {
    ASSERT_FAILS(cache_open("folder", MODES[m], &c, &fixture_error), ARKE_ERR_IO,
                 "folder is not a regular file");
    ASSERT_FAILS(cache_open("pipe", MODES[m], &c, &fixture_error), ARKE_ERR_IO, "pipe is not a regular file");
    ASSERT_FAILS(cache_open("", MODES[m], &c, &fixture_error), ARKE_ERR_ARGUMENT, "empty");
    ASSERT_FAILS(cache_open(NULL, MODES[m], &c, &fixture_error), ARKE_ERR_ARGUMENT, "empty");
  }
  fixture_write_file("plain", "x", 1);
  ASSERT_FAILS(cache_open("plain/a.arke", CACHE_WRITE, &c, &fixture_error), ARKE_ERR_IO, "plain/a.arke");
}
END_TEST

START_TEST(empty_file_counts_as_new) {
  fixture_write_file("a.arke", "", 0);
  cache *c;
  ASSERT_FAILS(cache_open("a.arke", CACHE_READ, &c, &fixture_error), ARKE_ERR_NOT_FOUND, "a.arke is empty");
  ASSERT_FAILS(cache_open("a.arke", CACHE_IMMUTABLE, &c, &fixture_error), ARKE_ERR_NOT_FOUND, "is empty");
  arena a = ARENA_INIT;
  const char *aside = "x";
  ASSERT_OK(cache_open_set_aside("a.arke", CACHE_CHECK_PAGES, &a, &c, &aside, &fixture_error));
  ck_assert_ptr_null(aside);
  cache_close(c);
  arena_release(&a);
  fixture_make("a.arke", 1);
}
END_TEST

/* What is not to be opened, how it is made, and what is said about it. */
static void make_text(void) {
  char text[2000];
  memset(text, '#', sizeof text);
  fixture_write_file("a.arke", text, sizeof text);
}
static void make_short(void) {
  fixture_write_file("a.arke", "x", 1);
}
static void make_foreign(void) {
  fixture_sql("a.arke", "CREATE TABLE t (x); INSERT INTO t VALUES (1)");
}
static void make_foreign_wal(void) {
  fixture_sql("a.arke", "PRAGMA journal_mode = WAL; PRAGMA application_id = 7; CREATE TABLE t (x)");
}
static void make_truncated(void) {
  fixture_make("a.arke", 20);
  ck_assert_int_eq(truncate("a.arke", 8192), 0);
}
static void make_headless(void) {
  fixture_make("a.arke", 3);
  size_t n;
  unsigned char *bytes = fixture_read_file("a.arke", &n);
  memset(bytes, 0, 100);
  fixture_write_file("a.arke", bytes, n);
  free(bytes);
}
static void make_without_table(void) {
  fixture_make("a.arke", 1);
  fixture_sql("a.arke", "DROP TABLE trials");
}
static void make_other_column(void) {
  fixture_make("a.arke", 1);
  fixture_sql("a.arke", "ALTER TABLE trials RENAME COLUMN config TO configuration");
}
static void make_version_0(void) {
  fixture_make("a.arke", 1);
  fixture_sql("a.arke", "PRAGMA user_version = 0");
}
static void make_newer(void) {
  fixture_make("a.arke", 1);
  fixture_sql("a.arke", "PRAGMA user_version = 2; ALTER TABLE trials ADD COLUMN joules REAL");
}

static const struct {
  void (*make)(void);
  const char *part;
  bool set_aside;
} UNUSABLE[] = {
    {make_text, "not a cache of Arke, nor any SQLite database", true},
    {make_short, "not a cache of Arke, nor any SQLite database", true},
    {make_foreign, "an SQLite database, but not a cache of Arke", true},
    {make_foreign_wal, "an SQLite database, but not a cache of Arke", true},
    {make_truncated, "damaged", true},
    {make_headless, "not a cache of Arke, nor any SQLite database", true},
    {make_without_table, "its tables are not those of schema version 1", true},
    {make_other_column, "its tables are not those of schema version 1", true},
    {make_version_0, "its tables are not those of schema version 1", true},
    {make_newer, "has schema version 2; this Arke reads version 1", false},
};

START_TEST(unusable_file_is_left_alone) {
  UNUSABLE[_i].make();
  size_t before, after;
  unsigned char *old = fixture_read_file("a.arke", &before);
  for (size_t m = 0; m < COUNT_OF(MODES); m++) {
    cache *c;
    ASSERT_FAILS(cache_open("a.arke", MODES[m], &c, &fixture_error), ARKE_ERR_CORRUPT, UNUSABLE[_i].part);
    ck_assert_ptr_nonnull(strstr(fixture_error.text, "a.arke"));
    ck_assert_ptr_null(strchr(fixture_error.text, '\n'));
    ck_assert_ptr_null(c);
    unsigned char *new = fixture_read_file("a.arke", &after);
    ck_assert_uint_eq(after, before);
    ck_assert_mem_eq(new, old, before);
    free(new);
  }
  free(old);
}
END_TEST

START_TEST(unusable_file_is_set_aside) {
  UNUSABLE[_i].make();
  size_t before, after;
  unsigned char *old = fixture_read_file("a.arke", &before);
  fixture_write_file("a.arke.damaged-1", "earlier", 7);
  fixture_write_file("a.arke.damaged-2-wal", "earlier", 7);
  arena a = ARENA_INIT;
  cache *c;
  const char *aside = "x";
  if (UNUSABLE[_i].set_aside) {
    ASSERT_OK(cache_open_set_aside("a.arke", CACHE_CHECK_PAGES, &a, &c, &aside, &fixture_error));
    ck_assert_str_eq(aside, "a.arke.damaged-3");
    fixture_must_publish(c, &FIXTURE_H200, 1, 10, CACHE_ORIGIN_MEASURED);
    ck_assert_int_eq(fixture_count_good(c, 1), 1);
    cache_close(c);
  } else {
    ASSERT_FAILS(cache_open_set_aside("a.arke", CACHE_CHECK_PAGES, &a, &c, &aside, &fixture_error),
                 ARKE_ERR_CORRUPT, UNUSABLE[_i].part);
    ck_assert_ptr_null(aside);
    ck_assert(!fixture_exists("a.arke.damaged-3"));
  }
  unsigned char *new = fixture_read_file(UNUSABLE[_i].set_aside ? "a.arke.damaged-3" : "a.arke", &after);
  ck_assert_uint_eq(after, before);
  ck_assert_mem_eq(new, old, before);
  free(new);
  new = fixture_read_file("a.arke.damaged-1", &after);
  ck_assert(after == 7 && memcmp(new, "earlier", 7) == 0);
  free(new);
  free(old);
  arena_release(&a);
}
END_TEST

/* The first page of each table, which only a check of the pages shows: those of keys must be found before
 * hours of tuning, the rest when a thorough check is asked for. */
static const struct {
  const char *table;
  bool key;
} TABLES[] = {{"environments", true}, {"signatures", true}, {"problems", true},
              {"winners", true},      {"trials", false},    {"kernels", false}};

static void spoil_first_page(const char *table) {
  sqlite3 *db;
  sqlite3_stmt *s;
  ck_assert_int_eq(sqlite3_open("a.arke", &db), SQLITE_OK);
  ck_assert_int_eq(sqlite3_prepare_v2(db, "SELECT rootpage FROM sqlite_master WHERE name = ?", -1, &s, NULL),
                   SQLITE_OK);
  sqlite3_bind_text(s, 1, table, -1, SQLITE_STATIC);
  ck_assert_int_eq(sqlite3_step(s), SQLITE_ROW);
  size_t page = (size_t)sqlite3_column_int64(s, 0), n;
  sqlite3_finalize(s);
  sqlite3_close(db);
  unsigned char *bytes = fixture_read_file("a.arke", &n);
  memset(bytes + (page - 1) * 4096, 0xA5, 4096);
  fixture_write_file("a.arke", bytes, n);
  free(bytes);
}

START_TEST(damaged_page_is_set_aside) {
  fixture_make("a.arke", 200);
  spoil_first_page(TABLES[_i].table);
  arena a = ARENA_INIT;
  cache *c;
  const char *aside;
  ASSERT_OK(cache_open_set_aside("a.arke", CACHE_CHECK_KEYS, &a, &c, &aside, &fixture_error));
  if (!TABLES[_i].key) {
    ck_assert_ptr_null(aside);
    cache_close(c);
    ASSERT_OK(cache_open_set_aside("a.arke", CACHE_CHECK_PAGES, &a, &c, &aside, &fixture_error));
  }
  ck_assert_str_eq(aside, "a.arke.damaged-1");
  cache_close(c);
  arena_release(&a);
}
END_TEST

START_TEST(additions_of_a_person_do_no_harm) {
  fixture_make("a.arke", 1);
  fixture_sql("a.arke",
              "CREATE VIEW best AS SELECT config FROM winners; CREATE TABLE notes (x);"
              "CREATE TRIGGER spoil AFTER INSERT ON winners BEGIN DELETE FROM winners; END; ANALYZE");
  for (size_t m = 0; m < COUNT_OF(MODES); m++) {
    cache *c = fixture_open("a.arke", MODES[m]);
    if (MODES[m] == CACHE_WRITE) fixture_must_publish(c, &FIXTURE_H200, 2, 10, CACHE_ORIGIN_MEASURED);
    ck_assert_int_eq(fixture_count_good(c, 2), 2); /* the trigger did not run */
    cache_close(c);
  }
}
END_TEST

/* Root may do everything: the rest of the test runs as nobody. */
static void drop_privileges(void) {
  ck_assert_int_eq(chmod(".", 0755), 0);
  if (geteuid() == 0) ck_assert_int_eq(seteuid(65534), 0);
}

static void regain_privileges(void) {
  if (getuid() == 0) ck_assert_int_eq(seteuid(0), 0);
}

START_TEST(permissions_are_named) {
  fixture_make("a.arke", 2);
  fixture_make("secret.arke", 1);
  ck_assert_int_eq(mkdir("closed", 0777) | chmod("closed", 0555), 0);
  ck_assert_int_eq(chmod("a.arke", 0444) | chmod("secret.arke", 0), 0);
  drop_privileges();
  cache *c;
  arena a = ARENA_INIT;
  const char *aside;
  ASSERT_FAILS(cache_open("closed/new.arke", CACHE_WRITE, &c, &fixture_error), ARKE_ERR_IO,
               "no permission to write in directory closed of cache file closed/new.arke");
  ASSERT_FAILS(cache_open("secret.arke", CACHE_READ, &c, &fixture_error), ARKE_ERR_IO,
               "no permission to read cache file secret.arke");
  ASSERT_FAILS(cache_open("secret.arke", CACHE_WRITE, &c, &fixture_error), ARKE_ERR_IO,
               "no permission to write");
  ASSERT_FAILS(cache_open_set_aside("a.arke", CACHE_CHECK_PAGES, &a, &c, &aside, &fixture_error), ARKE_ERR_IO,
               "no permission to write");
  regain_privileges();
  ck_assert_int_eq(chmod(".", 0777), 0);
  if (geteuid() == 0) ck_assert_int_eq(seteuid(65534), 0);
  ASSERT_FAILS(cache_open("a.arke", CACHE_WRITE, &c, &fixture_error), ARKE_ERR_IO,
               "no permission to write cache file a.arke");
  ASSERT_OK(cache_open("a.arke", CACHE_READ, &c, &fixture_error));
  ck_assert_int_eq(fixture_count_good(c, 2), 2);
  cache_close(c);
  regain_privileges();
  arena_release(&a);
}
END_TEST

START_TEST(readonly_directory_can_be_read) {
  fixture_make("a.arke", 3);
  drop_privileges();
  for (size_t m = 1; m < COUNT_OF(MODES); m++) {
    cache *c = fixture_open("a.arke", MODES[m]);
    ck_assert_int_eq(fixture_count_good(c, 3), 3);
    cache_close(c);
  }
  regain_privileges();
  /* A copy taken in WAL mode, without its -wal: what was checkpointed is there. */
  fixture_sql("a.arke", "PRAGMA journal_mode = WAL");
  ck_assert(!fixture_exists("a.arke-wal"));
  drop_privileges();
  for (size_t m = 1; m < COUNT_OF(MODES); m++) {
    cache *c = fixture_open("a.arke", MODES[m]);
    ck_assert_int_eq(fixture_count_good(c, 3), 3);
    cache_close(c);
  }
  regain_privileges();
}
END_TEST

/* Publishes k = 1 … n and dies without closing. */
static void write_and_die(const char *path, int n) {
  pid_t child = fork();
  ck_assert_int_ge(child, 0);
  if (child == 0) {
    cache *c;
    bool published;
    if (cache_open(path, CACHE_WRITE, &c, NULL) != ARKE_OK) _exit(1);
    for (int k = 1; k <= n; k++)
      if (fixture_publish(c, &FIXTURE_H200, k, 10, CACHE_ORIGIN_MEASURED, 100, &published, NULL) != ARKE_OK)
        _exit(1);
    kill(getpid(), SIGKILL);
  }
  int status;
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  ck_assert(WIFSIGNALED(status));
}

START_TEST(reader_recovers_what_a_killed_writer_left) {
  write_and_die("a.arke", 4);
  ck_assert(fixture_exists("a.arke-wal"));
  cache *c;
  ASSERT_FAILS(cache_open("a.arke", CACHE_IMMUTABLE, &c, &fixture_error), ARKE_ERR_BUSY,
               "a.arke is not complete: its last writer left a.arke-wal");
  c = fixture_open("a.arke", CACHE_READ);
  ck_assert_int_eq(fixture_count_good(c, 4), 4);
  cache_close(c);
  cache_close(fixture_open("a.arke", CACHE_WRITE)); /* completes the file */
  ck_assert(!fixture_exists("a.arke-wal"));
  c = fixture_open("a.arke", CACHE_IMMUTABLE);
  ck_assert_int_eq(fixture_count_good(c, 4), 4);
  cache_close(c);
}
END_TEST

START_TEST(links_are_followed) {
  ck_assert_int_eq(mkdir("store", 0777), 0);
  write_and_die("store/a.arke", 2);
  ck_assert_int_eq(symlink("store/a.arke", "link.arke"), 0);
  cache *c;
  ASSERT_FAILS(cache_open("link.arke", CACHE_IMMUTABLE, &c, &fixture_error), ARKE_ERR_BUSY, "link.arke-wal");
  for (size_t m = 0; m < COUNT_OF(MODES); m++) {
    c = fixture_open("link.arke", MODES[m]);
    ck_assert_int_eq(fixture_count_good(c, 2), 2);
    cache_close(c);
  }
}
END_TEST

START_TEST(incomplete_file_in_a_readonly_directory_says_so) {
  write_and_die("a.arke", 4);
  ck_assert_int_eq(unlink("a.arke-shm"), 0);
  drop_privileges();
  cache *c;
  ASSERT_FAILS(cache_open("a.arke", CACHE_READ, &c, &fixture_error), ARKE_ERR_BUSY, "a.arke-wal");
  regain_privileges();
}
END_TEST

/* A rollback journal, as a writer leaves it that is killed where WAL cannot be had. */
START_TEST(reader_rolls_a_journal_back) {
  fixture_make("a.arke", 2);
  pid_t child = fork();
  ck_assert_int_ge(child, 0);
  if (child == 0) {
    sqlite3 *db;
    sqlite3_open("a.arke", &db);
    sqlite3_exec(
        db,
        "PRAGMA cache_size = 1; PRAGMA cache_spill = 1; BEGIN IMMEDIATE; DELETE FROM winners; DELETE FROM "
        "kernels;"
        "INSERT INTO kernels (sha256, recipe, ptx) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 "
        "FROM n LIMIT 500) SELECT 'x' || i, '', zeroblob(2000) FROM n",
        NULL, NULL, NULL);
    kill(getpid(), SIGKILL);
  }
  ck_assert_int_eq(waitpid(child, NULL, 0), child);
  ck_assert(fixture_exists("a.arke-journal"));
  cache *c;
  ASSERT_FAILS(cache_open("a.arke", CACHE_IMMUTABLE, &c, &fixture_error), ARKE_ERR_BUSY, "a.arke-journal");
  drop_privileges();
  ASSERT_FAILS(cache_open("a.arke", CACHE_READ, &c, &fixture_error), ARKE_ERR_BUSY, "a.arke-journal");
  regain_privileges();
  c = fixture_open("a.arke", CACHE_READ);
  ck_assert_int_eq(fixture_count_good(c, 2), 2);
  cache_close(c);
}
END_TEST

START_TEST(locked_file_is_busy) {
  fixture_make("a.arke", 1);
  sqlite3 *db;
  ck_assert_int_eq(sqlite3_open("a.arke", &db), SQLITE_OK);
  cache *c = fixture_open("a.arke", CACHE_WRITE);
  sqlite3_busy_timeout(c->db, 20); /* the real wait would be long */
  ck_assert_int_eq(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
  bool published;
  ASSERT_FAILS(fixture_publish(c, &FIXTURE_H200, 2, 1, CACHE_ORIGIN_MEASURED, 10, &published, &fixture_error),
               ARKE_ERR_BUSY, "a.arke stayed locked");
  ck_assert_int_eq(fixture_count_good(c, 2), 1); /* reading goes on */
  ck_assert_int_eq(sqlite3_exec(db, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
  fixture_must_publish(c, &FIXTURE_H200, 2, 1, CACHE_ORIGIN_MEASURED);
  cache_close(c);
  sqlite3_close(db);
}
END_TEST

TCase *cache_files_case(void) {
  TCase *t = tcase_create("files");
  tcase_add_checked_fixture(t, fixture_enter, fixture_leave);
  tcase_add_test(t, closed_file_stands_alone);
  tcase_add_test(t, reader_sees_what_a_writer_commits);
  tcase_add_test(t, names_mean_nothing_to_sqlite);
  tcase_add_test(t, missing_things_are_named);
  tcase_add_test(t, empty_file_counts_as_new);
  tcase_add_loop_test(t, unusable_file_is_left_alone, 0, COUNT_OF(UNUSABLE));
  tcase_add_loop_test(t, unusable_file_is_set_aside, 0, COUNT_OF(UNUSABLE));
  tcase_add_loop_test(t, damaged_page_is_set_aside, 0, COUNT_OF(TABLES));
  tcase_add_test(t, additions_of_a_person_do_no_harm);
  tcase_add_test(t, permissions_are_named);
  tcase_add_test(t, readonly_directory_can_be_read);
  tcase_add_test(t, reader_recovers_what_a_killed_writer_left);
  tcase_add_test(t, links_are_followed);
  tcase_add_test(t, incomplete_file_in_a_readonly_directory_says_so);
  tcase_add_test(t, reader_rolls_a_journal_back);
  tcase_add_test(t, locked_file_is_busy);
  return t;
}
