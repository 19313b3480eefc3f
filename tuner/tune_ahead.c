/* While the device holds the finals of one problem and its winner is completed, the compile workers of a
 * sweep would have nothing to do. They compile the first candidates of the next problem: those that depend on
 * no results. */
#include "tuner/tune_run.h"

#define MOST 64 /* compiled ahead: their kernels wait in memory */

/* One worker stays free for completing the winner. */
static bool has_idle_worker(const tune_run *run) {
  const tune_pool *pool = run->session->compilers;
  return tune_pool_idle(pool) > (tune_pool_size(pool) > 1);
}

void tune_ahead_go_on(tune_session *s) {
  tune_run *run = s->ahead;
  if (!run) return;
  while (has_idle_worker(run) && run->n_trials < MOST && !tune_run_stopped(run)) {
    int64_t index = tune_search_is_beginning(run->search) ? tune_search_next(run->search) : -1;
    tune_trial *t = index >= 0 ? tune_trial_begin(run, index) : NULL;
    if (!t) return;
    tune_compile_start(t);
  }
}

void tune_ahead_start(tune_session *s) {
  const ir_problem *p = s->expected;
  s->expected = NULL;
  if (!p || s->ahead || s->kind != TUNE_DEVICE_CUDA || s->options.config || s->options.dry_run) return;
  tune_run *run = tune_run_create(s, p);
  if (!run) return;
  if (tune_run_rank(run, NULL) != ARKE_OK || tune_run_open(run, NULL) != ARKE_OK) {
    tune_run_destroy(run);
    return;
  }
  s->ahead = run;
  tune_ahead_go_on(s);
}

tune_run *tune_ahead_take(tune_session *s, const ir_problem *p) {
  tune_run *run = s->ahead;
  s->ahead = NULL;
  if (!run || run->problem != p || run->status != ARKE_OK) {
    tune_run_destroy(run);
    return NULL;
  }
  if (run->seeded) tune_store_seed_nearby(run); /* the problem before has a winner now */
  return run;
}
