/* Tuning from the command line: one problem, or every problem of a workload file. */
#ifndef ARKE_TUNER_CLI_TUNE_H
#define ARKE_TUNER_CLI_TUNE_H

#include "tuner/cli_problem.h"

/* Tunes the problem of --op and --shape and prints the result; also --list-configs and --dry-run. */
arke_status cli_tune_run(cli_settings *s, arena *a, arke_error *err);
/* Tunes the problems of a workload file one after the other. A failed one is reported and passed over;
 * ARKE_ERR_NOT_FOUND when none worked. */
arke_status cli_sweep_run(cli_settings *s, arena *a, arke_error *err);

/* One problem in a session of its own, with progress lines that begin with `label`. *r is the arena's. */
arke_status cli_tune_once(const tune_options *o, const ir_problem *p, const char *label, arena *a,
                          tune_result *r, arke_error *err);

/* One problem in *session, which is opened first where it is NULL. A cache file that turns out damaged is
 * set aside, and the problem is tuned once more, in a new session on a new file. */
arke_status cli_tune_in_session(const tune_options *o, tune_session **session, const ir_problem *p,
                                const char *label, arena *a, tune_result *r, arke_error *err);

/* Says where a damaged cache file went. */
void cli_tell_set_aside(const tune_result *r);
/* Says so, and returns true, if the session has met rows of its cache that are damaged. */
bool cli_tell_damaged_rows(const tune_session *s);

/* Makes the directory of --dump if it is missing, and tries whether files can be written there. */
arke_status cli_dump_prepare(const char *directory, arena *a, arke_error *err);
/* Writes the winner's files into a directory that was prepared: operator.txt, kernel.ll, kernel.ptx,
 * kernel.cubin, recipe.json, trial.json. What there is none of is left out. */
arke_status cli_dump(const char *directory, const cli_problem *p, const tune_result *r, arke_error *err);

#endif
