/* The one loop over all operators: dtypes, sizes, views, special values, every template that fits with its
 * defaults and with random configurations, on any device, against the fp64 reference. The tests run it on the
 * emulator, `arke-tune selftest` on a GPU. */
#ifndef ARKE_TUNER_OPERATOR_SWEEP_H
#define ARKE_TUNER_OPERATOR_SWEEP_H

#include "generator/target.h"
#include "ir/ir.h"
#include "runtime/device.h"
#include "tuner/operator_run.h"

typedef enum operator_verdict {
  OPERATOR_RIGHT,
  OPERATOR_WRONG,   /* a wrong result, a fault, a kernel that could not be made: `text` says which */
  OPERATOR_REFUSED, /* a kernel was made, and takes no tensors like these */
  OPERATOR_UNTAKEN, /* no template fits; `text` has the templates' reasons */
} operator_verdict;

typedef struct operator_result {
  operator_verdict verdict;
  const char *operator, * bindings; /* "softmax", "T=bf16 M=3 N=7" */
  const char *types;                /* "T=bf16" */
  const char *template_name, *config;
  operator_view view;
  operator_values values;
  int64_t compared; /* elements */
  const char *text;
} operator_result;

typedef struct operator_sweep {
  device *dev;
  const target *target;
  int sm_count;
  uint64_t seed;
  const char *only;   /* the operator of this name, or those whose name begins with "NAME:"; NULL: all */
  int part, parts;    /* every parts-th operator from the part-th on; parts 0 or 1: all */
  bool brief;         /* one choice of dtypes alone, f32 where that is one, and no large size */
  bool full;          /* every size, view and kind of values with every dtype, not with one */
  int configurations; /* random ones of each template beside its defaults */
  int64_t sample;     /* elements compared of each output, 0: all */
  /* Called after each run; strings last for the call. False ends the sweep. */
  bool (*tell)(void *user, const operator_result *r);
  void *user;
} operator_sweep;

/* ARKE_OK also where operators are wrong: `tell` has heard of it. Other statuses: the sweep itself failed, or
 * ARKE_ERR_INTERRUPTED, `tell` ended it. */
arke_status operator_sweep_run(const operator_sweep *s, arke_error *err);

#endif
