/* Scatters: what fits, every class of configuration on the emulator, collisions, views, and planted faults.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "template_cases.h"

static const kernel_template *scatter(void) {
  return template_find("scatter");
}

static const char assign[] =
    "s(X: T[M,N], k: i64[M,K], S: T[M,K]) -> (Y: T[M,N]) { Y[i,j] = X[i,j]; Y[i,k[i,j]] = S[i,j] }";
static const char add[] =
    "s(X: T[M,N], k: i64[M,K], S: T[M,K]) -> (Y: T[M,N]) { Y[i,j] = X[i,j]; Y[i,k[i,j]] += S[i,j] }";
static const char in_place[] = "s(D: T[M], k: i64[K], X: T[K]) -> (D) { D[k[j]] += X[j] }";
static const char index_add[] = "s(D: T[M,N], k: i32[K], X: T[K,N]) -> (D) { D[k[j],d] += X[j,d] }";
static const char index_copy[] = "s(D: T[M,N], k: i32[K], X: T[K,N]) -> (D) { D[k[j],d] = 2 * X[j,d] }";
static const char index_set[] = "s(D: T[M,N], k: i32[K]) -> (D) { D[k[j],d] = 2 }";
static const char cache[] = "s(C: T[P,H,E], slot: i64[S], X: T[S,H,E]) -> (C) { C[slot[s],h,e] = X[s,h,e] }";
static const char from_nothing[] = "s(k: i64[K], X: T[K]) -> (Y: T[M]) { Y[k[j]] += X[j] }";
static const char most_of[] = "s(k: i64[K], X: T[K]) -> (Y: T[M]) { Y[k[j]] max= X[j] }";
static const char least_of[] = "s(X: T[K,N], k: i64[K]) -> (Y: T[M,N]) { Y[k[j],d] min= X[j,d] }";
static const char halves[] =
    "s(X: T[M,2*E], C: T[M,E]) -> (Y: T[M,2*E]) { Y[i,e+0] = X[i,e+0] * C[i,e] - X[i,e+E];"
    " Y[i,e+E] = X[i,e+E] * C[i,e] + X[i,e+0] }";
static const char joined[] =
    "s(X: T[M,A], Z: T[M,B]) -> (Y: T[M,N]) { Y[i,j+0] = X[i,j]; Y[i,j+A] = Z[i,j] }";
static const char pairs[] = "s(X: T[M]) -> (Y: T[N]) { Y[i / 2] += X[i] }";
static const char two[] = "s(D: T[M,N], V: T[M,N], k: i64[S], A: T[S,N], B: T[S,N]) -> (D, V) { D[k[s],d] = "
                          "A[s,d]; V[k[s],d] = B[s,d] }";
static const char side[] =
    "s(X: T[M,N], k: i64[N]) -> (Y: T[M,N], Z: T[M,N]) { Z[i,j] = max(X[i,j], 0); Y[i,k[j]] += Z[i,j] }";
static const char leading[] = "s(X: T[...,N], k: i64[N]) -> (Y: T[...,N]) { Y[...,k[j]] = X[...,j] }";
static const char row_sums[] = "s(k: i64[M,K], X: T[M,K]) -> (Y: T[M,N]) { Y[i,k[i,j]] += X[i,j] }";
static const char row_maps[] = "s(X: T[M,N], k: i32[M,K], S: T[K]) -> (Y: T[M,N]) { Y[i,j] = X[i,j] * 2 + 1;"
                               " Y[i,k[i,j]] = S[j] - 1 }";
static const char deep_rows[] = "s(X: T[B,N,A], k: i64[A,B,P,Q], S: T[A,B,P,Q]) -> (Y: T[A,B,N]) {"
                                " Y[a,b,j] = X[b,j,a]; Y[a,b,k[a,b,p,q]] += S[a,b,p,q] }";
static const char leading_rows[] = "s(X: T[...,N], k: i64[...,K], S: T[...,K]) -> (Y: T[...,N]) {"
                                   " Y[...,j] = X[...,j]; Y[...,k[...,j]] = S[...,j] }";
static const char on_request[] =
    "s(D: T[M,N], k: i32[K], X: T[K,N]) -> (D) deterministic: bool = true { D[k[j],d] += X[j,d] }";

/* `below`: what the places in tensor k (argument `at`) are below; 0: each place once, in another order. */
static const struct {
  const char *text, *bindings, *settings;
  int at, below;
} classes[] = {
    {assign, "T=f32 M=9 N=40 K=40", "", 1, 0},
    {assign, "T=f32 M=9 N=40 K=0", "", 1, 40},
    {add, "T=bf16 M=9 N=40 K=0", "DETERMINISTIC=1", 1, 40},
    {from_nothing, "T=f32 M=50 K=0", "", 0, 50},
    {in_place, "T=f32 M=50 K=0", "", 1, 50},
    {assign, "T=bf16 M=9 N=64 K=64", "VECTOR=4,UNROLL=2", 1, 0},
    {assign, "T=i8 M=9 N=63 K=63", "THREADS=64", 1, 0},
    {assign, "T=f64 M=3 N=40 K=40", "DETERMINISTIC=1", 1, 0},
    {assign, "T=f32 M=5 N=20 K=41", "DETERMINISTIC=1", 1, 20},
    {assign, "T=i64 M=300 N=7 K=13", "DETERMINISTIC=1,THREADS=64", 1, 7},
    {add, "T=f32 M=9 N=40 K=72", "", 1, 40},
    {add, "T=f16 M=9 N=40 K=71", "UNROLL=4", 1, 40},
    {add, "T=bf16 M=4 N=40 K=64", "VECTOR=2", 1, 40},
    {add, "T=f64 M=9 N=40 K=64", "DETERMINISTIC=1", 1, 40},
    {add, "T=i32 M=9 N=40 K=64", "", 1, 40},
    {add, "T=i64 M=9 N=40 K=64", "DETERMINISTIC=1", 1, 40},
    {in_place, "T=f32 M=50 K=777", "", 1, 50},
    {in_place, "T=f32 M=50 K=777", "DETERMINISTIC=1", 1, 50},
    {in_place, "T=bf16 M=500 K=77", "", 1, 500},
    {index_add, "T=f32 M=30 N=72 K=20", "", 1, 30},
    {index_add, "T=bf16 M=30 N=72 K=20", "", 1, 30},
    {index_add, "T=f16 M=30 N=70 K=20", "VECTOR=4", 1, 30},
    {index_add, "T=bf16 M=30 N=72 K=20", "DETERMINISTIC=1", 1, 30},
    {index_add, "T=f16 M=30 N=71 K=20", "DETERMINISTIC=1", 1, 30},
    {index_copy, "T=bf16 M=30 N=72 K=30", "", 1, 0},
    {index_copy, "T=bf16 M=30 N=72 K=50", "DETERMINISTIC=1", 1, 30},
    /* Many write the same to one place, from different CTAs: that is no race. */
    {index_set, "T=bf16 M=30 N=72 K=90", "THREADS=64", 1, 30},
    {index_set, "T=i8 M=30 N=71 K=90", "THREADS=64,VECTOR=1", 1, 30},
    {index_set, "T=f32 M=30 N=72 K=90", "THREADS=64,VECTOR=4,UNROLL=2", 1, 30},
    {cache, "T=bf16 P=40 H=3 E=16 S=40", "", 1, 0},
    {cache, "T=e4m3 P=40 H=3 E=16 S=40", "VECTOR=16", 1, 0},
    {from_nothing, "T=f32 M=50 K=333", "", 0, 50},
    {most_of, "T=f32 M=50 K=333", "", 0, 50},
    {most_of, "T=i32 M=50 K=333", "DETERMINISTIC=1", 0, 50},
    {least_of, "T=bf16 M=20 N=24 K=33", "", 1, 20},
    {halves, "T=bf16 M=9 E=24", "", 0, 1},
    {halves, "T=f32 M=9 E=23", "UNROLL=2", 0, 1},
    {pairs, "T=f32 M=100 N=50", "", 0, 1},
    {two, "T=f32 M=30 N=20 S=30", "", 2, 0},
    {two, "T=f32 M=30 N=20 S=30", "DETERMINISTIC=1", 2, 0},
    {side, "T=f32 M=7 N=20", "", 1, 20},
    {leading, "T=f32 ...=2x3 N=20", "", 1, 0},
    /* Places that are updated again and again: the last one stays. */
    {assign, "T=bf16 M=5 N=264 K=600", "ROWS=1,THREADS=64,VECTOR=8,UNROLL=2", 1, 264},
    {assign, "T=bf16 M=2 N=2000 K=40", "ROWS=1,THREADS=64,VECTOR=8,UNROLL=4,DETERMINISTIC=1", 1, 7},
    {assign, "T=f32 M=5 N=63 K=300", "ROWS=1,THREADS=64,VECTOR=1,UNROLL=1", 1, 63},
    {assign, "T=f64 M=3 N=130 K=64", "ROWS=1,THREADS=64,VECTOR=2,UNROLL=1", 1, 130},
    {assign, "T=i8 M=3 N=208 K=64", "ROWS=1,THREADS=64,VECTOR=16,UNROLL=1", 1, 208},
    {assign, "T=bool M=3 N=40 K=64", "ROWS=1,THREADS=64,VECTOR=1,UNROLL=1", 1, 40},
    {add, "T=bf16 M=4 N=264 K=700", "ROWS=1,THREADS=64,VECTOR=8,UNROLL=4", 1, 264},
    {add, "T=f32 M=3 N=1000 K=100", "ROWS=1,THREADS=128,VECTOR=4,UNROLL=2", 1, 1000},
    {add, "T=i32 M=3 N=64 K=500", "ROWS=1,THREADS=64,VECTOR=4,UNROLL=1,DETERMINISTIC=1", 1, 64},
    {row_sums, "T=f16 M=3 N=64 K=500", "ROWS=1,THREADS=64,VECTOR=1,UNROLL=1", 0, 64},
    {row_maps, "T=bf16 M=3 N=64 K=50", "ROWS=1,THREADS=64,VECTOR=8,UNROLL=1", 1, 64},
    {deep_rows, "T=f32 A=3 B=2 N=30 P=5 Q=7", "ROWS=1,THREADS=64,VECTOR=1,UNROLL=1", 1, 30},
    {leading_rows, "T=f32 ...=2x3 N=20 K=9", "ROWS=1,THREADS=64,VECTOR=4,UNROLL=1", 1, 20},
};

