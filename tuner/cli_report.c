#include "tuner/cli_report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

void cli_time_print(double ns, strbuf *out) {
  static const struct {
    double ns;
    const char *unit;
  } units[] = {{1e9, "s"}, {1e6, "ms"}, {1e3, "us"}, {1, "ns"}};
  size_t i = 0;
  while (i + 1 < COUNT_OF(units) && ns < units[i].ns * 0.99995) i++; /* 999.97 ns prints as 1.000 us */
  double value = ns / units[i].ns;
  strbuf_addf(out, "%.*f %s", value < 9.9995 ? 3 : value < 99.995 ? 2 : 1, value, units[i].unit);
}

void cli_problem_title(const cli_problem *p, strbuf *out) {
  strbuf_addf(out, "%s ", p->spec->name);
  cli_shape_print(p, out);
  for (int i = 0; i < p->problem.op->n_types; i++) strbuf_addf(out, " %s", dtype_name(p->problem.types[i]));
  if (p->attrs[0] != '\0') strbuf_addf(out, " %s", p->attrs);
}

bool cli_outcome_failed(cache_outcome o) {
  return o != CACHE_MEASURED && o != CACHE_VERIFIED && o != CACHE_LOWERED && o != CACHE_DUPLICATE;
}

int cli_failed_total(const int *failed) {
  int total = 0;
  for (int i = 0; i < CACHE_OUTCOME_COUNT; i++)
    if (cli_outcome_failed((cache_outcome)i)) total += failed[i];
  return total;
}

void cli_failed_print(const int *failed, strbuf *out) {
  const char *comma = "";
  for (int i = 0; i < CACHE_OUTCOME_COUNT; i++) {
    if (!cli_outcome_failed((cache_outcome)i) || failed[i] == 0) continue;
    strbuf_addf(out, "%s%s %d", comma, cache_outcome_name((cache_outcome)i), failed[i]);
    comma = ", ";
  }
}

void cli_pruned_print(const int64_t *pruned, strbuf *out) {
  const char *comma = "";
  for (int i = TEMPLATE_OK + 1; i < TEMPLATE_REASON_COUNT; i++) {
    if (pruned[i] == 0) continue;
    strbuf_addf(out, "%s%s %lld", comma, template_reason_text((template_reason)i), (long long)pruned[i]);
    comma = ", ";
  }
}

static int64_t pruned_total(const tune_trials *t) {
  int64_t total = 0;
  for (int i = TEMPLATE_OK + 1; i < TEMPLATE_REASON_COUNT; i++) total += t->pruned[i];
  return total;
}

/* The value of --device that leads to the same way of tuning. */
static void add_device(const cli_settings *s, const tune_result *r, strbuf *out) {
  if (strncmp(r->environment.device, "model:", 6) == 0)
    strbuf_add(out, "model");
  else if (strcmp(r->environment.device, "emulator") == 0)
    strbuf_add(out, "emulator");
  else if (s->tune.device_index > 0)
    strbuf_addf(out, "cuda:%d", s->tune.device_index);
  else
    strbuf_add(out, "cuda");
}

static void add_option(strbuf *out, cli_option option, const char *value) {
  strbuf_addf(out, " --%s ", cli_option_table[option].name);
  cli_shell_quote(value, out);
}

static void add_printed(strbuf *out, cli_option option, strbuf *value) {
  if (value->length > 0) add_option(out, option, strbuf_text(value));
  if (value->failed) out->failed = true;
  strbuf_free(value);
}

void cli_reproduce_print(const cli_settings *s, const cli_problem *p, const tune_result *r, strbuf *out) {
  strbuf shape = STRBUF_INIT, types = STRBUF_INIT, device = STRBUF_INIT;
  const cli_operator *o = p->spec;
  cli_shape_print(p, &shape);
  cli_values_print_types(o, &p->problem, &types);
  add_device(s, r, &device);
  cli_shell_quote(s->line->program, out);
  add_option(out, o->define != NULL ? CLI_OPT_DEFINE : CLI_OPT_OP, o->define != NULL ? o->define : o->name);
  add_printed(out, CLI_OPT_SHAPE, &shape);
  add_printed(out, CLI_OPT_DTYPE, &types);
  if (p->attrs[0] != '\0') add_option(out, CLI_OPT_ATTR, p->attrs);
  add_option(out, CLI_OPT_TARGET, r->target->name);
  add_printed(out, CLI_OPT_DEVICE, &device);
  if (p->bucket[0] != '\0') add_option(out, CLI_OPT_BUCKET, p->bucket);
  if (s->tune.fast_math) add_option(out, CLI_OPT_MATH, "fast");
  if (s->tune.check_indices) strbuf_addf(out, " --%s", cli_option_table[CLI_OPT_CHECK_INDICES].name);
  if (s->tune.seed != 0)
    strbuf_addf(out, " --%s %llu", cli_option_table[CLI_OPT_SEED].name, (unsigned long long)s->tune.seed);
  if (s->line->given[CLI_OPT_CACHE] || s->line->given[CLI_OPT_OUTPUT])
    add_option(out, CLI_OPT_CACHE, r->cache_path);
  strbuf chosen = STRBUF_INIT; /* several templates may have parameters of these names */
  strbuf_addf(&chosen, "%s:%s", r->chosen->name, r->config_text);
  add_printed(out, CLI_OPT_CONFIG, &chosen);
}

