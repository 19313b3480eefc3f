/* Memory that several CTAs share: updates, flags, the last CTA, clusters; and accesses with advice. */
#include <math.h>
#include <string.h>

#include "base/dtype.h"
#include "generator/gen_atomic.h"
#include "generator/gen_barrier.h"
#include "generator/gen_bits.h"
#include "generator/gen_cluster.h"
#include "generator/gen_control.h"
#include "generator/gen_memory.h"
#include "generator_suites.h"
#include "run_kernel.h"

enum { THREADS = 64, CTAS = 5, CELLS = 4 };

static gen_value element(gen_builder *b, int buffer, gen_value index, int bytes) {
  return gen_add(b, gen_param(b, buffer), gen_mul_imm(b, gen_zext(b, index, GEN_I64), bytes));
}

static gen_value thread_number(gen_builder *b) {
  return gen_add(b, gen_mul_imm(b, gen_ctaid_x(b), THREADS), gen_tid_x(b));
}

/* --- updates --- */

static const struct {
  dtype type;
  gen_type gen;
  gen_update update;
} updates[] = {
    {DTYPE_F32, GEN_F32, GEN_UPDATE_ADD},  {DTYPE_F64, GEN_F64, GEN_UPDATE_ADD},
    {DTYPE_I32, GEN_I32, GEN_UPDATE_ADD},  {DTYPE_I64, GEN_I64, GEN_UPDATE_ADD},
    {DTYPE_F16, GEN_F16, GEN_UPDATE_ADD},  {DTYPE_BF16, GEN_BF16, GEN_UPDATE_ADD},
    {DTYPE_F32, GEN_F32, GEN_UPDATE_MAX},  {DTYPE_F64, GEN_F64, GEN_UPDATE_MIN},
    {DTYPE_F16, GEN_F16, GEN_UPDATE_MAX},  {DTYPE_BF16, GEN_BF16, GEN_UPDATE_MIN},
    {DTYPE_I32, GEN_I32, GEN_UPDATE_MIN},  {DTYPE_I64, GEN_I64, GEN_UPDATE_MAX},
    {DTYPE_I32, GEN_I32, GEN_UPDATE_UMIN}, {DTYPE_I64, GEN_I64, GEN_UPDATE_UMAX},
    {DTYPE_I32, GEN_I32, GEN_UPDATE_AND},  {DTYPE_I32, GEN_I32, GEN_UPDATE_OR},
    {DTYPE_I64, GEN_I64, GEN_UPDATE_XOR},
};

/* Small integers of both signs, so that every sum is exact in every type. */
static int value_of(int thread) {
  return thread * 5 % 7 - 3;
}

/* Every thread updates cell t % CELLS. */
static void build_update(gen_builder *b, void *user) {
  int i = *(int *)user;
  gen_value n = thread_number(b), v = gen_add_imm(b, gen_urem(b, gen_mul_imm(b, n, 5), gen_i32(b, 7)), -3);
  gen_type type = updates[i].gen;
  bool floats = type != GEN_I32 && type != GEN_I64;
  gen_value x = floats ? gen_int_to_float(b, v, type, true) : type == GEN_I64 ? gen_sext(b, v, GEN_I64) : v;
  gen_value cell = gen_and(b, n, gen_i32(b, CELLS - 1));
  gen_update_global(b, updates[i].update, element(b, 0, cell, dtype_bits(updates[i].type) / 8), x);
}

static double combine(gen_update update, double x, double y) {
  int64_t a = (int64_t)x, c = (int64_t)y;
  switch (update) {
  case GEN_UPDATE_ADD: return x + y;
  case GEN_UPDATE_MIN: return fmin(x, y);
  case GEN_UPDATE_MAX: return fmax(x, y);
  case GEN_UPDATE_UMIN: return (uint64_t)a < (uint64_t)c ? x : y;
  case GEN_UPDATE_UMAX: return (uint64_t)a > (uint64_t)c ? x : y;
  case GEN_UPDATE_AND: return (double)(a & c);
  case GEN_UPDATE_OR: return (double)(a | c);
  default: return (double)(a ^ c);
  }
}

