#include "generator/gen_math.h"

#include <math.h>
#include <stdio.h>

#include "generator/gen_bits.h"
#include "generator/gen_math_internal.h"

gen_accuracy gen_accuracy_for(dtype stored) {
  switch (stored) {
  case DTYPE_F16:
  case DTYPE_BF16:
  case DTYPE_E4M3:
  case DTYPE_E5M2:
  case DTYPE_E2M1: return GEN_ACCURACY_NARROW;
  default: return GEN_ACCURACY_FULL;
  }
}

double gen_math_error(ir_function f, bool f64, double *absolute) {
  switch (f) {
#define X(NAME, f32_ulp, f64_ulp, f32_absolute, f64_absolute)                                                \
  case IR_FN_##NAME: *absolute = f64 ? f64_absolute : f32_absolute; return f64 ? f64_ulp : f32_ulp;
    GEN_MATH_ERRORS(X)
#undef X
  default: *absolute = 0; return 0.5;
  }
}

static const char *function_name(ir_function f) {
  switch (f) {
#define X(NAME, name, arity, reference, meaning)                                                             \
  case IR_FN_##NAME: return #name;
    IR_FUNCTIONS(X)
#undef X
  case IR_FN_COUNT: break;
  }
  return "?";
}

bool gen_math_takes_integers(ir_function f) {
  switch (f) {
  case IR_FN_ABS:
  case IR_FN_NEG:
  case IR_FN_FLOOR:
  case IR_FN_CEIL:
  case IR_FN_ROUND:
  case IR_FN_TRUNC:
  case IR_FN_SIGN:
  case IR_FN_MIN:
  case IR_FN_MAX:
  case IR_FN_RELU:
  case IR_FN_FMA: return true;
  default: return false;
  }
}

/* --- instructions --- */

static const char *suffix(gen_builder *b, gen_value x) {
  LLVMTypeRef type = LLVMTypeOf(x);
  if (LLVMGetTypeKind(type) == LLVMVectorTypeKind)
    return LLVMGetTypeKind(LLVMGetElementType(type)) == LLVMHalfTypeKind ? "v2f16" : "v2bf16";
  return gen_type_of(b, x) == GEN_F64 ? "f64" : "f32";
}

/* "llvm.fabs" on an F32 is llvm.fabs.f32. */
static gen_value overloaded(gen_builder *b, const char *name, const gen_value *args, int n) {
  char full[64];
  snprintf(full, sizeof full, "%s.%s", name, suffix(b, args[0]));
  return gen_intrinsic(b, full, LLVMTypeOf(args[0]), args, n);
}

gen_value gen_math_unary(gen_builder *b, const char *name, gen_value x) {
  return overloaded(b, name, &x, 1);
}

gen_value gen_minimum(gen_builder *b, gen_value x, gen_value y) {
  return overloaded(b, "llvm.minimum", (gen_value[]){x, y}, 2);
}

gen_value gen_maximum(gen_builder *b, gen_value x, gen_value y) {
  return overloaded(b, "llvm.maximum", (gen_value[]){x, y}, 2);
}

gen_value gen_fma(gen_builder *b, gen_value x, gen_value y, gen_value z) {
  return overloaded(b, "llvm.fma", (gen_value[]){x, y, z}, 3);
}

gen_value gen_fneg(gen_builder *b, gen_value x) {
  return LLVMBuildFNeg(b->ir, x, "");
}

gen_value gen_fabs(gen_builder *b, gen_value x) {
  return overloaded(b, "llvm.fabs", &x, 1);
}

gen_value gen_copysign(gen_builder *b, gen_value magnitude, gen_value sign) {
  return overloaded(b, "llvm.copysign", (gen_value[]){magnitude, sign}, 2);
}

/* --- what the functions are made of --- */

bool gen_math_wide(gen_builder *b, gen_value x) {
  return gen_type_of(b, x) == GEN_F64;
}

gen_value gen_like(gen_builder *b, gen_value x, double value) {
  (void)b;
  return LLVMConstReal(LLVMTypeOf(x), value);
}

