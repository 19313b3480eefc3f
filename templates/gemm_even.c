/* EVEN: the columns of Y are cut into tiles of unlike widths, BLOCK_N and a little less, so that tiles fill
 * whole rounds over the CTAs and each CTA has about as many columns as any other; no sums are exchanged as
 * with STREAM_K. Let the widest tiles fill `rounds` rounds, the last one in part. Then R row blocks may have
 * rounds * CTAs tiles at the same number of rounds, that is c in each and one more in some; in a row block
 * widths differ by one step. So Y falls into four rectangles of equal tiles:
 *
 *      first rows, c tiles each       wide | narrow
 *      last rows, c + 1 tiles each    wide | narrow
 *
 * (Row blocks of several matrices are one after the other.) They are walked from the widest to the narrowest
 * tiles: the CTAs that get a wide one of a round are then those that get a wide one in the next, up to where
 * a rectangle ends, and end at most that many steps after the others. One thread finds the rectangles when
 * the CTA starts and leaves them in shared memory, since they are too many values for the registers of
 * consumers. */
#include "generator/gen_memory.h"
#include "templates/gemm_emit.h"

/* The table: the first place after each rectangle, then rectangles, in i32. */
enum { RECTANGLES = 4, FIELDS = 8, ENTRY_BYTES = FIELDS * 4, ENDS_BYTES = RECTANGLES * 4 };
enum { TABLE_BYTES = ENDS_BYTES + RECTANGLES * ENTRY_BYTES };
/* What an entry holds: its first place; row blocks; the first column; tiles in a row block, and columns of
 * each. */
enum { BEGIN, ROW, ROWS, COLUMN, TILES, WIDTH };

typedef struct rectangle {
  gen_value row, rows, column, tiles, width;
} rectangle;

static gen_value umax(gen_builder *b, gen_value x, gen_value y) {
  return gen_select(b, gen_compare(b, GEN_ULT, x, y), y, x);
}

static gen_value ceildiv(gen_builder *b, gen_value x, gen_value y) {
  return gen_udiv(b, gen_add_imm(b, gen_add(b, x, y), -1), y);
}

static gen_value columns_of(gen_builder *b, gen_value steps) {
  return gen_mul_imm(b, steps, GEMM_EVEN_STEP);
}

/* The rectangles of row blocks from `row` on that have `tiles` tiles each. Returns the narrow one's width in
 * steps. */
static gen_value cut_rows(gemm_emitter *e, gen_value row, gen_value rows, gen_value tiles, rectangle *wide,
                          rectangle *narrow) {
  gen_builder *b = e->b;
  gen_value steps = gen_ceildiv_imm(b, e->n, GEMM_EVEN_STEP);
  int least = gemm_narrowest(e->plan) / GEMM_EVEN_STEP;
  gen_value each = umax(b, gen_udiv(b, steps, tiles), gen_i32(b, least));
  gen_value dealt = gen_mul(b, each, tiles);
  gen_value left =
      gen_select(b, gen_compare(b, GEN_ULT, dealt, steps), gen_sub(b, steps, dealt), gen_i32(b, 0));
  gen_value width = columns_of(b, gen_add_imm(b, each, 1));
  *wide = (rectangle){.row = row, .rows = rows, .column = gen_i32(b, 0), .tiles = left, .width = width};
  *narrow = (rectangle){.row = row,
                        .rows = rows,
                        .column = gen_mul(b, left, width),
                        .tiles = gen_sub(b, tiles, left),
                        .width = columns_of(b, each)};
  return each;
}

static rectangle select_rectangle(gen_builder *b, gen_value condition, const rectangle *x,
                                  const rectangle *y) {
  return (rectangle){.row = gen_select(b, condition, x->row, y->row),
                     .rows = gen_select(b, condition, x->rows, y->rows),
                     .column = gen_select(b, condition, x->column, y->column),
                     .tiles = gen_select(b, condition, x->tiles, y->tiles),
                     .width = gen_select(b, condition, x->width, y->width)};
}

