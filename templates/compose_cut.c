/* What becomes a temporary, where no template takes a whole. */
#include "templates/compose_split.h"

bool compose_add_cut(compose_splitter *s, const ir_expr *node, const ir_expr *guard, compose_target *to) {
  compose_plan *plan = s->plan;
  if (plan->n_cuts == COMPOSE_TEMPORARIES) {
    strbuf_clear(&s->last);
    strbuf_add(&s->last, "it would take too many temporaries");
    return false;
  }
  unsigned loops = ir_form_free(&plan->form, node) | (guard ? ir_form_free(&plan->form, guard) : 0);
  for (int l = 0; l < plan->form.n_loops; l++)
    if ((loops >> l & 1) && plan->form.loops[l].n_dims > 1) {
      strbuf_clear(&s->last);
      strbuf_addf(&s->last, "it would keep a value for each '%s', which is an axis of no tensor",
                  plan->form.loops[l].name);
      return false;
    }
  plan->cuts[plan->n_cuts] = (compose_cut){.node = node, .guard = guard, .loops = loops};
  *to = (compose_target){.output = -1, .temporary = plan->n_cuts++};
  return true;
}

/* The body of a reduction around e that has no more values than e itself: all that follows from e for one of
 * its rows goes into e's stage. */
static const ir_expr *body_around(compose_splitter *s, const ir_expr *e, const compose_walker *reductions,
                                  const compose_target *targets, int n, const ir_expr **guard) {
  double most = compose_size_of(s->plan, ir_form_free(&s->plan->form, e));
  for (int i = reductions->n - 1; i >= 0; i--) {
    const ir_expr *around = reductions->list[i], *body = around->args[0];
    compose_walker inside = {.visit = compose_find_wanted, .wanted = e},
                   uses = {.visit = compose_find_other_use, .wanted = body};
    if (around == e || body == e || compose_is_root(s->plan, targets, n, body)) continue;
    if (compose_size_of(s->plan, ir_form_free(&s->plan->form, body)) > most) continue;
    if (!compose_walk(s, &inside, body, NULL, 0)) return NULL;
    if (!inside.found) continue;
    *guard = around->n_args > 1 ? around->args[1] : NULL;
    uses.guard = *guard;
    if (!*guard) return body;
    if (!compose_walk(s, &uses, NULL, targets, n)) return NULL;
    if (!uses.other) return body;
  }
  *guard = NULL;
  return NULL;
}

/* Reductions over one loop whose bodies have others, where nothing else uses those: what a template for
 * products can have without writing the product (contraction_rows.h). They become temporaries together, if
 * one takes them. */
static bool cut_rows(compose_splitter *s, const compose_target *targets, int n, const compose_walker *all) {
  compose_plan *plan = s->plan;
  const ir_form *form = &plan->form;
  const ir_expr *list[COMPOSE_TEMPORARIES];
  compose_target made[COMPOSE_TEMPORARIES];
  int m = 0, n_cuts = plan->n_cuts;
  /* Of the bodies of the list: reductions over other loops than theirs. */
  bool *inner = compose_node_flags(s);
  if (!inner) return false;
  for (int i = 0; i < all->n; i++) {
    const ir_expr *e = all->list[i];
    compose_walker w = {.visit = compose_list_reductions};
    if (m > 0 && (e->index != list[0]->index || ir_form_free(form, e) != ir_form_free(form, list[0])))
      continue;
    if (compose_is_root(plan, targets, n, e) || !compose_walk(s, &w, e, NULL, 0)) continue;
    bool has_other = false;
    for (int k = 0; k < w.n; k++) {
      if (w.list[k]->index == e->index || !(ir_form_free(form, w.list[k]) >> e->index & 1)) continue;
      has_other = inner[ir_form_number(form, w.list[k])] = true;
    }
    if (has_other && m < COMPOSE_TEMPORARIES) list[m++] = e;
  }
  if (s->status != ARKE_OK || m == 0) return false;
  if (compose_is_met_outside(s, inner, list, m, targets, n) &&
      !compose_avoids(s->plan, ir_form_free(form, list[0]->args[0])))
    return false;
  bool cut = true;
  for (int i = 0; i < m && cut; i++) cut = compose_add_cut(s, list[i], NULL, &made[i]);
  if (cut && compose_try_stage(s, made, m)) return true;
  plan->n_cuts = n_cuts;
  return false;
}

