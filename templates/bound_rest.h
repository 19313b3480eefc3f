/* Bounds of keys or queries that see one another (attention_match.h), as kernels of attention and of its
 * gradients evaluate them. */
#ifndef ARKE_TEMPLATES_BOUND_REST_H
#define ARKE_TEMPLATES_BOUND_REST_H

#include "templates/attention_match.h"
#include "templates/lanes.h"

/* The value of a bound without the row's part, i64, where the evaluator's loops stand. */
arke_status bound_rest(gen_builder *b, lanes *l, const attention_bound *bound, gen_value *value,
                       arke_error *err);

#endif
