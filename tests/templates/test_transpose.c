/* Transposes: what fits, every class of configuration on the emulator, views, and planted faults. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "template_cases.h"

static const kernel_template *transpose(void) {
  return template_find("transpose");
}

static const char plain[] = "t(X: T[M,N]) -> (Y: T[N,M]) { Y[j,i] = X[i,j] }";
static const char batched[] = "t(X: T[B,M,N]) -> (Y: T[B,N,M]) { Y[b,j,i] = X[b,i,j] }";
static const char fused[] =
    "t(X: T[M,N], Z: T[N,M], w: f32[N]) -> (Y: T[N,M]) { Y[j,i] = max(X[i,j], 0) * Z[j,i] + w[j] }";
static const char to_last[] = "t(X: T[A,H,W,C]) -> (Y: T[A,C,H,W]) { Y[a,c,h,w] = X[a,h,w,c] }";
static const char shuffle[] = "t(X: T[A,B,C,D]) -> (Y: T[D,B,A,C]) { Y[d,b,a,c] = X[a,b,c,d] }";
static const char narrows[] = "t(X: f32[M,N]) -> (Y: bf16[N,M]) { Y[j,i] = cast<bf16>(X[i,j]) }";
static const char copied[] = "copy_t(D: T[N,M], X: T[M,N]) -> (D) { D[j,i] = X[i,j] }";
static const char both[] =
    "t(X: T[M,N], Z: f32[M,N]) -> (Y: T[N,M], V: f32[N,M]) { Y[j,i] = X[i,j] + Z[i,j]; V[j,i] = 2 * Z[i,j] }";
static const char around[] = "t(X: T[A,B,C,D]) -> (Y: T[C,D,A,B]) { Y[c,d,a,b] = X[a,b,c,d] }";
static const char fixed[] = "t(X: T[M,24]) -> (Y: T[24,M]) { Y[j,i] = X[i,j] }";

static const char sum[] = "t(X: T[M,N], Z: T[M,N]) -> (Y: T[N,M]) { Y[j,i] = X[i,j] + Z[i,j] }";
static const char halves[] = "t(X: T[M,2*N]) -> (Y: T[N,M]) { Y[j,i] = silu(X[i,j]) * X[i,j+N] }";

static const template_class classes[] = {
    {plain, "T=bf16 M=256 N=264", ""},
    {plain, "T=f32 M=100 N=68", "TILE_X=32,TILE_Y=32"},
    {plain, "T=f32 M=100 N=68", "TILE_X=64,TILE_Y=16,RASTER=0,PERSISTENT=1"},
    {plain, "T=bf16 M=72 N=104", "TILE_X=64,TILE_Y=64,PERSISTENT=1"},
    {plain, "T=f16 M=72 N=104", "TILE_X=32,TILE_Y=128,RASTER=0"},
    {plain, "T=bf16 M=264 N=200", "TILE_X=64,TILE_Y=64,THREADS=256,PERSISTENT=2"},
    {plain, "T=bf16 M=72 N=328", "TILE_X=64,TILE_Y=128,THREADS=256,RASTER=0,PERSISTENT=2"},
    {plain, "T=bf16 M=71 N=263", "TILE_X=32,TILE_Y=32,PERSISTENT=2"},
    {plain, "T=f64 M=50 N=38", "TILE_X=16,TILE_Y=16,THREADS=128,VECTOR=4,PERSISTENT=2"},
    {plain, "T=i8 M=50 N=36", "TILE_X=32,TILE_Y=32,THREADS=128,VECTOR=4,PERSISTENT=2"},
    {plain, "T=i8 M=50 N=38", "TILE_X=32,TILE_Y=32,THREADS=256,VECTOR=4,PERSISTENT=2"},
    {shuffle, "T=bf16 A=3 B=2 C=24 D=40", "TILE_X=16,TILE_Y=16,THREADS=128,VECTOR=4,PERSISTENT=2"},
    {fused, "T=f32 M=71 N=36", "TILE_X=16,TILE_Y=16,THREADS=256,VECTOR=4,PERSISTENT=2"},
    {plain, "T=bf16 M=71 N=104", "TILE_X=64,TILE_Y=64"},
    {plain, "T=bf16 M=72 N=103", "TILE_X=64,TILE_Y=64"},
    {plain, "T=bf16 M=71 N=103", "TILE_X=64,TILE_Y=64"},
    {plain, "T=bf16 M=70 N=102", "TILE_X=128,TILE_Y=32"},
    {plain, "T=bf16 M=131 N=197", "TILE_X=64,TILE_Y=64,THREADS=256"},
    {plain, "T=f32 M=131 N=129", "TILE_X=64,TILE_Y=64,THREADS=256,RASTER=0"},
    {fused, "T=bf16 M=129 N=67", "TILE_X=64,TILE_Y=32,THREADS=128"},
    {plain, "T=i8 M=17 N=262201", "TILE_X=16,TILE_Y=8,THREADS=128,VECTOR=4,RASTER=0"},
    {plain, "T=f64 M=50 N=38", "TILE_X=32,TILE_Y=32"},
    {plain, "T=f64 M=51 N=37", "TILE_X=16,TILE_Y=64"},
    {plain, "T=i64 M=50 N=38", "TILE_X=64,TILE_Y=16,PERSISTENT=1"},
    {plain, "T=i8 M=144 N=160", "TILE_X=128,TILE_Y=128"},
    {plain, "T=u8 M=145 N=161", "TILE_X=64,TILE_Y=128"},
    {plain, "T=bool M=145 N=160", "TILE_X=64,TILE_Y=64"},
    {plain, "T=i32 M=52 N=36", "VECTOR=8"},
    {plain, "T=e4m3 M=144 N=160", "VECTOR=4"},
    {around, "T=f32 A=5 B=1 C=40 D=1", ""},
    {around, "T=bf16 A=1 B=72 C=1 D=40", "TILE_X=64,TILE_Y=64"},
    {batched, "T=f32 B=1 M=36 N=40", ""},
    {plain, "T=bf16 M=3 N=520", ""},
    {plain, "T=bf16 M=520 N=3", ""},
    {plain, "T=bf16 M=520 N=8", "TILE_X=256,TILE_Y=8"},
    {plain, "T=bf16 M=8 N=520", "TILE_X=8,TILE_Y=256"},
    {plain, "T=f32 M=8 N=520", "TILE_X=8,TILE_Y=256,THREADS=512"},
    {plain, "T=f32 M=520 N=8", "TILE_X=256,TILE_Y=8,THREADS=512"},
    {batched, "T=bf16 B=5 M=40 N=72", ""},
    {batched, "T=f32 B=70000 M=2 N=3", "TILE_X=8,TILE_Y=16,THREADS=128,VECTOR=4"},
    {fused, "T=bf16 M=72 N=104", ""},
    {fused, "T=f32 M=71 N=36", "RASTER=0,PERSISTENT=1"},
    {to_last, "T=f16 A=2 H=6 W=12 C=40", ""},
    {to_last, "T=f32 A=2 H=5 W=7 C=3", ""},
    {shuffle, "T=bf16 A=3 B=2 C=24 D=40", ""},
    {narrows, "M=72 N=104", ""},
    {copied, "T=bf16 M=72 N=104", ""},
    {both, "T=bf16 M=72 N=40", ""},
    {fixed, "T=bf16 M=72", ""},
    /* rows that begin anywhere, in aligned words: whole tiles, ragged ones, less than a tile, and tensors
     * that end within a word */
    {plain, "T=bf16 M=203 N=263", "TILE_X=64,TILE_Y=64,VECTOR=4,SHIFT=1"},
    {plain, "T=bf16 M=201 N=201", "TILE_X=64,TILE_Y=64,VECTOR=8,SHIFT=1,RASTER=0"},
    {plain, "T=f16 M=213 N=203", "TILE_X=64,TILE_Y=128,VECTOR=16,SHIFT=1,RASTER=0"},
    {plain, "T=bf16 M=3 N=5", "TILE_X=16,TILE_Y=64,VECTOR=16,THREADS=128,SHIFT=1"},
    {plain, "T=bf16 M=130 N=67", "TILE_X=128,TILE_Y=64,VECTOR=16,SHIFT=1"},
    {plain, "T=i8 M=99 N=1001", "TILE_X=32,TILE_Y=64,VECTOR=16,THREADS=128,SHIFT=1"},
    {plain, "T=e4m3 M=205 N=143", "TILE_X=128,TILE_Y=32,VECTOR=4,SHIFT=1"},
    {plain, "T=bool M=67 N=71", "TILE_X=64,TILE_Y=64,VECTOR=8,SHIFT=1"},
    {plain, "T=f32 M=103 N=77", "TILE_X=64,TILE_Y=32,VECTOR=8,SHIFT=1"},
    {plain, "T=f32 M=77 N=131", "TILE_X=32,TILE_Y=64,VECTOR=16,SHIFT=1"},
    {plain, "T=f64 M=41 N=67", "TILE_X=32,TILE_Y=32,VECTOR=16,SHIFT=1"},
    {plain, "T=f16 M=66 N=130", "TILE_X=32,TILE_Y=32,VECTOR=16,THREADS=128,SHIFT=1"},
    {batched, "T=bf16 B=3 M=71 N=103", "TILE_X=32,TILE_Y=64,VECTOR=8,SHIFT=1"},
    {batched, "T=i8 B=5 M=7 N=9", "TILE_X=16,TILE_Y=128,VECTOR=16,THREADS=128,SHIFT=1"},
    {fused, "T=bf16 M=129 N=67", "TILE_X=64,TILE_Y=32,VECTOR=16,THREADS=128,SHIFT=1"},
    {shuffle, "T=bf16 A=3 B=2 C=23 D=41", "TILE_X=16,TILE_Y=16,VECTOR=4,THREADS=128,SHIFT=1"},
    {sum, "T=f16 M=101 N=67", "TILE_X=64,TILE_Y=32,VECTOR=8,SHIFT=1"},
    {halves, "T=bf16 M=101 N=67", "TILE_X=64,TILE_Y=64,VECTOR=16,SHIFT=1"},
    {copied, "T=bf16 M=71 N=103", "TILE_X=64,TILE_Y=64,VECTOR=16,SHIFT=1"},
    /* whole tiles alone */
    {plain, "T=bf16 M=128 N=192", "TILE_X=64,TILE_Y=64"},
    {plain, "T=f32 M=64 N=96", "TILE_X=32,TILE_Y=32,RASTER=0,PERSISTENT=1"},
    {plain, "T=bf16 M=256 N=192", "TILE_X=64,TILE_Y=64,PERSISTENT=2,THREADS=256"},
    {batched, "T=bf16 B=3 M=64 N=128", "TILE_X=64,TILE_Y=64"},
    {fused, "T=bf16 M=128 N=64", "TILE_X=64,TILE_Y=64"},
};