/* Makes temporaries of a reduction and of all that are like it; *whole: with what is computed from each by
 * element alone. *whole is false then where that is nothing. */
static bool cut_alike(compose_splitter *s, const ir_expr *first, const compose_walker *all, bool *whole,
                      const compose_target *targets, int n) {
  compose_plan *plan = s->plan;
  compose_target made[COMPOSE_TEMPORARIES];
  int n_made = 0, n_cuts = plan->n_cuts, n_stages = plan->n_stages;
  bool more = false;
  uint64_t before = plan->made;
  for (int i = 0; i < all->n && n_made < COMPOSE_TEMPORARIES; i++) {
    const ir_expr *e = all->list[i];
    bool alike = e->index == first->index && ir_form_free(&plan->form, e) == ir_form_free(&plan->form, first);
    if (e != first && (!alike || compose_is_root(plan, targets, n, e) || compose_has_inner(s, e))) continue;
    const ir_expr *node = *whole ? compose_all_from(s, e, targets, n) : e;
    more = more || node != e;
    bool again = false;
    for (int k = 0; k < n_made; k++) again = again || plan->cuts[made[k].temporary].node == node;
    if (s->status != ARKE_OK) return false;
    if (!again && !compose_add_cut(s, node, NULL, &made[n_made++])) return false;
  }
  *whole = more;
  if (compose_solve(s, made, n_made)) return true;
  compose_undo(plan, n_stages, before);
  plan->n_cuts = n_cuts;
  return false;
}

static double values_of(const compose_splitter *s, const ir_expr *e) {
  return compose_size_of(s->plan, ir_form_free(&s->plan->form, e));
}

/* Whether a target is over the loops of a reduction: as a temporary that would have as many values. */
static bool is_as_large(const compose_splitter *s, const ir_expr *e, const compose_target *targets, int n) {
  const ir_form *form = &s->plan->form;
  for (int i = 0; i < n; i++) {
    const ir_expr *value = targets[i].output < 0 ? s->plan->cuts[targets[i].temporary].node
                                                 : form->outputs[targets[i].output].value;
    if (ir_form_free(form, value) == ir_form_free(form, e)) return true;
  }
  return false;
}

/* Makes temporaries of one innermost reduction, with all that are like it; or of the body around it. One that
 * is as large as what is to be made comes behind those with fewer values: with them it may not be needed.
 * Where large ones are avoided the one with the fewest values is first, whatever is in it. */
bool compose_cut_some(compose_splitter *s, const compose_target *targets, int n) {
  const ir_form *form = &s->plan->form;
  compose_walker w = {.visit = compose_list_reductions};
  compose_target made[1];
  if (!compose_walk(s, &w, NULL, targets, n)) return false;
  if (cut_rows(s, targets, n, &w)) return true;
  if (s->status != ARKE_OK) return false;
  const ir_expr *first = NULL, *guard = NULL;
  for (int i = 0; i < w.n; i++) {
    const ir_expr *e = w.list[i];
    if (compose_is_root(s->plan, targets, n, e) || compose_avoids(s->plan, ir_form_free(form, e))) continue;
    bool fewer = first && values_of(s, e) < values_of(s, first);
    if (!first ||
        (fewer && (!s->plan->keep || (is_as_large(s, first, targets, n) && !compose_has_inner(s, e)))))
      first = e;
  }
  if (!first) return false;
  const ir_expr *body = body_around(s, first, &w, targets, n, &guard);
  bool *wanted = compose_node_flags(s);
  if (s->status != ARKE_OK) return false;
  wanted[ir_form_number(form, first)] = true;
  if (body && compose_is_met_outside(s, wanted, &body, 1, targets, n))
    body = NULL; /* it would be computed again */
  if (body) return compose_add_cut(s, body, guard, &made[0]) && compose_solve(s, made, 1);
  bool whole = true;
  if (cut_alike(s, first, &w, &whole, targets, n)) return true;
  if (!whole || s->status != ARKE_OK) return false;
  whole = false; /* what is computed by element may not stand alone */
  return cut_alike(s, first, &w, &whole, targets, n);
}
