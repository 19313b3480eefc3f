#include "emulator/alu_internal.h"

#define EACH_LANE for (int l = 0; l < PTX_LANES; l++)

/* Division by zero gives what an H200 gives (PTX leaves it open): all ones, for the remainder too. */
static uint64_t divide(uint64_t a, uint64_t b, int bits, bool is_signed, bool remainder) {
  if ((b & alu_mask(bits)) == 0) return UINT64_MAX;
  if (!is_signed) return remainder ? a % b : a / b;
  int64_t x = alu_sign_extend(a, bits), y = alu_sign_extend(b, bits);
  if (y == -1) return remainder ? 0 : 0 - (uint64_t)x; /* the one quotient that can overflow */
  return (uint64_t)(remainder ? x % y : x / y);
}

static uint64_t multiply_high(uint64_t a, uint64_t b, int bits, bool is_signed) {
  if (is_signed) return (uint64_t)((__int128)alu_sign_extend(a, bits) * alu_sign_extend(b, bits) >> bits);
  return (uint64_t)((unsigned __int128)a * b >> bits);
}

static int64_t clamp(int64_t v, int64_t low, int64_t high) {
  return v < low ? low : v > high ? high : v;
}

/* mul.hi and the signed mul.wide; the others are usual. */
static void multiply(alu_call *c, int bits, bool is_signed) {
  const uint64_t *a = c->in[0], *b = c->in[1];
  if (c->i->mode == PTX_MODE_HI)
    EACH_LANE c->out[l] = multiply_high(a[l], b[l], bits, is_signed);
  else
    EACH_LANE c->out[l] = (uint64_t)(alu_sign_extend(a[l], bits) * alu_sign_extend(b[l], bits));
}

static void multiply24(alu_call *c, bool is_signed) {
  int shift = c->i->mode == PTX_MODE_HI ? 16 : 0;
  EACH_LANE {
    uint64_t a = c->in[0][l] & 0xffffff, b = c->in[1][l] & 0xffffff;
    if (is_signed)
      c->out[l] = (uint64_t)(alu_sign_extend(a, 24) * alu_sign_extend(b, 24) >> shift);
    else
      c->out[l] = a * b >> shift;
  }
}

/* PTX wants position and length below 256. Of others the 32-bit forms take the low byte; the 64-bit ones,
 * which are several instructions on hardware, take them as they are (so on an H200). */
static uint64_t field_operand(uint64_t v, int bits) {
  return bits == 32 ? v & 0xff : v & 0xffffffff;
}

static uint64_t extract(uint64_t a, uint64_t pos, uint64_t len, int bits, bool is_signed) {
  pos = field_operand(pos, bits);
  len = field_operand(len, bits);
  uint64_t sign = 0;
  if (is_signed && len != 0) {
    uint64_t at = pos + len - 1;
    if (at > (uint64_t)bits - 1) at = (uint64_t)bits - 1;
    sign = a >> at & 1;
  }
  uint64_t there = pos >= (uint64_t)bits ? 0 : (uint64_t)bits - pos; /* bits of the field that exist */
  if (len < there) there = len;
  uint64_t field = pos >= (uint64_t)bits ? 0 : a >> pos & alu_mask((int)there);
  return sign ? field | ~alu_mask((int)there) : field;
}

static uint64_t insert(uint64_t a, uint64_t b, uint64_t pos, uint64_t len, int bits) {
  pos = field_operand(pos, bits);
  len = field_operand(len, bits);
  if (pos >= (uint64_t)bits) return b;
  uint64_t mask = alu_mask((int)(len > 64 ? 64 : len)) << pos;
  return (b & ~mask) | (a << pos & mask);
}

static uint64_t find_leading(uint64_t a, int bits, bool is_signed, bool shift_amount) {
  uint64_t v = a;
  if (is_signed && (a >> (bits - 1) & 1) != 0) v = ~a & alu_mask(bits);
  if (v == 0) return 0xffffffff;
  int at = 63 - __builtin_clzll(v);
  return (uint64_t)(shift_amount ? bits - 1 - at : at);
}

static uint64_t find_nth_set(uint64_t mask, uint64_t base, int32_t offset) {
  int at = (int)(base & 31), step = offset < 0 ? -1 : 1;
  if (offset == 0) return base < 32 && (mask >> base & 1) != 0 ? base : 0xffffffff;
  int64_t left = (offset < 0 ? -(int64_t)offset : (int64_t)offset) - 1;
  if (offset == INT32_MIN) return 0; /* so on an H200: it has no positive counterpart */
  if (base >= 32) return 0xffffffff;
  for (; at >= 0 && at < 32; at += step)
    if ((mask >> at & 1) != 0 && left-- == 0) return (uint64_t)at;
  return 0xffffffff;
}

