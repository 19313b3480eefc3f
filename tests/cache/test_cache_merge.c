#include "tests/cache/cache_suites.h"

#include <string.h>
#include <sys/stat.h>

#include "tests/cache/cache_fixture.h"

static cache_merged merge(const char *to, const char *from, cache_mode mode) {
  cache *t = fixture_open(to, CACHE_WRITE), *f = fixture_open(from, mode);
  cache_merged counts;
  ASSERT_OK(cache_merge_counted(t, f, &counts, &fixture_error));
  cache_stats stats;
  ASSERT_OK(cache_verify(t, &stats, &fixture_error));
  ck_assert_int_eq(stats.damaged, 0);
  cache_close(f);
  cache_close(t);
  return counts;
}

static void publish_in(const char *path, const cache_environment *e, int k, double ns, cache_origin origin) {
  cache *c = fixture_open(path, CACHE_WRITE);
  fixture_must_publish(c, e, k, ns, origin);
  cache_close(c);
}

static void assert_winner(const char *path, int k, double ns, const cache_environment *e) {
  cache *c = fixture_open(path, CACHE_READ);
  arena a = ARENA_INIT;
  cache_entry found;
  ASSERT_OK(fixture_find(c, k, &a, &found, &fixture_error));
  ASSERT_OK(cache_load_kernel(c, &a, &found, &fixture_error));
  ck_assert_double_eq(found.winner.time.median_ns, ns);
  ck_assert_str_eq(found.environment.device, e->device);
  arena_release(&a);
  cache_close(c);
}

START_TEST(merge_adds_what_is_missing_once) {
  publish_in("to", &FIXTURE_H200, 1, 10, CACHE_ORIGIN_MEASURED);
  publish_in("from", &FIXTURE_H200, 2, 20, CACHE_ORIGIN_MEASURED);
  publish_in("from", &FIXTURE_MODEL, 3, 30, CACHE_ORIGIN_MODELLED);
  cache_merged counts = merge("to", "from", CACHE_IMMUTABLE);
  ck_assert_int_eq(counts.problems, 2);
  ck_assert_int_eq(counts.winners, 2);
  ck_assert_int_eq(counts.new_winners, 2);
  ck_assert_int_eq(counts.damaged, 0);
  assert_winner("to", 1, 10, &FIXTURE_H200);
  assert_winner("to", 2, 20, &FIXTURE_H200);
  assert_winner("to", 3, 30, &FIXTURE_MODEL);
  counts = merge("to", "from", CACHE_READ);
  ck_assert_int_eq(counts.winners, 2);
  ck_assert_int_eq(counts.new_winners, 0);
}
END_TEST

START_TEST(merge_keeps_the_better) {
  publish_in("to", &FIXTURE_MODEL, 1, 1, CACHE_ORIGIN_MODELLED); /* measured beats modelled */
  publish_in("from", &FIXTURE_H200, 1, 10, CACHE_ORIGIN_MEASURED);
  publish_in("to", &FIXTURE_H200, 2, 10, CACHE_ORIGIN_MEASURED);
  publish_in("from", &FIXTURE_MODEL, 2, 1, CACHE_ORIGIN_MODELLED);
  publish_in("to", &FIXTURE_H200, 3, 10, CACHE_ORIGIN_MEASURED); /* faster elsewhere */
  publish_in("from", &FIXTURE_H100, 3, 9, CACHE_ORIGIN_MEASURED);
  publish_in("to", &FIXTURE_H200, 4, 10, CACHE_ORIGIN_MEASURED);
  publish_in("from", &FIXTURE_H100, 4, 11, CACHE_ORIGIN_MEASURED);
  publish_in("to", &FIXTURE_H200, 5, 10, CACHE_ORIGIN_MEASURED); /* same environment: the later */
  publish_in("from", &FIXTURE_H200, 5, 12, CACHE_ORIGIN_MEASURED);
  publish_in("to", &FIXTURE_H200, 6, 12, CACHE_ORIGIN_MEASURED);
  publish_in("from", &FIXTURE_H200, 6, 10, CACHE_ORIGIN_MEASURED);
  fixture_sql("to",
              "UPDATE winners SET published_s = 1000; UPDATE winners SET seal = seal(problem, environment, "
              "kernel, template, config, origin, median_ns, p10_ns, p90_ns, samples, policy, published_s)");
  fixture_sql("from",
              "UPDATE winners SET published_s = 1000 + (median_ns = 12) - (median_ns = 10 AND problem > 1); "
              "UPDATE winners SET seal = seal(problem, environment, "
              "kernel, template, config, origin, median_ns, p10_ns, p90_ns, samples, policy, published_s)");
  cache_merged counts = merge("to", "from", CACHE_READ);
  ck_assert_int_eq(counts.winners, 6);
  ck_assert_int_eq(counts.new_winners, 3);
  assert_winner("to", 1, 10, &FIXTURE_H200);
  assert_winner("to", 2, 10, &FIXTURE_H200);
  assert_winner("to", 3, 9, &FIXTURE_H100);
  assert_winner("to", 4, 10, &FIXTURE_H200);
  assert_winner("to", 5, 12, &FIXTURE_H200);
  assert_winner("to", 6, 12, &FIXTURE_H200);
}
END_TEST

