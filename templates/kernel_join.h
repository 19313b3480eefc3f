/* Operators of several stages: each stage is an operator of its own, lowered by a template into its ways;
 * joined they are ways of the whole. Stages share the axes' names; their tensors are arguments of the whole,
 * or temporaries that live in the workspace, without gaps. */
#ifndef ARKE_TEMPLATES_KERNEL_JOIN_H
#define ARKE_TEMPLATES_KERNEL_JOIN_H

#include "templates/kernel_lower.h"

/* A temporary: its size and strides are those of tensor `tensor` of operator `op`, the stage's that writes
 * it. */
typedef struct kernel_temporary {
  const ir_problem *problem;
  int tensor;
} kernel_temporary;

typedef struct kernel_stage {
  const char *prefix; /* of its kernels' names, which must differ from all others' */
  const ir_problem *problem;
  const kernel_way *ways;
  int n;
  /* What its argument i is: argument arguments[i] of the whole, or temporary ~arguments[i]. NULL: the same
   * arguments as the whole. */
  const int *arguments;
} kernel_stage;

/* The whole's ways, at most KERNEL_MAX_WAYS: the i-th runs the i-th way of every stage, or its last one where
 * it has fewer. All memory is the arena's. */
arke_status kernel_join(const ir_problem *whole, const kernel_stage *stages, int n_stages,
                        const kernel_temporary *temporaries, int n_temporaries, arena *a, kernel_way *ways,
                        int *n, arke_error *err);

#endif
