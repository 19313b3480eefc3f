#include "tests/cache/cache_suites.h"

#include <stdlib.h>
#include <string.h>

#include "tests/cache/cache_fixture.h"

static cache *open_new(void) {
  cache *c;
  ASSERT_OK(cache_open("t.arke", CACHE_WRITE, &c, &fixture_error));
  return c;
}

START_TEST(winner_comes_back_whole) {
  cache *c = open_new();
  bool published;
  ASSERT_OK(fixture_publish(c, &FIXTURE_H200, 4096, 180000.5, CACHE_ORIGIN_MEASURED, 5000, &published,
                            &fixture_error));
  ck_assert(published);
  cache_close(c);
  ASSERT_OK(cache_open("t.arke", CACHE_READ, &c, &fixture_error));
  arena a = ARENA_INIT;
  cache_entry e;
  ASSERT_OK(fixture_find(c, 4096, &a, &e, &fixture_error));
  fixture_problem p;
  fixture_fill_problem(&p, 4096);
  ck_assert_str_eq(e.problem.op_name, p.problem.op_name);
  ck_assert_str_eq(e.problem.op_text, p.problem.op_text);
  ck_assert_str_eq(e.problem.bindings, p.problem.bindings);
  ck_assert_str_eq(e.problem.target, p.problem.target);
  ck_assert_str_eq(e.problem.ptx, p.problem.ptx);
  ck_assert_str_eq(e.problem.bucket, "");
  ck_assert_int_eq(e.problem.n_tensors, 3);
  ck_assert_str_eq(e.problem.tensors[1].name, "B");
  ck_assert(e.problem.tensors[2].output && !e.problem.tensors[0].output);
  ck_assert_str_eq(e.problem.tensors[2].type, "T");
  ck_assert_int_eq(e.problem.tensors[2].rank, 2);
  ck_assert_str_eq(e.problem.tensors[2].dims[1], "N");
  ck_assert_str_eq(e.environment.device, FIXTURE_H200.device);
  ck_assert_str_eq(e.environment.driver, FIXTURE_H200.driver);
  ck_assert_str_eq(e.environment.llvm, FIXTURE_H200.llvm);
  ck_assert_str_eq(e.environment.generator, FIXTURE_H200.generator);
  ck_assert_int_eq(e.environment.sm_count, 132);
  ck_assert_int_eq(e.environment.clock_khz, 1980000);
  ck_assert_int_eq(e.environment.memory_clock_khz, 3201000);
  ck_assert_int_eq((int)e.winner.origin, CACHE_ORIGIN_MEASURED);
  ck_assert_double_eq(e.winner.time.median_ns, 180000.5);
  ck_assert_int_eq(e.winner.time.samples, 30);
  ck_assert_str_eq(e.winner.policy, "l2=cold method=events+graph");
  ck_assert_ptr_null(e.kernel.ptx);
  ASSERT_OK(cache_load_kernel(c, &a, &e, &fixture_error));
  cache_kernel k = fixture_kernel(4096, 5000);
  ck_assert_uint_eq(e.kernel.ptx_bytes, 5000);
  ck_assert_str_eq(e.kernel.ptx, k.ptx);
  ck_assert_uint_eq(e.kernel.cubin_bytes, 5000);
  ck_assert_mem_eq(e.kernel.cubin, k.cubin, 5000);
  ck_assert_str_eq(e.kernel.recipe_json, "{\"seed\":4096}");
  fixture_free_kernel(&k);
  arena_release(&a);
  cache_close(c);
}
END_TEST

TCase *cache_rows_case(void) {
  TCase *t = tcase_create("rows");
  tcase_add_checked_fixture(t, fixture_enter, fixture_leave);
  tcase_add_test(t, winner_comes_back_whole);
  return t;
}
