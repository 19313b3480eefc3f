/* Operators that no one template takes, as stages that some template takes each: reductions that others need,
 * or whose results another loop needs, become temporaries in the workspace. A stage is an operator of its
 * own, in the notation, so whatever a template says of operators holds for stages too. Inside compose_*.c.
 *
 *   cross_entropy:  a row stage writes the term of every row, a row stage of one row sums them
 *   softmax along the first axis:  a column stage of maxima, one of sums, and a map
 *
 * So do computed operands of products, where that is cheaper than computing them for every tile anew:
 *
 *   swiglu_packed:  a map stage gates the halves, a product stage of matrix units multiplies by the matrix
 *
 * And so do rounded temporaries that are read at computed places (compose_keep.c):
 *
 *   varlen_rope_attention:  a map stage rotates the queries, one the keys, an attention stage reads both
 *
 * A temporary over axes that meet in no argument (all rows by all words of a vocabulary) can be larger than
 * everything the caller has. With KEEP it is written once, whole, and each stage that needs it reads it; what
 * is computed on the way to it and needed again goes with it (compose_share.c). Without, it is computed again
 * by each stage that needs it, and where matrix units must have it in memory it is made slice by slice of one
 * axis (compose_slice.c), where SLICE says how much of it: the stages that write it and read it run for one
 * slice after the other.
 *
 *   fused_linear_cross_entropy_gradients:  for each slice of the vocabulary a product stage writes what the
 *   loss changes by with its logits, one the slice's part of dW, one adds to dX; with KEEP a product stage
 *   writes the logits, a row stage what the loss changes by with them, and two product stages dX and dW */
#ifndef ARKE_TEMPLATES_COMPOSE_H
#define ARKE_TEMPLATES_COMPOSE_H

#include "ir/ir_form.h"
#include "templates/kernel_join.h"
#include "templates/template.h"

/* X(NAME, meaning, values…) */
#define COMPOSE_PARAMS(X)                                                                                    \
  X(PICK,                                                                                                    \
    "configurations of the stages that matter: 0: their templates' defaults; 1: those that the cost model "  \
    "likes best; "                                                                                           \
    "more: in the stage that costs most, the (PICK - 1)th of those that it likes best with another value "   \
    "of a parameter",                                                                                        \
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23)                    \
  X(SLICE,                                                                                                   \
    "elements of an axis that a temporary over axes which meet in no argument is made for at once; 0: all",  \
    0, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768)                                                       \
  X(KEEP,                                                                                                    \
    "temporaries over axes that meet in no argument: 0: stages that need one compute it again; 1: they are " \
    "kept, whole",                                                                                           \
    0, 1)                                                                                                    \
  X(FOLD,                                                                                                    \
    "rounded temporaries that are read as they are written, beside kept ones: 0: are kept, too; 1: are "     \
    "computed by what reads them, where that takes it",                                                      \
    0, 1)

typedef enum compose_param {
#define X(NAME, ...) COMPOSE_##NAME,
  COMPOSE_PARAMS(X)
#undef X
      COMPOSE_N_PARAMS
} compose_param;

enum { COMPOSE_STAGES = 12, COMPOSE_TEMPORARIES = 16, COMPOSE_TARGETS = LIMIT_TENSORS };
enum { COMPOSE_NEIGHBOURS = 22 }; /* PICK has a value for each */

/* A node of the form whose values lie in a temporary. */
typedef struct compose_cut {
  const ir_expr *node;
  const ir_expr *guard; /* where this is false the temporary holds 0: the node is not evaluated there */
  unsigned loops;       /* its dimensions */
  bool sliced;          /* it holds a slice at a time */
} compose_cut;

/* What the parameters say of temporaries. */
typedef struct compose_how {
  int slice;
  bool keep, fold;
} compose_how;

/* How an operator is sliced. */
typedef struct compose_slices {
  int64_t size; /* 0: nothing is */
  int loop;     /* of the form; -1: there is nothing to slice */
  kernel_slices names;
} compose_slices;

/* What a stage writes: an output of the form, or a temporary. */
typedef struct compose_target {
  int output;      /* of the form; -1: a temporary */
  int temporary;   /* number of the cut */
  bool is_start;   /* what the output's tensor holds before anything is added to it, in place of the output */
  bool goes_on;    /* a stage before has written it: it is added to in place */
  bool overwrites; /* a temporary that takes the place of temporary `over` */
  int over;
} compose_target;

/* An axis of the whole that a stage has as `times` of another one (compose_blocks.c); 0: there is none. */
typedef struct compose_block {
  const char *axis, *part;
  int64_t times;
} compose_block;

typedef struct compose_stage {
  const char *text; /* of the operator */
  ir_problem problem;
  const kernel_template *k;
  config c;                     /* its template's default */
  double ns;                    /* that costs each time, by the target's rates */
  int arguments[LIMIT_TENSORS]; /* kernel_stage.arguments */
  int n_targets;
  compose_target targets[COMPOSE_TARGETS];
  compose_block block;       /* of stages that compose_keep.c makes */
  bool repeated;             /* it runs for every slice */
  int sliced[LIMIT_TENSORS]; /* kernel_stage.sliced */
} compose_stage;

