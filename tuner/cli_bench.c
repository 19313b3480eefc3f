#include "tuner/cli_bench.h"

#include <stdlib.h>
#include <string.h>

#include "tuner/cli_bench_parts.h"
#include "tuner/cli_machine.h"
#include "tuner/cli_output.h"
#include "tuner/cli_report.h"
#include "tuner/cli_tune.h"
#include "tuner/cli_workload.h"
#include "tuner/flush_l2.h"
#include "tuner/timing_way.h"
#include "tuner/tune_session.h"

#define STAGE "bench"

arke_status cli_bench_time_alike(const bench *b, const cli_problem *p, tune_meter *m, cli_contest *c,
                                 arke_error *err) {
  target_rates rates = tune_rates_for(b->target, &b->info);
  bool cold = tune_is_timed_cold(&p->problem, &rates) && !b->settings->line->given[CLI_OPT_BACK_TO_BACK];
  for (int i = 0; i < c->n; i++) c->list[i].runnable.cold = cold;
  return cold ? tune_flush_l2(m, b->info.l2_bytes, err) : ARKE_OK;
}

arke_status cli_bench_tensors(bench *b, const cli_problem *p, tune_tensors *t, arke_error *err) {
  return tune_tensors_create(b->dev, &p->problem, true, b->info.l2_bytes, b->settings->tune.seed, t, err);
}

arke_status cli_bench_tuned(bench *b, const cli_problem *p, const tune_tensors *tensors, cli_tuned *t,
                            arke_error *err) {
  arke_error failure = ARKE_ERROR_INIT;
  const char *cache_path = b->settings->tune.cache_path;
  arke_status status = cli_tuned_open(cache_path, p->spec->name, tensors, &b->info, t, &failure);
  if (status == ARKE_ERR_NOT_TUNED || status == ARKE_ERR_NOT_FOUND) {
    strbuf title = STRBUF_INIT;
    tune_result r;
    tune_options o = b->settings->tune;
    o.device = TUNE_DEVICE_CUDA;
    o.target = b->target;
    o.bucket = p->bucket;
    cli_problem_title(p, &title);
    strbuf_add(&title, ": ");
    status = cli_make_parents(b->memory, cache_path, err);
    if (status == ARKE_OK) status = cli_tune_once(&o, &p->problem, strbuf_text(&title), b->memory, &r, err);
    strbuf_free(&title);
    TRY(status);
    return cli_tuned_open(cache_path, p->spec->name, tensors, &b->info, t, err);
  }
  return status == ARKE_OK ? ARKE_OK : error_set(err, status, failure.stage, "%s", failure.text);
}

static arke_status read_problems(bench *b, arke_error *err) {
  const cli_line *line = b->settings->line;
  const char *file = line->texts[CLI_OPT_WORKLOAD];
  if (file == NULL) {
    b->problems = ARENA_NEW(b->memory, cli_problem);
    if (b->problems == NULL) return error_memory(err, STAGE);
    b->n_problems = 1;
    return cli_problem_read(b->settings, b->memory, b->problems, err);
  }
  if (line->given[CLI_OPT_OP] || line->given[CLI_OPT_SHAPE])
    return cli_usage(err, "--workload and --op, --shape both name what to measure; give one");
  cli_workload w;
  TRY(cli_workload_read(b->memory, file, &w, err));
  b->problems = w.problems;
  b->n_problems = w.n_problems;
  return ARKE_OK;
}

static arke_status open_gpu(bench *b, arke_error *err) {
  const tune_options *o = &b->settings->tune;
  if (o->device == TUNE_DEVICE_EMULATOR || o->device == TUNE_DEVICE_MODEL)
    return cli_usage(err, "--device %s: this measurement needs a GPU; accepted: auto or cuda[:i]",
                     b->settings->line->texts[CLI_OPT_DEVICE]);
  TRY(device_open_cuda(o->device_index, &b->dev, err));
  TRY(b->dev->ops->info(b->dev, &b->info, err));
  if (o->target == NULL) b->target = target_for_cc(b->info.cc_major, b->info.cc_minor);
  if (b->target != NULL) return ARKE_OK;
  return error_set(err, ARKE_ERR_UNSUPPORTED, STAGE, "no target for %s (compute capability %d.%d)",
                   b->info.name, b->info.cc_major, b->info.cc_minor);
}

