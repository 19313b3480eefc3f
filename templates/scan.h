/* Prefix reductions: Y[…] = g(sum(t: t <= j) f(…[t]…), …[j]…) for sums, products, largest and smallest
 * values, over the elements up to j, before j, from j on, or after j; maps fused before and after. The axis
 * of j may be the contiguous one of the outputs (rows) or another one (columns).
 *
 * Rows: a thread holds STRIPS vectors of a chunk, a warp scans its lanes by shuffles, warps meet in shared
 * memory. A row belongs to a warp, to a CTA that walks over chunks with a carry, or to a CTA for each chunk,
 * which publish the sums of their chunks and look back. Columns: a thread owns VECTOR of them for STRIPS
 * rows, warps below each other meet in shared memory.
 *
 * Looking back is deterministic: a chunk adds the sums of all chunks before it in its segment of
 * SCAN_SEGMENT, always by the same tree, to the prefix of the segments before, which is a chain. So floating
 * results do not depend on which CTA came first. Shared by scan_*.c. */
#ifndef ARKE_TEMPLATES_SCAN_H
#define ARKE_TEMPLATES_SCAN_H

#include "ir/ir_form.h"
#include "templates/kernel_lower.h"
#include "templates/lanes.h"
#include "templates/template.h"

enum {
  SCAN_MAX_TERMS = 4,
  SCAN_MAX_STRIPS = 16,
  SCAN_SEGMENT = 128, /* chunks: four for each lane of the warp that looks back */
};

/* --- what the operator is --- */

/* One prefix reduction. */
typedef struct scan_term {
  const ir_expr *node; /* REDUCE over `loop`, of node->args[0] */
  ir_reduction op;
  int loop;
  bool exclusive; /* without the element itself */
  gen_type type;  /* it accumulates in */
} scan_term;

typedef struct scan_match {
  ir_form form;
  int n_terms;
  scan_term terms[SCAN_MAX_TERMS];
  bool suffix;                       /* from j on */
  int along;                         /* the loop of j */
  int lane;                          /* the loop along which outputs are contiguous */
  bool columns;                      /* lane != along */
  int n_outer, outer[IR_FORM_LOOPS]; /* the others, outermost first */
} scan_match;

/* The match and what the problem and the target have against it; the form is the arena's.
 * `err` tells why there is none: for want of memory, say. */
template_reason scan_fit(const ir_problem *p, const target *t, arena *a, scan_match *match, strbuf *detail,
                         arke_error *err);

/* --- tuning parameters --- */

/* X(NAME, meaning, values…): the tiling space, in order. */
#define SCAN_PARAMS(X)                                                                                       \
  X(THREADS, "threads of a CTA", 32, 64, 128, 256, 512, 1024)                                                \
  X(VECTOR, "elements of a thread, loaded and stored at once", 1, 2, 4, 8, 16)                               \
  X(STRIPS, "vectors of a thread in flight", 1, 2, 4, 8, 16)                                                 \
  X(PLACE,                                                                                                   \
    "0: a row by a warp; 1: by a CTA, chunk after chunk; 2: by a CTA for each chunk, looking back; 3: by a " \
    "CTA that takes rows in turn, with later ones on their way to shared memory",                            \
    0, 1, 2, 3)                                                                                              \
  X(STAGES, "rows of a CTA in shared memory, in the works or on their way (PLACE=3)", 2, 3, 4)               \
  X(STREAM, "0: caches as they are; 1: what is touched once passes L1 by; 2: and leaves L2 first", 0, 1, 2)

typedef enum scan_param {
#define X(NAME, ...) SCAN_##NAME,
  SCAN_PARAMS(X)
#undef X
      SCAN_PARAM_COUNT,
} scan_param;

typedef enum scan_place { SCAN_BY_WARP, SCAN_BY_CTA, SCAN_LOOK_BACK, SCAN_AHEAD } scan_place;

/* A configuration with everything that follows from it. */
typedef struct scan_plan {
  const scan_match *match;
  int threads, warps, vector, strips;
  scan_place place;
  int scanners;    /* warps that share a chunk: 1 where a row belongs to a warp */
  int64_t chunk;   /* elements along the scan that its owner holds at once */
  int64_t width;   /* columns of a CTA; rows: 1 */
  int state_words; /* 64-bit words of a chunk's record */
  int stages;      /* SCAN_AHEAD: rows in shared memory */
  int resident;    /* SCAN_AHEAD: CTAs of an SM */
  gen_cache loads, stores;
  bool wide_offsets;
} scan_plan;

template_reason scan_plan_make(const scan_match *match, const target *t, const config *c, scan_plan *plan);
int64_t scan_chunks(const scan_plan *plan); /* of a row */
int64_t scan_owners(const scan_plan *plan); /* rows, or CTAs' widths of columns */
/* Whether chunks that look back all have an SM at once, so that the first way has no tickets. */
bool scan_runs_at_once(const scan_plan *plan, const target *t);
int scan_element_registers(const scan_plan *plan);
double scan_plan_cost_ns(const scan_plan *plan, const target *t, const target_rates *rates);

