#include "template_cases.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "emulator/emulator.h"
#include "generator/assemble.h"
#include "tests/support/failing_alloc.h"

enum { SM_COUNT = 2, SAMPLE = 2000 };

ir_problem template_bind(arena *a, const char *text, const char *bindings) {
  arke_error err = ARKE_ERROR_INIT;
  const ir_op *op;
  ir_problem p;
  ck_assert_msg(ir_op_parse(a, text, &op, &err) == ARKE_OK, "%s", err.text);
  ck_assert_msg(ir_problem_bind(op, bindings, &p, &err) == ARKE_OK, "%s: %s", text, err.text);
  return p;
}

/* A kernel made for a case, which may have changed since. */
typedef struct made_kernel {
  bool is_made;
  ir_problem p;
  config c;
  lowered l;
} made_kernel;

struct template_made {
  arena *a;                 /* that the case and its kernels live in */
  made_kernel whole, first; /* first: the first way alone */
};

static bool serves(const made_kernel *m, const template_case *c) {
  return m->is_made && memcmp(&m->p, &c->p, sizeof m->p) == 0 && memcmp(&m->c, &c->c, sizeof m->c) == 0;
}

const char *template_text_of(const char *op) {
  const ir_catalogue_entry *e = ir_catalogue_find(op, NULL);
  return e ? e->text : op;
}

void template_fill_views(const ir_problem *p, const template_input *inputs, int n, run_view *views) {
  for (int i = 0; i < p->op->n_inputs; i++)
    for (int k = 0; k < n; k++)
      if (inputs[k].name && strcmp(p->op->tensors[i].name, inputs[k].name) == 0) {
        views[i].values = inputs[k].values;
        views[i].n_values = inputs[k].n;
      }
}

template_case template_case_bind(arena *a, const kernel_template *k, const char *text, const char *bindings,
                                 const char *settings) {
  return template_case_bind_for(a, k, target_find("sm_90a", NULL), text, bindings, settings);
}

template_case template_case_bind_for(arena *a, const kernel_template *k, const target *t, const char *text,
                                     const char *bindings, const char *settings) {
  arke_error err = ARKE_ERROR_INIT;
  template_case c = {.k = k, .t = t, .p = template_bind(a, text, bindings)};
  c.made = ARENA_NEW(a, struct template_made);
  ck_assert_ptr_nonnull(c.made);
  c.made->a = a;
  config defaults;
  strbuf detail = STRBUF_INIT;
  template_reason reason = k->fits(&c.p, c.t, &detail);
  ck_assert_msg(reason == TEMPLATE_OK, "%s %s: %s, %s", text, bindings, template_reason_name(reason),
                strbuf_text(&detail));
  strbuf_free(&detail);
  k->defaults(&c.p, c.t, &defaults);
  ck_assert_msg(config_parse(k->space(c.t), settings, &defaults, &c.c, &err) == ARKE_OK, "%s", err.text);
  reason = template_feasible(k, &c.p, c.t, &c.c);
  ck_assert_msg(reason == TEMPLATE_OK || (*settings && reason == TEMPLATE_REDUNDANT), "%s %s %s: %s", text,
                bindings, settings, template_reason_name(reason));
  ck_assert(template_cost_ns(k, &c.p, c.t, &c.t->rates, &c.c) >= c.t->rates.launch_ns);
  return c;
}

/* The first way alone is in the whole, too. */
static lowered lower(arena *a, const template_case *c, bool first_way_only) {
  arke_error err = ARKE_ERROR_INIT;
  bool kept = c->made->a == a;
  made_kernel *m = first_way_only ? &c->made->first : &c->made->whole;
  if (kept && serves(&c->made->whole, c)) return c->made->whole.l;
  if (kept && serves(m, c)) return m->l;
  lowered l;
  lower_options options = {.first_way_only = first_way_only};
  arke_status status = c->k->lower(&c->p, c->t, &c->c, &options, a, &l, &err);
  ck_assert_msg(status == ARKE_OK, "%s: %s", c->p.op->text, err.text);
  if (kept) {
    m->is_made = true;
    memcpy(&m->p, &c->p, sizeof m->p);
    memcpy(&m->c, &c->c, sizeof m->c);
    m->l = l;
  }
  return l;
}

