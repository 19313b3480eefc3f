/* A form's expressions in a kernel, for several consecutive values of one loop at once ("lanes"): what maps,
 * row reductions and scans have in common.
 *
 *   lanes_create(…);  lanes_set(l, loop, value) for every loop
 *   lanes_load(l, e)               issues the loads of e's reads, so that many are in flight before
 * arithmetic lanes_eval(l, e, values, &n)   `width` values, or one where e does not depend on the lane loop
 *   lanes_store(l, output, values, n, active)
 *
 * Lane 0's value is a multiple of `width`, so that d % 2, d / 2 and d < D / 2 fold where sizes allow.
 * Elements at constant distances are taken from one vector (d + 1 under d % 2 == 0, cos[d / 2]), by accesses
 * as wide as alignment allows; what does not move is loaded once; the rest is loaded lane by lane. A read
 * that may lie outside its tensor happens only where it lies inside. Values are remembered by node and lane
 * until a loop they depend on is set again; lanes in which a node is known to have one value (cos(d / 2))
 * compute it once. */
#ifndef ARKE_TEMPLATES_LANES_H
#define ARKE_TEMPLATES_LANES_H

#include "generator/gen_math.h"
#include "generator/gen_memory.h"
#include "ir/ir_form.h"
#include "templates/kernel_lower.h"

enum { LANES_MAX = 16, LANES_LEAD = RECIPE_LEAD_AXES };

typedef struct lanes lanes;

typedef struct lanes_options {
  int loop;          /* the lane loop; -1: none */
  int width;         /* 1 … LANES_MAX, a power of two */
  bool dense;        /* tensors without gaps: strides are products of sizes; else they are parameters */
  bool wide_offsets; /* 64-bit element offsets and indices; else lanes_need_wide_offsets must be false */
  /* Bit i: access i may be wide, as lanes_wide says: its last axis is contiguous, and all other strides are
   * multiples of as many elements as `width` and an access allow. */
  uint64_t wide;
  int access_bytes; /* widest access: 16 (and 0), or 32 where the target has it */
  /* Cache advice: of loads of the accesses in `streamed` (bit i: access i), and of all stores. */
  uint64_t streamed;
  gen_cache loads, stores;
  bool stores_meet;   /* several threads may store to one element, and any of them wins */
  bool fast_math;     /* approximate instructions whatever their error (lower_options) */
  bool check_indices; /* reads at gathered places outside give 0, and stores there do not happen */
  void *user;
  /* The value of a REDUCE node, which the template has computed: `width` values where e depends on the lane
   * loop (a reduction over another one), else one. NULL: there are none. */
  arke_status (*reduce)(void *user, const ir_expr *e, gen_value *values, arke_error *err);
  /* Bit i: access i is not loaded but asked for (it waits in shared memory): its elements, of the tensor's
   * own type as gen_load_global gives it, `width` where it moves with the lane loop, else one. */
  uint64_t given;
  /* An evaluator of the same form and lanes that has the values of what depends on no loop in `own` (bit l:
   * loop l): copies that differ in those loops alone share the rest. NULL: none. */
  lanes *outer;
  unsigned own;
  arke_status (*read)(void *user, int access, gen_value *elements, arke_error *err);
} lanes_options;

/* --- before the kernel --- */

/* Whether indices or offsets of this problem might not fit 32 bits. */
bool lanes_need_wide_offsets(const ir_form *form);
/* Accesses that can be wide in this problem (`o->wide` is not read). Views: those that can where strides are
 * multiples, as lanes_require then asks. */
uint64_t lanes_wide(const ir_form *form, const lanes_options *o);
uint64_t lanes_wide_of(const ir_form *form, const lanes_options *o, uint64_t accesses); /* only these */
/* What evaluating and storing the form's outputs with these options takes for granted: alignments, strides,
 * sizes that must be multiples, 32 bits. With width 1 and wide offsets that is nothing but `dense`. */
