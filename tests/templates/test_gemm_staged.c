/* What the gemm template brings through shared memory beside operands (STAGED=1): elements that an epilogue
 * reads by row and column, and scales of blocks; on the emulator against the fp64 reference. */
#include <check.h>
#include <stdlib.h>

#include "base/random.h"
#include "template_cases.h"
#include "templates/gemm.h"

enum { RANDOM_POINTS = 12 };

static const kernel_template *gemm(void) {
  return template_find("gemm");
}

static const char residual[] = "f(X: T[M,K], W: T[K,N], R: U[M,N], b: f32[N]) -> (Y: V[M,N]) { Y[m,n] = "
                               "R[m,n] + b[n] + sum(k) X[m,k] * W[k,n] }";
static const char linear_residual[] = "f(X: T[M,K], W: T[N,K], R: T[M,N]) -> (Y: T[M,N]) { Y[m,n] = R[m,n] + "
                                      "sum(k) X[m,k] * W[n,k] }";
static const char gate[] = "f(X: T[M,K], W: T[N,K], R: T[M,N], G: f32[M,N]) -> (Y: T[M,N]) { Y[m,n] = "
                           "R[m,n] + silu(G[m,n]) * sum(k) X[m,k] * W[n,k] }";
static const char turned[] = "f(X: T[M,K], W: T[N,K], R: U[N,M]) -> (Y: T[M,N]) { Y[m,n] = R[n,m] + sum(k) "
                             "X[m,k] * W[n,k] }";
static const char turned_out[] = "f(X: T[M,K], W: T[N,K], R: U[M,N]) -> (Y: T[N,M]) { Y[n,m] = R[m,n] + "
                                 "sum(k) X[m,k] * W[n,k] }";
static const char in_place[] = "f(D: T[M,N], X: T[M,K], W: T[N,K]) -> (D) { D[m,n] = D[m,n] + sum(k) "
                               "X[m,k] * W[n,k] }";
static const char batched[] = "f(A: T[B,M,K], C: T[B,K,N], R: T[B,M,N]) -> (Y: T[B,M,N]) { Y[b,m,n] = "
                              "R[b,m,n] + sum(k) A[b,m,k] * C[b,k,n] }";
static const char gated[] = "f(X: T[M,K], G: T[N,K], U: T[N,K], R: T[M,N]) -> (Y: T[M,N]) { Y[m,n] = R[m,n] "
                            "+ silu(sum(k) X[m,k] * G[n,k]) * sum(k) X[m,k] * U[n,k] }";
static const char two_outputs[] = "f(X: T[M,K], W: T[N,K], R: T[M,N]) -> (Z: T[M,N], Y: f32[M,N]) { Z[m,n] "
                                  "= R[m,n] + sum(k) X[m,k] * W[n,k]; Y[m,n] = 2 * Z[m,n] }";
static const char grouped[] =
    "f(X: T[R,K], W: T[E,N,K], P: T[R,N], ends: i32[E]) -> (Y: T[R,N]) { g[r] = sum(e: ends[e] <= r) 1; "
    "Y[r,n] = g[r] < E ? P[r,n] + sum(k) X[r,k] * W[g[r],n,k] : 0 }";
static const char blocks[] =
    "f(X: T[M,128*G], W: U[N,128*G], sx: f32[M,G], sw: f32[H,G]) -> (Y: V[M,N]) { Y[m,n] = sum(k) X[m,k] * "
    "sx[m,k/128] * (W[n,k] * sw[n/128,k/128]) }";
static const char column_blocks[] = "f(X: T[M,128*G], W: U[N,128*G], sx: bf16[G,M], sw: f32[H,G], R: V[M,N]) "
                                    "-> (Y: V[M,N]) { Y[m,n] = relu(R[m,n] + "
                                    "sum(k) X[m,k] * sx[k/128,m] * (W[n,k] * sw[n/64,k/128])) }";
static const char rows_alone[] =
    "f(X: T[M,128*G], W: U[N,128*G], sx: f32[M,G]) -> (Y: V[M,N]) { Y[m,n] = sum(k) "
    "X[m,k] * sx[m,k/128] * W[n,k] }";
static const char columns_alone[] =
    "f(X: T[M,256*G], W: U[N,256*G], sw: f32[G]) -> (Y: V[M,N]) { Y[m,n] = sum(k) "
    "X[m,k] * (W[n,k] * sw[k/256]) }";
