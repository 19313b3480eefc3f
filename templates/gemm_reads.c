/* STAGED: what an epilogue reads by row and column (a residual, what a gate opens) comes as operands do, by
 * tensor copies of the producer, in stages of their own behind those of a tile's products. They are asked for
 * while the last products run, so that no thread waits for memory of its own reads: it takes them from shared
 * memory in the order of its accumulators, 16-bit elements by ldmatrix, the reverse of how tiles are stored.
 * A stage holds some panels of the epilogue, of all reads; in a panel a read has one part after the other for
 * the consumer groups of the tile, which copies bring in boxes one swizzle wide.
 *
 * Under ping-pong a tile is stored while the other group multiplies: stages that waited for that would be
 * missed there (2.4 us a tile on an H200). There is time enough to bring panels one by one, to a place or two
 * of the group's own when panels before have been read, the first ones long before the tile's products end.
 */
#include "generator/gen_barrier.h"
#include "generator/gen_bits.h"
#include "generator/gen_convert.h"
#include "generator/gen_memory.h"
#include "generator/gen_mma.h"
#include "generator/gen_tma.h"
#include "templates/gemm_emit.h"

enum { BLOCK = 8, SPAN = 128 }; /* columns of an instruction's accumulators; bytes of the widest swizzle */

static dtype type_of(const gemm_match *match, int read) {
  const ir_form *form = &match->c->form;
  return ir_tensor_dtype(form->problem, form->accesses[match->reads[read].access].tensor);
}

static int bytes_of(const gemm_match *match, int read) {
  return dtype_bits(type_of(match, read)) / 8;
}

/* --- where they lie --- */

/* Groups of consumers that have rows of one tile. */
static int groups_of(const gemm_plan *plan) {
  return plan->pingpong ? 1 : plan->consumers;
}

gemm_box gemm_read_box(const gemm_plan *plan, int read) {
  bool turned = plan->match.reads_transposed[read];
  int along = turned ? plan->group_rows : plan->panel_n, bytes = bytes_of(&plan->match, read);
  int width = SPAN / bytes < along ? SPAN / bytes : along;
  return (gemm_box){.width = width,
                    .height = turned ? plan->panel_n : plan->group_rows,
                    .count = along / width,
                    .swizzle = width * bytes == SPAN ? GEN_SWIZZLE_128 : GEN_SWIZZLE_64};
}

static int box_bytes(const gemm_plan *plan, int read) {
  gemm_box box = gemm_read_box(plan, read);
  return box.width * box.height * bytes_of(&plan->match, read);
}

/* Of a group's part of a panel. */
static int part_bytes(const gemm_plan *plan, int read) {
  return plan->group_rows * plan->panel_n * bytes_of(&plan->match, read);
}

/* From a panel's beginning to a read's parts; of all reads its bytes. */
static int offset_of(const gemm_plan *plan, int read) {
  int offset = 0;
  for (int i = 0; i < read; i++)
    if (plan->match.reads_staged[i]) offset += groups_of(plan) * part_bytes(plan, i);
  return offset;
}

bool gemm_place_reads(gemm_plan *plan) {
  plan->read_panel_bytes = offset_of(plan, plan->match.n_reads);
  plan->read_panels = plan->read_stages = 0;
  if (plan->read_panel_bytes == 0 || plan->pingpong) return true;
  plan->read_panels = plan->stage_bytes / plan->read_panel_bytes;
  if (plan->read_panels == 0) return false;
  plan->read_stages = (plan->panels + plan->read_panels - 1) / plan->read_panels;
  return true;
}

bool gemm_reads_apart(const gemm_plan *plan) {
  return plan->read_panel_bytes > 0 && plan->pingpong;
}

int gemm_read_place_bytes(const gemm_plan *plan) {
  return gemm_reads_apart(plan) ? plan->consumers * plan->read_places * plan->read_panel_bytes : 0;
}

uint64_t gemm_staged_accesses(const gemm_plan *plan) {
  uint64_t accesses = 0;
  for (int i = 0; i < plan->match.n_reads && plan->read_panel_bytes > 0; i++)
    if (plan->match.reads_staged[i]) accesses |= UINT64_C(1) << plan->match.reads[i].access;
  return accesses;
}

/* --- the producer --- */

/* A panel of a tile of so many columns (i32; NULL: block_n): into shared memory, or, without `full`, into the
 * L2 cache. */
