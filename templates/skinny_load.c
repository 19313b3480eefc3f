/* What a thread loads of the operands, as words so that it can wait in registers, and the values that come of
 * it. */
#include "generator/gen_bits.h"
#include "generator/gen_convert.h"
#include "templates/skinny_emit.h"

void skinny_set(const skinny_emitter *e, lanes *l, const contraction_loops *loops, gen_value flat) {
  for (int i = loops->n - 1; i >= 0; i--) {
    gen_value extent = i ? lanes_extent(l, loops->loops[i]) : NULL;
    lanes_set(l, loops->loops[i], i ? gen_urem(e->b, flat, extent) : flat);
    if (i) flat = gen_udiv(e->b, flat, extent);
  }
}

gen_value skinny_k_of(const skinny_emitter *e, gen_value k, int u) {
  return gen_add_imm(e->b, k, (int64_t)u * skinny_unit(e->p));
}

/* --- places --- */

static gen_value at_most(skinny_emitter *e, gen_value x, int param) {
  return gen_umin(e->b, x, gen_sub(e->b, gen_param(e->b, param), skinny_index(e, 1)));
}

/* The row of weights of a slot, clamped to the last one: of a group, the first. */
static gen_value weight_row(skinny_emitter *e, int slot) {
  const skinny_plan *p = e->p;
  gen_value row = gen_add_imm(e->b, e->row, (int64_t)slot / p->group * p->across * p->group);
  if (p->group == 1) return at_most(e, row, e->k->n_weights);
  gen_value last = gen_sub(e->b, gen_param(e->b, e->k->n_weights), skinny_index(e, p->group));
  return gen_umin(e->b, row, last); /* groups begin at multiples of their size, and so does the end */
}

static gen_value token_row(skinny_emitter *e, int position) {
  gen_value token = gen_add_imm(e->b, e->token, (int64_t)position * (e->p->mma ? 8 : 1));
  if (e->p->mma) token = gen_add(e->b, token, skinny_as_index(e, e->across));
  return at_most(e, token, e->k->n_tokens);
}

/* Sets an evaluator to a vector of an operand: `k` is the first of its elements along K. */
static void set_position(skinny_emitter *e, lanes *l, bool token, int position, gen_value k) {
  const skinny_plan *p = e->p;
  skinny_set(e, l, &e->m->c.batch, e->batch);
  if (token) {
    skinny_set(e, l, e->m->tokens, token_row(e, position));
  } else if (e->m->along_rows) {
    int groups = p->slots / p->group;
    skinny_set(e, l, e->m->weights, weight_row(e, position % groups * p->group));
    k = gen_add_imm(e->b, k, position / groups);
  } else {
    skinny_set(e, l, e->m->weights, weight_row(e, position));
  }
  skinny_set(e, l, &e->m->c.k, k);
}

/* --- words --- */

/* Elements as they lie in memory. */
static void pack(gen_builder *b, dtype type, const gen_value *elements, int n, gen_value *words) {
  int bits = dtype_bits(type);
  if (bits < 8) {
    for (int i = 0; i < n; i++) {
      int at = i * bits % 32;
      gen_value low = gen_zext(b, elements[i], GEN_I32);
      gen_value *w = &words[i * bits / 32];
      *w = at ? gen_or(b, *w, gen_shl(b, low, gen_i32(b, at))) : low;
    }
    return;
  }
  gen_value all = n == 1 ? elements[0] : gen_vector(b, elements, n);
  int total = n * bits;
  if (total < 32) {
    words[0] = gen_zext(b, gen_bitcast(b, all, total == 8 ? GEN_I8 : GEN_I16, 1), GEN_I32);
    return;
  }
  all = gen_bitcast(b, all, GEN_I32, total / 32);
  for (int i = 0; i < total / 32; i++) words[i] = total == 32 ? all : gen_lane(b, all, i);
}

static void unpack_storage(gen_builder *b, dtype type, const gen_value *words, int n, gen_value *elements) {
  int bits = dtype_bits(type), total = n * bits;
  gen_type storage = gen_storage_type(type);
  if (bits < 8) {
    for (int i = 0; i < n; i++)
      elements[i] = gen_nibble(b, words[i * bits / 32], gen_i32(b, i * bits % 32 / bits));
    return;
  }
  gen_value all;
  if (total < 32) {
    all = gen_bitcast(b, gen_trunc(b, words[0], total == 8 ? GEN_I8 : GEN_I16), storage, n);
  } else {
    all = total == 32 ? words[0] : gen_vector(b, words, total / 32);
    all = gen_bitcast(b, all, storage, n);
  }
  for (int i = 0; i < n; i++) elements[i] = n == 1 ? all : gen_lane(b, all, i);
}

