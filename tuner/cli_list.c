#include "tuner/cli_list.h"

#include <jansson.h>
#include <string.h>

#include "base/text.h"
#include "generator/gen_context.h"
#include "tuner/cli_report.h"

/* --- operators ------------------------------------------------------------------------------------------ */

/* Whether any template takes the operator with these types: asked at sizes that templates like, and at
 * smaller ones, since some want an axis to be short. */
static arke_status serves(arena *a, const cli_operator *o, const dtype *types, const target *t, bool *yes,
                          arke_error *err) {
  static const int64_t LIKED[] = {4096, 64};
  *yes = false;
  for (size_t k = 0; k < COUNT_OF(LIKED) && !*yes; k++) {
    cli_values v = {.attrs = "", .lead_rank = 1, .lead = {LIKED[k]}};
    cli_problem p;
    memcpy(v.types, types, sizeof v.types);
    for (int i = 0; i < o->n_axes; i++) v.sizes[i] = LIKED[k];
    arke_error inner = ARKE_ERROR_INIT;
    arke_status status = cli_problem_bind(a, o, &v, &p, &inner);
    if (status == ARKE_ERR_MEMORY) return error_memory(err, "list");
    if (status != ARKE_OK) continue; /* the operator itself refuses the type */
    for (int i = 0; i < template_count() && !*yes; i++)
      *yes = template_get(i)->fits(&p.problem, t, NULL) == TEMPLATE_OK;
  }
  return ARKE_OK;
}

/* The same where variable `variable` is `type` and the others are any that the catalogue means. */
static arke_status serves_with(arena *a, const cli_operator *o, int variable, dtype type, const target *t,
                               bool *yes, arke_error *err) {
  dtype types[COUNT_OF(((ir_problem *)0)->types)] = {0};
  int n = o->op->n_types, combinations = 1;
  for (int i = 1; i < n; i++) combinations *= DTYPE_COUNT;
  *yes = false;
  for (int k = 0; k < combinations && !*yes; k++) {
    bool meant = true;
    for (int i = 0, rest = k; i < n; i++) {
      types[i] = i == variable ? type : (dtype)(rest % DTYPE_COUNT);
      if (i != variable) rest /= DTYPE_COUNT;
      meant = meant && cli_operator_wants(o, i, types[i]);
    }
    if (meant) TRY(serves(a, o, types, t, yes, err));
  }
  return ARKE_OK;
}

/* The types that a variable may be, as a list and as text. */
static arke_status list_types(arena *a, const cli_operator *o, int variable, const target *t, json_t *list,
                              const char **text, arke_error *err) {
  *text = "";
  for (int i = 0; i < DTYPE_COUNT && *text != NULL; i++) {
    bool yes;
    TRY(serves_with(a, o, variable, (dtype)i, t, &yes, err));
    if (!yes) continue;
    if (list != NULL) json_array_append_new(list, json_string(dtype_name((dtype)i)));
    *text = arena_printf(a, "%s%s%s", *text, (*text)[0] == '\0' ? "" : " ", dtype_name((dtype)i));
  }
  return *text == NULL ? error_memory(err, "list") : ARKE_OK;
}

static json_t *operator_json(const cli_operator *o, const char *shape, json_t *types) {
  json_t *attrs = json_array();
  for (int i = 0; i < o->op->n_attrs; i++) json_array_append_new(attrs, json_string(o->op->attrs[i].name));
  return json_pack("{s:s, s:s, s:o, s:o, s:s, s:s}", "op", o->name, "shape", shape, "dtypes", types, "attrs",
                   attrs, "help", o->help, "notation", o->text);
}

