/* Which outputs have one right value in each element, whatever order a kernel computes in. */
#ifndef ARKE_TUNER_EXACT_OUTPUTS_H
#define ARKE_TUNER_EXACT_OUTPUTS_H

#include "ir/ir.h"

/* What lies between the inputs and an output. */
typedef struct tune_rounding {
  bool rounds;     /* some float arithmetic, function or sum: results differ in their last places */
  bool functions;  /* one that rounds is called */
  bool narrow;     /* a float narrower than f64 takes part */
  bool bytes;      /* sums of products of 8-bit floats, which matrix units add with few digits */
  bool multiplies; /* floats are multiplied somewhere: sums may be a matrix unit's, which cuts and does not
                      round */
  double
      cast; /* the largest roundoff of casts of computed values inside; 0: none, but for an output's last */
} tune_rounding;

tune_rounding tune_rounding_of(const ir_problem *p, int output);

#endif
