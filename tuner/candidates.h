/* All configurations of all templates that fit a problem: the infeasible ones counted by reason, the others
 * ranked by the cost model. Pure computation on all cores, no processes. */
#ifndef ARKE_TUNER_CANDIDATES_H
#define ARKE_TUNER_CANDIDATES_H

#include "base/arena.h"
#include "tuner/tune.h"

#define TUNE_TEMPLATES_MAX 32

/* A feasible point. */
typedef struct tune_candidate {
  int source; /* which of tune_candidates.sources */
  int64_t point;
  double model_ns;
  int family; /* of points that differ in variant parameters only (ir/space.h) */
} tune_candidate;

/* A template that fits the problem. */
typedef struct tune_source {
  const kernel_template *template;
  const space *space;
  config defaults;
} tune_source;

typedef struct tune_candidates {
  const tune_templates *templates; /* as given to tune_candidates_rank */
  int n_sources;
  tune_source sources[TUNE_TEMPLATES_MAX];
  int64_t total; /* points of all spaces */
  int64_t pruned[TEMPLATE_REASON_COUNT];
  int64_t n;
  tune_candidate *ranked; /* fastest by the model first; equal ones in the order of the space */
  int64_t *by_point;      /* indices into ranked, ordered by (source, point) */
  int n_families;         /* numbered in the order of their best model time */
} tune_candidates;

/* ARKE_ERR_UNSUPPORTED, with each template's reason, when none fits or no point is feasible. */
arke_status tune_candidates_rank(const ir_problem *p, const target *t, const target_rates *rates,
                                 const tune_templates *templates, tune_candidates *c, arke_error *err);
void tune_candidates_release(tune_candidates *c);

/* Index in `ranked` of a point, or -1 when it is infeasible. */
int64_t tune_candidates_index(const tune_candidates *c, int source, int64_t point);
void tune_candidate_config(const tune_candidates *c, int64_t index, config *out);
/* Finds "BLOCK_M=128,…", or "gemm:BLOCK_M=128,…" where several templates fit. What is infeasible is
 * ARKE_ERR_INVALID with the reason. */
arke_status tune_candidates_parse(const tune_candidates *c, const ir_problem *p, const target *t,
                                  const char *text, int64_t *index, arke_error *err);
/* The same for a configuration asked for by name: one that is only redundant works too, and is added behind
 * the ranked ones, where a search that was made before does not look. */
arke_status tune_candidates_admit(tune_candidates *c, const ir_problem *p, const target *t,
                                  const target_rates *rates, const char *text, int64_t *index,
                                  arke_error *err);
/* Adds a point that is not among them behind all others in rank. */
arke_status tune_candidates_append(tune_candidates *c, tune_candidate candidate, arke_error *err);
/* How far a configuration lies from its template's default: the sum over parameters of the steps in the
 * table. Between equals in time, the smaller one is the simpler one. */
int tune_candidate_distance(const tune_candidates *c, int64_t index);

#endif
