/* Products of a stage: fragments from shared memory, then mma.sync, or threads' fused multiply-adds. */
#include "generator/gen_bits.h"
#include "generator/gen_math.h"
#include "generator/gen_memory.h"
#include "templates/mma.h"

enum {
  MOST_FRAGMENTS = 16, /* of 16 rows, or 16 columns, of a warp's tile */
  MOST_PLACES = 64     /* rows or columns of a thread */
};

/* --- addresses --- */

gen_value mma_row_phase(gen_builder *b, const mma_tile *t, gen_value row) {
  int chunks = t->row_bytes / 16;
  if (chunks >= 8) return gen_and(b, row, gen_i32(b, 7));
  /* Rows that share 128 bytes of banks have the same. */
  return gen_and(b, gen_lshr(b, row, gen_i32(b, __builtin_ctz((unsigned)(8 / chunks)))),
                 gen_i32(b, chunks - 1));
}

gen_value mma_chunk_offset(gen_builder *b, const mma_tile *t, gen_value row, gen_value chunk) {
  gen_value at = gen_xor(b, chunk, mma_row_phase(b, t, row));
  return gen_add(b, gen_mul_imm(b, row, t->row_bytes), gen_mul_imm(b, at, 16));
}

/* The address of chunk lane_chunk + chunk of row lane_row + row, where the constants are multiples of 8 rows
 * and have no bit of the lane's chunk. */
typedef struct lane_place {
  gen_value row_bytes, chunk_bytes; /* the lane's, the latter with the row's phase */
} lane_place;

static lane_place place_lane(gen_builder *b, const mma_tile *t, gen_value row, gen_value chunk) {
  gen_value phase = gen_xor(b, chunk, mma_row_phase(b, t, row));
  return (lane_place){gen_mul_imm(b, row, t->row_bytes), gen_mul_imm(b, phase, 16)};
}

static gen_value address_of(gen_builder *b, const mma_tile *t, gen_value tile, lane_place l, int row,
                            int chunk) {
  gen_value at = gen_add(b, tile, gen_add(b, l.row_bytes, gen_xor(b, l.chunk_bytes, gen_i32(b, chunk * 16))));
  return gen_add_imm(b, at, (int64_t)row * t->row_bytes);
}

static gen_value bits_of(gen_builder *b, gen_value x, int shift, int mask) {
  return gen_and(b, shift ? gen_lshr(b, x, gen_i32(b, shift)) : x, gen_i32(b, mask));
}

/* --- mma.sync --- */

/* Lane l gives the address of a row of matrix l / 8: of A those are rows 0 and 8 at k's first half, then at
 * its second; of B both halves of k at columns 0, then at columns 8. A warp's tile begins at a multiple of
 * its size, a power of two, so that its chunks have no bit of the constants. */
static lane_place fragment_place(mma_emitter *e, const mma_tile *t) {
  gen_builder *b = e->b;
  bool a = t->operand->side == CONTRACTION_A;
  gen_value first = a ? e->warp_m : e->warp_n;
  gen_value in = bits_of(b, e->lane, 0, 7), low = bits_of(b, e->lane, 3, 1), high = bits_of(b, e->lane, 4, 1);
  gen_value across = a ? low : high, along = a ? high : low; /* of m or n; of k */
  if (t->k_major)
    return place_lane(b, t, gen_add(b, first, gen_add(b, in, gen_mul_imm(b, across, 8))), along);
  gen_value chunk = gen_add(b, gen_lshr(b, first, gen_i32(b, 3)), across);
  return place_lane(b, t, gen_add(b, in, gen_mul_imm(b, along, 8)), chunk);
}

typedef struct fragments {
  gen_value words[MMA_PARTS][MOST_FRAGMENTS][4];
} fragments;

static void load_fragments(mma_emitter *e, const mma_tile *t, gen_value stage, lane_place l, int step,
                           int part, fragments *f) {
  gen_builder *b = e->b;
  int extent = t->operand->side == CONTRACTION_A ? e->p->warp_m : e->p->warp_n;
  gen_value tile = gen_add_imm(b, stage, t->offset_bytes + part * t->tile_bytes);
  for (int i = 0; i < extent / 16; i++) {
    gen_value at = t->k_major ? address_of(b, t, tile, l, 16 * i, 2 * step)
                              : address_of(b, t, tile, l, 16 * step, 2 * i);
    gen_ldmatrix_x4(b, !t->k_major, at, f->words[part][i]);
  }
}

