/* What the gemm template multiplies beside 16-bit floats: 8-bit floats and integers, tf32, and terms with
 * scales of blocks; on the emulator against the fp64 reference, by every schedule. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "template_cases.h"

static const kernel_template *gemm(void) {
  return template_find("gemm");
}

static const char linear[] = "f(X: T[M,K], W: U[N,K]) -> (Y: V[M,N]) { Y[m,n] = sum(k) X[m,k] * W[n,k] }";
static const char whole[] = "f(X: T[M,K], W: U[N,K]) -> (Y: i32[M,N]) { Y[m,n] = sum(k) X[m,k] * W[n,k] }";
static const char tensor[] =
    "f(X: T[M,K], W: U[N,K], sx: f32[], sw: f32[]) -> (Y: V[M,N]) { Y[m,n] = (sum(k) "
    "X[m,k] * W[n,k]) * (sx * sw) }";
static const char rows[] =
    "f(X: T[M,K], W: U[N,K], sx: f32[M], sw: f32[N], b: V[N]) -> (Y: V[M,N]) { Y[m,n] = "
    "(sum(k) X[m,k] * W[n,k]) * (sx[m] * sw[n]) + b[n] }";
static const char blocks[] =
    "f(X: T[M,128*G], W: U[N,128*G], sx: f32[M,G], sw: f32[H,G]) -> (Y: V[M,N]) { Y[m,n] = sum(k) X[m,k] * "
    "sx[m,k/128] * (W[n,k] * sw[n/128,k/128]) }";
static const char column_blocks[] = "f(X: T[M,128*G], W: U[N,128*G], sx: bf16[G,M], sw: f32[H,G], b: f32[N]) "
                                    "-> (Y: V[M,N]) { Y[m,n] = relu(b[n] + "
                                    "sum(k) X[m,k] * sx[k/128,m] * (W[n,k] * sw[n/64,k/128])) }";
static const char rows_alone[] =
    "f(X: T[M,128*G], W: U[N,128*G], sx: f32[M,G]) -> (Y: V[M,N]) { Y[m,n] = sum(k) "
    "X[m,k] * sx[m,k/128] * W[n,k] }";
static const char wide_blocks[] =
    "f(X: T[M,256*G], W: U[N,256*G], sw: f32[G]) -> (Y: V[M,N]) { Y[m,n] = sum(k) "
    "X[m,k] * (W[n,k] * sw[k/256]) }";
static const char gated_blocks[] = "f(X: T[M,128*G], A: U[N,128*G], B: U[N,128*G], sx: f32[M,G], sa: "
                                   "f32[H,G], sb: f32[H,G]) -> (Y: bf16[M,N]) { "
                                   "Y[m,n] = (sum(k) X[m,k] * sx[m,k/128] * (A[n,k] * sa[n/128,k/128])) "
                                   "* (sum(k) X[m,k] * sx[m,k/128] * "
                                   "(B[n,k] * sb[n/128,k/128])) }";
static const char batched_blocks[] =
    "f(X: T[B,M,128*G], W: U[B,N,128*G], sx: f32[B,M,G], sw: f32[B,H,G]) -> (Y: V[B,M,N]) { "
    "Y[b,m,n] = "
    "sum(k) X[b,m,k] * sx[b,m,k/128] * (W[b,n,k] * sw[b,n/128,k/128]) }";
static const char tf32[] =
    "f(X: f32[M,K], W: f32[N,K]) -> (Y: V[M,N]) { Y[m,n] = sum(k) tf32(X[m,k]) * tf32(W[n,k]) }";

#define SHORT "STAGED=0,GROUP=1,RASTER=0,CLUSTER_M=1,EVEN=0,"
#define ONE   SHORT "BLOCK_M=64,STAGES=2,CONSUMERS=1,SCHEDULE=0,"
#define TWO   SHORT "STAGES=2,CONSUMERS=2,PERSISTENT=1,"

static const template_class classes[] = {
    /* Every pair of types. */
    {linear, "T=e4m3 U=e4m3 V=bf16 M=72 N=136 K=272", ONE "BLOCK_N=64"},
    {linear, "T=e4m3 U=e5m2 V=f32 M=72 N=75 K=144", ONE "BLOCK_N=96"},
    {linear, "T=e5m2 U=e4m3 V=f16 M=33 N=136 K=16", ONE "BLOCK_N=32"},
    {linear, "T=e5m2 U=e5m2 V=f32 M=72 N=72 K=400", ONE "BLOCK_N=128,PERSISTENT=0"},
    {whole, "T=i8 U=i8 M=72 N=75 K=144", ONE "BLOCK_N=96"},
    {whole, "T=i8 U=u8 M=72 N=80 K=400", TWO "BLOCK_M=128,BLOCK_N=64,SCHEDULE=0"},
    {whole, "T=u8 U=i8 M=72 N=80 K=400", TWO "BLOCK_M=64,BLOCK_N=64,SCHEDULE=1"},
    {whole, "T=u8 U=u8 M=150 N=80 K=400", TWO "BLOCK_M=128,BLOCK_N=64,SCHEDULE=0,STREAM_K=1"},
    {tf32, "V=f32 M=72 N=75 K=100", ONE "BLOCK_N=64"},
    {tf32, "V=bf16 M=72 N=80 K=100", ONE "BLOCK_K=128,BLOCK_N=96"},
    {tf32, "V=f32 M=150 N=80 K=100", TWO "BLOCK_M=64,BLOCK_N=64,SCHEDULE=1"},
    {tf32, "V=f32 M=150 N=80 K=132", TWO "BLOCK_M=128,BLOCK_N=64,SCHEDULE=0,CLUSTER_N=2"},
    /* Scales of tensors and rows, by every schedule. */
    {tensor, "T=e4m3 U=e4m3 V=bf16 M=72 N=136 K=272", TWO "BLOCK_M=128,BLOCK_N=96,SCHEDULE=0"},
    {tensor, "T=e4m3 U=e4m3 V=bf16 M=200 N=136 K=272", TWO "BLOCK_M=64,BLOCK_N=96,SCHEDULE=1"},
    {tensor, "T=e4m3 U=e4m3 V=bf16 M=200 N=136 K=1040", TWO "BLOCK_M=128,BLOCK_N=64,SCHEDULE=2"},
    {tensor, "T=e4m3 U=e5m2 V=bf16 M=200 N=136 K=528", TWO "BLOCK_M=128,BLOCK_N=64,SCHEDULE=0,STREAM_K=1"},
    {tensor, "T=e4m3 U=e4m3 V=bf16 M=72 N=328 K=144", TWO "BLOCK_M=128,BLOCK_N=256,SCHEDULE=0"},
    {rows, "T=e4m3 U=e4m3 V=bf16 M=200 N=136 K=272", TWO "BLOCK_M=256,BLOCK_N=64,SCHEDULE=0"},
    {rows, "T=e5m2 U=e4m3 V=bf16 M=72 N=136 K=272", TWO "BLOCK_M=128,BLOCK_N=64,SCHEDULE=0,SWAP=1"},
    {rows, "T=i8 U=i8 V=f32 M=72 N=75 K=272", TWO "BLOCK_M=64,BLOCK_N=64,SCHEDULE=1"},
    {rows, "T=i8 U=i8 V=bf16 M=72 N=136 K=272", TWO "BLOCK_M=128,BLOCK_N=64,SCHEDULE=2"},
    /* Scales of blocks of terms. */
    {blocks, "T=e4m3 U=e4m3 V=bf16 M=72 N=136 G=3 H=2", ONE "BLOCK_N=64"},
    {blocks, "T=e4m3 U=e4m3 V=f32 M=73 N=200 G=3 H=2", TWO "BLOCK_M=128,BLOCK_N=128,SCHEDULE=0"},
    {blocks, "T=e4m3 U=e5m2 V=bf16 M=150 N=328 G=1 H=3", TWO "BLOCK_M=128,BLOCK_N=256,SCHEDULE=0"},
    {blocks, "T=e5m2 U=e4m3 V=bf16 M=200 N=136 G=2 H=2", TWO "BLOCK_M=64,BLOCK_N=128,SCHEDULE=1"},
    {blocks, "T=e4m3 U=e4m3 V=bf16 M=200 N=136 G=5 H=2", TWO "BLOCK_M=128,BLOCK_N=64,SCHEDULE=2"},
    {blocks, "T=e4m3 U=e4m3 V=bf16 M=300 N=136 G=5 H=2", TWO "BLOCK_M=256,BLOCK_N=128,SCHEDULE=0,STREAM_K=1"},
    {blocks, "T=e4m3 U=e4m3 V=bf16 M=200 N=136 G=3 H=2",
     SHORT "BLOCK_M=64,BLOCK_N=64,STAGES=3,"
           "CONSUMERS=1,SCHEDULE=0,CLUSTER_N=2"},
    {blocks, "T=i8 U=i8 V=bf16 M=72 N=136 G=3 H=2", ONE "BLOCK_N=64"},
    /* Tiles that begin inside a block of columns. */
    {blocks, "T=e4m3 U=e4m3 V=bf16 M=72 N=600 G=2 H=5", ONE "BLOCK_N=192"},
    {blocks, "T=e4m3 U=e4m3 V=bf16 M=72 N=600 G=2 H=5", ONE "BLOCK_N=160"},
    {blocks, "T=e4m3 U=e4m3 V=f32 M=72 N=600 G=2 H=5", TWO "BLOCK_M=128,BLOCK_N=96,SCHEDULE=0"},
    {blocks, "T=e4m3 U=e4m3 V=bf16 M=72 N=600 G=2 H=5", TWO "BLOCK_M=128,BLOCK_N=224,SCHEDULE=0"},
    {column_blocks, "T=e4m3 U=e4m3 V=bf16 M=72 N=600 G=2 H=10", ONE "BLOCK_N=144"},
    /* Several parts, row tiles and both. */
    {blocks, "T=e4m3 U=e4m3 V=bf16 M=150 N=328 G=5 H=3", TWO "BLOCK_M=128,BLOCK_N=256,SCHEDULE=0"},
    {blocks, "T=e4m3 U=e4m3 V=bf16 M=300 N=200 G=5 H=2", TWO "BLOCK_M=256,BLOCK_N=96,SCHEDULE=0"},
    {blocks, "T=e4m3 U=e5m2 V=bf16 M=300 N=200 G=5 H=2", TWO "BLOCK_M=256,BLOCK_N=64,SCHEDULE=2"},
    {tensor, "T=e4m3 U=e5m2 V=bf16 M=200 N=400 K=272", TWO "BLOCK_M=128,BLOCK_N=192,SCHEDULE=0"},
    {rows, "T=e5m2 U=e5m2 V=bf16 M=100 N=400 K=16",
     SHORT "BLOCK_M=128,BLOCK_N=64,STAGES=4,CONSUMERS=2,SCHEDULE=0,PERSISTENT=0"},
    /* Blocks beyond H: their columns have no terms. */
    {blocks, "T=e4m3 U=e4m3 V=bf16 M=72 N=264 G=2 H=1", ONE "BLOCK_N=64"},
    {column_blocks, "T=e4m3 U=e4m3 V=bf16 M=72 N=136 G=3 H=3", ONE "BLOCK_N=64"},
    {column_blocks, "T=e4m3 U=e4m3 V=f32 M=72 N=135 G=3 H=3", TWO "BLOCK_M=128,BLOCK_N=128,SCHEDULE=0"},
    {rows_alone, "T=e4m3 U=e4m3 V=bf16 M=72 N=136 G=3", ONE "BLOCK_N=96"},
    {wide_blocks, "T=e4m3 U=e4m3 V=bf16 M=72 N=136 G=2", ONE "BLOCK_N=96"},
    {gated_blocks, "T=e4m3 U=e4m3 M=72 N=136 G=3 H=2", ONE "BLOCK_N=64"},
    {gated_blocks, "T=e4m3 U=e4m3 M=150 N=136 G=2 H=2", TWO "BLOCK_M=128,BLOCK_N=128,SCHEDULE=0"},
    {batched_blocks, "T=e4m3 U=e4m3 V=bf16 B=3 M=40 N=136 G=2 H=2", ONE "BLOCK_N=64"},
};

