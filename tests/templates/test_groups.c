/* Products whose rows are in ragged groups, come from gathered places or go to scattered ones. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "emulator/emulator.h"
#include "template_cases.h"

static const kernel_template *mma(void) {
  return template_find("mma");
}

#define GROUP "g[r] = sum(e: ends[e] <= r) 1; "
static const char linear[] = "f(X: T[R,K], W: T[E,N,K], ends: i32[E]) -> (Y: T[R,N]) { " GROUP
                             "Y[r,n] = g[r] < E ? sum(k) X[r,k] * W[g[r],n,k] : 0 }";
static const char matmul[] = "f(X: T[R,K], W: T[E,K,N], ends: i64[E]) -> (Y: T[R,N]) { " GROUP
                             "Y[r,n] = g[r] < E ? sum(k) X[r,k] * W[g[r],k,n] : 0 }";
/* Rows that run along the first axis of X. */
static const char turned[] = "f(X: T[K,R], W: T[E,N,K], ends: i32[E]) -> (Y: T[R,N]) { " GROUP
                             "Y[r,n] = g[r] < E ? sum(k) X[k,r] * W[g[r],n,k] : 0 }";
static const char biased[] =
    "f(X: T[R,K], W: T[E,N,K], ends: i32[E], b: T[E,N], s: f32[R]) -> (Y: T[R,N]) { " GROUP
    "Y[r,n] = g[r] < E ? gelu((sum(k) X[r,k] * W[g[r],n,k]) + b[g[r],n]) * s[r] : 0 }";
static const char gated[] =
    "f(X: T[R,K], W: T[E,2*N,K], ends: i32[E]) -> (Y: T[R,N]) { " GROUP
    "Y[r,n] = g[r] < E ? silu(sum(k) X[r,k] * W[g[r],n,k]) * (sum(k) X[r,k] * W[g[r],n + N,k]) : 0 }";
static const char dequantised[] =
    "f(X: T[R,K], Q: U[E,N,K], s: f32[E,N], ends: i32[E]) -> (Y: T[R,N]) { " GROUP
    "Y[r,n] = g[r] < E ? sum(k) X[r,k] * (Q[g[r],n,k] * s[g[r],n]) : 0 }";
static const char gathered[] = "f(X: T[P,K], t: i32[R], W: T[E,N,K], ends: i32[E]) -> (Y: T[R,N]) { " GROUP
                               "Y[r,n] = g[r] < E ? sum(k) X[t[r],k] * W[g[r],n,k] : 0 }";
static const char rounded[] = "f(X: T[R,K], W: T[E,N,K], ends: i32[E]) -> (Y: f32[R,N]) { " GROUP
                              "Y[r,n] = g[r] < E ? sum(k) X[r,k] * W[g[r],n,k] : 0 }";
/* 8-bit floats scaled by row and block of terms, and by expert and block of columns and terms. */
static const char scaled[] =
    "f(X: T[R,128*G], W: T[E,N,128*G], sx: f32[R,G], sw: f32[E,H,G], ends: i32[E]) -> (Y: bf16[R,N]) { " GROUP
    "Y[r,n] = g[r] < E ? sum(k) X[r,k] * sx[r,k/128] * (W[g[r],n,k] * sw[g[r],n/128,k/128]) : 0 }";
/* All rows are of a group: what is past the last end is not asked for. */
static const char whole[] = "f(X: T[R,K], W: T[E,N,K], ends: i32[E]) -> (Y: T[R,N]) { " GROUP
                            "Y[r,n] = sum(k) X[r,k] * W[g[r],n,k] }";

/* Ends, by their number. */
static const double even[] = {20, 40, 60}, empty[] = {0, 0, 37, 37, 60}, single[] = {1, 2, 3, 60},
                    one[] = {60}, short_of[] = {5, 5, 41}, none[] = {0, 0}, beyond[] = {-3, 17, 90, 1000},
                    last[] = {0, 0, 0, 60}, large[] = {128, 129, 129, 200, 290},
                    many[] = {0,  1,  1,  2,  3,  3,  3,  5,  8,  8,  9,  13, 13, 13, 14, 21,
                              21, 21, 22, 22, 34, 34, 34, 35, 35, 36, 36, 37, 38, 39, 40, 41,
                              42, 43, 44, 44, 44, 45, 45, 46, 47, 48, 48, 48, 48, 48, 48, 48,
                              48, 48, 48, 49, 50, 51, 51, 51, 51, 52, 52, 52, 52, 52, 52};