/* --- the kernel --- */

/* What every kernel of a way is emitted from. */
typedef struct scan_emitter {
  const scan_plan *plan;
  lanes_options before[SCAN_MAX_TERMS], after; /* of the maps: each term's loop is its own */
  lanes_args before_slots[SCAN_MAX_TERMS], after_slots;
  int along_size, lane_size; /* parameters: elements of the loops */
  int outer_size[IR_FORM_LOOPS];
  int rows, chunks, blocks;       /* parameters: how many rows; chunks of each; CTAs across the columns */
  int row_pointer[LIMIT_TENSORS]; /* parameters: inputs whose rows are copied */
  int state, ticket;              /* parameters: what chunks publish; whose turn it is */
  bool by_ticket;                 /* chunks are taken in the order in which CTAs start */
  int clear_state, clear_pairs;   /* parameters of the kernel that clears: where, how many 16 bytes */
  arena *a;
} scan_emitter;

enum { SCAN_CLEAR_THREADS = 256 };

arke_status scan_emit_rows(gen_builder *b, const target *t, void *user, arke_error *err);
arke_status scan_emit_columns(gen_builder *b, const target *t, void *user, arke_error *err);
arke_status scan_emit_clear(gen_builder *b, const target *t, void *user, arke_error *err);

/* --- rows copied ahead --- */

/* Accesses that are copied, and bytes of a row of their tensors; whether there are some, in whole copies. */
uint64_t scan_ahead(const scan_match *m);
int64_t scan_stage_bytes(const scan_match *m);
bool scan_can_copy(const scan_match *m);
/* What the copies take for granted. */
void scan_require_copies(const scan_match *m, recipe *rules, arena *a);

typedef struct scan_ring {
  gen_builder *b;
  const scan_emitter *e;
  const scan_match *m;
  int stage_bytes;
  gen_value base, filled; /* shared addresses: stages, their mbarriers */
} scan_ring;

/* By all threads, as the next three. */
void scan_ring_open(scan_ring *r, gen_builder *b, const scan_emitter *e);
/* Asks for row `row` (I32), where there is one, in `stage` (I32), which nobody reads any more. */
void scan_ring_copy(const scan_ring *r, gen_value row, gen_value stage);
/* Until the stage's copies of its turn are there; parity 0, 1, 0, … for each stage. */
void scan_ring_wait(const scan_ring *r, gen_value stage, gen_value parity);
/* `n` elements of an access from `at` on. */
void scan_ring_read(const scan_ring *r, gen_value stage, int access, gen_value at, int n,
                    gen_value *elements);

/* --- arithmetic --- */

/* Values of the terms (by number) in one place of the scan. */
typedef struct scan_values {
  gen_value v[SCAN_MAX_TERMS];
} scan_values;

gen_value scan_combine(gen_builder *b, ir_reduction op, gen_value x, gen_value y);
/* Of nothing; combining with it changes no value. */
gen_value scan_identity(gen_builder *b, ir_reduction op, gen_type type);
gen_value scan_to_type(gen_builder *b, gen_value v, gen_type type);
scan_values scan_identities(gen_builder *b, const scan_match *m);
/* Term by term; NULL is nothing. */
scan_values scan_combine_all(gen_builder *b, const scan_match *m, scan_values x, scan_values y);

/* Over each segment of `width` lanes, upwards or `down`: what comes before each lane, and all together. By
 * the whole warp; either result may be NULL. */
void scan_warp(gen_builder *b, const scan_match *m, int width, bool down, scan_values v, scan_values *before,
               scan_values *all);

/* Publishes `total` of chunk `chunk` of a row whose state begins at `state` (i64), and returns what all
 * chunks before it make together; called by the whole first warp, all lanes get it. Chunks count in the
 * direction of the scan. */
scan_values scan_look_back(gen_builder *b, const scan_plan *plan, gen_value state, gen_value chunk,
                           gen_value chunks, scan_values total);
int scan_words_of(const scan_match *m); /* 64-bit words of a term in a record */
int scan_columns_shared_bytes(const scan_plan *p);

/* --- the template --- */

const space *scan_space_of(const target *t);
template_reason scan_fits(const ir_problem *p, const target *t, strbuf *detail);
const void *scan_prepare(const ir_problem *p, const target *t, arena *a);
template_reason scan_judge(const void *prepared, const target *t, const target_rates *rates, const config *c,
                           double *ns);
void scan_defaults(const ir_problem *p, const target *t, config *c);
arke_status scan_ways(const ir_problem *p, const target *t, const config *c, const lower_options *options,
                      arena *a, kernel_way *ways, int *n, arke_error *err);
arke_status scan_lower(const ir_problem *p, const target *t, const config *c, const lower_options *options,
                       arena *a, lowered *out, arke_error *err);
void scan_reduced_problem(const ir_problem *p, const target *t, const config *c, int sm_count,
                          ir_problem *reduced);

#endif