/* At its sizes and at those of a search without a GPU, with one lowering. */
START_TEST(classes_are_right) {
  arena a = ARENA_INIT;
  template_case c =
      template_case_bind(&a, gemm(), classes[_i].text, classes[_i].bindings, classes[_i].settings);
  template_case_run(&a, &c, NULL, 0);
  template_case_run_reduced(&a, &c);
  arena_release(&a);
}
END_TEST

START_TEST(others_are_refused) {
  /* The unit reads 8-bit elements and tf32 along contiguous terms alone, and f32 not at all. */
  template_refuses(gemm(), "f(X: T[M,K], W: T[K,N]) -> (Y: bf16[M,N]) { Y[m,n] = sum(k) X[m,k] * W[k,n] }",
                   "T=e4m3 M=64 N=64 K=64", TEMPLATE_DTYPE);
  template_refuses(gemm(), linear, "T=f32 U=f32 V=f32 M=64 N=64 K=64", TEMPLATE_DTYPE);
  template_refuses(gemm(), linear, "T=e4m3 U=bf16 V=f32 M=64 N=64 K=64", TEMPLATE_DTYPE);
  template_refuses(gemm(), linear, "T=i8 U=i8 V=f32 M=64 N=64 K=72", TEMPLATE_ALIGNMENT);
  /* Scales of single terms, and of columns. */
  template_refuses(
      gemm(),
      "f(X: T[M,K], W: T[N,K], s: f32[K]) -> (Y: bf16[M,N]) { Y[m,n] = sum(k) X[m,k] * s[k] * W[n,k] }",
      "T=e4m3 M=64 N=64 K=64", TEMPLATE_OPERATOR);
  template_refuses(
      gemm(),
      "f(X: T[M,128*G], W: T[N,128*G], s: f32[N,G]) -> (Y: bf16[M,N]) { Y[m,n] = sum(k) X[m,k] * "
      "(W[n,k] * s[n,k/128]) }",
      "T=e4m3 M=64 N=64 G=2", TEMPLATE_OPERATOR);
}
END_TEST

