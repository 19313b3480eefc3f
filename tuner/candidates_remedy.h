/* What would make a configuration feasible that is not: the reason alone says neither which parameters nor
 * which sizes are meant. */
#ifndef ARKE_TUNER_CANDIDATES_REMEDY_H
#define ARKE_TUNER_CANDIDATES_REMEDY_H

#include "tuner/candidates.h"

/* Adds "; it is with STAGES=2, 3; or at K=128 instead of 100": values of one parameter, of those marked in
 * `given` where any of them helps, else of all; and for each axis the nearest size, the others as they are.
 * Adds nothing where no single change helps. */
void tune_candidates_remedy(const tune_source *s, const ir_problem *p, const target *t, const config *at,
                            const bool given[LIMIT_PARAMS], strbuf *out);

#endif
