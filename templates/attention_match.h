/* Attention, by structure: two products with a softmax between them,
 *
 *   P = sum(d) Q * K    A = score(P, query, key)    O = sum(k) weight(A) * V / sum(k) weight(A)
 *
 * What every template for it matches. Sizes play no part, and neither do dtypes: what a template cannot do it
 * refuses itself. */
#ifndef ARKE_TEMPLATES_ATTENTION_MATCH_H
#define ARKE_TEMPLATES_ATTENTION_MATCH_H

#include "templates/contraction.h"
#include "templates/lanes_index.h"

enum {
  ATTENTION_BOUNDS = 8,
  ATTENTION_SHARES = 2,
  ATTENTION_PARTS = 2,
  ATTENTION_SCALES = 2,
  ATTENTION_ROW_FACTORS = 4,
  ATTENTION_CONDITIONS = 4
};

/* A condition on which keys a query sees: those below the bound (`upper`), or from it on. The bound is
 * query * (the query's index) + rest * times, and neither has the query nor the key, but for what they read
 * by the query's group. */
typedef struct attention_bound {
  bool upper;
  int64_t query;
  lanes_sum rest;
  const ir_expr *times; /* a SIZE node; NULL: 1 */
} attention_bound;

typedef struct attention_bounds {
  int n;
  attention_bound list[ATTENTION_BOUNDS];
  /* Conjuncts that are no bounds: a query sees a key where all of them hold, too, and neither its row of K
   * and V nor its score may be looked at where one does not. */
  int n_conditions;
  const ir_expr *conditions[ATTENTION_CONDITIONS];
  /* Sizes of which the first must be a multiple of the second: h / (H / G) is below G then. */
  int n_shares;
  ir_dim shares[ATTENTION_SHARES][2];
} attention_bounds;

/* How a read of K or V depends on the key. */
typedef enum attention_keys {
  ATTENTION_KEYS_PLAIN, /* one subscript is the key, the others do not depend on it */
  /* Two do: one is the key's place in its page, key % page, and one the page's number, which is key / page or
   * read from a table by that. */
  ATTENTION_KEYS_PAGED,
  ATTENTION_KEYS_ANY, /* otherwise: rows at gathered places */
} attention_keys;

/* A read of K or V: rows along its last axis, one for each key. */
typedef struct attention_read {
  int access;
  attention_keys keys;
  int row;             /* PLAIN: the subscript that is the key; PAGED: key % page; ANY: -1 */
  int page_of;         /* PAGED: the subscript that is key / page or table[…, key / page, …]; else -1 */
  int table;           /* PAGED: access of the table; -1: there is none */
  const ir_expr *page; /* PAGED: the keys of a page, a SIZE or INT node; else NULL */
} attention_read;

/* A sum of Q * K: most operators have one, multi-latent attention adds one of positions to it. */
typedef struct attention_part {
  const ir_expr *e; /* the REDUCE node */
  int depth;        /* its loop */
  int q;            /* access */
  attention_read k;
  /* Queries that are computed by element, as rotated ones are: the factor of the product, of which `q` is a
   * read row by row; else NULL. And the same as outputs of a form of its own, written as that access is, by
   * blocks of the depth where choices go by those (ir_form_split). Templates that do not compute it refuse.
   */
  const ir_expr *made;
  const ir_form *blocks;
} attention_part;

