/* Which winners displace which, and the kernels that go with them. */
#include "tests/cache/cache_suites.h"

#include "cache/store.h"
#include "tests/cache/cache_fixture.h"

static const struct {
  const cache_environment *old;
  cache_origin old_origin;
  double old_ns;
  const cache_environment *new;
  cache_origin new_origin;
  double new_ns;
  bool replaced;
} RULES[] = {
    {&FIXTURE_MODEL, CACHE_ORIGIN_MODELLED, 10, &FIXTURE_H200, CACHE_ORIGIN_MEASURED, 99, true},
    {&FIXTURE_H200, CACHE_ORIGIN_MEASURED, 99, &FIXTURE_MODEL, CACHE_ORIGIN_MODELLED, 10, false},
    {&FIXTURE_H200, CACHE_ORIGIN_MEASURED, 99, &FIXTURE_H200, CACHE_ORIGIN_MODELLED, 10, false},
    {&FIXTURE_H200, CACHE_ORIGIN_MEASURED, 10, &FIXTURE_H200, CACHE_ORIGIN_MEASURED, 12, true},
    {&FIXTURE_H200, CACHE_ORIGIN_MEASURED, 10, &FIXTURE_H100, CACHE_ORIGIN_MEASURED, 12, false},
    {&FIXTURE_H100, CACHE_ORIGIN_MEASURED, 12, &FIXTURE_H200, CACHE_ORIGIN_MEASURED, 10, true},
    {&FIXTURE_H100, CACHE_ORIGIN_MEASURED, 10, &FIXTURE_H200, CACHE_ORIGIN_MEASURED, 10, false},
    {&FIXTURE_MODEL, CACHE_ORIGIN_MODELLED, 10, &FIXTURE_MODEL, CACHE_ORIGIN_MODELLED, 12, true},
};

START_TEST(publishing_follows_the_rules) {
  cache *c = fixture_open("t.arke", CACHE_WRITE);
  ck_assert(fixture_must_publish(c, RULES[_i].old, 64, RULES[_i].old_ns, RULES[_i].old_origin));
  ck_assert_int_eq(fixture_must_publish(c, RULES[_i].new, 64, RULES[_i].new_ns, RULES[_i].new_origin),
                   RULES[_i].replaced);
  arena a = ARENA_INIT;
  cache_entry e;
  ASSERT_OK(fixture_find(c, 64, &a, &e, &fixture_error));
  ck_assert_double_eq(e.winner.time.median_ns, RULES[_i].replaced ? RULES[_i].new_ns : RULES[_i].old_ns);
  ck_assert_str_eq(e.environment.device, (RULES[_i].replaced ? RULES[_i].new : RULES[_i].old)->device);
  ASSERT_OK(cache_load_kernel(c, &a, &e, &fixture_error));
  arena_release(&a);
  cache_close(c);
}
END_TEST

/* A partial search's winner beside a whole one's: who stands when the second comes. */
static const struct {
  cache_origin origin;
  const char *old_policy;
  double old_ns;
  const cache_environment *new;
  const char *new_policy;
  double new_ns;
  bool replaced;
} PARTIAL[] = {
    {CACHE_ORIGIN_MEASURED, "l2=cold", 10, &FIXTURE_H200, "l2=cold search=config", 12, false},
    {CACHE_ORIGIN_MEASURED, "l2=cold", 10, &FIXTURE_H200, "l2=cold search=config", 9, true},
    {CACHE_ORIGIN_MEASURED, "l2=cold", 10, &FIXTURE_H200, "l2=cold search=interrupted", 12, false},
    {CACHE_ORIGIN_MEASURED, "l2=cold search=config", 10, &FIXTURE_H200, "search=interrupted", 12, true},
    {CACHE_ORIGIN_MEASURED, "l2=cold search=config", 10, &FIXTURE_H200, "l2=cold", 12, true},
    {CACHE_ORIGIN_MODELLED, "ranked", 10, &FIXTURE_H200, "ranked search=config", 12, false},
    {CACHE_ORIGIN_MODELLED, "ranked", 10, &FIXTURE_H200, "ranked search=config", 9, true},
    {CACHE_ORIGIN_MODELLED, "ranked", 10, &FIXTURE_MODEL, "ranked search=config", 9, false},
    {CACHE_ORIGIN_MODELLED, "ranked search=config", 10, &FIXTURE_MODEL, "ranked", 12, true},
};

