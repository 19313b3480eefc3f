/* How candidates of a problem are timed (docs/tuning.md, "Measuring"). */
#ifndef ARKE_TUNER_TIMING_WAY_H
#define ARKE_TUNER_TIMING_WAY_H

#include <stdbool.h>

#include "generator/target.h"
#include "ir/ir.h"

/* Whether by cold runs, each alone after a flush of the L2; else in bursts of calls one behind another, whose
 * tensors rotate.
 *
 * Where the bytes are the bound, a call's time is that of its first touch of cold memory, and cold runs tell
 * it. Where arithmetic is, clocks and power decide, and bursts show those. Products of matrices are timed in
 * bursts whatever bounds them: a model's layers multiply one behind another, so that a launch begins while
 * the one before drains, and what it leaves of an SM's shared memory, or of a last wave, counts as much as
 * its own time. */
bool tune_is_timed_cold(const ir_problem *p, const target_rates *rates);

#endif
