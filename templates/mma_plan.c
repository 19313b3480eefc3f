/* What a configuration is: tiles, how they are loaded, and the epilogue's place. */
#include "templates/lanes_index.h"
#include "templates/mma.h"

enum {
  MOST_ACCUMULATORS = 160, /* registers that leave room for fragments and addresses */
  MOST_COPIES = 32,        /* that a thread issues of a tile in a step */
  MOST_VECTORS = 16,       /* that a thread holds of it */
  OVERHEAD_REGISTERS = 64
};

template_reason mma_check_numbers(const target *t, const config *v) {
  const int *x = v->values;
  int warps = x[MMA_WARPS_M] * x[MMA_WARPS_N];
  if (warps * 32 > t->max_threads_per_block || warps > 16) return TEMPLATE_THREADS;
  if (x[MMA_BLOCK_M] % (16 * x[MMA_WARPS_M]) || x[MMA_BLOCK_N] % (16 * x[MMA_WARPS_N])) return TEMPLATE_TILE;
  if (x[MMA_BLOCK_M] * x[MMA_BLOCK_N] / (32 * warps) > MOST_ACCUMULATORS) return TEMPLATE_REGISTERS;
  return TEMPLATE_OK;
}

template_reason mma_match(const ir_problem *p, const target *t, bool merged, arena *a, contraction *c,
                          strbuf *detail) {
  if (!t->has.mma_sync || !t->has.cp_async) {
    if (detail) strbuf_addf(detail, "%s has no products of warps with asynchronous copies", t->name);
    return TEMPLATE_TARGET;
  }
  template_reason reason = contraction_match_more(p, merged, MMA_CONTRACTIONS, a, c, detail, NULL);
  if (reason != TEMPLATE_OK) return reason;
  /* What is left out must be left out of both operands alike, or of the whole sum. */
  unsigned common = c->batch.set | c->k.set, outer = c->batch.set | c->m.set | c->n.set;
  for (int i = 0; i < c->n_sums; i++)
    for (int k = 0; k < c->sums[i].n_conditions; k++) {
      unsigned loops = ir_form_free(&c->form, c->sums[i].conditions[k]);
      if (!(loops & ~common) || !(loops & ~outer)) continue;
      if (detail) strbuf_add(detail, "a condition depends on the terms of a sum and on one operand's rows");
      return TEMPLATE_OPERATOR;
    }
  for (int i = 1; i < c->n_sums; i++)
    if (c->sums[i].n_conditions != c->sums[0].n_conditions) {
      if (detail) strbuf_add(detail, "sums have different conditions");
      return TEMPLATE_OPERATOR;
    }
  if (c->rows.n > 0 && !c->rows.whole && c->groups.of) {
    if (detail) strbuf_add(detail, "rows that are reduced have groups");
    return TEMPLATE_OPERATOR;
  }
  int64_t columns = contraction_extent(c, &c->n);
  if (c->rows.whole && (columns == 0 || columns * c->n_sums > MMA_MOST_COLUMNS)) {
    if (detail) strbuf_addf(detail, "a row of %lld columns is in no one tile", (long long)columns);
    return TEMPLATE_SIZE;
  }
  mma_choice choice;
  reason = mma_choose_product(c, t, &choice);
  if (reason != TEMPLATE_OK && detail) strbuf_add(detail, "sums of different types");
  int64_t most = choice.product.most_k;
  if (reason == TEMPLATE_OK && most > 0 && contraction_extent(c, &c->k) > most) {
    if (detail) strbuf_addf(detail, "more than %lld terms may overflow i32", (long long)most);
    return TEMPLATE_SIZE;
  }
  return reason;
}

/* --- vectors --- */

static int last_loop(const contraction_loops *l) {
  return l->n > 0 ? l->loops[l->n - 1] : -1;
}

/* Bits of the operand's elements that lie next to each other along a loop. */
static int contiguous_bits(const contraction *c, const contraction_operand *o, int loop) {
  int bits = 0;
  for (int i = 0; loop >= 0 && i < c->form.n_accesses; i++)
    if (o->values >> i & 1 && ir_form_motion(&c->form, i, loop) == IR_MOTION_UNIT)
      bits += dtype_bits(ir_tensor_dtype(c->form.problem, c->form.accesses[i].tensor));
  return bits;
}

