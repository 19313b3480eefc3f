#include "tuner/candidates_collect.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#define NO_COST     1e18 /* of a point where the model fails */
#define SLICE       256  /* points that a thread takes at a time */
#define MAX_THREADS 64

/* What all threads share: the next slice is whoever's comes first. */
typedef struct collection {
  const ir_problem *p;
  const target *t;
  const target_rates *rates;
  const tune_candidates *c;
  const void *prepared[TUNE_TEMPLATES_MAX]; /* by source */
  atomic_int_least64_t next; /* first point, counted over all spaces in a row, that nobody has taken */
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

static bool ask(collector *w, int source, int64_t point) {
  config at;
  double ns = NO_COST;
  space_point(w->shared->c->sources[source].space, point, &at);
  const collection *shared = w->shared;
  template_reason reason = shared->c->sources[source].template->judge(shared->prepared[source], shared->t,
                                                                      shared->rates, &at, &ns);
  if (reason != TEMPLATE_OK) {
    w->pruned[reason]++;
    return true;
  }
  return append(w, (tune_candidate){.source = source, .point = point, .model_ns = sound(ns)});
}

static void *collect(void *user) {
  collector *w = user;
  collection *shared = w->shared;
  for (;;) {
    int64_t begin = atomic_fetch_add(&shared->next, SLICE);
    if (begin >= shared->c->total) return NULL;
    int64_t end = begin + SLICE < shared->c->total ? begin + SLICE : shared->c->total;
    int source = 0;
    int64_t first = 0; /* of the source's points */
    for (int64_t at = begin; at < end; at++) {
      while (at - first >= space_size(shared->c->sources[source].space))
        first += space_size(shared->c->sources[source++].space);
      if (ask(w, source, at - first)) continue;
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
  if (n > c->total / SLICE + 1) n = (int)(c->total / SLICE) + 1;
  for (int i = 0; i < n; i++) workers[i].shared = &shared;
  /* This thread is the last of them; where one does not start, the others do its part. */
  while (started < n - 1 && pthread_create(&threads[started], NULL, collect, &workers[started]) == 0)
    started++;
  collect(&workers[n - 1]);
  for (int i = 0; i < started; i++) pthread_join(threads[i], NULL);
  arena_release(&a);
  return gather(workers, n, c);
}
