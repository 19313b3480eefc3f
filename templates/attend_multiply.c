/* Products of a step by warps, out of shared memory. A row there is an odd number of chunks of 16 bytes. */
#include "templates/attend.h"

static gen_value bits_of(gen_builder *b, gen_value x, int shift, int mask) {
  return gen_and(b, shift ? gen_lshr(b, x, gen_i32(b, shift)) : x, gen_i32(b, mask));
}

/* The address that a lane gives for the four matrices at the first row and chunk of a tile: 8 rows further
 * where bit `row_bit` of the matrix' number (0 … 3) is set, where a tile has them, and the next chunk where
 * `chunk_bit` is. */
static gen_value lane_address(attend_emitter *e, const attend_tile *t, gen_value tile, int row_bit,
                              int chunk_bit) {
  gen_builder *b = e->b;
  gen_value in = bits_of(b, e->lane, 0, 7), row = bits_of(b, e->lane, 3 + row_bit, 1),
            chunk = bits_of(b, e->lane, 3 + chunk_bit, 1);
  row = t->rows > 8 ? gen_add(b, in, gen_mul_imm(b, row, 8)) : in;
  return gen_add(b, tile, gen_add(b, gen_mul_imm(b, row, t->pitch_bytes), gen_mul_imm(b, chunk, 16)));
}

static gen_mma_type product_type(const attend_emitter *e) {
  return e->m->type == DTYPE_BF16 ? GEN_MMA_BF16 : GEN_MMA_F16;
}

/* --- queries --- */

/* A tile of 8 rows is there twice in a product, whose second half is not looked at. */

static gen_value query_address(attend_emitter *e, int part) {
  const attend_tile *t = &e->p->tiles[ATTEND_Q + part];
  gen_value first = gen_add(e->b, e->smem_q, gen_mul_imm(e->b, e->warp_row, t->pitch_bytes));
  return lane_address(e, t, gen_add_imm(e->b, first, t->offset_bytes), 0, 1);
}

/* Words of fragment f at step k of a part's depth. */
static void load_query(attend_emitter *e, int part, gen_value address, int f, int k, gen_value words[4]) {
  const attend_tile *t = &e->p->tiles[ATTEND_Q + part];
  gen_ldmatrix_x4(e->b, false, gen_add_imm(e->b, address, 16 * (int64_t)f * t->pitch_bytes + 32 * k), words);
}

void attend_hold_queries(attend_emitter *e, gen_value *words) {
  for (int part = 0; part < e->m->n_parts; part++) {
    gen_value address = query_address(e, part);
    for (int k = 0; k < e->p->tiles[ATTEND_K + part].padded / 16; k++)
      for (int f = 0; f < e->p->fragments; f++, words += 4) load_query(e, part, address, f, k, words);
  }
}

/* --- scores --- */

static void multiply_part(attend_emitter *e, int part, const gen_value *held, gen_value stage, gen_value *s) {
  gen_builder *b = e->b;
  const attend_plan *p = e->p;
  const attend_tile *t = &p->tiles[ATTEND_K + part];
  int own = p->warp_keys / 2;
  gen_value keys = lane_address(e, t, attend_tile_address(e, ATTEND_K + part, stage), 1, 0);
  if (p->warp_keys < p->block_n) keys = gen_add(b, keys, gen_mul_imm(b, e->warp_key, t->pitch_bytes));
  gen_value queries = held ? NULL : query_address(e, part);
  for (int k = 0; k < t->padded / 16; k++) {
    gen_value q[ATTEND_MOST_FRAGMENTS][4];
    for (int f = 0; f < p->fragments; f++) {
      if (!held) load_query(e, part, queries, f, k, q[f]);
      for (int i = 0; held && i < 4; i++) q[f][i] = held[(k * p->fragments + f) * 4 + i];
    }
    for (int n = 0; n < p->warp_keys / 16; n++) {
      gen_value words[4];
      gen_ldmatrix_x4(b, false, gen_add_imm(b, keys, 16 * (int64_t)n * t->pitch_bytes + 32 * k), words);
      for (int f = 0; f < p->fragments; f++)
        for (int half = 0; half < 2; half++)
          gen_mma(b, product_type(e), product_type(e), q[f], &words[2 * half],
                  &s[f * own + 4 * (2 * n + half)]);
    }
  }
}

void attend_multiply_keys(attend_emitter *e, const gen_value *held, gen_value stage, gen_value *s) {
  const attend_plan *p = e->p;
  for (int i = 0; i < p->fragments * p->warp_keys / 2; i++) s[i] = gen_f32(e->b, 0);
  for (int part = 0; part < e->m->n_parts; part++) {
    multiply_part(e, part, held, stage, s);
    if (held) held += p->fragments * p->tiles[ATTEND_K + part].padded / 4;
  }
}

/* --- sums --- */

void attend_multiply_values(attend_emitter *e, const gen_value *s, gen_value stage, gen_value *sums) {
  gen_builder *b = e->b;
  const attend_plan *p = e->p;
  const attend_tile *t = &p->tiles[p->v_tile];
  int own = p->block_n / 2, of_sums = p->warp_columns / 2;
  gen_value values = lane_address(e, t, attend_tile_address(e, p->v_tile, stage), 0, 1);
  values = gen_add(b, values, gen_mul_imm(b, e->warp_column, 2));
  for (int k = 0; k < p->block_n / 16; k++) {
    gen_value weights[ATTEND_MOST_FRAGMENTS][4];
    for (int f = 0; f < p->fragments; f++)
      for (int i = 0; i < 4; i++) {
        const gen_value *pair = &s[f * own + 8 * k + 2 * i];
        bool is_row = i % 2 < p->thread_rows;
        weights[f][i] = is_row ? gen_pack_halves(b, e->m->type, pair[0], pair[1]) : gen_i32(b, 0);
      }
    for (int n = 0; n < p->warp_columns / 16; n++) {
      gen_value words[4];
      gen_ldmatrix_x4(b, true, gen_add_imm(b, values, 16 * (int64_t)k * t->pitch_bytes + 32 * n), words);
      for (int f = 0; f < p->fragments; f++)
        for (int half = 0; half < 2; half++)
          gen_mma(b, product_type(e), product_type(e), weights[f], &words[2 * half],
                  &sums[f * of_sums + 4 * (2 * n + half)]);
    }
  }
}
