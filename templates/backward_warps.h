/* Attention's gradients (backward.h says which) on every GPU with asynchronous copies, for tensors of any
 * strides and addresses, scores that are expressions, and packed requests:
 *
 *   statistics  l and e of every query, into the workspace
 *   queries     tiles of queries walk the keys they see, for dQ
 *   keys        tiles of keys walk the queries that see them, head after head, for dK and dV; where registers
 *               do not hold both sums, by a kernel each
 *
 * P and dS are computed by each of the latter; sums stay in registers, in a fixed order. A warp has 16 rows
 * of a tile (mma.sync), steps of columns come through a ring (cp.async). Inside backward_warps_*.c. */
#ifndef ARKE_TEMPLATES_BACKWARD_WARPS_H
#define ARKE_TEMPLATES_BACKWARD_WARPS_H

#include "templates/attend.h"
#include "templates/backward.h"

/* --- tuning parameters --- */

/* X(NAME, meaning, values…): the tiling space, in order. */
#define BACKWARD_WARPS_PARAMS(X)                                                                             \
  X(Q_WARPS, "warps of a CTA for dQ, with 16 queries each", 1, 2, 4, 8)                                      \
  X(Q_BLOCK, "keys of a step for dQ", 16, 32, 64)                                                            \
  X(Q_STAGES, "steps of K and V in shared memory for dQ", 2, 3)                                              \
  X(K_WARPS, "warps of a CTA for dK and dV, with 16 keys each", 1, 2, 4, 8)                                  \
  X(K_BLOCK, "queries of a step for dK and dV", 16, 32, 64)                                                  \
  X(K_STAGES, "steps of Q and dO in shared memory for dK and dV", 2, 3)

typedef enum backward_warps_param {
#define X(NAME, ...) BACKWARD_WARPS_##NAME,
  BACKWARD_WARPS_PARAMS(X)
#undef X
      BACKWARD_WARPS_PARAM_COUNT,
} backward_warps_param;

extern const space backward_warps_space;

/* --- what a configuration is --- */

enum {
  WARPS_ROWS = 2, /* of a thread: g and g + 8 of its warp's 16, where g = lane / 4 */
  WARPS_MOST_SCORES = 32,
  WARPS_MOST_SUMS = 160,
  WARPS_MOST_COLUMNS = 256,
  WARPS_STATISTICS_BYTES = 8, /* l and e of a query, f32 */
  WARPS_STATISTICS_THREADS = 128,
  WARPS_TEAM = 8 /* threads that add up e of a query */
};

/* How tensors are read and written, whatever the configuration. */
typedef struct warps_vectors {
  bool copied; /* tiles by cp.async; else through registers, element by element */
  bool wide_offsets;
  int given_lse;             /* access of l, which comes with the statistics as it is; -1: it does not */
  lanes_options tiles[2][2]; /* operands of queries; of keys */
  lanes_options scores;      /* of P, dS and bounds */
  lanes_options statistics;  /* of the terms of e */
  lanes_options epilogue[3]; /* of dQ, dK and dV */
} warps_vectors;

/* A kernel with products, as backward_pass is one: operands come in pairs (BACKWARD_FIRST: Q or K, _SECOND:
 * dO or V), of the tile's rows and of the steps' columns. */
typedef struct warps_pass {
  int side;
  bool sums[2];  /* dS times the first operand of the columns; P times the second */
  int output[2]; /* of the form */
  int warps, threads, block_rows, block_columns, stages;
  attend_tile rows[2], columns[2];
  int ring_offset_bytes, stage_bytes, smem_bytes;
  int statistics_offset_bytes; /* in a stage, of its queries: columns of tiles of keys */
  int live_registers;          /* of a thread, about */
} warps_pass;

typedef struct warps_plan {
  const backward_match *match;
  warps_vectors vectors;
  int n_passes; /* 2; 3: dK and dV apart */
  warps_pass passes[BACKWARD_PASSES];
} warps_plan;

/* `copied`: by copies where all tensors, were they without gaps, can be copied; else through registers. */
void warps_vectors_find(const backward_match *m, bool copied, warps_vectors *v);
/* The plan of a configuration, or why the hardware cannot run it. */
template_reason warps_plan_make(const backward_match *m, const warps_vectors *v, const target *t,
                                const config *c, warps_plan *plan);
/* P and dS take a few instructions that are known; else they are evaluated as expressions. */
static inline bool warps_are_known(const backward_match *m) {
  return m->plain || m->capped;
}
/* The access of an operand of a side (its rows'). */
int warps_operand(const backward_match *m, int side, int which);

/* --- kernels --- */

typedef struct warps_kernel {
  const warps_plan *plan;
  const warps_pass *p; /* NULL: of the statistics */
  arena *a;
  lanes_args row_slots[2], column_slots[2], score_slots, statistics_slots, epilogue_slots[2];
  int extents[IR_FORM_LOOPS]; /* parameters: i32 */
  int tiles, heads;           /* of a head at most; elements of the batch */
  int ratio;                  /* query heads that share a head of keys */
  int queries;                /* of all heads */
  int statistics;             /* workspace */
} warps_kernel;

/* Where a step is: which of the heads that are summed, and of its steps. */
typedef struct warps_walk {
  gen_value heads, step; /* heads: so many are left; NULL: there is one */
} warps_walk;