static double far[300]; /* more than a round of the search: all rows are of the last groups (main) */

/* Rows at gathered places of A, and rows that go to places: some of Y's rows are not written; several add up.
 */
static const char rows_of[] =
    "f(X: T[P,K], W: T[N,K], t: i64[R]) -> (Y: T[R,N]) { Y[r,n] = sum(k) X[t[r],k] * W[n,k] }";
static const char spread[] =
    "f(D: T[P,N], X: T[R,K], W: T[N,K], t: i32[R]) -> (D) { D[t[r],n] = sum(k) X[r,k] * W[n,k] }";
static const char combined[] = "f(D: f32[P,N], X: T[R,K], W: T[N,K], t: i32[R], w: f32[R]) -> (D) { "
                               "D[t[r],n] += w[r] * sum(k) X[r,k] * W[n,k] }";
static const char largest[] =
    "f(D: f32[P,N], X: T[R,K], W: T[N,K], t: i32[R]) -> (D) { D[t[r],n] max= sum(k) X[r,k] * W[n,k] }";
static const char experts[] =
    "f(D: f32[P,N], X: T[R,K], W: T[E,N,K], ends: i32[E], t: i32[R], w: T[R]) -> (D) { " GROUP
    "D[t[r],n] += g[r] < E ? w[r] * sum(k) X[r,k] * W[g[r],n,k] : 0 }";
static const char both[] =
    "f(D: f32[P,N], X: T[P,K], W: T[E,N,K], ends: i32[E], t: i32[R], w: T[R]) -> (D) { " GROUP
    "D[t[r],n] += g[r] < E ? w[r] * sum(k) X[t[r],k] * W[g[r],n,k] : 0 }";
static const double distinct[] = {3, 10, 0, 7, 5, 1, 9};

#define ENDS(list) list, (int)COUNT_OF(list)
static const struct {
  const char *text, *bindings, *settings;
  const double *ends;
  int n;
} cases[] = {
    {linear, "T=bf16 R=60 N=40 K=72 E=3", "", ENDS(even)},
    {linear, "T=bf16 R=60 N=40 K=72 E=5", "BLOCK_M=16,BLOCK_N=32,WARPS_M=1,WARPS_N=1", ENDS(empty)},
    {linear, "T=f16 R=60 N=40 K=72 E=4", "BLOCK_M=32,BLOCK_N=64,BLOCK_K=32,WARPS_M=2,WARPS_N=2,GROUP=8",
     ENDS(single)},
    {linear, "T=bf16 R=60 N=33 K=35 E=4", "", ENDS(single)},
    {linear, "T=bf16 R=60 N=40 K=72 E=1", "", ENDS(one)},
    {linear, "T=bf16 R=60 N=40 K=72 E=3", "", ENDS(short_of)},
    {linear, "T=bf16 R=60 N=40 K=72 E=2", "", ENDS(none)},
    {linear, "T=bf16 R=60 N=40 K=72 E=4", "", ENDS(beyond)},
    {linear, "T=bf16 R=60 N=40 K=72 E=4", "", ENDS(last)},
    {linear, "T=bf16 R=60 N=24 K=40 E=63", "BLOCK_M=16", ENDS(many)},
    {linear, "T=bf16 R=60 N=8 K=16 E=300", "BLOCK_M=16,BLOCK_N=16,BLOCK_K=16", ENDS(far)},
    {linear, "T=bf16 R=60 N=8 K=16 E=128", "BLOCK_M=16,BLOCK_N=16,BLOCK_K=16", ENDS(far)},
    {linear, "T=bf16 R=60 N=40 K=0 E=3", "", ENDS(even)},
    {linear, "T=f32 R=60 N=40 K=24 E=5", "", ENDS(empty)},
    {matmul, "T=bf16 R=60 N=40 K=72 E=3", "", ENDS(short_of)},
    {matmul, "T=f32 R=60 N=37 K=23 E=5", "", ENDS(empty)},
    {turned, "T=bf16 R=60 N=40 K=72 E=3", "", ENDS(short_of)},
    {turned, "T=bf16 R=64 N=40 K=72 E=3", "", ENDS(short_of)},
    {biased, "T=bf16 R=60 N=40 K=72 E=3", "", ENDS(short_of)},
    {biased, "T=f16 R=60 N=41 K=72 E=5", "", ENDS(empty)},
    {gated, "T=bf16 R=60 N=40 K=72 E=4", "", ENDS(single)},
    {dequantised, "T=bf16 U=i8 R=60 N=40 K=64 E=3", "", ENDS(short_of)},
    {gathered, "T=bf16 P=11 R=60 N=40 K=72 E=5", "", ENDS(empty)},
    {whole, "T=bf16 R=60 N=40 K=72 E=5", "", ENDS(empty)},
};

