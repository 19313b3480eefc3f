/* Attention on every GPU with asynchronous copies, first of all for few queries and many keys:
 *
 *   P = sum(d) Q * K    A = score(P, query, key)    O = sum(k) weight(A) * V / sum(k) weight(A)
 *
 * as templates/attention.h recognises it. Rows of a tile are queries and, for each, all the indices of the
 * batch that read the same keys and values (query heads that share a head), so that one pass over K and V
 * serves them all. Keys are split over CTAs, and within one over sets of warps, each with a ring of its own
 * (cp.async) and a softmax of its own; what sets and CTAs have are combined in a fixed order. Products are
 * those of warps (mma.sync). Inside attend_*.c. */
#ifndef ARKE_TEMPLATES_ATTEND_H
#define ARKE_TEMPLATES_ATTEND_H

#include "generator/gen_mma.h"
#include "templates/attention.h"

/* --- tuning parameters --- */

/* X(NAME, meaning, values…): the tiling space, in order. */
#define ATTEND_PARAMS(X)                                                                                     \
  X(BLOCK_M, "rows of a tile: queries and heads that share keys", 8, 16, 32, 64, 128)                        \
  X(BLOCK_N, "keys of a step of a set of warps", 16, 32, 64)                                                 \
  X(STAGES, "steps of K and V in the ring of a set", 2, 3, 4, 6, 8)                                          \
  X(WARPS_M, "warps of a set along the tile's rows", 1, 2, 4, 8)                                             \
  X(WARPS_E, "warps of a set along the columns of O, which exchange scores, or each compute all", 1, 2, 4,   \
    8)                                                                                                       \
  X(SETS, "sets of warps with keys of their own", 1, 2, 4, 8)                                                \
  X(HOLD_Q, "1: queries stay in registers, 0: they are read from shared memory in each step", 0, 1)          \
  X(SPLIT, "CTAs that share the keys of a tile", 1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 22, 24, 32, 33, 44, 48,    \
    64, 66, 128, 132)                                                                                        \
  X(CLUSTER, "1: those are a cluster and combined through shared memory, 0: by a second kernel", 0, 1)

typedef enum attend_param {
#define X(NAME, ...) ATTEND_##NAME,
  ATTEND_PARAMS(X)
#undef X
      ATTEND_PARAM_COUNT,
} attend_param;

extern const space attend_space;

/* --- which rows share keys (attend_rows.c) --- */

/* A loop of the batch: its index is unit * own + row, where `own` indices of it are rows of a tile. */
typedef enum attend_share {
  ATTEND_UNIT,   /* every index has keys of its own: `own` is 1 */
  ATTEND_PACKED, /* all have the same: there is one unit */
  ATTEND_SHARED, /* index / by says which: `own` is `by` */
} attend_share;

typedef struct attend_batch {
  attend_share share;
  const ir_expr *by; /* SHARED: an expression of sizes */
} attend_batch;

typedef struct attend_rows {
  attend_batch of[IR_FORM_LOOPS]; /* by place in the match's batch */
} attend_rows;

void attend_rows_find(const attention_match *m, attend_rows *rows);
/* In this problem; 0 where `by` has no value or does not divide the loop. */
int64_t attend_own(const attention_match *m, const attend_rows *rows, int place);
int64_t attend_units(const attention_match *m, const attend_rows *rows);
int64_t attend_pack(const attention_match *m, const attend_rows *rows);
const recipe_expr *attend_own_recipe(const attention_match *m, const attend_rows *rows, int place, arena *a);
const recipe_expr *attend_unit_recipe(const attention_match *m, const attend_rows *rows, int place, arena *a);

/* --- what a configuration is --- */

/* Tiles: those of Q and K by part of the product (ATTEND_K + 1: of the second), and that of V. */
enum { ATTEND_Q, ATTEND_K = ATTEND_Q + ATTENTION_PARTS, ATTEND_V = ATTEND_K + ATTENTION_PARTS, ATTEND_TILES };

/* Rows of a tensor in shared memory: a row is an odd number of chunks of 16 bytes, so that the same chunk of
 * 8 rows lies in different banks. */
