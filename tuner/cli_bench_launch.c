/* What the runtime costs the host: arke_run beyond the driver's own launch, and opening a large cache and
 * planning from it. */
#include <stdlib.h>
#include <time.h>

#include "runtime/overhead.h"
#include "tuner/cli_bench_parts.h"
#include "tuner/cli_contest.h"
#include "tuner/cli_report.h"
#include "tuner/cli_scratch.h"
#include "tuner/statistics.h"

#define STAGE "bench"

enum { CALLS = 200, ROUNDS = 200, ENTRIES = 1000, OPENINGS = 30 };

static double now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Copies the problem's entry into a new cache, and with it ENTRIES - 1 others of other sizes. */
static arke_status fill_cache(bench *b, const cli_problem *p, const char *path, cache_entry *e,
                              arke_error *err) {
  cache *from = NULL, *to = NULL;
  cache_id environment, problem;
  strbuf bindings = STRBUF_INIT;
  bool published;
  ir_problem_print_bindings(&p->problem, &bindings);
  arke_status status = cache_open(b->settings->tune.cache_path, CACHE_READ, &from, err);
  if (status == ARKE_OK)
    status = cache_find_entry(from, p->spec->name, strbuf_text(&bindings), b->target->name, "", false,
                              b->memory, e, err);
  if (status == ARKE_OK) status = cache_load_kernel(from, b->memory, e, err);
  if (status == ARKE_OK) status = cache_open(path, CACHE_WRITE, &to, err);
  if (status == ARKE_OK) status = cache_environment_id(to, &e->environment, &environment, err);
  for (int i = 0; i < ENTRIES && status == ARKE_OK; i++) {
    ir_problem other = p->problem;
    cache_problem row = e->problem;
    other.sizes[0] += 8 * i; /* the first is the problem itself */
    strbuf_clear(&bindings);
    ir_problem_print_bindings(&other, &bindings);
    row.bindings = strbuf_text(&bindings);
    row.bucket = "";
    status = cache_problem_id(to, &row, &problem, err);
    if (status == ARKE_OK)
      status = cache_put_winner(to, problem, environment, &e->kernel, &e->winner, &published, err);
  }
  if (to != NULL) cache_close(to);
  if (from != NULL) cache_close(from);
  strbuf_free(&bindings);
  return status;
}

/* Nanoseconds of arke_open and the first arke_plan_create, module load included. */
static arke_status time_opening(const bench *b, const cli_problem *p, const tune_tensors *tensors,
                                const char *path, double *ns, arke_error *err) {
  cli_call call;
  arke_context *ctx = NULL;
  arke_plan *plan = NULL;
  const arke_options options = {
      .cache_path = path, .device = ARKE_DEVICE_CUDA, .device_index = b->info.index, .strict = 1};
  cli_call_bind(&call, tensors, 0, &b->info);
  double begin = now_ns();
  arke_status status = arke_open(&options, &ctx, err);
  if (status == ARKE_OK)
    status = arke_plan_create(ctx, p->spec->name, call.pointers, call.n, NULL, 0, &plan, err);
  *ns = now_ns() - begin;
  if (plan != NULL) arke_plan_destroy(plan);
  if (ctx != NULL) arke_close(ctx);
  return status;
}

/* Nanoseconds of loading the same image alone. */
static arke_status time_module(const bench *b, const cache_kernel *k, double *ns, arke_error *err) {
  device_module *module;
  double begin = now_ns();
  TRY(b->dev->ops->module_load(b->dev, k->cubin != NULL ? k->cubin : (const void *)k->ptx,
                               k->cubin != NULL ? k->cubin_bytes : k->ptx_bytes, &module, err));
  *ns = now_ns() - begin;
  b->dev->ops->module_unload(b->dev, module);
  return ARKE_OK;
}