/* Views of the operator's tensors: ends as listed, places of P rows. */
static void fill(const ir_problem *p, const double *ends, int n, run_view *views) {
  for (int i = 0; i < p->op->n_inputs; i++) {
    const ir_tensor *t = &p->op->tensors[i];
    dtype type = ir_tensor_dtype(p, i);
    if (strcmp(t->name, "ends") == 0) {
      views[i].values = ends;
      views[i].n_values = n;
    } else if (t->rank == 1 && (type == DTYPE_I32 || type == DTYPE_I64)) {
      views[i].below = 11;
    }
  }
}

START_TEST(groups_are_right) {
  arena a = ARENA_INIT;
  run_view views[LIMIT_TENSORS] = {{0}};
  template_case c = template_case_bind(&a, mma(), cases[_i].text, cases[_i].bindings, cases[_i].settings);
  fill(&c.p, cases[_i].ends, cases[_i].n, views);
  template_case_run(&a, &c, views, 0);
  arena_release(&a);
}
END_TEST

static const struct {
  const char *text, *bindings, *settings;
  bool once; /* places differ */
} places[] = {
    {rows_of, "T=bf16 P=11 R=60 N=40 K=72", "", false},
    {rows_of, "T=f32 P=11 R=33 N=35 K=37", "", false},
    {rows_of, "T=f16 P=11 R=60 N=40 K=720", "BLOCK_K=32,SPLIT_K=4", false},
    {spread, "T=bf16 P=11 R=7 N=40 K=72", "", true},
    {spread, "T=f16 P=11 R=7 N=37 K=33", "", true},
    {combined, "T=bf16 P=11 R=60 N=40 K=72", "", false},
    {combined, "T=f32 P=11 R=33 N=35 K=37", "", false},
    {combined, "T=bf16 P=11 R=60 N=40 K=720", "BLOCK_K=32,SPLIT_K=4", false},
    {largest, "T=bf16 P=11 R=60 N=40 K=72", "", false},
    {experts, "T=bf16 P=11 R=60 N=40 K=72 E=5", "", false},
    {both, "T=bf16 P=11 R=60 N=40 K=72 E=5", "", false},
};

START_TEST(gathered_and_scattered_rows_are_right) {
  arena a = ARENA_INIT;
  run_view views[LIMIT_TENSORS] = {{0}};
  template_case c = template_case_bind(&a, mma(), places[_i].text, places[_i].bindings, places[_i].settings);
  fill(&c.p, ENDS(empty), views);
  for (int i = 0; i < c.p.op->n_inputs && places[_i].once; i++)
    if (strcmp(c.p.op->tensors[i].name, "t") == 0) views[i] = (run_view){.values = distinct, .n_values = 7};
  template_case_run(&a, &c, views, 0);
  arena_release(&a);
}
END_TEST

/* Ends that decrease make more tiles than there are entries for: what rows hold is undefined then, but
 * nothing goes outside the list, and the list says how many it has. */
START_TEST(decreasing_ends_stay_inside_the_list) {
  static const double down[] = {300, 0, 300, 0, 300, 0, 300, 0, 300, 0, 300, 0};
  arena a = ARENA_INIT;
  arke_error err = ARKE_ERROR_INIT;
  run_view views[LIMIT_TENSORS] = {{0}};
  template_case c =
      template_case_bind(&a, template_find("gemm"), linear, "T=bf16 R=300 N=40 K=72 E=12", "BLOCK_M=64");
  device *d;
  fill(&c.p, ENDS(down), views);
  lowered l = template_case_lower(&a, &c);
  ck_assert_msg(device_open_emulator(c.t->name, 1, &d, &err) == ARKE_OK, "%s", err.text);
  run_views_result r = run_views(d, &c.p, &l, 2, views, 7, 0);
  ck_assert_msg(r.intact && !strstr(r.err.text, "outside") && !strstr(r.err.text, "nothing wrote"), "%s",
                r.err.text);
  d->ops->close(d);
  arena_release(&a);
}
END_TEST

