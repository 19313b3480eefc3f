/* The selftest's part that runs operators, each a few times. */
#include <signal.h>
#include <time.h>

#include "tuner/cli_operators.h"
#include "tuner/cli_output.h"
#include "tuner/cli_report.h"
#include "tuner/cli_selftest_parts.h"
#include "tuner/interrupts.h"

#define STAGE "selftest"

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
  cli_selftest *test;
  cli_operators count;
  cli_progress progress;
  struct timespec begin;
} operators_part;

static void keep_operators(operators_part *o, bool passed, double every_s) {
  const cli_operators *n = &o->count;
  cli_selftest_keep(o->test, "operators",
                    json_pack("{s:b, s:i, s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "passed", passed,
                              "operators", n->operators, "cut_by_budget", n->cut, "runs", (json_int_t)n->runs,
                              "right", (json_int_t)n->right, "wrong", (json_int_t)n->wrong, "refused",
                              (json_int_t)n->refused, "untaken", (json_int_t)n->untaken, "compared",
                              (json_int_t)n->compared, "faults", cli_json_text(strbuf_text(&n->faults))),
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
  keep_operators(o, o->count.wrong == 0, CLI_SELFTEST_SAVE_S);
  return signal_waits();
}

arke_status cli_selftest_operators(cli_selftest *t, arke_error *err) {
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
  cli_selftest_tell(t, "operators", passed, strbuf_text(&n->faults),
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
