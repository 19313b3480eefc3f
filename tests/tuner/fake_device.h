/* A device whose kernels take known times: a clock that advances by each launch's true time, times a drift
 * that moves by up to 15 % within seconds, times noise. What a tuner measures on it can be compared with the
 * truth. */
#ifndef ARKE_TESTS_FAKE_DEVICE_H
#define ARKE_TESTS_FAKE_DEVICE_H

#include "runtime/device.h"

typedef struct fake_device {
  device base;
  double now_ns;
  double drift, period_ns; /* times swing by +-drift with this period */
  double noise;            /* standard deviation of a run's relative error */
  double hiccup;           /* probability that a run takes three times as long */
  uint64_t seed, draws;
  bool capturing;
  struct fake_graph *graph; /* being captured */
  long launches;
  int open_objects; /* events, streams, graphs not destroyed */
  int fail_launch;  /* the launch with this number returns an error; 0: none */
} fake_device;

void fake_device_init(fake_device *d, uint64_t seed);
/* The k-th kernel handle stands for true time `ns`. */
typedef struct fake_kernel {
  double true_ns;
} fake_kernel;

#endif