/* By warp groups: every schedule, ends inside tiles and at their ends, the next group's rows beside them. */
static const struct {
  const char *text, *bindings, *settings;
  const double *ends;
  int n;
} warp_groups[] = {
    {linear, "T=bf16 R=60 N=40 K=72 E=3", "", ENDS(even)},
    {linear, "T=bf16 R=60 N=40 K=72 E=5", "BLOCK_M=64,BLOCK_N=64,CONSUMERS=1,SCHEDULE=0", ENDS(empty)},
    {linear, "T=f16 R=60 N=264 K=200 E=4", "BLOCK_M=128,BLOCK_N=128,CONSUMERS=2,SCHEDULE=0,STAGES=3",
     ENDS(single)},
    {linear, "T=bf16 R=60 N=264 K=200 E=3", "BLOCK_M=64,BLOCK_N=128,CONSUMERS=2,SCHEDULE=1,STAGES=4",
     ENDS(short_of)},
    {linear, "T=bf16 R=300 N=520 K=392 E=5", "BLOCK_M=128,BLOCK_N=256,CONSUMERS=2,SCHEDULE=2,STAGES=3",
     ENDS(large)},
    {linear, "T=bf16 R=300 N=520 K=136 E=5",
     "BLOCK_M=128,BLOCK_N=96,CONSUMERS=1,SCHEDULE=0,STAGES=3,RASTER=1,GROUP=2", ENDS(large)},
    {linear, "T=bf16 R=300 N=520 K=136 E=5", "BLOCK_M=64,BLOCK_N=128,CONSUMERS=1,SCHEDULE=0,CLUSTER_N=2",
     ENDS(large)},
    {linear, "T=bf16 R=60 N=40 K=72 E=1", "", ENDS(one)},
    {linear, "T=bf16 R=60 N=40 K=72 E=2", "", ENDS(none)},
    {linear, "T=bf16 R=60 N=40 K=72 E=4", "", ENDS(beyond)},
    {linear, "T=bf16 R=60 N=8 K=16 E=300", "BLOCK_M=64", ENDS(far)},
    {matmul, "T=bf16 R=60 N=40 K=72 E=3", "", ENDS(short_of)},
    {biased, "T=bf16 R=60 N=40 K=72 E=3", "", ENDS(short_of)},
    {biased, "T=f16 R=300 N=264 K=72 E=5", "BLOCK_M=128,BLOCK_N=128,CONSUMERS=2,SCHEDULE=1,STAGES=3",
     ENDS(large)},
    {gated, "T=bf16 R=60 N=40 K=72 E=4", "", ENDS(single)},
    {gated, "T=bf16 R=300 N=136 K=136 E=5", "BLOCK_M=128,BLOCK_N=128,CONSUMERS=2,SCHEDULE=0,STAGES=3",
     ENDS(large)},
    {rounded, "T=bf16 R=60 N=40 K=72 E=5", "", ENDS(empty)},
    {whole, "T=bf16 R=60 N=40 K=72 E=5", "", ENDS(empty)},
    {scaled, "T=e4m3 R=60 N=136 G=2 H=2 E=3", "", ENDS(short_of)},
    {scaled, "T=e4m3 R=300 N=264 G=3 H=3 E=5", "", ENDS(large)},
};

/* Rows that warp groups gather and scatter: by every schedule, ends of terms inside 16 bytes, many rows of
 * one place, groups of gathered rows, 8-bit floats with scales of gathered rows. */
static const char gathered_scaled[] =
    "f(X: T[P,128*G], W: T[E,N,128*G], sx: f32[P,G], sw: f32[E,H,G], ends: i32[E], t: i32[R]) -> (Y: "
    "bf16[R,N]) "
    "{ " GROUP
    "Y[r,n] = g[r] < E ? sum(k) X[t[r],k] * sx[t[r],k/128] * (W[g[r],n,k] * sw[g[r],n/128,k/128]) : 0 }";
