/* The value of a sum of products in a template's epilogue, from what the products have added up. */
#ifndef ARKE_TEMPLATES_CONTRACTION_VALUE_H
#define ARKE_TEMPLATES_CONTRACTION_VALUE_H

#include "templates/contraction.h"
#include "templates/lanes.h"

/* Turns `width` accumulators (F32, F64, I32 or I64) into the sum's values, of the type it computes in: times
 * its scales, and 0 where a condition of the outputs' loops leaves the whole sum out. */
arke_status contraction_sum_value(gen_builder *b, lanes *l, const contraction *c, const contraction_sum *s,
                                  int width, gen_value *values, arke_error *err);
/* A number as the type that values of a dtype compute in. */
gen_value contraction_value_as(gen_builder *b, gen_value x, dtype computed);
/* Issues the loads of what that will read, for all sums. */
arke_status contraction_load_sums(lanes *l, const contraction *c, arke_error *err);

#endif
