/* Tiles of rows in shared memory, for attention and its gradients: how tensor copies bring them and products
 * of warp groups read them. */
#ifndef ARKE_TEMPLATES_ATTENTION_TILE_H
#define ARKE_TEMPLATES_ATTENTION_TILE_H

#include "generator/gen_wgmma.h"
#include "ir/ir_form.h"
#include "recipe/recipe.h"

enum { ATTENTION_PANEL_BYTES = 128 }; /* of a row in a panel */

/* Panels of 128 bytes of each row along the contiguous axis, one after the other, in a swizzle of as many. */
typedef struct attention_tile {
  int rows, columns; /* columns as the product takes them: a multiple of 32 bytes (K, Q) or 8 elements (V) */
  int element_bytes;
  int panels, panel_bytes, bytes;
} attention_tile;

attention_tile attention_tile_make(int rows, int columns); /* of 16 bits */
attention_tile attention_tile_make_of(int rows, int columns, int element_bytes);
int attention_panel_columns(const attention_tile *tile);
/* Steps of 32 bytes that a product takes along rows. */
int attention_tile_steps(const attention_tile *tile);
/* Of the tile at `shared`; leading_bytes: 16 where the product runs along rows, else a panel. */
gen_value attention_tile_descriptor(gen_builder *b, gen_value shared, int leading_bytes);
/* The operand whose k runs along rows. */
gen_wgmma_operand attention_tile_rows(const attention_tile *tile);
/* What copies want of the access's tensor: addresses and strides at multiples of 16 bytes. */
void attention_tile_require(recipe *rules, const ir_form *form, int access, arena *a);

#endif