/* In the order of the walk: widths never grow. */
static void find_rectangles(gemm_emitter *e, rectangle list[RECTANGLES]) {
  gen_builder *b = e->b;
  const gemm_plan *plan = e->plan;
  gen_value rows = e->batches ? gen_mul(b, e->units_m, e->batches) : e->units_m, ctas = e->unit_step;
  gen_value rounds = ceildiv(b, gen_mul(b, rows, gen_ceildiv_imm(b, e->n, plan->block_n)), ctas);
  gen_value tiles = gen_mul(b, rounds, ctas);
  gen_value most = gen_ceildiv_imm(b, e->n, gemm_narrowest(plan)); /* more would be empty */
  gen_value possible = gen_udiv(b, tiles, rows);
  gen_value each = gen_umin(b, possible, most);
  gen_value more = gen_select(b, gen_compare(b, GEN_ULT, possible, most),
                              gen_sub(b, tiles, gen_mul(b, possible, rows)), gen_i32(b, 0));
  gen_value first = gen_sub(b, rows, more);
  rectangle wide, narrow, last_wide, last_narrow;
  gen_value steps = cut_rows(e, gen_i32(b, 0), first, each, &wide, &narrow);
  gen_value last_steps = cut_rows(e, first, more, gen_add_imm(b, each, 1), &last_wide, &last_narrow);
  gen_value sorted = gen_compare(b, GEN_ULT, last_steps, steps);
  list[0] = wide;
  list[1] = select_rectangle(b, sorted, &narrow, &last_wide);
  list[2] = select_rectangle(b, sorted, &last_wide, &narrow);
  list[3] = last_narrow;
}

void gemm_even_declare(gemm_emitter *e) {
  e->even = gen_shared_static(e->b, "rectangles", TABLE_BYTES, 16);
}

void gemm_even_fill(gemm_emitter *e) {
  gen_builder *b = e->b;
  rectangle list[RECTANGLES];
  gen_value ends[RECTANGLES], begin = gen_i32(b, 0);
  find_rectangles(e, list);
  for (int i = 0; i < RECTANGLES; i++) {
    const rectangle *r = &list[i];
    gen_value fields[FIELDS] = {[BEGIN] = begin,      [ROW] = r->row,     [ROWS] = r->rows,
                                [COLUMN] = r->column, [TILES] = r->tiles, [WIDTH] = r->width};
    for (int f = WIDTH + 1; f < FIELDS; f++) fields[f] = gen_i32(b, 0);
    gen_value entry = gen_add_imm(b, e->even, ENDS_BYTES + i * ENTRY_BYTES);
    gen_store_shared(b, gen_vector(b, fields, 4), entry);
    gen_store_shared(b, gen_vector(b, fields + 4, 4), gen_add_imm(b, entry, 16));
    begin = gen_add(b, begin, gen_mul(b, r->rows, r->tiles));
    ends[i] = begin;
  }
  gen_store_shared(b, gen_vector(b, ends, RECTANGLES), e->even);
}

gen_value gemm_even_units(gemm_emitter *e) {
  return gen_load_shared(e->b, GEN_I32, 1, gen_add_imm(e->b, e->even, (RECTANGLES - 1) * 4));
}

/* Address of the entry of the rectangle that place `unit` is in. */
static gen_value entry_of(gemm_emitter *e, gen_value unit) {
  gen_builder *b = e->b;
  gen_value ends = gen_load_shared(b, GEN_I32, RECTANGLES, e->even), index = gen_i32(b, 0);
  for (int i = 0; i < RECTANGLES - 1; i++) {
    gen_value after = gen_compare(b, GEN_UGE, unit, gen_lane(b, ends, i));
    index = gen_add(b, index, gen_zext(b, after, GEN_I32));
  }
  return gen_add_imm(b, gen_add(b, e->even, gen_mul_imm(b, index, ENTRY_BYTES)), ENDS_BYTES);
}

gen_value gemm_even_width_alone(gemm_emitter *e, gen_value unit) {
  return gen_load_shared(e->b, GEN_I32, 1, gen_add_imm(e->b, entry_of(e, unit), WIDTH * 4));
}

gen_value gemm_even_width(gemm_emitter *e, gen_value unit) {
  return gen_warp_uniform(e->b, gemm_even_width_alone(e, unit));
}

gemm_tile gemm_even_tile(gemm_emitter *e, gen_value unit) {
  gen_builder *b = e->b;
  gen_value entry = entry_of(e, unit), fields[FIELDS];
  for (int half = 0; half < 2; half++) {
    gen_value loaded = gen_load_shared(b, GEN_I32, 4, gen_add_imm(b, entry, half * 16));
    for (int i = 0; i < 4; i++) fields[half * 4 + i] = gen_lane(b, loaded, i);
  }
  gen_value row, column;
  gemm_walk_grid(e, gen_sub(b, unit, fields[BEGIN]), fields[ROWS], fields[TILES], &row, &column);
  gen_value block = gen_add(b, fields[ROW], row), batch = NULL;
  if (e->batches) { /* row blocks of one matrix after those of another */
    batch = gen_udiv(b, block, e->units_m);
    block = gen_sub(b, block, gen_mul(b, batch, e->units_m));
  }
  return (gemm_tile){
      .row = gen_mul_imm(b, block, e->plan->block_m),
      .column = gen_add(b, fields[COLUMN], gen_mul(b, column, fields[WIDTH])),
      .batch = batch,
  };
}
