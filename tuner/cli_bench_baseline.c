/* Arke's kernel against cuBLAS: one process, one GPU, the same tensors, interleaved. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tuner/cli_bench_parts.h"
#include "tuner/cli_cublas.h"
#include "tuner/cli_output.h"
#include "tuner/cli_power.h"
#include "tuner/cli_report.h"
#include "tuner/verify.h"

#define STAGE "bench"

enum { OURS, THEIRS, SAMPLES = 4096, REFERENCE_S = 20 };

#define SELECTION 0.2 /* rounds that choose among cuBLAS's candidates, a round of the comparison */

static const char method[] =
    "the winner of the cache through arke_run, and the first 8 candidates of cublasLt's heuristics with a "
    "workspace of 32 MiB, in one process on the same tensors; inputs standard normal, rotating through sets "
    "that pass twice the L2; CUDA graphs of whole turns through the sets between two events, at least 3 ms a "
    "sample, one replay unrecorded before each; first cublas's candidates, round after round, of which the "
    "one with the least median goes on; then the two, round after round, in a new random order in each; "
    "times "
    "are medians over those rounds, cublas_over_arke is the median of the ratio within a round";

static const char power_method[] = "after the comparison both run back to back, inputs rotating as there, "
                                   "two turns of half a second each in the "
                                   "order A B B A; joules are the differences of NVML's total energy "
                                   "counter, over the runs; ns is the time of a "
                                   "run in these turns, sm_mhz the clock at their ends";

/* Everything of one problem. */
typedef struct match {
  bench *bench;
  const cli_problem *problem;
  tune_tensors tensors;
  tune_expected expected;
  cli_tuned ours;
  cli_cublas cublas;
  arke_error refusal; /* of cuBLAS: that it has no such product is no failure of a bench */
  tune_meter meter;
  cli_contest selection; /* cuBLAS's candidates among themselves */
  int best;              /* the fastest of them */
  cli_contest contest;   /* OURS and THEIRS, the chosen one */
  cli_ratio ratio;       /* its time over ours */
  tune_check checks[2];
  cli_power power[2];
  int64_t elements, differing;
  double largest_difference;
} match;

static arke_status set_up(match *m, cublas_library *library, arke_error *err) {
  bench *b = m->bench;
  cublas_product product;
  TRY(cli_cublas_product(m->problem, &product, &m->refusal));
  TRY(cli_bench_tensors(b, m->problem, &m->tensors, err));
  TRY(cli_cublas_open(library, &product, &m->tensors, &m->cublas, &m->refusal));
  TRY(cli_bench_tuned(b, m->problem, &m->tensors, &m->ours, err));
  m->selection.n = m->cublas.n;
  for (int i = 0; i < m->selection.n; i++) m->selection.list[i] = cli_cublas_contestant(&m->cublas, i);
  return tune_meter_open(b->dev, b->settings->tune.seed, &m->meter, err);
}

static void tear_down(match *m) {
  cli_contest_release(&m->contest);
  cli_contest_release(&m->selection);
  tune_meter_close(&m->meter);
  cli_cublas_close(&m->cublas);
  cli_tuned_close(&m->ours);
  tune_expected_release(&m->expected);
  if (m->tensors.dev != NULL) tune_tensors_release(&m->tensors);
}

/* --- results ----------------------------------------------------------------------------------------- */

/* Runs a contestant once on the first input set and checks the result against the fp64 reference. */
static arke_status check_contestant(match *m, int i, tune_check *check, arke_error *err) {
  const tune_runnable *r = &m->contest.list[i].runnable;
  TRY(tune_tensors_poison(&m->tensors, err));
  TRY(r->enqueue(r->user, 0, m->meter.stream, err));
  TRY(m->bench->dev->ops->synchronize(m->bench->dev, err));
  TRY(tune_tensors_check(&m->tensors, err));
  TRY(tune_tensors_fetch(&m->tensors, err));
  arke_error failure = ARKE_ERROR_INIT;
  arke_status status = tune_expected_check(&m->expected, &m->tensors, check, &failure);
  /* cuBLAS rounds f32 to tf32, where the operator cuts it off: its results differ and are told, not judged.
   */
  bool rounds = i == THEIRS && m->tensors.list[0].type == DTYPE_F32;
  if (status == ARKE_OK || (rounds && status == ARKE_ERR_MISMATCH)) return ARKE_OK;
  return error_set(err, status, STAGE, "%s: %s", m->contest.list[i].name, failure.text);
}