START_TEST(configurations_that_cannot_be_are_refused) {
  arena a = ARENA_INIT;
  static const struct {
    const char *text, *bindings, *settings;
    template_reason reason;
  } points[] = {
      {blocks, "T=e4m3 U=e4m3 V=bf16 M=4096 N=4096 G=32 H=32", "SWAP=1", TEMPLATE_OPERATOR},
      {blocks, "T=e4m3 U=e4m3 V=bf16 M=4096 N=4096 G=32 H=32", "EVEN=1,BLOCK_N=176", TEMPLATE_SCHEDULE},
      {blocks, "T=e4m3 U=e4m3 V=bf16 M=4096 N=4096 G=32 H=32", "BLOCK_K=128", TEMPLATE_TILE},
      {linear, "T=e4m3 U=e4m3 V=bf16 M=4096 N=4096 K=4096", "BLOCK_M=256,BLOCK_N=256", TEMPLATE_REGISTERS},
      {blocks, "T=e4m3 U=e4m3 V=bf16 M=4096 N=4096 G=32 H=32", "BLOCK_N=152", TEMPLATE_REGISTERS},
      {whole, "T=i8 U=i8 M=4096 N=4096 K=4096", "BLOCK_N=152,SCHEDULE=0", TEMPLATE_TILE},
      {whole, "T=i8 U=i8 M=4096 N=4096 K=4096", "BLOCK_N=176,SCHEDULE=0,EVEN=1", TEMPLATE_TILE},
  };
  for (size_t i = 0; i < COUNT_OF(points); i++) {
    arke_error err = ARKE_ERROR_INIT;
    template_case c = template_case_bind(&a, gemm(), points[i].text, points[i].bindings, "");
    config v;
    ck_assert_int_eq(config_parse(gemm()->space(c.t), points[i].settings, &c.c, &v, &err), ARKE_OK);
    ck_assert_msg(template_feasible(gemm(), &c.p, c.t, &v) == points[i].reason, "%s: %s", points[i].settings,
                  template_reason_text(template_feasible(gemm(), &c.p, c.t, &v)));
  }
  arena_release(&a);
}
END_TEST