static void multiply_fragments(mma_emitter *e, const contraction_sum *s, const fragments *f, int a_part,
                               int b_part, gen_value *acc) {
  const mma_tile *x = &e->p->tiles[s->a], *y = &e->p->tiles[s->b];
  int columns = e->p->warp_n / GEN_MMA_N;
  for (int i = 0; i < e->p->warp_m / GEN_MMA_M; i++) {
    for (int j = 0; j < columns; j++)
      gen_mma(e->b, x->type, y->type, f[s->a].words[a_part][i], &f[s->b].words[b_part][j / 2][j % 2 * 2],
              &acc[(i * columns + j) * 4]);
  }
}

/* All products of parts but those of two late ones, which are below 2^-23 of the value. */
static void multiply_parts(mma_emitter *e, const contraction_sum *s, const fragments *f, gen_value *acc) {
  for (int i = 0; i < e->p->tiles[s->a].parts; i++)
    for (int j = 0; j < e->p->tiles[s->b].parts; j++)
      if (i + j < MMA_PARTS) multiply_fragments(e, s, f, i, j, acc);
}

static void multiply_by_warps(mma_emitter *e, gen_value stage) {
  const mma_plan *p = e->p;
  fragments f[CONTRACTION_OPERANDS];
  lane_place places[CONTRACTION_OPERANDS];
  for (int i = 0; i < e->c->n_operands; i++) places[i] = fragment_place(e, &p->tiles[i]);
  for (int step = 0; step < p->block_k / p->product.k; step++) {
    for (int i = 0; i < e->c->n_operands; i++)
      for (int part = 0; part < p->tiles[i].parts; part++)
        load_fragments(e, &p->tiles[i], stage, places[i], step, part, &f[i]);
    for (int s = 0; s < e->c->n_sums; s++)
      multiply_parts(e, &e->c->sums[s], f, &e->sums[s * p->accumulators]);
  }
}

/* --- one by one --- */

/* A warp has 8 x 4 places for A's rows and B's columns. Where a tile is K-major a place has single rows, 8
 * (4) apart, and loads a chunk of k of each; else chunks of rows, and loads them for one k after the other.
 */
typedef struct operand_values {
  gen_value x[MOST_PLACES][4]; /* by row or column of the place, then k */
} operand_values;

static int places_of(const mma_tile *t) {
  return t->operand->side == CONTRACTION_A ? 8 : 4;
}

static int phase_of(const mma_tile *t, int row) {
  int chunks = t->row_bytes / 16;
  return chunks >= 8 ? row & 7 : row / (8 / chunks) & (chunks - 1);
}

static gen_value place_number(mma_emitter *e, const mma_tile *t) {
  return t->operand->side == CONTRACTION_A ? bits_of(e->b, e->lane, 2, 7) : bits_of(e->b, e->lane, 0, 3);
}

static void load_rows(mma_emitter *e, const mma_tile *t, gen_value tile, int chunk, operand_values *v) {
  gen_builder *b = e->b;
  gen_type type = e->p->product.sum;
  bool a = t->operand->side == CONTRACTION_A;
  int places = places_of(t), in_chunk = 16 / t->bytes, n = (a ? e->p->warp_m : e->p->warp_n) / places;
  gen_value first = gen_add(b, a ? e->warp_m : e->warp_n, place_number(e, t));
  lane_place both[2]; /* 4 columns further the phase is another one */
  for (int i = 0; i < (a ? 1 : 2); i++)
    both[i] = place_lane(b, t, gen_add_imm(b, first, 4 * i), gen_i32(b, 0));
  for (int i = 0; i < n; i++) {
    int odd = a ? 0 : i & 1, row = i * places - 4 * odd;
    gen_value all = gen_load_shared(b, type, in_chunk, address_of(b, t, tile, both[odd], row, chunk));
    for (int k = 0; k < in_chunk; k++) v->x[i][k] = gen_lane(b, all, k);
  }
}

