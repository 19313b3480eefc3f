/* Plans with what their stages may be configured as: between compose_judge.c, which makes and prices them,
 * compose_lower.c and compose_reduce.c. */
#ifndef ARKE_TEMPLATES_COMPOSE_JUDGE_H
#define ARKE_TEMPLATES_COMPOSE_JUDGE_H

#include "templates/compose.h"

/* For one value of SLICE, KEEP and FOLD. */
typedef struct compose_prepared {
  template_reason reason; /* not OK: there is no plan, and NULL for choices */
  compose_plan plan;
  double needed_bytes; /* of memory, at least: the arguments, and temporaries of one stage with those that
                          wait */
  compose_choices *choices;
} compose_prepared;

/* What a configuration stands for; all memory is the arena's. NULL: there is none. */
const compose_prepared *compose_prepare_config(const ir_problem *p, const target *t, const config *c,
                                               arena *a);
/* Its stages, in the order they run, as `c` picks their configurations; how many. */
int compose_list_parts(const compose_prepared *made, const target *t, const config *c, template_part *parts);
/* The kernels of its stages, as `ways` of the template gives them, but for those behind folded ones. */
arke_status compose_prepared_ways(const compose_prepared *made, const ir_problem *p, const target *t,
                                  const config *c, const lower_options *options, arena *a, kernel_way *ways,
                                  int *n, arke_error *err);
bool compose_is_sliced(const compose_plan *plan);

#endif
