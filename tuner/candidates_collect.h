/* Asking every point of every fitting space whether it is feasible, on all cores. */
#ifndef ARKE_TUNER_CANDIDATES_COLLECT_H
#define ARKE_TUNER_CANDIDATES_COLLECT_H

#include "tuner/candidates.h"

/* Fills `ranked`, in no order, and `pruned`. Templates' functions are called from several threads at once.
 * False: out of memory. */
bool tune_candidates_collect(const ir_problem *p, const target *t, const target_rates *rates,
                             tune_candidates *c);
/* The model's time of a feasible point. A model that fails on one must not hide it at the front nor break
 * the order: such a point comes last. */
double tune_candidates_model_ns(const tune_source *s, const ir_problem *p, const target *t,
                                const target_rates *rates, const config *at);

#endif
