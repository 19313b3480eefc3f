/* Configurations of the stages. Their spaces multiply, so none is searched as a whole: every stage has what
 * its model likes best, and the stage that costs most also each of that one's neighbours. */
#include <stdlib.h>

#include "templates/compose.h"

enum { ROUNDS = 8 }; /* descents end after three or four */

typedef struct priced {
  config c;
  double ns;
} priced;

static bool price(const compose_stage *s, const target *t, const config *c, double *ns) {
  if (s->k->feasible(&s->problem, t, c) != TEMPLATE_OK) return false;
  *ns = s->k->cost_ns(&s->problem, t, &t->rates, c);
  return *ns >= 0;
}

/* The best of all configurations that differ from `from` in one parameter, or `from` itself. */
static bool improve(const compose_stage *s, const target *t, priced *best) {
  const space *all = s->k->space(t);
  const config from = best->c;
  bool better = false;
  for (int i = 0; i < all->n_params; i++) {
    for (int v = 0; v < all->params[i].n_values; v++) {
      config c = from;
      double ns;
      c.values[i] = all->params[i].values[v];
      if (c.values[i] == from.values[i] || !price(s, t, &c, &ns) || ns >= best->ns) continue;
      *best = (priced){c, ns};
      better = true;
    }
  }
  return better;
}

/* From the default to where no step improves what the model says. */
static priced descend(const compose_stage *s, const target *t) {
  priced best = {s->c, s->k->cost_ns(&s->problem, t, &t->rates, &s->c)};
  for (int i = 0; i < ROUNDS && improve(s, t, &best); i++) continue;
  return best;
}

static int compare_price(const void *a, const void *b) {
  const priced *x = a, *y = b;
  return (x->ns > y->ns) - (x->ns < y->ns);
}

/* The neighbour of the stage's configuration that the model puts at `rank` (0: first); false: there are
 * fewer. */
static bool pick_neighbour(compose_stage *s, const target *t, int rank) {
  const space *all = s->k->space(t);
  priced list[LIMIT_PARAMS * LIMIT_PARAM_VALUES];
  int n = 0;
  for (int i = 0; i < all->n_params; i++) {
    for (int v = 0; v < all->params[i].n_values; v++) {
      priced *next = &list[n];
      next->c = s->c;
      next->c.values[i] = all->params[i].values[v];
      if (next->c.values[i] != s->c.values[i] && price(s, t, &next->c, &next->ns)) n++;
    }
  }
  qsort(list, (size_t)n, sizeof *list, compare_price);
  if (rank >= n) return false;
  s->c = list[rank].c;
  return true;
}

bool compose_configure(compose_plan *plan, const target *t, const config *c) {
  int pick = c->values[COMPOSE_PICK], dearest = 0;
  double most = -1;
  bool differs = false;
  if (pick == 0) return false;
  for (int i = 0; i < plan->n_stages; i++) {
    compose_stage *s = plan->stages[i];
    priced best = descend(s, t);
    if (!config_equal(s->k->space(t), &best.c, &s->c)) differs = true;
    s->c = best.c;
    if (best.ns > most) most = best.ns, dearest = i;
  }
  return pick == 1 ? differs : pick_neighbour(plan->stages[dearest], t, pick - 2);
}
