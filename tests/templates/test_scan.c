/* Prefix reductions: what fits, every class of configuration on the emulator, sizes and dtypes, special
 * values, views, chunks that wait for one another, and planted faults. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "template_cases.h"

static const kernel_template *scan(void) {
  return template_find("scan");
}

static const char cumsum[] = "c(X: T[M,N]) -> (Y: T[M,N]) { Y[i,j] = sum(t: t <= j) X[i,t] }";
static const char exclusive[] = "c(X: T[M,N]) -> (Y: T[M,N]) { Y[i,j] = sum(t: t < j) X[i,t] }";
static const char suffix[] = "c(X: T[M,N]) -> (Y: T[M,N]) { Y[i,j] = sum(t: j <= t) X[i,t] }";
static const char after[] = "c(X: T[M,N]) -> (Y: T[M,N]) { Y[i,j] = max(t: t > j) X[i,t] }";
static const char most[] = "c(X: T[M,N]) -> (Y: T[M,N]) { Y[i,j] = max(t: t <= j) X[i,t] }";
static const char least[] = "c(X: T[M,N]) -> (Y: T[M,N]) { Y[i,j] = min(t: t <= j) X[i,t] }";
static const char product[] = "c(X: T[M,N]) -> (Y: T[M,N]) { Y[i,j] = prod(t: t <= j) X[i,t] * 1.25 }";
static const char fused[] = "c(X: T[M,N], W: T[N], b: T[M]) -> (Y: T[M,N]) scale: float = 0.5 {"
                            " Y[i,j] = scale * X[i,j] + b[i] * (sum(t: t < j) X[i,t] * W[t]) / (j + 1) }";
static const char two[] =
    "c(X: T[M,N]) -> (Y: T[M,N], Z: f32[M,N]) {"
    " Y[i,j] = max(t: t <= j) X[i,t]; Z[i,j] = (sum(t: t <= j) X[i,t]) - (sum(u: u < j) abs(X[i,u])) }";
static const char count[] = "c(X: T[M,N]) -> (Y: i64[M,N]) { Y[i,j] = sum(t: t <= j) cast<i64>(X[i,t] > 0) }";
static const char ones[] = "c(X: T[N]) -> (Y: T[N]) { Y[j] = X[j] * (sum(t: t <= j) 1) }";
static const char widen[] = "c(X: i8[M,N]) -> (Y: i32[M,N]) { Y[i,j] = sum(t: t <= j) X[i,t] }";
static const char flat[] = "c(X: T[N]) -> (Y: T[N]) { Y[j] = sum(t: t <= j) X[t] }";
static const char in_place[] = "c(X: T[M,N]) -> (X) { X[i,j] = sum(t: t <= j) X[i,t] }";
static const char leading[] = "c(X: T[...,N]) -> (Y: T[...,N]) { Y[...,j] = sum(t: t <= j) X[...,t] }";
static const char deep[] = "c(X: T[A,B,C,N]) -> (Y: T[B,A,C,N]) { Y[b,a,c,j] = sum(t: t <= j) X[a,b,c,t] }";
static const char columns[] = "c(X: T[M,N]) -> (Y: T[M,N]) { Y[i,j] = sum(t: t <= i) X[t,j] }";
static const char columns_up[] =
    "c(X: T[A,M,N], w: T[N]) -> (Y: T[A,M,N]) { Y[a,i,j] = w[j] * (max(t: t >= i) X[a,t,j]) + X[a,i,j] }";
static const char columns_before[] =
    "c(X: T[M,N], v: T[M]) -> (Y: T[M,N], Z: T[M,N]) {"
    " Y[i,j] = sum(t: t < i) X[t,j]; Z[i,j] = X[i,j] + (sum(t: t <= i) v[t]) }";
static const char transposed[] = "c(X: T[N,M]) -> (Y: T[M,N]) { Y[i,j] = sum(t: t <= j) X[t,i] }";

#define WARP  "PLACE=0"
#define CTA   "PLACE=1"
#define CHUNK "PLACE=2"
#define AHEAD "PLACE=3"

static const template_class classes[] = {
    {cumsum, "T=f32 M=5 N=1024", ""},
    {cumsum, "T=f32 M=5 N=1000", WARP ",THREADS=32,VECTOR=1,STRIPS=1"},
    {cumsum, "T=f32 M=17 N=1000", WARP ",THREADS=128,VECTOR=4,STRIPS=2"},
    {cumsum, "T=bf16 M=5 N=2056", WARP ",THREADS=64,VECTOR=8,STRIPS=4"},
    {cumsum, "T=f32 M=5 N=1000", CTA ",THREADS=64,VECTOR=2,STRIPS=1"},
    {cumsum, "T=bf16 M=3 N=4104", CTA ",THREADS=128,VECTOR=8,STRIPS=2"},
    {cumsum, "T=f16 M=2 N=9001", CTA ",THREADS=1024,VECTOR=1,STRIPS=8"},
    {cumsum, "T=f32 M=2 N=9000", CTA ",THREADS=512,VECTOR=4,STRIPS=4"},
    {cumsum, "T=f32 M=1 N=5000", CHUNK ",THREADS=32,VECTOR=1,STRIPS=1"},
    {cumsum, "T=f32 M=2 N=9000", CHUNK ",THREADS=32,VECTOR=1,STRIPS=2"},
    {cumsum, "T=bf16 M=3 N=4104", CHUNK ",THREADS=128,VECTOR=8,STRIPS=1"},
    {cumsum, "T=f64 M=2 N=3000", CHUNK ",THREADS=64,VECTOR=2,STRIPS=2"},
    {cumsum, "T=i64 M=2 N=5000", CHUNK ",THREADS=32,VECTOR=1,STRIPS=1"},
    {cumsum, "T=i32 M=2 N=3000", CHUNK ",THREADS=64,VECTOR=4,STRIPS=2"},
    {cumsum, "T=f32 M=1 N=40000", ""},
    {cumsum, "T=bf16 M=1 N=40000", CHUNK},
    {cumsum, "T=f64 M=3 N=1024", ""},
    {cumsum, "T=i32 M=3 N=1023", ""},
    {cumsum, "T=i64 M=3 N=130", WARP},
    {exclusive, "T=f32 M=3 N=1026", CTA ",THREADS=64,VECTOR=2,STRIPS=2"},
    {exclusive, "T=f16 M=3 N=1026", CHUNK ",THREADS=64,VECTOR=2,STRIPS=2"},
    {exclusive, "T=bf16 M=9 N=77", WARP},
    {suffix, "T=f32 M=3 N=1030", CTA ",THREADS=64,VECTOR=2,STRIPS=2"},
    {suffix, "T=f32 M=3 N=1030", CHUNK ",THREADS=64,VECTOR=2,STRIPS=2"},
    {suffix, "T=bf16 M=9 N=808", WARP ",VECTOR=8,STRIPS=2"},
    {after, "T=f32 M=3 N=1030", CTA ",THREADS=64,VECTOR=2,STRIPS=2"},
    {after, "T=i32 M=3 N=5000", CHUNK ",THREADS=32,VECTOR=1,STRIPS=1"},
    {most, "T=f32 M=3 N=1030", CHUNK ",THREADS=64,VECTOR=1,STRIPS=2"},
    {least, "T=f64 M=3 N=1030", CTA ",THREADS=64,VECTOR=2,STRIPS=1"},
    {product, "T=f32 M=3 N=40", WARP},
    {product, "T=f32 M=3 N=140", CHUNK ",THREADS=64,VECTOR=1,STRIPS=1"},
    {fused, "T=bf16 M=5 N=520", CTA ",THREADS=64,VECTOR=8,STRIPS=1"},
    {fused, "T=f32 M=5 N=520", CHUNK ",THREADS=64,VECTOR=4,STRIPS=1"},
    {two, "T=bf16 M=5 N=520", CTA ",THREADS=64,VECTOR=4,STRIPS=1"},
    {two, "T=f32 M=5 N=520", CHUNK ",THREADS=64,VECTOR=2,STRIPS=2"},
    {count, "T=f32 M=5 N=520", CHUNK ",THREADS=64,VECTOR=2,STRIPS=2"},
    {ones, "T=f32 N=300", ""},
    {widen, "M=5 N=640", CTA ",VECTOR=4"},
    {flat, "T=f32 N=4097", ""},
    {in_place, "T=f32 M=3 N=1000", CTA ",THREADS=64,VECTOR=4,STRIPS=2"},
    {in_place, "T=f32 M=3 N=1000", CHUNK ",THREADS=64,VECTOR=4,STRIPS=1"},
    {leading, "T=bf16 ...=3x2 N=264", ""},
    {deep, "T=f32 A=3 B=2 C=5 N=96", ""},
    {cumsum, "T=f32 M=9 N=1000", AHEAD ",THREADS=256,VECTOR=4,STRIPS=1,STAGES=3"},
    {cumsum, "T=bf16 M=40 N=2056", AHEAD ",THREADS=256,VECTOR=8,STRIPS=2,STAGES=2"},
    {cumsum, "T=f16 M=1 N=520", AHEAD ",THREADS=128,VECTOR=8,STRIPS=1,STAGES=4"},
    {cumsum, "T=i64 M=20 N=130", AHEAD ",THREADS=128,VECTOR=2,STRIPS=1,STAGES=2"},
    {suffix, "T=f32 M=20 N=1028", AHEAD ",THREADS=512,VECTOR=4,STRIPS=1,STAGES=2"},
    {fused, "T=bf16 M=20 N=520", AHEAD ",THREADS=128,VECTOR=8,STRIPS=1,STAGES=3"},
    {two, "T=f32 M=20 N=520", AHEAD ",THREADS=256,VECTOR=2,STRIPS=2,STAGES=2"},
    {in_place, "T=f32 M=20 N=1000", AHEAD ",THREADS=256,VECTOR=4,STRIPS=1,STAGES=2"},
    {leading, "T=bf16 ...=3x7 N=264", AHEAD ",THREADS=64,VECTOR=8,STRIPS=1,STAGES=2"},
    {columns, "T=f32 M=200 N=132", ""},
    {columns, "T=bf16 M=77 N=520", "THREADS=128,VECTOR=8,STRIPS=2"},
    {columns, "T=f32 M=77 N=33", "THREADS=32,VECTOR=1,STRIPS=4"},
    {columns, "T=f64 M=300 N=34", "THREADS=512,VECTOR=2,STRIPS=1"},
    {columns, "T=i32 M=300 N=3", "THREADS=1024,VECTOR=1,STRIPS=8"},
    {columns_up, "T=f32 A=3 M=77 N=140", "THREADS=64,VECTOR=4,STRIPS=2"},
    {columns_before, "T=bf16 M=77 N=70", "THREADS=64,VECTOR=2,STRIPS=4"},
    {transposed, "T=f32 M=5 N=300", ""},
};

START_TEST(classes_are_right_and_assemble) {
  template_class_check(scan(), &classes[_i], -1);
}
END_TEST

static const int sizes[] = {1, 2, 7, 31, 32, 33, 255, 257, 1023, 4097};

START_TEST(sizes_are_right) {
  static const char *const types[] = {"f32", "f16", "bf16", "f64", "i32"};
  static const int rows[] = {1, 2, 5, 17};
  static const char *const settings[] = {"", WARP ",THREADS=64,VECTOR=1,STRIPS=2",
                                         CHUNK ",THREADS=64,VECTOR=1,STRIPS=2",
                                         CTA ",THREADS=128,VECTOR=1,STRIPS=1"};
  for (size_t i = 0; i < COUNT_OF(settings); i++) {
    arena a = ARENA_INIT;
    char bindings[64];
    snprintf(bindings, sizeof bindings, "T=%s M=%d N=%d", types[((size_t)_i + i) % 5],
             rows[(_i + (int)i) % 4], sizes[_i]);
    template_case c = template_case_bind(&a, scan(), cumsum, bindings, settings[i]);
    template_case_run(&a, &c, NULL, -1);
    arena_release(&a);
  }
}
END_TEST

/* One kernel serves every size that its vectors divide. */
START_TEST(a_kernel_serves_other_sizes) {
  static const char *const others[] = {"T=f32 M=1 N=4", "T=f32 M=9 N=128", "T=f32 M=2 N=3000"};
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, scan(), cumsum, "T=f32 M=3 N=1024", CHUNK ",THREADS=64,VECTOR=4");
  lowered l = template_case_lower(&a, &c);
  for (size_t i = 0; i < COUNT_OF(others); i++) {
    template_case other = c;
    arke_error err = ARKE_ERROR_INIT;
    ck_assert_int_eq(ir_problem_bind(c.p.op, others[i], &other.p, &err), ARKE_OK);
    template_case_run_kernel(&other, l, NULL, -1);
  }
  arena_release(&a);
}
END_TEST

