/* The file is removed, moved or replaced while a writer has it open, or was never whole. */
#include "tests/cache/cache_suites.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/cache/cache_fixture.h"

#define PATH "d/a.arke"

static void remove_file(void) {
  ck_assert_int_eq(unlink(PATH), 0);
}
static void move_away(void) {
  ck_assert_int_eq(rename(PATH, "kept.arke"), 0);
}
static void move_directory(void) {
  ck_assert_int_eq(rename("d", "elsewhere"), 0);
}
static void put_another_there(void) {
  fixture_make("other.arke", 3);
  ck_assert_int_eq(rename("other.arke", PATH), 0);
}
static void make_directory_anew(void) {
  move_directory();
  ck_assert_int_eq(mkdir("d", 0777), 0);
  fixture_make(PATH, 3);
}

static const struct {
  void (*change)(void);
  const char *what;
  const char *old; /* where the writer's file is now; NULL: nowhere */
  int others;      /* entries of the file that is there now; 0: none is */
} CHANGES[] = {
    {remove_file, "was removed or moved while it was in use", NULL, 0},
    {move_away, "was removed or moved while it was in use", "kept.arke", 0},
    {move_directory, "was removed or moved while it was in use", "elsewhere/a.arke", 0},
    {put_another_there, "was replaced by another file while it was in use", NULL, 3},
    {make_directory_anew, "was replaced by another file while it was in use", "elsewhere/a.arke", 3},
};

/* Every way of writing says so, and neither file is harmed: that which was moved has all that was stored, and
 * the new one has none of it, nor a -wal of the old one beside it. */
START_TEST(a_file_that_is_gone_is_an_error) {
  ck_assert_int_eq(mkdir("d", 0777), 0);
  fixture_make("more.arke", 4);
  cache *c = fixture_open(PATH, CACHE_WRITE), *from = fixture_open("more.arke", CACHE_READ);
  ASSERT_OK(cache_check_place(c, &fixture_error));
  ASSERT_OK(cache_check_place(from, &fixture_error));
  fixture_must_publish(c, &FIXTURE_H200, 1, 10, CACHE_ORIGIN_MEASURED);
  fixture_problem p;
  fixture_fill_problem(&p, 1);
  cache_id problem, environment;
  ASSERT_OK(cache_problem_id(c, &p.problem, &problem, &fixture_error));
  ASSERT_OK(cache_environment_id(c, &FIXTURE_H200, &environment, &fixture_error));
  CHANGES[_i].change();
  const char *what = CHANGES[_i].what;
  bool published = true;
  ASSERT_FAILS(cache_check_place(c, &fixture_error), ARKE_ERR_IO, what);
  ASSERT_FAILS(
      fixture_publish(c, &FIXTURE_H200, 2, 10, CACHE_ORIGIN_MEASURED, 100, &published, &fixture_error),
      ARKE_ERR_IO, what);
  ck_assert_ptr_nonnull(strstr(fixture_error.text, PATH));
  cache_trial t = fixture_trial("BLOCK_M=64", 20);
  ASSERT_FAILS(cache_put_trial(c, problem, environment, &t, &fixture_error), ARKE_ERR_IO, what);
  ASSERT_FAILS(cache_merge(c, from, &fixture_error), ARKE_ERR_IO, what);
  cache_close(from);
  cache_close(c);
  if (CHANGES[_i].old != NULL) {
    c = fixture_open(CHANGES[_i].old, CACHE_WRITE);
    ck_assert_int_eq(fixture_count_good(c, 4), 1);
    cache_close(c);
  }
  ck_assert(!fixture_exists(PATH "-wal") && !fixture_exists(PATH "-shm") && !fixture_exists(PATH "-journal"));
  ck_assert_int_eq(fixture_exists(PATH), CHANGES[_i].others > 0);
  if (CHANGES[_i].others == 0) return;
  c = fixture_open(PATH, CACHE_WRITE);
  ck_assert_int_eq(fixture_count_good(c, 4), 3);
  cache_close(c);
}
END_TEST

/* A change of the path's link counts like one of the file. */
START_TEST(a_link_that_is_turned_is_an_error) {
  fixture_make("a.arke", 1);
  fixture_make("b.arke", 1);
  ck_assert_int_eq(symlink("a.arke", "link"), 0);
  cache *c = fixture_open("link", CACHE_WRITE);
  fixture_must_publish(c, &FIXTURE_H200, 2, 10, CACHE_ORIGIN_MEASURED);
  ck_assert_int_eq(unlink("link") | symlink("b.arke", "link"), 0);
  ASSERT_FAILS(cache_check_place(c, &fixture_error), ARKE_ERR_IO, "link was replaced by another file");
  cache_close(c);
  c = fixture_open("a.arke", CACHE_IMMUTABLE); /* it was closed as ever */
  ck_assert_int_eq(fixture_count_good(c, 2), 2);
  cache_close(c);
}
END_TEST

/* --- what could not be made --- */

static void make_name(char name[400], size_t length) {
  memset(name, 'n', length);
  name[length] = '\0';
}

