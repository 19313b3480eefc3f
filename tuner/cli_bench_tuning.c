/* How near a limited budget comes to trying everything: both are tuned into caches of their own, and the two
 * winners are then run against each other. */
#include "tuner/cli_bench_parts.h"
#include "tuner/cli_contest.h"
#include "tuner/cli_report.h"
#include "tuner/cli_scratch.h"
#include "tuner/cli_tune.h"
#include "tuner/cli_tuned.h"

#define STAGE "bench"

static json_t *search_json(const tune_result *r) {
  return json_pack("{s:s, s:f, s:i, s:i, s:f}", "config", r->config_text, "elapsed_s", r->elapsed_s,
                   "compiled", r->trials.compiled, "measured", r->trials.measured, "median_ns",
                   r->time.median_ns);
}

/* The two winners, interleaved. */
static arke_status contest(bench *b, const cli_problem *p, const char *const paths[2], cli_contest *c,
                           cli_ratio *ratio, arke_error *err) {
  tune_tensors tensors = {0};
  cli_tuned tuned[2] = {{0}};
  tune_meter meter = {0};
  arke_status status = cli_bench_tensors(b, p, &tensors, err);
  for (int i = 0; i < 2 && status == ARKE_OK; i++) {
    status = cli_tuned_open(paths[i], p->spec->name, &tensors, &b->info, &tuned[i], err);
    if (status == ARKE_OK) c->list[i].runnable = cli_tuned_runnable(&tuned[i]);
  }
  if (status == ARKE_OK) status = tune_meter_open(b->dev, b->settings->tune.seed, &meter, err);
  if (status == ARKE_OK) status = cli_bench_time_alike(b, p, &meter, c, err);
  if (status == ARKE_OK) status = cli_contest_run(c, &meter, b->settings->rounds, err);
  if (status == ARKE_OK) status = cli_contest_ratio(c, 0, 1, ratio, err);
  tune_meter_close(&meter);
  for (int i = 0; i < 2; i++) cli_tuned_close(&tuned[i]);
  if (tensors.dev != NULL) tune_tensors_release(&tensors);
  return status;
}

static arke_status compare_problem(bench *b, const cli_problem *p, const cli_scratch *scratch, json_t *list,
                                   arke_error *err) {
  const char *const paths[2] = {cli_scratch_path(scratch, b->memory, "budget.arke"),
                                cli_scratch_path(scratch, b->memory, "exhaustive.arke")};
  tune_result results[2] = {{0}};
  cli_contest c = {.n = 2, .list = {{.name = "budget"}, {.name = "exhaustive"}}};
  cli_ratio ratio = {0};
  strbuf title = STRBUF_INIT;
  arke_status status = ARKE_OK;
  cli_problem_title(p, &title);
  for (int i = 0; i < 2 && status == ARKE_OK; i++) {
    tune_options o = b->settings->tune;
    o.device = TUNE_DEVICE_CUDA;
    o.target = b->target;
    o.cache_path = paths[i];
    o.bucket = "";
    if (i == 0) o.trials = 0; /* --trials bounds the other search, where all would take too long */
    if (i == 1) {
      o.effort = TUNE_EXHAUSTIVE;
      o.budget_s = 0;
    }
    status =
        cli_tune_once(&o, &p->problem, i == 0 ? "budget: " : "exhaustive: ", b->memory, &results[i], err);
  }
  if (status == ARKE_OK) status = contest(b, p, paths, &c, &ratio, err);
  if (status == ARKE_OK) {
    json_array_append_new(
        list, json_pack("{s:s, s:f, s:o, s:o, s:o, s:o, s:o}", "problem", strbuf_text(&title), "budget_s",
                        b->settings->tune.budget_s, "budget", search_json(&results[0]), "exhaustive",
                        search_json(&results[1]), "budget_ns", cli_contest_time_json(&c.list[0].time),
                        "exhaustive_ns", cli_contest_time_json(&c.list[1].time), "budget_over_exhaustive",
                        cli_contest_ratio_json(&ratio)));
    strbuf_addf(&b->text,
                "%s: budget of %.0f s: %d measured in %.1f s, exhaustive: %d measured in %.1f s; time of the "
                "budget's "
                "winner over the other's %.4f (p10 %.4f, p90 %.4f)\n",
                strbuf_text(&title), b->settings->tune.budget_s, results[0].trials.measured,
                results[0].elapsed_s, results[1].trials.measured, results[1].elapsed_s, ratio.median,
                ratio.p10, ratio.p90);
  }
  cli_contest_release(&c);
  strbuf_free(&title);
  return status;
}

arke_status cli_bench_tuning(bench *b, arke_error *err) {
  if (b->settings->tune.effort == TUNE_EXHAUSTIVE)
    return cli_usage(err, "--effort exhaustive: what is compared with it is quick or full, under --budget");
  cli_scratch scratch;
  TRY(cli_scratch_open(&scratch, err));
  json_t *list = json_array();
  json_object_set_new(
      b->report, "method",
      json_string(
          "each search starts with an empty cache; the exhaustive one tries all feasible configurations, or, "
          "under a limit, as many of those that the model ranks first; the two winners are interleaved in "
          "random order, timed as in the search, and compared by ratios within a round"));
  json_object_set_new(b->report, "rounds", json_integer(b->settings->rounds));
  json_object_set_new(b->report, "exhaustive_trials_limit",
                      b->settings->tune.trials > 0 ? json_integer(b->settings->tune.trials) : json_null());
  json_object_set_new(b->report, "problems", list);
  arke_status status = ARKE_OK;
  for (int i = 0; i < b->n_problems && status == ARKE_OK; i++)
    status = compare_problem(b, &b->problems[i], &scratch, list, err);
  cli_scratch_remove(&scratch);
  return status;
}
