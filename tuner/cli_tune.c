#include "tuner/cli_tune.h"

#include <string.h>

#include "tuner/cli_list.h"
#include "tuner/cli_output.h"
#include "tuner/cli_report.h"
#include "tuner/tune_session.h"

void cli_tell_set_aside(const tune_result *r) {
  if (r->set_aside != NULL)
    cli_complain("%s was damaged or not a cache of Arke; it is kept as %s, and a new file is used",
                 r->cache_path, r->set_aside);
}

bool cli_tell_damaged_rows(const tune_session *s) {
  bool met = s->cache != NULL && cache_damaged_rows(s->cache) > 0;
  if (met)
    cli_complain("%s has damaged rows, which count as missing; 'arke-tune cache verify' tells more",
                 cache_path(s->cache));
  return met;
}

static arke_status print_result(const cli_settings *s, const cli_problem *p, const tune_result *r,
                                arke_error *err) {
  strbuf out = STRBUF_INIT;
  arke_status status = ARKE_OK;
  if (s->json)
    status = cli_json_line(cli_result_json(r), &out, err);
  else
    cli_result_print(s, p, r, &out);
  if (status == ARKE_OK) status = cli_print(&out, err);
  strbuf_free(&out);
  return status;
}

/* Listings that need the problem and nothing else. */
static arke_status list(const cli_settings *s, const cli_problem *p, const target *t, arke_error *err) {
  strbuf out = STRBUF_INIT;
  arke_status status = s->tune.dry_run ? cli_list_ranking(p, t, s->json, &out, err)
                                       : cli_list_configs(p, t, s->json, &out, err);
  if (status == ARKE_OK) status = cli_print(&out, err);
  strbuf_free(&out);
  return status;
}

static arke_status check_config(const cli_problem *p, const target *t, const char *text, arke_error *err) {
  tune_candidates c;
  TRY(cli_candidates(&p->problem, t, text, &c, err));
  tune_candidates_release(&c);
  return ARKE_OK;
}

static arke_status tune_with_progress(tune_session *session, const ir_problem *p, const char *label, arena *a,
                                      tune_result *r, arke_error *err) {
  cli_progress progress;
  cli_progress_start(&progress, label);
  arke_status status = tune_problem(session, p, cli_progress_show, &progress, a, r, err);
  cli_progress_end(&progress);
  return status;
}

arke_status cli_tune_in_session(const tune_options *o, tune_session **session, const ir_problem *p,
                                const char *label, arena *a, tune_result *r, arke_error *err) {
  if (*session == NULL) TRY(tune_session_open(o, session, err));
  arke_error failure = ARKE_ERROR_INIT;
  arke_status status = tune_with_progress(*session, p, label, a, r, &failure);
  if (status == ARKE_ERR_CORRUPT) {
    tune_options thorough = *o;
    thorough.check_pages = true;
    tune_session_close(*session);
    *session = NULL;
    TRY(tune_session_open(&thorough, session, err));
    if ((*session)->set_aside != NULL) return tune_with_progress(*session, p, label, a, r, err);
  }
  return status == ARKE_OK ? ARKE_OK : error_set(err, status, failure.stage, "%s", failure.text);
}

arke_status cli_tune_once(const tune_options *o, const ir_problem *p, const char *label, arena *a,
                          tune_result *r, arke_error *err) {
  tune_session *session = NULL;
  *r = (tune_result){0};
  arke_status status = cli_tune_in_session(o, &session, p, label, a, r, err);
  if (session == NULL) return status;
  cli_tell_damaged_rows(session);
  cli_tell_set_aside(r);
  if (r->warning != NULL) cli_complain("%s", r->warning);
  tune_session_close(session);
  return status;
}

arke_status cli_tune_run(cli_settings *s, arena *a, arke_error *err) {
  cli_problem p;
  tune_result r = {0};
  TRY(cli_problem_read(s, a, &p, err));
  const target *t = s->tune.target != NULL ? s->tune.target : cli_default_target();
  TRY(check_config(&p, t, s->tune.config, err));
  if (s->tune.dry_run || s->line->given[CLI_OPT_LIST_CONFIGS]) return list(s, &p, t, err);

  TRY(cli_settings_cache(s, a, err));
  TRY(cli_make_parents(a, s->tune.cache_path, err));
  if (s->tune.keep_llvm_ir) TRY(cli_dump_prepare(s->line->texts[CLI_OPT_DUMP], a, err));
  s->tune.bucket = p.bucket;
  arke_status status = cli_tune_once(&s->tune, &p.problem, "", a, &r, err);
  if (r.config_text != NULL && (status == ARKE_OK || status == ARKE_ERR_INTERRUPTED)) {
    arke_error printing = ARKE_ERROR_INIT;
    arke_status printed = print_result(s, &p, &r, &printing);
    if (printed == ARKE_OK && s->tune.keep_llvm_ir)
      printed = cli_dump(s->line->texts[CLI_OPT_DUMP], &p, &r, &printing);
    if (status == ARKE_OK && printed != ARKE_OK)
      return error_set(err, printed, printing.stage, "%s", printing.text);
  }
  return status;
}