START_TEST(special_values_are_right) {
  static const double values[] = {1, -0.0, 2, INFINITY, 2, -3, NAN, 0, -INFINITY, 5};
  static const double opposite[] = {1, 2, INFINITY, 3, -INFINITY, 4, 5};
  static const double lowest[] = {-INFINITY};
  static const char *const texts[] = {cumsum, exclusive, suffix, most, least, after, product};
  static const char *const settings[] = {WARP ",THREADS=32,VECTOR=2,STRIPS=1",
                                         CTA ",THREADS=64,VECTOR=1,STRIPS=1",
                                         CHUNK ",THREADS=64,VECTOR=1,STRIPS=1"};
  arena a = ARENA_INIT;
  for (size_t i = 0; i < COUNT_OF(texts); i++) {
    template_case c = template_case_bind(&a, scan(), texts[i], "T=f32 M=3 N=150", settings[i % 3]);
    template_case_run(&a, &c, (run_view[LIMIT_TENSORS]){{.values = values, .n_values = 10}}, -1);
    template_case_run(&a, &c, (run_view[LIMIT_TENSORS]){{.values = opposite, .n_values = 7}}, -1);
    template_case_run(&a, &c, (run_view[LIMIT_TENSORS]){{.values = lowest, .n_values = 1}}, -1);
  }
  arena_release(&a);
}
END_TEST

