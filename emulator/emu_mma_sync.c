#include <string.h>

#include "base/dtype.h"
#include "emulator/emu_machine.h"
#include "emulator/emu_mma.h"

enum { ROWS = 16, COLUMNS = 8, ROW_BYTES = 32 };

/* m16n8 with 16 or 32 bytes of K (PTX ISA 9.7.14.5): a register of A or B holds 4 bytes of one row. */
typedef struct operands {
  uint8_t a[ROWS][ROW_BYTES], b[COLUMNS][ROW_BYTES]; /* the second half stays zero in the short shapes */
} operands;

static uint32_t fragment(const emu_warp *w, const ptx_operand *o, uint32_t i, uint32_t lane) {
  return (uint32_t)w->alu.registers.value[o->elements[i].slot][lane];
}

static void gather(const emu_warp *w, const ptx_instruction *i, operands *o) {
  const ptx_operand *a = &i->operands[1], *b = &i->operands[2];
  memset(o, 0, sizeof *o);
  for (uint32_t l = 0; l < PTX_LANES; l++) {
    for (uint32_t r = 0; r < a->n; r++) {
      uint32_t bits = fragment(w, a, r, l);
      memcpy(&o->a[l / 4 + 8 * (r & 1)][4 * (l % 4) + 16 * (r >> 1)], &bits, 4);
    }
    for (uint32_t r = 0; r < b->n; r++) {
      uint32_t bits = fragment(w, b, r, l);
      memcpy(&o->b[l / 4][4 * (l % 4) + 16 * r], &bits, 4);
    }
  }
}

static bool float_type(ptx_type t, mma_type *out) {
  switch (t) {
  case PTX_TYPE_F16: *out = MMA_F16; return true;
  case PTX_TYPE_BF16: *out = MMA_BF16; return true;
  case PTX_TYPE_TF32: *out = MMA_TF32; return true;
  case PTX_TYPE_E4M3: *out = MMA_E4M3; return true;
  case PTX_TYPE_E5M2: *out = MMA_E5M2; return true;
  default: return false;
  }
}

/* Hopper has no 8-bit mma.sync: ptxas widens to f16, which holds every 8-bit value, makes two f16
 * instructions that start from zero, one of each lane's lower pairs and one of its upper pairs, and adds C at
 * the end. */
static void widen(dtype t, const uint8_t *rows, int n, int part, uint16_t *out) {
  for (int r = 0; r < n; r++) {
    for (int k = 0; k < 16; k++) {
      int from = k / 2 * 4 + part * 2 + k % 2;
      dtype_store(DTYPE_F16, out, r * 16 + k, dtype_load(t, rows, r * ROW_BYTES + from));
    }
  }
}

typedef struct product {
  mma_operand a[2], b[2];
  int parts;
} product;

static bool decode(const ptx_instruction *i, const operands *o, product *p) {
  mma_type ta, tb;
  if (!float_type((ptx_type)i->type[1], &ta) || !float_type((ptx_type)i->type[2], &tb)) return false;
  p->parts = 1;
  if (mma_type_bits(ta) != 8) {
    mma_decode(&p->a[0], ta, o->a, ROWS, false);
    mma_decode(&p->b[0], tb, o->b, COLUMNS, false);
    return true;
  }
  p->parts = 2;
  for (int part = 0; part < 2; part++) {
    uint16_t a[ROWS * 16], b[COLUMNS * 16];
    widen(ta == MMA_E4M3 ? DTYPE_E4M3 : DTYPE_E5M2, &o->a[0][0], ROWS, part, a);
    widen(tb == MMA_E4M3 ? DTYPE_E4M3 : DTYPE_E5M2, &o->b[0][0], COLUMNS, part, b);
    mma_decode(&p->a[part], MMA_F16, a, ROWS, false);
    mma_decode(&p->b[part], MMA_F16, b, COLUMNS, false);
  }
  return true;
}

static float add_f32(float a, float b) {
  const uint32_t canonical_nan = 0x7FFFFFFF;
  float sum = a + b;
  if (sum != sum) memcpy(&sum, &canonical_nan, sizeof sum);
  return sum;
}

