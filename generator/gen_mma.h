/* Matrix products of a warp, D[16, 8] = A[16, k] * B[k, 8] + D, operands in registers, and how they get there
 * from shared memory (PTX ISA, "Matrix multiply-accumulate operation using mma instruction" and "ldmatrix").
 * A whole converged warp executes each function.
 *
 * k is 32 bytes of elements: 16 of f16 and bf16, 32 of 8-bit types, 8 of tf32. Fragments are words of 4
 * bytes, of lane l with g = l / 4 and t = l % 4:
 *   A  word i: row g + 8 (i % 2), bytes 4 t + 16 (i / 2) … of k
 *   B  word i: column g, bytes 4 t + 16 i … of k
 *   D  value i: row g + 8 (i / 2), column 2 t + i % 2 */
#ifndef ARKE_GENERATOR_GEN_MMA_H
#define ARKE_GENERATOR_GEN_MMA_H

#include "generator/gen_kernel.h"

enum { GEN_MMA_M = 16, GEN_MMA_N = 8, GEN_MMA_K_BYTES = 32 };

/* X(NAME, name of A's and B's type, size of an element in bits, type of D) */
#define GEN_MMA_TYPES(X)                                                                                     \
  X(BF16, "bf16", 16, F32)                                                                                   \
  X(F16, "f16", 16, F32)                                                                                     \
  X(TF32, "tf32", 32, F32) /* an f32 whose lowest 13 bits do not count */                                    \
  X(E4M3, "e4m3", 8, F32)  /* from sm_89 on */                                                               \
  X(E5M2, "e5m2", 8, F32)                                                                                    \
  X(S8, "s8", 8, I32)                                                                                        \
  X(U8, "u8", 8, I32)

typedef enum gen_mma_type {
#define X(NAME, name, bits, sum) GEN_MMA_##NAME,
  GEN_MMA_TYPES(X)
#undef X
} gen_mma_type;

/* One product. A's and B's types are the same, but for 8-bit floats and 8-bit integers, which mix. Integer
 * sums wrap. `d` has 4 values. */
void gen_mma(gen_builder *b, gen_mma_type a_type, gen_mma_type b_type, const gen_value a[4],
             const gen_value b_words[2], gen_value d[4]);

/* Loads four 8x8 matrices of 16-bit elements: lane l names the shared address of row l % 8 of matrix l / 8
 * (16 bytes, aligned); word j of lane l is row l / 4, columns 2 (l % 4) and the next of matrix j; transposed:
 * column l / 4, rows 2 (l % 4) and the next. */
void gen_ldmatrix_x4(gen_builder *b, bool transposed, gen_value address, gen_value words[4]);

#endif
