/* Operators with temporaries over axes that meet in no argument: results on the emulator with them made slice
 * by slice, at slices that divide the axis and that do not, and with them kept; what lies in memory, and near
 * misses. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "template_cases.h"
#include "templates/compose.h"

static const kernel_template *compose(void) {
  return template_find("compose");
}

static const char gradients[] = "fused_linear_cross_entropy_gradients";
/* Weights of a softmax that are rounded, of more columns than rows and the other way round: its sums over
 * either axis are kept, whichever are fewer. */
static const char both_sides[] =
    "s(X: T[M,K], W: T[N,K], A: T[N,P], B: T[M,P]) -> (Y: T[M,P], Z: T[N,P]) { L[m,n] = sum(k) X[m,k] * "
    "W[n,k];"
    " a[m] = max(n) L[m,n]; E[m,n] = cast<T>(exp(L[m,n] - a[m]) * (n + 2.0) / (N + m));"
    " Y[m,p] = sum(n) E[m,n] * A[n,p]; Z[n,p] = sum(m) E[m,n] * B[m,p] }";

static const struct {
  const char *text, *bindings, *settings;
} cases[] = {
    {gradients, "T=bf16 N=24 H=16 V=520", "KEEP=0,SLICE=256"},       /* three slices, the last shorter */
    {gradients, "T=bf16 N=9 H=16 V=512", "KEEP=0,SLICE=256,PICK=1"}, /* two full ones */
    {gradients, "T=bf16 N=33 H=17 V=515 label_smoothing=0.1", "KEEP=0,SLICE=256"}, /* nothing is even */
    {gradients, "T=f16 N=20 H=16 V=257", "KEEP=0,SLICE=256"}, /* the last slice has one element */
    {gradients, "T=bf16 N=3 H=8 V=261", "KEEP=0,SLICE=256"},  /* fewer rows than any tile has */
    {gradients, "T=f32 N=20 H=12 V=300", "KEEP=0,SLICE=256"},
    {both_sides, "T=bf16 M=530 N=24 K=16 P=8", "KEEP=0,SLICE=256"},
    {both_sides, "T=bf16 M=19 N=301 K=13 P=7", "KEEP=0,SLICE=256"},
};

static const double targets[] = {3, -100, 0, 4, -100, 2, 1};

/* Targets in the first slice, of ignored rows none; in the last slice where `last`. */
static void fill(const template_case *c, bool last, double *values, run_view *views) {
  const ir_op *op = c->p.op;
  int64_t size = 0;
  for (int i = 0; i < op->n_axes; i++)
    if (strcmp(op->axes[i], "V") == 0) size = c->p.sizes[i];
  for (size_t i = 0; i < COUNT_OF(targets); i++)
    values[i] = last && targets[i] >= 0 ? (double)size - 1 - targets[i] : targets[i];
  template_input input = {"t", values, (int)COUNT_OF(targets)};
  template_fill_views(&c->p, &input, 1, views);
}

START_TEST(slices_are_right) {
  arena a = ARENA_INIT;
  run_view views[LIMIT_TENSORS] = {{0}};
  double values[COUNT_OF(targets)];
  template_case c = template_case_bind(&a, compose(), template_text_of(cases[_i].text), cases[_i].bindings,
                                       cases[_i].settings);
  c.sample = 10;
  lowered l = template_case_lower(&a, &c);
  ck_assert_int_eq(l.recipe.n_repeats, 1);
  ck_assert_int_eq(l.recipe.repeats[0].n, 3);
  for (int last = 0; last < (_i < 3 ? 2 : 1); last++) {
    fill(&c, last == 1, values, views);
    template_case_run_kernel(&c, l, views, -1);
  }
  arena_release(&a);
}
END_TEST

/* Rows with gaps, whose slices begin elsewhere than without. */
START_TEST(slices_of_views_are_right) {
  arena a = ARENA_INIT;
  run_view views[LIMIT_TENSORS] = {{0}};
  double values[COUNT_OF(targets)];
  template_case c = template_case_bind(&a, compose(), template_text_of(gradients), "T=bf16 N=21 H=24 V=520",
                                       "KEEP=0,SLICE=256");
  fill(&c, true, values, views);
  c.sample = 10;
  run_view_permuted(&c.p, 1, (int[]){0, 1}, 8, &views[1]);
  run_view_permuted(&c.p, 5, (int[]){1, 0}, 3, &views[5]);
  template_case_run(&a, &c, views, -1);
  arena_release(&a);
}
END_TEST