gen_value gen_bits_like(gen_builder *b, gen_value x, int64_t value) {
  return gen_math_wide(b, x) ? gen_i64(b, value) : gen_i32(b, value);
}

gen_value gen_as_bits(gen_builder *b, gen_value x) {
  return gen_bitcast(b, x, gen_math_wide(b, x) ? GEN_I64 : GEN_I32, 1);
}

gen_value gen_as_float(gen_builder *b, gen_value bits) {
  return gen_bitcast(b, bits, gen_type_of(b, bits) == GEN_I64 ? GEN_F64 : GEN_F32, 1);
}

gen_value gen_polynomial(gen_builder *b, gen_value x, const double *c, int n) {
  gen_value r = gen_like(b, x, c[n - 1]);
  for (int i = n - 2; i >= 0; i--) r = gen_fma(b, r, x, gen_like(b, x, c[i]));
  return r;
}

gen_value gen_clamp(gen_builder *b, gen_value x, double least, double most) {
  gen_value low = gen_like(b, x, least), high = gen_like(b, x, most);
  x = gen_select(b, gen_compare(b, GEN_SGT, x, high), high, x);
  return gen_select(b, gen_compare(b, GEN_SLT, x, low), low, x);
}

/* The sum's last place is 1, so the addition rounds; below it stands the integer itself. */
gen_value gen_nearest(gen_builder *b, gen_value x, gen_value *integer) {
  gen_value magic = gen_like(b, x, gen_math_wide(b, x) ? 0x1.8p52 : 0x1.8p23);
  gen_value sum = gen_fadd(b, x, magic);
  if (integer) *integer = gen_sub(b, gen_as_bits(b, sum), gen_as_bits(b, magic));
  return gen_fsub(b, sum, magic);
}

gen_value gen_quick_recip(gen_builder *b, gen_value x) {
  gen_value one = gen_like(b, x, 1);
  if (gen_math_wide(b, x)) return gen_fdiv(b, one, x);
  gen_value y = gen_approx(b, "rcp.approx.ftz.f32", x); /* within 1 ulp: one step of Newton's halves that */
  return gen_fma(b, y, gen_fma(b, gen_fneg(b, x), y, one), y);
}

gen_value gen_approx(gen_builder *b, const char *instruction, gen_value x) {
  char text[64];
  snprintf(text, sizeof text, "%s $0, $1;", instruction);
  return gen_asm(b, b->types[GEN_F32], text, "=f,f", &x, 1, GEN_ASM_PURE);
}

/* --- functions without an instruction --- */

/* 1 / sqrt(x): the approximation and a step of Newton's, where that gives a number. */
static gen_value rsqrt(gen_builder *b, gen_value x) {
  gen_value one = gen_like(b, x, 1);
  if (gen_math_wide(b, x)) return gen_fdiv(b, one, overloaded(b, "llvm.sqrt", &x, 1));
  gen_value y = gen_approx(b, "rsqrt.approx.f32", x), h = gen_fmul(b, x, y);
  gen_value e = gen_fma(b, gen_fneg(b, h), y, one);
  gen_value better = gen_fma(b, gen_fmul(b, y, gen_like(b, x, 0.5)), e, y);
  /* 0 and infinity, whose product h is NaN */
  return gen_select(b, gen_compare(b, GEN_EQ, better, better), better, y);
}

/* -1, 0 or 1; 0 for NaN, as (x > 0) - (x < 0). */
static gen_value sign(gen_builder *b, gen_value x) {
  gen_value zero = gen_like(b, x, 0);
  gen_value below = gen_select(b, gen_compare(b, GEN_SLT, x, zero), gen_like(b, x, -1), zero);
  return gen_select(b, gen_compare(b, GEN_SGT, x, zero), gen_like(b, x, 1), below);
}

/* --- integers --- */

