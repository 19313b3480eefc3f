#include "tuner/cli_selftest.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/text.h"
#include "tuner/cli_call.h"
#include "tuner/cli_fidelity.h"
#include "tuner/cli_live_report.h"
#include "tuner/cli_machine.h"
#include "tuner/cli_operators.h"
#include "tuner/cli_output.h"
#include "tuner/cli_planted.h"
#include "tuner/cli_report.h"
#include "tuner/cli_scratch.h"
#include "tuner/cli_tune.h"
#include "tuner/interrupts.h"
#include "tuner/trial_runner.h"

#define STAGE "selftest"

/* The device under test, and where results are gathered. */
typedef struct selftest {
  const cli_settings *settings;
  arke_device_kind kind;
  const target *target;
  device_info info;
  cli_scratch scratch; /* for cache files */
  int failed;          /* parts that failed */
  cli_live_report report;
} selftest;

/* How often a part that is under way writes the report's file. */
#define SAVE_EVERY_S 2.0

/* One part's outcome, for both forms of the report; `more` stands below it. */
static void tell(selftest *t, const char *part, bool passed, const char *more, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
static void tell(selftest *t, const char *part, bool passed, const char *more, const char *format, ...) {
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

/* Puts what a part found into the report, and that into its file. */
static void keep(selftest *t, const char *part, json_t *found, double every_s) {
  json_object_set_new(t->report.root, part, found);
  cli_live_report_save(&t->report, every_s);
}

/* --- fidelity ---------------------------------------------------------------------------------------- */

/* Ragged in every axis; the first two have more tiles than the largest GPU has SMs, for the persistent ones
 * and those that fill its last wave, the last more k-steps than stages. */
static const char *const full_shapes[] = {"2056x1544x72", "1032x3080x136", "520x776x640", "264x648x1032"};
static const char *const short_shapes[] = {"200x136x200"};

typedef struct fidelity_part {
  selftest *test;
  cli_fidelity_count count;
  json_t *runs;
} fidelity_part;

static void keep_fidelity(fidelity_part *f, double every_s) {
  const cli_fidelity_count *n = &f->count;
  keep(f->test, "fidelity",
       json_pack("{s:s, s:i, s:i, s:i, s:i, s:I, s:I, s:O}", "compared",
                 f->test->kind == ARKE_DEVICE_CUDA ? "GPU with emulator" : "emulator under two seeds", "runs",
                 n->runs, "identical", n->identical, "differing", n->differing, "failed", n->failed,
                 "elements", (json_int_t)n->elements, "differing_elements", (json_int_t)n->differing_elements,
                 "list", f->runs),
       every_s);
}

static void one_compared(void *user) {
  keep_fidelity(user, SAVE_EVERY_S);
}

static arke_status compare_kernels(selftest *t, fidelity_part *f, arke_error *err) {
  bool cuda = t->kind == ARKE_DEVICE_CUDA;
  const char *const *shapes = cuda ? full_shapes : short_shapes;
  int n_shapes = (int)(cuda ? COUNT_OF(full_shapes) : COUNT_OF(short_shapes));
  dtype type = t->settings->type, other = type == DTYPE_BF16 ? DTYPE_F16 : type;
  const cli_fidelity_plan plans[] = {{"matmul", "gemm", type, n_shapes, shapes, cuda ? 20 : 2},
                                     {"linear", "gemm", other, n_shapes, shapes, cuda ? 10 : 2}};
  const cli_fidelity_options options = {.target = t->target,
                                        .kind = t->kind,
                                        .index = t->settings->tune.device_index,
                                        .seed = t->settings->tune.seed,
                                        .each = one_compared,
                                        .user = f,
                                        .runs = f->runs,
                                        .count = &f->count};
  return cli_fidelity_run(plans, (int)COUNT_OF(plans), &options, err);
}

static arke_status test_fidelity(selftest *t, arke_error *err) {
  fidelity_part f = {.test = t, .runs = json_array()};
  const cli_fidelity_count *n = &f.count;
  arke_status status = compare_kernels(t, &f, err);
  keep_fidelity(&f, 0);
  json_decref(f.runs);
  if (status != ARKE_OK && status != ARKE_ERR_INTERRUPTED) return status;
  bool whole = status == ARKE_OK;
  tell(t, "fidelity", n->failed == 0 && n->differing == 0, "",
       "%d kernels%s, %s: %d equal bit for bit, %d not (%lld of %lld elements), %d failed%s", n->runs,
       whole ? "" : ", then interrupted",
       t->kind == ARKE_DEVICE_CUDA ? "GPU and emulator" : "emulator under two seeds", n->identical,
       n->differing, (long long)n->differing_elements, (long long)n->elements, n->failed,
       n->runs > n->failed ? "; all others within tolerance of the fp64 reference" : "");
  return status;
}

/* --- the runtime ------------------------------------------------------------------------------------- */

static tune_options scratch_options(const selftest *t, const char *cache_path) {
  tune_options o = t->settings->tune;
  o.device = t->kind == ARKE_DEVICE_CUDA ? TUNE_DEVICE_CUDA : TUNE_DEVICE_EMULATOR;
  o.target = t->target;
  o.cache_path = cache_path;
  o.bucket = "";
  o.effort = TUNE_EXHAUSTIVE;
  o.budget_s = 0;
  return o;
}

/* Runs the plan on the runner's tensors and checks what came out. */
static arke_status run_plan(tune_runner *r, const arke_plan *plan, tune_check *check, arke_error *err) {
  cli_call call;
  device_ptr workspace = 0;
  size_t bytes = arke_workspace_bytes(plan);
  cli_call_bind(&call, &r->tensors, 0, &r->info);
  arke_status status =
      bytes == 0 ? ARKE_OK : r->dev->ops->mem_alloc(r->dev, bytes, "workspace", &workspace, err);
  if (status == ARKE_OK) status = tune_tensors_poison(&r->tensors, err);
  if (status == ARKE_OK)
    status = arke_run(plan, call.pointers, call.n, NULL, (void *)(uintptr_t)workspace, err);
  if (status == ARKE_OK) status = r->dev->ops->synchronize(r->dev, err);
  if (status == ARKE_OK) status = tune_tensors_check(&r->tensors, err);
  if (status == ARKE_OK) status = tune_tensors_fetch(&r->tensors, err);
  if (status == ARKE_OK) status = tune_expected_check(&r->expected, &r->tensors, check, err);
  if (workspace != 0) r->dev->ops->mem_free(r->dev, workspace);
  return status;
}

/* Opens the cache as an inference process does, plans and runs. */
static arke_status through_runtime(const selftest *t, const cli_problem *p, const char *cache_path,
                                   tune_check *check, arke_error *err) {
  tune_runner runner = {0};
  device *dev = NULL;
  arke_context *ctx = NULL;
  arke_plan *plan = NULL;
  strbuf bindings = STRBUF_INIT;
  const arke_options options = {.cache_path = cache_path,
                                .device = t->kind,
                                .device_index = t->settings->tune.device_index,
                                .strict = 1,
                                .allow_modelled = 1};
  arke_status status = t->kind == ARKE_DEVICE_CUDA
                           ? device_open_cuda(t->settings->tune.device_index, &dev, err)
                           : device_open_emulator(t->target->name, t->settings->tune.seed, &dev, err);
  if (status == ARKE_OK) status = tune_runner_open(&runner, dev, err);
  ir_problem_print_bindings(&p->problem, &bindings);
  const tune_runner_problem what = {.op_text = p->spec->text,
                                    .bindings = strbuf_text(&bindings),
                                    .seed = t->settings->tune.seed,
                                    .reference = {.samples = 1024, .limit_s = 5}};
  if (status == ARKE_OK) status = tune_runner_prepare(&runner, &what, err);
  if (status == ARKE_OK) status = arke_open(&options, &ctx, err);
  if (status == ARKE_OK) {
    cli_call call;
    cli_call_bind(&call, &runner.tensors, 0, &runner.info);
    status = arke_plan_create(ctx, p->spec->name, call.pointers, call.n, NULL, 0, &plan, err);
  }
  if (status == ARKE_OK) status = run_plan(&runner, plan, check, err);
  if (plan != NULL) arke_plan_destroy(plan);
  if (ctx != NULL) arke_close(ctx);
  tune_runner_close(&runner);
  strbuf_free(&bindings);
  return status;
}

static arke_status test_runtime(selftest *t, const cli_problem *p, const char *name, arke_error *err) {
  arena a = ARENA_INIT;
  tune_result r = {0};
  tune_check check = {0};
  arke_error failure = ARKE_ERROR_INIT;
  tune_options options = scratch_options(t, cli_scratch_path(&t->scratch, &a, "runtime.arke"));
  options.trials = 1;
  options.effort = TUNE_QUICK;
  arke_status status = cli_tune_once(&options, &p->problem, "", &a, &r, &failure);
  if (status == ARKE_OK) status = through_runtime(t, p, options.cache_path, &check, &failure);
  if (status == ARKE_OK)
    tell(t, name, true, "",
         "a tuned kernel through arke_open, arke_plan_create and arke_run: error %.3g, allowed %.3g",
         check.error, check.allowed);
  else
    tell(t, name, false, "", "%s", failure.text);
  keep(t, name,
       json_pack("{s:b, s:o, s:f, s:f}", "passed", status == ARKE_OK, "error_text",
                 cli_json_text(failure.text), "error", check.error, "allowed", check.allowed),
       0);
  arena_release(&a);
  return status == ARKE_ERR_INTERRUPTED || status == ARKE_ERR_MEMORY
             ? error_set(err, status, STAGE, "%s", failure.text)
             : ARKE_OK;
}

/* --- planted faults ---------------------------------------------------------------------------------- */

static arke_status test_planted(selftest *t, const cli_problem *p, arke_error *err) {
  enum { RUN_TIMEOUT_S = 5 };
  arena a = ARENA_INIT;
  tune_result r = {0};
  arke_error failure = ARKE_ERROR_INIT;
  tune_options options = scratch_options(t, cli_scratch_path(&t->scratch, &a, "planted.arke"));
  options.templates = &cli_planted_templates;
  options.run_timeout_s = RUN_TIMEOUT_S;
  arke_status status = cli_tune_once(&options, &p->problem, "", &a, &r, &failure);
  json_t *list = json_array();
  int expected[CACHE_OUTCOME_COUNT] = {0};
  for (int i = CLI_FAULT_NONE + 1; i < CLI_FAULT_COUNT; i++) {
    expected[cli_fault_table[i].outcome]++;
    json_array_append_new(list, json_pack("{s:s, s:s}", "kernel", cli_fault_table[i].meaning, "expected",
                                          cache_outcome_name(cli_fault_table[i].outcome)));
  }
  bool as_expected = status == ARKE_OK;
  for (int i = 0; i < CACHE_OUTCOME_COUNT && as_expected; i++)
    if (cli_outcome_failed((cache_outcome)i)) as_expected = r.trials.failed[i] == expected[i];
  as_expected = as_expected && strcmp(r.config_text, "FAULT=0") == 0;
  strbuf failed = STRBUF_INIT;
  cli_failed_print(r.trials.failed, &failed);
  if (as_expected)
    tell(t, "planted", true, "", "%d faulty kernels each cost one candidate (%s), and the sound one won",
         CLI_FAULT_COUNT - 1, strbuf_text(&failed));
  else
    tell(t, "planted", false, "", "%s%s; the winner is %s", status == ARKE_OK ? "failed: " : failure.text,
         strbuf_text(&failed), r.config_text == NULL ? "none" : r.config_text);
  keep(t, "planted",
       json_pack("{s:b, s:o, s:o}", "passed", as_expected, "failed", cli_json_text(strbuf_text(&failed)),
                 "kernels", list),
       0);
  strbuf_free(&failed);
  arena_release(&a);
  return status == ARKE_ERR_INTERRUPTED || status == ARKE_ERR_MEMORY
             ? error_set(err, status, STAGE, "%s", failure.text)
             : ARKE_OK;
}

/* --- operators --------------------------------------------------------------------------------------- */

enum { SHORT_PARTS = 24 }; /* without a GPU every so many-th operator; the project's tests run them all */

static bool signal_waits(void) {
  sigset_t heeded, pending;
  bool waits = false;
  interrupts_fill(&heeded);
  for (int i = 0; i < INTERRUPTS_COUNT && sigpending(&pending) == 0; i++)
    waits = waits || (sigismember(&heeded, interrupts_list[i]) && sigismember(&pending, interrupts_list[i]));
  return waits;
}

typedef struct operators_part {
  selftest *test;
  cli_operators count;
  cli_progress progress;
  struct timespec begin;
} operators_part;

static void keep_operators(operators_part *o, bool passed, double every_s) {
  const cli_operators *n = &o->count;
  keep(o->test, "operators",
       json_pack("{s:b, s:i, s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "passed", passed, "operators",
                 n->operators, "cut_by_budget", n->cut, "runs", (json_int_t)n->runs, "right",
                 (json_int_t)n->right, "wrong", (json_int_t)n->wrong, "refused", (json_int_t)n->refused,
                 "untaken", (json_int_t)n->untaken, "compared", (json_int_t)n->compared, "faults",
                 cli_json_text(strbuf_text(&n->faults))),
       every_s);
}

static void show_operators(operators_part *o) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  const tune_progress now = {.phase = TUNE_VERIFYING,
                             .done = (int)o->count.runs,
                             .total = (int)o->count.runs,
                             .elapsed_s = (double)(t.tv_sec - o->begin.tv_sec) +
                                          1e-9 * (double)(t.tv_nsec - o->begin.tv_nsec),
                             .left_s = -1};
  cli_progress_show(&now, &o->progress);
}

static bool one_run(void *user) {
  operators_part *o = user;
  show_operators(o);
  keep_operators(o, o->count.wrong == 0, SAVE_EVERY_S);
  return signal_waits();
}

static arke_status test_operators(selftest *t, arke_error *err) {
  bool cuda = t->kind == ARKE_DEVICE_CUDA;
  operators_part o = {.test = t, .count = {.faults = STRBUF_INIT, .stop = one_run, .user = &o}};
  cli_operators *n = &o.count;
  operator_sweep what = {.target = t->target,
                         .sm_count = t->info.sm_count,
                         .seed = t->settings->tune.seed,
                         .parts = cuda ? 1 : SHORT_PARTS,
                         .configurations = cuda ? 2 : 0,
                         .sample = 4096};
  arke_error failure = ARKE_ERROR_INIT;
  arke_status status =
      cuda ? device_open_cuda(t->settings->tune.device_index, &what.dev, &failure)
           : device_open_emulator(t->target->name, t->settings->tune.seed, &what.dev, &failure);
  if (status == ARKE_OK) {
    clock_gettime(CLOCK_MONOTONIC, &o.begin);
    cli_progress_start(&o.progress, "operators: ");
    status = cli_operators_run(&what, t->settings->tune.budget_s, n, &failure);
    cli_progress_end(&o.progress);
    what.dev->ops->close(what.dev);
  }
  bool passed = status == ARKE_OK && n->wrong == 0;
  strbuf cut = STRBUF_INIT;
  if (n->cut > 0)
    strbuf_addf(&cut, "; %d of %d operators had more runs than the budget", n->cut, n->operators);
  tell(t, "operators", passed, strbuf_text(&n->faults),
       "%lld runs: %lld right, %lld wrong, %lld refused, %lld that no template takes%s%s%s",
       (long long)n->runs, (long long)n->right, (long long)n->wrong, (long long)n->refused,
       (long long)n->untaken, strbuf_text(&cut), status == ARKE_OK ? "" : "; ", failure.text);
  keep_operators(&o, passed, 0);
  strbuf_free(&cut);
  strbuf_free(&n->faults);
  return status == ARKE_ERR_INTERRUPTED || status == ARKE_ERR_MEMORY
             ? error_set(err, status, STAGE, "%s", failure.text)
             : ARKE_OK;
}

/* --- the whole --------------------------------------------------------------------------------------- */

static arke_status find_device(selftest *t, arke_error *err) {
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

static arke_status run_parts(selftest *t, arena *a, arke_error *err) {
  cli_problem p;
  TRY(cli_problem_make(a, "matmul", t->kind == ARKE_DEVICE_CUDA ? "1000x1024x1032" : "136x200x136",
                       dtype_name(t->settings->type), &p, err));
  TRY(test_fidelity(t, err));
  TRY(check_interrupt("before the runtime's part", err));
  TRY(test_runtime(t, &p, "runtime", err));
  TRY(check_interrupt("before the operators", err));
  TRY(test_operators(t, err));
  TRY(check_interrupt("before the planted faults", err));
  TRY(test_planted(t, &p, err));
  TRY(check_interrupt("before the last part", err));
  TRY(test_runtime(t, &p, "afterwards", err)); /* the device must still be sound */
  return check_interrupt("at the end", err);
}

arke_status cli_selftest_run(cli_settings *s, arena *a, arke_error *err) {
  selftest t = {.settings = s,
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
