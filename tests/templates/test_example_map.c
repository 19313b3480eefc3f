/* The documentation's template does what the documentation says: it is sound for every point of its space. */
#include <check.h>
#include <stdlib.h>

#include "emulator/emulator.h"
#include "example_map.h"
#include "run_lowered.h"

static const struct {
  const char *text, *bindings;
} cases[] = {
    {"axpy(X: T[N], Y: T[N]) -> (Z: T[N]) a: float = 0.5 { Z[i] = a * X[i] + Y[i] }", "T=f32 N=4096"},
    {"relu(X: T[N]) -> (Y: T[N]) { Y[i] = max(X[i], 0) }", "T=bf16 N=4096"},
    {"swish(X: T[N]) -> (Y: T[N]) { Y[i] = X[i] * sigmoid(X[i]) }", "T=f16 N=4096"},
    {"product(X: T[M,N], Y: T[M,N]) -> (Z: T[M,N]) { Z[i,j] = X[i,j] * Y[i,j] }", "T=i32 M=64 N=24"},
    {"widen(X: bf16[N], Y: f32[N]) -> (Z: f32[N]) { Z[i] = X[i] < 0 ? Y[i] : 2 * Y[i] + i % 3 }", "N=4096"},
};

START_TEST(every_point_computes_the_reduced_problem) {
  arena a = ARENA_INIT;
  arke_error err = ARKE_ERROR_INIT;
  const target *t = target_find("sm_90a", NULL);
  const ir_op *op;
  ir_problem p;
  ck_assert_msg(ir_op_parse(&a, cases[_i].text, &op, &err) == ARKE_OK, "%s", err.text);
  ck_assert_msg(ir_problem_bind(op, cases[_i].bindings, &p, &err) == ARKE_OK, "%s", err.text);
  ck_assert_int_eq(example_map.fits(&p, t, NULL), TEMPLATE_OK);
  const space *s = example_map.space(t);
  int feasible = 0;
  for (int64_t i = 0; i < space_size(s); i++) {
    config c;
    ir_problem small;
    lowered l;
    space_point(s, i, &c);
    if (template_feasible(&example_map, &p, t, &c) != TEMPLATE_OK) continue;
    feasible++;
    ck_assert(template_cost_ns(&example_map, &p, t, &t->rates, &c) > t->rates.launch_ns);
    example_map.reduced_problem(&p, t, &c, 2, &small);
    ck_assert_int_eq(template_feasible(&example_map, &small, t, &c), TEMPLATE_OK);
    ck_assert_msg(example_map.lower(&small, t, &c, NULL, &a, &l, &err) == ARKE_OK, "%s", err.text);
    device *d;
    ck_assert_msg(device_open_emulator(t->name, 1, &d, &err) == ARKE_OK, "%s", err.text);
    run_outcome o = run_lowered(d, &small, &l, 2, 0, (uint64_t)i, 0);
    ck_assert_msg(o.status == ARKE_OK && o.wrong == 0 && o.guards_intact, "point %lld: %s, %lld wrong",
                  (long long)i, o.err.text, (long long)o.wrong);
    ck_assert_int_eq(o.elements, ir_tensor_elements(&small, op->n_inputs));
    d->ops->close(d);
  }
  ck_assert_int_ge(feasible, 9);
  config c;
  example_map.defaults(&p, t, &c);
  ck_assert_int_eq(template_feasible(&example_map, &p, t, &c), TEMPLATE_OK);
  arena_release(&a);
}
END_TEST

START_TEST(what_is_no_map_is_refused) {
  static const char *const others[] = {
      "s(X: f32[N]) -> (Y: f32[N]) { Y[i] = sum(k) X[k] }",
      "b(X: f32[M,N], B: f32[N]) -> (Y: f32[M,N]) { Y[i,j] = X[i,j] + B[j] }",
      "t(X: f32[N,M]) -> (Y: f32[M,N]) { Y[i,j] = X[j,i] }",
  };
  arena a = ARENA_INIT;
  arke_error err = ARKE_ERROR_INIT;
  const ir_op *op;
  ck_assert_msg(ir_op_parse(&a, others[_i], &op, &err) == ARKE_OK, "%s", err.text);
  ir_problem p = {.op = op, .sizes = {64, 64}};
  strbuf detail = STRBUF_INIT;
  ck_assert_int_eq(example_map.fits(&p, target_find("sm_90a", NULL), &detail), TEMPLATE_OPERATOR);
  ck_assert_str_ne(strbuf_text(&detail), "");
  strbuf_free(&detail);
  arena_release(&a);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("the example template");
  TCase *tests = tcase_create("map");
  tcase_set_timeout(tests, 60);
  tcase_add_loop_test(tests, every_point_computes_the_reduced_problem, 0, (int)COUNT_OF(cases));
  tcase_add_loop_test(tests, what_is_no_map_is_refused, 0, 3);
  suite_add_tcase(suite, tests);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_ENV);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