typedef struct attend_tile {
  bool present;      /* there is such a tile of its own */
  int access, loop;  /* which runs along a row: depth or wide */
  int rows, columns; /* as the tensor has them */
  int padded;        /* columns, to the next multiple of 16: zeros */
  int pitch_bytes, bytes;
  int offset_bytes; /* in a stage; of Q among queries */
  /* Elements of 8 bits: of K and V they are copied as they are, and converted from there to a place that all
   * stages have together. */
  bool narrow;
  int element_bytes; /* in memory */
  int narrow_pitch_bytes, converted_offset_bytes;
  int width;   /* elements of a vector, which a thread moves at once */
  int vectors; /* of a row */
  bool plain;  /* its keys lie at one distance from one another */
  int run;     /* copied: keys of a step that do, so many after so many; 0: each lies where it lies */
  lanes_options options;
} attend_tile;

typedef struct attend_plan {
  const attention_match *match;
  attend_rows rows;
  int block_m, block_n, stages, warps_m, warps_e, sets, split;
  bool hold_q;
  bool clustered;  /* CTAs that share keys are a cluster */
  bool copied;     /* tiles by cp.async; else through registers, element by element */
  int fragments;   /* of 16 rows, of a warp */
  int thread_rows; /* of a thread: two of a fragment; one where a tile has 8 rows, and half of it is nothing
                    */
  int set_threads, threads;
  int warp_columns; /* of O */
  int warp_keys;    /* of a step whose scores a warp computes: fewer than all where warps exchange them */
  attend_tile tiles[ATTEND_TILES];
  int v_tile;        /* where values are: ATTEND_V, or a part of K, whose rows they are, loaded once */
  int depth;         /* padded columns of all parts */
  int block_queries; /* of a tile where requests are packed; else 0 */
  int stage_bytes;
  int ring_offset_bytes, smem_bytes; /* queries come first */
  int scores_offset_bytes, scores_pitch_bytes;
  int converted_offset_bytes, converted_bytes; /* of a set */
  /* The end: sets put sums and statistics where the ring was, a run of `epilogue.width` columns is evaluated
   * at once. */
  int staged_pitch_bytes, statistics_offset_bytes;
  int live_registers; /* of a thread, about */
  bool wide_offsets;
  lanes_options scores, epilogue;
} attend_plan;

/* How tensors are read and written, whatever the configuration. */
typedef struct attend_vectors {
  bool copied, wide_offsets;
  lanes_options tiles[ATTEND_TILES], epilogue;
} attend_vectors;

/* `copied`: by copies where all tensors, were they without gaps, can be copied; else through registers. */
void attend_vectors_find(const attention_match *m, bool copied, attend_vectors *v);
/* The plan of a configuration, or why the hardware cannot run it. */
template_reason attend_plan_make(const attention_match *m, const attend_vectors *vectors, const target *t,
                                 const config *c, attend_plan *plan);
/* The match and what dtypes, sizes and the target have against it. */
template_reason attend_fit(const ir_problem *p, const target *t, arena *a, attention_match *m, strbuf *detail,
                           arke_status *status);

/* --- kernels --- */

typedef struct attend_kernel {
  const attend_plan *p;
  arena *a;
  lanes_args tile_slots[ATTEND_TILES], score_slots, epilogue_slots;
  /* Parameters: i32. */
  int extents[IR_FORM_LOOPS], own[IR_FORM_LOOPS],
      units[IR_FORM_LOOPS]; /* the latter two by place in the batch */
  int pack, rows, tiles;    /* rows of a unit for each query, all of them, tiles of them (at most) */
  int parts, statistics;    /* workspace: sums and statistics by unit, row and split */
  int items;                /* the second kernel's threads that have work: i64 */
} attend_kernel;

/* A row of a tile: indices of the query and of the batch. */
typedef struct attend_row {
  gen_value exists; /* i1 */
  gen_value number; /* i32: in its unit */
  gen_value query, batch[IR_FORM_LOOPS];
} attend_row;

enum {
  ATTEND_MOST_FRAGMENTS = 2,                    /* of a warp */
  ATTEND_MOST_ROWS = 2 * ATTEND_MOST_FRAGMENTS, /* of a thread */
  ATTEND_MOST_SUMS = 160,
  ATTEND_MOST_RUNS = 8,   /* of a tile in a step */
  ATTEND_MOST_SCORES = 64 /* of a thread in a step */
};

/* The softmax of a thread's rows so far, in base 2 (as attention_emit.h): the largest score, the one that
 * weights are relative to, and this thread's part of their sum. */
typedef struct attend_state {
  gen_value largest[ATTEND_MOST_ROWS], base[ATTEND_MOST_ROWS], total[ATTEND_MOST_ROWS];
} attend_state;

