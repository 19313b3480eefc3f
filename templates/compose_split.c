/* Where to split: an operator is taken whole if a template fits; else some of its reductions become
 * temporaries, until what is left fits. */
#include <math.h>

#include "templates/compose_split.h"
#include "templates/contraction.h"

#define STAGE "generate"

bool compose_try_stage_of(compose_splitter *s, const compose_target *targets, int n, bool repeated) {
  compose_plan *plan = s->plan;
  compose_stage *stage = ARENA_NEW(plan->a, compose_stage);
  arke_error why = ARKE_ERROR_INIT;
  if (!stage) {
    s->status = error_memory(s->err, STAGE);
    return false;
  }
  stage->repeated = repeated;
  arke_status status = compose_write_stage(plan, targets, n, stage, &why);
  if (status == ARKE_ERR_MEMORY) {
    s->status = error_memory(s->err, STAGE);
    return false;
  }
  strbuf_clear(&s->last);
  if (status != ARKE_OK) {
    strbuf_add(&s->last, why.text);
    return false;
  }
  if (!compose_best_stage(s, stage) || plan->n_stages == COMPOSE_STAGES) return false;
  stage->n_targets = n;
  for (int i = 0; i < n; i++) {
    stage->targets[i] = targets[i];
    int number = targets[i].temporary;
    if (targets[i].output >= 0) continue;
    plan->made |= UINT64_C(1) << number;
    for (int k = 0; k < stage->problem.op->n_args; k++) {
      if (stage->arguments[k] == ~number) plan->temporaries[number] = (kernel_temporary){&stage->problem, k};
    }
  }
  plan->stages[plan->n_stages++] = stage;
  return true;
}

bool compose_try_whole(compose_splitter *s, const compose_target *targets, int n) {
  return compose_try_stage_of(s, targets, n, false);
}

bool compose_try_stage(compose_splitter *s, const compose_target *targets, int n) {
  compose_plan *plan = s->plan;
  int n_stages = plan->n_stages;
  uint64_t before = plan->made;
  if (!compose_try_whole(s, targets, n)) return false;
  compose_stage *whole = plan->stages[n_stages];
  double ns = whole->ns;
  uint64_t made = plan->made;
  compose_undo(plan, n_stages, before);
  if (compose_try_apart(s, targets, n, ns)) return true;
  plan->stages[plan->n_stages++] = whole;
  plan->made = made;
  return s->status == ARKE_OK;
}

/* Forgets stages and temporaries that were made since. */
void compose_undo(compose_plan *plan, int n_stages, uint64_t made) {
  plan->n_stages = n_stages;
  plan->made = made;
}

bool compose_solve_apart(compose_splitter *s, const compose_target *targets, int n,
                         bool (*by)(compose_splitter *, const compose_target *, int)) {
  const ir_form *form = &s->plan->form;
  for (int i = 0; i < n; i++) {
    compose_target group[COMPOSE_TARGETS];
    int m = 0;
    int tensor = targets[i].output < 0 ? -1 : form->accesses[form->outputs[targets[i].output].access].tensor;
    bool before = false;
    for (int k = 0; k < n; k++) {
      bool same = k == i || (tensor >= 0 && targets[k].output >= 0 &&
                             form->accesses[form->outputs[targets[k].output].access].tensor == tensor);
      if (same && k < i) before = true;
      if (same) group[m++] = targets[k];
    }
    if (!before && m < n && !by(s, group, m)) return false;
    if (!before && m == n) return false;
  }
  return true;
}

/* An output that is added to at gathered places, in a stage that adds in place to what other stages have
 * left. */
static bool add_in_place(compose_splitter *s, const compose_target *targets, int n) {
  const compose_plan *plan = s->plan;
  compose_target last = targets[n - 1], start = last;
  if (last.output < 0 || last.goes_on) return false;
  const ir_form_output *o = &plan->form.outputs[last.output];
  if (o->update == IR_ASSIGN || plan->p->op->tensors[plan->form.accesses[o->access].tensor].alias >= 0)
    return false;
  for (int i = 0; i + 1 < n; i++) { /* all of one tensor */
    if (targets[i].output < 0) return false;
    const ir_form_output *before = &plan->form.outputs[targets[i].output];
    if (plan->form.accesses[before->access].tensor != plan->form.accesses[o->access].tensor) return false;
  }
  start.is_start = true;
  last.goes_on = true;
  return (n > 1 ? compose_solve(s, targets, n - 1) : compose_try_stage(s, &start, 1)) &&
         compose_try_stage(s, &last, 1);
}

