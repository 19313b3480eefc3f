/* Ragged groups: rows sorted by their group, and each group's end.
 *
 *   g[r] = sum(e: ends[e] <= r) 1                        the group of row r: how many ends it is past
 *   Y[r,n] = g[r] < E ? sum(k) X[r,k] * W[g[r],n,k] : 0
 *
 * Offsets of packed sequences count as ends too: "sum(b: cu[b + 1] <= r) 1".
 *
 * The rows of a group multiply one matrix, so that a tile of rows which lies in one group is an ordinary tile
 * whose operand B is chosen by a number. Ends do not decrease, else it is undefined which rows are computed;
 * those below 0 and beyond the rows count as 0 and as all rows. Rows past the last end are of group E, which
 * is no group: no template reads for them what lies at that number. */
#ifndef ARKE_TEMPLATES_CONTRACTION_GROUPS_H
#define ARKE_TEMPLATES_CONTRACTION_GROUPS_H

#include "ir/ir_form.h"

typedef struct contraction_groups {
  const ir_expr *of; /* the REDUCE node that is the group of a row; NULL: there are no groups */
  int ends;          /* access ends[e], or cu[e + 1] */
  int loop;          /* e */
  int row;           /* loop r */
} contraction_groups;

/* The first node of the form that counts ends. */
contraction_groups contraction_find_groups(const ir_form *form);
/* The first one of them that counts them for the rows of this loop. */
contraction_groups contraction_find_groups_of(const ir_form *form, int row);
/* Loops of an expression, but for the row where only the group depends on it. */
unsigned contraction_loops_without_group(const ir_form *form, const contraction_groups *g, const ir_expr *e);
/* The value of an expression in rows that are of a group, where it is 0 in all others: y of "g[r] < E ? y :
 * 0"; NULL: it is no such choice. */
const ir_expr *contraction_in_group(const ir_form *form, const contraction_groups *g, const ir_expr *e);
/* Whether the access lies inside its tensor in all rows that are of a group. */
bool contraction_is_inside_group(const ir_form *form, const contraction_groups *g, const ir_access *x);

#endif
