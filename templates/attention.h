/* Attention for warp-group matrix units: two products with a softmax between them,
 *
 *   P = sum(d) Q * K    A = score(P, query, key)    O = sum(k) weight(A) * V / sum(k) weight(A)
 *
 * by one producer warp, which copies tiles of Q, K and V into shared memory (TMA), and up to three consumer
 * warp groups of 64 queries each, which multiply them (wgmma), keep the softmax in registers, and use its
 * weights as the registers of the second product. Shared by attention_*.c. */
#ifndef ARKE_TEMPLATES_ATTENTION_H
#define ARKE_TEMPLATES_ATTENTION_H

#include "generator/gen_wgmma.h"
#include "templates/contraction.h"
#include "templates/kernel_lower.h"
#include "templates/lanes.h"
#include "templates/lanes_index.h"

/* --- what the operator is --- */

enum { ATTENTION_BOUNDS = 8, ATTENTION_SHARES = 2 };

/* A condition on which keys a query sees: those below the bound (`upper`), or from it on. The bound is
 * query * (the query's index) + rest, and `rest` has neither the query nor the key. */
typedef struct attention_bound {
  bool upper;
  int64_t query;
  lanes_sum rest;
} attention_bound;

typedef struct attention_bounds {
  int n;
  attention_bound list[ATTENTION_BOUNDS];
  /* Sizes of which the first must be a multiple of the second: h / (H / G) is below G then. */
  int n_shares;
  ir_dim shares[ATTENTION_SHARES][2];
} attention_bounds;

typedef struct attention_match {
  ir_form form;
  int output;                  /* O among the form's outputs */
  int q, k, v, o;              /* accesses */
  int query, key, depth, wide; /* loops: rows of Q, of K and V; what QK is summed over; columns of V and O */
  contraction_loops batch;     /* the others of O */
  /* REDUCE nodes: QK, the largest score, the sum of the weights (NULL: none), and that of weights times V. */
  const ir_expr *product, *largest, *total, *weighted;
  const ir_expr *divisor; /* of the terms of `weighted`; NULL: 1 */
  /* The score is scale * body, where scale > 0 and body is `product` or an expression over it; `product` is
   * factor * the sum of Q * K, and its factor is 1 where it is the body. */
  double scale, factor;
  const ir_expr *body;
  bool base2;   /* weights are exp2 of scores, else exp */
  bool guarded; /* a largest score of -inf counts as 0: queries that see nothing have weights of 0 */
  attention_bounds bounds;
  dtype type; /* of Q, K, V and what weights are rounded to */
} attention_match;

/* TEMPLATE_OPERATOR with a sentence in `detail` (may be NULL) where the operator is no attention; `status`
 * (may be NULL) tells a lack of memory from that. Memory is the arena's, `p` must outlive it. Sizes play no
 * part. */
template_reason attention_match_op(const ir_problem *p, arena *a, attention_match *m, strbuf *detail,
                                   arke_status *status);
/* "batch b h; query q; key k; depth d; wide d; Q Q; K K; V V; below q + R - S + 1; …", for tests. */
void attention_print(const attention_match *m, strbuf *out);
/* Takes the conjuncts of `condition` (NULL: none) into `b`; false where one is of another kind. */
bool attention_add_bounds(const ir_form *form, int query, int key, const ir_expr *condition,
                          attention_bounds *b);
bool attention_same_bounds(const attention_bounds *x, const attention_bounds *y);
/* Whether a read of K or V at these sizes is inside its tensor wherever the shares divide. */
bool attention_shares_divide(const ir_problem *p, const attention_bounds *b);

/* --- tuning parameters --- */

/* X(NAME, meaning, values…): the tiling space, in order. */
#define ATTENTION_PARAMS(X)                                                                                  \
  X(CONSUMERS, "warp groups that multiply, with 64 queries each", 1, 2, 3)                                   \
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

/* A tile in shared memory: panels of 64 elements along the contiguous axis, one after the other. */
typedef struct attention_tile {
  int rows, columns; /* columns as the product takes them: a multiple of 16 (K, Q) or 8 (V) */
  int panels, panel_bytes, bytes;
} attention_tile;

typedef struct attention_plan {
  const attention_match *match;
  int consumers, block_m, block_n, stages, cluster, group;
  bool turns, overlap, late_wait, hold_q, persistent;
  bool masked; /* keys can be out of a query's sight, other than past the last one */
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
