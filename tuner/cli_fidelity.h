/* Fidelity of the emulator: the same kernels on the same inputs on two devices, compared element by
 * element. */
#ifndef ARKE_TUNER_CLI_FIDELITY_H
#define ARKE_TUNER_CLI_FIDELITY_H

#include <jansson.h>

#include "tuner/cli_problem.h"

/* What to compare: at each shape of an operator so many configurations, spread over the tiling space so that
 * every value of every parameter that is feasible there occurs as early as it can. */
typedef struct cli_fidelity_plan {
  const char *op;
  dtype type;
  int n_shapes;
  const char *const *shapes; /* as --shape takes them */
  int n_configs;
} cli_fidelity_plan;

typedef struct cli_fidelity_count {
  int runs, identical, differing; /* comparisons of all elements */
  int failed;                     /* a device reported a fault, or the reference disagreed */
  int64_t elements, differing_elements;
} cli_fidelity_count;

/* Opens its own devices: `kind` (CUDA `index`, or the emulator under seed + 1) against the emulator under
 * `seed`. Appends one object a run to `runs`. A run that fails is counted and told on standard error, and the
 * rest go on. The emulators run on all cores. ARKE_ERR_INTERRUPTED after SIGINT or SIGTERM, with what was
 * compared by then counted and appended; another status than ARKE_OK means that nothing could be compared. */
arke_status cli_fidelity_run(const cli_fidelity_plan *plans, int n_plans, const target *t,
                             arke_device_kind kind, int index, uint64_t seed, json_t *runs,
                             cli_fidelity_count *count, arke_error *err);

#endif