/* SQLite keeps "-journal" beside the file. */
START_TEST(a_name_that_is_too_long_leaves_nothing) {
  enum { LONGEST = 255 - 8 };
  char name[400];
  for (size_t length = LONGEST; length < LONGEST + 12; length++) {
    make_name(name, length);
    cache *c;
    if (length == LONGEST) {
      ASSERT_OK(cache_open(name, CACHE_WRITE, &c, &fixture_error));
      cache_close(c);
      continue;
    }
    ASSERT_FAILS(cache_open(name, CACHE_WRITE, &c, &fixture_error), ARKE_ERR_IO, "name");
    ck_assert_msg(strstr(fixture_error.text, "too long") != NULL, "%s", fixture_error.text);
    ck_assert(!fixture_exists(name));
  }
}
END_TEST

START_TEST(a_path_that_is_too_long_leaves_nothing) {
  enum { DEPTH = 5 };
  char path[2000] = "", part[400];
  make_name(part, 200);
  for (int i = 0; i < DEPTH; i++) {
    strcat(path, part);
    ck_assert_int_eq(mkdir(path, 0777), 0);
    strcat(path, "/");
  }
  strcat(path, "a.arke");
  cache *c;
  arke_status status = cache_open(path, CACHE_WRITE, &c, &fixture_error);
  if (status == ARKE_OK) {
    cache_close(c);
    return;
  }
  ck_assert_msg(strstr(fixture_error.text, "too long") != NULL, "%s", fixture_error.text);
  ck_assert(!fixture_exists(path));
}
END_TEST

/* How far a disk that is full lets SQLite come; the file that could not be begun is gone, an old one stays.
 */
static const rlim_t ROOM[] = {0, 512, 4096, 8192, 16384};

START_TEST(a_full_disk_leaves_no_empty_file) {
  signal(SIGXFSZ, SIG_IGN);
  struct rlimit limit;
  getrlimit(RLIMIT_FSIZE, &limit);
  fixture_write_file("old.arke", "", 0);
  ck_assert_int_eq(symlink("target.arke", "link.arke"), 0);
  static const char *const paths[] = {"a.arke", "link.arke", "old.arke"};
  for (size_t i = 0; i < COUNT_OF(paths); i++) {
    cache *c;
    arke_error err = ARKE_ERROR_INIT;
    rlim_t before = limit.rlim_cur;
    limit.rlim_cur = ROOM[_i];
    setrlimit(RLIMIT_FSIZE, &limit);
    arke_status status = cache_open(paths[i], CACHE_WRITE, &c, &err);
    limit.rlim_cur = before; /* the test's own messages are in a file */
    setrlimit(RLIMIT_FSIZE, &limit);
    ck_assert_msg(status == ARKE_ERR_IO && strstr(err.text, "no room") != NULL, "%s: %s", paths[i], err.text);
  }
  ck_assert(!fixture_exists("a.arke") && !fixture_exists("a.arke-journal"));
  ck_assert(!fixture_exists("target.arke") && !fixture_exists("target.arke-journal"));
  ck_assert(fixture_exists("old.arke"));
}
END_TEST

/* The link stays, and what it leads to is set aside where it is. */
START_TEST(a_link_to_a_damaged_file_stays) {
  ck_assert_int_eq(mkdir("d", 0777), 0);
  fixture_write_file(PATH, "damaged", 7);
  ck_assert_int_eq(symlink(PATH, "link"), 0);
  arena a = ARENA_INIT;
  cache *c;
  const char *aside;
  ASSERT_OK(cache_open_set_aside("link", CACHE_CHECK_PAGES, &a, &c, &aside, &fixture_error));
  ck_assert_ptr_nonnull(strstr(aside, "/d/a.arke.damaged-1"));
  ck_assert(fixture_exists(aside) && !fixture_exists("link.damaged-1"));
  fixture_must_publish(c, &FIXTURE_H200, 1, 10, CACHE_ORIGIN_MEASURED);
  cache_close(c);
  struct stat st;
  ck_assert(lstat("link", &st) == 0 && S_ISLNK(st.st_mode));
  c = fixture_open(PATH, CACHE_READ);
  ck_assert_int_eq(fixture_count_good(c, 1), 1);
  cache_close(c);
  arena_release(&a);
}
END_TEST

TCase *cache_place_case(void) {
  TCase *t = tcase_create("place");
  tcase_add_checked_fixture(t, fixture_enter, fixture_leave);
  tcase_add_loop_test(t, a_file_that_is_gone_is_an_error, 0, COUNT_OF(CHANGES));
  tcase_add_test(t, a_link_that_is_turned_is_an_error);
  tcase_add_test(t, a_name_that_is_too_long_leaves_nothing);
  tcase_add_test(t, a_path_that_is_too_long_leaves_nothing);
  tcase_add_loop_test(t, a_full_disk_leaves_no_empty_file, 0, COUNT_OF(ROOM));
  tcase_add_test(t, a_link_to_a_damaged_file_stays);
  return t;
}