START_TEST(updates_of_every_type) {
  uint64_t cells[CELLS];
  dtype type = updates[_i].type;
  double want[CELLS];
  for (int c = 0; c < CELLS; c++) {
    want[c] = c - 1;
    dtype_store(type, cells, c, want[c]);
  }
  for (int t = 0; t < CTAS * THREADS; t++)
    want[t % CELLS] = combine(updates[_i].update, want[t % CELLS], value_of(t));
  arena a = ARENA_INIT;
  gen_output k = make_kernel(build_update, &_i, 1, THREADS, &a);
  kernel_buffer buffer = {cells, (size_t)dtype_bytes(type, CELLS), true, true};
  run_kernel(&k, &buffer, 1, 0, CTAS, THREADS);
  for (int c = 0; c < CELLS; c++) ck_assert_double_eq(dtype_load(type, cells, c), want[c]);
  arena_release(&a);
}
END_TEST

/* NaN wins, whatever its sign, in memory or in a value. */
static void build_nan(gen_builder *b, void *user) {
  (void)user;
  gen_value n = gen_tid_x(b);
  gen_value x = gen_load_global(b, GEN_F32, 1, element(b, 1, n, 4), true);
  gen_update_global(b, GEN_UPDATE_MAX, element(b, 0, gen_and(b, n, gen_i32(b, 1)), 4), x);
}

START_TEST(updates_keep_nan) {
  float cells[2] = {-NAN, 1}, in[THREADS];
  for (int t = 0; t < THREADS; t++) in[t] = (float)t;
  in[9] = -NAN;
  arena a = ARENA_INIT;
  gen_output k = make_kernel(build_nan, NULL, 2, THREADS, &a);
  kernel_buffer buffers[] = {{cells, sizeof cells, true, true}, {in, sizeof in, false, false}};
  run_kernel(&k, buffers, 2, 0, 1, THREADS);
  ck_assert(isnan(cells[0]) && isnan(cells[1]));
  arena_release(&a);
}
END_TEST

/* Pairs of 16-bit floats at once; and what an update gives back. */
static void build_fetch(gen_builder *b, void *user) {
  (void)user;
  gen_value n = thread_number(b), one[] = {gen_int_to_float(b, gen_i32(b, 1), GEN_F16, true),
                                           gen_int_to_float(b, gen_i32(b, 2), GEN_F16, true)};
  gen_value brain[] = {gen_int_to_float(b, gen_i32(b, 1), GEN_BF16, true),
                       gen_int_to_float(b, gen_i32(b, -1), GEN_BF16, true)};
  gen_update_global(b, GEN_UPDATE_ADD, element(b, 0, gen_i32(b, 0), 4), gen_vector(b, one, 2));
  gen_update_global(b, GEN_UPDATE_ADD, element(b, 0, gen_i32(b, 1), 4), gen_vector(b, brain, 2));
  gen_value ticket =
      gen_fetch_update_global(b, GEN_UPDATE_ADD, GEN_RELAXED, element(b, 0, gen_i32(b, 2), 4), gen_i32(b, 1));
  gen_store_global(b, n, element(b, 1, ticket, 4));
  gen_value old =
      gen_fetch_update_global(b, GEN_UPDATE_EXCHANGE, GEN_ACQ_REL, element(b, 0, gen_i32(b, 3), 4), n);
  gen_store_global(b, old, element(b, 2, n, 4));
}

START_TEST(updates_give_tickets) {
  enum { N = 2 * THREADS };
  uint32_t cells[4] = {0, 0, 0, 1000000}, by_ticket[N], before[N];
  bool seen[N] = {false};
  arena a = ARENA_INIT;
  gen_output k = make_kernel(build_fetch, NULL, 3, THREADS, &a);
  ck_assert_ptr_nonnull(strstr(k.ptx, "red.relaxed.gpu.global.add.noftz.f16x2"));
  ck_assert_ptr_nonnull(strstr(k.ptx, "red.relaxed.gpu.global.add.noftz.bf16x2"));
  kernel_buffer buffers[] = {{cells, sizeof cells, true, true},
                             {by_ticket, sizeof by_ticket, true, false},
                             {before, sizeof before, true, false}};
  run_kernel(&k, buffers, 3, 0, 2, THREADS);
  ck_assert(dtype_load(DTYPE_F16, cells, 0) == N && dtype_load(DTYPE_F16, cells, 1) == 2 * N);
  ck_assert(dtype_load(DTYPE_BF16, cells, 2) == N && dtype_load(DTYPE_BF16, cells, 3) == -N);
  ck_assert_uint_eq(cells[2], N);
  for (int i = 0; i < N; i++) {
    ck_assert_uint_lt(by_ticket[i], N);
    ck_assert(!seen[by_ticket[i]]);
    seen[by_ticket[i]] = true;
  }
  /* Each thread got the one before; the last one is still there. */
  uint64_t sum = cells[3];
  for (int i = 0; i < N; i++) sum += before[i];
  ck_assert_uint_eq(sum, 1000000 + (uint64_t)N * (N - 1) / 2);
  arena_release(&a);
}
END_TEST