static const struct {
  const char *text, *bindings, *settings;
} large[] = {
    {blocks, "T=e4m3 U=e4m3 V=bf16 M=4096 N=7168 G=128 H=56",
     "STAGED=0,BLOCK_M=128,BLOCK_N=256,STAGES=4,CONSUMERS=2,SCHEDULE=0,GROUP=8"},
    {blocks, "T=e4m3 U=e4m3 V=bf16 M=4096 N=7168 G=128 H=56",
     "STAGED=0,BLOCK_M=256,BLOCK_N=128,STAGES=4,CONSUMERS=2,SCHEDULE=0,GROUP=8"},
    {blocks, "T=e4m3 U=e4m3 V=bf16 M=4096 N=7168 G=128 H=56",
     "STAGED=0,BLOCK_M=128,BLOCK_N=256,STAGES=4,CONSUMERS=2,SCHEDULE=0,GROUP=8"},
    {blocks, "T=e4m3 U=e4m3 V=bf16 M=4096 N=7168 G=128 H=56",
     "STAGED=0,BLOCK_M=128,BLOCK_N=256,STAGES=4,CONSUMERS=2,SCHEDULE=0,GROUP=8"},
    {blocks, "T=e4m3 U=e4m3 V=bf16 M=4096 N=7168 G=128 H=56",
     "STAGED=0,BLOCK_M=128,BLOCK_N=192,STAGES=4,CONSUMERS=2,SCHEDULE=0,GROUP=8"},
    {blocks, "T=e4m3 U=e4m3 V=bf16 M=4096 N=7168 G=128 H=56",
     "STAGED=0,BLOCK_M=128,BLOCK_N=128,STAGES=5,CONSUMERS=2,SCHEDULE=1,GROUP=8"},
    {rows, "T=e4m3 U=e4m3 V=bf16 M=4096 N=4096 K=4096",
     "STAGED=0,BLOCK_M=128,BLOCK_N=256,STAGES=4,CONSUMERS=2,SCHEDULE=0,GROUP=8"},
    {tensor, "T=e4m3 U=e4m3 V=bf16 M=4096 N=4096 K=4096",
     "STAGED=0,BLOCK_M=128,BLOCK_N=192,STAGES=4,CONSUMERS=2,SCHEDULE=0,GROUP=8"},
    {gated_blocks, "T=e4m3 U=e4m3 M=4096 N=4096 G=32 H=32",
     "STAGED=0,BLOCK_M=128,BLOCK_N=128,STAGES=4,CONSUMERS=2,SCHEDULE=0,GROUP=8"},
    {whole, "T=i8 U=i8 M=4096 N=4096 K=4096",
     "STAGED=0,BLOCK_M=128,BLOCK_N=256,STAGES=4,CONSUMERS=2,SCHEDULE=0,GROUP=8"},
    {tf32, "V=f32 M=4096 N=4096 K=4096", "BLOCK_M=128,BLOCK_N=256,STAGES=4,CONSUMERS=2,SCHEDULE=0,GROUP=8"},
};

