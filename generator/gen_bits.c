#include "generator/gen_bits.h"

#include <stdio.h>

#include "generator/gen_internal.h"

gen_value gen_bitcast(gen_builder *b, gen_value x, gen_type type, int lanes) {
  LLVMTypeRef to = lanes == 1 ? b->types[type] : LLVMVectorType(b->types[type], (unsigned)lanes);
  if (LLVMTypeOf(x) == to) return x;
  if (gen_bits_of(b, x) != gen_bits_of(b, LLVMGetPoison(to))) {
    gen_misuse(b, "a value of %d bits as one of another size", gen_bits_of(b, x));
    return LLVMGetPoison(to);
  }
  return LLVMBuildBitCast(b->ir, x, to, "");
}

int gen_bits_of(gen_builder *b, gen_value x) {
  static const int bits[] = {
#define X(NAME, bits) bits,
      GEN_TYPES(X)
#undef X
  };
  LLVMTypeRef type = LLVMTypeOf(x);
  int lanes = 1;
  if (LLVMGetTypeKind(type) == LLVMVectorTypeKind) {
    lanes = (int)LLVMGetVectorSize(type);
    type = LLVMGetElementType(type);
  }
  for (int t = 0; t < GEN_TYPE_COUNT; t++) {
    if (b->types[t] == type) return lanes * bits[t];
  }
  return 0;
}

gen_value gen_unknown(gen_builder *b, gen_value x) {
  bool wide = gen_type_of(b, x) == GEN_I64;
  return gen_asm(b, b->types[gen_type_of(b, x)], wide ? "mov.b64 $0, $1;" : "mov.b32 $0, $1;",
                 wide ? "=l,l" : "=r,r", &x, 1, 0);
}

gen_value gen_smin(gen_builder *b, gen_value x, gen_value y) {
  return gen_select(b, gen_compare(b, GEN_SLT, x, y), x, y);
}

gen_value gen_smax(gen_builder *b, gen_value x, gen_value y) {
  return gen_select(b, gen_compare(b, GEN_SGT, x, y), x, y);
}

gen_value gen_umax(gen_builder *b, gen_value x, gen_value y) {
  return gen_select(b, gen_compare(b, GEN_ULT, x, y), y, x);
}

/* LLVM finds the instruction in a product of twice the width. */
static gen_value high_product(gen_builder *b, gen_value x, gen_value y, bool is_signed) {
  int bits = gen_bits_of(b, x);
  LLVMTypeRef wide = LLVMIntTypeInContext(b->llvm, (unsigned)(2 * bits)), own = LLVMTypeOf(x);
  gen_value wx = is_signed ? LLVMBuildSExt(b->ir, x, wide, "") : LLVMBuildZExt(b->ir, x, wide, "");
  gen_value wy = is_signed ? LLVMBuildSExt(b->ir, y, wide, "") : LLVMBuildZExt(b->ir, y, wide, "");
  gen_value product = LLVMBuildMul(b->ir, wx, wy, "");
  return LLVMBuildTrunc(b->ir, LLVMBuildLShr(b->ir, product, LLVMConstInt(wide, (unsigned)bits, 0), ""), own,
                        "");
}

gen_value gen_umulhi(gen_builder *b, gen_value x, gen_value y) {
  return high_product(b, x, y, false);
}

gen_value gen_smulhi(gen_builder *b, gen_value x, gen_value y) {
  return high_product(b, x, y, true);
}

/* An intrinsic that counts: of x's type, with a flag for zeros where it has one. */
static gen_value count(gen_builder *b, const char *name, gen_value x, bool flag) {
  char full[32];
  bool wide = gen_type_of(b, x) == GEN_I64;
  snprintf(full, sizeof full, "llvm.%s.%s", name, wide ? "i64" : "i32");
  gen_value n = gen_intrinsic(b, full, LLVMTypeOf(x), (gen_value[]){x, gen_bool(b, false)}, flag ? 2 : 1);
  return wide ? gen_trunc(b, n, GEN_I32) : n;
}

