#include "backward_forms.h"

#include <check.h>

#include "template_cases.h"
#include "templates/backward.h"

void backward_form_check(const backward_form *form) {
  arena a = ARENA_INIT;
  strbuf s = STRBUF_INIT;
  const ir_op *op;
  ir_problem p;
  backward_match m;
  ck_assert_int_eq(ir_op_parse(&a, template_text_of(form->op), &op, NULL), ARKE_OK);
  ck_assert_int_eq(ir_problem_bind(op, form->bindings, &p, NULL), ARKE_OK);
  template_reason reason = backward_match_op(&p, &a, &m, &s, NULL);
  if (reason != TEMPLATE_OK) ir_form_print(&m.form, &s);
  ck_assert_msg(reason == TEMPLATE_OK, "%s", strbuf_text(&s));
  backward_print(&m, &s);
  ck_assert_str_eq(strbuf_text(&s), form->expected);
  strbuf_free(&s);
  arena_release(&a);
}