static dtype read_type(const skinny_match *m, const skinny_read *r) {
  return ir_tensor_dtype(m->c.form.problem, m->c.form.accesses[r->access].tensor);
}

int skinny_words_at(const skinny_emitter *e, int operand, int u, int position) {
  const skinny_plan *p = e->p;
  int at = 0;
  for (int i = 0; i <= operand; i++) {
    int positions = skinny_is_token(e->m, i) ? p->token_positions : p->weight_positions;
    int each = skinny_words_of(e->m, p, i);
    at += i < operand ? positions * p->unroll * each : (u * positions + position) * each;
  }
  return at;
}

/* --- loading --- */

static arke_status load_operand(skinny_emitter *e, lanes *l, int operand, int u, gen_value k,
                                skinny_batch *batch, arke_error *err) {
  const skinny_match *m = e->m;
  const skinny_operand *o = &m->operands[operand];
  bool token = skinny_is_token(m, operand);
  int positions = token ? e->p->token_positions : e->p->weight_positions;
  for (int i = 0; i < positions; i++) {
    gen_value *words = batch->words + skinny_words_at(e, operand, u, i);
    set_position(e, l, token, i, k);
    for (int r = 0; r < o->n_reads; r++) {
      gen_value elements[LANES_MAX];
      int n, expected = skinny_elements(m, e->p, operand, &o->reads[r]);
      TRY(lanes_elements(l, o->reads[r].access, elements, &n, err));
      if (n < expected)
        return error_set(err, ARKE_ERR_INTERNAL, "generate", "%d elements where %d are expected", n,
                         expected);
      dtype type = read_type(m, &o->reads[r]);
      pack(e->b, type, elements, expected, words); /* one where all lanes have the same */
      words += gen_packed_words(type, expected);
    }
  }
  return ARKE_OK;
}

static arke_status new_lanes(skinny_emitter *e, bool token, uint64_t given, lanes **l, arke_error *err);

arke_status skinny_load(skinny_emitter *e, gen_value k, skinny_batch *batch, arke_error *err) {
  const skinny_match *m = e->m;
  lanes *sides[2];
  for (int token = 0; token < 2; token++) TRY(new_lanes(e, token, 0, &sides[token], err));
  batch->n = e->p->words;
  gen_value last = gen_sub(e->b, e->k_end, skinny_index(e, e->p->step));
  for (int u = 0; u < e->p->unroll; u++) {
    gen_value first = gen_umin(e->b, skinny_k_of(e, k, u), last);
    for (int i = 0; i < m->c.n_operands; i++)
      TRY(load_operand(e, sides[skinny_is_token(m, i)], i, u, first, batch, err));
  }
  return ARKE_OK;
}

/* --- values --- */

gen_value skinny_convert(gen_builder *b, gen_value x, gen_type type) {
  gen_type from = gen_type_of(b, x);
  if (from == type) return x;
  if (gen_is_float(b, x)) return gen_float_cast(b, x, type);
  if (type == GEN_F32 || type == GEN_F64) return gen_int_to_float(b, x, type, from != GEN_I1);
  if (from == GEN_I64) return gen_trunc(b, x, type);
  return from == GEN_I1 ? gen_zext(b, x, type) : gen_sext(b, x, type);
}

/* Elements of a read, out of the words of the vector at hand. */
static arke_status waiting(void *user, int access, gen_value *elements, arke_error *err) {
  skinny_emitter *e = ((skinny_kernel *)user)->current;
  const skinny_operand *o = &e->m->operands[e->operand];
  const gen_value *words = e->words;
  for (int r = 0; r < o->n_reads; r++) {
    dtype type = read_type(e->m, &o->reads[r]);
    int n = skinny_elements(e->m, e->p, e->operand, &o->reads[r]);
    if (o->reads[r].access == access) {
      unpack_storage(e->b, type, words, n, elements);
      for (int i = n; n == 1 && i < LANES_MAX; i++) elements[i] = elements[0];
      return ARKE_OK;
    }
    words += gen_packed_words(type, n);
  }
  return error_set(err, ARKE_ERR_INTERNAL, "generate", "a read that the operand does not have");
}

