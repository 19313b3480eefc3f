/* Products with few rows: Y[m,n] = epilogue(sum(k) A[m,k] * B[n,k], …), where one side has so few rows that
 * the time is that of reading the other one. That one, the weights, is loaded straight into registers, by
 * accesses as wide as it lines up, and each of its elements meets all rows of the short side, the tokens, at
 * once: by multiply-add in the type of the sum, or by matrix instructions whose 16 rows are weights. K is
 * shared by the lanes of a warp, the warps of a CTA and the CTAs of a cluster, and the partial sums are added
 * in a fixed order. Inside skinny_*.c; other folders know only the template's record.
 *
 * A thread has `slots` rows of weights, and takes `step` neighbours along K of each at once. Where the
 * weights run along their rows' loop (B[k,n]) a vector is several rows at one k, else several k of one row.
 */
#ifndef ARKE_TEMPLATES_SKINNY_H
#define ARKE_TEMPLATES_SKINNY_H

#include "templates/contraction.h"
#include "templates/kernel_lower.h"
#include "templates/lanes.h"
#include "templates/template.h"

/* --- what the operator is --- */

enum { SKINNY_READS = 8 };

/* A tensor's elements that an operand is made of. */
typedef struct skinny_read {
  int access;
  int64_t period; /* of steps of the side's lane loop that it does not change in; 0: it never does */
} skinny_read;

typedef struct skinny_operand {
  int n_reads;
  skinny_read reads[SKINNY_READS];
  unsigned slow;  /* bit f: factor f does not change for `period` elements along K: a scale of a group */
  int64_t period; /* of all slow ones; 0: there are none */
  int plain;      /* the read that all other factors are, as it is; -1: they are computed */
  dtype exact;    /* what holds the other factors' values exactly; DTYPE_F32: no narrower type */
} skinny_operand;

enum { SKINNY_WIDTHS = 5 }; /* 1 … 16 elements at once */

typedef struct skinny_match {
  contraction c;
  const contraction_loops *tokens, *weights; /* of c: m and n, the shorter one first */
  contraction_side token_side;
  bool along_rows;      /* the weights' vectors run along the loop of their rows, not along K */
  int k_loop, row_loop; /* innermost loops of K and of the weights' rows; -1: there is none */
  skinny_operand operands[CONTRACTION_OPERANDS]; /* as c.operands */
  bool dense;                                    /* of the merged form */
  bool wide_offsets;                             /* lanes_need_wide_offsets of the form */
  uint64_t wide[2][SKINNY_WIDTHS];               /* lanes_wide: [of tokens][log2 of the width] */
  dtype type;                                    /* of all sums */
  dtype matrix; /* DTYPE_BF16 or F16, which holds all operands exactly; DTYPE_F32: neither does */
} skinny_match;

/* Matches the form, merged (tensors without gaps between merged axes) or not; as contraction_match. */
template_reason skinny_match_make(const ir_problem *p, bool merged, arena *a, skinny_match *m, strbuf *detail,
                                  arke_status *status);
static inline bool skinny_is_token(const skinny_match *m, int operand) {
  return m->c.operands[operand].side == m->token_side;
}

/* --- tuning parameters --- */

/* X(NAME, meaning, values…): the tiling space, in order. */
#define SKINNY_PARAMS(X)                                                                                     \
  X(MATH, "0: multiply-add; 1: matrix instructions with 16 rows of weights", 0, 1)                           \
  X(TOKENS, "rows of the short side at once", 1, 2, 4, 8, 16, 32)                                            \
  X(SLOTS, "rows of weights of a thread", 1, 2, 4, 8, 16)                                                    \
  X(ACROSS, "lanes of a warp with other rows of weights; those beside them share K", 1, 8, 32)               \
  X(VECTOR, "weights loaded at once", 1, 2, 4, 8, 16)                                                        \
  X(UNROLL, "vectors along K that a thread loads before it multiplies", 1, 2, 4, 8)                          \
  X(WARPS_N, "warps of a CTA with other rows of weights", 1, 2)                                              \
  X(WARPS_K, "warps of a CTA that share K", 1, 2, 4, 8, 16)                                                  \
  X(SPLIT, "CTAs that share K: up to 8 in a cluster, more through memory and a second kernel", 1, 2, 4, 8,   \
    32, 128)                                                                                                 \
  X(STAGES, "steps along K whose loads are under way: 2: one while another is multiplied", 1, 2)             \
  X(STREAM, "1: weights pass L1 by, and leave L2 first", 0, 1)

