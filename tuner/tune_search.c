/* The search's engine room: keeps compile workers and the device busy at the same time. */
#include <math.h>

#include "tuner/tune_run.h"

#define FINALS_SHARE   0.25 /* of a budget is kept for the finals */
#define FINALS_S       10.0 /* but not more than this: 6 s of timing, and loading and verifying */
#define FINALS_SHORT_S 5.0  /* 3 s of timing, where the budget is below TUNE_LONG_S */
#define COMPLETE_SHARE 0.15 /* at most, for compiling the winner whole */
#define VERIFY_SHARE   0.5  /* without times, verifying on the emulator is the longer part */
#define LEAST_TIMED    4    /* a choice among fewer is none: a budget that is too short for them is passed */
#define PASSED_SHARE   0.5  /* by so much of it at most */

static double reserve_s(const tune_run *run) {
  double budget = run->session->options.budget_s;
  if (!tune_run_measures(run)) return VERIFY_SHARE * budget;
  return fmin(FINALS_SHARE * budget, budget < TUNE_LONG_S ? FINALS_SHORT_S : FINALS_S) +
         fmin(COMPLETE_SHARE * budget, run->complete_s);
}

static int count_state(const tune_run *run, tune_trial_state state) {
  int n = 0;
  for (int i = run->n_settled; i < run->n_trials; i++) n += run->trials[i]->state == state;
  return n;
}

static int count_compiling(const tune_run *run) {
  return count_state(run, TRIAL_WAITING) + count_state(run, TRIAL_COMPILING) + count_state(run, TRIAL_READY);
}

static tune_trial *first_ready(const tune_run *run) {
  for (int i = run->n_settled; i < run->n_trials; i++)
    if (run->trials[i]->state == TRIAL_READY) return run->trials[i];
  return NULL;
}

/* Without times a compiled candidate has all that ranks it. */
static void on_compiled(tune_trial *t) {
  if (t->state == TRIAL_READY && !tune_run_measures(t->run)) tune_trial_finish(t, CACHE_LOWERED, NULL);
}

/* Second tries of those whose worker died or hung. */
static void start_again(tune_run *run) {
  for (int i = run->n_settled; i < run->n_trials; i++) {
    if (tune_pool_idle(run->session->compilers) == 0 || tune_run_stopped(run)) return;
    if (run->trials[i]->state == TRIAL_WAITING) tune_compile_start(run->trials[i]);
  }
}

/* The search's next proposal that may win; -1: none now. */
static int64_t next_candidate(tune_run *run, double best_ns) {
  int64_t index = tune_search_next(run->search);
  while (index >= 0 && best_ns > 0 && tune_run_cannot_win(run, index, best_ns)) {
    tune_search_skip(run->search, index);
    run->planned--;
    index = tune_search_next(run->search);
  }
  return index;
}

static void start_compiling(tune_run *run) {
  tune_pool *pool = run->session->compilers;
  double best_ns = tune_run_is_bounded(run) ? tune_run_best_ns(run) : 0;
  start_again(run);
  /* Enough ready ones to keep the device busy, not so many that the search runs ahead of its results. */
  int backlog = tune_pool_size(pool) + 4;
  while (tune_pool_idle(pool) > 0 && count_state(run, TRIAL_READY) + tune_pool_busy(pool) < 2 * backlog &&
         count_state(run, TRIAL_READY) < backlog && !tune_run_stopped(run)) {
    int64_t index = next_candidate(run, best_ns);
    if (index < 0) return;
    tune_trial *t = tune_trial_begin(run, index);
    if (!t) return;
    t->compiled = on_compiled;
    tune_compile_start(t);
  }
}

/* While the first candidates compile, the device makes tensors and expected values. Only then is there
 * anything that the budget could be used for: of a sweep's first problem all workers start meanwhile, too. */
static void prepare_device(tune_run *run) {
  if (run->prepared || count_compiling(run) == 0 || tune_pool_idle(run->session->devices) == 0) return;
  run->prepared = true;
  tune_device_prepare(run);
}

