/* Runs lowered kernels on a device for tests: buffers of random inputs, poisoned outputs between guard zones,
 * and a comparison of every output element with the fp64 reference. */
#ifndef ARKE_TESTS_RUN_LOWERED_H
#define ARKE_TESTS_RUN_LOWERED_H

#include "runtime/device.h"
#include "templates/template.h"

typedef struct run_outcome {
  arke_status status; /* of loading, launching and the reference */
  arke_error err;
  int64_t elements, wrong; /* compared; outside the tolerance (NaN included) */
  double worst;            /* largest error as a multiple of the tolerance */
  bool guards_intact;      /* nothing wrote before or after an output */
} run_outcome;

/* Rows of tensors are padded by `row_padding` elements (a multiple of 8 keeps them aligned). `sample` > 0:
 * compares only about so many elements, corners included. */
run_outcome run_lowered(device *d, const ir_problem *p, const lowered *l, int sm_count, int64_t row_padding,
                        uint64_t seed, int64_t sample);

#endif
