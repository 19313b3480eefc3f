#include "tuner/search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"

#define STAGE         "search"
#define ELITES        6     /* whose neighbourhoods are looked at: the fastest of the fastest families */
#define WORTH         1.5   /* a family is, while its best's model time is below this times the first's */
#define HOPELESS      8     /* a template's default is, from this times the first's model time on */
#define SHORTLIST     16    /* of the corrected ranking, picked before it is sorted out anew */
#define IMPROVEMENT   0.995 /* a result counts as one below this share of the best */
#define LEARNING_RATE 0.5
#define LEARNT        512 /* results that each new one is weighed against */

typedef struct search_result {
  int64_t index;
  double ns;
} search_result;

struct tune_search {
  const tune_candidates *c;
  tune_search_plan plan;
  uint64_t seed, draws;
  bool *tried; /* proposed or known, by index */
  int64_t n_tried, n_skipped, outstanding;
  int64_t *queue; /* seeds */
  int queued, taken, queue_capacity;
  int64_t cursor;        /* every candidate of the model's ranking before it was tried */
  int64_t family_cursor; /* where in the ranking the best of the next family is looked for */
  int families_met;
  bool *met; /* by family */
  search_result *results;
  int64_t n_results, results_capacity;
  search_result elites[ELITES];
  int n_elites;
  int since_improvement;
  double bias[TUNE_TEMPLATES_MAX];
  double effect[TUNE_TEMPLATES_MAX][LIMIT_PARAMS][LIMIT_PARAM_VALUES];
  int64_t shortlist[SHORTLIST];
  int n_shortlist;
  unsigned turn;
};

/* Moves family_cursor to the next candidate that is the model's best of its family and untried. */
static void advance_families(tune_search *s) {
  const tune_candidates *c = s->c;
  for (; s->families_met < s->plan.families; s->family_cursor++) {
    const tune_candidate *k = s->family_cursor < c->n ? &c->ranked[s->family_cursor] : NULL;
    if (!k || k->model_ns > WORTH * c->ranked[0].model_ns) {
      s->families_met = s->plan.families; /* all that are worth it */
      return;
    }
    if (s->met[k->family]) continue;
    if (!s->tried[s->family_cursor]) return;
    s->met[k->family] = true;
    s->families_met++;
  }
}

static void mark_tried(tune_search *s, int64_t index) {
  s->tried[index] = true;
  s->n_tried++;
  while (s->cursor < s->c->n && s->tried[s->cursor]) s->cursor++;
  advance_families(s);
}

arke_status tune_search_create(const tune_candidates *c, const tune_search_plan *plan, uint64_t seed,
                               tune_search **s, arke_error *err) {
  tune_search *n = calloc(1, sizeof *n);
  bool *tried = calloc((size_t)c->n, sizeof *tried), *met = calloc((size_t)c->n_families, sizeof *met);
  if (!n || !tried || !met) {
    free(n);
    free(tried);
    free(met);
    return error_memory(err, STAGE);
  }
  n->c = c;
  n->plan = *plan;
  n->seed = seed;
  n->tried = tried;
  n->met = met;
  advance_families(n);
  *s = n;
  return ARKE_OK;
}

void tune_search_destroy(tune_search *s) {
  if (!s) return;
  free(s->tried);
  free(s->met);
  free(s->queue);
  free(s->results);
  free(s);
}

/* --- the corrected model -------------------------------------------------------------------------------- */

static const tune_source *source_of(const tune_search *s, int64_t index) {
  return &s->c->sources[s->c->ranked[index].source];
}

/* Positions of a point's values in their parameters' tables: the digits of its number, last parameter
 * fastest. */
static void positions(const space *sp, int64_t point, int at[LIMIT_PARAMS]) {
  for (int i = sp->n_params - 1; i >= 0; i--) {
    at[i] = (int)(point % sp->params[i].n_values);
    point /= sp->params[i].n_values;
  }
}

static int64_t point_at(const space *sp, const int at[LIMIT_PARAMS]) {
  int64_t point = 0;
  for (int i = 0; i < sp->n_params; i++) point = point * sp->params[i].n_values + at[i];
  return point;
}

/* Logarithm of the expected time. */
static double score(const tune_search *s, int64_t index) {
  const tune_candidate *k = &s->c->ranked[index];
  const space *sp = source_of(s, index)->space;
  int at[LIMIT_PARAMS];
  positions(sp, k->point, at);
  double sum = log(k->model_ns) + s->bias[k->source];
  for (int i = 0; i < sp->n_params; i++) sum += s->effect[k->source][i][at[i]];
  return sum;
}

/* One pass of normalised least mean squares over the latest results (Widrow and Hoff): each spreads its error
 * evenly over its terms, so that what a value does everywhere stays with it and chance cancels. */
