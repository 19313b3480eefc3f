#include "tuner/trial_runner.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tuner/flush_l2.h"

#define STAGE        "verify"
#define ANCHOR_S     0.25 /* clocks of a loaded GPU move within seconds */
#define ANCHOR_READS 3
#define ANCHOR_NS    5e5 /* device time of a read */
#define WARM_NS      200e6
#define WARM_COLD_NS 40e6

static double now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

arke_status tune_runner_open(tune_runner *r, device *dev, arke_error *err) {
  *r = (tune_runner){.dev = dev, .drift = 1};
  return dev->ops->info(dev, &r->info, err);
}

static void drop_anchor(tune_runner *r) {
  if (r->anchor_burst.graph) tune_burst_release(&r->meter, &r->anchor_burst);
  r->anchor_burst = (tune_burst){0};
  tune_runner_unload(r->anchor);
  r->anchor = NULL;
}

static void forget_problem(tune_runner *r) {
  drop_anchor(r);
  tune_comparing_forget(&r->comparing);
  tune_expected_release(&r->expected);
  if (r->tensors.dev) tune_tensors_release(&r->tensors);
  arena_release(&r->arena);
  free(r->key);
  r->key = NULL;
}

void tune_runner_open_beside(tune_runner *r, const tune_runner *owner) {
  *r = (tune_runner){.dev = owner->dev, .info = owner->info, .drift = 1, .lent = true};
  r->info.can_measure = false;
}

void tune_runner_close(tune_runner *r) {
  if (!r->dev) return;
  forget_problem(r);
  tune_comparing_close(&r->comparing);
  tune_meter_close(&r->meter);
  if (!r->lent) r->dev->ops->close(r->dev);
  *r = (tune_runner){0};
}

static char *problem_key(const tune_runner_problem *p) {
  strbuf key = STRBUF_INIT;
  strbuf_addf(&key, "%s\n%s\n%llu %d %d %d", p->op_text, p->bindings, (unsigned long long)p->seed,
              p->reference.samples > 0, p->reference.fast_math, p->cold);
  return strbuf_take(&key);
}

/* --- the problem ---------------------------------------------------------------------------------------- */

static arke_status open_meter(tune_runner *r, arke_error *err) {
  if (!r->meter.dev) TRY(tune_meter_open(r->dev, r->seed, &r->meter, err));
  if (!r->cold || r->meter.flush) return ARKE_OK;
  arke_error failure = ARKE_ERROR_INIT;
  arke_status status = tune_flush_l2(&r->meter, r->info.l2_bytes, &failure);
  if (status == ARKE_OK) return ARKE_OK;
  if (status != ARKE_ERR_MEMORY) return error_set(err, status, failure.stage, "%s", failure.text);
  r->cold = false; /* tensors that leave no room for it fill the L2 many times over: bursts find it cold */
  return ARKE_OK;
}

arke_status tune_runner_prepare(tune_runner *r, const tune_runner_problem *p, arke_error *err) {
  char *key = problem_key(p);
  if (!key) return error_memory(err, STAGE);
  if (r->key && strcmp(r->key, key) == 0) {
    free(key);
    return ARKE_OK;
  }
  forget_problem(r);
  const ir_op *op;
  bool bursts = r->info.can_measure && !p->cold;
  r->cold = r->info.can_measure && p->cold;
  arke_status status = ir_op_parse(&r->arena, p->op_text, &op, err);
  if (status == ARKE_OK) status = ir_problem_bind(op, p->bindings, &r->problem, err);
  bool compares = status == ARKE_OK && r->target && r->info.can_measure;
  if (compares) tune_comparing_begin(&r->comparing, r->dev, r->target, r->info.sm_count, &r->problem);
  if (status == ARKE_OK)
    status = tune_tensors_create(r->dev, &r->problem, r->info.kind == ARKE_DEVICE_CUDA,
                                 bursts ? r->info.l2_bytes : 0, p->seed, &r->tensors, err);
  if (status == ARKE_OK) status = tune_launches_view(&r->tensors, r->info.sm_count, &r->arena, &r->view, err);
  if (status == ARKE_OK && compares) tune_comparing_load(&r->comparing, &r->tensors, r->info.memory_bytes);
  if (status == ARKE_OK)
    status = tune_expected_compute(&r->tensors, &p->reference, p->seed, &r->expected, err);
  if (status == ARKE_OK && compares)
    status = tune_comparing_end(&r->comparing, &r->tensors, &r->expected, err);
  if (status != ARKE_OK) {
    forget_problem(r);
    free(key);
    return status;
  }
  r->key = key;
  r->seed = p->seed;
  if (r->info.can_measure) open_meter(r, NULL); /* what fails here, the first candidate will be told */
  return ARKE_OK;
}