static gen_value on_integers(gen_builder *b, ir_function f, const gen_value *args) {
  gen_value x = args[0], zero = LLVMConstNull(LLVMTypeOf(x));
  switch (f) {
  case IR_FN_NEG: return gen_sub(b, zero, x);
  case IR_FN_ABS: return gen_select(b, gen_compare(b, GEN_SLT, x, zero), gen_sub(b, zero, x), x);
  case IR_FN_RELU: return gen_select(b, gen_compare(b, GEN_SLT, x, zero), zero, x);
  case IR_FN_MIN: return gen_select(b, gen_compare(b, GEN_SLT, x, args[1]), x, args[1]);
  case IR_FN_MAX: return gen_select(b, gen_compare(b, GEN_SGT, x, args[1]), x, args[1]);
  case IR_FN_FMA: return gen_add(b, gen_mul(b, x, args[1]), args[2]);
  case IR_FN_SIGN: {
    gen_value below = gen_select(b, gen_compare(b, GEN_SLT, x, zero),
                                 gen_sub(b, zero, LLVMConstInt(LLVMTypeOf(x), 1, 0)), zero);
    return gen_select(b, gen_compare(b, GEN_SGT, x, zero), LLVMConstInt(LLVMTypeOf(x), 1, 0), below);
  }
  default: return x; /* the roundings */
  }
}

/* --- all --- */

/* Of f64, what f32's subnormal numbers have, too: there the last digit does not move. */
static gen_value tf32(gen_builder *b, gen_value x) {
  if (gen_type_of(b, x) == GEN_F32) {
    gen_value bits = LLVMBuildBitCast(b->ir, x, b->types[GEN_I32], "");
    return LLVMBuildBitCast(b->ir, gen_and(b, bits, gen_i32(b, ~0x1FFF)), b->types[GEN_F32], "");
  }
  gen_value bits = LLVMBuildBitCast(b->ir, x, b->types[GEN_I64], "");
  gen_value first = gen_and(b, bits, gen_i64(b, ~((INT64_C(1) << 42) - 1)));
  gen_value scaled = gen_fmul(b, x, gen_like(b, x, 0x1p136));
  gen_value small = gen_fmul(b, overloaded(b, "llvm.trunc", &scaled, 1), gen_like(b, x, 0x1p-136));
  gen_value is_small = gen_compare(b, GEN_SLT, overloaded(b, "llvm.fabs", &x, 1), gen_like(b, x, 0x1p-126));
  return gen_select(b, is_small, small, LLVMBuildBitCast(b->ir, first, b->types[GEN_F64], ""));
}

/* What needs no approximation, in f32 and f64; NULL for the others. */
static gen_value exact(gen_builder *b, ir_function f, const gen_value *args) {
  gen_value x = args[0];
  switch (f) {
  case IR_FN_ABS: return overloaded(b, "llvm.fabs", args, 1);
  case IR_FN_NEG: return LLVMBuildFNeg(b->ir, x, "");
  case IR_FN_SQRT: return overloaded(b, "llvm.sqrt", args, 1);
  case IR_FN_RECIP: return gen_fdiv(b, gen_like(b, x, 1), x);
  case IR_FN_FLOOR: return overloaded(b, "llvm.floor", args, 1);
  case IR_FN_CEIL: return overloaded(b, "llvm.ceil", args, 1);
  case IR_FN_TRUNC: return overloaded(b, "llvm.trunc", args, 1);
  case IR_FN_ROUND: return overloaded(b, "llvm.roundeven", args, 1);
  case IR_FN_SIGN: return sign(b, x);
  case IR_FN_TF32: return tf32(b, x);
  case IR_FN_FMA: return overloaded(b, "llvm.fma", args, 3);
  case IR_FN_MIN: return overloaded(b, "llvm.minimum", args, 2);
  case IR_FN_MAX: return overloaded(b, "llvm.maximum", args, 2);
  case IR_FN_RELU: return overloaded(b, "llvm.maximum", (gen_value[]){x, gen_like(b, x, 0)}, 2);
  default: return NULL;
  }
}