START_TEST(views_are_right) {
  static const char *const settings[] = {WARP ",THREADS=32,VECTOR=4", CTA ",THREADS=64,VECTOR=4",
                                         CHUNK ",THREADS=64,VECTOR=2,STRIPS=1"};
  arena a = ARENA_INIT;
  for (size_t i = 0; i < COUNT_OF(settings); i++) {
    template_case c = template_case_bind(&a, scan(), cumsum, "T=bf16 M=5 N=264", settings[i]);
    run_view views[LIMIT_TENSORS] = {{0}};
    run_view_permuted(&c.p, 0, (int[]){1, 0}, 8, &views[0]);
    template_case_run(&a, &c, views, -1);
    run_view_permuted(&c.p, 0, (int[]){0, 1}, 3, &views[0]);
    run_view_permuted(&c.p, 1, (int[]){1, 0}, 3, &views[1]);
    template_case_run(&a, &c, views, -1);
    views[0] = (run_view){.strided = true, .stride = {0, 1}, .offset = 3};
    template_case_run(&a, &c, views, -1);
    views[0] = (run_view){.strided = true, .stride = {1, 0}};
    template_case_run(&a, &c, views, -1);
  }
  template_case c = template_case_bind(&a, scan(), columns, "T=f32 M=60 N=36", "");
  run_view views[LIMIT_TENSORS] = {{0}};
  run_view_permuted(&c.p, 0, (int[]){0, 1}, 1, &views[0]);
  run_view_permuted(&c.p, 1, (int[]){1, 0}, 5, &views[1]);
  template_case_run(&a, &c, views, -1);
  c = template_case_bind(&a, scan(), leading, "T=f32 ...=2x3 N=40", "");
  run_view_permuted(&c.p, 0, (int[]){2, 0, 1}, 1, &views[0]);
  views[1] = (run_view){0};
  template_case_run(&a, &c, views, -1);
  arena_release(&a);
}
END_TEST

