/* Rows come back as they were put, share what is equal, and are refused where they are nonsense. */
#include "tests/cache/cache_suites.h"

#include <string.h>

#include "cache/store.h"
#include "tests/cache/cache_fixture.h"

START_TEST(winner_comes_back_whole) {
  cache *c = fixture_open("t.arke", CACHE_WRITE);
  bool published;
  ASSERT_OK(fixture_publish(c, &FIXTURE_H200, 4096, 180000.5, CACHE_ORIGIN_MEASURED, 5000, &published,
                            &fixture_error));
  ck_assert(published);
  cache_close(c);
  c = fixture_open("t.arke", CACHE_READ);
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
  ck_assert_str_eq(e.kernel.recipe_json, k.recipe_json);
  fixture_free_kernel(&k);
  arena_release(&a);
  cache_close(c);
}
END_TEST

START_TEST(kernel_needs_no_cubin) {
  cache *c = fixture_open("t.arke", CACHE_WRITE);
  fixture_problem p;
  fixture_fill_problem(&p, 8);
  cache_id problem = fixture_problem_id(c, &p.problem),
           environment = fixture_environment_id(c, &FIXTURE_MODEL);
  cache_kernel k = {.ptx = ".version 8.6", .ptx_bytes = 12, .recipe_json = "{}"};
  cache_winner w = fixture_winner(10, CACHE_ORIGIN_MODELLED);
  bool published;
  ASSERT_OK(cache_put_winner(c, problem, environment, &k, &w, &published, &fixture_error));
  ck_assert_uint_eq(strlen(k.sha256), 64);
  arena a = ARENA_INIT;
  cache_entry e;
  ASSERT_OK(fixture_find(c, 8, &a, &e, &fixture_error));
  ck_assert_str_eq(e.kernel.sha256, k.sha256);
  ASSERT_OK(cache_load_kernel(c, &a, &e, &fixture_error));
  ck_assert_ptr_null(e.kernel.cubin);
  ck_assert_uint_eq(e.kernel.cubin_bytes, 0);
  ck_assert_str_eq(e.kernel.ptx, ".version 8.6");
  arena_release(&a);
  cache_close(c);
}
END_TEST

/* Lengths are hashed with the parts, so moving a byte between them changes the identity. */
START_TEST(sha256_covers_each_part_and_its_length) {
  cache_kernel a = {.ptx = "ab", .ptx_bytes = 2, .cubin = "cd", .cubin_bytes = 2, .recipe_json = "ef"};
  cache_kernel b = {.ptx = "abc", .ptx_bytes = 3, .cubin = "d", .cubin_bytes = 1, .recipe_json = "ef"};
  cache_kernel d = {.ptx = "ab", .ptx_bytes = 2, .cubin = "cd", .cubin_bytes = 2, .recipe_json = "eg"};
  char x[SHA256_HEX_SIZE], y[SHA256_HEX_SIZE], z[SHA256_HEX_SIZE];
  store_kernel_sha256(&a, x);
  store_kernel_sha256(&b, y);
  store_kernel_sha256(&d, z);
  ck_assert_str_ne(x, y);
  ck_assert_str_ne(x, z);
}
END_TEST

START_TEST(equal_rows_share_an_id) {
  cache *c = fixture_open("t.arke", CACHE_WRITE);
  cache_id h200 = fixture_environment_id(c, &FIXTURE_H200);
  ck_assert_int_ne(fixture_environment_id(c, &FIXTURE_H100), h200);
  ck_assert_int_eq(fixture_environment_id(c, &FIXTURE_H200), h200);
  cache_environment newer = FIXTURE_H200;
  newer.generator = "2";
  ck_assert_int_ne(fixture_environment_id(c, &newer), h200);
  newer = FIXTURE_H200;
  newer.clock_khz = 1755000;
  ck_assert_int_ne(fixture_environment_id(c, &newer), h200);
  newer = FIXTURE_H200;
  newer.driver = NULL; /* counts as "" */
  cache_id without = fixture_environment_id(c, &newer);
  newer.driver = "";
  ck_assert_int_eq(fixture_environment_id(c, &newer), without);

  fixture_problem p, q;
  fixture_fill_problem(&p, 64);
  fixture_fill_problem(&q, 128);
  cache_id first = fixture_problem_id(c, &p.problem);
  ck_assert_int_ne(fixture_problem_id(c, &q.problem), first);
  ck_assert_int_eq(fixture_problem_id(c, &p.problem), first);
  p.problem.target = "sm_100a";
  ck_assert_int_ne(fixture_problem_id(c, &p.problem), first);
  p.problem.target = "sm_90a";
  p.problem.ptx = "8.7";
  ck_assert_int_ne(fixture_problem_id(c, &p.problem), first);
  p.problem.ptx = "8.6";
  p.problem.op_text = "matmul(A: T[M, K]) -> (Y: T[M, K]) { Y[m, k] = A[m, k] }";
  ck_assert_int_ne(fixture_problem_id(c, &p.problem), first);
  cache_close(c);
}
END_TEST