START_TEST(classes_are_right_and_assemble) {
  template_class_check(transpose(), &classes[_i], 0);
}
END_TEST

/* Any strides, by a way that takes them. */
START_TEST(views_are_right) {
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, transpose(), fused, "T=bf16 M=72 N=104", "");
  run_view views[4] = {{0}};
  run_view_permuted(&c.p, 0, (int[]){1, 0}, 8, &views[0]); /* rows apart, still aligned */
  run_view_permuted(&c.p, 3, (int[]){1, 0}, 16, &views[3]);
  template_case_run(&a, &c, views, 1);
  run_view_permuted(&c.p, 0, (int[]){1, 0}, 3, &views[0]); /* not aligned */
  template_case_run(&a, &c, views, 2);
  run_view_permuted(&c.p, 0, (int[]){0, 1}, 5, &views[0]); /* columns are contiguous */
  run_view_permuted(&c.p, 3, (int[]){0, 1}, 1, &views[3]);
  template_case_run(&a, &c, views, 2);
  views[1] = (run_view){.strided = true, .stride = {1, 0}}; /* broadcast */
  template_case_run(&a, &c, views, 2);
  run_view shifted[4] = {{.offset = 1}, {0}, {0}, {.offset = 3}};
  template_case_run(&a, &c, shifted, 2);
  arena_release(&a);
}
END_TEST

