/* Tiling spaces: a template's tuning parameters as one table, and points in it. */
#ifndef ARKE_IR_SPACE_H
#define ARKE_IR_SPACE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/error.h"
#include "base/limits.h"
#include "base/strbuf.h"

typedef struct space_param {
  const char *name;    /* "BLOCK_M" */
  const char *meaning; /* one line for --list-configs and docs */
  int n_values;
  int values[LIMIT_PARAM_VALUES]; /* ascending; the order is the neighbourhood */
} space_param;

typedef struct space {
  const char *template_name;
  int n_params;
  const space_param *params;
} space;

/* Parameters that only order the same work (which tile after which, which way round) or say how much of K is
 * in flight, by the name they have in every template. Configurations that agree in all others are a family:
 * their times lie within a few per cent, and what a power limit does to one it does to all. What changes a
 * tile, who computes it, which CTAs share their loads (CLUSTER_M) or an SM (PERSISTENT) makes another family.
 */
#define SPACE_VARIANTS(X)                                                                                    \
  X("BLOCK_K")                                                                                               \
  X("STAGES")                                                                                                \
  X("RASTER")                                                                                                \
  X("GROUP")                                                                                                 \
  X("SWAP")

static inline bool space_param_is_variant(const space_param *p) {
#define X(NAME)                                                                                              \
  if (strcmp(p->name, NAME) == 0) return true;
  SPACE_VARIANTS(X)
#undef X
  return false;
}

/* A point: one value per parameter, in the space's order. */
typedef struct config {
  int values[LIMIT_PARAMS];
} config;

/* Number of points (the product of the value counts; INT64_MAX when that is more), and the i-th in
 * lexicographic order. */
int64_t space_size(const space *s);
void space_point(const space *s, int64_t i, config *c);
/* From a point to the next in that order, from the last to the first: false there. For loops over all of
 * them: space_point divides for each parameter. */
bool space_next(const space *s, config *c);
int64_t space_index(const space *s, const config *c);                /* -1: not a point of it */
int space_value(const space *s, const config *c, const char *param); /* parameter must exist */
/* "BLOCK_M=128,BLOCK_N=256,…" both ways. Parsing accepts any order; parameters left out take `defaults`;
 * unknown names, values outside the table and repeats are errors that list what is accepted. */
void config_print(const space *s, const config *c, strbuf *out);
arke_status config_parse(const space *s, const char *text, const config *defaults, config *c,
                         arke_error *err);
bool config_equal(const space *s, const config *a, const config *b);

#endif
