/* arke-tune bench. */
#ifndef ARKE_TUNER_CLI_BENCH_H
#define ARKE_TUNER_CLI_BENCH_H

#include "tuner/cli_settings.h"

arke_status cli_bench_run(cli_settings *s, arena *a, arke_error *err);

#endif
