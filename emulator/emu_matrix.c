#include <string.h>

#include "base/dtype.h"
#include "emulator/emu_machine.h"
#include "emulator/emu_mma.h"

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

static uint32_t fragment(const emu_warp *w, const ptx_operand *o, uint32_t i, int lane) {
  return (uint32_t)w->alu.registers.value[o->elements[i].slot][lane];
}

/* mma.sync m16n8 with 16 or 32 bytes of K (PTX ISA 9.7.14.5): the fragments of A and B hold 4 bytes a
 * register. */
static bool mma(emu_warp *w, const ptx_instruction *i) {
  mma_type a_type, b_type;
  bool integer = i->type[0] == PTX_TYPE_S32;
  switch (i->type[1]) {
  case PTX_TYPE_F16: a_type = MMA_F16; break;
  case PTX_TYPE_BF16: a_type = MMA_BF16; break;
  case PTX_TYPE_TF32: a_type = MMA_TF32; break;
  case PTX_TYPE_E4M3: a_type = MMA_E4M3; break;
  case PTX_TYPE_E5M2: a_type = MMA_E5M2; break;
  case PTX_TYPE_S8:
  case PTX_TYPE_U8: a_type = MMA_E4M3; break; /* same size; the integer path reads the bytes */
  default: return emu_fail(w, EMU_FAULT_UNKNOWN_INSTRUCTION, -1, "mma of this type is not modelled");
  }
  b_type = i->type[2] == PTX_TYPE_E5M2 ? MMA_E5M2 : i->type[2] == PTX_TYPE_E4M3 ? MMA_E4M3 : a_type;
  int k_bytes = i->k * mma_type_bits(a_type) / 8;
  if (i->m != 16 || i->n != 8 || (k_bytes != 16 && k_bytes != 32))
    return emu_fail(w, EMU_FAULT_UNKNOWN_INSTRUCTION, -1, "mma of this shape is not modelled");
  const ptx_operand *d = &i->operands[0], *a = &i->operands[1], *b = &i->operands[2], *c = &i->operands[3];
  uint8_t a_raw[16 * 32] = {0}, b_raw[8 * 32] = {0}; /* the second half of K stays zero in the short shapes */
  for (int l = 0; l < PTX_LANES; l++) {
    for (uint32_t r = 0; r < a->n; r++) {
      uint32_t bits = fragment(w, a, r, l), row = (uint32_t)l / 4 + 8 * (r & 1);
      memcpy(a_raw + row * 32 + 4 * (l % 4) + 16 * (r >> 1), &bits, 4);
    }
    for (uint32_t r = 0; r < b->n; r++) {
      uint32_t bits = fragment(w, b, r, l);
      memcpy(b_raw + l / 4 * 32 + 4 * (l % 4) + 16 * (int)r, &bits, 4);
    }
  }
  mma_operand am, bm;
  if (!integer) {
    mma_decode(&am, a_type, a_raw, 16, false);
    mma_decode(&bm, b_type, b_raw, 8, false);
  }
  bool f16_in = i->type[3] == PTX_TYPE_F16, f16_out = i->type[0] == PTX_TYPE_F16;
  uint32_t result[16][8];
  for (uint32_t r = 0; r < 16; r++) {
    float sums[8];
    int32_t totals[8];
    for (uint32_t n = 0; n < 8; n++) {
      int l = (int)(r % 8 * 4 + n / 2);
      uint32_t bits = f16_in ? fragment(w, c, r / 8, l) : fragment(w, c, r / 8 * 2 + (n & 1), l);
      if (f16_in) {
        uint16_t half = (uint16_t)(bits >> 16 * (n & 1));
        sums[n] = (float)dtype_load(DTYPE_F16, &half, 0);
      } else {
        memcpy(&sums[n], &bits, 4);
      }
      totals[n] = (int32_t)bits;
    }
    if (integer)
      mma_row_s32(a_raw + r * 32, i->type[1] == PTX_TYPE_S8, b_raw, i->type[2] == PTX_TYPE_S8, 8, 32, true,
                  (i->flags & PTX_FLAG_SATFINITE) != 0, totals);
    else
      mma_row_f32(&am, (int)r, &bm, true, sums);
    memcpy(result[r], integer ? (const void *)totals : (const void *)sums, sizeof result[r]);
  }
  for (uint32_t j = 0; j < d->n; j++) {
    uint64_t out[PTX_LANES];
    for (uint32_t l = 0; l < PTX_LANES; l++) {
      uint32_t n = 2 * (l % 4);
      if (!f16_out) {
        out[l] = result[l / 4 + 8 * (j >> 1)][n + (j & 1)];
        continue;
      }
      uint16_t halves[2];
      for (uint32_t e = 0; e < 2; e++) {
        float f;
        memcpy(&f, &result[l / 4 + 8 * j][n + e], 4);
        dtype_store(DTYPE_F16, &halves[e], 0, f);
      }
      out[l] = halves[0] | (uint32_t)halves[1] << 16;
    }
    alu_write(&d->elements[j], &w->alu.registers, out, PTX_FULL_MASK);
  }
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
    return i->opcode == PTX_MMA ? mma(w, i) : move_matrices(w, i, i->opcode == PTX_STMATRIX);
  default: return emu_wgmma_execute(w, i, active);
  }
}
