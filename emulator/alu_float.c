/* f32, f32x2 and f64 arithmetic. IEEE operations use the host's own, under its rounding mode when PTX names
 * one; approximations are in alu_approximate.c. */
#include <fenv.h>
#include <math.h>

#include "emulator/alu_internal.h"

#define EACH_LANE for (int l = 0; l < PTX_LANES; l++)

/* NaN results of single precision are this one (PTX ISA 9.7.3). */
#define CANONICAL_NAN 0x7fffffffu

typedef struct f32_lanes {
  float v[PTX_LANES];
} f32_lanes;

static void load_f32(f32_lanes *restrict to, const uint64_t *restrict from, bool ftz) {
  uint32_t bits[PTX_LANES];
  EACH_LANE bits[l] = (uint32_t)from[l];
  if (ftz) EACH_LANE bits[l] = (bits[l] & 0x7f800000u) == 0 ? bits[l] & 0x80000000u : bits[l];
  memcpy(to->v, bits, sizeof bits);
}

static void store_f32(uint64_t *restrict to, const f32_lanes *restrict from, bool ftz, bool sat) {
  uint32_t bits[PTX_LANES];
  memcpy(bits, from->v, sizeof bits);
  if (ftz) EACH_LANE bits[l] = (bits[l] & 0x7f800000u) == 0 ? bits[l] & 0x80000000u : bits[l];
  if (sat) {
    EACH_LANE {
      bool nan = (bits[l] & 0x7fffffffu) > 0x7f800000u;
      bits[l] = nan || (bits[l] >> 31) != 0 ? 0 : bits[l] > 0x3f800000u ? 0x3f800000u : bits[l];
    }
  } else {
    EACH_LANE bits[l] = (bits[l] & 0x7fffffffu) > 0x7f800000u ? CANONICAL_NAN : bits[l];
  }
  EACH_LANE to[l] = bits[l];
}

static int host_rounding(ptx_rounding mode) {
  switch (mode) {
  case PTX_ROUND_RZ: return FE_TOWARDZERO;
  case PTX_ROUND_RM: return FE_DOWNWARD;
  case PTX_ROUND_RP: return FE_UPWARD;
  default: return FE_TONEAREST;
  }
}

/* fmaf as one instruction where the host has it; the C library's is exact as well, but a call a lane. */
static inline __attribute__((always_inline)) void fma_lanes(f32_lanes *restrict r, const f32_lanes *x,
                                                            const f32_lanes *y, const f32_lanes *z) {
  EACH_LANE r->v[l] = __builtin_fmaf(x->v[l], y->v[l], z->v[l]);
}

static __attribute__((noinline)) void fma_portable(f32_lanes *r, const f32_lanes *x, const f32_lanes *y,
                                                   const f32_lanes *z) {
  fma_lanes(r, x, y, z);
}

#if defined(__x86_64__)
static __attribute__((noinline, target("avx2,fma"))) void
fma_hardware(f32_lanes *r, const f32_lanes *x, const f32_lanes *y, const f32_lanes *z) {
  fma_lanes(r, x, y, z);
}
#endif

static void fma_f32(f32_lanes *r, const f32_lanes *x, const f32_lanes *y, const f32_lanes *z) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("fma") && __builtin_cpu_supports("avx2")) {
    fma_hardware(r, x, y, z);
    return;
  }
#endif
  fma_portable(r, x, y, z);
}

/* Not inlined: the compiler must not move the arithmetic across a change of the rounding mode. */
static __attribute__((noinline)) bool basic_f32(ptx_opcode op, f32_lanes *restrict r, const f32_lanes *x,
                                                const f32_lanes *y, const f32_lanes *z) {
  switch (op) {
  case PTX_ADD: EACH_LANE r->v[l] = x->v[l] + y->v[l]; return true;
  case PTX_SUB: EACH_LANE r->v[l] = x->v[l] - y->v[l]; return true;
  case PTX_MUL: EACH_LANE r->v[l] = x->v[l] * y->v[l]; return true;
  case PTX_MAD:
  case PTX_FMA: fma_f32(r, x, y, z); return true;
  case PTX_DIV: EACH_LANE r->v[l] = x->v[l] / y->v[l]; return true;
  case PTX_RCP: EACH_LANE r->v[l] = 1.0f / x->v[l]; return true;
  case PTX_SQRT: EACH_LANE r->v[l] = sqrtf(x->v[l]); return true;
  default: return false;
  }
}

