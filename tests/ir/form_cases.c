#include "tests/ir/form_cases.h"

#include <check.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "ir/ir_form.h"

static void check_line(const operator_case *c, const char *what, const char *got, const char *expected) {
  ck_assert_msg(strcmp(got, expected) == 0, "%s: %s\n  got:      %s\n  expected: %s", c->path, what, got,
                expected);
}

/* "sum(i1) exp(…)": what a reduction prints as, by a form that has nothing but it. */
static void print_alone(const ir_form *form, const ir_expr *e, strbuf *out) {
  static const char *const NAMES[] = {
#define X(NAME, name, meaning) [IR_RED_##NAME] = #name,
      IR_REDUCTIONS(X)
#undef X
  };
  strbuf_addf(out, "%s over %d as %s", NAMES[e->id], e->index, dtype_name(ir_form_type(form, e)));
  for (int l = 0; l < form->n_loops; l++)
    if (ir_form_free(form, e) >> l & 1) strbuf_addf(out, " for %d", l);
}

static void print_reductions(const ir_form *form, strbuf *out) {
  const ir_expr *list[16];
  int n = ir_form_reductions(form, list, 16);
  for (int i = 0; i < n; i++) {
    if (i > 0) strbuf_add(out, "; ");
    print_alone(form, list[i], out);
  }
}

/* "X: unit stride, unit": how each access of a tensor moves with each loop. */
static void print_motions(const ir_form *form, const char *tensor, strbuf *out) {
  static const char *const NAMES[] = {"none", "unit", "stride", "irregular"};
  bool first = true;
  for (int i = 0; i < form->n_accesses; i++) {
    const ir_access *x = &form->accesses[i];
    if (strcmp(form->problem->op->tensors[x->tensor].name, tensor) != 0) continue;
    if (!first) strbuf_add(out, ", ");
    first = false;
    for (int l = 0; l < form->n_loops; l++)
      strbuf_addf(out, l == 0 ? "%s" : " %s", NAMES[ir_form_motion(form, i, l)]);
    if (x->conditional) strbuf_add(out, " conditional");
  }
}

void check_form_section(const operator_case *c, const case_section *s, const ir_op *op) {
  ir_problem p;
  ir_form form, merged, longer, split, flat;
  arena a = ARENA_INIT;
  strbuf out = STRBUF_INIT;
  arke_error err = ARKE_ERROR_INIT;
  ck_assert_msg(ir_problem_bind(op, s->argument, &p, &err) == ARKE_OK, "%s: %s", c->path, err.text);
  arke_status status = ir_form_make(&p, &a, &form, &err);
  ck_assert_msg(s->n_lines > 0, "%s: a form that says nothing", c->path);
  for (int i = 0; i < s->n_lines; i++) {
    char *kind = s->lines[i], *rest = strchr(kind, ' ');
    ck_assert_msg(rest != NULL, "%s: %s", c->path, kind);
    *rest++ = '\0';
    strbuf_clear(&out);
    if (strcmp(kind, "error") == 0) {
      ck_assert_msg(status != ARKE_OK, "%s: has a form", c->path);
      check_line(c, "form's error", err.text, rest);
      continue;
    }
    ck_assert_msg(status == ARKE_OK, "%s: %s", c->path, err.text);
    char *expected = rest;
    if (strcmp(kind, "prints") == 0) {
      ir_form_print(&form, &out);
    } else if (strcmp(kind, "merged") == 0) {
      ck_assert_msg(ir_form_merge(&form, &a, &merged, &err) == ARKE_OK, "%s: %s", c->path, err.text);
      ir_form_print(&merged, &out);
    } else if (strcmp(kind, "longer") == 0) {
      ck_assert_msg(ir_form_drop_ones(&form, &a, &longer, &err) == ARKE_OK, "%s: %s", c->path, err.text);
      ck_assert_msg(ir_form_merge(&longer, &a, &merged, &err) == ARKE_OK, "%s: %s", c->path, err.text);
      ir_form_print(&merged, &out);
    } else if (strcmp(kind, "across") == 0) {
      ck_assert_msg(ir_form_merge_across_ones(&form, &a, &merged, &err) == ARKE_OK, "%s: %s", c->path,
                    err.text);
      ir_form_print(&merged, &out);
    } else if (strcmp(kind, "split") == 0) {
      ck_assert_msg(ir_form_split(&form, &a, &split, &err) == ARKE_OK, "%s: %s", c->path, err.text);
      ir_form_print(&split, &out);
    } else if (strcmp(kind, "flat") == 0) {
      bool done;
      ck_assert_msg(ir_form_flatten(&form, &a, &flat, &done, &err) == ARKE_OK && done, "%s: %s", c->path,
                    err.text);
      ir_form_print(&flat, &out);
    } else if (strcmp(kind, "reductions") == 0) {
      print_reductions(&form, &out);
    } else if (strcmp(kind, "motions") == 0) {
      expected = strchr(rest, ' ');
      ck_assert_msg(expected != NULL, "%s: motions of %s", c->path, rest);
      *expected++ = '\0';
      print_motions(&form, rest, &out);
    } else {
      ck_abort_msg("%s: unknown line %s", c->path, kind);
    }
    check_line(c, kind, strbuf_text(&out), expected);
  }
  strbuf_free(&out);
  arena_release(&a);
}
