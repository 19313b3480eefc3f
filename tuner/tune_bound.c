/* An exhaustive search tries every configuration that may be the fastest. Which ones may is a question of
 * bounds: a template says what no run of a configuration can beat (bound_ns), and what is not below the best
 * measured time need not be compiled. */
#include <math.h>
#include <stdlib.h>

#include "tuner/tune_run.h"

bool tune_run_is_bounded(const tune_run *run) {
  return run->session->options.effort == TUNE_EXHAUSTIVE && tune_run_measures(run);
}

static double better(const tune_trial *t, double best_ns) {
  bool measured = t->state == TRIAL_OVER && t->outcome == CACHE_MEASURED;
  return measured && (best_ns == 0 || t->rank_ns < best_ns) ? t->rank_ns : best_ns;
}

void tune_run_settle(tune_run *run, bool anew) {
  if (anew) {
    run->n_settled = 0;
    run->settled_best_ns = 0;
  }
  for (; run->n_settled < run->n_trials && run->trials[run->n_settled]->state == TRIAL_OVER; run->n_settled++)
    run->settled_best_ns = better(run->trials[run->n_settled], run->settled_best_ns);
}

double tune_run_best_ns(const tune_run *run) {
  double best = run->settled_best_ns;
  for (int i = run->n_settled; i < run->n_trials; i++) best = better(run->trials[i], best);
  return best;
}

/* What each template prepares for the problem, and what none of its configurations can beat. */
struct tune_bounds {
  const void *prepared[TUNE_TEMPLATES_MAX];
  double floors[TUNE_TEMPLATES_MAX];
};

static double ask(const tune_run *run, int source, const config *at) {
  const tune_session *s = run->session;
  const kernel_template *k = run->candidates.sources[source].template;
  if (!k->bound_ns) return 0;
  return k->bound_ns(run->problem, run->bounds->prepared[source], s->target, &s->rates, at);
}

static bool prepare(tune_run *run) {
  if (run->bounds) return true;
  run->bounds = ARENA_NEW(&run->memory, struct tune_bounds);
  for (int i = 0; run->bounds && i < run->candidates.n_sources; i++) {
    const kernel_template *k = run->candidates.sources[i].template;
    if (k->bound_ns) {
      run->bounds->prepared[i] = k->prepare(run->problem, run->session->target, &run->memory);
      if (!run->bounds->prepared[i]) run->bounds = NULL; /* no memory: nothing is left out */
    }
    if (run->bounds) run->bounds->floors[i] = ask(run, i, NULL);
  }
  return run->bounds != NULL;
}

bool tune_run_cannot_win(tune_run *run, int64_t index, double best_ns) {
  int source = run->candidates.ranked[index].source;
  if (!prepare(run)) return false;
  if (run->bounds->floors[source] >= best_ns) return true;
  config at;
  tune_candidate_config(&run->candidates, index, &at);
  return ask(run, source, &at) >= best_ns;
}

int64_t tune_run_count_beaten(tune_run *run) {
  tune_run_settle(run, true);
  double best = tune_run_best_ns(run);
  bool *tried = calloc((size_t)run->candidates.n + 1, sizeof *tried);
  int64_t n = 0;
  for (int i = 0; tried && i < run->n_trials; i++) tried[run->trials[i]->index] = true;
  for (int64_t i = 0; tried && best > 0 && i < run->candidates.n; i++)
    n += !tried[i] && tune_run_cannot_win(run, i, best);
  free(tried);
  return n;
}
