/* What a configuration is: tiles, where they lie in shared memory, and what speaks against it. */
#include "templates/gemm.h"

/* Static shared memory (barriers), rounded up to the alignment of the dynamic part. */
enum { STATIC_SMEM_BYTES = 1024 };
/* Registers a consumer thread needs beside its accumulators: descriptors, pipeline state, epilogue addresses.
 */
enum { CONSUMER_OVERHEAD_REGISTERS = 48 };
enum { STAGED_REGISTERS = 16 };
/* Registers of a thread of two consumer groups after setmaxnreg; one group beside the producer gets the
 * maximum. */
enum { CONSUMER_REGISTERS = 240 };

enum { SWIZZLE_BYTES = 128 };

static gemm_operand make_operand(const gemm_type *type, bool k_major, int rows, int parts, int block_k,
                                 int shares) {
  gemm_operand o = {.k_major = k_major, .parts = parts, .rows = rows, .shares = shares};
  if (k_major) {
    o.panel_width = SWIZZLE_BYTES / type->bytes;
    o.panels = block_k / o.panel_width;
    o.panel_height = parts * rows;
    o.copy_height = rows;
  } else {
    o.panel_width = rows < 64 ? 32 : 64; /* wgmma reads narrow panels slower */
    o.panels = (rows + o.panel_width - 1) / o.panel_width;
    o.panel_height = o.copy_height = block_k;
  }
  int row_bytes = o.panel_width * type->bytes;
  o.swizzle = row_bytes == SWIZZLE_BYTES ? GEN_SWIZZLE_128 : GEN_SWIZZLE_64;
  o.panel_bytes = row_bytes * o.panel_height;
  o.part_bytes = k_major ? rows * row_bytes : o.panels * o.panel_bytes;
  o.bytes = o.panels * o.panel_bytes * (k_major ? 1 : parts);
  return o;
}

/* A panel of the epilogue is one swizzle wide along Y's contiguous axis, or, where that runs along the rows
 * of the tile, has that many rows of Y for each 64 of them. */
static void shape_panels(gemm_plan *plan, int columns) {
  plan->panel_n = columns;
  plan->panels = (plan->finish_n + columns - 1) / columns;
  bool transposed = plan->match.y_transposed;
  plan->store_width = transposed ? 64 : columns;
  plan->store_height = transposed ? columns : plan->group_rows;
  plan->store_swizzle = plan->store_width == 64 ? GEN_SWIZZLE_128 : GEN_SWIZZLE_64;
  plan->store_buffer_bytes = plan->group_rows * columns * 2;
}

int gemm_panel_column(const gemm_plan *plan, int columns, int panel) {
  int last = columns - plan->panel_n, column = panel * plan->panel_n;
  return column < last ? column : last;
}

int gemm_narrowest(const gemm_plan *plan) {
  return plan->block_n - (GEMM_EVEN_WIDTHS - 1) * GEMM_EVEN_STEP;
}

/* A CTA with one tile has no use for its stages by the time it stores: the whole tile takes their place.
 * Another has as many store buffers beside them as fit, up to one for each panel. */
static bool place_store_buffers(gemm_plan *plan, const target *t) {
  int available = t->smem_per_block_bytes - STATIC_SMEM_BYTES;
  available -= gemm_read_place_bytes(plan);
  if (plan->scales_staged) available -= GEMM_SCALE_RING * gemm_scale_bytes(plan);
  int stages = plan->stages * plan->stage_bytes, each = plan->consumers * plan->store_buffer_bytes;
  if (plan->match.y.rank == 0) {
    int later = plan->split > 1 ? gemm_split_bytes(plan) : 0;
    plan->smem_bytes = stages > later ? stages : later;
    return plan->smem_bytes <= available;
  }
  plan->store_over_stages = !plan->persistent && !plan->staged; /* reads come last, and are still there */
  if (plan->store_over_stages) {
    plan->store_buffers = plan->panels;
    int later = plan->split > 1 ? gemm_split_bytes(plan) : plan->panels * each;
    plan->smem_bytes = stages > later ? stages : later;
    return plan->smem_bytes <= available;
  }
  if (available - stages < each) return false;
  plan->store_buffers = (available - stages) / each;
  if (plan->store_buffers > plan->panels) plan->store_buffers = plan->panels;
  plan->smem_bytes = stages + plan->store_buffers * each;
  return true;
}