/* A kernel in the making. Values are i32 unless said otherwise. */
typedef struct warps_emitter {
  gen_builder *b;
  const warps_kernel *k;
  const warps_plan *plan;
  const warps_pass *p;
  const backward_match *m;
  gen_value thread, lane, warp_row;
  gen_value smem_rows, ring;
  gen_value group, is_of_none;    /* packed requests: the tile's, and i1: rows past the last one; else NULL */
  gen_value loops[IR_FORM_LOOPS]; /* of the batch: the tile's */
  gen_value head_end, heads;      /* that are summed: so many before `head_end`; NULL: there is one */
  gen_value first, end;           /* rows of the tile */
  gen_value from, below;          /* columns that some row meets; below may be less */
  gen_value all_from, all_below;  /* columns that all rows meet */
  gen_value begin, steps_end;     /* steps of a head */
  gen_value rests[ATTENTION_BOUNDS]; /* of bounds, without what the row adds; i64 */
  gen_value row[WARPS_ROWS], row_from[WARPS_ROWS], row_below[WARPS_ROWS]; /* of the thread; row is clamped */
  gen_value row_lse[WARPS_ROWS], row_dot[WARPS_ROWS];                     /* tiles of queries: f32 */
  lanes *l; /* of bounds, P and dS; its batch loops are the tile's */
  /* What reductions of the element at hand are; f32. */
  gen_value product, slope, lse, dot;
} warps_emitter;

/* An i32 as an index of the evaluators; elements of a loop. */
gen_value warps_index(const warps_emitter *e, gen_value x);
gen_value warps_extent(const warps_emitter *e, int loop);
int warps_row_loop(const warps_emitter *e);
int warps_column_loop(const warps_emitter *e);

/* The CTA's tile (backward_warps_place.c): *exists (i1; NULL: it does) tells whether there is one; then what
 * its rows meet, and those of the thread. */
arke_status warps_find_tile(warps_emitter *e, gen_value *exists, arke_error *err);
arke_status warps_find_columns(warps_emitter *e, arke_error *err);
void warps_find_rows(warps_emitter *e);
/* Sets the batch loops of an evaluator of queries (head: the one at hand; NULL: the tile's) or of keys. */
void warps_set_batch(warps_emitter *e, lanes *l, int side, gen_value head);
/* i64 address of l and e of a query; `head` as above. */
gen_value warps_statistics_address(warps_emitter *e, gen_value head, gen_value query);
/* Values of reductions, and of l, for evaluators whose `user` is the emitter. */
arke_status warps_reduction(void *user, const ir_expr *x, gen_value *values, arke_error *err);
arke_status warps_given(void *user, int access, gen_value *elements, arke_error *err);

warps_walk warps_walk_start(const warps_emitter *e);
gen_value warps_walk_goes_on(warps_emitter *e, const warps_walk *w); /* i1 */
warps_walk warps_walk_next(warps_emitter *e, const warps_walk *w);
gen_value warps_walk_head(warps_emitter *e, const warps_walk *w); /* NULL: the tile's */

/* Tiles (backward_warps_load.c). */
void warps_clear_padding(warps_emitter *e);
arke_status warps_load_rows(warps_emitter *e, arke_error *err);
arke_status warps_load_step(warps_emitter *e, const warps_walk *w, gen_value stage, arke_error *err);

/* Products (backward_warps_multiply.c). Scores: value 4 n + i is of row g + 8 (i / 2), column 8 n + 2 t +
 * i % 2, where g = lane / 4, t = lane % 4; sums alike. `which` operand. */
void warps_multiply_scores(warps_emitter *e, int which, gen_value stage, gen_value *s);
void warps_multiply_sums(warps_emitter *e, int which, const gen_value *words, gen_value stage,
                         gen_value *sums);

/* Products become P, and products of the second pair dS, in place (backward_warps_scores.c); slopes NULL: P
 * alone. */
arke_status warps_scores(warps_emitter *e, const warps_walk *w, gen_value stage, gen_value *s,
                         gen_value *slopes, arke_error *err);

/* The output of the thread's rows (backward_warps_store.c). */
arke_status warps_store(warps_emitter *e, int which, const gen_value *sums, arke_error *err);

arke_status warps_emit(gen_builder *b, const target *t, void *user, arke_error *err);
arke_status warps_emit_statistics(gen_builder *b, const target *t, void *user, arke_error *err);

/* --- the template's functions --- */

/* The match and what sizes, dtypes and target have against it. */
template_reason backward_warps_fit(const ir_problem *p, const target *t, arena *a, backward_match *m,
                                   strbuf *detail, arke_status *status);
template_reason backward_warps_fits(const ir_problem *p, const target *t, strbuf *detail);
const space *backward_warps_space_of(const target *t);
void backward_warps_defaults(const ir_problem *p, const target *t, config *c);
const void *backward_warps_prepare(const ir_problem *p, const target *t, arena *a);
template_reason backward_warps_judge(const void *prepared, const target *t, const target_rates *rates,
                                     const config *c, double *ns);
double warps_plan_cost_ns(const warps_plan *plan, const target *t, const target_rates *rates);
arke_status backward_warps_ways(const ir_problem *p, const target *t, const config *c,
                                const lower_options *options, arena *a, kernel_way *ways, int *n,
                                arke_error *err);
arke_status backward_warps_lower(const ir_problem *p, const target *t, const config *c,
                                 const lower_options *options, arena *a, lowered *out, arke_error *err);
void backward_warps_reduced_problem(const ir_problem *p, const target *t, const config *c, int sm_count,
                                    ir_problem *reduced);

#endif
