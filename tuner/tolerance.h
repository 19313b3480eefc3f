/* How far a correct kernel may be from the fp64 reference (docs/tuning.md derives it). */
#ifndef ARKE_TUNER_TOLERANCE_H
#define ARKE_TUNER_TOLERANCE_H

#include <stdint.h>

#include "base/dtype.h"

/* For one element of an output of type `out`: `value` is the reference before its final rounding, `magnitude`
 * the same sum over absolute values (ir_eval), `length` the terms of its longest reduction. The sum of
 *   rounding:     roundoff(out) * |value|, or half the smallest subnormal;
 *   accumulation: u * (4 sqrt(n) + n/4) * (|value| + 8 magnitude / sqrt(n)), u = 2^-24 (2^-53 for f64),
 * where the last factor bounds every partial sum of terms of random sign. */
typedef struct tune_tolerance {
  dtype out;
  double roundoff, smallest; /* of the output's type; smallest: half its least subnormal */
  double accumulation;       /* u * (4 sqrt(n) + n/4) */
  double spread;             /* 8 / sqrt(n) */
} tune_tolerance;

tune_tolerance tune_tolerance_make(dtype out, int64_t length);
double tune_tolerance_allowed(const tune_tolerance *t, double value, double magnitude);
/* Whether `got`, an element of the output, agrees with the reference. NaN agrees with NaN only, and a value
 * beyond the type's range with the infinity or the saturated value that storing it gives. *error: |got -
 * value|, INFINITY where they disagree in kind. */
bool tune_tolerance_agrees(const tune_tolerance *t, double got, double value, double magnitude,
                           double *error);

#endif
