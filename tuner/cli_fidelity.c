#include "tuner/cli_fidelity.h"

#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "tuner/cli_output.h"
#include "tuner/cli_report.h"
#include "tuner/trial_runner.h"

#define STAGE "fidelity"

enum { SAMPLES = 4096, REFERENCE_S = 20 };

/* The two devices. */
typedef struct pair {
  tune_runner tested, emulator;
  const target *target;
  uint64_t seed;
  json_t *runs;
  cli_fidelity_count *count;
} pair;

/* --- choosing configurations ---------------------------------------------------------------------------- */

/* Values of all parameters, as bits by parameter: which were seen. */
typedef struct seen_values {
  uint32_t bits[TUNE_TEMPLATES_MAX][LIMIT_PARAMS];
} seen_values;

static uint32_t value_bit(const space_param *p, int value) {
  for (int i = 0; i < p->n_values; i++)
    if (p->values[i] == value) return 1u << i;
  return 0;
}

static int unseen(const tune_candidates *c, int64_t index, const seen_values *seen) {
  config point;
  int source = c->ranked[index].source, n = 0;
  const space *s = c->sources[source].space;
  tune_candidate_config(c, index, &point);
  for (int i = 0; i < s->n_params; i++)
    n += (seen->bits[source][i] & value_bit(&s->params[i], point.values[i])) == 0;
  return n;
}

/* The candidate with the most values not seen yet; among equals a random one, so that picks
 * spread. */
static int64_t pick(const tune_candidates *c, const seen_values *seen, const bool *taken, uint64_t seed) {
  int64_t best = -1;
  int most = -1;
  uint64_t ticket = 0;
  for (int64_t i = 0; i < c->n; i++) {
    if (taken[i]) continue;
    int n = unseen(c, i, seen);
    uint64_t draw = random_u64(seed, (uint64_t)i);
    if (n < most || (n == most && draw <= ticket)) continue;
    best = i;
    most = n;
    ticket = draw;
  }
  return best;
}

static arke_status choose(const tune_candidates *c, int wanted, uint64_t seed, int64_t *chosen, int *n,
                          arke_error *err) {
  seen_values seen = {{{0}}};
  bool *taken = calloc((size_t)c->n, sizeof *taken);
  if (taken == NULL) return error_memory(err, STAGE);
  for (*n = 0; *n < wanted && *n < c->n; (*n)++) {
    int64_t index = pick(c, &seen, taken, random_u64(seed, (uint64_t)*n));
    config point;
    const tune_source *source = &c->sources[c->ranked[index].source];
    tune_candidate_config(c, index, &point);
    for (int i = 0; i < source->space->n_params; i++)
      seen.bits[c->ranked[index].source][i] |= value_bit(&source->space->params[i], point.values[i]);
    taken[index] = true;
    chosen[*n] = index;
  }
  free(taken);
  return ARKE_OK;
}

/* --- one run -------------------------------------------------------------------------------------------- */

/* A kernel on one device: its outputs are then in the runner's host buffers. */
static arke_status run_on(tune_runner *r, const lowered *code, const strbuf *recipe_text, tune_check *check,
                          arke_error *err) {
  tune_loaded *l;
  tune_verdict v;
  TRY(tune_runner_load(r, code->ptx, code->ptx_bytes, true, strbuf_text(recipe_text), recipe_text->length, &l,
                       &v, err));
  arke_status status = tune_runner_verify(l, &v, err);
  *check = v.check;
  tune_runner_unload(l);
  return status;
}

static int64_t count_differing(const tune_tensors *a, const tune_tensors *b, int64_t *elements) {
  int64_t differing = 0;
  for (int i = 0; i < a->n; i++) {
    if (!a->list[i].output) continue;
    size_t size = (size_t)dtype_bytes(a->list[i].type, 1);
    const char *x = a->list[i].host, *y = b->list[i].host;
    *elements += a->list[i].elements;
    for (int64_t e = 0; e < a->list[i].elements; e++)
      differing += memcmp(x + (size_t)e * size, y + (size_t)e * size, size) != 0;
  }
  return differing;
}

static json_t *check_json(const tune_check *c) {
  return json_pack("{s:f, s:f}", "error", c->error, "allowed", c->allowed);
}

