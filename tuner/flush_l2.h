/* Makes a meter flush the L2 of a device before each cold run. */
#ifndef ARKE_TUNER_FLUSH_L2_H
#define ARKE_TUNER_FLUSH_L2_H

#include "tuner/measure.h"

/* tune_meter_flush_before with twice the L2's size, reads, and a kernel that does nothing; without those
 * where the driver has no compiler for them. */
arke_status tune_flush_l2(tune_meter *m, int64_t l2_bytes, arke_error *err);

/* A reader of memory, but for what is left of a multiple of 64 KiB. The device must outlive it; the caller
 * releases it. */
arke_status tune_flush_reader_open(device *dev, tune_flush_reader *reader, arke_error *err);

#endif
