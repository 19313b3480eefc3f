/* The product of a wgmma: rows of its operands, from shared memory or registers, into its accumulators. */
#include <string.h>

#include "emulator/emu_wgmma.h"

/* A's fragment in registers (PTX ISA 9.7.15.5, figure of register fragments for A): register i of lane l
 * holds 4 bytes of row l/4 + 8(i&1), from byte 4(l%4) + 16(i>>1) on. */
static void fetch_registers(const emu_warp *w, const ptx_operand *a, uint8_t *raw) {
  for (uint32_t i = 0; i < 4; i++) {
    const uint64_t *v = w->alu.registers.value[a->elements[i].slot];
    for (uint32_t l = 0; l < PTX_LANES; l++) {
      uint32_t row = l / 4 + 8 * (i & 1), byte = 4 * (l % 4) + 16 * (i >> 1), bits = (uint32_t)v[l];
      memcpy(raw + row * EMU_WGMMA_K_BYTES + byte, &bits, 4);
    }
  }
}

/* Row r (0..15) of a warp's accumulators: element col lies in lane 4(r%8) + col%8/2; 32-bit ones in register
 * 4(col/8) + 2(r/8) + col%2, f16 ones in a half of register 2(col/8) + r/8. */
static void row_from_registers(const emu_warp *w, const emu_wgmma_shape *s, uint32_t r, uint32_t *row) {
  for (uint32_t n = 0; n < s->n; n++) {
    uint32_t l = r % 8 * 4 + n % 8 / 2, high = r / 8;
    row[n] = (uint32_t)w->alu.registers.value[s->d->elements[n / 8 * 4 + high * 2 + (n & 1)].slot][l];
  }
}

static void row_to_registers(emu_warp *w, const emu_wgmma_shape *s, uint32_t r, const uint32_t *row) {
  for (uint32_t n = 0; n < s->n; n++) {
    uint32_t l = r % 8 * 4 + n % 8 / 2, high = r / 8;
    w->alu.registers.value[s->d->elements[n / 8 * 4 + high * 2 + (n & 1)].slot][l] = row[n];
  }
}

static uint64_t *half_pair(const emu_warp *w, const emu_wgmma_shape *s, uint32_t r, uint32_t n) {
  return &w->alu.registers.value[s->d->elements[n / 8 * 2 + r / 8].slot][r % 8 * 4 + n % 8 / 2];
}

static void compute_row_f16(emu_warp *w, const emu_wgmma_shape *s, uint32_t r, const mma_operand *a,
                            const mma_operand *b, bool accumulate) {
  uint16_t row[MMA_MAX_ROWS];
  for (uint32_t n = 0; n < s->n; n++) row[n] = (uint16_t)(*half_pair(w, s, r, n) >> 16 * (n & 1));
  mma_row_f16(a, (int)r, b, accumulate, row);
  for (uint32_t n = 0; n < s->n; n += 2) *half_pair(w, s, r, n) = row[n] | (uint64_t)row[n + 1] << 16;
}

void emu_wgmma_compute(emu_warpgroup *g, const emu_wgmma *e, mma_operand *a, mma_operand *b) {
  emu_wgmma_shape s = emu_wgmma_shape_of(e->instruction);
  emu_cta *cta = g->cta;
  emu_warp *warps = &cta->warps[g->index * EMU_WARPGROUP_WARPS];
  uint8_t b_raw[MMA_MAX_ROWS * EMU_WGMMA_K_BYTES], a_raw[EMU_WGMMA_WARP_ROWS * EMU_WGMMA_K_BYTES];
  emu_wgmma_fetch(cta, e->b_descriptor, warps, s.b_k_major, 0, s.n, b_raw);
  if (!s.integer) mma_decode(b, s.b_type, b_raw, (int)s.n, s.negate_b);
  bool saturate = (e->instruction->flags & PTX_FLAG_SATFINITE) != 0;
  for (uint32_t j = 0; j < EMU_WARPGROUP_WARPS; j++) {
    if (s.a_in_registers)
      fetch_registers(&warps[j], s.a, a_raw);
    else
      emu_wgmma_fetch(cta, e->a_descriptor, warps, s.a_k_major, EMU_WGMMA_WARP_ROWS * j, EMU_WGMMA_WARP_ROWS,
                      a_raw);
    if (!s.integer) mma_decode(a, s.a_type, a_raw, EMU_WGMMA_WARP_ROWS, s.negate_a);
    for (uint32_t r = 0; r < EMU_WGMMA_WARP_ROWS; r++) {
      uint32_t row[MMA_MAX_ROWS];
      if (s.f16_result) {
        compute_row_f16(&warps[j], &s, r, a, b, e->accumulate);
        continue;
      }
      if (e->accumulate) row_from_registers(&warps[j], &s, r, row);
      if (s.integer) {
        int32_t sums[MMA_MAX_ROWS];
        memcpy(sums, row, sizeof sums);
        mma_row_s32(a_raw + r * EMU_WGMMA_K_BYTES, s.a_signed, b_raw, s.b_signed, (int)s.n, EMU_WGMMA_K_BYTES,
                    e->accumulate, saturate, sums);
        memcpy(row, sums, sizeof sums);
      } else {
        float sums[MMA_MAX_ROWS];
        memcpy(sums, row, sizeof sums);
        mma_row_f32(a, (int)r, b, e->accumulate, sums);
        memcpy(row, sums, sizeof sums);
      }
      row_to_registers(&warps[j], &s, r, row);
    }
  }
}
