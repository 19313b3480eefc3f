/* Reductions over loops that are not the contiguous one: sums along the first axis, or a middle one. Threads
 * own vectors of columns; rows are shared among the threads of a CTA, and among CTAs, whose partial results a
 * second kernel or the first of a cluster combines in a fixed order. Inside column_*.c.
 *
 *   columns  the loop v that the outputs' last dimension moves with, in vectors ("chunks")
 *   kept     the outputs' other loops; a position is their values and a chunk
 *   rows     the loops that are reduced, as one */
#ifndef ARKE_TEMPLATES_COLUMN_H
#define ARKE_TEMPLATES_COLUMN_H

#include "ir/ir_form.h"
#include "templates/kernel_lower.h"
#include "templates/lanes.h"
#include "templates/reduction.h"
#include "templates/template.h"

/* X(NAME, meaning, values…): the tiling space, in order. */
#define COLUMN_PARAMS(X)                                                                                     \
  X(THREADS, "threads of a CTA", 64, 128, 256, 512, 1024)                                                    \
  X(VECTOR, "columns of a thread, loaded at once", 1, 2, 4, 8, 16)                                           \
  X(ACROSS, "threads side by side along columns; the others have other rows", 1, 2, 4, 8, 16, 32, 64, 128)   \
  X(UNROLL, "rows that a thread loads before it computes", 1, 2, 4, 8)                                       \
  X(SPLIT, "CTAs that share the rows of a column, combined by a second kernel", 1, 2, 4, 8, 16, 32, 64, 128, \
    256, 512)                                                                                                \
  X(CLUSTER, "1: the CTAs that share rows are a cluster and combine what they have through shared memory",   \
    0, 1)

typedef enum column_param {
#define X(NAME, ...) COLUMN_##NAME,
  COLUMN_PARAMS(X)
#undef X
      COLUMN_N_PARAMS
} column_param;

enum { COLUMN_REDUCTIONS = 8, COLUMN_CONDITIONS = 4, COLUMN_MOST_CLUSTER = 8 };

typedef struct column_reduction {
  const ir_expr *e;    /* the REDUCE node */
  const ir_expr *body; /* behind nested ones of the same kind */
  int n_conditions;
  const ir_expr *conditions[COLUMN_CONDITIONS];
  reduction r;
} column_reduction;

typedef struct column_match {
  ir_form form;
  int v;
  int n_kept, kept[IR_FORM_LOOPS]; /* outermost first, without v */
  int n_rows, rows[IR_FORM_LOOPS];
  int n_reductions;
  column_reduction reductions[COLUMN_REDUCTIONS];
} column_match;

typedef struct column_plan {
  const column_match *m;
  bool dense, wide_offsets;
  int threads, vector, across, down, unroll, split;
  bool cluster;   /* of `split` CTAs */
  int groups;     /* partial results of a column in a CTA, once each warp has combined its own */
  int smem_bytes; /* static */
} column_plan;

/* One kernel. `from_partials`: its rows are the partial results of `split` CTAs; `to_partials`: it leaves
 * some. */
typedef struct column_kernel {
  column_plan plan;
  bool from_partials, to_partials;
  arena *a;
  lanes_options options;
  lanes_args slots;
  /* Parameters. */
  int positions, tiles, chunks, rows, rows_per_split, kept[IR_FORM_LOOPS], row_extents[IR_FORM_LOOPS];
  int partials[COLUMN_REDUCTIONS][REDUCTION_VALUES];
  struct column_emitter *current;
} column_kernel;

/* `status` (may be NULL) tells a lack of memory from an operator without a form. */
template_reason column_match_make(const ir_problem *p, bool merged, arena *a, column_match *m, strbuf *detail,
                                  arke_status *status);
int64_t column_positions(const column_match *m, int vector);
int64_t column_rows(const column_match *m);
template_reason column_make_plan(const column_match *m, const target *t, const config *c, bool dense,
                                 column_plan *plan);
double column_plan_cost_ns(const column_plan *plan, const target *t, const target_rates *rates);
/* The second kernel's, whose rows are the `split` partial results. */
column_plan column_finish_plan(const column_plan *p);
/* Bytes of a reduction's state value i in memory: predicates are kept as words. */
static inline int column_bytes(const reduction *r, int i) {
  gen_type t = reduction_type(r, i);
  return t == GEN_F64 || t == GEN_I64 ? 8 : 4;
}

arke_status column_emit(gen_builder *b, const target *t, void *user, arke_error *err);
arke_status column_value(void *user, const ir_expr *e, gen_value *values, arke_error *err);

const space *column_space_of(const target *t);
template_reason column_fits(const ir_problem *p, const target *t, strbuf *detail);
void column_defaults(const ir_problem *p, const target *t, config *c);
const void *column_prepare(const ir_problem *p, const target *t, arena *a);
template_reason column_judge(const void *prepared, const target *t, const target_rates *rates,
                             const config *c, double *ns);
void column_reduced_problem(const ir_problem *p, const target *t, const config *c, int sm_count,
                            ir_problem *reduced);
arke_status column_ways(const ir_problem *p, const target *t, const config *c, const lower_options *options,
                        arena *a, kernel_way *ways, int *n, arke_error *err);
arke_status column_lower(const ir_problem *p, const target *t, const config *c, const lower_options *options,
                         arena *a, lowered *out, arke_error *err);

#endif