static gen_value in_full(gen_builder *b, ir_function f, gen_value x, gen_value y) {
  switch (f) {
  case IR_FN_RSQRT: return rsqrt(b, x);
  case IR_FN_EXP: return gen_exp(b, x, NULL);
  case IR_FN_EXP2: return gen_exp2(b, x);
  case IR_FN_LOG: return gen_log(b, x);
  case IR_FN_LOG2: return gen_log2(b, x);
  case IR_FN_LOG1P: return gen_log1p(b, x);
  case IR_FN_SIN: return gen_sin(b, x, false);
  case IR_FN_COS: return gen_sin(b, x, true);
  case IR_FN_TANH: return gen_tanh(b, x);
  case IR_FN_SIGMOID: return gen_sigmoid(b, x);
  case IR_FN_ERF: return gen_erf(b, x);
  case IR_FN_POW: return gen_pow(b, x, y, false);
  case IR_FN_SILU: return gen_fmul(b, x, gen_sigmoid(b, x));
  case IR_FN_GELU: return gen_gelu(b, x);
  case IR_FN_GELU_TANH: return gen_gelu_tanh(b, x);
  case IR_FN_SOFTPLUS: return gen_softplus(b, x);
  default: return NULL;
  }
}

/* F32 with fewer digits; NULL where full accuracy costs no more. */
static gen_value in_short(gen_builder *b, ir_function f, gen_value x, gen_value y) {
  switch (f) {
  case IR_FN_SQRT: return gen_approx(b, "sqrt.approx.f32", x);
  case IR_FN_RECIP: return gen_approx(b, "rcp.approx.f32", x);
  case IR_FN_RSQRT: return gen_approx(b, "rsqrt.approx.f32", x);
  case IR_FN_EXP: return gen_exp_narrow(b, x);
  case IR_FN_EXP2: return gen_approx(b, "ex2.approx.ftz.f32", x);
  case IR_FN_LOG: return gen_log_narrow(b, x, 1);
  case IR_FN_LOG2: return gen_log_narrow(b, x, 1.4426950408889634);
  case IR_FN_LOG1P: return gen_log1p_narrow(b, x);
  case IR_FN_SIN: return gen_sin_narrow(b, x, false);
  case IR_FN_COS: return gen_sin_narrow(b, x, true);
  case IR_FN_TANH: return gen_tanh_narrow(b, x);
  case IR_FN_SIGMOID: return gen_sigmoid_narrow(b, x);
  case IR_FN_ERF: return gen_erf_narrow(b, x);
  case IR_FN_POW: return gen_pow(b, x, y, true);
  case IR_FN_SILU: return gen_fmul(b, x, gen_sigmoid_narrow(b, x));
  case IR_FN_GELU: return gen_gelu_narrow(b, x);
  case IR_FN_GELU_TANH: return gen_gelu_tanh_narrow(b, x);
  case IR_FN_SOFTPLUS: return gen_softplus_narrow(b, x);
  default: return NULL;
  }
}

/* Where the hardware's function is cheaper than what a narrow result needs. */
static gen_value in_haste(gen_builder *b, ir_function f, gen_value x) {
  switch (f) {
  case IR_FN_SIN: return gen_sin_fast(b, x, false);
  case IR_FN_COS: return gen_sin_fast(b, x, true);
  case IR_FN_TANH: return gen_approx(b, "tanh.approx.f32", x);
  case IR_FN_LOG2: return gen_approx(b, "lg2.approx.ftz.f32", x);
  case IR_FN_LOG: return gen_fmul(b, gen_approx(b, "lg2.approx.ftz.f32", x), gen_f32(b, 0.69314718055994531));
  default: return NULL;
  }
}

/* The reciprocal of a constant, where it and its products are normal numbers; else NULL. */
static gen_value recip_of_constant(gen_builder *b, gen_value y) {
  LLVMBool inexact;
  if (!LLVMIsAConstantFP(y)) return NULL;
  double v = LLVMConstRealGetDouble(y, &inexact);
  return fabs(v) <= 0x1p100 && fabs(v) >= 0x1p-100 ? gen_f32(b, 1 / v) : NULL;
}

/* A product with the divisor's reciprocal, both scaled to where neither leaves the normal numbers for a
 * quotient that is one: what depends on the divisor alone is computed once for all dividends. */
