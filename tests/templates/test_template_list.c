#include <string.h>

#include "base/random.h"
#include "gemm_classes.h"
#include "templates_suites.h"

START_TEST(every_template_is_complete) {
  ck_assert_int_gt(template_count(), 0);
  for (int i = 0; i < template_count(); i++) {
    const kernel_template *t = template_get(i);
    ck_assert_ptr_eq(template_find(t->name), t);
    ck_assert_str_ne(t->meaning, "");
    ck_assert(t->fits && t->space && t->defaults && t->prepare && t->judge && t->lower && t->reduced_problem);
    for (int k = 0; k < target_count(); k++) {
      const space *s = t->space(target_get(k));
      ck_assert_str_eq(s->template_name, t->name);
      ck_assert_int_le(s->n_params, LIMIT_PARAMS);
      for (int p = 0; p < s->n_params; p++) {
        const space_param *param = &s->params[p];
        ck_assert_str_ne(param->meaning, "");
        ck_assert_int_ge(param->n_values, 2);
        ck_assert_int_le(param->n_values, LIMIT_PARAM_VALUES);
        for (int v = 1; v < param->n_values; v++) ck_assert_int_gt(param->values[v], param->values[v - 1]);
      }
    }
  }
  ck_assert_ptr_null(template_find("gem"));
}
END_TEST

static void draw(const space *s, uint32_t params, uint64_t seed, config *c) {
  for (int p = 0; p < s->n_params; p++) {
    uint64_t number = random_u64(seed, (uint64_t)p);
    if (params >> p & 1) c->values[p] = s->params[p].values[number % (uint64_t)s->params[p].n_values];
  }
}

/* What is said of a shape does not depend on the other parameters, and judging says it too. */
static int check_shapes(const kernel_template *k, const ir_problem *p, const target *t) {
  const space *s = k->space(t);
  arena a = ARENA_INIT;
  const void *prepared = k->prepare(p, t, &a);
  int refused = 0;
  ck_assert_ptr_nonnull(prepared);
  for (uint64_t i = 0; i < 20000; i++) {
    config c;
    double ns;
    draw(s, UINT32_MAX, 2 * i, &c);
    template_reason reason = k->shape(t, &c);
    draw(s, ~k->shape_params, 2 * i + 1, &c);
    ck_assert_msg(k->shape(t, &c) == reason, "%s looks at more than its shape_params", k->name);
    template_reason judged = k->judge(prepared, t, &t->rates, &c, &ns);
    ck_assert_msg(reason == TEMPLATE_OK || judged == reason, "%s judges %s otherwise", k->name,
                  template_reason_name(reason));
    refused += reason != TEMPLATE_OK;
  }
  arena_release(&a);
  return refused;
}

START_TEST(shapes_depend_on_their_parameters_alone) {
  const target *t = target_find("sm_90a", NULL);
  static const char *const texts[] = {"m(X: bf16[64,256], W: bf16[512,256]) -> (Y: bf16[64,512])"
                                      " { Y[m,n] = sum(k) X[m,k] * W[n,k] }",
                                      "r(X: bf16[64,256]) -> (Y: bf16[64]) { Y[m] = sum(n) X[m,n] }"};
  int n = 0;
  for (int i = 0; i < template_count(); i++) {
    const kernel_template *k = template_get(i);
    ck_assert_int_eq(k->shape != NULL, k->shape_params != 0);
    for (size_t j = 0; k->shape && j < COUNT_OF(texts); j++) {
      arena a = ARENA_INIT;
      const ir_op *op;
      ir_problem p;
      arke_error err = ARKE_ERROR_INIT;
      ck_assert_msg(ir_op_parse(&a, texts[j], &op, &err) == ARKE_OK, "%s", err.text);
      ck_assert_msg(ir_problem_bind(op, "", &p, &err) == ARKE_OK, "%s", err.text);
      if (k->fits(&p, t, NULL) == TEMPLATE_OK) {
        ck_assert_int_gt(check_shapes(k, &p, t), 100);
        n++;
      }
      arena_release(&a);
    }
  }
  ck_assert_int_ge(n, 3);
}
END_TEST

START_TEST(reasons_have_names_and_texts) {
  for (int r = 0; r < TEMPLATE_REASON_COUNT; r++) {
    ck_assert_str_ne(template_reason_name((template_reason)r), "unknown");
    ck_assert_str_ne(template_reason_text((template_reason)r), "unknown reason");
  }
  ck_assert_str_eq(template_reason_name(TEMPLATE_SHARED_MEMORY), "shared_memory");
  ck_assert_str_eq(template_reason_name(TEMPLATE_REASON_COUNT), "unknown");
  ck_assert_str_eq(template_reason_text((template_reason)-1), "unknown reason");
}
END_TEST

TCase *template_list_tests(void) {
  TCase *tests = tcase_create("list");
  tcase_add_test(tests, every_template_is_complete);
  tcase_add_test(tests, shapes_depend_on_their_parameters_alone);
  tcase_add_test(tests, reasons_have_names_and_texts);
  return tests;
}
