/* Attention's gradients for warp-group matrix units, from the forward's log-sum-exp l:
 *
 *   P = exp(scale * sum(d) Q * K - l)     e = sum(x) O * dO     dS = P * (sum(x) dO * V - e)
 *   dQ = sum(k) dS * K     dK = sum(heads, q) dS * Q     dV = sum(heads, q) P * dO
 *
 * One kernel has tiles of queries and walks the keys they see, for dQ; it leaves e and l for another one with
 * tiles of keys, which walks the queries that see them, of all heads that share the keys, for dK and dV. P is
 * computed in both: seven products instead of five, for which sums stay in registers in a fixed order, and
 * nothing is added up in memory. Or (ONE) the kernel with tiles of keys multiplies for dQ, too, and adds what
 * a tile has to sums in memory, tile after tile in a fixed order: five products, and traffic for them.
 * Shared by backward_*.c. */
#ifndef ARKE_TEMPLATES_BACKWARD_H
#define ARKE_TEMPLATES_BACKWARD_H

#include "templates/attention.h"

/* --- what the operator is --- */

typedef struct backward_match {
  ir_form form;
  int dq, dk, dv;   /* outputs */
  int q, k, v, d_o; /* accesses that are read */
  int o;            /* what e is made of beside dO, where that is rows of 16-bit elements; else -1 */
  int query, key, depth, wide;  /* loops: rows of Q and dO; of K and V; columns of Q and K; of V and dO */
  int head, share;              /* loops over heads of queries, and of keys that several share; -1: no such */
  ir_dim heads[2];              /* how many there are of both */
  contraction_loops batch[2];   /* the other loops of dQ; of dK and dV (BACKWARD_QUERIES, BACKWARD_KEYS) */
  contraction_groups groups[2]; /* packed requests: the request of a query; of a key */
  attention_bounds seen[2];     /* which keys a query sees; which queries see a key */
  const ir_expr *product, *slope;   /* REDUCE nodes: sum(d) Q * K; sum(x) dO * V */
  const ir_expr *dot;               /* e, a REDUCE node; NULL: there is none */
  const ir_expr *weight, *gradient; /* P and dS, before they are rounded: expressions over those */
  const ir_expr *sums[3];           /* REDUCE nodes of dQ, dK, dV: what outputs are expressions over */
  const ir_expr *lse; /* l, an expression over the query, of P = exp(score - l); NULL: it is not */
  /* P is exp(scale * product - l), and dS is P * (slope - offset): of what `plain` says no more is to be
   * known. `capped`: P is exp(cap * t - l), where t = tanh(scale * product), and dS is P * (slope - offset) *
   * (1 - t * t). */
  bool plain, capped;
  const ir_expr *offset; /* `dot`, or an expression over the query without reductions */
  double scale, cap;
  bool base2; /* P is a power of two */
  dtype type; /* of what P and dS are rounded to */
} backward_match;

/* TEMPLATE_OPERATOR with a sentence in `detail` (may be NULL) where the operator is no such gradient;
 * `status` (may be NULL) tells a lack of memory from that. Memory is the arena's, `p` must outlive it. Sizes
 * play no part, and neither do dtypes. */
template_reason backward_match_op(const ir_problem *p, arena *a, backward_match *m, strbuf *detail,
                                  arke_status *status);
/* "batch b h; query q; key k; depth d; wide x; Q Q; …", for tests. */
void backward_print(const backward_match *m, strbuf *out);

/* --- tuning parameters --- */

/* X(NAME, meaning, values…): the tiling space, in order. */
#define BACKWARD_PARAMS(X)                                                                                   \
  X(Q_CONSUMERS, "warp groups that multiply for dQ, with 64 queries each", 1, 2, 3)                          \
  X(Q_BLOCK, "keys of a step for dQ", 32, 48, 64, 80, 96, 112, 128)                                          \
  X(Q_STAGES, "steps of K and of V in shared memory for dQ", 1, 2, 3)                                        \
  X(Q_OVERLAP, "1: a step's sums of dQ are multiplied with the scores of the next one", 0, 1)                \
  X(K_CONSUMERS, "warp groups that multiply for dK and dV, with 64 keys each", 1, 2, 3)                      \
  X(K_BLOCK, "queries of a step for dK and dV; they divide a tile of queries", 32, 64, 128)                  \
  X(K_STAGES, "steps of Q and of dO in shared memory for dK and dV", 1, 2, 3)                                \
  X(K_OVERLAP, "1: a step's sums of dK are multiplied with the scores of the next one", 0, 1)                \
  X(SPLIT, "parts of the heads that share keys; their sums are added up by one kernel more", 1, 2, 4, 8, 16) \
  X(GROUP, "heads whose tiles are walked together, longest first; 0: all", 0, 1, 4, 16)                      \
  X(ONE, "1: one kernel multiplies for all three; sums of dQ are in memory, and tiles of keys take turns",   \
    0, 1)                                                                                                    \
  X(PERSISTENT, "0: a CTA for each tile, 1: a CTA for each SM, which loops over tiles", 0, 1)

