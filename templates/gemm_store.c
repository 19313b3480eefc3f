/* Storing tiles: 16-bit elements → shared memory (stmatrix) → the output (TMA), panel by panel. Panels
 * alternate between buffers, so that writing one overlaps the copies of those before, and the last copies of
 * a tile overlap the products of the next. */
#include "generator/gen_barrier.h"
#include "generator/gen_memory.h"
#include "generator/gen_tma.h"
#include "templates/gemm_emit.h"

/* Copies committed since the one that read the buffer which panel `panel` is about to fill. */
static int copies_since(const gemm_plan *plan, int panel) {
  int buffers = plan->store_buffers;
  if (panel >= buffers) return buffers - 1;
  int last = panel; /* last panel of the tile before in that buffer */
  while (last + buffers < plan->panels) last += buffers;
  return plan->panels - 1 - last + panel;
}

/* Row lane % 16 of the warp's 16, the block's left or right 8 columns, with the chunk swizzled as copies
 * do. */
static gen_value lane_offset(gemm_emitter *e, gen_value thread, int block) {
  gen_builder *b = e->b;
  int pitch = e->plan->panel_n * 2;
  gen_value lane = gen_and(b, thread, gen_i32(b, 31)), warp = gen_lshr(b, thread, gen_i32(b, 5));
  gen_value row = gen_add(b, gen_mul_imm(b, warp, 16), gen_and(b, lane, gen_i32(b, 15)));
  gen_value phase = pitch == (int)GEN_SWIZZLE_128
                        ? gen_and(b, row, gen_i32(b, 7))
                        : gen_and(b, gen_lshr(b, row, gen_i32(b, 1)), gen_i32(b, 3));
  gen_value chunk = gen_xor(b, gen_add_imm(b, gen_lshr(b, lane, gen_i32(b, 4)), 2 * block), phase);
  return gen_add(b, gen_mul_imm(b, row, pitch), gen_mul_imm(b, chunk, 16));
}

/* The same where a row in the buffer is a column of the tile: lanes 16 to 31 name the block's right 8
 * columns, and of each 16 lanes the upper 8 the lower half of the warp's rows. */
static gen_value transposed_lane_offset(gemm_emitter *e, gen_value thread, int block) {
  gen_builder *b = e->b;
  int pitch = GEN_SWIZZLE_128;
  gen_value lane = gen_and(b, thread, gen_i32(b, 31)), warp = gen_lshr(b, thread, gen_i32(b, 5));
  gen_value phase = gen_and(b, lane, gen_i32(b, 7));
  gen_value column = gen_add(b, gen_mul_imm(b, gen_lshr(b, lane, gen_i32(b, 4)), 8), phase);
  gen_value lower = gen_and(b, gen_lshr(b, lane, gen_i32(b, 3)), gen_i32(b, 1));
  gen_value chunk = gen_xor(b, gen_add(b, gen_mul_imm(b, warp, 2), lower), phase);
  gen_value first = gen_add(b, gen_mul_imm(b, column, pitch), gen_mul_imm(b, chunk, 16));
  return gen_add_imm(b, first, block * 16 * pitch);
}

gen_value gemm_lane_offset(gemm_emitter *e, gen_value thread, bool transposed, int block) {
  return transposed ? transposed_lane_offset(e, thread, block) : lane_offset(e, thread, block);
}

void gemm_store_init(gemm_emitter *e, gemm_store *s, gen_value group, gen_value thread) {
  gen_builder *b = e->b;
  const gemm_plan *plan = e->plan;
  s->thread = thread;
  s->leader = gen_compare_imm(b, GEN_EQ, thread, 0);
  s->barrier = gen_add_imm(b, group, 1);
  s->row = plan->pingpong ? gen_i32(b, 0) : gen_mul_imm(b, group, plan->group_rows);
  gen_value own = gen_mul_imm(b, group, plan->store_buffers * plan->store_buffer_bytes);
  int first = plan->store_over_stages ? 0 : plan->stages * plan->stage_bytes;
  s->buffers = gen_add(b, gen_add_imm(b, e->smem, first), own);
  for (int block = 0; block < plan->panel_n / 16; block++)
    s->lane_offsets[block] = gemm_lane_offset(e, thread, plan->match.y_transposed, block);
}

/* Writes a panel of the group's rows into a buffer: 16 x 16 elements an instruction, each warp its own rows.
 */
