/* Between the files that split an operator: compose_split.c (the order in which things are tried),
 * compose_best.c (templates of stages), compose_cut.c, compose_operands.c, compose_share.c and compose_keep.c
 * (what becomes a temporary), compose_slice.c (what is sliced) and compose_uses.c (what needs what). */
#ifndef ARKE_TEMPLATES_COMPOSE_SPLIT_H
#define ARKE_TEMPLATES_COMPOSE_SPLIT_H

#include "templates/compose.h"

typedef struct compose_splitter {
  compose_plan *plan;
  const target *t;
  compose_known *known;
  strbuf last; /* why the last stage that was tried fits nothing */
  arke_error *err;
  arke_status status; /* for want of memory */
} compose_splitter;

/* --- what needs what (compose_uses.c) --- */

typedef struct compose_walker {
  const compose_plan *plan;
  bool *seen; /* by node */
  void (*visit)(struct compose_walker *w, const ir_expr *e);
  const ir_expr *wanted, *guard; /* of a visitor */
  bool found, other;
  int n;
  const ir_expr *list[64];
} compose_walker;

/* Visits what is under `e` (NULL: nothing), then what is under the targets: each node once, inner ones first;
 * what other stages have made is a leaf. False: out of memory. */
bool compose_walk(compose_splitter *s, compose_walker *w, const ir_expr *e, const compose_target *targets,
                  int n);
/* Visitors: reductions go into `list`; `wanted` is there; `wanted` is used as anything but the body of a
 * reduction with condition `guard`. */
void compose_list_reductions(compose_walker *w, const ir_expr *e);
void compose_find_wanted(compose_walker *w, const ir_expr *e);
void compose_find_other_use(compose_walker *w, const ir_expr *e);
/* By node, all false; NULL: out of memory. */
bool *compose_node_flags(compose_splitter *s);
/* Whether one of the wanted nodes is used by something that is in none of the leaves. */
bool compose_is_met_outside(compose_splitter *s, const bool *wanted, const ir_expr *const *leaves,
                            int n_leaves, const compose_target *targets, int n);
/* Whether a target is the node itself. */
bool compose_is_root(const compose_plan *plan, const compose_target *targets, int n, const ir_expr *e);
/* The last that is computed from a reduction by element before anything else is: nothing but it needs the
 * reduction. A cast of it is kept in the cast's type. */
const ir_expr *compose_all_from(compose_splitter *s, const ir_expr *e, const compose_target *targets, int n);
bool compose_has_inner(compose_splitter *s, const ir_expr *e);    /* reductions beside itself */
double compose_size_of(const compose_plan *plan, unsigned loops); /* values together */

/* --- what becomes a temporary (compose_cut.c) --- */

/* Makes the node a temporary, which `to` is the target of; false: there are too many. `guard`: of the cut. */
bool compose_add_cut(compose_splitter *s, const ir_expr *node, const ir_expr *guard, compose_target *to);
/* Makes some temporaries, with stages for them, of what is under the targets; false: nothing more can be. */
bool compose_cut_some(compose_splitter *s, const compose_target *targets, int n);

/* --- computed operands of products (compose_operands.c) --- */

/* Whether there are computed operands under the targets. */
bool compose_has_operands(compose_splitter *s, const compose_target *targets, int n);
/* Stages for the targets and for computed operands under them, where together they cost less than `most_ns`;
 * else, or where there are no such operands, nothing is changed. An operand that has reductions is best apart
 * with them: where no template takes a whole, that is tried first, at any cost. */
bool compose_try_apart(compose_splitter *s, const compose_target *targets, int n, double most_ns);

/* --- what several stages need (compose_share.c) --- */

/* Reductions that the stage computes on the way to its temporaries, and that targets need beside those,
 * become temporaries of the same stage, where that costs less than a stage for them; else nothing is changed.
 */
void compose_share(compose_splitter *s, int stage, const compose_target *targets, int n);

