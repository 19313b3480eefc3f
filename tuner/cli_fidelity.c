#include "tuner/cli_fidelity.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <uv.h>

#include "base/random.h"
#include "tuner/cli_emulations.h"
#include "tuner/cli_output.h"
#include "tuner/cli_report.h"
#include "tuner/interrupts.h"
#include "tuner/trial_runner.h"

#define STAGE "fidelity"

enum { SAMPLES = 4096, REFERENCE_S = 20 };

/* The device that the emulators are compared with, and the list of comparisons. */
typedef struct fidelity {
  const cli_fidelity_options *options;
  tune_runner tested;
  arena arena;
  cli_emulation *list;
  const char **titles; /* of the problems, by comparison */
  int n;
} fidelity;

/* --- choosing configurations ---------------------------------------------------------------------------- */

/* As many random candidates are looked at for each choice: all pairs of values of hundreds of thousands would
 * take longer than the emulator. A value that no choice has yet is worth so many new pairs, one that k have a
 * (k + 1)th of that: rare values come up as often as frequent ones. */
enum { LOOKED_AT = 2048, VALUE_WORTH = 200 };

/* How often each value of each parameter was chosen, and which pairs of values of two parameters were (bits
 * by value of the second). */
typedef struct seen_values {
  int times[LIMIT_PARAMS][LIMIT_PARAM_VALUES];
  uint32_t pairs[LIMIT_PARAMS][LIMIT_PARAM_VALUES][LIMIT_PARAMS];
} seen_values;

static void find_values(const space *s, const config *point, int values[LIMIT_PARAMS]) {
  for (int i = 0; i < s->n_params; i++) {
    const space_param *p = &s->params[i];
    values[i] = 0;
    while (values[i] + 1 < p->n_values && p->values[values[i]] != point->values[i]) values[i]++;
  }
}

static int unseen(const space *s, const config *point, const seen_values *seen) {
  int n = 0, v[LIMIT_PARAMS];
  find_values(s, point, v);
  for (int i = 0; i < s->n_params; i++) {
    n += VALUE_WORTH / (1 + seen->times[i][v[i]]);
    for (int j = 0; j < i; j++) n += (seen->pairs[i][v[i]][j] >> v[j] & 1) == 0;
  }
  return n;
}

static void see(const space *s, const config *point, seen_values *seen) {
  int v[LIMIT_PARAMS];
  find_values(s, point, v);
  for (int i = 0; i < s->n_params; i++) {
    seen->times[i][v[i]]++;
    for (int j = 0; j < i; j++) seen->pairs[i][v[i]][j] |= 1u << v[j];
  }
}

static bool among(const space *s, const config *point, const config *list, int n) {
  for (int i = 0; i < n; i++)
    if (config_equal(s, point, &list[i])) return true;
  return false;
}

arke_status cli_fidelity_choose(const tune_candidates *c, int wanted, uint64_t seed, config *chosen, int *n,
                                arke_error *err) {
  const space *s = c->sources[c->ranked[0].source].space;
  seen_values *seen = calloc(1, sizeof *seen);
  if (seen == NULL) return error_memory(err, STAGE);
  *n = 0;
  for (int most = 1; *n < wanted && most > 0;) {
    most = 0;
    for (int i = 0; i < LOOKED_AT; i++) {
      config point;
      uint64_t draw = random_u64(seed, (uint64_t)*n * LOOKED_AT + (uint64_t)i);
      tune_candidate_config(c, (int64_t)(draw % (uint64_t)c->n), &point);
      int worth = unseen(s, &point, seen);
      if (worth <= most || among(s, &point, chosen, *n)) continue;
      most = worth;
      chosen[*n] = point;
    }
    if (most > 0) see(s, &chosen[(*n)++], seen);
  }
  free(seen);
  return ARKE_OK;
}

/* Adds the comparisons of one shape, each with a configuration of its own: what is redundant at one shape is
 * not at another. */
