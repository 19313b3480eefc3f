#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tuner/measure.h"
#include "tuner/tune_run.h"

#define STAGE         "measure"
#define FINALISTS     24
#define FEW           8 /* where the budget is short: loading and verifying them takes time too */
#define SHORT_S       20.0
#define FAMILIES      12 /* whose best enters before any second one does; of FEW, 6 */
#define FAMILIES_FEW  6
#define WITHIN        1.08 /* of the best: more than what drift correction leaves open */
#define FAMILY_WITHIN 1.10 /* the best of a family: power limits may turn more than that around */
#define LEAST         4 /* families that enter however far behind: where runs are long, drift may mislead by more */
#define LIMIT_S       6.0 /* device time of the finals with a budget of TUNE_LONG_S or more */
#define LIMIT_SHORT_S 3.0
#define TIMING_SHARE  0.6 /* of the time left; the rest is for loading and verifying */
#define LEAST_S       0.3
#define ATTEMPTS      4 /* each failed one removes a finalist */
#define PROMISING     3 /* finalists whose whole images are compiled while the finals last */

typedef struct finals {
  tune_run *run;
  int n;
  tune_trial *list[FINALISTS];
  double ratio[FINALISTS]; /* of its time to the winner's; INFINITY: it was left out */
  bool done;
  int at;     /* who was running last */
  int failed; /* -1: none */
  bool timed;
  int winner;
} finals;

static int by_rank(const void *a, const void *b) {
  const tune_trial *x = *(tune_trial *const *)a, *y = *(tune_trial *const *)b;
  return (x->rank_ns > y->rank_ns) - (x->rank_ns < y->rank_ns);
}

static int count_family(const finals *f, int family) {
  int n = 0;
  for (int i = 0; i < f->n; i++) n += tune_trial_family(f->list[i]) == family;
  return n;
}

/* Adds trials in their order, up to `each` of a family, until the list has `most`, and beyond `within` of the
 * first only until it has LEAST. */
static void add_within(finals *f, tune_trial *const *sorted, int n, double within, int each, int most) {
  for (int i = 0; i < n && f->n < most; i++) {
    if (sorted[i]->rank_ns > within * sorted[0]->rank_ns && f->n >= LEAST) break;
    bool entered = false;
    for (int j = 0; j < f->n; j++) entered = entered || f->list[j] == sorted[i];
    if (!entered && count_family(f, tune_trial_family(sorted[i])) < each) f->list[f->n++] = sorted[i];
  }
}

/* A search measures in bursts, at clocks that a device keeps for milliseconds only; finals run at its power
 * limit, where another family may lead. So the leading families come first, then seconds and thirds. */
static bool enter(finals *f, tune_run *run) {
  tune_trial **sorted = malloc((size_t)(run->n_trials + 1) * sizeof *sorted);
  if (!sorted) return false;
  int n = 0;
  for (int i = 0; i < run->n_trials; i++)
    if (run->trials[i]->state == TRIAL_OVER && run->trials[i]->outcome == CACHE_MEASURED)
      sorted[n++] = run->trials[i];
  qsort(sorted, (size_t)n, sizeof(tune_trial *), by_rank);
  double budget = run->session->options.budget_s;
  bool few = budget > 0 && budget < SHORT_S;
  add_within(f, sorted, n, FAMILY_WITHIN, 1, few ? FAMILIES_FEW : FAMILIES);
  add_within(f, sorted, n, WITHIN, TUNE_FAMILY, few ? FEW : FINALISTS);
  free(sorted);
  return true;
}

static void remove_at(finals *f, int i) {
  memmove(&f->list[i], &f->list[i + 1], (size_t)(--f->n - i) * sizeof f->list[0]);
}

static void remove_without_kernel(finals *f) {
  for (int i = f->n - 1; i >= 0; i--)
    if (!tune_trial_has_kernel(f->list[i])) remove_at(f, i);
}

static cache_time read_time(const json_t *b) {
  return (cache_time){.median_ns = tune_message_number(b, "median_ns", 0),
                      .p10_ns = tune_message_number(b, "p10_ns", 0),
                      .p90_ns = tune_message_number(b, "p90_ns", 0),
                      .samples = (int)tune_message_integer(b, "time_samples", 0)};
}

static void take_times(finals *f, const json_t *b) {
  const json_t *list = json_object_get(b, "list");
  for (int i = 0; i < f->n; i++) {
    const json_t *item = json_array_get(list, (size_t)i);
    cache_time time = read_time(item);
    if (time.samples > 0) f->list[i]->time = time; /* else it was left out for want of time */
    f->list[i]->check = (tune_check){tune_message_number(item, "error_relative", 0),
                                     tune_message_number(item, "allowed_relative", 0)};
    f->ratio[i] = tune_message_number(item, "ratio", INFINITY);
  }
  int64_t winner = tune_message_integer(b, "winner", 0);
  f->winner = winner >= 0 && winner < f->n ? (int)winner : 0;
  f->timed = true;
  f->run->policy =
      arena_printf(&f->run->memory, "%s finals=interleaved rounds=%lld finalists=%d tie=%g%%",
                   tune_message_text(b, "policy", ""), (long long)tune_message_integer(b, "rounds", 0), f->n,
                   100 * tune_finals_default.tie);
}

