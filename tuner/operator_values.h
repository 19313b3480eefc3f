/* What the inputs of an operator's test hold. */
#ifndef ARKE_TUNER_OPERATOR_VALUES_H
#define ARKE_TUNER_OPERATOR_VALUES_H

#include "tuner/operator_run.h"

typedef struct operator_filling {
  dtype type;
  operator_values values;
  operator_range range;
  int64_t row; /* elements of the last axis */
  uint64_t seed;
} operator_filling;

/* The value of an element, before it is stored. */
double operator_value(const operator_filling *f, int64_t element);

#endif
