#include <string.h>

#include "base/text.h"
#include "tuner/cli_known.h"
#include "tuner/cli_list.h"
#include "tuner/cli_output.h"
#include "tuner/cli_report.h"
#include "tuner/cli_tune.h"
#include "tuner/cli_workload.h"
#include "tuner/speed_of_light.h"
#include "tuner/tune_session.h"

/* A sweep under way. */
typedef struct sweep {
  cli_settings *settings;
  cli_workload workload;
  tune_session *session;
  cli_sweep_line *lines; /* one a problem, filled up to n_lines */
  int n_lines;
  int looked_at; /* of the problems before it, those known to the cache have been looked at, kernel and all */
  arena *memory; /* lives as long as the sweep */
  bool told_aside, told_damaged, warned;
} sweep;

static arke_status print_stored(const cache_entry *e, const cli_sweep_line *line, const char *cache_path,
                                arke_error *err) {
  strbuf out = STRBUF_INIT;
  arke_status status = cli_json_line(cli_stored_json(e, line, cache_path), &out, err);
  if (status == ARKE_OK) status = cli_print(&out, err);
  strbuf_free(&out);
  return status;
}

/* Whether the cache holds all that tuning problem `i` could find, and that entry. One whose kernel is damaged
 * is as good as none. */
static arke_status find_tuned(const sweep *w, int i, arena *a, cache_entry *e, bool *yes, arke_error *err) {
  const tune_session *s = w->session;
  const cli_problem *p = &w->workload.problems[i];
  bool measures = s->kind == TUNE_DEVICE_CUDA;
  strbuf bindings = STRBUF_INIT;
  arke_error failure = ARKE_ERROR_INIT;
  ir_problem_print_bindings(&p->problem, &bindings);
  const char *ptx = tune_session_ptx(s, p->spec->text, a);
  arke_status status = strbuf_failed(&bindings) || ptx == NULL
                           ? error_memory(&failure, "sweep")
                           : cache_find_entry(s->cache, p->spec->name, strbuf_text(&bindings),
                                              s->target->name, cache_variant(ptx), !measures, a, e, &failure);
  *yes = status == ARKE_OK && cli_known_settles(e, p->bucket, &s->options, &s->environment, measures);
  if (*yes && i >= w->looked_at) status = cache_load_kernel(s->cache, a, e, &failure);
  *yes = *yes && status == ARKE_OK;
  strbuf_free(&bindings);
  return status == ARKE_ERR_MEMORY ? error_memory(err, "sweep") : ARKE_OK;
}

/* Nothing to do for the problem: its line says what the cache holds. */
static arke_status already_tuned(const sweep *w, int i, cli_sweep_line *line, bool *yes, arke_error *err) {
  const tune_session *s = w->session;
  const cli_problem *p = &w->workload.problems[i];
  cache_entry e;
  arena a = ARENA_INIT;
  arke_status status = find_tuned(w, i, &a, &e, yes, err);
  if (status == ARKE_OK && *yes) {
    *line =
        (cli_sweep_line){.problem = p,
                         .state = CLI_SKIPPED,
                         .origin = e.winner.origin,
                         .median_ns = e.winner.time.median_ns,
                         .flops = ir_flops(&p->problem),
                         .config = arena_printf(w->memory, "%s %s", e.winner.template_name, e.winner.config)};
    line->speed_of_light_ns = tune_speed_of_light_ns(&p->problem, &s->rates);
    if (w->settings->json) status = print_stored(&e, line, cache_path(s->cache), err);
    if (status == ARKE_OK && line->config == NULL) status = error_memory(err, "sweep");
  }
  arena_release(&a);
  return status;
}

/* The first problem after `i` that will be tuned, if it is tuned in the same session; else NULL. */
static const ir_problem *next_to_tune(sweep *w, int i) {
  for (i++; i < w->workload.n_problems; w->looked_at = ++i) {
    const cli_problem *p = &w->workload.problems[i];
    if (strcmp(w->settings->tune.bucket, p->bucket) != 0) return NULL;
    if (w->settings->line->given[CLI_OPT_FORCE]) return &p->problem;
    cache_entry e;
    arena a = ARENA_INIT;
    bool tuned = false;
    arke_status status = find_tuned(w, i, &a, &e, &tuned, NULL);
    arena_release(&a);
    if (status != ARKE_OK || !tuned) return status == ARKE_OK ? &p->problem : NULL;
  }
  return NULL;
}

