/* A consumer warp group: multiplies the stages of its tiles, keeping one group of products in flight, and
 * stores. */
#include "generator/gen_barrier.h"
#include "generator/gen_tma.h"
#include "templates/gemm_emit.h"

/* How a product reads an operand. Row tiles of 64 (A) are consecutive in a K-major panel, and whole panels in
 * the other order. */
static gen_wgmma_operand operand_view(const gemm_operand *o, int k_steps) {
  gen_wgmma_operand view = {.transposed = !o->k_major};
  int row_bytes = (int)o->swizzle,
      in_panel = row_bytes / 32; /* products of a row, which take 32 bytes each */
  for (int i = 0; i < k_steps; i++) {
    view.step_offset[i] = o->k_major ? i / in_panel * o->panel_bytes + i % in_panel * 32 : i * 16 * row_bytes;
  }
  view.tile_offset = o->k_major ? 64 * row_bytes : 64 / o->panel_width * o->panel_bytes;
  return view;
}

static int64_t descriptor_bits(const gemm_operand *o) {
  int eight_rows = 8 * (int)o->swizzle;
  return gen_wgmma_descriptor_bits(o->swizzle, o->k_major ? 16 : o->panel_bytes, eight_rows);
}

gen_wgmma gemm_products(const gemm_plan *plan, int columns) {
  int k_steps = plan->block_k / plan->match.type.k;
  return (gen_wgmma){.type = plan->match.type.a,
                     .b_type = plan->match.type.b,
                     .n = columns,
                     .tiles = plan->group_rows / 64,
                     .k_steps = k_steps,
                     .a = operand_view(&plan->a, k_steps),
                     .b = operand_view(&plan->b, k_steps)};
}

void gemm_descriptors(gemm_consumer *c, gen_value *a, gen_value *b) {
  gen_builder *builder = c->e->b;
  const gemm_plan *plan = c->e->plan;
  gen_wgmma products = gemm_products(plan, plan->block_n);
  gen_value part = plan->pingpong ? gen_i32(builder, 0) : c->group;
  gen_value own =
      gen_add(builder, c->e->smem, gen_mul_imm(builder, part, products.tiles * products.a.tile_offset));
  *a = gen_wgmma_descriptor(builder, own, descriptor_bits(&plan->a));
  *b = gen_wgmma_descriptor(builder, gen_add_imm(builder, c->e->smem, plan->a.bytes),
                            descriptor_bits(&plan->b));
}

/* f32 registers a thread. */
static int accumulators_of(const gemm_plan *plan, int columns) {
  return plan->group_rows / 64 * plan->match.n_sums * columns / 2;
}

void gemm_store_pending(gemm_consumer *c, const gemm_pending *pending, gen_value step) {
  gen_builder *b = c->e->b;
  int panels = c->e->plan->panels;
  gen_branch some;
  gen_if(b, &some, gen_and(b, pending->exists, gen_compare_imm(b, GEN_ULT, step, panels)), NULL, 0);
  for (int panel = 0; panel < panels; panel++) {
    gen_branch this_one;
    gen_if(b, &this_one, gen_compare_imm(b, GEN_EQ, step, panel), NULL, 0);
    gemm_store_panel(c->e, &c->store, pending->tile, c->e->plan->block_n, panel, pending->packed);
    gen_if_end(b, &this_one);
  }
  gen_if_end(b, &some);
}

/* Accumulates the stages of an item of a tile of so many columns (of each sum), and leaves the last products
 * in flight. Returns the index of their stage, which is still to be released; NULL: nothing is left to be
 * waited for. `pending` (NULL: none) is stored on the way. */
