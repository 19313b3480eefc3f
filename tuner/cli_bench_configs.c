/* Configurations of one problem against one another and, for matrix products, against cuBLAS: what a search
 * would choose between, timed as finalists are. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tuner/cli_bench_parts.h"
#include "tuner/cli_contest.h"
#include "tuner/cli_cublas.h"
#include "tuner/cli_output.h"
#include "tuner/cli_report.h"
#include "tuner/speed_of_light.h"
#include "tuner/trial_runner.h"

#define STAGE "bench"

enum { LINE_BYTES = 512 };

/* As a search has it: an element that takes longer than COSTLY_S is not evaluated. */
#define SAMPLES     4096
#define REFERENCE_S 1.0
#define COSTLY_S    1.0

static const char method[] =
    "the configurations of a file, compiled by workers as a search does, checked against the fp64 reference "
    "for as many elements as one second allows and against one another in all, "
    "and the first 8 candidates of cublasLt's heuristics with a workspace of 32 MiB, on the same tensors; "
    "inputs standard normal, rotating through sets that pass twice the L2; CUDA graphs of whole turns "
    "through "
    "the sets between two events, at least 3 ms a sample, one replay unrecorded before each; of problems "
    "whose search times cold runs, single runs instead, unless --back-to-back is given, each after a fill of "
    "twice the L2 "
    "and "
    "reads of it, the mean of the middle 5 of 9 a sample; round "
    "after "
    "round, in a new random order in each; times are medians over the rounds, baseline_over_this the median "
    "within a round of the time of the contestant with the least median, of cuBLAS's where there are any, "
    "over this one's";

/* The contestants of one problem. */
typedef struct config_match {
  bench *bench;
  const cli_problem *problem;
  tune_runner runner; /* on a device handle of its own */
  tune_meter meter;
  cli_cublas cublas;
  arke_error refusal; /* why cuBLAS is not among them; ARKE_OK where it is, or is not asked */
  tune_candidates candidates;
  int n_images;
  cli_image images[CLI_CONTESTANTS_MAX];
  tune_loaded *loaded[CLI_CONTESTANTS_MAX];
  cli_contest contest;
} config_match;

static arke_status enqueue(void *user, int set, void *stream, arke_error *err) {
  const tune_loaded *l = user;
  return tune_launches_enqueue(l->runner->dev, &l->sets[set], stream, err);
}

static arke_status load(config_match *c, const tune_message *answer, tune_loaded **l, arke_error *err) {
  tune_verdict v;
  tune_burst burst = {0};
  int64_t cubin = tune_message_integer(answer->body, "cubin", -1);
  int64_t ptx = tune_message_integer(answer->body, "ptx", -1);
  int64_t text = tune_message_integer(answer->body, "recipe", -1), code = cubin >= 0 ? cubin : ptx;
  if (code < 0 || code >= answer->n_blobs || text < 0 || text >= answer->n_blobs)
    return error_set(err, ARKE_ERR_INTERNAL, STAGE, "the worker's answer holds no kernel");
  const tune_blob *image = &answer->blobs[code], *recipe_text = &answer->blobs[text];
  TRY(tune_runner_load(&c->runner, image->data, image->bytes, cubin < 0, recipe_text->data,
                       recipe_text->bytes, l, &v, err));
  TRY(tune_runner_verify(*l, &v, err));
  arke_status status = tune_runner_burst(*l, &burst, &v, err); /* binds all sets */
  tune_burst_release(&c->runner.meter, &burst);
  return status;
}

/* One that is not feasible, or fails, is reported and left out. */
static arke_status add_config(config_match *c, cli_image *image, arke_error *err) {
  cli_contest *contest = &c->contest;
  int at = contest->n;
  bool compiled = image->failure.code == ARKE_OK;
  arke_status status = image->failure.code;
  if (compiled) status = load(c, &image->answer, &c->loaded[at], &image->failure);
  if (status != ARKE_OK) {
    cli_complain("%s: %s", image->text, image->failure.text);
    tune_runner_unload(c->loaded[at]);
    c->loaded[at] = NULL;
    return compiled && (status == ARKE_ERR_FAULT || status == ARKE_ERR_TIMEOUT)
               ? error_set(err, status, STAGE, "%s: %s", image->text, image->failure.text)
               : ARKE_OK;
  }
  contest->list[contest->n++] = (cli_contestant){
      .name = image->text,
      .runnable = {.enqueue = enqueue, .user = c->loaded[at], .n_sets = c->runner.tensors.n_sets}};
  return ARKE_OK;
}

