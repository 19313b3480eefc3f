/* Structured control flow: loops with carried values and branches, so that callers never see a basic block or
 * a phi. Begin and end must nest; what a loop or branch carries is an array of the caller's, updated in
 * place.
 *
 *   gen_loop loop;  gen_value i = gen_i32(b, 0), sum = …;
 *   gen_value carried[] = {i, sum};
 *   gen_loop_begin(b, &loop, carried, 2);                     carried: this iteration's values
 *   gen_loop_while(b, &loop, gen_compare(b, GEN_ULT, carried[0], n));   optional: test before the body
 *   …                                                          body; assigns carried[0], carried[1]
 *   gen_loop_end(b, &loop);                                    carried: the values after the loop */
#ifndef ARKE_GENERATOR_GEN_CONTROL_H
#define ARKE_GENERATOR_GEN_CONTROL_H

#include "generator/gen_kernel.h"

#define GEN_MAX_CARRIED                                                                                      \
  448 /* accumulators of the widest tile, packed copies of them, and a pipeline's state */

struct LLVMOpaqueBasicBlock;

typedef struct gen_loop {
  struct LLVMOpaqueBasicBlock *head, *exit;
  gen_value *carried;
  int n;
  gen_value phis[GEN_MAX_CARRIED];
  bool tested; /* gen_loop_while was called */
} gen_loop;

void gen_loop_begin(gen_builder *b, gen_loop *loop, gen_value *carried, int n);
/* Leaves the loop when `condition` is false, before the rest of the body; at most once, before any change of
 * `carried`: those values are the ones after the loop. */
void gen_loop_while(gen_builder *b, gen_loop *loop, gen_value condition);
/* Back to the head. */
void gen_loop_end(gen_builder *b, gen_loop *loop);
/* Back to the head while `condition` is true: a body that runs at least once. Not with gen_loop_while. */
void gen_loop_end_while(gen_builder *b, gen_loop *loop, gen_value condition);

typedef struct gen_branch {
  struct LLVMOpaqueBasicBlock *from, *other, *join;
  struct LLVMOpaqueBasicBlock *then_end;
  gen_value *carried;
  int n;
  gen_value before[GEN_MAX_CARRIED], then_values[GEN_MAX_CARRIED];
  bool has_else;
} gen_branch;

/* Runs what follows, up to gen_if_end or gen_if_else, when `condition` is true. `carried` (n may be 0) are
 * values that either side may assign; without an else side they keep what they had. */
void gen_if(gen_builder *b, gen_branch *branch, gen_value condition, gen_value *carried, int n);
void gen_else(gen_builder *b, gen_branch *branch);
void gen_if_end(gen_builder *b, gen_branch *branch);

/* Nothing, which is not the same as that of another number: sides of a branch that end in different ones keep
 * what they have in common before, where the optimizer would move it behind the branch together with the
 * values it needs. */
void gen_keep_apart(gen_builder *b, int number);

#endif