static void add_label(strbuf *out, const char *label) {
  strbuf_addf(out, "  %-16s", label);
}

static void add_times(const tune_result *r, strbuf *out) {
  add_label(out, "time");
  cli_time_print(r->time.median_ns, out);
  if (r->origin == CACHE_ORIGIN_MODELLED) {
    strbuf_add(out, "  (the cost model's estimate, not measured)\n");
  } else {
    strbuf_add(out, "  (median; p10 ");
    cli_time_print(r->time.p10_ns, out);
    strbuf_add(out, ", p90 ");
    cli_time_print(r->time.p90_ns, out);
    strbuf_addf(out, ", %d samples)\n", r->time.samples);
  }
  if (r->flops > 0) {
    add_label(out, "rate");
    strbuf_addf(out, "%.1f TFLOP/s\n", r->flops / r->time.median_ns * 1e-3);
  }
  add_label(out, "speed of light");
  cli_time_print(r->speed_of_light_ns, out);
  strbuf_addf(out, ", of which %.1f %% is reached\n", 100 * r->speed_of_light_ns / r->time.median_ns);
}

/* One line a reason, the commonest first. */
static void add_pruned(const tune_trials *t, strbuf *out) {
  bool told[TEMPLATE_REASON_COUNT] = {false};
  for (int n = 0;; n++) {
    int most = TEMPLATE_OK;
    for (int i = TEMPLATE_OK + 1; i < TEMPLATE_REASON_COUNT; i++)
      if (!told[i] && t->pruned[i] > (most == TEMPLATE_OK ? 0 : t->pruned[most])) most = i;
    if (most == TEMPLATE_OK) return;
    told[most] = true;
    add_label(out, n == 0 ? "pruned" : "");
    strbuf_addf(out, "%lld: %s\n", (long long)t->pruned[most], template_reason_text((template_reason)most));
  }
}

static void add_trials(const tune_trials *t, strbuf *out) {
  int64_t pruned = pruned_total(t);
  int now[CACHE_OUTCOME_COUNT]; /* failures of this run */
  for (int i = 0; i < CACHE_OUTCOME_COUNT; i++) now[i] = t->failed[i] - t->earlier_failed[i];
  int failed = cli_failed_total(now);
  add_label(out, "configurations");
  strbuf_addf(out, "%lld in the space, %lld pruned, %lld feasible\n", (long long)t->total, (long long)pruned,
              (long long)(t->total - pruned));
  add_pruned(t, out);
  add_label(out, "tried");
  strbuf_addf(out, "%d compiled, %d verified, %d measured, %d failed", t->compiled - t->earlier_compiled,
              t->verified - t->earlier_verified, t->measured - t->earlier_measured, failed);
  if (now[CACHE_DUPLICATE] > 0)
    strbuf_addf(out, ", %d %s", now[CACHE_DUPLICATE],
                text_plural(now[CACHE_DUPLICATE], "duplicate", "duplicates"));
  if (t->resumed > 0)
    strbuf_addf(out, "; %d %s taken from the cache", t->resumed,
                text_plural(t->resumed, "result", "results"));
  strbuf_add(out, "\n");
  if (failed > 0) {
    add_label(out, "failed");
    cli_failed_print(now, out);
    strbuf_add(out, "\n");
  }
}

/* What a configuration of several kernels stands for, in the order they run. */
static void add_parts(const cli_problem *p, const tune_result *r, strbuf *out) {
  const kernel_template *k = r->chosen;
  template_part parts[TEMPLATE_PARTS];
  arena a = ARENA_INIT;
  config defaults, c;
  int n = 0;
  if (!k->parts) return;
  k->defaults(&p->problem, r->target, &defaults);
  if (config_parse(k->space(r->target), r->config_text, &defaults, &c, NULL) == ARKE_OK)
    n = k->parts(&p->problem, r->target, &c, &a, parts);
  for (int i = 0; i < n; i++) {
    add_label(out, i == 0 ? "stages" : "");
    strbuf_addf(out, "%d: %s ", i + 1, parts[i].k->name);
    config_print(parts[i].k->space(r->target), &parts[i].c, out);
    strbuf_add(out, ", about ");
    cli_time_print(parts[i].ns, out);
    strbuf_add(out, " by the model\n");
  }
  arena_release(&a);
}

