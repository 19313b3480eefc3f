/* Times that no run of a configuration can beat: below every measured one, and near enough to be of use. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "generator/target_list.h"
#include "templates/template.h"
#include "templates_suites.h"
#include "tests/support/thinned.h"

static const char LIST[] = "tests/templates/measured_products.txt";

static const target *hopper(void) {
  return target_find("sm_90a", NULL);
}

static void bind(arena *a, const char *op, const char *types, int64_t m, int64_t n, int64_t k,
                 ir_problem *p) {
  arke_error err = ARKE_ERROR_INIT;
  const ir_catalogue_entry *entry;
  const ir_op *parsed;
  ck_assert_msg(ir_operator_find(a, op, &entry, &err) == ARKE_OK, "%s", err.text);
  ck_assert_int_eq(ir_op_parse(a, entry->text, &parsed, &err), ARKE_OK);
  const char *bindings =
      arena_printf(a, "%s M=%lld N=%lld K=%lld", types, (long long)m, (long long)n, (long long)k);
  ck_assert_msg(ir_problem_bind(parsed, bindings, p, &err) == ARKE_OK, "%s", err.text);
}

static double ask(const kernel_template *k, const ir_problem *p, const config *c) {
  arena a = ARENA_INIT;
  const target *t = hopper();
  const void *prepared = k->prepare(p, t, &a);
  double ns = k->bound_ns(p, prepared, t, &t->rates, c);
  arena_release(&a);
  return ns;
}

static double bound_of(const kernel_template *k, const ir_problem *p, const char *text) {
  const target *t = hopper();
  config defaults, c;
  arke_error err = ARKE_ERROR_INIT;
  k->defaults(p, t, &defaults);
  ck_assert_msg(config_parse(k->space(t), text, &defaults, &c, &err) == ARKE_OK, "%s", err.text);
  return fmax(ask(k, p, NULL), ask(k, p, &c));
}

START_TEST(no_measured_time_is_below_its_bound) {
  FILE *f = fopen(LIST, "r");
  ck_assert_msg(f != NULL, "%s cannot be read", LIST);
  char line[512], op[32], name[32], text[400];
  long long m, n, k;
  double ns, nearest = 0;
  int read = 0;
  while (fgets(line, sizeof line, f) != NULL) {
    if (line[0] == '#') continue;
    ck_assert_int_eq(sscanf(line, "%31s %lldx%lldx%lld %31s %399s %lf", op, &m, &n, &k, name, text, &ns), 7);
    arena a = ARENA_INIT;
    ir_problem p;
    bind(&a, op, "T=bf16", m, n, k, &p);
    double bound = bound_of(template_find(name), &p, text);
    ck_assert_msg(bound > 0 && bound < ns, "%s: %.0f ns at least, but %.0f were measured", line, bound, ns);
    nearest = fmax(nearest, bound / ns);
    read++;
    arena_release(&a);
  }
  fclose(f);
  ck_assert_int_gt(read, 100);
  ck_assert_double_gt(nearest, 0.9); /* a bound of nothing would pass too */
}
END_TEST

#define TILE "BLOCK_K=64,CONSUMERS=2,CLUSTER_M=1,CLUSTER_N=1,GROUP=8,STREAM_K=0,SWAP=0,"