/* Logits kept, whole: odd sizes, rows that are ignored, targets at both ends. */
START_TEST(kept_ones_are_right) {
  static const struct {
    const char *text, *bindings;
  } kept[] = {
      {gradients, "T=bf16 N=40 H=72 V=520"}, {gradients, "T=bf16 N=33 H=17 V=515 label_smoothing=0.1"},
      {gradients, "T=f16 N=9 H=24 V=131"},   {gradients, "T=f32 N=20 H=12 V=300"},
      {gradients, "T=bf16 N=3 H=8 V=5"},     {both_sides, "T=bf16 M=53 N=24 K=16 P=8"},
  };
  for (size_t i = 0; i < COUNT_OF(kept); i++) {
    arena a = ARENA_INIT;
    run_view views[LIMIT_TENSORS] = {{0}};
    double values[COUNT_OF(targets)];
    template_case c = template_case_bind(&a, compose(), template_text_of(kept[i].text), kept[i].bindings,
                                         i % 2 ? "KEEP=1" : "KEEP=1,PICK=1");
    c.sample = 10;
    lowered l = template_case_lower(&a, &c);
    ck_assert_int_eq(l.recipe.n_repeats, 0);
    for (int last = 0; last < (i < 1 ? 2 : 1); last++) {
      fill(&c, last == 1, values, views);
      template_case_run_kernel(&c, l, views, -1);
    }
    arena_release(&a);
  }
}
END_TEST

static double value_of(const template_case *c, const recipe_expr *e) {
  recipe_binding env[LIMIT_AXES + 1];
  arke_error err = ARKE_ERROR_INIT;
  int64_t value = -1;
  for (int i = 0; i < c->p.op->n_axes; i++) env[i] = (recipe_binding){c->p.op->axes[i], c->p.sizes[i]};
  env[c->p.op->n_axes] = (recipe_binding){"SMS", c->t->rates.sm_count};
  ck_assert_msg(recipe_expr_eval(e, env, c->p.op->n_axes + 1, &value, &err) == ARKE_OK, "%s", err.text);
  return (double)value;
}

/* Left to itself: what is kept is less than a tenth of the logits, in every configuration that may be tried.
 */
START_TEST(logits_are_nowhere) {
  arena a = ARENA_INIT;
  arke_error err = ARKE_ERROR_INIT;
  template_case c =
      template_case_bind(&a, compose(), template_text_of(gradients), "T=bf16 N=8192 H=4096 V=128256", "");
  const void *prepared = compose()->prepare(&c.p, c.t, &a);
  const space *s = compose()->space(c.t);
  double ns, logits = 8192.0 * 128256 * 2;
  ck_assert_ptr_nonnull(prepared);
  ck_assert_int_eq(compose()->judge(prepared, c.t, &c.t->rates, &c.c, &ns), TEMPLATE_OK);
  int feasible = 0;
  for (int i = 0; i < s->params[COMPOSE_SLICE].n_values; i++) {
    config tried = c.c;
    tried.values[COMPOSE_SLICE] = s->params[COMPOSE_SLICE].values[i];
    if (compose()->judge(prepared, c.t, &c.t->rates, &tried, &ns) != TEMPLATE_OK) continue;
    kernel_way ways[KERNEL_MAX_WAYS];
    int n;
    ck_assert_msg(compose()->ways(&c.p, c.t, &tried, &(lower_options){0}, &a, ways, &n, &err) == ARKE_OK,
                  "%s", err.text);
    for (int w = 0; w < n; w++) {
      double bytes = value_of(&c, ways[w].rules->workspace_bytes);
      ck_assert_msg(bytes > 0 && bytes < logits / 10, "SLICE=%d: %.0f bytes, %.1f %% of the logits",
                    tried.values[COMPOSE_SLICE], bytes, 100 * bytes / logits);
    }
    feasible++;
  }
  ck_assert_int_gt(feasible, 3);
  c.c.values[COMPOSE_SLICE] = 0;
  ck_assert_int_eq(template_feasible(compose(), &c.p, c.t, &c.c), TEMPLATE_WORKSPACE);
  arena_release(&a);
}
END_TEST

/* With KEEP logits are multiplied once: three large products, and rows that are read once more give what the
 * loss needs, and what it changes by, in the logits' place. */