static void load_columns(mma_emitter *e, const mma_tile *t, gen_value tile, int chunk, operand_values *v) {
  gen_builder *b = e->b;
  gen_type type = e->p->product.sum;
  bool a = t->operand->side == CONTRACTION_A;
  int places = places_of(t), in_chunk = 16 / t->bytes;
  int n = (a ? e->p->warp_m : e->p->warp_n) / (places * in_chunk);
  gen_value first = gen_lshr(b, a ? e->warp_m : e->warp_n, gen_i32(b, __builtin_ctz((unsigned)in_chunk)));
  lane_place l = place_lane(b, t, gen_i32(b, 0), gen_add(b, first, place_number(e, t)));
  for (int k = 0; k < in_chunk; k++) {
    int row = chunk * in_chunk + k;
    for (int i = 0; i < n; i++) {
      gen_value at = address_of(b, t, tile, l, row, (i * places) ^ phase_of(t, row));
      gen_value all = gen_load_shared(b, type, in_chunk, at);
      for (int j = 0; j < in_chunk; j++) v->x[i * in_chunk + j][k] = gen_lane(b, all, j);
    }
  }
}

static gen_value add_product(gen_builder *b, gen_value x, gen_value y, gen_value sum) {
  return gen_is_float(b, x) ? gen_fma(b, x, y, sum) : gen_add(b, gen_mul(b, x, y), sum);
}

static void multiply_by_threads(mma_emitter *e, gen_value stage) {
  const mma_plan *p = e->p;
  int in_chunk = 16 / p->tiles[0].bytes, rows = p->warp_m / 8, columns = p->warp_n / 4;
  operand_values v[CONTRACTION_OPERANDS];
  for (int chunk = 0; chunk < p->block_k / in_chunk; chunk++) {
    for (int i = 0; i < e->c->n_operands; i++) {
      const mma_tile *t = &p->tiles[i];
      gen_value tile = gen_add_imm(e->b, stage, t->offset_bytes);
      if (t->k_major) {
        load_rows(e, t, tile, chunk, &v[i]);
      } else {
        load_columns(e, t, tile, chunk, &v[i]);
      }
    }
    for (int s = 0; s < e->c->n_sums; s++) {
      const operand_values *x = &v[e->c->sums[s].a], *y = &v[e->c->sums[s].b];
      for (int k = 0; k < in_chunk; k++) {
        for (int i = 0; i < rows * columns; i++) {
          gen_value *sum = &e->sums[s * p->accumulators + i];
          *sum = add_product(e->b, x->x[i / columns][k], y->x[i % columns][k], *sum);
        }
      }
    }
  }
}

void mma_multiply(mma_emitter *e, gen_value stage) {
  if (e->p->product.fma) {
    multiply_by_threads(e, stage);
  } else {
    multiply_by_warps(e, stage);
  }
}

/* --- where accumulators are --- */

static const mma_tile *side_of(const mma_plan *p, contraction_side side) {
  for (int i = 0; i < p->c->n_operands; i++)
    if (p->c->operands[i].side == side) return &p->tiles[i];
  return NULL;
}

/* Rows or columns that lie together in a place of a side. */
static int together(const mma_plan *p, contraction_side side) {
  const mma_tile *t = side_of(p, side);
  return t->k_major ? 1 : 16 / t->bytes;
}

void mma_place(const mma_plan *p, int i, int *row, int *column) {
  if (!p->product.fma) {
    int columns = p->warp_n / GEN_MMA_N, tile = i / 4;
    *row = tile / columns * GEN_MMA_M + i % 4 / 2 * 8;
    *column = tile % columns * GEN_MMA_N + i % 2;
    return;
  }
  int columns = p->warp_n / 4, x = i / columns, y = i % columns;
  int rows_together = together(p, CONTRACTION_A), columns_together = together(p, CONTRACTION_B);
  *row = x / rows_together * rows_together * 8 + x % rows_together;
  *column = y / columns_together * columns_together * 4 + y % columns_together;
}

int mma_neighbours(const mma_plan *p) {
  return p->product.fma ? together(p, CONTRACTION_B) : 2;
}

gen_value mma_lane_row(mma_emitter *e) {
  gen_value g = bits_of(e->b, e->lane, 2, 7);
  return e->p->product.fma ? gen_mul_imm(e->b, g, together(e->p, CONTRACTION_A)) : g;
}

gen_value mma_lane_column(mma_emitter *e) {
  gen_value t = bits_of(e->b, e->lane, 0, 3);
  return gen_mul_imm(e->b, t, mma_neighbours(e->p));
}
