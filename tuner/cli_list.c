#include "tuner/cli_list.h"

#include <jansson.h>
#include <string.h>

#include "generator/gen_context.h"
#include "tuner/cli_report.h"

/* --- operators ------------------------------------------------------------------------------------------ */

/* Whether any template takes the operator at this element type: asked with sizes every template likes. */
static arke_status serves(arena *a, const ir_catalogue_entry *entry, const ir_op *op, dtype type,
                          const target *t, bool *yes, arke_error *err) {
  enum { LIKED_SIZE = 4096 };
  dtype types[COUNT_OF(((ir_problem *)0)->types)];
  int64_t sizes[LIMIT_AXES];
  cli_problem p;
  for (size_t i = 0; i < COUNT_OF(types); i++) types[i] = type;
  for (int i = 0; i < LIMIT_AXES; i++) sizes[i] = LIKED_SIZE;
  *yes = false;
  arke_error inner = ARKE_ERROR_INIT;
  arke_status status = cli_problem_bind(a, entry, op, types, sizes, &p, &inner);
  if (status == ARKE_ERR_MEMORY) return error_memory(err, "list");
  if (status != ARKE_OK) return ARKE_OK; /* the operator itself refuses the type */
  for (int i = 0; i < template_count(); i++)
    *yes |= template_get(i)->fits(&p.problem, t, NULL) == TEMPLATE_OK;
  return ARKE_OK;
}

static arke_status list_operator(arena *a, const ir_catalogue_entry *entry, const target *t, bool json,
                                 strbuf *out, arke_error *err) {
  const ir_op *op;
  const char *axes[LIMIT_AXES], *shape = "", *types = "";
  TRY(ir_op_parse(a, entry->text, &op, err));
  int n = cli_shape_axes(a, entry, axes);
  for (int i = 0; i < n && shape != NULL; i++)
    shape = arena_printf(a, "%s%s%s", shape, i == 0 ? "" : "x", axes[i]);
  json_t *list = json ? json_array() : NULL;
  for (int i = 0; i < DTYPE_COUNT && types != NULL; i++) {
    bool yes;
    arke_status status = serves(a, entry, op, (dtype)i, t, &yes, err);
    if (status != ARKE_OK) {
      json_decref(list);
      return status;
    }
    if (!yes) continue;
    if (json) json_array_append_new(list, json_string(dtype_name((dtype)i)));
    types = arena_printf(a, "%s%s%s", types, types[0] == '\0' ? "" : " ", dtype_name((dtype)i));
  }
  if (shape == NULL || types == NULL) {
    json_decref(list);
    return error_memory(err, "list");
  }
  if (json)
    return cli_json_line(json_pack("{s:s, s:s, s:o, s:s, s:s}", "op", entry->name, "shape", shape, "dtypes",
                                   list, "help", entry->help, "notation", entry->text),
                         out, err);
  strbuf_addf(out, "%-20s %-10s %-20s %s\n", entry->name, shape, types[0] == '\0' ? "-" : types, entry->help);
  return ARKE_OK;
}

arke_status cli_list_operators(const target *t, bool json, strbuf *out, arke_error *err) {
  arena a = ARENA_INIT;
  arke_status status = ARKE_OK;
  if (!json) strbuf_addf(out, "%-20s %-10s %-20s %s\n", "operator", "--shape", "--dtype", "what it computes");
  for (int i = 0; i < ir_catalogue_count() && status == ARKE_OK; i++) {
    status = list_operator(&a, ir_catalogue_get(i), t, json, out, err);
    arena_release(&a);
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
  strbuf_addf(out, "  %lld configurations, %lld of them feasible here\n", (long long)space_size(s),
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
  strbuf_addf(out, "%lld configurations, %lld pruned, %lld feasible\n", (long long)c->total,
              (long long)(c->total - c->n), (long long)c->n);
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
