/* Comparing whole tensors quickly. Compiled with full optimisation: tens of millions of elements a candidate.
 */
#ifndef ARKE_TUNER_COMPARE_H
#define ARKE_TUNER_COMPARE_H

#include <stdint.h>

#include "base/dtype.h"

/* First element with |a - b| > relative * |b| + absolute, or NaN in one only, or different infinities; -1
 * when there is none. */
int64_t tune_compare(dtype t, const void *a, const void *b, int64_t n, double relative, double absolute);

#endif
