/* What a GPU draws: its energy counter and clock, from NVIDIA's management library where that is installed.
 * The counter moves some times a second, so what is measured should take a good part of one. One thread. */
#ifndef ARKE_BENCH_POWER_METER_H
#define ARKE_BENCH_POWER_METER_H

#include "base/error.h"

typedef struct power_meter power_meter;

/* `library`: a path, or NULL for libnvidia-ml.so.1; `bus`: the GPU's PCI address ("0000:1b:00.0").
 * ARKE_ERR_NOT_FOUND where there is no library, ARKE_ERR_UNSUPPORTED where it, or the GPU, counts no energy.
 */
arke_status power_meter_open(const char *library, const char *bus, power_meter **m, arke_error *err);
void power_meter_close(power_meter *m); /* NULL is fine */

/* Energy since the driver was loaded, and the clock of the SMs at this moment. */
arke_status power_meter_read(const power_meter *m, double *joules, double *megahertz, arke_error *err);

#endif
