#include "templates/attention_tile.h"

#include "templates/kernel_lower.h"

attention_tile attention_tile_make(int rows, int columns) {
  int panels = (columns + 63) / 64, panel_bytes = rows * 128;
  return (attention_tile){.rows = rows,
                          .columns = columns,
                          .panels = panels,
                          .panel_bytes = panel_bytes,
                          .bytes = panels * panel_bytes};
}

gen_value attention_tile_descriptor(gen_builder *b, gen_value shared, int leading_bytes) {
  return gen_wgmma_descriptor(b, shared, gen_wgmma_descriptor_bits(GEN_SWIZZLE_128, leading_bytes, 1024));
}

gen_wgmma_operand attention_tile_rows(const attention_tile *tile) {
  gen_wgmma_operand o = {0};
  for (int i = 0; i < tile->columns / 16; i++) o.step_offset[i] = i / 4 * tile->panel_bytes + i % 4 * 32;
  return o;
}

void attention_tile_require(recipe *rules, const ir_form *form, int access, arena *a) {
  const ir_access *x = &form->accesses[access];
  const char *name = form->problem->op->tensors[x->tensor].name;
  rules->tensors[x->tensor].alignment = 16;
  rules->tensors[x->tensor].contiguous_last = true;
  for (int s = 0; s + 1 < x->n; s++)
    kernel_require(rules, a, kernel_stride(form, x, s, false, a), 8, 0,
                   arena_printf(a, "rows of %s must start at multiples of 16 bytes", name));
}
