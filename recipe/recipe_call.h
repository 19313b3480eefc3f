/* A call as recipes see it: the variables of expressions (recipe.h), and which of a recipe's alternatives
 * takes the call's tensors. */
#ifndef ARKE_RECIPE_RECIPE_CALL_H
#define ARKE_RECIPE_RECIPE_CALL_H

#include "recipe/recipe.h"

/* A tensor of the signature, an output in place counted again as the output. */
typedef struct recipe_tensor {
  const char *name;
  bool output;
  int rank;
  int leading; /* how many of its axes "[...]" stands for; -1: its signature has none */
  int64_t shape[LIMIT_RANK], stride[LIMIT_RANK]; /* elements; strides of axes with one element are not read */
  uint64_t address;                              /* 0: not known yet, and right for every rule */
} recipe_tensor;

enum {
  RECIPE_MOST_VARIABLES =
      LIMIT_AXES + 3 + RECIPE_LEAD_AXES + LIMIT_TENSORS * (LIMIT_RANK + RECIPE_LEAD_AXES + 1)
};

typedef struct recipe_call {
  int n_tensors;
  recipe_tensor tensors[LIMIT_TENSORS]; /* with the strides that recipe.h says */
  int n_lead;                           /* collapsed leading axes; may be more than RECIPE_LEAD_AXES */
  int64_t lead[LIMIT_RANK];             /* fastest first */
  int64_t lead_stride[LIMIT_TENSORS][LIMIT_RANK];
  int n_env;
  recipe_binding env[RECIPE_MOST_VARIABLES]; /* the first is ROUND */
} recipe_call;

/* `sizes`: the axes by name. Tensors with "[...]" have the same leading axes (the caller has checked it).
 * Names are the arena's or the caller's. ARKE_ERR_MEMORY, or ARKE_ERR_SHAPE where a count passes 2^63. */
arke_status recipe_call_make(const recipe_tensor *tensors, int n_tensors, const recipe_binding *sizes,
                             int n_sizes, int sm_count, arena *a, recipe_call *c, arke_error *err);
arke_status recipe_call_eval(const recipe_call *c, const recipe_expr *e, int64_t *value, arke_error *err);

/* One launch of a run. */
typedef struct recipe_turn {
  int launch;
  int64_t round;
} recipe_turn;

/* What a recipe launches for a call, in order. The list is the arena's. ARKE_ERR_UNSUPPORTED: more than
 * LIMIT_TURNS. */
arke_status recipe_turns(const recipe *r, const recipe_call *c, arena *a, const recipe_turn **turns, int *n,
                         arke_error *err);
/* From here on expressions are evaluated for this round. */
void recipe_call_set_round(recipe_call *c, int64_t round);

/* The first of `r` and the recipes behind it whose rules and requirements hold. Else ARKE_ERR_ARGUMENT (an
 * address) or ARKE_ERR_SHAPE, and what the first one and the last one want. */
arke_status recipe_choose(const recipe *r, const recipe_call *c, const recipe **chosen, arke_error *err);

#endif
