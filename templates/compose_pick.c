/* Configurations of the stages. Their spaces multiply, so none is searched as a whole: every stage has what
 * its model likes best, and the stage that costs most also each of that one's neighbours. */
#include <stdlib.h>

#include "templates/compose.h"
#include "templates/space_descent.h"

typedef struct priced {
  config c;
  double ns;
} priced;

/* A stage under choice; `prepared` (template.h) is NULL where its template has none. */
typedef struct choice {
  compose_stage *s;
  const target *t;
  const void *prepared;
} choice;

static choice choose_for(compose_stage *s, const target *t, arena *a) {
  return (choice){s, t, s->k->prepare ? s->k->prepare(&s->problem, t, a) : NULL};
}

static bool price(const choice *of, const config *c, double *ns) {
  const kernel_template *k = of->s->k;
  if (of->prepared) return k->judge(of->prepared, of->t, &of->t->rates, c, ns) == TEMPLATE_OK && *ns >= 0;
  if (k->feasible(&of->s->problem, of->t, c) != TEMPLATE_OK) return false;
  *ns = k->cost_ns(&of->s->problem, of->t, &of->t->rates, c);
  return *ns >= 0;
}

static bool price_of(const void *user, const config *c, double *ns) {
  return price(user, c, ns);
}

/* From the default to where no step improves what the model says. */
static priced descend(const choice *of) {
  const compose_stage *s = of->s;
  priced best = {s->c, s->k->cost_ns(&s->problem, of->t, &of->t->rates, &s->c)};
  space_descend(s->k->space(of->t), price_of, of, &best.c, &best.ns);
  return best;
}

static int compare_price(const void *a, const void *b) {
  const priced *x = a, *y = b;
  return (x->ns > y->ns) - (x->ns < y->ns);
}

/* The neighbour of the stage's configuration that the model puts at `rank` (0: first); false: there are
 * fewer. */
static bool pick_neighbour(const choice *of, int rank) {
  compose_stage *s = of->s;
  const space *all = s->k->space(of->t);
  priced list[LIMIT_PARAMS * LIMIT_PARAM_VALUES];
  int n = 0;
  for (int i = 0; i < all->n_params; i++) {
    for (int v = 0; v < all->params[i].n_values; v++) {
      priced *next = &list[n];
      next->c = s->c;
      next->c.values[i] = all->params[i].values[v];
      if (next->c.values[i] != s->c.values[i] && price(of, &next->c, &next->ns)) n++;
    }
  }
  qsort(list, (size_t)n, sizeof *list, compare_price);
  if (rank >= n) return false;
  s->c = list[rank].c;
  return true;
}

static bool configure(compose_plan *plan, const target *t, const config *c, arena *a) {
  choice choices[COMPOSE_STAGES];
  int pick = c->values[COMPOSE_PICK], dearest = 0;
  double most = -1;
  bool differs = false;
  for (int i = 0; i < plan->n_stages; i++) {
    compose_stage *s = plan->stages[i];
    choices[i] = choose_for(s, t, a);
    priced best = descend(&choices[i]);
    if (!config_equal(s->k->space(t), &best.c, &s->c)) differs = true;
    s->c = best.c;
    if (best.ns > most) most = best.ns, dearest = i;
  }
  return pick == 1 ? differs : pick_neighbour(&choices[dearest], pick - 2);
}

bool compose_configure(compose_plan *plan, const target *t, const config *c) {
  if (c->values[COMPOSE_PICK] == 0) return false;
  arena a = ARENA_INIT;
  bool own = configure(plan, t, c, &a);
  arena_release(&a);
  return own;
}