/* 0 … n - 1 in another order: 7 steps at a time, or as many more as n has no factor of. */
static void permute(double *values, int n) {
  int step = 7;
  for (int d = 2; d <= step; d++)
    if (step % d == 0 && n % d == 0) step++, d = 1;
  for (int i = 0; i < n; i++) values[i] = (int)((int64_t)i * step % n);
}

/* Sums of small integers are exact in 16 bits, wherever each of them is rounded. */
static void small_numbers(const template_case *c, run_view *views) {
  for (int i = 0; i < c->p.op->n_inputs; i++) {
    if (dtype_bits(ir_tensor_dtype(&c->p, i)) == 16) views[i] = (run_view){.from = -3, .below = 4};
  }
}

static void places(const template_case *c, int i, run_view *views, double *values) {
  int64_t shape[LIMIT_RANK];
  int rank = ir_tensor_shape(&c->p, classes[i].at, shape);
  if (classes[i].below == 1) return;
  if (classes[i].below > 0) {
    views[classes[i].at].below = classes[i].below;
    return;
  }
  permute(values, (int)shape[rank - 1]);
  views[classes[i].at].values = values;
  views[classes[i].at].n_values = (int)shape[rank - 1];
}

START_TEST(classes_are_right_and_assemble) {
  arena a = ARENA_INIT;
  run_view views[LIMIT_TENSORS] = {{0}};
  double values[1024];
  template_case c =
      template_case_bind(&a, scatter(), classes[_i].text, classes[_i].bindings, classes[_i].settings);
  small_numbers(&c, views);
  places(&c, _i, views, values);
  template_case_run_and_assemble(&a, &c, views, 0);
  arena_release(&a);
}
END_TEST

