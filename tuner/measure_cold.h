/* Timing single runs of a kernel, each after a flush of the L2: measure.h's other way to sample. One thread.
 */
#ifndef ARKE_TUNER_MEASURE_COLD_H
#define ARKE_TUNER_MEASURE_COLD_H

#include "tuner/measure.h"

/* Enqueues n runs (1 to TUNE_COLD_RUNS) at once, each after a flush and between two events of its own, and
 * waits: their times less the meter's overhead, in the order of the runs. */
arke_status tune_cold_runs(tune_meter *m, const tune_runnable *r, int n, double *ns, arke_error *err);
/* Frees what tune_meter_flush_before made; nothing if it was not called. */
void tune_cold_close(tune_meter *m);

#endif
