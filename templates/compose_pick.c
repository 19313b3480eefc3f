/* Configurations of the stages. Their spaces multiply, so none is searched as a whole: every stage has what
 * its model likes best, and the stage that costs most also each of that one's neighbours. */
#include <math.h>
#include <stdlib.h>

#include "templates/compose.h"
#include "templates/space_descent.h"

typedef struct priced {
  config c;
  double ns;
} priced;

/* A stage under choice. */
typedef struct choice {
  const compose_stage *s;
  const target *t;
  const void *prepared;
} choice;

static bool price(const void *user, const config *c, double *ns) {
  const choice *of = user;
  return of->s->k->judge(of->prepared, of->t, &of->t->rates, c, ns) == TEMPLATE_OK && *ns >= 0;
}

/* From the default to where no step improves what the model says. */
static priced descend(const choice *of) {
  priced best = {of->s->c, INFINITY};
  of->s->k->judge(of->prepared, of->t, &of->t->rates, &best.c, &best.ns);
  space_descend(of->s->k->space(of->t), price, of, &best.c, &best.ns);
  return best;
}

static int compare_price(const void *a, const void *b) {
  const priced *x = a, *y = b;
  return (x->ns > y->ns) - (x->ns < y->ns);
}

/* The feasible points that differ from the stage's best in one parameter, cheapest first. */
static bool find_neighbours(const choice *of, const config *best, arena *a, compose_choices *out) {
  const space *all = of->s->k->space(of->t);
  priced *list = ARENA_NEW_N(a, priced, (size_t)LIMIT_PARAMS * LIMIT_PARAM_VALUES);
  int n = 0;
  if (!list) return false;
  for (int i = 0; i < all->n_params; i++) {
    for (int v = 0; v < all->params[i].n_values; v++) {
      priced *next = &list[n];
      next->c = *best;
      next->c.values[i] = all->params[i].values[v];
      if (next->c.values[i] != best->values[i] && price(of, &next->c, &next->ns)) n++;
    }
  }
  qsort(list, (size_t)n, sizeof *list, compare_price);
  out->n_neighbours = n < COMPOSE_NEIGHBOURS ? n : COMPOSE_NEIGHBOURS;
  for (int i = 0; i < out->n_neighbours; i++) out->neighbours[i] = list[i].c;
  return true;
}

compose_choices *compose_choose(const compose_plan *plan, const target *t, arena *a) {
  compose_choices *out = ARENA_NEW(a, compose_choices);
  choice dearest = {0};
  double most = -1;
  if (!out) return NULL;
  out->plan = plan;
  for (int i = 0; i < plan->n_stages; i++) {
    const compose_stage *s = plan->stages[i];
    choice of = {s, t, s->k->prepare(&s->problem, t, a)};
    if (!of.prepared) return NULL;
    priced best = descend(&of);
    out->prepared[i] = of.prepared;
    out->best[i] = best.c;
    if (!config_equal(s->k->space(t), &best.c, &s->c)) out->differs = true;
    if (best.ns * compose_times(plan, s) <= most) continue;
    most = best.ns * compose_times(plan, s);
    dearest = of;
    out->dearest = i;
  }
  return find_neighbours(&dearest, &out->best[out->dearest], a, out) ? out : NULL;
}

bool compose_pick(const compose_choices *from, const config *c, config stages[COMPOSE_STAGES]) {
  int pick = c->values[COMPOSE_PICK];
  for (int i = 0; i < from->plan->n_stages; i++)
    stages[i] = pick == 0 ? from->plan->stages[i]->c : from->best[i];
  if (pick < 2) return pick == 1 && from->differs;
  if (pick - 2 >= from->n_neighbours) return false;
  stages[from->dearest] = from->neighbours[pick - 2];
  return true;
}