typedef struct attend_emitter {
  gen_builder *b;
  const attend_kernel *k;
  const attend_plan *p;
  const attention_match *m;
  gen_value thread, lane;                                     /* i32 */
  gen_value set, set_thread, warp_row, warp_column, warp_key; /* of the warp's part of a tile */
  gen_value smem_q, ring, converted;                          /* ring: the set's */
  gen_value unit, tile, split;
  gen_value units[IR_FORM_LOOPS];    /* by place in the batch: the unit's part of the index */
  gen_value first_row, end_row;      /* of the tile in its unit; end_row may be further than a tile */
  gen_value first, last;             /* queries of the tile */
  gen_value group_number;            /* packed requests: of rows past the last one it is how many there are */
  gen_value group, is_of_none;       /* packed requests: i32, and i1: rows past the last one; else NULL */
  gen_value from, below;             /* keys that some of its rows see; below may be less */
  gen_value all_from, all_below;     /* keys that all of them see */
  gen_value begin, end;              /* this CTA's steps */
  gen_value rests[ATTENTION_BOUNDS]; /* of bounds, without what the query adds */
  attend_row row;                    /* the tile's first */
  attend_row rows[ATTEND_MOST_ROWS]; /* of the thread */
  gen_value row_from[ATTEND_MOST_ROWS], row_below[ATTEND_MOST_ROWS];
  lanes *l;         /* of scores */
  gen_value *score; /* what `product` is, for the element at hand */
  struct attend_copy *copies[ATTEND_TILES];
  gen_value runs[ATTEND_TILES][ATTEND_MOST_RUNS]; /* in pages: where runs of the next step begin, i64 */
} attend_emitter;

gen_value attend_index(const attend_emitter *e, gen_value x); /* an i32 as an index of evaluators */
gen_value attend_extent(const attend_emitter *e, int loop);

/* Where the CTA is, which keys its rows see, and its part of them (attend_place.c). */
arke_status attend_find_place(attend_emitter *e, arke_error *err);
/* Which tile: *exists (i1; NULL: it does) tells whether there is one for the CTA. */
arke_status attend_find_tile(attend_emitter *e, gen_value *exists, arke_error *err);
void attend_find_unit(attend_emitter *e);
/* Asks for the lines of a table of pages that the tile will read (attend_pages.c); e->row is known. */
arke_status attend_ask_for_pages(attend_emitter *e, arke_error *err);
/* The value of the node that is the query's group, for evaluators whose `user` is the emitter. */
arke_status attend_group_value(void *user, const ir_expr *x, gen_value *values, arke_error *err);
/* The row of that number in the unit; past the tile's last one it is that, and does not exist. */
void attend_find_row(attend_emitter *e, gen_value number, attend_row *row);
void attend_set_row(attend_emitter *e, lanes *l, const attend_row *row);
/* Whether the unit's rows see the key that is set in `l`, but for bounds: i1, or NULL where there are no
 * conditions. */
arke_status attend_find_condition(attend_emitter *e, lanes *l, gen_value *holds, arke_error *err);
/* Fills e->rows, e->row_from and e->row_below: not needed for the first copies. */
void attend_find_rows(attend_emitter *e);

/* Tiles (attend_load.c). */
arke_status attend_load_init(attend_emitter *e, arke_error *err);
arke_status attend_load_queries(attend_emitter *e, arke_error *err);
/* Where the runs of a step's keys begin, which must be one of the tile's or the next: looked up a step ahead
 * of their copies. */
arke_status attend_find_runs(attend_emitter *e, gen_value step, arke_error *err);
/* The runs as values that a loop carries; how many. */
int attend_put_runs(const attend_emitter *e, gen_value *carried);
int attend_get_runs(attend_emitter *e, const gen_value *carried);
/* The set's keys and values of a step (i32), into a stage; e->runs are the step's. */
arke_status attend_load_step(attend_emitter *e, gen_value step, gen_value stage, arke_error *err);

/* The thread's own vectors of a stage that are narrow, which have come (attend_convert.c). */
void attend_convert_step(attend_emitter *e, gen_value stage);
/* Where a tile of a stage is multiplied from. */
gen_value attend_tile_address(const attend_emitter *e, int tile, gen_value stage);
/* Vector number `at` (i32) of a tile: its row, and which it is of the row; *exists is NULL where it does. */
typedef struct attend_place {
  gen_value exists, row, vector;
} attend_place;
attend_place attend_place_of(gen_builder *b, const attend_tile *t, gen_value at, bool all_exist);
/* Clears the columns past a tile's last one, of so many tiles that are `distance` bytes apart, by `threads`
 * threads. */