/* --- loading -------------------------------------------------------------------------------------------- */

void tune_runner_unload(tune_loaded *l) {
  if (!l) return;
  device *dev = l->runner->dev;
  if (l->binding.workspace) dev->ops->mem_free(dev, l->binding.workspace);
  if (l->binding.module) dev->ops->module_unload(dev, l->binding.module);
  arena_release(&l->arena);
  free(l);
}

/* Records how it failed; asks the device whether it is still of use. */
static arke_status judge(const tune_runner *r, tune_verdict *v, cache_outcome outcome, arke_status status) {
  if (status == ARKE_ERR_FAULT) outcome = CACHE_FAULT;
  if (status == ARKE_ERR_TIMEOUT) outcome = CACHE_TIMEOUT;
  v->outcome = outcome;
  v->context_lost = r->info.kind == ARKE_DEVICE_CUDA && r->dev->ops->synchronize(r->dev, NULL) != ARKE_OK;
  return status;
}

static arke_status bind_sets(tune_loaded *l, int n, arke_error *err) {
  tune_runner *r = l->runner;
  if (!l->sets) {
    l->sets = ARENA_NEW_N(&l->arena, tune_launches, (size_t)r->tensors.n_sets);
    if (!l->sets) return error_memory(err, STAGE);
  }
  for (; l->n_bound < n; l->n_bound++)
    TRY(l->n_bound == 0
            ? tune_launches_bind(&l->binding, &l->arena, &l->sets[0], err)
            : tune_launches_move(&l->binding, &l->sets[0], l->n_bound, &l->arena, &l->sets[l->n_bound], err));
  return ARKE_OK;
}

static arke_status make_workspace(tune_loaded *l, arke_error *err) {
  tune_runner *r = l->runner;
  size_t bytes;
  TRY(tune_launches_workspace(&l->binding, &bytes, err));
  if (bytes <= l->workspace_bytes) return ARKE_OK;
  if (l->binding.workspace) r->dev->ops->mem_free(r->dev, l->binding.workspace);
  l->binding.workspace = 0;
  TRY(r->dev->ops->mem_alloc(r->dev, bytes, "workspace", &l->binding.workspace, err));
  l->workspace_bytes = bytes;
  return r->info.kind == ARKE_DEVICE_CUDA
             ? r->dev->ops->fill(r->dev, l->binding.workspace, TUNE_POISON, bytes, err)
             : ARKE_OK;
}

arke_status tune_runner_load(tune_runner *r, const void *image, size_t bytes, bool is_ptx,
                             const char *recipe_json, size_t recipe_bytes, tune_loaded **loaded,
                             tune_verdict *v, arke_error *err) {
  *v = (tune_verdict){.outcome = CACHE_VERIFIED};
  tune_loaded *l = calloc(1, sizeof *l);
  if (!l) return error_memory(err, STAGE);
  l->runner = r;
  cache_outcome outcome = CACHE_LOWER_FAILED;
  arke_status status = recipe_parse(&l->arena, recipe_json, recipe_bytes, &l->recipe, err);
  if (status != ARKE_OK) goto fail;
  outcome = is_ptx ? CACHE_ASSEMBLE_FAILED : CACHE_LAUNCH_FAILED;
  l->binding = (tune_binding){.tensors = &r->tensors, .view = &r->view};
  status = r->dev->ops->module_load(r->dev, image, bytes, &l->binding.module, err);
  if (status != ARKE_OK) goto fail;
  outcome = CACHE_LAUNCH_FAILED;
  status = recipe_choose(&l->recipe, &r->view, &l->binding.recipe, err);
  if (status == ARKE_OK) status = make_workspace(l, err);
  if (status == ARKE_OK) status = bind_sets(l, 1, err);
  if (status != ARKE_OK) goto fail;
  if (l->sets[0].n > 0) status = r->dev->ops->kernel_info(r->dev, l->sets[0].kernels[0], &l->kernel, err);
  if (status != ARKE_OK) goto fail;
  *loaded = l;
  return ARKE_OK;
fail:
  tune_runner_unload(l);
  return judge(r, v, outcome, status);
}