static gen_value multiply(gemm_consumer *c, int columns, const gemm_pending *pending, gemm_item item,
                          gen_value *acc) {
  gemm_emitter *e = c->e;
  gen_builder *b = e->b;
  const gemm_plan *plan = e->plan;
  if (plan->part_n > 0) {
    gemm_promote(c, pending, item, acc);
    return NULL;
  }
  gen_wgmma products = gemm_products(plan, columns * plan->match.n_sums);
  int accumulators = accumulators_of(plan, columns);
  gen_value first_a, first_b;
  gemm_descriptors(c, &first_a, &first_b);

  enum { STEP, STAGE, PARITY, BEFORE, SUMS };
  gen_value carried[SUMS + GEN_WGMMA_MAX_ACCUMULATORS] = {[STEP] = gen_i32(b, 0),
                                                          [STAGE] = c->walk.stage.index,
                                                          [PARITY] = c->walk.stage.parity,
                                                          [BEFORE] = gen_i32(b, 0)};
  /* The assembler takes a register without a value for one that the tile before has left: several widths
   * would keep all of theirs. */
  gen_value zero = plan->match.type.sum == GEN_F32 ? gen_f32(b, 0) : gen_i32(b, 0);
  gen_value none = plan->even ? zero : gen_undefined(b, plan->match.type.sum);
  for (int i = 0; i < accumulators; i++) carried[SUMS + i] = none;
  gen_loop loop;
  gen_loop_begin(b, &loop, carried, SUMS + accumulators);
  gen_value step = carried[STEP];
  gen_stage now = {carried[STAGE], carried[PARITY]};
  gen_pipeline_wait(b, &e->pipeline, now);
  gemm_stage_arrived(e);
  gen_value offset = gen_zext(b, gen_mul_imm(b, now.index, plan->stage_bytes >> 4), GEN_I64);
  gen_value started = gen_compare_imm(b, GEN_NE, step, 0);
  gen_wgmma_issue(b, &products, gen_add(b, first_a, offset), gen_add(b, first_b, offset), started,
                  carried + SUMS);
  /* These products run on while the stage before, whose products are now done, goes back to the producer. */
  gen_wgmma_wait(b, 1, carried + SUMS, accumulators);
  gen_pipeline_release(b, &e->pipeline, carried[BEFORE], c->thread, started);
  if (pending) gemm_store_pending(c, pending, step);
  gen_stage next = gen_pipeline_advance(b, &e->pipeline, now);
  carried[STEP] = gen_add_imm(b, step, 1);
  carried[STAGE] = next.index;
  carried[PARITY] = next.parity;
  carried[BEFORE] = now.index;
  gen_loop_end_while(b, &loop, gen_compare(b, GEN_ULT, carried[STEP], item.steps));
  c->walk.stage = (gen_stage){carried[STAGE], carried[PARITY]};
  for (int i = 0; i < accumulators; i++) acc[i] = carried[SUMS + i];
  return carried[BEFORE];
}

static void begin_epilogue(gemm_consumer *c, gemm_tile tile, int columns) {
  gemm_epilogue_begin(c->e, &c->epilogue, c->group, c->thread, c->reads, tile, columns);
}

/* Waits for the last products of an item, under which it finds out where the tile is and asks for what the
 * epilogue reads first; `acc` are values then, with STREAM_K those of all CTAs up to here. */
static gemm_tile finish_products(gemm_consumer *c, int columns, gemm_item item, gen_value last_stage,
                                 gen_value *acc) {
  gemm_emitter *e = c->e;
  gen_builder *b = e->b;
  gemm_tile tile = gemm_tiles_at(e, item.unit);
  tile.row = gen_pin(b, tile.row);
  tile.column = gen_pin(b, tile.column);
  if (tile.batch) tile.batch = gen_pin(b, tile.batch);
  if (tile.end) tile.end = gen_pin(b, tile.end), tile.group = gen_pin(b, tile.group);
  if (e->plan->split > 1) {
    tile = gemm_split_tile(e, tile);
    tile.column = gen_pin(b, tile.column);
  }
  if (!e->plan->stream) begin_epilogue(c, tile, columns / e->plan->split);
  if (last_stage) {
    gen_wgmma_wait(b, 0, acc, accumulators_of(e->plan, columns));
    gen_pipeline_release(b, &e->pipeline, last_stage, c->thread, NULL);
  }
  if (e->plan->split > 1) gemm_split_exchange(c, acc);
  if (e->plan->stream) {
    gemm_stream_exchange(e, &c->store, c->group, c->thread, item, &c->walk.stage, acc);
    gemm_reads_pass(c);
  }
  return tile;
}

