/* Reductions along rows, with all that is computed from them, in one pass over memory: softmax, norms,
 * quantisation by row, argmax, and whatever else reduces one loop (the column loop) of a form whose other
 * loops are rows. Reductions that need each other's results come in phases; the elements of a row are held
 * from phase to phase or read again. A row belongs to a part of a warp, a warp, a CTA, a cluster, or to
 * several CTAs that exchange their results through memory, a kernel a phase. CTAs that loop over rows may
 * have the next ones copied into shared memory meanwhile. Shared by row_*.c; other folders know only the
 * template's record. */
#ifndef ARKE_TEMPLATES_ROW_H
#define ARKE_TEMPLATES_ROW_H

#include "generator/gen_memory.h"
#include "ir/ir_form.h"
#include "templates/kernel_lower.h"
#include "templates/template.h"

/* --- what the operator is --- */

enum { ROW_MAX_REDUCTIONS = 16, ROW_MAX_PHASES = 8, ROW_MAX_OUTPUTS = LIMIT_TENSORS, ROW_MAX_ACCESSES = 64 };

typedef struct row_reduction {
  const ir_expr *e; /* the REDUCE node */
  ir_reduction kind;
  gen_type type; /* of the accumulator; of the value compared for argmax and argmin; I1: any, all */
  int phase;     /* needs results of earlier phases alone */
  /* sum(c) exp(x - max(c) x) * factor in the phase of its maximum: rescaled where that grows. */
  int maximum;                /* the reduction it follows; -1: an ordinary one */
  const ir_expr *exponential; /* the CALL of exp or exp2 */
  const ir_expr *exponent;    /* x */
  const ir_expr *factor;      /* NULL: 1 */
} row_reduction;

typedef struct row_output {
  bool by_element; /* else one value a row */
  int phase;       /* can be stored when so many phases have results */
} row_output;

typedef struct row_match {
  ir_form form;
  int column; /* the loop that is reduced */
  int n_rows; /* the other loops, outermost first */
  int rows[IR_FORM_LOOPS];
  int n_reductions;
  row_reduction reductions[ROW_MAX_REDUCTIONS];
  int n_phases;
  row_output outputs[ROW_MAX_OUTPUTS]; /* as form.outputs */
  /* Sets of accesses, bit i: access i. */
  uint64_t moving, unit; /* moves with the column; by one element a step */
  uint64_t kept;         /* moves, and is read in more than one pass over the columns */
  uint64_t pass_reads[ROW_MAX_PHASES + 1];
  const ir_expr *reads[ROW_MAX_ACCESSES]; /* the node that reads it; NULL: an output */
  int needs[ROW_MAX_ACCESSES];            /* phases whose results its subscripts need */
  bool in_place;                          /* an output is written over an input that is read */
  bool divides_column;                    /* some integer is divided that depends on the column */
  bool has_online;    /* some sum follows its maximum, whether `online` was asked for or not */
  int walks, *walked; /* of matching: nodes visited */
} row_match;

/* Matches the form, merged (tensors without gaps between merged axes) or not; `online` joins sums to the
 * phase of the maximum they follow. *reason is TEMPLATE_OK or why not, with a sentence in `detail` (may be
 * NULL). Fails for want of memory alone. */
arke_status row_match_make(const ir_problem *p, bool merged, bool online, arena *a, row_match *m,
                           template_reason *reason, strbuf *detail, arke_error *err);
/* Columns and rows of this problem. */
int64_t row_columns(const row_match *m);
int64_t row_rows(const row_match *m);

/* --- tuning parameters --- */

/* X(NAME, meaning, values…): the tiling space, in order. */
#define ROW_PARAMS(X)                                                                                        \
  X(THREADS, "threads of a CTA that share a row", 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)               \
  X(ROWS, "rows that a CTA has side by side; of those that share a warp (THREADS < 32) the warps", 1, 2, 4,  \
    8)                                                                                                       \
  X(VECTOR, "elements loaded and stored at once", 1, 2, 4, 8, 16)                                            \
  X(HELD,                                                                                                    \
    "0: a row stays in registers; 1: in shared memory; 2: is read again for each phase; 3: in registers, "   \
    "by way of shared memory, where later rows are copied meanwhile; 4: as 0, elements of less than 32 "     \
    "bits as they are, widened for each phase; 5: as 3, taken from shared memory for each phase",            \
    0, 1, 2, 3, 4, 5)                                                                                        \
  X(BATCH,                                                                                                   \
    "rows that a thread loads before it computes (HELD=0), rows copied ahead (HELD=3), else vectors of "     \
    "its row",                                                                                               \
    1, 2, 4, 8)                                                                                              \
  X(PARTS,                                                                                                   \
    "CTAs of a row: up to 16 are a cluster and exchange results through its shared memory, more through "    \
    "memory, in a kernel a phase",                                                                           \
    1, 2, 4, 8, 16, 32, 64, 256)                                                                             \
  X(PERSISTENT, "0: a CTA for each of its rows; else CTAs of an SM, which loop over rows", 0, 1, 2, 4, 8)    \
  X(STREAM,                                                                                                  \
    "0: caches as they are; 1: what is touched once leaves L2 first; 2: what is read once does, what is "    \
    "written stays",                                                                                         \
    0, 1, 2)                                                                                                 \
  X(CTAS, "CTAs of an SM for which registers are kept few enough; 0: as the assembler takes them", 0, 3, 4,  \
    5, 6, 8, 10)