/* Definitions that cannot meet, and those of different tensors, share a kernel and its reads. */
START_TEST(definitions_share_kernels) {
  static const struct {
    const char *text, *bindings, *settings;
    int launches;
  } cases[] = {{halves, "T=bf16 M=9 E=24", "", 1},
               {two, "T=f32 M=30 N=20 S=30", "", 1},
               {add, "T=f32 M=9 N=40 K=72", "ROWS=0", 2},
               {add, "T=f32 M=9 N=40 K=72", "ROWS=1", 1},
               {index_add, "T=f32 M=9 N=40 K=72", "", 1},
               {side, "T=f32 M=7 N=20", "", 2},
               {"s(X: T[M]) -> (Y: T[2*M]) { Y[i+0] = X[i]; Y[i+1] = X[i] }", "T=f32 M=20", "", 2}};
  arena a = ARENA_INIT;
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    template_case c = template_case_bind(&a, scatter(), cases[i].text, cases[i].bindings, cases[i].settings);
    ck_assert_msg(template_case_lower(&a, &c).recipe.n_launches == cases[i].launches, "%s", cases[i].text);
  }
  arena_release(&a);
}
END_TEST

/* 16-bit floats that lie side by side are added two at a time. */
START_TEST(halves_are_added_in_pairs) {
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, scatter(), index_add, "T=bf16 M=30 N=72 K=20", "");
  ck_assert_ptr_nonnull(strstr(template_case_lower(&a, &c).ptx, "bf16x2"));
  arena_release(&a);
}
END_TEST

