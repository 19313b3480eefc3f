/* Exchanges between the lanes of a warp (PTX ISA 9.7.9.6, 9.7.13). Each takes a mask of the lanes that take
 * part: an executing lane must be in its own mask, all must give the same mask, and every live lane named
 * must be executing; anything else is undefined on hardware or waits for ever, and a fault here. */
#include <math.h>

#include "emulator/alu_internal.h"

/* Whether all executing lanes say the same of the members. */
static bool same_masks(alu_call *c, const uint64_t *v, uint32_t mask, int first) {
  for (uint32_t left = c->active; left != 0; left &= left - 1) {
    int l = __builtin_ctz(left);
    if ((uint32_t)v[l] != mask)
      return alu_fail(c->fault, EMU_FAULT_DIVERGENCE, l, PTX_NOWHERE,
                      "lanes give different member masks: %#x in lane %d, %#x in lane %d", mask, first,
                      (uint32_t)v[l], l);
  }
  return true;
}

static bool members(alu_call *c, uint32_t operand, uint32_t *mask) {
  const uint64_t *v = alu_operand(&c->i->operands[operand], c->warp, c->scratch[3]);
  if (c->active == 0) {
    *mask = 0;
    return true;
  }
  int first = __builtin_ctz(c->active);
  *mask = (uint32_t)v[first];
  bool given_as_number = c->i->operands[operand].kind == PTX_OPERAND_IMMEDIATE;
  if (!given_as_number && !same_masks(c, v, *mask, first)) return false;
  uint32_t strangers = c->active & ~*mask, missing = *mask & ~c->active & ~c->warp->exited;
  if (strangers != 0)
    return alu_fail(c->fault, EMU_FAULT_DIVERGENCE, __builtin_ctz(strangers), PTX_NOWHERE,
                    "lane %d executes it but is not in the member mask %#x", __builtin_ctz(strangers), *mask);
  if (missing != 0)
    return alu_fail(c->fault, EMU_FAULT_DIVERGENCE, __builtin_ctz(missing), PTX_NOWHERE,
                    "the member mask %#x names lane %d, which is not here with the others (%#x)", *mask,
                    __builtin_ctz(missing), c->active);
  return true;
}

/* Where each lane reads from, itself where that is out of its range, and the lanes that are in it. The mode
 * is a constant where this is called: the loop is the emulator's longest in kernels that reduce. */
static inline __attribute__((always_inline)) uint32_t shfl_sources(ptx_mode mode, const uint64_t *by,
                                                                   const uint64_t *clamps, int *from) {
  uint32_t in_range = 0;
  for (int l = 0; l < PTX_LANES; l++) {
    uint32_t c = (uint32_t)clamps[l];
    int segment = (int)(c >> 8 & 31), clamp = (int)(c & 31), b = (int)((uint32_t)by[l] & 31);
    int highest = (l & segment) | (clamp & ~segment), at;
    switch (mode) {
    case PTX_MODE_UP: at = l - b; break;
    case PTX_MODE_DOWN: at = l + b; break;
    case PTX_MODE_BFLY: at = l ^ b; break;
    default: at = (l & segment) | (b & ~segment); break;
    }
    bool in = mode == PTX_MODE_UP ? at >= highest : at <= highest;
    in_range |= (uint32_t)in << l;
    from[l] = in ? at : l;
  }
  return in_range;
}

static uint32_t shfl_sources_of(ptx_mode mode, const uint64_t *by, const uint64_t *clamps, int *from) {
  switch (mode) {
  case PTX_MODE_UP: return shfl_sources(PTX_MODE_UP, by, clamps, from);
  case PTX_MODE_DOWN: return shfl_sources(PTX_MODE_DOWN, by, clamps, from);
  case PTX_MODE_BFLY: return shfl_sources(PTX_MODE_BFLY, by, clamps, from);
  default: return shfl_sources(PTX_MODE_IDX, by, clamps, from);
  }
}

bool alu_shfl(alu_call *c) {
  const ptx_instruction *i = c->i;
  bool pair = i->n_operands == 6;
  const ptx_operand *sources = &i->operands[pair ? 2 : 1];
  uint32_t mask;
  if (!members(c, i->n_operands - 1u, &mask)) return false;
  const uint64_t *value = alu_operand(&sources[0], c->warp, c->scratch[0]);
  const uint64_t *by = alu_operand(&sources[1], c->warp, c->scratch[1]);
  const uint64_t *clamp = alu_operand(&sources[2], c->warp, c->scratch[2]);
  /* Lanes that do not execute give and take nothing. */
  uint32_t absent = 0;
  int from[PTX_LANES];
  uint32_t predicate = shfl_sources_of((ptx_mode)i->mode, by, clamp, from);
  if (c->active != PTX_FULL_MASK)
    for (int l = 0; l < PTX_LANES; l++) absent |= (~c->active >> from[l] & 1) << l;
  absent &= c->active;
  if (absent != 0) {
    int l = __builtin_ctz(absent);
    return alu_fail(c->fault, EMU_FAULT_DIVERGENCE, l, PTX_NOWHERE,
                    "lane %d reads from lane %d, which does not execute it", l, from[l]);
  }
  for (int l = 0; l < PTX_LANES; l++) c->out[l] = value[from[l]];
  alu_write(&i->operands[0], &c->warp->registers, c->out, c->active);
  if (pair) alu_write_predicate(&i->operands[1], &c->warp->registers, predicate, c->active);
  return true;
}