static uint64_t reverse(uint64_t a, int bits) {
  uint64_t r = 0;
  for (int k = 0; k < bits; k++) r |= (a >> k & 1) << (bits - 1 - k);
  return r;
}

/* PTX ISA 9.7.1.25: a run of b ones from bit a. */
static uint64_t bit_mask(uint64_t a, uint64_t b, bool clamped) {
  uint32_t first = (uint32_t)a & 31, sum = first + ((uint32_t)b & 31);
  bool past = sum >= 32 || (clamped && (a >= 32 || b >= 32));
  uint32_t low = clamped && a >= 32 ? 0 : UINT32_MAX << first, high = past ? 0 : UINT32_MAX << sum;
  return low & ~high;
}

static uint64_t extend(uint64_t a, uint64_t b, bool clamped, bool is_signed) {
  uint32_t width = (uint32_t)b & 31;
  bool whole = clamped && b >= 32;
  uint32_t mask = whole ? 0 : UINT32_MAX << width;
  bool sign = is_signed && !whole && width != 0 && (a >> (width - 1) & 1) != 0;
  return ((uint32_t)a & ~mask) | (sign ? mask : 0);
}

static uint64_t funnel(uint64_t low, uint64_t high, uint64_t by, bool left, bool wrap) {
  uint64_t both = high << 32 | (low & 0xffffffff), n = wrap ? by & 31 : by > 32 ? 32 : by;
  return left ? both << n >> 32 : both >> n;
}

/* Source bytes d.b3 … d.b0 of prmt's special modes, by the selector's low two bits. */
static uint32_t permute_selector(ptx_mode mode, uint32_t selector) {
  static const uint16_t tables[6][4] = {
      {0x3210, 0x4321, 0x5432, 0x6543}, /* f4e */
      {0x5670, 0x6701, 0x7012, 0x0123}, /* b4e */
      {0x0000, 0x1111, 0x2222, 0x3333}, /* rc8 */
      {0x3210, 0x3211, 0x3222, 0x3333}, /* ecl */
      {0x0000, 0x1110, 0x2210, 0x3210}, /* ecr */
      {0x1010, 0x3232, 0x1010, 0x3232}, /* rc16 */
  };
  return mode == PTX_MODE_NONE ? selector : tables[mode - PTX_MODE_F4E][selector & 3];
}

static uint64_t permute(uint64_t a, uint64_t b, uint32_t selector) {
  uint64_t both = b << 32 | (a & 0xffffffff), r = 0;
  for (int k = 0; k < 4; k++) {
    uint32_t nibble = selector >> (4 * k) & 15;
    uint64_t byte = both >> (8 * (nibble & 7)) & 0xff;
    if ((nibble & 8) != 0) byte = (byte & 0x80) != 0 ? 0xff : 0;
    r |= byte << (8 * k);
  }
  return r;
}

static uint64_t logic3(uint64_t a, uint64_t b, uint64_t c, uint64_t table) {
  uint64_t r = 0;
  for (int k = 0; k < 8; k++)
    if ((table >> k & 1) != 0)
      r |= ((k & 4) != 0 ? a : ~a) & ((k & 2) != 0 ? b : ~b) & ((k & 1) != 0 ? c : ~c);
  return r;
}

static int64_t part(uint64_t v, int index, int bits, bool is_signed) {
  uint64_t p = v >> (index * bits) & alu_mask(bits);
  return is_signed ? alu_sign_extend(p, bits) : (int64_t)p;
}

static void dot_product(alu_call *c) {
  bool a_signed = c->i->type[0] == PTX_TYPE_S32, b_signed = c->i->type[1] == PTX_TYPE_S32;
  bool four = c->i->opcode == PTX_DP4A;
  int first = !four && c->i->mode == PTX_MODE_HI ? 2 : 0;
  EACH_LANE {
    int64_t sum = (int64_t)c->in[2][l];
    for (int k = 0; k < (four ? 4 : 2); k++)
      sum += part(c->in[0][l], k, four ? 8 : 16, a_signed) * part(c->in[1][l], first + k, 8, b_signed);
    c->out[l] = (uint64_t)sum;
  }
}