lowered template_case_lower(arena *a, const template_case *c) {
  return lower(a, c, c->first_way);
}

static run_views_result run(const template_case *c, const lowered *l, const run_view *views) {
  arke_error err = ARKE_ERROR_INIT;
  device *d;
  ck_assert_msg(device_open_emulator(c->t->name, 1, &d, &err) == ARKE_OK, "%s", err.text);
  run_views_result r = run_views(d, &c->p, l, SM_COUNT, views, 7, c->sample > 0 ? c->sample : SAMPLE);
  d->ops->close(d);
  return r;
}

static void check(const template_case *c, run_views_result r, int way) {
  strbuf point = STRBUF_INIT;
  config_print(c->k->space(c->t), &c->c, &point);
  ck_assert_msg(r.status == ARKE_OK && r.wrong == 0 && r.intact && (way < 0 || r.way == way),
                "%s\n%s: way %d, %s %lld of %lld wrong, %s%s", c->p.op->text, strbuf_text(&point), r.way,
                r.err.text, (long long)r.wrong, (long long)r.elements, r.first,
                r.intact ? "" : ", wrote elsewhere");
  strbuf_free(&point);
  ck_assert_int_gt(r.elements, 0);
}

void template_case_run_kernel(const template_case *c, lowered l, const run_view *views, int way) {
  check(c, run(c, &l, views), way);
}

static bool are_dense(const template_case *c, const run_view *views) {
  bool dense = true;
  for (int i = 0; views && i < c->p.op->n_args; i++)
    dense = dense && !views[i].strided && views[i].offset == 0;
  return dense;
}

/* Without views the first way is alone, as in a search, which compiles no other. Where any will do, those are
 * lowered when it refuses. */
void template_case_run(arena *a, const template_case *c, const run_view *views, int way) {
  lowered l = lower(a, c, way <= 0 && are_dense(c, views));
  run_views_result r = run(c, &l, views);
  if (r.status == ARKE_ERR_SHAPE && way < 0 && l.ways_left_out > 0) {
    l = lower(a, c, false);
    r = run(c, &l, views);
  }
  check(c, r, way);
}

void template_case_run_reduced(arena *a, const template_case *c) {
  template_case small = *c;
  c->k->reduced_problem(&c->p, c->t, &c->c, SM_COUNT, &small.p);
  template_reason reason = template_feasible(c->k, &small.p, c->t, &c->c);
  ck_assert_msg(template_is_built(reason), "%s: %s", c->p.op->text, template_reason_name(reason));
  template_case_run_kernel(&small, lower(a, c, true), NULL, 0);
}

static void assemble(const template_case *c, const lowered *l) {
  arke_error err = ARKE_ERROR_INIT;
  assembled out;
  ck_assert_msg(assemble_ptx(ASSEMBLER_PTXAS, l->ptx, c->t->name, &out, &err) == ARKE_OK, "%s: %s",
                c->p.op->text, err.text);
  ck_assert_msg(out.spill_bytes == 0, "%s spills %d bytes", c->p.op->text, out.spill_bytes);
  /* C7510 to C7519: products of warp groups that run one by one, or are repaired. */
  ck_assert_msg(!strstr(out.log, "(C751"), "%s: %s", c->p.op->text, out.log);
  assembled_free(&out);
}

void template_case_assemble(arena *a, const template_case *c) {
  if (assembler_find() != ASSEMBLER_PTXAS) return;
  lowered l = template_case_lower(a, c);
  assemble(c, &l);
}

