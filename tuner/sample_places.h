/* Which elements of an output are compared with the reference: one sequence, which the seed determines. How
 * many of it are evaluated is a matter of what they cost, so that a cheaper reference looks at the same and
 * more. */
#ifndef ARKE_TUNER_SAMPLE_PLACES_H
#define ARKE_TUNER_SAMPLE_PLACES_H

#include "tuner/trial_tensors.h"

/* Of these, all are evaluated whatever they cost: the first and the last element of the output. */
#define TUNE_PLACES_LEAST 2

/* The k-th place: first the output's corners, from the first and the last element on; then places anywhere, a
 * quarter of them in the last row of one axis, and up to eight in a row of the last axis, which often have
 * most of their computation in common. `whole`: all elements, one after the other, follow the corners
 * instead. False: a corner that was there before, since an axis has one element. */
bool tune_sample_place(const tune_tensor *x, bool whole, uint64_t seed, int64_t k,
                       int64_t coords[LIMIT_RANK]);

#endif
