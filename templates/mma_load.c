/* Tiles of operands: from global to shared memory, copied or through registers. Indices beyond the operator's
 * are those of its last elements, so that every address is good; what comes from there counts as zero. */
#include "generator/gen_bits.h"
#include "generator/gen_control.h"
#include "generator/gen_convert.h"
#include "generator/gen_cp_async.h"
#include "generator/gen_memory.h"
#include "templates/lanes_pointer.h"
#include "templates/mma.h"

#define STAGE "generate"

static const contraction_loops *rows_of(const mma_emitter *e, const mma_tile *t) {
  return t->operand->side == CONTRACTION_A ? &e->c->m : &e->c->n;
}

static gen_value low_bits(gen_builder *b, gen_value x, int modulus) {
  return gen_and(b, x, gen_i32(b, modulus - 1));
}

static gen_value over(gen_builder *b, gen_value x, int power) {
  int shift = __builtin_ctz((unsigned)power);
  return shift ? gen_lshr(b, x, gen_i32(b, shift)) : x;
}

/* --- which vectors a thread has --- */

/* Vector number `at` (i32) of the tile: neighbours are neighbours in memory. */
static void find_vector(mma_emitter *e, const mma_tile *t, gen_value at, mma_vector *v) {
  gen_builder *b = e->b;
  int width = t->options.width, across = (t->along_k ? e->p->block_k : t->extent) / width;
  gen_value along = gen_mul_imm(b, low_bits(b, at, across), width), other = over(b, at, across);
  gen_value row = t->along_k ? other : along;
  v->k = t->along_k ? along : other;
  v->row = t->k_major ? row : v->k;
  v->column = t->k_major ? v->k : row;

  bool a = t->operand->side == CONTRACTION_A;
  gen_value place = gen_add(b, a ? e->m0 : e->n0, mma_index(e, row));
  gen_value extent = gen_param(b, a ? e->k->m : e->k->n);
  v->valid = gen_compare(b, GEN_ULT, place, a ? e->m_end : extent);
  gen_value last = gen_sub(b, extent, mma_index_imm(e, t->along_k ? 1 : width));
  for (int l = 0; l < e->c->form.n_loops; l++) v->loops[l] = e->loops[l];
  mma_split_loops(e, rows_of(e, t), gen_umin(b, place, last), v->loops);
}

static void set_loops(mma_emitter *e, const mma_vector *v, lanes *l, gen_value k) {
  unsigned outer = e->c->batch.set | e->c->m.set | e->c->n.set;
  gen_value ks[IR_FORM_LOOPS];
  for (int i = 0; i < e->c->form.n_loops; i++)
    if (outer >> i & 1 && v->loops[i]) lanes_set(l, i, v->loops[i]);
  mma_split_loops(e, &e->c->k, k, ks);
  for (int i = 0; i < e->c->k.n; i++) lanes_set(l, e->c->k.loops[i], ks[e->c->k.loops[i]]);
}

static arke_status evaluator(mma_emitter *e, int tile, lanes **l, arke_error *err) {
  lanes_options o = e->p->tiles[tile].options;
  o.user = e->k;
  return lanes_create(e->b, &e->c->form, &o, &e->k->tile_slots[tile], e->k->a, l, err);
}

static arke_status pointer(mma_emitter *e, int tile, const mma_vector *v, gen_value k, gen_value *address,
                           arke_error *err) {
  lanes *l;
  TRY(evaluator(e, tile, &l, err));
  set_loops(e, v, l, k);
  return lanes_pointer(l, e->p->tiles[tile].access, address, err);
}