START_TEST(views_are_right) {
  arena a = ARENA_INIT;
  double values[64];
  template_case c = template_case_bind(&a, scatter(), assign, "T=bf16 M=9 N=40 K=40", "ROWS=0");
  run_view views[LIMIT_TENSORS] = {{0}};
  permute(values, 40);
  run_view_permuted(&c.p, 1, (int[]){1, 0}, 0, &views[1]);
  views[1].values = values;
  views[1].n_values = 40;
  run_view_permuted(&c.p, 0, (int[]){1, 0}, 8, &views[0]);
  template_case_run(&a, &c, views, 1);
  run_view_permuted(&c.p, 2, (int[]){0, 1}, 1, &views[2]);
  run_view_permuted(&c.p, 3, (int[]){0, 1}, 3, &views[3]);
  template_case_run(&a, &c, views, 2);
  c = template_case_bind(&a, scatter(), index_add, "T=f32 M=30 N=20 K=9", "DETERMINISTIC=1");
  run_view others[LIMIT_TENSORS] = {{0}, {.below = 30}};
  run_view_permuted(&c.p, 0, (int[]){0, 1}, 3, &others[0]);
  run_view_permuted(&c.p, 2, (int[]){1, 0}, 3, &others[2]);
  template_case_run(&a, &c, others, -1);
  arena_release(&a);
}
END_TEST

START_TEST(the_small_problem_is_feasible) {
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, scatter(), halves, "T=bf16 M=4096 E=4096", "");
  template_case_run_reduced(&a, &c);
  /* Sizes that depend on one another. */
  for (int i = 0; i < 2; i++) {
    c = template_case_bind(
        &a, scatter(), joined,
        i == 0 ? "T=bf16 M=4096 A=4096 B=4096 N=8192" : "T=bf16 M=601 A=3001 B=2001 N=5002", "");
    template_case_run_reduced(&a, &c);
  }
  /* Random places are among the first few, so that many updates meet. */
  c = template_case_bind(&a, scatter(), assign, "T=bf16 M=8192 N=8192 K=1024", "THREADS=64,UNROLL=2");
  ck_assert_int_eq(space_value(scatter()->space(c.t), &c.c, "ROWS"), 1);
  template_case_run_reduced(&a, &c);
  arena_release(&a);
}
END_TEST

START_TEST(large_tensors_have_wide_offsets) {
  arena a = ARENA_INIT;
  for (int i = 0; i < 2; i++) {
    const char *settings = i ? "DETERMINISTIC=1" : "";
    template_case c = template_case_bind(&a, scatter(), index_add, "T=f32 M=70000 N=70000 K=100", settings);
    template_case small = template_case_bind(&a, scatter(), index_add, "T=f32 M=30 N=72 K=20", settings);
    template_case_run_kernel(&small, template_case_lower(&a, &c),
                             (run_view[LIMIT_TENSORS]){{0}, {.below = 30}}, 0);
  }
  arena_release(&a);
}
END_TEST

