/* The k largest of each row with their positions, sorted: (V[…,r], I[…,r]) = topk(t: condition) f(…[t]…).
 *
 * Candidates are compared as items: the value as an unsigned key in the order of the notation (NaN above all,
 * -0 as 0), then the position, the earlier the larger. So all items differ, and any way of selecting finds
 * the same ones. The item of nothing is 0, below all others.
 *
 * Lists: each warp keeps its 32 best in order, one a lane. A vector whose largest element may be among the k
 * waits by its position in shared memory until there are 32 of them; then each lane reads one again, and what
 * passes of their elements waits until there are 32 items, which are sorted and merged. Buffer: a CTA
 * collects what passes in shared memory, and when that is full keeps the k best, whose smallest it finds
 * digit by digit. Both read a row once, whatever its order. A row may be split over CTAs, whose winners a
 * second kernel of the same making selects from. Shared by topk_*.c. */
#ifndef ARKE_TEMPLATES_TOPK_H
#define ARKE_TEMPLATES_TOPK_H

#include "ir/ir_form.h"
#include "templates/kernel_lower.h"
#include "templates/lanes.h"
#include "templates/template.h"

enum {
  TOPK_LIST = 32,  /* items of a warp's list */
  TOPK_MOST = 2048 /* winners */
};

/* --- what the operator is --- */

typedef struct topk_match {
  ir_form form;
  const ir_expr *value, *condition;  /* of a candidate; condition NULL: all are */
  int along;                         /* the loop of candidates */
  int rank;                          /* the loop of winners */
  gen_type type;                     /* of the values compared */
  int n_outer, outer[IR_FORM_LOOPS]; /* the other loops, outermost first */
} topk_match;

/* The match and what the problem and the target have against it; the form is the arena's. `err` tells why
 * there is none: for want of memory, say. */
template_reason topk_fit(const ir_problem *p, const target *t, arena *a, topk_match *match, strbuf *detail,
                         arke_error *err);

/* --- tuning parameters --- */

/* X(NAME, meaning, values…): the tiling space, in order. */
#define TOPK_PARAMS(X)                                                                                       \
  X(THREADS, "threads of a CTA", 32, 64, 128, 256, 512, 1024)                                                \
  X(VECTOR, "elements of a thread, loaded at once", 1, 2, 4, 8, 16)                                          \
  X(STRIPS, "vectors of a thread in flight", 1, 2, 4, 8)                                                     \
  X(SELECT, "0: a list in a warp for each row; 1: a list in each warp of a CTA for each row; 2: a buffer",   \
    0, 1, 2)                                                                                                 \
  X(SPLIT, "CTAs of a row, whose winners a second kernel selects from", 1, 2, 4, 8, 16, 32, 64, 128)         \
  X(BUFFER, "items that a buffer holds (SELECT=2)", 2048, 4096, 8192, 16384)                                 \
  X(STREAM, "0: caches as they are; 1: candidates pass L1 by; 2: and leave L2 first", 0, 1, 2)               \
  X(RESIDENT, "threads of an SM for which registers are kept few enough; 0: as the assembler takes them", 0, \
    1024, 1280, 1536)

typedef enum topk_param {
#define X(NAME, ...) TOPK_##NAME,
  TOPK_PARAMS(X)
#undef X
      TOPK_PARAM_COUNT,
} topk_param;

typedef enum topk_way { TOPK_BY_WARP, TOPK_BY_LISTS, TOPK_BY_BUFFER } topk_way;

/* A configuration with everything that follows from it. */
typedef struct topk_plan {
  const topk_match *match;
  int threads, warps, vector, strips;
  topk_way select;
  int split;
  int buffer;     /* items */
  int keep;       /* a power of two that holds the winners: what is sorted */
  int sharers;    /* threads that share a row */
  bool wide_item; /* keys of 64 bits */
  int resident;   /* threads of an SM that registers must allow; 0: no matter */
  gen_cache loads;
} topk_plan;

