/* Scatters: definitions whose left side is gathered, divided or offset, or whose update accumulates. What
 * such a tensor holds before (plain definitions, or where an update starts from) is written first, as a map;
 * then a kernel for each group of scattering definitions takes them in order. Or (ROWS) one kernel does both,
 * row by row (scatter_rows.h). Inside scatter_*.c.
 *
 * Collisions: updates are atomic, in any order, or (DETERMINISTIC) each element belongs to one thread, which
 * applies its updates in the order of the definition's indices; of assignments the last one wins there, any
 * elsewhere. An operator with an attribute `deterministic` that is true is run in that way alone. */
#ifndef ARKE_TEMPLATES_SCATTER_H
#define ARKE_TEMPLATES_SCATTER_H

#include "ir/ir_form.h"
#include "templates/kernel_lower.h"
#include "templates/lanes.h"
#include "templates/template.h"

/* X(NAME, meaning, values…): the tiling space, in order. */
#define SCATTER_PARAMS(X)                                                                                    \
  X(THREADS, "threads of a CTA", 64, 128, 256, 512)                                                          \
  X(VECTOR, "neighbouring elements that a thread takes at once, at most", 1, 2, 4, 8, 16)                    \
  X(UNROLL, "vectors of a thread in flight", 1, 2, 4, 8)                                                     \
  X(DETERMINISTIC, "1: each element has one thread, which applies its updates in order", 0, 1)               \
  X(ROWS, "1: updates that stay in their row are made in shared memory, and the row is written once", 0, 1)

typedef enum scatter_param {
#define X(NAME, ...) SCATTER_##NAME,
  SCATTER_PARAMS(X)
#undef X
      SCATTER_N_PARAMS
} scatter_param;

enum { SCATTER_PARTS = 6 };

/* Scattering definitions over the same loops that one kernel takes: one, or several that write apart. */
typedef struct scatter_part {
  ir_problem *problem; /* the operator with these definitions (and what they read) alone */
  ir_form forms[2];    /* as written; merged, for tensors without gaps */
  uint64_t outputs;    /* of the forms; the same numbers in both */
  unsigned loops[2];   /* of the forms, that the definitions run over */
  bool collides;       /* two of its points may write one element */
} scatter_part;

typedef struct scatter_match {
  bool has_initial;
  ir_problem initial; /* the operator with what is written first */
  int n_parts;
  scatter_part parts[SCATTER_PARTS];
} scatter_match;

typedef struct scatter_plan {
  const scatter_part *part;
  const ir_form *form;
  bool dense, wide_offsets, deterministic;
  int threads, unroll, width;
  int lane;                            /* loop that vectors run along; -1: none */
  int n_outer, outer[IR_FORM_LOOPS];   /* of a thread's position, without the lane loop */
  int n_serial, serial[IR_FORM_LOOPS]; /* deterministic: taken one after the other */
  int owners;                          /* threads of a position, each with its share of the elements */
} scatter_plan;

typedef struct scatter_kernel {
  scatter_plan plan;
  arena *a;
  lanes_options options;
  lanes_args slots;
  int positions, chunks, steps, outer[IR_FORM_LOOPS], serial[IR_FORM_LOOPS]; /* parameters */
} scatter_kernel;

/* Fails for want of memory alone (`status`, may be NULL); all memory is the arena's. */
template_reason scatter_match_make(const ir_problem *p, arena *a, scatter_match *m, strbuf *detail,
                                   arke_status *status);
/* An attribute `deterministic` that is true. */
bool scatter_must_be_deterministic(const ir_problem *p);
template_reason scatter_make_plan(const scatter_part *part, const target *t, const config *c, bool dense,
                                  int vector, scatter_plan *plan);
int64_t scatter_positions(const scatter_plan *plan);
int64_t scatter_steps(const scatter_plan *plan);
arke_status scatter_emit(gen_builder *b, const target *t, void *user, arke_error *err);

const space *scatter_space_of(const target *t);
template_reason scatter_fits(const ir_problem *p, const target *t, strbuf *detail);
const void *scatter_prepare(const ir_problem *p, const target *t, arena *a);
template_reason scatter_judge(const void *prepared, const target *t, const target_rates *rates,
                              const config *c, double *ns);
void scatter_defaults(const ir_problem *p, const target *t, config *c);
void scatter_reduced_problem(const ir_problem *p, const target *t, const config *c, int sm_count,
                             ir_problem *reduced);
arke_status scatter_ways(const ir_problem *p, const target *t, const config *c, const lower_options *options,
                         arena *a, kernel_way *ways, int *n, arke_error *err);
arke_status scatter_lower(const ir_problem *p, const target *t, const config *c, const lower_options *options,
                          arena *a, lowered *out, arke_error *err);

#endif
