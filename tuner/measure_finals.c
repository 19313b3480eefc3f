#include <math.h>
#include <stdlib.h>

#include "tuner/measure.h"
#include "tuner/statistics.h"

#define STAGE "measure"

const tune_finals_options tune_finals_default = {.tie = 0.003,
                                                 .simpler = 0.0015,
                                                 .alpha = 0.02,
                                                 .min_rounds = 7,
                                                 .max_rounds = 60,
                                                 .sample_ns = 3e6,
                                                 .limit_ns = 3e9};

typedef struct finals {
  tune_finalist *list;
  int n; /* that are timed: the first of the list */
  int rounds, max_rounds;
  double *times; /* [finalist][round]; NAN where it was not timed */
  double *scratch;
} finals;

static double *times_of(const finals *f, int i) {
  return f->times + (size_t)i * (size_t)f->max_rounds;
}

/* Ratios of i's time to j's over the rounds that have both, into scratch. */
static int ratios(const finals *f, int i, int j) {
  int n = 0;
  for (int r = 0; r < f->rounds; r++) {
    double ratio = times_of(f, i)[r] / times_of(f, j)[r];
    if (isfinite(ratio)) f->scratch[n++] = ratio;
  }
  return n;
}

static double median_ratio(const finals *f, int i, int j) {
  int n = ratios(f, i, j);
  return n ? tune_quantile(f->scratch, n, 0.5) : INFINITY;
}

/* The finalist no other one beats in the median of their common rounds. */
static int find_leader(const finals *f) {
  int leader = 0;
  while (f->list[leader].separated) leader++;
  for (int i = leader + 1; i < f->n; i++)
    if (!f->list[i].separated && median_ratio(f, i, leader) < 1) leader = i;
  return leader;
}

/* Marks who is separated; true when no comparison with the leader is open any more. */
static bool settle(finals *f, const tune_finals_options *o) {
  int leader = find_leader(f);
  bool settled = true;
  for (int i = 0; i < f->n; i++) {
    if (i == leader || f->list[i].separated) continue;
    double low, high;
    int n = ratios(f, i, leader);
    if (!tune_median_interval(f->scratch, n, o->alpha, &low, &high))
      settled = false;
    else if (low > 1 + o->tie)
      f->list[i].separated = true;
    else if (high >= 1 + o->tie)
      settled = false;
  }
  return settled;
}

/* How many of the list can have the least number of rounds within the limit; two at least. */
static int affordable(const tune_meter *m, const tune_finalist *list, int n, const tune_finals_options *o) {
  double round_ns = 0;
  for (int i = 0; i < n; i++) {
    const tune_burst *b = &list[i].burst;
    int uncounted = b->graph ? 1 : 0;
    round_ns += tune_burst_cost_ns(m, b, uncounted + tune_burst_replays(m, b, o->sample_ns));
    if (i >= 2 && round_ns * o->min_rounds > o->limit_ns) return i;
  }
  return n;
}

static arke_status run_round(tune_meter *m, finals *f, const tune_finals_options *o, int *order,
                             tune_finals_fn fn, void *user, arke_error *err) {
  int alive = 0;
  for (int i = 0; i < f->n; i++) {
    times_of(f, i)[f->rounds] = NAN;
    if (!f->list[i].separated) order[alive++] = i;
  }
  tune_meter_shuffle(m, order, alive);
  for (int k = 0; k < alive; k++) {
    const tune_burst *b = &f->list[order[k]].burst;
    if (fn) fn(order[k], user);
    double ns;
    /* Pays for what the kernel before left in caches and clocks; before cold runs, flushes do. */
    if (b->graph) TRY(tune_burst_sample(m, b, 1, &ns, err));
    int replays = tune_burst_replays(m, b, o->sample_ns);
    TRY(tune_burst_sample(m, b, replays, &times_of(f, order[k])[f->rounds], err));
  }
  f->rounds++;
  return ARKE_OK;
}

static int choose(finals *f, const tune_finals_options *o) {
  int leader = find_leader(f), winner = leader;
  for (int i = 0; i < f->n; i++) {
    if (f->list[i].separated || median_ratio(f, i, leader) > 1 + o->simpler) continue;
    if (f->list[i].complexity < f->list[winner].complexity) winner = i;
  }
  for (int i = 0; i < f->n; i++) {
    tune_finalist *t = &f->list[i];
    t->ratio = i == winner ? 1 : median_ratio(f, i, winner);
    int n = 0;
    for (int r = 0; r < f->rounds; r++)
      if (!isnan(times_of(f, i)[r])) f->scratch[n++] = times_of(f, i)[r];
    t->time = tune_summary(f->scratch, n);
  }
  return winner;
}

arke_status tune_measure_finals(tune_meter *m, tune_finalist *list, int n, const tune_finals_options *o,
                                tune_finals_fn fn, void *user, int *winner, int *rounds, arke_error *err) {
  finals f = {.list = list, .n = affordable(m, list, n, o), .max_rounds = o->max_rounds};
  int *order = malloc((size_t)n * sizeof *order);
  f.times = malloc((size_t)n * (size_t)o->max_rounds * sizeof *f.times);
  f.scratch = malloc((size_t)o->max_rounds * sizeof *f.scratch);
  arke_status status = ARKE_OK;
  if (!order || !f.times || !f.scratch) {
    status = error_memory(err, STAGE);
    goto fail;
  }
  for (int i = 0; i < n; i++) {
    list[i].separated = false;
    list[i].time = (cache_time){0};
    list[i].ratio = INFINITY;
  }
  double until = m->spent_ns + o->limit_ns;
  for (bool settled = false; !settled && f.rounds < o->max_rounds;) {
    if (f.rounds > 0 && m->spent_ns > until) break;
    status = run_round(m, &f, o, order, fn, user, err);
    if (status != ARKE_OK) goto fail;
    settled = f.rounds >= o->min_rounds && settle(&f, o);
  }
  *winner = choose(&f, o);
  *rounds = f.rounds;
fail:
  free(order);
  free(f.times);
  free(f.scratch);
  return status;
}
