/* What is under the targets of a stage, and what needs what there. */
#include "templates/compose_split.h"

#define STAGE "generate"

static bool is_made(const compose_plan *plan, const ir_expr *e) {
  for (int i = 0; i < plan->n_cuts; i++)
    if (plan->made >> i & 1 && plan->cuts[i].node == e) return true;
  return false;
}

/* Each node once, inner ones first; what other stages have made is a leaf. */
static void visit_all(compose_walker *w, const ir_expr *e) {
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

static void visit_target(compose_walker *w, const compose_target *t) {
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

bool compose_walk(compose_splitter *s, compose_walker *w, const ir_expr *e, const compose_target *targets,
                  int n) {
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

void compose_list_reductions(compose_walker *w, const ir_expr *e) {
  if (e->node != IR_REDUCE) return;
  if (w->n < (int)COUNT_OF(w->list)) w->list[w->n++] = e;
}

void compose_find_wanted(compose_walker *w, const ir_expr *e) {
  if (e == w->wanted) w->found = true;
}

/* Whether `wanted` is used as anything but the body of a reduction with condition `guard`. */
void compose_find_other_use(compose_walker *w, const ir_expr *e) {
  bool as_body = e->node == IR_REDUCE && e->n_args > 1 && e->args[1] == w->guard;
  for (int i = 0; i < e->n_args; i++)
    if (e->args[i] == w->wanted && !(as_body && i == 0)) w->other = true;
  if (e->node != IR_READ) return;
  const ir_access *x = &w->plan->form.accesses[e->id];
  if (x->other == w->wanted) w->other = true;
}

/* What is met under targets without entering some nodes. */
typedef struct outside {
  const compose_plan *plan;
  const ir_expr *const *leaves;
  int n;
  bool *seen;
  const bool *wanted; /* by node */
  bool found;
} outside;

static void look_outside(outside *o, const ir_expr *e) {
  int number = ir_form_number(&o->plan->form, e);
  if (o->seen[number] || is_made(o->plan, e)) return;
  o->seen[number] = true;
  for (int i = 0; i < o->n; i++)
    if (o->leaves[i] == e) return;
  if (o->wanted[number]) o->found = true;
  for (int i = 0; i < e->n_args; i++) look_outside(o, e->args[i]);
  if (e->node != IR_READ) return;
  const ir_access *x = &o->plan->form.accesses[e->id];
  for (int i = 0; i < x->n; i++) look_outside(o, x->subscripts[i].e);
  if (x->other) look_outside(o, x->other);
}

bool *compose_node_flags(compose_splitter *s) {
  bool *flags = ARENA_NEW_N(s->plan->a, bool, (size_t)s->plan->form.n_nodes + 1);
  if (!flags) s->status = error_memory(s->err, STAGE);
  return flags;
}

/* Whether one of the wanted nodes is used by something that is in none of the leaves. */
bool compose_is_met_outside(compose_splitter *s, const bool *wanted, const ir_expr *const *leaves,
                            int n_leaves, const compose_target *targets, int n) {
  outside o = {
      .plan = s->plan, .leaves = leaves, .n = n_leaves, .wanted = wanted, .seen = compose_node_flags(s)};
  for (int i = 0; i < n && o.seen; i++)
    look_outside(&o, targets[i].output < 0 ? s->plan->cuts[targets[i].temporary].node
                                           : s->plan->form.outputs[targets[i].output].value);
  return o.found || !o.seen;
}

double compose_size_of(const compose_plan *plan, unsigned loops) {
  double n = 1;
  for (int l = 0; l < plan->form.n_loops; l++)
    if (loops >> l & 1) n *= (double)ir_form_extent(&plan->form, l);
  return n;
}
bool compose_is_root(const compose_plan *plan, const compose_target *targets, int n, const ir_expr *e) {
  for (int i = 0; i < n; i++) {
    if (targets[i].output < 0 && plan->cuts[targets[i].temporary].node == e) return true;
    if (targets[i].output >= 0 && plan->form.outputs[targets[i].output].positions >= 0 &&
        plan->form.outputs[targets[i].output].value == e)
      return true; /* topk's own */
  }
  return false;
}

/* Nodes that are computed from `wanted` by element, and not from reductions of it as well. */
typedef struct candidates {
  compose_walker w;
  bool *directly, *by_reduction; /* by node: how it depends on `wanted` */
  const ir_expr *list[256];
  int n;
} candidates;

static void list_around(compose_walker *w, const ir_expr *e) {
  candidates *c = (candidates *)w;
  const ir_form *form = &w->plan->form;
  int number = ir_form_number(form, e);
  bool directly = e == w->wanted, by_reduction = false;
  for (int i = 0; i < e->n_args && e != w->wanted; i++) {
    int arg = ir_form_number(form, e->args[i]);
    directly = directly || c->directly[arg];
    by_reduction = by_reduction || c->by_reduction[arg];
  }
  if (e->node == IR_REDUCE && e != w->wanted && directly) directly = false, by_reduction = true;
  c->directly[number] = directly;
  c->by_reduction[number] = by_reduction;
  bool plain = e->node == IR_CALL || e->node == IR_OPERATOR || e->node == IR_CAST;
  if (plain && directly && !by_reduction && c->n < (int)COUNT_OF(c->list)) c->list[c->n++] = e;
}

/* The last that is computed from a reduction by element before anything else is: nothing but it needs the
 * reduction. A cast of it is kept in the cast's type. */
const ir_expr *compose_all_from(compose_splitter *s, const ir_expr *e, const compose_target *targets, int n) {
  const ir_form *form = &s->plan->form;
  candidates c = {.w = {.visit = list_around, .wanted = e},
                  .directly = compose_node_flags(s),
                  .by_reduction = compose_node_flags(s)};
  bool *wanted = compose_node_flags(s);
  if (s->status != ARKE_OK || !compose_walk(s, &c.w, NULL, targets, n)) return e;
  wanted[ir_form_number(form, e)] = true;
  for (int i = c.n - 1; i >= 0; i--) {
    const ir_expr *around = c.list[i];
    bool kept = around->node == IR_CAST ? dtype_bits(ir_cast_dtype(s->plan->p, around)) >= 8
                                        : ir_form_type(form, around) == ir_form_type(form, e);
    if (!kept || ir_form_free(form, around) != ir_form_free(form, e) ||
        compose_is_root(s->plan, targets, n, around))
      continue;
    if (!compose_is_met_outside(s, wanted, &around, 1, targets, n)) return around;
  }
  return e;
}

bool compose_has_inner(compose_splitter *s, const ir_expr *e) {
  compose_walker w = {.visit = compose_list_reductions};
  if (!compose_walk(s, &w, e, NULL, 0)) return true;
  return w.n > 1; /* itself */
}
