/* All points of a tiling space, some parameters outermost: what those decide alone is decided once for all
 * points that share them. */
#ifndef ARKE_TUNER_CANDIDATES_WALK_H
#define ARKE_TUNER_CANDIDATES_WALK_H

#include "ir/space.h"

typedef struct candidates_walk {
  const space *space;
  int n_outer, n_inner;
  int outer[LIMIT_PARAMS],
      inner[LIMIT_PARAMS];       /* parameters by place in the space, the last varies fastest */
  int64_t strides[LIMIT_PARAMS]; /* in the numbers of points, by parameter */
  int64_t outers, inners;        /* combinations of each; their product is the space's size */
} candidates_walk;

/* `first`: bits of the parameters that are to be outermost; 0: as many of the space's first ones as leave a
 * few thousand points to the others. */
void candidates_walk_make(const space *s, uint32_t first, candidates_walk *w);
/* The i-th combination of the outer parameters, with the first values of the inner ones, and its point. */
int64_t candidates_walk_outer(const candidates_walk *w, int64_t i, config *c);
/* On to the next combination of the inner ones; false after the last, with the first values again. */
bool candidates_walk_next(const candidates_walk *w, int digits[LIMIT_PARAMS], config *c, int64_t *point);

#endif