static void on_event(const json_t *event, void *user) {
  finals *f = user;
  if (strcmp(tune_message_text(event, "event", ""), "finalist") == 0)
    f->at = (int)tune_message_integer(event, "index", -1);
}

static void on_finals(const tune_reply *reply, void *user) {
  finals *f = user;
  f->done = true;
  f->failed = -1;
  bool survives = tune_device_survives(f->run, reply);
  cache_outcome outcome = reply->kind == TUNE_REPLY_TIMEOUT ? CACHE_TIMEOUT : CACHE_CRASHED;
  const char *reason = reply->cause;
  if (reply->kind == TUNE_REPLY_MESSAGE) {
    if (!survives) return;
    const json_t *b = reply->message->body;
    outcome = (cache_outcome)tune_message_integer(b, "outcome", CACHE_LAUNCH_FAILED);
    if (outcome == CACHE_VERIFIED) {
      take_times(f, b);
      return;
    }
    reason = tune_message_text(b, "reason", "");
    int64_t named = tune_message_integer(b, "failed", -1);
    if (named >= 0) f->at = (int)named;
  }
  f->failed = f->at;
  if (f->failed >= 0 && f->failed < f->n && outcome >= 0 && outcome < CACHE_OUTCOME_COUNT)
    tune_trial_change(f->list[f->failed], outcome, reason);
}

static bool build_request(finals *f, double limit_s, tune_message *m) {
  tune_run *run = f->run;
  m->body = tune_session_request(run->session, "finals");
  json_t *list = json_array();
  if (!m->body || !tune_device_describe(run, run->bindings, m->body) ||
      json_object_set_new(m->body, "list", list) != 0 ||
      json_object_set_new(m->body, "limit_s", json_real(limit_s)) != 0)
    return false;
  for (int i = 0; i < f->n; i++) {
    json_t *item =
        json_pack("{s:i}", "complexity", tune_candidate_distance(&run->candidates, f->list[i]->index));
    if (!item || json_array_append_new(list, item) != 0 || !tune_device_add_kernel(f->list[i], m, item))
      return false;
  }
  return true;
}

static void hold(finals *f) {
  tune_run *run = f->run;
  tune_session *s = run->session;
  double budget = s->options.budget_s, most_s = budget > 0 && budget < TUNE_LONG_S ? LIMIT_SHORT_S : LIMIT_S;
  double limit_s = fmax(LEAST_S, fmin(most_s, TIMING_SHARE * tune_run_left_s(run, run->complete_s)));
  arke_error err = ARKE_ERROR_INIT;
  tune_message m = {0};
  f->done = f->timed = false;
  f->at = -1;
  arke_status status = ARKE_ERR_MEMORY;
  if (!build_request(f, limit_s, &m))
    error_memory(&err, STAGE);
  else
    status = tune_pool_submit(s->devices, &m, tune_session_run_timeout(s) + 2 * limit_s, on_event, on_finals,
                              f, &err);
  tune_message_release(&m);
  if (status != ARKE_OK) tune_run_fail(run, status, err.stage, err.text);
  for (int i = 0; i < f->n && i < PROMISING; i++) tune_trial_complete_ahead(f->list[i]);
  tune_ahead_start(s);
  while (!f->done && !tune_run_stopped(run)) {
    uv_run(&s->loop, UV_RUN_ONCE);
    tune_ahead_go_on(s);
    tune_run_progress(run, TUNE_FINALS, false);
  }
  if (!f->done) tune_pool_abandon(s->devices);
}

/* The next in the order of the finals, or of the search where none could be held. It leaves the list. */
static tune_trial *take_next(finals *f) {
  int next = 0;
  if (f->timed && f->winner >= 0) {
    next = f->winner;
  } else if (f->timed) {
    for (int i = 1; i < f->n; i++)
      if (f->ratio[i] < f->ratio[next]) next = i;
  }
  tune_trial *t = f->list[next];
  memmove(&f->ratio[next], &f->ratio[next + 1], (size_t)(f->n - next - 1) * sizeof f->ratio[0]);
  remove_at(f, next);
  f->winner = -1;
  return t;
}

tune_trial *tune_run_finals(tune_run *run) {
  finals f = {.run = run, .failed = -1};
  if (!enter(&f, run)) {
    tune_run_fail(run, ARKE_ERR_MEMORY, STAGE, "out of memory");
    return NULL;
  }
  tune_run_progress(run, TUNE_FINALS, true);
  tune_compile_missing(run, f.list, f.n);
  remove_without_kernel(&f);
  for (int attempt = 0; attempt < ATTEMPTS && f.n > 0 && !tune_run_stopped(run); attempt++) {
    while (tune_pool_idle(run->session->devices) == 0 && !tune_run_stopped(run))
      uv_run(&run->session->loop, UV_RUN_ONCE); /* the last worker is still going down */
    hold(&f);
    if (f.timed) break;
    if (f.failed >= 0 && f.failed < f.n) remove_at(&f, f.failed);
  }
  /* Interrupted, or finals that cannot be held: the quick times are what is known. */
  while (f.n > 0) {
    tune_trial *t = take_next(&f);
    if (tune_trial_complete(t)) return t;
  }
  return NULL;
}
