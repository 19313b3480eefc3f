/* Products of few rows on warp-group matrix units: Y[m,n] = epilogue(sum(k) A[m,k] * B[n,k], …), where the
 * longer side, the weights, streams through shared memory once. Either weights are the 64-row operand of
 * wgmma and the rows of the short side, the tokens, its columns, so that 8 tokens cost no more than 8; or the
 * other way round, so that a CTA may have any multiple of 8 rows of weights, a like share for each SM. One
 * producer thread keeps a ring of stages full by tensor copies (TMA), so that what is under way does not
 * depend on registers; K is shared by the CTAs of a cluster, which add their sums in a fixed order through
 * distributed shared memory. Inside slim_*.c; other folders know only the template's record. */
#ifndef ARKE_TEMPLATES_SLIM_H
#define ARKE_TEMPLATES_SLIM_H

#include "generator/gen_pipeline.h"
#include "generator/gen_wgmma.h"
#include "templates/contraction.h"
#include "templates/kernel_lower.h"
#include "templates/lanes.h"
#include "templates/template.h"

/* --- what the operator is --- */

/* An operand: a matrix as it is, over one loop of rows and one of K. */
typedef struct slim_operand {
  int access, tensor;
  bool token;
  bool along_rows; /* its rows' loop is the contiguous one, not K (weights alone) */
  int row, k;      /* subscripts; row -1: a vector */
  /* Row of the tensor for one of the loop: the loop, or something further (one half of packed weights). */
  const ir_expr *place;
} slim_operand;

typedef struct slim_match {
  contraction c;
  const contraction_loops *tokens, *weights;   /* of c: m and n, the shorter one first */
  int token_loop, row_loop, k_loop;            /* token_loop -1: there is one token */
  slim_operand operands[CONTRACTION_OPERANDS]; /* as c.operands */
  dtype type;                                  /* of all operands: bf16 or f16 */
  bool wide_offsets;                           /* of what is evaluated at the outputs */
} slim_match;

/* Matches the form, merged (tensors without gaps between merged axes) or not; as contraction_match. */
template_reason slim_match_make(const ir_problem *p, bool merged, arena *a, slim_match *m, strbuf *detail,
                                arke_status *status);
static inline int slim_token_operand(const slim_match *m, int sum) {
  return m->operands[m->c.sums[sum].a].token ? m->c.sums[sum].a : m->c.sums[sum].b;
}
static inline int slim_weight_operand(const slim_match *m, int sum) {
  return m->operands[m->c.sums[sum].a].token ? m->c.sums[sum].b : m->c.sums[sum].a;
}

/* The loops that a tile has, and a stage: a bit each. */
static inline unsigned slim_tile_loops(const slim_match *m) {
  return (m->token_loop < 0 ? 0 : 1u << m->token_loop) | 1u << m->row_loop | 1u << m->k_loop;
}

/* --- tuning parameters --- */

/* X(NAME, meaning, values…): the tiling space, in order. */
#define SLIM_PARAMS(X)                                                                                       \
  X(SIDE, "the operand of wgmma with 64 rows: 0: weights, 1: tokens, and whatever follows them", 0, 1)       \
  X(ROWS, "rows of weights of a CTA", 16, 24, 32, 40, 48, 56, 64, 72, 80, 88, 96, 104, 112, 120, 128, 144,   \
    160, 176, 192, 208, 224, 240, 256)                                                                       \
  X(TOKENS, "rows of the short side at once", 8, 16, 24, 32, 48, 64, 96, 128, 160, 192, 256)                 \
  X(BLOCK_K, "elements of K in a stage of the ring", 64, 128, 256)                                           \
  X(STAGES, "stages of the ring", 2, 3, 4, 6, 8, 12, 16)                                                     \
  X(CONSUMERS, "warp groups that multiply, each its own rows of the 64-row operand", 1, 2)                   \
  X(CLUSTER_K, "CTAs of a cluster that share K", 1, 2, 4, 8)                                                 \
  X(STREAM, "1: weights leave L2 first", 0, 1)                                                               \
  X(STAGGER, "1: neighbouring CTAs begin with other terms of K", 0, 1)

typedef enum slim_param {
#define X(NAME, ...) SLIM_##NAME,
  SLIM_PARAMS(X)
#undef X
      SLIM_PARAM_COUNT,
} slim_param;

extern const space slim_space;

/* --- what a configuration is --- */

/* An operand in a stage: panels of 64 elements along its contiguous axis, under the widest swizzle. Tokens
 * come first: where they are the 64-row operand and fewer, the rest of its rows is what follows them in the
 * stage. Rows of a product do not meet, so that theirs are never looked at. */