START_TEST(bucket_is_no_part_of_the_key) {
  cache *c = fixture_open("t.arke", CACHE_WRITE);
  fixture_must_publish(c, &FIXTURE_H200, 64, 10, CACHE_ORIGIN_MEASURED);
  fixture_problem p;
  fixture_fill_problem(&p, 64);
  cache_id id = fixture_problem_id(c, &p.problem);
  p.problem.bucket = "M=1..128";
  ck_assert_int_eq(fixture_problem_id(c, &p.problem), id);
  arena a = ARENA_INIT;
  cache_entry e;
  ASSERT_OK(fixture_find(c, 64, &a, &e, &fixture_error));
  ck_assert_str_eq(e.problem.bucket, "M=1..128");
  arena_release(&a);
  cache_close(c);
}
END_TEST

START_TEST(tensors_come_back) {
  static const cache_tensor tensors[] = {
      {.name = "X", .type = "T", .any_rank = true, .rank = 1, .dims = {"2*H"}},
      {.name = "S", .type = "f32", .rank = 0},
      {.name = "Q", .type = "i32", .rank = 8, .dims = {"A", "B", "C", "D", "E", "F", "8", "H"}},
      {.name = "Y", .output = true, .type = "U", .any_rank = true},
  };
  cache_problem p = {.op_name = "odd",
                     .op_text = "odd(...)",
                     .bindings = "T=f16",
                     .target = "sm_80",
                     .ptx = "8.0",
                     .bucket = "",
                     .n_tensors = 4,
                     .tensors = tensors};
  strbuf text = STRBUF_INIT;
  ASSERT_OK(store_print_tensors(&p, &text, &fixture_error));
  ck_assert_str_eq(strbuf_text(&text), "in X:T[...,2*H] in S:f32[] in Q:i32[A,B,C,D,E,F,8,H] out Y:U[...]");
  arena a = ARENA_INIT;
  cache_problem q = {0};
  bool out_of_memory;
  ck_assert(store_parse_tensors(strbuf_text(&text), &a, &q, &out_of_memory));
  ck_assert_int_eq(q.n_tensors, 4);
  for (int i = 0; i < 4; i++) {
    ck_assert_str_eq(q.tensors[i].name, tensors[i].name);
    ck_assert_str_eq(q.tensors[i].type, tensors[i].type);
    ck_assert_int_eq(q.tensors[i].rank, tensors[i].rank);
    ck_assert(q.tensors[i].any_rank == tensors[i].any_rank && q.tensors[i].output == tensors[i].output);
    for (int d = 0; d < tensors[i].rank; d++) ck_assert_str_eq(q.tensors[i].dims[d], tensors[i].dims[d]);
  }
  strbuf_free(&text);
  static const char *const bad[] = {
      "in",        "in X",       "in X:T",         "in X:T[",    "in X:T[M", "in X:T[M] ",
      "up X:T[M]", "in :T[M]",   "in X:[M]",       "in X:T[M,]", " ",        "in X:T[1,2,3,4,5,6,7,8,9]",
      "in X:T[,]", "in X:T[M]x", "in X:T[...,...]"};
  for (size_t i = 0; i < COUNT_OF(bad); i++)
    ck_assert_msg(!store_parse_tensors(bad[i], &a, &q, &out_of_memory) && !out_of_memory, "%s", bad[i]);
  ck_assert(store_parse_tensors("", &a, &q, &out_of_memory) && q.n_tensors == 0);
  arena_release(&a);
}
END_TEST

START_TEST(key_is_text) {
  fixture_problem p;
  fixture_fill_problem(&p, 64);
  strbuf key = STRBUF_INIT;
  cache_key_print(&p.problem, &key);
  ck_assert_str_eq(strbuf_text(&key),
                   "matmul(A: T[M, K], B: T[K, N]) -> (Y: T[M, N]) { Y[m, n] = sum(k: A[m, k] "
                   "* B[k, n]) } | T=bf16 M=4096 N=4096 K=64 | sm_90a | ptx 8.6");
  strbuf_free(&key);
}
END_TEST

typedef struct seen {
  int count;
  cache_trial last;
  char config[64], reason[64];
} seen;

static void see(const cache_trial *t, void *user) {
  seen *s = user;
  s->count++;
  s->last = *t;
  strcpy(s->config, t->config);
  strcpy(s->reason, t->reason);
}

static seen trials_of(cache *c, cache_id problem, const cache_environment *e) {
  seen s = {0};
  ASSERT_OK(cache_each_trial(c, problem, e, see, &s, &fixture_error));
  return s;
}

