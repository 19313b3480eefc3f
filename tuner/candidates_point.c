/* Configurations that a person names: which template's point a text is, and what is wrong with one that is
 * none, or that cannot run. */
#include <string.h>

#include "tuner/candidates.h"
#include "tuner/candidates_collect.h"
#include "tuner/candidates_remedy.h"
#include "tuner/templates_in_use.h"

#define STAGE "prune"

/* A configuration as written: "BLOCK_M=128,…" behind the template's name, if there was one. */
typedef struct written {
  const char *text, *assignments;
  size_t template_length; /* 0: no template is named */
} written;

static written read_text(const char *text) {
  const char *colon = strchr(text, ':');
  return (written){text, colon ? colon + 1 : text, colon ? (size_t)(colon - text) : 0};
}

static bool names(const written *w, const kernel_template *k) {
  return w->assignments == w->text ||
         (strlen(k->name) == w->template_length && strncmp(k->name, w->text, w->template_length) == 0);
}

/* Which parameters the text gives values; false: it has a name that none of them has. */
static bool find_given(const space *s, const written *w, bool given[LIMIT_PARAMS]) {
  bool all = true;
  memset(given, 0, LIMIT_PARAMS * sizeof *given);
  for (const char *at = w->assignments; *at;) {
    size_t length = strcspn(at, ","), name = strcspn(at, "=,");
    bool known = false;
    for (int i = 0; i < s->n_params; i++) {
      bool same = strlen(s->params[i].name) == name && strncmp(s->params[i].name, at, name) == 0;
      given[i] = given[i] || same;
      known = known || same;
    }
    all = all && known;
    at += length + (at[length] == ',');
  }
  return all;
}

/* --- what a refusal says -------------------------------------------------------------------------------- */

static arke_status infeasible(const tune_candidates *c, const ir_problem *p, const target *t, int source,
                              int64_t point, const char *text, template_reason reason, arke_error *err) {
  const tune_source *s = &c->sources[source];
  written w = read_text(text);
  bool given[LIMIT_PARAMS];
  strbuf remedies = STRBUF_INIT;
  config at;
  space_point(s->space, point, &at);
  find_given(s->space, &w, given);
  if (!template_is_built(reason)) tune_candidates_remedy(s, p, t, &at, given, &remedies);
  error_set(err, ARKE_ERR_INVALID, STAGE, "configuration %s is not feasible here: %s%s", text,
            template_reason_text(reason), strbuf_text(&remedies));
  strbuf_free(&remedies);
  return ARKE_ERR_INVALID;
}

/* The text's template is none of those that fit: it says why, or there is no such template. */
static arke_status no_template(const tune_candidates *c, const ir_problem *p, const target *t,
                               const char *text, arke_error *err) {
  written w = read_text(text);
  strbuf list = STRBUF_INIT;
  for (int i = 0; i < tune_templates_count(c->templates); i++) {
    const kernel_template *k = tune_templates_get(c->templates, i);
    if (!names(&w, k)) continue;
    template_reason reason = k->fits(p, t, &list);
    error_set(err, ARKE_ERR_INVALID, STAGE, "configuration %s: template %s does not fit here: %s%s%s", text,
              k->name, template_reason_text(reason), list.length ? ", " : "", strbuf_text(&list));
    strbuf_free(&list);
    return ARKE_ERR_INVALID;
  }
  for (int i = 0; i < c->n_sources; i++)
    strbuf_addf(&list, "%s%s", i ? ", " : "", c->sources[i].template->name);
  error_set(err, ARKE_ERR_INVALID, STAGE, "configuration %s names no template that fits; accepted: %s", text,
            strbuf_text(&list));
  strbuf_free(&list);
  return ARKE_ERR_INVALID;
}

/* --- finding -------------------------------------------------------------------------------------------- */

/* The point that the text names, and what the template says of it: OK or REDUNDANT. Of what is wrong, that
 * is told which the first template says that knows all of the parameters. */
static arke_status find_point(const tune_candidates *c, const ir_problem *p, const target *t,
                              const char *text, int *source, int64_t *point, template_reason *reason,
                              arke_error *err) {
  written w = read_text(text);
  arke_error unknown = ARKE_ERROR_INIT, value = ARKE_ERROR_INIT;
  int named = 0, refused = -1; /* refused: the first template that can build no such kernel */
  template_reason refusal = TEMPLATE_OK;
  int64_t refused_point = 0;
  for (int i = 0; i < c->n_sources; i++) {
    const tune_source *s = &c->sources[i];
    bool given[LIMIT_PARAMS];
    config at;
    if (!names(&w, s->template)) continue;
    named++;
    if (w.assignments[strspn(w.assignments, " ")] == '\0' && s->space->n_params > 0)
      return error_set(
          err, ARKE_ERR_INVALID, STAGE,
          "configuration '%s' gives no parameter a value; --list-configs tells those of %s, and a "
          "single one is enough, like %s=%d",
          text, s->template->name, s->space->params[0].name, s->defaults.values[0]);
    bool known = find_given(s->space, &w, given);
    if (config_parse(s->space, w.assignments, &s->defaults, &at, known ? &value : &unknown) != ARKE_OK)
      continue;
    *reason = template_feasible(s->template, p, t, &at);
    *source = i;
    *point = space_index(s->space, &at);
    if (template_is_built(*reason)) return ARKE_OK;
    if (refused >= 0) continue;
    refused = i;
    refusal = *reason;
    refused_point = *point;
  }
  if (refused >= 0) return infeasible(c, p, t, refused, refused_point, text, refusal, err);
  if (named == 0) return no_template(c, p, t, text, err);
  const arke_error *fault = value.code != ARKE_OK ? &value : &unknown;
  return error_set(err, ARKE_ERR_INVALID, STAGE, "%s", fault->text);
}

arke_status tune_candidates_parse(const tune_candidates *c, const ir_problem *p, const target *t,
                                  const char *text, int64_t *index, arke_error *err) {
  int source;
  int64_t point;
  template_reason reason;
  TRY(find_point(c, p, t, text, &source, &point, &reason, err));
  *index = tune_candidates_index(c, source, point);
  return *index >= 0 ? ARKE_OK : infeasible(c, p, t, source, point, text, reason, err);
}

arke_status tune_candidates_admit(tune_candidates *c, const ir_problem *p, const target *t,
                                  const target_rates *rates, const char *text, int64_t *index,
                                  arke_error *err) {
  int source;
  int64_t point;
  template_reason reason;
  TRY(find_point(c, p, t, text, &source, &point, &reason, err));
  *index = tune_candidates_index(c, source, point);
  if (*index >= 0) return ARKE_OK;
  config at;
  space_point(c->sources[source].space, point, &at);
  tune_candidate k = {.source = source,
                      .point = point,
                      .model_ns = tune_candidates_model_ns(&c->sources[source], p, t, rates, &at),
                      .family = c->n_families++};
  TRY(tune_candidates_append(c, k, err));
  c->pruned[reason]--;
  *index = c->n - 1;
  return ARKE_OK;
}
