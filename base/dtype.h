/* Element types: the one list. Names, sizes, DLPack codes and conversions come from it. */
#ifndef ARKE_BASE_DTYPE_H
#define ARKE_BASE_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* X(NAME, name, bits, class, DLPack code, unit roundoff or 0 for integers).
 * DLPack 0.6 (Debian 12) has no 8- and 4-bit float codes; the numbers are those of DLPack 1.1. */
#define DTYPES(X)                                                                                            \
  X(F64, f64, 64, FLOAT, 2, 0x1p-53)                                                                         \
  X(F32, f32, 32, FLOAT, 2, 0x1p-24)                                                                         \
  X(F16, f16, 16, FLOAT, 2, 0x1p-11)                                                                         \
  X(BF16, bf16, 16, FLOAT, 4, 0x1p-8)                                                                        \
  X(E4M3, e4m3, 8, FLOAT, 10, 0x1p-4)                                                                        \
  X(E5M2, e5m2, 8, FLOAT, 12, 0x1p-3)                                                                        \
  X(E2M1, e2m1, 4, FLOAT, 17, 0x1p-2)                                                                        \
  X(I64, i64, 64, INT, 0, 0)                                                                                 \
  X(I32, i32, 32, INT, 0, 0)                                                                                 \
  X(I16, i16, 16, INT, 0, 0)                                                                                 \
  X(I8, i8, 8, INT, 0, 0)                                                                                    \
  X(U8, u8, 8, UINT, 1, 0)                                                                                   \
  X(I4, i4, 4, INT, 0, 0)                                                                                    \
  X(BOOL, bool, 8, BOOL, 6, 0)

typedef enum dtype {
#define X(NAME, name, bits, class, code, roundoff) DTYPE_##NAME,
  DTYPES(X)
#undef X
      DTYPE_COUNT,
} dtype;

typedef enum dtype_class {
  DTYPE_CLASS_FLOAT,
  DTYPE_CLASS_INT,
  DTYPE_CLASS_UINT,
  DTYPE_CLASS_BOOL
} dtype_class;

const char *dtype_name(dtype t);
bool dtype_from_name(const char *name, dtype *t);
int dtype_bits(dtype t);
dtype_class dtype_class_of(dtype t);
double dtype_roundoff(dtype t); /* half a unit in the last place of 1; 0 for integers */
double dtype_max(dtype t);      /* largest finite value */
bool dtype_from_dlpack(uint8_t code, uint8_t bits, uint16_t lanes, dtype *t);
uint8_t dtype_dlpack_code(dtype t);
/* Bytes of n elements (4-bit types are packed two a byte, low half first). */
int64_t dtype_bytes(dtype t, int64_t n);

/* Element i of a packed array as a double, exactly (i64 beyond 2^53 rounds). */
double dtype_load(dtype t, const void *data, int64_t i);
/* Stores with one rounding to nearest even; integers, e4m3, e5m2, e2m1 saturate; NaN becomes 0 in integers,
 * true in bool, and 6 in e2m1, which has no NaN. */
void dtype_store(dtype t, void *data, int64_t i, double value);
/* The value a store followed by a load gives. */
double dtype_round(dtype t, double value);
/* The same of n values, from[i] to to[i]; they may be the same array. */
void dtype_round_all(dtype t, const double *from, double *to, int64_t n);

#endif