static arke_status print_failed(const cli_problem *p, const char *why, arke_error *err) {
  strbuf title = STRBUF_INIT, out = STRBUF_INIT;
  cli_problem_title(p, &title);
  arke_status status = cli_json_line(cli_failed_json(strbuf_text(&title), why), &out, err);
  if (status == ARKE_OK) status = cli_print(&out, err);
  strbuf_free(&title);
  strbuf_free(&out);
  return status;
}

/* Tunes one problem; what fails is written into the line, and only what ends the sweep is returned. */
static arke_status tune_one(sweep *w, const cli_problem *p, cli_sweep_line *line, arke_error *err) {
  arena a = ARENA_INIT;
  strbuf label = STRBUF_INIT, out = STRBUF_INIT;
  tune_result r = {0};
  arke_error failure = ARKE_ERROR_INIT;
  strbuf_addf(&label, "[%d/%d] ", w->n_lines, w->workload.n_problems);
  cli_problem_title(p, &label);
  strbuf_add(&label, ": ");
  arke_status status = cli_tune_in_session(&w->settings->tune, &w->session, &p->problem, strbuf_text(&label),
                                           &a, &r, &failure);
  if (!w->told_aside) cli_tell_set_aside(&r);
  w->told_aside |= r.set_aside != NULL;
  if (!w->warned && r.warning != NULL) cli_complain("%s", r.warning);
  w->warned |= r.warning != NULL;
  *line = (cli_sweep_line){.problem = p, .state = CLI_FAILED};
  if (r.config_text != NULL && (status == ARKE_OK || status == ARKE_ERR_INTERRUPTED)) {
    line->state = CLI_SWEPT;
    line->origin = r.origin;
    line->median_ns = r.time.median_ns;
    line->speed_of_light_ns = r.speed_of_light_ns;
    line->flops = r.flops;
    line->config = arena_printf(w->memory, "%s %s", r.chosen->name, r.config_text);
    if (w->settings->json) {
      arke_error printing = ARKE_ERROR_INIT;
      arke_status printed = cli_json_line(cli_result_json(&r), &out, &printing);
      if (printed == ARKE_OK) printed = cli_print(&out, &printing);
      if (printed != ARKE_OK) status = error_set(err, printed, printing.stage, "%s", printing.text);
    }
  } else {
    if (status == ARKE_ERR_INTERRUPTED) line->state = CLI_INTERRUPTED;
    line->config = arena_strdup(w->memory, failure.text);
    if (status != ARKE_ERR_INTERRUPTED) {
      cli_complain("%s%s", strbuf_text(&label), failure.text);
      arke_error printing = ARKE_ERROR_INIT;
      arke_status printed = w->settings->json ? print_failed(p, failure.text, &printing) : ARKE_OK;
      if (printed != ARKE_OK) status = error_set(err, printed, printing.stage, "%s", printing.text);
    }
  }
  strbuf_free(&label);
  strbuf_free(&out);
  arena_release(&a);
  if (line->config == NULL) return error_memory(err, "sweep");
  if (status == ARKE_ERR_INTERRUPTED)
    return error_set(err, status, "sweep", "%s; the same command goes on from here", failure.text);
  /* A cache that cannot be written fails every problem alike. */
  if (status == ARKE_ERR_IO || status == ARKE_ERR_MEMORY)
    return error_set(err, status, failure.stage, "%s", failure.text);
  return ARKE_OK;
}

/* Opens a session for the problem's bucket, keeping the one before where that fits: workers and device facts
 * are worth reusing. */
static arke_status open_session(sweep *w, const cli_problem *p, arke_error *err) {
  if (w->session != NULL && strcmp(w->settings->tune.bucket, p->bucket) == 0) return ARKE_OK;
  tune_session_close(w->session);
  w->session = NULL;
  w->settings->tune.bucket = p->bucket;
  return tune_session_open(&w->settings->tune, &w->session, err);
}

static void tell_skipped(const sweep *w, const cli_problem *p) {
  strbuf title = STRBUF_INIT;
  cli_problem_title(p, &title);
  cli_complain("[%d/%d] %s: already in %s; --force tunes it again", w->n_lines, w->workload.n_problems,
               strbuf_text(&title), w->settings->tune.cache_path);
  strbuf_free(&title);
}

