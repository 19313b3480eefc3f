#include "tuner/candidates_collect.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "tuner/candidates_walk.h"

#define NO_COST     1e18 /* of a point where the model fails */
#define SLICE       4096 /* points that a thread takes at a time, about */
#define MAX_THREADS 64

/* What all threads share: the next slice is whoever's comes first. */
typedef struct collection {
  const ir_problem *p;
  const target *t;
  const target_rates *rates;
  const tune_candidates *c;
  const void *prepared[TUNE_TEMPLATES_MAX]; /* by source */
  candidates_walk walks[TUNE_TEMPLATES_MAX];
  int64_t slices;            /* of all spaces in a row */
  atomic_int_least64_t next; /* the first that nobody has taken */
} collection;

typedef struct collector {
  collection *shared;
  int64_t n, capacity;
  tune_candidate *found;
  int64_t pruned[TEMPLATE_REASON_COUNT];
  bool out_of_memory;
} collector;

static double sound(double cost) {
  return isfinite(cost) && cost > 0 ? cost : NO_COST;
}

double tune_candidates_model_ns(const tune_source *s, const ir_problem *p, const target *t,
                                const target_rates *rates, const config *at) {
  return sound(template_cost_ns(s->template, p, t, rates, at));
}

static bool append(collector *w, tune_candidate candidate) {
  if (w->n == w->capacity) {
    int64_t larger = w->capacity ? w->capacity * 2 : 1024;
    tune_candidate *grown = realloc(w->found, (size_t)larger * sizeof *grown);
    if (!grown) return false;
    w->found = grown;
    w->capacity = larger;
  }
  w->found[w->n++] = candidate;
  return true;
}

static bool ask(collector *w, int source, const config *at, int64_t point) {
  const collection *shared = w->shared;
  double ns = NO_COST;
  template_reason reason =
      shared->c->sources[source].template->judge(shared->prepared[source], shared->t, shared->rates, at, &ns);
  if (reason != TEMPLATE_OK) {
    w->pruned[reason]++;
    return true;
  }
  return append(w, (tune_candidate){.source = source, .point = point, .model_ns = sound(ns)});
}

static int count_checks(const kernel_template *k) {
  int n = 0;
  while (n < TEMPLATE_CHECKS && k->checks[n].check) n++;
  return n;
}

/* All points of one combination of the outer parameters, which are those of the first check, if there is one.
 */
static bool ask_each(collector *w, int source, int64_t outer) {
  const collection *shared = w->shared;
  const kernel_template *k = shared->c->sources[source].template;
  const candidates_walk *walk = &shared->walks[source];
  int digits[LIMIT_PARAMS] = {0}, n_checks = count_checks(k);
  config at;
  int64_t point = candidates_walk_outer(walk, outer, &at);
  for (int changed = 0, check = 0; changed >= 0;) {
    template_reason reason = TEMPLATE_OK;
    int level = check;
    for (; level < n_checks; level++) {
      reason = k->checks[level].check(shared->prepared[source], shared->t, &at);
      if (reason != TEMPLATE_OK) break;
    }
    bool refused = level < n_checks;
    if (refused) w->pruned[reason] += walk->below[level];
    if (!refused && !ask(w, source, &at, point)) return false;
    changed = candidates_walk_next(walk, refused ? walk->ends[level] : walk->n_inner, digits, &at, &point);
    /* Checks that see what has changed: the first one never does. */
    for (check = 1; check < n_checks && changed >= walk->ends[check];) check++;
  }
  return true;
}

static int64_t outers_of_slice(const candidates_walk *walk) {
  return walk->inners < SLICE ? SLICE / walk->inners : 1;
}

static int64_t slices_of(const candidates_walk *walk) {
  int64_t each = outers_of_slice(walk);
  return (walk->outers + each - 1) / each;
}

static void *collect(void *user) {
  collector *w = user;
  collection *shared = w->shared;
  for (;;) {
    int64_t slice = atomic_fetch_add(&shared->next, 1);
    if (slice >= shared->slices) return NULL;
    int source = 0;
    while (slice >= slices_of(&shared->walks[source])) slice -= slices_of(&shared->walks[source++]);
    const candidates_walk *walk = &shared->walks[source];
    int64_t each = outers_of_slice(walk),
            end = (slice + 1) * each < walk->outers ? (slice + 1) * each : walk->outers;
    for (int64_t outer = slice * each; outer < end; outer++) {
      if (ask_each(w, source, outer)) continue;
      w->out_of_memory = true;
      return NULL;
    }
  }
}

/* Joins what the threads found. */
static bool gather(collector *workers, int n, tune_candidates *c) {
  int64_t found = 0;
  bool whole = true;
  for (int i = 0; i < n; i++) {
    found += workers[i].n;
    whole = whole && !workers[i].out_of_memory;
    for (int r = 0; r < TEMPLATE_REASON_COUNT; r++) c->pruned[r] += workers[i].pruned[r];
  }
  if (whole && found > 0) c->ranked = malloc((size_t)found * sizeof *c->ranked);
  for (int i = 0; i < n; i++) {
    if (c->ranked && workers[i].n > 0) {
      memcpy(c->ranked + c->n, workers[i].found, (size_t)workers[i].n * sizeof *c->ranked);
      c->n += workers[i].n;
    }
    free(workers[i].found);
  }
  return whole && (found == 0 || c->ranked);
}

static bool prepare(collection *shared, arena *a) {
  for (int i = 0; i < shared->c->n_sources; i++) {
    const kernel_template *k = shared->c->sources[i].template;
    shared->prepared[i] = k->prepare(shared->p, shared->t, a);
    if (!shared->prepared[i]) return false;
    uint32_t levels[TEMPLATE_CHECKS];
    for (int c = 0; c < TEMPLATE_CHECKS; c++) levels[c] = k->checks[c].params;
    candidates_walk_make(k->space(shared->t), levels, count_checks(k), &shared->walks[i]);
    shared->slices += slices_of(&shared->walks[i]);
  }
  return true;
}

bool tune_candidates_collect(const ir_problem *p, const target *t, const target_rates *rates,
                             tune_candidates *c) {
  collection shared = {.p = p, .t = t, .rates = rates, .c = c};
  arena a = ARENA_INIT;
  collector workers[MAX_THREADS] = {{0}};
  pthread_t threads[MAX_THREADS];
  int n = (int)uv_available_parallelism(), started = 0;
  if (!prepare(&shared, &a)) {
    arena_release(&a);
    return false;
  }
  if (n > MAX_THREADS) n = MAX_THREADS;
  if (n > shared.slices) n = shared.slices > 0 ? (int)shared.slices : 1;
  for (int i = 0; i < n; i++) workers[i].shared = &shared;
  /* This thread is the last of them; where one does not start, the others do its part. */
  while (started < n - 1 && pthread_create(&threads[started], NULL, collect, &workers[started]) == 0)
    started++;
  collect(&workers[n - 1]);
  for (int i = 0; i < started; i++) pthread_join(threads[i], NULL);
  arena_release(&a);
  return gather(workers, n, c);
}
