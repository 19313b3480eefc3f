/* Reductions along the rows of a product:
 *
 *   P[m,n] = sum(k) A[m,k] * B[n,k]      z[m] = max(n) P[m,n]      s[m] = sum(n) exp(P[m,n] - z[m])
 *
 * Each tile of the product reduces its own columns; the partial results of a row's tiles are combined by
 * another kernel (product_rows.h). A sum of exponentials follows its maximum: a tile subtracts its own, and
 * combining scales the sums to the largest one.
 *
 * Where outputs are of the product's elements, too (a row that is quantised, or divided by its norm), a tile
 * must have whole rows: it reduces them, and then evaluates its elements. */
#ifndef ARKE_TEMPLATES_CONTRACTION_ROWS_H
#define ARKE_TEMPLATES_CONTRACTION_ROWS_H

#include "ir/ir_form.h"

enum { CONTRACTION_ROW_REDUCTIONS = 6 };

typedef struct contraction_row_reduction {
  const ir_expr *e; /* the REDUCE node */
  ir_reduction kind;
  dtype type;  /* of the value reduced: DTYPE_F32, F64, I32, I64 or BOOL */
  int maximum; /* sum(n) exp(x - max(n) x): the reduction it follows; -1: its body needs no other */
  const ir_expr *exponential, *exponent; /* of such a sum: the CALL of exp or exp2, and x */
} contraction_row_reduction;

typedef struct contraction_rows {
  int n;      /* 0: there are none */
  int column; /* the loop that they reduce */
  bool whole; /* some output is over the columns, or of the product itself */
  contraction_row_reduction list[CONTRACTION_ROW_REDUCTIONS];
} contraction_rows;

/* The reductions of the form whose bodies need reductions, all over one loop. `group` is a node that is no
 * reduction here (contraction_groups.h), or NULL. False: there are some that cannot be had so, with a
 * sentence in *why. */
bool contraction_find_rows(const ir_form *form, const ir_expr *group, contraction_rows *rows,
                           const char **why);
/* Number of the reduction that is the node; -1: it is none. */
int contraction_row_of(const contraction_rows *rows, const ir_expr *e);

#endif