static bool place_panels(gemm_plan *plan, const target *t, int columns) {
  enum { MOST_READ_PLACES = 2 };
  shape_panels(plan, columns);
  if (plan->staged && !gemm_place_reads(plan)) return false;
  for (plan->read_places = MOST_READ_PLACES; plan->read_places > 0; plan->read_places--)
    if (place_store_buffers(plan, t)) return true;
  return false;
}

/* Another CTA's sums come in as many equal parts as make one fit a stage: a part has some accumulators of all
 * threads, four at a time. */
static void place_sums(gemm_plan *plan) {
  int rows = plan->accumulators / 4, row_bytes = plan->consumers * 128 * 4 * 4, parts = 1;
  while (rows % parts || rows / parts * row_bytes > plan->stage_bytes) parts++;
  plan->slot_bytes = rows * row_bytes;
  plan->sums_bytes = plan->slot_bytes / parts;
}

template_reason gemm_check_numbers(const config *c) {
  const int *v = c->values;
  bool pingpong = v[GEMM_SCHEDULE] == 1, deferred = v[GEMM_SCHEDULE] == 2;
  bool stream = v[GEMM_STREAM_K] == 1, split = v[GEMM_STREAM_K] > 1, even = v[GEMM_EVEN],
       persistent = v[GEMM_PERSISTENT];
  if (pingpong && v[GEMM_CONSUMERS] != 2) return TEMPLATE_SCHEDULE;
  /* A CTA that has one tile has none for a second group, nor a next one to store it under. */
  if ((pingpong || deferred || stream || even) && !persistent) return TEMPLATE_SCHEDULE;
  /* Parts of tiles have unlike lengths; groups that take turns would wait for one another. */
  if (stream && pingpong) return TEMPLATE_SCHEDULE;
  /* Either fills the last wave; and a tile of one width cannot wait in the registers of another. */
  if (even && (stream || deferred)) return TEMPLATE_SCHEDULE;
  int cluster = v[GEMM_CLUSTER_M] * v[GEMM_CLUSTER_N];
  if (cluster > 2) return TEMPLATE_CLUSTER;
  /* A CTA exchanges sums of its one tile. */
  if (split && (persistent || deferred || even)) return TEMPLATE_SCHEDULE;
  if (split && cluster > 1) return TEMPLATE_CLUSTER;
  if (even && cluster > 1) return TEMPLATE_CLUSTER; /* CTAs that share rows have one width */
  if (v[GEMM_BLOCK_M] % (64 * (pingpong ? 1 : v[GEMM_CONSUMERS]))) return TEMPLATE_TILE;
  return TEMPLATE_OK;
}

static bool can_stage(const gemm_match *match) {
  if (match->block > 0) return true;
  for (int i = 0; i < match->n_reads; i++)
    if (match->reads_staged[i]) return true;
  return false;
}