static void start_trials(tune_run *run) {
  tune_pool *pool = run->session->devices;
  prepare_device(run);
  while (tune_pool_idle(pool) > 0 && !tune_run_stopped(run)) {
    tune_trial *t = first_ready(run);
    if (!t) return;
    tune_run_start_clock(run);
    tune_device_start(t, run->bindings, tune_run_best_ns(run));
  }
}

static int count_timed(const tune_run *run) {
  int n = 0;
  for (int i = 0; i < run->n_trials && n < LEAST_TIMED; i++)
    n += run->trials[i]->state == TRIAL_OVER && run->trials[i]->outcome == CACHE_MEASURED;
  return n;
}

/* Something to publish, or to verify first. A budget that ends before there is any has no say. */
static bool has_result(const tune_run *run) {
  if (tune_run_measures(run)) return tune_run_best_ns(run) > 0;
  for (int i = 0; i < run->n_trials; i++) {
    const tune_trial *t = run->trials[i];
    if (t->state == TRIAL_OVER && (t->outcome == CACHE_LOWERED || t->outcome == CACHE_VERIFIED)) return true;
  }
  return false;
}

bool tune_run_is_out_of_time(const tune_run *run) {
  double reserve = reserve_s(run), budget = run->session->options.budget_s;
  if (tune_run_left_s(run, reserve) > 0 || !has_result(run)) return false;
  if (!tune_run_measures(run) || tune_run_left_s(run, reserve - PASSED_SHARE * budget) <= 0) return true;
  return count_timed(run) >= LEAST_TIMED;
}

/* Those an earlier search dropped are compiled anew. */
static void revive_dropped(tune_run *run) {
  for (int i = 0; i < run->n_trials; i++) {
    tune_trial *t = run->trials[i];
    if (t->state != TRIAL_DROPPED) continue;
    t->state = TRIAL_WAITING;
    t->ptx_sha256[0] = t->identity[0] = '\0';
  }
}

/* Workers of an earlier search are still going down. */
static bool awaits_workers(const tune_run *run) {
  return tune_pool_idle(run->session->compilers) == 0 && !tune_search_done(run->search);
}

/* Trials under way when the time ends, but for those on a device: nothing is known of them, so nothing is
 * stored. */
static void drop_unfinished(tune_run *run) {
  for (int i = 0; i < run->n_trials; i++) {
    tune_trial *t = run->trials[i];
    if (t->state == TRIAL_OVER || t->state == TRIAL_DROPPED || t->state == TRIAL_RUNNING) continue;
    if (t->state == TRIAL_COMPILING) tune_pool_forget(run->session->compilers, t);
    t->state = TRIAL_DROPPED;
    tune_trial_forget_kernel(t);
  }
}

/* One on a device is short: only where the run stops, its end is not awaited. */
static void drop_running(tune_run *run) {
  tune_pool_abandon(run->session->devices);
  run->preparing = false;
  for (int i = 0; i < run->n_trials; i++) {
    if (run->trials[i]->state != TRIAL_RUNNING) continue;
    run->trials[i]->state = TRIAL_DROPPED;
    tune_trial_forget_kernel(run->trials[i]);
  }
}

void tune_run_search(tune_run *run) {
  tune_session *s = run->session;
  bool out_of_time = false;
  revive_dropped(run);
  tune_run_settle(run, true);
  for (;;) {
    uv_run(&s->loop, UV_RUN_NOWAIT);
    tune_run_settle(run, false);
    if (tune_run_stopped(run)) break;
    out_of_time = out_of_time || tune_run_is_out_of_time(run);
    if (out_of_time) {
      drop_unfinished(run);
    } else {
      start_compiling(run);
      if (tune_run_measures(run)) start_trials(run);
    }
    bool running = run->preparing || count_state(run, TRIAL_RUNNING) > 0;
    bool compiling = !out_of_time && (count_compiling(run) > 0 || awaits_workers(run));
    if (!running && !compiling) break;
    tune_run_progress(run, tune_run_measures(run) ? TUNE_MEASURING : TUNE_COMPILING, false);
    uv_run(&s->loop, UV_RUN_ONCE);
  }
  drop_unfinished(run);
  drop_running(run);
}