static void write_panel(gemm_emitter *e, const gemm_store *s, gen_value buffer, int columns, int panel,
                        const gen_value *packed) {
  gen_builder *b = e->b;
  const gemm_plan *plan = e->plan;
  int per_tile = columns / 4, column = gemm_panel_column(plan, columns, panel);
  for (int tile = 0; tile < plan->group_rows / 64; tile++) {
    for (int block = 0; block < plan->panel_n / 16; block++) {
      const gen_value *fragments = packed + tile * per_tile + (column + block * 16) / 4;
      gen_value address = gen_add(b, buffer, s->lane_offsets[block]);
      address = gen_add_imm(b, address, tile * 64 * plan->panel_n * 2);
      if (plan->match.y_transposed) {
        gen_stmatrix_x4_transposed(b, address, fragments);
      } else {
        gen_stmatrix_x4(b, address, fragments);
      }
    }
  }
}

/* What the map's box holds of a panel, as far as it is inside Y. */
static void copy_rows(gemm_emitter *e, gen_value buffer, gemm_tile tile) {
  gen_builder *b = e->b;
  const gemm_view *y = &e->plan->match.y;
  gen_value inside =
      gen_and(b, gen_compare(b, GEN_ULT, tile.row, e->m), gen_compare(b, GEN_ULT, tile.column, e->n));
  gen_value at[GEMM_MAP_RANK];
  gen_branch branch;
  gen_if(b, &branch, inside, NULL, 0);
  gemm_coordinates(e, y, tile, at);
  gen_tma_store(b, e->map_y, at, y->rank, buffer);
  gen_if_end(b, &branch);
}

/* By one thread; every panel commits a group, also one beyond the edge, so that groups can be counted. */
static void copy_panel(gemm_emitter *e, gen_value buffer, gemm_tile tile) {
  gen_builder *b = e->b;
  const gemm_plan *plan = e->plan;
  int rows = plan->match.y_transposed ? plan->store_width : plan->store_height; /* of a copy */
  gen_value row = tile.row;
  for (int first = 0; first < plan->group_rows; first += rows) {
    tile.row = gen_add_imm(b, row, first);
    copy_rows(e, gen_add_imm(b, buffer, first * plan->panel_n * 2), tile);
  }
  gen_tma_store_commit(b);
}

void gemm_store_begin(gemm_emitter *e, const gemm_store *s) {
  const gemm_plan *plan = e->plan;
  if (!plan->store_over_stages) return;
  /* Products of the other group may still read the stages that this group is about to overwrite. */
  gen_value all = plan->consumers > 1 ? gen_i32(e->b, plan->consumers + 1) : s->barrier;
  gen_named_sync(e->b, all, 128 * plan->consumers);
}

/* Waits until copies have left the buffer that `panel` is about to fill; whole buffers need no waiting. */
static void wait_for_buffer(gemm_emitter *e, const gemm_store *s, int panel) {
  gen_builder *b = e->b;
  if (e->plan->store_over_stages) return;
  gen_branch branch;
  gen_if(b, &branch, s->leader, NULL, 0);
  gen_tma_store_wait_read(b, copies_since(e->plan, panel));
  gen_if_end(b, &branch);
  gen_named_sync(b, s->barrier, 128);
}

static void copy_by_leader(gemm_emitter *e, const gemm_store *s, gen_value buffer, gemm_tile tile) {
  gen_branch branch;
  gen_if(e->b, &branch, s->leader, NULL, 0);
  copy_panel(e, buffer, tile);
  gen_if_end(e->b, &branch);
}

void gemm_store_panel(gemm_emitter *e, const gemm_store *s, gemm_tile tile, int columns, int panel,
                      const gen_value *packed) {
  gen_builder *b = e->b;
  const gemm_plan *plan = e->plan;
  gen_value buffer = gen_add_imm(b, s->buffers, panel % plan->store_buffers * plan->store_buffer_bytes);
  gen_branch branch, leader;
  wait_for_buffer(e, s, panel);
  write_panel(e, s, buffer, columns, panel, packed);
  gen_fence_async_shared(b);
  gen_named_sync(b, s->barrier, 128);
  tile.column = gen_add_imm(b, tile.column, gemm_panel_column(plan, columns, panel));
  tile.row = gen_add(b, tile.row, s->row);
  if (tile.end) {
    gen_value whole = gemm_groups_are_whole(e, tile.row, tile.end);
    gen_if(b, &branch, whole, NULL, 0);
    copy_by_leader(e, s, buffer, tile);
    gen_else(b, &branch);
    gemm_groups_store(e, s->thread, buffer, tile);
    gen_if(b, &leader, s->leader, NULL, 0);
    gen_tma_store_commit(b); /* of nothing, so that groups can be counted */
    gen_if_end(b, &leader);
    gen_if_end(b, &branch);
    return;
  }
  copy_by_leader(e, s, buffer, tile);
}

void gemm_store_drain(gemm_emitter *e, const gemm_store *s) {
  gen_branch branch;
  gen_if(e->b, &branch, s->leader, NULL, 0);
  gen_tma_store_wait_read(e->b, 0);
  gen_if_end(e->b, &branch);
}