static arke_status compare_results(match *m, arke_error *err) {
  const tune_tensor *y = &m->tensors.list[m->cublas.y];
  const tune_reference reference = {SAMPLES, REFERENCE_S, m->bench->settings->tune.fast_math};
  TRY(tune_expected_compute(&m->tensors, &reference, m->bench->settings->tune.seed, &m->expected, err));
  TRY(check_contestant(m, OURS, &m->checks[OURS], err));
  void *ours = malloc(y->bytes);
  if (ours == NULL) return error_memory(err, STAGE);
  memcpy(ours, y->host, y->bytes);
  arke_status status = check_contestant(m, THEIRS, &m->checks[THEIRS], err);
  for (int64_t i = 0; i < y->elements && status == ARKE_OK; i++) {
    double difference = fabs(dtype_load(y->type, ours, i) - dtype_load(y->type, y->host, i));
    m->differing += difference != 0;
    m->largest_difference = fmax(m->largest_difference, difference);
  }
  m->elements = y->elements;
  free(ours);
  return status;
}

/* --- one problem ------------------------------------------------------------------------------------- */

/* The candidate is chosen from times of its own, so that its luck there is not in the
 * comparison. */
static arke_status play(match *m, cublas_library *library, const power_meter *meter, arke_error *err) {
  int rounds = m->bench->settings->rounds;
  TRY(set_up(m, library, err));
  TRY(cli_contest_run(&m->selection, &m->meter, (int)ceil(SELECTION * rounds), err));
  m->best = cli_contest_fastest(&m->selection, 0);
  m->contest.n = 2;
  m->contest.list[OURS] = (cli_contestant){.name = "arke", .runnable = cli_tuned_runnable(&m->ours)};
  m->contest.list[THEIRS] = m->selection.list[m->best];
  TRY(compare_results(m, err));
  TRY(cli_contest_run(&m->contest, &m->meter, rounds, err));
  if (meter) TRY(cli_power_measure(meter, &m->meter, &m->contest, m->power, err));
  return cli_contest_ratio(&m->contest, THEIRS, OURS, &m->ratio, err);
}

static double tflops(const match *m, int i) {
  return ir_flops(&m->problem->problem) / m->contest.list[i].time.median_ns * 1e-3;
}

static json_t *check_json(const tune_check *c) {
  return json_pack("{s:f, s:f}", "error", c->error, "allowed", c->allowed);
}

static json_t *match_json(const match *m, const char *title, bool powered) {
  json_t *all = json_array();
  for (int i = 0; i < m->selection.n; i++)
    json_array_append_new(all, cli_contest_time_json(&m->selection.list[i].time));
  json_t *results =
      json_pack("{s:o, s:o, s:I, s:I, s:f}", "arke_vs_reference", check_json(&m->checks[OURS]),
                "cublas_vs_reference", check_json(&m->checks[THEIRS]), "elements", (json_int_t)m->elements,
                "differing", (json_int_t)m->differing, "largest_difference", m->largest_difference);
  json_t *o =
      json_pack("{s:s, s:s, s:s, s:i, s:o, s:f, s:o, s:f, s:i, s:o, s:o, s:o}", "problem", title, "key",
                m->ours.info.key, "config", m->ours.info.config, "input_sets", m->tensors.n_sets, "arke_ns",
                cli_contest_time_json(&m->contest.list[OURS].time), "arke_tflops", tflops(m, OURS),
                "cublas_ns", cli_contest_time_json(&m->contest.list[THEIRS].time), "cublas_tflops",
                tflops(m, THEIRS), "cublas_heuristic", m->best, "cublas_selection_ns", all,
                "cublas_over_arke", cli_contest_ratio_json(&m->ratio), "results", results);
  if (powered) {
    json_object_set_new(o, "arke_power", cli_power_json(&m->power[OURS]));
    json_object_set_new(o, "cublas_power", cli_power_json(&m->power[THEIRS]));
  }
  return o;
}

