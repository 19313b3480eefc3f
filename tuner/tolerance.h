/* How far a correct kernel may be from the fp64 reference (docs/tuning.md derives it). */
#ifndef ARKE_TUNER_TOLERANCE_H
#define ARKE_TUNER_TOLERANCE_H

#include "ir/ir.h"

/* For one element of an output of type `out`: `value` is the reference before its final rounding, `magnitude`
 * the same sum over absolute values (ir_eval), `length` the terms of its longest reduction. The sum of
 *   rounding:     roundoff(out) * |value|, or half the smallest subnormal;
 *   accumulation: u * (4 sqrt(n) + n/4) * (|value| + 8 magnitude / sqrt(n)), u = 2^-24 (2^-53 for f64),
 * where the last factor bounds every partial sum of terms of random sign. n/4 is for matrix units, which cut
 * what they add: where an output depends on no product, every addition rounds to nearest, and it is left out.
 */
typedef struct tune_tolerance {
  dtype out;
  bool exact;                /* only the rounded value itself agrees */
  double roundoff, smallest; /* of the output's type; smallest: half its least subnormal, or what functions
                                may lose near 0 */
  double accumulation;       /* u * (4 sqrt(n) + n/4), or without n/4 */
  double spread;             /* 8 / sqrt(n) */
  double cast;               /* roundoff of casts of computed values inside (tune_rounding); else 0 */
  double updates;            /* of the magnitude, where updates are added in the output's own type; else 0 */
} tune_tolerance;

/* Of sums of products. */
tune_tolerance tune_tolerance_make(dtype out, int64_t length);
/* For an output of a problem: exact where nothing that leads to it rounds. `fast_math` adds the error of the
 * hardware's approximations. Where definitions add to it ("+=") each addition is rounded to its type, which
 * counts as four roundings of the whole magnitude when that type is narrower than f32. */
tune_tolerance tune_tolerance_for(const ir_problem *p, int output, bool fast_math);
double tune_tolerance_allowed(const tune_tolerance *t, double value, double magnitude);
/* Whether `got`, an element of the output, agrees with the reference. NaN agrees with NaN only, and a value
 * beyond the type's range with the infinity or the saturated value that storing it gives. *error: |got -
 * value|, of a saturated value from the end of the range; INFINITY where they disagree in kind. */
bool tune_tolerance_agrees(const tune_tolerance *t, double got, double value, double magnitude,
                           double *error);

/* The magnitude that also allows for what casts inside may move (ir_evaluator_casts), of the kernel's value
 * and of the reference's. */
double tune_tolerance_with_casts(const tune_tolerance *t, double magnitude, double moved);
/* The same where no element was evaluated: `most` is the largest value of an output, which is several times
 * what sums of terms of random sign come to, and casts inside move those by their roundoff at most. */
double tune_tolerance_guess_magnitude(const tune_tolerance *t, double most);
/* How far the outputs of two correct kernels may lie apart, which may err in opposite directions: `relative`
 * times the one's value plus `absolute`. `magnitude`: the largest of the output. */
void tune_tolerance_between(const tune_tolerance *t, double magnitude, double *relative, double *absolute);

#endif
