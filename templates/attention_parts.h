/* Steps of the match: each names some of its parts, or says what is in the way. Inside attention_match.c,
 * attention_weights.c and attention_operands.c. */
#ifndef ARKE_TEMPLATES_ATTENTION_PARTS_H
#define ARKE_TEMPLATES_ATTENTION_PARTS_H

#include "templates/attention_match.h"

typedef struct attention_matcher {
  attention_match *m;
  strbuf *detail;
} attention_matcher;

/* --- reductions, weights and scores (attention_weights.c) --- */

/* Weights times V: the factors of a term. */
typedef struct attention_term {
  const ir_expr *weight, *value, *divisor;
  int n_scales;
  const ir_expr *scales[ATTENTION_SCALES];
  dtype rounded; /* what weights are cast to; F32: to nothing */
} attention_term;

/* Whether the REDUCE nodes of `e` are all in (nodes of) the list, or a row's group; what is inside them is
 * not looked at. */
bool attention_reduces_only(const attention_match *m, const ir_expr *e, const ir_expr *const *list, int n);
bool attention_constant(const ir_problem *p, const ir_expr *e, double *v);
/* Sorts the reductions by what they are made of. */
bool attention_sort_reductions(attention_matcher *w);
/* A factor that depends on neither the key nor the column is a scale; `all`: loops that it may not have. */
bool attention_collect_term(const attention_match *m, const ir_expr *e, unsigned all, attention_term *t);
/* The weight is exp(score - largest), with a largest of -inf as 0 or not. */
bool attention_match_weight(attention_matcher *w, const attention_term *t, double *of_parts);
/* Takes positive constant factors out of the score: they join the exponent's; then says of which other
 * factors the products have. */
void attention_split_scale(attention_match *m, double of_parts);

/* --- Q and K (attention_operands.c) --- */

/* Loops of what is read, but for those of its rows' group. */
unsigned attention_loops_of(const attention_match *m, const ir_expr *read);
/* Which of the factors of QK are Q, and which of its loops are the rows of a tile: one of those that K has
 * not, and that bounds speak of, else the innermost. */
bool attention_match_products(attention_matcher *w, unsigned outer, const contraction_loops *order);
/* Computed queries as outputs that are written as they are read. */
arke_status attention_find_blocks(attention_match *m, attention_part *part, arena *a);

#endif