/* Panel by panel, so that accumulators give up their registers as they are packed. */
static void store_tile(gemm_consumer *c, int columns, gemm_tile tile, const gen_value *acc) {
  gemm_emitter *e = c->e;
  gen_value packed[GEN_WGMMA_MAX_ACCUMULATORS / 2];
  bool copies = e->plan->match.y.rank > 0;
  if (e->plan->match.c->rows.n > 0) {
    gemm_rows_finish(e, &c->epilogue, c->thread, acc);
    if (!e->plan->match.c->rows.whole) return;
  }
  if (e->plan->stream) begin_epilogue(c, tile, columns);
  if (copies) gemm_store_begin(e, &c->store);
  for (int panel = 0; panel < e->plan->panels; panel++) {
    gemm_epilogue_panel(e, &c->epilogue, panel, acc, packed);
    if (copies) gemm_store_panel(e, &c->store, tile, columns, panel, packed);
  }
  /* A store that tiles of all widths end with would take its accumulators from all of them. */
  if (e->plan->even && !copies) gen_keep_apart(e->b, columns);
}

static gen_value negate(gen_builder *b, gen_value condition) {
  return gen_xor(b, condition, gen_bool(b, true));
}

/* A schedule's part for one item whose tile has so many columns. */
typedef void (*item_fn)(gemm_consumer *c, int columns, gemm_item item);

/* EVEN: which width the tile has is known at run time, so that there is a text for each; what they carry is
 * the stage. */
static void consume_width(gemm_consumer *c, int columns, gemm_item item, gen_value width, item_fn consume) {
  gen_builder *b = c->e->b;
  if (columns == c->e->plan->block_n) {
    consume(c, columns, item);
    return;
  }
  gen_value stage[] = {c->walk.stage.index, c->walk.stage.parity};
  gen_stage before = c->walk.stage;
  gen_branch narrow;
  gen_if(b, &narrow, gen_compare_imm(b, GEN_ULE, width, columns), stage, 2);
  consume(c, columns, item);
  stage[0] = c->walk.stage.index;
  stage[1] = c->walk.stage.parity;
  gen_else(b, &narrow);
  c->walk.stage = before;
  consume_width(c, columns + GEMM_EVEN_STEP, item, width, consume);
  stage[0] = c->walk.stage.index;
  stage[1] = c->walk.stage.parity;
  gen_if_end(b, &narrow);
  c->walk.stage = (gen_stage){stage[0], stage[1]};
}

/* `width` is NULL without EVEN. */
static void consume_item(gemm_consumer *c, gemm_item item, gen_value width, item_fn consume) {
  const gemm_plan *plan = c->e->plan;
  consume_width(c, plan->even ? gemm_narrowest(plan) : plan->block_n, item, width, consume);
}

static gen_value width_at(gemm_consumer *c) {
  return c->e->plan->even ? gemm_even_width(c->e, c->walk.place) : NULL;
}

/* --- schedule 0: multiply, store --- */

static void multiply_and_store(gemm_consumer *c, int columns, gemm_item item) {
  gemm_emitter *e = c->e;
  gen_value acc[GEN_WGMMA_MAX_ACCUMULATORS];
  gen_value last_stage = multiply(c, columns, NULL, item, acc);
  if (!e->plan->stream) gemm_reads_pass(c);
  gemm_tile tile = finish_products(c, columns, item, last_stage, acc);
  gen_branch complete;
  if (e->plan->stream) gen_if(e->b, &complete, negate(e->b, gemm_item_is_partial(e, item)), NULL, 0);
  store_tile(c, columns / e->plan->split, tile, acc);
  if (!e->plan->stream) return;
  gen_else(e->b, &complete);
  gemm_reads_drop(c);
  gen_if_end(e->b, &complete);
}