START_TEST(large_tensors_have_wide_offsets) {
  static const char *const settings[] = {CTA, CHUNK ",THREADS=64,STRIPS=1"};
  static const char *const texts[] = {cumsum, columns};
  arena a = ARENA_INIT;
  for (int i = 0; i < 2; i++) {
    for (int k = 0; k < 2; k++) {
      if (i == 1 && k == 1) continue; /* columns have one place */
      template_case c = template_case_bind(&a, scan(), texts[i], "T=bf16 M=65536 N=65536", settings[k]);
      template_case small = c;
      scan()->reduced_problem(&c.p, c.t, &c.c, 2, &small.p);
      template_case_run_kernel(&small, template_case_lower(&a, &c), NULL, -1);
    }
  }
  arena_release(&a);
}
END_TEST

/* Chunks in the wrong order: the one that runs first waits until the emulator starts the other. */
START_TEST(a_chunk_waits_for_the_ones_before) {
  arena a = ARENA_INIT;
  template_case c =
      template_case_bind(&a, scan(), cumsum, "T=f32 M=1 N=100", CHUNK ",THREADS=64,VECTOR=1,STRIPS=1");
  lowered l = template_case_lower(&a, &c);
  static const char from[] = ", %ctaid.x;";
  const char *kernel = strstr(l.ptx, ".entry scan_rows_0");
  ck_assert_ptr_nonnull(kernel);
  const char *at = strstr(kernel, from);
  ck_assert_ptr_nonnull(at);
  const char *mov = at;
  while (strncmp(mov, "mov.u32", 7) != 0) mov--;
  char *name = arena_strndup(&a, mov + 7, (size_t)(at - mov - 7));
  char *text = arena_printf(&a, "%.*s%s\n xor.b32 %s, %s, 1;%s", (int)(at + strlen(from) - l.ptx), l.ptx, "",
                            name, name, at + strlen(from));
  ck_assert_ptr_nonnull(text);
  l.ptx = text;
  l.ptx_bytes = strlen(text);
  template_case_run_kernel(&c, l, NULL, 0);
  arena_release(&a);
}
END_TEST

