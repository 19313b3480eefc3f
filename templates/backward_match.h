/* Inside the matching of attention's gradients: what its parts share. Only backward_match*.c include this. */
#ifndef ARKE_TEMPLATES_BACKWARD_MATCH_H
#define ARKE_TEMPLATES_BACKWARD_MATCH_H

#include "templates/backward.h"

typedef struct backward_matcher {
  backward_match *m;
  strbuf *detail;
} backward_matcher;

/* The sum of an output: over heads, where `heads` is there, and rows or keys, of something rounded times an
 * element. */
typedef struct backward_sum {
  int output;
  const ir_expr *all, *heads, *inner, *read;
  const ir_expr *factor; /* what is rounded */
  dtype rounded;
} backward_sum;

static inline bool backward_is_of_query(const backward_match *m, const ir_expr *e) {
  unsigned row = m->batch[BACKWARD_QUERIES].set | 1u << m->query;
  return !(ir_form_free(&m->form, e) & ~row);
}

/* How P is made of its score, and dS of P, where that is what the kernels compute by factors of their own
 * instead of by expressions (backward_match_kind.c). */
void backward_find_kind(backward_match *m);

/* The loops of the outputs beside rows and columns, and the heads that share keys (backward_match_loops.c).
 */
bool backward_match_batch(backward_matcher *w, const backward_sum *dq, const backward_sum *dk,
                          const backward_sum *dv);
/* Which pairs of a query and a key meet: bounds on the columns of either side. */
bool backward_match_bounds(backward_matcher *w, const backward_sum *dq, const backward_sum *dk);

#endif
