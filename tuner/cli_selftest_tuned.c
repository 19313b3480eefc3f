/* Parts of the selftest that tune: a kernel that then goes through the runtime, and kernels with planted
 * faults.
 */
#include <string.h>

#include "tuner/cli_call.h"
#include "tuner/cli_output.h"
#include "tuner/cli_planted.h"
#include "tuner/cli_report.h"
#include "tuner/cli_selftest_parts.h"
#include "tuner/cli_tune.h"
#include "tuner/trial_runner.h"

#define STAGE "selftest"

static tune_options scratch_options(const cli_selftest *t, const char *cache_path) {
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
static arke_status through_runtime(const cli_selftest *t, const cli_problem *p, const char *cache_path,
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

arke_status cli_selftest_runtime(cli_selftest *t, const cli_problem *p, const char *name, arke_error *err) {
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
    cli_selftest_tell(
        t, name, true, "",
        "a tuned kernel through arke_open, arke_plan_create and arke_run: error %.3g, allowed %.3g",
        check.error, check.allowed);
  else
    cli_selftest_tell(t, name, false, "", "%s", failure.text);
  cli_selftest_keep(t, name,
                    json_pack("{s:b, s:o, s:f, s:f}", "passed", status == ARKE_OK, "error_text",
                              cli_json_text(failure.text), "error", check.error, "allowed", check.allowed),
                    0);
  arena_release(&a);
  return status == ARKE_ERR_INTERRUPTED || status == ARKE_ERR_MEMORY
             ? error_set(err, status, STAGE, "%s", failure.text)
             : ARKE_OK;
}

arke_status cli_selftest_planted(cli_selftest *t, const cli_problem *p, arke_error *err) {
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
    cli_selftest_tell(t, "planted", true, "",
                      "%d faulty kernels each cost one candidate (%s), and the sound one won",
                      CLI_FAULT_COUNT - 1, strbuf_text(&failed));
  else
    cli_selftest_tell(t, "planted", false, "", "%s%s; the winner is %s",
                      status == ARKE_OK ? "failed: " : failure.text, strbuf_text(&failed),
                      r.config_text == NULL ? "none" : r.config_text);
  cli_selftest_keep(t, "planted",
                    json_pack("{s:b, s:o, s:o}", "passed", as_expected, "failed",
                              cli_json_text(strbuf_text(&failed)), "kernels", list),
                    0);
  strbuf_free(&failed);
  arena_release(&a);
  return status == ARKE_ERR_INTERRUPTED || status == ARKE_ERR_MEMORY
             ? error_set(err, status, STAGE, "%s", failure.text)
             : ARKE_OK;
}
