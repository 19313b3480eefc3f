/* Scatters that stay in their row: (Y[…,j] = f; Y[…,k] = or += g) where only the last subscript is gathered.
 * A CTA takes a row: it writes what comes first into shared memory, applies the row's updates there, and
 * stores the row once. Where updates assign, the last one of the definition's order stays, since each place
 * first finds its last update by number. Sums of floats add up in f32, in any order. Inside scatter_*.c. */
#ifndef ARKE_TEMPLATES_SCATTER_ROWS_H
#define ARKE_TEMPLATES_SCATTER_ROWS_H

#include "templates/scatter.h"

typedef struct scatter_rows_match {
  ir_form first;                                                 /* what is written first, as it stands */
  const ir_form *then;                                           /* the scattering definition's */
  int first_access, then_access, output;                         /* where each writes; the output of `then` */
  int n_rows, row_first[IR_FORM_LOOPS], row_then[IR_FORM_LOOPS]; /* loops of the row, outermost first */
  int along;                                                     /* the loop of `first` along the row */
  int n_points, points[IR_FORM_LOOPS]; /* loops of `then` that a row's updates run over */
  const ir_expr *place, *value;        /* of an update */
  ir_update update;
  dtype type;    /* of elements */
  bool in_order; /* the result is always the same */
} scatter_rows_match;

typedef struct scatter_rows_plan {
  const scatter_rows_match *match;
  int threads, width, unroll;
  int slot_bytes, mark_bytes; /* of an element in shared memory, and of its last update's number */
} scatter_rows_plan;

/* Whether the operator is one; its forms are the arena's. */
bool scatter_rows_match_make(const scatter_match *m, arena *a, scatter_rows_match *rows);
template_reason scatter_rows_plan_make(const scatter_rows_match *rows, const target *t, const config *c,
                                       scatter_rows_plan *plan);
double scatter_rows_cost_ns(const scatter_rows_plan *plan, const target *t, const target_rates *rates);
/* The way for tensors without gaps. */
arke_status scatter_rows_way(const scatter_rows_plan *plan, const target *t, const lower_options *o, arena *a,
                             kernel_way *way, arke_error *err);

/* The kernel: its plan, and where its parameters are. */
typedef struct scatter_rows_kernel {
  scatter_rows_plan plan;
  arena *a;
  lanes_options first_options, then_options;
  lanes_args first_slots, then_slots;
  int elements, padded, points, rows[IR_FORM_LOOPS], extents[IR_FORM_LOOPS]; /* parameters */
} scatter_rows_kernel;
arke_status scatter_rows_emit(gen_builder *b, const target *t, void *user, arke_error *err);

#endif