static const char gathered_gate[] =
    "f(X: T[P,K], W: T[E,2*N,K], ends: i32[E], t: i32[R]) -> (Y: T[R,N]) { " GROUP
    "Y[r,n] = g[r] < E ? silu(sum(k) X[t[r],k] * W[g[r],n,k]) * (sum(k) X[t[r],k] * W[g[r],n + N,k]) : 0 }";
static const char gathered_batches[] = "f(X: T[P,K], W: T[B,N,K], t: i32[B,R]) -> (Y: T[B,R,N]) { "
                                       "Y[b,r,n] = sum(k) X[t[b,r],k] * W[b,n,k] }";
static const char gathered_residual[] = "f(X: T[P,K], W: T[N,K], D: T[R,N], t: i64[R]) -> (Y: T[R,N]) { "
                                        "Y[r,n] = D[r,n] + sum(k) X[t[r],k] * W[n,k] }";
static const struct {
  const char *text, *bindings, *settings;
  bool once;
} warp_places[] = {
    {rows_of, "T=bf16 P=11 R=60 N=40 K=72", "BLOCK_M=64,BLOCK_N=64,CONSUMERS=1,SCHEDULE=0", false},
    {rows_of, "T=bf16 P=11 R=60 N=40 K=72", "BLOCK_M=64,BLOCK_N=64,CONSUMERS=1,SCHEDULE=0,PERSISTENT=0",
     false},
    {rows_of, "T=f16 P=11 R=300 N=264 K=200", "BLOCK_M=128,BLOCK_N=128,CONSUMERS=2,SCHEDULE=0,STAGES=3",
     false},
    {rows_of, "T=bf16 P=11 R=200 N=264 K=264",
     "BLOCK_M=64,BLOCK_N=96,CONSUMERS=2,SCHEDULE=1,PERSISTENT=1,STAGES=4", false},
    {rows_of, "T=bf16 P=11 R=300 N=264 K=264",
     "BLOCK_M=128,BLOCK_N=128,CONSUMERS=2,SCHEDULE=2,PERSISTENT=1,STAGES=2", false},
    {rows_of, "T=bf16 P=11 R=60 N=40 K=264",
     "BLOCK_M=64,BLOCK_N=64,BLOCK_K=128,STAGES=2,CONSUMERS=1,SCHEDULE=0", false},
    {gathered_residual, "T=bf16 P=11 R=60 N=40 K=72", "", false},
    {gathered_batches, "T=bf16 P=11 B=3 R=70 N=40 K=72", "", false},
    {gathered, "T=bf16 P=11 R=60 N=40 K=72 E=5", "", false},
    {gathered, "T=bf16 P=11 R=60 N=264 K=136 E=5",
     "BLOCK_M=64,BLOCK_N=128,CONSUMERS=2,SCHEDULE=1,PERSISTENT=1,STAGES=4", false},
    {gathered_gate, "T=bf16 P=11 R=60 N=136 K=136 E=5", "BLOCK_M=64,BLOCK_N=64,CONSUMERS=1,SCHEDULE=0",
     false},
    {gathered_scaled, "T=e4m3 P=11 R=60 N=136 G=2 H=2 E=5", "", false},
    {spread, "T=bf16 P=11 R=7 N=40 K=72", "", true},
    {spread, "T=bf16 P=11 R=7 N=264 K=72",
     "BLOCK_M=64,BLOCK_N=128,CONSUMERS=2,SCHEDULE=1,PERSISTENT=1,STAGES=4", true},
    {combined, "T=bf16 P=11 R=60 N=40 K=72", "", false},
    {largest, "T=bf16 P=11 R=60 N=40 K=72", "", false},
    {experts, "T=bf16 P=11 R=60 N=40 K=72 E=5", "", false},
    {both, "T=bf16 P=11 R=60 N=40 K=72 E=5", "BLOCK_M=64,BLOCK_N=64,CONSUMERS=1,SCHEDULE=0", false},
};