static void bring_panel(gemm_emitter *e, gemm_tile tile, gen_value columns, int panel, gen_value shared,
                        gen_value full) {
  gen_builder *b = e->b;
  const gemm_plan *plan = e->plan;
  const gemm_match *match = &plan->match;
  gen_value column =
      columns ? gen_umin(b, gen_i32(b, panel * plan->panel_n), gen_add_imm(b, columns, -plan->panel_n))
              : gen_i32(b, gemm_panel_column(plan, plan->block_n, panel));
  for (int r = 0; r < match->n_reads; r++) {
    gemm_box box = gemm_read_box(plan, r);
    if (!match->reads_staged[r]) continue;
    for (int i = 0; i < groups_of(plan) * box.count; i++) {
      int group = i / box.count, along = i % box.count * box.width;
      bool turned = match->reads_transposed[r];
      gemm_tile at = tile;
      gen_value coordinates[GEMM_MAP_RANK];
      at.row = gen_add_imm(b, tile.row, group * plan->group_rows + (turned ? along : 0));
      at.column = gen_add_imm(b, gen_add(b, tile.column, column), turned ? 0 : along);
      gemm_coordinates(e, &match->reads[r], at, coordinates);
      gen_value map = gen_param(b, e->kernel->map_reads[r]);
      int offset = offset_of(plan, r) + i * box_bytes(plan, r);
      if (full)
        gen_tma_load(b, gen_add_imm(b, shared, offset), map, coordinates, match->reads[r].rank, full, 0);
      else
        gen_tma_prefetch(b, map, coordinates, match->reads[r].rank);
    }
  }
}

void gemm_reads_fetch(gemm_emitter *e, gemm_tile tile, gen_value columns) {
  const gemm_match *match = &e->plan->match;
  for (int panel = 0; panel < e->plan->panels && e->plan->read_panel_bytes > 0; panel++)
    bring_panel(e, tile, columns, panel, NULL, NULL);
  for (int i = 0; i < match->n_reads; i++) {
    gen_value at[GEMM_MAP_RANK];
    if (e->plan->read_panel_bytes > 0 && match->reads_staged[i]) continue;
    gemm_coordinates(e, &match->reads[i], tile, at);
    gen_tma_prefetch(e->b, gen_param(e->b, e->kernel->map_reads[i]), at, match->reads[i].rank);
  }
}

gen_stage gemm_reads_load(gemm_emitter *e, gemm_tile tile, gen_value columns, gen_stage at) {
  gen_builder *b = e->b;
  const gemm_plan *plan = e->plan;
  for (int first = 0; plan->read_stages > 0 && first < plan->panels; first += plan->read_panels) {
    int left = plan->panels - first, n = left < plan->read_panels ? left : plan->read_panels;
    gen_value full = gen_pipeline_acquire(b, &e->pipeline, at, n * plan->read_panel_bytes);
    gen_value stage = gen_add(b, e->smem, gen_mul_imm(b, at.index, plan->stage_bytes));
    for (int i = 0; i < n; i++)
      bring_panel(e, tile, columns, first + i, gen_add_imm(b, stage, i * plan->read_panel_bytes), full);
    at = gen_pipeline_advance(b, &e->pipeline, at);
  }
  return at;
}

/* --- ping-pong --- */

static gen_value place_at(gemm_emitter *e, gen_stage at) {
  gen_builder *b = e->b;
  gen_value own = gen_mul_imm(b, at.index, e->plan->read_panel_bytes);
  return gen_add_imm(b, gen_add(b, e->smem, own), e->plan->reads_offset);
}

/* Places are few and a power of two, so that a count of panels modulo two rounds says place and parity. */
static gen_stage stage_of_count(gemm_emitter *e, gen_value group, gen_value count) {
  gen_builder *b = e->b;
  int places = e->plan->read_places;
  gen_value place = gen_and(b, count, gen_i32(b, places - 1));
  return (gen_stage){gen_add(b, gen_mul_imm(b, group, places), place),
                     gen_lshr(b, count, gen_i32(b, places / 2))};
}

gen_value gemm_reads_behind(gemm_emitter *e, gen_value count, int panels) {
  gen_builder *b = e->b;
  return gen_and(b, gen_add_imm(b, count, panels), gen_i32(b, 2 * e->plan->read_places - 1));
}

