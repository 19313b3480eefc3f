/* One image of the kernels of all stages. */
#include "templates/compose_judge.h"

#define STAGE "generate"

enum { KEPT_WAYS = 1 }; /* behind those that fold, at least */

typedef struct way_list {
  kernel_way ways[KERNEL_MAX_WAYS];
} way_list;

/* Whether a way asks nothing of how the whole's arguments lie. */
static bool takes_any_view(const kernel_way *w, const compose_stage *s) {
  const recipe *r = w->rules;
  for (int i = 0; i < s->problem.op->n_args; i++) {
    const recipe_tensor_rule *rule = &r->tensors[i];
    bool aligned = rule->alignment * 8 > dtype_bits(ir_tensor_dtype(&s->problem, i));
    if (s->arguments[i] >= 0 && (aligned || rule->contiguous_last || rule->dense)) return false;
  }
  return true;
}

/* A template that takes what a stage's own refuses gives its last way too, behind the others. */
static arke_status add_any_way(const compose_stage *s, const target *t, const lower_options *options,
                               arena *a, kernel_way *ways, int *n, arke_error *err) {
  if (*n == KERNEL_MAX_WAYS || takes_any_view(&ways[*n - 1], s)) return ARKE_OK;
  way_list *others = ARENA_NEW(a, way_list);
  if (!others) return error_memory(err, STAGE);
  for (int i = 0; i < template_count(); i++) {
    const kernel_template *k = template_get(i);
    config c;
    int m = 0;
    if (k == s->k || k->fits == compose_fits || !k->ways || k->fits(&s->problem, t, NULL) != TEMPLATE_OK)
      continue;
    k->defaults(&s->problem, t, &c);
    if (!template_is_built(template_feasible(k, &s->problem, t, &c))) continue;
    TRY(k->ways(&s->problem, t, &c, options, a, others->ways, &m, err));
    if (!takes_any_view(&others->ways[m - 1], s)) continue;
    ways[(*n)++] = others->ways[m - 1];
    return ARKE_OK;
  }
  return ARKE_OK;
}

/* `name`: of its stages' kernels, with their numbers. */
static arke_status join_stages(const ir_problem *p, const target *t, const config *c,
                               const compose_prepared *made, const char *name, const lower_options *options,
                               arena *a, kernel_way *ways, int *n, arke_error *err) {
  way_list *own = ARENA_NEW_N(a, way_list, COMPOSE_STAGES);
  kernel_stage stages[COMPOSE_STAGES];
  config configs[COMPOSE_STAGES];
  if (!own) return error_memory(err, STAGE);
  const compose_plan *plan = &made->plan;
  compose_pick(made->choices, c, configs);
  for (int i = 0; i < plan->n_stages; i++) {
    const compose_stage *s = plan->stages[i];
    const char *prefix = arena_printf(a, "%s%d_", name, i);
    if (!prefix) return error_memory(err, STAGE);
    stages[i] = (kernel_stage){.prefix = prefix,
                               .problem = &s->problem,
                               .ways = own[i].ways,
                               .arguments = s->arguments,
                               .repeated = s->repeated,
                               .sliced = s->sliced};
    TRY(s->k->ways(&s->problem, t, &configs[i], options, a, own[i].ways, &stages[i].n, err));
    TRY(add_any_way(s, t, options, a, own[i].ways, &stages[i].n, err));
    for (int k = 0; k < stages[i].n; k++) TRY(compose_require_blocks(&s->block, a, &own[i].ways[k], err));
  }
  return kernel_join(p, stages, plan->n_stages, plan->temporaries, plan->n_cuts,
                     compose_is_sliced(plan) ? &plan->slices.names : NULL, a, ways, n, err);
}

/* Behind stages that compute what they read, which may want rows as copies do, come those that keep it. */
static arke_status add_kept(const ir_problem *p, const target *t, const lower_options *options, arena *a,
                            kernel_way *ways, int *n, arke_error *err) {
  const config c = {.values = {[COMPOSE_KEEP] = 1}};
  const compose_prepared *made = compose_prepare_config(p, t, &c, a);
  way_list *more = ARENA_NEW(a, way_list);
  int m = 0;
  if (!made || !more) return error_memory(err, STAGE);
  if (made->reason != TEMPLATE_OK) return ARKE_OK;
  TRY(join_stages(p, t, &c, made, "kept", options, a, more->ways, &m, err));
  int from = m > 1; /* the first one takes what those before do */
  while (*n > 1 && *n + m - from > KERNEL_MAX_WAYS) --*n;
  for (int i = from; i < m && *n < KERNEL_MAX_WAYS; i++) ways[(*n)++] = more->ways[i];
  return ARKE_OK;
}

arke_status compose_prepared_ways(const compose_prepared *made, const ir_problem *p, const target *t,
                                  const config *c, const lower_options *options, arena *a, kernel_way *ways,
                                  int *n, arke_error *err) {
  return join_stages(p, t, c, made, "stage", options, a, ways, n, err);
}

arke_status compose_ways(const ir_problem *p, const target *t, const config *c, const lower_options *options,
                         arena *a, kernel_way *ways, int *n, arke_error *err) {
  const compose_prepared *made = compose_prepare_config(p, t, c, a);
  if (!made) return error_memory(err, STAGE);
  if (made->reason != TEMPLATE_OK)
    return error_set(err, ARKE_ERR_UNSUPPORTED, STAGE, "%s", template_reason_text(made->reason));
  TRY(compose_prepared_ways(made, p, t, c, options, a, ways, n, err));
  bool alone = options && options->first_way_only; /* then it takes no plan of what is kept */
  return made->plan.folded && !alone ? add_kept(p, t, options, a, ways, n, err) : ARKE_OK;
}

arke_status compose_lower(const ir_problem *p, const target *t, const config *c, const lower_options *options,
                          arena *a, lowered *out, arke_error *err) {
  kernel_way ways[KERNEL_MAX_WAYS];
  int n;
  TRY(compose_ways(p, t, c, options, a, ways, &n, err));
  TRY(kernel_lower_ways(ways, n, t, options, a, out, err));
  /* Behind what folds come those that keep it. */
  if (options && options->first_way_only && c->values[COMPOSE_FOLD]) out->ways_left_out += KEPT_WAYS;
  return ARKE_OK;
}
