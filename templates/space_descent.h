/* The best point of a tiling space near a given one, by a model: what templates start from where their space
 * is too large to price as a whole. */
#ifndef ARKE_TEMPLATES_SPACE_DESCENT_H
#define ARKE_TEMPLATES_SPACE_DESCENT_H

#include "ir/space.h"

/* The time of a point, or false where it is not feasible. */
typedef bool (*space_price)(const void *user, const config *c, double *ns);

/* From *at on, moves to the cheapest of all points that differ in one parameter until there is none cheaper:
 * a few hundred prices. *ns: the time of *at, INFINITY where it is not feasible itself. */
void space_descend(const space *s, space_price price, const void *user, config *at, double *ns);

#endif
