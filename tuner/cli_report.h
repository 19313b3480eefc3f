/* What stands on standard output: the result of a problem as a table for a person or as one JSON object, and
 * the summary of a sweep. Pure formatting: nothing here prints. */
#ifndef ARKE_TUNER_CLI_REPORT_H
#define ARKE_TUNER_CLI_REPORT_H

#include <jansson.h>

#include "tuner/cli_problem.h"

/* "812 ns", "178.2 us", "1.204 ms". */
void cli_time_print(double ns, strbuf *out);
/* "matmul 4096x4096x4096 bf16". */
void cli_problem_title(const cli_problem *p, strbuf *out);
/* Reasons and counts of an array indexed by template_reason or cache_outcome, those above 0, "a 3, b 1". */
void cli_pruned_print(const int64_t *pruned, strbuf *out);
void cli_failed_print(const int *failed, strbuf *out);
/* Failed trials: every outcome that is neither a success nor a duplicate. */
int cli_failed_total(const int *failed);
bool cli_outcome_failed(cache_outcome o);

/* The command that builds exactly the winner, for a shell, without a newline. */
void cli_reproduce_print(const cli_settings *s, const cli_problem *p, const tune_result *r, strbuf *out);
/* The table, the line "reproduce: …" and, for a modelled entry, the last line that says so. */
void cli_result_print(const cli_settings *s, const cli_problem *p, const tune_result *r, strbuf *out);
/* The object documented in docs/command.md; a new reference, NULL when memory is out. */
json_t *cli_result_json(const tune_result *r);
json_t *cli_trials_json(const tune_trials *t);

/* One line of a sweep's summary. */
typedef enum cli_sweep_state { CLI_SWEPT, CLI_SKIPPED, CLI_FAILED, CLI_INTERRUPTED } cli_sweep_state;
typedef struct cli_sweep_line {
  const cli_problem *problem;
  cli_sweep_state state;
  cache_origin origin;
  double median_ns, speed_of_light_ns, flops;
  const char *config; /* "gemm BLOCK_M=…"; or the sentence about the failure or the interruption */
} cli_sweep_line;
/* The object of a problem that failed: "state", "problem" and the sentence as "error". */
json_t *cli_failed_json(const char *problem, const char *why);
/* The object of a problem that was skipped: the fields of a result that an entry holds, and "state". */
json_t *cli_stored_json(const cache_entry *e, const cli_sweep_line *line, const char *cache_path);
void cli_sweep_print(const cli_sweep_line *lines, int n, strbuf *out);

/* A JSON string of a text that may hold any bytes, as names of files do: what is not UTF-8 becomes U+FFFD. A
 * new reference, NULL when memory is out. */
json_t *cli_json_text(const char *text);
/* Appends the object and a newline, and releases it; ARKE_ERR_MEMORY when it is NULL or cannot be written. */
arke_status cli_json_line(json_t *object, strbuf *out, arke_error *err);

#endif