START_TEST(trials_come_back) {
  cache *c = fixture_open("t.arke", CACHE_WRITE);
  fixture_problem p;
  fixture_fill_problem(&p, 64);
  cache_id problem = fixture_problem_id(c, &p.problem), h200 = fixture_environment_id(c, &FIXTURE_H200);
  for (int o = 0; o < CACHE_OUTCOME_COUNT; o++) {
    cache_trial t = fixture_trial("BLOCK_M=64", 1234.5);
    t.outcome = (cache_outcome)o;
    if (o != CACHE_MEASURED) t.time = (cache_time){0, 0, 0, 0};
    t.reason = o == CACHE_FAULT ? "read past the end of A" : "";
    ASSERT_OK(cache_put_trial(c, problem, h200, &t, &fixture_error));
    seen s = trials_of(c, problem, &FIXTURE_H200);
    ck_assert_int_eq(s.count, 1); /* the same configuration: replaced */
    ck_assert_int_eq((int)s.last.outcome, o);
    ck_assert_str_eq(s.reason, t.reason);
    ck_assert_str_eq(s.config, "BLOCK_M=64");
    ck_assert_double_eq(s.last.model_ns, 2469);
    ck_assert_double_eq(s.last.time.median_ns, o == CACHE_MEASURED ? 1234.5 : 0);
    ck_assert_int_eq(s.last.time.samples, o == CACHE_MEASURED ? 30 : 0);
    ck_assert_double_eq(s.last.lower_ms, 70.5);
    ck_assert_double_eq(s.last.assemble_ms, 110.25);
    ck_assert_int_eq(s.last.registers, 168);
  }
  cache_close(c);
}
END_TEST

START_TEST(trials_belong_to_problem_device_and_generator) {
  cache *c = fixture_open("t.arke", CACHE_WRITE);
  fixture_problem p, q;
  fixture_fill_problem(&p, 64);
  fixture_fill_problem(&q, 128);
  cache_id problem = fixture_problem_id(c, &p.problem), other = fixture_problem_id(c, &q.problem);
  cache_id h200 = fixture_environment_id(c, &FIXTURE_H200), h100 = fixture_environment_id(c, &FIXTURE_H100);
  cache_trial a = fixture_trial("BLOCK_M=64", 1), b = fixture_trial("BLOCK_M=128", 2);
  ASSERT_OK(cache_put_trial(c, problem, h200, &a, &fixture_error));
  ASSERT_OK(cache_put_trial(c, problem, h200, &b, &fixture_error));
  ASSERT_OK(cache_put_trial(c, problem, h100, &a, &fixture_error));
  ASSERT_OK(cache_put_trial(c, other, h200, &a, &fixture_error));
  b.template_name = "gemm_splitk";
  ASSERT_OK(cache_put_trial(c, problem, h200, &b, &fixture_error));
  ck_assert_int_eq(trials_of(c, problem, &FIXTURE_H200).count, 3);
  ck_assert_int_eq(trials_of(c, problem, &FIXTURE_H100).count, 1);
  ck_assert_int_eq(trials_of(c, other, &FIXTURE_H200).count, 1);

  /* Another driver on the same device still counts; another generator does not, and replaces what it tries.
   */
  cache_environment next = FIXTURE_H200;
  next.driver = "590.10";
  ck_assert_int_eq(trials_of(c, problem, &next).count, 3);
  next.generator = "2";
  ck_assert_int_eq(trials_of(c, problem, &next).count, 0);
  ASSERT_OK(cache_put_trial(c, problem, fixture_environment_id(c, &next), &a, &fixture_error));
  ck_assert_int_eq(trials_of(c, problem, &next).count, 1);
  ck_assert_int_eq(trials_of(c, problem, &FIXTURE_H200).count, 2);
  cache_close(c);
}
END_TEST