static const char gated_blocks[] = "f(X: T[M,128*G], A: U[N,128*G], B: U[N,128*G], sx: f32[M,G], sa: "
                                   "f32[H,G], sb: f32[H,G]) -> (Y: bf16[M,N]) { "
                                   "Y[m,n] = (sum(k) X[m,k] * sx[m,k/128] * (A[n,k] * sa[n/128,k/128])) "
                                   "* (sum(k) X[m,k] * sx[m,k/128] * "
                                   "(B[n,k] * sb[n/128,k/128])) }";
static const char grouped_blocks[] =
    "f(X: T[R,128*G], W: T[E,N,128*G], sx: f32[R,G], sw: f32[E,H,G], ends: i32[E]) -> (Y: bf16[R,N]) { "
    "g[r] = sum(e: ends[e] <= r) 1; Y[r,n] = g[r] < E ? sum(k) X[r,k] * sx[r,k/128] * (W[g[r],n,k] * "
    "sw[g[r],n/128,k/128]) : 0 }";

/* Of two sums that one has scales of columns, the other none. */
static const char half_scaled[] =
    "f(X: T[M,128*G], A: T[N,128*G], B: T[N,128*G], sx: f32[M,G], sa: f32[H,G]) -> (Y: bf16[M,N]) { "
    "Y[m,n] = (sum(k) X[m,k] * sx[m,k/128] * (A[n,k] * sa[n/128,k/128])) "
    "* (sum(k) X[m,k] * sx[m,k/128] * B[n,k]) }";

#define ALL   "STAGED=1,GROUP=1,RASTER=0,BLOCK_K=64,"
#define ONE   ALL "STAGES=2,BLOCK_M=64,CONSUMERS=1,"
#define TWO   ALL "STAGES=2,CONSUMERS=2,PERSISTENT=1,"
#define THREE ALL "STAGES=3,CONSUMERS=2,PERSISTENT=1,"