/* Rows that begin anywhere: words are aligned where the tensors are; other views have ways without. */
START_TEST(shifted_rows_are_aligned_in_memory) {
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, transpose(), plain, "T=bf16 M=71 N=103",
                                       "TILE_X=32,TILE_Y=32,VECTOR=16,THREADS=128,SHIFT=1");
  template_case_run(&a, &c, NULL, 0);
  run_view read[2] = {{.offset = 8}}, written[2] = {{0}, {.offset = 3}}, apart[2] = {{0}};
  template_case_run(&a, &c, read, 0);
  read[0].offset = 4;
  template_case_run(&a, &c, read, 1);
  template_case_run(&a, &c, written, 1);
  run_view_permuted(&c.p, 0, (int[]){1, 0}, 3, &apart[0]);
  template_case_run(&a, &c, apart, 2);
  arena_release(&a);
}
END_TEST

/* What cannot be shifted: elements that are one as wide as another, places that are no sums, two outputs,
 * words of one element; and where there is nothing to shift. */
START_TEST(what_is_not_shifted_is_refused) {
  static const struct {
    const char *text, *bindings, *settings;
    template_reason reason;
  } others[] = {
      {narrows, "M=71 N=103", "SHIFT=1", TEMPLATE_SCHEDULE},
      {both, "T=f32 M=71 N=103", "SHIFT=1", TEMPLATE_SCHEDULE},
      {plain, "T=bf16 M=71 N=103", "SHIFT=1,PERSISTENT=1", TEMPLATE_SCHEDULE},
      {plain, "T=f32 M=71 N=103", "SHIFT=1,VECTOR=4", TEMPLATE_TILE},
      {plain, "T=i8 M=71 N=103", "SHIFT=1,VECTOR=16,TILE_X=8", TEMPLATE_TILE},
      {"t(X: T[M,N]) -> (Y: T[N,M]) { Y[j,i] = X[M-1-i,j] }", "T=bf16 M=71 N=103", "SHIFT=1",
       TEMPLATE_SCHEDULE},
      {plain, "T=bf16 M=72 N=104", "SHIFT=1,VECTOR=16", TEMPLATE_REDUNDANT},
      {plain, "T=bf16 M=72 N=103", "SHIFT=1,VECTOR=16", TEMPLATE_OK},
  };
  arena a = ARENA_INIT;
  for (size_t i = 0; i < COUNT_OF(others); i++) {
    template_case c = template_case_bind(&a, transpose(), others[i].text, others[i].bindings, "");
    config shifted;
    ck_assert_int_eq(config_parse(transpose()->space(c.t), others[i].settings, &c.c, &shifted, NULL),
                     ARKE_OK);
    ck_assert_int_eq(template_feasible(transpose(), &c.p, c.t, &shifted), others[i].reason);
  }
  arena_release(&a);
}
END_TEST