START_TEST(large_tiles_do_not_spill) {
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, gemm(), large[_i].text, large[_i].bindings, large[_i].settings);
  template_case_assemble(&a, &c);
  arena_release(&a);
}
END_TEST

/* Scales and elements that lie apart. */
START_TEST(views_are_right) {
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, gemm(), blocks, "T=e4m3 U=e4m3 V=bf16 M=72 N=136 G=3 H=2",
                                       TWO "BLOCK_M=128,BLOCK_N=128,SCHEDULE=0");
  static const struct {
    int dims[2]; /* the first varies fastest */
    int64_t padding;
  } order[] = {{{1, 0}, 16}, {{1, 0}, 32}, {{0, 1}, 3}, {{1, 0}, 5}, {{1, 0}, 8}};
  run_view views[COUNT_OF(order)] = {0};
  for (int i = 0; i < (int)COUNT_OF(order); i++)
    run_view_permuted(&c.p, i, order[i].dims, order[i].padding, &views[i]);
  template_case_run(&a, &c, views, 0);
  arena_release(&a);
}
END_TEST

START_TEST(missing_waits_are_found) {
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, gemm(), blocks, "T=e4m3 U=e4m3 V=bf16 M=200 N=136 G=3 H=2",
                                       TWO "BLOCK_M=128,BLOCK_N=128,SCHEDULE=0");
  template_case_miss(&a, &c, "wgmma.wait_group.sync.aligned 0");
  template_case_miss(&a, &c, "wgmma.fence.sync.aligned");
  template_case_miss(&a, &c, "wgmma.commit_group.sync.aligned");
  template_case_miss(&a, &c, "griddepcontrol.wait");
  arena_release(&a);
}
END_TEST