typedef enum backward_param {
#define X(NAME, ...) BACKWARD_##NAME,
  BACKWARD_PARAMS(X)
#undef X
      BACKWARD_PARAM_COUNT,
} backward_param;

extern const space backward_space;

/* --- what a configuration is --- */

enum { BACKWARD_QUERIES, BACKWARD_KEYS, BACKWARD_PASSES = 3, BACKWARD_ROWS = 2 };
enum { BACKWARD_FIRST, BACKWARD_SECOND }; /* of two: Q and K, dQ and dK; dO and V, dV */

/* One kernel. A tile has rows of `side`'s loop, of one head: of queries, or of keys; the columns of its steps
 * are the others. Operands come in pairs: the tile has Q and dO, and steps have K and V; or the tile has K
 * and V, and steps Q and dO. */
typedef struct backward_pass {
  int side;      /* BACKWARD_QUERIES or BACKWARD_KEYS: what rows are */
  bool sums[2];  /* dS times the first operand of steps; P times the second */
  int output[2]; /* of the form; -1: no such sum */
  int consumers, block_rows, block_columns, stages, row_stages;
  int threads, resident, live_registers, smem_bytes;
  attention_tile rows[2], columns[2];
  bool overlap;    /* a step's last product is issued with the scores of the next */
  bool prefetched; /* rows of O are brought into the L2 cache before they are read */
  bool updates;    /* adds what its rows have to sums of dQ in memory */
  bool copied[2]; /* the output leaves through the place of the rows, by a tensor copy; else from registers */
} backward_pass;

typedef struct backward_plan {
  const backward_match *match;
  int n_passes; /* 2; 3 where registers do not hold the sums of dK and dV together: by kernels of their own */
  backward_pass passes[BACKWARD_PASSES];
  int split, group;
  bool persistent;
  bool one;    /* passes[0] has no steps: it leaves l and e, and zeroes for dQ's sums */
  bool masked; /* not all queries see all keys */
  bool wide_offsets;
  lanes_options rows;        /* of l, e's sum aside, and of bounds */
  lanes_options dot;         /* of the terms of e, along a row */
  lanes_options epilogue[3]; /* of dQ, dK and dV */
} backward_plan;

/* The plan of a configuration, or why the hardware cannot run it. */
template_reason backward_plan_make(const backward_match *m, const target *t, const config *c,
                                   backward_plan *plan);
/* Of a pass that adds to sums of dQ in memory: dS of a step in shared memory, one of two places; what a step
 * adds. */
int backward_slopes_bytes(const backward_pass *p);
int backward_update_bytes(const backward_pass *p);
/* Loops of a pass: its rows' and its columns'; the columns of an operand or an output. */
int backward_row_loop(const backward_match *m, int side);
int backward_column_loop(const backward_match *m, int side);
int backward_width_loop(const backward_match *m, int operand);
/* Query heads that share a head of keys. */
int64_t backward_ratio(const backward_match *m);

/* --- the template's functions --- */

/* The match and what sizes, dtypes and target have against it. */
template_reason backward_fit(const ir_problem *p, const target *t, arena *a, backward_match *m,
                             strbuf *detail, arke_status *status);
template_reason backward_fits(const ir_problem *p, const target *t, strbuf *detail);
const space *backward_space_of(const target *t);
void backward_defaults(const ir_problem *p, const target *t, config *c);
const void *backward_prepare(const ir_problem *p, const target *t, arena *a);
template_reason backward_judge(const void *prepared, const target *t, const target_rates *rates,
                               const config *c, double *ns);
double backward_plan_cost_ns(const backward_plan *plan, const target_rates *rates);
arke_status backward_ways(const ir_problem *p, const target *t, const config *c, const lower_options *options,
                          arena *a, kernel_way *ways, int *n, arke_error *err);
arke_status backward_lower(const ir_problem *p, const target *t, const config *c,
                           const lower_options *options, arena *a, lowered *out, arke_error *err);
void backward_reduced_problem(const ir_problem *p, const target *t, const config *c, int sm_count,
                              ir_problem *reduced);

#endif