/* A CTA's threads take places in shared memory, and count themselves in bins. */
static void build_shared(gen_builder *b, void *user) {
  (void)user;
  gen_value n = gen_tid_x(b), cells = gen_shared_static(b, "cells", 4 * (1 + CELLS), 4);
  gen_branch few;
  gen_if(b, &few, gen_compare_imm(b, GEN_ULT, n, 1 + CELLS), NULL, 0);
  gen_store_shared(b, gen_i32(b, 0), gen_add(b, cells, gen_mul_imm(b, n, 4)));
  gen_if_end(b, &few);
  gen_cta_sync(b);
  gen_value place = gen_fetch_update_shared(b, GEN_UPDATE_ADD, cells, gen_i32(b, 1));
  gen_value bin = gen_mul_imm(b, gen_and(b, n, gen_i32(b, CELLS - 1)), 4);
  gen_update_shared(b, GEN_UPDATE_ADD, gen_add(b, gen_add_imm(b, cells, 4), bin), n);
  gen_store_global(b, n, element(b, 0, place, 4));
  gen_cta_sync(b);
  gen_if(b, &few, gen_compare_imm(b, GEN_ULT, n, 1 + CELLS), NULL, 0);
  gen_store_global(b, gen_load_shared(b, GEN_I32, 1, gen_add(b, cells, gen_mul_imm(b, n, 4))),
                   element(b, 1, n, 4));
  gen_if_end(b, &few);
}

START_TEST(updates_of_shared_memory) {
  uint32_t by_place[THREADS], cells[1 + CELLS], want[CELLS] = {0};
  bool seen[THREADS] = {false};
  arena a = ARENA_INIT;
  gen_output k = make_kernel(build_shared, NULL, 2, THREADS, &a);
  kernel_buffer buffers[] = {{by_place, sizeof by_place, true, false}, {cells, sizeof cells, true, false}};
  run_kernel(&k, buffers, 2, 0, 1, THREADS);
  ck_assert_uint_eq(cells[0], THREADS);
  for (uint32_t i = 0; i < THREADS; i++) {
    ck_assert_uint_lt(by_place[i], THREADS);
    ck_assert(!seen[by_place[i]]);
    seen[by_place[i]] = true;
    want[i % CELLS] += i;
  }
  for (int i = 0; i < CELLS; i++) ck_assert_uint_eq(cells[1 + i], want[i]);
  arena_release(&a);
}
END_TEST

/* --- flags --- */

/* A chain: CTA c waits for c - 1's flag, adds its own number to the sum published there, and publishes. What
 * was written before the flag (buffer 1, by all threads) is read behind it. */