gen_value gen_divide(gen_builder *b, gen_accuracy accuracy, gen_value x, gen_value y) {
  bool single = gen_type_of(b, x) == GEN_F32;
  gen_value constant = single && accuracy >= GEN_ACCURACY_SCORE ? recip_of_constant(b, y) : NULL;
  if (constant) return gen_fmul(b, x, constant);
  if (accuracy < GEN_ACCURACY_NARROW || !single) return gen_fdiv(b, x, y);
  gen_value size = gen_fabs(b, y), one = gen_f32(b, 1);
  gen_value scale =
      gen_select(b, gen_compare(b, GEN_SGT, size, gen_f32(b, 0x1p100)), gen_f32(b, 0x1p-64), one);
  scale = gen_select(b, gen_compare(b, GEN_SLT, size, gen_f32(b, 0x1p-100)), gen_f32(b, 0x1p64), scale);
  gen_value recip = gen_approx(b, "rcp.approx.ftz.f32", gen_fmul(b, y, scale));
  return gen_fmul(b, gen_fmul(b, x, scale), recip);
}

/* The remainder of a quotient that is off by at most one is exact in an fma; f32 has the quotients of f64. */
gen_value gen_float_modulo(gen_builder *b, gen_value x, gen_value y) {
  if (gen_type_of(b, x) == GEN_F32) {
    gen_value r = gen_float_modulo(b, gen_float_cast(b, x, GEN_F64), gen_float_cast(b, y, GEN_F64));
    return gen_float_cast(b, r, GEN_F32);
  }
  gen_value zero = gen_like(b, x, 0), infinity = gen_like(b, x, INFINITY), size = gen_fabs(b, y);
  gen_value q = gen_math_unary(b, "llvm.floor", gen_fdiv(b, x, y));
  gen_value r = gen_fma(b, gen_fneg(b, q), y, x);
  gen_value by_infinity =
      gen_and(b, gen_compare(b, GEN_EQ, size, infinity), gen_compare(b, GEN_SLT, gen_fabs(b, x), infinity));
  r = gen_select(b, by_infinity, x, r);
  /* Where the quotient was rounded up to a whole number, r is below 0 by less than y; its like for negative
   * y. */
  gen_value opposite = gen_xor(b, gen_compare(b, GEN_SLT, r, zero), gen_compare(b, GEN_SLT, y, zero));
  r = gen_select(b, gen_and(b, opposite, gen_compare(b, GEN_NE, r, zero)), gen_fadd(b, r, y), r);
  gen_value outside =
      gen_and(b, gen_compare(b, GEN_SGE, gen_fabs(b, r), size), gen_compare(b, GEN_SLT, size, infinity));
  return gen_select(b, outside, zero, r);
}

arke_status gen_math_to(gen_builder *b, ir_function f, gen_accuracy accuracy, const gen_value *args,
                        gen_value *value, arke_error *err) {
  if (!gen_is_float(b, args[0])) {
    *value = on_integers(b, f, args);
    return ARKE_OK;
  }
  gen_value x = args[0], y = f == IR_FN_POW ? args[1] : NULL, v = NULL;
  if (gen_type_of(b, x) == GEN_F32) {
    if (accuracy == GEN_ACCURACY_FAST) v = in_haste(b, f, x);
    bool term = accuracy == GEN_ACCURACY_TERM && (f == IR_FN_EXP || f == IR_FN_EXP2);
    bool score = accuracy == GEN_ACCURACY_SCORE && f == IR_FN_TANH;
    if ((accuracy >= GEN_ACCURACY_NARROW || term || score) && !v) v = in_short(b, f, x, y);
  }
  if (!v) v = exact(b, f, args);
  if (!v) v = in_full(b, f, x, y);
  if (!v) return error_set(err, ARKE_ERR_INTERNAL, "generate", "no lowering of %s", function_name(f));
  *value = v;
  return ARKE_OK;
}

arke_status gen_math(gen_builder *b, ir_function f, const gen_value *args, gen_value *value,
                     arke_error *err) {
  return gen_math_to(b, f, GEN_ACCURACY_FULL, args, value, err);
}