/* What only moves is not converted: NaNs keep their payload. */
START_TEST(elements_move_as_bits) {
  static const char *const types[] = {"T=bf16 M=64 N=64", "T=f16 M=64 N=64", "T=e5m2 M=64 N=64",
                                      "T=bool M=64 N=64"};
  arena a = ARENA_INIT;
  for (size_t i = 0; i < COUNT_OF(types); i++) {
    template_case c = template_case_bind(&a, transpose(), plain, types[i], "");
    lowered l = template_case_lower(&a, &c);
    ck_assert_ptr_null(strstr(l.ptx, "cvt.rn"));
    ck_assert_ptr_null(strstr(l.ptx, "cvt.f32"));
  }
  arena_release(&a);
}
END_TEST

/* Offsets past 2^31 elements: the kernel for the large problem is right on a small one of its kind. */
START_TEST(large_tensors_have_wide_offsets) {
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, transpose(), batched, "T=bf16 B=3 M=65536 N=65536", "");
  template_case small = c;
  transpose()->reduced_problem(&c.p, c.t, &c.c, 2, &small.p);
  template_case_run_kernel(&small, template_case_lower(&a, &c), NULL, 0); /* it has whole tiles, too */
  arena_release(&a);
}
END_TEST

/* A kernel for whole tiles leaves others to the next way. */
START_TEST(whole_tiles_are_required) {
  arena a = ARENA_INIT;
  const char *settings = "TILE_X=64,TILE_Y=32";
  template_case even = template_case_bind(&a, transpose(), plain, "T=bf16 M=128 N=192", settings);
  template_case more = template_case_bind(&a, transpose(), plain, "T=bf16 M=192 N=96", settings);
  template_case wide = template_case_bind(&a, transpose(), plain, "T=bf16 M=136 N=192", settings);
  template_case high = template_case_bind(&a, transpose(), plain, "T=bf16 M=128 N=200", settings);
  lowered l = template_case_lower(&a, &even);
  template_case_run_kernel(&more, l, NULL, 0);
  template_case_run_kernel(&wide, l, NULL, 1);
  template_case_run_kernel(&high, l, NULL, 1);
  arena_release(&a);
}
END_TEST

/* A kernel made where an axis has one element leaves others to the ways for any tensor. */
START_TEST(axes_of_one_element_are_required) {
  arena a = ARENA_INIT;
  template_case one = template_case_bind(&a, transpose(), around, "T=bf16 A=16 B=1 C=40 D=1", "");
  template_case same = template_case_bind(&a, transpose(), around, "T=bf16 A=24 B=1 C=72 D=1", "");
  template_case two = template_case_bind(&a, transpose(), around, "T=bf16 A=16 B=2 C=40 D=1", "");
  lowered l = template_case_lower(&a, &one);
  template_case_run_kernel(&same, l, NULL, 0);
  template_case_run_kernel(&two, l, NULL, 2);
  arena_release(&a);
}
END_TEST

