/* What the template's parameters stand for: the plan that they make of an operator, its stages'
 * configurations, and what those cost. */
#include "templates/compose_judge.h"

#define X(NAME, meaning, ...)                                                                                \
  [COMPOSE_##NAME] = {#NAME, meaning, (int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int)), {__VA_ARGS__}},
static const space_param params[COMPOSE_N_PARAMS] = {COMPOSE_PARAMS(X)};
#undef X
static const space compose_space = {"compose", COMPOSE_N_PARAMS, params};

const space *compose_space_of(const target *t) {
  (void)t;
  return &compose_space;
}

/* Everything whole, as it suits the stages. */
static const compose_how whole = {.slice = 0, .keep = true};
static const compose_how fold = {.slice = 0, .keep = true, .fold = true};

template_reason compose_fits(const ir_problem *p, const target *t, strbuf *detail) {
  arena a = ARENA_INIT;
  compose_known known = {NULL};
  compose_plan plan;
  template_reason reason;
  if (compose_split(p, t, whole, &known, &a, &plan, &reason, detail, NULL) != ARKE_OK) {
    if (detail) strbuf_add(detail, "out of memory");
    reason = TEMPLATE_OPERATOR;
  }
  arena_release(&a);
  return reason;
}

/* --- slices --- */

/* What a temporary over axes that meet in no argument may have: enough for a slice to keep a device busy, or
 * a share of what it would have whole. */
static bool keeps_too_much(const compose_plan *plan) {
  const double least = 64 << 20, share = compose_crossing_bytes(plan, 0) / 32;
  return compose_crossing_bytes(plan, plan->slices.size) > (share > least ? share : least);
}

bool compose_is_sliced(const compose_plan *plan) {
  return plan->slices.loop >= 0;
}

/* Whether it costs less to compute what can be by what reads it than to keep it. */
static bool folds(const ir_problem *p, const target *t, const compose_plan *kept, compose_known *known,
                  arena *a) {
  compose_plan folded;
  template_reason reason;
  return kept->can_fold && compose_split(p, t, fold, known, a, &folded, &reason, NULL, NULL) == ARKE_OK &&
         reason == TEMPLATE_OK && folded.folded && compose_all_ns(&folded) < compose_all_ns(kept);
}

/* The largest slice that keeps no more than it may, where something large would be kept. */
void compose_defaults(const ir_problem *p, const target *t, config *c) {
  const space_param *slice = &params[COMPOSE_SLICE];
  arena a = ARENA_INIT;
  compose_known known = {NULL};
  compose_plan plan;
  template_reason reason;
  *c = (config){.values = {[COMPOSE_KEEP] = 1}};
  bool taken =
      compose_split(p, t, whole, &known, &a, &plan, &reason, NULL, NULL) == ARKE_OK && reason == TEMPLATE_OK;
  bool more = taken && keeps_too_much(&plan);
  c->values[COMPOSE_FOLD] = taken && folds(p, t, &plan, &known, &a);
  for (int i = 1; i < slice->n_values && more; i++) {
    compose_how how = {.slice = slice->values[i]};
    more = compose_split(p, t, how, &known, &a, &plan, &reason, NULL, NULL) == ARKE_OK &&
           reason == TEMPLATE_OK && compose_is_sliced(&plan) && (i == 1 || !keeps_too_much(&plan));
    if (more) c->values[COMPOSE_SLICE] = slice->values[i], c->values[COMPOSE_KEEP] = 0;
  }
  arena_release(&a);
}

/* --- judging --- */

typedef struct prepared_all {
  bool has_choice;                                /* else all are what is kept */
  const compose_prepared *kept;                   /* whole */
  const compose_prepared *folded;                 /* with FOLD; NULL: there is nothing to fold */
  const compose_prepared *of[LIMIT_PARAM_VALUES]; /* computed again, by the number of SLICE's value */
} prepared_all;

static int slice_number(const config *c) {
  const space_param *slice = &params[COMPOSE_SLICE];
  int i = 0;
  while (i + 1 < slice->n_values && slice->values[i] != c->values[COMPOSE_SLICE]) i++;
  return i;
}

/* --- memory --- */

static double tensor_bytes(const ir_problem *p, int tensor) {
  return (double)ir_tensor_elements(p, tensor) * dtype_bits(ir_tensor_dtype(p, tensor)) / 8;
}

static bool uses_temporary(const compose_stage *s, int number) {
  for (int i = 0; i < s->problem.op->n_args; i++)
    if (s->arguments[i] == ~number) return true;
  return false;
}

/* The arguments, and the most that temporaries take which lie side by side, from the stage that writes one to
 * the last that reads it. */
static double least_bytes(const compose_plan *plan) {
  double arguments = 0, at[COMPOSE_STAGES] = {0}, most = 0;
  for (int i = 0; i < plan->p->op->n_args; i++)
    if (plan->p->op->tensors[i].alias < 0) arguments += tensor_bytes(plan->p, i);
  for (int number = 0; number < plan->n_cuts; number++) {
    const kernel_temporary *t = &plan->temporaries[number];
    int first = -1, last = -1;
    for (int i = 0; i < plan->n_stages; i++) {
      if (!uses_temporary(plan->stages[i], number)) continue;
      if (first < 0) first = i;
      last = i;
    }
    for (int i = first; first >= 0 && i <= last; i++) at[i] += tensor_bytes(t->problem, t->tensor);
  }
  for (int i = 0; i < plan->n_stages; i++) most = at[i] > most ? at[i] : most;
  return arguments + most;
}

static const compose_prepared *prepare(const ir_problem *p, const target *t, compose_how how,
                                       compose_known *known, arena *a) {
  compose_prepared *made = ARENA_NEW(a, compose_prepared);
  if (!made || compose_split(p, t, how, known, a, &made->plan, &made->reason, NULL, NULL) != ARKE_OK)
    return NULL;
  if (made->reason == TEMPLATE_OK) {
    made->needed_bytes = least_bytes(&made->plan);
    made->choices = compose_choose(&made->plan, t, a);
  }
  return made->reason == TEMPLATE_OK && !made->choices ? NULL : made;
}

/* Whether there is anything that may be kept or computed again: of the plan that keeps it. */
static bool has_choice(const compose_plan *kept, template_reason reason) {
  return reason == TEMPLATE_OK && (kept->crosses || compose_crossing_bytes(kept, 0) > 0);
}

const compose_prepared *compose_prepare_config(const ir_problem *p, const target *t, const config *c,
                                               arena *a) {
  compose_known known = {NULL};
  compose_plan kept;
  template_reason reason;
  if (c->values[COMPOSE_FOLD]) return prepare(p, t, fold, &known, a);
  if (c->values[COMPOSE_KEEP]) return prepare(p, t, whole, &known, a);
  if (compose_split(p, t, whole, &known, a, &kept, &reason, NULL, NULL) != ARKE_OK) return NULL;
  compose_how how = {.slice = c->values[COMPOSE_SLICE]};
  return prepare(p, t, has_choice(&kept, reason) ? how : whole, &known, a);
}

const void *compose_prepare(const ir_problem *p, const target *t, arena *a) {
  const space_param *slice = &params[COMPOSE_SLICE];
  compose_known known = {NULL};
  prepared_all *all = ARENA_NEW(a, prepared_all);
  if (!all || !(all->kept = prepare(p, t, whole, &known, a))) return NULL;
  all->has_choice = has_choice(&all->kept->plan, all->kept->reason);
  bool can_fold = all->kept->reason == TEMPLATE_OK && all->kept->plan.can_fold;
  if (can_fold && !(all->folded = prepare(p, t, fold, &known, a))) return NULL;
  if (can_fold && !all->folded->plan.folded) all->folded = NULL;
  for (int i = 0; i < slice->n_values; i++) {
    if (!all->has_choice) {
      all->of[i] = all->kept;
    } else if (i > 1 && !compose_is_sliced(&all->of[1]->plan)) { /* the same for all values */
      all->of[i] = all->of[1];
    } else {
      all->of[i] = prepare(p, t, (compose_how){.slice = slice->values[i]}, &known, a);
    }
    if (!all->of[i]) return NULL;
  }
  return all;
}

double compose_price(double ns, const target_rates *rates) {
  return ns > 0 ? ns : rates->launch_ns;
}

/* All times that it runs. */
static double stage_ns(const compose_prepared *made, int i, const target *t, const target_rates *rates,
                       const config *c) {
  const compose_stage *s = made->plan.stages[i];
  double ns = 0;
  s->k->judge(made->choices->prepared[i], t, rates, c, &ns);
  return compose_price(ns, rates) * compose_times(&made->plan, s);
}

/* Whether no other value of SLICE keeps less. */
static bool keeps_least(const prepared_all *all, int number) {
  return number == 1 || (number == 0 && !compose_is_sliced(&all->of[1]->plan));
}

template_reason compose_judge(const void *of, const target *t, const target_rates *rates, const config *c,
                              double *ns) {
  const prepared_all *all = of;
  int number = slice_number(c);
  bool keep = c->values[COMPOSE_KEEP], folded = c->values[COMPOSE_FOLD];
  const compose_prepared *made = folded && all->folded ? all->folded : keep ? all->kept : all->of[number];
  config stages[COMPOSE_STAGES];
  if (made->reason != TEMPLATE_OK) return made->reason;
  if (rates->memory_bytes > 0 && made->needed_bytes > (double)rates->memory_bytes) return TEMPLATE_WORKSPACE;
  if (!keep && !keeps_least(all, number) && compose_is_sliced(&all->of[1]->plan) &&
      keeps_too_much(&made->plan))
    return TEMPLATE_WORKSPACE;
  bool own = compose_pick(made->choices, c, stages) || c->values[COMPOSE_PICK] == 0;
  if (number > 0 && (!compose_is_sliced(&made->plan) || compose_rounds(&made->plan) < 2)) own = false;
  if (!keep && !all->has_choice) own = false;
  if (folded && (!all->folded || !keep || number > 0)) own = false;
  *ns = 0;
  for (int i = 0; i < made->plan.n_stages; i++) *ns += stage_ns(made, i, t, rates, &stages[i]);
  return own ? TEMPLATE_OK : TEMPLATE_REDUNDANT;
}

int compose_list_parts(const compose_prepared *made, const target *t, const config *c, template_part *parts) {
  config stages[COMPOSE_STAGES];
  compose_pick(made->choices, c, stages);
  for (int i = 0; i < made->plan.n_stages; i++)
    parts[i] = (template_part){made->plan.stages[i]->k, &made->plan.stages[i]->problem, stages[i],
                               stage_ns(made, i, t, &t->rates, &stages[i])};
  return made->plan.n_stages;
}

int compose_parts(const ir_problem *p, const target *t, const config *c, arena *a, template_part *parts) {
  const compose_prepared *made = compose_prepare_config(p, t, c, a);
  return made && made->reason == TEMPLATE_OK ? compose_list_parts(made, t, c, parts) : 0;
}