static void broadcast(uint64_t *out, uint64_t v) {
  for (int l = 0; l < PTX_LANES; l++) out[l] = v;
}

bool alu_vote(alu_call *c) {
  const ptx_instruction *i = c->i;
  uint32_t mask;
  if (!members(c, 2, &mask)) return false;
  uint32_t votes = alu_predicate(&i->operands[1], c->warp) & c->active;
  bool all = votes == c->active, any = votes != 0, result = any;
  if (i->operation == PTX_OP_BALLOT) {
    broadcast(c->out, votes);
    alu_write(&i->operands[0], &c->warp->registers, c->out, c->active);
    return true;
  }
  if (i->operation == PTX_OP_ALL) result = all;
  if (i->operation == PTX_OP_UNI) result = all || !any;
  alu_write_predicate(&i->operands[0], &c->warp->registers, result ? PTX_FULL_MASK : 0, c->active);
  return true;
}

bool alu_match(alu_call *c) {
  const ptx_instruction *i = c->i;
  bool pair = i->n_operands == 4;
  uint32_t mask;
  if (!members(c, i->n_operands - 1u, &mask)) return false;
  const uint64_t *value = alu_operand(&i->operands[pair ? 2 : 1], c->warp, c->scratch[0]);
  uint32_t same_everywhere = c->active;
  memset(c->out, 0, sizeof c->out);
  for (uint32_t left = c->active; left != 0; left &= left - 1) {
    int l = __builtin_ctz(left);
    uint32_t same = 0;
    for (uint32_t others = c->active; others != 0; others &= others - 1) {
      int o = __builtin_ctz(others);
      same |= (uint32_t)(value[o] == value[l]) << o;
    }
    c->out[l] = same;
    same_everywhere &= same;
  }
  if (i->operation == PTX_OP_ALL) broadcast(c->out, same_everywhere == c->active ? c->active : 0);
  alu_write(&i->operands[0], &c->warp->registers, c->out, c->active);
  bool all = same_everywhere == c->active;
  if (pair) alu_write_predicate(&i->operands[1], &c->warp->registers, all ? PTX_FULL_MASK : 0, c->active);
  return true;
}

static uint64_t reduce_f32(const ptx_instruction *i, uint64_t a, uint64_t b) {
  float x = alu_as_f32(a), y = alu_as_f32(b);
  if ((i->flags & PTX_FLAG_ABS) != 0) x = fabsf(x), y = fabsf(y);
  bool nan = (i->flags & PTX_FLAG_NAN) != 0, max = i->operation == PTX_OP_MAX;
  if (isnan(x) || isnan(y)) {
    if (nan || (isnan(x) && isnan(y))) return 0x7fffffff;
    return alu_of_f32(isnan(x) ? y : x);
  }
  if (x == y) return alu_of_f32((signbit(x) != 0) == max ? y : x);
  return alu_of_f32((x < y) == max ? y : x);
}

static uint64_t reduce(const ptx_instruction *i, uint64_t a, uint64_t b) {
  if (i->type[0] == PTX_TYPE_F32) return reduce_f32(i, a, b);
  bool less = i->type[0] == PTX_TYPE_S32 ? (int32_t)a < (int32_t)b : a < b;
  switch (i->operation) {
  case PTX_OP_ADD: return (a + b) & 0xffffffff;
  case PTX_OP_MIN: return less ? a : b;
  case PTX_OP_MAX: return less ? b : a;
  case PTX_OP_AND: return a & b;
  case PTX_OP_OR: return a | b;
  default: return a ^ b;
  }
}

bool alu_redux(alu_call *c) {
  const ptx_instruction *i = c->i;
  uint32_t mask;
  if (!members(c, 2, &mask)) return false;
  if (c->active == 0) return true;
  const uint64_t *value = alu_operand(&i->operands[1], c->warp, c->scratch[0]);
  int first = __builtin_ctz(c->active);
  uint64_t r = value[first];
  if (i->type[0] == PTX_TYPE_F32) r = reduce_f32(i, r, r); /* .abs and the NaN of a single lane */
  for (uint32_t left = c->active & (c->active - 1); left != 0; left &= left - 1)
    r = reduce(i, r, value[__builtin_ctz(left)]);
  broadcast(c->out, r);
  alu_write(&i->operands[0], &c->warp->registers, c->out, c->active);
  return true;
}

bool alu_elect(alu_call *c) {
  const ptx_instruction *i = c->i;
  uint32_t mask;
  if (!members(c, 2, &mask)) return false;
  if (c->active == 0) return true;
  int leader = __builtin_ctz(c->active);
  broadcast(c->out, (uint64_t)leader);
  alu_write(&i->operands[0], &c->warp->registers, c->out, c->active);
  alu_write_predicate(&i->operands[1], &c->warp->registers, 1u << leader, c->active);
  return true;
}
