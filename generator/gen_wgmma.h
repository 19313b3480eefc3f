/* Warp-group matrix multiply, D[64, n] += A[64, 16] * B[16, n], A and B in shared memory (PTX ISA,
 * "Asynchronous Warpgroup Level Matrix Instructions"). A warp group is 128 threads; all execute each
 * function.
 *
 * LLVM and the assembler must not move or copy accumulators while a group is in flight. So one asm block
 * holds the fence, all products of a pipeline stage and the commit, another the wait, and both take every
 * accumulator as an operand tied to its result. */
#ifndef ARKE_GENERATOR_GEN_WGMMA_H
#define ARKE_GENERATOR_GEN_WGMMA_H

#include "generator/gen_kernel.h"

#define GEN_WGMMA_MAX_STEPS        8   /* k-steps of 16 elements in one group */
#define GEN_WGMMA_MAX_ACCUMULATORS 256 /* f32 registers of a thread */

/* Swizzle of an operand in shared memory: chunks of 16 bytes are permuted within rows of so many bytes. */
typedef enum gen_swizzle {
  GEN_SWIZZLE_NONE = 0,
  GEN_SWIZZLE_32 = 32,
  GEN_SWIZZLE_64 = 64,
  GEN_SWIZZLE_128 = 128
} gen_swizzle;

/* One operand of all products of a group. Offsets are bytes from the base descriptor's address. */
typedef struct gen_wgmma_operand {
  bool transposed;                      /* stored with M or N contiguous instead of K */
  int step_offset[GEN_WGMMA_MAX_STEPS]; /* of k-step i */
  int tile_offset;                      /* A: from one 64-row tile to the next */
} gen_wgmma_operand;

typedef struct gen_wgmma {
  dtype type; /* f16 or bf16; accumulation is f32 */
  int n;      /* 8..256, a multiple of 8 */
  int tiles;  /* 64-row tiles, each with n / 2 accumulators a thread */
  int k_steps;
  gen_wgmma_operand a, b;
} gen_wgmma;

/* The constant part of a shared-memory descriptor. Leading and stride offsets in bytes mean (PTX ISA,
 * "Strides"): K-major: stride = from 8 rows to the next 8, leading unused under a swizzle; MN-major: stride =
 * from 8 k to the next 8, leading = from one swizzle width of M or N to the next. */
int64_t gen_wgmma_descriptor_bits(gen_swizzle swizzle, int leading_bytes, int stride_bytes);
/* Adds the i32 shared address (a multiple of 16) of the operand's base; i64. */
gen_value gen_wgmma_descriptor(gen_builder *b, gen_value shared, int64_t bits);

/* Issues tiles * k_steps products as one group. `acc` holds tiles * n / 2 f32 accumulators, tile by tile, and
 * gets the new ones, which nothing but gen_wgmma_* may touch before the group's wait. Where `accumulate` (i1)
 * is false the old ones are ignored. Accumulator i of tile t, thread h of the group: row 64 t + 16 (h / 32) +
 * h % 32 / 4 + 8 ((i / 2) % 2), column 8 (i / 4) + 2 (h % 4) + i % 2. */
void gen_wgmma_issue(gen_builder *b, const gen_wgmma *w, gen_value a_descriptor, gen_value b_descriptor,
                     gen_value accumulate, gen_value *acc);
/* Waits until at most `pending` groups of this warp group are in flight; with 0 the `n` accumulators are
 * values. */
void gen_wgmma_wait(gen_builder *b, int pending, gen_value *acc, int n);

#endif
