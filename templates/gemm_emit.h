/* What the parts of the gemm kernel's text share. */
#ifndef ARKE_TEMPLATES_GEMM_EMIT_H
#define ARKE_TEMPLATES_GEMM_EMIT_H

#include "generator/gen_control.h"
#include "generator/gen_kernel.h"
#include "generator/gen_pipeline.h"
#include "templates/gemm.h"

/* STREAM_K: how units are dealt out (gemm_stream.c). Values are i32 unless said otherwise. */
typedef struct gemm_stream {
  gen_value slots, flags; /* i64 */
  gen_value whole;        /* units computed whole, in full rounds over the CTAs; the others are split */
  gen_value share, more;  /* k-steps of a CTA, and how many CTAs, the first ones, have one more */
  gen_value end_unit;     /* where this CTA's k-steps begin, and which of the unit's are its: often up to */
  gen_value end_first, end_steps; /* the unit's end */
  gen_value begin_steps;          /* of the next unit, from its beginning; 0: none */
} gemm_stream;

/* A kernel in the making. Values are i32 unless said otherwise. */
typedef struct gemm_emitter {
  gen_builder *b;
  const gemm_kernel *kernel;
  const gemm_plan *plan;
  gen_value map_a, map_b[CONTRACTION_SUMS], map_y; /* i64; map_y NULL: copies store nothing */
  gen_value m, n, k;
  gen_value k_steps;           /* pipeline stages of one tile, at least 1 */
  gen_value part_steps;        /* of a part of K: of one value of the terms' outer loops */
  gen_value smem;              /* stages, then store buffers */
  gen_value rank;              /* of this CTA in its cluster */
  gen_value unit, unit_step;   /* first unit of this CTA, and from one to the next */
  gen_value units_m, units_n;  /* tiles of a matrix counted in clusters */
  gen_value units_each, units; /* of a matrix; of all of them */
  gen_value batches;           /* matrices; NULL: there is one */
  gemm_stream stream;
  gen_pipeline pipeline, scale_ring;
  gen_pipeline reads; /* ping-pong with STAGED: a ring of each group, one after the other */
  gen_value turns;    /* ping-pong: first of two mbarriers, whose phase is a group's turn */
  gen_value even;     /* EVEN: the table of rectangles (gemm_even.c) */
  /* The fragment whose epilogue is evaluated (gemm_epilogue.c). */
  const gen_value *sums; /* the accumulators of a sum lie `sum_stride` apart */
  int sum_stride;
  lanes *fragment;
  int part;                           /* its first column, 0 or 1 */
  const gen_value *given[GEMM_READS]; /* staged reads: two elements, of 16 bits in one i32 */
  gen_value group;                    /* of the rows at hand */
  const product_row *row;             /* where rows are whole: what the row at hand is reduced to */
  arke_status status;                 /* the first failure of what was evaluated, told by `err` */
  arke_error *err;
} gemm_emitter;

/* Remembers a failure; what is emitted after it is thrown away. Returns whether there was none. */
bool gemm_note(gemm_emitter *e, arke_status status);

/* This CTA's tile in a unit: first row and column, past the edge in the incomplete part of a cluster, and
 * which of the matrices it is of (NULL: there is one). */
typedef struct gemm_tile {
  gen_value row, column, batch;
  gen_value end,
      group; /* the row that the tile's group ends before, and its number; NULL: there are no groups */
} gemm_tile;

/* Values of the loops that have one in a tile, by loop. */
void gemm_outer_values(gemm_emitter *e, gemm_tile tile, gen_value values[IR_FORM_LOOPS]);
/* Sets a tile's loops in an evaluator: `row` and `column` are of m and n. */
void gemm_set_loops(gemm_emitter *e, lanes *l, gemm_tile tile, gen_value row, gen_value column);
/* Sets the loop of the terms. */
void gemm_set_terms(gemm_emitter *e, lanes *l, gen_value k);
/* Values of the terms' loops at k-step `step`, by loop. */
void gemm_terms_at(gemm_emitter *e, gen_value step, gen_value values[IR_FORM_LOOPS]);
/* Coordinates, in the order of the map, at a tile's first row and column; those of the terms are NULL. */
void gemm_coordinates(gemm_emitter *e, const gemm_view *view, gemm_tile tile,
                      gen_value coordinates[GEMM_MAP_RANK]);

