#include <string.h>

#include "emulator/emu_machine.h"

enum { ROW_BYTES = 16, MATRIX_ROWS = 8 };

/* ldmatrix and stmatrix m8n8 (PTX ISA 9.7.14.5.15, .16): lane 8j + r gives the address of row r of matrix j;
 * register j of lane l holds elements 2(l%4) and +1 of row l/4, or with .trans rows 2(l%4) and +1 of column
 * l/4. */
static bool matrix_rows(emu_warp *w, const ptx_instruction *i, const ptx_operand *address, bool write,
                        uint8_t *rows[4][MATRIX_ROWS]) {
  bool transposed = (i->flags & PTX_FLAG_TRANS) != 0;
  uint64_t scratch[PTX_LANES];
  const uint64_t *a = alu_operand(address, &w->alu, scratch);
  ptx_space space = i->n_spaces > 0 ? i->space[0] : PTX_SPACE_GENERIC;
  for (int j = 0; j < i->count; j++) {
    for (int r = 0; r < MATRIX_ROWS; r++) {
      int lane = MATRIX_ROWS * j + r;
      emu_place p;
      if (!emu_resolve(w, lane, space, a[lane], ROW_BYTES, ROW_BYTES, &p)) return false;
      if (p.space != PTX_SPACE_SHARED || p.cta != w->cta)
        return emu_fail(w, EMU_FAULT_OUT_OF_BOUNDS, lane, "address 0x%llx is not in this CTA's shared memory",
                        (unsigned long long)a[lane]);
      /* Which lanes' registers land in this row: the ones that must fence it. */
      emu_actor actor = emu_warp_actor(w, transposed ? PTX_FULL_MASK : 0xFu << 4 * r, false);
      if (!(write ? emu_smem_write(w, lane, &p, ROW_BYTES, &actor)
                  : emu_smem_read(w, lane, &p, ROW_BYTES, &actor)))
        return false;
      rows[j][r] = p.bytes;
    }
  }
  return true;
}

static bool move_matrices(emu_warp *w, const ptx_instruction *i, bool store) {
  uint8_t *rows[4][MATRIX_ROWS];
  const ptx_operand *registers = &i->operands[store ? 1 : 0];
  if (i->shape != PTX_SHAPE_M8N8 || i->count > 4 || i->count == 0)
    return emu_fail(w, EMU_FAULT_UNKNOWN_INSTRUCTION, -1, "this shape is not modelled");
  if (!matrix_rows(w, i, &i->operands[store ? 0 : 1], store, rows)) return false;
  bool transposed = (i->flags & PTX_FLAG_TRANS) != 0;
  for (uint32_t j = 0; j < i->count; j++) {
    const ptx_operand *o = registers->kind == PTX_OPERAND_VECTOR ? &registers->elements[j] : registers;
    uint64_t value[PTX_LANES], scratch[PTX_LANES];
    const uint64_t *in = store ? alu_operand(o, &w->alu, scratch) : NULL;
    for (int l = 0; l < PTX_LANES; l++) {
      uint8_t *low = transposed ? rows[j][2 * (l % 4)] + l / 4 * 2 : rows[j][l / 4] + l % 4 * 4;
      uint8_t *high = transposed ? rows[j][2 * (l % 4) + 1] + l / 4 * 2 : low + 2;
      if (store) {
        uint16_t halves[2] = {(uint16_t)in[l], (uint16_t)(in[l] >> 16)};
        memcpy(low, &halves[0], 2);
        memcpy(high, &halves[1], 2);
      } else {
        uint16_t halves[2];
        memcpy(&halves[0], low, 2);
        memcpy(&halves[1], high, 2);
        value[l] = halves[0] | (uint32_t)halves[1] << 16;
      }
    }
    if (!store) alu_write(o, &w->alu.registers, value, PTX_FULL_MASK);
  }
  return true;
}

/* movmatrix: transposes an 8x8 matrix of 16-bit elements between the lanes. */
static bool transpose(emu_warp *w, const ptx_instruction *i) {
  uint64_t scratch[PTX_LANES], out[PTX_LANES];
  const uint64_t *in = alu_operand(&i->operands[1], &w->alu, scratch);
  uint16_t m[MATRIX_ROWS][MATRIX_ROWS];
  for (int l = 0; l < PTX_LANES; l++) {
    m[l / 4][2 * (l % 4)] = (uint16_t)in[l];
    m[l / 4][2 * (l % 4) + 1] = (uint16_t)(in[l] >> 16);
  }
  for (int l = 0; l < PTX_LANES; l++)
    out[l] = m[2 * (l % 4)][l / 4] | (uint32_t)m[2 * (l % 4) + 1][l / 4] << 16;
  alu_write(&i->operands[0], &w->alu.registers, out, PTX_FULL_MASK);
  return true;
}

bool emu_matrix_execute(emu_warp *w, const ptx_instruction *i, uint32_t active) {
  switch (i->opcode) {
  case PTX_LDMATRIX:
  case PTX_STMATRIX:
  case PTX_MOVMATRIX:
  case PTX_MMA:
    if (!emu_require_converged(w, i, active, true)) return false;
    if (i->opcode == PTX_MOVMATRIX) return transpose(w, i);
    return i->opcode == PTX_MMA ? emu_mma_sync_execute(w, i) : move_matrices(w, i, i->opcode == PTX_STMATRIX);
  default: return emu_wgmma_execute(w, i, active);
  }
}
