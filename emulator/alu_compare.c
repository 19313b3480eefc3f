/* setp and set: comparisons of every type, combined with a predicate. */
#include <math.h>

#include "emulator/alu_format.h"
#include "emulator/alu_internal.h"

#define LANES(condition)                                                                                     \
  do {                                                                                                       \
    for (int l = 0; l < PTX_LANES; l++) r |= (uint32_t)(condition) << l;                                     \
  } while (0)

static uint32_t compare_unsigned(ptx_compare compare, const uint64_t *a, const uint64_t *b) {
  uint32_t r = 0;
  switch (compare) {
  case PTX_CMP_EQ: LANES(a[l] == b[l]); break;
  case PTX_CMP_NE: LANES(a[l] != b[l]); break;
  case PTX_CMP_LT:
  case PTX_CMP_LO: LANES(a[l] < b[l]); break;
  case PTX_CMP_LE:
  case PTX_CMP_LS: LANES(a[l] <= b[l]); break;
  case PTX_CMP_GT:
  case PTX_CMP_HI: LANES(a[l] > b[l]); break;
  default: LANES(a[l] >= b[l]); break;
  }
  return r;
}

static uint32_t compare_signed(ptx_compare compare, int bits, const uint64_t *x, const uint64_t *y) {
  int64_t a[PTX_LANES], b[PTX_LANES];
  uint32_t r = 0;
  for (int l = 0; l < PTX_LANES; l++) {
    a[l] = alu_sign_extend(x[l], bits);
    b[l] = alu_sign_extend(y[l], bits);
  }
  switch (compare) {
  case PTX_CMP_EQ: LANES(a[l] == b[l]); break;
  case PTX_CMP_NE: LANES(a[l] != b[l]); break;
  case PTX_CMP_LT: LANES(a[l] < b[l]); break;
  case PTX_CMP_LE: LANES(a[l] <= b[l]); break;
  case PTX_CMP_GT: LANES(a[l] > b[l]); break;
  default: LANES(a[l] >= b[l]); break;
  }
  return r;
}

/* The comparisons without `u` are false when either value is NaN, those with it true. */
static uint32_t compare_float(ptx_compare compare, const double *a, const double *b) {
  uint32_t r = 0;
  switch (compare) {
  case PTX_CMP_EQ: LANES(a[l] == b[l]); break;
  case PTX_CMP_NE: LANES(a[l] < b[l] || a[l] > b[l]); break;
  case PTX_CMP_LT: LANES(a[l] < b[l]); break;
  case PTX_CMP_LE: LANES(a[l] <= b[l]); break;
  case PTX_CMP_GT: LANES(a[l] > b[l]); break;
  case PTX_CMP_GE: LANES(a[l] >= b[l]); break;
  case PTX_CMP_EQU: LANES(!(a[l] < b[l] || a[l] > b[l])); break;
  case PTX_CMP_NEU: LANES(a[l] != b[l]); break;
  case PTX_CMP_LTU: LANES(!(a[l] >= b[l])); break;
  case PTX_CMP_LEU: LANES(!(a[l] > b[l])); break;
  case PTX_CMP_GTU: LANES(!(a[l] <= b[l])); break;
  case PTX_CMP_GEU: LANES(!(a[l] < b[l])); break;
  case PTX_CMP_NUM: LANES(!isnan(a[l]) && !isnan(b[l])); break;
  default: LANES(isnan(a[l]) || isnan(b[l])); break;
  }
  return r;
}

static void load_floats(double *to, ptx_type type, bool ftz, const uint64_t *from) {
  const alu_format *format = alu_format_of(type);
  int fraction_bits = format->fraction_bits;
  uint64_t exponent = ((1ull << format->exponent_bits) - 1) << fraction_bits;
  for (int l = 0; l < PTX_LANES; l++) {
    uint64_t v = from[l];
    if (ftz && type != PTX_TYPE_F64 && (v & exponent) == 0) v &= ~alu_mask(fraction_bits);
    to[l] = type == PTX_TYPE_F64   ? alu_as_f64(v)
            : type == PTX_TYPE_F32 ? (double)alu_as_f32(v)
                                   : alu_decode(format, v);
  }
}

