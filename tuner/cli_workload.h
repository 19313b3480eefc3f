/* Workload files: JSON lists of problems (docs/command.md). Strict: an unknown field, a wrong type or a bad
 * value is an error with the line and the JSON path, so that a slip never tunes something else. */
#ifndef ARKE_TUNER_CLI_WORKLOAD_H
#define ARKE_TUNER_CLI_WORKLOAD_H

#include "tuner/cli_problem.h"

enum { CLI_WORKLOAD_FAULTS = 20 };

typedef struct cli_workload {
  int n_problems;
  cli_problem *problems;                   /* lists are expanded; repeated problems stand once */
  int repeated;                            /* how many were left out for that */
  int n_faults;                            /* all that were found; what can be used is nothing then */
  const char *faults[CLI_WORKLOAD_FAULTS]; /* the first of them, as sentences */
} cli_workload;

/* Reads the file. Errors: "FILE:LINE: problems[2].sizes.M: …" of stage CLI_USAGE; memory is the arena's. Of
 * several faults all but the last are complained of at once, and the last one is the error. */
arke_status cli_workload_read(arena *a, const char *path, cli_workload *w, arke_error *err);
/* The same from text, without a word: the error is the first of w->faults. `path` only names it. */
arke_status cli_workload_parse(arena *a, const char *path, const char *text, size_t length, cli_workload *w,
                               arke_error *err);

#endif
