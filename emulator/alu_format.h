/* The floating-point formats of PTX (PTX ISA 5.2.3) as bits, and exact conversion between them and double or
 * 64-bit integers with every rounding mode. Pure functions. */
#ifndef ARKE_EMULATOR_ALU_FORMAT_H
#define ARKE_EMULATOR_ALU_FORMAT_H

#include <stdbool.h>
#include <stdint.h>

#include "emulator/ptx_program.h"

/* X(NAME, exponent bits, fraction bits, bias, has infinity, largest finite code, NaN code (0: none)).
 * tf32 stands in the upper 19 bits of a word; the code here is those bits. */
#define ALU_FORMATS(X)                                                                                       \
  X(F16, 5, 10, 15, true, 0x7bff, 0x7fff)                                                                    \
  X(BF16, 8, 7, 127, true, 0x7f7f, 0x7fff)                                                                   \
  X(F32, 8, 23, 127, true, 0x7f7fffff, 0x7fffffff)                                                           \
  X(F64, 11, 52, 1023, true, 0x7fefffffffffffff, 0x7fffffffffffffff)                                         \
  X(TF32, 8, 10, 127, true, 0x3fbff, 0x3ffff)                                                                \
  X(E4M3, 4, 3, 7, false, 0x7e, 0x7f)                                                                        \
  X(E5M2, 5, 2, 15, true, 0x7b, 0x7f)                                                                        \
  X(E2M3, 2, 3, 1, false, 0x1f, 0)                                                                           \
  X(E3M2, 3, 2, 3, false, 0x1f, 0)                                                                           \
  X(E2M1, 2, 1, 1, false, 0x7, 0)

typedef struct alu_format {
  int exponent_bits, fraction_bits, bias;
  bool has_infinity;
  uint64_t largest, nan;
} alu_format;

/* The format of a type's elements (F16 for F16 and F16X2), or NULL. */
const alu_format *alu_format_of(ptx_type type);

/* m · 2^exponent, `odd_bit` set if a little more than that, as a code of the format. Overflow gives infinity,
 * or the largest finite value where rounding points there, where the format has no infinity, or if
 * `saturate`. */
uint64_t alu_round(const alu_format *f, bool negative, uint64_t m, int exponent, bool odd_bit,
                   ptx_rounding mode, bool saturate);
/* A double likewise. NaN becomes the format's NaN, or its largest finite value where it has none. */
uint64_t alu_encode(const alu_format *f, double v, ptx_rounding mode, bool saturate);
/* The value of a code; exact. Bits above the format's are ignored. */
double alu_decode(const alu_format *f, uint64_t code);

/* x · y + z of up to 24-bit significands, rounded to double so that a second rounding to at most 24 bits
 * gives what one rounding would have given (the last bit is set when the sum is inexact). */
double alu_fma_odd(double x, double y, double z);

/* UE8M0: powers of two; the sign is dropped, 0xff is NaN. Rounds towards zero or up. */
uint32_t alu_encode_ue8m0(double v, ptx_rounding mode, bool saturate);
double alu_decode_ue8m0(uint32_t code);

/* Nearest-even float to bf16 and to f16, the usual case. */
static inline uint32_t alu_bf16_of_f32(uint32_t bits) {
  if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fff;
  return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
uint32_t alu_f16_of_f32(uint32_t bits);
uint32_t alu_f32_of_f16(uint32_t bits);

#endif
