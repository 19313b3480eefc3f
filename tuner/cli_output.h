/* Writing: results to standard output, files, and progress to standard error. */
#ifndef ARKE_TUNER_CLI_OUTPUT_H
#define ARKE_TUNER_CLI_OUTPUT_H

#include "tuner/cli_options.h"
#include "tuner/tune.h"

/* Prints to standard output at once; ARKE_ERR_IO with the system's reason (disk full, closed pipe). */
arke_status cli_print(const strbuf *text, arke_error *err);
/* Writes a whole file, replacing it. Where that fails, a file that was not there before is not left behind.
 */
arke_status cli_write_file(const char *path, const void *bytes, size_t n, arke_error *err);
/* The same, so that a reader, or whoever kills the program, finds the old file or the new one and no part:
 * through PATH.part, where PATH is a plain file or not there yet. */
arke_status cli_replace_file(const char *path, const void *bytes, size_t n, arke_error *err);

/* One line on standard error, "arke-tune: " before it. */
void cli_complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Progress: one updating line on a terminal, else a line at each change of phase and every few seconds. */
typedef struct cli_progress {
  const char *label; /* stands before each line: "[3/16] "; "" otherwise */
  bool terminal, color;
  int shown_width; /* of the line that stands on the terminal */
  bool started, interrupted;
  tune_phase phase;
  double last_s; /* elapsed time of the last plain line */
} cli_progress;

void cli_progress_start(cli_progress *p, const char *label);
/* A tune_progress_fn; user is the cli_progress. */
void cli_progress_show(const tune_progress *now, void *user);
/* Clears the updating line, so that other text can follow. */
void cli_progress_end(cli_progress *p);

/* The line's text: phase, done/total, best, failures by cause, time left. */
void cli_progress_text(const tune_progress *now, bool color, strbuf *out);
/* Whether standard error takes colours: a terminal, NO_COLOR unset or empty, TERM not "dumb". */
bool cli_wants_color(bool terminal);

#endif