START_TEST(what_is_no_transpose_is_refused) {
  static const template_refusal others[] = {
      {"m(X: T[M,N]) -> (Y: T[M,N]) { Y[i,j] = X[i,j] }", "T=f32 M=8 N=8", TEMPLATE_OPERATOR},
      {"m(X: T[A,B,C]) -> (Y: T[B,A,C]) { Y[b,a,c] = X[a,b,c] }", "T=f32 A=8 B=8 C=8", TEMPLATE_OPERATOR},
      {"m(X: T[M]) -> (Y: T[N,M]) { Y[j,i] = X[i] }", "T=f32 M=8 N=8", TEMPLATE_OPERATOR},
      {"m(X: T[N]) -> (Y: T[N,M]) { Y[j,i] = X[j] }", "T=f32 M=8 N=8", TEMPLATE_OPERATOR},
      {"m(X: T[M,N]) -> (Y: T[N]) { Y[j] = sum(i) X[i,j] }", "T=f32 M=8 N=8", TEMPLATE_OPERATOR},
      {"m(X: T[N,M], k: i64[N]) -> (Y: T[M,N]) { Y[i,j] = 0; Y[i,k[j]] = X[j,i] }", "T=f32 M=8 N=8",
       TEMPLATE_OPERATOR},
      {"m(D: T[N,N]) -> (D) { D[i,j] = D[j,i] }", "T=f32 N=8", TEMPLATE_OPERATOR},
      {plain, "T=f32 M=1 N=8", TEMPLATE_OPERATOR}, /* a copy */
      {plain, "T=f32 M=8 N=1", TEMPLATE_OPERATOR},
      {plain, "T=f32 M=0 N=8", TEMPLATE_SIZE},
      {plain, "T=i4 M=8 N=8", TEMPLATE_DTYPE},
  };
  template_refuses_each(transpose(), others, COUNT_OF(others));
}
END_TEST

/* Without the barrier an element is read before it is there; without the wait, before the launch that makes
 * it has ended. */
START_TEST(missing_waits_are_found) {
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, transpose(), plain, "T=bf16 M=72 N=104", "PERSISTENT=1");
  template_case_miss(&a, &c, "bar");
  template_case_miss(&a, &c, "griddepcontrol.wait");
  arena_release(&a);
}
END_TEST

START_TEST(out_of_memory_is_reported) {
  template_class_fail_allocations(transpose(), &(template_class){fused, "T=bf16 M=72 N=104", ""});
}
END_TEST

/* The model prefers tiles whose rows fill lines, and its default to none of them by much. */
START_TEST(wide_rows_cost_less) {
  arena a = ARENA_INIT;
  const char *problem = "T=bf16 M=8192 N=8192";
  template_case good = template_case_bind(&a, transpose(), plain, problem, "");
  template_case narrow = template_case_bind(&a, transpose(), plain, problem, "TILE_X=8,TILE_Y=256");
  template_case small = template_case_bind(&a, transpose(), plain, problem, "VECTOR=4");
  double best = template_cost_ns(transpose(), &good.p, good.t, &good.t->rates, &good.c);
  ck_assert(best < template_cost_ns(transpose(), &good.p, good.t, &good.t->rates, &narrow.c));
  ck_assert(best <= template_cost_ns(transpose(), &good.p, good.t, &good.t->rates, &small.c));
  arena_release(&a);
}
END_TEST

int main(void) {
  TCase *tests = template_tests("transpose");
  tcase_add_loop_test(tests, classes_are_right_and_assemble, 0, (int)COUNT_OF(classes));
  tcase_add_test(tests, views_are_right);
  tcase_add_test(tests, shifted_rows_are_aligned_in_memory);
  tcase_add_test(tests, what_is_not_shifted_is_refused);
  tcase_add_test(tests, elements_move_as_bits);
  tcase_add_test(tests, large_tensors_have_wide_offsets);
  tcase_add_test(tests, whole_tiles_are_required);
  tcase_add_test(tests, axes_of_one_element_are_required);
  tcase_add_test(tests, what_is_no_transpose_is_refused);
  tcase_add_test(tests, missing_waits_are_found);
  tcase_add_test(tests, out_of_memory_is_reported);
  tcase_add_test(tests, wide_rows_cost_less);
  return template_tests_run("transpose", tests);
}
