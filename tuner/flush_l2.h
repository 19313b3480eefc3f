/* Makes a meter flush the L2 of a device before each cold run. */
#ifndef ARKE_TUNER_FLUSH_L2_H
#define ARKE_TUNER_FLUSH_L2_H

#include "tuner/measure.h"

/* tune_meter_flush_before with twice the L2's size, and a kernel that does nothing; without that where the
 * driver has no compiler for it. */
arke_status tune_flush_l2(tune_meter *m, int64_t l2_bytes, arke_error *err);

#endif
