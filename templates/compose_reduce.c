/* Small problems that a composed operator's kernels are verified at: each stage's own, brought together. */
#include <string.h>

#include "templates/compose_judge.h"

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

/* Whether the kernels run at these sizes, as far as sizes alone decide that: some are made for the width of a
 * head, or for the length of a row. */
static bool runs_at(const recipe *rules, const ir_problem *p) {
  recipe_binding env[LIMIT_AXES];
  for (int i = 0; i < p->op->n_axes; i++) env[i] = (recipe_binding){p->op->axes[i], p->sizes[i]};
  for (int i = 0; i < rules->n_requirements && i < RECIPE_MAX_REQUIREMENTS; i++) {
    const recipe_requirement *r = rules->requirements ? &rules->requirements[i] : NULL;
    int64_t value;
    if (!r) return false; /* there was no memory for them */
    if (recipe_expr_eval(r->expr, env, p->op->n_axes, &value, NULL) != ARKE_OK) continue; /* of strides */
    if (r->divisor > 0 ? value % r->divisor != 0 : value > r->max || (r->exact && value != r->max))
      return false;
  }
  return true;
}

/* A stage that keeps whole rows keeps an axis that is another one's tokens: the reference of a single loss
 * over all of them would take hours, and the emulator minutes. Then the largest axes, except for one, have
 * only as much as whole tiles need, until both take a second or a few. Those that kernels are made for keep
 * what they have. */
static void reduce_more(const compose_prepared *made, const ir_problem *p, const target *t, const config *c,
                        int except, arena *a, ir_problem *reduced) {
  enum { LEAST = 256, TILE = 128 };
  static const double most_flops = 1e10, few_flops = 2e8, most_elements = 1e7;
  kernel_way ways[KERNEL_MAX_WAYS];
  bool fixed[LIMIT_AXES] = {false};
  int n;
  if (ir_flops(reduced) <= most_flops && ir_argument_elements(reduced) <= most_elements) return;
  if (compose_prepared_ways(made, p, t, c, &(lower_options){0}, a, ways, &n, NULL) != ARKE_OK) return;
  if (except >= 0) fixed[except] = true;
  while (ir_flops(reduced) > few_flops || ir_argument_elements(reduced) > most_elements) {
    int largest = -1;
    for (int k = 0; k < p->op->n_axes; k++)
      if (!fixed[k] && (largest < 0 || reduced->sizes[k] > reduced->sizes[largest])) largest = k;
    if (largest < 0 || reduced->sizes[largest] <= LEAST + TILE) return;
    int64_t *size = &reduced->sizes[largest], before = *size,
            e = evenness(before) < TILE ? evenness(before) : TILE;
    *size = (LEAST + e - 1) / e * e;
    if (!runs_at(ways[0].rules, reduced)) *size = before;
    fixed[largest] = true;
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
  if (!compose_is_sliced(plan)) return -1;
  int axis = plan->form.loops[x->loop].dims[0].axis;
  int64_t all = p->sizes[axis];
  reduced->sizes[axis] = all <= x->size ? all : x->size + small_size(all % x->size ? all % x->size : x->size);
  return axis;
}

/* Stages' small problems are each its own: what one of them makes of an axis another one's kernel may not be
 * made for. An axis of few elements keeps them, and none has more than there are. */
static void keep_few(const ir_problem *p, const reduced_axis *known, ir_problem *reduced) {
  enum { FEW = 64 };
  for (int i = 0; i < p->op->n_axes; i++)
    if (known[i].by != AXIS_SHARE && (p->sizes[i] <= FEW || reduced->sizes[i] > p->sizes[i]))
      reduced->sizes[i] = p->sizes[i];
}

void compose_reduced_problem(const ir_problem *p, const target *t, const config *c, int sm_count,
                             ir_problem *reduced) {
  *reduced = *p;
  arena a = ARENA_INIT;
  template_part parts[COMPOSE_STAGES];
  reduced_axis known[LIMIT_AXES] = {{AXIS_UNKNOWN, 0}};
  const compose_prepared *made = compose_prepare_config(p, t, c, &a);
  if (made && made->reason != TEMPLATE_OK) made = NULL;
  int n = made ? compose_list_parts(made, t, c, parts) : 0, sliced = -1;
  for (int i = 0; i < n; i++) reduce_axes(&parts[i], t, sm_count, reduced, known);
  even_shares(known, reduced);
  keep_ones(p, known, reduced);
  keep_few(p, known, reduced);
  for (int i = 0; i < p->op->n_axes; i++)
    if (known[i].by == AXIS_UNKNOWN) reduced->sizes[i] = small_size(p->sizes[i]);
  if (made) sliced = keep_slices(p, &made->plan, reduced);
  if (made) reduce_more(made, p, t, c, sliced, &a, reduced);
  for (int i = 0; made && i < made->plan.n_stages; i++)
    reduce_block(&made->plan.stages[i]->block, known, reduced);
  for (int i = 0; i < p->lead_rank; i++) reduced->lead[i] = p->lead[i] < 3 ? p->lead[i] : 3;
  arena_release(&a);
}
