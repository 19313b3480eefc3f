/* A template with a space of five parameters and a made-up landscape of times, for tests of ranking and
 * search. Its cost model is wrong in a known way: it does not know what FAST and the pair (A, B) do. */
#ifndef ARKE_TESTS_FAKE_SPACE_H
#define ARKE_TESTS_FAKE_SPACE_H

#include "tuner/candidates.h"

extern const kernel_template fake_space_template;
extern const tune_templates fake_space_templates;

double fake_space_true_ns(const config *c);
/* Ranks the fake template's space for a matmul problem whose memory is the arena's. */
arke_status fake_space_rank(arena *a, tune_candidates *c, ir_problem *p, arke_error *err);

#endif