/* What they have against this operator. */
static template_reason check_operator(const gemm_match *match, const config *c) {
  const int *v = c->values;
  /* Columns of several sums are those of one product. Where a tile has fewer, they lie together only in rows
   * of their own. */
  if (match->n_sums > 1 && match->n_sums * v[GEMM_BLOCK_N] > GEMM_MOST_COLUMNS) return TEMPLATE_TILE;
  if (match->n_sums > 1 && v[GEMM_EVEN] && !match->b_k_major) return TEMPLATE_TILE;
  /* Scales of a step are those of rows of A and of whole blocks of columns of B. */
  if ((match->n_sums > 1 || match->block > 0) && v[GEMM_SWAP]) return TEMPLATE_OPERATOR;
  /* Parts of rows are of whole tiles of columns, small beside them; or a tile has all of a row. */
  bool reduced = match->c->rows.n > 0;
  if (reduced && (v[GEMM_SWAP] || v[GEMM_STREAM_K] || v[GEMM_EVEN])) return TEMPLATE_OPERATOR;
  bool whole = match->c->rows.whole;
  if (reduced && !whole && v[GEMM_BLOCK_N] < GEMM_LEAST_ROW_COLUMNS) return TEMPLATE_TILE;
  if (whole && v[GEMM_BLOCK_N] < gemm_extent(match, match->n)) return TEMPLATE_TILE;
  /* How many tiles there are is known at run time; each is of one group, with one B; and groups are of rows.
   */
  if (match->grouped && !v[GEMM_PERSISTENT]) return TEMPLATE_SCHEDULE;
  if (match->grouped && (v[GEMM_CLUSTER_M] > 1)) return TEMPLATE_CLUSTER;
  if (match->grouped && (v[GEMM_SWAP] || v[GEMM_STREAM_K] || v[GEMM_EVEN])) return TEMPLATE_OPERATOR;
  /* A tile waits as the elements that copies store; nothing else of it does. */
  bool copied = match->y.rank > 0 && match->c->form.n_outputs == 1;
  if (v[GEMM_SCHEDULE] == 2 && !copied) return TEMPLATE_SCHEDULE;
  if (v[GEMM_STAGED] && !can_stage(match)) return TEMPLATE_OPERATOR;
  if (v[GEMM_STAGED] && v[GEMM_STREAM_K] > 1 && match->block == 0) return TEMPLATE_OPERATOR;
  /* The threads that gather rows are the warps that would bring scales, and fill every stage. */
  if (match->gathered && (v[GEMM_STAGED] || v[GEMM_SWAP] || v[GEMM_STREAM_K] || v[GEMM_EVEN]))
    return TEMPLATE_OPERATOR;
  if (match->gathered && v[GEMM_CLUSTER_M] * v[GEMM_CLUSTER_N] > 1) return TEMPLATE_CLUSTER;
  return TEMPLATE_OK;
}

/* Two chunks of what is read go into the registers that accumulators leave. A fragment of two columns takes a
 * word or more of each tensor that is read by row and column; one that has columns alone is the same in all
 * rows. */
static int chunk_blocks(const gemm_plan *plan) {
  const gemm_match *match = &plan->match;
  const ir_form *form = &match->c->form;
  int rows = plan->group_rows / 64 * 2, words = 0;
  int free = plan->registers - plan->accumulators - CONSUMER_OVERHEAD_REGISTERS;
  for (int i = 0; i < form->n_accesses; i++) {
    const ir_access *x = &form->accesses[i];
    unsigned loops = 0;
    if (!(match->c->epilogue >> i & 1)) continue;
    if (plan->epilogue.given >> i & 1) continue; /* taken when they are needed, a pair of blocks at a time */
    for (int s = 0; s < x->n; s++) loops |= ir_form_free(form, x->subscripts[s].e);
    int pair = dtype_bits(ir_tensor_dtype(form->problem, x->tensor)) > 32 ? 4 : 2;
    if (plan->epilogue.wide >> i & 1)
      pair = (2 * dtype_bits(ir_tensor_dtype(form->problem, x->tensor)) + 31) / 32;
    if (loops >> match->n & 1) words += pair * (loops >> match->m & 1 ? rows : 1);
    if (loops >> match->m & 1) free -= rows * (loops >> match->n & 1 ? 2 : pair / 2); /* addresses, values */
  }
  int most = plan->read_panel_bytes > 0 ? 2 : plan->panel_n / 8,
      blocks = words > 0 ? free / (2 * words) : most;
  return blocks < 1 ? 1 : blocks > most ? most : blocks;
}

/* Sums of 8-bit floats leave the matrix unit after every stage, which has at most 128 terms: it adds them
 * with 13 fraction bits. So do those of terms with scales, which are the same for a stage. Parts are as wide
 * as the registers allow: a product reads its rows of A from shared memory whatever its columns. */
/* Tiles begin at multiples of their width, which may be anywhere in a block of columns. */
static bool choose_segment(gemm_plan *plan) {
  const gemm_match *match = &plan->match;
  plan->segment = plan->block_n;
  if (match->block == 0) return true;
  while (match->block_n > 0 && (match->block_n % plan->segment || plan->block_n % plan->segment))
    plan->segment -= 8;
  return plan->segment > 0 &&
         plan->group_rows / 32 + match->n_sums * plan->block_n / plan->segment <= GEMM_MOST_SCALES;
}

