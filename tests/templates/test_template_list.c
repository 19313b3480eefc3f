#include <string.h>

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
  tcase_add_test(tests, reasons_have_names_and_texts);
  return tests;
}
