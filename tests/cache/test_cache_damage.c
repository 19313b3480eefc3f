#include "tests/cache/cache_suites.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/random.h"
#include "tests/cache/cache_fixture.h"

enum { ENTRIES = 5 };

static bool see_any(const cache_entry *e, void *user) {
  (void)e;
  ++*(int *)user;
  return true;
}

/* Entries that a walk gives and rows it reports as damaged. */
static void walk(cache *c, int *entries, int *damaged) {
  arena a = ARENA_INIT;
  *entries = 0;
  ASSERT_OK(cache_each_entry(c, "matmul", "sm_90a", &a, see_any, entries, damaged, &fixture_error));
  arena_release(&a);
}

/* One changed value each, as damage would leave it: the seal is not renewed. */
static const struct {
  const char *sql;
  int entries_lost; /* of ENTRIES */
  int rows;         /* that verifying reports */
} DAMAGES[] = {
    {"UPDATE winners SET config = 'BLOCK_M=256' WHERE problem = 2", 1, 1},
    {"UPDATE winners SET median_ns = 1 WHERE problem = 2", 1, 1},
    {"UPDATE winners SET origin = 'guessed' WHERE problem = 2", 1, 1},
    {"UPDATE winners SET samples = samples + 1 WHERE problem = 2", 1, 1},
    {"UPDATE winners SET kernel = (SELECT kernel FROM winners WHERE problem = 3) WHERE problem = 2", 1, 1},
    {"UPDATE winners SET policy = CAST(policy AS BLOB) WHERE problem = 2", 1, 1},
    {"UPDATE winners SET seal = seal + 1 WHERE problem = 2", 1, 1},
    {"UPDATE problems SET bindings = replace(bindings, '4096', '4097') WHERE id = 2", 1, 1},
    {"UPDATE problems SET bucket = 'M=1..9' WHERE id = 2", 1, 1},
    {"UPDATE problems SET ptx = '8.7' WHERE id = 2", 1, 1},
    {"PRAGMA foreign_keys = OFF; UPDATE problems SET id = 77 WHERE id = 2", 1, 2},
    {"UPDATE environments SET sm_count = 131", ENTRIES, 1},
    {"UPDATE signatures SET tensors = 'in A:T[M,K] in B:T[N,K] out Y:T[M,N]'", ENTRIES, 1},
    {"UPDATE signatures SET op_text = op_text || ' '", ENTRIES, 1},
    {"PRAGMA foreign_keys = OFF; DELETE FROM signatures", ENTRIES, 0},
    {"PRAGMA foreign_keys = OFF; DELETE FROM problems WHERE id = 2", 1, 1},
};

START_TEST(damaged_row_is_missing_and_reported) {
  fixture_make("a.arke", ENTRIES);
  fixture_sql("a.arke", DAMAGES[_i].sql);
  cache *c = fixture_open("a.arke", CACHE_READ);
  int entries, damaged;
  walk(c, &entries, &damaged);
  ck_assert_int_eq(entries, ENTRIES - DAMAGES[_i].entries_lost);
  ck_assert_int_le(damaged, DAMAGES[_i].entries_lost);
  ck_assert_int_eq(cache_damaged_rows(c), damaged);
  ck_assert_int_eq(fixture_count_good(c, ENTRIES), ENTRIES - DAMAGES[_i].entries_lost);
  cache_stats stats;
  ASSERT_OK(cache_verify(c, &stats, &fixture_error));
  ck_assert_int_eq(stats.damaged, DAMAGES[_i].rows);
  cache_close(c);
}
END_TEST

START_TEST(damaged_entry_is_told_apart_from_a_missing_one) {
  fixture_make("a.arke", 1);
  fixture_sql("a.arke", DAMAGES[0].sql);
  fixture_sql("a.arke", "UPDATE winners SET median_ns = 9");
  cache *c = fixture_open("a.arke", CACHE_READ);
  arena a = ARENA_INIT;
  cache_entry e;
  ASSERT_FAILS(fixture_find(c, 1, &a, &e, &fixture_error), ARKE_ERR_NOT_FOUND, "a damaged one was left out");
  ck_assert_int_eq(cache_damaged_rows(c), 1);
  arena_release(&a);
  cache_close(c);
}
END_TEST

static const char *const KERNEL_DAMAGES[] = {
    "UPDATE kernels SET ptx = CAST(replace(CAST(ptx AS TEXT), 'a', 'b') AS BLOB) WHERE id = 2",
    "UPDATE kernels SET cubin = zeroblob(length(cubin)) WHERE id = 2",
    "UPDATE kernels SET cubin = NULL WHERE id = 2",
    "UPDATE kernels SET recipe = recipe || ' ' WHERE id = 2",
    "UPDATE kernels SET recipe = zeroblob(0), ptx = 17 WHERE id = 2",
};

