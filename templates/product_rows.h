/* Reductions along the rows of a product (contraction_rows.h) in a kernel: what a tile's columns come to in
 * each row, and how what the tiles have is combined. For any template whose tiles end in runs of columns:
 * evaluators (lanes.h) along the column loop, whose `reduce` gives the sums of the run. */
#ifndef ARKE_TEMPLATES_PRODUCT_ROWS_H
#define ARKE_TEMPLATES_PRODUCT_ROWS_H

#include "templates/contraction.h"
#include "templates/lanes.h"
#include "templates/reduction.h"

/* Of one row, so far. */
typedef struct product_row {
  gen_value values[CONTRACTION_ROW_REDUCTIONS][REDUCTION_VALUES];
} product_row;

/* `width` columns of a row. */
typedef struct product_run {
  lanes *l;
  gen_value column; /* i32: the first one */
  gen_value active; /* i1: the operator has them all; else none of them */
} product_run;

/* Asks of every call that one tile of `columns` has whole rows, which have some columns: where there are none
 * there is no tile to write what rows alone come to. */
void product_row_require_whole(const contraction *c, int columns, recipe *rules, arena *a);
/* What no column comes to. */
product_row product_row_start(gen_builder *b, const contraction *c);
/* Takes in the runs that a lane has of a row which `sharers` neighbouring lanes of a warp (a power of two)
 * share; all of them get the same result. Executed by whole warps. */
arke_status product_row_reduce(gen_builder *b, const contraction *c, const product_run *runs, int n,
                               int width, int sharers, product_row *row, arke_error *err);
/* Two parts of a row become one. Cannot fail but for want of memory, which the builder reports. */
void product_row_combine(gen_builder *b, const contraction *c, product_row *into, const product_row *from);
/* Over `sharers` neighbouring lanes, which have different parts. */
void product_row_combine_lanes(gen_builder *b, const contraction *c, product_row *row, int sharers);
/* As a flat list, which loops can carry: its values, at most PRODUCT_ROW_VALUES. Returns how many. */
enum { PRODUCT_ROW_VALUES = CONTRACTION_ROW_REDUCTIONS * REDUCTION_VALUES };
int product_row_pack(gen_builder *b, const contraction *c, const product_row *row, gen_value *values);
product_row product_row_unpack(gen_builder *b, const contraction *c, const gen_value *values);
/* The value of a reduction's node, of what its type computes in; false: it is none. */
bool product_row_value(const contraction *c, const product_row *row, gen_builder *b, const ir_expr *e,
                       gen_value *value);

/* A row's part in memory, aligned to 8 bytes. */
int product_row_bytes(const contraction *c);
void product_row_store(gen_builder *b, const contraction *c, const product_row *row, gen_value address,
                       bool shared);
product_row product_row_load(gen_builder *b, const contraction *c, gen_value address, bool shared);

#endif