START_TEST(rows_by_warp_groups_are_right) {
  arena a = ARENA_INIT;
  run_view views[LIMIT_TENSORS] = {{0}};
  template_case c = template_case_bind(&a, template_find("gemm"), warp_places[_i].text,
                                       warp_places[_i].bindings, warp_places[_i].settings);
  fill(&c.p, ENDS(empty), views);
  for (int i = 0; i < c.p.op->n_inputs; i++) {
    bool places_of_rows = strcmp(c.p.op->tensors[i].name, "t") == 0;
    if (places_of_rows && warp_places[_i].once) views[i] = (run_view){.values = distinct, .n_values = 7};
    if (places_of_rows && !warp_places[_i].once) views[i] = (run_view){.below = 11};
  }
  template_case_run(&a, &c, views, 0);
  arena_release(&a);
}
END_TEST

START_TEST(gathered_rows_assemble) {
  static const char *const settings[] = {"BLOCK_M=128,BLOCK_N=256,CONSUMERS=2,SCHEDULE=0,STAGES=4",
                                         "BLOCK_M=128,BLOCK_N=160,CONSUMERS=2,SCHEDULE=1,STAGES=5"};
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, template_find("gemm"), gathered,
                                       "T=bf16 P=4096 R=32768 N=1536 K=2048 E=128", settings[_i]);
  template_case_assemble(&a, &c);
  run_view views[LIMIT_TENSORS] = {{0}};
  template_case small = c;
  c.k->reduced_problem(&c.p, c.t, &c.c, 2, &small.p);
  fill(&small.p, ENDS(even), views);
  for (int i = 0; i < small.p.op->n_inputs; i++)
    if (strcmp(small.p.op->tensors[i].name, "t") == 0) views[i] = (run_view){.below = 2};
  template_case_run_kernel(&small, template_case_lower(&a, &c), views, 0);
  arena_release(&a);
}
END_TEST

START_TEST(missing_fences_of_gathered_rows_are_found) {
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, template_find("gemm"), rows_of, "T=bf16 P=60 R=60 N=40 K=200",
                                       "BLOCK_M=64,BLOCK_N=64,CONSUMERS=1,SCHEDULE=0,STAGES=2");
  template_case_miss(&a, &c, "fence.proxy.async");
  template_case_miss(&a, &c, "cp.async.mbarrier.arrive");
  arena_release(&a);
}
END_TEST

START_TEST(groups_by_warp_groups_are_right) {
  arena a = ARENA_INIT;
  run_view views[LIMIT_TENSORS] = {{0}};
  template_case c = template_case_bind(&a, template_find("gemm"), warp_groups[_i].text,
                                       warp_groups[_i].bindings, warp_groups[_i].settings);
  fill(&c.p, warp_groups[_i].ends, warp_groups[_i].n, views);
  template_case_run(&a, &c, views, 0);
  arena_release(&a);
}
END_TEST

START_TEST(warp_groups_assemble) {
  static const char *const settings[] = {"BLOCK_M=128,BLOCK_N=256,CONSUMERS=2,SCHEDULE=0,STAGES=3",
                                         "BLOCK_M=128,BLOCK_N=256,CONSUMERS=2,SCHEDULE=2,STAGES=3",
                                         "BLOCK_M=64,BLOCK_N=256,CONSUMERS=2,SCHEDULE=1,STAGES=4"};
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, template_find("gemm"), linear,
                                       "T=bf16 R=32768 N=1536 K=2048 E=128", settings[_i]);
  template_case_assemble(&a, &c);
  run_view views[LIMIT_TENSORS] = {{0}};
  template_case small = c;
  c.k->reduced_problem(&c.p, c.t, &c.c, 2, &small.p);
  fill(&small.p, ENDS(even), views);
  template_case_run_kernel(&small, template_case_lower(&a, &c), views, 0);
  arena_release(&a);
}
END_TEST