/* Lowers one configuration and runs it on both devices. */
static void compare(pair *d, const char *title, const char *config_text, const kernel_template *k,
                    const ir_problem *p, const config *point) {
  arena a = ARENA_INIT;
  strbuf recipe_text = STRBUF_INIT;
  lowered code = {0};
  lower_options options = {0};
  tune_check tested = {0}, emulated = {0};
  arke_error err = ARKE_ERROR_INIT;
  int64_t elements = 0, differing = 0;
  const char *where = "lowering";
  arke_status status = k->lower(p, d->target, point, &options, &a, &code, &err);
  if (status == ARKE_OK) status = recipe_print(&code.recipe, &recipe_text, &err);
  if (status == ARKE_OK) {
    where = d->tested.info.name;
    status = run_on(&d->tested, &code, &recipe_text, &tested, &err);
  }
  if (status == ARKE_OK) {
    where = "emulator";
    status = run_on(&d->emulator, &code, &recipe_text, &emulated, &err);
  }
  d->count->runs++;
  if (status != ARKE_OK) {
    d->count->failed++;
    cli_complain("%s %s: %s: %s", title, config_text, where, err.text);
    json_array_append_new(d->runs, json_pack("{s:s, s:s, s:s, s:s}", "problem", title, "config", config_text,
                                             "failed_on", where, "error", err.text));
  } else {
    differing = count_differing(&d->tested.tensors, &d->emulator.tensors, &elements);
    d->count->elements += elements;
    d->count->differing_elements += differing;
    *(differing == 0 ? &d->count->identical : &d->count->differing) += 1;
    json_array_append_new(d->runs,
                          json_pack("{s:s, s:s, s:I, s:I, s:o, s:o}", "problem", title, "config", config_text,
                                    "elements", (json_int_t)elements, "differing", (json_int_t)differing,
                                    "device_vs_reference", check_json(&tested), "emulator_vs_reference",
                                    check_json(&emulated)));
  }
  strbuf_free(&recipe_text);
  arena_release(&a);
}

static arke_status prepare(pair *d, const cli_problem *p, arke_error *err) {
  strbuf bindings = STRBUF_INIT;
  ir_problem_print_bindings(&p->problem, &bindings);
  const tune_runner_problem what = {.op_text = p->entry->text,
                                    .bindings = strbuf_text(&bindings),
                                    .seed = d->seed,
                                    .samples = SAMPLES,
                                    .reference_s = REFERENCE_S};
  arke_status status =
      strbuf_failed(&bindings) ? error_memory(err, STAGE) : tune_runner_prepare(&d->tested, &what, err);
  if (status == ARKE_OK) status = tune_runner_prepare(&d->emulator, &what, err);
  strbuf_free(&bindings);
  return status;
}

static arke_status run_shape(pair *d, const cli_problem *p, const tune_candidates *c, const int64_t *chosen,
                             int n, cli_progress *progress, arke_error *err) {
  TRY(prepare(d, p, err));
  strbuf title = STRBUF_INIT;
  strbuf label = STRBUF_INIT;
  cli_problem_title(p, &title);
  strbuf_addf(&label, "%s: ", strbuf_text(&title));
  for (int i = 0; i < n; i++) {
    config point;
    const tune_source *source = &c->sources[c->ranked[chosen[i]].source];
    tune_candidate_config(c, chosen[i], &point);
    strbuf text = STRBUF_INIT;
    config_print(source->space, &point, &text);
    compare(d, strbuf_text(&title), strbuf_text(&text), source->template, &p->problem, &point);
    strbuf_free(&text);
    const tune_progress now = {.phase = TUNE_VERIFYING, .done = i + 1, .total = n, .left_s = -1};
    progress->label = strbuf_text(&label);
    cli_progress_show(&now, progress);
  }
  cli_progress_end(progress);
  strbuf_free(&label);
  strbuf_free(&title);
  return ARKE_OK;
}

/* Each shape has configurations of its own: what is redundant at one is not at another. */
static arke_status run_plan(pair *d, const cli_fidelity_plan *plan, arke_error *err) {
  arena a = ARENA_INIT;
  cli_progress progress;
  int64_t *chosen = ARENA_NEW_N(&a, int64_t, (size_t)plan->n_configs);
  cli_progress_start(&progress, "");
  arke_status status = chosen == NULL ? error_memory(err, STAGE) : ARKE_OK;
  for (int i = 0; i < plan->n_shapes && status == ARKE_OK; i++) {
    cli_problem p;
    tune_candidates c;
    int n = 0;
    status = cli_problem_make(&a, plan->op, plan->shapes[i], plan->type, &p, err);
    if (status == ARKE_OK) status = cli_candidates(&p.problem, d->target, NULL, &c, err);
    if (status != ARKE_OK) break;
    status = choose(&c, plan->n_configs, random_u64(d->seed, (uint64_t)i), chosen, &n, err);
    if (status == ARKE_OK) status = run_shape(d, &p, &c, chosen, n, &progress, err);
    tune_candidates_release(&c);
  }
  arena_release(&a);
  return status;
}

arke_status cli_fidelity_run(const cli_fidelity_plan *plans, int n_plans, const target *t,
                             arke_device_kind kind, int index, uint64_t seed, json_t *runs,
                             cli_fidelity_count *count, arke_error *err) {
  pair d = {.target = t, .seed = seed, .runs = runs, .count = count};
  device *tested = NULL, *emulator = NULL;
  *count = (cli_fidelity_count){0};
  arke_status status = kind == ARKE_DEVICE_CUDA ? device_open_cuda(index, &tested, err)
                                                : device_open_emulator(t->name, seed + 1, &tested, err);
  if (status == ARKE_OK) status = tune_runner_open(&d.tested, tested, err);
  if (status == ARKE_OK) status = device_open_emulator(t->name, seed, &emulator, err);
  if (status == ARKE_OK) status = tune_runner_open(&d.emulator, emulator, err);
  for (int i = 0; i < n_plans && status == ARKE_OK; i++) status = run_plan(&d, &plans[i], err);
  tune_runner_close(&d.emulator);
  tune_runner_close(&d.tested);
  return status;
}
