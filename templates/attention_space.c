/* The tiling space, and what a point of it is. */
#include <math.h>

#include "templates/attention.h"

#define VALUES(...)                                                                                          \
  { __VA_ARGS__ }
#define VALUE_COUNT(...) ((int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int)))

static const space_param params[] = {
#define X(NAME, meaning, ...) {#NAME, meaning, VALUE_COUNT(__VA_ARGS__), VALUES(__VA_ARGS__)},
    ATTENTION_PARAMS(X)
#undef X
};

const space attention_space = {"attention", ATTENTION_PARAM_COUNT, params};

const space *attention_space_of(const target *t) {
  (void)t;
  return &attention_space;
}

template_reason attention_fits(const ir_problem *p, const target *t, strbuf *detail) {
  arena a = ARENA_INIT;
  attention_match m;
  template_reason reason = attention_fit(p, t, &a, &m, detail, NULL);
  arena_release(&a);
  return reason;
}

/* Whether a simpler configuration does the same. */
static bool redundant(const attention_plan *plan, int sm_count) {
  int64_t tiles = attention_tiles(plan), heads = attention_all_units(plan);
  if (plan->group > 1 && (plan->group >= heads || tiles == 1)) return true;
  if (plan->group == 1 && heads == 1) return true;
  if (plan->group > 1 && attention_has_runs(plan)) return true; /* all tiles are at work at once */
  if (plan->split) return attention_runs(plan, sm_count) == 1;
  if (plan->merge > 1) { /* as many CTAs as half of them would do */
    int64_t keys = ir_form_extent(&plan->match->form, plan->match->key);
    return keys * 2 <= (int64_t)plan->block_n * attention_steps_at_once(plan) * plan->merge;
  }
  return plan->persistent && tiles * heads * plan->cluster <= (int64_t)sm_count * plan->resident;
}

static template_reason check_sizes(const attention_plan *plan, int sm_count) {
  const attention_match *m = plan->match;
  double items = (double)attention_tiles(plan) * (double)attention_all_units(plan);
  if (items > ATTENTION_MOST_EXTENT) return TEMPLATE_SIZE;
  /* A cluster along queries of one tile would compute nothing in its second CTA. */
  if (attention_along(plan) > 1 && ir_form_extent(&m->form, m->query) <= plan->block_q)
    return TEMPLATE_CLUSTER;
  return redundant(plan, sm_count) ? TEMPLATE_REDUNDANT : TEMPLATE_OK;
}

typedef struct prepared {
  template_reason reason;
  attention_match m;
  int64_t heads; /* of the batch, all together */
} prepared;

static int64_t heads_of(const attention_match *m) {
  int64_t heads = 1;
  for (int i = 0; i < m->batch.n; i++) heads *= ir_form_extent(&m->form, m->batch.loops[i]);
  return heads;
}

/* Clusters share the keys of tiles that are too few for the SMs: not where half of the CTAs have all of them
 * to do, nor, beside SPLIT, where a tile has one cluster. */
static template_reason check_clusters(const prepared *x, const target *t, const config *c) {
  const int *v = c->values;
  int merge = v[ATTENTION_MERGE], groups = v[ATTENTION_CONSUMERS], split = v[ATTENTION_SPLIT];
  int64_t pack = v[ATTENTION_PACK], sms = (int64_t)t->rates.sm_count;
  if (merge == 1) return TEMPLATE_OK;
  int halves = ir_form_extent(&x->m.form, x->m.wide) > ATTENTION_HALVES_FROM ? 2 : 1;
  int64_t rows = 64 * groups / halves,
          tiles = (ir_form_extent(&x->m.form, x->m.query) * pack + rows - 1) / rows;
  tiles *= x->heads < pack ? 1 : x->heads / pack;
  bool many = split ? tiles * merge * 2 > sms * split : tiles * merge / 2 >= sms * (groups == 1 ? 2 : 1);
  return many ? TEMPLATE_CLUSTER : TEMPLATE_OK;
}

const void *attention_prepare(const ir_problem *p, const target *t, arena *a) {
  arke_status status;
  prepared *x = ARENA_NEW(a, prepared);
  if (!x) return NULL;
  x->reason = attention_fit(p, t, a, &x->m, NULL, &status);
  if (x->reason == TEMPLATE_OK) x->heads = heads_of(&x->m);
  return status == ARKE_ERR_MEMORY ? NULL : x;
}

template_reason attention_check_schedule(const void *of, const target *t, const config *c) {
  const prepared *x = of;
  if (x->reason != TEMPLATE_OK) return x->reason;
  template_reason reason = attention_check_numbers(c);
  return reason == TEMPLATE_OK ? check_clusters(x, t, c) : reason;
}

template_reason attention_check_tiles(const void *of, const target *t, const config *c) {
  const prepared *x = of;
  attention_plan plan;
  return x->reason == TEMPLATE_OK ? attention_plan_make(&x->m, t, c, &plan) : x->reason;
}