/* What each part of the bound says, at a problem whose flops take 126 us at the highest clock. */
START_TEST(each_limit_is_felt) {
  arena a = ARENA_INIT;
  ir_problem p;
  bind(&a, "matmul", "T=bf16", 4096, 4096, 4096, &p);
  const kernel_template *gemm = template_find("gemm");
  double large = bound_of(gemm, &p, TILE "BLOCK_M=128,BLOCK_N=256,STAGES=4,SCHEDULE=2,PERSISTENT=1,EVEN=0");
  double narrow = bound_of(gemm, &p, TILE "BLOCK_M=128,BLOCK_N=32,STAGES=4,SCHEDULE=2,PERSISTENT=1,EVEN=0");
  double shallow = bound_of(gemm, &p, TILE "BLOCK_M=128,BLOCK_N=64,STAGES=2,SCHEDULE=2,PERSISTENT=1,EVEN=0");
  double deep = bound_of(gemm, &p, TILE "BLOCK_M=128,BLOCK_N=64,STAGES=6,SCHEDULE=2,PERSISTENT=1,EVEN=0");
  double even = bound_of(gemm, &p, TILE "BLOCK_M=128,BLOCK_N=160,STAGES=4,SCHEDULE=0,PERSISTENT=1,EVEN=1");
  double uneven = bound_of(gemm, &p, TILE "BLOCK_M=128,BLOCK_N=160,STAGES=4,SCHEDULE=0,PERSISTENT=1,EVEN=0");
  ck_assert_double_ge(large, 126e3);
  ck_assert_double_le(large, 136e3);
  ck_assert_double_gt(narrow, 2 * large); /* copies */
  ck_assert_double_gt(shallow, 2 * deep); /* stages that wait to be filled */
  ck_assert_double_lt(even, uneven);      /* a last wave that is not full */
  arena_release(&a);
}
END_TEST

/* The cost model never expects less than the hardware's limits, but for a little where it is least sure. */
START_TEST(the_model_keeps_to_the_bounds) {
  arena a = ARENA_INIT;
  ir_problem p;
  bind(&a, "linear", "T=f16", 2000, 3000, 1096, &p);
  const kernel_template *gemm = template_find("gemm");
  const target *t = hopper();
  const space *s = gemm->space(t);
  int asked = 0;
  for (int64_t i = 0; i < space_size(s); i += WITH_SANITIZERS(997, 97)) {
    config c;
    space_point(s, i, &c);
    if (template_feasible(gemm, &p, t, &c) != TEMPLATE_OK) continue;
    double bound = ask(gemm, &p, &c);
    ck_assert_double_gt(bound, 0);
    ck_assert_double_lt(bound, 1.1 * template_cost_ns(gemm, &p, t, &t->rates, &c));
    asked++;
  }
  ck_assert_int_gt(asked, WITH_SANITIZERS(30, 300));
  arena_release(&a);
}
END_TEST

/* By operations where that is all that is known, and not at all where it is less. */
START_TEST(other_units_have_a_floor) {
  arena a = ARENA_INIT;
  ir_problem p;
  const target *t = hopper();
  const kernel_template *mma = template_find("mma");
  bind(&a, "matmul", "T=bf16", 4096, 4096, 4096, &p);
  double floor = ask(mma, &p, NULL), least = ir_flops(&p) / target_boost_flops_per_s(&t->rates) * 1e9;
  ck_assert_double_gt(floor, least);
  ck_assert_double_lt(floor, 1.5 * least);
  arke_error err = ARKE_ERROR_INIT;
  const ir_op *op;
  ck_assert_int_eq(ir_op_parse(&a,
                               "half(A: T[M,K], B: T[K,N]) -> (Y: T[M,N]) { Y[m,n] = sum(k: k <= m) "
                               "A[m,k] * B[k,n] }",
                               &op, &err),
                   ARKE_OK);
  ck_assert_msg(ir_problem_bind(op, "T=bf16 M=64 N=64 K=64", &p, &err) == ARKE_OK, "%s", err.text);
  ck_assert_double_eq(ask(mma, &p, NULL), 0); /* half of the terms are left out */
  arena_release(&a);
}
END_TEST

TCase *bound_tests(void) {
  TCase *tests = tcase_create("bounds");
  tcase_set_timeout(tests, 60);
  tcase_add_test(tests, no_measured_time_is_below_its_bound);
  tcase_add_test(tests, each_limit_is_felt);
  tcase_add_test(tests, the_model_keeps_to_the_bounds);
  tcase_add_test(tests, other_units_have_a_floor);
  return tests;
}