/* One line a type variable, the first beside the operator. */
static arke_status list_operator(arena *a, const cli_operator *o, const target *t, bool json, strbuf *out,
                                 arke_error *err) {
  strbuf shape = STRBUF_INIT;
  json_t *types = json ? json_object() : NULL;
  arke_status status = ARKE_OK;
  cli_operator_print_axes(o, &shape);
  if (!json && o->op->n_types == 0)
    strbuf_addf(out, "%-26s %-12s %-33s %s\n", o->name, strbuf_text(&shape), "-", o->help);
  for (int i = 0; i < o->op->n_types && status == ARKE_OK; i++) {
    const char *text, *variable = o->op->type_vars[i];
    json_t *list = json ? json_array() : NULL;
    status = list_types(a, o, i, t, list, &text, err);
    if (json) json_object_set_new(types, variable, list);
    if (json || status != ARKE_OK) continue;
    const char *served = text[0] == '\0' ? "-" : text;
    const char *cell = o->op->n_types == 1 ? served : arena_printf(a, "%s: %s", variable, served);
    strbuf_addf(out, "%-26s %-12s %-33s %s\n", i == 0 ? o->name : "", i == 0 ? strbuf_text(&shape) : "",
                cell == NULL ? "" : cell, i == 0 ? o->help : "");
  }
  if (json && status == ARKE_OK)
    status = cli_json_line(operator_json(o, strbuf_text(&shape), types), out, err);
  else
    json_decref(types);
  strbuf_free(&shape);
  return status;
}

arke_status cli_list_operators(const target *t, bool json, strbuf *out, arke_error *err) {
  arena a = ARENA_INIT;
  arke_status status = ARKE_OK;
  if (!json) strbuf_addf(out, "%-26s %-12s %-33s %s\n", "operator", "--shape", "--dtype", "what it computes");
  for (int i = 0; i < ir_catalogue_count() && status == ARKE_OK; i++) {
    cli_operator o;
    status = cli_operator_listed(&a, i, &o, err);
    if (status == ARKE_OK) status = list_operator(&a, &o, t, json, out, err);
    arena_release(&a);
  }
  for (int i = 0; i < ir_family_count() && status == ARKE_OK; i++) {
    if (json)
      status = cli_json_line(json_pack("{s:s, s:s}", "op", ir_family_form(i), "help", ir_family_help(i)), out,
                             err);
    else
      strbuf_addf(out, "%-73s %s\n", ir_family_form(i), ir_family_help(i));
  }
  return status;
}

/* --- tiling spaces -------------------------------------------------------------------------------------- */

static int64_t feasible_of(const tune_candidates *c, int source) {
  int64_t n = 0;
  for (int64_t i = 0; i < c->n; i++) n += c->ranked[i].source == source;
  return n;
}

static json_t *space_json(const tune_candidates *c, int source) {
  const space *s = c->sources[source].space;
  json_t *params = json_array();
  for (int i = 0; i < s->n_params; i++) {
    json_t *values = json_array();
    for (int v = 0; v < s->params[i].n_values; v++)
      json_array_append_new(values, json_integer(s->params[i].values[v]));
    json_array_append_new(params, json_pack("{s:s, s:o, s:s}", "name", s->params[i].name, "values", values,
                                            "meaning", s->params[i].meaning));
  }
  return json_pack("{s:s, s:I, s:I, s:o}", "template", c->sources[source].template->name, "points",
                   (json_int_t)space_size(s), "feasible", (json_int_t)feasible_of(c, source), "parameters",
                   params);
}

static void print_space(const tune_candidates *c, int source, strbuf *out) {
  const kernel_template *k = c->sources[source].template;
  const space *s = c->sources[source].space;
  strbuf_addf(out, "template %s: %s\n", k->name, k->meaning);
  for (int i = 0; i < s->n_params; i++) {
    strbuf values = STRBUF_INIT;
    for (int v = 0; v < s->params[i].n_values; v++)
      strbuf_addf(&values, "%s%d", v == 0 ? "" : " ", s->params[i].values[v]);
    strbuf_addf(out, "  %-16s %-28s %s\n", s->params[i].name, strbuf_text(&values), s->params[i].meaning);
    if (values.failed) out->failed = true;
    strbuf_free(&values);
  }
  strbuf text = STRBUF_INIT;
  config_print(s, &c->sources[source].defaults, &text);
  strbuf_addf(out, "  default: %s\n", strbuf_text(&text));
  if (text.failed) out->failed = true;
  strbuf_free(&text);
  strbuf_addf(out, "  %lld %s, %lld of them feasible here\n", (long long)space_size(s),
              text_plural(space_size(s), "configuration", "configurations"),
              (long long)feasible_of(c, source));
}