static void build_chain(gen_builder *b, void *user) {
  bool pairs = *(bool *)user;
  gen_value cta = gen_ctaid_x(b), t = gen_tid_x(b), zero = gen_i32(b, 0);
  gen_value sum = gen_shared_static(b, "sum", 8, 8);
  gen_branch leader, later;
  gen_store_global(b, gen_add_imm(b, cta, 100), element(b, 1, thread_number(b), 4));
  gen_cta_sync(b);
  gen_if(b, &leader, gen_compare(b, GEN_EQ, t, zero), NULL, 0);
  gen_value before = gen_i64(b, 0);
  gen_if(b, &later, gen_compare(b, GEN_NE, cta, zero), &before, 1);
  gen_value previous = gen_add_imm(b, cta, -1), seen[2] = {gen_i64(b, 0), gen_i64(b, 0)};
  gen_loop loop;
  gen_loop_begin(b, &loop, seen, 2);
  if (pairs) {
    gen_load_pair_ordered(b, GEN_ACQUIRE, element(b, 0, previous, 16), seen);
  } else {
    seen[0] = gen_load_ordered(b, GEN_ACQUIRE, GEN_I64, element(b, 0, previous, 16));
    seen[1] = gen_lshr(b, seen[0], gen_i64(b, 32));
    seen[0] = gen_and(b, seen[0], gen_i64(b, 0xFFFFFFFF));
  }
  gen_loop_end_while(b, &loop, gen_compare_imm(b, GEN_EQ, seen[1], 0));
  gen_value written = gen_load_global(
      b, GEN_I32, 1, element(b, 1, gen_add_imm(b, gen_mul_imm(b, cta, THREADS), -1), 4), false);
  before = gen_add(b, seen[0], gen_zext(b, written, GEN_I64));
  gen_if_end(b, &later);
  gen_value own = gen_add(b, before, gen_zext(b, cta, GEN_I64)), pair[] = {own, gen_i64(b, 1)};
  gen_store_shared(b, own, sum);
  gen_value packed = gen_or(b, own, gen_i64(b, (int64_t)1 << 32));
  if (pairs)
    gen_store_pair_ordered(b, GEN_RELEASE, pair, element(b, 0, cta, 16));
  else
    gen_store_ordered(b, GEN_RELEASE, packed, element(b, 0, cta, 16));
  gen_if_end(b, &leader);
  gen_cta_sync(b);
  gen_store_global(b, gen_load_shared(b, GEN_I64, 1, sum), element(b, 2, thread_number(b), 8));
}

START_TEST(a_chain_of_ctas_passes_a_sum) {
  enum { LINKS = 9 };
  bool pairs = _i;
  int64_t flags[LINKS * 2] = {0}, out[LINKS * THREADS];
  int32_t written[LINKS * THREADS];
  arena a = ARENA_INIT;
  gen_output k = make_kernel(build_chain, &pairs, 3, THREADS, &a);
  kernel_buffer buffers[] = {{flags, sizeof flags, true, true},
                             {written, sizeof written, true, false},
                             {out, sizeof out, true, false}};
  run_kernel(&k, buffers, 3, 0, LINKS, THREADS);
  for (int64_t cta = 0, want = 0; cta < LINKS; cta++) {
    want += cta + (cta ? 99 + cta : 0);
    for (int t = 0; t < THREADS; t++) ck_assert_int_eq(out[cta * THREADS + t], want);
  }
  arena_release(&a);
}
END_TEST

/* The last CTA sums what all have written; twice, with the counter as the first launch left it. */
static void build_last(gen_builder *b, void *user) {
  (void)user;
  gen_value scratch = gen_shared_static(b, "scratch", 4, 4), n = thread_number(b);
  gen_store_global(b, gen_mul_imm(b, n, 3), element(b, 1, n, 4));
  gen_value last = gen_last_cta(b, gen_param(b, 0), gen_nctaid_x(b), scratch);
  gen_branch is_last;
  gen_if(b, &is_last, gen_and(b, last, gen_compare_imm(b, GEN_EQ, gen_tid_x(b), 0)), NULL, 0);
  gen_value carried[] = {gen_i32(b, 0), gen_i32(b, 0)};
  gen_loop loop;
  gen_loop_begin(b, &loop, carried, 2);
  gen_loop_while(b, &loop, gen_compare_imm(b, GEN_ULT, carried[0], CTAS * THREADS));
  carried[1] = gen_add(b, carried[1], gen_load_global(b, GEN_I32, 1, element(b, 1, carried[0], 4), false));
  carried[0] = gen_add_imm(b, carried[0], 1);
  gen_loop_end(b, &loop);
  gen_store_global(b, carried[1], element(b, 2, gen_i32(b, 0), 4));
  gen_if_end(b, &is_last);
}