typedef struct attention_match {
  ir_form form;
  /* Requests of packed rows (contraction_groups.h): `of` is NULL, or `row` is the query's loop, and K, V,
   * bounds, scores and outputs may read by the group. Rows past the last request are of group B, for which
   * nothing that is read by the group may be read outside the output's own conditions: they see no key. */
  contraction_groups groups;
  int output; /* O among the form's outputs */
  int o;      /* access */
  int n_parts;
  attention_part parts[ATTENTION_PARTS];
  attention_read v;
  int query, key, wide;    /* loops: rows of Q, of K and V; columns of V and O */
  contraction_loops batch; /* the others of O */
  /* The parts' sum: a REDUCE node, or the least one over both. In scores, all of the sum is the value of the
   * first part's node, and that of the second's is 0. */
  const ir_expr *product;
  /* REDUCE nodes: the largest score, the sum of the weights (NULL: none), and that of weights times V. */
  const ir_expr *largest, *total, *weighted;
  const ir_expr *divisor; /* of the terms of `weighted`; NULL: 1 */
  int n_scales;           /* factors of those terms that are the same for all keys and columns */
  const ir_expr *scales[ATTENTION_SCALES];
  /* The score is scale * body, where scale > 0 and body is `product`, which then counts as the bare sum of
   * Q * K, or an expression over it, in which a part's node is factor * the sum of Q * K. */
  double scale, factor;
  const ir_expr *body;
  /* The score is scale * row_factor * (the bare sum of Q * K) times `row_factors`, which are the same for all
   * keys of a query, and may be anything: scales of 8-bit elements. */
  bool by_row;
  double row_factor;
  int n_row_factors;
  const ir_expr *row_factors[ATTENTION_ROW_FACTORS];
  bool base2;   /* weights are exp2 of scores, else exp */
  bool guarded; /* a largest score of -inf counts as 0: queries that see nothing have weights of 0 */
  attention_bounds bounds;
  dtype type; /* what weights are rounded to; F32: to nothing */
  /* Of attention_fit, for all plans: as lanes_wide says of outputs by two columns, and by four. */
  bool wide_offsets;
  uint64_t wide_pairs, wide_runs;
} attention_match;

/* TEMPLATE_OPERATOR with a sentence in `detail` (may be NULL) where the operator is no attention; `status`
 * (may be NULL) tells a lack of memory from that. Memory is the arena's, `p` must outlive it. Sizes play no
 * part. */
template_reason attention_match_op(const ir_problem *p, arena *a, attention_match *m, strbuf *detail,
                                   arke_status *status);
/* "batch b h; query q; key k; depth d; wide d; Q Q; K K; V V; below q + R - S + 1; …", for tests. */
void attention_print(const attention_match *m, strbuf *out);

/* What makes scores exponents of 2. Where they are products alone, the exponent's subtraction takes it along.
 * Other scores may be so large (masks of -1e30) that a rounded largest one would be far from it: these are
 * multiplied first, and the largest is that of the results. */
double attention_exponent_factor(const attention_match *m);

/* --- bounds (attention_bounds.c) --- */

/* Takes the conjuncts of `condition` (NULL: none) into `b`; false where there are too many, or one has a
 * reduction. */
bool attention_add_bounds(const ir_form *form, const contraction_groups *groups, int query, int key,
                          const ir_expr *condition, attention_bounds *b);
bool attention_has_bound(const attention_bounds *b, const attention_bound *x);
bool attention_same_bounds(const attention_bounds *x, const attention_bounds *y);
/* Whether a read of K or V at these sizes is inside its tensor wherever the shares divide. */
bool attention_shares_divide(const ir_problem *p, const attention_bounds *b);
/* Whether `e` is h / (H / G), where h is a loop over H: the loop, and the dimensions H and G. */
bool attention_is_share(const ir_form *form, const ir_expr *e, int *loop, ir_dim shares[2]);

/* --- reads (attention_reads.c) --- */

/* Whether keys of all parts, and values, are in pages with the same numbers. */
bool attention_same_pages(const attention_match *m);
/* Whether V is read as a part reads K, column for column; sizes play no part. */
bool attention_has_values(const attention_match *m, const attention_part *part);

/* How a read of K or V, whose rows run along the loop `along`, depends on the key; false with a sentence
 * where it is none that a tile of queries can share. */
bool attention_match_read(const ir_form *form, const contraction_groups *groups, const ir_expr *read,
                          int query, int key, int along, attention_read *r, strbuf *detail);

/* Which of O's loops may be rows of one tile, since they have the same keys and values. */
typedef struct attention_packing {
  unsigned loops;       /* of the query and the batch: neither K nor V depends on them, but by the group */
  int shared;           /* a loop h of the batch that K and V have as h / (H / G) alone; -1: none */
  ir_dim heads, groups; /* H and G */
} attention_packing;
attention_packing attention_packing_of(const attention_match *m);
/* Sets the sizes of `p`, a problem of the same operator, so that there are about so many keys; pages stay as
 * large as they are, and a pool has a few more than three requests take. */
void attention_set_keys(const attention_match *m, int64_t keys, ir_problem *p);
/* Loops of the batch that bounds depend on. */
unsigned attention_bound_loops(const attention_match *m);

#endif