/* Ragged groups: how many units there are, once memory may be read; a unit's tile; the value of a row's
 * group, for evaluators; and what is stored of a panel whose tile is cut short, by all threads of a consumer
 * group: its rows, 16 bytes at a time. */
void gemm_groups_init(gemm_emitter *e);
gemm_tile gemm_groups_tile(gemm_emitter *e, gen_value unit_m);
void gemm_groups_store(gemm_emitter *e, gen_value thread, gen_value buffer, gemm_tile tile);
/* i1: all the consumer group's rows of a tile, from `row` on, are the tile's group's. */
gen_value gemm_groups_are_whole(gemm_emitter *e, gen_value row, gen_value end);

/* One thing to compute: some k-steps of a unit. */
typedef struct gemm_item {
  gen_value unit, first, steps;
} gemm_item;

/* The places of a CTA's walk: units, then, with STREAM_K, parts of the last ones. From the first place on,
 * gemm_next_place leads through all below the limit. */
gen_value gemm_first_place(gemm_emitter *e);
gen_value gemm_next_place(gemm_emitter *e, gen_value place, gen_value step);
gen_value gemm_place_limit(gemm_emitter *e);
gemm_item gemm_item_at(gemm_emitter *e, gen_value place);
/* i1: the item leaves out the unit's last k-steps, so that another CTA stores the unit. */
gen_value gemm_item_is_partial(gemm_emitter *e, gemm_item item);

void gemm_tiles_init(gemm_emitter *e);
void gemm_stream_init(gemm_emitter *e);
gemm_tile gemm_tiles_at(gemm_emitter *e, gen_value unit);
/* Row and column of element `index` of a walk over a grid of units. */
void gemm_walk_grid(gemm_emitter *e, gen_value index, gen_value units_m, gen_value units_n, gen_value *unit_m,
                    gen_value *unit_n);

/* EVEN: declares the table; fills it, by one thread; what there is to know after a barrier: how many units
 * there are, and of one its columns (the same in all lanes) and its tile. */
void gemm_even_declare(gemm_emitter *e);
void gemm_even_fill(gemm_emitter *e);
gen_value gemm_even_units(gemm_emitter *e);
gen_value gemm_even_width(gemm_emitter *e, gen_value unit);
gen_value gemm_even_width_alone(gemm_emitter *e, gen_value unit); /* by one thread */
gemm_tile gemm_even_tile(gemm_emitter *e, gen_value unit);

/* A role's walk over its places: fill `place`, `step`, `stage` and the `extra` values it carries from one to
 * the next, then gemm_walk_begin, the body for these values, which leaves the next ones in place,
 * gemm_walk_end.
 */
enum { GEMM_WALK_EXTRA = 160 };
typedef struct gemm_walk {
  gen_value place, step;
  gen_stage stage;  /* of the pipeline */
  gen_stage scales; /* of consumers: of their ring; NULL: there is none */
  gen_value extra[GEMM_WALK_EXTRA];
  int n_extra;
  gen_value carried[5 + GEMM_WALK_EXTRA];
  gen_loop loop;
} gemm_walk;
void gemm_walk_begin(gemm_emitter *e, gemm_walk *walk);
void gemm_walk_end(gemm_emitter *e, gemm_walk *walk);

/* Where an operand's part of an item is in its tensor. */
typedef struct gemm_source {
  const gemm_view *view;
  gen_value map;
  gen_value at[GEMM_MAP_RANK]; /* those of the terms are NULL */
  int terms[GEMM_MAP_RANK];    /* there, their loops */
} gemm_source;
gemm_source gemm_source_of(gemm_emitter *e, const gemm_view *view, gen_value map, gemm_tile tile);
/* By one thread: the tiles of B of all sums into a stage. `terms`: the first ones', by loop; `width`: with
 * packs_columns the tile's columns. */
void gemm_load_b(gemm_emitter *e, const gemm_source *of_b, gen_value width, gen_value stage,
                 const gen_value *terms, gen_value full);

/* In place of the producer's part, by the 128 threads of its warp group: rows of A at gathered places
 * (gemm_gather.c). */
void gemm_emit_gatherer(gemm_emitter *e, gen_value thread);
/* By a consumer that has waited for a stage: what matrix units may then read of it. */
void gemm_stage_arrived(gemm_emitter *e);

/* The producer's part, executed by one thread, and a consumer warp group's, by its 128 threads: `group` is
 * its number, `thread` the index in it. */
