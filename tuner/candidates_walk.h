/* All points of a tiling space, some parameters outermost: what those decide alone is decided once for all
 * points that share them. */
#ifndef ARKE_TUNER_CANDIDATES_WALK_H
#define ARKE_TUNER_CANDIDATES_WALK_H

#include "ir/space.h"

enum { WALK_LEVELS = 4 };

typedef struct candidates_walk {
  const space *space;
  int n_outer, n_inner;
  int outer[LIMIT_PARAMS],
      inner[LIMIT_PARAMS];       /* parameters by place in the space, the last varies fastest */
  int64_t strides[LIMIT_PARAMS]; /* in the numbers of points, by parameter */
  int64_t outers, inners;        /* combinations of each; their product is the space's size */
  int ends[WALK_LEVELS];         /* inner parameters that a level has with those before it; of the first: 0 */
  int64_t below[WALK_LEVELS];    /* points that share a combination of those and of the outer ones */
} candidates_walk;

/* levels: bits of the parameters that are to be outermost, then of those to come next, and so on; n_levels 0:
 * outermost are as many of the space's first ones as leave a few thousand points to the others. */
void candidates_walk_make(const space *s, const uint32_t *levels, int n_levels, candidates_walk *w);
/* The i-th combination of the outer parameters, with the first values of the inner ones, and its point. */
int64_t candidates_walk_outer(const candidates_walk *w, int64_t i, config *c);
/* On to the next combination of the inner ones among the first n, n_inner for all; the others have their
 * first values. Which one took its next value: those before it are as they were. -1 after the last, with the
 * first values again. */
int candidates_walk_next(const candidates_walk *w, int n, int digits[LIMIT_PARAMS], config *c,
                         int64_t *point);

#endif
