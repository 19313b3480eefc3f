/* Tiles of rows in shared memory, for attention and its gradients: how tensor copies bring them and products
 * of warp groups read them. */
#ifndef ARKE_TEMPLATES_ATTENTION_TILE_H
#define ARKE_TEMPLATES_ATTENTION_TILE_H

#include "generator/gen_wgmma.h"
#include "ir/ir_form.h"
#include "recipe/recipe.h"

/* Panels of 64 elements along the contiguous axis, one after the other, in a swizzle of 128 bytes. */
typedef struct attention_tile {
  int rows, columns; /* columns as the product takes them: a multiple of 16 (K, Q) or 8 (V) */
  int panels, panel_bytes, bytes;
} attention_tile;

attention_tile attention_tile_make(int rows, int columns);
/* Of the tile at `shared`; leading_bytes: 16 where the product runs along rows, else a panel. */
gen_value attention_tile_descriptor(gen_builder *b, gen_value shared, int leading_bytes);
/* The operand whose k runs along rows. */
gen_wgmma_operand attention_tile_rows(const attention_tile *tile);
/* What copies want of the access's tensor: addresses and strides at multiples of 16 bytes, of 16-bit
 * elements. */
void attention_tile_require(recipe *rules, const ir_form *form, int access, arena *a);

#endif