/* --- verifying ------------------------------------------------------------------------------------------ */

/* Runs once and brings to the host what its outputs are checked by; *outcome is what a failure at this point
 * would be. */
static arke_status run_once(tune_loaded *l, cache_outcome *outcome, arke_error *err) {
  tune_runner *r = l->runner;
  *outcome = CACHE_LAUNCH_FAILED;
  TRY(tune_tensors_poison(&r->tensors, err));
  TRY(tune_launches_enqueue(r->dev, &l->sets[0], NULL, err));
  *outcome = CACHE_FAULT;
  if (r->comparing.active) return tune_comparing_wait(&r->comparing, err);
  TRY(r->dev->ops->synchronize(r->dev, err));
  TRY(tune_tensors_check(&r->tensors, err));
  return tune_tensors_fetch(&r->tensors, err);
}

static arke_status check_outputs(tune_runner *r, tune_check *check, arke_error *err) {
  if (!r->comparing.active) return tune_expected_check(&r->expected, &r->tensors, check, err);
  return tune_device_check_outputs(&r->comparing.check, &r->expected, &r->tensors, check, err);
}

/* A candidate that wrote outside may have written anywhere. */
static arke_status reject(tune_runner *r, tune_verdict *v, cache_outcome outcome, arke_status status) {
  judge(r, v, outcome, status);
  if (v->context_lost) return status;
  bool computed = outcome == CACHE_WRONG;
  if (!computed) tune_comparing_distrust(&r->comparing);
  arke_status again =
      computed ? tune_tensors_restore(&r->tensors, NULL) : tune_tensors_remake(&r->tensors, NULL);
  v->context_lost = again != ARKE_OK;
  return status;
}

arke_status tune_runner_verify(tune_loaded *l, tune_verdict *v, arke_error *err) {
  tune_runner *r = l->runner;
  *v = (tune_verdict){.outcome = CACHE_VERIFIED};
  cache_outcome outcome;
  arke_status status = run_once(l, &outcome, err);
  if (status != ARKE_OK) return reject(r, v, outcome, status);
  status = check_outputs(r, &v->check, err);
  return status == ARKE_OK ? ARKE_OK : reject(r, v, CACHE_WRONG, status);
}

arke_status tune_runner_verify_others(tune_loaded *l, tune_verdict *v, arke_error *err) {
  const recipe *first = l->binding.recipe;
  *v = (tune_verdict){.outcome = CACHE_VERIFIED};
  arke_status status = ARKE_OK;
  for (const recipe *next = first->otherwise; next != NULL && status == ARKE_OK;
       next = l->binding.recipe->otherwise) {
    if (recipe_choose(next, &l->runner->view, &l->binding.recipe, NULL) != ARKE_OK) break;
    tune_check check = v->check;
    status = make_workspace(l, err);
    if (status == ARKE_OK) status = tune_launches_bind(&l->binding, &l->arena, &l->sets[0], err);
    if (status != ARKE_OK)
      judge(l->runner, v, CACHE_LAUNCH_FAILED, status);
    else
      status = tune_runner_verify(l, v, err);
    if (status == ARKE_OK && check.allowed > 0) v->check = check;
  }
  l->binding.recipe = first;
  l->n_bound = 0; /* the workspace may have moved */
  return status == ARKE_OK ? bind_sets(l, 1, err) : status;
}

/* --- timing --------------------------------------------------------------------------------------------- */

static arke_status enqueue(void *user, int set, void *stream, arke_error *err) {
  const tune_loaded *l = user;
  return tune_launches_enqueue(l->runner->dev, &l->sets[set], stream, err);
}