static arke_status init_tile(mma_emitter *e, int tile, arke_error *err) {
  gen_builder *b = e->b;
  const mma_tile *t = &e->p->tiles[tile];
  mma_vector *v = e->vectors[tile] = ARENA_NEW_N(e->k->a, mma_vector, (size_t)t->per_thread);
  if (!v) return error_memory(err, STAGE);
  for (int i = 0; i < t->per_thread; i++) {
    gen_value at = gen_add_imm(b, e->thread, (int64_t)i * e->p->threads);
    v[i] = (mma_vector){.l = NULL};
    if (t->vectors < e->p->threads) {
      v[i].exists = gen_compare_imm(b, GEN_ULT, at, t->vectors);
      at = low_bits(b, at, t->vectors);
    }
    find_vector(e, t, at, &v[i]);
    if (t->copied) TRY(pointer(e, tile, &v[i], mma_index(e, v[i].k), &v[i].address, err));
  }
  if (!t->copied) return ARKE_OK;
  gen_value first, next;
  TRY(pointer(e, tile, &v[0], mma_index_imm(e, 0), &first, err));
  TRY(pointer(e, tile, &v[0], mma_index_imm(e, e->p->block_k), &next, err));
  e->k_step_bytes[tile] = gen_sub(b, next, first);
  return ARKE_OK;
}

arke_status mma_load_init(mma_emitter *e, arke_error *err) {
  for (int i = 0; i < e->c->n_operands; i++) TRY(init_tile(e, i, err));
  return ARKE_OK;
}

/* k of a vector in a k-step, as an index, and whether the operator has it. */
static gen_value k_of(mma_emitter *e, const mma_vector *v, gen_value step) {
  gen_value k = gen_mul_imm(e->b, mma_index(e, step), e->p->block_k);
  return gen_add(e->b, k, mma_index(e, v->k));
}

static gen_value shared_address(mma_emitter *e, const mma_tile *t, gen_value stage, gen_value row,
                                gen_value column) {
  gen_builder *b = e->b;
  int in_chunk = 16 / t->bytes;
  gen_value at = mma_chunk_offset(b, t, row, over(b, column, in_chunk));
  at = gen_add(b, at, gen_mul_imm(b, low_bits(b, column, in_chunk), t->bytes));
  return gen_add(b, gen_add_imm(b, stage, t->offset_bytes), at);
}

/* --- copied --- */

static void copy_vector(mma_emitter *e, int tile, const mma_vector *v, gen_value step, gen_value stage) {
  gen_builder *b = e->b;
  const mma_tile *t = &e->p->tiles[tile];
  int bytes = t->options.width * t->bytes;
  gen_value inside = gen_and(b, v->valid, gen_compare(b, GEN_ULT, k_of(e, v, step), e->k_extent));
  gen_value available = gen_select(b, inside, gen_i32(b, bytes), gen_i32(b, 0));
  gen_value advance = gen_mul(b, gen_zext(b, step, GEN_I64), e->k_step_bytes[tile]);
  gen_branch branch;
  if (v->exists) gen_if(b, &branch, v->exists, NULL, 0);
  gen_cp_async(b, shared_address(e, t, stage, v->row, v->column), gen_add(b, v->address, advance), bytes,
               available);
  if (v->exists) gen_if_end(b, &branch);
}

void mma_copy_tiles(mma_emitter *e, gen_value step, gen_value stage) {
  for (int tile = 0; tile < e->c->n_operands; tile++) {
    const mma_tile *t = &e->p->tiles[tile];
    for (int i = 0; t->copied && i < t->per_thread; i++)
      copy_vector(e, tile, &e->vectors[tile][i], step, stage);
  }
}

/* --- through registers --- */

/* Whether the operand's elements go as they are. */
static bool is_moved(const mma_emitter *e, const mma_tile *t) {
  return t->access >= 0 && e->c->sums[0].n_conditions == 0;
}

/* The loads of a k-step; their values are used by mma_put_tiles, at the same step. */
arke_status mma_fetch_tiles(mma_emitter *e, gen_value step, arke_error *err) {
  gen_builder *b = e->b;
  for (int tile = 0; tile < e->c->n_operands; tile++) {
    const mma_tile *t = &e->p->tiles[tile];
    for (int i = 0; !t->copied && i < t->per_thread; i++) {
      mma_vector *v = &e->vectors[tile][i];
      gen_value last = gen_sub(b, e->k_extent, mma_index_imm(e, t->along_k ? t->options.width : 1));
      TRY(evaluator(e, tile, &v->l, err));
      set_loops(e, v, v->l, gen_umin(b, k_of(e, v, step), last));
      for (int f = 0; f < t->operand->n_factors; f++) TRY(lanes_load(v->l, t->operand->factors[f], err));
    }
  }
  return ARKE_OK;
}

