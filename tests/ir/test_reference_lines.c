/* Elements that are computed many at a time against the same computed one by one, and what is read after it
 * was written in place against plain loops. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/random.h"
#include "ir/ir.h"
#include "tests/ir/ir_suites.h"
#include "tests/ir/reference_call.h"

static int tensor(const reference_call *k, const char *name, bool output) {
  for (int t = output ? k->op->n_inputs : 0; t < k->op->n_args; t++)
    if (strcmp(k->op->tensors[t].name, name) == 0) return t;
  ck_abort_msg("no tensor %s", name);
}

typedef struct answer {
  double value, magnitude, moved;
} answer;

static answer ask(ir_evaluator *ev, int output, const int64_t *coords) {
  arke_error err = ARKE_ERROR_INIT;
  answer a;
  arke_status status = ir_evaluator_eval(ev, output, coords, &a.value, &a.magnitude, &err);
  if (status == ARKE_OK) status = ir_evaluator_casts(ev, output, coords, &a.moved, &err);
  ck_assert_msg(status == ARKE_OK, "%s", err.text);
  return a;
}

static void place(const reference_call *k, int t, int64_t number, int64_t coords[LIMIT_RANK]) {
  for (int i = k->rank[t] - 1; i >= 0; i--) {
    coords[i] = number % k->shape[t][i];
    number /= k->shape[t][i];
  }
}

static bool same(double a, double b) {
  return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b));
}

/* The first text reads a temporary in lines; the second has its definition in its place, and so none. */
static const struct {
  const char *lines, *inlined;
} PAIRS[] = {
    {"f(X: f32[M,N]) -> (Y: f32[M]) { T[i,j] = exp(X[i,j]); Y[i] = sum(j) T[i,j] * X[i,j] }",
     "f(X: f32[M,N]) -> (Y: f32[M]) { Y[i] = sum(j) exp(X[i,j]) * X[i,j] }"},
    {"f(X: f32[M,N]) -> (Y: f32[M]) { T[i,j] = sum(k) X[i,k] * X[j,k]; Y[i] = max(j: j < M) T[i,j] }",
     "f(X: f32[M,N]) -> (Y: f32[M]) { Y[i] = max(j: j < M) sum(k) X[i,k] * X[j,k] }"},
    {"f(X: f32[M,N]) -> (Y: f32[M,N]) { T[i,j] = X[i,j] + j; Y[i,j] = sum(t: t <= j) T[i,j - t] }",
     "f(X: f32[M,N]) -> (Y: f32[M,N]) { Y[i,j] = sum(t: t <= j) (X[i,j - t] + (j - t)) }"},
    {"f(X: f32[M,N]) -> (Y: f32[M]) { T[i,j] = X[i,j] * X[i,j]; "
     "Y[i] = sum(j: 2 * j + 1 < N) (j % 3 == 0 ? T[i,2 * j + 1] : T[i,2 * j]) }",
     "f(X: f32[M,N]) -> (Y: f32[M]) { "
     "Y[i] = sum(j: 2 * j + 1 < N) (j % 3 == 0 ? X[i,2 * j + 1] * X[i,2 * j + 1] : X[i,2 * j] * X[i,2 * j]) "
     "}"},
    {"f(X: f32[M,N]) -> (Y: f32[M,N]) { T[i,j] = 2 * X[i,j]; Y[i,j] = sum(k: k < 5) T[i,j + k - 2] else 3.0 "
     "}",
     "f(X: f32[M,N]) -> (Y: f32[M,N]) { "
     "Y[i,j] = sum(k: k < 5) (j + k - 2 < 0 || j + k - 2 >= N ? 3.0 : 2 * X[i,j + k - 2]) }"},
    {"f(X: f32[M,N]) -> (Y: f32[M]) { T[i,j] = sum(k: k <= j) cast<bf16>(X[i,k] + X[i,j]); "
     "U[i,j] = T[i,j] > 0 ? T[i,j] : X[i,j]; Y[i] = sum(j) U[i,j] * T[i,j] }",
     "f(X: f32[M,N]) -> (Y: f32[M]) { Y[i] = sum(j) ((sum(k: k <= j) cast<bf16>(X[i,k] + X[i,j])) > 0 "
     "? (sum(k: k <= j) cast<bf16>(X[i,k] + X[i,j])) : X[i,j]) * (sum(k: k <= j) cast<bf16>(X[i,k] + "
     "X[i,j])) }"},
    {"f(X: f32[M,N]) -> (Y: f32[M]) { T[i,j] = X[i,j] > 0 ? j : -j; Y[i] = sum(j) T[i,j] * X[i,j] }",
     "f(X: f32[M,N]) -> (Y: f32[M]) { Y[i] = sum(j) (X[i,j] > 0 ? j : -j) * X[i,j] }"},
    {"f(X: f32[...,N]) -> (Y: f32[...]) { T[...,j] = exp(X[...,j]); Y[...] = sum(j) T[...,j] * X[...,j] }",
     "f(X: f32[...,N]) -> (Y: f32[...]) { Y[...] = sum(j) exp(X[...,j]) * X[...,j] }"},
};