void attend_clear_padding(gen_builder *b, const attend_tile *t, gen_value first, int tiles, int distance,
                          gen_value thread, int threads);
/* Where a copy puts it. */
gen_value attend_copy_address(gen_builder *b, const attend_tile *t, gen_value tile, const attend_place *v);
/* Products (attend_multiply.c). Scores of fragment f: s[f * block_n / 2 + 4 n + i] is of row f * 16 + g + 8
 * (i / 2), key 8 n + 2 t + i % 2, where g = lane / 4, t = lane % 4; sums alike, by columns of O. */
void attend_hold_queries(attend_emitter *e, gen_value *words);
void attend_multiply_keys(attend_emitter *e, const gen_value *queries, gen_value stage, gen_value *s);
void attend_multiply_values(attend_emitter *e, const gen_value *s, gen_value stage, gen_value *sums);

/* Scores become weights, and sums are rescaled where need be (attend_softmax.c). `key`: the step's first.
 * Warps that share rows exchange scores between the first and the last. */
arke_status attend_scores(attend_emitter *e, gen_value key, gen_value *s, arke_error *err);
void attend_put_scores(attend_emitter *e, const gen_value *s);
void attend_get_scores(attend_emitter *e, gen_value *s);
void attend_softmax(attend_emitter *e, gen_value *s, attend_state *state, gen_value *sums);

/* The end (attend_finish.c): sets are combined, and outputs evaluated or parts stored. All copies and
 * products are done with. */
arke_status attend_finish(attend_emitter *e, attend_state *state, const gen_value *sums, arke_error *err);

/* Statistics and columns of a row, out of parts of its keys (attend_merge.c). */
typedef struct attend_merged {
  gen_value largest, total; /* in base 2 */
  gen_value sums[LANES_MAX];
} attend_merged;
void attend_merge_start(gen_builder *b, int width, attend_merged *all);
void attend_merge(gen_builder *b, int width, attend_merged *all, const attend_merged *parts, int n);
/* What so many neighbouring lanes have (a power of two; all lanes of a warp are here), in an order that is
 * always the same; the first of them has the result. */
void attend_merge_lanes(gen_builder *b, int width, attend_merged *all, int team);
/* Evaluates outputs from what a row has: the run of columns that begins at `column` (i32), and with the
 * first one the statistics. */
arke_status attend_store(attend_emitter *e, const attend_row *row, gen_value column, attend_merged *all,
                         arke_error *err);
gen_value attend_exp2(gen_builder *b, gen_value x);

/* Addresses in the workspace of a row's sums and statistics, i64 (attend_combine.c); `row`: i64, in all
 * units. */
gen_value attend_part_address(attend_emitter *e, gen_value row, gen_value split, gen_value column);
gen_value attend_statistics_address(attend_emitter *e, gen_value row, gen_value split);
int attend_part_columns(const attend_plan *p);
/* Bytes of a part's statistics: the largest score, the sum of weights, of packed requests the group, too. */
int attend_statistics_bytes(const attend_plan *p);
/* Of the second kernel, that have parts of one run of columns. */
int attend_combine_lanes(const attend_plan *p);

arke_status attend_emit(gen_builder *b, const target *t, void *user, arke_error *err);
enum { ATTEND_COMBINE_THREADS = 128 };
arke_status attend_combine_emit(gen_builder *b, const target *t, void *user, arke_error *err);

/* --- the template's functions --- */

template_reason attend_fits(const ir_problem *p, const target *t, strbuf *detail);
const space *attend_space_of(const target *t);
void attend_defaults(const ir_problem *p, const target *t, config *c);
const void *attend_prepare(const ir_problem *p, const target *t, arena *a);
template_reason attend_judge(const void *prepared, const target *t, const target_rates *rates,
                             const config *c, double *ns);
/* Of a score, beside its product: 0 where it is that. */
double attend_body_instructions(const attention_match *m);
double attend_plan_cost_ns(const attend_plan *plan, const target *t, const target_rates *rates);
arke_status attend_ways(const ir_problem *p, const target *t, const config *c, const lower_options *options,
                        arena *a, kernel_way *ways, int *n, arke_error *err);
arke_status attend_lower(const ir_problem *p, const target *t, const config *c, const lower_options *options,
                         arena *a, lowered *out, arke_error *err);
void attend_reduced_problem(const ir_problem *p, const target *t, const config *c, int sm_count,
                            ir_problem *reduced);

#endif
