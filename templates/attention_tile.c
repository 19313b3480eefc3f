#include "templates/attention_tile.h"

#include "templates/kernel_lower.h"

enum { STEP_BYTES = 32, CHUNK_BYTES = 16 };

attention_tile attention_tile_make_of(int rows, int columns, int element_bytes) {
  int panels = (columns * element_bytes + ATTENTION_PANEL_BYTES - 1) / ATTENTION_PANEL_BYTES,
      panel_bytes = rows * ATTENTION_PANEL_BYTES;
  return (attention_tile){.rows = rows,
                          .columns = columns,
                          .element_bytes = element_bytes,
                          .panels = panels,
                          .panel_bytes = panel_bytes,
                          .bytes = panels * panel_bytes};
}

attention_tile attention_tile_make(int rows, int columns) {
  return attention_tile_make_of(rows, columns, 2);
}

int attention_panel_columns(const attention_tile *tile) {
  return ATTENTION_PANEL_BYTES / tile->element_bytes;
}

int attention_tile_steps(const attention_tile *tile) {
  return tile->columns * tile->element_bytes / STEP_BYTES;
}

gen_value attention_tile_descriptor(gen_builder *b, gen_value shared, int leading_bytes) {
  return gen_wgmma_descriptor(b, shared, gen_wgmma_descriptor_bits(GEN_SWIZZLE_128, leading_bytes, 1024));
}

gen_wgmma_operand attention_tile_rows(const attention_tile *tile) {
  gen_wgmma_operand o = {0};
  for (int i = 0; i < attention_tile_steps(tile); i++)
    o.step_offset[i] = i / 4 * tile->panel_bytes + i % 4 * STEP_BYTES;
  return o;
}

void attention_tile_require(recipe *rules, const ir_form *form, int access, arena *a) {
  const ir_access *x = &form->accesses[access];
  const char *name = form->problem->op->tensors[x->tensor].name;
  int bytes = dtype_bits(ir_tensor_dtype(form->problem, x->tensor)) / 8;
  rules->tensors[x->tensor].alignment = 16;
  rules->tensors[x->tensor].contiguous_last = true;
  for (int s = 0; s + 1 < x->n; s++)
    kernel_require(rules, a, kernel_stride(form, x, s, false, a), CHUNK_BYTES / bytes, 0,
                   arena_printf(a, "rows of %s must start at multiples of 16 bytes", name));
}