static bool has_leading(const char *text) {
  return strstr(text, "...") != NULL;
}

START_TEST(lines_are_elements) {
  static const char *const SIZES[] = {"M=3 N=7", "M=2 N=255", "M=2 N=300"};
  for (size_t n = 0; n < COUNT_OF(SIZES); n++) {
    reference_call k, plain;
    char bindings[64];
    snprintf(bindings, sizeof bindings, "%s",
             has_leading(PAIRS[_i].lines) ? strchr(SIZES[n], 'N') : SIZES[n]);
    if (has_leading(PAIRS[_i].lines)) strcat(bindings, " ...=3x2");
    reference_call_open(&k, PAIRS[_i].lines, bindings, 1);
    reference_call_open(&plain, PAIRS[_i].inlined, bindings, 1);
    ir_evaluator *lines = reference_call_evaluator(&k), *single = reference_call_evaluator(&plain);
    for (int64_t i = 0; i < ir_tensor_elements(&k.p, 1); i++) {
      int64_t coords[LIMIT_RANK];
      place(&k, 1, i, coords);
      answer got = ask(lines, 1, coords), want = ask(single, 1, coords);
      bool near = fabs(got.magnitude - want.magnitude) <= 1e-12 * want.magnitude;
      ck_assert_msg(same(got.value, want.value) && near,
                    "%s, %s: element %lld is %.17g (%.17g), %.17g (%.17g) without lines", PAIRS[_i].lines,
                    bindings, (long long)i, got.value, got.magnitude, want.value, want.magnitude);
    }
    ir_evaluator_destroy(lines);
    ir_evaluator_destroy(single);
    reference_call_close(&k);
    reference_call_close(&plain);
  }
}
END_TEST

/* --- attention to what was appended ----------------------------------------------------------------------
 */

enum { N = 9, H = 4, G = 2, D = 5, E = 3, P = 13, Z = 3, B = 4, W = 4 };
static const int32_t TABLE[B][W] = {{7, 2, 11, 0}, {1, 99, -5, 99}, {3, 99, 99, 99}, {12, 5, 4, 9}};
static const int32_t LENS[B] = {10, 3, 0, 12}, CU_Q[B + 1] = {0, 4, 6, 6, 8}; /* row 8 is no request's */

typedef struct cache {
  double k[P][Z][G][D], v[P][Z][G][E];
} cache;

static double input(const reference_call *k, const char *name, int64_t at) {
  int t = tensor(k, name, false);
  return dtype_load(ir_tensor_dtype(&k->p, t), k->memory[t], at);
}

static int request_of(int n) {
  int g = 0;
  for (int b = 0; b < B; b++) g += CU_Q[b + 1] <= n;
  return g;
}

/* The caches as they are after the new rows are written. */
static void append(const reference_call *k, dtype stored, double sk, double sv, cache *c) {
  for (int64_t i = 0; i < (int64_t)P * Z * G * D; i++) (&c->k[0][0][0][0])[i] = input(k, "Kp", i);
  for (int64_t i = 0; i < (int64_t)P * Z * G * E; i++) (&c->v[0][0][0][0])[i] = input(k, "Vp", i);
  for (int n = 0; n < N; n++) {
    int g = request_of(n);
    if (g == B) continue;
    int at = n - CU_Q[g + 1] + LENS[g];
    for (int j = 0; j < G; j++) {
      for (int d = 0; d < D; d++)
        c->k[TABLE[g][at / Z]][at % Z][j][d] = dtype_round(stored, input(k, "K", (n * G + j) * D + d) / sk);
      for (int e = 0; e < E; e++)
        c->v[TABLE[g][at / Z]][at % Z][j][e] = dtype_round(stored, input(k, "V", (n * G + j) * E + e) / sv);
    }
  }
}

