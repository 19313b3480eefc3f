#include "tuner/cli_settings.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/text.h"

bool cli_parse_time(const char *text, double *seconds) {
  static const struct {
    const char *unit;
    double seconds;
  } units[] = {{"ms", 1e-3}, {"s", 1}, {"m", 60}, {"h", 3600}}; /* "ms" before "s": suffixes */
  enum { LONGEST = 31 };
  size_t length = strlen(text);
  if (length > LONGEST || !isdigit((unsigned char)text[0])) return false;
  for (size_t i = 0; i < COUNT_OF(units); i++) {
    size_t n = strlen(units[i].unit);
    if (length <= n || strcmp(text + length - n, units[i].unit) != 0) continue;
    char number[LONGEST + 1];
    memcpy(number, text, length - n);
    number[length - n] = '\0';
    if (strspn(number, "0123456789.") != length - n) return false;
    double value;
    if (!text_to_f64(number, &value)) return false;
    *seconds = value * units[i].seconds;
    return *seconds > 0;
  }
  return false;
}

const char *cli_bytes_text(arena *a, double bytes) {
  static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < COUNT_OF(units)) {
    bytes /= 1024;
    unit++;
  }
  const char *text = arena_printf(a, "%.*f %s", unit == 0 || bytes >= 100 ? 0 : 1, bytes, units[unit]);
  return text == NULL ? "" : text;
}

arke_status cli_default_cache_path(arena *a, const char **path, arke_error *err) {
  const char *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  if (base != NULL && base[0] == '/') { /* relative ones are to be ignored, says the specification */
    *path = arena_printf(a, "%s/arke/tuned.arke", base);
  } else if (home != NULL && home[0] != '\0') {
    *path = arena_printf(a, "%s/.cache/arke/tuned.arke", home);
  } else {
    return cli_usage(
        err, "no place for the cache: neither XDG_CACHE_HOME nor HOME is set; name it with --cache FILE");
  }
  return *path == NULL ? error_memory(err, "cache") : ARKE_OK;
}

arke_status cli_make_parents(arena *a, const char *path, arke_error *err) {
  char *part = arena_strdup(a, path);
  if (part == NULL) return error_memory(err, "cache");
  for (char *slash = strchr(part + 1, '/'); slash != NULL && slash[1] != '\0';
       slash = strchr(slash + 1, '/')) {
    *slash = '\0';
    if (mkdir(part, 0700) != 0 && errno != EEXIST)
      return error_set(err, ARKE_ERR_IO, "cache", "cannot make the directory %s for %s: %s", part, path,
                       strerror(errno));
    *slash = '/';
  }
  return ARKE_OK;
}

void cli_shell_quote(const char *text, strbuf *out) {
  static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=+@%";
  if (text[0] != '\0' && strspn(text, plain) == strlen(text)) {
    strbuf_add(out, text);
    return;
  }
  strbuf_add(out, "'");
  for (const char *c = text; *c != '\0'; c++) {
    if (*c == '\'')
      strbuf_add(out, "'\\''");
    else
      strbuf_add_bytes(out, c, 1);
  }
  strbuf_add(out, "'");
}

static arke_status read_count(const cli_line *line, cli_option option, int64_t min, int64_t max, arena *a,
                              int64_t *value, arke_error *err) {
  const char *text = line->texts[option];
  if (text == NULL || text_to_i64(text, strlen(text), min, max, value)) return ARKE_OK;
  return cli_usage(err, "--%s %s: not a whole number from %lld to %lld", cli_option_table[option].name,
                   cli_printable(a, text), (long long)min, (long long)max);
}

/* Index of the option's text among `names`. */
static arke_status read_choice(const cli_line *line, cli_option option, const char *const *names, size_t n,
                               arena *a, int *choice, arke_error *err) {
  const char *text = line->texts[option];
  for (size_t i = 0; i < n; i++) {
    if (strcmp(names[i], text) != 0) continue;
    *choice = (int)i;
    return ARKE_OK;
  }
  const char *list = "", *nearest = text_nearest(text, names, n);
  for (size_t i = 0; i < n; i++) {
    list = arena_printf(a, "%s%s%s", list, i == 0 ? "" : i + 1 == n ? " or " : ", ", names[i]);
    if (list == NULL) return error_memory(err, CLI_USAGE);
  }
  return cli_usage(err, "--%s %s: unknown;%s%s%s accepted: %s", cli_option_table[option].name,
                   cli_printable(a, text), nearest == NULL ? "" : " did you mean ",
                   nearest == NULL ? "" : nearest, nearest == NULL ? "" : "?", list);
}

static arke_status read_dtype(const cli_line *line, arena *a, dtype *type, arke_error *err) {
  const char *names[DTYPE_COUNT];
  int choice = 0;
  for (int t = 0; t < DTYPE_COUNT; t++) names[t] = dtype_name((dtype)t);
  TRY(read_choice(line, CLI_OPT_DTYPE, names, DTYPE_COUNT, a, &choice, err));
  *type = (dtype)choice;
  return ARKE_OK;
}

static arke_status read_target(const cli_line *line, arena *a, const target **t, arke_error *err) {
  *t = NULL;
  if (line->texts[CLI_OPT_TARGET] == NULL) return ARKE_OK;
  const char **names = arena_array(a, (size_t)target_count(), sizeof *names);
  if (names == NULL) return error_memory(err, CLI_USAGE);
  int choice = 0;
  for (int i = 0; i < target_count(); i++) names[i] = target_get(i)->name;
  TRY(read_choice(line, CLI_OPT_TARGET, names, (size_t)target_count(), a, &choice, err));
  *t = target_get(choice);
  return ARKE_OK;
}

