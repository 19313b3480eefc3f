/* What can be listed without tuning: operators, tiling spaces, the ranking of a dry run, versions. */
#ifndef ARKE_TUNER_CLI_LIST_H
#define ARKE_TUNER_CLI_LIST_H

#include "tuner/cli_problem.h"

/* Operators with the axes of --shape and the element types that a template serves on the target. */
arke_status cli_list_operators(const target *t, bool json, strbuf *out, arke_error *err);
/* Parameters, values and meanings of each template that covers the problem; points, and how many are
 * feasible. */
arke_status cli_list_configs(const cli_problem *p, const target *t, bool json, strbuf *out, arke_error *err);
/* Counts of the pruning by reason, and the leading configurations with their modelled times. */
arke_status cli_list_ranking(const cli_problem *p, const target *t, bool json, strbuf *out, arke_error *err);
void cli_list_versions(strbuf *out);

#endif