static template_reason choose_parts(gemm_plan *plan) {
  enum { WIDEST = 192, NARROWEST = 32 };
  const gemm_match *match = &plan->match;
  bool few_digits = match->type.a == DTYPE_E4M3 || match->type.a == DTYPE_E5M2;
  if (!few_digits && match->block == 0) return TEMPLATE_OK;
  if (plan->even) return TEMPLATE_SCHEDULE;
  if (match->block % plan->block_k) return TEMPLATE_TILE;
  if (match->type.bytes == 1 && plan->block_k > 128) return TEMPLATE_TILE;
  if (!choose_segment(plan)) return TEMPLATE_REGISTERS;
  int step = gen_wgmma_sum(match->type.a) == GEN_I32 ? 16 : 8; /* widths that there are */
  int free = plan->registers - plan->accumulators - CONSUMER_OVERHEAD_REGISTERS;
  for (plan->part_n = WIDEST; plan->part_n >= NARROWEST; plan->part_n -= step)
    if (plan->block_n % plan->part_n == 0 && plan->part_n / 2 <= free) return TEMPLATE_OK;
  return TEMPLATE_REGISTERS;
}

/* Pairs of columns, as accumulators have them. */
void gemm_choose_evaluation(gemm_plan *plan) {
  const gemm_match *match = &plan->match;
  const contraction *c = match->c;
  const ir_form *form = &c->form;
  bool computed = match->a.computed;
  for (int i = 0; i < match->n_sums; i++) computed = computed || match->b[i].computed;
  if (match->bare && !computed && match->block == 0) return; /* nothing is */
  bool wide_offsets = lanes_need_wide_offsets(form);
  plan->indices =
      (lanes_options){.loop = -1, .width = 1, .dense = match->merged, .wide_offsets = wide_offsets};
  if (match->grouped) plan->indices.reduce = gemm_group_value;
  plan->epilogue = plan->scales = plan->indices;
  plan->epilogue.loop = match->n;
  plan->epilogue.given = gemm_staged_accesses(plan);
  for (int i = 0; i < form->n_outputs; i++) {
    const ir_access *y = &form->accesses[form->outputs[i].access];
    for (int s = 0; s < y->n; s++) /* at gathered places, of which two may be the same */
      if (y->subscripts[s].e->node != IR_INDEX) plan->epilogue.stores_meet = true;
  }
  uint64_t accesses = c->epilogue & ~plan->epilogue.given;
  for (int i = 0; i < form->n_outputs; i++) accesses |= UINT64_C(1) << form->outputs[i].access;
  if (gemm_extent(match, match->n) % 2 == 0) {
    plan->epilogue.width = 2;
    plan->epilogue.wide = lanes_wide(form, &plan->epilogue) & accesses;
  }
  plan->chunk_blocks = chunk_blocks(plan);
  contraction_loops rows = {.set = 1u << match->m, .n = 1, .loops = {match->m}};
  plan->row_parts = (product_rows_layout){
      .c = c, .matrices = match->outer, .rows = rows, .block = plan->block_n, .options = plan->indices};
}

