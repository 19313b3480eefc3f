/* A device whose kernels take known times: a clock that advances by each launch's true time, times a drift
 * that moves by up to 15 % within seconds, times noise. What a tuner measures on it can be compared with the
 * truth. Under load it heats up towards its power limit, which slows each kernel by a share of its own; while
 * the host captures a graph, as between two candidates of a search, it cools down. A kernel after a fill
 * takes another time than one after a kernel, and events and launches from the host take time of their own.
 */
#ifndef ARKE_TESTS_FAKE_DEVICE_H
#define ARKE_TESTS_FAKE_DEVICE_H

#include "runtime/device.h"

typedef struct fake_device {
  device base;
  double now_ns;
  double drift, period_ns; /* times swing by +-drift with this period */
  double noise;            /* standard deviation of a run's relative error */
  double hiccup;           /* probability that a run takes three times as long */
  double heat, heating_ns; /* 0 cold to 1 at the limit; the time constant */
  double event_ns;         /* an event, and a launch from the host after one, each take this long */
  double tick_ns;          /* events read a multiple of it; 0: any time */
  bool filled, recorded;   /* since the last kernel */
  uint64_t seed, draws;
  bool capturing;
  struct fake_graph *graph; /* being captured */
  long launches;
  long fills;
  int open_objects; /* events, streams, graphs not destroyed, memory not freed */
  int fail_launch;  /* the launch with this number returns an error; 0: none */
} fake_device;

void fake_device_init(fake_device *d, uint64_t seed);
/* What a kernel handle points to. */
typedef struct fake_kernel {
  double true_ns;   /* when cold */
  double power;     /* at the power limit it takes 1 + power times as long */
  double filled_ns; /* instead of true_ns after a fill; 0: the same */
} fake_kernel;

#endif
