#include "tuner/cli_cache.h"

#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "cache/cache.h"
#include "tuner/cli_output.h"
#include "tuner/cli_report.h"

typedef struct listing {
  bool json;
  cache *cache;
  strbuf *out;
  int entries, without_kernel;
  arke_status status;
  arke_error *err;
} listing;

static json_t *entry_json(const cache_entry *e, const char *key) {
  bool measured = e->winner.origin == CACHE_ORIGIN_MEASURED;
  json_t *time = json_pack("{s:f, s:o, s:o, s:i}", "median", e->winner.time.median_ns, "p10",
                           measured ? json_real(e->winner.time.p10_ns) : json_null(), "p90",
                           measured ? json_real(e->winner.time.p90_ns) : json_null(), "samples",
                           measured ? e->winner.time.samples : 0);
  return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:s, s:o, s:o, s:o}", "key", cli_json_text(key), "op",
                   cli_json_text(e->problem.op_name), "bindings", cli_json_text(e->problem.bindings),
                   "target", cli_json_text(e->problem.target), "bucket", cli_json_text(e->problem.bucket),
                   "device", cli_json_text(e->environment.device), "origin",
                   measured ? "measured" : "modelled", "config", cli_json_text(e->winner.config), "time_ns",
                   time, "sha256", cli_json_text(e->kernel.sha256));
}

/* An entry is of use only with its kernel. */
static arke_status try_kernel(cache *c, cache_entry e, arke_error *err) {
  arena scratch = ARENA_INIT;
  arke_status status = cache_load_kernel(c, &scratch, &e, err);
  arena_release(&scratch);
  return status;
}

static bool list_entry(const cache_entry *e, void *user) {
  listing *l = user;
  arke_status loads = try_kernel(l->cache, *e, l->err);
  if (loads == ARKE_ERR_CORRUPT || loads == ARKE_ERR_NOT_FOUND) {
    error_clear(l->err);
    l->without_kernel++;
    return true;
  }
  l->status = loads;
  if (loads != ARKE_OK) return false;
  l->entries++;
  if (l->json) {
    strbuf key = STRBUF_INIT;
    cache_key_print(&e->problem, &key);
    l->status = cli_json_line(entry_json(e, strbuf_text(&key)), l->out, l->err);
    strbuf_free(&key);
    return l->status == ARKE_OK;
  }
  strbuf time = STRBUF_INIT;
  cli_time_print(e->winner.time.median_ns, &time);
  strbuf_addf(l->out, "%s %s", e->problem.op_name, e->problem.bindings);
  if (e->problem.bucket[0] != '\0') strbuf_addf(l->out, " (serves %s)", e->problem.bucket);
  strbuf_addf(l->out, "  %s  %s %s on %s  %s %s\n", e->problem.target,
              e->winner.origin == CACHE_ORIGIN_MEASURED ? "measured" : "modelled", strbuf_text(&time),
              e->environment.device, e->winner.template_name, e->winner.config);
  strbuf_free(&time);
  return true;
}

static arke_status list(const cli_settings *s, const char *path, arena *a, strbuf *out, arke_error *err) {
  cache *c;
  int damaged = 0;
  listing l = {.json = s->json, .out = out, .err = err};
  TRY(cache_open(path, CACHE_READ, &c, err));
  l.cache = c;
  arke_status status = cache_each_entry(c, NULL, NULL, a, list_entry, &l, &damaged, err);
  cache_close(c);
  if (status == ARKE_OK) status = l.status;
  if (status == ARKE_OK && !s->json)
    strbuf_addf(out, "%d %s in %s\n", l.entries, text_plural(l.entries, "entry", "entries"), path);
  damaged += l.without_kernel;
  if (damaged > 0)
    cli_complain("%s: %d damaged %s skipped; 'arke-tune cache verify' tells more", path, damaged,
                 text_plural(damaged, "row is", "rows are"));
  return status;
}

static void add_count(int64_t n, const char *one, const char *many, const char *after, strbuf *out) {
  strbuf_addf(out, "%lld %s%s", (long long)n, text_plural(n, one, many), after);
}

static arke_status verify(const cli_settings *s, const char *path, strbuf *out, arke_error *err) {
  cache *c;
  cache_stats n = {0};
  TRY(cache_open(path, CACHE_READ, &c, err));
  arke_status status = cache_verify(c, &n, err);
  cache_close(c);
  TRY(status);
  if (s->json) {
    TRY(cli_json_line(json_pack("{s:o, s:I, s:I, s:I, s:I, s:I, s:I}", "cache", cli_json_text(path),
                                "environments", (json_int_t)n.environments, "problems",
                                (json_int_t)n.problems, "trials", (json_int_t)n.trials, "kernels",
                                (json_int_t)n.kernels, "winners", (json_int_t)n.winners, "damaged",
                                (json_int_t)n.damaged),
                      out, err));
  } else {
    strbuf_addf(out, "%s: ", path);
    add_count(n.problems, "problem", "problems", ", ", out);
    add_count(n.winners, "winner", "winners", ", ", out);
    add_count(n.kernels, "kernel", "kernels", ", ", out);
    add_count(n.trials, "trial", "trials", ", ", out);
    add_count(n.environments, "environment", "environments", "; ", out);
    strbuf_addf(out, "%lld damaged\n", (long long)n.damaged);
  }
  if (n.damaged == 0) return ARKE_OK;
  return error_set(err, ARKE_ERR_CORRUPT, "cache",
                   "%s: %lld damaged %s as missing; tuning replaces what it needs anew, and 'arke-tune cache "
                   "merge %s -o NEW' leaves %s out",
                   path, (long long)n.damaged,
                   text_plural(n.damaged, "row, which counts", "rows, which count"), path,
                   text_plural(n.damaged, "it", "them"));
}

