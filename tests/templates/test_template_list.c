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

/* Parameters that a check may look at. */
static uint32_t params_of(const kernel_template *k, int check) {
  uint32_t params = 0;
  for (int i = 0; i <= check; i++) params |= k->checks[i].params;
  return params;
}

/* What a check says does not depend on other parameters than its own, and judging says it too, where the
 * checks before it have nothing to say. */
static void run_checks(const kernel_template *k, const ir_problem *p, const target *t,
                       int refused[TEMPLATE_CHECKS]) {
  const space *s = k->space(t);
  arena a = ARENA_INIT;
  const void *prepared = k->prepare(p, t, &a);
  ck_assert_ptr_nonnull(prepared);
  for (uint64_t i = 0; i < 4000; i++) {
    config c, other;
    double ns;
    template_reason reason = TEMPLATE_OK;
    draw(s, UINT32_MAX, 2 * i, &c);
    for (int n = 0; n < TEMPLATE_CHECKS && k->checks[n].check && reason == TEMPLATE_OK; n++) {
      reason = k->checks[n].check(prepared, t, &c);
      other = c;
      draw(s, ~params_of(k, n), 2 * i + 1, &other);
      ck_assert_msg(k->checks[n].check(prepared, t, &other) == reason,
                    "%s looks at more than its parameters in check %d", k->name, n);
      template_reason judged = k->judge(prepared, t, &t->rates, &other, &ns);
      ck_assert_msg(reason == TEMPLATE_OK || judged == reason, "%s judges %s otherwise: %s", k->name,
                    template_reason_name(reason), template_reason_name(judged));
      refused[n] += reason != TEMPLATE_OK;
    }
  }
  arena_release(&a);
}

START_TEST(checks_depend_on_their_parameters_alone) {
  const target *t = target_find("sm_90a", NULL);
  static const char *const texts[] = {
      "m(X: bf16[64,256], W: bf16[512,256]) -> (Y: bf16[64,512]) { Y[m,n] = sum(k) X[m,k] * W[n,k] }",
      "n(X: bf16[5,256], W: e4m3[512,256]) -> (Y: bf16[5,512])"
      " { Y[m,n] = sum(k) X[m,k] * cast<bf16>(W[n,k]) }",
      "g(X: bf16[300,256], W: bf16[3,512,256], ends: i32[3]) -> (Y: bf16[300,512])"
      " { g[r] = sum(e: ends[e] <= r) 1; Y[r,n] = g[r] < 3 ? sum(k) X[r,k] * W[g[r],n,k] : 0 }",
      "a(Q: bf16[2,300,64], K: bf16[2,400,64], V: bf16[2,400,64]) -> (O: bf16[2,300,64])"
      " { A[h,q,k] = sum(d) Q[h,q,d] * K[h,k,d]; m[h,q] = max(k: k <= q + 100) A[h,q,k];"
      " O[h,q,d] = sum(k: k <= q + 100) cast<bf16>(exp(A[h,q,k] - m[h,q])) * V[h,k,d] }",
      "r(X: bf16[64,256]) -> (Y: bf16[64]) { Y[m] = sum(n) X[m,n] }"};
  for (int i = 0; i < template_count(); i++) {
    const kernel_template *k = template_get(i);
    int refused[TEMPLATE_CHECKS] = {0};
    for (int n = 0; n < TEMPLATE_CHECKS; n++) {
      ck_assert_int_eq(k->checks[n].check != NULL, k->checks[n].params != 0);
      ck_assert(!k->checks[n].check || n == 0 || k->checks[n - 1].check);
    }
    for (size_t j = 0; k->checks[0].check && j < COUNT_OF(texts); j++) {
      arena a = ARENA_INIT;
      const ir_op *op;
      ir_problem p;
      arke_error err = ARKE_ERROR_INIT;
      ck_assert_msg(ir_op_parse(&a, texts[j], &op, &err) == ARKE_OK, "%s", err.text);
      ck_assert_msg(ir_problem_bind(op, "", &p, &err) == ARKE_OK, "%s", err.text);
      if (k->fits(&p, t, NULL) == TEMPLATE_OK) run_checks(k, &p, t, refused);
      arena_release(&a);
    }
    for (int n = 0; n < TEMPLATE_CHECKS && k->checks[n].check; n++)
      ck_assert_msg(refused[n] > 100, "%s: check %d was seen to refuse %d points", k->name, n, refused[n]);
  }
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
  tcase_set_timeout(tests, 60);
  tcase_add_test(tests, every_template_is_complete);
  tcase_add_test(tests, checks_depend_on_their_parameters_alone);
  tcase_add_test(tests, reasons_have_names_and_texts);
  return tests;
}
