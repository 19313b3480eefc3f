/* Warp-group matrix multiply, D[64, n] += A[64, k] * B[k, n], B in shared memory, A there or in registers
 * (PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions"). k is 32 bytes of elements. A warp group is
 * 128 threads; all execute each function.
 *
 * LLVM and the assembler must not move or copy accumulators while a group is in flight. So one asm block
 * holds the fence, all products of a pipeline stage and the commit, another the wait, and both take every
 * accumulator as an operand tied to its result. */
#ifndef ARKE_GENERATOR_GEN_WGMMA_H
#define ARKE_GENERATOR_GEN_WGMMA_H

#include "generator/gen_kernel.h"

#define GEN_WGMMA_MAX_STEPS        36  /* k-steps of 32 bytes in one group */
#define GEN_WGMMA_MAX_ACCUMULATORS 256 /* registers of a thread */

/* Swizzle of an operand in shared memory: chunks of 16 bytes are permuted within rows of so many bytes. */
typedef enum gen_swizzle {
  GEN_SWIZZLE_NONE = 0,
  GEN_SWIZZLE_32 = 32,
  GEN_SWIZZLE_64 = 64,
  GEN_SWIZZLE_128 = 128
} gen_swizzle;

/* One operand of all products of a group. Offsets are bytes from the base descriptor's address. */
typedef struct gen_wgmma_operand {
  bool transposed;                      /* stored with M or N contiguous instead of K: 16-bit types only */
  int step_offset[GEN_WGMMA_MAX_STEPS]; /* of k-step i */
  int tile_offset;                      /* A: from one 64-row tile to the next */
} gen_wgmma_operand;

typedef struct gen_wgmma {
  /* f16, bf16; f32, whose lowest 13 bits do not count (tf32); e4m3 and e5m2, which mix; i8 and u8, which mix.
   * Sums are f32, those of integers i32, and wrap. Sums of 8-bit floats keep 13 bits behind the leading one
   * (docs/emulator.md, "Arithmetic"). */
  dtype type, b_type;
  int n;     /* 8..256, a multiple of 8; of integers above 32 a multiple of 16 */
  int tiles; /* 64-row tiles, each with n / 2 accumulators a thread */
  int k_steps;
  gen_wgmma_operand a, b;
} gen_wgmma;

/* The constant part of a shared-memory descriptor. Leading and stride offsets in bytes mean (PTX ISA,
 * "Strides"): K-major: stride = from 8 rows to the next 8, leading unused under a swizzle; MN-major: stride =
 * from 8 k to the next 8, leading = from one swizzle width of M or N to the next. */
int64_t gen_wgmma_descriptor_bits(gen_swizzle swizzle, int leading_bytes, int stride_bytes);
/* Adds the i32 shared address (a multiple of 16) of the operand's base; i64. */
gen_value gen_wgmma_descriptor(gen_builder *b, gen_value shared, int64_t bits);

/* Elements of K in a step. */
int gen_wgmma_k(dtype type);
/* Type of the sums: GEN_F32 or GEN_I32. */
gen_type gen_wgmma_sum(dtype type);

/* Issues tiles * k_steps products as one group. `acc` holds tiles * n / 2 accumulators, tile by tile, and
 * gets the new ones, which nothing but gen_wgmma_* may touch before the group's wait. Where `accumulate` (i1)
 * is false the old ones are ignored. Accumulator i of tile t, thread h of the group: row 64 t + 16 (h / 32) +
 * h % 32 / 4 + 8 ((i / 2) % 2), column 8 (i / 4) + 2 (h % 4) + i % 2. */
void gen_wgmma_issue(gen_builder *b, const gen_wgmma *w, gen_value a_descriptor, gen_value b_descriptor,
                     gen_value accumulate, gen_value *acc);
/* The same with A in registers: a_words[(tile * k_steps + step) * 4 + i] (i32) of lane l of warp w holds the
 * 4 bytes of row 64 tile + 16 w + l / 4 + 8 (i % 2) from byte 4 (l % 4) + 16 (i / 2) of the step on. They are
 * read until the group has been waited for. */
void gen_wgmma_issue_registers(gen_builder *b, const gen_wgmma *w, const gen_value *a_words,
                               gen_value b_descriptor, gen_value accumulate, gen_value *acc);
/* Waits until at most `pending` groups of this warp group are in flight; with 0 the `n` accumulators are
 * values. They are of one type. */
void gen_wgmma_wait(gen_builder *b, int pending, gen_value *acc, int n);

#endif
