/* Inside wgmma: its operands, which are read when it is issued, and its product, which is computed when it is
 * waited for. Only emu_wgmma*.c include this. */
#ifndef ARKE_EMULATOR_EMU_WGMMA_H
#define ARKE_EMULATOR_EMU_WGMMA_H

#include "emulator/emu_machine.h"
#include "emulator/emu_mma.h"

enum {
  EMU_WGMMA_WARP_ROWS = 16, /* of A and D, a warp */
  EMU_WGMMA_K_BYTES = 32    /* of a row of either operand */
};

/* What one wgmma is, from its operands. */
typedef struct emu_wgmma_shape {
  const ptx_operand *d, *a, *b, *scale_d;
  uint32_t n, k, n_d;
  bool a_in_registers, a_k_major, b_k_major, integer, f16_result, negate_a, negate_b;
  bool a_signed, b_signed;
  mma_type a_type, b_type;
} emu_wgmma_shape;
emu_wgmma_shape emu_wgmma_shape_of(const ptx_instruction *i);

/* Records the matrix unit's read of rows [first, first + rows) of the operand that the descriptor `bits` is
 * of, by a warp that knows `known`; false: the descriptor or the read breaks a rule, which has been told. */
bool emu_wgmma_read_operand(emu_warp *w, const emu_wgmma *e, const emu_view *known, uint64_t bits,
                            bool k_major, uint32_t first, uint32_t rows, const char *which);
/* Such rows from shared memory, row after row, EMU_WGMMA_K_BYTES each, once they have been read. */
void emu_wgmma_fetch(const emu_cta *cta, uint64_t bits, const emu_warp *w, bool k_major, uint32_t first,
                     uint32_t rows, uint8_t *raw);

/* Adds the product to the accumulators of the group's four warps; a and b are scratch. */
void emu_wgmma_compute(emu_warpgroup *g, const emu_wgmma *e, mma_operand *a, mma_operand *b);

#endif
