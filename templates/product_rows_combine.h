/* The kernel that combines what tiles of a product have of its rows (product_rows.h), a warp for every row,
 * and evaluates the outputs. A template's kernel before it leaves the parts in the workspace: by matrix, row
 * and column of tiles. */
#ifndef ARKE_TEMPLATES_PRODUCT_ROWS_COMBINE_H
#define ARKE_TEMPLATES_PRODUCT_ROWS_COMBINE_H

#include "templates/product_rows.h"

/* How a template's tiles number rows: `matrices` and `rows` are loops of the form, of which each tile has one
 * value and many; `block` columns are a tile's. */
typedef struct product_rows_layout {
  const contraction *c;
  contraction_loops matrices, rows;
  int block;
  lanes_options options; /* of the outputs' evaluator: loop -1, width 1 */
} product_rows_layout;

/* `layout` must outlive the launch. The parts are at the workspace's beginning. */
arke_status product_rows_make_combine(const product_rows_layout *layout, const char *name, arena *a,
                                      kernel_launch *l, arke_error *err);
const recipe_expr *product_rows_bytes(const product_rows_layout *layout, arena *a);
/* Columns of tiles, as an i32 parameter's value. */
const recipe_expr *product_rows_tiles(const product_rows_layout *layout, arena *a);
/* i64 address of a part: `parts` is the workspace's; `matrix` (NULL: there is one), `row` and `rows` (of a
 * matrix) are i32 or i64, `tile` and `tiles` i32. */
gen_value product_rows_address(gen_builder *b, const contraction *c, gen_value parts, gen_value matrix,
                               gen_value rows, gen_value row, gen_value tiles, gen_value tile);

#endif
