/* Products of a step by warps, out of shared memory. A row there is an odd number of chunks of 16 bytes. */
#include "templates/backward_warps.h"

static gen_value bit_of(gen_builder *b, gen_value x, int bit) {
  return gen_and(b, gen_lshr(b, x, gen_i32(b, bit)), gen_i32(b, 1));
}

/* The address that a lane gives for the four matrices at the first row and chunk of a tile: 8 rows further
 * where bit `row_bit` of the matrix' number (0 … 3) is set, and the next chunk where `chunk_bit` is. */
static gen_value lane_address(warps_emitter *e, const attend_tile *t, gen_value tile, int row_bit,
                              int chunk_bit) {
  gen_builder *b = e->b;
  gen_value row =
      gen_add(b, gen_and(b, e->lane, gen_i32(b, 7)), gen_mul_imm(b, bit_of(b, e->lane, 3 + row_bit), 8));
  gen_value chunk = gen_mul_imm(b, bit_of(b, e->lane, 3 + chunk_bit), 16);
  return gen_add(b, tile, gen_add(b, gen_mul_imm(b, row, t->pitch_bytes), chunk));
}

static gen_mma_type product_type(const warps_emitter *e) {
  return e->m->type == DTYPE_BF16 ? GEN_MMA_BF16 : GEN_MMA_F16;
}

static gen_value columns_of(warps_emitter *e, int which, gen_value stage) {
  return gen_add_imm(e->b, stage, e->p->columns[which].offset_bytes);
}

void warps_multiply_scores(warps_emitter *e, int which, gen_value stage, gen_value *s) {
  gen_builder *b = e->b;
  const warps_pass *p = e->p;
  const attend_tile *rows = &p->rows[which], *columns = &p->columns[which];
  gen_value own = gen_add(b, e->smem_rows, gen_mul_imm(b, e->warp_row, rows->pitch_bytes));
  own = lane_address(e, rows, gen_add_imm(b, own, rows->offset_bytes), 0, 1);
  gen_value other = lane_address(e, columns, columns_of(e, which, stage), 1, 0);
  for (int i = 0; i < p->block_columns / 2; i++) s[i] = gen_f32(b, 0);
  for (int k = 0; k < columns->padded / 16; k++) {
    gen_value x[4], y[4];
    gen_ldmatrix_x4(b, false, gen_add_imm(b, own, 32 * (int64_t)k), x);
    for (int n = 0; n < p->block_columns / 16; n++) {
      gen_ldmatrix_x4(b, false, gen_add_imm(b, other, 16 * (int64_t)n * columns->pitch_bytes + 32 * k), y);
      for (int half = 0; half < 2; half++)
        gen_mma(b, product_type(e), product_type(e), x, &y[2 * half], &s[4 * (2 * n + half)]);
    }
  }
}

void warps_multiply_sums(warps_emitter *e, int which, const gen_value *words, gen_value stage,
                         gen_value *sums) {
  gen_builder *b = e->b;
  const attend_tile *t = &e->p->columns[which];
  gen_value from = lane_address(e, t, columns_of(e, which, stage), 0, 1);
  for (int k = 0; k < e->p->block_columns / 16; k++)
    for (int n = 0; n < t->padded / 16; n++) {
      gen_value y[4];
      gen_ldmatrix_x4(b, true, gen_add_imm(b, from, 16 * (int64_t)k * t->pitch_bytes + 32 * n), y);
      for (int half = 0; half < 2; half++)
        gen_mma(b, product_type(e), product_type(e), &words[4 * k], &y[2 * half], &sums[4 * (2 * n + half)]);
    }
}
