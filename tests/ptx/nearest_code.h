/* A slow, independent way to round: looks for the nearest code of a small format among all of them. */
#ifndef ARKE_TESTS_NEAREST_CODE_H
#define ARKE_TESTS_NEAREST_CODE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct small_format {
  int exponent_bits, fraction_bits, bias;
  uint32_t largest; /* largest finite positive code */
} small_format;

extern const small_format small_f16, small_bf16, small_e4m3, small_e5m2, small_e2m3, small_e3m2, small_e2m1;

/* Value of a finite positive code. */
__float128 small_value(const small_format *f, uint32_t code);
/* Code with sign for a finite value: nearest, ties to the even code. Past the largest finite value: largest
 * + 1. */
uint32_t nearest_code(const small_format *f, __float128 v);

#endif
