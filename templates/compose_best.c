/* The template that is cheapest for a stage. Splitting tries the same stages again and again: with other
 * temporaries, and for every value of SLICE, KEEP and FOLD. What was found of one is remembered. */
#include <math.h>
#include <string.h>

#include "templates/compose_split.h"

#define STAGE "generate"

static void search(const ir_problem *p, const target *t, compose_wanted wanted, compose_best *best) {
  for (int i = 0; i < template_count(); i++) {
    const kernel_template *k = template_get(i);
    config defaults;
    if (k->fits == compose_fits || (wanted == COMPOSE_WANTED_STAGE && !k->ways)) continue;
    if (k->fits(p, t, NULL) != TEMPLATE_OK) continue;
    k->defaults(p, t, &defaults);
    double ns = template_cost_ns(k, p, t, &t->rates, &defaults);
    if (isinf(ns) || (best->k && ns >= best->ns)) continue;
    best->k = k;
    best->ns = ns;
    best->c = defaults;
    if (wanted == COMPOSE_WANTED_ANY) break;
  }
}

static compose_best *find_known(const compose_known *known, const ir_problem *p, const char *text,
                                compose_wanted wanted) {
  for (compose_best *b = known->list; b; b = b->next) {
    if (b->wanted != wanted || strcmp(b->text, text) != 0) continue;
    if (memcmp(b->sizes, p->sizes, (size_t)p->op->n_axes * sizeof *p->sizes) == 0) return b;
  }
  return NULL;
}

static compose_best *make_best(compose_splitter *s, const ir_problem *p, const char *text,
                               compose_wanted wanted) {
  arena *a = s->plan->a;
  compose_best *best = ARENA_NEW(a, compose_best);
  if (best) {
    *best = (compose_best){.wanted = wanted, .next = s->known->list};
    memcpy(best->sizes, p->sizes, sizeof best->sizes);
    search(p, s->t, wanted, best);
    best->text = arena_strdup(a, text);
  }
  if (best && best->text) return s->known->list = best;
  s->status = error_memory(s->err, STAGE);
  return NULL;
}

const compose_best *compose_find_best(compose_splitter *s, const ir_problem *p, const char *text,
                                      compose_wanted wanted) {
  const compose_best *best = find_known(s->known, p, text, wanted);
  return best ? best : make_best(s, p, text, wanted);
}

bool compose_best_stage(compose_splitter *s, compose_stage *stage) {
  const compose_best *best = compose_find_best(s, &stage->problem, stage->text, COMPOSE_WANTED_STAGE);
  if (!best) return false;
  if (!best->k) {
    /* Why templates refuse the whole is theirs to say. */
    if (s->plan->n_stages > 0 || s->plan->n_cuts > 0)
      strbuf_addf(&s->last, "no template takes %s", stage->text);
    return false;
  }
  stage->k = best->k;
  stage->c = best->c;
  stage->ns = compose_price(best->ns, &s->t->rates);
  return true;
}
