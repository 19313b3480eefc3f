/* The cost model against times measured on an H200 (microseconds): it decides where there is no GPU. */
#include <math.h>

#include "gemm_classes.h"
#include "templates_suites.h"

static double modelled_us(const char *text, int64_t m, int64_t n, int64_t k) {
  arena a = ARENA_INIT;
  gemm_class g = {GEMM_NT, "bf16", text};
  gemm_setup s = gemm_class_bind(&a, &g, m, n, k);
  double ns = template_cost_ns(s.gemm, &s.p, s.t, &s.t->rates, &s.c);
  ck_assert(isfinite(ns) && ns > 0);
  arena_release(&a);
  return ns / 1e3;
}

#define COOPERATIVE "BLOCK_M=128,BLOCK_N=256,STAGES=4,CONSUMERS=2,GROUP=8,SCHEDULE=0"
#define DEFERRED    "BLOCK_M=128,BLOCK_N=256,STAGES=4,CONSUMERS=2,GROUP=8,SCHEDULE=2"
#define PING_PONG   "BLOCK_M=128,BLOCK_N=128,STAGES=6,CONSUMERS=2,GROUP=8,SCHEDULE=1"
#define SMALL       "BLOCK_M=64,BLOCK_N=64,STAGES=8,CONSUMERS=1,PERSISTENT=0"

/* Median of interleaved rounds, NT, inputs rotated through more than the L2 cache. */
static const struct {
  const char *config;
  int64_t m, n, k;
  double us;
} measured[] = {
    {DEFERRED, 4096, 4096, 4096, 170.4},  {DEFERRED, 8192, 8192, 8192, 1353.3},
    {DEFERRED, 4096, 4096, 16384, 667.1}, {DEFERRED, 1024, 4096, 4096, 45.0},
    {DEFERRED, 16384, 4096, 4096, 675.8}, {PING_PONG, 2048, 2048, 2048, 25.1},
    {SMALL, 64, 8192, 8192, 36.9},        {SMALL, 128, 4096, 14336, 38.6},
};

START_TEST(times_are_near_the_measured) {
  double us = modelled_us(measured[_i].config, measured[_i].m, measured[_i].n, measured[_i].k);
  ck_assert_msg(fabs(us / measured[_i].us - 1) < 0.1, "%.1f us modelled, %.1f measured", us, measured[_i].us);
}
END_TEST

/* The first was faster by more than 3 % on the GPU, so the model must prefer it. */
static const struct {
  const char *faster, *slower;
  int64_t m, n, k;
} order[] = {
    {DEFERRED, COOPERATIVE, 4096, 4096, 1024},
    {COOPERATIVE, SMALL, 4096, 4096, 4096},
    {DEFERRED, "BLOCK_M=128,BLOCK_N=224,STAGES=4,CONSUMERS=2,GROUP=8", 4096, 4096, 4096},
    {DEFERRED, DEFERRED ",STREAM_K=1", 2048, 2048, 2048},
    {PING_PONG, "BLOCK_M=128,BLOCK_N=192,STAGES=4,CONSUMERS=2,GROUP=8", 2048, 2048, 2048},
    {SMALL, DEFERRED, 64, 8192, 8192},
    {SMALL, "BLOCK_M=64,BLOCK_N=256,STAGES=5,CONSUMERS=1,PERSISTENT=0", 128, 4096, 14336},
    {"BLOCK_M=128,BLOCK_N=256,STAGES=4,CONSUMERS=2,GROUP=8",
     "BLOCK_M=128,BLOCK_N=256,STAGES=2,BLOCK_K=64,CONSUMERS=2,GROUP=8", 4096, 4096, 4096},
};

/* Interleaved at the power limit: 1572 and 1622 us, 785 and 800 us; 202.4 and 200.5 us. */
START_TEST(a_split_last_round_pays_where_tiles_are_long) {
  ck_assert(modelled_us(DEFERRED ",STREAM_K=1", 8192, 8192, 8192) < modelled_us(DEFERRED, 8192, 8192, 8192));
  ck_assert(modelled_us(DEFERRED ",STREAM_K=1", 16384, 4096, 4096) <
            modelled_us(DEFERRED, 16384, 4096, 4096));
  ck_assert(modelled_us(DEFERRED ",STREAM_K=1", 4096, 4096, 4096) > modelled_us(DEFERRED, 4096, 4096, 4096));
}
END_TEST

START_TEST(the_order_is_that_of_the_gpu) {
  double faster = modelled_us(order[_i].faster, order[_i].m, order[_i].n, order[_i].k);
  double slower = modelled_us(order[_i].slower, order[_i].m, order[_i].n, order[_i].k);
  ck_assert_msg(faster < slower, "%.1f us for the faster, %.1f for the slower", faster, slower);
}
END_TEST

START_TEST(more_work_takes_longer) {
  double last = 0;
  for (int64_t k = 64; k <= 65536; k *= 4) {
    double us = modelled_us(DEFERRED, 4096, 4096, k);
    ck_assert(us > last);
    last = us;
  }
}
END_TEST

TCase *gemm_cost_tests(void) {
  TCase *tests = tcase_create("gemm: its cost model");
  tcase_add_loop_test(tests, times_are_near_the_measured, 0, (int)COUNT_OF(measured));
  tcase_add_test(tests, a_split_last_round_pays_where_tiles_are_long);
  tcase_add_loop_test(tests, the_order_is_that_of_the_gpu, 0, (int)COUNT_OF(order));
  tcase_add_test(tests, more_work_takes_longer);
  return tests;
}
