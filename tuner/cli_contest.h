/* An interleaved comparison: contestants run round after round, each round in a new random order, and are
 * compared by ratios of times of one round. No one leaves early, so every median is over the same rounds. */
#ifndef ARKE_TUNER_CLI_CONTEST_H
#define ARKE_TUNER_CLI_CONTEST_H

#include <jansson.h>

#include "tuner/measure.h"

#define CLI_CONTESTANTS_MAX 40

typedef struct cli_contestant {
  const char *name;
  tune_runnable runnable;
  cache_time time; /* result */
} cli_contestant;

typedef struct cli_ratio {
  double median, p10, p90;
} cli_ratio;

typedef struct cli_contest {
  int n, rounds;
  cli_contestant list[CLI_CONTESTANTS_MAX];
  double *times; /* [contestant][round], nanoseconds; malloc'ed */
} cli_contest;

/* Captures, warms up and times all contestants for `rounds` rounds. The caller fills n and list before. */
arke_status cli_contest_run(cli_contest *c, tune_meter *m, int rounds, arke_error *err);
/* Times of `a` over those of `b` within a round: above 1 where b is faster. */
arke_status cli_contest_ratio(const cli_contest *c, int a, int b, cli_ratio *ratio, arke_error *err);
/* The contestant with the least median among [first, n). */
int cli_contest_fastest(const cli_contest *c, int first);
void cli_contest_release(cli_contest *c);

/* {"median", "p10", "p90", "samples"} in nanoseconds; {"median", "p10", "p90"}. */
json_t *cli_contest_time_json(const cache_time *t);
json_t *cli_contest_ratio_json(const cli_ratio *r);

#endif