typedef enum row_param {
#define X(NAME, ...) ROW_##NAME,
  ROW_PARAMS(X)
#undef X
      ROW_PARAM_COUNT,
} row_param;

extern const space row_space;

/* --- what a configuration is --- */

typedef enum row_held { ROW_REGISTERS, ROW_SHARED, ROW_AGAIN, ROW_AHEAD } row_held;

typedef struct row_plan {
  int threads; /* of a row in its CTA */
  int groups;  /* of threads, each with rows of its own */
  int vector;
  row_held held;
  bool narrow;                     /* elements are widened, or come from shared memory, for each phase anew */
  int rows_at_once;                /* of a group */
  int vectors;                     /* of a thread loaded before it computes; held in registers: all it has */
  int cluster, split, ctas_per_sm; /* ctas_per_sm 0: no loop over rows */
  int crowd;                       /* CTAs of an SM that registers must allow; 0: no matter */
  bool exact;                      /* `vectors` of every thread lie inside the row; held in registers */
  bool peel;     /* rows start anywhere: what lies before and behind aligned vectors is taken one by one */
  bool any_view; /* any strides, and rows of no element: element by element */
  bool wide_offsets; /* 64-bit */
  int shared_bytes;  /* of a thread's elements held in shared memory, for one vector of all kept accesses */
  int64_t shared_vectors;  /* of a thread, held in shared memory */
  int stages;              /* rows of the group in shared memory, in the works or on their way; ROW_AHEAD */
  int stage_bytes;         /* of one */
  gen_cache loads, stores; /* of what is touched once */
} row_plan;

static inline bool row_in_registers(const row_plan *plan) {
  return plan->held == ROW_REGISTERS || plan->held == ROW_AHEAD;
}

/* HELD of a configuration. */
static inline row_held row_held_of(const config *c) {
  int held = c->values[ROW_HELD];
  return held == 4 ? ROW_REGISTERS : held == 5 ? ROW_AHEAD : (row_held)held;
}
static inline bool row_is_narrow(const config *c) {
  return c->values[ROW_HELD] > ROW_AHEAD;
}

/* Threads of all CTAs that work on one row. */
static inline int row_team(const row_plan *plan) {
  return plan->threads * plan->cluster * plan->split;
}

/* Threads of a CTA, and how many CTAs of a row meet in a cluster or through memory. */
enum { ROW_MOST_CLUSTER = 16 };
static inline int row_block(const config *c) {
  const int *v = c->values;
  return (v[ROW_THREADS] < 32 ? 32 : v[ROW_THREADS]) * v[ROW_ROWS];
}
static inline int row_cluster(const config *c) {
  return c->values[ROW_PARTS] <= ROW_MOST_CLUSTER ? c->values[ROW_PARTS] : 1;
}
static inline int row_split(const config *c) {
  return c->values[ROW_PARTS] > ROW_MOST_CLUSTER ? c->values[ROW_PARTS] : 1;
}

/* Whether sums join the phase of the maximum they follow: where a phase costs a pass over memory, a kernel or
 * the cluster's barrier. */
bool row_is_online(const config *c);
/* What rules a configuration out whatever the problem is. */
template_reason row_shape_reason(const target *t, const config *c);
/* The plan of a configuration for the problem's sizes, or why it cannot run. */
template_reason row_plan_make(const row_match *m, const target *t, const config *c, row_plan *plan);
/* Whether the plan's kernels take tensors without gaps alone; else rows may have any stride that keeps them
 * aligned. */
bool row_is_dense(const row_match *m, const row_plan *plan);
/* Accesses whose rows are the tensor's rows: row r starts a multiple of the row length behind the base, where
 * the tensor has no gaps. */
uint64_t row_major(const row_match *m);
/* Whether an access is another one for another row. */
bool row_varies(const row_match *m, int access);
/* Those that are copied ahead of their use. */
uint64_t row_ahead(const row_match *m, const row_plan *plan);
/* What serves every call that the plan's requirements exclude. */
row_plan row_plan_any_view(const row_match *m, const row_plan *fast);

/* An estimate of a thread's registers. */
double row_registers(const row_match *m, const row_plan *plan);
/* Whether a simpler configuration does the same as well at these sizes. */
bool row_is_redundant(const row_match *m, const target *t, const config *c, const row_plan *plan);
double row_cost_of(const row_match *m, const row_plan *plan, const target *t, const target_rates *rates);

/* --- the template's functions --- */

template_reason row_fits(const ir_problem *p, const target *t, strbuf *detail);
const space *row_space_of(const target *t);
void row_defaults(const ir_problem *p, const target *t, config *c);
const void *row_prepare(const ir_problem *p, const target *t, arena *a);
template_reason row_check_shape(const void *prepared, const target *t, const config *c);
template_reason row_judge(const void *prepared, const target *t, const target_rates *rates, const config *c,
                          double *ns);
arke_status row_ways(const ir_problem *p, const target *t, const config *c, const lower_options *options,
                     arena *a, struct kernel_way *ways, int *n, arke_error *err);
arke_status row_lower(const ir_problem *p, const target *t, const config *c, const lower_options *options,
                      arena *a, lowered *out, arke_error *err);
void row_reduced_problem(const ir_problem *p, const target *t, const config *c, int sm_count,
                         ir_problem *reduced);

#endif