gen_value gen_popcount(gen_builder *b, gen_value x) {
  return count(b, "ctpop", x, false);
}

gen_value gen_leading_zeros(gen_builder *b, gen_value x) {
  return count(b, "ctlz", x, true);
}

gen_value gen_trailing_zeros(gen_builder *b, gen_value x) {
  return count(b, "cttz", x, true);
}

gen_value gen_reverse_bits(gen_builder *b, gen_value x) {
  const char *name = gen_type_of(b, x) == GEN_I64 ? "llvm.bitreverse.i64" : "llvm.bitreverse.i32";
  return gen_intrinsic(b, name, LLVMTypeOf(x), &x, 1);
}

gen_value gen_bit_field(gen_builder *b, gen_value x, int position, int n, bool is_signed) {
  int bits = gen_bits_of(b, x), above = bits - position - n;
  if (position < 0 || n < 1 || above < 0) {
    gen_misuse(b, "bits %d to %d of %d", position, position + n, bits);
    return x;
  }
  LLVMTypeRef type = LLVMTypeOf(x);
  if (is_signed) {
    gen_value up = above ? gen_shl(b, x, LLVMConstInt(type, (unsigned)above, 0)) : x;
    return n < bits ? gen_ashr(b, up, LLVMConstInt(type, (unsigned)(bits - n), 0)) : up;
  }
  gen_value down = position ? gen_lshr(b, x, LLVMConstInt(type, (unsigned)position, 0)) : x;
  return above ? gen_and(b, down, LLVMConstInt(type, (1ull << n) - 1, 0)) : down;
}

gen_value gen_bit_field_at(gen_builder *b, gen_value x, gen_value position, int n) {
  uint64_t mask = n >= 64 ? ~0ull : (1ull << n) - 1;
  return gen_and(b, gen_lshr(b, x, position), LLVMConstInt(LLVMTypeOf(x), mask, 0));
}

gen_value gen_permute_bytes(gen_builder *b, gen_value low, gen_value high, gen_value selector) {
  return gen_intrinsic(b, "llvm.nvvm.prmt", b->types[GEN_I32], (gen_value[]){low, high, selector}, 3);
}

gen_value gen_funnel_shift(gen_builder *b, gen_value low, gen_value high, gen_value n) {
  return gen_intrinsic(b, "llvm.fshr.i32", b->types[GEN_I32], (gen_value[]){high, low, n}, 3);
}

static gen_type integer_of(gen_builder *b, gen_type type) {
  switch (type) {
  case GEN_F16:
  case GEN_BF16: return GEN_I16;
  case GEN_F32: return GEN_I32;
  case GEN_F64: return GEN_I64;
  default: gen_misuse(b, "the order of floats for another type"); return GEN_I32;
  }
}

/* Negative numbers have all bits inverted, others the sign bit set. */
gen_value gen_float_to_ordered(gen_builder *b, gen_value x) {
  gen_type type = integer_of(b, gen_type_of(b, x));
  gen_value bits = gen_bitcast(b, x, type, 1);
  unsigned n = (unsigned)gen_bits_of(b, bits);
  LLVMTypeRef t = LLVMTypeOf(bits);
  gen_value sign = gen_ashr(b, bits, LLVMConstInt(t, n - 1, 0));
  return gen_xor(b, bits, gen_or(b, sign, LLVMConstInt(t, 1ull << (n - 1), 0)));
}

gen_value gen_ordered_to_float(gen_builder *b, gen_value x, gen_type type) {
  unsigned n = (unsigned)gen_bits_of(b, x);
  LLVMTypeRef t = LLVMTypeOf(x);
  gen_value negative =
      gen_ashr(b, gen_xor(b, x, LLVMConstInt(t, 1ull << (n - 1), 0)), LLVMConstInt(t, n - 1, 0));
  gen_value bits = gen_xor(b, x, gen_or(b, negative, LLVMConstInt(t, 1ull << (n - 1), 0)));
  return gen_bitcast(b, bits, type, 1);
}