static int least_bits(const contraction *c, const contraction_operand *o) {
  int least = 128;
  for (int i = 0; i < c->form.n_accesses; i++) {
    int bits = dtype_bits(ir_tensor_dtype(c->form.problem, c->form.accesses[i].tensor));
    if (o->values >> i & 1 && bits < least) least = bits;
  }
  return least;
}

/* Vectors as wide as the narrowest element's 16 bytes, the loop's size and their alignment allow. */
static void choose_vectors(const mma_plan *p, mma_tile *t, bool wide, int most) {
  const contraction *c = p->c;
  lanes_options *o = &t->options;
  const contraction_loops *rows = t->operand->side == CONTRACTION_A ? &c->m : &c->n;
  int k = last_loop(&c->k), row = last_loop(rows);
  t->along_k = row < 0 || contiguous_bits(c, t->operand, k) >= contiguous_bits(c, t->operand, row);
  o->loop = t->along_k ? k : row;
  int limit = t->along_k ? p->block_k : t->extent;
  o->width = wide ? 128 / least_bits(c, t->operand) : 1;
  if (o->width > most) o->width = most;
  /* Groups begin at any row, so rows are not taken several at a time. */
  if (c->groups.of && !t->along_k && t->operand->side == CONTRACTION_A) o->width = 1;
  for (; o->width > 1; o->width /= 2) {
    if (o->width > limit || ir_form_extent(&c->form, o->loop) % o->width) continue;
    o->wide = lanes_wide_of(&c->form, o, t->operand->values);
    if (o->wide) return;
  }
  o->wide = 0;
}

/* --- tiles --- */

/* Whether e, which depends on the loop, is it plus what does not. */
static bool is_shifted(const ir_form *form, const ir_expr *e, int loop) {
  if (e->node == IR_INDEX) return e->id == loop;
  if (e->node != IR_OPERATOR || (e->id != IR_OP_ADD && e->id != IR_OP_SUB)) return false;
  bool first = ir_form_free(form, e->args[0]) >> loop & 1,
       second = ir_form_free(form, e->args[1]) >> loop & 1;
  if (first && second) return false;
  if (second && e->id == IR_OP_SUB) return false; /* runs backward */
  return is_shifted(form, e->args[second ? 1 : 0], loop);
}

/* Whether each step of the loop is one step of one dimension: a copy's addresses go on by its stride. */
static bool steps_plainly(const ir_form *form, const ir_access *x, int loop) {
  int dependent = 0;
  for (int s = 0; s < x->n; s++) {
    if ((ir_form_free(form, x->subscripts[s].e) >> loop & 1) == 0) continue;
    if (++dependent > 1 || !is_shifted(form, x->subscripts[s].e, loop)) return false;
  }
  return dependent == 1;
}

static bool is_copy(const mma_plan *p, const mma_tile *t) {
  const contraction *c = p->c;
  if (t->access < 0 || c->k.n != 1 || c->sums[0].n_conditions > 0) return false;
  const ir_access *x = &c->form.accesses[t->access];
  if (!steps_plainly(&c->form, x, c->k.loops[0])) return false;
  if (p->c->form.problem->op->tensors[x->tensor].role != IR_INPUT) return false;
  int width = t->options.width;
  bool lines_up = width == 1 || (t->options.wide >> t->access & 1);
  return lines_up && width * t->bytes >= 4 && lanes_unit(&c->form, &t->options, t->access) == width;
}

/* Threads that multiply one by one have 8 x 4 places in a warp's tile: of single rows where tiles are
 * K-major, else of whole chunks. */
static bool fits_chunks(const mma_plan *p, const mma_tile *t) {
  bool a = t->operand->side == CONTRACTION_A;
  return (a ? p->warp_m : p->warp_n) % ((a ? 8 : 4) * 16 / t->bytes) == 0;
}

static template_reason make_tile(const mma_plan *p, mma_tile *t, bool wide) {
  t->bytes = dtype_bits(t->element) / 8;
  t->extent = t->operand->side == CONTRACTION_A ? p->block_m : p->block_n;
  t->options = (lanes_options){.dense = p->dense, .wide_offsets = p->wide_offsets, .reduce = mma_group_value};
  choose_vectors(p, t, wide, LANES_MAX);
  /* ldmatrix transposes 16-bit elements, and threads that multiply one by one take either order. */
  bool either = p->product.fma ? fits_chunks(p, t) : t->bytes == 2;
  t->k_major = t->along_k || !either;
  int in_row = t->k_major ? p->block_k : t->extent;
  t->rows = t->k_major ? t->extent : p->block_k;
  t->row_bytes = in_row * t->bytes;
  t->tile_bytes = t->rows * t->row_bytes;
  if (t->row_bytes < 32) return TEMPLATE_TILE;
  t->copied = t->along_k == t->k_major && is_copy(p, t);
  int elements = t->extent * p->block_k;
  t->vectors = elements / t->options.width;
  t->per_thread = (t->vectors + p->threads - 1) / p->threads;
  return t->per_thread > (t->copied ? MOST_COPIES : MOST_VECTORS) ? TEMPLATE_REGISTERS : TEMPLATE_OK;
}