static arke_status measure_opening(bench *b, const cli_problem *p, const tune_tensors *tensors,
                                   cache_time *opening, cache_time *module, arke_error *err) {
  double openings[OPENINGS], modules[OPENINGS];
  cli_scratch scratch;
  cache_entry e = {0};
  TRY(cli_scratch_open(&scratch, err));
  const char *path = cli_scratch_path(&scratch, b->memory, "entries.arke");
  arke_status status = fill_cache(b, p, path, &e, err);
  for (int i = 0; i < OPENINGS && status == ARKE_OK; i++) {
    status = time_opening(b, p, tensors, path, &openings[i], err);
    if (status == ARKE_OK) status = time_module(b, &e.kernel, &modules[i], err);
  }
  if (status == ARKE_OK) {
    *opening = tune_summary(openings, OPENINGS);
    *module = tune_summary(modules, OPENINGS);
  }
  cli_scratch_remove(&scratch);
  return status;
}

static arke_status measure_problem(bench *b, const cli_problem *p, json_t *list, arke_error *err) {
  tune_tensors tensors = {0};
  cli_tuned tuned = {0};
  tune_meter meter = {0};
  runtime_overhead o = {0};
  cache_time opening = {0}, module = {0};
  strbuf title = STRBUF_INIT;
  cli_problem_title(p, &title);
  arke_status status = cli_bench_tensors(b, p, &tensors, err);
  if (status == ARKE_OK) status = cli_bench_tuned(b, p, &tensors, &tuned, err);
  if (status == ARKE_OK)
    status = tune_meter_open(b->dev, b->settings->tune.seed, &meter, err); /* for its stream */
  if (status == ARKE_OK)
    status = runtime_launch_overhead_ns(tuned.plan, tuned.calls[0].pointers, tuned.calls[0].n, meter.stream,
                                        (void *)(uintptr_t)tuned.workspace, CALLS, ROUNDS, &o, err);
  if (status == ARKE_OK) status = measure_opening(b, p, &tensors, &opening, &module, err);
  if (status == ARKE_OK) {
    json_array_append_new(
        list, json_pack("{s:s, s:s, s:f, s:f, s:f, s:i, s:i, s:i, s:o, s:o, s:f}", "problem",
                        strbuf_text(&title), "config", tuned.info.config, "arke_run_ns", o.run_ns,
                        "bare_launch_ns", o.bare_ns, "overhead_ns", o.overhead_ns, "rounds", o.rounds,
                        "calls", o.calls, "cache_entries", ENTRIES, "open_and_plan_ns",
                        cli_contest_time_json(&opening), "module_load_ns", cli_contest_time_json(&module),
                        "open_and_plan_without_load_ns", opening.median_ns - module.median_ns));
    strbuf_addf(
        &b->text,
        "%s: arke_run %.0f ns, bare launch %.0f ns, overhead %.0f ns; arke_open and arke_plan_create with %d "
        "entries %.2f ms, of which loading the module %.2f ms\n",
        strbuf_text(&title), o.run_ns, o.bare_ns, o.overhead_ns, ENTRIES, opening.median_ns * 1e-6,
        module.median_ns * 1e-6);
  }
  tune_meter_close(&meter);
  cli_tuned_close(&tuned);
  if (tensors.dev != NULL) tune_tensors_release(&tensors);
  strbuf_free(&title);
  return status;
}

arke_status cli_bench_launch(bench *b, arke_error *err) {
  json_t *list = json_array();
  json_object_set_new(
      b->report, "method",
      json_string("host time of arke_run and of cuLaunchKernelEx of the same kernel, in alternating "
                  "batches, medians over the rounds; arke_open and the first arke_plan_create from a cache "
                  "of many entries, with the device's context already there, beside loading the module "
                  "alone"));
  json_object_set_new(b->report, "problems", list);
  for (int i = 0; i < b->n_problems; i++) TRY(measure_problem(b, &b->problems[i], list, err));
  return ARKE_OK;
}