static void min_max(alu_call *c, int bits, bool is_signed) {
  bool max = c->i->opcode == PTX_MAX, relu = (c->i->flags & PTX_FLAG_RELU) != 0;
  const uint64_t *a = c->in[0], *b = c->in[1];
  if (!is_signed) {
    EACH_LANE c->out[l] = (a[l] < b[l]) == max ? b[l] : a[l];
    return;
  }
  EACH_LANE {
    int64_t x = alu_sign_extend(a[l], bits), y = alu_sign_extend(b[l], bits);
    int64_t r = (x < y) == max ? y : x;
    c->out[l] = (uint64_t)(relu && r < 0 ? 0 : r);
  }
}

/* The instructions that fill ordinary code, as loops a compiler turns into vector instructions: every result
 * is its low bits only, whatever the sign. */
static inline __attribute__((always_inline)) bool
usual_lanes(const ptx_instruction *i, uint64_t mask, uint64_t *restrict out, const uint64_t *restrict a,
            const uint64_t *restrict b, const uint64_t *restrict d) {
  switch (i->opcode) {
  case PTX_ADD: EACH_LANE out[l] = (a[l] + b[l]) & mask; return true;
  case PTX_SUB: EACH_LANE out[l] = (a[l] - b[l]) & mask; return true;
  case PTX_MUL: EACH_LANE out[l] = (a[l] * b[l]) & mask; return true;
  case PTX_MAD: EACH_LANE out[l] = (a[l] * b[l] + d[l]) & mask; return true;
  case PTX_AND: EACH_LANE out[l] = a[l] & b[l] & mask; return true;
  case PTX_OR: EACH_LANE out[l] = (a[l] | b[l]) & mask; return true;
  case PTX_XOR: EACH_LANE out[l] = (a[l] ^ b[l]) & mask; return true;
  case PTX_NOT: EACH_LANE out[l] = ~a[l] & mask; return true;
  case PTX_NEG: EACH_LANE out[l] = (0 - a[l]) & mask; return true;
  case PTX_SHL: EACH_LANE out[l] = (b[l] > 63 ? 0 : a[l] << (b[l] & 63)) & mask; return true;
  default: EACH_LANE out[l] = (b[l] > 63 ? 0 : a[l] >> (b[l] & 63)) & mask; return true;
  }
}

static __attribute__((noinline)) bool usual_portable(const ptx_instruction *i, uint64_t mask, alu_call *c) {
  return usual_lanes(i, mask, c->out, c->in[0], c->in[1], c->in[2]);
}

#if defined(__x86_64__)
static __attribute__((noinline, target("avx2"))) bool usual_hardware(const ptx_instruction *i, uint64_t mask,
                                                                     alu_call *c) {
  return usual_lanes(i, mask, c->out, c->in[0], c->in[1], c->in[2]);
}
#endif

/* True if the instruction was one of them and is done. */
static bool usual(alu_call *c, int bits, bool is_signed) {
  const ptx_instruction *i = c->i;
  uint64_t mask = alu_mask(bits);
  switch (i->opcode) {
  case PTX_MUL:
  case PTX_MAD:
    if (i->mode == PTX_MODE_HI || (i->mode == PTX_MODE_WIDE && is_signed)) return false;
    if (i->mode == PTX_MODE_WIDE) mask = alu_mask(2 * bits);
    break;
  case PTX_SHR:
    if (is_signed) return false;
    break;
  case PTX_ADD:
  case PTX_SUB:
  case PTX_AND:
  case PTX_OR:
  case PTX_XOR:
  case PTX_NOT:
  case PTX_NEG:
  case PTX_SHL: break;
  default: return false;
  }
  if ((i->flags & PTX_FLAG_SAT) != 0) return false;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return usual_hardware(i, mask, c);
#endif
  return usual_portable(i, mask, c);
}