/* With indices checked, what would go outside is left out: a slot of -1 means no place in the cache. */
START_TEST(places_outside_are_left_out) {
  static const double slots[] = {3, -1, 0, 1000000, 2, -1};
  static const char write[] = "s(C: T[P,E], slot: i64[S], X: T[S,E]) -> (C) { C[slot[s],e] = X[s,e] }";
  static const char meant[] = "s(C: T[P,E], slot: i64[S], X: T[S,E]) -> (Y: T[P,E]) {"
                              " Y[p,e] = (any(s) slot[s] == p) ? (sum(s: slot[s] == p) X[s,e]) : C[p,e] }";
  const char *bindings = "T=bf16 P=5 E=24 S=6";
  arena a = ARENA_INIT;
  arke_error err = ARKE_ERROR_INIT;
  const ir_op *op;
  ir_problem reference;
  ck_assert_msg(ir_op_parse(&a, meant, &op, &err) == ARKE_OK, "%s", err.text);
  ck_assert_msg(ir_problem_bind(op, bindings, &reference, &err) == ARKE_OK, "%s", err.text);
  for (int in_order = 0; in_order < 2; in_order++) {
    template_case c = template_case_bind(&a, scatter(), write, bindings, in_order ? "DETERMINISTIC=1" : "");
    lower_options options = {.check_indices = true};
    run_view views[LIMIT_TENSORS] = {{0}, {.values = slots, .n_values = 6}};
    lowered l;
    device *d;
    ck_assert_msg(c.k->lower(&c.p, c.t, &c.c, &options, &a, &l, &err) == ARKE_OK, "%s", err.text);
    ck_assert_msg(device_open_emulator(c.t->name, 1, &d, &err) == ARKE_OK, "%s", err.text);
    run_views_result r = run_views_against(d, &c.p, &reference, &l, 2, views, 7, 0);
    ck_assert_msg(r.status == ARKE_OK && r.wrong == 0 && r.intact, "%s%s", r.err.text, r.first);
    ck_assert_int_eq(r.elements, 120);
    d->ops->close(d);
  }
  arena_release(&a);
}
END_TEST

/* Updates in shared memory never leave their row. */
START_TEST(rows_leave_out_what_is_outside) {
  static const double places[] = {3, -1, 0, 1000000, 2, -1};
  static const char meant[] = "s(X: T[M,N], k: i64[M,K], S: T[M,K]) -> (Y: T[M,N]) {"
                              " Y[i,j] = (any(s) k[i,s] == j) ? (sum(s: k[i,s] == j) S[i,s]) : X[i,j] }";
  const char *bindings = "T=f32 M=3 N=24 K=6";
  arena a = ARENA_INIT;
  arke_error err = ARKE_ERROR_INIT;
  const ir_op *op;
  ir_problem reference;
  ck_assert_msg(ir_op_parse(&a, meant, &op, &err) == ARKE_OK, "%s", err.text);
  ck_assert_msg(ir_problem_bind(op, bindings, &reference, &err) == ARKE_OK, "%s", err.text);
  template_case c = template_case_bind(&a, scatter(), assign, bindings, "ROWS=1,VECTOR=4");
  run_view views[LIMIT_TENSORS] = {{0}, {.values = places, .n_values = 6}};
  lowered l = template_case_lower(&a, &c);
  device *d;
  ck_assert_msg(device_open_emulator(c.t->name, 1, &d, &err) == ARKE_OK, "%s", err.text);
  run_views_result r = run_views_against(d, &c.p, &reference, &l, 3, views, 7, 0);
  ck_assert_msg(r.status == ARKE_OK && r.wrong == 0 && r.intact, "%s%s", r.err.text, r.first);
  ck_assert_int_eq(r.elements, 72);
  d->ops->close(d);
  arena_release(&a);
}
END_TEST

/* Larger rows than the problem's, and such that do not fit, which another way takes. */
START_TEST(rows_serve_other_sizes) {
  static const struct {
    const char *bindings;
    int way;
  } others[] = {{"T=f32 M=2 N=8 K=1", 0},
                {"T=f32 M=2 N=3000 K=700", 0},
                {"T=f32 M=2 N=61440 K=8", 1}, /* whole tiles of the copy that comes first */
                {"T=f32 M=1 N=61000 K=8", 2},
                {"T=f32 M=2 N=40 K=0", 2}}; /* no update, where those behind the last are the last again */
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, scatter(), assign, "T=f32 M=3 N=1024 K=20", "ROWS=1,VECTOR=4");
  lowered l = template_case_lower(&a, &c);
  for (size_t i = 0; i < COUNT_OF(others); i++) {
    template_case other = c;
    arke_error err = ARKE_ERROR_INIT;
    ck_assert_int_eq(ir_problem_bind(c.p.op, others[i].bindings, &other.p, &err), ARKE_OK);
    template_case_run_kernel(&other, l, (run_view[LIMIT_TENSORS]){{0}, {.below = 8}}, others[i].way);
  }
  arena_release(&a);
}
END_TEST