START_TEST(results_do_not_depend_on_the_order_of_chunks) {
  /* Sums that rounding makes depend on their grouping, by one kernel on one and on two SMs at a time: the
   * same bits. Both are compared with the reference by the cases above. */
  arena a = ARENA_INIT;
  template_case by_number =
      template_case_bind(&a, scan(), cumsum, "T=f32 M=1 N=128", CHUNK ",THREADS=64,VECTOR=1,STRIPS=1");
  lowered l = template_case_lower(&a, &by_number);
  template_case_run_kernel(&by_number, l, NULL, 0); /* two chunks, two SMs: by number */
  arke_error err = ARKE_ERROR_INIT;
  ck_assert_int_eq(ir_problem_bind(by_number.p.op, "T=f32 M=2 N=128", &by_number.p, &err), ARKE_OK);
  template_case_run_kernel(&by_number, l, NULL, 1); /* more than SMs: by ticket */
  arena_release(&a);
}
END_TEST

START_TEST(what_is_no_scan_is_refused) {
  static const template_refusal others[] = {
      {"c(X: T[M,N]) -> (Y: T[M]) { Y[i] = sum(j) X[i,j] }", "T=f32 M=8 N=8", TEMPLATE_OPERATOR},
      {"c(X: T[M,N]) -> (Y: T[M,N]) { Y[i,j] = X[i,j] }", "T=f32 M=8 N=8", TEMPLATE_OPERATOR},
      {"c(X: T[M,N]) -> (Y: T[M,N]) { Y[i,j] = sum(t: t != j) X[i,t] }", "T=f32 M=8 N=8", TEMPLATE_OPERATOR},
      {"c(X: T[M,N]) -> (Y: T[M,N]) { Y[i,j] = sum(t: t <= i) X[i,t] }", "T=f32 M=8 N=9", TEMPLATE_OPERATOR},
      {"c(X: T[M,N]) -> (Y: T[M,N]) { Y[i,j] = sum(t: t <= j) X[i,t] * j }", "T=f32 M=8 N=8",
       TEMPLATE_OPERATOR},
      {"c(X: T[M,N]) -> (Y: T[M,N]) { Y[i,j] = sum(t: t <= j && t > 2) X[i,t] }", "T=f32 M=8 N=8",
       TEMPLATE_OPERATOR},
      {"c(X: T[M,N]) -> (Y: T[M,N]) { s[i,j] = X[i,j] + (sum(t: t <= j) X[i,t]); Y[i,j] = sum(t: t <= j) "
       "s[i,t] }",
       "T=f32 M=8 N=8", TEMPLATE_OPERATOR},
      {"c(X: T[M,N]) -> (Y: T[M,N]) { Y[i,j] = (sum(t: t <= j) X[i,t]) / (sum(k) X[i,k]) }", "T=f32 M=8 N=8",
       TEMPLATE_OPERATOR},
      {"c(X: T[M,N]) -> (Y: T[M,N]) { Y[i,j] = (sum(t: t <= j) X[i,t]) + (sum(u: u >= j) X[i,u]) }",
       "T=f32 M=8 N=8", TEMPLATE_OPERATOR},
      {"c(X: T[M,N]) -> (Y: i64[M,N]) { Y[i,j] = argmax(t: t <= j) X[i,t] }", "T=f32 M=8 N=8",
       TEMPLATE_OPERATOR},
      {"c(X: T[M,N]) -> (X) { X[i,j] = (sum(t: t < j) X[i,t]) + X[i,N-1-j] }", "T=f32 M=8 N=8",
       TEMPLATE_OPERATOR},
      {cumsum, "T=f32 M=8 N=0", TEMPLATE_SIZE},
      {cumsum, "T=e2m1 M=8 N=8", TEMPLATE_DTYPE},
  };
  template_refuses_each(scan(), others, COUNT_OF(others));
}
END_TEST