static void put_trial(const char *path, const char *config, double ns) {
  cache *c = fixture_open(path, CACHE_WRITE);
  fixture_problem p;
  fixture_fill_problem(&p, 1);
  cache_id problem, environment;
  ASSERT_OK(cache_problem_id(c, &p.problem, &problem, &fixture_error));
  ASSERT_OK(cache_environment_id(c, &FIXTURE_H200, &environment, &fixture_error));
  cache_trial t = fixture_trial(config, ns);
  ASSERT_OK(cache_put_trial(c, problem, environment, &t, &fixture_error));
  cache_close(c);
}

START_TEST(merge_keeps_the_later_trial) {
  put_trial("to", "BLOCK_M=1", 10);
  put_trial("to", "BLOCK_M=2", 10);
  put_trial("from", "BLOCK_M=1", 11);
  put_trial("from", "BLOCK_M=2", 11);
  put_trial("from", "BLOCK_M=3", 11);
  static const char RESEAL[] =
      "UPDATE trials SET seal = seal(id, problem, environment, template, config, outcome, "
      "reason, model_ns, median_ns, p10_ns, p90_ns, samples, ptx_sha256, lower_ms, "
      "assemble_ms, registers, spill_bytes, stored_s)";
  fixture_sql("to", "UPDATE trials SET stored_s = 1000");
  fixture_sql("to", RESEAL);
  fixture_sql(
      "from",
      "UPDATE trials SET stored_s = 999; UPDATE trials SET stored_s = 1001 WHERE config = 'BLOCK_M=2'");
  fixture_sql("from", RESEAL);
  cache_merged counts = merge("to", "from", CACHE_READ);
  ck_assert_int_eq(counts.trials, 3);
  ck_assert_int_eq(counts.new_trials, 2);
  ck_assert_int_eq(fixture_sql_int("to", "SELECT median_ns FROM trials WHERE config = 'BLOCK_M=1'"), 10);
  ck_assert_int_eq(fixture_sql_int("to", "SELECT median_ns FROM trials WHERE config = 'BLOCK_M=2'"), 11);
  ck_assert_int_eq(fixture_sql_int("to", "SELECT stored_s FROM trials WHERE config = 'BLOCK_M=3'"), 999);
  ck_assert_int_eq(merge("to", "from", CACHE_READ).new_trials, 0);
}
END_TEST

static void set_bucket(const char *path, int k, const char *bucket) {
  cache *c = fixture_open(path, CACHE_WRITE);
  fixture_problem p;
  fixture_fill_problem(&p, k);
  p.problem.bucket = bucket;
  cache_id id;
  ASSERT_OK(cache_problem_id(c, &p.problem, &id, &fixture_error));
  cache_close(c);
}

START_TEST(merge_keeps_a_bucket) {
  set_bucket("to", 1, "M=1..8");
  set_bucket("from", 1, "M=1..16");
  set_bucket("to", 2, "M=1..8");
  set_bucket("from", 2, "");
  set_bucket("to", 3, "");
  set_bucket("from", 3, "M=1..16");
  merge("to", "from", CACHE_READ);
  ck_assert_int_eq(fixture_sql_int("to", "SELECT count(*) FROM problems WHERE bucket = 'M=1..8'"), 2);
  ck_assert_int_eq(fixture_sql_int("to", "SELECT count(*) FROM problems WHERE bucket = 'M=1..16'"), 1);
}
END_TEST

START_TEST(merge_leaves_damage_out) {
  fixture_make("from", 5);
  put_trial("from", "BLOCK_M=1", 10);
  fixture_sql(
      "from",
      "UPDATE kernels SET recipe = 'x' WHERE id = 1; UPDATE winners SET config = 'x' WHERE problem = 2;"
      "UPDATE problems SET bucket = 'x' WHERE id = 3; UPDATE trials SET samples = 1");
  fixture_make("to", 0);
  cache_merged counts = merge("to", "from", CACHE_READ);
  ck_assert_int_eq(counts.winners, 5);
  ck_assert_int_eq(counts.new_winners, 2);
  ck_assert_int_eq(counts.new_trials, 0);
  ck_assert_int_eq(counts.damaged, 5); /* the problem is met twice: by itself, and with its winner */
  cache *c = fixture_open("to", CACHE_READ);
  ck_assert_int_eq(fixture_count_good(c, 5), 2);
  cache_close(c);
}
END_TEST

START_TEST(merge_refuses_itself_and_readers) {
  fixture_make("a", 1);
  fixture_make("b", 1);
  cache *w = fixture_open("a", CACHE_WRITE), *r = fixture_open("./a", CACHE_READ),
        *b = fixture_open("b", CACHE_READ);
  ASSERT_FAILS(cache_merge(w, r, &fixture_error), ARKE_ERR_ARGUMENT, "a cannot be merged into itself");
  ASSERT_FAILS(cache_merge(b, r, &fixture_error), ARKE_ERR_ARGUMENT, "b was opened for reading only");
  ASSERT_OK(cache_merge(w, b, &fixture_error));
  cache_close(w);
  cache_close(r);
  cache_close(b);
}
END_TEST

TCase *cache_merge_case(void) {
  TCase *t = tcase_create("merge");
  tcase_add_checked_fixture(t, fixture_enter, fixture_leave);
  tcase_add_test(t, merge_adds_what_is_missing_once);
  tcase_add_test(t, merge_keeps_the_better);
  tcase_add_test(t, merge_keeps_the_later_trial);
  tcase_add_test(t, merge_keeps_a_bucket);
  tcase_add_test(t, merge_leaves_damage_out);
  tcase_add_test(t, merge_refuses_itself_and_readers);
  return t;
}
