/* Candidates a second through lowering and assembling, by the compile workers that tuning uses. */
#include <stdlib.h>
#include <time.h>
#include <uv.h>

#include "generator/assemble.h"
#include "tuner/cli_bench_parts.h"
#include "tuner/cli_machine.h"
#include "tuner/cli_output.h"
#include "tuner/cli_report.h"
#include "tuner/worker_pool.h"

#define STAGE "bench"

enum { DEFAULT_CANDIDATES = 400, TIMEOUT_S = 120 };

/* Candidates of one problem on their way through the pool. */
typedef struct compilation {
  const bench *bench;
  const cli_problem *problem;
  const tune_candidates *candidates;
  const char *bindings;
  tune_pool *pool;
  int64_t total, submitted, finished, failed;
  double lower_ms, assemble_ms; /* summed over workers */
  double begin_s;
  cli_progress progress;
  arke_status status;
  arke_error *err;
} compilation;

static double now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void submit_more(compilation *c);

static void finished(const tune_reply *reply, void *user) {
  compilation *c = user;
  c->finished++;
  bool well = reply->kind == TUNE_REPLY_MESSAGE &&
              tune_message_integer(reply->message->body, "status", -1) == ARKE_OK;
  if (well) {
    c->lower_ms += tune_message_number(reply->message->body, "lower_ms", 0);
    c->assemble_ms += tune_message_number(reply->message->body, "assemble_ms", 0);
  } else {
    c->failed++;
  }
  double elapsed = now_s() - c->begin_s;
  const tune_progress now = {.phase = TUNE_COMPILING,
                             .done = (int)c->finished,
                             .total = (int)c->total,
                             .elapsed_s = elapsed,
                             .left_s = elapsed * (double)(c->total - c->finished) / (double)c->finished};
  cli_progress_show(&now, &c->progress);
  submit_more(c);
}

/* Spread over the ranking, so that large and small kernels have their share. */
static arke_status submit(compilation *c, arke_error *err) {
  int64_t index = c->submitted * c->candidates->n / c->total;
  const tune_source *source = &c->candidates->sources[c->candidates->ranked[index].source];
  config point;
  strbuf text = STRBUF_INIT;
  tune_candidate_config(c->candidates, index, &point);
  config_print(source->space, &point, &text);
  tune_message m = {0};
  m.body = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:b}", "do", "compile", "op", c->problem->spec->text,
                     "bindings", c->bindings, "target", c->bench->target->name, "template",
                     source->template->name, "config", strbuf_text(&text), "keep_llvm_ir", 0);
  strbuf_free(&text);
  if (m.body == NULL) return error_memory(err, STAGE);
  arke_status status = tune_pool_submit(c->pool, &m, TIMEOUT_S, NULL, finished, c, err);
  tune_message_release(&m);
  if (status == ARKE_OK) c->submitted++;
  return status;
}

static void submit_more(compilation *c) {
  while (c->status == ARKE_OK && c->submitted < c->total && tune_pool_idle(c->pool) > 0)
    c->status = submit(c, c->err);
}

static json_t *compilation_json(const compilation *c, const char *title, double elapsed_s, int workers) {
  double n = (double)(c->finished - c->failed);
  return json_pack("{s:s, s:I, s:I, s:f, s:f, s:i, s:f, s:f}", "problem", title, "candidates",
                   (json_int_t)c->finished, "failed", (json_int_t)c->failed, "elapsed_s", elapsed_s,
                   "candidates_per_s", n / elapsed_s, "workers", workers, "lower_ms",
                   n > 0 ? c->lower_ms / n : 0, "assemble_ms", n > 0 ? c->assemble_ms / n : 0);
}

static arke_status compile_problem(bench *b, const cli_problem *p, int workers, json_t *list,
                                   arke_error *err) {
  tune_candidates candidates;
  strbuf bindings = STRBUF_INIT, title = STRBUF_INIT;
  compilation c = {.bench = b, .problem = p, .candidates = &candidates, .err = err};
  uv_loop_t loop;
  TRY(cli_candidates(&p->problem, b->target, NULL, &candidates, err));
  ir_problem_print_bindings(&p->problem, &bindings);
  cli_problem_title(p, &title);
  c.bindings = strbuf_text(&bindings);
  c.total = b->settings->tune.trials > 0 ? b->settings->tune.trials : DEFAULT_CANDIDATES;
  if (c.total > candidates.n) c.total = candidates.n;
  if (uv_loop_init(&loop) != 0) {
    c.status = error_memory(err, STAGE);
    goto done;
  }
  cli_progress_start(&c.progress, "");
  c.status = tune_pool_open(&loop, "compile", workers, &c.pool, err);
  if (c.status == ARKE_OK) {
    c.begin_s = now_s();
    submit_more(&c);
    while (c.status == ARKE_OK && c.finished < c.total) uv_run(&loop, UV_RUN_ONCE);
  }
  double elapsed = now_s() - c.begin_s;
  tune_pool_close(c.pool);
  cli_progress_end(&c.progress);
  uv_loop_close(&loop);
  if (c.status == ARKE_OK) {
    strbuf_addf(&b->text, "%s: %lld candidates in %.2f s with %d workers: %.1f a second, %lld failed\n",
                strbuf_text(&title), (long long)c.finished, elapsed, workers,
                (double)(c.finished - c.failed) / elapsed, (long long)c.failed);
    json_array_append_new(list, compilation_json(&c, strbuf_text(&title), elapsed, workers));
  }
done:
  tune_candidates_release(&candidates);
  strbuf_free(&bindings);
  strbuf_free(&title);
  return c.status;
}

arke_status cli_bench_compile(bench *b, arke_error *err) {
  static const char *const assemblers[] = {
      [ASSEMBLER_NONE] = "none", [ASSEMBLER_NVJITLINK] = "nvJitLink", [ASSEMBLER_PTXAS] = "ptxas"};
  int workers = b->settings->tune.jobs > 0 ? b->settings->tune.jobs : cli_usable_cores();
  json_t *list = json_array();
  const char *assembler = assemblers[assembler_find()];
  json_object_set_new(
      b->report, "method",
      json_string("configurations at equal steps through the model's ranking, lowered and assembled by "
                  "worker processes; time from the first request to the last answer, starting the workers "
                  "included"));
  json_object_set_new(b->report, "assembler", json_string(assembler));
  json_object_set_new(b->report, "problems", list);
  strbuf_addf(&b->text, "assembler: %s\n", assembler);
  for (int i = 0; i < b->n_problems; i++) TRY(compile_problem(b, &b->problems[i], workers, list, err));
  return ARKE_OK;
}