void gemm_emit_producer(gemm_emitter *e);
void gemm_emit_consumer(gemm_emitter *e, gen_value group, gen_value thread);

/* --- the end of a tile --- */

/* The epilogue turns the sums of a consumer group's part of a tile, panel by panel, into packed elements of
 * the first output, for gemm_store_panel, and stores all other outputs itself. Reads of some columns
 * (plan->chunk_blocks) are issued before those ahead of them are evaluated; gemm_epilogue_begin, which may
 * come before the sums are there, issues those of the first. */
enum { GEMM_FRAGMENTS = 128, GEMM_ROWS = 8 };
typedef struct gemm_epilogue {
  gemm_tile tile;
  int columns;                       /* of the tile */
  lanes *reads[2][GEMM_FRAGMENTS];   /* evaluators of a chunk's fragments, and of the next one's */
  int next;                          /* where the next chunk's go */
  gen_value first_row, first_column; /* this thread's in the tile */
  gen_value group, thread, barrier;  /* of the consumer group */
  gen_stage stage;                   /* STAGED: where the first panel is */
  product_row rows[GEMM_ROWS];       /* whole rows: this thread's, row tile by row tile, halves in each */
  /* The same of fragment i, as packed counts them, from 2 i on: what gemm_emitter.given points to. */
  gen_value given[GEMM_READS][GEN_WGMMA_MAX_ACCUMULATORS];
} gemm_epilogue;
/* `group`, `thread`: as for gemm_emit_consumer; `reads`: gemm_consumer's. */
void gemm_epilogue_begin(gemm_emitter *e, gemm_epilogue *p, gen_value group, gen_value thread,
                         gen_stage reads, gemm_tile tile, int columns);
/* `acc`: the group's accumulators of all sums, row tile by row tile, sum by sum in it. packed[i] holds
 * elements 2 i and 2 i + 1 of a tile of one sum; what panels share is left to the first of them. */
void gemm_epilogue_panel(gemm_emitter *e, gemm_epilogue *p, int panel, const gen_value *acc,
                         gen_value *packed);

/* STAGED, by the producer: brings a tile's reads into the L2 cache; into stages from `at` on, of which it
 * returns the one behind. `columns`: of the tile (i32; NULL: BLOCK_N). The first does what it can without
 * STAGED. */
void gemm_reads_fetch(gemm_emitter *e, gemm_tile tile, gen_value columns);
gen_stage gemm_reads_load(gemm_emitter *e, gemm_tile tile, gen_value columns, gen_stage at);
/* By a consumer group: takes blocks of 8 columns of a panel from their stage, the first ones of a stage when
 * it has arrived; gives a stage back after its last panel. */
void gemm_reads_take(gemm_emitter *e, gemm_epilogue *p, int panel, int begin, int end);
void gemm_reads_release(gemm_emitter *e, const gemm_epilogue *p, int panel);

/* Rows that are reduced (gemm_rows.c): in place of panels. Of whole rows: before them, fills p->rows and
 * stores the outputs without columns. */
void gemm_rows_finish(gemm_emitter *e, gemm_epilogue *p, gen_value thread, const gen_value *acc);
/* Whether an output is over the columns of rows that are reduced. */
bool gemm_rows_have(const contraction *c, int output);
/* The value of a sum in the fragment at hand, for evaluators whose `user` is the gemm_kernel. */
arke_status gemm_sum_value(void *user, const ir_expr *x, gen_value *values, arke_error *err);

/* How a consumer group stores tiles: what does not change from tile to tile. */
typedef struct gemm_store {
  gen_value leader;          /* i1: the thread that issues copies */
  gen_value barrier;         /* of the group */
  gen_value buffers;         /* first of its store buffers */
  gen_value row;             /* first row of the group in a tile */
  gen_value thread;          /* in the group */
  gen_value lane_offsets[4]; /* by 16-column block of a panel: where in a buffer this lane names its rows */
} gemm_store;
void gemm_store_init(gemm_emitter *e, gemm_store *s, gen_value group, gen_value thread);
/* From the beginning of a group's rows of a panel to the row that this lane names for stmatrix and ldmatrix
 * in its 16-column block `block`. `transposed`: a row in shared memory is a column of the tile. */
gen_value gemm_lane_offset(gemm_emitter *e, gen_value thread, bool transposed, int block);
/* Before the first panel of a tile, by all consumers. */
void gemm_store_begin(gemm_emitter *e, const gemm_store *s);
/* Stores panel `panel` of the group's part of a tile. Panels of a tile are stored in order, all of them. */
void gemm_store_panel(gemm_emitter *e, const gemm_store *s, gemm_tile tile, int columns, int panel,
                      const gen_value *packed);
