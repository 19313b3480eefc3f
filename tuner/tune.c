/* tune_problem: the steps in order, and what they found as a result. */
#include "tuner/tune.h"

#include <math.h>
#include <string.h>
#include <time.h>

#include "base/text.h"
#include "tuner/speed_of_light.h"
#include "tuner/tune_run.h"

#define STAGE           "tune"
#define PROGRESS_S      0.1
#define INCOMPLETE_MOST 32 /* winners whose whole image failed */

double tune_now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void tune_run_start_clock(tune_run *run) {
  if (run->clock_s == 0) run->clock_s = tune_now_s();
}

double tune_run_left_s(const tune_run *run, double reserve) {
  double budget = run->session->options.budget_s;
  if (budget <= 0) return INFINITY;
  return budget - reserve - (run->clock_s > 0 ? tune_now_s() - run->clock_s : 0);
}

bool tune_run_measures(const tune_run *run) {
  return run->session->kind == TUNE_DEVICE_CUDA;
}

bool tune_run_stopped(const tune_run *run) {
  return run->session->interrupted || run->status != ARKE_OK;
}

void tune_run_fail(tune_run *run, arke_status status, const char *stage, const char *text) {
  if (run->status == ARKE_OK) run->status = status;
  error_set(&run->error, status, stage, "%s", text);
}

/* --- progress ------------------------------------------------------------------------------------------- */

static const tune_trial *best_so_far(const tune_run *run) {
  const tune_trial *best = NULL;
  for (int i = 0; i < run->n_trials; i++) {
    const tune_trial *t = run->trials[i];
    bool good = t->state == TRIAL_OVER && (t->outcome == CACHE_MEASURED || t->outcome == CACHE_VERIFIED);
    if (good && (!best || t->rank_ns < best->rank_ns)) best = t;
  }
  return best;
}

static bool is_failure(cache_outcome o) {
  return o != CACHE_MEASURED && o != CACHE_VERIFIED && o != CACHE_LOWERED;
}

void tune_run_progress(tune_run *run, tune_phase phase, bool now) {
  double t = tune_now_s();
  if (!run->fn || (!now && t - run->last_progress_s < PROGRESS_S)) return;
  run->last_progress_s = t;
  const tune_trial *best = best_so_far(run);
  tune_progress p = {.phase = phase,
                     .best_ns = best ? best->rank_ns : 0,
                     .best_config = best ? best->config : "",
                     .elapsed_s = t - run->begin_s,
                     .left_s = -1,
                     .interrupted = run->session->interrupted && phase != TUNE_DONE};
  int resumed = 0;
  for (int i = 0; i < run->n_trials; i++) {
    resumed += run->trials[i]->resumed;
    if (run->trials[i]->state != TRIAL_OVER || run->trials[i]->resumed) continue;
    p.done++;
    if (is_failure(run->trials[i]->outcome)) p.failed[run->trials[i]->outcome]++;
  }
  int begun = run->n_trials - resumed;
  p.total = run->planned - resumed > begun ? (int)(run->planned - resumed) : begun;
  if (run->session->options.budget_s > 0) {
    p.left_s = fmax(0, tune_run_left_s(run, 0));
  } else if (p.done > 0 && p.total >= p.done) {
    p.left_s = p.elapsed_s / p.done * (p.total - p.done);
  }
  run->fn(&p, run->user);
}

/* --- the steps ------------------------------------------------------------------------------------------ */

bool tune_search_is_whole(const tune_options *o, const char *policy) {
  const char *partial = policy ? strstr(policy, CACHE_POLICY_PARTIAL) : NULL;
  if (!partial) return true;
  const size_t prefix = strlen(TUNE_POLICY_TRIALS);
  int64_t trials;
  return strncmp(partial, TUNE_POLICY_TRIALS, prefix) == 0 && o->trials > 0 &&
         text_to_i64(partial + prefix, strspn(partial + prefix, "0123456789"), 0, INT64_MAX, &trials) &&
         o->trials <= trials;
}

/* Nothing was tried anew, or nothing that works: the winner that an earlier run published stands, without
 * timing it again. */
