/* Checking a run where its results lie: guard zones and inputs against kept copies, outputs against those of
 * the first kernel that passed, by the kernels of comparer.h. What comes to the host is a byte for each row
 * of elements, and the elements that the reference knows. Rows that were reported are looked at again there,
 * so that the verdict is that of tune_compare. */
#ifndef ARKE_TUNER_DEVICE_CHECK_H
#define ARKE_TUNER_DEVICE_CHECK_H

#include "tuner/comparer.h"
#include "tuner/verify.h"

typedef enum tune_zone_kind { ZONE_BEFORE, ZONE_AFTER, ZONE_INPUT, ZONE_OUTPUT } tune_zone_kind;

/* Rows that are compared with kept ones in one launch. */
typedef struct tune_zone {
  tune_zone_kind kind;
  int tensor;
  device_ptr at, kept;
  int64_t rows;
  size_t row_bytes;
  size_t found; /* of the results */
  tune_launches *launches;
} tune_zone;

/* Words of an output that come to the host: those of samples, then those from its end to a round address. */
typedef struct tune_picked {
  int tensor;
  int64_t n, n_behind;
  size_t words; /* of the results */
  tune_launches *launches;
} tune_picked;

typedef struct tune_device_check {
  const tune_comparer *comparer;
  const tune_tensors *tensors;
  arena arena;
  int n_zones, n_picked;
  tune_zone zones[3 * LIMIT_TENSORS];
  tune_picked picked[LIMIT_TENSORS];
  device_ptr results, places, limits;
  size_t results_bytes;
  char *host;           /* the results */
  char *row[2];         /* rows under a second look */
  tune_element *sample; /* by sample, in `host` */
  bool has_baseline;
} tune_device_check;

/* The tensors must be kept (tune_tensors_keep), the comparer's kernels loaded for the outputs' types. */
arke_status tune_device_check_create(const tune_comparer *c, const tune_tensors *t, const tune_expected *e,
                                     tune_device_check *d, arke_error *err);
void tune_device_check_release(tune_device_check *d);
/* Enqueues all comparisons behind the run. */
arke_status tune_device_check_enqueue(const tune_device_check *d, arke_error *err);
/* After a synchronisation: fetches the results, and says as tune_tensors_check whether the run wrote where it
 * should not. */
arke_status tune_device_check_memory(const tune_device_check *d, arke_error *err);
/* Then: the outputs, as tune_expected_check. */
arke_status tune_device_check_outputs(tune_device_check *d, tune_expected *e, tune_tensors *t,
                                      tune_check *check, arke_error *err);

#endif
