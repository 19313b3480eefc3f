/* A kernel of a column reduction in the making: what its parts share. Inside column_*.c. */
#ifndef ARKE_TEMPLATES_COLUMN_EMIT_H
#define ARKE_TEMPLATES_COLUMN_EMIT_H

#include "templates/column.h"

enum { COLUMN_MOST_VALUES = COLUMN_REDUCTIONS * REDUCTION_VALUES * LANES_MAX };

typedef struct column_emitter {
  gen_builder *b;
  column_kernel *k;
  const column_plan *p;
  const column_match *m;
  gen_value thread, across, down; /* the thread's place in the CTA */
  gen_value position, exists;     /* clamped to the last one; whether it is one */
  gen_value split;                /* i32 */
  gen_value column, kept[IR_FORM_LOOPS];
  int n;                                /* state values: by reduction, value, column */
  gen_value states[COLUMN_MOST_VALUES]; /* of the rows taken in so far */
} column_emitter;

/* --- states (column_state.c) --- */

/* Where the state of reduction k in column j stands: its values are `vector` apart. */
int column_slot(const column_emitter *e, int k, int j);
void column_state_of(const column_emitter *e, const gen_value *states, int k, int j, gen_value *state);
void column_set_state(const column_emitter *e, gen_value *states, int k, int j, const gen_value *state);
void column_start(column_emitter *e);
/* Takes the states `from` into the states `into`. */
void column_combine(const column_emitter *e, gen_value *into, const gen_value *from);
/* Predicates lie in memory as words. */
gen_value column_stored(const column_emitter *e, gen_value x);
gen_value column_loaded(const column_emitter *e, gen_value x, gen_type type);
gen_type column_stored_type(gen_type type);
/* A value of an expression as what its reduction works in. */
gen_value column_as(gen_builder *b, gen_value x, gen_type type);

/* --- partial results in memory: by split, position, column (column_partials.c) --- */

void column_store_partials(const column_emitter *e);
void column_take_partials(column_emitter *e);

/* --- between threads (column_exchange.c) --- */

/* Lanes of a warp that have the same columns. */
void column_combine_in_warp(column_emitter *e);
/* A tree over the CTA's groups, whose order is fixed; the first group has the result. `speaks`: the threads
 * that hold a group's result. */
void column_combine_in_cta(column_emitter *e, gen_value shared, gen_value group, gen_value speaks);
/* The first CTA of the cluster reads what the others have, in their order; `first`: the threads that hold a
 * CTA's result. */
void column_combine_in_cluster(column_emitter *e, gen_value shared, gen_value first);

#endif