static void tell_damaged(sweep *w) {
  if (!w->told_damaged && w->session != NULL) w->told_damaged = cli_tell_damaged_rows(w->session);
}

static arke_status run(sweep *w, arke_error *err) {
  for (int i = 0; i < w->workload.n_problems; i++) {
    const cli_problem *p = &w->workload.problems[i];
    TRY(open_session(w, p, err)); /* what fails here is no problem's own failure: it has no line */
    cli_sweep_line *line = &w->lines[w->n_lines++];
    *line = (cli_sweep_line){.problem = p, .state = CLI_FAILED, .config = ""};
    bool done = false;
    if (!w->settings->line->given[CLI_OPT_FORCE]) TRY(already_tuned(w, i, line, &done, err));
    if (done) {
      tell_skipped(w, p);
      continue;
    }
    tune_session_expect(w->session, next_to_tune(w, i));
    arke_status status = tune_one(w, p, line, err);
    tell_damaged(w);
    TRY(status);
  }
  return w->session == NULL ? ARKE_OK : cache_check_place(w->session->cache, err); /* also what was skipped */
}

static arke_status dry_run(const sweep *w, arke_error *err) {
  const target *t = w->settings->tune.target != NULL ? w->settings->tune.target : cli_default_target();
  int worked = 0;
  for (int i = 0; i < w->workload.n_problems; i++) {
    strbuf out = STRBUF_INIT;
    arke_error failure = ARKE_ERROR_INIT;
    arke_status status = cli_list_ranking(&w->workload.problems[i], t, w->settings->json, &out, &failure);
    if (status == ARKE_OK)
      status = cli_print(&out, err);
    else
      cli_complain("%s", failure.text);
    strbuf_free(&out);
    if (err->code != ARKE_OK) return status;
    worked += status == ARKE_OK;
  }
  if (worked > 0) return ARKE_OK;
  return error_set(err, ARKE_ERR_NOT_FOUND, "sweep", "no template covers %s",
                   text_plural(w->workload.n_problems, "the problem", "any of the problems"));
}

static arke_status summary(const sweep *w, arke_error *err) {
  strbuf out = STRBUF_INIT;
  cli_sweep_print(w->lines, w->n_lines, &out);
  arke_status status = cli_print(&out, err);
  strbuf_free(&out);
  return status;
}

arke_status cli_sweep_run(cli_settings *s, arena *a, arke_error *err) {
  sweep w = {.settings = s, .memory = a};
  if (s->line->n_operands != 1)
    return cli_usage(err, "sweep takes one workload file; found %d: arke-tune sweep FILE -o tuned.arke",
                     s->line->n_operands);
  TRY(cli_workload_read(a, s->line->operands[0], &w.workload, err));
  if (w.workload.repeated > 0)
    cli_complain("%s: %d repeated %s tuned once", s->line->operands[0], w.workload.repeated,
                 text_plural(w.workload.repeated, "problem is", "problems are"));
  if (s->tune.dry_run) return dry_run(&w, err);
  s->tune.fresh = s->line->given[CLI_OPT_FORCE];
  TRY(cli_settings_cache(s, a, err));
  TRY(cli_make_parents(a, s->tune.cache_path, err));
  w.lines = ARENA_NEW_N(a, cli_sweep_line, (size_t)w.workload.n_problems);
  if (w.lines == NULL) return error_memory(err, "sweep");
  arke_status status = run(&w, err);
  tune_session_close(w.session);
  if (w.n_lines > 0 && !s->json) {
    arke_error printing = ARKE_ERROR_INIT;
    arke_status printed = summary(&w, &printing);
    if (printed != ARKE_OK && status == ARKE_OK)
      return error_set(err, printed, printing.stage, "%s", printing.text);
  }
  TRY(status);
  int failed = 0;
  for (int i = 0; i < w.n_lines; i++) failed += w.lines[i].state == CLI_FAILED;
  if (failed == 0) return ARKE_OK;
  if (failed == w.n_lines)
    return error_set(err, ARKE_ERR_NOT_FOUND, "sweep", "%s",
                     text_plural(failed, "the problem could not be tuned", "no problem could be tuned"));
  return error_set(err, ARKE_ERR_NOT_FOUND, "sweep",
                   "%d of the %d problems could not be tuned; the others are in %s", failed, w.n_lines,
                   s->tune.cache_path);
}