typedef struct compose_plan {
  const ir_problem *p;
  const char *text; /* of its operator */
  arena *a;
  ir_form form;
  bool keep;    /* the parameter */
  bool crosses; /* some kept temporary of the operator's own is over axes that meet in no argument */
  compose_slices slices;
  bool can_fold; /* there are temporaries to fold */
  bool folded;   /* they are */
  int n_cuts;
  compose_cut cuts[COMPOSE_TEMPORARIES];
  uint64_t made; /* bit i: cut i has a stage that writes it, and others read it */
  int n_stages;
  compose_stage *stages[COMPOSE_STAGES];
  kernel_temporary temporaries[COMPOSE_TEMPORARIES];
} compose_plan;

/* What a model says; of nothing at all models know no time, but there is a launch. */
double compose_price(double ns, const target_rates *rates);
/* Names for slices that the operator has not. */
kernel_slices compose_slice_names(const ir_op *op, arena *a);
/* The stage's operator, bound to the problem's sizes, of a slice where `s->repeated` says so.
 * ARKE_ERR_UNSUPPORTED where it cannot be written. */
arke_status compose_write_stage(compose_plan *plan, const compose_target *targets, int n, compose_stage *s,
                                arke_error *err);
/* How many slices there are; 1 where nothing is sliced. Times that a stage runs. */
int64_t compose_rounds(const compose_plan *plan);
double compose_times(const compose_plan *plan, const compose_stage *s);
/* Bytes of the largest temporary over axes that meet in no argument, as if whole and in slices of `size`
 * elements (then of one that is sliced); 0: there is none. */
double compose_crossing_bytes(const compose_plan *plan, int64_t size);
/* Asks of every call that the axis is so many blocks; and the numbers of the axes in `op`, false: there are
 * none. */
arke_status compose_require_blocks(const compose_block *block, arena *a, kernel_way *way, arke_error *err);
bool compose_block_axes(const compose_block *block, const ir_op *op, int *axis, int *part);
/* What splits of one problem have found of stages, in their arena; empty: {NULL}. */
typedef struct compose_known {
  struct compose_best *list;
} compose_known;
/* Splits the operator; all memory is the arena's. Where there is nothing to slice plan->slices.loop is -1,
 * and the rest is as without it. `reason` is OK or why not, with a sentence in `detail`. Fails for want of
 * memory alone. */
arke_status compose_split(const ir_problem *p, const target *t, compose_how how, compose_known *known,
                          arena *a, compose_plan *plan, template_reason *reason, strbuf *detail,
                          arke_error *err);
double compose_all_ns(const compose_plan *plan); /* of its stages' defaults */
/* What the stages may be configured as: what their templates judge with, their best points by the model, and
 * of the stage that costs most the best points with other values of a parameter, the cheapest of them. */
typedef struct compose_choices {
  const compose_plan *plan; /* its stages have their templates' defaults */
  const void *prepared[COMPOSE_STAGES];
  config best[COMPOSE_STAGES];
  bool minor[COMPOSE_STAGES]; /* next to no time: what runs at small problems rather than what is fastest */
  bool differs;               /* some best one is no default */
  int dearest, n_neighbours;
  config neighbours[COMPOSE_NEIGHBOURS];
} compose_choices;

/* By the target's rates, whatever device is at hand: a configuration is the same kernel everywhere. All
 * memory is the arena's; NULL: there is none. */
compose_choices *compose_choose(const compose_plan *plan, const target *t, arena *a);
/* The stages' configurations as `c` says. False where that is what a smaller PICK says too: the defaults are
 * the model's best, or there are fewer neighbours. */
bool compose_pick(const compose_choices *from, const config *c, config stages[COMPOSE_STAGES]);

const space *compose_space_of(const target *t);
template_reason compose_fits(const ir_problem *p, const target *t, strbuf *detail);
void compose_defaults(const ir_problem *p, const target *t, config *c);
const void *compose_prepare(const ir_problem *p, const target *t, arena *a);
template_reason compose_judge(const void *prepared, const target *t, const target_rates *rates,
                              const config *c, double *ns);
int compose_parts(const ir_problem *p, const target *t, const config *c, arena *a, template_part *parts);
void compose_reduced_problem(const ir_problem *p, const target *t, const config *c, int sm_count,
                             ir_problem *reduced);
arke_status compose_ways(const ir_problem *p, const target *t, const config *c, const lower_options *options,
                         arena *a, kernel_way *ways, int *n, arke_error *err);
arke_status compose_lower(const ir_problem *p, const target *t, const config *c, const lower_options *options,
                          arena *a, lowered *out, arke_error *err);

#endif
