/* Bounds of keys or queries that see one another (attention_match.h), as kernels of attention and of its
 * gradients evaluate them. */
#ifndef ARKE_TEMPLATES_BOUND_REST_H
#define ARKE_TEMPLATES_BOUND_REST_H

#include "templates/attention_match.h"
#include "templates/lanes.h"

/* The value of a bound without the row's part, i64, where the evaluator's loops stand. */
arke_status bound_rest(gen_builder *b, lanes *l, const attention_bound *bound, gen_value *value,
                       arke_error *err);

/* A bound for one row (i32), given the rest: i32, inside of 2^30 either way, which no size reaches. */
gen_value bound_at_row(gen_builder *b, const attention_bound *bound, gen_value rest, gen_value row);

/* The columns that any, and that all, of a tile's rows see, i32; the ends may lie before the beginnings. */
typedef struct bound_range {
  gen_value from, below, all_from, all_below;
} bound_range;

/* Of so many columns, given what each bound is at the tile's first and last row: bounds grow or fall with the
 * row, so that their ends are at one of these. */
bound_range bound_columns(gen_builder *b, const attention_bounds *bounds, const gen_value *at_first,
                          const gen_value *at_last, gen_value columns);
/* The same by the bounds' rests; and of one row. */
bound_range bound_columns_of_tile(gen_builder *b, const attention_bounds *bounds, const gen_value *rests,
                                  gen_value first, gen_value last, gen_value columns);
void bound_columns_of_row(gen_builder *b, const attention_bounds *bounds, const gen_value *rests,
                          gen_value row, gen_value columns, gen_value *from, gen_value *below);

#endif
