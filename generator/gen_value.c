#include "generator/gen_kernel.h"

#include "generator/gen_internal.h"

gen_value gen_bool(gen_builder *b, bool value) {
  return LLVMConstInt(b->types[GEN_I1], value, 0);
}

gen_value gen_i32(gen_builder *b, int64_t value) {
  return LLVMConstInt(b->types[GEN_I32], (uint64_t)value & UINT32_MAX, 0);
}

gen_value gen_i64(gen_builder *b, int64_t value) {
  return LLVMConstInt(b->types[GEN_I64], (uint64_t)value, 0);
}

gen_value gen_f32(gen_builder *b, double value) {
  return LLVMConstReal(b->types[GEN_F32], value);
}

gen_value gen_undefined(gen_builder *b, gen_type type) {
  return LLVMGetPoison(b->types[type]);
}

gen_type gen_type_of(gen_builder *b, gen_value v) {
  LLVMTypeRef type = LLVMTypeOf(v);
  for (int t = 0; t < GEN_TYPE_COUNT; t++) {
    if (b->types[t] == type) return (gen_type)t;
  }
  return GEN_TYPE_COUNT;
}

bool gen_is_float(gen_builder *b, gen_value v) {
  switch (gen_type_of(b, v)) {
  case GEN_F16:
  case GEN_BF16:
  case GEN_F32:
  case GEN_F64: return true;
  default: return false;
  }
}

/* LLVM's builder asserts on mixed types where assertions are on, and builds nonsense where they are off. */
static gen_value matching(gen_builder *b, const char *operation, gen_value x, gen_value y) {
  if (LLVMTypeOf(x) == LLVMTypeOf(y)) return y;
  gen_misuse(b, "%s of two types", operation);
  return x;
}

#define X(name, llvm)                                                                                        \
  gen_value gen_##name(gen_builder *b, gen_value x, gen_value y) {                                           \
    return LLVMBuild##llvm(b->ir, x, matching(b, #name, x, y), "");                                          \
  }
GEN_BINARIES(X)
#undef X

static gen_value constant_like(gen_value x, int64_t y) {
  return LLVMConstInt(LLVMTypeOf(x), (uint64_t)y, 1);
}

gen_value gen_add_imm(gen_builder *b, gen_value x, int64_t y) {
  return y == 0 ? x : LLVMBuildAdd(b->ir, x, constant_like(x, y), "");
}

gen_value gen_mul_imm(gen_builder *b, gen_value x, int64_t y) {
  return y == 1 ? x : LLVMBuildMul(b->ir, x, constant_like(x, y), "");
}

gen_value gen_ceildiv_imm(gen_builder *b, gen_value x, int64_t y) {
  return gen_udiv(b, gen_add_imm(b, x, y - 1), constant_like(x, y));
}

gen_value gen_umin(gen_builder *b, gen_value x, gen_value y) {
  return gen_select(b, gen_compare(b, GEN_ULT, x, y), x, y);
}

static LLVMIntPredicate integer_predicate(gen_comparison c) {
  switch (c) {
#define X(NAME, llvm)                                                                                        \
  case GEN_##NAME: return LLVMInt##llvm;
    GEN_COMPARISONS(X)
#undef X
  }
  return LLVMIntEQ;
}

static LLVMRealPredicate float_predicate(gen_comparison c) {
  switch (c) {
  case GEN_EQ: return LLVMRealOEQ;
  case GEN_NE: return LLVMRealUNE;
  case GEN_ULT:
  case GEN_SLT: return LLVMRealOLT;
  case GEN_ULE:
  case GEN_SLE: return LLVMRealOLE;
  case GEN_SGT: return LLVMRealOGT;
  case GEN_UGE:
  case GEN_SGE: return LLVMRealOGE;
  }
  return LLVMRealOEQ;
}

gen_value gen_compare(gen_builder *b, gen_comparison c, gen_value x, gen_value y) {
  y = matching(b, "comparison", x, y);
  if (gen_is_float(b, x)) return LLVMBuildFCmp(b->ir, float_predicate(c), x, y, "");
  return LLVMBuildICmp(b->ir, integer_predicate(c), x, y, "");
}

gen_value gen_compare_imm(gen_builder *b, gen_comparison c, gen_value x, int64_t y) {
  return gen_compare(b, c, x, constant_like(x, y));
}

gen_value gen_select(gen_builder *b, gen_value condition, gen_value x, gen_value y) {
  return LLVMBuildSelect(b->ir, condition, x, matching(b, "select", x, y), "");
}

gen_value gen_zext(gen_builder *b, gen_value x, gen_type type) {
  return LLVMBuildZExt(b->ir, x, b->types[type], "");
}

gen_value gen_sext(gen_builder *b, gen_value x, gen_type type) {
  return LLVMBuildSExt(b->ir, x, b->types[type], "");
}

gen_value gen_trunc(gen_builder *b, gen_value x, gen_type type) {
  return LLVMBuildTrunc(b->ir, x, b->types[type], "");
}

gen_value gen_float_cast(gen_builder *b, gen_value x, gen_type type) {
  return LLVMBuildFPCast(b->ir, x, b->types[type], "");
}

gen_value gen_int_to_float(gen_builder *b, gen_value x, gen_type type, bool is_signed) {
  return is_signed ? LLVMBuildSIToFP(b->ir, x, b->types[type], "")
                   : LLVMBuildUIToFP(b->ir, x, b->types[type], "");
}

gen_value gen_vector(gen_builder *b, const gen_value *lanes, int n) {
  gen_value v = LLVMGetPoison(LLVMVectorType(LLVMTypeOf(lanes[0]), (unsigned)n));
  for (int i = 0; i < n; i++) v = LLVMBuildInsertElement(b->ir, v, lanes[i], gen_i32(b, i), "");
  return v;
}

gen_value gen_lane(gen_builder *b, gen_value vector, int i) {
  return LLVMBuildExtractElement(b->ir, vector, gen_i32(b, i), "");
}
