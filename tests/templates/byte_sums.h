/* How far sums of products of 8-bit floats may be off (docs/emulator.md, "Arithmetic"), as a part of the sum
 * of absolute values: for normal numbers, of which matrix units add at most 128 before the sum goes on in
 * f32. */
#ifndef ARKE_TESTS_BYTE_SUMS_H
#define ARKE_TESTS_BYTE_SUMS_H

#include "ir/ir.h"

static inline double byte_sums_error(const ir_problem *p) {
  int bytes = 0;
  for (int i = 0; i < p->op->n_inputs; i++) {
    dtype t = ir_tensor_dtype(p, i);
    bytes += t == DTYPE_E4M3 || t == DTYPE_E5M2;
  }
  return bytes > 1 ? 0x1p-11 : 0;
}

#endif