/* --- temporaries that take the place of others (compose_overwrite.c) --- */

/* Where a stage is the last to read a temporary over axes that meet in no argument, and writes one like it,
 * that is written in place if the template takes it so at the same cost. */
void compose_overwrite(compose_splitter *s);

/* --- temporaries that are kept as they are written (compose_keep.c) --- */

/* Stages for the whole operator, where it has temporaries to keep and each part is taken; else nothing is
 * changed, and what is in the way, if anything is, is added to `detail`. `crossing`: where one of them is
 * over axes that meet in no argument; else where none is. */
bool compose_keep(compose_splitter *s, bool crossing, strbuf *detail);
/* The same, where some that are read as they are written are computed by what reads them (FOLD). */
bool compose_fold(compose_splitter *s);

/* --- axes as blocks of others (compose_blocks.c) --- */

/* `p`'s operator with an axis as blocks of another, where one of these definitions (by number) wants it, else
 * the operator itself, and block->times is 0. `reduced`: also an axis along which they reduce. */
arke_status compose_in_blocks(const ir_problem *p, const bool *definitions, bool reduced, arena *a,
                              compose_block *block, const ir_op **op, arke_error *err);

/* --- templates of stages (compose_best.c) --- */

typedef enum compose_wanted {
  COMPOSE_WANTED_STAGE, /* the cheapest of those whose kernels can be joined with others' */
  COMPOSE_WANTED_WHOLE, /* the cheapest */
  COMPOSE_WANTED_ANY    /* the first: whether one takes the operator */
} compose_wanted;

/* What is known of one problem. */
typedef struct compose_best {
  struct compose_best *next;
  compose_wanted wanted;
  const char *text;
  int64_t sizes[LIMIT_AXES];
  const kernel_template *k; /* NULL: none fits */
  config c;                 /* its default, and what that costs */
  double ns;
} compose_best;

/* The template for a problem, whose operator is `text`. NULL: out of memory. */
const compose_best *compose_find_best(compose_splitter *s, const ir_problem *p, const char *text,
                                      compose_wanted wanted);
/* The same for a stage; false: none takes it, or memory ran out. */
bool compose_best_stage(compose_splitter *s, compose_stage *stage);

/* --- stages (compose_split.c) --- */

/* One stage for the targets; false: no template takes it. */
bool compose_try_whole(compose_splitter *s, const compose_target *targets, int n);
/* The same, of slices where `repeated`. */
bool compose_try_stage_of(compose_splitter *s, const compose_target *targets, int n, bool repeated);
/* compose_try_whole, or with computed operands apart where that is cheaper. */
bool compose_try_stage(compose_splitter *s, const compose_target *targets, int n);
/* Stages for the targets and for what they need. */
bool compose_solve(compose_splitter *s, const compose_target *targets, int n);
/* Each target alone, those of one tensor together, by compose_try_stage or compose_solve. */
bool compose_solve_apart(compose_splitter *s, const compose_target *targets, int n,
                         bool (*by)(compose_splitter *, const compose_target *, int));
/* Whether a tensor that is written in place is read, as what it was, by no stage after that. */
bool compose_in_place_is_safe(const compose_plan *plan);
/* Forgets stages and temporaries that were made since. */
void compose_undo(compose_plan *plan, int n_stages, uint64_t made);

/* --- slices (compose_slice.c) --- */

/* Whether values over these loops lie in no argument: there is no argument with all of them. */
bool compose_crosses(const compose_plan *plan, unsigned loops);
/* Whether the plan must do without such values whole: they are computed again rather than kept. */
bool compose_avoids(const compose_plan *plan, unsigned loops);
/* Slices what the stages keep of such values. False: it cannot be, or memory ran out. */
bool compose_slice(compose_splitter *s);

/* A stage's operator at the whole's types, sizes and attributes, by their names (compose_stage.c). */
void compose_bind(const ir_problem *whole, const ir_op *op, ir_problem *p);

#endif
