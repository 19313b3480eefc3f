/* What products by other units than warp-group ones cannot beat, whatever their configuration. */
#ifndef ARKE_TEMPLATES_PRODUCT_BOUND_H
#define ARKE_TEMPLATES_PRODUCT_BOUND_H

#include "templates/template.h"

/* A record's bound_ns for templates that multiply by mma.sync or by threads: the time of the multiply-adds at
 * the most that mma.sync does. 0 with a configuration (it adds nothing), for operators that are no
 * contraction, and where conditions leave terms out. */
double product_bound_ns(const ir_problem *p, const void *prepared, const target *t, const target_rates *rates,
                        const config *c);

/* Whether CTAs of a product that memory bounds for longer than launches take come to lie unevenly back to
 * back, though timed one by one they do not seem to: some SMs have one more than others, or, with the SMs to
 * themselves (`alone`), some of the next launch's wait for another one's end. Up to half the SMs leave room
 * for it; so do more, with one CTA each, that leave half an SM's shared memory. 80 CTAs of 64 x 2880
 * took 10.0 us one by one and 9.2 back to back with 6 stages, 9.8 and 11.4 with 8; 128 of 40 took 10.0
 * and 8.6. */
bool product_lies_unevenly(double min_bytes, int64_t ctas, int sms, bool alone);
/* Such a product: of at least so many bytes. */
enum { PRODUCT_LONG_BYTES = 20 << 20 };

#endif
