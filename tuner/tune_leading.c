/* Without a GPU: which of the model's leading candidates compute the right values, on the emulator. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tuner/tune_run.h"

#define QUICK_GOAL 1
#define FULL_GOAL  4
#define SALVAGE_S  30.0 /* after an interrupt, for verifying one that was compiled before it */

/* One that would keep the emulator busy for minutes comes behind all others, however fast it may be: whoever
 * has no GPU wants an entry that is known to be right. */
static int by_rank(const void *a, const void *b) {
  const tune_trial *x = *(tune_trial *const *)a, *y = *(tune_trial *const *)b;
  if (x->vast != y->vast) return x->vast ? 1 : -1;
  return (x->rank_ns > y->rank_ns) - (x->rank_ns < y->rank_ns);
}

static bool is_waiting(const tune_trial *t) {
  return (t->state == TRIAL_OVER && t->outcome == CACHE_LOWERED) || t->state == TRIAL_READY;
}

static bool is_verified(const tune_trial *t) {
  return t->state == TRIAL_OVER && t->outcome == CACHE_VERIFIED;
}

static void verify(tune_run *run, tune_trial *t) {
  char *bindings = tune_trial_verified_at(t);
  if (!bindings) {
    tune_run_fail(run, ARKE_ERR_MEMORY, "verify", "out of memory");
    return;
  }
  tune_device_start(t, bindings, 0);
  free(bindings);
}

static void start(tune_run *run, tune_trial *t) {
  tune_compile_missing(run, &t, 1);
  if (tune_trial_has_kernel(t)) verify(run, t); /* else it has its outcome by now, or the run was stopped */
}

/* Whether the first verified one has no better-ranked one still open, and enough were verified: of vast ones
 * the first that is right. */
static bool is_decided(tune_trial *const *sorted, int n, int goal) {
  int verified = 0;
  for (int i = 0; i < n && verified < (sorted[i]->vast ? 1 : goal); i++) {
    if (is_verified(sorted[i])) verified++;
    if (is_waiting(sorted[i]) || sorted[i]->state == TRIAL_RUNNING) return false;
  }
  return true;
}

/* A vast one waits until none of the others is under way. */
static tune_trial *first_waiting(tune_trial *const *sorted, int n) {
  bool others = false;
  for (int i = 0; i < n; i++) {
    others = others || (sorted[i]->state == TRIAL_RUNNING && !sorted[i]->vast);
    if (is_waiting(sorted[i])) return sorted[i]->vast && others ? NULL : sorted[i];
  }
  return NULL;
}

static tune_trial *first_verified(tune_trial *const *sorted, int n) {
  for (int i = 0; i < n; i++)
    if (is_verified(sorted[i])) return sorted[i];
  return NULL;
}

static void verify_in_order(tune_run *run, tune_trial **sorted, int n, int goal) {
  tune_session *s = run->session;
  while (!is_decided(sorted, n, goal) && !tune_run_stopped(run)) {
    /* Past the budget one right kernel is enough, but one it must be. */
    if (tune_run_left_s(run, 0) <= 0 && first_verified(sorted, n)) break;
    tune_trial *t = tune_pool_idle(s->devices) > 0 ? first_waiting(sorted, n) : NULL;
    if (t)
      start(run, t);
    else
      uv_run(&s->loop, UV_RUN_ONCE);
    tune_run_progress(run, TUNE_VERIFYING, false);
  }
}

static tune_trial *first_with_kernel(tune_trial *const *sorted, int n) {
  for (int i = 0; i < n; i++)
    if (is_waiting(sorted[i]) && tune_trial_has_kernel(sorted[i])) return sorted[i];
  return NULL;
}

static bool is_running(tune_trial *const *sorted, int n) {
  for (int i = 0; i < n; i++)
    if (sorted[i]->state == TRIAL_RUNNING) return true;
  return false;
}

/* Interrupted before one was verified: what was compiled would be lost. Those under way may end, and the best
 * of the others follow one at a time, until one is right, the time is up or a second signal comes. */
static void salvage(tune_run *run, tune_trial **sorted, int n) {
  tune_session *s = run->session;
  double until = tune_now_s() + SALVAGE_S;
  while (!first_verified(sorted, n) && run->status == ARKE_OK && s->interrupts < 2 && tune_now_s() < until) {
    if (!is_running(sorted, n)) {
      tune_trial *t = first_with_kernel(sorted, n);
      if (!t) return;
      if (tune_pool_idle(s->devices) > 0) verify(run, t);
    }
    uv_run(&s->loop, UV_RUN_ONCE);
    tune_run_progress(run, TUNE_VERIFYING, false);
  }
}

static bool complete(tune_run *run, tune_trial *t) {
  if (!tune_trial_has_kernel(t)) tune_compile_missing(run, &t, 1);
  return tune_trial_has_kernel(t) && tune_trial_complete(t);
}

tune_trial *tune_run_verify_leading(tune_run *run) {
  tune_trial **sorted = malloc((size_t)(run->n_trials + 1) * sizeof *sorted);
  if (!sorted) {
    tune_run_fail(run, ARKE_ERR_MEMORY, "verify", "out of memory");
    return NULL;
  }
  int n = 0;
  for (int i = 0; i < run->n_trials; i++)
    if (is_waiting(run->trials[i]) || is_verified(run->trials[i])) sorted[n++] = run->trials[i];
  bool small = run->session->kind == TUNE_DEVICE_MODEL;
  for (int i = 0; i < n; i++) sorted[i]->vast = small && tune_trial_is_vast(sorted[i]);
  qsort(sorted, (size_t)n, sizeof(tune_trial *), by_rank);
  tune_run_progress(run, TUNE_VERIFYING, true);
  tune_effort effort = run->session->options.effort;
  verify_in_order(run, sorted, n, effort == TUNE_QUICK ? QUICK_GOAL : effort == TUNE_FULL ? FULL_GOAL : n);
  if (run->session->interrupted) salvage(run, sorted, n);
  tune_pool_abandon(run->session->devices);
  for (int i = 0; i < n; i++)
    if (sorted[i]->state != TRIAL_OVER) { /* given up while it ran: it stays what it was */
      sorted[i]->state = TRIAL_OVER;
      sorted[i]->outcome = CACHE_LOWERED;
    }
  tune_trial *winner = NULL;
  for (int i = 0; i < n && !winner; i++)
    if (is_verified(sorted[i]) && complete(run, sorted[i])) winner = sorted[i];
  free(sorted);
  return winner;
}
