/* One lowered kernel on one call: tensors with any strides and given values, the first of its recipes that
 * takes them, every element of every output against the fp64 reference, nothing else written. */
#ifndef ARKE_TUNER_OPERATOR_RUN_H
#define ARKE_TUNER_OPERATOR_RUN_H

#include "runtime/device.h"
#include "templates/template.h"

/* X(NAME, name, meaning): how the tensors of a call lie in memory. */
#define OPERATOR_VIEWS(X)                                                                                    \
  X(DENSE, dense, "without gaps")                                                                            \
  X(PADDED, padded, "rows with gaps of some elements")                                                       \
  X(OFFSET, offset, "from the second element of an aligned block on")                                        \
  X(TRANSPOSED, transposed, "the first axis fastest")                                                        \
  X(BROADCAST, broadcast, "inputs with a stride of 0 along the first axis")

typedef enum operator_view {
#define X(NAME, name, meaning) OPERATOR_##NAME,
  OPERATOR_VIEWS(X)
#undef X
      OPERATOR_VIEW_COUNT,
} operator_view;

/* X(NAME, name, meaning): what inputs hold. Tensors that index others hold places in range either way. */
#define OPERATOR_VALUES(X)                                                                                   \
  X(NORMAL, normal, "random, of deviation 1")                                                                \
  X(SPECIAL, special, "rows with NaN, infinities, zeros, equal values, the extremes of integers")

typedef enum operator_values {
#define X(NAME, name, meaning) OPERATOR_##NAME,
  OPERATOR_VALUES(X)
#undef X
      OPERATOR_VALUES_COUNT,
} operator_values;

const char *operator_view_name(operator_view v);
const char *operator_values_name(operator_values v);

/* The values of an integer input that are limited by more than what it indexes (trial_index.h). */
typedef struct operator_range {
  int64_t from, below; /* from >= below: not limited */
  bool has_other;      /* one in five is `other` */
  int64_t other;
} operator_range;

typedef struct operator_call {
  device *dev;
  int sm_count;
  const ir_problem *problem;
  operator_view view;
  operator_values values;
  uint64_t seed;
  const operator_range *ranges; /* by input */
  int64_t sample;               /* elements of an output that are compared, at most; 0: all */
} operator_call;

/* ARKE_OK where all is right. ARKE_ERR_MISMATCH: an element is not, or something else was written;
 * ARKE_ERR_SHAPE or ARKE_ERR_ARGUMENT: no recipe takes these tensors; ARKE_ERR_FAULT and others are the
 * device's. An outputs without elements is a call that does nothing. */
arke_status operator_run(const operator_call *call, const lowered *l, int64_t *compared, arke_error *err);

#endif
