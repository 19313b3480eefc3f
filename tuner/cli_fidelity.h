/* Fidelity of the emulator: the same kernels on the same inputs on two devices, compared element by
 * element. */
#ifndef ARKE_TUNER_CLI_FIDELITY_H
#define ARKE_TUNER_CLI_FIDELITY_H

#include <jansson.h>

#include "tuner/candidates.h"
#include "tuner/cli_problem.h"

/* What to compare: at each shape of an operator so many configurations of one template, spread over its
 * tiling space so that every value of every parameter that is feasible there, then every pair of values of
 * two, occurs as early as it can. */
typedef struct cli_fidelity_plan {
  const char *op, *template;
  dtype type;
  int n_shapes;
  const char *const *shapes; /* as --shape takes them */
  int n_configs;
} cli_fidelity_plan;

/* At most `wanted` of the candidates, which are of one template, into chosen[0..*n). The same for a seed. */
arke_status cli_fidelity_choose(const tune_candidates *c, int wanted, uint64_t seed, config *chosen, int *n,
                                arke_error *err);

typedef struct cli_fidelity_count {
  int runs, identical, differing; /* comparisons of all elements */
  int failed;                     /* a device reported a fault, or the reference disagreed */
  int64_t elements, differing_elements;
} cli_fidelity_count;

typedef struct cli_fidelity_options {
  const target *target;
  arke_device_kind kind; /* CUDA `index`, or the emulator under seed + 1, */
  int index;
  uint64_t seed;        /* against the emulator under `seed` */
  void (*each)(void *); /* called after each comparison; NULL: nobody is */
  void *user;
  json_t *runs; /* gets an object a comparison */
  cli_fidelity_count *count;
} cli_fidelity_options;

/* Opens its own devices. A run that fails is counted and told on standard error, and the rest go on. The
 * emulators run on all cores. ARKE_ERR_INTERRUPTED after SIGINT or SIGTERM, with what was compared by then
 * counted and appended; another status than ARKE_OK means that nothing could be compared. */
arke_status cli_fidelity_run(const cli_fidelity_plan *plans, int n_plans, const cli_fidelity_options *options,
                             arke_error *err);

#endif
