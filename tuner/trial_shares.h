/* Rows of a table through which a pool's pages are written, shared out so that no two rows write one page:
 * "u[n] = table[g[n],o[n] / Z]; o[n] = n - cu[g[n] + 1] + lens[g[n]]; Kp[u[n],…] = …". Which pages of a row
 * are written follows from lengths; where there are fewer pages than the table has elements, each row has a
 * share of them, and its length stays inside. */
#ifndef ARKE_TUNER_TRIAL_SHARES_H
#define ARKE_TUNER_TRIAL_SHARES_H

#include "ir/ir.h"

typedef struct trial_shares {
  int table, lengths;   /* tensors */
  int64_t places, rows; /* pages of the pool, rows of the table: fewer than `rows * row` pages */
  int64_t row, page;    /* elements of a row of the table, and of a page */
} trial_shares;

/* Whether the operator has such a table of which there are fewer places than elements. */
bool trial_shares_find(const ir_problem *p, trial_shares *s);
/* How many places are of this row alone, `row` at most; none where there are fewer places than rows. */
int64_t trial_share_of(const trial_shares *s, int64_t row);
/* The place of an element of the table, before places are shuffled: one of its row's, again and again. */
int64_t trial_share_place(const trial_shares *s, int64_t row, int64_t element);

/* What a temporary stands for, that one definition writes; else the expression itself. */
const ir_expr *trial_value_behind(const ir_op *op, const ir_expr *e);

#endif
