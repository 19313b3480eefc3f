/* f16 and bf16 arithmetic, alone or two to a register. Sums and products are formed in double, where they
 * round to odd if they do not fit, so that the one rounding to 11 or 8 bits that follows is the correct one
 * (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to
 * odd"). */
#include <math.h>

#include "emulator/alu_format.h"
#include "emulator/alu_internal.h"

#define EACH_LANE for (int l = 0; l < PTX_LANES; l++)

typedef struct half_kind {
  const alu_format *format;
  bool is_bf16;
  uint32_t exponent; /* mask of the exponent field: clear in zeros and subnormals, full in infinities */
} half_kind;

static double widen(const half_kind *h, uint32_t code, bool ftz) {
  if (ftz && (code & h->exponent) == 0) code &= 0x8000;
  return (double)alu_as_f32(h->is_bf16 ? (uint64_t)(code & 0xffff) << 16 : alu_f32_of_f16(code));
}

/* Nearest code: by way of a float rounded to odd, where that has the range, and the quick float conversions.
 */
static uint32_t round_to_half(const half_kind *h, double v) {
  uint64_t bits = alu_of_f64(v);
  uint32_t field = bits >> 52 & 0x7ff;
  if (field <= 1023 - 127 || field >= 1023 + 128)
    return (uint32_t)alu_encode(h->format, v, PTX_ROUND_RN, false);
  uint32_t odd = (uint32_t)(bits >> 32 & 0x80000000) | (field - (1023 - 127)) << 23 |
                 (uint32_t)(bits >> 29 & 0x7fffff) | ((bits & 0x1fffffff) != 0);
  return h->is_bf16 ? alu_bf16_of_f32(odd) : alu_f16_of_f32(odd);
}

static uint32_t narrow(const half_kind *h, double v, const ptx_instruction *i) {
  if ((i->flags & PTX_FLAG_RELU) != 0 && v < 0) v = 0;
  if ((i->flags & PTX_FLAG_SAT) != 0) v = v > 0 ? (v < 1 ? v : 1) : 0; /* NaN gives 0 */
  uint32_t code = round_to_half(h, v);
  bool flush = (i->flags & PTX_FLAG_FTZ) != 0 && (code & h->exponent) == 0;
  if ((i->flags & PTX_FLAG_RELU) != 0 && code == 0x8000) code = 0;
  return flush ? code & 0x8000 : code;
}

static double min_max(const ptx_instruction *i, double x, double y) {
  bool max = i->opcode == PTX_MAX, nan = (i->flags & PTX_FLAG_NAN) != 0;
  bool negative = (i->flags & PTX_FLAG_XORSIGN) != 0 && (signbit(x) != 0) != (signbit(y) != 0);
  if ((i->flags & PTX_FLAG_ABS) != 0) x = fabs(x), y = fabs(y);
  double r;
  if (isnan(x) || isnan(y))
    r = nan || (isnan(x) && isnan(y)) ? (double)NAN : isnan(x) ? y : x;
  else if (x == y)
    r = (signbit(x) != 0) == max ? y : x;
  else
    r = (x < y) == max ? y : x;
  return negative ? -r : r;
}

/* One element; `code` receives the result. */
static bool compute(const ptx_instruction *i, const half_kind *h, const uint32_t in[3], uint32_t *code) {
  bool ftz = (i->flags & PTX_FLAG_FTZ) != 0;
  if (i->opcode == PTX_NEG || i->opcode == PTX_ABS) {
    uint32_t v = i->opcode == PTX_NEG ? in[0] ^ 0x8000 : in[0] & 0x7fff;
    if ((v & 0x7fff) > h->exponent) v = 0x7fff;
    *code = ftz && (v & h->exponent) == 0 ? v & 0x8000 : v;
    return true;
  }
  double x = widen(h, in[0], ftz), y = widen(h, in[1], ftz), z = widen(h, in[2], ftz);
  switch (i->opcode) {
  case PTX_ADD: *code = narrow(h, alu_fma_odd(x, 1, y), i); return true;
  case PTX_SUB: *code = narrow(h, alu_fma_odd(x, 1, -y), i); return true;
  case PTX_MUL: *code = narrow(h, x * y, i); return true;
  case PTX_FMA: *code = narrow(h, alu_fma_odd(x, y, z), i); return true;
  case PTX_MIN:
  case PTX_MAX: *code = narrow(h, min_max(i, x, y), i); return true;
  case PTX_EX2: *code = narrow(h, exp2(x), i); return true;
  case PTX_TANH: *code = narrow(h, tanh(x), i); return true;
  default: return false;
  }
}

bool alu_half(alu_call *c) {
  ptx_type type = (ptx_type)c->i->type[0];
  bool is_bf16 = type == PTX_TYPE_BF16 || type == PTX_TYPE_BF16X2;
  half_kind h = {alu_format_of(type), is_bf16, is_bf16 ? 0x7f80 : 0x7c00};
  int elements = ptx_type_bits(type) / 16;
  memset(c->out, 0, sizeof c->out);
  for (uint32_t left = c->active; left != 0; left &= left - 1) {
    int l = __builtin_ctz(left);
    for (int e = 0; e < elements; e++) {
      uint32_t in[3] = {0}, code;
      for (int k = 0; k < 3 && c->in[k] != NULL; k++) in[k] = (uint32_t)(c->in[k][l] >> (16 * e)) & 0xffff;
      if (!compute(c->i, &h, in, &code)) return false;
      c->out[l] |= (uint64_t)code << (16 * e);
    }
  }
  return true;
}