START_TEST(damaged_kernel_does_not_load) {
  fixture_make("a.arke", ENTRIES);
  fixture_sql("a.arke", KERNEL_DAMAGES[_i]);
  cache *c = fixture_open("a.arke", CACHE_READ);
  arena a = ARENA_INIT;
  cache_entry e;
  ASSERT_OK(fixture_find(c, 2, &a, &e, &fixture_error));
  ASSERT_FAILS(cache_load_kernel(c, &a, &e, &fixture_error), ARKE_ERR_CORRUPT, "SHA-256 does not match");
  ck_assert_ptr_null(e.kernel.ptx);
  ck_assert_int_eq(fixture_count_good(c, ENTRIES), ENTRIES - 1);
  cache_stats stats;
  ASSERT_OK(cache_verify(c, &stats, &fixture_error));
  ck_assert_int_eq(stats.damaged, 1);
  cache_close(c);
  c = fixture_open("a.arke", CACHE_WRITE); /* publishing again mends it */
  fixture_must_publish(c, &FIXTURE_H200, 2, 10, CACHE_ORIGIN_MEASURED);
  ck_assert_int_eq(fixture_count_good(c, ENTRIES), ENTRIES);
  cache_close(c);
  arena_release(&a);
}
END_TEST

START_TEST(missing_kernel_does_not_load) {
  fixture_make("a.arke", 2);
  fixture_sql("a.arke", "PRAGMA foreign_keys = OFF; DELETE FROM kernels WHERE id = 2");
  cache *c = fixture_open("a.arke", CACHE_READ);
  arena a = ARENA_INIT;
  cache_entry e;
  ASSERT_OK(fixture_find(c, 2, &a, &e, &fixture_error));
  ASSERT_FAILS(cache_load_kernel(c, &a, &e, &fixture_error), ARKE_ERR_NOT_FOUND,
               "no longer in cache file a.arke");
  cache_stats stats;
  ASSERT_OK(cache_verify(c, &stats, &fixture_error));
  ck_assert_int_eq(stats.damaged, 1);
  cache_close(c);
  arena_release(&a);
}
END_TEST

START_TEST(writing_mends_rows) {
  fixture_make("a.arke", ENTRIES);
  fixture_sql("a.arke", "UPDATE environments SET seal = 0; UPDATE signatures SET seal = 0, tensors = 'x';"
                        "UPDATE problems SET bucket = 'x'; UPDATE winners SET config = 'x'");
  cache *c = fixture_open("a.arke", CACHE_WRITE);
  ck_assert_int_eq(fixture_count_good(c, ENTRIES), 0);
  for (int k = 1; k <= ENTRIES; k++) /* slower than before: what is damaged holds no place */
    ck_assert(fixture_must_publish(c, &FIXTURE_H200, k, 1000, CACHE_ORIGIN_MEASURED));
  ck_assert_int_eq(fixture_count_good(c, ENTRIES), ENTRIES);
  cache_stats stats;
  ASSERT_OK(cache_verify(c, &stats, &fixture_error));
  ck_assert_int_eq(stats.damaged, 0);
  ck_assert_int_eq(stats.environments, 1);
  ck_assert_int_eq(stats.problems, ENTRIES);
  cache_close(c);
}
END_TEST

static void see_trial(const cache_trial *t, void *user) {
  ck_assert_str_eq(t->config, "BLOCK_M=2");
  ++*(int *)user;
}

START_TEST(damaged_trial_counts_as_not_done) {
  cache *c = fixture_open("a.arke", CACHE_WRITE);
  fixture_problem p;
  fixture_fill_problem(&p, 1);
  cache_id problem, environment;
  ASSERT_OK(cache_problem_id(c, &p.problem, &problem, &fixture_error));
  ASSERT_OK(cache_environment_id(c, &FIXTURE_H200, &environment, &fixture_error));
  cache_trial t = fixture_trial("BLOCK_M=1", 1), u = fixture_trial("BLOCK_M=2", 1);
  ASSERT_OK(cache_put_trial(c, problem, environment, &t, &fixture_error));
  ASSERT_OK(cache_put_trial(c, problem, environment, &u, &fixture_error));
  cache_close(c);
  fixture_sql("a.arke", "UPDATE trials SET outcome = 'wrong' WHERE config = 'BLOCK_M=1'");
  c = fixture_open("a.arke", CACHE_WRITE);
  int n = 0;
  ASSERT_OK(cache_each_trial(c, problem, &FIXTURE_H200, see_trial, &n, &fixture_error));
  ck_assert_int_eq(n, 1);
  ck_assert_int_eq(cache_damaged_rows(c), 1);
  ASSERT_OK(cache_put_trial(c, problem, environment, &t, &fixture_error));
  cache_stats stats;
  ASSERT_OK(cache_verify(c, &stats, &fixture_error));
  ck_assert_int_eq(stats.trials, 2);
  ck_assert_int_eq(stats.damaged, 0);
  cache_close(c);
}
END_TEST

/* --- the file as bytes --- */