void template_case_run_and_assemble(arena *a, const template_case *c, const run_view *views, int way) {
  if (assembler_find() != ASSEMBLER_PTXAS) {
    template_case_run(a, c, views, way);
    return;
  }
  lowered l = template_case_lower(a, c);
  template_case_run_kernel(c, l, views, way);
  assemble(c, &l);
}

void template_case_fail_allocations(const template_case *c) {
  long n = 0, without = 0; /* some questions have a safe answer where memory is short */
  for (;; n++) {
    arena a = ARENA_INIT;
    arke_error err = ARKE_ERROR_INIT;
    lowered l;
    lower_options options = {.first_way_only = c->first_way};
    failing_alloc_arm(n);
    arke_status status = c->k->lower(&c->p, c->t, &c->c, &options, &a, &l, &err);
    bool failed = failing_alloc_disarm();
    arena_release(&a);
    if (!failed) {
      ck_assert_int_eq(status, ARKE_OK);
      break;
    }
    ck_assert_msg(status == ARKE_ERR_MEMORY || status == ARKE_OK, "allocation %ld: %s, %s", n,
                  arke_status_name(status), err.text);
    without += status == ARKE_OK;
  }
  ck_assert_int_gt(n, 5);
  ck_assert_int_lt(without, n / 2);
}

void template_refuses(const kernel_template *k, const char *text, const char *bindings,
                      template_reason reason) {
  arena a = ARENA_INIT;
  ir_problem p = template_bind(&a, text, bindings);
  strbuf detail = STRBUF_INIT;
  template_reason got = k->fits(&p, target_find("sm_90a", NULL), &detail);
  ck_assert_msg(got == reason, "%s: %s", text, template_reason_name(got));
  ck_assert_str_ne(strbuf_text(&detail), "");
  strbuf_free(&detail);
  arena_release(&a);
}

void template_case_miss(arena *a, const template_case *c, const char *line) {
  lowered l = template_case_lower(a, c);
  char *text = arena_strndup(a, l.ptx, l.ptx_bytes);
  ck_assert_ptr_nonnull(text);
  int taken = 0;
  for (char *at = strstr(text, line); at; at = strstr(at + 1, line), taken++) {
    char *begin = at, *end = strchr(at, '\n');
    while (begin > text && begin[-1] != '\n') begin--;
    memset(begin, ' ', (size_t)(end - begin));
  }
  ck_assert_msg(taken > 0, "no line has %s", line);
  l.ptx = text;
  run_views_result r = run(c, &l, NULL);
  ck_assert_msg(r.status == ARKE_ERR_FAULT || r.wrong > 0, "%s without %s passed", c->p.op->text, line);
}

void template_class_run(const kernel_template *k, const template_class *c) {
  arena a = ARENA_INIT;
  template_case bound = template_case_bind(&a, k, template_text_of(c->text), c->bindings, c->settings);
  template_case_run(&a, &bound, NULL, 0);
  arena_release(&a);
}

void template_class_check(const kernel_template *k, const template_class *c, int way) {
  arena a = ARENA_INIT;
  template_case bound = template_case_bind(&a, k, c->text, c->bindings, c->settings);
  template_case_run_and_assemble(&a, &bound, NULL, way);
  template_case_run_reduced(&a, &bound);
  arena_release(&a);
}

void template_class_fail_allocations(const kernel_template *k, const template_class *c) {
  arena a = ARENA_INIT;
  template_case bound = template_case_bind(&a, k, c->text, c->bindings, c->settings);
  template_case_fail_allocations(&bound);
  arena_release(&a);
}

void template_refuses_each(const kernel_template *k, const template_refusal *list, size_t n) {
  for (size_t i = 0; i < n; i++) template_refuses(k, list[i].text, list[i].bindings, list[i].reason);
}

TCase *template_tests(const char *name) {
  TCase *tests = tcase_create(name);
  tcase_set_timeout(tests, 120);
  return tests;
}

int template_tests_run(const char *name, TCase *tests) {
  Suite *suite = suite_create(name);
  suite_add_tcase(suite, tests);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_ENV);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
