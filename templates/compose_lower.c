/* The template's record: stages' configurations, their cost, and one image of all their kernels. */
#include <string.h>

#include "templates/compose.h"

#define STAGE "generate"

#define X(NAME, meaning, ...)                                                                                \
  [COMPOSE_##NAME] = {#NAME, meaning, (int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int)), {__VA_ARGS__}},
static const space_param params[COMPOSE_N_PARAMS] = {COMPOSE_PARAMS(X)};
#undef X
static const space compose_space = {"compose", COMPOSE_N_PARAMS, params};

const space *compose_space_of(const target *t) {
  (void)t;
  return &compose_space;
}

template_reason compose_fits(const ir_problem *p, const target *t, strbuf *detail) {
  arena a = ARENA_INIT;
  compose_plan plan;
  template_reason reason;
  if (compose_split(p, t, &a, &plan, &reason, detail, NULL) != ARKE_OK) {
    if (detail) strbuf_add(detail, "out of memory");
    reason = TEMPLATE_OPERATOR;
  }
  arena_release(&a);
  return reason;
}

void compose_defaults(const ir_problem *p, const target *t, config *c) {
  (void)p;
  (void)t;
  *c = (config){.values = {[COMPOSE_PICK] = 0}};
}

/* --- judging --- */

typedef struct prepared {
  template_reason reason;
  compose_plan plan;
  compose_choices *choices;
} prepared;

const void *compose_prepare(const ir_problem *p, const target *t, arena *a) {
  prepared *made = ARENA_NEW(a, prepared);
  if (!made || compose_split(p, t, a, &made->plan, &made->reason, NULL, NULL) != ARKE_OK) return NULL;
  if (made->reason == TEMPLATE_OK) made->choices = compose_choose(&made->plan, t, a);
  return made->reason == TEMPLATE_OK && !made->choices ? NULL : made;
}

double compose_price(double ns, const target_rates *rates) {
  return ns > 0 ? ns : rates->launch_ns;
}

static double stage_ns(const prepared *made, int i, const target *t, const target_rates *rates,
                       const config *c) {
  const kernel_template *k = made->plan.stages[i]->k;
  double ns = 0;
  k->judge(made->choices->prepared[i], t, rates, c, &ns);
  return compose_price(ns, rates);
}

template_reason compose_judge(const void *of, const target *t, const target_rates *rates, const config *c,
                              double *ns) {
  const prepared *made = of;
  config stages[COMPOSE_STAGES];
  if (made->reason != TEMPLATE_OK) return made->reason;
  bool own = compose_pick(made->choices, c, stages);
  *ns = 0;
  for (int i = 0; i < made->plan.n_stages; i++) *ns += stage_ns(made, i, t, rates, &stages[i]);
  return own || c->values[COMPOSE_PICK] == 0 ? TEMPLATE_OK : TEMPLATE_REDUNDANT;
}

int compose_parts(const ir_problem *p, const target *t, const config *c, arena *a, template_part *parts) {
  const prepared *made = compose_prepare(p, t, a);
  config stages[COMPOSE_STAGES];
  if (!made || made->reason != TEMPLATE_OK) return 0;
  compose_pick(made->choices, c, stages);
  for (int i = 0; i < made->plan.n_stages; i++)
    parts[i] = (template_part){made->plan.stages[i]->k, &made->plan.stages[i]->problem, stages[i],
                               stage_ns(made, i, t, &t->rates, &stages[i])};
  return made->plan.n_stages;
}

/* --- lowering --- */

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

arke_status compose_ways(const ir_problem *p, const target *t, const config *c, const lower_options *options,
                         arena *a, kernel_way *ways, int *n, arke_error *err) {
  const prepared *made = compose_prepare(p, t, a);
  way_list *own = ARENA_NEW_N(a, way_list, COMPOSE_STAGES);
  kernel_stage stages[COMPOSE_STAGES];
  config configs[COMPOSE_STAGES];
  if (!made || !own) return error_memory(err, STAGE);
  if (made->reason != TEMPLATE_OK)
    return error_set(err, ARKE_ERR_UNSUPPORTED, STAGE, "%s", template_reason_text(made->reason));
  const compose_plan *plan = &made->plan;
  compose_pick(made->choices, c, configs);
  for (int i = 0; i < plan->n_stages; i++) {
    const compose_stage *s = plan->stages[i];
    const char *prefix = arena_printf(a, "stage%d_", i);
    if (!prefix) return error_memory(err, STAGE);
    stages[i] = (kernel_stage){
        .prefix = prefix, .problem = &s->problem, .ways = own[i].ways, .arguments = s->arguments};
    TRY(s->k->ways(&s->problem, t, &configs[i], options, a, own[i].ways, &stages[i].n, err));
    TRY(add_any_way(s, t, options, a, own[i].ways, &stages[i].n, err));
  }
  return kernel_join(p, stages, plan->n_stages, plan->temporaries, plan->n_cuts, a, ways, n, err);
}

arke_status compose_lower(const ir_problem *p, const target *t, const config *c, const lower_options *options,
                          arena *a, lowered *out, arke_error *err) {
  kernel_way ways[KERNEL_MAX_WAYS];
  int n;
  TRY(compose_ways(p, t, c, options, a, ways, &n, err));
  return kernel_lower_ways(ways, n, t, options, a, out, err);
}

/* The largest power of two that divides x: what alignment and whole tiles depend on. */
static int64_t evenness(int64_t x) {
  return x & -x;
}

/* Of an axis that no stage has, or for want of memory: small, and as even as alignment needs. */
static int64_t small_size(int64_t size) {
  int64_t e = evenness(size) < 16 ? evenness(size) : 16, most = 80 + e;
  return size > most ? most : size;
}

/* An axis that several stages have is as the one says that wants it most even: kernels for whole tiles run on
 * no other size, and all others on any. */
static void reduce_axes(const template_part *part, const target *t, int sm_count, ir_problem *reduced,
                        bool *known) {
  const ir_op *op = part->problem->op;
  ir_problem own;
  part->k->reduced_problem(part->problem, t, &part->c, sm_count, &own);
  for (int i = 0; i < op->n_axes; i++) {
    for (int k = 0; k < reduced->op->n_axes; k++) {
      int64_t *size = &reduced->sizes[k], mine = own.sizes[i];
      if (strcmp(op->axes[i], reduced->op->axes[k]) != 0) continue;
      bool better = evenness(mine) > evenness(*size) || (evenness(mine) == evenness(*size) && mine > *size);
      if (!known[k] || better) *size = mine;
      known[k] = true;
    }
  }
}

void compose_reduced_problem(const ir_problem *p, const target *t, const config *c, int sm_count,
                             ir_problem *reduced) {
  arena a = ARENA_INIT;
  template_part parts[COMPOSE_STAGES];
  bool known[LIMIT_AXES] = {false};
  int n = compose_parts(p, t, c, &a, parts);
  *reduced = *p;
  for (int i = 0; i < n; i++) reduce_axes(&parts[i], t, sm_count, reduced, known);
  for (int i = 0; i < p->op->n_axes; i++)
    if (!known[i]) reduced->sizes[i] = small_size(p->sizes[i]);
  for (int i = 0; i < p->lead_rank; i++) reduced->lead[i] = p->lead[i] < 3 ? p->lead[i] : 3;
  arena_release(&a);
}
