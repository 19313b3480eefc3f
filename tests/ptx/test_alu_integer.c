/* Integer instructions against plain C, on all combinations of edge values. */
#include <stdio.h>
#include <string.h>

#include "tests/ptx/ptx_fixture.h"
#include "tests/ptx/ptx_suites.h"

typedef uint64_t (*reference)(uint64_t a, uint64_t b, uint64_t c);

static uint64_t ones(int bits) {
  return bits == 64 ? UINT64_MAX : (1ull << bits) - 1;
}

static int bit(uint64_t v, int at) {
  return (int)(v >> at & 1);
}

/* One function per width and sign, from an expression over a, b, c of that C type. */
#define TYPED(name, type, expression)                                                                        \
  static uint64_t name(uint64_t a_, uint64_t b_, uint64_t c_) {                                              \
    type a = (type)a_, b = (type)b_, c = (type)c_;                                                           \
    (void)a, (void)b, (void)c;                                                                               \
    return (uint64_t)(expression);                                                                           \
  }
#define ALL_INTS(name, expression)                                                                           \
  TYPED(name##_u16, uint16_t, expression)                                                                    \
  TYPED(name##_s16, int16_t, expression)                                                                     \
  TYPED(name##_u32, uint32_t, expression)                                                                    \
  TYPED(name##_s32, int32_t, expression)                                                                     \
  TYPED(name##_u64, uint64_t, expression)                                                                    \
  TYPED(name##_s64, int64_t, expression)

ALL_INTS(add, a_ + b_)
ALL_INTS(sub, a_ - b_)
ALL_INTS(mul_lo, a_ *b_)
ALL_INTS(mad_lo, a_ *b_ + c_)
ALL_INTS(min, a < b ? a : b)
ALL_INTS(max, a < b ? b : a)
ALL_INTS(sad, (a < b ? (uint64_t)b - (uint64_t)a : (uint64_t)a - (uint64_t)b) + c_)
#define HIGH(bits) (unsigned __int128)((__int128)a * (__int128)b) >> bits
TYPED(mul_hi_u16, uint16_t, HIGH(16))
TYPED(mul_hi_s16, int16_t, HIGH(16))
TYPED(mul_hi_u32, uint32_t, HIGH(32))
TYPED(mul_hi_s32, int32_t, HIGH(32))
TYPED(mul_hi_u64, uint64_t, (unsigned __int128)a *b >> 64)
TYPED(mul_hi_s64, int64_t, HIGH(64))
TYPED(mad_hi_s32, int32_t, (HIGH(32)) + c_)
TYPED(mad_hi_u64, uint64_t, ((unsigned __int128)a * b >> 64) + c)
TYPED(mul_wide_u16, uint16_t, (uint32_t)a *(uint32_t)b)
TYPED(mul_wide_s16, int16_t, (int32_t)a *(int32_t)b)
TYPED(mul_wide_u32, uint32_t, (uint64_t)a *(uint64_t)b)
TYPED(mul_wide_s32, int32_t, (int64_t)a *(int64_t)b)
TYPED(mad_wide_u32, uint32_t, (uint64_t)a *(uint64_t)b + c_)
TYPED(mad_wide_s32, int32_t, (uint64_t)((int64_t)a *(int64_t)b) + c_)
ALL_INTS(div, b == 0 ? UINT64_MAX : (uint64_t)((__int128)a / (__int128)b))
ALL_INTS(rem, b == 0 ? UINT64_MAX : (uint64_t)((__int128)a % (__int128)b))
TYPED(abs_s16, int16_t, a < 0 ? 0 - a_ : a_)
TYPED(abs_s32, int32_t, a < 0 ? 0 - a_ : a_)
TYPED(abs_s64, int64_t, a < 0 ? 0 - a_ : a_)
TYPED(neg_any, uint64_t, 0 - a)
TYPED(and_any, uint64_t, a &b)
TYPED(or_any, uint64_t, a | b)
TYPED(xor_any, uint64_t, a ^ b)
TYPED(not_any, uint64_t, ~a)
TYPED(cnot_any, uint64_t, a == 0)
TYPED(popc_any, uint64_t, __builtin_popcountll(a))
TYPED(clz_b32, uint32_t, a == 0 ? 32 : __builtin_clz(a))
TYPED(clz_b64, uint64_t, a == 0 ? 64 : __builtin_clzll(a))
TYPED(shl_b16, uint16_t, (uint32_t)b_ > 15 ? 0 : a_ << (uint32_t)b_)
TYPED(shl_b32, uint32_t, b > 31 ? 0 : a_ << b)
TYPED(shl_b64, uint64_t, (uint32_t)b_ > 63 ? 0 : a_ << (uint32_t)b_)
TYPED(shr_u16, uint16_t, (uint32_t)b_ > 15 ? 0 : a >> (uint32_t)b_)
TYPED(shr_u32, uint32_t, b > 31 ? 0 : a >> b)
TYPED(shr_u64, uint64_t, (uint32_t)b_ > 63 ? 0 : a >> (uint32_t)b_)
TYPED(shr_s16, int16_t, (int64_t)a >> ((uint32_t)b_ > 15 ? 15 : (uint32_t)b_))
TYPED(shr_s32, int32_t, a >> ((uint32_t)b_ > 31 ? 31 : (uint32_t)b_))
TYPED(shr_s64, int64_t, a >> ((uint32_t)b_ > 63 ? 63 : (uint32_t)b_))

static uint64_t clamp_s32(int64_t v) {
  return (uint64_t)(v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : v);
}
TYPED(add_sat, int32_t, clamp_s32((int64_t)a + b))
TYPED(sub_sat, int32_t, clamp_s32((int64_t)a - b))
TYPED(mad_hi_sat, int32_t, clamp_s32((((int64_t)a * b) >> 32) + c))
TYPED(min_relu, int32_t, (a < b ? a : b) < 0 ? 0 : (a < b ? a : b))

/* Positions and lengths past 255, which PTX excludes: an H200 takes the low byte in 32-bit forms, and all in
 * 64-bit ones, where more than 64 does what 64 does. */
static int field(uint64_t v, int bits) {
  uint64_t most = bits == 32 ? v & 0xff : v & 0xffffffff;
  return (int)(most < 256 ? most : 256);
}
/* The loops of the PTX ISA's own definitions, bit by bit. */
static uint64_t bfe_bits(uint64_t a, uint64_t b, uint64_t c, int bits, bool is_signed) {
  int pos = field(b, bits), len = field(c, bits), sign = 0;
  uint64_t d = 0;
  if (is_signed && len != 0) sign = bit(a, pos + len - 1 < bits - 1 ? pos + len - 1 : bits - 1);
  for (int i = 0; i < bits; i++) d |= (uint64_t)(i < len && pos + i < bits ? bit(a, pos + i) : sign) << i;
  return d;
}
static uint64_t bfe_u32(uint64_t a, uint64_t b, uint64_t c) {
  return bfe_bits(a, b, c, 32, false);
}
static uint64_t bfe_s32(uint64_t a, uint64_t b, uint64_t c) {
  return bfe_bits(a, b, c, 32, true);
}
static uint64_t bfe_u64(uint64_t a, uint64_t b, uint64_t c) {
  return bfe_bits(a, b, c, 64, false);
}
static uint64_t bfe_s64(uint64_t a, uint64_t b, uint64_t c) {
  return bfe_bits(a, b, c, 64, true);
}
static uint64_t bfi_bits(uint64_t a, uint64_t b, uint64_t pos, uint64_t len, int bits) {
  pos = (uint64_t)field(pos, bits);
  for (uint64_t i = 0; i < len && pos + i < (uint64_t)bits; i++)
    b = (b & ~(1ull << (pos + i))) | (uint64_t)bit(a, (int)i) << (pos + i);
  return b;
}
static uint64_t bfi_b32_9(uint64_t a, uint64_t b, uint64_t c) {
  return bfi_bits(a, b, c, 9, 32);
}
static uint64_t bfi_b64_40(uint64_t a, uint64_t b, uint64_t c) {
  return bfi_bits(a, b, c, 40, 64);
}
static uint64_t brev_bits(uint64_t a, int bits) {
  uint64_t r = 0;
  for (int i = 0; i < bits; i++)
    if (bit(a, i)) r |= 1ull << (bits - 1 - i);
  return r;
}
TYPED(brev_b32, uint32_t, brev_bits(a, 32))
TYPED(brev_b64, uint64_t, brev_bits(a, 64))
static uint64_t bfind_bits(uint64_t a, int bits, bool is_signed, bool shift) {
  int wanted = is_signed ? !bit(a, bits - 1) : 1;
  for (int i = bits - 1; i >= 0; i--)
    if (bit(a, i) == wanted) return (uint64_t)(shift ? bits - 1 - i : i);
  return 0xffffffff;
}
TYPED(bfind_u32, uint32_t, bfind_bits(a, 32, false, false))
TYPED(bfind_s32, int32_t, bfind_bits(a_, 32, true, false))
TYPED(bfind_u64, uint64_t, bfind_bits(a, 64, false, false))
TYPED(bfind_s64, int64_t, bfind_bits(a_, 64, true, false))
TYPED(bfind_shift_u32, uint32_t, bfind_bits(a, 32, false, true))
static uint64_t lop3_e8(uint64_t a, uint64_t b, uint64_t c) {
  uint64_t r = 0;
  for (int i = 0; i < 32; i++) r |= (uint64_t)bit(0xe8, bit(a, i) << 2 | bit(b, i) << 1 | bit(c, i)) << i;
  return r;
}
static uint64_t lop3_1b(uint64_t a, uint64_t b, uint64_t c) {
  uint64_t r = 0;
  for (int i = 0; i < 32; i++) r |= (uint64_t)bit(0x1b, bit(a, i) << 2 | bit(b, i) << 1 | bit(c, i)) << i;
  return r;
}
static uint64_t shf_left_clamp(uint64_t a, uint64_t b, uint64_t c) {
  uint32_t n = (uint32_t)c > 32 ? 32 : (uint32_t)c;
  return n == 0 ? b : n == 32 ? a : (b << n | a >> (32 - n));
}
static uint64_t shf_left_wrap(uint64_t a, uint64_t b, uint64_t c) {
  uint32_t n = (uint32_t)c & 31;
  return n == 0 ? b : (b << n | a >> (32 - n));
}
static uint64_t shf_right_clamp(uint64_t a, uint64_t b, uint64_t c) {
  uint32_t n = (uint32_t)c > 32 ? 32 : (uint32_t)c;
  return n == 0 ? a : n == 32 ? b : (b << (32 - n) | a >> n);
}
static uint64_t shf_right_wrap(uint64_t a, uint64_t b, uint64_t c) {
  uint32_t n = (uint32_t)c & 31;
  return n == 0 ? a : (b << (32 - n) | a >> n);
}
static uint64_t prmt_generic(uint64_t a, uint64_t b, uint64_t c) {
  uint8_t bytes[8];
  uint64_t r = 0;
  for (int i = 0; i < 4; i++) bytes[i] = (uint8_t)(a >> (8 * i)), bytes[4 + i] = (uint8_t)(b >> (8 * i));
  for (int i = 0; i < 4; i++) {
    int s = (int)(c >> (4 * i)) & 15;
    uint8_t v = bytes[s & 7];
    r |= (uint64_t)(s & 8 ? (v & 0x80 ? 0xff : 0) : v) << (8 * i);
  }
  return r;
}
/* Source byte of result byte i: forward from c, backward from c, copy, and the clamped edges. */
static uint64_t prmt_bytes(uint64_t a, uint64_t b, const int source[4]) {
  uint64_t both = b << 32 | a, r = 0;
  for (int i = 0; i < 4; i++) r |= (both >> (8 * source[i]) & 0xff) << (8 * i);
  return r;
}
static uint64_t prmt_f4e(uint64_t a, uint64_t b, uint64_t c) {
  int s[4], k = (int)c & 3;
  for (int i = 0; i < 4; i++) s[i] = k + i;
  return prmt_bytes(a, b, s);
}
static uint64_t prmt_b4e(uint64_t a, uint64_t b, uint64_t c) {
  int s[4], k = (int)c & 3;
  for (int i = 0; i < 4; i++) s[i] = (k - i) & 7;
  return prmt_bytes(a, b, s);
}
static uint64_t prmt_rc8(uint64_t a, uint64_t b, uint64_t c) {
  int s[4], k = (int)c & 3;
  for (int i = 0; i < 4; i++) s[i] = k;
  return prmt_bytes(a, b, s);
}
static uint64_t prmt_ecl(uint64_t a, uint64_t b, uint64_t c) {
  int s[4], k = (int)c & 3;
  for (int i = 0; i < 4; i++) s[i] = i < k ? k : i;
  return prmt_bytes(a, b, s);
}
static uint64_t prmt_ecr(uint64_t a, uint64_t b, uint64_t c) {
  int s[4], k = (int)c & 3;
  for (int i = 0; i < 4; i++) s[i] = i > k ? k : i;
  return prmt_bytes(a, b, s);
}
static uint64_t prmt_rc16(uint64_t a, uint64_t b, uint64_t c) {
  int s[4], k = (int)c & 1;
  for (int i = 0; i < 4; i++) s[i] = 2 * k + (i & 1);
  return prmt_bytes(a, b, s);
}
static uint64_t mul24_lo_u32(uint64_t a, uint64_t b, uint64_t c) {
  (void)c;
  return (a & 0xffffff) * (b & 0xffffff);
}
static int64_t low24(uint64_t v) {
  return (int64_t)(v & 0xffffff) - ((v & 0x800000) != 0 ? 0x1000000 : 0);
}
static uint64_t mul24_hi_s32(uint64_t a, uint64_t b, uint64_t c) {
  (void)c;
  return (uint64_t)(low24(a) * low24(b)) >> 16;
}
static uint64_t mad24_lo_s32(uint64_t a, uint64_t b, uint64_t c) {
  return (uint64_t)(low24(a) * low24(b)) + c;
}
static uint64_t fns(uint64_t mask, uint64_t base, uint64_t offset_) {
  int32_t offset = (int32_t)offset_;
  if (base > 31) return 0xffffffff;
  if (offset == 0) return bit(mask, (int)base) ? base : 0xffffffff;
  if (offset == INT32_MIN) return 0; /* an H200 */
  int at = (int)base, step = offset > 0 ? 1 : -1;
  int64_t count = offset > 0 ? offset : -(int64_t)offset;
  for (; at >= 0 && at < 32; at += step)
    if (bit(mask, at) && --count == 0) return (uint64_t)at;
  return 0xffffffff;
}
static uint64_t bmsk_clamp(uint64_t a, uint64_t b, uint64_t c) {
  (void)c;
  uint64_t r = 0;
  for (uint64_t i = 0; i < 32; i++)
    if (i >= a && (b >= 32 || i < a + b)) r |= 1ull << i;
  return r;
}
static uint64_t bmsk_wrap(uint64_t a, uint64_t b, uint64_t c) {
  return bmsk_clamp(a & 31, b & 31, c);
}
static uint64_t szext_clamp_s32(uint64_t a, uint64_t b, uint64_t c) {
  (void)c;
  if (b >= 32) return a;
  if (b == 0) return 0;
  return bit(a, (int)b - 1) ? a | ~ones((int)b) : a & ones((int)b);
}
static uint64_t szext_wrap_u32(uint64_t a, uint64_t b, uint64_t c) {
  (void)c;
  return a & ((1ull << (b & 31)) - 1);
}
static int64_t byte_of(uint64_t v, int i, bool is_signed) {
  return is_signed ? (int8_t)(v >> (8 * i)) : (int64_t)(uint8_t)(v >> (8 * i));
}
static uint64_t dp4a(uint64_t a, uint64_t b, uint64_t c, bool sa, bool sb) {
  int64_t sum = (int64_t)c;
  for (int i = 0; i < 4; i++) sum += byte_of(a, i, sa) * byte_of(b, i, sb);
  return (uint64_t)sum;
}
static uint64_t dp4a_ss(uint64_t a, uint64_t b, uint64_t c) {
  return dp4a(a, b, c, true, true);
}
static uint64_t dp4a_us(uint64_t a, uint64_t b, uint64_t c) {
  return dp4a(a, b, c, false, true);
}
static uint64_t dp2a_hi_su(uint64_t a, uint64_t b, uint64_t c) {
  int64_t sum = (int64_t)c;
  for (int i = 0; i < 2; i++) sum += (int64_t)(int16_t)(a >> (16 * i)) * byte_of(b, 2 + i, false);
  return (uint64_t)sum;
}
static uint64_t halves(uint64_t a, uint64_t b, uint64_t (*f)(uint64_t, uint64_t)) {
  return (f(a & 0xffff, b & 0xffff) & 0xffff) | (f(a >> 16 & 0xffff, b >> 16 & 0xffff) & 0xffff) << 16;
}
static uint64_t add16(uint64_t a, uint64_t b) {
  return a + b;
}
static uint64_t max16(uint64_t a, uint64_t b) {
  return (int16_t)a < (int16_t)b ? b : a;
}
static uint64_t add_u16x2(uint64_t a, uint64_t b, uint64_t c) {
  (void)c;
  return halves(a, b, add16);
}
static uint64_t max_s16x2(uint64_t a, uint64_t b, uint64_t c) {
  (void)c;
  return halves(a, b, max16);
}

/* Registers: destination, then sources; h 16, r 32, d 64 bits. Trailing text (a constant operand) after them.
 */
static const struct {
  const char *name, *registers, *tail;
  reference expected;
} ROWS[] = {
#define INTS(name, ref, n)                                                                                   \
  {name ".u16", "hhhh", n, ref##_u16}, {name ".s16", "hhhh", n, ref##_s16},                                  \
      {name ".u32", "rrrr", n, ref##_u32}, {name ".s32", "rrrr", n, ref##_s32},                              \
      {name ".u64", "dddd", n, ref##_u64}, {                                                                 \
    name ".s64", "dddd", n, ref##_s64                                                                        \
  }
    INTS("add", add, "2"),
    INTS("sub", sub, "2"),
    INTS("mul.lo", mul_lo, "2"),
    INTS("mul.hi", mul_hi, "2"),
    INTS("mad.lo", mad_lo, "3"),
    INTS("min", min, "2"),
    INTS("max", max, "2"),
    INTS("sad", sad, "3"),
    INTS("div", div, "2"),
    INTS("rem", rem, "2"),
    {"mad.hi.s32", "rrrr", "3", mad_hi_s32},
    {"mad.hi.u64", "dddd", "3", mad_hi_u64},
    {"mul.wide.u16", "rhh", "2", mul_wide_u16},
    {"mul.wide.s16", "rhh", "2", mul_wide_s16},
    {"mul.wide.u32", "drr", "2", mul_wide_u32},
    {"mul.wide.s32", "drr", "2", mul_wide_s32},
    {"mad.wide.u32", "drrd", "3", mad_wide_u32},
    {"mad.wide.s32", "drrd", "3", mad_wide_s32},
    {"abs.s16", "hh", "1", abs_s16},
    {"abs.s32", "rr", "1", abs_s32},
    {"abs.s64", "dd", "1", abs_s64},
    {"neg.s16", "hh", "1", neg_any},
    {"neg.s32", "rr", "1", neg_any},
    {"neg.s64", "dd", "1", neg_any},
    {"and.b16", "hhh", "2", and_any},
    {"and.b32", "rrr", "2", and_any},
    {"or.b64", "ddd", "2", or_any},
    {"xor.b32", "rrr", "2", xor_any},
    {"not.b16", "hh", "1", not_any},
    {"not.b32", "rr", "1", not_any},
    {"not.b64", "dd", "1", not_any},
    {"cnot.b32", "rr", "1", cnot_any},
    {"popc.b32", "rr", "1", popc_any},
    {"popc.b64", "rd", "1", popc_any},
    {"clz.b32", "rr", "1", clz_b32},
    {"clz.b64", "rd", "1", clz_b64},
    {"brev.b32", "rr", "1", brev_b32},
    {"brev.b64", "dd", "1", brev_b64},
    {"bfind.u32", "rr", "1", bfind_u32},
    {"bfind.s32", "rr", "1", bfind_s32},
    {"bfind.u64", "rd", "1", bfind_u64},
    {"bfind.s64", "rd", "1", bfind_s64},
    {"bfind.shiftamt.u32", "rr", "1", bfind_shift_u32},
    {"shl.b16", "hhr", "2", shl_b16},
    {"shl.b32", "rrr", "2", shl_b32},
    {"shl.b64", "ddr", "2", shl_b64},
    {"shr.u16", "hhr", "2", shr_u16},
    {"shr.b32", "rrr", "2", shr_u32},
    {"shr.u32", "rrr", "2", shr_u32},
    {"shr.u64", "ddr", "2", shr_u64},
    {"shr.s16", "hhr", "2", shr_s16},
    {"shr.s32", "rrr", "2", shr_s32},
    {"shr.s64", "ddr", "2", shr_s64},
    {"add.sat.s32", "rrr", "2", add_sat},
    {"sub.sat.s32", "rrr", "2", sub_sat},
    {"mad.hi.sat.s32", "rrrr", "3", mad_hi_sat},
    {"min.relu.s32", "rrr", "2", min_relu},
    {"bfe.u32", "rrrr", "3", bfe_u32},
    {"bfe.s32", "rrrr", "3", bfe_s32},
    {"bfe.u64", "ddrr", "3", bfe_u64},
    {"bfe.s64", "ddrr", "3", bfe_s64},
    {"bfi.b32", "rrrr", "3, 9", bfi_b32_9},
    {"bfi.b64", "dddr", "3, 40", bfi_b64_40},
    {"lop3.b32", "rrrr", "3, 0xe8", lop3_e8},
    {"lop3.b32", "rrrr", "3, 0x1b", lop3_1b},
    {"shf.l.clamp.b32", "rrrr", "3", shf_left_clamp},
    {"shf.l.wrap.b32", "rrrr", "3", shf_left_wrap},
    {"shf.r.clamp.b32", "rrrr", "3", shf_right_clamp},
    {"shf.r.wrap.b32", "rrrr", "3", shf_right_wrap},
    {"prmt.b32", "rrrr", "3", prmt_generic},
    {"prmt.b32.f4e", "rrrr", "3", prmt_f4e},
    {"prmt.b32.b4e", "rrrr", "3", prmt_b4e},
    {"prmt.b32.rc8", "rrrr", "3", prmt_rc8},
    {"prmt.b32.ecl", "rrrr", "3", prmt_ecl},
    {"prmt.b32.ecr", "rrrr", "3", prmt_ecr},
    {"prmt.b32.rc16", "rrrr", "3", prmt_rc16},
    {"mul24.lo.u32", "rrr", "2", mul24_lo_u32},
    {"mul24.hi.s32", "rrr", "2", mul24_hi_s32},
    {"mad24.lo.s32", "rrrr", "3", mad24_lo_s32},
    {"fns.b32", "rrrr", "3", fns},
    {"bmsk.clamp.b32", "rrr", "2", bmsk_clamp},
    {"bmsk.wrap.b32", "rrr", "2", bmsk_wrap},
    {"szext.clamp.s32", "rrr", "2", szext_clamp_s32},
    {"szext.wrap.u32", "rrr", "2", szext_wrap_u32},
    {"dp4a.s32.s32", "rrrr", "3", dp4a_ss},
    {"dp4a.u32.s32", "rrrr", "3", dp4a_us},
    {"dp2a.hi.s32.u32", "rrrr", "3", dp2a_hi_su},
    {"add.u16x2", "rrr", "2", add_u16x2},
    {"max.s16x2", "rrr", "2", max_s16x2},
};

static int bits_of(char letter) {
  return letter == 'h' ? 16 : letter == 'r' ? 32 : 64;
}

/* Zeros, ones, powers of two and their neighbours, shift counts, and patterns: shorter lists for more
 * operands. */
static const uint64_t EDGES[] = {0,
                                 1,
                                 UINT64_MAX,
                                 0x8000000080008000,
                                 2,
                                 31,
                                 32,
                                 0x7fffffff7fff7fff,
                                 0x123456789abcdef0,
                                 3,
                                 7,
                                 8,
                                 15,
                                 16,
                                 17,
                                 33,
                                 63,
                                 64,
                                 65,
                                 255,
                                 256,
                                 0xff00ff00ff00ff00,
                                 0x80000000,
                                 0x7fffffff,
                                 0x8000,
                                 0x7fff,
                                 0xaaaaaaaaaaaaaaaa,
                                 0x5555555555555555,
                                 0xfffffffe,
                                 0x0123456701234567,
                                 0x8000000000000000,
                                 0x8000000000000001,
                                 0x7fffffffffffffff};
enum { N_EDGES = sizeof EDGES / sizeof EDGES[0] };

static void check_row(int row) {
  char text[128];
  const char *registers = ROWS[row].registers;
  int sources = ROWS[row].tail[0] - '0';
  const char *tail = ROWS[row].tail + 1;
  int at = snprintf(text, sizeof text, "%s %%%c0", ROWS[row].name, registers[0]);
  for (int k = 1; k <= sources; k++)
    at += snprintf(text + at, sizeof text - (size_t)at, ", %%%c%d", registers[k], k);
  snprintf(text + at, sizeof text - (size_t)at, "%s;", tail);
  one_warp *w = one_warp_new(text);
  int n = sources == 3 ? 19 : N_EDGES;
  long total = 1;
  for (int k = 0; k < sources; k++) total *= n;
  uint64_t *value[4];
  for (int k = 0; k <= sources; k++) {
    char name[16];
    snprintf(name, sizeof name, "%%%c%d", registers[k], k);
    value[k] = one_warp_value(w, name);
  }
  for (long first = 0; first < total; first += PTX_LANES) {
    for (int l = 0; l < PTX_LANES; l++) {
      long index = (first + l) % total;
      for (int k = 1; k <= sources; k++, index /= n)
        value[k][l] = EDGES[index % n] & ones(bits_of(registers[k]));
    }
    one_warp_must_run(w, PTX_FULL_MASK);
    for (int l = 0; l < PTX_LANES; l++) {
      uint64_t a = value[1][l], b = sources > 1 ? value[2][l] : 0, c = sources > 2 ? value[3][l] : 0;
      uint64_t expected = ROWS[row].expected(a, b, c) & ones(bits_of(registers[0]));
      ck_assert_msg(value[0][l] == expected, "%s (%#lx, %#lx, %#lx): %#lx, expected %#lx", text,
                    (unsigned long)a, (unsigned long)b, (unsigned long)c, (unsigned long)value[0][l],
                    (unsigned long)expected);
    }
  }
  one_warp_free(w);
}

/* A quarter of the table a test, to spread over processes. */
START_TEST(integers_follow_c) {
  for (int row = _i; row < (int)(sizeof ROWS / sizeof ROWS[0]); row += 4) check_row(row);
}
END_TEST

START_TEST(only_active_lanes_are_written) {
  one_warp *w = one_warp_new("add.s32 %r0, %r1, 5; @%p1 mov.b32 %r0, 9; @!%p1 mov.b32 %r2, 1;");
  uint64_t *d = one_warp_value(w, "%r0"), *a = one_warp_value(w, "%r1");
  for (int l = 0; l < PTX_LANES; l++) d[l] = 77, a[l] = (uint64_t)l;
  one_warp_set_predicate(w, "%p1", 0xf);
  one_warp_must_run(w, 0xff);
  for (uint64_t l = 0; l < PTX_LANES; l++) ck_assert_uint_eq(d[l], l < 4 ? 9 : l < 8 ? l + 5 : 77);
  ck_assert_uint_eq(w->warp.registers.written[one_warp_slot(w, "%r2")], 0xf0);
  one_warp_free(w);
}
END_TEST

START_TEST(reading_what_nothing_wrote_is_a_fault) {
  alu_fault fault;
  one_warp *w = one_warp_new("add.s32 %r0, %r1, %r2;");
  one_warp_value(w, "%r1");
  ck_assert(!one_warp_run(w, PTX_FULL_MASK, &fault));
  ck_assert_int_eq(fault.fault, EMU_FAULT_UNINITIALISED);
  ck_assert_str_eq(fault.text, "reads %r2, which lane 0 never wrote");
  w->warp.registers.written[one_warp_slot(w, "%r2")] = 0xfff0;
  ck_assert(one_warp_run(w, 0xfff0, &fault));
  ck_assert(!one_warp_run(w, 0x1fff0, &fault));
  ck_assert_int_eq(fault.lane, 16);
  one_warp_free(w);
  /* A part that holds no value may be handed on, and is not one afterwards. */
  static const struct {
    const char *text, *message;
  } halves[] = {
      {"mov.b64 %d0, {%r1, %r2}; mov.b64 {%r3, _}, %d0; add.s32 %r0, %r3, 1;", NULL},
      {"mov.b64 %d0, {%r2, %r1}; mov.b64 {_, %r3}, %d0; add.s32 %r0, %r3, 1;", NULL},
      {"mov.b64 %d0, {%r1, %r2}; mov.b64 {%r3, %r4}, %d0; add.s32 %r0, %r4, 1;", "reads %r4, which lane 0"},
      {"mov.b64 %d0, {%r2, %r1}; mov.b64 {%r3, _}, %d0; add.s32 %r0, %r3, 1;", "reads %r3, which lane 0"},
      {"mov.b64 %d0, {%r1, %r2}; add.s64 %d1, %d0, 1;", "reads %d0, which lane 0"},
      {"mov.b64 %d0, 1; mov.b64 %d0, {%r1, %r2}; add.s64 %d1, %d0, 1;", "reads %d0, which lane 0"},
      {"mov.b64 %d0, {%r1, %r2}; mov.b64 %d0, {%r1, %r1}; add.s64 %d1, %d0, 1;", NULL},
      {"mov.b64 %d0, {%r1, %r2}; mov.b64 %d0, 1; mov.b64 {%r3, %r4}, %d0; add.s32 %r0, %r4, 1;", NULL},
      {"mov.b64 {%r3, %r4}, %d0; add.s32 %r0, %r4, 1;", "reads %r4, which lane 0"},
      {"mov.b64 %d0, {%r1, %r2}; mov.b64 %d1, %d0; mov.b64 {%r3, _}, %d1; add.s32 %r0, %r3, 1;", NULL},
      {"mov.b64 %d0, {%r1, %r2}; shr.u64 %d1, %d0, 16; cvt.u16.u64 %h0, %d1; add.s16 %h1, %h0, 1;", NULL},
      {"mov.b64 %d0, {%r2, %r1}; shr.u64 %d1, %d0, 32; add.s64 %d2, %d1, 1;", NULL},
      {"mov.b64 %d0, {%r1, %r2}; cvt.u32.u64 %r3, %d0; add.s32 %r0, %r3, 1;", NULL},
      {"mov.b64 %d0, {%r1, %r2}; shr.u64 %d1, %d0, 16; cvt.u32.u64 %r3, %d1; add.s32 %r0, %r3, 1;",
       "reads %r3, which lane 0"},
      {"mov.b64 %d0, {%r1, %r2}; shr.u64 %d1, %d0, 8;", "reads %d0, which lane 0"},
      {"mov.b64 %d0, {%r1, %r2}; shr.s64 %d1, %d0, 16;", "reads %d0, which lane 0"},
      {"mov.b64 %d0, {%r1, %r2}; cvt.rn.f32.u64 %r3, %d0;", "reads %d0, which lane 0"},
      {"mov.b32 %r2, {%h0, %h1};  add.s32 %r0, %r2, 1;", "reads %r2, which lane 0"},
  };
  for (size_t k = 0; k < COUNT_OF(halves); k++) {
    w = one_warp_new(halves[k].text);
    one_warp_value(w, "%r1");
    bool right = one_warp_run(w, PTX_FULL_MASK, &fault);
    ck_assert_msg(right == (halves[k].message == NULL), "%s", halves[k].text);
    ck_assert_msg(right || strstr(fault.text, halves[k].message) != NULL, "%s", fault.text);
    one_warp_free(w);
  }
  w = one_warp_new("selp.b32 %r0, 1, 2, %p3;");
  ck_assert(!one_warp_run(w, 1, &fault));
  ck_assert_str_eq(fault.text, "reads %p3, which lane 0 never wrote");
  one_warp_free(w);
}
END_TEST

Suite *alu_integer_suite(void) {
  Suite *s = suite_create("alu_integer");
  TCase *t = tcase_create("integers");
  tcase_set_timeout(t, 60);
  tcase_add_loop_test(t, integers_follow_c, 0, 4);
  tcase_add_test(t, only_active_lanes_are_written);
  tcase_add_test(t, reading_what_nothing_wrote_is_a_fault);
  suite_add_tcase(s, t);
  return s;
}