static bool publish_with(cache *c, const cache_environment *e, cache_origin origin, double ns,
                         const char *policy) {
  fixture_problem p;
  fixture_fill_problem(&p, 64);
  cache_kernel k = fixture_kernel((int)ns, 100);
  cache_winner w = fixture_winner(ns, origin);
  w.policy = policy;
  bool published;
  ASSERT_OK(cache_put_winner(c, fixture_problem_id(c, &p.problem), fixture_environment_id(c, e), &k, &w,
                             &published, &fixture_error));
  fixture_free_kernel(&k);
  return published;
}

START_TEST(a_partial_search_does_not_displace_a_whole_one) {
  cache *c = fixture_open("t.arke", CACHE_WRITE);
  ck_assert(publish_with(c, &FIXTURE_H200, PARTIAL[_i].origin, PARTIAL[_i].old_ns, PARTIAL[_i].old_policy));
  ck_assert_int_eq(
      publish_with(c, PARTIAL[_i].new, PARTIAL[_i].origin, PARTIAL[_i].new_ns, PARTIAL[_i].new_policy),
      PARTIAL[_i].replaced);
  arena a = ARENA_INIT;
  cache_entry e;
  ASSERT_OK(fixture_find(c, 64, &a, &e, &fixture_error));
  ck_assert_double_eq(e.winner.time.median_ns,
                      PARTIAL[_i].replaced ? PARTIAL[_i].new_ns : PARTIAL[_i].old_ns);
  arena_release(&a);
  cache_close(c);
}
END_TEST

START_TEST(replaced_kernels_go_unless_shared) {
  cache *c = fixture_open("t.arke", CACHE_WRITE);
  fixture_problem p, q;
  fixture_fill_problem(&p, 64);
  fixture_fill_problem(&q, 128);
  cache_id first = fixture_problem_id(c, &p.problem), second = fixture_problem_id(c, &q.problem);
  cache_id h200 = fixture_environment_id(c, &FIXTURE_H200);
  cache_kernel shared = fixture_kernel(1, 50), fresh = fixture_kernel(2, 50);
  cache_winner w = fixture_winner(10, CACHE_ORIGIN_MEASURED);
  bool published;
  cache_stats stats;
  ASSERT_OK(cache_put_winner(c, first, h200, &shared, &w, &published, &fixture_error));
  ASSERT_OK(cache_put_winner(c, second, h200, &shared, &w, &published, &fixture_error));
  ASSERT_OK(cache_put_winner(c, first, h200, &fresh, &w, &published, &fixture_error));
  ASSERT_OK(cache_verify(c, &stats, &fixture_error));
  ck_assert_int_eq(stats.kernels, 2);
  ASSERT_OK(cache_put_winner(c, second, h200, &fresh, &w, &published, &fixture_error));
  ASSERT_OK(cache_verify(c, &stats, &fixture_error));
  ck_assert_int_eq(stats.kernels, 1);
  ck_assert_int_eq(stats.winners, 2);
  ck_assert_int_eq(stats.damaged, 0);
  fixture_free_kernel(&shared);
  fixture_free_kernel(&fresh);
  cache_close(c);
}
END_TEST

TCase *cache_publish_case(void) {
  TCase *t = tcase_create("publish");
  tcase_add_checked_fixture(t, fixture_enter, fixture_leave);
  tcase_add_loop_test(t, publishing_follows_the_rules, 0, COUNT_OF(RULES));
  tcase_add_loop_test(t, a_partial_search_does_not_displace_a_whole_one, 0, COUNT_OF(PARTIAL));
  tcase_add_test(t, replaced_kernels_go_unless_shared);
  return t;
}
