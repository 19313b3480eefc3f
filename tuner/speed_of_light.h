/* What bounds a problem on a device, by its rates (docs/tuning.md, "Measuring"). */
#ifndef ARKE_TUNER_SPEED_OF_LIGHT_H
#define ARKE_TUNER_SPEED_OF_LIGHT_H

#include <stdbool.h>

#include "generator/target.h"
#include "ir/ir.h"

/* No kernel takes less: the bytes that must move at the device's copy rate, or the operations at its matrix
 * rate, whichever takes longer. Nanoseconds. */
double tune_speed_of_light_ns(const ir_problem *p, const target_rates *rates);
/* Whether that is the bytes. */
bool tune_is_memory_bound(const ir_problem *p, const target_rates *rates);

#endif
