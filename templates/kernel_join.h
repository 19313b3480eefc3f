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

/* An axis of the whole in slices (recipe_repeat). Stages that run for each have two axes of their own: a
 * slice's elements, and those before it. */
typedef struct kernel_slices {
  const char *whole, *axis, *begin;
  int64_t size; /* elements of all slices but the last */
} kernel_slices;

typedef struct kernel_stage {
  const char *prefix; /* of its kernels' names, which must differ from all others' */
  const ir_problem *problem;
  const kernel_way *ways;
  int n;
  /* What its argument i is: argument arguments[i] of the whole, or temporary ~arguments[i]. NULL: the same
   * arguments as the whole. */
  const int *arguments;
  bool repeated;     /* it runs for each slice; such stages follow one another */
  const int *sliced; /* for each argument which dimension is the slice; -1: none */
} kernel_stage;

/* The whole's ways, at most KERNEL_MAX_WAYS: the i-th runs the i-th way of every stage, or its last one where
 * it has fewer. `slices` NULL: no stage is repeated. All memory is the arena's. */
arke_status kernel_join(const ir_problem *whole, const kernel_stage *stages, int n_stages,
                        const kernel_temporary *temporaries, int n_temporaries, const kernel_slices *slices,
                        arena *a, kernel_way *ways, int *n, arke_error *err);

#endif