template_reason topk_plan_make(const topk_match *match, const target *t, const config *c, topk_plan *plan);
int64_t topk_rows(const topk_match *m);
/* Elements of a step of the threads that share a row. */
int topk_step(const topk_plan *plan);
/* Dynamic shared memory of a CTA, and where in it things are. */
typedef struct topk_layout {
  int waiting_bytes; /* lists: of each warp, what waits: items, then positions from `queue` on */
  int queue;
  int spare, bins, found, count; /* buffer: offsets in bytes behind the items */
  int bytes;
} topk_layout;
topk_layout topk_layout_of(const topk_plan *plan);
/* An estimate of a thread's registers. */
double topk_registers(const topk_plan *plan);
double topk_plan_cost_ns(const topk_plan *plan, const target *t, const target_rates *rates);
/* How the winners of `plan`'s CTAs are merged. */
topk_plan topk_merging_plan(const topk_plan *plan);

/* --- items --- */

typedef struct topk_item {
  gen_value key;   /* I64: the key, or with 32-bit keys the key over the place */
  gen_value place; /* I32: the position's complement; NULL: in `key` */
} topk_item;

/* `position` is I32. */
topk_item topk_item_make(gen_builder *b, const topk_match *m, gen_value value, gen_value position);
/* The lowest of the items with x's key, which no candidate is. */
topk_item topk_item_floor(gen_builder *b, topk_item x);
topk_item topk_item_none(gen_builder *b, const topk_match *m);
gen_value topk_item_is_none(gen_builder *b, topk_item x);
/* Back; the value of nothing is what the notation says, its position -1. */
gen_value topk_item_value(gen_builder *b, const topk_match *m, topk_item x);
gen_value topk_item_position(gen_builder *b, topk_item x);
/* A value that is not above those of items from x on: to compare with before items are made. */
gen_value topk_item_bound(gen_builder *b, const topk_match *m, topk_item x);
gen_value topk_item_above(gen_builder *b, topk_item x, topk_item y); /* x > y */
topk_item topk_item_select(gen_builder *b, gen_value condition, topk_item x, topk_item y);
topk_item topk_item_shuffle_xor(gen_builder *b, topk_item x, int distance);
topk_item topk_item_from_lane(gen_builder *b, topk_item x, gen_value lane);
bool topk_is_wide(const topk_match *m);
int topk_item_bytes(bool wide);
/* Memory for `capacity` items (places behind the keys); `index` is I32, global ones' may be I64. */
topk_item topk_item_load_shared(gen_builder *b, bool wide, gen_value base, int capacity, gen_value index);
void topk_item_store_shared(gen_builder *b, topk_item x, gen_value base, int capacity, gen_value index);
topk_item topk_item_load_global(gen_builder *b, bool wide, gen_value keys, gen_value places, gen_value index);
void topk_item_store_global(gen_builder *b, topk_item x, gen_value keys, gen_value places, gen_value index);
/* Carried values of loops and branches: 1 or 2. */
int topk_item_values(topk_item x, gen_value *values);
topk_item topk_item_of(bool wide, const gen_value *values);

/* --- the kernels --- */

typedef struct topk_emitter {
  const topk_plan *plan;
  bool merging; /* candidates are the winners of the CTAs before, not elements */
  lanes_options in, out;
  lanes_args in_slots, out_slots;
  int size, part;                /* parameters: candidates of a row, and of a CTA */
  int winners, rows;             /* parameters: k, rows */
  int outer_size[IR_FORM_LOOPS]; /* parameters */
  int from_keys, from_places;    /* parameters: what is merged */
  int to_keys, to_places;        /* parameters: where winners wait to be merged; -1: they are the result */
  arena *a;
} topk_emitter;

/* What a thread looks at in a step. */
typedef struct topk_vector {
  lanes *in;
  gen_value active, position;                      /* I32, of the first element */
  gen_value values[LANES_MAX], allowed[LANES_MAX]; /* allowed: the condition; NULL: there is none */
  gen_value most, any; /* the largest of the values allowed (NaN if one is), and whether there are some */
  topk_item item;      /* merging */
} topk_vector;

enum {
  TOPK_MAX_STRIPS = 8,
  TOPK_GATHERED = TOPK_MAX_STRIPS, /* the strip that is read again, each lane at a position of its own */
};

