/* What the texts of a command line mean: numbers, times, devices, paths. Every fault is one sentence that
 * names the option, what was found and what is accepted. */
#ifndef ARKE_TUNER_CLI_SETTINGS_H
#define ARKE_TUNER_CLI_SETTINGS_H

#include "tuner/cli_options.h"
#include "tuner/tune.h"

typedef enum cli_measurement {
  CLI_MEASURE_BASELINE,
  CLI_MEASURE_LAUNCH,
  CLI_MEASURE_COMPILE,
  CLI_MEASURE_TUNING,
  CLI_MEASURE_CONFIGS,
} cli_measurement;

typedef struct cli_settings {
  const cli_line *line;
  tune_options tune; /* strings are argv's or the arena's; cache_path comes with cli_settings_cache */
  dtype type;        /* of a selftest; other commands have one for each type variable (cli_problem.h) */
  bool json;
  int rounds;
  cli_measurement what;
} cli_settings;

arke_status cli_settings_read(const cli_line *line, arena *a, cli_settings *s, arke_error *err);
/* Sets tune.cache_path from --cache, a sweep's --output, or the default place. */
arke_status cli_settings_cache(cli_settings *s, arena *a, arke_error *err);

/* "60s", "500ms", "2m", "1h", "1.5s" in seconds; false for all else, zero and
 * negative times included. */
bool cli_parse_time(const char *text, double *seconds);
/* Bytes as a person reads them: "227 KiB". Arena memory, "" when out. */
const char *cli_bytes_text(arena *a, double bytes);

/* The cache file when none is named, by the XDG base directory specification. */
arke_status cli_default_cache_path(arena *a, const char **path, arke_error *err);
/* Makes the directories above a file, private to the user, where they are missing. */
arke_status cli_make_parents(arena *a, const char *path, arke_error *err);

/* A word for an argument of `text` in a shell, quoted where it needs to be. */
void cli_shell_quote(const char *text, strbuf *out);

#endif
