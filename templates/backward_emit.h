/* What the parts of the gradients' kernels share. */
#ifndef ARKE_TEMPLATES_BACKWARD_EMIT_H
#define ARKE_TEMPLATES_BACKWARD_EMIT_H

#include "generator/gen_control.h"
#include "generator/gen_kernel.h"
#include "generator/gen_pipeline.h"
#include "templates/backward.h"

/* Parameters of a pass's kernel, declared before the text is made. */
typedef struct backward_kernel {
  const backward_plan *plan;
  const backward_pass *p;
  arena *a;
  int map_rows[2], map_columns[2], map_out[2], map_o; /* where they are there */
  int extents[IR_FORM_LOOPS];                         /* i32 */
  int tiles, heads, items;    /* i32: of the rows of a head; of the batch, parts of heads counted; all */
  int ratio, per_part;        /* i32: query heads that share a head of keys; of them in a part */
  int lse, dot, pitch;        /* l and e of a row of queries in the workspace; i32: of one head to the next */
  int partials[2];            /* sums of parts in the workspace */
  int dq, turns;              /* sums of dQ there, and which tile has added to a step of a group last */
  int rest[ATTENTION_BOUNDS]; /* i32: of bounds, what sizes alone tell; -1: more than those */
  lanes_args row_slots, dot_slots, epilogue_slots[3];
} backward_kernel;

/* A kernel in the making. Values are i32 unless said otherwise. */
typedef struct backward_emitter {
  gen_builder *b;
  const backward_kernel *k;
  const backward_plan *plan;
  const backward_pass *p;
  const backward_match *m;
  gen_value map_rows[2], map_columns[2], map_out[2]; /* i64 */
  gen_value smem_rows, smem_columns[2], smem_statistics[2], smem_slopes, smem_update;
  gen_pipeline of_rows, of_columns[2];
  lanes *l; /* of subscripts, bounds and l; its loops of the batch are those of the tile at hand */
} backward_emitter;

/* Steps of a head in which any of some rows meets a column, at least one, and the columns that all of them
 * meet, from `all_from` to below `all_below`. */
typedef struct backward_steps {
  gen_value begin, end, all_from, all_below;
} backward_steps;

/* A tile: rows of one head, and the columns that any of them meets, in steps. */
typedef struct backward_place {
  gen_value loops[IR_FORM_LOOPS]; /* of the batch */
  gen_value head_end, heads; /* query heads that are summed: so many before `head_end`; NULL: there is one */
  gen_value part, batch;     /* of the heads that share keys; number of the batch's element */
  gen_value first, last;     /* rows; both exist */
  backward_steps steps;
} backward_place;

/* The item that a CTA takes in a round, as long as there is such an item. Where items have unlike lengths,
 * CTAs take them in reversed order in every other round: else one might always get the longest.
 * backward_locate computes where an item is, and sets the loops of e->l. backward_tile_stage is where its
 * rows are: kept as the round, which is fewer registers than a stage. */
gen_value backward_item(backward_emitter *e, gen_value round);
gen_stage backward_tile_stage(backward_emitter *e, gen_value round, bool producer);
arke_status backward_locate(backward_emitter *e, gen_value item, backward_place *at, arke_error *err);
/* The steps of the 64 rows of a warp group, which are some of the tile's. */
arke_status backward_group_steps(backward_emitter *e, const backward_place *at, gen_value group,
                                 backward_steps *steps, arke_error *err);
/* The columns that a row meets, from *from to below *below, inside the tensor. */
arke_status backward_row_columns(backward_emitter *e, gen_value row, gen_value *from, gen_value *below,
                                 arke_error *err);
/* Steps of the tile of the head that comes before in the order of items, none where there is no such tile;
 * its number less that of the tile at hand. */
arke_status backward_tile_before(backward_emitter *e, const backward_place *at, backward_steps *steps,
                                 arke_error *err);
int backward_number_before(const backward_emitter *e);
/* A query's row in the workspace, where every head has `pitch` of them. `head` NULL: the tile's. */
gen_value backward_query_row(backward_emitter *e, const backward_place *at, gen_value head, gen_value query);
/* i64 address of what the workspace keeps of a query, `base` being one of the kernel's pointers. */
gen_value backward_statistic(backward_emitter *e, const backward_place *at, gen_value head, gen_value query,
                             int base);
/* i64 address of a part's sum of a row and a column, of the pass's output `which`. */
gen_value backward_partial(gen_builder *b, gen_value base, gen_value part, gen_value batches, gen_value batch,
                           gen_value rows, gen_value row, int columns, gen_value column);
/* An i32 as an index of the evaluators. */
gen_value backward_index(const backward_emitter *e, gen_value x);
gen_value backward_extent(const backward_emitter *e, int loop);

/* The steps of a tile, in the order that both roles walk them: those of a head, then of the next one. */
typedef struct backward_walk {
  gen_value heads, step; /* heads that are left, this one counted; NULL: there is one */
} backward_walk;
backward_walk backward_walk_start(const backward_place *at);
gen_value backward_walk_goes_on(backward_emitter *e, const backward_place *at,
                                const backward_walk *w); /* i1 */
backward_walk backward_walk_next(backward_emitter *e, const backward_place *at, const backward_walk *w);
/* The query head that steps are of, which becomes that of e->l; NULL: the tile's. */
gen_value backward_walk_head(backward_emitter *e, const backward_place *at, const backward_walk *w);