typedef struct topk_kernel {
  gen_builder *b;
  const topk_emitter *e;
  const topk_plan *p;
  const topk_match *m;
  gen_value lane, warp, thread; /* thread: among those that share the row */
  gen_value row, slice;         /* I32; slice: of the row's CTAs */
  gen_value begin, end;         /* I32: candidates of this CTA */
  gen_value winners;
  lanes *out;
  topk_vector vectors[TOPK_MAX_STRIPS + 1];
} topk_kernel;

/* Emits the waiting for launches before, and where the CTA is. */
arke_status topk_begin(topk_kernel *k, gen_builder *b, const topk_emitter *e, arke_error *err);
void topk_set_row(topk_kernel *k, gen_value row, gen_value slice);
/* Loads the candidates from `base` (I32) on: strip s, element v of a thread. `whole`: all of them exist. */
arke_status topk_load(topk_kernel *k, gen_value base, bool whole, arke_error *err);
/* Loads the vector at `position` (I32), which exists, into strip TOPK_GATHERED; it counts where `active`. */
arke_status topk_load_gathered(topk_kernel *k, gen_value position, gen_value active, arke_error *err);
/* Computes strip s: outside of branches, since what is made is remembered. The second one alone its largest
 * value and whether there is any. */
arke_status topk_compute(topk_kernel *k, int s, arke_error *err);
arke_status topk_compute_most(topk_kernel *k, int s, arke_error *err);
int topk_vector_lanes(const topk_kernel *k);
/* Whether something of strip s of this thread, or its element v, may not be below `bound`: by value alone, so
 * that items are made for few. */
gen_value topk_some_may_pass(topk_kernel *k, int s, topk_item bound);
gen_value topk_may_pass(topk_kernel *k, int s, int v, topk_item bound);
topk_item topk_candidate(topk_kernel *k, int s, int v);
/* The larger of two values, NaN if one is; and what is not above any. */
gen_value topk_larger(gen_builder *b, gen_value x, gen_value y);
gen_value topk_lowest(topk_kernel *k);
/* Whether a value may not be below `bound`. NaN is not below anything, and nothing below NaN. */
gen_value topk_not_below(topk_kernel *k, gen_value x, topk_item bound);
/* An item just below all those of a value. */
topk_item topk_below(topk_kernel *k, gen_value x);
/* Merging: an item just below the thread's; nothing where there is none. */
topk_item topk_thread_most(topk_kernel *k);
/* Winner `rank` (I32) of the row, where `active`. */
arke_status topk_store(topk_kernel *k, topk_item x, gen_value rank, gen_value active, arke_error *err);

/* 32 items, one a lane. */
topk_item topk_sort_up(gen_builder *b, topk_item x);
/* The 32 best of `list`, sorted downwards, and `other`, sorted upwards: sorted downwards. */
topk_item topk_merge(gen_builder *b, topk_item list, topk_item other);

/* Sorts `keep` items in shared memory at `base` (capacity `capacity`) downwards; item e * threads + thread is
 * returned in items[e]. By all threads, which are together before and after. */
void topk_sort_shared(topk_kernel *k, gen_value base, int capacity, gen_value count, topk_item *items);
/* A lower bound of the `winners` best of `count` items in shared memory which no other item passes. All
 * threads, together before and after. */
topk_item topk_select_bound(topk_kernel *k, gen_value base, gen_value count);

arke_status topk_emit_lists(gen_builder *b, const target *t, void *user, arke_error *err);
arke_status topk_emit_buffer(gen_builder *b, const target *t, void *user, arke_error *err);

/* --- the template --- */

const space *topk_space_of(const target *t);
template_reason topk_fits(const ir_problem *p, const target *t, strbuf *detail);
void topk_defaults(const ir_problem *p, const target *t, config *c);
const void *topk_prepare(const ir_problem *p, const target *t, arena *a);
template_reason topk_judge(const void *prepared, const target *t, const target_rates *rates, const config *c,
                           double *ns);
arke_status topk_ways(const ir_problem *p, const target *t, const config *c, const lower_options *options,
                      arena *a, kernel_way *ways, int *n, arke_error *err);
arke_status topk_lower(const ir_problem *p, const target *t, const config *c, const lower_options *options,
                       arena *a, lowered *out, arke_error *err);
void topk_reduced_problem(const ir_problem *p, const target *t, const config *c, int sm_count,
                          ir_problem *reduced);

#endif