START_TEST(the_last_cta_sees_all) {
  enum { N = CTAS * THREADS };
  int32_t counter = 0, values[N], sum;
  arena a = ARENA_INIT;
  gen_output k = make_kernel(build_last, NULL, 3, THREADS, &a);
  for (int round = 0; round < 2; round++) {
    kernel_buffer buffers[] = {{&counter, sizeof counter, true, true},
                               {values, sizeof values, true, false},
                               {&sum, sizeof sum, true, false}};
    run_kernel(&k, buffers, 3, 0, CTAS, THREADS);
    ck_assert_int_eq(sum, 3 * N * (N - 1) / 2);
    ck_assert_int_eq(counter, 0);
  }
  arena_release(&a);
}
END_TEST

/* --- clusters --- */

/* Every CTA of the cluster puts its number into the next one and reads the one after that. */
static void build_cluster(gen_builder *b, void *user) {
  (void)user;
  gen_value rank = gen_cluster_ctarank(b), t = gen_tid_x(b), size = gen_i32(b, 4);
  gen_value words = gen_shared_static(b, "words", THREADS * 8, 16), own = gen_mul_imm(b, t, 8);
  gen_value next = gen_urem(b, gen_add_imm(b, rank, 1), size),
            other = gen_urem(b, gen_add_imm(b, rank, 2), size);
  gen_value pair[] = {gen_add_imm(b, gen_mul_imm(b, rank, 1000), 0), t};
  gen_cluster_arrive_relaxed(b); /* others' memory is there once all have begun */
  gen_cluster_wait(b);
  gen_store_cluster(b, gen_vector(b, pair, 2), gen_cluster_map(b, gen_add(b, words, own), next));
  gen_cluster_arrive(b);
  gen_cluster_wait(b);
  gen_value mine = gen_load_shared(b, GEN_I32, 1, gen_add(b, words, own));
  gen_value theirs = gen_load_cluster(b, GEN_I32, 2, gen_cluster_map(b, gen_add(b, words, own), other));
  gen_cluster_arrive(b); /* released: the reads are done before the other ends */
  gen_store_global(
      b, gen_add(b, gen_mul_imm(b, mine, 1000), gen_add(b, gen_lane(b, theirs, 0), gen_lane(b, theirs, 1))),
      element(b, 0, thread_number(b), 4));
  gen_cluster_wait(b);
}

START_TEST(clusters_share_memory) {
  run_options o = {target_find("sm_90a", NULL), "sm_90a", 4};
  int32_t out[8 * THREADS];
  arena a = ARENA_INIT;
  gen_output k = make_kernel_for(&o, build_cluster, NULL, 1, THREADS, &a);
  kernel_buffer buffer = {out, sizeof out, true, false};
  run_kernel_on(&o, &k, &buffer, 1, 0, 8, THREADS);
  for (int cta = 0; cta < 8; cta++)
    for (int t = 0; t < THREADS; t++) {
      int rank = cta % 4;
      ck_assert_int_eq(out[cta * THREADS + t], (rank + 3) % 4 * 1000 * 1000 + (rank + 1) % 4 * 1000 + t);
    }
  arena_release(&a);
}
END_TEST

static void build_cluster_numbers(gen_builder *b, void *user) {
  (void)user;
  gen_value number = gen_add(b, gen_mul_imm(b, gen_nclusterid_x(b), 100), gen_clusterid_x(b));
  gen_store_global(b, number, element(b, 0, thread_number(b), 4));
}

/* %clusterid.x itself is not exact in large grids. */
START_TEST(clusters_are_numbered_without_rounding) {
  run_options o = {target_find("sm_90a", NULL), "sm_90a", 4};
  int32_t out[12 * THREADS];
  arena a = ARENA_INIT;
  gen_output k = make_kernel_for(&o, build_cluster_numbers, NULL, 1, THREADS, &a);
  ck_assert_ptr_null(strstr(k.ptx, "clusterid"));
  kernel_buffer buffer = {out, sizeof out, true, false};
  run_kernel_on(&o, &k, &buffer, 1, 0, 12, THREADS);
  for (int i = 0; i < 12 * THREADS; i++) ck_assert_int_eq(out[i], 300 + i / THREADS / 4);
  arena_release(&a);
}
END_TEST

/* --- advice --- */

typedef struct advice {
  int bytes;
  gen_cache cache;
  bool constant;
} advice;

