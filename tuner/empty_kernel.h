/* A kernel that does nothing: what is left of a timing when it is timed is the timing's own cost. */
#ifndef ARKE_TUNER_EMPTY_KERNEL_H
#define ARKE_TUNER_EMPTY_KERNEL_H

#include "tuner/measure.h"

typedef struct tune_empty_kernel {
  device *dev;
  device_module *module;
  device_kernel *kernel;
} tune_empty_kernel;

/* Fails where the device takes cubins only. The runnable points to *k. */
arke_status tune_empty_kernel_load(device *dev, tune_empty_kernel *k, arke_error *err);
tune_runnable tune_empty_kernel_runnable(tune_empty_kernel *k);
void tune_empty_kernel_unload(tune_empty_kernel *k);

#endif