static void learn(tune_search *s) {
  int64_t first = s->n_results > LEARNT ? s->n_results - LEARNT : 0;
  for (int64_t r = first; r < s->n_results; r++) {
    int64_t index = s->results[r].index;
    const tune_candidate *k = &s->c->ranked[index];
    const space *sp = source_of(s, index)->space;
    double step = LEARNING_RATE * (log(s->results[r].ns) - score(s, index)) / (sp->n_params + 1);
    int at[LIMIT_PARAMS];
    positions(sp, k->point, at);
    s->bias[k->source] += step;
    for (int i = 0; i < sp->n_params; i++) s->effect[k->source][i][at[i]] += step;
  }
}

/* The untried candidates with the best corrected scores, worst first, so that taking is popping. */
static void fill_shortlist(tune_search *s) {
  double scores[SHORTLIST];
  int n = 0;
  for (int64_t i = s->cursor; i < s->c->n; i++) {
    if (s->tried[i]) continue;
    double sc = score(s, i);
    if (n == SHORTLIST && sc >= scores[0]) continue;
    int at = n < SHORTLIST ? n++ : 0;
    if (at == 0 && n == SHORTLIST) { /* drop the worst */
      for (; at + 1 < n && scores[at + 1] > sc; at++) {
        scores[at] = scores[at + 1];
        s->shortlist[at] = s->shortlist[at + 1];
      }
    } else {
      for (; at > 0 && scores[at - 1] < sc; at--) {
        scores[at] = scores[at - 1];
        s->shortlist[at] = s->shortlist[at - 1];
      }
    }
    scores[at] = sc;
    s->shortlist[at] = i;
  }
  s->n_shortlist = n;
}

static int64_t take_shortlist(tune_search *s) {
  for (int pass = 0; pass < 2; pass++) {
    while (s->n_shortlist > 0) {
      int64_t index = s->shortlist[--s->n_shortlist];
      if (!s->tried[index]) return index;
    }
    if (pass == 0) fill_shortlist(s);
  }
  return -1;
}

/* --- neighbours ----------------------------------------------------------------------------------------- */

/* The first feasible point when one parameter moves in one direction; -1 when there is none. */
static int64_t step(const tune_search *s, int source, int at[LIMIT_PARAMS], int param, int direction) {
  const space *sp = s->c->sources[source].space;
  int saved = at[param];
  int64_t found = -1;
  for (at[param] += direction; found < 0 && at[param] >= 0 && at[param] < sp->params[param].n_values;
       at[param] += direction)
    found = tune_candidates_index(s->c, source, point_at(sp, at));
  at[param] = saved;
  return found;
}

static void keep_better(const tune_search *s, int64_t index, int64_t *best, double *best_score) {
  if (index < 0 || s->tried[index]) return;
  double sc = score(s, index);
  if (*best >= 0 && sc >= *best_score) return;
  *best = index;
  *best_score = sc;
}

/* The most promising untried candidate one step from `from`; with `far`, two steps in one or two parameters.
 */
static int64_t best_neighbour(const tune_search *s, int64_t from, bool far) {
  const tune_candidate *k = &s->c->ranked[from];
  const space *sp = source_of(s, from)->space;
  int64_t best = -1;
  double best_score = 0;
  int at[LIMIT_PARAMS];
  positions(sp, k->point, at);
  for (int i = 0; i < 2 * sp->n_params; i++) {
    int64_t first = step(s, k->source, at, i / 2, i % 2 ? 1 : -1);
    if (!far) {
      keep_better(s, first, &best, &best_score);
      continue;
    }
    /* The second step starts from the moved value even where that point alone is infeasible. */
    int moved = at[i / 2] + (i % 2 ? 1 : -1);
    if (moved < 0 || moved >= sp->params[i / 2].n_values) continue;
    int saved = at[i / 2];
    at[i / 2] = moved;
    for (int j = i; j < 2 * sp->n_params; j++)
      keep_better(s, step(s, k->source, at, j / 2, j % 2 ? 1 : -1), &best, &best_score);
    at[i / 2] = saved;
  }
  return best;
}

/* Of the fastest that has one left, or beginning with another elite, so that no family is left out while the
 * fastest has many. */
static int64_t elite_neighbour(const tune_search *s, int first, bool far) {
  for (int i = 0; i < s->n_elites; i++) {
    int64_t index = best_neighbour(s, s->elites[(first + i) % s->n_elites].index, far);
    if (index >= 0) return index;
  }
  return -1;
}

/* --- proposals ------------------------------------------------------------------------------------------ */

static int64_t restart(tune_search *s) {
  for (int attempt = 0; attempt < 64; attempt++) {
    /* Squared, so that the better part of the ranking is met more often. */
    double u = random_uniform(s->seed, s->draws++);
    int64_t index = (int64_t)(u * u * (double)s->c->n);
    if (index < s->c->n && !s->tried[index]) return index;
  }
  return -1;
}

static int64_t in_order(tune_search *s, int64_t end) {
  while (s->cursor < s->c->n && s->tried[s->cursor]) s->cursor++;
  return s->cursor < end && s->cursor < s->c->n ? s->cursor : -1;
}

/* The model's best of the next family that has none tried; -1 when enough were met or the rest is too slow.
 */
static int64_t next_family(const tune_search *s) {
  return s->families_met < s->plan.families ? s->family_cursor : -1;
}

