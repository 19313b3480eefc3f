/* Registers of which a part holds a value. For sm_100, LLVM packs pairs of 32-bit values where it wants one,
 * and leaves the other half as it is; then it takes what it wants out again by mov, shr or cvt. Those hand on
 * what they find, 16 bits at a time. Whatever else reads such a register is at fault. */
#include "emulator/alu_internal.h"

enum { PART_BITS = 16 };

static bool is_word(ptx_type type) {
  ptx_type_reading kind = ptx_type_kind(type);
  return kind == PTX_KIND_OF_BITS || kind == PTX_KIND_OF_UNSIGNED || kind == PTX_KIND_OF_SIGNED;
}

static bool is_truncation(const ptx_instruction *i) {
  int to = ptx_type_bits((ptx_type)i->type[0]), from = ptx_type_bits((ptx_type)i->type[1]);
  if (!is_word((ptx_type)i->type[0]) || !is_word((ptx_type)i->type[1])) return false;
  return to < from && to >= PART_BITS && (i->flags & PTX_FLAG_SAT) == 0;
}

/* Parts that the instruction moves down by; -1: it hands on none. */
static int distance(const ptx_instruction *i) {
  const ptx_operand *by = &i->operands[2];
  int bits = ptx_type_bits((ptx_type)i->type[0]);
  switch (i->opcode) {
  case PTX_MOV: return bits >= PART_BITS && bits <= PTX_PARTS * PART_BITS ? 0 : -1;
  case PTX_CVT: return is_truncation(i) ? 0 : -1;
  case PTX_SHR:
    if (by->kind != PTX_OPERAND_IMMEDIATE || ptx_type_kind((ptx_type)i->type[0]) == PTX_KIND_OF_SIGNED)
      return -1;
    return by->value < (uint64_t)bits && by->value % PART_BITS == 0 ? (int)by->value / PART_BITS : -1;
  default: return -1;
  }
}

static int parts_of(const ptx_operand *o) {
  return o->bytes * 8 / PART_BITS;
}

/* Appends those of one operand; constants and the like hold values throughout. */
static int append(const ptx_operand *o, const ptx_registers *r, int width, uint32_t has[PTX_PARTS], int n) {
  for (int k = 0; k < width && n < PTX_PARTS; k++, n++) {
    bool part = o->kind == PTX_OPERAND_REGISTER && k < parts_of(o);
    has[n] = part ? r->written[o->slot] | r->part_written[o->slot][k] : PTX_FULL_MASK;
  }
  return n;
}

bool alu_hands_on_parts(const ptx_instruction *i, const ptx_registers *r, alu_parts *parts) {
  const ptx_operand *from = &i->operands[1];
  if (i->guard != PTX_NOWHERE) return false;
  int down = distance(i), n = 0;
  if (down < 0) return false;
  uint32_t has[PTX_PARTS];
  if (from->kind == PTX_OPERAND_VECTOR) {
    int width = ptx_type_bits((ptx_type)i->type[0]) / (int)from->n / PART_BITS;
    if (width == 0) return false;
    for (uint32_t k = 0; k < from->n; k++) n = append(&from->elements[k], r, width, has, n);
  } else {
    n = append(from, r, PTX_PARTS, has, n);
  }
  for (int k = 0; k < PTX_PARTS; k++) parts->has[k] = k + down < n ? has[k + down] : PTX_FULL_MASK;
  /* A wider register is filled by the number's sign. */
  int width = ptx_type_bits((ptx_type)i->type[0]) / PART_BITS;
  for (int k = width; k < PTX_PARTS; k++) parts->has[k] = parts->has[width - 1];
  return true;
}

static int keep(const ptx_operand *o, ptx_registers *r, const uint32_t *has, uint32_t active) {
  uint32_t all = PTX_FULL_MASK;
  if (o->kind != PTX_OPERAND_REGISTER) return 0;
  for (int k = 0; k < parts_of(o); k++) {
    uint32_t *part = &r->part_written[o->slot][k];
    *part = (*part & ~active) | (has[k] & active);
    all &= has[k];
  }
  r->written[o->slot] &= ~(active & ~all);
  return parts_of(o);
}

void alu_keep_parts(const ptx_instruction *i, ptx_registers *r, const alu_parts *parts, uint32_t active) {
  const ptx_operand *to = &i->operands[0];
  if (to->kind != PTX_OPERAND_VECTOR) {
    keep(to, r, parts->has, active);
    return;
  }
  int width = ptx_type_bits((ptx_type)i->type[0]) / (int)to->n / PART_BITS;
  for (uint32_t k = 0; k < to->n && width > 0; k++)
    keep(&to->elements[k], r, parts->has + (int)k * width, active);
}
