#include "generator/gen_math.h"

#include <stdio.h>

#include "generator/gen_internal.h"

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

/* "llvm.fabs" on an F32 is llvm.fabs.f32. */
static gen_value overloaded(gen_builder *b, const char *name, const gen_value *args, int n) {
  char full[64];
  bool wide = gen_type_of(b, args[0]) == GEN_F64;
  snprintf(full, sizeof full, "%s.%s", name, wide ? "f64" : "f32");
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

static gen_value approximation(gen_builder *b, const char *instruction, gen_value x) {
  char text[64];
  snprintf(text, sizeof text, "%s $0, $1;", instruction);
  return gen_asm(b, b->types[GEN_F32], text, "=f,f", &x, 1, GEN_ASM_PURE);
}

static gen_value constant_like(gen_value x, double value) {
  return LLVMConstReal(LLVMTypeOf(x), value);
}

/* --- functions without an instruction --- */

/* e^x = 2^hi * (1 + lo ln 2), where hi + lo = x log2 e to twice the precision: the product alone would lose a
 * bit for every doubling of x. The clamp keeps infinities out of lo; both ends are past where f32 ends. */
static gen_value exponential(gen_builder *b, gen_value x) {
  gen_value most = gen_f32(b, 130), least = gen_f32(b, -150);
  x = gen_select(b, gen_compare(b, GEN_SGT, x, most), most, x);
  x = gen_select(b, gen_compare(b, GEN_SLT, x, least), least, x);
  const double log2e = 1.4426950408889634, log2e_high = (double)(float)log2e;
  gen_value high_factor = gen_f32(b, log2e_high), low_factor = gen_f32(b, log2e - log2e_high);
  gen_value hi = gen_fmul(b, x, high_factor);
  gen_value rest = overloaded(b, "llvm.fma", (gen_value[]){x, high_factor, LLVMBuildFNeg(b->ir, hi, "")}, 3);
  gen_value lo = overloaded(b, "llvm.fma", (gen_value[]){x, low_factor, rest}, 3);
  gen_value correction =
      overloaded(b, "llvm.fma", (gen_value[]){lo, gen_f32(b, 0.6931471805599453), gen_f32(b, 1)}, 3);
  return gen_fmul(b, approximation(b, "ex2.approx.f32", hi), correction);
}

static gen_value sigmoid(gen_builder *b, gen_value x) {
  gen_value e = exponential(b, LLVMBuildFNeg(b->ir, x, ""));
  return gen_fdiv(b, gen_f32(b, 1), gen_fadd(b, gen_f32(b, 1), e));
}

/* -1, 0 or 1; 0 for NaN, as (x > 0) - (x < 0). */
static gen_value sign(gen_builder *b, gen_value x) {
  gen_value zero = constant_like(x, 0);
  gen_value below = gen_select(b, gen_compare(b, GEN_SLT, x, zero), constant_like(x, -1), zero);
  return gen_select(b, gen_compare(b, GEN_SGT, x, zero), constant_like(x, 1), below);
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

/* What needs no approximation, in f32 and f64; NULL for the others. */
static gen_value exact(gen_builder *b, ir_function f, const gen_value *args) {
  gen_value x = args[0];
  switch (f) {
  case IR_FN_ABS: return overloaded(b, "llvm.fabs", args, 1);
  case IR_FN_NEG: return LLVMBuildFNeg(b->ir, x, "");
  case IR_FN_SQRT: return overloaded(b, "llvm.sqrt", args, 1);
  case IR_FN_RECIP: return gen_fdiv(b, constant_like(x, 1), x);
  case IR_FN_FLOOR: return overloaded(b, "llvm.floor", args, 1);
  case IR_FN_CEIL: return overloaded(b, "llvm.ceil", args, 1);
  case IR_FN_TRUNC: return overloaded(b, "llvm.trunc", args, 1);
  case IR_FN_ROUND: return overloaded(b, "llvm.roundeven", args, 1);
  case IR_FN_SIGN: return sign(b, x);
  case IR_FN_FMA: return overloaded(b, "llvm.fma", args, 3);
  case IR_FN_MIN: return overloaded(b, "llvm.minimum", args, 2);
  case IR_FN_MAX: return overloaded(b, "llvm.maximum", args, 2);
  case IR_FN_RELU: return overloaded(b, "llvm.maximum", (gen_value[]){x, constant_like(x, 0)}, 2);
  default: return NULL;
  }
}

static gen_value approximate(gen_builder *b, ir_function f, gen_value x) {
  switch (f) {
  case IR_FN_RSQRT: return approximation(b, "rsqrt.approx.f32", x);
  case IR_FN_EXP2: return approximation(b, "ex2.approx.f32", x);
  case IR_FN_LOG2: return approximation(b, "lg2.approx.f32", x);
  case IR_FN_LOG: return gen_fmul(b, approximation(b, "lg2.approx.f32", x), gen_f32(b, 0.6931471805599453));
  case IR_FN_EXP: return exponential(b, x);
  case IR_FN_SIGMOID: return sigmoid(b, x);
  case IR_FN_SILU: return gen_fmul(b, x, sigmoid(b, x));
  default: return NULL;
  }
}

arke_status gen_math(gen_builder *b, ir_function f, const gen_value *args, gen_value *value,
                     arke_error *err) {
  if (!gen_is_float(b, args[0])) {
    *value = on_integers(b, f, args);
    return ARKE_OK;
  }
  bool wide = gen_type_of(b, args[0]) == GEN_F64;
  *value = exact(b, f, args);
  if (!*value && !wide) *value = approximate(b, f, args[0]);
  if (*value) return ARKE_OK;
  return error_set(err, ARKE_ERR_UNSUPPORTED, "generate", "no lowering of %s in %s yet", function_name(f),
                   wide ? "f64" : "f32");
}
