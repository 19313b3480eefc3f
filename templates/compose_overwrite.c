/* Temporaries in the place of others: what a loss changes by with its logits is written over the logits,
 * which nothing else reads by then. Half the memory of the two, where that is more than all arguments have.
 */
#include "templates/compose_split.h"

static bool reads(const compose_stage *s, int temporary) {
  for (int i = 0; i < s->problem.op->n_inputs; i++)
    if (s->arguments[i] == ~temporary) return true;
  return false;
}

static uint64_t made_by(const compose_stage *s) {
  uint64_t made = 0;
  for (int i = 0; i < s->n_targets; i++)
    if (s->targets[i].output < 0) made |= UINT64_C(1) << s->targets[i].temporary;
  return made;
}

static dtype type_of(const compose_plan *plan, const compose_cut *cut) {
  bool cast = cut->node->node == IR_CAST;
  return cast ? ir_cast_dtype(plan->p, cut->node) : ir_form_type(&plan->form, cut->node);
}

/* Whether temporary `over`, written before, is like the target and read by stage `number` last of all. */
static bool can_take(const compose_plan *plan, int number, const compose_target *to, int over) {
  if (to->output >= 0 || to->is_start || to->goes_on || to->overwrites || over == to->temporary) return false;
  const compose_cut *own = &plan->cuts[to->temporary], *other = &plan->cuts[over];
  if (own->loops != other->loops || type_of(plan, own) != type_of(plan, other)) return false;
  if (!compose_crosses(plan, own->loops) || !reads(plan->stages[number], over)) return false;
  for (int i = number; i < plan->n_stages; i++)
    if (made_by(plan->stages[i]) >> over & 1 || (i > number && reads(plan->stages[i], over))) return false;
  return true;
}

/* Stages name the temporary that they read, wherever it lies. */
static void replace(compose_stage *s, int temporary, int over) {
  for (int k = 0; k < s->problem.op->n_args; k++)
    if (s->arguments[k] == ~temporary) s->arguments[k] = ~over;
}

static bool take(compose_splitter *s, int number, int of_stage, int over) {
  compose_plan *plan = s->plan;
  const compose_stage *before = plan->stages[number];
  compose_stage *stage = ARENA_NEW(plan->a, compose_stage);
  compose_target targets[COMPOSE_TARGETS];
  arke_error why = ARKE_ERROR_INIT;
  uint64_t made = plan->made;
  if (!stage) {
    s->status = ARKE_ERR_MEMORY;
    return false;
  }
  for (int i = 0; i < before->n_targets; i++) targets[i] = before->targets[i];
  targets[of_stage].overwrites = true;
  targets[of_stage].over = over;
  for (int i = number; i < plan->n_stages; i++) plan->made &= ~made_by(plan->stages[i]);
  arke_status status = compose_write_stage(plan, targets, before->n_targets, stage, &why);
  plan->made = made;
  if (status == ARKE_ERR_MEMORY) s->status = status;
  if (status != ARKE_OK || !compose_best_stage(s, stage) || stage->ns > before->ns) return false;
  stage->n_targets = before->n_targets;
  for (int i = 0; i < before->n_targets; i++) stage->targets[i] = targets[i];
  plan->stages[number] = stage;
  for (int i = 0; i < number; i++) {
    const compose_stage *other = plan->stages[i];
    for (int k = 0; k < other->n_targets; k++)
      if (other->targets[k].overwrites) replace(stage, other->targets[k].temporary, other->targets[k].over);
  }
  for (int i = number + 1; i < plan->n_stages; i++)
    replace(plan->stages[i], targets[of_stage].temporary, over);
  return true;
}

void compose_overwrite(compose_splitter *s) {
  compose_plan *plan = s->plan;
  for (int i = 0; i < plan->n_stages; i++)
    for (int t = 0; t < plan->stages[i]->n_targets; t++)
      for (int over = 0; over < plan->n_cuts && s->status == ARKE_OK; over++)
        if (can_take(plan, i, &plan->stages[i]->targets[t], over) && take(s, i, t, over)) break;
}