static void consume_cooperative(gemm_consumer *c) {
  gemm_walk_begin(c->e, &c->walk);
  consume_item(c, gemm_item_at(c->e, c->walk.place), width_at(c), multiply_and_store);
  gemm_walk_end(c->e, &c->walk);
}

/* --- schedule 1: ping-pong --- */

static gen_value turn_barrier(gemm_emitter *e, gen_value group) {
  return gen_add(e->b, e->turns, gen_mul_imm(e->b, group, 8));
}

static void skip_scales(gemm_consumer *c, gen_value steps) {
  gemm_emitter *e = c->e;
  if (e->plan->scales_staged) c->walk.scales = gen_pipeline_skip(e->b, &e->scale_ring, c->walk.scales, steps);
}

/* Multiplies in this group's turn, gives the turn to the other one, and stores. */
static void multiply_in_turn(gemm_consumer *c, int columns, gemm_item item) {
  gemm_emitter *e = c->e;
  gen_builder *b = e->b;
  gen_value acc[GEN_WGMMA_MAX_ACCUMULATORS];
  gen_value last_stage = multiply(c, columns, NULL, item, acc);
  gen_value lane = gen_and(b, c->thread, gen_i32(b, 31)), other = gen_xor(b, c->group, gen_i32(b, 1));
  gen_mbarrier_arrive(b, turn_barrier(e, other), gen_compare_imm(b, GEN_EQ, lane, 0));
  skip_scales(c, e->k_steps);
  c->walk.stage = gen_pipeline_skip(b, &e->pipeline, c->walk.stage, e->k_steps); /* the other group's */
  gemm_tile tile = finish_products(c, columns, item, last_stage, acc);
  store_tile(c, columns, tile, acc);
}

/* A group multiplies only in its turn, so that it stores under the other's products. Groups take units in
 * turn; a fresh barrier lets group 0 begin, and group 1 waits for the first arrivals. Each warp arrives: were
 * one to speak for all, the other group could take its turn and give it back before a slow warp has seen this
 * one, and that warp would wait for a parity two phases old. */
static void consume_pingpong(gemm_consumer *c) {
  gemm_emitter *e = c->e;
  gen_builder *b = e->b;
  c->walk.place = gen_add(b, e->unit, gen_mul(b, c->group, e->unit_step));
  c->walk.step = gen_mul_imm(b, e->unit_step, 2);
  c->walk.stage = gen_pipeline_skip(b, &e->pipeline, c->walk.stage, gen_mul(b, c->group, e->k_steps));
  skip_scales(c, gen_mul(b, c->group, e->k_steps));
  bool reads = gemm_reads_apart(e->plan);
  c->walk.n_extra = reads ? 2 : 1;
  gen_value *turn = c->walk.extra, *panels = c->walk.extra + 1;
  *turn = gen_xor(b, c->group, gen_i32(b, 1));
  *panels = gen_i32(b, 0);
  gemm_walk_begin(e, &c->walk);
  gen_value width = width_at(c);
  gen_mbarrier_wait(b, turn_barrier(e, c->group), *turn);
  *turn = gen_xor(b, *turn, gen_i32(b, 1));
  if (reads) {
    c->reads.index = *panels;
    *panels = gemm_reads_behind(e, *panels, e->plan->panels);
  }
  consume_item(c, gemm_item_at(e, c->walk.place), width, multiply_in_turn);
  gemm_walk_end(e, &c->walk);
}

/* --- schedule 2: store under the next tile's products --- */

/* Whether what comes after this place is too short to store a tile under it: fewer k-steps than panels, or
 * nothing. */
static gen_value nothing_to_hide_under(gemm_consumer *c) {
  gemm_emitter *e = c->e;
  gen_builder *b = e->b;
  gen_value next = gemm_next_place(e, c->walk.place, c->walk.step);
  gen_value is_last = gen_compare(b, GEN_UGE, next, gemm_place_limit(e));
  return gen_or(b, is_last, gen_compare_imm(b, GEN_ULT, gemm_item_at(e, next).steps, e->plan->panels));
}