static tune_trial *recall_unchanged(tune_run *run, cache_winner *w, char *kernel_sha256) {
  const tune_options *o = &run->session->options;
  if (o->config || o->keep_llvm_ir || o->fresh) return NULL;
  for (int i = 0; i < run->n_trials; i++) {
    const tune_trial *known = run->trials[i];
    bool failed = known->state == TRIAL_OVER && is_failure(known->outcome); /* changes no winner */
    if (!known->resumed && !failed) return NULL;
  }
  tune_trial *t = tune_store_recall(run, w, kernel_sha256);
  bool fits = t && (w->origin == CACHE_ORIGIN_MEASURED) == tune_run_measures(run) &&
              tune_search_is_whole(o, w->policy);
  /* Killed before its verdict was stored, a run may have left a better one unverified. */
  if (fits && !tune_run_measures(run) && t->outcome != CACHE_VERIFIED) fits = false;
  return fits ? t : NULL;
}

/* Whether --trials ended the search before its effort would have. */
static bool is_limited(const tune_run *run) {
  const tune_options *o = &run->session->options;
  if (o->trials <= 0 || run->n_trials < o->trials) return false;
  int64_t limit = tune_run_plan(run, o->trials).limit, effort = tune_run_plan(run, 0).limit;
  return limit > 0 && limit < run->candidates.n && limit != effort;
}

/* What makes the search a partial one, as its policy says it; NULL for a whole one. */
static const char *partial_mark(const tune_run *run) {
  if (run->session->interrupted) return TUNE_POLICY_INTERRUPTED;
  if (run->session->options.config) return TUNE_POLICY_CONFIG;
  return is_limited(run) ? arena_printf(run->arena, TUNE_POLICY_TRIALS "%d", run->n_trials) : NULL;
}

static void describe_winner(tune_run *run, const tune_trial *t, cache_winner *w) {
  bool measured = t->outcome == CACHE_MEASURED;
  *w = (cache_winner){.template_name = tune_trial_template(t)->name,
                      .config = t->config,
                      .origin = measured ? CACHE_ORIGIN_MEASURED : CACHE_ORIGIN_MODELLED,
                      .time = measured ? t->time : (cache_time){.median_ns = tune_trial_model_ns(t)}};
  if (!measured)
    w->policy = run->session->kind == TUNE_DEVICE_MODEL
                    ? "ranked by the cost model, verified on the emulator at a reduced shape"
                    : "ranked by the cost model, verified on the emulator at this shape";
  else
    w->policy = run->policy ? run->policy : "";
  const char *mark = partial_mark(run);
  if (!mark) return;
  const char *marked = arena_printf(run->arena, "%s %s", w->policy, mark);
  if (marked) w->policy = marked;
}

static void print_causes(const tune_run *run, strbuf *out) {
  int counts[CACHE_OUTCOME_COUNT] = {0};
  const tune_trial *example = NULL;
  for (int i = 0; i < run->n_trials; i++) {
    const tune_trial *t = run->trials[i];
    if (t->state != TRIAL_OVER || !is_failure(t->outcome)) continue;
    counts[t->outcome]++;
    if (!example && t->reason) example = t;
  }
  for (int o = 0; o < CACHE_OUTCOME_COUNT; o++)
    if (counts[o])
      strbuf_addf(out, "%s%d %s", out->length ? ", " : "", counts[o], cache_outcome_name((cache_outcome)o));
  if (out->length == 0) strbuf_add(out, "none was tried in the time given");
  if (example) strbuf_addf(out, "; for example %s: %s", example->config, example->reason);
}

static arke_status no_winner(const tune_run *run, arke_error *err) {
  if (run->status != ARKE_OK) {
    error_set(err, run->status, run->error.stage, "%s", run->error.text);
    return run->status;
  }
  if (run->session->interrupted)
    return error_set(err, ARKE_ERR_INTERRUPTED, STAGE, "interrupted before any configuration was %s",
                     run->compilations > 0 ? "verified" : "compiled");
  strbuf causes = STRBUF_INIT;
  print_causes(run, &causes);
  error_set(err, ARKE_ERR_NOT_FOUND, STAGE, "no configuration worked: %s", strbuf_text(&causes));
  strbuf_free(&causes);
  return ARKE_ERR_NOT_FOUND;
}