bool compose_solve(compose_splitter *s, const compose_target *targets, int n) {
  compose_plan *plan = s->plan;
  int n_stages = plan->n_stages, n_cuts = plan->n_cuts;
  uint64_t made = plan->made;
  if (compose_try_stage(s, targets, n)) return true;
  if (s->status != ARKE_OK) return false;
  if (add_in_place(s, targets, n)) return true;
  if (s->status != ARKE_OK) return false;
  compose_undo(plan, n_stages, made);
  plan->n_cuts = n_cuts;
  if (n > 1) {
    if (compose_solve_apart(s, targets, n, compose_try_stage)) return true;
    compose_undo(plan, n_stages, made);
  }
  if (compose_try_apart(s, targets, n, INFINITY)) return true;
  while (s->status == ARKE_OK && compose_cut_some(s, targets, n)) {
    if (compose_try_stage(s, targets, n)) return true;
  }
  if (n == 1 || s->status != ARKE_OK) return false;
  compose_undo(plan, n_stages, made);
  return compose_solve_apart(s, targets, n, compose_solve);
}

/* --- the whole --- */

bool compose_in_place_is_safe(const compose_plan *plan) {
  const ir_op *op = plan->p->op;
  uint64_t overwritten = 0;
  for (int i = 0; i < plan->n_stages; i++) {
    const compose_stage *s = plan->stages[i];
    const ir_op *own = s->problem.op;
    for (int k = 0; k < own->n_inputs; k++)
      if (s->arguments[k] >= 0 && overwritten >> s->arguments[k] & 1) return false;
    for (int k = own->n_inputs; k < own->n_args; k++) {
      if (s->arguments[k] < 0) continue;
      int alias = op->tensors[s->arguments[k]].alias;
      if (alias >= 0) overwritten |= UINT64_C(1) << alias;
    }
  }
  return true;
}

static bool split_all(compose_splitter *s, strbuf *detail) {
  compose_plan *plan = s->plan;
  compose_target targets[COMPOSE_TARGETS];
  if (plan->form.n_outputs == 0 || plan->form.n_outputs > COMPOSE_TARGETS) {
    strbuf_add(detail, "there are too many definitions");
    return false;
  }
  for (int i = 0; i < plan->form.n_outputs; i++) targets[i] = (compose_target){.output = i, .temporary = -1};
  if (!compose_solve(s, targets, plan->form.n_outputs)) {
    const char *why = s->last.length ? strbuf_text(&s->last) : "it has no parts that are stages of their own";
    strbuf_add(detail, why);
    return false;
  }
  if (!compose_in_place_is_safe(plan)) {
    strbuf_add(detail, "a tensor is read after a stage has overwritten it in place");
    return false;
  }
  return true;
}

/* A product whose rows are reduced where one tile has each: the product apart from its rows, too, which has
 * as many tiles as keep the device busy. */
static bool split_rows(compose_splitter *s, const compose_target *targets, int n) {
  contraction c;
  unsigned any = CONTRACTION_GROUPED | CONTRACTION_REDUCED | CONTRACTION_SCATTERED | CONTRACTION_WHOLE_ROWS;
  arke_status status;
  template_reason reason = contraction_match_more(s->plan->p, true, any, s->plan->a, &c, NULL, &status);
  if (status == ARKE_ERR_MEMORY) s->status = error_memory(s->err, STAGE);
  if (reason != TEMPLATE_OK || !c.rows.whole) return false;
  while (s->status == ARKE_OK && compose_cut_some(s, targets, n))
    if (compose_try_stage(s, targets, n)) return true;
  return false;
}

/* An operator that a template takes whole: by stages where they are cheaper, or may be. */
static bool split_apart(compose_splitter *s, const kernel_template *whole, strbuf *detail) {
  compose_plan *plan = s->plan;
  compose_target targets[COMPOSE_TARGETS];
  strbuf_addf(detail, "the %s template takes it whole", whole->name);
  if (plan->form.n_outputs == 0 || plan->form.n_outputs > COMPOSE_TARGETS) return false;
  for (int i = 0; i < plan->form.n_outputs; i++) targets[i] = (compose_target){.output = i, .temporary = -1};
  bool apart = false;
  if (compose_has_operands(s, targets, plan->form.n_outputs)) {
    const compose_best *all = compose_find_best(s, plan->p, plan->text, COMPOSE_WANTED_WHOLE);
    apart = all && all->k && compose_try_apart(s, targets, plan->form.n_outputs, all->ns);
  }
  if (!apart && s->status == ARKE_OK) apart = split_rows(s, targets, plan->form.n_outputs);
  return apart && compose_in_place_is_safe(plan);
}

