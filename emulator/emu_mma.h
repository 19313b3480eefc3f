/* Arithmetic of one matrix instruction of Hopper's tensor cores, isolated so that a comparison with hardware
 * can correct a detail in one place. Source: measurements in the project's reference (one instruction at a
 * time): all products are exact, every product and the old accumulator are aligned to the largest exponent
 * among them and truncated there, summed exactly, and the sum is rounded toward zero. */
#ifndef ARKE_EMULATOR_EMU_MMA_H
#define ARKE_EMULATOR_EMU_MMA_H

#include <stdbool.h>
#include <stdint.h>

#define MMA_MAX_ROWS 256
#define MMA_MAX_K    32

/* X(NAME, bits, exponent bits, mantissa bits, bias, fraction bits of the terms, of the result, elements of K
 * per instruction). A term's fraction bits are relative to the largest exponent, the result's to its own.
 * TF32 is a 32-bit word whose low 13 bits are ignored. */
#define MMA_TYPES(X)                                                                                         \
  X(BF16, 16, 8, 7, 127, 25, 23, 16)                                                                         \
  X(F16, 16, 5, 10, 15, 25, 23, 16)                                                                          \
  X(TF32, 32, 8, 10, 127, 25, 23, 8)                                                                         \
  X(E4M3, 8, 4, 3, 7, 13, 13, 32)                                                                            \
  X(E5M2, 8, 5, 2, 15, 13, 13, 32)

typedef enum mma_type {
#define X(NAME, ...) MMA_##NAME,
  MMA_TYPES(X)
#undef X
} mma_type;

int mma_type_bits(mma_type t);
int mma_type_k(mma_type t);

/* Rows of A or columns of B for one k-step, decoded: value = mantissa * 2^(exponent - mantissa bits). A zero
 * has an exponent far below all others. `special` marks a row that holds an infinity or a NaN. */
typedef struct mma_operand {
  mma_type type;
  int rows, k;
  bool any_special;
  bool special[MMA_MAX_ROWS];
  int16_t mantissa[MMA_MAX_K][MMA_MAX_ROWS];
  int16_t exponent[MMA_MAX_K][MMA_MAX_ROWS];
  float value[MMA_MAX_ROWS][MMA_MAX_K]; /* filled for special rows only */
} mma_operand;

/* raw: rows x k elements, row after row, each of the type's bits. negate: multiply by -1 (wgmma's scale). */
void mma_decode(mma_operand *o, mma_type t, const void *raw, int rows, bool negate);

/* d[n] = a's row `row` times b's columns 0..b->rows-1 plus (if accumulate) d[n], rounded toward zero. */
void mma_row_f32(const mma_operand *a, int row, const mma_operand *b, bool accumulate, float *d);
/* The same for f16 accumulators, as bits: the sum is rounded once, to nearest even. */
void mma_row_f16(const mma_operand *a, int row, const mma_operand *b, bool accumulate, uint16_t *d);

/* Integer form: d += a * b over k 8-bit elements; wraps, or saturates at int32's ends. */
void mma_row_s32(const uint8_t *a, bool a_signed, const uint8_t *b, bool b_signed, int n, int k,
                 bool accumulate, bool saturate, int32_t *d);

#endif