static const template_class classes[] = {
    /* Every schedule; panels beside and over one another, several of them in a stage, and of several stages.
     */
    {residual, "T=bf16 U=bf16 V=bf16 M=72 N=136 K=72", ONE "BLOCK_N=64,SCHEDULE=0,PERSISTENT=1"},
    {residual, "T=bf16 U=bf16 V=bf16 M=72 N=136 K=72", ONE "BLOCK_N=64,SCHEDULE=0,PERSISTENT=0"},
    {residual, "T=f16 U=f16 V=f16 M=200 N=136 K=136", TWO "BLOCK_M=128,BLOCK_N=144,SCHEDULE=1"},
    {residual, "T=bf16 U=bf16 V=bf16 M=200 N=264 K=264", TWO "BLOCK_M=128,BLOCK_N=128,SCHEDULE=2"},
    {residual, "T=bf16 U=bf16 V=bf16 M=201 N=264 K=264", TWO "BLOCK_M=128,BLOCK_N=64,SCHEDULE=2,STREAM_K=1"},
    {residual, "T=bf16 U=bf16 V=bf16 M=201 N=104 K=264", TWO "BLOCK_M=128,BLOCK_N=64,SCHEDULE=0,STREAM_K=1"},
    {residual, "T=bf16 U=bf16 V=bf16 M=200 N=304 K=72", TWO "BLOCK_M=64,BLOCK_N=96,SCHEDULE=1,EVEN=1"},
    {residual, "T=bf16 U=bf16 V=bf16 M=200 N=392 K=72", TWO "BLOCK_M=64,BLOCK_N=144,SCHEDULE=1,EVEN=1"},
    {linear_residual, "T=bf16 M=700 N=304 K=136",
     ALL "CONSUMERS=2,PERSISTENT=1,BLOCK_M=128,BLOCK_N=176,STAGES=5,SCHEDULE=1,EVEN=1"},
    {linear_residual, "T=f16 M=700 N=200 K=72", TWO "BLOCK_M=64,BLOCK_N=184,SCHEDULE=1,SWAP=1"},
    {residual, "T=bf16 U=bf16 V=bf16 M=200 N=304 K=72", ONE "BLOCK_N=168,SCHEDULE=0,PERSISTENT=1"},
    {residual, "T=bf16 U=bf16 V=bf16 M=200 N=72 K=72", TWO "BLOCK_M=128,BLOCK_N=64,SCHEDULE=0,SWAP=1"},
    {residual, "T=bf16 U=bf16 V=bf16 M=208 N=72 K=72", TWO "BLOCK_M=128,BLOCK_N=64,SCHEDULE=2,SWAP=1"},
    {residual, "T=bf16 U=bf16 V=bf16 M=72 N=136 K=72", ONE "BLOCK_N=32,SCHEDULE=0,PERSISTENT=1,CLUSTER_N=2"},
    {residual, "T=bf16 U=bf16 V=bf16 M=200 N=136 K=136", TWO "BLOCK_M=64,BLOCK_N=64,SCHEDULE=1,CLUSTER_M=2"},
    {residual, "T=bf16 U=bf16 V=bf16 M=200 N=136 K=136", TWO "BLOCK_M=256,BLOCK_N=64,SCHEDULE=0"},
    /* Elements of 32 bits, outputs that copies do not store, axes in other orders, several reads. */
    {residual, "T=bf16 U=f32 V=bf16 M=72 N=136 K=72", ONE "BLOCK_N=128,SCHEDULE=0,PERSISTENT=1"},
    {residual, "T=bf16 U=f32 V=f32 M=200 N=136 K=72", TWO "BLOCK_M=128,BLOCK_N=96,SCHEDULE=0"},
    {residual, "T=bf16 U=f32 V=bf16 M=200 N=136 K=72", THREE "BLOCK_M=64,BLOCK_N=96,SCHEDULE=1,SWAP=1"},
    {residual, "T=bf16 U=bf16 V=f32 M=75 N=136 K=72", ONE "BLOCK_N=96,SCHEDULE=0,PERSISTENT=0"},
    {turned, "T=bf16 U=bf16 M=72 N=136 K=72", ONE "BLOCK_N=64,SCHEDULE=0,PERSISTENT=1"},
    {turned, "T=bf16 U=f32 M=200 N=136 K=72", THREE "BLOCK_M=64,BLOCK_N=96,SCHEDULE=1"},
    {turned_out, "T=bf16 U=bf16 M=200 N=136 K=72", TWO "BLOCK_M=128,BLOCK_N=96,SCHEDULE=0"},
    {gate, "T=bf16 M=200 N=136 K=72", TWO "BLOCK_M=128,BLOCK_N=128,SCHEDULE=0"},
    {gate, "T=bf16 M=200 N=200 K=72", THREE "BLOCK_M=64,BLOCK_N=64,SCHEDULE=1"},
    {gated, "T=bf16 M=200 N=136 K=136", TWO "BLOCK_M=128,BLOCK_N=96,SCHEDULE=1"},
    {two_outputs, "T=bf16 M=72 N=80 K=72", ONE "BLOCK_N=64,SCHEDULE=0,PERSISTENT=1"},
    {in_place, "T=bf16 M=72 N=136 K=72", ONE "BLOCK_N=96,SCHEDULE=0,PERSISTENT=1"},
    {in_place, "T=bf16 M=200 N=136 K=72", TWO "BLOCK_M=64,BLOCK_N=96,SCHEDULE=1"},
    {batched, "T=bf16 B=3 M=72 N=136 K=136", TWO "BLOCK_M=64,BLOCK_N=64,SCHEDULE=1"},
    {batched, "T=bf16 B=3 M=130 N=136 K=200", TWO "BLOCK_M=128,BLOCK_N=64,SCHEDULE=0,STREAM_K=1"},
    {grouped, "T=bf16 R=200 E=3 N=136 K=72", TWO "BLOCK_M=64,BLOCK_N=64,SCHEDULE=1"},
    /* Scales: by every schedule, of both sides and of one, several sums, and with a read. */
    {blocks, "T=e4m3 U=e4m3 V=bf16 M=72 N=136 G=3 H=2", ONE "BLOCK_N=64,SCHEDULE=0,PERSISTENT=0"},
    {blocks, "T=e4m3 U=e4m3 V=f32 M=73 N=200 G=11 H=2", TWO "BLOCK_M=128,BLOCK_N=128,SCHEDULE=0"},
    {blocks, "T=e4m3 U=e5m2 V=bf16 M=150 N=328 G=1 H=3", TWO "BLOCK_M=128,BLOCK_N=256,SCHEDULE=0"},
    {blocks, "T=e5m2 U=e4m3 V=bf16 M=200 N=136 G=2 H=2", TWO "BLOCK_M=64,BLOCK_N=128,SCHEDULE=1"},
    {blocks, "T=e4m3 U=e4m3 V=bf16 M=200 N=136 G=5 H=2", TWO "BLOCK_M=128,BLOCK_N=64,SCHEDULE=2"},
    {blocks, "T=e4m3 U=e4m3 V=bf16 M=300 N=136 G=5 H=2", TWO "BLOCK_M=256,BLOCK_N=128,SCHEDULE=0,STREAM_K=1"},
    {blocks, "T=e4m3 U=e4m3 V=bf16 M=200 N=136 G=3 H=2", ONE "BLOCK_N=64,SCHEDULE=0,CLUSTER_N=2"},
    {blocks, "T=e4m3 U=e4m3 V=bf16 M=72 N=600 G=2 H=5", TWO "BLOCK_M=128,BLOCK_N=160,SCHEDULE=0"},
    {blocks, "T=e4m3 U=e4m3 V=bf16 M=200 N=136 G=3 H=2", ONE "BLOCK_N=64,SCHEDULE=0,PERSISTENT=0,STREAM_K=2"},
    {column_blocks, "T=e4m3 U=e4m3 V=bf16 M=72 N=600 G=2 H=10", TWO "BLOCK_M=128,BLOCK_N=144,SCHEDULE=0"},
    {rows_alone, "T=e4m3 U=e4m3 V=bf16 M=72 N=136 G=3", ONE "BLOCK_N=96,SCHEDULE=0"},
    {columns_alone, "T=e4m3 U=e4m3 V=bf16 M=72 N=136 G=2", ONE "BLOCK_N=96,SCHEDULE=0"},
    {gated_blocks, "T=e4m3 U=e4m3 M=150 N=136 G=2 H=2", TWO "BLOCK_M=128,BLOCK_N=128,SCHEDULE=0"},
    {grouped_blocks, "T=e4m3 R=200 E=3 N=136 G=3 H=2", TWO "BLOCK_M=128,BLOCK_N=64,SCHEDULE=0"},
    {half_scaled, "T=e4m3 M=70 N=136 G=2 H=2", TWO "BLOCK_M=128,BLOCK_N=64,SCHEDULE=0"},
};