template_reason gemm_plan_make(const gemm_match *match, const target *t, const config *c, gemm_plan *plan) {
  const int *v = c->values;
  *plan = (gemm_plan){
      .match = *match,
      .block_m = v[GEMM_BLOCK_M],
      .block_n = v[GEMM_BLOCK_N],
      .block_k = v[GEMM_BLOCK_K] * 2 / match->type.bytes,
      .stages = v[GEMM_STAGES],
      .consumers = v[GEMM_CONSUMERS],
      .cluster_m = v[GEMM_CLUSTER_M],
      .cluster_n = v[GEMM_CLUSTER_N],
      .group = v[GEMM_GROUP],
      .pingpong = v[GEMM_SCHEDULE] == 1,
      .deferred = v[GEMM_SCHEDULE] == 2,
      .persistent = v[GEMM_PERSISTENT],
      .raster_n = v[GEMM_RASTER],
      .stream = v[GEMM_STREAM_K] == 1,
      .split = v[GEMM_STREAM_K] > 1 ? v[GEMM_STREAM_K] : 1,
      .even = v[GEMM_EVEN],
      .staged = v[GEMM_STAGED],
      .sharers = v[GEMM_CLUSTER_M] * v[GEMM_CLUSTER_N],
      .threads = 128 * (v[GEMM_CONSUMERS] + 1),
  };
  template_reason reason = gemm_check_numbers(c);
  if (reason == TEMPLATE_OK) reason = check_operator(match, c);
  if (reason != TEMPLATE_OK) return reason;
  plan->cluster = plan->sharers * plan->split;
  plan->finish_n = plan->block_n / plan->split;
  if (plan->finish_n % 8) return TEMPLATE_TILE;
  if (v[GEMM_SWAP]) plan->match = gemm_match_swapped(match);
  match = &plan->match;
  plan->group_rows = plan->block_m / (plan->pingpong ? 1 : plan->consumers);
  plan->accumulators = plan->group_rows / 64 * match->n_sums * plan->block_n / 2;
  if (plan->threads > t->max_threads_per_block) return TEMPLATE_THREADS;
  plan->registers = plan->consumers == 2 ? CONSUMER_REGISTERS : t->max_registers_per_thread;
  plan->scales_staged = plan->staged && match->block > 0;
  /* A deferred tile waits as packed halves beside the next one's accumulators. */
  int waiting = plan->deferred ? plan->accumulators / match->n_sums / 2 : 0;
  if (plan->deferred && plan->staged) waiting += STAGED_REGISTERS; /* beside them what is read next */
  reason = choose_parts(plan);
  if (reason != TEMPLATE_OK) return reason;
  waiting += plan->part_n / 2;
  if (plan->accumulators + waiting + CONSUMER_OVERHEAD_REGISTERS > plan->registers) return TEMPLATE_REGISTERS;
  if (plan->cluster > 1 && !t->has.clusters) return TEMPLATE_CLUSTER;
  /* Products of integers are of multiples of 16 columns, above 32. */
  bool integers = gen_wgmma_sum(match->type.a) == GEN_I32;
  if (integers && (plan->even || (match->n_sums * plan->block_n > 32 && match->n_sums * plan->block_n % 16)))
    return TEMPLATE_TILE;
  /* Whole swizzles of K, and no more products of a stage than a group may have. */
  int row_bytes = plan->block_k * match->type.bytes;
  if (row_bytes % SWIZZLE_BYTES || row_bytes > 2 * SWIZZLE_BYTES) return TEMPLATE_TILE;

  plan->a = make_operand(&match->type, match->a_k_major, plan->block_m, 1, plan->block_k, plan->cluster_n);
  plan->b = make_operand(&match->type, match->b_k_major, plan->block_n, match->n_sums, plan->block_k,
                         plan->cluster_m);
  if (match->n_sums > 1 && !plan->b.k_major && plan->block_n % plan->b.panel_width) return TEMPLATE_TILE;
  plan->packs_columns = plan->even && match->n_sums > 1;
  if (plan->packs_columns) plan->b.copy_height = gemm_narrowest(plan);
  /* Each share of a panel begins at a whole swizzle pattern. */
  if (plan->a.copy_height / plan->a.shares % 8 || plan->b.copy_height / plan->b.shares % 8)
    return TEMPLATE_CLUSTER;
  plan->stage_bytes = plan->a.bytes + plan->b.bytes;
  if (match->gathered && !gemm_gathers(plan)) return TEMPLATE_TILE;
  int least = plan->even ? gemm_narrowest(plan) : plan->finish_n;
  if (!place_panels(plan, t, least < 64 ? 32 : 64) && !place_panels(plan, t, 32))
    return TEMPLATE_SHARED_MEMORY;
  if (least < plan->panel_n) return TEMPLATE_TILE;
  enum { SWIZZLE_PATTERN = 1024 };
  if (gemm_read_place_bytes(plan) > 0) {
    plan->reads_offset = (plan->smem_bytes + SWIZZLE_PATTERN - 1) / SWIZZLE_PATTERN * SWIZZLE_PATTERN;
    plan->smem_bytes = plan->reads_offset + gemm_read_place_bytes(plan);
  }
  if (plan->scales_staged) {
    plan->scales_offset = plan->smem_bytes;
    plan->smem_bytes += GEMM_SCALE_RING * gemm_scale_bytes(plan);
  }
  if (plan->stream) place_sums(plan);
  return TEMPLATE_OK;
}
