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

/* Everything whole, as it suits the stages. */
static const compose_how whole = {.slice = 0, .keep = true};
static const compose_how fold = {.slice = 0, .keep = true, .fold = true};

template_reason compose_fits(const ir_problem *p, const target *t, strbuf *detail) {
  arena a = ARENA_INIT;
  compose_plan plan;
  template_reason reason;
  if (compose_split(p, t, whole, &a, &plan, &reason, detail, NULL) != ARKE_OK) {
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

static bool is_sliced(const compose_plan *plan) {
  return plan->slices.loop >= 0;
}

/* Whether it costs less to compute what can be by what reads it than to keep it. */
static bool folds(const ir_problem *p, const target *t, const compose_plan *kept, arena *a) {
  compose_plan folded;
  template_reason reason;
  return kept->can_fold && compose_split(p, t, fold, a, &folded, &reason, NULL, NULL) == ARKE_OK &&
         reason == TEMPLATE_OK && folded.folded && compose_all_ns(&folded) < compose_all_ns(kept);
}

/* The largest slice that keeps no more than it may, where something large would be kept. */
void compose_defaults(const ir_problem *p, const target *t, config *c) {
  const space_param *slice = &params[COMPOSE_SLICE];
  arena a = ARENA_INIT;
  compose_plan plan;
  template_reason reason;
  *c = (config){.values = {[COMPOSE_KEEP] = 1}};
  bool taken = compose_split(p, t, whole, &a, &plan, &reason, NULL, NULL) == ARKE_OK && reason == TEMPLATE_OK;
  bool more = taken && keeps_too_much(&plan);
  c->values[COMPOSE_FOLD] = taken && folds(p, t, &plan, &a);
  for (int i = 1; i < slice->n_values && more; i++) {
    compose_how how = {.slice = slice->values[i]};
    more = compose_split(p, t, how, &a, &plan, &reason, NULL, NULL) == ARKE_OK && reason == TEMPLATE_OK &&
           is_sliced(&plan) && (i == 1 || !keeps_too_much(&plan));
    if (more) c->values[COMPOSE_SLICE] = slice->values[i], c->values[COMPOSE_KEEP] = 0;
  }
  arena_release(&a);
}

/* --- judging --- */

/* For one value of SLICE and KEEP. */
typedef struct prepared {
  template_reason reason;
  compose_plan plan;
  compose_choices *choices;
} prepared;

typedef struct prepared_all {
  bool has_choice;                        /* else all are what is kept */
  const prepared *kept;                   /* whole */
  const prepared *folded;                 /* with FOLD; NULL: there is nothing to fold */
  const prepared *of[LIMIT_PARAM_VALUES]; /* computed again, by the number of SLICE's value */
} prepared_all;

static int slice_number(const config *c) {
  const space_param *slice = &params[COMPOSE_SLICE];
  int i = 0;
  while (i + 1 < slice->n_values && slice->values[i] != c->values[COMPOSE_SLICE]) i++;
  return i;
}

static const prepared *prepare(const ir_problem *p, const target *t, compose_how how, arena *a) {
  prepared *made = ARENA_NEW(a, prepared);
  if (!made || compose_split(p, t, how, a, &made->plan, &made->reason, NULL, NULL) != ARKE_OK) return NULL;
  if (made->reason == TEMPLATE_OK) made->choices = compose_choose(&made->plan, t, a);
  return made->reason == TEMPLATE_OK && !made->choices ? NULL : made;
}

/* Whether there is anything that may be kept or computed again: of the plan that keeps it. */
static bool has_choice(const compose_plan *kept, template_reason reason) {
  return reason == TEMPLATE_OK && (kept->crosses || compose_crossing_bytes(kept, 0) > 0);
}

static const prepared *prepare_config(const ir_problem *p, const target *t, const config *c, arena *a) {
  compose_plan kept;
  template_reason reason;
  if (c->values[COMPOSE_FOLD]) return prepare(p, t, fold, a);
  if (c->values[COMPOSE_KEEP]) return prepare(p, t, whole, a);
  if (compose_split(p, t, whole, a, &kept, &reason, NULL, NULL) != ARKE_OK) return NULL;
  compose_how how = {.slice = c->values[COMPOSE_SLICE]};
  return prepare(p, t, has_choice(&kept, reason) ? how : whole, a);
}

const void *compose_prepare(const ir_problem *p, const target *t, arena *a) {
  const space_param *slice = &params[COMPOSE_SLICE];
  prepared_all *all = ARENA_NEW(a, prepared_all);
  if (!all || !(all->kept = prepare(p, t, whole, a))) return NULL;
  all->has_choice = has_choice(&all->kept->plan, all->kept->reason);
  bool can_fold = all->kept->reason == TEMPLATE_OK && all->kept->plan.can_fold;
  if (can_fold && !(all->folded = prepare(p, t, fold, a))) return NULL;
  if (can_fold && !all->folded->plan.folded) all->folded = NULL;
  for (int i = 0; i < slice->n_values; i++) {
    if (!all->has_choice) {
      all->of[i] = all->kept;
    } else if (i > 1 && !is_sliced(&all->of[1]->plan)) { /* the same for all values */
      all->of[i] = all->of[1];
    } else {
      all->of[i] = prepare(p, t, (compose_how){.slice = slice->values[i]}, a);
    }
    if (!all->of[i]) return NULL;
  }
  return all;
}

double compose_price(double ns, const target_rates *rates) {
  return ns > 0 ? ns : rates->launch_ns;
}

/* All times that it runs. */
static double stage_ns(const prepared *made, int i, const target *t, const target_rates *rates,
                       const config *c) {
  const compose_stage *s = made->plan.stages[i];
  double ns = 0;
  s->k->judge(made->choices->prepared[i], t, rates, c, &ns);
  return compose_price(ns, rates) * compose_times(&made->plan, s);
}

/* Whether no other value of SLICE keeps less. */
static bool keeps_least(const prepared_all *all, int number) {
  return number == 1 || (number == 0 && !is_sliced(&all->of[1]->plan));
}

template_reason compose_judge(const void *of, const target *t, const target_rates *rates, const config *c,
                              double *ns) {
  const prepared_all *all = of;
  int number = slice_number(c);
  bool keep = c->values[COMPOSE_KEEP], folded = c->values[COMPOSE_FOLD];
  const prepared *made = folded && all->folded ? all->folded : keep ? all->kept : all->of[number];
  config stages[COMPOSE_STAGES];
  if (made->reason != TEMPLATE_OK) return made->reason;
  if (!keep && !keeps_least(all, number) && is_sliced(&all->of[1]->plan) && keeps_too_much(&made->plan))
    return TEMPLATE_WORKSPACE;
  bool own = compose_pick(made->choices, c, stages) || c->values[COMPOSE_PICK] == 0;
  if (number > 0 && (!is_sliced(&made->plan) || compose_rounds(&made->plan) < 2)) own = false;
  if (!keep && !all->has_choice) own = false;
  if (folded && (!all->folded || !keep || number > 0)) own = false;
  *ns = 0;
  for (int i = 0; i < made->plan.n_stages; i++) *ns += stage_ns(made, i, t, rates, &stages[i]);
  return own ? TEMPLATE_OK : TEMPLATE_REDUNDANT;
}

int compose_parts(const ir_problem *p, const target *t, const config *c, arena *a, template_part *parts) {
  const prepared *made = prepare_config(p, t, c, a);
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

/* `name`: of its stages' kernels, with their numbers. */
static arke_status join_stages(const ir_problem *p, const target *t, const config *c, const prepared *made,
                               const char *name, const lower_options *options, arena *a, kernel_way *ways,
                               int *n, arke_error *err) {
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
                     is_sliced(plan) ? &plan->slices.names : NULL, a, ways, n, err);
}

/* Behind stages that compute what they read, which may want rows as copies do, come those that keep it. */
static arke_status add_kept(const ir_problem *p, const target *t, const lower_options *options, arena *a,
                            kernel_way *ways, int *n, arke_error *err) {
  const config c = {.values = {[COMPOSE_KEEP] = 1}};
  const prepared *made = prepare_config(p, t, &c, a);
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

arke_status compose_ways(const ir_problem *p, const target *t, const config *c, const lower_options *options,
                         arena *a, kernel_way *ways, int *n, arke_error *err) {
  const prepared *made = prepare_config(p, t, c, a);
  if (!made) return error_memory(err, STAGE);
  if (made->reason != TEMPLATE_OK)
    return error_set(err, ARKE_ERR_UNSUPPORTED, STAGE, "%s", template_reason_text(made->reason));
  TRY(join_stages(p, t, c, made, "stage", options, a, ways, n, err));
  return made->plan.folded ? add_kept(p, t, options, a, ways, n, err) : ARKE_OK;
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

/* Whether an expression divides a size by a size, and one of them is the axis. */
static bool is_share(const ir_expr *e, int axis) {
  if (e->node == IR_OPERATOR && e->id == IR_OP_DIV && e->args[0]->node == IR_SIZE &&
      e->args[1]->node == IR_SIZE && (e->args[0]->id == axis || e->args[1]->id == axis))
    return true;
  for (int i = 0; i < e->n_args; i++)
    if (is_share(e->args[i], axis)) return true;
  return false;
}

static bool has_share(const ir_op *op, int axis) {
  for (int i = 0; i < op->n_definitions; i++)
    if (is_share(op->definitions[i].value, axis)) return true;
  return false;
}

/* How an axis has got its size: those that later steps replace come first. */
typedef enum axis_by { AXIS_UNKNOWN, AXIS_EVEN, AXIS_SHARE } axis_by;

typedef struct reduced_axis {
  axis_by by;
  int64_t evenness; /* what stages want that do not divide by it */
} reduced_axis;

/* An axis that several stages have is as the one says that wants it most even: kernels for whole tiles run on
 * no other size, and all others on any. Before that, as one says that divides by it: kernels are made for
 * quotients of sizes, which others would change. */
static void reduce_axes(const template_part *part, const target *t, int sm_count, ir_problem *reduced,
                        reduced_axis *known) {
  const ir_op *op = part->problem->op;
  ir_problem own;
  part->k->reduced_problem(part->problem, t, &part->c, sm_count, &own);
  for (int i = 0; i < op->n_axes; i++) {
    axis_by by = has_share(op, i) ? AXIS_SHARE : AXIS_EVEN;
    for (int k = 0; k < reduced->op->n_axes; k++) {
      int64_t *size = &reduced->sizes[k], mine = own.sizes[i];
      if (strcmp(op->axes[i], reduced->op->axes[k]) != 0) continue;
      if (by == AXIS_EVEN && evenness(mine) > known[k].evenness) known[k].evenness = evenness(mine);
      if (by < known[k].by) continue;
      bool better = evenness(mine) > evenness(*size) || (evenness(mine) == evenness(*size) && mine > *size);
      if (by > known[k].by || better) *size = mine;
      known[k].by = by;
    }
  }
}

/* Makes those that are divided by each other as even as others want them, by one factor. */
static void even_shares(const reduced_axis *known, ir_problem *reduced) {
  enum { MOST = 8 };
  int64_t factor = 1;
  for (int i = 0; i < reduced->op->n_axes; i++) {
    int64_t own = evenness(reduced->sizes[i]);
    if (known[i].by == AXIS_SHARE && own > 0 && known[i].evenness / own > factor)
      factor = known[i].evenness / own;
  }
  for (int i = 0; i < reduced->op->n_axes; i++)
    if (known[i].by == AXIS_SHARE) reduced->sizes[i] *= factor < MOST ? factor : MOST;
}

/* Kernels may be made for one element along an axis that has no more: it keeps it. Axes that are divided by
 * each other all shrink by what it has too much, so that quotients stay. */
static void keep_ones(const ir_problem *p, const reduced_axis *known, ir_problem *reduced) {
  for (int i = 0; i < p->op->n_axes; i++) {
    int64_t times = reduced->sizes[i];
    if (p->sizes[i] != 1 || times <= 1) continue;
    for (int k = 0; k < p->op->n_axes && known[i].by == AXIS_SHARE; k++)
      if (known[k].by == AXIS_SHARE && reduced->sizes[k] % times == 0) reduced->sizes[k] /= times;
    reduced->sizes[i] = 1;
  }
}

/* A stage that keeps whole rows keeps an axis that is another one's tokens, and the reference of a single
 * loss over all of them would take hours: then the largest axes, except for one, have only as much as
 * whole tiles need, until it takes a second or a few, on the emulator too. Widths of heads are not among
 * them: kernels are made for those. */
static void reduce_more(const ir_problem *p, int except, ir_problem *reduced) {
  enum { LEAST = 256, TILE = 128, WIDEST_HEAD = 1024 };
  static const double most_flops = 1e10, few_flops = 2e8;
  if (ir_flops(reduced) <= most_flops) return;
  for (int i = 0; i < p->op->n_axes && ir_flops(reduced) > few_flops; i++) {
    int largest = -1;
    for (int k = 0; k < p->op->n_axes; k++)
      if (k != except && (largest < 0 || reduced->sizes[k] > reduced->sizes[largest])) largest = k;
    if (largest < 0 || reduced->sizes[largest] <= WIDEST_HEAD) return;
    int64_t *size = &reduced->sizes[largest], e = evenness(*size) < TILE ? evenness(*size) : TILE;
    *size = (LEAST + e - 1) / e * e;
  }
}

/* An axis that stages have as blocks of another one follows from that, unless some have it as it is, and keep
 * more of it: kernels that are made for a width keep all. */
static void reduce_block(const compose_block *block, const reduced_axis *known, ir_problem *reduced) {
  int axis, part;
  if (!compose_block_axes(block, reduced->op, &axis, &part)) return;
  int64_t *all = &reduced->sizes[axis], *of = &reduced->sizes[part];
  if (known[axis].by != AXIS_UNKNOWN && *all / block->times > *of) *of = *all / block->times;
  *all = *of * block->times;
}

/* A full slice and a part of one. Returns the axis; -1: none is sliced. */
static int keep_slices(const ir_problem *p, const compose_plan *plan, ir_problem *reduced) {
  const compose_slices *x = &plan->slices;
  if (!is_sliced(plan)) return -1;
  int axis = plan->form.loops[x->loop].dims[0].axis;
  int64_t all = p->sizes[axis];
  reduced->sizes[axis] = all <= x->size ? all : x->size + small_size(all % x->size ? all % x->size : x->size);
  return axis;
}

void compose_reduced_problem(const ir_problem *p, const target *t, const config *c, int sm_count,
                             ir_problem *reduced) {
  arena a = ARENA_INIT;
  template_part parts[COMPOSE_STAGES];
  reduced_axis known[LIMIT_AXES] = {{AXIS_UNKNOWN, 0}};
  int n = compose_parts(p, t, c, &a, parts), sliced = -1;
  *reduced = *p;
  for (int i = 0; i < n; i++) reduce_axes(&parts[i], t, sm_count, reduced, known);
  even_shares(known, reduced);
  keep_ones(p, known, reduced);
  for (int i = 0; i < p->op->n_axes; i++)
    if (known[i].by == AXIS_UNKNOWN) reduced->sizes[i] = small_size(p->sizes[i]);
  const prepared *made = n > 0 ? prepare_config(p, t, c, &a) : NULL;
  if (made) sliced = keep_slices(p, &made->plan, reduced);
  reduce_more(p, sliced, reduced);
  for (int i = 0; made && i < made->plan.n_stages; i++)
    reduce_block(&made->plan.stages[i]->block, known, reduced);
  for (int i = 0; i < p->lead_rank; i++) reduced->lead[i] = p->lead[i] < 3 ? p->lead[i] : 3;
  arena_release(&a);
}