/* What a damaged file still gives must be what was stored. */
static bool assert_genuine(const cache_entry *e, void *user) {
  (void)user;
  int k = -1;
  ck_assert_int_eq(sscanf(e->problem.bindings, "T=bf16 M=4096 N=4096 K=%d", &k), 1);
  ck_assert_int_ge(k, 1);
  ck_assert_int_le(k, ENTRIES);
  ck_assert_double_eq(e->winner.time.median_ns, 10 + k);
  ck_assert_str_eq(e->winner.config, "BLOCK_M=128,BLOCK_N=256");
  ck_assert_str_eq(e->environment.device, FIXTURE_H200.device);
  ck_assert_int_eq(e->problem.n_tensors, 3);
  return true;
}

static void assert_clear(arke_status status, const arke_error *err) {
  ck_assert_msg(status == ARKE_ERR_CORRUPT || status == ARKE_ERR_NOT_FOUND || status == ARKE_ERR_IO, "%s: %s",
                arke_status_name(status), err->text);
  ck_assert_uint_gt(strlen(err->text), 20);
}

static void use_damaged_file(void) {
  cache *c;
  arke_error err = ARKE_ERROR_INIT;
  arke_status status = cache_open("b.arke", CACHE_READ, &c, &err);
  if (status != ARKE_OK) {
    assert_clear(status, &err);
    return;
  }
  arena a = ARENA_INIT;
  status = cache_each_entry(c, NULL, NULL, &a, assert_genuine, NULL, NULL, &err);
  if (status != ARKE_OK) assert_clear(status, &err);
  for (int k = 1; k <= ENTRIES; k++) {
    cache_entry e;
    error_clear(&err);
    status = fixture_find(c, k, &a, &e, &err);
    if (status == ARKE_OK) {
      assert_genuine(&e, NULL);
      fixture_problem p;
      fixture_fill_problem(&p, k);
      ck_assert_str_eq(e.problem.bindings, p.bindings);
      status = cache_load_kernel(c, &a, &e, &err);
    }
    if (status == ARKE_OK) {
      cache_kernel genuine = fixture_kernel(k, 100);
      ck_assert_mem_eq(e.kernel.ptx, genuine.ptx, 101);
      ck_assert_mem_eq(e.kernel.cubin, genuine.cubin, 100);
      ck_assert_str_eq(e.kernel.recipe_json, genuine.recipe_json);
      fixture_free_kernel(&genuine);
    } else {
      assert_clear(status, &err);
    }
  }
  cache_stats stats;
  error_clear(&err);
  status = cache_verify(c, &stats, &err);
  if (status != ARKE_OK) assert_clear(status, &err);
  arena_release(&a);
  cache_close(c);
}

START_TEST(flipped_bytes_never_give_wrong_entries) {
  fixture_make("a.arke", ENTRIES);
  size_t n;
  unsigned char *good = fixture_read_file("a.arke", &n), *bad = malloc(n);
  ck_assert_ptr_nonnull(bad);
  for (uint64_t round = 0; round < 1500; round++) {
    memcpy(bad, good, n);
    uint64_t seed = 1000 + round;
    uint64_t flips = round % 3 == 0 ? 8 : 1;
    for (uint64_t i = 0; i < flips; i++) {
      /* Most of a young file is empty pages' middles: aim at bytes that are not zero half of the time. */
      size_t at = random_u64(seed, 2 * i) % n;
      for (size_t step = 0; step < n && round % 2 == 1 && good[at] == 0; step++) at = (at + 1) % n;
      bad[at] ^= (unsigned char)(1 + random_u64(seed, 2 * i + 1) % 255);
    }
    fixture_write_file("b.arke", bad, n);
    use_damaged_file();
  }
  free(bad);
  free(good);
}
END_TEST

START_TEST(truncated_file_is_refused) {
  fixture_make("a.arke", ENTRIES);
  size_t n;
  unsigned char *good = fixture_read_file("a.arke", &n);
  for (size_t size = 1; size < n; size += size < 600 ? 37 : 1009) {
    fixture_write_file("b.arke", good, size);
    cache *c;
    ASSERT_FAILS(cache_open("b.arke", CACHE_READ, &c, &fixture_error), ARKE_ERR_CORRUPT, "b.arke");
    ASSERT_FAILS(cache_open("b.arke", CACHE_WRITE, &c, &fixture_error), ARKE_ERR_CORRUPT, "b.arke");
  }
  free(good);
}
END_TEST

TCase *cache_damage_case(void) {
  TCase *t = tcase_create("damage");
  tcase_add_checked_fixture(t, fixture_enter, fixture_leave);
  tcase_set_timeout(t, 60);
  tcase_add_loop_test(t, damaged_row_is_missing_and_reported, 0, COUNT_OF(DAMAGES));
  tcase_add_test(t, damaged_entry_is_told_apart_from_a_missing_one);
  tcase_add_loop_test(t, damaged_kernel_does_not_load, 0, COUNT_OF(KERNEL_DAMAGES));
  tcase_add_test(t, missing_kernel_does_not_load);
  tcase_add_test(t, writing_mends_rows);
  tcase_add_test(t, damaged_trial_counts_as_not_done);
  tcase_add_test(t, flipped_bytes_never_give_wrong_entries);
  tcase_add_test(t, truncated_file_is_refused);
  return t;
}