/* Query n's head h over the keys up to its own: E columns, and lse. */
static void attend(const reference_call *k, const cache *c, double sk, double sv, int n, int h,
                   double out[E + 1]) {
  dtype t = ir_tensor_dtype(&k->p, 0);
  int g = request_of(n);
  double most = -INFINITY, sum = 0, score[W * Z];
  int keys = g == B ? 0 : n - CU_Q[g + 1] + LENS[g] + 1;
  for (int key = 0; key < keys; key++) {
    const double *row = c->k[TABLE[g][key / Z]][key % Z][h / (H / G)];
    score[key] = 0;
    for (int d = 0; d < D; d++) score[key] += input(k, "Q", (n * H + h) * D + d) * row[d] * sk / sqrt(D);
    most = fmax(most, score[key]);
  }
  for (int e = 0; e <= E; e++) out[e] = 0;
  for (int key = 0; key < keys; key++) {
    const double *row = c->v[TABLE[g][key / Z]][key % Z][h / (H / G)], weight = exp(score[key] - most);
    sum += weight;
    for (int e = 0; e < E; e++) out[e] += dtype_round(t, weight) * row[e] * sv;
  }
  for (int e = 0; e < E && sum > 0; e++) out[e] /= sum;
  out[E] = sum > 0 ? most + log(sum) : -INFINITY;
}

static void fill_places(reference_call *k) {
  memcpy(k->memory[tensor(k, "table", false)], TABLE, sizeof TABLE);
  memcpy(k->memory[tensor(k, "lens", false)], LENS, sizeof LENS);
  memcpy(k->memory[tensor(k, "cu_q", false)], CU_Q, sizeof CU_Q);
}

static void check_near(double got, double want, const char *what, int n, int h) {
  bool near = same(got, want) || fabs(got - want) <= 1e-12 * (1 + fabs(want));
  ck_assert_msg(near, "%s of row %d, head %d: %.17g, loops give %.17g", what, n, h, got, want);
}

static const struct {
  const char *op, *types;
  double sk, sv;
} APPENDS[] = {
    {"paged_varlen_append_attention", "T=f32", 1, 1},
    {"paged_varlen_append_attention", "T=bf16", 1, 1},
    {"paged_varlen_append_fp8_attention", "T=f16 U=e4m3", 0.375, 1.5},
};

START_TEST(appended_rows_are_read) {
  reference_call k;
  char bindings[160];
  snprintf(bindings, sizeof bindings, "%s N=%d H=%d G=%d D=%d E=%d P=%d Z=%d B=%d W=%d causal=true",
           APPENDS[_i].types, N, H, G, D, E, P, Z, B, W);
  reference_call_open(&k, ir_catalogue_find(APPENDS[_i].op, NULL)->text, bindings, 1);
  fill_places(&k);
  double sk = APPENDS[_i].sk, sv = APPENDS[_i].sv;
  bool scaled = strstr(APPENDS[_i].op, "fp8") != NULL;
  if (scaled) dtype_store(DTYPE_F32, k.memory[tensor(&k, "sk", false)], 0, sk);
  if (scaled) dtype_store(DTYPE_F32, k.memory[tensor(&k, "sv", false)], 0, sv);
  int o = tensor(&k, "O", true), lse = tensor(&k, "lse", true), kp = tensor(&k, "Kp", true);
  cache *c = calloc(1, sizeof *c);
  ck_assert_ptr_nonnull(c);
  append(&k, ir_tensor_dtype(&k.p, kp), sk, sv, c);
  ir_evaluator *ev = reference_call_evaluator(&k);
  for (int n = N - 1; n >= 0; n--)
    for (int h = 0; h < H; h++) {
      double want[E + 1];
      attend(&k, c, sk, sv, n, h, want);
      for (int e = 0; e < E; e++) check_near(ask(ev, o, (int64_t[]){n, h, e}).value, want[e], "O", n, h);
      check_near(ask(ev, lse, (int64_t[]){n, h}).value, want[E], "lse", n, h);
    }
  for (int64_t i = 0; i < (int64_t)P * Z * G * D; i++) {
    int64_t coords[LIMIT_RANK];
    place(&k, kp, i, coords);
    double got = dtype_round(ir_tensor_dtype(&k.p, kp), ask(ev, kp, coords).value);
    ck_assert_msg(got == (&c->k[0][0][0][0])[i], "Kp at %lld", (long long)i);
  }
  ir_evaluator_destroy(ev);
  free(c);
  reference_call_close(&k);
}
END_TEST

