#include "generator/gen_warp.h"

#include "generator/gen_barrier.h"
#include "generator/gen_bits.h"
#include "generator/gen_control.h"
#include "generator/gen_internal.h"
#include "generator/gen_memory.h"

static gen_value all_lanes(gen_builder *b) {
  return gen_i32(b, -1);
}

/* --- shuffles --- */

/* x as I32 or I64, and back. */
static gen_value to_word(gen_builder *b, gen_value x) {
  int bits = gen_bits_of(b, x);
  if (bits == 32 || bits == 64) return gen_bitcast(b, x, bits == 32 ? GEN_I32 : GEN_I64, 1);
  if (bits == 16) return gen_zext(b, gen_bitcast(b, x, GEN_I16, 1), GEN_I32);
  if (bits == 8 || bits == 1) return gen_zext(b, x, GEN_I32);
  gen_misuse(b, "a shuffle of %d bits", bits);
  return gen_i32(b, 0);
}

static gen_value from_word(gen_builder *b, gen_value word, gen_value like) {
  LLVMTypeRef type = LLVMTypeOf(like);
  int bits = gen_bits_of(b, like);
  if (bits == 1) return gen_compare_imm(b, GEN_NE, word, 0);
  if (bits == 8) return gen_trunc(b, word, GEN_I8);
  if (bits == 16) word = gen_trunc(b, word, GEN_I16);
  return LLVMTypeOf(word) == type ? word : LLVMBuildBitCast(b->ir, word, type, "");
}

static gen_value shuffle(gen_builder *b, const char *intrinsic, gen_value x, gen_value lane, int width,
                         int clamp) {
  if (width < 1 || width > 32 || (width & (width - 1))) gen_misuse(b, "a shuffle in segments of %d", width);
  gen_value word = to_word(b, x), c = gen_i32(b, (32 - width) << 8 | clamp);
  LLVMTypeRef i32 = b->types[GEN_I32];
  if (gen_type_of(b, word) == GEN_I32) {
    word = gen_intrinsic(b, intrinsic, i32, (gen_value[]){all_lanes(b), word, lane, c}, 4);
    return from_word(b, word, x);
  }
  gen_value halves = gen_bitcast(b, word, GEN_I32, 2), moved[2];
  for (int i = 0; i < 2; i++)
    moved[i] =
        gen_intrinsic(b, intrinsic, i32, (gen_value[]){all_lanes(b), gen_lane(b, halves, i), lane, c}, 4);
  return from_word(b, gen_bitcast(b, gen_vector(b, moved, 2), GEN_I64, 1), x);
}

#define X(name, mode, clamp)                                                                                 \
  gen_value gen_shuffle_##name(gen_builder *b, gen_value x, gen_value lane, int width) {                     \
    return shuffle(b, "llvm.nvvm.shfl.sync." mode ".i32", x, lane, width, clamp);                            \
  }
GEN_SHUFFLES(X)
#undef X

/* --- votes --- */

gen_value gen_ballot(gen_builder *b, gen_value condition) {
  return gen_intrinsic(b, "llvm.nvvm.vote.ballot.sync", b->types[GEN_I32],
                       (gen_value[]){all_lanes(b), condition}, 2);
}

gen_value gen_warp_any(gen_builder *b, gen_value condition) {
  return gen_intrinsic(b, "llvm.nvvm.vote.any.sync", b->types[GEN_I1], (gen_value[]){all_lanes(b), condition},
                       2);
}

gen_value gen_warp_all(gen_builder *b, gen_value condition) {
  return gen_intrinsic(b, "llvm.nvvm.vote.all.sync", b->types[GEN_I1], (gen_value[]){all_lanes(b), condition},
                       2);
}

gen_value gen_match_any(gen_builder *b, gen_value x) {
  bool wide = gen_type_of(b, x) == GEN_I64;
  return gen_intrinsic(b, wide ? "llvm.nvvm.match.any.sync.i64" : "llvm.nvvm.match.any.sync.i32",
                       b->types[GEN_I32], (gen_value[]){all_lanes(b), x}, 2);
}

