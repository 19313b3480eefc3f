/* Which candidate to try next. A pure state machine: the pipeline asks for candidates, compiles and times
 * them in any order and reports back; nothing here knows of processes or clocks.
 *
 * Order of proposals: seeds (the defaults, winners of nearby problems), the model's best of each of its
 * leading families (ir/space.h), the model's best of all, then in turn
 *   - neighbours of the fastest few so far, each of another family: one step in one parameter, then two steps
 *     or two parameters;
 *   - the best untried by the model as corrected by what was measured (each parameter value's mean error in
 * the logarithm, shrunk towards none);
 *   - restarts: random feasible ones.
 * It ends when a number of results in a row brought no improvement, at the limit, or when all were tried. */
#ifndef ARKE_TUNER_SEARCH_H
#define ARKE_TUNER_SEARCH_H

#include "tuner/candidates.h"

typedef struct tune_search tune_search;

typedef struct tune_search_plan {
  int families;   /* of how many families the model's best comes first */
  int model_best; /* how many of the model's ranking come then */
  int64_t limit;  /* most proposals; 0: none */
  int patience;   /* results without improvement before it ends; 0: never */
  int ahead;      /* proposals made before results of the search itself are awaited */
} tune_search_plan;

tune_search_plan tune_search_plan_for(tune_effort effort, int64_t candidates, int trials_limit);
/* Where about so many can be tried: no more than half of them are proposed before results have a say, but for
 * a least number of each kind. */
void tune_search_plan_fit(tune_search_plan *plan, double trials);

/* `c` must outlive the search. */
arke_status tune_search_create(const tune_candidates *c, const tune_search_plan *plan, uint64_t seed,
                               tune_search **s, arke_error *err);
void tune_search_destroy(tune_search *s);
/* Puts a candidate before all others. */
void tune_search_seed(tune_search *s, int64_t index);
/* The same for every template's default and what its model puts first, since the models of different
 * templates need not agree; but not where the model expects many times the time of the first: one such run
 * would eat a short budget. */
void tune_search_seed_templates(tune_search *s);
/* A result known before: it feeds the search and is never proposed. INFINITY: it failed. */
void tune_search_known(tune_search *s, int64_t index, double ns);
/* The next one to try, or -1: nothing until more results are reported (or ever, once tune_search_done). */
int64_t tune_search_next(tune_search *s);
/* Proposals that depend on no results are still to come. */
bool tune_search_is_beginning(const tune_search *s);
/* Result of a proposal; INFINITY when it failed. */
void tune_search_report(tune_search *s, int64_t index, double ns);
/* Instead of its result: the proposal was not worth a trial. It does not count towards the limit. */
void tune_search_skip(tune_search *s, int64_t index);
/* No more proposals will come. */
bool tune_search_done(const tune_search *s);

#endif