static void build_advice(gen_builder *b, void *user) {
  const advice *a = user;
  gen_value words[8], at = gen_mul_imm(b, gen_zext(b, gen_tid_x(b), GEN_I64), a->bytes);
  gen_load_words(b, a->bytes, gen_add(b, gen_param(b, 0), at), a->constant, a->cache, words);
  gen_store_words(b, a->bytes, words, gen_add(b, gen_param(b, 1), at), a->cache);
}

static void copy_with_advice(const run_options *o, const advice *how, const char *load, const char *store) {
  uint8_t in[THREADS * 32], out[THREADS * 32];
  for (size_t i = 0; i < sizeof in; i++) in[i] = (uint8_t)(i * 37 + 11);
  arena a = ARENA_INIT;
  gen_output k = make_kernel_for(o, build_advice, (void *)how, 2, THREADS, &a);
  if (load) ck_assert_msg(strstr(k.ptx, load) != NULL, "%s", k.ptx);
  if (store) ck_assert_msg(strstr(k.ptx, store) != NULL, "%s", k.ptx);
  size_t bytes = (size_t)(THREADS * how->bytes);
  kernel_buffer buffers[] = {{in, bytes, false, false}, {out, bytes, true, false}};
  run_kernel_on(o, &k, buffers, 2, 0, 1, THREADS);
  ck_assert_mem_eq(in, out, bytes);
  arena_release(&a);
}

START_TEST(advice_changes_no_result) {
  for (int cache = 0; cache < GEN_CACHE_COUNT; cache++)
    for (int constant = 0; constant < 2; constant++) {
      advice how = {1 << _i, (gen_cache)cache, constant != 0};
      copy_with_advice(NULL, &how, NULL, NULL);
    }
}
END_TEST

START_TEST(advice_is_spelled) {
  copy_with_advice(NULL, &(advice){16, GEN_CACHE_STREAM, true}, "ld.global.nc.L1::no_allocate.v4.b32",
                   "st.global.cs.v4.b32");
  copy_with_advice(NULL, &(advice){8, GEN_CACHE_STREAM_256, false},
                   "ld.global.L1::no_allocate.L2::256B.v2.b32", "st.global.cs.v2.b32");
  copy_with_advice(NULL, &(advice){4, GEN_CACHE_EVICT_FIRST, true},
                   "ld.global.nc.L1::no_allocate.L2::cache_hint.b32", "st.global.L2::cache_hint.b32");
  copy_with_advice(NULL, &(advice){2, GEN_CACHE_EVICT_LAST, false}, "createpolicy.fractional.L2::evict_last",
                   NULL);
}
END_TEST

/* A target of 32-byte accesses: none has a file yet. */
START_TEST(wide_accesses_where_the_target_has_them) {
  target wide = *target_find("sm_90a", NULL);
  wide.name = "sm_100a";
  wide.llvm_features = "+ptx88";
  wide.ptx_version = "8.8";
  wide.has.access_32 = true;
  run_options o = {&wide, "sm_100a", 1};
  copy_with_advice(&o, &(advice){32, GEN_CACHE_DEFAULT, true}, "ld.global.nc.v8.b32", "st.global.v8.b32");
  copy_with_advice(&o, &(advice){32, GEN_CACHE_STREAM, true}, "ld.global.nc.L1::no_allocate.v8.b32",
                   "st.global.cs.v8.b32");
}
END_TEST

TCase *published_memory_tests(void) {
  TCase *tests = tcase_create("memory that CTAs share");
  tcase_set_timeout(tests, 60);
  tcase_add_loop_test(tests, updates_of_every_type, 0, (int)COUNT_OF(updates));
  tcase_add_test(tests, updates_keep_nan);
  tcase_add_test(tests, updates_give_tickets);
  tcase_add_test(tests, updates_of_shared_memory);
  tcase_add_loop_test(tests, a_chain_of_ctas_passes_a_sum, 0, 2);
  tcase_add_test(tests, the_last_cta_sees_all);
  tcase_add_test(tests, clusters_share_memory);
  tcase_add_test(tests, clusters_are_numbered_without_rounding);
  tcase_add_loop_test(tests, advice_changes_no_result, 0, 5);
  tcase_add_test(tests, advice_is_spelled);
  tcase_add_test(tests, wide_accesses_where_the_target_has_them);
  return tests;
}