START_TEST(order_is_kept_on_request) {
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, scatter(), on_request, "T=f32 M=30 N=72 K=20", "");
  ck_assert_int_eq(c.c.values[3], 1);
  config loose = c.c;
  loose.values[3] = 0;
  ck_assert_int_eq(template_feasible(scatter(), &c.p, c.t, &loose), TEMPLATE_SCHEDULE);
  template_case_run(&a, &c, (run_view[LIMIT_TENSORS]){{0}, {.below = 3}}, 0);
  arena_release(&a);
}
END_TEST

START_TEST(what_is_no_scatter_is_refused) {
  static const template_refusal others[] = {
      {"m(X: T[M,N]) -> (Y: T[M,N]) { Y[i,j] = X[i,j] }", "T=f32 M=8 N=8", TEMPLATE_OPERATOR},
      {"m(X: T[M,N]) -> (Y: T[M]) { Y[i] = sum(j) X[i,j] }", "T=f32 M=8 N=8", TEMPLATE_OPERATOR},
      {"m(X: T[M,N], k: i64[M]) -> (Y: T[M]) { Y[k[i]] = sum(j) X[i,j] }", "T=f32 M=8 N=8",
       TEMPLATE_OPERATOR},
      {"m(D: T[M], k: i64[M]) -> (D) { D[k[i]] = D[i] }", "T=f32 M=8", TEMPLATE_OPERATOR},
      {"m(k: i64[M]) -> (Y: T[M], Z: T[M]) { Y[k[i]] += 1; Z[i] = Y[i] }", "T=f32 M=8", TEMPLATE_OPERATOR},
      {"m(D: T[M], k: i64[M]) -> (D, Z: T[N]) { D[k[i]] = 1; Z[i / 2] += D[i] }", "T=f32 M=8 N=4",
       TEMPLATE_OPERATOR},
      {from_nothing, "T=u8 M=8 K=8", TEMPLATE_DTYPE},
  };
  template_refuses_each(scatter(), others, COUNT_OF(others));
}
END_TEST

/* Without the copy before it, elements that nothing is scattered to are missing; without the wait, it may
 * come too early. */
START_TEST(missing_waits_are_found) {
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, scatter(), from_nothing, "T=f32 M=50 K=5", "");
  template_case_miss(&a, &c, "griddepcontrol.wait");
  template_case_miss(&a, &c, "st.global");
  c = template_case_bind(&a, scatter(), add, "T=f32 M=9 N=40 K=72", "ROWS=1");
  template_case_miss(&a, &c, "bar.sync");
  c = template_case_bind(&a, scatter(), assign, "T=f32 M=9 N=40 K=72", "ROWS=1");
  template_case_miss(&a, &c, "bar.sync");
  template_case_miss(&a, &c, "red.relaxed.cta");
  arena_release(&a);
}
END_TEST

START_TEST(out_of_memory_is_reported) {
  template_class_fail_allocations(scatter(),
                                  &(template_class){add, "T=f32 M=9 N=40 K=72", _i ? "ROWS=1" : "ROWS=0"});
}
END_TEST

int main(void) {
  TCase *tests = template_tests("scatter");
  tcase_add_loop_test(tests, classes_are_right_and_assemble, 0, (int)COUNT_OF(classes));
  tcase_add_test(tests, definitions_share_kernels);
  tcase_add_test(tests, halves_are_added_in_pairs);
  tcase_add_test(tests, views_are_right);
  tcase_add_test(tests, the_small_problem_is_feasible);
  tcase_add_test(tests, large_tensors_have_wide_offsets);
  tcase_add_test(tests, places_outside_are_left_out);
  tcase_add_test(tests, rows_leave_out_what_is_outside);
  tcase_add_test(tests, rows_serve_other_sizes);
  tcase_add_test(tests, order_is_kept_on_request);
  tcase_add_test(tests, what_is_no_scatter_is_refused);
  tcase_add_test(tests, missing_waits_are_found);
  tcase_add_loop_test(tests, out_of_memory_is_reported, 0, 2);
  return template_tests_run("scatter", tests);
}
