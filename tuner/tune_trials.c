#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tuner/tune_run.h"

#define STAGE "tune"

const kernel_template *tune_trial_template(const tune_trial *t) {
  const tune_candidates *c = &t->run->candidates;
  return c->sources[c->ranked[t->index].source].template;
}

double tune_trial_model_ns(const tune_trial *t) {
  return t->run->candidates.ranked[t->index].model_ns;
}

int tune_trial_family(const tune_trial *t) {
  return t->run->candidates.ranked[t->index].family;
}

static bool make_room(tune_run *run) {
  if (run->n_trials < run->capacity) return true;
  int larger = run->capacity ? 2 * run->capacity : 64;
  tune_trial **grown = realloc(run->trials, (size_t)larger * sizeof *grown);
  if (!grown) return false;
  run->trials = grown;
  run->capacity = larger;
  return true;
}

tune_trial *tune_trial_begin(tune_run *run, int64_t index) {
  tune_trial *t = calloc(1, sizeof *t);
  if (!t || !make_room(run)) {
    free(t);
    tune_run_fail(run, ARKE_ERR_MEMORY, STAGE, "out of memory");
    return NULL;
  }
  *t = (tune_trial){.run = run, .index = index, .registers = -1, .spill_bytes = -1};
  t->rank_ns = tune_trial_model_ns(t);
  for (int i = 0; i < run->n_doubted; i++) t->doubted = t->doubted || run->doubted[i] == index;
  const tune_source *source = &run->candidates.sources[run->candidates.ranked[index].source];
  config at;
  strbuf text = STRBUF_INIT;
  tune_candidate_config(&run->candidates, index, &at);
  config_print(source->space, &at, &text);
  snprintf(t->config, sizeof t->config, "%s", strbuf_text(&text));
  strbuf_free(&text);
  run->trials[run->n_trials++] = t;
  return t;
}

bool tune_trial_has_kernel(const tune_trial *t) {
  return t->ptx.data && t->recipe.data;
}

static void free_kernel(tune_trial *t) {
  free(t->ptx.data);
  free(t->recipe.data);
  free(t->cubin.data);
  free(t->llvm_ir.data);
  t->ptx = t->recipe = t->cubin = t->llvm_ir = (tune_blob){NULL, 0};
}

void tune_trial_forget_kernel(tune_trial *t) {
  tune_run *run = t->run;
  for (int i = 0; i < run->n_kept; i++) {
    if (run->kept[i] != t) continue;
    memmove(&run->kept[i], &run->kept[i + 1], (size_t)(--run->n_kept - i) * sizeof run->kept[0]);
    break;
  }
  free_kernel(t);
}

/* The slowest kept trial whose place `t` could take; NULL while there is room. */
static tune_trial *find_rival(const tune_trial *t) {
  const tune_run *run = t->run;
  tune_trial *slowest = NULL;
  int n = 0;
  for (int i = 0; i < run->n_kept; i++) {
    if (tune_trial_family(run->kept[i]) != tune_trial_family(t)) continue;
    slowest = run->kept[i];
    n++;
  }
  if (tune_run_measures(run) && n >= TUNE_FAMILY) return slowest;
  return run->n_kept == TUNE_KEPT ? run->kept[TUNE_KEPT - 1] : NULL;
}

/* Thousands of kernels would fill the memory; only the leading ones can still be wanted. */
static void keep_if_leading(tune_trial *t) {
  tune_run *run = t->run;
  tune_trial *last = find_rival(t);
  if (last) {
    if (t->rank_ns >= last->rank_ns) {
      free_kernel(t);
      return;
    }
    tune_trial_forget_kernel(last);
  }
  int at = run->n_kept++;
  for (; at > 0 && run->kept[at - 1]->rank_ns > t->rank_ns; at--) run->kept[at] = run->kept[at - 1];
  run->kept[at] = t;
}

static bool is_success(cache_outcome o) {
  return o == CACHE_MEASURED || o == CACHE_VERIFIED || o == CACHE_LOWERED;
}

static char *join(const char *a, const char *b) {
  strbuf both = STRBUF_INIT;
  strbuf_addf(&both, "%s%s", a, b);
  return strbuf_take(&both);
}

static void set_outcome(tune_trial *t, cache_outcome outcome, const char *reason) {
  t->state = TRIAL_OVER;
  t->outcome = outcome;
  free(t->reason);
  bool confirmed = t->doubted && (outcome == CACHE_CRASHED || outcome == CACHE_TIMEOUT);
  t->reason = reason && reason[0] ? join(reason, confirmed ? TUNE_CONFIRMED : "") : NULL;
  if (!is_success(outcome)) tune_trial_forget_kernel(t);
  tune_store_trial(t->run, t);
}

void tune_trial_finish(tune_trial *t, cache_outcome outcome, const char *reason) {
  bool success = is_success(outcome);
  set_outcome(t, outcome, reason);
  if (success) keep_if_leading(t);
  tune_search_report(t->run->search, t->index, success ? t->rank_ns : INFINITY);
}

void tune_trial_change(tune_trial *t, cache_outcome outcome, const char *reason) {
  t->renewed = true;
  set_outcome(t, outcome, reason);
}

void tune_trials_release(tune_run *run) {
  for (int i = 0; i < run->n_trials; i++) {
    tune_trial *t = run->trials[i];
    if (t->state == TRIAL_COMPILING || t->completing) tune_pool_forget(run->session->compilers, t);
    tune_message_release(&t->whole);
    free_kernel(run->trials[i]);
    free(run->trials[i]->reason);
    free(run->trials[i]);
  }
  free(run->trials);
  free(run->doubted);
  run->doubted = NULL;
  run->trials = NULL;
  run->n_trials = run->capacity = run->n_kept = 0;
}