/* Compiling needs no GPU; where there is one, the report says which, and its clocks. */
static void open_gpu_if_any(bench *b) {
  arke_error failure = ARKE_ERROR_INIT;
  if (device_open_cuda(b->settings->tune.device_index, &b->dev, &failure) != ARKE_OK) return;
  if (b->dev->ops->info(b->dev, &b->info, &failure) == ARKE_OK) return;
  b->dev->ops->close(b->dev);
  b->dev = NULL;
}

static arke_status measure(bench *b, arke_error *err) {
  switch (b->settings->what) {
  case CLI_MEASURE_BASELINE: return cli_bench_baseline(b, err);
  case CLI_MEASURE_LAUNCH: return cli_bench_launch(b, err);
  case CLI_MEASURE_COMPILE: return cli_bench_compile(b, err);
  case CLI_MEASURE_TUNING: return cli_bench_tuning(b, err);
  case CLI_MEASURE_CONFIGS: return cli_bench_configs(b, err);
  }
  return error_set(err, ARKE_ERR_INTERNAL, STAGE, "unknown measurement");
}

static arke_status write_report(bench *b, arke_error *err) {
  const char *path = b->settings->line->texts[CLI_OPT_OUTPUT];
  if (path == NULL) return ARKE_OK;
  char *text = json_dumps(b->report, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
  if (text == NULL) return error_memory(err, STAGE);
  arke_status status = cli_replace_file(path, text, strlen(text), err);
  free(text);
  return status;
}

arke_status cli_bench_so_far(bench *b, arke_error *err) {
  arke_status status = b->settings->json ? ARKE_OK : cli_print(&b->text, err);
  strbuf_clear(&b->text);
  return status == ARKE_OK ? write_report(b, err) : status;
}

static arke_status report(bench *b, arke_error *err) {
  TRY(write_report(b, err));
  if (b->settings->json) {
    strbuf_clear(&b->text);
    TRY(cli_json_line(json_incref(b->report), &b->text, err));
  }
  return cli_print(&b->text, err);
}

arke_status cli_bench_run(cli_settings *s, arena *a, arke_error *err) {
  bench b = {.settings = s, .memory = a, .text = STRBUF_INIT};
  if (s->line->n_operands > 0)
    return cli_usage(err, "bench takes no file but with --workload; found %s",
                     cli_printable(a, s->line->operands[0]));
  b.target = s->tune.target != NULL ? s->tune.target : cli_default_target();
  TRY(read_problems(&b, err));
  TRY(cli_settings_cache(s, a, err));
  arke_status status = ARKE_OK;
  if (s->what == CLI_MEASURE_COMPILE)
    open_gpu_if_any(&b);
  else
    status = open_gpu(&b, err);
  if (status != ARKE_OK) goto done;
  json_t *clocks = b.dev == NULL ? json_null() : cli_clocks_json(b.info.index);
  b.report = json_pack("{s:s, s:o, s:s, s:o, s:o, s:o}", "what", s->line->texts[CLI_OPT_WHAT], "date",
                       cli_date_json(), "target", b.target->name, "host", cli_host_json(), "device",
                       b.dev == NULL ? json_null() : cli_machine_json(&b.info), "clocks_before", clocks);
  status = measure(&b, err);
  if (status == ARKE_OK) {
    json_object_set_new(b.report, "clocks_after",
                        b.dev == NULL ? json_null() : cli_clocks_json(b.info.index));
    status = report(&b, err);
  }
done:
  json_decref(b.report);
  strbuf_free(&b.text);
  if (b.dev != NULL) b.dev->ops->close(b.dev);
  return status;
}
