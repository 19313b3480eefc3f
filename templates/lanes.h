/* A form's expressions in a kernel, for several consecutive values of one loop at once ("lanes"): what maps,
 * row reductions and scans have in common.
 *
 *   lanes_init(…);  lanes_set(l, loop, value) for every loop
 *   lanes_load(l, e)             issues the loads of e's reads, so that many are in flight before arithmetic
 * begins n = lanes_eval(l, e, values) `width` values, or one where e does not depend on the lane loop
 *   lanes_store(l, output, values, active)
 *
 * An access that moves by one element with the lane loop (IR_MOTION_UNIT) is one wide access of `width`
 * elements, where the caller has said that its address is a multiple of that (`wide`); a neighbour at a
 * constant distance (d + 1 under d % 2 == 0) is picked from the vector that holds it; one that does not move
 * is loaded once; others are loaded lane by lane. Lane 0's value is a multiple of `width`, so that d % 2 and
 * d / 2 fold. Values are remembered by node until a loop they depend on is set again. A conditional access is
 * clamped into its tensor, so that nothing outside is read where its value is not used. */
#ifndef ARKE_TEMPLATES_LANES_H
#define ARKE_TEMPLATES_LANES_H

#include "generator/gen_kernel.h"
#include "ir/ir_form.h"
#include "templates/kernel_lower.h"

enum { LANES_MAX = 16 };

typedef struct lanes lanes;

typedef struct lanes_options {
  int loop;          /* the lane loop; -1: none */
  int width;         /* 1 … LANES_MAX, a power of two */
  bool dense;        /* tensors without gaps: strides are products of sizes; else they are parameters */
  bool wide_offsets; /* 64-bit element offsets; else every tensor has fewer than 2^31 elements */
  uint64_t wide;     /* bit i: access i is aligned for a load of `width` elements */
  void *user;
  /* The value of a REDUCE node, which the template has computed: `width` values where e depends on the lane
   * loop (a reduction over another one), else one. NULL: there are none. */
  arke_status (*reduce)(void *user, const ir_expr *e, gen_value *values, arke_error *err);
  /* Bit i: access i is not loaded but asked for (it waits in shared memory): its elements, of the tensor's
   * own type as gen_load_global gives it, `width` where it moves with the lane loop, else one. */
  uint64_t given;
  arke_status (*read)(void *user, int access, gen_value *elements, arke_error *err);
} lanes_options;

/* Declares the pointers, sizes and strides that expressions of the form need. Call before the kernel is
 * emitted, with the options that lanes_create gets; `slots` is filled with the parameters' numbers. */
typedef struct lanes_args {
  int pointer[LIMIT_TENSORS], size[LIMIT_AXES], extent[IR_FORM_LOOPS];
  int stride[LIMIT_TENSORS][LIMIT_RANK + 1];
} lanes_args;
void lanes_declare(const ir_form *form, const lanes_options *o, kernel_args *args, lanes_args *slots);

/* The evaluator lives in the arena; several may exist in one kernel (unrolled copies). */
arke_status lanes_create(gen_builder *b, const ir_form *form, const lanes_options *o, const lanes_args *slots,
                         arena *a, lanes **l, arke_error *err);
/* `value` is I32 or, with wide offsets, I64. */
void lanes_set(lanes *l, int loop, gen_value value);
gen_value lanes_extent(lanes *l, int loop); /* of the same type */

arke_status lanes_load(lanes *l, const ir_expr *e, arke_error *err);
/* The elements of one access as loaded, of the tensor's own type: what a template stages in shared memory. n
 * as lanes_eval. */
arke_status lanes_elements(lanes *l, int access, gen_value *elements, int *n, arke_error *err);
arke_status lanes_eval(lanes *l, const ir_expr *e, gen_value *values, int *n, arke_error *err);
/* Converts (gen_convert) and stores where `active` (i1; NULL: always) holds. n as lanes_eval gave it. Updates
 * other than IR_ASSIGN are atomic. */
arke_status lanes_store(lanes *l, int output, const gen_value *values, int n, gen_value active,
                        arke_error *err);

#endif