static arke_status plan_shape(fidelity *f, const cli_fidelity_plan *plan, int shape, config *chosen,
                              arke_error *err) {
  const kernel_template *template = template_find(plan->template);
  const tune_templates only = {.count = 1, .list = &template};
  cli_problem *p = ARENA_NEW(&f->arena, cli_problem);
  tune_candidates c;
  strbuf text = STRBUF_INIT;
  int n = 0;
  if (p == NULL) return error_memory(err, STAGE);
  TRY(cli_problem_make(&f->arena, plan->op, plan->shapes[shape], dtype_name(plan->type), p, err));
  ir_problem_print_bindings(&p->problem, &text);
  const char *bindings = arena_strdup(&f->arena, strbuf_text(&text));
  strbuf_clear(&text);
  cli_problem_title(p, &text);
  const char *title = arena_strdup(&f->arena, strbuf_text(&text));
  bool failed = strbuf_failed(&text) || bindings == NULL || title == NULL;
  strbuf_free(&text);
  if (failed) return error_memory(err, STAGE);
  uint64_t seed = f->options->seed;
  TRY(tune_candidates_rank(&p->problem, f->options->target, &f->options->target->rates, &only, &c, err));
  arke_status status =
      cli_fidelity_choose(&c, plan->n_configs, random_u64(seed, (uint64_t)shape), chosen, &n, err);
  for (int i = 0; i < n && status == ARKE_OK; i++) {
    f->list[f->n] = (cli_emulation){.template = template,
                                    .problem = &p->problem,
                                    .point = chosen[i],
                                    .what = {.op_text = p->spec->text,
                                             .bindings = bindings,
                                             .seed = seed,
                                             .reference = {.samples = SAMPLES, .limit_s = REFERENCE_S}},
                                    .err = ARKE_ERROR_INIT,
                                    .arena = ARENA_INIT};
    f->titles[f->n++] = title;
  }
  tune_candidates_release(&c);
  return status;
}

static arke_status plan_all(fidelity *f, const cli_fidelity_plan *plans, int n_plans, arke_error *err) {
  int most = 1, total = 0;
  for (int i = 0; i < n_plans; i++) {
    total += plans[i].n_shapes * plans[i].n_configs;
    if (plans[i].n_configs > most) most = plans[i].n_configs;
  }
  config *chosen = ARENA_NEW_N(&f->arena, config, (size_t)most);
  f->list = ARENA_NEW_N(&f->arena, cli_emulation, (size_t)total);
  f->titles = ARENA_NEW_N(&f->arena, const char *, (size_t)total);
  if (chosen == NULL || f->list == NULL || f->titles == NULL) return error_memory(err, STAGE);
  for (int i = 0; i < n_plans; i++)
    for (int k = 0; k < plans[i].n_shapes; k++) TRY(plan_shape(f, &plans[i], k, chosen, err));
  return ARKE_OK;
}

/* --- one comparison ------------------------------------------------------------------------------------- */

/* The emulation's kernel on the other device: its outputs are then in the runner's host buffers. */
static arke_status run_tested(fidelity *f, const cli_emulation *job, tune_check *check, arke_error *err) {
  tune_loaded *l;
  tune_verdict v;
  TRY(tune_runner_prepare(&f->tested, &job->what, err));
  TRY(tune_runner_load(&f->tested, job->ptx, job->ptx_bytes, true, job->recipe, job->recipe_bytes, &l, &v,
                       err));
  arke_status status = tune_runner_verify(l, &v, err);
  *check = v.check;
  tune_runner_unload(l);
  return status;
}

static int64_t count_differing(const tune_tensors *t, void *const *outputs, int64_t *elements) {
  int64_t differing = 0;
  for (int i = 0; i < t->n; i++) {
    if (!t->list[i].output) continue;
    size_t size = (size_t)dtype_bytes(t->list[i].type, 1);
    const char *x = t->list[i].host, *y = outputs[i];
    *elements += t->list[i].elements;
    for (int64_t e = 0; e < t->list[i].elements; e++)
      differing += memcmp(x + (size_t)e * size, y + (size_t)e * size, size) != 0;
  }
  return differing;
}

static json_t *check_json(const tune_check *c) {
  return json_pack("{s:f, s:f}", "error", c->error, "allowed", c->allowed);
}

static void tell_failed(fidelity *f, const char *title, const char *config_text, const char *where,
                        const char *text) {
  f->options->count->failed++;
  cli_complain("%s %s: %s: %s", title, config_text, where, text);
  json_array_append_new(f->options->runs, json_pack("{s:s, s:s, s:s, s:s}", "problem", title, "config",
                                                    config_text, "failed_on", where, "error", text));
}