arke_status cli_list_configs(const cli_problem *p, const target *t, bool json, strbuf *out, arke_error *err) {
  tune_candidates c;
  TRY(cli_candidates(&p->problem, t, NULL, &c, err));
  arke_status status = ARKE_OK;
  if (!json) {
    cli_problem_title(p, out);
    strbuf_addf(out, " on %s\n", t->name);
  }
  for (int i = 0; i < c.n_sources && status == ARKE_OK; i++) {
    if (json)
      status = cli_json_line(space_json(&c, i), out, err);
    else
      print_space(&c, i, out);
  }
  if (!json) {
    strbuf_add(out, "pruned: ");
    cli_pruned_print(c.pruned, out);
    strbuf_add(out, "\n");
  }
  tune_candidates_release(&c);
  return status;
}

/* --- dry run -------------------------------------------------------------------------------------------- */

enum { LEADING = 10 };

static const char *candidate_template(const tune_candidates *c, int64_t i) {
  return c->sources[c->ranked[i].source].template->name;
}

static void print_candidate(const tune_candidates *c, int64_t i, strbuf *out) {
  config point;
  tune_candidate_config(c, i, &point);
  config_print(c->sources[c->ranked[i].source].space, &point, out);
}

static json_t *ranking_json(const cli_problem *p, const target *t, const tune_candidates *c) {
  tune_trials trials = {.total = c->total};
  memcpy(trials.pruned, c->pruned, sizeof trials.pruned);
  json_t *all = cli_trials_json(&trials), *leading = json_array();
  for (int64_t i = 0; i < c->n && i < LEADING; i++) {
    strbuf text = STRBUF_INIT;
    print_candidate(c, i, &text);
    json_array_append_new(leading,
                          json_pack("{s:s, s:s, s:f}", "template", candidate_template(c, i), "config",
                                    strbuf_text(&text), "model_ns", c->ranked[i].model_ns));
    strbuf_free(&text);
  }
  strbuf title = STRBUF_INIT;
  cli_problem_title(p, &title);
  json_t *object =
      json_pack("{s:s, s:s, s:s, s:o, s:I, s:o}", "problem", strbuf_text(&title), "target", t->name, "model",
                t->rates.device, "trials", all, "feasible", (json_int_t)c->n, "leading", leading);
  strbuf_free(&title);
  return object;
}

static void print_ranking(const cli_problem *p, const target *t, const tune_candidates *c, strbuf *out) {
  cli_problem_title(p, out);
  strbuf_addf(out, " on %s: dry run, nothing is compiled or stored\n", t->name);
  strbuf_addf(out, "%lld %s, %lld pruned, %lld feasible\n", (long long)c->total,
              text_plural(c->total, "configuration", "configurations"), (long long)(c->total - c->n),
              (long long)c->n);
  for (int i = TEMPLATE_OK + 1; i < TEMPLATE_REASON_COUNT; i++)
    if (c->pruned[i] > 0)
      strbuf_addf(out, "  %8lld  %s\n", (long long)c->pruned[i], template_reason_text((template_reason)i));
  strbuf_addf(out, "leading by the cost model of %s:\n", t->rates.device);
  for (int64_t i = 0; i < c->n && i < LEADING; i++) {
    strbuf time = STRBUF_INIT;
    cli_time_print(c->ranked[i].model_ns, &time);
    strbuf_addf(out, "  %10s  %s ", strbuf_text(&time), candidate_template(c, i));
    if (time.failed) out->failed = true;
    strbuf_free(&time);
    print_candidate(c, i, out);
    strbuf_add(out, "\n");
  }
}

arke_status cli_list_ranking(const cli_problem *p, const target *t, bool json, strbuf *out, arke_error *err) {
  tune_candidates c;
  TRY(cli_candidates(&p->problem, t, NULL, &c, err));
  arke_status status = ARKE_OK;
  if (json)
    status = cli_json_line(ranking_json(p, t, &c), out, err);
  else
    print_ranking(p, t, &c, out);
  tune_candidates_release(&c);
  return status;
}

void cli_list_versions(strbuf *out) {
  char llvm[32];
  gen_llvm_version(llvm);
  strbuf_addf(out, "arke-tune %s\nLLVM %s\ntargets:", arke_version(), llvm);
  for (int i = 0; i < target_count(); i++)
    strbuf_addf(out, "%s %s (PTX %s)", i == 0 ? "" : ",", target_get(i)->name, target_get(i)->ptx_version);
  strbuf_add(out, "\n");
}
