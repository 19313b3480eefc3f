/* For the bench: what arke_run costs the host beyond the driver's own launch. Not part of the public API. */
#ifndef ARKE_RUNTIME_OVERHEAD_H
#define ARKE_RUNTIME_OVERHEAD_H

#include "base/error.h"

typedef struct runtime_overhead {
  double run_ns, bare_ns; /* host time of one call: medians over the rounds */
  double overhead_ns;     /* median over the rounds of their difference */
  int rounds, calls;      /* calls of each kind in each round */
} runtime_overhead;

/* Times arke_run against cuLaunchKernelEx of the same kernel with the same, prebuilt arguments, in
 * alternating batches of `calls` (at most 500, so that the driver's queue never fills) over `rounds`, with
 * the device's context current, as in a program that uses the GPU. The plan has one launch and runs on a GPU;
 * it really runs. */
arke_status runtime_launch_overhead_ns(const arke_plan *plan, const DLTensor *const *tensors, int n_tensors,
                                       void *stream, void *workspace, int calls, int rounds,
                                       runtime_overhead *o, arke_error *err);

#endif