/* Tiles are the groups' in turn; both groups have read as many panels when group 0 has its next tile. */
void gemm_emit_reads(gemm_emitter *e) {
  gen_builder *b = e->b;
  gen_value zero = gen_i32(b, 0), one = gen_i32(b, 1);
  gemm_walk walk = {.place = gemm_first_place(e), .step = e->unit_step, .n_extra = 2};
  walk.stage = gen_pipeline_producer_start(b); /* of the other ring, which it leaves alone */
  gen_value *group = walk.extra, *count = walk.extra + 1;
  *group = *count = zero;
  gemm_walk_begin(e, &walk);
  gen_value unit = gemm_item_at(e, walk.place).unit;
  gemm_tile tile = gemm_tiles_at(e, unit);
  gen_value columns = e->plan->even ? gemm_even_width_alone(e, unit) : NULL;
  for (int panel = 0; panel < e->plan->panels; panel++) {
    gen_stage at = stage_of_count(e, *group, gemm_reads_behind(e, *count, panel));
    at.parity = gen_xor(b, at.parity, one); /* a fresh barrier counts as released */
    gen_value full = gen_pipeline_acquire(b, &e->reads, at, e->plan->read_panel_bytes);
    bring_panel(e, tile, columns, panel, place_at(e, at), full);
  }
  gen_value is_second = gen_compare_imm(b, GEN_NE, *group, 0);
  *count = gen_select(b, is_second, gemm_reads_behind(e, *count, e->plan->panels), *count);
  *group = gen_xor(b, *group, one);
  gemm_walk_end(e, &walk);
}

/* --- a consumer group --- */

void gemm_reads_pass(gemm_consumer *c) {
  gemm_emitter *e = c->e;
  c->reads = c->walk.stage;
  for (int i = 0; i < e->plan->read_stages; i++)
    c->walk.stage = gen_pipeline_advance(e->b, &e->pipeline, c->walk.stage);
}

void gemm_reads_drop(gemm_consumer *c) {
  gemm_emitter *e = c->e;
  gen_stage at = c->reads;
  for (int i = 0; i < e->plan->read_stages; i++) {
    gen_pipeline_wait(e->b, &e->pipeline, at);
    gen_pipeline_release(e->b, &e->pipeline, at.index, c->thread, NULL);
    at = gen_pipeline_advance(e->b, &e->pipeline, at);
  }
}

/* Where panels of a tile are, and the one that holds a panel. */
static const gen_pipeline *ring_of(const gemm_emitter *e) {
  return gemm_reads_apart(e->plan) ? &e->reads : &e->pipeline;
}

static gen_stage stage_of(gemm_emitter *e, const gemm_epilogue *p, int panel) {
  gen_stage at = p->stage;
  if (gemm_reads_apart(e->plan)) /* worked out when it is needed: few registers are left */
    return stage_of_count(e, gen_pin(e->b, p->group), gemm_reads_behind(e, at.index, panel));
  for (int i = 0; i < panel / e->plan->read_panels; i++) at = gen_pipeline_advance(e->b, &e->pipeline, at);
  return at;
}

static int number_in_stage(const gemm_plan *plan, int panel) {
  return plan->read_panels > 0 ? panel % plan->read_panels : 0;
}

/* 16-bit elements: two blocks of columns and two times 8 rows an instruction. `first`: the panel's first
 * block. */
static void take_halves(gemm_emitter *e, gemm_epilogue *p, int read, gen_value part, int first, int begin,
                        int end) {
  gen_builder *b = e->b;
  const gemm_plan *plan = e->plan;
  bool turned = plan->match.reads_transposed[read];
  for (int tile = 0; tile < plan->group_rows / 64; tile++) {
    for (int pair = (begin - first) / 2; first + 2 * pair < end; pair++) {
      gen_value words[4], at = gen_add(b, part, gemm_lane_offset(e, p->thread, turned, pair));
      gen_ldmatrix_x4(b, turned, gen_add_imm(b, at, tile * 64 * plan->panel_n * 2), words);
      for (int i = 0; i < 4; i++) {
        int block = first + 2 * pair + i / 2;
        if (block < begin || block >= end) continue;
        p->given[read][2 * (tile * p->columns / 4 + 2 * block + i % 2)] = words[i];
      }
    }
  }
}