START_TEST(missing_steps_are_found) {
  arena a = ARENA_INIT;
  template_case c =
      template_case_bind(&a, scan(), cumsum, "T=f32 M=3 N=600", CTA ",THREADS=64,VECTOR=2,STRIPS=1");
  template_case_miss(&a, &c, "bar.sync");
  template_case_miss(&a, &c, "griddepcontrol.wait");
  c = template_case_bind(&a, scan(), cumsum, "T=f32 M=3 N=600", CHUNK ",THREADS=64,VECTOR=2,STRIPS=1");
  template_case_miss(&a, &c, "bar.sync");
  template_case_miss(&a, &c, "st.global.v2.b64"); /* what is not cleared */
  c = template_case_bind(&a, scan(), columns, "T=f32 M=60 N=60", "THREADS=64,VECTOR=1,STRIPS=1");
  template_case_miss(&a, &c, "bar.sync");
  arena_release(&a);
}
END_TEST

START_TEST(out_of_memory_is_reported) {
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, scan(), fused, "T=f32 M=3 N=600", CHUNK ",THREADS=64,VECTOR=2");
  template_case_fail_allocations(&c);
  c = template_case_bind(&a, scan(), columns, "T=f32 M=60 N=60", "");
  template_case_fail_allocations(&c);
  arena_release(&a);
}
END_TEST

/* One long row goes to many CTAs, many rows to one each, tiny rows to warps. */
START_TEST(places_follow_the_shape) {
  static const struct {
    const char *bindings;
    int place;
  } shapes[] = {{"T=f32 M=1 N=10000000", 2}, {"T=f32 M=100 N=65536", 1}, {"T=f32 M=1000000 N=32", 0}};
  arena a = ARENA_INIT;
  for (size_t i = 0; i < COUNT_OF(shapes); i++) {
    template_case c = template_case_bind(&a, scan(), cumsum, shapes[i].bindings, "");
    ck_assert_int_eq(space_value(scan()->space(c.t), &c.c, "PLACE"), shapes[i].place);
    ck_assert_int_eq(template_feasible(scan(), &c.p, c.t, &c.c), TEMPLATE_OK);
  }
  arena_release(&a);
}
END_TEST

int main(void) {
  TCase *tests = template_tests("scan");
  tcase_add_loop_test(tests, classes_are_right_and_assemble, 0, (int)COUNT_OF(classes));
  tcase_add_loop_test(tests, sizes_are_right, 0, (int)COUNT_OF(sizes));
  tcase_add_test(tests, a_kernel_serves_other_sizes);
  tcase_add_test(tests, special_values_are_right);
  tcase_add_test(tests, views_are_right);
  tcase_add_test(tests, large_tensors_have_wide_offsets);
  tcase_add_test(tests, a_chunk_waits_for_the_ones_before);
  tcase_add_test(tests, results_do_not_depend_on_the_order_of_chunks);
  tcase_add_test(tests, what_is_no_scan_is_refused);
  tcase_add_test(tests, missing_steps_are_found);
  tcase_add_test(tests, out_of_memory_is_reported);
  tcase_add_test(tests, places_follow_the_shape);
  return template_tests_run("scan", tests);
}
