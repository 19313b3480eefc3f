/* arke-tune selftest: the device that is tested, the parts one after the other, and the report. */
#include "tuner/cli_selftest.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/text.h"
#include "tuner/cli_machine.h"
#include "tuner/cli_output.h"
#include "tuner/cli_selftest_parts.h"
#include "tuner/interrupts.h"

#define STAGE "selftest"

void cli_selftest_tell(cli_selftest *t, const char *part, bool passed, const char *more, const char *format,
                       ...) {
  va_list args;
  strbuf line = STRBUF_INIT;
  strbuf_addf(&line, "%-10s %-6s ", part, passed ? "passed" : "FAILED");
  va_start(args, format);
  strbuf_vaddf(&line, format, args);
  va_end(args);
  strbuf_addf(&line, "\n%s", more);
  cli_live_report_print(&t->report, &line);
  strbuf_free(&line);
  t->failed += !passed;
}

void cli_selftest_keep(cli_selftest *t, const char *part, json_t *found, double every_s) {
  json_object_set_new(t->report.root, part, found);
  cli_live_report_save(&t->report, every_s);
}

static arke_status find_device(cli_selftest *t, arke_error *err) {
  const tune_options *o = &t->settings->tune;
  if (o->device == TUNE_DEVICE_MODEL)
    return cli_usage(err, "--device model: selftest runs kernels; accepted: auto, cuda[:i] or emulator");
  device *dev = NULL;
  arke_status status = ARKE_ERR_DEVICE;
  if (o->device != TUNE_DEVICE_EMULATOR) {
    status = device_open_cuda(o->device_index, &dev, o->device == TUNE_DEVICE_CUDA ? err : NULL);
    if (status != ARKE_OK && o->device == TUNE_DEVICE_CUDA) return status;
  }
  if (status == ARKE_OK) {
    status = dev->ops->info(dev, &t->info, err);
    dev->ops->close(dev);
    TRY(status);
    t->kind = ARKE_DEVICE_CUDA;
    t->target = o->target != NULL ? o->target : target_for_cc(t->info.cc_major, t->info.cc_minor);
    if (t->target == NULL)
      return error_set(err, ARKE_ERR_UNSUPPORTED, STAGE, "no target for %s (compute capability %d.%d)",
                       t->info.name, t->info.cc_major, t->info.cc_minor);
    return ARKE_OK;
  }
  t->kind = ARKE_DEVICE_EMULATOR;
  t->target = o->target != NULL ? o->target : cli_default_target();
  TRY(device_open_emulator(t->target->name, o->seed, &dev, err));
  status = dev->ops->info(dev, &t->info, err);
  dev->ops->close(dev);
  return status;
}

/* SIGINT and SIGTERM are held back over the whole selftest, so that none falls between two parts and ends it
 * without a report. Takes one that came. */
static arke_status check_interrupt(const char *before, arke_error *err) {
  const struct timespec now = {0, 0};
  sigset_t signals;
  interrupts_fill(&signals);
  if (sigtimedwait(&signals, NULL, &now) <= 0) return ARKE_OK;
  return error_set(err, ARKE_ERR_INTERRUPTED, STAGE, "interrupted %s", before);
}

static arke_status run_parts(cli_selftest *t, arena *a, arke_error *err) {
  cli_problem p;
  TRY(cli_problem_make(a, "matmul", t->kind == ARKE_DEVICE_CUDA ? "1000x1024x1032" : "136x200x136",
                       dtype_name(t->settings->type), &p, err));
  TRY(cli_selftest_fidelity(t, err));
  TRY(check_interrupt("before the runtime's part", err));
  TRY(cli_selftest_runtime(t, &p, "runtime", err));
  TRY(check_interrupt("before the operators", err));
  TRY(cli_selftest_operators(t, err));
  TRY(check_interrupt("before the planted faults", err));
  TRY(cli_selftest_planted(t, &p, err));
  TRY(check_interrupt("before the last part", err));
  TRY(cli_selftest_runtime(t, &p, "afterwards", err)); /* the device must still be sound */
  return check_interrupt("at the end", err);
}

arke_status cli_selftest_run(cli_settings *s, arena *a, arke_error *err) {
  cli_selftest t = {
      .settings = s,
      .report = {.path = s->line->texts[CLI_OPT_OUTPUT], .json = s->json, .err = ARKE_ERROR_INIT}};
  if (s->line->n_operands > 0)
    return cli_usage(err, "selftest takes no file; found %s", cli_printable(a, s->line->operands[0]));
  TRY(find_device(&t, err));
  TRY(cli_scratch_open(&t.scratch, err));
  sigset_t signals, before;
  interrupts_fill(&signals);
  pthread_sigmask(SIG_BLOCK, &signals, &before);
  t.report.root =
      json_pack("{s:s, s:o, s:o, s:s, s:o, s:o, s:b}", "what", "selftest", "date", cli_date_json(), "device",
                cli_machine_json(&t.info), "target", t.target->name, "host", cli_host_json(), "clocks_before",
                t.kind == ARKE_DEVICE_CUDA ? cli_clocks_json(t.info.index) : json_null(), "interrupted",
                true); /* until it has ended: also where something kills it */
  strbuf head = STRBUF_INIT;
  strbuf_addf(&head, "selftest on %s, target %s\n", t.info.name, t.target->name);
  cli_live_report_print(&t.report, &head);
  strbuf_free(&head);
  arke_status status = run_parts(&t, a, err);
  cli_scratch_remove(&t.scratch);
  if (status == ARKE_OK || status == ARKE_ERR_INTERRUPTED) { /* interrupted: the parts that there are */
    json_object_set_new(t.report.root, "clocks_after",
                        t.kind == ARKE_DEVICE_CUDA ? cli_clocks_json(t.info.index) : json_null());
    json_object_set_new(t.report.root, "interrupted", json_boolean(status == ARKE_ERR_INTERRUPTED));
    arke_status written = cli_live_report_end(&t.report, status == ARKE_OK ? err : NULL);
    if (status == ARKE_OK) status = written;
  }
  if (status == ARKE_OK && t.failed > 0)
    status = error_set(err, ARKE_ERR_MISMATCH, STAGE, "%d %s of the selftest failed", t.failed,
                       text_plural(t.failed, "part", "parts"));
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  json_decref(t.report.root);
  return status;
}
