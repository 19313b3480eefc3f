/* Where to split: an operator is taken whole if a template fits; else some of its reductions become
 * temporaries, until what is left fits. */
#include <string.h>

#include "templates/compose.h"

#define STAGE "generate"

typedef struct splitter {
  compose_plan *plan;
  const target *t;
  strbuf last; /* why the last stage that was tried fits nothing */
  arke_error *err;
  arke_status status; /* for want of memory */
} splitter;

/* --- templates --- */

/* The template whose default is cheapest for the problem; NULL: none fits, and `detail` says why each does
 * not. */
static const kernel_template *best_template(const ir_problem *p, const target *t, bool alone, config *c,
                                            strbuf *detail) {
  const kernel_template *best = NULL;
  double least = 0;
  for (int i = 0; i < template_count(); i++) {
    const kernel_template *k = template_get(i);
    config defaults;
    if (k->fits == compose_fits || (!alone && !k->ways)) continue;
    size_t before = detail->length;
    if (detail->length) strbuf_add(detail, "; ");
    strbuf_addf(detail, "%s: ", k->name);
    if (k->fits(p, t, detail) != TEMPLATE_OK) continue;
    if (detail->data) detail->data[detail->length = before] = 0;
    k->defaults(p, t, &defaults);
    template_reason reason = k->feasible(p, t, &defaults);
    if (reason != TEMPLATE_OK && reason != TEMPLATE_REDUNDANT) continue;
    double ns = k->cost_ns(p, t, &t->rates, &defaults);
    if (best && ns >= least) continue;
    best = k;
    least = ns;
    *c = defaults;
  }
  return best;
}