gen_value gen_match_all(gen_builder *b, gen_value x) {
  bool wide = gen_type_of(b, x) == GEN_I64;
  LLVMTypeRef pair[] = {b->types[GEN_I32], b->types[GEN_I1]};
  gen_value both =
      gen_intrinsic(b, wide ? "llvm.nvvm.match.all.sync.i64p" : "llvm.nvvm.match.all.sync.i32p",
                    LLVMStructTypeInContext(b->llvm, pair, 2, 0), (gen_value[]){all_lanes(b), x}, 2);
  return LLVMBuildExtractValue(b->ir, both, 1, "");
}

gen_value gen_lanes_below(gen_builder *b) {
  return gen_intrinsic(b, "llvm.nvvm.read.ptx.sreg.lanemask.lt", b->types[GEN_I32], NULL, 0);
}

void gen_warp_sync(gen_builder *b) {
  gen_asm(b, b->none, "bar.warp.sync -1;", "", NULL, 0, GEN_ASM_MEMORY | GEN_ASM_CONVERGENT);
}

#define X(name)                                                                                              \
  gen_value gen_redux_##name(gen_builder *b, gen_value x) {                                                  \
    return gen_intrinsic(b, "llvm.nvvm.redux.sync." #name, b->types[GEN_I32],                                \
                         (gen_value[]){x, all_lanes(b)}, 2);                                                 \
  }
GEN_REDUXES(X)
#undef X

/* --- reductions --- */

void gen_warp_reduce(gen_builder *b, gen_value *values, int n, int width, gen_combine combine, void *user) {
  gen_value others[GEN_MAX_REDUCED];
  if (n > GEN_MAX_REDUCED) {
    gen_misuse(b, "a reduction of %d values at once", n);
    return;
  }
  for (int distance = width / 2; distance >= 1; distance /= 2) {
    for (int i = 0; i < n; i++) others[i] = gen_shuffle_xor(b, values[i], gen_i32(b, distance), 32);
    combine(b, user, values, others, n);
  }
}

int gen_cta_reduce_bytes(int n, int threads) {
  return threads > 32 ? n * (threads / 32) * 8 : 0;
}

/* Shared memory knows no I1; 8 bytes a value keep every type aligned. */
static gen_value slot(gen_builder *b, gen_value scratch, gen_value warp, int i, int warps) {
  return gen_add(b, scratch, gen_mul_imm(b, gen_add_imm(b, warp, (int64_t)i * warps), 8));
}

void gen_cta_reduce(gen_builder *b, gen_value *values, int n, int threads, gen_value scratch,
                    gen_combine combine, void *user) {
  int warps = threads / 32;
  if (threads % 32 || warps < 1 || (warps & (warps - 1)))
    gen_misuse(b, "a reduction over %d threads", threads);
  gen_warp_reduce(b, values, n, 32, combine, user);
  if (warps <= 1 || n > GEN_MAX_REDUCED) return;
  gen_value words[GEN_MAX_REDUCED], lane = gen_laneid(b);
  for (int i = 0; i < n; i++) words[i] = to_word(b, values[i]);
  gen_value warp = gen_lshr(b, gen_tid_x(b), gen_i32(b, 5));
  gen_branch first;
  gen_if(b, &first, gen_compare_imm(b, GEN_EQ, lane, 0), NULL, 0);
  for (int i = 0; i < n; i++) gen_store_shared(b, words[i], slot(b, scratch, warp, i, warps));
  gen_if_end(b, &first);
  gen_cta_sync(b);
  /* Every warp takes all partial results, lane by lane, and reduces them again: no second barrier. */
  gen_value own = gen_and(b, lane, gen_i32(b, warps - 1));
  for (int i = 0; i < n; i++) {
    gen_value word = gen_load_shared(b, gen_type_of(b, words[i]), 1, slot(b, scratch, own, i, warps));
    values[i] = from_word(b, word, values[i]);
  }
  gen_warp_reduce(b, values, n, warps, combine, user);
}