START_TEST(logits_are_made_once) {
  arena a = ARENA_INIT;
  template_part parts[TEMPLATE_PARTS];
  template_case c = template_case_bind(&a, compose(), template_text_of(gradients),
                                       "T=bf16 N=8192 H=4096 V=128256", "KEEP=1,SLICE=0,PICK=1");
  ck_assert_int_eq(template_feasible(compose(), &c.p, c.t, &c.c), TEMPLATE_OK);
  int n = compose()->parts(&c.p, c.t, &c.c, &a, parts), products = 0, rows = 0;
  for (int i = 0; i < n; i++) {
    products += strcmp(parts[i].k->name, "gemm") == 0;
    rows += strcmp(parts[i].k->name, "row") == 0 &&
            parts[i].problem->op->n_args > parts[i].problem->op->n_inputs + 1;
  }
  ck_assert_int_eq(products, 3);
  ck_assert_int_eq(rows, 1);
  ck_assert_int_le(n, 7);
  kernel_way ways[KERNEL_MAX_WAYS];
  arke_error err = ARKE_ERROR_INIT;
  ck_assert_int_eq(compose()->ways(&c.p, c.t, &c.c, &(lower_options){0}, &a, ways, &n, &err), ARKE_OK);
  ck_assert_double_lt(value_of(&c, ways[0].rules->workspace_bytes), 1.03 * 8192 * 128256 * 2);
  arena_release(&a);
}
END_TEST

/* The axis that leaves fewer sums to keep is the one that is sliced. */
START_TEST(the_shorter_sums_are_kept) {
  static const struct {
    const char *bindings, *whole;
  } either[] = {{"T=bf16 M=24 N=530 K=16 P=8", "N"}, {"T=bf16 M=530 N=24 K=16 P=8", "M"}};
  for (size_t i = 0; i < COUNT_OF(either); i++) {
    arena a = ARENA_INIT;
    template_case c = template_case_bind(&a, compose(), both_sides, either[i].bindings, "KEEP=0,SLICE=256");
    lowered l = template_case_lower(&a, &c);
    strbuf rounds = STRBUF_INIT;
    recipe_expr_print(&rounds, l.recipe.repeats[0].rounds);
    char expected[32];
    snprintf(expected, sizeof expected, "ceildiv(%s, 256)", either[i].whole);
    ck_assert_str_eq(strbuf_text(&rounds), expected);
    strbuf_free(&rounds);
    arena_release(&a);
  }
}
END_TEST

/* SLICE changes nothing where all axes of each temporary meet in some argument. */
START_TEST(what_has_no_such_temporary_is_not_sliced) {
  arena a = ARENA_INIT;
  template_case c =
      template_case_bind(&a, compose(), template_text_of("cross_entropy"), "T=bf16 N=70 V=600", "");
  config sliced = c.c;
  sliced.values[COMPOSE_SLICE] = 256;
  ck_assert_int_eq(c.c.values[COMPOSE_SLICE], 0);
  ck_assert_int_eq(template_feasible(compose(), &c.p, c.t, &c.c), TEMPLATE_OK);
  ck_assert_int_eq(template_feasible(compose(), &c.p, c.t, &sliced), TEMPLATE_REDUNDANT);
  lowered l = template_case_lower(&a, &c);
  c.c = sliced;
  lowered again = template_case_lower(&a, &c);
  ck_assert_int_eq(again.recipe.n_repeats, 0);
  ck_assert_str_eq(l.ptx, again.ptx);
  arena_release(&a);
}
END_TEST

/* What a search without a GPU tries has a full slice and a part of one. */
START_TEST(the_small_problem_has_two_slices) {
  arena a = ARENA_INIT;
  template_case c =
      template_case_bind(&a, compose(), both_sides, "T=bf16 M=128 N=3000 K=64 P=64", "KEEP=0,SLICE=256");
  ir_problem small;
  compose()->reduced_problem(&c.p, c.t, &c.c, 2, &small);
  ck_assert_int_gt(small.sizes[2], 256);
  ck_assert_int_lt(small.sizes[2], 512);
  c.sample = 10;
  template_case_run_reduced(&a, &c);
  arena_release(&a);
}
END_TEST

int main(void) {
  TCase *tests = template_tests("slices");
  tcase_add_loop_test(tests, slices_are_right, 0, (int)COUNT_OF(cases));
  tcase_add_test(tests, slices_of_views_are_right);
  tcase_add_test(tests, kept_ones_are_right);
  tcase_add_test(tests, logits_are_nowhere);
  tcase_add_test(tests, logits_are_made_once);
  tcase_add_test(tests, the_shorter_sums_are_kept);
  tcase_add_test(tests, what_has_no_such_temporary_is_not_sliced);
  tcase_add_test(tests, the_small_problem_has_two_slices);
  return template_tests_run("slices", tests);
}
