/* arke-tune cache ls|verify|merge. */
#ifndef ARKE_TUNER_CLI_CACHE_H
#define ARKE_TUNER_CLI_CACHE_H

#include "tuner/cli_settings.h"

arke_status cli_cache_run(const cli_settings *s, arena *a, arke_error *err);

#endif
