/* What tuning several problems shares: the event loop, worker pools, the cache file, facts of the device. */
#ifndef ARKE_TUNER_TUNE_SESSION_H
#define ARKE_TUNER_TUNE_SESSION_H

#include <signal.h>

#include "runtime/device.h"
#include "tuner/interrupts.h"
#include "tuner/tune.h"
#include "tuner/worker_pool.h"

struct tune_session {
  arena arena; /* strings below */
  tune_options options;
  tune_device_kind kind; /* CUDA, EMULATOR or MODEL: AUTO is resolved */
  const target *target;
  target_rates rates; /* of the device at hand, or the target's reference device */
  device_info info;   /* of the GPU, or of the emulator */
  cache_environment environment;
  cache *cache; /* NULL in a dry run */
  const char *set_aside;
  uv_loop_t loop;
  uv_signal_t on_interrupt[INTERRUPTS_COUNT];
  struct sigaction actions_before[INTERRUPTS_COUNT]; /* put back at the end, and so is the mask */
  uv_timer_t ticker;                                 /* wakes the loop for progress and the budget */
  sigset_t mask_before;                              /* the thread's */
  bool loop_open, interrupted;
  int interrupts; /* signals received: the second one ends even what is left to do after the first */
  void (*old_sigpipe)(int);
  tune_pool *compilers, *devices;
  const ir_problem *expected; /* what is tuned next; NULL: unknown */
  struct tune_run *ahead;     /* it, made ready while the one before is in its finals */
};

/* A request for the session's device worker with `what` as its "do"; NULL when memory is out. */
json_t *tune_session_request(const tune_session *s, const char *what);
/* Sends one request to a pool and waits for its answer. The message is the caller's to release. */
arke_status tune_session_ask(tune_session *s, tune_pool *pool, const tune_message *m, double timeout_s,
                             tune_message *reply, arke_error *err);
/* The PTX version of the session's target with the variant that its options make of an operator: what keys
 * hold. The arena's; NULL when memory is out. */
const char *tune_session_ptx(const tune_session *s, const char *op_text, arena *a);
double tune_session_compile_timeout(const tune_session *s);
double tune_session_run_timeout(const tune_session *s);

/* Rates of a GPU that is not the target's reference device, from its clocks and bus, at the reference
 * device's share of its theoretical rates. */
target_rates tune_rates_for(const target *t, const device_info *info);

#endif