/* *ratio: 0 where cuBLAS has no such product, which is told and no failure. */
static arke_status play_problem(bench *b, const cli_problem *p, cublas_library *library,
                                const power_meter *meter, json_t *list, double *ratio, arke_error *err) {
  match m = {.bench = b, .problem = p};
  strbuf title = STRBUF_INIT, ours = STRBUF_INIT, theirs = STRBUF_INIT;
  cli_problem_title(p, &title);
  cli_complain("comparing %s", strbuf_text(&title));
  *ratio = 0;
  arke_status status = play(&m, library, meter, err);
  if (m.refusal.code != ARKE_OK && m.refusal.code != ARKE_ERR_UNSUPPORTED)
    error_set(err, status, m.refusal.stage, "%s", m.refusal.text);
  if (m.refusal.code == ARKE_ERR_UNSUPPORTED) {
    status = ARKE_OK;
    json_array_append_new(
        list, json_pack("{s:s, s:s}", "problem", strbuf_text(&title), "cublas_refused", m.refusal.text));
    strbuf_addf(&b->text, "%-32s not compared: %s\n", strbuf_text(&title), m.refusal.text);
  } else if (status == ARKE_OK) {
    *ratio = m.ratio.median;
    cli_time_print(m.contest.list[OURS].time.median_ns, &ours);
    cli_time_print(m.contest.list[THEIRS].time.median_ns, &theirs);
    json_array_append_new(list, match_json(&m, strbuf_text(&title), meter != NULL));
    strbuf_addf(&b->text, "%-32s %10s %8.1f %10s %8.1f   %.4f (%.4f to %.4f)\n", strbuf_text(&title),
                strbuf_text(&ours), tflops(&m, OURS), strbuf_text(&theirs), tflops(&m, THEIRS),
                m.ratio.median, m.ratio.p10, m.ratio.p90);
    if (meter)
      strbuf_addf(&b->text, "%32s %10.3g J %6.0f W %8.3g J %6.0f W   %.4f of the joules\n", "",
                  m.power[OURS].joules, m.power[OURS].watts, m.power[THEIRS].joules, m.power[THEIRS].watts,
                  m.power[THEIRS].joules / m.power[OURS].joules);
  }
  tear_down(&m);
  strbuf_free(&title);
  strbuf_free(&ours);
  strbuf_free(&theirs);
  return status;
}

static void describe_method(bench *b, const cublas_library *library) {
  size_t version = cublas_version(library);
  json_object_set_new(b->report, "baseline", json_string("cublasLt"));
  json_object_set_new(b->report, "baseline_version",
                      json_sprintf("%zu.%zu.%zu", version / 10000, version / 100 % 100, version % 100));
  json_object_set_new(b->report, "rounds", json_integer(b->settings->rounds));
  json_object_set_new(b->report, "seed", json_integer((json_int_t)b->settings->tune.seed));
  json_object_set_new(b->report, "method", json_string(method));
}

/* With --power, where the GPU's draw can be read; why not otherwise. */
static power_meter *open_meter(bench *b) {
  power_meter *meter = NULL;
  arke_error why = ARKE_ERROR_INIT;
  if (!b->settings->line->given[CLI_OPT_POWER]) return NULL;
  if (power_meter_open(NULL, b->info.pci_bus, &meter, &why) != ARKE_OK)
    cli_complain("no power is measured: %s", why.text);
  else
    json_object_set_new(b->report, "power_method", json_string(power_method));
  return meter;
}

arke_status cli_bench_baseline(bench *b, arke_error *err) {
  cublas_library *library = NULL;
  double logarithms = 0, lowest = INFINITY;
  TRY(cublas_open(NULL, &library, err));
  json_t *list = json_array();
  describe_method(b, library);
  json_object_set_new(b->report, "problems", list);
  power_meter *meter = open_meter(b);
  strbuf_addf(&b->text, "%-32s %10s %8s %10s %8s   %s\n", "problem", "arke", "TFLOP/s", "cublas", "TFLOP/s",
              "cublas over arke (p10 to p90)");
  arke_status status = ARKE_OK;
  int compared = 0;
  for (int i = 0; i < b->n_problems && status == ARKE_OK; i++) {
    double ratio;
    status = play_problem(b, &b->problems[i], library, meter, list, &ratio, err);
    if (status == ARKE_OK && ratio > 0) {
      logarithms += log(ratio);
      lowest = fmin(lowest, ratio);
      compared++;
    }
    if (status == ARKE_OK) status = cli_bench_so_far(b, err);
  }
  power_meter_close(meter);
  cublas_close(library);
  TRY(status);
  if (compared == 0) return error_set(err, ARKE_ERR_UNSUPPORTED, STAGE, "cuBLAS has none of these products");
  double mean = exp(logarithms / compared);
  json_object_set_new(b->report, "geometric_mean", json_real(mean));
  json_object_set_new(b->report, "lowest", json_real(lowest));
  strbuf_addf(&b->text, "geometric mean %.4f over %d problems, lowest %.4f\n", mean, compared, lowest);
  return ARKE_OK;
}