/* What is called feasible can be lowered, by the way that a search compiles: every tile width with half of
 * the operators, and some of all else. */
START_TEST(feasible_points_are_lowered) {
  static const struct {
    const char *text, *bindings;
  } ops[] = {{blocks, "T=e4m3 U=e4m3 V=bf16 M=4096 N=7168 G=16 H=56"},
             {gated_blocks, "T=e4m3 U=e4m3 M=4096 N=4096 G=32 H=32"},
             {column_blocks, "T=e4m3 U=e5m2 V=f32 M=4096 N=4096 G=32 H=64"},
             {tensor, "T=e4m3 U=e4m3 V=bf16 M=4096 N=4096 K=4096"},
             {whole, "T=i8 U=i8 M=4096 N=4096 K=4096"},
             {rows, "T=i8 U=i8 V=bf16 M=4096 N=4096 K=4096"},
             {blocks, "T=i8 U=i8 V=bf16 M=4096 N=7168 G=16 H=56"},
             {tf32, "V=f32 M=4096 N=4096 K=4096"}};
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, gemm(), ops[_i].text, ops[_i].bindings, "");
  const space *all = gemm()->space(c.t);
  int width = 0, lowered_points = 0;
  while (strcmp(all->params[width].name, "BLOCK_N") != 0) width++;
  c.first_way = true;
  for (int w = _i % 2; w < all->params[width].n_values; w += 2) {
    for (uint64_t tries = 0, found = 0; tries < 6000 && found < 1; tries++) {
      space_point(all, (int64_t)(random_u64((uint64_t)(_i * 100 + w), tries) % (uint64_t)space_size(all)),
                  &c.c);
      c.c.values[width] = all->params[width].values[w];
      if (template_feasible(gemm(), &c.p, c.t, &c.c) != TEMPLATE_OK) continue;
      template_case_lower(&a, &c);
      found++;
      lowered_points++;
    }
  }
  ck_assert_int_gt(lowered_points, 1); /* of a gated pair few widths fit */
  arena_release(&a);
}
END_TEST

START_TEST(out_of_memory_is_reported) {
  arena a = ARENA_INIT;
  template_case c =
      template_case_bind(&a, gemm(), blocks, "T=e4m3 U=e4m3 V=bf16 M=40 N=72 G=2 H=1", ONE "BLOCK_N=32");
  template_case_fail_allocations(&c);
  arena_release(&a);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("gemm of other types");
  TCase *tests = tcase_create("classes"), *others = tcase_create("others");
  tcase_set_timeout(tests, 120);
  tcase_set_timeout(others, 120);
  tcase_add_loop_test(tests, classes_are_right, 0, (int)COUNT_OF(classes));
  tcase_add_test(others, others_are_refused);
  tcase_add_test(others, configurations_that_cannot_be_are_refused);
  tcase_add_loop_test(others, large_tiles_do_not_spill, 0, (int)COUNT_OF(large));
  tcase_add_test(others, views_are_right);
  tcase_add_loop_test(others, feasible_points_are_lowered, 0, 8);
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
