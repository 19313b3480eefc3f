/* The form of an operator: every output as one expression over one set of loops, whatever temporaries and
 * index names it was written with. Templates match and lower forms, never the text.
 *
 *   softmax(X: T[M,N]) -> (Y: T[M,N]) { m[i] = max(j) X[i,j]; s[i] = sum(k) exp(X[i,k] - m[i]); … }
 *
 * has the loops M and N, and Y[0,1] = exp(X[0,1] - max(1) X[0,1]) / sum(1) exp(X[0,1] - max(1) X[0,1]), where
 * equal expressions are one node. How it is made:
 *   - temporaries are substituted, with the subscripts they are read at; an output that a later definition
 * reads is cast to its dtype there, since it is read as stored;
 *   - left indices become loops, outermost first, in the order of the first definition's left side; other
 * definitions' indices of equal range take the same loops, in order; "[...]" stands for one loop over all
 * leading elements;
 *   - a reduction's index takes the first loop of equal range on which its body does not depend otherwise,
 * else it gets a loop of its own after the left ones: reductions over the same axis are over the same loop,
 * and what they read is the same node, also where one stands inside another (max above);
 *   - a reduction takes the values of its index for which its reads are inside their tensors: what of that
 * does not follow from the loop's range is part of its condition;
 *   - choices that attributes decide are decided, where(c, x, y) is c ? x : y, neg(x) is -x, casts are to
 * dtypes, and subscripts are folded (i + 0 is i, integer attributes are integers);
 *   - nodes are hash-consed: pointer equality is structural equality.
 * Forms are read-only once made; all memory is the arena's. */
#ifndef ARKE_IR_IR_FORM_H
#define ARKE_IR_IR_FORM_H

#include "base/arena.h"
#include "ir/ir.h"

enum { IR_FORM_LOOPS = 16, IR_FORM_SPAN = LIMIT_RANK };

/* A loop's range: the product of dimensions, outermost first; more than one after ir_form_merge. A `leading`
 * one is the product of the leading axes' sizes (and then of `dims`). */
typedef struct ir_loop {
  const char *name; /* of the first index that took it; for messages and dumps */
  bool leading;
  int n_dims;
  ir_dim dims[IR_FORM_SPAN];
  bool reduced; /* no output is indexed by it */
} ir_loop;

/* One subscript of an access: dimensions [first, first + count) of the tensor (of those after the leading
 * ones), which lie without gaps, taken as one. The leading axes are dimension -1 here, whatever their number:
 * the subscript that has them has `leading` and -1 as `first`. IR_INDEX nodes' `id` is a loop. */
typedef struct ir_subscript {
  bool leading;
  int first, count;
  const ir_expr *e;
} ir_subscript;

/* A read of an argument (expression nodes IR_READ have `id` = number of the access), or where an output is
 * written. */
typedef struct ir_access {
  int tensor; /* of the signature */
  int n;
  ir_subscript subscripts[LIMIT_RANK + 1];
  const ir_expr *other; /* value of a read outside the tensor; NULL: there is none */
  bool conditional;     /* under ?:, where, &&, || or a reduction's condition, and not known to be inside: may
                           be out of range where its value is not used. Of an output: what is outside is not
                           written ("else skip") */
} ir_access;

typedef struct ir_form_output {
  int definition; /* of the operator */
  int access;     /* where it is written; its loops are this output's */
  int positions;  /* topk: access of the positions; else -1 */
  int rank_loop;  /* topk: the loop over ranks; else -1 */
  ir_update update;
  const ir_expr *value; /* not yet cast to the tensor's dtype; topk: the REDUCE node over candidates */
} ir_form_output;

typedef struct ir_form {
  const ir_problem *problem;
  double min_bytes; /* ir_min_bytes of the problem, which costs of configurations ask for again and again */
  unsigned ones;    /* bit a: right where axis a has one element alone; ir_form_drop_ones */
  int n_loops;
  ir_loop loops[IR_FORM_LOOPS];
  int n_accesses;
  ir_access *accesses; /* hash-consed as nodes are: two reads of one element share one */
  int n_outputs;       /* in the order of the definitions; a tensor written twice (scatter) stands twice */
  ir_form_output *outputs;
  int n_nodes; /* nodes are numbered; ir_form_number */
} ir_form;

/* ARKE_ERR_UNSUPPORTED with a sentence where the operator has more loops or nodes than fit. In a form's
 * expressions IR_INDEX `id` and REDUCE `index` are loops, READ `id` is an access and has no args. `p` must
 * outlive the form. */
arke_status ir_form_make(const ir_problem *p, arena *a, ir_form *form, arke_error *err);

/* What is asked of expressions everywhere: whether it is this operator; a REDUCE node's condition, or NULL;
 * whether there is a REDUCE node in it; the READ node that it is but for casts to f32, which change no
 * element's value, or NULL. */