static gen_value as_sum_type(gen_builder *b, gen_value x, gen_type type) {
  gen_type from = gen_type_of(b, x);
  if (from == type) return x;
  if (gen_is_float(b, x)) return gen_float_cast(b, x, type);
  if (type == GEN_F32 || type == GEN_F64) return gen_int_to_float(b, x, type, from != GEN_I1);
  if (from == GEN_I1) return gen_zext(b, x, type);
  return from == GEN_I64 ? gen_trunc(b, x, type) : gen_sext(b, x, type);
}

/* The type that factors are multiplied in. */
static gen_type factor_type(const mma_emitter *e, const mma_tile *t) {
  gen_type sum = e->p->product.sum;
  return e->c->sums[0].type == DTYPE_F32 && dtype_class_of(t->element) == DTYPE_CLASS_FLOAT ? GEN_F32 : sum;
}

static gen_value zero_of(gen_builder *b, gen_type type) {
  if (type == GEN_F32 || type == GEN_F64) return gen_float_cast(b, gen_f32(b, 0), type);
  return type == GEN_I64 ? gen_i64(b, 0) : gen_i32(b, 0);
}

static gen_value times(gen_builder *b, gen_value x, gen_value y) {
  return gen_is_float(b, x) ? gen_fmul(b, x, y) : gen_mul(b, x, y);
}

/* The product of the factors in every lane; `width` values. */
static arke_status operand_values(mma_emitter *e, const mma_tile *t, lanes *l, gen_value *values,
                                  arke_error *err) {
  gen_builder *b = e->b;
  gen_type type = factor_type(e, t);
  int n;
  for (int f = 0; f < t->operand->n_factors; f++) {
    gen_value factor[LANES_MAX];
    TRY(lanes_eval(l, t->operand->factors[f], factor, &n, err));
    for (int i = 0; i < t->options.width; i++) {
      gen_value x = as_sum_type(b, factor[n == 1 ? 0 : i], type);
      values[i] = f == 0 ? x : times(b, values[i], x);
    }
  }
  unsigned outer = e->c->batch.set | e->c->m.set | e->c->n.set;
  const contraction_sum *s = &e->c->sums[0];
  for (int k = 0; k < s->n_conditions; k++) {
    gen_value holds[LANES_MAX];
    if (!(ir_form_free(&e->c->form, s->conditions[k]) & ~outer)) continue; /* of the whole sum */
    TRY(lanes_eval(l, s->conditions[k], holds, &n, err));
    for (int i = 0; i < t->options.width; i++)
      values[i] = gen_select(b, holds[n == 1 ? 0 : i], values[i], zero_of(b, type));
  }
  return ARKE_OK;
}

static int vector_word_count(const mma_tile *t) {
  return (t->options.width * t->bytes + 3) / 4;
}

/* A value as bf16 parts, each what the ones before leave, cut to 8 digits: three are exact. All have the
 * value's sign and none is 0 where the value is not, nor finite where it is not: so an infinite factor gives
 * with each what it gives with the value. */
static void split_value(gen_builder *b, gen_value x, int parts, gen_value *values) {
  gen_value bits = gen_bitcast(b, x, GEN_I32, 1);
  gen_value exponent = gen_and(b, bits, gen_i32(b, 0x7F800000)), rest = x;
  gen_value special = gen_compare_imm(b, GEN_EQ, exponent, 0x7F800000);
  gen_value tiny = gen_fmul(b, x, gen_f32(b, 0x1p-60));
  for (int i = 0; i < parts; i++) {
    gen_value top = gen_and(b, gen_bitcast(b, rest, GEN_I32, 1), gen_i32(b, -0x10000));
    gen_value part = gen_bitcast(b, top, GEN_F32, 1);
    values[i] = gen_select(b, special, x, part);
    rest = gen_fsub(b, rest, part);
    rest = gen_select(b, gen_compare(b, GEN_EQ, rest, gen_f32(b, 0)), tiny, rest);
  }
}