arke_status tune_runner_burst(tune_loaded *l, tune_burst *b, tune_verdict *v, arke_error *err) {
  tune_runner *r = l->runner;
  *v = (tune_verdict){.outcome = CACHE_VERIFIED};
  arke_status status = open_meter(r, err);
  if (status == ARKE_OK) status = bind_sets(l, r->tensors.n_sets, err);
  tune_runnable runnable = {enqueue, l, r->tensors.n_sets, r->cold};
  if (status == ARKE_OK) status = tune_burst_capture(&r->meter, &runnable, b, err);
  return status == ARKE_OK ? ARKE_OK : judge(r, v, CACHE_LAUNCH_FAILED, status);
}

static arke_status read_anchor(tune_runner *r, double *ns, arke_error *err) {
  int replays = tune_burst_replays(&r->meter, &r->anchor_burst, ANCHOR_NS);
  *ns = 0;
  for (int i = 0; i < ANCHOR_READS; i++) {
    double one;
    TRY(tune_burst_sample(&r->meter, &r->anchor_burst, replays, &one, err));
    if (i == 0 || one < *ns) *ns = one;
  }
  r->anchored_at_s = now_s();
  return ARKE_OK;
}

static arke_status time_against_anchor(tune_runner *r, const tune_burst *b, double reject_ns, tune_quick *q,
                                       arke_error *err) {
  if (r->anchor && now_s() - r->anchored_at_s > ANCHOR_S) {
    double ns;
    TRY(read_anchor(r, &ns, err));
    r->drift = r->anchor_ns / ns;
  }
  /* The limit is in times of the first candidate's clocks; the device's are now 1/drift of those. */
  TRY(tune_measure_quick(&r->meter, b, reject_ns / r->drift, &q->time, &q->rejected, err));
  q->adjusted_ns = q->time.median_ns * r->drift;
  return ARKE_OK;
}

/* The first candidate stays as the anchor; it is then the runner's. */
static arke_status become_anchor(tune_runner *r, tune_loaded *l, tune_burst *burst, arke_error *err) {
  TRY(tune_burst_warm(&r->meter, burst, r->cold ? WARM_COLD_NS : WARM_NS, err));
  r->anchor = l;
  r->anchor_burst = *burst;
  r->drift = 1;
  return read_anchor(r, &r->anchor_ns, err);
}

static arke_status time_candidate(tune_loaded *l, double reject_ns, tune_quick *q, tune_verdict *v,
                                  arke_error *err) {
  tune_runner *r = l->runner;
  tune_burst burst = {0};
  *q = (tune_quick){0};
  TRY(tune_runner_burst(l, &burst, v, err));
  arke_status status = r->anchor ? ARKE_OK : become_anchor(r, l, &burst, err);
  if (status == ARKE_OK) status = time_against_anchor(r, &burst, reject_ns, q, err);
  if (status != ARKE_OK) judge(r, v, CACHE_FAULT, status);
  if (r->anchor != l) tune_burst_release(&r->meter, &burst);
  return status;
}

arke_status tune_runner_trial(tune_loaded **loaded, double reject_ns, tune_quick *q, tune_verdict *v,
                              arke_error *err) {
  tune_loaded *l = *loaded;
  tune_runner *r = l->runner;
  TRY(tune_runner_verify(l, v, err));
  tune_check check = v->check;
  arke_status status = time_candidate(l, reject_ns, q, v, err);
  v->check = check;
  if (r->anchor == l) *loaded = NULL;
  if (status == ARKE_OK) v->outcome = CACHE_MEASURED;
  if (status != ARKE_OK && r->anchor == l) drop_anchor(r); /* what fails is no measure of anything */
  return status;
}

void tune_runner_policy(const tune_runner *r, strbuf *out) {
  bool cold = tune_tensors_are_cold(&r->tensors, r->info.l2_bytes);
  strbuf_addf(out, "l2=%s sets=%d timer=%s clocks=as-found",
              r->cold ? "flushed"
              : cold  ? "cold"
                      : "warm",
              r->tensors.n_sets, r->cold ? "events" : "events+graph");
}
