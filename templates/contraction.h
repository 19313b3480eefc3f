/* Contractions: operators whose outputs are expressions over sums of products,
 *
 *   Y[batch, m, n] = epilogue(sum(k) A(batch, m, k) * B(batch, n, k), …, other reads over the output's loops)
 *
 * in the form of an operator, by structure: what every template for products of matrices matches. A and B are
 * expressions (a read, a dequantised one, rows that an index tensor chooses), and so is the epilogue (a bias,
 * a residual, an activation, two sums in a gate). */
#ifndef ARKE_TEMPLATES_CONTRACTION_H
#define ARKE_TEMPLATES_CONTRACTION_H

#include "ir/ir_form.h"
#include "templates/contraction_groups.h"
#include "templates/contraction_rows.h"
#include "templates/template.h"

enum {
  CONTRACTION_SUMS = 4,
  CONTRACTION_OPERANDS = 2 * CONTRACTION_SUMS,
  CONTRACTION_FACTORS = 6,
  CONTRACTION_CONDITIONS = 4
};

/* Loops of one kind, outermost first: as the outputs have them, and the reduced ones as their sums nest. No
 * loop: an extent of 1. */
typedef struct contraction_loops {
  unsigned set; /* bit l: loop l */
  int n, loops[IR_FORM_LOOPS];
} contraction_loops;

typedef enum contraction_side { CONTRACTION_A, CONTRACTION_B } contraction_side;

/* One side of a product: its factors, which depend on a reduced loop each. Operands are distinct: two sums
 * over the same A share it. */
typedef struct contraction_operand {
  contraction_side side;
  int n_factors; /* whose product it is; at least 1 */
  const ir_expr *factors[CONTRACTION_FACTORS];
  uint64_t accesses; /* bit i: access i is read for it, also for a subscript */
  uint64_t values;   /* of those, the ones that are not read for subscripts alone */
  /* The access that is the operand, where it is one element of a tensor as it is (casts that change no value
   * left out); -1: it is computed. Reads that may lie outside their tensor are computed. */
  int access;
  /* tf32: its values are f32 without the lowest 13 bits. `element` is the access whose elements these are
   * once a matrix unit has read them as tf32, or -1; of other operands it is `access`. */
  bool tf32;
  int element;
  /* What holds its values exactly: the tensor's dtype, or that of a cast; else what it computes in
   * (DTYPE_F32, F64, I32, I64 or BOOL). */
  dtype type;
} contraction_operand;

/* A sum of products: a value of the epilogue, which is sum(k) A * B * scales… */
typedef struct contraction_sum {
  const ir_expr *e; /* the REDUCE node (the outermost, where several loops are reduced) */
  int a, b;         /* of the operands */
  int n_scales;     /* factors without a reduced loop: they may multiply the sum instead of its terms */
  const ir_expr *scales[CONTRACTION_FACTORS];
  int n_conditions; /* terms are left out where one of them is false, whatever their values */
  const ir_expr *conditions[CONTRACTION_CONDITIONS];
  dtype type; /* of the sum: DTYPE_F32, F64, I32 or I64 */
} contraction_sum;

/* n holds the innermost loop that is not of the batch in the first output; m is the other side's. Either (not
 * both) may be without loops: a vector. */
typedef struct contraction {
  ir_form form; /* merged or not; its outputs each have all of batch, m and n as plain subscripts */
  contraction_loops batch, m, n, k;
  int n_operands, n_sums;
  contraction_operand operands[CONTRACTION_OPERANDS];
  contraction_sum sums[CONTRACTION_SUMS];
  uint64_t epilogue; /* accesses that outputs and scales read, those for subscripts included */
  /* n is the loop they reduce. The outputs have batch and m alone, or, where rows are whole, also n; other
   * loops of B's side are of the batch then. */
  contraction_rows rows;
  contraction_groups groups; /* m is the loop over their rows; B and the epilogue may read by group */
} contraction;

/* What a template says it can do; else such operators are no contractions to it. */
enum {
  CONTRACTION_GROUPED = 1, /* ragged groups of rows (contraction_groups.h) */
  CONTRACTION_REDUCED = 2, /* outputs are of rows that are reduced (contraction_rows.h) */
  /* Outputs are written at gathered places: Y[idx[m],n] = …, or, where Y is written in place, += and the
     like. */
  CONTRACTION_SCATTERED = 4,
  CONTRACTION_WHOLE_ROWS = 8 /* with CONTRACTION_REDUCED: outputs are of elements of such rows, too */
};

/* Whether the operator is a contraction. `merged`: by the merged form, which is right for tensors without
 * gaps alone, and in which a batch that only one operand has is part of its rows. TEMPLATE_OPERATOR with a
 * sentence in `detail` (may be NULL) where it is none, TEMPLATE_DTYPE where two elements of an output share a
 * byte. `status` (may be NULL) tells a lack of memory from that. Memory is the arena's; `p` must outlive it.
 * Sizes play no part: any may be 0. */
template_reason contraction_match(const ir_problem *p, bool merged, arena *a, contraction *c, strbuf *detail,
                                  arke_status *status);
/* The same for a template that takes more: `allowed` is a set of CONTRACTION_GROUPED…. */
template_reason contraction_match_more(const ir_problem *p, bool merged, unsigned allowed, arena *a,
                                       contraction *c, strbuf *detail, arke_status *status);

/* Elements of the loops together; 1 where there is none. */
int64_t contraction_extent(const contraction *c, const contraction_loops *loops);
const recipe_expr *contraction_extent_recipe(const contraction *c, const contraction_loops *loops, arena *a);
/* "batch b; m m; n n; k k; A X[m,k]; …", for tests and messages. */
void contraction_print(const contraction *c, strbuf *out);

#endif