/* Operands of one side lie in shared memory alike where threads multiply one by one, so that accumulators
 * have one order. */
static bool same_order(const mma_plan *p) {
  const mma_tile *first[2] = {NULL, NULL};
  for (int i = 0; i < p->c->n_operands; i++) {
    const mma_tile *t = &p->tiles[i];
    if (!first[t->operand->side]) first[t->operand->side] = t;
    if (first[t->operand->side]->k_major != t->k_major) return false;
  }
  return true;
}

/* --- the epilogue --- */

static void choose_epilogue(mma_plan *p, bool wide) {
  const ir_form *form = &p->c->form;
  lanes_options *o = &p->epilogue;
  uint64_t written = 0;
  *o = (lanes_options){.loop = last_loop(&p->c->n),
                       .width = 1,
                       .dense = p->dense,
                       .wide_offsets = p->wide_offsets,
                       .reduce = mma_sum_value};
  if (o->loop < 0) o->loop = last_loop(&p->c->m);
  if (p->c->rows.n > 0) {
    p->row_parts = (product_rows_layout){
        .c = p->c, .matrices = p->c->batch, .rows = p->c->m, .block = p->block_n, .options = *o};
    p->row_parts.options.loop = -1;
    /* Columns are taken several at a time where the rows have no rest. */
    for (o->width = wide ? 16 / mma_sum_bytes(p) : 1; ir_form_extent(form, o->loop) % o->width;)
      o->width /= 2;
    o->wide = lanes_wide(form, o);
    return;
  }
  int bits = 8;
  for (int i = 0; i < form->n_outputs; i++) {
    int access = form->outputs[i].access;
    written |= UINT64_C(1) << access;
    int own = dtype_bits(ir_tensor_dtype(form->problem, form->accesses[access].tensor));
    if (bits < own) bits = own;
  }
  if (!wide || p->c->n.n == 0) return;
  for (o->width = 128 / bits > 8 ? 8 : 128 / bits; o->width > 1; o->width /= 2) {
    if (ir_form_extent(form, o->loop) % o->width) continue;
    o->wide = lanes_wide(form, o);
    if ((o->wide & written) == written) return;
  }
  o->wide = 0;
}

static template_reason place_epilogue(mma_plan *p, const target *t) {
  int warps = p->warps_m * p->warps_n;
  const mma_tile *a = NULL;
  for (int i = 0; i < p->c->n_operands && !a; i++)
    if (p->c->operands[i].side == CONTRACTION_A) a = &p->tiles[i];
  p->block_rows = p->product.fma && !a->k_major ? 8 * 16 / a->bytes : 16;
  p->pitch_bytes = p->warp_n * mma_sum_bytes(p) + 32; /* rows begin 8 banks apart */
  int stages = p->stages * p->stage_bytes;
  for (p->staged_rows = p->warp_m; p->staged_rows > p->block_rows; p->staged_rows /= 2)
    if (warps * p->staged_rows * p->pitch_bytes * p->c->n_sums <= stages) break;
  p->staged_bytes = p->staged_rows * p->pitch_bytes; /* of one sum of a warp */
  int staged = warps * p->staged_bytes * p->c->n_sums;
  if (p->c->rows.n > 0) {
    p->rows_offset_bytes = staged;
    staged += p->warps_n * p->block_m * product_row_bytes(p->c);
  }
  p->smem_bytes = stages > staged ? stages : staged;
  return p->smem_bytes > t->smem_per_block_bytes ? TEMPLATE_SHARED_MEMORY : TEMPLATE_OK;
}

/* --- the plan --- */

static int smaller(int x, int y) {
  return x < y ? x : y;
}

