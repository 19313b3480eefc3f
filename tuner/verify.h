/* Checking a kernel's outputs (docs/tuning.md): a sample of elements against the fp64 reference, all elements
 * against the first kernel that passed. The expected values are computed once a problem. */
#ifndef ARKE_TUNER_VERIFY_H
#define ARKE_TUNER_VERIFY_H

#include "tuner/tolerance.h"
#include "tuner/trial_tensors.h"

typedef struct tune_sample {
  int output;     /* tensor */
  int64_t offset; /* element of it */
  double value, magnitude;
} tune_sample;

typedef struct tune_expected {
  int n;
  tune_sample *samples;
  tune_tolerance tolerance[LIMIT_TENSORS]; /* by tensor; outputs only */
  double scale[LIMIT_TENSORS];             /* root of the mean square of the sampled finite values */
  double magnitude[LIMIT_TENSORS];         /* largest magnitude of a sample */
  void *baseline[LIMIT_TENSORS];           /* outputs of the first verified kernel, or NULL */
} tune_expected;

typedef struct tune_reference {
  int samples;    /* of all outputs; 0: none, then only kernels are compared with one another */
  double limit_s; /* about, by the evaluator's work, so that one seed gives one sample (tuning.md) */
  bool fast_math; /* as in tune_tolerance_for */
} tune_reference;

/* Evaluates elements of every output (sample_places.h), or all of it where it is no more than its share of
 * the samples. The tensors' inputs must be filled. */
arke_status tune_expected_compute(const tune_tensors *t, const tune_reference *r, uint64_t seed,
                                  tune_expected *e, arke_error *err);
/* Seconds that the reference takes for one element of the output that costs most: a guess by its operations.
 */
double tune_reference_s(const ir_problem *p);
void tune_expected_release(tune_expected *e);

/* How near the worst element came, both relative to the output's scale. */
typedef struct tune_check {
  double error, allowed;
} tune_check;

/* An element in host memory: number `at` of an array of its tensor's type. */
typedef struct tune_element {
  const void *data;
  int64_t at;
} tune_element;

/* Compares the samples alone; got[k] is sample k. ARKE_ERR_MISMATCH as below. */
arke_status tune_expected_check_samples(const tune_expected *e, const tune_tensors *t,
                                        const tune_element *got, tune_check *check, arke_error *err);
/* ARKE_ERR_MISMATCH: element `offset` of an output is not what it is `against` ("the reference"). */
arke_status tune_expected_mismatch(const tune_tensors *t, int tensor, int64_t offset, tune_element got,
                                   double want, double allowed, const char *against, arke_error *err);
/* The same of the first verified kernel's outputs, `want`: an element that tune_compare refused. */
arke_status tune_expected_differs(const tune_expected *e, const tune_tensors *t, int tensor, int64_t offset,
                                  tune_element got, tune_element want, arke_error *err);
/* How far two kernels' outputs may lie apart (tune_tolerance_between). */
void tune_expected_between(const tune_expected *e, int tensor, double *relative, double *absolute);
/* Whether so many elements of an output were evaluated that the largest magnitude of them is about that of
 * all. Few of attention, which are costly, need have none of the first queries, whose outputs and errors are
 * the largest. */
bool tune_expected_knows_magnitude(const tune_expected *e, const tune_tensors *t, int tensor);
/* Else the largest of its values tells it, too. */
void tune_expected_guess_magnitude(tune_expected *e, int tensor, double largest);
/* The largest finite absolute value of n; 0: there is none. */
double tune_largest(dtype t, const void *values, int64_t n);

/* Compares the fetched outputs (tune_tensors_fetch). ARKE_ERR_MISMATCH with place, value, reference and
 * tolerance. The first outputs to pass become the baseline of later ones. */
arke_status tune_expected_check(tune_expected *e, const tune_tensors *t, tune_check *check, arke_error *err);

#endif