/* What a pending tile's place is carried as. */
static void put_tile(gen_value *carried, gemm_tile tile) {
  carried[0] = tile.row;
  carried[1] = tile.column;
  if (tile.batch) carried[2] = tile.batch;
  if (tile.end) carried[2] = tile.end; /* of several matrices rows are in no groups */
}

static void consume_deferred(gemm_consumer *c) {
  gemm_emitter *e = c->e;
  gen_builder *b = e->b;
  const gemm_plan *plan = e->plan;
  gemm_walk *walk = &c->walk;
  bool is_third = e->batches || plan->match.grouped; /* of a tile's place: its matrix, or its group's end */
  int n_packed = plan->block_n / 4 * (plan->group_rows / 64), first_packed = is_third ? 4 : 3;
  gen_value zero = gen_i32(b, 0);
  gen_value acc[GEN_WGMMA_MAX_ACCUMULATORS], packed[GEN_WGMMA_MAX_ACCUMULATORS / 2];
  gen_value *exists = walk->extra, *place = walk->extra + 1, *waiting = walk->extra + first_packed;
  walk->n_extra = first_packed + n_packed;
  *exists = gen_bool(b, false);
  put_tile(place, (gemm_tile){.row = zero, .column = zero, .batch = is_third ? zero : NULL});
  for (int i = 0; i < n_packed; i++) waiting[i] = gen_undefined(b, GEN_I32);
  gemm_walk_begin(e, walk);
  gemm_pending pending = {.exists = *exists,
                          .tile = {.row = place[0],
                                   .column = place[1],
                                   .batch = e->batches ? place[2] : NULL,
                                   .end = plan->match.grouped ? place[2] : NULL},
                          .packed = waiting};
  gemm_item item = gemm_item_at(e, walk->place);
  int columns = plan->block_n;
  gen_value last_stage = multiply(c, columns, &pending, item, acc);
  if (!plan->stream) gemm_reads_pass(c);
  gemm_tile tile = finish_products(c, columns, item, last_stage, acc);
  if (plan->stream) begin_epilogue(c, tile, columns);
  if (plan->match.c->rows.n > 0) gemm_rows_finish(e, &c->epilogue, c->thread, acc);
  for (int panel = 0; panel < plan->panels; panel++) gemm_epilogue_panel(e, &c->epilogue, panel, acc, packed);
  gen_value at_once = nothing_to_hide_under(c), later = negate(b, at_once);
  if (plan->stream) {
    gen_value complete = negate(b, gemm_item_is_partial(e, item));
    at_once = gen_and(b, at_once, complete);
    later = gen_and(b, later, complete);
  }
  gen_branch now;
  gen_if(b, &now, at_once, NULL, 0);
  for (int panel = 0; panel < plan->panels; panel++)
    gemm_store_panel(e, &c->store, tile, columns, panel, packed);
  gen_if_end(b, &now);
  *exists = later;
  put_tile(place, tile);
  for (int i = 0; i < n_packed; i++) waiting[i] = packed[i];
  gemm_walk_end(e, walk);
}

void gemm_emit_consumer(gemm_emitter *e, gen_value group, gen_value thread) {
  gemm_consumer c = {.e = e, .group = group, .thread = thread};
  c.walk.place = gemm_first_place(e);
  c.walk.step = e->unit_step;
  c.walk.stage = gen_pipeline_consumer_start(e->b);
  if (e->plan->scales_staged) c.walk.scales = gen_pipeline_consumer_start(e->b);
  gemm_store_init(e, &c.store, group, thread);
  if (e->plan->pingpong) {
    consume_pingpong(&c);
  } else if (e->plan->deferred) {
    consume_deferred(&c);
  } else {
    consume_cooperative(&c);
  }
  if (e->plan->match.y.rank > 0) gemm_store_drain(e, &c.store);
}