bool ir_is_operator(const ir_expr *e, ir_operator o);
const ir_expr *ir_condition_of(const ir_expr *reduce);
bool ir_reduces(const ir_expr *e);
/* The maximum in exp(x - max(c) x), or exp2, where it is over the terms of `reduce`: none of those
 * exponentials is above 1, and the largest is 1. NULL: e is nothing of the kind. */
const ir_expr *ir_maximum_above(const ir_expr *e, const ir_expr *reduce);
const ir_expr *ir_form_as_read(const ir_form *form, const ir_expr *e);

/* Loops on which an expression depends (bit l: loop l), not counting those its own reductions bind. */
unsigned ir_form_free(const ir_form *form, const ir_expr *e);
/* 0 … n_nodes - 1, for memo tables. */
int ir_form_number(const ir_form *form, const ir_expr *e);
/* What an expression computes in: DTYPE_F32, F64, I32, I64 or BOOL (docs/notation.md, types); I64 also for
 * integers that no tensor has typed. */
dtype ir_form_type(const ir_form *form, const ir_expr *e);
/* Distinct REDUCE nodes of all outputs, inner ones first; returns how many, at most `capacity`. */
int ir_form_reductions(const ir_form *form, const ir_expr **list, int capacity);

/* The same operator with adjacent loops merged wherever every access that uses one uses both, in order, each
 * as a plain subscript of neighbouring dimensions, and nothing else mentions them: right for tensors without
 * gaps alone. */
arke_status ir_form_merge(const ir_form *form, arena *a, ir_form *merged, arke_error *err);

/* The same operator without the loops that have one element in this problem, whose index is 0, and without
 * the subscripts that they were in dimensions of one element; `dropped->ones` says which axes that takes for
 * granted. Loops that a value mentions or a subscript computes with stay, and the leading one, whose size has
 * no axis. Right for tensors without gaps alone, whose strides then leave those dimensions out. */
arke_status ir_form_drop_ones(const ir_form *form, arena *a, ir_form *dropped, arke_error *err);

/* ir_form_merge, after ir_form_drop_ones where more loops then merge, or an access no longer ends with a loop
 * of one element: elsewhere the form serves other sizes of those axes as well. */
arke_status ir_form_merge_across_ones(const ir_form *form, arena *a, ir_form *merged, arke_error *err);

/* Whether subscript s of an access covers just what a loop ranges over, dimensions that are in `ones` or
 * have a constant size of 1 left aside. */
bool ir_form_covers(const ir_form *form, const ir_access *access, int s, int loop);
/* Whether a dimension has one element, by the form's `ones` or its constant size. */
bool ir_form_is_one(const ir_form *form, ir_dim d);

/* The same operator where every loop over k * D (an axis D, a small constant k) whose index is compared with
 * D or divided by it is a loop over D: each output over it becomes k outputs, of d, d + D, …, in which those
 * comparisons and divisions are decided. Where there is none, or the form would get too large, *split is
 * *form. Reductions are not split. */
arke_status ir_form_split(const ir_form *form, arena *a, ir_form *split, arke_error *err);

/* The same operator over one loop, the elements of its outputs as they lie: what is not read in that order is
 * read at quotients and remainders of the loop's index. Right for tensors without gaps alone. *done false and
 * *flat is *form where there is one loop already, or an output is not written whole and in the order of the
 * loops, or there are reductions. */
arke_status ir_form_flatten(const ir_form *form, arena *a, ir_form *flat, bool *done, arke_error *err);

/* How an access moves with a loop, the others fixed. */
typedef enum ir_motion {
  IR_MOTION_NONE,      /* it does not depend on the loop */
  IR_MOTION_UNIT,      /* one element further in its last dimension for each step: constant + loop */
  IR_MOTION_STRIDE,    /* a plain or affine step in another dimension, or another factor */
  IR_MOTION_IRREGULAR, /* divided, gathered, … */
} ir_motion;
ir_motion ir_form_motion(const ir_form *form, int access, int loop);

/* The largest value of a subscript, as constant + sum of sizes[axis] * axis, whatever the sizes are; false
 * where none is known. What must stay below a dimension for a kernel that serves several sizes. */
bool ir_form_reach(const ir_form *form, const ir_expr *subscript, int64_t *constant,
                   int64_t sizes[LIMIT_AXES]);

int64_t ir_form_extent(const ir_form *form, int loop); /* elements of a loop in this problem */
/* Sets the sizes behind a loop in `p`, a copy of the form's problem, so that it has about n elements. */
void ir_form_set_extent(const ir_form *form, int loop, int64_t n, ir_problem *p);
/* "loops M, N; Y[i0,i1] = …", where i0 is the first loop; "..." is the leading one, and what one subscript of
 * several merged dimensions is indexed by stands once. For tests and messages. */
void ir_form_print(const ir_form *form, strbuf *out);

#endif