START_TEST(views_are_right) {
  arena a = ARENA_INIT;
  run_view views[LIMIT_TENSORS] = {{0}};
  template_case c = template_case_bind(&a, mma(), linear, "T=bf16 R=60 N=40 K=72 E=3", "");
  fill(&c.p, ENDS(short_of), views);
  run_view_permuted(&c.p, 0, (int[]){1, 0}, 8, &views[0]);
  template_case_run(&a, &c, views, 1);
  run_view_permuted(&c.p, 1, (int[]){0, 2, 1}, 1, &views[1]);
  views[2] = (run_view){.strided = true, .stride = {2}, .values = even, .n_values = 1};
  template_case_run(&a, &c, views, 2);
  c = template_case_bind(&a, template_find("gemm"), rows_of, "T=bf16 P=11 R=60 N=40 K=72", "");
  memset(views, 0, sizeof views);
  run_view_permuted(&c.p, 0, (int[]){1, 0}, 8, &views[0]);
  run_view_permuted(&c.p, 1, (int[]){1, 0}, 8, &views[1]);
  views[2] = (run_view){.below = 11};
  template_case_run(&a, &c, views, 0);
  arena_release(&a);
}
END_TEST

START_TEST(small_problems_are_right) {
  arena a = ARENA_INIT;
  run_view views[LIMIT_TENSORS] = {{0}};
  template_case c = template_case_bind(&a, mma(), linear, "T=bf16 R=4096 N=512 K=1024 E=128",
                                       "BLOCK_M=128,BLOCK_N=128,BLOCK_K=64,STAGES=3,WARPS_M=2,WARPS_N=2");
  template_case_assemble(&a, &c);
  template_case small = c;
  mma()->reduced_problem(&c.p, c.t, &c.c, 2, &small.p);
  fill(&small.p, ENDS(even), views);
  template_case_run_kernel(&small, template_case_lower(&a, &c), views, 0);
  arena_release(&a);
}
END_TEST

START_TEST(what_has_no_groups_is_refused) {
  /* Groups of columns; ends that are compared otherwise; another second kernel. */
  template_refuses(mma(),
                   "f(X: T[R,K], W: T[E,N,K], ends: i32[E]) -> (Y: T[N,R]) { " GROUP
                   "Y[n,r] = g[r] < E ? sum(k) X[r,k] * W[g[r],n,k] : 0 }",
                   "T=bf16 R=60 N=40 K=72 E=3", TEMPLATE_OPERATOR);
  template_refuses(mma(),
                   "f(X: T[R,K], W: T[E,N,K], ends: i32[E]) -> (Y: T[R,N]) { g[r] = sum(e: ends[e] < r) 1; "
                   "Y[r,n] = g[r] < E ? sum(k) X[r,k] * W[g[r],n,k] : 0 }",
                   "T=bf16 R=60 N=40 K=72 E=3", TEMPLATE_OPERATOR);
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, mma(), linear, "T=bf16 R=60 N=40 K=720 E=3", "");
  c.c.values[7] = 2;
  ck_assert_int_eq(template_feasible(mma(), &c.p, c.t, &c.c), TEMPLATE_OPERATOR);
  arena_release(&a);
}
END_TEST

START_TEST(missing_waits_are_found) {
  arena a = ARENA_INIT;
  template_case c = template_case_bind(&a, mma(), whole, "T=bf16 R=60 N=40 K=72 E=3", "");
  template_case_miss(&a, &c, "griddepcontrol.wait");
  arena_release(&a);
}
END_TEST

int main(void) {
  for (int i = 280; i < 300; i++) far[i] = 3 * (i - 280);
  TCase *tests = template_tests("groups");
  tcase_add_loop_test(tests, groups_are_right, 0, (int)COUNT_OF(cases));
  tcase_add_loop_test(tests, gathered_and_scattered_rows_are_right, 0, (int)COUNT_OF(places));
  tcase_add_loop_test(tests, groups_by_warp_groups_are_right, 0, (int)COUNT_OF(warp_groups));
  tcase_add_loop_test(tests, warp_groups_assemble, 0, 3);
  tcase_add_loop_test(tests, rows_by_warp_groups_are_right, 0, (int)COUNT_OF(warp_places));
  tcase_add_loop_test(tests, gathered_rows_assemble, 0, 2);
  tcase_add_test(tests, missing_fences_of_gathered_rows_are_found);
  tcase_add_test(tests, decreasing_ends_stay_inside_the_list);
  tcase_add_test(tests, views_are_right);
  tcase_add_test(tests, small_problems_are_right);
  tcase_add_test(tests, what_has_no_groups_is_refused);
  tcase_add_test(tests, missing_waits_are_found);
  return template_tests_run("groups", tests);
}