/* Elements of the tile as 32-bit words, `width` of them, part after part. */
static arke_status vector_words(mma_emitter *e, const mma_tile *t, lanes *l, gen_value *words,
                                arke_error *err) {
  gen_builder *b = e->b;
  gen_value values[LANES_MAX];
  int n, width = t->options.width;
  if (!is_moved(e, t)) {
    gen_value parts[LANES_MAX][MMA_PARTS];
    TRY(operand_values(e, t, l, values, err));
    for (int i = 0; t->parts > 1 && i < width; i++) split_value(b, values[i], t->parts, parts[i]);
    for (int part = 0; part < t->parts; part++) {
      for (int i = 0; t->parts > 1 && i < width; i++) values[i] = parts[i][part];
      gen_pack(b, t->element, values, width, words + part * vector_word_count(t));
    }
    return ARKE_OK;
  }
  TRY(lanes_elements(l, t->access, values, &n, err));
  for (int i = n; i < width; i++) values[i] = values[0];
  int bits = 8 * t->bytes, all = bits * width;
  if (all < 32) {
    words[0] = gen_zext(b,
                        gen_bitcast(b, width == 1 ? values[0] : gen_vector(b, values, width),
                                    all == 16 ? GEN_I16 : GEN_I8, 1),
                        GEN_I32);
    return ARKE_OK;
  }
  gen_value whole = gen_bitcast(b, width == 1 ? values[0] : gen_vector(b, values, width), GEN_I32, all / 32);
  for (int i = 0; i < all / 32; i++) words[i] = all == 32 ? whole : gen_lane(b, whole, i);
  return ARKE_OK;
}

/* `bytes` (1 … 16) of the words, from byte `at` on. */
static gen_value piece_of(gen_builder *b, const gen_value *words, int at, int bytes) {
  if (bytes >= 4) return bytes == 4 ? words[at / 4] : gen_vector(b, &words[at / 4], bytes / 4);
  gen_value word = at % 4 ? gen_lshr(b, words[at / 4], gen_i32(b, at % 4 * 8)) : words[at / 4];
  return gen_trunc(b, word, bytes == 1 ? GEN_I8 : GEN_I16);
}

/* Vectors that run across the tile's rows are put element by element. */
static void put_words(mma_emitter *e, const mma_tile *t, const mma_vector *v, gen_value tile,
                      const gen_value *words) {
  gen_builder *b = e->b;
  bool same = t->along_k == t->k_major;
  int bytes = t->options.width * t->bytes, piece = !same ? t->bytes : bytes < 16 ? bytes : 16;
  for (int at = 0; at < bytes; at += piece) {
    gen_value row = same ? v->row : gen_add_imm(b, v->row, at / t->bytes);
    gen_value column = same ? gen_add_imm(b, v->column, at / t->bytes) : v->column;
    gen_store_shared(b, piece_of(b, words, at, piece), shared_address(e, t, tile, row, column));
  }
}

static arke_status put_vector(mma_emitter *e, const mma_tile *t, mma_vector *v, gen_value step,
                              gen_value stage, arke_error *err) {
  gen_builder *b = e->b;
  gen_value words[2 * MMA_PARTS * LANES_MAX];
  int n = vector_word_count(t);
  TRY(vector_words(e, t, v->l, words, err));
  gen_value inside = gen_and(b, v->valid, gen_compare(b, GEN_ULT, k_of(e, v, step), e->k_extent));
  for (int i = 0; i < t->parts * n; i++) words[i] = gen_select(b, inside, words[i], gen_i32(b, 0));
  gen_branch branch;
  if (v->exists) gen_if(b, &branch, v->exists, NULL, 0);
  for (int part = 0; part < t->parts; part++)
    put_words(e, t, v, gen_add_imm(b, stage, (int64_t)part * t->tile_bytes), words + part * n);
  if (v->exists) gen_if_end(b, &branch);
  return ARKE_OK;
}

arke_status mma_put_tiles(mma_emitter *e, gen_value step, gen_value stage, arke_error *err) {
  for (int tile = 0; tile < e->c->n_operands; tile++) {
    const mma_tile *t = &e->p->tiles[tile];
    for (int i = 0; !t->copied && i < t->per_thread; i++)
      TRY(put_vector(e, t, &e->vectors[tile][i], step, stage, err));
  }
  return ARKE_OK;
}