void lanes_require(const ir_form *form, const lanes_options *o, recipe *rules, arena *a);
/* Part of it: subscripts stay inside their tensors at the call's sizes, too. */
void lanes_require_inside(const ir_form *form, recipe *rules, arena *a);

/* Declares the pointers, sizes and strides that expressions of the form need. Call before the kernel is
 * emitted, with the options that lanes_create gets; `slots` is filled with the parameters' numbers. */
typedef struct lanes_slot {
  int param;     /* -1: the constant */
  int64_t value; /* the constant */
} lanes_slot;
typedef struct lanes_args {
  int pointer[LIMIT_TENSORS];
  lanes_slot size[LIMIT_AXES], extent[IR_FORM_LOOPS];
  lanes_slot stride[LIMIT_TENSORS][LIMIT_RANK + 1]; /* by dimension + 1; 0: the leading ones, as one */
  /* Views: leading axes as few as they collapse to (recipe.h); 0 varies fastest. */
  lanes_slot lead_extent[LANES_LEAD], lead_stride[LIMIT_TENSORS][LANES_LEAD];
} lanes_args;
void lanes_declare(const ir_form *form, const lanes_options *o, kernel_args *args, lanes_args *slots);

/* --- in the kernel --- */

/* The evaluator lives in the arena; several may exist in one kernel (unrolled copies). */
arke_status lanes_create(gen_builder *b, const ir_form *form, const lanes_options *o, const lanes_args *slots,
                         arena *a, lanes **l, arke_error *err);
/* `value` is I32 or, with wide offsets, I64. */
void lanes_set(lanes *l, int loop, gen_value value);
/* Views: the leading loop by its axes; the lane loop, if it is that, is then the first of them. lanes_set
 * divides. */
void lanes_set_lead(lanes *l, const gen_value positions[LANES_LEAD]);
gen_value lanes_extent(lanes *l, int loop); /* of the same type */
gen_value lanes_lead_extent(lanes *l, int axis);
/* Forgets all values: after a branch or a loop in which some were made, since they are not known behind it.
 */
void lanes_forget(lanes *l);
/* Forgets what has been computed, but not what has been loaded, which is widened again when it is needed: so
 * that elements of 16 bits wait as such. Those that the template gives are asked for again. */
void lanes_narrow(lanes *l);

arke_status lanes_load(lanes *l, const ir_expr *e, arke_error *err);
/* Evaluates what of e depends on no loop in `own`, as outer of evaluators that are used in a loop. */
arke_status lanes_prepare(lanes *l, const ir_expr *e, unsigned own, arke_error *err);
/* The elements of one access as loaded, of the tensor's own type (4-bit ones in the low half of an I8): what
 * a template stages in shared memory. n as lanes_eval. */
arke_status lanes_elements(lanes *l, int access, gen_value *elements, int *n, arke_error *err);
arke_status lanes_eval(lanes *l, const ir_expr *e, gen_value *values, int *n, arke_error *err);
/* How exact the value of a node must be for what is stored: for templates that compute functions of their
 * own. */
gen_accuracy lanes_accuracy(const lanes *l, const ir_expr *e);
/* In this evaluator e, and what it is made of, need be no more exact than that (or, with fast_math, than the
 * hardware is), whatever outputs ask for that are made of it. */
void lanes_want(lanes *l, const ir_expr *e, gen_accuracy accuracy);
/* Converts (gen_convert) and stores where `active` (i1; NULL: always) holds. n as lanes_eval gave it. Updates
 * other than IR_ASSIGN are atomic. */
arke_status lanes_store(lanes *l, int output, const gen_value *values, int n, gen_value active,
                        arke_error *err);
/* The same by access: topk's positions, say. */
arke_status lanes_store_access(lanes *l, int access, ir_update update, const gen_value *values, int n,
                               gen_value active, arke_error *err);

#endif