/* f32: this thread's pair of columns, which are neighbours in a row, or in rows of their own. */
static void take_pair(gemm_emitter *e, gemm_epilogue *p, int read, gen_value part, int row, int block,
                      gen_value *pair) {
  enum { WIDTH = SPAN / 4, ACROSS = SPAN / 16 };
  gen_builder *b = e->b;
  const gemm_plan *plan = e->plan;
  gen_value lane = gen_and(b, p->thread, gen_i32(b, 31)), warp = gen_lshr(b, p->thread, gen_i32(b, 5));
  gen_value of_row = gen_lshr(b, lane, gen_i32(b, 2)),
            of_column = gen_mul_imm(b, gen_and(b, lane, gen_i32(b, 3)), 2);
  of_row = gen_add_imm(b, gen_add(b, gen_mul_imm(b, warp, 16), of_row), row);
  of_column = gen_add_imm(b, of_column, block * BLOCK);
  bool turned = plan->match.reads_transposed[read];
  int height = turned ? plan->panel_n : plan->group_rows;
  for (int i = 0; i < (turned ? 2 : 1); i++) {
    gen_value along = turned ? of_row : of_column, line = turned ? gen_add_imm(b, of_column, i) : of_row;
    gen_value box = gen_lshr(b, along, gen_i32(b, 5)), inside = gen_and(b, along, gen_i32(b, WIDTH - 1));
    gen_value chunk =
        gen_xor(b, gen_lshr(b, inside, gen_i32(b, 2)), gen_and(b, line, gen_i32(b, ACROSS - 1)));
    gen_value at = gen_add(b, gen_mul_imm(b, box, height * SPAN), gen_mul_imm(b, line, SPAN));
    at = gen_add(b, at, gen_mul_imm(b, chunk, 16));
    at = gen_add(b, gen_add(b, part, at), gen_mul_imm(b, gen_and(b, inside, gen_i32(b, 3)), 4));
    if (turned) {
      pair[i] = gen_load_shared(b, GEN_F32, 1, at);
    } else {
      gen_value both = gen_load_shared(b, GEN_F32, 2, at);
      for (int k = 0; k < 2; k++) pair[k] = gen_lane(b, both, k);
    }
  }
}

void gemm_reads_take(gemm_emitter *e, gemm_epilogue *p, int panel, int begin, int end) {
  gen_builder *b = e->b;
  const gemm_plan *plan = e->plan;
  const gemm_match *match = &plan->match;
  int first = gemm_panel_column(plan, p->columns, panel) / BLOCK;
  gen_stage at = stage_of(e, p, panel);
  int number = number_in_stage(plan, panel);
  if (number == 0 && begin == panel * plan->panel_n / BLOCK) gen_pipeline_wait(b, ring_of(e), at);
  gen_value place = gemm_reads_apart(plan) ? place_at(e, at)
                                           : gen_add(b, e->smem, gen_mul_imm(b, at.index, plan->stage_bytes));
  place = gen_add_imm(b, place, number * plan->read_panel_bytes);
  for (int r = 0; r < match->n_reads; r++) {
    if (!match->reads_staged[r]) continue;
    gen_value part = gen_add_imm(b, place, offset_of(plan, r));
    if (!plan->pingpong) part = gen_add(b, part, gen_mul_imm(b, p->group, part_bytes(plan, r)));
    if (bytes_of(match, r) == 2) {
      take_halves(e, p, r, part, first, begin, end);
      continue;
    }
    for (int row = 0; row < plan->group_rows / 64 * 2; row++)
      for (int block = begin; block < end; block++)
        take_pair(e, p, r, part, row / 2 * 64 + row % 2 * 8, block - first,
                  &p->given[r][2 * (row / 2 * p->columns / 4 + 2 * block + row % 2)]);
  }
}

void gemm_reads_release(gemm_emitter *e, const gemm_epilogue *p, int panel) {
  const gemm_plan *plan = e->plan;
  bool last = panel + 1 == plan->panels || number_in_stage(plan, panel + 1) == 0;
  if (!last) return;
  /* Of a narrow tile the last panel may have no columns of its own, which nobody has waited for. */
  bool own = panel * plan->panel_n < p->columns;
  if (!own && number_in_stage(plan, panel) == 0) gen_pipeline_wait(e->b, ring_of(e), stage_of(e, p, panel));
  gen_named_sync(e->b, p->barrier, 128);
  gen_pipeline_release(e->b, ring_of(e), stage_of(e, p, panel).index, p->thread, NULL);
}

arke_status gemm_read_value(void *user, int access, gen_value *elements, arke_error *err) {
  gemm_emitter *e = ((gemm_kernel *)user)->current;
  gen_builder *b = e->b;
  const gemm_match *match = &e->plan->match;
  for (int r = 0; r < match->n_reads; r++) {
    if (match->reads[r].access != access) continue;
    gen_value pair[2] = {e->given[r][0], e->given[r][1]};
    gen_type type = gen_storage_type(type_of(match, r));
    if (bytes_of(match, r) == 2) {
      gen_value both = gen_bitcast(b, pair[0], type, 2);
      for (int i = 0; i < 2; i++) pair[i] = gen_lane(b, both, i);
    }
    for (int i = 0; i < e->plan->epilogue.width; i++) elements[i] = pair[e->part + i];
    return ARKE_OK;
  }
  return error_set(err, ARKE_ERR_INTERNAL, "generate", "a read that the gemm template did not stage");
}