static int64_t propose(tune_search *s) {
  while (s->taken < s->queued) {
    int64_t index = s->queue[s->taken++];
    if (!s->tried[index]) return index;
  }
  int64_t index = next_family(s);
  if (index < 0) index = in_order(s, s->plan.model_best);
  if (index >= 0) return index;
  if (s->outstanding >= s->plan.ahead) return -1;
  unsigned turn = s->turn++ % 8;
  int first = turn % 4 == 2 ? (int)(s->turn / 4 % ELITES) : 0;
  if (turn == 7) index = restart(s);
  if (index < 0 && turn % 2 == 0) index = elite_neighbour(s, first, false);
  if (index < 0 && turn % 4 == 2) index = elite_neighbour(s, first, true);
  if (index < 0) index = take_shortlist(s);
  return index >= 0 ? index : in_order(s, s->c->n);
}

bool tune_search_is_beginning(const tune_search *s) {
  if (s->cursor < s->plan.model_best || s->families_met < s->plan.families) return true;
  for (int i = s->taken; i < s->queued; i++)
    if (!s->tried[s->queue[i]]) return true;
  return false;
}

bool tune_search_done(const tune_search *s) {
  if (s->n_tried >= s->c->n) return true;
  if (s->plan.limit > 0 && s->n_tried - s->n_skipped >= s->plan.limit) return true;
  return s->plan.patience > 0 && !tune_search_is_beginning(s) && s->n_results > 0 &&
         s->since_improvement >= s->plan.patience;
}

int64_t tune_search_next(tune_search *s) {
  if (tune_search_done(s)) return -1;
  int64_t index = propose(s);
  if (index < 0) return -1;
  mark_tried(s, index);
  s->outstanding++;
  return index;
}

void tune_search_seed(tune_search *s, int64_t index) {
  if (s->queued == s->queue_capacity) {
    int larger = s->queue_capacity ? 2 * s->queue_capacity : 16;
    int64_t *grown = realloc(s->queue, (size_t)larger * sizeof *grown);
    if (!grown) return; /* a seed is a hint */
    s->queue = grown;
    s->queue_capacity = larger;
  }
  s->queue[s->queued++] = index;
}

static void seed_if_worth(tune_search *s, int64_t index) {
  if (index >= 0 && s->c->ranked[index].model_ns < HOPELESS * s->c->ranked[0].model_ns)
    tune_search_seed(s, index);
}

void tune_search_seed_templates(tune_search *s) {
  const tune_candidates *c = s->c;
  bool met[TUNE_TEMPLATES_MAX] = {false};
  for (int64_t i = 0, n = 0; i < c->n && n < c->n_sources; i++) {
    int source = c->ranked[i].source;
    if (met[source]) continue;
    met[source] = true;
    n++;
    seed_if_worth(s, i);
  }
  for (int i = 0; i < c->n_sources; i++) {
    const tune_source *k = &c->sources[i];
    seed_if_worth(s, tune_candidates_index(c, i, space_index(k->space, &k->defaults)));
  }
}

/* --- results -------------------------------------------------------------------------------------------- */

/* Elites are each the fastest of their family. */
static void insert_elite(tune_search *s, int64_t index, double ns) {
  int at = 0, family = s->c->ranked[index].family;
  while (at < s->n_elites && s->c->ranked[s->elites[at].index].family != family) at++;
  if (at == s->n_elites) { /* a family that is new here takes a free place or the last one */
    if (s->n_elites < ELITES)
      s->elites[s->n_elites++] = (search_result){index, INFINITY};
    else
      at--;
  }
  if (ns >= s->elites[at].ns) return;
  for (; at > 0 && s->elites[at - 1].ns > ns; at--) s->elites[at] = s->elites[at - 1];
  s->elites[at] = (search_result){index, ns};
}

/* `counts`: towards the end when it brings no improvement. */
static void take_result(tune_search *s, int64_t index, double ns, bool counts) {
  bool better = isfinite(ns) && (s->n_elites == 0 || ns < IMPROVEMENT * s->elites[0].ns);
  s->since_improvement = better || !counts ? 0 : s->since_improvement + 1;
  if (!isfinite(ns)) return;
  insert_elite(s, index, ns);
  if (s->n_results == s->results_capacity) {
    int64_t larger = s->results_capacity ? 2 * s->results_capacity : 256;
    search_result *grown = realloc(s->results, (size_t)larger * sizeof *grown);
    if (!grown) return; /* the correction learns less; nothing else depends on it */
    s->results = grown;
    s->results_capacity = larger;
  }
  s->results[s->n_results++] = (search_result){index, ns};
  learn(s);
}

void tune_search_report(tune_search *s, int64_t index, double ns) {
  s->outstanding--;
  take_result(s, index, ns, !tune_search_is_beginning(s));
}

void tune_search_skip(tune_search *s, int64_t index) {
  (void)index; /* it stays tried */
  s->outstanding--;
  s->n_skipped++;
}

void tune_search_known(tune_search *s, int64_t index, double ns) {
  if (s->tried[index]) return;
  mark_tried(s, index);
  take_result(s, index, ns, true);
}
