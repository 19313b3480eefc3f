/* Configurations of the stages. Their spaces multiply, so none is searched as a whole: every stage has what
 * its model likes best, and the stage that costs most also the best with each other value of a parameter. */
#include <math.h>
#include <stdlib.h>

#include "templates/compose.h"
#include "templates/space_descent.h"

typedef struct priced {
  config c;
  double ns;
} priced;

/* What points of a space cost, by their number: descents from many places meet at the same ones. */
typedef struct price_table {
  size_t n, n_slots; /* a power of two; 0: none yet */
  struct price_slot {
    int64_t point; /* and one; 0: free */
    double ns;     /* NAN: none was said */
    bool feasible;
  } * slots;
} price_table;

/* A stage under choice. */
typedef struct choice {
  const compose_stage *s;
  const target *t;
  const void *prepared;
  price_table *known;
} choice;

/* The slot of a point, or the free one where it belongs. */
static struct price_slot *find_slot(const price_table *table, int64_t point) {
  size_t at = (size_t)((uint64_t)point * 0x9E3779B97F4A7C15u >> 32) & (table->n_slots - 1);
  while (table->slots[at].point != 0 && table->slots[at].point != point + 1)
    at = (at + 1) & (table->n_slots - 1);
  return &table->slots[at];
}

/* Leaves at least half of the slots free; false: out of memory, and the table is as it was. */
static bool make_room(price_table *table) {
  if (table->n * 2 < table->n_slots) return true;
  price_table larger = {table->n, table->n_slots > 0 ? table->n_slots * 2 : 256, NULL};
  larger.slots = calloc(larger.n_slots, sizeof *larger.slots);
  if (!larger.slots) return false;
  for (size_t i = 0; i < table->n_slots; i++)
    if (table->slots[i].point != 0) *find_slot(&larger, table->slots[i].point - 1) = table->slots[i];
  free(table->slots);
  *table = larger;
  return true;
}

static struct price_slot judge_point(const choice *of, int64_t point, const config *c) {
  struct price_slot found = {point + 1, NAN, false};
  template_reason reason = of->s->k->judge(of->prepared, of->t, &of->t->rates, c, &found.ns);
  found.feasible = reason == TEMPLATE_OK && found.ns >= 0;
  return found;
}

