/* mov: one value, or the parts of one register to or from several ({a, b} <-> c). */
#include "emulator/alu_internal.h"

static uint64_t part_mask(const ptx_instruction *i, uint32_t parts) {
  return alu_mask(ptx_type_bits((ptx_type)i->type[0]) / (int)parts);
}

/* A .b128 register is two slots, low half first; a part of it is one of them, or half of one. */
static const uint64_t *half_of(const ptx_operand *o, const alu_warp *w, uint32_t half) {
  return w->registers.value[o->slot + half];
}

static void write_half(const ptx_operand *o, alu_warp *w, uint32_t half, const uint64_t *v, uint32_t active) {
  ptx_operand one = *o;
  one.slot += half;
  alu_write(&one, &w->registers, v, active);
}

static bool move_128(alu_call *c) {
  const ptx_instruction *i = c->i;
  const ptx_operand *to = &i->operands[0], *from = &i->operands[1];
  uint64_t halves[2][PTX_LANES];
  if (to->kind == PTX_OPERAND_SINK) return true;
  if (from->kind == PTX_OPERAND_VECTOR) {
    memset(halves, 0, sizeof halves);
    int bits = 128 / (int)from->n;
    for (uint32_t k = 0; k < from->n; k++) {
      const uint64_t *v = alu_operand(&from->elements[k], c->warp, c->scratch[0]);
      uint32_t half = k * (uint32_t)bits / 64;
      for (int l = 0; l < PTX_LANES; l++) halves[half][l] |= (v[l] & alu_mask(bits)) << ((int)k * bits % 64);
    }
  } else if (from->kind == PTX_OPERAND_REGISTER) {
    for (uint32_t half = 0; half < 2; half++)
      memcpy(halves[half], half_of(from, c->warp, half), sizeof halves[half]);
  } else {
    memcpy(halves[0], alu_operand(from, c->warp, c->scratch[0]), sizeof halves[0]);
    memset(halves[1], 0, sizeof halves[1]);
  }
  if (to->kind == PTX_OPERAND_REGISTER) {
    for (uint32_t half = 0; half < 2; half++) write_half(to, c->warp, half, halves[half], c->active);
    return true;
  }
  int bits = 128 / (int)to->n;
  for (uint32_t k = 0; k < to->n; k++) {
    for (int l = 0; l < PTX_LANES; l++)
      c->out[l] = halves[k * (uint32_t)bits / 64][l] >> ((int)k * bits % 64) & alu_mask(bits);
    alu_write(&to->elements[k], &c->warp->registers, c->out, c->active);
  }
  return true;
}

static bool pack(alu_call *c, const ptx_operand *from) {
  const ptx_instruction *i = c->i;
  int bits = ptx_type_bits((ptx_type)i->type[0]) / (int)from->n;
  uint64_t mask = part_mask(i, from->n);
  memset(c->out, 0, sizeof c->out);
  for (uint32_t k = 0; k < from->n; k++) {
    const uint64_t *v = alu_operand(&from->elements[k], c->warp, c->scratch[0]);
    for (int l = 0; l < PTX_LANES; l++) c->out[l] |= (v[l] & mask) << ((int)k * bits);
  }
  alu_write(&i->operands[0], &c->warp->registers, c->out, c->active);
  return true;
}

static bool unpack(alu_call *c, const ptx_operand *to) {
  const ptx_instruction *i = c->i;
  int bits = ptx_type_bits((ptx_type)i->type[0]) / (int)to->n;
  uint64_t mask = part_mask(i, to->n), value[PTX_LANES];
  /* A copy: the source may be among the destinations. */
  memcpy(value, alu_operand(&i->operands[1], c->warp, c->scratch[0]), sizeof value);
  for (uint32_t k = 0; k < to->n; k++) {
    for (int l = 0; l < PTX_LANES; l++) c->out[l] = value[l] >> ((int)k * bits) & mask;
    alu_write(&to->elements[k], &c->warp->registers, c->out, c->active);
  }
  return true;
}

bool alu_mov(alu_call *c) {
  const ptx_instruction *i = c->i;
  if (i->type[0] == PTX_TYPE_B128) return move_128(c);
  if (i->operands[1].kind == PTX_OPERAND_VECTOR) return pack(c, &i->operands[1]);
  if (i->operands[0].kind == PTX_OPERAND_VECTOR) return unpack(c, &i->operands[0]);
  const uint64_t *v = alu_operand(&i->operands[1], c->warp, c->scratch[0]);
  alu_write(&i->operands[0], &c->warp->registers, v, c->active);
  return true;
}