/* A consumer group, and what it carries from tile to tile. */
typedef struct gemm_consumer {
  gemm_emitter *e;
  gen_value group, thread;
  gemm_store store;
  gemm_epilogue epilogue;
  gemm_walk walk;
  gen_stage reads; /* STAGED: where the epilogue of the tile at hand finds its first panel */
} gemm_consumer;

/* STAGED: moves the walk's stage over those of reads, which `c->reads` names from then on; gives them back
 * unread, for an item that has no epilogue. */
void gemm_reads_pass(gemm_consumer *c);
void gemm_reads_drop(gemm_consumer *c);
/* Under ping-pong panels of reads come to places of the group's own, by one thread of the producer's warp
 * group that does nothing else (gemm_emit_reads). Whether there are such; a group counts its panels modulo
 * two rounds of its places, from 0 on, and `gemm_consumer.reads` has the count as its index. */
bool gemm_reads_apart(const gemm_plan *plan);
void gemm_emit_reads(gemm_emitter *e);
gen_value gemm_reads_behind(gemm_emitter *e, gen_value count, int panels);

/* A finished tile that is stored while the next is multiplied. */
typedef struct gemm_pending {
  gen_value exists; /* i1 */
  gemm_tile tile;
  const gen_value *packed;
} gemm_pending;
/* Under the products of k-step `step`: panel number `step` of the pending tile. */
void gemm_store_pending(gemm_consumer *c, const gemm_pending *pending, gen_value step);

/* The products of a stage, of so many columns; of stage 0 the descriptors, i64, of the group's A and of B. */
gen_wgmma gemm_products(const gemm_plan *plan, int columns);
void gemm_descriptors(gemm_consumer *c, gen_value *a, gen_value *b);
/* Accumulates the stages of `item` in partial sums, which are added to `acc`, where scales are to be
 * multiplied by them (gemm_promote.c). Nothing is left in flight. `pending` (NULL: none) is stored on the
 * way. */
void gemm_promote(gemm_consumer *c, const gemm_pending *pending, gemm_item item, gen_value *acc);

/* The product of an operand's scales, at a row, a column and term k. */
bool gemm_has_scales(const gemm_plan *plan, int operand);
gen_value gemm_load_scale(gemm_emitter *e, gemm_tile tile, int operand, gen_value row, gen_value column,
                          gen_value k);
/* STAGED (gemm_scale_ring.c): scales in shared memory. By GEMM_SCALE_WARPS warps of the producer's group, of
 * which `thread` is the index, those of all items of the CTA; by a consumer group those of a k-step, of its
 * rows 8 apart and of segments of columns, sum by sum. */
void gemm_scale_ring_declare(gemm_emitter *e);
void gemm_emit_scales(gemm_emitter *e, gen_value thread);
void gemm_take_scales(gemm_consumer *c, gen_stage at, gen_value *rows, gen_value *columns);

/* STREAM_K=2 (gemm_split.c): this CTA's part of a unit; the columns of a tile that it finishes; the sums of
 * those, from the CTAs' parts, in place of the first of `acc`, by all consumers; and what all other threads
 * execute meanwhile. */
gemm_item gemm_split_item(gemm_emitter *e, gen_value unit);
gemm_tile gemm_split_tile(gemm_emitter *e, gemm_tile tile);
void gemm_split_exchange(gemm_consumer *c, gen_value *acc);
void gemm_split_meet(gemm_emitter *e);

/* STREAM_K: by the producer, after the stages of `item`: the sums of the CTAs that computed the unit's
 * k-steps before, in stages from `at` on. Returns the stage after them. */
gen_stage gemm_stream_load(gemm_emitter *e, gemm_item item, gen_stage at);
/* By a consumer group whose sums of `item` are in `acc`: leaves them in the workspace for another CTA, or
 * adds what gemm_stream_load brings. Moves `at` over its stages. */
void gemm_stream_exchange(gemm_emitter *e, const gemm_store *s, gen_value group, gen_value thread,
                          gemm_item item, gen_stage *at, gen_value *acc);
/* Waits until shared memory is no longer read by stores. */
void gemm_store_drain(gemm_emitter *e, const gemm_store *s);

#endif