/* *ns stays as it is where the template says none. */
static bool price(const void *user, const config *c, double *ns) {
  const choice *of = user;
  int64_t point = space_index(of->s->k->space(of->t), c);
  struct price_slot found = {0};
  if (!make_room(of->known)) {
    found = judge_point(of, point, c);
  } else {
    struct price_slot *slot = find_slot(of->known, point);
    if (slot->point == 0) {
      *slot = judge_point(of, point, c);
      of->known->n++;
    }
    found = *slot;
  }
  if (!isnan(found.ns)) *ns = found.ns;
  return found.feasible;
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

/* A parameter that keeps its value. */
typedef struct fixed {
  const choice *of;
  int param, value;
} fixed;

static bool fixed_price(const void *user, const config *c, double *ns) {
  const fixed *f = user;
  return c->values[f->param] == f->value && price(f->of, c, ns);
}

static bool is_listed(const space *all, const priced *list, int n, const config *c) {
  for (int i = 0; i < n; i++)
    if (config_equal(all, &list[i].c, c)) return true;
  return false;
}

/* Makes a point that is not feasible into one that is, by one other parameter or two; the cheapest of those.
 */
static void mend(const space *all, const fixed *f, priced *at) {
  const config from = at->c;
  price(f->of, &at->c, &at->ns);
  space_descend(all, fixed_price, f, &at->c, &at->ns);
  for (int i = 0; i < all->n_params && !(at->ns < INFINITY); i++) {
    for (int v = 0; v < all->params[i].n_values && i != f->param; v++) {
      at->c = from;
      at->c.values[i] = all->params[i].values[v];
      space_descend(all, fixed_price, f, &at->c, &at->ns);
      if (at->ns < INFINITY) return;
    }
  }
}

/* The cheapest that is found from `best` and from the template's default on. */
static priced best_with(const space *all, const fixed *f, const config *best) {
  const config *const starts[] = {best, &f->of->s->c};
  priced found = {*best, INFINITY};
  for (size_t i = 0; i < COUNT_OF(starts); i++) {
    priced next = {*starts[i], INFINITY};
    next.c.values[f->param] = f->value;
    mend(all, f, &next);
    if (next.ns < found.ns) found = next;
  }
  return found;
}

/* What the model likes best with each value that its best has not, of each parameter, cheapest first: of the
 * points that differ in one parameter alone most are as the best, in a number of stages, say, and what it
 * takes to be better with another value is out of reach. One may be better than the best that was known. */
static bool find_neighbours(const choice *of, config *best, arena *a, compose_choices *out) {
  const space *all = of->s->k->space(of->t);
  priced *list = ARENA_NEW_N(a, priced, (size_t)LIMIT_PARAMS * LIMIT_PARAM_VALUES + 1);
  int n = 0;
  if (!list) return false;
  list[n].c = *best;
  price(of, &list[n].c, &list[n].ns);
  n++;
  for (int i = 0; i < all->n_params; i++) {
    for (int v = 0; v < all->params[i].n_values; v++) {
      fixed f = {of, i, all->params[i].values[v]};
      if (f.value == best->values[i]) continue;
      priced next = best_with(all, &f, best);
      if (next.ns < INFINITY && !is_listed(all, list, n, &next.c)) list[n++] = next;
    }
  }
  qsort(list, (size_t)n, sizeof *list, compare_price);
  *best = list[0].c;
  out->n_neighbours = n - 1 < COMPOSE_NEIGHBOURS ? n - 1 : COMPOSE_NEIGHBOURS;
  for (int i = 0; i < out->n_neighbours; i++) out->neighbours[i] = list[i + 1].c;
  return true;
}

/* --- stages that take next to no time --- */

static double small_size(const choice *of, const config *c) {
  ir_problem small;
  double size = 1;
  of->s->k->reduced_problem(&of->s->problem, of->t, c, of->t->rates.sm_count, &small);
  for (int i = 0; i < small.op->n_axes; i++) size *= (double)small.sizes[i];
  return size;
}

/* Whether the table had not got the point yet. */
static bool note_point(const space *all, price_table *seen, const config *c) {
  int64_t point = space_index(all, c);
  if (!make_room(seen)) return true;
  struct price_slot *slot = find_slot(seen, point);
  if (slot->point != 0) return false;
  slot->point = point + 1;
  seen->n++;
  return true;
}

/* Of what takes at most `more_ns` longer than `at`, a point whose small problem is smaller: kernels that are
 * made for as many elements as a row has here want that many of the axis from all other stages, and run at no
 * other size. */
static void make_small(const choice *of, double more_ns, config *at) {
  const space *all = of->s->k->space(of->t);
  const config from = *at;
  price_table seen = {0}; /* most values lead to the same few points; a small problem takes milliseconds */
  double ns, least = small_size(of, at);
  if (!price(of, at, &ns)) return;
  for (int i = 0; i < all->n_params; i++) {
    for (int v = 0; v < all->params[i].n_values; v++) {
      fixed f = {of, i, all->params[i].values[v]};
      priced next = best_with(all, &f, &from);
      if (!(next.ns <= ns + more_ns) || !note_point(all, &seen, &next.c)) continue;
      double size = small_size(of, &next.c);
      if (size >= least) continue;
      least = size;
      *at = next.c;
    }
  }
  free(seen.slots);
}

/* Stages of less than a hundredth of the whole, which a thousandth of it does not matter to. */
static void make_minor_small(const compose_plan *plan, const target *t, price_table *known,
                             compose_choices *out) {
  double ns[COMPOSE_STAGES] = {0}, total = 0;
  for (int i = 0; i < plan->n_stages; i++) {
    choice of = {plan->stages[i], t, out->prepared[i], &known[i]};
    if (price(&of, &out->best[i], &ns[i])) total += ns[i] * compose_times(plan, plan->stages[i]);
  }
  for (int i = 0; i < plan->n_stages; i++) {
    choice of = {plan->stages[i], t, out->prepared[i], &known[i]};
    double times = compose_times(plan, plan->stages[i]);
    out->minor[i] = ns[i] > 0 && ns[i] * times < total / 100;
    if (out->minor[i]) make_small(&of, total / 1000 / times, &out->best[i]);
  }
}

/* With a table of prices for each stage; false: out of memory. */
static bool choose(const compose_plan *plan, const target *t, price_table *known, arena *a,
                   compose_choices *out) {
  choice dearest = {0};
  double most = -1;
  for (int i = 0; i < plan->n_stages; i++) {
    const compose_stage *s = plan->stages[i];
    choice of = {s, t, s->k->prepare(&s->problem, t, a), &known[i]};
    if (!of.prepared) return false;
    priced best = descend(&of);
    out->prepared[i] = of.prepared;
    out->best[i] = best.c;
    if (!config_equal(s->k->space(t), &best.c, &s->c)) out->differs = true;
    if (best.ns * compose_times(plan, s) <= most) continue;
    most = best.ns * compose_times(plan, s);
    dearest = of;
    out->dearest = i;
  }
  make_minor_small(plan, t, known, out);
  if (!find_neighbours(&dearest, &out->best[out->dearest], a, out)) return false;
  if (!config_equal(dearest.s->k->space(t), &out->best[out->dearest], &dearest.s->c)) out->differs = true;
  return true;
}

compose_choices *compose_choose(const compose_plan *plan, const target *t, arena *a) {
  compose_choices *out = ARENA_NEW(a, compose_choices);
  price_table known[COMPOSE_STAGES] = {{0}};
  if (!out) return NULL;
  out->plan = plan;
  bool chosen = choose(plan, t, known, a, out);
  for (int i = 0; i < COMPOSE_STAGES; i++) free(known[i].slots);
  return chosen ? out : NULL;
}

bool compose_pick(const compose_choices *from, const config *c, config stages[COMPOSE_STAGES]) {
  int pick = c->values[COMPOSE_PICK];
  for (int i = 0; i < from->plan->n_stages; i++)
    stages[i] = pick == 0 && !from->minor[i] ? from->plan->stages[i]->c : from->best[i];
  if (pick < 2) return pick == 1 && from->differs;
  if (pick - 2 >= from->n_neighbours) return false;
  stages[from->dearest] = from->neighbours[pick - 2];
  return true;
}