template_reason attention_judge(const void *of, const target *t, const target_rates *rates, const config *c,
                                double *ns) {
  const prepared *x = of;
  attention_plan plan;
  template_reason reason = attention_check_schedule(x, t, c); /* first: it costs least, most end here */
  if (reason == TEMPLATE_OK) reason = attention_plan_make(&x->m, t, c, &plan);
  if (reason == TEMPLATE_OK) reason = check_sizes(&plan, t->rates.sm_count);
  if (template_is_built(reason)) *ns = attention_plan_cost_ns(&plan, t, rates);
  return reason;
}

/* What starts are made of; the cost says which is best. */
static const int start_stages[] = {2, 1}, start_groups[] = {1, 4, 0};

static void try_start(const prepared *x, const target *t, config here, double *least, config *best) {
  double ns;
  template_reason reason = attention_judge(x, t, &t->rates, &here, &ns);
  /* Of a tile for each SM or fewer a persistent grid is another name for the plain one. */
  if (reason == TEMPLATE_REDUNDANT && here.values[ATTENTION_PERSISTENT]) {
    here.values[ATTENTION_PERSISTENT] = 0;
    reason = attention_judge(x, t, &t->rates, &here, &ns);
  }
  if (reason == TEMPLATE_REDUNDANT && here.values[ATTENTION_GROUP]) {
    here.values[ATTENTION_GROUP] = 0;
    reason = attention_judge(x, t, &t->rates, &here, &ns);
  }
  if (reason != TEMPLATE_OK || ns >= *least) return;
  *least = ns;
  *best = here;
}

void attention_defaults(const ir_problem *p, const target *t, config *c) {
  arena a = ARENA_INIT;
  const prepared *x = attention_prepare(p, t, &a);
  const space_param *blocks = &params[ATTENTION_BLOCK_N];
  double least = INFINITY;
  size_t groups = x && x->m.groups.of ? 3 : 2; /* of all heads for packed requests alone */
  *c = (config){{[ATTENTION_CONSUMERS] = 1,
                 [ATTENTION_BLOCK_N] = 32,
                 [ATTENTION_STAGES] = 1,
                 [ATTENTION_CLUSTER] = 1,
                 [ATTENTION_PACK] = 1,
                 [ATTENTION_MERGE] = 1}};
  for (int n = 0; x && n < blocks->n_values; n++) {
    for (int consumers = 1; consumers <= 3; consumers++) {
      for (size_t i = 0; i < COUNT_OF(start_stages) * groups; i++) {
        int stages = start_stages[i % COUNT_OF(start_stages)];
        config here = {{[ATTENTION_CONSUMERS] = consumers,
                        [ATTENTION_BLOCK_N] = blocks->values[n],
                        [ATTENTION_STAGES] = stages,
                        [ATTENTION_TURNS] = consumers > 1,
                        [ATTENTION_OVERLAP] = stages > 1,
                        [ATTENTION_CLUSTER] = 1,
                        [ATTENTION_PACK] = 1,
                        [ATTENTION_GROUP] = start_groups[i / COUNT_OF(start_stages)],
                        [ATTENTION_PERSISTENT] = 1,
                        [ATTENTION_MERGE] = 1}};
        try_start(x, t, here, &least, c);
      }
    }
  }
  arena_release(&a);
}

/* Two tiles of queries, the second ragged; more steps than stages, the last ragged; heads so that groups of
 * them are incomplete and CTAs have more than one tile. */
void attention_reduced_problem(const ir_problem *p, const target *t, const config *c, int sm_count,
                               ir_problem *reduced) {
  arena a = ARENA_INIT;
  attention_match m;
  attention_plan plan;
  *reduced = *p;
  if (attention_fit(p, t, &a, &m, NULL, NULL) == TEMPLATE_OK &&
      attention_plan_make(&m, t, c, &plan) == TEMPLATE_OK) {
    const ir_form *form = &m.form;
    const attention_pack *pack = &plan.pack;
    int64_t queries = (int64_t)plan.block_q * (2 * attention_along(&plan) - 1) + 37 / pack->heads + 1,
            keys = (int64_t)(plan.stages + 1) * plan.block_n + 9, heads = 3;
    if (plan.packed && !plan.page) keys *= 2; /* of three requests */
    attention_set_keys(&m, keys, reduced);
    ir_form_set_extent(form, m.query, queries, reduced);
    if (plan.packed) ir_form_set_extent(form, m.groups.loop, 3, reduced);
    if (2 * heads <= sm_count) heads = sm_count / 2 + 1;
    for (int i = 0; i < m.batch.n; i++)
      ir_form_set_extent(form, m.batch.loops[i], i == m.batch.n - 1 ? heads : 1, reduced);
    for (int i = 0; i < m.bounds.n_shares; i++) {
      reduced->sizes[m.bounds.shares[i][1].axis] = 2;
      reduced->sizes[m.bounds.shares[i][0].axis] = (heads + 1) / 2 * 2;
    }
    /* The last pack of a group has a head alone, if the problem's are not whole. */
    heads = pack->heads * pack->spread + (pack->whole ? 0 : 1);
    if (pack->loop >= 0 && pack->shared) reduced->sizes[pack->of.axis] = 2 * heads;
    if (pack->loop >= 0 && !pack->shared) ir_form_set_extent(form, pack->loop, heads, reduced);
  }
  arena_release(&a);
}
