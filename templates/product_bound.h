/* What products by other units than warp-group ones cannot beat, whatever their configuration. */
#ifndef ARKE_TEMPLATES_PRODUCT_BOUND_H
#define ARKE_TEMPLATES_PRODUCT_BOUND_H

#include "templates/template.h"

/* A record's bound_ns for templates that multiply by mma.sync or by threads: the time of the multiply-adds at
 * the most that mma.sync does. 0 with a configuration (it adds nothing), for operators that are no
 * contraction, and where conditions leave terms out. */
double product_bound_ns(const ir_problem *p, const void *prepared, const target *t, const target_rates *rates,
                        const config *c);

#endif
