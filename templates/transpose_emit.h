/* One tile of a transpose while it is emitted: what transpose_emit.c and transpose_shift.c share. */
#ifndef ARKE_TEMPLATES_TRANSPOSE_EMIT_H
#define ARKE_TEMPLATES_TRANSPOSE_EMIT_H

#include "templates/transpose.h"

typedef struct transpose_emitter {
  gen_builder *b;
  transpose_kernel *k;
  const transpose_plan *p;
  gen_value thread, smem;
  gen_value u, v;                    /* first of the tile */
  bool whole;                        /* all of the tile exists */
  gen_value outer[IR_FORM_LOOPS];    /* by place in the plan's list */
  gen_value store_u, store_v;        /* the thread's first place in the tile when it is stored */
  gen_value stored_u, stored_v;      /* and in the tensor */
  gen_value at_u, at_v;              /* in the tile: what the element being evaluated is */
  gen_type types[LIMIT_TENSORS * 2]; /* of turned reads' elements */
  /* Shifted rows: where in shared memory the element being evaluated is, by turned read. */
  gen_value waits_at[LIMIT_TENSORS * 2];
} transpose_emitter;

/* Places of a thread are constants apart: all counts are powers of two, so that the bits of its number and
 * those of an access's number become bits of u and v that lie apart. */
typedef struct transpose_offset {
  int u, v;
} transpose_offset;

/* A number of the tile as an index: 32 or 64 bits. */
gen_value transpose_index(const transpose_emitter *e, gen_value x);
/* A position in the tensor to which constants are added. */
gen_value transpose_position(const transpose_emitter *e, gen_value tile, gen_value within);
void transpose_set_loops(const transpose_emitter *e, lanes *l, gen_value u, gen_value v);
/* The thread's first place when the tile is stored, and what the i-th has more. */
void transpose_place_to_store(const transpose_emitter *e, gen_value *u, gen_value *v);
transpose_offset transpose_store_offset(const transpose_plan *p, int i);

/* The tile at e->u, e->v, whose rows begin anywhere. */
arke_status transpose_emit_shifted(transpose_emitter *e, arke_error *err);

#endif
