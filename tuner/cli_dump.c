#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tuner/cli_output.h"
#include "tuner/cli_report.h"
#include "tuner/cli_tune.h"

static arke_status dump_file(const char *directory, const char *name, const void *bytes, size_t n,
                             arke_error *err) {
  if (bytes == NULL || n == 0) return ARKE_OK;
  strbuf path = STRBUF_INIT;
  strbuf_addf(&path, "%s/%s", directory, name);
  arke_status status =
      strbuf_failed(&path) ? error_memory(err, "dump") : cli_write_file(strbuf_text(&path), bytes, n, err);
  strbuf_free(&path);
  return status;
}

static arke_status dump_text(const char *directory, const char *name, const char *text, arke_error *err) {
  return dump_file(directory, name, text, text == NULL ? 0 : strlen(text), err);
}

static arke_status dump_strbuf(const char *directory, const char *name, strbuf *text, arke_error *err) {
  arke_status status =
      strbuf_failed(text) ? error_memory(err, "dump") : dump_text(directory, name, strbuf_text(text), err);
  strbuf_free(text);
  return status;
}

/* The result as --json gives it, with what only the trial knows. */
static json_t *trial_json(const cli_problem *p, const tune_result *r) {
  strbuf title = STRBUF_INIT;
  cli_problem_title(p, &title);
  json_t *trial = cli_result_json(r);
  json_object_set_new(trial, "problem", cli_json_text(strbuf_text(&title)));
  json_object_set_new(trial, "bucket", cli_json_text(p->bucket));
  json_object_set_new(trial, "policy", cli_json_text(r->policy == NULL ? "" : r->policy));
  /* What the cache gave was not compared in this run. */
  bool compared = r->tolerance > 0;
  json_object_set_new(trial, "tolerance", compared ? json_real(r->tolerance) : json_null());
  json_object_set_new(trial, "worst_error", compared ? json_real(r->worst_error) : json_null());
  json_object_set_new(
      trial, "environment",
      json_pack("{s:o, s:o, s:o, s:o, s:i, s:i, s:i}", "device", cli_json_text(r->environment.device),
                "driver", cli_json_text(r->environment.driver), "llvm", cli_json_text(r->environment.llvm),
                "generator", cli_json_text(r->environment.generator), "sm_count", r->environment.sm_count,
                "clock_khz", r->environment.clock_khz, "memory_clock_khz", r->environment.memory_clock_khz));
  strbuf_free(&title);
  return trial;
}

arke_status cli_dump_prepare(const char *directory, arena *a, arke_error *err) {
  const char *shown = cli_printable(a, directory);
  if (mkdir(directory, 0777) != 0 && errno != EEXIST)
    return error_set(err, ARKE_ERR_IO, "dump", "--dump %s: cannot make the directory: %s", shown,
                     strerror(errno));
  char *probe = arena_printf(a, "%s/.arke-XXXXXX", directory);
  if (probe == NULL) return error_memory(err, "dump");
  int file = mkstemp(probe);
  if (file < 0)
    return error_set(err, ARKE_ERR_IO, "dump", "--dump %s: cannot write into it: %s", shown, strerror(errno));
  close(file);
  unlink(probe);
  return ARKE_OK;
}

arke_status cli_dump(const char *directory, const cli_problem *p, const tune_result *r, arke_error *err) {
  strbuf notation = STRBUF_INIT, trial = STRBUF_INIT;
  ir_op_print(p->problem.op, &notation);
  strbuf_add(&notation, "\n");
  TRY(dump_strbuf(directory, "operator.txt", &notation, err));
  TRY(dump_text(directory, "kernel.ll", r->llvm_ir, err));
  TRY(dump_text(directory, "kernel.ptx", r->ptx, err));
  TRY(dump_file(directory, "kernel.cubin", r->cubin, r->cubin_bytes, err));
  TRY(dump_text(directory, "recipe.json", r->recipe_json, err));
  TRY(cli_json_line(trial_json(p, r), &trial, err));
  return dump_strbuf(directory, "trial.json", &trial, err);
}