/* The i-th emulation is done: runs the other side and compares. */
static void compare(fidelity *f, int i) {
  const cli_emulation *job = &f->list[i];
  strbuf text = STRBUF_INIT;
  config_print(job->template->space(f->options->target), &job->point, &text);
  const char *title = f->titles[i], *config_text = strbuf_text(&text);
  tune_check tested = {0};
  arke_error err = ARKE_ERROR_INIT;
  f->options->count->runs++;
  if (job->status != ARKE_OK) {
    tell_failed(f, title, config_text, job->where, job->err.text);
  } else if (run_tested(f, job, &tested, &err) != ARKE_OK) {
    tell_failed(f, title, config_text, f->tested.info.name, err.text);
  } else {
    int64_t elements = 0, differing = count_differing(&f->tested.tensors, job->outputs, &elements);
    f->options->count->elements += elements;
    f->options->count->differing_elements += differing;
    *(differing == 0 ? &f->options->count->identical : &f->options->count->differing) += 1;
    json_array_append_new(f->options->runs,
                          json_pack("{s:s, s:s, s:I, s:I, s:o, s:o}", "problem", title, "config", config_text,
                                    "elements", (json_int_t)elements, "differing", (json_int_t)differing,
                                    "device_vs_reference", check_json(&tested), "emulator_vs_reference",
                                    check_json(&job->check)));
  }
  strbuf_free(&text);
}

/* --- all of them ---------------------------------------------------------------------------------------- */

/* Takes a pending SIGINT or SIGTERM; both are blocked while this is asked. */
static bool was_interrupted(const sigset_t *signals) {
  const struct timespec now = {0, 0};
  return sigtimedwait(signals, NULL, &now) > 0;
}

static arke_status compare_all(fidelity *f, const sigset_t *signals, arke_error *err) {
  cli_emulations *e;
  cli_progress progress;
  bool interrupted = false;
  int threads = (int)uv_available_parallelism();
  uint64_t begin_ns = uv_hrtime();
  TRY(cli_emulations_start(f->list, f->n, f->options->target, f->tested.info.sm_count, f->options->seed,
                           threads, &e, err));
  cli_progress_start(&progress, "fidelity: ");
  for (int i = 0; i < f->n && !interrupted;) {
    interrupted = was_interrupted(signals);
    if (interrupted || !cli_emulations_wait(e, i)) continue;
    compare(f, i);
    cli_emulation_release(&f->list[i++]);
    const tune_progress now = {.phase = TUNE_VERIFYING,
                               .done = i,
                               .total = f->n,
                               .elapsed_s = 1e-9 * (double)(uv_hrtime() - begin_ns),
                               .left_s = -1};
    cli_progress_show(&now, &progress);
    if (f->options->each != NULL) f->options->each(f->options->user);
  }
  cli_progress_end(&progress);
  cli_emulations_close(e);
  if (!interrupted) return ARKE_OK;
  return error_set(err, ARKE_ERR_INTERRUPTED, STAGE, "interrupted after %d of %d comparisons",
                   f->options->count->runs, f->n);
}

arke_status cli_fidelity_run(const cli_fidelity_plan *plans, int n_plans, const cli_fidelity_options *options,
                             arke_error *err) {
  fidelity f = {.options = options, .arena = ARENA_INIT};
  const target *t = options->target;
  device *tested = NULL;
  sigset_t signals, before;
  *options->count = (cli_fidelity_count){0};
  interrupts_fill(&signals);
  pthread_sigmask(SIG_BLOCK, &signals, &before);
  arke_status status = options->kind == ARKE_DEVICE_CUDA
                           ? device_open_cuda(options->index, &tested, err)
                           : device_open_emulator(t->name, options->seed + 1, &tested, err);
  if (status == ARKE_OK) status = tune_runner_open(&f.tested, tested, err);
  if (status == ARKE_OK) status = plan_all(&f, plans, n_plans, err);
  if (status == ARKE_OK) status = compare_all(&f, &signals, err);
  tune_runner_close(&f.tested);
  arena_release(&f.arena);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return status;
}