void cli_result_print(const cli_settings *s, const cli_problem *p, const tune_result *r, strbuf *out) {
  cli_problem_title(p, out);
  strbuf_addf(out, " on %s (%s, PTX %s)\n", r->environment.device, r->target->name, r->target->ptx_version);
  add_label(out, "winner");
  strbuf_addf(out, "%s %s\n", r->chosen->name, r->config_text);
  add_parts(p, r, out);
  add_times(r, out);
  add_trials(&r->trials, out);
  if (r->tolerance > 0) {
    add_label(out, "accuracy");
    strbuf_addf(out,
                "largest error %.3g, tolerance %.3g, relative to the root mean square of the reference\n",
                r->worst_error, r->tolerance);
  }
  if (r->origin == CACHE_ORIGIN_MEASURED && r->policy != NULL && r->policy[0] != '\0') {
    add_label(out, "method");
    strbuf_addf(out, "%s\n", r->policy);
  }
  add_label(out, "kernel");
  strbuf_addf(out, "sha256 %s\n", r->sha256);
  add_label(out, "cache");
  strbuf_addf(out, "%s\n", r->cache_path);
  if (!r->stored) {
    add_label(out, "not stored");
    strbuf_add(out, "the cache holds a better result for this problem\n");
  }
  if (r->interrupted) {
    add_label(out, "interrupted");
    strbuf_add(out, "the best so far is stored; the same command goes on from here\n");
  }
  strbuf_add(out, "reproduce: ");
  cli_reproduce_print(s, p, r, out);
  strbuf_add(out, "\n");
  if (r->origin == CACHE_ORIGIN_MODELLED)
    strbuf_addf(
        out,
        "modelled: no GPU was measured; the configuration was ranked by the cost model of %s and verified on "
        "the emulator%s\n",
        r->target->rates.device, r->stored ? ", and the entry is stored as modelled" : "");
}

static const char *const sweep_states[] = {"tuned", "in cache", "failed",
                                           "interrupted"}; /* by cli_sweep_state */

json_t *cli_trials_json(const tune_trials *t) {
  json_t *pruned = json_object(), *failed = json_object();
  for (int i = TEMPLATE_OK + 1; i < TEMPLATE_REASON_COUNT; i++)
    if (t->pruned[i] > 0)
      json_object_set_new(pruned, template_reason_name((template_reason)i), json_integer(t->pruned[i]));
  for (int i = 0; i < CACHE_OUTCOME_COUNT; i++)
    if (cli_outcome_failed((cache_outcome)i) && t->failed[i] > 0)
      json_object_set_new(failed, cache_outcome_name((cache_outcome)i), json_integer(t->failed[i]));
  return json_pack("{s:I, s:o, s:o, s:i, s:i}", "total", (json_int_t)t->total, "pruned", pruned, "failed",
                   failed, "verified", t->verified, "measured", t->measured);
}

/* A modelled time has no distribution: null, never a number that looks measured. */
static json_t *time_json(cache_origin origin, const cache_time *t) {
  bool measured = origin == CACHE_ORIGIN_MEASURED;
  return json_pack("{s:f, s:o, s:o, s:i}", "median", t->median_ns, "p10",
                   measured ? json_real(t->p10_ns) : json_null(), "p90",
                   measured ? json_real(t->p90_ns) : json_null(), "samples", measured ? t->samples : 0);
}

static const char *origin_name(cache_origin origin) {
  return origin == CACHE_ORIGIN_MEASURED ? "measured" : "modelled";
}

json_t *cli_result_json(const tune_result *r) {
  return json_pack("{s:o, s:s, s:o, s:s, s:s, s:o, s:o, s:f, s:f, s:o, s:s, s:o}", "key",
                   cli_json_text(r->key), "target", r->target->name, "device",
                   cli_json_text(r->environment.device), "origin", origin_name(r->origin), "template",
                   r->chosen->name, "config", cli_json_text(r->config_text), "time_ns",
                   time_json(r->origin, &r->time), "tflops", r->flops / r->time.median_ns * 1e-3,
                   "speed_of_light_ns", r->speed_of_light_ns, "trials", cli_trials_json(&r->trials), "sha256",
                   r->sha256, "cache", cli_json_text(r->cache_path));
}

json_t *cli_failed_json(const char *problem, const char *why) {
  return json_pack("{s:s, s:o, s:o}", "state", sweep_states[CLI_FAILED], "problem", cli_json_text(problem),
                   "error", cli_json_text(why));
}

