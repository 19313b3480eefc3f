#include "tests/ptx/nearest_code.h"

const small_format small_f16 = {5, 10, 15, 0x7bff}, small_bf16 = {8, 7, 127, 0x7f7f},
                   small_e4m3 = {4, 3, 7, 0x7e}, small_e5m2 = {5, 2, 15, 0x7b}, small_e2m3 = {2, 3, 1, 0x1f},
                   small_e3m2 = {3, 2, 3, 0x1f}, small_e2m1 = {2, 1, 1, 7};

static __float128 power_of_two(int e) {
  __float128 v = 1;
  for (; e > 0; e--) v *= 2;
  for (; e < 0; e++) v /= 2;
  return v;
}

__float128 small_value(const small_format *f, uint32_t code) {
  uint32_t field = code >> f->fraction_bits, fraction = code & ((1u << f->fraction_bits) - 1);
  if (field == 0) return fraction * power_of_two(1 - f->bias - f->fraction_bits);
  return (fraction + (1u << f->fraction_bits)) * power_of_two((int)field - f->bias - f->fraction_bits);
}

uint32_t nearest_code(const small_format *f, __float128 v) {
  bool negative = v < 0;
  if (negative) v = -v;
  uint32_t low = 0, high = f->largest + 1; /* value(low) <= v < value(high), counting on past the largest */
  uint32_t sign = (uint32_t)negative << (f->exponent_bits + f->fraction_bits);
  if (v >= small_value(f, high)) return sign | high;
  while (high - low > 1) {
    uint32_t middle = (low + high) / 2;
    if (small_value(f, middle) <= v)
      low = middle;
    else
      high = middle;
  }
  __float128 below = v - small_value(f, low), above = small_value(f, high) - v;
  bool up = above < below || (above == below && (low & 1) != 0);
  return sign | (up ? high : low);
}
