/* Attention (attention_match.h) for warp-group matrix units, by one producer warp, which copies tiles of Q, K
 * and V into shared memory (TMA), and up to three consumer warp groups of 64 queries each, which multiply
 * them (wgmma), keep the softmax in registers, and use its weights as the registers of the second product.
 * Shared by attention_*.c. */
#ifndef ARKE_TEMPLATES_ATTENTION_H
#define ARKE_TEMPLATES_ATTENTION_H

#include "generator/gen_wgmma.h"
#include "templates/attention_match.h"
#include "templates/kernel_lower.h"
#include "templates/lanes.h"

/* --- tuning parameters --- */

/* X(NAME, meaning, values…): the tiling space, in order. */
#define ATTENTION_PARAMS(X)                                                                                  \
  X(CONSUMERS,                                                                                               \
    "warp groups that multiply, with 64 queries each, or two with the same 64 where values are wide", 1, 2,  \
    3)                                                                                                       \
  X(BLOCK_N, "keys of a step", 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192)                             \
  X(STAGES, "steps of K and of V in shared memory", 1, 2, 3, 4)                                              \
  X(TURNS, "1: warp groups take turns, so that one's softmax runs under another's products", 0, 1)           \
  X(OVERLAP,                                                                                                 \
    "1: the sums of a step are multiplied with the scores of the next; 2: and its softmax runs under them",  \
    0, 1, 2)                                                                                                 \
  X(HOLD_Q, "1: queries stay in registers, 0: products read them from shared memory, again in each step", 0, \
    1)                                                                                                       \
  X(CLUSTER, "CTAs with neighbouring queries that load each half of the keys and values, for all", 1, 2)     \
  X(GROUP, "heads whose tiles are walked together, longest first; 0: all", 0, 1, 2, 4, 8, 16, 32)            \
  X(PERSISTENT, "0: a CTA for each tile, 1: a CTA for each SM, which loops over tiles", 0, 1)

typedef enum attention_param {
#define X(NAME, ...) ATTENTION_##NAME,
  ATTENTION_PARAMS(X)
#undef X
      ATTENTION_PARAM_COUNT,
} attention_param;

extern const space attention_space;

/* --- what a configuration is --- */

enum { ATTENTION_MOST_BOXES = 24 }; /* copies of a step of K, in pages */

/* A tile in shared memory: panels of 64 elements along the contiguous axis, one after the other. */
typedef struct attention_tile {
  int rows, columns; /* columns as the product takes them: a multiple of 16 (K, Q) or 8 (V) */
  int panels, panel_bytes, bytes;
} attention_tile;

typedef struct attention_plan {
  const attention_match *match;
  int consumers, block_m, block_n, stages, cluster, group;
  /* 2: the sums of O are too many for a warp group; two have the same queries, and half of the columns each.
   * Both multiply all the scores. */
  int halves;
  int sum_columns; /* of O, that a warp group has */
  bool turns, overlap, late_wait, hold_q, persistent;
  bool masked; /* keys can be out of a query's sight, other than past the last one */
  bool packed; /* queries are of packed requests */
  bool ends;   /* keys of a request can end before the tensor does: what lies behind is nobody's */
  int page;    /* keys of a page; 0: K and V are read as they lie */
  int box_n;   /* keys of a copy: of a page, or a CTA's share of a step */
  int threads;
  int live_registers; /* of a consumer thread, about */
  int resident; /* CTAs of an SM: 2 small ones, of which one works while the other starts or ends a tile */
  attention_tile q, k, v;
  int q_stages; /* 2 where they fit: the next tile's queries are copied under this one */
  bool copied;  /* O leaves through the place of the tile's queries, by a tensor copy; else from registers */
  int smem_bytes;
  bool wide_offsets;
  lanes_options scores, epilogue;
} attention_plan;

/* Registers of a consumer thread, at most. */
int attention_registers(const attention_plan *p);
/* The plan of a configuration, or why the hardware cannot run it. */
template_reason attention_plan_make(const attention_match *m, const target *t, const config *c,
                                    attention_plan *plan);

/* --- the template's functions --- */

/* The match and what sizes, dtypes and target have against it. */
template_reason attention_fit(const ir_problem *p, const target *t, arena *a, attention_match *m,
                              strbuf *detail, arke_status *status);
template_reason attention_fits(const ir_problem *p, const target *t, strbuf *detail);
const space *attention_space_of(const target *t);
void attention_defaults(const ir_problem *p, const target *t, config *c);
template_reason attention_feasible(const ir_problem *p, const target *t, const config *c);
double attention_cost_ns(const ir_problem *p, const target *t, const target_rates *rates, const config *c);
const void *attention_prepare(const ir_problem *p, const target *t, arena *a);
template_reason attention_judge(const void *prepared, const target *t, const target_rates *rates,
                                const config *c, double *ns);
double attention_plan_cost_ns(const attention_plan *plan, const target *t, const target_rates *rates);
arke_status attention_lower(const ir_problem *p, const target *t, const config *c,
                            const lower_options *options, arena *a, lowered *out, arke_error *err);
void attention_reduced_problem(const ir_problem *p, const target *t, const config *c, int sm_count,
                               ir_problem *reduced);

#endif
