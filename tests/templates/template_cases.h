/* What tests of templates over forms have in common: an operator bound to a problem, a configuration of a
 * template, and the checks that every such template must pass. Failures end the test. */
#ifndef ARKE_TESTS_TEMPLATE_CASES_H
#define ARKE_TESTS_TEMPLATE_CASES_H

#include <check.h>

#include "run_views.h"
#include "templates/template.h"

typedef struct template_case {
  const kernel_template *k;
  const target *t;
  ir_problem p;
  config c;
  int64_t sample; /* elements compared of each output, at the least; 0: two thousand */
  bool first_way; /* whole images are of the first way alone: the others have tests of their own */
  struct template_made *made; /* kernels of it that were lowered already, which is most of a test's time */
} template_case;

/* The text of an operator of the catalogue by its name; what is no name is a text. */
const char *template_text_of(const char *op);
/* Values of an input by its name; an input without a name is none. Into the views of the problem's inputs. */
typedef struct template_input {
  const char *name;
  const double *values;
  int n;
} template_input;
#define TEMPLATE_VALUES(list) list, (int)COUNT_OF(list)
void template_fill_views(const ir_problem *p, const template_input *inputs, int n, run_view *views);

/* An operator (template_text_of) at some sizes: "T=f32 M=4". */
ir_problem template_bind(arena *a, const char *text, const char *bindings);
/* `settings`: "TILE_X=32,…", what is left out takes the template's defaults. The problem must fit. */
template_case template_case_bind(arena *a, const kernel_template *k, const char *text, const char *bindings,
                                 const char *settings);
/* The same for another target than sm_90a. */
template_case template_case_bind_for(arena *a, const kernel_template *k, const target *t, const char *text,
                                     const char *bindings, const char *settings);
lowered template_case_lower(arena *a, const template_case *c);
/* Lowers and runs on the emulator with `views` (NULL: no gaps): every element right, nothing else written, by
 * way `way` (-1: any). */
void template_case_run(arena *a, const template_case *c, const run_view *views, int way);
/* The same with a kernel that was lowered for another problem of its kind. */
void template_case_run_kernel(const template_case *c, lowered l, const run_view *views, int way);
/* The template's small problem for the configuration is feasible, and right by the first kernel made for the
 * large one: a search without a GPU tries that. */
void template_case_run_reduced(arena *a, const template_case *c);
/* Assembles without spills, where there is an assembler. */
void template_case_assemble(arena *a, const template_case *c);
/* template_case_run and template_case_assemble with one lowering, which is what most of their time is. */
void template_case_run_and_assemble(arena *a, const template_case *c, const run_view *views, int way);
/* Every allocation of `lower` fails once and is reported. */
void template_case_fail_allocations(const template_case *c);
/* The operator is refused with `reason` and a sentence. */
void template_refuses(const kernel_template *k, const char *text, const char *bindings,
                      template_reason reason);
/* An operator (template_text_of) at some sizes, in one configuration: a row of a suite's table. */
typedef struct template_class {
  const char *text, *bindings, *settings;
} template_class;

/* template_case_run without views, by the first way. */
void template_class_run(const kernel_template *k, const template_class *c);
/* template_case_run_and_assemble without views, and template_case_run_reduced. */
void template_class_check(const kernel_template *k, const template_class *c, int way);
/* template_case_fail_allocations */
void template_class_fail_allocations(const kernel_template *k, const template_class *c);

/* What a template must not take: template_refuses for each. */
typedef struct template_refusal {
  const char *text, *bindings;
  template_reason reason;
} template_refusal;
void template_refuses_each(const kernel_template *k, const template_refusal *list, size_t n);

/* The tests of a template, and running them: an exit status. */
TCase *template_tests(const char *name);
int template_tests_run(const char *name, TCase *tests);

/* The emulator stops the kernel, or its results are wrong, when every line of the text that contains `line`
 * is taken out. */
void template_case_miss(arena *a, const template_case *c, const char *line);

#endif