/* Accumulators: 32-bit ones of row r and column n in register 2(r/8) + n%2 of lane 4(r%8) + n/2, f16 ones in
 * a half of register r/8. */
static void compute_f32(emu_warp *w, const ptx_instruction *i, const product *p, const operands *o) {
  const ptx_operand *accumulators = &i->operands[3];
  uint64_t out[4][PTX_LANES];
  for (uint32_t r = 0; r < ROWS; r++) {
    uint32_t row[COLUMNS];
    for (uint32_t n = 0; n < COLUMNS; n++)
      row[n] = fragment(w, accumulators, r / 8 * 2 + (n & 1), r % 8 * 4 + n / 2);
    if (p != NULL) {
      float sums[COLUMNS], c[COLUMNS];
      memcpy(sums, row, sizeof sums);
      memcpy(c, row, sizeof c);
      bool split = p->parts > 1;
      for (int part = 0; part < p->parts; part++)
        mma_row_f32(&p->a[part], (int)r, &p->b[part], !split || part > 0, sums);
      for (uint32_t n = 0; split && n < COLUMNS; n++) sums[n] = add_f32(sums[n], c[n]);
      memcpy(row, sums, sizeof sums);
    } else {
      int32_t sums[COLUMNS];
      memcpy(sums, row, sizeof sums);
      mma_row_s32(o->a[r], i->type[1] == PTX_TYPE_S8, &o->b[0][0], i->type[2] == PTX_TYPE_S8, COLUMNS,
                  ROW_BYTES, true, (i->flags & PTX_FLAG_SATFINITE) != 0, sums);
      memcpy(row, sums, sizeof sums);
    }
    for (uint32_t n = 0; n < COLUMNS; n++) out[r / 8 * 2 + (n & 1)][r % 8 * 4 + n / 2] = row[n];
  }
  for (uint32_t j = 0; j < 4; j++)
    alu_write(&i->operands[0].elements[j], &w->alu.registers, out[j], PTX_FULL_MASK);
}

static void compute_f16(emu_warp *w, const ptx_instruction *i, const product *p) {
  uint64_t out[2][PTX_LANES];
  for (uint32_t r = 0; r < ROWS; r++) {
    uint16_t row[COLUMNS];
    for (uint32_t n = 0; n < COLUMNS; n++)
      row[n] = (uint16_t)(fragment(w, &i->operands[3], r / 8, r % 8 * 4 + n / 2) >> 16 * (n & 1));
    for (int part = 0; part < p->parts; part++) mma_row_f16(&p->a[part], (int)r, &p->b[part], true, row);
    for (uint32_t n = 0; n < COLUMNS; n += 2)
      out[r / 8][r % 8 * 4 + n / 2] = row[n] | (uint64_t)row[n + 1] << 16;
  }
  for (uint32_t j = 0; j < 2; j++)
    alu_write(&i->operands[0].elements[j], &w->alu.registers, out[j], PTX_FULL_MASK);
}

static uint32_t element_bytes(ptx_type t) {
  return (uint32_t)ptx_type_bits(t) / 8;
}

bool emu_mma_sync_execute(emu_warp *w, const ptx_instruction *i) {
  operands o;
  product p;
  bool integer = i->type[0] == PTX_TYPE_S32, f16 = i->type[0] == PTX_TYPE_F16;
  uint32_t k_bytes = i->k * element_bytes((ptx_type)i->type[1]);
  bool known =
      i->m == ROWS && i->n == COLUMNS && (k_bytes == 16 || k_bytes == 32) && i->type[0] == i->type[3];
  if (!known) return emu_fail(w, EMU_FAULT_UNKNOWN_INSTRUCTION, -1, "this shape of mma is not modelled");
  gather(w, i, &o);
  if (!integer && !decode(i, &o, &p))
    return emu_fail(w, EMU_FAULT_UNKNOWN_INSTRUCTION, -1, "mma of these types is not modelled");
  if (f16)
    compute_f16(w, i, &p);
  else
    compute_f32(w, i, integer ? NULL : &p, &o);
  return true;
}
