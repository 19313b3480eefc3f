/* arke-tune selftest. */
#ifndef ARKE_TUNER_CLI_SELFTEST_H
#define ARKE_TUNER_CLI_SELFTEST_H

#include "tuner/cli_settings.h"

arke_status cli_selftest_run(cli_settings *s, arena *a, arke_error *err);

#endif