static arke_status new_lanes(skinny_emitter *e, bool token, uint64_t given, lanes **l, arke_error *err) {
  lanes_options o = token ? e->k->tokens : e->k->weights;
  o.given = given;
  o.read = waiting;
  const lanes_args *slots = token ? &e->k->token_slots : &e->k->weight_slots;
  return lanes_create(e->b, &e->m->c.form, &o, slots, e->k->a, l, err);
}

static arke_status computed(skinny_emitter *e, int operand, unsigned factors, int position, gen_value k,
                            gen_value *values, int *n, arke_error *err) {
  const contraction_operand *c = &e->m->c.operands[operand];
  const skinny_operand *o = &e->m->operands[operand];
  gen_type type = skinny_sum_type(e->m);
  uint64_t given = 0;
  lanes *l;
  for (int r = 0; r < o->n_reads; r++) given |= UINT64_C(1) << o->reads[r].access;
  bool token = skinny_is_token(e->m, operand);
  TRY(new_lanes(e, token, given, &l, err));
  set_position(e, l, token, position, k);
  *n = 1;
  bool some = false;
  for (int f = 0; f < c->n_factors; f++) {
    gen_value factor[LANES_MAX];
    int lanes_of;
    if (!(factors >> f & 1)) continue;
    TRY(lanes_eval(l, c->factors[f], factor, &lanes_of, err));
    for (int i = 0; i < lanes_of; i++) factor[i] = skinny_convert(e->b, factor[i], type);
    for (int i = *n; some && i < lanes_of; i++) values[i] = values[0]; /* one so far: the same in all lanes */
    if (lanes_of > *n) *n = lanes_of;
    for (int i = 0; i < *n; i++) {
      gen_value x = factor[lanes_of == 1 ? 0 : i];
      bool is_float = type == GEN_F32 || type == GEN_F64;
      values[i] = !some ? x : is_float ? gen_fmul(e->b, values[i], x) : gen_mul(e->b, values[i], x);
    }
    some = true;
  }
  return ARKE_OK;
}

/* Bytes as f32: conversions have a quarter of the rate of a permutation, which puts a byte into the last bits
 * of 2^23, and a sum. Signed ones are moved up by 128 before. */
static void bytes_to_floats(gen_builder *b, bool is_signed, const gen_value *words, int n,
                            gen_value *values) {
  gen_value large = gen_i32(b, 0x4B000000), flipped = NULL;
  gen_value offset = gen_f32(b, is_signed ? -(0x1p23 + 128) : -0x1p23);
  for (int i = 0; i < n; i++) {
    if (i % 4 == 0) flipped = is_signed ? gen_xor(b, words[i / 4], gen_i32(b, 0x80808080)) : words[i / 4];
    gen_value bits = gen_permute_bytes(b, flipped, large, gen_i32(b, 0x7540 + i % 4));
    values[i] = gen_fadd(b, gen_bitcast(b, bits, GEN_F32, 1), offset);
  }
}

arke_status skinny_values(skinny_emitter *e, int operand, unsigned factors, int position, gen_value k,
                          const gen_value *words, gen_value *values, int *n, arke_error *err) {
  const contraction_operand *c = &e->m->c.operands[operand];
  const skinny_operand *o = &e->m->operands[operand];
  unsigned all = (1u << c->n_factors) - 1, fast = all & ~o->slow;
  e->operand = operand;
  e->words = words;
  factors &= all;
  if (o->plain < 0 || factors != fast) return computed(e, operand, factors, position, k, values, n, err);
  for (int r = 0; r < o->plain; r++)
    words +=
        gen_packed_words(read_type(e->m, &o->reads[r]), skinny_elements(e->m, e->p, operand, &o->reads[r]));
  *n = skinny_elements(e->m, e->p, operand, &o->reads[o->plain]);
  dtype type = read_type(e->m, &o->reads[o->plain]);
  if (e->m->type == DTYPE_F32 && (type == DTYPE_I8 || type == DTYPE_U8)) {
    bytes_to_floats(e->b, type == DTYPE_I8, words, *n, values);
    return ARKE_OK;
  }
  gen_unpack(e->b, type, words, *n, values);
  for (int i = 0; i < *n; i++) values[i] = skinny_convert(e->b, values[i], skinny_sum_type(e->m));
  return ARKE_OK;
}