json_t *cli_stored_json(const cache_entry *e, const cli_sweep_line *line, const char *cache_path) {
  strbuf key = STRBUF_INIT;
  cache_key_print(&e->problem, &key);
  json_t *object =
      strbuf_failed(&key)
          ? NULL
          : json_pack("{s:s, s:o, s:o, s:o, s:s, s:o, s:o, s:o, s:f, s:f, s:o, s:o}", "state",
                      sweep_states[CLI_SKIPPED], "key", cli_json_text(strbuf_text(&key)), "target",
                      cli_json_text(e->problem.target), "device", cli_json_text(e->environment.device),
                      "origin", origin_name(e->winner.origin), "template",
                      cli_json_text(e->winner.template_name), "config", cli_json_text(e->winner.config),
                      "time_ns", time_json(e->winner.origin, &e->winner.time), "tflops",
                      line->flops / line->median_ns * 1e-3, "speed_of_light_ns", line->speed_of_light_ns,
                      "sha256", cli_json_text(e->kernel.sha256), "cache", cli_json_text(cache_path));
  strbuf_free(&key);
  return object;
}

/* Bytes of the UTF-8 character at `s`, by the table of well-formed sequences of the Unicode standard; 0:
 * none. */
static size_t utf8_length(const unsigned char *s) {
  static const struct {
    unsigned char first, last, low, high; /* range of the first byte, then of the second */
    size_t length;
  } forms[] = {{0x01, 0x7f, 0, 0, 1},       {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
               {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
               {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4}};
  for (size_t i = 0; i < COUNT_OF(forms); i++) {
    if (s[0] < forms[i].first || s[0] > forms[i].last) continue;
    if (forms[i].length > 1 && (s[1] < forms[i].low || s[1] > forms[i].high)) return 0;
    for (size_t k = 2; k < forms[i].length; k++)
      if ((s[k] & 0xc0) != 0x80) return 0;
    return forms[i].length;
  }
  return 0;
}

json_t *cli_json_text(const char *text) {
  strbuf valid = STRBUF_INIT;
  while (*text != '\0') {
    size_t n = utf8_length((const unsigned char *)text);
    if (n > 0)
      strbuf_add_bytes(&valid, text, n);
    else
      strbuf_add(&valid, "\xef\xbf\xbd");
    text += n > 0 ? n : 1;
  }
  json_t *string = strbuf_failed(&valid) ? NULL : json_string(strbuf_text(&valid));
  strbuf_free(&valid);
  return string;
}

arke_status cli_json_line(json_t *object, strbuf *out, arke_error *err) {
  char *text = object == NULL ? NULL : json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(9));
  json_decref(object);
  if (text == NULL) return error_memory(err, "report");
  strbuf_addf(out, "%s\n", text);
  free(text);
  return strbuf_failed(out) ? error_memory(err, "report") : ARKE_OK;
}

void cli_sweep_print(const cli_sweep_line *lines, int n, strbuf *out) {
  int count[COUNT_OF(sweep_states)] = {0};
  double weighted_ns = 0;
  int width = 7;
  for (int i = 0; i < n; i++) {
    strbuf title = STRBUF_INIT;
    cli_problem_title(lines[i].problem, &title);
    if ((int)title.length > width) width = (int)title.length;
    strbuf_free(&title);
  }
  strbuf_addf(out, "%-*s  %-8s  %-8s  %10s  %8s  %6s  %s\n", width, "problem", "state", "origin", "time",
              "TFLOP/s", "of SOL", "configuration");
  for (int i = 0; i < n; i++) {
    const cli_sweep_line *l = &lines[i];
    strbuf title = STRBUF_INIT, time = STRBUF_INIT;
    cli_problem_title(l->problem, &title);
    count[l->state]++;
    if (l->state == CLI_FAILED || l->state == CLI_INTERRUPTED) {
      strbuf_addf(out, "%-*s  %-8s  %s\n", width, strbuf_text(&title), sweep_states[l->state], l->config);
    } else {
      weighted_ns += l->problem->weight * l->median_ns;
      cli_time_print(l->median_ns, &time);
      strbuf_addf(out, "%-*s  %-8s  %-8s  %10s  %8.1f  %5.1f%%  %s\n", width, strbuf_text(&title),
                  sweep_states[l->state], origin_name(l->origin), strbuf_text(&time),
                  l->flops / l->median_ns * 1e-3, 100 * l->speed_of_light_ns / l->median_ns, l->config);
    }
    if (title.failed || time.failed) out->failed = true;
    strbuf_free(&title);
    strbuf_free(&time);
  }
  strbuf_addf(out, "%d %s: %d tuned, %d already in the cache, %d failed", n,
              text_plural(n, "problem", "problems"), count[CLI_SWEPT], count[CLI_SKIPPED], count[CLI_FAILED]);
  if (count[CLI_INTERRUPTED] > 0) strbuf_addf(out, ", %d interrupted", count[CLI_INTERRUPTED]);
  strbuf_add(out, "; times by weight add up to ");
  cli_time_print(weighted_ns, out);
  strbuf_add(out, "\n");
}