/* --- the result ----------------------------------------------------------------------------------------- */

static void fill_trials(tune_run *run, tune_trials *t) {
  t->total = run->candidates.total;
  memcpy(t->pruned, run->candidates.pruned, sizeof t->pruned);
  if (tune_run_is_bounded(run)) t->pruned[TEMPLATE_BOUND] = tune_run_count_beaten(run);
  for (int i = 0; i < run->n_trials; i++) {
    const tune_trial *trial = run->trials[i];
    if (trial->state != TRIAL_OVER) continue;
    cache_outcome o = trial->outcome;
    if (is_failure(o)) t->failed[o]++;
    t->compiled += trial->ptx_sha256[0] != '\0';
    t->verified += o == CACHE_VERIFIED || o == CACHE_MEASURED;
    t->measured += o == CACHE_MEASURED;
    t->resumed += trial->resumed;
    if (!trial->resumed || trial->renewed) continue;
    if (is_failure(o)) t->earlier_failed[o]++;
    t->earlier_compiled += trial->ptx_sha256[0] != '\0';
    t->earlier_verified += o == CACHE_VERIFIED || o == CACHE_MEASURED;
    t->earlier_measured += o == CACHE_MEASURED;
  }
}

static void fill_facts(tune_run *run, tune_result *r) {
  const tune_session *s = run->session;
  r->key = arena_strdup(run->arena, run->key ? run->key : "");
  r->target = s->target;
  r->environment = s->environment;
  r->environment.device = arena_strdup(run->arena, s->environment.device);
  r->environment.driver = arena_strdup(run->arena, s->environment.driver);
  r->environment.llvm = arena_strdup(run->arena, s->environment.llvm);
  r->flops = ir_flops(run->problem);
  r->min_bytes = ir_min_bytes(run->problem);
  r->speed_of_light_ns = tune_speed_of_light_ns(run->problem, &s->rates);
  r->cache_path = s->cache ? arena_strdup(run->arena, cache_path(s->cache)) : NULL;
  r->set_aside = s->set_aside ? arena_strdup(run->arena, s->set_aside) : NULL;
  r->elapsed_s = tune_now_s() - run->begin_s;
  r->interrupted = s->interrupted;
  r->warning = run->warning ? arena_strdup(run->arena, run->warning) : NULL;
  double compiling = run->compile_end_s - run->compile_begin_s;
  if (compiling > 0) r->compile_rate_per_s = run->compilations / compiling;
  fill_trials(run, &r->trials);
}

static bool copy_text(arena *a, const tune_blob *blob, const char **to) {
  if (!blob->data) return true;
  *to = arena_strndup(a, blob->data, blob->bytes);
  return *to != NULL;
}

static arke_status fill_winner(tune_run *run, const tune_trial *t, const cache_winner *w,
                               const char *kernel_sha256, tune_result *r, arke_error *err) {
  r->origin = w->origin;
  r->chosen = tune_trial_template(t);
  tune_candidate_config(&run->candidates, t->index, &r->config);
  r->config_text = arena_strdup(run->arena, t->config);
  r->time = w->time;
  r->policy = arena_strdup(run->arena, w->policy);
  r->tolerance = t->check.allowed;
  r->worst_error = t->check.error;
  r->sha256 = arena_strdup(run->arena, kernel_sha256);
  bool copied = copy_text(run->arena, &t->ptx, &r->ptx) && copy_text(run->arena, &t->llvm_ir, &r->llvm_ir) &&
                copy_text(run->arena, &t->recipe, &r->recipe_json);
  if (t->cubin.data) {
    void *cubin = arena_alloc(run->arena, t->cubin.bytes);
    if (cubin) memcpy(cubin, t->cubin.data, t->cubin.bytes);
    copied = copied && cubin;
    r->cubin = cubin;
    r->cubin_bytes = t->cubin.bytes;
  }
  return copied && r->config_text && r->policy && r->sha256 ? ARKE_OK : error_memory(err, STAGE);
}

