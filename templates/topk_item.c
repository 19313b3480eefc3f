/* Candidates as unsigned numbers that all differ. */
#include <math.h>

#include "generator/gen_bits.h"
#include "generator/gen_memory.h"
#include "generator/gen_warp.h"
#include "templates/topk.h"

bool topk_is_wide(const topk_match *m) {
  return m->type == GEN_F64 || m->type == GEN_I64;
}

int topk_item_bytes(bool wide) {
  return wide ? 12 : 8;
}

/* Signed integers in the order of unsigned ones. */
static gen_value flip_sign(gen_builder *b, gen_value x) {
  bool wide = gen_type_of(b, x) == GEN_I64;
  return gen_xor(b, x, wide ? gen_i64(b, INT64_MIN) : gen_i32(b, INT32_MIN));
}

static gen_value key_of(gen_builder *b, const topk_match *m, gen_value x) {
  bool wide = topk_is_wide(m);
  if (!gen_is_float(b, x)) return flip_sign(b, x);
  gen_value zero = gen_f32(b, 0);
  if (wide) zero = gen_float_cast(b, zero, GEN_F64);
  gen_value is_nan = gen_compare(b, GEN_NE, x, x);
  gen_value key = gen_float_to_ordered(b, gen_fadd(b, x, zero)); /* -0 + 0 is 0 */
  return gen_select(b, is_nan, wide ? gen_i64(b, -1) : gen_i32(b, -1), key);
}

static gen_value value_of(gen_builder *b, const topk_match *m, gen_value key) {
  if (m->type == GEN_F32 || m->type == GEN_F64) return gen_ordered_to_float(b, key, m->type);
  return flip_sign(b, key);
}

topk_item topk_item_make(gen_builder *b, const topk_match *m, gen_value value, gen_value position) {
  gen_value place = gen_xor(b, position, gen_i32(b, -1)), key = key_of(b, m, value);
  if (topk_is_wide(m)) return (topk_item){key, place};
  gen_value high = gen_shl(b, gen_zext(b, key, GEN_I64), gen_i64(b, 32));
  return (topk_item){gen_or(b, high, gen_zext(b, place, GEN_I64)), NULL};
}

topk_item topk_item_floor(gen_builder *b, topk_item x) {
  if (x.place) return (topk_item){x.key, gen_i32(b, 0)};
  return (topk_item){gen_and(b, x.key, gen_i64(b, -(INT64_C(1) << 32))), NULL};
}

topk_item topk_item_none(gen_builder *b, const topk_match *m) {
  return (topk_item){gen_i64(b, 0), topk_is_wide(m) ? gen_i32(b, 0) : NULL};
}

gen_value topk_item_is_none(gen_builder *b, topk_item x) {
  gen_value none = gen_compare_imm(b, GEN_EQ, x.key, 0);
  return x.place ? gen_and(b, none, gen_compare_imm(b, GEN_EQ, x.place, 0)) : none;
}

static gen_value upper_half(gen_builder *b, gen_value x) {
  return gen_trunc(b, gen_lshr(b, x, gen_i64(b, 32)), GEN_I32);
}

/* What topk gives where there are fewer candidates than winners. */
static gen_value nothing(gen_builder *b, const topk_match *m) {
  switch (m->type) {
  case GEN_F64: return gen_float_cast(b, gen_f32(b, -INFINITY), GEN_F64);
  case GEN_F32: return gen_f32(b, -INFINITY);
  case GEN_I64: return gen_i64(b, INT64_MIN);
  default: return gen_i32(b, INT32_MIN);
  }
}

gen_value topk_item_bound(gen_builder *b, const topk_match *m, topk_item x) {
  return value_of(b, m, x.place ? x.key : upper_half(b, x.key));
}

gen_value topk_item_value(gen_builder *b, const topk_match *m, topk_item x) {
  return gen_select(b, topk_item_is_none(b, x), nothing(b, m), topk_item_bound(b, m, x));
}

gen_value topk_item_position(gen_builder *b, topk_item x) {
  gen_value place = x.place ? x.place : gen_trunc(b, x.key, GEN_I32);
  return gen_xor(b, place, gen_i32(b, -1)); /* of nothing: -1 */
}

gen_value topk_item_above(gen_builder *b, topk_item x, topk_item y) {
  gen_value above = gen_compare(b, GEN_ULT, y.key, x.key);
  if (!x.place) return above;
  gen_value same = gen_compare(b, GEN_EQ, x.key, y.key);
  return gen_or(b, above, gen_and(b, same, gen_compare(b, GEN_ULT, y.place, x.place)));
}

topk_item topk_item_select(gen_builder *b, gen_value condition, topk_item x, topk_item y) {
  return (topk_item){gen_select(b, condition, x.key, y.key),
                     x.place ? gen_select(b, condition, x.place, y.place) : NULL};
}

topk_item topk_item_shuffle_xor(gen_builder *b, topk_item x, int distance) {
  gen_value across = gen_i32(b, distance);
  return (topk_item){gen_shuffle_xor(b, x.key, across, 32),
                     x.place ? gen_shuffle_xor(b, x.place, across, 32) : NULL};
}

topk_item topk_item_from_lane(gen_builder *b, topk_item x, gen_value lane) {
  return (topk_item){gen_shuffle_idx(b, x.key, lane, 32),
                     x.place ? gen_shuffle_idx(b, x.place, lane, 32) : NULL};
}

topk_item topk_item_load_shared(gen_builder *b, bool wide, gen_value base, int capacity, gen_value index) {
  gen_value place = NULL;
  if (wide) {
    gen_value places = gen_add_imm(b, base, 8 * (int64_t)capacity);
    place = gen_load_shared(b, GEN_I32, 1, gen_add(b, places, gen_mul_imm(b, index, 4)));
  }
  return (topk_item){gen_load_shared(b, GEN_I64, 1, gen_add(b, base, gen_mul_imm(b, index, 8))), place};
}

void topk_item_store_shared(gen_builder *b, topk_item x, gen_value base, int capacity, gen_value index) {
  gen_store_shared(b, x.key, gen_add(b, base, gen_mul_imm(b, index, 8)));
  if (!x.place) return;
  gen_value places = gen_add_imm(b, base, 8 * (int64_t)capacity);
  gen_store_shared(b, x.place, gen_add(b, places, gen_mul_imm(b, index, 4)));
}

topk_item topk_item_load_global(gen_builder *b, bool wide, gen_value keys, gen_value places,
                                gen_value index) {
  topk_item x = {gen_load_global(b, GEN_I64, 1, gen_add(b, keys, gen_mul_imm(b, index, 8)), true), NULL};
  if (wide) x.place = gen_load_global(b, GEN_I32, 1, gen_add(b, places, gen_mul_imm(b, index, 4)), true);
  return x;
}

void topk_item_store_global(gen_builder *b, topk_item x, gen_value keys, gen_value places, gen_value index) {
  gen_store_global(b, x.key, gen_add(b, keys, gen_mul_imm(b, index, 8)));
  if (x.place) gen_store_global(b, x.place, gen_add(b, places, gen_mul_imm(b, index, 4)));
}

int topk_item_values(topk_item x, gen_value *values) {
  values[0] = x.key;
  if (!x.place) return 1;
  values[1] = x.place;
  return 2;
}

topk_item topk_item_of(bool wide, const gen_value *values) {
  return (topk_item){values[0], wide ? values[1] : NULL};
}