/* Bits of a float as an integer that orders the same way, with -0 below +0. */
static inline int32_t order_of(uint32_t bits) {
  return (int32_t)(bits ^ ((uint32_t)((int32_t)bits >> 31) & 0x7fffffffu));
}

static inline bool is_nan(uint32_t bits) {
  return (bits & 0x7fffffffu) > 0x7f800000u;
}

/* The smaller or larger; where one is NaN the other, unless `nan`. */
static void min_max_f32_lanes(f32_lanes *r, const f32_lanes *x, const f32_lanes *y, bool max, bool nan) {
  uint32_t a[PTX_LANES], b[PTX_LANES], out[PTX_LANES], any_nan = 0;
  memcpy(a, x->v, sizeof a);
  memcpy(b, y->v, sizeof b);
  if (max)
    EACH_LANE out[l] = order_of(a[l]) > order_of(b[l]) ? a[l] : b[l];
  else
    EACH_LANE out[l] = order_of(a[l]) < order_of(b[l]) ? a[l] : b[l];
  EACH_LANE any_nan |= (uint32_t)is_nan(a[l]) | (uint32_t)is_nan(b[l]);
  if (any_nan != 0) {
    EACH_LANE {
      if (is_nan(a[l])) out[l] = nan ? a[l] : b[l];
      if (is_nan(b[l])) out[l] = nan ? b[l] : a[l];
    }
  }
  memcpy(r->v, out, sizeof out);
}

static void min_max_f32(const ptx_instruction *i, f32_lanes *r, f32_lanes in[3]) {
  bool max = i->opcode == PTX_MAX, nan = (i->flags & PTX_FLAG_NAN) != 0;
  bool magnitude = (i->flags & PTX_FLAG_ABS) != 0, xorsign = (i->flags & PTX_FLAG_XORSIGN) != 0;
  bool negative[PTX_LANES];
  if (xorsign) EACH_LANE negative[l] = (signbit(in[0].v[l]) != 0) != (signbit(in[1].v[l]) != 0);
  if (magnitude)
    for (int k = 0; k < i->n_operands - 1; k++) EACH_LANE in[k].v[l] = fabsf(in[k].v[l]);
  min_max_f32_lanes(r, &in[0], &in[1], max, nan);
  if (i->n_operands == 4) {
    f32_lanes two = *r;
    min_max_f32_lanes(r, &two, &in[2], max, nan);
  }
  if (xorsign) EACH_LANE r->v[l] = negative[l] ? -r->v[l] : r->v[l];
}

bool alu_f32(alu_call *c) {
  const ptx_instruction *i = c->i;
  bool ftz = (i->flags & PTX_FLAG_FTZ) != 0, sat = (i->flags & PTX_FLAG_SAT) != 0;
  f32_lanes in[3], r;
  for (int k = 0; k < 3 && c->in[k] != NULL; k++) load_f32(&in[k], c->in[k], ftz);
  switch (i->opcode) {
  case PTX_ABS: EACH_LANE r.v[l] = fabsf(in[0].v[l]); break;
  case PTX_NEG: EACH_LANE r.v[l] = -in[0].v[l]; break;
  case PTX_COPYSIGN: /* the sign of the first operand, the value of the second */
    EACH_LANE c->out[l] = (c->in[0][l] & 0x80000000u) | (c->in[1][l] & 0x7fffffffu);
    return true;
  case PTX_MIN:
  case PTX_MAX: min_max_f32(i, &r, in); break;
  default: {
    bool approximate = i->rounding == PTX_ROUND_APPROX || i->rounding == PTX_ROUND_FULL;
    bool ok;
    if (approximate) {
      r = in[0];
      ok = alu_approximate((ptx_opcode)i->opcode, i->rounding == PTX_ROUND_FULL, c->active, r.v, in[1].v);
    } else {
      int mode = host_rounding((ptx_rounding)i->rounding);
      if (mode != FE_TONEAREST) fesetround(mode);
      ok = basic_f32((ptx_opcode)i->opcode, &r, &in[0], &in[1], &in[2]);
      if (mode != FE_TONEAREST) fesetround(FE_TONEAREST);
    }
    if (!ok) return false;
  }
  }
  store_f32(c->out, &r, ftz, sat);
  return true;
}

