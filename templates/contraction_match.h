/* Inside the matching of contractions: what its parts share. Only contraction*.c include this. */
#ifndef ARKE_TEMPLATES_CONTRACTION_MATCH_H
#define ARKE_TEMPLATES_CONTRACTION_MATCH_H

#include "templates/contraction.h"

typedef struct contraction_matcher {
  contraction *c;
  strbuf *detail;
  unsigned outer;  /* loops of the outputs */
  bool grouped;    /* groups of rows are taken */
  bool scattered;  /* outputs may be written at gathered places */
  uint64_t opened; /* by number in the list of reductions: part of a sum that was matched */
} contraction_matcher;

typedef struct contraction_factors {
  int n;
  const ir_expr *list[CONTRACTION_FACTORS];
} contraction_factors;

/* Reads under `e`, as bits, not looking into REDUCE nodes; *reduces (may be NULL): there is one that is not
 * the group of a row. */
uint64_t contraction_reads_of(const contraction *c, const ir_expr *e, bool *reduces);
/* The loops of `set`, in the order of `order`. */
contraction_loops contraction_pick(unsigned set, const contraction_loops *order);

/* --- operands (contraction_operand.c) --- */

/* What `e` is a product of, casts that change no value left out; false: of too many. */
bool contraction_collect_factors(const ir_form *form, const ir_expr *e, contraction_factors *f);
/* The operand of those factors that are in the set `chosen`. */
contraction_operand contraction_make_operand(const contraction *c, contraction_side side,
                                             const contraction_factors *f, unsigned chosen);
/* Its number, after it was added where it is not among the operands yet. */
int contraction_add_operand(contraction *c, contraction_operand o);

/* --- sums (contraction_sum.c) --- */

/* Every sum of products, with its operands, and which loops are m, n, k and the batch. `order`: the loops of
 * the first output. */
bool contraction_match_sums(contraction_matcher *w, const contraction_loops *order);

#endif
