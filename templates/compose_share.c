/* Reductions that a stage computes on the way to its temporary, and that others need too: the maximum and the
 * sum of exponentials of a row of logits give what a loss changes by, and the loss itself. A stage that reads
 * the row anyway writes them beside it. */
#include "templates/compose_split.h"

/* The reductions under a stage's own targets that targets need in other ways, and that are fewer than what it
 * writes; as temporaries. */
static int add_shared(compose_splitter *s, const compose_stage *stage, const compose_target *targets, int n,
                      compose_target *shared, int most) {
  compose_plan *plan = s->plan;
  compose_walker w = {.visit = compose_list_reductions};
  const ir_expr *own[COMPOSE_TARGETS];
  double values = 0;
  int n_shared = 0;
  uint64_t made = plan->made;
  for (int i = 0; i < stage->n_targets; i++) {
    const compose_cut *cut = &plan->cuts[stage->targets[i].temporary];
    double size = compose_size_of(plan, cut->loops);
    own[i] = cut->node;
    values = size > values ? size : values;
    plan->made &= ~(UINT64_C(1) << stage->targets[i].temporary); /* what is under it is of interest */
  }
  bool walked = compose_walk(s, &w, NULL, stage->targets, stage->n_targets);
  plan->made = made;
  for (int i = 0; walked && i < w.n && n_shared < most; i++) {
    const ir_expr *e = w.list[i];
    bool *wanted = compose_node_flags(s);
    if (!wanted) return 0;
    wanted[ir_form_number(&plan->form, e)] = true;
    bool fewer = compose_size_of(plan, ir_form_free(&plan->form, e)) < values;
    if (!fewer || compose_is_root(plan, stage->targets, stage->n_targets, e)) continue;
    if (!compose_is_met_outside(s, wanted, own, stage->n_targets, targets, n)) continue;
    if (compose_add_cut(s, e, NULL, &shared[n_shared])) n_shared++;
  }
  return s->status == ARKE_OK ? n_shared : 0;
}

void compose_share(compose_splitter *s, int number, const compose_target *targets, int n) {
  compose_plan *plan = s->plan;
  compose_stage *stage = plan->stages[number];
  compose_target all[COMPOSE_TARGETS];
  int n_own = stage->n_targets, n_cuts = plan->n_cuts, n_stages = plan->n_stages;
  uint64_t made = plan->made, before = made;
  if (number != n_stages - 1) return;
  for (int i = 0; i < n_own; i++) {
    if (stage->targets[i].output >= 0 || stage->targets[i].is_start || stage->targets[i].goes_on) return;
    all[i] = stage->targets[i];
    before &= ~(UINT64_C(1) << all[i].temporary);
  }
  int m =
      n_own < COMPOSE_TARGETS ? add_shared(s, stage, targets, n, all + n_own, COMPOSE_TARGETS - n_own) : 0;
  if (m > 0 && compose_try_whole(s, all + n_own, m)) {
    double apart = stage->ns + plan->stages[n_stages]->ns;
    compose_undo(plan, number, before);
    if (compose_try_whole(s, all, n_own + m) && plan->stages[number]->ns < apart) return;
  }
  plan->stages[number] = stage;
  plan->n_cuts = n_cuts;
  compose_undo(plan, n_stages, made);
}