bool alu_f32x2(alu_call *c) {
  alu_call half = *c;
  ptx_instruction scalar = *c->i;
  uint64_t in[3][PTX_LANES];
  scalar.type[0] = PTX_TYPE_F32;
  half.i = &scalar;
  for (int h = 0; h < 2; h++) {
    for (int k = 0; k < 3 && c->in[k] != NULL; k++) {
      EACH_LANE in[k][l] = c->in[k][l] >> (32 * h) & 0xffffffffu;
      half.in[k] = in[k];
    }
    if (!alu_f32(&half)) return false;
    if (h == 0)
      EACH_LANE c->out[l] = half.out[l];
    else
      EACH_LANE c->out[l] |= half.out[l] << 32;
  }
  return true;
}

static __attribute__((noinline)) bool basic_f64(ptx_opcode op, double *r, const double *x, const double *y,
                                                const double *z) {
  switch (op) {
  case PTX_ADD: EACH_LANE r[l] = x[l] + y[l]; return true;
  case PTX_SUB: EACH_LANE r[l] = x[l] - y[l]; return true;
  case PTX_MUL: EACH_LANE r[l] = x[l] * y[l]; return true;
  case PTX_MAD:
  case PTX_FMA: EACH_LANE r[l] = fma(x[l], y[l], z[l]); return true;
  case PTX_DIV: EACH_LANE r[l] = x[l] / y[l]; return true;
  case PTX_RCP: EACH_LANE r[l] = 1.0 / x[l]; return true;
  case PTX_SQRT: EACH_LANE r[l] = sqrt(x[l]); return true;
  case PTX_RSQRT: EACH_LANE r[l] = 1.0 / sqrt(x[l]); return true;
  default: return false;
  }
}

static double min_max_f64(double x, double y, bool max) {
  if (isnan(x)) return y;
  if (isnan(y)) return x;
  if (x == y) return (signbit(x) != 0) == max ? y : x;
  return (x < y) == max ? y : x;
}

bool alu_f64(alu_call *c) {
  const ptx_instruction *i = c->i;
  double in[3][PTX_LANES], r[PTX_LANES];
  for (int k = 0; k < 3 && c->in[k] != NULL; k++) memcpy(in[k], c->in[k], sizeof in[k]);
  switch (i->opcode) {
  case PTX_ABS: EACH_LANE r[l] = fabs(in[0][l]); break;
  case PTX_NEG: EACH_LANE r[l] = -in[0][l]; break;
  case PTX_COPYSIGN: EACH_LANE r[l] = copysign(in[1][l], in[0][l]); break;
  case PTX_MIN:
  case PTX_MAX: EACH_LANE r[l] = min_max_f64(in[0][l], in[1][l], i->opcode == PTX_MAX); break;
  default: {
    int mode = host_rounding((ptx_rounding)i->rounding);
    if (mode != FE_TONEAREST) fesetround(mode);
    bool ok = basic_f64((ptx_opcode)i->opcode, r, in[0], in[1], in[2]);
    if (mode != FE_TONEAREST) fesetround(FE_TONEAREST);
    if (!ok) return false;
  }
  }
  memcpy(c->out, r, sizeof r);
  return true;
}