START_TEST(classes_are_right) {
  template_class_run(gemm(), &classes[_i]);
}
END_TEST

START_TEST(views_are_right) {
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, gemm(), residual, "T=bf16 U=f32 V=bf16 M=72 N=80 K=72",
                                       ONE "BLOCK_N=64,SCHEDULE=0,PERSISTENT=1");
  run_view views[LIMIT_TENSORS] = {{0}};
  for (int i = 0; i < 3; i++) run_view_permuted(&c.p, i, (int[]){1, 0}, 8, &views[i]);
  template_case_run(&a, &c, views, 0);
  arena_release(&a);
}
END_TEST

/* Random points of the space, the same ones every time, by their small problems. */
START_TEST(random_points_are_right) {
  static const struct {
    const char *text, *bindings;
  } operators[] = {{residual, "T=bf16 U=bf16 V=bf16 M=4096 N=4096 K=4096"},
                   {turned, "T=bf16 U=f32 M=4096 N=4096 K=4096"},
                   {blocks, "T=e4m3 U=e4m3 V=bf16 M=4096 N=7168 G=16 H=56"},
                   {column_blocks, "T=e4m3 U=e4m3 V=bf16 M=4096 N=4096 G=16 H=64"}};
  arena a = ARENA_INIT;
  int which = _i % (int)COUNT_OF(operators);
  template_case c = template_case_bind(&a, gemm(), operators[which].text, operators[which].bindings, "");
  const space *all = gemm()->space(c.t);
  uint64_t tries = 0;
  do {
    space_point(all, (int64_t)(random_u64((uint64_t)_i, tries++) % (uint64_t)space_size(all)), &c.c);
    c.c.values[GEMM_STAGED] = 1;
  } while (template_feasible(gemm(), &c.p, c.t, &c.c) != TEMPLATE_OK);
  template_case_run_reduced(&a, &c);
  arena_release(&a);
}
END_TEST

