/* Running candidates on one device: the device worker's inside, without the protocol. Opens the device, holds
 * the tensors and expected values of the current problem, loads a candidate, verifies it and times it. One
 * thread. */
#ifndef ARKE_TUNER_TRIAL_RUNNER_H
#define ARKE_TUNER_TRIAL_RUNNER_H

#include "tuner/comparing.h"
#include "tuner/measure.h"
#include "tuner/trial_launches.h"
#include "tuner/verify.h"

typedef struct tune_runner {
  device *dev;
  bool lent; /* the device is another runner's */
  device_info info;
  arena arena; /* of the problem */
  char *key;   /* which problem is prepared; NULL: none */
  uint64_t seed;
  bool cold; /* candidates are timed by cold runs */
  ir_problem problem;
  tune_tensors tensors;
  recipe_call view; /* the tensors as recipes see them */
  tune_expected expected;
  const struct target *target; /* to compile comparisons for; NULL: the host compares. Set after opening. */
  tune_comparing comparing;
  tune_meter meter; /* dev NULL: none yet */
  /* The first timed candidate stays loaded and is timed again now and then: how clocks have drifted since. */
  struct tune_loaded *anchor;
  tune_burst anchor_burst;
  double anchor_ns, drift, anchored_at_s;
} tune_runner;

typedef struct tune_runner_problem {
  const char *op_text, *bindings;
  uint64_t seed;
  tune_reference reference;
  bool cold; /* tune_is_timed_cold: how candidates are timed, where the device can measure */
} tune_runner_problem;

/* Takes ownership of `dev`. */
arke_status tune_runner_open(tune_runner *r, device *dev, arke_error *err);
/* One for problems that are only verified, on the device of another, which outlives it. */
void tune_runner_open_beside(tune_runner *r, const tune_runner *owner);
void tune_runner_close(tune_runner *r);
/* Makes tensors and expected values, unless this problem is already prepared. */
arke_status tune_runner_prepare(tune_runner *r, const tune_runner_problem *p, arke_error *err);

/* A candidate on the device. */
typedef struct tune_loaded {
  tune_runner *runner;
  arena arena;
  recipe recipe; /* as stored; binding.recipe is the one of its alternatives that takes the tensors */
  tune_binding binding;
  size_t workspace_bytes;
  tune_launches *sets; /* one for each input set bound so far */
  int n_bound;
  device_kernel_info kernel; /* of the first launch */
} tune_loaded;

/* How a candidate failed, beside the arke_error. */
typedef struct tune_verdict {
  cache_outcome outcome; /* VERIFIED if it passed */
  bool context_lost;     /* the device can do no more: the worker must go */
  tune_check check;
} tune_verdict;

/* `image` is PTX text or a cubin. On failure the verdict says what it was and nothing stays loaded. */
arke_status tune_runner_load(tune_runner *r, const void *image, size_t bytes, bool is_ptx,
                             const char *recipe_json, size_t recipe_bytes, tune_loaded **l, tune_verdict *v,
                             arke_error *err);
void tune_runner_unload(tune_loaded *l); /* NULL is allowed */
/* Poisons the outputs, runs once, checks guards, inputs and outputs. */
arke_status tune_runner_verify(tune_loaded *l, tune_verdict *v, arke_error *err);
/* The same for every further alternative of the recipe that takes the tensors: kernels for views, which these
 * tensors would not be served by. */
arke_status tune_runner_verify_others(tune_loaded *l, tune_verdict *v, arke_error *err);

typedef struct tune_quick {
  cache_time time;
  double adjusted_ns; /* median, corrected for the drift of the clocks since the first candidate */
  bool rejected;
} tune_quick;
/* Verifies and times: the device goes on to timing while the host still compares. The first candidate that
 * passes stays as the anchor: *l is then NULL. */
arke_status tune_runner_trial(tune_loaded **l, double reject_ns, tune_quick *q, tune_verdict *v,
                              arke_error *err);
/* Binds all input sets and captures a burst, or prepares cold runs, for finals. The meter is opened when
 * first needed. */
arke_status tune_runner_burst(tune_loaded *l, tune_burst *b, tune_verdict *v, arke_error *err);
/* "l2=cold sets=3 timer=events+graph clocks=as-found" for the record; "l2=flushed …" of cold runs. */
void tune_runner_policy(const tune_runner *r, strbuf *out);

#endif