/* Every source is there and sound in structure, before anything is written. */
static arke_status check_sources(const char *const *from, int n, arke_error *err) {
  for (int i = 0; i < n; i++) {
    cache *one;
    cache_stats stats;
    TRY(cache_open(from[i], CACHE_READ, &one, err));
    arke_status status = cache_verify(one, &stats, err);
    cache_close(one);
    TRY(status);
  }
  return ARKE_OK;
}

static arke_status merge(const cli_settings *s, arena *a, const char *const *from, int n, strbuf *out,
                         arke_error *err) {
  const char *into = s->line->texts[CLI_OPT_OUTPUT], *aside = NULL;
  cache *to = NULL, *one = NULL;
  arke_status status = ARKE_OK;
  cache_stats before = {0}, after = {0};
  if (into == NULL || n == 0)
    return cli_usage(
        err,
        "cache merge takes the files to join and the file to write: arke-tune cache merge FILE... -o FILE");
  status = check_sources(from, n, err);
  if (status == ARKE_OK) status = cli_make_parents(a, into, err);
  if (status == ARKE_OK) status = cache_open_set_aside(into, CACHE_CHECK_PAGES, a, &to, &aside, err);
  if (status == ARKE_OK && aside != NULL)
    cli_complain("%s was damaged or not a cache of Arke; it is kept as %s", into, aside);
  if (status == ARKE_OK) status = cache_verify(to, &before, err);
  for (int i = 0; i < n && status == ARKE_OK; i++) {
    status = cache_open(from[i], CACHE_READ, &one, err);
    if (status == ARKE_OK) status = cache_merge(to, one, err);
    cache_close(one);
    one = NULL;
  }
  if (status == ARKE_OK) status = cache_verify(to, &after, err);
  cache_close(to);
  TRY(status);
  if (s->json)
    return cli_json_line(json_pack("{s:o, s:i, s:I, s:I}", "cache", cli_json_text(into), "files", n,
                                   "winners", (json_int_t)after.winners, "new",
                                   (json_int_t)(after.winners - before.winners)),
                         out, err);
  strbuf_addf(out, "%s: joined %d %s; %lld %s, %lld of them new\n", into, n, text_plural(n, "file", "files"),
              (long long)after.winners, text_plural(after.winners, "winner", "winners"),
              (long long)(after.winners - before.winners));
  return ARKE_OK;
}

arke_status cli_cache_run(const cli_settings *s, arena *a, arke_error *err) {
  static const char *const actions[] = {"ls", "verify", "merge"};
  const cli_line *line = s->line;
  if (line->n_operands == 0)
    return cli_usage(err, "cache takes one of ls, verify, merge: arke-tune cache %s",
                     cli_command_table[CLI_CACHE].operands);
  const char *action = line->operands[0], *path = line->n_operands > 1 ? line->operands[1] : NULL;
  size_t which = 0;
  while (which < COUNT_OF(actions) && strcmp(actions[which], action) != 0) which++;
  if (which == COUNT_OF(actions)) {
    const char *nearest = text_nearest(action, actions, COUNT_OF(actions));
    return cli_usage(err, "cache %s: unknown;%s%s%s accepted: ls, verify, merge", cli_printable(a, action),
                     nearest == NULL ? "" : " did you mean ", nearest == NULL ? "" : nearest,
                     nearest == NULL ? "" : "?");
  }
  if (which < 2 && line->n_operands > 2)
    return cli_usage(err, "cache %s takes one file; found %d", action, line->n_operands - 1);
  if (which < 2 && line->given[CLI_OPT_OUTPUT])
    return cli_usage(err, "cache %s writes no file; --output belongs to cache merge", action);
  if (path == NULL && which < 2) TRY(cli_default_cache_path(a, &path, err));
  strbuf out = STRBUF_INIT;
  arke_status status = which == 0   ? list(s, path, a, &out, err)
                       : which == 1 ? verify(s, path, &out, err)
                                    : merge(s, a, line->operands + 1, line->n_operands - 1, &out, err);
  arke_error printing = ARKE_ERROR_INIT;
  arke_status printed = cli_print(&out, &printing);
  strbuf_free(&out);
  if (status == ARKE_OK && printed != ARKE_OK)
    return error_set(err, printed, printing.stage, "%s", printing.text);
  return status;
}