static arke_status add_configs(config_match *c, arke_error *err) {
  arke_status status = ARKE_OK;
  if (c->contest.n + c->n_images > CLI_CONTESTANTS_MAX)
    return error_set(err, ARKE_ERR_UNSUPPORTED, STAGE,
                     "more than %d configurations and candidates of cuBLAS at a time", CLI_CONTESTANTS_MAX);
  for (int i = 0; i < c->n_images && status == ARKE_OK; i++) status = add_config(c, &c->images[i], err);
  return status;
}

/* A configuration a line; blank lines, and what follows a '#', say nothing. */
static arke_status read_configs(config_match *c, const char *path, arke_error *err) {
  FILE *file = fopen(path, "r");
  char line[LINE_BYTES];
  arke_status status = ARKE_OK;
  if (file == NULL)
    return cli_usage(err, "--configs %s: cannot be read", cli_printable(c->bench->memory, path));
  while (status == ARKE_OK && fgets(line, sizeof line, file) != NULL) {
    line[strcspn(line, "#\r\n")] = '\0';
    char *text = line + strspn(line, " \t");
    for (size_t n = strlen(text); n > 0 && isspace((unsigned char)text[n - 1]);) text[--n] = '\0';
    if (text[0] == '\0') continue;
    if (c->n_images == CLI_CONTESTANTS_MAX)
      status = error_set(err, ARKE_ERR_UNSUPPORTED, STAGE, "%s: more than %d configurations", path,
                         CLI_CONTESTANTS_MAX);
    else
      c->images[c->n_images++].text = arena_strdup(c->bench->memory, text);
  }
  fclose(file);
  return status;
}

static arke_status prepare(config_match *c, arke_error *err) {
  bench *b = c->bench;
  device *dev;
  strbuf bindings = STRBUF_INIT;
  bool costly = tune_reference_s(&c->problem->problem) > COSTLY_S;
  TRY(cli_candidates(&c->problem->problem, b->target, NULL, &c->candidates, err));
  TRY(cli_bench_images(b, c->problem, &c->candidates, c->images, c->n_images, err));
  TRY(device_open_cuda(b->info.index, &dev, err));
  TRY(tune_runner_open(&c->runner, dev, err));
  c->runner.target = b->target; /* outputs are compared on the device */
  ir_problem_print_bindings(&c->problem->problem, &bindings);
  const tune_runner_problem what = {
      .op_text = c->problem->spec->text,
      .bindings = strbuf_text(&bindings),
      .seed = b->settings->tune.seed,
      .reference = {costly ? 0 : SAMPLES, REFERENCE_S, b->settings->tune.fast_math},
  };
  arke_status status = tune_runner_prepare(&c->runner, &what, err);
  strbuf_free(&bindings);
  return status == ARKE_OK ? tune_meter_open(c->runner.dev, b->settings->tune.seed, &c->meter, err) : status;
}

static arke_status add_cublas(config_match *c, cublas_library *library, arke_error *err) {
  cublas_product product;
  if (library == NULL || cli_cublas_product(c->problem, &product, NULL) != ARKE_OK) return ARKE_OK;
  arke_status status = cli_cublas_open(library, &product, &c->runner.tensors, &c->cublas, &c->refusal);
  if (status == ARKE_ERR_UNSUPPORTED) {
    cli_complain("without cuBLAS: %s", c->refusal.text);
    return ARKE_OK;
  }
  if (status != ARKE_OK) return error_set(err, status, STAGE, "%s", c->refusal.text);
  for (int i = 0; i < c->cublas.n; i++)
    c->contest.list[c->contest.n++] = cli_cublas_contestant(&c->cublas, i);
  return ARKE_OK;
}

static void tear_down(config_match *c) {
  cli_contest_release(&c->contest);
  tune_meter_close(&c->meter);
  for (int i = 0; i < CLI_CONTESTANTS_MAX; i++) tune_runner_unload(c->loaded[i]);
  cli_cublas_close(&c->cublas);
  if (c->runner.dev != NULL) tune_runner_close(&c->runner);
  for (int i = 0; i < c->n_images; i++) tune_message_release(&c->images[i].answer);
  tune_candidates_release(&c->candidates);
}