config mma_narrow_config(const contraction *c, const config *v, const mma_product *product) {
  config n = *v;
  int *x = n.values;
  x[MMA_BLOCK_K] = product->fma ? 16 : 32;
  x[MMA_STAGES] = 2;
  if (c->rows.whole && x[MMA_BLOCK_N] > 64) { /* a thread holds 16 elements of a stage's columns */
    x[MMA_BLOCK_M] = 64;
    x[MMA_WARPS_M] = 4;
    x[MMA_WARPS_N] = x[MMA_BLOCK_N] / 64;
    return n;
  }
  x[MMA_BLOCK_M] = smaller(x[MMA_BLOCK_M], 64);
  x[MMA_BLOCK_N] = smaller(x[MMA_BLOCK_N], 64);
  x[MMA_WARPS_M] = x[MMA_BLOCK_M] == 64 && x[MMA_BLOCK_N] == 16 ? 4 : x[MMA_BLOCK_M] > 16 ? 2 : 1;
  x[MMA_WARPS_N] = x[MMA_BLOCK_N] == 64 && x[MMA_BLOCK_M] == 16 ? 4 : x[MMA_BLOCK_N] > 16 ? 2 : 1;
  return n;
}

static template_reason make_tiles(mma_plan *p, const target *t, bool wide) {
  mma_choice choice;
  template_reason reason = mma_choose_product(p->c, t, &choice);
  if (reason != TEMPLATE_OK) return reason;
  p->product = choice.product;
  if (p->block_k % p->product.k) return TEMPLATE_TILE;
  for (int i = 0; i < p->c->n_operands; i++) {
    mma_tile *tile = &p->tiles[i];
    *tile = (mma_tile){.operand = &p->c->operands[i],
                       .element = choice.elements[i],
                       .access = choice.accesses[i],
                       .type = choice.types[i],
                       .parts = choice.parts[i]};
    reason = make_tile(p, tile, wide);
    if (reason != TEMPLATE_OK) return reason;
    tile->offset_bytes = p->stage_bytes;
    p->stage_bytes += (tile->parts * tile->tile_bytes + 127) / 128 * 128;
  }
  return p->product.fma && !same_order(p) ? TEMPLATE_TILE : TEMPLATE_OK;
}

template_reason mma_plan_make(const contraction *c, const target *t, const config *v, bool dense, bool wide,
                              mma_plan *p) {
  const int *x = v->values;
  template_reason reason = mma_check_numbers(t, v);
  if (reason != TEMPLATE_OK) return reason;
  *p = (mma_plan){.c = c,
                  .dense = dense,
                  .wide_offsets = lanes_need_wide_offsets(&c->form),
                  .block_m = x[MMA_BLOCK_M],
                  .block_n = x[MMA_BLOCK_N],
                  .block_k = x[MMA_BLOCK_K],
                  .stages = x[MMA_STAGES],
                  .warps_m = x[MMA_WARPS_M],
                  .warps_n = x[MMA_WARPS_N],
                  .group = x[MMA_GROUP],
                  .split = x[MMA_SPLIT_K],
                  .warp_m = x[MMA_BLOCK_M] / x[MMA_WARPS_M],
                  .warp_n = x[MMA_BLOCK_N] / x[MMA_WARPS_N],
                  .threads = 32 * x[MMA_WARPS_M] * x[MMA_WARPS_N]};
  p->accumulators = p->warp_m * p->warp_n / 32;
  if (c->rows.n > 0 && !c->rows.whole && p->block_n < MMA_LEAST_ROW_COLUMNS) return TEMPLATE_TILE;
  if (c->rows.whole && p->block_n < contraction_extent(c, &c->n)) return TEMPLATE_TILE;
  if (c->rows.whole && p->block_n * c->n_sums > MMA_MOST_COLUMNS) return TEMPLATE_TILE;
  reason = make_tiles(p, t, wide);
  if (reason != TEMPLATE_OK) return reason;
  int words = mma_sum_bytes(p) / 4;
  if (p->accumulators * c->n_sums * words > MOST_ACCUMULATORS) return TEMPLATE_REGISTERS;
  int registers = t->registers_per_sm / p->threads;
  if (p->accumulators * c->n_sums * words + OVERHEAD_REGISTERS > registers) return TEMPLATE_REGISTERS;
  choose_epilogue(p, wide);
  reason = place_epilogue(p, t);
  if (reason != TEMPLATE_OK) return reason;
  /* Behind what no number of parts changes (mma_check_tiles). Second kernels know neither. */
  return (c->groups.of || c->rows.n > 0) && p->split > 1 ? TEMPLATE_OPERATOR : TEMPLATE_OK;
}