static const struct {
  const char *text, *bindings, *settings;
} large[] = {
    {residual, "T=bf16 U=bf16 V=bf16 M=4096 N=4096 K=4096",
     "STAGED=1,BLOCK_M=128,BLOCK_N=176,BLOCK_K=64,STAGES=4,CONSUMERS=2,SCHEDULE=1,GROUP=8,EVEN=1"},
    {residual, "T=bf16 U=bf16 V=bf16 M=4096 N=4096 K=4096",
     "STAGED=1,BLOCK_M=128,BLOCK_N=160,BLOCK_K=64,STAGES=4,CONSUMERS=2,SCHEDULE=1,GROUP=8"},
    {linear_residual, "T=bf16 M=4096 N=4096 K=4096",
     "STAGED=1,BLOCK_M=128,BLOCK_N=176,BLOCK_K=64,STAGES=5,CONSUMERS=2,SCHEDULE=1,GROUP=8,EVEN=1,SWAP=1"},
    {residual, "T=bf16 U=f32 V=bf16 M=4096 N=4096 K=4096",
     "STAGED=1,BLOCK_M=128,BLOCK_N=256,BLOCK_K=64,STAGES=4,CONSUMERS=2,SCHEDULE=0,GROUP=8"},
    {blocks, "T=e4m3 U=e4m3 V=bf16 M=4096 N=7168 G=128 H=56",
     "STAGED=1,BLOCK_M=128,BLOCK_N=160,STAGES=5,CONSUMERS=2,SCHEDULE=0,GROUP=8"},
    {blocks, "T=e4m3 U=e4m3 V=bf16 M=4096 N=7168 G=128 H=56",
     "STAGED=1,BLOCK_M=128,BLOCK_N=192,STAGES=4,CONSUMERS=2,SCHEDULE=0,GROUP=8"},
    {blocks, "T=e4m3 U=e4m3 V=bf16 M=4096 N=7168 G=128 H=56",
     "STAGED=1,BLOCK_M=128,BLOCK_N=256,STAGES=4,CONSUMERS=2,SCHEDULE=0,GROUP=8"},
};

START_TEST(large_tiles_do_not_spill) {
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, gemm(), large[_i].text, large[_i].bindings, large[_i].settings);
  template_case_assemble(&a, &c);
  arena_release(&a);
}
END_TEST

START_TEST(configurations_that_cannot_be_are_refused) {
  arena a = ARENA_INIT;
  arke_error err = ARKE_ERROR_INIT;
  template_case c = template_case_bind(
      &a, gemm(), "f(X: T[M,K], W: T[N,K]) -> (Y: T[M,N]) { Y[m,n] = sum(k) X[m,k] * W[n,k] }",
      "T=bf16 M=4096 N=4096 K=4096", "");
  config v;
  ck_assert_int_eq(config_parse(gemm()->space(c.t), "STAGED=1", &c.c, &v, &err), ARKE_OK);
  ck_assert_int_eq(template_feasible(gemm(), &c.p, c.t, &v), TEMPLATE_OPERATOR);
  arena_release(&a);
}
END_TEST

START_TEST(missing_waits_are_found) {
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, gemm(), residual, "T=bf16 U=bf16 V=bf16 M=200 N=136 K=136",
                                       TWO "BLOCK_M=64,BLOCK_N=64,SCHEDULE=1");
  template_case_miss(&a, &c, "mbarrier.try_wait");
  template_case_miss(&a, &c, "bar.sync");
  c = template_case_bind(&a, gemm(), blocks, "T=e4m3 U=e4m3 V=bf16 M=200 N=136 G=11 H=2",
                         TWO "BLOCK_M=128,BLOCK_N=128,SCHEDULE=0");
  template_case_miss(&a, &c, "mbarrier.try_wait");
  arena_release(&a);
}
END_TEST

START_TEST(out_of_memory_is_reported) {
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, gemm(), blocks, "T=e4m3 U=e4m3 V=bf16 M=40 N=72 G=2 H=1",
                                       ONE "BLOCK_N=32,SCHEDULE=0");
  template_case_fail_allocations(&c);
  arena_release(&a);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("gemm with staged reads and scales");
  TCase *tests = tcase_create("classes"), *others = tcase_create("others");
  tcase_set_timeout(tests, 120);
  tcase_set_timeout(others, 120);
  tcase_add_loop_test(tests, classes_are_right, 0, (int)COUNT_OF(classes));
  tcase_add_loop_test(others, random_points_are_right, 0, RANDOM_POINTS);
  tcase_add_test(others, views_are_right);
  tcase_add_loop_test(others, large_tiles_do_not_spill, 0, (int)COUNT_OF(large));
  tcase_add_test(others, configurations_that_cannot_be_are_refused);
  tcase_add_test(others, missing_waits_are_found);
  tcase_add_test(others, out_of_memory_is_reported);
  suite_add_tcase(suite, tests);
  suite_add_tcase(suite, others);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_ENV);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