static arke_status report(config_match *c, const char *title, json_t *problems, arke_error *err) {
  bench *b = c->bench;
  const cli_contest *contest = &c->contest;
  json_t *list = json_array();
  cli_contest first = *contest; /* cuBLAS's candidates come first */
  if (c->cublas.n > 0) first.n = c->cublas.n;
  int baseline = cli_contest_fastest(&first, 0);
  json_t *one_problem = json_pack("{s:s, s:s, s:o}", "problem", title, "baseline",
                                  contest->list[baseline].name, "contestants", list);
  if (c->refusal.code != ARKE_OK)
    json_object_set_new(one_problem, "cublas_refused", json_string(c->refusal.text));
  json_array_append_new(problems, one_problem);
  strbuf_addf(&b->text, "%s; baseline: %s\n", title, contest->list[baseline].name);
  for (int i = 0; i < contest->n; i++) {
    const cli_contestant *one = &contest->list[i];
    cli_ratio ratio;
    strbuf time = STRBUF_INIT;
    TRY(cli_contest_ratio(contest, baseline, i, &ratio, err));
    json_array_append_new(list, json_pack("{s:s, s:o, s:o}", "contestant", one->name, "ns",
                                          cli_contest_time_json(&one->time), "baseline_over_this",
                                          cli_contest_ratio_json(&ratio)));
    cli_time_print(one->time.median_ns, &time);
    strbuf_addf(&b->text, "  %10s  %.4f (%.4f to %.4f)  %s\n", strbuf_text(&time), ratio.median, ratio.p10,
                ratio.p90, one->name);
    strbuf_free(&time);
  }
  return ARKE_OK;
}

static arke_status compare(bench *b, const cli_problem *p, cublas_library *library, json_t *problems,
                           arke_error *err) {
  const char *path = b->settings->line->texts[CLI_OPT_CONFIGS];
  config_match c = {.bench = b, .problem = p};
  strbuf title = STRBUF_INIT;
  cli_problem_title(p, &title);
  cli_complain("comparing %s", strbuf_text(&title));
  arke_status status = read_configs(&c, path, err);
  if (status == ARKE_OK) status = prepare(&c, err);
  if (status == ARKE_OK) status = add_cublas(&c, library, err);
  if (status == ARKE_OK) status = add_configs(&c, err);
  if (status == ARKE_OK && c.contest.n == 0)
    status = error_set(err, ARKE_ERR_NOT_FOUND, STAGE, "%s: no configuration to compare", path);
  if (status == ARKE_OK) status = cli_bench_time_alike(b, p, &c.meter, &c.contest, err);
  if (status == ARKE_OK) status = cli_contest_run(&c.contest, &c.meter, b->settings->rounds, err);
  if (status == ARKE_OK) status = report(&c, strbuf_text(&title), problems, err);
  tear_down(&c);
  strbuf_free(&title);
  return status;
}

arke_status cli_bench_configs(bench *b, arke_error *err) {
  cublas_library *library = NULL;
  arke_error missing = ARKE_ERROR_INIT;
  if (b->settings->line->texts[CLI_OPT_CONFIGS] == NULL)
    return cli_usage(err, "--what configs: --configs names no file; it takes a configuration a line");
  if (cublas_open(NULL, &library, &missing) != ARKE_OK) cli_complain("without cuBLAS: %s", missing.text);
  json_t *problems = json_array();
  json_object_set_new(b->report, "rounds", json_integer(b->settings->rounds));
  json_object_set_new(b->report, "seed", json_integer((json_int_t)b->settings->tune.seed));
  json_object_set_new(b->report, "method", json_string(method));
  json_object_set_new(b->report, "problems", problems);
  arke_status status = ARKE_OK;
  for (int i = 0; i < b->n_problems && status == ARKE_OK; i++) {
    status = compare(b, &b->problems[i], library, problems, err);
    if (status == ARKE_OK) status = cli_bench_so_far(b, err);
  }
  if (library != NULL) cublas_close(library);
  return status;
}