typedef enum skinny_param {
#define X(NAME, ...) SKINNY_##NAME,
  SKINNY_PARAMS(X)
#undef X
      SKINNY_PARAM_COUNT,
} skinny_param;

extern const space skinny_space;

/* --- what a configuration is --- */

enum { SKINNY_FINISH_THREADS = 128 };           /* of a CTA of the second kernel */
enum { SKINNY_SUMS = 128, SKINNY_WORDS = 256 }; /* of a thread: partial sums, words loaded at once */

typedef struct skinny_plan {
  const skinny_match *m;
  bool mma, dense, wide_offsets, prefetch;
  int tokens, slots, across, deep; /* across * deep = 32 lanes */
  int vector;                      /* weights of one load */
  int group;                       /* neighbouring rows of weights in a vector: `vector`, or 1 */
  int step;                        /* neighbours along K of a thread */
  int unroll;                      /* times `step` before it multiplies, deep * step apart */
  int warps_n, warps_k, threads;
  int parts;           /* of K: CTAs that share it */
  int cluster, split;  /* as many in a cluster, or in the workspace; the other one is 1 */
  int warp_rows, rows; /* of weights: of a warp, of the CTA */
  int token_positions,
      weight_positions; /* vectors of each operand that a thread loads, for each of `unroll` */
  int sums;             /* of a thread: accumulators */
  int words;            /* loaded at once by a thread */
  int pitch;            /* elements from one token to the next in shared memory */
  int smem_bytes;       /* static */
  gen_cache loads;      /* of weights */
} skinny_plan;

/* Elements along K that a CTA takes at once; and what parts of K are multiples of. */
static inline int skinny_warp_step(const skinny_plan *p) {
  return p->deep * p->step * p->unroll;
}
static inline int skinny_unit(const skinny_plan *p) {
  return p->deep * p->step;
}
int skinny_sum_bytes(const skinny_match *m);
/* Outputs of the CTA's tile that it finishes itself; the others of its cluster finish theirs. */
int skinny_cta_outputs(const skinny_plan *p);
/* Words of one vector of an operand, all reads together. */
int skinny_words_of(const skinny_match *m, const skinny_plan *p, int operand);
/* Elements of one read of it. */
int skinny_elements(const skinny_match *m, const skinny_plan *p, int operand, const skinny_read *r);
lanes_options skinny_lanes(const skinny_match *m, const skinny_plan *p, bool token);

template_reason skinny_plan_make(const skinny_match *m, const target *t, const config *c, bool dense,
                                 skinny_plan *plan);
/* Parameters alone, whatever the operator. */
template_reason skinny_config_check(const config *c);
double skinny_registers(const skinny_plan *p);
double skinny_cost_of(const skinny_plan *p, const target *t, const target_rates *rates);

/* --- a kernel --- */

typedef struct skinny_kernel {
  skinny_plan plan;
  arena *a;
  lanes_options tokens, weights, each; /* loads of either side; what follows the sums, element by element */
  lanes_args token_slots, weight_slots, each_slots;
  bool from_parts; /* the second kernel, which adds up what the first one has left */
  int n_tokens, n_weights, k, k_part, n_outputs, partials; /* parameters */
  struct skinny_emitter *current;
} skinny_kernel;

arke_status skinny_emit(gen_builder *b, const target *t, void *user, arke_error *err);
arke_status skinny_value(void *user, const ir_expr *e, gen_value *values, arke_error *err);

/* --- the template's functions --- */

template_reason skinny_fits(const ir_problem *p, const target *t, strbuf *detail);
const space *skinny_space_of(const target *t);
void skinny_defaults(const ir_problem *p, const target *t, config *c);
const void *skinny_prepare(const ir_problem *p, const target *t, arena *a);
template_reason skinny_check_shape(const void *prepared, const target *t, const config *c);
template_reason skinny_judge(const void *prepared, const target *t, const target_rates *rates,
                             const config *c, double *ns);
arke_status skinny_ways(const ir_problem *p, const target *t, const config *c, const lower_options *options,
                        arena *a, kernel_way *ways, int *n, arke_error *err);
arke_status skinny_lower(const ir_problem *p, const target *t, const config *c, const lower_options *options,
                         arena *a, lowered *out, arke_error *err);
void skinny_reduced_problem(const ir_problem *p, const target *t, const config *c, int sm_count,
                            ir_problem *reduced);

#endif