/* Each element asked of an evaluator of its own: what is remembered, of which kind, changes nothing. */
START_TEST(remembered_is_computed) {
  reference_call k;
  char bindings[160];
  snprintf(bindings, sizeof bindings,
           "T=f16 N=%d H=%d G=%d D=%d E=%d P=%d Z=%d B=%d W=%d R=12 F=2 causal=true left=4", N, H, G, D, E, P,
           Z, B, W);
  reference_call_open(&k, ir_catalogue_find("paged_varlen_append_rope_attention", NULL)->text, bindings, 1);
  fill_places(&k);
  ir_evaluator *all = reference_call_evaluator(&k);
  for (int t = k.op->n_inputs; t < k.op->n_args; t++)
    for (int64_t i = 0; i < ir_tensor_elements(&k.p, t); i += 3) {
      int64_t coords[LIMIT_RANK];
      place(&k, t, i, coords);
      ir_evaluator *own = reference_call_evaluator(&k);
      answer got = ask(all, t, coords), want = ask(own, t, coords);
      ir_evaluator_destroy(own);
      ck_assert_msg(
          same(got.value, want.value) && same(got.magnitude, want.magnitude) && same(got.moved, want.moved),
          "%s, element %lld: %.17g %.17g %.17g, alone %.17g %.17g %.17g", k.op->tensors[t].name, (long long)i,
          got.value, got.magnitude, got.moved, want.value, want.magnitude, want.moved);
    }
  ir_evaluator_destroy(all);
  reference_call_close(&k);
}
END_TEST

/* Verifying a long prompt appended to longer pages samples elements, each of which is a row of scores. */
START_TEST(work_is_keys_times_width) {
  enum { KEYS = 1024, WIDTH = 64, NEW = 256, PAGE = 64 };
  static const struct {
    const char *op, *types;
    int each; /* parts of an expression for each element of a key */
  } OPS[] = {{"paged_varlen_append_attention", "T=bf16", 6},
             {"paged_varlen_append_rope_attention", "T=bf16", 40},
             {"paged_varlen_append_fp8_attention", "T=bf16 U=e4m3", 14}};
  reference_call k;
  char bindings[200];
  snprintf(bindings, sizeof bindings, "%s N=%d H=2 G=1 D=%d E=%d P=%d Z=%d B=1 W=%d%s causal=true",
           OPS[_i].types, NEW, WIDTH, WIDTH, KEYS / PAGE, PAGE, KEYS / PAGE,
           strstr(OPS[_i].op, "rope") ? " R=1024 F=32" : "");
  reference_call_open(&k, ir_catalogue_find(OPS[_i].op, NULL)->text, bindings, 1);
  int32_t *table = k.memory[tensor(&k, "table", false)], *cu_q = k.memory[tensor(&k, "cu_q", false)];
  for (int w = 0; w < KEYS / PAGE; w++) table[w] = KEYS / PAGE - 1 - w;
  *(int32_t *)k.memory[tensor(&k, "lens", false)] = KEYS;
  cu_q[0] = 0, cu_q[1] = NEW;
  ir_evaluator *ev = reference_call_evaluator(&k);
  int o = tensor(&k, "O", true);
  ask(ev, tensor(&k, "Kp", true), (int64_t[]){0, 0, 0, 0}); /* where rows go is found once */
  int64_t found = ir_evaluator_work(ev);
  ask(ev, o, (int64_t[]){NEW - 1, 1, 0});
  int64_t first = ir_evaluator_work(ev) - found;
  ck_assert_msg(first < (int64_t)2 * KEYS * (OPS[_i].each * WIDTH + 100), "%s: the first element takes %lld",
                OPS[_i].op, (long long)first);
  for (int e = 1; e < WIDTH; e++) ask(ev, o, (int64_t[]){NEW - 1, 1, e});
  int64_t others = (ir_evaluator_work(ev) - found - first) / (WIDTH - 1);
  ck_assert_msg(others < KEYS * 120, "%s: a further element of the row takes %lld", OPS[_i].op,
                (long long)others);
  ir_evaluator_destroy(ev);
  reference_call_close(&k);
}
END_TEST

Suite *reference_lines_suite(void) {
  Suite *s = suite_create("reference lines");
  TCase *t = tcase_create("lines");
  tcase_set_timeout(t, 60);
  tcase_add_loop_test(t, lines_are_elements, 0, (int)COUNT_OF(PAIRS));
  tcase_add_loop_test(t, appended_rows_are_read, 0, (int)COUNT_OF(APPENDS));
  tcase_add_test(t, remembered_is_computed);
  tcase_add_loop_test(t, work_is_keys_times_width, 0, 3);
  suite_add_tcase(s, t);
  return s;
}
