/* Comparing on the device, or the reason why the host has to: what it takes is compiled and loaded while
 * inputs are made and the reference is evaluated. One thread calls these; nothing fails, since the host can
 * always compare. */
#ifndef ARKE_TUNER_COMPARING_H
#define ARKE_TUNER_COMPARING_H

#include <pthread.h>
#include <semaphore.h>

#include "tuner/device_check.h"

typedef struct tune_comparing {
  bool active;    /* this problem's runs are checked on the device */
  arke_error why; /* else the reason; ARKE_OK: nobody asked for it */
  /* Behind these. */
  tune_comparer comparer; /* stays from problem to problem */
  tune_device_check check;
  dtype types[LIMIT_TENSORS]; /* of the problem's outputs */
  int n_types;
  pthread_t thread;
  sem_t device_is_free;
  bool running, loads; /* loads: not before there are tensors to compare */
  arke_status status;  /* of the thread */
} tune_comparing;

/* In this order, between them whatever else a problem needs. The first compiles, in a thread of its own. */
void tune_comparing_begin(tune_comparing *c, device *dev, const struct target *t, int sm_count,
                          const ir_problem *p);
/* With the problem's tensors on the device: keeps them, and leaves the device to the thread until the end.
 * Not where the tensors would fill most of `memory_bytes`: candidates need some too. */
void tune_comparing_load(tune_comparing *c, tune_tensors *t, int64_t memory_bytes);
/* ARKE_OK, active or not; an error where the device is of no use any more. */
arke_status tune_comparing_end(tune_comparing *c, const tune_tensors *t, const tune_expected *e,
                               arke_error *err);

/* Of an active one, after a run's launches: waits for them, and checks what must not have been written. */
arke_status tune_comparing_wait(const tune_comparing *c, arke_error *err);

/* What was kept of the first kernel that passed may be spoilt: the next one to pass takes its place. */
void tune_comparing_distrust(tune_comparing *c);

void tune_comparing_forget(tune_comparing *c); /* the problem, before its tensors go */
void tune_comparing_close(tune_comparing *c);

#endif