uint32_t alu_compare_lanes(ptx_compare compare, ptx_type type, bool ftz, const uint64_t *a,
                           const uint64_t *b) {
  switch (ptx_type_kind(type)) {
  case PTX_KIND_OF_FLOAT: {
    double x[PTX_LANES], y[PTX_LANES];
    load_floats(x, type, ftz, a);
    load_floats(y, type, ftz, b);
    return compare_float(compare, x, y);
  }
  case PTX_KIND_OF_SIGNED: return compare_signed(compare, ptx_type_bits(type), a, b);
  default: return compare_unsigned(compare, a, b);
  }
}

static uint32_t combine(ptx_operation op, uint32_t a, uint32_t b) {
  switch (op) {
  case PTX_OP_AND: return a & b;
  case PTX_OP_OR: return a | b;
  case PTX_OP_XOR: return a ^ b;
  default: return a;
  }
}

/* f16x2 and bf16x2: the comparison of the lower halves and that of the upper ones. */
static void compare_packed(const ptx_instruction *i, ptx_type type, bool ftz, const uint64_t *a,
                           const uint64_t *b, uint32_t result[2]) {
  ptx_type element = type == PTX_TYPE_F16X2 ? PTX_TYPE_F16 : PTX_TYPE_BF16;
  for (int h = 0; h < 2; h++) {
    uint64_t x[PTX_LANES], y[PTX_LANES];
    for (int l = 0; l < PTX_LANES; l++) {
      x[l] = a[l] >> (16 * h) & 0xffff;
      y[l] = b[l] >> (16 * h) & 0xffff;
    }
    result[h] = alu_compare_lanes((ptx_compare)i->compare, element, ftz, x, y);
  }
}

/* What set writes for true: all ones, or one in the destination's floating-point format. */
static uint64_t truth(ptx_type type) {
  if (ptx_type_kind(type) != PTX_KIND_OF_FLOAT) return alu_mask(ptx_type_bits(type));
  return alu_encode(alu_format_of(type), 1.0, PTX_ROUND_RN, false);
}

bool alu_compare(alu_call *c) {
  const ptx_instruction *i = c->i;
  bool set = i->opcode == PTX_SET, ftz = (i->flags & PTX_FLAG_FTZ) != 0;
  bool pair = !set && i->n_operands - (i->operation != PTX_OP_NONE) == 4;
  uint32_t first = pair ? 2 : 1;
  ptx_type type = (ptx_type)i->type[i->n_types - 1];
  const uint64_t *a = alu_operand(&i->operands[first], c->warp, c->scratch[0]);
  const uint64_t *b = alu_operand(&i->operands[first + 1], c->warp, c->scratch[1]);
  uint32_t other = 0, result[2];
  if (i->operation != PTX_OP_NONE) other = alu_predicate(&i->operands[first + 2], c->warp);
  bool packed = type == PTX_TYPE_F16X2 || type == PTX_TYPE_BF16X2;
  if (packed) {
    compare_packed(i, type, ftz, a, b, result);
  } else {
    result[0] = alu_compare_lanes((ptx_compare)i->compare, type, ftz, a, b);
    result[1] = ~result[0]; /* q is the combination with the comparison's opposite */
  }
  for (int k = 0; k < 2; k++) result[k] = combine((ptx_operation)i->operation, result[k], other);
  if (set) {
    ptx_type to = (ptx_type)i->type[0];
    bool halves = packed && (to == PTX_TYPE_F16X2 || to == PTX_TYPE_BF16X2);
    bool masks = packed && !halves;
    for (int l = 0; l < PTX_LANES; l++) {
      if (halves || masks) {
        uint64_t one = masks ? 0xffff : truth(to);
        c->out[l] = (result[0] >> l & 1 ? one : 0) | (result[1] >> l & 1 ? one << 16 : 0);
      } else {
        c->out[l] = result[0] >> l & 1 ? truth(to) : 0;
      }
    }
    alu_write(&i->operands[0], &c->warp->registers, c->out, c->active);
    return true;
  }
  alu_write_predicate(&i->operands[0], &c->warp->registers, result[0], c->active);
  if (pair) alu_write_predicate(&i->operands[1], &c->warp->registers, result[1], c->active);
  return true;
}
