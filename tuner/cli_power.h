/* What contestants draw: each runs back to back for long enough to be read off the GPU's energy counter,
 * forth and back (A B B A), so that warmth tells for neither. At its power limit a GPU is slower here than in
 * a contest of short samples: less energy a run is more runs a second. */
#ifndef ARKE_TUNER_CLI_POWER_H
#define ARKE_TUNER_CLI_POWER_H

#include "bench/power_meter.h"
#include "tuner/cli_contest.h"

typedef struct cli_power {
  double watts, joules; /* mean; of one run */
  double ns;            /* of one run, at that draw */
  double megahertz;     /* of the SMs at the ends of its turns */
} cli_power;

/* Into power[i] for contestant i. Two turns of half a second each. */
arke_status cli_power_measure(const power_meter *p, tune_meter *m, const cli_contest *c, cli_power *power,
                              arke_error *err);
json_t *cli_power_json(const cli_power *p);

#endif