bool alu_integer(alu_call *c) {
  const ptx_instruction *i = c->i;
  const uint64_t *a = c->in[0], *b = c->in[1], *d = c->in[2];
  ptx_type type = (ptx_type)i->type[0];
  int bits = ptx_type_bits(type);
  bool is_signed = ptx_type_kind(type) == PTX_KIND_OF_SIGNED;
  bool sat = (i->flags & PTX_FLAG_SAT) != 0, clamped = (i->flags & PTX_FLAG_CLAMP) != 0;
  uint64_t mask = alu_mask(bits);
  if (usual(c, bits, is_signed)) return true;
  switch (i->opcode) {
  case PTX_ADD: /* .sat: the others are usual */
  case PTX_SUB:
    EACH_LANE {
      int64_t y = alu_sign_extend(b[l], 32);
      int64_t sum = alu_sign_extend(a[l], 32) + (i->opcode == PTX_SUB ? -y : y);
      c->out[l] = (uint64_t)clamp(sum, INT32_MIN, INT32_MAX);
    }
    break;
  case PTX_MUL:
  case PTX_MAD:
    multiply(c, bits, is_signed);
    if (i->mode == PTX_MODE_WIDE) mask = alu_mask(2 * bits);
    if (i->opcode == PTX_MUL) break;
    if (sat)
      EACH_LANE c->out[l] =
          (uint64_t)clamp(alu_sign_extend(c->out[l], 32) + alu_sign_extend(d[l], 32), INT32_MIN, INT32_MAX);
    else
      EACH_LANE c->out[l] += d[l];
    break;
  case PTX_MUL24: multiply24(c, is_signed); break;
  case PTX_MAD24:
    multiply24(c, is_signed);
    EACH_LANE c->out[l] += d[l];
    break;
  case PTX_SAD:
    EACH_LANE {
      uint64_t x = is_signed ? (uint64_t)alu_sign_extend(a[l], bits) : a[l];
      uint64_t y = is_signed ? (uint64_t)alu_sign_extend(b[l], bits) : b[l];
      bool less = is_signed ? (int64_t)x < (int64_t)y : x < y;
      c->out[l] = d[l] + (less ? y - x : x - y);
    }
    break;
  case PTX_DIV: EACH_LANE c->out[l] = divide(a[l], b[l], bits, is_signed, false); break;
  case PTX_REM: EACH_LANE c->out[l] = divide(a[l], b[l], bits, is_signed, true); break;
  case PTX_ABS: EACH_LANE c->out[l] = (a[l] >> (bits - 1) & 1) != 0 ? 0 - a[l] : a[l]; break;
  case PTX_MIN:
  case PTX_MAX: min_max(c, bits, is_signed); break;
  case PTX_POPC: EACH_LANE c->out[l] = (uint64_t)__builtin_popcountll(a[l]); return true;
  case PTX_CLZ:
    EACH_LANE c->out[l] = a[l] == 0 ? (uint64_t)bits : (uint64_t)(__builtin_clzll(a[l]) - (64 - bits));
    return true;
  case PTX_BFIND:
    EACH_LANE c->out[l] = find_leading(a[l], bits, is_signed, (i->flags & PTX_FLAG_SHIFTAMT) != 0);
    return true;
  case PTX_FNS: EACH_LANE c->out[l] = find_nth_set(a[l], b[l], (int32_t)d[l]); return true;
  case PTX_BREV: EACH_LANE c->out[l] = reverse(a[l], bits); break;
  case PTX_BFE: EACH_LANE c->out[l] = extract(a[l], b[l], d[l], bits, is_signed); break;
  case PTX_BFI: EACH_LANE c->out[l] = insert(a[l], b[l], d[l], c->in[3][l], bits); break;
  case PTX_BMSK: EACH_LANE c->out[l] = bit_mask(a[l], b[l], clamped); break;
  case PTX_SZEXT: EACH_LANE c->out[l] = extend(a[l], b[l], clamped, is_signed); break;
  case PTX_DP4A:
  case PTX_DP2A: dot_product(c); break;
  case PTX_CNOT: EACH_LANE c->out[l] = a[l] == 0; break;
  case PTX_LOP3: EACH_LANE c->out[l] = logic3(a[l], b[l], d[l], c->in[3][l]); break;
  case PTX_SHF:
    EACH_LANE c->out[l] = funnel(a[l], b[l], d[l], i->mode == PTX_MODE_LEFT, (i->flags & PTX_FLAG_WRAP) != 0);
    break;
  case PTX_SHR:
    EACH_LANE c->out[l] = (uint64_t)(alu_sign_extend(a[l], bits) >> (b[l] > 63 ? 63 : b[l]));
    break;
  case PTX_PRMT:
    EACH_LANE c->out[l] = permute(a[l], b[l], permute_selector((ptx_mode)i->mode, (uint32_t)d[l]));
    break;
  default: return false;
  }
  EACH_LANE c->out[l] &= mask;
  return true;
}

bool alu_integer_packed(alu_call *c) {
  alu_call half = *c;
  ptx_instruction scalar = *c->i;
  uint64_t in[2][PTX_LANES];
  scalar.type[0] = c->i->type[0] == PTX_TYPE_U16X2 ? PTX_TYPE_U16 : PTX_TYPE_S16;
  half.i = &scalar;
  memset(c->out, 0, sizeof c->out);
  for (int h = 0; h < 2; h++) {
    for (int k = 0; k < 2; k++) {
      EACH_LANE in[k][l] = c->in[k][l] >> (16 * h) & 0xffff;
      half.in[k] = in[k];
    }
    if (!alu_integer(&half)) return false;
    EACH_LANE c->out[l] |= half.out[l] << (16 * h);
  }
  return true;
}