static void split_form(compose_splitter *s, const kernel_template *whole, template_reason *reason,
                       strbuf *detail) {
  compose_plan *plan = s->plan;
  arke_error form = ARKE_ERROR_INIT;
  s->status = ir_form_make(plan->p, plan->a, &plan->form, &form);
  if (s->status == ARKE_ERR_UNSUPPORTED) {
    if (!whole) strbuf_add(detail, form.text);
    s->status = ARKE_OK;
    return;
  }
  if (s->status != ARKE_OK) return;
  bool split = whole ? split_apart(s, whole, detail) : split_all(s, detail);
  if (split && plan->slices.size > 0 && !plan->keep && !compose_slice(s)) {
    split = false;
    strbuf_add(detail, strbuf_text(&s->last));
  }
  if (split && plan->keep) compose_overwrite(s);
  if (split) *reason = TEMPLATE_OK;
}

double compose_all_ns(const compose_plan *plan) {
  double ns = 0;
  for (int i = 0; i < plan->n_stages; i++) ns += plan->stages[i]->ns * compose_times(plan, plan->stages[i]);
  return ns;
}

/* By the form, or by what compose_keep finds where temporaries are over axes that meet in no argument: what
 * is cheaper. */
static void split_either(compose_splitter *s, const kernel_template *whole, template_reason *reason,
                         strbuf *detail) {
  compose_plan *plan = s->plan, *by_form = ARENA_NEW(plan->a, compose_plan);
  split_form(s, whole, reason, detail);
  if (!by_form) s->status = ARKE_ERR_MEMORY;
  if (s->status != ARKE_OK || whole || !plan->keep) return;
  *by_form = *plan;
  compose_undo(plan, 0, 0);
  plan->n_cuts = 0;
  plan->crosses = compose_keep(s, true, detail);
  if (s->status != ARKE_OK) return;
  if (!plan->crosses || (*reason == TEMPLATE_OK && compose_all_ns(by_form) <= compose_all_ns(plan))) {
    *plan = *by_form;
  } else {
    *reason = TEMPLATE_OK;
  }
}

static const char *print_op(const ir_op *op, arena *a) {
  strbuf text = STRBUF_INIT;
  ir_op_print(op, &text);
  const char *kept = strbuf_failed(&text) ? NULL : arena_strdup(a, strbuf_text(&text));
  strbuf_free(&text);
  return kept;
}

arke_status compose_split(const ir_problem *p, const target *t, compose_how how, compose_known *known,
                          arena *a, compose_plan *plan, template_reason *reason, strbuf *detail,
                          arke_error *err) {
  compose_splitter s = {.plan = plan, .t = t, .known = known, .last = STRBUF_INIT, .err = err};
  strbuf why = STRBUF_INIT;
  *plan = (compose_plan){.p = p,
                         .text = print_op(p->op, a),
                         .a = a,
                         .keep = how.keep,
                         .slices = {.size = how.slice, .loop = -1}};
  *reason = TEMPLATE_OPERATOR;
  if (!plan->text) return error_memory(err, STAGE);
  const compose_best *any = compose_find_best(&s, p, plan->text, COMPOSE_WANTED_ANY);
  const kernel_template *whole = any ? any->k : NULL;
  plan->slices.names = compose_slice_names(p->op, a);
  if (!plan->slices.names.axis || !plan->slices.names.begin) s.status = ARKE_ERR_MEMORY;
  bool kept = s.status == ARKE_OK && !whole && how.fold && compose_fold(&s);
  kept = kept || (s.status == ARKE_OK && !whole && compose_keep(&s, false, &why));
  if (kept) *reason = TEMPLATE_OK;
  if (s.status == ARKE_OK && !kept) split_either(&s, whole, reason, &why);
  if (detail && *reason != TEMPLATE_OK) strbuf_add(detail, strbuf_text(&why));
  if (strbuf_failed(&why) || strbuf_failed(&s.last)) s.status = ARKE_ERR_MEMORY;
  strbuf_free(&why);
  strbuf_free(&s.last);
  return s.status == ARKE_OK ? ARKE_OK : error_memory(err, STAGE);
}