/* A stage for the targets; false: no template takes it. */
static bool try_stage(splitter *s, const compose_target *targets, int n) {
  compose_plan *plan = s->plan;
  compose_stage *stage = ARENA_NEW(plan->a, compose_stage);
  arke_error why = ARKE_ERROR_INIT;
  if (!stage) {
    s->status = error_memory(s->err, STAGE);
    return false;
  }
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
  stage->k = best_template(&stage->problem, s->t, false, &stage->c, &s->last);
  if (!stage->k || plan->n_stages == COMPOSE_STAGES) return false;
  for (int i = 0; i < n; i++) {
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

/* --- what is under a target --- */

static bool is_made(const compose_plan *plan, const ir_expr *e) {
  for (int i = 0; i < plan->n_cuts; i++)
    if (plan->made >> i & 1 && plan->cuts[i].node == e) return true;
  return false;
}

typedef struct walk {
  const compose_plan *plan;
  bool *seen; /* by node */
  void (*visit)(struct walk *w, const ir_expr *e);
  const ir_expr *wanted, *guard; /* of a visitor */
  bool found, other;
  int n;
  const ir_expr *list[64];
} walk;

/* Each node once, inner ones first; what other stages have made is a leaf. */
static void visit_all(walk *w, const ir_expr *e) {
  int number = ir_form_number(&w->plan->form, e);
  if (w->seen[number] || is_made(w->plan, e)) return;
  w->seen[number] = true;
  for (int i = 0; i < e->n_args; i++) visit_all(w, e->args[i]);
  if (e->node == IR_READ) {
    const ir_access *x = &w->plan->form.accesses[e->id];
    for (int i = 0; i < x->n; i++) visit_all(w, x->subscripts[i].e);
    if (x->other) visit_all(w, x->other);
  }
  w->visit(w, e);
}

static void visit_target(walk *w, const compose_target *t) {
  const ir_form *form = &w->plan->form;
  if (t->output < 0) {
    visit_all(w, w->plan->cuts[t->temporary].node);
    return;
  }
  const ir_form_output *o = &form->outputs[t->output];
  visit_all(w, o->value);
  for (int i = 0; i < form->accesses[o->access].n; i++)
    visit_all(w, form->accesses[o->access].subscripts[i].e);
}

static bool walk_under(splitter *s, walk *w, const ir_expr *e, const compose_target *targets, int n) {
  w->plan = s->plan;
  w->seen = ARENA_NEW_N(s->plan->a, bool, (size_t)s->plan->form.n_nodes + 1);
  if (!w->seen) {
    s->status = error_memory(s->err, STAGE);
    return false;
  }
  if (e) visit_all(w, e);
  for (int i = 0; i < n; i++) visit_target(w, &targets[i]);
  return true;
}

static void list_reductions(walk *w, const ir_expr *e) {
  if (e->node != IR_REDUCE) return;
  if (w->n < (int)COUNT_OF(w->list)) w->list[w->n++] = e;
}

static void find_wanted(walk *w, const ir_expr *e) {
  if (e == w->wanted) w->found = true;
}

/* Whether `wanted` is used as anything but the body of a reduction with condition `guard`. */
static void find_other_use(walk *w, const ir_expr *e) {
  bool as_body = e->node == IR_REDUCE && e->n_args > 1 && e->args[1] == w->guard;
  for (int i = 0; i < e->n_args; i++)
    if (e->args[i] == w->wanted && !(as_body && i == 0)) w->other = true;
  if (e->node != IR_READ) return;
  const ir_access *x = &w->plan->form.accesses[e->id];
  if (x->other == w->wanted) w->other = true;
}

static double size_of(const compose_plan *plan, unsigned loops) {
  double n = 1;
  for (int l = 0; l < plan->form.n_loops; l++)
    if (loops >> l & 1) n *= (double)ir_form_extent(&plan->form, l);
  return n;
}

/* --- what becomes a temporary --- */

static bool is_root(const compose_plan *plan, const compose_target *targets, int n, const ir_expr *e) {
  for (int i = 0; i < n; i++) {
    if (targets[i].output < 0 && plan->cuts[targets[i].temporary].node == e) return true;
    if (targets[i].output >= 0 && plan->form.outputs[targets[i].output].positions >= 0 &&
        plan->form.outputs[targets[i].output].value == e)
      return true; /* topk's own */
  }
  return false;
}

static bool add_cut(splitter *s, const ir_expr *node, const ir_expr *guard, compose_target *to) {
  compose_plan *plan = s->plan;
  if (plan->n_cuts == COMPOSE_TEMPORARIES) {
    strbuf_clear(&s->last);
    strbuf_add(&s->last, "it would take too many temporaries");
    return false;
  }
  unsigned loops = ir_form_free(&plan->form, node) | (guard ? ir_form_free(&plan->form, guard) : 0);
  plan->cuts[plan->n_cuts] = (compose_cut){.node = node, .guard = guard, .loops = loops};
  *to = (compose_target){.output = -1, .temporary = plan->n_cuts++};
  return true;
}

/* The body of a reduction around e that has no more values than e itself: all that follows from e for one of
 * its rows goes into e's stage. */
static const ir_expr *body_around(splitter *s, const ir_expr *e, const walk *reductions,
                                  const compose_target *targets, int n, const ir_expr **guard) {
  double most = size_of(s->plan, ir_form_free(&s->plan->form, e));
  for (int i = reductions->n - 1; i >= 0; i--) {
    const ir_expr *around = reductions->list[i], *body = around->args[0];
    walk inside = {.visit = find_wanted, .wanted = e}, uses = {.visit = find_other_use, .wanted = body};
    if (around == e || body == e || is_root(s->plan, targets, n, body)) continue;
    if (size_of(s->plan, ir_form_free(&s->plan->form, body)) > most) continue;
    if (!walk_under(s, &inside, body, NULL, 0)) return NULL;
    if (!inside.found) continue;
    *guard = around->n_args > 1 ? around->args[1] : NULL;
    uses.guard = *guard;
    if (!*guard) return body;
    if (!walk_under(s, &uses, NULL, targets, n)) return NULL;
    if (!uses.other) return body;
  }
  *guard = NULL;
  return NULL;
}

static bool has_inner(splitter *s, const ir_expr *e) {
  walk w = {.visit = list_reductions};
  if (!walk_under(s, &w, e, NULL, 0)) return true;
  return w.n > 1; /* itself */
}

static bool solve(splitter *s, const compose_target *targets, int n);

/* Makes temporaries of one innermost reduction, with all that are like it; or of the body around it. */
static bool cut_some(splitter *s, const compose_target *targets, int n) {
  const ir_form *form = &s->plan->form;
  walk w = {.visit = list_reductions};
  compose_target made[COMPOSE_TEMPORARIES];
  int n_made = 0;
  if (!walk_under(s, &w, NULL, targets, n)) return false;
  const ir_expr *first = NULL, *guard;
  for (int i = 0; i < w.n && !first; i++)
    if (!is_root(s->plan, targets, n, w.list[i])) first = w.list[i];
  if (!first) return false;
  const ir_expr *body = body_around(s, first, &w, targets, n, &guard);
  if (s->status != ARKE_OK) return false;
  if (body) return add_cut(s, body, guard, &made[0]) && solve(s, made, 1);
  for (int i = 0; i < w.n && n_made < COMPOSE_TEMPORARIES; i++) {
    const ir_expr *e = w.list[i];
    bool alike = e->index == first->index && ir_form_free(form, e) == ir_form_free(form, first);
    if (e != first && (!alike || is_root(s->plan, targets, n, e) || has_inner(s, e))) continue;
    if (!add_cut(s, e, NULL, &made[n_made++])) return false;
  }
  return solve(s, made, n_made);
}

/* Each target alone, those of one tensor together. */
static bool solve_apart(splitter *s, const compose_target *targets, int n,
                        bool (*by)(splitter *, const compose_target *, int)) {
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

/* Forgets stages and temporaries that were made since. */
static void undo(compose_plan *plan, int n_stages, uint64_t made) {
  plan->n_stages = n_stages;
  plan->made = made;
}

static bool solve(splitter *s, const compose_target *targets, int n) {
  compose_plan *plan = s->plan;
  int n_stages = plan->n_stages;
  uint64_t made = plan->made;
  if (try_stage(s, targets, n)) return true;
  if (s->status != ARKE_OK) return false;
  if (n > 1) {
    if (solve_apart(s, targets, n, try_stage)) return true;
    undo(plan, n_stages, made);
  }
  while (s->status == ARKE_OK && cut_some(s, targets, n)) {
    if (try_stage(s, targets, n)) return true;
  }
  if (n == 1 || s->status != ARKE_OK) return false;
  undo(plan, n_stages, made);
  return solve_apart(s, targets, n, solve);
}

/* --- the whole --- */

/* A tensor that is written in place is read by no stage after that. */
static bool in_place_is_safe_across(const compose_plan *plan) {
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

static bool split_all(splitter *s, strbuf *detail) {
  compose_plan *plan = s->plan;
  compose_target targets[COMPOSE_TARGETS];
  if (plan->form.n_outputs == 0 || plan->form.n_outputs > COMPOSE_TARGETS) {
    strbuf_add(detail, "there are too many definitions");
    return false;
  }
  for (int i = 0; i < plan->form.n_outputs; i++) targets[i] = (compose_target){.output = i, .temporary = -1};
  if (!solve(s, targets, plan->form.n_outputs)) {
    strbuf_addf(detail, "a part of it fits no template (%s)", strbuf_text(&s->last));
    return false;
  }
  if (!in_place_is_safe_across(plan)) {
    strbuf_add(detail, "a tensor is read after a stage has overwritten it in place");
    return false;
  }
  return true;
}

arke_status compose_split(const ir_problem *p, const target *t, arena *a, compose_plan *plan,
                          template_reason *reason, strbuf *detail, arke_error *err) {
  splitter s = {.plan = plan, .t = t, .last = STRBUF_INIT, .err = err, .status = ARKE_OK};
  strbuf why = STRBUF_INIT;
  config c;
  *plan = (compose_plan){.p = p, .a = a};
  *reason = TEMPLATE_OPERATOR;
  const kernel_template *whole = best_template(p, t, true, &c, &s.last);
  if (whole) {
    strbuf_addf(&why, "the %s template takes it whole", whole->name);
  } else {
    arke_error form = ARKE_ERROR_INIT;
    s.status = ir_form_make(p, a, &plan->form, &form);
    if (s.status == ARKE_ERR_UNSUPPORTED) {
      strbuf_add(&why, form.text);
      s.status = ARKE_OK;
    } else if (s.status == ARKE_OK && split_all(&s, &why)) {
      *reason = TEMPLATE_OK;
    }
  }
  if (detail && *reason != TEMPLATE_OK) strbuf_add(detail, strbuf_text(&why));
  if (strbuf_failed(&why) || strbuf_failed(&s.last)) s.status = ARKE_ERR_MEMORY;
  strbuf_free(&why);
  strbuf_free(&s.last);
  return s.status == ARKE_OK ? ARKE_OK : error_memory(err, STAGE);
}