/* The producer's part, executed by one thread, and a consumer warp group's, by its 128 threads: `group` is
 * its number, `thread` the index in it. */
arke_status backward_emit_producer(backward_emitter *e, arke_error *err);
arke_status backward_emit_consumer(backward_emitter *e, gen_value group, gen_value thread, arke_error *err);

/* What a consumer thread knows of its tile. It has two rows of it, 8 apart; accumulator i is of row (i / 2) %
 * 2, column 8 (i / 4) + i % 2 behind `column`; four neighbouring lanes share a row. */
typedef struct backward_rows {
  gen_value group, thread; /* of the group's 128 */
  gen_value shared[2];     /* where the group's rows of the two operands are, in the first panel */
  gen_value row[BACKWARD_ROWS];
  gen_value column;                                 /* of its first column in a step */
  gen_value lse[BACKWARD_ROWS], dot[BACKWARD_ROWS]; /* of queries: l in base 2, and e */
} backward_rows;

/* l and e of the thread's queries, which are left in the workspace. Reads of O and dO are begun by the first
 * function, so that they are under way while others are waited for (backward_rows.c). */
typedef struct backward_reads backward_reads;
arke_status backward_rows_read(backward_emitter *e, const backward_place *at, const backward_rows *rows,
                               backward_reads **reads, arke_error *err);
arke_status backward_rows_finish(backward_emitter *e, const backward_place *at, backward_rows *rows,
                                 backward_reads *reads, arke_error *err);

/* The kernel of ONE that comes first: l and e of all queries, and zeroes for what is added up. */
arke_status backward_emit_statistics(gen_builder *b, const target *t, void *user, arke_error *err);

enum {
  BACKWARD_GROUP_BARRIER = 1,
  BACKWARD_ALL_BARRIER = 5
}; /* named ones: a group each; of all consumers */

/* Words of 16 columns at a time to where the group's rows of a tile are (backward_store.c). */
void backward_put_words(backward_emitter *e, const backward_rows *rows, const attention_tile *tile,
                        gen_value shared, const gen_value *words, int n_words);

/* A group's part of dQ in the kernel of dK and dV: all 64 queries of a step, some of dQ's columns
 * (backward_update.c). dS of a step is in one of two places, in turn: `place` is the one of the next step. */
typedef struct backward_update {
  gen_wgmma by_queries, by_keys; /* dS times K; dS by keys times Q */
  gen_value slopes[2], keys; /* i64: dS of the first place by queries and by keys; the group's columns of K */
  gen_value place;           /* 0 or 1 */
  int n;
  gen_value sums[64];
} backward_update;

void backward_update_set_up(backward_emitter *e, gen_value group, backward_update *u);
/* For a tile whose keys are at `shared`. */
void backward_update_start(backward_emitter *e, const backward_rows *rows, gen_value shared,
                           backward_update *u);
/* dS of a step, as words of two queries, which all groups have when it returns. */
void backward_update_put(backward_emitter *e, const backward_rows *rows, backward_update *u,
                         const gen_value *words, int n_words);
/* Products of the last dS that was put: a group of products each. */
void backward_update_issue(backward_emitter *e, backward_update *u);
void backward_update_issue_keys(backward_emitter *e, backward_update *u, gen_value columns, gen_value *sums);
/* Hands a step's sums, whose products have been waited for, to the group's sender. */
void backward_update_send(backward_emitter *e, const backward_rows *rows, const backward_update *u);
/* Waits until the place of what was sent last is free. */
void backward_update_free(backward_emitter *e, gen_value group);
/* The sender's part: a warp, of which one lane acts. */
arke_status backward_emit_sender(backward_emitter *e, gen_value group, gen_value lane, arke_error *err);

/* Products become P, and P and slopes become dS, in place (backward_scores.c). `stage` is the index of the
 * step's stage; `column` that of its first column. */
void backward_weights(backward_emitter *e, const backward_rows *rows, gen_value stage, gen_value *s, int n);
void backward_slopes(backward_emitter *e, const backward_rows *rows, gen_value stage, const gen_value *p,
                     gen_value *slopes, int n);
/* 0 for columns that a row does not meet, whatever was there. */
arke_status backward_mask(backward_emitter *e, const backward_rows *rows, gen_value column, gen_value *x,
                          int n, arke_error *err);

/* The outputs of the thread's rows, from their sums (backward_store.c). Where an output is copied, the copy
 * is under way then, out of the place of the group's rows, and committed by the group's thread 0. */
arke_status backward_store(backward_emitter *e, const backward_place *at, const backward_rows *rows,
                           int which, const gen_value *sums, arke_error *err);

arke_status backward_emit(gen_builder *b, const target *t, void *user, arke_error *err);

/* The kernel that adds up the parts of an output: its launch. `output` is BACKWARD_FIRST (dK) or _SECOND. */
arke_status backward_make_combine(const backward_plan *plan, const backward_pass *p, int which,
                                  const recipe_expr *partials, arena *a, kernel_launch *l, arke_error *err);
/* Bytes of the parts' sums of a pass's output. */
const recipe_expr *backward_partial_bytes(const backward_plan *plan, const backward_pass *p, int which,
                                          arena *a);
/* Elements of a pass's batch loops; rows of its tiles together. */
const recipe_expr *backward_batches(const backward_plan *plan, int side, arena *a);
const recipe_expr *backward_padded_rows(const backward_plan *plan, const backward_pass *p, arena *a);

#endif
