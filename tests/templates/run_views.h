/* Runs lowered kernels for tests as the runtime would: tensors with any strides, the first way (recipe) that
 * takes them, every launch of it, workspace included; all outputs are compared with the fp64 reference, and
 * whatever is no element of an output must be untouched. */
#ifndef ARKE_TESTS_RUN_VIEWS_H
#define ARKE_TESTS_RUN_VIEWS_H

#include "base/sha256.h"
#include "runtime/device.h"
#include "templates/template.h"

typedef struct run_view {
  bool strided; /* else without gaps */
  int64_t stride[LIMIT_RANK];
  int64_t offset; /* elements from an address aligned to 256 bytes to the first one */
  int64_t below;  /* integers: uniform in [from, below) where from < below, else small ones */
  int64_t from;
  const double *values; /* by place in memory, repeated after `n_values`; NULL: random */
  int n_values;
} run_view;

typedef struct run_views_result {
  arke_status status;
  arke_error err;
  int way;                       /* how many recipes were passed over */
  int64_t elements, wrong;       /* compared; outside the tolerance */
  char first[160];               /* the first wrong element */
  char outputs[SHA256_HEX_SIZE]; /* hash of what outputs' memory has, one behind the other */
  bool intact;                   /* nothing but outputs' elements was written */
} run_views_result;

/* `views` by argument, NULL: all without gaps. `sample` > 0: about so many elements of each output. */
run_views_result run_views(device *d, const ir_problem *p, const lowered *l, int sm_count,
                           const run_view *views, uint64_t seed, int64_t sample);
/* The same where another operator over the same tensors says what the outputs must be. */
run_views_result run_views_against(device *d, const ir_problem *p, const ir_problem *reference,
                                   const lowered *l, int sm_count, const run_view *views, uint64_t seed,
                                   int64_t sample);
/* Strides of a tensor whose dimension `dims[0]` varies fastest, then dims[1], …, each row padded by
 * `padding` elements. */
void run_view_permuted(const ir_problem *p, int tensor, const int *dims, int64_t padding, run_view *view);

#endif