typedef struct slim_tile {
  int offset;         /* in a stage, bytes */
  int panels, height; /* lines of 64 elements of a panel */
  int panel_bytes, bytes;
} slim_tile;

typedef struct slim_plan {
  const slim_match *m;
  bool dense, wide_offsets;
  bool turned;     /* tokens are the 64-row operand */
  bool alone;      /* an SM holds one CTA */
  bool staggered;  /* CTAs begin at steps of their own, and end with what they left out */
  gen_cache loads; /* of weights */
  int rows, tokens, block_k, stages, consumers, cluster;
  int threads;      /* consumers, then the producer's warp */
  int row_tiles;    /* of 64 rows, of a consumer */
  int columns;      /* of the other operand */
  int accumulators; /* f32 registers of a thread, of one sum */
  int width;        /* neighbouring rows that a thread finishes at once */
  slim_tile tiles[CONTRACTION_OPERANDS];
  int stage_bytes;
  int sum_tokens; /* lines of a sum where sums are exchanged */
  int pitch;      /* f32 elements from one token to the next where sums are exchanged */
  int smem_bytes; /* dynamic: the ring, and over it the sums */
} slim_plan;

enum { SLIM_PANEL = 64, SLIM_LINE_BYTES = 128, SLIM_WARP_GROUP = 128 };

template_reason slim_plan_make(const slim_match *m, const target *t, const config *c, bool dense,
                               slim_plan *plan);
int64_t slim_ctas(const slim_plan *p); /* in its problem */
/* Of the outputs' expressions, evaluated a vector of rows at a time. */
lanes_options slim_lanes(const slim_match *m, const slim_plan *p);
double slim_cost_of(const slim_plan *p, const target *t, const target_rates *rates);

/* --- a kernel --- */

typedef struct slim_kernel {
  slim_plan plan;
  arena *a;
  lanes_options each;
  lanes_args slots;
  int maps[CONTRACTION_OPERANDS];                /* parameters */
  int n_tokens, n_weights, k_steps, token_tiles; /* parameters, i32 */
  int crowd;                                     /* CTAs for every two SMs, rounded up; i32 */
  struct slim_emitter *current;
} slim_kernel;

typedef struct slim_emitter {
  gen_builder *b;
  slim_kernel *k;
  const slim_plan *p;
  const slim_match *m;
  gen_value smem;                         /* i32, as all that follows */
  gen_value part;                         /* of K: rank in the cluster */
  gen_value first_row, first_token;       /* of the CTA's tile */
  gen_value places[CONTRACTION_OPERANDS]; /* its first row in each operand's tensor */
  gen_value begin, end;                   /* its k-steps */
  gen_value ahead; /* the first one it takes, from `begin` on, where they are staggered */
  /* Of the outputs that are being computed: */
  gen_value totals[CONTRACTION_SUMS][LANES_MAX];
  lanes *each;
} slim_emitter;

void slim_set_loop(const slim_emitter *e, lanes *l, int loop, gen_value value); /* value: i32 */
arke_status slim_emit(gen_builder *b, const target *t, void *user, arke_error *err);
/* By the producer's thread: fills the ring. */
void slim_produce(slim_emitter *e, const gen_pipeline *pipeline);
/* A consumer's sums, by sum, row tile and register (gen_wgmma.h), go to where the cluster adds them up; by
 * its 128 threads. */
void slim_put_sums(slim_emitter *e, gen_value group, gen_value thread, const gen_value *sums);
/* Adds up, computes and stores this CTA's share of the tile's outputs; by all threads, behind a barrier of
 * the cluster. */
arke_status slim_finish(slim_emitter *e, arke_error *err);
arke_status slim_value(void *user, const ir_expr *x, gen_value *values, arke_error *err);

/* --- the template's functions --- */

template_reason slim_fits(const ir_problem *p, const target *t, strbuf *detail);
const space *slim_space_of(const target *t);
void slim_defaults(const ir_problem *p, const target *t, config *c);
const void *slim_prepare(const ir_problem *p, const target *t, arena *a);
template_reason slim_check_tiles(const void *prepared, const target *t, const config *c);
template_reason slim_judge(const void *prepared, const target *t, const target_rates *rates, const config *c,
                           double *ns);
double slim_bound_ns(const ir_problem *p, const void *prepared, const target *t, const target_rates *rates,
                     const config *c);
arke_status slim_ways(const ir_problem *p, const target *t, const config *c, const lower_options *options,
                      arena *a, kernel_way *ways, int *n, arke_error *err);
arke_status slim_lower(const ir_problem *p, const target *t, const config *c, const lower_options *options,
                       arena *a, lowered *out, arke_error *err);
void slim_reduced_problem(const ir_problem *p, const target *t, const config *c, int sm_count,
                          ir_problem *reduced);

#endif