/* The configuration the model puts first, or the one asked for. */
static void fill_dry(tune_run *run, int64_t index, tune_result *r) {
  const tune_candidates *c = &run->candidates;
  const tune_source *source = &c->sources[c->ranked[index].source];
  strbuf text = STRBUF_INIT;
  tune_candidate_config(c, index, &r->config);
  config_print(source->space, &r->config, &text);
  r->config_text = arena_strdup(run->arena, strbuf_text(&text));
  strbuf_free(&text);
  r->chosen = source->template;
  r->origin = CACHE_ORIGIN_MODELLED;
  r->time.median_ns = c->ranked[index].model_ns;
  r->policy = "ranked by the cost model";
}

static int count_over(const tune_run *run) {
  int n = 0;
  for (int i = 0; i < run->n_trials; i++) n += run->trials[i]->state == TRIAL_OVER;
  return n;
}

/* A template that fails at its other ways with every configuration is not to be tried for hours. */
static bool may_complete(const tune_run *run) {
  return run->status == ARKE_OK && run->session->interrupts < 2 && run->incomplete < INCOMPLETE_MOST;
}

/* The winner of what the search found. If the budget cut it short and none is right, the search goes on until
 * one is, or until it finds no more. */
static tune_trial *decide(tune_run *run) {
  for (;;) {
    int incomplete = run->incomplete;
    tune_trial *winner = tune_run_measures(run) ? tune_run_finals(run) : tune_run_verify_leading(run);
    if (winner && tune_trial_has_kernel(winner)) return winner;
    if (run->incomplete > incomplete && may_complete(run)) continue; /* others are right so far */
    if (tune_run_stopped(run) || tune_run_left_s(run, 0) > 0 || run->incomplete >= INCOMPLETE_MOST)
      return NULL;
    int before = count_over(run);
    tune_run_search(run);
    if (count_over(run) == before) return NULL;
  }
}

static arke_status dry_run(tune_run *run, tune_result *r, arke_error *err) {
  const tune_session *s = run->session;
  int64_t index = 0;
  TRY(tune_run_rank(run, err));
  if (s->options.config)
    TRY(tune_candidates_admit(&run->candidates, run->problem, s->target, &s->rates, s->options.config, &index,
                              err));
  fill_dry(run, index, r);
  return ARKE_OK;
}

static arke_status run_steps(tune_run *run, tune_result *r, arke_error *err) {
  if (run->session->options.dry_run) return dry_run(run, r, err);
  if (!run->search) {
    TRY(tune_run_rank(run, err));
    TRY(tune_run_open(run, err));
  }
  tune_run_search(run);
  cache_winner w = {0};
  char kernel_sha256[SHA256_HEX_SIZE] = "";
  tune_trial *winner = recall_unchanged(run, &w, kernel_sha256);
  if (!winner) {
    winner = decide(run);
    if (!winner) return no_winner(run, err);
    describe_winner(run, winner, &w);
    TRY(tune_store_publish(run, winner, &w, kernel_sha256, &r->stored, err));
  } else {
    TRY(cache_check_place(run->session->cache, err));
    r->stored = true;
  }
  TRY(fill_winner(run, winner, &w, kernel_sha256, r, err));
  if (run->status != ARKE_OK) return error_set(err, run->status, run->error.stage, "%s", run->error.text);
  if (run->session->interrupted)
    return error_set(err, ARKE_ERR_INTERRUPTED, STAGE,
                     "interrupted; the best configuration so far was stored");
  return ARKE_OK;
}

arke_status tune_problem(tune_session *s, const ir_problem *p, tune_progress_fn fn, void *user, arena *a,
                         tune_result *result, arke_error *err) {
  *result = (tune_result){0};
  tune_run *run = tune_ahead_take(s, p);
  if (!run) run = tune_run_create(s, p);
  if (!run) return error_memory(err, STAGE);
  run->fn = fn;
  run->user = user;
  run->arena = a;
  run->begin_s = tune_now_s();
  if (!tune_run_measures(run)) tune_run_start_clock(run);
  arke_status status = run_steps(run, result, err);
  fill_facts(run, result);
  tune_run_progress(run, TUNE_DONE, true);
  tune_run_destroy(run);
  if (status != ARKE_OK) error_context(err, p->op->name, result->config_text);
  return status;
}
