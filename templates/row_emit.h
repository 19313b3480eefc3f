/* Between the files that emit a row kernel. Only row_*.c include this. */
#ifndef ARKE_TEMPLATES_ROW_EMIT_H
#define ARKE_TEMPLATES_ROW_EMIT_H

#include "generator/gen_control.h"
#include "templates/lanes.h"
#include "templates/row.h"

enum { ROW_MOST_ELEMENTS = 160, ROW_MOST_ROWS = 8 }; /* in one block; at once */

/* One kernel of a way. */
typedef struct row_kernel {
  const row_match *m;
  const row_plan *plan;
  arena *a;
  int first_pass, last_pass; /* passes it makes; results of earlier phases come from the workspace */
  bool lone_part;            /* one CTA a row where the others have several */
  lanes_options options;     /* what all evaluators of the kernel share */
  lanes_args slots;
  int rows, workspace; /* parameters */
} row_kernel;

/* A partial result of a reduction; `at`: where the best was found (argmax, argmin), -1 where nothing was. */
typedef struct row_value {
  gen_value v, at;
} row_value;

struct row_emitter;

/* One row as its group sees it. */
typedef struct row_state {
  struct row_emitter *e;
  gen_value row, valid;    /* among all rows, of the index type; i1, NULL: always */
  gen_value head, vectors; /* first column of the aligned part, and vectors of that; the index type */
  lanes *whole;            /* values that are one for the row */
  row_value partial[ROW_MAX_REDUCTIONS];
  gen_value results[ROW_MAX_REDUCTIONS]; /* NULL: not known yet */
} row_state;

/* Neighbouring columns of one row. */
typedef struct row_chunk {
  row_state *row;
  lanes *l;
  int width;
  gen_value first, active; /* column of lane 0 (of some column in range where not active); i1, NULL: always */
  gen_value held;          /* i32: which of the thread's vectors this is, for what waits in shared memory */
} row_chunk;

typedef struct row_emitter {
  gen_builder *b;
  const row_kernel *k;
  const row_match *m;
  const row_plan *plan;
  gen_type index;          /* of rows, columns and loops */
  gen_value thread, group; /* in the row's part of the CTA; which of the CTA's groups; i32 */
  gen_value part;          /* which CTA of the row's; i32, NULL: there is one */
  gen_value start;         /* first vector of this thread; the index type */
  gen_value columns, rows; /* extents */
  gen_accuracy accuracy[ROW_MAX_REDUCTIONS]; /* of the exponentials of sums that follow a maximum */
  gen_value scratch, turn;            /* i32: exchange area; its half of this turn, NULL: there is one */
  gen_value shared[ROW_MAX_ACCESSES]; /* i32: where the thread's elements of a kept access wait */
  /* Rows copied ahead, i32: the ring and its barriers; the present row's stage, and its barrier's phase. */
  gen_value ring, filled, stage, parity;
  gen_value later; /* the row to copy next; the index type */
} row_emitter;

static inline gen_value row_index(row_emitter *e, int64_t value) {
  return e->index == GEN_I64 ? gen_i64(e->b, value) : gen_i32(e->b, value);
}

/* --- partial results (row_values.c) --- */

static inline bool row_is_position(const row_reduction *r) {
  return r->kind == IR_RED_ARGMAX || r->kind == IR_RED_ARGMIN;
}
/* 32-bit or 64-bit values of a reduction's partial result. */
static inline int row_components(const row_reduction *r) {
  return row_is_position(r) ? 2 : 1;
}
row_value row_identity(row_emitter *e, const row_reduction *r);
/* into = into and from. Not for sums that follow a maximum. */
void row_combine(row_emitter *e, const row_reduction *r, row_value *into, const row_value *from);
/* A sum whose maximum was `before` and becomes `most`. */
arke_status row_rescale(row_emitter *e, const row_reduction *r, gen_value sum, gen_value before,
                        gen_value most, gen_value *scaled, arke_error *err);
/* Both at once, for all reductions of a phase. */
arke_status row_combine_phase(row_emitter *e, int phase, row_value *into, const row_value *from,
                              arke_error *err);
/* Adds the elements of `n` chunks to partial[]; `fresh`: instead of what is there. */
arke_status row_accumulate(row_emitter *e, int phase, row_chunk *const *chunks, int n, bool fresh,
                           row_value *partial, arke_error *err);
/* The result as the expression's value. */
gen_value row_result(row_emitter *e, const row_reduction *r, const row_value *partial);

/* --- between threads (row_exchange.c) --- */

/* Bytes of static shared memory for the exchanges of a kernel, over all its phases. */
int row_scratch_bytes(const row_match *m, const row_plan *plan);
/* Combines the partial results of a phase over all threads of the rows (of one CTA of each where they go
 * through the workspace). */
arke_status row_exchange(row_emitter *e, int phase, row_state *rows, int n_rows, arke_error *err);
/* Through the workspace: an entry for each row and part. */
int row_workspace_entries(const row_match *m);
arke_status row_publish(row_emitter *e, int phase, row_state *row, arke_error *err);
arke_status row_collect(row_emitter *e, int phase, row_state *row, arke_error *err);

/* --- rows copied ahead (row_ahead.c) --- */

/* The ring and its barriers, ready for all threads. */
void row_ahead_place(row_emitter *e);
/* Asks for the first rows of the CTA: `first`, one each `step`. */
void row_ahead_start(row_emitter *e, gen_value first, gen_value step);
/* Until the present row is there. */
void row_ahead_wait(row_emitter *e);
/* Asks for row `later`, when all threads are done with the row before the present one. */
void row_ahead_refill(row_emitter *e);
/* What e->stage and e->parity become for the next row. */
void row_ahead_advance(row_emitter *e, gen_value *stage, gen_value *parity);
/* Where the chunk's elements of an access wait, i32. */
gen_value row_ahead_element(row_chunk *c, int access);

/* --- columns of a thread (row_chunk.c) --- */

/* The row's vector with number `vector`; where `guarded` it may lie behind the last one. Accesses in `given`
 * wait in shared memory. */
arke_status row_vector_chunk(row_state *row, gen_value vector, bool guarded, uint64_t given,
                             row_chunk **chunk, arke_error *err);
/* The columns before and behind aligned vectors, at most one a thread. */
arke_status row_edge_chunk(row_state *row, row_chunk **chunk, arke_error *err);
/* The evaluator of values that are one for the row, and their loads. */
arke_status row_whole(row_emitter *e, row_state *row, arke_error *err);
/* Issues the loads of accesses whose places are known when `phases` have results. */
arke_status row_load(row_emitter *e, lanes *l, uint64_t accesses, int phases, arke_error *err);
/* Puts elements into shared memory for later passes; and which ones earlier passes have put there. */
arke_status row_keep(row_chunk *c, uint64_t accesses, arke_error *err);
uint64_t row_kept_before(const row_emitter *e, int pass);

/* --- over the columns (row_columns.c) --- */

/* All passes of the kernel over `n` rows: their reductions and outputs. */
arke_status row_process(row_emitter *e, row_state *rows, int n, arke_error *err);

/* --- the kernel (row_kernel.c) --- */
arke_status row_emit(gen_builder *b, const target *t, void *user, arke_error *err);

#endif
