/* A tuned problem as an inference process uses it: its winner from a cache file through arke_open,
 * arke_plan_create and arke_run, on the tuner's tensors. */
#ifndef ARKE_TUNER_CLI_TUNED_H
#define ARKE_TUNER_CLI_TUNED_H

#include "tuner/cli_call.h"
#include "tuner/cli_problem.h"
#include "tuner/measure.h"

typedef struct cli_tuned {
  arke_context *ctx;
  arke_plan *plan;
  arke_plan_info info; /* strings live as long as the plan */
  const tune_tensors *tensors;
  cli_call *calls; /* one for each input set */
  device_ptr workspace;
} cli_tuned;

/* Opens the problem's measured winner, exactly. ARKE_ERR_NOT_TUNED or ARKE_ERR_NOT_FOUND (no such file) when
 * there is none. `tensors` and their device must outlive it. */
arke_status cli_tuned_open(const char *cache_path, const char *op, const tune_tensors *tensors,
                           const device_info *info, cli_tuned *t, arke_error *err);
void cli_tuned_close(cli_tuned *t);
/* For a meter or a contest; `t` must stay where it is. */
tune_runnable cli_tuned_runnable(cli_tuned *t);

#endif