static arke_status read_device(const cli_line *line, arena *a, tune_options *o, arke_error *err) {
  /* In the order of tune_device_kind. */
  static const char *const names[] = {"auto", "cuda", "emulator", "model"};
  const char *text = line->texts[CLI_OPT_DEVICE];
  if (strncmp(text, "cuda:", 5) == 0) {
    int64_t index;
    if (!text_to_i64(text + 5, strlen(text + 5), 0, 1023, &index))
      return cli_usage(err, "--device %s: after 'cuda:' comes the number of the GPU, from 0",
                       cli_printable(a, text));
    o->device = TUNE_DEVICE_CUDA;
    o->device_index = (int)index;
    return ARKE_OK;
  }
  int choice = 0; /* "cuda:i" is dealt with above; the choices name the rest */
  TRY(read_choice(line, CLI_OPT_DEVICE, names, COUNT_OF(names), a, &choice, err));
  o->device = (tune_device_kind)choice;
  return ARKE_OK;
}

static arke_status read_budget(const cli_line *line, arena *a, tune_options *o, arke_error *err) {
  static const char *const efforts[] = {"quick", "full", "exhaustive"}; /* in the order of tune_effort */
  int effort = 0;
  TRY(read_choice(line, CLI_OPT_EFFORT, efforts, COUNT_OF(efforts), a, &effort, err));
  o->effort = (tune_effort)effort;
  const char *text = line->texts[CLI_OPT_BUDGET];
  if (!cli_parse_time(text, &o->budget_s))
    return cli_usage(
        err,
        "--budget %s: not a time; accepted: a number above 0 with ms, s, m or h, like 500ms, 60s, 2m, 1h",
        cli_printable(a, text));
  if (o->effort == TUNE_EXHAUSTIVE && !line->given[CLI_OPT_BUDGET]) o->budget_s = 0;
  return ARKE_OK;
}

/* Later sentences hold the text as it is. */
static arke_status check_config_text(const char *text, arena *a, arke_error *err) {
  for (const char *c = text; c != NULL && *c != '\0'; c++)
    if ((unsigned char)*c < 0x20 || (unsigned char)*c >= 0x7f)
      return cli_usage(err, "--config %s: NAME=VALUE,NAME=VALUE,... is accepted, in letters of ASCII",
                       cli_printable(a, text));
  return ARKE_OK;
}

arke_status cli_settings_read(const cli_line *line, arena *a, cli_settings *s, arke_error *err) {
  static const char *const measurements[] = {"baseline", "launch", "compile", "tuning",
                                             "configs"}; /* cli_measurement */
  static const char *const baselines[] = {"cublas"};
  *s = (cli_settings){.line = line, .json = line->given[CLI_OPT_JSON]};
  static const char *const maths[] = {"exact", "fast"};
  tune_options *o = &s->tune;
  int64_t trials = 0, seed = 0, jobs = 0, rounds = 0;
  int what = 0, baseline = 0, math = 0;
  if (line->command == CLI_SELFTEST) TRY(read_dtype(line, a, &s->type, err));
  TRY(read_target(line, a, &o->target, err));
  TRY(read_device(line, a, o, err));
  TRY(read_budget(line, a, o, err));
  TRY(read_count(line, CLI_OPT_TRIALS, 1, 1000000, a, &trials, err));
  TRY(read_count(line, CLI_OPT_SEED, 0, INT64_MAX, a, &seed, err));
  TRY(read_count(line, CLI_OPT_JOBS, 1, 1024, a, &jobs, err));
  TRY(read_count(line, CLI_OPT_ROUNDS, 1, 100000, a, &rounds, err));
  TRY(read_choice(line, CLI_OPT_WHAT, measurements, COUNT_OF(measurements), a, &what, err));
  TRY(read_choice(line, CLI_OPT_MATH, maths, COUNT_OF(maths), a, &math, err));
  TRY(read_choice(line, CLI_OPT_BASELINE, baselines, COUNT_OF(baselines), a, &baseline, err));
  if (line->given[CLI_OPT_DUMP] && line->texts[CLI_OPT_DUMP][0] == '\0')
    return cli_usage(err, "--dump '': the name of the directory is empty");
  TRY(check_config_text(line->texts[CLI_OPT_CONFIG], a, err));
  o->trials = (int)trials;
  o->seed = (uint64_t)seed;
  o->jobs = (int)jobs;
  o->config = line->texts[CLI_OPT_CONFIG];
  o->bucket = line->given[CLI_OPT_BUCKET] ? line->texts[CLI_OPT_BUCKET] : "";
  o->fast_math = math == 1;
  o->check_indices = line->given[CLI_OPT_CHECK_INDICES];
  o->dry_run = line->given[CLI_OPT_DRY_RUN];
  o->keep_llvm_ir = line->given[CLI_OPT_DUMP];
  s->rounds = (int)rounds;
  s->what = (cli_measurement)what;
  return ARKE_OK;
}

arke_status cli_settings_cache(cli_settings *s, arena *a, arke_error *err) {
  const cli_line *line = s->line;
  tune_options *o = &s->tune;
  const char *named = line->texts[CLI_OPT_CACHE];
  if (line->command == CLI_SWEEP && line->texts[CLI_OPT_OUTPUT] != NULL) {
    if (named != NULL)
      return cli_usage(err, "--output and --cache both name the cache file of the sweep; give one");
    named = line->texts[CLI_OPT_OUTPUT];
  }
  if (named == NULL) return cli_default_cache_path(a, &o->cache_path, err);
  if (named[0] == '\0') return cli_usage(err, "--cache '': the name of the cache file is empty");
  o->cache_path = named;
  return ARKE_OK;
}