START_TEST(nonsense_is_refused) {
  cache *c = fixture_open("t.arke", CACHE_WRITE);
  fixture_problem p;
  fixture_fill_problem(&p, 64);
  cache_id problem = fixture_problem_id(c, &p.problem), h200 = fixture_environment_id(c, &FIXTURE_H200), id;
  cache_environment nameless = {.device = ""};
  ASSERT_FAILS(cache_environment_id(c, &nameless, &id, &fixture_error), ARKE_ERR_INVALID, "device name");
  cache_problem untargeted = p.problem;
  untargeted.target = NULL;
  ASSERT_FAILS(cache_problem_id(c, &untargeted, &id, &fixture_error), ARKE_ERR_INVALID, "target");
  static const cache_tensor spaced[] = {{.name = "A B", .type = "T"}};
  cache_problem odd = p.problem;
  odd.tensors = spaced;
  odd.n_tensors = 1;
  ASSERT_FAILS(cache_problem_id(c, &odd, &id, &fixture_error), ARKE_ERR_INVALID,
               "tensor 0 of operator matmul");
  odd.n_tensors = 1000;
  ASSERT_FAILS(cache_problem_id(c, &odd, &id, &fixture_error), ARKE_ERR_INVALID, "1000 tensors");

  cache_trial t = fixture_trial("BLOCK_M=64", NAN);
  ASSERT_FAILS(cache_put_trial(c, problem, h200, &t, &fixture_error), ARKE_ERR_INVALID, "finite");
  t = fixture_trial("BLOCK_M=64", 1);
  t.time.samples = 0;
  ASSERT_FAILS(cache_put_trial(c, problem, h200, &t, &fixture_error), ARKE_ERR_INVALID, "0 samples");
  t.outcome = CACHE_OUTCOME_COUNT;
  ASSERT_FAILS(cache_put_trial(c, problem, h200, &t, &fixture_error), ARKE_ERR_INVALID, "outcome");
  t = fixture_trial("BLOCK_M=64", 1);
  ASSERT_FAILS(cache_put_trial(c, 999, h200, &t, &fixture_error), ARKE_ERR_INVALID, "FOREIGN KEY");
  ck_assert_int_eq(trials_of(c, problem, &FIXTURE_H200).count, 0);

  bool published = true;
  cache_kernel k = {.ptx = "x", .ptx_bytes = 1, .recipe_json = "{}"};
  cache_winner w = fixture_winner(10, CACHE_ORIGIN_MODELLED);
  w.time.samples = 5;
  ASSERT_FAILS(cache_put_winner(c, problem, h200, &k, &w, &published, &fixture_error), ARKE_ERR_INVALID,
               "modelled, yet has 5 samples");
  ck_assert(!published);
  w = fixture_winner(10, CACHE_ORIGIN_MEASURED);
  w.time.samples = 0;
  ASSERT_FAILS(cache_put_winner(c, problem, h200, &k, &w, &published, &fixture_error), ARKE_ERR_INVALID,
               "measured, yet has 0 samples");
  w = fixture_winner(10, CACHE_ORIGIN_MEASURED);
  w.time.median_ns = INFINITY;
  ASSERT_FAILS(cache_put_winner(c, problem, h200, &k, &w, &published, &fixture_error), ARKE_ERR_INVALID,
               "finite");
  w = fixture_winner(10, CACHE_ORIGIN_MEASURED);
  ASSERT_FAILS(cache_put_winner(c, 999, h200, &k, &w, &published, &fixture_error), ARKE_ERR_INVALID,
               "FOREIGN KEY");
  k.recipe_json = NULL;
  ASSERT_FAILS(cache_put_winner(c, problem, h200, &k, &w, &published, &fixture_error), ARKE_ERR_INVALID,
               "recipe");
  cache_stats stats;
  ASSERT_OK(cache_verify(c, &stats, &fixture_error));
  ck_assert_int_eq(stats.kernels + stats.winners + stats.trials, 0); /* nothing half-done was kept */
  cache_close(c);

  c = fixture_open("t.arke", CACHE_READ);
  ASSERT_FAILS(cache_put_trial(c, problem, h200, &t, &fixture_error), ARKE_ERR_ARGUMENT, "for reading");
  cache_close(c);
}
END_TEST

START_TEST(names_round_trip) {
  for (int i = 0; i < CACHE_OUTCOME_COUNT; i++) {
    cache_outcome o;
    ck_assert(store_outcome_from_name(cache_outcome_name((cache_outcome)i), &o));
    ck_assert_int_eq((int)o, i);
  }
  for (int i = 0; i < CACHE_ORIGIN_COUNT; i++) {
    cache_origin o;
    ck_assert(store_origin_from_name(cache_origin_name((cache_origin)i), &o));
    ck_assert_int_eq((int)o, i);
  }
  cache_outcome o;
  cache_origin r;
  ck_assert(!store_outcome_from_name("guessed", &o) && !store_origin_from_name("", &r));
}
END_TEST

TCase *cache_rows_case(void) {
  TCase *t = tcase_create("rows");
  tcase_add_checked_fixture(t, fixture_enter, fixture_leave);
  tcase_add_test(t, winner_comes_back_whole);
  tcase_add_test(t, kernel_needs_no_cubin);
  tcase_add_test(t, sha256_covers_each_part_and_its_length);
  tcase_add_test(t, equal_rows_share_an_id);
  tcase_add_test(t, bucket_is_no_part_of_the_key);
  tcase_add_test(t, tensors_come_back);
  tcase_add_test(t, key_is_text);
  tcase_add_test(t, trials_come_back);
  tcase_add_test(t, trials_belong_to_problem_device_and_generator);
  tcase_add_test(t, nonsense_is_refused);
  tcase_add_test(t, names_round_trip);
  return t;
}
